//! `autovec_copy`: it copies as `copy` does, in vectors as wide as both tensors allow, between
//! memories and registers.

use tilewright::ir::{Global, GlobalMut, Kernel, Target};
use tilewright::layout::{ComposedLayout, Layout, layout};
use tilewright::runtime::{Device, Grid};
use tilewright::tensor::copy::{autovec_copy, autovec_copy_if, copy, copy_if};
use tilewright::tensor::view::{RegisterTensor, SharedTensor, Tensor, TensorPointer};

const LAYOUTS: [&str; 9] = [
    "(4,8):(1,4)",
    "(4,8):(8,1)",
    "(4,8):(1,12)",
    "(4,8):(2,8)",
    "(4,(2,4)):(2,(1,8))",
    "(4,8):(12,1)",
    "(4,8):(1,6)",
    "32:1",
    "(2,16):(1,3)",
];

type Signature = (Global<f32>, GlobalMut<f32>);

/// The kernel, and how many loads it has.
fn kernel(from: &Layout, to: &Layout, align: u32, vectors: bool) -> (Kernel<Signature>, usize) {
    let kernel = Kernel::<Signature>::build("copy", Target::SM_80, |_, (x, y)| {
        let x = Tensor::new(TensorPointer::new(x).assume_aligned(align), from.clone());
        let y = Tensor::new(TensorPointer::new(y).assume_aligned(16), to.clone());
        if vectors { autovec_copy(&x, &y) } else { copy(&x, &y) }
    });
    let kernel = kernel.unwrap();
    let loads = kernel.ptx().text().matches("ld.global").count();
    (kernel, loads)
}

fn run(device: &Device, kernel: &Kernel<Signature>) -> Vec<f32> {
    let x = device.upload(&(0..128).map(|i| i as f32 + 1.0).collect::<Vec<_>>()).unwrap();
    let mut y = device.zeros::<f32>(128).unwrap();
    device.load(kernel).unwrap().launch(Grid::cover(1, 1), (&x, &mut y)).unwrap();
    y.to_vec().unwrap()
}

#[test]
fn it_copies_as_copy_does() {
    let device = Device::sim().unwrap();
    let layouts: Vec<Layout> = LAYOUTS.iter().map(|text| text.parse().unwrap()).collect();
    let mut fewer = 0;
    for from in &layouts {
        for to in &layouts {
            for align in [4, 8, 16] {
                let (plain, all) = kernel(from, to, align, false);
                let (vectors, loads) = kernel(from, to, align, true);
                assert_eq!(run(&device, &vectors), run(&device, &plain), "{from} to {to}");
                assert!(loads <= all && all == 32);
                fewer += usize::from(loads < all);
            }
        }
    }
    assert!(fewer > 20, "{fewer}");
}

/// The width is that of the common run, the alignment, and the strides.
#[test]
fn vectors_are_as_wide_as_they_can_be() {
    let table = [
        ("(4,8):(1,4)", "(4,8):(1,4)", 16, 8),
        ("(4,8):(1,4)", "(4,8):(1,4)", 8, 16),
        ("(4,8):(1,12)", "(4,8):(1,4)", 16, 8),
        ("(4,8):(1,6)", "(4,8):(1,4)", 16, 16),
        ("(4,8):(8,1)", "(4,8):(12,1)", 16, 8),
        ("(4,8):(8,1)", "(4,8):(1,4)", 16, 32),
        ("(2,16):(1,3)", "32:1", 16, 32),
    ];
    for (from, to, align, expected) in table {
        let (_, loads) = kernel(&from.parse().unwrap(), &to.parse().unwrap(), align, true);
        assert_eq!(loads, expected, "{from} to {to}, {align} bytes");
    }
}

/// Under a swizzle, vectors are no wider than what it keeps together.
#[test]
fn swizzled_memory() {
    let device = Device::sim().unwrap();
    for (tile, loads) in [("S<1,2,2> o 0 o (4,8):(8,1)", 8), ("S<1,1,3> o 0 o (4,8):(8,1)", 16)] {
        let tile: ComposedLayout = tile.parse().unwrap();
        let rows: Layout = "(4,8):(8,1)".parse().unwrap();
        let kernel = Kernel::<Signature>::build("stage", Target::SM_80, |k, (x, y)| {
            let staged = SharedTensor::<f32>::shared(k, tile.clone());
            let x = Tensor::new(TensorPointer::new(x).assume_aligned(16), rows.clone());
            let y = Tensor::new(TensorPointer::new(y).assume_aligned(16), rows.clone());
            autovec_copy(&x, &staged);
            autovec_copy(&staged, &y);
        });
        let kernel = kernel.unwrap();
        assert_eq!(kernel.ptx().text().matches("ld.shared").count(), loads, "{tile}");
        let expected: Vec<f32> =
            (0..128).map(|i| if i < 32 { i as f32 + 1.0 } else { 0.0 }).collect();
        assert_eq!(run(&device, &kernel), expected, "{tile}");
    }
}

/// Through registers of any layout: what arrives is what `copy` brings, and the width is that of
/// the memory alone.
#[test]
fn registers_go_along_with_any_vector() {
    let device = Device::sim().unwrap();
    let registers = ["(4,8):(1,4)", "(4,8):(8,1)", "(4,8):(10,1)", "(4,(2,4)):(2,(1,8))"];
    let memories = [("(4,8):(8,1)", 16, 8), ("(4,8):(12,1)", 8, 16), ("(4,8):(2,8)", 16, 32)];
    for held in registers {
        for (memory, align, accesses) in memories {
            let (held, memory): (Layout, Layout) = (held.parse().unwrap(), memory.parse().unwrap());
            let kernel = Kernel::<Signature>::build("held", Target::SM_80, |k, (x, y)| {
                let x = Tensor::new(TensorPointer::new(x).assume_aligned(align), memory.clone());
                let y = Tensor::new(TensorPointer::new(y).assume_aligned(align), memory.clone());
                let held = RegisterTensor::<f32>::registers(k, held.clone());
                let other = RegisterTensor::<f32>::registers(k, layout!((4, 8)));
                autovec_copy(&x, &held);
                autovec_copy(&held, &other);
                autovec_copy(&other, &y);
            });
            let kernel = kernel.unwrap();
            let text = kernel.ptx();
            assert_eq!(text.text().matches("ld.global").count(), accesses, "{held} {memory}");
            assert_eq!(text.text().matches("st.global").count(), accesses, "{held} {memory}");
            let plain = self::kernel(&memory, &memory, align, false).0;
            assert_eq!(run(&device, &kernel), run(&device, &plain), "{held} {memory}");
        }
    }
}

/// `autovec_copy_if` is `copy_if`, in vectors that the predicate does not cut.
#[test]
fn predicates_bound_vectors() {
    type Params = (Global<f32>, GlobalMut<f32>, i32);
    let device = Device::sim().unwrap();
    let memory: Layout = "(4,8):(8,1)".parse().unwrap();
    // True if rows are compared with a dynamic number, the limit of columns, and the loads.
    for (by_row, columns, loads) in [(true, 8, 8), (false, 8, 32), (true, 6, 16), (true, 5, 32)] {
        let build = |vectors: bool| {
            let kernel = Kernel::<Params>::build("part", Target::SM_80, |k, (x, y, n)| {
                let x = Tensor::new(TensorPointer::new(x).assume_aligned(16), memory.clone());
                let y = Tensor::new(TensorPointer::new(y).assume_aligned(16), memory.clone());
                let places = Tensor::identity(k, memory.shape().to_owned());
                let inside =
                    if by_row { places.within((n, columns)) } else { places.within((4, n)) };
                let held = x.fragment_like::<f32>();
                held.fill(7.0);
                if vectors {
                    autovec_copy_if(&inside, &x, &held);
                } else {
                    copy_if(&inside, &x, &held);
                }
                autovec_copy(&held, &y);
            });
            kernel.unwrap()
        };
        let (vectors, plain) = (build(true), build(false));
        let count = vectors.ptx().text().matches("ld.global").count();
        assert_eq!(count, loads, "{by_row} {columns}");
        for n in [0, 1, 3, 4] {
            let run = |kernel: &Kernel<Params>| {
                let x: Vec<f32> = (0..32).map(|i| i as f32 + 1.0).collect();
                let x = device.upload(&x).unwrap();
                let mut y = device.zeros::<f32>(32).unwrap();
                device.load(kernel).unwrap().launch(Grid::cover(1, 1), (&x, &mut y, n)).unwrap();
                y.to_vec().unwrap()
            };
            assert_eq!(run(&vectors), run(&plain), "{by_row} {columns} {n}");
        }
    }
}
