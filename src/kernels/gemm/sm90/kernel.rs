//! The device code's frame, in this order: all threads allocate shared memory and initialise the
//! barriers, then each warp group enters its role's loop, and clusters synchronise at the end. The
//! loops are in `roles.rs`.

use crate::ir::Body;
use crate::ir::op::BarrierForm;
use crate::tensor::copy::StoreDestination;
use crate::tensor::mma::WgmmaMainloop;
use crate::tensor::pipeline::{OrderedBarrier, PipelineTurns, TmaPipeline, WarpRole, warp_roles};
use crate::tensor::view::SharedTensor;

use crate::kernels::gemm::config::methods::StoreMethod;
use crate::kernels::gemm::config::{GROUP, SWIZZLE_ALIGN};
use crate::kernels::gemm::elements::{A, B, D};
use crate::kernels::gemm::epilogue::EpilogueRef;
use crate::kernels::gemm::sm90::input::Input;
use crate::kernels::gemm::sm90::plan::{Plan, Sizes};
use crate::kernels::gemm::sm90::roles::{Consumer, Producer};
use crate::kernels::gemm::split::work_tiles::WorkTiles;
use crate::kernels::gemm::split::{SplitArgs, Threads};

impl Plan {
    /// Emits the kernel's body: setup by all threads, then one body per warp-group role.
    #[inline]
    pub(crate) fn body<'a>(
        &self,
        k: &mut Body<'a, '_>,
        sizes: &Sizes<'a>,
        epilogue: EpilogueRef<'_, 'a>,
        input: &Input<'_, 'a>,
        output: StoreDestination<'a, D>,
        split: Option<&SplitArgs<'a>>,
    ) {
        let Plan { config, a, b, store, .. } = self;
        let sa = SharedTensor::<A>::shared_aligned(k, a.ring.clone(), SWIZZLE_ALIGN);
        let sb = SharedTensor::<B>::shared_aligned(k, b.ring.clone(), SWIZZLE_ALIGN);
        let staging = k.shared_aligned::<D>(config.consumers() * store.elements(), SWIZZLE_ALIGN);
        let (bytes, arrivals) = (a.copy.bytes() + b.copy.bytes(), config.consumers_of_tile());
        let pipe = TmaPipeline::new(k, config.stages, bytes, arrivals);
        let pipe = pipe.cluster(config.cluster_blocks()).written_by(config.writers().min(GROUP));
        let order = config.is_pingpong().then(|| OrderedBarrier::new(k, 2));
        let tiles = [sizes.row_tiles, sizes.column_tiles, sizes.batch];
        let parts = WorkTiles::new(k, config, tiles, output.groups(), sizes.steps, split);
        let (plan, thread) = (self, k.thread_idx().x);
        if config.programmatic {
            k.griddepcontrol_launch_dependents();
        }
        pipe.init(thread.eq(0));
        parts.tiles.init(thread.eq(0));
        if let Some(order) = order {
            order.init(thread.eq(0));
        }
        k.barrier();
        pipe.cluster_sync(BarrierForm::Aligned);
        let groups = [config.producers(), config.consumers()];
        let roles = WarpRole::producers_and_consumers(groups, config.registers);
        warp_roles(k, &roles, config.entry_registers(), |k, role, group| {
            // A producer can compute its first tile before it waits for the previous launch, unless
            // the tile bounds come from memory.
            if config.programmatic && (role > 0 || config.batch.has_tiles_on_device()) {
                k.griddepcontrol_wait();
            }
            let parts = parts.of_role(role == 0);
            if role == 0 {
                let turns = PipelineTurns { group, groups: config.producers() };
                let producer = Producer { plan, sizes, input, pipe, turns, sa: &sa, sb: &sb };
                return k.if_(thread.lt(config.writers().max(1)), |k| producer.produce(k, parts));
            }
            let own = thread - GROUP * config.producers();
            let mma_thread = if config.is_pingpong() { thread % GROUP } else { own };
            let barrier = k.named_barrier((group + 1).cvt::<u32>(), GROUP).aligned();
            let to = staging.offset(group * store.elements());
            let products = if config.swap {
                WgmmaMainloop::new(k, &self.mma, pipe, mma_thread, &sb, &sa)
            } else {
                WgmmaMainloop::clear_rows(k, &sa, config.tile[0], mma_thread, barrier);
                WgmmaMainloop::new(k, &self.mma, pipe, mma_thread, &sa, &sb)
            };
            let store = store.slice(k, output.clone(), to, thread % GROUP, barrier);
            let threads = Threads { group, groups: config.consumers(), count: GROUP, barrier };
            let products = products.promoted(config.is_promoted());
            let warps = Consumer { plan, sizes, epilogue, split, threads, pipe, products, store };
            match (config.store, order) {
                (StoreMethod::Overlapped, _) => warps.consume_overlapped(k, parts.tiles),
                (_, Some(order)) => warps.consume_ordered(k, parts, order),
                (_, None) => warps.consume(k, parts),
            }
            warps.store.finish();
            epilogue.finish(k);
        });
        pipe.cluster_sync(BarrierForm::Unaligned);
    }
}
