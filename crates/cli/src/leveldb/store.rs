//! A whole store: what its logs and tables hold together, in key order.

use super::edit::{self, Manifest, TableMeta};
use super::table::Table;
use super::{KIND_DELETE, KIND_PUT, damaged, log, split_key};
use crate::failure::{Code, Failure, Result};
use crate::store::holds_tables;
use esker::base::coding::{take_slice, take_u8, take_u32, take_u64};
use rustix::fs::{FlockOperation, fcntl_lock};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque, btree_map};
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

/// A record of the store.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// Newest record of each key in the logs: sequence number, and the value or a deletion.
type Memory = BTreeMap<Vec<u8>, (u64, Option<Vec<u8>>)>;

/// Reads a store in key order.
#[derive(Debug)]
pub(crate) struct Store {
    /// Keeps LevelDB from opening the store meanwhile.
    _lock: Option<File>,
    sources: Vec<Source>,
    notes: VecDeque<String>,
    bytes_total: u64,
    log_bytes: u64,
}

/// One sorted sequence of records, standing on one of them.
#[derive(Debug)]
struct Source {
    records: Records,
    /// The record it stands on; `None` at the end.
    head: Option<Head>,
    read_bytes: u64,
}

#[derive(Debug)]
struct Head {
    key: Vec<u8>,
    seq: u64,
    value: Option<Vec<u8>>,
}

#[derive(Debug)]
enum Records {
    Memory(btree_map::IntoIter<Vec<u8>, (u64, Option<Vec<u8>>)>),
    /// Tables that do not overlap, in order.
    Tables {
        open: Option<Box<Table>>,
        waiting: VecDeque<PathBuf>,
    },
}

impl Store {
    /// Opens a store and reads its logs.
    ///
    /// # Errors
    /// `NotFound`: no store there. `Busy`: somebody has it open. `Corruption`.
    pub(crate) fn open(dir: &Path) -> Result<Store> {
        if !dir.join("CURRENT").exists() {
            let what = format!("no LevelDB store in {}: check the path", dir.display());
            return Err(Failure::new(Code::NotFound, what));
        }
        if holds_tables(dir) {
            let dir = dir.display();
            let what = format!("{dir} is a store of Esker: name one of LevelDB, or use checkpoint");
            return Err(Failure::new(Code::NotFound, what));
        }
        let lock = lock(&dir.join("LOCK"))?;
        let manifest = edit::read(dir)?;
        let mut store = Store {
            _lock: lock,
            sources: Vec::new(),
            notes: VecDeque::new(),
            bytes_total: 0,
            log_bytes: 0,
        };
        store.note_torn(manifest.torn_bytes, "the manifest");
        let memory = store.read_logs(dir, &manifest)?;
        store.add(Records::Memory(memory.into_iter()))?;
        for tables in store.sorted_tables(dir, &manifest)? {
            store.add(Records::Tables { open: None, waiting: tables.into() })?;
        }
        Ok(store)
    }

    fn note_torn(&mut self, bytes: u64, what: &str) {
        if bytes > 0 {
            self.notes.push_back(format!(
                "the last {bytes} bytes of {what} are no whole record, as after a crash; left out"
            ));
        }
    }

    /// Sequences of tables that do not overlap: each table of level 0, and each deeper level.
    fn sorted_tables(&mut self, dir: &Path, manifest: &Manifest) -> Result<Vec<Vec<PathBuf>>> {
        let mut levels: BTreeMap<u32, Vec<&TableMeta>> = BTreeMap::new();
        for ((level, _), table) in &manifest.tables {
            levels.entry(*level).or_default().push(table);
        }
        let mut sequences = Vec::new();
        for (level, mut tables) in levels {
            tables.sort_by(|a, b| in_order(&a.smallest).cmp(&in_order(&b.smallest)));
            let mut paths = Vec::new();
            for table in tables {
                let path = table_path(dir, table.number)?;
                self.bytes_total += fs::metadata(&path).map_or(0, |metadata| metadata.len());
                paths.push(path);
            }
            match level {
                0 => sequences.extend(paths.into_iter().map(|path| vec![path])),
                _ => sequences.push(paths),
            }
        }
        Ok(sequences)
    }

    /// What is in the live logs.
    fn read_logs(&mut self, dir: &Path, manifest: &Manifest) -> Result<Memory> {
        let mut logs: Vec<(u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(dir).map_err(|error| Failure::io("read", dir, &error))? {
            let entry = entry.map_err(|error| Failure::io("read", dir, &error))?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".log"));
            let number: Option<u64> = number.and_then(|digits| digits.parse().ok());
            if let Some(number) = number
                && (number >= manifest.log_min || number == manifest.log_previous)
            {
                logs.push((number, entry.path()));
            }
        }
        logs.sort_unstable();
        let mut memory = Memory::new();
        for (number, path) in logs {
            let log = log::read(&path)?;
            self.note_torn(log.torn_bytes, &format!("log {number:06}"));
            for (offset, batch) in &log.records {
                apply(batch, &mut memory)
                    .ok_or_else(|| damaged(&path, *offset, "a batch is malformed"))?;
                self.log_bytes += batch.len() as u64;
            }
        }
        self.bytes_total += self.log_bytes;
        Ok(memory)
    }

    fn add(&mut self, records: Records) -> Result<()> {
        let mut source = Source { records, head: None, read_bytes: 0 };
        source.advance()?;
        self.sources.push(source);
        Ok(())
    }

    /// Something the user should know, told once.
    pub(crate) fn take_note(&mut self) -> Option<String> {
        self.notes.pop_front()
    }

    /// Bytes of live logs and tables.
    pub(crate) fn bytes_total(&self) -> u64 {
        self.bytes_total
    }

    /// Bytes read so far, about.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.log_bytes + self.sources.iter().map(|source| source.read_bytes).sum::<u64>()
    }

    /// The next record that is not deleted.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>> {
        loop {
            // The least key; of equal ones the newest.
            let heads = self.sources.iter().enumerate();
            let heads = heads.filter_map(|(i, source)| source.head.as_ref().map(|head| (i, head)));
            let least = heads.min_by(|(_, a), (_, b)| a.key.cmp(&b.key).then(b.seq.cmp(&a.seq)));
            let Some((winner, _)) = least else { return Ok(None) };
            let Some(head) = self.sources[winner].head.take() else { return Ok(None) };
            self.sources[winner].advance()?;
            for source in &mut self.sources {
                while source.head.as_ref().is_some_and(|other| other.key == head.key) {
                    source.advance()?;
                }
            }
            if let Some(value) = head.value {
                return Ok(Some(Entry { key: head.key, value }));
            }
        }
    }
}

impl Source {
    /// Moves to the next record.
    fn advance(&mut self) -> Result<()> {
        self.head = match &mut self.records {
            Records::Memory(records) => {
                records.next().map(|(key, (seq, value))| Head { key, seq, value })
            }
            Records::Tables { open, waiting } => loop {
                if let Some(table) = open {
                    let before = table.read_bytes;
                    let found = table.next()?;
                    self.read_bytes += table.read_bytes - before;
                    if found {
                        break Some(head_of(table)?);
                    }
                }
                match waiting.pop_front() {
                    Some(path) => *open = Some(Box::new(Table::open(&path)?)),
                    None => break None,
                }
            },
        };
        Ok(())
    }
}

/// Where a table stands in its level, by its smallest key: where a key was cut, its newer records
/// come first.
fn in_order(smallest: &[u8]) -> Option<(&[u8], Reverse<u64>)> {
    split_key(smallest).map(|(key, seq, _)| (key, Reverse(seq)))
}

fn head_of(table: &Table) -> Result<Head> {
    let (key, seq, kind) =
        split_key(&table.key).ok_or_else(|| table.fault("a key is too short"))?;
    let value = match kind {
        KIND_PUT => Some(table.value.clone()),
        KIND_DELETE => None,
        _ => return Err(table.fault("unknown kind of record")),
    };
    Ok(Head { key: key.to_vec(), seq, value })
}

/// Applies a batch: sequence number, count, records. `None` if it is malformed.
fn apply(batch: &[u8], memory: &mut Memory) -> Option<()> {
    let mut input = batch;
    let first_seq = take_u64(&mut input)?;
    let count = take_u32(&mut input)?;
    for i in 0..u64::from(count) {
        let kind = take_u8(&mut input)?;
        let key = take_slice(&mut input)?.to_vec();
        let value = match kind {
            KIND_PUT => Some(take_slice(&mut input)?.to_vec()),
            KIND_DELETE => None,
            _ => return None,
        };
        memory.insert(key, (first_seq.checked_add(i)?, value));
    }
    input.is_empty().then_some(())
}

/// Tables have had two names.
fn table_path(dir: &Path, number: u64) -> Result<PathBuf> {
    let path = dir.join(format!("{number:06}.ldb"));
    let older = dir.join(format!("{number:06}.sst"));
    match (path.exists(), older.exists()) {
        (true, _) => Ok(path),
        (_, true) => Ok(older),
        _ => Err(damaged(&path, 0, "the table is missing")),
    }
}

/// Takes the lock that LevelDB takes. `None` where there is none, or where nobody can write.
fn lock(path: &Path) -> Result<Option<File>> {
    let Ok(file) = OpenOptions::new().write(true).open(path) else { return Ok(None) };
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => Err(Failure::new(
            Code::Busy,
            format!("{} is held by another process: close it there", path.display()),
        )),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_tables_that_begin_with_the_same_key_the_newer_comes_first() {
        let internal = |key: &[u8], seq: u64| [key, &(seq << 8 | 1).to_le_bytes()].concat();
        let mut keys =
            [internal(b"b", 300), internal(b"a", 5), internal(b"a", 256), internal(b"aa", 9)];
        keys.sort_by(|a, b| in_order(a).cmp(&in_order(b)));
        let newest_first =
            [internal(b"a", 256), internal(b"a", 5), internal(b"aa", 9), internal(b"b", 300)];
        assert_eq!(keys, newest_first);
    }
}
