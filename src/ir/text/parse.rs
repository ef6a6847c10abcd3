//! The first half of the text form's parser: the kernel header, names, types, and the token cursor.
//! `region.rs` parses statements.

use std::collections::HashMap;
use std::str::FromStr;

use super::error::{ParseError, ParseErrorKind};
use super::lex::{Failure, Kind, Lexer, Span, Token};
use crate::ir::bounds::{ClusterShape, LaunchBounds};
use crate::ir::entity::{
    ArrayId, GlobalId, LocalId, LocationId, OpId, RegionId, SharedId, Value, VarId,
};
use crate::ir::kernel::{KernelIr, Param, SourceLocation, ValueData, ValueDef};
use crate::ir::op::Names;
use crate::ir::target::Target;
use crate::ir::types::{Scalar, Type};
use crate::ir::vector::VectorType;

pub(super) type Result<T> = std::result::Result<T, Failure>;

/// Parses one kernel in the text form, for example a file that you printed or wrote by hand. The
/// kernel is not verified; pass it to [`Kernel::verify`](crate::ir::Kernel::verify).
///
/// `file` becomes the file name in the kernel's source locations. Like the file name in Rust's own
/// locations it is `'static`. If you embed the text in your program, pass a literal; if you read
/// files at run time, leak one name per file.
///
/// ```
/// use tilewright::ir::{Kernel, parse};
///
/// let ir = parse("twice.kir", "
///     kernel @twice target sm_80 (%x: ptr<global, mut f32>) {
///       %i = sreg<tid.x> : i32
///       %v = ld %x, %i : f32
///       %sum = add %v, %v : f32
///       st %x, %i, %sum
///       return
///     }
/// ")?;
/// assert_eq!(ir.to_string().parse(), Ok(ir.clone()));
/// let kernel = Kernel::verify(ir)?;
/// assert_eq!(kernel.name(), "twice");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the first position that does not parse.
#[inline]
pub fn parse(file: &'static str, text: &str) -> std::result::Result<KernelIr, ParseError> {
    read(text, |tokens| {
        let kernel = KernelParser::kernel(tokens, file)?;
        let end = tokens.token;
        if end.kind == Kind::End { Ok(kernel) } else { Err(unexpected(end, "the end of the text")) }
    })
}

/// Parses any number of kernels in the text form, for a file with several of them. They are not
/// verified; see [`parse`] for `file`.
///
/// # Errors
/// Returns the first position that does not parse.
#[inline]
pub fn parse_kernels(
    file: &'static str,
    text: &str,
) -> std::result::Result<Vec<KernelIr>, ParseError> {
    read(text, |tokens| {
        let mut kernels = Vec::new();
        while tokens.token.kind != Kind::End {
            kernels.push(KernelParser::kernel(tokens, file)?);
        }
        Ok(kernels)
    })
}

/// Parses one kernel, with `<text>` as the file name in its source locations. See [`parse`].
impl FromStr for KernelIr {
    type Err = ParseError;

    #[inline]
    fn from_str(text: &str) -> std::result::Result<KernelIr, ParseError> {
        parse("<text>", text)
    }
}

fn read<T>(
    text: &str,
    f: impl for<'t> FnOnce(&mut Tokens<'t>) -> Result<T>,
) -> std::result::Result<T, ParseError> {
    let located = |Failure { span, kind }| ParseError::new(text, span, kind);
    if text.len() > KernelIr::MAX_TEXT_BYTES {
        let kind = ParseErrorKind::TooLong { bytes: text.len(), limit: KernelIr::MAX_TEXT_BYTES };
        return Err(ParseError::new("", Span { start: 0, end: 0 }, kind));
    }
    Tokens::new(text).and_then(|mut tokens| f(&mut tokens)).map_err(located)
}

/// Creates the error for a token other than the expected one.
pub(super) fn unexpected(token: Token<'_>, expected: &'static str) -> Failure {
    token.fail(ParseErrorKind::Unexpected { expected, found: token.name() })
}

/// A text with a token cursor.
pub(super) struct Tokens<'t> {
    lexer: Lexer<'t>,
    /// The current token.
    pub(super) token: Token<'t>,
}

impl<'t> Tokens<'t> {
    #[inline]
    fn new(text: &'t str) -> Result<Tokens<'t>> {
        let mut lexer = Lexer::new(text);
        let token = lexer.next()?;
        Ok(Tokens { lexer, token })
    }

    /// Takes the current token.
    #[inline]
    pub(super) fn take(&mut self) -> Result<Token<'t>> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    /// Returns whether the current token is this mark or word.
    pub(super) fn is(&self, text: &str) -> bool {
        matches!(self.token.kind, Kind::Mark | Kind::Word) && self.token.text == text
    }

    /// Takes the current token if it is this mark or word.
    #[inline]
    pub(super) fn accept(&mut self, text: &str) -> Result<bool> {
        let is = self.is(text);
        if is {
            self.take()?;
        }
        Ok(is)
    }

    /// Takes this mark or word, or fails. `quoted` is its name in the error.
    #[inline]
    pub(super) fn expect(&mut self, text: &str, quoted: &'static str) -> Result<()> {
        if self.accept(text)? { Ok(()) } else { Err(unexpected(self.token, quoted)) }
    }

    #[inline]
    pub(super) fn expect_kind(&mut self, kind: Kind, what: &'static str) -> Result<Token<'t>> {
        if self.token.kind == kind { self.take() } else { Err(unexpected(self.token, what)) }
    }

    #[inline]
    pub(super) fn symbol(&mut self) -> Result<Token<'t>> {
        self.expect_kind(Kind::Symbol, "a name with `@`")
    }

    #[inline]
    pub(super) fn value(&mut self) -> Result<Token<'t>> {
        self.expect_kind(Kind::Value, "a value")
    }

    #[inline]
    pub(super) fn number(&mut self) -> Result<u32> {
        let token = self.expect_kind(Kind::Number, "a number")?;
        let digits = token.text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| token.text.parse().ok()).flatten().ok_or_else(|| {
            token.fail(ParseErrorKind::InvalidNumber { text: token.text.to_owned() })
        })
    }

    /// Parses `number "x" number "x" number`.
    #[inline]
    fn extent(&mut self) -> Result<[u32; 3]> {
        let x = self.number()?;
        self.expect("x", "`x`")?;
        let y = self.number()?;
        self.expect("x", "`x`")?;
        Ok([x, y, self.number()?])
    }

    /// Parses an item after `word`, if the current token is `word`.
    fn after<T>(
        &mut self,
        word: &str,
        item: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        if self.accept(word)? { item(self).map(Some) } else { Ok(None) }
    }

    #[inline]
    fn bounds(&mut self) -> Result<LaunchBounds> {
        Ok(LaunchBounds {
            block: self.after("block", Self::extent)?,
            max_threads: self.after("max_threads", Self::number)?,
            min_blocks_per_sm: self.after("min_blocks_per_sm", Self::number)?,
            max_registers: self.after("max_registers", Self::number)?,
            cluster: self.after("cluster", |tokens| match tokens.accept("at_launch")? {
                true => Ok(ClusterShape::AtLaunch),
                false => tokens.extent().map(ClusterShape::Fixed),
            })?,
        })
    }

    #[inline]
    pub(super) fn target(&mut self) -> Result<Target> {
        let target = self.expect_kind(Kind::Word, "a target")?;
        Target::from_str(target.text)
            .map_err(|error| target.fail(ParseErrorKind::InvalidTarget(error)))
    }

    #[inline]
    pub(super) fn scalar(&mut self) -> Result<Scalar> {
        let token = self.expect_kind(Kind::Word, "a type")?;
        token
            .text
            .parse()
            .map_err(|_| token.fail(ParseErrorKind::UnknownType { name: token.text.to_owned() }))
    }

    #[inline]
    pub(super) fn ty(&mut self) -> Result<Type> {
        if let Ok(vector) = self.token.text.parse::<VectorType>()
            && self.token.kind == Kind::Word
        {
            self.take()?;
            return Ok(vector.into());
        }
        if self.accept("tensor_map")? {
            return self.tensor_map();
        }
        if !self.accept("ptr")? {
            return self.scalar().map(Type::from);
        }
        self.expect("<", "`<`")?;
        let token = self.expect_kind(Kind::Word, "a state space")?;
        let space = token.text.parse().map_err(|_| {
            token.fail(ParseErrorKind::UnknownSpace { name: token.text.to_owned() })
        })?;
        self.expect(",", "`,`")?;
        let mutable = self.accept("mut")?;
        let elem = self.scalar()?;
        self.expect(">", "`>`")?;
        Ok(Type::Pointer { space, elem, mutable })
    }
}

impl Tokens<'_> {
    /// Parses a tensor map type after its keyword.
    #[inline]
    fn tensor_map(&mut self) -> Result<Type> {
        self.expect("<", "`<`")?;
        let mutable = self.accept("mut")?;
        let elem = self.scalar()?;
        self.expect(",", "`,`")?;
        let token = self.token;
        let text = token.text;
        let rank = self.number()?.try_into();
        let invalid = |_| token.fail(ParseErrorKind::InvalidNumber { text: text.to_owned() });
        let rank = rank.map_err(invalid)?;
        self.expect(">", "`>`")?;
        Ok(Type::TensorMap { elem, rank, mutable })
    }
}

/// A value that has been named in the text.
struct Named {
    value: Value,
    /// The line of its definition, once parsed.
    defined: Option<u32>,
    /// The span of its first use.
    span: Span,
}

/// The names of variables, allocations and loops, without `@`, with the lines of their
/// declarations.
#[derive(Default)]
pub(super) struct Symbols<'t> {
    vars: HashMap<&'t str, (VarId, u32)>,
    shared: HashMap<&'t str, (SharedId, u32)>,
    locals: HashMap<&'t str, (LocalId, u32)>,
    arrays: HashMap<&'t str, (ArrayId, u32)>,
    globals: HashMap<&'t str, (GlobalId, u32)>,
    loops: HashMap<&'t str, (OpId, u32)>,
}

impl Names for Symbols<'_> {
    fn var(&self, name: &str) -> Option<VarId> {
        self.vars.get(name).map(|(id, _)| *id)
    }

    fn shared(&self, name: &str) -> Option<SharedId> {
        self.shared.get(name).map(|(id, _)| *id)
    }

    fn local(&self, name: &str) -> Option<LocalId> {
        self.locals.get(name).map(|(id, _)| *id)
    }

    fn array(&self, name: &str) -> Option<ArrayId> {
        self.arrays.get(name).map(|(id, _)| *id)
    }

    fn global(&self, name: &str) -> Option<GlobalId> {
        self.globals.get(name).map(|(id, _)| *id)
    }
}

fn repeated(token: Token<'_>, first_line: u32) -> Failure {
    token.fail(ParseErrorKind::RepeatedName { name: token.text.to_owned(), first_line })
}

fn declare<'t, K>(
    names: &mut HashMap<&'t str, (K, u32)>,
    symbol: Token<'t>,
    entity: K,
) -> Result<()> {
    match names.insert(&symbol.text[1..], (entity, symbol.line)) {
        Some((_, first_line)) => Err(repeated(symbol, first_line)),
        None => Ok(()),
    }
}

impl<'t> Symbols<'t> {
    pub(super) fn declare_var(&mut self, symbol: Token<'t>, var: VarId) -> Result<()> {
        declare(&mut self.vars, symbol, var)
    }

    pub(super) fn declare_shared(&mut self, symbol: Token<'t>, shared: SharedId) -> Result<()> {
        declare(&mut self.shared, symbol, shared)
    }

    pub(super) fn declare_local(&mut self, symbol: Token<'t>, local: LocalId) -> Result<()> {
        declare(&mut self.locals, symbol, local)
    }

    pub(super) fn declare_array(&mut self, symbol: Token<'t>, array: ArrayId) -> Result<()> {
        declare(&mut self.arrays, symbol, array)
    }

    pub(super) fn declare_global(&mut self, symbol: Token<'t>, global: GlobalId) -> Result<()> {
        declare(&mut self.globals, symbol, global)
    }

    pub(super) fn declare_loop(&mut self, symbol: Token<'t>, op: OpId) -> Result<()> {
        declare(&mut self.loops, symbol, op)
    }

    pub(super) fn find_loop(&self, symbol: Token<'t>) -> Result<OpId> {
        let found = self.loops.get(&symbol.text[1..]).map(|(op, _)| *op);
        found.ok_or_else(|| undefined(symbol.text, symbol.span))
    }
}

pub(super) fn undefined(name: &str, span: Span) -> Failure {
    Failure { span, kind: ParseErrorKind::UndefinedName { name: name.to_owned() } }
}

/// The state for the kernel that is being parsed.
pub(super) struct KernelParser<'p, 't> {
    pub(super) tokens: &'p mut Tokens<'t>,
    pub(super) ir: KernelIr,
    pub(super) symbols: Symbols<'t>,
    values: HashMap<&'t str, Named>,
    /// Whether some value was used above its definition.
    named_early: bool,
    file: &'static str,
}

impl<'p, 't> KernelParser<'p, 't> {
    /// Parses the kernel at the cursor.
    #[inline]
    fn kernel(tokens: &'p mut Tokens<'t>, file: &'static str) -> Result<KernelIr> {
        tokens.expect("kernel", "`kernel`")?;
        let name = tokens.symbol()?.text[1..].to_owned();
        tokens.expect("target", "`target`")?;
        let target = tokens.target()?;
        let mut ir = KernelIr::new(name, target);
        ir.bounds = tokens.bounds()?;
        let (symbols, values) = (Symbols::default(), HashMap::new());
        let mut parser = KernelParser { tokens, ir, symbols, values, named_early: false, file };
        parser.in_parentheses(Self::param)?;
        parser.tokens.expect("{", "`{`")?;
        parser.body()?;
        // Report the first use in the text, so that the error does not depend on hash map order.
        let undefined_values = parser.values.iter().filter(|(_, named)| named.defined.is_none());
        match undefined_values.min_by_key(|(_, named)| named.span.start) {
            Some((name, named)) => Err(undefined(name, named.span)),
            // Values were numbered by first mention, so renumber them by definition.
            None if parser.named_early => Ok(parser.ir.canonical()),
            None => Ok(parser.ir),
        }
    }

    #[inline]
    fn param(&mut self) -> Result<()> {
        let name = self.tokens.value()?;
        if name.text[1..].starts_with(|c: char| c.is_ascii_digit()) {
            // PTX uses parameter names too. Also, a numeric name could clash with another value's
            // number when the kernel is printed.
            return Err(name.fail(ParseErrorKind::InvalidParamName { text: name.text.to_owned() }));
        }
        self.tokens.expect(":", "`:`")?;
        let ty = self.tokens.ty()?;
        let def = ValueDef::Param(self.ir.params.len() as u32);
        let value = self.declare_value(name)?;
        self.define_value(value, ty, def, self.ir.body, name);
        self.ir.params.push(Param { name: name.text[1..].to_owned(), value });
        Ok(())
    }

    /// Parses any number of items in parentheses, separated by commas.
    pub(super) fn in_parentheses(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.tokens.expect("(", "`(`")?;
        if self.tokens.accept(")")? {
            return Ok(());
        }
        loop {
            item(self)?;
            if self.tokens.accept(")")? {
                return Ok(());
            }
            self.tokens.expect(",", "`,` or `)`")?;
        }
    }

    /// Returns the source location of a token.
    pub(super) fn location(&mut self, token: Token<'t>) -> LocationId {
        self.ir.location(SourceLocation { file: self.file, line: token.line, column: token.column })
    }

    /// Returns the value of this name, for a use of it.
    pub(super) fn use_value(&mut self, token: Token<'t>) -> Value {
        let Named { value, defined, .. } = *self.named(token);
        self.named_early |= defined.is_none();
        value
    }

    /// Returns the value of this name, for its definition. Fails if it is already defined.
    pub(super) fn declare_value(&mut self, token: Token<'t>) -> Result<Value> {
        let named = self.named(token);
        match named.defined.replace(token.line) {
            Some(first_line) => Err(repeated(token, first_line)),
            None => Ok(named.value),
        }
    }

    /// Sets a declared value's type and definition. `token` gives its source location.
    pub(super) fn define_value(
        &mut self,
        value: Value,
        ty: Type,
        def: ValueDef,
        region: RegionId,
        token: Token<'t>,
    ) {
        let location = self.location(token);
        self.ir.values[value] = ValueData { ty, def, region, location };
    }

    fn named(&mut self, token: Token<'t>) -> &mut Named {
        let KernelParser { ir, values, file, .. } = self;
        values.entry(token.text).or_insert_with(|| {
            // A placeholder; the definition may follow later.
            let location =
                ir.location(SourceLocation { file, line: token.line, column: token.column });
            let (def, region) = (ValueDef::Param(u32::MAX), ir.body);
            let value = ir.values.push(ValueData { ty: Type::BOOL, def, region, location });
            Named { value, defined: None, span: token.span }
        })
    }
}
