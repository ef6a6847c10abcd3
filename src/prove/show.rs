//! Writes polynomials for people: `len(p0) - 4*n`, with names of parameters and values.

use std::fmt::Write;

use super::atom::{Atoms, Key};
use super::poly::{AtomId, Poly};
use crate::ir::KernelIr;

/// How deep quotients and remainders are written out.
const DEPTH: u32 = 3;

pub(super) fn poly(ir: &KernelIr, atoms: &Atoms, poly: &Poly) -> String {
    within(ir, atoms, poly, DEPTH)
}

fn within(ir: &KernelIr, atoms: &Atoms, poly: &Poly, depth: u32) -> String {
    let mut text = String::new();
    for term in &poly.terms {
        let factor = match (text.is_empty(), term.factor < 0) {
            (true, false) => term.factor.to_string(),
            (true, true) => format!("-{}", term.factor.unsigned_abs()),
            (false, false) => format!(" + {}", term.factor),
            (false, true) => format!(" - {}", term.factor.unsigned_abs()),
        };
        // A factor of one goes without saying.
        match factor.strip_suffix('1') {
            Some(sign) if term.factor.abs() == 1 => text.push_str(sign),
            _ => {
                text.push_str(&factor);
                text.push('*');
            }
        }
        let names: Vec<String> =
            term.atoms.iter().map(|atom| name(ir, atoms, *atom, depth)).collect();
        text.push_str(&names.join("*"));
    }
    if text.is_empty() {
        return poly.constant.to_string();
    }
    match poly.constant {
        0 => {}
        // Writing to a string cannot fail.
        constant if constant < 0 => drop(write!(text, " - {}", constant.unsigned_abs())),
        constant => drop(write!(text, " + {constant}")),
    }
    text
}

fn name(ir: &KernelIr, atoms: &Atoms, atom: AtomId, depth: u32) -> String {
    let param = |i: u32| ir.params.get(i as usize).map_or("?", |param| param.name.as_str());
    let Some(depth) = depth.checked_sub(1) else { return "..".to_owned() };
    let inner = |poly: &Poly| {
        let text = within(ir, atoms, poly, depth);
        if poly.as_atom().is_some() || poly.as_constant().is_some() {
            text
        } else {
            format!("({text})")
        }
    };
    match &atoms.get(atom).key {
        Key::Register(reg) => reg.to_string(),
        Key::Param(i) => param(*i).to_owned(),
        Key::Len(i) => format!("len({})", param(*i)),
        Key::BoxBytes(i) => format!("box_bytes({})", param(*i)),
        Key::Address(i) => format!("address({})", param(*i)),
        Key::Start(shared) => format!("start({shared})"),
        Key::Value(value, _) => value.to_string(),
        Key::Trip(op, _) => format!("trip({op})"),
        Key::Trips(op, _) => format!("trips({op})"),
        Key::Div(a, b) => format!("{}/{}", inner(a), inner(b)),
        Key::Rem(a, b) => format!("{}%{}", inner(a), inner(b)),
        Key::Xor(a, b) => format!("({} ^ {})", inner(a), inner(b)),
        Key::And(a, b) => format!("({} & {})", inner(a), inner(b)),
        Key::Or(a, b) => format!("({} | {})", inner(a), inner(b)),
        Key::Min(a, b) => format!("min({}, {})", inner(a), inner(b)),
        Key::Power(exponent) => format!("2^{}", inner(exponent)),
        Key::Second(first, _) => format!("{}'", name(ir, atoms, *first, depth)),
        Key::Sum(sum) => format!("({})", within(ir, atoms, sum, depth)),
        Key::Max(a, b) => format!("max({}, {})", inner(a), inner(b)),
    }
}
