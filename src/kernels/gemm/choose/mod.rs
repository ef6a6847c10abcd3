//! Chooses a configuration for a problem: candidates, ordered by a cost model of the machine.

pub(crate) mod candidates;
pub(crate) mod explain;
pub(crate) mod machine;
pub(crate) mod model;
pub(crate) mod parameters;
pub(crate) mod prediction;
pub(crate) mod regime;
pub(crate) mod traffic;
