//! Checks that public items of the layout layer have asserted examples, and fallible functions
//! document their errors.

use std::path::Path;

/// The macros that make a public function of each documented line.
const MACROS: [&str; 3] = ["on_outer! {", "by_tiler! {", "binary!("];

/// The text of the sources below `folder`, with their names.
fn sources(folder: &Path, out: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, out);
        } else {
            let text = std::fs::read_to_string(&path).expect("a source file");
            out.push((path.display().to_string(), text));
        }
    }
}

/// The item that a line begins, if it is a public one.
fn item(line: &str, in_trait: bool) -> bool {
    let line = line.trim_start();
    let public = line.strip_prefix("pub ");
    let words = public.or(in_trait.then_some(line)).unwrap_or_default();
    let words = words.strip_prefix("const ").filter(|w| w.starts_with("fn")).unwrap_or(words);
    let kinds = ["fn ", "struct ", "enum ", "trait ", "type ", "const "];
    kinds.iter().any(|kind| words.starts_with(kind)) && !words.contains('$')
}

/// Returns the faults of the documentation of an item.
fn faults(doc: &[&str], signature: &str) -> Vec<&'static str> {
    let text = doc.join("\n");
    let mut faults = Vec::new();
    let mut code = text.split("```").skip(1).step_by(2);
    if !code.any(|code| code.contains("assert")) {
        faults.push("no asserted example");
    }
    let returned = signature.rsplit("->").next().unwrap_or_default();
    let fails = signature.contains("fn ") && returned.trim_start().starts_with("Result<");
    if fails && !text.contains("# Errors") {
        faults.push("no section `# Errors`");
    }
    faults
}

#[test]
fn every_public_item_has_an_asserted_example_and_its_errors() {
    let mut all = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/layout"), &mut all);
    let (mut items, mut wrong) = (0, Vec::new());
    for (name, text) in &all {
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let (mut in_trait, mut in_macro) = (false, false);
        let mut doc: Vec<&str> = Vec::new();
        let (mut hidden, mut in_attribute) = (false, false);
        for (i, line) in lines.iter().enumerate() {
            let start = line.trim_start();
            if let Some(said) = start.strip_prefix("///") {
                doc.push(said);
                continue;
            }
            if start.starts_with("#[doc(hidden)]") {
                hidden = true;
            }
            // An attribute, also one of several lines.
            let attribute = in_attribute || start.starts_with("#[");
            if attribute {
                in_attribute = !start.ends_with(']');
                continue;
            }
            if MACROS.iter().any(|open| start.starts_with(open)) {
                in_macro = true;
                doc.clear();
                continue;
            }
            in_macro &= !matches!(start, "}" | ");");
            in_trait &= *line != "}";
            // The heads of the functions of a macro's block; the first line behind a comment.
            let of_macro = in_macro && !doc.is_empty();
            if !hidden && (item(line, in_trait && line.starts_with("    fn ")) || of_macro) {
                let signature: Vec<&str> = lines[i..]
                    .iter()
                    .copied()
                    .scan(false, |done, line| {
                        let last = std::mem::replace(done, line.ends_with(['{', ';', '}']));
                        (!last).then_some(line)
                    })
                    .collect();
                items += 1;
                for fault in faults(&doc, &signature.join(" ")) {
                    wrong.push(format!("{name}:{}: {fault}: {start}", i + 1));
                }
            }
            in_trait |= line.starts_with("pub trait ") && !line.ends_with('}');
            doc.clear();
            hidden = false;
        }
    }
    assert!(items > 400, "{items} items");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
