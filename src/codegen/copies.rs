//! Writes parallel copies: several registers get new values at once, some from each other. Loops
//! need this for their carried values, for example to swap two of them.

use std::collections::{HashMap, HashSet};

use super::regs::{Operand, Reg};

/// Orders copies `(destination, source)` that are meant to happen at once, so that they can happen
/// one after the other. The destinations must be different registers. A cycle, such as a swap, goes
/// through a register of the same class that `temp` makes. Copies of a register to itself are left
/// out.
///
/// The order follows that of `copies` and takes linear time. It is the method of Boissinot, Darte,
/// Rastello, de Dinechin and Guillon, "Revisiting out-of-SSA translation for correctness, code
/// quality and efficiency" (2009): as soon as a value has been copied once, further readers use the
/// copy, and its old register is free.
pub(super) fn sequence(
    copies: &[(Reg, Operand)],
    mut temp: impl FnMut(Reg) -> Reg,
) -> Vec<(Reg, Operand)> {
    let moves = || copies.iter().copied().filter(|(to, from)| *from != Operand::Reg(*to));
    // Most lists are short, and no copy reads what another one writes.
    let reads = |reg: Reg| moves().any(|(_, from)| from == Operand::Reg(reg));
    if copies.len() <= 8 && !moves().any(|(to, _)| reads(to)) {
        return moves().collect();
    }
    let sources: HashMap<Reg, Operand> = moves().collect();
    // Where each register's original value is now.
    let mut now: HashMap<Reg, Reg> = HashMap::with_capacity(sources.len());
    for (_, from) in moves() {
        if let Operand::Reg(from) = from {
            now.insert(from, from);
        }
    }
    let mut written: HashSet<Reg> = HashSet::with_capacity(sources.len());
    let mut sequence = Vec::with_capacity(sources.len());
    let mut ready = Vec::new();
    let order = || moves().map(|(to, _)| to);
    // First write what nobody reads, then open cycles by saving one register.
    for to in order().filter(|to| !now.contains_key(to)).chain(order()).collect::<Vec<_>>() {
        if written.contains(&to) {
            continue;
        }
        if now.get(&to) == Some(&to) {
            let saved = temp(to);
            sequence.push((saved, Operand::Reg(to)));
            now.insert(to, saved);
        }
        ready.push(to);
        while let Some(to) = ready.pop() {
            let Some(&source) = sources.get(&to) else { continue };
            written.insert(to);
            let Operand::Reg(from) = source else {
                sequence.push((to, source));
                continue;
            };
            let place = now.insert(from, to).unwrap_or(from);
            sequence.push((to, Operand::Reg(place)));
            if place == from && !written.contains(&from) {
                ready.push(from);
            }
        }
    }
    sequence
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::regs::Class;
    use super::*;

    fn reg(number: u32) -> Reg {
        Reg::Value(Class::B32, number)
    }

    /// Runs the sequence copy by copy and compares the result with all copies at once.
    fn check_sequence(copies: &[(Reg, Operand)]) -> usize {
        let before = |reg: Reg| match reg {
            Reg::Value(_, number) => i64::from(number),
            _ => -1,
        };
        let mut temps = 0;
        let sequence = sequence(copies, |like| {
            temps += 1;
            Reg::Temp(like.class(), temps)
        });
        let mut now: HashMap<Reg, i64> = HashMap::new();
        for (to, from) in &sequence {
            let value = match from {
                Operand::Reg(from) => now.get(from).copied().unwrap_or(before(*from)),
                Operand::Int(number) => *number,
                Operand::Const(_) => unreachable!("not used here"),
            };
            now.insert(*to, value);
        }
        for (to, from) in copies {
            let expected = match from {
                Operand::Reg(from) => before(*from),
                Operand::Int(number) => *number,
                Operand::Const(_) => unreachable!("not used here"),
            };
            assert_eq!(now.get(to).copied().unwrap_or(before(*to)), expected, "{copies:?}");
        }
        let moved = copies.iter().filter(|(to, from)| *from != Operand::Reg(*to)).count();
        assert!(sequence.len() <= moved + moved / 2, "one more copy for each cycle: {sequence:?}");
        sequence.len()
    }

    #[test]
    fn swaps_chains_and_constants() {
        let copy = |to, from| (reg(to), Operand::Reg(reg(from)));
        assert_eq!(check_sequence(&[copy(0, 1), copy(1, 0)]), 3);
        assert_eq!(check_sequence(&[copy(0, 1), copy(1, 2), copy(2, 3)]), 3);
        assert_eq!(check_sequence(&[copy(2, 1), copy(1, 0), (reg(0), Operand::Int(7))]), 3);
        assert_eq!(check_sequence(&[copy(0, 1), copy(1, 2), copy(2, 0), copy(3, 0)]), 4);
        assert_eq!(check_sequence(&[copy(0, 0), copy(1, 1)]), 0);
    }

    proptest! {
        #[test]
        fn every_parallel_copy_is_kept(sources in proptest::collection::vec(0u32..12, 0..12)) {
            let copies: Vec<_> = (0..)
                .zip(&sources)
                .map(|(to, from)| (reg(to), match from {
                    11 => Operand::Int(100),
                    from => Operand::Reg(reg(*from)),
                }))
                .collect();
            check_sequence(&copies);
        }
    }
}
