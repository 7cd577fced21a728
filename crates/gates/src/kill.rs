//! Gate: a real process under load is killed, again and again, on a real file system.
//!
//! The gate runs its own binary as a child that opens the store and writes from several threads,
//! each batch across three keyspaces, some synced, while others flush and compact. After each
//! acknowledged batch the child writes a line to its standard output. The parent kills it at a
//! random moment, opens the store, and checks for each thread that what is there is a prefix of
//! what the thread wrote, with every acknowledged batch in it: a write survives the death of the
//! process, synced or not.
//!
//! One store lives through all kills. Some kills hit the child while it recovers.

use crate::gate::{Config, Outcome, Progress, Stopwatch, Watchdog, case_seed, pause};
use crate::history::{small_options, vary};
use crate::random::Random;
use esker::base::checksum::mix64;
use esker::{Batch, Db, Options, ScanOptions, WriteOptions};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Threads that write.
const WRITERS: u64 = 4;

/// Keys of each thread in each keyspace.
const KEYS: u64 = 300;

const KEYSPACES: [&str; 3] = ["default", "left", "right"];

/// The word that makes the binary a child: `kill-child DIR SEED`.
pub const CHILD: &str = "kill-child";

/// Where a thread stands.
#[derive(Clone, Default)]
struct Thread {
    /// The newest batch that is known to be in the store.
    applied: u64,
    /// What its keys hold after that batch, by keyspace.
    rows: [BTreeMap<Vec<u8>, Vec<u8>>; 3],
}

/// Runs the gate: 200 kills, or 10 thousand.
pub fn gate(config: &Config) -> Outcome {
    let dir =
        std::env::temp_dir().join(format!("esker-kill-{}-{}", std::process::id(), config.seed));
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let kills = config.choose(200, 10_000);
    let mut run = Run {
        dir: dir.join("db"),
        random: Random::new(config.seed),
        threads: vec![Thread::default(); WRITERS as usize],
        acknowledged: 0,
        in_recovery: 0,
    };
    let watchdog = Watchdog::start(Duration::from_secs(60));
    let progress = Progress::of(kills);
    let (watch, seconds_max) = (Stopwatch::default(), config.seconds_max());
    let mut kills_done = 0;
    while kills_done < kills && watch.seconds() < seconds_max {
        let kill = kills_done;
        watchdog.alive(format!("kill {kill}"));
        run.round(case_seed(config.seed, kill))
            .map_err(|e| format!("kill {kill}: {e}\nthe store is left in {}", dir.display()))?;
        progress.one_done();
        kills_done += 1;
    }
    std::fs::remove_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let Run { acknowledged, in_recovery, .. } = run;
    let batches: u64 = run.threads.iter().map(|t| t.applied).sum();
    Ok(format!(
        "{kills_done} kills ({in_recovery} before the store was open), {acknowledged} batches acknowledged, \
         {batches} in the store"
    ))
}

struct Run {
    dir: PathBuf,
    random: Random,
    threads: Vec<Thread>,
    acknowledged: u64,
    in_recovery: u64,
}

impl Run {
    fn round(&mut self, seed: u64) -> Result<(), String> {
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let starts: Vec<String> = self.threads.iter().map(|t| t.applied.to_string()).collect();
        let mut child = Command::new(program)
            .args([CHILD, &self.dir.to_string_lossy(), &seed.to_string(), &starts.join(",")])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("starting a child: {e}"))?;
        let output = child.stdout.take().ok_or("the child has no output")?;
        let (tell, told) = mpsc::channel();
        let reader = std::thread::spawn(move || read_acknowledged(BufReader::new(output), &tell));
        // Every third at once: while the store is being opened.
        if !self.random.one_in(3) {
            let _ = told.recv_timeout(Duration::from_secs(30));
        }
        let ms_max = [5, 60, 250][self.random.below(3) as usize];
        pause(Duration::from_micros(self.random.below(ms_max * 1000)));
        let ended = kill(&mut child);
        // If it has ended by itself, it says why.
        let heard = reader.join().map_err(|_| "the reader panicked")??;
        ended?;
        self.in_recovery += u64::from(!heard.opened);
        self.acknowledged += heard.count;
        // Not every time: children recover what children left.
        if self.random.one_in(5) && !heard.opened {
            return Ok(());
        }
        self.check(&heard)
    }

    fn check(&mut self, heard: &Heard) -> Result<(), String> {
        let db = Db::open(&self.dir, options(&mut self.random))
            .map_err(|e| format!("reopening: {e}"))?;
        for (i, thread) in self.threads.iter_mut().enumerate() {
            let least = heard.newest.get(&(i as u64)).copied().unwrap_or(0).max(thread.applied);
            check_thread(&db, i as u64, thread, least).map_err(|e| format!("thread {i}: {e}"))?;
        }
        check_leaks(&db, &self.dir)?;
        if self.random.one_in(3) {
            db.close().map_err(|e| format!("closing: {e}"))?;
        }
        Ok(())
    }
}

fn kill(child: &mut Child) -> Result<(), String> {
    if let Ok(Some(status)) = child.try_wait() {
        return Err(format!("the child ended by itself: {status}"));
    }
    child.kill().and_then(|()| child.wait()).map_err(|e| format!("killing: {e}"))?;
    Ok(())
}

/// What a child said before it died.
#[derive(Default)]
struct Heard {
    opened: bool,
    count: u64,
    /// The newest acknowledged batch of each thread.
    newest: BTreeMap<u64, u64>,
}

/// Reads to the end; tells once the store is open.
fn read_acknowledged(reader: impl BufRead, tell: &mpsc::Sender<()>) -> Result<Heard, String> {
    let mut heard = Heard::default();
    for line in reader.lines() {
        let Ok(line) = line else { break };
        match line.split_once(' ') {
            Some(("w", rest)) => {
                let numbers: Vec<u64> = rest.split(' ').filter_map(|n| n.parse().ok()).collect();
                if let [thread, batch] = numbers[..] {
                    heard.newest.insert(thread, batch);
                    heard.count += 1;
                }
            }
            Some(("error", what)) => return Err(format!("the child failed: {what}")),
            _ if line == "open" => {
                heard.opened = true;
                let _ = tell.send(());
            }
            _ => {}
        }
    }
    Ok(heard)
}

/// Another shape of trees for each open.
fn options(random: &mut Random) -> Options {
    let mut options = Options { compaction_threads: 2, ..small_options() };
    vary(&mut options, random);
    if random.one_in(2) {
        // Logs that grow to megabytes between syncs.
        options.memory_budget_bytes *= 2;
        options.memtables_bytes_max *= 8;
        options.wal_bytes_max *= 8;
        options.default_keyspace.memtable_bytes *= 32;
    }
    options
}

fn marker(thread: u64) -> Vec<u8> {
    format!("t{thread}~").into_bytes()
}

/// The rows of a batch: `None` deletes. The same for parent and child.
fn rows_of(thread: u64, batch: u64) -> Vec<(usize, Vec<u8>, Option<Vec<u8>>)> {
    let mut random = Random::new(mix64(thread << 48 ^ batch));
    let mut rows = Vec::new();
    for _ in 0..1 + random.below(5) {
        let keyspace = random.below(3) as usize;
        let key = format!("t{thread}k{:04}", random.below(KEYS)).into_bytes();
        let len = [10, 10, 100, 100, 2_000, 2_000, 20_000][random.below(7) as usize];
        let value = (!random.one_in(5)).then(|| {
            let mut value = batch.to_string().into_bytes();
            value.extend(random.bytes(len));
            value
        });
        rows.push((keyspace, key, value));
    }
    // In every keyspace, so that a batch that is there in part is found out.
    for keyspace in 0..3 {
        rows.push((keyspace, marker(thread), Some(batch.to_string().into_bytes())));
    }
    rows
}

/// Checks one thread's rows and moves its model on to the batch that the store holds.
fn check_thread(db: &Db, number: u64, thread: &mut Thread, least: u64) -> Result<(), String> {
    let names = db.keyspace_names();
    let mut markers = Vec::new();
    for name in KEYSPACES {
        let found = match names.iter().any(|n| n == name) {
            true => db.keyspace(name).and_then(|k| k.get(&marker(number))),
            false => Ok(None),
        };
        let text = found.map_err(|e| e.to_string())?;
        let text = text.map_or("0".to_owned(), |v| String::from_utf8_lossy(&v).into_owned());
        markers.push(text.parse::<u64>().map_err(|_| format!("marker {text}"))?);
    }
    let applied = markers[0];
    if markers.iter().any(|&m| m != applied) {
        return Err(format!("a batch is there in part: {markers:?}"));
    }
    if applied < least {
        return Err(format!("batch {applied} is the newest of {least} that had to survive"));
    }
    for batch in thread.applied + 1..=applied {
        for (keyspace, key, value) in rows_of(number, batch) {
            match value {
                Some(value) => thread.rows[keyspace].insert(key, value),
                None => thread.rows[keyspace].remove(&key),
            };
        }
    }
    thread.applied = applied;
    for (name, expected) in KEYSPACES.iter().zip(&thread.rows) {
        if !names.iter().any(|n| n == name) {
            continue;
        }
        let keyspace = db.keyspace(name).map_err(|e| e.to_string())?;
        let prefix = format!("t{number}");
        let mut cursor =
            keyspace.scan(&ScanOptions::prefix(prefix.as_bytes())).map_err(|e| e.to_string())?;
        cursor.seek_to_first().map_err(|e| e.to_string())?;
        for (key, value) in expected {
            if !cursor.valid() || cursor.key() != &key[..] || cursor.value() != &value[..] {
                return Err(format!("{name}: not the row {}", key.escape_ascii()));
            }
            cursor.next().map_err(|e| e.to_string())?;
        }
        if cursor.valid() {
            return Err(format!("{name}: a row {} too many", cursor.key().escape_ascii()));
        }
    }
    Ok(())
}

/// Once idle, the directory holds the live files and no others.
fn check_leaks(db: &Db, dir: &Path) -> Result<(), String> {
    let watch = Stopwatch::default();
    loop {
        db.wait_idle().map_err(|e| format!("wait_idle: {e}"))?;
        let live: u64 = db.stats().keyspaces.iter().flat_map(|k| &k.levels).map(|l| l.tables).sum();
        let entries = std::fs::read_dir(dir).map_err(|e| e.to_string())?;
        let names: Vec<String> =
            entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        let count = |end: &str| names.iter().filter(|n| n.ends_with(end)).count();
        let manifests = names.iter().filter(|n| n.starts_with("MANIFEST")).count();
        if count(".tbl") as u64 == live && count(".tmp") == 0 && manifests == 1 {
            return Ok(());
        }
        // Obsolete files are removed by a background thread, a moment later.
        if watch.seconds() > 10.0 {
            return Err(format!("{live} live tables; the directory holds {names:?}"));
        }
        pause(Duration::from_millis(5));
    }
}

/// The child: opens the store and writes until it is killed.
pub fn child(arguments: &[String]) -> Result<(), String> {
    let [dir, seed, starts] = arguments else { return Err("wrong arguments".to_owned()) };
    let seed: u64 = seed.parse().map_err(|_| "no seed".to_owned())?;
    let result = write_until_killed(Path::new(dir), seed, starts);
    if let Err(error) = &result {
        println!("error {error}");
    }
    result
}

fn write_until_killed(dir: &Path, seed: u64, starts: &str) -> Result<(), String> {
    let options = options(&mut Random::new(!seed));
    let db = Db::open(dir, options.clone()).map_err(|e| format!("opening: {e}"))?;
    for name in &KEYSPACES[1..] {
        if !db.keyspace_names().iter().any(|n| n == name) {
            let options = options.default_keyspace.clone();
            db.create_keyspace(name, options).map_err(|e| format!("creating: {e}"))?;
        }
    }
    say("open")?;
    let starts: Vec<u64> = starts.split(',').filter_map(|n| n.parse().ok()).collect();
    std::thread::scope(|scope| {
        let mut writers = Vec::new();
        for (thread, start) in starts.into_iter().enumerate() {
            let db = &db;
            writers.push(scope.spawn(move || write(db, thread as u64, start, seed)));
        }
        let mut random = Random::new(seed);
        loop {
            if let Some(at) = writers.iter().position(std::thread::ScopedJoinHandle::is_finished) {
                let ended = writers.remove(at).join();
                fail(&ended.map_or_else(
                    |_| "a writer panicked".to_owned(),
                    |ended| match ended {
                        Ok(()) => "a writer ended".to_owned(),
                        Err(error) => error,
                    },
                ));
            }
            pause(Duration::from_millis(3 + random.below(30)));
            let done = match random.below(4) {
                0 => db.flush(),
                1 => db.sync(),
                2 => db.default_keyspace().compact_range(None, None),
                _ => Ok(()),
            };
            if let Err(error) = done {
                fail(&format!("upkeep: {error}"));
            }
        }
    })
}

/// Says what failed, and ends this child: its other threads would go on for ever.
fn fail(what: &str) -> ! {
    println!("error {what}");
    std::process::exit(1)
}

/// Writes one thread's batches. The parent may have missed some of those that are there already.
fn write(db: &Db, thread: u64, start: u64, seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed ^ thread);
    let ids: Vec<_> = KEYSPACES
        .iter()
        .map(|n| db.keyspace(n).map(|k| k.id()))
        .collect::<Result<_, _>>()
        .map_err(|e| e.to_string())?;
    let found = db.get(&marker(thread)).map_err(|e| e.to_string())?;
    let found = found.and_then(|v| String::from_utf8_lossy(&v).parse().ok()).unwrap_or(0);
    if found < start {
        return Err(format!("thread {thread}: batch {found} instead of {start}"));
    }
    // Some threads sync each batch: syncs that are close to each other take another way through the
    // log, and so do those that much was written before.
    let few = Random::new(!seed).one_in(3);
    let syncs_one_in = if few { 10_000 } else { [1, 20][random.below(2) as usize] };
    for number in found + 1.. {
        let mut batch = Batch::new();
        for (keyspace, key, value) in rows_of(thread, number) {
            match value {
                Some(value) => batch.put_in(ids[keyspace], &key, &value),
                None => batch.delete_in(ids[keyspace], &key),
            };
        }
        let sync = random.one_in(syncs_one_in);
        db.write(batch, WriteOptions { sync }).map_err(|e| format!("writing: {e}"))?;
        say(&format!("w {thread} {number}"))?;
    }
    Ok(())
}

/// One line, in one system call, so that nothing is left in a buffer.
fn say(line: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
    written.map_err(|e| format!("writing to the parent: {e}"))
}
