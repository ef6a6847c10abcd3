//! Loads NVIDIA's libraries at run time and looks up their functions, so that the crate needs none
//! of them to build or to start.

use std::ffi::{OsStr, c_void};
#[cfg(feature = "cublas")]
use std::path::PathBuf;

use libloading::Library;

/// Loads the first library in the list that exists, by name or path. It is never closed.
pub(super) fn open<N: AsRef<OsStr>>(names: &[N]) -> Option<&'static Library> {
    let found = names.iter().find_map(load)?;
    Some(Box::leak(Box::new(found)))
}

/// Loads the first row whose libraries can all be loaded, in the order of the row. They are never
/// closed.
#[cfg(feature = "cublas")]
pub(super) fn open_together<const N: usize>(
    rows: &[[PathBuf; N]],
) -> Option<[&'static Library; N]> {
    rows.iter().find_map(|row| {
        let loaded: Vec<Library> = row.iter().map_while(load).collect();
        let loaded: [Library; N] = loaded.try_into().ok()?;
        Some(loaded.map(|library| &*Box::leak(Box::new(library))))
    })
}

fn load(name: &impl AsRef<OsStr>) -> Option<Library> {
    // SAFETY: the names belong to NVIDIA's libraries, whose initialisers may run.
    unsafe { Library::new(name.as_ref()) }.ok()
}

/// Returns the library's function `name`.
///
/// # Safety
/// `F` is the function's type.
pub(super) unsafe fn symbol<F: Copy>(library: &'static Library, name: &str) -> Option<F> {
    // SAFETY: the caller guarantees `F`, and a function pointer has the size of an address.
    address(library, name).map(|address| unsafe { std::mem::transmute_copy(&address) })
}

fn address(library: &'static Library, name: &str) -> Option<*mut c_void> {
    // SAFETY: any symbol has an address, and the library is never closed.
    unsafe { library.get::<*mut c_void>(name.as_bytes()) }.ok().map(|symbol| *symbol)
}

/// Declares a struct of library functions, with a `find` method that fails with the name of the
/// first function that the library lacks.
///
/// A row lists a function's parameters. With `= path`, rustc compares them with those in the
/// bindings. The functions return integers, because a newer library has more status codes than the
/// enum in the bindings.
macro_rules! library_functions {
    (
        $vis:vis struct $api:ident { $($field:ident: $field_type:ty)? } returns $status:ty;
        $($(#[$cfg:meta])? fn $name:ident $params:tt $(= $twin:path)?;)*
    ) => {
        #[expect(non_snake_case, reason = "the functions keep the names that NVIDIA gives them")]
        $vis struct $api {
            $($vis $field: $field_type,)?
            $($(#[$cfg])? $vis $name: unsafe extern "C" fn $params -> u32,)*
        }

        impl $api {
            #[inline]
            fn find(
                library: &'static libloading::Library,
                $($field: $field_type)?
            ) -> Result<$api, &'static str> {
                Ok($api {
                    $($field,)?
                    $(
                        $(#[$cfg])?
                        // SAFETY: the row gives the function's type.
                        $name: unsafe { $crate::runtime::cuda::library::symbol(library, stringify!($name)) }
                            .ok_or(stringify!($name))?,
                    )*
                })
            }
        }

        $($($crate::runtime::cuda::library::check_parameters!($params, $status, $twin);)?)*
    };
}

/// Fails to compile if the function in the bindings takes other parameters. The check works whether
/// `cudarc` loads or links the library.
macro_rules! check_parameters {
    (($($param:ident: $kind:ty),* $(,)?), $status:ty, $twin:path) => {
        const _: unsafe fn($($kind),*) -> $status = {
            #[allow(clippy::too_many_arguments, reason = "the library's function has as many")]
            unsafe fn call($($param: $kind),*) -> $status {
                // SAFETY: nothing calls this function.
                unsafe { $twin($($param),*) }
            }
            call
        };
    };
}

pub(super) use {check_parameters, library_functions};
