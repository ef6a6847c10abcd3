//! Compares texts that name source lines of a test.

/// Replaces each location in the file by `FILE:LINE`. Lines and columns change when the file is
/// edited, so tests check that a location is named, not which one.
pub(crate) fn without_places(text: &str, file: &str) -> String {
    let file = format!("{file}:");
    let mut parts = text.split(file.as_str());
    let mut without = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(part.len());
        // A location at the start of a line is followed by a colon and a space.
        let colon = if part[..end].ends_with(':') { ":" } else { "" };
        without += &format!("FILE:LINE{colon}{}", &part[end..]);
    }
    without
}
