//! [`ProfileBuilder`] writes a tuple's profile (how it is nested, without its leaves) from left to
//! right and checks its limits. The builders of tuples and layouts use it.

use smallvec::SmallVec;

use super::error::LayoutError;

/// The code of a leaf in a profile.
pub(crate) const LEAF: u16 = u16::MAX;
/// The deepest nesting that we support. It bounds the recursion of every operation.
pub(crate) const MAX_DEPTH: usize = 64;

/// A profile's codes, one per node in pre-order: how many children it has, or [`LEAF`].
pub(crate) type Codes = SmallVec<[u16; 16]>;

/// The error for a tuple with too many modes or leaves.
#[cold]
pub(crate) fn too_many_modes() -> LayoutError {
    LayoutError::TooLarge { what: "the number of modes and leaves", limit: u64::from(LEAF) - 1 }
}

/// A profile under construction. Its owner keeps the leaves.
#[derive(Clone, Default)]
pub(crate) struct ProfileBuilder {
    codes: Codes,
    /// For each open tuple, the index of its code and how many children it has so far.
    open: SmallVec<[(u32, u32); 8]>,
    error: Option<LayoutError>,
}

impl ProfileBuilder {
    #[inline]
    fn child(&mut self) {
        if let Some((_, count)) = self.open.last_mut() {
            *count = count.saturating_add(1);
        }
    }

    /// Opens a tuple.
    #[inline]
    pub(crate) fn open(&mut self) {
        self.child();
        if self.open.len() >= MAX_DEPTH {
            self.error.get_or_insert(LayoutError::TooDeep { limit: MAX_DEPTH });
        }
        self.open.push((u32::try_from(self.codes.len()).unwrap_or(u32::MAX), 0));
        self.codes.push(0);
    }

    /// Closes the tuple that was opened last.
    #[inline]
    pub(crate) fn close(&mut self) {
        let Some((at, count)) = self.open.pop() else { return };
        match (u16::try_from(count), self.codes.get_mut(at as usize)) {
            (Ok(count), Some(code)) if count != LEAF => *code = count,
            _ => {
                self.error.get_or_insert(too_many_modes());
            }
        }
    }

    /// Appends a leaf.
    #[inline]
    pub(crate) fn leaf(&mut self) {
        self.child();
        self.codes.push(LEAF);
    }

    /// Appends a subtree with the codes `codes`. `depth` must return its depth.
    #[inline]
    pub(crate) fn tree(&mut self, codes: &[u16], depth: impl FnOnce() -> usize) {
        self.child();
        // A tree with few nodes cannot be too deep inside a shallow tuple.
        if self.open.len() + codes.len() > MAX_DEPTH && self.open.len() + depth() > MAX_DEPTH {
            self.error.get_or_insert(LayoutError::TooDeep { limit: MAX_DEPTH });
        }
        self.codes.extend_from_slice(codes);
    }

    /// Returns the codes; those of the empty tuple if nothing was appended.
    #[inline]
    pub(crate) fn finish(mut self) -> Result<Codes, LayoutError> {
        while !self.open.is_empty() {
            self.close();
        }
        if self.codes.is_empty() {
            self.codes.push(0);
        }
        match self.error {
            None => Ok(self.codes),
            Some(error) => Err(error),
        }
    }
}
