//! What `tilewright bench` is given: problems, types, configurations.

use std::path::Path;

use tilewright::codegen::Major;
use tilewright::ir::Scalar;
use tilewright::kernels::gemm::{GemmConfig, GemmProblem};
use tilewright::tune::{GemmSpace, USUAL_SHAPES};

use super::Failure;

/// The candidates that were asked for.
pub(super) enum Configs {
    /// The first ones of the model's order.
    Default,
    /// All of the space.
    All,
    /// These.
    Named(Vec<GemmConfig>),
}

impl Configs {
    /// Those that are of the space's types and take the problem.
    pub(super) fn of(&self, space: &GemmSpace, problem: &GemmProblem) -> Vec<GemmConfig> {
        match self {
            Configs::Default | Configs::All => space.configs(problem),
            Configs::Named(named) => {
                let fits = |config: &&GemmConfig| {
                    (config.a, config.d, config.major_a, config.major_b)
                        == (space.input, space.output, space.major_a, space.major_b)
                        && space.target.offers(config.target)
                        && config.check_problem(problem).is_ok()
                };
                named.iter().filter(fits).copied().collect()
            }
        }
    }
}

pub(super) fn dtype(text: &str) -> Result<Scalar, String> {
    match text {
        "bf16" => Ok(Scalar::Bf16),
        "f16" => Ok(Scalar::F16),
        "tf32" => Ok(Scalar::Tf32),
        "f32" => Ok(Scalar::F32),
        _ => Err("expected bf16, f16, tf32 or f32".to_owned()),
    }
}

pub(super) fn layout(text: &str) -> Result<[Major; 2], String> {
    match text {
        "tn" => Ok([Major::K, Major::K]),
        "tt" => Ok([Major::K, Major::Mn]),
        "nn" => Ok([Major::Mn, Major::K]),
        "nt" => Ok([Major::Mn, Major::Mn]),
        _ => Err("expected tn, tt, nn or nt".to_owned()),
    }
}

pub(super) fn configs(text: &str) -> Result<Configs, Failure> {
    match text {
        "default" => Ok(Configs::Default),
        "all" => Ok(Configs::All),
        file => {
            let mut named = Vec::new();
            for line in lines(&read(Path::new(file))?) {
                let config: GemmConfig = line.parse().map_err(Failure::input)?;
                config.check().map_err(|error| Failure::input(format!("{line}: {error}")))?;
                named.push(config);
            }
            if named.is_empty() {
                return Err(Failure::input(format!("{file} has no configurations")));
            }
            Ok(Configs::Named(named))
        }
    }
}

/// The problems of a list, or of a file where there is one of that name.
pub(super) fn shapes(text: Option<&str>) -> Result<Vec<GemmProblem>, Failure> {
    let Some(text) = text else {
        return Ok(USUAL_SHAPES.map(|[m, n, k]| GemmProblem::new(m, n, k)).into());
    };
    let named;
    let items: Vec<&str> = if Path::new(text).is_file() {
        named = read(Path::new(text))?;
        lines(&named).collect()
    } else {
        text.split(',').map(str::trim).collect()
    };
    let shapes: Vec<GemmProblem> = items.into_iter().map(shape).collect::<Result<_, _>>()?;
    if shapes.is_empty() {
        return Err(Failure::input(format!("{text} has no problems")));
    }
    Ok(shapes)
}

fn shape(text: &str) -> Result<GemmProblem, Failure> {
    let error = || {
        let text = text.escape_default();
        let most = GemmProblem::MAX_SIZE;
        Failure::input(format!(
            "`{text}` is no problem: expected a size such as 4096, or MxNxK, from 1 to {most}, or a file of them"
        ))
    };
    let size = |text: &str| {
        text.parse()
            .ok()
            .filter(|size| (1..=GemmProblem::MAX_SIZE).contains(size))
            .ok_or_else(error)
    };
    match text.split('x').collect::<Vec<_>>()[..] {
        [all] => {
            let size = size(all)?;
            Ok(GemmProblem::new(size, size, size))
        }
        [m, n, k] => Ok(GemmProblem::new(size(m)?, size(n)?, size(k)?)),
        _ => Err(error()),
    }
}

/// The lines that say something: what follows `#` does not.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
}

pub(super) fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::input(format!("{}: {error}", path.display())))
}
