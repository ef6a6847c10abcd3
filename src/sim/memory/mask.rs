//! Lanes of a warp, and masks with one bit for each lane. Use it wherever code loops over the
//! active lanes.

/// Threads of a warp.
pub(in crate::sim) const LANES: usize = 32;

/// All lanes of a warp.
pub(in crate::sim) const FULL: u32 = u32::MAX;

/// The bit of each lane in a mask.
pub(in crate::sim) const LANE_BIT: [u32; LANES] = {
    let mut bits = [0; LANES];
    let mut lane = 0;
    while lane < LANES {
        bits[lane] = 1 << lane;
        lane += 1;
    }
    bits
};

/// Returns the lanes whose word is all ones. Each word must be all ones or all zeros.
pub(in crate::sim) fn mask_of(words: &[u32; LANES]) -> u32 {
    words.iter().zip(&LANE_BIT).fold(0, |mask, (word, bit)| mask | (word & bit))
}

/// Iterates over the lanes of a mask, from the lowest.
pub(in crate::sim) fn lanes_of(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let lane = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        Some(lane)
    })
}
