//! Op-table rows for tensor cores, warps and single threads, one per operation (`table.rs` explains
//! the notation).

/// Passes these rows on, after the rows that came before.
macro_rules! warp_rows {
    ($callback:ident $($before:tt)*) => {
        $callback! {
            $($before)*
        /// Tensor core operations and their matrix loads and stores. All threads of a warp execute
        /// them together.
        Mma {
            /// `D += A B`, with D in registers `first ..` of the variable `d`, and each thread's
            /// parts of A and B in `a` and `b`. PTX ISA 9.7.14.5 `mma.sync`.
            mma_sync = MmaSync (a: Any, b: Any)
                { shape: MmaShape, d: VarId, first: u32, overflow: MmaOverflow } -> Unit
                : Any, Sync / Warp + Own, SM_80 where mma_sync(a, b, shape, d, overflow);
            /// As `mma_sync`, in `f64`, where a thread has more of A than a vector holds: the list
            /// is each thread's part of A, then that of B. PTX ISA 9.7.14.5 `mma.sync`.
            mma_sync_f64 = MmaSyncF64 (; values: [F64]) { shape: MmaShape, d: VarId, first: u32 } -> Unit
                : Any, Sync / Warp + Own, SM_90, PTX_7_8 where mma_sync_f64(values, shape, d);
            /// As `mma_sync`, with half of the elements of A: of each 4 along K 2, of each 2 of
            /// `tf32` 1. `metadata` has their columns, in the threads of each group of four that
            /// `selector` names. PTX ISA 9.7.14.6.3 `mma.sp::ordered_metadata`.
            mma_sync_sp = MmaSyncSp (a: Any, b: Any, metadata: U32)
                { shape: MmaShape, selector: u32, d: VarId, first: u32, overflow: MmaOverflow } -> Unit
                : Any, Sync / Warp + Own, SM_80, PTX_8_5
                where mma_sync_sp(a, b, shape, selector, d, overflow);
            /// Loads 8x8 matrices of 16-bit elements. The row `i % 8` of matrix `i / 8` starts at
            /// `*(base + index)` of lane `i`; a thread gets elements `2 (lane % 4) ..` of row
            /// `lane / 4` of each matrix. PTX ISA 9.7.14.5.15 `ldmatrix`.
            ldmatrix = Ldmatrix (base: Pointer, index: Index)
                { count: MatrixCount, order: MatrixOrder } -> ElemVector : Any, Sync / Warp + Own, SM_80
                where matrices(base);
            /// Stores 8x8 matrices of 16-bit elements, as `ldmatrix` loads them.
            /// PTX ISA 9.7.14.5.16 `stmatrix`.
            stmatrix = Stmatrix (base: MutPointer, index: Index, vector: ElemVector)
                { order: MatrixOrder } -> Unit : Any, Sync / Warp, SM_90, PTX_7_8 where stmatrix(base, vector);
            /// The transposed 8x8 matrix of 16-bit elements. Lane `i` passes the elements
            /// `2 (i % 4)` and `2 (i % 4) + 1` of row `i / 4`, and gets the elements of these rows
            /// in column `i / 4`. PTX ISA 9.7.14.5.17 `movmatrix`.
            movmatrix = Movmatrix (value: T) {} -> T : Vector, Sync / Warp + Own, SM_80, PTX_7_8
                where movmatrix(value);
            /// `bits`, and in bits 0 to 13 bits 4 to 17 of the address: the descriptor of a matrix
            /// in shared memory. PTX ISA 9.7.15.5.1 "matrix descriptor".
            matrix_descriptor = MatrixDescriptor (base: Pointer) { bits: u64 } -> U64
                : Any, Pure, SM_80 where matrix_descriptor(base, bits);
            /// `D = A B + D` where `accumulate`, else `D = A B`, by the four warps of a warp group,
            /// which do not wait for it. D is in registers `first ..` of the variable `d`, A and B
            /// in shared memory at the descriptors `a` and `b`. PTX ISA 9.7.15.5.2
            /// `wgmma.mma_async`.
            wgmma = Wgmma (a: U64, b: U64, accumulate: Bool)
                { shape: MmaShape, a_type: Scalar, b_type: Scalar, d: VarId, first: u32, form: WgmmaForm }
                -> Unit : Any, Sync / Warp + Own, SM_90A, PTX_8_0 where wgmma(shape, a_type, b_type, d, form);
            /// As `wgmma`, with each thread's part of A in `a`. PTX ISA 9.7.15.5.2
            /// `wgmma.mma_async`.
            wgmma_rs = WgmmaRs (a: Any, b: U64, accumulate: Bool)
                { shape: MmaShape, b_type: Scalar, d: VarId, first: u32, form: WgmmaForm } -> Unit
                : Any, Sync / Warp + Own, SM_90A, PTX_8_0 where wgmma_rs(a, shape, b_type, d, form);
            /// As `wgmma`, with half of the elements of A, whose columns are in `metadata` as for
            /// `mma_sync_sp`. PTX ISA 9.7.15.6 `wgmma.mma_async.sp`.
            wgmma_sp = WgmmaSp (a: U64, b: U64, metadata: U32, accumulate: Bool)
                { shape: MmaShape, a_type: Scalar, b_type: Scalar, selector: u32, d: VarId, first: u32,
                form: WgmmaForm }
                -> Unit : Any, Sync / Warp + Own, SM_90A, PTX_8_2
                where wgmma_sp(shape, a_type, b_type, selector, d, form);
            /// As `wgmma_sp`, with each thread's part of A in `a`. PTX ISA 9.7.15.6
            /// `wgmma.mma_async.sp`.
            wgmma_rs_sp = WgmmaRsSp (a: Any, b: U64, metadata: U32, accumulate: Bool)
                { shape: MmaShape, b_type: Scalar, selector: u32, d: VarId, first: u32, form: WgmmaForm }
                -> Unit : Any, Sync / Warp + Own, SM_90A, PTX_8_2
                where wgmma_rs_sp(a, shape, b_type, selector, d, form);
            /// Orders accesses to registers and shared memory before it with the `wgmma` after it.
            /// PTX ISA 9.7.15.7.1 `wgmma.fence`.
            wgmma_fence = WgmmaFence () {} -> Unit : Any, Sync / Warp, SM_90A, PTX_8_0;
            /// Makes a group of the `wgmma` that are in none. PTX ISA 9.7.15.7.2
            /// `wgmma.commit_group`.
            wgmma_commit_group = WgmmaCommitGroup () {} -> Unit : Any, Sync / Warp, SM_90A, PTX_8_0;
            /// Waits until at most `pending` groups of `wgmma` are not done, the latest ones.
            /// PTX ISA 9.7.15.7.3 `wgmma.wait_group`.
            wgmma_wait_group = WgmmaWaitGroup () { pending: u32 } -> Unit : Any, Sync / Warp, SM_90A, PTX_8_0;
            /// Changes the registers that each thread of the warp may use to `count`, a multiple of
            /// 8 from 24 to 256. PTX ISA 9.7.19.5 `setmaxnreg`.
            setmaxnreg = Setmaxnreg () { action: SetmaxnregAction, count: u32 } -> Unit
                : Any, Sync / Warp, SM_90A, PTX_8_0 where setmaxnreg(count);
        }
        /// Warp-level operations. Every thread whose bit is set in `members` must execute the
        /// operation, with the same `members`, unless it has exited.
        Warp {
            /// `value` of the lane that `mode`, `lane` and `segment` choose, and whether that lane
            /// is inside the segment; where it is not, `value` of the thread itself.
            /// PTX ISA 9.7.9.6 `shfl.sync`.
            shfl = Shfl (value: T, lane: U32, segment: U32, members: U32) { mode: ShflMode } -> T, Bool
                : Scalar, Sync / Members, SM_80;
            /// True where `pred` holds in all members, in any of them, or is the same in all of
            /// them. PTX ISA 9.7.13.9 `vote.sync`.
            vote = Vote (pred: Bool, members: U32) { mode: VoteMode } -> Bool : Any, Sync / Members, SM_80;
            /// The bits of the members in which `pred` holds. PTX ISA 9.7.13.9 `vote.sync.ballot`.
            vote_ballot = VoteBallot (pred: Bool, members: U32) {} -> U32 : Any, Sync / Members, SM_80;
            /// The bits of the members whose `value` has the same bits as the thread's.
            /// PTX ISA 9.7.13.10 `match.any.sync`.
            match_any = MatchAny (value: T, members: U32) {} -> U32 : ScalarNumber, Sync / Members, SM_80;
            /// `members` where `value` has the same bits in all of them, else 0; and whether it
            /// has. PTX ISA 9.7.13.10 `match.all.sync`.
            match_all = MatchAll (value: T, members: U32) {} -> U32, Bool
                : ScalarNumber, Sync / Members, SM_80;
            /// `value` of all members, combined; sums wrap. PTX ISA 9.7.13.12 `redux.sync`.
            redux = Redux (value: T, members: U32) { op: ReduxOp } -> T : Int32, Sync / Members, SM_80;
            /// The lane of one of the members, the same one in all, and whether it is the thread.
            /// PTX ISA 9.7.13.14 `elect.sync`.
            elect = Elect (members: U32) {} -> U32, Bool : Any, Sync / Members, SM_90, PTX_8_0;
            /// Waits for all members; memory accesses before it are seen by them after it.
            /// PTX ISA 9.7.13.2 `bar.warp.sync`.
            bar_warp = BarWarp (members: U32) {} -> Unit : Any, Sync / Members, SM_80;
            /// The bits of the lanes that execute it together. PTX ISA 9.7.13.11 `activemask`.
            activemask = Activemask () {} -> U32 : Any, Read, SM_80;
        }
        /// Operations of a single thread: special registers, traps and requests to the hardware.
        Thread {
            /// A special register that keeps its value while the thread runs. PTX ISA 10 `mov` from
            /// a special register.
            sreg = Sreg () { reg: SpecialReg } -> Reg : Any, Pure, SM_80 where special(reg);
            /// A special register that may change while the thread runs. PTX ISA 10 `mov` from a
            /// volatile special register.
            volatile_sreg = VolatileSreg () { reg: VolatileReg } -> Reg : Any, Read, SM_80;
            /// Sleeps for between 0 and `2 * nanoseconds`, at most a millisecond.
            /// PTX ISA 9.7.19.2 `nanosleep`.
            nanosleep = Nanosleep (nanoseconds: U32) {} -> Unit : Any, Sync, SM_80;
            /// Ends the whole grid with an error. PTX ISA 9.7.19.4 `trap`.
            trap = Trap () {} -> Unit : Any, Sync, SM_80;
            /// Stops in a debugger. PTX ISA 9.7.19.1 `brkpt`.
            brkpt = Brkpt () {} -> Unit : Any, Sync, SM_80;
        }
        }
    };
}

pub(in crate::ir) use warp_rows;
