//! The law on the kernels that the mutation tests use, and on their mutants.

use tilewright::ir::{Kernel, parse};
use tilewright::prove::{LaunchValue, LaunchValues};
use tilewright::sim::Options;

use crate::kernels::{Arg, Subject, subjects};
use crate::law::{Shown, counts, judge, number};
use crate::operators::mutants;

pub(crate) fn values(subject: &Subject, ir: &tilewright::ir::KernelIr) -> LaunchValues {
    let arguments = subject.args().iter().zip(&ir.params).map(|(arg, param)| match arg {
        Arg::Int(value) => LaunchValue::Integer((*value).into()),
        Arg::Buffer(bytes) => {
            let elem = match ir.type_of(param.value) {
                tilewright::ir::types::Type::Pointer { elem, .. } => elem.size_bytes(),
                _ => 1,
            };
            LaunchValue::Buffer { len: bytes.len() as u64 / u64::from(elem), alignment: 256 }
        }
        Arg::Map(map, _) => LaunchValue::Map { box_bytes: map.shared_bytes() },
    });
    LaunchValues::new(subject.grid().blocks, subject.grid().threads, arguments.collect())
}

#[test]
fn correct_kernels_and_their_mutants_keep_their_proofs() {
    let every = number("TILEWRIGHT_PROVE_MUTANTS", 40) as usize;
    let (mut all, mut faults, mut runs) = ([0; 3], 0, 0);
    for subject in subjects() {
        let kernel = Kernel::verify(subject.ir.clone()).unwrap();
        let proof = kernel.prove();
        let [proved, conditions, open] = counts(&proof);
        println!("{}: {proved} proved, {conditions} by conditions, {open} open", subject.name);
        for (sum, count) in all.iter_mut().zip(counts(&proof)) {
            *sum += count;
        }
        for mutant in mutants(&subject.text).into_iter().step_by(every.max(1)) {
            let Ok(kernel) = Kernel::verify(parse("kernel.kir", &mutant.text).unwrap()) else {
                continue;
            };
            let proof = kernel.prove();
            let options = Options::default().race(false).fuel(1 << 16);
            runs += 1;
            if let Err(error) = subject.run_plain(kernel.ir(), options) {
                let shown = judge(kernel.ir(), &proof, &values(&subject, kernel.ir()), &error);
                faults += usize::from(shown == Shown::FaultAtOpen);
            }
        }
    }
    println!("{runs} mutants, {faults} faults at open accesses; correct kernels: {all:?}");
    assert!(all[2] * 4 <= all[0] + all[1], "{all:?}");
}
