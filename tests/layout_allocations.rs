//! Counts the allocations of layouts: none for the usual operations, few bytes for long texts.

use std::alloc::{GlobalAlloc, Layout as Block, System};
use std::cell::Cell;

use tilewright::layout::{Int, IntTuple, Layout, layout, shape, tiler};

/// Counts the allocations of the thread that asks, and their bytes.
struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

#[expect(unsafe_code, reason = "an allocator is unsafe to implement; it only counts and forwards")]
// SAFETY: every call is forwarded unchanged to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, block: Block) -> *mut u8 {
        COUNT.with(|c| c.set(c.get() + 1));
        BYTES.with(|c| c.set(c.get() + block.size()));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(block) }
    }
    unsafe fn dealloc(&self, at: *mut u8, block: Block) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, block) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations<T>(f: impl FnOnce() -> T) -> usize {
    let before = COUNT.with(Cell::get);
    let kept = f();
    let after = COUNT.with(Cell::get);
    drop(kept);
    after - before
}

#[test]
fn usual_operations_do_not_allocate() {
    let typical = [
        layout!(16:1),
        layout!((4, 8):(8, 1)),
        layout!((128, 64):(64, 1)),
        layout!((4, (2, 8)):(2, (1, 8))),
        layout!(((4, 8), (2, 2)):((32, 1), (16, 8))),
        layout!((2, 4, 8, 16):(1, 2, 8, 64)),
    ];
    let (tile, by_mode, target) = (layout!(4:1), tiler!(2), shape!(4096));
    let square = layout!((2, 4):(4, 1));
    for l in &typical {
        let named = |name: &str, n: usize| assert_eq!(n, 0, "{name} of {l} allocates");
        named("clone", allocations(|| l.clone()));
        named("coalesce", allocations(|| l.coalesce()));
        named("filter", allocations(|| l.filter()));
        named("flatten", allocations(|| l.flatten()));
        named("composition", allocations(|| l.composition(&tile)));
        named("composition by mode", allocations(|| l.composition(&by_mode)));
        named("complement", allocations(|| l.complement(&target)));
        named("logical_divide", allocations(|| l.logical_divide(&by_mode)));
        named("logical_divide by a layout", allocations(|| l.logical_divide(&tile)));
        named("zipped_divide", allocations(|| l.zipped_divide(&by_mode)));
        named("right_inverse", allocations(|| l.right_inverse()));
        named("left_inverse", allocations(|| l.left_inverse()));
        named("logical_product", allocations(|| l.logical_product(&square)));
        named("at", allocations(|| l.at(3)));
        named("crd2idx", allocations(|| l.crd2idx(3)));
        named("indices", allocations(|| l.indices().map(Iterator::sum::<i64>)));
        named("size", allocations(|| (l.size(), l.cosize())));
        named("compact", allocations(|| Layout::compact((128, (4, 8)))));
        named("slice", allocations(|| l.get(&[0])));
    }
}

/// A text of twice the symbols has four times the factors. Reading it takes four times the bytes,
/// not sixteen times: a product does not grow by one factor at a time.
#[test]
fn long_products_are_read_in_linear_memory() {
    let [short, long] = [100, 200].map(|symbols| {
        let symbols = (0..symbols).map(|i| Int::symbol(&format!("n{i}")));
        let layout = Layout::compact(IntTuple::from_items(symbols).expect("a few symbols"));
        let text = layout.to_string();
        let before = BYTES.with(Cell::get);
        let read = text.parse::<Layout>();
        let bytes = BYTES.with(Cell::get) - before;
        assert_eq!(read, Ok(layout));
        bytes
    });
    assert!(long < 6 * short, "{short} and {long} bytes");
}
