//! Runs `mma.sync`, and the instructions that load, store and transpose matrices in a warp's
//! registers: `ldmatrix`, `stmatrix`, `movmatrix`. `mma.rs` has the arithmetic.

use super::mma::{
    AccumulatorSlots, AccumulatorType, Columns, Operands, Rows, Summand, float, int, multiply_f32,
    multiply_f64, multiply_i32,
};
use super::sparse::kept_columns;
use crate::ir::op::{Accumulators, MatrixOrder, Mma, MmaOverflow, MmaShape, metadata_threads};
use crate::ir::types::{Scalar, Space, Type, VectorType};
use crate::ir::{OpId, Value, VarId};
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::memory::address::Address;
use crate::sim::memory::lanes::Regs;
use crate::sim::memory::mask::{FULL, LANES};
use crate::sim::memory::vector_access::VectorSlots;
use crate::sim::options::Accumulation;
use crate::sim::program::code::Inst;
use crate::sim::program::compiler::Compiler;
use crate::sim::program::context::{Act, ExecContext, Next};
use crate::sim::program::refused::Refused;
use crate::sim::program::slots::Slots;
use crate::sim::race::{Lanes, Target};
use crate::sim::trace::counts::{LaneAccess, TrafficSource};

/// The most elements along `k` in one instruction.
pub(in crate::sim) const MAX_K: usize = 32;

/// The metadata of a sparse A.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Sparse {
    /// The slot of the metadata.
    pub(in crate::sim) metadata: u32,
    pub(in crate::sim) selector: u32,
}

/// A thread's part of a matrix: its register slots, each with `per_slot` elements.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Fragment {
    pub(in crate::sim) elem: Scalar,
    pub(in crate::sim) slots: Box<[u32]>,
    pub(in crate::sim) per_slot: usize,
}

/// Returns the bits of element `v` of a register.
#[inline(always)]
pub(in crate::sim) fn bits_of(elem: Scalar, word: u32, v: usize) -> u32 {
    match elem.bits() {
        8 => word >> (8 * v) & 0xff,
        16 => word >> (16 * v) & 0xffff,
        _ => word,
    }
}

/// Sorts the elements of A, from registers that hold `per` each, into blocks of 8 rows. Register
/// `r` holds block `r % blocks` and, along `k`, the elements
/// `4 * per * (r / blocks) + per * quad ..`.
#[inline(always)]
pub(in crate::sim) fn rows<T: Copy, W: Copy>(
    registers: impl Iterator<Item = [W; LANES]>,
    blocks: usize,
    k: usize,
    per: usize,
    out: &mut [Rows<T>],
    element: impl Fn(W, usize) -> T,
) {
    for (r, register) in registers.enumerate() {
        let (block, first) = (r % blocks, 4 * per * (r / blocks));
        for (lane, word) in register.into_iter().enumerate() {
            for v in 0..per {
                out[block * k + first + per * (lane % 4) + v][lane / 4] = element(word, v);
            }
        }
    }
}

/// Sorts the elements of B, from registers that hold `per` each, into one block of 8 columns.
#[inline(always)]
pub(in crate::sim) fn columns<T: Copy, W: Copy>(
    registers: impl Iterator<Item = [W; LANES]>,
    k: usize,
    per: usize,
    out: &mut [Columns<T>],
    element: impl Fn(W, usize) -> T,
) {
    for (r, register) in registers.enumerate() {
        for (lane, word) in register.into_iter().enumerate() {
            let column = lane / 4;
            for v in 0..per {
                let i = 4 * per * r + per * (lane % 4) + v;
                out[column % 2 * k + i][column / 2] = element(word, v);
            }
        }
    }
}

/// An `mma.sync`.
struct MmaSync {
    a: Fragment,
    b: Fragment,
    accumulators: AccumulatorSlots,
    /// Blocks of 8 rows.
    blocks: usize,
    /// How many elements of a row of A are multiplied: half of them if A is sparse.
    k: usize,
    overflow: MmaOverflow,
    sparse: Option<Sparse>,
}

impl MmaSync {
    /// Returns how many elements a column of B has.
    fn deep(&self) -> usize {
        if self.sparse.is_some() { 2 * self.k } else { self.k }
    }

    /// Returns the operands as numbers. Element `v` of a register is `number(elem, register, v)`.
    #[inline(always)]
    fn operands<T: Summand, W: Copy>(
        &self,
        file: &[[W; LANES]],
        number: impl Fn(Scalar, W, usize) -> T,
    ) -> Parts<T> {
        let (k, per) = (self.k, self.a.per_slot);
        let mut parts =
            Parts { rows: [[T::default(); 8]; 2 * MAX_K], columns: [[T::default(); 4]; 4 * MAX_K] };
        let (a, b) = (&self.a, &self.b);
        let registers = a.slots.iter().map(|slot| file[*slot as usize]);
        rows(registers, self.blocks, k, per, &mut parts.rows, |w, v| number(a.elem, w, v));
        let registers = b.slots.iter().map(|slot| file[*slot as usize]);
        columns(registers, self.deep(), per, &mut parts.columns, |w, v| number(b.elem, w, v));
        parts
    }

    fn run(&self, regs: &mut Regs, accumulation: Accumulation) -> Result<(), RawCause> {
        let kept = match self.sparse {
            None => None,
            Some(Sparse { metadata, selector }) => {
                let words = &regs.w[metadata as usize];
                Some(kept_columns(self.a.elem, self.deep(), selector, words)?)
            }
        };
        let kept = kept.as_deref();
        match self.accumulators.elem {
            AccumulatorType::F64 => {
                let parts = self.operands(&regs.d, |_, word, _| f64::from_bits(word));
                multiply_f64(regs, &self.accumulators, &parts.used(self, kept));
            }
            AccumulatorType::I32 => {
                let parts =
                    self.operands(&regs.w, |elem, word, v| int(elem, bits_of(elem, word, v)));
                let satfinite = self.overflow == MmaOverflow::Satfinite;
                multiply_i32(regs, &self.accumulators, &parts.used(self, kept), true, satfinite);
            }
            AccumulatorType::F16 | AccumulatorType::F32 => {
                let parts =
                    self.operands(&regs.w, |elem, word, v| float(elem, bits_of(elem, word, v)));
                let bits = accumulation.fraction_bits(self.a.elem.bits());
                multiply_f32(regs, &self.accumulators, &parts.used(self, kept), true, bits);
            }
        }
        Ok(())
    }
}

/// A warp's operands, on the stack.
struct Parts<T> {
    rows: [Rows<T>; 2 * MAX_K],
    columns: [Columns<T>; 4 * MAX_K],
}

impl<T: Summand> Parts<T> {
    /// Returns the operands, without the unused ends of the arrays.
    fn used<'p>(&'p self, mma: &MmaSync, kept: Option<&'p [Rows<u8>]>) -> Operands<'p, T> {
        let (rows, columns) = (&self.rows[..mma.blocks * mma.k], &self.columns[..2 * mma.deep()]);
        Operands { rows, columns, k: mma.k, kept }
    }
}

/// Returns the slots of 8x8 matrices of 16-bit elements, one register for each.
fn matrix_slots(slots: Slots) -> Result<VectorSlots, Refused> {
    let (vector, list) = slots.vector()?;
    if vector.elem().bits() != 16 || vector.lanes() != 2 * list.len() as u32 {
        return Err(Refused::Malformed);
    }
    Ok(VectorSlots::new(list))
}

/// Returns the row, and the element in the row, of one half of lane `lane`'s register.
fn coordinate(order: MatrixOrder, lane: usize, half: usize) -> (usize, usize) {
    let (far, near) = (lane / 4, 2 * (lane % 4) + half);
    match order {
        MatrixOrder::Rows => (far, near),
        MatrixOrder::Trans => (near, far),
    }
}

/// Returns the byte addresses of the matrix rows, 16 bytes each.
fn row_addresses(
    context: &ExecContext<'_, '_>,
    address: &Address,
    count: usize,
) -> RawResult<[usize; LANES]> {
    let mut rows = [0; LANES];
    for (lane, row) in rows.iter_mut().enumerate().take(8 * count) {
        *row = address.byte_address(context.regs, context.memory, lane, 16, 16)?.at;
    }
    Ok(rows)
}

/// Passes the rows to the race detector, each as an access by the lane that supplies the row's
/// address.
fn detect_rows(
    context: &mut ExecContext<'_, '_>,
    rows: &[usize; LANES],
    count: usize,
    writes: bool,
) {
    let (at, lanes) = (context.origin.into(), FULL >> (LANES - 8 * count));
    let target = Target::Shared(context.memory.here);
    let what = Lanes { target, writes, strong: None, bytes: 16 };
    let origin = context.origin;
    context.memory.record(|recorder| {
        let row = |lane: usize| rows[lane] as u64;
        let access = LaneAccess { target, writes, bytes: 16, mask: lanes, at: &row };
        recorder.access(origin, TrafficSource::Threads, &access);
    });
    context.memory.detect(Scalar::U16, |detector, _| {
        detector.races.access(at, lanes, what, |lane| rows[lane], |_| false);
    });
}

fn ldmatrix(address: Address, to: VectorSlots, order: MatrixOrder) -> Act {
    let VectorSlots { count, slots } = to;
    Box::new(move |context| {
        if let Some(next) = context.whole_warp()? {
            return Ok(next);
        }
        let rows = row_addresses(context, &address, count)?;
        detect_rows(context, &rows, count, false);
        for (matrix, slot) in slots.iter().enumerate().take(count) {
            let mut elements = [[0u16; 8]; 8];
            for (row, elements) in elements.iter_mut().enumerate() {
                let lane = 8 * matrix + row;
                let words = context.memory.shared().chunk(rows[lane]).map_err(|byte| {
                    address.missing_byte(context.regs, context.memory, lane, 16, byte)
                })?;
                for (pair, word) in elements.chunks_exact_mut(2).zip(words) {
                    (pair[0], pair[1]) = (word as u16, (word >> 16) as u16);
                }
            }
            context.regs.w[*slot as usize] = std::array::from_fn(|lane| {
                let [low, high] = [0, 1].map(|half| {
                    let (row, column) = coordinate(order, lane, half);
                    u32::from(elements[row][column])
                });
                low | high << 16
            });
        }
        Ok(Next::Go)
    })
}

fn stmatrix(address: Address, from: VectorSlots, order: MatrixOrder) -> Act {
    let VectorSlots { count, slots } = from;
    Box::new(move |context| {
        if let Some(next) = context.whole_warp()? {
            return Ok(next);
        }
        let rows = row_addresses(context, &address, count)?;
        detect_rows(context, &rows, count, true);
        if context.memory.proxies.is_some() {
            let byte_addresses = rows.map(|at| (context.memory.here, at));
            let access = |lane| address.access_at(context.regs, context.memory, lane, 16);
            context.memory.check_stores(
                FULL >> (LANES - 8 * count),
                &byte_addresses,
                16,
                access,
            )?;
        }
        for (matrix, slot) in slots.iter().enumerate().take(count) {
            let register = context.regs.w[*slot as usize];
            let mut elements = [[0u16; 8]; 8];
            for (lane, word) in register.into_iter().enumerate() {
                for half in 0..2 {
                    let (row, column) = coordinate(order, lane, half);
                    elements[row][column] = (word >> (16 * half)) as u16;
                }
            }
            for (row, elements) in elements.iter().enumerate() {
                let word =
                    |i: usize| u32::from(elements[2 * i]) | u32::from(elements[2 * i + 1]) << 16;
                let words = std::array::from_fn(word);
                let (at, rank) = (rows[8 * matrix + row], context.memory.here);
                context.memory.shared_mut().set_chunk(at, words);
                context.memory.note_store(rank, at, 16);
            }
        }
        Ok(Next::Go)
    })
}

fn movmatrix(from: u32, to: u32) -> Act {
    Box::new(move |context| {
        if let Some(next) = context.whole_warp()? {
            return Ok(next);
        }
        let register = context.regs.w[from as usize];
        context.regs.w[to as usize] = std::array::from_fn(|lane| {
            let [low, high] = [0, 1].map(|half| {
                let (row, column) = coordinate(MatrixOrder::Trans, lane, half);
                register[4 * row + column / 2] >> (16 * (column % 2)) & 0xffff
            });
            low | high << 16
        });
        Ok(Next::Go)
    })
}

impl Compiler<'_> {
    pub(in crate::sim) fn mma(
        &mut self,
        id: OpId,
        op: &Mma,
        results: &[Value],
    ) -> Result<(), Refused> {
        let act: Act = match *op {
            Mma::MmaSync { a, b, shape, d, first, overflow } => {
                let parts = [self.fragment(a)?, self.fragment(b)?];
                self.mma_sync(parts, shape, d, first, overflow, None)?
            }
            Mma::MmaSyncSp { a, b, metadata, shape, selector, d, first, overflow } => {
                let parts = [self.fragment(a)?, self.fragment(b)?];
                let metadata = self.scalar_of(metadata, Scalar::U32)?;
                let sparse = Some(Sparse { metadata, selector });
                self.mma_sync(parts, shape, d, first, overflow, sparse)?
            }
            Mma::MmaSyncF64 { ref values, shape, d, first } => {
                let slots = values.iter().map(|value| self.scalar_of(*value, Scalar::F64));
                let slots: Vec<u32> = slots.collect::<Result<_, Refused>>()?;
                let of_a = (shape.m * shape.k) as usize / LANES;
                let (a, b) = slots.split_at_checked(of_a).ok_or(Refused::Malformed)?;
                let part = |slots: &[u32]| Fragment {
                    elem: Scalar::F64,
                    slots: slots.into(),
                    per_slot: 1,
                };
                self.mma_sync([part(a), part(b)], shape, d, first, MmaOverflow::Wrap, None)?
            }
            Mma::Ldmatrix { base, index, count, order } => {
                let to = self.result(results, 0)?;
                let slots = matrix_slots(to)?;
                if slots.count != count.matrices() as usize {
                    return Err(Refused::Malformed);
                }
                ldmatrix(self.address_in(Space::Shared, base, index)?, slots, order)
            }
            Mma::Stmatrix { base, index, vector, order } => {
                let slots = matrix_slots(self.slots(vector)?)?;
                stmatrix(self.address_in(Space::Shared, base, index)?, slots, order)
            }
            Mma::Movmatrix { value } => {
                let (from, to) =
                    (matrix_slots(self.slots(value)?)?, matrix_slots(self.result(results, 0)?)?);
                if (from.count, to.count) != (1, 1) {
                    return Err(Refused::Malformed);
                }
                movmatrix(from.slots[0], to.slots[0])
            }
            Mma::MatrixDescriptor { .. }
            | Mma::Wgmma { .. }
            | Mma::WgmmaRs { .. }
            | Mma::WgmmaSp { .. }
            | Mma::WgmmaRsSp { .. }
            | Mma::WgmmaFence {}
            | Mma::WgmmaCommitGroup {}
            | Mma::WgmmaWaitGroup { .. }
            | Mma::Setmaxnreg { .. } => self.wgmma(op, results)?,
        };
        self.emit(id, Inst::Act(act));
        Ok(())
    }

    fn mma_sync(
        &self,
        [a, b]: [Fragment; 2],
        shape: MmaShape,
        d: VarId,
        first: u32,
        overflow: MmaOverflow,
        sparse: Option<Sparse>,
    ) -> Result<Act, Refused> {
        let blocks = shape.m as usize / 8;
        let k = shape.k as usize / if sparse.is_some() { 2 } else { 1 };
        let accumulators = self.accumulators(shape, 32, d, first)?;
        let mma = MmaSync { a, b, accumulators, blocks, k, overflow, sparse };
        mma.check(shape)?;
        let watched = self.is_watched(d);
        Ok(Box::new(move |context| {
            if let Some(next) = context.whole_warp()? {
                return Ok(next);
            }
            if watched {
                context.touch(&mma.accumulators.slots)?;
            }
            let done = mma.run(context.regs, context.memory.accumulation);
            done.map_err(|cause| RawFault::new(0, cause))?;
            Ok(Next::Go)
        }))
    }

    /// Returns a thread's part of a matrix.
    pub(in crate::sim) fn fragment(&self, value: Value) -> Result<Fragment, Refused> {
        Ok(match self.slots(value)? {
            Slots::Scalar(elem, slot) => Fragment { elem, slots: [slot].into(), per_slot: 1 },
            slots @ Slots::Vector(..) => {
                let (vector, list) = slots.vector()?;
                let per_slot = vector.lanes_per_register() as usize;
                Fragment { elem: vector.elem(), slots: list.into(), per_slot }
            }
            Slots::Pointer(_) => return Err(Refused::Malformed),
        })
    }

    /// Returns the registers of D in a variable, for `threads` threads.
    pub(in crate::sim) fn accumulators(
        &self,
        shape: MmaShape,
        threads: u32,
        d: VarId,
        first: u32,
    ) -> Result<AccumulatorSlots, Refused> {
        let ty = self.var_type(d)?;
        let len = Accumulators::new(shape, threads, ty).ok_or(Refused::Malformed)?.len;
        let elem = match ty {
            Type::Scalar(Scalar::F32) => AccumulatorType::F32,
            Type::Scalar(Scalar::F64) => AccumulatorType::F64,
            Type::Scalar(Scalar::I32) => AccumulatorType::I32,
            Type::Vector(VectorType::F16X2) => AccumulatorType::F16,
            Type::Scalar(_) | Type::Vector(_) | Type::Pointer { .. } | Type::TensorMap { .. } => {
                return Err(Refused::Malformed);
            }
        };
        let end = first.checked_add(len).ok_or(Refused::Malformed)?;
        let slot = |index| self.register(d, index).and_then(|slots| Ok(slots.single()?.1));
        let slots = (first..end).map(slot).collect::<Result<_, Refused>>()?;
        Ok(AccumulatorSlots { elem, slots })
    }
}

impl MmaSync {
    /// Checks that the register counts fit the shape.
    fn check(&self, shape: MmaShape) -> Result<(), Refused> {
        let elements = |fragment: &Fragment| fragment.slots.len() * fragment.per_slot;
        let (m, n, k) = (shape.m as usize, shape.n as usize, self.k);
        let is_whole = n == 8
            && (m == 8 || m == 16)
            && k <= MAX_K
            && k.is_multiple_of(4 * self.a.per_slot)
            && self.a.per_slot == self.b.per_slot
            && elements(&self.a) * LANES == m * k
            && elements(&self.b) * LANES == n * self.deep()
            && self.sparse.is_none_or(|sparse| is_legal(self.a.elem, self.deep(), m, sparse));
        let wide = self.accumulators.elem == AccumulatorType::F64;
        let fits = (self.a.elem == Scalar::F64) == wide && (self.b.elem == Scalar::F64) == wide;
        if is_whole && fits { Ok(()) } else { Err(Refused::Malformed) }
    }
}

/// Returns whether a sparse A of `m` rows and `k` columns can have metadata with this selector.
pub(in crate::sim) fn is_legal(elem: Scalar, k: usize, m: usize, sparse: Sparse) -> bool {
    let threads = metadata_threads(elem, k as u32);
    elem.bits() <= 32
        && m.is_multiple_of(16)
        && threads > 0
        && sparse.selector < 4 / threads.min(4)
        && threads <= 4
}
