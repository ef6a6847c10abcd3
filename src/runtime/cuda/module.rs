//! Compiles PTX with the driver or takes compiled code, and loads it. `Module::load_with` chooses
//! the compiler and the cache.

use std::ffi::{CString, c_char};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use cudarc::driver::sys;

use super::context::Context;
use super::jit::Jit;
use super::kernel_name::{KernelId, KernelName};
use super::link;
use super::status;
use super::uses::Uses;
use crate::runtime::cache::{Compiled, Key};
use crate::runtime::driver_answer::PtxRejection;
use crate::runtime::error::RuntimeError;
use crate::runtime::load_options::LoadOptions;
use crate::runtime::note::CompilerNote;
use crate::runtime::timing::LoadTimes;

/// Loaded code. Dropping it unloads the code after its last launch has ended.
pub(in crate::runtime) struct Module {
    context: &'static Context,
    raw: sys::CUmodule,
    log: String,
    uses: Arc<Uses>,
    times: LoadTimes,
    /// The names of the entries that somebody asked for. They are released when none of the code
    /// runs.
    kernels: Mutex<Vec<KernelName>>,
}

// SAFETY: as for the context.
unsafe impl Send for Module {}
// SAFETY: as for the context.
unsafe impl Sync for Module {}

impl Module {
    fn new(context: &'static Context, raw: sys::CUmodule, log: String, times: LoadTimes) -> Module {
        let (uses, kernels) = (Arc::default(), Mutex::default());
        Module { context, raw, log, uses, times, kernels }
    }

    /// Compiles and loads PTX. Errors call it `name`.
    pub(in crate::runtime) fn load(
        context: &'static Context,
        name: &str,
        ptx: &str,
    ) -> Result<Module, RuntimeError> {
        let image = CString::new(ptx).map_err(|error| {
            let line =
                1 + ptx.as_bytes()[..error.nul_position()].iter().filter(|b| **b == b'\n').count();
            let log =
                "the PTX contains a zero byte, at which the driver would stop reading".to_owned();
            rejection(context, name, ptx, INVALID_PTX, Some(line), log)
        })?;
        let _current = context.enter()?;
        let mut jit = Jit::new();
        let mut raw = ptr::null_mut();
        let begin = Instant::now();
        // SAFETY: the image is a zero-terminated text; there are as many values as keys; the log
        // buffers have the stated sizes and outlive the call, during which the driver writes them.
        let code = unsafe {
            (context.api().cuModuleLoadDataEx)(
                &mut raw,
                image.as_ptr().cast(),
                jit.len(),
                jit.keys(),
                jit.values(),
            )
        };
        let times = LoadTimes { compile: begin.elapsed(), ..LoadTimes::default() };
        let (info, error) = jit.into_logs();
        let failed = code != status::SUCCESS && status::fault(code).is_none();
        if failed && (status::is_about_ptx(code) || !error.is_empty()) {
            let log = if error.is_empty() { info } else { error };
            return Err(rejection(context, name, ptx, code, error_line(&log), log));
        }
        context.check("cuModuleLoadDataEx", code)?;
        let module = Module::new(context, raw, info, times);
        CompilerNote::check(name, &module.log)?;
        Ok(module)
    }

    /// Like [`Module::load`], but follows the options: takes the code from the module cache if it
    /// is there, and compiles with `ptxas` if the options name one.
    pub(in crate::runtime) fn load_with(
        context: &'static Context,
        name: &str,
        ptx: &str,
        options: &LoadOptions<'_>,
    ) -> Result<Module, RuntimeError> {
        if options.cache.is_none() && options.ptxas.is_none() {
            return Module::load(context, name, ptx);
        }
        context.enter()?;
        let key = Key::of(&[
            &match options.ptxas {
                Some(ptxas) => format!("ptxas {}", ptxas.version()),
                None => format!("driver {}", context.driver()),
            },
            &context.target().to_string(),
            ptx,
        ]);
        if let Some(cache) = options.cache
            && let Some(compiled) = cache.find(key)
        {
            match Module::load_code(context, name, &compiled)? {
                Some(module) => return Ok(module),
                None => cache.note_corrupt(key),
            }
        }
        let begin = Instant::now();
        let compiled = match options.ptxas {
            Some(ptxas) => {
                let assembled = ptxas
                    .assemble(ptx, context.target())
                    .map_err(|error| RuntimeError::Ptxas { kernel: name.to_owned(), error })?;
                Some(Compiled { cubin: assembled.cubin, log: assembled.log })
            }
            // The driver's linker compiles each text as one of several, and then does not allow
            // warps to exchange registers (C7504). So text with `setmaxnreg` is loaded as a whole,
            // and the driver's own cache keeps it.
            None if ptx.contains("setmaxnreg.") => None,
            None => link::compile(context, ptx)?,
        };
        let compile = begin.elapsed();
        if let Some(compiled) = compiled
            && let Some(mut module) = Module::load_code(context, name, &compiled)?
        {
            module.times.compile = compile;
            if let Some(cache) = options.cache {
                cache.insert(key, compiled);
            }
            return Ok(module);
        }
        // If the text is wrong, this explains why.
        let mut module = Module::load(context, name, ptx)?;
        module.times.compile += compile;
        Ok(module)
    }

    /// Loads compiled code; `None` if the driver refuses it.
    fn load_code(
        context: &'static Context,
        name: &str,
        compiled: &Compiled,
    ) -> Result<Option<Module>, RuntimeError> {
        // The driver reads as many bytes as the code's header says.
        let Some(b"\x7fELF") = compiled.cubin.first_chunk::<4>() else { return Ok(None) };
        CompilerNote::check(name, &compiled.log)?;
        let _current = context.enter()?;
        let mut raw = ptr::null_mut();
        let begin = Instant::now();
        // SAFETY: the code is complete and from a compiler: either it was just compiled, or its
        // checksum is right. `raw` is a local out parameter; there are no options.
        let code = unsafe {
            (context.api().cuModuleLoadDataEx)(
                &mut raw,
                compiled.cubin.as_ptr().cast(),
                0,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        if code != status::SUCCESS && status::fault(code).is_none() && status::is_about_ptx(code) {
            return Ok(None);
        }
        context.check("cuModuleLoadDataEx", code)?;
        let times = LoadTimes { load: begin.elapsed(), ..LoadTimes::default() };
        Ok(Some(Module::new(context, raw, compiled.log.clone(), times)))
    }

    pub(in crate::runtime) fn log(&self) -> &str {
        &self.log
    }

    /// Returns how long compiling and loading took.
    pub(super) fn times(&self) -> LoadTimes {
        self.times
    }

    pub(super) fn context(&self) -> &'static Context {
        self.context
    }

    /// Returns the entry `name`. You can use it as long as the module lives.
    pub(super) fn entry(&self, name: &str) -> Result<sys::CUfunction, RuntimeError> {
        let missing = || RuntimeError::MissingEntry { entry: name.to_owned() };
        let name = CString::new(name).map_err(|_| missing())?;
        let _current = self.context.enter()?;
        let mut function = ptr::null_mut();
        // SAFETY: `function` is a local out parameter; the module is loaded.
        let code = unsafe {
            let name: *const c_char = name.as_ptr();
            (self.context.api().cuModuleGetFunction)(&mut function, self.raw, name)
        };
        if code == status::NOT_FOUND {
            return Err(missing());
        }
        self.context.check("cuModuleGetFunction", code)?;
        Ok(function)
    }

    /// Returns an id for the entry `name`, valid as long as the module lives.
    pub(super) fn kernel(&self, name: &str) -> KernelId {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kernels.iter().find(|kernel| kernel.name() == name) {
            return known.id();
        }
        let new = self.context.kernel_names().add(name);
        let id = new.id();
        kernels.push(new);
        id
    }

    /// Returns the launches that use this module's code.
    pub(super) fn uses(&self) -> &Arc<Uses> {
        &self.uses
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // After a fault the code is gone with the context.
        let Some(_current) = self.context.enter_to_drop() else { return };
        // Wait first, because the driver does not promise that unloading waits for launches.
        if self.context.keep(self.uses.wait(true)).is_none() {
            return;
        }
        // SAFETY: the module is loaded, none of its code runs, and it is unloaded once.
        let code = unsafe { (self.context.api().cuModuleUnload)(self.raw) };
        self.context.keep(self.context.check("cuModuleUnload", code));
    }
}

/// The value of `CUDA_ERROR_INVALID_PTX`.
const INVALID_PTX: u32 = 218;

fn rejection(
    context: &Context,
    name: &str,
    ptx: &str,
    code: u32,
    line: Option<usize>,
    log: String,
) -> RuntimeError {
    let location = line.and_then(|number| location_of(ptx, number));
    let text_of = |number: usize| ptx.lines().nth(number.saturating_sub(1)).unwrap_or_default();
    let line = line.map(|number| (number, text_of(number).to_owned()));
    let (kernel, status) = (name.to_owned(), context.api().status(code));
    RuntimeError::PtxRejected(Box::new(PtxRejection { kernel, status, line, location, log }))
}

/// Returns the Rust line that produced a PTX line: the nearest `// file:line` comment above it.
fn location_of(ptx: &str, number: usize) -> Option<String> {
    let location = |line: &str| {
        let location = line.trim().strip_prefix("// ")?;
        let (file, line) = location.rsplit_once(':')?;
        let is_location = !file.contains(' ') && line.parse::<u32>().is_ok();
        is_location.then(|| location.to_owned())
    };
    ptx.lines().take(number).filter_map(location).last()
}

/// Returns the line of the first error in a log such as `ptxas application ptx input, line 9; error
/// : Unknown symbol 'x'`.
fn error_line(log: &str) -> Option<usize> {
    let line_of = |message: &str| {
        let (_, rest) = message.split_once("line ")?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    };
    let errors =
        log.lines().filter(|message| message.contains("error") || message.contains("fatal"));
    errors.filter_map(line_of).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_first_error_is_found() {
        let log = "ptxas application ptx input, line 3; warning : old\n\
                   ptxas application ptx input, line 12; error   : Unknown symbol 'x'\n\
                   ptxas application ptx input, line 14; error   : Unknown symbol 'y'\n\
                   ptxas fatal   : Ptx assembly aborted due to errors";
        assert_eq!(error_line(log), Some(12));
        assert_eq!(error_line("ptxas fatal   : Unresolved extern"), None);
        assert_eq!(error_line(""), None);
    }

    #[test]
    fn a_line_belongs_to_the_comment_above() {
        let ptx = ".version 8.0\n// a comment: 7 x\n// axpy.rs:12\nadd;\nmul;\n// axpy.rs:13\nst;";
        for (number, line) in [(1, None), (2, None), (4, Some(12)), (5, Some(12)), (7, Some(13))] {
            let expected = line.map(|line: u32| format!("axpy.rs:{line}"));
            assert_eq!(location_of(ptx, number), expected, "{number}");
        }
    }
}
