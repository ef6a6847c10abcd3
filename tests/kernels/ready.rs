//! A ready kernel that is not one of the library: several starts in one launch, what launches
//! share, options, and parameters that depend on the configuration.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use tilewright::ir::{BuildErrors, GlobalMut, Kernel, Target, Untyped};
use tilewright::kernels::{Built, Launch, Loaded, ReadyKernel};
use tilewright::runtime::{
    Buffer, Device, Function, Grid, LaunchOptions, LoadOptions, RuntimeError,
};

use super::matrix::devices;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct AddConfig {
    target: Target,
    /// True if the kernel has a parameter for the summand, which is 1 otherwise.
    has_summand: bool,
}

impl fmt::Display for AddConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.has_summand { "add" } else { "increment" })
    }
}

/// Adds the summand to each of 32 elements, `times` times, with one start each.
struct Add(AddConfig);

type Increment = (GlobalMut<i32>,);
type AddSummand = (GlobalMut<i32>, i32);

impl Add {
    fn new(config: AddConfig) -> Result<Built<Add>, BuildErrors> {
        let AddConfig { target, has_summand } = config;
        let kernel = if has_summand {
            Kernel::<AddSummand>::build("add", target, |k, (x, summand)| {
                let i = k.thread_idx().x;
                x.store(i, x.load(i) + summand);
            })?
            .untyped()
        } else {
            Kernel::<Increment>::build("increment", target, |k, (x,)| {
                let i = k.thread_idx().x;
                x.store(i, x.load(i) + 1);
            })?
            .untyped()
        };
        Ok(Built::new(Add(config), kernel))
    }
}

struct AddArgs<'a> {
    x: &'a mut Buffer<i32>,
    summand: Option<i32>,
    launches: &'a mut u32,
}

impl ReadyKernel for Add {
    type Config = AddConfig;
    type Params = Untyped;
    type Problem = u32;
    type Args<'a> = AddArgs<'a>;
    /// Counts launches.
    type Shared = AtomicU32;
    type Error = RuntimeError;

    fn config(&self) -> &AddConfig {
        &self.0
    }

    fn share(&self, _: &Function<Untyped>, _: LoadOptions<'_>) -> Result<AtomicU32, RuntimeError> {
        Ok(AtomicU32::new(0))
    }

    fn launch(
        &self,
        times: &u32,
        AddArgs { x, summand, launches }: AddArgs<'_>,
        launch: Launch<'_, Self>,
    ) -> Result<(), RuntimeError> {
        for _ in 0..*times {
            match summand {
                Some(summand) => launch.start_as::<AddSummand>(Grid::cover(32, 32), (x, summand)),
                None => launch.start_as::<Increment>(Grid::cover(32, 32), (x,)),
            }?;
        }
        *launches = launch.shared().fetch_add(1, Ordering::Relaxed) + 1;
        Ok(())
    }
}

fn load(device: &Device, has_summand: bool) -> Loaded<Add> {
    Add::new(AddConfig { target: device.target(), has_summand }).unwrap().load(device).unwrap()
}

#[test]
fn a_launch_may_start_the_kernel_several_times() {
    for device in devices() {
        let add = load(&device, true);
        assert_eq!(add.config().to_string(), "add");
        let (mut x, mut launches) = (device.zeros::<i32>(32).unwrap(), 0);
        let stream = device.stream().unwrap();
        let args = AddArgs { x: &mut x, summand: Some(5), launches: &mut launches };
        add.on(&stream).launch(&3, args).unwrap();
        stream.synchronize().unwrap();
        assert_eq!((x.to_vec().unwrap(), launches), (vec![15; 32], 1));
        let args = AddArgs { x: &mut x, summand: Some(-1), launches: &mut launches };
        add.launch(&0, args).unwrap();
        assert_eq!((x.to_vec().unwrap(), launches), (vec![15; 32], 2));
        let increment = load(&device, false);
        let args = AddArgs { x: &mut x, summand: None, launches: &mut launches };
        increment.with(LaunchOptions::default()).launch(&2, args).unwrap();
        // The other loaded kernel shares nothing with the first.
        assert_eq!((x.to_vec().unwrap(), launches), (vec![17; 32], 1));
    }
}

/// The time of a launch is that of all its starts: on the simulator, they run the same operations.
#[test]
fn the_times_of_all_starts_add_up() {
    for device in devices() {
        let add = load(&device, true);
        let (mut x, mut launches) = (device.zeros::<i32>(32).unwrap(), 0);
        let mut time = |times| {
            let args = AddArgs { x: &mut x, summand: Some(1), launches: &mut launches };
            add.time(&times, args).unwrap()
        };
        let [none, one, three] = [0, 1, 3].map(&mut time);
        assert!(none.elapsed.is_zero() && none.thread_ops.is_none());
        assert!(!one.elapsed.is_zero());
        assert_eq!(three.thread_ops, one.thread_ops.map(|ops| 3 * ops));
        assert_eq!(x.to_vec().unwrap(), [4; 32]);
    }
}

#[test]
fn arguments_of_another_signature_are_refused() {
    let device = Device::sim().unwrap();
    let (mut x, mut launches) = (device.zeros::<i32>(32).unwrap(), 0);
    let args = AddArgs { x: &mut x, summand: Some(1), launches: &mut launches };
    let error = load(&device, false).launch(&1, args).unwrap_err();
    assert!(matches!(error, RuntimeError::ArgumentCount { expected: 1, given: 2, .. }), "{error}");
    assert_eq!((x.to_vec().unwrap(), launches), (vec![0; 32], 0));
}

/// `x[i] = 2 (x[i] + 1)` for 32 elements, by two kernels: another one adds.
struct Double(Target);

impl Double {
    fn new(target: Target) -> Result<Built<Double>, BuildErrors> {
        let kernel = Kernel::<Increment>::build("double", target, |k, (x,)| {
            let i = k.thread_idx().x;
            x.store(i, x.load(i) * 2);
        })?;
        Ok(Built::new(Double(target), kernel))
    }
}

/// What the launches of [`Double`] share: the other kernel, and with which checks it was loaded.
struct Other {
    increment: Loaded<Add>,
    checked: bool,
}

impl ReadyKernel for Double {
    type Config = Target;
    type Params = Increment;
    /// What the launch asks for instead of the caller's option.
    type Problem = Option<bool>;
    type Args<'a> = &'a mut Buffer<i32>;
    type Shared = Other;
    type Error = RuntimeError;

    fn config(&self) -> &Target {
        &self.0
    }

    fn share(
        &self,
        function: &Function<Increment>,
        options: LoadOptions<'_>,
    ) -> Result<Other, RuntimeError> {
        let increment = Add::new(AddConfig { target: self.0, has_summand: false }).unwrap();
        let increment = increment.load_with(options, function.device())?;
        Ok(Other { checked: increment.function().is_checked(), increment })
    }

    fn launch(
        &self,
        programmatic: &Option<bool>,
        x: &mut Buffer<i32>,
        launch: Launch<'_, Self>,
    ) -> Result<(), RuntimeError> {
        let Other { increment, checked } = launch.shared();
        assert!(*checked);
        let launch = match *programmatic {
            Some(programmatic) => &launch.programmatic(programmatic),
            None => &launch,
        };
        launch.start_other(increment.function(), Grid::cover(32, 32), vec![(&mut *x).into()])?;
        launch.start(Grid::cover(32, 32), (x,))
    }
}

fn load_double(device: &Device) -> Loaded<Double> {
    let double = Double::new(device.target()).unwrap();
    double.load_with(LoadOptions::default().checked(), device).unwrap()
}

#[test]
fn a_launch_may_start_another_kernel() {
    for device in devices() {
        let double = load_double(&device);
        let (mut x, stream) = (device.zeros::<i32>(32).unwrap(), device.stream().unwrap());
        double.on(&stream).launch(&None, &mut x).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(x.to_vec().unwrap(), [2; 32]);
        let both = double.time(&None, &mut x).unwrap();
        assert_eq!(x.to_vec().unwrap(), [6; 32]);
        if device.is_sim() {
            let second = double.function().time(Grid::cover(32, 32), (&mut x,)).unwrap();
            let (both, second) = (both.thread_ops.unwrap(), second.thread_ops.unwrap());
            assert!(both > second, "{both} {second}");
        }
    }
}

/// Neither kernel waits for the previous launch, so neither may be launched programmatically.
#[test]
fn a_launch_may_choose_whether_it_is_programmatic() {
    for device in devices() {
        let double = load_double(&device);
        let mut x = device.zeros::<i32>(32).unwrap();
        let early = double.with(LaunchOptions::default().programmatic(true));
        let error = early.launch(&None, &mut x).unwrap_err();
        assert!(matches!(error, RuntimeError::ProgrammaticWithoutWait { .. }), "{error}");
        early.launch(&Some(false), &mut x).unwrap();
        let error = double.launch(&Some(true), &mut x).unwrap_err();
        assert!(matches!(error, RuntimeError::ProgrammaticWithoutWait { .. }), "{error}");
        // A launch that is timed is not programmatic.
        double.time(&Some(true), &mut x).unwrap();
        assert_eq!(x.to_vec().unwrap(), [6; 32]);
    }
}
