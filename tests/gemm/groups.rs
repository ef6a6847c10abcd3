//! Products of groups of rows: each row of A times the matrix B of its group. Rows of no group
//! stay.

use crate::support::device;
use crate::support::ptxas;
use crate::support::rng::Rng;
use crate::support::slow::sample;

use tilewright::arch::Major;
use tilewright::ir::types::Scalar;
use tilewright::ir::{GlobalMut, Target, bf16};
use tilewright::kernels::gemm::{
    Activation, BatchMode, Bias, Epilogue, Gemm, GemmArgs, GemmConfig, GemmError, GemmProblem,
    GemmWorkspace, GroupRows, LoadMethod, Machine, MatrixStrides, Schedule, Splits, StoreMethod,
};
use tilewright::runtime::Device;
use tilewright::sim::{Options, Order};
use tilewright::tensor::pipeline::Raster;

fn sm90(tile: [u32; 2]) -> GemmConfig {
    let config = GemmConfig { batch: BatchMode::Grouped, ..GemmConfig::sm90(Scalar::Bf16, tile) };
    GemmConfig { stages: 3, raster: Raster::Swizzle { width: 2 }, ..config }
}

/// Each schedule and each way to store.
fn configs() -> Vec<GemmConfig> {
    vec![
        sm90([128, 64]),
        GemmConfig { store: StoreMethod::Rows, ..sm90([256, 40]) },
        GemmConfig { store: StoreMethod::Rows, raster: Raster::AlongM, ..sm90([16, 32]) },
        GemmConfig { store: StoreMethod::Overlapped, stages: 2, ..sm90([128, 256]) },
        GemmConfig { schedule: Schedule::Pingpong, ..sm90([64, 64]) },
        GemmConfig { schedule: Schedule::Pingpong, store: StoreMethod::Rows, ..sm90([128, 80]) },
        GemmConfig { major_b: Major::Mn, ..sm90([64, 128]) },
    ]
}

/// Rows of groups, as a launch has them.
#[derive(Clone, Debug)]
enum Rows {
    /// The first rows, and the end of the last group.
    Starts(Vec<i32>),
    /// The rows of each group, of so much room.
    Counts(Vec<i32>, usize),
}

impl Rows {
    /// The group of each of `m` rows.
    fn groups(&self, m: usize) -> Vec<Option<usize>> {
        let mut all = vec![None; m];
        let mut fill = |group: usize, start: i32, end: i32| {
            all[start as usize..end as usize].fill(Some(group));
        };
        match self {
            Rows::Starts(starts) => {
                starts.windows(2).enumerate().for_each(|(g, pair)| fill(g, pair[0], pair[1]));
            }
            Rows::Counts(counts, room) => counts.iter().enumerate().for_each(|(g, count)| {
                let start = (g * room) as i32;
                fill(g, start, start + count);
            }),
        }
        all
    }

    fn count(&self) -> usize {
        match self {
            Rows::Starts(starts) => starts.len() - 1,
            Rows::Counts(counts, _) => counts.len(),
        }
    }
}

/// A product of groups, with small integers in all matrices, whose sums `f32` holds.
struct Case {
    rows: Rows,
    problem: GemmProblem,
    a: Vec<bf16>,
    b: Vec<bf16>,
}

impl Case {
    fn new(rows: Rows, [m, n, k]: [usize; 3]) -> Case {
        let mut rng = Rng::new(5);
        let mut of = |len: usize| -> Vec<bf16> {
            (0..len).map(|_| bf16::from_f32(rng.below(5) as f32 - 2.0)).collect()
        };
        let groups = rows.count();
        let sizes = [m, n, k].map(|size| size as u32);
        let problem = GemmProblem::grouped(sizes, groups as u32);
        Case { rows, problem, a: of(m * k), b: of(groups * n * k) }
    }

    /// An element of the product of group `group`.
    fn sum(&self, major: Major, group: usize, row: usize, column: usize) -> f64 {
        let [n, k] = [self.problem.n, self.problem.k].map(|size| size as usize);
        let b = |i: usize| match major {
            Major::K => self.b[(group * n + column) * k + i],
            Major::Mn => self.b[(group * k + i) * n + column],
        };
        (0..k).map(|i| f64::from(self.a[row * k + i].to_f32()) * f64::from(b(i).to_f32())).sum()
    }

    /// Compares D with `expected(group, row, column)` where a group has the row.
    fn compare(
        &self,
        (config, d): (GemmConfig, &[bf16]),
        columns: usize,
        expected: impl Fn(usize, usize, usize) -> f64,
    ) {
        for (row, group) in self.rows.groups(self.problem.m as usize).into_iter().enumerate() {
            for column in 0..columns {
                let x = group.map_or(UNTOUCHED.into(), |group| expected(group, row, column));
                let found = f64::from(d[row * columns + column].to_f32());
                let close = (found - x).abs() <= x.abs().max(1.0) * 0.006;
                assert!(close, "{config} {:?}: D[{row}, {column}] is {found}, not {x}", self.rows);
            }
        }
    }

    fn check(&self, device: &Device, config: GemmConfig) {
        assert_eq!(config.check(), Ok(()), "{config}");
        let GemmProblem { m, n, .. } = self.problem;
        let (a, b) = (device.upload(&self.a).unwrap(), device.upload(&self.b).unwrap());
        let len = (m * n) as usize;
        let mut d = device.upload(&vec![bf16::from_f32(UNTOUCHED); len]).unwrap();
        let list = match &self.rows {
            Rows::Starts(list) | Rows::Counts(list, _) => device.upload(list).unwrap(),
        };
        let function = Gemm::<bf16>::new(config).unwrap().load(device).unwrap();
        let args = GemmArgs::new(&a, &b, &mut d).groups(self.given(&list));
        function.launch(&self.problem, args).unwrap();
        self.compare((config, &d.to_vec().unwrap()), n as usize, |group, row, column| {
            self.sum(config.major_b, group, row, column)
        });
    }

    fn given<'h>(&self, list: &'h tilewright::runtime::Buffer<i32>) -> GroupRows<'h> {
        match self.rows {
            Rows::Starts(_) => GroupRows::Starts(list),
            Rows::Counts(..) => GroupRows::Counts(list),
        }
    }
}

/// The elements of D before a launch.
const UNTOUCHED: f32 = -77.0;

/// Groups of these lengths from row `first` on.
fn starts(first: i32, lengths: &[i32]) -> Rows {
    let ends = lengths.iter().scan(first, |end, len| {
        *end += len;
        Some(*end)
    });
    Rows::Starts(std::iter::once(first).chain(ends).collect())
}

fn devices() -> Vec<Device> {
    match device::gpu() {
        Some(device) => vec![device],
        None => [Order::Random { seed: 1 }, Order::RoundRobin]
            .map(|order| Device::sim_with(Options::default().order(order)))
            .into(),
    }
}

#[test]
fn every_group_has_its_own_matrix() {
    for device in sample(2, devices()) {
        for config in configs() {
            // Ragged ends, groups without rows at the start, inside and at the end, rows of no
            // group.
            let k = if config.store == StoreMethod::Overlapped { 200 } else { 72 };
            Case::new(starts(3, &[0, 70, 1, 0, 0, 129, 40, 0]), [250, 104, k])
                .check(&device, config);
        }
        for config in sample(4, configs()) {
            // One group; all rows in the last one; none at all.
            Case::new(starts(0, &[150]), [150, 72, 200]).check(&device, config);
            Case::new(starts(0, &[0, 0, 140]), [140, 72, 200]).check(&device, config);
            Case::new(starts(5, &[0, 0]), [10, 72, 200]).check(&device, config);
        }
    }
}

#[test]
fn groups_have_room_for_more_rows() {
    for device in sample(2, devices()) {
        for config in sample(2, configs()) {
            let counts = Rows::Counts(vec![70, 0, 1, 64], 70);
            Case::new(counts, [280, 136, 200]).check(&device, config);
        }
    }
}

#[test]
fn groups_of_random_lengths() {
    let device = device::gpu().unwrap_or_else(|| Device::sim().unwrap());
    let (config, wide) = (sm90([64, 64]), sm90([128, 128]));
    for seed in sample(3, 0..6) {
        let mut rng = Rng::new(seed);
        let lengths: Vec<i32> =
            (0..9).map(|_| rng.below(2) as i32 * rng.below(90) as i32).collect();
        let m = lengths.iter().sum::<i32>().max(1) as usize;
        let case = Case::new(starts(0, &lengths), [m, 72, 72]);
        case.check(&device, config);
        case.check(&device, wide);
    }
}

tilewright::params! {
    /// The number of times that each element of D was seen.
    struct Seen => SeenAt<'b> {
        count: GlobalMut<u32>,
        pitch: i32,
    }
}

/// The epilogue runs for rows of groups alone: also one of pairs of columns, and that of a
/// configuration.
#[test]
fn epilogues_see_rows_of_groups_alone() {
    let device = device::gpu().unwrap_or_else(|| Device::sim().unwrap());
    let case = Case::new(starts(2, &[70, 0, 13]), [90, 144, 200]);
    let GemmProblem { m, n, .. } = case.problem;
    let (a, b) = (device.upload(&case.a).unwrap(), device.upload(&case.b).unwrap());
    let Rows::Starts(list) = &case.rows else { panic!("starts") };
    let list = device.upload(list).unwrap();
    let untouched =
        |len: u32| device.upload(&vec![bf16::from_f32(UNTOUCHED); len as usize]).unwrap();
    let overlapped = GemmConfig { store: StoreMethod::Overlapped, stages: 2, ..sm90([128, 256]) };
    let pingpong = GemmConfig { schedule: Schedule::Pingpong, ..sm90([64, 128]) };
    for config in [sm90([128, 128]), overlapped, pingpong] {
        let gemm =
            Gemm::<bf16>::with_pairs::<Seen>(config, |_, [x, y], [row, column, group], seen| {
                seen.count.atom().add(row * seen.pitch + column, 1u32);
                x - y * 2.0 + (row + column + group * 3).cvt::<f32>()
            });
        let mut d = untouched(m * n / 2);
        let mut count = device.zeros::<u32>((m * n / 2) as usize).unwrap();
        let seen = Seen { count: &mut count, pitch: (n / 2) as i32 };
        let args = GemmArgs::new(&a, &b, &mut d).groups(GroupRows::Starts(&list));
        gemm.unwrap().load(&device).unwrap().launch(&case.problem, (args, seen)).unwrap();
        case.compare((config, &d.to_vec().unwrap()), n as usize / 2, |group, row, column| {
            let sum = |column| case.sum(Major::K, group, row, column);
            sum(2 * column) - 2.0 * sum(2 * column + 1) + (row + column + group * 3) as f64
        });
        let groups = case.rows.groups(m as usize);
        for (at, count) in count.to_vec().unwrap().into_iter().enumerate() {
            let row = at / (n as usize / 2);
            assert_eq!(count, u32::from(groups[row].is_some()), "{config}: row {row}");
        }
    }
    let epilogue = Epilogue {
        beta: true,
        bias: Some(Bias::Column),
        activation: Some(Activation::Relu),
        ..Epilogue::default()
    };
    let config = GemmConfig { epilogue, ..sm90([128, 64]) };
    let bias: Vec<bf16> = (0..n).map(|column| bf16::from_f32(column as f32)).collect();
    let c: Vec<bf16> = (0..m * n).map(|at| bf16::from_f32((at % 9) as f32)).collect();
    let (bias_on, c_on) = (device.upload(&bias).unwrap(), device.upload(&c).unwrap());
    let mut d = untouched(m * n);
    let args = GemmArgs::new(&a, &b, &mut d).groups(GroupRows::Starts(&list));
    let args = args.beta(2.0, &c_on).bias(&bias_on);
    Gemm::<bf16>::new(config).unwrap().load(&device).unwrap().launch(&case.problem, args).unwrap();
    case.compare((config, &d.to_vec().unwrap()), n as usize, |group, row, column| {
        let c = f64::from(c[row * n as usize + column].to_f32());
        let sum = case.sum(Major::K, group, row, column) + 2.0 * c;
        (sum + f64::from(bias[column].to_f32())).max(0.0)
    });
}

/// The plan has tiles for the rows of a group on average, and a kernel that `ptxas` takes as it is.
#[test]
fn tiles_follow_the_rows_of_a_group() {
    let wanted = sm90([128, 128]);
    let best = |rows, groups| {
        let problem = GemmProblem::grouped([rows, 4096, 4096], groups);
        for config in wanted.defaults(&problem, &Machine::H200) {
            assert!(config.batch == BatchMode::Grouped, "{config}");
            assert_eq!(config.check(), Ok(()), "{config}");
        }
        wanted.best(&problem, &Machine::H200).unwrap()
    };
    assert!(best(16 * 128, 128).tile[0] <= 64);
    // Each group reads a B of its own.
    let problem = GemmProblem::grouped([16 * 128, 4096, 4096], 128);
    let why = wanted.explain(&problem, &Machine::H200).unwrap();
    assert!(
        why.prediction.limit() == "memory"
            && why.prediction.memory_bytes > 128.0 * 2.0 * 4096.0 * 4096.0
    );
    assert!(best(8 * 2048, 8).tile[0] >= 128);
    let all = [best(16 * 128, 128), best(64 * 300, 64), best(8 * 2048, 8)];
    let Some(ptxas) = ptxas::find() else { return };
    for config in configs().into_iter().chain(all) {
        let gemm = Gemm::<bf16>::new(config).unwrap();
        let report = ptxas.report(gemm.ptx().text(), &config.target.to_string()).unwrap();
        assert!(!report.contains("(C7") && report.contains("0 bytes spill stores"), "{report}");
    }
}

/// Blocks draw their tiles from a counter that is 0 again after each launch, whatever the groups
/// are: in the workspace of the function, or in one of the caller. No launch has a data race with
/// the one before.
#[test]
fn launches_leave_the_counter_of_tiles() {
    let device = Device::sim_with(Options::default().race(true));
    let overlapped = GemmConfig { store: StoreMethod::Overlapped, stages: 2, ..sm90([128, 256]) };
    for config in [sm90([64, 64]), overlapped] {
        let function = Gemm::<bf16>::new(config).unwrap().load(&device).unwrap().with_sms(3);
        let mut given: Option<GemmWorkspace> = None;
        // More tiles than blocks, fewer tiles, none.
        for lengths in [[0, 130, 1], [70, 60, 200], [3, 0, 0], [0, 0, 0], [129, 64, 65]] {
            let m = lengths.iter().sum::<i32>().max(1) as usize;
            let case = Case::new(starts(0, &lengths), [m, 264, 200]);
            let (a, b) = (device.upload(&case.a).unwrap(), device.upload(&case.b).unwrap());
            let mut d = device.upload(&vec![bf16::from_f32(UNTOUCHED); m * 264]).unwrap();
            let Rows::Starts(list) = &case.rows else { panic!("starts") };
            let list = device.upload(list).unwrap();
            let args = GemmArgs::new(&a, &b, &mut d).groups(GroupRows::Starts(&list));
            let args = match &mut given {
                Some(workspace) => args.workspace(workspace),
                None => args,
            };
            function.launch(&case.problem, args).unwrap();
            case.compare((config, &d.to_vec().unwrap()), 264, |group, row, column| {
                case.sum(config.major_b, group, row, column)
            });
            if lengths == [70, 60, 200] {
                let workspace = function.workspace(&case.problem).unwrap();
                // The counter of tiles, and that of blocks.
                assert_eq!(workspace.bytes(), 8);
                given = Some(workspace);
            }
        }
    }
}

/// A launch that the simulator stops leaves no tile that is drawn, and no part that has arrived:
/// the next one has all tiles.
#[test]
fn a_launch_after_a_fault_has_all_tiles() {
    let device = Device::sim().unwrap();
    let case = Case::new(starts(0, &[70, 130]), [200, 72, 264]);
    let (a, b) = (device.upload(&case.a).unwrap(), device.upload(&case.b).unwrap());
    let Rows::Starts(list) = &case.rows else { panic!("starts") };
    let list = device.upload(list).unwrap();
    let grouped = sm90([64, 64]);
    let split = GemmConfig { batch: BatchMode::Uniform, splits: Splits::SplitK(2), ..grouped };
    let threads = GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [64, 64]);
    let threads = GemmConfig { splits: Splits::StreamK, ..threads };
    for config in [grouped, split, threads] {
        let gemm = Gemm::<bf16>::with_epilogue::<Seen>(config, |_, x, [row, column, _], seen| {
            seen.count.store(row * seen.pitch + column, 1u32);
            x
        });
        let function = gemm.unwrap().load(&device).unwrap();
        let problem = match config.batch == BatchMode::Grouped {
            true => case.problem,
            false => GemmProblem::new(200, 72, 264),
        };
        let mut given = function.workspace(&problem).unwrap();
        for own in [true, false] {
            let mut launch = |len: usize| {
                let mut d = device.upload(&vec![bf16::from_f32(f32::NAN); 200 * 72]).unwrap();
                let mut count = device.zeros::<u32>(len).unwrap();
                let args = GemmArgs::new(&a, &b, &mut d);
                let args = if own { args } else { args.workspace(&mut given) };
                let args = if config.batch == BatchMode::Grouped {
                    args.groups(GroupRows::Starts(&list))
                } else {
                    args
                };
                let seen = Seen { count: &mut count, pitch: 72 };
                function.launch(&problem, (args, seen)).map(|()| d.to_vec().unwrap())
            };
            let expected = launch(200 * 72).unwrap();
            assert!(expected.iter().all(|x| !x.to_f32().is_nan()), "{config}");
            // Behind some tiles, stores are out of bounds.
            for len in [1, 80 * 72] {
                assert!(matches!(launch(len), Err(GemmError::Runtime(_))), "{config}");
                assert!(launch(200 * 72).unwrap() == expected, "{config}");
            }
        }
    }
}

/// A warp group whose rows are all behind the end of a group multiplies and writes nothing.
#[test]
fn warp_groups_without_rows_are_idle() {
    let device = Device::sim().unwrap();
    let zeros = |len: usize| device.zeros::<bf16>(len).unwrap();
    let overlapped = GemmConfig { store: StoreMethod::Overlapped, stages: 2, ..sm90([128, 256]) };
    for config in [sm90([128, 64]), overlapped] {
        let (n, k) = (config.tile[1] as usize, 512);
        let function = Gemm::<bf16>::new(config).unwrap().load(&device).unwrap();
        let (a, b, mut d) = (zeros(256 * k), zeros(2 * n * k), zeros(256 * n));
        let mut ops = |starts: [i32; 3]| {
            let problem = GemmProblem::grouped([256, n as u32, k as u32], 2);
            let starts = device.upload(&starts).unwrap();
            let args = GemmArgs::new(&a, &b, &mut d).groups(GroupRows::Starts(&starts));
            let timing = function.prepare(&problem, args).unwrap().time().unwrap();
            timing.thread_ops.unwrap()
        };
        let (half, more) = (ops([0, 64, 128]), ops([0, 65, 130]));
        assert!(half * 4 < more * 3, "{config}: {half} and {more}");
    }
}

#[test]
fn mistakes_are_named() {
    let config = sm90([64, 64]);
    assert_eq!(config.to_string().parse(), Ok(config));
    let field = |config: GemmConfig| match config.check() {
        Err(GemmError::Field { field, .. }) => field,
        other => panic!("{config}: {other:?}"),
    };
    assert_eq!(field(GemmConfig { cluster: [2, 1], ..config }), "batch");
    assert_eq!(field(GemmConfig { splits: Splits::SplitK(2), ..config }), "batch");
    assert_eq!(field(GemmConfig { load: LoadMethod::Repack, ..config }), "batch");
    assert_eq!(field(GemmConfig { store: StoreMethod::Direct, ..config }), "batch");
    // A group may start at a row at which no box of such an A may.
    let tall = GemmConfig { major_a: Major::Mn, ..config };
    assert_eq!(field(tall), "batch");
    let none = tall.best(&GemmProblem::grouped([10, 64, 64], 3), &Machine::H200);
    assert!(none.unwrap_err().to_string().contains("contiguous along K"));
    let sm80 = GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [64, 64]);
    let sm80 = GemmConfig { batch: BatchMode::Grouped, ..sm80 };
    assert_eq!(field(sm80), "batch");
    let problem = GemmProblem::grouped([10, 64, 64], 3);
    assert!(matches!(sm80.best(&problem, &Machine::H200), Err(GemmError::NoConfig { .. })));
    // Groups are rows of one D.
    let apart = GemmProblem { d: MatrixStrides::default(), ..problem };
    assert_eq!(config.check_problem(&apart), Err(GemmError::GroupStrides));
    assert_eq!(problem.flops(), 2 * 10 * 64 * 64);
    let device = Device::sim().unwrap();
    let zeros = |len: usize| device.zeros::<bf16>(len).unwrap();
    let (a, b, mut d) = (zeros(640), zeros(3 * 4096), zeros(640));
    let list = device.upload(&[0, 1, 10]).unwrap();
    let load = |config| Gemm::<bf16>::new(config).unwrap().load(&device).unwrap();
    let (grouped, plain) = (load(config), load(GemmConfig { batch: BatchMode::Uniform, ..config }));
    let none = grouped.launch(&problem, GemmArgs::new(&a, &b, &mut d));
    assert_eq!(none, Err(GemmError::GroupRows { needed: true }));
    let starts = GroupRows::Starts(&list);
    let one = GemmProblem::new(10, 64, 64);
    let useless = plain.launch(&one, GemmArgs::new(&a, &b, &mut d).groups(starts));
    assert_eq!(useless, Err(GemmError::GroupRows { needed: false }));
    let short = grouped.launch(&problem, GemmArgs::new(&a, &b, &mut d).groups(starts));
    let operand = "the group starts";
    assert_eq!(short, Err(GemmError::BufferLength { operand, found: 3, needed: 4 }));
    let counts = GemmArgs::new(&a, &b, &mut d).groups(GroupRows::Counts(&list));
    let room = grouped.launch(&problem, counts);
    assert_eq!(room, Err(GemmError::GroupCapacity { m: 10, groups: 3 }));
}
