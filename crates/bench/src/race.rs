//! Threads that begin at one moment, and whoever waits until the last of them has ended.
//!
//! Nothing is ever sent over the channels here: that nobody is left who could is what is waited
//! for, and it comes true as well when a thread panics.

use esker_draw::Outcome;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

/// Whether threads may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Signal {
    Awaited,
    Given,
    /// It will not be given.
    Withheld,
}

struct Shared {
    signal: Mutex<Signal>,
    given: Condvar,
    /// Threads that count and have not ended.
    left: AtomicUsize,
}

impl Shared {
    fn set(&self, signal: Signal) {
        *self.signal.lock().unwrap_or_else(PoisonError::into_inner) = signal;
        self.given.notify_all();
    }
}

/// What whoever starts the threads has of it. Threads that wait when it goes do not begin.
pub(crate) struct Race {
    shared: Arc<Shared>,
    unready: Receiver<Infallible>,
    running: Receiver<Infallible>,
}

/// What each thread has of it.
pub(crate) struct Runner {
    shared: Arc<Shared>,
    unready: Option<Sender<Infallible>>,
    /// Only those that count have one.
    running: Option<Sender<Infallible>>,
}

impl Race {
    /// Of threads that count, and of some that keep them company until they are told to end; those
    /// that count are first.
    pub(crate) fn of(counted: usize, company: usize) -> (Race, Vec<Runner>) {
        let (signal, left) = (Mutex::new(Signal::Awaited), AtomicUsize::new(counted));
        let shared = Arc::new(Shared { signal, given: Condvar::new(), left });
        let ((not_ready, unready), (runs, running)) = (channel(), channel());
        let runner = |at: usize| Runner {
            shared: shared.clone(),
            unready: Some(not_ready.clone()),
            running: (at < counted).then(|| runs.clone()),
        };
        let runners = (0..counted + company).map(runner).collect();
        (Race { shared, unready, running }, runners)
    }

    /// Waits until all threads are ready, reads clocks, and has the threads begin.
    pub(crate) fn start<T>(&self, clocks: impl FnOnce() -> T) -> T {
        let _ = self.unready.recv();
        let read = clocks();
        self.shared.set(Signal::Given);
        read
    }

    /// Waits for the last of those that count, but not beyond a time; whether all have ended.
    pub(crate) fn is_over_by(&self, time: Instant) -> bool {
        let left = time.saturating_duration_since(Instant::now());
        self.running.recv_timeout(left) == Err(RecvTimeoutError::Disconnected)
    }
}

impl Drop for Race {
    fn drop(&mut self) {
        let signal = *self.shared.signal.lock().unwrap_or_else(PoisonError::into_inner);
        if signal == Signal::Awaited {
            self.shared.set(Signal::Withheld);
        }
    }
}

impl Runner {
    /// Is ready, and waits for the others.
    ///
    /// # Errors
    /// If they will not begin.
    pub(crate) fn begin(&mut self) -> Outcome<()> {
        self.unready = None;
        let signal = self.shared.signal.lock().unwrap_or_else(PoisonError::into_inner);
        let given = self.shared.given.wait_while(signal, |signal| *signal == Signal::Awaited);
        match *given.unwrap_or_else(PoisonError::into_inner) {
            Signal::Given => Ok(()),
            _ => Err("the threads of the benchmark did not begin".into()),
        }
    }

    /// Ends; true of the last of those that count. Whoever waits knows of it once this is dropped.
    pub(crate) fn end(&self) -> bool {
        self.running.is_some() && self.shared.left.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::{scope, sleep};
    use std::time::Duration;

    const FAR: Duration = Duration::from_secs(3_600);

    #[test]
    fn nobody_begins_before_all_are_ready_and_the_clocks_were_read() {
        let (race, mut runners) = Race::of(2, 1);
        let (ready, begun) = (AtomicUsize::new(0), AtomicUsize::new(0));
        scope(|scope| {
            for (at, mut runner) in runners.drain(..).enumerate() {
                let (ready, begun) = (&ready, &begun);
                scope.spawn(move || {
                    sleep(Duration::from_millis(20 * at as u64));
                    ready.fetch_add(1, Ordering::SeqCst);
                    runner.begin().expect("a beginning");
                    begun.fetch_add(1, Ordering::SeqCst);
                });
            }
            let seen = race.start(|| (ready.load(Ordering::SeqCst), begun.load(Ordering::SeqCst)));
            assert_eq!(seen, (3, 0));
        });
        assert_eq!(begun.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn the_end_of_the_last_is_known_at_once_and_company_is_not_waited_for() {
        let (race, runners) = Race::of(2, 1);
        let [first, last, company] = &runners[..] else { panic!("{} runners", runners.len()) };
        assert!(!first.end() && !company.end() && last.end());
        assert!(!race.is_over_by(Instant::now()), "they are still there");
        let mut runners = runners.into_iter();
        drop((runners.next(), runners.next()));
        assert!(race.is_over_by(Instant::now() + FAR));
        assert_eq!(runners.len(), 1);
    }

    #[test]
    fn threads_that_wait_in_vain_are_told() {
        let (race, mut runners) = Race::of(1, 0);
        let waits = std::thread::spawn(move || runners.remove(0).begin().is_err());
        drop(race);
        assert!(waits.join().expect("no panic"));
    }

    #[test]
    fn a_thread_that_fails_before_it_begins_holds_nobody_up() {
        let (race, runners) = Race::of(1, 1);
        drop(runners);
        race.start(|| ());
        assert!(race.is_over_by(Instant::now() + FAR));
    }
}
