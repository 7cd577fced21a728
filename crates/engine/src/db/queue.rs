//! The write queue: writers that arrive while one is writing are written by the next as one group.
//!
//! ```text
//! enter(batch): nobody leads     -> lead
//!               somebody leads   -> wait until done, or until told to lead
//! lead:         take the others' batches, write, hand out results, name the next leader
//! ```
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
    followers: Vec<Arc<Waiter>>,
}

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
            return Turn::Lead(Leader { queue: self, followers: Vec::new() }, request);
        }
        let waiter = Arc::new(Waiter {
            state: Mutex::new(WaiterState::Waiting(request)),
            changed: Condvar::new(),
        });
        state.waiting.push_back(waiter.clone());
        drop(state);
        self.wait(&waiter)
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
            WaiterState::Lead(request) => {
                Turn::Lead(Leader { queue: self, followers: Vec::new() }, request)
            }
            _ => unreachable!("the loop above ends in these two states only"),
        }
    }
}

impl Leader<'_> {
    /// Takes the batches that wait, up to a limit. Their results are due through `answer`.
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
            if bytes > GROUP_BYTES_MAX && !(self.followers.is_empty() && own_bytes == 0) {
                break;
            }
            let taken = std::mem::replace(&mut *waiting, WaiterState::Taken);
            drop(waiting);
            if let WaiterState::Waiting(request) = taken {
                out.push(request);
            }
            self.followers.extend(state.waiting.pop_front());
        }
    }

    /// Gives the follower that was gathered first its result, and its batch back.
    pub(super) fn answer(&mut self, at: usize, result: Result<()>, batch: Batch) {
        let waiter = &self.followers[at];
        *waiter.state.lock() = WaiterState::Done(result, batch);
        waiter.changed.notify_one();
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        // Followers without an answer: the leader panicked.
        for waiter in &self.followers {
            let mut state = waiter.state.lock();
            if matches!(*state, WaiterState::Taken) {
                let why = "a writing thread panicked".to_owned();
                *state = WaiterState::Done(Err(Error::Poisoned { why }), Batch::new());
                waiter.changed.notify_one();
            }
        }
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
