//! The lexer of the text form: splits a kernel's text into tokens with positions.

use super::error::ParseErrorKind;

/// A range of bytes in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// A parse error before the text is attached.
pub(super) struct Failure {
    pub(super) span: Span,
    pub(super) kind: ParseErrorKind,
}

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A letter, then letters, digits, `_`, `.`, and `::` if a letter or digit follows.
    Word,
    /// Starts with a digit or `-`, or is `nan:0x..`.
    Number,
    /// `%name`
    Value,
    /// `@name`
    Symbol,
    /// A quoted text on one line.
    Text,
    /// One of `= , : < > ( ) { }`.
    Mark,
    /// The end of the text.
    End,
}

/// A token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'t> {
    pub(super) kind: Kind,
    pub(super) text: &'t str,
    pub(super) span: Span,
    /// The line, from 1.
    pub(super) line: u32,
    /// The column in bytes, from 1. This equals the column in characters wherever a statement can
    /// start, because only comments and quoted texts contain wider characters.
    pub(super) column: u32,
    /// Whether this is the first token on its line.
    pub(super) first: bool,
}

impl Token<'_> {
    /// Returns the token as an error message names it.
    pub(super) fn name(&self) -> String {
        match self.kind {
            Kind::End => "the end of the text".to_owned(),
            _ => format!("`{}`", self.text),
        }
    }

    pub(super) fn fail(&self, kind: ParseErrorKind) -> Failure {
        Failure { span: self.span, kind }
    }
}

/// Produces the tokens of a text, one after the other.
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
    line: u32,
    line_start: usize,
    first: bool,
    /// Where the last token ended.
    last: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Lexer<'t> {
        Lexer { text, at: 0, line: 1, line_start: 0, first: true, last: 0 }
    }

    /// Returns the next token. At the end of the text, it returns the end token again and again,
    /// positioned right after the last token, where something is missing.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Token<'t>, Failure> {
        self.skip_space();
        let start = self.at;
        let bytes = self.text.as_bytes();
        let Some(&byte) = bytes.get(start) else {
            let span = Span { start: self.last, end: self.last };
            return Ok(Token { span, ..self.token(Kind::End, start) });
        };
        let kind = match byte {
            b'=' | b',' | b':' | b'<' | b'>' | b'(' | b')' | b'{' | b'}' => {
                self.at += 1;
                Kind::Mark
            }
            b'%' | b'@' => {
                self.at += 1;
                self.skip(|b| b.is_ascii_alphanumeric() || b == b'_');
                let name = &bytes[start + 1..self.at];
                let number = byte == b'%' && name.iter().all(u8::is_ascii_digit);
                if name.is_empty() || !(name[0].is_ascii_alphabetic() || number) {
                    let text = self.text[start..self.at].to_owned();
                    let span = Span { start, end: self.at };
                    return Err(Failure { span, kind: ParseErrorKind::InvalidName { text } });
                }
                if byte == b'%' { Kind::Value } else { Kind::Symbol }
            }
            b'"' => self.quoted()?,
            b'-' | b'0'..=b'9' => self.number(),
            _ if self.text[start..].starts_with("nan:") => {
                self.at += "nan:".len();
                self.skip(|b| b.is_ascii_alphanumeric());
                Kind::Number
            }
            _ if byte.is_ascii_alphabetic() => {
                let in_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'.';
                self.skip(in_word);
                // For example `L1::evict_last`.
                while let [b':', b':', next, ..] = bytes[self.at..]
                    && next.is_ascii_alphanumeric()
                {
                    self.at += 2;
                    self.skip(in_word);
                }
                Kind::Word
            }
            _ => {
                let character = self.text[start..].chars().next().unwrap_or_default();
                let span = Span { start, end: start + character.len_utf8() };
                return Err(Failure { span, kind: ParseErrorKind::UnknownCharacter { character } });
            }
        };
        Ok(self.token(kind, start))
    }

    /// Lexes a quoted text. It ends at the first quote without a backslash before it.
    fn quoted(&mut self) -> Result<Kind, Failure> {
        let start = self.at;
        self.at += 1;
        loop {
            self.skip(|b| !matches!(b, b'"' | b'\\' | b'\n'));
            match self.text.as_bytes().get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Kind::Text);
                }
                Some(b'\\')
                    if self.text.as_bytes().get(self.at + 1).is_some_and(|b| *b != b'\n') =>
                {
                    self.at += 1;
                    self.at += self.text[self.at..].chars().next().map_or(0, char::len_utf8);
                }
                _ => {
                    let span = Span { start, end: start + 1 };
                    return Err(Failure { span, kind: ParseErrorKind::UnclosedText });
                }
            }
        }
    }

    fn token(&mut self, kind: Kind, start: usize) -> Token<'t> {
        let first = std::mem::take(&mut self.first);
        if kind != Kind::End {
            self.last = self.at;
        }
        Token {
            kind,
            text: &self.text[start..self.at],
            span: Span { start, end: self.at },
            line: self.line,
            column: (start - self.line_start) as u32 + 1,
            first,
        }
    }

    /// Lexes a number. A sign is part of it at the start and after the `e` of an exponent.
    fn number(&mut self) -> Kind {
        let bytes = self.text.as_bytes();
        let start = self.at;
        self.at += 1;
        loop {
            self.skip(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'_');
            let sign = matches!(bytes.get(self.at), Some(b'+' | b'-'));
            let exponent = matches!(bytes[self.at - 1], b'e' | b'E');
            let hexadecimal = self.text[start..].trim_start_matches('-').starts_with("0x");
            if !(sign && exponent && !hexadecimal) {
                return Kind::Number;
            }
            self.at += 1;
        }
    }

    fn skip(&mut self, belongs: impl Fn(u8) -> bool) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|b| !belongs(*b)).unwrap_or(rest.len());
    }

    /// Skips white space and comments.
    fn skip_space(&mut self) {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'\n' => {
                    self.at += 1;
                    self.line += 1;
                    self.line_start = self.at;
                    self.first = true;
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                b';' => self.skip(|b| b != b'\n'),
                _ => return,
            }
        }
    }
}
