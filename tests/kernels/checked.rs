//! The ready kernels with checks in their code: NVIDIA's assembler takes them.

use tilewright::ir::types::Scalar;
use tilewright::ir::{Kernel, KernelIr, Target, bf16};
use tilewright::kernels::attention::{Attention, AttentionConfig, AttentionProblem};
use tilewright::kernels::elementwise::{Elementwise, ElementwiseConfig};
use tilewright::kernels::gemm::{Gemm, GemmConfig, Schedule};
use tilewright::kernels::norm::{Norm, NormConfig, NormKind};
use tilewright::kernels::reduce::{RowReduce, RowReduceConfig, RowReduceOp};
use tilewright::kernels::rows::RowProblem;
use tilewright::kernels::softmax::{Softmax, SoftmaxConfig};
use tilewright::kernels::transpose::{Transpose, TransposeConfig, TransposeProblem};

use crate::support::checked_again::checked_again;
use crate::support::ptxas;
use crate::support::slow::slow;

fn kernels() -> Vec<KernelIr> {
    let target = Target::SM_90A;
    let mut all = Vec::new();
    for problem in [RowProblem::new(64, 4096), RowProblem::new(7, 1001)] {
        let config = SoftmaxConfig::new(target, Scalar::Bf16, &problem).unwrap();
        all.push(Softmax::<bf16, bf16>::new(config).unwrap().ir().clone());
        let config = NormConfig::new(NormKind::Rms, target, Scalar::Bf16, &problem).unwrap();
        all.push(Norm::<bf16, bf16>::new(config.weight()).unwrap().ir().clone());
        let config = RowReduceConfig::new(RowReduceOp::Sum, target, Scalar::Bf16, &problem);
        all.push(RowReduce::<bf16>::new(config).unwrap().ir().clone());
    }
    for problem in [TransposeProblem::new(512, 512), TransposeProblem::new(3, 101)] {
        let config = TransposeConfig::new(target, Scalar::F32, &problem);
        all.push(Transpose::<f32>::new(config).unwrap().ir().clone());
    }
    let add =
        Elementwise::<bf16, bf16, 2>::new(ElementwiseConfig::new(target, 2), "add", |_, [x, y]| {
            x + y
        });
    all.push(add.unwrap().ir().clone());
    let problem = AttentionProblem::new([1, 1, 1], [128, 128], 64);
    let config = AttentionConfig::new(target, &problem).unwrap();
    all.push(Attention::<bf16>::new(config).unwrap().ir().clone());
    let sm90 = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    for config in [sm90, GemmConfig { schedule: Schedule::Pingpong, ..sm90 }] {
        all.push(Gemm::<bf16>::new(config).unwrap().ir().clone());
    }
    let sm80 = GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [128, 128]);
    all.push(Gemm::<bf16>::new(sm80).unwrap().ir().clone());
    let simt = GemmConfig::simt(Target::SM_80, Scalar::F32);
    all.push(Gemm::<f32>::new(simt).unwrap().ir().clone());
    all
}

/// Every kernel takes checks, and the assembler takes it with them: a third of them without
/// `TILEWRIGHT_SLOW`. Its remarks on speed do not count.
#[test]
fn ready_kernels_with_checks_assemble() {
    let ptxas = ptxas::find();
    for (i, ir) in kernels().into_iter().enumerate() {
        let kernel = Kernel::verify(ir).unwrap();
        let checked =
            kernel.checked().unwrap_or_else(|errors| panic!("{}: {errors}", kernel.name()));
        assert!(!checked.sites().is_empty(), "{checked}");
        let Some(ptxas) = ptxas.as_ref().filter(|_| slow() || i % 3 == 0) else { continue };
        let ptx = checked.kernel().ptx();
        let result = ptxas.accept(ptx.text(), &ptx.target().to_string(), &[]);
        result.unwrap_or_else(|problem| panic!("{checked}: {problem}"));
    }
}

/// No access of a correct kernel is a violation: tests of each kind of kernel pass with checks in
/// the code.
#[test]
fn kernels_pass_with_checks() {
    checked_again(&[
        "attention::the_example_runs",
        "elementwise::lengths_around_a_block",
        "gather::",
        "norm::empty_matrices_are_no_work",
        "reduce::columns_of_special_numbers",
        "selective_scan::special_numbers",
        "softmax::special_numbers",
        "transpose::batches",
    ]);
}
