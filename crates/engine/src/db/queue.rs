//! The write queue: writers that arrive while one is writing are written by the next as one group.
//!
//! ```text
//! enter(batch): nobody leads     -> lead
//!               somebody leads   -> wait until done, or until told to lead
//! lead:         take the others' batches, write, name the next leader and hand out results
//! ```
//!
//! The next leader is named first, so that others write while followers are woken, and whoever comes
//! meanwhile finds the queue free. After a sync it is named last: what followers write next then joins its
//! group, and a sync serves more of them.
//!
//! Invariants: (1) at most one thread leads; (2) whoever waits is either in the list, or its batch
//! is in the hands of the leader, who answers it; (3) batches are written in the order of arrival.

use esker_base::sync::{Condvar, Mutex};
use esker_base::{Batch, Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of batches that one group holds, beyond its first.
const GROUP_BYTES_MAX: usize = 1 << 20;

/// Where writers wait.
pub(super) struct WriteQueue {
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    led: bool,
    waiting: VecDeque<Arc<Waiter>>,
}

/// A batch on its way through a group.
pub(super) struct Request {
    pub(super) batch: Batch,
    pub(super) sync: bool,
}

/// A writer that waits.
struct Waiter {
    state: Mutex<WaiterState>,
    changed: Condvar,
}

enum WaiterState {
    Waiting(Request),
    /// The leader has the batch.
    Taken,
    /// This writer leads now, with its batch.
    Lead(Request),
    Done(Result<()>, Batch),
    /// The result was collected.
    Gone,
}

/// What came of entering the queue.
pub(super) enum Turn<'a> {
    /// Somebody else wrote the batch.
    Done(Result<()>, Batch),
    /// This thread writes now.
    Lead(Leader<'a>, Request),
}

/// The right to write. Dropping it names the next leader.
pub(super) struct Leader<'a> {
    queue: &'a WriteQueue,
    followers: Followers,
}

/// Writers whose batches were taken. Those without an answer when it is dropped are told of a panic.
#[derive(Default)]
struct Followers(Vec<Arc<Waiter>>);

impl WriteQueue {
    pub(super) fn new() -> WriteQueue {
        WriteQueue { state: Mutex::new(QueueState::default()) }
    }

    /// Waits for the turn of a batch.
    #[inline]
    pub(super) fn enter(&self, request: Request) -> Turn<'_> {
        let mut state = self.state.lock();
        if !state.led {
            state.led = true;
            return Turn::Lead(self.leader(), request);
        }
        let waiter = Arc::new(Waiter {
            state: Mutex::new(WaiterState::Waiting(request)),
            changed: Condvar::new(),
        });
        state.waiting.push_back(waiter.clone());
        drop(state);
        self.wait(&waiter)
    }

    fn leader(&self) -> Leader<'_> {
        Leader { queue: self, followers: Followers::default() }
    }

    fn wait(&self, waiter: &Waiter) -> Turn<'_> {
        let mut state = waiter.state.lock();
        loop {
            match &*state {
                WaiterState::Done(..) | WaiterState::Lead(_) => break,
                _ => waiter.changed.wait(&mut state),
            }
        }
        match std::mem::replace(&mut *state, WaiterState::Gone) {
            WaiterState::Done(result, batch) => Turn::Done(result, batch),
            WaiterState::Lead(request) => Turn::Lead(self.leader(), request),
            _ => unreachable!("the loop above ends in these two states only"),
        }
    }
}

impl Leader<'_> {
    /// Takes the batches that wait, up to a limit. Their results are due through `finish`.
    #[inline]
    pub(super) fn gather(&mut self, own_bytes: usize, out: &mut Vec<Request>) {
        let mut state = self.queue.state.lock();
        let mut bytes = own_bytes;
        while let Some(waiter) = state.waiting.front() {
            let mut waiting = waiter.state.lock();
            let WaiterState::Waiting(request) = &*waiting else {
                unreachable!("only the leader changes those that wait")
            };
            bytes += request.batch.size_bytes();
            if bytes > GROUP_BYTES_MAX && !(self.followers.0.is_empty() && own_bytes == 0) {
                break;
            }
            let taken = std::mem::replace(&mut *waiting, WaiterState::Taken);
            drop(waiting);
            if let WaiterState::Waiting(request) = taken {
                out.push(request);
            }
            self.followers.0.extend(state.waiting.pop_front());
        }
    }

    /// Hands out results in the order of `gather`, and batches back, and names the next leader before that or, with
    /// `synced`, after it.
    pub(super) fn finish(
        mut self,
        synced: bool,
        answers: impl Iterator<Item = (Result<()>, Batch)>,
    ) {
        let followers = std::mem::take(&mut self.followers);
        let leader = if synced {
            Some(self)
        } else {
            drop(self);
            None
        };
        for (waiter, (result, batch)) in followers.0.iter().zip(answers) {
            waiter.answer(result, batch);
        }
        drop(followers);
        drop(leader);
    }
}

impl Waiter {
    fn answer(&self, result: Result<()>, batch: Batch) {
        *self.state.lock() = WaiterState::Done(result, batch);
        self.changed.notify_one();
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        match state.waiting.pop_front() {
            Some(next) => {
                let mut waiting = next.state.lock();
                let request = std::mem::replace(&mut *waiting, WaiterState::Taken);
                if let WaiterState::Waiting(request) = request {
                    *waiting = WaiterState::Lead(request);
                }
                next.changed.notify_one();
            }
            None => state.led = false,
        }
    }
}

impl Drop for Followers {
    fn drop(&mut self) {
        for waiter in &self.0 {
            let mut state = waiter.state.lock();
            if matches!(*state, WaiterState::Taken) {
                let why = "a writing thread panicked".to_owned();
                *state = WaiterState::Done(Err(Error::Poisoned { why }), Batch::new());
                waiter.changed.notify_one();
            }
        }
    }
}
