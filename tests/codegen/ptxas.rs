//! Assembles every operation and every form of control flow with NVIDIA's assembler, without a
//! warning.
//!
//! Operations run on every type that they take, with constant and dynamic operands.

use std::collections::BTreeSet;
use std::path::Path;

use random_kernel::raw;
use tilewright::codegen::PtxOptions;
use tilewright::ir::op::{Constraint, Mem, Op, Sync};
use tilewright::ir::types::{Scalar, Space, Type};
use tilewright::ir::{GlobalMut, Kernel, KernelOptions, Target, Untyped, parse_kernels};
use tilewright::kernels::gemm::{Gemm, GemmConfig};

use crate::support::slow::slow;
use crate::support::{assemble, flow, ptxas, random_kernel};

use assemble::{accept_modules, check_modules, check_text, untyped};
use raw::{Raw, pointer};

fn targets() -> [Target; 4] {
    [Target::SM_80, Target::SM_89, Target::SM_90, Target::SM_90A]
}

fn short(ty: Type) -> String {
    match ty {
        Type::Scalar(scalar) => scalar.to_string(),
        Type::Vector(vector) => vector.to_string(),
        Type::Pointer { space, elem, .. } => format!("{space}_{elem}"),
        Type::TensorMap { elem, rank, .. } => format!("map_{elem}_{rank}"),
    }
}

/// A number other than 0 and 1, and other than the smallest and the largest.
fn some_bits(scalar: Scalar) -> u64 {
    match scalar {
        Scalar::F32 => (-1.5f32).to_bits().into(),
        Scalar::F64 => 0.1f64.to_bits(),
        Scalar::F16 => 0xbe00,
        Scalar::Bf16 => 0xbfc0,
        _ => 0xc3c3_c3c3_c3c3_c3c3,
    }
}

/// Each arithmetic operation on each type, with no operand known, with all, and with each one;
/// those with the same name in one kernel.
fn arith_kernels(target: Target) -> Vec<Kernel<Untyped>> {
    let mut kernels = Vec::new();
    let all = raw::arith();
    for rows in all.chunk_by(|a, b| raw::info(a).name == raw::info(b).name) {
        let info = raw::info(&rows[0]);
        let lists = info.operands.iter().chain(&info.list);
        let takes_types = lists.into_iter().any(|(_, c)| *c == Constraint::T);
        let without_types = [Type::BOOL, Scalar::U8.into()];
        for ty in raw::types() {
            if !info.class.contains(ty) || (!takes_types && !without_types.contains(&ty)) {
                continue;
            }
            let name = format!("{}_{}_{}", info.name, short(ty), kernels.len());
            let mut kernel = Raw::new(name, target);
            let mut used = false;
            for row in rows {
                used |= add_arith(&mut kernel, row, ty);
            }
            if used {
                kernels.push(kernel.finish());
            }
        }
    }
    kernels
}

/// Adds the operation, if the target has it on the type.
fn add_arith(kernel: &mut Raw, row: &Op, ty: Type) -> bool {
    let types = raw::operand_types(row, ty);
    let unknown: Vec<_> = types.iter().map(|ty| kernel.unknown(*ty)).collect();
    if !raw::is_valid(&raw::with_operands(row, &unknown), &kernel.ir) {
        return false;
    }
    let one_by_one = (0..types.len().min(4)).map(|i| 1 << i);
    for known in [0, u32::MAX].into_iter().chain(one_by_one) {
        let operand = |(i, ty): (usize, &Type)| match ty.scalar().filter(|_| known >> i & 1 == 1) {
            Some(scalar) => kernel.constant(scalar, some_bits(scalar)),
            None => unknown[i],
        };
        let operands: Vec<_> = types.iter().enumerate().map(operand).collect();
        let result = kernel.get(raw::with_operands(row, &operands));
        kernel.consume(result);
    }
    true
}

/// The valid kernels of the filetests that the target can have.
fn filetest_kernels(target: Target) -> Vec<Kernel<Untyped>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests");
    let mut kernels = Vec::new();
    for directory in ["print", "ptx", "verify"] {
        for entry in std::fs::read_dir(root.join(directory)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "kir") {
                continue;
            }
            for mut ir in
                parse_kernels("test.kir", &std::fs::read_to_string(&path).unwrap()).unwrap()
            {
                ir.target = target;
                ir.name = format!("kir{}_{}", kernels.len(), ir.name);
                kernels.extend(Kernel::verify(ir));
            }
        }
    }
    kernels
}

/// Indices of every type: unknown, and constants on both sides of what fits into an instruction.
fn mem_kernels(target: Target) -> Vec<Kernel<Untyped>> {
    let mut kernels = Vec::new();
    let indices = [Scalar::I32, Scalar::U32, Scalar::I64, Scalar::U64];
    let mut spaces = vec![Space::Global, Space::Shared, Space::Local, Space::Generic];
    if target.offers(Target::SM_90) {
        spaces.push(Space::SharedCluster);
    }
    for space in spaces {
        for elem in Scalar::ALL {
            let mut kernel = Raw::new(format!("mem_{space:?}_{elem}"), target);
            let ty = pointer(space, elem);
            let (base, index) = (kernel.unknown(ty), kernel.unknown(Scalar::I32.into()));
            // From the start of a shared allocation, a constant index outside is an error of the
            // build.
            let base = kernel.get(Mem::Offset { base, index });
            for index_type in indices {
                let known = [0, 3, u64::MAX, 1 << 31, (1 << 31) - 1, 1 << 61, 1 << 62];
                let mut places: Vec<_> =
                    known.into_iter().map(|bits| kernel.constant(index_type, bits)).collect();
                places.push(kernel.unknown(index_type.into()));
                for index in places {
                    let value = kernel.get(Mem::Ld { base, index, access: Default::default() });
                    let moved = kernel.get(Mem::Offset { base, index });
                    kernel.consume(moved);
                    kernel.op(Mem::St { base: moved, index, value, access: Default::default() });
                    let bytes = kernel.get(Mem::PtrCast { base: moved, to: Scalar::U8 });
                    let byte =
                        kernel.get(Mem::Ld { base: bytes, index, access: Default::default() });
                    kernel.op(Mem::St {
                        base: bytes,
                        index,
                        value: byte,
                        access: Default::default(),
                    });
                    let constant = kernel.constant(elem, some_bits(elem));
                    kernel.op(Mem::St { base, index, value: constant, access: Default::default() });
                }
            }
            kernels.push(kernel.finish());
        }
    }
    for ty in raw::types() {
        let mut kernel = Raw::new(format!("var_{}", short(ty)), target);
        let value = kernel.unknown(ty);
        let var = kernel.var(value);
        let read = kernel.get(Mem::GetVar { var, index: 1 });
        kernel.consume(read);
        if let Type::Scalar(scalar) = ty {
            let value = kernel.constant(scalar, some_bits(scalar));
            kernel.op(Mem::SetVar { value, var, index: 0 });
            kernel.op(Sync::Barrier {});
            let read = kernel.get(Mem::GetVar { var, index: 0 });
            kernel.consume(read);
        }
        kernels.push(kernel.finish());
    }
    // Parameters of every type, and constants at the ends of their types.
    let mut kernel = Raw::new("params", target);
    for ty in raw::types() {
        // A launch passes no vectors, and of pointers those to global memory.
        match ty {
            Type::Vector(_) => continue,
            Type::Pointer { space, .. } if space != Space::Global => continue,
            _ => {}
        }
        let value = kernel.param(ty);
        kernel.consume(value);
        if let Type::Scalar(scalar) = ty {
            for bits in [0, 1, u64::MAX, 1 << (scalar.bits() - 1), (1 << (scalar.bits() - 1)) - 1] {
                let value = kernel.constant(scalar, bits);
                kernel.consume(value);
                let (zero, var) = (kernel.unknown(ty), kernel.var(value));
                kernel.op(Mem::SetVar { value: zero, var, index: 0 });
            }
        }
    }
    kernels.push(kernel.finish());
    kernels
}

#[test]
fn every_operation_on_every_type() {
    // The first target and the last one have all rows between them.
    let some = if slow() { targets().to_vec() } else { vec![Target::SM_80, Target::SM_90A] };
    let covered: BTreeSet<&str> = some
        .into_iter()
        .flat_map(|target| {
            let mut kernels = arith_kernels(target);
            kernels.extend(mem_kernels(target));
            kernels.extend(filetest_kernels(target));
            check_modules(&kernels, &[]);
            let names = kernels.iter().flat_map(|kernel| {
                kernel.ir().ops.iter().filter_map(|(_, data)| data.op.info()).map(|info| info.name)
            });
            names.collect::<Vec<_>>()
        })
        .collect();
    let rows: BTreeSet<&str> = Op::table().map(|info| info.name).collect();
    assert_eq!(covered, rows, "a row has no kernel here");
}

#[test]
fn every_form_of_control_flow() {
    for target in targets() {
        check_modules(&flow::Flow::all(target), &[]);
    }
}

/// Ready kernels have no register in local memory.
#[test]
fn ready_kernels_without_spills() {
    let no_local = ["--warn-on-spills", "--warn-on-local-memory-usage"];
    for target in targets() {
        let simt = GemmConfig::simt(target, Scalar::F32);
        let tiles = [[256, 128, 16], [128, 128, 16], [64, 64, 8], [32, 64, 16], [256, 64, 8]];
        let kernels = tiles.map(|tile| {
            let gemm = Gemm::<f32>::new(GemmConfig { tile, ..simt }).unwrap();
            Kernel::verify(gemm.ir().clone()).unwrap()
        });
        check_modules(&kernels, &no_local);
    }
}

#[test]
fn random_kernels() {
    for target in targets() {
        // A linear congruential generator, with the constants of Knuth's MMIX.
        let mut state = 1u64;
        let mut choices = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u32
        };
        let kernels: Vec<_> = (0..60)
            .map(|number| {
                let choices: Vec<u32> = (0..20 + 10 * number).map(|_| choices()).collect();
                let mut ir = random_kernel::random_kernel(&choices);
                (ir.name, ir.target) = (format!("random_{number}"), target);
                Kernel::verify(ir).unwrap()
            })
            .collect();
        // Accumulators may be used without a fence.
        accept_modules(&kernels, &[]);
    }
}

/// Every bound at once where they go together, the others apart; shared memory beyond 48 KiB,
/// beside an entry with less.
#[test]
fn launch_bounds_and_dynamic_shared_memory() {
    let build = |name: &str, options, bytes| {
        let kernel =
            Kernel::<(GlobalMut<u8>,)>::build_with(options, name, Target::SM_90A, |k, (x,)| {
                let tile = k.shared_aligned::<u8>(bytes, 1024);
                tile.store(0, 1);
                x.store(0, tile.load(0));
            });
        untyped(&kernel.unwrap())
    };
    let options = KernelOptions::default;
    let whole = options().block([384, 1, 1]).min_blocks_per_sm(1).max_registers(168);
    check_modules(
        &[
            build("whole", whole.clone().cluster([2, 1, 1]), 227 * 1024),
            build("whole_at_launch", whole.cluster_at_launch(), 100_000),
            build("bounded", options().max_threads(1024).min_blocks_per_sm(2), 16),
            build("large_cluster", options().cluster([16, 1, 1]), 48 * 1024),
        ],
        &[],
    );
    type Maps = (tilewright::ir::TensorMap<f32, 2>, i8, tilewright::ir::TensorMapMut<u8, 5>);
    let maps = Kernel::<Maps>::build("maps", Target::SM_90, |_, _| ()).unwrap();
    check_modules(&[untyped(&maps)], &[]);
}

fn small(target: Target) -> Kernel<Untyped> {
    let mut kernel = Raw::new("small", target);
    let value = kernel.unknown(Scalar::F32.into());
    kernel.consume(value);
    kernel.finish()
}

/// Each target with the lowest version that has it, as the text says.
#[test]
fn every_target() {
    let Some(ptxas) = ptxas::find() else { return };
    for target in Target::all() {
        let ptx = small(target).ptx();
        assert!(ptx.text().contains(&format!("\n.target {target}\n")), "{target}");
        check_text(&ptxas, &ptx, &[]);
    }
}

#[test]
fn the_version_is_the_lowest_that_has_the_target() {
    let Some(ptxas) = ptxas::find() else { return };
    let versions =
        ["7.0", "7.1", "7.3", "7.4", "7.7", "7.8", "8.0", "8.5", "8.6", "8.7", "8.8", "9.0"];
    for target in
        ["sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_103", "sm_120", "sm_121a"]
    {
        let ptx = small(target.parse().unwrap()).ptx();
        let version = ptx.version().to_string();
        let at = versions.iter().position(|v| *v == version).expect("the version is in the list");
        let lower = ptx.text().replacen(&version, versions[at - 1], 1);
        assert!(ptxas.assemble(&lower, target, &[]).is_err(), "{target} needs no {version}");
    }
}

#[test]
fn lines_for_profilers() {
    let Some(ptxas) = ptxas::find() else { return };
    let gemm = Gemm::<f32>::new(GemmConfig::simt(Target::SM_90A, Scalar::F32)).unwrap();
    let ptx = gemm.ptx_with(PtxOptions::default().line_info(true));
    assert!(ptx.text().contains(".file 1 \"src/kernels/gemm/"), "{ptx}");
    check_text(&ptxas, &ptx, &["--generate-line-info"]);
}

/// More than 4352 bytes of parameters need a later version.
#[test]
fn many_parameters() {
    let Some(ptxas) = ptxas::find() else { return };
    for (count, version) in [(544, "7.0"), (545, "8.1"), (4095, "8.1")] {
        let mut kernel = Raw::new("many", Target::SM_80);
        let base = kernel.param(pointer(Space::Global, Scalar::U64));
        let last = (1..count).map(|_| kernel.new_param(Scalar::U64.into())).last().unwrap();
        let index = kernel.constant(Scalar::I32, 0);
        kernel.op(Mem::St { base, index, value: last, access: Default::default() });
        let ptx = kernel.finish().ptx();
        assert_eq!(ptx.version().to_string(), version, "{count}");
        check_text(&ptxas, &ptx, &[]);
    }
}
