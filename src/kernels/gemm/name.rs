//! Names of configurations, printed and parsed.

use std::fmt;
use std::str::FromStr;

use crate::arch::Major;
use crate::ir::Scalar;

use super::config::{Activation, Bias, Epilogue, GemmConfig, Schedule, StoreForm};
use super::error::GemmError;

/// `sm90a_bf16_tn_256x200x64_s3_coop_strip8_rows_pdl`, of letters, digits and `_` alone: target; the types of A and
/// B, where they differ from it of D (`d`) and C (`c`); `t` or `n` for A and for B as BLAS has them (`tn`: both
/// contiguous along K); the tile; the stages; the schedule; clusters (`cl2`); the raster; how D is written; the
/// epilogue (`alpha`, `beta`, `biasrow`, `biascol`, `relu`, `gelu`); registers other than the usual ones (`r24x240`,
/// `r0` for none); an alignment other than 16 (`a2`); `pdl` for a programmatic launch.
impl fmt::Display for GemmConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.target.arch_specific() { "a" } else { "" };
        write!(f, "sm{}{suffix}_{}", self.target.sm(), self.a)?;
        if self.b != self.a {
            write!(f, "x{}", self.b)?;
        }
        if self.d != self.a {
            write!(f, "_d{}", self.d)?;
        }
        if self.c != self.d {
            write!(f, "_c{}", self.c)?;
        }
        let a = if self.major_a == Major::K { 't' } else { 'n' };
        let b = if self.major_b == Major::K { 'n' } else { 't' };
        let [m, n, k] = self.tile;
        write!(f, "_{a}{b}_{m}x{n}x{k}_s{}_{}", self.stages, self.schedule.name())?;
        if self.cluster != 1 {
            write!(f, "_cl{}", self.cluster)?;
        }
        write!(f, "_{}_{}", self.raster, self.store.name())?;
        for word in words(&self.epilogue) {
            write!(f, "_{word}")?;
        }
        match self.registers {
            registers if registers == self.usual_registers() => {}
            Some([fetch, multiply]) => write!(f, "_r{fetch}x{multiply}")?,
            None => f.write_str("_r0")?,
        }
        if self.alignment != 16 {
            write!(f, "_a{}", self.alignment)?;
        }
        if self.programmatic {
            f.write_str("_pdl")?;
        }
        Ok(())
    }
}

fn words(epilogue: &Epilogue) -> impl Iterator<Item = &'static str> {
    let bias = epilogue.bias.map(|bias| match bias {
        Bias::Row => "biasrow",
        Bias::Column => "biascol",
    });
    let activation = epilogue.activation.map(|activation| match activation {
        Activation::Relu => "relu",
        Activation::Gelu => "gelu",
    });
    let flag = |on: bool, word| on.then_some(word);
    [flag(epilogue.alpha, "alpha"), flag(epilogue.beta, "beta"), bias, activation]
        .into_iter()
        .flatten()
}

/// The parts of a name, one after the other.
struct Parts<'t> {
    text: &'t str,
    rest: Vec<&'t str>,
}

impl<'t> Parts<'t> {
    fn error(&self, part: &str, expected: &'static str) -> GemmError {
        GemmError::Name { text: self.text.to_owned(), part: part.to_owned(), expected }
    }

    /// The next part, which `read` must take.
    fn next<T>(
        &mut self,
        expected: &'static str,
        read: impl Fn(&'t str) -> Option<T>,
    ) -> Result<T, GemmError> {
        let part = self.rest.pop().unwrap_or("");
        read(part).ok_or_else(|| self.error(part, expected))
    }

    /// The next part, if `read` takes it.
    fn perhaps<T>(&mut self, read: impl Fn(&'t str) -> Option<T>) -> Option<T> {
        let found = self.rest.last().and_then(|part| read(part));
        if found.is_some() {
            self.rest.pop();
        }
        found
    }
}

/// A number as it is printed.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number: &u32| number.to_string() == text)
}

fn numbers<const N: usize>(text: &str) -> Option<[u32; N]> {
    let numbers: Option<Vec<u32>> = text.split('x').map(number).collect();
    numbers?.try_into().ok()
}

fn scalar(text: &str) -> Option<Scalar> {
    text.parse().ok()
}

impl FromStr for GemmConfig {
    type Err = GemmError;

    /// The configuration with this name. Whether there is a kernel for it [`check`](GemmConfig::check) says.
    fn from_str(text: &str) -> Result<GemmConfig, GemmError> {
        let mut parts = Parts { text, rest: text.split('_').rev().collect() };
        let target = parts.next("a target such as `sm90a`", |part| {
            format!("sm_{}", part.strip_prefix("sm")?).parse().ok()
        })?;
        let (a, b) = parts.next("the type of A and B, such as `bf16`", |part| {
            match part.split_once('x') {
                Some((a, b)) => scalar(a).zip(scalar(b)).filter(|(a, b)| a != b),
                None => scalar(part).map(|both| (both, both)),
            }
        })?;
        let d = parts.perhaps(|part| scalar(part.strip_prefix('d')?).filter(|d| *d != a));
        let d = d.unwrap_or(a);
        let c = parts.perhaps(|part| scalar(part.strip_prefix('c')?).filter(|c| *c != d));
        let (major_a, major_b) = parts.next("`tn`, `tt`, `nn` or `nt`", |part| match part {
            "tn" => Some((Major::K, Major::K)),
            "tt" => Some((Major::K, Major::Mn)),
            "nn" => Some((Major::Mn, Major::K)),
            "nt" => Some((Major::Mn, Major::Mn)),
            _ => None,
        })?;
        let tile = parts.next("a tile such as `128x256x64`", numbers::<3>)?;
        let stages = parts.next("stages such as `s4`", |part| number(part.strip_prefix('s')?))?;
        let schedule = parts.next("a schedule: `simt`, `ms`, `coop` or `pp`", |part| {
            Schedule::ALL.into_iter().find(|schedule| schedule.name() == part)
        })?;
        let cluster = parts.perhaps(|part| number(part.strip_prefix("cl")?).filter(|n| *n != 1));
        let raster = parts.next("an order of tiles such as `strip8`", |part| part.parse().ok())?;
        let store = parts.next("`direct`, `rows`, `chunks` or `deferred`", |part| {
            StoreForm::ALL.into_iter().find(|form| form.name() == part)
        })?;
        let is = |word| move |part: &str| (part == word).then_some(());
        let epilogue = Epilogue {
            alpha: parts.perhaps(is("alpha")).is_some(),
            beta: parts.perhaps(is("beta")).is_some(),
            bias: parts.perhaps(|part| match part {
                "biasrow" => Some(Bias::Row),
                "biascol" => Some(Bias::Column),
                _ => None,
            }),
            activation: parts.perhaps(|part| match part {
                "relu" => Some(Activation::Relu),
                "gelu" => Some(Activation::Gelu),
                _ => None,
            }),
        };
        let registers = parts.perhaps(|part| match part.strip_prefix('r')? {
            "0" => Some(None),
            counts => numbers::<2>(counts).map(Some),
        });
        let alignment = parts.perhaps(|part| number(part.strip_prefix('a')?).filter(|n| *n != 16));
        let programmatic = parts.perhaps(is("pdl")).is_some();
        if let Some(part) = parts.rest.last() {
            return Err(parts.error(part, "the end, or words in their order"));
        }
        let config = GemmConfig {
            target,
            a,
            b,
            c: c.unwrap_or(d),
            d,
            acc: Scalar::F32,
            major_a,
            major_b,
            tile,
            stages,
            cluster: cluster.unwrap_or(1),
            schedule,
            raster,
            store,
            epilogue,
            registers: None,
            alignment: alignment.unwrap_or(16),
            programmatic,
        };
        let registers = registers.unwrap_or(config.usual_registers());
        let config = GemmConfig { registers, ..config };
        // Numbers with leading zeros, and parts that are only printed where they say something.
        if config.to_string() == text {
            Ok(config)
        } else {
            Err(parts.error(text, "the name that the configuration is printed as"))
        }
    }
}
