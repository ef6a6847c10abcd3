//! Inline PTX: text with placeholders for operands, for instructions without an operation.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::{Op, ValueList};
use crate::errors::errors;
use crate::ir::entity::Value;
use crate::ir::target::Target;
use crate::ir::types::Type;

/// A function that the simulator runs in place of the PTX text. It takes the bits of a thread's operands,
/// zero-extended, and writes the bits of its results.
pub type Simulate = dyn Fn(&[u64], &mut [u64]) + Send + Sync;

/// PTX text with its lowest target and PTX version, its effect and its simulation.
///
/// `%0`, `%1`, .. stand for the registers of the results, then of the operands; `%%` is a percent sign, for
/// special registers (`%%laneid`). The text is a scope of its own: registers that it declares and labels are
/// not seen outside. It may have no comments, no `$`, and no registers of the kernel by name.
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
    /// The text, for `sm_80` and PTX ISA 7.0. It may read and write anything, so that it is neither left out
    /// nor moved; the simulator cannot run it.
    pub fn new(text: impl Into<String>) -> InlinePtx {
        let text = text.into();
        InlinePtx { text, target: Target::SM_80, version: (7, 0), pure: false, simulate: None }
    }

    /// The first target that has the instructions.
    pub fn for_target(self, target: Target) -> InlinePtx {
        InlinePtx { target, ..self }
    }

    /// The first version of the PTX ISA that has the instructions.
    pub fn for_version(self, major: u16, minor: u16) -> InlinePtx {
        InlinePtx { version: (major, minor), ..self }
    }

    /// The text only computes its results: where nothing uses them, it is not written.
    pub fn pure(self) -> InlinePtx {
        InlinePtx { pure: true, ..self }
    }

    /// Sets the function that the simulator runs instead, for each thread. It takes the bits of the operands,
    /// zero-extended, and writes the bits of the results. It is no part of the text form.
    pub fn simulated(
        self,
        simulate: impl Fn(&[u64], &mut [u64]) + Send + Sync + 'static,
    ) -> InlinePtx {
        InlinePtx { simulate: Some(Arc::new(simulate)), ..self }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first target that has the instructions.
    pub fn target(&self) -> Target {
        self.target
    }

    /// The first version of the PTX ISA that has the instructions, major and minor.
    pub fn version(&self) -> (u16, u16) {
        self.version
    }

    /// Returns whether the text only computes its results.
    pub fn is_pure(&self) -> bool {
        self.pure
    }

    /// The function that the simulator runs instead.
    pub fn simulation(&self) -> Option<&Arc<Simulate>> {
        self.simulate.as_ref()
    }

    fn key(&self) -> (&str, Target, (u16, u16), bool) {
        (&self.text, self.target, self.version, self.pure)
    }

    /// The parts of the text, with places for `places` results and operands.
    ///
    /// # Errors
    /// What the text may not have.
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

/// The special registers that a text may name (PTX ISA 10).
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

/// A part of PTX text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PtxPiece<'t> {
    /// Text that stands for itself.
    Text(&'t str),
    /// The register of a result, or, counted on, of an operand.
    Place(usize),
}

errors! {
    /// A violation of the rules of inline PTX text.
    #[derive(Clone, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum PtxTextError {
        /// A character that is not printable ASCII.
        Character {
            /// The character.
            character: char,
        } = |f| write!(f, "`{}` is not printable ASCII", character.escape_debug()),
        /// `{found}` may not be in it: names with `$`, comments and quotes are the kernel's
        Forbidden { found: &'static str },
        /// its braces do not match
        Braces,
        /// its last instruction does not end with `;`
        Unfinished,
        /// `{text}` is no place: there are {places} results and operands, counted from `%0`; write `%%` for a percent sign
        Place { text: String, places: usize },
        /// `%%{name}` is no special register: declare registers of the text without a percent sign, and pass those of the
        /// kernel as operands
        Register { name: String },
    }
}
crate::errors::message_as_debug!(PtxTextError);

/// Two texts with different simulations are equal.
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

/// PTX text as an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inline {
    /// The text.
    pub ptx: Arc<InlinePtx>,
    /// The operands: scalars and pointers.
    pub operands: ValueList,
    /// The types of the results: scalars and pointers.
    pub results: Vec<Type>,
}

impl Inline {
    /// The name in the text form.
    pub const NAME: &'static str = "ptx";

    /// Calls `visit` with each operand, in order, so that it can be replaced.
    pub fn for_each_operand_mut(&mut self, visit: &mut dyn FnMut(&mut Value)) {
        self.operands.iter_mut().for_each(visit);
    }
}

impl From<Inline> for Op {
    fn from(inline: Inline) -> Op {
        Op::Inline(Box::new(inline))
    }
}
