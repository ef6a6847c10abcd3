//! `docs/for-programs.md`: its listings and answers, its tasks, and `scripts/score`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::skip::skip;
use super::{temporary, text};
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The fenced blocks of the page that have a language, each with its content.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let blocks = page.split("\n```").skip(1).step_by(2);
    blocks.filter_map(|block| block.split_once('\n')).collect()
}

/// The lines of a difference that start with a space or with `sign`: the text on one side of it.
fn side(diff: &str, sign: char) -> String {
    let lines = diff.lines().filter_map(|line| line.strip_prefix([' ', sign]));
    lines.map(|line| format!("{line}\n")).collect()
}

/// A command of the page and the exit code behind it.
struct Example<'p> {
    args: Vec<&'p str>,
    code: i32,
}

impl<'p> Example<'p> {
    fn of(line: &'p str) -> Option<Example<'p>> {
        let (command, code) = line.trim().split_once("# exit ")?;
        let args = command.split_whitespace().skip(1).collect();
        Some(Example { args, code: code.parse().unwrap() })
    }

    fn run(&self, folder: &Path) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tilewright"));
        let command = command.args(&self.args).current_dir(folder);
        command.env("TILEWRIGHT_PROGRESS", "0").output().unwrap()
    }
}

/// Each listing is a file, each command returns its exit code and prints the answer that follows
/// it, and each edit makes the command return 0.
#[test]
fn the_page_says_what_the_program_answers() {
    let page = fs::read_to_string(root().join("docs/for-programs.md")).unwrap();
    let folder = temporary("for-programs");
    fs::create_dir_all(&folder).unwrap();
    let (mut file, mut kernel) = (PathBuf::new(), "");
    let mut last: Option<(Example<'_>, Output)> = None;
    let (mut answers, mut edits) = (0, 0);
    for (language, content) in blocks(&page) {
        match (language, &last) {
            ("kir", _) => {
                let name = content.lines().next().and_then(|line| line.strip_prefix("; ")).unwrap();
                (file, kernel) = (folder.join(name), content);
                fs::write(&file, kernel).unwrap();
            }
            ("sh", _) => {
                let Some(example) = Example::of(content) else { continue };
                let output = example.run(&folder);
                assert_eq!(output.status.code(), Some(example.code), "{content}");
                last = Some((example, output));
            }
            ("json", Some((example, output))) => {
                let said = text(&output.stdout);
                let found: Value = serde_json::from_str(&said).unwrap();
                let expected: Value = serde_json::from_str(content).unwrap();
                assert_eq!(found, expected, "{:?} prints\n{said}", example.args);
                answers += 1;
            }
            ("diff", Some((example, _))) => {
                let before = side(content, '-');
                assert_eq!(kernel.matches(&before).count(), 1, "{before}");
                fs::write(&file, kernel.replace(&before, &side(content, '+'))).unwrap();
                let output = example.run(&folder);
                assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
                edits += 1;
            }
            _ => {}
        }
    }
    assert!(answers >= 12 && edits >= 11, "{answers} answers, {edits} edits");
    fs::remove_dir_all(folder).unwrap();
}

/// Scores a folder; `None` without `python3`.
fn score(folder: &Path) -> Option<Output> {
    let mut command = Command::new("python3");
    let command = command.arg(root().join("scripts/score")).arg(folder);
    // Enough for blocks that run in reverse.
    let command = command.env("SCORE_SCHEDULES", "4");
    let output = command.env("TILEWRIGHT", env!("CARGO_BIN_EXE_tilewright")).output();
    if output.is_err() {
        skip("there is no python3");
    }
    output.ok()
}

const SOLUTIONS: &str = "tests/kir/tasks";

#[test]
fn the_reference_solutions_pass() {
    let Some(output) = score(&root().join(SOLUTIONS)) else { return };
    let said = text(&output.stdout);
    assert_eq!(said.lines().last(), Some("10 passed, 0 failed"), "{said}");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

/// A mistake in a reference solution, and what the scorer says about it.
struct Mistake {
    task: &'static str,
    right: &'static str,
    wrong: &'static str,
    says: &'static str,
}

const fn mistake(
    task: &'static str,
    right: &'static str,
    wrong: &'static str,
    says: &'static str,
) -> Mistake {
    Mistake { task, right, wrong, says }
}

const MISTAKES: [Mistake; 10] = [
    mistake("01", "add %v, %v", "mul %v, %v", "case 1: y["),
    mistake("02", "setp<lt>", "setp<le>", "reads f32 element 1000"),
    mistake("03", "    barrier\n    continue", "    continue", "data race"),
    mistake("04", "const 33", "const 32", "wavefronts, "),
    mistake("05", "const 4 : u32", "const 2 : u32", "case 1: sum["),
    mistake("06", "red<add, relaxed, gpu> %bins", "st %bins", "data race"),
    mistake("07", "wait_group<1>\n    barrier", "wait_group<1>", "was never written"),
    mistake("08", "  barrier\n\n", "\n", "data race"),
    mistake("09", "    barrier\n    continue @tiles", "    continue @tiles", "data race"),
    mistake("10", "ld %words, %zero", "sreg<ctaid.x>", "has not ended"),
];

#[test]
fn mistakes_fail() {
    let folder = temporary("mistakes");
    fs::create_dir_all(&folder).unwrap();
    for Mistake { task, right, wrong, .. } in MISTAKES {
        let name = format!("{task}.kir");
        let solution = fs::read_to_string(root().join(SOLUTIONS).join(&name)).unwrap();
        assert_eq!(solution.matches(right).count(), 1, "{name}: {right}");
        fs::write(folder.join(name), solution.replace(right, wrong)).unwrap();
    }
    let Some(output) = score(&folder) else { return };
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for Mistake { task, says, .. } in MISTAKES {
        let line = said.lines().find(|line| line.starts_with(task)).unwrap();
        assert!(line.contains("failed: ") && line.contains(says), "{line}\nlacks {says}");
    }
    assert_eq!(said.lines().last(), Some("0 passed, 10 failed"));

    // A task that is missing fails, too.
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir_all(&folder).unwrap();
    fs::copy(root().join(SOLUTIONS).join("01.kir"), folder.join("01.kir")).unwrap();
    let said = text(&score(&folder).unwrap().stdout);
    assert_eq!(said.lines().last(), Some("1 passed, 9 failed"), "{said}");
    fs::remove_dir_all(folder).unwrap();
}
