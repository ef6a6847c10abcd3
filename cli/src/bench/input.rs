//! Parses the input of `tilewright bench`: problems, layouts, configurations.

use std::fmt;
use std::path::Path;

use tilewright::arch::Major;
use tilewright::kernels::gemm::{BatchMode, GemmConfig, GemmProblem};
use tilewright_tune::{GemmSpace, Machine, USUAL_SHAPES};

use super::super::gemm::problem_of;
use super::super::{Failure, read};

/// Which candidates the user asked for.
pub(super) enum Configs {
    /// The model's first ones.
    Default,
    /// The whole space.
    All,
    /// These configurations.
    Named(Vec<GemmConfig>),
}

impl Configs {
    /// Returns the candidates that have the space's types and can run the problem.
    pub(super) fn of(
        &self,
        space: &GemmSpace,
        problem: &GemmProblem,
        machine: &Machine,
    ) -> Vec<GemmConfig> {
        match self {
            Configs::Default | Configs::All => space.configs(problem, machine),
            Configs::Named(named) => {
                let fits = |config: &&GemmConfig| misfit(config, space, problem).is_none();
                named.iter().filter(fits).copied().collect()
            }
        }
    }

    /// Checks that each problem has a candidate.
    pub(super) fn check(
        &self,
        space: &GemmSpace,
        shapes: &[GemmProblem],
        machine: &Machine,
    ) -> Result<(), Failure> {
        for problem in shapes {
            if !self.of(space, problem, machine).is_empty() {
                continue;
            }
            let [m, n, k] = [problem.m, problem.n, problem.k];
            let why = match self {
                Configs::Named(named) => named.first().and_then(|config| {
                    misfit(config, space, problem).map(|why| format!("{config}: {why}"))
                }),
                Configs::Default | Configs::All => None,
            };
            let why = why.unwrap_or_else(|| {
                let GemmSpace { target, input, output, .. } = space;
                format!("there is none for {input} inputs and {output} results on {target}")
            });
            return Err(Failure::input(format!("no configuration can run {m}x{n}x{k}: {why}")));
        }
        Ok(())
    }
}

/// Returns why a configuration cannot be a candidate.
fn misfit(config: &GemmConfig, space: &GemmSpace, problem: &GemmProblem) -> Option<String> {
    let differs =
        |what: &str, found: &dyn fmt::Display, option: &str, wanted: &dyn fmt::Display| {
            Some(format!("{what} {found}, but `{option}` asks for {wanted}"))
        };
    let majors = (config.major_a, config.major_b);
    if config.inputs() != space.input {
        differs("its A and B are", &config.inputs(), "--dtype", &space.input)
    } else if config.d != space.output {
        differs("its D is", &config.d, "--output", &space.output)
    } else if majors != (space.major_a, space.major_b) {
        let wanted = layout_name((space.major_a, space.major_b));
        differs("its layout is", &layout_name(majors), "--layout", &wanted)
    } else if !space.target.offers(config.target) {
        Some(format!("it needs {}, but the target is {}", config.target, space.target))
    } else if config.batch != BatchMode::Uniform {
        Some("it reads the sizes of its GEMMs from memory, but this benchmark measures one GEMM; for grouped GEMM use `--groups`".to_owned())
    } else {
        config.check_problem(problem).err().map(|error| error.to_string())
    }
}

pub(super) fn layout(text: &str) -> Result<[Major; 2], String> {
    let both = [Major::K, Major::Mn];
    let all = both.into_iter().flat_map(|a| both.map(|b| [a, b]));
    let named = all.into_iter().find(|[a, b]| layout_name((*a, *b)) == text);
    named.ok_or_else(|| "expected tn, tt, nn or nt".to_owned())
}

/// Returns the BLAS name for what is contiguous in A and B.
fn layout_name(majors: (Major, Major)) -> &'static str {
    match majors {
        (Major::K, Major::K) => "tn",
        (Major::K, Major::Mn) => "tt",
        (Major::Mn, Major::K) => "nn",
        (Major::Mn, Major::Mn) => "nt",
    }
}

pub(super) fn configs(text: &str) -> Result<Configs, Failure> {
    match text {
        "default" => Ok(Configs::Default),
        "all" => Ok(Configs::All),
        file if Path::new(file).exists() => {
            let text = read(Path::new(file))?;
            let named: Vec<GemmConfig> = lines(&text).map(config).collect::<Result<_, _>>()?;
            if named.is_empty() {
                return Err(Failure::input(format!("{file} has no configurations")));
            }
            Ok(Configs::Named(named))
        }
        // A text that starts like a configuration name gets the error for that name.
        names if names.starts_with("sm") => Ok(Configs::Named(
            names.split(',').map(str::trim).map(config).collect::<Result<_, _>>()?,
        )),
        text => Err(Failure::input(format!(
            "`{}` is neither a configuration name nor a file with such names",
            text.escape_default()
        ))),
    }
}

fn config(name: &str) -> Result<GemmConfig, Failure> {
    let config: GemmConfig = name.parse().map_err(Failure::input)?;
    config.check().map_err(|error| Failure::input(format!("{name}: {error}")))?;
    Ok(config)
}

/// The name of the language-model problems.
const LLM: &str = "llm";

/// Parses a list of problems, or [`LLM`], or a file if there is one with this name.
pub(super) fn shapes(text: Option<&str>) -> Result<Vec<GemmProblem>, Failure> {
    let Some(text) = text else {
        return Ok(USUAL_SHAPES.map(|[m, n, k]| GemmProblem::new(m, n, k)).into());
    };
    if text == LLM {
        let sizes = || [4096, 8192, 14336, 28672].into_iter();
        let rows = [64, 128, 256, 512, 1024].into_iter();
        let all = rows.flat_map(|m| sizes().flat_map(move |n| sizes().map(move |k| [m, n, k])));
        return Ok(all.map(|[m, n, k]| GemmProblem::new(m, n, k)).collect());
    }
    let named;
    let items: Vec<&str> = if Path::new(text).exists() {
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
        let max = GemmProblem::MAX_SIZE;
        // If the text is not just digits and `x`, the user may have meant a file.
        let is_size = text.chars().all(|c| c.is_ascii_digit() || matches!(c, 'x' | '-'));
        let what = if is_size { "not a problem" } else { "neither a problem nor an existing file" };
        let text = text.escape_default();
        Failure::input(format!(
            "`{text}` is {what}: expected a size such as 4096, or MxNxK, from 1 to {max}, or a file with such lines"
        ))
    };
    problem_of(text).ok_or_else(error)
}

/// Returns the lines that are not empty after comments, which start with `#`, are removed.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_products_of_language_models_have_a_name() {
        let all = shapes(Some("llm")).map_err(|failure| failure.message).unwrap();
        assert_eq!(all.len(), 5 * 4 * 4);
        assert_eq!(all[1], GemmProblem::new(64, 4096, 8192));
        assert_eq!(all.last(), Some(&GemmProblem::new(1024, 28672, 28672)));
    }
}
