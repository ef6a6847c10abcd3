//! What NVIDIA's assembler reports of the GEMMs that are measured beside cuBLAS: no spill, no local memory, no
//! remark (so no `setmaxnreg` is dropped and no `wgmma` waits where it need not), for every configuration that is
//! measured.

use std::io::Write;
use std::time::{Duration, Instant};

use tilewright::codegen::{Ptx, PtxVersion};
use tilewright::ir::{Target, bf16};
use tilewright::kernels::gemm::Gemm;

#[path = "../../benches/kernels/gemm_configs.rs"]
mod gemm_configs;
#[path = "../../benches/kernels/gemm_sm80.rs"]
#[allow(dead_code, reason = "the benchmark launches it")]
mod gemm_sm80;
#[path = "../../benches/kernels/gemm_sm90.rs"]
#[allow(dead_code, reason = "the benchmark launches it")]
mod gemm_sm90;
use crate::support::ptxas;

fn said(line: &str) {
    // Not `eprintln!`: the output of a test that passes is not shown.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The kernel as PTX, and the shortest of three times from its closure to the text.
fn timed(build: impl Fn() -> Ptx) -> (Ptx, Duration) {
    let run = || {
        let begin = Instant::now();
        let ptx = build();
        (ptx, begin.elapsed())
    };
    (0..3).map(|_| run()).min_by_key(|(_, time)| *time).expect("there are three")
}

/// Assembles the text, and reads the report: the registers of a thread.
fn report(ptxas: &ptxas::Ptxas, ptx: &Ptx, target: Target) -> String {
    let report = ptxas.report(ptx.text(), &target.to_string());
    let report = report.unwrap_or_else(|problem| panic!("{problem}"));
    // Numbers of remarks: C7508 and others are about what was not done as it was written.
    assert!(!report.contains("(C7"), "{report}");
    for none in ["0 bytes stack frame", "0 bytes spill stores", "0 bytes spill loads"] {
        assert!(report.contains(none), "there is not `{none}` in\n{report}");
    }
    assert!(!report.contains("lmem"), "{report}");
    let used = report.split("Used ").nth(1).and_then(|rest| rest.split(',').next());
    used.expect("the report says how many registers are used").to_owned()
}

/// The most `wgmma` that one body of a loop has, without those of loops inside of it.
fn most_wgmma_in_a_body(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    // A loop goes from its label to the last branch back.
    let ends = |(first, line): (usize, &&str)| {
        let label = line.strip_suffix(':')?;
        let back = format!("bra {label};");
        let last = lines.iter().rposition(|line| line.ends_with(&back))?;
        (last > first).then_some((first, last))
    };
    let loops: Vec<(usize, usize)> = lines.iter().enumerate().filter_map(ends).collect();
    let innermost = |at: usize| {
        loops.iter().filter(|(first, last)| (*first..*last).contains(&at)).max_by_key(|l| l.0)
    };
    let mut counts = std::collections::BTreeMap::new();
    for (at, _) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("wgmma.mma_async"))
    {
        *counts.entry(innermost(at)).or_insert(0) += 1;
    }
    counts.into_values().max().unwrap_or(0)
}

#[test]
fn bodies_of_loops_are_counted_without_what_is_inside() {
    let text = "$a:\n wgmma.mma_async x\n $b:\n wgmma.mma_async x\n wgmma.mma_async y\n @p bra $b;\n \
                wgmma.mma_async z\n wgmma.mma_async z\n bra $a;\n";
    assert_eq!(most_wgmma_in_a_body(text), 3);
}

#[test]
fn the_gemm_of_hopper() {
    let Some(ptxas) = ptxas::find() else { return };
    let mut count = 0;
    for size in [2048, 4096, 8192, 16384] {
        for (name, config) in gemm_configs::sm90(size) {
            let (ptx, time) = timed(|| gemm_sm90::gemm(config).unwrap().ptx());
            assert_eq!(ptx.version(), PtxVersion { major: 8, minor: 0 });
            assert_eq!(ptx.target(), Target::SM_90A);
            for action in ["inc", "dec"] {
                let text = format!("setmaxnreg.{action}.sync.aligned.u32 ");
                assert!(ptx.text().contains(&text), "{name} has no {text}");
            }
            // The assembler takes more than linear time in them.
            let unrolled = most_wgmma_in_a_body(ptx.text());
            assert!((4..=16).contains(&unrolled), "{name} has {unrolled} wgmma in a body");
            let used = report(&ptxas, &ptx, Target::SM_90A);
            said(&format!("{size} {name}: {used}, text after {time:.2?}"));
            count += 1;
        }
    }
    assert!(count > 8, "only {count} configurations");
}

#[test]
fn the_gemm_of_ampere() {
    let Some(ptxas) = ptxas::find() else { return };
    for target in [Target::SM_80, Target::SM_90] {
        let config = gemm_sm80::Config { target, ..gemm_configs::sm80() };
        let (ptx, time) = timed(|| gemm_sm80::gemm(config).unwrap().ptx());
        let lowest = if target == Target::SM_80 { (7, 0) } else { (7, 8) };
        assert_eq!((ptx.version().major, ptx.version().minor), lowest);
        let used = report(&ptxas, &ptx, target);
        said(&format!("sm_80 GEMM for {target}: {used}, text after {time:.2?}"));
    }
}

/// Those of the library that are measured beside them.
#[test]
fn the_family() {
    let Some(ptxas) = ptxas::find() else { return };
    for size in [2048, 4096, 8192] {
        for config in gemm_configs::family(size) {
            let (ptx, time) = timed(|| Gemm::<bf16>::new(config).unwrap().ptx());
            assert!(most_wgmma_in_a_body(ptx.text()) <= 16, "{config}");
            let used = report(&ptxas, &ptx, config.target);
            said(&format!("{config}: {used}, text after {time:.2?}"));
        }
    }
}
