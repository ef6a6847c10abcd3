//! Finds the source lines that produced a PTX text.

use std::collections::HashMap;

use tilewright::codegen::location_in_comments;
use tilewright::ir::SourceLocation;

/// Source locations, by the names that PTX comments use for them, and the files that they are in.
pub(super) struct Sources {
    /// `None` for a name that may mean several files.
    locations: HashMap<String, Option<SourceLocation>>,
    /// Each source file's lines; empty if it cannot be read.
    files: HashMap<&'static str, Vec<String>>,
}

impl Sources {
    pub(super) fn new(all: impl Iterator<Item = SourceLocation>) -> Sources {
        let mut locations: HashMap<String, Option<SourceLocation>> = HashMap::new();
        for location in all {
            let known = locations.entry(location_in_comments(location)).or_insert(Some(location));
            if known.is_some_and(|known| known.file != location.file) {
                *known = None;
            }
        }
        Sources { locations, files: HashMap::new() }
    }

    /// Adds a file that was already read.
    pub(super) fn insert(&mut self, file: &'static str, text: &str) {
        self.files.insert(file, text.lines().map(str::to_owned).collect());
    }

    /// Returns the text, with the source line added to each comment that names one.
    pub(super) fn annotated(&mut self, ptx: &str) -> String {
        let mut out = String::with_capacity(2 * ptx.len());
        for line in ptx.lines() {
            out.push_str(line);
            if let Some(written) = line.trim().strip_prefix("// ").and_then(|name| self.line(name))
            {
                out.push_str("    ");
                out.push_str(written.trim());
            }
            out.push('\n');
        }
        out
    }

    /// Returns the source line that a comment names. rustc stores file names relative to the
    /// package root, so that is where the file is looked for.
    fn line(&mut self, name: &str) -> Option<&str> {
        let location = self.locations.get(name).copied().flatten()?;
        if !self.files.contains_key(location.file) {
            self.insert(location.file, &std::fs::read_to_string(location.file).unwrap_or_default());
        }
        let lines = self.files.get(location.file)?;
        lines.get((location.line as usize).checked_sub(1)?).map(String::as_str)
    }
}
