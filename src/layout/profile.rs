//! [`ProfileBuilder`] writes the profile of a tuple from left to right and checks its limits.

use smallvec::SmallVec;

use super::error::LayoutError;

/// The code of a leaf in a profile.
pub(crate) const LEAF: u16 = u16::MAX;
/// The deepest supported nesting; it bounds the recursion of every operation.
pub(crate) const MAX_DEPTH: usize = 64;

/// The codes of a profile, one for each node in pre-order.
pub(crate) type Codes = SmallVec<[u16; 16]>;

/// The error for more modes or leaves than a tuple may have.
#[cold]
pub(crate) fn too_many_modes() -> LayoutError {
    LayoutError::TooLarge { what: "the number of modes and leaves", limit: u64::from(LEAF) - 1 }
}

/// The codes of a profile under construction; the leaves are kept by its owner.
#[derive(Clone, Default)]
pub(crate) struct ProfileBuilder {
    codes: Codes,
    /// The index of the code and the number of children so far of each open tuple.
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

    /// Begins a tuple.
    #[inline]
    pub(crate) fn open(&mut self) {
        self.child();
        if self.open.len() >= MAX_DEPTH {
            self.error.get_or_insert(LayoutError::TooDeep { limit: MAX_DEPTH });
        }
        self.open.push((u32::try_from(self.codes.len()).unwrap_or(u32::MAX), 0));
        self.codes.push(0);
    }

    /// Ends the tuple that was begun last.
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

    /// Appends a sub-tree with the codes `codes` and the depth that `depth` returns.
    #[inline]
    pub(crate) fn tree(&mut self, codes: &[u16], depth: impl FnOnce() -> usize) {
        self.child();
        // A tree of few nodes cannot be too deep in a shallow tuple.
        if self.open.len() + codes.len() > MAX_DEPTH && self.open.len() + depth() > MAX_DEPTH {
            self.error.get_or_insert(LayoutError::TooDeep { limit: MAX_DEPTH });
        }
        self.codes.extend_from_slice(codes);
    }

    /// The codes, those of the empty tuple if nothing was appended.
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
