//! Bulk copies of contiguous tensors: what arrives, and what is refused.

use crate::support::device;

use tilewright::ir::op::{BulkWait, ProxySpace};
use tilewright::ir::types::Scalar;
use tilewright::ir::{Global, GlobalMut, Kernel, Target};
use tilewright::layout::{ComposedLayout, Layout, layout};
use tilewright::runtime::Grid;
use tilewright::tensor::atom::{CopyAtom, CopyOp, TiledCopy, TmaOp};
use tilewright::tensor::copy::{bulk_copy, bulk_store};
use tilewright::tensor::view::{SharedTensor, Tensor, TensorPointer};

/// A tensor goes to shared memory and back: each element arrives at its coordinate, in as many
/// copies as there are runs.
#[test]
fn elements_arrive_where_they_belong() {
    for (from, tile, to, runs) in [
        (layout!(256), layout!(256), layout!(256), [1, 1]),
        // The same order in both, whatever the coordinates.
        (layout!((8, 32):(32, 1)), layout!((8, 32):(32, 1)), layout!((8, 32):(32, 1)), [1, 1]),
        // Rows of a larger matrix, and rows with space between them.
        (layout!((8, 32):(40, 1)), layout!((8, 32):(36, 1)), layout!((8, 32):(32, 1)), [8, 8]),
        (layout!((32, 4, 2):(1, 64, 32)), layout!((32, 4, 2)), layout!((32, 4, 2)), [8, 1]),
    ] {
        let cosize = |layout: &Layout| layout.cosize().unwrap().to_static().unwrap() as usize;
        type InOut = (Global<i32>, GlobalMut<i32>);
        let kernel = Kernel::<InOut>::build("bulk", Target::SM_90, |k, (x, y)| {
            let x = Tensor::new(TensorPointer::new(x).assume_aligned(16), from.clone());
            let y = Tensor::new(TensorPointer::new(y).assume_aligned(16), to.clone());
            let tile = SharedTensor::<i32>::shared_aligned(k, tile.clone(), 16);
            let full = k.shared::<u64>(1).mbarrier(0);
            k.if_(k.thread_idx().x.eq(0), |k| {
                full.init(1);
                k.fence_mbarrier_init();
                let bytes = bulk_copy(&x, &tile, full);
                assert_eq!(bytes, 1024);
                full.arrive_expect_tx(bytes);
                full.wait_parity(0);
                k.fence_proxy_async(ProxySpace::SharedCta);
                bulk_store(&tile, &y);
                k.cp_async_bulk_commit_group();
                k.cp_async_bulk_wait_group(0, BulkWait::Done);
            });
        })
        .unwrap();
        let ptx = kernel.ptx();
        for (name, count) in
            ["cp.async.bulk.shared::cluster", "cp.async.bulk.global"].iter().zip(runs)
        {
            assert_eq!(ptx.text().matches(name).count(), count, "{from} to {tile} to {to}");
        }
        let values: Vec<i32> = (0..cosize(&from) as i32).map(|i| 3 * i + 1).collect();
        for device in device::devices() {
            if device.target() < Target::SM_90 {
                continue;
            }
            let (x, mut y) =
                (device.upload(&values).unwrap(), device.zeros::<i32>(cosize(&to)).unwrap());
            let grid = Grid::new([1, 1, 1], [32, 1, 1]);
            device.load(&kernel).unwrap().launch(grid, (&x, &mut y)).unwrap();
            let found = y.to_vec().unwrap();
            for (from, to) in from.indices().unwrap().zip(to.indices().unwrap()) {
                assert_eq!(found[to as usize], values[from as usize], "{to}");
            }
        }
    }
}

#[test]
fn what_bulk_copies_do_not_move_is_named() {
    let tma = CopyAtom::new(CopyOp::Tma { op: TmaOp::Load, bits: 128 }).unwrap();
    let tma = TiledCopy::new(tma, Scalar::F32, &layout!((8, 8)), &layout!((1, 4))).unwrap();
    let bulk: CopyAtom = "SM90_BULK_COPY_S2G<128>".parse().unwrap();
    let bulk = TiledCopy::new(bulk, Scalar::F32, &layout!((8, 8)), &layout!((1, 4))).unwrap();
    let errors = Kernel::<(GlobalMut<f32>,)>::build("wrong", Target::SM_90, |k, (x,)| {
        let full = k.shared::<u64>(1).mbarrier(0);
        let aligned = TensorPointer::new(x).assume_aligned(16);
        let x = Tensor::new(x, layout!((8, 32):(32, 1)));
        let rows = Tensor::new(aligned, layout!((8, 32):(32, 1)));
        let odd = Tensor::new(aligned, layout!((8, 32):(33, 1)));
        let tile = SharedTensor::<f32>::shared(k, layout!((8, 32):(32, 1)));
        let columns = SharedTensor::<f32>::shared(k, layout!((8, 32)));
        let swizzled: ComposedLayout = "S<3,2,3> o 0 o (8,32):(32,1)".parse().unwrap();
        let swizzled = SharedTensor::<f32>::shared_aligned(k, swizzled, 128);
        bulk_copy(&x, &tile, full);
        bulk_copy(&odd, &tile, full);
        bulk_copy(&rows, &columns, full);
        bulk_copy(&rows, &swizzled, full);
        bulk_store(&tile.slice((.., 0)), &rows);
        let thr = tma.slice(0);
        thr.copy(&thr.partition_s(&rows), &thr.partition_d(&tile));
        let thr = bulk.slice(0);
        thr.copy(&thr.partition_s(&tile), &thr.partition_d(&rows));
    })
    .expect_err("all of it is wrong");
    let texts: Vec<String> = errors.iter().map(|error| error.kind.to_string()).collect();
    let ends = [
        "bulk copies must start at a multiple of 16 bytes, but a run of ptr<f32, gmem, align<4>> o (8,32):(32,1) is only known to start at a multiple of 4; align memory and strides, or state the alignment with `TensorPointer::assume_aligned`",
        "bulk copies must start at a multiple of 16 bytes, but a run of ptr<f32, gmem, align<16>> o (8,32):(33,1) is only known to start at a multiple of 4; align memory and strides, or state the alignment with `TensorPointer::assume_aligned`",
        "only 1 elements (4 bytes) are contiguous in both tensors, but bulk copies move multiples of 16 bytes",
        "bulk copies cannot swizzle, but ptr<f32, smem, align<16>, S<3,2,3>> o (8,32):(32,1) is swizzled: copy it with `TmaCopy`",
        "cannot copy a tensor of shape (8) to one of shape (8,32): both must have the same number of elements",
        "SM90_TMA_LOAD<128> needs more than a source and a destination (a barrier or a tensor map): use `TmaCopy::load` to execute it",
        "SM90_BULK_COPY_S2G<128> needs more than a source and a destination (a barrier or a tensor map): use `bulk_store` to execute it",
    ];
    assert_eq!(texts.len(), ends.len(), "{texts:#?}");
    for (text, end) in texts.iter().zip(ends) {
        assert!(text.ends_with(end), "{text}\n{end}");
    }
}
