//! Memory that goes to `cudarc` and comes from it, with the driver of `support/fake_cuda.rs`.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends with the message"
)]
#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "the bytes of a `bool` are looked at as bytes")]

#[path = "support/mod.rs"]
mod support;

use support::driver;
use support::kernels::axpy;

use std::fmt::Debug;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DeviceRepr, ValidAsZeroBits};
use driver::{CASE, check};
use tilewright::ir::{Element, GlobalMut, Kernel, Target, bf16, f8e4m3, f8e5m2, f16, tf32};
use tilewright::runtime::{Buffer, Device, Grid, KeptBuffer, RuntimeError};

#[test]
fn buffers_of_all_types_go_out_and_come_in() {
    check("all_types", &[]);
}

/// A kernel may store any byte; a `Vec<bool>` with a byte of 2 is undefined behaviour.
#[test]
fn bools_that_go_out_are_zeros_and_ones() {
    check("bools", &[]);
}

#[test]
fn a_buffer_that_is_refused_comes_back() {
    check("kept", &[]);
}

/// The cases, when this is a child process.
#[test]
fn child() {
    let Ok(case) = std::env::var(CASE) else { return };
    let device = Device::cuda(0).unwrap();
    let stream = CudaContext::new(0).unwrap().new_stream().unwrap();
    match case.as_str() {
        "all_types" => all_types(&device, &stream),
        "bools" => bools(&device, &stream),
        "kept" => kept(&device, &stream),
        _ => panic!("no such case"),
    }
    eprintln!("case {case} ran");
}

/// The driver runs what is queued only when somebody waits, copies of host memory too.
fn download<T: DeviceRepr>(stream: &Arc<CudaStream>, slice: &CudaSlice<T>) -> Vec<T> {
    let copied = stream.clone_dtoh(slice).unwrap();
    stream.synchronize().unwrap();
    copied
}

fn upload<T: DeviceRepr>(stream: &Arc<CudaStream>, values: &[T]) -> CudaSlice<T> {
    let copied = stream.clone_htod(values).unwrap();
    stream.synchronize().unwrap();
    copied
}

/// Out and in again, also by `cudarc`'s own copies, which ask for its traits.
fn round_trip<T: Element + DeviceRepr + ValidAsZeroBits + Debug>(
    device: &Device,
    stream: &Arc<CudaStream>,
    values: [T; 3],
) {
    let slice: CudaSlice<T> = device.upload(&values).unwrap().into_cudarc(stream).unwrap();
    assert_eq!(download(stream, &slice), values);
    let buffer = Buffer::from_cudarc(upload(stream, &values)).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), values);
    let zeros = Buffer::from_cudarc(stream.alloc_zeros::<T>(5).unwrap()).unwrap();
    assert_eq!(zeros.to_vec().unwrap(), [T::default(); 5]);
}

fn all_types(device: &Device, stream: &Arc<CudaStream>) {
    round_trip(device, stream, [1.5f32, -2.0, f32::INFINITY]);
    round_trip(device, stream, [1i64, -2, i64::MAX]);
    round_trip(device, stream, [true, false, true]);
    round_trip(device, stream, [1.5, -2.0, 3.0].map(bf16::from_f32));
    round_trip(device, stream, [1.5, -2.0, 3.0].map(f16::from_f32));
    round_trip(device, stream, [1.5, -2.0, 3.0].map(f8e4m3::from_f32));
    round_trip(device, stream, [1.5, -2.0, 3.0].map(f8e5m2::from_f32));
    round_trip(device, stream, [1.5, -2.0, 3.0].map(tf32::from_f32));
    half_types(device, stream);
}

/// A slice of `half::bf16`, which is what a tensor library has, is a buffer of our `bf16` without a
/// copy.
fn half_types(device: &Device, stream: &Arc<CudaStream>) {
    let values = [1.5f32, -2.0, 3.0].map(bf16::from_f32);
    let slice: CudaSlice<half::bf16> =
        device.upload(&values).unwrap().into_cudarc_as(stream).unwrap();
    assert_eq!(slice.len(), 3);
    let buffer = Buffer::from_cudarc(slice).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), values);
    // It goes back as what it came, and as nothing else.
    let KeptBuffer { error, buffer, .. } = buffer.into_cudarc(stream).unwrap_err();
    assert_eq!(error, RuntimeError::BufferShared);
    let slice: CudaSlice<half::bf16> = buffer.into_cudarc_as(stream).unwrap();
    // What the program keeps is lent with our type, too.
    let lent = device.borrow_cudarc((&slice, &slice.slice(1..)), |(all, rest)| {
        let (all, rest): (&Buffer<bf16>, &Buffer<bf16>) = (all, rest);
        Ok::<_, RuntimeError>((all.to_vec()?, rest.to_vec()?))
    });
    assert_eq!(lent, Ok((values.to_vec(), values[1..].to_vec())));
    assert_eq!(Buffer::from_cudarc(slice).unwrap().to_vec().unwrap(), values);
    let values = [0.25f32, 7.0].map(f16::from_f32);
    let slice: CudaSlice<half::f16> =
        device.upload(&values).unwrap().into_cudarc_as(stream).unwrap();
    assert_eq!(Buffer::from_cudarc(slice).unwrap().to_vec().unwrap(), values);
}

fn bools(device: &Device, stream: &Arc<CudaStream>) {
    let kernel =
        Kernel::<(GlobalMut<bool>,)>::build("odd_bools", Target::SM_80, |_, _| ()).unwrap();
    let odd_bools = device.load(&kernel).unwrap();
    let bytes = |slice: CudaSlice<bool>| {
        let len = slice.len();
        // SAFETY: the memory has `len` bytes, and nobody else has it after this.
        let bytes = unsafe { stream.upgrade_device_ptr::<u8>(slice.leak(), len) };
        download(stream, &bytes)
    };
    // Memory of this crate, and memory of `cudarc`.
    let ours = device.upload(&[true; 4]).unwrap();
    let theirs = Buffer::from_cudarc(upload(stream, &[true; 4])).unwrap();
    for mut x in [ours, theirs] {
        // The driver stores 0, 1, 2 and 255.
        odd_bools.launch(Grid::cover(4, 32), (&mut x,)).unwrap();
        assert_eq!(bytes(x.into_cudarc(stream).unwrap()), [0, 1, 1, 1]);
    }
}

fn kept(device: &Device, stream: &Arc<CudaStream>) {
    let x = Device::sim().unwrap().upload(&[1, 2, 3]).unwrap();
    let KeptBuffer { error, buffer, .. } = x.into_cudarc(stream).unwrap_err();
    assert!(matches!(error, RuntimeError::OtherDeviceStream { .. }), "{error}");
    assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);

    let axpy = device.load(&axpy(Target::SM_80)).unwrap();
    let (x, mut y) = (device.upload(&[1.0f32; 4]).unwrap(), device.zeros::<f32>(4).unwrap());
    let mut graph = device.graph().unwrap();
    graph.launch(&axpy, Grid::cover(4, 32), (2.0, &x, &mut y, 4)).unwrap();
    let graph = graph.finish().unwrap();
    let kept = y.into_cudarc(stream).unwrap_err();
    assert_eq!(kept.to_string(), RuntimeError::BufferShared.to_string());
    graph.launch().unwrap();
    assert_eq!(kept.buffer.to_vec().unwrap(), [2.0; 4]);
    drop(graph);
    let y = kept.buffer.into_cudarc(stream).unwrap();
    assert_eq!(download(stream, &y), [2.0; 4]);
}
