//! Compares the table of operations with NVIDIA's assembler for tensor cores, mbarriers,
//! asynchronous copies and clusters.
//!
//! The assembler accepts all attributes, types, shapes and targets that the table lists, without
//! optimisation and with all of it. It refuses their neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use tilewright::ir::op::{
    Arith, AsyncCopy, Atomic, Control, Mbarrier, Mem, Mma, MmaOverflow, Op, WgmmaForm,
};
use tilewright::ir::types::{Const, Scalar, Space, Type};
use tilewright::ir::{Kernel, Target, Untyped};

use crate::support::slow::slow;
use crate::support::{assemble, atomic_cells, ptxas, raw, tensor_cells};

use assemble::{accept_modules, check_modules};
use raw::{Raw, pointer};
use tensor_cells::{Cell, Cells, FACTORS, SUMS, forms, wgmma_depth};

const TARGETS: [Target; 4] = [Target::SM_80, Target::SM_89, Target::SM_90, Target::SM_90A];
const LEVELS: [&str; 2] = ["-O0", "-O3"];

/// The rows that this file is about, but for the multiplications of warp groups, which have tests
/// of their own.
fn rows() -> Vec<&'static str> {
    let families = [Mma::INFO, Mbarrier::INFO, AsyncCopy::INFO].concat();
    let names = families.into_iter().map(|info| info.name);
    let names =
        names.filter(|name| !matches!(*name, "wgmma" | "wgmma_rs" | "wgmma_sp" | "wgmma_rs_sp"));
    let clusters = ["barrier_cluster_arrive", "barrier_cluster_wait", "mapa", "fence_proxy_alias"];
    names.chain(clusters).collect()
}

/// Returns true if the target of the kernel has the operation.
fn is_legal(raw: &Raw, op: &Op) -> bool {
    op.support(&raw.ir).is_ok_and(|first| raw.ir.target.offers(first))
}

/// Builds a kernel of the candidates that `fill` makes, `keep` keeps and the target has, and
/// returns it with their number; `None` without candidates.
fn kernel(
    name: String,
    target: Target,
    fill: impl FnOnce(&mut Cells<'_>),
    mut keep: impl FnMut(&Cell) -> bool,
) -> Option<(Kernel<Untyped>, usize)> {
    let mut raw = Raw::new(name, target);
    // `setmaxnreg` takes effect only in a kernel whose registers are known from the start.
    raw.ir.bounds.block = Some([128, 1, 1]);
    raw.ir.bounds.min_blocks_per_sm = Some(1);
    let mut cells = Cells::new(&mut raw);
    fill(&mut cells);
    let mut count = 0;
    for cell in cells.into_cells() {
        if !is_legal(&raw, &cell.op) || !keep(&cell) {
            continue;
        }
        count += 1;
        add(&mut raw, cell.op);
    }
    (count > 0).then(|| (raw.finish(), count))
}

/// Adds an operation and uses its result.
fn add(raw: &mut Raw, op: Op) {
    if matches!(op, Op::Mma(Mma::WgmmaCommitGroup {})) {
        // Alone it is taken for a mistake, and mended.
        raw.op(Mma::WgmmaFence {});
        raw.op(op);
        raw.op(Mma::WgmmaWaitGroup { pending: 0 });
        return;
    }
    let Op::Mma(
        Mma::Wgmma { shape, d, .. }
        | Mma::WgmmaRs { shape, d, .. }
        | Mma::WgmmaSp { shape, d, .. }
        | Mma::WgmmaRsSp { shape, d, .. },
    ) = op
    else {
        if let Some(result) = raw.op(op) {
            raw.consume(result);
        }
        return;
    };
    raw.op(Mma::WgmmaFence {});
    raw.op(op);
    raw.op(Mma::WgmmaCommitGroup {});
    raw.op(Mma::WgmmaWaitGroup { pending: 0 });
    let last =
        tilewright::ir::op::Accumulators::new(shape, 128, raw.ir.vars[d].ty).unwrap().len - 1;
    for index in [0, last] {
        let sum = raw.get(Mem::GetVar { var: d, index });
        raw.consume(sum);
    }
}

fn said(line: &str) {
    // Not `eprintln!`: the output of a test that passes is not shown.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The kernels of a row: several where one would have too many parameters, or registers.
fn kernels_of_row(row: &'static str, target: Target) -> Vec<(Kernel<Untyped>, usize)> {
    if row.contains("tensor") && row != "prefetch_tensormap" {
        let of = |elem| kernel(format!("{row}_{elem}"), target, |c| c.tensor(row, elem), |_| true);
        return Scalar::ALL.into_iter().filter_map(of).collect();
    }
    if row == "setmaxnreg" {
        let of = |at: usize| {
            let mut number = 0;
            let only = move |_: &Cell| {
                number += 1;
                number == at
            };
            kernel(format!("{row}_{at}"), target, |cells| cells.row(row), only)
        };
        return (1..).map_while(of).collect();
    }
    kernel(row.to_owned(), target, |cells| cells.row(row), |_| true).into_iter().collect()
}

#[test]
fn every_cell() {
    let (mut covered, mut count) = (BTreeSet::new(), 0);
    for target in TARGETS {
        let mut kernels = Vec::new();
        for row in rows() {
            for (kernel, cells) in kernels_of_row(row, target) {
                covered.insert(row);
                count += cells;
                kernels.push(kernel);
            }
        }
        LEVELS.into_iter().for_each(|level| accept_modules(&kernels, &[level]));
    }
    assert_eq!(covered, rows().into_iter().collect(), "a row has no kernel here");
    said(&format!("{count} cells of {} rows", covered.len()));
}

/// Every atomic operation in every memory, on every element and vector, with all orders and scopes.
/// Those of one operand type in one memory are one kernel.
#[test]
fn every_atomic() {
    let (mut count, mut spaces) = (0, BTreeSet::new());
    for target in [Target::SM_80, Target::SM_90] {
        let mut kernels = Vec::new();
        for row in Atomic::INFO.iter().map(|info| info.name) {
            let mut all: BTreeMap<Vec<String>, Raw> = BTreeMap::new();
            atomic_cells::each(row, |types, make| {
                let mut one = Raw::new("one", target);
                let op = make(&mut one);
                add(&mut one, op);
                one.op(Control::Return);
                if Kernel::verify(one.ir).is_err() {
                    return;
                }
                count += 1;
                spaces.insert((row, types[1].1.clone()));
                let key: Vec<String> = types.iter().map(|(_, name)| name.clone()).collect();
                let number = all.len();
                let name = || format!("{row}_{number}");
                let raw = all.entry(key).or_insert_with(|| Raw::new(name(), target));
                let op = make(raw);
                add(raw, op);
            });
            assert!(!all.is_empty(), "{row} has no kernel");
            kernels.extend(all.into_values().map(Raw::finish));
        }
        let levels = if slow() { &LEVELS[..] } else { &LEVELS[..1] };
        levels.iter().for_each(|level| accept_modules(&kernels, &[*level]));
    }
    assert!(spaces.contains(&("atom", "shared::cluster".to_owned())), "{spaces:?}");
    assert!(spaces.contains(&("red_vec", "shared::cluster".to_owned())), "{spaces:?}");
    said(&format!("{count} cells of atomic operations"));
}

/// The types of `wgmma` that there are.
fn wgmma_types() -> Vec<([Scalar; 2], Type)> {
    let pairs = FACTORS.into_iter().flat_map(|a| FACTORS.map(|b| [a, b]));
    let all = pairs.flat_map(|types| SUMS.map(|sum| (types, sum)));
    let legal = |(types, sum): &([Scalar; 2], Type)| {
        let form = [WgmmaForm::default()];
        let fill = |cells: &mut Cells<'_>| cells.wgmma(*types, *sum, 8, &form);
        kernel("wgmma".to_owned(), Target::SM_90A, fill, |_| true).is_some()
    };
    all.filter(legal).collect()
}

/// Every type with every `n` and, without optimisation, every form; with it every form with three
/// of `n`, and some with the others, which are two without `TILEWRIGHT_SLOW`. A is in shared memory
/// and in registers.
#[test]
fn every_wgmma() {
    let mut count = 0;
    let (all, types) = (forms(), wgmma_types());
    assert_eq!(types.len(), 16, "{types:?}");
    for level in LEVELS {
        let mut kernels = Vec::new();
        for &([a, b], sum) in &types {
            let mut columns = BTreeSet::new();
            for n in (0..=272).step_by(4) {
                let at = n as usize / 8;
                let few = [all[0], all[at % 16], all[16 + at % 2]];
                let whole = level == "-O0" || matches!(n, 8 | 64 | 128);
                let forms = if whole { &all[..] } else { &few[..] };
                if level != "-O0" && !slow() && !matches!(n, 8 | 128) {
                    continue;
                }
                let name = format!("wgmma_{a}_{b}_{sum}_{n}");
                let fill = |cells: &mut Cells<'_>| cells.wgmma([a, b], sum, n, forms);
                if let Some((kernel, cells)) = kernel(name, Target::SM_90A, fill, |_| true) {
                    columns.insert(n);
                    count += if level == "-O0" { cells } else { 0 };
                    kernels.push(kernel);
                }
            }
            let expected = if a.is_int() { 18 } else { 32 };
            if level == "-O0" || slow() {
                assert_eq!(columns.len(), expected, "{a} {b} {sum}: {columns:?}");
            }
        }
        accept_modules(&kernels, &[level]);
    }
    said(&format!("{count} cells of wgmma"));
}

/// Every type, form and selector of products of a warp group with a sparse A, for one `n`, or three
/// with `TILEWRIGHT_SLOW`.
#[test]
fn every_sparse_wgmma() {
    let (all, mut kernels, mut count) = (forms(), Vec::new(), 0);
    for ([a, b], sum) in wgmma_types() {
        for n in if slow() { &[8, 64, 256][..] } else { &[64] } {
            let n = *n;
            let name = format!("wgmma_sp_{a}_{b}_{sum}_{n}");
            let fill = |cells: &mut Cells<'_>| {
                cells.sparse_wgmma([a, b], sum, n, (&all, &[0, 1, 2, 3]));
            };
            let (kernel, cells) = kernel(name, Target::SM_90A, fill, |_| true).unwrap();
            count += cells;
            kernels.push(kernel);
        }
    }
    for level in LEVELS {
        accept_modules(&kernels, &[level]);
    }
    said(&format!("{count} cells of sparse wgmma"));
}

/// A kernel of one cell for each row and each value of its attributes, on the first target that has
/// it.
fn single_cells() -> Vec<(String, Kernel<Untyped>)> {
    let mut all = BTreeMap::new();
    for target in TARGETS {
        let mut made = Vec::new();
        for row in rows() {
            // One cell of each value, whose number is looked for first.
            let fill = |cells: &mut Cells<'_>| match row {
                "prefetch_tensormap" => cells.row(row),
                _ if row.contains("tensor") => cells.tensor(row, Scalar::U32),
                _ => cells.row(row),
            };
            let mut found = BTreeMap::new();
            let mut number = 0;
            kernel("found".to_owned(), target, fill, |cell| {
                let types = if row.starts_with("mma_sync") {
                    format!("{:?}", cell.types)
                } else {
                    String::new()
                };
                let attributes = cell.op.attributes();
                let attributes = attributes.iter().filter(|text| !text.starts_with('@'));
                let attributes: Vec<&String> = attributes.collect();
                let key = format!("{row} {attributes:?} {types}");
                found.entry(key).or_insert(number);
                number += 1;
                true
            });
            for (key, number) in found {
                let mut at = 0;
                let only = |_: &Cell| {
                    at += 1;
                    at - 1 == number
                };
                made.extend(kernel("one".to_owned(), target, fill, only).map(|one| (key, one.0)));
            }
        }
        if target == Target::SM_90A {
            for (types, sum) in wgmma_types() {
                let fill = |cells: &mut Cells<'_>| cells.wgmma(types, sum, 8, &forms());
                let one = kernel("one".to_owned(), target, fill, |_| true).unwrap().0;
                made.push((format!("wgmma {types:?} {sum}"), one));
                let fill = |cells: &mut Cells<'_>| {
                    cells.sparse_wgmma(types, sum, 8, (&forms(), &[0, 1, 2, 3]));
                };
                let one = kernel("one".to_owned(), target, fill, |_| true).unwrap().0;
                made.push((format!("wgmma_sp {types:?} {sum}"), one));
            }
        }
        for (key, kernel) in made {
            all.entry(key).or_insert(kernel);
        }
    }
    all.into_iter().collect()
}

/// The text says the lowest version that has the operations, and the first target.
#[test]
fn the_version_and_the_target_are_the_lowest() {
    let Some(ptxas) = ptxas::find() else { return };
    let versions = [
        "7.0", "7.1", "7.2", "7.3", "7.4", "7.5", "7.6", "7.7", "7.8", "8.0", "8.1", "8.2", "8.3",
        "8.4", "8.5", "8.6", "8.7",
    ];
    let mut count = 0;
    for (key, kernel) in single_cells() {
        let ptx = kernel.ptx();
        let (version, target) = (ptx.version().to_string(), ptx.target().to_string());
        let at = versions.iter().position(|v| *v == version).expect("the version is in the list");
        // Assemblers before PTX 8.5 count strides of `tensormap.replace` in 16 bytes.
        if at > 0 && !key.starts_with("tensormap_replace") {
            count += 1;
            let from = format!(".version {version}");
            let lower = ptx.text().replacen(&from, &format!(".version {}", versions[at - 1]), 1);
            assert!(ptxas.assemble(&lower, &target, &[]).is_err(), "{key}: needs no {version}");
        }
        let lower = match target.as_str() {
            "sm_90a" => "sm_90",
            "sm_90" => "sm_89",
            "sm_89" => "sm_86",
            _ => continue,
        };
        let from = format!(".target {target}\n");
        let text = ptx.text().replacen(&from, &format!(".target {lower}\n"), 1);
        assert!(ptxas.assemble(&text, lower, &[]).is_err(), "{key}: {lower} has it");
    }
    assert!(count > 50, "only {count} operations were tried");
    said(&format!("{count} lower versions refused"));
}

/// Registers of a class, in braces.
fn registers(class: &str, count: u32) -> String {
    let names: Vec<String> = (0..count.max(1)).map(|i| format!("%{class}{i}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// PTX's name of the elements of a matrix, where it has one.
fn element(scalar: Scalar) -> Option<&'static str> {
    Some(match scalar {
        Scalar::I8 => "s8",
        Scalar::U8 => "u8",
        Scalar::F8E4M3 => "e4m3",
        Scalar::F8E5M2 => "e5m2",
        Scalar::F16 => "f16",
        Scalar::Bf16 => "bf16",
        Scalar::Tf32 => "tf32",
        Scalar::F64 => "f64",
        _ => return None,
    })
}

/// Returns the registers of `count` accumulators and PTX's name of their type.
fn sums(ty: Type, count: u32) -> (String, &'static str) {
    match ty {
        Type::Scalar(Scalar::F64) => (registers("fd", count), "f64"),
        Type::Scalar(Scalar::I32) => (registers("r", count), "s32"),
        Type::Vector(_) => (registers("r", count / 2), "f16"),
        _ => (registers("f", count), "f32"),
    }
}

/// The candidates that there are not, as PTX would have them, with the reason.
fn refused_products() -> Vec<(String, String)> {
    let mut raw = Raw::new("refused", Target::SM_90A);
    let mut cells = Cells::new(&mut raw);
    cells.row("mma_sync");
    cells.row("mma_sync_sp");
    let (all, legal) = (forms(), wgmma_types());
    for types in FACTORS.into_iter().flat_map(|a| FACTORS.map(|b| [a, b])) {
        SUMS.into_iter().for_each(|sum| cells.wgmma(types, sum, 8, &all[..1]));
    }
    for (types, sum) in legal {
        [12, 40, 72, 264].into_iter().for_each(|n| cells.wgmma(types, sum, n, &all[..1]));
        let single = [1, 2, 4, 8, 16].map(|bits: usize| all[bits]);
        cells.wgmma(types, sum, 8, &single);
    }
    let mut texts = BTreeMap::new();
    for cell in cells.into_cells() {
        let Err(reason) = cell.op.support(&raw.ir) else { continue };
        let ty = |value| raw.ir.type_of(value);
        let part = |ty: Type| match ty {
            Type::Vector(vector) => vector.elem(),
            Type::Scalar(scalar) => scalar,
            _ => Scalar::Bool,
        };
        let text = match cell.op {
            Op::Mma(
                Mma::MmaSync { a, b, shape, d, overflow, .. }
                | Mma::MmaSyncSp { a, b, shape, d, overflow, .. },
            ) => {
                // A sparse A has half of its elements, and a selector behind its metadata.
                let (name, kept, rest) = match cell.op {
                    // `ptxas` 13.0 takes any selector here, and 0 or 1 for `bf16`, as the PTX ISA
                    // says of both.
                    Op::Mma(Mma::MmaSyncSp { selector: 2.., .. })
                        if shape.k == 32 && part(ty(a)) == Scalar::F16 =>
                    {
                        continue;
                    }
                    Op::Mma(Mma::MmaSyncSp { selector, .. }) => {
                        ("mma.sp::ordered_metadata", 64, format!(", %r9, {selector}"))
                    }
                    _ => ("mma", 32, String::new()),
                };
                let whole = ty(a).bits() * kept == shape.m * shape.k * part(ty(a)).bits();
                if !whole || ty(b).bits() * 32 != shape.n * shape.k * part(ty(b)).bits() {
                    // No value holds what a thread has.
                    continue;
                }
                let [(a, a_type), (b, b_type)] = [a, b].map(|value| {
                    let bits = ty(value).bits();
                    let elem = part(ty(value));
                    let class = if elem == Scalar::F64 { "fd" } else { "r" };
                    let width = if elem == Scalar::F64 { 64 } else { 32 };
                    (registers(class, bits / width), element(elem))
                });
                let (Some(a_type), Some(b_type)) = (a_type, b_type) else { continue };
                let (d, sum) = sums(raw.ir.vars[d].ty, shape.m * shape.n / 32);
                let types = format!("{sum}.{a_type}.{b_type}.{sum}");
                let form = if overflow == MmaOverflow::Wrap { "" } else { ".satfinite" };
                format!(
                    "{name}.sync.aligned.{shape}.row.col{form}.{types} {d}, {a}, {b}, {d}{rest};"
                )
            }
            Op::Mma(Mma::Wgmma { shape, a_type, b_type, d, form, .. }) => {
                let (Some(a), Some(b)) = (element(a_type), element(b_type)) else { continue };
                let (d, sum) = sums(raw.ir.vars[d].ty, shape.m * shape.n / 128);
                let satfinite = if form.satfinite { ".satfinite" } else { "" };
                let sign = |negative: bool| if negative { -1 } else { 1 };
                let mut rest = String::new();
                if !a_type.is_int() || form.negate_a || form.negate_b {
                    rest += &format!(", {}, {}", sign(form.negate_a), sign(form.negate_b));
                }
                if a_type.bits() == 16 || form.transpose_a || form.transpose_b {
                    let [a, b] = [form.transpose_a, form.transpose_b].map(u8::from);
                    rest += &format!(", {a}, {b}");
                }
                let name = format!("wgmma.mma_async.sync.aligned.{shape}{satfinite}.{sum}.{a}.{b}");
                format!("{name} {d}, %rd0, %rd1, %p0{rest};")
            }
            _ => continue,
        };
        texts.insert(text, reason.to_owned());
    }
    texts.into_iter().collect()
}

/// Neighbours of existing operations that do not exist.
const REFUSED: [&str; 36] = [
    "atom.relaxed.gpu.shared.add.v2.f32 {%f0, %f1}, [%r0], {%f2, %f3};",
    "atom.relaxed.gpu.shared.add.noftz.v2.f16x2 {%r1, %r2}, [%r0], {%r3, %r4};",
    "atom.relaxed.gpu.global.min.v2.f32 {%f0, %f1}, [%rd0], {%f2, %f3};",
    "atom.relaxed.gpu.global.min.noftz.f16x2 %r0, [%rd0], %r1;",
    "atom.relaxed.gpu.global.min.noftz.bf16 %h0, [%rd0], %h1;",
    "atom.relaxed.gpu.global.exch.b16 %h0, [%rd0], %h1;",
    "atom.relaxed.gpu.local.add.u32 %r0, [%rd0], %r1;",
    "ld.volatile.local.u32 %r0, [%rd0];",
    "ld.relaxed.gpu.const.u32 %r0, [%rd0];",
    "st.release.gpu.local.u32 [%rd0], %r0;",
    "isspacep.generic %p0, %rd0;",
    "redux.sync.min.f32 %f0, %f1, -1;",
    "setmaxnreg.inc.sync.aligned.u32 16;",
    "setmaxnreg.inc.sync.aligned.u32 28;",
    "setmaxnreg.dec.sync.aligned.u32 264;",
    "cp.async.ca.shared.global [%r0], [%rd0], 2;",
    "cp.async.ca.shared.global [%r0], [%rd0], 12;",
    "cp.async.ca.shared.global [%r0], [%rd0], 32;",
    "cp.async.cg.shared.global [%r0], [%rd0], 4;",
    "cp.async.cg.shared.global [%r0], [%rd0], 8;",
    "cp.async.ca.shared.global [%r0], [%rd0], 4, 5;",
    "cp.async.ca.global.shared [%rd0], [%r0], 4;",
    "cp.async.bulk.prefetch.L2.global [%rd0], 8;",
    "cp.async.bulk.prefetch.L2.global [%rd0], 1048576;",
    "cp.async.bulk.prefetch.L2.shared::cta [%r0], 16;",
    "cp.async.bulk.global.global.bulk_group [%rd0], [%rd1], 16;",
    "mbarrier.init.global.b64 [%rd0], 1;",
    "mbarrier.init.shared.b32 [%r0], 1;",
    "mbarrier.arrive.shared.b64 %rd0, [%r0], 0;",
    "mbarrier.test_wait.parity.shared.b64 %p0, [%r0], 2;",
    "mbarrier.try_wait.parity.shared.b64 %p0, [%r0], 2;",
    "ldmatrix.sync.aligned.m8n8.x1.global.b16 {%r0}, [%rd0];",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b32 {%r0}, [%r0];",
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r0], {%r0, %r1};",
    "movmatrix.sync.aligned.m8n8.trans.b32 %r0, %r1;",
    "movmatrix.sync.aligned.m8n8.trans.b16 %rd0, %rd1;",
];

/// The start of a kernel with registers of all classes.
const HEADER: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n\
     .reg .b32 %r<256>; .reg .f32 %f<256>; .reg .b64 %rd<256>; .reg .f64 %fd<256>; .reg .pred %p<2>; .reg .b16 %h<2>;\n";

/// The assembler refuses what the table of operations refuses: each instruction is an error of its
/// line.
#[test]
fn what_is_refused_is_not_there() {
    let Some(ptxas) = ptxas::find() else { return };
    let mut all = refused_products();
    assert!(all.len() > 300, "only {} products are refused", all.len());
    all.extend(REFUSED.map(|text| (text.to_owned(), "it is in the list".to_owned())));
    let mut accepted = Vec::new();
    // The assembler gives up after many errors.
    for some in all.chunks(60) {
        let mut text = HEADER.to_owned();
        let first = text.lines().count() + 1;
        some.iter().for_each(|(line, _)| text += &format!("{line}\n"));
        text += "ret;\n}\n";
        let problem = ptxas.assemble(&text, "sm_90a", &[]).expect_err("none of it is there");
        let lines: BTreeSet<usize> = problem
            .split("line ")
            .skip(1)
            .filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
            .collect();
        for (number, cell) in (first..).zip(some) {
            if !lines.contains(&number) {
                accepted.push(cell);
            }
        }
    }
    // Beside many errors the assembler leaves some out: what is accepted is accepted alone.
    accepted.retain(|(line, _)| {
        let text = format!("{HEADER}{line}\nret;\n}}\n");
        ptxas.assemble(&text, "sm_90a", &[]).is_ok()
    });
    said(&format!("{} operations beside the table refused", all.len()));
    assert!(accepted.is_empty(), "accepted, though refused here: {accepted:#?}");
}

/// Numbers that are constants only after arithmetic on constants, which the verifier does not see:
/// what no instruction takes as an immediate is in a register.
#[test]
fn numbers_that_become_constants() {
    let mut raw = Raw::new("folded", Target::SM_90A);
    let [one, most] =
        [1, u64::from(u32::MAX)].map(|bits| raw.get(Op::Const(Const::new(Scalar::U32, bits))));
    let [zero, two] =
        [raw.get(Arith::Add { lhs: one, rhs: most }), raw.get(Arith::Add { lhs: one, rhs: one })];
    let index = raw.constant(Scalar::I32, 0);
    let barrier = raw.unknown(pointer(Space::Shared, Scalar::U64));
    let to = raw.unknown(pointer(Space::Shared, Scalar::F32));
    let from = raw.unknown(pointer(Space::Global, Scalar::F32));
    let state = raw.get(Mbarrier::MbarrierArrive { barrier, index, count: zero });
    raw.consume(state);
    raw.op(Mbarrier::MbarrierWaitParity { barrier, index, parity: two });
    let ended = raw.get(Mbarrier::MbarrierTestWaitParity { barrier, index, parity: two });
    raw.consume(ended);
    let ended = raw.get(Mbarrier::MbarrierTryWait { barrier, index, state });
    raw.consume(ended);
    let state = raw.constant(Scalar::U64, 5);
    let ended = raw.get(Mbarrier::MbarrierTryWait { barrier, index, state });
    raw.consume(ended);
    let read = raw.get(Arith::Mul { lhs: two, rhs: most });
    raw.op(AsyncCopy::CpAsync {
        to,
        to_index: index,
        from,
        from_index: index,
        src_bytes: read,
        cache: tilewright::ir::op::CpAsyncCache::Ca,
        bytes: 4,
    });
    let policy = Default::default();
    raw.op(AsyncCopy::CpAsyncBulkPrefetch { from, from_index: index, bytes: two, policy });
    check_modules(&[raw.finish()], &[]);
}

#[test]
fn the_depth_of_a_wgmma_is_that_of_its_types() {
    assert_eq!([Scalar::F16, Scalar::Tf32, Scalar::U8].map(wgmma_depth), [16, 8, 32]);
}
