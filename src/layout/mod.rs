//! The layout algebra.
