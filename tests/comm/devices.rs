//! Several devices in one process: what belongs to one is refused by the others.

use tilewright::ir::{GlobalMut, Kernel};
use tilewright::runtime::comm::{CommError, CommGroup, Communicator, ReduceOp, UniqueId};
use tilewright::runtime::{Device, Grid, LaunchOptions, RuntimeError};

use crate::ranks::device_sets;

fn comm_error<R: std::fmt::Debug>(result: Result<R, RuntimeError>) -> CommError {
    match result {
        Err(RuntimeError::Comm(error)) => *error,
        other => panic!("{other:?} is no error of a communicator"),
    }
}

/// A kernel is loaded for each device, and runs on its buffers and streams only.
#[test]
fn functions_belong_to_a_device() {
    for devices in device_sets(2) {
        let [first, second] = [&devices[0], &devices[1]];
        let kernel = Kernel::<(GlobalMut<i32>,)>::build("fill", first.target(), |k, (x,)| {
            x.store(k.thread_idx().x, 7)
        });
        let kernel = kernel.unwrap();
        let loaded = devices.iter().map(|device| device.load(&kernel).unwrap());
        let loaded: Vec<_> = loaded.collect();
        let mut buffers = devices.iter().map(|device| device.zeros(32).unwrap());
        let [mut x, mut y] = [buffers.next().unwrap(), buffers.next().unwrap()];
        loaded[0].launch(Grid::cover(32, 32), (&mut x,)).unwrap();
        loaded[1].launch(Grid::cover(32, 32), (&mut y,)).unwrap();
        assert_eq!((x.to_vec().unwrap(), y.to_vec().unwrap()), (vec![7; 32], vec![7; 32]));

        let error = loaded[0].launch(Grid::cover(32, 32), (&mut y,)).unwrap_err();
        assert!(matches!(error, RuntimeError::OtherDevice { .. }), "{error}");
        let stream = second.stream().unwrap();
        let options = LaunchOptions::default().stream(&stream);
        let error = loaded[0].launch_with(options, Grid::cover(32, 32), (&mut x,)).unwrap_err();
        assert!(matches!(error, RuntimeError::OtherDeviceStream { .. }), "{error}");
        let error = x.copy_from(&y, &stream).unwrap_err();
        assert!(matches!(error, RuntimeError::OtherDeviceStream { .. }), "{error}");
        let error = x.fill(1, &stream).unwrap_err();
        assert!(matches!(error, RuntimeError::OtherDeviceStream { .. }), "{error}");
        let event = first.stream().unwrap().record().unwrap();
        assert_eq!(stream.wait_for(&event), Err(RuntimeError::OtherDeviceEvent));
        let graph = first.graph().unwrap().finish().unwrap();
        let error = graph.launch_on(&stream).unwrap_err();
        assert!(matches!(error, RuntimeError::OtherDeviceStream { .. }), "{error}");
    }
}

/// Each wrong argument of a communicator is a typed error, and the communicator works on.
#[test]
fn wrong_arguments_of_communicators() {
    assert_eq!(comm_error(Communicator::all(&[])), CommError::NoDevices);
    for devices in device_sets(2) {
        let twice = [devices[0].clone(), devices[0].clone()];
        let error = comm_error(Communicator::all(&twice));
        assert_eq!(error, CommError::SameDevice { device: devices[0].to_string() });
        let ranks = Communicator::all(&devices).unwrap();
        let streams: Vec<_> = devices.iter().map(|device| device.stream().unwrap()).collect();
        let x: Vec<_> = devices.iter().map(|device| device.upload(&[1i32; 6]).unwrap()).collect();
        let mut y = devices[0].zeros::<i32>(6).unwrap();
        let mut short = devices[0].zeros::<i32>(5).unwrap();
        let comm = &ranks[0];
        let sum = ReduceOp::Sum;
        let error = comm_error(comm.all_reduce(&streams[0], sum, &x[1], &mut y));
        assert!(
            matches!(error, CommError::OtherDevice { what: "the input", rank: 0, .. }),
            "{error}"
        );
        let error = comm_error(comm.all_reduce(&streams[1], sum, &x[0], &mut y));
        assert!(matches!(error, CommError::OtherDevice { what: "the stream", .. }), "{error}");
        let error = comm_error(comm.all_reduce(&streams[0], sum, &x[0], &mut short));
        assert_eq!(
            error.to_string(),
            "`all_reduce` on 2 ranks turns 6 elements into 6, but its output has 5: make the output as long"
        );
        let error = comm_error(comm.all_gather(&streams[0], &x[0], &mut y));
        assert!(matches!(error, CommError::Length { from: 6, to: 6, .. }), "{error}");
        let error = comm_error(comm.reduce_scatter(&streams[0], sum, &short, &mut y));
        assert!(error.to_string().contains("turns 5 elements into 5 / 2"), "{error}");
        let error = comm_error(comm.send(&streams[0], 2, &x[0]));
        assert_eq!(error, CommError::Rank { rank: 2, ranks: 2 });
        let mut bools = devices[0].upload(&[true; 3]).unwrap();
        let error = comm_error(comm.all_reduce_in_place(&streams[0], sum, &mut bools));
        assert!(matches!(error, CommError::UnsupportedType { .. }), "{error}");
        // Nothing of it was queued.
        let mut z = devices[1].zeros::<i32>(6).unwrap();
        let mut group = CommGroup::new();
        group.all_reduce(&ranks[0], &streams[0], sum, &x[0], &mut y).unwrap();
        group.all_reduce(&ranks[1], &streams[1], sum, &x[1], &mut z).unwrap();
        group.run().unwrap();
        assert_eq!(z.to_vec().unwrap(), [2; 6]);
        assert_eq!(y.to_vec().unwrap(), [2; 6]);
    }
}

/// A unique id travels through a file, which is never replaced and never read in part.
#[test]
fn unique_ids_travel_through_files() {
    use std::time::Duration;
    let folder = std::env::temp_dir().join(format!("tilewright-comm-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("id");
    let id = UniqueId::new(&Device::sim().unwrap()).unwrap();
    let error = comm_error(UniqueId::read_file(&path, Duration::from_millis(30)));
    assert!(matches!(error, CommError::IdFile { .. }), "{error}");
    let reader = {
        let path = path.clone();
        std::thread::spawn(move || UniqueId::read_file(path, Duration::from_secs(60)))
    };
    id.write_file(&path).unwrap();
    assert_eq!(reader.join().unwrap(), Ok(id));
    assert!(matches!(comm_error(id.write_file(&path)), CommError::IdFile { .. }));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no temporary file is left");
    std::fs::write(&path, b"short").unwrap();
    let error = comm_error(UniqueId::read_file(&path, Duration::ZERO));
    assert_eq!(error, CommError::IdLength { bytes: 5 });
    std::fs::remove_dir_all(&folder).unwrap();
}
