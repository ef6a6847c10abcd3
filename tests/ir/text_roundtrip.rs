//! `parse(print(k)) == k`: for the kernels of the builder, for random ones, and for every text that
//! parses.
//!
//! `PROPTEST_CASES=10000 cargo test --release --test ir text_roundtrip::` is the long run.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use tilewright::ir::op::{Control, Op};
use tilewright::ir::types::Scalar;
use tilewright::ir::{Global, GlobalMut, Kernel, KernelIr, Shared, Target, Val, range};

use crate::support::{random_kernel, tensor_cells, text};

use random_kernel::{random_kernel, raw};
use raw::Raw;
use tensor_cells::Cells;
use text::check_round_trip;

#[test]
fn kernels_of_the_builder() {
    let kernel = Kernel::<(Global<f32>, GlobalMut<f32>, i32)>::build(
        "flow",
        Target::SM_80,
        |k, (x, y, n)| {
            let (sum, last) = k.for_(range(0, n).step(4), (0.0, 0.0), |_, i, (acc, _)| {
                let v = x.load(i);
                (acc + v, v)
            });
            let x0 = x.load(0);
            let (a, eps) = (x.load(1), x.load(2));
            let (root, steps) = k.loop_((x0, 0), |k, lp, (x, n)| {
                let next = (x + a / x) * 0.5;
                k.if_((next - x).abs().lt(eps), |k| lp.break_(k, (next, n)));
                lp.continue_(k, (next, n + 1))
            });
            let y0 = k.if_else(n.lt(5), |k| k.yield_(sum + 1.0), |k| k.yield_(last));
            let z = k.if_with(n.gt(3), y0, |_| 2.0 * root);
            let s: Val<'_, Shared<f32>> = k.shared(32);
            s.store(k.thread_idx().x, z + steps.cvt::<f32>());
            k.barrier();
            let t = k.var(f32::NAN);
            k.for_(range(0u32, 8).step(2), (), |_, i, ()| {
                let old = t.get();
                t.set(old + s.load(i));
            });
            y.store(0, t.get());
        },
    );
    check_round_trip(kernel.unwrap().ir());
}

fn choices() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), 0..600)
}

proptest! {
    #[test]
    fn random_kernels(choices in choices()) {
        let ir = random_kernel(&choices);
        if let Err(errors) = Kernel::verify(ir.clone()) {
            panic!("the generator made a kernel that is not valid:\n{errors}\n{ir}");
        }
        check_round_trip(&ir);
    }

    /// Equality sees every change of one operation.
    #[test]
    fn a_changed_kernel_is_another(choices in choices(), position: prop::sample::Index) {
        let ir = random_kernel(&choices);
        let live = ir.canonical();
        let ops: Vec<_> = live.ops.keys().collect();
        let changed = *position.get(&ops);
        let mut other = live.clone();
        other.ops[changed].op = match live.ops[changed].op {
            Op::Control(Control::Return) => Op::Control(Control::Yield { values: Default::default() }),
            _ => Op::Control(Control::Return),
        };
        prop_assert!(ir == live && live != other);
    }

    /// No text makes parser, printer or verifier panic, and what parses is read back from its
    /// print.
    #[test]
    fn damaged_texts(
        choices in choices(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0..4u8, any::<prop::sample::Index>()), 1..4),
    ) {
        let mut text = random_kernel(&choices).canonical().to_string();
        for (at, kind, other) in damage {
            let words: Vec<&str> = text.split_inclusive([' ', '\n', ',', '(', '<']).collect();
            let (i, j) = (at.index(words.len()), other.index(words.len()));
            let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
            match kind {
                0 => words.swap(i, j),
                1 => words[i] = words[j].clone(),
                2 => words[i].clear(),
                _ => {
                    words.insert(i, "\u{1b}é@".chars().nth(j % 3).unwrap().to_string());
                }
            }
            text = words.concat();
        }
        match text.parse::<KernelIr>() {
            Ok(ir) => {
                check_round_trip(&ir);
                let _ = Kernel::verify(ir).map_err(|errors| errors.to_string());
            }
            Err(error) => prop_assert!(error.to_string().lines().count() == 3),
        }
    }
}

/// Every value of every attribute of the operations of tensor cores, barriers in memory, copies and
/// clusters, also on types that have no such operation.
#[test]
fn every_cell_of_tensor_cores_and_copies() {
    let mut count = 0;
    for info in Op::table() {
        let mut raw = Raw::new("cells", Target::SM_90A);
        let mut cells = Cells::new(&mut raw);
        match info.name {
            "wgmma" | "wgmma_rs" => {
                let sum = Scalar::I32.into();
                cells.wgmma([Scalar::F16, Scalar::U8], sum, 40, &tensor_cells::forms());
            }
            "wgmma_sp" | "wgmma_rs_sp" => {
                let forms = (&tensor_cells::forms()[..], &[0, 1, 2, 3][..]);
                cells.sparse_wgmma([Scalar::F16, Scalar::U8], Scalar::I32.into(), 40, forms);
            }
            name => cells.row(name),
        }
        for cell in cells.into_cells() {
            count += 1;
            raw.op(cell.op);
        }
        raw.op(Control::Return);
        check_round_trip(&raw.ir);
    }
    assert!(count > 2000, "only {count} cells");
}

/// The random kernels have every operation and every form of control flow.
#[test]
fn random_kernels_have_every_operation() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut names: Vec<&str> = Op::table().map(|info| info.name).collect();
    names.extend([
        "const", "if", "for", "loop", "yield", "continue", "break", "return", "assert", "printf",
    ]);
    for _ in 0..4000 {
        let choices = choices().new_tree(&mut runner).unwrap().current();
        let ir = random_kernel(&choices).canonical();
        for (_, data) in ir.ops.iter() {
            names.retain(|name| *name != data.op.name());
        }
    }
    assert!(names.is_empty(), "in no random kernel: {names:?}");
}
