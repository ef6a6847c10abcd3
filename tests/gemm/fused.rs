//! Epilogues that a program wrote: every schedule runs the closure once for each element of D, and
//! for no other.

use crate::support::slow::sample;
use crate::support::{device, ptxas};

use tilewright::ir::types::Scalar;
use tilewright::ir::{Global, GlobalMut, Target, bf16};
use tilewright::kernels::Built;
use tilewright::kernels::gemm::{
    Epilogue, FusedEpilogue, Gemm, GemmArgs, GemmConfig, GemmError, GemmProblem, LoadMethod,
    Schedule, Splits, StoreMethod,
};
use tilewright::runtime::Device;

tilewright::params! {
    /// Scales of rows and of columns, and the number of times that each element of D was seen.
    struct Scales => ScalesAt<'b> {
        rows: Global<f32>,
        columns: Global<bf16>,
        pair: (f32, [i32; 2]),
        seen: GlobalMut<u32>,
    }
}

/// D = (A B) rows[row] columns[column] + pair.0, where `seen` is a matrix for each of the batch, of
/// pitch `pair.1[0]`, and of `pair.1[1]` elements.
fn scaled(
    config: GemmConfig,
) -> Result<Built<Gemm<bf16, bf16, bf16, bf16, FusedEpilogue<Scales>>>, GemmError> {
    Gemm::<bf16>::with_epilogue::<Scales>(config, |_, sum, [row, column, batch], args| {
        let (plus, [pitch, matrix]) = args.pair;
        args.seen.atom().add(batch * matrix + row * pitch + column, 1u32);
        let factor = args.rows.load(row) * args.columns.load(column).cvt::<f32>();
        sum.fma(factor, plus)
    })
}

pub(crate) fn configs() -> Vec<GemmConfig> {
    let sm90 = |tile| GemmConfig::sm90(Scalar::Bf16, tile);
    let swap = GemmConfig { swap: true, store: StoreMethod::Rows, stages: 3, ..sm90([24, 64]) };
    let sm80 = GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [64, 64]);
    vec![
        sm90([128, 64]),
        GemmConfig { store: StoreMethod::Rows, ..sm90([128, 40]) },
        GemmConfig { store: StoreMethod::Direct, ..sm90([64, 64]) },
        // Instructions have more rows than the tile.
        GemmConfig { stages: 4, ..sm90([32, 64]) },
        GemmConfig { store: StoreMethod::Overlapped, stages: 2, ..sm90([128, 256]) },
        GemmConfig { schedule: Schedule::Pingpong, ..sm90([64, 80]) },
        GemmConfig { cluster: [2, 2], ..sm90([128, 64]) },
        GemmConfig { splits: Splits::SplitK(2), ..sm90([128, 64]) },
        GemmConfig { splits: Splits::StreamK, ..sm90([64, 64]) },
        GemmConfig { load: LoadMethod::Repack, ..sm90([64, 64]) },
        GemmConfig { registers: swap.usual_registers(), ..swap },
        GemmConfig { stages: 2, ..sm80 },
        GemmConfig { alignment: 2, ..sm80 },
    ]
}

fn check(device: &Device, config: GemmConfig, [m, n, k]: [u32; 3]) {
    assert_eq!(config.check(), Ok(()), "{config}");
    let (batch, [rows, columns, depth]) = (2, [m, n, k].map(|size| size as usize));
    let small = |i: usize, step: usize| bf16::from_f32((i * step % 5) as f32 - 2.0);
    let of = |len: usize, step: usize| (0..len).map(|i| small(i, step)).collect::<Vec<_>>();
    let (a, b) = (of(batch * rows * depth, 7), of(batch * columns * depth, 11));
    let row_scale = |row: usize| [1.0, 2.0, -0.5][row % 3];
    let column_scale = |column: usize| [0.25, 4.0][column % 2];
    let row_scales: Vec<f32> = (0..rows).map(row_scale).collect();
    let column_scales: Vec<bf16> =
        (0..columns).map(|column| bf16::from_f32(column_scale(column))).collect();
    let len = batch * rows * columns;
    let gemm = scaled(config).unwrap();
    let (a_on, b_on) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let (row_scales, column_scales) =
        (device.upload(&row_scales).unwrap(), device.upload(&column_scales).unwrap());
    let mut d = device.zeros::<bf16>(len).unwrap();
    // An element before the first and one behind the last are seen by none.
    let mut seen = device.zeros::<u32>(len + 1).unwrap();
    let problem = GemmProblem { batch: batch as u32, ..GemmProblem::new(m, n, k) };
    let function = gemm.load(device).unwrap();
    // The second launch finds the workspace as the first one left it.
    for _ in 0..2 {
        let scales = Scales {
            rows: &row_scales,
            columns: &column_scales,
            pair: (3.0, [n as i32, (m * n) as i32]),
            seen: &mut seen,
        };
        function.launch(&problem, (GemmArgs::new(&a_on, &b_on, &mut d), scales)).unwrap();
    }
    let (d, seen) = (d.to_vec().unwrap(), seen.to_vec().unwrap());
    assert_eq!(seen[len], 0, "{config}");
    for at in 0..len {
        let (matrix, row, column) = (at / (rows * columns), at / columns % rows, at % columns);
        let (a, b) = (
            &a[(matrix * rows + row) * depth..][..depth],
            &b[(matrix * columns + column) * depth..],
        );
        let sum: f32 = a.iter().zip(b).map(|(a, b)| a.to_f32() * b.to_f32()).sum();
        let expected = bf16::from_f32(sum * row_scale(row) * column_scale(column) + 3.0);
        assert_eq!((d[at], seen[at]), (expected, 2), "{config}: D[{row}, {column}] of {matrix}");
    }
}

#[test]
fn every_schedule_runs_the_closure_once_for_each_element() {
    let device = device::gpu().unwrap_or_else(|| Device::sim().unwrap());
    for config in configs() {
        for sizes in sample(3, [[69, 72, 200], [133, 72, 264], [20, 264, 264]]) {
            check(&device, config, sizes);
        }
    }
    let simt = GemmConfig::simt(Target::SM_80, Scalar::F32);
    let gemm = Gemm::<f32>::with_epilogue::<f32>(simt, |_, sum, [row, _, _], factor| {
        sum * factor + row.cvt::<f32>()
    });
    let (a, mut d) = (device.upload(&[1.0f32; 9]).unwrap(), device.zeros::<f32>(9).unwrap());
    let function = gemm.unwrap().load(&device).unwrap();
    let args = GemmArgs::new(&a, &a, &mut d);
    let time = function.time(&GemmProblem::new(3, 3, 3), (args, 2.0)).unwrap();
    assert!(!time.elapsed.is_zero());
    assert_eq!(d.to_vec().unwrap(), [6.0, 6.0, 6.0, 7.0, 7.0, 7.0, 8.0, 8.0, 8.0]);
}

/// Every schedule finds the largest absolute value of what the closure returns for elements of D,
/// also of pairs of columns.
#[test]
fn every_schedule_finds_the_largest_value() {
    let device = device::gpu().unwrap_or_else(|| Device::sim().unwrap());
    let simt = GemmConfig::simt(Target::SM_80, Scalar::Bf16);
    let pairs = GemmConfig { pairs: true, ..GemmConfig::sm90(Scalar::Bf16, [128, 128]) };
    let others = sample(2, [pairs, simt]);
    for config in sample(4, configs()).chain(others) {
        assert_eq!(config.check(), Ok(()), "{config}");
        let ([m, n, k], batch) = ([69usize, 80, 200], 2);
        let small = |i: usize, step: usize| bf16::from_f32((i * step % 5) as f32 - 2.0);
        let of = |len: usize, step| (0..len).map(|i| small(i, step)).collect::<Vec<_>>();
        let (a, b) = (of(batch * m * k, 7), of(batch * n * k, 11));
        // Elements behind the last row and column would be larger. The last one is.
        let gemm =
            Gemm::<bf16>::with_amax::<f32>(config, |_, [x, y], [row, column, batch], factor| {
                let place = row + column + batch;
                (x + y - (place * place).cvt::<f32>()) * factor
            });
        let function = gemm.unwrap().load(&device).unwrap();
        let (a_on, b_on) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let sums = if config.pairs { 2 } else { 1 };
        let columns = n / sums;
        let mut d = device.zeros::<bf16>(batch * m * columns).unwrap();
        let mut amax = device.upload(&[0.5f32, -1.0]).unwrap();
        let problem = GemmProblem::new(m as u32, n as u32, k as u32);
        let problem = GemmProblem { batch: batch as u32, ..problem };
        // The second launch leaves what is larger.
        let (mut expected, mut found) = (0.5f32, [0.0; 2]);
        for (launch, factor) in [(0, 3.0), (1, 0.0)] {
            let args = GemmArgs::new(&a_on, &b_on, &mut d);
            function.launch(&problem, (args, (factor, &mut amax))).unwrap();
            let all = amax.to_vec().unwrap();
            assert_eq!(all[1], -1.0, "{config}");
            found[launch] = all[0];
        }
        for (matrix, row) in (0..batch).flat_map(|matrix| (0..m).map(move |row| (matrix, row))) {
            let sum = |column: usize| -> f32 {
                let a = &a[(matrix * m + row) * k..][..k];
                let b = &b[(matrix * n + column) * k..][..k];
                a.iter().zip(b).map(|(a, b)| a.to_f32() * b.to_f32()).sum()
            };
            for column in 0..columns {
                let [x, y] = [0, sums - 1].map(|other| sum(column * sums + other));
                let place = (row + column + matrix) as f32;
                expected = expected.max(((x + y - place * place) * 3.0).abs());
            }
        }
        assert_eq!(found, [expected; 2], "{config}");
        let Some(ptxas) = ptxas::find() else { continue };
        let gemm = Gemm::<bf16>::with_amax::<f32>(config, |_, [x, _], _, factor| x * factor);
        let (ptx, target) = (gemm.unwrap().ptx(), config.target.to_string());
        let report = ptxas.report(ptx.text(), &target).unwrap();
        assert!(!report.contains("(C7") && report.contains("0 bytes spill stores"), "{report}");
    }
    let relu = Epilogue { alpha: true, ..Epilogue::default() };
    let two = GemmConfig { epilogue: relu, ..GemmConfig::sm90(Scalar::Bf16, [64, 64]) };
    let error = Gemm::<bf16>::with_amax::<()>(two, |_, [x, _], _, ()| x);
    assert_eq!(error.map(|_| ()), Err(GemmError::TwoEpilogues));
}

/// A kernel has the operations of the closure and, but for them, those of the kernel without an
/// epilogue.
#[test]
fn kernels_assemble_without_spills() {
    for config in configs() {
        let (fused, plain) = (scaled(config).unwrap(), Gemm::<bf16>::new(config).unwrap());
        let of = |text: &str, what: &str| text.matches(what).count();
        let (fused_text, plain_text) =
            (fused.ptx().text().to_owned(), plain.ptx().text().to_owned());
        for products in ["wgmma.mma_async", "mma.sync"] {
            assert_eq!(of(&fused_text, products), of(&plain_text, products), "{config}");
        }
        assert!(
            fused_text.contains("_fused(") && of(&fused_text, "atom.") > of(&plain_text, "atom.")
        );
        let Some(ptxas) = ptxas::find() else { continue };
        let report = ptxas.report(&fused_text, &config.target.to_string()).unwrap();
        assert!(!report.contains("(C7") && report.contains("0 bytes spill stores"), "{report}");
    }
}

#[test]
fn mistakes_are_named() {
    let config = GemmConfig::sm90(Scalar::Bf16, [64, 64]);
    let relu = Epilogue { alpha: true, ..Epilogue::default() };
    let error = scaled(GemmConfig { epilogue: relu, ..config }).unwrap_err();
    assert_eq!(error, GemmError::TwoEpilogues);
    let gemm = Gemm::<bf16>::with_epilogue::<f32>(config, |_, sum, _, factor| sum * factor);
    let device = Device::sim().unwrap();
    let function = gemm.unwrap().load(&device).unwrap();
    let a = device.zeros::<bf16>(64).unwrap();
    let (c, mut d) = (device.zeros::<bf16>(64).unwrap(), device.zeros::<bf16>(64).unwrap());
    let problem = GemmProblem::new(8, 8, 8);
    let error = function.launch(&problem, (GemmArgs::new(&a, &a, &mut d).beta(1.0, &c), 1.0));
    assert!(matches!(error, Err(GemmError::EpilogueOperand { operand: "C", needed: false })));
    let error = function.launch(&GemmProblem::new(9, 8, 8), (GemmArgs::new(&a, &a, &mut d), 1.0));
    assert!(matches!(error, Err(GemmError::BufferLength { operand: "A", .. })), "{error:?}");
}
