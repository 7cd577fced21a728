//! Values as people type them.

use serde_json::{Value, json};

/// Reads a value as the kind that stands there already.
pub(crate) fn value_like(model: &Value, typed: &str) -> Option<Value> {
    if let Ok(value) = serde_json::from_str::<Value>(typed) {
        return Some(value);
    }
    match model {
        // Nothing stands there where a size, or a choice with a number, may be left out.
        Value::Number(_) | Value::Null => match parse_size(typed) {
            Some(size) => Some(Value::from(size)),
            None if model.is_null() && typed.contains(':') => choice(typed),
            None => None,
        },
        Value::Array(_) => typed.split(',').map(|word| choice(word.trim())).collect(),
        Value::String(_) | Value::Object(_) => choice(typed),
        Value::Bool(_) => None,
    }
}

/// `lz4`, `zstd:3`, `bloom:10`, `time-slice:8000`, `fixed:4`, `delimiter:/`.
fn choice(word: &str) -> Option<Value> {
    match word.split_once(':') {
        // As long as it takes.
        None if word == "time-slice" => Some(json!({ "time-slice": {} })),
        None => Some(Value::from(word)),
        Some(("time-slice", ms)) => {
            Some(json!({ "time-slice": { "slice_ms": ms.parse::<u64>().ok()? } }))
        }
        Some(("zstd", level)) => Some(json!({ "zstd": { "level": level.parse::<i32>().ok()? } })),
        Some(("bloom", bits)) => {
            Some(json!({ "bloom": { "bits_per_key": bits.parse::<u32>().ok()? } }))
        }
        Some(("fixed", bytes)) => Some(json!({ "fixed": { "bytes": bytes.parse::<u32>().ok()? } })),
        Some(("delimiter", end)) => match end.as_bytes() {
            [byte] => Some(json!({ "delimiter": { "byte": byte } })),
            _ => None,
        },
        Some(_) => None,
    }
}

/// Reads a size: a number with `KiB`, `MiB`, `GiB`, `TiB` or nothing after it.
pub fn parse_size(text: &str) -> Option<u64> {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(at);
    let shift = match unit.trim_start() {
        "" => 0,
        "K" | "k" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_size("64"), Some(64));
        assert_eq!(parse_size("64MiB"), Some(64 << 20));
        assert_eq!(parse_size("4 KiB"), Some(4096));
        for wrong in ["", "MiB", "64 MB", "-1", "99999999999T"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }
}
