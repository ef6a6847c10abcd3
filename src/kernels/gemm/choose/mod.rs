//! Chooses a configuration when nothing has been measured: lists candidates for a problem and ranks
//! them with a cost model of the GPU. `GemmConfig::best` is the first of that ranking, `explain`
//! shows what the model predicts for each.

pub(crate) mod candidates;
pub(crate) mod explain;
pub(crate) mod machine;
pub(crate) mod model;
pub(crate) mod parameters;
pub(crate) mod prediction;
pub(crate) mod regime;
pub(crate) mod traffic;
