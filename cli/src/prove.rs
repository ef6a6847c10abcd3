//! `tilewright prove`: prints which accesses of a kernel are proved in bounds, what a launch has to
//! fulfil, and what stays open.

use std::path::Path;

use clap::Args;
use tilewright::ir::builder::Converted;
use tilewright::ir::{Element, Kernel, KernelIr, Number, parse_kernels};
use tilewright::json::Json;
use tilewright::kernels::gemm::{Gemm, GemmConfig};
use tilewright::prove::{Obligation, Proof, Verdict};

use super::ptx::{OfTypes, of_types};
use super::{Failure, print, read};

/// The options of `tilewright prove`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 if every access is proved, perhaps with conditions on the launch; 1 if some stay \
    open; 2 for bad input."
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
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let all = match options.kernel.parse::<GemmConfig>() {
        Ok(config) => vec![of_types(config, ProveKernel)?],
        Err(error) if options.kernel.starts_with("sm") && !Path::new(&options.kernel).exists() => {
            return Err(Failure::input(error));
        }
        Err(_) => of_file(&options.kernel)?,
    };
    if options.json {
        print(&format!("{}\n", Json::List(all.iter().map(Proved::json).collect())))?;
    } else {
        let text: String = all.iter().map(|proved| format!("{}\n", proved.proof)).collect();
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
    let first_line = |error: String| error.lines().next().map(str::to_owned).unwrap_or_default();
    let kernels = parse_kernels(name, &text)
        .map_err(|error| Failure::input(format!("{path}:{}", first_line(error.to_string()))))?;
    let prove = |ir: KernelIr| {
        let kernel =
            Kernel::verify(ir).map_err(|errors| Failure::input(first_line(errors.to_string())))?;
        Ok(Proved { proof: kernel.prove(), ir: kernel.ir().clone() })
    };
    kernels.into_iter().map(prove).collect()
}

/// Proves a configuration's kernel.
struct ProveKernel;

impl OfTypes for ProveKernel {
    type Out = Proved;

    fn of<A: Element, D: Converted, B: Element, C: Number>(
        self,
        config: GemmConfig,
    ) -> Result<Proved, Failure> {
        let gemm = Gemm::<A, B, C, D>::new(config).map_err(Failure::input)?;
        Ok(Proved { proof: gemm.prove(), ir: gemm.ir().clone() })
    }
}

impl Proved {
    fn json(&self) -> Json {
        let Proved { ir, proof } = self;
        let conditions = proof.conditions().iter().map(|condition| {
            Json::Object(vec![
                ("condition", Json::text(condition)),
                ("op", Json::text(condition.op())),
                ("location", Json::text(condition.location())),
            ])
        });
        let obligations =
            proof.obligations().iter().map(|obligation| self.obligation(ir, obligation));
        Json::Object(vec![
            ("kernel", Json::text(proof.kernel())),
            ("complete", Json::Bool(proof.is_complete())),
            ("conditions", Json::List(conditions.collect())),
            ("obligations", Json::List(obligations.collect())),
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
