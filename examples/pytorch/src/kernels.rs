//! Loads the kernel for a problem, and launches it on tensors of other code.

use cudarc::driver::CudaSlice;
use tilewright::ir::builder::{Converted, VectorElement};
use tilewright::ir::{Number, f8e4m3};
use tilewright::kernels::attention::{
    Attention as AttentionKernel, AttentionArgs, AttentionConfig, AttentionProblem,
};
use tilewright::kernels::gemm::{Gemm as GemmKernel, GemmArgs, GemmConfig, GemmProblem, Machine};
use tilewright::kernels::norm::{Norm, NormArgs, NormConfig, NormKind};
use tilewright::kernels::quantize::{
    Quantize as QuantizeKernel, QuantizeArgs, QuantizeConfig, QuantizeProblem, ScaleBlock,
};
use tilewright::kernels::reduce::{
    RowReduce, RowReduceConfig, RowReduceOp, TopK, TopKArgs, TopKConfig,
};
use tilewright::kernels::rows::RowProblem;
use tilewright::kernels::scaled_gemm::{
    ScaleStrides, ScaledGemm as ScaledGemmKernel, ScaledGemmArgs, ScaledGemmConfig,
    ScaledGemmProblem,
};
use tilewright::kernels::softmax::{Softmax, SoftmaxConfig};
use tilewright::kernels::transpose::{
    Transpose as TransposeKernel, TransposeConfig, TransposeProblem,
};
use tilewright::prelude::*;
use tilewright::runtime::CudarcElement;

use crate::AnyError;
use crate::tensor::{On, Tensor};

/// A loaded kernel, and the element count of each of its tensors.
pub(crate) struct Loaded {
    pub(crate) lens: Vec<usize>,
    pub(crate) launch: Box<Launch>,
}

/// Launches a kernel on tensors that the caller of the C ABI has checked.
type Launch = dyn Fn(&On<'_>, &[u64]) -> Result<(), AnyError> + Send + Sync;

impl Loaded {
    fn new<const N: usize>(
        lens: [u64; N],
        launch: impl Fn(&On<'_>, [u64; N]) -> Result<(), AnyError> + Send + Sync + 'static,
    ) -> Result<Loaded, AnyError> {
        let lens = lens.into_iter().map(usize::try_from).collect::<Result<_, _>>()?;
        let launch = move |on: &On<'_>, tensors: &[u64]| launch(on, tensors.try_into()?);
        Ok(Loaded { lens, launch: Box::new(launch) })
    }
}

/// An element type that all kernels support.
pub(crate) trait Elem:
    VectorElement<2> + Converted + Number + CudarcElement<Elem = Self>
{
}

impl Elem for f16 {}
impl Elem for bf16 {}

/// Calls a generic function with the type that an integer of the C ABI stands for.
macro_rules! with_element {
    ($element:expr, $function:ident $args:tt) => {
        match $element {
            0 => $function::<f16> $args,
            1 => $function::<bf16> $args,
            other => Err(format!("{other} is no type: f16 is 0, bf16 is 1").into()),
        }
    };
}

/// A problem struct of the C ABI.
pub(crate) trait Problem {
    /// Loads the default kernel.
    fn load(&self, device: &Device) -> Result<Loaded, AnyError>;
}

/// The C struct `tilewright_rows`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// Which operation: softmax, RMSNorm, LayerNorm, sum, argmax, top-k.
    pub op: i32,
    /// Element type: 0 is f16, 1 is bf16.
    pub element: i32,
    /// Row count.
    pub rows: u32,
    /// Column count.
    pub columns: u32,
    /// For top-k: results per row.
    pub count: u32,
    /// For the norms: the addend under the root.
    pub epsilon: f32,
}

impl Problem for Rows {
    fn load(&self, device: &Device) -> Result<Loaded, AnyError> {
        let op = match self.op {
            0 => return with_element!(self.element, softmax(self, device)),
            1 => return with_element!(self.element, norm(self, NormKind::Rms, device)),
            2 => return with_element!(self.element, norm(self, NormKind::Layer, device)),
            3 => RowReduceOp::Sum,
            4 => RowReduceOp::ArgMax,
            5 => return with_element!(self.element, top_k(self, device)),
            other => return Err(format!("{other} is no operation on rows").into()),
        };
        match op {
            RowReduceOp::ArgMax => with_element!(self.element, arg_max(self, device)),
            op => with_element!(self.element, reduce(self, op, device)),
        }
    }
}

impl Rows {
    fn problem(&self) -> RowProblem {
        RowProblem::new(self.rows, self.columns)
    }

    fn len(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.columns)
    }
}

/// Returns a call's tensors, each with as many elements as the kernel was loaded for.
macro_rules! tensors {
    ($on:expr, $addresses:expr, $lens:expr, [$($T:ty),*]) => {{
        let (mut addresses, mut lens) = ($addresses.into_iter(), $lens.into_iter());
        ($({
            let (address, len) = (addresses.next().unwrap_or(0), lens.next().unwrap_or(0));
            // SAFETY: the caller of the C ABI guarantees `len` elements there.
            let tensor: Tensor<$T> = unsafe { $on.tensor(address, usize::try_from(len)?) };
            tensor
        },)*)
    }};
}

fn softmax<T: Elem>(rows: &Rows, device: &Device) -> Result<Loaded, AnyError> {
    let problem = rows.problem();
    let config = SoftmaxConfig::new(device.target(), T::SCALAR, &problem)?;
    let function = Softmax::<T>::new(config)?.load(device)?;
    let lens = [rows.len(); 2];
    Loaded::new(lens, move |on, addresses| {
        let (x, mut y) = tensors!(on, addresses, lens, [T, T]);
        let launch =
            |args: (&Buffer<T>, &mut Buffer<T>)| function.with(on.options()).launch(&problem, args);
        Ok(on.device.borrow_cudarc((&*x, &mut *y), launch)?)
    })
}

fn norm<T: Elem>(rows: &Rows, kind: NormKind, device: &Device) -> Result<Loaded, AnyError> {
    let (problem, epsilon) = (rows.problem(), rows.epsilon);
    let config = NormConfig::new(kind, device.target(), T::SCALAR, &problem)?.weight();
    let (len, columns) = (rows.len(), u64::from(rows.columns));
    if kind == NormKind::Rms {
        let function = Norm::<T>::new(config)?.load(device)?;
        let lens = [len, columns, len];
        return Loaded::new(lens, move |on, addresses| {
            let (x, weight, mut y) = tensors!(on, addresses, lens, [T, T, T]);
            Ok(on.device.borrow_cudarc((&*x, &*weight, &mut *y), |(x, weight, y)| {
                let args = NormArgs::new(x, y).weight(weight).epsilon(epsilon);
                function.with(on.options()).launch(&problem, args)
            })?)
        });
    }
    let function = Norm::<T>::new(config.bias())?.load(device)?;
    let lens = [len, columns, columns, len];
    Loaded::new(lens, move |on, addresses| {
        let (x, weight, bias, mut y) = tensors!(on, addresses, lens, [T, T, T, T]);
        Ok(on.device.borrow_cudarc((&*x, &*weight, &*bias, &mut *y), |(x, weight, bias, y)| {
            let args = NormArgs::new(x, y).weight(weight).bias(bias).epsilon(epsilon);
            function.with(on.options()).launch(&problem, args)
        })?)
    })
}

fn reduce<T: Elem>(rows: &Rows, op: RowReduceOp, device: &Device) -> Result<Loaded, AnyError> {
    reduced::<T, f32>(rows, op, device)
}

fn arg_max<T: Elem>(rows: &Rows, device: &Device) -> Result<Loaded, AnyError> {
    reduced::<T, i32>(rows, RowReduceOp::ArgMax, device)
}

fn reduced<T: Elem, Y: Converted + CudarcElement<Elem = Y>>(
    rows: &Rows,
    op: RowReduceOp,
    device: &Device,
) -> Result<Loaded, AnyError> {
    let problem = rows.problem();
    let config = RowReduceConfig::new(op, device.target(), T::SCALAR, &problem);
    let function = RowReduce::<T, Y>::new(config)?.load(device)?;
    let lens = [rows.len(), rows.rows.into()];
    Loaded::new(lens, move |on, addresses| {
        let (x, mut y) = tensors!(on, addresses, lens, [T, Y]);
        let launch =
            |args: (&Buffer<T>, &mut Buffer<Y>)| function.with(on.options()).launch(&problem, args);
        Ok(on.device.borrow_cudarc((&*x, &mut *y), launch)?)
    })
}

fn top_k<T: Elem>(rows: &Rows, device: &Device) -> Result<Loaded, AnyError> {
    let problem = rows.problem();
    let config = TopKConfig::new(rows.count, device.target(), T::SCALAR, &problem);
    let function = TopK::<T>::new(config)?.load(device)?;
    let results = u64::from(rows.rows) * u64::from(rows.count);
    let lens = [rows.len(), results, results];
    Loaded::new(lens, move |on, addresses| {
        let (x, mut values, mut columns) = tensors!(on, addresses, lens, [T, f32, i32]);
        let slices = (&*x, &mut *values, &mut *columns);
        Ok(on.device.borrow_cudarc(slices, |(x, values, columns)| {
            function.with(on.options()).launch(&problem, TopKArgs { x, values, columns })
        })?)
    })
}

/// The C struct `tilewright_transpose`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Transpose {
    /// As in [`Rows`].
    pub element: i32,
    /// Rows of the input.
    pub rows: u32,
    /// Columns of the input.
    pub columns: u32,
}

impl Problem for Transpose {
    fn load(&self, device: &Device) -> Result<Loaded, AnyError> {
        with_element!(self.element, transpose(self, device))
    }
}

fn transpose<T: Elem>(sizes: &Transpose, device: &Device) -> Result<Loaded, AnyError> {
    let problem = TransposeProblem::new(sizes.rows, sizes.columns);
    let config = TransposeConfig::new(device.target(), T::SCALAR, &problem);
    let function = TransposeKernel::<T>::new(config)?.load(device)?;
    let lens = [u64::from(sizes.rows) * u64::from(sizes.columns); 2];
    Loaded::new(lens, move |on, addresses| {
        let (x, mut y) = tensors!(on, addresses, lens, [T, T]);
        let launch =
            |args: (&Buffer<T>, &mut Buffer<T>)| function.with(on.options()).launch(&problem, args);
        Ok(on.device.borrow_cudarc((&*x, &mut *y), launch)?)
    })
}

/// The C struct `tilewright_gemm`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Gemm {
    /// As in [`Rows`].
    pub element: i32,
    /// Rows of A and D.
    pub m: u32,
    /// Rows of B, columns of D.
    pub n: u32,
    /// Columns of A and B.
    pub k: u32,
}

impl Problem for Gemm {
    fn load(&self, device: &Device) -> Result<Loaded, AnyError> {
        with_element!(self.element, gemm(self, device))
    }
}

fn gemm<T: Elem>(sizes: &Gemm, device: &Device) -> Result<Loaded, AnyError> {
    let Gemm { m, n, k, .. } = *sizes;
    let problem = GemmProblem::new(m, n, k);
    let wanted = GemmConfig { target: device.target(), ..GemmConfig::sm90(T::SCALAR, [128, 128]) };
    let function =
        GemmKernel::<T>::new(wanted.best(&problem, &Machine::of(device))?)?.load(device)?;
    let lens = [(m, k), (n, k), (m, n)].map(|(rows, columns)| u64::from(rows) * u64::from(columns));
    Loaded::new(lens, move |on, addresses| {
        let (a, b, mut d) = tensors!(on, addresses, lens, [T, T, T]);
        Ok(on.device.borrow_cudarc((&*a, &*b, &mut *d), |(a, b, d)| {
            function.with(on.options()).launch(&problem, GemmArgs::new(a, b, d))
        })?)
    })
}

/// The C struct `tilewright_scaled_gemm`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ScaledGemm {
    /// The elements of D, as in [`Rows`]. Those of A and B are e4m3.
    pub element: i32,
    /// Rows of A and D.
    pub m: u32,
    /// Rows of B, columns of D.
    pub n: u32,
    /// Columns of A and B.
    pub k: u32,
    /// Elements between the scales of adjacent rows of A, and of adjacent blocks along K.
    pub a_scales: [u32; 2],
    /// The same for blocks of 128 rows of B.
    pub b_scales: [u32; 2],
}

impl Problem for ScaledGemm {
    fn load(&self, device: &Device) -> Result<Loaded, AnyError> {
        with_element!(self.element, scaled_gemm(self, device))
    }
}

fn scaled_gemm<T: Elem>(sizes: &ScaledGemm, device: &Device) -> Result<Loaded, AnyError> {
    let ScaledGemm { m, n, k, .. } = *sizes;
    let [a_scales, b_scales] =
        [sizes.a_scales, sizes.b_scales].map(|[row, block]| ScaleStrides { row, block });
    let problem = ScaledGemmProblem { a_scales, b_scales, ..ScaledGemmProblem::new(m, n, k) };
    let config = ScaledGemmConfig::new(device.target(), T::SCALAR, &problem)?;
    let function = ScaledGemmKernel::<f8e4m3, f8e4m3, T>::new(config)?.load(device)?;
    let [a, b, d] =
        [(m, k), (n, k), (m, n)].map(|(rows, columns)| u64::from(rows) * u64::from(columns));
    let [of_a, of_b] = problem.scale_lens();
    let lens = [a, of_a, b, of_b, d];
    Loaded::new(lens, move |on, addresses| {
        let (a, a_scales, b, b_scales, mut d) =
            tensors!(on, addresses, lens, [f8e4m3, f32, f8e4m3, f32, T]);
        let slices = (&*a, &*a_scales, &*b, &*b_scales, &mut *d);
        Ok(on.device.borrow_cudarc(slices, |(a, a_scales, b, b_scales, d)| {
            let args = ScaledGemmArgs { a, a_scales, b, b_scales, d, groups: None };
            function.with(on.options()).launch(&problem, args)
        })?)
    })
}

/// The C struct `tilewright_quantize`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Quantize {
    /// The elements of x, as in [`Rows`]. Those of y are e4m3.
    pub element: i32,
    /// Which elements share a scale: 0 is a row, 1 is 1 x 128, 2 is 128 x 128.
    pub block: i32,
    /// Row count.
    pub rows: u32,
    /// Column count.
    pub columns: u32,
    /// Elements between the scales of adjacent blocks along the rows, and along the columns.
    pub scales: [u32; 2],
}

impl Problem for Quantize {
    fn load(&self, device: &Device) -> Result<Loaded, AnyError> {
        with_element!(self.element, quantize(self, device))
    }
}

fn quantize<T: Elem>(sizes: &Quantize, device: &Device) -> Result<Loaded, AnyError> {
    let Quantize { rows, columns, scales: [row, block], .. } = *sizes;
    let blocks = match sizes.block {
        0 => ScaleBlock::Row,
        1 => ScaleBlock::Row128,
        2 => ScaleBlock::Square128,
        other => return Err(format!("{other} is no block of a scale").into()),
    };
    let scales = ScaleStrides { row, block };
    let problem = QuantizeProblem { scales, ..QuantizeProblem::new(blocks, rows, columns) };
    let config = QuantizeConfig::new(blocks, device.target(), T::SCALAR, &problem)?;
    let function = QuantizeKernel::<T, f8e4m3>::new(config)?.load(device)?;
    let len = u64::from(rows) * u64::from(columns);
    let lens = [len, len, problem.scale_len()];
    Loaded::new(lens, move |on, addresses| {
        let (x, mut y, mut scales) = tensors!(on, addresses, lens, [T, f8e4m3, f32]);
        Ok(on.device.borrow_cudarc((&*x, &mut *y, &mut *scales), |(x, y, scales)| {
            function.with(on.options()).launch(&problem, QuantizeArgs { x, y, scales })
        })?)
    })
}

/// The C struct `tilewright_attention`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    /// As in [`Rows`].
    pub element: i32,
    /// How many sequences there are.
    pub batch: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads.
    pub key_heads: u32,
    /// Queries per sequence.
    pub queries: u32,
    /// Keys per sequence.
    pub keys: u32,
    /// Dimension of queries and keys.
    pub head_dim: u32,
    /// Dimension of values.
    pub value_dim: u32,
    /// How many keys before its own position a query sees; negative for all.
    pub left: i32,
    /// How many keys after its own position a query sees; negative for all, 0 if causal.
    pub right: i32,
    /// Factor for the scores; 0 means `1 / sqrt(head_dim)`.
    pub scale: f32,
    /// 0 is the GPU's default, 1 is `mma.sync`.
    pub schedule: i32,
}

impl Problem for Attention {
    fn load(&self, device: &Device) -> Result<Loaded, AnyError> {
        with_element!(self.element, attention(self, device))
    }
}

fn attention<T: Elem>(sizes: &Attention, device: &Device) -> Result<Loaded, AnyError> {
    let Attention { batch, heads, key_heads, queries, keys, head_dim, value_dim, .. } = *sizes;
    let problem = AttentionProblem {
        value_dim,
        left: u32::try_from(sizes.left).ok(),
        right: u32::try_from(sizes.right).ok(),
        scale: (sizes.scale != 0.0).then_some(sizes.scale),
        ..AttentionProblem::new([batch, heads, key_heads], [queries, keys], head_dim)
    };
    let config = match sizes.schedule {
        0 => AttentionConfig::new(device.target(), &problem)?,
        1 => AttentionConfig::sm80(device.target(), &problem)?,
        other => return Err(format!("{other} is no schedule").into()),
    };
    let function = AttentionKernel::<T>::new(config)?.load(device)?;
    let len = |heads: u32, positions: u32, dim: u32| {
        [batch, heads, positions, dim].into_iter().map(u64::from).product()
    };
    let lens = [
        len(heads, queries, head_dim),
        len(key_heads, keys, head_dim),
        len(key_heads, keys, value_dim),
        len(heads, queries, value_dim),
        len(heads, queries, 1),
    ];
    Loaded::new(lens, move |on, addresses| {
        let (q, k, v, mut o, mut lse) = tensors!(on, addresses, lens, [T, T, T, T, f32]);
        let slices: (&CudaSlice<T>, _, _, _, _) = (&q, &*k, &*v, &mut *o, &mut *lse);
        Ok(on.device.borrow_cudarc(slices, |(q, k, v, o, lse)| {
            let args = AttentionArgs { q, k, v, o, lse, starts: None };
            function.with(on.options()).launch(&problem, args)
        })?)
    })
}
