//! Into how many parts an [`AxisReduce`](super::AxisReduce) splits its axis.

use super::AxisReduceConfig;

/// If an axis is split, each thread loads at least this many rows.
const LEAST_LOADS: u32 = 4;
/// The maximum grid size along y.
const MAX_PARTS: u64 = 65_535;
/// What a block's start and the exchange of its result cost, in rows that a thread could load
/// meanwhile.
const START_LOADS: u64 = 4;

impl AxisReduceConfig {
    /// Returns into how many parts to split an axis with `chunks` column chunks, in whole clusters:
    /// the fastest choice that fills 1 to 8 waves of blocks, of which the device runs `resident` at
    /// once.
    #[inline]
    pub(super) fn parts(&self, resident: u64, chunks: u64, len: u32) -> u64 {
        let AxisReduceConfig { threads, team, cluster, .. } = *self;
        let (at_once, cluster) = (threads / team, u64::from(cluster));
        let chunks = chunks * cluster;
        // Without an exchange between clusters, the results are there sooner than more blocks could
        // read the rows.
        if cluster > 1 && 3 * chunks >= resident {
            return cluster;
        }
        let most = (u64::from(len / (LEAST_LOADS * at_once)).min(MAX_PARTS) / cluster).max(1);
        let loads = |clusters: u64| {
            u64::from(len).div_ceil(clusters * cluster * u64::from(at_once)) + START_LOADS
        };
        let time = |clusters: &u64| (chunks * clusters).div_ceil(resident) * loads(*clusters);
        let candidates = (1..=8).map(|waves| (waves * resident / chunks).clamp(1, most));
        cluster * candidates.min_by_key(time).unwrap_or(1)
    }
}
