//! Enumerates candidates for the operations of tensor cores, mbarriers, asynchronous copies and
//! clusters.
//!
//! A candidate is an operation with any values of its attributes on any operand types.
//! `Op::support`, not this file, says which of them exist.

use std::collections::HashMap;

use tilewright::ir::op::{
    AsyncCopy, BarrierForm, BoxMode, BulkReduce, BulkWait, ClusterArrival, CpAsyncCache, L2Policy,
    MatrixCount, MatrixOrder, Mbarrier, Mem, Mma, MmaOverflow, MmaShape, Op, PendingCount,
    RemoteArrival, SetmaxnregAction, SpecialReg, Sync, Thread, WgmmaForm,
};
use tilewright::ir::types::{Scalar, Space, Type, VectorType};
use tilewright::ir::{Target, Value, VarData, VarId};

use super::raw::{Raw, pointer};

/// A candidate, with the roles and names of its types.
pub(crate) struct Cell {
    pub(crate) op: Op,
    pub(crate) types: Vec<(&'static str, String)>,
}

/// Register types that accumulators could have.
pub(crate) const SUMS: [Type; 4] = [
    Type::Scalar(Scalar::F32),
    Type::Scalar(Scalar::F64),
    Type::Scalar(Scalar::I32),
    Type::Vector(VectorType::F16X2),
];

/// Element types that tensor cores could multiply: those with at most 32 bits, and `f64`.
pub(crate) const FACTORS: [Scalar; 11] = [
    Scalar::I8,
    Scalar::U8,
    Scalar::F8E4M3,
    Scalar::F8E5M2,
    Scalar::I16,
    Scalar::F16,
    Scalar::Bf16,
    Scalar::I32,
    Scalar::Tf32,
    Scalar::F32,
    Scalar::F64,
];

/// Returns all forms of `wgmma`.
pub(crate) fn forms() -> Vec<WgmmaForm> {
    let bit = |bits: u32, i: u32| bits >> i & 1 == 1;
    let form = |bits| WgmmaForm {
        negate_a: bit(bits, 0),
        negate_b: bit(bits, 1),
        transpose_a: bit(bits, 2),
        transpose_b: bit(bits, 3),
        satfinite: bit(bits, 4),
    };
    (0..32).map(form).collect()
}

/// Returns a `wgmma`'s element count along K: 256 bits.
pub(crate) fn wgmma_depth(a: Scalar) -> u32 {
    256 / a.bits()
}

/// Returns the type of a thread's fragment with `lanes` elements, if a value can hold it.
fn fragment(elem: Scalar, lanes: u32) -> Option<Type> {
    match lanes {
        1 => Some(elem.into()),
        lanes => VectorType::new(elem, lanes).map(Type::Vector),
    }
}

/// A kernel that candidates are created in, and the values that they share.
pub(crate) struct Cells<'k> {
    raw: &'k mut Raw,
    known: HashMap<Type, Value>,
    vars: HashMap<(Type, u32), VarId>,
    cells: Vec<Cell>,
}

impl<'k> Cells<'k> {
    pub(crate) fn new(raw: &'k mut Raw) -> Cells<'k> {
        Cells { raw, known: HashMap::new(), vars: HashMap::new(), cells: Vec::new() }
    }

    pub(crate) fn into_cells(self) -> Vec<Cell> {
        self.cells
    }

    /// Adds all candidates of a row, and none for rows of other families. `wgmma` has too many
    /// candidates for one kernel: see [`Cells::wgmma`] and [`Cells::sparse_wgmma`].
    pub(crate) fn row(&mut self, name: &str) {
        match name {
            "mma_sync" => self.mma_sync(),
            "mma_sync_f64" => self.mma_sync_f64(),
            "mma_sync_sp" => self.mma_sync_sp(),
            "ldmatrix" | "stmatrix" | "matrix_descriptor" => self.matrices(name),
            "movmatrix" => self.movmatrix(),
            "setmaxnreg" => self.setmaxnreg(),
            _ if name.contains("bulk_tensor")
                || name.ends_with("prefetch_tensor")
                || name.starts_with("tensormap_") =>
            {
                Scalar::ALL.into_iter().for_each(|elem| self.tensor(name, elem));
            }
            _ if name.starts_with("cp_async_bulk") => self.bulk(name),
            _ if name.contains("mbarrier") => self.mbarrier(name),
            "cp_async" => self.cp_async(),
            "mapa" => self.mapa(),
            "st_async" | "red_async" => self.remote_stores(name),
            _ => self.without_types(name),
        }
    }

    fn add(&mut self, op: impl Into<Op>, types: &[(&'static str, String)]) {
        self.cells.push(Cell { op: op.into(), types: types.to_vec() });
    }

    /// Returns the value with this type. It is only known at run time, and always the same one.
    fn of(&mut self, ty: Type) -> Value {
        if let Some(known) = self.known.get(&ty) {
            return *known;
        }
        let value = match ty {
            // The elements differ, as those of matrices do.
            Type::Vector(vector) if vector.is_one_access() => {
                let base = self.of(pointer(Space::Global, vector.elem()));
                let index = self.raw.get(Thread::Sreg { reg: SpecialReg::LaneId });
                let (lanes, access) = (vector.lanes(), Default::default());
                self.raw.get(Mem::LdVec { base, index, lanes, access })
            }
            ty => self.raw.unknown(ty),
        };
        self.known.insert(ty, value);
        value
    }

    fn scalar(&mut self, scalar: Scalar) -> Value {
        self.of(scalar.into())
    }

    fn constant(&mut self, number: u64) -> Value {
        self.raw.constant(Scalar::U32, number)
    }

    fn index(&mut self) -> Value {
        self.scalar(Scalar::I32)
    }

    fn barrier(&mut self) -> Value {
        self.of(pointer(Space::Shared, Scalar::U64))
    }

    /// Returns a variable of `len` registers that are all set.
    fn registers(&mut self, ty: Type, len: u32) -> VarId {
        if let Some(var) = self.vars.get(&(ty, len)) {
            return *var;
        }
        let value = self.of(ty);
        let (region, location) = (self.raw.ir.body, self.raw.ir.values[value].location);
        let var = self.raw.ir.vars.push(VarData { ty, len, region, location, name: None });
        for index in 0..len {
            self.raw.op(Mem::SetVar { value, var, index });
        }
        self.vars.insert((ty, len), var);
        var
    }

    fn mma_sync(&mut self) {
        let shapes = [8, 16].map(|m| [4, 8, 16, 32].map(|k| MmaShape { m, n: 8, k })).concat();
        for a_type in FACTORS {
            for b_type in FACTORS {
                for &shape in &shapes {
                    let MmaShape { m, n, k } = shape;
                    // If no value can hold a thread's fragment, one element stands for it.
                    let part = |elem, lanes| fragment(elem, lanes).unwrap_or(elem.into());
                    let a = self.of(part(a_type, m * k / 32));
                    let b = self.of(part(b_type, n * k / 32));
                    for sum in SUMS {
                        let d = self.registers(sum, 4);
                        let types = [
                            ("A", a_type.to_string()),
                            ("B", b_type.to_string()),
                            ("D", sum.to_string()),
                        ];
                        for &overflow in MmaOverflow::ALL {
                            self.add(Mma::MmaSync { a, b, shape, d, first: 0, overflow }, &types);
                        }
                    }
                }
            }
        }
    }

    /// Adds warp-level MMAs with a sparse A.
    fn mma_sync_sp(&mut self) {
        let metadata = self.scalar(Scalar::U32);
        for a_type in FACTORS {
            for b_type in FACTORS {
                for k in [8, 16, 32, 64] {
                    let shape = MmaShape { m: 16, n: 8, k };
                    let part = |elem, lanes| fragment(elem, lanes).unwrap_or(elem.into());
                    let a = self.of(part(a_type, 16 * k / 64));
                    let b = self.of(part(b_type, 8 * k / 32));
                    for sum in SUMS {
                        let d = self.registers(sum, 4);
                        let types = [
                            ("A", a_type.to_string()),
                            ("B", b_type.to_string()),
                            ("D", sum.to_string()),
                        ];
                        for selector in 0..4 {
                            for &overflow in MmaOverflow::ALL {
                                let op = Mma::MmaSyncSp {
                                    a,
                                    b,
                                    metadata,
                                    shape,
                                    selector,
                                    d,
                                    first: 0,
                                    overflow,
                                };
                                self.add(op, &types);
                            }
                        }
                    }
                }
            }
        }
    }

    fn mma_sync_f64(&mut self) {
        let value = self.of(Scalar::F64.into());
        for shape in [8, 16].map(|m| [4, 8, 16].map(|k| MmaShape { m, n: 8, k })).concat() {
            for sum in SUMS {
                let d = self.registers(sum, 4);
                let values = vec![value; ((shape.m + shape.n) * shape.k / 32) as usize].into();
                let types = [("D", sum.to_string())];
                self.add(Mma::MmaSyncF64 { values, shape, d, first: 0 }, &types);
            }
        }
    }

    fn movmatrix(&mut self) {
        for vector in VectorType::all() {
            let value = self.of(vector.into());
            self.add(Mma::Movmatrix { value }, &[("vector", vector.to_string())]);
        }
    }

    fn matrices(&mut self, name: &str) {
        for space in [Space::Shared, Space::Global] {
            for elem in Scalar::ALL {
                let types = [("elements", elem.to_string()), ("space", space.to_string())];
                let (base, index) = (self.of(pointer(space, elem)), self.index());
                match name {
                    "ldmatrix" => {
                        for &count in MatrixCount::ALL {
                            for &order in MatrixOrder::ALL {
                                self.add(Mma::Ldmatrix { base, index, count, order }, &types);
                            }
                        }
                    }
                    "stmatrix" => {
                        for vector in VectorType::all().filter(|vector| vector.elem() == elem) {
                            let value = self.of(vector.into());
                            let types =
                                [("vector", vector.to_string()), ("space", space.to_string())];
                            for &order in MatrixOrder::ALL {
                                let op = Mma::Stmatrix { base, index, vector: value, order };
                                self.add(op, &types);
                            }
                        }
                    }
                    _ => {
                        // 1 is part of the address.
                        for bits in [0, 1 << 62 | 64 << 32 | 1 << 16, 1] {
                            self.add(Mma::MatrixDescriptor { base, bits }, &types);
                        }
                    }
                }
            }
        }
    }

    /// Adds warp-group MMAs with A in shared memory and in registers.
    pub(crate) fn wgmma(
        &mut self,
        [a_type, b_type]: [Scalar; 2],
        sum: Type,
        n: u32,
        forms: &[WgmmaForm],
    ) {
        let k = wgmma_depth(a_type);
        let shape = MmaShape { m: 64, n, k };
        let per_register = if matches!(sum, Type::Vector(_)) { 2 } else { 1 };
        let d = self.registers(sum, (64 * n / 128 / per_register).max(1));
        let (a, b) = (self.scalar(Scalar::U64), self.scalar(Scalar::U64));
        let types = [("A", a_type.to_string()), ("B", b_type.to_string()), ("D", sum.to_string())];
        // Whether D is accumulated may be known or unknown.
        let flags = [Some(1), Some(0), None];
        for (number, &form) in forms.iter().enumerate() {
            let accumulate = match flags[(number + n as usize / 8) % 3] {
                Some(bit) => self.raw.constant(Scalar::Bool, bit),
                None => self.scalar(Scalar::Bool),
            };
            let op = Mma::Wgmma { a, b, accumulate, shape, a_type, b_type, d, first: 0, form };
            self.add(op, &types);
            if let Some(part) = fragment(a_type, 64 * k / 128) {
                let a = self.of(part);
                let op = Mma::WgmmaRs { a, b, accumulate, shape, b_type, d, first: 0, form };
                self.add(op, &types);
            }
        }
    }

    /// Like [`Cells::wgmma`], but with a sparse A and each of `selectors`.
    pub(crate) fn sparse_wgmma(
        &mut self,
        [a_type, b_type]: [Scalar; 2],
        sum: Type,
        n: u32,
        (forms, selectors): (&[WgmmaForm], &[u32]),
    ) {
        // The sparse A keeps as many elements as a dense one has.
        let half = wgmma_depth(a_type);
        let shape = MmaShape { m: 64, n, k: 2 * half };
        let per_register = if matches!(sum, Type::Vector(_)) { 2 } else { 1 };
        let d = self.registers(sum, (64 * n / 128 / per_register).max(1));
        let (descriptor, metadata) = (self.scalar(Scalar::U64), self.scalar(Scalar::U32));
        let (b, accumulate) = (descriptor, self.scalar(Scalar::Bool));
        let types = [("A", a_type.to_string()), ("B", b_type.to_string()), ("D", sum.to_string())];
        for &form in forms {
            for &selector in selectors {
                let op = Mma::WgmmaSp {
                    a: descriptor,
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
                self.add(op, &types);
                let Some(part) = fragment(a_type, 64 * half / 128) else { continue };
                let a = self.of(part);
                let op = Mma::WgmmaRsSp {
                    a,
                    b,
                    metadata,
                    accumulate,
                    shape,
                    b_type,
                    selector,
                    d,
                    first: 0,
                    form,
                };
                self.add(op, &types);
            }
        }
    }

    fn setmaxnreg(&mut self) {
        for count in (16..=264).step_by(4) {
            for &action in SetmaxnregAction::ALL {
                self.add(Mma::Setmaxnreg { action, count }, &[]);
            }
        }
    }

    fn mbarrier(&mut self, name: &str) {
        // The last one is the only valid barrier.
        for (space, elem) in [
            (Space::Global, Scalar::U64),
            (Space::Shared, Scalar::U32),
            (Space::Shared, Scalar::U64),
        ] {
            let (barrier, index) = (self.of(pointer(space, elem)), self.index());
            let place = |number: &str| {
                [("barrier", format!("{space} {elem}")), ("number", number.to_owned())]
            };
            let state = self.scalar(Scalar::U64);
            let numbers: &[u64] = match name {
                "mbarrier_init" | "mbarrier_arrive" => &[0, 1, 2, (1 << 20) - 1, 1 << 20],
                _ if name.ends_with("parity") => &[0, 1, 2],
                _ => &[16],
            };
            let mut operands = vec![(self.scalar(Scalar::U32), "not constant".to_owned())];
            for number in numbers {
                operands.push((self.constant(*number), number.to_string()));
            }
            for (n, text) in operands {
                let op = match name {
                    "mbarrier_init" => Mbarrier::MbarrierInit { barrier, index, count: n },
                    "mbarrier_inval" => Mbarrier::MbarrierInval { barrier, index },
                    "mbarrier_arrive" => Mbarrier::MbarrierArrive { barrier, index, count: n },
                    "mbarrier_arrive_expect_tx" => {
                        Mbarrier::MbarrierArriveExpectTx { barrier, index, bytes: n }
                    }
                    "mbarrier_expect_tx" => Mbarrier::MbarrierExpectTx { barrier, index, bytes: n },
                    "mbarrier_complete_tx" => {
                        Mbarrier::MbarrierCompleteTx { barrier, index, bytes: n }
                    }
                    "mbarrier_test_wait" => Mbarrier::MbarrierTestWait { barrier, index, state },
                    "mbarrier_try_wait" => Mbarrier::MbarrierTryWait { barrier, index, state },
                    "mbarrier_wait" => Mbarrier::MbarrierWait { barrier, index, state },
                    "mbarrier_test_wait_parity" => {
                        Mbarrier::MbarrierTestWaitParity { barrier, index, parity: n }
                    }
                    "mbarrier_try_wait_parity" => {
                        Mbarrier::MbarrierTryWaitParity { barrier, index, parity: n }
                    }
                    "mbarrier_wait_parity" => {
                        Mbarrier::MbarrierWaitParity { barrier, index, parity: n }
                    }
                    "mbarrier_arrive_cluster" => {
                        for &order in RemoteArrival::ALL {
                            let op =
                                Mbarrier::MbarrierArriveCluster { barrier, index, cta: n, order };
                            self.add(op, &place(&text));
                        }
                        continue;
                    }
                    "cp_async_mbarrier_arrive" => {
                        for &count in PendingCount::ALL {
                            let op = AsyncCopy::CpAsyncMbarrierArrive { barrier, index, count };
                            self.add(op, &place(&text));
                        }
                        continue;
                    }
                    _ => return self.without_types(name),
                };
                self.add(op, &place(&text));
            }
        }
    }

    fn mapa(&mut self) {
        let ranks = [self.scalar(Scalar::U32), self.constant(0), self.constant(15)];
        for space in [Space::Global, Space::Shared] {
            for elem in Scalar::ALL {
                let base = self.of(pointer(space, elem));
                let types = [("elements", elem.to_string()), ("space", space.to_string())];
                for cta in ranks {
                    self.add(Mem::Mapa { base, cta }, &types);
                }
            }
        }
    }

    /// Adds stores to other blocks. Pointers into the cluster exist only in kernels that can have
    /// them.
    fn remote_stores(&mut self, name: &str) {
        let mut spaces = vec![Space::Global, Space::Shared];
        if self.raw.ir.target.offers(Target::SM_90) {
            spaces.push(Space::SharedCluster);
        }
        let (index, barrier_index) = (self.index(), self.index());
        for &to in &spaces {
            for &at in &spaces {
                let barriers = [Scalar::U64, Scalar::I64].map(|elem| (at, elem));
                for (at, count) in barriers {
                    let barrier = self.of(pointer(at, count));
                    for elem in Scalar::ALL {
                        let (base, value) = (self.of(pointer(to, elem)), self.scalar(elem));
                        let types = [
                            ("elements", elem.to_string()),
                            ("space", to.to_string()),
                            ("barrier", format!("{at} {count}")),
                        ];
                        if name == "st_async" {
                            let op =
                                AsyncCopy::StAsync { base, index, value, barrier, barrier_index };
                            self.add(op, &types);
                            continue;
                        }
                        for &op in BulkReduce::ALL {
                            let op = AsyncCopy::RedAsync {
                                base,
                                index,
                                value,
                                barrier,
                                barrier_index,
                                op,
                            };
                            self.add(op, &types);
                        }
                    }
                }
            }
        }
    }

    fn cp_async(&mut self) {
        let spaces = [Space::Global, Space::Shared];
        for (to_space, from_space) in
            spaces.into_iter().flat_map(|to| spaces.map(|from| (to, from)))
        {
            let to = self.of(pointer(to_space, Scalar::F32));
            let from = self.of(pointer(from_space, Scalar::U8));
            let (to_index, from_index) = (self.index(), self.index());
            for bytes in [2, 4, 8, 12, 16, 32] {
                let mut sizes = vec![(self.scalar(Scalar::U32), "not constant".to_owned())];
                for read in [0, bytes - 1, bytes, bytes + 1] {
                    let text = match i64::from(read) - i64::from(bytes) {
                        -1 => "fewer",
                        0 => "all",
                        1 => "more",
                        _ => "0",
                    };
                    sizes.push((self.constant(read.into()), text.to_owned()));
                }
                for &cache in CpAsyncCache::ALL {
                    for (src_bytes, text) in &sizes {
                        let types = [
                            ("to", to_space.to_string()),
                            ("from", from_space.to_string()),
                            ("read", text.clone()),
                        ];
                        let src_bytes = *src_bytes;
                        let op = AsyncCopy::CpAsync {
                            to,
                            to_index,
                            from,
                            from_index,
                            src_bytes,
                            cache,
                            bytes,
                        };
                        self.add(op, &types);
                    }
                }
            }
        }
    }

    fn bulk(&mut self, name: &str) {
        let (barrier, barrier_index) = (self.barrier(), self.index());
        let (to_index, from_index) = (self.index(), self.index());
        let ctas = self.scalar(Scalar::U32);
        let clusters =
            [Scalar::F32, Scalar::U64].map(|elem| self.of(pointer(Space::SharedCluster, elem)));
        let spaces = [Space::Global, Space::Shared];
        for (to_space, from_space) in
            spaces.into_iter().flat_map(|to| spaces.map(|from| (to, from)))
        {
            let to = self.of(pointer(to_space, Scalar::F32));
            let from = self.of(pointer(from_space, Scalar::U8));
            let mut sizes = vec![(self.scalar(Scalar::U32), "not constant".to_owned())];
            for bytes in [0, 8, 16, 0xffff0, 0x100000] {
                sizes.push((self.constant(bytes), bytes.to_string()));
            }
            for (bytes, text) in sizes {
                let mut types = vec![
                    ("to", to_space.to_string()),
                    ("from", from_space.to_string()),
                    ("bytes", text),
                ];
                for &policy in L2Policy::ALL {
                    let op = match name {
                        "cp_async_bulk_load" => AsyncCopy::CpAsyncBulkLoad {
                            to,
                            to_index,
                            from,
                            from_index,
                            bytes,
                            barrier,
                            barrier_index,
                            policy,
                        },
                        "cp_async_bulk_multicast" => AsyncCopy::CpAsyncBulkMulticast {
                            to,
                            to_index,
                            from,
                            from_index,
                            bytes,
                            barrier,
                            barrier_index,
                            ctas,
                            policy,
                        },
                        "cp_async_bulk_cluster" => {
                            // It has one space on each side, and no policy.
                            if to_space == Space::Shared || policy != L2Policy::Default {
                                continue;
                            }
                            types[0].1 = Space::SharedCluster.to_string();
                            let [to, barrier] = clusters;
                            AsyncCopy::CpAsyncBulkCluster {
                                to,
                                to_index,
                                from,
                                from_index,
                                bytes,
                                barrier,
                                barrier_index,
                            }
                        }
                        "cp_async_bulk_store" => AsyncCopy::CpAsyncBulkStore {
                            to,
                            to_index,
                            from,
                            from_index,
                            bytes,
                            policy,
                        },
                        "cp_async_bulk_prefetch" => {
                            types.retain(|(what, _)| *what != "to");
                            AsyncCopy::CpAsyncBulkPrefetch { from, from_index, bytes, policy }
                        }
                        _ => return self.without_types(name),
                    };
                    self.add(op, &types);
                }
            }
        }
    }

    /// Adds tensor copies of one element type.
    pub(crate) fn tensor(&mut self, name: &str, elem: Scalar) {
        let barrier = self.barrier();
        let [to_index, from_index, barrier_index] = [0; 3].map(|_| self.index());
        let [to, from] = [pointer(Space::Shared, elem); 2].map(|ty| self.of(ty));
        let ctas = self.scalar(Scalar::U32);
        let (coordinate, third) = (self.index(), self.raw.constant(Scalar::I32, 3));
        for rank in 1..=5 {
            for mutable in [true, false] {
                let map = self.of(Type::TensorMap { elem, rank, mutable });
                let access = if mutable { "to write" } else { "to read" };
                let types = [
                    ("elements", elem.to_string()),
                    ("dimensions", rank.to_string()),
                    ("map", access.to_owned()),
                ];
                let coords = |i: u8| if i.is_multiple_of(2) { coordinate } else { third };
                for (&policy, &mode) in L2Policy::ALL
                    .iter()
                    .flat_map(|policy| BoxMode::ALL.iter().map(move |mode| (policy, mode)))
                {
                    // Offsets of im2col mode, for loads: one per dimension but two.
                    let loads = !matches!(
                        name,
                        "cp_async_bulk_tensor_store" | "cp_reduce_async_bulk_tensor"
                    );
                    let offsets = match mode {
                        BoxMode::Im2col if loads => rank.saturating_sub(2),
                        BoxMode::Im2col | BoxMode::Tile => 0,
                    };
                    let coords = (0..rank + offsets).map(coords).collect();
                    let op = match name {
                        "cp_async_bulk_tensor_load" => AsyncCopy::CpAsyncBulkTensorLoad {
                            map,
                            to,
                            to_index,
                            barrier,
                            barrier_index,
                            coords,
                            policy,
                            mode,
                        },
                        "cp_async_bulk_tensor_multicast" => AsyncCopy::CpAsyncBulkTensorMulticast {
                            map,
                            to,
                            to_index,
                            barrier,
                            barrier_index,
                            ctas,
                            coords,
                            policy,
                            mode,
                        },
                        "cp_async_bulk_tensor_store" => AsyncCopy::CpAsyncBulkTensorStore {
                            map,
                            from,
                            from_index,
                            coords,
                            policy,
                            mode,
                        },
                        "cp_reduce_async_bulk_tensor" => {
                            for &op in BulkReduce::ALL {
                                let coords = coords.clone();
                                let op = AsyncCopy::CpReduceAsyncBulkTensor {
                                    map,
                                    from,
                                    from_index,
                                    coords,
                                    op,
                                    policy,
                                    mode,
                                };
                                self.add(op, &types);
                            }
                            continue;
                        }
                        "cp_async_bulk_prefetch_tensor" => {
                            AsyncCopy::CpAsyncBulkPrefetchTensor { map, coords, policy, mode }
                        }
                        "tensormap_replace" | "tensormap_acquire" => {
                            self.map_in_memory(name, (map, elem, rank.into()), &types);
                            break;
                        }
                        _ => panic!("{name} copies no tensor"),
                    };
                    self.add(op, &types);
                }
            }
        }
    }

    /// Adds operations on a tensor map in memory, with tensor elements of every type.
    fn map_in_memory(
        &mut self,
        name: &str,
        (map, elem, rank): (Value, Scalar, usize),
        types: &[(&'static str, String)],
    ) {
        let index = self.index();
        let at = self.of(pointer(Space::Global, Scalar::U64));
        let op = if name == "tensormap_acquire" {
            AsyncCopy::TensormapAcquire { map, from: at, from_index: index }
        } else {
            let base = self.of(pointer(Space::Global, elem));
            let size = self.scalar(Scalar::U64);
            let sizes = (0..2 * rank - 1).map(|_| size).collect();
            AsyncCopy::TensormapReplace {
                map,
                to: at,
                to_index: index,
                base,
                base_index: index,
                sizes,
            }
        };
        self.add(op, types);
    }

    /// Adds the operations that have no types or only one form.
    fn without_types(&mut self, name: &str) {
        let pending = [0, 1, 7, 8, u32::MAX];
        match name {
            "wgmma_fence" => self.add(Mma::WgmmaFence {}, &[]),
            "wgmma_commit_group" => self.add(Mma::WgmmaCommitGroup {}, &[]),
            "wgmma_wait_group" => {
                pending
                    .into_iter()
                    .for_each(|pending| self.add(Mma::WgmmaWaitGroup { pending }, &[]));
            }
            "fence_mbarrier_init" => self.add(Mbarrier::FenceMbarrierInit {}, &[]),
            "cp_async_commit_group" => self.add(AsyncCopy::CpAsyncCommitGroup {}, &[]),
            "cp_async_wait_group" => {
                pending
                    .into_iter()
                    .for_each(|pending| self.add(AsyncCopy::CpAsyncWaitGroup { pending }, &[]));
            }
            "cp_async_wait_all" => self.add(AsyncCopy::CpAsyncWaitAll {}, &[]),
            "cp_async_bulk_commit_group" => self.add(AsyncCopy::CpAsyncBulkCommitGroup {}, &[]),
            "cp_async_bulk_wait_group" => {
                for &wait in BulkWait::ALL {
                    pending.into_iter().for_each(|pending| {
                        self.add(AsyncCopy::CpAsyncBulkWaitGroup { pending, wait }, &[]);
                    });
                }
            }
            "prefetch_tensormap" => {
                for elem in Scalar::ALL {
                    let map = self.of(Type::TensorMap { elem, rank: 2, mutable: false });
                    let types = [("elements", elem.to_string())];
                    self.add(AsyncCopy::PrefetchTensormap { map }, &types);
                }
            }
            "barrier_cluster_arrive" => {
                for &form in BarrierForm::ALL {
                    for &order in ClusterArrival::ALL {
                        self.add(Sync::BarrierClusterArrive { form, order }, &[]);
                    }
                }
            }
            "fence_proxy_alias" => self.add(Sync::FenceProxyAlias {}, &[]),
            "barrier_cluster_wait" => {
                for &form in BarrierForm::ALL {
                    self.add(Sync::BarrierClusterWait { form }, &[]);
                }
            }
            _ => {}
        }
    }
}
