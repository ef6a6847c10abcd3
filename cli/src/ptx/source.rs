//! The lines that a PTX text was written for.

use std::collections::HashMap;

use tilewright::codegen::location_in_comments;
use tilewright::ir::SourceLocation;

/// The locations of kernels, by how comments name them, and the files with these locations.
pub(super) struct Sources {
    /// `None` for a comment that may mean several files.
    locations: HashMap<String, Option<SourceLocation>>,
    /// The lines of each source file; none for an unreadable file.
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

    /// Adds a file that was read.
    pub(super) fn insert(&mut self, file: &'static str, text: &str) {
        self.files.insert(file, text.lines().map(str::to_owned).collect());
    }

    /// The text, with the line that it was written for beside each comment that names one.
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

    /// The line that a comment names. A file is looked for as rustc was given it, which is from the root of its
    /// package.
    fn line(&mut self, name: &str) -> Option<&str> {
        let location = self.locations.get(name).copied().flatten()?;
        if !self.files.contains_key(location.file) {
            self.insert(location.file, &std::fs::read_to_string(location.file).unwrap_or_default());
        }
        let lines = self.files.get(location.file)?;
        lines.get((location.line as usize).checked_sub(1)?).map(String::as_str)
    }
}
