//! Pages of one file: a template, the style that all of them have, and data.

use serde_json::Value;

/// The style of all pages.
const STYLE: &str = include_str!("page.css");

/// Returns the page of a template, whose script reads the data from the element `data`. It needs no network.
pub(super) fn html(template: &str, data: &Value) -> String {
    // The text must not end the element that it is in.
    let data = data.to_string().replace("</", "<\\/");
    template.replacen("/*STYLE*/", STYLE, 1).replacen("/*DATA*/", &data, 1)
}
