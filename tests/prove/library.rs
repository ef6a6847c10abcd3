//! The kernels of the library: how much of them is proved.

use std::collections::BTreeMap;
use std::time::Instant;

use tilewright::ir::types::{Scalar, Space};
use tilewright::ir::{Element, Kernel, KernelIr, Target, bf16, f8e4m3, f16};
use tilewright::kernels::attention::{Attention, AttentionConfig, AttentionProblem};
use tilewright::kernels::decode::{Decode, DecodeConfig, DecodePlan, DecodeProblem};
use tilewright::kernels::elementwise::{Elementwise, ElementwiseConfig};
use tilewright::kernels::gemm::{Gemm, GemmConfig, Schedule};
use tilewright::kernels::norm::{Norm, NormConfig, NormKind};
use tilewright::kernels::reduce::{RowReduce, RowReduceConfig, RowReduceOp};
use tilewright::kernels::rows::RowProblem;
use tilewright::kernels::scaled_gemm::{
    BScaleBlock, BatchStrides, ScaleStrides, ScaledBatch, ScaledGemm, ScaledGemmConfig,
    ScaledGemmProblem,
};
use tilewright::kernels::small_gemm::{
    Exchange, ScaleGroup, SmallGemm, SmallGemmConfig, SmallGemmProblem, WeightFormat, ZeroPoints,
};
use tilewright::kernels::softmax::{Softmax, SoftmaxConfig};
use tilewright::kernels::transpose::{Transpose, TransposeConfig, TransposeProblem};
use tilewright::prove::{LaunchValue, LaunchValues, Proof, Verdict, What};
use tilewright::tensor::pipeline::RowGroups;
use tilewright::tensor::rows::RowAccess;

use crate::law;

/// A proof, with its kernel's family.
struct Proved {
    family: &'static str,
    name: String,
    proof: Proof,
    ops: usize,
    milliseconds: f64,
}

fn prove(all: &mut Vec<Proved>, family: &'static str, ir: &KernelIr) {
    let kernel = Kernel::verify(ir.clone()).unwrap();
    let start = Instant::now();
    let proof = kernel.prove();
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    if let Some(folder) = std::env::var_os("TILEWRIGHT_PROVE_SHOW") {
        let path = std::path::Path::new(&folder).join(format!("{}.kir", ir.name));
        std::fs::write(path, format!("{ir}\n")).unwrap();
    }
    let (name, ops) = (ir.name.clone(), ir.reached_ops().len());
    all.push(Proved { family, name, proof, ops, milliseconds });
}

/// Proves a ready kernel, which gives its IR only.
fn proof_of(ir: &KernelIr) -> Proof {
    Kernel::verify(ir.clone()).unwrap().prove()
}

/// The parts of a ready kernel that the table needs.
macro_rules! add {
    ($all:expr, $family:literal, $made:expr) => {{
        let made = $made.unwrap();
        prove(&mut $all, $family, made.ir());
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
    for head in [64, 96, 128, 256] {
        let config = DecodeConfig::new(Target::SM_90A, head).unwrap();
        add!(all, "decode", Decode::<bf16>::new(config));
    }
    let sm90 = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    for config in [sm90, GemmConfig { schedule: Schedule::Pingpong, ..sm90 }] {
        add!(all, "gemm sm_90", Gemm::<bf16>::new(config));
    }
    let sm80 = GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [128, 128]);
    add!(all, "gemm sm_80", Gemm::<bf16>::new(sm80));
    let simt = GemmConfig::simt(Target::SM_80, Scalar::F32);
    add!(all, "gemm simt", Gemm::<f32>::new(simt));
    let cube = ScaledGemmProblem::new(8192, 8192, 8192);
    for problem in [
        cube,
        ScaledGemmProblem::new(64, 7168, 16_384),
        ScaledGemmProblem { b_block: BScaleBlock::Row128, ..cube },
        cube.batched(8),
        ScaledGemmProblem::new(16_384, 4096, 7168).grouped(8),
    ] {
        let config = ScaledGemmConfig::new(target, Scalar::Bf16, &problem).unwrap();
        let family = match problem.batch {
            ScaledBatch::Uniform { .. } => "scaled gemm",
            ScaledBatch::Grouped { .. } => "scaled gemm grouped",
        };
        let made = ScaledGemm::<f8e4m3, f8e4m3, bf16>::new(config).unwrap();
        prove(&mut all, family, made.ir());
    }
    for ([rows, columns], weights) in [
        ([1, 8192], INT4),
        ([16, 8192], INT4),
        ([64, 28_672], INT4),
        ([16, 8192], INT8),
        ([16, 8192], E4M3),
        ([1, 8192], WeightFormat::Full),
        ([16, 8192], WeightFormat::Full),
    ] {
        let problem = SmallGemmProblem::new(rows, columns, 8192);
        let config = SmallGemmConfig::new(target, weights, &problem).unwrap();
        prove(&mut all, "small gemm", &small_gemm(config));
    }
    all
}

const INT4: WeightFormat =
    WeightFormat::Int4 { group: ScaleGroup::Of128, zeros: ZeroPoints::Absent };
const INT8: WeightFormat = WeightFormat::Int8 { group: ScaleGroup::PerColumn };
const E4M3: WeightFormat = WeightFormat::E4m3 { group: ScaleGroup::Of128 };

fn small_gemm(config: SmallGemmConfig) -> KernelIr {
    fn ir<W: Element>(config: SmallGemmConfig) -> KernelIr {
        SmallGemm::<bf16, W>::new(config).unwrap().ir().clone()
    }
    match config.weights {
        WeightFormat::Int4 { .. } => ir::<u32>(config),
        WeightFormat::Int8 { .. } => ir::<i8>(config),
        WeightFormat::E4m3 { .. } => ir::<f8e4m3>(config),
        WeightFormat::Full => ir::<bf16>(config),
    }
}

/// A launch of the library on buffers that are exactly as long as needed.
struct Launch {
    proof: Proof,
    name: String,
    values: LaunchValues,
}

fn buffer(len: u64) -> LaunchValue {
    LaunchValue::Buffer { len, alignment: 256 }
}

fn launches() -> Vec<Launch> {
    let int = |value: i64| LaunchValue::Integer(value.into());
    let target = Target::SM_90A;
    let mut all = Vec::new();
    let mut launch = |ir: &KernelIr, blocks: u32, arguments: Vec<LaunchValue>| {
        let proof = proof_of(ir);
        let threads = ir.bounds.block.unwrap();
        let values = LaunchValues::new([blocks, 1, 1], threads, arguments);
        all.push(Launch { proof, name: ir.name.clone(), values });
    };
    for n in [1000u64, 4096, 5000, 100_000] {
        let config = ElementwiseConfig::new(target, 2);
        let add = Elementwise::<bf16, bf16, 2>::new(config, "add", |_, [x, y]| x + y).unwrap();
        let arguments = vec![buffer(n), buffer(n), buffer(n), int(n as i64)];
        launch(add.ir(), n.div_ceil(4096) as u32, arguments);
    }
    for (rows, columns, pitch) in
        [(64, 4096, 4096), (64, 4096, 4104), (7, 1001, 1001), (3, 1001, 2000)]
    {
        let problem = RowProblem::new(rows as u32, columns as u32);
        let len = ((rows - 1) * pitch + columns) as u64;
        let sizes = [int(rows), int(columns)];
        let matrix = [buffer(len), int(pitch)];
        let per_block = if columns == 4096 { 1 } else { 4 };
        let blocks = (rows as u32).div_ceil(per_block);
        let config = SoftmaxConfig::new(target, Scalar::Bf16, &problem).unwrap();
        let softmax = Softmax::<bf16, bf16>::new(config).unwrap();
        let arguments = [&matrix[..], &matrix, &sizes].concat();
        launch(softmax.ir(), blocks, arguments);
        let config = RowReduceConfig::new(RowReduceOp::Sum, target, Scalar::Bf16, &problem);
        let sum = RowReduce::<bf16>::new(config).unwrap();
        let arguments = [&matrix[..], &[buffer(rows as u64)], &sizes].concat();
        launch(sum.ir(), blocks, arguments);
        let config = NormConfig::new(NormKind::Rms, target, Scalar::Bf16, &problem).unwrap();
        let norm = Norm::<bf16, bf16>::new(config.weight()).unwrap();
        let weight = [buffer(columns as u64), buffer(0), LaunchValue::Other, LaunchValue::Other];
        let arguments = [&matrix[..], &matrix, &weight, &sizes].concat();
        launch(norm.ir(), blocks, arguments);
    }
    let simt = Gemm::<f32>::new(GemmConfig::simt(Target::SM_80, Scalar::F32)).unwrap();
    let sm80 = GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [128, 128]);
    let sm80 = Gemm::<bf16>::new(sm80).unwrap();
    for (m, n, k, batch, beside) in [
        (128i64, 256, 64, 1, 0),
        (100, 200, 56, 1, 0),
        (100, 201, 64, 1, 0),
        (129, 1, 8, 1, 8),
        (300, 72, 200, 3, 24),
    ] {
        // Rows are `beside` elements longer than the matrix, except the last one.
        let matrix = |rows: i64, columns: i64| {
            let pitch = columns + beside;
            let len = ((batch - 1) * rows * pitch + (rows - 1) * pitch + columns) as u64;
            [buffer(len), int(pitch), int(rows * pitch)]
        };
        let sizes = [m, n, k, batch].map(int);
        let rest = [LaunchValue::Other, LaunchValue::Other, buffer(0), int(0), int(0), buffer(0)];
        let arguments = [&matrix(m, k)[..], &matrix(n, k), &matrix(m, n), &sizes, &rest].concat();
        let blocks = (m as u32).div_ceil(128) * (n as u32).div_ceil(128) * batch as u32;
        launch(simt.ir(), blocks, arguments.clone());
        launch(sm80.ir(), blocks, arguments);
    }
    for (batch, problem) in decode_problems() {
        let (config, splits) = batch;
        let (kernel, values) = decode(config, &problem, splits);
        all.push(Launch { proof: proof_of(kernel.ir()), name: kernel.ir().name.clone(), values });
    }
    for (config, problem) in attention_problems() {
        let (kernel, values) = attention(config, &problem);
        all.push(Launch { proof: proof_of(kernel.ir()), name: kernel.ir().name.clone(), values });
    }
    all.extend(transpose_problems().into_iter().map(|(elem, problem)| transpose(elem, &problem)));
    let scaled = scaled_gemm_problems();
    all.extend(scaled.into_iter().map(|(problem, groups)| scaled_gemm(&problem, groups)));
    let small = small_gemm_problems();
    all.extend(small.into_iter().map(|(config, problem)| small_gemm_launch(config, &problem)));
    all
}

/// Matrices smaller than a tile and larger, whose rows are whole vectors.
fn transpose_problems() -> Vec<(Scalar, TransposeProblem)> {
    let mut all = Vec::new();
    for elem in [Scalar::F32, Scalar::F16] {
        for (rows, columns) in [(512, 512), (520, 96), (8, 8), (9000, 4096), (16_384, 16_384)] {
            all.push((elem, TransposeProblem::new(rows, columns)));
        }
        for (rows, columns) in [(1, 1), (3, 101), (8190, 8194), (70_001, 33), (16_383, 16_381)] {
            all.push((elem, TransposeProblem::new(rows, columns)));
        }
    }
    all
}

/// Returns the launch of a transpose on the shortest buffers.
fn transpose(elem: Scalar, problem: &TransposeProblem) -> Launch {
    let config = TransposeConfig::new(Target::SM_90A, elem, problem);
    let kernel = Transpose::<tilewright::runtime::AnyElement>::untyped(config, elem).unwrap();
    let (ir, int) = (kernel.ir(), |value: u64| LaunchValue::Integer(value.into()));
    let chunk = 16 / elem.size_bytes();
    let TransposeProblem { rows, columns, batch, .. } = *problem;
    let step = |size: u32, chunks: u32| {
        // Ragged tiles overlap by a chunk, unless one has the whole mode.
        let overlaps = config.access == RowAccess::Ragged && size + chunk > chunks * chunk + 1;
        if overlaps { chunks * chunk - chunk } else { chunks * chunk }
    };
    let own = [step(rows, config.tile[0]), step(columns, config.tile[1])];
    let counts = batch.map(|mode| mode.count);
    let matrices: u32 = counts.iter().product();
    let tiles =
        [rows.div_ceil(own[0]), columns.div_ceil(own[1]), matrices.div_ceil(config.matrices)];
    let ([x, y], [x_pitch, y_pitch]) = (problem.lens().unwrap(), problem.pitches());
    let wide = |values: [u32; 3]| values.map(|value| int(value.into()));
    let arguments = [
        &[buffer(x), int(x_pitch), int(x), buffer(y), int(y_pitch)][..],
        &wide([rows, columns, matrices]),
        &own.map(|size| int(size.into())),
        &wide(tiles),
        &wide(counts),
        &batch.map(|mode| int(mode.input_stride)),
        &batch.map(|mode| int(mode.output_stride)),
    ]
    .concat();
    assert_eq!(arguments.len(), ir.params.len());
    let values =
        LaunchValues::new([tiles.iter().product(), 1, 1], ir.bounds.block.unwrap(), arguments);
    Launch { proof: proof_of(ir), name: ir.name.clone(), values }
}

/// GEMMs with block scales: one, batches with their own scales of B and with shared ones, and
/// groups, of which the device knows the first rows or the row counts.
fn scaled_gemm_problems() -> Vec<(ScaledGemmProblem, Option<Groups>)> {
    let mut all = Vec::new();
    for [m, n, k] in [[8192, 8192, 8192], [64, 7168, 16_384], [8, 16, 16], [304, 200, 400]] {
        for b_block in [BScaleBlock::Square128, BScaleBlock::Row128] {
            let one = ScaledGemmProblem { b_block, ..ScaledGemmProblem::new(m, n, k) };
            let shared = BatchStrides { b: Some(0), b_scales: Some(0), ..BatchStrides::default() };
            let batch = ScaledBatch::Uniform { count: 3, strides: shared };
            let a_scales = ScaleStrides::column_major(m + 3);
            all.push((one, None));
            all.push((one.batched(8), None));
            all.push((ScaledGemmProblem { batch, a_scales, ..one }, None));
            let grouped = one.grouped(8);
            all.extend([Groups::Starts, Groups::Counts].map(|groups| (grouped, Some(groups))));
        }
    }
    all
}

/// How a launch says which rows belong to a group.
#[derive(Clone, Copy)]
enum Groups {
    Starts,
    Counts,
}

/// Returns the launch of a GEMM with block scales on the shortest buffers.
fn scaled_gemm(problem: &ScaledGemmProblem, groups: Option<Groups>) -> Launch {
    let int = |value: u64| LaunchValue::Integer(value.into());
    let config = ScaledGemmConfig::new(Target::SM_90A, Scalar::Bf16, problem).unwrap();
    let kernel = ScaledGemm::<f8e4m3, f8e4m3, bf16>::new(config).unwrap();
    let ScaledGemmProblem { m, n, k, batch, a_scales, b_scales, .. } = *problem;
    let [rows, columns, _] = config.tile;
    let [a_len, b_len] = problem.scale_lens();
    let [a_next, b_next] = problem.batched(1).scale_lens();
    let (count, a_next, b_next, batched_b) = match batch {
        ScaledBatch::Uniform { count, strides } => {
            (count, a_next, strides.b_scales.unwrap_or(b_next), strides.b != Some(0))
        }
        ScaledBatch::Grouped { groups } => (groups, 0, b_next, true),
    };
    let row_tiles = match groups {
        None => m.div_ceil(rows).into(),
        Some(_) => RowGroups::max_tiles(m, count, rows),
    };
    let tiles = [row_tiles, n.div_ceil(columns).into(), count.into()];
    let of = |scales: ScaleStrides, next: u64| {
        [u64::from(scales.row), scales.block.into(), next].map(int)
    };
    let sizes = [
        &[buffer(a_len), buffer(b_len)][..],
        &of(a_scales, a_next),
        &of(b_scales, b_next),
        &[int(a_len), int(b_len), int(m.into()), int(problem.b_scale_rows().into())],
        &[int(k.div_ceil(128).into())],
        &tiles.map(int),
        &[int(u64::from(groups.is_none())), int(u64::from(batched_b))],
    ]
    .concat();
    // Boxes have lines of 128 bytes, those of D perhaps fewer.
    let map = |lines: u32, bytes: u32| LaunchValue::Map { box_bytes: u64::from(lines * bytes) };
    let d_columns = if columns.is_multiple_of(64) { 64 } else { columns / 2 };
    let [a, b, d] = [map(rows, 128), map(columns, 128), map(64, 2 * d_columns)];
    let arguments = match groups {
        None => [&[a, b, d][..], &sizes].concat(),
        Some(groups) => {
            let (bounds, capacity) = match groups {
                Groups::Starts => (count + 1, 0),
                Groups::Counts => (count, m / count),
            };
            let d_len = u64::from(m) * u64::from(n);
            let groups = [u64::from(count), capacity.into(), m.into(), n.into()].map(int);
            let bounds = [buffer(bounds.into())];
            [&[a, b, d, buffer(d_len)][..], &sizes, &bounds, &groups].concat()
        }
    };
    let (proof, ir) = (proof_of(kernel.ir()), kernel.ir());
    assert_eq!(arguments.len(), ir.params.len());
    let blocks = tiles.iter().product::<u64>().min(132) as u32;
    let values = LaunchValues::new([blocks, 1, 1], ir.bounds.block.unwrap(), arguments);
    Launch { proof, name: ir.name.clone(), values }
}

/// GEMMs with few rows: all formats of weights, odd counts of tiles, an incomplete step, and K split
/// among the blocks of a cluster or by way of a workspace.
fn small_gemm_problems() -> Vec<(SmallGemmConfig, SmallGemmProblem)> {
    let mut all = Vec::new();
    for weights in [INT4, INT8, E4M3, WeightFormat::Full] {
        for [rows, columns, depth] in
            [[1, 8192, 8192], [16, 8192, 8192], [3, 1000, 976], [33, 24, 16]]
        {
            let problem = SmallGemmProblem::new(rows, columns, depth);
            let config = SmallGemmConfig::new(Target::SM_90A, weights, &problem).unwrap();
            all.push((config, problem));
            if columns == 1000 {
                for (splits, exchange) in [(4, Exchange::Cluster), (3, Exchange::Workspace)] {
                    all.push((SmallGemmConfig { splits, exchange, ..config }, problem));
                }
            }
        }
    }
    let problem = SmallGemmProblem::new(64, 28_672, 8192);
    all.push((SmallGemmConfig::new(Target::SM_90A, INT4, &problem).unwrap(), problem));
    all
}

/// Returns the launch of a GEMM with few rows on the shortest buffers, with a bias and a residual.
fn small_gemm_launch(config: SmallGemmConfig, problem: &SmallGemmProblem) -> Launch {
    let int = |value: u32| LaunchValue::Integer(value.into());
    let SmallGemmProblem { rows, columns, depth } = *problem;
    let ir = small_gemm(config);
    let matrix = |columns: u32| buffer(u64::from(rows) * u64::from(columns));
    let format = config.weights;
    let scales = match format.group() {
        Some(_) => buffer(format.scales(columns, depth)),
        // A stands in for what is missing.
        None => matrix(depth),
    };
    let block_columns = config.columns * config.warps;
    let [along_n, along_m] = [columns.div_ceil(block_columns), rows.div_ceil(config.rows)];
    let tiles = u64::from(along_n) * u64::from(along_m);
    let (partials, arrivals) = match config.exchange {
        Exchange::Workspace if config.splits > 1 => {
            let of_block = u64::from(config.rows * block_columns);
            (tiles * u64::from(config.splits) * of_block, tiles)
        }
        _ => (0, 0),
    };
    let arguments = [
        &[matrix(depth), scales, matrix(columns)][..],
        &[rows, columns, depth].map(int),
        &[buffer(columns.into()), int(columns), matrix(columns), int(rows)],
        &[buffer(partials), buffer(arrivals), buffer(format.weights(columns, depth))],
    ]
    .concat();
    assert_eq!(arguments.len(), ir.params.len());
    let grid = [along_n, config.splits, along_m];
    let values = LaunchValues::new(grid, ir.bounds.block.unwrap(), arguments);
    Launch { proof: proof_of(&ir), name: ir.name.clone(), values }
}

fn strides(strides: [u64; 3]) -> [LaunchValue; 3] {
    strides.map(|stride| LaunchValue::Integer(stride.into()))
}

/// Decode problems with a configuration and a split count: with and without splits and LSE, with
/// incomplete tiles and pages, and with room between heads.
fn decode_problems() -> Vec<((DecodeConfig, u32), DecodeProblem)> {
    let mut all = Vec::new();
    for head in [64, 96, 128, 256] {
        let config = DecodeConfig::new(Target::SM_90A, head).unwrap();
        for ([batch, heads, key_heads], pages, queries, splits) in [
            ([1, 1, 1], [1, 16, 1], 1, 1),
            ([3, 32, 8], [40, 64, 7], 1, 1),
            ([3, 32, 8], [40, 64, 7], 3, 4),
            ([2, 48, 2], [9, 1024, 33], 1, 100),
            ([5, 7, 7], [1 << 16, 16, 2000], 8, 7),
        ] {
            let sizes = [batch, heads, key_heads];
            let problem = DecodeProblem { queries, ..DecodeProblem::new(sizes, head, pages) };
            let dim = u64::from(head);
            let wide = [u64::from(key_heads) * (dim + 8), dim + 8, 1 << 24];
            all.push(((config, splits), problem));
            all.push((
                (config, splits),
                DecodeProblem { k: Some(wide), max_len: 17.min(problem.max_len), ..problem },
            ));
            all.push(((config, splits), DecodeProblem { window: Some(5), ..problem }));
        }
    }
    all
}

/// Returns the launch of a decode kernel on the shortest buffers.
fn decode(
    config: DecodeConfig,
    problem: &DecodeProblem,
    splits: u32,
) -> (tilewright::kernels::Built<Decode<bf16>>, LaunchValues) {
    let int = |value: u32| LaunchValue::Integer(value.into());
    let plan = DecodePlan::split(problem, splits);
    let [q, k, v, o] = problem.lens().map(buffer);
    let row_tiles = (problem.group() * problem.queries).div_ceil(16);
    let tiles = u64::from(problem.batch * problem.key_heads * row_tiles);
    let (partials, arrivals) = match plan.splits {
        1 => (0, 0),
        _ => (plan.workspace_bytes(&config, problem) / 4, tiles),
    };
    let has_lse = problem.queries > 1;
    let lse = if has_lse { problem.rows() } else { 0 };
    let row = problem.max_pages;
    let arguments = [
        &[q, k, v, o][..],
        &strides(problem.q_strides()),
        &strides(problem.k_strides()),
        &strides(problem.v_strides()),
        &strides(problem.o_strides()),
        &[buffer(lse), int(has_lse.into())],
        &[buffer(u64::from(problem.batch * row)), int(row)],
        &[buffer(problem.batch.into()), int(problem.max_len)],
        &[int(problem.window.unwrap_or(problem.max_len).min(problem.max_len))],
        &[int(problem.visible(problem.max_len))],
        &[buffer(problem.heads.into()), int(1)],
        &[int(problem.pages), int(problem.page.trailing_zeros()), int(problem.key_heads)],
        &[int(problem.group()), int(problem.queries), int(row_tiles), int(plan.tokens)],
        &[buffer(partials), buffer(arrivals), LaunchValue::Other],
    ]
    .concat();
    let kernel = Decode::<bf16>::new(config).unwrap();
    let threads = kernel.ir().bounds.block.unwrap();
    let values = LaunchValues::new([tiles as u32, plan.splits, 1], threads, arguments);
    (kernel, values)
}

/// Attention problems with configurations for both kernels, some with fewer keys than a tile has.
fn attention_problems() -> Vec<(AttentionConfig, AttentionProblem)> {
    let mut all = Vec::new();
    for target in [Target::SM_80, Target::SM_90A] {
        for head in [64, 128] {
            for (sizes, lens) in [
                ([1, 1, 1], [128, 128]),
                ([2, 6, 2], [100, 300]),
                ([3, 5, 5], [1, 70]),
                ([4, 16, 4], [1000, 4096]),
                ([1, 3, 1], [200, 0]),
                ([2, 9, 3], [4096, 100_000]),
            ] {
                let problem = AttentionProblem::new(sizes, lens, head);
                all.push((AttentionConfig::new(target, &problem).unwrap(), problem));
                // With fewer keys than queries, a causal mask moves the other way. Such a launch
                // runs the checked version.
                if lens[0] <= lens[1] {
                    let problem = AttentionProblem { right: Some(0), ..problem };
                    all.push((AttentionConfig::new(target, &problem).unwrap(), problem));
                }
            }
        }
    }
    all
}

/// Returns the launch of an attention kernel on the shortest buffers.
fn attention(
    config: AttentionConfig,
    problem: &AttentionProblem,
) -> (tilewright::kernels::Built<Attention<bf16>>, LaunchValues) {
    let int = |value: u32| LaunchValue::Integer(value.into());
    let heads = problem.heads / config.packed_heads;
    let rows = config.tile[0] / config.packed_heads;
    let row_tiles = problem.queries.div_ceil(rows);
    let items = row_tiles * problem.batch * heads;
    let group = heads / problem.key_heads;
    let of_head = u64::from(problem.keys.max(1)) * u64::from(2 * problem.head_dim) * 2;
    let section = ((24u64 << 20) / of_head).clamp(1, 1 << 20) as u32 * group;
    let offset = i128::from(problem.keys) - i128::from(problem.queries);
    let [lower, upper] = [problem.left, problem.right].map(|side| i128::from(side.unwrap_or(0)));
    let params = [
        &[buffer(problem.rows()), buffer(1), int(row_tiles), int(heads)][..],
        &[int(problem.batch * heads), int(group), int(section)],
        &[int(problem.queries), int(problem.keys)],
        &[LaunchValue::Integer(offset - lower), LaunchValue::Integer(offset + upper)],
        &[LaunchValue::Other, LaunchValue::Other],
    ]
    .concat();
    let [q, k, v, o] = problem.lens().map(buffer);
    let (k, v) = if problem.keys == 0 { (buffer(256), buffer(256)) } else { (k, v) };
    let kernel = Attention::<bf16>::new(config).unwrap();
    let ir = kernel.ir();
    let to = [&[o][..], &strides(problem.o_strides()), &[buffer(1), buffer(1), int(problem.batch)]];
    // A box has lines of 128 bytes: 64 rows of Q and O, a tile of K and V.
    let [rows, keys] =
        [64, config.tile[1]].map(|lines| LaunchValue::Map { box_bytes: u64::from(lines) * 128 });
    let by_tma = config.target == Target::SM_90A;
    let arguments = if !by_tma {
        let of = [problem.q_strides(), problem.k_strides(), problem.v_strides()];
        [&[q, k, v][..], &of.map(strides).concat(), &to.concat(), &params].concat()
    } else if ir.params.len() == 4 + params.len() {
        [&[rows, keys, keys, rows][..], &params].concat()
    } else {
        [&[rows, keys, keys][..], &to.concat(), &params].concat()
    };
    assert_eq!(arguments.len(), ir.params.len());
    let threads = ir.bounds.block.unwrap();
    let blocks = if by_tma { items.min(132) } else { items };
    (kernel, LaunchValues::new([blocks, 1, 1], threads, arguments))
}

/// Conditions that a correct launch does not fulfil are too strong: they would refuse it.
#[test]
fn correct_launches_fulfil_the_conditions() {
    let (mut fulfilled, mut refused) = (0, 0);
    for Launch { proof, name, values } in launches() {
        let own = law::fulfilled(&proof, &values, |obligation, condition| {
            println!("{name}: {} at {}: {condition}", obligation.name, obligation.location);
        });
        (fulfilled, refused) = (fulfilled + own[0], refused + own[1]);
    }
    println!(
        "{fulfilled} obligations have conditions that correct launches fulfil, {refused} do not"
    );
    assert!(fulfilled > 0 && refused == 0, "{refused} refused, {fulfilled} fulfilled");
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
    // The open sites by source line, with one of the reasons.
    let mut open: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for proved in &all {
        for obligation in proved.proof.open() {
            let (Verdict::Checked(reason), place) = (&obligation.verdict, obligation.location)
            else {
                continue;
            };
            let column = column(&obligation.what);
            let key = format!("{} | {column} | {} | {place}", proved.family, obligation.name);
            open.entry(key).or_insert_with(|| (0, reason.clone())).0 += 1;
        }
    }
    println!("family | space | operation | line | open sites | what is not known in the first");
    for (key, (count, reason)) in &open {
        println!("{key} | {count} | {reason}");
    }
    if std::env::var_os("TILEWRIGHT_PROVE_SHOW").is_some() {
        for proved in &all {
            println!("{}\n", proved.proof);
        }
    }
}
