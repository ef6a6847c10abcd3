//! Charts of the evidence: each is drawn from the table of its section in `docs/evidence/gpu.md`.
//! With `TILEWRIGHT_BLESS=1` they are drawn anew.

use tilewright_tune::{Chart, Series, SeriesStyle};

use super::{read, root};

/// A chart of some columns of a section's table. The first series is the one with labels.
struct Figure<'a> {
    file: &'a str,
    section: &'a str,
    title: &'a str,
    quantity: &'a str,
    /// The titles of the columns, one for each series.
    columns: &'a [&'a str],
    /// The name of a line at 1 across the bars, if the figures are shares.
    bound: Option<&'a str>,
}

const NOTE: &str = "NVIDIA H200; method, dates and driver: docs/evidence/gpu.md";

const FIGURES: [Figure<'_>; 3] = [
    Figure {
        file: "docs/images/attention.svg",
        section: "Attention forward",
        title: "Attention beside cuDNN, bf16: batch x heads x length x dimension",
        quantity: "TFLOP/s",
        columns: &["full, ours", "full, cuDNN", "causal, ours", "causal, cuDNN"],
        bound: None,
    },
    Figure {
        file: "docs/images/rows.svg",
        section: "Softmax and norms",
        title: "Softmax and norms, bf16: rows x columns",
        quantity: "share of a copy's bandwidth",
        columns: &["softmax", "RMSNorm", "LayerNorm", "RMSNorm with residual"],
        bound: Some("copy"),
    },
    Figure {
        file: "docs/images/reductions.svg",
        section: "Reductions",
        title: "Reductions, bf16: rows x columns",
        quantity: "share of a read's bandwidth",
        columns: &["sum", "argmax", "sum of columns", "top 8"],
        bound: Some("read"),
    },
];

/// The cells of the first table behind a section's title, row by row. The first row has the titles
/// of the columns.
fn table<'t>(evidence: &'t str, section: &str) -> Vec<Vec<&'t str>> {
    let title = format!("\n## {section}\n");
    let text = evidence.split_once(&title).expect("the evidence has the section").1;
    let rows = text.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The figure of a cell: the share in brackets, such as 0.97 in `10.2 (0.97)`, or else the first
/// number. A cell with a † is no figure, because its baseline is another one.
fn value(cell: &str) -> Option<f64> {
    if cell.contains('†') {
        return None;
    }
    let share = cell.split_once('(').and_then(|(_, rest)| rest.split(')').next());
    share.or(cell.split(' ').next())?.parse().ok()
}

/// Splits a problem into words, which a chart prints below each other: `2x16x8192x64` has the
/// lines 2x16, x8192 and x64.
fn category(problem: &str) -> String {
    let modes: Vec<&str> = problem.split('x').collect();
    let lines = modes.iter().enumerate().map(|(at, mode)| match at {
        0 => (*mode).to_owned(),
        1 if modes.len() > 2 => format!("x{mode}"),
        _ => format!(" x{mode}"),
    });
    lines.collect()
}

fn chart(figure: &Figure<'_>, evidence: &str) -> Chart {
    let rows = table(evidence, figure.section);
    let column = |title: &&str| {
        let found = rows[0].iter().position(|cell| cell == title);
        found.unwrap_or_else(|| panic!("{} has no column {title}", figure.section))
    };
    let columns: Vec<usize> = figure.columns.iter().map(column).collect();
    // Rows of another type or kernel are named by words, and rows without a figure are left out.
    let is_drawn = |row: &&Vec<&str>| {
        row[0].starts_with(|c: char| c.is_ascii_digit())
            && columns.iter().all(|column| value(row[*column]).is_some())
    };
    let drawn: Vec<&Vec<&str>> = rows[2..].iter().filter(is_drawn).collect();
    let mut series: Vec<Series> = Vec::new();
    for (name, column) in figure.columns.iter().zip(columns) {
        let values = drawn.iter().map(|row| value(row[column])).collect();
        let style = if series.is_empty() { SeriesStyle::Main } else { SeriesStyle::Bar };
        series.push(Series::new(*name, values).style(style));
    }
    if let Some(name) = figure.bound {
        series.push(Series::new(name, vec![Some(1.0); drawn.len()]).style(SeriesStyle::Bound));
    }
    Chart {
        title: figure.title.into(),
        note: NOTE.into(),
        quantity: figure.quantity.into(),
        categories: drawn.iter().map(|row| category(row[0])).collect(),
        series,
    }
}

#[test]
fn charts_are_those_of_the_tables() {
    let evidence = read("docs/evidence/gpu.md");
    for figure in &FIGURES {
        let chart = chart(figure, &evidence);
        assert!(chart.categories.len() >= 4, "{}: {:?}", figure.file, chart.categories);
        if std::env::var_os("TILEWRIGHT_BLESS").is_some() {
            std::fs::write(root().join(figure.file), chart.svg()).expect("it is written");
        }
        let same = read(figure.file) == chart.svg();
        assert!(same, "{} is not the chart of its table: TILEWRIGHT_BLESS=1", figure.file);
        let shown = format!("](../{})", figure.file.trim_start_matches("docs/"));
        assert!(evidence.contains(&shown), "docs/evidence/gpu.md does not show {}", figure.file);
    }
}

#[test]
fn cells_of_tables_are_read() {
    let read = ["10.29 (0.961)", "7.04 (0.766), `8x32`", "434.2", "0.97 †", "", "none"].map(value);
    assert_eq!(read, [Some(0.961), Some(0.766), Some(434.2), None, None, None]);
    assert_eq!(category("4x32/8x4096x128"), "4x32/8 x4096 x128");
    assert_eq!(category("8192x1024"), "8192 x1024");
    let text =
        "# T\n\n## A\n\n| x |\n\n## B\n\nText.\n\n| n | y |\n|---|---|\n| 1 | 2 |\n\n| z |\n";
    assert_eq!(table(text, "B"), [vec!["n", "y"], vec!["---", "---"], vec!["1", "2"]]);
}
