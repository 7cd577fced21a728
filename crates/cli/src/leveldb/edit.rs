//! The manifest: which tables are live, and from which log on records are not in tables.

use super::{damaged, log};
use crate::failure::{Failure, Result};
use esker::base::coding::{take_slice, take_varint, take_varint_u32};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const COMPARATOR: &str = "leveldb.BytewiseComparator";
/// Levels of a LevelDB store.
const LEVELS: u32 = 7;
/// `CURRENT` holds a file name.
const CURRENT_BYTES_MAX: u64 = 4 << 10;

/// A table as the manifest describes it.
#[derive(Clone, Debug)]
pub(super) struct TableMeta {
    pub(super) number: u64,
    /// Internal key.
    pub(super) smallest: Vec<u8>,
}

/// What the manifest says in the end.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    /// Live tables by level and number.
    pub(super) tables: BTreeMap<(u32, u64), TableMeta>,
    /// Logs from this number on are live.
    pub(super) log_min: u64,
    /// And this one, if it is not 0.
    pub(super) log_previous: u64,
    pub(super) torn_bytes: u64,
}

/// Reads the manifest that `CURRENT` names.
pub(super) fn read(dir: &Path) -> Result<Manifest> {
    let path = manifest_path(dir)?;
    let log = log::read(&path)?;
    let mut manifest = Manifest { torn_bytes: log.torn_bytes, ..Manifest::default() };
    let mut complete = false;
    for (offset, record) in &log.records {
        let mut input = record.as_slice();
        while !input.is_empty() {
            let field = take_field(&mut input, &mut manifest)
                .ok_or_else(|| damaged(&path, *offset, "a version edit is malformed"))?;
            match field {
                Field::Comparator(name) if name != COMPARATOR => {
                    return Err(Failure::other(format!(
                        "{} has its own key order, {name}: only bytewise order can be loaded",
                        dir.display()
                    )));
                }
                Field::LogNumber => complete = true,
                _ => {}
            }
        }
    }
    if !complete {
        return Err(damaged(&path, 0, "the manifest names no log"));
    }
    Ok(manifest)
}

fn manifest_path(dir: &Path) -> Result<PathBuf> {
    let current = dir.join("CURRENT");
    let fail = |error: std::io::Error| Failure::io("read", &current, &error);
    if std::fs::metadata(&current).map_err(fail)?.len() > CURRENT_BYTES_MAX {
        return Err(damaged(&current, 0, "the file is longer than it can be"));
    }
    let text = std::fs::read(&current).map_err(fail)?;
    let text = String::from_utf8(text).unwrap_or_default();
    let Some(name) = text.strip_suffix('\n').filter(|name| name.starts_with("MANIFEST-")) else {
        return Err(damaged(&current, 0, "the file names no manifest"));
    };
    if !name["MANIFEST-".len()..].bytes().all(|b| b.is_ascii_digit()) {
        return Err(damaged(&current, 0, "the file does not name a manifest as LevelDB does"));
    }
    let path = dir.join(name);
    // CURRENT names it, so its absence is damage.
    if path.exists() { Ok(path) } else { Err(damaged(&path, 0, "the manifest is missing")) }
}

enum Field {
    Comparator(String),
    LogNumber,
    Other,
}

/// Applies one field of an edit. `None` if it is malformed.
fn take_field(input: &mut &[u8], manifest: &mut Manifest) -> Option<Field> {
    match take_varint_u32(input)? {
        1 => return Some(Field::Comparator(String::from_utf8_lossy(take_slice(input)?).into())),
        2 => {
            manifest.log_min = take_varint(input)?;
            return Some(Field::LogNumber);
        }
        // Next file number, newest sequence number: for writers.
        3 | 4 => drop(take_varint(input)?),
        // Where compaction goes on: for writers.
        5 => {
            take_level(input)?;
            take_slice(input)?;
        }
        6 => {
            let level = take_level(input)?;
            manifest.tables.remove(&(level, take_varint(input)?));
        }
        7 => {
            let level = take_level(input)?;
            let number = take_varint(input)?;
            let _file_bytes = take_varint(input)?;
            let smallest = take_slice(input)?.to_vec();
            let _largest = take_slice(input)?;
            manifest.tables.insert((level, number), TableMeta { number, smallest });
        }
        9 => manifest.log_previous = take_varint(input)?,
        _ => return None,
    }
    Some(Field::Other)
}

fn take_level(input: &mut &[u8]) -> Option<u32> {
    take_varint_u32(input).filter(|level| *level < LEVELS)
}
