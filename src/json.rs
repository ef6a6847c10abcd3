//! A small JSON writer for the simulator's traces and the command line. It does not parse.

use std::fmt;

/// A JSON value.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub enum Json {
    Null,
    Bool(bool),
    Number(u64),
    Int(i64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    pub fn text(text: impl fmt::Display) -> Json {
        Json::Text(text.to_string())
    }

    pub fn option<T>(value: Option<T>, json: impl FnOnce(T) -> Json) -> Json {
        value.map_or(Json::Null, json)
    }
}

/// Writes the value on one line (RFC 8259).
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(value) => write!(f, "{value}"),
            Json::Number(value) => write!(f, "{value}"),
            Json::Int(value) => write!(f, "{value}"),
            Json::Text(text) => write_text(f, text),
            Json::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Json::Object(fields) => {
                f.write_str("{")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}\"{name}\": {value}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
        }
    }
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\n' => f.write_str("\\n")?,
            c if (c as u32) < 0x20 => write!(f, "\\u{:04x}", c as u32)?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let json = Json::Object(vec![
            ("a", Json::text("x\"\\\n\u{1}é")),
            ("b", Json::List(vec![Json::Null, Json::Bool(true), Json::Number(7)])),
        ]);
        assert_eq!(json.to_string(), r#"{"a": "x\"\\\n\u0001é", "b": [null, true, 7]}"#);
    }
}
