//! What a write costs, and reading it back from memory: logs mapped and written with `write`,
//! beside a `BTreeMap`.
//!
//! Usage: `write_speed [thousand keys]`. Keys have 8 random bytes, values 100; nothing is synced or
//! flushed meanwhile.

use esker::base::checksum::{crc32c, mix64};
use esker::base::env::SystemClock;
use esker::base::vfs::posix::PosixVfs;
use esker::base::{Clock, Env};
use esker::{Db, KeyspaceOptions, Options, Result, Setup};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

const VALUE: [u8; 100] = [7; 100];

/// Nanoseconds that each of `count` runs takes.
fn each_ns(count: u64, mut run: impl FnMut(u64) -> Result<()>) -> Result<u64> {
    let clock = SystemClock::new();
    (0..count).try_for_each(&mut run)?;
    Ok(clock.now_ns() / count.max(1))
}

fn key(i: u64) -> [u8; 8] {
    mix64(i).to_be_bytes()
}

fn store(count: u64, plain_logs: bool) -> Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-write-speed-{}", std::process::id()));
    let vfs = if plain_logs { PosixVfs::with_plain_logs() } else { PosixVfs::new() };
    let env = Env { vfs: Arc::new(vfs), ..Env::posix() };
    let options = Options {
        memory_budget_bytes: 8 << 30,
        default_keyspace: KeyspaceOptions { memtable_bytes: 1 << 30, ..KeyspaceOptions::default() },
        ..Options::default()
    };
    let db = Db::open_with(&dir, options, Setup { env, ..Setup::default() })?;
    let put = each_ns(count, |i| db.put(&key(i), &VALUE))?;
    let get = each_ns(count, |i| db.get(&key(i)).map(|value| drop(black_box(value))))?;
    let scan = each_ns(1, |_| db.iter()?.try_for_each(|pair| pair.map(drop)))?;
    let logs = if plain_logs { "written logs" } else { "mapped logs" };
    println!("{logs:14} put {put:>6} ns, get {get:>6} ns, first scan {:>4} ms", scan / 1_000_000);
    db.close()?;
    let _ = std::fs::remove_dir_all(&dir);
    Ok(())
}

fn main() -> Result<()> {
    let thousands = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(500);
    let count: u64 = thousands * 1_000;
    for plain_logs in [false, true, false, true] {
        store(count, plain_logs)?;
    }
    let mut map = BTreeMap::new();
    let put = each_ns(count, |i| {
        map.insert(key(i).to_vec(), VALUE.to_vec());
        Ok(())
    })?;
    let get = each_ns(count, |i| {
        black_box(map.get(&key(i)[..]));
        Ok(())
    })?;
    println!("{:14} put {put:>6} ns, get {get:>6} ns", "BTreeMap");
    let block = [1; 4096];
    let crc = each_ns(count, |_| {
        black_box(crc32c(black_box(&block)));
        Ok(())
    })?;
    println!("{:14} {crc:>10} ns for 4 KiB", "CRC-32C");
    Ok(())
}
