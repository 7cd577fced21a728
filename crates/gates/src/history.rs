//! What a store should hold: every state it went through, by the number of batches applied.
//!
//! Each batch also writes its own number under [`MARKER`], so that a reopened store says itself
//! which prefix it claims to be; the rest of its contents is then compared with that prefix, whole.
//! Key and number are as short as can be: a batch without operations is one of the shortest writes
//! there are.

use crate::random::Random;
use esker::{
    Batch, Compaction, Compression, Db, Error, Keyspace, KeyspaceId, KeyspaceOptions, Options,
    ScanOptions, Scheduler, TimeSlice,
};
use std::collections::{BTreeMap, BTreeSet};

/// The key under which each batch writes its number.
pub const MARKER: &[u8] = b"";

/// What batch `number` writes under [`MARKER`].
pub fn marker_value(number: usize) -> Vec<u8> {
    let bytes = number.to_le_bytes();
    let len = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    bytes[..len].to_vec()
}

/// The number that a store's [`MARKER`] says, if batches can have it.
pub fn marker_number(value: &[u8]) -> Option<usize> {
    let mut bytes = [0; size_of::<usize>()];
    bytes.get_mut(..value.len())?.copy_from_slice(value);
    let number = usize::from_le_bytes(bytes);
    (marker_value(number) == value).then_some(number)
}

/// Keyspaces of the histories, beside the default one.
pub const KEYSPACES: [&str; 2] = ["left", "right"];

/// One operation.
#[derive(Clone, Debug)]
pub enum Op {
    /// Sets a key.
    Put(usize, Vec<u8>, Vec<u8>),
    /// Removes a key.
    Delete(usize, Vec<u8>),
    /// Removes `[start, end)`.
    DeleteRange(usize, Vec<u8>, Vec<u8>),
}

/// Why a comparison did not succeed.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// The store refused to answer.
    Failed(Error),
    /// The store answered wrongly.
    Wrong(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Failed(error)
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Failed(error) => write!(f, "{error}"),
            Trouble::Wrong(what) => f.write_str(what),
        }
    }
}

/// The contents of all keyspaces.
pub type State = [BTreeMap<Vec<u8>, Vec<u8>>; 3];

/// Batches in the order of writing, and what is known of their fate.
#[derive(Clone, Debug, Default)]
pub struct History {
    batches: Vec<Vec<Op>>,
    /// Batches of which the store said that they are written.
    pub acknowledged: usize,
    /// Batches of which the store said that they are durable.
    pub durable: usize,
    /// The batch begun last is an ingest, whose marker is not written yet.
    pub ingest_pending: bool,
    /// That ingest was acknowledged.
    pub ingested: bool,
}

/// Small files and levels, so that few writes make many of them.
pub fn small_options() -> Options {
    let mut options = Options {
        memory_budget_bytes: 8 << 20,
        memtables_bytes_max: 1 << 20,
        wal_bytes_max: 1 << 20,
        compaction_threads: 1,
        open_files_max: 16,
        manifest_bytes_max: 4 << 10,
        ..Options::default()
    };
    let keyspace = &mut options.default_keyspace;
    keyspace.memtable_bytes = 64 << 10;
    keyspace.block_bytes = 1 << 10;
    keyspace.restart_interval = 4;
    keyspace.index_partition_bytes = 1 << 10;
    keyspace.table_bytes_max = 64 << 10;
    keyspace.level_base_bytes = 128 << 10;
    keyspace.level_fanout = 3;
    keyspace.level0_runs_compact = 2;
    options
}

/// How many shapes [`set_shape`] gives.
pub const SHAPES: u64 = 12;

/// Gives a tree one of all shapes that it can have: leveled, tiered or tiered with a run index,
/// each with its levels in one of four orders. From a shape to the fourth next the order is the
/// same.
pub fn set_shape(keyspace: &mut KeyspaceOptions, nth: u64) {
    (keyspace.compaction, keyspace.run_index) = match nth / 4 % 3 {
        0 => (Compaction::Leveled, false),
        1 => (Compaction::Tiered, false),
        _ => (Compaction::Tiered, true),
    };
    keyspace.scheduler = scheduler(nth % 4);
}

fn scheduler(nth: u64) -> Scheduler {
    match nth {
        0 => Scheduler::Ratio,
        1 => Scheduler::Priority,
        2 => Scheduler::TimeSlice(TimeSlice::default()),
        _ => Scheduler::TimeSlice(TimeSlice { slice_ms: Some(1), release_share: 0.5 }),
    }
}

/// Draws the shape that compactions give a tree, the order in which levels get it, and whether runs
/// are indexed. They may change whenever the store is opened.
pub fn random_compaction(keyspace: &mut KeyspaceOptions, random: &mut Random) {
    keyspace.compaction = [Compaction::Leveled, Compaction::Tiered][random.below(2) as usize];
    keyspace.tiered_runs = 2 + random.below(4) as u32;
    keyspace.run_index = keyspace.compaction == Compaction::Tiered
        && keyspace.order.is_bytewise()
        && random.one_in(2);
    keyspace.run_index_runs_min = 2 + random.below(3) as u32;
    keyspace.scheduler = scheduler(random.below(4));
}

/// Draws which values are kept apart, how, and how much of their space may be wasted. They may
/// change whenever the store is opened.
pub fn random_values(options: &mut Options, random: &mut Random) {
    let keyspace = &mut options.default_keyspace;
    keyspace.value_log_bytes_min =
        random.one_in(2).then(|| [64, 200, 1_500][random.below(3) as usize]);
    keyspace.value_log_compression = match random.below(3) {
        0 => Compression::None,
        1 => Compression::Lz4,
        _ => Compression::Zstd { level: 1 },
    };
    options.value_log_file_bytes = 4 << (10 + random.below(4));
    options.value_log_space_amp_max = [1.1, 1.3, 2.0][random.below(3) as usize];
}

/// Draws all of that: what may differ from one open to the next.
pub fn vary(options: &mut Options, random: &mut Random) {
    random_compaction(&mut options.default_keyspace, random);
    random_values(options, random);
}

impl History {
    /// Batches tried so far, the last of which may have failed.
    pub fn attempted(&self) -> usize {
        self.batches.len()
    }

    /// The batches.
    pub fn batches(&self) -> &[Vec<Op>] {
        &self.batches
    }

    /// Notes the next batch and encodes it.
    pub fn begin(&mut self, ops: Vec<Op>, ids: &[KeyspaceId; 3]) -> Batch {
        let mut batch = Batch::new();
        for op in &ops {
            match op {
                Op::Put(k, key, value) => batch.put_in(ids[*k], key, value),
                Op::Delete(k, key) => batch.delete_in(ids[*k], key),
                Op::DeleteRange(k, start, end) => batch.delete_range_in(ids[*k], start, end),
            };
        }
        self.batches.push(ops);
        batch.put(MARKER, &marker_value(self.batches.len()));
        batch
    }

    /// The batch begun last was written.
    pub fn acknowledge(&mut self) {
        self.acknowledged = self.batches.len();
    }

    /// The batch begun last failed and is certainly not in the store.
    pub fn withdraw(&mut self) {
        self.batches.pop();
    }

    /// Everything acknowledged so far is durable.
    pub fn all_durable(&mut self) {
        self.durable = self.acknowledged;
    }

    /// The contents after the first `count` batches.
    pub fn state_after(&self, count: usize) -> State {
        let mut state = State::default();
        for (i, ops) in self.batches[..count].iter().enumerate() {
            for op in ops {
                apply(&mut state, op);
            }
            state[0].insert(MARKER.to_vec(), marker_value(i + 1));
        }
        state
    }

    /// As [`History::check`]; a pending ingest may stand without its marker.
    pub fn check_with_ingest(&self, db: &Db, least: usize) -> Result<usize, String> {
        let plain = self.check(db, least);
        if !self.ingest_pending || (plain.is_ok() && !self.ingested) {
            return plain;
        }
        let mut state = self.state_after(self.batches.len());
        let before = self.state_after(self.batches.len() - 1);
        match before[0].get(MARKER) {
            Some(number) => state[0].insert(MARKER.to_vec(), number.clone()),
            None => state[0].remove(MARKER),
        };
        match (compare(db, &state), plain) {
            (Ok(()), _) => Ok(self.batches.len() - 1),
            (Err(with), Ok(count)) if count == self.batches.len() => {
                let _ = with;
                Ok(count)
            }
            (Err(with), Err(without)) => {
                Err(format!("with the ingest: {with}; without: {without}"))
            }
            (Err(with), Ok(_)) => Err(format!("an acknowledged ingest is gone: {with}")),
        }
    }

    /// Checks that a store holds one of the prefixes from `least` on. Returns which.
    pub fn check(&self, db: &Db, least: usize) -> Result<usize, String> {
        let marker = db.get(MARKER).map_err(|e| format!("reading the marker: {e}"))?;
        let count = match &marker {
            None => 0,
            Some(value) => {
                marker_number(value).ok_or_else(|| format!("the marker is {value:?}"))?
            }
        };
        if count < least {
            return Err(format!("{count} batches survived of {least} that had to"));
        }
        if count > self.batches.len() {
            return Err(format!("batch {count} was never written"));
        }
        compare(db, &self.state_after(count)).map_err(|e| format!("after {count} batches: {e}"))?;
        Ok(count)
    }
}

fn apply(state: &mut State, op: &Op) {
    match op {
        Op::Put(k, key, value) => {
            state[*k].insert(key.clone(), value.clone());
        }
        Op::Delete(k, key) => {
            state[*k].remove(key);
        }
        Op::DeleteRange(k, start, end) => {
            state[*k].retain(|key, _| key < start || key >= end);
        }
    }
}

/// The default keyspace and [`KEYSPACES`], created where they are missing.
pub fn keyspaces(db: &Db) -> esker::Result<[Keyspace; 3]> {
    let existing = db.keyspace_names();
    let open = |name: &str| match existing.iter().any(|n| n == name) {
        true => db.keyspace(name),
        false => db.create_keyspace(name, small_options().default_keyspace),
    };
    Ok([db.default_keyspace().clone(), open(KEYSPACES[0])?, open(KEYSPACES[1])?])
}

/// Compares a store with a state: by scanning forward, backward and without order, and by reading
/// keys.
pub fn compare(db: &Db, state: &State) -> Result<(), String> {
    compare_or_fail(db, state).map_err(|trouble| trouble.to_string())
}

/// As [`compare`], telling a refusal from a wrong answer.
pub fn compare_or_fail(db: &Db, state: &State) -> Result<(), Trouble> {
    let names = db.keyspace_names();
    for (i, expected) in state.iter().enumerate() {
        let name = if i == 0 { "default" } else { KEYSPACES[i - 1] };
        if !names.iter().any(|n| n == name) {
            if expected.is_empty() {
                continue;
            }
            return Err(Trouble::Wrong(format!("keyspace {name} is gone")));
        }
        let keyspace = db.keyspace(name)?;
        compare_keyspace(&keyspace, expected).map_err(|trouble| match trouble {
            Trouble::Wrong(what) => Trouble::Wrong(format!("keyspace {name}: {what}")),
            failed => failed,
        })?;
    }
    Ok(())
}

fn compare_keyspace(
    keyspace: &Keyspace,
    expected: &BTreeMap<Vec<u8>, Vec<u8>>,
) -> Result<(), Trouble> {
    let wrong = |what: String| Err(Trouble::Wrong(what));
    let mut cursor = keyspace.scan(&ScanOptions::default())?;
    cursor.seek_to_first()?;
    for (key, value) in expected {
        if !cursor.valid() || cursor.key() != &key[..] || cursor.value() != &value[..] {
            let found = cursor.valid().then(|| cursor.key().escape_ascii().to_string());
            return wrong(format!("forward: expected {}, found {found:?}", key.escape_ascii()));
        }
        cursor.next()?;
    }
    if cursor.valid() {
        return wrong(format!("forward: {} should not be there", cursor.key().escape_ascii()));
    }
    cursor.seek_to_last()?;
    for (key, value) in expected.iter().rev() {
        if !cursor.valid() || cursor.key() != &key[..] || cursor.value() != &value[..] {
            let found = cursor.valid().then(|| cursor.key().escape_ascii().to_string());
            return wrong(format!("backward: expected {}, found {found:?}", key.escape_ascii()));
        }
        cursor.prev()?;
    }
    if cursor.valid() {
        return wrong(format!("backward: {} should not be there", cursor.key().escape_ascii()));
    }
    if let Some(what) = walk_unordered(keyspace, expected)? {
        return wrong(what);
    }
    for (key, value) in expected.iter().step_by(7) {
        match keyspace.get(key)? {
            Some(found) if found == *value => {}
            found => {
                let found = found.map(|v| v.len());
                return wrong(format!("get {}: found {found:?} bytes", key.escape_ascii()));
            }
        }
    }
    Ok(())
}

/// What is wrong with what a scan without order gives, if anything is.
pub fn walk_unordered(
    keyspace: &Keyspace,
    expected: &BTreeMap<Vec<u8>, Vec<u8>>,
) -> Result<Option<String>, Error> {
    // Little memory, so that it reads values many times.
    let mut cursor = keyspace.scan_unordered(&ScanOptions::default(), 1 << 10)?;
    let mut seen = BTreeSet::new();
    while cursor.advance()? {
        let key = cursor.key().to_vec();
        if expected.get(&key).map(Vec::as_slice) != Some(cursor.value()) {
            return Ok(Some(format!("without order: {} is not so", key.escape_ascii())));
        }
        if let Some(twice) = seen.replace(key) {
            return Ok(Some(format!("without order: {} twice", twice.escape_ascii())));
        }
    }
    let (seen, all) = (seen.len(), expected.len());
    Ok((seen != all).then(|| format!("without order: {seen} of {all} keys")))
}

/// A batch of random operations over few keys.
pub fn random_ops(random: &mut Random, value_bytes_max: u64) -> Vec<Op> {
    let key = |random: &mut Random| format!("key{:03}", random.below(200)).into_bytes();
    (0..1 + random.below(4))
        .map(|_| {
            let keyspace = random.below(3) as usize;
            let first = key(random);
            match random.below(20) {
                0..=13 => {
                    let len = random.below(value_bytes_max) as usize;
                    Op::Put(keyspace, first, random.bytes(len))
                }
                14..=18 => Op::Delete(keyspace, first),
                _ => Op::DeleteRange(keyspace, first, key(random)),
            }
        })
        .collect()
}
