//! Finds the folders in which files are kept between runs. The module cache and the tuning store
//! start here.

use std::path::{Path, PathBuf};

/// A folder for files that are kept between runs.
#[derive(Clone, Debug)]
pub(crate) struct CacheFolder {
    pub(crate) path: PathBuf,
    /// How many trailing components of the path belong to this crate, at least 1.
    #[cfg_attr(
        not(feature = "cuda-any-version"),
        allow(dead_code, reason = "the module cache checks it")
    )]
    pub(crate) own: usize,
}

impl CacheFolder {
    /// Returns a folder that the user has named.
    pub(crate) fn named(path: PathBuf) -> CacheFolder {
        CacheFolder { path, own: 1 }
    }

    /// Returns the folder `tilewright/name` in the user's cache folder. If the environment variable
    /// `TILEWRIGHT_CACHE` names a folder, returns that folder for modules, and a folder below it
    /// for anything else. Returns `None` if the variable is `off`, or if the system has no cache
    /// folder.
    pub(crate) fn of_user(name: &str) -> Option<CacheFolder> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(named) = variable("TILEWRIGHT_CACHE") {
            let folder = CacheFolder::named(PathBuf::from(&named));
            return (named != "off").then(|| match name {
                "modules" => folder,
                _ => CacheFolder { path: folder.path.join(name), own: 2 },
            });
        }
        let of_user = if cfg!(windows) {
            variable("LOCALAPPDATA").map(PathBuf::from)
        } else if let Some(folder) = variable("XDG_CACHE_HOME") {
            Some(folder.into())
        } else {
            let below = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
            variable("HOME").map(|home| Path::new(&home).join(below))
        };
        Some(CacheFolder { path: of_user?.join("tilewright").join(name), own: 2 })
    }
}
