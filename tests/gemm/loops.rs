//! Checks the instructions in the loops of the kernels of `kernels::gemm`.

use tilewright::ir::types::Scalar;
use tilewright::ir::{Target, bf16};
use tilewright::kernels::gemm::{Gemm, GemmConfig, GemmProblem, Machine};

/// Returns the largest number of `wgmma` in one loop body, nested loops excluded.
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

/// The assembler takes more than linear time in the instructions of a loop.
#[test]
fn loops_are_unrolled_within_bounds() {
    for size in [512, 2048, 4096, 8192] {
        let wanted =
            GemmConfig { target: Target::SM_90A, ..GemmConfig::sm90(Scalar::Bf16, [128, 128]) };
        for config in wanted.defaults(&GemmProblem::new(size, size, size), &Machine::H200) {
            let ptx = Gemm::<bf16>::new(config).unwrap().ptx();
            let has = |what: &str| ptx.text().contains(what);
            if config.registers.is_some() {
                assert!(
                    has("setmaxnreg.inc.sync.aligned.u32 ")
                        && has("setmaxnreg.dec.sync.aligned.u32 ")
                );
            }
            let unrolled = most_wgmma_in_a_body(ptx.text());
            assert!((1..=16).contains(&unrolled), "{config} has {unrolled} wgmma in a body");
        }
    }
}
