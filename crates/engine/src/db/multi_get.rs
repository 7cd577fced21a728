//! Several keys at once: one after the other while they are found in memory, by several threads
//! once they come from a disk, which has many blocks to give at once.
//!
//! ```text
//! keys: one by one, with a look at the clock now and then -> too slow -> what is left is copied and offered
//!                                      the caller and threads: the next key that nobody has begun, and so on
//! ```
//!
//! Invariants: (1) all keys are looked up in one view as of one sequence number, whoever does it;
//! (2) who waits, waits for threads that are at work.
//! Source: RocksDB's MultiGet reads the blocks of a table at once by asynchronous reads; here whole
//! lookups overlap, and the keys need not be in order.

use super::core::{Core, KeyspaceCore, View};
use super::read::Answer;
use super::snapshot::Snapshot;
use crate::value::Value;
use crate::value_log::{CACHED_NS_MAX, READERS_MAX, Work};
use esker_base::sync::{CHECKED, Condvar, Mutex};
use esker_base::{Result, Seq};
use std::ops::Range;
use std::sync::Arc;

/// Fewer keys than this are not worth waking a thread.
const SHARED_MIN: usize = 2;

/// The values of several keys, all as of one moment, in the order of the keys.
pub(super) fn multi_get<K: AsRef<[u8]>>(
    core: &Arc<Core>,
    keyspace: &Arc<KeyspaceCore>,
    keys: &[K],
    snapshot: Option<&Snapshot>,
) -> Result<Vec<Option<Value>>> {
    let (view, seq) = core.moment(keyspace, snapshot)?;
    let mut found = Vec::with_capacity(keys.len());
    let may_share = keys.len() > SHARED_MIN && core.readers.are_there();
    let begun_ns = if may_share { core.env.clock.now_ns() } else { 0 };
    for key in keys {
        found.push(core.get_in(keyspace, &view, key.as_ref(), seq)?);
        let done = found.len();
        // Seldom: a look at the clock costs a part of a lookup in memory.
        if may_share && done.is_power_of_two() && keys.len() - done >= SHARED_MIN {
            let spent_ns = core.env.clock.now_ns().saturating_sub(begun_ns);
            if CHECKED || spent_ns > CACHED_NS_MAX * done as u64 {
                let rest = Shared::new(core, keyspace, view, seq, &keys[done..]);
                return rest.finish().into_iter().try_fold(found, |mut found, answer| {
                    found.push(answer?);
                    Ok(found)
                });
            }
        }
    }
    Ok(found)
}

/// Keys that several threads look up.
struct Shared {
    core: Arc<Core>,
    keyspace: Arc<KeyspaceCore>,
    view: Arc<View>,
    seq: Seq,
    /// All keys, one behind the other, and where each is.
    bytes: Vec<u8>,
    keys: Vec<Range<usize>>,
    state: Mutex<State>,
    /// The caller waits here for those who are at work.
    done: Condvar,
}

struct State {
    answers: Vec<Option<Answer>>,
    /// Keys before this one are begun.
    begun: usize,
    underway: usize,
}

impl Shared {
    fn new<K: AsRef<[u8]>>(
        core: &Arc<Core>,
        keyspace: &Arc<KeyspaceCore>,
        view: Arc<View>,
        seq: Seq,
        keys: &[K],
    ) -> Arc<Shared> {
        let mut bytes = Vec::new();
        let mut copied = |key: &K| {
            let start = bytes.len();
            bytes.extend_from_slice(key.as_ref());
            start..bytes.len()
        };
        let keys: Vec<Range<usize>> = keys.iter().map(&mut copied).collect();
        let answers = keys.iter().map(|_| None).collect();
        Arc::new(Shared {
            core: core.clone(),
            keyspace: keyspace.clone(),
            view,
            seq,
            bytes,
            keys,
            state: Mutex::new(State { answers, begun: 0, underway: 0 }),
            done: Condvar::new(),
        })
    }

    /// Looks all keys up, with whoever comes to help.
    fn finish(self: Arc<Shared>) -> Vec<Answer> {
        let work: Arc<dyn Work> = self.clone();
        // The caller takes one key itself.
        let helpers = (self.keys.len() - 1).min(READERS_MAX);
        self.core.readers.offer(work.clone(), helpers);
        self.work(&|| true);
        self.core.readers.withdraw(&work);
        let mut state = self.state.lock();
        while state.underway > 0 {
            self.done.wait(&mut state);
        }
        let answers = std::mem::take(&mut state.answers);
        drop(state);
        let answers = answers.into_iter().enumerate();
        // A thread that was to look it up has ended in a panic.
        answers.map(|(nth, answer)| answer.unwrap_or_else(|| self.look_up(nth))).collect()
    }

    /// The next key that nobody has begun.
    fn begin(&self) -> Option<usize> {
        let mut state = self.state.lock();
        let nth = state.begun;
        if nth == self.keys.len() {
            return None;
        }
        state.begun += 1;
        state.underway += 1;
        Some(nth)
    }

    fn look_up(&self, nth: usize) -> Answer {
        let key = &self.bytes[self.keys[nth].clone()];
        self.core.get_in(&self.keyspace, &self.view, key, self.seq)
    }
}

impl Work for Shared {
    fn work(&self, go_on: &dyn Fn() -> bool) {
        while go_on()
            && let Some(nth) = self.begin()
        {
            let mut turn = Turn { shared: self, nth, answer: None };
            turn.answer = Some(self.look_up(nth));
        }
    }
}

/// A key that a thread is at work on. The caller must not wait for one that is gone.
struct Turn<'a> {
    shared: &'a Shared,
    nth: usize,
    answer: Option<Answer>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.answers[self.nth] = self.answer.take();
        state.underway -= 1;
        let is_last = state.underway == 0 && state.begun == self.shared.keys.len();
        drop(state);
        if is_last {
            self.shared.done.notify_all();
        }
    }
}
