//! Finds the folders in which files are kept between runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Returns the folder in which tilewright keeps files between runs, such as compiled modules and
/// tuning results. It is the folder in the environment variable `TILEWRIGHT_CACHE`, or else
/// `tilewright` in the user's cache folder. Use it to show or delete what is kept.
///
/// Returns `None` if the variable is `off`, or if the system has no cache folder.
///
/// ```
/// match tilewright::runtime::cache_folder() {
///     Some(folder) => assert_ne!(folder.as_os_str(), "off"),
///     None => println!("nothing is kept"),
/// }
/// ```
pub fn cache_folder() -> Option<PathBuf> {
    if let Some(named) = variable(CACHE) {
        return (named != "off").then(|| named.into());
    }
    let of_user = if cfg!(windows) {
        variable("LOCALAPPDATA").map(PathBuf::from)
    } else if let Some(folder) = variable("XDG_CACHE_HOME") {
        Some(folder.into())
    } else {
        let below = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
        variable("HOME").map(|home| Path::new(&home).join(below))
    };
    Some(of_user?.join("tilewright"))
}

/// The environment variable that names the folder.
const CACHE: &str = "TILEWRIGHT_CACHE";

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// A folder for compiled modules.
#[cfg(feature = "cuda-any-version")]
#[derive(Clone, Debug)]
pub(super) struct CacheFolder {
    pub(super) path: PathBuf,
    /// How many trailing components of the path belong to this crate, at least 1.
    pub(super) own: usize,
}

#[cfg(feature = "cuda-any-version")]
impl CacheFolder {
    /// Returns a folder that the user has named.
    pub(super) fn named(path: PathBuf) -> CacheFolder {
        CacheFolder { path, own: 1 }
    }

    /// Returns the folder that the environment variable names, or `modules` in the user's cache
    /// folder for this crate.
    pub(super) fn of_modules() -> Option<CacheFolder> {
        let folder = cache_folder()?;
        Some(match variable(CACHE) {
            Some(_) => CacheFolder::named(folder),
            None => CacheFolder { path: folder.join("modules"), own: 2 },
        })
    }
}
