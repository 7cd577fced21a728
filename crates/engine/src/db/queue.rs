//! The write queue: writers that arrive while one is writing are written by the next as one group.
//!
//! ```text
//! enter(batch): nobody leads     -> lead
//!               somebody leads   -> join the group that forms; sleep until it is written, or nobody leads
//! lead:         take the group that waits, write, answer it, give up the lead, wake it
//! ```
//!
//! All of a group sleep on one word and are woken by one call. The lead is not handed to anybody: one of
//! those who wait is woken, and whoever comes first takes it, the one who was woken or one who just
//! entered; a thread that runs need not wait for one that must be scheduled first. Nobody is passed
//! over by that, for whoever leads writes those who wait along with its own; one whose batch is too large
//! for that joins them instead.
//!
//! After a sync the lead is given up last: what those who were answered write next then joins the group
//! that forms, and a sync serves more of them.
//!
//! Invariants: (1) at most one thread leads; (2) a group is in the queue, or in the hands of a leader, who
//! answers it; (3) if nobody leads and a group is in the queue, somebody of it was woken; (4) the
//! batches of a thread are written in its order, those of a group in the order of arrival.

use super::epochs::Application;
use super::separated::Separated;
use esker_base::sync::{Mutex, WaitWord, thread};
use esker_base::{Batch, Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of batches that one group holds, beyond its first.
const GROUP_BYTES_MAX: usize = 1 << 20;

/// The group waits: it forms, or is being written.
const WAIT: u32 = 0;
/// Nobody leads: one of the group should.
const LEAD: u32 = 1;
/// The group was answered.
const DONE: u32 = 2;

/// Where writers wait.
pub(super) struct WriteQueue {
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    led: bool,
    forming: VecDeque<Forming>,
}

/// A batch on its way through a group, and back with what became of it.
pub(super) struct Request {
    pub(super) batch: Batch,
    /// Large values of the batch.
    pub(super) separated: Option<Box<Separated>>,
    pub(super) sync: bool,
    /// By which request of somebody else's log it was given.
    pub(super) application: Option<Box<Application>>,
    /// Number of the list of indexes that the batch was made for.
    pub(super) indexes: u64,
    /// Nothing was written because there is a newer list.
    pub(super) outdated: bool,
    pub(super) result: Result<()>,
}

/// A group that nobody writes yet.
struct Forming {
    requests: Vec<Request>,
    bytes: usize,
    group: Arc<Group>,
}

/// What those of a group wait for.
struct Group {
    /// `LEAD` only while the group is the first in the queue, and changed under its lock until then.
    word: WaitWord,
    /// By place in the group.
    answers: Mutex<Vec<Option<Request>>>,
}

/// What came of entering the queue.
pub(super) enum Turn<'a> {
    /// Somebody else wrote the batch.
    Done(Request),
    /// This thread writes now.
    Lead(Leader<'a>),
}

/// The right to write. Dropping it gives up the lead.
pub(super) struct Leader<'a> {
    queue: &'a WriteQueue,
    /// The own batch, unless it is in the group that waits.
    own: Option<Request>,
    /// Place of the own batch among those that are written.
    place: usize,
    taken: Taken,
}

/// What a leader has to write.
pub(super) enum Gathered {
    /// Its own batch: the usual case, which allocates nothing.
    Alone(Request),
    /// Its own and others'.
    Group(Vec<Request>),
}

/// The group in a leader's hands. Those without an answer when it is dropped are told of a panic.
struct Taken(Option<Arc<Group>>);

impl WriteQueue {
    pub(super) fn new() -> WriteQueue {
        WriteQueue { state: Mutex::new(QueueState::default()) }
    }

    /// Waits for the turn of a batch.
    #[inline]
    pub(super) fn enter(&self, request: Request) -> Turn<'_> {
        let mut state = self.state.lock();
        if state.is_free_for(request.batch.size_bytes()) {
            state.take_lead();
            return Turn::Lead(self.leader(Some(request), 0));
        }
        let (group, place) = state.join(request);
        drop(state);
        self.wait(&group, place)
    }

    fn leader(&self, own: Option<Request>, place: usize) -> Leader<'_> {
        Leader { queue: self, own, place, taken: Taken(None) }
    }

    fn wait(&self, group: &Group, place: usize) -> Turn<'_> {
        loop {
            match group.word.load() {
                WAIT => group.word.wait(WAIT),
                LEAD => {
                    let mut state = self.state.lock();
                    // Unless somebody was faster.
                    if group.word.load() == LEAD {
                        state.take_lead();
                        return Turn::Lead(self.leader(None, place));
                    }
                }
                _ => {
                    let answer = group.answers.lock().get_mut(place).and_then(Option::take);
                    return Turn::Done(answer.unwrap_or_else(Request::lost));
                }
            }
        }
    }
}

impl Request {
    pub(super) fn new(batch: Batch, sync: bool) -> Request {
        Request {
            batch,
            separated: None,
            sync,
            application: None,
            indexes: 0,
            outdated: false,
            result: Ok(()),
        }
    }

    /// The batch as it stands in the log.
    #[inline]
    pub(super) fn logged(&self) -> &Batch {
        self.separated.as_ref().map_or(&self.batch, |separated| &separated.logged)
    }

    /// The answer to one whose leader gave none.
    #[cold]
    fn lost() -> Request {
        let why = "a writing thread panicked".to_owned();
        Request { result: Err(Error::Poisoned { why }), ..Request::new(Batch::new(), false) }
    }
}

impl Gathered {
    /// In the order in which they are to be written.
    #[inline]
    pub(super) fn requests(&mut self) -> &mut [Request] {
        match self {
            Gathered::Alone(own) => std::slice::from_mut(own),
            Gathered::Group(requests) => requests,
        }
    }
}

impl QueueState {
    /// True if nobody leads, and those who wait can be written along with a batch of so many bytes.
    #[inline]
    fn is_free_for(&self, bytes: usize) -> bool {
        !self.led && self.forming.front().is_none_or(|first| first.has_room(bytes))
    }

    fn take_lead(&mut self) {
        self.led = true;
        if let Some(first) = self.forming.front() {
            first.group.word.store(WAIT);
        }
    }

    /// Adds a batch to the group that forms; its place there.
    fn join(&mut self, request: Request) -> (Arc<Group>, usize) {
        let bytes = request.batch.size_bytes();
        match self.forming.back_mut() {
            Some(last) if last.has_room(bytes) => {
                last.bytes += bytes;
                last.requests.push(request);
                (last.group.clone(), last.requests.len() - 1)
            }
            _ => {
                let (word, answers) = (WaitWord::new(WAIT), Mutex::new(Vec::new()));
                let group = Arc::new(Group { word, answers });
                let requests = vec![request];
                self.forming.push_back(Forming { requests, bytes, group: group.clone() });
                (group, 0)
            }
        }
    }
}

impl Forming {
    fn has_room(&self, bytes: usize) -> bool {
        self.bytes + bytes <= GROUP_BYTES_MAX
    }
}

impl Leader<'_> {
    /// Takes the batches that wait, the own among them. They go back through `finish`.
    #[inline]
    pub(super) fn gather(&mut self) -> Gathered {
        let mut state = self.queue.state.lock();
        let Some(own) = self.own.take() else {
            let first = state.forming.pop_front();
            return self.take(first.expect("the group of a leader who waited is the first"));
        };
        let own_bytes = own.batch.size_bytes();
        // They may have become too many since the lead was taken; then they are the next.
        let Some(mut first) = state.forming.pop_front_if(|first| first.has_room(own_bytes)) else {
            return Gathered::Alone(own);
        };
        drop(state);
        self.place = first.requests.len();
        first.requests.push(own);
        self.take(first)
    }

    fn take(&mut self, first: Forming) -> Gathered {
        self.taken = Taken(Some(first.group));
        Gathered::Group(first.requests)
    }

    /// Gives each of the group its own back; the leader's is returned.
    ///
    /// The lead is given up before others are woken or, after a sync, when that is done.
    #[inline]
    pub(super) fn finish(self, written: Gathered) -> Request {
        match written {
            Gathered::Alone(own) => own,
            Gathered::Group(requests) => self.answer(requests),
        }
    }

    fn answer(mut self, requests: Vec<Request>) -> Request {
        let synced = requests.iter().any(|request| request.sync);
        let mut answers: Vec<Option<Request>> = requests.into_iter().map(Some).collect();
        let own = answers.get_mut(self.place).and_then(Option::take);
        if let Some(group) = self.taken.0.take() {
            *group.answers.lock() = answers;
            group.word.store(DONE);
            if synced {
                group.word.wake_all();
                drop(self);
            } else {
                drop(self);
                group.word.wake_all();
                // Those who slept go first, or they would wait for the end of this thread's time slice.
                thread::yield_now();
            }
        }
        own.unwrap_or_else(Request::lost)
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.led = false;
        let Some(first) = state.forming.front() else {
            return;
        };
        first.group.word.store(LEAD);
        let group = first.group.clone();
        drop(state);
        group.word.wake_one();
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(group) = self.0.take() {
            group.word.store(DONE);
            group.word.wake_all();
        }
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;

    fn request(value_bytes: usize) -> Request {
        let mut batch = Batch::new();
        batch.put(b"k", &vec![0; value_bytes]);
        Request::new(batch, false)
    }

    #[test]
    fn a_large_batch_does_not_pass_over_those_who_wait() {
        let mut state = QueueState::default();
        assert!(state.is_free_for(usize::MAX / 2), "nobody is passed over");
        state.join(request(10));
        assert!(state.is_free_for(1_000), "it takes those who wait along");
        assert!(!state.is_free_for(GROUP_BYTES_MAX), "it would have to leave them behind");
        state.led = true;
        assert!(!state.is_free_for(1_000));
    }

    #[test]
    fn groups_are_bounded_and_keep_their_order() {
        let mut state = QueueState::default();
        let places: Vec<usize> =
            [10, 20, GROUP_BYTES_MAX, 30].map(|bytes| state.join(request(bytes)).1).into();
        assert_eq!(places, [0, 1, 0, 0]);
        let sizes: Vec<usize> = state.forming.iter().map(|group| group.requests.len()).collect();
        assert_eq!(sizes, [2, 1, 1]);
    }
}
