//! Parallel layers equal the layer on one device, for random sizes and each overlap.

use tilewright::ir::{Number, bf16};
use tilewright::kernels::parallel::{
    ColumnParallel, CommOverlap, ParallelSizes, RowOutput, RowParallel,
};
use tilewright::runtime::comm::{CommOptions, Communicator};

use crate::ranks::{device_sets, each_rank};
use crate::support::gemm_case::Real;
use crate::support::rng::Rng;

/// Numbers of -1, 0 and 1: sums of up to 256 products are exact in every type.
fn matrix<T: Real>(rows: usize, columns: usize, seed: usize) -> Vec<T> {
    let mut rng = Rng::new(seed as u64);
    (0..rows * columns).map(|_| T::of(rng.below(3) as f32 - 1.0)).collect()
}

/// `X W^T` of an `m x k` and an `n x k` matrix.
fn product<T: Real>(x: &[T], w: &[T], k: usize) -> Vec<f64> {
    let row = |x: &[T], w: &[T]| x.iter().zip(w).map(|(x, w)| x.to() * w.to()).sum();
    x.chunks(k).flat_map(|x| w.chunks(k).map(move |w| row(x, w))).collect()
}

fn numbers<T: Real>(all: &[T]) -> Vec<f64> {
    all.iter().map(|x| x.to()).collect()
}

fn check_rank<T: Real + Number>(
    comm: &Communicator,
    sizes: ParallelSizes,
    overlap: Option<CommOverlap>,
) {
    let (device, ranks, rank) = (comm.device(), comm.ranks() as usize, comm.rank() as usize);
    let [rows, n, k] = [sizes.rows, sizes.n, sizes.k].map(|size| size as usize);
    let what = format!("{sizes:?} on {ranks} ranks, {overlap:?}");
    let stream = device.stream().unwrap();

    let mut column = ColumnParallel::<T>::new(comm, sizes, overlap).unwrap();
    let x: Vec<Vec<T>> = (0..ranks).map(|rank| matrix(rows, k, rank)).collect();
    let w: Vec<Vec<T>> = (0..ranks).map(|rank| matrix(n, k, 10 + rank)).collect();
    let (own_x, own_w) = (device.upload(&x[rank]).unwrap(), device.upload(&w[rank]).unwrap());
    let mut y = device.zeros(ranks * rows * n).unwrap();
    // Twice: the second one reuses the workspace.
    for _ in 0..2 {
        y.fill(T::of(-77.0), &stream).unwrap();
        column.forward(&stream, &own_x, &own_w, &mut y).unwrap();
    }
    let expected = product(&x.concat(), &w[rank], k);
    assert_eq!(numbers(&y.to_vec().unwrap()), expected, "column-parallel, {what}");

    let x: Vec<Vec<T>> = (0..ranks).map(|rank| matrix(ranks * rows, k, rank)).collect();
    let own_x = device.upload(&x[rank]).unwrap();
    let parts: Vec<Vec<f64>> = x.iter().zip(&w).map(|(x, w)| product(x, w, k)).collect();
    let sum = |i: usize| parts.iter().map(|part| part[i]).sum::<f64>();
    for output in [RowOutput::Scattered, RowOutput::Everywhere] {
        let mut row = RowParallel::<T>::new(comm, sizes, output, overlap).unwrap();
        let range = match output {
            RowOutput::Scattered => rank * rows * n..(rank + 1) * rows * n,
            RowOutput::Everywhere => 0..ranks * rows * n,
        };
        let mut y = device.zeros(range.len()).unwrap();
        for _ in 0..2 {
            y.fill(T::of(-77.0), &stream).unwrap();
            row.forward(&stream, &own_x, &own_w, &mut y).unwrap();
        }
        let expected: Vec<f64> = range.map(sum).collect();
        assert_eq!(numbers(&y.to_vec().unwrap()), expected, "row-parallel, {output:?}, {what}");
    }
}

fn check_ranks<T: Real + Number>(ranks: u32, cases: usize) {
    let chunks = |chunks| Some(CommOverlap::Chunks { chunks, comm_sms: 16 });
    let overlaps = [None, Some(CommOverlap::None), chunks(1), chunks(2), chunks(3)];
    for devices in device_sets(ranks) {
        // The simulator takes seconds for a case.
        let cases = if devices[0].is_sim() { cases } else { 200 };
        each_rank(CommOptions::default(), &devices, |comm| {
            let mut rng = Rng::new(ranks.into());
            for i in 0..cases {
                let mut size = |most: usize| rng.below(most) as u32 + 1;
                let mut sizes = ParallelSizes { rows: size(40), n: size(30), k: size(30) };
                if i % 3 == 1 {
                    // Rows of 16 bytes, so that the own rows come first.
                    sizes = ParallelSizes { n: sizes.n.next_multiple_of(8), k: 16, ..sizes };
                }
                check_rank::<T>(&comm, sizes, overlaps[i % overlaps.len()]);
            }
        });
    }
}

#[test]
fn layers_on_1_rank() {
    check_ranks::<bf16>(1, 6);
}

#[test]
fn layers_on_2_ranks() {
    check_ranks::<bf16>(2, 6);
    check_ranks::<f32>(2, 4);
}

#[test]
fn layers_on_4_ranks() {
    check_ranks::<bf16>(4, 4);
}

#[test]
fn layers_on_8_ranks() {
    check_ranks::<bf16>(8, 2);
}

/// Large sizes, whose products run beside their communication. (On GPUs.)
#[test]
fn large_layers_on_gpus() {
    let Some(devices) = crate::ranks::gpus(2) else { return };
    each_rank(CommOptions::default().max_blocks(16), &devices, |comm| {
        for chunks in [1, 2, 4] {
            let overlap = Some(CommOverlap::Chunks { chunks, comm_sms: 16 });
            check_rank::<bf16>(&comm, ParallelSizes { rows: 1030, n: 264, k: 72 }, overlap);
            check_rank::<bf16>(&comm, ParallelSizes { rows: 1023, n: 257, k: 65 }, overlap);
        }
    });
}

/// A graph has the layers, one call after the other, and they run each time.
#[test]
fn graphs_record_layers() {
    for devices in device_sets(2) {
        each_rank(CommOptions::default(), &devices, |comm| {
            let device = comm.device();
            let sizes = ParallelSizes { rows: 16, n: 8, k: 8 };
            let overlap = Some(CommOverlap::Chunks { chunks: 2, comm_sms: 16 });
            let mut layer =
                RowParallel::<f32>::new(&comm, sizes, RowOutput::Scattered, overlap).unwrap();
            let mut x = device.zeros::<f32>(32 * 8).unwrap();
            let w = device.upload(&[1.0f32; 64]).unwrap();
            let mut y = device.zeros::<f32>(16 * 8).unwrap();
            let graph = device.graph().unwrap();
            layer.forward(graph.stream(), &x, &w, &mut y).unwrap();
            let graph = graph.finish().unwrap();
            drop(layer);
            for value in [1.0, 2.0] {
                x.write(&[value; 32 * 8]).unwrap();
                graph.launch().unwrap();
                assert_eq!(y.to_vec().unwrap(), [16.0 * value; 16 * 8]);
            }
        });
    }
}

/// Buffers of a wrong length are typed errors.
#[test]
fn wrong_lengths_are_refused() {
    use tilewright::kernels::gemm::GemmError;
    let devices = device_sets(1).swap_remove(0);
    let comm = Communicator::all(&devices).unwrap().swap_remove(0);
    let (device, stream) = (comm.device(), comm.device().stream().unwrap());
    let sizes = ParallelSizes { rows: 2, n: 3, k: 4 };
    let mut layer = ColumnParallel::<f32>::new(&comm, sizes, None).unwrap();
    let (x, w) = (device.zeros::<f32>(8).unwrap(), device.zeros::<f32>(12).unwrap());
    let mut y = device.zeros::<f32>(5).unwrap();
    let error = layer.forward(&stream, &x, &w, &mut y).unwrap_err();
    assert_eq!(error, GemmError::BufferLength { operand: "Y", found: 5, needed: 6 });
    let error = ColumnParallel::<f32>::new(&comm, ParallelSizes { rows: 0, ..sizes }, None);
    assert!(matches!(error.unwrap_err(), GemmError::Size { name: "m", size: 0 }));
}
