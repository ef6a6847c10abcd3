//! The configurations of the GEMMs that are measured beside cuBLAS, for a square problem.

use tilewright::ir::{Scalar, Target};
use tilewright::kernels::gemm::{GemmConfig, Schedule, StoreForm};
use tilewright::tensor::Raster;

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

/// Of the library, with the tiles of the kernels above, and one more of which each warp group has tiles of its own.
pub(crate) fn family(size: u32) -> Vec<GemmConfig> {
    let strips = |rows| Raster::Strips { rows };
    let tall = GemmConfig { stages: 3, ..GemmConfig::sm90(Scalar::Bf16, [256, 200]) };
    let wide = GemmConfig { stages: 4, ..GemmConfig::sm90(Scalar::Bf16, [128, 256]) };
    let deferred = GemmConfig { store: StoreForm::Deferred, ..wide };
    let pingpong =
        GemmConfig { schedule: Schedule::Pingpong, ..GemmConfig::sm90(Scalar::Bf16, [128, 192]) };
    if size >= 8192 {
        let raster = strips(if size >= 16384 { 4 } else { 8 });
        vec![GemmConfig { raster, ..tall }, GemmConfig { raster, ..pingpong.with_most_stages(8) }]
    } else if size >= 4096 {
        vec![deferred, wide]
    } else {
        vec![wide, GemmConfig { programmatic: false, ..wide }]
    }
}
