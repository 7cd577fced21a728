//! Gate: the store keeps its budget of memory, values kept apart keep within their space, and no
//! write waits long.
//!
//! All run on the real file system with real threads.

use crate::gate::{Config, Outcome};
use crate::random::Random;
use esker::{Db, Options};
use std::path::Path;
use std::time::{Duration, Instant};

/// Runs the gate. The budget comes first, before anything else has used memory.
pub fn gate(config: &Config) -> Outcome {
    let dir = std::env::temp_dir().join(format!("esker-limits-{}", std::process::id()));
    let mut violations = Vec::new();
    let mut note = |name: &str, result: esker::Result<Figures>| {
        let _ = std::fs::remove_dir_all(&dir);
        let figures = result.map_err(|e| format!("{name}: {e}"))?;
        figures.lines.iter().for_each(|line| println!("  {line}"));
        violations.extend(figures.violations);
        Ok::<(), String>(())
    };
    let (memory_bytes, data_bytes) = config.choose((64 << 20, 1 << 30), (256 << 20, 10 << 30));
    note("budget", budget(&dir, memory_bytes, data_bytes, config.seed))?;
    let live_bytes = config.choose(384 << 20, 4 << 30);
    note("space", space(&dir, live_bytes, config.seed))?;
    let mut passed =
        format!("{} MiB of memory, {} MiB of values", memory_bytes >> 20, live_bytes >> 20);
    // How long a write waits is a matter of the machine too: asked only when one has the time.
    if config.long {
        let burst_bytes = 5 << 30;
        note("burst", burst(&dir, burst_bytes, 1_024, config.seed))?;
        passed += &format!(", a burst of {} MiB", burst_bytes >> 20);
    }
    match violations.is_empty() {
        true => Ok(passed),
        false => Err(violations.join("\n")),
    }
}

/// What a run was like, in lines for people, and what should not have been.
#[derive(Clone, Debug, Default)]
struct Figures {
    lines: Vec<String>,
    violations: Vec<String>,
}

/// Bytes of memory of this process: (private, of files, highest so far).
fn memory() -> (u64, u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|kib| kib.parse::<u64>().ok())
            .map_or(0, |kib| kib << 10)
    };
    (field("RssAnon:"), field("RssFile:"), field("VmHWM:"))
}

/// Latencies in powers of two of a quarter.
struct Latencies {
    counts: Vec<u64>,
    worst_ns: u64,
}

impl Latencies {
    fn new() -> Latencies {
        Latencies { counts: vec![0; 64 * 4], worst_ns: 0 }
    }

    fn add(&mut self, ns: u64) {
        let log = 63 - (ns | 1).leading_zeros() as usize;
        let quarter = if log >= 2 { (ns >> (log - 2)) as usize & 3 } else { 0 };
        self.counts[log * 4 + quarter] += 1;
        self.worst_ns = self.worst_ns.max(ns);
    }

    /// The latency below which this share of all lies, in microseconds.
    fn quantile_us(&self, share: f64) -> f64 {
        let total: u64 = self.counts.iter().sum();
        let mut left = (total as f64 * share) as u64;
        for (i, &count) in self.counts.iter().enumerate() {
            if left < count {
                let (log, quarter) = (i / 4, i % 4);
                return (1u64 << log) as f64 * (1.0 + (quarter as f64 + 1.0) / 4.0) / 1e3;
            }
            left -= count;
        }
        self.worst_ns as f64 / 1e3
    }
}

fn key(i: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    let digits = i.to_string();
    key[16 - digits.len()..].copy_from_slice(digits.as_bytes());
    key
}

#[expect(clippy::disallowed_methods, reason = "a gate measures real time")]
fn now() -> Instant {
    Instant::now()
}

/// Loads `data_bytes` under a budget, reads at random, and watches the memory.
fn budget(dir: &Path, budget_bytes: u64, data_bytes: u64, seed: u64) -> esker::Result<Figures> {
    let mut figures = Figures::default();
    let before = memory().0;
    let options = Options { memory_budget_bytes: budget_bytes, ..Options::default() };
    let db = Db::open(dir, options)?;
    let value_bytes = 1_000;
    let entries = data_bytes / (16 + value_bytes);
    let mut random = Random::new(seed);
    let mut peak = 0;
    let mut watch = |random: &mut Random| {
        if random.one_in(1_000) {
            let (private, _, _) = memory();
            peak = peak.max(private.saturating_sub(before));
        }
    };
    let pool = random.bytes(1 << 20);
    let started = now();
    for _ in 0..entries {
        let at = random.below((pool.len() as u64) - value_bytes) as usize;
        db.put(&key(random.below(entries)), &pool[at..at + value_bytes as usize])?;
        watch(&mut random);
    }
    let loaded = started.elapsed();
    db.wait_idle()?;
    let reads = 500_000.min(entries);
    let started = now();
    let mut found = 0u64;
    for _ in 0..reads {
        found += u64::from(db.get(&key(random.below(entries)))?.is_some());
        watch(&mut random);
    }
    let read = started.elapsed();
    let (_, files, highest) = memory();
    let stats = db.stats();
    let tables: u64 = stats.keyspaces.iter().map(esker::report::KeyspaceStats::table_bytes).sum();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    figures.lines.push(format!(
        "budget {:.0} MiB, {entries} entries of {:.1} GiB, {:.1} GiB in tables: peak private memory {:.0} MiB \
         ({:.0}%), before open {:.0} MiB, mapped files {:.0} MiB, highest of the process {:.0} MiB",
        mib(budget_bytes),
        data_bytes as f64 / f64::from(1 << 30),
        tables as f64 / f64::from(1 << 30),
        mib(peak),
        100.0 * peak as f64 / budget_bytes as f64,
        mib(before),
        mib(files),
        mib(highest),
    ));
    figures.lines.push(format!(
        "load {:.0} puts/s, {reads} random gets at {:.0}/s ({found} found); {:?}",
        entries as f64 / loaded.as_secs_f64(),
        reads as f64 / read.as_secs_f64(),
        stats.memory
    ));
    if peak == 0 {
        figures.violations.push("the system tells of no private memory (RssAnon)".to_owned());
    }
    if peak > budget_bytes + budget_bytes / 10 {
        figures
            .violations
            .push(format!("{:.0} MiB is over the budget by more than a tenth", mib(peak)));
    }
    db.close()?;
    Ok(figures)
}

/// Bytes that the files of a store take on the disk.
fn disk_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    // One that is gone by now takes nothing.
    files.filter_map(|file| file.metadata().ok()).map(|meta| meta.blocks() * 512).sum()
}

/// Writes values that are kept apart ten times over, as fast as they are taken, and watches the
/// disk.
fn space(dir: &Path, live_bytes: u64, seed: u64) -> esker::Result<Figures> {
    const VALUE_BYTES: usize = 4 << 10;
    const TIMES: u64 = 10;
    let mut figures = Figures::default();
    let mut options = Options::default();
    options.default_keyspace.value_log_bytes_min = Some(512);
    let (amp, file_bytes) = (options.value_log_space_amp_max, options.value_log_file_bytes);
    let db = Db::open(dir, options)?;
    let entries = live_bytes / (16 + VALUE_BYTES as u64);
    let mut random = Random::new(seed);
    let pool = random.bytes(1 << 20);
    let mut latencies = Latencies::new();
    let mut most = 0;
    let mut fill = Duration::ZERO;
    let started = now();
    for i in 0..entries * (1 + TIMES) {
        let at = random.below((pool.len() - VALUE_BYTES) as u64) as usize;
        let number = if i < entries { i } else { random.below(entries) };
        let put = now();
        db.put(&key(number), &pool[at..at + VALUE_BYTES])?;
        latencies.add(put.elapsed().as_nanos() as u64);
        if i % 256 == 0 {
            most = most.max(disk_bytes(dir));
        }
        if i == entries {
            fill = started.elapsed();
        }
    }
    let overwrite = started.elapsed() - fill;
    db.wait_idle()?;
    let settled = disk_bytes(dir);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let rate = |puts: u64, took: Duration| puts as f64 / took.as_secs_f64();
    let (filled, overwritten) = (rate(entries, fill), rate(TIMES * entries, overwrite));
    let stats = db.stats();
    figures.lines.push(format!(
        "{entries} values of {VALUE_BYTES} B filled at {filled:.0}/s, overwritten {TIMES} times at {overwritten:.0}/s \
         (p99.9 {:.0} us, worst {:.1} ms, slowed {:.1} s of {:.1} s): {:.0} MiB on the disk at the most, {:.0} MiB settled, \
         {:.2} and {:.2} times what is alive",
        latencies.quantile_us(0.999),
        latencies.worst_ns as f64 / 1e6,
        stats.writes.slowed_us as f64 / 1e6,
        overwrite.as_secs_f64(),
        mib(most),
        mib(settled),
        most as f64 / live_bytes as f64,
        settled as f64 / live_bytes as f64,
    ));
    if settled == 0 {
        figures.violations.push("the file system tells of no blocks that files take".to_owned());
    }
    let allowed = (live_bytes as f64 * amp) as u64 + file_bytes;
    if most > allowed {
        figures.violations.push(format!("{:.0} MiB are over {:.0}", mib(most), mib(allowed)));
    }
    if settled > allowed - file_bytes {
        figures.violations.push(format!("{:.0} MiB stay behind", mib(settled)));
    }
    figures.violations.extend(empty(&db, dir, 2 * file_bytes)?);
    db.close()?;
    Ok(figures)
}

/// Deletes all and leaves the store alone: what is wrong if more than so much stays.
fn empty(db: &Db, dir: &Path, most: u64) -> esker::Result<Option<String>> {
    db.default_keyspace().delete_range(&key(0), &key(9_999_999_999_999_999))?;
    db.flush()?;
    db.wait_idle()?;
    // Files are removed a moment later by somebody else; a log that is being written stays.
    let mut left = disk_bytes(dir);
    for _ in 0..100 {
        if left <= most {
            return Ok(None);
        }
        crate::gate::pause(Duration::from_millis(100));
        left = disk_bytes(dir);
    }
    Ok(Some(format!("{} MiB stay though all is deleted", left >> 20)))
}

/// Writes `data_bytes` as fast as they are taken and watches how long puts wait.
fn burst(dir: &Path, data_bytes: u64, value_bytes: u64, seed: u64) -> esker::Result<Figures> {
    let mut figures = Figures::default();
    let db = Db::open(dir, Options::default())?;
    let entries = data_bytes / (16 + value_bytes);
    let mut random = Random::new(seed);
    let pool = random.bytes(1 << 20);
    let mut latencies = Latencies::new();
    let mut waited_over_1_ms = Duration::ZERO;
    let mut rates = Vec::new();
    let started = now();
    let mut second = (started, 0u64);
    for i in 0..entries {
        let at = random.below((pool.len() as u64) - value_bytes) as usize;
        let key = key(random.below(entries));
        let put = now();
        db.put(&key, &pool[at..at + value_bytes as usize])?;
        let took = put.elapsed();
        latencies.add(took.as_nanos() as u64);
        if took > Duration::from_millis(1) {
            waited_over_1_ms += took;
        }
        if i.is_multiple_of(1_000) && second.0.elapsed() >= Duration::from_secs(1) {
            rates.push((i - second.1) / second.0.elapsed().as_millis().max(1) as u64);
            second = (now(), i);
        }
    }
    let took = started.elapsed();
    let stats = db.stats();
    let worst_ms = latencies.worst_ns as f64 / 1e6;
    figures.lines.push(format!(
        "{entries} puts of {value_bytes} B in {:.1} s, {:.0}/s: p50 {:.1} us, p99 {:.1} us, p99.9 {:.1} us, \
         worst {worst_ms:.1} ms; {:.2} s in puts over 1 ms; slowed {} times, {:.2} s, longest {:.1} ms",
        took.as_secs_f64(),
        entries as f64 / took.as_secs_f64(),
        latencies.quantile_us(0.5),
        latencies.quantile_us(0.99),
        latencies.quantile_us(0.999),
        waited_over_1_ms.as_secs_f64(),
        stats.writes.slowed,
        stats.writes.slowed_us as f64 / 1e6,
        stats.writes.slowed_us_max as f64 / 1e3,
    ));
    figures.lines.push(format!("thousands of puts in each second: {rates:?}"));
    for level in &stats.keyspaces[0].levels {
        figures.lines.push(format!(
            "  {} runs, {} tables, {} MiB; wrote {} MiB in {} jobs, {:.1} s",
            level.runs,
            level.tables,
            level.bytes >> 20,
            level.bytes_written >> 20,
            level.jobs,
            level.duration_us as f64 / 1e6
        ));
    }
    if latencies.worst_ns > 100_000_000 {
        figures.violations.push(format!("a put waited {worst_ms:.0} ms"));
    }
    db.close()?;
    Ok(figures)
}
