//! The power fails at the calls of a script.

use super::held::Held;
use super::log::{DIR, Log, make_other, random_options};
use super::told::Told;
use crate::crash;
use crate::history::vary;
use crate::random::Random;
use esker::base::vfs::Access;
use esker::base::vfs::strict::{StrictOptions, StrictVfs, Survival};
use esker::base::{Env, Error, Vfs};
use esker::report::KeyspaceStats;
use esker::{Db, Options, Setup};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a check comes to.
type Checked = Result<(), String>;

/// A store under test, and the logs of its groups.
pub(super) struct Run {
    /// What the store is opened on.
    disk: Arc<dyn Vfs>,
    options: Options,
    random: Random,
    pub(super) db: Option<Db>,
    pub(super) logs: Vec<Log>,
    told: Told,
    held: Option<Held>,
    /// What a reader found that must not be.
    wrong: Option<String>,
    /// Times it was opened, and groups that were carried away and back.
    opened: u64,
    carried: u64,
}

impl Run {
    pub(super) fn new(disk: Arc<dyn Vfs>, options: &Options, seed: u64, groups: u64) -> Run {
        let told = Told::default();
        Run {
            disk,
            options: options.clone(),
            random: Random::new(seed),
            db: None,
            logs: (0..groups).map(|group| Log::new(group, &told)).collect(),
            told,
            held: None,
            wrong: None,
            opened: 0,
            carried: 0,
        }
    }

    fn db(&mut self) -> esker::Result<Db> {
        if let Some(db) = &self.db {
            return Ok(db.clone());
        }
        self.opened += 1;
        let env = Env::with_vfs(self.disk.clone(), self.opened);
        let listener = Some(self.told.listener());
        let setup = Setup { env, listener, inline_background: true, ..Setup::default() };
        let db = Db::open_with(DIR, self.options.clone(), setup)?;
        make_other(&db, &self.options)?;
        Ok(self.db.insert(db).clone())
    }

    fn apply(&mut self, count: u64) -> esker::Result<()> {
        let db = self.db()?;
        for _ in 0..count {
            let at = self.random.below(self.logs.len() as u64) as usize;
            let log = &mut self.logs[at];
            log.grow(&mut self.random);
            log.apply(&db, log.last())?;
        }
        Ok(())
    }

    fn all_persisted(&mut self) {
        self.logs.iter_mut().for_each(Log::all_persisted);
    }

    fn flush(&mut self) -> esker::Result<()> {
        let at = self.random.below(self.logs.len() as u64) as usize;
        let db = self.db()?;
        if self.random.one_in(2) {
            db.flush()?;
            self.all_persisted();
        } else {
            db.flush_group(&self.logs[at].name)?;
            self.logs[at].all_persisted();
        }
        Ok(())
    }

    /// The owners of the logs note what the store has told.
    pub(super) fn listen(&mut self) {
        self.logs.iter_mut().for_each(Log::listen);
    }

    /// Takes a snapshot of what is persistent now.
    fn hold(&mut self) -> esker::Result<()> {
        let db = self.db()?;
        self.held = Some(Held::take(&db, &self.logs)?);
        Ok(())
    }

    /// Reads it again.
    fn check_held(&mut self) -> esker::Result<()> {
        let db = self.db()?;
        let Some(held) = &self.held else { return Ok(()) };
        self.wrong = held.check(&db, &self.logs)?;
        match &self.wrong {
            Some(wrong) => Err(Error::InvalidArgument { what: wrong.clone() }),
            None => Ok(()),
        }
    }

    /// What a reader found that must not be, whatever failed.
    pub(super) fn expect_nothing_wrong(&self) -> Checked {
        self.wrong.clone().map_or(Ok(()), Err)
    }

    /// A group that is about to be deleted, or to come as files.
    fn choose_to_change(&mut self) -> usize {
        let at = self.random.below(self.logs.len() as u64) as usize;
        if let Some(held) = &mut self.held {
            held.forget(at);
        }
        at
    }

    /// Closes the store, which may be another one when it is opened next: in how trees are
    /// compacted, and where values are.
    fn close(&mut self) -> esker::Result<()> {
        self.held = None;
        if let Some(db) = self.db.take() {
            db.close()?;
            self.all_persisted();
        }
        vary(&mut self.options, &mut self.random);
        Ok(())
    }

    fn delete(&mut self) -> esker::Result<()> {
        let db = self.db()?;
        let at = self.choose_to_change();
        self.logs[at].delete(&db)
    }

    fn carry(&mut self) -> esker::Result<()> {
        let db = self.db()?;
        let at = self.choose_to_change();
        self.carried += 1;
        let dir = format!("/carried-{}", self.carried);
        let then = self.logs[at].carry_away(&db, &dir, &mut self.random)?;
        let Some(then) = then else { return Ok(()) };
        drop(db);
        if self.random.one_in(3) {
            // What was written out goes into a store that is unlike.
            self.close()?;
        }
        let db = self.db()?;
        self.logs[at].carry_back(&db, &dir, then)
    }

    fn compact(&mut self) -> esker::Result<()> {
        self.db()?.default_keyspace().compact_range(None, None)?;
        self.all_persisted();
        Ok(())
    }

    /// Groups were deleted, and nobody has a cursor: the directory has the tables that there are,
    /// and no others.
    fn expect_no_more_than_is_named(&mut self) -> esker::Result<()> {
        let db = self.db()?;
        let named = db.stats().keyspaces.iter().map(KeyspaceStats::table_bytes).sum::<u64>();
        let mut there = 0;
        for entry in self.disk.list(Path::new(DIR))? {
            let path = Path::new(DIR).join(&entry.name);
            if path.extension().is_some_and(|end| end == "tbl") {
                there += self.disk.open(&path, Access::Random)?.len_bytes()?;
            }
        }
        if there == named {
            return Ok(());
        }
        let text = format!("{there} bytes of tables are in the directory, {named} are named");
        Err(Error::InvalidArgument { what: text })
    }

    /// Everything that happens to groups.
    pub(super) fn script(&mut self) -> esker::Result<()> {
        self.apply(60)?;
        self.flush()?;
        self.hold()?;
        self.apply(120)?;
        self.delete()?;
        self.apply(60)?;
        self.db()?.flush_oldest()?;
        self.compact()?;
        self.check_held()?;
        self.carry()?;
        self.apply(30)?;
        self.delete()?;
        self.delete()?;
        self.apply(90)?;
        self.close()?;
        self.apply(20)?;
        self.hold()?;
        self.delete()?;
        self.db()?.wait_idle()?;
        self.expect_no_more_than_is_named()?;
        self.db()?.collect_values(0.0, |_| true)?;
        self.check_held()?;
        self.apply(100)?;
        self.carry()?;
        self.flush()?;
        self.check_held()?;
        self.carry()?;
        self.delete()?;
        self.apply(10)?;
        self.close()
    }

    /// Reopens what the disk kept, in several ways.
    fn survive(mut self, vfs: &StrictVfs, k: u64, totals: &[AtomicU64; 3]) -> Checked {
        self.listen();
        let ways = [Survival::None, Survival::Some { percent: 50 }, Survival::ProcessDeath];
        let Run { options, logs, .. } = self;
        for (nth, &way) in ways.iter().enumerate() {
            let kept = vfs.crash(way, k * 31 + nth as u64);
            let again = kept.deep_copy();
            totals[1].fetch_add(2, Ordering::Relaxed);
            let behind = check_store(&kept, &options, logs.clone(), true)
                .map_err(|e| format!("{way:?}: {e}"))?;
            totals[2].fetch_add(u64::from(behind), Ordering::Relaxed);
            // The opening is cut off too, at a call chosen at random.
            let mut random = Random::new(k ^ (nth as u64) << 32);
            again.set_crash_at(again.mutating_calls() + 1 + random.below(20));
            let _ = crash::open(&again, DIR, &options).and_then(|db| db.wait_idle());
            again.power_off();
            let kept = again.crash(ways[random.below(2) as usize], k);
            check_store(&kept, &options, logs.clone(), false)
                .map_err(|e| format!("{way:?}, then cut off while it opened: {e}"))?;
        }
        Ok(())
    }
}

/// Reopens a store, checks all groups, and goes on with their logs. True if requests were lost.
pub(super) fn check_store(
    kept: &StrictVfs,
    options: &Options,
    mut logs: Vec<Log>,
    go_on: bool,
) -> Result<bool, String> {
    let text = |error: Error| error.to_string();
    let db = match crash::open(kept, DIR, options) {
        Ok(db) => db,
        Err(Error::NotFound { .. }) if logs.iter().all(Log::is_free) => return Ok(false),
        Err(error) => return Err(format!("reopen fails: {error}")),
    };
    let mut behind = false;
    let mut indexes = Vec::new();
    for log in &mut logs {
        let index = log.check(&db)?;
        behind |= index < log.last();
        indexes.push(index);
    }
    let report = db.verify(|_| true).map_err(text)?;
    if let Some(damage) = report.damage.first() {
        return Err(format!("verify finds {damage:?}"));
    }
    if !go_on {
        return db.close().map(|()| behind).map_err(text);
    }
    make_other(&db, options).map_err(text)?;
    for (log, index) in logs.iter().zip(indexes) {
        for next in index + 1..=log.last() {
            log.apply(&db, next).map_err(text)?;
        }
        log.compare(&db, log.last())?;
    }
    db.close().map_err(text)?;
    let db = crash::open(kept, DIR, options).map_err(text)?;
    for log in &mut logs {
        log.all_persisted();
        log.check(&db)?;
    }
    Ok(behind)
}

/// Runs a script to one in `stride` of its calls.
pub(super) fn cut_everywhere(
    seed: u64,
    groups: u64,
    stride: u64,
    totals: &[AtomicU64; 3],
) -> Checked {
    let options = random_options(&mut Random::new(seed));
    let disk = StrictOptions { seed, ..StrictOptions::default() };
    let mut k = 1 + seed % stride;
    loop {
        let vfs = StrictVfs::with_options(disk.clone());
        vfs.set_trace(12);
        vfs.set_crash_at(k);
        let mut run = Run::new(Arc::new(vfs.clone()), &options, seed, groups);
        let outcome = run.script();
        drop(run.db.take());
        run.expect_nothing_wrong()?;
        if !vfs.is_off() {
            return outcome.map_err(|e| format!("the script itself fails: {e}"));
        }
        totals[0].fetch_add(1, Ordering::Relaxed);
        run.survive(&vfs, k, totals).map_err(|e| {
            let calls = vfs.trace().join("\n  ");
            format!(
                "power cut at call {k}, {groups} groups, seed {seed}: {e}\nlast calls:\n  {calls}"
            )
        })?;
        k += stride;
    }
}
