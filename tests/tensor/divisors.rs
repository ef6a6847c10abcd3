//! Checks that device numbers know divisors, and that accesses through them keep their alignment.

use crate::support::{device, rng::Rng};

use tilewright::ir::{Body, Global, GlobalMut, Kernel, KernelOptions, Target, Val, range};
use tilewright::layout::{Int, IntTuple, Layout, layout, shape};
use tilewright::runtime::Grid;
use tilewright::tensor::copy::autovec_copy;
use tilewright::tensor::view::{RegisterTensor, Tensor, TensorPointer};

/// A random expression over three numbers.
fn expression<'b>(
    k: &Body<'b, '_>,
    rng: &mut Rng,
    depth: u32,
    leaves: [Val<'b, i32>; 3],
) -> Val<'b, i32> {
    let part = |rng: &mut Rng| expression(k, rng, depth - 1, leaves);
    let power = 1 << rng.below(6);
    let small = rng.below(100) as i32 - 50;
    if depth == 0 {
        return if rng.below(4) == 0 { k.constant(small) } else { leaves[rng.below(3)] };
    }
    match rng.below(14) {
        0 => part(rng) + part(rng),
        1 => part(rng) - part(rng),
        2 => part(rng) * part(rng),
        3 => part(rng) * power,
        4 => part(rng) << rng.below(6) as u32,
        5 => part(rng) >> rng.below(4) as u32,
        6 => part(rng) / power,
        7 => part(rng) & small,
        8 => part(rng) | part(rng),
        9 => part(rng) ^ part(rng),
        10 => part(rng).min(part(rng)),
        11 => -part(rng),
        12 => part(rng).cvt::<i64>().cvt::<i32>() * power + small,
        _ => {
            let (a, b) = (part(rng), part(rng));
            a.lt(b).select(a * 4, b * 8)
        }
    }
}

/// The law: `v.divisor()` divides the value of `v` in every thread and iteration, for a symbol of
/// any value.
#[test]
fn divisors_divide_the_numbers_of_every_thread() {
    let (mut rng, mut known) = (Rng::new(5), 0);
    for round in 0..60 {
        let (threads, trips) = (4, 3);
        let size = IntTuple::from(Int::symbol("n").divisible_by(8));
        let options = KernelOptions::default().template(&size);
        let mut divisors = Vec::new();
        let kernel = Kernel::<(IntTuple, GlobalMut<i32>)>::build_with(
            options,
            "numbers",
            Target::SM_80,
            |k, (n, y)| {
                let n = k.int::<i32>(n.to_int().expect("it is one number"));
                let thread = k.thread_idx().x;
                k.for_(range(4, 4 + 12 * trips).step(12), (), |k, i, ()| {
                    let at = (thread * trips + (i - 4) / 12) * 16;
                    for column in 0..16 {
                        let value = expression(k, &mut rng, 3, [n, thread, i]);
                        divisors.push(value.divisor());
                        y.store(at + column, value);
                    }
                });
            },
        );
        let kernel = kernel.expect("the kernel is right");
        known += divisors.iter().filter(|divisor| **divisor > 1).count();
        for device in device::devices() {
            let mut y = device.zeros::<i32>((threads * trips * 16) as usize).unwrap();
            let n = shape!(8 * (round + 1));
            let grid = Grid::new([1, 1, 1], [threads as u32, 1, 1]);
            device.load(&kernel).unwrap().launch(grid, (&n, &mut y)).unwrap();
            for (i, value) in y.to_vec().unwrap().into_iter().enumerate() {
                let divisor = divisors[i % 16] as i32;
                assert_eq!(value % divisor, 0, "round {round}, expression {}\n{kernel}", i % 16);
            }
        }
    }
    assert!(known > 200, "{known}");
}

/// Pointers moved by device numbers keep their alignment, so four numbers are one access.
#[test]
fn pointers_keep_their_alignment() {
    type Signature = (Global<f32>, GlobalMut<f32>);
    let kernel = Kernel::<Signature>::build("copy", Target::SM_80, |k, (x, y)| {
        let thread = k.thread_idx().x;
        let (x, y) = (TensorPointer::new(x), TensorPointer::new(y));
        let (x, y) = (x.assume_aligned(16), y.assume_aligned(16));
        assert_eq!((x + thread * 2).alignment(), 8);
        assert_eq!((x + (thread * 4 + 2)).alignment(), 8);
        assert_eq!((x - thread * 4).alignment(), 16);
        let registers = RegisterTensor::<f32>::registers(k, layout!(4));
        autovec_copy(&Tensor::new(x + thread * 4, layout!(4)), &registers);
        // The coordinate of a mode of several leaves, too: 4 divides the number modulo 8.
        let y = Tensor::new(y, layout!(((8, 16)) : ((1, 8))));
        assert_eq!(y.domain_offset((thread * 4,)).data().alignment(), 16);
        assert_eq!(y.domain_offset((thread * 2,)).data().alignment(), 8);
        assert_eq!(y.domain_offset((thread * 16,)).data().alignment(), 16);
        let y = Tensor::new(*y.domain_offset((thread * 4,)).data(), layout!(4));
        autovec_copy(&registers, &y);
    });
    let kernel = kernel.expect("the kernel is right");
    let text = kernel.ptx().text().to_owned();
    assert_eq!((text.matches("ld.global").count(), text.matches("st.global").count()), (1, 1));
    assert_eq!(text.matches(".v4.").count(), 2, "{text}");
    for device in device::devices() {
        let x = device.upload(&(0..128).map(|i| i as f32).collect::<Vec<_>>()).unwrap();
        let mut y = device.zeros::<f32>(128).unwrap();
        let grid = Grid::new([1, 1, 1], [32, 1, 1]);
        device.load(&kernel).unwrap().launch(grid, (&x, &mut y)).unwrap();
        assert_eq!(y.to_vec().unwrap(), x.to_vec().unwrap());
    }
}

/// Under a layout with several leaves the divisor is that of all coordinates of the number.
#[test]
fn divisors_follow_coordinates_through_layouts() {
    Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |k, (x,)| {
        let x = TensorPointer::new(x).assume_aligned(64);
        let thread = k.thread_idx().x;
        let at = |layout: Layout, index: Val<'_, i32>| {
            Tensor::new(x, layout).domain_offset(index).data().alignment()
        };
        // `4 t % 6` is even only, and `4 t / 6` any number.
        assert_eq!(at(layout!((6, 8) : (1, 8)), thread * 4), 8);
        assert_eq!(at(layout!((6, 8) : (1, 1)), thread * 4), 4);
        assert_eq!(at(layout!((4, 8) : (1, 4)), thread * 4), 16);
        assert_eq!(at(layout!((2, 8) : (1, 2)), thread * 4), 16);
        assert_eq!(at(layout!((2, 8) : (1, 1)), thread * 4), 8);
    })
    .expect("the kernel is right");
}
