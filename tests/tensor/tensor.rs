//! Checks the address of an element: the pointer plus the layout at its coordinate.
//!
//! It holds for every slice of the tensor and every static part of the coordinate.

use crate::support::device;

use tilewright::ir::builder::DeviceCoord;
use tilewright::ir::{Body, BuildErrors, GlobalMut, Kernel, Target, Val, range};
use tilewright::layout::{ComposedLayout, Int, Layout, LayoutError, layout, shape, tiler};
use tilewright::runtime::Grid;
use tilewright::tensor::view::{
    CoordTensor, GlobalTensorMut, RegisterTensor, SharedTensor, Tensor, TensorPointer,
};

type InOut = (GlobalMut<i32>, GlobalMut<i32>);

/// Runs the kernel on `len` elements `0, 1, 2, ..` and as many `-1`, and returns the second buffer.
fn run(kernel: Result<Kernel<InOut>, BuildErrors>, grid: Grid, len: i64) -> Vec<Vec<i32>> {
    let kernel = kernel.expect("the kernel is right");
    let numbers: Vec<i32> = (0..len as i32).collect();
    let run = |device: tilewright::runtime::Device| {
        let function = device.load(&kernel).expect("the kernel can be loaded");
        let mut x = device.upload(&numbers).expect("there is memory");
        let mut y = device.upload(&vec![-1; numbers.len()]).expect("there is memory");
        function.launch(grid, (&mut x, &mut y)).expect("the kernel runs");
        y.to_vec().expect("the result can be read")
    };
    device::devices().into_iter().map(run).collect()
}

fn build(
    body: impl for<'b> FnOnce(&mut Body<'b, 'b>, Val<'b, GlobalMut<i32>>, Val<'b, GlobalMut<i32>>),
) -> Result<Kernel<InOut>, BuildErrors> {
    Kernel::build("tensor", Target::SM_80, |k, (x, y)| body(k, x, y))
}

/// One block of one thread for each coordinate.
fn one_block(threads: i64) -> Grid {
    Grid { blocks: [1, 1, 1], threads: [threads as u32, 1, 1], ..Grid::cover(1, 1) }
}

#[test]
fn a_device_number_runs_through_the_coordinates() -> Result<(), LayoutError> {
    for layout in [
        layout!(64:1),
        layout!((8, 8):(8, 1)),
        layout!((4, (2, 8)):(2, (1, 8))),
        layout!((3, 5, 7):(70, 7, 1)),
        layout!((6, (2, 3)):(0, (5, 1))),
    ] {
        let size = layout.size()?.to_static()?;
        let kernel = build(|k, x, y| {
            let x = Tensor::new(x, &layout);
            let t = k.thread_idx().x;
            y.store(t, x.load(t));
        });
        let expected: Vec<i32> = layout.indices()?.map(|index| index as i32).collect();
        for found in run(kernel, one_block(size), layout.cosize()?.to_static()?.max(size)) {
            assert_eq!(found[..size as usize], expected, "{layout}");
        }
    }
    Ok(())
}

#[test]
fn host_and_device_entries_mix() -> Result<(), LayoutError> {
    let layout = layout!((4, (2, 8), 3):(2, (1, 8), 64));
    // Thread t takes the place (2, (t % 2, t / 2), 1), cut in three ways.
    let kernel = build(|k, x, y| {
        let x = Tensor::new(x, &layout);
        let t = k.thread_idx().x;
        let (inner, outer) = (t % 2, t / 2);
        y.store(t, x.load((2, (inner, outer), 1)));
        y.store(t + 16, x.slice((.., .., 1)).load((2, t)));
        y.store(t + 32, x.slice((.., (.., outer), ..)).load((2, inner, 1)));
        y.store(t + 48, x.domain_offset((2, 0, 1)).load((0, t, 0)));
    });
    for found in run(kernel, one_block(16), layout.cosize()?.to_static()?) {
        for t in 0..16 {
            let expected = layout.crd2idx((2, (t % 2, t / 2), 1))?;
            for way in 0..4 {
                assert_eq!(i64::from(found[(t + 16 * way) as usize]), expected.to_static()?);
            }
        }
    }
    Ok(())
}

/// Stores `row * columns + column` at each `(row, column)`; a thread has one row and two columns.
type Stores = for<'b> fn(&Body<'b, '_>, &GlobalTensorMut<'b, i32>, [Val<'b, i32>; 2], i32);

const STORES: [Stores; 5] = [
    // All of the coordinate is known when the kernel runs.
    |_, tile, [row, pair], columns| {
        for i in 0..2 {
            let column = pair * 2 + i;
            tile.store((row, column), row * columns + column);
        }
    },
    // Each device number by itself, the host number last.
    |_, tile, [row, pair], columns| {
        let line = tile.slice((row, ..)).logical_divide(&layout!(2:1));
        let line = line.slice((.., pair));
        for i in 0..2 {
            line.store(i, row * columns + pair * 2 + i);
        }
    },
    |_, tile, [row, pair], columns| {
        let pairs = tile.logical_divide(&tiler!(1, 2)).slice((.., (.., pair)));
        for i in 0..2 {
            pairs.store((row, i), row * columns + pair * 2 + i);
        }
    },
    // A host number first.
    |_, tile, [row, pair], columns| {
        for i in 0..2 {
            let line = tile.domain_offset((0, i)).slice((row, ..));
            line.store(pair * 2, row * columns + pair * 2 + i);
        }
    },
    // The origin moves by numbers whose bits are not known.
    |_, tile, [row, pair], columns| {
        let moved = tile.domain_offset((0, pair * 2)).slice((row, ..));
        for i in 0..2 {
            moved.store(i, row * columns + pair * 2 + i);
        }
    },
];

#[test]
fn swizzled_elements_are_where_the_swizzle_puts_them() -> Result<(), LayoutError> {
    for text in [
        "S<3,2,3> o 0 o (8,32):(32,1)",
        "S<2,0,3> o 0 o (8,32):(32,1)",
        "S<3,0,5> o 0 o (8,32):(1,8)",
        "S<1,4,-3> o 0 o (8,32):(32,1)",
        // The offset has bits in common with the rest: sums carry.
        "S<3,2,3> o 36 o (6,32):(32,1)",
        "S<2,1,3> o 5 o (4,10):(20,2)",
    ] {
        let composed: ComposedLayout = text.parse()?;
        let extent = |mode: usize| composed.shape()?.mode(&[mode])?.product()?.to_static();
        let (rows, columns) = (extent(0)?, extent(1)?);
        for (way, stores) in STORES.into_iter().enumerate() {
            let kernel = build(|k, _, y| {
                let tile = Tensor::new(y, &composed);
                let (t, pairs) = (k.thread_idx().x, columns as i32 / 2);
                stores(k, &tile, [t / pairs, t % pairs], columns as i32);
            });
            let mut expected = vec![-1; 512];
            for row in 0..rows {
                for column in 0..columns {
                    let index = composed.crd2idx((row, column))?.to_static()?;
                    expected[index as usize] = (row * columns + column) as i32;
                }
            }
            for found in run(kernel, one_block(rows * columns / 2), 512) {
                assert_eq!(found, expected, "{text} in way {way}");
            }
        }
    }
    Ok(())
}

/// A swizzle moves indices within blocks: the allocation has them all.
#[test]
fn a_swizzled_tensor_in_shared_memory_has_room() -> Result<(), LayoutError> {
    let composed: ComposedLayout = "S<3,2,3> o 0 o (5,32):(32,1)".parse()?;
    let kernel = build(|k, x, y| {
        let tile = SharedTensor::<i32>::shared(k, &composed);
        let t = k.thread_idx().x;
        k.for_(range(0, 5), (), |_, row, ()| tile.store((row, t), x.load(row * 32 + t)));
        k.barrier();
        for row in 0..5 {
            y.store(32 * row + t, tile.load((row, 31 - t)));
        }
    });
    for found in run(kernel, one_block(32), 160) {
        let expected: Vec<i32> = (0..160).map(|i| i / 32 * 32 + 31 - i % 32).collect();
        assert_eq!(found, expected);
    }
    Ok(())
}

/// Blocks take tiles, threads take parts of them: each element of `y` is written once, with the
/// element of `x` at the same coordinate, and the tensor of coordinates agrees.
#[test]
fn tiles_and_partitions_are_those_of_the_algebra() -> Result<(), LayoutError> {
    let (rows, columns) = (24, 32);
    for threads in [
        layout!((4, 8):(8, 1)),
        layout!((4, 8):(1, 4)),
        layout!((2, 16):(16, 1)),
        layout!(((2, 2), 8):((16, 1), 2)),
        // Indices 8 to 15 of each 16 have no place of their own.
        layout!((4, 4):(1, 16)),
    ] {
        let x_layout = layout!((rows, columns):(columns, 1));
        let y_layout = layout!((rows, columns):(1, rows));
        let kernel = build(|k, x, y| {
            let (block, t) = (k.block_idx(), k.thread_idx().x);
            let coord = (block.x, block.y);
            let tile = tiler!(8, 16);
            let x = Tensor::new(x, &x_layout).local_tile(&tile, coord);
            let y = Tensor::new(y, &y_layout).local_tile(&tile, coord);
            let at = CoordTensor::identity(k, shape!(rows, columns)).local_tile(&tile, coord);
            let x = x.local_partition(&threads, t);
            let y = y.local_partition(&threads, t);
            let at = at.local_partition(&threads, t);
            for i in 0..x.size() {
                let DeviceCoord::Tuple(at) = at.coord(i) else { continue };
                let [DeviceCoord::Device(row), DeviceCoord::Device(column)] = at[..] else {
                    continue;
                };
                // 0 if all three agree.
                let index = row * columns as i32 + column;
                y.store(i, x.load(i) - index);
            }
        });
        let grid = Grid { blocks: [3, 2, 1], ..one_block(threads.cosize()?.to_static()?) };
        for found in run(kernel, grid, rows * columns) {
            assert_eq!(found, vec![0; (rows * columns) as usize], "{threads}");
        }
    }
    Ok(())
}

#[test]
fn the_part_of_a_thread_is_that_of_the_host_algebra() -> Result<(), LayoutError> {
    let x = layout!((16, (2, 8)):(16, (1, 2)));
    let threads = layout!((4, 8):(8, 1));
    let kernel = build(|k, _, y| {
        let places = CoordTensor::identity(k, shape!(16, 16));
        let part = places.local_partition(&threads, k.thread_idx().x);
        let part_of_x = Tensor::new(y, &x).local_partition(&threads, k.thread_idx().x);
        assert_eq!(part_of_x.layout().to_string(), "(4,2):(64,8)");
        for i in 0..8 {
            let DeviceCoord::Tuple(at) = part.coord(i) else { continue };
            let [DeviceCoord::Device(row), DeviceCoord::Device(column)] = at[..] else { continue };
            y.store(k.thread_idx().x * 8 + i, row * 16 + column);
        }
    });
    for found in run(kernel, one_block(32), 256) {
        for thread in 0..32 {
            let (part, offset) = x.local_partition(&threads, &Int::from(thread))?;
            let offset = offset.to_int()?.to_static()?;
            for i in 0..8 {
                assert_eq!(i64::from(found[(thread * 8 + i) as usize]), offset + part.at(i)?);
            }
        }
    }
    Ok(())
}

#[test]
fn fragments_hold_what_is_set() {
    let kernel = build(|k, x, y| {
        let t = k.thread_idx().x;
        let fragment = RegisterTensor::<i32>::registers(k, layout!((2, 3):(3, 1)));
        fragment.fill(7);
        fragment.store((1, 2), x.load(t));
        k.for_(range(0, 2), (), |_, _, ()| {
            let row = fragment.slice((1, ..));
            row.store(2, row.load(2) * 3);
        });
        y.store(t * 2, fragment.load((0, 2)));
        y.store(t * 2 + 1, fragment.load((1, 2)));
    });
    for found in run(kernel, one_block(4), 8) {
        assert_eq!(found, [7, 0, 7, 9, 7, 18, 7, 27]);
    }
}

/// `fill` of a part sets its elements and no other register, whatever layout the part has.
#[test]
fn parts_of_fragments_are_filled_alone() {
    type Part = for<'b> fn(&Body<'b, '_>, &RegisterTensor<'b, i32>) -> RegisterTensor<'b, i32>;
    let parts: [Part; 5] = [
        |_, all| all.clone(),
        |_, all| all.slice((1, ..)),
        |_, all| all.slice((.., 2)),
        |_, all| all.local_tile(&tiler!(1, 2), (1, 1)),
        |_, all| all.slice((.., 1)).slice(0).composition(&layout!(2:0)),
    ];
    for part in parts {
        let kernel = build(|k, _, y| {
            // Two registers are no elements.
            let all = RegisterTensor::<i32>::registers(k, layout!((2, 4):(5, 1)));
            all.fill(0);
            part(k, &all).fill(1);
            // The same by single elements.
            let expected = RegisterTensor::<i32>::registers(k, layout!((2, 4):(5, 1)));
            expected.fill(0);
            let part = part(k, &expected);
            for i in 0..part.size() {
                part.store(i, 1);
            }
            for i in 0..8 {
                y.store(i, all.load(i) - expected.load(i));
            }
        });
        assert!(run(kernel, one_block(1), 8).iter().all(|found| *found == [0; 8]));
    }
}

/// 1 where `to` is `from` rounded up, else 0.
fn rounded<'b>(k: &Body<'b, '_>, bytes: u32, from: Val<'b, i64>, to: Val<'b, i64>) -> Val<'b, i32> {
    let n = i64::from(bytes);
    to.eq((from + (n - 1)) / n * n).select(k.constant(1), k.constant(0))
}

/// `align(p, n)` is the first multiple of `n` from `p` on, in every memory, whatever is known of
/// `p`.
#[test]
fn pointers_are_rounded_up() {
    for bytes in [1u32, 4, 8, 16, 64, 256] {
        let kernel = build(|k, x, y| {
            let t = k.thread_idx().x;
            let shared = TensorPointer::new(k.shared_aligned::<i32>(256, 256));
            let x = TensorPointer::new(x);
            for (i, at) in [x + t, x + 3, 5i64 + x, t + x - 1 + 2i64].into_iter().enumerate() {
                let aligned = at.align(bytes);
                assert!(aligned.alignment() >= bytes && aligned.max_alignment() >= bytes);
                let right = rounded(k, bytes, at.toint(), aligned.toint());
                y.store(t * 8 + i as i32, right);
            }
            let inner = [shared + t, shared + 3, 5i64 + shared, t.cvt::<i64>() + shared];
            for (i, at) in inner.into_iter().enumerate() {
                let aligned = at.align(bytes);
                let right = rounded(k, bytes, at.toint().cvt(), aligned.toint().cvt());
                y.store(t * 8 + i as i32 + 4, right);
            }
        });
        assert!(run(kernel, one_block(32), 256).iter().all(|found| *found == [1; 256]), "{bytes}");
    }
    let kernel = build(|_, x, _| {
        // Nothing is computed for what is known.
        let x = TensorPointer::new(x).assume_aligned(64);
        (x + 4).align(16);
        assert_eq!((x + 4).max_alignment(), 64);
    });
    assert!(kernel.is_ok_and(|kernel| !kernel.to_string().contains("and")));
}

/// Every error, each with its text and on the line at fault.
#[test]
fn mistakes_are_errors_of_the_build() -> Result<(), LayoutError> {
    let identity = Layout::identity((2, 2))?;
    let scaled = ComposedLayout::new(layout!(8:2), 0, layout!(4:1))?;
    let swizzled: ComposedLayout = "S<2,2,3> o 0 o (8,32):(32,1)".parse()?;
    let errors = build(|k, x, _| {
        let plain = Tensor::new(x, layout!((8, 4):(1, 8)));
        plain.slice((.., 1, ..)).load(0); // one error, not two
        plain.load((1, ..));
        plain.local_tile(&tiler!(2, 2, 2), (0, 0)).load(0);
        plain.local_partition(&layout!((4, 4):(1, 2)), k.thread_idx().x);
        plain.group_modes(1, 3);
        Tensor::new(x, &identity);
        Tensor::new(x, &scaled);
        let fragment = RegisterTensor::<f32>::registers(k, layout!(4:1));
        fragment.store(k.thread_idx().x, 1.0);
        RegisterTensor::<f32>::registers(k, Layout::compact(Int::symbol("n")));
        plain.data().assume_aligned(12);
        plain.data().align(24);
        SharedTensor::<f32>::shared(k, swizzled.clone()).data().align(256);
    })
    .expect_err("all of it is wrong");
    let texts: Vec<String> = errors.iter().map(|error| error.kind.to_string()).collect();
    let expected = [
        "`slice` of ptr<i32, gmem, align<4>> o (8,4):(1,8): 2 modes are needed, 3 were given",
        "`load` of ptr<i32, gmem, align<4>> o (8,4):(1,8): load needs a value, but got `_`",
        "`local_tile` of ptr<i32, gmem, align<4>> o (8,4):(1,8): the tiler has 3 modes, but the layout has only 2",
        "`local_partition` of ptr<i32, gmem, align<4>> o (8,4):(1,8): in the thread layout (4,4):(1,2), the stride 2 must be a multiple of the range that the smaller strides cover",
        "`group_modes` of ptr<i32, gmem, align<4>> o (8,4):(1,8): 1..3 is not a valid range of modes; it must be non-empty and within the tuple's 2 modes",
        "`make_tensor` of ptr<i32, gmem, align<4>> o (2,2):(1@0,1@1): the stride 1@0 is not an integer",
        "`make_tensor` of ptr<i32, gmem, align<4>> o 8:2 o 0 o 4:1: a tensor's layout can only be composed with a swizzle, not with 8:2: apply that to the coordinates first",
        "`store` of rmem<f32> o 4:1: registers have no addresses, so a device value cannot index them: use a host loop, or keep the tensor in shared memory",
        "`make_tensor` of rmem<f32> o n:1: n is not static; evaluate it with the values of its symbols first",
        "`assume_aligned` of ptr<i32, gmem, align<4>>: alignment must be a power of two, got 12",
        "`align` of ptr<i32, gmem, align<4>>: alignment must be a power of two, got 24",
        "`align` of ptr<f32, smem, align<16>, S<2,2,3>>: align is not defined for a swizzled pointer: align it before it is swizzled",
    ];
    assert_eq!(texts, expected);
    let lines: Vec<u32> = errors.iter().map(|error| error.location.line).collect();
    assert!(lines.windows(2).all(|pair| pair[0] < pair[1]), "{lines:?}");
    assert!(errors.iter().all(|error| error.location.file == file!()));
    Ok(())
}

/// Names follow their modes.
#[test]
fn names_follow_modes() {
    let errors = build(|k, x, _| {
        let a = Tensor::new(x, layout!((64, 32, 3):(32, 1, 2048))).named(["m", "k", "batch"]);
        let names = |tensor: GlobalTensorMut<'_, i32>| {
            tensor.to_string().split_once(" of ").map(|(_, names)| names.to_owned())
        };
        let check = |tensor, expected: &str| assert_eq!(names(tensor).as_deref(), Some(expected));
        let tile = tiler!(16, 8);
        check(a.slice((3, .., ..)), "(k,batch)");
        check(a.zipped_divide(&tile), "((m,k),(tiles of m,tiles of k,batch))");
        check(a.tiled_divide(&tile), "((m,k),tiles of m,tiles of k,batch)");
        check(a.flat_divide(&tile), "(m,k,tiles of m,tiles of k,batch)");
        let divided = a.logical_divide(&tile);
        check(divided.slice(((.., 1), (.., ..), 0)), "(m,k,k)");
        check(divided, "(m,k,batch)");
        check(a.local_tile(&tile, (1, .., k.block_idx().x)), "(m,k,tiles of k)");
        check(a.local_partition(&layout!((4, 8, 1)), k.thread_idx().x), "(m,k,batch)");
        check(a.group_modes(1, 3), "(m,(k,batch))");
        check(a.select(&[2, 0]), "(batch,m)");
        check(a.domain_offset((1, 2, 0)), "(m,k,batch)");
        check(a.zipped_divide(&layout!(8)), "((m,k,batch),tiles of (m,k,batch))");
        assert_eq!(names(a.coalesce()), None);
        a.named(["m"]);
        a.named(["m", "", "k"]);
        a.named(["m", "k", "m"]);
    })
    .expect_err("the last names are too few");
    let texts: Vec<String> = errors.iter().map(|error| error.kind.to_string()).collect();
    assert_eq!(
        texts,
        [
            "`named` of ptr<i32, gmem, align<4>> o (64,32,3):(32,1,2048) of (m,k,batch): there are 3 modes, but 1 names were given",
            "`named` of ptr<i32, gmem, align<4>> o (64,32,3):(32,1,2048) of (m,k,batch): the name of mode 1 is empty",
            "`named` of ptr<i32, gmem, align<4>> o (64,32,3):(32,1,2048) of (m,k,batch): several modes have the name `m`",
        ]
    );
}
