//! The matrix product on plain multiply-add units, for every target.

use std::fmt;

use crate::ir::{
    Body, BuildErrors, Global, GlobalMut, Kernel, KernelOptions, Scalar, Target, Val, range,
};
use crate::layout::{Layout, LayoutError, layout, shape, tiler};
use crate::tensor::{
    AtomError, CopyAtom, CopyOp, MmaAtom, MmaOp, SharedTensor, Tensor, TensorError, TiledCopy,
    TiledMma, ValType, copy_if, gemm,
};

/// `A`, `B`, `C`.
pub type SimtSignature = (Global<f32>, Global<f32>, GlobalMut<f32>);

/// `C = A B` in `f32`, with row-major `A[m, k]`, `B[k, n]` and `C[m, n]`.
///
/// A block of 256 threads computes a tile of 64 x 64; each thread keeps 4 x 4 accumulators in registers. The
/// tiles of `A` (64 x 16) and `B` (16 x 64) pass through shared memory. Sizes that are not multiples of the
/// tile are predicated. Every entry is the sum of its products in the order of `k`, each added with one
/// rounding (`fma`), so the result does not depend on the device.
///
/// ```
/// use tilewright::ir::Target;
/// use tilewright::kernels::gemm::SimtGemm;
///
/// let gemm = SimtGemm { m: 251, n: 127, k: 63 };
/// let kernel = gemm.build(Target::SM_80)?;
/// assert_eq!(gemm.blocks(), [2, 4, 1]);
/// assert_eq!(kernel.ir().bounds.block, Some([256, 1, 1]));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SimtGemm {
    /// Rows of `A` and `C`.
    pub m: u32,
    /// Columns of `B` and `C`.
    pub n: u32,
    /// Columns of `A` and rows of `B`.
    pub k: u32,
}

/// Why there is no kernel for a matrix product.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SimtGemmError {
    /// A size is 0 or above [`SimtGemm::MAX_SIZE`].
    Size {
        /// `m`, `n` or `k`.
        name: &'static str,
        /// The size.
        size: u32,
    },
    /// The layouts of the matrices cannot be tiled.
    Layout(LayoutError),
    /// There is no such instruction.
    Atom(AtomError),
    /// There is no such copy.
    Tensor(TensorError),
}

impl fmt::Display for SimtGemmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimtGemmError::Size { name, size } => write!(
                f,
                "the size `{name}` is {size}, but must be from 1 to {}",
                SimtGemm::MAX_SIZE
            ),
            SimtGemmError::Layout(error) => error.fmt(f),
            SimtGemmError::Atom(error) => error.fmt(f),
            SimtGemmError::Tensor(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SimtGemmError {}

impl From<LayoutError> for SimtGemmError {
    fn from(error: LayoutError) -> SimtGemmError {
        SimtGemmError::Layout(error)
    }
}

impl From<AtomError> for SimtGemmError {
    fn from(error: AtomError) -> SimtGemmError {
        SimtGemmError::Atom(error)
    }
}

impl From<TensorError> for SimtGemmError {
    fn from(error: TensorError) -> SimtGemmError {
        SimtGemmError::Tensor(error)
    }
}

const TILE_M: i64 = 64;
const TILE_N: i64 = 64;
const TILE_K: i64 = 16;

impl SimtGemm {
    /// Threads of a block.
    pub const THREADS: u32 = 256;

    /// The tile and how it is computed, for people.
    pub const TILE: &'static str = "64x64x16, 256 threads, 4x4 accumulators each";

    /// The largest size along any mode: the coordinates of the last tile are still numbers of `i32`.
    pub const MAX_SIZE: u32 = i32::MAX as u32 - 63;

    fn check(&self) -> Result<(), SimtGemmError> {
        for (name, size) in [("m", self.m), ("n", self.n), ("k", self.k)] {
            if size == 0 || size > Self::MAX_SIZE {
                return Err(SimtGemmError::Size { name, size });
            }
        }
        Ok(())
    }

    /// Blocks of the grid: tiles along `n`, then along `m`.
    pub fn blocks(&self) -> [u32; 3] {
        [self.n.div_ceil(TILE_N as u32), self.m.div_ceil(TILE_M as u32), 1]
    }

    /// Builds the kernel for these sizes.
    ///
    /// # Errors
    /// [`SimtGemmError`] as an error of the body: a size of 0 or above [`SimtGemm::MAX_SIZE`].
    pub fn build(&self, target: Target) -> Result<Kernel<SimtSignature>, BuildErrors> {
        let options = KernelOptions::default().block([Self::THREADS, 1, 1]);
        let name = format!("gemm_simt_f32_{}x{}x{}", self.m, self.n, self.k);
        Kernel::<SimtSignature>::build_with(options, &name, target, |k, (a, b, c)| {
            self.check()?;
            self.body(k, a, b, c)
        })
    }

    /// `A` is an (M, K) tensor, `B` an (N, K) one, `C` an (M, N) one.
    fn body<'b>(
        &self,
        k: &mut Body<'b, '_>,
        a: Val<'b, Global<f32>>,
        b: Val<'b, Global<f32>>,
        c: Val<'b, GlobalMut<f32>>,
    ) -> Result<(), SimtGemmError> {
        let [m, n, depth] = [self.m, self.n, self.k].map(i64::from);
        let (thread, block) = (k.thread_idx().x, k.block_idx());
        let fma = MmaAtom::new(MmaOp::UniversalFma { ty: ValType::F32 })?;
        let mma = TiledMma::new(fma, &layout!((16, 16, 1):(16, 1, 0)), tiler!(_, _, _))?;
        // Neighbouring threads copy neighbouring elements of a row of A and of a row of B, which is along N.
        let word = CopyAtom::new(CopyOp::Universal { bits: 32 })?;
        let one = layout!((1, 1));
        let along_k = layout!((16, 16):(16, 1));
        let copy_a = TiledCopy::new(word.clone(), Scalar::F32, &along_k, &one)?;
        let copy_b = TiledCopy::new(word, Scalar::F32, &layout!((64, 4)), &one)?;
        let (copy_a, copy_b, mma_part) =
            (copy_a.slice(thread), copy_b.slice(thread), mma.slice(thread));

        // The tiles of the block: (M, K, tiles along K), (N, K, tiles along K), (M, N).
        let (mk, nk) = (tiler!(TILE_M, TILE_K), tiler!(TILE_N, TILE_K));
        let a = Tensor::new(k, a, Layout::new((m, depth), (depth, 1))?);
        let b = Tensor::new(k, b, Layout::new((n, depth), (1, n))?);
        let a = a.local_tile(k, &mk, (block.y, ..));
        let b = b.local_tile(k, &nk, (block.x, ..));
        let at_a = Tensor::identity(k, (m, depth)).local_tile(k, &mk, (block.y, ..));
        let at_b = Tensor::identity(k, (n, depth)).local_tile(k, &nk, (block.x, ..));
        // A column of A is one word longer than its elements: the threads of a warp, which store along K, meet
        // different banks.
        let tile_a = SharedTensor::<f32>::shared(k, layout!((TILE_M, TILE_K):(1, TILE_M + 1)));
        let tile_b = SharedTensor::<f32>::shared(k, layout!((TILE_N, TILE_K):(1, TILE_N)));

        let (from_a, to_a) = (copy_a.partition_s(k, &a), copy_a.partition_d(k, &tile_a));
        let (from_b, to_b) = (copy_b.partition_s(k, &b), copy_b.partition_d(k, &tile_b));
        let (at_a, at_b) = (copy_a.partition_s(k, &at_a), copy_b.partition_s(k, &at_b));
        let (x, y) = (mma_part.partition_a(k, &tile_a), mma_part.partition_b(k, &tile_b));
        let sums = mma_part.fragment_c::<f32>(k, shape!(TILE_M, TILE_N));
        sums.fill(k, 0.0);

        // Below the largest size, so the cast keeps the number.
        let tiles = self.k.div_ceil(TILE_K as u32) as i32;
        k.for_(range(0, tiles), (), |k, tile, ()| {
            let now = (.., .., .., tile);
            let inside_a = at_a.slice(k, now).within(k, (m, depth));
            let inside_b = at_b.slice(k, now).within(k, (n, depth));
            copy_a.copy_zfill(k, &inside_a, &from_a.slice(k, now), &to_a);
            copy_b.copy_zfill(k, &inside_b, &from_b.slice(k, now), &to_b);
            k.barrier();
            gemm(k, &mma, &sums, &x, &y);
            k.barrier();
        });

        let (mn, at) = (tiler!(TILE_M, TILE_N), (block.y, block.x));
        let c = Tensor::new(k, c, Layout::new((m, n), (n, 1))?).local_tile(k, &mn, at);
        let at_c = Tensor::identity(k, (m, n)).local_tile(k, &mn, at);
        let inside = mma_part.partition_c(k, &at_c).within(k, (m, n));
        copy_if(k, &inside, &sums, &mma_part.partition_c(k, &c));
        Ok(())
    }
}
