//! Which of the things that stand in places of their own stay there: two queues in the manner of
//! S3-FIFO.
//!
//! ```text
//! put in -> first queue, a hundredth of the bytes -> used meanwhile? -> main queue -> used meanwhile? -> its end again
//!                                                 -> not: leaves                   -> not: leaves
//! put in while the main queue has room, or again soon after it has left the first one -> main queue
//! put in again later than that -> the next of the main queue: used? -> a use less, and first queue
//!                                                             not:  -> leaves, and main queue
//! ```
//!
//! So what a long scan brings passes through the first queue and leaves the main one alone. The
//! first is so short that what leaves it is still in the processor's caches, and its memory with
//! it. The queues know the order and the weights; where a thing stands, whether it was used, and
//! when it left, its place knows. A use therefore costs nothing here, and what makes room looks at
//! the ends of two arrays, and at places that were brought near before. Places may go away with
//! what stands in them: who puts something in also looks for such entries.
//! Invariants: (1) a place that is full has one entry in a queue, but for the moment between its
//! being filled and put in; (2) when no call is under way, weights stay within the capacity.
//! Threads: any; sharded. Lock order: a shard, then a place; whoever holds a place takes no other
//! lock.
//! Source: Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023; differs:
//! bytes instead of entries, a first queue of a hundredth instead of a tenth (as the window of
//! W-TinyLFU), one use is enough to go on, the main queue is filled first, and the ghost queue is a
//! number in the place. Who comes back before an eighth as many have left as there are entries is
//! let in; who does before twice as many have, votes. So loops over up to twice as much as there is
//! room for keep what there is room for, whatever was used before, and do not push themselves out.

use super::entry::shards;
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;

/// The share of the capacity that the first queue has, as a divisor.
const FIRST_SHARE: u64 = 100;

/// Places so far from where a queue is left are brought near, and then what stands there.
const NEAR: usize = 8;
const NEAR_KEPT: usize = 4;

/// Who puts something in looks at so many entries of the main queue whether their places are gone.
const SWEPT: usize = 2;

/// So many that leave are freed once the lock is let go; more, under it.
const FREED_LATER: usize = 4;

/// Of so many used ones in a row, the next one leaves: nobody goes round all of the main queue to
/// put something in.
const ASKED: usize = 64;

/// Who was away while fewer left than this share of the entries is let in, as a divisor; while
/// fewer than so many times the entries, votes.
const SOON: usize = 8;
const LATE: usize = 2;

/// A place for one thing, named from a queue without keeping the place alive.
pub trait Place {
    /// What stands there.
    type Kept;

    /// True if it is gone itself, and what stood there with it.
    fn is_gone(&self) -> bool;

    /// Brings near what [`Place::ask`] looks at, without waiting for it.
    fn warm(&self);

    /// Brings near what is needed to free what stands there, if the place is near.
    fn warm_kept(&self);

    /// Whether what stands there leaves.
    fn ask(&self, rule: Rule) -> Answer<Self::Kept>;
}

/// What decides whether a thing leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// If it was not used. If so, it begins anew without uses; if not, the place notes that it left
    /// at this moment.
    First(Moment),
    /// The same, but a use is taken off, and nothing is noted.
    Main,
    /// It does, used or not.
    Must,
}

/// The answer.
#[derive(Debug)]
pub enum Answer<K> {
    /// It stays.
    Stays,
    /// It left; what it was.
    Leaves(K),
    /// Nothing stands there, or the place is gone itself.
    Gone,
}

/// When something left the first queue: how many had left it before in its shard. Never 0.
pub type Moment = u32;

/// The queues.
#[derive(Debug)]
pub struct Queues<P> {
    shards: Box<[Shard<P>]>,
    shard_bytes: AtomicU64,
}

/// Alone on its lines, so that two threads do not pull at one.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<P>(Mutex<Pair<P>>);

#[derive(Debug)]
struct Pair<P> {
    first: Queue<P>,
    main: Queue<P>,
    now: Moment,
    /// Where in the main queue places are looked at that may be gone.
    swept: usize,
}

#[derive(Debug)]
struct Queue<P> {
    entries: VecDeque<Entry<P>>,
    bytes: u64,
}

#[derive(Debug)]
struct Entry<P> {
    place: P,
    bytes: u32,
}

impl<P: Place> Queues<P> {
    /// Empty ones for at most so many bytes, or a quarter of it later on: a shard then has 2 MiB
    /// still, if there are several.
    pub fn new(capacity_bytes: u64) -> Queues<P> {
        let shards = shards(capacity_bytes / 2);
        let queue = || Queue { entries: VecDeque::new(), bytes: 0 };
        let pair = || Shard(Mutex::new(Pair { first: queue(), main: queue(), now: 1, swept: 0 }));
        Queues {
            shards: (0..shards).map(|_| pair()).collect(),
            shard_bytes: AtomicU64::new(capacity_bytes / shards as u64),
        }
    }

    /// Puts in what was put into a place just now, and makes room for it. False, and it is to be
    /// taken out of its place, if it is larger than it may be.
    ///
    /// The same thing has the same `hash` each time, all bits of which are as good as random;
    /// `left` is what its place noted, or 0.
    pub fn insert(&self, hash: u64, place: P, bytes: u64, left: Moment) -> bool {
        let at = hash as usize & (self.shards.len() - 1);
        let mut freed = [const { None }; FREED_LATER];
        let mut pair = self.shards[at].0.lock();
        // Under the lock: if it is about to become less, whoever makes it so comes by here later.
        let shard_bytes = self.shard_bytes.load(Ordering::Relaxed);
        let weight = match u32::try_from(bytes) {
            Ok(weight) if bytes <= shard_bytes => weight,
            _ => return false,
        };
        let mut leave = |kept| {
            if let Some(free) = freed.iter_mut().find(|f| f.is_none()) {
                *free = Some(kept);
            }
        };
        pair.insert(Entry { place, bytes: weight }, left, shard_bytes, &mut leave);
        pair.shrink(shard_bytes, ASKED, leave);
        drop(pair);
        true
    }

    /// Changes the capacity, one thread at a time; what is too much leaves at once.
    pub fn set_capacity_bytes(&self, capacity_bytes: u64) {
        let shard_bytes = capacity_bytes / self.shards.len() as u64;
        if self.shard_bytes.swap(shard_bytes, Ordering::Relaxed) <= shard_bytes {
            return;
        }
        for shard in &self.shards {
            let mut freed = Vec::new();
            let mut pair = shard.0.lock();
            // Four times round at most: by then nobody has uses left but who is used meanwhile.
            let patience = pair.first.entries.len() + 4 * pair.main.entries.len();
            pair.shrink(shard_bytes, patience, |kept| freed.push(kept));
            pair.first.give_back();
            pair.main.give_back();
            drop(pair);
            drop(freed);
        }
    }

    /// The most that all entries may take.
    #[cfg(test)]
    pub fn capacity_bytes(&self) -> u64 {
        self.shard_bytes.load(Ordering::Relaxed) * self.shards.len() as u64
    }

    /// Bytes of all entries.
    pub fn usage_bytes(&self) -> u64 {
        self.sum(|pair| pair.bytes())
    }

    /// How many entries there are.
    pub fn entries(&self) -> usize {
        self.sum(|pair| pair.len() as u64) as usize
    }

    fn sum(&self, of: impl Fn(&Pair<P>) -> u64) -> u64 {
        self.shards.iter().map(|shard| of(&shard.0.lock())).sum()
    }
}

impl<P: Place> Pair<P> {
    fn bytes(&self) -> u64 {
        self.first.bytes + self.main.bytes
    }

    fn len(&self) -> usize {
        self.first.entries.len() + self.main.entries.len()
    }

    fn insert(
        &mut self,
        entry: Entry<P>,
        left: Moment,
        bytes_max: u64,
        freed: impl FnMut(P::Kept),
    ) {
        self.sweep();
        let fits = self.main.bytes + u64::from(entry.bytes) <= bytes_max - bytes_max / FIRST_SHARE;
        let away = if left == 0 { usize::MAX } else { self.now.wrapping_sub(left) as usize };
        let is_back = away < self.len() / SOON;
        let is_main = fits || is_back || away < LATE * self.len() && self.vote(freed);
        let queue = if is_main { &mut self.main } else { &mut self.first };
        queue.push(entry);
    }

    /// Votes against the next of the main queue. True if it left.
    fn vote(&mut self, mut freed: impl FnMut(P::Kept)) -> bool {
        let Some(next) = self.main.pop() else { return true };
        match next.place.ask(Rule::Main) {
            Answer::Stays => {
                self.main.push(next);
                return false;
            }
            Answer::Leaves(kept) => freed(kept),
            Answer::Gone => {}
        }
        true
    }

    /// Drops entries of places that are gone, of the next few.
    fn sweep(&mut self) {
        let Queue { entries, bytes } = &mut self.main;
        for _ in 0..SWEPT {
            match entries.get(self.swept) {
                None => self.swept = 0,
                Some(entry) if entry.place.is_gone() => {
                    *bytes -= u64::from(entry.bytes);
                    entries.swap_remove_front(self.swept);
                }
                Some(_) => self.swept += 1,
            }
        }
    }

    /// Lets leave until no more than this is left. Of so many in a row who were used, the next one
    /// leaves: who is used all the time meanwhile stays no longer than others.
    fn shrink(&mut self, bytes_max: u64, patience: usize, mut freed: impl FnMut(P::Kept)) {
        let mut stayed = 0;
        while self.bytes() > bytes_max {
            // The last of the first queue waits for its use however large it is.
            let has_more =
                self.first.bytes > bytes_max / FIRST_SHARE && self.first.entries.len() > 1;
            let is_first = has_more || self.main.entries.is_empty();
            let queue = if is_first { &mut self.first } else { &mut self.main };
            let Some(entry) = queue.pop() else { break };
            let rule = match is_first {
                _ if stayed == patience => Rule::Must,
                true => Rule::First(self.now),
                false => Rule::Main,
            };
            match entry.place.ask(rule) {
                Answer::Stays => {
                    stayed += 1;
                    self.main.push(entry);
                }
                Answer::Leaves(kept) => {
                    stayed = 0;
                    freed(kept);
                    if is_first {
                        self.now = self.now.wrapping_add(1).max(1);
                    }
                }
                Answer::Gone => stayed = 0,
            }
        }
    }
}

impl<P: Place> Queue<P> {
    fn push(&mut self, entry: Entry<P>) {
        self.bytes += u64::from(entry.bytes);
        self.entries.push_back(entry);
    }

    /// Memory that so few do not need.
    fn give_back(&mut self) {
        if self.entries.capacity() / 4 > self.entries.len() {
            self.entries.shrink_to(2 * self.entries.len());
        }
    }

    fn pop(&mut self) -> Option<Entry<P>> {
        let entry = self.entries.pop_front()?;
        self.bytes -= u64::from(entry.bytes);
        if let Some(soon) = self.entries.get(NEAR) {
            soon.place.warm();
        }
        if let Some(soon) = self.entries.get(NEAR_KEPT) {
            soon.place.warm_kept();
        }
        Some(entry)
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::{Rc, Weak};

    /// Places by number, each for one thing.
    type Places = Rc<Vec<Spot>>;

    #[derive(Debug, Default)]
    struct Spot {
        is_full: Cell<bool>,
        uses: Cell<u32>,
        left: Cell<Moment>,
        warmed: Cell<u32>,
        asked: Cell<u32>,
        /// Used again whenever it is asked.
        is_restless: Cell<bool>,
    }

    #[derive(Debug)]
    struct Name(Weak<Vec<Spot>>, usize);

    impl Place for Name {
        type Kept = usize;

        fn is_gone(&self) -> bool {
            self.0.strong_count() == 0
        }

        fn warm(&self) {
            if let Some(places) = self.0.upgrade() {
                places[self.1].warmed.set(places[self.1].warmed.get() + 1);
            }
        }

        fn warm_kept(&self) {
            self.warm();
        }

        fn ask(&self, rule: Rule) -> Answer<usize> {
            let Some(places) = self.0.upgrade() else { return Answer::Gone };
            let spot = &places[self.1];
            spot.asked.set(spot.asked.get() + 1);
            let uses = spot.uses.get();
            if rule != Rule::Must && (uses > 0 || spot.is_restless.get()) {
                spot.uses.set(if rule == Rule::Main { uses.saturating_sub(1) } else { 0 });
                return Answer::Stays;
            }
            assert!(spot.is_full.replace(false), "one entry for each");
            spot.uses.set(0);
            if let Rule::First(now) = rule {
                spot.left.set(now);
            }
            Answer::Leaves(self.1)
        }
    }

    fn places(count: usize) -> Places {
        Rc::new((0..count).map(|_| Spot::default()).collect())
    }

    /// A cache of things of 10 bytes, in one shard.
    struct Cache(Queues<Name>);

    impl Cache {
        fn of(things: u64) -> Cache {
            Cache(Queues::new(10 * things))
        }

        /// True if it was there.
        fn read(&self, places: &Places, i: usize) -> bool {
            let spot = &places[i];
            if spot.is_full.get() {
                spot.uses.set((spot.uses.get() + 1).min(3));
                return true;
            }
            spot.is_full.set(true);
            let left = spot.left.take();
            assert!(self.0.insert(i as u64, Name(Rc::downgrade(places), i), 10, left));
            false
        }

        fn hits(&self, places: &Places, of: impl Iterator<Item = usize>) -> usize {
            of.filter(|&i| self.read(places, i)).count()
        }
    }

    fn full(places: &Places, of: std::ops::Range<usize>) -> usize {
        of.filter(|&i| places[i].is_full.get()).count()
    }

    #[test]
    fn a_long_scan_leaves_alone_what_is_used() {
        let (cache, places) = (Cache::of(1_000), places(100_000));
        for _ in 0..3 {
            cache.hits(&places, 0..900);
        }
        // Far more than there is room for, each once.
        assert_eq!(cache.hits(&places, 1_000..100_000), 0);
        assert_eq!(full(&places, 0..900), 900);
        assert_eq!(cache.0.entries(), 1_000);
        assert_eq!(cache.0.usage_bytes(), 10_000);
    }

    #[test]
    fn one_use_is_enough_to_stay() {
        let (cache, places) = (Cache::of(1_000), places(3_000));
        // The main queue is full now, and the first one holds the last ten.
        cache.hits(&places, 0..1_100);
        assert_eq!(full(&places, 1_090..1_100), 10);
        assert!(cache.read(&places, 1_095));
        cache.hits(&places, 1_100..3_000);
        assert_eq!(full(&places, 1_090..1_100), 1);
        assert!(places[1_095].is_full.get());
    }

    #[test]
    fn a_scan_again_and_again_finds_what_fits() {
        let (cache, places) = (Cache::of(1_000), places(3_000));
        cache.hits(&places, 0..3_000);
        let hits = cache.hits(&places, 0..3_000);
        assert!((950..1_000).contains(&hits), "{hits}: least recently used would be 0");
    }

    #[test]
    fn a_loop_finds_what_fits_whatever_was_used_before() {
        for length in [300, 700, 950, 1_100, 1_300, 1_500, 1_900] {
            let (cache, places) = (Cache::of(1_000), places(3_000));
            for _ in 0..5 {
                cache.hits(&places, 0..1_000);
            }
            let one = || cache.hits(&places, 1_000..1_000 + length);
            let hits: Vec<usize> = (0..30).map(|_| one()).collect();
            assert!(hits[29] >= 870.min(length), "{length}: {hits:?}");
        }
    }

    #[test]
    fn of_large_things_the_last_one_waits_for_its_use() {
        // Room for three, a hundredth of which is less than one.
        let (cache, places) = (Cache::of(3), places(9));
        for _ in 0..3 {
            cache.hits(&places, 0..3);
        }
        cache.read(&places, 3);
        assert!(cache.read(&places, 3), "it was put in");
        cache.hits(&places, 4..6);
        assert!(places[3].is_full.get(), "it went on into the main queue");
        let hits: Vec<usize> = (0..20).map(|_| cache.hits(&places, 6..8)).collect();
        assert_eq!(hits[19], 2, "{hits:?}");
    }

    #[test]
    fn who_puts_something_in_asks_few() {
        let (cache, places) = (Cache::of(1_000), places(1_200));
        for _ in 0..5 {
            cache.hits(&places, 0..1_000);
        }
        let asked = || places.iter().map(|spot| spot.asked.get() as usize).sum::<usize>();
        for i in 1_000..1_200 {
            let before = asked();
            cache.read(&places, i);
            // Used at once, so that it goes on into the main queue, where everybody was used.
            cache.read(&places, i);
            assert!(asked() - before <= 90, "{}", asked() - before);
            assert!(cache.0.usage_bytes() <= 10_000);
        }
        assert!(full(&places, 1_000..1_200) > 150, "{}", full(&places, 1_000..1_200));
    }

    #[test]
    fn what_was_used_does_not_make_room_for_a_large_one() {
        let (cache, places) = (Cache::of(1_000), places(1_001));
        cache.hits(&places, 0..1_000);
        // Every other one: those that were not are enough.
        cache.hits(&places, (0..1_000).filter(|i| i % 2 == 0));
        places[1_000].is_full.set(true);
        assert!(cache.0.insert(0, Name(Rc::downgrade(&places), 1_000), 3_000, 0));
        let is_there = |i: &usize| places[*i].is_full.get();
        assert_eq!((0..990).filter(|i| i % 2 == 0).filter(is_there).count(), 495);
        assert!(is_there(&1_000) && cache.0.usage_bytes() <= 10_000);
    }

    #[test]
    fn what_is_popular_now_takes_the_place_of_what_was() {
        let (cache, places) = (Cache::of(1_000), places(3_000));
        for _ in 0..3 {
            cache.hits(&places, 0..1_000);
        }
        // Each of them comes back before it is forgotten that it has left.
        let mut random = 1u64;
        for i in 0..100_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i | 1);
            cache.read(&places, 1_000 + (random >> 33) as usize % 800);
        }
        assert!(full(&places, 1_000..1_800) > 780);
    }

    #[test]
    fn what_comes_back_soon_goes_to_the_main_queue_and_what_comes_back_late_does_not() {
        let (cache, places) = (Cache::of(1_000), places(10_000));
        cache.hits(&places, 0..2_000);
        let before = full(&places, 0..1_000);
        // Left lately: 1_900 is used once more, and then many pass.
        assert!(!places[1_900].is_full.get() && places[1_900].left.get() > 0);
        cache.read(&places, 1_900);
        cache.hits(&places, 2_000..3_000);
        assert!(places[1_900].is_full.get(), "it came back soon enough");
        assert_eq!(full(&places, 0..1_000), before - 1, "in the place of another");
        // 2_100 left before more than an eighth did: the next of the main queue, which was not
        // used, is not worth more.
        let before = full(&places, 0..1_000);
        assert!(places[2_100].left.get() > 0);
        cache.read(&places, 2_100);
        cache.hits(&places, 3_000..3_100);
        assert!(places[2_100].is_full.get());
        assert_eq!(full(&places, 0..1_000), before - 1);
        // Were they used, one has a use less.
        let uses = || places[..1_000].iter().map(|spot| spot.uses.get()).sum::<u32>();
        cache.hits(&places, (0..1_000).filter(|&i| places[i].is_full.get()));
        let (before, used) = (full(&places, 0..1_000), uses());
        assert!(places[2_500].left.get() > 0);
        cache.read(&places, 2_500);
        cache.hits(&places, 3_100..3_200);
        assert!(!places[2_500].is_full.get());
        assert_eq!((full(&places, 0..1_000), uses()), (before, used - 1));
        // So long ago that twice as many have left as there are: as if it had never been there.
        cache.hits(&places, 3_200..3_500);
        cache.read(&places, 1_200);
        assert_eq!((full(&places, 0..1_000), uses()), (before, used - 1));
    }

    #[test]
    fn entries_of_places_that_are_gone_make_room() {
        let (cache, old, new) = (Cache::of(1_000), places(1_000), places(1_000));
        for _ in 0..3 {
            cache.hits(&old, 0..1_000);
        }
        drop(old);
        // Two are looked at for each that is put in.
        cache.hits(&new, 0..600);
        assert!(full(&new, 0..600) > 480, "{}", full(&new, 0..600));
        assert_eq!(cache.hits(&new, 0..1_000), full(&new, 0..600));
        assert!(full(&new, 0..1_000) > 800);
        assert!(cache.0.usage_bytes() <= 10_000);
    }

    #[test]
    fn who_is_used_all_the_time_must_leave_too() {
        let (cache, places) = (Cache::of(100), places(100));
        cache.hits(&places, 0..100);
        places.iter().for_each(|spot| spot.is_restless.set(true));
        cache.0.set_capacity_bytes(500);
        assert_eq!((cache.0.entries(), cache.0.usage_bytes()), (50, 500));
        cache.0.set_capacity_bytes(0);
        assert_eq!((cache.0.entries(), full(&places, 0..100)), (0, 0));
        assert!(!cache.0.insert(1, Name(Rc::downgrade(&places), 1), 10, 0), "nothing fits");
    }

    #[test]
    fn what_is_larger_than_a_shard_is_not_taken() {
        let queues: Queues<Name> = Queues::new(64 << 20);
        let places = places(2);
        let name = |i| Name(Rc::downgrade(&places), i);
        assert!(!queues.insert(0, name(0), (8 << 20) + 1, 0));
        assert_eq!(queues.entries(), 0);
        places[1].is_full.set(true);
        assert!(queues.insert(1, name(1), 8 << 20, 0));
        assert_eq!((queues.entries(), queues.usage_bytes()), (1, 8 << 20));
        queues.set_capacity_bytes(16 << 20);
        assert_eq!(queues.usage_bytes(), 0);
        assert!(queues.insert(1, name(0), 2 << 20, 0), "a quarter is left to each shard");
    }

    #[test]
    fn what_leaves_next_was_brought_near() {
        let (cache, places) = (Cache::of(1_000), places(2_000));
        cache.hits(&places, 0..2_000);
        let left: Vec<&Spot> = places.iter().filter(|spot| spot.left.get() > 0).collect();
        assert!(left.len() > 900);
        let warmed = left.iter().filter(|spot| spot.warmed.get() == 2).count();
        assert!(warmed + 2 * NEAR >= left.len(), "{warmed} of {}", left.len());
    }
}
