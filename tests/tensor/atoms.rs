//! Compares atoms with the figures of the PTX ISA, written as formulas.
//!
//! Every atom satisfies the laws of atoms, and its instruction exists with as many registers as its
//! layouts say.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use proptest::prelude::*;
use tilewright::arch::Major;
use tilewright::ir::Target;
use tilewright::layout::{Layout, LayoutError, Tiler, TilerLeaf, layout, tiler};
use tilewright::tensor::TensorErrorKind;
use tilewright::tensor::atom::{
    AtomError, BitOp, BulkOp, CacheOp, CopyAtom, CopyOp, Matrices, MmaAtom, MmaOp, MmaSync,
    Operand, OperandSource, SmemAtom, SmemSwizzle, TiledMma, ValType, Wgmma,
};

use crate::support::ptxas;

fn extent(layout: &Layout, mode: usize) -> i64 {
    layout.get(&[mode]).unwrap().size().unwrap().to_static().unwrap()
}

fn at(layout: &Layout, thread: i64, value: i64) -> i64 {
    layout.crd2idx((thread, value)).unwrap().to_static().unwrap()
}

/// The places of all threads and values, in order.
fn places(layout: &Layout) -> Vec<i64> {
    let mut all: Vec<i64> = layout.indices().unwrap().collect();
    all.sort_unstable();
    all
}

fn tv(atom: &MmaAtom, operand: Operand) -> &Layout {
    match operand {
        Operand::A => atom.layout_a_tv(),
        Operand::B => atom.layout_b_tv(),
        Operand::C => atom.layout_c_tv(),
    }
}

/// Rows and columns of an operand's tile.
fn tile(atom: &MmaAtom, operand: Operand) -> (i64, i64) {
    let [m, n, k] = atom.op().shape_mnk().map(i64::from);
    match operand {
        Operand::A => (m, k),
        Operand::B => (n, k),
        Operand::C => (m, n),
    }
}

fn is_shared(atom: &MmaAtom, operand: Operand) -> bool {
    let wgmma = matches!(atom.op(), MmaOp::Wgmma(_));
    match operand {
        Operand::A => atom.op().source_a() == OperandSource::Shared,
        Operand::B => wgmma,
        Operand::C => false,
    }
}

/// The operands of all atoms, those of one layout and tile once.
fn operands() -> Vec<(MmaAtom, Operand)> {
    let mut seen = BTreeSet::new();
    let atoms = MmaOp::all().map(|op| MmaAtom::new(op).unwrap());
    let all = atoms.flat_map(|atom| Operand::ALL.map(|operand| (atom.clone(), operand)));
    all.filter(|(atom, o)| seen.insert((tv(atom, *o).to_string(), tile(atom, *o)))).collect()
}

#[test]
fn each_element_of_an_operand_is_one_value_of_one_thread() {
    for (atom, operand) in operands() {
        let op = atom.op();
        let threads = places(atom.thr_id());
        assert!(threads.windows(2).all(|w| w[0] < w[1]), "{op}");
        let (layout, (rows, columns)) = (tv(&atom, operand), tile(&atom, operand));
        assert_eq!(extent(layout, 0), threads.len() as i64, "{op} {operand:?}");
        let whole: Vec<i64> = (0..rows * columns).collect();
        if is_shared(&atom, operand) {
            // Each thread sees the whole tile.
            assert_eq!(places(&layout.get(&[1]).unwrap()), whole, "{op} {operand:?}");
            assert_eq!(layout.get(&[0]).unwrap().cosize().unwrap().to_static(), Ok(1));
        } else {
            assert_eq!(places(layout), whole, "{op} {operand:?}");
        }
    }
}

#[test]
fn warps_hold_what_the_figures_of_the_ptx_isa_show() {
    for (atom, operand) in operands() {
        let warps = match atom.op() {
            MmaOp::Sync(_) => 1,
            MmaOp::Wgmma(_) => 4,
            MmaOp::UniversalFma { .. } | MmaOp::Dp4a | MmaOp::Dp2a | MmaOp::QuadPair { .. } => {
                continue;
            }
        };
        if is_shared(&atom, operand) {
            continue;
        }
        let (rows, _) = tile(&atom, operand);
        let p = i64::from((32 / atom.op().val_type_a().bits()).max(1));
        // Blocks of eight rows in a warp.
        let blocks = rows / 8 / warps;
        for (i, found) in tv(&atom, operand).indices().unwrap().enumerate() {
            let i = i64::try_from(i).unwrap();
            let (thread, value) = (i % (32 * warps), i / (32 * warps));
            let (warp, row, quad) = (thread / 32, thread % 32 / 4, thread % 4);
            let (block, column) = match operand {
                Operand::A | Operand::B => {
                    let (v, r) = (value % p, value / p);
                    (r % blocks, quad * p + v + 4 * p * (r / blocks))
                }
                Operand::C => (value / 2 % blocks, quad * 2 + value % 2 + 8 * (value / 2 / blocks)),
            };
            let place = 16 * warp + row + 8 * block + rows * column;
            assert_eq!(found, place, "{} {operand:?} thread {thread} value {value}", atom.op());
        }
    }
}

/// PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type": threads 0 to 3 and 16
/// to 19 are the first quad pair.
#[test]
fn quad_pairs_hold_what_the_figures_of_the_ptx_isa_show() {
    for op in MmaOp::all() {
        let MmaOp::QuadPair { a, b, c } = op else { continue };
        let atom = MmaAtom::new(op).unwrap();
        for thread in 0..8 {
            let lane = atom.thr_id().crd2idx(thread).unwrap().to_static().unwrap();
            assert_eq!(lane, thread % 4 + 16 * (thread / 4));
            for i in 0..4 {
                for (major, layout) in [(a, atom.layout_a_tv()), (b, atom.layout_b_tv())] {
                    // Row (or column of B) and k of element i.
                    let (row, k) = match major {
                        Major::K => (lane % 4 + if lane < 16 { 0 } else { 4 }, i),
                        Major::Mn => (i % 4 + if lane < 16 { 0 } else { 4 }, lane % 4),
                    };
                    assert_eq!(at(layout, thread, i), row + 8 * k, "{op}");
                }
            }
            for i in 0..8 {
                let (row, column) = if c == ValType::F16 {
                    (lane % 4 + if lane < 16 { 0 } else { 4 }, i)
                } else {
                    let x = (lane & 1) + (i & 2);
                    (x + if lane < 16 { 0 } else { 4 }, (i & 4) + (lane & 2) + (i & 1))
                };
                assert_eq!(at(atom.layout_c_tv(), thread, i), row + 8 * column, "{op} C {i}");
            }
        }
    }
}

#[test]
fn names_read_as_what_they_are_printed_from() {
    let mut names = BTreeSet::new();
    for op in MmaOp::all() {
        let name = op.to_string();
        assert_eq!(name.parse(), Ok(op), "{name}");
        assert!(names.insert(name.clone()), "{name} twice");
    }
    for op in CopyOp::all() {
        assert_eq!(op.to_string().parse(), Ok(op));
        assert!(names.insert(op.to_string()));
    }
    for atom in SmemAtom::all() {
        assert_eq!(atom.to_string().parse(), Ok(atom));
    }
    // CuTe has a second name for what two architectures have.
    let twice: MmaOp = "SM80_16x8x8_F32F16F16F32_TN".parse().unwrap();
    assert_eq!(twice.to_string(), "SM75_16x8x8_F32F16F16F32_TN");
    for name in [
        "",
        "SM80",
        "SM80_16x8x16",
        "SM80_16x8x16_F32F16F16F32",
        "SM80_16x8x16_F32F16F16F16_TN",
        "SM70_8x8x4_F32F16F16F32_XY",
        "SM70_8x8x4_F32BF16BF16F32_TN",
        "SM90_64x64x16_F32TF32TF32_SS_TN",
        "SM90_64x64x16_F32F16F16_SR",
        "SM90_16x8x16_F32F16F16F32_TN",
        "UniversalFMA<int>",
        "SM61_DP8A",
        "\u{1}\"",
    ] {
        let error = name.parse::<MmaOp>().unwrap_err();
        assert_eq!(error, AtomError::UnknownName { name: name.to_owned() }, "{name}");
        assert!(name.parse::<MmaAtom>().is_err() && name.parse::<CopyAtom>().is_err());
    }
}

#[test]
fn what_no_instruction_does_is_refused() {
    use ValType as T;
    let text = |op: MmaOp| MmaAtom::new(op).unwrap_err().to_string();
    let sync = |shape, a, b, c| MmaOp::Sync(MmaSync::new(shape, a, b, c));
    assert_eq!(
        text(sync([16, 8, 16], T::F16, T::Bf16, T::F32)),
        "mma.sync cannot multiply F16 by BF16 with accumulators in F32"
    );
    assert_eq!(
        text(sync([16, 16, 16], T::F16, T::F16, T::F32)),
        "mma.sync of F16 by F16 has no shape 16x16x16: it has 16x8x8, 16x8x16"
    );
    let bits = MmaSync::new([8, 8, 128], T::B1, T::B1, T::S32);
    assert_eq!(
        text(bits.into()),
        "one-bit elements need a bit operation: `BitOp::Xor` or `BitOp::And`"
    );
    assert!(MmaAtom::new(bits.bit_op(BitOp::Xor)).is_ok());
    let f16 = MmaSync::new([16, 8, 16], T::F16, T::F16, T::F32);
    assert_eq!(
        text(f16.bit_op(BitOp::And).into()),
        "a bit operation needs one-bit elements, but F16 has 16 bits"
    );
    assert_eq!(
        text(f16.saturate().into()),
        "only products of 4-bit or 8-bit integers can saturate, not those of F16"
    );
    let shared = OperandSource::Shared;
    assert_eq!(
        text(Wgmma::new(20, T::F16, T::F16, T::F32, shared).into()),
        "wgmma of F16 does not support N = 20: N must be a multiple of 8 from 8 to 256"
    );
    assert_eq!(
        text(Wgmma::new(40, T::S8, T::S8, T::S32, shared).into()),
        "wgmma of S8 does not support N = 40: N must be 8, 24, or a multiple of 16 up to 256"
    );
    for n in [0, 264, u32::MAX] {
        assert!(MmaAtom::new(Wgmma::new(n, T::F16, T::F16, T::F32, shared)).is_err());
    }
    assert!(MmaAtom::new(MmaOp::UniversalFma { ty: T::S8 }).is_err());
    assert!(MmaAtom::new(MmaOp::QuadPair { a: Major::K, b: Major::K, c: T::S32 }).is_err());
    assert_eq!(
        CopyAtom::new(CopyOp::CpAsync { bits: 64, cache: CacheOp::Global, zero_fill: false })
            .unwrap_err()
            .to_string(),
        "cp.async.cg does not copy 64 bits at a time: it copies 128"
    );
    for bits in [0, 64, 136] {
        let error = CopyAtom::new(CopyOp::Bulk { op: BulkOp::S2G, bits }).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "cp.async.bulk.global.shared::cta.bulk_group copies multiples of 128 bits, not {bits} bits"
            )
        );
    }
    let smem = SmemAtom::new(Major::K, SmemSwizzle::Sw64);
    for bits in [0, 12, 256] {
        assert_eq!(smem.layout(bits), Err(AtomError::ElementBits { bits }));
    }
}

#[test]
fn a_copy_writes_each_bit_that_it_reads() {
    for op in CopyOp::all() {
        let atom = CopyAtom::new(op).unwrap();
        let bits: BTreeSet<i64> = atom.layout_src_tv().indices().unwrap().collect();
        let written: BTreeSet<i64> = atom.layout_dst_tv().indices().unwrap().collect();
        assert_eq!(bits, written, "{op}");
        assert_eq!(bits, (0..bits.len() as i64).collect(), "{op}");
        // A register holds its bits alone.
        let registers = atom.layout_ref_tv();
        assert_eq!(places(registers), (0..bits.len() as i64).collect::<Vec<_>>(), "{op}");
        assert_eq!(extent(registers, 0), extent(atom.thr_id(), 0), "{op}");
    }
}

#[test]
fn matrices_are_held_as_the_figures_of_the_ptx_isa_show() {
    for matrices in Matrices::ALL {
        for transposed in [false, true] {
            let load = CopyAtom::new(CopyOp::LdMatrix { matrices, transposed }).unwrap();
            let store = CopyAtom::new(CopyOp::StMatrix { matrices, transposed }).unwrap();
            assert_eq!(load.layout_dst_tv(), store.layout_src_tv());
            assert_eq!(load.layout_src_tv(), store.layout_dst_tv());
            let count = i64::from(matrices.count());
            for thread in 0..8 * count {
                // The address that a thread gives is that of a row.
                assert_eq!(at(load.layout_src_tv(), thread, 0), 128 * thread);
            }
            for thread in 0..32 {
                for value in 0..32 * count {
                    let (matrix, half, bit) = (value / 32, value / 16 % 2, value % 16);
                    let (mut row, mut column) = (thread / 4, 2 * (thread % 4) + half);
                    if transposed {
                        (row, column) = (column, row);
                    }
                    let place = 1024 * matrix + 128 * row + 16 * column + bit;
                    assert_eq!(at(load.layout_dst_tv(), thread, value), place);
                }
            }
        }
    }
}

/// Copies that one thread starts for all bits, under CuTe's names: one thread, and source and
/// destination alike.
#[test]
fn bulk_copies_are_atoms_of_one_thread() {
    for (name, instruction) in [
        (
            "SM90_TMA_LOAD",
            "cp.async.bulk.tensor.shared::cluster.global.tile.mbarrier::complete_tx::bytes",
        ),
        (
            "SM90_TMA_LOAD_MULTICAST",
            "cp.async.bulk.tensor.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster",
        ),
        ("SM90_TMA_STORE", "cp.async.bulk.tensor.global.shared::cta.tile.bulk_group"),
        (
            "SM90_TMA_REDUCE_ADD",
            "cp.reduce.async.bulk.tensor.global.shared::cta.add.tile.bulk_group",
        ),
        (
            "SM90_TMA_REDUCE_XOR",
            "cp.reduce.async.bulk.tensor.global.shared::cta.xor.tile.bulk_group",
        ),
        ("SM90_BULK_COPY_G2S", "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"),
        ("SM90_BULK_COPY_S2G", "cp.async.bulk.global.shared::cta.bulk_group"),
    ] {
        let atom: CopyAtom = format!("{name}<65536>").parse().unwrap();
        assert_eq!(atom.op().to_string(), format!("{name}<65536>"));
        assert_eq!(atom.op().instruction(), instruction);
        assert_eq!(atom.op().target().to_string(), "sm_90");
        assert_eq!(atom.thr_id(), &layout!(1:0));
        for tv in [atom.layout_src_tv(), atom.layout_dst_tv(), atom.layout_ref_tv()] {
            assert_eq!(tv, &layout!((1, 65536):(0, 1)), "{name}");
        }
        assert!(CopyOp::all().any(|op| op.to_string() == format!("{name}<128>")), "{name}");
        assert!(name.parse::<CopyAtom>().is_err());
        assert!(format!("{name}<100>").parse::<CopyAtom>().is_err());
        assert!(format!("{name}<0128>").parse::<CopyAtom>().is_err());
    }
}

/// Eight 16-byte units in a column of eight lines lie in eight different groups of four banks,
/// whatever the swizzle: what `ldmatrix` and the tensor cores read at once.
#[test]
fn swizzled_tiles_have_no_bank_conflicts() {
    for atom in SmemAtom::all() {
        for bits in [1, 2, 4, 8, 16, 32, 64, 128] {
            let tile = atom.position_independent(bits).unwrap();
            let unit = i64::from(128 / bits);
            let line = i64::from(atom.swizzle.line_bytes() * 8 / bits);
            let mut all = Vec::new();
            for column in (0..line).step_by(usize::try_from(unit).unwrap()) {
                let mut banks = BTreeSet::new();
                for row in 0..8 {
                    let coord = match atom.major {
                        Major::K => (row, column),
                        Major::Mn => (column, row),
                    };
                    let place = tile.crd2idx(coord).unwrap().to_static().unwrap();
                    assert_eq!(place % unit, 0, "{atom}: a unit of 16 bytes stays whole");
                    banks.insert(place / unit % 8);
                    all.push(place / unit);
                }
                assert_eq!(banks.len(), 8, "{atom} of {bits} bits, column {column}");
            }
            all.sort_unstable();
            assert_eq!(all, (0..8 * line / unit).collect::<Vec<_>>(), "{atom}");
        }
    }
}

#[test]
fn a_tiled_mma_wants_three_modes_and_whole_atoms() {
    let atom = || "SM80_16x8x16_F32F16F16F32_TN".parse::<MmaAtom>().unwrap();
    let rank = TensorErrorKind::Layout(LayoutError::RankMismatch { expected: 3, found: 2 });
    let error = TiledMma::new(atom(), &layout!((2, 2)), tiler!(_, _, _)).unwrap_err();
    assert_eq!(error.kind, rank);
    let error = TiledMma::new(atom(), &layout!((2, 2, 1)), tiler!(32, 32)).unwrap_err();
    assert_eq!(error.kind, rank);
    let cut = TiledMma::unchecked(atom(), &layout!((2, 2, 1)), tiler!(32, 24, 16)).unwrap();
    assert_eq!(
        cut.check_coverage().unwrap_err().to_string(),
        "`make_tiled_mma` of SM80_16x8x16_F32F16F16F32_TN o (32,2,2,1):(1,32,64,0) of (32,24,16): the tile has 24 elements along N, which is not a multiple of the atom's 16: 8 are left over"
    );
    assert_eq!(cut.tile_size_mnk(3), Err(LayoutError::NoSuchMode { mode: 3, rank: 3 }));
    assert_eq!(cut.size(), Ok(128));
}

/// Each mistake is found when the tiled MMA is made; the error has the mode and the numbers.
#[test]
fn tiled_mmas_that_miss_elements_do_not_exist() {
    let refused = |atoms: &Layout, permutation: Tiler| {
        let atom: MmaAtom = "SM80_16x8x16_F32F16F16F32_TN".parse().unwrap();
        TiledMma::new(atom, atoms, permutation).unwrap_err().kind.to_string()
    };
    assert_eq!(
        refused(&layout!((2, 2, 1):(1, 1, 0)), tiler!(_, _, _)),
        "mode 1 of the thread layout (32,2,2,1):(1,32,32,0) gives two threads the same index: (0,1,0,0) and (0,0,1,0) share the index 32"
    );
    assert_eq!(
        refused(&layout!((1, 1, 2)), tiler!(_, _, 16)),
        "the tile has 16 elements along K, which is not a multiple of the atom's 32: 16 are left over"
    );
    assert_eq!(
        refused(&layout!((1, 1, 1)), tiler!(_, layout!((8, 2):(1, 16)), _)),
        "each element of the tile must be reached once, but the 16 indices of (8,2):(1,16) reach 8 of its 16 elements: mode 1 of the permutation of N must have the stride 8, but has 16"
    );
    assert_eq!(
        refused(&layout!((1, 1, 1)), tiler!(layout!((16, 2):(1, 0)), _, _)),
        "each element of the tile must be reached once, but the 32 indices of (16,2):(1,0) reach 16 of its 32 elements: mode 1 of the permutation of M must have the stride 16, but has 0"
    );
}

/// An atom of each kind, with its number of atoms and rounds of them in M, N and K.
fn tiled() -> impl Strategy<Value = (MmaAtom, [i64; 3], [i64; 3], bool)> {
    let names = prop::sample::select(vec![
        "UniversalFMA<float>",
        "SM61_DP4A",
        "SM80_8x8x4_F64F64F64F64_TN",
        "SM80_16x8x8_F32TF32TF32F32_TN",
        "SM80_16x8x16_F32F16F16F32_TN",
        "SM80_16x8x32_S32S8U8S32_TN",
        "SM90_64x16x16_F32F16F16_RS",
        "SM90_64x24x32_F32E4M3E5M2_SS_TN",
    ]);
    let counts = || [1..4i64, 1..4, 1..3];
    (names, counts(), counts(), any::<bool>())
        .prop_map(|(name, atoms, rounds, turn)| (name.parse().unwrap(), atoms, rounds, turn))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Threads and values reach each element of C once, and each element of A and B once for each
    /// thread that differs in the mode that the operand lacks.
    #[test]
    fn a_tiled_mma_covers_its_tile((atom, atoms, rounds, turn) in tiled()) {
        let [m, n, k] = atoms;
        let grid = if turn { layout!((m, n, k):(n, 1, m * n)) } else { layout!((m, n, k)) };
        let shape = atom.op().shape_mnk().map(i64::from);
        let extents: Vec<i64> = (0..3).map(|i| shape[i] * atoms[i] * rounds[i]).collect();
        let permutation: Tiler = Tiler::from((extents[0], extents[1], extents[2]));
        let mma = TiledMma::new(atom, &grid, permutation).unwrap();
        mma.check_coverage().unwrap();
        for operand in Operand::ALL {
            let (rows, columns, copies) = match operand {
                Operand::A => (extents[0], extents[2], n),
                Operand::B => (extents[1], extents[2], m),
                Operand::C => (extents[0], extents[1], k),
            };
            let broadcast = if is_shared(mma.atom(), operand) { 128 } else { 1 };
            let matrix = Layout::compact((rows, columns));
            // By atoms: threads that differ in the mode that the operand lacks are left out.
            let parts = mma.thrfrg(operand, &matrix).unwrap();
            let mut counts = vec![0; usize::try_from(rows * columns).unwrap()];
            parts.indices().unwrap().for_each(|i| counts[usize::try_from(i).unwrap()] += 1);
            prop_assert!(counts.iter().all(|c| *c == broadcast), "{operand:?} {parts}");
            // By index of thread: they see the same.
            let by_index = mma.layout_tv(operand).unwrap();
            prop_assert_eq!(extent(&by_index, 0), i64::from(mma.size().unwrap()));
            counts.fill(0);
            by_index.indices().unwrap().for_each(|i| counts[usize::try_from(i).unwrap()] += 1);
            prop_assert!(counts.iter().all(|c| *c == broadcast * copies), "{operand:?} {by_index}");
        }
    }
}

#[test]
fn an_underscore_is_the_tile_of_all_atoms() {
    let atom: MmaAtom = "SM80_16x8x16_F32F16F16F32_TN".parse().unwrap();
    let plain = TiledMma::new(atom.clone(), &layout!((4, 2, 1)), tiler!(_, _, _)).unwrap();
    let named = TiledMma::new(atom, &layout!((4, 2, 1)), tiler!(64, 16, 16)).unwrap();
    for operand in Operand::ALL {
        assert_eq!(plain.layout_tv(operand), named.layout_tv(operand));
    }
    assert_eq!(plain.permutation_mnk(1).unwrap().as_leaf(), Some(&TilerLeaf::Int(16.into())));
}

/// Returns the number and the class of the registers of an operand in PTX.
fn registers(atom: &MmaAtom, operand: Operand) -> (i64, &'static str) {
    let ty = match operand {
        Operand::A => atom.op().val_type_a(),
        Operand::B => atom.op().val_type_b(),
        Operand::C => atom.op().val_type_c(),
    };
    let values = extent(tv(atom, operand), 1);
    match ty {
        ValType::F64 => (values, "fd"),
        ValType::F32 => (values, "f"),
        _ => ((values * i64::from(ty.bits()) + 31) / 32, "r"),
    }
}

/// The instruction with its operands, on registers that no code has written: the assembler checks
/// their number and class.
fn statement(atom: &MmaAtom) -> String {
    let list = |operand: Operand, first: i64| {
        let (count, class) = registers(atom, operand);
        let names: Vec<String> = (first..first + count).map(|i| format!("%{class}{i}")).collect();
        names.join(", ")
    };
    let name = atom.op().instruction();
    let (a, b, c) = (list(Operand::A, 0), list(Operand::B, 64), list(Operand::C, 128));
    match atom.op() {
        MmaOp::UniversalFma { ty: ValType::F16 | ValType::Bf16 } => {
            format!("{name} %h0, %h1, %h2, %h0;")
        }
        MmaOp::UniversalFma { .. } | MmaOp::Dp4a | MmaOp::Dp2a => {
            format!("{name} {c}, {a}, {b}, {c};")
        }
        MmaOp::QuadPair { .. } | MmaOp::Sync(_) => {
            format!("{name} {{{c}}}, {{{a}}}, {{{b}}}, {{{c}}};")
        }
        MmaOp::Wgmma(op) => {
            let a = match op.source_a {
                OperandSource::Shared => "%rd0".to_owned(),
                OperandSource::Registers => format!("{{{a}}}"),
            };
            // Scales of A and B are for floats; the majors in shared memory for 16 bits.
            let scales = if op.a.is_integer() { "" } else { ", 1, 1" };
            let majors = match (op.allows_mn_major(), op.source_a) {
                (true, OperandSource::Shared) => ", 0, 1",
                (true, OperandSource::Registers) => ", 1",
                (false, _) => "",
            };
            format!("{name} {{{c}}}, {a}, %rd1, %p0{scales}{majors};")
        }
    }
}

/// A module with the statements.
fn module(target: Target, statements: &[String]) -> String {
    let mut text = format!(".version 8.7\n.target {target}\n.address_size 64\n\n");
    text += ".visible .entry atoms()\n{\n  .reg .pred %p<1>;\n  .reg .b16 %h<3>;\n";
    text += "  .reg .b32 %r<260>;\n  .reg .f32 %f<260>;\n  .reg .f64 %fd<260>;\n";
    text += "  .reg .b64 %rd<2>;\n";
    for i in 0..3 {
        writeln!(text, "  mov.b16 %h{i}, 0;").unwrap();
    }
    text += "  setp.eq.b32 %p0, 0, 0;\n  mov.b64 %rd0, 0;\n  mov.b64 %rd1, 0;\n";
    for i in 0..260 {
        writeln!(text, "  mov.b32 %r{i}, 0;\n  mov.f32 %f{i}, 0f00000000;").unwrap();
        writeln!(text, "  mov.f64 %fd{i}, 0d0000000000000000;").unwrap();
    }
    for statement in statements {
        writeln!(text, "  {statement}").unwrap();
    }
    text += "  ret;\n}\n";
    text
}

#[test]
fn the_assembler_knows_each_instruction_with_these_registers() {
    let Some(ptxas) = ptxas::find() else { return };
    let targets: BTreeSet<Target> = MmaOp::all().map(|op| op.target()).collect();
    for target in targets {
        let mut statements = Vec::new();
        for op in MmaOp::all().filter(|op| op.target() == target) {
            // Of a width they differ in the number of registers only.
            if let MmaOp::Wgmma(op) = op
                && ![8, 24, 256].contains(&op.n)
            {
                continue;
            }
            // Complex numbers are several instructions on real ones.
            if op.val_type_a() != ValType::C64 {
                statements.push(statement(&MmaAtom::new(op).unwrap()));
            }
        }
        let text = module(target, &statements);
        if let Err(problem) = ptxas.assemble(&text, &target.to_string(), &[]) {
            panic!("{problem}");
        }
    }
}

#[test]
fn the_assembler_refuses_another_number_of_registers() {
    let Some(ptxas) = ptxas::find() else { return };
    let atom: MmaAtom = "SM80_16x8x16_F32F16F16F32_TN".parse().unwrap();
    let fewer = statement(&atom).replacen("%r0, ", "", 1);
    let text = module(Target::SM_80, &[fewer]);
    assert!(ptxas.assemble(&text, "sm_80", &[]).is_err());
}
