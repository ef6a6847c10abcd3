//! Inline PTX: text with placeholders for operands, for instructions that the op table lacks. A
//! kernel adds it with [`Body::ptx`](crate::ir::Body::ptx).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::{Op, ValueList};
use crate::errors::errors;
use crate::ir::entity::Value;
use crate::ir::target::Target;
use crate::ir::types::Type;

/// A function that the simulator runs in place of the PTX text. It takes a thread's operands as
/// bits, zero-extended, and writes the bits of its results.
pub type Simulate = dyn Fn(&[u64], &mut [u64]) + Send + Sync;

/// PTX text, with its minimum target and PTX version, its effects and its simulation, to pass to
/// [`Body::ptx`](crate::ir::Body::ptx).
///
/// `%0`, `%1`, .. stand for registers: first the results, then the operands. `%%` is a percent
/// sign, for special registers (`%%laneid`). The text is its own scope, so registers and labels
/// that it declares are not visible outside. It must not contain comments, `$`, or the names of the
/// kernel's registers.
///
/// ```
/// use tilewright::ir::op::InlinePtx;
/// use tilewright::ir::Target;
/// let ptx = InlinePtx::new("lop3.b32 %0, %1, %2, %3, 0x96;").pure();
/// assert_eq!((ptx.target(), ptx.version()), (Target::SM_80, (7, 0)));
/// ```
#[derive(Clone)]
pub struct InlinePtx {
    text: String,
    target: Target,
    version: (u16, u16),
    pure: bool,
    simulate: Option<Arc<Simulate>>,
}

impl InlinePtx {
    /// Creates inline PTX for `sm_80` and PTX ISA 7.0. It may read and write anything, so it is
    /// never removed or moved. The simulator cannot run it unless you call
    /// [`simulated`](Self::simulated).
    pub fn new(text: impl Into<String>) -> InlinePtx {
        let text = text.into();
        InlinePtx { text, target: Target::SM_80, version: (7, 0), pure: false, simulate: None }
    }

    /// Sets the oldest target that has the instructions, if `sm_80` lacks them. The verifier
    /// rejects the text in kernels for older targets.
    pub fn for_target(self, target: Target) -> InlinePtx {
        InlinePtx { target, ..self }
    }

    /// Sets the oldest PTX ISA version that has the instructions, if 7.0 lacks them. The PTX text
    /// then declares at least this version.
    pub fn for_version(self, major: u16, minor: u16) -> InlinePtx {
        InlinePtx { version: (major, minor), ..self }
    }

    /// Declares that the text only computes its results and has no other effect. It is then left
    /// out if nothing uses the results.
    pub fn pure(self) -> InlinePtx {
        InlinePtx { pure: true, ..self }
    }

    /// Sets the function that the simulator runs instead, for each thread. It takes the operands as
    /// bits, zero-extended, and writes the bits of the results. A printed kernel does not contain
    /// it, so a parsed kernel has lost it.
    pub fn simulated(
        self,
        simulate: impl Fn(&[u64], &mut [u64]) + Send + Sync + 'static,
    ) -> InlinePtx {
        InlinePtx { simulate: Some(Arc::new(simulate)), ..self }
    }

    /// Returns the text as you passed it, with its placeholders.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the oldest target that has the instructions.
    pub fn target(&self) -> Target {
        self.target
    }

    /// Returns the oldest PTX ISA version that has the instructions, as (major, minor).
    pub fn version(&self) -> (u16, u16) {
        self.version
    }

    /// Returns whether the text only computes its results, as declared with [`pure`](Self::pure).
    pub fn is_pure(&self) -> bool {
        self.pure
    }

    /// Returns the function that the simulator runs instead, if [`simulated`](Self::simulated) set
    /// one.
    pub fn simulation(&self) -> Option<&Arc<Simulate>> {
        self.simulate.as_ref()
    }

    fn key(&self) -> (&str, Target, (u16, u16), bool) {
        (&self.text, self.target, self.version, self.pure)
    }

    /// Splits the text into plain text and placeholders, so that the PTX writer can fill in
    /// registers. `places` is the count of results and operands.
    ///
    /// # Errors
    /// Returns the first rule that the text breaks.
    pub fn pieces(&self, places: usize) -> Result<Vec<PtxPiece<'_>>, PtxTextError> {
        let text = self.text.as_str();
        if let Some(c) = text.chars().find(|c| !matches!(c, ' '..='~' | '\n' | '\t')) {
            return Err(PtxTextError::Character { character: c });
        }
        let forbidden = ["$", "//", "/*", "\"", "\\", "#"].into_iter().find(|f| text.contains(f));
        if let Some(found) = forbidden {
            return Err(PtxTextError::Forbidden { found });
        }
        let mut depth = 0usize;
        for c in text.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.checked_sub(1).ok_or(PtxTextError::Braces)?,
                _ => {}
            }
        }
        if depth > 0 {
            return Err(PtxTextError::Braces);
        }
        if !text.trim_end().is_empty() && !text.trim_end().ends_with([';', '}', ':']) {
            return Err(PtxTextError::Unfinished);
        }
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('%') {
            pieces.push(PtxPiece::Text(before));
            if let Some(name) = after.strip_prefix('%') {
                let end = name.find(|c: char| !is_word(c)).unwrap_or(name.len());
                let (name, after) = name.split_at(end);
                if !SPECIAL.contains(&name) {
                    return Err(PtxTextError::Register { name: name.to_owned() });
                }
                pieces.push(PtxPiece::Text("%"));
                pieces.push(PtxPiece::Text(name));
                rest = after;
                continue;
            }
            let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            let (digits, after) = after.split_at(end);
            match digits.parse::<usize>() {
                Ok(place) if place < places && !after.starts_with(is_word) => {
                    pieces.push(PtxPiece::Place(place));
                }
                _ => return Err(PtxTextError::Place { text: format!("%{digits}"), places }),
            }
            rest = after;
        }
        pieces.push(PtxPiece::Text(rest));
        Ok(pieces)
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The special registers that a text may use (PTX ISA 10).
const SPECIAL: [&str; 43] = [
    "tid",
    "ntid",
    "laneid",
    "warpid",
    "nwarpid",
    "ctaid",
    "nctaid",
    "smid",
    "nsmid",
    "gridid",
    "is_explicit_cluster",
    "clusterid",
    "nclusterid",
    "cluster_ctaid",
    "cluster_nctaid",
    "cluster_ctarank",
    "cluster_nctarank",
    "lanemask_eq",
    "lanemask_le",
    "lanemask_lt",
    "lanemask_ge",
    "lanemask_gt",
    "clock",
    "clock_hi",
    "clock64",
    "pm0",
    "pm1",
    "pm2",
    "pm3",
    "pm4",
    "pm5",
    "pm6",
    "pm7",
    "globaltimer",
    "globaltimer_lo",
    "globaltimer_hi",
    "reserved_smem_offset_begin",
    "reserved_smem_offset_end",
    "reserved_smem_offset_cap",
    "total_smem_size",
    "aggr_smem_size",
    "dynamic_smem_size",
    "current_graph_exec",
];

/// A piece of inline PTX text, as [`InlinePtx::pieces`] returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PtxPiece<'t> {
    /// Plain text.
    Text(&'t str),
    /// The register with this index, results first, then operands.
    Place(usize),
}

errors! {
    /// Errors in inline PTX text.
    #[derive(Clone, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum PtxTextError {
        /// The text contains a character that is not printable ASCII.
        Character {
            /// The offending character.
            character: char,
        } = |f| write!(f, "`{}` is not printable ASCII", character.escape_debug()),
        /// it must not contain `{found}`: names with `$`, comments and quotes are reserved for the
        /// kernel
        Forbidden { found: &'static str },
        /// its braces do not match
        Braces,
        /// its last instruction does not end with `;`
        Unfinished,
        /// `{text}` is not an operand: there are {places} results and operands, counted from `%0`;
        /// write `%%` for a percent sign
        Place { text: String, places: usize },
        /// `%%{name}` is not a special register: declare the text's own registers without a percent
        /// sign, and pass the kernel's as operands
        Register { name: String },
    }
}
crate::errors::message_as_debug!(PtxTextError);

/// Compares without the simulations, because functions cannot be compared.
impl PartialEq for InlinePtx {
    fn eq(&self, other: &InlinePtx) -> bool {
        self.key() == other.key()
    }
}

impl Eq for InlinePtx {}

impl Hash for InlinePtx {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Debug for InlinePtx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InlinePtx").field(&self.text).finish()
    }
}

/// Inline PTX as an operation of the IR: the text, its operands and its result types.
/// [`Body::ptx`](crate::ir::Body::ptx) makes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inline {
    /// The text.
    pub ptx: Arc<InlinePtx>,
    /// The operands: scalars or pointers.
    pub operands: ValueList,
    /// The result types: scalars or pointers.
    pub results: Vec<Type>,
}

impl Inline {
    /// The name in the text form.
    pub const NAME: &'static str = "ptx";

    /// Calls `visit` with each operand, in order, so that a pass can replace it.
    pub fn for_each_operand_mut(&mut self, visit: &mut dyn FnMut(&mut Value)) {
        self.operands.iter_mut().for_each(visit);
    }
}

impl From<Inline> for Op {
    fn from(inline: Inline) -> Op {
        Op::Inline(Box::new(inline))
    }
}
