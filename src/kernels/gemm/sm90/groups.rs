//! Grouped GEMM, in which each group of rows is multiplied by its own matrix B, as in a mixture of
//! experts: how a configuration sees its problem. [`GroupRows`] are the groups of a launch.

use crate::kernels::group_rows::{GroupRows, LaunchGroups};

use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::problem::{GemmProblem, MatrixStrides};
use crate::kernels::gemm::config::{GemmConfig, WGMMA_ROWS};

impl GemmConfig {
    /// Checks the groups given to a launch. Returns `None` for a kernel without groups.
    #[inline]
    pub(crate) fn groups<'h>(
        &self,
        problem: &GemmProblem,
        given: Option<GroupRows<'h>>,
    ) -> Result<Option<LaunchGroups<'h>>, GemmError> {
        if self.is_grouped() != given.is_some() {
            return Err(GemmError::GroupRows { needed: self.is_grouped() });
        }
        let bound = given.map(|given| given.bind(problem.m, problem.batch));
        bound.transpose().map_err(GemmError::from)
    }

    /// Returns a single GEMM with about as much work as the groups, for the cost model. On average,
    /// a group wastes half a tile beyond its rows, and it has at least one tile. A warp group whose
    /// 64 rows are all beyond the group's end leaves the tensor cores to the others, so its share
    /// of a tile does not count.
    #[inline]
    pub(crate) fn ungrouped(&self, problem: &GemmProblem) -> GemmProblem {
        let GemmProblem { m, batch, .. } = *problem;
        let end = self.tile[0].saturating_sub(WGMMA_ROWS * (self.consumers_of_tile() - 1));
        let filled = m.saturating_add(batch.saturating_mul(end / 2));
        let least = batch.saturating_mul(self.tile[0]);
        problem.of_rows(filled.max(least).min(GemmProblem::MAX_SIZE))
    }

    /// Checks that the groups share one A, C and D.
    #[inline]
    pub(crate) fn check_groups(&self, problem: &GemmProblem) -> Result<(), GemmError> {
        let GemmProblem { a, c, d, .. } = problem;
        let shared = [a, c, d].iter().all(|strides| strides.batch == Some(0));
        if self.is_grouped() && !shared { Err(GemmError::GroupStrides) } else { Ok(()) }
    }
}

impl GemmProblem {
    /// A grouped GEMM, for example the experts of a mixture of experts: A is `[m, k]`, D is
    /// `[m, n]`, B is `[groups, n, k]`, and the rows of group `g` are multiplied by matrix `g` of
    /// B. `D[i, n] = sum over k of A[i, k] B[g, k, n]` for the rows `i` of group `g`.
    ///
    /// As a problem, it is a batch whose matrices share A, C and D. It needs a
    /// [grouped](crate::kernels::gemm::BatchMode::Grouped) configuration. A launch takes the
    /// groups' rows from the device as [`GroupRows`]; a group may have any number of rows, or none.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::ir::bf16;
    /// use tilewright::kernels::gemm::{
    ///     BatchMode, Gemm, GemmArgs, GemmConfig, GemmProblem, GroupRows, Machine,
    /// };
    /// use tilewright::runtime::Device;
    ///
    /// // 90 tokens for 3 experts: 70, none and 20.
    /// let (tokens, n, k, experts) = (90, 64, 32, 3);
    /// let problem = GemmProblem::grouped([tokens as u32, n as u32, k as u32], experts as u32);
    /// let wanted = GemmConfig { batch: BatchMode::Grouped, ..GemmConfig::sm90(Scalar::Bf16, [128, 128]) };
    /// let device = Device::sim()?;
    /// let gemm = Gemm::<bf16>::new(wanted.best(&problem, &Machine::of(&device))?)?;
    /// let a = device.upload(&vec![bf16::from_f32(0.5); tokens * k])?;
    /// // All elements of expert `g`'s matrix are `g + 1`.
    /// let b = (0..experts * n * k).map(|i| bf16::from_f32((i / (n * k) + 1) as f32));
    /// let (b, mut d) = (device.upload(&b.collect::<Vec<_>>())?, device.zeros::<bf16>(tokens * n)?);
    /// let starts = device.upload(&[0, 70, 70, 90])?;
    /// let args = GemmArgs::new(&a, &b, &mut d).groups(GroupRows::Starts(&starts));
    /// gemm.load(&device)?.launch(&problem, args)?;
    /// let d = d.to_vec()?;
    /// assert!(d[..70 * n].iter().all(|x| x.to_f32() == 16.0));
    /// assert!(d[70 * n..].iter().all(|x| x.to_f32() == 48.0));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn grouped([m, n, k]: [u32; 3], groups: u32) -> GemmProblem {
        const SHARED: MatrixStrides = MatrixStrides { leading: None, batch: Some(0) };
        let one = GemmProblem::new(m, n, k);
        GemmProblem { batch: groups, a: SHARED, c: SHARED, d: SHARED, ..one }
    }

    /// Returns a GEMM with the rows of an average group, at least 1.
    #[inline]
    pub(crate) fn mean_group(&self) -> GemmProblem {
        self.of_rows(self.m.div_ceil(self.batch.max(1)))
    }

    fn of_rows(&self, m: u32) -> GemmProblem {
        GemmProblem { m, batch: 1, ..*self }
    }
}
