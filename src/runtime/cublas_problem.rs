//! Defines the matrix products of cuBLAS, their column-major form and their errors.

use super::buffer::Buffer;
use super::error::RuntimeError;
use crate::arch::Major;
use crate::errors::errors;
use crate::ir::Element;
use crate::ir::types::Scalar;

/// A matrix product `C[M,N] = A[M,K] B[K,N]` with accumulators of `f32`, of `i32` and `f64` where inputs are `i8` and `f64`; C is row-major, nothing
/// is padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matmul {
    /// M, N and K.
    pub sizes: [u32; 3],
    /// The contiguous mode of A.
    pub a: Major,
    /// The contiguous mode of B.
    pub b: Major,
    /// The type in which A and B are multiplied: `bf16`, `f16`, `f32`, or `tf32`, which is in memory as `f32`; and `e4m3` or
    /// `e5m2`, which cuBLASLt alone multiplies, both contiguous along K, with sums that stay in the tensor cores; `i8`, and `f64`.
    pub inputs: Scalar,
    /// The type of the elements of C: that of A and B in memory, or `f32`; `bf16` or `f16` for floats of 8 bits, `i32` for `i8`.
    pub output: Scalar,
}

/// The transposition of an operand of the column-major libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    AsStored,
    Transposed,
}

/// A product as the column-major libraries see it: `C^T[N,M] = first[N,K] second[K,M]`, where first is our B and
/// second our A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) first: Operand,
    pub(super) first_pitch: u64,
    pub(super) second: Operand,
    pub(super) second_pitch: u64,
}

impl Matmul {
    pub(super) fn columns(&self) -> Columns {
        let [m, n, k] = self.sizes.map(u64::from);
        let (first, first_pitch) = match self.b {
            Major::K => (Operand::Transposed, k),
            Major::Mn => (Operand::AsStored, n),
        };
        let (second, second_pitch) = match self.a {
            Major::K => (Operand::AsStored, k),
            Major::Mn => (Operand::Transposed, m),
        };
        Columns { first, first_pitch, second, second_pitch }
    }

    /// Returns the type of the elements of A and B in memory.
    pub(super) fn stored_inputs(&self) -> Scalar {
        if self.inputs == Scalar::Tf32 { Scalar::F32 } else { self.inputs }
    }

    pub(super) fn check_sizes(&self) -> Result<(), CublasError> {
        match self.sizes.iter().all(|size| (1..=i32::MAX as u32).contains(size)) {
            true => Ok(()),
            false => Err(CublasError::Size { sizes: self.sizes }),
        }
    }

    /// Checks that the buffers have the types and the numbers of elements of A, B and C.
    pub(crate) fn check<T: Element, D: Element>(
        &self,
        a: &Buffer<T>,
        b: &Buffer<T>,
        c: &Buffer<D>,
    ) -> Result<(), CublasError> {
        self.check_sizes()?;
        let [m, n, k] = self.sizes.map(u64::from);
        let (inputs, output) = (self.stored_inputs(), self.output);
        let of = [
            ("A", (inputs, m * k), (T::SCALAR, a.len())),
            ("B", (inputs, k * n), (T::SCALAR, b.len())),
            ("C", (output, m * n), (D::SCALAR, c.len())),
        ];
        for (matrix, expected, (scalar, len)) in of {
            let given = (scalar, len as u64);
            if given != expected {
                return Err(CublasError::Buffer { matrix, expected, given });
            }
        }
        Ok(())
    }
}

errors! {
    /// An error of a matrix product by cuBLAS.
    #[derive(Clone, PartialEq)]
    #[non_exhaustive]
    pub enum CublasError {
        /// The library is not installed, or not where the system looks for libraries.
        NoLibrary {
            /// Its name without prefix and suffix.
            name: &'static str,
            /// The files that were looked for.
            tried: Vec<String>,
        } = |f| write!(
            f,
            "there is no {name} where the system looks for libraries (LD_LIBRARY_PATH names more folders); tried {}",
            tried.join(", ")
        ),
        /// this cuBLAS has no {symbol}
        MissingSymbol { symbol: &'static str },
        /// cuBLAS needs a GPU, not the simulator
        Simulator,
        /// A size that the libraries do not take: 0, or more than 2^31 - 1.
        Size {
            /// M, N and K.
            sizes: [u32; 3],
        } = |f| match sizes {
            [m, n, k] => {
                write!(f, "cuBLAS takes sizes from 1 to 2147483647, not {m}x{n}x{k}")
            }
        },
        /// {scalar} is not a type that is compared with cuBLAS: bf16, f16, tf32, f32, e4m3, e5m2
        UnsupportedType { scalar: Scalar },
        /// A buffer has other elements or another number of them than the problem.
        Buffer {
            /// `A`, `B` or `C`.
            matrix: &'static str,
            /// The type and number of the elements of the problem.
            expected: (Scalar, u64),
            /// The type and number of the elements of the buffer.
            given: (Scalar, u64),
        } = |f| {
            let ((scalar, len), (other, given)) = (expected, given);
            write!(f, "{matrix} needs {len} elements of {scalar}, not {given} of {other}")
        },
        /// {call} answered {code}
        Status { call: &'static str, code: u32 },
        /// {error}
        Runtime(error: RuntimeError),
    }
}
crate::errors::message_as_debug!(CublasError);

impl From<RuntimeError> for CublasError {
    fn from(error: RuntimeError) -> CublasError {
        CublasError::Runtime(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBLEM: Matmul = Matmul {
        sizes: [2, 3, 5],
        a: Major::K,
        b: Major::Mn,
        inputs: Scalar::Bf16,
        output: Scalar::F32,
    };

    /// By the definition of column-major storage: element (i, j) at `i + j * pitch`, so that `first` is B with
    /// (n, k) and `second` is A with (k, m), element for element.
    #[test]
    fn the_libraries_see_the_transposed_product() {
        for (a, b) in
            [Major::K, Major::Mn].into_iter().flat_map(|a| [Major::K, Major::Mn].map(|b| (a, b)))
        {
            let matmul = Matmul { a, b, ..PROBLEM };
            let [m, n, k] = matmul.sizes.map(u64::from);
            let seen = matmul.columns();
            let at = |operand, pitch, i: u64, j: u64| match operand {
                Operand::AsStored => i + j * pitch,
                Operand::Transposed => j + i * pitch,
            };
            for depth in 0..k {
                for row in 0..m {
                    let ours = if a == Major::K { row * k + depth } else { depth * m + row };
                    assert_eq!(at(seen.second, seen.second_pitch, depth, row), ours);
                }
                for column in 0..n {
                    let ours = if b == Major::K { column * k + depth } else { depth * n + column };
                    assert_eq!(at(seen.first, seen.first_pitch, column, depth), ours);
                }
            }
        }
    }
}
