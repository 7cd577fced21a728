//! Gate: sixteen threads on one store, with invariants that are checked while they run.
//!
//! | who | what holds |
//! |---|---|
//! | writers | each owns counters; a batch writes one to two keyspaces; it reads back what it wrote |
//! | adders | all add to the same counters, one after the other; none of the sums is lost |
//! | readers | a counter never goes back; under a snapshot a pair is equal |
//! | scanners | keys come in order, forward and backward alike; what a cursor sees does not change |
//! | upkeep | flush, compact, also by another policy, collect values, checkpoint, ranges deleted and written anew, verify |
//!
//! The same program runs under the sanitizers.

use crate::gate::{Config, Outcome, Stopwatch, Watchdog, case_seed, guarded};
use crate::history::{random_compaction, random_values, small_options};
use crate::random::Random;
use esker::base::Env;
use esker::base::sync::Mutex;
use esker::base::vfs::strict::StrictVfs;
use esker::{Batch, Compaction, Db, Keyspace, Options, ScanOptions, Setup, Snapshot, WriteOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Keys that each writer owns.
const OWN_KEYS: u64 = 400;
const WRITERS: u64 = 4;
const ADDERS: u64 = 2;
const READERS: u64 = 4;
const SCANNERS: u64 = 4;
const UPKEEP: u64 = 2;
/// Counters that all adders share.
const SHARED: u64 = 20;

/// Runs the gate: for 20 seconds, or ten minutes.
pub fn gate(config: &Config) -> Outcome {
    let seconds = config.seconds(20.0, 600.0);
    let mut sums = [0; 4];
    // On the real file system, and on one in memory, where threads meet more often.
    for in_memory in [false, true] {
        let done = round(config.seed, seconds / 2.0, in_memory)?;
        sums.iter_mut().zip(done).for_each(|(sum, n)| *sum += n);
    }
    let [writes, reads, scans, upkeep] = sums;
    Ok(format!("{writes} batches, {reads} reads, {scans} scans, {upkeep} upkeeps"))
}

struct Shared {
    pairs: [Keyspace; 2],
    db: Db,
    stop: AtomicBool,
    /// Writes, reads, scans, upkeeps.
    done: [AtomicU64; 4],
    /// The newest acknowledged count of each writer's keys.
    written: Vec<AtomicU64>,
    /// Sums that the adders made. The lock makes read and write one step.
    sums: Vec<Mutex<u64>>,
    watchdog: Watchdog,
    dir: String,
}

type Checked = Result<(), String>;

/// What a thread does, given its number.
type Job = fn(&Shared, u64, Random) -> Checked;

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn text(error: esker::Error) -> String {
    error.to_string()
}

fn round(seed: u64, seconds: f64, in_memory: bool) -> Result<[u64; 4], String> {
    let name = format!("esker-threads-{}-{seed}", std::process::id());
    let temp = std::env::temp_dir().join(name);
    let (env, dir) = match in_memory {
        true => (Env::with_vfs(Arc::new(StrictVfs::new()), seed), "/threads".to_owned()),
        false => (Env::posix(), temp.to_string_lossy().into_owned()),
    };
    let mut options = Options { compaction_threads: 2, ..small_options() };
    random_compaction(&mut options.default_keyspace, &mut Random::new(!seed));
    random_values(&mut options, &mut Random::new(!seed ^ 1));
    let setup = Setup { env, listener: None, inline_background: false, ..Setup::default() };
    let db = Db::open_with(format!("{dir}/db"), options.clone(), setup.clone()).map_err(text)?;
    let pair = |name: &str| db.create_keyspace(name, options.default_keyspace.clone());
    let shared = Shared {
        pairs: [pair("one").map_err(text)?, pair("two").map_err(text)?],
        db: db.clone(),
        stop: AtomicBool::new(false),
        done: Default::default(),
        written: (0..WRITERS * OWN_KEYS).map(|_| AtomicU64::new(0)).collect(),
        sums: (0..SHARED).map(|_| Mutex::new(0)).collect(),
        watchdog: Watchdog::start(Duration::from_secs(60)),
        dir: dir.clone(),
    };
    let failures = run_threads(&shared, seed, seconds);
    shared.watchdog.over();
    if !failures.is_empty() {
        return Err(failures.join("\n"));
    }
    let done = shared.done.each_ref().map(|n| n.load(Ordering::Relaxed));
    check_end(&shared)?;
    drop(shared);
    db.close().map_err(text)?;
    let reopened = Db::open_with(format!("{dir}/db"), options, setup).map_err(text)?;
    drop(reopened);
    if !in_memory {
        std::fs::remove_dir_all(&temp).map_err(|e| e.to_string())?;
    }
    Ok(done)
}

fn run_threads(shared: &Shared, seed: u64, seconds: f64) -> Vec<String> {
    let jobs: [(u64, Job); 5] = [
        (WRITERS, writer),
        (ADDERS, adder),
        (READERS, reader),
        (SCANNERS, scanner),
        (UPKEEP, upkeep),
    ];
    let watch = Stopwatch::default();
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (kind, (count, job)) in jobs.into_iter().enumerate() {
            for number in 0..count {
                let random = Random::new(case_seed(seed, (kind as u64) << 8 | number));
                let failures = &failures;
                scope.spawn(move || {
                    if let Err(message) = guarded(|| job(shared, number, random)) {
                        failures.lock().push(format!("thread {kind}.{number}: {message}"));
                    }
                    // One that ends for whatever reason ends all.
                    shared.stop.store(true, Ordering::Relaxed);
                });
            }
        }
        while watch.seconds() < seconds && !shared.stop.load(Ordering::Relaxed) {
            crate::gate::pause(Duration::from_millis(20));
        }
        shared.stop.store(true, Ordering::Relaxed);
    });
    failures.into_inner()
}

impl Shared {
    /// Counts a piece of work. False if it was the last.
    fn go_on(&self, kind: usize) -> bool {
        let n = self.done[kind].fetch_add(1, Ordering::Relaxed);
        if n.is_multiple_of(64) {
            self.watchdog.alive(format!("kind {kind}"));
        }
        !self.stop.load(Ordering::Relaxed)
    }
}

fn own_key(writer: u64, key: u64) -> Vec<u8> {
    format!("w{writer}k{key:05}").into_bytes()
}

fn number_of(value: &[u8]) -> Result<u64, String> {
    let digits = value.split(|&b| b == b' ').next().unwrap_or_default();
    let text = String::from_utf8_lossy(digits);
    text.parse().map_err(|_| format!("the value {text:?} is no number"))
}

fn value_of(number: u64, random: &mut Random) -> Vec<u8> {
    let mut value = format!("{number} ").into_bytes();
    let len = [5, 100, 1_500][random.below(3) as usize];
    value.extend(random.bytes(len));
    value
}

fn writer(shared: &Shared, number: u64, mut random: Random) -> Checked {
    let [one, two] = &shared.pairs;
    let mut counts = vec![0u64; OWN_KEYS as usize];
    while shared.go_on(0) {
        let key = random.below(OWN_KEYS);
        let name = own_key(number, key);
        let count = counts[key as usize] + 1;
        let value = value_of(count, &mut random);
        let mut batch = Batch::new();
        batch.put_in(one, &name, &value).put_in(two, &name, &value);
        let sync = random.one_in(200);
        shared.db.write(batch, WriteOptions { sync }).map_err(text)?;
        counts[key as usize] = count;
        shared.written[(number * OWN_KEYS + key) as usize].store(count, Ordering::Release);
        let keyspace = if random.one_in(2) { one } else { two };
        let found = keyspace.get(&name).map_err(text)?;
        if found.as_deref() != Some(&value[..]) {
            return Err(format!("{}: its own write is not there", name.escape_ascii()));
        }
    }
    Ok(())
}

fn adder(shared: &Shared, _: u64, mut random: Random) -> Checked {
    while shared.go_on(0) {
        let at = random.below(SHARED);
        let key = format!("sum{at}").into_bytes();
        let mut sum = shared.sums[at as usize].lock();
        let found = shared.db.get(&key).map_err(text)?;
        let found = found.map_or(Ok(0), |value| number_of(&value))?;
        if found != *sum {
            return Err(format!("sum {at} is {found} and should be {}", *sum));
        }
        *sum += 1;
        shared.db.put(&key, &value_of(*sum, &mut random)).map_err(text)?;
    }
    Ok(())
}

fn reader(shared: &Shared, _: u64, mut random: Random) -> Checked {
    let mut seen = vec![0u64; (WRITERS * OWN_KEYS) as usize];
    let read = |keyspace: &Keyspace, key: &[u8], snapshot: Option<&Snapshot>| {
        let found = match snapshot {
            Some(snapshot) => keyspace.get_at(key, snapshot),
            None => keyspace.get(key),
        };
        found.map_err(text)?.map_or(Ok(0), |value| number_of(&value))
    };
    while shared.go_on(1) {
        let (writer, key) = (random.below(WRITERS), random.below(OWN_KEYS));
        let at = (writer * OWN_KEYS + key) as usize;
        let name = own_key(writer, key);
        let acknowledged = shared.written[at].load(Ordering::Acquire);
        let least = acknowledged.max(seen[at]);
        let now = read(&shared.pairs[random.below(2) as usize], &name, None)?;
        if now < least {
            return Err(format!("{} went back from {least} to {now}", name.escape_ascii()));
        }
        seen[at] = now;
        let snapshot = shared.db.snapshot();
        let first = read(&shared.pairs[0], &name, Some(&snapshot))?;
        let second = read(&shared.pairs[1], &name, Some(&snapshot))?;
        if first != second || first < now {
            let name = name.escape_ascii();
            return Err(format!("{name} is {first} and {second} at once, after {now}"));
        }
        if random.one_in(4) {
            let again = read(&shared.pairs[0], &name, Some(&snapshot))?;
            if again != first {
                return Err(format!("under a snapshot {first} became {again}"));
            }
        }
    }
    Ok(())
}

type Rows = Vec<(Vec<u8>, u64)>;

fn rows(
    keyspace: &Keyspace,
    writer: u64,
    snapshot: &Snapshot,
    backward: bool,
) -> Result<Rows, String> {
    let prefix = format!("w{writer}");
    let options = ScanOptions::prefix(prefix.as_bytes()).at(snapshot);
    let mut cursor = keyspace.scan(&options).map_err(text)?;
    let mut rows = Rows::new();
    if backward { cursor.seek_to_last() } else { cursor.seek_to_first() }.map_err(text)?;
    while cursor.valid() {
        rows.push((cursor.key().to_vec(), number_of(cursor.value())?));
        if backward { cursor.prev() } else { cursor.next() }.map_err(text)?;
    }
    if backward {
        rows.reverse();
    }
    match rows.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        Some(pair) => Err(format!("{} comes twice or too early", pair[0].0.escape_ascii())),
        None => Ok(rows),
    }
}

fn scanner(shared: &Shared, _: u64, mut random: Random) -> Checked {
    while shared.go_on(2) {
        let writer = random.below(WRITERS);
        let least: u64 = (0..OWN_KEYS)
            .map(|k| shared.written[(writer * OWN_KEYS + k) as usize].load(Ordering::Acquire))
            .sum();
        let snapshot = shared.db.snapshot();
        let one = rows(&shared.pairs[0], writer, &snapshot, random.one_in(2))?;
        let two = rows(&shared.pairs[1], writer, &snapshot, random.one_in(2))?;
        if one != two {
            return Err(format!("writer {writer}: the keyspaces differ under a snapshot"));
        }
        let sum: u64 = one.iter().map(|row| row.1).sum();
        if sum < least {
            return Err(format!("writer {writer}: {sum} batches are seen of {least}"));
        }
        if rows(&shared.pairs[0], writer, &snapshot, random.one_in(2))? != one {
            return Err(format!("writer {writer}: a snapshot changed"));
        }
    }
    Ok(())
}

fn upkeep(shared: &Shared, number: u64, mut random: Random) -> Checked {
    let guest = format!("guest{number}");
    while shared.go_on(3) {
        let keyspace = &shared.pairs[random.below(2) as usize];
        match random.below(10) {
            0 | 1 => shared.db.flush().map_err(text)?,
            2 => keyspace.flush().map_err(text)?,
            3 => keyspace.compact_range(None, None).map_err(text)?,
            4 => churn(shared, number, &mut random)?,
            5 => {
                let options = small_options().default_keyspace;
                let created = shared.db.create_keyspace(&guest, options).map_err(text)?;
                created.put(b"key", b"value").map_err(text)?;
                shared.db.drop_keyspace(&guest).map_err(text)?;
            }
            6 if random.one_in(10) => {
                let copy = format!("{}/copy{number}-{}", shared.dir, random.next_u64());
                shared.db.checkpoint(&copy).map_err(text)?;
            }
            7 if random.one_in(5) => {
                let report = shared.db.verify(|_| true).map_err(text)?;
                if let Some((path, error)) = report.damage.first() {
                    return Err(format!("verify: {}: {error}", path.display()));
                }
            }
            8 if random.one_in(3) => {
                shared.db.collect_values(0.0, |_| true).map_err(text)?;
            }
            9 if random.one_in(3) => {
                let compaction =
                    [Compaction::Leveled, Compaction::Tiered][random.below(2) as usize];
                match keyspace.set_compaction(compaction) {
                    // A run index needs tiers.
                    Ok(()) | Err(esker::Error::InvalidArgument { .. }) => {}
                    Err(error) => return Err(format!("compact otherwise: {error}")),
                }
            }
            _ => crate::gate::pause(Duration::from_millis(random.below(20))),
        }
    }
    Ok(())
}

/// Deletes a range that nobody else writes to and fills it again.
fn churn(shared: &Shared, number: u64, random: &mut Random) -> Checked {
    let keyspace = &shared.pairs[0];
    let (start, end) = (format!("churn{number}"), format!("churn{number}~"));
    keyspace.delete_range(start.as_bytes(), end.as_bytes()).map_err(text)?;
    let left = keyspace.prefix(start.as_bytes()).map_err(text)?.count();
    if left != 0 {
        return Err(format!("{left} keys are left of a deleted range"));
    }
    let count = 1 + random.below(50);
    for i in 0..count {
        let key = format!("{start}/{i:04}");
        keyspace.put(key.as_bytes(), &random.bytes(500)).map_err(text)?;
    }
    let there = keyspace.prefix(start.as_bytes()).map_err(text)?.count() as u64;
    if there == count { Ok(()) } else { Err(format!("{there} keys of {count}")) }
}

/// At the end every counter is what its owner wrote last, and no memory is counted that nobody
/// holds.
fn check_end(shared: &Shared) -> Checked {
    let snapshot = shared.db.snapshot();
    for writer in 0..WRITERS {
        for keyspace in &shared.pairs {
            let found = rows(keyspace, writer, &snapshot, false)?;
            let expected: Rows = (0..OWN_KEYS)
                .map(|key| {
                    let at = (writer * OWN_KEYS + key) as usize;
                    (own_key(writer, key), shared.written[at].load(Ordering::Acquire))
                })
                .filter(|row| row.1 > 0)
                .collect();
            if found != expected {
                return Err(format!("writer {writer}: updates were lost"));
            }
        }
    }
    shared.db.flush().map_err(text)?;
    match shared.db.stats().memory.memtables {
        0 => shared.db.wait_idle().map_err(text),
        left => Err(format!("memtables hold {left} bytes after all were flushed")),
    }
}
