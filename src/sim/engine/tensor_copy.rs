//! The boxes of TMA copies: which bytes of the tensor correspond to which bytes of shared memory.
//! Every simulated tensor copy calls [`segments`] for the parts of its box that are inside the
//! tensor.

use crate::arch::{Fill, TensorMapDesc};
use crate::ir::types::Scalar;
use crate::sim::memory::agent::Coords;
#[cfg(test)]
use crate::sim::memory::agent::MAX_COORDS;

/// Bytes of a box that are inside the tensor and contiguous on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Segment {
    /// Offset from the start of the box, with contiguous rows.
    pub(in crate::sim) shared: usize,
    /// Offset from the start of the tensor.
    pub(in crate::sim) global: usize,
    pub(in crate::sim) bytes: usize,
}

/// Calls `f` with the parts of a box that are inside the tensor.
pub(in crate::sim) fn segments(map: &TensorMapDesc, coords: &Coords, f: &mut dyn FnMut(Segment)) {
    let (rank, size) = (map.rank(), map.elem().size_bytes() as usize);
    if map.pixel_box().is_some() {
        return columns(map, coords, f);
    }
    let mut extents = [1; 5];
    for (extent, found) in extents.iter_mut().zip(map.box_extents()) {
        *extent = found as i64;
    }
    let (dims, strides) = (map.dims(), map.strides_bytes());
    let step = |dim: usize| i64::from(map.element_strides().get(dim).copied().unwrap_or(1));
    // The coordinate of the box's element `i` along a dimension, if it is inside the tensor.
    let inside = |dim: usize, i: i64| {
        let at = i64::from(coords[dim]) + i * step(dim);
        u64::try_from(at).ok().filter(|at| dims.get(dim).is_some_and(|extent| at < extent))
    };
    let rows: i64 = extents[1..].iter().product();
    for row in 0..rows {
        let (mut rest, mut base) = (row, Some(0));
        for dim in 1..rank {
            let i = rest % extents[dim];
            rest /= extents[dim];
            base = base.and_then(|base| inside(dim, i).map(|at| base + at * strides[dim]));
        }
        let Some(base) = base else { continue };
        let first = (row * extents[0]) as usize * size;
        let at = |i: i64| (first + i as usize * size, base as usize);
        if step(0) == 1 {
            let start = i64::from(coords[0]);
            let (lo, hi) = ((-start).max(0), (dims[0] as i64 - start).min(extents[0]));
            if lo < hi {
                let (shared, base) = at(lo);
                let (global, bytes) = ((start + lo) as usize * size, (hi - lo) as usize * size);
                f(Segment { shared, global: base + global, bytes });
            }
            continue;
        }
        for i in 0..extents[0] {
            if let Some(coordinate) = inside(0, i) {
                let (shared, base) = at(i);
                f(Segment { shared, global: base + coordinate as usize * size, bytes: size });
            }
        }
    }
}

/// The same in im2col mode, where each pixel is a row of channels.
fn columns(map: &TensorMapDesc, coords: &Coords, f: &mut dyn FnMut(Segment)) {
    let size = map.elem().size_bytes() as i64;
    let channels = map.box_extents().next().unwrap_or(0) as i64;
    for (row, mut pixel) in (0..).zip(map.columns(coords)) {
        let start = std::mem::take(&mut pixel[0]);
        let end = map.dims()[0] as i64;
        let Some(base) = map.global_offset(&pixel[..map.rank()]) else { continue };
        let (lo, hi) = ((-start).max(0), (end - start).min(channels));
        if lo < hi {
            f(Segment {
                shared: ((row * channels + lo) * size) as usize,
                global: base as usize + ((start + lo) * size) as usize,
                bytes: ((hi - lo) * size) as usize,
            });
        }
    }
}

/// Fills a box with the value for elements outside the tensor.
pub(in crate::sim) fn fill(map: &TensorMapDesc, data: &mut [u8]) {
    let (Fill::Nan, Some(bits)) = (map.fill(), nan(map.elem())) else { return data.fill(0) };
    let size = map.elem().size_bytes() as usize;
    for element in data.chunks_exact_mut(size) {
        element.copy_from_slice(&bits.to_le_bytes()[..size]);
    }
}

/// Returns the NaN that an H200 fills with, for types that have one: half words of 0x7ff7.
fn nan(elem: Scalar) -> Option<u64> {
    match elem {
        Scalar::F16 | Scalar::Bf16 => Some(0x7ff7),
        Scalar::Tf32 | Scalar::F32 => Some(0x7ff7_7ff7),
        Scalar::F64 => Some(0x7ff7_7ff7_7ff7_7ff7),
        Scalar::Bool
        | Scalar::F8E4M3
        | Scalar::F8E5M2
        | Scalar::I8
        | Scalar::I16
        | Scalar::I32
        | Scalar::I64
        | Scalar::U8
        | Scalar::U16
        | Scalar::U32
        | Scalar::U64 => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::PixelBox;

    /// The parts must match what the map says of each element.
    fn check(map: &TensorMapDesc, coords: &[i32]) {
        let mut all = [0; MAX_COORDS];
        all[..coords.len()].copy_from_slice(coords);
        let size = u64::from(map.elem().size_bytes());
        let mut found = vec![None; map.box_bytes() as usize];
        segments(map, &all, &mut |part| {
            for i in 0..part.bytes {
                assert_eq!(found[part.shared + i], None);
                found[part.shared + i] = Some((part.global + i) as u64);
            }
        });
        for element in map.box_elements(coords) {
            for i in 0..size {
                let expected = element.global.map(|global| global + i);
                assert_eq!(found[(element.shared + i) as usize], expected, "{map} {coords:?}");
            }
        }
    }

    #[test]
    fn boxes_inside_and_across_the_edges() {
        let map = TensorMapDesc::new(Scalar::Bf16, &[20, 6, 3], &[48, 320], &[16, 4, 2]).unwrap();
        let strided = map.clone().with_element_strides(&[1, 3, 2]).unwrap();
        for coords in [[0, 0, 0], [-3, -1, 2], [17, 5, -1], [40, 0, 0], [i32::MIN, 0, i32::MAX]] {
            check(&map, &coords);
            check(&strided, &coords);
        }
        // 1, 2 and 3 spatial dimensions.
        let corners = |lower: &[i32], upper: &[i32]| PixelBox {
            lower: lower.to_vec(),
            upper: upper.to_vec(),
            channels: 8,
            pixels: 9,
        };
        let image = |dims: &[u64], strides: &[u64], pixels, steps: &[u32]| {
            let map = TensorMapDesc::im2col(Scalar::Bf16, dims, strides, pixels).unwrap();
            map.with_element_strides(steps).unwrap()
        };
        let pixels = corners(&[-1], &[-1]);
        let one = image(&[20, 5, 3], &[48, 240], pixels, &[1, 2, 1]);
        for coords in [[0, -1, 0, 2], [16, 3, 2, 0], [-3, 1, -1, 1], [0, 3, i32::MAX, 0]] {
            check(&one, &coords);
        }
        let pixels = corners(&[-2, 1], &[0, 1]);
        let two = image(&[12, 4, 3, 2], &[32, 128, 384], pixels, &[1, 1, 2, 1]);
        for coords in [[8, -2, 1, 0, 0, 0], [8, 3, 3, 1, 2, 1], [0, 0, 1, 1, 1, 2]] {
            check(&two, &coords);
        }
        let pixels = corners(&[0, -1, -1], &[0, -1, 0]);
        let three = image(&[8, 2, 3, 2, 2], &[16, 32, 96, 192], pixels, &[1, 1, 1, 1, 1]);
        for coords in [[0, 1, -1, -1, 0, 0, 1, 1], [0, 1, 1, 1, 1, 1, 0, 0]] {
            check(&three, &coords);
        }
        let line = TensorMapDesc::new(Scalar::U8, &[100], &[], &[64]).unwrap();
        for x in [-70, -64, -1, 0, 40, 99, 100] {
            check(&line, &[x]);
        }
    }
}
