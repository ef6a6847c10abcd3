//! A kernel without a data use does the same for all data.

use tilewright::ir::types::Scalar;
use tilewright::ir::{Element, Kernel, KernelIr, Target, bf16};
use tilewright::kernels::gemm::{Gemm, GemmConfig, Schedule};
use tilewright::kernels::rows::RowProblem;
use tilewright::kernels::softmax::{Softmax, SoftmaxConfig};
use tilewright::runtime::Grid;
use tilewright::sim::{GlobalBuffer, KernelArg, Options, RunError, run};

use crate::generator;
use crate::law::{number, verified};
use crate::support::rng::Rng;

/// What a run showed, without the data in it.
fn outcome(result: Result<(), RunError>) -> String {
    match result {
        Ok(()) => "no fault".to_owned(),
        Err(RunError::OutOfFuel { .. }) => "out of fuel".to_owned(),
        Err(error) => match error.fault() {
            Some(fault) => {
                let cause = format!("{:?}", fault.cause);
                let cause: String = cause.chars().take_while(char::is_ascii_alphanumeric).collect();
                format!("{cause} {:?} {:?} {:?}", fault.path, fault.block, fault.thread)
            }
            None => error.to_string(),
        },
    }
}

#[test]
fn random_kernels_without_a_data_use_do_the_same_for_all_data() {
    let (cases, seed) = (number("TILEWRIGHT_PROVE_CASES", 400), number("TILEWRIGHT_PROVE_SEED", 1));
    let (mut without, mut faults, mut differ) = (0, 0, 0);
    for case in 0..cases {
        let mut rng = Rng::new(seed.wrapping_add(case));
        let made = generator::random(&mut rng);
        let ir = tilewright::ir::parse("kernel.kir", &made.text).expect("the text parses");
        let Ok(kernel) = Kernel::verify(ir) else { continue };
        let found = kernel.data_use();
        without += u32::from(found.is_none());
        let threads = made.block.unwrap_or([33, 1, 1]);
        let n = *rng.pick(&[1, 8, 31, 64, -1]);
        let lens = [(); 2].map(|()| *rng.pick(&[0, 31, 64, 129, 200]));
        let outcomes = [0, 1, 70, -3, i32::MIN].map(|first| {
            let data = |len: usize| -> Vec<i32> {
                (0..len as i32).map(|i| first.wrapping_mul(i % 5)).collect()
            };
            let [x, y] = lens.map(|len| GlobalBuffer::from_slice(&data(len)));
            let args = [
                KernelArg::Buffer(&x),
                KernelArg::Buffer(&y),
                KernelArg::Scalar(n.to_const()),
                KernelArg::Scalar(7.to_const()),
                KernelArg::Scalar(9_i64.to_const()),
            ];
            let options = Options::default().race(true).equal_stores(true).fuel(1 << 13).threads(1);
            let grid = Grid::new([2, 1, 1], threads);
            outcome(run(kernel.ir(), grid, &args, &options).map(|_| ()))
        });
        let same = outcomes.iter().all(|outcome| *outcome == outcomes[0]);
        if found.is_none() {
            faults += u32::from(outcomes[0] != "no fault");
            assert!(same, "case {case}: {outcomes:#?}\n{}", kernel.ir());
        }
        differ += u32::from(!same);
    }
    println!(
        "{cases} kernels, {without} without a data use, {faults} of them fault; {differ} depend on data"
    );
    // The law is worth testing only if there are kernels of both kinds, and both end in both ways.
    assert!(u64::from(without) > cases / 20 && faults > 0 && differ > 0);
}

/// The data use of a kernel with the load `%v` of an `i32` and then `body`.
fn use_in(body: &str) -> Option<String> {
    let text = format!(
        "kernel @k target sm_80 block 64 x 1 x 1 (%x: ptr<global, i32>, %y: ptr<global, mut i32>, %n: i32) {{
  shared @s: i32 x 64 align 16
  %s = shared_base<@s> : ptr<shared, mut i32>
  %t = sreg<tid.x> : i32
  %zero = const 0 : i32
  %one = const 1 : i32
  %u0 = const 0 : u32
  %all = const 0xffffffff : u32
  %whole = const 0x1f : u32
  %v = ld %x, %t : i32
{body}
  return
}}"
    );
    let found = verified(&text).data_use()?;
    assert_eq!(found.to_string().matches("kernel.kir:").count(), 2, "{found}");
    Some(format!("{} of {} from {}", found.operand, found.op, found.source))
}

#[track_caller]
fn finds(body: &str, wanted: &str) {
    assert_eq!(use_in(body).as_deref(), Some(wanted), "{body}");
}

#[test]
fn data_may_be_stored_combined_and_selected() {
    for body in [
        "  st %y, %t, %v",
        "  %w = mul %v, %v : i32\n  st %y, %t, %w",
        "  %c = setp<lt> %v, %zero : bool\n  %w = selp %c, %zero, %v : i32\n  st %y, %t, %w",
        "  %w, %in = shfl<bfly> %v, %u0, %whole, %all : i32, bool\n  if %in {\n    st %y, %t, %w\n    yield\n  }",
        "  st %s, %t, %v\n  barrier\n  %w = ld %s, %t : i32\n  st %y, %t, %w",
    ] {
        assert_eq!(use_in(body), None, "{body}");
    }
}

#[test]
fn data_that_decides_is_found() {
    let test = "  %c = setp<lt> %v, %n : bool";
    finds(
        &format!("{test}\n  if %c {{\n    st %y, %t, %v\n    yield\n  }}"),
        "condition of if from ld",
    );
    finds(
        "  for @l %i: i32 = %zero to %v step %one {\n    continue @l\n  }",
        "range of for from ld",
    );
    finds("  %w = ld %x, %v : i32", "index of ld from ld");
    finds("  st %y, %v, %t", "index of st from ld");
    finds("  %w = div %t, %v : i32", "divisor of div from ld");
    finds(
        "  %w = assume_divisible_by<8> %v : i32",
        "promised value of assume_divisible_by from ld",
    );
    // Through shared memory, and through the result of a loop.
    finds(
        "  st %s, %t, %zero\n  barrier\n  %w = ld %s, %t : i32\n  st %y, %w, %t",
        "index of st from ld",
    );
    finds(
        "  %r = for @l %i: i32 = %zero to %n step %one iter(%a: i32 = %zero) : i32 {\n    continue @l %v\n  }\n  st %y, %r, %t",
        "index of st from ld",
    );
    finds(
        "  %w = atom<add, relaxed, gpu> %y, %zero, %one : i32\n  st %y, %w, %t",
        "index of st from atom",
    );
}

#[test]
fn rows_and_products_do_the_same_for_all_data() {
    let verify = |ir: &KernelIr| Kernel::verify(ir.clone()).unwrap().data_use();
    let problem = RowProblem::new(7, 1001);
    let config = SoftmaxConfig::new(Target::SM_90A, Scalar::Bf16, &problem).unwrap();
    assert_eq!(verify(Softmax::<bf16, bf16>::new(config).unwrap().ir()), None);
    let sm90 = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    let cooperative = GemmConfig { schedule: Schedule::Cooperative, ..sm90 };
    for config in [sm90, cooperative] {
        assert_eq!(verify(Gemm::<bf16>::new(config).unwrap().ir()), None, "{config}");
    }
}
