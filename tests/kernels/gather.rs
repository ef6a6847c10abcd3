//! Gathers and scatters of rows: every numbered row moves, and nothing else is written.

use proptest::prelude::*;
use tilewright::ir::builder::Converted;
use tilewright::ir::{Element, Target, bf16, f8e4m3};
use tilewright::kernels::gather::{GatherSide, RowGather, RowGatherArgs, RowGatherConfig};
use tilewright::kernels::rows::{RowError, RowProblem};
use tilewright::runtime::Device;

use super::matrix::{Real, UNTOUCHED, devices};

#[track_caller]
fn run<T: Real + Converted>(device: &Device, problem: &RowProblem, limit: u32, index: &[i32]) {
    let [x_pitch, y_pitch] = problem.pitches().map(|pitch| pitch as usize);
    let columns = problem.columns as usize;
    for side in [GatherSide::Input, GatherSide::Output] {
        let lens = match side {
            GatherSide::Input => [limit as usize * x_pitch, index.len() * y_pitch],
            GatherSide::Output => [index.len() * x_pitch, limit as usize * y_pitch],
        };
        let x: Vec<T> = (0..lens[0]).map(|at| T::of((at % 251) as f32)).collect();
        let mut expected = vec![T::of(UNTOUCHED); lens[1]];
        let config = RowGatherConfig::new(side, device.target(), T::SCALAR, problem);
        let gather = RowGather::<T>::new(config).unwrap().load(device).unwrap();
        let mut y = device.upload(&expected).unwrap();
        let (x_on, index_on) = (device.upload(&x).unwrap(), device.upload(index).unwrap());
        let args = RowGatherArgs { index: &index_on, limit, x: &x_on, y: &mut y };
        gather.launch(problem, args).unwrap();
        for (row, other) in index.iter().enumerate() {
            let Some(other) = usize::try_from(*other).ok().filter(|i| *i < limit as usize) else {
                continue;
            };
            let [from, to] = if side == GatherSide::Input { [other, row] } else { [row, other] };
            expected[to * y_pitch..][..columns].copy_from_slice(&x[from * x_pitch..][..columns]);
        }
        let numbers = |all: &[T]| all.iter().map(|x| x.to()).collect::<Vec<f64>>();
        let found = y.to_vec().unwrap();
        let name = device.name();
        assert_eq!(numbers(&found), numbers(&expected), "{config:?}, {problem:?} on {name}");
    }
}

#[test]
fn rows_of_a_list() {
    for device in devices() {
        for columns in [1, 8, 100, 1000, 1024, 5000] {
            // A number below 0 and one beyond the last row are left out.
            let index = [4, -1, 0, 2, 7, 3];
            run::<bf16>(&device, &RowProblem::new(6, columns), 5, &index);
            run::<f32>(&device, &RowProblem::new(6, columns), 5, &index);
            run::<f8e4m3>(&device, &RowProblem::new(6, columns), 5, &index);
        }
        run::<f32>(&device, &RowProblem::new(0, 8), 5, &[]);
        run::<f32>(&device, &RowProblem::new(2, 8), 0, &[0, 1]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn random_lists(
        columns in 1u32..700,
        more in [0u64..20, 0u64..20],
        index in Just((-2..12).collect::<Vec<i32>>()).prop_shuffle(),
        count in 1usize..14,
    ) {
        let [input_pitch, output_pitch] = more.map(|more| Some(u64::from(columns) + more));
        let problem = RowProblem { rows: count as u32, columns, input_pitch, output_pitch };
        for device in devices() {
            run::<bf16>(&device, &problem, 10, &index[..count]);
        }
    }
}

#[test]
fn what_no_kernel_takes_is_refused() {
    let device = Device::sim_for(Target::SM_90A).unwrap();
    let problem = RowProblem::new(4, 8);
    let config = RowGatherConfig::new(GatherSide::Input, device.target(), f32::SCALAR, &problem);
    let gather = RowGather::<f32>::new(config).unwrap().load(&device).unwrap();
    let (x, mut y) = (device.zeros::<f32>(32).unwrap(), device.zeros::<f32>(32).unwrap());
    let index = device.zeros::<i32>(3).unwrap();
    let mut launch = |problem: &RowProblem, limit: u32| {
        gather.launch(problem, RowGatherArgs { index: &index, limit, x: &x, y: &mut y })
    };
    let error = launch(&problem, 4).unwrap_err();
    assert_eq!(error.to_string(), "the buffer for the list has 3 elements, but 4 are needed");
    let problem = RowProblem::new(3, 8);
    let error = launch(&problem, 5).unwrap_err();
    assert!(matches!(error, RowError::BufferLength { found: 32, needed: 40, .. }), "{error}");
    launch(&problem, 4).unwrap();
}
