//! The functions of `candle-flash-attn`, and the operation behind all attention functions.

use std::sync::{Mutex, PoisonError};

use candle_core::{D, DType, Error, Layout, Result as CandleResult, Shape, Tensor};
use tilewright::kernels::Loaded;
use tilewright::kernels::attention::{
    Attention as AttentionKernel, AttentionArgs, AttentionConfig, AttentionProblem,
};
use tilewright::runtime::Buffer;

use crate::bridge::{AnyError, Float, Input, Operation, Place, aligned_rows, apply, candle_error};

/// The head dimensions of the kernels are multiples of this.
const DIM_STEP: usize = 32;

/// Returns the attention `softmax(softmax_scale q kᵀ) v` for `f16` or `bf16` tensors with the shape
/// `(batch, seq, heads, dim)`, like `candle_flash_attn::flash_attn`.
///
/// `k` and `v` may have another `seq` than `q`, and fewer heads: adjacent query heads then share a
/// key head (GQA). The last query is aligned with the last key; if `causal`, it sees all keys, the
/// one before sees all but the last, and so on. A query that sees no key gets zeros.
///
/// # Compared with candle-flash-attn
///
/// * The same: [`flash_attn`], [`flash_attn_windowed`], [`flash_attn_varlen`],
///   [`flash_attn_varlen_windowed`].
/// * Only with `alibi_slopes` `None`, for their softcap: [`flash_attn_alibi_windowed_softcap`],
///   [`flash_attn_varlen_alibi_windowed_softcap`].
/// * Missing, because the kernel cannot add a bias to the scores: `flash_attn_alibi`,
///   `flash_attn_alibi_windowed`, `flash_attn_varlen_alibi`, `flash_attn_varlen_alibi_windowed`.
///
/// These functions also take CPU tensors (on the simulator), any dimension up to 256 (other than
/// multiples of 32 are padded by a copy), and a `v` with another dimension than `q` and `k`. GPUs
/// need compute capability 8.0. Kernels with TMA and `wgmma` run on Hopper.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use tilewright_candle::flash_attn;
///
/// // All scores are 0, so each query gets the mean of the values that it sees.
/// let q = Tensor::zeros((1, 2, 1, 32), DType::BF16, &Device::Cpu)?;
/// let v = Tensor::cat(&[q.narrow(1, 0, 1)?, q.ones_like()?.narrow(1, 0, 1)?], 1)?;
/// let o = flash_attn(&q, &q, &v, 1.0, true)?.to_dtype(DType::F32)?;
/// assert_eq!(o.flatten_all()?.to_vec1::<f32>()?, [[0.0; 32], [0.5; 32]].concat());
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Those in the [table](crate#errors).
pub fn flash_attn(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    softmax_scale: f32,
    causal: bool,
) -> CandleResult<Tensor> {
    flash_attn_windowed(q, k, v, softmax_scale, None, causal_window(causal))
}

/// Returns the attention of [`flash_attn`] with a window: a query sees at most `window_size_left`
/// keys before and `window_size_right` keys after its own position. `None` is no limit; `Some(0)`
/// on the right is causal.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use tilewright_candle::flash_attn_windowed;
///
/// // Each query sees only its own position, so the result is `v`.
/// let v = Tensor::randn(0f32, 1.0, (2, 5, 1, 32), &Device::Cpu)?.to_dtype(DType::BF16)?;
/// let o = flash_attn_windowed(&v, &v, &v, 1.0, Some(0), Some(0))?;
/// let values = |x: &Tensor| x.flatten_all()?.to_vec1::<half::bf16>();
/// assert_eq!(values(&o)?, values(&v)?);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Those in the [table](crate#errors).
pub fn flash_attn_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> CandleResult<Tensor> {
    let (left, right) = (window_size_left, window_size_right);
    let attention = Attention::new("flash-attn", Order::PositionsFirst, softmax_scale);
    Attention { left, right, ..attention }.apply([q, k, v])
}

/// Returns the attention of [`flash_attn_windowed`] with scores `softcap * tanh(score / softcap)`,
/// as Gemma has it. A softcap of 0 is none. `alibi_slopes` must be `None`.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use tilewright_candle::{flash_attn_alibi_windowed_softcap, flash_attn_windowed};
///
/// let x = Tensor::ones((1, 3, 1, 32), DType::F16, &Device::Cpu)?;
/// // Equal scores stay equal, so that the softcap changes nothing.
/// let o = flash_attn_alibi_windowed_softcap(&x, &x, &x, None, 1.0, None, None, 20.0)?;
/// let plain = flash_attn_windowed(&x, &x, &x, 1.0, None, None)?;
/// let values = |x: &Tensor| x.flatten_all()?.to_vec1::<half::f16>();
/// assert_eq!(values(&o)?, values(&plain)?);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Those in the [table](crate#errors); [`OperationError`](crate::bridge::OperationError) if there
/// are slopes.
pub fn flash_attn_alibi_windowed_softcap(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: Option<&Tensor>,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    softcap: f32,
) -> CandleResult<Tensor> {
    let attention = Attention {
        left: window_size_left,
        right: window_size_right,
        softcap: Some(softcap).filter(|cap| *cap != 0.0),
        ..Attention::new("flash-attn", Order::PositionsFirst, softmax_scale)
    };
    attention.without_alibi(alibi_slopes)?.apply([q, k, v])
}

/// Returns the attention of [`flash_attn`] for sequences with different lengths that follow each
/// other in tensors with the shape `(total, heads, dim)`.
///
/// `seqlens_q` and `seqlens_k` are `u32` tensors with one element more than there are sequences:
/// the first position of each sequence, ascending from 0, then the total. On a GPU nothing checks
/// their values, as in candle-flash-attn: with wrong ones, results are wrong, or the kernel
/// accesses other memory. All of `k` and `v` must be finite, because a tile may read keys of the
/// next sequence and multiply them by 0. The maximal lengths are ignored; the kernel does not need
/// them.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use tilewright_candle::flash_attn_varlen;
///
/// // Sequences with 1 and 3 positions. All scores are 0.
/// let starts = Tensor::new(&[0u32, 1, 4], &Device::Cpu)?;
/// let v = Tensor::new(&[7f32, 1.0, 2.0, 3.0], &Device::Cpu)?.to_dtype(DType::F16)?;
/// let v = v.reshape((4, 1, 1))?.broadcast_as((4, 1, 32))?;
/// let q = v.zeros_like()?;
/// let o = flash_attn_varlen(&q, &q, &v, &starts, &starts, 3, 3, 1.0, false)?;
/// let first = o.narrow(2, 0, 1)?.flatten_all()?.to_dtype(DType::F32)?;
/// assert_eq!(first.to_vec1::<f32>()?, [7.0, 2.0, 2.0, 2.0]);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Those in the [table](crate#errors), for example if the two lists have different lengths.
pub fn flash_attn_varlen(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    causal: bool,
) -> CandleResult<Tensor> {
    flash_attn_varlen_windowed(
        q,
        k,
        v,
        seqlens_q,
        seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        softmax_scale,
        None,
        causal_window(causal),
    )
}

/// Returns the attention of [`flash_attn_varlen`] with the window of [`flash_attn_windowed`].
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use tilewright_candle::flash_attn_varlen_windowed;
///
/// // Each query sees only its own position, so the result is `v`.
/// let starts = Tensor::new(&[0u32, 1, 4], &Device::Cpu)?;
/// let v = Tensor::randn(0f32, 1.0, (4, 2, 32), &Device::Cpu)?.to_dtype(DType::F16)?;
/// let o = flash_attn_varlen_windowed(&v, &v, &v, &starts, &starts, 3, 3, 1.0, Some(0), Some(0))?;
/// let values = |x: &Tensor| x.flatten_all()?.to_vec1::<half::f16>();
/// assert_eq!(values(&o)?, values(&v)?);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Those of [`flash_attn_varlen`].
pub fn flash_attn_varlen_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> CandleResult<Tensor> {
    flash_attn_varlen_alibi_windowed_softcap(
        q,
        k,
        v,
        None,
        seqlens_q,
        seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        softmax_scale,
        window_size_left,
        window_size_right,
        0.0,
    )
}

/// Returns the attention of [`flash_attn_varlen_windowed`] with the softcap of
/// [`flash_attn_alibi_windowed_softcap`]. `alibi_slopes` must be `None`.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use tilewright_candle::flash_attn_varlen_alibi_windowed_softcap;
///
/// let starts = Tensor::new(&[0u32, 1, 4], &Device::Cpu)?;
/// let v = Tensor::randn(0f32, 1.0, (4, 2, 32), &Device::Cpu)?.to_dtype(DType::F16)?;
/// let own = Some(0);
/// let o = flash_attn_varlen_alibi_windowed_softcap(
///     &v, &v, &v, None, &starts, &starts, 3, 3, 1.0, own, own, 30.0,
/// )?;
/// let values = |x: &Tensor| x.flatten_all()?.to_vec1::<half::f16>();
/// assert_eq!(values(&o)?, values(&v)?);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Those of [`flash_attn_varlen`]; [`OperationError`](crate::bridge::OperationError) if there are
/// slopes.
pub fn flash_attn_varlen_alibi_windowed_softcap(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: Option<&Tensor>,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    _max_seqlen_q: usize,
    _max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    softcap: f32,
) -> CandleResult<Tensor> {
    let attention = Attention {
        left: window_size_left,
        right: window_size_right,
        softcap: Some(softcap).filter(|cap| *cap != 0.0),
        starts: Some(Starts { q: seqlens_q.clone(), k: seqlens_k.clone() }),
        ..Attention::new("flash-attn-varlen", Order::Packed, softmax_scale)
    };
    attention.without_alibi(alibi_slopes)?.apply([q, k, v])
}

/// Returns the window after a query.
fn causal_window(causal: bool) -> Option<usize> {
    if causal { Some(0) } else { None }
}

/// The order of a tensor's dimensions.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    /// `(batch, heads, positions, dim)`.
    HeadsFirst,
    /// `(batch, positions, heads, dim)`.
    PositionsFirst,
    /// `(positions, heads, dim)`, with all sequences along the positions.
    Packed,
}

/// The sizes of a tensor, and its strides from one position, head and sequence to the next.
struct Sizes {
    batch: u32,
    heads: u32,
    positions: u32,
    dim: u32,
    strides: [u64; 3],
}

impl Order {
    fn sizes(self, shape: &Shape, strides: &[usize]) -> CandleResult<Sizes> {
        let (dims, expected) = (shape.dims(), if let Order::Packed = self { 3 } else { 4 });
        let unexpected =
            Error::UnexpectedNumberOfDims { expected, got: dims.len(), shape: shape.clone() };
        // Which dimensions position, head and sequence are.
        let (position, head, sequence) = match (self, dims.len()) {
            (Order::HeadsFirst, 4) => (2, 1, Some(0)),
            (Order::PositionsFirst, 4) => (1, 2, Some(0)),
            (Order::Packed, 3) => (0, 1, None),
            _ => return Err(unexpected),
        };
        let size = |at: usize| u32::try_from(dims[at]);
        let stride = |at: usize| u64::try_from(strides[at]);
        Ok(Sizes {
            batch: sequence.map_or(Ok(1), size)?,
            heads: size(head)?,
            positions: size(position)?,
            dim: size(dims.len() - 1)?,
            strides: [stride(position)?, stride(head)?, sequence.map_or(Ok(0), stride)?],
        })
    }
}

/// Where the sequences of packed tensors start.
#[derive(Clone)]
pub(crate) struct Starts {
    q: Tensor,
    k: Tensor,
}

/// Attention, as an operation with the inputs `q`, `k` and `v`.
pub(crate) struct Attention {
    pub(crate) name: &'static str,
    pub(crate) order: Order,
    pub(crate) scale: f32,
    /// How many keys before and after its own position a query sees; `None` is all.
    pub(crate) left: Option<usize>,
    pub(crate) right: Option<usize>,
    pub(crate) softcap: Option<f32>,
    pub(crate) starts: Option<Starts>,
}

impl Attention {
    pub(crate) fn new(name: &'static str, order: Order, scale: f32) -> Self {
        Attention { name, order, scale, left: None, right: None, softcap: None, starts: None }
    }

    fn without_alibi(self, slopes: Option<&Tensor>) -> CandleResult<Self> {
        match slopes {
            Some(_) => Err(candle_error(self.name, "ALiBi slopes are not supported".into())),
            None => Ok(self),
        }
    }

    /// Applies the operation. Pads the dimensions to what the kernels have: zeros change no score,
    /// and the output's zeros are cut off.
    pub(crate) fn apply(self, inputs: [&Tensor; 3]) -> CandleResult<Tensor> {
        let [q, k, v] = inputs;
        if !matches!(q.dtype(), DType::F16 | DType::BF16) {
            return Err(Error::UnsupportedDTypeForOp(q.dtype(), self.name));
        }
        let pad = |x: &Tensor| -> CandleResult<Tensor> {
            let dim = x.dim(D::Minus1)?;
            match dim.next_multiple_of(DIM_STEP) - dim {
                0 => Ok(x.clone()),
                more => x.pad_with_zeros(D::Minus1, 0, more),
            }
        };
        let dim = v.dim(D::Minus1)?;
        let o = apply(self, [&pad(q)?, &pad(k)?, &pad(v)?])?;
        if o.dim(D::Minus1)? == dim { Ok(o) } else { o.narrow(D::Minus1, 0, dim)?.contiguous() }
    }

    /// Returns the batch size: for packed tensors, how many sequences there are.
    fn batch(&self, batch: u32) -> CandleResult<u32> {
        let Some(Starts { q, k }) = &self.starts else { return Ok(batch) };
        let (count, of_k) = (q.dims1()?, k.dims1()?);
        if count != of_k || count < 2 {
            let (lhs, rhs) = (q.shape().clone(), k.shape().clone());
            return Err(Error::ShapeMismatchBinaryOp { lhs, rhs, op: self.name });
        }
        Ok(u32::try_from(count - 1)?)
    }

    fn output(&self, [q, _, v]: [&Layout; 3]) -> Shape {
        let mut dims = q.dims().to_vec();
        if let (Some(dim), Some(of_v)) = (dims.last_mut(), v.dims().last()) {
            *dim = *of_v;
        }
        dims.into()
    }

    fn problem(&self, layouts: [&Layout; 3]) -> Result<AttentionProblem, AnyError> {
        let sizes = |layout: &Layout| self.order.sizes(layout.shape(), layout.stride());
        let [of_q, of_k, of_v] = layouts.map(sizes);
        let (q, k, v) = (of_q?, of_k?, of_v?);
        let same_keys = (v.batch, v.heads, v.positions) == (k.batch, k.heads, k.positions);
        let other = if same_keys { layouts[1] } else { layouts[2] };
        if !same_keys || (k.batch, k.dim) != (q.batch, q.dim) {
            let (lhs, rhs) = (layouts[0].shape().clone(), other.shape().clone());
            return Err(Error::ShapeMismatchBinaryOp { lhs, rhs, op: self.name }.into());
        }
        let output = Layout::contiguous(self.output(layouts));
        let o = self.order.sizes(output.shape(), output.stride())?;
        let (batch, lengths) = (self.batch(q.batch)?, [q.positions, k.positions]);
        // A window that reaches all keys is none.
        let left = self.left.map(u32::try_from).and_then(Result::ok);
        let right = self.right.map(u32::try_from).and_then(Result::ok);
        let problem = AttentionProblem {
            value_dim: v.dim,
            scale: Some(self.scale),
            softcap: self.softcap,
            varlen: self.starts.is_some(),
            left: left.filter(|left| *left < k.positions),
            right: right.filter(|right| *right < q.positions),
            q: Some(q.strides),
            k: Some(k.strides),
            v: Some(v.strides),
            o: Some(o.strides),
            ..AttentionProblem::new([batch, q.heads, k.heads], lengths, q.dim)
        };
        problem.check()?;
        Ok(problem)
    }
}

impl Operation<3> for Attention {
    fn name(&self) -> &'static str {
        self.name
    }

    fn shape(&self, layouts: [&Layout; 3]) -> Result<Shape, AnyError> {
        self.problem(layouts)?;
        Ok(self.output(layouts))
    }

    fn prepare(&self, x: &Tensor) -> CandleResult<Tensor> {
        aligned_rows(x)
    }

    fn launch<T: Float>(
        &self,
        place: &Place<'_>,
        inputs: [Input<'_, T>; 3],
        o: &mut Buffer<T::Own>,
    ) -> Result<(), AnyError> {
        type WithLse<T> = (Loaded<AttentionKernel<T>>, Mutex<Buffer<f32>>);
        let layouts = inputs.map(|input| input.layout);
        let [q, k, v] = inputs.map(|input| input.buffer);
        let problem = self.problem(layouts)?;
        let config = AttentionConfig::new(place.device.target(), &problem)?;
        let rows = layouts[0].shape().elem_count() / problem.head_dim.max(1) as usize;
        let loaded = place.loaded(config, || -> Result<WithLse<T::Own>, AnyError> {
            let attention = AttentionKernel::new(config)?.load(place.device)?;
            Ok((attention, Mutex::new(place.device.zeros(rows)?)))
        })?;
        // All launches write the logarithms of their sums to the same buffer, because nobody reads
        // them.
        let (attention, lse) = &*loaded;
        let mut lse = lse.lock().unwrap_or_else(PoisonError::into_inner);
        if lse.len() < rows {
            *lse = place.device.zeros(rows)?;
        }
        let mut start = |starts: Option<[&Buffer<i32>; 2]>| -> Result<(), AnyError> {
            let args = AttentionArgs { q, k, v, o, lse: &mut lse, starts };
            Ok(attention.with(place.options).launch(&problem, args)?)
        };
        match &self.starts {
            None => start(None),
            Some(starts) => place.with_tensor::<u32, _>(&starts.q, |q_starts| {
                place.with_tensor::<u32, _>(&starts.k, |k_starts| start(Some([q_starts, k_starts])))
            }),
        }
    }
}
