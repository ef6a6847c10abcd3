//! Finds the last use of each value, so that the compiler can reuse the value's slot afterwards.
//! `walk.rs` calls it before it emits steps.

use smallvec::SmallVec;

use super::compiler::get;
use super::refused::Refused::{self, Malformed};
use crate::ir::{Entity, KernelIr, OpId, RegionId, Value};

/// Returns, for each operation, the results that nothing after it reads.
///
/// A value lives until the operation *of its own region* that contains its last use. So what a loop
/// reads survives all its iterations, and lanes that wait at the end of a construct keep what they
/// need there.
pub(in crate::sim) fn last_uses(ir: &KernelIr) -> Result<Vec<SmallVec<[Value; 2]>>, Refused> {
    // How many regions were open where the value was made, and the last operation there that reads
    // it.
    let mut depth_of = vec![usize::MAX; ir.values.len()];
    let mut last: Vec<Option<OpId>> = vec![None; ir.values.len()];
    let mut visited = vec![false; ir.ops.len()];
    // Open regions, each with the index of its next operation.
    let mut open: Vec<(RegionId, usize)> = vec![(ir.body, 0)];
    let mut current: Vec<Option<OpId>> = vec![None];
    while let Some((region, next)) = open.last_mut() {
        let Some(&op) = get(&ir.regions, *region)?.ops.get(*next) else {
            open.pop();
            current.pop();
            continue;
        };
        *next += 1;
        let data = get(&ir.ops, op)?;
        if std::mem::replace(&mut visited[op.index()], true) {
            return Err(Malformed);
        }
        let depth = open.len() - 1;
        current[depth] = Some(op);
        for value in data.op.operands() {
            let made = *depth_of.get(value.index()).ok_or(Malformed)?;
            // Parameters, arguments, and values that are not visible here, which the second walk
            // refuses.
            if made != usize::MAX {
                last[value.index()] = current.get(made).copied().flatten();
            }
        }
        for result in &data.results {
            *depth_of.get_mut(result.index()).ok_or(Malformed)? = depth;
            last[result.index()] = Some(op);
        }
        let regions = data.op.regions();
        for region in regions.into_iter().rev() {
            open.push((region, 0));
            current.push(None);
        }
    }
    let mut dead = vec![SmallVec::new(); ir.ops.len()];
    for (value, op) in last.into_iter().enumerate() {
        if let Some(op) = op {
            dead[op.index()].push(Value::from_index(value));
        }
    }
    Ok(dead)
}
