//! Texts that name lines of a test.

/// The text with `FILE:LINE` for each place of the file. Lines and columns move when the file is edited: that
/// a place is named is checked, not which.
pub(crate) fn without_places(text: &str, file: &str) -> String {
    let file = format!("{file}:");
    let mut parts = text.split(file.as_str());
    let mut without = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(part.len());
        // The place at the start of a line is followed by a colon and a space.
        let colon = if part[..end].ends_with(':') { ":" } else { "" };
        without += &format!("FILE:LINE{colon}{}", &part[end..]);
    }
    without
}
