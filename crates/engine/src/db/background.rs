//! What background threads and those who wait for them tell each other.
//!
//! Threads sleep on a condition variable until something changed that may give them work: a
//! memtable was sealed, a version was installed. Others wait for a job to be done.
//!
//! A thread that compacts may offer seats at its work. Threads that have nothing to compact take
//! them:
//!
//! ```text
//! offer seats, wake -> work -> wait until nobody has a seat -> take the offer back
//!                  \-> take a seat -> work -> leave
//! ```
//!
//! A seat that nobody takes costs nothing: whoever offers it does all the work that others leave.
//!
//! A job that failed is tried again after a pause, which grows with each failure in a row. Whoever
//! asks for work to be done ends the pauses, and is told of failures since it asked, never of those
//! before: the disk may have been mended.

use super::turns::Turns;
use crate::compaction::parts::{Helpers, Shared};
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::sync::{Condvar, Mutex};
use esker_base::{Error, Result};
use std::time::Duration;

/// How long a job that failed once waits before it is tried again. Doubles with each failure in a
/// row.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// So often it doubles: 256 milliseconds are the most.
const PAUSE_DOUBLINGS: u32 = 8;

/// What threads in the background and those that wait for them share.
pub(super) struct Background {
    state: Mutex<State>,
    /// Workers wait here, also those who rest.
    work: Condvar,
    /// Those whose job failed wait here before they try again.
    pause: Condvar,
    /// Others wait here for something to be done.
    progress: Condvar,
    /// Those who have offered seats wait here for others to leave.
    left: Condvar,
    /// No threads: those who would wait do the work.
    inline: bool,
    /// Compactions, and makings of indexes, that run.
    compactions_running: AtomicU64,
    /// How many have ever begun.
    compactions_begun: AtomicU64,
    /// What is tried after failures.
    pub(super) turns: Turns,
    /// Jobs of threads that compact since it was looked whether a run index is due.
    pub(super) jobs_since_index: AtomicU64,
    /// Threads that work with rests.
    pub(super) at_leisure: AtomicU64,
}

#[derive(Default)]
struct State {
    stop: bool,
    /// Counts changes that may give workers something to do.
    changes: u64,
    /// Counts those who asked for work to be done.
    asks: u64,
    /// How many wait for something to be done.
    waiting: u64,
    /// Flushes that failed; the reason is kept until one succeeds.
    flushes: Failures,
    /// Jobs of any kind that failed and are tried again.
    jobs: Failures,
    /// Work that others may take part in.
    offers: Vec<Offer>,
    /// Tells offers apart.
    next_offer: u64,
}

/// How many jobs failed, and why.
#[derive(Default)]
struct Failures {
    count: u64,
    /// Why the last one failed.
    last: Option<Error>,
}

impl Failures {
    fn note(&mut self, error: Error) {
        self.count += 1;
        self.last = Some(error);
    }

    /// Fails if something has since there were so many failures.
    fn check(&self, seen: u64) -> Result<()> {
        match &self.last {
            Some(error) if self.count > seen => Err(error.clone()),
            _ => Ok(()),
        }
    }
}

/// What a thread knew when it looked for work.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    changes: u64,
    asks: u64,
}

/// What those who ask for work to be done want to be told of.
#[derive(Clone, Copy)]
pub(super) enum Asked {
    /// Failures of flushes after so many.
    Flushes(u64),
    /// Failures of any job after so many.
    Jobs(u64),
}

/// Seats at some work.
struct Offer {
    id: u64,
    work: Shared,
    free: usize,
    taken: usize,
}

impl Background {
    pub(super) fn new(inline: bool) -> Background {
        Background {
            inline,
            state: Mutex::new(State::default()),
            work: Condvar::new(),
            pause: Condvar::new(),
            progress: Condvar::new(),
            left: Condvar::new(),
            compactions_running: AtomicU64::new(0),
            compactions_begun: AtomicU64::new(0),
            turns: Turns::default(),
            jobs_since_index: AtomicU64::new(0),
            at_leisure: AtomicU64::new(0),
        }
    }

    /// True if there are no threads.
    #[inline]
    pub(super) fn is_inline(&self) -> bool {
        self.inline
    }

    /// Something changed: there may be work.
    pub(super) fn wake_workers(&self) {
        self.state.lock().changes += 1;
        self.work.notify_all();
    }

    /// Wakes workers and waiters alike.
    pub(super) fn wake_all(&self) {
        self.wake_workers();
        self.progress.notify_all();
    }

    /// Tells the threads to end.
    pub(super) fn stop(&self) {
        self.state.lock().stop = true;
        self.pause.notify_all();
        self.wake_all();
    }

    pub(super) fn stopping(&self) -> bool {
        self.state.lock().stop
    }

    /// Somebody is about to wait for flushes: what failed is tried again now.
    pub(super) fn ask_for_flushes(&self) -> Asked {
        Asked::Flushes(self.ask(|state| state.flushes.count))
    }

    /// Somebody is about to wait for all there is to do: what failed is tried again now.
    pub(super) fn ask_for_all(&self) -> Asked {
        Asked::Jobs(self.ask(|state| state.jobs.count))
    }

    fn ask(&self, failures: impl FnOnce(&State) -> u64) -> u64 {
        let mut state = self.state.lock();
        state.asks += 1;
        let failures = failures(&state);
        drop(state);
        self.pause.notify_all();
        failures
    }

    /// True if the last flush failed.
    pub(super) fn flushes_fail(&self) -> bool {
        self.state.lock().flushes.check(0).is_err()
    }

    /// A flush has succeeded, or there is none to be done: the last failure is over.
    pub(super) fn forget_flush_failure(&self) {
        self.state.lock().flushes.last = None;
    }

    /// A flush failed.
    pub(super) fn note_flush_failure(&self, error: Error) {
        self.state.lock().flushes.note(error);
    }

    /// A job of any kind failed that will be tried again. Those who wait for it are told.
    pub(super) fn note_failure(&self, error: Error) {
        self.state.lock().jobs.note(error);
        self.progress.notify_all();
    }

    pub(super) fn seen(&self) -> Seen {
        let state = self.state.lock();
        Seen { changes: state.changes, asks: state.asks }
    }

    /// Waits until something changed since then, or for about this long. False if the thread should
    /// end.
    pub(super) fn wait_change(&self, seen: Seen, at_most: Option<Duration>) -> bool {
        let mut state = self.state.lock();
        while state.changes == seen.changes && !state.stop {
            match at_most {
                None => self.work.wait(&mut state),
                Some(at_most) => {
                    self.work.wait_for(&mut state, at_most);
                    break;
                }
            }
        }
        !state.stop
    }

    /// True if something changed since then. What was seen is what is so now.
    pub(super) fn has_changed(&self, seen: &mut Seen) -> bool {
        let before = std::mem::replace(seen, self.seen());
        before.changes != seen.changes
    }

    /// For those who do what nobody waits for: does nothing for this long, or until something
    /// changes or the thread should end. False, at once, if somebody waits for something to be
    /// done, or something changed since then.
    pub(super) fn rest(&self, seen: Seen, at_most: Duration) -> bool {
        let mut state = self.state.lock();
        let may_rest = state.changes == seen.changes && state.waiting == 0 && !state.stop;
        if may_rest {
            self.work.wait_for(&mut state, at_most);
        }
        may_rest
    }

    /// Waits a while after so many failures in a row, the last of them of a job that was begun
    /// then; not if somebody has asked for work since, and no longer than until somebody does.
    /// False if the thread should end.
    pub(super) fn wait_retry(&self, seen: Seen, failures: u32) -> bool {
        let doublings = failures.saturating_sub(1).min(PAUSE_DOUBLINGS);
        let mut state = self.state.lock();
        if !state.stop && state.asks == seen.asks {
            self.pause.wait_for(&mut state, PAUSE_MIN * 2_u32.pow(doublings));
        }
        !state.stop
    }

    /// For those who asked for work: waits until some job is done, or for this long.
    ///
    /// # Errors
    /// The last failure since they asked; `Cancelled` if the database is closing.
    pub(super) fn wait_asked(&self, asked: Asked, at_most: Duration) -> Result<()> {
        self.wait(at_most, |state| match asked {
            Asked::Flushes(seen) => state.flushes.check(seen),
            Asked::Jobs(seen) => state.jobs.check(seen),
        })
    }

    /// For those who found no room: waits until some job is done, or for this long.
    ///
    /// # Errors
    /// The failure of the last flush, if it failed, at once; `Cancelled` if the database is
    /// closing.
    pub(super) fn wait_progress(&self, at_most: Duration) -> Result<()> {
        self.wait(at_most, |state| state.flushes.check(0))
    }

    /// For those who wait for what others do, whether flushes fail or not: waits until some job is
    /// done, or for this long.
    ///
    /// # Errors
    /// `Cancelled` if the database is closing.
    pub(super) fn wait_others(&self, at_most: Duration) -> Result<()> {
        self.wait(at_most, |_| Ok(()))
    }

    fn wait(&self, at_most: Duration, check: impl Fn(&State) -> Result<()>) -> Result<()> {
        let mut state = self.state.lock();
        if state.stop {
            return Err(Error::Cancelled);
        }
        check(&state)?;
        if !self.inline {
            state.waiting += 1;
            self.progress.wait_for(&mut state, at_most);
            state.waiting -= 1;
        }
        check(&state)
    }

    /// A compaction begins, or the making of an index.
    pub(super) fn begin_compaction(&self) {
        self.compactions_running.fetch_add(1, Ordering::AcqRel);
        self.compactions_begun.fetch_add(1, Ordering::AcqRel);
    }

    /// One that has begun is over.
    pub(super) fn end_compaction(&self) {
        self.compactions_running.fetch_sub(1, Ordering::Release);
    }

    /// How many have begun and are not over.
    pub(super) fn running_compactions(&self) -> u64 {
        self.compactions_running.load(Ordering::Acquire)
    }

    /// How many have ever begun, if none runs: as long as that is so, none has ended since.
    pub(super) fn begun_if_none_runs(&self) -> Option<u64> {
        let begun = self.compactions_begun.load(Ordering::Acquire);
        (self.running_compactions() == 0).then_some(begun)
    }

    /// How many of so many threads that compact have nothing to do, seats left free counted as
    /// taken.
    pub(super) fn idle_compactors(&self, threads: usize) -> usize {
        let running = self.running_compactions() as usize;
        let state = self.state.lock();
        let seats: usize = state.offers.iter().map(|offer| offer.free + offer.taken).sum();
        threads.saturating_sub(running + seats)
    }

    /// Takes a seat and works until nothing is left of that work. False if there is no seat.
    pub(super) fn help(&self) -> bool {
        let (id, work) = {
            let mut state = self.state.lock();
            let Some(offer) = state.offers.iter_mut().find(|offer| offer.free > 0) else {
                return false;
            };
            offer.free -= 1;
            offer.taken += 1;
            (offer.id, offer.work.clone())
        };
        work();
        // What it holds on to must be let go before it is said that nobody is there any more.
        drop(work);
        let mut state = self.state.lock();
        if let Some(offer) = state.offers.iter_mut().find(|offer| offer.id == id) {
            offer.taken -= 1;
        }
        drop(state);
        self.left.notify_all();
        true
    }
}

impl Helpers for Background {
    fn call(&self, work: &Shared, helpers_max: usize) {
        if self.inline || helpers_max == 0 {
            return work();
        }
        let id = {
            let mut state = self.state.lock();
            let id = state.next_offer;
            state.next_offer += 1;
            state.offers.push(Offer { id, work: work.clone(), free: helpers_max, taken: 0 });
            state.changes += 1;
            id
        };
        self.work.notify_all();
        work();
        let mut state = self.state.lock();
        while state.offers.iter().any(|offer| offer.id == id && offer.taken > 0) {
            self.left.wait(&mut state);
        }
        state.offers.retain(|offer| offer.id != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn seats_are_offered_where_somebody_could_take_them() {
        let nothing: Shared = Arc::new(|| ());
        for (inline, helpers_max, offers) in [(false, 1, true), (false, 0, false), (true, 1, false)]
        {
            let background = Background::new(inline);
            background.call(&nothing, helpers_max);
            assert_eq!(background.seen().changes > 0, offers, "{inline} {helpers_max}");
            assert!(!background.help(), "the work is done");
        }
    }

    #[test]
    fn who_asks_is_told_of_failures_since_then_and_who_finds_no_room_of_the_last() {
        // Nobody waits in it.
        let background = Background::new(true);
        let told = |asked| background.wait_asked(asked, Duration::ZERO).is_err();
        let is_full = || background.wait_progress(Duration::ZERO).is_err();
        background.note_flush_failure(Error::ReadOnly);
        background.note_failure(Error::ReadOnly);
        let before = [background.ask_for_flushes(), background.ask_for_all()];
        assert_eq!((before.map(told), is_full()), ([false, false], true), "failed before");
        background.note_failure(Error::ReadOnly);
        assert_eq!(before.map(told), [false, true], "a compaction failed");
        background.note_flush_failure(Error::ReadOnly);
        assert_eq!((before.map(told), is_full()), ([true, true], true), "a flush failed");
        background.forget_flush_failure();
        assert_eq!((before.map(told), is_full()), ([false, true], false), "one has succeeded");
    }

    #[test]
    fn who_rests_is_woken_by_changes() {
        let wakes: [fn(&Background); 2] = [Background::wake_workers, Background::stop];
        for wake in wakes {
            let background = Background::new(false);
            let mut seen = background.seen();
            assert!(!background.has_changed(&mut seen));
            assert!(background.rest(seen, Duration::from_millis(1)), "nothing has happened");
            std::thread::scope(|scope| {
                // It would rest until the test is given up, unless it was woken before it began.
                scope.spawn(|| background.rest(seen, Duration::from_secs(3_600)));
                wake(&background);
            });
            assert!(!background.rest(seen, Duration::from_secs(3_600)), "not again");
            assert!(background.has_changed(&mut seen));
            assert!(!background.has_changed(&mut seen), "that is known now");
        }
    }

    #[test]
    fn nobody_rests_while_somebody_waits() {
        let background = Background::new(false);
        let seen = background.seen();
        let rests = || background.rest(seen, Duration::from_millis(1));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| background.wait_progress(Duration::from_secs(20)));
            let until_it_waits = (0..10_000).take_while(|_| rests()).count();
            assert!(until_it_waits < 10_000, "ten seconds");
            assert!(!rests(), "it still does");
            background.progress.notify_all();
            waiting.join().expect("waits").expect("no failure");
            assert!(rests(), "it has ended");
        });
    }

    #[test]
    fn a_compaction_that_ends_meanwhile_is_noticed() {
        let background = Background::new(false);
        assert_eq!(background.begun_if_none_runs(), Some(0));
        background.begin_compaction();
        assert_eq!(background.begun_if_none_runs(), None);
        background.end_compaction();
        assert_eq!(background.begun_if_none_runs(), Some(1));
    }

    #[test]
    fn who_compacts_or_is_asked_for_help_is_not_idle() {
        let background = Arc::new(Background::new(false));
        assert_eq!(background.idle_compactors(4), 4);
        background.begin_compaction();
        assert_eq!(background.idle_compactors(4), 3);
        let seen = background.clone();
        let inside = AtomicU64::new(0);
        let work: Shared = Arc::new(move || {
            // Two seats, free or taken, beside the one who offers them.
            assert_eq!(seen.idle_compactors(4), 1);
            let depth = inside.fetch_add(1, Ordering::Relaxed);
            assert_eq!(seen.help(), depth < 2);
        });
        background.call(&work, 2);
        assert_eq!(background.idle_compactors(4), 3);
        assert_eq!(background.idle_compactors(0), 0);
    }
}
