//! `tilewright trace`, and its page in a headless browser.

use std::fs;
use std::path::Path;

use super::browser::{View, check_picture, data, rendered};
use super::{check_refused, temporary, text, tilewright};
use expect_test::expect;
use serde_json::Value;

/// A GEMM of 2 stages and one tile, small enough for a test.
const GEMM: [&str; 5] =
    ["trace", "gemm", "sm90a_bf16_tn_128x128x64_s2_coop_strip8_rows", "--shape", "128x128x256"];

const RACE: &str = "kernel @tile target sm_80 (%x: ptr<global, mut i32>) {
  shared @s: i32 x 64 align 4
  %s = shared_base<@s> : ptr<shared, mut i32>
  %t = sreg<tid.x> : i32
  %n63 = const 63 : i32
  %other = sub %n63, %t : i32
  st %s, %t, %t
  %v = ld %s, %other : i32
  st %x, %t, %v
  return
}
";

#[test]
fn a_page_has_the_whole_pipeline() {
    let page = temporary("gemm.html");
    let output = tilewright(&[&GEMM[..], &["--html", page.to_str().unwrap()]].concat());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let report = text(&output.stdout);
    // 2 m n k, and each of 4 steps fills a stage.
    assert!(report.contains("8388.6 k floating point operations"), "{report}");
    assert!(report.contains("2 with 4 fills"), "{report}");
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.len() < 2 << 20, "{} bytes", html.len());
    assert!(!html.contains("http://") && !html.contains("https://"), "it needs no network");
    let traces = data(&html);
    let trace = &traces[0];
    assert_eq!(trace["stages"].as_array().unwrap().len(), 2);
    for engine in ["load", "wgmma", "store"] {
        let flights = trace["flights"].as_array().unwrap();
        let found: Vec<&Value> = flights.iter().filter(|flight| flight[0] == engine).collect();
        assert!(!found.is_empty(), "{engine}");
        assert!(found.iter().all(|flight| flight[4].as_u64() >= flight[3].as_u64()), "{engine}");
    }
    let Some(document) = rendered(&page, &View::default()) else { return };
    assert!(document.contains("Simulator time is order, not cycles."));
    check_picture(&page, &View::default());
    fs::remove_file(page).unwrap();
}

#[test]
fn a_page_lights_both_accesses_of_a_race() {
    let (kernel, page) = (temporary("race_trace.kir"), temporary("race.html"));
    fs::write(&kernel, RACE).unwrap();
    let path = kernel.to_str().unwrap();
    let args = ["trace", path, "--block", "64", "--html", page.to_str().unwrap()];
    let output = tilewright(&args);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: kernel `tile`: data race (read after write)"));
    let traces = data(&fs::read_to_string(&page).unwrap());
    let races = traces[0]["fault"]["races"].as_array().unwrap();
    assert_eq!(races.len(), 1);
    assert_eq!((&races[0]["op"], &races[0]["other_op"]), (&"ld".into(), &"st".into()));
    let line = &traces[0]["lines"][races[0]["line"].as_u64().unwrap() as usize];
    assert_eq!((&line["line"], &line["text"]), (&8.into(), &"%v = ld %s, %other : i32".into()));
    let Some(document) = rendered(&page, &View::default()) else { return };
    assert!(document.contains("The missing edge: no barrier orders the two threads"), "{document}");
}

/// On a telephone the title wraps, and the buttons are all there.
#[test]
fn a_narrow_page_is_not_cut() {
    let page = temporary("narrow.html");
    let output = tilewright(&[&GEMM[..], &["--html", page.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(0));
    // Browsers have no window of 420 pixels, so the page gets as much of one.
    let narrow = "<style>main { width: 420px; margin: 0 }</style>
<script>addEventListener(\"load\", () => {
  const all = [...document.querySelectorAll(\"main > *, .controls > *, h1 *\")];
  const cut = e => e.getBoundingClientRect().right > 420 || e.scrollWidth > e.clientWidth && e.tagName === \"H1\";
  document.body.dataset.cut = all.filter(cut).map(e => e.id || e.tagName).join(\" \");
});</script></body>";
    let html = fs::read_to_string(&page).unwrap();
    fs::write(&page, html.replace("</body>", narrow)).unwrap();
    let view = View { size: [500, 1200], ..View::default() };
    let Some(document) = rendered(&page, &view) else { return };
    assert!(
        document.contains("data-cut=\"\""),
        "{}",
        document.split("data-cut").nth(1).unwrap_or("")
    );
    fs::remove_file(page).unwrap();
}

const COLUMNS: &str = "kernel @columns target sm_80 (%x: ptr<global, mut i32>) {
  shared @s: i32 x 1024 align 4
  %s = shared_base<@s> : ptr<shared, mut i32>
  %t = sreg<tid.x> : i32
  %n32 = const 32 : i32
  %row = mul %t, %n32 : i32
  st %s, %row, %t
  st %x, %row, %t
  return
}
";

/// Threads store to the first column of a tile of 32 rows of 128 bytes: all words are in one bank,
/// and of each sector of 32 bytes 4 are used.
#[test]
fn a_page_has_heat_maps_of_tiles() {
    let (kernel, page) = (temporary("columns.kir"), temporary("columns.html"));
    fs::write(&kernel, COLUMNS).unwrap();
    let path = kernel.to_str().unwrap();
    let output = tilewright(&["trace", path, "--block", "32", "--html", page.to_str().unwrap()]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let traces = data(&fs::read_to_string(&page).unwrap());
    let maps = traces[0]["heat"].as_array().unwrap();
    let map = |memory: &str| maps.iter().find(|map| map["memory"] == memory).unwrap();
    let units = |memory: &str| -> Vec<u64> {
        map(memory)["units"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
    };
    assert_eq!(
        (map("shared")["unit"].as_u64(), map("global")["unit"].as_u64()),
        (Some(4), Some(32))
    );
    // Word, accesses, and whether it waits for another word of the bank.
    let words: Vec<u64> = (0..32).flat_map(|row| [32 * row, 1, u64::from(row > 0)]).collect();
    assert_eq!(units("shared"), words);
    // Sector, accesses, and bytes that no thread asks for.
    let sectors: Vec<u64> = (0..32).flat_map(|row| [4 * row, 1, 28]).collect();
    assert_eq!(units("global"), sectors);
    let Some(document) = rendered(&page, &View::default()) else { return };
    assert!(
        document.contains("32 rows of 32 banks: 31 of 32 accesses to words wait"),
        "{document}"
    );
}

/// The page of the book shows the flagship kernel.
#[test]
fn the_page_of_the_book_is_rendered() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src/trace/hopper.html");
    let html = fs::read_to_string(book).unwrap();
    assert!(html.len() < 2 << 20, "{} bytes", html.len());
    assert_eq!(data(&html)[0]["stages"].as_array().unwrap().len(), 4);
    let page = temporary("book.html");
    fs::write(&page, html).unwrap();
    if rendered(&page, &View::default()).is_some() {
        check_picture(&page, &View::default());
    }
    fs::remove_file(page).unwrap();
}

#[test]
fn bad_input_is_refused() {
    check_refused(
        &["trace", "gemm", "sm80_f32"],
        &expect![[r#"
            error: invalid value 'sm80_f32' for '[CONFIG]': `sm80_f32` is not a configuration name: `tn`, `tt`, `nn` or `nt` is missing
        "#]],
    );
}
