//! Defines [`LaunchOptions`], the stream and the attributes of a launch.

use super::stream::Stream;

/// The options of a launch beside its grid and its arguments: none, by default.
///
/// ```
/// use tilewright::runtime::LaunchOptions;
/// let options = LaunchOptions::default().programmatic(true);
/// assert!(options.programmatic && !options.cooperative);
/// ```
///
/// The simulator runs one launch after the other, so a programmatic one gives the results of any other. Its race detector
/// compares the accesses of a programmatic launch with those of the launches that may still run on a GPU
/// (`sim::MissingEdge::Launch`). The simulator runs all blocks of a cooperative launch at once, on one
/// thread of the host.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct LaunchOptions<'s> {
    /// Programmatic dependent launch: the kernel may start as soon as all blocks of the launch before it in
    /// the stream have run `griddepcontrol.launch_dependents` or have ended. It sees what that launch wrote
    /// only after its own `griddepcontrol.wait` (PTX ISA 9.7.13, `griddepcontrol`), without which the launch is
    /// refused; memory that it uses before is its author's to think of.
    pub programmatic: bool,
    /// All blocks run at once, so that they can wait for each other. A grid for which there is no room is
    /// refused.
    pub cooperative: bool,
    /// The stream; `None` is the one for all work that names none.
    pub stream: Option<&'s Stream>,
}

impl<'s> LaunchOptions<'s> {
    /// Switches programmatic dependent launch.
    pub const fn programmatic(self, programmatic: bool) -> LaunchOptions<'s> {
        LaunchOptions { programmatic, ..self }
    }

    /// Switches the cooperative launch.
    pub const fn cooperative(self, cooperative: bool) -> LaunchOptions<'s> {
        LaunchOptions { cooperative, ..self }
    }

    /// Launches on a stream.
    pub const fn stream(self, stream: &'s Stream) -> LaunchOptions<'s> {
        LaunchOptions { stream: Some(stream), ..self }
    }
}
