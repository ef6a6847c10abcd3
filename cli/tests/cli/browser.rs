//! Renders pages in a headless browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{skip, text};

/// The window of a page.
pub(crate) struct View {
    /// The width and the height.
    pub(crate) size: [u32; 2],
    /// The reader prefers dark pages.
    pub(crate) dark: bool,
    /// The part of the address after `#`.
    pub(crate) fragment: &'static str,
}

impl Default for View {
    fn default() -> View {
        View { size: [1200, 900], dark: false, fragment: "" }
    }
}

/// The data in a page.
pub(crate) fn data(page: &str) -> Value {
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

/// Runs the browser on a page with one more argument, and returns its output; `None`, as a skipped
/// test, without a browser.
fn run(page: &Path, view: &View, argument: &str) -> Option<String> {
    let Some(browser) = browser() else {
        skip::skip("no browser is installed");
        return None;
    };
    let [width, height] = view.size;
    let profile = page.with_extension("profile");
    let output = Command::new(&browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(view.dark.then_some("--force-dark-mode"))
        .arg(format!("--window-size={width},{height}"))
        .args(["--virtual-time-budget=3000", argument])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}#{}", page.display(), view.fragment))
        .output()
        .unwrap();
    let _left = fs::remove_dir_all(&profile);
    Some(text(&output.stdout))
}

/// Renders a page, and returns its document. Its script must have ended without an error.
pub(crate) fn rendered(page: &Path, view: &View) -> Option<String> {
    let document = run(page, view, "--dump-dom")?;
    let status = document.split_once("data-status=\"").and_then(|(_, rest)| rest.split_once('"'));
    assert_eq!(
        status.map(|(status, _)| status),
        Some("ready"),
        "{} {:?}",
        page.display(),
        view.size
    );
    Some(document)
}

/// Takes a picture of a page, and checks that it has the size of the window and is not empty. The
/// picture stays in the folder that `TILEWRIGHT_PICTURES` names.
pub(crate) fn check_picture(page: &Path, view: &View) {
    let [width, _] = view.size;
    let scheme = if view.dark { "dark" } else { "light" };
    let name = page.file_stem().unwrap().to_str().unwrap();
    let folder = std::env::var_os("TILEWRIGHT_PICTURES").map(PathBuf::from);
    let picture = folder.as_deref().unwrap_or(page.parent().unwrap());
    let picture = picture.join(format!("{name}-{width}-{scheme}{}.png", view.fragment.len()));
    if run(page, view, &format!("--screenshot={}", picture.display())).is_none() {
        return;
    }
    let png = fs::read(&picture).unwrap();
    assert_eq!(png[1..4], *b"PNG");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    // The rest of the file is more than the background.
    assert!(png.len() > 20_000, "{} bytes", png.len());
    assert_eq!([number(16), number(20)], view.size);
    if folder.is_none() {
        fs::remove_file(&picture).unwrap();
    }
}
