//! [`Plan`]: the layouts, tiled MMAs and TMA copies that the host computes before it builds the
//! `sm_90a` attention kernel. It also declares the parameters of both attention kernels. `sm90.rs`
//! has the device code that uses them.

use crate::arch::{L2Promotion, Major, TensorMapDesc};
use crate::ir::builder::{Role, VectorElement};
use crate::ir::types::Scalar;
use crate::ir::{
    Element, Global, GlobalMut, Kernel, KernelOptions, TensorMap, TensorMapMut, Untyped, Val,
};
use crate::layout::{ComposedLayout, Layout, layout, shape, tiler};
use crate::tensor::atom::{
    CopyAtom, CopyOp, Matrices, MmaAtom, Operand, OperandSource, SmemAtom, SmemSwizzle, TiledCopy,
    TiledMma, ValType, Wgmma,
};
use crate::tensor::copy::TmaCopy;
use crate::tensor::mma::{AccumulatorOperand, AccumulatorRows};

use super::config::{AttentionConfig, OUTPUT_STAGES, ROWS, Staging, swizzle_of};
use super::error::AttentionError;
use super::problem::AttentionProblem;

/// The type of the elements of Q, K, V and O in the body of a kernel.
pub(super) type X = Role<0>;

crate::params! {
    /// Q, K and V for TMA.
    pub(super) struct Inputs<T: VectorElement<2>> => InputsAt<'b, T> {
        pub(super) q: TensorMap<T, 4>,
        pub(super) k: TensorMap<T, 4>,
        pub(super) v: TensorMap<T, 4>,
    }
}

crate::params! {
    /// The parameters that all kernels share.
    pub(super) struct Params => ParamsAt<'b> {
        pub(super) lse: GlobalMut<f32>,
        /// How many work items the blocks have fetched, without each block's first item. It is 0
        /// before and after a launch, and stays 0 if each block has a single item.
        pub(super) taken: GlobalMut<u32>,
        /// Query tiles per head; heads per sequence, and of all sequences; query heads per key
        /// head; heads per section.
        pub(super) row_tiles: i32,
        pub(super) heads: i32,
        pub(super) all_heads: i32,
        pub(super) group: i32,
        pub(super) section: i32,
        pub(super) queries: i32,
        pub(super) keys: i32,
        /// Query `i` sees the keys from `i + lower` to `i + upper`.
        pub(super) lower: i32,
        pub(super) upper: i32,
        /// The factor inside the exponentials, base 2, and the factor inside a softcap's `tanh`.
        pub(super) scale: f32,
        pub(super) inner: f32,
    }
}

crate::params! {
    /// The output for threads that store it, and sequences of different lengths.
    pub(super) struct SequenceParams<T: VectorElement<2>> => SequencesAt<'b, T> {
        pub(super) o: GlobalMut<T>,
        /// The strides of position, head and sequence.
        pub(super) strides: [i64; 3],
        /// The sequences' first positions in Q and in K, then the total. Not read if all sequences
        /// have one length.
        pub(super) q_starts: Global<i32>,
        pub(super) k_starts: Global<i32>,
        pub(super) count: i32,
    }
}

crate::params! {
    /// Q, K and V for threads that copy them.
    pub(super) struct Operands<T: VectorElement<2>> => OperandsAt<'b, T> {
        pub(super) q: Global<T>,
        pub(super) k: Global<T>,
        pub(super) v: Global<T>,
        /// Their strides of position, head and sequence.
        pub(super) strides: [[i64; 3]; 3],
    }
}

/// The parameters of the TMA kernel that stores tiles, of the one that stores rows, and of the
/// `mma.sync` kernel.
pub(super) type Whole<T> = (Inputs<T>, TensorMapMut<T, 4>, Params);
pub(super) type BySequence<T> = (Inputs<T>, SequenceParams<T>, Params);
pub(super) type ByThreads<T> = (Operands<T>, SequenceParams<T>, Params);

/// The parameters' values in a kernel's body.
pub(super) struct Args<'a> {
    pub(super) inputs: InputsAt<'a, X>,
    pub(super) output: Output<'a>,
    pub(super) params: ParamsAt<'a>,
}

/// The output in a kernel's body.
pub(super) enum Output<'a> {
    /// TMA stores whole tiles.
    Tiles(Val<'a, TensorMapMut<X, 4>>),
    /// Threads store rows.
    Rows(SequencesAt<'a, X>),
}

/// A ring buffer of tiles in shared memory, and the TMA copy that fetches one.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    pub(super) layout: ComposedLayout,
    pub(super) copy: TmaCopy,
}

impl Ring {
    /// Plans tiles of `len` positions. The mode `dim` comes first if it is the operand's contiguous
    /// M or N.
    #[inline]
    fn new(
        elem: Scalar,
        major: Major,
        [len, dim, stages]: [u32; 3],
    ) -> Result<Ring, AttentionError> {
        let swizzle = if swizzle_of(dim) == 64 { SmemSwizzle::Sw128 } else { SmemSwizzle::Sw64 };
        let atom = SmemAtom::new(major, swizzle).position_independent(elem.bits())?;
        let (tile, ring, order) = match major {
            Major::K => (shape!(len, dim, 1, 1), shape!(len, dim, stages), [0, 1]),
            Major::Mn => (shape!(dim, len, 1, 1), shape!(dim, len, stages), [1, 0]),
        };
        let [first, second] = order;
        let tile = atom.tile_to_shape(&tile, Some(&shape!(first, second, 2, 3)))?;
        let layout = atom.tile_to_shape(&ring, Some(&shape!(first, second, 2)))?;
        Ok(Ring { layout, copy: TmaCopy::new(elem, &tile)? })
    }
}

/// Everything about the `sm_90a` kernel that the host computes before it builds the kernel.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) config: AttentionConfig,
    pub(super) scores: TiledMma,
    pub(super) output: TiledMma,
    pub(super) score_rows: AccumulatorRows,
    pub(super) output_rows: AccumulatorRows,
    pub(super) powers: AccumulatorOperand,
    pub(super) q: Ring,
    pub(super) k: Ring,
    pub(super) v: Ring,
    /// How many columns of the output one TMA copy stores, an MMA with these columns, and their
    /// ring buffer.
    pub(super) part: u32,
    pub(super) part_mma: TiledMma,
    pub(super) o_ring: Option<ComposedLayout>,
    pub(super) o_copy: TmaCopy,
    /// The rows of a tile of Q and of O as (position, dimension, head), because several heads may
    /// share a tile.
    pub(super) packed: [Layout; 2],
    pub(super) o_store: TiledCopy,
}

impl Plan {
    #[inline]
    pub(super) fn new(config: &AttentionConfig) -> Result<Plan, AttentionError> {
        config.check()?;
        let AttentionConfig { head_dim, value_dim, tile: [_, columns], stages, .. } = *config;
        let (elem, ty) = (X::scalar(), val_type()?);
        let mma = |n, source| -> Result<TiledMma, AttentionError> {
            let atom = MmaAtom::new(Wgmma::new(n, ty, ty, ValType::F32, source))?;
            Ok(TiledMma::new(atom, &layout!((1, 1, 1)), tiler!(_, _, _))?)
        };
        let scores = mma(columns, OperandSource::Shared)?;
        let output = mma(value_dim, OperandSource::Registers)?;
        let groups = config.groups();
        let mut q = Ring::new(elem, Major::K, [ROWS, head_dim, groups * config.query_stages()])?;
        let heads = config.packed_heads;
        let (part, o_ring) = match config.staging() {
            Staging::Ring => {
                let part = swizzle_of(value_dim);
                let ring = Ring::new(elem, Major::K, [ROWS, part, groups * OUTPUT_STAGES])?;
                (part, Some(ring.layout))
            }
            _ => (value_dim, None),
        };
        let part_mma = mma(part, OperandSource::Registers)?;
        let packed =
            [head_dim, part].map(|dim| layout!((ROWS / heads, dim, heads) : (heads, ROWS, 1)));
        let o = q.copy.tile().composition(&tiler!(ROWS, part, 1, 1))?;
        let o = one_sequence(&o, &packed[1])?;
        q.copy = TmaCopy::new(elem, &one_sequence(q.copy.tile(), &packed[0])?)?;
        let store = CopyAtom::new(CopyOp::StMatrix { matrices: Matrices::X4, transposed: false })?;
        Ok(Plan {
            config: *config,
            score_rows: AccumulatorRows::new(&scores, [ROWS, columns])?,
            output_rows: AccumulatorRows::new(&output, [ROWS, value_dim])?,
            powers: AccumulatorOperand::new(&scores, &output, [ROWS, columns])?,
            k: Ring::new(elem, Major::K, [columns, head_dim, stages])?,
            v: Ring::new(elem, Major::Mn, [columns, value_dim, stages])?,
            o_copy: TmaCopy::new(elem, &o)?,
            o_store: TiledCopy::of_operand(store, elem, &part_mma, Operand::C)?,
            part,
            part_mma,
            o_ring,
            scores,
            output,
            q,
            packed,
        })
    }

    /// Returns the tensor maps of Q, K, V and O. If there are no keys, the maps of K and V have one
    /// position that no query sees.
    #[inline]
    pub(super) fn maps(
        &self,
        problem: &AttentionProblem,
    ) -> Result<[TensorMapDesc; 4], AttentionError> {
        let AttentionProblem { heads, key_heads, queries, keys, head_dim, value_dim, .. } =
            *problem;
        let batch = problem.tensor_batch();
        let of_keys = |copy, dim, strides| match keys {
            0 => self.map(copy, [1, dim, 1, 1], [0; 3]),
            _ => self.map(copy, [keys, dim, key_heads, batch], strides),
        };
        Ok([
            self.map(&self.q.copy, [queries, head_dim, heads, batch], problem.q_strides())?,
            of_keys(&self.k.copy, head_dim, problem.k_strides())?,
            of_keys(&self.v.copy, value_dim, problem.v_strides())?,
            self.map(&self.o_copy, [queries, value_dim, heads, batch], problem.o_strides())?,
        ])
    }

    /// Returns the map of a `[len, dim, heads, batch]` tensor with these strides of position, head
    /// and batch.
    #[inline]
    fn map(
        &self,
        copy: &TmaCopy,
        [len, dim, heads, batch]: [u32; 4],
        strides: [u64; 3],
    ) -> Result<TensorMapDesc, AttentionError> {
        let [position, head, sequence] = strides;
        let [len, dim, heads, batch] = [len, dim, heads, batch].map(i64::from);
        let tensor = if *copy == self.v.copy {
            Layout::new([dim, len, heads, batch], (1, position, head, sequence))?
        } else {
            Layout::new([len, dim, heads, batch], (position, 1, head, sequence))?
        };
        Ok(copy.desc(&tensor)?.with_l2_promotion(L2Promotion::B256))
    }

    #[inline]
    pub(super) fn build(&self) -> Result<Kernel<Untyped>, AttentionError> {
        let options = KernelOptions::default().block([self.config.threads(), 1, 1]);
        let (options, name) = (options.min_blocks_per_sm(1), format!("attention_{}", self.config));
        let target = self.config.target;
        let kernel = match self.config.staging() {
            Staging::Queries | Staging::Ring => {
                Kernel::<Whole<X>>::build_with(options, &name, target, |k, (inputs, o, params)| {
                    let output = Output::Tiles(o);
                    self.body(k, &Args { inputs, output, params });
                })?
                .untyped()
            }
            Staging::Rows => Kernel::<BySequence<X>>::build_with(
                options,
                &name,
                target,
                |k, (inputs, sequences, params)| {
                    let output = Output::Rows(sequences);
                    self.body(k, &Args { inputs, output, params });
                },
            )?
            .untyped(),
        };
        Ok(kernel)
    }
}

/// Returns the elements of an MMA on [`X`].
#[inline]
pub(super) fn val_type() -> Result<ValType, AttentionError> {
    match X::scalar() {
        Scalar::F16 => Ok(ValType::F16),
        Scalar::Bf16 => Ok(ValType::Bf16),
        found => Err(AttentionError::Element { found }),
    }
}

/// Returns a tile (row, dimension, 1, 1) as (position, dimension, head, 1).
#[inline]
fn one_sequence(tile: &ComposedLayout, packed: &Layout) -> Result<ComposedLayout, AttentionError> {
    Ok(tile.composition(&packed.append(&layout!(1 : 0))?)?)
}
