//! Copies of matrices whose rows are not aligned for tensor copies, to a workspace and back.

use std::sync::{Mutex, PoisonError};

use crate::arch::Major;
use crate::ir::{Element, Global, GlobalMut, Kernel, KernelOptions};
use crate::runtime::{AtLaunch, Buffer, Device, Function, Grid};

use super::config::GemmConfig;
use super::error::GemmError;
use super::launch::{How, Operands};
use super::problem::{GemmProblem, GemmStrides, MatrixStrides};
use super::types::Types;

/// Elements of a line that a warp copies: 8 for each lane, whose loads are all in flight together.
const CHUNK: u32 = 32 * EACH;
const EACH: u32 = 8;
const WARPS: u32 = 8;

crate::params! {
    /// A batch of matrices of `lines` x `columns` elements, each with its pitch and its batch stride.
    pub(super) struct CopyParams<T: Element> {
        from: Global<T>,
        from_strides: [i64; 2],
        to: GlobalMut<T>,
        to_strides: [i64; 2],
        lines: i32,
        columns: i32,
        /// Parts of a line, and parts of all lines of all matrices.
        chunks: i32,
        parts: i32,
    }
}

/// Builds the kernel that copies a batch of matrices: a warp copies a part of a line.
fn build<T: Element>(config: &GemmConfig) -> Result<Kernel<(CopyParams<T>,)>, GemmError> {
    let options = KernelOptions::default().block([32 * WARPS, 1, 1]);
    let programmatic = config.programmatic;
    let name = format!("copy_{}", T::SCALAR);
    let kernel =
        Kernel::<(CopyParams<T>,)>::build_with(options, &name, config.target, |k, (of,)| {
            if programmatic {
                k.griddepcontrol_launch_dependents();
                k.griddepcontrol_wait();
            }
            let thread = k.thread_idx().x;
            let part = k.block_idx().x * WARPS + thread / 32;
            k.if_(part.lt(of.parts), |k| {
                let line = part / of.chunks;
                let matrix = line / of.lines;
                let first = (part - line * of.chunks) * CHUNK + thread % 32;
                let [line, matrix] = [line - matrix * of.lines, matrix].map(|x| x.cvt::<i64>());
                let [pitch, next] = of.from_strides;
                let from = of.from.offset(matrix * next + line * pitch);
                let [pitch, next] = of.to_strides;
                let to = of.to.offset(matrix * next + line * pitch);
                let columns = [0, 1, 2, 3, 4, 5, 6, 7].map(|i: u32| first + 32 * i);
                let values = columns.map(|column| {
                    let inside = column.lt(of.columns);
                    k.if_with(inside, T::default(), |k| from.load(k, column))
                });
                for (column, value) in columns.into_iter().zip(values) {
                    k.if_(column.lt(of.columns), |k| to.store(k, column, value));
                }
            });
        });
    Ok(kernel?)
}

/// The operands that are copied: their strides in the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packing {
    /// The problem with the strides of the workspace.
    pub(super) problem: GemmProblem,
    a: Option<Packed>,
    b: Option<Packed>,
    d: Option<Packed>,
}

/// An operand that is copied: its lines and columns, its strides, and those in the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packed {
    sizes: [u32; 3],
    strides: [u64; 2],
    packed: [u64; 2],
}

impl Packed {
    /// The plan for an operand, or `None` where tensor copies take it as it is.
    fn new(sizes: [u32; 3], strides: [u64; 2], bytes: u32, is_aligned: bool) -> Option<Packed> {
        let [lines, columns, batch] = sizes;
        let distances = if batch > 1 { &strides[..] } else { &strides[..1] };
        let takes = |stride: &u64| (stride * u64::from(bytes)).is_multiple_of(16);
        if is_aligned && distances.iter().all(takes) {
            return None;
        }
        // Rows that start at a line of the L2 cache.
        let pitch = u64::from(columns).next_multiple_of(u64::from(128 / bytes));
        let next = if strides[1] == 0 { 0 } else { pitch * u64::from(lines) };
        let batch = if next == 0 { 1 } else { batch };
        Some(Packed { sizes: [lines, columns, batch], strides, packed: [pitch, next] })
    }

    fn strides(&self) -> MatrixStrides {
        MatrixStrides { leading: Some(self.packed[0]), batch: Some(self.packed[1]) }
    }

    /// The arguments of a copy to the workspace, or back from it, and the grid.
    fn copy<'h, 'b: 'h, T: Element>(
        &self,
        from: &'h Buffer<T>,
        to: &'h mut Buffer<T>,
        back: bool,
    ) -> Result<(Grid, CopyParams<T, AtLaunch<'h, 'b>>), GemmError> {
        let [lines, columns, batch] = self.sizes;
        let chunks = columns.div_ceil(CHUNK);
        let parts = u64::from(chunks) * u64::from(lines) * u64::from(batch);
        let most = i32::MAX as u64 - u64::from(WARPS);
        if parts > most {
            return Err(GemmError::Tiles { tiles: parts });
        }
        // Below 2^40, and below 2^31.
        let (own, packed) = (self.strides.map(|x| x as i64), self.packed.map(|x| x as i64));
        let (from_strides, to_strides) = if back { (packed, own) } else { (own, packed) };
        let [lines, columns, chunks, parts] =
            [lines, columns, chunks, parts as u32].map(|x| x as i32);
        let grid = Grid::new([(parts as u32).div_ceil(WARPS), 1, 1], [32 * WARPS, 1, 1]);
        let params =
            CopyParams { from, from_strides, to, to_strides, lines, columns, chunks, parts };
        Ok((grid, params))
    }

    /// Elements of the workspace.
    fn elements(&self) -> Result<usize, GemmError> {
        let [lines, _, batch] = self.sizes.map(u64::from);
        let too_large = GemmError::TooLarge { operand: 'W', lines, pitch: self.packed[0] };
        let all = (lines * self.packed[0]).checked_mul(batch).filter(|all| *all < 1 << 40);
        all.and_then(|all| usize::try_from(all).ok()).ok_or(too_large)
    }
}

impl Packing {
    /// The operands of a problem that are copied, of matrices whose buffers start at multiples of 16 bytes or do not.
    pub(super) fn new(
        config: &GemmConfig,
        problem: &GemmProblem,
        strides: &GemmStrides,
        aligned: [bool; 3],
    ) -> Packing {
        let GemmProblem { m, n, k, batch, .. } = *problem;
        let sizes = |major, lines| {
            if major == Major::K { [lines, k, batch] } else { [k, lines, batch] }
        };
        let [of_a, of_b, of_d] = [config.a, config.b, config.d].map(|scalar| scalar.size_bytes());
        let a = Packed::new(sizes(config.major_a, m), strides.a, of_a, aligned[0]);
        let b = Packed::new(sizes(config.major_b, n), strides.b, of_b, aligned[1]);
        let d = Packed::new([m, n, batch], strides.d, of_d, aligned[2]);
        let or = |packed: Option<Packed>, own| packed.map_or(own, |packed| packed.strides());
        let problem = GemmProblem {
            a: or(a, problem.a),
            b: or(b, problem.b),
            d: or(d, problem.d),
            ..*problem
        };
        Packing { problem, a, b, d }
    }
}

/// The copies of a function on a device, with its workspace: one for each operand, as large as any launch needed.
///
/// Launches on several streams share it. The runtime orders them, as it orders all launches that use one buffer.
pub(super) struct Repack<T: Types> {
    device: Device,
    a: Function<(CopyParams<T::A>,)>,
    b: Function<(CopyParams<T::B>,)>,
    d: Function<(CopyParams<T::D>,)>,
    workspace: Mutex<Workspace<T>>,
}

struct Workspace<T: Types> {
    a: Buffer<T::A>,
    b: Buffer<T::B>,
    d: Buffer<T::D>,
}

impl<T: Types> Repack<T> {
    pub(super) fn load(config: &GemmConfig, device: &Device) -> Result<Repack<T>, GemmError> {
        let workspace = Workspace { a: device.zeros(1)?, b: device.zeros(1)?, d: device.zeros(1)? };
        Ok(Repack {
            a: device.load(&build(config)?)?,
            b: device.load(&build(config)?)?,
            d: device.load(&build(config)?)?,
            device: device.clone(),
            workspace: Mutex::new(workspace),
        })
    }

    /// Copies A and B to the workspace, runs `product` on what is there, and copies D back: what needs it.
    pub(super) fn run(
        &self,
        how: &mut How<'_>,
        packing: &Packing,
        (a, b, d): Operands<'_, T>,
        product: impl FnOnce(&mut How<'_>, Operands<'_, T>) -> Result<(), GemmError>,
    ) -> Result<(), GemmError> {
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        let own = &mut *workspace;
        let a = match &packing.a {
            None => a,
            Some(packed) => {
                self.reserve(&mut own.a, packed)?;
                let (grid, params) = packed.copy(a, &mut own.a, false)?;
                how.run(&self.a, grid, (params,))?;
                &own.a
            }
        };
        let b = match &packing.b {
            None => b,
            Some(packed) => {
                self.reserve(&mut own.b, packed)?;
                let (grid, params) = packed.copy(b, &mut own.b, false)?;
                how.run(&self.b, grid, (params,))?;
                &own.b
            }
        };
        let Some(packed) = &packing.d else { return product(how, (a, b, d)) };
        self.reserve(&mut own.d, packed)?;
        product(how, (a, b, &mut own.d))?;
        let (grid, params) = packed.copy(&own.d, d, true)?;
        how.run(&self.d, grid, (params,))
    }

    /// Makes a buffer of the workspace large enough.
    fn reserve<E: Element>(
        &self,
        buffer: &mut Buffer<E>,
        packed: &Packed,
    ) -> Result<(), GemmError> {
        let needed = packed.elements()?;
        if buffer.len() < needed {
            *buffer = self.device.zeros(needed)?;
        }
        Ok(())
    }
}
