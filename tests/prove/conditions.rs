//! Conditions on the launch: what they say, and whether launches fulfil them.

use tilewright::ir::{Global, GlobalMut, Kernel, Target};
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
