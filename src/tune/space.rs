//! [`GemmSpace`] lists the configurations of a matrix product that are worth a measurement.

use std::collections::HashSet;

use crate::arch::Major;
use crate::ir::Target;
use crate::ir::types::Scalar;
use crate::kernels::gemm::{Epilogue, GemmConfig, GemmProblem, Machine, StoreForm};
use crate::tensor::Raster;

/// M, N and K of the products that are measured where nothing else is asked for: squares, and those of a language
/// model with few rows.
///
/// ```
/// use tilewright::tune::USUAL_SHAPES;
/// assert!(USUAL_SHAPES.contains(&[4096; 3]) && USUAL_SHAPES.contains(&[16, 4096, 14336]));
/// ```
pub const USUAL_SHAPES: [[u32; 3]; 11] = [
    [512; 3],
    [1024; 3],
    [2048; 3],
    [4096; 3],
    [8192; 3],
    [16384; 3],
    [16, 4096, 14336],
    [64, 8192, 8192],
    [256, 4096, 4096],
    [256, 8192, 8192],
    [256, 14336, 4096],
];

/// The requirements on a product, and the configuration space that meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GemmSpace {
    /// The target of the kernels.
    pub target: Target,
    /// The type in which A and B are multiplied.
    pub input: Scalar,
    /// The type of D, and of C.
    pub output: Scalar,
    /// The contiguous mode of A.
    pub major_a: Major,
    /// The contiguous mode of B.
    pub major_b: Major,
    /// The epilogue of the product.
    pub epilogue: Epilogue,
}

impl GemmSpace {
    /// Products of this type with both operands contiguous along K, D of the same type (`f32` for `tf32`), without
    /// an epilogue.
    pub fn new(target: Target, input: Scalar) -> GemmSpace {
        let output = if input.bits() == 16 { input } else { Scalar::F32 };
        let (major_a, major_b) = (Major::K, Major::K);
        GemmSpace { target, input, output, major_a, major_b, epilogue: Epilogue::default() }
    }

    /// Returns all configurations that can be built and take the problem, on a machine: tiles, depths, schedules, ways to write D,
    /// clusters, raster widths and programmatic launches, combined where the combination adds information.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::ir::Target;
    /// use tilewright::kernels::gemm::{GemmProblem, LoadForm, Machine};
    /// use tilewright::tune::GemmSpace;
    /// let space = GemmSpace::new(Target::SM_90A, Scalar::Bf16);
    /// let problem = GemmProblem::new(8192, 8192, 8192);
    /// let all = space.configs(&problem, &Machine::H200);
    /// assert!(all.len() > 200);
    /// assert!(all.iter().all(|config| config.check_problem(&problem).is_ok()));
    /// // Rows of 100 elements are no multiple of 16 bytes: tensor copies take copies of them.
    /// let odd = space.configs(&GemmProblem::new(100, 100, 100), &Machine::H200);
    /// assert!(!odd.is_empty());
    /// assert!(odd.iter().all(|of| (of.load != LoadForm::Tensor) == of.is_warp_specialised()));
    /// ```
    pub fn configs(&self, problem: &GemmProblem, machine: &Machine) -> Vec<GemmConfig> {
        let mut all = Vec::new();
        if self.target.offers(Target::SM_90A) {
            self.warp_specialised(problem, machine, &mut all);
        }
        self.multistage(&mut all);
        self.simt(&mut all);
        let wanted = self.with(GemmConfig::simt(self.target, self.input));
        all.extend(wanted.of_threads(problem, machine));
        all.retain(|config| config.check().is_ok() && config.check_problem(problem).is_ok());
        let mut known = HashSet::with_capacity(all.len());
        all.retain(|config| known.insert(*config));
        all
    }

    /// Returns the configuration with what is asked for.
    fn with(&self, config: GemmConfig) -> GemmConfig {
        let GemmSpace { output, major_a, major_b, epilogue, .. } = *self;
        GemmConfig { c: output, d: output, major_a, major_b, epilogue, ..config }
    }

    fn warp_specialised(
        &self,
        problem: &GemmProblem,
        machine: &Machine,
        all: &mut Vec<GemmConfig>,
    ) {
        let wanted = self.with(GemmConfig::sm90(self.input, [128, 128]));
        for base in wanted.candidates(problem, machine) {
            let [m, n, _] = base.tile;
            all.extend([true, false].map(|programmatic| GemmConfig { programmatic, ..base }));
            if base.store == StoreForm::Chunks {
                all.push(GemmConfig { store: StoreForm::Rows, ..base }.with_max_stages(8));
            }
            if m * n >= 128 * 128 && base.cluster == [1, 1] {
                all.push(GemmConfig { cluster: [2, 1], ..base });
                all.push(GemmConfig { raster: Raster::Hilbert, ..base });
            }
        }
    }

    fn multistage(&self, all: &mut Vec<GemmConfig>) {
        let sides = [64, 128, 192, 256];
        for (m, n) in sides.into_iter().flat_map(|m| sides.map(|n| (m, n))) {
            for stages in 2..=5 {
                let config = self.with(GemmConfig::sm80(self.target, self.input, [m, n]));
                for alignment in [16, 8, 4, self.input.size_bytes()] {
                    all.push(GemmConfig { stages, alignment, ..config });
                }
                all.push(GemmConfig {
                    stages,
                    raster: Raster::Swizzle { width: 2048 / m },
                    ..config
                });
            }
        }
    }

    fn simt(&self, all: &mut Vec<GemmConfig>) {
        for (m, n) in [(64, 64), (128, 64), (64, 128), (128, 128), (256, 128), (128, 256)] {
            for k in [8, 16, 32] {
                for stages in 2..=4 {
                    let config = self.with(GemmConfig::simt(self.target, self.input));
                    all.push(GemmConfig { tile: [m, n, k], stages, ..config });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_is_valid_once_and_has_a_name() {
        let problem = GemmProblem::new(4096, 4096, 4096);
        let spaces = [
            GemmSpace::new(Target::SM_90A, Scalar::Bf16),
            GemmSpace::new(Target::SM_90A, Scalar::F16),
            GemmSpace::new(Target::SM_90A, Scalar::Tf32),
            GemmSpace { major_b: Major::Mn, ..GemmSpace::new(Target::SM_90A, Scalar::Bf16) },
            GemmSpace::new(Target::SM_80, Scalar::Bf16),
            GemmSpace::new(Target::SM_80, Scalar::F32),
        ];
        for space in spaces {
            let all = space.configs(&problem, &Machine::H200);
            assert!(!all.is_empty(), "{space:?}");
            for (i, config) in all.iter().enumerate() {
                assert_eq!(config.check(), Ok(()));
                assert_eq!(config.to_string().parse(), Ok(*config));
                assert!(!all[..i].contains(config), "{config}");
                let has = (config.a, config.d, config.major_a, config.major_b, config.epilogue);
                let asked =
                    (space.input, space.output, space.major_a, space.major_b, space.epilogue);
                assert_eq!(has, asked);
            }
        }
    }
}
