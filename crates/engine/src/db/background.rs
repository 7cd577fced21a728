//! What background threads and those who wait for them tell each other.
//!
//! Threads sleep on a condition variable until something changed that may give them work: a memtable was
//! sealed, a version was installed. Others wait for a job to be done.
//!
//! A thread that compacts may offer seats at its work. Threads that have nothing to compact take them:
//!
//! ```text
//! offer seats, wake -> work -> wait until nobody has a seat -> take the offer back
//!                  \-> take a seat -> work -> leave
//! ```
//!
//! A seat that nobody takes costs nothing: whoever offers it does all the work that others leave.

use crate::compaction::parts::{Helpers, Shared};
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::sync::{Condvar, Mutex};
use esker_base::{Error, Result};
use std::time::Duration;

/// How long a failed job waits before it is tried again.
const RETRY: Duration = Duration::from_millis(250);

/// What threads in the background and those that wait for them share.
pub(super) struct Background {
    state: Mutex<State>,
    /// Workers wait here.
    work: Condvar,
    /// Others wait here for something to be done.
    progress: Condvar,
    /// Those who have offered seats wait here for others to leave.
    left: Condvar,
    /// No threads: those who would wait do the work.
    inline: bool,
    pub(super) compactions_running: AtomicU64,
}

#[derive(Default)]
struct State {
    stop: bool,
    /// Counts changes that may give workers something to do.
    changes: u64,
    /// Counts finished jobs.
    jobs: u64,
    /// Why the last flush failed, until one succeeds.
    flush_error: Option<Error>,
    /// Counts jobs that failed and are tried again.
    failures: u64,
    /// Why the last of these failed.
    failure: Option<Error>,
    /// Work that others may take part in.
    offers: Vec<Offer>,
    /// Tells offers apart.
    next_offer: u64,
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
            progress: Condvar::new(),
            left: Condvar::new(),
            compactions_running: AtomicU64::new(0),
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
        let mut state = self.state.lock();
        state.changes += 1;
        state.jobs += 1;
        drop(state);
        self.work.notify_all();
        self.progress.notify_all();
    }

    /// Tells the threads to end.
    pub(super) fn stop(&self) {
        self.state.lock().stop = true;
        self.wake_all();
    }

    pub(super) fn stopping(&self) -> bool {
        self.state.lock().stop
    }

    pub(super) fn set_flush_error(&self, error: Option<Error>) {
        self.state.lock().flush_error = error;
    }

    /// A job failed that will be tried again. Those who wait for it are told.
    pub(super) fn note_failure(&self, error: Error) {
        let mut state = self.state.lock();
        state.failures += 1;
        state.failure = Some(error);
        drop(state);
        self.progress.notify_all();
    }

    /// How many jobs have failed.
    pub(super) fn failures(&self) -> u64 {
        self.state.lock().failures
    }

    /// For those who wait for all work to be done, which may never be: fails if a job has since there were so many failures.
    ///
    /// # Errors
    /// Why the last job failed that did.
    pub(super) fn check_failures(&self, seen: u64) -> Result<()> {
        let state = self.state.lock();
        match &state.failure {
            Some(error) if state.failures > seen => Err(error.clone()),
            _ => Ok(()),
        }
    }

    pub(super) fn changes(&self) -> u64 {
        self.state.lock().changes
    }

    /// Waits until something changed since `seen`. False if the thread should end.
    pub(super) fn wait_change(&self, seen: u64) -> bool {
        let mut state = self.state.lock();
        while state.changes == seen && !state.stop {
            self.work.wait(&mut state);
        }
        !state.stop
    }

    /// Waits a while before a retry. False if the thread should end.
    pub(super) fn wait_retry(&self) -> bool {
        let mut state = self.state.lock();
        if !state.stop {
            self.work.wait_for(&mut state, RETRY);
        }
        !state.stop
    }

    /// Waits until some job is done, or for this long.
    ///
    /// # Errors
    /// The failure of the last flush, if it failed; `Cancelled` if the database is closing.
    pub(super) fn wait_progress(&self, at_most: Duration) -> Result<()> {
        let mut state = self.state.lock();
        if state.stop {
            return Err(Error::Cancelled);
        }
        if state.flush_error.is_none() && !self.inline {
            self.progress.wait_for(&mut state, at_most);
        }
        match &state.flush_error {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// How many of so many threads that compact have nothing to do, seats left free counted as taken.
    pub(super) fn idle_compactors(&self, threads: usize) -> usize {
        let running = self.compactions_running.load(Ordering::Acquire) as usize;
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
            assert_eq!(background.changes() > 0, offers, "{inline} {helpers_max}");
            assert!(!background.help(), "the work is done");
        }
    }

    #[test]
    fn who_compacts_or_is_asked_for_help_is_not_idle() {
        let background = Arc::new(Background::new(false));
        assert_eq!(background.idle_compactors(4), 4);
        background.compactions_running.store(1, Ordering::Release);
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
