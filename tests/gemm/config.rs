//! Configurations of matrix products: names, and what there is a kernel for.

use tilewright::arch::Major;
use tilewright::ir::Target;
use tilewright::ir::types::Scalar;
use tilewright::kernels::gemm::{
    AccumulationMode, Activation, BatchMode, Bias, Epilogue, GemmConfig, GemmError, GemmProblem,
    LoadMethod, MatrixStrides, Schedule, Splits, StoreMethod,
};
use tilewright::tensor::pipeline::Raster;

use crate::support::rng;

use rng::Rng;

/// Draws every part of a configuration at random; most have no kernel.
fn random(rng: &mut Rng) -> GemmConfig {
    fn one<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
        of[rng.below(of.len())]
    }
    let types = [
        Scalar::Bf16,
        Scalar::F16,
        Scalar::Tf32,
        Scalar::F32,
        Scalar::F8E4M3,
        Scalar::I8,
        Scalar::I32,
    ];
    let targets = [Target::SM_80, Target::SM_89, Target::SM_90, Target::SM_90A];
    let rasters = [
        Raster::AlongM,
        Raster::AlongN,
        Raster::Hilbert,
        Raster::Swizzle { width: 8 },
        Raster::SwizzleAlongM { width: 3 },
    ];
    let majors = [Major::K, Major::Mn];
    let sizes = [0, 8, 32, 40, 64, 100, 128, 200, 256, 512, u32::MAX];
    let registers = [None, Some([40, 232]), Some([24, 240]), Some([7, u32::MAX])];
    let a = one(rng, &types);
    GemmConfig {
        target: one(rng, &targets),
        a,
        b: one(rng, &types),
        c: one(rng, &types),
        d: one(rng, &types),
        acc: match a {
            Scalar::I8 => Scalar::I32,
            Scalar::F64 => Scalar::F64,
            _ => Scalar::F32,
        },
        major_a: one(rng, &majors),
        major_b: one(rng, &majors),
        tile: [0; 3].map(|_| one(rng, &sizes)),
        stages: one(rng, &[0, 1, 2, 3, 4, 33, u32::MAX]),
        schedule: one(rng, &Schedule::ALL),
        swap: rng.below(3) == 0,
        accumulation: one(
            rng,
            &[AccumulationMode::Fast, AccumulationMode::Fast, AccumulationMode::Promoted],
        ),
        batch: one(rng, &BatchMode::ALL),
        cluster: [0; 2].map(|_| one(rng, &[0, 1, 1, 1, 1, 2, 2, 4, 8, 3])),
        splits: match rng.below(8) {
            0 => Splits::StreamK,
            _ => Splits::SplitK(one(rng, &[0, 1, 1, 1, 2, 64, u32::MAX])),
        },
        raster: one(rng, &rasters),
        store: one(rng, &StoreMethod::ALL),
        epilogue: Epilogue {
            alpha: rng.below(2) == 0,
            beta: rng.below(2) == 0,
            bias: one(rng, &[None, Some(Bias::Row), Some(Bias::Column)]),
            activation: one(rng, &[None, Some(Activation::Relu), Some(Activation::Gelu)]),
        },
        pairs: rng.below(4) == 0,
        registers: one(rng, &registers),
        alignment: one(rng, &[0, 1, 2, 4, 8, 16]),
        load: [LoadMethod::Tensor, LoadMethod::Repack, LoadMethod::Threads][rng.below(3)],
        programmatic: rng.below(2) == 0,
    }
}

/// A name has all that a configuration has, and only letters, digits and `_`: it names the kernel
/// too.
#[test]
fn names_round_trip() {
    let mut rng = Rng::new(1);
    for _ in 0..20_000 {
        let config = random(&mut rng);
        let name = config.to_string();
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'), "{name}");
        assert_eq!(name.parse(), Ok(config), "{name}");
    }
}

/// A text that is parsed is the name of what it is parsed to: no two texts name one configuration,
/// but for an older word.
#[test]
fn what_is_no_name_is_refused() {
    let mut rng = Rng::new(2);
    let mut taken = 0;
    for _ in 0..20_000 {
        let mut text = random(&mut rng).to_string().into_bytes();
        let at = rng.below(text.len());
        match rng.below(3) {
            0 => text[at] = b"0_xsmabz9"[rng.below(9)],
            1 => drop(text.remove(at)),
            _ => text.insert(at, b"0_x1sa"[rng.below(6)]),
        }
        let text = String::from_utf8(text).unwrap();
        if let Ok(config) = text.parse::<GemmConfig>() {
            assert_eq!(config.to_string(), text);
            taken += 1;
        }
    }
    assert!(taken < 10_000, "{taken}");
    let error = "sm90a_bf16_tn_256x200_s3_coop_strip8_rows".parse::<GemmConfig>().unwrap_err();
    let expected = "`sm90a_bf16_tn_256x200_s3_coop_strip8_rows` is not a configuration name: `256x200` should be a tile \
                    such as `128x256x64`";
    assert_eq!(error.to_string(), expected);
}

/// Older stores and sweeps have `deferred` for `overlapped`.
#[test]
fn an_older_word_is_read() {
    let config: GemmConfig =
        "sm90a_bf16_tn_128x256x64_s4_coop_strip8_deferred_pdl".parse().unwrap();
    assert_eq!(config.store, StoreMethod::Overlapped);
    assert_eq!(config.to_string(), "sm90a_bf16_tn_128x256x64_s4_coop_strip8_overlapped_pdl");
}

/// Whatever is asked for, there is an answer; what is computed of a configuration is within its
/// bounds.
#[test]
fn every_configuration_has_an_answer() {
    let mut rng = Rng::new(3);
    let mut valid = 0;
    for _ in 0..200_000 {
        let any = random(&mut rng);
        let base = match rng.below(3) {
            0 => GemmConfig::sm90(any.a, [128, 64 << rng.below(3)]),
            1 => GemmConfig::sm80(any.target, any.a, [128, 128]),
            _ => GemmConfig::simt(any.target, any.a),
        };
        let config = match rng.below(8) {
            0 => any,
            1 => GemmConfig { tile: any.tile, ..base },
            2 => GemmConfig { stages: any.stages, cluster: any.cluster, ..base },
            3 => GemmConfig { schedule: any.schedule, store: any.store, ..base },
            4 => GemmConfig { major_a: any.major_a, major_b: any.major_b, ..base },
            5 => GemmConfig { registers: any.registers, alignment: any.alignment, ..base },
            6 => GemmConfig { raster: any.raster, epilogue: any.epilogue, ..base },
            _ => GemmConfig { c: any.c, d: any.d, ..base },
        };
        let problem = GemmProblem::new(rng.below(5000) as u32, 1 << rng.below(32), 8);
        let grid = config.grid(&problem, 132);
        let refused = config.check_problem(&problem).err();
        if config.check().is_ok() {
            valid += 1;
            assert!(config.shared_bytes() <= config.target.max_shared_bytes(), "{config}");
            assert_eq!(grid.threads, [config.threads(), 1, 1]);
            assert!(refused.is_some() || grid.blocks[0] > 0);
        }
    }
    assert!(valid > 10_000, "{valid}");
}

/// Each cause is named: a change that breaks one rule, and what is said.
#[test]
fn each_cause_has_its_error() {
    let good = GemmConfig::sm90(Scalar::Bf16, [128, 256]);
    good.check().unwrap();
    let said = |config: GemmConfig| config.check().unwrap_err().to_string();
    let table = [
        (GemmConfig { target: Target::SM_90, ..good }, "needs sm_90a"),
        (GemmConfig { b: Scalar::F16, ..good }, "cannot multiply bf16 by f16"),
        (GemmConfig { a: Scalar::F32, b: Scalar::F32, ..good }, "cannot multiply f32 by f32"),
        (GemmConfig { acc: Scalar::F16, ..good }, "accumulators in f16"),
        (
            GemmConfig { d: Scalar::Tf32, ..good },
            "D must be f64 if A and B are, else f32, f16, bf16, f8e4m3, f8e5m2, i8, u8 or i32, not tf32",
        ),
        (
            GemmConfig { major_a: Major::Mn, ..GemmConfig::sm90(Scalar::Tf32, [128, 128]) },
            "must be contiguous along K",
        ),
        (GemmConfig { tile: [96, 256, 64], ..good }, "extent 96 along M"),
        (GemmConfig { tile: [128, 260, 64], ..good }, "extent 260 along N"),
        (GemmConfig { tile: [128, 200, 64], major_b: Major::Mn, ..good }, "extent 200 along N"),
        (GemmConfig { tile: [128, 256, 48], ..good }, "extent 48 along K"),
        (
            GemmConfig { stages: 1, ..good },
            "`stages` cannot be `1`: the stage count must be 2 to 32",
        ),
        (GemmConfig { stages: 5, ..good }, "bytes of shared memory, but a block can have"),
        (GemmConfig { cluster: [3, 1], ..good }, "1, 2, 4 or 8 blocks along each mode"),
        (GemmConfig { cluster: [4, 4], ..good }, "and at most 8"),
        (
            GemmConfig { raster: Raster::Swizzle { width: 0 }, ..good },
            "the swizzle width must be 1 to 65535",
        ),
        (GemmConfig { tile: [128, 136, 64], ..good }, "cannot be cut into equal parts"),
        (
            GemmConfig { store: StoreMethod::Overlapped, tile: [256, 128, 64], ..good },
            "64 rows and 256 columns",
        ),
        (GemmConfig { registers: Some([40, 236]), ..good }, "a multiple of 8"),
        (
            GemmConfig { registers: Some([40, 240]), ..good },
            "together they need more than the SM's 65536 registers",
        ),
        (GemmConfig { registers: Some([176, 232]), ..good }, "producers must give registers"),
        (
            GemmConfig { tile: [256, 256, 64], stages: 2, ..good },
            "needs 256 registers for elements",
        ),
        (
            GemmConfig {
                registers: None,
                tile: [256, 200, 64],
                stages: 3,
                store: StoreMethod::Rows,
                ..good
            },
            "has only 136",
        ),
        (GemmConfig { alignment: 8, ..good }, "TMA needs 16 bytes"),
        (
            GemmConfig {
                registers: Some([40, 232]),
                ..GemmConfig::sm80(Target::SM_80, Scalar::F16, [128, 128])
            },
            "only warp-specialised kernels can redistribute",
        ),
        (
            GemmConfig {
                tile: [256, 256, 64],
                ..GemmConfig::sm80(Target::SM_90, Scalar::F16, [128, 128])
            },
            "needs 128 registers",
        ),
        (
            GemmConfig { stages: 4, ..GemmConfig::sm80(Target::SM_80, Scalar::F16, [128, 256]) },
            "of shared memory",
        ),
    ];
    for (config, expected) in table {
        let found = said(config);
        assert!(found.contains(expected), "{config}: {found}");
    }
}

#[test]
fn problems_are_checked_against_the_configuration() {
    let config = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    let problem = GemmProblem::new(100, 200, 304);
    let pitch = |leading| MatrixStrides { leading: Some(leading), batch: None };
    assert!(config.check_problem(&problem).is_ok());
    let error = |problem: GemmProblem| config.check_problem(&problem).unwrap_err();
    assert!(matches!(
        error(GemmProblem { m: 0, ..problem }),
        GemmError::Size { name: "m", size: 0 }
    ));
    let short = error(GemmProblem { a: pitch(300), ..problem });
    assert!(matches!(short, GemmError::Pitch { operand: 'A', pitch: 300, min: 304 }), "{short}");
    let odd = error(GemmProblem { b: pitch(305), ..problem });
    assert!(matches!(odd, GemmError::Alignment { operand: 'B', bytes: 610, .. }), "{odd}");
    let odd = error(GemmProblem { n: 201, ..problem });
    assert!(matches!(odd, GemmError::Alignment { operand: 'D', bytes: 402, .. }), "{odd}");
    // The matrices of a batch count where there is one.
    let next = MatrixStrides { leading: None, batch: Some(100 * 304 + 1) };
    assert!(config.check_problem(&GemmProblem { a: next, ..problem }).is_ok());
    let odd = error(GemmProblem { a: next, batch: 2, ..problem });
    assert!(matches!(odd, GemmError::Alignment { what: "the batch stride of", .. }), "{odd}");
    // What is not written by tensor copies may lie anywhere.
    let direct = GemmConfig { store: StoreMethod::Direct, ..config };
    assert!(direct.check_problem(&GemmProblem { n: 201, ..problem }).is_ok());
}

/// A grid has as many blocks as there are tiles, or SMs.
#[test]
fn grids_cover_the_problem() {
    let wide = GemmConfig::sm90(Scalar::Bf16, [128, 256]);
    let grid = |config: GemmConfig, problem: GemmProblem| config.grid(&problem, 132).blocks[0];
    assert_eq!(grid(wide, GemmProblem::new(512, 512, 64)), 8);
    assert_eq!(grid(wide, GemmProblem::new(4096, 4096, 64)), 132);
    assert_eq!(grid(wide, GemmProblem { batch: 3, ..GemmProblem::new(512, 512, 64) }), 24);
    assert_eq!(grid(GemmConfig { cluster: [2, 1], ..wide }, GemmProblem::new(300, 256, 64)), 4);
    assert_eq!(grid(GemmConfig { cluster: [2, 4], ..wide }, GemmProblem::new(300, 260, 64)), 16);
    let ampere = GemmConfig::sm80(Target::SM_80, Scalar::F16, [128, 256]);
    assert_eq!(grid(ampere, GemmProblem::new(4096, 4096, 64)), 512);
}

#[test]
fn usual_swizzle_widths_are_equal_where_they_can_be() {
    let rows = |m, tile| {
        let config = GemmConfig::sm90(Scalar::Bf16, [tile, 128]);
        config.usual_raster(&GemmProblem::new(m, 8192, 8192))
    };
    assert_eq!(rows(8192, 256), Raster::Swizzle { width: 8 });
    assert_eq!(rows(4096, 128), Raster::Swizzle { width: 16 });
    assert_eq!(rows(256, 128), Raster::Swizzle { width: 2 });
    assert_eq!(rows(16, 64), Raster::Swizzle { width: 1 });
    assert_eq!(rows(10 * 256, 256), Raster::Swizzle { width: 5 });
    assert_eq!(rows(31 * 256, 256), Raster::Swizzle { width: 8 });
    assert_eq!(rows(u32::MAX, 256), Raster::Swizzle { width: 8 });
}
