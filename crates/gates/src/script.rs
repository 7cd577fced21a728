//! Random scripts over a store, and the check of what is left of one.
//!
//! A [`Player`] plays steps and keeps the [`History`]. A step that fails counts as if it had never
//! been, unless the store is poisoned by it: then its fate is open until the store is reopened, and
//! nothing can follow it.

use crate::history::{
    History, KEYSPACES, MARKER, Op, State, Trouble, compare, compare_or_fail, keyspaces,
    marker_value, random_ops, small_options, vary,
};
use crate::random::Random;
use esker::base::vfs::strict::StrictVfs;
use esker::base::{Env, Vfs};
use esker::event::EventListener;
use esker::repair::{RepairReport, repair};
use esker::{Batch, Compression, Db, Error, Options, Result, Setup, WriteOptions};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Where the store is.
pub const DIR: &str = "/db";

/// A disk and how stores on it are opened.
#[derive(Clone)]
pub struct World {
    /// The disk itself.
    pub strict: StrictVfs,
    /// The disk as the store sees it.
    pub vfs: Arc<dyn Vfs>,
    /// Do background work on the caller's thread.
    pub inline: bool,
    /// Hears of events.
    pub listener: Option<Arc<dyn EventListener>>,
}

impl World {
    /// A store sees the disk as it is.
    pub fn plain(strict: &StrictVfs) -> World {
        let vfs = Arc::new(strict.clone());
        World { strict: strict.clone(), vfs, inline: true, listener: None }
    }

    fn setup(&self) -> Setup {
        let disk = &self.strict;
        // Every open draws other random numbers, as it would in life, yet the same ones when
        // repeated.
        let seed = disk.total_bytes()
            ^ disk.mutating_calls() << 32
            ^ (disk.all_files().len() as u64) << 48;
        Setup {
            env: Env::with_vfs(self.vfs.clone(), seed),
            listener: self.listener.clone(),
            inline_background: self.inline,
            ..Setup::default()
        }
    }

    /// Opens a store.
    pub fn open(&self, dir: &str, options: &Options) -> Result<Db> {
        Db::open_with(dir, options.clone(), self.setup())
    }

    /// Repairs a store that is closed.
    pub fn repair(&self, dir: &str, options: &Options) -> Result<RepairReport> {
        repair(Path::new(dir), options, self.setup(), |_| true)
    }

    /// Opens a store for reading.
    pub fn open_read_only(&self, dir: &str, options: &Options) -> Result<Db> {
        Db::open_read_only_with(dir, options.clone(), self.setup())
    }
}

/// One step of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Writes a batch with values up to so many bytes.
    Write(u64),
    /// The same, synced.
    WriteSynced(u64),
    /// Writes a batch as short as can be.
    WriteShortest,
    /// Syncs what was written.
    Sync,
    /// Flushes all keyspaces.
    Flush,
    /// Compacts all keyspaces.
    Compact,
    /// Moves values so that no file of them holds dead ones.
    Collect,
    /// Copies the store.
    Checkpoint,
    /// Loads tables.
    Ingest,
    /// Creates a keyspace.
    CreateGuest,
    /// Drops the keyspace created last.
    DropGuest,
    /// Closes and opens.
    Reopen,
    /// Drops the handles and opens.
    DropAndReopen,
    /// Closes and opens with other options.
    ReopenOtherwise,
    /// Compares everything.
    Read,
}

/// A script of `count` random steps.
pub fn random_steps(random: &mut Random, count: u64) -> Vec<Step> {
    let size = |random: &mut Random| [20, 200, 2_000, 8_000, 40_000][random.below(5) as usize];
    let mut steps = Vec::new();
    while (steps.len() as u64) < count {
        steps.push(match random.below(40) {
            0..=3 => Step::WriteSynced(size(random)),
            4 => Step::Sync,
            5..=8 => Step::Flush,
            9 => Step::Compact,
            10 => Step::Collect,
            11 => Step::Checkpoint,
            12 | 13 => Step::Ingest,
            14 | 15 => Step::CreateGuest,
            16 => Step::DropGuest,
            17 | 18 => Step::Reopen,
            19 => Step::DropAndReopen,
            20 => Step::ReopenOtherwise,
            21..=23 => Step::WriteShortest,
            _ => Step::Write(size(random)),
        });
    }
    steps
}

/// Small options that differ in compression, filters and compaction from seed to seed.
pub fn random_options(random: &mut Random) -> Options {
    let mut options = small_options();
    options.default_keyspace.compression = match random.below(3) {
        0 => vec![Compression::None],
        1 => vec![Compression::Lz4],
        _ => vec![Compression::None, Compression::Zstd { level: 1 }],
    };
    options.default_keyspace.tombstone_ratio_compact = [0.01, 0.5, 1.0][random.below(3) as usize];
    // Of small tables, enough come together for compactions in parts.
    options.default_keyspace.table_bytes_max = [16 << 10, 64 << 10][random.below(2) as usize];
    vary(&mut options, random);
    options
}

/// How far something got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    No,
    /// It may or may not be in force.
    Open,
    Done,
}

/// A keyspace that comes and goes.
#[derive(Clone, Debug)]
struct Guest {
    name: String,
    created: Fate,
    dropped: Fate,
    /// Numbers of the batches that wrote to it.
    writes: Vec<usize>,
}

/// A checkpoint that was begun.
#[derive(Clone, Debug)]
struct Copied {
    dir: String,
    state: State,
    done: bool,
}

/// The key that batches write in guests.
const GUEST_KEY: &[u8] = b"last";

/// Plays steps.
pub struct Player {
    /// The disk.
    pub world: World,
    /// Options of every open.
    pub options: Options,
    /// What was written.
    pub history: History,
    /// Randomness of the steps.
    pub random: Random,
    /// The batch begun last may or may not be in the store.
    pub fate_open: bool,
    guests: Vec<Guest>,
    copies: Vec<Copied>,
    names_used: u32,
    db: Option<Db>,
}

impl Player {
    /// A player on this disk.
    pub fn new(world: World, options: Options, seed: u64) -> Player {
        Player {
            world,
            options,
            history: History::default(),
            random: Random::new(seed),
            fate_open: false,
            guests: Vec::new(),
            copies: Vec::new(),
            names_used: 0,
            db: None,
        }
    }

    /// Opens the store, or returns the one that is open.
    pub fn db(&mut self) -> Result<Db> {
        let db = self.bare_db()?;
        keyspaces(&db)?;
        Ok(db)
    }

    /// The same, without creating the keyspaces that are missing.
    pub fn bare_db(&mut self) -> Result<Db> {
        if self.db.is_none() {
            self.db = Some(self.world.open(DIR, &self.options)?);
        }
        self.db.clone().ok_or(Error::Cancelled)
    }

    /// The open store, if it is open.
    pub fn take_db(&mut self) -> Option<Db> {
        self.db.take()
    }

    /// True if a store is open that takes no writes.
    pub fn is_poisoned(&self) -> bool {
        let probe = self.db.as_ref().map(|db| db.write(Batch::new(), WriteOptions::default()));
        matches!(probe, Some(Err(Error::Poisoned { .. })))
    }

    /// True if what failed just now may come to light when the store is opened again.
    fn failure_is_open(&self) -> bool {
        self.world.strict.is_off() || self.is_poisoned()
    }

    /// Plays a step.
    pub fn play(&mut self, step: Step) -> Result<(), Trouble> {
        match step {
            Step::Write(bytes) => self.write_random(bytes, false)?,
            Step::WriteSynced(bytes) => self.write_random(bytes, true)?,
            Step::WriteShortest => self.write(Vec::new(), false)?,
            Step::Sync => {
                self.db()?.sync()?;
                self.history.all_durable();
            }
            Step::Flush => {
                self.db()?.flush()?;
                self.history.all_durable();
            }
            Step::Compact => {
                for keyspace in keyspaces(&self.db()?)? {
                    keyspace.compact_range(None, None)?;
                }
                self.history.all_durable();
            }
            Step::Collect => {
                self.db()?.collect_values(0.0, |_| true)?;
            }
            Step::Checkpoint => self.checkpoint()?,
            Step::Ingest => self.ingest()?,
            Step::CreateGuest => self.create_guest()?,
            Step::DropGuest => self.drop_guest()?,
            Step::Reopen => self.reopen()?,
            Step::ReopenOtherwise => {
                self.options = random_options(&mut self.random);
                self.reopen()?;
            }
            Step::DropAndReopen => {
                self.db = None;
                self.db()?;
            }
            Step::Read => {
                let db = self.bare_db()?;
                let state = self.history.state_after(self.history.acknowledged);
                compare_or_fail(&db, &state)?;
            }
        }
        Ok(())
    }

    fn reopen(&mut self) -> Result<()> {
        if let Some(db) = self.db.take() {
            db.close()?;
            self.history.all_durable();
        }
        self.db().map(drop)
    }

    /// Notes that the batch begun last failed.
    fn batch_failed(&mut self) {
        if self.failure_is_open() {
            self.fate_open = true;
            return;
        }
        let number = self.history.attempted();
        self.history.withdraw();
        for guest in &mut self.guests {
            guest.writes.retain(|&n| n != number);
        }
    }

    fn write_random(&mut self, value_bytes_max: u64, sync: bool) -> Result<()> {
        let ops = random_ops(&mut self.random, value_bytes_max);
        self.write(ops, sync)
    }

    /// Writes a batch; where there is something in it, to some of the guests as well.
    fn write(&mut self, ops: Vec<Op>, sync: bool) -> Result<()> {
        let db = self.db()?;
        if self.is_poisoned() {
            return db.put(b"refused", b"");
        }
        let is_shortest = ops.is_empty();
        let ids = keyspaces(&db)?.map(|keyspace| keyspace.id());
        let mut batch = self.history.begin(ops, &ids);
        let number = self.history.attempted();
        let live = |g: &&mut Guest| g.created == Fate::Done && g.dropped == Fate::No;
        for guest in self.guests.iter_mut().filter(live) {
            if !is_shortest && self.random.one_in(2) {
                let id = db.keyspace(&guest.name)?.id();
                batch.put_in(id, GUEST_KEY, number.to_string().as_bytes());
                guest.writes.push(number);
            }
        }
        if let Err(error) = db.write(batch, WriteOptions { sync }) {
            self.batch_failed();
            return Err(error);
        }
        self.history.acknowledge();
        if sync {
            self.history.all_durable();
        }
        Ok(())
    }

    /// An ingest is a batch too: its marker is among its keys.
    fn ingest(&mut self) -> Result<()> {
        let db = self.db()?;
        if self.is_poisoned() {
            return db.default_keyspace().ingest().map(drop);
        }
        let (first, step) = (self.random.below(100), 1 + self.random.below(5));
        let bytes = [10, 300, 3_000][self.random.below(3) as usize];
        let mut ops: Vec<Op> = Vec::new();
        for i in 0..1 + self.random.below(30) {
            let key = format!("key{:03}x", first + i * step).into_bytes();
            ops.push(Op::Put(0, key, self.random.bytes(bytes)));
        }
        let ids = keyspaces(&db)?.map(|keyspace| keyspace.id());
        let _ = self.history.begin(ops.clone(), &ids);
        let number = self.history.attempted();
        let done = (|| {
            let mut ingest = db.default_keyspace().ingest()?;
            ingest.put(MARKER, &marker_value(number))?;
            for op in &ops {
                if let Op::Put(_, key, value) = op {
                    ingest.put(key, value)?;
                }
            }
            ingest.finish()
        })();
        if let Err(error) = done {
            self.batch_failed();
            return Err(error);
        }
        self.history.acknowledge();
        self.history.all_durable();
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<()> {
        let db = self.db()?;
        self.names_used += 1;
        let dir = format!("/copy{}", self.names_used);
        let state = self.history.state_after(self.history.acknowledged);
        self.copies.push(Copied { dir: dir.clone(), state, done: false });
        db.checkpoint(&dir)?;
        if let Some(copy) = self.copies.last_mut() {
            copy.done = true;
        }
        self.history.all_durable();
        Ok(())
    }

    fn create_guest(&mut self) -> Result<()> {
        let db = self.db()?;
        self.names_used += 1;
        let name = format!("guest{}", self.names_used);
        let done = db.create_keyspace(&name, self.options.default_keyspace.clone());
        let fate = match &done {
            Ok(_) => Fate::Done,
            Err(_) if self.failure_is_open() => Fate::Open,
            Err(_) => Fate::No,
        };
        if fate != Fate::No {
            self.guests.push(Guest { name, created: fate, dropped: Fate::No, writes: Vec::new() });
        }
        done.map(drop)
    }

    fn drop_guest(&mut self) -> Result<()> {
        let db = self.db()?;
        let live = |g: &Guest| g.created == Fate::Done && g.dropped == Fate::No;
        let Some(at) = self.guests.iter().rposition(live) else { return Ok(()) };
        let done = db.drop_keyspace(&self.guests[at].name);
        self.guests[at].dropped = match &done {
            Ok(()) => Fate::Done,
            Err(_) if self.failure_is_open() => Fate::Open,
            Err(_) => Fate::No,
        };
        done
    }

    /// Checks that an open store holds a prefix of at least `least` batches. Returns how many.
    pub fn check(&self, db: &Db, least: usize) -> Result<usize, String> {
        let count = self.history.check(db, least)?;
        let names = db.keyspace_names();
        for guest in &self.guests {
            let there = names.contains(&guest.name);
            let name = &guest.name;
            if !there {
                if guest.created == Fate::Done && guest.dropped == Fate::No {
                    return Err(format!("keyspace {name} is gone"));
                }
                continue;
            }
            if guest.dropped == Fate::Done {
                return Err(format!("keyspace {name} was dropped and is there"));
            }
            let expected = guest.writes.iter().filter(|&&n| n <= count).max();
            let expected = expected.map(|n| n.to_string().into_bytes());
            let keyspace = db.keyspace(name).map_err(|e| e.to_string())?;
            let found = keyspace.get(GUEST_KEY).map_err(|e| format!("keyspace {name}: {e}"))?;
            if found.as_deref() != expected.as_deref() {
                return Err(format!("keyspace {name}: {found:?} instead of {expected:?}"));
            }
        }
        Ok(count)
    }

    /// Checks what a disk kept: opens it in several ways, writes to it, opens it again.
    pub fn check_kept(&self, kept: &StrictVfs, least: usize) -> Result<usize, String> {
        let world = World::plain(kept);
        let readable = self.check_read_only(&world, least)?;
        let db = match world.open(DIR, &self.options) {
            Ok(db) => db,
            Err(Error::NotFound { .. }) if least == 0 => return Ok(0),
            Err(error) => return Err(format!("reopen fails: {error}")),
        };
        let files = || format!("files {:?}", kept.file_names(Path::new(DIR)));
        let count = self.check(&db, least).map_err(|e| format!("reopened: {e}; {}", files()))?;
        if readable.is_some_and(|readable| readable != count) {
            return Err(format!("read-only shows {readable:?} batches, reopened {count}"));
        }
        check_files(&db, kept)?;
        db.put(b"~after", b"1").map_err(|e| format!("writing after recovery: {e}"))?;
        db.close().map_err(|e| format!("closing after recovery: {e}"))?;
        let db = world.open(DIR, &self.options).map_err(|e| format!("second reopen: {e}"))?;
        if db.get(b"~after").map_err(|e| e.to_string())?.is_none() {
            return Err("a write after recovery is gone after a clean close".to_owned());
        }
        db.delete(b"~after").map_err(|e| e.to_string())?;
        self.check(&db, count).map_err(|e| format!("second reopen: {e}"))?;
        self.check_copies(&world)?;
        Ok(count)
    }

    /// Repairs a store of which opening finds so many batches, on a disk that kept all or none of
    /// what was not synced: they are there.
    pub fn check_repaired(&self, kept: &StrictVfs, count: usize) -> Result<(), String> {
        let report = World::plain(kept).repair(DIR, &self.options);
        report.map_err(|e| format!("repair: {e}"))?;
        match self.check_kept(kept, count) {
            Ok(found) if found == count => Ok(()),
            Ok(found) => Err(format!("repaired, it holds {found} batches, opened {count}")),
            Err(error) => Err(format!("repaired: {error}")),
        }
    }

    /// Checks what repair makes of a store that lost all its manifests, and nothing else, while
    /// nothing happened: its records after so many batches.
    pub fn check_rebuilt(&self, kept: &StrictVfs, count: usize) -> Result<(), String> {
        let told = |e: Error| format!("rebuilt: {e}");
        for name in kept.file_names(Path::new(DIR)) {
            if name == "CURRENT" || name.starts_with("MANIFEST") {
                kept.remove(&Path::new(DIR).join(name)).map_err(told)?;
            }
        }
        let world = World::plain(kept);
        world.repair(DIR, &self.options).map_err(told)?;
        let db = world.open(DIR, &self.options).map_err(told)?;
        let names = db.keyspace_names();
        for (at, state) in self.history.state_after(count).iter().enumerate() {
            let name = if at == 0 { "default" } else { KEYSPACES[at - 1] };
            if !names.iter().any(|n| n == name) {
                // Its name stands in tables, and it has none.
                continue;
            }
            // How old ingested records are, manifests tell.
            let is_certain = |key: &[u8]| key != MARKER && !key.ends_with(b"x");
            let keyspace = db.keyspace(name).map_err(told)?;
            let mut found = BTreeMap::new();
            for pair in keyspace.iter().map_err(told)? {
                let (key, value) = pair.map_err(told)?;
                if is_certain(&key) {
                    found.insert(key.to_vec(), value.to_vec());
                }
            }
            let wanted = state.iter().filter(|(key, _)| is_certain(key));
            let wanted: BTreeMap<_, _> = wanted.map(|(k, v)| (k.clone(), v.clone())).collect();
            let differs = |key: &&Vec<u8>| found.get(*key) != wanted.get(*key);
            if let Some(key) = found.keys().chain(wanted.keys()).find(differs) {
                let len = |map: &BTreeMap<Vec<u8>, Vec<u8>>| map.get(key).map(Vec::len);
                let (key, is, should) = (key.escape_ascii(), len(&found), len(&wanted));
                return Err(format!("rebuilt: {name}: {key}: {is:?} bytes instead of {should:?}"));
            }
        }
        check_files(&db, kept).map_err(|e| format!("rebuilt: {e}"))
    }

    /// Opens for reading only. Nothing on the disk may change by it.
    fn check_read_only(&self, world: &World, least: usize) -> Result<Option<usize>, String> {
        let calls = world.strict.mutating_calls();
        let count = match world.open_read_only(DIR, &self.options) {
            Ok(db) => Some(self.check(&db, least).map_err(|e| format!("read-only: {e}"))?),
            Err(Error::NotFound { .. }) if least == 0 => None,
            Err(error) => return Err(format!("read-only open fails: {error}")),
        };
        if world.strict.mutating_calls() != calls {
            return Err("a read-only open changed the disk".to_owned());
        }
        Ok(count)
    }

    /// A checkpoint that was acknowledged holds what it should; any other too, or does not open.
    pub fn check_copies(&self, world: &World) -> Result<(), String> {
        for copy in &self.copies {
            let db = match world.open_read_only(&copy.dir, &self.options) {
                Ok(db) => db,
                Err(_) if !copy.done => continue,
                Err(error) => return Err(format!("opening checkpoint {}: {error}", copy.dir)),
            };
            compare(&db, &copy.state).map_err(|e| format!("checkpoint {}: {e}", copy.dir))?;
        }
        Ok(())
    }
}

/// Every table file must be live, every live one there, and all of them sound.
pub fn check_files(db: &Db, disk: &StrictVfs) -> Result<(), String> {
    db.wait_idle().map_err(|e| format!("wait_idle: {e}"))?;
    let live: u64 = db.stats().keyspaces.iter().flat_map(|k| &k.levels).map(|l| l.tables).sum();
    let files = disk.list(Path::new(DIR)).map_err(|e| e.to_string())?;
    let tables = files.iter().filter(|f| f.name.ends_with(".tbl")).count() as u64;
    if tables != live {
        return Err(format!("{tables} table files, {live} live tables"));
    }
    let manifests = files.iter().filter(|f| f.name.starts_with("MANIFEST")).count();
    if manifests != 1 {
        return Err(format!("{manifests} manifests"));
    }
    if let Some(file) = files.iter().find(|f| f.name.ends_with(".tmp")) {
        return Err(format!("{} was left", file.name));
    }
    let report = db.verify(|_| true).map_err(|e| format!("verify: {e}"))?;
    match report.damage.first() {
        Some((path, error)) => Err(format!("verify: {}: {error}", path.display())),
        None => Ok(()),
    }
}
