//! Parses integers, tuples, layouts and tilers, in CuTe's notation and in ours.

use std::str::FromStr;

use smallvec::{SmallVec, smallvec};

use super::basis::{BasisPath, Scale, ScaledBasis};
use super::builder::LayoutBuilder;
use super::coord::{Slot, Underscore};
use super::error::LayoutError;
use super::int::{Int, Symbol, Width};
use super::into_tuple::Builder;
use super::layout::Layout;
use super::profile::MAX_DEPTH;
use super::ratio::Ratio;
use super::tiler::TilerLeaf;
use super::tuple::Tuple;

type Result<T> = std::result::Result<T, LayoutError>;

pub(crate) struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    pub(crate) fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    pub(crate) fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.rest().chars().next()
    }

    pub(crate) fn starts_with(&mut self, token: &str) -> bool {
        self.skip_space();
        self.rest().starts_with(token)
    }

    pub(crate) fn eat(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    pub(crate) fn expect(&mut self, token: &str, expected: &'static str) -> Result<()> {
        if self.eat(token) { Ok(()) } else { Err(self.error(expected)) }
    }

    pub(crate) fn error(&self, expected: &'static str) -> LayoutError {
        LayoutError::Parse { offset: self.at, expected }
    }

    pub(crate) fn end(&mut self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.error("the end of the text")),
        }
    }

    fn deeper(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(LayoutError::TooDeep { limit: MAX_DEPTH }) } else { Ok(()) }
    }

    /// Parses digits. The sign has been read already.
    #[inline]
    fn digits(&mut self, negative: bool) -> Result<i64> {
        let rest = self.rest();
        let len = rest.bytes().take_while(u8::is_ascii_digit).count();
        let digits = rest.get(..len).unwrap_or("");
        if digits.is_empty() {
            return Err(self.error("a number"));
        }
        let magnitude: i128 =
            digits.parse().map_err(|_| LayoutError::overflow("reading a number"))?;
        let value = if negative { -magnitude } else { magnitude };
        let value = i64::try_from(value).map_err(|_| LayoutError::overflow("reading a number"))?;
        self.at += len;
        Ok(value)
    }

    /// Parses `4`, `-4` or `_4`.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<i64> {
        self.skip_space();
        let mut negative = self.eat("-");
        if self.rest().starts_with('_') {
            self.at += 1;
            negative ^= self.rest().starts_with('-');
            if self.rest().starts_with('-') {
                self.at += 1;
            }
        }
        self.digits(negative)
    }

    fn at_number(&mut self) -> bool {
        self.skip_space();
        let mut chars = self.rest().chars();
        match chars.next() {
            Some(c) if c.is_ascii_digit() => true,
            Some('_') => {
                let next = chars.next();
                next.is_some_and(|c| c.is_ascii_digit())
                    || (next == Some('-') && chars.next().is_some_and(|c| c.is_ascii_digit()))
            }
            _ => false,
        }
    }

    /// Parses a sum. As in the printed form, a sign belongs to the whole product after it: `-n/x`
    /// is `-(n/x)`.
    #[inline]
    fn expression(&mut self) -> Result<Int> {
        let mut sum = self.term(false)?;
        loop {
            if self.eat("+") {
                sum = sum.add(&self.term(false)?)?;
            } else if self.eat("-") {
                sum = sum.add(&self.term(true)?)?;
            } else {
                return Ok(sum);
            }
        }
    }

    /// Parses a product after its sign.
    #[inline]
    fn term(&mut self, mut negative: bool) -> Result<Int> {
        while self.eat("-") {
            negative = !negative;
        }
        if !negative {
            let first = self.factor()?;
            return self.product_after(first);
        }
        let start = self.at;
        if self.at_number() {
            self.eat("_");
            // The only integer whose negation does not fit.
            if let Ok(i64::MIN) = self.digits(true) {
                return self.product_after(Int::new(i64::MIN));
            }
            self.at = start;
        }
        self.term(false)?.negate()
    }

    #[inline]
    fn product_after(&mut self, first: Int) -> Result<Int> {
        let mut factors: SmallVec<[Int; 2]> = smallvec![first];
        loop {
            if self.eat("*") {
                factors.push(self.factor()?);
            } else if self.eat("/") {
                factors = smallvec![product(&factors)?.floor_div(&self.factor()?)?];
            } else if self.eat("%") {
                factors = smallvec![product(&factors)?.modulo(&self.factor()?)?];
            } else {
                return product(&factors);
            }
        }
    }

    #[inline]
    fn factor(&mut self) -> Result<Int> {
        self.deeper()?;
        let value = self.factor_inner();
        self.depth -= 1;
        value
    }

    #[inline]
    fn factor_inner(&mut self) -> Result<Int> {
        if self.at_number() {
            return self.number().map(Int::new);
        }
        if self.eat("-") {
            if self.at_number() {
                self.skip_space();
                if self.rest().starts_with('_') {
                    self.at += 1;
                }
                return self.digits(true).map(Int::new);
            }
            return self.factor()?.negate();
        }
        if self.eat("(") {
            let value = self.expression()?;
            self.expect(")", "`)`")?;
            return Ok(value);
        }
        if self.eat("?") {
            return self.facts(Int::from_symbol(Symbol::fresh("")));
        }
        let rest = self.rest();
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let len = rest.find(|c| !word(c)).unwrap_or(rest.len());
        let name = rest.get(..len).unwrap_or("");
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(self.error("a number or a symbol"));
        }
        self.at += len;
        if self.peek() == Some('(') {
            return self.call(name);
        }
        self.facts(Int::symbol(name))
    }

    #[inline]
    fn call(&mut self, name: &str) -> Result<Int> {
        if matches!(name, "assume" | "overflow") {
            self.expect("(", "`(`")?;
            let value = if name == "assume" { self.expression()? } else { Int::overflowed() };
            self.expect(")", "`)`")?;
            return self.facts(value);
        }
        let operation = match name {
            "ceil_div" => Int::ceil_div,
            "min" => Int::min,
            "max" => Int::max,
            "gcd" => Int::gcd,
            "xor" => Int::xor,
            "and" => Int::and,
            _ => {
                return Err(
                    self.error("an operator, or before it `ceil_div`, `min`, `max`, `gcd`, `xor`, `and` or `assume`")
                );
            }
        };
        self.expect("(", "`(`")?;
        let a = self.expression()?;
        self.expect(",", "`,`")?;
        let b = self.expression()?;
        self.expect(")", "`)`")?;
        operation(&a, &b)
    }

    /// Parses the facts after a symbol, if any: `{div=16}`, `{i64}`, `{i64 div=16}`, `{min=0
    /// max=9}`.
    #[inline]
    fn facts(&mut self, symbol: Int) -> Result<Int> {
        if !self.rest().starts_with('{') {
            return Ok(symbol);
        }
        self.at += 1;
        let mut symbol = symbol;
        let (mut min, mut max) = symbol.bounds();
        let mut divisor = 1;
        while !self.eat("}") {
            if self.eat("i64") {
                symbol = symbol.with_width(Width::W64);
            } else if self.eat("i32") {
            } else if self.eat("div=") {
                divisor = self.number()?;
                if divisor < 1 {
                    return Err(self.error("a positive divisor"));
                }
            } else if self.eat("min=") {
                min = self.number()?;
            } else if self.eat("max=") {
                max = self.number()?;
            } else {
                return Err(self.error("`i64`, `div=`, `min=`, `max=` or `}`"));
            }
        }
        symbol.assume(divisor, min, max)
    }

    /// Parses a leaf or a tuple of trees. If an operator follows the closing parenthesis, the
    /// parentheses belong to an expression.
    pub(crate) fn tree<L: Leaf>(&mut self, out: &mut Builder<L>) -> Result<()> {
        self.deeper()?;
        if self.peek() == Some('(') && !self.is_expression() && !L::claims(self) {
            self.at += 1;
            out.open();
            if !self.eat(")") {
                loop {
                    self.tree(out)?;
                    if self.eat(")") {
                        break;
                    }
                    self.expect(",", "`,` or `)`")?;
                }
            }
            out.close();
        } else {
            out.push(L::parse(self)?);
        }
        self.depth -= 1;
        Ok(())
    }

    /// Returns the character after the matching closing parenthesis.
    fn after_parenthesis(&self) -> Option<char> {
        let mut depth = 0usize;
        for (i, c) in self.rest().char_indices() {
            match c {
                '(' => depth += 1,
                ')' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        let rest = self.rest().get(i + 1..).unwrap_or("");
                        return rest.trim_start().chars().next();
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn is_expression(&self) -> bool {
        matches!(self.after_parenthesis(), Some('+' | '-' | '*' | '/' | '%' | '@'))
    }

    #[inline]
    pub(crate) fn layout(&mut self) -> Result<Layout> {
        let mut shape = Builder::new();
        self.tree::<Int>(&mut shape)?;
        let shape = shape.finish()?;
        if !self.eat(":") {
            return Ok(Layout::compact(shape));
        }
        let mut stride = Builder::new();
        self.tree::<ScaledBasis>(&mut stride)?;
        Layout::new(shape, stride.finish()?)
    }
}

impl super::into_tuple::IntoTuple<ScaledBasis> for Builder<ScaledBasis> {
    #[inline]
    fn push_into(self, out: &mut Builder<ScaledBasis>) {
        if let Ok(tuple) = self.finish() {
            out.push_tree(tuple.as_ref());
        }
    }
}

/// A leaf type that can be parsed.
pub(crate) trait Leaf: Sized {
    fn parse(p: &mut Parser<'_>) -> Result<Self>;

    /// Returns true if the parenthesis here opens a leaf, not a tuple.
    fn claims(_: &Parser<'_>) -> bool {
        false
    }
}

impl Leaf for Int {
    #[inline]
    fn parse(p: &mut Parser<'_>) -> Result<Self> {
        p.expression()
    }
}

impl Leaf for Slot {
    #[inline]
    fn parse(p: &mut Parser<'_>) -> Result<Self> {
        if p.peek() == Some('_') && !p.at_number() {
            p.at += 1;
            return Ok(Slot::All);
        }
        p.expression().map(Slot::At)
    }
}

impl Leaf for TilerLeaf {
    #[inline]
    fn parse(p: &mut Parser<'_>) -> Result<Self> {
        if p.peek() == Some('_') && !p.at_number() {
            p.at += 1;
            return Ok(TilerLeaf::from(Underscore));
        }
        if Self::claims(p) {
            return p.layout().map(TilerLeaf::from);
        }
        let extent = p.expression()?;
        if !p.eat(":") {
            return Ok(TilerLeaf::Int(extent));
        }
        let mut out = LayoutBuilder::new();
        out.push(extent, ScaledBasis::parse(p)?);
        out.finish().map(TilerLeaf::from)
    }

    fn claims(p: &Parser<'_>) -> bool {
        p.rest().trim_start().starts_with('(') && p.after_parenthesis() == Some(':')
    }
}

impl Leaf for ScaledBasis {
    #[inline]
    fn parse(p: &mut Parser<'_>) -> Result<Self> {
        let start = p.at;
        let value = match p.expression() {
            // A quotient of two integers is a fraction here, not a division.
            Ok(value) if value.is_static() => match ratio(p, start) {
                Some(ratio) => Scale::from_ratio(ratio?),
                None => Scale::Int(value),
            },
            Ok(value) => Scale::Int(value),
            Err(LayoutError::DivisionByZero { .. }) => return Err(LayoutError::ZeroDenominator),
            Err(error) => return Err(error),
        };
        let mut path: Vec<usize> = Vec::new();
        while p.eat("@") {
            let offset = p.at;
            let mode = p.number()?;
            path.push(
                usize::try_from(mode)
                    .map_err(|_| LayoutError::Parse { offset, expected: "the index of a mode" })?,
            );
        }
        path.reverse();
        Ok(ScaledBasis { value, path: BasisPath::new(&path)? })
    }
}

/// Multiplies by halves. Extending a product of `n` symbols takes `n` steps, so going one by one
/// would take `n * n`.
fn product(factors: &[Int]) -> Result<Int> {
    match factors {
        [] => Ok(Int::ONE),
        [factor] => Ok(factor.clone()),
        _ => {
            let (first, second) = factors.split_at(factors.len() / 2);
            product(first)?.mul(&product(second)?)
        }
    }
}

/// Returns the fraction from `start` to here, if the text is one.
#[inline]
fn ratio(p: &Parser<'_>, start: usize) -> Option<Result<Ratio>> {
    let text = p.text.get(start..p.at)?;
    let (n, d) = text.split_once('/')?;
    let number = |s: &str| s.trim().trim_start_matches('_').parse::<i64>().ok();
    Some(Ratio::new(number(n)?, number(d)?))
}

fn whole<T>(text: &str, parse: impl FnOnce(&mut Parser<'_>) -> Result<T>) -> Result<T> {
    let mut parser = Parser::new(text);
    let value = parse(&mut parser)?;
    parser.end()?;
    Ok(value)
}

impl FromStr for Int {
    type Err = LayoutError;

    /// Parses the output of `Display`, and CuTe's `_4`, `?`, `?{div=16}`, `?{i64 div=16}`. Each `?`
    /// becomes a new symbol. A name may have facts too: `n{div=16 min=0}`.
    #[inline]
    fn from_str(text: &str) -> Result<Self> {
        whole(text, |p| p.expression())
    }
}

impl FromStr for Ratio {
    type Err = LayoutError;

    /// Parses `3/4` or `3`.
    #[inline]
    fn from_str(text: &str) -> Result<Self> {
        whole(text, |p| {
            let n = p.number()?;
            let d = if p.eat("/") { p.number()? } else { 1 };
            Ratio::new(n, d)
        })
    }
}

impl FromStr for ScaledBasis {
    type Err = LayoutError;

    /// Parses `4`, `3/4` or `2@1@0`.
    #[inline]
    fn from_str(text: &str) -> Result<Self> {
        whole(text, ScaledBasis::parse)
    }
}

impl<L: Leaf> FromStr for Tuple<L> {
    type Err = LayoutError;

    /// Parses `4`, `(4,(2,8))`, `(4)` or `()`.
    fn from_str(text: &str) -> Result<Self> {
        whole(text, |p| {
            let mut out = Builder::new();
            p.tree(&mut out)?;
            out.finish()
        })
    }
}

impl FromStr for Layout {
    type Err = LayoutError;

    /// Parses `(4,(2,8)):(2,(1,8))`, also with CuTe's `_4`. A shape alone becomes a compact layout.
    #[inline]
    fn from_str(text: &str) -> Result<Self> {
        whole(text, |p| p.layout())
    }
}
