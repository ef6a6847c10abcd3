//! Vectors of 256 bits, and rows that start anywhere, against the same on the host.

use tilewright::ir::builder::VectorElement;
use tilewright::ir::{Global, GlobalMut, Kernel, Target, Val, Vector, bf16, f8e4m3, f16, range};
use tilewright::runtime::{Device, Grid};
use tilewright::tensor::copy::Row;

/// Eight elements become `f32`, go through memory as such, and come back.
fn check_wide<T: VectorElement<8>>(numbers: [f32; 8], narrow: impl Fn(f32) -> T) {
    type Params<T> = (Global<T>, GlobalMut<f32>, GlobalMut<T>);
    let kernel = Kernel::<Params<T>>::build("wide", Target::SM_89, |k, (x, wide, back)| {
        let i = k.thread_idx().x * 8;
        let row = x.load_vector::<8>(i).cvt::<f32>();
        wide.store_vector(i, row);
        let row: Val<'_, Vector<f32, 8>> = wide.load_vector(i);
        let carried = k.for_(range(0, 2), row, |_, _, row| {
            let [a, rest @ ..] = row.lanes();
            let [b, c, d, e, f, g, h] = rest;
            Val::pack([b, c, d, e, f, g, h, a])
        });
        let bits = carried.bitcast::<Vector<u32, 8>>().bitcast::<Vector<f32, 8>>();
        back.store_vector(i, bits.cvt::<T>());
    });
    let kernel = kernel.unwrap();
    let ptx = kernel.ptx();
    // Two accesses of 16 bytes for the `f32`; the elements that come back are 8, 16 or 32 bytes.
    let narrow_stores = T::SCALAR.bits() as usize / 16;
    assert_eq!(ptx.text().matches("st.global.v4.b32").count(), 2 + narrow_stores);
    let device = Device::sim().unwrap();
    let x: Vec<T> = (0..2).flat_map(|i| numbers.map(|x| narrow(x + i as f32))).collect();
    let (x, mut wide) = (device.upload(&x).unwrap(), device.zeros::<f32>(16).unwrap());
    let mut back = device.zeros::<T>(16).unwrap();
    let function = device.load(&kernel).unwrap();
    function.launch(Grid::cover(2, 2), (&x, &mut wide, &mut back)).unwrap();
    let expected: Vec<f32> = (0..2).flat_map(|i| numbers.map(|x| x + i as f32)).collect();
    assert_eq!(wide.to_vec().unwrap(), expected);
    let turned = |i: usize| narrow(expected[i / 8 * 8 + (i + 2) % 8]);
    assert_eq!(back.to_vec().unwrap(), (0..16).map(turned).collect::<Vec<T>>());
}

#[test]
fn vectors_of_eight_f32_are_converted_stored_and_carried() {
    let numbers = [1.0, 2.0, -3.0, 4.0, 0.5, 6.0, -7.0, 8.0];
    check_wide(numbers, bf16::from_f32);
    check_wide(numbers, f16::from_f32);
    check_wide(numbers, f8e4m3::from_f32);
    check_wide(numbers, |x| x);
}

/// A kernel that copies a row to the same place of another buffer and writes what it read, with the
/// fill, to a third one.
fn check_rows<T: VectorElement<N>, const N: usize>(number: impl Fn(usize) -> T) {
    type Params<T> = (Global<T>, GlobalMut<T>, GlobalMut<T>, i64, i32);
    let fill = number(99);
    let kernel =
        Kernel::<Params<T>>::build("rows", Target::SM_89, |k, (x, y, filled, start, len)| {
            let (from, to) = (Row::<_, N>::new(x, start, len), Row::<_, N>::new(y, start, len));
            k.for_(range(0, from.vectors()), (), |_, i, ()| {
                let vector = from.load(i, fill);
                to.store(i, vector);
                filled.store_vector(i * N as i32, vector);
            });
        });
    let kernel = kernel.unwrap();
    let ptx = kernel.ptx();
    assert!(ptx.text().contains("ld.global.v4.b32") && ptx.text().contains("st.global.v4.b32"));
    let device = Device::sim().unwrap();
    let function = device.load(&kernel).unwrap();
    for start in 0..=16 / T::SCALAR.size_bytes() as usize {
        for len in 0..70 {
            // The buffers end with the row: one element more would be a fault.
            let size = (start + len).max(1);
            let x: Vec<T> = (0..size).map(&number).collect();
            let old = number(98);
            let mut y = device.upload(&vec![old; size]).unwrap();
            let vectors = (start % N + len).div_ceil(N);
            let mut filled = device.upload(&vec![old; vectors.max(1) * N]).unwrap();
            let args = (&device.upload(&x).unwrap(), &mut y, &mut filled, start as i64, len as i32);
            function.launch(Grid::cover(1, 1), args).unwrap();
            let inside = |i: usize| (start..start + len).contains(&i);
            let copied = (0..size).map(|i| if inside(i) { x[i] } else { old });
            assert_eq!(y.to_vec().unwrap(), copied.collect::<Vec<T>>(), "{start} {len}");
            let first = start / N * N;
            let lanes = (first..first + vectors * N).map(|i| if inside(i) { x[i] } else { fill });
            let lanes: Vec<T> = lanes.collect();
            assert_eq!(filled.to_vec().unwrap()[..vectors * N], lanes, "{start} {len}");
        }
    }
}

#[test]
fn rows_of_any_start_and_length() {
    check_rows::<f32, 4>(|i| i as f32);
    check_rows::<bf16, 8>(|i| bf16::from_f32(i as f32));
    check_rows::<u8, 16>(|i| i as u8);
}
