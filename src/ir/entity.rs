//! Typed 32-bit ids ([`Value`], [`OpId`], ..) and the [`Arena`]s that they index.
//!
//! Every part of a kernel lives in one of the arenas of its [`KernelIr`](super::KernelIr). Each
//! arena has its own id type, so you cannot index an arena with an id of another kind.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A typed id, such as a `Value` or `OpId`: an index into an [`Arena`]. You name it as a bound in
/// code that is generic over ids.
pub trait Entity: Copy + Eq + 'static {
    /// Returns the id of the arena entry at `index`.
    fn from_index(index: usize) -> Self;
    /// Returns the index into the arena. Indices are dense and start at 0.
    fn index(self) -> usize;
}

macro_rules! entity {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl Entity for $name {
            fn from_index(index: usize) -> Self {
                // An arena of 2^32 entries does not fit in memory, so the cast never truncates.
                $name(index as u32)
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self, f)
            }
        }
    };
}

entity!(
    /// The id of an SSA value: an operation's result, a region's argument, or a kernel parameter.
    /// [`KernelIr::values`](super::KernelIr::values) has its type and definition.
    Value,
    "%"
);
entity!(
    /// The id of an operation in [`KernelIr::ops`](super::KernelIr::ops).
    OpId,
    "op"
);
entity!(
    /// The id of a region: a list of operations with arguments, owned by an operation or by the
    /// kernel.
    RegionId,
    "region"
);
entity!(
    /// The id of a register variable: one or more mutable PTX registers of one type.
    VarId,
    "var"
);
entity!(
    /// The id of a shared-memory allocation.
    SharedId,
    "shared"
);
entity!(
    /// The id of a local-memory allocation. Each thread has its own copy.
    LocalId,
    "local"
);
entity!(
    /// The id of a constant array.
    ArrayId,
    "array"
);
entity!(
    /// A global array.
    GlobalId,
    "global"
);
entity!(
    /// The id of a source location in the Rust program that built the kernel.
    /// [`KernelIr::location_of`](super::KernelIr::location_of) looks up an operation's.
    LocationId,
    "location"
);

/// An append-only list of `T`, indexed by the id type `K`. A kernel's IR keeps its operations,
/// regions and values in arenas.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Arena<K, T> {
    items: Vec<T>,
    key: PhantomData<fn(K) -> K>,
}

impl<K: Entity, T> Arena<K, T> {
    /// Creates an empty arena.
    pub const fn new() -> Self {
        Arena { items: Vec::new(), key: PhantomData }
    }

    /// Adds an entry and returns its id.
    pub fn push(&mut self, item: T) -> K {
        let key = K::from_index(self.items.len());
        self.items.push(item);
        key
    }

    /// Drops all entries after the first `len`, to undo what was added.
    pub(in crate::ir) fn truncate(&mut self, len: usize) {
        self.items.truncate(len);
    }

    /// Returns how many entries the arena has, including ones that the kernel no longer uses.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether the arena is empty.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the entry, or `None` if `key` is out of range.
    pub fn get(&self, key: K) -> Option<&T> {
        self.items.get(key.index())
    }

    /// Iterates over all entries with their ids, in insertion order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (K, &T)> {
        self.items.iter().enumerate().map(|(i, item)| (K::from_index(i), item))
    }

    /// Iterates over all ids, in insertion order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = K> + use<K, T> {
        (0..self.items.len()).map(K::from_index)
    }
}

impl<K: Entity, T> Default for Arena<K, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Entity, T> Index<K> for Arena<K, T> {
    type Output = T;

    fn index(&self, key: K) -> &T {
        &self.items[key.index()]
    }
}

impl<K: Entity, T> IndexMut<K> for Arena<K, T> {
    fn index_mut(&mut self, key: K) -> &mut T {
        &mut self.items[key.index()]
    }
}

impl<K: Entity + fmt::Debug, T: fmt::Debug> fmt::Debug for Arena<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_dense_and_print_with_their_kind() {
        let mut arena: Arena<Value, &str> = Arena::new();
        let a = arena.push("a");
        let b = arena.push("b");
        assert_eq!((a.index(), b.index()), (0, 1));
        assert_eq!((arena[a], arena[b], arena.len()), ("a", "b", 2));
        assert_eq!(arena.keys().collect::<Vec<_>>(), [a, b]);
        assert_eq!(format!("{a} {:?}", OpId::from_index(3)), "%0 op3");
        assert_eq!(arena.get(Value::from_index(2)), None);
    }
}
