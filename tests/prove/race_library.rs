//! The kernels of the library: which of them are proved free of races.

use std::time::Instant;

use tilewright::ir::types::{Scalar, Space};
use tilewright::ir::{Kernel, KernelIr, Target, bf16, f16};
use tilewright::kernels::attention::{Attention, AttentionConfig, AttentionProblem};
use tilewright::kernels::decode::{Decode, DecodeConfig};
use tilewright::kernels::elementwise::{Elementwise, ElementwiseConfig};
use tilewright::kernels::gather::{GatherSide, RowGather, RowGatherConfig};
use tilewright::kernels::gemm::{Gemm, GemmConfig};
use tilewright::kernels::norm::{Norm, NormConfig, NormKind};
use tilewright::kernels::permute::{Permute, PermuteConfig, PermuteProblem};
use tilewright::kernels::reduce::{RowReduce, RowReduceConfig, RowReduceOp};
use tilewright::kernels::rows::RowProblem;
use tilewright::kernels::softmax::{Softmax, SoftmaxConfig};
use tilewright::kernels::transpose::{Transpose, TransposeConfig, TransposeProblem};
use tilewright::prove::{LaunchValue, LaunchValues, RaceVerdict};

fn kernels() -> Vec<(&'static str, KernelIr)> {
    let target = Target::SM_90A;
    let mut all = Vec::new();
    macro_rules! add {
        ($family:literal, $made:expr) => {
            all.push(($family, $made.unwrap().ir().clone()))
        };
    }
    for problem in
        [RowProblem::new(64, 4096), RowProblem::new(7, 1001), RowProblem::new(3, 100_000)]
    {
        let config = SoftmaxConfig::new(target, Scalar::Bf16, &problem).unwrap();
        add!("softmax", Softmax::<bf16, bf16>::new(config));
        for kind in [NormKind::Rms, NormKind::Layer] {
            let config = NormConfig::new(kind, target, Scalar::Bf16, &problem).unwrap();
            add!("norm", Norm::<bf16, bf16>::new(config.weight()));
        }
        let config = RowReduceConfig::new(RowReduceOp::Sum, target, Scalar::Bf16, &problem);
        add!("reduce", RowReduce::<bf16>::new(config));
    }
    for problem in [TransposeProblem::new(512, 512), TransposeProblem::new(3, 101)] {
        let config = TransposeConfig::new(target, Scalar::F32, &problem);
        add!("transpose", Transpose::<f32>::new(config));
        let config = TransposeConfig::new(target, Scalar::F16, &problem);
        add!("transpose", Transpose::<f16>::new(config));
    }
    let config = ElementwiseConfig::new(target, 2);
    let sum = Elementwise::<bf16, bf16, 2>::new(config, "add", |_, [x, y]| x + y);
    add!("elementwise", sum);
    for order in [[1, 0, 2], [2, 1, 0]] {
        let problem = PermuteProblem::new(&[64, 96, 128], &order).unwrap();
        let config = PermuteConfig::new(target, Scalar::F32, &problem);
        add!("permute", Permute::<f32>::new(config));
    }
    for side in [GatherSide::Input, GatherSide::Output] {
        let config = RowGatherConfig::new(side, target, Scalar::F32, &RowProblem::new(64, 1024));
        add!("gather", RowGather::<f32>::new(config));
    }
    add!("gemm simt", Gemm::<f32>::new(GemmConfig::simt(Target::SM_80, Scalar::F32)));
    let sm80 = GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [128, 128]);
    add!("gemm sm_80", Gemm::<bf16>::new(sm80));
    for head in [64, 128] {
        let problem = AttentionProblem::new([1, 1, 1], [128, 128], head);
        let config = AttentionConfig::new(Target::SM_80, &problem).unwrap();
        add!("attention sm_80", Attention::<bf16>::new(config));
        let config = DecodeConfig::new(target, head).unwrap();
        add!("decode", Decode::<bf16>::new(config));
    }
    all
}

/// Prints which kernels are free of races, and why others are not known to be.
#[test]
fn races_of_the_library() {
    let mut settled = 0;
    for (family, ir) in kernels() {
        let kernel = Kernel::verify(ir).unwrap();
        let start = Instant::now();
        let proof = kernel.prove_races();
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        let accesses: usize = proof.allocations().iter().map(|one| one.accesses).sum();
        println!("{family}, {accesses} accesses, {milliseconds:.1} ms: {proof}");
        let is_settled = |verdict: &RaceVerdict| verdict.is_settled();
        // All threads of these fill rings by `cp.async`.
        if matches!(family, "gemm simt" | "gemm sm_80" | "attention sm_80" | "decode") {
            let mut shared =
                proof.allocations().iter().filter(|one| one.space == Space::Shared).peekable();
            assert!(shared.peek().is_some());
            assert!(shared.all(|one| one.verdict == RaceVerdict::Proved), "{proof}");
        }
        settled += proof.allocations().iter().filter(|one| is_settled(&one.verdict)).count();
    }
    assert!(settled > 20, "{settled} allocations");
}

/// Conditions that a correct launch does not fulfil would say that it races.
#[test]
fn correct_launches_fulfil_the_race_conditions() {
    let int = |value: i64| LaunchValue::Integer(value.into());
    let buffer = |len: i64| LaunchValue::Buffer { len: len as u64, alignment: 256 };
    let mut fulfilled = 0;
    for (rows, columns, pitch) in [(64, 4096, 4096), (64, 4096, 4104), (1, 4096, 4096)] {
        let problem = RowProblem::new(64, 4096);
        let len = (rows - 1) * pitch + columns;
        let (sizes, matrix) = ([int(rows), int(columns)], [buffer(len), int(pitch)]);
        let config = SoftmaxConfig::new(Target::SM_90A, Scalar::Bf16, &problem).unwrap();
        let softmax = Softmax::<bf16, bf16>::new(config).unwrap();
        let config = RowReduceConfig::new(RowReduceOp::Sum, Target::SM_90A, Scalar::Bf16, &problem);
        let sum = RowReduce::<bf16>::new(config).unwrap();
        let config =
            NormConfig::new(NormKind::Rms, Target::SM_90A, Scalar::Bf16, &problem).unwrap();
        let norm = Norm::<bf16, bf16>::new(config.weight()).unwrap();
        let weight = [buffer(columns), buffer(0), LaunchValue::Other, LaunchValue::Other];
        for (ir, arguments) in [
            (softmax.ir(), [&matrix[..], &matrix, &sizes].concat()),
            (sum.ir(), [&matrix[..], &[buffer(rows)], &sizes].concat()),
            (norm.ir(), [&matrix[..], &matrix, &weight, &sizes].concat()),
        ] {
            let values =
                LaunchValues::new([rows as u32, 1, 1], ir.bounds.block.unwrap(), arguments);
            let proof = Kernel::verify(ir.clone()).unwrap().prove_races();
            assert!(proof.is_complete(), "{proof}");
            for condition in proof.conditions() {
                assert!(condition.holds(&values), "{condition} in {values:?}");
                fulfilled += 1;
            }
        }
    }
    assert!(fulfilled > 20, "{fulfilled} conditions");
}
