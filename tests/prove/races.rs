//! The law: if an allocation is proved free of races, or proved by conditions that a launch
//! fulfils, the simulator finds no race for it, under any schedule.

use tilewright::ir::{Element, Kernel, Untyped};
use tilewright::prove::{LaunchValue, LaunchValues, RaceProof, RaceVerdict};
use tilewright::runtime::Grid;
use tilewright::sim::{FaultCause, GlobalBuffer, KernelArg, Options, RunError, run};

use crate::copy_kernels;
use crate::generator::{self, Made};
use crate::kernels::subjects;
use crate::law::{number, verified};
use crate::operators::mutants;
use crate::race_kernels;
use crate::subjects::values;
use crate::support::rng::Rng;

/// The allocation that a run raced for, if it did.
pub(crate) fn raced(error: &RunError) -> Option<String> {
    match &error.fault()?.cause {
        // Launches that overlap are another subject.
        FaultCause::Race { access, other, by, .. }
            if other.kernel.is_none() && by.kernel.is_none() =>
        {
            Some(access.allocation.clone())
        }
        FaultCause::InFlight { access, .. } => Some(access.allocation.clone()),
        _ => None,
    }
}

/// A kernel of 64 threads with parameters `x`, `y` and `n`.
pub(crate) fn small_kernel(start: &str, body: &str) -> Kernel<Untyped> {
    verified(&format!(
        "kernel @k target sm_80 block 64 x 1 x 1 (%x: ptr<global, i32>, %y: ptr<global, mut i32>, %n: i32) {{{start}{body}\n  return\n}}"
    ))
}

/// Runs two blocks of a [`small_kernel`] under some schedules.
pub(crate) fn run_small(kernel: &Kernel<Untyped>, n: i32, schedules: u32) -> Result<(), RunError> {
    let (x, y) = (GlobalBuffer::from_slice(&[5i32; 64]), GlobalBuffer::from_slice(&[0i32; 1024]));
    let args = [KernelArg::Buffer(&x), KernelArg::Buffer(&y), KernelArg::Scalar(n.to_const())];
    let options = Options::default().race(true).equal_stores(true).threads(1).schedules(schedules);
    run(kernel.ir(), Grid::new([2, 1, 1], [64, 1, 1]), &args, &options).map(|_| ())
}

/// Panics if the proof still says that the allocation is free of races.
#[track_caller]
pub(crate) fn assert_lost(proof: &RaceProof, raced: &str, what: &str) {
    let one = proof.allocations().iter().find(|one| one.name.ends_with(raced)).unwrap();
    assert!(!one.verdict.is_settled(), "{what}: {proof}");
}

/// Whether the allocation is free of races in a launch with these values.
fn is_settled(proof: &RaceProof, name: &str, values: &LaunchValues) -> bool {
    let mut all = proof.allocations().iter();
    let known = all.find(|one| one.name.trim_start_matches('@') == name.trim_start_matches('@'));
    match known.map(|one| &one.verdict) {
        Some(RaceVerdict::Proved) => true,
        Some(RaceVerdict::Condition(all)) => {
            all.iter().all(|i| proof.conditions()[*i].holds(values))
        }
        Some(_) => false,
        // What the proof does not know cannot race.
        None => true,
    }
}

/// Whether a launch with these values has no race.
fn holds(proof: &RaceProof, values: &LaunchValues) -> bool {
    proof.allocations().iter().all(|one| is_settled(proof, &one.name, values))
}

fn judge(
    kernel: &Kernel<Untyped>,
    proof: &RaceProof,
    values: &LaunchValues,
    error: &RunError,
) -> bool {
    let Some(name) = raced(error) else { return false };
    assert!(
        !is_settled(proof, &name, values),
        "the proof is wrong: {error}\n{values:?}\n{proof}\n{}",
        kernel.ir()
    );
    true
}

#[derive(Default)]
struct Counts {
    kernels: usize,
    complete: usize,
    settled: usize,
    open: usize,
    runs: usize,
    races: usize,
}

impl Counts {
    fn add(&mut self, proof: &RaceProof) {
        self.kernels += 1;
        self.complete += usize::from(proof.is_complete());
        let settled = proof.allocations().iter().filter(|one| one.verdict.is_settled()).count();
        self.settled += settled;
        self.open += proof.allocations().len() - settled;
    }

    fn print(&self, what: &str) {
        let Counts { kernels, complete, settled, open, runs, races } = self;
        println!(
            "{what}: {kernels} kernels, {complete} proved, {settled} allocations proved, {open} open; \
             {runs} runs, {races} with races"
        );
    }
}

/// Runs random kernels with parameters `x`, `y`, `n` and `m`, and judges their proofs.
fn judge_all(cases: u64, random: fn(&mut Rng) -> Made) -> Counts {
    let seed = number("TILEWRIGHT_PROVE_SEED", 1);
    let mut counts = Counts::default();
    for case in 0..cases {
        let mut rng = Rng::new(seed.wrapping_add(case));
        let made = random(&mut rng);
        // The verifier refuses barriers that only some threads reach.
        let ir = tilewright::ir::parse("kernel.kir", &made.text)
            .unwrap_or_else(|error| panic!("{error}\n{}", made.text));
        let Ok(kernel) = Kernel::verify(ir) else { continue };
        let proof = kernel.prove_races();
        counts.add(&proof);
        for _ in 0..2 {
            let (n, m) = (*rng.pick(&[0, 1, 3, 31, 32, 64]), *rng.pick(&[1, 2, 64, 100]));
            let blocks = [*rng.pick(&[1, 1, 2, 3]), 1, 1];
            let threads = made.block.unwrap_or_else(|| *rng.pick(&[[64, 1, 1], [16, 2, 1]]));
            let [x, y] = [1024usize, 1 << 14].map(|len| GlobalBuffer::from_slice(&vec![1i32; len]));
            let args = [
                KernelArg::Buffer(&x),
                KernelArg::Buffer(&y),
                KernelArg::Scalar(n.to_const()),
                KernelArg::Scalar(m.to_const()),
            ];
            let buffer = |len: u64| LaunchValue::Buffer { len, alignment: 256 };
            let numbers = [n, m].map(|n: i32| LaunchValue::Integer(n.into()));
            let arguments = vec![buffer(1024), buffer(1 << 14), numbers[0], numbers[1]];
            let values = LaunchValues::new(blocks, threads, arguments);
            let options = Options::default().race(true).equal_stores(true).fuel(1 << 14).threads(1);
            for options in [options.clone(), options.schedules(4)] {
                let found = run(kernel.ir(), Grid::new(blocks, threads), &args, &options);
                counts.runs += 1;
                if let Err(error) = &found {
                    counts.races += usize::from(judge(&kernel, &proof, &values, error));
                }
            }
        }
    }
    counts
}

#[test]
fn random_phases_keep_their_proofs() {
    let counts = judge_all(number("TILEWRIGHT_PROVE_CASES", 600), race_kernels::random);
    counts.print("random phases");
    // The law says something only if many kernels are proved and many race.
    assert!(counts.settled > counts.open / 4 && counts.races > counts.runs / 10);
}

#[test]
fn random_copies_keep_their_proofs() {
    let counts = judge_all(number("TILEWRIGHT_PROVE_CASES", 400), copy_kernels::random);
    counts.print("random copies");
    assert!(counts.complete > counts.kernels / 16 && counts.races > counts.runs / 4);
}

#[test]
fn random_indices_do_not_race_if_proved() {
    let (cases, seed) = (number("TILEWRIGHT_PROVE_CASES", 400), number("TILEWRIGHT_PROVE_SEED", 1));
    let mut counts = Counts::default();
    for case in 0..cases {
        let mut rng = Rng::new(seed.wrapping_add(case));
        let made = generator::random(&mut rng);
        let ir = tilewright::ir::parse("kernel.kir", &made.text).expect("the text parses");
        let Ok(kernel) = Kernel::verify(ir) else { continue };
        let proof = kernel.prove_races();
        counts.add(&proof);
        let threads = made.block.unwrap_or([33, 1, 1]);
        for _ in 0..2 {
            let blocks = [1 + rng.below(3) as u32, 1, 1];
            let [x, y] = [(); 2].map(|()| *rng.pick(&[64, 129, 200, 1000]));
            let [n, m] = [(); 2].map(|()| *rng.pick(&[0, 1, 3, 8, 32, 64]));
            let l = 9_i64;
            let [bx, by] = [x, y].map(|len| GlobalBuffer::from_slice(&vec![3i32; len]));
            let args = [
                KernelArg::Buffer(&bx),
                KernelArg::Buffer(&by),
                KernelArg::Scalar(n.to_const()),
                KernelArg::Scalar(m.to_const()),
                KernelArg::Scalar(l.to_const()),
            ];
            let buffer = |len: usize| LaunchValue::Buffer { len: len as u64, alignment: 256 };
            let number = |n: i128| LaunchValue::Integer(n);
            let values = LaunchValues::new(
                blocks,
                threads,
                vec![buffer(x), buffer(y), number(n.into()), number(m.into()), number(l.into())],
            );
            let options = Options::default().race(true).equal_stores(true).fuel(1 << 13).threads(1);
            counts.runs += 1;
            if let Err(error) = run(kernel.ir(), Grid::new(blocks, threads), &args, &options) {
                counts.races += usize::from(judge(&kernel, &proof, &values, &error));
            }
        }
    }
    counts.print("random indices");
    assert!(counts.settled > counts.open / 4 && counts.races > 0);
}

/// A mistake that the simulator calls a race is never proved to be none.
#[test]
fn mutants_that_race_lose_their_proofs() {
    let every = number("TILEWRIGHT_PROVE_MUTANTS", 8) as usize;
    let (mut real, mut lost, mut runs) = (0, 0, 0);
    for subject in subjects() {
        let kernel = Kernel::verify(subject.ir.clone()).unwrap();
        let proof = kernel.prove_races();
        let (mut count, mut own, mut own_lost) = (0, 0, 0);
        let correct = values(&subject, kernel.ir());
        let is_complete = holds(&proof, &correct);
        for mutant in mutants(&subject.text).into_iter().step_by(every.max(1)) {
            let ir = tilewright::ir::parse("kernel.kir", &mutant.text).unwrap();
            let Ok(kernel) = Kernel::verify(ir) else { continue };
            // The detector says the same under most schedules.
            let options = Options::default().fuel(1 << 16).schedules(2);
            runs += 1;
            let Err(error) = subject.run(kernel.ir(), options) else { continue };
            let Some(name) = raced(&error) else { continue };
            let found = kernel.prove_races();
            let values = values(&subject, kernel.ir());
            judge(&kernel, &found, &values, &error);
            count += 1;
            // Other mutants race for what the proof of the correct kernel leaves open.
            if is_settled(&proof, &name, &correct) {
                own += 1;
                own_lost += usize::from(!holds(&found, &values));
            }
        }
        println!(
            "{}: {}; {count} mutants race, {own} of them for what is proved",
            subject.name,
            if is_complete { "proved" } else { "open" }
        );
        real += own;
        lost += own_lost;
        if !is_complete && std::env::var_os("TILEWRIGHT_PROVE_SHOW").is_some() {
            println!("{proof}");
        }
    }
    println!("{runs} mutants; of {real} that race for proved allocations, {lost} lose the proof");
    assert!(real > 0 && lost == real);
}
