//! What all gates share: how they are called, time, threads, and a watchdog.
//!
//! A gate returns a line of totals, or a report of what it found. It spreads its cases over the
//! processors; a case is named by numbers that are printed, so that it can be run again alone.

use esker::base::checksum::mix64;
use esker::base::env::SystemClock;
use esker::base::sync::Mutex;
use esker::base::{Clock, Error};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// How a gate is run.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Start of all randomness.
    pub seed: u64,
    /// The long form.
    pub long: bool,
    /// How long gates run at the most; those that run for a time anyway do so for this one.
    pub minutes: Option<f64>,
    /// Run only the case with this number, where cases have numbers.
    pub case: Option<u64>,
}

impl Config {
    /// One number in the short form, another in the long one.
    pub fn choose<T>(&self, short: T, long: T) -> T {
        if self.long { long } else { short }
    }

    /// Seconds to run for.
    pub fn seconds(&self, short: f64, long: f64) -> f64 {
        self.minutes.map_or(self.choose(short, long), |minutes| minutes * 60.0)
    }

    /// Seconds after which no new case is begun, if there is a limit. One that was asked for has none.
    pub fn seconds_max(&self) -> Option<f64> {
        self.minutes.filter(|_| self.case.is_none()).map(|minutes| minutes * 60.0)
    }

    /// The same with a share of the time, for a gate of several parts.
    pub fn share(&self, share: f64) -> Config {
        Config { minutes: self.minutes.map(|minutes| minutes * share), ..*self }
    }

    /// The cases from 0 to `count`, or the one that was asked for.
    pub fn cases(&self, count: u64) -> std::ops::Range<u64> {
        self.case.map_or(0..count, |case| case..case + 1)
    }
}

/// What a gate came to: totals, or a report of violations.
pub type Outcome = Result<String, String>;

/// Seconds since it was made.
#[derive(Debug)]
pub struct Stopwatch {
    clock: SystemClock,
}

impl Default for Stopwatch {
    fn default() -> Stopwatch {
        Stopwatch { clock: SystemClock::new() }
    }
}

impl Stopwatch {
    /// Seconds since it was made.
    pub fn seconds(&self) -> f64 {
        self.clock.now_ns() as f64 / 1e9
    }
}

/// Tells now and then how many of a gate's cases are done.
#[derive(Debug)]
pub struct Progress {
    watch: Stopwatch,
    of: u64,
    done: AtomicU64,
    /// Second at which something was told last.
    told_s: AtomicU64,
}

impl Progress {
    /// Seconds from one line to the next.
    const EVERY_S: u64 = 30;

    /// Starts with none done.
    pub fn of(count: u64) -> Progress {
        let (done, told_s) = (AtomicU64::new(0), AtomicU64::new(0));
        Progress { watch: Stopwatch::default(), of: count, done, told_s }
    }

    /// One more is done.
    pub fn one_done(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let (now, told) = (self.watch.seconds() as u64, self.told_s.load(Ordering::Relaxed));
        let order = Ordering::Relaxed;
        if now >= told + Progress::EVERY_S
            && self.told_s.compare_exchange(told, now, order, order).is_ok()
        {
            eprintln!("  {done} of {} cases after {now} s", self.of);
        }
    }

    /// Tells how many were done, if not all were.
    fn tell_rest(&self) {
        let done = self.done.load(Ordering::Relaxed);
        if done < self.of {
            eprintln!("  {done} of {} cases, then it ended", self.of);
        }
    }
}

/// Waits.
pub fn pause(duration: Duration) {
    let (_open, never) = mpsc::channel::<()>();
    let _ = never.recv_timeout(duration);
}

/// The seed of a case.
pub fn case_seed(seed: u64, case: u64) -> u64 {
    mix64(seed ^ mix64(case.wrapping_add(0x6a09_e667_f3bc_c909)))
}

/// Most violations that are gathered before a gate gives up.
const VIOLATIONS_MAX: usize = 25;

/// Runs `count` cases, or the one that was asked for, on all processors. A panic counts as a violation.
///
/// Gathers violations up to a limit. If the time is limited, cases from everywhere take turns, and it is
/// told how many were done.
pub fn for_cases(
    config: &Config,
    count: u64,
    run: impl Fn(u64) -> Result<(), String> + Sync,
) -> Result<(), String> {
    let cases = config.cases(count);
    let next = AtomicU64::new(cases.start);
    let progress = Progress::of(cases.end - cases.start);
    let (seconds_max, stride) = match config.seconds_max() {
        Some(seconds) => (seconds, stride(count)),
        None => (f64::INFINITY, 1),
    };
    let stop = AtomicBool::new(false);
    let found: Mutex<Vec<(u64, String)>> = Mutex::new(Vec::new());
    let work = || {
        while !stop.load(Ordering::Relaxed) && progress.watch.seconds() < seconds_max {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            if turn >= cases.end {
                return;
            }
            let case = (u128::from(turn) * u128::from(stride) % u128::from(count)) as u64;
            if let Err(message) = guarded(|| run(case)) {
                let mut found = found.lock();
                found.push((case, message));
                if found.len() >= VIOLATIONS_MAX {
                    stop.store(true, Ordering::Relaxed);
                }
            }
            progress.one_done();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(work);
        }
    });
    progress.tell_rest();
    let mut found = found.into_inner();
    found.sort();
    if found.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = found.iter().map(|(case, m)| format!("case {case}: {m}")).collect();
    Err(format!("{}\n{} violations", lines.join("\n"), lines.len()))
}

/// A step that visits each of `count` numbers once before it comes back, and the first few far apart.
fn stride(count: u64) -> u64 {
    fn common_divisor(a: u64, b: u64) -> u64 {
        if b == 0 { a } else { common_divisor(b, a % b) }
    }
    let golden = (count as f64 * 0.618) as u64;
    (golden.max(1)..).find(|&step| common_divisor(step, count) == 1).unwrap_or(1)
}

/// Processors to use.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get)
}

/// Runs something; a panic becomes a message.
pub fn guarded<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(format!("panic: {}", text.unwrap_or_default()))
        }
    }
}

/// Ends the process when no sign of life was given for too long: a hang is a violation too.
#[derive(Clone, Debug)]
pub struct Watchdog {
    shared: Arc<Mutex<Signs>>,
}

#[derive(Debug, Default)]
struct Signs {
    count: u64,
    doing: String,
    over: bool,
}

impl Watchdog {
    /// Watches until the returned value and all its clones are told that it is over.
    pub fn start(limit: Duration) -> Watchdog {
        let shared: Arc<Mutex<Signs>> = Arc::default();
        let watched = shared.clone();
        std::thread::spawn(move || {
            let mut seen = 0;
            let mut silent = Duration::ZERO;
            const STEP: Duration = Duration::from_millis(250);
            loop {
                pause(STEP);
                let signs = watched.lock();
                if signs.over {
                    return;
                }
                silent = if signs.count == seen { silent + STEP } else { Duration::ZERO };
                seen = signs.count;
                if silent >= limit {
                    eprintln!("HANG: nothing happened for {limit:?}; doing: {}", signs.doing);
                    std::process::abort();
                }
            }
        });
        Watchdog { shared }
    }

    /// A sign of life.
    pub fn alive(&self, doing: impl Into<String>) {
        let mut signs = self.shared.lock();
        signs.count += 1;
        signs.doing = doing.into();
    }

    /// Ends the watch.
    pub fn over(&self) {
        self.shared.lock().over = true;
    }
}

/// The file an error names.
pub fn error_path(error: &Error) -> Option<&Path> {
    match error {
        Error::Corruption { path, .. }
        | Error::Incompatible { path, .. }
        | Error::Io { path, .. }
        | Error::NoSpace { path }
        | Error::Busy { path }
        | Error::NotFound { path } => Some(path),
        _ => None,
    }
}
