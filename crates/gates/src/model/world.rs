//! A store, its model, and what lives across operations: snapshots and cursors.

use super::orders::{LastByte, OrderKind};
use crate::history::{random_compaction, random_values, small_options};
use crate::random::Random;
use esker::base::vfs::strict::{StrictOptions, StrictVfs, Survival};
use esker::base::{Env, Vfs};
use esker::{
    Compaction, Compression, Cursor, Db, Filter, Keyspace, KeyspaceOptions, Options, ScanOptions,
    Setup, Snapshot,
};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

pub(super) const DIR: &str = "/model/db";

/// The contents of a keyspace: model key to key and value.
pub(super) type Map = BTreeMap<Vec<u8>, (Vec<u8>, Vec<u8>)>;

/// The contents of all keyspaces, by name.
pub(super) type Maps = BTreeMap<String, Map>;

/// One change of the model.
#[derive(Clone, Debug)]
enum Change {
    /// Keyspace, model key, key, value.
    Put(String, Vec<u8>, Vec<u8>, Vec<u8>),
    Delete(String, Vec<u8>),
    DeleteRange(String, Vec<u8>, Vec<u8>),
}

impl Change {
    fn apply(&self, maps: &mut Maps) {
        match self {
            Change::Put(name, model_key, key, value) => {
                if let Some(map) = maps.get_mut(name) {
                    map.insert(model_key.clone(), (key.clone(), value.clone()));
                }
            }
            Change::Delete(name, model_key) => {
                if let Some(map) = maps.get_mut(name) {
                    map.remove(model_key);
                }
            }
            Change::DeleteRange(name, start, end) => {
                if let Some(map) = maps.get_mut(name) {
                    map.retain(|key, _| key < start || key >= end);
                }
            }
        }
    }
}

/// A cursor kept while the store changes, with what it should see.
pub(super) struct KeptCursor {
    pub(super) cursor: Cursor,
    pub(super) keys: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) at: Option<usize>,
}

/// Everything of one run.
pub(super) struct World {
    pub(super) vfs: StrictVfs,
    pub(super) random: Random,
    pub(super) order: OrderKind,
    pub(super) options: Options,
    /// Some open made trees tiered.
    pub(super) was_tiered: bool,
    db: Option<Db>,
    pub(super) maps: Maps,
    /// The contents at the last moment that is certainly durable.
    pub(super) durable: Maps,
    /// What each write since then changed, oldest first.
    since_durable: Vec<Vec<Change>>,
    /// What the write under way changed so far.
    pending: Vec<Change>,
    pub(super) snapshots: Vec<(Snapshot, Maps)>,
    pub(super) cursors: Vec<KeptCursor>,
    pub(super) opens: u64,
    pub(super) copies: u64,
    last_put: Option<(String, Vec<u8>, Vec<u8>)>,
    steps: VecDeque<&'static str>,
}

impl World {
    pub(super) fn new(seed: u64, random: &mut Random) -> Result<World, String> {
        let preallocated_logs = random.one_in(2);
        let strict = StrictOptions { preallocated_logs, seed, ..StrictOptions::default() };
        let order = match random.below(5) {
            0 => OrderKind::Reverse,
            1 => OrderKind::Caseless,
            _ => OrderKind::Bytewise,
        };
        let mut world = World {
            vfs: StrictVfs::with_options(strict),
            random: random.clone(),
            order,
            options: small_options(),
            was_tiered: false,
            db: None,
            maps: Maps::from([("default".to_owned(), Map::new())]),
            durable: Maps::from([("default".to_owned(), Map::new())]),
            since_durable: Vec::new(),
            pending: Vec::new(),
            snapshots: Vec::new(),
            cursors: Vec::new(),
            opens: 0,
            copies: 0,
            last_put: None,
            steps: VecDeque::new(),
        };
        world.choose_options();
        world.open()?;
        for name in ["left", "right"] {
            world.add_keyspace(name)?;
        }
        Ok(world)
    }

    /// Draws options at random.
    pub(super) fn choose_options(&mut self) {
        let random = &mut self.random;
        let mut options = small_options();
        options.open_files_max = 16 + random.below(20) as u32;
        let keyspace = &mut options.default_keyspace;
        keyspace.memtable_bytes = 64 << (10 + random.below(3));
        keyspace.block_bytes = 512 << random.below(5);
        keyspace.restart_interval = 1 + random.below(20) as u32;
        keyspace.index_partition_bytes = 1 << (10 + random.below(4));
        keyspace.level_fanout = 2 + random.below(5) as u32;
        keyspace.level0_runs_compact = 1 + random.below(5) as u32;
        keyspace.level0_runs_slow = 12;
        keyspace.order = self.order.order();
        random_compaction(keyspace, random);
        self.was_tiered |= keyspace.compaction == Compaction::Tiered;
        keyspace.tombstone_ratio_compact = if random.one_in(2) { 0.3 } else { 1.0 };
        let compressions = [
            Compression::None,
            Compression::Lz4,
            Compression::Zstd { level: 1 + random.below(4) as i32 },
        ];
        keyspace.compression =
            (0..1 + random.below(4)).map(|_| compressions[random.below(3) as usize]).collect();
        keyspace.filter = match random.below(4) {
            0 => Filter::None,
            1 => Filter::Custom(Arc::new(LastByte)),
            _ => Filter::Bloom { bits_per_key: 1 + random.below(20) as u32 },
        };
        keyspace.table_bytes_max = [16 << 10, 64 << 10][random.below(2) as usize];
        random_values(&mut options, random);
        self.options = options;
    }

    pub(super) fn name_step(&mut self, name: &'static str) {
        if self.steps.len() == 30 {
            self.steps.pop_front();
        }
        self.steps.push_back(name);
    }

    pub(super) fn recent_steps(&self) -> String {
        self.steps.iter().copied().collect::<Vec<_>>().join(", ")
    }

    pub(super) fn describe(&self) -> String {
        let entries: usize = self.maps.values().map(Map::len).sum();
        format!("{:?} order, {entries} entries, {} opens", self.order, self.opens)
    }

    pub(super) fn env(&self) -> Env {
        let seed = self.opens << 32 ^ self.vfs.total_bytes() ^ self.copies << 48;
        Env::with_vfs(Arc::new(self.vfs.clone()), seed)
    }

    pub(super) fn setup(&self) -> Setup {
        Setup { env: self.env(), listener: None, inline_background: true, ..Setup::default() }
    }

    pub(super) fn open(&mut self) -> Result<(), String> {
        self.opens += 1;
        let db = Db::open_with(DIR, self.options.clone(), self.setup());
        self.db = Some(db.map_err(|e| format!("open: {e}"))?);
        Ok(())
    }

    pub(super) fn db(&self) -> &Db {
        self.db.as_ref().expect("open between operations")
    }

    pub(super) fn close(&mut self) -> Result<(), String> {
        self.let_go();
        match self.db.take() {
            Some(db) => db.close().map_err(|e| format!("close: {e}")),
            None => Ok(()),
        }
    }

    /// Forgets the store without closing it in good order.
    pub(super) fn abandon(&mut self) {
        self.let_go();
        self.db = None;
    }

    fn let_go(&mut self) {
        self.snapshots.clear();
        self.cursors.clear();
    }

    pub(super) fn keyspace(&self, name: &str) -> Result<Keyspace, String> {
        self.db().keyspace(name).map_err(|e| e.to_string())
    }

    pub(super) fn keyspace_options(&self) -> KeyspaceOptions {
        self.options.default_keyspace.clone()
    }

    /// A keyspace at random.
    pub(super) fn some_keyspace(&mut self) -> Result<(String, Keyspace), String> {
        let at = self.random.below(self.maps.len() as u64) as usize;
        let name = self.maps.keys().nth(at).cloned().ok_or("no keyspace")?;
        let keyspace = self.keyspace(&name)?;
        Ok((name, keyspace))
    }

    pub(super) fn add_keyspace(&mut self, name: &str) -> Result<(), String> {
        let options = self.keyspace_options();
        self.db().create_keyspace(name, options).map_err(|e| e.to_string())?;
        self.maps.insert(name.to_owned(), Map::new());
        // It is durable at once, beside whatever was written before.
        self.durable.insert(name.to_owned(), Map::new());
        Ok(())
    }

    /// A key at random; all have one length.
    pub(super) fn key(&mut self) -> Vec<u8> {
        let number = self.random.below(300);
        let mut key = format!("k{number:04}x").into_bytes();
        if self.order == OrderKind::Caseless && self.random.one_in(2) {
            key.make_ascii_uppercase();
        }
        key
    }

    pub(super) fn value(&mut self) -> Vec<u8> {
        let len = match self.random.below(40) {
            0 => self.random.below(9_000),
            1..=5 => self.random.below(1_000),
            _ => self.random.below(60),
        };
        self.random.bytes(len as usize)
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.maps);
        self.pending.push(change);
    }

    /// Notes a put in the model.
    pub(super) fn model_put(&mut self, name: &str, key: &[u8], value: &[u8]) {
        let model_key = self.order.model_key(key);
        let (key, value) = (key.to_vec(), value.to_vec());
        self.last_put = Some((name.to_owned(), key.clone(), value.clone()));
        self.change(Change::Put(name.to_owned(), model_key, key, value));
    }

    pub(super) fn last_put(&self) -> Option<(String, Vec<u8>, Vec<u8>)> {
        self.last_put.clone().filter(|(name, ..)| self.maps.contains_key(name))
    }

    pub(super) fn model_delete(&mut self, name: &str, key: &[u8]) {
        let model_key = self.order.model_key(key);
        self.change(Change::Delete(name.to_owned(), model_key));
    }

    pub(super) fn model_delete_range(&mut self, name: &str, start: &[u8], end: &[u8]) {
        let (start, end) = (self.order.model_key(start), self.order.model_key(end));
        self.change(Change::DeleteRange(name.to_owned(), start, end));
    }

    /// Notes that a write is done.
    pub(super) fn wrote(&mut self) {
        let changes = std::mem::take(&mut self.pending);
        self.since_durable.push(changes);
        if self.since_durable.len() > 500 && self.db().sync().is_ok() {
            self.all_durable();
        }
    }

    pub(super) fn all_durable(&mut self) {
        self.durable = self.maps.clone();
        self.since_durable.clear();
        self.pending.clear();
    }

    /// Forgets a keyspace, now and in the past: dropping one is durable at once.
    pub(super) fn forget_keyspace(&mut self, name: &str) {
        self.maps.remove(name);
        self.durable.remove(name);
        for (_, maps) in &mut self.snapshots {
            maps.remove(name);
        }
        // A keyspace made later under the same name starts empty.
        for change in self.since_durable.iter_mut().flatten() {
            let (Change::Put(named, ..)
            | Change::Delete(named, _)
            | Change::DeleteRange(named, ..)) = change;
            if named == name {
                named.clear();
            }
        }
    }

    /// The keys and values of a map between two model keys.
    pub(super) fn pairs(
        map: &Map,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        map.iter()
            .filter(|(key, _)| start.is_none_or(|s| key.as_slice() >= s))
            .filter(|(key, _)| end.is_none_or(|e| key.as_slice() < e))
            .map(|(_, pair)| pair.clone())
            .collect()
    }

    /// Compares the whole store with the model.
    pub(super) fn compare_all(&self) -> Result<(), String> {
        compare(self.db(), &self.maps)
    }

    /// The machine loses power; what survives must be one of the states since the last durable one.
    pub(super) fn survive(&mut self, survival: Survival) -> Result<(), String> {
        let seed = self.random.next_u64();
        self.vfs.power_off();
        self.abandon();
        self.vfs = self.vfs.crash(survival, seed);
        self.open()?;
        let must_be_newest = survival == Survival::ProcessDeath;
        let mut state = self.durable.clone();
        let mut changes = self.since_durable.iter();
        let mut last_error = "never compared".to_owned();
        let found = loop {
            if !must_be_newest || changes.len() == 0 {
                match compare(self.db(), &state) {
                    Ok(()) => break Some(state),
                    Err(error) => last_error = error,
                }
            }
            match changes.next() {
                Some(step) => step.iter().for_each(|change| change.apply(&mut state)),
                None => break None,
            }
        };
        let found = found.ok_or_else(|| format!("{survival:?}: no prefix fits: {last_error}"))?;
        self.maps = found;
        self.db().sync().map_err(|e| e.to_string())?;
        self.all_durable();
        Ok(())
    }
}

/// Compares a store with the contents it should have.
pub(super) fn compare(db: &Db, maps: &Maps) -> Result<(), String> {
    let mut names = db.keyspace_names();
    names.sort();
    if !names.iter().eq(maps.keys()) {
        return Err(format!("keyspaces {names:?}, should be {:?}", maps.keys()));
    }
    for (name, map) in maps {
        let keyspace = db.keyspace(name).map_err(|e| e.to_string())?;
        let mut cursor = keyspace.scan(&ScanOptions::default()).map_err(|e| e.to_string())?;
        cursor.seek_to_first().map_err(|e| e.to_string())?;
        for (key, value) in map.values() {
            if !cursor.valid() || cursor.key() != &key[..] || cursor.value() != &value[..] {
                let found = cursor.valid().then(|| {
                    format!("{} of {} bytes", cursor.key().escape_ascii(), cursor.value().len())
                });
                return Err(format!(
                    "{name}: expected {} of {} bytes, found {found:?}",
                    key.escape_ascii(),
                    value.len()
                ));
            }
            cursor.next().map_err(|e| e.to_string())?;
        }
        if cursor.valid() {
            return Err(format!("{name}: {} is too much", cursor.key().escape_ascii()));
        }
    }
    Ok(())
}

/// Removes a directory of the strict disk.
pub(super) fn remove_dir(vfs: &StrictVfs, dir: &str) -> Result<(), String> {
    let dir = Path::new(dir);
    for entry in vfs.list(dir).map_err(|e| e.to_string())? {
        vfs.remove(&dir.join(entry.name)).map_err(|e| e.to_string())?;
    }
    vfs.remove_dir(dir).map_err(|e| e.to_string())
}
