//! Prints a scene as text, like CuTe's `print_layout`. `Drawing::text` calls it.

use super::scene::{Scene, Section, Table};

#[inline]
pub(super) fn text(scene: &Scene) -> String {
    let sections: Vec<String> = scene.sections.iter().map(section).collect();
    sections.join("\n\n")
}

#[inline]
fn section(section: &Section) -> String {
    let mut lines = Vec::new();
    match section.role.as_str() {
        "" => lines.push(section.notation.clone()),
        role => lines.push(format!("{role}  {}", section.notation)),
    }
    for table in &section.tables {
        if !table.caption.is_empty() {
            lines.push(table.caption.clone());
        }
        rows(table, section.width, &mut lines);
    }
    lines.join("\n")
}

#[inline]
fn rows(table: &Table, width: usize, lines: &mut Vec<String>) {
    let labels: Vec<String> = table
        .cells
        .iter()
        .map(|cell| cell.as_ref().map(|cell| cell.label.join(" ")).unwrap_or_default())
        .collect();
    let widest = |texts: &[String]| texts.iter().map(String::len).max().unwrap_or(0);
    let width = width.max(widest(&labels)).max(widest(&table.columns.headers));
    let margin = widest(&table.rows.headers).max(2);
    let columns = table.columns.len();

    let mut header = " ".repeat(margin + 2);
    for text in &table.columns.headers {
        header.push_str(&format!("  {text:>width$} "));
    }
    lines.push(header.trim_end().to_owned());
    let rule = format!(
        "{}{}+",
        " ".repeat(margin + 2),
        format!("+{}", "-".repeat(width + 2)).repeat(columns)
    );
    for (header, labels) in table.rows.headers.iter().zip(labels.chunks(columns.max(1))) {
        lines.push(rule.clone());
        let mut line = format!("{header:>margin$}  ");
        for text in labels {
            line.push_str(&format!("| {text:>width$} "));
        }
        line.push('|');
        lines.push(line);
    }
    lines.push(rule);
}
