//! Special registers beyond the thread and block indices, and hardware requests of a thread.

use super::body::{Body, Dim3};
use super::typed::{IntoVal, Val};
use crate::ir::op::{SpecialReg, Sync, Thread, VolatileReg};

macro_rules! registers {
    ($($(#[$doc:meta])* $name:ident: $ty:ty = $reg:ident;)*) => {
        /// Special registers that keep their value. PTX ISA, chapter 10.
        ///
        /// ```
        /// use tilewright::ir::{GlobalMut, Kernel, Target};
        ///
        /// let kernel = Kernel::<(GlobalMut<u32>,)>::build("below", Target::SM_80, |k, (x,)| {
        ///     x.store(k, k.thread_idx().x, k.lanemask_lt());
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
    /// The maximum number of warps on an SM. PTX ISA 10.5 `%nwarpid`.
    nwarpid: i32 = NWarpId;
    /// An upper bound of the SM numbers, exclusive. PTX ISA 10.9 `%nsmid`.
    nsmid: i32 = NSmId;
    /// The number of the launch. PTX ISA 10.10 `%gridid`.
    gridid: u64 = GridId;
    /// True if the launch names a cluster. PTX ISA 10.11 `%is_explicit_cluster`; `sm_90`.
    is_explicit_cluster: bool = IsExplicitCluster;
    /// The number of the block in its cluster. PTX ISA 10.16 `%cluster_ctarank`; `sm_90`.
    cluster_ctarank: i32 = ClusterCtaRank;
    /// The number of blocks of a cluster. PTX ISA 10.17 `%cluster_nctarank`; `sm_90`.
    cluster_nctarank: i32 = ClusterNctaRank;
    /// The bit of the thread's lane. PTX ISA 10.18 `%lanemask_eq`.
    lanemask_eq: u32 = LaneMaskEq;
    /// The bits of the thread's lane and of those below. PTX ISA 10.19 `%lanemask_le`.
    lanemask_le: u32 = LaneMaskLe;
    /// The bits of the lanes below the thread's. PTX ISA 10.20 `%lanemask_lt`.
    lanemask_lt: u32 = LaneMaskLt;
    /// The bits of the thread's lane and of those above. PTX ISA 10.21 `%lanemask_ge`.
    lanemask_ge: u32 = LaneMaskGe;
    /// The bits of the lanes above the thread's. PTX ISA 10.22 `%lanemask_gt`.
    lanemask_gt: u32 = LaneMaskGt;
    /// The bytes of shared memory of a block, static and dynamic, in the units in which they are allocated.
    /// PTX ISA 10.30 `%total_smem_size`.
    total_smem_size: u32 = TotalSmemSize;
    /// The same with what the system reserves. PTX ISA 10.31 `%aggr_smem_size`; `sm_90`.
    aggr_smem_size: u32 = AggrSmemSize;
    /// The bytes of shared memory that the launch asks for. PTX ISA 10.32 `%dynamic_smem_size`.
    dynamic_smem_size: u32 = DynamicSmemSize;
}

impl<'b> Body<'b, '_> {
    /// The index of the cluster in the grid. PTX ISA 10.12 `%clusterid`; `sm_90`.
    #[track_caller]
    pub fn clusterid(&self) -> Dim3<'b> {
        self.dim3(SpecialReg::ClusterId)
    }

    /// The number of clusters of the grid along each axis. PTX ISA 10.13 `%nclusterid`; `sm_90`.
    #[track_caller]
    pub fn nclusterid(&self) -> Dim3<'b> {
        self.dim3(SpecialReg::NClusterId)
    }

    /// The index of the block in its cluster. PTX ISA 10.14 `%cluster_ctaid`; `sm_90`.
    #[track_caller]
    pub fn cluster_ctaid(&self) -> Dim3<'b> {
        self.dim3(SpecialReg::ClusterCtaid)
    }

    /// The number of blocks of a cluster along each axis. PTX ISA 10.15 `%cluster_nctaid`; `sm_90`.
    #[track_caller]
    pub fn cluster_nctaid(&self) -> Dim3<'b> {
        self.dim3(SpecialReg::ClusterNctaid)
    }
}

macro_rules! volatile_registers {
    ($($(#[$doc:meta])* $name:ident: $ty:ty = $reg:ident;)*) => {
        /// Special registers that may hold something else each time they are read. PTX ISA, chapter 10.
        ///
        /// ```
        /// use tilewright::ir::{GlobalMut, Kernel, Target};
        ///
        /// let kernel = Kernel::<(GlobalMut<u64>,)>::build("cycles", Target::SM_80, |k, (x,)| {
        ///     let start = k.clock64();
        ///     x.store(k, 0, 1u64);
        ///     x.store(k, 1, k.clock64() - start);
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
    /// The current slot of the warp on its SM. It is not the index of the warp in its block: that is
    /// `thread_idx().x / 32` in a block of one axis. PTX ISA 10.4 `%warpid`.
    warpid: i32 = WarpId;
    /// The SM that runs the thread now. PTX ISA 10.8 `%smid`.
    smid: i32 = SmId;
    /// The cycle counter of the SM, modulo 2^32. PTX ISA 10.23 `%clock`.
    clock: u32 = Clock;
    /// The cycle counter of the SM. PTX ISA 10.24 `%clock64`.
    clock64: u64 = Clock64;
    /// Nanoseconds of a clock that all SMs share; its resolution is that of the device, often a
    /// microsecond. PTX ISA 10.28 `%globaltimer`.
    globaltimer: u64 = GlobalTimer;
}

/// Requests of a thread to the hardware that runs it.
///
/// ```
/// use tilewright::ir::{GlobalMut, Kernel, Target};
///
/// let kernel = Kernel::<(GlobalMut<i32>,)>::build("last", Target::SM_90A, |k, (x,)| {
///     k.griddepcontrol_wait();
///     k.nanosleep(100u32);
///     let is_wrong = x.load(k, 0).lt(0);
///     k.if_(is_wrong, |k| k.trap());
/// })?;
/// assert!(kernel.ptx().text().contains("griddepcontrol.wait;"));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
impl<'b> Body<'b, '_> {
    /// Sleeps for between 0 and `2 * nanoseconds`, at most a millisecond. PTX ISA 9.7.13.1 `nanosleep`. In
    /// the simulator the other warps run.
    #[doc(alias = "__nanosleep")]
    #[track_caller]
    pub fn nanosleep(&self, nanoseconds: impl IntoVal<'b, u32>) {
        let nanoseconds = self.context().operand_of(nanoseconds);
        self.context().emit(Thread::Nanosleep { nanoseconds });
    }

    /// Ends the whole grid with an error: the launch fails, and a GPU context is lost.
    /// PTX ISA 9.7.19.4 `trap`.
    #[doc(alias = "__trap")]
    #[track_caller]
    pub fn trap(&self) {
        self.context().emit(Thread::Trap {});
    }

    /// Stops in a debugger. PTX ISA 9.7.19.1 `brkpt`. The simulator ends the launch with a fault that names
    /// the thread.
    #[doc(alias = "__brkpt")]
    #[track_caller]
    pub fn brkpt(&self) {
        self.context().emit(Thread::Brkpt {});
    }

    /// Waits until the grids that this one depends on (programmatic dependent launch) have ended and their
    /// memory accesses are seen. PTX ISA 9.7.13.13 `griddepcontrol.wait`; `sm_90`.
    #[doc(alias = "cudaGridDependencySynchronize")]
    #[track_caller]
    pub fn griddepcontrol_wait(&self) {
        self.context().emit(Sync::GriddepcontrolWait {});
    }

    /// Lets the grids that depend on this one start, once all its blocks have called this or have ended.
    /// PTX ISA 9.7.13.13 `griddepcontrol.launch_dependents`; `sm_90`.
    #[doc(alias = "cudaTriggerProgrammaticLaunchCompletion")]
    #[track_caller]
    pub fn griddepcontrol_launch_dependents(&self) {
        self.context().emit(Sync::GriddepcontrolLaunchDependents {});
    }
}
