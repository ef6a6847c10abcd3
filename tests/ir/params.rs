//! Parameters of kernels: scalars, pointers, structs, tuples, arrays, layouts with symbols, on
//! every device.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::device;
use crate::support::kernels::checked;

use device::devices;
use proptest::prelude::*;
use tilewright::ir::builder::BuildErrorKind;
use tilewright::ir::op::{Arith, Op};
use tilewright::ir::{
    Body, BuildError, BuildErrors, Global, GlobalMut, Kernel, KernelOptions, Number, Params,
    SignatureError, Target, Val, range,
};
use tilewright::layout::{Env, Int, IntTuple, Layout, ScaledBasis, Width, layout, shape, tiler};
use tilewright::runtime::{Arguments, Device, Function, Grid, RuntimeError};

tilewright::params! {
    /// A matrix with its extents.
    struct Matrix => MatrixAt<'b> {
        data: Global<f32>,
        extent: (i32, i32),
        transposed: bool,
    }

    /// Parameters inside parameters.
    struct Problem => ProblemAt<'b> {
        /// The matrix.
        a: Matrix => MatrixAt<'b>,
        scale: [f32; 2],
        offset: i8,
    }
}

type OfStruct = (Problem, GlobalMut<f32>, (i64, [bool; 2]));

fn of_struct(target: Target) -> Kernel<OfStruct> {
    Kernel::<OfStruct>::build("of_struct", target, |k, (p, out, (n, [b, c]))| {
        let (rows, columns) = p.a.extent;
        let i = k.thread_idx().x;
        k.if_(i.lt(rows * columns), |_| {
            let (r, c) = (i / columns, i % columns);
            let at = p.a.transposed.select(c * rows + r, i);
            let v = p.a.data.load(at) * p.scale[0] + p.scale[1] + p.offset.cvt::<f32>();
            out.store(i, v);
        });
        let last = (b & !c).select(n, n + 1);
        out.store(rows * columns, last.cvt::<f32>());
    })
    .unwrap()
}

/// A struct of parameters arrives by value, with the structs, tuples and arrays in it.
#[test]
fn params_are_structs_tuples_and_arrays() {
    for device in devices() {
        let kernel = checked(&device, of_struct);
        let names: Vec<&str> = kernel.ir().params.iter().map(|p| p.name.as_str()).collect();
        let expected = [
            "p0_a_data",
            "p0_a_extent_0",
            "p0_a_extent_1",
            "p0_a_transposed",
            "p0_scale_0",
            "p0_scale_1",
            "p0_offset",
            "p1",
            "p2_0",
            "p2_1_0",
            "p2_1_1",
        ];
        assert_eq!(names, expected);
        // The ABI of `bool` is a byte.
        assert!(kernel.ptx().text().contains(".param .u8 p0_a_transposed"));
        let data = device.upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let f = device.load(&kernel).unwrap();
        for (transposed, values) in
            [(false, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), (true, [1.0, 3.0, 5.0, 2.0, 4.0, 6.0])]
        {
            let mut out = device.zeros(7).unwrap();
            let a = Matrix { data: &data, extent: (2, 3), transposed };
            let p = Problem { a, scale: [2.0, 0.5], offset: -3 };
            f.launch(Grid::cover(6, 32), (p, &mut out, (40, [true, transposed]))).unwrap();
            let mut expected = values.map(|v| v * 2.0 - 2.5).to_vec();
            expected.push(if transposed { 41.0 } else { 40.0 });
            assert_eq!(out.to_vec().unwrap(), expected, "on {device}");
        }
    }
}

tilewright::params! {
    /// Every form of a field, with a type parameter.
    struct Forms<T: Number> => FormsAt<'b, T> {
        pairs: [(T, [i32; 2]); 2],
        nested: ((), (bool, T)),
        lists: [[Global<T>; 1]; 2],
        same: Matrix => MatrixAt<'b>,
    }

    /// A layout is not `Copy`.
    struct Strided => StridedAt<'b> {
        data: Global<f32>,
        layout: Layout => Layout,
    }
}

/// A user's struct that holds parameters beside a value.
#[derive(Clone, Copy)]
struct Reader<'b> {
    p: ProblemAt<'b>,
    forms: FormsAt<'b, f32>,
    plus: Val<'b, f32>,
}

impl<'b> Reader<'b> {
    /// Adds up `n` elements of the matrix, from `first` on: a helper with one lifetime and control
    /// flow.
    fn sum(self, k: &mut Body<'b, '_>, first: Val<'b, i32>, n: Val<'b, i32>) -> Val<'b, f32> {
        k.for_(range(0, n), self.plus, |k, i, sum| {
            k.if_with(self.forms.nested.1.0, sum, |_| sum + self.get(first + i))
        })
    }

    fn get(&self, i: Val<'b, i32>) -> Val<'b, f32> {
        self.p.a.data.load(i) * self.p.scale[0]
    }
}

/// Compiles only if the lifetime of a device struct shortens as that of a `Val` does.
fn shortened<'c, 'b: 'c>(
    reader: Reader<'b>,
    strided: StridedAt<'b>,
) -> (Reader<'c>, StridedAt<'c>) {
    (reader, strided)
}

/// Structs of parameters are fields of other structs, which helpers take in any body inside.
#[test]
fn params_are_fields_of_helper_structs() {
    type Signature = (Problem, Forms<f32>, Strided, GlobalMut<f32>);
    let layout = layout!(4: 3);
    for device in devices() {
        let kernel = checked(&device, |target| {
            let options = KernelOptions::default().template(&layout);
            Kernel::<Signature>::build_with(
                options,
                "helper",
                target,
                |k, (p, forms, strided, y)| {
                    let reader = Reader { p, forms, plus: k.constant(0.5) };
                    let [_, (factor, [first, n])] = reader.forms.pairs;
                    let (reader, strided) = shortened(reader, strided.clone());
                    k.for_(range(0, 2), (), |k, i, ()| {
                        k.if_(i.lt(n), |k| {
                            let sum = reader.sum(k, i + first, n) * factor;
                            let at = k.crd2idx::<i32>(i, &strided.layout);
                            y.store(i, sum + strided.data.load(at));
                        });
                    });
                },
            )
            .unwrap()
        });
        let data = device.upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let mut y = device.zeros(2).unwrap();
        let matrix = || Matrix { data: &data, extent: (2, 3), transposed: false };
        let p = Problem { a: matrix(), scale: [10.0, 0.0], offset: 0 };
        let forms = Forms {
            pairs: [(0.0, [0, 0]), (2.0, [1, 3])],
            nested: ((), (true, 0.0)),
            lists: [[&data], [&data]],
            same: matrix(),
        };
        let strided = Strided { data: &data, layout: &layout };
        let f = device.load(&kernel).unwrap();
        f.launch(Grid::cover(1, 1), (p, forms, strided, &mut y)).unwrap();
        let expected = [(2.0 + 3.0 + 4.0) * 20.0 + 1.0 + 1.0, (3.0 + 4.0 + 5.0) * 20.0 + 1.0 + 4.0];
        assert_eq!(y.to_vec().unwrap(), expected, "on {device}");
    }
}

/// A kernel that writes `layout(i, j)` of a matrix layout for each `(i, j)`.
type Offsets = (Layout, GlobalMut<i32>);

fn offsets(template: &Layout) -> impl Fn(Target) -> Kernel<Offsets> {
    let template = template.clone();
    move |target| {
        let options = KernelOptions::default().template(&template);
        Kernel::<Offsets>::build_with(options, "offsets", target, |k, (layout, out)| {
            let (i, j) = (k.thread_idx().x, k.block_idx().x);
            let offset = k.crd2idx::<i32>((i, j), &layout);
            out.store(j * k.block_dim().x + i, offset);
        })
        .unwrap()
    }
}

fn check_offsets(f: &Function<Offsets>, given: &Layout) {
    let size = |mode: usize| {
        given.shape().child(mode).unwrap().product().unwrap().as_static().unwrap() as u32
    };
    let (m, n) = (size(0), size(1));
    let mut out = f.device().zeros((m * n) as usize).unwrap();
    f.launch(Grid::new([n, 1, 1], [m, 1, 1]), (given, &mut out)).unwrap();
    let expected: Vec<i32> = (0..i64::from(m * n)).map(|i| given.at(i).unwrap() as i32).collect();
    assert_eq!(out.to_vec().unwrap(), expected, "{given} on {}", f.device());
}

/// Symbolic leaves are scalar parameters, one for each symbol, and the kernel indexes with them.
#[test]
fn params_are_layouts_with_symbols() {
    let (m, n, ld) = (Int::symbol("m"), Int::symbol("n").divisible_by(16), Int::symbol("ld"));
    let wide = Int::symbol("w").with_width(Width::W64);
    let cases: Vec<(Layout, usize, Vec<Layout>)> = vec![
        (
            Layout::new((m.clone(), n.clone()), (n.clone(), 1)).unwrap(),
            2,
            vec![layout!((3, 16):(16, 1)), layout!((40, 48):(48, 1)), layout!((1, 16):(16, 1))],
        ),
        (
            Layout::new((8, m.clone()), (1, ld)).unwrap(),
            2,
            vec![layout!((8, 5):(1, 8)), layout!((8, 7):(1, 100)), layout!((8, 1):(1, 3))],
        ),
        (
            Layout::compact((n, 64)).logical_divide(&tiler!(16, 16)).unwrap(),
            1,
            vec![
                Layout::compact((32, 64)).logical_divide(&tiler!(16, 16)).unwrap(),
                Layout::compact((160, 64)).logical_divide(&tiler!(16, 16)).unwrap(),
            ],
        ),
        (Layout::new((wide.clone(), 4), (4, 1)).unwrap(), 1, vec![layout!((9, 4):(4, 1))]),
        (layout!((4, 6):(6, 1)), 0, vec![layout!((4, 6):(6, 1))]),
    ];
    for device in devices() {
        for (template, symbols, given) in &cases {
            let kernel = checked(&device, offsets(template));
            assert_eq!(kernel.ir().params.len(), symbols + 1, "{template}");
            let f = device.load(&kernel).unwrap();
            given.iter().for_each(|given| check_offsets(&f, given));
        }
    }
}

/// A layout into coordinates, a tuple, and symbols that several parameters share.
#[test]
fn params_share_symbols() {
    let (m, n) = (Int::symbol("m"), Int::symbol("n"));
    type Shared = (IntTuple, Layout, GlobalMut<i64>, Layout);
    let build = |target| {
        let e = |i| ScaledBasis::e(&[i]).unwrap();
        let coordinates = Layout::new((m.clone(), n.clone()), (e(1), e(0))).unwrap();
        let options = KernelOptions::default()
            .template(IntTuple::from_items([m.clone(), Int::from(4)]).unwrap())
            .template(coordinates)
            .template(Layout::compact((m.clone(), n.clone())));
        let name = "shared_symbols";
        Kernel::<Shared>::build_with(options, name, target, |k, (tuple, a, out, b)| {
            let size = k.int::<i64>(&b.size().unwrap());
            out.store(0, size);
            let extent = a.shape().child(1).unwrap().as_leaf().unwrap().clone();
            let extent = k.int::<u32>(&extent).cvt::<i64>();
            out.store(1, extent);
            let first = k.int::<u64>(tuple.leaves().first().unwrap()).cvt::<i64>();
            out.store(2, first);
        })
        .unwrap()
    };
    for device in devices() {
        let kernel = checked(&device, build);
        let names: Vec<&str> = kernel.ir().params.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["p0_m", "p1_n", "p2"]);
        let f = device.load(&kernel).unwrap();
        let mut out = device.zeros(3).unwrap();
        let e = |i| ScaledBasis::e(&[i]).unwrap();
        let given = Layout::new((6, 7), (e(1), e(0))).unwrap();
        let b = Layout::compact((6, 7));
        f.launch(Grid::cover(1, 1), (&shape!(6, 4), &given, &mut out, &b)).unwrap();
        assert_eq!(out.to_vec().unwrap(), [42, 7, 6], "on {device}");

        let refused = |tuple: &IntTuple, a: &Layout, b: &Layout| {
            let mut out = device.zeros(3).unwrap();
            match f.launch(Grid::cover(1, 1), (tuple, a, &mut out, b)) {
                Err(RuntimeError::Signature { kernel, error }) => {
                    assert_eq!(kernel, "shared_symbols");
                    *error
                }
                other => panic!("{other:?}"),
            }
        };
        let other = refused(&shape!(6, 4), &given, &Layout::compact((6, 8)));
        let text = "parameter 3 is built for `(m,n):(1,m)`, but `(6,8):(1,6)` has 8 where `n` is 7";
        assert_eq!(other.to_string(), text);
        let other = refused(&shape!(5, 4), &given, &b);
        assert!(matches!(other, SignatureError::Leaf { param: 1, wanted: 5, found: 6, .. }));
        let transposed = Layout::new((6, 7), (e(0), e(1))).unwrap();
        let other = refused(&shape!(6, 4), &transposed, &b);
        assert!(matches!(other, SignatureError::Form { param: 1, .. }), "{other}");
        let other = refused(&shape!(6, 5), &given, &b);
        assert_eq!(
            other.to_string(),
            "parameter 0 is built for `(m,4)`, but `(6,5)` has 5 where it has 4"
        );
    }
}

/// A length that a kernel requires, as it computes it, beside the one expected and its text.
type Length = (for<'b> fn(Val<'b, i32>, Val<'b, u32>) -> Val<'b, i64>, i128, &'static str);

/// Buffers are as long as the kernel requires, or the launch is refused and has done nothing.
#[test]
fn params_have_the_lengths_that_the_kernel_requires() {
    let (n, m) = (13, 3_000_000_000u32);
    let lengths: [Length; 7] = [
        (|n, _| (n * 2 + 1).cvt(), 27, "(%p1 * 2) + 1"),
        (|n, _| (n / 4 - n % 4).cvt(), 2, "(%p1 / 4) - (%p1 % 4)"),
        (|n, _| n.max(20).min(n << 1).cvt(), 20, "min(max(%p1, 20), %p1 << 1)"),
        (|n, _| ((n >> 1) & 5).cvt(), 4, "(%p1 >> 1) & 5"),
        (|_, m| (m - 2_999_999_990).cvt(), 10, "%p2 - 2999999990"),
        // The kernel's 32 bits wrap, the length does not.
        (
            |n, _| (n * 500_000_000).cvt::<i64>() - 6_499_999_990,
            10,
            "(%p1 * 500000000) - 6499999990",
        ),
        (|_, m| (m / 4).cvt::<i64>() - 749_999_999, 1, "(%p2 / 4) - 749999999"),
    ];
    type Lengths = (GlobalMut<i32>, i32, u32);
    for device in devices() {
        for (length, expected, text) in lengths {
            let f = checked(&device, |target| {
                Kernel::<Lengths>::build("required", target, |_, (x, n, m)| {
                    x.require_len(length(n, m));
                    x.store(0, 7);
                })
                .unwrap()
            });
            let f = device.load(&f).unwrap();
            let len = usize::try_from(expected).unwrap();
            for long in [len, len + 1] {
                let mut x = device.zeros(long).unwrap();
                f.launch(Grid::cover(1, 1), (&mut x, n, m)).unwrap();
                assert_eq!(x.to_vec().unwrap()[0], 7, "{text} on {device}");
            }
            let mut x = device.zeros(len - 1).unwrap();
            let error = f.launch(Grid::cover(1, 1), (&mut x, n, m)).unwrap_err();
            let RuntimeError::Signature { kernel, error } = error else { panic!("{error}") };
            assert_eq!(kernel, "required");
            let (param, expression) = (0, text.to_owned());
            let (required, given) = (expected, len - 1);
            let short = SignatureError::TooShort { param, expression, required, given };
            assert_eq!(*error, short, "on {device}");
            assert!(x.to_vec().unwrap().iter().all(|x| *x == 0), "{text} on {device}");
        }
    }
}

/// Parameters give the symbols of a layout, also from a field of a struct; a symbol without a value
/// is an error.
#[test]
fn params_have_lengths_from_symbols() {
    let (m, n) = (Int::symbol("m"), Int::symbol("n"));
    let template = Layout::compact((m, n));
    let cosize = template.cosize().unwrap();
    let options = KernelOptions::default().template(template);
    type Lengths = (Layout, GlobalMut<i32>, i32);
    let build = |target| {
        let options = options.clone();
        Kernel::<Lengths>::build_with(options, "cosize", target, |k, (_, x, divisor)| {
            x.require_len(k.int::<i32>(&cosize));
            x.require_len(divisor.constant(8) / divisor);
            x.store(0, 7);
        })
        .unwrap()
    };
    for device in devices() {
        let f = device.load(&checked(&device, build)).unwrap();
        let launch = |len: usize, divisor: i32| {
            let mut x = device.zeros(len).unwrap();
            let layout = Layout::compact((3, 5));
            match f.launch(Grid::cover(1, 1), (&layout, &mut x, divisor)) {
                Ok(()) => None,
                Err(RuntimeError::Signature { error, .. }) => Some(error.to_string()),
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(launch(15, 1), None);
        assert_eq!(
            launch(14, 1).unwrap(),
            "parameter 2 needs a buffer of at least `%p0_m * %p0_n` = 15 elements, but its argument has 14"
        );
        assert_eq!(
            launch(15, 0).unwrap(),
            "parameter 2 needs a buffer of at least `8 / %p2` elements, which cannot be computed from the other arguments"
        );
    }
}

/// A launch refuses wrong arguments and names their values.
#[test]
fn params_are_checked_at_the_launch() {
    let n = Int::symbol("n").assume(8, 8, 1024).unwrap();
    let template = Layout::new((4, n.clone()), (n, 1)).unwrap();
    let device = Device::sim().unwrap();
    let f = device.load(&offsets(&template)(Target::SM_80)).unwrap();
    check_offsets(&f, &layout!((4, 24):(24, 1)));
    let refused = |given: &Layout| {
        let mut out = device.zeros(4096).unwrap();
        match f.launch(Grid::cover(1, 1), (given, &mut out)) {
            Err(RuntimeError::Signature { error, .. }) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let cases = [
        (
            layout!((4, 20):(20, 1)),
            "the argument `(4,20):(20,1)` of parameter 0 is invalid: n = 20 violates its assumption: it must be a multiple of 8 from 8 to 1024",
        ),
        (
            layout!((4, 2048):(2048, 1)),
            "the argument `(4,2048):(2048,1)` of parameter 0 is invalid: n = 2048 violates its assumption: it must be a multiple of 8 from 8 to 1024",
        ),
        (
            layout!((4, 16):(24, 1)),
            "parameter 0 is built for `(4,n):(n,1)`, but `(4,16):(24,1)` has 24 where `n` is 16",
        ),
        (
            layout!((5, 16):(16, 1)),
            "parameter 0 is built for `(4,n):(n,1)`, but `(5,16):(16,1)` has 5 where it has 4",
        ),
        (
            layout!((4, (4, 4)):(16, (1, 4))),
            "parameter 0 is built for `(4,n):(n,1)`, but `(4,(4,4)):(16,(1,4))` has another form: only the values of symbols may differ",
        ),
    ];
    for (given, text) in cases {
        assert_eq!(refused(&given), text);
    }
    let symbolic = Layout::new((4, Int::symbol("n")), (Int::symbol("n"), 1)).unwrap();
    assert_eq!(
        refused(&symbolic),
        "the argument `(4,n):(n,1)` of parameter 0 has a symbol: a launch must pass integers"
    );

    // What the kernel computes must fit into its type.
    let (m, n) = (Int::symbol("m"), Int::symbol("n"));
    type Sized = (IntTuple, GlobalMut<i32>);
    let options =
        KernelOptions::default().template(IntTuple::from_items([m.clone(), n.clone()]).unwrap());
    let product = m.mul(&n).unwrap();
    let kernel = Kernel::<Sized>::build_with(options, "size", Target::SM_80, |k, (_, out)| {
        let size = k.int::<i32>(&product);
        out.store(0, size);
    })
    .unwrap();
    let f = device.load(&kernel).unwrap();
    let mut out = device.zeros(1).unwrap();
    let mut launch = |given: IntTuple| f.launch(Grid::cover(1, 1), (&given, &mut out));
    assert_eq!(launch(shape!(46340, 46340)), Ok(()));
    let error = launch(shape!(65536, 32768)).unwrap_err().to_string();
    assert!(error.contains("`m*n` is 2147483648, which does not fit into i32"), "{error}");
    let error = launch(shape!(5000000000i64, 1)).unwrap_err().to_string();
    assert!(error.contains("is 5000000000, which does not fit into i32"), "{error}");
}

/// The error of a build with these templates.
fn build_error<P: Params>(options: KernelOptions, expression: Option<&Int>) -> String {
    let built: Result<Kernel<P>, BuildErrors> =
        Kernel::<P>::build_with(options, "wrong", Target::SM_80, |k, _| {
            if let Some(expression) = expression {
                let _ = k.int::<i32>(expression);
            }
        });
    let errors = built.expect_err("it is wrong");
    errors.iter().map(|error| error.kind.to_string()).collect::<Vec<_>>().join("\n")
}

#[test]
fn params_without_their_templates_are_errors_of_the_build() {
    let n = Int::symbol("n");
    let none = KernelOptions::default;
    let cases = [
        (
            build_error::<(i32, Layout)>(none(), None),
            "parameter 1 is a layout, but has no template: call `KernelOptions::template` for each such parameter, in order",
        ),
        (
            build_error::<(IntTuple,)>(none().template(layout!(4:1)), None),
            "parameter 0 is a tuple, but its template is `4:1`: give the templates in the order of the parameters",
        ),
        (
            build_error::<(i32,)>(none().template(layout!(4:1)), None),
            "there are more templates than parameters that are layouts or tuples: leave the last 1 out",
        ),
        (
            build_error::<(Layout,)>(
                none().template(Layout::leaf(4, n.mul(&Int::from(3)).unwrap())),
                None,
            ),
            "a launch cannot determine `n`: in `4:3*n`, parameter 0, and in the other templates it is only part of larger expressions; pass a tuple with `n` too",
        ),
        (
            build_error::<(i32,)>(none(), Some(&n)),
            "no parameter has the symbol `n`, so the kernel does not know its value: pass it in a layout or a tuple, or compute with a device value",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
    let gcd = n.gcd(&Int::symbol("m")).unwrap();
    let both = IntTuple::from_items([n, Int::symbol("m")]).unwrap();
    let found = build_error::<(IntTuple,)>(none().template(both), Some(&gcd));
    assert!(found.starts_with("a kernel cannot compute Gcd of "), "{found}");
}

/// An expression is computed once for the body that asks for it and those inside it.
#[test]
fn int_is_computed_once() {
    let n = Int::symbol("n");
    let parts = n.add(&Int::from(1)).unwrap().floor_div(&Int::from(3)).unwrap();
    let options = KernelOptions::default().template(IntTuple::leaf(n));
    type One = (IntTuple, GlobalMut<i32>);
    let kernel = Kernel::<One>::build_with(options, "once", Target::SM_80, |k, (_, out)| {
        let a = k.int::<i32>(&parts);
        out.store(0, a);
        k.if_(a.gt(3), |k| {
            let (b, c) = (k.int::<i32>(&parts), k.int::<i64>(&parts));
            out.store(1, b + c.cvt::<i32>());
        });
        k.if_(a.gt(4), |k| {
            // The body that computed it in 64 bits has ended.
            let c = k.int::<i64>(&parts);
            out.store(1, c.cvt::<i32>());
        });
    })
    .unwrap();
    let ops = kernel.ir().reached_ops();
    let divisions =
        ops.iter().filter(|op| matches!(kernel.ir().ops[**op].op, Op::Arith(Arith::Div { .. })));
    assert_eq!(divisions.count(), 3, "{kernel}");
}

/// Random expressions over two symbols, with the operations that a kernel computes.
fn expression() -> impl Strategy<Value = Int> {
    let a = Int::symbol("a").assume(1, -1000, 1000).unwrap();
    let b = Int::symbol("b").divisible_by(12);
    let leaf = prop_oneof![Just(a.clone()), Just(b.clone()), (-20i64..20).prop_map(Int::from),];
    leaf.prop_recursive(4, 24, 2, |inner| {
        (inner.clone(), inner, 0..10).prop_map(|(x, y, op)| {
            let result = match op {
                0 | 1 => x.add(&y),
                2 => x.sub(&y),
                3 | 4 => x.mul(&y),
                5 => x.floor_div(&y),
                6 => x.ceil_div(&y),
                7 => x.modulo(&y),
                8 => x.min(&y),
                _ => x.max(&y),
            };
            result.unwrap_or(x)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// `k.int(e)` in a launch is `e.eval` on the host, wherever that has a value that fits.
    #[test]
    fn int_computes_what_eval_says(
        expressions in proptest::collection::vec(expression(), 4),
        values in proptest::collection::vec((-1000i64..=1000, 1i64..50), 3),
    ) {
        let a = Int::symbol("a").assume(1, -1000, 1000).unwrap();
        let b = Int::symbol("b").divisible_by(12);
        let template = IntTuple::from_items([a, b]).unwrap();
        type Both = (IntTuple, GlobalMut<i64>);
        for device in devices() {
            for expression in &expressions {
                let options = KernelOptions::default().template(&template);
                let built = Kernel::<Both>::build_with(options, "eval", device.target(), |k, (_, out)| {
                    let (narrow, wide) = (k.int::<i32>(expression), k.int::<i64>(expression));
                    out.store(0, narrow.cvt::<i64>());
                    out.store(1, wide);
                });
                let kernel = match built {
                    Ok(kernel) => kernel,
                    Err(errors) => {
                        // A number of the expression needs more than 32 bits.
                        let large = |error: &BuildError| {
                            matches!(error.kind, BuildErrorKind::OffsetTooLarge { .. })
                        };
                        prop_assert!(errors.iter().all(large), "{}", errors);
                        continue;
                    }
                };
                let f = device.load(&kernel).unwrap();
                for (a, b) in &values {
                    let given = IntTuple::from_items([Int::from(*a), Int::from(b * 12)]).unwrap();
                    let env = Env::new().with("a", *a).with("b", b * 12);
                    let expected = expression.eval(&env);
                    let mut out = device.zeros::<i64>(2).unwrap();
                    match f.launch(Grid::cover(1, 1), (&given, &mut out)) {
                        Ok(()) => {
                            let expected = expected.unwrap();
                            let found = out.to_vec().unwrap();
                            prop_assert_eq!(found, [expected; 2], "{} for a={} b={}", expression, a, b * 12);
                        }
                        // A part of it has no value, or does not fit into 32 bits.
                        Err(RuntimeError::Signature { error, .. }) => {
                            let named = matches!(
                                *error,
                                SignatureError::Computed { .. } | SignatureError::Range { .. }
                            );
                            prop_assert!(named, "{}", error);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
    }
}

/// More bytes than a launch can pass are refused, and what needs a newer PTX ISA has it.
#[test]
fn params_have_a_limit() {
    type Half = [u64; 2046];
    let version = |kernel: &Kernel<_>| kernel.ptx().version().to_string();
    let build = |target| Kernel::<(Half, Half)>::build("large", target, |_, _| ());
    let kernel = build(Target::SM_80).unwrap();
    assert_eq!((kernel.ir().param_bytes(), version(&kernel).as_str()), (32_736, "8.1"));
    let small = Kernel::<(Half,)>::build("small", Target::SM_80, |_, _| ()).unwrap();
    assert_eq!(small.ir().param_bytes(), 16_368);
    let errors = Kernel::<(Half, Half, [u64; 4])>::build("larger", Target::SM_80, |_, _| ());
    let text = errors.unwrap_err().to_string();
    assert!(
        text.contains("the parameters take 32768 bytes, but a launch can pass 32764"),
        "{text}"
    );
}

/// A large struct by value: the last element arrives.
#[test]
fn params_fill_the_limit() {
    type Large = ([i64; 2000], [i64; 2000], GlobalMut<i64>);
    for device in devices() {
        let kernel = Kernel::<Large>::build("sum", device.target(), |_, (a, b, out)| {
            out.store(0, a[0] + a[1999] + b[0] + b[1999]);
        })
        .unwrap();
        let mut out = device.zeros(1).unwrap();
        let (mut a, mut b) = ([7i64; 2000], [7i64; 2000]);
        (a[0], a[1999], b[0], b[1999]) = (1, 20, 300, 4000);
        device.load(&kernel).unwrap().launch(Grid::cover(1, 1), (a, b, &mut out)).unwrap();
        assert_eq!(out.to_vec().unwrap(), [4321], "on {device}");
    }
}

/// The types of a launch are known to be those of the signature.
#[test]
fn params_of_a_launch_are_typed() {
    fn takes<P: Arguments>(_: &Kernel<P>) {}
    takes(&of_struct(Target::SM_80));
}
