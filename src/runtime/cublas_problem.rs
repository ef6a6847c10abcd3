//! Defines [`Matmul`]: which GEMM cuBLAS should compute, and the errors if it cannot. The libraries
//! are column-major, so a row-major problem is turned into its transpose here.

use std::fmt;

use super::buffer_ref::BufferRef;
use super::error::RuntimeError;
use crate::arch::Major;
use crate::errors::errors;
use crate::ir::types::Scalar;

/// The GEMM `C[M,N] = A[M,K] B[K,N]` that [`Cublas`](super::Cublas) should compute. It accumulates
/// in `f32`, except `i8` inputs in `i32` and `f64` inputs in `f64`. C is row-major. Rows have no
/// padding: the leading dimension of a matrix is its row or column length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matmul {
    /// M, N and K.
    pub sizes: [u32; 3],
    /// The mode of A that is contiguous in memory.
    pub a: Major,
    /// The mode of B that is contiguous in memory.
    pub b: Major,
    /// The types in which A and B are multiplied. Except for 8-bit floats, both must be the same:
    /// `bf16`, `f16`, `f32`, `f64`, `i8` or `tf32`, which is stored as `f32`. Only cuBLASLt
    /// multiplies 8-bit floats: `e4m3` by `e4m3`, `e4m3` by `e5m2` and `e5m2` by `e4m3`, all
    /// contiguous along K and with fast accumulation.
    pub inputs: [Scalar; 2],
    /// The element type of C: the type that A and B have in memory, or `f32`. With 8-bit floats it
    /// is `bf16` or `f16`, and with `i8` it is `i32`.
    pub output: Scalar,
}

/// One of NVIDIA's two GEMM libraries. An error names the library that does not support the
/// problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CublasLibrary {
    /// cuBLAS, which chooses a kernel itself.
    Cublas,
    /// cuBLASLt, which lets the program choose a kernel.
    CublasLt,
}

impl fmt::Display for CublasLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CublasLibrary::Cublas => "cuBLAS",
            CublasLibrary::CublasLt => "cuBLASLt",
        })
    }
}

/// Whether a column-major library transposes an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    AsStored,
    Transposed,
}

/// A GEMM as the column-major libraries see it: `C^T[N,M] = first[N,K] second[K,M]`, where `first`
/// is our B and `second` our A.
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

    /// Returns the types of A and B in memory.
    pub(super) fn stored_inputs(&self) -> [Scalar; 2] {
        self.inputs.map(|input| if input == Scalar::Tf32 { Scalar::F32 } else { input })
    }

    /// Checks that the library can multiply these input types.
    fn check_inputs(&self, library: CublasLibrary) -> Result<(), CublasError> {
        use Scalar as S;
        let [a, b] = self.inputs;
        let takes = match (a, b) {
            (S::F8E5M2, S::F8E5M2) => false,
            _ if a.is_f8() && b.is_f8() => library == CublasLibrary::CublasLt,
            _ => a == b && matches!(a, S::Bf16 | S::F16 | S::Tf32 | S::F32 | S::F64 | S::I8),
        };
        if takes { Ok(()) } else { Err(CublasError::UnsupportedInputs { library, a, b }) }
    }

    /// Checks that the library takes these sizes and input types.
    ///
    /// # Errors
    /// [`Size`](CublasError::Size) or [`UnsupportedInputs`](CublasError::UnsupportedInputs).
    pub fn check_problem(&self, library: CublasLibrary) -> Result<(), CublasError> {
        self.check_sizes()?;
        self.check_inputs(library)
    }

    pub(super) fn check_sizes(&self) -> Result<(), CublasError> {
        match self.sizes.iter().all(|size| (1..=i32::MAX as u32).contains(size)) {
            true => Ok(()),
            false => Err(CublasError::Size { sizes: self.sizes }),
        }
    }

    /// Checks that the buffers have the types and element counts of A, B and C.
    ///
    /// # Errors
    /// [`Buffer`](CublasError::Buffer) or [`Size`](CublasError::Size).
    pub fn check(
        &self,
        a: BufferRef<'_>,
        b: BufferRef<'_>,
        c: BufferRef<'_>,
    ) -> Result<(), CublasError> {
        self.check_sizes()?;
        let [m, n, k] = self.sizes.map(u64::from);
        let ([of_a, of_b], output) = (self.stored_inputs(), self.output);
        let of = [
            ("A", (of_a, m * k), (a.scalar(), a.len())),
            ("B", (of_b, k * n), (b.scalar(), b.len())),
            ("C", (output, m * n), (c.scalar(), c.len())),
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
    /// The error of a GEMM with cuBLAS.
    #[derive(Clone, PartialEq)]
    #[non_exhaustive]
    pub enum CublasError {
        /// cuBLAS and cuBLASLt were not found: not in the system's folders, not in a CUDA toolkit
        /// (`CUDA_HOME`, `CUDA_PATH`, `/usr/local/cuda`), and not in the wheels of the active
        /// Python environment.
        NoLibrary {
            /// The file names that were tried.
            tried: Vec<String>,
        } = |f| write!(
            f,
            "cuBLAS was not found in the system's folders, in a CUDA toolkit, or in the active Python environment: install it \
             (`pip install nvidia-cublas`), or name its folder in `LD_LIBRARY_PATH`; tried {}",
            tried.join(", ")
        ),
        /// this cuBLAS has no function `{symbol}`
        MissingSymbol { symbol: &'static str },
        /// cuBLAS needs a GPU, not the simulator
        Simulator,
        /// A size is 0 or more than 2^31 - 1, which the libraries do not take.
        Size {
            /// M, N and K.
            sizes: [u32; 3],
        } = |f| match sizes {
            [m, n, k] => {
                write!(f, "cuBLAS needs sizes from 1 to 2147483647, not {m}x{n}x{k}")
            }
        },
        /// {library} cannot multiply {a} by {b}
        UnsupportedInputs { library: CublasLibrary, a: Scalar, b: Scalar },
        /// cuBLAS cannot write a matrix of {scalar}
        UnsupportedOutput { scalar: Scalar },
        /// cuBLASLt has no kernel for these sizes and layouts; with 8-bit floats, rows must be
        /// multiples of 16 bytes
        NoKernel,
        /// A buffer does not have the problem's element type or element count.
        Buffer {
            /// `A`, `B` or `C`.
            matrix: &'static str,
            /// Element type and count of the problem.
            expected: (Scalar, u64),
            /// Element type and count of the buffer.
            given: (Scalar, u64),
        } = |f| {
            let ((scalar, len), (other, given)) = (expected, given);
            write!(f, "{matrix} needs {len} elements of {scalar}, not {given} of {other}")
        },
        /// {call} failed with status {code}
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
        inputs: [Scalar::Bf16; 2],
        output: Scalar::F32,
    };

    #[test]
    fn pairs_of_inputs_have_a_library_or_an_error() {
        use CublasLibrary::{Cublas, CublasLt};
        use Scalar as S;
        let takes = |library, inputs: [Scalar; 2]| {
            Matmul { inputs, ..PROBLEM }.check_problem(library).map_err(|error| error.to_string())
        };
        for same in [S::Bf16, S::F16, S::Tf32, S::F32, S::F64, S::I8] {
            assert_eq!([Cublas, CublasLt].map(|of| takes(of, [same; 2])), [Ok(()), Ok(())]);
        }
        for small in [[S::F8E4M3, S::F8E4M3], [S::F8E4M3, S::F8E5M2], [S::F8E5M2, S::F8E4M3]] {
            assert_eq!(takes(CublasLt, small), Ok(()));
            assert!(takes(Cublas, small).is_err());
        }
        for [a, b] in [[S::F8E5M2; 2], [S::I8, S::U8], [S::U8; 2], [S::Bf16, S::F16]] {
            let error = format!("cuBLASLt cannot multiply {a} by {b}");
            assert_eq!(takes(CublasLt, [a, b]), Err(error));
        }
    }

    /// Checked against the definition of column-major storage, with element (i, j) at
    /// `i + j * pitch`: `first` is B at (n, k) and `second` is A at (k, m), element by element.
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
