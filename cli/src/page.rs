//! Builds single-file HTML pages from a template, a shared style and data.

use serde_json::Value;

/// The style that all pages share.
const STYLE: &str = include_str!("page.css");

/// Fills in a template. The page's script reads the data from the element `data`, and the page
/// needs no network.
pub(super) fn html(template: &str, data: &Value) -> String {
    // The data must not close the element that contains it.
    let data = data.to_string().replace("</", "<\\/");
    template.replacen("/*STYLE*/", STYLE, 1).replacen("/*DATA*/", &data, 1)
}
