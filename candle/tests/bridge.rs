//! What `bridge` promises to operations that a user writes.

use std::sync::atomic::{AtomicU32, Ordering};

use candle_core::{DType, Device, Error, IndexOp, Layout, Result, Shape, Tensor};
use tilewright_candle::bridge::{
    AnyError, Float, Input, Lent, Operation, OperationError, Place, aligned_rows, apply, packed,
};
use tilewright_candle::tilewright::kernels::elementwise::{Elementwise, ElementwiseConfig};
use tilewright_candle::tilewright::prelude::{Buffer, Function, Global, GlobalMut, Grid, Kernel};

/// How often each operation has loaded its kernel.
static LOADS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

/// Multiplies by 2 or by 3, with the same configuration `()` and the same type of kernel.
struct Twice;
struct Thrice;

fn launch_scale<T: Float>(
    factor: usize,
    place: &Place<'_>,
    x: Input<'_, T>,
    y: &mut Buffer<T::Own>,
) -> std::result::Result<(), AnyError> {
    let scale = place.loaded((), || {
        LOADS[factor - 2].fetch_add(1, Ordering::Relaxed);
        let config = ElementwiseConfig::new(place.device.target(), 1);
        let kernel =
            Elementwise::<T::Own, T::Own, 1>::new(config, "scale", |_, [x]| x * factor as f32)?;
        Ok(kernel.load(place.device)?)
    })?;
    Ok(scale.with(place.options).launch(&(), ([x.buffer], y))?)
}

macro_rules! scale {
    ($Scale:ident $factor:literal) => {
        impl Operation<1> for $Scale {
            fn name(&self) -> &'static str {
                "scale"
            }

            fn shape(&self, [x]: [&Layout; 1]) -> std::result::Result<Shape, AnyError> {
                Ok(x.shape().clone())
            }

            fn launch<T: Float>(
                &self,
                place: &Place<'_>,
                [x]: [Input<'_, T>; 1],
                y: &mut Buffer<T::Own>,
            ) -> std::result::Result<(), AnyError> {
                launch_scale($factor, place, x, y)
            }
        }
    };
}

scale!(Twice 2);
scale!(Thrice 3);

/// A kernel is loaded once per operation and element type, and never mistaken for another's.
#[test]
fn kernels_are_kept_by_operation_and_type() -> Result<()> {
    let x = Tensor::new(&[1f32, 2.0, 4.0], &Device::Cpu)?;
    for _ in 0..3 {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let x = x.to_dtype(dtype)?;
            let of = |y: Tensor| y.to_dtype(DType::F32)?.to_vec1::<f32>();
            assert_eq!(of(apply(Twice, [&x])?)?, [2.0, 4.0, 8.0]);
            assert_eq!(of(apply(Thrice, [&x])?)?, [3.0, 6.0, 12.0]);
        }
    }
    for loads in &LOADS {
        assert_eq!(loads.load(Ordering::Relaxed), 3);
    }
    Ok(())
}

/// Returns `a[i] + b[i] + c[i] + table[index[i]]`: three inputs, and two more as fields.
struct AddRows {
    table: Tensor,
    index: Tensor,
}

impl Operation<3> for AddRows {
    fn name(&self) -> &'static str {
        "add-rows"
    }

    fn shape(&self, [a, b, c]: [&Layout; 3]) -> std::result::Result<Shape, AnyError> {
        if b.shape() != a.shape() || c.shape() != a.shape() {
            return Err("different shapes".into());
        }
        Ok(a.shape().clone())
    }

    fn launch<T: Float>(
        &self,
        place: &Place<'_>,
        [a, b, c]: [Input<'_, T>; 3],
        y: &mut Buffer<T::Own>,
    ) -> std::result::Result<(), AnyError> {
        type Params<E> = ([Global<E>; 4], Global<i32>, GlobalMut<E>, i32);
        type Own<T> = <T as Lent>::Own;
        let add = place.loaded(
            "add",
            || -> std::result::Result<Function<Params<Own<T>>>, AnyError> {
                let target = place.device.target();
                let kernel = Kernel::<Params<Own<T>>>::build("add", target, |k, params| {
                    let ([a, b, c, table], index, y, n) = params;
                    let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
                    k.if_(i.lt(n), |_| {
                        let row = table.load(index.load(i));
                        y.store(i, a.load(i) + b.load(i) + c.load(i) + row);
                    });
                })?;
                Ok(place.device.load(&kernel)?)
            },
        )?;
        place.with_tensor::<T, _>(&self.table, |table| {
            place.with_tensor::<u32, _>(&self.index, |index| {
                let (grid, n) = (Grid::cover(y.len(), 64), y.len().try_into()?);
                let inputs = [a.buffer, b.buffer, c.buffer, table];
                Ok(add.launch_with(place.options, grid, (inputs, index, &mut *y, n))?)
            })
        })
    }
}

#[test]
fn further_inputs_are_fields() -> Result<()> {
    let of = |values: &[f32]| Tensor::new(values, &Device::Cpu);
    let (a, b, c) = (of(&[1.0, 2.0])?, of(&[10.0, 20.0])?, of(&[100.0, 200.0])?);
    // Views with an offset.
    let table = of(&[9.0, 1000.0, 2000.0, 3000.0])?.i(1..)?;
    let index = Tensor::new(&[7u32, 2, 0], &Device::Cpu)?.i(1..)?;
    let add = |index: &Tensor, c: &Tensor| {
        let operation = AddRows { table: table.clone(), index: index.clone() };
        apply(operation, [&a, &b, c])
    };
    assert_eq!(add(&index, &c)?.to_vec1::<f32>()?, [3111.0, 1222.0]);
    let found = add(&index.to_dtype(DType::I64)?, &c).unwrap_err();
    assert!(matches!(found, Error::UnexpectedDType { got: DType::I64, .. }), "{found}");
    let Error::Cuda(found) = add(&index, &table).unwrap_err() else { panic!("another error") };
    assert_eq!(found.to_string(), "add-rows: different shapes");
    assert!(found.is::<OperationError>());
    // The simulator checks every access.
    let outside = Tensor::new(&[0u32, 3], &Device::Cpu)?;
    let found = add(&outside, &c).unwrap_err().to_string();
    assert!(found.starts_with("add-rows: ") && found.contains("which has 3 elements"), "{found}");
    Ok(())
}

/// Contiguous tensors at multiples of 16 bytes are not copied, others are.
#[test]
fn only_views_are_copied() -> Result<()> {
    let x = Tensor::arange(0f32, 64.0, &Device::Cpu)?.reshape((8, 8))?;
    let start = |x: &Tensor| (x.layout().start_offset(), x.is_contiguous());
    assert_eq!(start(&packed(&x.i(2..)?)?), (16, true));
    assert_eq!(start(&packed(&x.flatten_all()?.i(3..)?)?), (0, true));
    assert_eq!(start(&packed(&x.t()?)?), (0, true));
    // Rows that start at multiples of 16 bytes stay where they are.
    assert_eq!(start(&aligned_rows(&x.i((.., 4..))?)?), (4, false));
    assert_eq!(start(&aligned_rows(&x.i((.., 2..))?)?), (0, true));
    assert_eq!(start(&aligned_rows(&x.t()?)?), (0, true));
    Ok(())
}
