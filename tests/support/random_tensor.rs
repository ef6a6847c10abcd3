//! Random tensor core, mbarrier and asynchronous copy operations for random kernels.

use tilewright::ir::op::{
    AsyncCopy, BarrierForm, BoxMode, BulkReduce, BulkWait, ClusterArrival, Convert, CpAsyncCache,
    L2Policy, MatrixCount, MatrixOrder, Mbarrier, Mem, Mma, MmaOverflow, MmaShape, Op,
    PendingCount, RemoteArrival, SetmaxnregAction, SpecialReg, Sync, Thread, WgmmaForm,
};
use tilewright::ir::types::{Const, Scalar, Space, Type, VectorType};
use tilewright::ir::{Target, Value, VarData, VarId};

use super::Generator;

const POINTED: [Scalar; 3] = [Scalar::F16, Scalar::U64, Scalar::F32];

fn shared(elem: Scalar) -> Type {
    Type::Pointer { space: Space::Shared, elem, mutable: true }
}

fn vector(elem: Scalar, lanes: u32) -> Type {
    VectorType::new(elem, lanes).expect("there is such a vector").into()
}

impl Generator {
    /// Adds a few operations that belong together.
    pub(super) fn tensor(&mut self) {
        let newer = self.raw.ir.target.offers(Target::SM_90);
        for _ in 0..1 + self.rng.below(3) {
            match self.rng.below(6) {
                0 if self.raw.ir.target.offers(Target::SM_90A) => self.warp_group(),
                1 => self.matrices(),
                2 => self.barriers(),
                3 if newer => self.bulk_copies(),
                4 if newer => self.other_block(),
                _ => self.thread_copies(),
            }
        }
    }

    fn u32(&mut self) -> Value {
        self.of(Scalar::U32.into())
    }

    /// Returns an integer that is only known at run time, for operands that cannot be any constant.
    fn unknown(&mut self) -> Value {
        let lane = self.emit_one(Thread::Sreg { reg: SpecialReg::LaneId });
        self.emit_one(Convert::Cvt { value: lane, to: Scalar::U32 })
    }

    fn barrier(&mut self) -> [Value; 2] {
        [self.of(shared(Scalar::U64)), self.index(Space::Shared)]
    }

    /// Returns registers that are all set.
    pub(super) fn registers(&mut self, ty: Type, len: u32) -> VarId {
        let value = self.of(ty);
        let var = self.raw.new_var(ty, len);
        for index in 0..len {
            self.emit(Mem::SetVar { value, var, index });
        }
        self.vars.push((self.visible.len(), var));
        var
    }

    fn matrices(&mut self) {
        let (base, index) = (self.of(shared(Scalar::F16)), self.index(Space::Shared));
        // In the kernel's body, warps are complete.
        let choice = if self.raw.region == self.raw.ir.body { self.rng.below(6) } else { 0 };
        let order = *self.rng.pick(MatrixOrder::ALL);
        match choice {
            1 => {
                let count = *self.rng.pick(MatrixCount::ALL);
                self.emit(Mma::Ldmatrix { base, index, count, order });
            }
            2 if self.raw.ir.target.offers(Target::SM_90) => {
                let lanes = *self.rng.pick(&[2, 4, 8]);
                let vector = self.of(vector(Scalar::F16, lanes));
                self.emit(Mma::Stmatrix { base, index, vector, order });
            }
            4 if self.raw.ir.target.offers(Target::SM_90) => {
                let values = (0..6).map(|_| self.of(Scalar::F64.into())).collect();
                let d = self.registers(Scalar::F64.into(), 5);
                let shape = MmaShape { m: 16, n: 8, k: 8 };
                self.emit(Mma::MmaSyncF64 { values, shape, d, first: 1 });
            }
            5 => {
                let value = self.of(vector(Scalar::F16, 2));
                self.emit(Mma::Movmatrix { value });
            }
            2..=4 if self.rng.below(3) == 0 => {
                let (elem, k, sum) = *self.rng.pick(&[
                    (Scalar::F16, 16, Scalar::F32.into()),
                    (Scalar::F16, 32, VectorType::F16X2.into()),
                    (Scalar::I8, 64, Scalar::I32.into()),
                    (Scalar::Tf32, 8, Scalar::F32.into()),
                ]);
                // A keeps 16 k / 64 elements, B has 8 k / 32.
                let [a, b] = [(); 2].map(|()| self.of(vector(elem, k / 4)));
                let (d, shape) = (self.registers(sum, 5), MmaShape { m: 16, n: 8, k });
                let (metadata, selector) = (self.u32(), 0);
                let overflow = MmaOverflow::Wrap;
                let first = 1;
                self.emit(Mma::MmaSyncSp { a, b, metadata, shape, selector, d, first, overflow });
            }
            2..=4 => {
                let (elem, m, k, sum) = *self.rng.pick(&[
                    (Scalar::F16, 16, 16, Scalar::F32.into()),
                    (Scalar::F16, 16, 8, VectorType::F16X2.into()),
                    (Scalar::I8, 8, 16, Scalar::I32.into()),
                    (Scalar::Tf32, 16, 8, Scalar::F32.into()),
                ]);
                let [a, b] = [m * k / 32, k / 4].map(|lanes| self.of(vector(elem, lanes)));
                let (d, shape) = (self.registers(sum, 5), MmaShape { m, n: 8, k });
                let integers = sum == Scalar::I32.into();
                let overflow =
                    if integers { *self.rng.pick(MmaOverflow::ALL) } else { MmaOverflow::Wrap };
                self.emit(Mma::MmaSync { a, b, shape, d, first: 1, overflow });
            }
            _ => {
                let bits = self.rng.word() << 14;
                self.emit(Mma::MatrixDescriptor { base, bits });
            }
        }
    }

    fn warp_group(&mut self) {
        if self.raw.region != self.raw.ir.body {
            return;
        }
        let u64 = Type::from(Scalar::U64);
        let op = match self.rng.below(6) {
            0 => Mma::WgmmaFence {},
            1 => Mma::WgmmaCommitGroup {},
            2 => Mma::WgmmaWaitGroup { pending: self.rng.below(9) as u32 },
            3 => {
                // It needs launch bounds that fix the initial register count.
                self.raw.ir.bounds.block.get_or_insert([32, 1, 1]);
                self.raw.ir.bounds.min_blocks_per_sm.get_or_insert(1);
                let action = *self.rng.pick(SetmaxnregAction::ALL);
                Mma::Setmaxnreg { action, count: 24 + 8 * self.rng.below(30) as u32 }
            }
            4 => {
                let (a, b, accumulate) = (self.of(u64), self.of(u64), self.of(Type::BOOL));
                let (a_type, b_type) = (Scalar::U8, *self.rng.pick(&[Scalar::I8, Scalar::U8]));
                let d = self.registers(Scalar::I32.into(), 8);
                let shape = MmaShape { m: 64, n: 8 + 8 * self.rng.below(2) as u32, k: 32 };
                let form = WgmmaForm { satfinite: self.rng.below(2) == 1, ..WgmmaForm::default() };
                if self.rng.below(2) == 1 {
                    let (metadata, selector, shape) = (self.u32(), 0, MmaShape { k: 64, ..shape });
                    let op = Mma::WgmmaSp {
                        a,
                        b,
                        metadata,
                        accumulate,
                        shape,
                        a_type,
                        b_type,
                        selector,
                        d,
                        first: 0,
                        form,
                    };
                    return self.emit(op);
                }
                Mma::Wgmma { a, b, accumulate, shape, a_type, b_type, d, first: 0, form }
            }
            _ => {
                let (a, b) = (self.of(vector(Scalar::Bf16, 8)), self.of(u64));
                let (d, accumulate) = (self.registers(Scalar::F32.into(), 5), self.of(Type::BOOL));
                let shape = MmaShape { m: 64, n: 8, k: 16 };
                let form = WgmmaForm {
                    negate_a: self.rng.below(2) == 1,
                    negate_b: self.rng.below(2) == 1,
                    transpose_b: self.rng.below(2) == 1,
                    ..WgmmaForm::default()
                };
                let b_type = Scalar::Bf16;
                if self.rng.below(2) == 1 {
                    let (selector, shape) = (self.rng.below(2) as u32, MmaShape { k: 32, ..shape });
                    let metadata = self.u32();
                    let op = Mma::WgmmaRsSp {
                        a,
                        b,
                        metadata,
                        accumulate,
                        shape,
                        b_type,
                        selector,
                        d,
                        first: 1,
                        form,
                    };
                    return self.emit(op);
                }
                Mma::WgmmaRs { a, b, accumulate, shape, b_type, d, first: 1, form }
            }
        };
        self.emit(op);
    }

    fn barriers(&mut self) {
        let [barrier, index] = self.barrier();
        let newer = self.raw.ir.target.offers(Target::SM_90);
        let state = self.of(Scalar::U64.into());
        let parity = self.unknown();
        let one = self.emit_one(Op::Const(Const::new(Scalar::U32, 1)));
        let op = match self.rng.below(if newer { 17 } else { 7 }) {
            0 => Mbarrier::MbarrierInit { barrier, index, count: parity },
            1 => Mbarrier::MbarrierInval { barrier, index },
            2 => Mbarrier::MbarrierArrive { barrier, index, count: one },
            3 => Mbarrier::MbarrierTestWait { barrier, index, state },
            4 => Mbarrier::MbarrierTestWaitParity { barrier, index, parity },
            5 => Mbarrier::MbarrierWait { barrier, index, state },
            6 => Mbarrier::MbarrierWaitParity { barrier, index, parity: one },
            7 => Mbarrier::MbarrierArriveExpectTx { barrier, index, bytes: self.u32() },
            8 => {
                let (cta, order) = (self.u32(), *self.rng.pick(RemoteArrival::ALL));
                Mbarrier::MbarrierArriveCluster { barrier, index, cta, order }
            }
            9 => Mbarrier::MbarrierExpectTx { barrier, index, bytes: self.u32() },
            10 => Mbarrier::MbarrierCompleteTx { barrier, index, bytes: self.u32() },
            11 => Mbarrier::MbarrierTryWait { barrier, index, state },
            12 => Mbarrier::MbarrierTryWaitParity { barrier, index, parity },
            13 => Mbarrier::MbarrierArrive { barrier, index, count: parity },
            14 => Mbarrier::FenceMbarrierInit {},
            choice => {
                if self.raw.region == self.raw.ir.body {
                    let form = *self.rng.pick(BarrierForm::ALL);
                    if choice == 15 {
                        let order = *self.rng.pick(ClusterArrival::ALL);
                        self.emit(Sync::BarrierClusterArrive { form, order });
                    }
                    self.emit(Sync::BarrierClusterWait { form });
                }
                return;
            }
        };
        self.emit(op);
    }

    /// Adds pointers into the shared memory of another block of the cluster, and a store there.
    fn other_block(&mut self) {
        let elem = *self.rng.pick(&[Scalar::I32, Scalar::U32, Scalar::U64]);
        let (near, [barrier, barrier_index], cta) =
            (self.of(shared(elem)), self.barrier(), self.u32());
        let [base, barrier] = [near, barrier].map(|base| self.emit_one(Mem::Mapa { base, cta }));
        let (index, value) = (self.index(Space::SharedCluster), self.of(elem.into()));
        let combine = match elem {
            Scalar::U32 => *self.rng.pick(BulkReduce::ALL),
            Scalar::I32 => *self.rng.pick(&[BulkReduce::Add, BulkReduce::Min, BulkReduce::Xor]),
            _ => BulkReduce::Add,
        };
        match self.rng.below(4) {
            0 => self.emit(Sync::FenceProxyAlias {}),
            1 => {
                let op = combine;
                self.emit(AsyncCopy::RedAsync { base, index, value, barrier, barrier_index, op });
            }
            2 => self.emit(AsyncCopy::StAsync { base, index, value, barrier, barrier_index }),
            _ => {}
        }
    }

    fn thread_copies(&mut self) {
        // Only parameters are global pointers.
        let from = self.visible.concat().into_iter().find(|value| {
            matches!(self.raw.ir.type_of(*value), Type::Pointer { space: Space::Global, .. })
        });
        let op = match (self.rng.below(8), from) {
            (0..=3, Some(from)) => {
                let elem = *self.rng.pick(&POINTED);
                let (to, to_index) = (self.of(shared(elem)), self.index(Space::Shared));
                let (from_index, src_bytes) = (self.index(Space::Global), self.unknown());
                let bytes = *self.rng.pick(&[4, 8, 16]);
                let cache = if bytes == 16 { CpAsyncCache::Cg } else { CpAsyncCache::Ca };
                AsyncCopy::CpAsync { to, to_index, from, from_index, src_bytes, cache, bytes }
            }
            (4, _) => AsyncCopy::CpAsyncCommitGroup {},
            (5, _) => AsyncCopy::CpAsyncWaitGroup { pending: self.rng.below(5) as u32 },
            (6, _) => AsyncCopy::CpAsyncWaitAll {},
            _ => {
                let ([barrier, index], count) = (self.barrier(), *self.rng.pick(PendingCount::ALL));
                AsyncCopy::CpAsyncMbarrierArrive { barrier, index, count }
            }
        };
        self.emit(op);
    }

    fn bulk_copies(&mut self) {
        let policy = *self.rng.pick(L2Policy::ALL);
        match self.rng.below(6) {
            0 => self.emit(AsyncCopy::CpAsyncBulkCommitGroup {}),
            1 => {
                let wait = *self.rng.pick(BulkWait::ALL);
                let pending = self.rng.below(4) as u32;
                self.emit(AsyncCopy::CpAsyncBulkWaitGroup { pending, wait });
            }
            2 => self.bulk(policy),
            _ => self.boxes(policy),
        }
    }

    fn bulk(&mut self, policy: L2Policy) {
        let all = self.visible.concat();
        let global = all.into_iter().find_map(|value| match self.raw.ir.type_of(value) {
            Type::Pointer { space: Space::Global, mutable, .. } => Some((value, mutable)),
            _ => None,
        });
        let Some((global, mutable)) = global else { return };
        let elem = *self.rng.pick(&POINTED);
        let (tile, at) = (self.of(shared(elem)), self.index(Space::Shared));
        let (from_index, bytes) = (self.index(Space::Global), self.unknown());
        let [barrier, barrier_index] = self.barrier();
        let ctas = self.u32();
        let [there, told] =
            [tile, barrier].map(|base| self.emit_one(Mem::Mapa { base, cta: ctas }));
        let op = match self.rng.below(5) {
            3 => AsyncCopy::CpAsyncBulkMulticast {
                to: tile,
                to_index: at,
                from: global,
                from_index,
                bytes,
                barrier,
                barrier_index,
                ctas,
                policy,
            },
            4 => AsyncCopy::CpAsyncBulkCluster {
                to: there,
                to_index: at,
                from: tile,
                from_index: at,
                bytes,
                barrier: told,
                barrier_index,
            },
            0 => AsyncCopy::CpAsyncBulkLoad {
                to: tile,
                to_index: at,
                from: global,
                from_index,
                bytes,
                barrier,
                barrier_index,
                policy,
            },
            1 if mutable => AsyncCopy::CpAsyncBulkStore {
                to: global,
                to_index: from_index,
                from: tile,
                from_index: at,
                bytes,
                policy,
            },
            _ => AsyncCopy::CpAsyncBulkPrefetch { from: global, from_index, bytes, policy },
        };
        self.emit(op);
    }

    fn boxes(&mut self, policy: L2Policy) {
        let all = self.visible.concat();
        let map = all.into_iter().find_map(|value| match self.raw.ir.type_of(value) {
            Type::TensorMap { elem, rank, mutable } => Some((value, elem, rank, mutable)),
            _ => None,
        });
        let Some((map, elem, rank, mutable)) = map else { return };
        let mode = match rank {
            3.. => *self.rng.pick(BoxMode::ALL),
            _ => BoxMode::Tile,
        };
        let kind = self.rng.below(8);
        if kind > 5 {
            return self.map_in_memory((map, elem, rank.into()), kind == 6);
        }
        // Loads in im2col mode have offsets.
        let stores = mutable && matches!(kind, 2 | 3);
        let offsets = if mode == BoxMode::Im2col && !stores { rank - 2 } else { 0 };
        let coords = (0..rank + offsets).map(|_| self.of(Scalar::I32.into())).collect();
        let (tile, index) = (self.of(shared(elem)), self.index(Space::Shared));
        let [barrier, barrier_index] = self.barrier();
        let op = match kind {
            0 => AsyncCopy::PrefetchTensormap { map },
            1 => AsyncCopy::CpAsyncBulkPrefetchTensor { map, coords, policy, mode },
            2 if mutable => AsyncCopy::CpAsyncBulkTensorStore {
                map,
                from: tile,
                from_index: index,
                coords,
                policy,
                mode,
            },
            3 if mutable => {
                let op = *self.rng.pick(&[BulkReduce::Add, BulkReduce::Min, BulkReduce::Max]);
                AsyncCopy::CpReduceAsyncBulkTensor {
                    map,
                    from: tile,
                    from_index: index,
                    coords,
                    op,
                    policy,
                    mode,
                }
            }
            4 => AsyncCopy::CpAsyncBulkTensorMulticast {
                map,
                to: tile,
                to_index: index,
                barrier,
                barrier_index,
                ctas: self.u32(),
                coords,
                policy,
                mode,
            },
            _ => AsyncCopy::CpAsyncBulkTensorLoad {
                map,
                to: tile,
                to_index: index,
                barrier,
                barrier_index,
                coords,
                policy,
                mode,
            },
        };
        self.emit(op);
    }

    /// Creates a tensor map in global memory, or reads it, if a pointer to such memory is visible.
    fn map_in_memory(&mut self, (map, elem, rank): (Value, Scalar, usize), replace: bool) {
        let all = self.visible.concat();
        let global = all.into_iter().find(|value| {
            let ty = self.raw.ir.type_of(*value);
            matches!(ty, Type::Pointer { space: Space::Global, mutable: true, .. })
        });
        let Some(global) = global else { return };
        let [at, base] =
            [Scalar::U64, elem].map(|to| self.emit_one(Mem::PtrCast { base: global, to }));
        let index = self.index(Space::Global);
        let op = if replace {
            let sizes = (0..2 * rank - 1).map(|_| self.of(Scalar::U64.into())).collect();
            AsyncCopy::TensormapReplace {
                map,
                to: at,
                to_index: index,
                base,
                base_index: index,
                sizes,
            }
        } else {
            AsyncCopy::TensormapAcquire { map, from: at, from_index: index }
        };
        self.emit(op);
    }
}
