//! Atomic operations, and what caches are told.
//!
//! The lanes of a warp have their turn from the lowest. Blocks run in parallel: each operation on global memory
//! is one step, and in which order those of several blocks come is the host's choice.

use super::compile::{Compiler, Refused};
use super::dispatch::{with_number, with_type};
use super::element::Element;
use super::home::{Allocation, Home};
use super::lanes::{LANES, Lane, Regs, Word, lanes_of};
use super::memory::{Access, Address, Offsets, Strength};
use super::program::Inst;
use super::scalar::{Bits, Int, Number};
use super::shared::{Shared, SharedRange};
use super::trap::{Trap, TrapCause, Trapped};
use crate::ir::{Atomic, AtomicOp, AtomicOrder, Cache, OpId, RedOrder, Scalar, Value};

/// What becomes of an element: a function of what is there, the operand, and what is compared with.
type Combine = fn(u64, u64, u64) -> u64;

/// What an operation does in global memory, and in shared memory.
#[derive(Clone, Copy)]
struct Combines {
    global: Combine,
    shared: Combine,
}

/// The bytes of a line, which `discard` is about.
const LINE: u32 = 128;

fn on<T: Lane>(old: u64, value: u64, f: fn(T, T) -> T) -> u64 {
    f(T::of(T::Word::of_bits(old)), T::of(T::Word::of_bits(value))).word().bits()
}

fn add<T: Number>(old: u64, value: u64, _: u64) -> u64 {
    on(old, value, <T as Number>::add)
}

/// The device adds `f32` in global memory without subnormal numbers.
fn add_flushed(old: u64, value: u64, _: u64) -> u64 {
    on(old, value, |a: f32, b: f32| flushed(Number::add(flushed(a), flushed(b))))
}

fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

fn min<T: Int>(old: u64, value: u64, _: u64) -> u64 {
    on(old, value, <T as Number>::min)
}

fn max<T: Int>(old: u64, value: u64, _: u64) -> u64 {
    on(old, value, <T as Number>::max)
}

fn combine(op: AtomicOp, elem: Scalar, home: Home) -> Result<Combine, Refused> {
    Ok(match op {
        AtomicOp::Add if (elem, home) == (Scalar::F32, Home::Global) => add_flushed,
        AtomicOp::Add => with_number!(elem, T => add::<T>),
        AtomicOp::Min => with_type!(elem, [I32 i32, U32 u32, I64 i64, U64 u64], T => min::<T>),
        AtomicOp::Max => with_type!(elem, [I32 i32, U32 u32, I64 i64, U64 u64], T => max::<T>),
        AtomicOp::And => |old, value, _| Bits::and(old, value),
        AtomicOp::Or => |old, value, _| Bits::or(old, value),
        AtomicOp::Xor => |old, value, _| Bits::xor(old, value),
        AtomicOp::Exch => |_, value, _| value,
        AtomicOp::Inc => |old, value, _| if old >= value { 0 } else { old + 1 },
        AtomicOp::Dec => |old, value, _| if old == 0 || old > value { value } else { old - 1 },
    })
}

/// The slots of an atomic operation beside its address.
#[derive(Clone, Copy)]
struct Slots {
    value: u32,
    /// The operand itself where nothing is compared.
    compare: u32,
    old: Option<u32>,
}

impl Compiler<'_> {
    pub(super) fn atomic(
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
        let (address, value, compare, kind) = match *op {
            Atomic::Atom { base, index, value, op, order, scope: _ } => {
                (self.address(base, index, of(order))?, value, None, Some(op))
            }
            Atomic::AtomCas { base, index, compare, value, order, scope: _ } => {
                (self.address(base, index, of(order))?, value, Some(compare), None)
            }
            Atomic::Red { base, index, value, op, order, scope: _ } => {
                let strength = strength(false, order == RedOrder::Release);
                (self.address(base, index, strength)?, value, None, Some(op))
            }
        };
        let elem = address.elem;
        let value = self.scalar_of(value, elem)?;
        let compare = compare.map_or(Ok(value), |compare| self.scalar_of(compare, elem))?;
        let old = match op {
            Atomic::Atom { .. } | Atomic::AtomCas { .. } => {
                Some(self.result(results, 0)?.scalar(elem)?)
            }
            Atomic::Red { .. } => None,
        };
        let exchange: Combine = |old, value, compare| if old == compare { value } else { old };
        let f = match kind {
            Some(kind) => Combines {
                global: combine(kind, elem, Home::Global)?,
                shared: combine(kind, elem, Home::Shared)?,
            },
            None => Combines { global: exchange, shared: exchange },
        };
        let slots = Slots { value, compare, old };
        let access = match elem.bits() {
            64 => update::<u64>(address, slots, f),
            32 => update::<u32>(address, slots, f),
            _ => return Err(Refused::Malformed),
        };
        self.emit(id, Inst::Memory(access));
        Ok(())
    }

    pub(super) fn cache(&mut self, id: OpId, op: &Cache) -> Result<(), Refused> {
        match *op {
            // There are no caches, and the address need not exist.
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

fn update<E: Element>(address: Address, slots: Slots, f: Combines) -> Access {
    Box::new(move |regs, memory, mask| {
        let words = |regs: &Regs, slot: u32| E::Word::file(regs)[slot as usize].map(Word::bits);
        let (values, compares) = (words(regs, slots.value), words(regs, slots.compare));
        let mut olds = [E::Word::default(); LANES];
        address.strength.before();
        address.for_each_alloc(regs, mask, |regs, found, mask| {
            let f = if found.home == Home::Global { f.global } else { f.shared };
            let next = |lane: usize, old: E::Word| {
                E::Word::of_bits(f(old.bits(), values[lane], compares[lane]))
            };
            match found.home {
                // The verifier has seen that nothing is written to a constant array.
                Home::Global | Home::Const => {
                    let buffer = memory.buffer(found);
                    let offsets = address.offsets(regs, (found, buffer.len_bytes(), mask))?;
                    offsets.for_each::<E>(mask, |lane, at| {
                        if E::BYTES == 4 {
                            let new = |old| next(lane, E::Word::of_bits(u64::from(old))).bits();
                            let old = buffer.update_word(at / 4, |old| new(old) as u32);
                            olds[lane] = E::Word::of_bits(old.into());
                        } else {
                            let _whole = buffer.lock(at / 4);
                            olds[lane] = E::load(at, |i| buffer.word(i));
                            E::store(at, next(lane, olds[lane]), |i, mask, bits| {
                                buffer.update(i, mask, bits);
                            });
                        }
                    });
                }
                Home::Shared | Home::Cluster => {
                    let shared = memory.shared_at_mut(found, mask)?;
                    let SharedRange { start, len } = shared.range(found.number);
                    let offsets = address.offsets(regs, (found, len, mask))?;
                    check_written::<E>(&address, regs, &offsets, (found, mask), shared)?;
                    let words = &mut shared.words;
                    offsets.for_each::<E>(mask, |lane, at| {
                        olds[lane] = E::load(start + at, |i| words[i]);
                        E::store(start + at, next(lane, olds[lane]), |i, mask, bits| {
                            words[i] = words[i] & !mask | bits;
                        });
                    });
                }
                Home::Local => return Err(address.no_order(regs, (found, mask))),
            }
            Ok(())
        })?;
        address.strength.after();
        if let Some(old) = slots.old {
            let out = &mut E::Word::file_mut(regs)[old as usize];
            for lane in lanes_of(mask) {
                out[lane] = olds[lane];
            }
        }
        Ok(())
    })
}

fn check_written<E: Element>(
    address: &Address,
    regs: &Regs,
    offsets: &Offsets,
    (found, mask): (Allocation, u32),
    shared: &Shared,
) -> Trapped {
    let SharedRange { start, .. } = shared.range(found.number);
    let mut all_written = true;
    offsets.for_each::<E>(mask, |_, at| {
        all_written &= E::is_ones(E::load(start + at, |i| shared.written[i]));
    });
    if all_written {
        Ok(())
    } else {
        Err(address.uninitialised::<E>(regs, offsets, (found, mask), shared))
    }
}

/// Checks the lines that lanes point to, and takes their content where they are discarded.
fn line(address: Address, discard: bool) -> Access {
    Box::new(move |regs, memory, mask| {
        address.for_each_alloc(regs, mask, |regs, found, mask| {
            let buffer = memory.buffer(found);
            for lane in lanes_of(mask) {
                let mut at = address.at(regs, lane, found, buffer.len_bytes());
                (at.bytes, at.align) = (LINE, LINE);
                let end = at.byte + i128::from(LINE);
                if at.byte < 0 || end > i128::from(at.len_bytes) {
                    return Err(Trap::new(lane, TrapCause::OutOfBounds(at)));
                }
                if at.byte % i128::from(LINE) != 0 {
                    return Err(Trap::new(lane, TrapCause::Misaligned(at)));
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

/// What is read from a line that was discarded: anything may be.
const LOST: u32 = 0xdddd_dddd;
