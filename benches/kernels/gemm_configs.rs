//! The configurations of the GEMMs that are measured beside cuBLAS, for a square problem.

use tilewright::ir::{Scalar, Target};
use tilewright::kernels::gemm::{GemmConfig, GemmProblem, Schedule};

use super::gemm_sm80;
use super::gemm_sm90::{Config, Epilogue};

/// Of `gemm_sm80.rs`.
pub(crate) fn sm80() -> gemm_sm80::Config {
    gemm_sm80::Config { target: Target::SM_80, bm: 128, bn: 256, stages: 3, strip: 8 }
}

/// Of `gemm_sm90.rs`, with names.
pub(crate) fn sm90(size: u32) -> Vec<(&'static str, Config)> {
    let base = Config {
        bm: 256,
        bn: 200,
        stages: 3,
        strip: 8,
        epilogue: Epilogue::Rows,
        cluster: 1,
        programmatic: true,
    };
    let wide = Config { bm: 128, bn: 256, stages: 4, epilogue: Epilogue::Chunks, ..base };
    let deferred = Config { epilogue: Epilogue::Deferred, ..wide };
    if size >= 8192 {
        let strip = if size >= 16384 { 4 } else { 8 };
        vec![
            ("256x200", Config { strip, ..base }),
            ("256x200 cluster 2", Config { strip: strip / 2, cluster: 2, ..base }),
            ("128x256 deferred", deferred),
        ]
    } else if size >= 4096 {
        vec![
            ("128x256 deferred", deferred),
            ("128x256", wide),
            ("128x256 cluster 2", Config { strip: 4, cluster: 2, ..wide }),
            ("256x200", base),
        ]
    } else {
        vec![
            ("128x256", wide),
            ("128x256 not programmatic", Config { programmatic: false, ..wide }),
            ("128x256 deferred", deferred),
        ]
    }
}

/// Of the library: what it takes by itself first, then the tiles of the kernels above, one of which each warp group has
/// tiles of its own, and the kernel without `wgmma`.
pub(crate) fn family(size: u32) -> Vec<GemmConfig> {
    let wanted = GemmConfig::sm90(Scalar::Bf16, [128, 256]);
    let mut all = wanted.defaults(&GemmProblem::new(size, size, size), 132);
    all.truncate(2);
    let wide = GemmConfig { stages: 4, ..wanted };
    if size >= 8192 {
        let tiles = GemmConfig::sm90(Scalar::Bf16, [128, 192]);
        all.push(GemmConfig { schedule: Schedule::Pingpong, ..tiles }.with_most_stages(8));
    } else if size < 4096 {
        all.push(GemmConfig { programmatic: false, ..wide });
    }
    all.push(GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [128, 256]));
    all
}
