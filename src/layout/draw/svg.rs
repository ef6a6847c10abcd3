//! Writes a picture as SVG 1.1, with presentation attributes only, so that every viewer and editor
//! can read it. `Drawing::svg` calls it.

use std::fmt::Write;

use super::palette::{Colour, PAPER};
use super::picture::{Item, Picture, Rect, Style, lettering};

const SANS: &str = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";
const MONO: &str = "Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace";

/// Escapes the characters that mean something in XML, and drops those that XML forbids.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') => {}
            c => out.push(c),
        }
    }
    out
}

/// Writes a line. Writing to a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($format:tt)*) => { let _ = writeln!($out, $($format)*); };
}

#[inline]
pub(super) fn svg(picture: &Picture<'_>, title: &str) -> String {
    let (width, height) = (picture.width, picture.height);
    let mut out = String::new();
    put!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">"
    );
    put!(out, "<title>{}</title>", escaped(title));
    rect(&mut out, Rect { x: 0, y: 0, width, height }, PAPER);
    put!(out, "<g font-family=\"{SANS}\">");
    texts(&mut out, picture);
    for item in &picture.items {
        if let Item::Ground { at, colour } = item {
            rect(&mut out, *at, *colour);
        }
    }
    let label = Style::Label;
    put!(
        out,
        "<g font-size=\"{}\" fill=\"#{}\" text-anchor=\"middle\">",
        label.size(),
        label.colour()
    );
    for item in &picture.items {
        let Item::Cell { at, colour, cell } = item else { continue };
        let Some(cell) = cell else {
            rect(&mut out, *at, *colour);
            continue;
        };
        let label = cell.label.join(" ");
        let _ = write!(out, "<g><title>{} -&gt; {}</title>", escaped(&cell.coord), escaped(&label));
        let _ = write!(
            out,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#{colour}\"/>",
            at.x, at.y, at.width, at.height
        );
        let lines = cell.label.iter().zip(lettering(at.height, cell.label.len()));
        for (line, (style, baseline)) in lines {
            let (x, y) = (at.x + at.width / 2, at.y + baseline);
            let size = match style {
                Style::Label => String::new(),
                style => format!(" font-size=\"{}\"", style.size()),
            };
            let _ = write!(out, "<text x=\"{x}\" y=\"{y}\"{size}>{}</text>", escaped(line));
        }
        out.push_str("</g>\n");
    }
    out.push_str("</g>\n</g>\n</svg>\n");
    out
}

fn rect(out: &mut String, at: Rect, colour: Colour) {
    put!(
        out,
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#{colour}\"/>",
        at.x,
        at.y,
        at.width,
        at.height
    );
}

/// Writes all texts except for the cell labels.
#[inline]
fn texts(out: &mut String, picture: &Picture<'_>) {
    for item in &picture.items {
        let Item::Text { x, y, style, text } = item else { continue };
        let anchor = match style {
            Style::Notation | Style::Role | Style::Note => "",
            Style::Caption | Style::Column | Style::Label | Style::Detail => {
                " text-anchor=\"middle\""
            }
            Style::Row => " text-anchor=\"end\"",
        };
        let family = match style.is_monospaced() {
            true => format!(" font-family=\"{MONO}\""),
            false => String::new(),
        };
        let weight = if *style == Style::Role { " font-weight=\"bold\"" } else { "" };
        put!(
            out,
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" fill=\"#{}\"{anchor}{family}{weight}>{}</text>",
            style.size(),
            style.colour(),
            escaped(text)
        );
    }
}
