//! Kernels that are split into functions and closures: the signatures under which they compile, and
//! what they compute.
//!
//! `book/src/23-splitting.md` has the patterns, each compiled and run as a test of the
//! documentation.

use std::error::Error;

use tilewright::ir::builder::BuildErrorKind;
use tilewright::ir::{Body, Global, GlobalMut, Kernel, Registers, Target, Val, Var, range};
use tilewright::layout::{layout, shape};
use tilewright::runtime::{Device, Grid};
use tilewright::tensor::copy::{autovec_copy_if, copy, copy_if, copy_zfill};
use tilewright::tensor::pipeline::{TileScheduler, TmaPipeline};
use tilewright::tensor::view::{
    CoordTensor, GlobalTensor, Predicate, RegisterTensor, SharedTensor, Tensor, TensorSsa,
};

type Params = (Global<f32>, GlobalMut<f32>, i32);

/// Runs the kernel on one thread with `n = 2` and returns `y`, four elements that were 9.
fn run(
    body: impl for<'b> FnOnce(
        &mut Body<'b, 'b>,
        Val<'b, Global<f32>>,
        Val<'b, GlobalMut<f32>>,
        Val<'b, i32>,
    ),
) -> Result<Vec<f32>, Box<dyn Error>> {
    let kernel = Kernel::<Params>::build("k", Target::SM_80, |k, (x, y, n)| body(k, x, y, n))?;
    let device = Device::sim()?;
    let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0])?, device.upload(&[9.0; 4])?);
    device.load(&kernel)?.launch(Grid::cover(1, 1), (&x, &mut y, 2))?;
    Ok(y.to_vec()?)
}

/// Runs `f` in a loop. Nothing says that `'c` is inside of a body that the caller of `each` knows.
fn each<'b>(k: &mut Body<'b, '_>, n: Val<'b, i32>, f: impl for<'c> Fn(&mut Body<'c, '_>)) {
    k.for_(range(0, n), (), |k, _, ()| f(k));
}

/// As [`each`], three levels inside.
fn each_deep<'b>(k: &mut Body<'b, '_>, n: Val<'b, i32>, f: impl for<'c> Fn(&mut Body<'c, '_>)) {
    k.for_(range(0, n), (), |k, i, ()| {
        k.if_(i.eq(0), |k| {
            let last = i + 1;
            k.for_(range(i, last), (), |k, _, ()| f(k));
        });
    });
}

#[test]
fn copies_of_captured_tensors_compile_in_any_closure() -> Result<(), Box<dyn Error>> {
    for levels in [1, 3] {
        for (which, expected) in
            [[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 9.0, 9.0], [1.0, 2.0, 0.0, 0.0]].iter().enumerate()
        {
            let y = run(|k, x, y, n| {
                let (x, y) = (Tensor::new(x, layout!(4)), Tensor::new(y, layout!(4)));
                let places = Tensor::identity(k, shape!(4));
                let body = |_: &mut Body<'_, '_>| match which {
                    0 => copy(&x, &y),
                    1 => copy_if(&places.within(n), &x, &y),
                    _ => copy_zfill(&places.within(n), &x, &y),
                };
                match levels {
                    1 => each(k, n, body),
                    _ => each_deep(k, n, body),
                }
            })?;
            assert_eq!(y, expected, "{levels} levels");
        }
    }
    let y = run(|k, x, y, n| {
        let (x, y) = (Tensor::new(x, layout!(4)), Tensor::new(y, layout!(4)));
        let places = Tensor::identity(k, shape!(4));
        each(k, n, |_| autovec_copy_if(&places.within(n), &x, &y));
    })?;
    assert_eq!(y, [1.0, 2.0, 9.0, 9.0]);
    Ok(())
}

/// `x` twice where `n > 1`.
fn doubled<'b>(k: &mut Body<'b, '_>, n: Val<'b, i32>, x: Val<'b, f32>) -> Val<'b, f32> {
    k.if_with(n.gt(1), x, |_| x + x)
}

#[test]
fn a_helper_of_one_lifetime_takes_captured_values_by_a_rescoped_body() -> Result<(), Box<dyn Error>>
{
    let y = run(|k, x, y, n| {
        each_deep(k, n, |k| {
            let loaded = x.load(1);
            let value = doubled(&mut k.rescoped(), n, loaded);
            y.store(3, value);
        });
    })?;
    assert_eq!(y, [9.0, 9.0, 9.0, 4.0]);
    Ok(())
}

/// The sum of `f(i, j)` over `j <= i < n`.
fn sum<'b>(
    k: &mut Body<'b, '_>,
    n: Val<'b, i32>,
    f: impl for<'c> Fn(&mut Body<'c, 'b>, [Val<'c, i32>; 2]) -> Val<'c, f32>,
) -> Val<'b, f32> {
    k.for_(range(0, n), 0.0, |k, i, sum| {
        k.for_(range(0, i + 1), sum, |k, j, sum| sum + f(&mut k.rescoped(), [i, j]))
    })
}

#[test]
fn closures_that_return_values_nest() -> Result<(), Box<dyn Error>> {
    let y = run(|k, x, y, n| {
        let flat = sum(k, n, |_, [i, j]| x.load(i) + x.load(j + n));
        let nested = sum(k, n, |k, [i, _]| sum(k, i + n, |_, [_, j]| x.load(j)));
        let helped = sum(k, n, |k, [i, _]| {
            let loaded = x.load(i);
            doubled(k, n, loaded)
        });
        y.store(0, flat);
        y.store(1, nested);
        y.store(2, helped);
    })?;
    let x = [1.0, 2.0, 3.0, 4.0];
    let pairs = |n: usize| (0..n).flat_map(|i| (0..=i).map(move |j| (i, j)));
    let flat: f32 = pairs(2).map(|(i, j)| x[i] + x[j + 2]).sum();
    let nested: f32 = pairs(2).map(|(i, _)| pairs(i + 2).map(|(_, j)| x[j]).sum::<f32>()).sum();
    let helped: f32 = pairs(2).map(|(i, _)| 2.0 * x[i]).sum();
    assert_eq!(y, [flat, nested, helped, 9.0]);
    Ok(())
}

/// An operation goes to the innermost open body. rustc accepts a result of the outer body's values
/// outside of that body; the build refuses it.
#[test]
fn a_value_that_leaves_its_body_is_an_error_of_the_build() {
    let built = Kernel::<Params>::build("k", Target::SM_80, |k, (x, y, n)| {
        let mut kept = x.load(0);
        k.if_(n.gt(0), |_| kept = x.load(1));
        y.store(0, kept);
    });
    let errors = built.map(|_| ()).expect_err("a value is used outside its body");
    let outside =
        |kind: &BuildErrorKind| matches!(kind, BuildErrorKind::ValueOutsideItsBody { .. });
    assert!(errors.iter().any(|error| outside(&error.kind)), "{errors}");
}

/// States that the type can stand for one of a shorter lifetime: a struct of it then needs no
/// `where 'b: 'c`.
macro_rules! shortens {
    ($($test:ident: $Type:ident $(<$T:ty>)?;)*) => {$(
        fn $test<'long: 'short, 'short>(value: $Type<'long $(, $T)?>) -> $Type<'short $(, $T)?> {
            value
        }
    )*};
}

shortens! {
    val: Val<f32>;
    var: Var<f32>;
    registers: Registers<f32>;
    predicate: Predicate;
    coordinates: CoordTensor;
    global: GlobalTensor<f32>;
    shared: SharedTensor<f32>;
    fragment: RegisterTensor<f32>;
    ssa: TensorSsa<f32>;
    pipeline: TmaPipeline;
    tiles: TileScheduler;
}

#[test]
fn values_and_tensors_shorten_their_lifetimes() -> Result<(), Box<dyn Error>> {
    let y = run(|k, x, y, n| {
        let x = Tensor::new(val_of(x), layout!(4));
        let (places, held) = (Tensor::identity(k, shape!(4)), x.fragment_like());
        let inside = places.within(n);
        copy_if(&predicate(inside), &global(x), &fragment(held));
        let count = var(k.var(2.5));
        y.store(val_of(n), val(count.get()));
        let _ = (registers, coordinates, shared, ssa, pipeline, tiles);
    })?;
    assert_eq!(y, [9.0, 9.0, 2.5, 9.0]);
    Ok(())
}

fn val_of<'long: 'short, 'short, T>(value: Val<'long, T>) -> Val<'short, T> {
    value
}
