//! Writes verified kernels as PTX, as text that you can read next to the Rust source.
//!
//! Most programs never call this module, because [`Device::load`](crate::runtime::Device::load)
//! does. Use it to look at a kernel's PTX ([`Kernel::ptx`](crate::ir::Kernel::ptx)), to assemble it
//! yourself, or to put several kernels into one [`Module`].
//!
//! ```
//! use tilewright::ir::{Global, GlobalMut, Kernel, Target};
//!
//! type Axpy = (f32, Global<f32>, GlobalMut<f32>, i32);
//! let kernel = Kernel::<Axpy>::build("axpy", Target::SM_80, |k, (a, x, y, n)| {
//!     let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
//!     k.if_(i.lt(n), |_| y.store(i, a * x.load(i) + y.load(i)));
//! })?;
//! let ptx = kernel.ptx();
//! assert_eq!((ptx.entries(), ptx.version().to_string().as_str()), (&["axpy".to_owned()][..], "7.0"));
//! assert!(ptx.text().contains("add.rn.f32"));
//! # Ok::<(), tilewright::ir::BuildErrors>(())
//! ```
//!
//! A [`Kernel`] is verified, so writing it always succeeds; only a [`Module`] of several kernels
//! can be wrong. The text depends on the kernel and the options alone: equal kernels give equal
//! bytes, and no file and no device is looked at.
//!
//! # How the IR is written
//!
//! * **Values.** A value's register has the number that the value has when the kernel's IR is
//!   printed: `%14` becomes `%r14` (integers up to 32 bits and pointers to shared memory), `%rd14`
//!   (64 bits and pointers to global memory), `%f14`, `%fd14` (`f32`, `f64`) or `%p14` (`bool`, a
//!   predicate). Constants are immediate operands. Pure operations with unused results are left
//!   out.
//! * **Narrow integers** live in 32-bit registers and are always sign- or zero-extended. Whatever
//!   can leave the range is extended again, so that comparisons, right shifts, divisions and
//!   conversions need no extra care.
//! * **`bool` in memory** and in parameters is a byte. 0 or 1 is stored, and any nonzero byte loads
//!   as `true`.
//! * **Floating point** arithmetic names its rounding (`add.rn`, `mul.rn`), so that `ptxas` never
//!   contracts a multiplication and an addition to `fma` (PTX ISA 9.7.3.3). Subnormal numbers are
//!   kept. Conversions to integers saturate and turn NaN into 0 for all types, even if the
//!   instruction alone does not. Operations on constants are computed here. Which NaN an operation
//!   returns is up to the device.
//! * **Addresses.** `base + index * size` is one `mad`, a wide one if the index is narrower than
//!   the pointer. A constant index becomes the offset in the brackets. An address that is used
//!   again in the same body is not computed again. Global pointers are converted to the global
//!   space on entry. Loads use the read-only path `ld.global.nc` only if they ask for it, because a
//!   read-only pointer may have a mutable alias.
//! * **Loops.** A `for` tests whether there is a next index before it computes it: `i + step < hi`
//!   is written as `step < hi - i`, which cannot wrap. So ranges up to the limits of every integer
//!   type iterate correctly. A step that is not positive gives no iterations. Carried values are
//!   registers, set by a parallel copy.
//! * **Shared memory** is one array, with the layout of
//!   [`KernelIr::shared_layout`](crate::ir::KernelIr::shared_layout). Up to 48 KiB it is static.
//!   Beyond that, the array is `.extern` without a length, and the launch has to provide
//!   [`KernelIr::dynamic_shared_bytes`](crate::ir::KernelIr::dynamic_shared_bytes).
//! * **Assertions** write to a buffer whose address is an additional parameter: see
//!   [`AssertBuffer`].
//! * **Barriers** are `barrier.sync 0` without `.aligned`, because the warps may be diverged. No
//!   branch is marked `.uni`.

mod arith;
mod arrays;
mod assert_buffer;
mod async_copy;
mod atomic;
mod bit_function;
mod control;
mod convert;
mod copies;
mod diagnostic;
mod divide;
mod entry;
mod error;
mod fold;
mod inline;
mod instruction;
mod mbarrier;
mod mem;
mod mma;
mod negation;
mod plain;
mod printf;
mod ptx;
mod regs;
mod sync;
mod tensor_map;
mod text;
mod uses;
mod vector;
mod version;
mod warp;

pub use assert_buffer::AssertBuffer;
pub use error::CodegenError;
pub use ptx::{Ptx, PtxVersion};
pub use text::location_in_comments;

use std::fmt;

use crate::ir::{Kernel, KernelIr, Target};
use text::Text;

/// Which comments and directives the PTX text contains beside the instructions. Pass it to
/// [`Kernel::ptx_with`](crate::ir::Kernel::ptx_with), for example to profile a kernel by Rust
/// lines.
///
/// ```
/// use tilewright::codegen::PtxOptions;
/// use tilewright::ir::{Kernel, GlobalMut, Target};
///
/// let kernel = Kernel::<(GlobalMut<i32>,)>::build("fill", Target::SM_80, |k, (x,)| {
///     x.store(k.thread_idx().x, 7)
/// })?;
/// let bare = kernel.ptx_with(PtxOptions::default().locations(false));
/// assert!(kernel.ptx().text().contains("// ") && !bare.text().contains("// "));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PtxOptions {
    /// Writes a comment `// file:line` above the instructions of each Rust line. On by default.
    pub locations: bool,
    /// Writes `.file` and `.loc` directives (PTX ISA 11.5), so that a profiler shows each
    /// instruction's Rust line. The text then contains source paths as rustc was given them. Off by
    /// default.
    pub line_info: bool,
}

impl Default for PtxOptions {
    fn default() -> PtxOptions {
        PtxOptions { locations: true, line_info: false }
    }
}

impl PtxOptions {
    /// Sets [`locations`](PtxOptions::locations): whether comments name the Rust lines. Turn it off
    /// to compare texts that differ only in lines.
    pub const fn locations(self, locations: bool) -> PtxOptions {
        PtxOptions { locations, ..self }
    }

    /// Sets [`line_info`](PtxOptions::line_info): whether a profiler can show each instruction's
    /// Rust line.
    pub const fn line_info(self, line_info: bool) -> PtxOptions {
        PtxOptions { line_info, ..self }
    }
}

/// Writes a kernel as a PTX module.
pub(crate) fn ptx_of(ir: &KernelIr) -> Ptx {
    write_module(ir.target, &[ir], PtxOptions::default())
}

impl<P> Kernel<P> {
    /// Writes the kernel as a PTX module, for example to read it or to assemble it with `ptxas`. To
    /// run the kernel you need not call it.
    pub fn ptx(&self) -> Ptx {
        ptx_of(self.ir())
    }

    /// Writes the kernel as a PTX module, with options that select comments and line information.
    pub fn ptx_with(&self, options: PtxOptions) -> Ptx {
        write_module(self.target(), &[self.ir()], options)
    }
}

/// Several kernels for one target, written as one PTX module. Use it if kernels should be loaded
/// together; a single kernel needs only [`Kernel::ptx`](crate::ir::Kernel::ptx).
///
/// ```
/// use tilewright::codegen::Module;
/// use tilewright::ir::{Kernel, GlobalMut, Target};
///
/// let fill = |name, value| {
///     Kernel::<(GlobalMut<i32>,)>::build(name, Target::SM_80, |k, (x,)| {
///         x.store(k.thread_idx().x, value)
///     })
/// };
/// let (ones, twos) = (fill("ones", 1)?, fill("twos", 2)?);
/// let mut module = Module::new(Target::SM_80);
/// module.add(&ones)?;
/// module.add(&twos)?;
/// assert_eq!(module.ptx().entries(), ["ones", "twos"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Module<'k> {
    target: Target,
    kernels: Vec<&'k KernelIr>,
}

impl<'k> Module<'k> {
    /// Makes a module without kernels for one target. [`add`](Module::add) accepts only kernels
    /// that were built for it.
    pub const fn new(target: Target) -> Module<'k> {
        Module { target, kernels: Vec::new() }
    }

    /// Adds a kernel. The module's text has the kernels in the order in which you add them.
    ///
    /// # Errors
    /// Returns [`CodegenError::OtherTarget`] if the kernel was built for another target,
    /// [`CodegenError::DuplicateName`] if the module already has a kernel with this name, and
    /// [`CodegenError::ConstantArrays`] if all kernels' constant arrays together do not fit into a
    /// module.
    pub fn add<P>(&mut self, kernel: &'k Kernel<P>) -> Result<(), CodegenError> {
        let name = || kernel.name().to_owned();
        if kernel.target() != self.target {
            let (kernel, module) = (kernel.target(), self.target);
            return Err(CodegenError::OtherTarget { name: name(), kernel, module });
        }
        if self.kernels.iter().any(|ir| ir.name == kernel.name()) {
            return Err(CodegenError::DuplicateName { name: name() });
        }
        let mut arrays = arrays::Arrays::default();
        for ir in self.kernels.iter().copied().chain([kernel.ir()]) {
            arrays.add(ir);
        }
        let (bytes, limit) = (arrays.bytes(), KernelIr::CONST_BYTES);
        if bytes > limit {
            return Err(CodegenError::ConstantArrays { name: name(), bytes, limit });
        }
        self.kernels.push(kernel.ir());
        Ok(())
    }

    /// Returns the module with other code for the same kernels, with the same names and constant
    /// arrays.
    pub(crate) fn with_code<'c>(&self, kernels: Vec<&'c KernelIr>) -> Module<'c> {
        Module { target: self.target, kernels }
    }

    /// Returns the target that was passed to [`new`](Module::new). Kernels that you add must be
    /// built for it.
    pub fn target(&self) -> Target {
        self.target
    }

    /// Returns the IR of the kernels in the order in which they were added, for example to list
    /// their names.
    pub fn kernels(&self) -> &[&'k KernelIr] {
        &self.kernels
    }

    /// Writes the module as PTX, to load or assemble its kernels together. The text has one entry
    /// for each kernel.
    pub fn ptx(&self) -> Ptx {
        self.ptx_with(PtxOptions::default())
    }

    /// Writes the module as PTX, with options that select comments and line information.
    pub fn ptx_with(&self, options: PtxOptions) -> Ptx {
        write_module(self.target, &self.kernels, options)
    }
}

/// Prints the kernels as IR text, which [`parse_kernels`](crate::ir::parse_kernels) reads back.
impl fmt::Display for Module<'_> {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, ir) in self.kernels.iter().enumerate() {
            write!(f, "{}{ir}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

/// Writes kernels that were verified for `target`.
fn write_module(target: Target, kernels: &[&KernelIr], options: PtxOptions) -> Ptx {
    let first = ptx::version_of(target);
    let version = kernels.iter().map(|ir| entry::version_of(ir)).fold(first, PtxVersion::max);
    let ops: usize = kernels.iter().map(|ir| ir.ops.len()).sum();
    let mut text = Text::with_capacity(1024 + 64 * ops);
    text.push(&format!(".version {version}\n.target {target}\n.address_size 64\n"));
    if let Some(align) = entry::dynamic_shared_align(kernels) {
        text.push(&format!("\n.extern .shared .align {align} .b8 $shared[];\n"));
    }
    if kernels.iter().any(|ir| entry::prints(ir)) {
        text.push(printf::VPRINTF);
    }
    let mut arrays = arrays::Arrays::default();
    let numbers: Vec<Vec<u64>> = kernels.iter().map(|ir| arrays.add(ir)).collect();
    if arrays.bytes() > 0 {
        text.push("\n");
        text.push(arrays.declarations());
    }
    let mut files = entry::Files::default();
    for (ir, arrays) in kernels.iter().zip(numbers) {
        entry::write(ir, options, arrays, &mut files, &mut text);
    }
    files.write(&mut text);
    let entries = kernels.iter().map(|ir| ir.name.clone()).collect();
    Ptx { text: text.finish(), entries, target, version }
}
