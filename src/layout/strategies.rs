//! Random layouts for `proptest`. Use them to test your own layout code; this crate tests its laws
//! with them.
//!
//! `book/src/15-property-testing.md` shows how to state and test a law.
//!
//! ```
//! use proptest::prelude::*;
//! use tilewright::layout::strategies::layouts;
//! proptest!(|(l in layouts(64))| {
//!     prop_assert_eq!(l.coalesce().unwrap().size(), l.size());
//! });
//! ```

mod composable;
mod kinds;
mod thread_value;

pub use composable::{composable_pairs, composable_triples, dividing_tilers};
pub use kinds::{injective_layouts, negative_layouts, swizzled_layouts, symbolic_layouts};
pub use thread_value::{thread_value_layouts, threads_and_values};

use std::sync::Arc;

use proptest::collection::vec;
use proptest::num::usize::BinarySearch;
use proptest::prelude::*;
use proptest::strategy::{NewTree, ValueTree};
use proptest::test_runner::TestRunner;

use super::{
    Builder, ComposedLayout, Env, Int, IntTuple, Layout, LayoutBuilder, ScaledBasis, Swizzle,
    Tiler, TilerLeaf, Tuple,
};

/// Builds a nested layout from `(depth, leaf)` pairs: before each leaf, tuples are opened or closed
/// until the depth is right.
fn nested(leaves: Vec<(u8, (i64, i64))>) -> Layout {
    let mut out = LayoutBuilder::new();
    let mut depth = 0;
    out.open();
    for (wanted, (s, d)) in leaves {
        while depth > wanted {
            out.close();
            depth -= 1;
        }
        while depth < wanted {
            out.open();
            depth += 1;
        }
        out.push(s, d);
    }
    out.finish_literal()
}

/// Draws one of the values, as often as its weight says. It shrinks to the smallest value at once
/// if it can, because bisection alone takes a law for true below the first value for which it
/// holds: `(2,12):(3,2)` is one-to-one, and `(2,12):(0,2)` is not.
fn weighted(mut numbers: Vec<(usize, i64)>) -> Weighted {
    numbers.sort_unstable_by_key(|(_, number)| *number);
    let repeated =
        numbers.into_iter().flat_map(|(weight, number)| std::iter::repeat_n(number, weight));
    Weighted(repeated.collect())
}

/// Sorted values, each repeated as often as its weight says.
#[derive(Clone, Debug)]
struct Weighted(Arc<[i64]>);

impl Strategy for Weighted {
    type Tree = WeightedTree;
    type Value = i64;

    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Self> {
        let index = (0..self.0.len()).new_tree(runner)?;
        Ok(WeightedTree { numbers: self.0.clone(), index, smallest: Smallest::Untried })
    }
}

/// Whether a counterexample has the smallest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Smallest {
    Untried,
    Current,
    Refuted,
}

#[derive(Clone, Debug)]
struct WeightedTree {
    numbers: Arc<[i64]>,
    index: BinarySearch,
    smallest: Smallest,
}

impl ValueTree for WeightedTree {
    type Value = i64;

    fn current(&self) -> i64 {
        let index = if self.smallest == Smallest::Current { 0 } else { self.index.current() };
        self.numbers.get(index).copied().unwrap_or(0)
    }

    fn simplify(&mut self) -> bool {
        match self.smallest {
            Smallest::Untried if self.index.current() > 0 => {
                self.smallest = Smallest::Current;
                true
            }
            Smallest::Untried | Smallest::Current => false,
            Smallest::Refuted => self.index.simplify(),
        }
    }

    fn complicate(&mut self) -> bool {
        match self.smallest {
            Smallest::Untried => false,
            Smallest::Current => {
                self.smallest = Smallest::Refuted;
                self.index.simplify();
                true
            }
            Smallest::Refuted => self.index.complicate(),
        }
    }
}

/// Picks extents that often divide each other.
fn extents() -> impl Strategy<Value = i64> {
    let often = [1, 2, 4, 8].map(|extent| (30, extent));
    let sometimes = [3, 6, 12, 5].map(|extent| (15, extent));
    weighted(often.into_iter().chain(sometimes).chain((1..16).map(|extent| (2, extent))).collect())
}

/// Picks strides that often divide each other.
fn strides() -> impl Strategy<Value = i64> {
    let often = [0, 1, 2, 4, 8, 16, 32].map(|stride| (36, stride));
    let sometimes = [3, 6, 12, 24, 5].map(|stride| (26, stride));
    weighted(often.into_iter().chain(sometimes).chain((0..64).map(|stride| (1, stride))).collect())
}

/// Draws true for one layout in four, which may then have negative strides.
fn signed() -> impl Strategy<Value = bool> {
    prop_oneof![3 => Just(false), 1 => Just(true)]
}

/// Generates shapes of up to four leaves, nested up to depth 2, of at most `max_size` elements. Use
/// it to test code that takes a shape and not a layout.
///
/// ```
/// use proptest::prelude::*;
/// use tilewright::layout::strategies::shapes;
/// proptest!(|(shape in shapes(64))| {
///     prop_assert!((1..=64).contains(&shape.product().unwrap().to_static().unwrap()));
/// });
/// ```
pub fn shapes(max_size: i64) -> impl Strategy<Value = IntTuple> {
    layouts(max_size).prop_map(|l| l.shape().to_owned())
}

/// Generates static layouts of rank 1 to 4, nested up to depth 2, with any strides and at most
/// `max_size` elements. Half of them are compact in some order of their leaves, and a quarter have
/// negative strides. This is the strategy to start with; the others restrict it to one kind of
/// layout.
///
/// ```
/// use proptest::prelude::*;
/// use tilewright::layout::strategies::layouts;
/// proptest!(|(l in layouts(64))| {
///     prop_assert!(l.size().unwrap().to_static().unwrap() <= 64);
/// });
/// ```
pub fn layouts(max_size: i64) -> impl Strategy<Value = Layout> {
    let leaf = (0u8..2, (extents(), strides()), any::<u8>(), any::<bool>());
    // Leaves can be dropped, so that a counterexample shrinks to fewer leaves even after their
    // values have become small.
    let leaves = vec(prop::option::weighted(0.9, leaf), 1..5);
    (leaves, any::<bool>(), signed()).prop_map(move |(drawn, compact, signed)| {
        let drawn: Vec<_> = drawn.into_iter().flatten().collect();
        let mut leaves = Vec::new();
        let mut size = 1;
        for &(depth, (extent, stride), _, _) in &drawn {
            let extent = if size * extent > max_size { 1 } else { extent };
            size *= extent;
            leaves.push((depth, (extent, stride)));
        }
        if compact {
            let mut order: Vec<usize> = (0..drawn.len()).collect();
            order.sort_by_key(|&i| drawn[i].2);
            let mut step = 1;
            for i in order {
                let (_, (s, d)) = &mut leaves[i];
                *d = if *s == 1 { 0 } else { step };
                step *= *s;
            }
        }
        for ((_, (_, d)), (_, _, _, negative)) in leaves.iter_mut().zip(&drawn) {
            *d = if signed && *negative { -*d } else { *d };
        }
        match leaves[..] {
            [] => Layout::trivial(),
            [(0, (s, d))] => Layout::leaf(s, d),
            _ => nested(leaves),
        }
    })
}

/// Generates layouts whose strides are basis elements, each an identity with scaled strides. Use it
/// to test code that accepts layouts into coordinates.
///
/// ```
/// use proptest::prelude::*;
/// use tilewright::layout::strategies::basis_layouts;
/// proptest!(|(l in basis_layouts(64))| {
///     prop_assert!(l.coshape().is_ok(), "{l}");
/// });
/// ```
pub fn basis_layouts(max_size: i64) -> impl Strategy<Value = Layout> {
    let scale = prop_oneof![3 => 1..5i64, 1 => -4..0i64];
    (shapes(max_size), scale).prop_filter_map("too deep", |(shape, scale)| {
        let identity = Layout::identity(&shape).ok()?;
        let stride =
            identity.stride().to_owned().map(|d: &ScaledBasis| d.scaled(&Int::new(scale))).ok()?;
        Layout::new(&shape, stride).ok()
    })
}

/// Generates two independent layouts. If you need pairs whose composition exists, use
/// [`composable_pairs`].
///
/// ```
/// use proptest::prelude::*;
/// use tilewright::layout::strategies::layout_pairs;
/// proptest!(|((a, b) in layout_pairs(64))| {
///     if let Ok(r) = a.composition(&b) {
///         for i in 0..b.size().unwrap().to_static().unwrap() {
///             prop_assert_eq!(r.at(i), a.at(b.at(i).unwrap()));
///         }
///     }
/// });
/// ```
pub fn layout_pairs(max_size: i64) -> impl Strategy<Value = (Layout, Layout)> {
    (layouts(max_size), layouts(max_size))
}

/// Generates tilers of up to `rank` modes, each an integer, `_` or a layout. Use it to test divides
/// and compositions.
///
/// ```
/// use proptest::prelude::*;
/// use tilewright::layout::strategies::tilers;
/// proptest!(|(t in tilers(3))| {
///     prop_assert!(t.rank() <= 3, "{t}");
/// });
/// ```
pub fn tilers(rank: usize) -> impl Strategy<Value = Tiler> {
    let leaf = prop_oneof![
        4 => extents().prop_map(|n| TilerLeaf::Int(n.into())),
        1 => Just(TilerLeaf::All),
        2 => (extents(), strides(), signed(), any::<bool>()).prop_map(|(s, d, signed, negative)| {
            Layout::leaf(s, if signed && negative { -d } else { d }).into()
        }),
    ];
    vec(leaf, 1..=rank.max(1)).prop_filter_map("too large", |leaves| {
        let mut out = Builder::new();
        out.open();
        for leaf in leaves {
            out.push(leaf);
        }
        out.close();
        out.finish().ok()
    })
}

/// Generates swizzles of up to three bits. Use it to test code that swizzles indices.
///
/// ```
/// use proptest::prelude::*;
/// use tilewright::layout::strategies::swizzles;
/// proptest!(|(s in swizzles(), x in 0..4096i64)| {
///     prop_assert_eq!(s.apply(s.apply(x)), x);
/// });
/// ```
pub fn swizzles() -> impl Strategy<Value = Swizzle> {
    (0..4i64, 0..4i64, 0..3i64, any::<bool>()).prop_filter_map("not admissible", |(b, m, s, n)| {
        let distance = b + s;
        Swizzle::new(b, m, if n { -distance } else { distance }).ok()
    })
}

/// Generates swizzled layouts, with any extents and sometimes an offset. For swizzles that permute
/// the layout's own indices, use [`swizzled_layouts`].
///
/// ```
/// use proptest::prelude::*;
/// use tilewright::layout::strategies::composed_layouts;
/// proptest!(|(l in composed_layouts(64))| {
///     prop_assert_eq!(l.to_string().parse(), Ok(l));
/// });
/// ```
pub fn composed_layouts(max_size: i64) -> impl Strategy<Value = ComposedLayout> {
    (swizzles(), layouts(max_size), prop_oneof![3 => Just(0), 1 => 0..32i64])
        .prop_filter_map("too deep", |(swizzle, layout, offset)| {
            ComposedLayout::new(swizzle, offset, layout).ok()
        })
}

/// Replaces some of a layout's extents and strides by symbols, and returns it with the symbols'
/// values. Use it to test that an operation on symbols agrees with the same operation on integers.
/// Each symbol is known to be divisible by a random divisor of its value. If a stride is negative,
/// the sign of its symbol may be known or not.
///
/// ```
/// use proptest::prelude::*;
/// use tilewright::layout::strategies::{layouts, symbolic};
/// proptest!(|((l, env) in layouts(64).prop_flat_map(symbolic))| {
///     let coalesced = l.coalesce().unwrap().eval(&env).unwrap();
///     let numbers = l.eval(&env).unwrap();
///     prop_assert!(coalesced.indices().unwrap().eq(numbers.indices().unwrap()));
/// });
/// ```
pub fn symbolic(layout: Layout) -> impl Strategy<Value = (Layout, Env)> {
    symbols(layout.shape().leaves().len()).prop_map(move |picks| with_symbols(&layout, picks))
}

/// What happens to an extent or stride: it stays if the first entry is below [`SYMBOL`], and
/// otherwise becomes a symbol with a divisor. Shrinks to staying.
type SymbolPick = (u8, prop::sample::Index);

/// The pick for a symbol with a known sign.
const SYMBOL: u8 = 4;

/// Draws the picks for the extents, and then the strides, of a layout of up to `leaves` leaves.
fn symbols(leaves: usize) -> impl Strategy<Value = Vec<SymbolPick>> {
    vec((0u8..6, any::<prop::sample::Index>()), 2 * leaves)
}

/// Replaces the extents and strides that are picked by symbols.
fn with_symbols(layout: &Layout, picks: Vec<SymbolPick>) -> (Layout, Env) {
    let mut env = Env::new();
    let mut next = 0;
    let mut picks = picks.into_iter();
    let mut replace = |value: Option<i64>, env: &mut Env| {
        let (pick, divisor) = picks.next()?;
        let value = value.filter(|v| pick >= SYMBOL && *v != 0)?;
        let divisors: Vec<i64> = (1..=value.abs()).filter(|d| value % d == 0).collect();
        let name = format!("n{next}");
        next += 1;
        *env = std::mem::take(env).with(&name, value);
        let divisor = divisors[divisor.index(divisors.len())];
        let symbol = Int::symbol(&name);
        if value > 0 {
            return Some(symbol.divisible_by(divisor));
        }
        let max = if pick == SYMBOL { -1 } else { 1 << 20 };
        symbol.assume(divisor, i64::from(i32::MIN), max).ok()
    };
    let shape = layout.shape().to_owned().map(|s| {
        Ok::<_, std::convert::Infallible>(
            replace(s.as_static(), &mut env).unwrap_or_else(|| s.clone()),
        )
    });
    let stride = layout.stride().to_owned().map(|d| {
        Ok::<_, std::convert::Infallible>(match replace(d.as_static(), &mut env) {
            Some(symbol) => ScaledBasis::from(symbol),
            None => d.clone(),
        })
    });
    let (Ok(shape), Ok(stride)) = (shape, stride);
    let made = Layout::new(shape, stride).unwrap_or_else(|_| layout.clone());
    (made, env)
}

/// Wraps a layout as a tiler of one leaf. Use it if a test needs a [`Tiler`] and a strategy gives
/// it a layout.
///
/// ```
/// use tilewright::layout::{layout, strategies::as_tiler};
/// assert_eq!(as_tiler(layout!(4:2)).to_string(), "4:2");
/// ```
pub fn as_tiler(layout: Layout) -> Tiler {
    Tuple::leaf(layout)
}
