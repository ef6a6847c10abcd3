//! Several kernels in a module, and constant and global arrays, on every device.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::{device, ptxas, text};

use device::devices;
use tilewright::codegen::{CodegenError, Module};
use tilewright::ir::types::Space;
use tilewright::ir::{Element, GlobalMut, Kernel, Target, parse_kernels};
use tilewright::runtime::{Device, Grid, LoadOptions, RuntimeError};
use tilewright::sim::FaultCause;

type Out<T> = (GlobalMut<T>,);

#[track_caller]
fn assemble(module: &Module<'_>) {
    if let Some(ptxas) = ptxas::find() {
        let ptx = module.ptx();
        let result = ptxas.assemble(ptx.text(), &ptx.target().to_string(), &["-O1"]);
        result.unwrap_or_else(|problem| panic!("{problem}"));
    }
}

/// A kernel that reads an array at an index of each thread.
fn reads<T: Element>(name: &str, target: Target, elements: &[T]) -> Kernel<Out<T>>
where
    for<'b> tilewright::ir::Val<'b, T>: tilewright::ir::builder::IntoVal<'b, T>,
{
    Kernel::<Out<T>>::build(name, target, |k, (out,)| {
        let table = k.const_array(elements);
        let i = k.thread_idx().x;
        let value = table.load(i);
        out.store(i, value);
        // Through a pointer that was moved, and with a known index.
        let last = elements.len() as i32 - 1;
        out.store(last + 1, table.offset(last).load(0));
        out.store(last + 2, table.load(0u64));
    })
    .unwrap()
}

#[test]
fn const_arrays_of_every_type() {
    fn check<T: Element>(device: &Device, elements: &[T])
    where
        for<'b> tilewright::ir::Val<'b, T>: tilewright::ir::builder::IntoVal<'b, T>,
    {
        let kernel = reads("reads", device.target(), elements);
        text::check_round_trip(kernel.ir());
        let mut module = Module::new(device.target());
        module.add(&kernel).unwrap();
        assemble(&module);
        let mut out = device.zeros::<T>(elements.len() + 2).unwrap();
        let grid = Grid::cover(elements.len(), elements.len() as u32);
        device.load(&kernel).unwrap().launch(grid, (&mut out,)).unwrap();
        let mut expected = elements.to_vec();
        expected.extend([elements[elements.len() - 1], elements[0]]);
        assert_eq!(out.to_vec().unwrap(), expected, "on {device}");
    }
    for device in devices() {
        check(&device, &[true, false, true]);
        check(&device, &[-128i8, 127, 0]);
        check(&device, &[255u8, 1]);
        check(&device, &[-30_000i16, 5]);
        check(&device, &[60_000u16]);
        check(&device, &[i32::MIN, i32::MAX, -1]);
        check(&device, &[u32::MAX, 7]);
        check(&device, &[i64::MIN, 3]);
        check(&device, &[u64::MAX, 0]);
        check(&device, &[-1.5f32, f32::MIN_POSITIVE, f32::INFINITY]);
        check(&device, &[0.1f64, f64::MAX]);
    }
}

/// Equal arrays are one, in a kernel and in a module; others are not.
#[test]
fn const_arrays_are_shared() {
    let build = |name, values: &[f32]| {
        Kernel::<Out<f32>>::build(name, Target::SM_80, |k, (out,)| {
            let (a, b) = (k.const_array(values), k.const_array(values));
            let c = k.const_array(&[9.0f32]);
            out.store(0, a.load(0) + b.load(1) + c.load(0));
        })
        .unwrap()
    };
    let (first, second, third) =
        (build("first", &[1.0, 2.0]), build("second", &[1.0, 2.0]), build("third", &[1.0, 3.0]));
    assert_eq!(first.ir().arrays.len(), 2);
    let mut module = Module::new(Target::SM_80);
    for kernel in [&first, &second, &third] {
        module.add(kernel).unwrap();
    }
    assert_eq!(module.ptx().text().matches("\n.const ").count(), 3, "{}", module.ptx());
    assemble(&module);
}

/// All functions of a module run, and the text form has all kernels.
#[test]
fn a_module_has_several_kernels() {
    for device in devices() {
        let first = reads("first", device.target(), &[3, 1, 4, 1, 5]);
        let second = reads("second", device.target(), &[3, 1, 4, 1, 5]);
        let other =
            Kernel::<(GlobalMut<f64>, f64)>::build("other", device.target(), |k, (x, a)| {
                k.assert(a.gt(0.0), "positive");
                x.store(k.thread_idx().x, a)
            })
            .unwrap();
        let mut module = Module::new(device.target());
        module.add(&first).unwrap();
        module.add(&second).unwrap();
        module.add(&other).unwrap();
        assemble(&module);
        let parsed = parse_kernels("module.kir", &module.to_string()).unwrap();
        let kernels = [first.ir(), second.ir(), other.ir()];
        assert!(parsed.iter().eq(kernels), "{module}");

        let loaded = device.load_module(&module).unwrap();
        let (f, g) = (loaded.function(&first).unwrap(), loaded.function(&second).unwrap());
        let h = loaded.function(&other).unwrap();
        drop(loaded);
        let (mut x, mut y) = (device.zeros(7).unwrap(), device.zeros(2).unwrap());
        for f in [f, g] {
            f.launch(Grid::cover(5, 5), (&mut x,)).unwrap();
            assert_eq!(x.to_vec().unwrap(), [3, 1, 4, 1, 5, 5, 3], "on {device}");
        }
        h.launch(Grid::cover(2, 2), (&mut y, 2.5)).unwrap();
        assert_eq!(y.to_vec().unwrap(), [2.5; 2]);
        let failed =
            h.launch(Grid::cover(2, 2), (&mut y, -2.5)).and_then(|()| y.to_vec().map(|_| ()));
        assert!(matches!(failed, Err(RuntimeError::AssertFailed(_))), "{failed:?}");
    }
}

#[test]
fn a_module_names_what_it_does_not_have() {
    let device = Device::sim().unwrap();
    let first = reads("first", Target::SM_80, &[1]);
    let mut module = Module::new(Target::SM_80);
    module.add(&first).unwrap();
    let loaded = device.load_module(&module).unwrap();
    let same_name = reads("first", Target::SM_80, &[2]);
    let error = loaded.function(&same_name).unwrap_err();
    assert_eq!(error, RuntimeError::NotInModule { kernel: "first".to_owned() });
    assert!(error.to_string().starts_with("the loaded module has no kernel `first`"), "{error}");
}

/// 64 KiB for all kernels of a module together.
#[test]
fn const_arrays_have_a_limit() {
    let numbers: Vec<u32> = (0..20_000).collect();
    let build = |name, numbers: &[u32]| {
        Kernel::<Out<u32>>::build(name, Target::SM_80, |k, (out,)| {
            let table = k.const_array(numbers);
            out.store(0, table.load(0));
        })
    };
    let whole = build("whole", &numbers[..16_384]).unwrap();
    let mut module = Module::new(Target::SM_80);
    module.add(&whole).unwrap();
    assemble(&module);
    let same = build("same", &numbers[..16_384]).unwrap();
    module.add(&same).unwrap();
    let more = build("more", &[1]).unwrap();
    let error = module.add(&more).unwrap_err();
    let (name, bytes, limit) = ("more".to_owned(), 65_540, 65_536);
    assert_eq!(error, CodegenError::ConstantArrays { name, bytes, limit });
    let errors = build("large", &numbers).unwrap_err().to_string();
    assert!(
        errors.contains("the constant arrays take 80000 bytes, but a module has 65536"),
        "{errors}"
    );
    let errors = build("empty", &[]).unwrap_err().to_string();
    assert!(errors.contains("array0 has no elements"), "{errors}");
}

/// The simulator finds an access outside, with the line that made the array.
#[test]
fn const_arrays_are_checked() {
    let device = Device::sim().unwrap();
    let line = line!() + 2;
    let kernel = Kernel::<Out<i16>>::build("outside", Target::SM_80, |k, (out,)| {
        let table = k.const_array(&[1i16, 2]);
        out.store(0, table.load(k.thread_idx().x));
    })
    .unwrap();
    let mut out = device.zeros(1).unwrap();
    let error = device.load(&kernel).unwrap().launch(Grid::cover(3, 3), (&mut out,)).unwrap_err();
    let RuntimeError::Simulation(error) = error else { panic!("{error}") };
    let fault = error.fault().unwrap();
    let FaultCause::OutOfBounds { access } = &fault.cause else { panic!("{fault}") };
    assert_eq!((access.space, access.element, access.len_bytes), (Space::Const, 2, 4));
    assert_eq!(access.made.unwrap().line, line);
    assert!(fault.to_string().contains("of constant array `array0`, made at "), "{fault}");
}

/// Counts the calls of each thread in global memory of its own, and stores how many came before.
fn counts(name: &str, target: Target) -> Kernel<Out<u32>> {
    Kernel::<Out<u32>>::build(name, target, |k, (out,)| {
        let (starts, calls) = (k.global_array_of(&[10u32, 20]), k.global_array::<u32>(2));
        let i = k.thread_idx().x;
        let before = calls.atom().add(i, 1);
        out.store(i, starts.load(i) + before);
        starts.store(i, starts.load(i) + 100);
    })
    .unwrap()
}

/// A global array has its initial values when the kernel is loaded. A launch sees what earlier
/// launches of that function have stored, and nothing of other kernels, or of the same kernel
/// loaded again.
#[test]
fn global_arrays_last_as_long_as_the_function() {
    for device in devices() {
        let (kernel, other) = (counts("kernel", device.target()), counts("other", device.target()));
        text::check_round_trip(kernel.ir());
        let mut module = Module::new(device.target());
        module.add(&kernel).unwrap();
        module.add(&other).unwrap();
        assemble(&module);
        let loaded = device.load_module(&module).unwrap();
        let (f, g) = (loaded.function(&kernel).unwrap(), loaded.function(&other).unwrap());
        let again = device.load(&kernel).unwrap();
        let checked = device.load_with(LoadOptions::default().checked(), &kernel).unwrap();
        for call in 0..3 {
            for function in [&f, &g, &again, &checked] {
                let mut out = device.zeros(2).unwrap();
                function.launch(Grid::cover(2, 2), (&mut out,)).unwrap();
                let expected = [10, 20].map(|start| start + 101 * call);
                assert_eq!(out.to_vec().unwrap(), expected, "on {device}");
            }
        }
    }
}

/// Two global arrays of a kernel are two, also if they are equal.
#[test]
fn global_arrays_are_not_shared() {
    for device in devices() {
        let kernel = Kernel::<Out<i32>>::build("two", device.target(), |k, (out,)| {
            let (a, b) = (k.global_array_of(&[7]), k.global_array_of(&[7]));
            a.store(0, 8);
            out.store(0, a.load(0) * 10 + b.load(0));
        })
        .unwrap();
        let mut out = device.zeros(1).unwrap();
        device.load(&kernel).unwrap().launch(Grid::cover(1, 1), (&mut out,)).unwrap();
        assert_eq!(out.to_vec().unwrap(), [87], "on {device}");
    }
}

/// The simulator finds an access outside, with the line that made the array; so do the checks in a
/// kernel's code.
#[test]
fn global_arrays_are_checked() {
    let device = Device::sim().unwrap();
    let line = line!() + 2;
    let kernel = Kernel::<Out<i16>>::build("outside", Target::SM_80, |k, (out,)| {
        let table = k.global_array::<i16>(2);
        out.store(0, table.load(k.thread_idx().x));
    })
    .unwrap();
    let mut out = device.zeros(1).unwrap();
    for checked in [false, true] {
        let options = LoadOptions::default();
        let options = if checked { options.checked() } else { options };
        let function = device.load_with(options, &kernel).unwrap();
        let error = function.launch(Grid::cover(3, 3), (&mut out,)).unwrap_err().to_string();
        assert!(error.contains("of global array `global0`, made at "), "{error}");
        assert!(error.contains(&format!("modules.rs:{line}:")), "{error}");
        assert!(error.contains("which has 2 elements (4 bytes)"), "{error}");
        assert!(error.contains("or make the allocation larger"), "{error}");
    }
}

/// Every schedule starts with the content that the launch found, and the results are those of the
/// first.
#[test]
fn schedules_do_not_see_one_another_in_global_arrays() {
    let kernel = counts("kernel", Target::SM_80);
    let device = Device::sim_with(tilewright::sim::Options::default().schedules(3));
    let function = device.load(&kernel).unwrap();
    for call in 0..3 {
        let mut out = device.zeros(2).unwrap();
        function.launch(Grid::cover(2, 2), (&mut out,)).unwrap();
        assert_eq!(out.to_vec().unwrap(), [10, 20].map(|start| start + 101 * call));
    }
}

/// The race detector watches global arrays like any global memory.
#[test]
fn global_arrays_race() {
    let kernel = Kernel::<()>::build("race", Target::SM_80, |k, ()| {
        let one = k.global_array::<i32>(1);
        one.store(0, k.block_idx().x);
    })
    .unwrap();
    let device = Device::sim_with(tilewright::sim::Options::default().race(true));
    let error =
        device.load(&kernel).unwrap().launch(Grid::new([2, 1, 1], [1, 1, 1]), ()).unwrap_err();
    let RuntimeError::Simulation(error) = error else { panic!("{error}") };
    let fault = error.fault().unwrap();
    assert!(matches!(fault.cause, FaultCause::Race { .. }), "{fault}");
    assert!(fault.to_string().contains("of global array `global0`, made at "), "{fault}");
}
