//! How soon a store that has a run index answers after it is opened, and how soon the index is
//! there.
//!
//! An index is in memory only: it is made anew from the digests of tables, in the background, while
//! reads do without it.

use super::lab::Lab;
use crate::esker_store::{self, Esker, Tree};
use crate::machine::{Machine, disk_bytes};
use crate::progress::Progress;
use crate::report::median;
use esker::event::Event;
use esker::{Db, Options, Setup};
use esker_draw::Outcome;
use esker_draw::units::{bytes, duration};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Bytes of a value, and of a record.
const VALUE_BYTES: usize = 1_000;
const RECORD_BYTES: u64 = 16 + VALUE_BYTES as u64;
/// The smallest memtables there are.
const MEMTABLE_BYTES_MIN: u64 = 64 << 10;
/// Runs at which a level is merged.
const RUNS: u32 = 16;

/// One opening.
struct Opened {
    first_get: Duration,
    index: Duration,
    /// Runs that the index knows, its entries and bytes.
    knows: [u64; 3],
}

/// Fills a store of so many bytes and opens it so often, none of it in the system's page cache: a
/// page of results, or `None` if that was interrupted.
pub(super) fn run(
    (store_bytes, openings): (u64, u32),
    dir: &Path,
    stop: &AtomicBool,
    progress: &mut Progress,
) -> Outcome<Option<String>> {
    let num = (store_bytes / RECORD_BYTES).max(1);
    let name = "opening".to_owned();
    let mut lab = Lab { name, num, value_size: VALUE_BYTES, dir, stop, progress };
    let options = options(&lab, store_bytes)?;
    let store = esker_store::store_of(Db::open(dir, options.clone())?);
    if lab.run(&*store, "fillrandom", 0, 0, num)?.is_none() {
        return Ok(None);
    }
    store.settle()?;
    store.close()?;
    let mut all = Vec::new();
    for round in 0..openings {
        lab.progress.at("opening", u64::from(round), u64::from(openings));
        // In the middle of the others, so that every run may have it.
        let absent = format!("{:016}+", num / 2);
        let Some(opened) = open(dir, &options, absent.as_bytes(), stop)? else { return Ok(None) };
        all.push(opened);
    }
    Ok(Some(page(num, disk_bytes(dir), &all)))
}

/// An index is made from two runs on; memtables are so small that there are some, however little is
/// put.
fn options(lab: &Lab<'_>, store_bytes: u64) -> Outcome<Options> {
    let engine = Esker { tree: Tree::Indexed, runs: Some(RUNS), ..Esker::default() };
    let mut options = engine.options(&lab.config(0)?.settings(false));
    options.error_if_exists = false;
    let keyspace = &mut options.default_keyspace;
    keyspace.run_index_runs_min = 2;
    keyspace.memtable_bytes = keyspace.memtable_bytes.min(store_bytes / 20).max(MEMTABLE_BYTES_MIN);
    Ok(options)
}

/// Opens the store, gets a key that is not there, and waits for the index; `None` if that was
/// interrupted.
fn open(
    dir: &Path,
    options: &Options,
    absent: &[u8],
    stop: &AtomicBool,
) -> Outcome<Option<Opened>> {
    leave_page_cache(dir)?;
    let (told, made) = mpsc::channel();
    let listener = move |event: &Event| {
        let knows = match event {
            Event::RunIndexMade { runs, entries, bytes, .. } => Ok([*runs, *entries, *bytes]),
            Event::RunIndexTooLarge { .. } | Event::RunIndexFailed { .. } => {
                Err(format!("{event:?}"))
            }
            _ => return,
        };
        // Who opened may have been interrupted.
        let _ = told.send(knows);
    };
    let setup = Setup { listener: Some(Arc::new(listener)), ..Setup::default() };
    let begun = Instant::now();
    let db = Db::open_with(dir, options.clone(), setup)?;
    if db.get(absent)?.is_some() {
        return Err("a key is there that was never put".into());
    }
    let first_get = begun.elapsed();
    let runs: u64 = db.stats().keyspaces[0].levels.iter().map(|level| level.runs).sum();
    if runs < 2 {
        return Err("the store has one run only, and needs no index: choose a larger one".into());
    }
    let opened = loop {
        match made.recv_timeout(Duration::from_millis(100)) {
            Ok(Ok(knows)) if knows[0] == runs => {
                break Some(Opened { first_get, index: begun.elapsed(), knows });
            }
            Ok(Err(why)) => return Err(why.into()),
            _ if stop.load(Ordering::Relaxed) => break None,
            _ => {}
        }
    };
    db.close()?;
    Ok(opened)
}

/// Has the system forget what it keeps of the store's files, as far as it can be asked to.
fn leave_page_cache(dir: &Path) -> Outcome<()> {
    let leave = || -> std::io::Result<()> {
        for entry in fs::read_dir(dir)? {
            let file = File::open(entry?.path())?;
            // What is not on the disk yet stays.
            file.sync_all()?;
            #[cfg(target_os = "linux")]
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
        Ok(())
    };
    leave().map_err(|error| format!("{}: {error}", dir.display()).into())
}

fn page(num: u64, stored: u64, all: &[Opened]) -> String {
    let median_of = |part: fn(&Opened) -> Duration| {
        duration(median(all.iter().map(|opened| part(opened).as_secs_f64() * 1e9).collect()))
    };
    let mut text = format!(
        "{}\n\n{num} puts in random order, keys of 16 and values of {VALUE_BYTES} bytes, tiers of {RUNS} runs; {} on the disk and none of it \
         in the system's page cache. Times are from the beginning of the open; medians of {}.\n\n\
         | runs | entries | index | first get, of an absent key | index in force |\n|---|---|---|---|---|\n",
        Machine::this(),
        bytes(stored),
        all.len(),
    );
    if let Some(Opened { knows: [runs, entries, index_bytes], .. }) = all.last() {
        let _ = writeln!(
            text,
            "| {runs} | {entries} | {} | {} | {} |",
            bytes(*index_bytes),
            median_of(|opened| opened.first_get),
            median_of(|opened| opened.index),
        );
    }
    text
}
