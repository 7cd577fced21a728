//! The write queue: writers that arrive while one is writing are written by the next as one group.
//!
//! ```text
//! enter(batch): nobody leads, and there is room beside those who wait -> lead
//!               otherwise        -> look on for a moment, unless many do
//!                                -> join the group that forms; sleep until it is written, or nobody leads
//! lead:         take the group that waits, write, answer it, give up the lead, wake it
//! ```
//!
//! While nobody waits the lead is taken and given up by one exchange of one word each; the lock is
//! of those who wait. A lead lasts some 300 ns, to sleep and be woken takes ten times that: so a
//! writer first looks whether the lead is given up. It yields its processor again and again
//! meanwhile: where threads are more than processors it may be that of the leader, and those that
//! take turns find the lead free where those that sleep must be woken.
//!
//! All of a group sleep on one word and are woken by one call. The lead is not handed to anybody:
//! one of those who wait is woken, and whoever comes first takes it, the one who was woken or one
//! who just entered; a thread that runs need not wait for one that must be scheduled first. Nobody
//! is passed over for long by that, for whoever leads writes the first group along with its own;
//! one whose batch is too large for that joins instead. A leader may find that the group has grown
//! too large since: then it writes alone, and the group, which takes no more of its size, is the
//! next.
//!
//! After a sync the lead is given up last: what those who were answered write next then joins the
//! group that forms, and a sync serves more of them.
//!
//! Invariants: (1) at most one thread leads; (2) a group is in the queue, or in the hands of a
//! leader, who answers it; (3) if nobody leads and a group is in the queue, whoever gave up the
//! lead wakes somebody of the first; (4) the batches of a thread are written in its order, those of
//! a group in the order of arrival; (5) while the lock is free, `WAITED_FOR` is set if and only if
//! a group is in the queue; while it is set the word is changed under the lock only.

use super::application::Application;
use super::separated::Separated;
use crate::memtable::Memtable;
use esker_base::checksum::hash64;
use esker_base::sync::atomic::{AtomicU32, Ordering};
use esker_base::sync::{CHECKED, Mutex, WaitWord, thread};
use esker_base::{Batch, Error, KeyspaceId, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of the batches of a group, unless it is one batch.
const GROUP_BYTES_MAX: usize = if CHECKED { 100 } else { 1 << 20 };

/// The group waits: it forms, or is being written.
const WAIT: u32 = 0;
/// Nobody leads: one of the group should.
const LEAD: u32 = 1;
/// The group was answered.
const DONE: u32 = 2;

/// Somebody leads.
const LED: u32 = 1;
/// A group is in the queue.
const WAITED_FOR: u32 = 2;

/// How often a writer looks on between two turns of its processor. Twenty looks take half a
/// microsecond on a recent x86, less where the processor's pause is shorter.
const LOOKS: u32 = if CHECKED { 1 } else { 20 };
/// How many turns it looks on before it joins a group.
const TURNS: u32 = if CHECKED { 1 } else { 16 };
/// Up to how many writers look on at once. More would spend more time on the word they look at than
/// groups of them spend on being woken.
pub(super) const LOOKERS_MAX: u32 = if CHECKED { 0 } else { 16 };

/// Where writers wait.
pub(super) struct WriteQueue {
    lead: Lead,
    forming: Mutex<Queue>,
    /// How many writers look on right now.
    lookers: AtomicU32,
    lookers_max: u32,
}

/// `LED`, `WAITED_FOR`: what writers look at, in a line of the processor's caches of its own.
#[repr(align(64))]
struct Lead(AtomicU32);

/// The groups that nobody writes yet, in order. Each but the last had no room for the batch that
/// came next.
#[derive(Default)]
struct Queue(VecDeque<Forming>);

/// A batch on its way through a group, and back with what became of it.
pub(super) struct Request {
    pub(super) batch: Batch,
    /// Where its first operation goes, and the hash of its key.
    pub(super) first: Option<(KeyspaceId, u64)>,
    /// Large values of the batch.
    pub(super) separated: Option<Box<Separated>>,
    pub(super) sync: bool,
    /// By which request of somebody else's log it was given.
    pub(super) application: Option<Application>,
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
    /// `LEAD` only while the group is the first in the queue and nobody leads; changed under the
    /// queue's lock until a leader takes the group.
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
    /// Up to `lookers_max` writers look on at once.
    pub(super) fn new(lookers_max: u32) -> WriteQueue {
        let (lead, lookers) = (Lead(AtomicU32::new(0)), AtomicU32::new(0));
        WriteQueue { lead, forming: Mutex::new(Queue::default()), lookers, lookers_max }
    }

    /// Waits for the turn of a batch.
    #[inline]
    pub(super) fn enter(&self, request: Request) -> Turn<'_> {
        if self.lead.take() || (!request.sync && self.look_on()) {
            return Turn::Lead(self.leader(Some(request), 0));
        }
        self.enter_queue(request)
    }

    /// Looks for a moment whether the lead is given up; true if it was taken.
    #[cold]
    fn look_on(&self) -> bool {
        if self.lookers_max == 0 {
            return false;
        }
        let others = self.lookers.fetch_add(1, Ordering::Relaxed);
        let taken = others < self.lookers_max && self.take_when_given_up();
        self.lookers.fetch_sub(1, Ordering::Relaxed);
        taken
    }

    fn take_when_given_up(&self) -> bool {
        for _ in 0..TURNS {
            for _ in 0..LOOKS {
                match self.lead.0.load(Ordering::Relaxed) {
                    0 if self.lead.take() => return true,
                    0 | LED => std::hint::spin_loop(),
                    // Who waits goes first.
                    _ => return false,
                }
            }
            thread::yield_now();
        }
        false
    }

    #[cold]
    fn enter_queue(&self, request: Request) -> Turn<'_> {
        let mut queue = self.forming.lock();
        let before = self.lead.0.fetch_or(WAITED_FOR, Ordering::AcqRel);
        if before & LED == 0 && queue.is_free_for(request.batch.size_bytes()) {
            self.take_over(&queue);
            return Turn::Lead(self.leader(Some(request), 0));
        }
        let (group, place) = queue.join(request);
        drop(queue);
        self.wait(&group, place)
    }

    /// Takes the lead, which nobody has and `WAITED_FOR` keeps from others. The caller has the
    /// lock.
    fn take_over(&self, queue: &Queue) {
        match queue.0.front() {
            Some(first) => {
                first.group.word.store(WAIT);
                self.lead.0.store(LED | WAITED_FOR, Ordering::Relaxed);
            }
            None => self.lead.0.store(LED, Ordering::Relaxed),
        }
    }

    fn leader(&self, own: Option<Request>, place: usize) -> Leader<'_> {
        Leader { queue: self, own, place, taken: Taken(None) }
    }

    fn wait(&self, group: &Group, place: usize) -> Turn<'_> {
        loop {
            match group.word.load() {
                WAIT => group.word.wait(WAIT),
                LEAD => {
                    let queue = self.forming.lock();
                    // Unless somebody was faster.
                    if group.word.load() == LEAD {
                        self.take_over(&queue);
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

    /// True if a group is in the queue, as far as this thread knows.
    #[inline]
    pub(super) fn is_waited_for(&self) -> bool {
        self.lead.0.load(Ordering::Relaxed) & WAITED_FOR != 0
    }

    /// Gives up the lead to those who wait.
    #[cold]
    fn offer(&self) {
        let queue = self.forming.lock();
        let first = queue
            .0
            .front()
            .expect("whoever says that somebody waits joins before the lock is free");
        let group = first.group.clone();
        group.word.store(LEAD);
        self.lead.0.store(WAITED_FOR, Ordering::Release);
        drop(queue);
        group.word.wake_one();
    }

    /// The first group, if there is one and `fits` says so. The caller leads.
    fn pop(&self, fits: impl FnOnce(&mut Forming) -> bool) -> Option<Forming> {
        let mut queue = self.forming.lock();
        let first = queue.0.pop_front_if(fits);
        if queue.0.is_empty() {
            self.lead.0.store(LED, Ordering::Relaxed);
        }
        first
    }
}

impl Lead {
    /// Takes the lead if nobody has it and nobody waits.
    #[inline]
    fn take(&self) -> bool {
        self.0.compare_exchange(0, LED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives up the lead unless somebody waits; true if it did.
    #[inline]
    fn give_up(&self) -> bool {
        self.0.compare_exchange(LED, 0, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

impl Request {
    pub(super) fn new(batch: Batch, sync: bool) -> Request {
        let first = batch.first_key().map(|(keyspace, key)| (keyspace, hash64(key)));
        Request {
            batch,
            first,
            separated: None,
            sync,
            application: None,
            indexes: 0,
            outdated: false,
            result: Ok(()),
        }
    }

    /// True if anything is to be written by it.
    pub(super) fn writes(&self) -> bool {
        !self.batch.is_empty() || self.application.is_some()
    }

    /// Bytes that go into memtables, about.
    #[inline]
    pub(super) fn memory_bytes(&self) -> u64 {
        let batch_bytes = self.batch.size_bytes();
        let bytes = self.separated.as_ref().map_or(batch_bytes, |large| large.kept_bytes as usize);
        Memtable::bytes_for(bytes, self.batch.len())
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

impl Queue {
    /// True if those who wait can be written along with a batch of so many bytes.
    fn is_free_for(&self, bytes: usize) -> bool {
        self.0.front().is_none_or(|first| first.has_room(bytes))
    }

    /// Adds a batch to the group that forms; its place there.
    fn join(&mut self, request: Request) -> (Arc<Group>, usize) {
        let bytes = request.batch.size_bytes();
        match self.0.back_mut() {
            Some(last) if last.has_room(bytes) => {
                last.bytes += bytes;
                last.requests.push(request);
                (last.group.clone(), last.requests.len() - 1)
            }
            _ => {
                let (word, answers) = (WaitWord::new(WAIT), Mutex::new(Vec::new()));
                let group = Arc::new(Group { word, answers });
                let requests = vec![request];
                self.0.push_back(Forming { requests, bytes, group: group.clone() });
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
        let Some(own) = self.own.take() else {
            let first = self.queue.pop(|_| true);
            let first = first.expect("the group of a leader who waited is the first");
            self.taken = Taken(Some(first.group));
            return Gathered::Group(first.requests);
        };
        if !self.queue.is_waited_for() {
            return Gathered::Alone(own);
        }
        let own_bytes = own.batch.size_bytes();
        // They may have become too many since the lead was taken; then they are the next.
        let Some(mut first) = self.queue.pop(|first| first.has_room(own_bytes)) else {
            return Gathered::Alone(own);
        };
        self.place = first.requests.len();
        self.taken = Taken(Some(first.group));
        first.requests.push(own);
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
                // Those who slept go first, or they would wait for the end of this thread's time
                // slice.
                thread::yield_now();
            }
        }
        own.unwrap_or_else(Request::lost)
    }
}

impl Drop for Leader<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.queue.lead.give_up() {
            self.queue.offer();
        }
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
        let mut queue = Queue::default();
        assert!(queue.is_free_for(usize::MAX / 2), "nobody is passed over");
        queue.join(request(10));
        assert!(queue.is_free_for(1_000), "it takes those who wait along");
        assert!(!queue.is_free_for(GROUP_BYTES_MAX), "it would have to leave them behind");
    }

    #[test]
    fn groups_are_bounded_and_keep_their_order() {
        let mut queue = Queue::default();
        let places: Vec<usize> =
            [10, 20, GROUP_BYTES_MAX, 30].map(|bytes| queue.join(request(bytes)).1).into();
        assert_eq!(places, [0, 1, 0, 0]);
        let sizes: Vec<usize> = queue.0.iter().map(|group| group.requests.len()).collect();
        assert_eq!(sizes, [2, 1, 1]);
    }

    #[test]
    fn who_waits_is_told_of_until_the_last_group_is_taken() {
        let queue = WriteQueue::new(0);
        let word = || queue.lead.0.load(Ordering::Relaxed);
        assert!(queue.lead.take());
        queue.lead.0.fetch_or(WAITED_FOR, Ordering::Relaxed);
        for bytes in [10, GROUP_BYTES_MAX] {
            queue.forming.lock().join(request(bytes));
        }
        assert!(queue.pop(|_| true).is_some());
        assert_eq!(word(), LED | WAITED_FOR);
        assert!(!queue.lead.give_up(), "somebody must be offered the lead");
        assert!(queue.pop(|_| true).is_some());
        assert_eq!(word(), LED);
        assert!(queue.lead.give_up());
    }

    #[test]
    fn a_writer_looks_on_unless_many_do() {
        let queue = WriteQueue::new(2);
        assert!(queue.lead.take());
        assert!(!queue.look_on(), "the lead is not given up");
        assert!(queue.lead.give_up());
        for others in [0, 1, 2, 1] {
            queue.lookers.store(others, Ordering::Relaxed);
            assert_eq!(queue.look_on(), others < 2);
            assert_eq!(queue.lookers.load(Ordering::Relaxed), others, "it looks no longer");
            queue.lead.0.store(0, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_looks_on_gives_way_to_who_waits() {
        let queue = WriteQueue::new(2);
        queue.lead.0.store(WAITED_FOR, Ordering::Relaxed);
        assert!(!queue.look_on() && !queue.lead.take());
    }
}
