//! Writes a picture as LaTeX: TikZ in the document class `standalone`. `Drawing::latex` calls it.

use std::fmt::Write;

use super::palette::{Colour, FAINT, INK};
use super::picture::{Item, Picture, Rect, Style, lettering};

/// Escapes all characters that mean something in TeX and drops control characters. TeX itself
/// handles characters beyond ASCII.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '#' | '$' | '%' | '&' | '_' | '{' | '}' => {
                out.push('\\');
                out.push(c);
            }
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '<' => out.push_str("\\textless{}"),
            '>' => out.push_str("\\textgreater{}"),
            '|' => out.push_str("\\textbar{}"),
            '"' => out.push_str("\\textquotedbl{}"),
            '-' => out.push_str("{-}"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// Writes a line. Writing to a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($format:tt)*) => { let _ = writeln!($out, $($format)*); };
}

/// Fills a rectangle.
fn ground(out: &mut String, at: &Rect, colour: Colour) {
    put!(out, "\\ground{{{}}}{{{}}}{{{}}}{{{}}}{{{colour}}}", at.x, at.y, at.width, at.height);
}

#[inline]
pub(super) fn latex(picture: &Picture<'_>, title: &str) -> String {
    let mut out = String::new();
    // A comment ends with its line, so the title must not have line breaks.
    put!(out, "% {}", title.replace(|c: char| c.is_control(), " "));
    out.push_str(
        "\\documentclass[tikz]{standalone}\n\\usepackage[T1]{fontenc}\n\
         \\IfFileExists{lmodern.sty}{\\usepackage{lmodern}}{}\n",
    );
    let mut colours: Vec<Colour> = picture
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Ground { colour, .. } | Item::Cell { colour, .. } => Some(*colour),
            Item::Text { .. } => None,
        })
        .chain([INK, FAINT])
        .collect();
    colours.sort_unstable();
    colours.dedup();
    for colour in &colours {
        put!(out, "\\definecolor{{c{colour}}}{{HTML}}{{{colour}}}");
    }
    // A pixel is 1/96 inch, and y runs downwards.
    out.push_str("\\newcommand\\ground[5]{\\fill[c#5] (#1,#2) rectangle ++(#3,#4);}\n");
    out.push_str(
        "\\newcommand\\lettering[5]{\\node[anchor=#3,inner sep=0pt,outer sep=0pt] at (#1,#2) {#4#5};}\n",
    );
    for (name, style) in STYLES {
        let family = if style.is_monospaced() { "\\ttfamily" } else { "\\sffamily" };
        let weight = if style == Style::Role { "\\bfseries" } else { "" };
        let (points, tenths) = (style.size() * 3 / 4, style.size() * 30 / 4 % 10);
        put!(
            out,
            "\\newcommand\\{name}{{{family}{weight}\\fontsize{{{points}.{tenths}bp}}{{12bp}}\\selectfont\\color{{c{}}}}}",
            style.colour()
        );
    }
    out.push_str("\\begin{document}\n\\begin{tikzpicture}[x=0.75bp,y=-0.75bp]\n");
    put!(out, "\\useasboundingbox (0,0) rectangle ({},{});", picture.width, picture.height);
    for item in &picture.items {
        match item {
            Item::Ground { at, colour } => ground(&mut out, at, *colour),
            Item::Text { x, y, style, text } => {
                put!(
                    out,
                    "\\lettering{{{x}}}{{{y}}}{{{}}}{{\\{}}}{{{}}}",
                    anchor(*style),
                    name(*style),
                    escaped(text)
                );
            }
            Item::Cell { at, colour, cell } => {
                ground(&mut out, at, *colour);
                let lines = cell.map(|cell| cell.label.as_slice()).unwrap_or_default();
                for (line, (style, baseline)) in lines.iter().zip(lettering(at.height, lines.len()))
                {
                    let (x, y) = (at.x + at.width / 2, at.y + baseline);
                    put!(
                        out,
                        "\\lettering{{{x}}}{{{y}}}{{base}}{{\\{}}}{{{}}}",
                        name(*style),
                        escaped(line)
                    );
                }
            }
        }
    }
    out.push_str("\\end{tikzpicture}\n\\end{document}\n");
    out
}

const STYLES: [(&str, Style); 8] = [
    ("notation", Style::Notation),
    ("role", Style::Role),
    ("note", Style::Note),
    ("slicecaption", Style::Caption),
    ("columnnumber", Style::Column),
    ("rownumber", Style::Row),
    ("celllabel", Style::Label),
    ("celldetail", Style::Detail),
];

fn name(style: Style) -> &'static str {
    STYLES.iter().find(|(_, known)| *known == style).map_or("celllabel", |(name, _)| name)
}

fn anchor(style: Style) -> &'static str {
    match style {
        Style::Notation | Style::Role | Style::Note => "base west",
        Style::Caption | Style::Column | Style::Label | Style::Detail => "base",
        Style::Row => "base east",
    }
}
