//! Where things are kept between runs.

use std::path::{Path, PathBuf};

/// The folder for what `name` says: of that name where the user's caches are, or, where the environment variable
/// `TILEWRIGHT_CACHE` names a folder, that one for modules and one below it for anything else. `None` where the variable
/// is `off`, and where the system names no folder for caches.
pub(crate) fn cache_folder(name: &str) -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(named) = variable("TILEWRIGHT_CACHE") {
        let folder = PathBuf::from(&named);
        return (named != "off")
            .then(|| if name == "modules" { folder } else { folder.join(name) });
    }
    let of_user = if cfg!(windows) {
        variable("LOCALAPPDATA").map(PathBuf::from)
    } else if let Some(folder) = variable("XDG_CACHE_HOME") {
        Some(folder.into())
    } else {
        let below = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
        variable("HOME").map(|home| Path::new(&home).join(below))
    };
    Some(of_user?.join("tilewright").join(name))
}
