//! Rules about the sources themselves, checked on their text.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tilewright::ir::op::Op;
use tilewright::ir::types::{Scalar, Space};
use tilewright::ir::{Kernel, parse_kernels};

#[path = "hygiene/aliases.rs"]
mod aliases;
#[path = "hygiene/charts.rs"]
mod charts;
#[path = "hygiene/figures.rs"]
mod figures;
#[path = "hygiene/imports.rs"]
mod imports;
#[path = "hygiene/links.rs"]
mod links;

#[path = "hygiene/cute.rs"]
mod cute;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The path from the root of the crate.
fn short(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// All files below `folder` with the extension, with their texts.
fn files(folder: &str, extension: &str) -> Vec<(PathBuf, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder can be listed") {
            let path = entry.expect("the folder can be listed").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                let text = fs::read_to_string(&path).expect("the file is text");
                found.push((path, text));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "{folder} has no .{extension} files");
    found
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The text with the insides of comments, strings and characters blanked, so that what remains is
/// code.
fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let (mut out, mut i) = (String::new(), 0);
    while i < chars.len() {
        let start = i;
        match at(i) {
            '/' if at(i + 1) == '/' => {
                while i < chars.len() && at(i) != '\n' {
                    i += 1;
                }
            }
            'r' if matches!(at(i + 1), '"' | '#') && !is_word(out.chars().last()) => {
                let hashes = chars[i + 1..].iter().take_while(|c| **c == '#').count();
                if at(i + 1 + hashes) == '"' {
                    let end: String = format!("\"{}", "#".repeat(hashes));
                    i += hashes + 2;
                    while i < chars.len()
                        && !chars[i..].iter().collect::<String>().starts_with(&end)
                    {
                        i += 1;
                    }
                    i += hashes;
                }
                i += 1;
            }
            '"' => {
                i += 1;
                while i < chars.len() && at(i) != '"' {
                    i += if at(i) == '\\' { 2 } else { 1 };
                }
                i += 1;
            }
            // A character, not a lifetime.
            '\'' if at(i + 1) == '\\' || at(i + 2) == '\'' => {
                i += if at(i + 1) == '\\' { 3 } else { 2 };
                while i < chars.len() && at(i) != '\'' {
                    i += 1;
                }
                i += 1;
            }
            c => {
                out.push(c);
                i += 1;
                continue;
            }
        }
        let blanked = &chars[start..i.min(chars.len())];
        out.extend(blanked.iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
    }
    out
}

fn is_word(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// Returns the offsets at which `word` stands in the text as a word of its own.
fn words<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = usize> + 't {
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        !is_word(text[..*at].chars().last()) && !is_word(text[at + word.len()..].chars().next())
    })
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[test]
fn unsafe_code_is_in_the_cuda_runtime_and_its_exchange_only() {
    for (path, text) in
        [files("src", "rs"), files("tune/src", "rs"), files("cli/src", "rs")].concat()
    {
        let (path, code) = (short(&path), code(&text));
        if !path.starts_with("src/runtime/cuda/") && !path.starts_with("src/runtime/exchange/") {
            // A declaration is not unsafe code: what the caller promises is about the GPU.
            let declared = ["int_to_ptr", "load_unchecked", "unchecked"];
            let code = declared.iter().fold(code, |code, name| {
                let (from, to) = (format!("pub unsafe fn {name}"), format!("pub        fn {name}"));
                code.replace(&from, &to)
            });
            let found = words(&code, "unsafe").next().map(|at| line_of(&code, at));
            assert_eq!(found, None, "{path} has `unsafe` in this line");
        }
    }
}

/// The names of the public types and traits that stand at the margin of a file, each with the file.
fn public_types(files: &[(String, String)]) -> Vec<(String, String)> {
    let named = files.iter().flat_map(|(path, text)| {
        let lines = text.lines().filter_map(|line| line.strip_prefix("pub "));
        let names = lines.filter_map(|line| {
            let mut words = line.split(|c| !is_word(Some(c))).filter(|word| *word != "unsafe");
            let is_type =
                matches!(words.next(), Some("struct" | "enum" | "trait" | "type" | "union"));
            words.next().filter(|_| is_type)
        });
        names.map(|name| (name.to_owned(), path.clone()))
    });
    let mut named: Vec<_> = named.collect();
    named.sort();
    named
}

/// One name stands for one thing, whatever the module.
#[test]
fn no_two_public_types_share_a_name() {
    let all: Vec<_> = [files("src", "rs"), files("tune/src", "rs")]
        .concat()
        .iter()
        .map(|(path, text)| (short(path), code(text)))
        .collect();
    let found = public_types(&all);
    assert!(found.len() > 300, "only {} types are found", found.len());
    for pair in found.windows(2) {
        let [(name, first), (other, second)] = pair else { continue };
        // The seals of sealed traits are in private modules.
        assert!(
            name != other || name == "Sealed",
            "{first} and {second} both have a public `{name}`"
        );
    }
    let twice = ["pub struct A;\npub(crate) struct B;", "pub unsafe trait A<T> {}\nstruct B;"];
    let found = public_types(&twice.map(|text| ("x".to_owned(), text.to_owned())));
    assert_eq!(found.iter().filter(|(name, _)| name == "A").count(), 2);
    assert!(!found.iter().any(|(name, _)| name == "B"));
}

/// Returns the lines with an import of the typed front of the runtime.
fn imports_of_the_front(text: &str) -> Vec<usize> {
    const FRONT: &str = "argument buffer cublas device exchange function graph launch_options module pinned stream \
                         tensor_map Buffer Cublas Device Event Function Graph GraphBuilder LaunchOptions LoadedModule \
                         Pinned Stream TensorMapArg TensorMapArgMut";
    let code = code(text);
    let is_of_front = |word: &str| FRONT.split_whitespace().any(|name| name == word);
    let imports = code.match_indices("use crate::runtime::").filter(|(at, _)| {
        let import = code[*at..].split(';').next().unwrap_or_default();
        import.split(|c| !is_word(Some(c))).any(is_of_front)
    });
    imports.map(|(at, _)| line_of(&code, at)).collect()
}

/// The front calls the backends. They do not know it, so each can be left out.
#[test]
fn backends_do_not_import_the_front_of_the_runtime() {
    let mut backends = files("src/runtime/cuda", "rs");
    let simulator = read("src/runtime/simulator.rs").replace("use super::", "use crate::runtime::");
    backends.push((root().join("src/runtime/simulator.rs"), simulator));
    for (path, text) in &backends {
        let lines = imports_of_the_front(text);
        assert!(
            lines.is_empty(),
            "{} imports the front of the runtime in lines {lines:?}",
            short(path)
        );
    }
    let text = "use crate::runtime::error::RuntimeError;\nuse crate::runtime::{\n    Buffer, RuntimeError,\n};\n\
                use crate::runtime::stream::StreamBackend;\nuse crate::runtime::{Grid, Limits};\nuse super::stream::Stream;\n";
    assert_eq!(imports_of_the_front(text), [2, 5]);
}

/// The families of operations, as the table groups them, and the enums that hold all of them.
fn families() -> Vec<String> {
    let tables = files("src/ir/op/table", "rs");
    let table: String = tables.into_iter().map(|(_, text)| text).collect();
    let mut families = vec!["Op".to_owned(), "Control".to_owned()];
    for line in table.lines() {
        if let Some(name) = line.trim().strip_suffix(" {")
            && name.chars().all(char::is_alphanumeric)
        {
            families.push(name.to_owned());
        }
    }
    assert!(families.len() > 4, "the table does not read as expected: {families:?}");
    families
}

/// The arms of the `match` whose body is `body`: pattern with guard, and where it starts.
fn arms(body: &str) -> Vec<(usize, &str)> {
    let (mut arms, mut depth, mut start) = (Vec::new(), 0, 0);
    let bytes = body.as_bytes();
    let mut in_pattern = true;
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth -= 1;
                // A block ends its arm without a comma.
                let ends = depth == 0 && bytes[i] == b'}' && !in_pattern;
                let rest = body[i + 1..].trim_start();
                let goes_on = ["?", ".", ",", "=>"].iter().any(|next| rest.starts_with(next));
                if ends && !goes_on {
                    (start, in_pattern) = (i + 1, true);
                }
            }
            b'=' if depth == 0 && in_pattern && bytes.get(i + 1) == Some(&b'>') => {
                let pattern = &body[start..i];
                arms.push((i - pattern.trim_start().len(), pattern.trim()));
                in_pattern = false;
            }
            b',' if depth == 0 && !in_pattern => (start, in_pattern) = (i + 1, true),
            _ => {}
        }
        i += 1;
    }
    arms
}

/// Returns true if the pattern takes everything: `_` or a name, with or without a guard.
fn takes_everything(pattern: &str) -> bool {
    let name = pattern.split(" if ").next().unwrap_or_default().trim();
    name.starts_with(|c: char| c.is_lowercase() || c == '_')
        && name.chars().all(|c| is_word(Some(c)))
}

/// The bodies of all matches of the code, and where they start.
fn matches(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for at in words(code, "match") {
        let Some(open) = code[at..].find('{').map(|open| at + open) else { continue };
        let mut depth = 0;
        let close = code[open..].char_indices().find(|(_, c)| {
            depth += i32::from(*c == '{') - i32::from(*c == '}');
            depth == 0
        });
        let Some((length, _)) = close else { continue };
        found.push((open + 1, &code[open + 1..open + length]));
    }
    found
}

/// The lines of arms that take everything in matches over families of operations.
fn wildcards(text: &str, families: &[String]) -> Vec<usize> {
    let code = code(text);
    let mut found = Vec::new();
    for (start_of_body, body) in matches(&code) {
        let arms = arms(body);
        let is_family = |pattern: &str| {
            let pattern = pattern.split(" if ").next().unwrap_or_default();
            families.iter().any(|family| {
                words(pattern, family).any(|at| pattern[at + family.len()..].starts_with("::"))
            })
        };
        if arms.iter().any(|(_, pattern)| is_family(pattern)) {
            let wild = arms.iter().filter(|(_, pattern)| takes_everything(pattern));
            found.extend(wild.map(|(start, _)| line_of(&code, start_of_body + start)));
        }
    }
    found.dedup();
    found
}

/// A new operation must be a compile error wherever operations are told apart.
#[test]
fn matches_over_operations_have_no_wildcard() {
    let families = families();
    let mut found = Vec::new();
    for (path, text) in files("src", "rs") {
        // What is derived from the table is complete by construction.
        let path = short(&path);
        if path != "src/ir/op/mod.rs" {
            let lines = wildcards(&text, &families);
            found.extend(lines.into_iter().map(|line| format!("{path}:{line}")));
        }
    }
    assert!(found.is_empty(), "arms that take every operation: {found:?}");
}

#[test]
fn the_check_for_wildcards_finds_them() {
    let families = families();
    let check =
        |text: &str, lines: &[usize]| assert_eq!(wildcards(text, &families), lines, "{text}");
    check("match op {\n  Op::Const(_) => 1,\n  _ => 2,\n}", &[3]);
    check("match op {\n  Arith::Add { .. } => { 1 }\n  _ if x => { 2 }\n}", &[3]);
    check("match op {\n  Mem::Ld { .. } | Mem::St { .. } => f(|_| 1)?,\n  other => 2,\n}", &[3]);
    check("match (a, b) {\n  (Op::Const(_), _) => 1,\n  (_, _) => 3, _ => 2,\n}", &[3]);
    check("match f(match op { Op::Const(_) => 1, _ => 2 }) { 1 => 3,\n _ => 4 }", &[1]);
    check("match x {\n  1 => Op::Const(c),\n  _ => Op::Const(d),\n}", &[]);
    check("// match op { Op::Const(_) => 1, _ => 2 }", &[]);
    check(
        "match op {\n  Op::Const(_) => match x { 1 => 1, _ => 2 },\n  Op::Arith(_) => 3,\n}",
        &[],
    );
    check("let s = \"{\"; match x { 'a' => 1, '{' => 2, _ => 3 }", &[]);
}

/// The lines of match arms with an `if let` guard.
fn let_guards(text: &str) -> Vec<usize> {
    let code = code(text);
    let mut found = Vec::new();
    for (start_of_body, body) in matches(&code) {
        for (start, pattern) in arms(body) {
            let guard = words(pattern, "if").next().map(|at| &pattern[at..]);
            if guard.is_some_and(|guard| words(guard, "let").next().is_some()) {
                found.push(line_of(&code, start_of_body + start));
            }
        }
    }
    found
}

/// Rust 1.89, which `Cargo.toml` names as the oldest, does not compile `if let` in the guard of a
/// match arm.
#[test]
fn guards_compile_with_the_oldest_rust() {
    let mut found = Vec::new();
    for (path, text) in
        [files("src", "rs"), files("tune/src", "rs"), files("cli/src", "rs")].concat()
    {
        found.extend(let_guards(&text).into_iter().map(|line| format!("{}:{line}", short(&path))));
    }
    assert!(found.is_empty(), "`if let` guards: {found:?}");
    assert_eq!(let_guards("match x {\n  A(a) if a > 1 && let B(b) = a => b,\n  _ => 2,\n}"), [2]);
    assert!(
        let_guards("match x {\n  A(a) => if let B(b) = a { b } else { 1 },\n  _ => 2,\n}")
            .is_empty()
    );
}

/// The names of the operations of the kernels that are simulated or written as PTX in the
/// filetests.
fn operations_with_a_filetest() -> BTreeSet<&'static str> {
    let mut names = BTreeSet::new();
    for (path, text) in files("tests/filetests", "kir") {
        let path = short(&path);
        if !path.starts_with("tests/filetests/sim/") && !path.starts_with("tests/filetests/ptx/") {
            continue;
        }
        let kernels =
            parse_kernels("test.kir", &text).unwrap_or_else(|error| panic!("{path}: {error}"));
        for ir in kernels {
            if let Ok(kernel) = Kernel::verify(ir) {
                names.extend(kernel.ir().ops.iter().map(|(_, data)| data.op.name()));
            }
        }
    }
    names
}

#[test]
fn every_operation_has_a_filetest() {
    let found = operations_with_a_filetest();
    let control = [
        "const", "if", "for", "loop", "yield", "continue", "break", "return", "assert", "printf",
        "ptx",
    ];
    let all = Op::table().map(|info| info.name).chain(control);
    let missing: Vec<&str> = all.filter(|name| !found.contains(name)).collect();
    assert!(missing.is_empty(), "in no kernel of tests/filetests/sim or ptx: {missing:?}");
}

/// The grammar of the text form names every scalar type and every state space.
#[test]
fn the_grammar_names_every_type() {
    let document = read("docs/text-form.md");
    let names = Scalar::ALL.map(Scalar::name).into_iter().chain(Space::ALL.map(Space::name));
    let missing: Vec<&str> =
        names.filter(|name| !document.contains(&format!("\"{name}\""))).collect();
    assert!(missing.is_empty(), "not in the grammar: {missing:?}");
}

/// The lines of the code with a cast to an integer type. A cast to a float converts data, not a
/// count.
fn integer_casts(text: &str) -> Vec<usize> {
    const TYPES: [&str; 10] =
        ["i8", "i16", "i32", "i64", "isize", "u8", "u16", "u32", "u64", "usize"];
    let code = code(text);
    let to_integer = |at: &usize| {
        let ty = code[at + 2..].trim_start();
        TYPES.iter().any(|name| words(ty, name).next() == Some(0))
    };
    words(&code, "as").filter(to_integer).map(|at| line_of(&code, at)).collect()
}

/// A count of the host is a `u32`, which every call takes: the examples and the kernel for Hopper
/// convert none.
#[test]
fn counts_need_no_casts() {
    const KERNELS: [&str; 2] = ["src/kernels/gemm/sm90/kernel.rs", "tests/tensor/counts.rs"];
    let examples = [files("examples", "rs"), files("tune/examples", "rs")].concat();
    let examples = examples.into_iter().map(|(path, text)| (short(&path), text));
    let kernels = KERNELS.map(|path| (path.to_owned(), read(path)));
    for (path, text) in examples.chain(kernels) {
        let found = integer_casts(&text);
        assert!(found.is_empty(), "{path} casts to integers in the lines {found:?}");
    }
    assert_eq!(
        integer_casts("x as f32;\nn as i32; // y as u32\nuse a as b;\n(m\n as usize)"),
        [2, 5]
    );
}

/// The code of the worked example is that of the sources, without regard to indentation.
#[test]
fn the_worked_example_is_what_the_sources_have() {
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let document = read("docs/adding-an-op.md");
    let blocks: Vec<&str> = document.split("```").skip(1).step_by(2).collect();
    assert!(blocks.len() > 4, "the document does not read as expected");
    for block in blocks {
        // The language, the path, the code.
        let mut lines = block.splitn(3, '\n').skip(1);
        let path = lines.next().and_then(|line| line.strip_prefix("// ")).expect("it has a path");
        let code = squeeze(lines.next().expect("it has code"));
        assert!(squeeze(&read(path)).contains(&code), "{path} does not have:\n{code}");
    }
}

/// The operation for candle in the book is that of the example, which `.ci/run` tests.
#[test]
fn the_operation_for_candle_is_that_of_the_example() {
    let chapter = read("book/src/17-cudarc-candle.md");
    let listing =
        chapter.split("```rust,ignore\n").nth(1).and_then(|rest| rest.split("```").next());
    let listing = listing.expect("the chapter has the listing");
    let example = "candle/examples/custom_op.rs";
    assert!(read(example).contains(listing), "not in {example}:\n{listing}");
}

/// Returns the variants of an enum, by its text: names that stand four columns right of its
/// `pub enum`.
fn variants(path: &str, name: &str) -> Vec<String> {
    let text = code(&read(path));
    let start = text.find(&format!("pub enum {name} {{")).expect("the enum is in the file");
    let indent = &text[text[..start].rfind('\n').map_or(0, |end| end + 1)..start];
    let body = &text[start..];
    let body = &body[..body.find(&format!("\n{indent}}}")).expect("the enum ends")];
    let inner = format!("{indent}    ");
    let lines = body.lines().filter_map(|line| line.strip_prefix(inner.as_str()));
    let names = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
    let variants: Vec<String> =
        names.map(|line| line.chars().take_while(|c| c.is_alphanumeric()).collect()).collect();
    assert!(variants.len() > 1, "{path} does not read as expected: {variants:?}");
    variants
}

/// Checks that each variant of the enum is marked in a filetest of the folder, as an `error` or a
/// `fault`. The tests in Rust name the variants that no text can cause.
fn check_marks(enum_path: &str, name: &str, mark: &str, folder: &str, tests: &str) {
    let missing = without_marks(enum_path, name, mark, folder, &read(tests));
    assert!(missing.is_empty(), "variants of {name} without a negative test: {missing:?}");
}

fn without_marks(
    enum_path: &str,
    name: &str,
    mark: &str,
    folder: &str,
    tests: &str,
) -> Vec<String> {
    let tests = code(tests);
    let marks: String = files(folder, "kir").into_iter().map(|(_, text)| text).collect();
    variants(enum_path, name)
        .into_iter()
        .filter(|variant| {
            let mark = format!("; {mark}: {variant}");
            let marked = words(&marks, &mark).next().is_some();
            let named = format!("{name}::{variant}");
            !marked && words(&tests, &named).next().is_none()
        })
        .collect()
}

#[test]
fn every_rule_of_the_verifier_has_a_negative_test() {
    let path = "src/ir/verify/error.rs";
    check_marks(path, "VerifyError", "error", "tests/filetests/verify", "tests/ir/verify_ir.rs");
}

/// The header of the verifier is its list of rules: one to one with the variants of the error.
#[test]
fn every_rule_of_the_verifier_is_in_its_header() {
    let text = read("src/ir/verify/mod.rs");
    let header = text.lines().take_while(|line| line.starts_with("//!"));
    let items = header.skip_while(|line| !line.starts_with("//! * **")).collect::<String>();
    let is_rule = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_uppercase())
            && word.chars().all(char::is_alphanumeric)
    };
    let listed: Vec<&str> = items.split('`').skip(1).step_by(2).filter(is_rule).collect();
    let rules: BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(rules.len(), listed.len(), "a rule is listed twice");
    let variants = variants("src/ir/verify/error.rs", "VerifyError");
    assert_eq!(rules, variants.iter().map(String::as_str).collect());
}

#[test]
fn every_error_of_the_parser_has_a_test() {
    let path = "src/ir/text/error.rs";
    check_marks(
        path,
        "ParseErrorKind",
        "error",
        "tests/filetests/parse",
        "tests/ir/text_limits.rs",
    );
}

#[test]
fn every_fault_has_a_test() {
    let path = "src/sim/fault/cause.rs";
    let tests: String = files("tests/sim", "rs").into_iter().map(|(_, text)| text).collect();
    let missing = without_marks(path, "FaultCause", "fault", "tests/filetests/sim", &tests);
    assert!(missing.is_empty(), "faults without a test: {missing:?}");
}

/// A test that returns early passes in silence unless it calls `skip` (`tests/support/skip.rs`).
#[test]
fn tests_that_cannot_run_are_counted() {
    let mut found = Vec::new();
    for (path, text) in
        [files("tests", "rs"), files("tune/tests", "rs"), files("cli/tests", "rs")].concat()
    {
        let (path, code) = (short(&path), code(&text));
        let prints = path != "tests/support/skip.rs" && text.contains("println!(\"skipped");
        let returns = words(&code, "gpu").any(|at| code[at..].starts_with("gpu() else"));
        if prints || returns {
            found.push(path);
        }
    }
    assert!(found.is_empty(), "write `device::wanted_gpu()`, or call `skip`: {found:?}");
}
