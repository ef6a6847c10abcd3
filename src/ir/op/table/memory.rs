//! Op-table rows for memory accesses, pointers, register variables, atomics and cache hints. A row
//! is one operation: its operands, attributes, result, first target, and PTX mnemonic if it is a
//! single instruction (`table.rs` explains the notation).

/// Passes these rows on, after the rows that came before.
macro_rules! memory_rows {
    ($callback:ident $($before:tt)*) => {
        $crate::ir::op::table::sync::sync_rows! { $callback
            $($before)*
        /// Loads, stores, pointer arithmetic, `assume_*` promises and register variables.
        Mem {
            /// `*(base + index)`, `index` in elements. PTX ISA 9.7.9.8 `ld`.
            ld = Ld (base: Pointer, index: Index) { access: LoadAccess } -> Elem : Any, Read, SM_80
                where load(access);
            /// `*(base + index) = value`, `index` in elements. PTX ISA 9.7.9.12 `st`.
            st = St (base: MutPointer, index: Index, value: Elem) { access: StoreAccess } -> Unit
                : Any, Write, SM_80 where store(access);
            /// The vector of `lanes` elements from `*(base + index)` on, `index` in elements; its
            /// first byte is at a multiple of its size. PTX ISA 9.7.9.8 `ld.v2`, `ld.v4`.
            ld_vec = LdVec (base: Pointer, index: Index) { lanes: u32, access: LoadAccess }
                -> ElemVector : Any, Read, SM_80 where load(access);
            /// Stores a vector from `*(base + index)` on, `index` in elements; its first byte is at
            /// a multiple of its size. PTX ISA 9.7.9.12 `st.v2`, `st.v4`.
            st_vec = StVec (base: MutPointer, index: Index, vector: ElemVector)
                { access: StoreAccess } -> Unit : Any, Write, SM_80 where store(access);
            /// The same pointer, which the kernel promises to be at a multiple of `bytes`, a power
            /// of two.
            assume_aligned = AssumeAligned (base: T) { bytes: u32 } -> T : Pointer, Pure, SM_80;
            /// The same integer, which the kernel promises to be a multiple of `divisor`.
            assume_divisible_by = AssumeDivisibleBy (value: T) { divisor: u32 } -> T : Int, Pure, SM_80;
            /// The same integer, which the kernel promises to be at least `low` and at most `high`.
            assume_between = AssumeBetween (value: T, low: T, high: T) {} -> T : Int, Pure, SM_80;
            /// The pointer `base + index`, `index` in elements.
            offset = Offset (base: T, index: Index) {} -> T : Pointer, Pure, SM_80;
            /// The pointer `base` to elements of type `to`, at the same address, which must be a
            /// multiple of their size where they are accessed.
            ptr_cast = PtrCast (base: Pointer) { to: Scalar } -> PointerTo : Any, Pure, SM_80;
            /// The first element of a shared memory allocation.
            shared_base = SharedBase () { shared: SharedId } -> SharedPointer : Any, Pure, SM_80;
            /// The first element of a constant array.
            array_base = ArrayBase () { array: ArrayId } -> ArrayPointer : Any, Pure, SM_80;
            /// The first element of a global array.
            global_base = GlobalBase () { global: GlobalId } -> GlobalArrayPointer : Any, Pure, SM_80;
            /// The first element of a local memory allocation of the thread.
            local_base = LocalBase () { local: LocalId } -> LocalPointer : Any, Pure, SM_80;
            /// The generic pointer to the same location. PTX ISA 9.7.9.20 `cvta`.
            cvta = Cvta (base: Pointer) {} -> GenericPointer : Any, Pure, SM_80 where cvta(base);
            /// The pointer of the space `space` to the same location, which must be in that space.
            /// PTX ISA 9.7.9.20 `cvta.to`.
            cvta_to = CvtaTo (base: Pointer) { space: Space } -> PointerInto : Any, Pure, SM_80
                where cvta_to(base, space);
            /// True where a generic pointer points into the space `space`. PTX ISA 9.7.9.19
            /// `isspacep`.
            isspacep = Isspacep (base: Pointer) { space: Space } -> Bool : Any, Pure, SM_80
                where isspacep(base, space);
            /// The address, in bytes: as `i64` of global and generic pointers, as `i32` of those
            /// into the other spaces, which are small. Tile IR's `ptr_to_int`, PTX ISA 9.7.9.8
            /// `mov`.
            ptr_to_int = PtrToInt (base: Pointer) {} -> Address : Any, Pure, SM_80;
            /// The pointer to elements of type `to` at the address `address` of global memory, in
            /// bytes. Tile IR's `int_to_ptr`, PTX ISA 9.7.9.8 `mov`.
            int_to_ptr = IntToPtr (address: T) { to: Scalar } -> GlobalPointer : Int, Pure, SM_80
                where int_to_ptr(address);
            /// The pointer to the same location in the shared memory of block `cta` of the cluster.
            /// PTX ISA 9.7.9.23 `mapa`.
            mapa = Mapa (base: Pointer, cta: U32) {} -> ClusterPointer : Any, Pure, SM_90, PTX_7_8
                where mapa(base);
            /// The number of the block of the cluster in whose shared memory the pointer is.
            /// PTX ISA 9.7.9.24 `getctarank`.
            getctarank = Getctarank (base: Pointer) {} -> U32 : Any, Pure, SM_90, PTX_7_8
                where getctarank(base);
            /// The present value of register `index` of a variable.
            get_var = GetVar () { var: VarId, index: u32 } -> VarElem : Any, Read, SM_80;
            /// Sets register `index` of a variable.
            set_var = SetVar (value: VarElem) { var: VarId, index: u32 } -> Unit : Any, Write, SM_80;
        }
        /// Atomic operations on the element at `*(base + index)`, with `index` in elements.
        Atomic {
            /// Sets the element to `op(old, value)`; the result is `old`. PTX ISA 9.7.13.5 `atom`.
            atom = Atom (base: MutPointer, index: Index, value: Elem)
                { op: AtomicOp, order: AtomicOrder, scope: MemScope } -> Elem : Any, Write + Own, SM_80
                where atom(base, op, scope);
            /// Sets the element to `value` where its bits are those of `compare`; the result is the
            /// old value. PTX ISA 9.7.13.5 `atom.cas`.
            atom_cas = AtomCas (base: MutPointer, index: Index, compare: Elem, value: Elem)
                { order: AtomicOrder, scope: MemScope } -> Elem : Any, Write + Own, SM_80 where scope(scope);
            /// Sets each element from `*(base + index)` on to `op(old, value)`, each in a step of
            /// its own; the result is the old value. PTX ISA 9.7.13.5 `atom.v2`, `atom.v4`,
            /// `atom.v8`.
            atom_vec = AtomVec (base: MutPointer, index: Index, vector: ElemVector)
                { op: AtomicOp, order: AtomicOrder, scope: MemScope } -> ElemVector : Any, Write + Own, SM_80
                where atom_vec(base, vector, op, scope);
            /// Sets each element from `*(base + index)` on to `op(old, value)`, each in a step of
            /// its own. PTX ISA 9.7.13.7 `red.v2`, `red.v4`, `red.v8`.
            red_vec = RedVec (base: MutPointer, index: Index, vector: ElemVector)
                { op: AtomicOp, order: RedOrder, scope: MemScope } -> Unit : Any, Write + Own, SM_80
                where atom_vec(base, vector, op, scope);
            /// Sets the element to `op(old, value)`. PTX ISA 9.7.13.7 `red`.
            red = Red (base: MutPointer, index: Index, value: Elem)
                { op: AtomicOp, order: RedOrder, scope: MemScope } -> Unit : Any, Write + Own, SM_80
                where atom(base, op, scope);
        }
        /// Cache hints for global memory at `base + index`, with `index` in elements.
        Cache {
            /// Brings the line of the address into a cache. PTX ISA 9.7.9.15 `prefetch`.
            prefetch = Prefetch (base: Pointer, index: Index) { level: PrefetchLevel } -> Unit
                : Any, Read, SM_80;
            /// The 128 bytes from the address on lose their content, and need not go to memory.
            /// PTX ISA 9.7.9.17 `discard`.
            discard = Discard (base: MutPointer, index: Index) {} -> Unit : Any, Write, SM_80, PTX_7_4;
            /// L2 gives the 128 bytes from the address on up in their turn, no longer last.
            /// PTX ISA 9.7.9.16 `applypriority`.
            applypriority = Applypriority (base: Pointer, index: Index) {} -> Unit
                : Any, Read, SM_80, PTX_7_4;
        }
        }
    };
}

pub(in crate::ir) use memory_rows;
