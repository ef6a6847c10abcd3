//! Tunes on a GPU, reads the choice back from the store, and measures it beside cuBLAS.
//!
//! They run with `TILEWRIGHT_GPU=1`, because the simulator has no times.

use crate::support::device;

use tilewright::ir::bf16;
use tilewright::ir::types::Scalar;
use tilewright::kernels::gemm::{
    Activation, Bias, Epilogue, Gemm, GemmArgs, GemmConfig, GemmProblem, Machine, MatrixStrides,
};
use tilewright::runtime::Device;
use tilewright_tune::{
    Effort, GemmBench, GemmSpace, KernelSource, Regime, SearchError, TuningStore, tune,
};

const SMALL: Effort = Effort { candidates: 6, rounds: 1, finalists: 2, final_rounds: 2 };

/// A store of its own, which goes away.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("tilewright-tuner-{}-{name}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_simulator_has_no_times() {
    let device = Device::sim().unwrap();
    let space = GemmSpace::new(device.target(), Scalar::Bf16);
    let error = tune(&device, &space, &GemmProblem::new(64, 64, 64)).unwrap_err();
    assert!(matches!(error, SearchError::Unsupported { .. }), "{error}");
}

/// Plain, with an epilogue, in a batch, and with lines that are apart.
#[test]
fn gpu_problems_of_every_kind_are_tuned() {
    let Some(device) = device::wanted_gpu() else { return };
    let plain = GemmSpace::new(device.target(), Scalar::Bf16);
    let epilogue = Epilogue {
        alpha: true,
        beta: true,
        bias: Some(Bias::Column),
        activation: Some(Activation::Gelu),
    };
    let fused = GemmSpace { epilogue, ..plain };
    let wide = GemmSpace { output: Scalar::F32, ..plain };
    let small = GemmProblem::new(256, 320, 512);
    let pitch = |leading| MatrixStrides { leading: Some(leading), batch: None };
    let apart = GemmProblem { a: pitch(520), b: pitch(528), d: pitch(328), ..small };
    let folder = Folder::new("kinds");
    let store = TuningStore::in_folder(&folder.0);
    let mut bench = GemmBench::new(&device).unwrap();
    for (space, problem) in [
        (plain, small),
        (fused, small),
        (plain, GemmProblem { batch: 3, ..small }),
        (plain, apart),
        (fused, apart),
    ] {
        let what = format!("{space:?} {problem:?}");
        let product = bench.product(&space, &problem).unwrap();
        let mut tuned = || bench.tuner.tune(&product, &store, SMALL, Regime::Latency);
        let first = tuned().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(first.config.epilogue, space.epilogue, "{what}");
        assert!(first.seconds > 0.0 && first.measured > 0 && !first.is_from_store, "{what}");
        assert_eq!(first.rejected, [], "{what}");
        let again = tuned().unwrap();
        assert!(again.is_from_store && again.config == first.config, "{what}");
    }
    let mut bench = GemmBench::new(&device).unwrap();
    let product = bench.product(&wide, &small).unwrap();
    bench.tuner.tune(&product, &store, SMALL, Regime::Burst).unwrap();
}

/// The chosen kernel beside NVIDIA's, where these are found.
#[test]
fn gpu_kernels_are_compared() {
    let Some(device) = device::wanted_gpu() else { return };
    let space = GemmSpace::new(device.target(), Scalar::Bf16);
    let problem = GemmProblem::new(512, 256, 256);
    let mut bench = GemmBench::new(&device).unwrap();
    let ours = GemmConfig::sm90(Scalar::Bf16, [128, 128]).best(&problem, &Machine::H200).unwrap();
    let product = bench.product(&space, &problem).unwrap();
    let compared = bench.compare(&product, Regime::Steady, &[ours], 2, &|| ());
    let (comparison, rejected) = compared.unwrap();
    assert_eq!(rejected, []);
    let makers: Vec<KernelSource> = comparison.entries.iter().map(|entry| entry.of).collect();
    assert!(makers.contains(&KernelSource::Tilewright));
    assert_eq!(makers.contains(&KernelSource::Cublas), bench.cublas_version().is_ok());
    assert!(comparison.entries.iter().all(|entry| entry.seconds.len() == 2));

    // What was compared computes what it should.
    let gemm = Gemm::<bf16>::new(ours).unwrap().load(&device).unwrap();
    let a = device.upload(&vec![bf16::from_f32(0.5); 512 * 256]).unwrap();
    let b = device.upload(&vec![bf16::from_f32(2.0); 256 * 256]).unwrap();
    let mut d = device.zeros::<bf16>(512 * 256).unwrap();
    gemm.launch(&problem, GemmArgs::new(&a, &b, &mut d)).unwrap();
    assert!(d.to_vec().unwrap().iter().all(|d| d.to_f32() == 256.0));
}
