//! Imports between the files of `src`: circles within a folder, and the order of the simulator's
//! wings.

use std::collections::{BTreeMap, BTreeSet};

/// A module as its path from the root of the crate: `sim`, `memory`, `shared`.
type Module = Vec<String>;

/// The files below `src`, each with the files that it imports. Tests within a file do not count.
struct Imports {
    of: BTreeMap<Module, BTreeSet<Module>>,
}

/// The paths of a `use` tree, such as `a::{b, c::d}`.
fn expand(tree: &str, prefix: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or(tree);
        paths.push(format!("{prefix}{}", path.trim()));
        return;
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (prefix, mut depth, mut start) = (format!("{prefix}{}", head.trim()), 0, 0);
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&inner[start..at], &prefix, paths);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !inner[start..].trim().is_empty() {
        expand(&inner[start..], &prefix, paths);
    }
}

/// The paths that the code of a file names: those of `use`, and others that start with `crate` or
/// `super`. A `pub use` names a part of the interface and imports nothing.
struct Paths {
    used: Vec<String>,
    exported: Vec<String>,
}

/// The paths of the code of a file, without its tests.
fn paths(text: &str) -> Paths {
    let text = super::code(text);
    let text = text.replace("#[cfg(test)]\npub(super) mod ", "#[cfg(test)]\nmod ");
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let text = text.replace("in crate::", "in ");
    let (mut used, mut exported) = (Vec::new(), Vec::new());
    let mut rest = String::new();
    let mut tree: Option<String> = None;
    let mut public = false;
    for line in text.lines() {
        let mut start = line.trim_start();
        if tree.is_none() {
            public = start.starts_with("pub") && start.contains("use ");
            if public {
                start = start.find("use ").map_or(start, |at| &start[at..]);
            }
        }
        if tree.is_none() && start.starts_with("use ") {
            tree = Some(String::new());
        }
        let Some(open) = &mut tree else {
            rest.push_str(line);
            rest.push('\n');
            continue;
        };
        open.push_str(start.trim_start_matches("use "));
        if let Some((whole, _)) = open.split_once(';') {
            expand(whole, "", if public { &mut exported } else { &mut used });
            tree = None;
        }
    }
    let named = rest.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let named = named.filter(|path| path.starts_with("crate::") || path.starts_with("super::"));
    used.extend(named.map(str::to_owned));
    Paths { used, exported }
}

impl Imports {
    fn new() -> Imports {
        let mut texts = BTreeMap::new();
        for (path, text) in super::files("src", "rs") {
            let path = super::short(&path);
            let path = path.trim_start_matches("src/").trim_end_matches(".rs");
            let path = path.strip_suffix("/mod").unwrap_or(path);
            let parts: Module = path.split('/').map(str::to_owned).collect();
            texts.insert(if path == "lib" { Module::new() } else { parts }, text);
        }
        let files: BTreeSet<Module> = texts.keys().cloned().collect();
        let texts: Vec<(&Module, Paths)> =
            texts.iter().map(|(module, text)| (module, paths(text))).collect();
        let mut exports = BTreeMap::new();
        for (module, paths) in &texts {
            for path in &paths.exported {
                let name = path.rsplit("::").next().unwrap_or(path).to_owned();
                if let Some((of, _)) = resolve(&files, module, path) {
                    exports.insert(((*module).clone(), name), of);
                }
            }
        }
        // The file that defines an item, wherever its name is taken from.
        let definition = |module: &Module, path: &String| {
            let (mut of, name) = resolve(&files, module, path)?;
            for _ in 0..8 {
                match exports.get(&(of.clone(), name.clone())) {
                    Some(next) => of.clone_from(next),
                    None => break,
                }
            }
            Some(of)
        };
        let of = texts.iter().map(|(module, paths)| {
            let found = paths.used.iter().filter_map(|path| definition(module, path));
            ((*module).clone(), found.filter(|other| other != *module).collect())
        });
        Imports { of: of.collect() }
    }

    /// The files of the folder that `from` reaches by imports between files of the folder.
    fn reach(&self, folder: &str, from: &Module) -> BTreeSet<&Module> {
        let (mut found, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            for next in self.of.get(module).into_iter().flatten() {
                if next.first().is_some_and(|first| first == folder) && found.insert(next) {
                    open.push(next);
                }
            }
        }
        found
    }

    /// The files of the largest circle of imports in the folder.
    fn circle(&self, folder: &str) -> Vec<String> {
        let inside = self.of.keys().filter(|file| file.first().is_some_and(|f| f == folder));
        let reach: BTreeMap<_, _> = inside.map(|file| (file, self.reach(folder, file))).collect();
        let circle = |file: &&Module| {
            let back = reach[*file].iter().filter(|other| reach[**other].contains(*file));
            back.map(|file| file[1..].join("/")).collect::<Vec<String>>()
        };
        let circles = reach.keys().map(circle);
        circles.max_by_key(Vec::len).unwrap_or_default()
    }
}

/// The file of the longest part of a path that is one, and the name behind that part.
fn resolve(files: &BTreeSet<Module>, module: &Module, path: &str) -> Option<(Module, String)> {
    let mut parts: Vec<&str> = path.split("::").collect();
    let mut base = Module::new();
    match parts[0] {
        "crate" => drop(parts.remove(0)),
        "self" => {
            base.clone_from(module);
            parts.remove(0);
        }
        "super" => {
            base.clone_from(module);
            while parts.first() == Some(&"super") {
                base.pop();
                parts.remove(0);
            }
        }
        first => {
            base.clone_from(module);
            base.push(first.to_owned());
            files.get(&base)?;
            parts.remove(0);
        }
    }
    base.extend(parts.into_iter().map(str::to_owned));
    let mut name = String::new();
    while !base.is_empty() && !files.contains(&base) {
        name = base.pop().unwrap_or_default();
    }
    (!base.is_empty()).then_some((base, name))
}

/// Upper bound on the files of a circle of imports.
const CIRCLE: usize = 6;

/// A reader enters a circle of imports as a whole.
#[test]
fn circles_of_imports_are_small() {
    let imports = Imports::new();
    let folders: BTreeSet<&String> = imports.of.keys().filter_map(|file| file.first()).collect();
    assert!(folders.len() > 5, "{folders:?}");
    for folder in folders {
        let circle = imports.circle(folder);
        let count = circle.len();
        println!("src/{folder}: {count} files");
        assert!(
            count <= CIRCLE,
            "{count} files of src/{folder} import each other, at most {CIRCLE} may: {circle:?}"
        );
    }
}

/// The wings of the simulator, from the lowest one.
const WINGS: [&str; 8] =
    ["race", "fault", "trace", "memory", "program", "engine", "exec", "report"];

#[test]
fn wings_of_the_simulator_import_earlier_wings_only() {
    let imports = Imports::new();
    let wing = |file: &Module| match &file[..] {
        [sim, wing, ..] if sim == "sim" => WINGS.iter().position(|name| name == wing),
        _ => None,
    };
    let mut edges = 0;
    for (file, others) in &imports.of {
        for other in others {
            let (Some(from), Some(to)) = (wing(file), wing(other)) else { continue };
            edges += usize::from(from != to);
            assert!(from >= to, "{} imports {}", file.join("/"), other.join("/"));
        }
    }
    assert!(edges > 100, "only {edges} imports between wings are found");
}

#[test]
fn trees_of_use_are_expanded() {
    let text = "use a::{self, b, c::{d as e, f}};\npub(super) use super::{g, k};\nfn h() { crate::i::j() }\n";
    let found = paths(text);
    assert_eq!(found.used, ["a::self", "a::b", "a::c::d", "a::c::f", "crate::i::j"]);
    assert_eq!(found.exported, ["super::g", "super::k"]);
}
