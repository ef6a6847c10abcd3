//! Interprets PTX text for one block of threads, as the PTX ISA defines it.
//!
//! It supports integers, predicates, control flow, parameters, global and shared memory. It does
//! not know the code generator; it reads only the text. It stops with an error that names the line
//! if an instruction is unknown, if a register is read before it is written, or if an access is out
//! of bounds.

use std::collections::HashMap;

#[path = "ptx_integers.rs"]
mod integers;

use integers::{Kind, Type};

/// A kernel argument.
pub(crate) enum Argument<'b> {
    /// A scalar's bits.
    Scalar(u64),
    /// Global memory. The kernel receives its address.
    Buffer(&'b mut [u8]),
}

/// Why a run stopped early.
pub(crate) type Stopped = String;

/// An instruction's operand.
#[derive(Clone, Debug)]
enum Operand {
    Register(usize),
    Immediate(u64),
    /// A special register, by name.
    Special(String),
    /// A label, a parameter or shared memory, by name.
    Symbol(String),
    /// `[base]` and `[base + offset]`, and both without brackets.
    Address(Box<Operand>, i64),
    /// `{a, b}`.
    Group(Vec<Operand>),
}

#[derive(Debug)]
struct Instruction {
    /// The predicate, and the value that it must have.
    guard: Option<(usize, bool)>,
    /// The name, split at the dots.
    name: Vec<String>,
    operands: Vec<Operand>,
    line: usize,
}

/// A module's first entry.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    instructions: Vec<Instruction>,
    /// Each label's instruction index.
    labels: HashMap<String, usize>,
    registers: HashMap<String, usize>,
    /// Each register's width in bits.
    widths: Vec<u32>,
    params: Vec<String>,
    shared_bytes: usize,
}

/// The first address of global memory. Buffer `i` starts at `(i + 1) * BUFFER`.
const BUFFER: u64 = 1 << 32;

/// The address of shared memory.
const SHARED: u64 = 1 << 12;

fn width_of(class: &str) -> Option<u32> {
    match class {
        "pred" => Some(1),
        _ => class.get(1..)?.parse().ok(),
    }
}

fn number(text: &str) -> Option<u64> {
    let (text, negative) = text.strip_prefix('-').map_or((text, false), |rest| (rest, true));
    // `0f` and eight digits are the bits of an `f32`.
    let value = match text.strip_prefix("0x").or(text.strip_prefix("0f")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    Some(if negative { value.wrapping_neg() } else { value })
}

impl Entry {
    /// Parses a module with one entry.
    pub(crate) fn parse(text: &str) -> Result<Entry, Stopped> {
        let mut entry = Entry::default();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.split("//").next().unwrap_or_default().trim();
            entry
                .line(text, line)
                .ok_or_else(|| format!("line {line} is not understood: {text}"))?;
        }
        Ok(entry)
    }

    fn line(&mut self, text: &str, line: usize) -> Option<()> {
        if let Some(label) = text.strip_suffix(':') {
            self.labels.insert(label.to_owned(), self.instructions.len());
            return Some(());
        }
        if let Some(rest) = text.strip_prefix(".reg .") {
            let (class, names) = rest.strip_suffix(";")?.split_once(' ')?;
            let (prefix, count) = names.strip_suffix('>')?.split_once('<')?;
            for i in 0..count.parse().ok()? {
                let number = self.widths.len();
                self.registers.insert(format!("{prefix}{i}"), number);
                self.widths.push(width_of(class)?);
            }
            return Some(());
        }
        if let Some(rest) = text.strip_prefix(".param ") {
            self.params.push(rest.trim_end_matches(',').split(' ').next_back()?.to_owned());
            return Some(());
        }
        if text.starts_with(".shared ") {
            let (_, bytes) = text.strip_suffix("];")?.split_once("$shared[")?;
            self.shared_bytes = bytes.parse().ok()?;
            return Some(());
        }
        if text.is_empty() || text.starts_with('.') || matches!(text, "{" | "}" | ")") {
            return Some(());
        }
        let mut text = text.strip_suffix(';')?;
        let mut guard = None;
        if let Some(rest) = text.strip_prefix('@') {
            let (register, rest) = rest.split_once(' ')?;
            let name = register.trim_start_matches('!');
            guard = Some((*self.registers.get(name)?, !register.starts_with('!')));
            text = rest;
        }
        let (name, operands) = text.split_once(' ').unwrap_or((text, ""));
        let operands = split(operands).into_iter().map(|operand| self.operand(operand));
        let operands = operands.collect::<Option<Vec<_>>>()?;
        let name = name.split('.').map(str::to_owned).collect();
        self.instructions.push(Instruction { guard, name, operands, line });
        Some(())
    }

    fn operand(&self, text: &str) -> Option<Operand> {
        if let Some(inside) = text.strip_prefix('{') {
            let parts = split(inside.strip_suffix('}')?).into_iter();
            return Some(Operand::Group(
                parts.map(|part| self.operand(part)).collect::<Option<_>>()?,
            ));
        }
        if let Some(inside) = text.strip_prefix('[') {
            let inside = self.operand(inside.strip_suffix(']')?)?;
            return Some(match inside {
                Operand::Address(..) => inside,
                base => Operand::Address(Box::new(base), 0),
            });
        }
        if let Some((base, offset)) = text.split_once('+') {
            let offset = number(offset)? as i64;
            return Some(Operand::Address(Box::new(self.operand(base)?), offset));
        }
        if let Some(register) = self.registers.get(text) {
            return Some(Operand::Register(*register));
        }
        if text.starts_with('%') {
            return Some(Operand::Special(text.to_owned()));
        }
        Some(number(text).map_or_else(|| Operand::Symbol(text.to_owned()), Operand::Immediate))
    }

    /// Runs a block of `threads` threads along x. Each may execute `fuel` instructions.
    pub(crate) fn run(
        &self,
        threads: usize,
        arguments: &mut [Argument<'_>],
        fuel: u64,
    ) -> Result<(), Stopped> {
        let mut shared = vec![0; self.shared_bytes];
        let mut all: Vec<Thread> = (0..threads)
            .map(|index| Thread {
                index: index as u64,
                count: threads as u64,
                registers: vec![None; self.widths.len()],
                at: 0,
                ended: false,
                fuel,
            })
            .collect();
        // Between two barriers, the threads run one after the other.
        while all.iter().any(|thread| !thread.ended) {
            for thread in all.iter_mut().filter(|thread| !thread.ended) {
                thread.until_barrier(self, arguments, &mut shared)?;
            }
        }
        Ok(())
    }
}

/// Splits operands at commas. A list in braces is one operand.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

struct Thread {
    index: u64,
    count: u64,
    registers: Vec<Option<u64>>,
    /// The index of the next instruction.
    at: usize,
    ended: bool,
    fuel: u64,
}

impl Thread {
    fn until_barrier(
        &mut self,
        entry: &Entry,
        arguments: &mut [Argument<'_>],
        shared: &mut [u8],
    ) -> Result<(), Stopped> {
        while let Some(instruction) = entry.instructions.get(self.at) {
            let with_line = |problem| format!("line {}: {problem}", instruction.line);
            self.at += 1;
            self.fuel = self.fuel.checked_sub(1).ok_or_else(|| with_line("no end".to_owned()))?;
            if let Some((predicate, expected)) = instruction.guard {
                let found =
                    self.registers[predicate].ok_or_else(|| with_line("no guard".into()))?;
                if (found != 0) != expected {
                    continue;
                }
            }
            let name: Vec<&str> = instruction.name.iter().map(String::as_str).collect();
            match name[0] {
                "ret" | "exit" => break,
                "barrier" | "bar" => return Ok(()),
                "bra" => {
                    let target = match &instruction.operands[..] {
                        [Operand::Symbol(label)] => entry.labels.get(label),
                        _ => None,
                    };
                    self.at = *target.ok_or_else(|| with_line("no such label".into()))?;
                }
                _ => self
                    .execute(entry, &name, &instruction.operands, arguments, shared)
                    .map_err(with_line)?,
            }
        }
        self.ended = true;
        Ok(())
    }

    fn read(&self, operand: &Operand) -> Result<u64, Stopped> {
        match operand {
            Operand::Register(register) => {
                self.registers[*register].ok_or_else(|| "a register that nothing set".to_owned())
            }
            Operand::Immediate(bits) => Ok(*bits),
            Operand::Special(name) => match name.as_str() {
                "%tid.x" | "%laneid" if self.count <= 32 => Ok(self.index),
                "%tid.x" => Ok(self.index),
                "%laneid" => Ok(self.index % 32),
                "%ntid.x" => Ok(self.count),
                "%tid.y" | "%tid.z" | "%ctaid.x" | "%ctaid.y" | "%ctaid.z" => Ok(0),
                "%ntid.y" | "%ntid.z" | "%nctaid.x" | "%nctaid.y" | "%nctaid.z" => Ok(1),
                _ => Err(format!("{name} is not known")),
            },
            Operand::Symbol(name) if name == "$shared" => Ok(SHARED),
            Operand::Address(base, offset) => Ok(self.read(base)?.wrapping_add_signed(*offset)),
            Operand::Symbol(_) | Operand::Group(_) => Err("an operand that is no value".to_owned()),
        }
    }

    fn write(&mut self, entry: &Entry, to: &Operand, bits: u64) -> Result<(), Stopped> {
        let Operand::Register(register) = to else {
            return Err("a result that goes to no register".to_owned());
        };
        let width = entry.widths[*register];
        self.registers[*register] = Some(bits & (u64::MAX >> (64 - width)));
        Ok(())
    }

    fn execute(
        &mut self,
        entry: &Entry,
        name: &[&str],
        operands: &[Operand],
        arguments: &mut [Argument<'_>],
        shared: &mut [u8],
    ) -> Result<(), Stopped> {
        let unknown = || format!("{} is not known", name.join("."));
        let last = name.last().ok_or_else(unknown)?;
        let (to, from) = operands.split_first().ok_or_else(unknown)?;
        match (name[0], from) {
            ("mov", [Operand::Group(parts)]) => {
                let bits = Type::parse(last).ok_or_else(unknown)?.bits / parts.len() as u32;
                let mut all = 0;
                for (i, part) in parts.iter().enumerate() {
                    let mask = u64::MAX >> (64 - bits);
                    all |= (self.read(part)? & mask) << (i as u32 * bits);
                }
                return self.write(entry, to, all);
            }
            ("mov", [from]) if matches!(to, Operand::Group(_)) => {
                let Operand::Group(parts) = to else { return Err(unknown()) };
                let bits = Type::parse(last).ok_or_else(unknown)?.bits / parts.len() as u32;
                let all = self.read(from)?;
                for (i, part) in parts.iter().enumerate() {
                    if !matches!(part, Operand::Symbol(name) if name == "_") {
                        self.write(entry, part, all >> (i as u32 * bits))?;
                    }
                }
                return Ok(());
            }
            ("cvta", [from]) => {
                let address = self.read(from)?;
                return self.write(entry, to, address);
            }
            ("ld", [Operand::Address(base, offset)]) if name.contains(&"param") => {
                let Operand::Symbol(param) = &**base else { return Err(unknown()) };
                let number = entry.params.iter().position(|name| name == param);
                let number = number.filter(|_| *offset == 0).ok_or_else(unknown)?;
                let bits = match arguments.get(number) {
                    Some(Argument::Scalar(bits)) => *bits,
                    Some(Argument::Buffer(_)) => BUFFER * (number as u64 + 1),
                    None => return Err(format!("{param} has no argument")),
                };
                let bits = Type::parse(last).ok_or_else(unknown)?.extend(bits);
                return self.write(entry, to, bits);
            }
            ("ld", [Operand::Address(base, offset)]) => {
                let ty = Type::parse(last).ok_or_else(unknown)?;
                let address = self.read(base)?.wrapping_add_signed(*offset);
                let parts = group(to);
                for (i, part) in (0..).zip(parts) {
                    let size = u64::from(ty.bits / 8);
                    let bytes = bytes_at(name, arguments, shared, (address + i * size, size))?;
                    let mut word = [0; 8];
                    word[..bytes.len()].copy_from_slice(bytes);
                    self.write(entry, part, ty.extend(u64::from_le_bytes(word)))?;
                }
                return Ok(());
            }
            ("st", [value]) => {
                let Operand::Address(base, offset) = to else { return Err(unknown()) };
                let ty = Type::parse(last).ok_or_else(unknown)?;
                let address = self.read(base)?.wrapping_add_signed(*offset);
                for (i, part) in (0..).zip(group(value)) {
                    let size = u64::from(ty.bits / 8);
                    let value = self.read(part)?.to_le_bytes();
                    let bytes = bytes_at(name, arguments, shared, (address + i * size, size))?;
                    bytes.copy_from_slice(&value[..size as usize]);
                }
                return Ok(());
            }
            _ => {}
        }
        let values =
            from.iter().map(|operand| self.read(operand)).collect::<Result<Vec<_>, _>>()?;
        let bits = integers::compute(name, &values).ok_or_else(unknown)?;
        // A type that is narrower than the register is extended according to its kind.
        let result = Type::parse(if name[0] == "cvt" && name[1] != "pack" {
            name[name.len() - 2]
        } else {
            last
        });
        let extends = result.filter(|ty| name[0] == "cvt" && ty.kind != Kind::Bits);
        self.write(entry, to, extends.map_or(bits, |ty| ty.extend(bits)))
    }
}

fn group(operand: &Operand) -> &[Operand] {
    match operand {
        Operand::Group(parts) => parts,
        one => std::slice::from_ref(one),
    }
}

/// Returns the bytes of an access of `size` bytes, which must be aligned and within one allocation.
fn bytes_at<'m>(
    name: &[&str],
    arguments: &'m mut [Argument<'_>],
    shared: &'m mut [u8],
    (address, size): (u64, u64),
) -> Result<&'m mut [u8], Stopped> {
    let problem = || format!("{} at {address:#x} is out of bounds or misaligned", name.join("."));
    let (memory, start) = if name.contains(&"shared") {
        (shared, address.checked_sub(SHARED))
    } else if name.contains(&"global") {
        let number = (address / BUFFER).checked_sub(1).ok_or_else(problem)?;
        match arguments.get_mut(number as usize) {
            Some(Argument::Buffer(bytes)) => (&mut **bytes, Some(address % BUFFER)),
            _ => return Err(problem()),
        }
    } else {
        return Err(format!("{} is not known", name.join(".")));
    };
    let start = start.filter(|_| address % size == 0).ok_or_else(problem)? as usize;
    memory.get_mut(start..start + size as usize).ok_or_else(problem)
}
