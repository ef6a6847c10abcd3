//! `tilewright trace`, and its page in a headless browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{check_refused, skip, temporary, text, tilewright};
use expect_test::expect;
use serde_json::Value;

/// A GEMM of 2 stages and one tile, small enough for a test.
const GEMM: [&str; 5] =
    ["trace", "gemm", "sm90a_bf16_tn_128x128x64_s2_coop_strip8_rows", "--size", "128,128,256"];

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

/// The traces in a page.
fn data(page: &str) -> Value {
    let (_, data) = page.split_once(r#"<script id="data" type="application/json">"#).unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    serde_json::from_str(data).unwrap()
}

/// A browser that renders pages without a screen, if there is one.
fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH")?;
    let all = std::env::split_paths(&path);
    all.flat_map(|folder| names.map(|name| folder.join(name))).find(|file| file.is_file())
}

/// Renders a page, and returns its document and the width and height of a picture of it.
fn rendered(browser: &Path, page: &Path) -> (String, [u32; 2]) {
    let (profile, picture) = (page.with_extension("profile"), page.with_extension("png"));
    let run = |argument: &str| {
        let output = Command::new(browser)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .args(["--window-size=1200,900", "--virtual-time-budget=3000", argument])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("file://{}", page.display()))
            .output()
            .unwrap();
        text(&output.stdout)
    };
    let document = run("--dump-dom");
    run(&format!("--screenshot={}", picture.display()));
    let png = fs::read(&picture).unwrap();
    assert_eq!(png[1..4], *b"PNG");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    // The rest of the file is more than the background.
    assert!(png.len() > 20_000, "{} bytes", png.len());
    let size = [number(16), number(20)];
    for path in [&picture, &page.to_path_buf()] {
        fs::remove_file(path).unwrap();
    }
    let _left = fs::remove_dir_all(&profile);
    (document, size)
}

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
    let Some(browser) = browser() else { return skip::skip("no browser is installed") };
    let (document, size) = rendered(&browser, &page);
    assert!(document.contains(r#"data-status="ready""#), "a script failed");
    assert!(document.contains("Simulator time is order, not cycles."));
    assert_eq!(size, [1200, 900]);
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
    let Some(browser) = browser() else { return skip::skip("no browser is installed") };
    let (document, _) = rendered(&browser, &page);
    assert!(document.contains(r#"data-status="ready""#), "a script failed");
    assert!(document.contains("The missing edge: no barrier orders the two threads"), "{document}");
}

/// The page of the book shows the flagship kernel.
#[test]
fn the_page_of_the_book_is_rendered() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src/trace/hopper.html");
    let html = fs::read_to_string(book).unwrap();
    assert!(html.len() < 2 << 20, "{} bytes", html.len());
    assert_eq!(data(&html)[0]["stages"].as_array().unwrap().len(), 4);
    let Some(browser) = browser() else { return skip::skip("no browser is installed") };
    let page = temporary("book.html");
    fs::write(&page, html).unwrap();
    let (document, size) = rendered(&browser, &page);
    assert!(document.contains(r#"data-status="ready""#), "a script failed");
    assert_eq!(size, [1200, 900]);
}

#[test]
fn bad_input_is_refused() {
    check_refused(
        &["trace", "gemm"],
        &expect![[r#"
            error: `gemm` needs the name of a configuration, such as `sm80_f32_tn_128x128x16_s2_simt_strip8_direct_a4`
        "#]],
    );
}
