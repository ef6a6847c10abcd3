//! The kernels of the library: how much of them is proved.

use std::collections::BTreeMap;
use std::time::Instant;

use tilewright::ir::types::{Scalar, Space};
use tilewright::ir::{KernelIr, Target, bf16, f16};
use tilewright::kernels::attention::{Attention, AttentionConfig, AttentionProblem};
use tilewright::kernels::elementwise::{Elementwise, ElementwiseConfig};
use tilewright::kernels::gemm::{Gemm, GemmConfig, Schedule};
use tilewright::kernels::norm::{Norm, NormConfig, NormKind};
use tilewright::kernels::reduce::{RowReduce, RowReduceConfig, RowReduceOp};
use tilewright::kernels::rows::RowProblem;
use tilewright::kernels::softmax::{Softmax, SoftmaxConfig};
use tilewright::kernels::transpose::{Transpose, TransposeConfig, TransposeProblem};
use tilewright::prove::{Proof, Verdict, What};

/// A proof, with its kernel's family.
struct Proved {
    family: &'static str,
    name: String,
    proof: Proof,
    ops: usize,
    milliseconds: f64,
}

fn prove(all: &mut Vec<Proved>, family: &'static str, ir: &KernelIr, prove: &dyn Fn() -> Proof) {
    let start = Instant::now();
    let proof = prove();
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    if let Some(folder) = std::env::var_os("TILEWRIGHT_PROVE_SHOW") {
        let path = std::path::Path::new(&folder).join(format!("{}.kir", ir.name));
        std::fs::write(path, format!("{ir}\n")).unwrap();
    }
    let (name, ops) = (ir.name.clone(), ir.reached_ops().len());
    all.push(Proved { family, name, proof, ops, milliseconds });
}

/// The parts of a ready kernel that the table needs.
macro_rules! add {
    ($all:expr, $family:literal, $made:expr) => {{
        let made = $made.unwrap();
        prove(&mut $all, $family, made.ir(), &|| made.prove());
    }};
}

fn proofs() -> Vec<Proved> {
    let target = Target::SM_90A;
    let mut all = Vec::new();
    for problem in
        [RowProblem::new(64, 4096), RowProblem::new(7, 1001), RowProblem::new(3, 100_000)]
    {
        let config = SoftmaxConfig::new(target, Scalar::Bf16, &problem).unwrap();
        add!(all, "softmax", Softmax::<bf16, bf16>::new(config));
        for kind in [NormKind::Rms, NormKind::Layer] {
            let config = NormConfig::new(kind, target, Scalar::Bf16, &problem).unwrap();
            add!(all, "norm", Norm::<bf16, bf16>::new(config.weight()));
        }
        let config = RowReduceConfig::new(RowReduceOp::Sum, target, Scalar::Bf16, &problem);
        add!(all, "reduce", RowReduce::<bf16>::new(config));
    }
    for problem in [TransposeProblem::new(512, 512), TransposeProblem::new(3, 101)] {
        let config = TransposeConfig::new(target, Scalar::F32, &problem);
        add!(all, "transpose", Transpose::<f32>::new(config));
        let config = TransposeConfig::new(target, Scalar::F16, &problem);
        add!(all, "transpose", Transpose::<f16>::new(config));
    }
    let add =
        Elementwise::<bf16, bf16, 2>::new(ElementwiseConfig::new(target, 2), "add", |_, [x, y]| {
            x + y
        });
    add!(all, "elementwise", add);
    for target in [Target::SM_90A, Target::SM_80] {
        for head in [64, 128] {
            let problem = AttentionProblem::new([1, 1, 1], [128, 128], head);
            let config = AttentionConfig::new(target, &problem).unwrap();
            if target == Target::SM_80 {
                add!(all, "attention sm_80", Attention::<bf16>::new(config));
            } else {
                add!(all, "attention sm_90", Attention::<bf16>::new(config));
            }
        }
    }
    let sm90 = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    for config in [sm90, GemmConfig { schedule: Schedule::Pingpong, ..sm90 }] {
        add!(all, "gemm sm_90", Gemm::<bf16>::new(config));
    }
    let sm80 = GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [128, 128]);
    add!(all, "gemm sm_80", Gemm::<bf16>::new(sm80));
    let simt = GemmConfig::simt(Target::SM_80, Scalar::F32);
    add!(all, "gemm simt", Gemm::<f32>::new(simt));
    all
}

/// Which column of the table an obligation belongs to.
fn column(what: &What) -> &'static str {
    match what {
        What::Access { space: Space::Global, .. } => "global",
        What::Access { space: Space::Shared | Space::SharedCluster, .. } => "shared",
        What::Access { .. } => "local and constant",
        What::Matrix => "wgmma",
        _ => "other",
    }
}

#[test]
fn shares_of_the_library() {
    let all = proofs();
    let mut table: BTreeMap<(&str, &str), [usize; 4]> = BTreeMap::new();
    for proved in &all {
        for obligation in proved.proof.obligations() {
            let row = match &obligation.verdict {
                Verdict::Proved => 0,
                Verdict::Condition(_) => 1,
                Verdict::Checked(_) => 2,
                _ => 3,
            };
            table.entry((proved.family, column(&obligation.what))).or_default()[row] += 1;
        }
    }
    for proved in &all {
        println!(
            "{} `{}`: {} operations, {:.1} ms",
            proved.family, proved.name, proved.ops, proved.milliseconds
        );
    }
    println!("family | space | proved | by conditions | checked | assumed");
    for ((family, space), [proved, conditions, checked, assumed]) in &table {
        println!("{family} | {space} | {proved} | {conditions} | {checked} | {assumed}");
    }
    if std::env::var_os("TILEWRIGHT_PROVE_SHOW").is_some() {
        for proved in &all {
            println!("{}\n", proved.proof);
        }
    }
}
