//! Kernels through NVIDIA's assembler.

use std::collections::BTreeMap;

use tilewright::codegen::{Module, Ptx};
use tilewright::ir::{Kernel, Untyped};

use super::ptxas;

/// Assembles all kernels, one module for each version of the PTX ISA that kernels need: a module of mixed versions
/// would hide a kernel with too low a version.
pub(crate) fn check_modules(kernels: &[Kernel<Untyped>], options: &[&str]) {
    let Some(ptxas) = ptxas::find() else { return };
    for ptx in modules(kernels) {
        check_text(&ptxas, &ptx, options);
    }
}

/// As [`check_modules`], where remarks on speed are no errors.
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

/// The kernel without its signature, to be added to a module with others.
pub(crate) fn untyped<P>(kernel: &Kernel<P>) -> Kernel<Untyped> {
    Kernel::verify(kernel.ir().clone()).unwrap()
}
