//! Proves, before a kernel runs, that its accesses are inside their allocations.
//!
//! A kernel is built while the host program runs: layouts, tile shapes, swizzles and stage counts
//! are numbers by then. Only problem sizes, pitches and data are unknown. So most accesses can be
//! proved for every launch, and most of the others by one comparison when the kernel is launched,
//! such as `len(y) >= n`. Call [`Kernel::prove`] for the list.
//!
//! ```
//! use tilewright::ir::{Global, GlobalMut, Kernel, Target};
//!
//! type Params = (Global<f32>, GlobalMut<f32>, i32);
//! let kernel = Kernel::<Params>::build("copy", Target::SM_80, |k, (x, y, n)| {
//!     let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
//!     k.if_(i.lt(n), |_| y.store(i, x.load(i)));
//! })?;
//! let proof = kernel.prove();
//! assert!(proof.is_complete());
//! let conditions: Vec<String> = proof.conditions().iter().map(ToString::to_string).collect();
//! assert!(conditions.iter().any(|text| text.starts_with("len(p0) >= p2")), "{conditions:?}");
//! # Ok::<(), tilewright::ir::BuildErrors>(())
//! ```
//!
//! # How it works
//!
//! Two walks follow the kernel's integers. The first (`ranges`) finds a range for each value, also
//! for those that loops carry. The second (`walk`) writes each value as a polynomial over the
//! unknowns: thread and block indices, loop counters, parameters, quotients, loaded data. At each
//! access it asks whether `offset >= 0` and `length - offset - bytes >= 0` follow from the facts of
//! the place: enclosing conditions, loop ranges, promises. `entail` answers by eliminating one
//! unknown after the other. If only values that a launch knows are left, the rest is a condition on
//! the launch. A row pitch or a stride may be presumed not to be negative; then that is a condition
//! too. For example, a guarded access at `row*pitch + column` needs `pitch >= 0` and
//! `len(x) >= (rows - 1)*pitch + columns`.
//!
//! The proof is about accesses. [`Kernel::prove_races`] compares two threads and says which
//! allocations are free of data races. Neither says anything about uninitialised memory or deadlocks;
//! the simulator does.

mod atom;
mod check;
mod checked;
mod claim;
mod condition;
mod data_use;
mod descriptor;
mod entail;
mod evaluate;
mod facts;
mod loops;
mod merge;
mod numbers;
mod pointer;
mod poly;
mod proof;
mod races;
mod range;
mod ranges;
mod show;
mod signature;
mod site;
mod strided;
mod walk;

pub(crate) use checked::{Guarded, checked, guarded};
pub(crate) use condition::LaunchFacts;
pub use condition::{Condition, LaunchValue, LaunchValues};
pub use data_use::DataUse;
pub use proof::{Obligation, Proof, Verdict, What};
pub use races::{Contention, OpenPair, RaceProof, RaceVerdict};

use crate::ir::{Kernel, KernelIr, Signature};
use walk::Walk;

impl<P> Kernel<P> {
    /// Proves that the kernel's accesses are inside their allocations and aligned, that no divisor
    /// is zero, and that what `assume_*` promises holds. See [`prove`](crate::prove).
    pub fn prove(&self) -> Proof {
        prove(self.ir(), self.signature())
    }
}

fn prove(ir: &KernelIr, signature: &Signature) -> Proof {
    let mut walk = Walk::new(ir);
    walk.add_signature(signature);
    walk.run();
    walk.merge_requirements();
    let Walk { atoms, sites, requirements, .. } = walk;
    Proof::new(ir, &atoms, sites, &requirements)
}
