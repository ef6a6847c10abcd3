//! The predictions of the GEMM model, for the configurations that the tuner tries.

use tilewright::ir::Target;
use tilewright::ir::types::Scalar;
use tilewright::kernels::gemm::{GemmConfig, GemmModel, GemmProblem, Machine, Prediction, Regime};
use tilewright_tune::GemmSpace;

fn all() -> Vec<(GemmConfig, GemmProblem)> {
    let sizes = [[512; 3], [4096; 3], [16384; 3], [16, 4096, 14336], [1, 1, 1], [300, 8, 70000]];
    let spaces = [Scalar::Bf16, Scalar::Tf32].map(|input| GemmSpace::new(Target::SM_90A, input));
    let mut all = Vec::new();
    for [m, n, k] in sizes {
        let problem = GemmProblem::new(m, n, k);
        for space in spaces {
            all.extend(
                space.configs(&problem, &Machine::H200).into_iter().map(|config| (config, problem)),
            );
        }
    }
    all
}

/// Every prediction is a positive time, and never faster than the GPU's peak rates allow.
#[test]
fn no_prediction_is_faster_than_the_device() {
    let model = GemmModel::H200;
    for (config, problem) in all() {
        for regime in Regime::ALL {
            let Prediction { seconds, memory_bytes, .. } = model.predict(&config, &problem, regime);
            assert!(seconds.is_finite() && seconds > 0.0, "{config} {problem:?}");
            // An H200 multiplies 4096 bytes of A per cycle and SM.
            let per_cycle = 4096.0 / f64::from(config.a.size_bytes());
            let rate = 2.0 * per_cycle * 132.0 * model.machine.clock_hz;
            assert!(seconds >= problem.flops() as f64 / rate, "{config} {problem:?}");
            let size = u64::from(config.a.size_bytes());
            let [m, n, k] = [problem.m, problem.n, problem.k].map(u64::from);
            let once = (m * k + n * k) * size + m * n * u64::from(config.d.size_bytes());
            assert!(memory_bytes >= 0.999 * once as f64, "{config} {problem:?}");
        }
    }
}

/// Batches take proportionally longer, steady work is not faster than a burst, and slower
/// memory is not faster.
#[test]
fn predictions_follow_the_work() {
    let model = GemmModel::H200;
    let slow = Machine { memory_bytes_per_s: 1e12, ..Machine::H200 };
    for (config, problem) in all() {
        let seconds =
            |model: GemmModel, problem, regime| model.predict(&config, &problem, regime).seconds;
        let burst = seconds(model, problem, Regime::Burst);
        assert!(seconds(model, problem, Regime::Steady) >= burst);
        assert!(seconds(GemmModel::of(slow), problem, Regime::Burst) >= burst);
        let many = GemmProblem { batch: 16, ..problem };
        let of_many = seconds(model, many, Regime::Burst);
        // Many problems can fill all SMs when one cannot.
        let most = 16.5 * model.parameters.unaligned;
        assert!(of_many >= burst && of_many <= most * burst, "{config} {problem:?}");
    }
}
