//! Finds the folders for files that stay between runs.

use std::path::{Path, PathBuf};

/// A folder for files that stay between runs.
#[derive(Clone, Debug)]
pub(crate) struct CacheFolder {
    pub(crate) path: PathBuf,
    /// The number of trailing folders of the path that belong to this crate: at least 1.
    #[cfg_attr(
        not(feature = "cuda-any-version"),
        allow(dead_code, reason = "the module cache checks it")
    )]
    pub(crate) own: usize,
}

impl CacheFolder {
    /// Returns a folder that the user names.
    pub(crate) fn named(path: PathBuf) -> CacheFolder {
        CacheFolder { path, own: 1 }
    }

    /// Returns the folder `name` below the folder `tilewright` of the user's cache folder. Where the environment
    /// variable `TILEWRIGHT_CACHE` names a folder, that folder for modules and a folder below it for anything else.
    /// `None` where the variable is `off`, and where the system names no folder for caches.
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
