//! [`Tiles`]: the tiled MMA, the `ldmatrix` loads, the shared-memory layouts and the `cp.async`
//! pipeline of a decode kernel. The host computes them from the configuration, and `kernel.rs`
//! emits the kernel's body from them. [`Params`] lists the arguments of a launch: pointers,
//! strides, sizes and the workspace.

use crate::arch::Major;
use crate::ir::builder::{Role, VectorElement};
use crate::ir::types::Scalar;
use crate::ir::{Element, Global, GlobalMut, Kernel, KernelOptions};
use crate::layout::{Layout, layout, tiler};
use crate::tensor::atom::{MmaAtom, MmaSync, Operand, TiledMma, ValType};
use crate::tensor::copy::MatrixLoad;
use crate::tensor::mma::{AccumulatorOperand, AccumulatorRows};
use crate::tensor::pipeline::CpAsyncPipeline;

use super::config::{DecodeConfig, KEYS, ROWS};
use super::error::DecodeError;

/// The type of the elements of Q, K, V and O in the body of the kernel.
pub(super) type X = Role<0>;

crate::params! {
    /// The kernel's parameters. Strides are in elements: for Q and O from one query, head and
    /// sequence to the next, for K and V from one token, head and page to the next.
    pub(super) struct Params<T: VectorElement<2>> => ParamsAt<'b, T> {
        pub(super) q: Global<T>,
        pub(super) k: Global<T>,
        pub(super) v: Global<T>,
        pub(super) o: GlobalMut<T>,
        pub(super) q_strides: [i64; 3],
        pub(super) k_strides: [i64; 3],
        pub(super) v_strides: [i64; 3],
        pub(super) o_strides: [i64; 3],
        pub(super) lse: GlobalMut<f32>,
        /// 1 if the LSE is written, else 0.
        pub(super) has_lse: i32,
        /// The page table, with `row` entries per sequence, and the sequences' lengths.
        pub(super) table: Global<i32>,
        pub(super) row: i32,
        pub(super) lens: Global<i32>,
        pub(super) max_len: i32,
        /// How many keys a query sees at most, and all queries of a sequence together.
        pub(super) window: i32,
        pub(super) visible: i32,
        /// For each query head a score without a value, if `has_sinks` is 1.
        pub(super) sinks: Global<f32>,
        pub(super) has_sinks: i32,
        /// The pages in the pool, and the base-2 logarithm of the tokens per page.
        pub(super) pages: i32,
        pub(super) page_bits: u32,
        pub(super) key_heads: i32,
        /// Query heads per key head, queries per sequence, and the row tiles of both.
        pub(super) group: i32,
        pub(super) queries: i32,
        pub(super) row_tiles: i32,
        /// Keys per split.
        pub(super) tokens: i32,
        /// The partial results of each tile's splits, and how many splits have written theirs: 0
        /// before and after a launch.
        pub(super) partials: GlobalMut<f32>,
        pub(super) arrivals: GlobalMut<u32>,
        /// The factor inside the exponentials, base 2.
        pub(super) scale: f32,
    }
}

/// A warp's MMA, and how the warp loads the MMA's operands from shared memory. Everything here is
/// known before the kernel is built.
#[derive(Clone, Debug)]
pub(super) struct Tiles {
    pub(super) config: DecodeConfig,
    pub(super) pipe: CpAsyncPipeline,
    /// The tiled MMA, for both S and O. It is 16 columns wide, so that one `ldmatrix` loads four
    /// matrices of B.
    pub(super) mma: TiledMma,
    pub(super) score_rows: AccumulatorRows,
    pub(super) output_rows: AccumulatorRows,
    pub(super) powers: AccumulatorOperand,
    /// The loads of Q, K and V, and the layouts they read: (rows or columns of the MMA, depth,
    /// stage).
    pub(super) q: (MatrixLoad, Layout),
    pub(super) k: (MatrixLoad, Layout),
    pub(super) v: (MatrixLoad, Layout),
}

impl Tiles {
    #[inline]
    pub(super) fn new(config: &DecodeConfig) -> Result<Tiles, DecodeError> {
        config.check()?;
        let ty = match X::scalar() {
            Scalar::F16 => ValType::F16,
            Scalar::Bf16 => ValType::Bf16,
            found => return Err(DecodeError::Element { found }),
        };
        let (dim, pitch, stages) = (config.head_dim, config.pitch(), config.stages);
        let atom = MmaAtom::new(MmaSync::new([16, 8, 16], ty, ty, ValType::F32))?;
        let mma = TiledMma::new(atom, &layout!((1, 1, 1)), tiler!(_, KEYS, _))?;
        let stage = config.stage_elements();
        Ok(Tiles {
            config: *config,
            pipe: CpAsyncPipeline::new(stages, 1)?.of_warp(),
            score_rows: AccumulatorRows::new(&mma, [ROWS, KEYS])?,
            output_rows: AccumulatorRows::new(&mma, [ROWS, dim])?,
            powers: AccumulatorOperand::new(&mma, &mma, [ROWS, KEYS])?,
            q: (
                MatrixLoad::new(&mma, Operand::A, Major::K, ROWS)?,
                layout!((ROWS, dim, 1) : (pitch, 1, 0)),
            ),
            k: (
                MatrixLoad::new(&mma, Operand::B, Major::K, KEYS)?,
                layout!((KEYS, dim, stages) : (pitch, 1, stage)),
            ),
            v: (
                MatrixLoad::new(&mma, Operand::B, Major::Mn, dim)?,
                layout!((dim, KEYS, stages) : (1, pitch, stage)),
            ),
            mma,
        })
    }

    #[inline]
    pub(super) fn build(&self) -> Result<Kernel<(Params<X>,)>, DecodeError> {
        let options = KernelOptions::default().block([self.config.threads(), 1, 1]);
        let name = format!("decode_{}_{}", X::scalar(), self.config);
        Ok(Kernel::<(Params<X>,)>::build_with(
            options,
            &name,
            self.config.target,
            |k, (params,)| {
                self.body(k, &params);
            },
        )?)
    }
}
