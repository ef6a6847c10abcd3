//! Special registers beyond thread and block indices (clocks, SM ids, lane masks, cluster indices),
//! and a thread's requests to the hardware: sleep, trap, dependent launches.

use super::body::{Body, Dim3};
use super::typed::{IntoVal, Val};
use crate::ir::op::{SpecialReg, Sync, Thread, VolatileReg};

macro_rules! registers {
    ($($(#[$doc:meta])* $name:ident: $ty:ty = $reg:ident;)*) => {
        /// # Special registers
        ///
        /// Reads registers whose value does not change during a launch. PTX ISA, chapter 10.
        ///
        /// ```
        /// use tilewright::ir::{GlobalMut, Kernel, Target};
        ///
        /// let kernel = Kernel::<(GlobalMut<u32>,)>::build("below", Target::SM_80, |k, (x,)| {
        ///     x.store(k.thread_idx().x, k.lanemask_lt());
        /// })?;
        /// assert!(kernel.to_string().contains("sreg<lanemask_lt> : u32"));
        /// assert!(kernel.ptx().text().contains("%lanemask_lt"));
        /// # Ok::<(), tilewright::ir::BuildErrors>(())
        /// ```
        impl<'b> Body<'b, '_> {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name(&self) -> Val<'b, $ty> {
                    self.context().emit_val(Thread::Sreg { reg: SpecialReg::$reg })
                }
            )*
        }
    };
}

registers! {
    /// Returns the maximum number of warps on an SM, the bound for [`warpid`](Body::warpid). PTX
    /// ISA 10.5 `%nwarpid`.
    nwarpid: i32 = NWarpId;
    /// Returns an exclusive upper bound for SM ids ([`smid`](Body::smid)), for example to size a
    /// table with one entry per SM. PTX ISA 10.9 `%nsmid`.
    nsmid: i32 = NSmId;
    /// Returns the launch's id, to tell launches apart in a log. PTX ISA 10.10 `%gridid`.
    gridid: u64 = GridId;
    /// Returns whether the launch names a cluster size. PTX ISA 10.11 `%is_explicit_cluster`;
    /// `sm_90`.
    is_explicit_cluster: bool = IsExplicitCluster;
    /// Returns the block's rank in its cluster, a linear index for [`mapa`](Val::mapa) and
    /// multicast masks. PTX ISA 10.16 `%cluster_ctarank`; `sm_90`.
    cluster_ctarank: i32 = ClusterCtaRank;
    /// Returns how many blocks a cluster has, for loops over the cluster's ranks. PTX ISA 10.17
    /// `%cluster_nctarank`; `sm_90`.
    cluster_nctarank: i32 = ClusterNctaRank;
    /// Returns a mask with only the bit of the thread's own lane set. PTX ISA 10.18 `%lanemask_eq`.
    lanemask_eq: u32 = LaneMaskEq;
    /// Returns a mask of the thread's lane and the lanes below it. PTX ISA 10.19 `%lanemask_le`.
    lanemask_le: u32 = LaneMaskLe;
    /// Returns a mask of the lanes below the thread's. With a ballot's mask it counts how many
    /// earlier lanes voted yes. PTX ISA 10.20 `%lanemask_lt`.
    lanemask_lt: u32 = LaneMaskLt;
    /// Returns a mask of the thread's lane and the lanes above it. PTX ISA 10.21 `%lanemask_ge`.
    lanemask_ge: u32 = LaneMaskGe;
    /// Returns a mask of the lanes above the thread's. PTX ISA 10.22 `%lanemask_gt`.
    lanemask_gt: u32 = LaneMaskGt;
    /// Returns the block's static and dynamic shared memory in bytes, rounded up to the allocation
    /// unit. PTX ISA 10.30 `%total_smem_size`.
    total_smem_size: u32 = TotalSmemSize;
    /// Returns the block's shared memory in bytes, including what the system reserves. PTX ISA
    /// 10.31 `%aggr_smem_size`; `sm_90`.
    aggr_smem_size: u32 = AggrSmemSize;
    /// Returns the dynamic shared memory that the launch asked for, in bytes. PTX ISA 10.32
    /// `%dynamic_smem_size`.
    dynamic_smem_size: u32 = DynamicSmemSize;
}

/// # Cluster indices
///
/// Tells where the block is in its cluster and in the grid of clusters. Requires `sm_90`.
impl<'b> Body<'b, '_> {
    /// Returns the cluster's index in the grid, for example to give each cluster its own tile. PTX
    /// ISA 10.12 `%clusterid`; `sm_90`.
    #[track_caller]
    pub fn clusterid(&self) -> Dim3<'b> {
        self.dim3(SpecialReg::ClusterId)
    }

    /// Returns the grid's size in clusters. PTX ISA 10.13 `%nclusterid`; `sm_90`.
    #[track_caller]
    pub fn nclusterid(&self) -> Dim3<'b> {
        self.dim3(SpecialReg::NClusterId)
    }

    /// Returns the block's index in its cluster along each axis. PTX ISA 10.14 `%cluster_ctaid`;
    /// `sm_90`.
    #[track_caller]
    pub fn cluster_ctaid(&self) -> Dim3<'b> {
        self.dim3(SpecialReg::ClusterCtaid)
    }

    /// Returns the cluster's size in blocks along each axis. PTX ISA 10.15 `%cluster_nctaid`;
    /// `sm_90`.
    #[track_caller]
    pub fn cluster_nctaid(&self) -> Dim3<'b> {
        self.dim3(SpecialReg::ClusterNctaid)
    }
}

macro_rules! volatile_registers {
    ($($(#[$doc:meta])* $name:ident: $ty:ty = $reg:ident;)*) => {
        /// # Clocks and scheduling
        ///
        /// Reads registers that may change from one read to the next. PTX ISA, chapter 10.
        ///
        /// ```
        /// use tilewright::ir::{GlobalMut, Kernel, Target};
        ///
        /// let kernel = Kernel::<(GlobalMut<u64>,)>::build("cycles", Target::SM_80, |k, (x,)| {
        ///     let start = k.clock64();
        ///     x.store(0, 1u64);
        ///     x.store(1, k.clock64() - start);
        /// })?;
        /// assert_eq!(kernel.to_string().matches("volatile_sreg<clock64> : u64").count(), 2);
        /// # Ok::<(), tilewright::ir::BuildErrors>(())
        /// ```
        impl<'b> Body<'b, '_> {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name(&self) -> Val<'b, $ty> {
                    self.context().emit_val(Thread::VolatileSreg { reg: VolatileReg::$reg })
                }
            )*
        }
    };
}

volatile_registers! {
    /// Returns the warp's current slot on its SM. It is not the warp's index in the block: in a
    /// one-dimensional block that is `thread_idx().x / 32`. PTX ISA 10.4 `%warpid`.
    warpid: i32 = WarpId;
    /// Returns the id of the SM that runs the thread now, for example to trace how blocks are
    /// scheduled. PTX ISA 10.8 `%smid`.
    smid: i32 = SmId;
    /// Returns the SM's cycle counter, modulo 2^32. Subtract two readings to time short code. PTX
    /// ISA 10.23 `%clock`.
    clock: u32 = Clock;
    /// Returns the SM's cycle counter as 64 bits. Subtract two readings on the same SM to time
    /// code. PTX ISA 10.24 `%clock64`.
    clock64: u64 = Clock64;
    /// Returns the time in nanoseconds, from a clock that all SMs share. Use it to compare events
    /// on different SMs. Its resolution depends on the GPU and is often about a microsecond. PTX
    /// ISA 10.28 `%globaltimer`.
    globaltimer: u64 = GlobalTimer;
}

/// # Sleep, traps and dependent launches
///
/// Makes the thread sleep or trap, and orders dependent launches.
///
/// ```
/// use tilewright::ir::{GlobalMut, Kernel, Target};
///
/// let kernel = Kernel::<(GlobalMut<i32>,)>::build("last", Target::SM_90A, |k, (x,)| {
///     k.griddepcontrol_wait();
///     k.nanosleep(100u32);
///     let is_wrong = x.load(0).lt(0);
///     k.if_(is_wrong, |k| k.trap());
/// })?;
/// assert!(kernel.ptx().text().contains("griddepcontrol.wait;"));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
impl<'b> Body<'b, '_> {
    /// Suspends the thread for between 0 and `2 * nanoseconds`, at most a millisecond. Call it in
    /// loops that poll memory, to leave the memory system to others. In the simulator the other
    /// warps run meanwhile. PTX ISA 9.7.19.2 `nanosleep`.
    #[doc(alias = "__nanosleep")]
    #[track_caller]
    pub fn nanosleep(&self, nanoseconds: impl IntoVal<'b, u32>) {
        let nanoseconds = self.context().operand_of(nanoseconds);
        self.context().emit(Thread::Nanosleep { nanoseconds });
    }

    /// Aborts the whole grid: the launch fails, and on a GPU the CUDA context is lost. To report a
    /// wrong input, prefer [`assert`](Body::assert). PTX ISA 9.7.19.4 `trap`.
    #[doc(alias = "__trap")]
    #[track_caller]
    pub fn trap(&self) {
        self.context().emit(Thread::Trap {});
    }

    /// Stops the thread in a debugger such as cuda-gdb. The simulator ends the launch with a fault
    /// that names the thread. PTX ISA 9.7.19.1 `brkpt`.
    #[doc(alias = "__brkpt")]
    #[track_caller]
    pub fn brkpt(&self) {
        self.context().emit(Thread::Brkpt {});
    }

    /// Waits until the launches that this one depends on (programmatic dependent launch) have
    /// ended, and their writes are visible. Call it before you read what they write. PTX ISA
    /// 9.7.13.13 `griddepcontrol.wait`; `sm_90`.
    #[doc(alias = "cudaGridDependencySynchronize")]
    #[track_caller]
    pub fn griddepcontrol_wait(&self) {
        self.context().emit(Sync::GriddepcontrolWait {});
    }

    /// Allows dependent launches to start early (programmatic dependent launch): they start once
    /// all blocks of this grid have called this or have ended. Call it when the remaining work no
    /// longer needs the whole GPU; a dependent launch waits with
    /// [`griddepcontrol_wait`](Body::griddepcontrol_wait) before it reads results. PTX
    /// ISA 9.7.13.13 `griddepcontrol.launch_dependents`; `sm_90`.
    #[doc(alias = "cudaTriggerProgrammaticLaunchCompletion")]
    #[track_caller]
    pub fn griddepcontrol_launch_dependents(&self) {
        self.context().emit(Sync::GriddepcontrolLaunchDependents {});
    }
}
