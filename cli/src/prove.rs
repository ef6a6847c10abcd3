//! `tilewright prove`: prints which accesses of a kernel are proved in bounds and free of races, what
//! a launch has to fulfil, and what stays open.

use std::path::Path;

use clap::Args;
use tilewright::ir::{Kernel, KernelIr, SourceLocation, parse_kernels};
use tilewright::json::Json;
use tilewright::kernels::gemm::{AnyGemm, GemmConfig};
use tilewright::prove::{
    Condition, Contention, Obligation, Proof, RaceProof, RaceVerdict, Verdict,
};

use super::ptx::first_line;
use super::{Failure, print, read};

/// The options of `tilewright prove`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 if every access is proved in bounds, perhaps with conditions on the launch; 1 if some \
    stay open; 2 for bad input. Races do not change the exit code."
)]
pub(super) struct Options {
    /// A file with kernels in the text form (`.kir`), or the name of a GEMM configuration, such as
    /// `sm90a_bf16_tn_128x256x64_s4_coop_strip8_overlapped`.
    kernel: String,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

/// A kernel with its proof.
struct Proved {
    ir: KernelIr,
    proof: Proof,
    races: RaceProof,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let name = options.kernel.as_str();
    let all = match name.parse::<GemmConfig>() {
        Ok(config) => {
            let gemm = AnyGemm::new(config).map_err(Failure::input)?;
            vec![Proved::new(gemm.ir().clone())?]
        }
        // A text that starts like a configuration name gets the error for that name.
        Err(error) if name.starts_with("sm") && !Path::new(name).exists() => {
            return Err(Failure::input(error));
        }
        Err(_) => of_file(name)?,
    };
    if options.json {
        print(&format!("{}\n", Json::List(all.iter().map(Proved::json).collect())))?;
    } else {
        let text = |proved: &Proved| format!("{}\n{}\n", proved.proof, proved.races);
        let text: String = all.iter().map(text).collect();
        print(&text)?;
    }
    let open: Vec<&str> = all
        .iter()
        .filter(|proved| !proved.proof.is_complete())
        .map(|proved| proved.proof.kernel())
        .collect();
    match open.len() {
        0 => Ok(()),
        _ => Err(Failure::run(format!("kernels with open accesses: {}", open.join(", ")))),
    }
}

fn of_file(path: &str) -> Result<Vec<Proved>, Failure> {
    let text = read(Path::new(path))?;
    // Source locations keep their file name for the whole run.
    let name: &'static str = Box::leak(path.to_owned().into_boxed_str());
    let kernels = parse_kernels(name, &text)
        .map_err(|error| Failure::input(format!("{path}:{}", first_line(&error))))?;
    if kernels.is_empty() {
        return Err(Failure::input(format!("`{path}` has no kernels")));
    }
    kernels.into_iter().map(Proved::new).collect()
}

impl Proved {
    fn new(ir: KernelIr) -> Result<Proved, Failure> {
        let kernel = Kernel::verify(ir).map_err(|errors| Failure::input(first_line(&errors)))?;
        let (proof, races) = (kernel.prove(), kernel.prove_races());
        Ok(Proved { proof, races, ir: kernel.ir().clone() })
    }

    fn json(&self) -> Json {
        let Proved { ir, proof, races } = self;
        let obligations =
            proof.obligations().iter().map(|obligation| self.obligation(ir, obligation));
        Json::Object(vec![
            ("kernel", Json::text(proof.kernel())),
            ("complete", Json::Bool(proof.is_complete())),
            ("conditions", conditions(proof.conditions())),
            ("obligations", Json::List(obligations.collect())),
            ("races", race_json(races)),
        ])
    }

    fn obligation(&self, ir: &KernelIr, obligation: &Obligation) -> Json {
        let Obligation { op, name, location, what, verdict, .. } = obligation;
        let mut fields = vec![
            ("op", Json::text(name)),
            ("path", Json::text(ir.path_of(*op))),
            ("location", Json::text(location)),
            ("what", Json::text(what)),
        ];
        match verdict {
            Verdict::Proved => fields.push(("verdict", Json::text("proved"))),
            Verdict::Condition(all) => {
                let all = all.iter().map(|index| Json::Number(*index as u64));
                fields.push(("verdict", Json::text("condition")));
                fields.push(("conditions", Json::List(all.collect())));
            }
            Verdict::Checked(reason) => {
                fields.push(("verdict", Json::text("checked")));
                fields.push(("unknown", Json::text(reason)));
            }
            Verdict::Assumed(assumed) => {
                fields.push(("verdict", Json::text("assumed")));
                fields.push(("assumed", Json::text(assumed)));
            }
            _ => {}
        }
        Json::Object(fields)
    }
}

fn conditions(all: &[Condition]) -> Json {
    let one = |condition: &Condition| {
        Json::Object(vec![
            ("condition", Json::text(condition)),
            ("op", Json::text(condition.op())),
            ("location", Json::text(condition.location())),
        ])
    };
    Json::List(all.iter().map(one).collect())
}

fn race_json(races: &RaceProof) -> Json {
    Json::Object(vec![
        ("complete", Json::Bool(races.is_complete())),
        ("conditions", conditions(races.conditions())),
        ("allocations", Json::List(races.allocations().iter().map(allocation).collect())),
    ])
}

fn allocation(one: &Contention) -> Json {
    let Contention { name, space, accesses, verdict, .. } = one;
    let mut fields = vec![
        ("name", Json::text(name)),
        ("space", Json::text(space)),
        ("accesses", Json::Number(*accesses as u64)),
    ];
    match verdict {
        RaceVerdict::Proved => fields.push(("verdict", Json::text("proved"))),
        RaceVerdict::Condition(all) => {
            let all = all.iter().map(|index| Json::Number(*index as u64));
            fields.push(("verdict", Json::text("condition")));
            fields.push(("conditions", Json::List(all.collect())));
        }
        RaceVerdict::Open(pair) => {
            fields.push(("verdict", Json::text("open")));
            fields.push(("unknown", Json::text(&pair.reason)));
            let operation = |(op, location): &(&'static str, SourceLocation)| {
                Json::Object(vec![("op", Json::text(op)), ("location", Json::text(location))])
            };
            fields.push(("first", operation(&pair.first)));
            fields.push(("second", operation(&pair.second)));
        }
        RaceVerdict::Assumed(assumed) => {
            fields.push(("verdict", Json::text("assumed")));
            fields.push(("assumed", Json::text(assumed)));
        }
        _ => {}
    }
    Json::Object(fields)
}
