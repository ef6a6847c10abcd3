//! Checks that the chosen swizzle has no bank conflicts where any swizzle has none.
//!
//! Its report equals the analysis of the layout.

use std::collections::BTreeSet;
use std::error::Error;

use tilewright::ir::types::Scalar;
use tilewright::ir::{GlobalMut, Kernel, Target};
use tilewright::layout::{Analysis, Layout, layout, shape, tiler};
use tilewright::runtime::{Device, Grid};
use tilewright::tensor::atom::{
    CacheOp, CopyAtom, CopyOp, Matrices, MmaAtom, Operand, SmemAccess, SmemAtom, TiledCopy,
    TiledMma, choose_swizzle,
};
use tilewright::tensor::view::{SharedTensor, Tensor};

type Result = std::result::Result<(), Box<dyn Error>>;

/// A tile that is written by rows and read by columns.
fn transposed(vector: u32) -> [SmemAccess; 2] {
    let rows = Layout::leaf(32, 32 * i64::from(vector));
    [SmemAccess::new("rows", rows, vector), SmemAccess::new("columns", layout!(32:1), vector)]
}

#[test]
fn a_transposed_tile_gets_a_swizzle_without_conflicts() -> Result {
    let tile = layout!((32, 32):(32, 1));
    let choice = choose_swizzle(&tile, Scalar::F32, &transposed(1))?;
    assert_eq!(choice.plain().wavefronts(), 33);
    assert!(choice.best().is_free() && !choice.best().swizzle().is_identity());
    assert_eq!(choice.best().wavefronts(), 2);
    assert_eq!(choice.best().swizzle().to_string(), "S<5,0,5>");
    Ok(())
}

/// The reports are those of the composed layouts, the order is that of the wavefronts, and a
/// swizzled tile has each of its elements once, inside of the next power of two.
#[test]
fn candidates_are_measured_and_sorted() -> Result {
    for (tile, dtype, vector) in [
        (layout!((32, 32):(32, 1)), Scalar::F32, 1),
        (layout!((32, 64):(64, 1)), Scalar::U16, 2),
        (layout!((48, 32):(32, 1)), Scalar::F32, 1),
        (layout!((32, (4, 16)):(4, (1, 128))), Scalar::U8, 4),
    ] {
        let rows = Layout::leaf(32, tile.get(&[0])?.size()?.to_static()? * i64::from(vector));
        let rows = rows.composition(&layout!(8:1))?;
        let accesses = [
            SmemAccess::new("rows", rows, vector),
            SmemAccess::new("columns", layout!(32:1), vector),
        ];
        let choice = choose_swizzle(&tile, dtype, &accesses)?;
        let waves: Vec<u64> = choice.candidates().iter().map(|c| c.wavefronts()).collect();
        assert!(waves.is_sorted() && waves.len() > 5, "{tile}: {waves:?}");
        let end = (tile.cosize()?.to_static()? as u64).next_power_of_two() as i64;
        let mut seen = BTreeSet::new();
        for candidate in choice.candidates() {
            assert!(seen.insert(candidate.swizzle().to_string()), "{} twice", candidate.swizzle());
            let layout = candidate.swizzle().compose_layout(&tile)?;
            assert!(layout.is_injective()?);
            let image = layout.image()?;
            assert!(image.first() >= Some(0) && image.last() < Some(end), "{layout}");
            for (access, found) in accesses.iter().zip(candidate.conflicts()) {
                let expected = layout.bank_conflicts(&access.threads, vector, dtype.bits())?;
                assert_eq!(*found, expected);
            }
        }
    }
    Ok(())
}

/// A tile of each atom of `wgmma` is known as one, with its swizzle.
#[test]
fn tiles_of_wgmma_are_marked() -> Result {
    for atom in SmemAtom::all() {
        for dtype in [Scalar::U8, Scalar::U16, Scalar::F32] {
            let bits = dtype.bits();
            let swizzled =
                atom.position_independent(bits)?.tile_to_shape(&shape!(128, 128), None)?;
            let tile = swizzled.outer_layout()?;
            let accesses = [SmemAccess::new("read", layout!(32:1), 1)];
            let choice = choose_swizzle(tile, dtype, &accesses)?;
            let marked = choice.candidates().iter().find(|c| c.smem_atom() == Some(atom));
            let swizzle = marked.map(|c| c.swizzle().to_string());
            let expected = swizzled.swizzle_portion();
            assert_eq!(swizzle, Some(expected.to_string()), "{atom} of {bits} bits");
        }
    }
    // Lines of 256 bytes are no lines of an atom.
    let wide = choose_swizzle(&layout!((64, 128):(128, 1)), Scalar::U16, &[])?;
    assert!(wide.best_for_wgmma().is_none());
    Ok(())
}

#[test]
fn a_tile_without_conflicts_stays_as_it_is() -> Result {
    let tile = layout!((32, 33):(33, 1));
    let choice = choose_swizzle(&tile, Scalar::F32, &transposed(1))?;
    assert!(choice.best().swizzle().is_identity() && choice.best().is_free());
    assert_eq!(choice.layout()?.to_string(), tile.to_string());
    Ok(())
}

/// The chosen tile in a kernel: written by rows, read by columns.
#[test]
fn the_chosen_tile_holds_what_is_stored() -> Result {
    let choice = choose_swizzle(&layout!((32, 32):(32, 1)), Scalar::I32, &transposed(1))?;
    let swizzled = choice.layout()?;
    let kernel = Kernel::<(GlobalMut<i32>,)>::build("transpose", Target::SM_80, |k, (x,)| {
        let x = Tensor::new(x, layout!((32, 32):(32, 1)));
        let tile = SharedTensor::<i32>::shared(k, &swizzled);
        let t = k.thread_idx().x;
        for row in 0..32 {
            tile.store((row, t), x.load((row, t)));
        }
        k.barrier();
        for column in 0..32 {
            x.store((column, t), tile.load((t, column)));
        }
    })?;
    let device = Device::sim()?;
    let numbers: Vec<i32> = (0..1024).collect();
    let mut x = device.upload(&numbers)?;
    device.load(&kernel)?.launch(Grid::new([1, 1, 1], [32, 1, 1]), (&mut x,))?;
    let expected: Vec<i32> = (0..1024).map(|i| i % 32 * 32 + i / 32).collect();
    assert_eq!(x.to_vec()?, expected);
    Ok(())
}

/// The access of a copy is where its threads begin, on tiles of one and of many of its own.
#[test]
fn accesses_of_copies_are_those_of_their_threads() -> Result {
    let atom =
        CopyAtom::new(CopyOp::CpAsync { bits: 128, cache: CacheOp::Global, zero_fill: false })?;
    let copy = TiledCopy::new(atom, Scalar::F32, &layout!((4, 8):(8, 1)), &layout!((1, 4)))?;
    for tile in [
        layout!((4, 32):(32, 1)),
        layout!((64, 64):(64, 1)),
        layout!((64, (32, 2)):(32, (1, 2048))),
    ] {
        let access = SmemAccess::written_by("store", &copy, &tile)?;
        assert_eq!(access.vector, 4);
        let rows = tile.get(&[0])?.size()?.to_static()?;
        let expected: Vec<i64> = (0..32).map(|t| t / 8 + rows * (t % 8 * 4)).collect();
        assert_eq!(access.threads.indices()?.collect::<Vec<_>>(), expected, "{tile}");
    }
    // Of `ldmatrix`, a thread gives the address of a row; the fragments are in registers.
    let tile = layout!((64, 64):(64, 1));
    let mma: MmaAtom = "SM80_16x8x16_F32F16F16F32_TN".parse()?;
    let mma = TiledMma::new(mma, &layout!((1, 1, 1)), tiler!(_, _, _))?;
    for (operand, matrices, rows) in [(Operand::A, Matrices::X4, 16), (Operand::B, Matrices::X2, 8)]
    {
        let atom = CopyAtom::new(CopyOp::LdMatrix { matrices, transposed: false })?;
        let copy = TiledCopy::of_operand(atom, Scalar::F16, &mma, operand)?;
        let access = SmemAccess::read_by("load", &copy, &tile)?;
        assert_eq!(access.vector, 8);
        // Lanes that give no address repeat one.
        let lanes = i64::from(8 * matrices.count());
        let expected: Vec<i64> =
            (0..32).map(|t| t % lanes).map(|t| t % rows + 64 * 8 * (t / rows)).collect();
        assert_eq!(access.threads.indices()?.collect::<Vec<_>>(), expected, "{matrices:?}");
        let columns = SmemAccess::read_by("load", &copy, &layout!((64, 64))).expect_err("columns");
        assert!(columns.to_string().contains("needs a multiple of 8"), "{columns}");
    }
    let error = SmemAccess::read_by("load", &copy, &layout!(64)).expect_err("one mode is missing");
    assert!(error.to_string().starts_with("`SmemAccess` of SM80_CP_ASYNC"), "{error}");
    Ok(())
}
