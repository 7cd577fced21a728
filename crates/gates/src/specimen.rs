//! Small stores that hold every kind of file, to be damaged.
//!
//! Each has three keyspaces, compressed with LZ4, with Zstandard and not at all; the first with
//! larger values apart, in logs and in a file of moved ones, the last a tiered tree with several
//! runs in level 1; a table whose index has two partitions, one with range tombstones, an ingested
//! one; two logs, the older of which an idle keyspace needs; and a manifest with edits behind what
//! CURRENT vouches for, unless it was closed.

use crate::history::{History, KEYSPACES, MARKER, Op, State, marker_value, small_options};
use crate::random::Random;
use crate::script::{DIR, World};
use esker::base::Vfs;
use esker::base::vfs::Access;
use esker::base::vfs::strict::{StrictOptions, StrictVfs, Survival};
use esker::stats::TableCounters;
use esker::table::{BlockCache, TableContext, TableFile, TableReader, read_identity};
use esker::{
    Applied, Batch, Compaction, Compression, Db, Durability, GroupPrefix, KeyspaceId,
    KeyspaceOptions, Options, Result, WriteOptions,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Length of a record's head in a log, and of a log's header.
const RECORD_HEAD_BYTES: usize = 9;
const LOG_HEAD_BYTES: usize = 40;

/// A store that nobody has open.
pub struct Specimen {
    /// What it is called in reports.
    pub name: &'static str,
    /// The disk it is on.
    pub disk: StrictVfs,
    /// Options to open it with.
    pub options: Options,
    /// All batches, all of which it holds.
    pub history: History,
    /// Earlier contents of its files, and files of the same kinds from another store.
    pub others: BTreeMap<PathBuf, Vec<(String, Vec<u8>)>>,
    /// The newest log, if the store was not closed: its end may be torn.
    pub open_log: Option<OpenLog>,
}

/// The newest log of a store that was not closed.
pub struct OpenLog {
    /// Its path.
    pub path: PathBuf,
    /// Its records.
    pub records: Vec<Record>,
    /// Marks vouch for everything before this offset.
    pub vouched: u64,
}

/// A record of a log.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Where it starts.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// It is a batch, not a mark or a value.
    pub is_batch: bool,
}

impl Specimen {
    /// The files, without the lock.
    pub fn files(&self) -> Vec<PathBuf> {
        let names = self.disk.file_names(Path::new(DIR));
        let data = names.into_iter().filter(|name| name != "LOCK");
        data.map(|name| Path::new(DIR).join(name)).collect()
    }

    /// Partitions of the index that has the most.
    pub fn partitions_max(&self) -> u64 {
        let tables = self.files().into_iter().filter(|p| p.extension().is_some_and(|e| e == "tbl"));
        let partitions = |path: PathBuf| -> Result<u64> {
            let file = self.disk.open(&path, Access::Random)?;
            let identity = read_identity(file.as_ref(), &path)?;
            let context = TableContext {
                cache: Arc::new(BlockCache::new(1 << 20)),
                number: 1,
                counters: Arc::new(TableCounters::new()),
                pin_bytes_max: 0,
            };
            let file = TableFile::new(file, &path, identity.file_bytes, identity.salt);
            let reader = TableReader::open(file, &KeyspaceOptions::default(), &context)?;
            Ok(reader.properties().partitions)
        };
        tables.filter_map(|path| partitions(path).ok()).max().unwrap_or(0)
    }

    /// The contents after the first `count` batches.
    pub fn state(&self, count: usize) -> State {
        self.history.state_after(count)
    }

    /// How many batches there are left when the open log ends at `offset` at the latest.
    pub fn batches_before(&self, log: &OpenLog, offset: u64) -> usize {
        let lost = log.records.iter().filter(|r| r.is_batch && r.end > offset).count();
        self.history.attempted() - lost
    }
}

/// The specimens: closed; left open with both kinds of logs; left open, and then the power failed.
pub fn all(seed: u64) -> Result<Vec<Specimen>> {
    let kinds = [
        ("closed", true, false, Survival::All),
        ("left open", false, true, Survival::ProcessDeath),
        ("left open, reserved logs", false, false, Survival::ProcessDeath),
        ("power cut", false, true, Survival::None),
    ];
    let mut specimens = Vec::new();
    for (i, (name, closed, plain_logs, survival)) in kinds.into_iter().enumerate() {
        let mut maker = Maker::new(seed + i as u64, plain_logs);
        let (disk, older) = maker.make(closed)?;
        let disk = disk.crash(survival, seed);
        let (options, history) = (maker.options, maker.history);
        let mut specimen =
            Specimen { name, disk, options, history, others: BTreeMap::new(), open_log: None };
        if !closed {
            specimen.open_log = Some(open_log(&specimen)?);
        }
        for (path, bytes) in older {
            if specimen.disk.read_file(&path).is_ok_and(|now| now != bytes) {
                let versions = specimen.others.entry(path).or_default();
                versions.push((format!("version {}", versions.len()), bytes));
            }
        }
        specimens.push(specimen);
    }
    exchange(&mut specimens);
    Ok(specimens)
}

/// A store below a log of somebody else's, closed, and options to open it with: its manifest tells
/// of groups, of one that was deleted while tables held others too, and of one that came as files.
pub fn below_a_log() -> Result<(StrictVfs, Options)> {
    const EXPORT: &str = "/export";
    let disk = StrictVfs::new();
    let mut options = small_options();
    options.durability = Durability::External;
    options.manifest_bytes_max = 1 << 20;
    options.default_keyspace.groups = Some(GroupPrefix::Delimiter { byte: b'/' });
    let db = World::plain(&disk).open(DIR, &options)?;
    let apply = |group: &str, index: u64| {
        let mut batch = Batch::new();
        batch.put(format!("{group}key{index:02}").as_bytes(), &[b'v'; 40]);
        batch.delete(format!("{group}key{:02}", index / 2).as_bytes());
        db.apply(Applied { group: group.as_bytes(), index, note: b"term 7" }, batch)
    };
    for index in 1..=15 {
        ["a/", "b/", "c/"].into_iter().try_for_each(|group| apply(group, index))?;
        if index % 5 == 0 {
            db.flush()?;
        }
    }
    db.export_group(b"c/", EXPORT)?;
    apply("c/", 16)?;
    db.ingest_group(b"c/", EXPORT)?;
    db.delete_group(b"b/")?;
    apply("a/", 16)?;
    db.close()?;
    Ok((disk, options))
}

/// Gives every file those of the same kind, of the same store and of the next one.
fn exchange(specimens: &mut [Specimen]) {
    let contents: Vec<Vec<(PathBuf, Vec<u8>)>> = specimens
        .iter()
        .map(|specimen| {
            let read = |path: PathBuf| specimen.disk.read_file(&path).ok().map(|b| (path, b));
            specimen.files().into_iter().filter_map(read).collect()
        })
        .collect();
    let kind = |path: &Path| match path.extension() {
        Some(extension) => extension.to_string_lossy().into_owned(),
        None => path.to_string_lossy().chars().filter(|c| c.is_alphabetic()).collect(),
    };
    let stores = specimens.len();
    for (i, specimen) in specimens.iter_mut().enumerate() {
        for path in specimen.files() {
            let own = contents[i].iter().map(|file| (specimen.name, file));
            let foreign = contents[(i + 1) % stores].iter().map(|file| ("another store", file));
            for (store, (other, bytes)) in own.chain(foreign) {
                let itself = store == specimen.name && *other == path;
                if !itself && kind(other) == kind(&path) {
                    let label = format!("{} of {store}", other.display());
                    specimen.others.entry(path.clone()).or_default().push((label, bytes.clone()));
                }
            }
        }
    }
}

type OldFiles = Vec<(PathBuf, Vec<u8>)>;

struct Maker {
    world: World,
    options: Options,
    history: History,
    random: Random,
}

impl Maker {
    fn new(seed: u64, plain_logs: bool) -> Maker {
        let strict = StrictVfs::with_options(StrictOptions {
            preallocated_logs: !plain_logs,
            seed,
            ..StrictOptions::default()
        });
        let mut options = small_options();
        options.manifest_bytes_max = 1 << 20;
        options.default_keyspace.level0_runs_compact = 10;
        let with = |compression: Compression| KeyspaceOptions {
            compression: vec![compression],
            block_bytes: 512,
            ..options.default_keyspace.clone()
        };
        let keyspaces = [Compression::Zstd { level: 3 }, Compression::None];
        options.keyspaces = KEYSPACES
            .iter()
            .zip(keyspaces)
            .map(|(name, compression)| ((*name).to_owned(), with(compression)))
            .collect();
        if let Some(tiered) = options.keyspaces.get_mut(KEYSPACES[1]) {
            tiered.compaction = Compaction::Tiered;
            tiered.level0_runs_compact = 2;
            tiered.tiered_runs = 8;
            tiered.run_index = true;
            tiered.run_index_runs_min = 2;
        }
        // Values are moved when they are told to be; runs are not merged for their sake.
        options.value_log_space_amp_max = 100.0;
        options.default_keyspace = with(Compression::Lz4);
        options.default_keyspace.value_log_bytes_min = Some(100);
        options.default_keyspace.value_log_compression = Compression::None;
        let world = World::plain(&strict);
        Maker { world, options, history: History::default(), random: Random::new(seed) }
    }

    /// Runs the store. Returns its disk, and the files as they were at some earlier moments.
    fn make(&mut self, closed: bool) -> Result<(StrictVfs, OldFiles)> {
        let mut older = Vec::new();
        let db = self.world.open(DIR, &self.options)?;
        let mut ids = [KeyspaceId::DEFAULT; 3];
        for (id, name) in ids[1..].iter_mut().zip(KEYSPACES) {
            *id = db.create_keyspace(name, self.options.keyspaces[name].clone())?.id();
        }
        // Every second run of the tiered keyspace makes one of level 1.
        for _ in 0..2 {
            self.fill(&db, &ids, 1, 20, false)?;
            db.keyspace(KEYSPACES[1])?.flush()?;
        }
        self.fill(&db, &ids, 3, 100, false)?;
        let wide = self.wide();
        self.write(&db, &ids, wide, false)?;
        db.flush()?;
        self.note(&mut older);
        self.fill(&db, &ids, 3, 20, true)?;
        self.write(&db, &ids, vec![Op::DeleteRange(1, b"k".to_vec(), b"p".to_vec())], false)?;
        db.flush()?;
        self.ingest(&db, &ids)?;
        // What is alive of the logs of values so far goes into one file.
        db.collect_values(0.0, |_| true)?;
        // Closed once, so that CURRENT vouches for a part of the manifest only.
        db.close()?;
        self.note(&mut older);
        let db = self.world.open(DIR, &self.options)?;
        self.fill(&db, &ids, 2, 20, true)?;
        self.note(&mut older);
        // The default keyspace moves on to a new log; the others still need the old one.
        db.default_keyspace().flush()?;
        self.note(&mut older);
        self.fill(&db, &ids, 2, 20, true)?;
        self.fill(&db, &ids, 2, 20, false)?;
        self.note(&mut older);
        self.fill(&db, &ids, 1, 20, true)?;
        self.fill(&db, &ids, 3, 20, false)?;
        if closed {
            db.close()?;
            return Ok((self.world.strict.clone(), older));
        }
        let left = self.world.strict.deep_copy();
        drop(db);
        Ok((left, older))
    }

    fn note(&self, older: &mut OldFiles) {
        let disk = &self.world.strict;
        for path in disk.all_files() {
            if let Ok(bytes) = disk.read_file(&path)
                && !older.iter().any(|(p, b)| *p == path && *b == bytes)
            {
                older.push((path, bytes));
            }
        }
    }

    /// Records that each fill a block, in pairs whose separators are long: a large index in a small
    /// table, since the values compress well.
    fn wide(&mut self) -> Vec<Op> {
        let mut ops = Vec::new();
        for _ in 0..65 {
            let prefix: Vec<u8> = self.random.bytes(24).iter().map(|b| b'a' + b % 26).collect();
            for end in [b"a", b"c"] {
                ops.push(Op::Put(1, [&prefix[..], end].concat(), vec![b'v'; 600]));
            }
        }
        ops
    }

    /// Batches that put keys into all keyspaces.
    fn fill(
        &mut self,
        db: &Db,
        ids: &[KeyspaceId; 3],
        count: u64,
        key_bytes: u64,
        sync: bool,
    ) -> Result<()> {
        for _ in 0..count {
            let mut ops = Vec::new();
            for keyspace in [0, 0, 1, 2] {
                let mut key = vec![b'a' + self.random.below(26) as u8];
                let tail = self.random.below(key_bytes) as usize;
                key.extend(self.random.bytes(tail).iter().map(|b| b'a' + b % 26));
                let value = [b"value".to_vec(), vec![b'v'; self.random.below(200) as usize]];
                ops.push(Op::Put(keyspace, key, value.concat()));
            }
            self.write(db, ids, ops, sync)?;
        }
        Ok(())
    }

    fn write(&mut self, db: &Db, ids: &[KeyspaceId; 3], ops: Vec<Op>, sync: bool) -> Result<()> {
        let batch = self.history.begin(ops, ids);
        db.write(batch, WriteOptions { sync })?;
        self.history.acknowledge();
        Ok(())
    }

    fn ingest(&mut self, db: &Db, ids: &[KeyspaceId; 3]) -> Result<()> {
        let keys: Vec<Vec<u8>> = (0..12).map(|i| format!("ingested{i:02}").into_bytes()).collect();
        let ops = keys.iter().map(|key| Op::Put(0, key.clone(), b"in".to_vec())).collect();
        let _ = self.history.begin(ops, ids);
        let mut ingest = db.default_keyspace().ingest()?;
        ingest.put(MARKER, &marker_value(self.history.attempted()))?;
        for key in &keys {
            ingest.put(key, b"in")?;
        }
        ingest.finish()?;
        self.history.acknowledge();
        Ok(())
    }
}

fn open_log(specimen: &Specimen) -> Result<OpenLog> {
    let logs = specimen.files().into_iter().filter(|p| p.extension().is_some_and(|e| e == "wal"));
    // A log behind it that was made ready and not begun holds nothing.
    let begun = |path: &PathBuf| {
        specimen.disk.read_file(path).is_ok_and(|bytes| bytes.iter().any(|&byte| byte != 0))
    };
    let path = logs.filter(begun).max().unwrap_or_default();
    let bytes = specimen.disk.read_file(&path)?;
    let number = |at: usize, len: usize| {
        let field = bytes.get(at..at + len).unwrap_or_default();
        field.iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte))
    };
    let (mut records, mut vouched) = (Vec::new(), 0);
    let mut at = LOG_HEAD_BYTES;
    while at + RECORD_HEAD_BYTES <= bytes.len() && bytes[at + 8] != 0 {
        let end = at + RECORD_HEAD_BYTES + number(at + 4, 4) as usize;
        let is_batch = bytes[at + 8] == 1;
        if bytes[at + 8] == 2 {
            vouched = number(end - 8, 8).max(vouched);
        }
        records.push(Record { start: at as u64, end: end as u64, is_batch });
        at = end;
    }
    Ok(OpenLog { path, records, vouched })
}
