//! The MMAs of a GEMM with few rows: by warps, with `mma.sync`, and by warp groups, with `wgmma`.

use crate::arch::{Major, MatrixDescriptor, SwizzleMode};
use crate::ir::op::{MatrixOrder, WgmmaForm};
use crate::ir::{Body, Element, Registers, Val, Vector};

use super::config::{MmaKind, SmallGemmConfig};
use super::kernel::{Block, X};
use super::unpack::Scales;
use super::weights::WeightFormat;

/// What all steps of a warp group share.
pub(super) struct WarpGroup<'b> {
    /// The descriptor of the warps' part of A in the first slab.
    rows: Val<'b, u64>,
    /// Two sets of accumulators for sums of a group of scales: one is summed up while the other is
    /// added to the sums of all groups.
    parts: [Registers<'b, f32>; 2],
}

/// The MMAs that are still in flight when a step ends.
#[derive(Clone, Copy)]
pub(super) struct Pending<'b> {
    /// How many groups of scales come before the next one.
    groups: u32,
    /// The last group that is complete once these MMAs are.
    last: Option<CompleteGroup<'b>>,
}

#[derive(Clone, Copy)]
struct CompleteGroup<'b> {
    tile: usize,
    part: Registers<'b, f32>,
    scales: Scales<'b>,
}

impl<'b> Block<'b> {
    /// Multiplies a step's weights by the rows of A in the slab that starts at element `slab`, with
    /// `mma.sync`.
    #[inline]
    pub(super) fn step(
        &self,
        k: &mut Body<'b, '_>,
        sums: &[Registers<'b, f32>],
        slab: Val<'b, i32>,
        step: u32,
    ) {
        let config = &self.config;
        let rows: Vec<_> = (0..config.row_tiles()).map(|tile| self.rows(k, slab, tile)).collect();
        let tiles: Vec<_> = self
            .tiles
            .iter()
            .zip(self.places(step % config.stages))
            .map(|(tile, place)| match tile.of_column {
                Some(scales) => (self.load_weights(place), vec![scales]),
                None => (self.load_weights(place), self.load_scales(place)),
            })
            .collect();
        let mut parts: Vec<Registers<'b, f32>> = Vec::new();
        // A load of A has the operands of two MMAs.
        for pair in 0..config.weights.step() / 32 {
            let group_len = config.weights.group_len();
            if group_len.is_some_and(|len| (32 * pair).is_multiple_of(len)) {
                parts = sums.iter().map(|_| self.accumulators(k)).collect();
                parts.iter().for_each(|parts| parts.fill(0.0));
            }
            let operands = rows.iter().map(|row| self.load_rows(*row, step, pair));
            let operands: Vec<_> = operands.collect();
            for (at, (weights, scales)) in tiles.iter().enumerate() {
                let scales = scales.get(group_len.map_or(0, |len| 32 * pair / len) as usize);
                for second in 0..2 {
                    let weights = weights.operand(2 * pair + second, scales.copied());
                    for (tile, operands) in (0..).zip(&operands) {
                        let sums = if group_len.is_some() { parts[at] } else { sums[at] };
                        k.mma_sync(&sums.part(4 * tile, 4), weights, operands[second as usize]);
                    }
                }
                let ends = group_len.is_some_and(|len| (32 * (pair + 1)).is_multiple_of(len));
                if let Some(scales) = scales.filter(|_| ends) {
                    scales.add(&sums[at], &parts[at]);
                }
            }
        }
    }

    /// Returns the index from which the lane loads elements of 8 rows of A.
    #[inline]
    fn rows(&self, k: &Body<'b, '_>, slab: Val<'b, i32>, tile: u32) -> Val<'b, i32> {
        let (config, lane) = (&self.config, k.lane_id());
        let (row, column) = match config.weights {
            // For `ldmatrix`.
            WeightFormat::Int4 { .. } => (lane % 8, lane / 8 * 8),
            // As many adjacent elements of A as the lane has of the weights.
            format => (lane / 4, lane % 4 * (128 / format.bits())),
        };
        // Rows that do not exist read others, and are not stored.
        let row = (row + 8 * tile).min(config.rows - 1);
        let of_warp = self.along_k * (config.steps * config.weights.step());
        slab + of_warp + row * config.pitch() + column
    }

    /// Loads the B operands of two MMAs.
    #[inline]
    fn load_rows(&self, from: Val<'b, i32>, step: u32, pair: u32) -> [Val<'b, Vector<X, 4>>; 2] {
        let weights = self.config.weights;
        let at = from + step * weights.step();
        let words = match weights {
            WeightFormat::Int4 { .. } => {
                let all = self.activations.ldmatrix::<8, i32>(at + 32 * pair, MatrixOrder::Rows);
                all.bitcast::<Vector<u32, 4>>().lanes()
            }
            _ => {
                let more = match weights {
                    WeightFormat::Full => 32 * pair,
                    _ => pair / 2 * 64 + pair % 2 * 8,
                };
                let from = self.activations.offset(at + more).ptr_cast::<u32>();
                from.load_vector::<4>(0).lanes()
            }
        };
        let [a, b, c, d] = words;
        [[a, b], [c, d]].map(|pair| Val::pack(pair).bitcast())
    }

    /// Makes what the steps of a warp group share.
    #[inline]
    pub(super) fn warp_group(&self, k: &Body<'b, '_>) -> WarpGroup<'b> {
        let config = &self.config;
        let of_warp = self.along_k * (config.steps * config.weights.step() * config.rows);
        let descriptor = MatrixDescriptor {
            major: Major::K,
            swizzle: SwizzleMode::B128,
            leading_bytes: 16,
            stride_bytes: 1024,
        };
        let rows = self.activations.offset(of_warp).matrix_descriptor(descriptor.bits());
        WarpGroup { rows, parts: [(); 2].map(|()| self.accumulators(k)) }
    }

    /// Starts to multiply a step's weights by the rows of A in the slab that starts at element
    /// `slab`, with `wgmma`, and completes what is pending. Returns what is pending then.
    #[inline]
    pub(super) fn group_step(
        &self,
        k: &mut Body<'b, '_>,
        group: &WarpGroup<'b>,
        sums: &[Registers<'b, f32>],
        slab: Val<'b, i32>,
        step: u32,
        pending: Option<Pending<'b>>,
    ) -> Option<Pending<'b>> {
        let config = &self.config;
        let (step_len, group_len) = (config.weights.step(), config.weights.group_len());
        // MMAs that are committed together: up to 4, within a group of scales.
        let together = group_len.map_or(4, |len| (len / 16).min(4));
        let rows = group.rows + (slab / 8).cvt::<u64>();
        let mut pending = pending;
        for (at, (tile, place)) in
            self.tiles.iter().zip(self.places(step % config.stages)).enumerate()
        {
            let weights = self.load_weights(place);
            let scales = match tile.of_column {
                Some(scales) => vec![scales],
                None => self.load_scales(place),
            };
            for first in (0..step_len / 16).step_by(together as usize) {
                let scales = scales[group_len.map_or(0, |len| 16 * first / len) as usize];
                let operand = |more| weights.operand(first + more, Some(scales));
                let operands: Vec<_> = (0..together).map(operand).collect();
                let groups = pending.map_or(0, |pending| pending.groups);
                let part = group.parts[groups as usize % 2];
                let sums_now = if group_len.is_some() { part } else { sums[at] };
                k.wgmma_fence();
                for (mma, operand) in (first..).zip(operands) {
                    let starts = group_len.is_some_and(|len| (16 * mma).is_multiple_of(len));
                    let rows = rows + config.descriptor_offset(step * step_len + 16 * mma);
                    let form = WgmmaForm::default();
                    k.wgmma_rs(&sums_now, operand, rows, X::scalar(), !starts, form);
                }
                k.wgmma_commit_group();
                k.wgmma_wait_group(1);
                self.add_last(sums, pending);
                let end = 16 * (first + together);
                let ends = group_len.is_some_and(|len| end.is_multiple_of(len));
                let last = ends.then_some(CompleteGroup { tile: at, part, scales });
                pending = Some(Pending { groups: groups + u32::from(ends), last });
            }
        }
        pending
    }

    /// Waits for all MMAs of the warp group.
    #[inline]
    pub(super) fn complete(
        &self,
        k: &Body<'b, '_>,
        sums: &[Registers<'b, f32>],
        pending: Option<Pending<'b>>,
    ) {
        k.wgmma_wait_group(0);
        self.add_last(sums, pending);
    }

    /// Adds the sums of a complete group of scales to those of all groups.
    #[inline]
    fn add_last(&self, sums: &[Registers<'b, f32>], pending: Option<Pending<'b>>) {
        if let Some(CompleteGroup { tile, part, scales }) = pending.and_then(|all| all.last) {
            scales.add(&sums[tile], &part);
        }
    }
}

impl SmallGemmConfig {
    /// Returns where a row of A's vector is in shared memory, in elements from the slab's start.
    /// The row and the vector are the sums of a value and a constant, and the threads' vectors or
    /// the constant one are 0.
    ///
    /// `wgmma` expects rows of 64 elements, swizzled, and all rows of these before the next 64
    /// elements.
    pub(super) fn place_of_rows<'b>(
        &self,
        row: Val<'b, i32>,
        vector: Val<'b, i32>,
        more_rows: u32,
        more_vectors: u32,
    ) -> Val<'b, i32> {
        match self.mma {
            MmaKind::Warp => {
                row * self.pitch() + vector * 8 + (more_rows * self.pitch() + more_vectors * 8)
            }
            MmaKind::WarpGroup => {
                let swizzled = (vector ^ (row + more_rows % 8)) & 7;
                let more = more_vectors / 8 * self.rows * 64 + more_rows * 64;
                (vector >> 3) * (self.rows * 64) + row * 64 + swizzled * 8 + more
            }
        }
    }

    /// Returns what a descriptor of A's rows gains from the slab's start to element `k`.
    fn descriptor_offset(&self, k: u32) -> u64 {
        // In units of 16 bytes.
        u64::from(k / 64 * self.rows * 8 + k % 64 / 8)
    }
}
