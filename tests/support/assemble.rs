//! Assembles kernels with NVIDIA's `ptxas`.

use std::collections::BTreeMap;

use tilewright::codegen::{Module, Ptx};
use tilewright::ir::{Kernel, Untyped};

use super::ptxas;

/// Assembles all kernels, in one module per PTX ISA version that they need. A module with mixed
/// versions would hide a kernel that states too low a version.
pub(crate) fn check_modules(kernels: &[Kernel<Untyped>], options: &[&str]) {
    let Some(ptxas) = ptxas::find() else { return };
    for ptx in modules(kernels) {
        check_text(&ptxas, &ptx, options);
    }
}

/// Like [`check_modules`], but accepts remarks about speed.
pub(crate) fn accept_modules(kernels: &[Kernel<Untyped>], options: &[&str]) {
    let Some(ptxas) = ptxas::find() else { return };
    for ptx in modules(kernels) {
        let result = ptxas.accept(ptx.text(), &ptx.target().to_string(), options);
        result.unwrap_or_else(|problem| panic!("{problem}"));
    }
}

fn modules(kernels: &[Kernel<Untyped>]) -> Vec<Ptx> {
    let mut versions: BTreeMap<_, Vec<&Kernel<Untyped>>> = BTreeMap::new();
    for kernel in kernels {
        versions.entry(kernel.ptx().version()).or_default().push(kernel);
    }
    let module = |kernels: Vec<&Kernel<Untyped>>| {
        let mut module = Module::new(kernels[0].target());
        kernels.into_iter().for_each(|kernel| module.add(kernel).unwrap());
        module.ptx()
    };
    versions.into_values().map(module).collect()
}

#[track_caller]
pub(crate) fn check_text(ptxas: &ptxas::Ptxas, ptx: &Ptx, options: &[&str]) {
    if let Err(problem) = ptxas.assemble(ptx.text(), &ptx.target().to_string(), options) {
        panic!("{problem}");
    }
}

/// Returns the kernel without its signature, so that it can join a module with others.
pub(crate) fn untyped<P>(kernel: &Kernel<P>) -> Kernel<Untyped> {
    Kernel::verify(kernel.ir().clone()).unwrap()
}
