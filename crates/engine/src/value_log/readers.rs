//! Threads that read for others: values that a cursor will come to, keys of a lookup of many.
//!
//! They start when there is something to read, and sleep when there is not. Whoever offers work
//! does it too, and all of it where no thread comes; so an offer is worth it only where several
//! reads at once are faster than one after the other.
//!
//! Threads: any. Nothing is locked under these locks.

use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::sync::thread::{self, JoinHandle};
use esker_base::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The most threads that read for one store.
pub(crate) const READERS_MAX: usize = 8;

/// A read that takes longer than this comes from a disk, which has many at once to give. Others
/// cost a processor.
pub(crate) const CACHED_NS_MAX: u64 = 15_000;

/// Work that several threads can do at once.
pub(crate) trait Work: Send + Sync {
    /// Does what nobody has begun, piece by piece, until nothing is left or `go_on` is false.
    fn work(&self, go_on: &dyn Fn() -> bool);
}

/// How many threads can run beside the caller's at once.
fn processors_beside() -> usize {
    std::thread::available_parallelism().map_or(0, |processors| processors.get() - 1)
}

/// The threads that read for a store's cursors and lookups.
#[derive(Debug)]
pub(crate) struct Readers {
    threads_max: usize,
    processors_beside: usize,
    offers: Mutex<Offers>,
    ended: AtomicBool,
    /// Threads wait here for something to read.
    work: Condvar,
}

#[derive(Default)]
struct Offers {
    /// What there is to read, and how many more threads may.
    waiting: VecDeque<(Arc<dyn Work>, usize)>,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
}

impl std::fmt::Debug for Offers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Offers({} waiting, {} threads)", self.waiting.len(), self.threads.len())
    }
}

impl Readers {
    /// At most so many threads.
    pub(crate) fn new(threads_max: usize) -> Arc<Readers> {
        Arc::new(Readers {
            threads_max,
            processors_beside: processors_beside(),
            offers: Mutex::default(),
            ended: AtomicBool::new(false),
            work: Condvar::new(),
        })
    }

    /// How many threads can run beside the caller's at once.
    pub(crate) fn processors_beside(&self) -> usize {
        self.processors_beside
    }

    /// False if nothing that is offered is ever taken.
    pub(crate) fn are_there(&self) -> bool {
        self.threads_max > 0
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Lets up to so many threads work on this.
    pub(crate) fn offer(self: &Arc<Readers>, work: Arc<dyn Work>, threads: usize) {
        let threads = threads.min(self.threads_max);
        if threads == 0 {
            return;
        }
        let mut offers = self.offers.lock();
        if self.has_ended() {
            return;
        }
        while offers.idle < threads && offers.threads.len() < self.threads_max {
            let readers = self.clone();
            let name = format!("esker-read-{}", offers.threads.len());
            match thread::Builder::new().name(name).spawn(move || readers.serve()) {
                Ok(thread) => offers.threads.push(thread),
                // Fewer are slower, and no more than that.
                Err(_) => break,
            }
            offers.idle += 1;
        }
        let woken = threads.min(offers.idle);
        offers.waiting.push_back((work, threads));
        drop(offers);
        for _ in 0..woken {
            self.work.notify_one();
        }
    }

    /// Nothing is left of this that others could do.
    pub(crate) fn withdraw(&self, work: &Arc<dyn Work>) {
        self.offers.lock().waiting.retain(|(waiting, _)| !Arc::ptr_eq(waiting, work));
    }

    /// What no thread has begun, or not as many as may.
    #[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
    pub(crate) fn waiting(&self) -> usize {
        self.offers.lock().waiting.len()
    }

    fn serve(&self) {
        let mut offers = self.offers.lock();
        loop {
            if self.has_ended() {
                return;
            }
            let Some((work, seats)) = offers.waiting.front_mut() else {
                self.work.wait(&mut offers);
                continue;
            };
            *seats -= 1;
            let (work, full) = (work.clone(), *seats == 0);
            if full {
                offers.waiting.pop_front();
            }
            offers.idle -= 1;
            drop(offers);
            // Whoever offered it does what is left, and is told. The thread is there for others.
            let _ = catch_unwind(AssertUnwindSafe(|| work.work(&|| !self.has_ended())));
            // Nothing is left to begin. It may be the last to hold what it reads, and lets go
            // without the lock.
            self.withdraw(&work);
            drop(work);
            offers = self.offers.lock();
            offers.idle += 1;
        }
    }

    /// Ends the threads and waits for them.
    pub(crate) fn end(&self) {
        let mut offers = self.offers.lock();
        self.ended.store(true, Ordering::Relaxed);
        let waiting = std::mem::take(&mut offers.waiting);
        let threads = std::mem::take(&mut offers.threads);
        drop(offers);
        drop(waiting);
        self.work.notify_all();
        for thread in threads {
            // It reads no more than it can; who takes its part does that again, and sees why it
            // failed.
            let _ = thread.join();
        }
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    struct Faulty;

    impl Work for Faulty {
        fn work(&self, _: &dyn Fn() -> bool) {
            panic!("what somebody else has written and is called for each key");
        }
    }

    struct Sound(Mutex<Sender<()>>);

    impl Work for Sound {
        fn work(&self, _: &dyn Fn() -> bool) {
            let _ = self.0.lock().send(());
        }
    }

    #[test]
    fn a_fault_in_what_is_read_takes_no_thread_away() {
        let readers = Readers::new(2);
        for _ in 0..9 {
            readers.offer(Arc::new(Faulty), 1);
        }
        let (sender, done) = channel();
        readers.offer(Arc::new(Sound(Mutex::new(sender))), 1);
        done.recv_timeout(Duration::from_secs(60)).expect("somebody is there to do it");
        readers.end();
    }
}
