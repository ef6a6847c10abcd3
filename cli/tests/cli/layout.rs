//! The page of `tilewright layout --html`: its data, and what a headless browser makes of it.

use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect;
use tilewright::layout::{ComposedLayout, layout};

use super::browser::{View, check_picture, data, rendered};
use super::{check_refused, temporary, text, tilewright};

/// The most bytes of a page.
const MOST_BYTES: usize = 500_000;

/// Writes the page of these arguments, and returns its file.
fn page(name: &str, args: &[&str]) -> PathBuf {
    let file = temporary(name);
    let output = tilewright(&[&["layout"], args, &["--html", file.to_str().unwrap()]].concat());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{args:?}");
    assert_eq!(text(&output.stdout), format!("{}\n", file.display()));
    let html = fs::read_to_string(&file).unwrap();
    assert!(html.len() < MOST_BYTES, "{} bytes", html.len());
    assert!(!html.contains("http://") && !html.contains("https://"), "it needs no network");
    file
}

/// The text of the cell that the page shows after this name.
fn shown<'a>(document: &'a str, name: &str) -> &'a str {
    let start = format!("<b>{name}</b><span>");
    let (_, rest) = document.split_once(&start).unwrap_or_else(|| panic!("no {name}"));
    rest.split_once("</span>").unwrap().0
}

/// Index, bank, tile and thread of an element that the address names, against the library's.
#[test]
fn a_page_shows_an_element_in_all_its_roles() {
    let layout = "S<3,3,3> o 0 o (8,64):(64,1)";
    let page = page("swizzled.html", &[layout, "--shade", "banks:16"]);
    assert_eq!(data(&fs::read_to_string(&page).unwrap())["bits"], 16);
    let library: ComposedLayout = layout.parse().unwrap();
    let (row, column) = (5, 19);
    let index = library.crd2idx((row, column)).unwrap().as_static().unwrap();
    // Position 157 is row 5 of column 19.
    let view = View { fragment: "at=157&tile=8,16&vector=16", ..View::default() };
    let Some(document) = rendered(&page, &view) else { return };
    assert!(shown(&document, "coordinate").starts_with("(5,19)"));
    assert_eq!(shown(&document, "index"), format!("5\u{b7}64 + 19\u{b7}1 = 339, swizzled {index}"));
    assert_eq!(shown(&document, "bank"), format!("{}  byte {}", index / 2 % 32, index * 2));
    assert_eq!(shown(&document, "tile"), "(0,1), in it (5,3)");
    // Threads of 8 elements go down the 8 rows of the tile.
    assert!(shown(&document, "thread, value").starts_with("T5 V3"));
    assert!(document.contains("free of conflicts"));
    // The same tile without the swizzle: all rows start in one bank.
    let view = View { fragment: "at=157&swizzle=0,3,3&tile=8,16&vector=16", ..view };
    let document = rendered(&page, &view).unwrap();
    assert_eq!(shown(&document, "index"), "5\u{b7}64 + 19\u{b7}1 = 339");
    assert!(document.contains("8-way"), "{document}");
    fs::remove_file(page).unwrap();
}

/// Runs `script` in a copy of a page after the page's own script, and returns what it appends to
/// `log`.
fn after(page: &Path, script: &str) -> Option<String> {
    let html = fs::read_to_string(page).unwrap();
    let script = format!(
        "<script>const log = []; const $ = id => document.getElementById(id);\n{script}\n\
         document.body.dataset.log = log.join('; ');</script></body>"
    );
    let copy = page.with_extension("events.html");
    fs::write(&copy, html.replace("</body>", &script)).unwrap();
    let document = rendered(&copy, &View::default());
    fs::remove_file(copy).unwrap();
    let document = document?;
    let (_, rest) = document.split_once("data-log=\"").expect("the script has ended");
    Some(rest.split_once('"').unwrap().0.to_owned())
}

/// The pointer, the arrow keys, the sliders, the lists and the button change what the page shows,
/// and its address.
#[test]
fn a_page_answers_the_pointer_and_the_keyboard() {
    let page = page("events.html", &["(8,64):(64,1)"]);
    let script = r#"
const cell = () => $("cell").innerText.replace(/\s+/g, " ");
const canvas = document.querySelector("canvas"), box = canvas.getBoundingClientRect();
const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true };
canvas.dispatchEvent(new MouseEvent("mousemove", at));
log.push(cell().includes("index") && $("tip").style.display === "block" && $("tip").textContent.includes("bank"));
canvas.dispatchEvent(new MouseEvent("mouseleave", at));
log.push($("tip").style.display);
location.hash = "";
const key = name => canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
["ArrowDown", "ArrowRight", "ArrowUp"].forEach(key);
const before = cell().match(/coordinate \((\d+),(\d+)\)/).slice(1).map(Number);
key("ArrowDown"); key("ArrowRight");
const now = cell().match(/coordinate \((\d+),(\d+)\)/).slice(1).map(Number);
log.push((now[0] - before[0]) + "," + (now[1] - before[1]), location.hash.includes("at=" + (now[0] + 8 * now[1])));
const set = (id, event, value) => { $(id).value = value; $(id).dispatchEvent(new Event(event, { bubbles: true })); };
const conflicts = () => document.querySelector("tr.on").lastChild.textContent;
log.push(conflicts());
set("sbits", "input", 3); set("sbase", "input", 2); set("sshift", "input", 4);
log.push(conflicts(), location.hash.includes("swizzle=3,2,4"));
set("rows", "input", 2);
log.push($("rows").nextSibling.textContent, location.hash.includes("tile=4,64"));
set("vector", "change", 16);
log.push(document.querySelector("tr.on").children[1].textContent);
$("reset").click();
log.push(location.hash.includes("swizzle"));
"#;
    if let Some(log) = after(&page, script) {
        expect!["true; none; 1,1; true; 8-way; free of conflicts; true; 4; true; 8 x 16 B; false"]
            .assert_eq(&log);
    }
    fs::remove_file(page).unwrap();
}

/// An address of another layout, or one written by hand.
#[test]
fn a_page_reads_what_fits_of_an_address() {
    let page = page("address.html", &["(4,8):(8,1)"]);
    for fragment in [
        "at=99999&part=7&from=9",
        "at=x&swizzle=1&tile=0,x",
        "at=-1&bits=3&vector=x&access=no&colour=no",
        "swizzle=3,4,1",
    ] {
        let Some(document) = rendered(&page, &View { fragment, ..View::default() }) else { return };
        assert!(document.contains("<span>Point at another one"), "{fragment}");
    }
    fs::remove_file(page).unwrap();
}

/// Layouts, operations, threads, coordinates: the first in two sizes, light and dark. Each page
/// compares its indices with the library's.
#[test]
fn pages_render_without_an_error_of_the_script() {
    let cases: &[(&str, &[&str])] = &[
        ("divide.html", &["(8,16):(16,1)", "--op", "zipped_divide", "--with", "(4,8)"]),
        ("hierarchy.html", &["((2,2),(2,4)):((1,4),(2,8))"]),
        ("composition.html", &["(6,2):(8,2)", "--op", "composition", "--with", "(4,3):(3,1)"]),
        ("product.html", &["(2,5):(5,1)", "--op", "raked_product", "--with", "(3,4):(1,3)"]),
        ("complement.html", &["(2,2):(1,6)", "--op", "complement", "--with", "24"]),
        ("threads.html", &["((4,8),2):((16,1),8)", "--tv", "(8,8)"]),
        ("swizzle.html", &["S<3,4,-3>"]),
        ("coordinates.html", &["(4,8):(1@0,1@1)"]),
        ("negative.html", &["S<2,0,3> o 70 o (8,9):(-8,1)"]),
        ("long.html", &["100:3"]),
        ("ranks.html", &["(4,2,(3,2)):(1,4,(8,24))"]),
    ];
    for (number, (name, args)) in cases.iter().enumerate() {
        let page = page(name, args);
        let views = [
            ([1400, 1000], false),
            ([500, 1000], true),
            ([1400, 1000], true),
            ([500, 1000], false),
        ];
        for (size, dark) in
            views.into_iter().take(if number == 0 { 4 } else { 1 + number % 2 }).skip(number % 2)
        {
            let view = View { size, dark, fragment: "at=3" };
            let Some(document) = rendered(&page, &view) else { return };
            let scheme = if dark { "dark" } else { "light" };
            assert!(document.contains(&format!("data-scheme=\"{scheme}\"")), "{name}");
            assert!(!document.contains("<span>Point at another one"), "{name}");
            if number == 0 {
                check_picture(&page, &view);
            }
        }
        fs::remove_file(page).unwrap();
    }
}

#[test]
fn the_largest_pages_are_small() {
    // Three tables of the most cells, with large indices.
    let args = ["(128,128):(1000000000,1)", "--op", "logical_divide", "--with", "(128,128)"];
    fs::remove_file(page("large.html", &args)).unwrap();
    fs::remove_file(page("threads_large.html", &["(128,128)", "--tv", "(128,128)"])).unwrap();
    fs::remove_file(page("coordinates_large.html", &["(64,64):(1@0,1@1)"])).unwrap();
}

/// `-` is the standard output, which then has the page alone.
#[test]
fn a_page_is_printed() {
    let output = tilewright(&["layout", "(4,8):(8,1)", "--html", "-"]);
    let html = text(&output.stdout);
    assert!(html.starts_with("<!doctype html>") && html.trim_end().ends_with("</html>"));
    let data = data(&html);
    let indices: i64 = layout!((4, 8):(8, 1)).size().unwrap().as_static().unwrap();
    let checksum = (0..indices)
        .map(|at| at % 4 * 8 + at / 4)
        .fold(7, |sum, index| (sum * 31 + index) % 1_000_003);
    assert_eq!(data["parts"][0]["checksum"], checksum);
}

#[test]
fn layouts_without_a_page_are_refused() {
    check_refused(
        &["layout", "(n,64)", "--html", "-"],
        &expect![[r#"
            error: `(n,64)`: n is not static; evaluate it with the values of its symbols first: `--let NAME=VALUE`
        "#]],
    );
    check_refused(
        &["layout", "2:9007199254740993", "--html", "-"],
        &expect![[r#"
            error: `2:9007199254740993`: an index of the page is over the limit of 9007199254740992
        "#]],
    );
    check_refused(
        &["layout", "(128,64):(1@0,1@1)", "--html", "-"],
        &expect![[r#"
            error: `(128,64):(1@0,1@1)`: the number of coordinates of the page is over the limit of 4096
        "#]],
    );
    check_refused(
        &["layout", "4:1", "--html", "-", "--svg", "-"],
        &expect![[r#"
            error: the argument '--html <FILE>' cannot be used with '--svg <FILE>'
        "#]],
    );
}

/// `--let` gives symbols their values, in the layout and in the argument of the operation.
#[test]
fn symbols_get_values() {
    let args = ["layout", "(16*n,64):(1,16*n)", "--op", "logical_divide", "--with", "(n,16)"];
    let output = tilewright(&[&args[..], &["--let", "n=2"]].concat());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let printed = text(&output.stdout);
    assert!(printed.starts_with("layout          (32,64):(1,32)\n"), "{printed}");
    assert!(printed.contains("\nlogical_divide  ((2,16),(16,4)):((1,2),(32,512))\n"), "{printed}");
    // A page and a picture are those of the numbers.
    let html = tilewright(&["layout", "(4,n)", "--let", "n=8", "--html", "-"]);
    assert!(text(&html.stdout).contains("--let n=8"));
    let svg = |args: &[&str]| text(&tilewright(&[args, &["--svg", "-"]].concat()).stdout);
    assert_eq!(svg(&["layout", "(m,n)", "--let", "m=4,n=8"]), svg(&["layout", "(4,8)"]));
    check_refused(
        &["layout", "(4,n)", "--let", "n"],
        &expect![[r#"
            error: invalid value 'n' for '--let <NAME=VALUE>': `n` is not a symbol with a value, such as `n=8`
        "#]],
    );
    let missing = tilewright(&["layout", "(m,n)", "--let", "n=8"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains('m'), "{}", text(&missing.stderr));
}

/// JSON has the same facts as the table, and all indices.
#[test]
fn a_layout_is_printed_as_json() {
    let json = |args: &[&str]| -> serde_json::Value {
        let output = tilewright(&[&["layout"], args, &["--json"]].concat());
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
        assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 1);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let plain = json(&["(2,3):(3,1)"]);
    let expected = serde_json::json!({
        "layout": "(2,3):(3,1)", "size": 6, "cosize": 6, "indices": [0, 3, 1, 4, 2, 5],
    });
    assert_eq!(plain, expected);
    let divided = json(&["16:1", "--op", "logical_divide", "--with", "4:2"]);
    assert_eq!(
        (&divided["operation"], &divided["with"]),
        (&"logical_divide".into(), &"4:2".into())
    );
    assert_eq!(divided["result"], "(4,(2,2)):(2,(1,8))");
    assert_eq!(divided["indices"][4], 1);
    // What has no numbers has no indices.
    let symbols = json(&["(4,n)"]);
    assert_eq!((&symbols["size"], &symbols["indices"]), (&"4*n".into(), &serde_json::Value::Null));
    assert_eq!(json(&["S<3,4,3>"]), serde_json::json!({ "swizzle": "S<3,4,3>" }));
}
