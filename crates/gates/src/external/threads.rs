//! Threads apply requests until the power fails, or a sync and then the power, again and again in
//! one store.

use super::log::{DIR, Log, make_other, random_options};
use super::told::Told;
use crate::gate::{Stopwatch, case_seed};
use crate::history::vary;
use crate::random::Random;
use crate::syncs::failing_sync;
use esker::base::Env;
use esker::base::vfs::faulty::FaultyVfs;
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::{Db, Options, Setup};
use std::sync::Arc;

/// Threads that apply, each to groups of its own.
const THREADS: u64 = 4;

/// Groups of each.
const GROUPS: u64 = 4;

/// Rounds before a store is begun anew.
const ROUNDS: u64 = 12;

fn open(vfs: &FaultyVfs, options: &Options, seed: u64, told: &Told) -> esker::Result<Db> {
    let env = Env::with_vfs(Arc::new(vfs.clone()), seed);
    let listener = Some(told.listener());
    let setup = Setup { env, listener, inline_background: false, ..Setup::default() };
    let db = Db::open_with(DIR, options.clone(), setup)?;
    make_other(&db, options)?;
    Ok(db)
}

/// Applies to some groups until the disk is off, or has failed, which is what `may_fail` tells:
/// what fails before is a violation. Returns how many requests there were.
fn apply_until_off(
    db: &Db,
    logs: &mut [Log],
    seed: u64,
    may_fail: &(dyn Fn() -> bool + Sync),
) -> Result<u64, String> {
    let mut random = Random::new(seed);
    let mut requests = 0;
    let ends = |what: &str, error: esker::Error, requests: u64| match may_fail() {
        true => Ok(requests),
        false => Err(format!("{what}: {error}")),
    };
    loop {
        let log = &mut logs[random.below(GROUPS) as usize];
        if random.one_in(400) {
            if let Err(error) = log.delete(db) {
                return ends("deleting a group", error, requests);
            }
            continue;
        }
        if random.one_in(400) {
            requests += 1;
            let dir = format!("/carried-{seed}-{requests}");
            if let Err(error) = log.carry(db, &dir, &mut random) {
                return ends("carrying a group", error, requests);
            }
            continue;
        }
        if random.one_in(20) {
            match log.check_persisted(db) {
                Err(error) => return ends("reading what is persistent", error, requests),
                Ok(Some(wrong)) => return Err(wrong),
                Ok(None) => {}
            }
        }
        log.grow(&mut random);
        if let Err(error) = log.apply(db, log.last()) {
            return ends("applying", error, requests);
        }
        requests += 1;
        let flushed = match random.below(300) {
            0 => db.flush_group(&log.name),
            1 => db.flush_oldest().map(|()| None),
            2..10 => Ok(db.group(&log.name).map(|group| group.persisted)),
            _ => Ok(None),
        };
        match flushed {
            Ok(Some(index)) => log.told_persisted(index),
            Ok(None) => {}
            Err(error) => return ends("flushing", error, requests),
        }
    }
}

/// Runs outages for so long. Returns how many there were, how many requests, and how many syncs
/// failed.
pub(super) fn outages(seed: u64, seconds: f64) -> Result<[u64; 3], String> {
    let watch = Stopwatch::default();
    let (mut outages, mut requests, mut failed) = (0, 0, 0);
    while watch.seconds() < seconds {
        let case = case_seed(seed, outages);
        let mut random = Random::new(case);
        let mut options = random_options(&mut random);
        options.compaction_threads = 2;
        let mut vfs = StrictVfs::new();
        let told = Told::default();
        let mut logs: Vec<Log> =
            (0..THREADS * GROUPS).map(|group| Log::new(group, &told)).collect();
        for round in 0..ROUNDS {
            vary(&mut options, &mut random);
            let within = |e: String| format!("outage {round} of seed {case}: {e}");
            let faulty = FaultyVfs::with_lasting_lies(Arc::new(vfs.clone()));
            let db =
                open(&faulty, &options, case ^ round, &told).map_err(|e| within(e.to_string()))?;
            for log in &mut logs {
                let index = log.check(&db).map_err(within)?;
                for next in index + 1..=log.last() {
                    log.apply(&db, next).map_err(|e| within(e.to_string()))?;
                }
                log.compare(&db, log.last()).map_err(within)?;
            }
            if random.one_in(2) {
                faulty.inject(failing_sync(&mut random, &["", ".tbl", "MANIFEST"]));
            }
            vfs.set_crash_at(vfs.mutating_calls() + 1 + random.below(600));
            let may_fail = &|| vfs.is_off() || faulty.faults_fired() > 0;
            let counts: Result<Vec<u64>, String> = std::thread::scope(|scope| {
                let chunks = logs.chunks_mut(GROUPS as usize).enumerate();
                let threads = chunks.map(|(nth, logs)| {
                    let (seed, db) = (case_seed(case ^ round, nth as u64), &db);
                    scope.spawn(move || apply_until_off(db, logs, seed, may_fail))
                });
                let threads: Vec<_> = threads.collect();
                let join = |thread: std::thread::ScopedJoinHandle<'_, Result<u64, String>>| {
                    thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))
                };
                threads.into_iter().map(join).collect()
            });
            requests += counts.map_err(within)?.into_iter().sum::<u64>();
            failed += faulty.faults_fired();
            drop(db);
            logs.iter_mut().for_each(Log::listen);
            let way = [Survival::None, Survival::Some { percent: 50 }, Survival::ProcessDeath];
            vfs = vfs.crash(way[random.below(3) as usize], case ^ round);
            outages += 1;
        }
    }
    Ok([outages, requests, failed])
}
