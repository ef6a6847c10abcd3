//! The second half of the text form's parser: statements, that is declarations, operations and
//! their regions. An operation has a notation of its own only if it is matched by name in
//! `statement`.

use std::num::NonZeroU32;
use std::sync::Arc;

use smallvec::SmallVec;

use super::error::ParseErrorKind;
use super::lex::{Failure, Kind, Span, Token};
use super::literal;
use super::parse::{KernelParser, Result, undefined, unexpected};
use crate::ir::entity::{OpId, RegionId, Value};
use crate::ir::kernel::{
    ArrayData, GlobalData, KernelIr, LocalData, OpData, Region, SharedData, ValueDef, VarData,
};
use crate::ir::op::{
    BadPart, Control, Diagnostic, Inline, InlinePtx, Op, OpInfo, Parts, Unroll, ValueList,
};
use crate::ir::types::{Const, Scalar, Type};

/// The start of a statement: its region, its first token, and the results that it names.
struct Head<'t> {
    region: RegionId,
    first: Token<'t>,
    results: SmallVec<[(Token<'t>, Value); 2]>,
}

/// A region that is being parsed.
struct Open {
    region: RegionId,
    /// If this is the first arm of an `if`: that `if`, because an `else` may follow.
    then_of: Option<OpId>,
}

/// The region that a statement opened, if any.
type Opened = Option<Open>;

impl<'t> KernelParser<'_, 't> {
    /// Parses the statements of the kernel's body, up to and including its `}`. The caller has
    /// taken `{`.
    ///
    /// It does not recurse, so the nesting depth of a text cannot overflow the stack.
    #[inline]
    pub(super) fn body(&mut self) -> Result<()> {
        let mut open = vec![Open { region: self.ir.body, then_of: None }];
        // Right after `{`, a statement may follow on the same line.
        let mut opened = true;
        while let Some(Open { region, then_of }) = open.last() {
            let (region, then_of) = (*region, *then_of);
            let mut next = None;
            if self.tokens.accept("}")? {
                open.pop();
                if let Some(op) = then_of {
                    next = self.else_(op)?;
                }
            } else if opened || self.tokens.token.first {
                next = self.statement(region, open.len())?;
            } else {
                return Err(unexpected(self.tokens.token, "a new line or `}`"));
            }
            opened = next.is_some();
            open.extend(next);
            if open.len() > KernelIr::MAX_DEPTH {
                let kind = ParseErrorKind::TooDeep { limit: KernelIr::MAX_DEPTH };
                return Err(self.tokens.token.fail(kind));
            }
        }
        Ok(())
    }

    /// Parses a statement in `region`, at nesting depth `depth`.
    #[inline]
    fn statement(&mut self, region: RegionId, depth: usize) -> Result<Opened> {
        if depth == 1 && self.tokens.is("shared") {
            return self.shared().map(|()| None);
        }
        if depth == 1 && self.tokens.is("local") {
            return self.local().map(|()| None);
        }
        if depth == 1 && self.tokens.is("array") {
            return self.array().map(|()| None);
        }
        if depth == 1 && self.tokens.is("global") {
            return self.global().map(|()| None);
        }
        if self.tokens.is("var") {
            return self.var(region).map(|()| None);
        }
        let mut head = Head { region, first: self.tokens.token, results: SmallVec::new() };
        if self.tokens.token.kind == Kind::Value {
            loop {
                let name = self.tokens.value()?;
                head.results.push((name, self.declare_value(name)?));
                if !self.tokens.accept(",")? {
                    break;
                }
            }
            self.tokens.expect("=", "`=`")?;
        }
        let name = self.tokens.expect_kind(Kind::Word, "an operation or `}`")?;
        match name.text {
            "shared" | "local" | "array" | "global" => Err(unexpected(
                name,
                "an operation (allocations are only possible in the kernel's body)",
            )),
            "const" => self.constant(head),
            "if" => self.if_(head),
            "for" => self.for_(head),
            "loop" => self.loop_(head),
            "yield" => {
                let values = self.operands()?;
                self.finish(head, Control::Yield { values })
            }
            "continue" => {
                let target = self.target()?;
                let values = self.operands()?;
                self.finish(head, Control::Continue { target, values })
            }
            "break" => {
                let target = self.target()?;
                let values = self.operands()?;
                self.finish(head, Control::Break { target, values })
            }
            "return" => self.finish(head, Control::Return),
            "assert" => {
                let message = self.text()?;
                let cond = self.operand()?;
                let values = self.more_operands()?;
                let element = self.tokens.accept("element")?;
                let element = if element { Some(self.operand()?) } else { None };
                self.finish(head, Diagnostic::Assert { cond, message, values, element })
            }
            "ptx" => self.inline(head),
            "printf" => {
                let format = self.text()?;
                let values = self.operands()?;
                self.finish(head, Diagnostic::Printf { format, values })
            }
            _ => self.row(head, name),
        }
    }

    #[inline]
    fn shared(&mut self) -> Result<()> {
        let first = self.tokens.take()?;
        let symbol = self.tokens.symbol()?;
        self.tokens.expect(":", "`:`")?;
        let elem = self.tokens.scalar()?;
        self.tokens.expect("x", "`x`")?;
        let len = self.tokens.number()?;
        self.tokens.expect("align", "`align`")?;
        let align_bytes = self.tokens.number()?;
        let location = self.location(first);
        let shared = self.ir.shared.push(SharedData { elem, len, align_bytes, location });
        self.symbols.declare_shared(symbol, shared)
    }

    #[inline]
    fn local(&mut self) -> Result<()> {
        let first = self.tokens.take()?;
        let symbol = self.tokens.symbol()?;
        self.tokens.expect(":", "`:`")?;
        let elem = self.tokens.scalar()?;
        self.tokens.expect("x", "`x`")?;
        let len = self.tokens.number()?;
        let location = self.location(first);
        let local = self.ir.locals.push(LocalData { elem, len, location });
        self.symbols.declare_local(symbol, local)
    }

    #[inline]
    fn array(&mut self) -> Result<()> {
        let first = self.tokens.take()?;
        let symbol = self.tokens.symbol()?;
        self.tokens.expect(":", "`:`")?;
        let elem = self.tokens.scalar()?;
        self.tokens.expect("=", "`=`")?;
        let bits = self.elements(elem)?;
        let location = self.location(first);
        let array = self.ir.arrays.push(ArrayData { elem, bits, location });
        self.symbols.declare_array(symbol, array)
    }

    #[inline]
    fn global(&mut self) -> Result<()> {
        let first = self.tokens.take()?;
        let symbol = self.tokens.symbol()?;
        self.tokens.expect(":", "`:`")?;
        let elem = self.tokens.scalar()?;
        self.tokens.expect("x", "`x`")?;
        let len = self.tokens.number()?;
        let has_values = self.more() && self.tokens.accept("=")?;
        let bits = if has_values { self.elements(elem)? } else { [].into() };
        let location = self.location(first);
        let global = self.ir.globals.push(GlobalData { elem, len, bits, location });
        self.symbols.declare_global(symbol, global)
    }

    /// Parses the elements of an array, as bits.
    #[inline]
    fn elements(&mut self, elem: Scalar) -> Result<Arc<[u64]>> {
        let mut bits = Vec::new();
        if self.more() && matches!(self.tokens.token.kind, Kind::Number | Kind::Word) {
            loop {
                let token = self.tokens.take()?;
                bits.push(literal_of(token, elem)?.bits());
                if !self.tokens.accept(",")? {
                    break;
                }
            }
        }
        Ok(bits.into())
    }

    #[inline]
    fn var(&mut self, region: RegionId) -> Result<()> {
        let first = self.tokens.take()?;
        let symbol = self.tokens.symbol()?;
        self.tokens.expect(":", "`:`")?;
        let ty = self.tokens.ty()?;
        self.tokens.expect("x", "`x`")?;
        let len = self.tokens.number()?;
        let location = self.location(first);
        let var = self.ir.vars.push(VarData { ty, len, region, location, name: None });
        self.symbols.declare_var(symbol, var)
    }

    /// Returns whether the statement continues on its line.
    fn more(&self) -> bool {
        !self.tokens.token.first
    }

    /// Parses a quoted text.
    #[inline]
    fn text(&mut self) -> Result<Arc<str>> {
        let token = self.tokens.expect_kind(Kind::Text, "a text in quotes")?;
        literal::unquote(token.text).map(Arc::from).map_err(|(start, end)| Failure {
            span: Span { start: token.span.start + start, end: token.span.start + end },
            kind: ParseErrorKind::InvalidEscape { text: token.text[start..end].to_owned() },
        })
    }

    #[inline]
    fn inline(&mut self, head: Head<'t>) -> Result<Opened> {
        let text = self.text()?;
        self.tokens.expect("target", "`target`")?;
        let target = self.tokens.target()?;
        self.tokens.expect("version", "`version`")?;
        let token = self.tokens.expect_kind(Kind::Number, "a version such as `7.0`")?;
        let version = token.text.split_once('.').and_then(|(major, minor)| {
            Some((major.parse::<u16>().ok()?, minor.parse::<u16>().ok()?))
        });
        let (major, minor) = version.ok_or_else(|| unexpected(token, "a version such as `7.0`"))?;
        let mut ptx = InlinePtx::new(&*text).for_target(target).for_version(major, minor);
        if self.more() && self.tokens.accept("pure")? {
            ptx = ptx.pure();
        }
        let operands = self.operands()?;
        let types = self.types()?;
        let inline = Inline { ptx: Arc::new(ptx), operands, results: types.to_vec() };
        self.add(&head, inline.into(), &types).map(|_| None)
    }

    /// Parses further values, each after a comma.
    #[inline]
    fn more_operands(&mut self) -> Result<ValueList> {
        if self.more() && self.tokens.accept(",")? { self.operands() } else { Ok(ValueList::new()) }
    }

    /// Parses comma-separated values on the statement's line.
    #[inline]
    fn operands(&mut self) -> Result<ValueList> {
        let mut operands = ValueList::new();
        if !self.more() || self.tokens.token.kind != Kind::Value {
            return Ok(operands);
        }
        loop {
            operands.push(self.operand()?);
            if !self.tokens.accept(",")? {
                return Ok(operands);
            }
        }
    }

    #[inline]
    fn operand(&mut self) -> Result<Value> {
        let name = self.tokens.value()?;
        Ok(self.use_value(name))
    }

    #[inline]
    fn target(&mut self) -> Result<OpId> {
        let symbol = self.tokens.symbol()?;
        self.symbols.find_loop(symbol)
    }

    /// Parses result types on the statement's line.
    #[inline]
    fn types(&mut self) -> Result<SmallVec<[Type; 2]>> {
        let mut types = SmallVec::new();
        if !self.more() || !self.tokens.accept(":")? {
            return Ok(types);
        }
        loop {
            types.push(self.tokens.ty()?);
            if !self.tokens.accept(",")? {
                return Ok(types);
            }
        }
    }

    /// Parses the result types and adds the operation.
    fn finish(&mut self, head: Head<'t>, op: impl Into<Op>) -> Result<Opened> {
        let types = self.types()?;
        self.add(&head, op.into(), &types).map(|_| None)
    }

    #[inline]
    fn add(&mut self, head: &Head<'t>, op: Op, types: &[Type]) -> Result<OpId> {
        let (region, location) = (head.region, self.location(head.first));
        if head.results.len() != types.len() {
            let (names, types) = (head.results.len(), types.len());
            return Err(head.first.fail(ParseErrorKind::ResultCount { names, types }));
        }
        let results = head.results.iter().map(|(_, value)| *value).collect();
        let id = self.ir.ops.push(OpData { op, results, region, location });
        for (i, ((token, value), ty)) in head.results.iter().zip(types).enumerate() {
            self.define_value(*value, *ty, ValueDef::Result(id, i as u32), region, *token);
        }
        self.ir.regions[region].ops.push(id);
        Ok(id)
    }

    #[inline]
    fn constant(&mut self, head: Head<'t>) -> Result<Opened> {
        let literal = self.tokens.take()?;
        if !matches!(literal.kind, Kind::Number | Kind::Word) {
            return Err(unexpected(literal, "a constant"));
        }
        // The literal has the type of the first result, and cannot be parsed without it.
        let types = self.types()?;
        let Some(Type::Scalar(scalar)) = types.first().copied() else {
            return Err(unexpected(self.tokens.token, "`:` and the scalar type of the constant"));
        };
        let constant = literal_of(literal, scalar)?;
        self.add(&head, Op::Const(constant), &types).map(|_| None)
    }

    #[inline]
    fn row(&mut self, head: Head<'t>, name: Token<'t>) -> Result<Opened> {
        let Some(info) = Op::table().find(|info| info.name == name.text) else {
            let kind = ParseErrorKind::UnknownOperation { name: name.text.to_owned() };
            return Err(name.fail(kind));
        };
        let attributes = self.attributes()?;
        let operands = self.operands()?;
        let (expected, found) = (info.attributes.len(), attributes.len());
        // Trailing attributes may be left out if they print as nothing.
        let said = found;
        let miscounted = ParseErrorKind::AttributeCount { op: info.name, expected, found };
        if found > expected {
            return Err(name.fail(miscounted));
        }
        let (expected, found) = (info.operands.len(), operands.len());
        if found < expected || (found > expected && info.list.is_none()) {
            return Err(name.fail(ParseErrorKind::OperandCount { op: info.name, expected, found }));
        }
        let mut texts: SmallVec<[&str; 6]> = attributes.iter().map(|token| token.text).collect();
        texts.resize(info.attributes.len(), "");
        let mut parts = Parts::new(&operands, &texts, &self.symbols);
        match Op::from_parts(info.name, &mut parts) {
            Ok(op) => self.finish(head, op),
            Err(BadPart::Attribute(position)) if position >= said => Err(name.fail(miscounted)),
            Err(BadPart::Attribute(position)) => Err(bad_attribute(info, position, &attributes)),
            Err(BadPart::Name | BadPart::Missing) => {
                Err(name.fail(ParseErrorKind::UnknownOperation { name: name.text.to_owned() }))
            }
        }
    }

    /// Takes the attributes' tokens; each attribute is one token.
    #[inline]
    fn attributes(&mut self) -> Result<SmallVec<[Token<'t>; 4]>> {
        let mut attributes = SmallVec::new();
        if !self.more() || !self.tokens.accept("<")? {
            return Ok(attributes);
        }
        loop {
            let token = self.tokens.take()?;
            if token.text == "," {
                // An empty attribute in front of another one.
                attributes.push(Token { kind: Kind::Word, text: "", ..token });
                continue;
            }
            if !matches!(token.kind, Kind::Word | Kind::Number | Kind::Symbol) {
                return Err(unexpected(token, "an attribute"));
            }
            attributes.push(token);
            if self.tokens.accept(">")? {
                return Ok(attributes);
            }
            self.tokens.expect(",", "`,` or `>`")?;
        }
    }

    /// Adds an empty region owned by `parent`.
    fn new_region(&mut self, parent: OpId) -> RegionId {
        self.ir.regions.push(Region { parent: Some(parent), ..Region::default() })
    }

    #[inline]
    fn if_(&mut self, head: Head<'t>) -> Result<Opened> {
        let cond = self.operand()?;
        let types = self.types()?;
        // The region needs its owner's id, so create the owner first, with the kernel's body as a
        // placeholder region.
        let control = |then_region| Control::If { cond, then_region, else_region: None };
        let op = self.add(&head, control(self.ir.body).into(), &types)?;
        self.tokens.expect("{", "`{`")?;
        let region = self.new_region(op);
        self.ir.ops[op].op = control(region).into();
        Ok(Some(Open { region, then_of: Some(op) }))
    }

    /// Parses `else {` after the first arm of `op`, if present.
    #[inline]
    fn else_(&mut self, op: OpId) -> Result<Opened> {
        if !self.tokens.accept("else")? {
            return Ok(None);
        }
        self.tokens.expect("{", "`{`")?;
        let region = self.new_region(op);
        if let Op::Control(Control::If { else_region, .. }) = &mut self.ir.ops[op].op {
            *else_region = Some(region);
        }
        Ok(Some(Open { region, then_of: None }))
    }

    #[inline]
    fn for_(&mut self, head: Head<'t>) -> Result<Opened> {
        let label = self.label()?;
        let index = self.tokens.value()?;
        let index = (index, self.declare_value(index)?);
        self.tokens.expect(":", "`:`")?;
        let index = (index, self.tokens.ty()?);
        self.tokens.expect("=", "`=`")?;
        let lo = self.operand()?;
        self.tokens.expect("to", "`to`")?;
        let hi = self.operand()?;
        self.tokens.expect("step", "`step`")?;
        let step = self.operand()?;
        let unroll = self.unroll()?;
        let prefetch = if self.tokens.accept("prefetch")? { self.tokens.number()? } else { 0 };
        let mut args = Args::from_slice(&[index]);
        let init = self.carried(&mut args)?;
        let control = |body| {
            let init = init.clone();
            Control::For { lo, hi, step, unroll, prefetch, init, body }
        };
        self.loop_body(head, label, args, control)
    }

    #[inline]
    fn unroll(&mut self) -> Result<Unroll> {
        if self.tokens.accept("vectorize")? {
            let token = self.tokens.token;
            let number = NonZeroU32::new(self.tokens.number()?);
            return number
                .map(Unroll::Vector)
                .ok_or_else(|| unexpected(token, "a positive number"));
        }
        if !self.tokens.accept("unroll")? {
            return Ok(Unroll::Keep);
        }
        if self.tokens.accept("full")? {
            return Ok(Unroll::Full);
        }
        let token = self.tokens.token;
        let number = NonZeroU32::new(self.tokens.number()?);
        number.map(Unroll::By).ok_or_else(|| unexpected(token, "`full` or a positive number"))
    }

    #[inline]
    fn loop_(&mut self, head: Head<'t>) -> Result<Opened> {
        let label = self.label()?;
        let mut args = Args::new();
        let init = self.carried(&mut args)?;
        self.loop_body(head, label, args, |body| Control::Loop { init: init.clone(), body })
    }

    #[inline]
    fn label(&mut self) -> Result<Option<Token<'t>>> {
        let labelled = self.tokens.token.kind == Kind::Symbol;
        labelled.then(|| self.tokens.symbol()).transpose()
    }

    /// Parses carried values. Appends the arguments to `args` and returns the initial values.
    #[inline]
    fn carried(&mut self, args: &mut Args<'t>) -> Result<ValueList> {
        let mut init = ValueList::new();
        if self.tokens.accept("iter")? {
            self.in_parentheses(|parser| {
                let name = parser.tokens.value()?;
                let arg = (name, parser.declare_value(name)?);
                parser.tokens.expect(":", "`:`")?;
                args.push((arg, parser.tokens.ty()?));
                parser.tokens.expect("=", "`=`")?;
                init.push(parser.operand()?);
                Ok(())
            })?;
        }
        Ok(init)
    }

    /// Parses a loop's result types and `{`, and adds the loop.
    fn loop_body(
        &mut self,
        head: Head<'t>,
        label: Option<Token<'t>>,
        args: Args<'t>,
        control: impl Fn(RegionId) -> Control,
    ) -> Result<Opened> {
        let types = self.types()?;
        let op = self.add(&head, control(self.ir.body).into(), &types)?;
        if let Some(label) = label {
            self.symbols.declare_loop(label, op)?;
        }
        self.tokens.expect("{", "`{`")?;
        let body = self.new_region(op);
        for (i, ((name, value), ty)) in args.into_iter().enumerate() {
            self.define_value(value, ty, ValueDef::Arg(body, i as u32), body, name);
            self.ir.regions[body].args.push(value);
        }
        self.ir.ops[op].op = control(body).into();
        Ok(Some(Open { region: body, then_of: None }))
    }
}

/// Parses a token as a constant of type `scalar`.
#[inline]
fn literal_of(token: Token<'_>, scalar: Scalar) -> Result<Const> {
    literal::parse(scalar, token.text).ok_or_else(|| {
        token.fail(ParseErrorKind::InvalidConstant { text: token.text.to_owned(), scalar })
    })
}

/// A region's arguments, with their names and types.
type Args<'t> = SmallVec<[((Token<'t>, Value), Type); 4]>;

fn bad_attribute(info: &'static OpInfo, position: usize, attributes: &[Token<'_>]) -> Failure {
    let (attribute, ty) = info.attributes[position];
    let token = attributes[position];
    if token.kind == Kind::Symbol
        && matches!(ty, "VarId" | "SharedId" | "LocalId" | "ArrayId" | "GlobalId")
    {
        return undefined(token.text, token.span);
    }
    let text = token.text.to_owned();
    token.fail(ParseErrorKind::InvalidAttribute { op: info.name, attribute, ty, text })
}
