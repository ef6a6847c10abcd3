//! Repacking: before the GEMM, copies the operands that TMA or the tensor cores cannot read to an
//! aligned workspace. One launch copies both A and B; operands that must be transposed take a
//! launch each.

use std::sync::{Mutex, PoisonError};

use crate::arch::Major;
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Global, GlobalMut, Kernel, KernelOptions, Val};
use crate::runtime::{
    ArgList, Buffer, BufferMut, BufferRef, Declared, Device, Function, Grid, LoadOptions,
};
use crate::tensor::copy::shifted;
use crate::tensor::pipeline::wait_for_launch;
use crate::tensor::rows::RowAccess;

use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::problem::{GemmProblem, GemmStrides, MatrixStrides};
use crate::kernels::gemm::config::types::in_memory;
use crate::kernels::gemm::elements::{A, B, with_elements};
use crate::kernels::gemm::kernel::AnyGemm;
use crate::kernels::gemm::launch::sm90::Operands;
use crate::kernels::ready::Launch;
use crate::kernels::transpose::{
    LoadedTranspose, TransposeBatch, TransposeConfig, TransposeProblem,
};

/// Bytes per aligned vector of the destination. A thread writes one.
const VECTOR: u32 = 16;
const THREADS: u32 = 256;

crate::params! {
    /// A batch of `lines` x `columns` matrices, with `[pitch, batch stride]` for source and
    /// destination.
    pub(crate) struct CopyParams<T: Element> => CopyArgs<'b, T> {
        from: Global<T>,
        from_strides: [i64; 2],
        /// Elements from the source's first to its last.
        readable: i64,
        to: GlobalMut<T>,
        to_strides: [i64; 2],
        lines: u32,
        columns: i32,
        /// 16-byte vectors per destination line, and in all lines of all matrices.
        vectors: u32,
        parts: u32,
    }
}

/// Writes the 16-byte vector `part` of the destination. Destination lines start and end with whole
/// vectors.
///
/// The source can start anywhere: the thread loads two aligned vectors and shifts them together. At
/// the ends of lines and of the source it copies element by element.
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
        // The bytes from the aligned address before the source to the source.
        let lead = (of.from.ptr_to_int() + from * i64::from(size)).cvt::<i32>();
        let shift = lead & (VECTOR as i32 - 1);
        let window = from - (shift / size as i32).cvt::<i64>();
        let read = window.ge(0) & (window + i64::from(2 * elements)).le(of.readable);
        let to = of.to.offset(to + first.cvt::<i64>());
        let known = [of.from.offset(window).ptr_to_int(), to.ptr_to_int()];
        wait_for_launch(k, programmatic, known);
        k.if_else(
            read,
            |_| {
                let words = of.from.offset(window).ptr_cast::<u32>();
                let [low, high] = [0, 4].map(|at| words.load_vector::<4>(at).lanes());
                let words = shifted(low, high, shift.cvt::<u32>());
                to.ptr_cast::<u32>().store_vector(0, Val::pack(words));
            },
            |k| {
                let from = of.from.offset(from);
                for i in 0..elements {
                    k.if_((first + i).lt(of.columns), |_| to.store(i, from.load(i)));
                }
            },
        );
    });
}

/// The parameters of the copy kernel.
type Pack = (CopyParams<A>, CopyParams<B>);

/// Builds the kernel that copies A and B to the workspace.
#[inline]
fn build_pack(config: &GemmConfig) -> Result<Kernel<Declared>, GemmError> {
    let name = format!("pack_{}_{}", in_memory(config.a), in_memory(config.b));
    let options = KernelOptions::default().block([THREADS, 1, 1]);
    let kernel = with_elements(config, || {
        Kernel::build_as::<Pack, _>(options, &name, config.target, |k, (a, b)| {
            if config.programmatic {
                k.griddepcontrol_launch_dependents();
            }
            let part = (k.block_idx().x * THREADS as i32 + k.thread_idx().x).cvt::<u32>();
            copy(k, config.programmatic, &a, part);
            // For threads that copy A, the subtraction wraps to a huge index, which `copy` ignores.
            copy(k, config.programmatic, &b, part - a.parts);
        })
    });
    Ok(kernel?)
}

/// Which operands are repacked, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packing {
    /// The problem with the workspace's strides.
    pub(crate) problem: GemmProblem,
    a: Option<Packed>,
    b: Option<Packed>,
}

/// A repacked operand: its lines, columns and batch, its strides, and its strides in the workspace,
/// transposed if necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packed {
    sizes: [u32; 3],
    strides: [u64; 2],
    packed: [u64; 2],
    transposed: bool,
}

impl Packed {
    /// Plans the repacking of an operand, or returns `None` if TMA can read it as it is.
    #[inline]
    fn new(
        sizes: [u32; 3],
        strides: [u64; 2],
        bytes: u32,
        is_aligned: bool,
        transposed: bool,
    ) -> Option<Packed> {
        let [lines, columns, batch] = sizes;
        let distances = if batch > 1 { &strides[..] } else { &strides[..1] };
        let takes = |stride: &u64| (stride * u64::from(bytes)).is_multiple_of(16);
        if !transposed && is_aligned && distances.iter().all(takes) {
            return None;
        }
        // Workspace rows start at an L2 cache line.
        let (own, depth) = if transposed { (columns, lines) } else { (lines, columns) };
        let pitch = u64::from(depth).next_multiple_of(u64::from(128 / bytes));
        let next = if strides[1] == 0 { 0 } else { pitch * u64::from(own) };
        let batch = if next == 0 { 1 } else { batch };
        Some(Packed { sizes: [lines, columns, batch], strides, packed: [pitch, next], transposed })
    }

    fn strides(&self) -> MatrixStrides {
        MatrixStrides { leading: Some(self.packed[0]), batch: Some(self.packed[1]) }
    }

    /// Appends the arguments of a copy to the workspace, in the order of [`CopyParams`], and
    /// returns how many vectors it copies.
    #[inline]
    fn push_copy<'h>(
        &self,
        from: BufferRef<'h>,
        to: BufferMut<'h>,
        list: &mut ArgList<'h>,
    ) -> Result<u32, GemmError> {
        let [lines, columns, batch] = self.sizes;
        let elements = VECTOR / from.scalar().size_bytes();
        // Workspace lines start and end with whole vectors.
        let vectors = columns.div_ceil(elements);
        let parts = u64::from(vectors) * u64::from(lines) * u64::from(batch);
        if parts > i32::MAX as u64 {
            return Err(GemmError::Tiles { tiles: parts });
        }
        // Strides are below 2^40, and sizes below 2^31.
        let (from_strides, to_strides) =
            (self.strides.map(|x| x as i64), self.packed.map(|x| x as i64));
        let [pitch, next] = from_strides;
        let readable =
            i64::from(batch - 1) * next + i64::from(lines - 1) * pitch + i64::from(columns);
        let (columns, parts) = (columns as i32, parts as u32);
        list.buffer(from);
        list.scalars(from_strides);
        list.scalars([readable]);
        list.buffer_mut(to);
        list.scalars(to_strides);
        list.scalars([lines]);
        list.scalars([columns]);
        list.scalars([vectors, parts]);
        Ok(parts)
    }

    /// Returns the transpose into the workspace.
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

    /// Stands for an operand that is not copied: no elements.
    const NONE: Packed =
        Packed { sizes: [1, 0, 1], strides: [0; 2], packed: [0; 2], transposed: false };

    /// Returns how many elements the operand takes in the workspace.
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
    /// Plans the repacking for a problem. `aligned` says whether the buffers of A and B start at
    /// multiples of 16 bytes.
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
        let a = Packed::new(sizes(config.major_a, m), strides.a, of_a, aligned[0], across_a);
        let b = Packed::new(sizes(config.major_b, n), strides.b, of_b, aligned[1], across_b);
        let or = |packed: Option<Packed>, own| packed.map_or(own, |packed| packed.strides());
        let problem = GemmProblem { a: or(a, problem.a), b: or(b, problem.b), ..*problem };
        Packing { problem, a, b }
    }
}

impl GemmConfig {
    /// Returns whether A and B are transposed on the way.
    #[inline]
    fn transposed(&self) -> [bool; 2] {
        let across = |major| major == Major::Mn && self.transposes_copies();
        [across(self.major_a), across(self.major_b)]
    }
}

/// The transpose kernels of one operand: for aligned rows, and for any rows.
struct Transposes {
    aligned: LoadedTranspose,
    ragged: LoadedTranspose,
}

impl Transposes {
    /// Loads the kernels for elements of a type.
    #[inline]
    fn load(
        config: &GemmConfig,
        scalar: Scalar,
        options: LoadOptions<'_>,
        device: &Device,
    ) -> Result<Self, GemmError> {
        let large = TransposeProblem::new(1 << 14, 1 << 14).batched(2);
        let of = |access| -> Result<LoadedTranspose, GemmError> {
            let config = TransposeConfig::new(config.target, scalar, &large);
            let config = TransposeConfig { access, ..config };
            Ok(LoadedTranspose::new(config, scalar, options, device)?)
        };
        Ok(Transposes { aligned: of(RowAccess::Aligned)?, ragged: of(RowAccess::Ragged)? })
    }

    #[inline]
    fn run(
        &self,
        launch: &Launch<'_, AnyGemm>,
        packed: &Packed,
        from: BufferRef<'_>,
        to: BufferMut<'_>,
    ) -> Result<(), GemmError> {
        let problem = packed.transpose();
        let is_aligned = problem.access(from.scalar()) == RowAccess::Aligned;
        let transpose = if is_aligned { &self.aligned } else { &self.ragged };
        let mut args = ArgList::default();
        match transpose.bind(&problem, from, to, &mut args)? {
            // It does not wait, so it must not overlap with the previous launch.
            Some(grid) => {
                Ok(launch.programmatic(false).start_other(&transpose.function, grid, args)?)
            }
            None => Ok(()),
        }
    }
}

/// The copies of a function on a device.
///
/// Launches on several streams share the workspaces. The runtime runs them one after the other, as
/// it does for all launches that use one buffer.
pub(crate) struct Repack {
    device: Device,
    pack: Function<Declared>,
    a: Mutex<PackedOperand>,
    b: Mutex<PackedOperand>,
}

/// The copy of an operand.
struct PackedOperand {
    scalar: Scalar,
    transposes: Option<Transposes>,
    /// As large as any launch needed.
    workspace: Buffer<u8>,
}

impl PackedOperand {
    /// Makes the workspace large enough for `elements`.
    #[inline]
    fn reserve(&mut self, device: &Device, packed: &Packed) -> Result<(), GemmError> {
        let needed = packed.elements()? * self.scalar.size_bytes() as usize;
        if self.workspace.len() < needed {
            self.workspace = device.zeros(needed)?;
        }
        Ok(())
    }

    fn packed(&self) -> BufferRef<'_> {
        BufferRef::from(&self.workspace).cast(self.scalar)
    }

    fn packed_mut(&mut self) -> BufferMut<'_> {
        BufferMut::from(&mut self.workspace).cast(self.scalar)
    }

    /// Transposes an operand to the workspace, if the configuration asks for it.
    #[inline]
    fn transpose(
        &mut self,
        launch: &Launch<'_, AnyGemm>,
        packed: &Packed,
        from: BufferRef<'_>,
    ) -> Result<(), GemmError> {
        let PackedOperand { scalar, transposes, workspace } = self;
        match transposes {
            Some(transposes) => {
                let to = BufferMut::from(workspace).cast(*scalar);
                transposes.run(launch, packed, from, to)
            }
            None => Ok(()),
        }
    }
}

impl Repack {
    #[inline]
    pub(crate) fn load(
        config: &GemmConfig,
        options: LoadOptions<'_>,
        device: &Device,
    ) -> Result<Repack, GemmError> {
        let [across_a, across_b] = config.transposed();
        let operand = |scalar, across: bool| -> Result<Mutex<PackedOperand>, GemmError> {
            let scalar = in_memory(scalar);
            let load = || Transposes::load(config, scalar, options, device);
            let transposes = across.then(load).transpose()?;
            let workspace = device.zeros(scalar.size_bytes() as usize)?;
            Ok(Mutex::new(PackedOperand { scalar, transposes, workspace }))
        };
        Ok(Repack {
            a: operand(config.a, across_a)?,
            b: operand(config.b, across_b)?,
            pack: device.load_with(options, &build_pack(config)?)?,
            device: device.clone(),
        })
    }

    /// Copies A and B to the workspace if they need it, then calls `product` with the result.
    pub(crate) fn start(
        &self,
        launch: &Launch<'_, AnyGemm>,
        packing: &Packing,
        operands: Operands<'_>,
        product: impl FnOnce(Operands<'_>) -> Result<(), GemmError>,
    ) -> Result<(), GemmError> {
        let Operands { a, b, d } = operands;
        let mut own_a = self.a.lock().unwrap_or_else(PoisonError::into_inner);
        let mut own_b = self.b.lock().unwrap_or_else(PoisonError::into_inner);
        let [of_a, of_b] = [packing.a, packing.b].map(|of| of.unwrap_or(Packed::NONE));
        own_a.reserve(&self.device, &of_a)?;
        own_b.reserve(&self.device, &of_b)?;
        own_a.transpose(launch, &of_a, a)?;
        own_b.transpose(launch, &of_b, b)?;
        let copied = [of_a, of_b].map(|of| if of.transposed { Packed::NONE } else { of });
        if copied != [Packed::NONE; 2] {
            let ([of_a, of_b], mut list) = (copied, ArgList::default());
            let parts = of_a.push_copy(a, own_a.packed_mut(), &mut list)?;
            let parts = parts + of_b.push_copy(b, own_b.packed_mut(), &mut list)?;
            launch.start_other(&self.pack, grid(parts), list)?;
        }
        let a = if packing.a.is_some() { own_a.packed() } else { a };
        let b = if packing.b.is_some() { own_b.packed() } else { b };
        product(Operands { a, b, d })
    }
}

/// Returns the grid that copies this many vectors.
fn grid(parts: u32) -> Grid {
    Grid::new([parts.div_ceil(THREADS), 1, 1], [THREADS, 1, 1])
}
