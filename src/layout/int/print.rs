//! Prints an [`Int`]: `{}` with names and operators, `{:#}` as CuTe does (`?{div=16}`), and `{:+}`
//! with names and their facts (`n{div=16}`), which can be parsed again.

use std::fmt;

use super::Int;
use super::expr::{Call, Factor, Fun, Symbol, Term, Width};

impl fmt::Display for Int {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(value) = self.as_static() {
            // `{}` without `f`'s flags, because they mean something else for integers.
            return write!(f, "{value}");
        }
        if f.alternate() {
            return anonymous(self, f);
        }
        let shown = unconditional(self);
        if let Some(value) = shown.as_static() {
            return write!(f, "{value}");
        }
        for (i, term) in shown.terms().iter().rev().enumerate() {
            let sign = if term.coefficient < 0 {
                "-"
            } else if i > 0 {
                "+"
            } else {
                ""
            };
            f.write_str(sign)?;
            print_term(term, f)?;
        }
        Ok(())
    }
}

/// Prints a dynamic value as CuTe does.
fn anonymous(value: &Int, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let divisor = value.divisibility();
    match (value.width(), divisor > 1) {
        (Width::W32, false) => f.write_str("?"),
        (Width::W32, true) => write!(f, "?{{div={divisor}}}"),
        (Width::W64, false) => f.write_str("?{i64}"),
        (Width::W64, true) => write!(f, "?{{i64 div={divisor}}}"),
    }
}

/// Strips an outermost condition. We do not print it, because in parentheses it would read as a
/// tuple.
fn unconditional(value: &Int) -> &Int {
    match value.terms() {
        [Term { factors, coefficient: 1 }] => match &**factors {
            [Factor::Call(call)] if call.fun == Fun::Checked => unconditional(&call.a),
            _ => value,
        },
        _ => value,
    }
}

/// Returns true if the value is printed as a sum of terms.
pub(crate) fn is_sum(value: &Int) -> bool {
    unconditional(value).terms().len() > 1
}

/// Returns true if the value needs no parentheses as an operand of `*`, `/` or `%`.
fn is_simple(value: &Int) -> bool {
    let value = unconditional(value);
    match value.terms() {
        [] => value.bounds().0 >= 0,
        [term] => term.coefficient > 0 && factors(term) == 1,
        _ => false,
    }
}

/// Returns true if an [`is_simple`] value is printed as a quotient or remainder. As a quotient's
/// right operand it still needs parentheses: `2/(n/3)`.
fn is_quotient(value: &Int) -> bool {
    let [term] = unconditional(value).terms() else { return false };
    match (&*term.factors, &*scale(term).1) {
        ([Factor::Symbol(_)], [whole]) => !whole,
        ([Factor::Call(call)], _) => match call.fun {
            Fun::FloorDiv | Fun::Mod => true,
            Fun::Checked => is_simple(&call.a) && is_quotient(&call.a),
            Fun::CeilDiv
            | Fun::Min
            | Fun::Max
            | Fun::Gcd
            | Fun::Xor
            | Fun::And
            | Fun::Assume
            | Fun::Overflow => false,
        },
        _ => false,
    }
}

fn factors(term: &Term) -> usize {
    let (number, symbols) = scale(term);
    usize::from(number != 1) + symbols.len()
}

/// Returns the coefficient that is left when as many symbols as possible are printed whole, and for
/// each factor whether it is printed whole. For example, `16 * (n/16)` prints as `n`.
fn scale(term: &Term) -> (u64, Vec<bool>) {
    let mut number = term.coefficient.unsigned_abs();
    let whole = term
        .factors
        .iter()
        .map(|factor| match factor {
            Factor::Symbol(s) => {
                let divisor = s.divisor().unsigned_abs();
                let fits = divisor > 0 && number.is_multiple_of(divisor);
                if fits {
                    number /= divisor;
                }
                fits
            }
            Factor::Call(_) => true,
        })
        .collect();
    (number, whole)
}

fn print_term(term: &Term, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (number, whole) = scale(term);
    let mut first = true;
    if number != 1 || term.factors.is_empty() {
        write!(f, "{number}")?;
        first = false;
    }
    for (factor, whole) in term.factors.iter().zip(whole) {
        if !first {
            f.write_str("*")?;
        }
        match factor {
            Factor::Symbol(s) if whole => print_name(s, f)?,
            // Needs parentheses after another factor, because `3*n/16` would read as `(3*n)/16`.
            Factor::Symbol(s) if first => {
                print_name(s, f)?;
                write!(f, "/{}", s.divisor())?;
            }
            Factor::Symbol(s) => {
                f.write_str("(")?;
                print_name(s, f)?;
                write!(f, "/{})", s.divisor())?;
            }
            Factor::Call(c) => print_call(c, first, f)?,
        }
        first = false;
    }
    Ok(())
}

fn print_name(symbol: &Symbol, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(if symbol.name().is_empty() { "?" } else { symbol.name() })?;
    if !f.sign_plus() {
        return Ok(());
    }
    let (min, max) = symbol.bounds();
    let wide = symbol.width() == Width::W64;
    let divisor = (symbol.divisor() > 1).then_some(symbol.divisor());
    print_facts(wide, divisor, (min != 1).then_some(min), (max != i64::MAX).then_some(max), f)
}

/// Prints the facts that differ from the defaults, for example `{i64 div=16 min=0 max=9}`.
fn print_facts(
    wide: bool,
    divisor: Option<i64>,
    min: Option<i64>,
    max: Option<i64>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let facts = [
        wide.then(|| "i64".to_owned()),
        divisor.map(|divisor| format!("div={divisor}")),
        min.map(|min| format!("min={min}")),
        max.map(|max| format!("max={max}")),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    if facts.is_empty() { Ok(()) } else { write!(f, "{{{}}}", facts.join(" ")) }
}

/// Prints `assume(a)`. With `{:+}`, adds the facts that `a` does not have by itself.
fn print_assumption(call: &Call, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("assume(")?;
    operand(&call.a, f)?;
    f.write_str(")")?;
    if !f.sign_plus() {
        return Ok(());
    }
    let (min, max) = call.a.bounds();
    let (known, of) = (call.facts, call.a.divisibility());
    print_facts(
        false,
        (known.divisor != of).then_some(known.divisor),
        (known.min != min).then_some(known.min),
        (known.max != max).then_some(known.max),
        f,
    )
}

/// Prints an operand with the same flags as `f`.
fn operand(value: &Int, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if f.sign_plus() { write!(f, "{value:+}") } else { write!(f, "{value}") }
}

fn function(name: &str, call: &Call, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{name}(")?;
    operand(&call.a, f)?;
    f.write_str(",")?;
    operand(&call.b, f)?;
    f.write_str(")")
}

fn print_call(call: &Call, first: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (a, b) = (&call.a, &call.b);
    let infix = |f: &mut fmt::Formatter<'_>, sign: &str| {
        if !first {
            f.write_str("(")?;
        }
        for (value, sign, bare) in
            [(a, sign, is_simple(a)), (b, "", is_simple(b) && !is_quotient(b))]
        {
            f.write_str(if bare { "" } else { "(" })?;
            operand(value, f)?;
            f.write_str(if bare { "" } else { ")" })?;
            f.write_str(sign)?;
        }
        if first { Ok(()) } else { f.write_str(")") }
    };
    match call.fun {
        Fun::FloorDiv => infix(f, "/"),
        Fun::Mod => infix(f, "%"),
        Fun::CeilDiv => function("ceil_div", call, f),
        Fun::Min => function("min", call, f),
        Fun::Max => function("max", call, f),
        Fun::Gcd => function("gcd", call, f),
        Fun::Xor => function("xor", call, f),
        Fun::And => function("and", call, f),
        Fun::Assume => print_assumption(call, f),
        Fun::Checked if first && is_simple(a) => operand(a, f),
        Fun::Checked => write!(f, "({a})"),
        Fun::Overflow => f.write_str("overflow()"),
    }
}
