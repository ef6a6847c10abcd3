//! Finds folders that may contain NVIDIA's libraries, besides the system's: CUDA toolkits and
//! Python wheels. cuBLAS and NCCL are searched there, because the system's search often misses
//! them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Returns the folders that exist, in search order: the toolkit that `CUDA_HOME` or `CUDA_PATH`
/// names, `/usr/local/cuda`, then the wheels of `package` (such as `cublas` or `nccl`). Wheels are
/// searched in the active Python environment (`VIRTUAL_ENV`, `CONDA_PREFIX`), in the environment of
/// the first `python3` in `PATH`, and in the user's packages. CUDA 13 wheels put all libraries into
/// `nvidia/cu13/lib`, older ones use `nvidia/PACKAGE/lib`.
pub(super) fn library_folders(
    package: &str,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Vec<PathBuf> {
    let folder = |name: &str| variable(name).map(PathBuf::from);
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(folder);
    let toolkits = toolkits.chain((!cfg!(windows)).then(|| PathBuf::from("/usr/local/cuda")));
    let in_toolkit: &[&str] = if cfg!(windows) { &["bin/x64", "bin"] } else { &["lib64", "lib"] };
    let mut found: Vec<PathBuf> =
        toolkits.flat_map(|toolkit| in_toolkit.iter().map(move |lib| toolkit.join(lib))).collect();

    let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(folder);
    let user = folder("HOME").map(|home| home.join(".local"));
    let environments = active.chain(python_environment(variable("PATH"))).chain(user);
    let in_wheel = match cfg!(windows) {
        true => ["nvidia/cu13/bin/x86_64".to_owned(), format!("nvidia/{package}/bin")],
        false => ["nvidia/cu13/lib".to_owned(), format!("nvidia/{package}/lib")],
    };
    for packages in environments.flat_map(|environment| packages_of(&environment)) {
        found.extend(in_wheel.iter().map(|lib| packages.join(lib)));
    }
    // A relative folder would depend on the working directory.
    found.retain(|folder| folder.is_absolute() && folder.is_dir());
    let mut known = Vec::new();
    for folder in found {
        if !known.contains(&folder) {
            known.push(folder);
        }
    }
    known
}

/// Returns the environment of the first `python3` in a search path. For example, `/usr/bin/python3`
/// belongs to `/usr`.
fn python_environment(path: Option<OsString>) -> Option<PathBuf> {
    let program = if cfg!(windows) { "python.exe" } else { "python3" };
    let folder = std::env::split_paths(&path?).find(|folder| folder.join(program).is_file())?;
    let prefix = if cfg!(windows) { Some(&*folder) } else { folder.parent() };
    prefix.map(Path::to_path_buf)
}

/// Returns a Python environment's package folders, starting with the newest Python.
fn packages_of(environment: &Path) -> Vec<PathBuf> {
    let mut pythons: Vec<((u32, u32), PathBuf)> = Vec::new();
    for lib in ["lib", "lib64", "local/lib"] {
        let entries = std::fs::read_dir(environment.join(lib)).into_iter().flatten().flatten();
        pythons.extend(entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            // `python3.12`, or `python3` on Debian.
            let version = name.strip_prefix("python")?;
            let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
            Some(((major.parse().ok()?, minor.parse().ok()?), entry.path()))
        }));
    }
    pythons.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    let of_python =
        |(_, lib): &(_, PathBuf)| ["site-packages", "dist-packages"].map(|p| lib.join(p));
    let mut found: Vec<PathBuf> = pythons.iter().flat_map(of_python).collect();
    if cfg!(windows) {
        found.push(environment.join("Lib").join("site-packages"));
    }
    found
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// A folder that is removed at the end of a test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path =
                std::env::temp_dir().join(format!("tilewright-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn with(&self, path: &str) -> PathBuf {
            let path = self.0.join(path);
            std::fs::create_dir_all(&path).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Returns only folders within `root`, because `/usr/local/cuda` may exist, too.
    fn found(root: &Folder, package: &str, variables: &[(&str, OsString)]) -> Vec<PathBuf> {
        let variable =
            |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.clone());
        let all = library_folders(package, variable);
        all.into_iter().filter(|folder| folder.starts_with(&root.0)).collect()
    }

    #[test]
    fn toolkits_come_before_wheels_and_newer_wheels_before_older_ones() {
        let root = Folder::new("library-order");
        let toolkit = root.with("cuda/lib64");
        let packages = "venv/lib/python3.12/site-packages/nvidia";
        let cu13 = root.with(&format!("{packages}/cu13/lib"));
        let cublas = root.with(&format!("{packages}/cublas/lib"));
        let nccl = root.with(&format!("{packages}/nccl/lib"));
        let variables = [
            ("CUDA_HOME", root.0.join("cuda").into()),
            ("VIRTUAL_ENV", root.0.join("venv").into()),
        ];
        assert_eq!(found(&root, "cublas", &variables), [&*toolkit, &*cu13, &*cublas]);
        assert_eq!(found(&root, "nccl", &variables), [&*toolkit, &*cu13, &*nccl]);
    }

    /// Python 3.9 is older than 3.12, although its name does not sort first.
    #[test]
    fn the_newest_python_of_an_environment_comes_first() {
        let root = Folder::new("library-pythons");
        let [new, old, user] = [
            "env/lib/python3.12/site-packages",
            "env/lib/python3.9/dist-packages",
            ".local/lib/python3.10/site-packages",
        ]
        .map(|packages| root.with(&format!("{packages}/nvidia/cublas/lib")));
        // The environment belongs to the `python3` that is found by name.
        std::fs::write(root.with("env/bin").join("python3"), "").unwrap();
        let path = std::env::join_paths([root.0.join("nowhere"), root.0.join("env/bin")]).unwrap();
        let variables = [("PATH", path), ("HOME", root.0.clone().into())];
        assert_eq!(found(&root, "cublas", &variables), [new, old, user]);
    }

    #[test]
    fn relative_folders_and_those_that_do_not_exist_are_left_out() {
        let root = Folder::new("library-relative");
        let variables = [
            ("CUDA_HOME", OsString::from(".")),
            ("CUDA_PATH", root.0.join("none").into()),
            ("VIRTUAL_ENV", OsString::from("venv")),
        ];
        assert_eq!(found(&root, "cublas", &variables), Vec::<PathBuf>::new());
        let all = library_folders("cublas", |name| (name == "CUDA_HOME").then(|| ".".into()));
        assert!(all.iter().all(|folder| folder.is_absolute()), "{all:?}");
    }
}
