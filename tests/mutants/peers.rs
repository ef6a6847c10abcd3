//! Launches mutants on a GPU, for `scripts/sanitizer-peers`: other sanitisers run beside the
//! simulator.

use super::kernels::{Arg, Subject, subjects};
use super::operators::{Mutant, mutants};
use super::{FUEL, equivalent, in_parallel, said};
use crate::support::any_buffer::{OfElement, with_element};

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::Duration;

use tilewright::arch::TensorMapDesc;
use tilewright::ir::types::Type;
use tilewright::ir::{Element, Kernel, Untyped, parse};
use tilewright::runtime::{self, Device, Function, LaunchOptions, LoadOptions};
use tilewright::sim::Options;

/// The number of the mutant that a process launches, or `list`.
const PEER: &str = "TILEWRIGHT_PEER";

/// The mutants that are compared.
const PEERS: usize = 60;

/// The longest time from a launch to its end. A sanitizer makes the kernels some thousand times
/// slower, to milliseconds.
const LONGEST: Duration = Duration::from_secs(5);

struct Peer<'s> {
    subject: &'s Subject,
    mutant: Mutant,
    kernel: Kernel<Untyped>,
}

/// Mutants that the verifier takes and that are not correct kernels, spread evenly over all.
fn peers(subjects: &[Subject]) -> Vec<Peer<'_>> {
    let mut all = Vec::new();
    // A peer is one launch.
    for subject in subjects.iter().filter(|subject| !subject.is_chain()) {
        for mutant in mutants(&subject.text) {
            let is_correct = equivalent::reason(subject.name, &mutant).is_some()
                || mutant.class == "block index" && subject.blocks() == 1;
            let Ok(kernel) = Kernel::verify(parse("kernel.kir", &mutant.text).unwrap()) else {
                continue;
            };
            if !is_correct {
                all.push(Peer { subject, mutant, kernel });
            }
        }
    }
    let step = all.len() / PEERS;
    all.into_iter().step_by(step).take(PEERS).collect()
}

/// The argument of a pointer or a tensor map. It lives until the process ends.
struct Make<'a> {
    device: &'a Device,
    bytes: &'a [u8],
    map: Option<&'a TensorMapDesc>,
    mutable: bool,
}

impl OfElement for Make<'_> {
    type Output = runtime::Arg<'static>;

    fn of<T: Element>(self) -> runtime::Arg<'static> {
        let size = T::SCALAR.size_bytes() as usize;
        let element = |bytes: &[u8]| {
            let mut bits = [0; 8];
            bits[..size].copy_from_slice(bytes);
            T::from_bits(u64::from_le_bytes(bits))
        };
        let data: Vec<T> = self.bytes.chunks_exact(size).map(element).collect();
        let buffer = Box::leak(Box::new(self.device.upload(&data).unwrap()));
        match (self.map, self.mutable) {
            (None, false) => runtime::Arg::from(&*buffer),
            (None, true) => runtime::Arg::from(buffer),
            (Some(map), false) => {
                runtime::Arg::from(&*Box::leak(Box::new(buffer.tensor_map(map).unwrap())))
            }
            (Some(map), true) => {
                let map = buffer.tensor_map_mut(map).unwrap();
                runtime::Arg::from(Box::leak(Box::new(map)))
            }
        }
    }
}

fn launch(device: &Device, peer: &Peer<'_>) -> Result<(), runtime::RuntimeError> {
    let ir = peer.kernel.ir();
    let mut args = Vec::new();
    for (param, arg) in ir.params.iter().zip(peer.subject.args()) {
        let (bytes, map) = match arg {
            Arg::Int(number) => {
                args.push(runtime::Arg::from(*number));
                continue;
            }
            Arg::Buffer(bytes) => (bytes, None),
            Arg::Map(map, bytes) => (bytes, Some(&**map)),
        };
        let (elem, mutable) = match ir.type_of(param.value) {
            Type::Pointer { elem, mutable, .. } | Type::TensorMap { elem, mutable, .. } => {
                (elem, mutable)
            }
            Type::Scalar(_) | Type::Vector(_) => panic!("not a buffer"),
        };
        args.push(with_element(elem, Make { device, bytes, map, mutable }));
    }
    #[expect(unsafe_code, reason = "the process launches one kernel, and checks nothing after it")]
    // SAFETY: nothing relies on the memory that the mutant may overwrite; the process then ends.
    let options = unsafe { LoadOptions::default().unchecked() }.cache(None);
    let function: Function<Untyped> = device.load_with(options, &peer.kernel)?;
    let options = LaunchOptions::default().cooperative(peer.subject.is_cooperative());
    std::thread::spawn(|| {
        std::thread::sleep(LONGEST);
        // The kernel would take its share of the GPU from the other processes. Only the end of the
        // process ends it.
        println!("\npeer hangs");
        std::process::abort();
    });
    function.launch_with(options, peer.subject.grid(), args)?;
    device.synchronize()
}

/// One mutant, or the table of all with what the simulator says.
#[test]
fn peer() {
    let Ok(which) = std::env::var(PEER) else { return };
    let subjects = subjects();
    let peers = peers(&subjects);
    if which == "list" {
        // As many mutants as are compared, of most classes.
        let classes: BTreeSet<&str> = peers.iter().map(|peer| peer.mutant.class).collect();
        assert!(peers.len() == PEERS && classes.len() >= 12, "{} of {classes:?}", peers.len());
        let found: Vec<OnceLock<String>> = peers.iter().map(|_| OnceLock::new()).collect();
        let all: Vec<_> = peers.iter().zip(&found).collect();
        in_parallel(&all, |(Peer { subject, kernel, .. }, found)| {
            let options = Options::default().fuel(FUEL);
            let ours = match subject.run(kernel.ir(), options.clone()) {
                Err(error) => said(&error),
                Ok(_) => match subject.run(kernel.ir(), options.schedules(super::SCHEDULES)) {
                    Err(error) => format!("{} (in schedules)", said(&error)),
                    Ok(_) => "-".to_owned(),
                },
            };
            let _ = found.set(ours);
        });
        for (number, (Peer { subject, mutant, .. }, ours)) in all.into_iter().enumerate() {
            let ours = ours.get().and_then(|ours| ours.split(':').next()).unwrap_or_default();
            let Mutant { class, operator, site, .. } = mutant;
            println!("\npeer\t{number}\t{class}: {operator}\t{}\t{site}\t{ours}", subject.name);
        }
        return;
    }
    let peer = &peers[which.parse::<usize>().unwrap()];
    match launch(&Device::cuda(0).unwrap(), peer) {
        Ok(()) => println!("\npeer ended"),
        Err(error) => println!("\npeer failed: {error}"),
    }
}
