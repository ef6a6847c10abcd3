//! Conditions on the launch: what they say, and whether launches fulfil them.

use tilewright::ir::{Global, GlobalMut, Kernel, KernelOptions, Target};
use tilewright::prove::{LaunchValue, LaunchValues, Proof, Verdict};

fn texts(proof: &Proof) -> Vec<String> {
    proof.conditions().iter().map(ToString::to_string).collect()
}

fn buffer(len: u64) -> LaunchValue {
    LaunchValue::Buffer { len, alignment: 256 }
}

/// Returns whether a launch fulfils all conditions.
fn holds(proof: &Proof, blocks: u32, threads: u32, arguments: &[LaunchValue]) -> bool {
    let values = LaunchValues::new([blocks, 1, 1], [threads, 1, 1], arguments.to_vec());
    proof.conditions().iter().all(|condition| condition.holds(&values))
}

#[test]
fn a_guarded_kernel_needs_a_buffer_of_n() {
    type Params = (Global<f32>, GlobalMut<f32>, i32);
    let kernel = Kernel::<Params>::build("axpy", Target::SM_80, |k, (x, y, n)| {
        let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
        k.if_(i.lt(n), |_| y.store(i, 2.0 * x.load(i) + y.load(i)));
    })
    .unwrap();
    let proof = kernel.prove();
    assert!(proof.is_complete(), "{proof}");
    let all = texts(&proof);
    let starts = ["2147483648 >= ntid.x*nctaid.x", "len(p0) >= p2", "len(p1) >= p2"];
    assert_eq!(all.len(), starts.len(), "{proof}");
    assert!(all.iter().zip(starts).all(|(text, start)| text.starts_with(start)), "{proof}");
    let n = LaunchValue::Integer;
    assert!(holds(&proof, 4, 256, &[buffer(1000), buffer(1000), n(1000)]));
    assert!(!holds(&proof, 4, 256, &[buffer(999), buffer(1000), n(1000)]));
    assert!(!holds(&proof, 4, 256, &[buffer(1000), buffer(999), n(1000)]));
    assert!(holds(&proof, 4, 256, &[buffer(0), buffer(0), n(-3)]));
    assert!(!holds(&proof, 1 << 30, 256, &[buffer(9), buffer(9), n(9)]));
}

#[test]
fn required_lengths_are_facts() {
    type Params = (GlobalMut<f32>, i32, i32);
    let kernel = Kernel::<Params>::build("fill", Target::SM_80, |k, (x, rows, columns)| {
        x.require_len(rows * columns);
        let (row, column) = (k.block_idx().x, k.thread_idx().x);
        k.if_(row.lt(rows) & column.lt(columns), |_| {
            x.store(row.cvt::<i64>() * columns.cvt::<i64>() + column.cvt::<i64>(), 1.0);
        });
    })
    .unwrap();
    let proof = kernel.prove();
    assert!(proof.is_complete(), "{proof}");
    assert_eq!(proof.conditions().len(), 0, "{proof}");
}

/// A condition is not asked for if the launch switches the access off.
#[test]
fn guards_that_the_launch_decides_weaken_conditions() {
    type Params = (Global<f32>, GlobalMut<f32>, i32, i32);
    let kernel = Kernel::<Params>::build("bias", Target::SM_80, |k, (bias, y, n, with)| {
        let i = k.thread_idx().x;
        k.if_(with.ne(0), |k| {
            k.if_(i.lt(n), |_| y.store(i, bias.load(i)));
        });
    })
    .unwrap();
    let proof = kernel.prove();
    assert!(proof.is_complete(), "{proof}");
    let n = LaunchValue::Integer;
    assert!(holds(&proof, 1, 64, &[buffer(64), buffer(64), n(64), n(1)]));
    assert!(!holds(&proof, 1, 64, &[buffer(63), buffer(64), n(64), n(1)]));
}

#[test]
fn open_accesses_name_their_line_and_what_is_missing() {
    type Params = (Global<i32>, Global<f32>, GlobalMut<f32>);
    let kernel = Kernel::<Params>::build("gather", Target::SM_80, |k, (index, x, y)| {
        let i = k.thread_idx().x;
        let from = index.load(i);
        y.store(i, x.load(from));
    })
    .unwrap();
    let proof = kernel.prove();
    let open: Vec<_> = proof.open().collect();
    let [one] = open[..] else { panic!("{proof}") };
    assert_eq!(one.name, "ld");
    assert!(one.location.file.ends_with("conditions.rs"), "{}", one.location);
    let Verdict::Checked(reason) = &one.verdict else { panic!("{proof}") };
    assert!(reason.contains(">= 0"), "{reason}");
    assert!(proof.to_string().starts_with("`gather`: 3 obligations"), "{proof}");
}

/// Asserts that the kernel has no open access, and that a launch fulfils its conditions exactly if
/// the buffer of parameter `buffer` has at least `needed` elements.
#[track_caller]
fn needs(proof: &Proof, blocks: u32, arguments: &[LaunchValue], buffer: usize, needed: u64) {
    assert!(proof.is_complete(), "{proof}");
    let with = |len: u64| {
        let mut arguments = arguments.to_vec();
        arguments[buffer] = LaunchValue::Buffer { len, alignment: 256 };
        holds(proof, blocks, 32, &arguments)
    };
    assert!(with(needed), "{needed} elements are refused: {proof}");
    assert!(!with(needed - 1), "{} elements are accepted: {proof}", needed - 1);
}

#[test]
fn blocks_that_are_divided_into_heads_and_tiles_need_their_rows() {
    type Params = (GlobalMut<f32>, [i32; 3], [i64; 2]);
    let kernel = Kernel::<Params>::build_with(
        KernelOptions::default().block([32, 1, 1]),
        "rows",
        Target::SM_80,
        |k, (y, [tiles, heads, rows], [of_row, of_head])| {
            let block = k.block_idx().x;
            let (tile, head) = (block % tiles, block / tiles % heads);
            let row = tile * 32 + k.thread_idx().x;
            let at = row.cvt::<i64>() * of_row + head.cvt::<i64>() * of_head;
            k.if_(row.lt(rows), |_| y.store(at, 1.0));
        },
    )
    .unwrap();
    let n = LaunchValue::Integer;
    // 3 heads of 70 rows in tiles of 32: the last element is row 69 of head 2.
    let arguments = [buffer(0), n(3), n(3), n(70), n(4), n(1000)];
    needs(&kernel.prove(), 9, &arguments, 0, 69 * 4 + 2 * 1000 + 1);
}

/// A guard of two indices bounds both together, also where the access has other terms.
#[test]
fn parts_of_a_depth_that_blocks_share_need_its_end() {
    type Params = (GlobalMut<f32>, [i32; 3]);
    let kernel = Kernel::<Params>::build_with(
        KernelOptions::default().block([32, 1, 1]),
        "parts",
        Target::SM_80,
        |k, (y, [tiles, steps, each])| {
            let thread = k.thread_idx().x;
            let (lane, tile) = (thread % 4, (thread / 4 % 2).min(tiles - 1));
            let step = k.block_idx().x * each + thread / 8;
            let at = tile.mul_wide(steps * 4) + step.mul_wide(4) + lane.cvt::<i64>();
            k.if_(step.lt(steps), |_| y.store(at, 1.0));
        },
    )
    .unwrap();
    let n = LaunchValue::Integer;
    // 10 steps of 4 elements: 3 blocks of 4 steps, of which the last one has 2.
    for tiles in [1, 2] {
        let needed = 4 * 10 * u64::try_from(tiles).unwrap();
        needs(&kernel.prove(), 3, &[buffer(0), n(tiles), n(10), n(4)], 0, needed);
    }
}

#[test]
fn shifts_by_unknown_amounts_are_quotients() {
    type Params = (Global<i32>, GlobalMut<i32>, i32, u32);
    let kernel = Kernel::<Params>::build_with(
        KernelOptions::default().block([32, 1, 1]),
        "pages",
        Target::SM_80,
        |k, (table, y, n, bits)| {
            let i = k.block_idx().x * 32 + k.thread_idx().x;
            let token = i & ((k.constant(1) << bits) - 1);
            k.if_(i.lt(n), |_| y.store(token, table.load(i >> bits)));
        },
    )
    .unwrap();
    let n = LaunchValue::Integer;
    // 100 tokens in pages of 16: 7 pages.
    let arguments = [buffer(1000), buffer(1000), n(100), n(4)];
    needs(&kernel.prove(), 4, &arguments, 0, 7);
    needs(&kernel.prove(), 4, &arguments, 1, 16);
    // Such a shift gives 0.
    assert!(!holds(&kernel.prove(), 4, 32, &[buffer(1000), buffer(1000), n(100), n(40)]));
}

#[test]
fn unsigned_comparisons_exclude_negative_indices() {
    type Params = (Global<i32>, Global<f32>, GlobalMut<f32>, i32);
    let build = |is_unsigned: bool| {
        let options = KernelOptions::default().block([32, 1, 1]);
        Kernel::<Params>::build_with(options, "gather", Target::SM_80, |k, (index, x, y, n)| {
            let i = k.thread_idx().x;
            let from = index.load(i);
            let is_in = match is_unsigned {
                true => from.cvt::<u32>().lt(n.cvt::<u32>()),
                false => from.lt(n),
            };
            k.if_(is_in, |_| y.store(i, x.load(from)));
        })
        .unwrap()
    };
    let n = LaunchValue::Integer;
    needs(&build(true).prove(), 1, &[buffer(32), buffer(0), buffer(32), n(50)], 1, 50);
    assert!(!build(false).prove().is_complete(), "{}", build(false).prove());
}

#[test]
fn choices_settle_where_a_guard_contradicts_one_side() {
    type Params = (Global<i32>, Global<f32>, GlobalMut<f32>, [i32; 2], i64);
    let kernel = Kernel::<Params>::build_with(
        KernelOptions::default().block([32, 1, 1]),
        "paged",
        Target::SM_80,
        |k, (table, x, y, [pages, n], of_page)| {
            let i = k.thread_idx().x;
            let page = table.load(k.block_idx().x);
            // No page has no elements.
            let left = (page.ge(0) & page.lt(pages)).select(n, 0);
            let at = page.cvt::<i64>() * of_page + i.cvt::<i64>();
            k.if_(i.lt(left), |_| y.store(i, x.load(at)));
        },
    )
    .unwrap();
    let n = LaunchValue::Integer;
    let arguments = [buffer(4), buffer(0), buffer(32), n(10), n(20), n(32)];
    needs(&kernel.prove(), 4, &arguments, 1, 9 * 32 + 20);
}

/// Both ends are tested, although each would follow from the other one and itself.
#[test]
fn conditions_do_not_follow_from_themselves() {
    let kernel = Kernel::<(GlobalMut<f32>, i64)>::build("one", Target::SM_80, |k, (y, l)| {
        let one = k.shared::<f32>(1);
        one.store(l, 1.0);
        k.barrier();
        y.store(0, one.load(0));
    })
    .unwrap();
    let proof = kernel.prove();
    assert!(proof.is_complete(), "{proof}");
    for l in [-5, -1, 0, 1] {
        let arguments = [buffer(1), LaunchValue::Integer(l)];
        assert_eq!(holds(&proof, 1, 32, &arguments), l == 0, "{l}: {proof}");
    }
}
