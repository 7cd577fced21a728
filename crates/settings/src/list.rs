//! All options there are, with their values in each preset.

use crate::text::{KEYSPACE, to_tree};
use esker::{Options, Result};
use serde_json::Value;

/// Names of the presets.
pub const PRESETS: [&str; 5] = ["default", "edge", "write_heavy", "read_mostly", "large_values"];

/// Every option with its value in each preset, in the order of [`PRESETS`]; those of keyspaces
/// last.
///
/// # Errors
/// None that a user could bring about.
pub fn table() -> Result<Vec<(String, Vec<Value>)>> {
    let mut trees = Vec::new();
    for preset in PRESETS {
        trees.push(to_tree(&Options::preset(preset)?)?);
    }
    let mut rows = Vec::new();
    let mut inner = Vec::new();
    for name in trees[0].keys().filter(|name| *name != KEYSPACE) {
        rows.push((name.clone(), trees.iter().map(|tree| tree[name].clone()).collect()));
    }
    for name in trees[0][KEYSPACE].as_object().into_iter().flat_map(serde_json::Map::keys) {
        let values = trees.iter().map(|tree| tree[KEYSPACE][name].clone()).collect();
        inner.push((name.clone(), values));
    }
    rows.extend(inner);
    Ok(rows)
}

/// A value as it can be typed after `name=`.
pub fn typed(name: &str, value: &Value) -> String {
    match value {
        Value::Number(n) if name.contains("bytes") => match n.as_u64() {
            Some(n) => size(n),
            None => n.to_string(),
        },
        Value::String(word) => word.clone(),
        Value::Array(items) => {
            items.iter().map(|item| typed(name, item)).collect::<Vec<_>>().join(",")
        }
        Value::Object(fields) if fields.len() == 1 => match fields.iter().next() {
            Some((word, Value::Object(inner))) if word == "delimiter" => {
                let byte = inner.get("byte").and_then(Value::as_u64);
                match byte.and_then(|byte| u8::try_from(byte).ok()).map(char::from) {
                    Some(byte) if is_plain(byte) => format!("{word}:{byte}"),
                    _ => value.to_string(),
                }
            }
            Some((word, Value::Object(inner))) if inner.len() == 1 => {
                let inner = inner.values().next().map(ToString::to_string);
                format!("{word}:{}", inner.unwrap_or_default())
            }
            _ => value.to_string(),
        },
        other => other.to_string(),
    }
}

/// True if the byte means itself in a text of settings.
fn is_plain(byte: char) -> bool {
    byte.is_ascii_graphic() && !"\"[]{},=".contains(byte)
}

fn size(n: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if n >> shift > 0 && n.trailing_zeros() >= shift {
            return format!("{}{unit}", n >> shift);
        }
    }
    n.to_string()
}
