//! Storage in shared memory: sizes, alignments and offsets are those of C, and members are where
//! they say.
#![allow(dead_code, reason = "the structs of C are only measured")]

use crate::support::device;

use std::mem::{align_of, offset_of, size_of};

use tilewright::ir::{GlobalMut, Kernel, Target};
use tilewright::layout::{ComposedLayout, LayoutError, Swizzle, layout};
use tilewright::runtime::Grid;
use tilewright::tensor::storage::{Align, MemRange, SmemAllocator, Storage};
use tilewright::tensor::view::Tensor;

tilewright::storage! {
    struct Complex<'b> { real: f32, imag: f32 }

    struct StorageA<'b> {
        mbar_a: MemRange<i64, 4>,
        comp_a: Complex<'static>,
        int_a: i16,
    }

    struct StorageB<'b> {
        a: Align<MemRange<f32, 100>, 1024>,
        b: Align<MemRange<f32, 50>, 1024>,
        x: Align<i32, 16>,
        comp_a: Align<Complex<'static>, 16>,
    }

    struct AlignedStorage<'b> {
        counter: Align<i32, 16>,
        buffer: Align<MemRange<f32, 256>, 1024>,
    }

    struct Buffer<'b> { data: MemRange<f32, 128> }

    /// Members whose sizes do not fit each other.
    struct Mixed<'b> {
        a: u8,
        b: f64,
        c: u16,
        d: MemRange<u8, 5>,
        e: f32,
        f: StorageA<'static>,
        g: bool,
    }

    union Value<'b> { as_int: i32, as_float: f32 }

    union Large<'b> { bytes: MemRange<u8, 13>, value: Complex<'static>, wide: i64 }

    struct Outer<'b> { small: i16, large: Large<'static>, last: u8 }
}

mod c {
    #[repr(C)]
    pub(super) struct Complex {
        pub(super) real: f32,
        pub(super) imag: f32,
    }
    #[repr(C)]
    pub(super) struct StorageA {
        pub(super) mbar_a: [i64; 4],
        pub(super) comp_a: Complex,
        pub(super) int_a: i16,
    }
    #[repr(C)]
    pub(super) struct Mixed {
        pub(super) a: u8,
        pub(super) b: f64,
        pub(super) c: u16,
        pub(super) d: [u8; 5],
        pub(super) e: f32,
        pub(super) f: StorageA,
        pub(super) g: bool,
    }
    #[repr(C)]
    pub(super) union Large {
        pub(super) bytes: [u8; 13],
        pub(super) value: std::mem::ManuallyDrop<Complex>,
        pub(super) wide: i64,
    }
    #[repr(C)]
    pub(super) struct Outer {
        pub(super) small: i16,
        pub(super) large: Large,
        pub(super) last: u8,
    }
}

#[test]
fn numbers_are_those_of_c() {
    macro_rules! check {
        ($($Name:ident { $($field:ident),* })*) => {$(
            assert_eq!($Name::size_of() as usize, size_of::<c::$Name>());
            assert_eq!($Name::align_of() as usize, align_of::<c::$Name>());
            let offsets = [$((stringify!($field), offset_of!(c::$Name, $field) as u32)),*];
            assert_eq!($Name::OFFSETS, offsets);
        )*};
    }
    check! {
        Complex { real, imag }
        StorageA { mbar_a, comp_a, int_a }
        Mixed { a, b, c, d, e, f, g }
        Outer { small, large, last }
    }
    assert_eq!(Large::SIZE as usize, size_of::<c::Large>());
    assert_eq!(Large::ALIGN as usize, align_of::<c::Large>());
}

/// `alignas` moves the member and does not make it longer.
#[test]
fn members_may_ask_for_more_alignment() {
    let offsets = [("a", 0), ("b", 1024), ("x", 1232), ("comp_a", 1248)];
    assert_eq!(StorageB::OFFSETS, offsets);
    assert_eq!((StorageB::size_of(), StorageB::align_of()), (2048, 1024));
    assert_eq!(AlignedStorage::OFFSETS, [("counter", 0), ("buffer", 1024)]);
    assert_eq!((AlignedStorage::size_in_bytes(), AlignedStorage::align_of()), (2048, 1024));
    assert_eq!((Buffer::size_of(), Buffer::align_of()), (512, 4));
    assert_eq!((Value::size_of(), Value::align_of()), (4, 4));
    assert_eq!(Value::OFFSETS, [("as_int", 0), ("as_float", 0)]);
}

type Out = (GlobalMut<i32>,);

fn run(kernel: &Kernel<Out>, threads: u32, len: usize) -> Vec<Vec<i32>> {
    let run = |device: tilewright::runtime::Device| {
        let function = device.load(kernel).expect("the kernel can be loaded");
        let mut y = device.upload(&vec![-1; len]).expect("there is memory");
        let grid = Grid { threads: [threads, 1, 1], ..Grid::cover(1, 1) };
        function.launch(grid, (&mut y,)).expect("the kernel runs");
        y.to_vec().expect("the result can be read")
    };
    device::devices().into_iter().map(run).collect()
}

/// Members are written by one thread and read by another; the bytes of a union show where they are.
#[test]
fn members_are_where_they_say() {
    let kernel = Kernel::<Out>::build("members", Target::SM_80, |k, (y,)| {
        let first = k.thread_idx().x.eq(0);
        let (mixed, outer) = (Mixed::allocate(k), Outer::allocate(k));
        k.if_(first, |_| {
            mixed.a.store(7);
            mixed.b.store(0.5);
            mixed.c.store(512);
            for i in 0..mixed.d.len() {
                mixed.d.at(i).store(10 + i as u8);
            }
            mixed.e.store(-2.0);
            mixed.f.comp_a.imag.store(3.0);
            mixed.f.mbar_a.at(3).store(1 << 40);
            mixed.f.int_a.store(-9);
            mixed.g.store(true);
            outer.small.store(-1);
            outer.large.wide.store(0x0807_0605_0403_0201);
            outer.last.store(99);
        });
        k.barrier();
        k.if_(!first, |_| {
            y.store(0, mixed.a.load().cvt::<i32>());
            y.store(1, (mixed.b.load() * 4.0).cvt::<i32>());
            y.store(2, mixed.c.load().cvt::<i32>());
            for i in 0..5 {
                y.store(3 + i as i32, mixed.d.at(i).load().cvt::<i32>());
            }
            y.store(8, mixed.e.load().cvt::<i32>());
            y.store(9, mixed.f.comp_a.imag.load().cvt::<i32>());
            y.store(10, (mixed.f.mbar_a.at(3).load() >> 38).cvt::<i32>());
            y.store(11, mixed.f.int_a.load().cvt::<i32>());
            y.store(12, mixed.g.load().select(1, 0));
            y.store(13, outer.small.load().cvt::<i32>());
            for i in 0..8 {
                y.store(14 + i as i32, outer.large.bytes.at(i).load().cvt::<i32>());
            }
            y.store(22, outer.last.load().cvt::<i32>());
        });
    })
    .expect("the kernel is right");
    let expected = [7, 2, 512, 10, 11, 12, 13, 14, -2, 3, 4, -9, 1, -1, 1, 2, 3, 4, 5, 6, 7, 8, 99];
    for found in run(&kernel, 2, 23) {
        assert_eq!(found, expected);
    }
}

/// Tensors of ranges: plain, swizzled, and of another type.
#[test]
fn ranges_are_tensors() -> Result<(), LayoutError> {
    tilewright::storage! {
        struct Tiles<'b> { pad: u8, words: Align<MemRange<i32, 256>, 16> }
    }
    let swizzled: ComposedLayout = "S<3,2,3> o 0 o (8,32):(32,1)".parse()?;
    let kernel = Kernel::<Out>::build("ranges", Target::SM_80, |k, (y,)| {
        let (tiles, t) = (Tiles::allocate(k), k.thread_idx().x);
        let words = tiles.words.tensor(&swizzled);
        assert_eq!(words.to_string(), "ptr<i32, smem, align<16>, S<3,2,3>> o (8,32):(32,1)");
        for row in 0..8 {
            words.store((row, t), t + 32 * row);
        }
        k.barrier();
        // The low halves of the words as they lie.
        let halves = tiles.words.tensor_as::<i16>(layout!((2, 256):(1, 2)));
        let y = Tensor::new(y, layout!((8, 32):(32, 1)));
        for row in 0..8 {
            y.store((row, t), halves.load((0, t + 32 * row)).cvt::<i32>());
        }
        // Wider elements under the same swizzle: four words are moved as one.
        let pairs = words.recast::<i64>();
        assert_eq!(pairs.to_string(), "ptr<i64, smem, align<16>, S<3,1,3>> o (8,16):(16,1)");
    })
    .expect("the kernel is right");
    for found in run(&kernel, 32, 256) {
        for row in 0..8 {
            for column in 0..32 {
                let index = swizzled.crd2idx((row, column))?.to_static()?;
                assert_eq!(i64::from(found[index as usize]), column + 32 * row);
            }
        }
    }
    Ok(())
}

/// A swizzled layout takes what it reaches: not the whole last block, where that is not swizzled,
/// nor less than its cosize says where it is.
#[test]
fn swizzled_layouts_take_what_they_reach() {
    tilewright::storage! {
        struct Words<'b> { short: MemRange<i32, 48>, long: MemRange<i32, 80>, less: MemRange<i32, 79> }
    }
    let layout = |text: &str| text.parse::<ComposedLayout>().expect("a layout");
    let kernel = Kernel::<Out>::build("words", Target::SM_80, |k, (y,)| {
        let (words, t) = (Words::allocate(k), k.thread_idx().x);
        // No index reaches the bit that is moved.
        words.short.tensor(layout("S<1,3,3> o 0 o 48:1"));
        // 64 to 71 are moved to 72 to 79.
        let long = words.long.tensor(layout("S<1,3,3> o 0 o 72:1"));
        for i in 0..9 {
            long.store(t + 8 * i, t + 8 * i);
        }
        k.barrier();
        y.store(t, words.long.tensor(layout!(80:1)).load(t + 72));
    })
    .expect("the kernel is right");
    for found in run(&kernel, 8, 8) {
        assert_eq!(found, (64..72).collect::<Vec<i32>>());
    }
    let errors = Kernel::<Out>::build("wrong", Target::SM_80, |k, _| {
        Words::allocate(k).less.tensor(layout("S<1,3,3> o 0 o 72:1"));
    })
    .expect_err("a word is missing");
    assert!(errors.to_string().contains("the layout needs 320 bytes, but the range has 316"));
}

/// Pieces are behind each other, each at a multiple of its alignment, and do not overlap.
#[test]
fn an_allocator_counts_what_it_gives() {
    let swizzle = Swizzle::new(3, 2, 3).expect("a swizzle");
    let kernel = Kernel::<Out>::build("pieces", Target::SM_80, |k, (y,)| {
        k.shared::<u8>(3);
        let mut smem = SmemAllocator::new(k);
        assert_eq!(smem.size_in_bytes(), 3);
        let counter = smem.allocate::<i16>(k);
        assert_eq!(smem.size_in_bytes(), 6);
        let outer = smem.allocate::<Outer<'static>>(k);
        assert_eq!(smem.size_in_bytes(), 8 + Outer::SIZE as u64);
        let array = smem.allocate_array::<i32>(k, 32);
        assert_eq!(smem.size_in_bytes(), 40 + 128);
        let plain = smem.allocate_tensor::<i32>(k, layout!((4, 32):(32, 1)), 64, None);
        assert_eq!(smem.size_in_bytes(), 192 + 512);
        let tile = smem.allocate_tensor::<i32>(k, layout!((8, 32):(32, 1)), 1024, Some(swizzle));
        assert_eq!(smem.size_in_bytes(), 1024 + 1024);
        let t = k.thread_idx().x;
        for row in 0..8 {
            tile.store((row, t), t);
        }
        for row in 0..4 {
            plain.store((row, t), t + 100);
        }
        array.tensor(layout!(32)).store(t, t + 200);
        k.if_(t.eq(0), |_| {
            counter.store(7);
            outer.last.store(9);
        });
        k.barrier();
        let sum = tile.load((3, 31 - t)) + plain.load((2, 31 - t));
        let sum = sum + array.tensor(layout!(32)).load(31 - t);
        y.store(t, sum + counter.load().cvt::<i32>() + outer.last.load().cvt::<i32>());
    })
    .expect("the kernel is right");
    assert_eq!(kernel.ir().shared_layout().1, 2048);
    for found in run(&kernel, 32, 32) {
        assert_eq!(found, (0..32).map(|t| 3 * (31 - t) + 316).collect::<Vec<i32>>());
    }
    let errors = Kernel::<Out>::build("wrong", Target::SM_80, |k, _| {
        let tile: ComposedLayout = "S<3,2,3> o 0 o (8,32):(32,1)".parse().expect("a layout");
        SmemAllocator::new(k).allocate_tensor::<i32>(k, tile, 128, Some(swizzle)).load(0);
    })
    .expect_err("two swizzles");
    let texts: Vec<String> = errors.iter().map(|error| error.kind.to_string()).collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(
        texts[0].starts_with("`allocate_tensor` of S<3,2,3> o 0 o (8,32):(32,1): "),
        "{texts:?}"
    );
}

#[test]
fn mistakes_are_errors_of_the_build() {
    let errors = Kernel::<Out>::build("wrong", Target::SM_80, |k, _| {
        let buffer = Buffer::allocate(k);
        buffer.data.at(128);
        buffer.data.tensor(layout!((16, 9))).load(0);
        buffer.data.data_ptr().recast::<f64>();
        buffer.data.tensor(layout!((8, 16):(1, 9))).recast::<i8>().recast::<i64>();
    })
    .expect_err("all of it is wrong");
    let texts: Vec<String> = errors.iter().map(|error| error.kind.to_string()).collect();
    let expected = [
        "`at` of 128 x ptr<f32, smem, align<4>>: there is no element 128: the tensor has 128",
        "`get_tensor` of 128 x ptr<f32, smem, align<4>> o (16,9):(1,16): the layout needs 576 bytes, but the range has 512: make it longer",
        "`recast` of ptr<f32, smem, align<4>>: cannot recast 32-bit elements to 64 bits: the address is only known to be a multiple of 4 bytes; align the memory, or state its alignment with `TensorPointer::assume_aligned`",
        "`get_tensor` of 128 x ptr<f32, smem, align<4>> o (8,16):(1,9): the layout needs 572 bytes, but the range has 512: make it longer",
    ];
    assert_eq!(texts, expected);
}
