//! [`Definition`]: checks a kernel's whole result against its mathematical definition, on the
//! device. Tunables with cheap definitions, such as elementwise kernels, reject wrong
//! configurations with it.

use tilewright::ir::builder::{Role, with_roles};
use tilewright::ir::types::Scalar;
use tilewright::ir::{Body, BuildErrors, Global, GlobalMut, Kernel, Target, Val, range};
use tilewright::runtime::{Arg, Buffer, BufferRef};

use super::data;
use super::search::Rejection;

/// The element types of the inputs and of the result.
type X = Role<0>;
pub(super) type Y = Role<1>;

/// The kernel's parameters: inputs, result, list of integers, counter of wrong items, sizes of the
/// definition, item count.
type Params<const N: usize, const S: usize> =
    ([Global<X>; N], Global<Y>, Global<i32>, GlobalMut<u64>, [i64; S], i64);

/// What a definition gets for one item.
pub(super) struct At<'b, const N: usize, const S: usize> {
    /// The inputs.
    pub(super) x: [Val<'b, Global<X>>; N],
    /// The result to check.
    pub(super) y: Val<'b, Global<Y>>,
    /// The list of integers, such as the row indices of a gather.
    pub(super) list: Val<'b, Global<i32>>,
    /// The sizes.
    pub(super) sizes: [Val<'b, i64>; S],
    /// The index of the item to check.
    pub(super) item: Val<'b, i64>,
}

/// A result that has a definition, with its inputs and sizes. One thread checks one item, such as a
/// row. Make one in a tunable's `verify`.
pub(super) struct Definition<'h, const N: usize, const S: usize> {
    pub(super) x: [BufferRef<'h>; N],
    pub(super) y: BufferRef<'h>,
    /// A list of integers, if the definition needs one.
    pub(super) list: Option<&'h Buffer<i32>>,
    pub(super) sizes: [i64; S],
    /// What an item is called (plural), and how many there are.
    pub(super) items: (&'static str, u64),
}

impl<const N: usize, const S: usize> Definition<'_, N, S> {
    /// Checks that `is_right` returns true for every item.
    pub(super) fn check(
        self,
        is_right: impl for<'c> Fn(&mut Body<'c, '_>, At<'c, N, S>) -> Val<'c, bool>,
    ) -> Result<(), Rejection> {
        let (device, (name, items)) = (self.y.device(), self.items);
        let types = [self.x.first().unwrap_or(&self.y).scalar(), self.y.scalar()];
        let kernel = with_roles(&types, || build(device.target(), is_right))?;
        let kernel = device.load(&kernel.untyped())?;
        let (mut wrong, none) = (device.upload(&[0u64])?, device.upload(&[0i32])?);
        // In the order of `Params`.
        let mut args: Vec<Arg<'_>> = self.x.into_iter().map(Into::into).collect();
        args.push(self.y.into());
        args.push(self.list.unwrap_or(&none).into());
        args.push((&mut wrong).into());
        args.extend(self.sizes.map(Arg::from));
        args.push((items as i64).into());
        kernel.launch(data::grid(items as usize), args)?;
        let wrong = wrong.to_vec()?[0];
        Rejection::unless(wrong == 0, format!("{wrong} of {items} {name} differ"))
    }
}

fn build<const N: usize, const S: usize>(
    target: Target,
    is_right: impl for<'c> Fn(&mut Body<'c, '_>, At<'c, N, S>) -> Val<'c, bool>,
) -> Result<Kernel<Params<N, S>>, BuildErrors> {
    Kernel::<Params<N, S>>::build("definition", target, |k, parameters| {
        let (x, y, list, wrong, sizes, items) = parameters;
        let threads = (k.grid_dim().x * k.block_dim().x).cvt::<i64>();
        let first = (k.block_idx().x * k.block_dim().x + k.thread_idx().x).cvt::<i64>();
        k.for_(range(first, items).step(threads), (), |k, item, ()| {
            let is_right = is_right(k, At { x, y, list, sizes, item });
            k.if_(!is_right, |_| wrong.red().add(0, 1));
        });
    })
}

/// Returns whether `found` is `expected` up to rounding to the type, `absolute`, and the error of
/// fast math functions. NaN is not.
pub(super) fn is_close<'b>(
    elem: Scalar,
    found: Val<'b, f32>,
    expected: Val<'b, f32>,
    absolute: Val<'b, f32>,
) -> Val<'b, bool> {
    // Half a unit in the last place.
    let unit = match elem {
        Scalar::Bf16 => 1.0 / 256.0,
        Scalar::F16 => 1.0 / 2048.0,
        Scalar::F8E4M3 => 1.0 / 16.0,
        Scalar::F8E5M2 => 1.0 / 8.0,
        _ => 0.0f32,
    };
    (found - expected).abs().le(expected.abs().fma(unit + 1e-4, absolute))
}
