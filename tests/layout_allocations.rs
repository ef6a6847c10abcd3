//! The operations of the algebra on usual layouts do not touch the heap.
#![allow(unsafe_code, reason = "a global allocator that counts is unsafe by its trait")]

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;

use tilewright::layout::{Layout, LayoutError, layout, shape};

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator with the arguments unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, memory: Memory) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, memory) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The allocations of this thread while `f` runs.
fn allocations(f: impl FnOnce() -> Result<Layout, LayoutError>) -> (usize, String) {
    let before = COUNT.with(Cell::get);
    let result = f();
    let count = COUNT.with(Cell::get) - before;
    (count, result.map_or_else(|error| format!("error: {error}"), |layout| layout.to_string()))
}

#[test]
fn the_counter_counts() {
    let before = COUNT.with(Cell::get);
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(COUNT.with(Cell::get), before + 1);
}

#[test]
fn usual_layouts_stay_off_the_heap() {
    let cases = [
        (layout!((128, 64):(64, 1)), layout!((32, 4):(1, 64))),
        (layout!(((4, 8), (2, 16)):((32, 1), (16, 128))), layout!((8, 4):(4, 1))),
        (layout!((16, 8, 32):(1, 16, 128)), layout!((4, 8):(1, 16))),
        (layout!((4, 8, 2, 16):(1, 4, 32, 64)), layout!((2, 4, 8):(1, 2, 8))),
    ];
    let cotarget = shape!(4096);
    for (a, b) in &cases {
        for (name, (count, result)) in [
            ("composition", allocations(|| a.composition(b))),
            ("complement", allocations(|| b.complement(&cotarget))),
            ("logical_divide", allocations(|| a.logical_divide(b))),
            ("coalesce", allocations(|| a.coalesce())),
            ("right_inverse", allocations(|| a.right_inverse())),
        ] {
            assert!(!result.starts_with("error"), "{name} of {a} and {b}: {result}");
            assert_eq!(count, 0, "{name} of {a} and {b} = {result}");
        }
    }
}
