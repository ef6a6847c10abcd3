//! Checks views by mode, zipped tensors, printing, and elements at indices that are values.

use crate::support::{device, rng::Rng};

use tilewright::ir::{BuildErrors, Global, GlobalMut, Kernel, Target, f16};
use tilewright::layout::{IntTuple, Layout, layout, shape, tiler};
use tilewright::runtime::{Device, Grid};
use tilewright::sim;
use tilewright::tensor::copy::copy_if;
use tilewright::tensor::view::{CoordTensor, Tensor, TensorSsa, ZipTensor, print_tensor};

/// A view has the layout that the algebra of the host gives, and the elements of that layout.
#[test]
fn views_are_those_of_the_algebra() {
    let from = layout!(((2, 3), (1, 4), 2) : ((1, 2), (0, 6), 0));
    type View = (&'static str, Layout);
    let views: [View; 6] = [
        ("flatten", from.flatten().unwrap()),
        ("filter", from.filter().unwrap()),
        ("filter_zeros", from.filter_zeros()),
        ("take", from.take(0, 2).unwrap()),
        ("get", from.get(&[1]).unwrap()),
        ("append_ones", from.append_ones(5).unwrap()),
    ];
    for (name, expected) in views {
        type Signature = (Global<i32>, GlobalMut<i32>);
        let mut size = 0;
        let kernel = Kernel::<Signature>::build("view", Target::SM_80, |_, (x, y)| {
            let x = Tensor::new(x, from.clone());
            let view = match name {
                "flatten" => x.flatten(),
                "filter" => x.filter(),
                "filter_zeros" => x.filter_zeros(),
                "take" => x.take(0, 2),
                "get" => x.get(&[1]),
                _ => x.append_ones(5),
            };
            assert_eq!(*view.layout(), expected, "{name}");
            size = view.size();
            Tensor::new(y, Layout::compact(size)).store_all(&view.load_all().reshape(size));
        });
        let kernel = kernel.unwrap();
        for device in device::devices() {
            let x = device.upload(&(0..64).collect::<Vec<i32>>()).unwrap();
            let mut y = device.zeros::<i32>(size as usize).unwrap();
            device.load(&kernel).unwrap().launch(Grid::cover(1, 1), (&x, &mut y)).unwrap();
            let expected: Vec<i32> = expected.indices().unwrap().map(|i| i as i32).collect();
            assert_eq!(y.to_vec().unwrap(), expected, "{name}");
        }
    }
}

/// The tiles of `inner_partition` and the places of `outer_partition` are the two halves of a
/// divide.
#[test]
fn partitions_are_halves_of_a_divide() {
    Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |k, (a,)| {
        let a = Tensor::new(a, layout!((16, 8, 2) : (1, 16, 128)));
        let divided = a.zipped_divide(&tiler!(4, 2));
        let inner = a.local_tile(&tiler!(4, 2), (1, 3, 1));
        let outer = a.outer_partition(&tiler!(4, 2), (3, 1));
        assert_eq!(*inner.layout(), divided.layout().get(&[0]).unwrap());
        assert_eq!(*outer.layout(), divided.layout().get(&[1]).unwrap());
        // A number runs through the tile.
        let by_number = a.outer_partition(&tiler!(4, 2), k.thread_idx().x);
        assert_eq!(by_number.layout(), outer.layout());
    })
    .unwrap();
}

/// A view of zipped tensors is the view of each.
#[test]
fn zipped_tensors_are_taken_apart_together() {
    type Signature = (Global<i32>, GlobalMut<i32>);
    let kernel = Kernel::<Signature>::build("add", Target::SM_80, |k, (x, y)| {
        let x = Tensor::new(x, layout!((8, 6) : (6, 1)));
        let y = Tensor::new(y, layout!((8, 6) : (1, 8)));
        let places = CoordTensor::identity(k, shape!(8, 6));
        let (x, y, places) = (x, y, places)
            .zip_local_tile(&tiler!(4, 3), (k.block_idx().x, k.block_idx().y))
            .zip_group_modes(0, 2)
            .zip_slice(((k.thread_idx().x, ..),))
            .zip_domain_offset(0);
        let within = places.within((7, 6));
        copy_if(&within, &x, &y);
    });
    let kernel = kernel.unwrap();
    for device in device::devices() {
        let x = device.upload(&(0..48).collect::<Vec<i32>>()).unwrap();
        let mut y = device.zeros::<i32>(48).unwrap();
        let grid = Grid::new([2, 2, 1], [4, 1, 1]);
        device.load(&kernel).unwrap().launch(grid, (&x, &mut y)).unwrap();
        let expected = |i: i32| if i % 8 < 7 { i % 8 * 6 + i / 8 } else { 0 };
        assert_eq!(y.to_vec().unwrap(), (0..48).map(expected).collect::<Vec<_>>());
    }
}

fn message<S: tilewright::ir::Params>(kernel: Result<Kernel<S>, BuildErrors>) -> String {
    kernel.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn tensors_of_other_shapes_are_not_zipped() {
    let text = message(Kernel::<(Global<i32>,)>::build("k", Target::SM_80, |_, (x,)| {
        let wide = Tensor::new(x, layout!((4, 8)));
        let tall = Tensor::new(x, layout!((8, 4)));
        (wide, tall).zip_slice((0, ..));
    }));
    assert!(
        text.contains("zipped tensors must have the same shape, got (4,8) and (8,4)"),
        "{text}"
    );
}

/// The lines of CuTe C++'s `print_tensor`: rows, `-` between matrices, `=` between blocks.
#[test]
fn tensors_are_printed_as_cute_prints_them() {
    let print = |layout: Layout| {
        let kernel = Kernel::<(Global<f32>,)>::build("print", Target::SM_80, |_, (x,)| {
            print_tensor(&Tensor::new(x, layout.clone()));
        });
        let output = sim::Output::captured();
        let device = Device::sim_with(sim::Options::default().output(output.clone()));
        let x = device.upload(&(0..64).map(|i| i as f32 * 0.5).collect::<Vec<_>>()).unwrap();
        let function = device.load(&kernel.unwrap()).unwrap();
        function.launch(Grid::cover(1, 1), (&x,)).unwrap();
        output.take()
    };
    assert_eq!(
        print(layout!(3)),
        "ptr<f32, gmem, align<4>> o 3:1:\n  0.00e+00\n  5.00e-01\n  1.00e+00\n"
    );
    let text = print(layout!((1, 2, 2, 2) : (0, 1, 2, 4)));
    let lines: Vec<&str> = text.lines().skip(1).collect();
    let expected = [
        "  0.00e+00  5.00e-01",
        "----------",
        "  1.00e+00  1.50e+00",
        "==========",
        "  2.00e+00  2.50e+00",
        "----------",
        "  3.00e+00  3.50e+00",
    ];
    assert_eq!(lines, expected);
    // A row of more values than one `printf` takes stays one line.
    let text = print(layout!((1, 40) : (0, 1)));
    assert_eq!(text.lines().count(), 2);
    assert!(text.ends_with("  1.95e+01\n"), "{text}");
}

/// `R(c) = T(c')` for random layouts, indices and modes, and `scatter` is its inverse for
/// permutations.
#[test]
fn gathers_and_scatters_follow_the_definition() {
    let mut rng = Rng::new(11);
    for _ in 0..40 {
        let extents = [2 + rng.below(3) as i64, 1 + rng.below(4) as i64, 1 + rng.below(3) as i64];
        let shape = IntTuple::from((extents[0], extents[1], extents[2]));
        let from = Layout::row_major(shape.clone());
        let mode = rng.below(3);
        let size = extents.iter().product::<i64>() as usize;
        let index: Vec<i32> = (0..size).map(|_| rng.below(extents[mode] as usize) as i32).collect();
        type Signature = (Global<i32>, Global<i32>, GlobalMut<i32>, GlobalMut<i32>);
        let kernel = Kernel::<Signature>::build("gather", Target::SM_80, |_, (x, i, y, z)| {
            let index = Tensor::new(i, Layout::compact(shape.clone())).load_all();
            let gathered = Tensor::new(x, from.clone()).gather(mode, &index);
            Tensor::new(y, Layout::compact(shape.clone())).store_all(&gathered);
            Tensor::new(z, from.clone()).scatter(mode, &index, &gathered);
        });
        let kernel = kernel.unwrap();
        for device in device::devices() {
            let x = device.upload(&(100..100 + size as i32).collect::<Vec<_>>()).unwrap();
            let index_on = device.upload(&index).unwrap();
            let mut y = device.zeros::<i32>(size).unwrap();
            let mut z = device.zeros::<i32>(size).unwrap();
            let function = device.load(&kernel).unwrap();
            function.launch(Grid::cover(1, 1), (&x, &index_on, &mut y, &mut z)).unwrap();
            let (y, z) = (y.to_vec().unwrap(), z.to_vec().unwrap());
            for at in 0..size {
                let mut rest = at as i64;
                let mut coord = extents.map(|extent| {
                    let entry = rest % extent;
                    rest /= extent;
                    entry
                });
                coord[mode] = i64::from(index[at]);
                let place = (coord[0] * extents[1] + coord[1]) * extents[2] + coord[2];
                assert_eq!(y[at], 100 + place as i32, "{shape}, mode {mode}");
                // What was gathered from a place goes back to it.
                assert_eq!(z[place as usize], 100 + place as i32);
            }
        }
    }
}

#[test]
fn gathers_that_do_not_fit_are_errors_of_the_build() {
    let with = |mode: usize, shape: IntTuple| {
        message(Kernel::<(Global<i32>,)>::build("k", Target::SM_80, |k, (x,)| {
            let index = TensorSsa::<i32>::full(k, shape.clone(), 0);
            Tensor::new(x, layout!((4, 8))).gather(mode, &index);
        }))
    };
    let text = with(2, shape!(4, 8));
    assert!(text.contains("the tensor has no mode 2: its rank is 2"), "{text}");
    let text = with(0, shape!(9, 9));
    assert!(text.contains("only mode 0 of the indices may be larger"), "{text}");
    let text = with(0, shape!(4));
    assert!(text.contains("both must have the same rank"), "{text}");
}

/// Slices, bits, powers and folds of values are those of the elements.
#[test]
fn values_are_sliced_recast_and_folded() {
    type Signature = (Global<f32>, GlobalMut<i32>, GlobalMut<f32>);
    let kernel = Kernel::<Signature>::build("ssa", Target::SM_80, |k, (x, y, z)| {
        let x = Tensor::new(x, layout!((2, (2, 4)))).load_all();
        let part = x.slice((1, (.., 2)));
        assert_eq!(part.shape(), &shape!(2,));
        let y = Tensor::new(y, layout!(8));
        y.store(0, part.at(0).cvt::<i32>());
        y.store(1, part.at(1).cvt::<i32>());
        y.store(2, x.bitcast::<i32>().at((1, (0, 0))));
        y.store(3, x.bitcast::<u16>().at(3).cvt::<i32>());
        let halves = x.bitcast::<u16>();
        y.store(4, halves.bitcast::<i32>().at(1));
        y.store(5, x.gt(14.5).any().select(1, 0));
        y.store(6, x.gt(0.5).all().select(1, 0));
        y.store(7, x.ge(0.0).all().select(1, 0));
        let squares = x.convert::<f16>().pow(TensorSsa::full(k, shape!(2), f16::from_f32(2.0)));
        let z = Tensor::new(z, layout!((2, (2, 4))));
        z.store_all(&(x.pow(2.0) + squares.convert::<f32>()));
    });
    let kernel = kernel.unwrap();
    for device in device::devices() {
        let x = device.upload(&(0..16).map(|i| i as f32).collect::<Vec<_>>()).unwrap();
        let (mut y, mut z) = (device.zeros::<i32>(8).unwrap(), device.zeros::<f32>(16).unwrap());
        let function = device.load(&kernel).unwrap();
        function.launch(Grid::cover(1, 1), (&x, &mut y, &mut z)).unwrap();
        let one = 1f32.to_bits() as i32;
        assert_eq!(y.to_vec().unwrap(), [9, 11, one, one >> 16, one, 1, 0, 1]);
        let expected: Vec<f32> = (0..16).map(|i| 2.0 * (i * i) as f32).collect();
        assert_eq!(z.to_vec().unwrap(), expected);
    }
    let text = message(Kernel::<()>::build("k", Target::SM_80, |k, ()| {
        TensorSsa::<u8>::full(k, shape!(3), 1).bitcast::<u16>();
    }));
    assert!(text.contains("3 elements of type u8 do not fill a whole number of u16 elements"));
}

/// A host number is in `0..extent` of its mode, or of all modes where it stands for the coordinate;
/// the build names others with the extent. Symbols and device numbers have no extent that the host
/// knows.
#[test]
fn host_coordinates_are_inside_the_shape() {
    let errors = Kernel::<(GlobalMut<f32>,)>::build("k", Target::SM_80, |k, (x,)| {
        let i = k.thread_idx().x;
        let x = Tensor::new(x, layout!((8, (2, 4)) : (1, (8, 16))));
        x.load((7, (i, 3)));
        x.load(63);
        x.slice((.., 7)).load(7);
        x.local_tile(&tiler!(4, 4), (1, 1)).load(15);
        x.domain_offset((8, 0)).load(0);
        let values = x.load_all();
        values.at((7, (1, 3)));

        x.load((i, (2, 0)));
        x.load(64);
        x.store((-1, 0), 1.0);
        x.slice((i, 8));
        x.local_tile(&tiler!(4, 4), (2, i));
        values.at((0, (1, 4)));
        values.slice((8, ..));
        CoordTensor::identity(k, shape!(2, 4)).coord((0, 4));
    })
    .expect_err("eight coordinates are outside");
    let texts: Vec<String> = errors.iter().map(|error| error.kind.to_string()).collect();
    let ends: Vec<&str> = texts.iter().map(|text| text.rsplit(": ").next().unwrap()).collect();
    let outside = |coord: i64, mode: &str, extent: i64| {
        format!("the coordinate {coord} is outside mode {mode}, whose extent is {extent}")
    };
    let expected = [
        outside(2, "1.0", 2),
        "the tensor has 64".to_owned(),
        outside(-1, "0", 8),
        outside(8, "1", 8),
        outside(2, "1.0", 2),
        outside(4, "1.1", 4),
        outside(8, "0", 8),
        outside(4, "1", 4),
    ];
    assert_eq!(ends, expected, "{texts:#?}");
}
