//! Gate: the power fails at every single call that changes the disk.
//!
//! A scenario is run again and again; the k-th time the machine goes off at the k-th such call.
//! What the disk kept is chosen in several ways, the store is reopened, and its contents must be a
//! prefix of the scenario's batches that holds every durable one. Then recovery itself is cut off
//! at random calls.

use crate::gate::{Config, Outcome, for_cases};
use crate::history::{
    History, MARKER, SHAPES, State, compare, keyspaces, marker_value, random_compaction,
    random_ops, random_values, set_shape, small_options,
};
use crate::random::Random;
use esker::base::sync::Mutex;
use esker::base::vfs::strict::{StrictOptions, StrictVfs, Survival};
use esker::base::{Env, Vfs};
use esker::{Batch, Db, Error, KeyspaceOptions, Options, Result, Setup, WriteOptions};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";
const COPY: &str = "/copy";

/// A run of a store, told what it does through the history.
pub type Script = fn(&mut Run) -> Result<()>;

/// A store under test and what it should hold.
pub struct Run {
    /// The disk.
    pub vfs: StrictVfs,
    /// Options of every open.
    pub options: Options,
    /// What was written.
    pub history: History,
    /// Randomness of the script.
    pub random: Random,
    /// A checkpoint was acknowledged: what it must hold.
    pub copied: Option<State>,
    db: Option<Db>,
}

impl Run {
    /// A run on this disk.
    pub fn new(vfs: StrictVfs, options: Options, seed: u64) -> Run {
        Run {
            vfs,
            options,
            history: History::default(),
            random: Random::new(seed),
            copied: None,
            db: None,
        }
    }

    /// Opens the store, or returns the one that is open.
    pub fn db(&mut self) -> Result<Db> {
        if let Some(db) = &self.db {
            return Ok(db.clone());
        }
        let db = open(&self.vfs, DIR, &self.options)?;
        keyspaces(&db)?;
        Ok(self.db.insert(db).clone())
    }

    /// Closes the store.
    pub fn close(&mut self) -> Result<()> {
        if let Some(db) = self.db.take() {
            db.close()?;
            self.history.all_durable();
        }
        Ok(())
    }

    /// Writes one random batch.
    pub fn write(&mut self, value_bytes_max: u64, sync: bool) -> Result<()> {
        let ops = random_ops(&mut self.random, value_bytes_max);
        let db = self.db()?;
        let ids = keyspaces(&db)?.map(|keyspace| keyspace.id());
        let batch = self.history.begin(ops, &ids);
        db.write(batch, WriteOptions { sync })?;
        self.history.acknowledge();
        if sync {
            self.history.all_durable();
        }
        Ok(())
    }

    /// Writes the shortest of batches.
    pub fn write_shortest(&mut self) -> Result<()> {
        let db = self.db()?;
        let ids = keyspaces(&db)?.map(|keyspace| keyspace.id());
        db.write(self.history.begin(Vec::new(), &ids), WriteOptions::default())?;
        self.history.acknowledge();
        Ok(())
    }

    /// Writes several batches, syncing one in `sync_every`.
    pub fn write_many(&mut self, count: u64, value_bytes_max: u64, sync_every: u64) -> Result<()> {
        for _ in 0..count {
            let sync = self.random.one_in(sync_every);
            self.write(value_bytes_max, sync)?;
        }
        Ok(())
    }

    /// Makes what was written durable.
    pub fn sync(&mut self) -> Result<()> {
        self.db()?.sync()?;
        self.history.all_durable();
        Ok(())
    }

    /// Flushes everything.
    pub fn flush(&mut self) -> Result<()> {
        self.db()?.flush()?;
        self.history.all_durable();
        Ok(())
    }

    /// Moves values so that no file of them holds dead ones.
    pub fn collect(&mut self) -> Result<()> {
        self.db()?.collect_values(0.0, |_| true).map(drop)
    }

    /// Compacts everything.
    pub fn compact(&mut self) -> Result<()> {
        for keyspace in keyspaces(&self.db()?)? {
            keyspace.compact_range(None, None)?;
        }
        self.history.all_durable();
        Ok(())
    }
}

/// Opens a store on a strict disk; the same calls lead to the same files.
pub fn open(vfs: &StrictVfs, dir: &str, options: &Options) -> Result<Db> {
    // Every open draws other random numbers, as it would in life, yet the same ones when repeated.
    let seed =
        vfs.total_bytes() ^ vfs.mutating_calls() << 32 ^ (vfs.all_files().len() as u64) << 48;
    open_on(Arc::new(vfs.clone()), seed, dir, options)
}

/// Opens a store on any disk, without threads in the background.
pub fn open_on(vfs: Arc<dyn Vfs>, seed: u64, dir: &str, options: &Options) -> Result<Db> {
    let env = Env::with_vfs(vfs, seed);
    Db::open_with(
        dir,
        options.clone(),
        Setup { env, listener: None, inline_background: true, ..Setup::default() },
    )
}

/// The scenarios, each with its name.
pub const SCENARIOS: &[(&str, Script)] = &[
    ("create", |run| run.write_many(3, 50, 2)),
    ("small writes, reopened", |run| {
        for _ in 0..4 {
            run.write_many(5, 50, 3)?;
            run.close()?;
        }
        Ok(())
    }),
    ("the shortest writes, reopened", |run| {
        // The first of a log, behind a sync, and behind others.
        run.write_shortest()?;
        for synced in [true, false] {
            run.close()?;
            run.write_many(3, 50, 3)?;
            if synced {
                run.sync()?;
            }
            run.write_shortest()?;
            run.close()?;
            run.write_shortest()?;
        }
        run.close()
    }),
    ("reopened without closing", |run| {
        for _ in 0..4 {
            run.write_many(5, 50, 3)?;
            // Dropping closes; cutting the power in between is what the gate adds.
            run.db = None;
        }
        Ok(())
    }),
    ("log switch and flush", |run| run.write_many(60, 8_000, 20)),
    ("unsynced writes only", |run| run.write_many(60, 8_000, u64::MAX)),
    ("flush on demand", |run| {
        for _ in 0..4 {
            run.write_many(4, 200, 5)?;
            run.flush()?;
        }
        Ok(())
    }),
    ("compaction", |run| run.write_many(160, 8_000, 50)),
    ("compaction of a range", |run| {
        run.write_many(40, 8_000, 20)?;
        run.compact()?;
        run.write_many(10, 2_000, 5)?;
        run.compact()
    }),
    ("manifest switch", |run| {
        for _ in 0..25 {
            run.write_many(1, 100, 3)?;
            run.flush()?;
        }
        Ok(())
    }),
    ("keyspaces come and go", |run| {
        let db = run.db()?;
        for i in 0..3 {
            let name = format!("guest{i}");
            let guest = db.create_keyspace(&name, small_options().default_keyspace)?;
            guest.put(b"key", b"value")?;
            run.write_many(3, 100, 2)?;
            guest.flush()?;
            db.drop_keyspace(&name)?;
        }
        Ok(())
    }),
    ("keyspaces with long logs go", |run| {
        let db = run.db()?;
        let of_all = small_options().default_keyspace;
        let options = KeyspaceOptions { memtable_bytes: 256 << 10, ..of_all };
        for i in 0..7 {
            let name = format!("guest{i}");
            let guest = db.create_keyspace(&name, options.clone())?;
            for key in 0..10u8 {
                guest.put(&[key], &[7; 20_000])?;
            }
            if i == 0 {
                // Nobody else has records in that log; afterwards somebody has, in all of them.
                run.flush()?;
            }
            db.drop_keyspace(&name)?;
            run.write_many(2, 100, 2)?;
        }
        Ok(())
    }),
    ("checkpoint", |run| {
        run.write_many(30, 6_000, 10)?;
        let db = run.db()?;
        let state = run.history.state_after(run.history.acknowledged);
        db.checkpoint(COPY)?;
        run.copied = Some(state);
        run.history.all_durable();
        run.write_many(5, 100, 2)
    }),
    ("ingest", |run| {
        run.write_many(20, 4_000, 10)?;
        let db = run.db()?;
        let ops: Vec<crate::history::Op> = (0..60)
            .map(|i| {
                let key = format!("key{:03}x", i * 3).into_bytes();
                crate::history::Op::Put(1, key, run.random.bytes(300))
            })
            .collect();
        // The marker is written apart, after the ingest: until then both states are right.
        let left = db.keyspace("left")?;
        let mut ingest = left.ingest()?;
        for op in &ops {
            if let crate::history::Op::Put(_, key, value) = op {
                ingest.put(key, value)?;
            }
        }
        let ids = keyspaces(&db)?.map(|k| k.id());
        let mut batch = Batch::new();
        batch.put(MARKER, &marker_value(run.history.attempted() + 1));
        let _ = run.history.begin(ops, &ids);
        run.history.ingest_pending = true;
        ingest.finish()?;
        run.history.ingested = true;
        db.write(batch, WriteOptions::SYNC)?;
        run.history.acknowledge();
        run.history.all_durable();
        run.history.ingest_pending = false;
        run.write_many(10, 2_000, 3)
    }),
    ("large batches", |run| run.write_many(12, 200_000, 4)),
    (VALUES, |run| {
        for _ in 0..3 {
            run.write_many(12, 3_000, 6)?;
            run.compact()?;
            run.collect()?;
            run.write_many(4, 400, 3)?;
            run.close()?;
        }
        Ok(())
    }),
];

/// The scenario that is about values.
const VALUES: &str = "values come and go";

/// What a store of a scenario is like.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Logs whose space is not reserved.
    pub plain_logs: bool,
    /// Most values are kept apart.
    pub values: bool,
    /// What compactions make of the tree, as in [`set_shape`].
    pub shape: u64,
}

/// How many kinds of stores each scenario is run with.
const KINDS: u64 = 3;

impl Kind {
    /// The kinds of one scenario have trees of different policies, the scenarios levels in
    /// different orders, and twelve seeds in a row all shapes of each.
    fn of(scenario: usize, nth: u64, seed: u64) -> Kind {
        let shape = (scenario as u64 + 4 * nth + 5 * (seed % SHAPES)) % SHAPES;
        Kind { plain_logs: nth == 1, values: nth == 2, shape }
    }
}

/// The gate: every scenario, with each kind of store, cut at every call.
pub fn gate(config: &Config) -> Outcome {
    let seeds = config.choose(1, 20);
    let cases = SCENARIOS.len() as u64 * KINDS * seeds;
    let sum = Mutex::new(Totals::default());
    for_cases(config, cases, |case| {
        let scenario = (case / KINDS) as usize % SCENARIOS.len();
        let (name, script) = SCENARIOS[scenario];
        let seed = config.seed + case / KINDS / SCENARIOS.len() as u64;
        let kind = Kind::of(scenario, case % KINDS, seed);
        let mut totals = Totals::default();
        // In short, every call with values apart where they come and go, and every third elsewhere.
        let thorough = config.long || !kind.values || name == VALUES;
        let stride = if thorough { 1 } else { 3 };
        let result = every_call(name, script, kind, seed, stride, &mut totals);
        let mut sum = sum.lock();
        sum.crashes += totals.crashes;
        sum.reopens += totals.reopens;
        result
    })?;
    let totals = sum.into_inner();
    Ok(format!("{} cuts, {} reopens", totals.crashes, totals.reopens))
}

/// What a gate run came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Runs cut off.
    pub crashes: u64,
    /// Stores reopened and compared.
    pub reopens: u64,
}

/// Runs one scenario to each of its calls. `stride` 1 is every call.
pub fn every_call(
    name: &str,
    script: Script,
    kind: Kind,
    seed: u64,
    stride: u64,
    totals: &mut Totals,
) -> std::result::Result<(), String> {
    let Kind { plain_logs, values, shape } = kind;
    let disk = StrictOptions { preallocated_logs: !plain_logs, seed, ..StrictOptions::default() };
    let mut options = small_options();
    if values {
        random_values(&mut options, &mut Random::new(!seed));
        options.default_keyspace.value_log_bytes_min = Some(64);
        // Of smaller ones there would be more than there are calls of any other kind.
        options.value_log_file_bytes = 32 << 10;
    }
    random_compaction(&mut options.default_keyspace, &mut Random::new(seed));
    set_shape(&mut options.default_keyspace, shape);
    let mut k = 1 + seed % stride;
    loop {
        let vfs = StrictVfs::with_options(disk.clone());
        vfs.set_trace(12);
        vfs.set_crash_at(k);
        let mut run = Run::new(vfs, options.clone(), seed);
        let outcome = script(&mut run);
        let db = run.db.take();
        if !run.vfs.is_off() {
            drop(db);
            return outcome.map_err(|e| format!("{name}: the script itself fails: {e}"));
        }
        std::mem::drop(db);
        totals.crashes += 1;
        survive(&run, k, totals).map_err(|e| {
            format!(
                "{name}: power cut at call {k}, seed {seed}, {kind:?}: {e}\nlast calls:\n  {}",
                run.vfs.trace().join("\n  ")
            )
        })?;
        k += stride;
    }
}

/// Reopens what the disk kept, in several ways.
fn survive(run: &Run, k: u64, totals: &mut Totals) -> std::result::Result<(), String> {
    let survivals = [
        Survival::None,
        Survival::Some { percent: 10 },
        Survival::Some { percent: 50 },
        Survival::All,
        Survival::ProcessDeath,
    ];
    for (i, &survival) in survivals.iter().enumerate() {
        let kept = run.vfs.crash(survival, k * 31 + i as u64);
        // Taken before the check, which recovers the store and closes it in good order.
        let again = kept.deep_copy();
        let least = match survival {
            Survival::ProcessDeath | Survival::All => run.history.acknowledged,
            _ => run.history.durable,
        };
        check_store(run, &kept, least, totals).map_err(|e| format!("{survival:?}: {e}"))?;
        // Recovery is cut off too, at a call chosen at random.
        let mut random = Random::new(k ^ (i as u64) << 32);
        again.set_crash_at(again.mutating_calls() + 1 + random.below(25));
        let recovered = open(&again, DIR, &run.options).map(std::mem::drop).is_ok();
        again.power_off();
        let kept_again = again.crash(survivals[random.below(5) as usize], k);
        let least = match survival {
            // What a process leaves behind unsynced is durable only once it is recovered.
            Survival::ProcessDeath if !recovered => run.history.durable,
            _ => least,
        };
        check_store(run, &kept_again, least, totals)
            .map_err(|e| format!("{survival:?}, then cut off in recovery: {e}"))?;
    }
    Ok(())
}

fn check_store(
    run: &Run,
    kept: &StrictVfs,
    least: usize,
    totals: &mut Totals,
) -> std::result::Result<(), String> {
    let history = &run.history;
    totals.reopens += 1;
    let db = match open(kept, DIR, &run.options) {
        Ok(db) => db,
        Err(Error::NotFound { .. }) if least == 0 => return Ok(()),
        Err(error) => return Err(format!("reopen fails: {error}")),
    };
    let count = history
        .check_with_ingest(&db, least)
        .map_err(|e| format!("first reopen: {e}; files {:?}", kept.file_names(Path::new(DIR))))?;
    check_leaks(&db, kept)?;
    db.put(b"~after", b"1").map_err(|e| format!("writing after recovery: {e}"))?;
    db.close().map_err(|e| format!("closing after recovery: {e}"))?;
    let db = open(kept, DIR, &run.options).map_err(|e| format!("second reopen: {e}"))?;
    if db.get(b"~after").map_err(|e| e.to_string())?.is_none() {
        return Err("a write after recovery is gone after a clean close".to_owned());
    }
    db.delete(b"~after").map_err(|e| e.to_string())?;
    history.check_with_ingest(&db, count).map_err(|e| format!("second reopen: {e}"))?;
    check_copy(run, kept)
}

/// Every table file must be named by the manifest, and every named one there.
fn check_leaks(db: &Db, kept: &StrictVfs) -> std::result::Result<(), String> {
    db.wait_idle().map_err(|e| e.to_string())?;
    let live: u64 = db.stats().keyspaces.iter().flat_map(|k| &k.levels).map(|l| l.tables).sum();
    let files = kept.list(Path::new(DIR)).map_err(|e| e.to_string())?;
    let tables = files.iter().filter(|f| f.name.ends_with(".tbl")).count() as u64;
    if tables != live {
        return Err(format!("{tables} table files, {live} live tables"));
    }
    let strangers = files.iter().filter(|f| f.name.ends_with(".tmp")).count();
    if strangers > 0 { Err(format!("{strangers} temporary files were left")) } else { Ok(()) }
}

fn check_copy(run: &Run, kept: &StrictVfs) -> std::result::Result<(), String> {
    let Some(state) = &run.copied else { return Ok(()) };
    let copy =
        open(kept, COPY, &run.options).map_err(|e| format!("opening the checkpoint: {e}"))?;
    compare(&copy, state).map_err(|e| format!("the checkpoint: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn shapes(of: impl Iterator<Item = Kind>) -> usize {
        of.map(|kind| kind.shape).collect::<BTreeSet<_>>().len()
    }

    #[test]
    fn one_seed_has_all_shapes_and_twelve_have_all_of_each_scenario() {
        for seed in [0, 7, u64::MAX - 20] {
            let kinds = |scenario: usize| (0..KINDS).map(move |nth| Kind::of(scenario, nth, seed));
            assert_eq!(shapes((0..SCENARIOS.len()).flat_map(kinds)), SHAPES as usize);
            for scenario in 0..SCENARIOS.len() {
                assert_eq!(shapes(kinds(scenario)), KINDS as usize);
                for nth in 0..KINDS {
                    let seeds = (0..SHAPES).map(|more| Kind::of(scenario, nth, seed + more));
                    assert_eq!(shapes(seeds), SHAPES as usize);
                }
            }
        }
    }
}
