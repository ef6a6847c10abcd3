//! Names the bulk copy instructions: TMA boxes and runs of contiguous bytes, started by one thread.
//! To issue one, use [`TmaCopy`](crate::tensor::copy::TmaCopy) or
//! [`bulk_copy`](crate::tensor::copy::bulk_copy).

use crate::ir::op::BulkReduce;

/// A TMA instruction. [`TmaCopy`](crate::tensor::copy::TmaCopy) issues it; you name one to get its
/// [atom](crate::tensor::copy::TmaCopy::atom), for example to compare layouts with CuTe's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TmaOp {
    /// Global to shared memory, completing on an mbarrier. CuTe's `SM90_TMA_LOAD`.
    Load,
    /// The same, multicast to several blocks of a cluster. CuTe's `SM90_TMA_LOAD_MULTICAST`.
    LoadMulticast,
    /// Shared to global memory. CuTe's `SM90_TMA_STORE`.
    Store,
    /// Im2col pixel columns from global to shared memory. CuTe's `SM90_TMA_LOAD_IM2COL`.
    LoadIm2col,
    /// The same, multicast to several blocks of a cluster. CuTe's `SM90_TMA_LOAD_IM2COL_MULTICAST`.
    LoadIm2colMulticast,
    /// Im2col pixel columns from shared to global memory. CuTe's `SM90_TMA_STORE_IM2COL`.
    StoreIm2col,
    /// Shared memory reduced into global memory. CuTe has `SM90_TMA_REDUCE_ADD`; the names of the
    /// other reductions follow it.
    Reduce(BulkReduce),
}

const REDUCTIONS: [(BulkReduce, &str); 8] = [
    (BulkReduce::Add, "SM90_TMA_REDUCE_ADD"),
    (BulkReduce::Min, "SM90_TMA_REDUCE_MIN"),
    (BulkReduce::Max, "SM90_TMA_REDUCE_MAX"),
    (BulkReduce::Inc, "SM90_TMA_REDUCE_INC"),
    (BulkReduce::Dec, "SM90_TMA_REDUCE_DEC"),
    (BulkReduce::And, "SM90_TMA_REDUCE_AND"),
    (BulkReduce::Or, "SM90_TMA_REDUCE_OR"),
    (BulkReduce::Xor, "SM90_TMA_REDUCE_XOR"),
];

impl TmaOp {
    /// Iterates over all operations, for example to test or list them.
    pub fn all() -> impl Iterator<Item = TmaOp> {
        let plain = [TmaOp::Load, TmaOp::LoadMulticast, TmaOp::Store];
        let im2col = [TmaOp::LoadIm2col, TmaOp::LoadIm2colMulticast, TmaOp::StoreIm2col];
        plain.into_iter().chain(im2col).chain(REDUCTIONS.map(|(op, _)| TmaOp::Reduce(op)))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            TmaOp::Load => "SM90_TMA_LOAD",
            TmaOp::LoadMulticast => "SM90_TMA_LOAD_MULTICAST",
            TmaOp::Store => "SM90_TMA_STORE",
            TmaOp::LoadIm2col => "SM90_TMA_LOAD_IM2COL",
            TmaOp::LoadIm2colMulticast => "SM90_TMA_LOAD_IM2COL_MULTICAST",
            TmaOp::StoreIm2col => "SM90_TMA_STORE_IM2COL",
            TmaOp::Reduce(op) => {
                REDUCTIONS.iter().find(|(found, _)| *found == op).map_or("", |(_, name)| name)
            }
        }
    }

    /// The PTX instruction, without the dimension count, which comes from the tensor map.
    pub(super) fn instruction(self) -> String {
        let load = |mode| {
            format!(
                "cp.async.bulk.tensor.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes"
            )
        };
        match self {
            TmaOp::Load => load("tile"),
            TmaOp::LoadMulticast => load("tile") + ".multicast::cluster",
            TmaOp::LoadIm2col => load("im2col"),
            TmaOp::LoadIm2colMulticast => load("im2col") + ".multicast::cluster",
            TmaOp::StoreIm2col => {
                "cp.async.bulk.tensor.global.shared::cta.im2col_no_offs.bulk_group".to_owned()
            }
            TmaOp::Store => "cp.async.bulk.tensor.global.shared::cta.tile.bulk_group".to_owned(),
            TmaOp::Reduce(op) => {
                format!("cp.reduce.async.bulk.tensor.global.shared::cta.{op}.tile.bulk_group")
            }
        }
    }

    /// The function that issues it.
    pub(super) const fn method(self) -> &'static str {
        match self {
            TmaOp::Load => "TmaCopy::load",
            TmaOp::LoadMulticast => "TmaCopy::load_multicast",
            TmaOp::Store => "TmaCopy::store",
            TmaOp::LoadIm2col => "Im2colCopy::load",
            TmaOp::LoadIm2colMulticast => "Im2colCopy::load_multicast",
            TmaOp::StoreIm2col => "Im2colCopy::store",
            TmaOp::Reduce(_) => "TmaCopy::reduce",
        }
    }
}

/// A bulk copy of contiguous bytes. [`bulk_copy`](crate::tensor::copy::bulk_copy) and
/// [`bulk_store`](crate::tensor::copy::bulk_store) issue it. You name one only to get the layouts
/// of its [`CopyAtom`](crate::tensor::atom::CopyAtom).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BulkOp {
    /// Global to shared memory, completing on an mbarrier. CuTe's `SM90_BULK_COPY_G2S`.
    G2S,
    /// Shared to global memory. CuTe's `SM90_BULK_COPY_S2G`.
    S2G,
}

impl BulkOp {
    /// Both operations, for example to list them.
    pub const ALL: [BulkOp; 2] = [BulkOp::G2S, BulkOp::S2G];

    pub(super) const fn name(self) -> &'static str {
        match self {
            BulkOp::G2S => "SM90_BULK_COPY_G2S",
            BulkOp::S2G => "SM90_BULK_COPY_S2G",
        }
    }

    pub(super) const fn instruction(self) -> &'static str {
        match self {
            BulkOp::G2S => "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
            BulkOp::S2G => "cp.async.bulk.global.shared::cta.bulk_group",
        }
    }

    pub(super) const fn method(self) -> &'static str {
        match self {
            BulkOp::G2S => "bulk_copy",
            BulkOp::S2G => "bulk_store",
        }
    }
}
