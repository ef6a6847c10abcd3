//! Defines [`LaunchOptions`]: the stream and the attributes of a launch. Pass it to
//! `Function::launch_with` or `Loaded::with` if the defaults do not suit.

use super::stream::Stream;

/// Options of a launch besides its grid and its arguments; pass them to
/// [`Function::launch_with`](super::Function::launch_with). By default, all of them are off, and
/// the launch runs on the default stream.
///
/// ```
/// use tilewright::runtime::LaunchOptions;
/// let options = LaunchOptions::default().programmatic(true);
/// assert!(options.programmatic && !options.cooperative);
/// ```
///
/// The simulator runs one launch after the other, so a programmatic launch gives the same results
/// as any other. Its race detector compares a programmatic launch's accesses with those of the
/// launches that may still be running on a GPU (`sim::MissingEdge::Launch`). The simulator runs all
/// blocks of a cooperative launch at once, on one host thread.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct LaunchOptions<'s> {
    /// Programmatic dependent launch: the kernel may start as soon as every block of the previous
    /// launch in the stream has run `griddepcontrol.launch_dependents` or has ended. It sees what
    /// that launch wrote only after its own `griddepcontrol.wait` (PTX ISA 9.7.13,
    /// `griddepcontrol`); a kernel without that instruction is refused. Before the wait, you have
    /// to make sure that the kernel touches no memory that the previous launch still uses.
    pub programmatic: bool,
    /// Cooperative launch: all blocks run at once, so that they can wait for each other. The launch
    /// is refused if the device cannot hold the whole grid.
    pub cooperative: bool,
    /// The stream to launch on; `None` is the default stream.
    pub stream: Option<&'s Stream>,
}

impl<'s> LaunchOptions<'s> {
    /// Turns programmatic dependent launch on or off (the field of this name says what the kernel
    /// must do). Use it to overlap the start of a kernel with the end of the previous launch.
    pub const fn programmatic(self, programmatic: bool) -> LaunchOptions<'s> {
        LaunchOptions { programmatic, ..self }
    }

    /// Turns cooperative launch on or off. You need it if blocks wait for each other.
    pub const fn cooperative(self, cooperative: bool) -> LaunchOptions<'s> {
        LaunchOptions { cooperative, ..self }
    }

    /// Launches on `stream` instead of the default stream.
    pub const fn stream(self, stream: &'s Stream) -> LaunchOptions<'s> {
        LaunchOptions { stream: Some(stream), ..self }
    }
}
