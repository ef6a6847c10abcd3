//! How a launch is queued.

/// What a launch asks for beside its grid and its arguments: nothing, by default.
///
/// ```
/// use tilewright::runtime::LaunchOptions;
/// let options = LaunchOptions::default().programmatic(true);
/// assert!(options.programmatic && !options.cooperative);
/// ```
///
/// The simulator, which runs one launch after the other, does the same with and without them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LaunchOptions {
    /// Programmatic dependent launch: the kernel may start as soon as all blocks of the launch before it in
    /// the stream have run `griddepcontrol.launch_dependents` or have ended. It sees what that launch wrote
    /// only after its own `griddepcontrol.wait` (PTX ISA 9.7.13, `griddepcontrol`).
    pub programmatic: bool,
    /// All blocks run at once, so that they can wait for each other. A grid for which there is no room is
    /// refused.
    pub cooperative: bool,
}

impl LaunchOptions {
    /// Switches programmatic dependent launch.
    pub const fn programmatic(self, programmatic: bool) -> LaunchOptions {
        LaunchOptions { programmatic, ..self }
    }

    /// Switches the cooperative launch.
    pub const fn cooperative(self, cooperative: bool) -> LaunchOptions {
        LaunchOptions { cooperative, ..self }
    }
}
