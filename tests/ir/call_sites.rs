//! The call sites that the builder is designed for, as they are written by a user.

use tilewright::codegen::PtxOptions;
use tilewright::ir::types::Scalar;
use tilewright::ir::{
    Body, BuildErrors, Global, GlobalMut, Kernel, KernelOptions, Shared, Target, Val, bf16, range,
};
use tilewright::kernels::gemm::{Gemm, GemmConfig};
use tilewright::layout::{layout, shape};
use tilewright::tensor::copy::{autovec_copy, copy_if, copy_zfill};
use tilewright::tensor::pipeline::{Raster, TileScheduler, TmaPipeline, WarpRole, warp_roles};
use tilewright::tensor::view::{Tensor, TensorPointer};

type Axpy = (f32, Global<f32>, GlobalMut<f32>, i32);

fn axpy(target: Target) -> Result<Kernel<Axpy>, BuildErrors> {
    Kernel::<Axpy>::build("axpy", target, |k, (a, x, y, n)| {
        let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
        k.if_(i.lt(n), |_| y.store(i, a * x.load(i) + y.load(i)));
    })
}

#[test]
fn axpy_builds_and_prints() {
    let kernel = axpy(Target::SM_80).unwrap();
    expect_test::expect![[r#"
        kernel @axpy target sm_80 (%p0: f32, %p1: ptr<global, f32>, %p2: ptr<global, mut f32>, %p3: i32) {
          %4 = sreg<ctaid.x> : i32
          %7 = sreg<ntid.x> : i32
          %10 = mul %4, %7 : i32
          %11 = sreg<tid.x> : i32
          %14 = add %10, %11 : i32
          %15 = setp<lt> %14, %p3 : bool
          if %15 {
            %16 = ld %p1, %14 : f32
            %17 = mul %p0, %16 : f32
            %18 = ld %p2, %14 : f32
            %19 = add %17, %18 : f32
            st %p2, %14, %19
            yield
          }
          return
        }
    "#]]
    .assert_eq(&kernel.to_string());
}

#[test]
fn control_flow_infers() {
    let kernel = Kernel::<(Global<f32>, GlobalMut<f32>, i32)>::build(
        "flow",
        Target::SM_80,
        |k, (x, y, n)| {
            let (sum, last) = k.for_(range(0, n).step(4), (0.0, 0.0), |_, i, (acc, _)| {
                let v = x.load(i);
                (acc + v, v)
            });
            let x0 = x.load(0);
            let (a, eps) = (x.load(1), x.load(2));
            let (root, steps) = k.loop_((x0, 0), |k, lp, (x, n)| {
                let next = (x + a / x) * 0.5;
                k.if_((next - x).abs().lt(eps), |k| lp.break_(k, (next, n)));
                lp.continue_(k, (next, n + 1))
            });
            let y0 = k.if_else(n.lt(5), |k| k.yield_(sum + 1.0), |k| k.yield_(last));
            let z = k.if_with(n.gt(3), y0, |_| 2.0 * root);
            let first = k.for_loop(range(0, n), -1, |k, lp, i, found| {
                k.if_(x.load(i).gt(z), |k| lp.break_(k, i));
                lp.continue_(k, found)
            });
            let both = k.for_(range(0i64, 10), [0.0f32, 1.0], |_, i, [a, b]| {
                let t = x.load(i);
                [b, a + t]
            });
            let s: Val<'_, Shared<f32>> = k.shared(32);
            s.store(k.thread_idx().x, both[0] + both[1] + steps.cvt::<f32>());
            k.barrier();
            let t = k.var(0.0f32);
            k.for_(range(0u32, 8).step(2), (), |_, i, ()| {
                let old = t.get();
                t.set(old + s.load(i));
            });
            y.store(first, t.get());
        },
    );
    println!("{}", kernel.unwrap());
}

fn helper<'b>(k: &mut Body<'b, '_>, x: Val<'b, f32>, depth: usize) -> Val<'b, f32> {
    if depth == 0 {
        return x;
    }
    let x = helper(k, x * x - 2.0, depth - 1);
    k.if_else(x.lt(0.0), |k| k.yield_(0.0), |k| k.yield_(x))
}

/// A function that calls itself while the kernel is built computes what it computes on the host.
#[test]
fn functions_compose() {
    use tilewright::runtime::{Device, Grid};

    fn expected(x: f32, depth: usize) -> f32 {
        if depth == 0 { x } else { expected(x * x - 2.0, depth - 1).max(0.0) }
    }
    let device = Device::sim().unwrap();
    let values = [1.5f32, -1.25, 0.0, 2.0, 2.5, -3.0, 1.0];
    for depth in 0..4 {
        let kernel = Kernel::<(GlobalMut<f32>,)>::build("compose", Target::SM_80, |k, (y,)| {
            let i = k.thread_idx().x;
            let v = y.load(i);
            let w = helper(k, v, depth);
            y.store(i, w);
        });
        let mut y = device.upload(&values).unwrap();
        let f = device.load(&kernel.unwrap()).unwrap();
        f.launch(Grid::cover(7, 7), (&mut y,)).unwrap();
        assert_eq!(y.to_vec().unwrap(), values.map(|x| expected(x, depth)), "depth {depth}");
    }
}

/// Everything in this is from this file: it calls functions of the crate that make operations
/// inside of closures.
fn lines<'b>(
    k: &mut Body<'b, 'b>,
    x: Val<'b, Global<f32>>,
    y: Val<'b, GlobalMut<f32>>,
    n: Val<'b, i32>,
) {
    let (x, y) = (TensorPointer::new(x).assume_aligned(16), TensorPointer::new(y));
    let x = Tensor::new(x, layout!((4, 8) : (8, 1)));
    let y = Tensor::new(y, layout!((4, 8) : (8, 1)));
    let t = k.thread_idx().x;
    let inside = Tensor::identity(k, shape!(4, 8)).within((n, n));
    copy_if(&inside, &x, &y);
    copy_zfill(&inside, &x, &y);
    autovec_copy(&x, &y);
    let all = x.load_all();
    y.store_all(&all);
    let pipe = TmaPipeline::new(k, 2, 128, 1);
    pipe.init(t.eq(0));
    let tiles = TileScheduler::new(k, Raster::Hilbert, [n, n, n]);
    tiles.for_each(k, [0, 1], |k, tile, [a, b]| {
        y.store(0, k.select_n(tile.row, &[a, b]).cvt::<f32>());
        [b, a]
    });
    let roles = [WarpRole::new(1).registers(Some(40)), WarpRole::new(2).registers(Some(232))];
    warp_roles(k, &roles, 168, |k, _, group| {
        k.while_(group, |_, i| i.lt(n), |_, i| i + 1);
    });
}

/// Operations that the crate builds inside of closures have the line of the caller, as those
/// outside have.
#[test]
fn functions_of_the_crate_have_the_lines_of_their_callers() {
    type Params = (Global<f32>, GlobalMut<f32>, i32);
    let build = |options: KernelOptions| {
        Kernel::<Params>::build_with(options, "lines", Target::SM_90A, |k, (x, y, n)| {
            lines(k, x, y, n)
        })
    };
    let options = KernelOptions::default().block([384, 1, 1]);
    let kernel = build(options.clone().min_blocks_per_sm(1)).unwrap();
    let others = kernel.ir().locations.iter().filter(|(_, place)| place.file != file!());
    assert_eq!(others.map(|(_, place)| place.to_string()).collect::<Vec<_>>(), [""; 0]);
    // Registers are moved where the launch bounds do not say how many there are: an error inside of
    // `warp_roles`.
    let errors = build(options).map(|_| ()).unwrap_err();
    let files: Vec<&str> = errors.iter().map(|error| error.location.file).collect();
    assert_eq!(files, [file!()], "{errors}");
}

/// The kernels of the crate are written with its public functions: their lines are in the kernels.
#[test]
fn the_lines_of_a_matrix_product_are_in_its_kernel() {
    let configs = [
        GemmConfig::sm90(Scalar::Bf16, [128, 128]),
        GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [64, 64]),
    ];
    for config in configs {
        let gemm = Gemm::<bf16>::new(config).unwrap();
        let mut options = PtxOptions::default();
        options.line_info = true;
        let ptx = gemm.ptx_with(options);
        let text = ptx.text();
        assert!(text.contains("kernels/gemm"));
        for own in ["src/tensor/", "src/ir/"] {
            assert!(!text.contains(own), "{config}: {own}");
        }
    }
}
