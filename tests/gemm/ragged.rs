//! Products of different sizes in one launch: each is that of its matrices, and nothing beside them
//! is written.

use crate::support::device;
use crate::support::ptxas;
use crate::support::rng::Rng;
use crate::support::slow::sample;

use tilewright::arch::Major;
use tilewright::ir::types::Scalar;
use tilewright::ir::{GlobalMut, Kernel, Site, bf16};
use tilewright::kernels::gemm::{
    BatchMode, Epilogue, Gemm, GemmArgs, GemmConfig, GemmError, GemmProblem, LoadMethod, Machine,
    RaggedProblem, Schedule, Splits, StoreMethod,
};
use tilewright::runtime::Device;
use tilewright::sim::{Options, Order};
use tilewright::tensor::pipeline::Raster;

/// The elements of D before a launch.
const UNTOUCHED: f32 = -77.0;

fn sm90(tile: [u32; 2]) -> GemmConfig {
    let config = GemmConfig { batch: BatchMode::Ragged, ..GemmConfig::sm90(Scalar::Bf16, tile) };
    GemmConfig { stages: 3, raster: Raster::Swizzle { width: 2 }, ..config }
}

/// Ways to store, contiguous modes, low tiles.
fn configs() -> Vec<GemmConfig> {
    let (k, mn) = (Major::K, Major::Mn);
    vec![
        sm90([128, 64]),
        GemmConfig { store: StoreMethod::Rows, raster: Raster::AlongM, ..sm90([256, 40]) },
        GemmConfig { store: StoreMethod::Rows, ..sm90([16, 32]) },
        GemmConfig { major_a: mn, major_b: mn, ..sm90([64, 128]) },
        GemmConfig { major_a: mn, major_b: k, ..sm90([128, 128]) },
    ]
}

/// Products with matrices of small integers, whose sums `f32` holds, with gaps between matrices and
/// behind rows.
struct Case {
    problem: GemmProblem,
    products: Vec<RaggedProblem>,
    a: Vec<bf16>,
    b: Vec<bf16>,
    len_d: usize,
    config: GemmConfig,
}

impl Case {
    fn new(config: GemmConfig, sizes: &[[u32; 3]]) -> Case {
        let mut rng = Rng::new(11);
        let sums = if config.pairs { 2 } else { 1 };
        let (mut starts, mut products) = ([8u64; 3], Vec::new());
        for [m, n, k] in sizes.iter().copied() {
            let line = |major, extent| if major == Major::K { (extent, k) } else { (k, extent) };
            let matrices = [line(config.major_a, m), line(config.major_b, n), (m, n / sums)];
            let pitch =
                |columns: u32| u64::from(columns).next_multiple_of(8) + 8 * rng.below(2) as u64;
            let pitches = matrices.map(|(_, columns)| columns).map(pitch);
            products.push(RaggedProblem { sizes: [m, n, k], starts, pitches });
            for ((start, pitch), (lines, _)) in starts.iter_mut().zip(pitches).zip(matrices) {
                *start += pitch * u64::from(lines) + 16;
            }
        }
        let mut of = |len: u64| -> Vec<bf16> {
            (0..len).map(|_| bf16::from_f32(rng.below(5) as f32 - 2.0)).collect()
        };
        let largest = |at: usize| sizes.iter().map(|size| size[at]).max().unwrap().max(1);
        let problem = GemmProblem::new(largest(0), largest(1), largest(2));
        let problem = GemmProblem { batch: sizes.len() as u32, ..problem };
        let [a, b] = [starts[0], starts[1]].map(&mut of);
        Case { problem, products, a, b, len_d: starts[2] as usize, config }
    }

    fn table(&self, device: &Device) -> tilewright::runtime::Buffer<i64> {
        let words: Vec<i64> = self.products.iter().flat_map(RaggedProblem::words).collect();
        device.upload(&words).unwrap()
    }

    /// An element of the product number `product`.
    fn sum(&self, product: usize, row: u64, column: u64) -> f64 {
        let RaggedProblem { sizes: [_, _, k], starts, pitches } = self.products[product];
        let at = |operand: usize, major, line: u64, i: u64| {
            let (line, i) = if major == Major::K { (line, i) } else { (i, line) };
            (starts[operand] + line * pitches[operand] + i) as usize
        };
        let of = |i: u64| {
            let a = self.a[at(0, self.config.major_a, row, i)];
            f64::from(a.to_f32())
                * f64::from(self.b[at(1, self.config.major_b, column, i)].to_f32())
        };
        (0..k.into()).map(of).sum()
    }

    /// Compares D with `expected(product, row, column)`, and what is between the matrices with what
    /// was there.
    fn compare(&self, d: &[bf16], sums: u64, expected: impl Fn(usize, u64, u64) -> f64) {
        let mut all = vec![f64::from(UNTOUCHED); self.len_d];
        for (product, of) in self.products.iter().enumerate() {
            let [m, n, k] = of.sizes.map(u64::from);
            // The last unit of 16 bytes of a row is stored whole.
            let stored = (n / sums).next_multiple_of(8);
            for row in (0..m).filter(|_| k > 0) {
                let start = (of.starts[2] + row * of.pitches[2]) as usize;
                all[start..start + stored as usize].fill(f64::NAN);
            }
            for (row, column) in (0..m).flat_map(|row| (0..n / sums).map(move |c| (row, c))) {
                let at = of.starts[2] + row * of.pitches[2] + column;
                if k > 0 {
                    all[at as usize] = expected(product, row, column);
                }
            }
        }
        for (at, (found, x)) in d.iter().zip(all).enumerate() {
            let found = f64::from(found.to_f32());
            let close = x.is_nan() || (found - x).abs() <= x.abs().max(1.0) * 0.006;
            assert!(close, "{}: element {at} of D is {found}, not {x}", self.config);
        }
    }

    fn check(&self, device: &Device) {
        assert_eq!(self.config.check(), Ok(()), "{}", self.config);
        let (a, b) = (device.upload(&self.a).unwrap(), device.upload(&self.b).unwrap());
        let mut d = device.upload(&vec![bf16::from_f32(UNTOUCHED); self.len_d]).unwrap();
        let (table, function) = (self.table(device), Gemm::<bf16>::new(self.config).unwrap());
        let function = function.load(device).unwrap();
        // A second launch, in a graph, makes the maps anew.
        let args = GemmArgs::new(&a, &b, &mut d).products(&table);
        function.launch(&self.problem, args).unwrap();
        let graph = device.graph().unwrap();
        let args = GemmArgs::new(&a, &b, &mut d).products(&table);
        function.prepare(&self.problem, args).unwrap().record(&graph).unwrap();
        graph.finish().unwrap().launch().unwrap();
        device.synchronize().unwrap();
        self.compare(&d.to_vec().unwrap(), 1, |product, row, column| {
            self.sum(product, row, column)
        });
    }
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
fn every_product_has_its_own_sizes() {
    for device in sample(2, devices()) {
        for config in sample(2, configs()) {
            // Ragged ends, products of nothing at the start, inside and at the end.
            let sizes = [
                [0, 70, 40],
                [70, 96, 72],
                [1, 1, 1],
                [40, 0, 8],
                [130, 33, 136],
                [8, 8, 0],
                [64, 136, 64],
                [0, 0, 0],
            ];
            Case::new(config, &sizes).check(&device);
        }
        for config in sample(3, configs()) {
            Case::new(config, &[[0, 10, 10], [5, 5, 0]]).check(&device);
            // A batch at any addresses.
            Case::new(config, &[[70, 40, 72]; 3]).check(&device);
        }
    }
}

#[test]
fn products_of_random_sizes() {
    let device = device::gpu().unwrap_or_else(|| Device::sim().unwrap());
    for seed in sample(3, 0..6) {
        let mut rng = Rng::new(seed);
        let sizes: Vec<[u32; 3]> =
            (0..7).map(|_| [0; 3].map(|_| (rng.below(8).min(1) * rng.below(150)) as u32)).collect();
        Case::new(sm90([64, 64]), &sizes).check(&device);
    }
}

tilewright::params! {
    /// The number of times that each element of D was seen, and the products with their largest
    /// sizes.
    struct Seen => SeenAt<'b> {
        count: GlobalMut<u32>,
        sizes: [i32; 2],
    }
}

/// The epilogue of the program runs for the elements of each D alone, with the number of the
/// product: also one of pairs of columns.
#[test]
fn epilogues_see_the_elements_of_each_product() {
    let device = device::gpu().unwrap_or_else(|| Device::sim().unwrap());
    for tile in [[128, 128], [16, 32]] {
        let config = GemmConfig { pairs: true, ..sm90(tile) };
        let store = if tile[1] == 32 { StoreMethod::Rows } else { config.store };
        let case =
            Case::new(GemmConfig { store, ..config }, &[[70, 80, 72], [3, 8, 8], [40, 150, 40]]);
        let GemmProblem { m, n, batch, .. } = case.problem;
        let gemm = Gemm::<bf16>::with_pairs::<Seen>(
            case.config,
            |_, [x, y], [row, column, product], seen| {
                let [rows, columns] = seen.sizes;
                let at = (product * rows + row) * columns + column;
                seen.count.atom().add(at, 1u32);
                x - y * 2.0 + (row + column + product * 3).cvt::<f32>()
            },
        );
        let (a, b) = (device.upload(&case.a).unwrap(), device.upload(&case.b).unwrap());
        let mut d = device.upload(&vec![bf16::from_f32(UNTOUCHED); case.len_d]).unwrap();
        let mut count = device.zeros::<u32>((batch * m * n / 2) as usize).unwrap();
        let seen = Seen { count: &mut count, sizes: [m as i32, (n / 2) as i32] };
        let table = case.table(&device);
        let args = GemmArgs::new(&a, &b, &mut d).products(&table);
        gemm.unwrap().load(&device).unwrap().launch(&case.problem, (args, seen)).unwrap();
        case.compare(&d.to_vec().unwrap(), 2, |product, row, column| {
            let sum = |column| case.sum(product, row, column);
            let at = (row + column) as f64 + product as f64 * 3.0;
            sum(2 * column) - 2.0 * sum(2 * column + 1) + at
        });
        for (at, count) in count.to_vec().unwrap().into_iter().enumerate() {
            let (line, column) = (at as u32 / (n / 2), at as u32 % (n / 2));
            let [m_of, n_of, _] = case.products[(line / m) as usize].sizes;
            let is_there = line % m < m_of && column < n_of / 2;
            assert_eq!(count, u32::from(is_there), "{}: {line}, {column}", case.config);
        }
    }
}

/// The plan has kernels that `ptxas` takes as they are.
#[test]
fn plans_are_of_different_sizes() {
    let problem = GemmProblem { batch: 8, ..GemmProblem::new(1000, 4001, 4096) };
    let wanted = sm90([128, 128]);
    let all = wanted.defaults(&problem, &Machine::H200);
    assert!(!all.is_empty());
    for config in &all {
        assert!(config.batch == BatchMode::Ragged, "{config}");
        assert_eq!(config.check(), Ok(()), "{config}");
    }
    let Some(ptxas) = ptxas::find() else { return };
    for config in configs().into_iter().chain(all.into_iter().take(3)) {
        let gemm = Gemm::<bf16>::new(config).unwrap();
        let report = ptxas.report(gemm.ptx().text(), &config.target.to_string()).unwrap();
        assert!(!report.contains("(C7") && report.contains("0 bytes spill stores"), "{report}");
        // A kernel that checks its accesses knows the boxes of maps in memory.
        let checked = Kernel::verify(gemm.ir().clone()).unwrap().checked().unwrap();
        let is_box = |site: &Site| site.op == "cp_async_bulk_tensor_load";
        assert!(checked.sites().iter().any(is_box), "{config}");
        ptxas.assemble(checked.kernel().ptx().text(), &config.target.to_string(), &[]).unwrap();
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
    assert_eq!(field(GemmConfig { schedule: Schedule::Pingpong, ..config }), "batch");
    let beta = Epilogue { beta: true, ..Epilogue::default() };
    assert_eq!(field(GemmConfig { epilogue: beta, ..config }), "batch");
    let device = Device::sim().unwrap();
    let zeros = |len: usize| device.zeros::<bf16>(len).unwrap();
    let (a, b, mut d) = (zeros(640), zeros(4096), zeros(640));
    let table = device.upload(&[0i64; 9]).unwrap();
    let load = |config| Gemm::<bf16>::new(config).unwrap().load(&device).unwrap();
    let (ragged, plain) = (load(config), load(GemmConfig { batch: BatchMode::Uniform, ..config }));
    let one = GemmProblem::new(10, 64, 64);
    let none = ragged.launch(&one, GemmArgs::new(&a, &b, &mut d));
    assert_eq!(none, Err(GemmError::Products { needed: true }));
    let useless = plain.launch(&one, GemmArgs::new(&a, &b, &mut d).products(&table));
    assert_eq!(useless, Err(GemmError::Products { needed: false }));
    let two = GemmProblem { batch: 2, ..one };
    let short = ragged.launch(&two, GemmArgs::new(&a, &b, &mut d).products(&table));
    let operand = "the table of products";
    assert_eq!(short, Err(GemmError::BufferLength { operand, found: 9, needed: 18 }));
    // A matrix that is not inside of its buffer is a fault.
    let words = |starts, pitches| {
        let product = RaggedProblem { sizes: [10, 64, 64], starts, pitches };
        device.upload(&product.words()).unwrap()
    };
    for (starts, pitches) in [([8, 0, 0], [64; 3]), ([0; 3], [64, 65, 64]), ([0, 0, 8], [64; 3])] {
        let table = words(starts, pitches);
        let fault = ragged.launch(&one, GemmArgs::new(&a, &b, &mut d).products(&table));
        assert!(matches!(fault, Err(GemmError::Runtime(_))), "{fault:?}");
    }
}
