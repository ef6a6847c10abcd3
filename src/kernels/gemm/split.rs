//! Split-K: thread blocks that share a tile sum their parts in a fixed order.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ir::builder::OnDevice;
use crate::ir::{Body, GlobalMut, NamedBarrier, Val, Vector, range};
use crate::runtime::{Buffer, Device};
use crate::tensor::RegisterTensor;

use super::super::arrival::is_last_to_arrive;
use super::config::{GROUP, GemmConfig};
use super::error::GemmError;

crate::params! {
    /// The workspace of a kernel that splits its accumulators.
    pub(super) struct SplitParams {
        /// The accumulators of each warp group of each tile and each split.
        pub(super) partials: GlobalMut<f32>,
        /// The splits that have written, for each warp group of each tile: 0 before and after a launch.
        pub(super) arrivals: GlobalMut<u32>,
    }
}

/// The workspace in a kernel body.
pub(super) type SplitArgs<'a> = SplitParams<OnDevice<'a>>;

/// Elements of a vector of accumulators.
const VECTOR: u32 = 4;

/// The accumulators of a warp group in the workspace.
pub(super) struct Split<'b> {
    /// The warp group among those of all tiles of all matrices.
    pub(super) group: Val<'b, i32>,
    /// The split, and the number of splits.
    pub(super) number: Val<'b, i32>,
    pub(super) splits: u32,
    /// The thread of the group, and the barrier of the group.
    pub(super) thread: Val<'b, i32>,
    pub(super) barrier: NamedBarrier<'b>,
}

impl<'b> Split<'b> {
    /// Writes the accumulators of a group to the workspace. In the last group to do so it sums those of all splits, in
    /// the order of the splits, and runs `write`.
    pub(super) fn sum<'a: 'b>(
        &self,
        k: &mut Body<'b, '_>,
        args: &SplitArgs<'a>,
        acc: &RegisterTensor<'b, f32>,
        write: impl for<'c> FnOnce(&mut Body<'c, 'b>),
    ) {
        let Split { splits, thread, barrier, .. } = *self;
        let accumulators = acc.variables();
        let (vectors, size) = (accumulators.len() / VECTOR, i64::from(accumulators.len() * GROUP));
        // Vector `i` of all threads is contiguous.
        let first = self.group.cvt::<i64>() * (i64::from(splits) * size);
        let first = args.partials.offset(first + (thread * VECTOR).cvt::<i64>());
        let own = first.offset(self.number.cvt::<i64>() * size);
        for i in 0..vectors {
            let four = [0, 1, 2, 3].map(|lane| accumulators.get(k, VECTOR * i + lane));
            let four: Val<'_, Vector<f32, 4>> = Val::pack(four);
            own.store_vector(k, (i * VECTOR * GROUP) as i32, four);
        }
        let (counter, count) = (args.arrivals.offset(self.group), k.constant(splits as i32));
        let last = is_last_to_arrive(k, counter, count, (barrier, thread.eq(0)));
        k.if_(last, |k| {
            accumulators.fill(k, 0.0);
            k.for_(range(0, splits as i32), (), |k, split, ()| {
                let from = first.offset(split.cvt::<i64>() * size);
                for i in 0..vectors {
                    let four: Val<'_, Vector<f32, 4>> =
                        from.load_vector(k, (i * VECTOR * GROUP) as i32);
                    for (lane, part) in (0..).zip(four.lanes()) {
                        let at = VECTOR * i + lane;
                        accumulators.set(k, at, accumulators.get(k, at) + part);
                    }
                }
            });
            write(k);
        });
    }
}

/// The workspace of a function whose thread blocks share tiles, as large as any launch needed. Launches on several
/// streams share it; the runtime orders them.
pub(super) struct SplitWorkspace {
    device: Device,
    buffers: Mutex<SplitBuffers>,
}

/// The partial accumulators, and the arrivals at each tile.
pub(super) type SplitBuffers = (Buffer<f32>, Buffer<u32>);

impl SplitWorkspace {
    pub(super) fn new(device: &Device) -> Result<SplitWorkspace, GemmError> {
        let buffers = Mutex::new((device.zeros(1)?, device.zeros(1)?));
        Ok(SplitWorkspace { device: device.clone(), buffers })
    }

    /// Returns a workspace that is large enough for row tiles, column tiles and matrices.
    pub(super) fn reserve(
        &self,
        config: &GemmConfig,
        [rows, columns, batch]: [u64; 3],
    ) -> Result<MutexGuard<'_, SplitBuffers>, GemmError> {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let (partials, arrivals) = &mut *buffers;
        let groups = (rows + u64::from(config.cluster) - 1) * columns * batch;
        let groups = groups * u64::from(config.consumers());
        let each = u64::from(config.splits) * u64::from(config.accumulators() * GROUP);
        let elements = groups.saturating_mul(each);
        let too_large = GemmError::TooLarge { operand: 'W', lines: groups, pitch: each };
        if elements >= 1 << 40 || groups > i32::MAX as u64 {
            return Err(too_large);
        }
        if partials.len() < elements as usize {
            *partials = self.device.zeros(elements as usize)?;
        }
        if arrivals.len() < groups as usize {
            *arrivals = self.device.zeros(groups as usize)?;
        }
        Ok(buffers)
    }
}
