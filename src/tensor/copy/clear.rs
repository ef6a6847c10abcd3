//! Writes zeros to tensors in global or shared memory: [`clear`] in one thread,
//! [`cooperative_clear`] in many. Use them for example before atomic additions to a buffer.

use crate::ir::builder::VectorElement;
use crate::ir::{Body, MutPointer, Val, Vector};
use crate::layout::{Layout, LayoutError};

use crate::tensor::error::TensorErrorKind;
use crate::tensor::view::elements::Vectors;
use crate::tensor::view::pointer::{Recast, TensorPointer};
use crate::tensor::view::tensor::Tensor;

/// Writes zeros to a tensor in global or shared memory from one thread, in the widest vectors that
/// its layout and alignment allow, up to 128 bits: CuTe's `clear`. Pass the thread's own partition,
/// or use [`cooperative_clear`] to split a tensor among threads. For registers, use
/// [`Tensor::fill`](crate::tensor::view::Tensor::fill).
///
/// ```
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::layout::layout;
/// use tilewright::tensor::copy::clear;
/// use tilewright::tensor::view::{Tensor, TensorPointer};
///
/// let kernel = Kernel::<(GlobalMut<f32>,)>::build("rows", Target::SM_80, |_, (x,)| {
///     let x = TensorPointer::new(x).assume_aligned(16);
///     // Two rows of 8 in rows of 10: the second starts at a multiple of 8 bytes only.
///     clear(&Tensor::new(x, layout!((2, 8) : (10, 1))));
/// })?;
/// assert_eq!(kernel.ptx().text().matches("st.global.v2").count(), 8);
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
#[doc(alias = "cute::clear")]
#[track_caller]
pub fn clear<'b, P>(tensor: &Tensor<TensorPointer<'b, P>>)
where
    P: Recast + MutPointer,
    P::Of<u8>: MutPointer,
    P::Of<u16>: MutPointer,
    P::Of<u32>: MutPointer,
{
    let k = &tensor.body();
    let _call = k.call();
    if tensor.poisoned {
        return;
    }
    let found = || -> Result<_, TensorErrorKind> {
        let Some(vectors) = Vectors::of(tensor, tensor, |_| Ok(true))? else {
            // Reports symbolic extents.
            return Ok((1, tensor.groups(k, &tensor.layout, 1)?));
        };
        Ok((vectors.bytes::<P::Elem>(), vectors.groups(k, tensor)?))
    };
    let (bytes, groups) = match found() {
        Ok(found) => found,
        Err(error) => return tensor.failed(k, "clear", error),
    };
    for group in groups {
        let at = (group.engine + group.first()).plain();
        match bytes {
            16 => clear_vector::<P, u32, 4>(k, &at),
            8 => clear_vector::<P, u32, 2>(k, &at),
            4 => at.recast::<u32>().store(0),
            2 => at.recast::<u16>().store(0),
            _ => at.recast::<u8>().store(0),
        }
    }
}

/// Writes zeros to a tensor in global or shared memory, with the work split among `threads`
/// threads. Each of them calls it with its own index `thread`, below `threads`. Use it for example
/// to zero a histogram or sums in shared memory before the block adds to them.
///
/// The stores are those of [`clear`], as wide as layout and alignment allow. `threads` must divide
/// their count: the 128 `f32` below are 32 vectors of 16 bytes, so each of 8 threads stores 4.
/// There is no barrier inside. Before a thread reads or adds to elements that another one has
/// cleared, put a barrier, for example [`Body::barrier`] if the threads are a block.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::layout::layout;
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::copy::cooperative_clear;
/// use tilewright::tensor::view::{Tensor, TensorPointer};
///
/// let kernel = Kernel::<(GlobalMut<f32>,)>::build("rows", Target::SM_80, |k, (x,)| {
///     let x = TensorPointer::new(x).assume_aligned(16);
///     // 16 rows of 8 in rows of 12.
///     let x = Tensor::new(x, layout!((16, 8) : (12, 1)));
///     cooperative_clear(&x, k.thread_idx().x, 8);
/// })?;
/// assert_eq!(kernel.ptx().text().matches("st.global.v4").count(), 4);
/// let device = Device::sim()?;
/// let mut x = device.upload(&[1f32; 192])?;
/// device.load(&kernel)?.launch(Grid::new([1, 1, 1], [8, 1, 1]), (&mut x,))?;
/// let zeros = |row: &[f32]| row.iter().filter(|x| **x == 0.0).count();
/// assert!(x.to_vec()?.chunks(12).all(|row| zeros(&row[..8]) == 8 && zeros(&row[8..]) == 0));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The build reports a [`LayoutError`] if `threads` does not divide the count of vector stores.
#[track_caller]
pub fn cooperative_clear<'b, P>(
    tensor: &Tensor<TensorPointer<'b, P>>,
    thread: Val<'b, i32>,
    threads: u32,
) where
    P: Recast + MutPointer,
    P::Of<u8>: MutPointer,
    P::Of<u16>: MutPointer,
    P::Of<u32>: MutPointer,
{
    let k = &tensor.body();
    let operation = "cooperative_clear";
    if tensor.poisoned {
        return;
    }
    // (vector, (thread, the thread's vectors))
    let divided = || -> Result<Option<Layout>, LayoutError> {
        let Some(vectors) = Vectors::of(tensor, tensor, |_| Ok(true))? else { return Ok(None) };
        let divided = vectors.divide(&tensor.layout)?;
        let (threads, count) = (i64::from(threads), vectors.count);
        if threads == 0 || count % threads != 0 {
            return Err(LayoutError::NotDivisible { value: count.into(), by: threads.into() });
        }
        let by_thread = divided.get(&[1])?.coalesce()?.zipped_divide(&Layout::compact(threads))?;
        Ok(Some(Layout::concat([&divided.get(&[0])?, &by_thread])?))
    };
    match divided() {
        Ok(None) => {}
        Ok(Some(divided)) => {
            let divided = tensor.with_layout(k, operation, Ok(divided));
            clear(&divided.slice((.., (thread, ..))));
        }
        Err(error) => tensor.failed(k, operation, error),
    }
}

/// Writes a vector of `N` zero words.
#[track_caller]
fn clear_vector<'b, P, W: VectorElement<N>, const N: usize>(
    k: &Body<'b, '_>,
    at: &TensorPointer<'b, P>,
) where
    P: Recast,
    P::Of<W>: MutPointer,
{
    let zero: Val<'_, Vector<W, N>> = Val::pack([k.constant(W::default()); N]);
    let (base, offset) = at.recast::<W>().resolve();
    base.store_vector(offset, zero);
}
