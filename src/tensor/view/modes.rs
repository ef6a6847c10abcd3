//! Rearranges a tensor's modes: flatten, filter, take, get, append, group, select. Use it to bring
//! a partition into the rank that another operation expects; no data moves.

use super::engine::Engine;
use super::tensor::Tensor;

/// # Modes
///
/// Rearranges the modes; the elements stay in place.
impl<'b, E: Engine<'b>> Tensor<E> {
    /// Turns every leaf into a mode of its own: CuTe's `flatten`. Use it before an operation that
    /// counts plain modes.
    ///
    /// ```
    /// use tilewright::ir::{Global, Kernel, Target};
    /// use tilewright::layout::layout;
    /// use tilewright::tensor::view::Tensor;
    ///
    /// Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |_, (x,)| {
    ///     let x = Tensor::new(x, layout!(((2, 4), (3, 1), 5) : ((1, 2), (0, 7), 8)));
    ///     let layout = |t: Tensor<_>| t.layout().to_string();
    ///     assert_eq!(layout(x.flatten()), "(2,4,3,1,5):(1,2,0,7,8)");
    ///     assert_eq!(layout(x.filter_zeros()), "((2,4),(1,1),5):((1,2),(0,7),8)");
    ///     assert_eq!(layout(x.filter()), "40:1");
    ///     assert_eq!(layout(x.take(1, 3)), "((3,1),5):((0,7),8)");
    ///     assert_eq!(layout(x.get(&[0, 1])), "4:2");
    ///     assert_eq!(layout(x.get(&[2]).append_ones(3)), "(5,1,1):(8,0,0)");
    ///     assert_eq!(layout(x.get(&[2]).prepend_ones(2)), "(1,5):(0,8)");
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    pub fn flatten(&self) -> Self {
        let k = &self.body();
        self.with_layout(k, "flatten", self.layout.flatten())
    }

    /// Keeps each element once, in as few modes as possible: CuTe's `filter`. For example
    /// `(4,2):(1,0)` becomes `4:1`. Use it if a broadcast mode would make you visit elements twice.
    #[track_caller]
    pub fn filter(&self) -> Self {
        let k = &self.body();
        self.with_layout(k, "filter", self.layout.filter())
    }

    /// Sets the extent of every leaf with stride 0 to 1: CuTe's `filter_zeros`. For example
    /// `(4,2):(1,0)` becomes `(4,1):(1,0)`, so that the rank stays.
    #[track_caller]
    pub fn filter_zeros(&self) -> Self {
        let k = &self.body();
        let names = self.names.clone();
        self.with_layout(k, "filter_zeros", Ok(self.layout.filter_zeros())).with_names(names)
    }

    /// Keeps the modes from `begin` to `end - 1`: CuTe's `take`. Use it to drop the modes of tiles
    /// after a divide, or to keep only these.
    #[track_caller]
    pub fn take(&self, begin: usize, end: usize) -> Self {
        let k = &self.body();
        let modes: Vec<usize> = (begin..end.min(self.rank())).collect();
        let taken = self.with_layout(k, "take", self.layout.take(begin, end));
        taken.with_names(self.names.select(&modes))
    }

    /// Returns the mode at a path as a tensor: CuTe's `get`. For example `[1, 0]` is the first mode
    /// inside the second one. Use it to work on one part of a nested mode.
    #[track_caller]
    pub fn get(&self, path: &[usize]) -> Self {
        let k = &self.body();
        self.with_layout(k, "get", self.layout.get(path))
    }

    /// Appends modes of extent 1 until there are `rank` modes: CuTe DSL's `append_ones`. Use it if
    /// an operation expects more modes than a slice has left.
    #[track_caller]
    pub fn append_ones(&self, rank: usize) -> Self {
        let k = &self.body();
        self.with_layout(k, "append_ones", self.layout.append_ones(rank))
    }

    /// Prepends modes of extent 1 until there are `rank` modes: CuTe DSL's `prepend_ones`. Use it
    /// if the missing modes belong before the present ones, for example a value mode V.
    #[track_caller]
    pub fn prepend_ones(&self, rank: usize) -> Self {
        let k = &self.body();
        self.with_layout(k, "prepend_ones", self.layout.prepend_ones(rank))
    }

    /// Groups the modes from `begin` to `end - 1` into one: CuTe's `group_modes`. Use it to treat
    /// several modes as one, for example before a slice or a loop over them.
    #[track_caller]
    pub fn group_modes(&self, begin: usize, end: usize) -> Self {
        let k = &self.body();
        let names = self.names.group(begin, end);
        self.with_layout(k, "group_modes", self.layout.group(begin, end)).with_names(names)
    }

    /// Keeps only the modes `modes`, in that order: CuTe's `select`. Use it to reorder modes, for
    /// example to transpose a matrix with `[1, 0]`.
    #[track_caller]
    pub fn select(&self, modes: &[usize]) -> Self {
        let k = &self.body();
        let names = self.names.select(modes);
        self.with_layout(k, "select", self.layout.select(modes)).with_names(names)
    }
}
