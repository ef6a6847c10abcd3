//! The layout algebra.

/// Placeholder until the branch lands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutError {}
impl std::fmt::Display for LayoutError {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {}
    }
}
