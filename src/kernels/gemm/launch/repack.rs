//! Copies of matrices that tensor copies or tensor cores do not take as they are, to a workspace.

use std::sync::{Mutex, PoisonError};

use crate::arch::Major;
use crate::ir::{Body, Element, Global, GlobalMut, Kernel, KernelOptions, Val};
use crate::runtime::{AtLaunch, Buffer, Device, Function, Grid, LoadOptions};
use crate::tensor::{RowAccess, shifted, wait_for_launch};

use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::problem::{GemmProblem, GemmStrides, MatrixStrides};
use crate::kernels::gemm::config::types::Types;
use crate::kernels::gemm::launch::loaded::Operands;
use crate::kernels::gemm::launch::mode::How;
use crate::kernels::transpose::{
    Transpose, TransposeBatch, TransposeConfig, TransposeFunction, TransposeProblem,
};

/// Bytes of an aligned vector of the destination: a thread writes one.
const VECTOR: u32 = 16;
const THREADS: u32 = 256;

crate::params! {
    /// A batch of matrices of `lines` x `columns` elements, each with its pitch and its batch stride.
    pub(crate) struct CopyParams<T: Element> => CopyArgs<'b, T> {
        from: Global<T>,
        from_strides: [i64; 2],
        /// Elements of the source from its first to its last.
        readable: i64,
        to: GlobalMut<T>,
        to_strides: [i64; 2],
        lines: u32,
        columns: i32,
        /// Aligned vectors of a line of the destination, and of all lines of all matrices.
        vectors: u32,
        parts: u32,
    }
}

/// Writes the aligned 16 bytes number `part` of the destination, whose lines start and end with such vectors.
///
/// Their source starts anywhere: two aligned vectors are loaded, and shifted together. At the ends of lines and of the
/// source, elements are copied one by one.
fn copy<'a, T: Element>(
    k: &mut Body<'a, '_>,
    programmatic: bool,
    of: &CopyArgs<'a, T>,
    part: Val<'a, u32>,
) {
    let size = T::scalar().size_bytes();
    let elements = (VECTOR / size) as i32;
    k.if_(part.lt(of.parts), |k| {
        let (line, matrix) = (part / of.vectors, part / of.vectors / of.lines);
        let vector = (part - line * of.vectors).cvt::<i32>();
        let [line, matrix] = [line - matrix * of.lines, matrix].map(|x| x.cvt::<i64>());
        let [from, to] =
            [of.from_strides, of.to_strides].map(|[pitch, next]| matrix * next + line * pitch);
        let first = vector * elements;
        let from = from + first.cvt::<i64>();
        // The bytes from the aligned address before the source to it.
        let lead = (of.from.ptr_to_int() + from * i64::from(size)).cvt::<i32>();
        let shift = lead & (VECTOR as i32 - 1);
        let window = from - (shift / size as i32).cvt::<i64>();
        let read = window.ge(0) & (window + i64::from(2 * elements)).le(of.readable);
        let to = of.to.offset(to + first.cvt::<i64>());
        let known = [of.from.offset(window).ptr_to_int(), to.ptr_to_int()];
        wait_for_launch(k, programmatic, known);
        k.if_else(
            read,
            |k| {
                let words = of.from.offset(window).ptr_cast::<u32>();
                let [low, high] = [0, 4].map(|at| words.load_vector::<4>(k, at).lanes());
                let words = shifted(low, high, shift.cvt::<u32>());
                to.ptr_cast::<u32>().store_vector(k, 0, Val::pack(words));
            },
            |k| {
                let from = of.from.offset(from);
                for i in 0..elements {
                    k.if_((first + i).lt(of.columns), |k| to.store(k, i, from.load(k, i)));
                }
            },
        );
    });
}

/// The parameters of the kernel that copies A and B to the workspace.
type Pack<T> = (CopyParams<<T as Types>::A>, CopyParams<<T as Types>::B>);

/// Builds the kernel that copies A and B to the workspace.
fn build_pack<T: Types>(config: &GemmConfig) -> Result<Kernel<Pack<T>>, GemmError> {
    let name = format!("pack_{}_{}", <T::A as Element>::scalar(), <T::B as Element>::scalar());
    let options = KernelOptions::default().block([THREADS, 1, 1]);
    let kernel = Kernel::<Pack<T>>::build_with(options, &name, config.target, |k, (a, b)| {
        config.programmatic.then(|| k.griddepcontrol_launch_dependents());
        let part = (k.block_idx().x * THREADS as i32 + k.thread_idx().x).cvt::<u32>();
        copy(k, config.programmatic, &a, part);
        // Below the parts of A the difference wraps, and is none of B.
        copy(k, config.programmatic, &b, part - a.parts);
    });
    Ok(kernel?)
}

/// The operands that are copied: their strides in the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packing {
    /// The problem with the strides of the workspace.
    pub(crate) problem: GemmProblem,
    a: Option<Packed>,
    b: Option<Packed>,
}

/// An operand that is copied: its lines and columns, its strides, and those in the workspace, where lines may be columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packed {
    sizes: [u32; 3],
    strides: [u64; 2],
    packed: [u64; 2],
    transposed: bool,
}

impl Packed {
    /// The plan for an operand, or `None` where tensor copies take it as it is.
    #[inline]
    fn new(
        sizes: [u32; 3],
        strides: [u64; 2],
        bytes: u32,
        (is_aligned, transposed): (bool, bool),
    ) -> Option<Packed> {
        let [lines, columns, batch] = sizes;
        let distances = if batch > 1 { &strides[..] } else { &strides[..1] };
        let takes = |stride: &u64| (stride * u64::from(bytes)).is_multiple_of(16);
        if !transposed && is_aligned && distances.iter().all(takes) {
            return None;
        }
        // Rows that start at a line of the L2 cache.
        let (own, depth) = if transposed { (columns, lines) } else { (lines, columns) };
        let pitch = u64::from(depth).next_multiple_of(u64::from(128 / bytes));
        let next = if strides[1] == 0 { 0 } else { pitch * u64::from(own) };
        let batch = if next == 0 { 1 } else { batch };
        Some(Packed { sizes: [lines, columns, batch], strides, packed: [pitch, next], transposed })
    }

    fn strides(&self) -> MatrixStrides {
        MatrixStrides { leading: Some(self.packed[0]), batch: Some(self.packed[1]) }
    }

    /// The arguments of a copy to the workspace, and its number of vectors.
    fn copy<'h, 'b: 'h, T: Element>(
        &self,
        from: &'h Buffer<T>,
        to: &'h mut Buffer<T>,
    ) -> Result<(u32, CopyParams<T, AtLaunch<'h, 'b>>), GemmError> {
        let [lines, columns, batch] = self.sizes;
        let elements = VECTOR / T::scalar().size_bytes();
        // Lines of the workspace start at a vector, and end with one.
        let vectors = columns.div_ceil(elements);
        let parts = u64::from(vectors) * u64::from(lines) * u64::from(batch);
        if parts > i32::MAX as u64 {
            return Err(GemmError::Tiles { tiles: parts });
        }
        // Below 2^40, and below 2^31.
        let (from_strides, to_strides) =
            (self.strides.map(|x| x as i64), self.packed.map(|x| x as i64));
        let [pitch, next] = from_strides;
        let readable =
            i64::from(batch - 1) * next + i64::from(lines - 1) * pitch + i64::from(columns);
        let (columns, parts) = (columns as i32, parts as u32);
        let params = CopyParams {
            from,
            from_strides,
            readable,
            to,
            to_strides,
            lines,
            columns,
            vectors,
            parts,
        };
        Ok((parts, params))
    }

    /// The transpose to the workspace.
    fn transpose(&self) -> TransposeProblem {
        let ([rows, columns, count], [input, output]) = (self.sizes, [self.strides, self.packed]);
        let first = TransposeBatch { count, input_stride: input[1], output_stride: output[1] };
        TransposeProblem {
            input_pitch: Some(input[0]),
            output_pitch: Some(output[0]),
            batch: [first, TransposeBatch::ONE, TransposeBatch::ONE],
            ..TransposeProblem::new(rows, columns)
        }
    }

    /// No operand.
    const NONE: Packed =
        Packed { sizes: [1, 0, 1], strides: [0; 2], packed: [0; 2], transposed: false };

    /// Elements of the workspace.
    #[inline]
    fn elements(&self) -> Result<usize, GemmError> {
        let [lines, columns, batch] = self.sizes.map(u64::from);
        let lines = if self.transposed { columns } else { lines };
        let too_large = GemmError::TooLarge { operand: 'W', lines, pitch: self.packed[0] };
        let all = (lines * self.packed[0]).checked_mul(batch).filter(|all| *all < 1 << 40);
        all.and_then(|all| usize::try_from(all).ok()).ok_or(too_large)
    }
}

impl Packing {
    /// The operands of a problem that are copied, of matrices whose buffers start at multiples of 16 bytes or do not.
    #[inline]
    pub(crate) fn new(
        config: &GemmConfig,
        problem: &GemmProblem,
        strides: &GemmStrides,
        aligned: [bool; 2],
    ) -> Packing {
        let GemmProblem { m, n, k, batch, .. } = *problem;
        let sizes = |major, lines| {
            if major == Major::K { [lines, k, batch] } else { [k, lines, batch] }
        };
        let [of_a, of_b] = [config.a, config.b].map(|scalar| scalar.size_bytes());
        let [across_a, across_b] = config.transposed();
        let a = Packed::new(sizes(config.major_a, m), strides.a, of_a, (aligned[0], across_a));
        let b = Packed::new(sizes(config.major_b, n), strides.b, of_b, (aligned[1], across_b));
        let or = |packed: Option<Packed>, own| packed.map_or(own, |packed| packed.strides());
        let problem = GemmProblem { a: or(a, problem.a), b: or(b, problem.b), ..*problem };
        Packing { problem, a, b }
    }
}

impl GemmConfig {
    /// Returns whether copies of A and of B are transposed.
    #[inline]
    fn transposed(&self) -> [bool; 2] {
        let across = |major| major == Major::Mn && self.transposes_copies();
        [across(self.major_a), across(self.major_b)]
    }
}

/// Transposes of an operand: of aligned rows, and of any rows.
struct Transposes<T>([TransposeFunction<T>; 2]);

impl<T: Element> Transposes<T> {
    /// Loads the kernels, or none where the operand is not transposed.
    fn load(
        config: &GemmConfig,
        transposed: bool,
        options: LoadOptions<'_>,
        device: &Device,
    ) -> Result<Option<Self>, GemmError> {
        if !transposed {
            return Ok(None);
        }
        let large = TransposeProblem::new(1 << 14, 1 << 14).batched(2);
        let of = |access| -> Result<TransposeFunction<T>, GemmError> {
            let config = TransposeConfig::new(config.target, T::scalar(), &large);
            let config = TransposeConfig { access, ..config };
            Ok(Transpose::<T>::new(config)?.load_with(options, device)?)
        };
        Ok(Some(Transposes([of(RowAccess::Aligned)?, of(RowAccess::Ragged)?])))
    }

    fn run(
        &self,
        how: &mut How<'_>,
        packed: &Packed,
        from: &Buffer<T>,
        to: &mut Buffer<T>,
    ) -> Result<(), GemmError> {
        let problem = packed.transpose();
        let Transposes([aligned, ragged]) = self;
        let is_aligned = problem.access(T::scalar()) == RowAccess::Aligned;
        let function = if is_aligned { aligned } else { ragged };
        function
            .run(&problem, from, to, |function, grid, args| how.run_in_turn(function, grid, args))
    }
}

/// The copies of a function on a device, with its workspace: one for each operand, as large as any launch needed.
///
/// Launches on several streams share it. The runtime orders them, as it orders all launches that use one buffer.
pub(crate) struct Repack<T: Types> {
    device: Device,
    pack: Function<Pack<T>>,
    transpose_a: Option<Transposes<T::A>>,
    transpose_b: Option<Transposes<T::B>>,
    workspace: Mutex<Workspace<T>>,
}

struct Workspace<T: Types> {
    a: Buffer<T::A>,
    b: Buffer<T::B>,
}

impl<T: Types> Repack<T> {
    pub(crate) fn load(
        config: &GemmConfig,
        options: LoadOptions<'_>,
        device: &Device,
    ) -> Result<Repack<T>, GemmError> {
        let workspace = Workspace { a: device.zeros(1)?, b: device.zeros(1)? };
        let [across_a, across_b] = config.transposed();
        Ok(Repack {
            transpose_a: Transposes::load(config, across_a, options, device)?,
            transpose_b: Transposes::load(config, across_b, options, device)?,
            pack: device.load_with(options, &build_pack::<T>(config)?)?,
            device: device.clone(),
            workspace: Mutex::new(workspace),
        })
    }

    /// Copies A and B to the workspace, where they need it, and runs `product` on what is there: by one launch, or a transpose of
    /// each.
    pub(crate) fn run(
        &self,
        how: &mut How<'_>,
        packing: &Packing,
        (a, b, d): Operands<'_, T>,
        product: impl FnOnce(&mut How<'_>, Operands<'_, T>) -> Result<(), GemmError>,
    ) -> Result<(), GemmError> {
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        let own = &mut *workspace;
        let [of_a, of_b] = [packing.a, packing.b].map(|of| of.unwrap_or(Packed::NONE));
        self.reserve(&mut own.a, &of_a)?;
        self.reserve(&mut own.b, &of_b)?;
        if let Some(transposes) = &self.transpose_a {
            transposes.run(how, &of_a, a, &mut own.a)?;
        }
        if let Some(transposes) = &self.transpose_b {
            transposes.run(how, &of_b, b, &mut own.b)?;
        }
        let copied = [of_a, of_b].map(|of| if of.transposed { Packed::NONE } else { of });
        if copied != [Packed::NONE; 2] {
            let [of_a, of_b] = copied;
            let (parts_a, params_a) = of_a.copy(a, &mut own.a)?;
            let (parts_b, params_b) = of_b.copy(b, &mut own.b)?;
            how.run(&self.pack, grid(parts_a + parts_b), (params_a, params_b))?;
        }
        let a = if packing.a.is_some() { &own.a } else { a };
        let b = if packing.b.is_some() { &own.b } else { b };
        product(how, (a, b, d))
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

/// The grid of a copy of vectors.
fn grid(parts: u32) -> Grid {
    Grid::new([parts.div_ceil(THREADS), 1, 1], [THREADS, 1, 1])
}
