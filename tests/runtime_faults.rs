//! Causes faults on a GPU and checks their reports.
//!
//! A fault ends the device for its process, so each has a child process. They run with
//! `TILEWRIGHT_GPU=1`. Faults that no kernel can cause on purpose are tested with the driver of
//! `support/fake_cuda.rs`, in `runtime_driver.rs`.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends with the message"
)]

#[path = "support/mod.rs"]
mod support;

use support::kernels::axpy;
use support::skip::skip;
use support::{device, ptxas};

use std::process::Command;

use device::{gpu, wanted_gpu};
use tilewright::ir::op::InlinePtx;
use tilewright::ir::{GlobalMut, Kernel, KernelOptions, Target};
use tilewright::runtime::{
    CompilerNoteKind, Device, FaultKind, Grid, LoadOptions, ModuleCache, RuntimeError,
};

/// Chooses the fault that a child process causes.
const CHILD: &str = "TILEWRIGHT_CHILD";

/// Causes the fault in a child process and prints what was said of it.
fn check(fault: &str) {
    if wanted_gpu().is_none() {
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "gpu_child", "--nocapture"])
        .env(CHILD, fault)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("the child has run"), "{fault}: {text}");
    eprint!("{text}");
}

/// The driver answers an access to another address space by a code of its own, which no kernel here
/// causes: an H200 carries out atomic operations on local memory through an address of any space,
/// and where an instruction on global memory gets the address of another, that is an illegal
/// address. `runtime_driver.rs` has that cause.
const FAULTS: [&str; 3] = ["illegal_address", "misaligned_address", "trap"];

/// The kernels are right as far as a compiler can tell.
#[test]
fn faulty_kernels_assemble() {
    let Some(ptxas) = ptxas::find() else { return };
    for fault in FAULTS {
        let ptx = faulty(fault, Target::SM_90A).0.ptx();
        let result = ptxas.assemble(ptx.text(), "sm_90a", &["-O1"]);
        result.unwrap_or_else(|problem| panic!("{problem}\n{ptx}"));
    }
}

#[test]
fn gpu_faults_are_kept_with_their_first_cause() {
    FAULTS.into_iter().for_each(check);
}

/// The kernel that is at fault, and what may be said of it: the driver answers to a trap with one
/// of two codes, by its release.
fn faulty(fault: &str, target: Target) -> (Kernel<(GlobalMut<i32>,)>, Vec<FaultKind>) {
    let inline = |text: &'static str| {
        Kernel::<(GlobalMut<i32>,)>::build("wild", target, move |k, (x,)| {
            let value = k.ptx::<i32, _>(InlinePtx::new(text), x);
            x.store(0, value);
        })
    };
    let (kernel, kinds) = match fault {
        "illegal_address" => (
            Kernel::<(GlobalMut<i32>,)>::build("wild", target, |_, (x,)| x.store(1i64 << 40, 1)),
            vec![FaultKind::IllegalAddress],
        ),
        "misaligned_address" => {
            (inline("ld.global.u32 %0, [%1+1];"), vec![FaultKind::MisalignedAddress])
        }
        "trap" => {
            let kinds = vec![FaultKind::LaunchFailed, FaultKind::IllegalInstruction];
            (inline("trap; mov.u32 %0, 0;"), kinds)
        }
        _ => panic!("no such fault"),
    };
    (kernel.unwrap(), kinds)
}

/// One fault, when this is a child process.
#[test]
fn gpu_child() {
    let Ok(fault) = std::env::var(CHILD) else { return };
    let device = gpu().unwrap();
    let (wild, kinds) = faulty(&fault, device.target());
    // The hardware is asked, not the checks in the code.
    #[expect(unsafe_code, reason = "the access is wrong on purpose")]
    // SAFETY: the hardware refuses the access, as it is to a page that is not mapped or misaligned.
    let wild = unsafe { device.load_unchecked(&wild) }.unwrap();
    let f = device.load(&axpy(device.target())).unwrap();
    let x = device.upload(&[1.0; 100]).unwrap();
    let mut y = device.upload(&[1.0; 100]).unwrap();
    let mut z = device.zeros(100).unwrap();
    f.launch(Grid::cover(100, 32), (1.0, &x, &mut y, 100)).unwrap();
    wild.launch(Grid::cover(1, 1), (&mut z,)).unwrap();
    let Err(RuntimeError::Fault(fault)) = device.synchronize() else { panic!("no fault") };
    eprintln!("{}", RuntimeError::Fault(fault.clone()));
    assert!(kinds.contains(&fault.kind) && fault.launches == 2, "{fault:?}");
    assert_eq!(fault.kernel.as_deref(), Some("wild"));
    let lost = RuntimeError::DeviceLost(fault);
    assert_eq!(f.launch(Grid::cover(100, 32), (1.0, &x, &mut y, 100)), Err(lost.clone()));
    assert_eq!(y.to_vec(), Err(lost.clone()));
    assert_eq!(device.zeros::<f32>(10).map(|_| ()), Err(lost.clone()));
    assert_eq!(Device::cuda(0), Err(lost));
    drop((f, wild, x, y, z, device));
    eprintln!("the child has run");
}

/// The compiler ignores `setmaxnreg` unless it knows the registers that a thread starts with: an
/// error of the load, with the cache and without. It always ignores `setmaxnreg` in linked code, so
/// this text is loaded without the linker and is not cached.
#[test]
fn gpu_setmaxnreg_that_is_ignored_is_an_error() {
    let Some(device) = wanted_gpu() else { return };
    if device.target() != Target::SM_90A {
        return skip("the GPU is not of compute capability 9.0");
    }
    // A name of its own each time, because the driver keeps what it has compiled, but not what it
    // said. A warp that asks for more registers than others give would wait for ever; this one
    // gives some.
    let build = |options: KernelOptions, name: &str| {
        let name = format!("{name}_{}", std::process::id());
        let kernel = Kernel::<()>::build_with(options, &name, device.target(), |k, ()| {
            k.ptx::<(), _>(InlinePtx::new("setmaxnreg.dec.sync.aligned.u32 24;"), ())
        });
        kernel.unwrap()
    };
    let cache = ModuleCache::in_memory();
    for (name, cache) in [("with_cache", Some(&cache)), ("without", None)] {
        let options = LoadOptions::default().cache(cache);
        let refused = device.load_with(options, &build(KernelOptions::default(), name));
        match refused.map(|_| ()) {
            Err(RuntimeError::SetMaxNRegIgnored { note, .. }) => {
                let found = (note.kind, note.code);
                assert_eq!(found, (CompilerNoteKind::SetMaxNRegIgnored, 7508), "{note}");
                eprintln!("{name}: {note}");
            }
            other => panic!("{name}: {other:?}"),
        }
        let known = KernelOptions::default().block([128, 1, 1]).max_registers(32);
        let known = build(known, &format!("known_{name}"));
        let f = device.load_with(options, &known).unwrap();
        assert!(f.compiler_notes().is_empty(), "{:?}", f.compiler_notes());
        f.launch(Grid::cover(128, 128), ()).unwrap();
    }
    device.synchronize().unwrap();
    assert_eq!(cache.stats().misses, 0);
}
