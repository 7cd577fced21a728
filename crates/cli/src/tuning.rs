//! Engine options from the command line: a preset, and single options by name through serde.

use crate::failure::{Failure, Result};
use crate::units;
use clap::Args;
use esker::Options;
use serde_json::{Map, Value, json};

/// Names of the presets.
pub(crate) const PRESETS: [&str; 5] =
    ["default", "edge", "write_heavy", "read_mostly", "large_values"];

/// Where the options of keyspaces stand inside those of the database.
const KEYSPACE: &str = "default_keyspace";

/// Options of the engine.
#[derive(Args, Clone, Debug)]
pub(crate) struct TuningArgs {
    /// Begin with the options of a preset; `esker options` shows them
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = PRESETS)]
    #[arg(help_heading = "Engine", hide_default_value = true)]
    preset: String,

    /// Set one engine option, as often as wanted: sizes may be written 64MiB
    #[arg(long = "option", value_name = "NAME=VALUE", help_heading = "Engine")]
    settings: Vec<String>,
}

impl TuningArgs {
    /// The options asked for.
    ///
    /// # Errors
    /// `Usage`: an unknown name, with the list of names; a value out of range.
    pub(crate) fn options(&self) -> Result<Options> {
        self.over(&Options::preset(&self.preset)?)
    }

    /// The options asked for, and then these settings, with spaces between.
    pub(crate) fn options_with(&self, settings: &str) -> Result<Options> {
        let mut all = self.clone();
        all.settings.extend(settings.split_whitespace().map(str::to_owned));
        all.options()
    }

    /// The single options asked for, on top of `base` instead of the default preset.
    pub(crate) fn options_over(&self, base: &Options) -> Result<Options> {
        if self.preset == "default" { self.over(base) } else { self.options() }
    }

    /// The same, to be given to another process.
    pub(crate) fn as_args(&self) -> Vec<String> {
        let settings = self.settings.iter().flat_map(|s| ["--option".to_owned(), s.clone()]);
        ["--preset".to_owned(), self.preset.clone()].into_iter().chain(settings).collect()
    }

    fn over(&self, base: &Options) -> Result<Options> {
        let mut tree = to_tree(base)?;
        for setting in &self.settings {
            let (name, value) = setting.split_once('=').ok_or_else(|| {
                Failure::usage(format!("--option {setting}: write it as name=value"))
            })?;
            set(&mut tree, name.trim(), value.trim())?;
        }
        let options: Options = serde_json::from_value(Value::Object(tree))
            .map_err(|error| Failure::usage(format!("--option: {error}")))?;
        options.validate()?;
        Ok(options)
    }
}

fn to_tree(options: &Options) -> Result<Map<String, Value>> {
    match serde_json::to_value(options) {
        Ok(Value::Object(tree)) => Ok(tree),
        Ok(_) => Err(Failure::other("options are no object")),
        Err(error) => Err(Failure::other(format!("cannot write options: {error}"))),
    }
}

fn set(tree: &mut Map<String, Value>, name: &str, typed: &str) -> Result<()> {
    let place = match tree.contains_key(name) {
        true => tree.get_mut(name),
        false => tree.get_mut(KEYSPACE).and_then(|keyspace| keyspace.get_mut(name)),
    };
    let Some(place) = place else {
        let names = names(tree).join(", ");
        return Err(Failure::usage(format!("no option {name:?}: use one of {names}")));
    };
    let value = value_like(place, typed).ok_or_else(|| {
        Failure::usage(format!("option {name}: {typed:?} is no value for it, such as {place}"))
    })?;
    // Tried on its own, so that the message names the option.
    let before = std::mem::replace(place, value);
    if let Err(error) = serde_json::from_value::<Options>(Value::Object(tree.clone())) {
        return Err(Failure::usage(format!("option {name}={typed}: {error}, such as {before}")));
    }
    Ok(())
}

fn names(tree: &Map<String, Value>) -> Vec<&str> {
    let inner = tree.get(KEYSPACE).and_then(Value::as_object);
    let inner = inner.into_iter().flat_map(Map::keys);
    tree.keys().chain(inner).map(String::as_str).collect()
}

/// Reads a value as the kind that stands there already.
fn value_like(model: &Value, typed: &str) -> Option<Value> {
    if let Ok(value) = serde_json::from_str::<Value>(typed) {
        return Some(value);
    }
    match model {
        // Nothing stands there where a size may be left out.
        Value::Number(_) | Value::Null => units::parse_size(typed).map(Value::from),
        Value::Array(_) => typed.split(',').map(|word| choice(word.trim())).collect(),
        Value::String(_) | Value::Object(_) => choice(typed),
        Value::Bool(_) => None,
    }
}

/// `lz4`, `zstd:3`, `bloom:10`, `time-slice:8000`.
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
        Some(_) => None,
    }
}

/// Every option with its value in each preset, in the order of [`PRESETS`]; those of keyspaces last.
pub(crate) fn table() -> Result<Vec<(String, Vec<Value>)>> {
    let mut trees = Vec::new();
    for preset in PRESETS {
        trees.push(to_tree(&Options::preset(preset)?)?);
    }
    let mut rows = Vec::new();
    let mut inner = Vec::new();
    for name in trees[0].keys().filter(|name| *name != KEYSPACE) {
        rows.push((name.clone(), trees.iter().map(|tree| tree[name].clone()).collect()));
    }
    for name in trees[0][KEYSPACE].as_object().into_iter().flat_map(Map::keys) {
        let values = trees.iter().map(|tree| tree[KEYSPACE][name].clone()).collect();
        inner.push((name.clone(), values));
    }
    rows.extend(inner);
    Ok(rows)
}

/// A value as it can be typed after `--option name=`.
pub(crate) fn typed(name: &str, value: &Value) -> String {
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
            Some((word, Value::Object(inner))) if inner.len() == 1 => {
                let inner = inner.values().next().map(ToString::to_string);
                format!("{word}:{}", inner.unwrap_or_default())
            }
            _ => value.to_string(),
        },
        other => other.to_string(),
    }
}

fn size(n: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if n >> shift > 0 && n.trailing_zeros() >= shift {
            return format!("{}{unit}", n >> shift);
        }
    }
    n.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::{Compaction, Compression, Filter, Scheduler, TimeSlice};

    fn options(preset: &str, settings: &[&str]) -> Result<Options> {
        let settings = settings.iter().map(|s| (*s).to_owned()).collect();
        TuningArgs { preset: preset.to_owned(), settings }.options()
    }

    #[test]
    fn options_of_both_kinds_are_set_by_name() {
        let options = options(
            "edge",
            &[
                "memory_budget_bytes=32MiB",
                "pinned_bytes_max=1MiB",
                "block_bytes=8192",
                "compression=none,zstd:7",
                "filter=bloom:14",
                "compaction=tiered",
                "scheduler=time-slice:8000",
                "tombstone_ratio_compact=0.25",
                "create_if_missing=false",
            ],
        )
        .expect("good options");
        assert_eq!(options.memory_budget_bytes, 32 << 20);
        assert_eq!(options.pinned_bytes_max, Some(1 << 20));
        assert_eq!(options.default_keyspace.block_bytes, 8192);
        let zstd = Compression::Zstd { level: 7 };
        assert_eq!(options.default_keyspace.compression, [Compression::None, zstd]);
        assert!(matches!(options.default_keyspace.filter, Filter::Bloom { bits_per_key: 14 }));
        assert_eq!(options.default_keyspace.compaction, Compaction::Tiered);
        let slice = TimeSlice { slice_ms: Some(8_000), ..TimeSlice::default() };
        assert_eq!(options.default_keyspace.scheduler, Scheduler::TimeSlice(slice));
        assert_eq!(options.default_keyspace.memtable_bytes, 2 << 20, "of the preset");
        assert!(!options.create_if_missing);
    }

    #[test]
    fn wrong_options_are_refused_with_the_name() {
        for (setting, part) in [
            ("speed=9", "use one of block_cache_bytes, "),
            ("speed=9", "memtable_bytes"),
            ("block_bytes", "name=value"),
            ("block_bytes=big", "block_bytes"),
            ("block_bytes=1", "outside 512"),
            ("block_bytes=-5", "block_bytes"),
            ("compression=[\"rar\"]", "compression"),
            ("filter=bloom:many", "filter"),
            ("compaction=flat", "compaction"),
            ("scheduler=time-slice:0", "slice_ms"),
            ("scheduler={\"time-slice\":{\"release_share\":2}}", "release_share"),
            ("create_if_missing=7", "create_if_missing"),
        ] {
            let failure = options("default", &[setting]).expect_err(setting);
            assert!(failure.message.contains(part), "{setting}: {}", failure.message);
        }
    }

    #[test]
    fn what_the_table_shows_can_be_typed() {
        for (preset, name) in PRESETS.iter().enumerate() {
            let shown: Vec<String> = table()
                .expect("table")
                .iter()
                .map(|(name, values)| format!("{name}={}", typed(name, &values[preset])))
                .collect();
            let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
            let back = to_tree(&options("default", &shown).expect(name)).expect("tree");
            assert_eq!(back, to_tree(&Options::preset(name).expect(name)).expect("tree"));
        }
    }
}
