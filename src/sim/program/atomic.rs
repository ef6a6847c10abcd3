//! Compiles atomic operations and cache hints such as `prefetch` and `discard`.
//!
//! The lanes of a warp apply their updates one after the other, starting with the lowest lane. If
//! blocks run on several host threads, each element in global memory is still updated atomically.
//! The order in which different blocks apply their updates then depends on how the host schedules
//! these threads, so it can differ from run to run.

use super::code::Inst;
use super::compiler::Compiler;
use super::refused::Refused::{self, Malformed};
use crate::ir::eval::{Bits, Number, with_number};
use crate::ir::op::{Atomic, AtomicOp, AtomicOrder, Cache, RedOrder};
use crate::ir::types::{Scalar, VectorType};
use crate::ir::{OpId, Value};
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::memory::access::Access;
use crate::sim::memory::address::{Address, Offsets, Strength};
use crate::sim::memory::buffer::GlobalBuffer;
use crate::sim::memory::element::Element;
use crate::sim::memory::lanes::{Lane, Regs, Word};
use crate::sim::memory::mask::{LANES, lanes_of};
use crate::sim::memory::races::{Accessed, Stored};
use crate::sim::memory::shared::{Shared, SharedRange};
use crate::sim::memory::space::{Allocation, MemorySpace};
use crate::sim::memory::vector_access::shared_offsets;
use crate::sim::race::Strong;

/// Returns the new value of an element, from the old value, the operand and the compared value.
type Combine = fn(u64, u64, u64) -> u64;

/// An operation's forms for global and for shared memory.
#[derive(Clone, Copy)]
struct Combines {
    global: Combine,
    shared: Combine,
}

/// Size of a cache line in bytes, for `discard`.
const LINE: u32 = 128;

fn on<T: Lane>(old: u64, value: u64, f: fn(T, T) -> T) -> u64 {
    f(T::of(T::Word::of_bits(old)), T::of(T::Word::of_bits(value))).word().bits()
}

fn add<T: Number>(old: u64, value: u64, _: u64) -> u64 {
    on(old, value, <T as Number>::add)
}

/// Devices flush subnormal numbers to zero when they add `f32` in global memory.
fn add_flushed(old: u64, value: u64, _: u64) -> u64 {
    on(old, value, |a: f32, b: f32| flushed(Number::add(flushed(a), flushed(b))))
}

fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

fn min<T: Number>(old: u64, value: u64, _: u64) -> u64 {
    on(old, value, <T as Number>::min)
}

fn max<T: Number>(old: u64, value: u64, _: u64) -> u64 {
    on(old, value, <T as Number>::max)
}

fn combine(op: AtomicOp, elem: Scalar, memory_space: MemorySpace) -> Result<Combine, Refused> {
    Ok(match op {
        AtomicOp::Add if (elem, memory_space) == (Scalar::F32, MemorySpace::Global) => add_flushed,
        AtomicOp::Add => with_number!(elem, T => add::<T> as Combine).ok_or(Malformed)?,
        AtomicOp::Min => with_number!(elem, T => min::<T> as Combine).ok_or(Malformed)?,
        AtomicOp::Max => with_number!(elem, T => max::<T> as Combine).ok_or(Malformed)?,
        AtomicOp::And => |old, value, _| Bits::and(old, value),
        AtomicOp::Or => |old, value, _| Bits::or(old, value),
        AtomicOp::Xor => |old, value, _| Bits::xor(old, value),
        AtomicOp::Exch => |_, value, _| value,
        AtomicOp::Inc => |old, value, _| if old >= value { 0 } else { old + 1 },
        AtomicOp::Dec => |old, value, _| if old == 0 || old > value { value } else { old - 1 },
    })
}

/// The slots of an element, or of a vector's registers.
#[derive(Clone, Copy)]
struct Parts {
    slots: [u32; 4],
    /// How many elements each slot holds.
    per_slot: usize,
}

impl Parts {
    fn one(slot: u32) -> Parts {
        Parts { slots: [slot; 4], per_slot: 1 }
    }

    fn vector(slots: &[u32], vector: VectorType) -> Parts {
        let mut all = [0; 4];
        all.iter_mut().zip(slots).for_each(|(all, slot)| *all = *slot);
        Parts { slots: all, per_slot: vector.lanes_per_register() as usize }
    }

    /// Returns the slot of element `number`, and the bit at which the element starts there.
    fn slot<E: Element>(&self, number: usize) -> (usize, usize) {
        (self.slots[number / self.per_slot] as usize, number % self.per_slot * E::BYTES * 8)
    }

    fn read<E: Element>(&self, regs: &Regs, number: usize) -> [u64; LANES] {
        let (slot, shift) = self.slot::<E>(number);
        E::Word::file(regs)[slot].map(|word| word.bits() >> shift & ones::<E>())
    }

    fn write<E: Element>(&self, regs: &mut Regs, number: usize, mask: u32, bits: [u64; LANES]) {
        let (slot, shift) = self.slot::<E>(number);
        let out = &mut E::Word::file_mut(regs)[slot];
        for lane in lanes_of(mask) {
            let others = out[lane].bits() & !(ones::<E>() << shift);
            // An element that is alone in its slot fills it.
            let others = if self.per_slot == 1 { 0 } else { others };
            out[lane] = E::Word::of_bits(others | bits[lane] << shift);
        }
    }
}

/// Returns a mask of all bits of an element.
fn ones<E: Element>() -> u64 {
    u64::MAX >> (64 - 8 * E::BYTES)
}

/// The slots of an atomic operation's operands, apart from the address.
#[derive(Clone, Copy)]
struct Slots {
    value: Parts,
    /// The same as `value` if nothing is compared.
    compare: Parts,
    old: Option<Parts>,
    /// Set for operands that only global memory supports.
    only_global: bool,
}

impl Compiler<'_> {
    pub(in crate::sim) fn atomic(
        &mut self,
        id: OpId,
        op: &Atomic,
        results: &[Value],
    ) -> Result<(), Refused> {
        let strength = |acquires, releases| Strength { whole: true, acquires, releases };
        let of = |order: AtomicOrder| match order {
            AtomicOrder::Relaxed => strength(false, false),
            AtomicOrder::Acquire => strength(true, false),
            AtomicOrder::Release => strength(false, true),
            AtomicOrder::AcqRel => strength(true, true),
        };
        let red = |order: RedOrder| strength(false, order == RedOrder::Release);
        let (base, index, strength, kind, scope) = match *op {
            Atomic::Atom { base, index, op, order, scope, .. }
            | Atomic::AtomVec { base, index, op, order, scope, .. } => {
                (base, index, of(order), Some(op), scope)
            }
            Atomic::AtomCas { base, index, order, scope, .. } => {
                (base, index, of(order), None, scope)
            }
            Atomic::Red { base, index, op, order, scope, .. }
            | Atomic::RedVec { base, index, op, order, scope, .. } => {
                (base, index, red(order), Some(op), scope)
            }
        };
        let mut address = self.address(base, index, strength)?;
        let elem = address.elem;
        let mut only_global = false;
        let mut parts = |this: &Self, value: Value| {
            let slots = this.slots(value)?;
            Ok(match slots.vector() {
                Ok((vector, slots)) if vector.elem() == elem => {
                    address.lanes = vector.lanes();
                    only_global = vector.bits() > 32 || kind != Some(AtomicOp::Add);
                    Parts::vector(slots, vector)
                }
                _ => Parts::one(slots.scalar(elem)?),
            })
        };
        let (value, compare) = match *op {
            Atomic::Atom { value, .. } | Atomic::Red { value, .. } => {
                (parts(self, value)?, parts(self, value)?)
            }
            Atomic::AtomCas { value, compare, .. } => (parts(self, value)?, parts(self, compare)?),
            Atomic::AtomVec { vector, .. } | Atomic::RedVec { vector, .. } => {
                (parts(self, vector)?, parts(self, vector)?)
            }
        };
        let old = match (op, results.first()) {
            (
                Atomic::Atom { .. } | Atomic::AtomCas { .. } | Atomic::AtomVec { .. },
                Some(result),
            ) => {
                self.allocate_values(&[*result])?;
                Some(parts(self, *result)?)
            }
            (Atomic::Red { .. } | Atomic::RedVec { .. }, None) => None,
            (
                Atomic::Atom { .. }
                | Atomic::AtomCas { .. }
                | Atomic::AtomVec { .. }
                | Atomic::Red { .. }
                | Atomic::RedVec { .. },
                _,
            ) => return Err(Refused::Malformed),
        };
        let exchange: Combine = |old, value, compare| if old == compare { value } else { old };
        let f = match kind {
            Some(kind) => Combines {
                global: combine(kind, elem, MemorySpace::Global)?,
                shared: combine(kind, elem, MemorySpace::Shared)?,
            },
            None => Combines { global: exchange, shared: exchange },
        };
        let slots = Slots { value, compare, old, only_global };
        let access = match (elem.bits(), address.lanes) {
            (64, 1) => update::<u64, 1>(address, slots, f),
            (32, 1) => update::<u32, 1>(address, slots, f),
            (32, 2 | 4) => update::<u32, 4>(address, slots, f),
            (16, 1) => update::<u16, 1>(address, slots, f),
            (16, 2 | 4 | 8) => update::<u16, 8>(address, slots, f),
            _ => return Err(Refused::Malformed),
        };
        let strong = Strong {
            scope,
            acquires: strength.acquires,
            releases: strength.releases,
            reads: true,
            writes: true,
        };
        let what = Accessed { address, writes: true, strong: Some(strong), stored: Stored::None };
        self.emit_access(id, what, access);
        Ok(())
    }

    pub(in crate::sim) fn cache(&mut self, id: OpId, op: &Cache) -> Result<(), Refused> {
        match *op {
            // The simulator has no caches, and the address need not exist.
            Cache::Prefetch { base, index, level: _ } => {
                self.address(base, index, Strength::default())?;
                self.weight += 1;
            }
            Cache::Discard { base, index } => {
                let address = self.address(base, index, Strength::default())?;
                self.emit(id, Inst::Memory(line(address, true)));
            }
            Cache::Applypriority { base, index } => {
                let address = self.address(base, index, Strength::default())?;
                self.emit(id, Inst::Memory(line(address, false)));
            }
        }
        Ok(())
    }
}

/// Changes the element at byte `at` atomically. Returns the old value.
fn update_buffer<E: Element>(buffer: &GlobalBuffer, at: usize, next: impl Fn(u64) -> u64) -> u64 {
    if E::BYTES == 8 {
        let _whole = buffer.lock(at / 4);
        let old = E::load(at, |i| buffer.word(i)).bits();
        E::store(at, E::Word::of_bits(next(old)), |i, mask, bits| buffer.update(i, mask, bits));
        return old;
    }
    let (ones, shift) = (ones::<E>() as u32, at % 4 * 8);
    let of = |word: u32| u64::from(word >> shift & ones);
    let new = |word: u32| word & !(ones << shift) | (next(of(word)) as u32 & ones) << shift;
    of(buffer.update_word(at / 4, new))
}

/// Compiles an atomic update of at most `N` elements for each lane.
fn update<E: Element + 'static, const N: usize>(
    address: Address,
    slots: Slots,
    f: Combines,
) -> Access {
    let count = (address.lanes as usize).min(N);
    Box::new(move |regs, memory, mask| {
        let mut olds = [[0; LANES]; N];
        let mut values = [[0; LANES]; N];
        let mut compares = [[0; LANES]; N];
        for number in 0..count {
            values[number] = slots.value.read::<E>(regs, number);
            compares[number] = slots.compare.read::<E>(regs, number);
        }
        address.strength.before();
        address.for_each_alloc(regs, mask, |regs, found, mask| {
            let f = if found.memory_space == MemorySpace::Global { f.global } else { f.shared };
            let next = |(number, lane): (usize, usize), old: u64| {
                f(old, values[number][lane], compares[number][lane])
            };
            match found.memory_space {
                MemorySpace::Local => return Err(address.no_order(regs, found, mask)),
                MemorySpace::Shared | MemorySpace::Cluster if slots.only_global => {
                    return Err(address.no_order(regs, found, mask));
                }
                // The verifier has checked that nothing is written to a constant array.
                MemorySpace::Global | MemorySpace::Const => {
                    let buffer = memory.buffer(found);
                    let offsets = address.offsets(regs, found, buffer.len_bytes(), mask)?;
                    offsets.for_each::<E>(mask, |lane, at| {
                        for (number, olds) in olds.iter_mut().take(count).enumerate() {
                            let next = |old| next((number, lane), old);
                            olds[lane] = update_buffer::<E>(buffer, at + number * E::BYTES, next);
                        }
                    });
                }
                MemorySpace::Shared | MemorySpace::Cluster => {
                    let shared = memory.shared_at_mut(found, mask)?;
                    let range @ SharedRange { start, .. } = shared.range(found.number);
                    let offsets = shared_offsets(&address, regs, found, range, mask)?;
                    check_written::<E>(&address, regs, &offsets, found, mask, shared)?;
                    let words = &mut shared.words;
                    offsets.for_each::<E>(mask, |lane, at| {
                        for (number, olds) in olds.iter_mut().take(count).enumerate() {
                            let at = start + at + number * E::BYTES;
                            olds[lane] = E::load(at, |i| words[i]).bits();
                            let new = E::Word::of_bits(next((number, lane), olds[lane]));
                            E::store(at, new, |i, mask, bits| {
                                words[i] = words[i] & !mask | bits;
                            });
                        }
                    });
                }
            }
            Ok(())
        })?;
        address.strength.after();
        if let Some(old) = slots.old {
            for (number, olds) in olds.iter().take(count).enumerate() {
                old.write::<E>(regs, number, mask, *olds);
            }
        }
        Ok(())
    })
}

fn check_written<E: Element>(
    address: &Address,
    regs: &Regs,
    offsets: &Offsets,
    found: Allocation,
    mask: u32,
    shared: &Shared,
) -> RawResult {
    let SharedRange { start, .. } = shared.range(found.number);
    let mut all_written = true;
    offsets.for_each::<E>(mask, |_, at| {
        for number in 0..address.lanes as usize {
            let at = start + at + number * E::BYTES;
            all_written &= E::is_ones(E::load(at, |i| shared.written[i]));
        }
    });
    if all_written {
        Ok(())
    } else {
        Err(address.uninitialised::<E>(regs, offsets, found, mask, shared))
    }
}

/// Checks the lines that lanes point to, and overwrites their content if `discard` is set.
fn line(address: Address, discard: bool) -> Access {
    Box::new(move |regs, memory, mask| {
        address.for_each_alloc(regs, mask, |regs, found, mask| {
            let buffer = memory.buffer(found);
            for lane in lanes_of(mask) {
                let mut at = address.at(regs, lane, found, buffer.len_bytes());
                (at.bytes, at.align) = (LINE, LINE);
                let end = at.byte + i128::from(LINE);
                if at.byte < 0 || end > i128::from(at.len_bytes) {
                    return Err(RawFault::new(lane, RawCause::OutOfBounds { access: at }));
                }
                if at.byte % i128::from(LINE) != 0 {
                    return Err(RawFault::new(lane, RawCause::Misaligned { access: at }));
                }
                if discard {
                    let first = at.byte as usize / 4;
                    (first..first + LINE as usize / 4)
                        .for_each(|word| buffer.update(word, u32::MAX, LOST));
                }
            }
            Ok(())
        })
    })
}

/// What a load returns from a discarded line, which PTX leaves undefined.
const LOST: u32 = 0xdddd_dddd;
