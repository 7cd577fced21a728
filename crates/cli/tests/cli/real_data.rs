//! A real data set: the files of this machine as records, loaded, found by field, and counted by
//! other means.
//!
//! `ESKER_RECORDS` says how many records there are to be; the files are taken again and again until
//! there are so many.

use crate::support::{Temp, on, source};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Where the files are, and how many of them are taken at the most.
const TREE: &str = "/usr";
const FILES_MAX: usize = 66_000;

/// Fields that are indexed, with the type of what they hold.
const INDEXED: [(&str, &str); 4] =
    [("kind", "text"), ("extension", "text"), ("depth", "integer"), ("bytes", "integer")];

/// Finds by each field.
const FINDS: usize = 20;

fn records_wanted() -> usize {
    let wanted = std::env::var("ESKER_RECORDS").ok();
    wanted.map_or(20_000, |wanted| wanted.parse().expect("ESKER_RECORDS is a number"))
}

/// What there is below a directory, in order, symbolic links not followed.
fn walk(dir: &Path, depth: u64, records: &mut Vec<Value>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let (Some(text), Ok(metadata)) = (path.to_str(), path.symlink_metadata()) else { continue };
        if records.len() == FILES_MAX {
            return;
        }
        let kind = match metadata.file_type() {
            kind if kind.is_dir() => "directory",
            kind if kind.is_symlink() => "link",
            _ => "file",
        };
        let mut record = json!({
            "path": text,
            "name": path.file_name().and_then(OsStr::to_str),
            "directory": dir.to_str(),
            "kind": kind,
            "depth": depth,
            "bytes": metadata.len(),
            "mode": metadata.mode(),
            "links": metadata.nlink(),
            "modified": metadata.mtime(),
        });
        // Many have none.
        if let Some(extension) = path.extension().and_then(OsStr::to_str) {
            record["extension"] = extension.into();
        }
        records.push(record);
        if kind == "directory" {
            walk(&path, depth + 1, records);
        }
    }
}

/// Writes records from `range` as JSON lines, the files again and again, and counts what their
/// indexed fields hold.
fn lines(
    file: &Path,
    files: &[Value],
    range: std::ops::Range<usize>,
    counts: &mut [BTreeMap<Held, u64>; 4],
) {
    let mut out = BufWriter::new(File::create(file).expect("a file"));
    for number in range {
        let mut record = files[number % files.len()].clone();
        let path = record["path"].as_str().expect("a path");
        record["id"] = format!("{path}#{}", number / files.len()).into();
        for ((field, _), counts) in INDEXED.iter().zip(counts.iter_mut()) {
            let held = match &record[field] {
                Value::Null => continue,
                Value::String(text) => Held::Text(text.clone()),
                number => Held::Integer(number.as_u64().expect("not negative")),
            };
            *counts.entry(held).or_default() += 1;
        }
        writeln!(out, "{record}").expect("written");
    }
    out.flush().expect("written");
}

/// What a field holds, in an order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Held {
    Integer(u64),
    Text(String),
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Held::Integer(number) => number.fmt(f),
            Held::Text(text) => text.fmt(f),
        }
    }
}

/// Half of the records are there before the indexes are made, half come after.
#[test]
fn files_of_this_machine_are_found_by_what_their_fields_hold() {
    let (temp, wanted) = (Temp::new(), records_wanted());
    let store = temp.store();
    let mut found = Vec::new();
    walk(Path::new(TREE), 1, &mut found);
    assert!(found.len() > 100, "{} files in {TREE}", found.len());
    let mut counts: [BTreeMap<Held, u64>; 4] = Default::default();
    for (part, range) in [0..wanted / 2, wanted / 2..wanted].into_iter().enumerate() {
        let file = temp.join(format!("{part}.jsonl"));
        lines(&file, &found, range, &mut counts);
        on(
            &store,
            &["load".into(), source("jsonl", &file), "--key".into(), "id".into(), "--quiet".into()],
        )
        .good();
        fs::remove_file(&file).expect("removed");
        for (field, _) in INDEXED.iter().filter(|_| part == 0) {
            on(&store, &["index", "create", field]).good();
        }
    }
    assert_eq!(on(&store, &["count"]).good(), format!("{wanted}\n"));
    let count = |args: &[&str]| -> u64 {
        let printed = on(&store, &[&["find", "--count"], args].concat()).good().to_owned();
        printed.trim().parse().expect("a number")
    };
    let mut finds = 0;
    for ((field, kind), counts) in INDEXED.iter().zip(&counts) {
        assert_eq!(count(&[field]), counts.values().sum::<u64>(), "all that have {field}");
        let step = (counts.len() / FINDS).max(1);
        for (held, expected) in counts.iter().step_by(step) {
            let of_one = [*field, "--type", kind, "--", &held.to_string()];
            assert_eq!(count(&of_one), *expected, "{field} = {held}");
            finds += 1;
        }
        let (held, expected) = counts.iter().next_back().expect("not empty");
        let by_scan = [*field, "--scan", "--quiet", "--type", kind, "--", &held.to_string()];
        assert_eq!(count(&by_scan), *expected, "without the index, {field} = {held}");
    }
    let sizes: Vec<&Held> = counts[3].keys().collect();
    for at in 0..FINDS {
        let (from, to) = (sizes[at * sizes.len() / FINDS / 2], sizes[sizes.len() - 1 - at]);
        let expected: u64 = counts[3].range(from..to).map(|(_, count)| count).sum();
        let (from, to) = (from.to_string(), to.to_string());
        let of_range = ["bytes", "--type", "integer", "--from", &from, "--to", &to];
        assert_eq!(count(&of_range), expected, "{from} to {to} bytes");
        finds += 1;
    }
    on(&store, &["verify"]).good();
    println!("{wanted} records of {} files, {finds} finds", found.len());
}
