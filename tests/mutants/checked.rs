//! Runs kernels with checks in their code on the simulator: they do what the simulator's own checks
//! do.

use super::kernels::{Subject, subjects};
use super::operators::mutants;
use super::{FUEL, in_parallel};

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tilewright::ir::{Kernel, Record, parse};
use tilewright::sim::{Fault, FaultCause, Options};

/// Runs the kernel with its checks, with the text of an error. A fault that no check found is
/// `None`.
fn run(subject: &Subject, text: &str) -> (Result<Vec<Vec<u8>>, Option<Fault>>, String) {
    let kernel = Kernel::verify(parse("kernel.kir", text).unwrap()).unwrap();
    let checked = kernel.checked().unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let mut words = [0; Record::WORDS];
    let options = Options::default().fuel(16 * FUEL);
    let ir = checked.kernel().ir();
    let found = subject.run_checked(ir, checked.extents(), &mut words, options);
    match found {
        Ok(found) => (Ok(found), String::new()),
        Err(error) => {
            let record = Record::read(&words);
            let fault = record.map(|record| Fault::from_record(&checked, &record).unwrap());
            (Err(fault), error.to_string())
        }
    }
}

/// A correct kernel gives the same result with checks.
#[test]
fn correct_kernels_pass_their_checks() {
    in_parallel(&subjects(), |subject| {
        let expected = subject.run(&subject.ir, Options::default().fuel(1 << 24)).unwrap();
        let (found, error) = run(subject, &subject.text);
        assert_eq!(found.as_ref(), Ok(&expected), "{}: {error}", subject.name);
    });
}

/// The checks in the code of a kernel find the same faults as the simulator's own checks.
#[test]
fn checks_in_code_find_the_faults_of_the_simulator() {
    let subjects = subjects();
    let mut all = Vec::new();
    for subject in &subjects {
        all.extend(mutants(&subject.text).into_iter().map(|mutant| (subject, mutant)));
    }
    // Mistakes about indices and sizes; a fifth of them without optimisation.
    let classes =
        ["shared allocation", "guard", "comparison", "block index", "thread index", "ring"];
    all.retain(|(_, mutant)| classes.contains(&mutant.class));
    if cfg!(debug_assertions) {
        all = all.into_iter().step_by(5).collect();
    }
    let (same, other) = (AtomicUsize::new(0), AtomicUsize::new(0));
    in_parallel(&all, |(subject, mutant)| {
        let ir = parse("kernel.kir", &mutant.text).unwrap();
        let Ok(kernel) = Kernel::verify(ir) else { return };
        let options = Options::default().fuel(FUEL).race(false);
        let Err(error) = subject.run_plain(kernel.ir(), options) else { return };
        let Some(fault) = error.fault() else { return };
        let is_checked = matches!(
            fault.cause,
            FaultCause::OutOfBounds { .. }
                | FaultCause::Misaligned { .. }
                | FaultCause::DivisionByZero { .. }
                | FaultCause::StepNotPositive { .. }
                | FaultCause::BrokenPromise { .. }
                | FaultCause::NotDivisible { .. }
                | FaultCause::OutsideBounds { .. }
        );
        if !is_checked {
            return;
        }
        let (found, said) = run(subject, &mutant.text);
        let context =
            || format!("{}, {}: {}\n{fault}\n{said}", subject.name, mutant.operator, mutant.site);
        let found = found.map(|_| ()).expect_err(&context());
        if found.as_ref() == Some(fault) {
            same.fetch_add(1, Relaxed);
        } else {
            println!("{}\n{found:?}", context());
            other.fetch_add(1, Relaxed);
        }
    });
    let (same, other) = (same.into_inner(), other.into_inner());
    println!("{same} faults are the same, {other} are not");
    let bar = if cfg!(debug_assertions) { 5 } else { 30 };
    assert!(same >= bar && other == 0, "{same} are the same, {other} are not");
}
