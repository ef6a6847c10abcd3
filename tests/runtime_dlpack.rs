//! Converts buffers to DLPack tensors and back, and checks the refusals.
//!
//! Conversions run with the driver of `support/fake_cuda.rs` and, with `TILEWRIGHT_GPU=1`, on a
//! GPU.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends with the message"
)]
#![expect(unsafe_code, reason = "a tensor of foreign code is one by the word of its maker")]

#[path = "support/mod.rs"]
mod support;

use support::device;
#[cfg(target_os = "linux")]
use support::driver;
use support::kernels::axpy;

use std::ptr;
use std::sync::Arc;

use dlpark::ffi::{DLDataType, DLDevice, DLDeviceType, DLManagedTensorVersioned};
use dlpark::metadata::Dynamic;
use dlpark::{DlpackFlags, Managed, ManagedTensorBase, legacy, versioned};
use tilewright::ir::types::Scalar;
use tilewright::ir::{Element, Target, f16, tf32};
use tilewright::runtime::{Buffer, Device, DlpackError, Grid, KeptBuffer, RuntimeError};

/// A tensor of foreign code: `owner` is what its deleter drops.
struct Foreign {
    shape: Vec<i64>,
    strides: Vec<i64>,
    data: u64,
    byte_offset: u64,
    data_type: DLDataType,
    device: DLDevice,
    flags: DlpackFlags,
}

impl Foreign {
    /// `len` floats at an address of the first GPU.
    fn floats(len: i64) -> Foreign {
        Foreign {
            shape: vec![len],
            strides: vec![1],
            data: 0x10_0000,
            byte_offset: 0,
            data_type: DLDataType::F32,
            device: DLDevice::cuda(0),
            flags: DlpackFlags::empty(),
        }
    }

    fn tensor<M: ManagedTensorBase>(self, owner: Arc<()>) -> Managed<M> {
        let prepared = Dynamic::new(self.shape, self.strides).prepare_as::<M>().unwrap();
        let mut tensor = prepared.initialize(Box::new(owner));
        tensor.set_data(ptr::without_provenance_mut(self.data as usize));
        tensor.set_byte_offset(self.byte_offset).set_dtype(self.data_type).set_device(self.device);
        // SAFETY: the flags and the data are read by nobody but the checks of a tensor that is
        // refused.
        unsafe { tensor.set_flags_unchecked(self.flags) };
        // SAFETY: as above.
        unsafe { tensor.finish() }
    }
}

/// The tensor is refused with this error, and its owner dropped; with either form of a tensor.
#[track_caller]
fn check_refused<T: Element>(foreign: impl Fn() -> Foreign, expected: &DlpackError) {
    check_refused_as::<T, DLManagedTensorVersioned>(foreign(), expected);
    if *expected != DlpackError::ReadOnly {
        check_refused_as::<T, dlpark::ffi::DLManagedTensor>(foreign(), expected);
    }
}

#[track_caller]
fn check_refused_as<T: Element, M: ManagedTensorBase + 'static>(
    foreign: Foreign,
    expected: &DlpackError,
) {
    let owner = Arc::new(());
    let stream = Device::sim().unwrap().stream().unwrap();
    let tensor = foreign.tensor::<M>(Arc::clone(&owner));
    // SAFETY: the tensor is refused.
    let result = unsafe { Buffer::<T>::from_dlpack(tensor, &stream) };
    let error = result.map(|_| ()).expect_err("it must be refused");
    assert_eq!(error, RuntimeError::Dlpack(Box::new(expected.clone())));
    assert_eq!(Arc::strong_count(&owner), 1, "the tensor is not dropped");
}

#[test]
fn tensors_of_other_devices_are_refused() {
    let device_type = DLDeviceType::CPU.0;
    let cpu = || Foreign { device: DLDevice::CPU, ..Foreign::floats(4) };
    check_refused::<f32>(cpu, &DlpackError::NotCuda { device_type });
    let error = DlpackError::NotCuda { device_type };
    assert_eq!(
        error.to_string(),
        "the DLPack tensor is in host memory, but only the memory of a CUDA GPU can be borrowed: \
         move the tensor to the GPU first"
    );
    // Managed memory moves, and page-locked memory is the host's.
    for device_type in [DLDeviceType::CUDAMANAGED, DLDeviceType::CUDAHOST, DLDeviceType(99)] {
        let device = DLDevice { device_type, device_id: 0 };
        let error = DlpackError::NotCuda { device_type: device_type.0 };
        check_refused::<f32>(|| Foreign { device, ..Foreign::floats(4) }, &error);
    }
}

#[test]
fn elements_of_other_types_are_refused() {
    let check = |data_type: DLDataType, found: &str| {
        let error = DlpackError::DataType { expected: Scalar::F32, found: found.to_owned() };
        check_refused::<f32>(|| Foreign { data_type, ..Foreign::floats(4) }, &error);
    };
    check(DLDataType::F64, "float64");
    check(DLDataType::I32, "int32");
    check(DLDataType::new(DLDataType::F32.code, 32, 4), "float32x4");
    check(DLDataType::F4E2M1FN, "type 17/4");
    let error = DlpackError::DataType { expected: Scalar::F16, found: "bfloat16".to_owned() };
    check_refused::<f16>(|| Foreign { data_type: DLDataType::BF16, ..Foreign::floats(4) }, &error);
    check_refused::<tf32>(|| Foreign::floats(4), &DlpackError::NoDataType { elem: Scalar::Tf32 });
}

#[test]
fn strides_with_gaps_or_another_order_are_refused() {
    for (shape, strides) in [
        (vec![4, 8], vec![1, 4]),
        (vec![4, 8], vec![16, 1]),
        (vec![4], vec![2]),
        (vec![4], vec![-1]),
        (vec![4, 4], vec![0, 1]),
    ] {
        let error = DlpackError::Strides { shape: shape.clone(), strides: strides.clone() };
        let foreign =
            || Foreign { shape: shape.clone(), strides: strides.clone(), ..Foreign::floats(1) };
        check_refused::<f32>(foreign, &error);
    }
    let error = DlpackError::Strides { shape: vec![4, 8], strides: vec![1, 4] };
    assert!(error.to_string().contains("make the tensor contiguous first"), "{error}");
}

#[test]
fn addresses_that_no_element_has_are_refused() {
    let (data, align) = (0x10_0000, 4);
    let error = DlpackError::Offset { data, byte_offset: 6, align };
    check_refused::<f32>(|| Foreign { byte_offset: 6, ..Foreign::floats(4) }, &error);
    let error = DlpackError::Offset { data: data + 2, byte_offset: 0, align };
    check_refused::<f32>(|| Foreign { data: data + 2, ..Foreign::floats(4) }, &error);
    let error = DlpackError::Offset { data, byte_offset: u64::MAX, align };
    check_refused::<f32>(|| Foreign { byte_offset: u64::MAX, ..Foreign::floats(4) }, &error);
    let error = DlpackError::NoData { elements: 4 };
    check_refused::<f32>(|| Foreign { data: 0, ..Foreign::floats(4) }, &error);
}

#[test]
fn tensors_that_must_not_be_written_are_refused() {
    let flags = DlpackFlags::READ_ONLY;
    check_refused::<f32>(|| Foreign { flags, ..Foreign::floats(4) }, &DlpackError::ReadOnly);
}

#[test]
fn descriptions_that_break_the_rules_are_refused() {
    let reason = |result: Result<Buffer<f32>, RuntimeError>| match result {
        Err(RuntimeError::Dlpack(error)) => match *error {
            DlpackError::Invalid { reason } => reason,
            error => panic!("{error}"),
        },
        other => panic!("{other:?}"),
    };
    let stream = Device::sim().unwrap().stream().unwrap();
    let import = |tensor: versioned::Dlpack| {
        // SAFETY: the tensor is refused.
        reason(unsafe { Buffer::from_dlpack(tensor, &stream) })
    };
    let negative = Foreign { shape: vec![2, -3], strides: vec![3, 1], ..Foreign::floats(1) };
    assert!(import(negative.tensor(Arc::default())).contains("negative"));
    let huge = Foreign { shape: vec![i64::MAX; 2], strides: vec![1, 1], ..Foreign::floats(1) };
    assert!(import(huge.tensor(Arc::default())).contains("overflows"));
    let data_type = DLDataType::new(DLDataType::F32.code, 0, 1);
    let no_bits = Foreign { data_type, ..Foreign::floats(1) };
    assert!(import(no_bits.tensor(Arc::default())).contains("bit width"));
}

#[test]
fn the_simulator_has_no_addresses() {
    let device = Device::sim().unwrap();
    let tensor: versioned::Dlpack = Foreign::floats(4).tensor(Arc::default());
    // SAFETY: the tensor is refused.
    let refused = unsafe { Buffer::<f32>::from_dlpack(tensor, &device.stream().unwrap()) };
    assert_eq!(refused.map(|_| ()), Err(RuntimeError::AddressOnSimulator));
    let x = device.upload(&[7.0f32; 6]).unwrap();
    let KeptBuffer { error, buffer: x, .. } =
        x.into_dlpack::<DLManagedTensorVersioned>(&[2, 3]).err().unwrap();
    assert_eq!(error, RuntimeError::AddressOnSimulator);
    assert_eq!(x.to_vec().unwrap(), [7.0; 6], "the buffer comes back");
    let refused: Result<versioned::Dlpack, _> =
        device.zeros::<f32>(6).unwrap().into_dlpack(&[2, 4]);
    let error = DlpackError::Shape { shape: vec![2, 4], len: 6 };
    assert_eq!(refused.map(|_| ()).map_err(RuntimeError::from), Err(error.clone().into()));
    assert!(error.to_string().ends_with("the product of the extents must be 6"));
    let overflow = vec![usize::MAX, 2, 0];
    let refused: Result<versioned::Dlpack, _> =
        device.zeros::<f32>(6).unwrap().into_dlpack(&overflow);
    assert!(matches!(refused, Err(KeptBuffer { error: RuntimeError::Dlpack(_), .. })));
    let refused: Result<versioned::Dlpack, _> = device.zeros::<tf32>(6).unwrap().into_dlpack(&[6]);
    let error = DlpackError::NoDataType { elem: Scalar::Tf32 };
    assert_eq!(refused.map(|_| ()).map_err(RuntimeError::from), Err(error.into()));
}

/// Converts a buffer to a tensor and back without a copy: launches see the same memory.
fn round_trip<M: ManagedTensorBase + 'static>(device: &Device) {
    let f = device.load(&axpy(Target::SM_80)).unwrap();
    let stream = device.stream().unwrap();
    let x = device.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let mut y = device.upload(&[10.0f32; 6]).unwrap();
    f.launch(Grid::cover(6, 32), (1.0, &x, &mut y, 6)).unwrap();
    // Work on the buffer is in flight when it becomes a tensor.
    let tensor: Managed<M> = y.into_dlpack(&[2, 3]).unwrap();
    let address = {
        let view = tensor.validate().unwrap();
        assert_eq!((view.shape(), view.strides()), (&[2, 3][..], Some(&[3, 1][..])));
        assert_eq!((view.dtype(), view.device()), (DLDataType::F32, DLDevice::cuda(0)));
        assert_eq!((view.byte_offset(), tensor.flags()), (0, DlpackFlags::empty()));
        view.data_ptr().addr()
    };
    // SAFETY: the memory is that of the buffer, whose work has ended, and nobody else has it.
    let mut y: Buffer<f32> = unsafe { Buffer::from_dlpack(tensor, &stream) }.unwrap();
    f.launch(Grid::cover(6, 32), (2.0, &x, &mut y, 6)).unwrap();
    assert_eq!(y.to_vec().unwrap(), [13.0, 16.0, 19.0, 22.0, 25.0, 28.0]);
    // Dropped with work in flight.
    f.launch(Grid::cover(6, 32), (2.0, &x, &mut y, 6)).unwrap();
    let again: Managed<M> = y.into_dlpack(&[6]).unwrap();
    assert_eq!(again.validate().unwrap().data_ptr().addr(), address);
    drop(again);

    // Without elements there is no address.
    let empty: Managed<M> = device.zeros::<u8>(0).unwrap().into_dlpack(&[0, 7]).unwrap();
    assert!(empty.validate().unwrap().data_ptr().is_null());
    // SAFETY: there are no elements.
    let empty: Buffer<u8> = unsafe { Buffer::from_dlpack(empty, &stream) }.unwrap();
    assert!(empty.to_vec().unwrap().is_empty());
}

/// The owner of foreign memory is dropped after the last use of the buffer, and not before.
fn owners(device: &Device) {
    let f = device.load(&axpy(Target::SM_80)).unwrap();
    let stream = device.stream().unwrap();
    let memory: versioned::Dlpack = device.upload(&[1.0f32; 8]).unwrap().into_dlpack(&[8]).unwrap();
    let data = memory.validate().unwrap().data_ptr().addr() as u64;
    let owner = Arc::new(());
    // A tensor of the upper four elements, behind an offset.
    let foreign = Foreign { data, byte_offset: 16, ..Foreign::floats(4) };
    let tensor: versioned::Dlpack = foreign.tensor(Arc::clone(&owner));
    // SAFETY: `memory` keeps the elements until the end of this function, and nobody uses them
    // beside.
    let upper: Buffer<f32> = unsafe { Buffer::from_dlpack(tensor, &stream) }.unwrap();
    let mut y = device.zeros::<f32>(4).unwrap();
    f.launch(Grid::cover(4, 32), (3.0, &upper, &mut y, 4)).unwrap();
    assert_eq!(Arc::strong_count(&owner), 2);
    drop(upper);
    assert_eq!(Arc::strong_count(&owner), 1);
    assert_eq!(y.to_vec().unwrap(), [3.0; 4]);

    // A graph may run the buffer any time.
    let mut graph = device.graph().unwrap();
    graph.launch(&f, Grid::cover(4, 32), (1.0, &y.copied(device), &mut y, 4)).unwrap();
    let on_recording = graph.stream().clone();
    let tensor: versioned::Dlpack = Foreign { data, ..Foreign::floats(8) }.tensor(Arc::default());
    // SAFETY: the tensor is refused.
    let refused = unsafe { Buffer::<f32>::from_dlpack(tensor, &on_recording) }.map(|_| ());
    assert_eq!(refused, Err(RuntimeError::NotInGraph { call: "Buffer::from_dlpack" }));
    let graph = graph.finish().unwrap();
    let kept = y.into_dlpack::<DLManagedTensorVersioned>(&[4]).err().unwrap();
    assert_eq!(kept.error, RuntimeError::BufferShared);
    // Without the graph it goes out.
    drop(graph);
    let tensor = kept.buffer.into_dlpack::<DLManagedTensorVersioned>(&[4]).unwrap();
    drop((tensor, memory));
}

/// Memory that other code keeps, by its address alone.
fn borrowed(device: &Device) {
    let f = device.load(&axpy(Target::SM_80)).unwrap();
    let memory: versioned::Dlpack = device.upload(&[2.0f32; 8]).unwrap().into_dlpack(&[8]).unwrap();
    let data = memory.validate().unwrap().data_ptr().addr() as u64;
    let owner = Arc::new(());
    let borrow = |address, len| {
        // SAFETY: `memory` keeps the elements until the end of this function, and nobody uses them
        // beside.
        unsafe { device.borrow_raw::<f32>(address, len, Arc::clone(&owner)) }
    };
    let mut x = borrow(data + 4, 7).unwrap();
    assert!(x.is_aligned_to(4) && !x.is_aligned_to(8));
    let mut y = device.zeros::<f32>(7).unwrap();
    f.launch(Grid::cover(7, 32), (3.0, &x, &mut y, 7)).unwrap();
    f.launch(Grid::cover(7, 32), (1.0, &y, &mut x, 7)).unwrap();
    assert_eq!(Arc::strong_count(&owner), 2);
    drop(x);
    assert_eq!((Arc::strong_count(&owner), y.to_vec().unwrap()), (1, vec![6.0; 7]));
    let all = borrow(data, 8).unwrap();
    assert_eq!(all.to_vec().unwrap(), [2.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0]);
    drop(all);

    // What is refused drops its owner.
    let odd = borrow(data + 2, 7).map(|_| ()).unwrap_err();
    assert_eq!(odd, RuntimeError::AddressAlignment { address: data + 2, align: 4 });
    assert!(
        odd.to_string().ends_with("elements of 4 bytes must start at a multiple of 4"),
        "{odd}"
    );
    let sim = Device::sim().unwrap();
    // SAFETY: there is no such memory on the simulator, which refuses it.
    let refused = unsafe { sim.borrow_raw::<f32>(data, 8, Arc::clone(&owner)) }.map(|_| ());
    assert_eq!(refused, Err(RuntimeError::AddressOnSimulator));
    assert_eq!(Arc::strong_count(&owner), 1);
}

trait Copied {
    fn copied(&self, device: &Device) -> Self;
}

impl Copied for Buffer<f32> {
    fn copied(&self, device: &Device) -> Buffer<f32> {
        device.upload(&self.to_vec().unwrap()).unwrap()
    }
}

/// The stream must be one of the GPU of the tensor.
fn other_gpu(device: &Device) {
    let foreign = Foreign { device: DLDevice::cuda(7), ..Foreign::floats(4) };
    let stream = device.stream().unwrap();
    let tensor: versioned::Dlpack = foreign.tensor(Arc::default());
    // SAFETY: the tensor is refused.
    let refused = unsafe { Buffer::<f32>::from_dlpack(tensor, &stream) }.map(|_| ());
    let error = DlpackError::OtherDevice { tensor: 7, stream: device.to_string() };
    assert_eq!(refused, Err(error.into()));
}

fn all(device: &Device) {
    round_trip::<DLManagedTensorVersioned>(device);
    round_trip::<dlpark::ffi::DLManagedTensor>(device);
    owners(device);
    borrowed(device);
    other_gpu(device);
    // Both forms have names.
    let _: legacy::Dlpack = device.zeros::<i8>(3).unwrap().into_dlpack(&[3]).unwrap();
}

/// Nothing is left allocated; nothing is freed or used while something else may use it.
#[cfg(target_os = "linux")]
#[test]
fn tensors_go_out_and_come_in() {
    driver::check("dlpack", &[]);
    driver::check("dlpack", &[("POOLS", "0")]);
}

#[cfg(target_os = "linux")]
#[test]
fn child() {
    if std::env::var(driver::CASE).is_ok() {
        all(&Device::cuda(0).unwrap());
        eprintln!("case dlpack ran");
    }
}

#[test]
fn gpu_tensors_go_out_and_come_in() {
    if let Some(device) = device::wanted_gpu() {
        all(&device);
    }
}
