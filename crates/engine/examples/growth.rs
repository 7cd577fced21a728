//! Whether puts and gets get slower as a store grows: 64 Ki entries and four times as many again
//! and again.
//!
//! Usage: `growth [largest, in Ki entries: 4096] [memory budget in MiB: 4096]`. Keys have 16 bytes,
//! values 100, in random order. Gets hit, and are measured after each key has been read once: as
//! the store lies when its background work is done, and after all of it was compacted into one run.
//! With the memory it is given everything is cached. For 16384 Ki entries give it 8192 MiB.
//!
//! Beside it stand gets of the same keys and values from the standard library's `BTreeMap`: what
//! the logarithm costs on this machine, whose memory answers later the more of it is in use.

use esker::base::Clock;
use esker::base::checksum::mix64;
use esker::base::env::SystemClock;
use esker::{Db, Options, Result};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;

const SMALLEST: u64 = 64 << 10;
const GETS: u64 = 2_000_000;

/// Nanoseconds that each of `count` runs takes, on average.
fn each_ns(count: u64, mut run: impl FnMut(u64) -> Result<()>) -> Result<u64> {
    let clock = SystemClock::new();
    (0..count).try_for_each(&mut run)?;
    Ok(clock.now_ns() / count.max(1))
}

/// Key `i`: distinct ones, in random order.
fn key(i: u64) -> [u8; 16] {
    let mut key = *b"entry000........";
    key[8..].copy_from_slice(&mix64(i).to_be_bytes());
    key
}

/// Sorted runs that a get may have to ask.
fn runs(db: &Db) -> usize {
    db.stats().keyspaces.iter().flat_map(|k| &k.levels).map(|level| level.runs as usize).sum()
}

/// Nanoseconds of a get of a key that is there, everything being in memory.
fn warm_get_ns(db: &Db, entries: u64) -> Result<u64> {
    for i in 0..entries {
        assert!(db.get(&key(i))?.is_some(), "entry {i} is there");
    }
    each_ns(GETS, |i| {
        black_box(db.get(&key(mix64(i ^ 0x5eed) % entries))?);
        Ok(())
    })
}

/// Nanoseconds of a get of a key that is there, from an ordered map in memory.
fn map_get_ns(entries: u64) -> Result<u64> {
    let map: BTreeMap<[u8; 16], [u8; 100]> = (0..entries).map(|i| (key(i), [7; 100])).collect();
    each_ns(GETS, |i| {
        black_box(map.get(&key(mix64(i ^ 0x5eed) % entries)));
        Ok(())
    })
}

fn measure(dir: &Path, entries: u64, budget_bytes: u64) -> Result<()> {
    let options = Options { memory_budget_bytes: budget_bytes, ..Options::default() };
    let db = Db::open(dir, options)?;
    let value = [7; 100];
    let put_ns = each_ns(entries, |i| db.put(&key(i), &value))?;
    db.flush()?;
    db.wait_idle()?;
    let (found_runs, get_ns) = (runs(&db), warm_get_ns(&db, entries)?);
    db.default_keyspace().compact_range(None, None)?;
    let one_run_ns = warm_get_ns(&db, entries)?;
    db.close()?;
    let map_ns = map_get_ns(entries)?;
    println!("{entries:>10} {put_ns:>8} {get_ns:>8} {found_runs:>6} {one_run_ns:>12} {map_ns:>8}");
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<u64> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let largest = arguments.first().unwrap_or(&4096) << 10;
    let budget_bytes = arguments.get(1).unwrap_or(&4096) << 20;
    let dir = std::env::temp_dir().join(format!("esker-growth-{}", std::process::id()));
    println!("   entries   put ns   get ns   runs   one run ns   map ns");
    let mut entries = SMALLEST;
    while entries <= largest {
        let measured = measure(&dir, entries, budget_bytes);
        std::fs::remove_dir_all(&dir).ok();
        measured?;
        entries *= 4;
    }
    Ok(())
}
