//! The table of the words in a configuration's name. One row per word says how it is printed,
//! parsed and checked. A new field of the configuration needs a row.

use std::fmt;
use std::str::FromStr;

use crate::arch::Major;
use crate::ir::Target;
use crate::ir::types::Scalar;

use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::methods::{
    AccumulationMode, BatchMode, LoadMethod, Schedule, Splits, StoreMethod,
};
use crate::kernels::gemm::config::types::InputTypes;
use crate::kernels::gemm::config::{Activation, Bias, GemmConfig};

/// The older spelling of [`StoreMethod::Overlapped`], still accepted so that old sweeps can be
/// read.
const DEFERRED: &str = "deferred";

/// One word of a name.
struct Word {
    /// What a parse error says was expected; `None` if the word is optional.
    expected: Option<&'static str>,
    /// Prints the word, or returns `None` to leave it out.
    print: fn(&GemmConfig) -> Option<String>,
    /// Parses the word into a configuration, or returns `None` if the text is not this word.
    parse: fn(&mut GemmConfig, &str) -> Option<()>,
    /// Checks the fields that the word stands for.
    check: fn(&GemmConfig) -> Result<(), GemmError>,
}

/// Makes the table. A row is `"expected" or optional: print, parse, check`, where `of` is the
/// configuration and `text` the word to parse.
macro_rules! words {
    ($($(#[doc = $doc:literal])* word $expected:expr => |$of:ident| $print:expr, |$set:ident, $text:ident| $parse:expr, $check:expr;)*) => {
        /// All words, in the order of the name.
        const WORDS: &[Word] = &[$(Word {
            expected: $expected,
            print: |$of| $print,
            parse: |$set, $text| $parse,
            check: $check,
        }),*];

        /// Prints a name such as `sm90a_bf16_tn_256x200x64_s3_coop_strip8_rows_pdl`, made of
        /// letters, digits and `_` only. Its words, in this order:
        $($(#[doc = $doc])*)*
        impl fmt::Display for GemmConfig {
            #[inline]
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let words: Vec<String> =
                    WORDS.iter().filter_map(|word| (word.print)(self)).collect();
                f.write_str(&words.join("_"))
            }
        }
    };
}

words! {
    /// * the target;
    word Some("a target such as `sm90a`") =>
        |of| Some(format!("sm{}{}", of.target.sm(), if of.target.arch_specific() { "a" } else { "" })),
        |of, text| set(&mut of.target, format!("sm_{}", text.strip_prefix("sm")?).parse().ok()),
        GemmConfig::check_target;
    /// * the type of A and B, or both types if they differ (`f8e4m3xf8e5m2`);
    word Some("the type of A and B, such as `bf16`") =>
        |of| Some(of.inputs().to_string()),
        |of, text| {
            let inputs: InputTypes = text.parse().ok()?;
            (of.a, of.b, of.acc) = (inputs.a, inputs.b, inputs.accumulator());
            (of.d, of.c) = (of.a, of.a);
            Some(())
        },
        GemmConfig::check_inputs;
    /// * `d` and the type of D, if it is not that of A;
    word None =>
        |of| (of.d != of.a).then(|| format!("d{}", of.d)),
        |of, text| {
            of.d = scalar(text.strip_prefix('d')?)?;
            of.c = of.d;
            Some(())
        },
        |of| of.check_output('D', of.d);
    /// * `c` and the type of C, if it is not that of D;
    word None =>
        |of| (of.c != of.d).then(|| format!("c{}", of.c)),
        |of, text| set(&mut of.c, scalar(text.strip_prefix('c')?)),
        |of| of.check_output('C', of.c);
    /// * `t` or `n` for A and for B, as in BLAS (`tn`: both contiguous along K);
    word Some("`tn`, `tt`, `nn` or `nt`") =>
        |of| {
            let a = if of.major_a == Major::K { 't' } else { 'n' };
            let b = if of.major_b == Major::K { 'n' } else { 't' };
            Some(format!("{a}{b}"))
        },
        |of, text| {
            (of.major_a, of.major_b) = match text {
                "tn" => (Major::K, Major::K),
                "tt" => (Major::K, Major::Mn),
                "nn" => (Major::Mn, Major::K),
                "nt" => (Major::Mn, Major::Mn),
                _ => return None,
            };
            Some(())
        },
        GemmConfig::check_majors;
    /// * M, N and K of the tile;
    word Some("a tile such as `128x256x64`") =>
        |of| Some(of.tile.map(|size| size.to_string()).join("x")),
        |of, text| set(&mut of.tile, numbers(text)),
        GemmConfig::check_tile;
    /// * `s` and the stage count;
    word Some("stages such as `s4`") =>
        |of| Some(format!("s{}", of.stages)),
        |of, text| set(&mut of.stages, number(text.strip_prefix('s')?)),
        |of| of.rule("stages", of.stages, (!(2..=32).contains(&of.stages)).then_some("the stage count must be 2 to 32"));
    /// * the schedule: `simt`, `ms`, `coop` or `pp`;
    word Some("a schedule: `simt`, `ms`, `coop` or `pp`") =>
        |of| Some(of.schedule.name().to_owned()),
        |of, text| set(&mut of.schedule, Schedule::ALL.into_iter().find(|one| one.name() == text)),
        |_| Ok(());
    /// * `swap`, if the MMA operands are swapped;
    word None =>
        |of| of.swap.then(|| "swap".to_owned()),
        |of, text| flag(&mut of.swap, text, "swap"),
        |of| of.rule("swap", of.swap, of.swap_rule());
    /// * `promote`, if accumulators are promoted after each step;
    word None =>
        |of| of.is_promoted().then(|| "promote".to_owned()),
        |of, text| set(&mut of.accumulation, (text == "promote").then_some(AccumulationMode::Promoted)),
        |of| of.rule("accumulation", "promoted", of.promote_rule());
    /// * the word of the [`BatchMode`], such as `grouped`;
    word None =>
        |of| of.batch.name().map(str::to_owned),
        |of, text| set(&mut of.batch, BatchMode::ALL.into_iter().find(|one| one.name() == Some(text))),
        |of| of.rule("batch", of.batch.name().unwrap_or("uniform"), of.batch_rule());
    /// * `cl` and the cluster's blocks along M (`cl2`), or along both modes (`cl1x2`), if there is
    ///   more than one;
    word None =>
        |of| match of.cluster {
            [1, 1] => None,
            [m, 1] => Some(format!("cl{m}")),
            [m, n] => Some(format!("cl{m}x{n}")),
        },
        |of, text| {
            let text = text.strip_prefix("cl")?;
            let along_m = number(text).map(|m| [m, 1]);
            set(&mut of.cluster, along_m.or(numbers(text).filter(|[_, n]| *n != 1)))
        },
        |of| of.rule("cluster", format_args!("{:?}", of.cluster), of.cluster_rule());
    /// * `k` and the split-K parts (`k4`), or `streamk`, if K is split;
    word None =>
        |of| match of.splits {
            Splits::SplitK(1) => None,
            Splits::SplitK(parts) => Some(format!("k{parts}")),
            Splits::StreamK => Some("streamk".to_owned()),
        },
        |of, text| match text {
            "streamk" => set(&mut of.splits, Some(Splits::StreamK)),
            _ => set(&mut of.splits, number(text.strip_prefix('k')?).map(Splits::SplitK)),
        },
        |of| of.rule("splits", format!("{:?}", of.splits), of.splits_rule());
    /// * the raster order;
    word Some("a raster order such as `strip8`") =>
        |of| Some(of.raster.to_string()),
        |of, text| set(&mut of.raster, text.parse().ok()),
        |of| {
            let rule = "the swizzle width must be 1 to 65535";
            of.rule("raster", of.raster, (!of.raster.is_valid()).then_some(rule))
        };
    /// * how D is written: `direct`, `rows`, `chunks` or `overlapped`;
    word Some("`direct`, `rows`, `chunks` or `overlapped`") =>
        |of| Some(of.store.name().to_owned()),
        |of, text| {
            let text = if text == DEFERRED { StoreMethod::Overlapped.name() } else { text };
            set(&mut of.store, StoreMethod::ALL.into_iter().find(|one| one.name() == text))?;
            // A name that does not mention registers has the default ones.
            of.registers = of.usual_registers();
            Some(())
        },
        |of| of.rule("store", of.store.name(), of.store_rule());
    /// * the epilogue: `alpha`,
    word None =>
        |of| of.epilogue.alpha.then(|| "alpha".to_owned()),
        |of, text| flag(&mut of.epilogue.alpha, text, "alpha"),
        |_| Ok(());
    /// `beta`,
    word None =>
        |of| of.epilogue.beta.then(|| "beta".to_owned()),
        |of, text| flag(&mut of.epilogue.beta, text, "beta"),
        |_| Ok(());
    /// `biasrow` or `biascol`,
    word None =>
        |of| Some(match of.epilogue.bias? { Bias::Row => "biasrow", Bias::Column => "biascol" }.to_owned()),
        |of, text| {
            of.epilogue.bias = Some(match text {
                "biasrow" => Bias::Row,
                "biascol" => Bias::Column,
                _ => return None,
            });
            Some(())
        },
        |_| Ok(());
    /// `relu` or `gelu`;
    word None =>
        |of| Some(of.epilogue.activation?.name().to_owned()),
        |of, text| {
            let named = Activation::ALL.into_iter().find(|one| one.name() == text)?;
            set(&mut of.epilogue.activation, Some(Some(named)))
        },
        |_| Ok(());
    /// * `pairs`, if pairs of columns become one;
    word None =>
        |of| of.pairs.then(|| "pairs".to_owned()),
        |of, text| flag(&mut of.pairs, text, "pairs"),
        |of| of.rule("pairs", of.pairs, of.pairs_rule());
    /// * `a` and the alignment, if it is not 16;
    word None =>
        |of| (of.alignment != 16).then(|| format!("a{}", of.alignment)),
        |of, text| set(&mut of.alignment, number(text.strip_prefix('a')?)),
        |of| of.rule("alignment", of.alignment, of.alignment_rule());
    /// * `repack` if misaligned A and B are copied first, `threads` if threads fetch them;
    word None =>
        |of| of.load.name().map(str::to_owned),
        |of, text| {
            let found = [LoadMethod::Repack, LoadMethod::Threads].into_iter();
            set(&mut of.load, found.into_iter().find(|one| one.name() == Some(text)))?;
            of.registers = of.usual_registers();
            Some(())
        },
        |of| of.rule("load", format!("{:?}", of.load), of.load_rule());
    /// * `r` and the registers per producer and consumer thread, if they are not the default
    ///   (`r24x240`, or `r0` for none);
    word None =>
        |of| match of.registers {
            registers if registers == of.usual_registers() => None,
            Some([fetch, multiply]) => Some(format!("r{fetch}x{multiply}")),
            None => Some("r0".to_owned()),
        },
        |of, text| match text.strip_prefix('r')? {
            "0" => set(&mut of.registers, Some(None)),
            counts => set(&mut of.registers, numbers::<2>(counts).map(Some)),
        },
        GemmConfig::check_registers;
    /// * `pdl` for programmatic dependent launch.
    word None =>
        |of| of.programmatic.then(|| "pdl".to_owned()),
        |of, text| flag(&mut of.programmatic, text, "pdl"),
        |of| {
            of.rule("programmatic", of.programmatic, of.programmatic_rule())?;
            of.check_block()
        };
}

impl GemmConfig {
    /// Checks that a kernel exists for this configuration.
    ///
    /// # Errors
    /// The first rule that is broken, in the order of the words in its name.
    #[inline]
    pub fn check(&self) -> Result<(), GemmError> {
        WORDS.iter().try_for_each(|word| (word.check)(self))
    }
}

impl FromStr for GemmConfig {
    type Err = GemmError;

    /// Parses a configuration's name. [`check`](GemmConfig::check) says whether a kernel exists for
    /// it.
    #[inline]
    fn from_str(text: &str) -> Result<GemmConfig, GemmError> {
        let error = |part: &str, expected| {
            Err(GemmError::Name { text: text.to_owned(), part: part.to_owned(), expected })
        };
        let mut config = GemmConfig::base(Target::SM_80, Scalar::F32, [0; 3]);
        let mut parts = text.split('_').peekable();
        for word in WORDS {
            let part = parts.peek().copied().unwrap_or("");
            // A refused word must leave no trace.
            let mut next = config;
            match ((word.parse)(&mut next, part), word.expected) {
                (Some(()), _) => {
                    config = next;
                    parts.next();
                }
                (None, Some(expected)) => return error(part, expected),
                (None, None) => {}
            }
        }
        if let Some(part) = parts.next() {
            return error(part, "the end, or a word in its place");
        }
        // Refuses numbers with leading zeros, and words that spell out a default.
        if config.to_string() == text.replacen(DEFERRED, StoreMethod::Overlapped.name(), 1) {
            Ok(config)
        } else {
            error(text, "the form in which the configuration is printed")
        }
    }
}

/// Sets a field if a value was parsed.
fn set<T>(field: &mut T, value: Option<T>) -> Option<()> {
    *field = value?;
    Some(())
}

/// Turns a flag on if the text is its word.
fn flag(field: &mut bool, text: &str, word: &str) -> Option<()> {
    set(field, (text == word).then_some(true))
}

/// Parses an integer, but only as we would print it.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number: &u32| number.to_string() == text)
}

fn numbers<const N: usize>(text: &str) -> Option<[u32; N]> {
    let numbers: Option<Vec<u32>> = text.split('x').map(number).collect();
    numbers?.try_into().ok()
}

#[inline]
fn scalar(text: &str) -> Option<Scalar> {
    text.parse().ok()
}
