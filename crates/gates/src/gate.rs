//! What all gates share: how they are called, time, threads, and a watchdog.
//!
//! A gate returns a line of totals, or a report of what it found. It spreads its cases over the
//! processors; a case is named by numbers that are printed, so that it can be run again alone.

use esker::base::Clock;
use esker::base::checksum::mix64;
use esker::base::env::SystemClock;
use esker::base::sync::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
    /// How long gates that do cases go on beginning new ones, and how long those run that run for a
    /// time. `limits` does neither.
    pub minutes: Option<f64>,
    /// Run only the case with this number, where cases have numbers.
    pub case: Option<u64>,
    /// Cases of the parts before, of a gate of several: numbers go on behind them.
    pub before: u64,
}

/// Cases that were run.
static CASES_RUN: AtomicU64 = AtomicU64::new(0);
/// Panics there were, caught or not.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Cases that all gates have run.
pub fn cases_run() -> u64 {
    CASES_RUN.load(Ordering::Relaxed)
}

/// Panics so far, those too that a store has caught and told of as something else. Each of them
/// makes a gate fail.
pub fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// To be called by the hook for panics.
pub fn note_panic() {
    PANICS.fetch_add(1, Ordering::Relaxed);
}

/// The panics so far were asked for.
pub fn forget_panics() {
    PANICS.store(0, Ordering::Relaxed);
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

    /// Seconds after which no new case is begun; without end for one that was asked for.
    pub fn seconds_max(&self) -> f64 {
        match (self.minutes, self.case) {
            (Some(minutes), None) => minutes * 60.0,
            _ => f64::INFINITY,
        }
    }

    /// The same with a share of the time, for a gate of several parts.
    pub fn share(&self, share: f64) -> Config {
        Config { minutes: self.minutes.map(|minutes| minutes * share), ..*self }
    }

    /// The same for a part that comes behind so many cases of this one.
    pub fn behind(&self, cases: u64) -> Config {
        Config { before: self.before + cases, ..*self }
    }

    /// The cases from 0 to `count`, or the one that was asked for; none if it is another part's.
    pub fn cases(&self, count: u64) -> std::ops::Range<u64> {
        let Some(case) = self.case else { return 0..count };
        match case.checked_sub(self.before).filter(|&case| case < count) {
            Some(case) => case..case + 1,
            None => 0..0,
        }
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

/// Runs `count` cases, or the one that was asked for, on all processors. A panic counts as a
/// violation.
///
/// Gathers violations up to a limit. If the time is limited, cases from everywhere take turns, and
/// it is told how many were done.
pub fn for_cases(
    config: &Config,
    count: u64,
    run: impl Fn(u64) -> Result<(), String> + Sync,
) -> Result<(), String> {
    let (cases, seconds_max) = (config.cases(count), config.seconds_max());
    let stride = if seconds_max.is_finite() { stride(count) } else { 1 };
    let next = AtomicU64::new(cases.start);
    let progress = Progress::of(cases.end - cases.start);
    let stop = AtomicBool::new(false);
    let found: Mutex<Vec<(u64, String)>> = Mutex::new(Vec::new());
    let work = || {
        while !stop.load(Ordering::Relaxed) && progress.watch.seconds() < seconds_max {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            if turn >= cases.end {
                return;
            }
            let case = (u128::from(turn) * u128::from(stride) % u128::from(count)) as u64;
            CASES_RUN.fetch_add(1, Ordering::Relaxed);
            if let Err(message) = guarded(|| run(case)) {
                let mut found = found.lock();
                found.push((config.before + case, message));
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

/// A step that visits each of `count` numbers once before it comes back, and the first few far
/// apart.
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

/// Ends the process when no sign of life was given for too long: a hang is a violation too. Watches
/// until it is told that it is over, or it and all its clones are gone.
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
    /// Begins to watch.
    pub fn start(limit: Duration) -> Watchdog {
        let shared: Arc<Mutex<Signs>> = Arc::default();
        let watched = Arc::downgrade(&shared);
        std::thread::spawn(move || {
            let mut seen = 0;
            let mut silent = Duration::ZERO;
            const STEP: Duration = Duration::from_millis(250);
            loop {
                pause(STEP);
                let Some(watched) = watched.upgrade() else { return };
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

    /// Ends the watch: what comes now may take its time.
    pub fn over(&self) {
        self.shared.lock().over = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases that were run, in order of number.
    fn cases_run(config: &Config, count: u64) -> Result<Vec<u64>, String> {
        let run = Mutex::new(Vec::new());
        for_cases(config, count, |case| {
            run.lock().push(case);
            Ok(())
        })?;
        let mut run = run.into_inner();
        run.sort_unstable();
        Ok(run)
    }

    #[test]
    fn each_case_is_run_once_with_and_without_a_limit() {
        let free = Config { seed: 1, long: false, minutes: None, case: None, before: 0 };
        let limited = Config { minutes: Some(60.0), ..free };
        for count in 0..200 {
            let all: Vec<u64> = (0..count).collect();
            assert_eq!(cases_run(&free, count), Ok(all.clone()), "{count}");
            assert_eq!(cases_run(&limited, count), Ok(all), "{count} with a limit");
        }
        let over = Config { minutes: Some(0.0), ..free };
        assert_eq!(cases_run(&over, 10), Ok(Vec::new()), "no time");
    }

    #[test]
    fn a_case_that_is_asked_for_is_run_whatever_the_time() {
        let config = Config { seed: 1, long: false, minutes: Some(0.0), case: Some(7), before: 0 };
        assert_eq!(cases_run(&config, 10), Ok(vec![7]));
        assert_eq!(cases_run(&config, 7), Ok(vec![]), "there is none");
    }

    #[test]
    fn cases_of_later_parts_have_numbers_of_their_own() {
        let config = Config { seed: 1, long: false, minutes: None, case: Some(7), before: 0 };
        assert_eq!(cases_run(&config.behind(5), 10), Ok(vec![2]));
        assert_eq!(cases_run(&config.behind(5).behind(3), 10), Ok(vec![]), "it is an earlier one");
        let all = Config { case: None, ..config }.behind(5);
        let failed =
            for_cases(&all, 3, |case| if case == 2 { Err("so".to_owned()) } else { Ok(()) });
        assert_eq!(failed, Err("case 7: so\n1 violations".to_owned()));
    }

    #[test]
    fn a_watchdog_that_is_gone_watches_nothing() {
        let limit = Duration::from_millis(300);
        std::mem::drop(Watchdog::start(limit));
        pause(4 * limit);
    }
}
