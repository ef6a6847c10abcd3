//! Calls cuBLAS and cuBLASLt, which are loaded at first use. The public `Cublas` checks a problem
//! and then comes here.

use std::any::Any;
use std::ffi::{OsString, c_int, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::context::Context;
use super::kernel_name::KernelName;
use super::library::{self, library_functions};
use super::library_folders::library_folders;
use super::memory::{Memory, lock_shared};
use super::stream::Stream;
use super::submission_counter::QueuedLaunches;
use super::uses::{Note, Uses};
use crate::ir::types::Scalar;
use crate::runtime::cublas_problem::{CublasError, Matmul, Operand};
use cudarc::cublas::sys as blas;
use cudarc::cublaslt::sys as lt;

/// Workspace for both libraries in bytes: what NVIDIA recommends for Hopper.
const WORKSPACE_BYTES: usize = 32 << 20;
const SUCCESS: u32 = 0;
/// The status that means: no kernel fits the problem.
const NOT_SUPPORTED: u32 = 15;

library_functions! {
    struct Blas {} returns blas::cublasStatus_t;

    fn cublasCreate_v2(handle: *mut blas::cublasHandle_t) = blas::cublasCreate_v2;
    fn cublasDestroy_v2(handle: blas::cublasHandle_t) = blas::cublasDestroy_v2;
    fn cublasGetVersion_v2(handle: blas::cublasHandle_t, version: *mut c_int)
        = blas::cublasGetVersion_v2;
    fn cublasSetStream_v2(handle: blas::cublasHandle_t, stream: blas::cudaStream_t)
        = blas::cublasSetStream_v2;
    fn cublasSetWorkspace_v2(handle: blas::cublasHandle_t, workspace: *mut c_void, bytes: usize)
        = blas::cublasSetWorkspace_v2;
    fn cublasGemmEx(
        handle: blas::cublasHandle_t,
        transa: blas::cublasOperation_t,
        transb: blas::cublasOperation_t,
        m: c_int,
        n: c_int,
        k: c_int,
        alpha: *const c_void,
        a: *const c_void,
        a_type: blas::cudaDataType,
        lda: c_int,
        b: *const c_void,
        b_type: blas::cudaDataType,
        ldb: c_int,
        beta: *const c_void,
        c: *mut c_void,
        c_type: blas::cudaDataType,
        ldc: c_int,
        compute: blas::cublasComputeType_t,
        algorithm: blas::cublasGemmAlgo_t
    ) = blas::cublasGemmEx;
}

library_functions! {
    struct Lt {} returns lt::cublasStatus_t;

    fn cublasLtCreate(handle: *mut lt::cublasLtHandle_t) = lt::cublasLtCreate;
    fn cublasLtDestroy(handle: lt::cublasLtHandle_t) = lt::cublasLtDestroy;
    fn cublasLtMatmulDescCreate(
        desc: *mut lt::cublasLtMatmulDesc_t,
        compute: lt::cublasComputeType_t,
        scale: lt::cudaDataType_t
    ) = lt::cublasLtMatmulDescCreate;
    fn cublasLtMatmulDescDestroy(desc: lt::cublasLtMatmulDesc_t) = lt::cublasLtMatmulDescDestroy;
    fn cublasLtMatmulDescSetAttribute(
        desc: lt::cublasLtMatmulDesc_t,
        attribute: lt::cublasLtMatmulDescAttributes_t,
        value: *const c_void,
        bytes: usize
    ) = lt::cublasLtMatmulDescSetAttribute;
    fn cublasLtMatrixLayoutCreate(
        layout: *mut lt::cublasLtMatrixLayout_t,
        data_type: lt::cudaDataType,
        rows: u64,
        columns: u64,
        ld: i64
    ) = lt::cublasLtMatrixLayoutCreate;
    fn cublasLtMatrixLayoutDestroy(layout: lt::cublasLtMatrixLayout_t)
        = lt::cublasLtMatrixLayoutDestroy;
    fn cublasLtMatmulPreferenceCreate(preference: *mut lt::cublasLtMatmulPreference_t)
        = lt::cublasLtMatmulPreferenceCreate;
    fn cublasLtMatmulPreferenceDestroy(preference: lt::cublasLtMatmulPreference_t)
        = lt::cublasLtMatmulPreferenceDestroy;
    fn cublasLtMatmulPreferenceSetAttribute(
        preference: lt::cublasLtMatmulPreference_t,
        attribute: lt::cublasLtMatmulPreferenceAttributes_t,
        value: *const c_void,
        bytes: usize
    ) = lt::cublasLtMatmulPreferenceSetAttribute;
    fn cublasLtMatmulAlgoGetHeuristic(
        handle: lt::cublasLtHandle_t,
        desc: lt::cublasLtMatmulDesc_t,
        a: lt::cublasLtMatrixLayout_t,
        b: lt::cublasLtMatrixLayout_t,
        c: lt::cublasLtMatrixLayout_t,
        d: lt::cublasLtMatrixLayout_t,
        preference: lt::cublasLtMatmulPreference_t,
        asked: c_int,
        results: *mut lt::cublasLtMatmulHeuristicResult_t,
        found: *mut c_int
    ) = lt::cublasLtMatmulAlgoGetHeuristic;
    fn cublasLtMatmul(
        handle: lt::cublasLtHandle_t,
        desc: lt::cublasLtMatmulDesc_t,
        alpha: *const c_void,
        a: *const c_void,
        a_layout: lt::cublasLtMatrixLayout_t,
        b: *const c_void,
        b_layout: lt::cublasLtMatrixLayout_t,
        beta: *const c_void,
        c: *const c_void,
        c_layout: lt::cublasLtMatrixLayout_t,
        d: *mut c_void,
        d_layout: lt::cublasLtMatrixLayout_t,
        algorithm: *const lt::cublasLtMatmulAlgo_t,
        workspace: *mut c_void,
        workspace_bytes: usize,
        stream: lt::cudaStream_t
    ) = lt::cublasLtMatmul;
}

/// Both libraries. They are never closed.
struct Libraries {
    blas: Blas,
    lt: Lt,
}

impl Libraries {
    fn get() -> Result<&'static Libraries, CublasError> {
        static FOUND: OnceLock<Result<Libraries, CublasError>> = OnceLock::new();
        FOUND.get_or_init(Libraries::find).as_ref().map_err(CublasError::clone)
    }

    fn find() -> Result<Libraries, CublasError> {
        let candidates = candidates(|name| std::env::var_os(name));
        let [lt, blas] = library::open_together(&candidates).ok_or_else(|| {
            let tried = candidates.iter().flatten().map(|path| path.display().to_string());
            CublasError::NoLibrary { tried: tried.collect() }
        })?;
        let missing = |symbol| CublasError::MissingSymbol { symbol };
        let blas = Blas::find(blas).map_err(missing)?;
        Ok(Libraries { blas, lt: Lt::find(lt).map_err(missing)? })
    }
}

/// Returns where both libraries may be: first by name, for the system's search, then in the folders
/// of toolkits and wheels. In each place, CUDA 13 comes first, then CUDA 12, then the name without
/// a version. cuBLAS itself opens cuBLASLt by name, so we load cuBLASLt first and from the same
/// place: then both belong to one installation.
fn candidates(variable: impl Fn(&str) -> Option<OsString>) -> Vec<[PathBuf; 2]> {
    let file = |name: &str, version: &str| match (cfg!(windows), version) {
        (true, "") => format!("{name}.dll"),
        (true, version) => format!("{name}64_{version}.dll"),
        (false, "") => format!("lib{name}.so"),
        (false, version) => format!("lib{name}.so.{version}"),
    };
    let versions =
        ["13", "12", ""].map(|version| [file("cublasLt", version), file("cublas", version)]);
    let folders = library_folders("cublas", variable);
    let named = versions.iter().map(|files| files.clone().map(PathBuf::from));
    let in_folder = |folder: PathBuf| {
        let paths = versions.clone().map(|files| files.map(|file| folder.join(file)));
        paths.into_iter().filter(|paths| paths.iter().all(|path| path.exists()))
    };
    named.chain(folders.into_iter().flat_map(in_folder)).collect()
}

fn check(call: &'static str, code: u32) -> Result<(), CublasError> {
    if code == SUCCESS { Ok(()) } else { Err(CublasError::Status { call, code }) }
}

/// A handle of each library, with the workspace for their calls.
pub(in crate::runtime) struct Handles {
    context: &'static Context,
    blas: blas::cublasHandle_t,
    lt: lt::cublasLtHandle_t,
    workspace: Memory,
    /// Locked by calls that set a stream and then use it.
    lock: Mutex<()>,
    /// Track the uses of the libraries' code, which is never unloaded.
    uses: Arc<Uses>,
    name: KernelName,
}

// SAFETY: handles are names; calls that change what is behind them hold the lock.
unsafe impl Send for Handles {}
// SAFETY: as above.
unsafe impl Sync for Handles {}

impl Handles {
    pub(in crate::runtime) fn new(context: &'static Context) -> Result<Arc<Handles>, CublasError> {
        let libraries = Libraries::get()?;
        let workspace = Memory::zeros(context, WORKSPACE_BYTES)?;
        let _current = context.enter()?;
        let mut handles = Handles {
            context,
            blas: ptr::null_mut(),
            lt: ptr::null_mut(),
            workspace,
            lock: Mutex::default(),
            uses: Arc::default(),
            name: context.kernel_names().add("cuBLAS"),
        };
        // SAFETY: the context is current; the handle is an out parameter.
        let code = unsafe { (libraries.blas.cublasCreate_v2)(&mut handles.blas) };
        check("cublasCreate", code)?;
        // SAFETY: as above.
        let code = unsafe { (libraries.lt.cublasLtCreate)(&mut handles.lt) };
        check("cublasLtCreate", code)?;
        Ok(Arc::new(handles))
    }

    /// Returns the version as `cublasGetVersion` does: 130100 for 13.1.0.
    pub(in crate::runtime) fn version(&self) -> Result<u32, CublasError> {
        let libraries = Libraries::get()?;
        let mut version = 0;
        // SAFETY: `version` is a local out parameter.
        let code = unsafe { (libraries.blas.cublasGetVersion_v2)(self.blas, &mut version) };
        check("cublasGetVersion", code)?;
        Ok(u32::try_from(version).unwrap_or(0))
    }

    /// Queues a GEMM with the kernel that cuBLAS chooses. The memory must have the sizes that
    /// `matmul` needs.
    pub(in crate::runtime) fn gemm(
        self: &Arc<Self>,
        matmul: &Matmul,
        stream: &Arc<Stream>,
        [a, b]: [&Memory; 2],
        c: &Memory,
    ) -> Result<(), CublasError> {
        let libraries = Libraries::get()?;
        let [m, n, k] = matmul.sizes.map(|size| size as c_int);
        let ([of_a, of_b], output) = types(matmul)?;
        let compute = match matmul.inputs[0] {
            Scalar::Tf32 => blas::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            Scalar::F64 => blas::cublasComputeType_t::CUBLAS_COMPUTE_64F,
            Scalar::I8 => blas::cublasComputeType_t::CUBLAS_COMPUTE_32I,
            _ => blas::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        };
        let (alpha, beta) = (one(matmul), 0u64);
        let operation = |operand: Operand| match operand {
            Operand::Transposed => blas::cublasOperation_t::CUBLAS_OP_T,
            Operand::AsStored => blas::cublasOperation_t::CUBLAS_OP_N,
        };
        let columns = matmul.columns();
        self.queue(stream, [a, b], c, |workspace, stream| {
            // SAFETY: the handle is locked and the context is current. The addresses belong to
            // matrices of these sizes, which live until the uses that are noted have ended.
            unsafe {
                let api = &libraries.blas;
                check("cublasSetStream", (api.cublasSetStream_v2)(self.blas, stream.cast()))?;
                // Setting the stream takes the workspace away, and while a graph is recorded cuBLAS
                // must not allocate its own.
                let set = (api.cublasSetWorkspace_v2)(self.blas, workspace, WORKSPACE_BYTES);
                check("cublasSetWorkspace", set)?;
                let code = (api.cublasGemmEx)(
                    self.blas,
                    operation(columns.first),
                    operation(columns.second),
                    n,
                    m,
                    k,
                    (&raw const alpha).cast(),
                    b.address() as *const c_void,
                    of_b,
                    columns.first_pitch as c_int,
                    a.address() as *const c_void,
                    of_a,
                    columns.second_pitch as c_int,
                    (&raw const beta).cast(),
                    c.address() as *mut c_void,
                    output,
                    n,
                    compute,
                    blas::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
                );
                check("cublasGemmEx", code)
            }
        })
    }

    /// Returns the first kernels that cuBLASLt's heuristic suggests, at most `count`.
    pub(in crate::runtime) fn plans(
        self: &Arc<Self>,
        matmul: &Matmul,
        count: usize,
    ) -> Result<Vec<Plan>, CublasError> {
        let libraries = Libraries::get()?;
        let descriptors = Arc::new(Descriptors::new(matmul)?);
        let api = &libraries.lt;
        let mut preference = ptr::null_mut();
        // SAFETY: `preference` is a local out parameter.
        let code = unsafe { (api.cublasLtMatmulPreferenceCreate)(&mut preference) };
        check("cublasLtMatmulPreferenceCreate", code)?;
        let asked = c_int::try_from(count).unwrap_or(c_int::MAX);
        let mut results: Vec<lt::cublasLtMatmulHeuristicResult_t> = Vec::with_capacity(count);
        let mut found = 0;
        let bytes = WORKSPACE_BYTES as u64;
        let _current = self.context.enter()?;
        // SAFETY: all descriptors are alive; the value is a `uint64_t`; there is room for as many
        // results as requested. The preference is destroyed once.
        let (set, code) = unsafe {
            let max =
                lt::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            let value = (&raw const bytes).cast();
            let set = (api.cublasLtMatmulPreferenceSetAttribute)(preference, max, value, 8);
            let code = (api.cublasLtMatmulAlgoGetHeuristic)(
                self.lt,
                descriptors.product,
                descriptors.layouts[0],
                descriptors.layouts[1],
                descriptors.layouts[2],
                descriptors.layouts[2],
                preference,
                asked,
                results.as_mut_ptr(),
                &mut found,
            );
            (api.cublasLtMatmulPreferenceDestroy)(preference);
            (set, code)
        };
        check("cublasLtMatmulPreferenceSetAttribute", set)?;
        match code {
            NOT_SUPPORTED => return Err(CublasError::NoKernel),
            code => check("cublasLtMatmulAlgoGetHeuristic", code)?,
        }
        let found = usize::try_from(found).unwrap_or(0).min(count);
        let plan = |i: usize| {
            // SAFETY: the library has written the first `found` results. The state is read as an
            // integer, because its value may be missing in the bindings' enum.
            unsafe {
                let result = results.as_ptr().add(i);
                let state = (&raw const (*result).state).cast::<u32>().read();
                let algorithm = (&raw const (*result).algo).read();
                (state == SUCCESS).then(|| Plan {
                    matmul: *matmul,
                    descriptors: Arc::clone(&descriptors),
                    algorithm,
                })
            }
        };
        Ok((0..found).filter_map(plan).collect())
    }

    /// Queues a plan's GEMM. The memory must have the sizes that its problem needs.
    pub(in crate::runtime) fn run(
        self: &Arc<Self>,
        plan: &Plan,
        stream: &Arc<Stream>,
        [a, b]: [&Memory; 2],
        c: &Memory,
    ) -> Result<(), CublasError> {
        let libraries = Libraries::get()?;
        let (alpha, beta) = (one(&plan.matmul), 0u64);
        let Descriptors { product, layouts } = &*plan.descriptors;
        self.queue(stream, [a, b], c, |workspace, stream| {
            let to = c.address() as *mut c_void;
            // SAFETY: as in `gemm`; the descriptors live as long as the plan.
            let code = unsafe {
                (libraries.lt.cublasLtMatmul)(
                    self.lt,
                    *product,
                    (&raw const alpha).cast(),
                    b.address() as *const c_void,
                    layouts[0],
                    a.address() as *const c_void,
                    layouts[1],
                    (&raw const beta).cast(),
                    to,
                    layouts[2],
                    to,
                    layouts[2],
                    &plan.algorithm,
                    workspace,
                    WORKSPACE_BYTES,
                    stream.cast(),
                )
            };
            check("cublasLtMatmul", code)
        })
    }

    /// Queues or records work that reads two matrices and writes one matrix and the workspace.
    fn queue(
        self: &Arc<Self>,
        stream: &Arc<Stream>,
        inputs: [&Memory; 2],
        output: &Memory,
        call: impl FnOnce(*mut c_void, *mut c_void) -> Result<(), CublasError>,
    ) -> Result<(), CublasError> {
        let _current = self.context.enter()?;
        let _lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let uses = || {
            let inputs = inputs.into_iter().map(|memory| (memory, false));
            inputs.chain([(output, true), (&self.workspace, true)])
        };
        let (workspace, raw) = (self.workspace.address() as *mut c_void, stream.raw().cast());
        let mut call = Some(call);
        let mut run = || call.take().map_or(Ok(()), |call| call(workspace, raw));
        let recorded = stream.captured(|capture| {
            uses().try_for_each(|(memory, writes)| memory.record_use(capture, writes))?;
            run()?;
            let owner: Arc<dyn Any + Send + Sync> = Arc::clone(self) as _;
            capture.note_launch(self.name.id(), &self.uses, None, owner);
            Ok(())
        });
        if let Some(recorded) = recorded {
            return recorded;
        }
        stream.check_not_capturing()?;
        let _graphs = lock_shared(self.context, uses().map(|(memory, _)| memory))?;
        uses().try_for_each(|(memory, writes)| memory.uses().order(stream, writes))?;
        let note = |note: &mut Note<'_>| {
            uses().for_each(|(memory, writes)| note(memory.uses(), writes));
        };
        stream.queue(Some(QueuedLaunches { count: 1, kernel: self.name.id() }), note, run)?;
        stream.check_not_captured(|| {
            let memory: Vec<_> =
                uses().map(|(memory, _)| Arc::clone(memory.allocation())).collect();
            (memory, Arc::clone(self))
        })?;
        Ok(())
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        let (Ok(libraries), Some(_current)) = (Libraries::get(), self.context.enter_to_drop())
        else {
            return;
        };
        // Wait first, because the libraries free what running work may use.
        if self.context.keep(self.workspace.uses().wait(true)).is_none() {
            return;
        }
        if !self.blas.is_null() {
            // SAFETY: the handle was created, is not used again and is destroyed once.
            unsafe { (libraries.blas.cublasDestroy_v2)(self.blas) };
        }
        if !self.lt.is_null() {
            // SAFETY: as above.
            unsafe { (libraries.lt.cublasLtDestroy)(self.lt) };
        }
    }
}

/// A kernel that cuBLASLt's heuristic suggested for a problem.
pub(in crate::runtime) struct Plan {
    matmul: Matmul,
    descriptors: Arc<Descriptors>,
    algorithm: lt::cublasLtMatmulAlgo_t,
}

impl Plan {
    pub(in crate::runtime) fn matmul(&self) -> &Matmul {
        &self.matmul
    }
}

/// cuBLASLt's descriptors for a problem.
struct Descriptors {
    product: lt::cublasLtMatmulDesc_t,
    layouts: [lt::cublasLtMatrixLayout_t; 3],
}

// SAFETY: they are written when they are created, and only read later.
unsafe impl Send for Descriptors {}
// SAFETY: as above.
unsafe impl Sync for Descriptors {}

impl Descriptors {
    fn new(matmul: &Matmul) -> Result<Descriptors, CublasError> {
        let api = &Libraries::get()?.lt;
        let ([of_a, of_b], output) = types(matmul)?;
        // The two bindings have the same type under two names.
        let lt_type = |kind: blas::cudaDataType| match kind {
            blas::cudaDataType::CUDA_R_16BF => lt::cudaDataType::CUDA_R_16BF,
            blas::cudaDataType::CUDA_R_16F => lt::cudaDataType::CUDA_R_16F,
            blas::cudaDataType::CUDA_R_8F_E4M3 => lt::cudaDataType::CUDA_R_8F_E4M3,
            blas::cudaDataType::CUDA_R_8F_E5M2 => lt::cudaDataType::CUDA_R_8F_E5M2,
            blas::cudaDataType::CUDA_R_64F => lt::cudaDataType::CUDA_R_64F,
            blas::cudaDataType::CUDA_R_8I => lt::cudaDataType::CUDA_R_8I,
            blas::cudaDataType::CUDA_R_32I => lt::cudaDataType::CUDA_R_32I,
            _ => lt::cudaDataType::CUDA_R_32F,
        };
        let [m, n, k] = matmul.sizes.map(u64::from);
        let columns = matmul.columns();
        let mut made = Descriptors { product: ptr::null_mut(), layouts: [ptr::null_mut(); 3] };
        let compute = match matmul.inputs[0] {
            Scalar::Tf32 => lt::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            Scalar::F64 => lt::cublasComputeType_t::CUBLAS_COMPUTE_64F,
            Scalar::I8 => lt::cublasComputeType_t::CUBLAS_COMPUTE_32I,
            _ => lt::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        };
        let scale = match matmul.inputs[0] {
            Scalar::F64 => lt::cudaDataType::CUDA_R_64F,
            Scalar::I8 => lt::cudaDataType::CUDA_R_32I,
            _ => lt::cudaDataType::CUDA_R_32F,
        };
        // SAFETY: `product` is an out parameter.
        let code = unsafe { (api.cublasLtMatmulDescCreate)(&mut made.product, compute, scale) };
        check("cublasLtMatmulDescCreate", code)?;
        use lt::cublasLtMatmulDescAttributes_t as Attribute;
        let operands = [
            (Attribute::CUBLASLT_MATMUL_DESC_TRANSA, columns.first),
            (Attribute::CUBLASLT_MATMUL_DESC_TRANSB, columns.second),
        ];
        for (attribute, operand) in operands {
            let value: i32 = match operand {
                Operand::AsStored => 0,
                Operand::Transposed => 1,
            };
            // SAFETY: the value has the attribute's type, `int32_t`.
            let code = unsafe {
                let value = (&raw const value).cast();
                (api.cublasLtMatmulDescSetAttribute)(made.product, attribute, value, 4)
            };
            check("cublasLtMatmulDescSetAttribute", code)?;
        }
        if matmul.inputs[0].is_f8() {
            // Sums stay in the tensor cores, as in this crate's kernels.
            let (attribute, fast) = (Attribute::CUBLASLT_MATMUL_DESC_FAST_ACCUM, 1i8);
            // SAFETY: the value has the attribute's type, `int8_t`.
            let code = unsafe {
                let value = (&raw const fast).cast();
                (api.cublasLtMatmulDescSetAttribute)(made.product, attribute, value, 1)
            };
            check("cublasLtMatmulDescSetAttribute", code)?;
        }
        let shape = |operand: Operand, rows: u64, columns: u64| match operand {
            Operand::AsStored => (rows, columns),
            Operand::Transposed => (columns, rows),
        };
        let matrices = [
            (of_b, shape(columns.first, n, k), columns.first_pitch),
            (of_a, shape(columns.second, k, m), columns.second_pitch),
            (output, (n, m), n),
        ];
        for (layout, (kind, (rows, columns), pitch)) in made.layouts.iter_mut().zip(matrices) {
            let kind = lt_type(kind);
            // SAFETY: `layout` is an out parameter.
            let code = unsafe {
                (api.cublasLtMatrixLayoutCreate)(layout, kind, rows, columns, pitch as i64)
            };
            check("cublasLtMatrixLayoutCreate", code)?;
        }
        Ok(made)
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        let Ok(libraries) = Libraries::get() else { return };
        if !self.product.is_null() {
            // SAFETY: it was created, is not used again and is destroyed once.
            unsafe { (libraries.lt.cublasLtMatmulDescDestroy)(self.product) };
        }
        for layout in self.layouts {
            if !layout.is_null() {
                // SAFETY: as above.
                unsafe { (libraries.lt.cublasLtMatrixLayoutDestroy)(layout) };
            }
        }
    }
}

/// Returns the bits of a factor of 1 in the accumulator type, in the lowest bytes.
fn one(matmul: &Matmul) -> u64 {
    match matmul.inputs[0] {
        Scalar::I8 => 1,
        Scalar::F64 => 1f64.to_bits(),
        _ => 1f32.to_bits().into(),
    }
}

/// Returns the in-memory types of A and B, and of C.
fn types(matmul: &Matmul) -> Result<([blas::cudaDataType; 2], blas::cudaDataType), CublasError> {
    let of = |scalar: Scalar| match scalar {
        Scalar::Bf16 => Ok(blas::cudaDataType::CUDA_R_16BF),
        Scalar::F16 => Ok(blas::cudaDataType::CUDA_R_16F),
        Scalar::F32 => Ok(blas::cudaDataType::CUDA_R_32F),
        Scalar::F8E4M3 => Ok(blas::cudaDataType::CUDA_R_8F_E4M3),
        Scalar::F8E5M2 => Ok(blas::cudaDataType::CUDA_R_8F_E5M2),
        Scalar::F64 => Ok(blas::cudaDataType::CUDA_R_64F),
        Scalar::I8 => Ok(blas::cudaDataType::CUDA_R_8I),
        Scalar::I32 => Ok(blas::cudaDataType::CUDA_R_32I),
        scalar => Err(CublasError::UnsupportedOutput { scalar }),
    };
    let [a, b] = matmul.stored_inputs();
    Ok(([of(a)?, of(b)?], of(matmul.output)?))
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    /// A CUDA 13 wheel that contains copies of a system library under NVIDIA's names, so that both
    /// are found and load. A folder with only one of the two is skipped.
    #[test]
    fn both_libraries_of_a_wheel_are_found_together() {
        // The test itself has loaded the C library, so there is a library to copy.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
        let is_small = |path: &&str| path.contains("/libgcc_s.so") || path.contains("/libm.so");
        let any = paths.clone().find(is_small).expect("the standard library needs it");
        let name = format!("tilewright-cublas-{}", std::process::id());
        let environment = std::env::temp_dir().join(name);
        let packages = environment.join("lib/python3.13/site-packages/nvidia");
        let [whole, partial] = ["cu13/lib", "cublas/lib"].map(|lib| packages.join(lib));
        for (folder, files) in [
            (&whole, &["libcublas.so.13", "libcublasLt.so.13"][..]),
            (&partial, &["libcublas.so.12"]),
        ] {
            std::fs::create_dir_all(folder).unwrap();
            for file in files {
                std::fs::copy(any, folder.join(file)).unwrap();
            }
        }
        let variable = |name: &str| (name == "VIRTUAL_ENV").then(|| environment.clone().into());
        let all = candidates(variable);
        // The names for the system's search come first.
        let names = ["libcublasLt.so.13", "libcublas.so.13"].map(PathBuf::from);
        assert_eq!(all.first(), Some(&names));
        let of_wheels: Vec<_> =
            all.into_iter().filter(|row| row[0].starts_with(&environment)).collect();
        assert_eq!(
            of_wheels,
            [["libcublasLt.so.13", "libcublas.so.13"].map(|file| whole.join(file))]
        );
        let loaded = library::open_together(&of_wheels).is_some();
        std::fs::remove_dir_all(environment).unwrap();
        assert!(loaded);
    }
}
