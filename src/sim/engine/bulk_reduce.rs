//! The arithmetic of bulk reductions (`cp.reduce.async.bulk`), which combine each source element
//! with the element at the destination.

use crate::ir::eval::Number;
use crate::ir::op::BulkReduce;
use crate::ir::types::Scalar;
use crate::ir::{bf16, f16};
use crate::sim::memory::buffer::GlobalBuffer;
use crate::sim::memory::lanes::{Lane, Word};

fn on<T: Lane>(old: u64, value: u64, f: impl Fn(T, T) -> T) -> u64 {
    f(T::of(T::Word::of_bits(old)), T::of(T::Word::of_bits(value))).word().bits()
}

fn number<T: Number>(op: BulkReduce, old: u64, value: u64) -> u64 {
    match op {
        BulkReduce::Add => on(old, value, <T as Number>::add),
        BulkReduce::Min => on(old, value, <T as Number>::min),
        BulkReduce::Max => on(old, value, <T as Number>::max),
        BulkReduce::Inc if old >= value => 0,
        BulkReduce::Inc => old + 1,
        BulkReduce::Dec if old == 0 || old > value => value,
        BulkReduce::Dec => old - 1,
        BulkReduce::And => old & value,
        BulkReduce::Or => old | value,
        BulkReduce::Xor => old ^ value,
    }
}

/// Returns the combined element. The verifier has checked that the reduction exists for this type.
pub(in crate::sim) fn reduced(op: BulkReduce, elem: Scalar, old: u64, value: u64) -> u64 {
    match elem {
        Scalar::F16 => number::<f16>(op, old, value),
        Scalar::Bf16 => number::<bf16>(op, old, value),
        Scalar::F32 => number::<f32>(op, old, value),
        Scalar::I32 => number::<i32>(op, old, value),
        Scalar::I64 => number::<i64>(op, old, value),
        Scalar::U64 => number::<u64>(op, old, value),
        Scalar::U32
        | Scalar::Bool
        | Scalar::I8
        | Scalar::I16
        | Scalar::U8
        | Scalar::U16
        | Scalar::F8E4M3
        | Scalar::F8E5M2
        | Scalar::Tf32
        | Scalar::F64 => number::<u32>(op, old, value),
    }
}

/// Combines the elements in `from` with those of the buffer from byte `at` on, each atomically.
pub(in crate::sim) fn combine(
    buffer: &GlobalBuffer,
    at: usize,
    from: &[u8],
    op: BulkReduce,
    elem: Scalar,
) {
    let size = elem.size_bytes() as usize;
    for (i, bytes) in from.chunks_exact(size).enumerate() {
        let at = at + i * size;
        let mut word = [0; 8];
        word[..size].copy_from_slice(bytes);
        let value = u64::from_le_bytes(word);
        if size == 8 {
            let _whole = buffer.lock(at / 4);
            let mut old = [0; 8];
            buffer.read_bytes(at, &mut old);
            let new = reduced(op, elem, u64::from_le_bytes(old), value);
            buffer.write_bytes(at, &new.to_le_bytes());
            continue;
        }
        let (shift, mask) = (at % 4 * 8, (u32::MAX >> (32 - 8 * size)) << (at % 4 * 8));
        buffer.update_word(at / 4, |word| {
            let old = (word & mask) >> shift;
            let new = reduced(op, elem, old.into(), value) as u32;
            word & !mask | (new << shift & mask)
        });
    }
}
