//! `wgmma`: the tensor-core instruction of `sm_90a`, executed by a warp group (128 threads).
//!
//! M is 64 and K is 256 bits. Warp `w` holds rows `16 * w` to `16 * w + 15` of C (and of A, if it
//! comes from registers) in the same fragments as `mma.sync`:
//!
//! ```text
//! A(m, k):  m = 16 * w + row + 8 * (r % 2)     k = quad * p + v + 4 * p * (r / 2)
//! C(m, n):  m = 16 * w + row + 8 * (r / 2 % 2) n = quad * 2 + r % 2 + 8 * (r / 4)
//! ```
//!
//! PTX ISA, "Register Fragments and Shared Memory Matrix Layouts".

use crate::layout::{Layout, layout};

use super::error::AtomError;
use super::mma_sync::{per_register, values};
use super::val_type::ValType;

/// Where an MMA reads operand A from. Choose registers for `wgmma` if A is computed in the kernel,
/// for example attention's probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperandSource {
    /// Shared memory, through a descriptor.
    Shared,
    /// The threads' registers.
    Registers,
}

/// A `wgmma.mma_async` instruction. PTX ISA, "wgmma.mma_async". Convert it to an
/// [`MmaAtom`](crate::tensor::atom::MmaAtom) to use it.
///
/// ```
/// use tilewright::tensor::atom::{MmaAtom, OperandSource, ValType, Wgmma};
/// let op = Wgmma::new(256, ValType::E4M3, ValType::E5M2, ValType::F32, OperandSource::Shared);
/// assert_eq!(op.shape_mnk(), [64, 256, 32]);
/// let atom = MmaAtom::new(op)?;
/// assert_eq!(atom.layout_c_tv().to_string(), "((4,8,4),(2,2,32)):((128,1,16),(64,8,512))");
/// # Ok::<(), tilewright::tensor::atom::AtomError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wgmma {
    /// N: a multiple of 8 up to 256; for integers 8, 24 or a multiple of 16.
    pub n: u32,
    /// A's type.
    pub a: ValType,
    /// B's type.
    pub b: ValType,
    /// The type of C and D.
    pub c: ValType,
    /// Where A comes from; B always comes from shared memory.
    pub source_a: OperandSource,
    /// Integer accumulators saturate at the limits of `S32` instead of wrapping.
    pub saturate: bool,
}

impl Wgmma {
    /// Makes the instruction for a width and types, without saturation. Whether it exists is
    /// checked when the atom is made.
    pub const fn new(n: u32, a: ValType, b: ValType, c: ValType, source_a: OperandSource) -> Self {
        Self { n, a, b, c, source_a, saturate: false }
    }

    /// Makes integer accumulators saturate at the limits of `S32`: PTX's `.satfinite`.
    pub const fn saturate(self) -> Self {
        Self { saturate: true, ..self }
    }

    /// Returns M = 64, N, and K = 256 bits. K is for example 16 for `bf16`.
    pub fn shape_mnk(&self) -> [u32; 3] {
        [64, self.n, 256 / self.a.bits()]
    }

    /// Returns whether A and B in shared memory can also be M- and N-major: only 16-bit elements
    /// can. Check it before you choose an operand's shared layout.
    pub fn allows_mn_major(&self) -> bool {
        self.a.bits() == 16
    }

    fn has_types(a: ValType, b: ValType, c: ValType) -> bool {
        use ValType as T;
        matches!(
            (a, b, c),
            (T::F16, T::F16, T::F16 | T::F32)
                | (T::Bf16, T::Bf16, T::F32)
                | (T::Tf32, T::Tf32, T::F32)
                | (T::E4M3 | T::E5M2, T::E4M3 | T::E5M2, T::F16 | T::F32)
                | (T::S8 | T::U8, T::S8 | T::U8, T::S32)
        )
    }

    fn has_width(a: ValType, n: u32) -> bool {
        let steps = if a.is_integer() {
            n.is_multiple_of(16) || n == 8 || n == 24
        } else {
            n.is_multiple_of(8)
        };
        steps && (8..=256).contains(&n)
    }

    fn check(&self) -> Result<(), AtomError> {
        let Wgmma { n, a, b, c, saturate, .. } = *self;
        if !Self::has_types(a, b, c) {
            return Err(AtomError::ValTypes { instruction: "wgmma", a, b, c });
        }
        if !Self::has_width(a, n) {
            return Err(AtomError::Width { a, n });
        }
        if saturate && !a.is_integer() {
            return Err(AtomError::Saturate { a });
        }
        Ok(())
    }

    /// Returns the PTX instruction with its qualifiers, for example to see what an atom compiles
    /// to.
    pub fn instruction(&self) -> String {
        let [m, n, k] = self.shape_mnk();
        let (a, b, c) = (self.a.ptx(), self.b.ptx(), self.c.ptx());
        let saturate = if self.saturate { ".satfinite" } else { "" };
        format!("wgmma.mma_async.sync.aligned.m{m}n{n}k{k}{saturate}.{c}.{a}.{b}")
    }

    #[inline]
    pub(super) fn layouts(&self) -> Result<[Layout; 3], AtomError> {
        self.check()?;
        let [m, n, k] = self.shape_mnk().map(i64::from);
        let threads = |quad: i64| layout!((4, 8, 4):(quad, 1, 16));
        let shared = |rows: i64| layout!((128, (rows, k)):(0, (1, rows)));
        let a = match self.source_a {
            OperandSource::Shared => shared(m),
            OperandSource::Registers => {
                let values = values(self.a, &[(2, 8)], m, k)?;
                Layout::concat(&[threads(per_register(self.a) * m), values])?
            }
        };
        let values_c = layout!((2, 2, n / 8):(m, 8, 8 * m));
        let c = Layout::concat(&[threads(2 * m), values_c])?;
        Ok([a, shared(n), c])
    }

    pub(super) fn all() -> impl Iterator<Item = Wgmma> {
        let types = ValType::ALL.into_iter();
        let pairs = types.flat_map(|a| ValType::ALL.into_iter().map(move |b| (a, b)));
        let triples = pairs.flat_map(|(a, b)| ValType::ALL.into_iter().map(move |c| (a, b, c)));
        triples.filter(|(a, b, c)| Self::has_types(*a, *b, *c)).flat_map(|(a, b, c)| {
            let widths = (8..=256).step_by(8).filter(move |n| Self::has_width(a, *n));
            widths.flat_map(move |n| {
                let sources = [OperandSource::Shared, OperandSource::Registers];
                sources.into_iter().flat_map(move |source| {
                    let plain = Wgmma::new(n, a, b, c, source);
                    std::iter::once(plain).chain(a.is_integer().then(|| plain.saturate()))
                })
            })
        })
    }
}
