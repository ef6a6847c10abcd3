//! Matrix descriptors: proves that the tiles which `wgmma` reads from shared memory are inside
//! their allocations.
//!
//! A descriptor holds the tile's address in units of 16 bytes in its lowest 14 bits, and the tile's
//! layout above. Kernels add offsets to it, for example to choose a stage of a ring buffer. The
//! prover follows a descriptor as `layout + start + units`, where the atom `start` stands for the
//! address of the allocation. If `units` stays inside the allocation, no sum carries into the
//! layout bits, so both parts can be told apart again.

use super::atom::Key;
use super::claim::Deps;
use super::numbers;
use super::pointer::Root;
use super::poly::Poly;
use super::range::Range;
use super::ranges::constant_of;
use super::site::{Open, Site, Subject, Verdict};
use super::walk::{Number, Walk};
use crate::ir::op::{Convert, Mma, Op};
use crate::ir::types::Scalar;
use crate::ir::{OpId, SharedId, Value, ValueDef};

/// The unit of a descriptor's address.
const UNIT: i128 = 16;

/// The bits of a descriptor that hold the address.
const START: i128 = 0x3fff;

/// The swizzle moves units within lines of this many bytes.
const LINE: u32 = 128;

/// A tile that an instruction reads through a descriptor.
#[derive(Clone, Copy, Debug)]
struct Tile {
    /// Rows of A, or columns of B.
    mn: i128,
    k: i128,
    elem: Scalar,
    /// Whether `mn` rather than `k` is contiguous.
    transposed: bool,
}

impl Tile {
    /// Returns how many bytes the tile spans from its start on, for a descriptor with these layout
    /// bits. The table of [`MatrixDescriptor`](crate::arch::MatrixDescriptor) has the offsets.
    fn span(self, bits: u64) -> i128 {
        let field = |shift: u32| i128::from(bits >> shift & START as u64) * UNIT;
        let (leading, stride) = (field(16), field(32));
        let Tile { mn, k, elem, transposed } = self;
        let units = k * i128::from(elem.bits()) / 128;
        let last = match (transposed, row_bytes(bits)) {
            (false, None) => (mn / 8 - 1) * stride + 7 * 16 + (units - 1) * leading,
            (false, Some(row)) => (mn / 8 - 1) * stride + 7 * row + (units - 1) * 16,
            (true, None) => (mn / 8 - 1) * stride + 7 * 16 + (k / 8 - 1) * leading,
            (true, Some(row)) => {
                (mn - 1) / (row / 2) * leading + row - 16 + 7 * row + (k / 8 - 1) * stride
            }
        };
        last + UNIT
    }
}

/// Returns how many bytes a row of the swizzle pattern has, if there is one.
fn row_bytes(bits: u64) -> Option<i128> {
    match bits >> 62 {
        0 => None,
        1 => Some(128),
        2 => Some(64),
        _ => Some(32),
    }
}

impl Walk<'_> {
    /// Returns the integer of a matrix descriptor, if its pointer is inside a shared allocation.
    pub(super) fn descriptor(&mut self, base: Value, bits: u64) -> Option<Number> {
        let pointer = self.pointer(base);
        let Root::Shared(shared) = pointer.root else { return None };
        let data = &self.ir.shared[shared];
        let bytes = i128::from(data.len) * i128::from(data.elem.size_bytes());
        if i128::from(data.align_bytes) % UNIT != 0 {
            return None;
        }
        let offset = &pointer.offset;
        let left = Poly::constant(bytes).minus(offset)?;
        let mut deps = pointer.deps;
        deps |= self.is_multiple(offset, UNIT as u128)?;
        deps |= self.is_known(offset)? | self.is_known(&left)?;
        let units = numbers::div(&mut self.atoms, offset, &Poly::constant(UNIT))?;
        let start = self.atoms.of(Key::Start(shared), Range::new(0, START), 1);
        let poly = start.plus(&units)?.plus_constant(bits.into())?;
        Some(Number { poly, deps })
    }

    /// Adds a site for each tile that a `wgmma` reads from shared memory.
    pub(super) fn check_wgmma(&mut self, id: OpId, mma: &Mma) {
        let (a, b, shape, kept, form) =
            if let Mma::Wgmma { a, b, shape, a_type, b_type, form, .. } = *mma {
                (Some((a, a_type)), (b, b_type), shape, shape.k, form)
            } else if let Mma::WgmmaSp { a, b, shape, a_type, b_type, form, .. } = *mma {
                (Some((a, a_type)), (b, b_type), shape, shape.k / 2, form)
            } else if let Mma::WgmmaRs { b, shape, b_type, form, .. }
            | Mma::WgmmaRsSp { b, shape, b_type, form, .. } = *mma
            {
                (None, (b, b_type), shape, shape.k, form)
            } else {
                return;
            };
        if let Some((a, elem)) = a {
            let (mn, k) = (shape.m.into(), kept.into());
            self.check_tile(id, a, Tile { mn, k, elem, transposed: form.transpose_a });
        }
        let (b, elem) = b;
        let (mn, k) = (shape.n.into(), shape.k.into());
        self.check_tile(id, b, Tile { mn, k, elem, transposed: form.transpose_b });
    }

    fn check_tile(&mut self, id: OpId, descriptor: Value, tile: Tile) {
        let verdict = match self.tile(descriptor, tile) {
            Ok(deps) => Verdict::Relies(deps),
            Err(open) => Verdict::Open(open),
        };
        self.sites.push(Site { op: id, subject: Subject::Matrix, verdict });
    }

    /// Decides whether the tile is inside the allocation that the descriptor points into.
    fn tile(&mut self, descriptor: Value, tile: Tile) -> Result<Deps, Open> {
        let number = self.joined(descriptor).ok_or(Open::Origin)?;
        let (shared, rest) = self.without_start(&number.poly).ok_or(Open::Origin)?;
        // The constant part of the address may be negative, for example one stage back. Then it has
        // borrowed from the layout.
        let part = rest.constant & START;
        let mut found = Err(Open::Origin);
        for constant in [part, part - START - 1] {
            let units = Poly { terms: rest.terms.clone(), constant };
            found = self.tile_at(shared, rest.constant - constant, &units, tile);
            if found.is_ok() {
                break;
            }
        }
        found.map(|deps| deps | number.deps)
    }

    /// Decides whether the tile is inside the allocation, `units` behind its start.
    fn tile_at(
        &mut self,
        shared: SharedId,
        layout: i128,
        units: &Poly,
        tile: Tile,
    ) -> Result<Deps, Open> {
        let bits = u64::try_from(layout).map_err(|_| Open::Origin)?;
        // Bits 49 to 51 shift the swizzle pattern. No layout of this library needs them.
        if bits >> 49 & 7 != 0 {
            return Err(Open::Origin);
        }
        let offset = units.scaled(UNIT).ok_or(Open::Index)?;
        let data = &self.ir.shared[shared];
        let bytes = i128::from(data.len) * i128::from(data.elem.size_bytes());
        let is_swizzled = row_bytes(bits).is_some();
        if is_swizzled && !data.align_bytes.is_multiple_of(LINE) {
            return Err(Open::Alignment { offset: Box::new(offset), bytes: LINE });
        }
        // A swizzled tile touches whole lines.
        let bytes = if is_swizzled { bytes - bytes % i128::from(LINE) } else { bytes };
        let (span, len) = (Poly::constant(tile.span(bits)), Poly::constant(bytes));
        self.inside(&offset, &span, &len)
    }

    /// Returns the integer of a descriptor. Kernels often compute its low half alone.
    fn joined(&mut self, descriptor: Value) -> Option<Number> {
        let ir = self.ir;
        let def = |value: Value| match ir.values[value].def {
            ValueDef::Result(op, 0) => Some(&ir.ops[op].op),
            _ => None,
        };
        if let Some(Op::Convert(Convert::Bitcast { value, .. })) = def(descriptor)
            && let Some(Op::Convert(Convert::VecPack { values })) = def(*value)
            && let [low, high] = values[..]
            && ir.type_of(low).bits() == 32
        {
            let high = constant_of(ir, high)?.as_int()?.rem_euclid(1 << 32);
            let low = self.number(low)?;
            // The sum of the low half is known modulo 2^32.
            let constant = low.poly.constant.rem_euclid(1 << 32);
            let poly = Poly { terms: low.poly.terms, constant: constant + (high << 32) };
            return Some(Number { poly, deps: low.deps });
        }
        let number = self.number(descriptor)?;
        let constant = number.poly.constant.rem_euclid(1 << 64);
        Some(Number { poly: Poly { terms: number.poly.terms, constant }, deps: number.deps })
    }

    /// Splits a descriptor into the allocation that it points into and the rest.
    fn without_start(&self, poly: &Poly) -> Option<(SharedId, Poly)> {
        for atom in poly.atoms() {
            if let Key::Start(shared) = self.atoms.get(atom).key {
                let (coefficient, rest) = poly.split(atom)?;
                return (coefficient == Poly::constant(1)).then_some((shared, rest));
            }
        }
        None
    }
}
