//! Every collective equals its definition, for random sizes.

use tilewright::ir::bf16;
use tilewright::runtime::RuntimeError;
use tilewright::runtime::comm::{CommGroup, CommOptions, Communicator, ReduceOp};

use crate::ranks::{device_sets, each_rank};
use crate::support::rng::Rng;

const OPS: [ReduceOp; 5] =
    [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Min, ReduceOp::Max, ReduceOp::Average];

/// Small integers, so that results are exact in every type and order.
fn data(rank: usize, len: usize) -> Vec<i32> {
    (0..len).map(|i| ((i * 7 + rank * 5 + i / 3) % 4) as i32 + 1).collect()
}

fn combine(op: ReduceOp, parts: &[Vec<i32>]) -> Vec<i32> {
    let len = parts[0].len();
    let column = |i: usize| parts.iter().map(move |part| part[i]);
    (0..len)
        .map(|i| match op {
            ReduceOp::Sum => column(i).sum(),
            ReduceOp::Product => column(i).product(),
            ReduceOp::Min => column(i).min().unwrap(),
            ReduceOp::Max => column(i).max().unwrap(),
            ReduceOp::Average => column(i).sum::<i32>() / parts.len() as i32,
        })
        .collect()
}

/// All collectives of a rank with parts of `len` elements.
fn check_rank(comm: &Communicator, op: ReduceOp, len: usize) -> Result<(), RuntimeError> {
    let (device, ranks, rank) = (comm.device(), comm.ranks() as usize, comm.rank() as usize);
    let stream = device.stream()?;
    let parts: Vec<Vec<i32>> = (0..ranks).map(|rank| data(rank, len)).collect();
    let sum = combine(op, &parts);
    let x = device.upload(&parts[rank])?;
    let mut y = device.zeros(len)?;
    comm.all_reduce(&stream, op, &x, &mut y)?;
    assert_eq!(y.to_vec()?, sum, "all_reduce({op:?}) of {len} on {ranks}");
    let mut y = device.upload(&parts[rank])?;
    comm.all_reduce_in_place(&stream, op, &mut y)?;
    assert_eq!(y.to_vec()?, sum, "all_reduce_in_place({op:?}) of {len} on {ranks}");

    let mut all = device.zeros(len * ranks)?;
    comm.all_gather(&stream, &x, &mut all)?;
    assert_eq!(all.to_vec()?, parts.concat(), "all_gather of {len} on {ranks}");

    // The elements of rank `r` are those of the part `r` of each rank, shifted so that parts
    // differ.
    let of = |from: usize| -> Vec<i32> { (0..ranks).flat_map(|to| data(from + to, len)).collect() };
    let mut part = device.zeros(len)?;
    comm.reduce_scatter(&stream, op, &device.upload(&of(rank))?, &mut part)?;
    let expected: Vec<Vec<i32>> = (0..ranks).map(|from| data(from + rank, len)).collect();
    assert_eq!(
        part.to_vec()?,
        combine(op, &expected),
        "reduce_scatter({op:?}) of {len} on {ranks}"
    );

    let root = len % ranks;
    let mut y = device.upload(&parts[rank])?;
    comm.broadcast(&stream, root as u32, &mut y)?;
    assert_eq!(y.to_vec()?, parts[root], "broadcast of {len} from {root} of {ranks}");

    // A ring: each rank sends to the next one.
    let [next, last] = [(rank + 1) % ranks, (rank + ranks - 1) % ranks].map(|rank| rank as u32);
    let mut y = device.zeros::<i32>(len)?;
    let mut group = CommGroup::new();
    group.send(comm, &stream, next, &x)?;
    group.recv(comm, &stream, last, &mut y)?;
    group.run()?;
    assert_eq!(y.to_vec()?, parts[last as usize], "ring of {len} on {ranks}");
    Ok(())
}

fn check_ranks(ranks: u32) {
    for devices in device_sets(ranks) {
        // 50 sizes for each of 4 numbers of ranks.
        each_rank(CommOptions::default(), &devices, |comm| {
            let mut rng = Rng::new(24);
            for i in 0..50 {
                let len = if i < 3 { i + 1 } else { rng.below(3000) + 1 };
                check_rank(&comm, OPS[i % OPS.len()], len).expect("the collectives end well");
            }
        });
    }
}

#[test]
fn collectives_of_1_rank() {
    check_ranks(1);
}

#[test]
fn collectives_of_2_ranks() {
    check_ranks(2);
}

#[test]
fn collectives_of_4_ranks() {
    check_ranks(4);
}

#[test]
fn collectives_of_8_ranks() {
    check_ranks(8);
}

/// Parts of buffers are arguments like others, and types of 16 bits are reduced.
#[test]
fn parts_of_buffers_and_16_bit_elements() {
    for devices in device_sets(2) {
        each_rank(CommOptions::default(), &devices, |comm| {
            let (device, rank) = (comm.device(), comm.rank() as f32);
            let values: Vec<bf16> = (0..24).map(|i| bf16::from_f32(i as f32 + rank)).collect();
            let x = device.upload(&values).unwrap();
            let mut y = device.zeros::<bf16>(24).unwrap();
            let stream = device.stream().unwrap();
            let from = x.part(8..11).unwrap();
            comm.all_reduce(&stream, ReduceOp::Sum, &from, &mut y.part_mut(16..19).unwrap())
                .unwrap();
            // The work uses the memory of `x`, which is freed behind it.
            drop(from);
            drop(x);
            let y: Vec<f32> = y.to_vec().unwrap().into_iter().map(bf16::to_f32).collect();
            assert_eq!(y[16..19], [17.0, 19.0, 21.0]);
            assert!(y[..16].iter().chain(&y[19..]).all(|y| *y == 0.0));
        });
    }
}

/// A graph has the collective of its rank, keeps what it uses, and runs it each time.
#[test]
fn graphs_record_collectives() {
    for devices in device_sets(2) {
        each_rank(CommOptions::default(), &devices, |comm| {
            let device = comm.device();
            let x = device.upload(&[comm.rank() as i32 + 1; 33]).unwrap();
            let mut y = device.zeros::<i32>(33).unwrap();
            let mut z = device.zeros::<i32>(33).unwrap();
            let graph = device.graph().unwrap();
            comm.all_reduce(graph.stream(), ReduceOp::Sum, &x, &mut y).unwrap();
            comm.all_reduce(graph.stream(), ReduceOp::Sum, &y, &mut z).unwrap();
            let graph = graph.finish().unwrap();
            drop(x);
            assert_eq!((graph.len(), z.to_vec().unwrap()), (2, vec![0; 33]));
            for _ in 0..3 {
                graph.launch().unwrap();
            }
            assert_eq!(z.to_vec().unwrap(), [6; 33]);
        });
    }
}

/// One thread makes the calls of all ranks; the calls of a rank keep their order.
#[test]
fn one_thread_groups_the_calls_of_all_ranks() {
    for devices in device_sets(2) {
        let ranks = Communicator::all(&devices).unwrap();
        let streams: Vec<_> = devices.iter().map(|device| device.stream().unwrap()).collect();
        let mut x: Vec<_> =
            devices.iter().zip(1..).map(|(device, i)| device.upload(&[i; 5]).unwrap()).collect();
        let mut all: Vec<_> = devices.iter().map(|d| d.zeros::<i32>(10).unwrap()).collect();
        for _ in 0..2 {
            let mut group = CommGroup::new();
            for ((comm, stream), x) in ranks.iter().zip(&streams).zip(&mut x) {
                group.all_reduce_in_place(comm, stream, ReduceOp::Sum, x).unwrap();
            }
            group.run().unwrap();
        }
        let mut group = CommGroup::new();
        for (((comm, stream), x), all) in ranks.iter().zip(&streams).zip(&x).zip(&mut all) {
            group.all_gather(comm, stream, x, all).unwrap();
        }
        assert_eq!(format!("{group:?}"), "[\"all_gather of 5 i32\", \"all_gather of 5 i32\"]");
        group.run().unwrap();
        assert!(all.iter().all(|all| all.to_vec().unwrap() == [6; 10]));
    }
}

/// A call costs no host wait and no memory: 10,000 of them leave what was there. (On a GPU.)
#[test]
fn iterations_leave_no_memory_behind() {
    let Some(devices) = crate::ranks::gpus(2) else { return };
    each_rank(CommOptions::default(), &devices, |comm| {
        let (device, stream) = (comm.device(), comm.device().stream().unwrap());
        let x = device.zeros::<f32>(1 << 20).unwrap();
        let used = |iterations: usize| {
            for _ in 0..iterations {
                // Each buffer is dropped in flight.
                let mut y = device.zeros::<f32>(1 << 20).unwrap();
                comm.all_reduce(&stream, ReduceOp::Sum, &x, &mut y).unwrap();
            }
            device.synchronize().unwrap();
            let (free, total) = device.memory().unwrap().unwrap();
            total - free
        };
        let before = used(100);
        let after = used(10_000);
        assert!(after <= before + (4 << 20), "{before} bytes in use, then {after}");
    });
}
