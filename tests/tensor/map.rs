//! Tensor maps against their definition: what a copy moves is what the layouts say.

use std::collections::BTreeSet;

use tilewright::arch::{
    Fill, L2Promotion, SwizzleMode, TensorMapDesc as Map, TensorMapError as Error,
};
use tilewright::ir::types::Scalar;
use tilewright::layout::{ComposedLayout, Int, Layout, Swizzle, layout, shape};

/// A linear congruential generator, with the constants of Knuth's MMIX.
struct Random(u64);

impl Random {
    fn below(&mut self, count: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as i64) % count
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as i64) as usize]
    }
}

fn number(layout: &Layout, coord: &[i64]) -> i64 {
    let modes = layout.modes().zip(coord);
    modes.map(|(mode, at)| mode.to_layout().crd2idx(*at).unwrap().to_static().unwrap()).sum()
}

/// Each element `x` of the box at `origin` is element `origin + x` of the tensor, at the place
/// `shared(x)` of shared memory, and there are no others.
fn check(elem: Scalar, global: &Layout, shared: &ComposedLayout, origin: &[i64]) {
    let map = Map::from_layouts(elem, global, shared)
        .unwrap_or_else(|error| panic!("{global}, {shared}: {error}"));
    let bytes = i64::from(elem.size_bytes());
    let coords: Vec<i32> = map.coords_of(origin).iter().map(|c| *c as i32).collect();
    let found: BTreeSet<_> = map
        .box_elements(&coords)
        .map(|element| (map.shared_address(0, element.shared) as i64, element.global))
        .collect();
    let (plain, rank) = (shared.nonswizzle_portion().unwrap(), global.rank());
    let extents: Vec<i64> =
        plain.modes().map(|mode| mode.size().unwrap().to_static().unwrap()).collect();
    let of_tensor: Vec<i64> =
        global.modes().map(|mode| mode.size().unwrap().to_static().unwrap()).collect();
    let mut expected = BTreeSet::new();
    for place in 0..extents.iter().product() {
        let (mut rest, mut x) = (place, Vec::new());
        for extent in &extents {
            x.push(rest % extent);
            rest /= extent;
        }
        let at: Vec<i64> = x.iter().zip(origin).map(|(x, c)| x + c).collect();
        let inside = (0..rank).all(|mode| (0..of_tensor[mode]).contains(&at[mode]));
        let in_shared = shared.crd2idx(place).unwrap().to_static().unwrap();
        expected.insert((in_shared * bytes, inside.then(|| (number(global, &at) * bytes) as u64)));
    }
    assert_eq!(found, expected, "{global} at {origin:?} in {shared}: {map}");
    assert_eq!(map.box_bytes() as i64, extents.iter().product::<i64>() * bytes);
    let end = (number(global, &of_tensor.iter().map(|n| n - 1).collect::<Vec<_>>()) + 1) * bytes;
    assert_eq!(map.tensor_bytes() as i64, end, "{global}");
}

/// The tiles of matrix products: rows of a swizzle, several of them side by side, and none.
#[test]
fn tiles_of_matrix_products() {
    let swizzled = |bits, base, layout: Layout| {
        ComposedLayout::new(Swizzle::new(bits, base, 3).unwrap(), 0, layout).unwrap()
    };
    let (matrix, transposed) = (Layout::row_major((300, 144)), Layout::compact((144, 300)));
    for origin in [[0, 0], [256, 128], [-3, 8]] {
        check(Scalar::I16, &matrix, &swizzled(3, 3, layout!((64, 64):(64, 1))), &origin);
        check(Scalar::I16, &matrix, &layout!((16, 200):(200, 1)).into(), &origin);
        check(Scalar::F32, &matrix, &swizzled(3, 2, layout!((16, 32):(32, 1))), &origin);
        check(Scalar::F64, &matrix, &swizzled(2, 1, layout!((16, 8):(8, 1))), &origin);
        check(Scalar::I8, &matrix, &swizzled(1, 4, layout!((16, 32):(32, 1))), &origin);
        // CuTe's atom of 8 rows, repeated along the rows.
        check(Scalar::I16, &matrix, &swizzled(3, 3, layout!(((8, 8), 64):((64, 512), 1))), &origin);
        check(Scalar::I16, &transposed, &swizzled(3, 3, layout!((64, 32):(1, 64))), &origin);
    }
    // Groups of 8 columns one after the other: the columns become two dimensions.
    let groups: ComposedLayout = layout!((32, (8, 4)):(8, (1, 256))).into();
    check(Scalar::F32, &matrix, &groups, &[64, 16]);
    let map = Map::from_layouts(Scalar::F32, &matrix, &groups).unwrap();
    assert_eq!(map.to_string(), "f32 (8,300,18) by (4,576,32) bytes, box (8,32,4)");
}

/// Random tensors of 1 to 5 modes with padded rows, random tiles with their modes in any order, at
/// random origins inside and outside.
#[test]
fn random_tensors_and_tiles() {
    let mut random = Random(7);
    for _ in 0..200 {
        let elem = random.pick(&[Scalar::U8, Scalar::I16, Scalar::F32, Scalar::F64]);
        let unit = i64::from(16 / elem.size_bytes());
        let rank = 1 + random.below(5) as usize;
        let mut order: Vec<usize> = (0..rank).collect();
        (0..rank).for_each(|i| order.swap(i, i + random.below((rank - i) as i64) as usize));
        // In the order of the tensor's memory: extents, then strides with some padding.
        let extents: Vec<i64> = (0..rank).map(|_| 2 + random.below(12)).collect();
        let tile: Vec<i64> = (0..rank)
            .map(|i| if i == 0 { unit * (1 + random.below(2)) } else { 1 + random.below(4) })
            .collect();
        let (mut strides, mut reach) = (vec![0; rank], 1);
        for i in 0..rank {
            strides[i] = reach;
            let end = reach * extents[i];
            reach = (end + unit - 1) / unit * unit + unit * random.below(2);
        }
        // The fastest mode of the tile is that of the tensor, the others come in any order.
        let mut places: Vec<usize> = (1..rank).collect();
        (1..rank).for_each(|i| {
            let other = i - 1 + random.below((rank - i) as i64) as usize;
            places.swap(i - 1, other);
        });
        places.insert(0, 0);
        let (mut in_shared, mut size) = (vec![0; rank], 1);
        for mode in places {
            in_shared[mode] = size;
            size *= tile[mode];
        }
        let by =
            |numbers: &[i64]| -> Vec<Int> { order.iter().map(|i| numbers[*i].into()).collect() };
        let layout_of = |shape: &[i64], stride: &[i64]| {
            let modes: Vec<Layout> = by(shape)
                .into_iter()
                .zip(by(stride))
                .map(|(extent, stride)| Layout::leaf(extent, stride))
                .collect();
            Layout::concat(&modes).unwrap()
        };
        let (global, plain) = (layout_of(&extents, &strides), layout_of(&tile, &in_shared));
        let inner_bytes = tile[0] as u32 * elem.size_bytes();
        // With a swizzle, the row pitch is that of the swizzle.
        let one_row = tile[1..].iter().product::<i64>() == 1;
        let fits = |mode: &SwizzleMode| {
            let fits = |row| inner_bytes == row || (inner_bytes < row && one_row);
            mode.row_bytes().is_none_or(fits)
        };
        let modes: Vec<_> = SwizzleMode::ALL.into_iter().filter(fits).collect();
        let mode = random.pick(&modes);
        let base = 4 - i64::from(elem.size_bytes().trailing_zeros());
        let swizzle = Swizzle::new(i64::from(mode.bits()), base, 3).unwrap();
        let shared = ComposedLayout::new(swizzle, 0, plain).unwrap();
        let origin: Vec<i64> = order.iter().map(|i| random.below(extents[*i] + 6) - 3).collect();
        check(elem, &global, &shared, &origin);
    }
}

#[test]
fn steps_between_elements() {
    let map = Map::new(Scalar::F32, &[32, 10], &[128], &[16, 4]).unwrap();
    let map = map.with_element_strides(&[1, 3]).unwrap();
    assert_eq!((map.box_extents().collect::<Vec<_>>(), map.box_bytes()), (vec![16, 2], 128));
    let global: Vec<_> = map.box_elements(&[20, 7]).map(|e| e.global).collect();
    let row =
        |y: u64| (0..16u64).map(move |i| (i < 12 && y < 10).then_some(y * 128 + 4 * (20 + i)));
    assert_eq!(global, row(7).chain(row(10)).collect::<Vec<_>>());
    let other = map.clone().with_element_strides(&[1, 1]).unwrap();
    assert_eq!(map.to_string(), format!("{}, steps (1,3)", other));
    for strides in [&[1][..], &[0, 1], &[2, 1], &[1, 9]] {
        let error = map.clone().with_element_strides(strides).unwrap_err();
        assert_eq!(error, Error::ElementStrides { strides: strides.to_vec() });
    }
}

/// Every limit of hardware, at the limit and one beyond.
#[test]
fn numbers_that_hardware_does_not_take() {
    let f32_map = |dims: &[u64], strides: &[u64], in_box: &[u32]| {
        Map::new(Scalar::F32, dims, strides, in_box)
    };
    let ends = [1 << 32, 1 << 32, 1, 1, 1];
    let largest_stride = (1 << 40) - 16;
    f32_map(&ends, &[largest_stride, 16, 16, 16], &[256, 227, 1, 1, 1]).unwrap();
    let (bytes, limit) = (256 * 228 * 4, 227 * 1024);
    assert_eq!(f32_map(&[256, 256], &[1024], &[256, 228]), Err(Error::BoxBytes { bytes, limit }));
    assert_eq!(f32_map(&[], &[], &[]), Err(Error::Rank { rank: 0 }));
    assert_eq!(f32_map(&[8; 6], &[16; 5], &[4; 6]), Err(Error::Rank { rank: 6 }));
    let lengths = |dims, strides, extents| Err(Error::Lengths { dims, strides, extents });
    assert_eq!(f32_map(&[8, 8], &[32, 32], &[4, 4]), lengths(2, 2, 2));
    assert_eq!(f32_map(&[8, 8], &[32], &[4]), lengths(2, 1, 1));
    assert_eq!(f32_map(&[8, 0], &[32], &[4, 1]), Err(Error::Extent { dim: 1, extent: 0 }));
    let (dim, extent) = (0, (1 << 32) + 1);
    assert_eq!(f32_map(&[(1 << 32) + 1], &[], &[4]), Err(Error::Extent { dim, extent }));
    for stride in [0, 8, 24, 1 << 40] {
        let error = Error::Stride { dim: 1, stride_bytes: stride.into() };
        assert_eq!(f32_map(&[8, 8], &[stride], &[4, 4]), Err(error));
    }
    assert_eq!(f32_map(&[8, 8], &[32], &[4, 257]), Err(Error::BoxExtent { dim: 1, extent: 257 }));
    assert_eq!(f32_map(&[8, 8], &[32], &[0, 1]), Err(Error::BoxExtent { dim: 0, extent: 0 }));
    assert_eq!(f32_map(&[8, 8], &[32], &[3, 1]), Err(Error::InnerBytes { bytes: 12 }));
    let (wide, swizzle) = (f32_map(&[64, 8], &[256], &[32, 8]).unwrap(), SwizzleMode::B64);
    assert!(wide.clone().with_swizzle(SwizzleMode::B128).is_ok());
    let error = wide.with_swizzle(swizzle).unwrap_err();
    assert_eq!(error, Error::SwizzleWidth { bytes: 128, swizzle });
    let ints = Map::new(Scalar::I32, &[8], &[], &[4]).unwrap();
    let error = ints.with_fill(Fill::Nan).unwrap_err();
    assert_eq!(error, Error::FillNotFloat { elem: Scalar::I32 });
    let nans = f32_map(&[8], &[], &[4]).unwrap().with_fill(Fill::Nan).unwrap();
    let nans = nans.with_l2_promotion(L2Promotion::B256);
    assert_eq!((nans.fill(), nans.l2_promotion()), (Fill::Nan, L2Promotion::B256));
}

/// Layouts that no map can express, with what would make them one.
#[test]
fn layouts_without_a_map() {
    let map = |global: &Layout, shared: &ComposedLayout| {
        Map::from_layouts(Scalar::F32, global, shared).unwrap_err()
    };
    let matrix = Layout::row_major((100, 64));
    let tile = |layout: Layout| ComposedLayout::from(layout);
    let good = || layout!((8, 32):(32, 1));
    let sentences: Vec<(Error, &str)> = vec![
        (map(&matrix, &tile(layout!(32:1))), "give the box one mode for each"),
        (
            map(&layout!(((2, 50), 64):((1, 640), 64)), &tile(good())),
            "tensor mode 0, `(2,50):(1,640)`, must have one extent and one stride",
        ),
        (
            map(&matrix, &tile(layout!((32, 8):(1, 32)))),
            "mode 0 is the fastest of the box, but has stride 64 in the tensor: TMA does not transpose, so make mode 1",
        ),
        (
            map(&layout!((100, 64):(128, 2)), &tile(good())),
            "has stride 2 in the tensor: it must have stride 1",
        ),
        (
            map(&layout!((100, 64):(65, 1)), &tile(good())),
            "dimension 1 of the tensor has a stride of 260 bytes, but the stride must be a multiple of 16",
        ),
        (
            map(&layout!((100, 64):(-64, 1)), &tile(good())),
            "dimension 1 of the tensor has a stride of -256 bytes",
        ),
        (
            map(&layout!((100, 64):(0, 1)), &tile(good())),
            "dimension 1 of the tensor has a stride of 0 bytes",
        ),
        (map(&matrix, &tile(layout!((8, 32):(36, 1)))), "`(8,32):(36,1)` skips or repeats offsets"),
        (map(&matrix, &tile(layout!((8, 32):(0, 1)))), "remove padding and broadcast modes"),
        (
            map(&matrix, &ComposedLayout::new(Swizzle::new(3, 2, 3).unwrap(), 64, good()).unwrap()),
            "the box layout starts at 64, but must start at 0",
        ),
        (
            map(&matrix, &ComposedLayout::new(Swizzle::new(3, 3, 3).unwrap(), 0, good()).unwrap()),
            "the box has the swizzle `S<3,3,3>` on f32 elements",
        ),
        (
            map(&Layout::row_major((100, 36)), &tile(layout!((8, (8, 2)):(8, (1, 64))))),
            "the box splits mode 1 into pieces of 8, which does not divide its extent 36",
        ),
        (
            map(&Layout::row_major((1000, 64)), &tile(layout!((500, 32):(32, 1)))),
            "dimension 1 of the box has extent 500, but must have 1 to 256",
        ),
        (
            map(&Layout::row_major((100, 64)), &tile(layout!((8, 2):(2, 1)))),
            "the fastest dimension of the box has 8 bytes, but must have a multiple of 16",
        ),
        (
            map(&matrix, &ComposedLayout::new(Swizzle::new(2, 2, 3).unwrap(), 0, good()).unwrap()),
            "has 128 bytes, which is more than a row of the swizzle 64B",
        ),
        (map(&Layout::row_major((Int::symbol("m"), Int::from(64))), &tile(good())), "m"),
        (
            map(
                &Layout::compact(shape!(8, 8, 8, 8, 8, 8)),
                &tile(layout!((8, 1, 1, 1, 1, 1):(1, 0, 0, 0, 0, 0))),
            ),
            "it has 6 dimensions, but must have 1 to 5",
        ),
    ];
    for (error, part) in sentences {
        let sentence = error.to_string();
        assert!(sentence.contains(part), "`{sentence}` has no `{part}`");
        assert!(sentence.starts_with("invalid tensor map: "), "{sentence}");
    }
}
