//! Parses the compiler's notes about code that will not run as it was written. Loading a kernel
//! checks them, because a kernel whose `setmaxnreg` is ignored must not be launched.

use std::fmt;

#[cfg(feature = "cuda-any-version")]
use super::error::RuntimeError;

/// A numbered note from NVIDIA's compiler, such as `(C7510) Potential Performance Loss: ..`: the
/// code is right, but slower than it was written to be. You get notes from
/// [`Function::compiler_notes`](super::Function::compiler_notes) and
/// [`Assembled::notes`](super::Assembled::notes).
///
/// One kind makes a load fail: [`CompilerNoteKind::SetMaxNRegIgnored`].
///
/// ```
/// use tilewright::runtime::{CompilerNote, CompilerNoteKind};
/// let log = "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to \
///            determine register count at entry.\n\
///            ptxas info    : Used 8 registers, used 0 barriers";
/// let [note] = &CompilerNote::all(log)[..] else { panic!("one note") };
/// assert_eq!((note.kind, note.code), (CompilerNoteKind::SetMaxNRegIgnored, 7508));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CompilerNote {
    /// What the note is about; [`Other`](CompilerNoteKind::Other) for codes that are not known
    /// here.
    pub kind: CompilerNoteKind,
    /// The note's code, for example 7508 for `C7508`.
    pub code: u32,
    /// The function that the note names, if any.
    pub function: Option<String>,
    /// The text after the code.
    pub message: String,
}

/// What a [`CompilerNote`] is about. Match on it to see which optimisation the compiler gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CompilerNoteKind {
    /// `setmaxnreg` has no effect, so the warps cannot hand registers over. Loading such a kernel
    /// fails with [`RuntimeError::SetMaxNRegIgnored`](super::RuntimeError::SetMaxNRegIgnored).
    SetMaxNRegIgnored,
    /// The compiler has serialised `wgmma`: each one waits for the previous one.
    WgmmaSerialized,
    /// The compiler inserted a `wgmma.fence` or a wait that the kernel does not have.
    WgmmaSyncInjected,
    /// Anything else.
    Other,
}

impl CompilerNote {
    /// Parses the notes in a compiler's log, in order. Skips lines without a note code, such as
    /// those about registers and spills. Use it on a log of your own;
    /// [`Function::compiler_notes`](super::Function::compiler_notes) calls it for a loaded kernel.
    pub fn all(log: &str) -> Vec<CompilerNote> {
        log.lines().filter_map(CompilerNote::of_line).collect()
    }

    fn of_line(line: &str) -> Option<CompilerNote> {
        let (_, rest) = line.split_once("(C")?;
        let (code, message) = rest.split_once(')')?;
        let code = code.parse().ok()?;
        let message = message.trim().to_owned();
        let kind = if message.contains("setmaxnreg") && message.contains("ignored") {
            CompilerNoteKind::SetMaxNRegIgnored
        } else if message.contains("wgmma") && message.contains("serialized") {
            CompilerNoteKind::WgmmaSerialized
        } else if message.contains("warpgroup.") && message.contains("injected") {
            CompilerNoteKind::WgmmaSyncInjected
        } else {
            CompilerNoteKind::Other
        };
        let function = message.split_once("function '").and_then(|(_, rest)| rest.split_once('\''));
        let function = function.map(|(name, _)| name.to_owned());
        Some(CompilerNote { kind, code, function, message })
    }

    /// Returns an error if the compiler ignored `setmaxnreg`, because the kernel relies on the
    /// registers that it assigns to its warp roles.
    #[cfg(feature = "cuda-any-version")]
    pub(super) fn check(kernel: &str, log: &str) -> Result<(), RuntimeError> {
        let is_error = |note: &CompilerNote| note.kind == CompilerNoteKind::SetMaxNRegIgnored;
        match CompilerNote::all(log).into_iter().find(is_error) {
            None => Ok(()),
            Some(note) => {
                let (kernel, note) = (kernel.to_owned(), Box::new(note));
                Err(RuntimeError::SetMaxNRegIgnored { kernel, note })
            }
        }
    }
}

/// Formats the note as the compiler prints it: `(C7508) Potential Performance Loss: ..`.
impl fmt::Display for CompilerNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(C{}) {}", self.code, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sentences are from `ptxas` 13.0.
    #[test]
    fn notes_are_told_apart() {
        use CompilerNoteKind::*;
        let log = "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine \
                   register count at entry.\n\
                   ptxas info    : (C7506) Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum \
                   register requirements.\n\
                   ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are \
                   serialized due to insufficient register resources for the wgmma pipeline in the function 'gemm'\n\
                   ptxas info    : (C7519) warpgroup.arrive is injected in around line 12 by compiler to allow \
                   use of registers in GMMA in function 'k'\n\
                   ptxas info    : (C9000) something new\n\
                   ptxas info    : Compiling entry function 'k' for 'sm_90a'\n\
                   ptxas info    : Used 34 registers, used 0 barriers (Cx) (C";
        let notes = CompilerNote::all(log);
        let found: Vec<_> =
            notes.iter().map(|note| (note.kind, note.code, note.function.as_deref())).collect();
        assert_eq!(
            found,
            [
                (SetMaxNRegIgnored, 7508, None),
                (SetMaxNRegIgnored, 7506, None),
                (WgmmaSerialized, 7510, Some("gemm")),
                (WgmmaSyncInjected, 7519, Some("k")),
                (Other, 9000, None),
            ]
        );
        assert_eq!(notes[4].to_string(), "(C9000) something new");
        assert!(CompilerNote::all("").is_empty());
    }
}
