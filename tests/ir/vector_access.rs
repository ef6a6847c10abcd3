//! Loads and stores of vectors on every device, against the same on the host.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::kernels::checked;
use crate::support::{device, text, threads};

use tilewright::ir::builder::VectorElement;
use tilewright::ir::op::{L1Evict, LoadAccess};
use tilewright::ir::types::Scalar;
use tilewright::ir::{
    BuildErrors, Element, Global, GlobalMut, Kernel, Target, Val, Vector, bf16, f8e4m3, f8e5m2,
    f16, tf32,
};
use tilewright::runtime::Grid;

const VECTORS: u32 = 40;

/// Copies through registers and shared memory, each thread one vector, with the vectors turned
/// around.
fn check<T: VectorElement<N>, const N: usize>() {
    type Copy<T> = (Global<T>, GlobalMut<T>);
    let build = |target| {
        Kernel::<Copy<T>>::build("copy", target, |k, (x, y)| {
            let (t, n) = (k.thread_idx().x, N as i32);
            let tile = k.shared_aligned::<T>(VECTORS * N as u32, T::VECTOR.size_bytes());
            let v: Val<'_, Vector<T, N>> = x.load_vector(t * n);
            tile.store_vector((k.value::<i32>(VECTORS - 1) - t) * n, v);
            k.barrier();
            let turned: Val<'_, Vector<T, N>> = tile.load_vector(t * n);
            y.offset(t * n).assume_aligned(T::VECTOR.size_bytes()).store_vector(0, turned);
        })
        .unwrap_or_else(|errors| panic!("{errors}"))
    };
    threads::assemble(Target::SM_80, build);
    let len = VECTORS as usize * N;
    let bits =
        |i: usize| (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) & 0x3f3f_3f3f_3f3f_3f3f;
    let values: Vec<T> = (0..len).map(|i| T::from_bits(bits(i))).collect();
    let bits_of =
        |values: &[T]| -> Vec<u64> { values.iter().map(|value| value.to_const().bits()).collect() };
    let expected: Vec<u64> = bits_of(&values).chunks(N).rev().flat_map(<[u64]>::to_vec).collect();
    for device in device::devices() {
        let kernel = build(device.target());
        text::check_round_trip(kernel.ir());
        let x = device.upload(&values).unwrap();
        let mut y = device.zeros::<T>(len).unwrap();
        let grid = Grid::new([1, 1, 1], [VECTORS, 1, 1]);
        device.load(&kernel).unwrap().launch(grid, (&x, &mut y)).unwrap();
        let found = bits_of(&y.to_vec().unwrap());
        assert_eq!(found, expected, "{} x {N} on {}\n{kernel}", T::SCALAR, device.name());
    }
}

macro_rules! check {
    ($($ty:ty: $($lanes:literal)+;)*) => {$($(check::<$ty, $lanes>();)+)*};
}

#[test]
fn vectors_of_every_type_move_through_global_and_shared_memory() {
    check! {
        u8: 2 4 8 16;
        i8: 4;
        f8e4m3: 2 16;
        f8e5m2: 4;
        i16: 2 4 8;
        u16: 8;
        f16: 2 4 8;
        bf16: 2 8;
        i32: 2 4;
        u32: 4;
        tf32: 4;
        f32: 2 4;
        i64: 2;
        u64: 2;
        f64: 2;
    }
}

/// One instruction for a vector, with the type of its registers, and with every hint.
#[test]
fn text_of_vector_accesses() {
    let kernel =
        Kernel::<(Global<f16>, GlobalMut<f16>)>::build("one", Target::SM_80, |_, (x, y)| {
            let access = LoadAccess::default().non_coherent().l1_evict(L1Evict::NoAllocate);
            let v: Val<'_, Vector<f16, 8>> = x.load_vector_with(8, access);
            y.store_vector(0, v);
        });
    let ptx = kernel.unwrap().ptx();
    assert!(ptx.text().contains("ld.global.nc.L1::no_allocate.v4.b32 {%r"), "{ptx}");
    assert!(ptx.text().contains("+16];") && ptx.text().contains("st.global.v4.b32 ["), "{ptx}");
}

fn build(
    index: i32,
    tile_align: u32,
    moved: i32,
) -> Result<Kernel<(GlobalMut<f32>,)>, BuildErrors> {
    Kernel::<(GlobalMut<f32>,)>::build("vectors", Target::SM_80, |k, (x,)| {
        let t = k.thread_idx().x;
        let v: Val<'_, Vector<f32, 4>> = x.load_vector(t * 8 + index);
        let tile = k.shared_aligned::<f32>(64, tile_align);
        tile.offset(moved).store_vector(t * 4, v);
    })
}

/// An address that is known to be misaligned is refused, with the cure; nothing else is.
#[test]
fn known_misalignment_is_refused() {
    let message = |kernel: Result<Kernel<(GlobalMut<f32>,)>, BuildErrors>| {
        kernel.err().map(|errors| errors.to_string()).unwrap_or_default()
    };
    assert_eq!(message(build(4, 16, 8)), "");
    assert_eq!(message(build(0, 64, 0)), "");
    let text = message(build(2, 16, 0));
    assert!(
        text.contains("starts 8 bytes after one: make the index, in elements, a multiple of 4"),
        "{text}"
    );
    assert!(text.contains("`ld_vec<4>` accesses a f32x4"), "{text}");
    let text = message(build(0, 16, 3));
    assert!(text.contains("starts 12 bytes after one"), "{text}");
    let text = message(build(0, 4, 0));
    assert!(text.contains("make it with `shared_aligned(.., 16)`"), "{text}");
}

/// A dynamic misaligned address is a fault of the simulator.
#[test]
fn unknown_misalignment_is_a_fault() {
    let device = tilewright::runtime::Device::sim().unwrap();
    let run = |index: i32| {
        let kernel = Kernel::<(GlobalMut<f32>, i32)>::build("k", Target::SM_80, |_, (x, i)| {
            let v: Val<'_, Vector<f32, 2>> = x.load_vector(i);
            x.store_vector(0, v);
        });
        let mut x = device.zeros::<f32>(8).unwrap();
        let function = device.load(&kernel.unwrap()).unwrap();
        function.launch(Grid::new([1, 1, 1], [1, 1, 1]), (&mut x, index))
    };
    assert!(run(2).is_ok() && run(6).is_ok());
    let error = run(3).unwrap_err().to_string();
    assert!(error.contains("must start at a multiple of 8 bytes"), "{error}");
    assert!(run(7).is_err() && run(8).is_err());
}

/// A guarded vector is the vector where the condition holds, and the other value where it does not:
/// there the address may be outside of the buffer.
#[test]
fn guarded_vectors_access_nothing_where_the_condition_fails() {
    type Params = (Global<bf16>, Global<f32>, i32, GlobalMut<bf16>, GlobalMut<f32>);
    for device in device::devices() {
        let kernel = checked(&device, |target| {
            Kernel::<Params>::build("guarded", target, |k, (x, z, len, y, w)| {
                let i = k.thread_idx().x * 8;
                let seven = k.constant(bf16::from_f32(7.0));
                let vector = x.load_vector_if::<8>(i.lt(len), i, seven);
                y.store_vector(i, vector);
                // Two accesses of 16 bytes, under one condition.
                let vector = z.load_vector_if::<8>(i.lt(len), i, -0.5);
                w.store_vector(i, vector);
            })
            .unwrap()
        });
        for len in [0, 8, 24, 40] {
            let x: Vec<bf16> = (0..len).map(|i| bf16::from_f32(i as f32)).collect();
            let z: Vec<f32> = (0..len).map(|i| i as f32).collect();
            let (bx, bz) = (device.upload(&x).unwrap(), device.upload(&z).unwrap());
            let mut y = device.zeros::<bf16>(40).unwrap();
            let mut w = device.zeros::<f32>(40).unwrap();
            let grid = Grid::new([1, 1, 1], [5, 1, 1]);
            let args = (&bx, &bz, len, &mut y, &mut w);
            device.load(&kernel).unwrap().launch(grid, args).unwrap();
            let padding = 40 - len as usize;
            assert_eq!(y.to_vec().unwrap(), [x, vec![bf16::from_f32(7.0); padding]].concat());
            assert_eq!(w.to_vec().unwrap(), [z, vec![-0.5; padding]].concat());
        }
    }
}

/// A slice of any length is stored element by element, in as few accesses as its length allows, and
/// nothing beside it is.
#[test]
fn slices_of_every_length_are_stored_in_few_accesses() {
    fn check<T: Element>() {
        let most = match T::SCALAR {
            Scalar::Bool => 1,
            elem => 16 / elem.size_bytes() as usize,
        };
        let value =
            |i: usize| T::from_bits((i as u64 % 120 + 1) & T::from_bits(!0).to_const().bits());
        for len in (0..=2 * most + 3).chain([33]) {
            let build = |target| {
                Kernel::<(GlobalMut<T>,)>::build("slice", target, |k, (y,)| {
                    let values: Vec<_> = (0..len).map(|i| k.constant(value(i))).collect();
                    y.store_slice(16, &values);
                })
                .unwrap()
            };
            for device in device::devices() {
                let kernel = checked(&device, build);
                // Whole vectors, and one access for each bit of the rest.
                let accesses = len / most + (len % most).count_ones() as usize;
                let text = kernel.ptx().text().to_owned();
                assert_eq!(text.matches("st.global").count(), accesses, "{len} {text}");
                let old = vec![value(119); 64];
                let mut y = device.upload(&old).unwrap();
                device.load(&kernel).unwrap().launch(Grid::cover(1, 1), (&mut y,)).unwrap();
                let mut expected = old;
                for (i, place) in expected.iter_mut().skip(16).take(len).enumerate() {
                    *place = value(i);
                }
                assert_eq!(y.to_vec().unwrap(), expected, "{} of {}", len, T::SCALAR);
            }
        }
    }
    check::<u8>();
    check::<bf16>();
    check::<f32>();
    check::<f64>();
    check::<bool>();
}
