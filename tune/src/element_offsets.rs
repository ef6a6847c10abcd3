//! [`ElementOffsets`]: the memory offsets of the elements of a GEMM problem's matrices, whatever
//! its strides and major modes. The tuner needs them to fill operands and to check results.

use super::search::SearchError;
use tilewright::arch::Major;
use tilewright::ir::Target;
use tilewright::ir::types::Scalar;
use tilewright::kernels::gemm::{GemmConfig, GemmProblem, GemmStrides};

/// The offsets of the elements of A, B, C and D.
#[derive(Clone, Copy, Debug)]
pub(super) struct ElementOffsets {
    m: usize,
    n: usize,
    k: usize,
    batch: usize,
    strides: GemmStrides,
    majors: [Major; 2],
}

impl ElementOffsets {
    /// Returns the offsets for a problem with these major modes for A and B.
    ///
    /// # Errors
    /// [`SearchError::Unsupported`] for sizes or strides that no kernel takes, and if two elements
    /// of D share an offset.
    pub(super) fn new(
        problem: &GemmProblem,
        majors: [Major; 2],
    ) -> Result<ElementOffsets, SearchError> {
        let [major_a, major_b] = majors;
        let config =
            GemmConfig { major_a, major_b, ..GemmConfig::simt(Target::SM_80, Scalar::F32) };
        let strides = problem.strides(&config).map_err(|error| {
            let what = format!("this problem: {error}");
            SearchError::Unsupported { what }
        })?;
        let [m, n, k, batch] = [problem.m, problem.n, problem.k, problem.batch].map(|x| x as usize);
        let offsets = ElementOffsets { m, n, k, batch, strides, majors };
        if offsets.overlaps() {
            let what = "matrices of D that overlap: give them a larger batch stride".to_owned();
            return Err(SearchError::Unsupported { what });
        }
        Ok(offsets)
    }

    /// Returns whether the batch's matrices of D overlap: they neither lie one after the other, nor
    /// does each fit between the rows of the others.
    fn overlaps(&self) -> bool {
        let [pitch, next] = self.strides.d.map(|x| x as usize);
        let after = next >= (self.m - 1) * pitch + self.n;
        let between = next >= self.n && pitch >= (self.batch - 1) * next + self.n;
        self.batch > 1 && !after && !between
    }

    /// Returns whether all matrices are packed without padding.
    #[cfg(any(feature = "cublas", test))]
    pub(super) fn are_close(&self) -> bool {
        let ElementOffsets { m, n, k, strides: GemmStrides { a, b, c, d }, majors, .. } = *self;
        let close = |[pitch, next]: [u64; 2], lines: usize, columns: usize| {
            pitch as usize == columns && next as usize == lines * columns
        };
        let [(a_lines, a_columns), (b_lines, b_columns)] = [(majors[0], m), (majors[1], n)]
            .map(|(major, extent)| if major == Major::K { (extent, k) } else { (k, extent) });
        close(a, a_lines, a_columns)
            && close(b, b_lines, b_columns)
            && close(c, m, n)
            && close(d, m, n)
    }

    /// Returns the spans of A, B, C and D: elements from the first to the last.
    pub(super) fn lens(&self) -> [usize; 4] {
        let ElementOffsets { m, n, k, batch, .. } = *self;
        let last = batch - 1;
        let ends = [
            self.a(last, m - 1, k - 1),
            self.b(last, n - 1, k - 1),
            self.c(last, m - 1, n - 1),
            self.d(last, m - 1, n - 1),
        ];
        ends.map(|end| end + 1)
    }

    /// Returns how many elements D has.
    pub(super) fn elements(&self) -> usize {
        self.batch * self.m * self.n
    }

    /// Returns matrix, row and column of D's element `number`.
    pub(super) fn element(&self, number: usize) -> [usize; 3] {
        let ElementOffsets { m, n, .. } = *self;
        [number / (m * n), number / n % m, number % n]
    }

    /// Returns the offset of an element of A.
    pub(super) fn a(&self, matrix: usize, row: usize, depth: usize) -> usize {
        of_operand(self.strides.a, self.majors[0], matrix, row, depth)
    }

    /// Returns the offset of an element of B.
    pub(super) fn b(&self, matrix: usize, column: usize, depth: usize) -> usize {
        of_operand(self.strides.b, self.majors[1], matrix, column, depth)
    }

    /// Returns the offset of an element of C.
    pub(super) fn c(&self, matrix: usize, row: usize, column: usize) -> usize {
        of_operand(self.strides.c, Major::K, matrix, row, column)
    }

    /// Returns the offset of an element of D.
    pub(super) fn d(&self, matrix: usize, row: usize, column: usize) -> usize {
        of_operand(self.strides.d, Major::K, matrix, row, column)
    }

    /// Returns D's columns and elements per matrix, row pitch and batch stride, for kernels that
    /// iterate over D.
    pub(super) fn of_d(&self) -> [[i64; 2]; 2] {
        // All of these are below 2^40, because the matrices fit in memory.
        let sizes = [self.n, self.m * self.n].map(|x| x as i64);
        [sizes, self.strides.d.map(|x| x as i64)]
    }
}

fn of_operand(
    [pitch, next]: [u64; 2],
    major: Major,
    matrix: usize,
    line: usize,
    depth: usize,
) -> usize {
    let (line, along) = if major == Major::K { (line, depth) } else { (depth, line) };
    matrix * next as usize + line * pitch as usize + along
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright::kernels::gemm::MatrixStrides;

    fn at(leading: u64, batch: u64) -> MatrixStrides {
        MatrixStrides { leading: Some(leading), batch: Some(batch) }
    }

    #[test]
    fn elements_have_offsets() {
        let problem = GemmProblem { batch: 3, ..GemmProblem::new(4, 5, 6) };
        let close = ElementOffsets::new(&problem, [Major::K, Major::Mn]).unwrap();
        assert!(close.are_close());
        assert_eq!(close.lens(), [3 * 24, 3 * 30, 60, 60]);
        assert_eq!((close.a(1, 2, 3), close.b(1, 2, 3)), (24 + 2 * 6 + 3, 30 + 3 * 5 + 2));
        let problem = GemmProblem { a: at(7, 100), b: at(8, 0), d: at(20, 6), ..problem };
        let apart = ElementOffsets::new(&problem, [Major::K, Major::Mn]).unwrap();
        assert!(!apart.are_close());
        assert_eq!(apart.lens(), [200 + 3 * 7 + 6, 5 * 8 + 5, 60, 12 + 3 * 20 + 5]);
        assert_eq!(apart.element(27), [1, 1, 2]);
        assert_eq!(apart.d(1, 1, 2), 28);
        let mut all: Vec<usize> = (0..60)
            .map(|number| {
                let [matrix, row, column] = apart.element(number);
                apart.d(matrix, row, column)
            })
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 60);
    }

    #[test]
    fn what_no_search_takes() {
        let problem = GemmProblem { batch: 3, ..GemmProblem::new(4, 5, 6) };
        let text = |problem: GemmProblem| {
            ElementOffsets::new(&problem, [Major::K; 2]).unwrap_err().to_string()
        };
        let overlap = "cannot tune matrices of D that overlap: give them a larger batch stride";
        assert_eq!(text(GemmProblem { d: at(5, 0), ..problem }), overlap);
        assert_eq!(text(GemmProblem { d: at(5, 19), ..problem }), overlap);
        assert_eq!(text(GemmProblem { d: at(14, 5), ..problem }), overlap);
        let pitch = text(GemmProblem { a: at(5, 0), ..problem });
        assert!(pitch.starts_with("cannot tune this problem: "), "{pitch}");
        assert!(text(GemmProblem::new(0, 5, 6)).contains("this problem: "));
    }
}
