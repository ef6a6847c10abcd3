//! Prints a page with all operations, their types and the targets that support them:
//! `cargo run --package xtask -- ops`. Read it to learn whether an operation accepts a type on a
//! GPU. The answers come from the operation table (`OpInfo`), from `Op::support` and from the
//! verifier.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use tilewright::ir::op::{
    Arith, AsyncCopy, Atomic, BarrierForm, BarrierRed, Cache, Control, Convert, FenceOrder,
    FloatArith, IntArith, L1Evict, L2Prefetch, LoadAccess, LoadCache, Mbarrier, Mem, MemScope, Mma,
    Op, OpInfo, PrefetchLevel, ProxySpace, ReduxOp, ShflMode, SpecialReg, StoreAccess, StoreCache,
    Sync, Thread, VolatileReg, VoteMode, Warp,
};
use tilewright::ir::types::{Scalar, Space, Type, VectorType};
use tilewright::ir::{
    ArrayData, GlobalData, Kernel, LocalData, SharedData, Target, Value, VerifyError,
};

#[path = "../../tests/support/atomic_cells.rs"]
mod atomic_cells;
#[path = "../../tests/support/raw.rs"]
#[allow(dead_code, reason = "each user needs a part of it")]
mod raw;
#[path = "../../tests/support/tensor_cells.rs"]
#[allow(dead_code, reason = "each user needs a part of it")]
mod tensor_cells;

use raw::Raw;
use tensor_cells::{Cells, FACTORS, SUMS, forms};

const TARGETS: [Target; 4] = [Target::SM_80, Target::SM_89, Target::SM_90, Target::SM_90A];

/// The first target that supports a case, or why none does.
type Answer = Result<Target, String>;

/// One case of a row: a value for each axis, and the answer.
struct Case {
    axes: Vec<(String, String)>,
    answer: Answer,
}

/// All cases of a row.
#[derive(Default)]
struct Cases(Vec<Case>);

impl Cases {
    /// Adds an operation with the types in `types`. Its attributes come from the operation itself.
    fn add(&mut self, op: &Op, types: &[(&str, String)], answer: Answer) {
        let mut axes: Vec<(String, String)> =
            types.iter().map(|(name, text)| ((*name).to_owned(), text.clone())).collect();
        let info = op.info().map_or(&[][..], |info| info.attributes);
        for ((name, ty), text) in info.iter().zip(op.attributes()) {
            match (*name, *ty) {
                // It does not matter which variable or array it is, nor which bit function.
                (_, "VarId" | "SharedId" | "LocalId" | "ArrayId" | "GlobalId")
                | ("first" | "table", _) => {}
                // The types say this already.
                ("a_type" | "b_type", _) => {}
                ("shape", _) if op.name().starts_with("wgmma") => {
                    let (rows, depth) = text.split_once('k').unwrap_or((&text, ""));
                    let columns = rows.split_once('n').map_or("", |(_, columns)| columns);
                    axes.push(("n".to_owned(), columns.to_owned()));
                    axes.push(("k".to_owned(), depth.to_owned()));
                }
                (_, "WgmmaForm") => {
                    for (name, start) in
                        [("negated", "neg_"), ("transposed", "tnsp_"), ("satfinite", "satfinite")]
                    {
                        let parts: Vec<&str> =
                            text.split('.').filter_map(|part| part.strip_prefix(start)).collect();
                        let text = match (start, parts.is_empty()) {
                            ("satfinite", false) => "yes".to_owned(),
                            _ => nothing(&parts.join(" and ")),
                        };
                        axes.push((name.to_owned(), text));
                    }
                }
                (_, "FloatMode") => {
                    let mut parts: Vec<&str> = text.split('.').collect();
                    let rounding = parts.remove(0);
                    let ftz = parts.first() == Some(&"ftz");
                    let clamp = parts[usize::from(ftz)..].join(".");
                    axes.push(("rounding".to_owned(), rounding.to_owned()));
                    axes.push((
                        "subnormals".to_owned(),
                        if ftz { "ftz" } else { "kept" }.to_owned(),
                    ));
                    axes.push(("clamp".to_owned(), nothing(&clamp)));
                }
                _ => axes.push(((*name).to_owned(), nothing(&text))),
            }
        }
        self.0.push(Case { axes, answer });
    }

    /// Adds an operation that stands alone in a kernel. `make` creates it.
    fn verified(&mut self, types: &[(&str, String)], make: impl FnOnce(&mut Raw) -> Op) {
        let mut raw = Raw::new("asked", Target::SM_90A);
        let op = make(&mut raw);
        raw.op(op.clone());
        raw.op(Control::Return);
        let answer = match Kernel::verify(raw.ir.clone()) {
            // The target has to support the operands, too, because for example an operation creates
            // a pointer into the cluster.
            Ok(_) => raw.ir.ops.iter().try_fold(Target::SM_80, |first, (_, data)| {
                let own = data.op.support(&raw.ir).map_err(str::to_owned)?;
                Ok(first.max(own))
            }),
            Err(errors) => {
                Err(errors.iter().next().map(|found| reason(&found.error)).unwrap_or_default())
            }
        };
        self.add(&op, types, answer);
    }
}

const NO_VECTOR: &str = "there is no such vector: a vector has 2, 4, 8 or 16 elements other than bool, and at most 128 bits";

/// Returns the text, or `-` if it is empty.
fn nothing(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

fn reason(error: &VerifyError) -> String {
    match error {
        VerifyError::NotInPtx { reason, .. } => (*reason).to_owned(),
        VerifyError::AtomicType { expected, .. } => format!("it takes {expected}"),
        VerifyError::OrderSpace { .. } => {
            "orders need memory that several threads can see and write".to_owned()
        }
        VerifyError::AtomicSpace { .. } => "no other thread can see the memory".to_owned(),
        VerifyError::CacheSpace { .. } => "only global memory is cached".to_owned(),
        VerifyError::ReadOnlyPointer { .. } => "the memory is read-only".to_owned(),
        VerifyError::NoSuchVector { .. } => NO_VECTOR.to_owned(),
        other => other.to_string(),
    }
}

fn arith(row: &str, cases: &mut Cases) {
    let all: Vec<Op> = raw::arith().into_iter().filter(|op| raw::info(op).name == row).collect();
    let Some(info) = all.first().map(raw::info) else { return };
    let mut kernel = Raw::new("asked", Target::SM_90A);
    let mut known: HashMap<Type, Value> = HashMap::new();
    let mut types = raw::types();
    types.retain(|ty| info.class.contains(*ty) && !matches!(ty, Type::Pointer { .. }));
    let constraints = info.operands.iter().chain(&info.list);
    if !constraints.into_iter().any(|(_, c)| *c == tilewright::ir::op::Constraint::T) {
        // Only the signedness matters.
        types = vec![Scalar::I8.into(), Scalar::U8.into()];
    }
    for op in &all {
        for &ty in &types {
            let operands: Vec<Value> = raw::operand_types(op, ty)
                .into_iter()
                .map(|ty| *known.entry(ty).or_insert_with(|| kernel.unknown(ty)))
                .collect();
            let op = raw::with_operands(op, &operands);
            let mut answer = op.support(&kernel.ir).map_err(str::to_owned);
            let lane = match op {
                Op::Convert(Convert::VecExtract { lane, .. }) => {
                    ty.vector().is_some_and(|v| lane < v.lanes())
                }
                _ => true,
            };
            if !lane {
                answer = Err("the vector has no such element".to_owned());
            } else if op.result_types(&kernel.ir).is_empty() {
                answer = answer.and(Err(NO_VECTOR.to_owned()));
            }
            cases.add(&op, &[("T", ty.to_string())], answer);
        }
    }
}

fn load_accesses() -> Vec<LoadAccess> {
    let plain = LoadAccess::default();
    let mut all = vec![plain, plain.volatile()];
    all.extend(
        MemScope::ALL.iter().flat_map(|scope| [plain.relaxed(*scope), plain.acquire(*scope)]),
    );
    all.extend(LoadCache::ALL.iter().map(|cache| LoadAccess { cache: Some(*cache), ..plain }));
    all.extend(L1Evict::ALL.iter().map(|evict| LoadAccess { l1_evict: Some(*evict), ..plain }));
    all.extend(L2Prefetch::ALL.iter().map(|size| LoadAccess { l2_prefetch: Some(*size), ..plain }));
    all.push(LoadAccess { non_coherent: true, ..plain });
    all
}

fn store_accesses() -> Vec<StoreAccess> {
    let plain = StoreAccess::default();
    let mut all = vec![plain, plain.volatile()];
    all.extend(
        MemScope::ALL.iter().flat_map(|scope| [plain.relaxed(*scope), plain.release(*scope)]),
    );
    all.extend(StoreCache::ALL.iter().map(|cache| StoreAccess { cache: Some(*cache), ..plain }));
    all.extend(L1Evict::ALL.iter().map(|evict| StoreAccess { l1_evict: Some(*evict), ..plain }));
    all
}

/// Returns a pointer as kernels have it in this state space.
fn base(raw: &mut Raw, space: Space, elem: Scalar) -> Value {
    let mutable = space != Space::Const;
    raw.unknown(Type::Pointer { space, elem, mutable })
}

fn index(raw: &mut Raw) -> Value {
    raw.unknown(Scalar::I32.into())
}

fn memory(row: &str, cases: &mut Cases) {
    for space in Space::ALL {
        for elem in Scalar::ALL {
            let types = [("elements", elem.to_string()), ("space", space.to_string())];
            match row {
                "ld" => load_accesses().into_iter().for_each(|access| {
                    cases.verified(&types, |k| {
                        let (base, index) = (base(k, space, elem), index(k));
                        Mem::Ld { base, index, access }.into()
                    });
                }),
                "st" => store_accesses().into_iter().for_each(|access| {
                    cases.verified(&types, |k| {
                        let (base, index) = (base(k, space, elem), index(k));
                        let value = k.unknown(elem.into());
                        Mem::St { base, index, value, access }.into()
                    });
                }),
                "ld_vec" | "st_vec" => {
                    for lanes in [2, 4, 8, 16] {
                        let access = Default::default();
                        let vector = VectorType::new(elem, lanes);
                        if row == "ld_vec" {
                            cases.verified(&types, |k| {
                                let (base, index) = (base(k, space, elem), index(k));
                                let base = k.get(Mem::AssumeAligned { base, bytes: 16 });
                                Mem::LdVec { base, index, lanes, access }.into()
                            });
                        } else if let Some(vector) = vector {
                            let access = Default::default();
                            let mut types = types.to_vec();
                            types.push(("lanes", lanes.to_string()));
                            cases.verified(&types, |k| {
                                let (base, index) = (base(k, space, elem), index(k));
                                let base = k.get(Mem::AssumeAligned { base, bytes: 16 });
                                let vector = k.unknown(vector.into());
                                Mem::StVec { base, index, vector, access }.into()
                            });
                        }
                    }
                }
                "assume_aligned" => [1, 3, 16].into_iter().for_each(|bytes| {
                    cases.verified(&types, |k| {
                        Mem::AssumeAligned { base: base(k, space, elem), bytes }.into()
                    });
                }),
                "offset" => cases.verified(&types, |k| {
                    let (base, index) = (base(k, space, elem), index(k));
                    Mem::Offset { base, index }.into()
                }),
                "ptr_cast" => Scalar::ALL.into_iter().for_each(|to| {
                    cases.verified(&types, |k| {
                        Mem::PtrCast { base: base(k, space, elem), to }.into()
                    });
                }),
                "shared_base" if space == Space::Shared => {
                    cases.verified(&types, |k| {
                        let location = k.ir.values.iter().next().map(|(_, value)| value.location);
                        let location = location.unwrap_or_else(|| {
                            k.ir.location(tilewright::ir::SourceLocation::caller())
                        });
                        let data =
                            SharedData { elem, len: 8, align_bytes: elem.size_bytes(), location };
                        let shared = k.ir.shared.push(data);
                        Mem::SharedBase { shared }.into()
                    });
                }
                "local_base" if space == Space::Local => cases.verified(&types, |k| {
                    let location = k.ir.location(tilewright::ir::SourceLocation::caller());
                    let local = k.ir.locals.push(LocalData { elem, len: 8, location });
                    Mem::LocalBase { local }.into()
                }),
                "getctarank" => cases
                    .verified(&types, |k| Mem::Getctarank { base: base(k, space, elem) }.into()),
                "ptr_to_int" => {
                    cases.verified(&types, |k| Mem::PtrToInt { base: base(k, space, elem) }.into())
                }
                "cvta" => {
                    cases.verified(&types, |k| Mem::Cvta { base: base(k, space, elem) }.into())
                }
                "cvta_to" | "isspacep" => Space::ALL.into_iter().for_each(|into| {
                    let types = [("elements", elem.to_string()), ("pointer", space.to_string())];
                    cases.verified(&types, |k| {
                        let mutable = into != Space::Const && space != Space::Const;
                        let base = k.unknown(Type::Pointer { space, elem, mutable });
                        match row {
                            "cvta_to" => Mem::CvtaTo { base, space: into }.into(),
                            _ => Mem::Isspacep { base, space: into }.into(),
                        }
                    });
                }),
                "array_base" if space == Space::Const => cases.verified(&types, |k| {
                    let location = k.ir.location(tilewright::ir::SourceLocation::caller());
                    let array = k.ir.arrays.push(ArrayData { elem, bits: [1; 8].into(), location });
                    Mem::ArrayBase { array }.into()
                }),
                "global_base" if space == Space::Global => cases.verified(&types, |k| {
                    let location = k.ir.location(tilewright::ir::SourceLocation::caller());
                    let global =
                        k.ir.globals.push(GlobalData { elem, len: 8, bits: [1].into(), location });
                    Mem::GlobalBase { global }.into()
                }),
                _ => {}
            }
        }
    }
    for scalar in Scalar::ALL {
        let types = [("type", scalar.to_string())];
        match row {
            "assume_divisible_by" => cases.verified(&types, |k| {
                Mem::AssumeDivisibleBy { value: k.unknown(scalar.into()), divisor: 4 }.into()
            }),
            "assume_between" => cases.verified(&types, |k| {
                let [value, low, high] = [(); 3].map(|()| k.unknown(scalar.into()));
                Mem::AssumeBetween { value, low, high }.into()
            }),
            "int_to_ptr" => cases.verified(&types, |k| {
                Mem::IntToPtr { address: k.unknown(scalar.into()), to: Scalar::F32 }.into()
            }),
            _ => {}
        }
    }
    if matches!(row, "get_var" | "set_var") {
        for ty in raw::types() {
            let text = match ty {
                Type::Pointer { space, .. } => format!("pointer to {space}"),
                ty => ty.to_string(),
            };
            cases.verified(&[("type", text)], |k| {
                let value = k.unknown(ty);
                let var = k.var(value);
                match row {
                    "get_var" => Mem::GetVar { var, index: 1 }.into(),
                    _ => Mem::SetVar { value, var, index: 0 }.into(),
                }
            });
        }
    }
}

fn atomic(row: &str, cases: &mut Cases) {
    atomic_cells::each(row, |types, make| cases.verified(types, make));
}

fn cache(row: &str, cases: &mut Cases) {
    for space in [Space::Global, Space::Shared] {
        let mut with = |make: &dyn Fn(Value, Value) -> Cache| {
            cases.verified(&[("space", space.to_string())], |k| {
                let (base, index) = (base(k, space, Scalar::F32), index(k));
                make(base, index).into()
            });
        };
        match row {
            "prefetch" => PrefetchLevel::ALL.iter().for_each(|&level| {
                with(&|base, index| Cache::Prefetch { base, index, level });
            }),
            "discard" => with(&|base, index| Cache::Discard { base, index }),
            "applypriority" => with(&|base, index| Cache::Applypriority { base, index }),
            _ => {}
        }
    }
}

fn sync(row: &str, cases: &mut Cases) {
    let u32 = |k: &mut Raw| k.unknown(Scalar::U32.into());
    let mut with = |make: &dyn Fn(Value, Value) -> Sync| {
        cases.verified(&[], |k| {
            let pred = k.unknown(Type::BOOL);
            make(u32(k), pred).into()
        });
    };
    match row {
        "barrier" => with(&|_, _| Sync::Barrier {}),
        "fence" => {
            for &order in FenceOrder::ALL {
                for &scope in MemScope::ALL {
                    with(&|_, _| Sync::Fence { order, scope });
                }
            }
        }
        "fence_proxy_async" => {
            for &space in ProxySpace::ALL {
                with(&|_, _| Sync::FenceProxyAsync { space });
            }
        }
        "griddepcontrol_wait" => with(&|_, _| Sync::GriddepcontrolWait {}),
        "griddepcontrol_launch_dependents" => {
            with(&|_, _| Sync::GriddepcontrolLaunchDependents {});
        }
        _ => {}
    }
    for &form in BarrierForm::ALL {
        match row {
            "barrier_sync" => with(&|id, _| Sync::BarrierSync { id, threads: id, form }),
            "barrier_arrive" => with(&|id, _| Sync::BarrierArrive { id, threads: id, form }),
            "barrier_red" => {
                for &op in BarrierRed::ALL {
                    with(&|id, pred| Sync::BarrierRed { pred, id, threads: id, op, form });
                }
            }
            "barrier_red_popc" => {
                with(&|id, pred| Sync::BarrierRedPopc { pred, id, threads: id, form });
            }
            _ => {}
        }
    }
}

fn warp(info: &OpInfo, cases: &mut Cases) {
    let takes_types = info.operands.iter().any(|(_, c)| *c == tilewright::ir::op::Constraint::T);
    let types: Vec<Type> = if takes_types {
        raw::types().into_iter().filter(|ty| info.class.contains(*ty)).collect()
    } else {
        vec![Type::BOOL]
    };
    for ty in types {
        let text = [("T", ty.to_string())];
        let mut with = |make: &dyn Fn([Value; 3]) -> Warp| {
            cases.verified(&text, |k| {
                let members = k.get(Thread::Sreg { reg: SpecialReg::LaneMaskEq });
                make([k.unknown(ty), k.unknown(Scalar::U32.into()), members]).into()
            });
        };
        match info.name {
            "shfl" => ShflMode::ALL.iter().for_each(|&mode| {
                with(&|[value, lane, members]| Warp::Shfl {
                    value,
                    lane,
                    segment: lane,
                    members,
                    mode,
                });
            }),
            "vote" => VoteMode::ALL.iter().for_each(|&mode| {
                with(&|[pred, _, members]| Warp::Vote { pred, members, mode });
            }),
            "vote_ballot" => with(&|[pred, _, members]| Warp::VoteBallot { pred, members }),
            "match_any" => with(&|[value, _, members]| Warp::MatchAny { value, members }),
            "match_all" => with(&|[value, _, members]| Warp::MatchAll { value, members }),
            "redux" => ReduxOp::ALL.iter().for_each(|&op| {
                with(&|[value, _, members]| Warp::Redux { value, members, op });
            }),
            "elect" => with(&|[_, _, members]| Warp::Elect { members }),
            "bar_warp" => with(&|[_, _, members]| Warp::BarWarp { members }),
            "activemask" => with(&|_| Warp::Activemask {}),
            _ => {}
        }
    }
}

fn thread(row: &str, cases: &mut Cases) {
    match row {
        "sreg" => arith(row, cases),
        "volatile_sreg" => VolatileReg::ALL.iter().for_each(|&reg| {
            cases.verified(&[], |_| Thread::VolatileSreg { reg }.into());
        }),
        "nanosleep" => cases.verified(&[], |k| {
            Thread::Nanosleep { nanoseconds: k.unknown(Scalar::U32.into()) }.into()
        }),
        "trap" => cases.verified(&[], |_| Thread::Trap {}.into()),
        "brkpt" => cases.verified(&[], |_| Thread::Brkpt {}.into()),
        _ => {}
    }
}

/// Returns whether `wgmma` takes these types.
fn are_multiplied(types: [Scalar; 2], sum: Type) -> bool {
    let mut raw = Raw::new("asked", Target::SM_90A);
    let mut cells = Cells::new(&mut raw);
    cells.wgmma(types, sum, 8, &forms()[..1]);
    cells.into_cells().iter().any(|cell| cell.op.support(&raw.ir).is_ok())
}

/// Handles tensor cores, mbarriers and asynchronous copies.
fn tensor(row: &str, cases: &mut Cases) {
    let mut raw = Raw::new("asked", Target::SM_90A);
    let mut cells = Cells::new(&mut raw);
    let is_sparse = matches!(row, "wgmma_sp" | "wgmma_rs_sp");
    if is_sparse || matches!(row, "wgmma" | "wgmma_rs") {
        let (all, columns) = (forms(), (0..=264).step_by(4));
        let pairs = FACTORS.into_iter().flat_map(|a| FACTORS.map(|b| [a, b]));
        for (types, sum) in pairs.flat_map(|types| SUMS.map(|sum| (types, sum))) {
            // If the types are not supported, all forms give the same answer.
            let forms = if are_multiplied(types, sum) { &all[..] } else { &all[..1] };
            columns.clone().for_each(|n| match is_sparse {
                true => cells.sparse_wgmma(types, sum, n, (forms, &[0, 1, 2, 3])),
                false => cells.wgmma(types, sum, n, forms),
            });
        }
    } else {
        cells.row(row);
    }
    for cell in cells.into_cells() {
        if cell.op.name() == row {
            let answer = cell.op.support(&raw.ir).map_err(str::to_owned);
            cases.add(&cell.op, &cell.types, answer);
        }
    }
}

/// A set of cases with the same answer: for each axis a bit set of its values.
type Block = (Vec<u128>, Answer);

/// Merges a row's cases into few blocks. Also returns the names of the axes and of their values.
fn blocks(cases: &Cases) -> (Vec<(String, Vec<String>)>, Vec<Block>) {
    let mut axes: Vec<(String, Vec<String>)> = Vec::new();
    let mut blocks: Vec<Block> = Vec::new();
    for case in &cases.0 {
        let mut sets = Vec::new();
        for (number, (name, text)) in case.axes.iter().enumerate() {
            if axes.len() <= number {
                axes.push((name.clone(), Vec::new()));
            }
            let values = &mut axes[number].1;
            let at = values.iter().position(|value| value == text).unwrap_or_else(|| {
                values.push(text.clone());
                values.len() - 1
            });
            assert!(at < 128, "an axis has at most 128 values");
            sets.push(1u128 << at);
        }
        blocks.push((sets, case.answer.clone()));
    }
    loop {
        let before = blocks.len();
        for axis in 0..axes.len() {
            let mut merged: BTreeMap<(Vec<u128>, Answer), u128> = BTreeMap::new();
            for (mut sets, answer) in blocks {
                let set = std::mem::take(&mut sets[axis]);
                *merged.entry((sets, answer)).or_default() |= set;
            }
            blocks = merged
                .into_iter()
                .map(|((mut sets, answer), set)| {
                    sets[axis] = set;
                    (sets, answer)
                })
                .collect();
        }
        if blocks.len() == before {
            break;
        }
    }
    // Supported cases come first, then in the order of the values.
    blocks.sort_by_key(|(sets, answer)| {
        let first: Vec<u32> = sets.iter().map(|set| set.trailing_zeros()).collect();
        (answer.is_err(), first, sets.clone())
    });
    (axes, blocks)
}

/// Writes evenly spaced integers as `8 to 256 by 8`, and other texts one by one.
fn list(values: &[&str]) -> String {
    let numbers: Option<Vec<i64>> = values.iter().map(|value| value.parse().ok()).collect();
    let Some(mut numbers) = numbers else { return values.join(", ") };
    numbers.sort_unstable();
    let (mut parts, mut from) = (Vec::new(), 0);
    while from < numbers.len() {
        let step = numbers.get(from + 1).map_or(0, |next| next - numbers[from]);
        let run =
            (from..numbers.len() - 1).take_while(|i| numbers[i + 1] - numbers[*i] == step).count();
        if run >= 3 {
            parts.push(format!("{} to {} by {step}", numbers[from], numbers[from + run]));
            from += run + 1;
        } else {
            parts.push(numbers[from].to_string());
            from += 1;
        }
    }
    parts.join(", ")
}

fn set(values: &[String], set: u128) -> String {
    let chosen = |wanted: bool| -> Vec<&str> {
        let all = values.iter().enumerate();
        all.filter(|(i, _)| (set >> i & 1 == 1) == wanted)
            .map(|(_, value)| value.as_str())
            .collect()
    };
    let (inside, outside) = (chosen(true), chosen(false));
    if outside.is_empty() {
        "any".to_owned()
    } else if inside.len() > 6 && outside.len() * 2 < inside.len() {
        format!("any but {}", list(&outside))
    } else {
        list(&inside)
    }
}

/// Returns the doc comment above a row of the operation table.
fn documentation(row: &str) -> String {
    let mut doc = String::new();
    let table = concat!(
        include_str!("../../src/ir/op/table/number.rs"),
        include_str!("../../src/ir/op/table/memory.rs"),
        include_str!("../../src/ir/op/table/sync.rs"),
        include_str!("../../src/ir/op/table/warp.rs"),
    );
    for line in table.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            doc = format!("{doc} {text}");
        } else if line.strip_prefix(row).is_some_and(|rest| rest.starts_with(" = ")) {
            break;
        } else {
            doc.clear();
        }
    }
    // Links are only for rustdoc.
    doc.trim().replace("[`", "`").replace("`]", "`")
}

/// Returns the whole document.
pub(crate) fn document() -> String {
    let mut reasons: Vec<String> = Vec::new();
    let mut number = |reason: String| {
        let at = reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
            reasons.push(reason);
            reasons.len() - 1
        });
        at + 1
    };
    let mut rows = String::new();
    let families = [
        ("Arith", Arith::INFO),
        ("FloatArith", FloatArith::INFO),
        ("IntArith", IntArith::INFO),
        ("Convert", Convert::INFO),
        ("Mem", Mem::INFO),
        ("Atomic", Atomic::INFO),
        ("Cache", Cache::INFO),
        ("Sync", Sync::INFO),
        ("Mma", Mma::INFO),
        ("Mbarrier", Mbarrier::INFO),
        ("AsyncCopy", AsyncCopy::INFO),
        ("Warp", Warp::INFO),
        ("Thread", Thread::INFO),
    ];
    let counted: usize = families.iter().map(|(_, infos)| infos.len()).sum();
    assert_eq!(counted, Op::table().count(), "a family is missing");
    for (family, infos) in families {
        let _ = writeln!(rows, "\n## {family}");
        for info in infos {
            let mut cases = Cases::default();
            match family {
                "Arith" | "FloatArith" | "IntArith" | "Convert" => arith(info.name, &mut cases),
                "Mem" => {
                    memory(info.name, &mut cases);
                    tensor(info.name, &mut cases);
                }
                "Atomic" => atomic(info.name, &mut cases),
                "Cache" => cache(info.name, &mut cases),
                "Sync" => {
                    sync(info.name, &mut cases);
                    tensor(info.name, &mut cases);
                }
                "Warp" => warp(info, &mut cases),
                "Thread" => thread(info.name, &mut cases),
                _ => tensor(info.name, &mut cases),
            }
            assert!(!cases.0.is_empty(), "nothing is asked of {}", info.name);
            let _ = writeln!(rows, "\n### `{}`\n\n{}", info.name, documentation(info.name));
            if info
                .operands
                .iter()
                .chain(&info.list)
                .any(|(_, c)| *c == tilewright::ir::op::Constraint::T)
            {
                let _ = writeln!(rows, "`T` is {}.", info.class);
            }
            let (axes, blocks) = blocks(&cases);
            let shown: Vec<usize> =
                (0..axes.len()).filter(|axis| axes[*axis].1.len() > 1).collect();
            let _ = writeln!(rows);
            let heads = shown.iter().map(|axis| axes[*axis].0.clone());
            let heads = heads.chain(TARGETS.map(|target| target.to_string()));
            let heads: Vec<String> = heads.collect();
            let _ = writeln!(rows, "| {} |\n|{}", heads.join(" | "), "---|".repeat(heads.len()));
            for (sets, answer) in blocks {
                let mut line: Vec<String> =
                    shown.iter().map(|axis| set(&axes[*axis].1, sets[*axis])).collect();
                for target in TARGETS {
                    line.push(match &answer {
                        Ok(first) if target.offers(*first) => "yes".to_owned(),
                        Ok(first) => {
                            number(format!("the target is older than {first}, which introduced it"))
                                .to_string()
                        }
                        Err(reason) => number(reason.clone()).to_string(),
                    });
                }
                let _ = writeln!(rows, "| {} |", line.join(" | ").replace('\n', " "));
            }
        }
    }
    let mut text = "# Operations, types and targets\n\n\
        Printed by `cargo run --package xtask -- ops` from the operation table (`src/ir/op/table/`) \
        and the verifier's\nanswers. Each section is an operation, with \
        what it computes and its PTX ISA section. Each row of its table\nis a set of types and attributes with \
        the same answer: `yes`, or the number of a reason below. `-` is an attribute that prints\nas nothing. \
        Control flow and constants are left out, because all targets have them for all types.\n\n## Reasons\n\n"
        .to_owned();
    for (number, reason) in (1..).zip(&reasons) {
        let _ = writeln!(text, "{number}. {reason}");
    }
    text + &rows
}
