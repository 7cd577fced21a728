//! Reading the values that a cursor will come to, by threads of their own.
//!
//! ```text
//! cursor: note where the next values stand -> cut into parts -> offer -> take part after part, in order:
//!                                                    |             not begun -> read it
//!                                                    |             being read -> read another one, or wait
//!                                                    |             read -> give its values
//!         thread: a part that is not begun -> read, check, expand -> wake who waits
//! ```
//!
//! The threads are [`super::Readers`]. Without them, or where they have other things to do, cursors
//! read all by themselves, in the same order.
//!
//! Invariants: (1) a part is read by one thread at a time; (2) who waits for a part waits for a
//! thread that is at work on it.
//! Threads: any. Nothing is locked under these locks.
//! Source: WiscKey (FAST '16) reads the values of a range ahead with 32 threads; here a cursor says
//! how many are worth it.

use super::readers::Work;
use super::values::{Room, Values, Wanted};
use esker_base::Clock;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::sync::{Condvar, Mutex};
use std::ops::Range;
use std::sync::Arc;

/// Values that are read together, part by part.
pub(crate) struct Reading {
    wanted: Vec<Wanted>,
    /// Which of them each part has.
    parts: Vec<Range<usize>>,
    state: Mutex<State>,
    /// Who waits for a part waits here.
    read: Condvar,
    room: Room,
    clock: Arc<dyn Clock>,
    /// Nobody wants the rest.
    given_up: AtomicBool,
}

struct State {
    parts: Vec<Part>,
    /// Parts before this one are begun.
    begun: usize,
    /// How long a value took, of each part that is read.
    value_ns: Vec<u64>,
}

enum Part {
    /// With memory to read it into.
    Waiting(Values),
    Underway,
    Read(Values),
    Taken,
}

impl Reading {
    /// Reads these in these parts, into memory of `spare` as far as there is some, and no more than
    /// there is room for.
    pub(crate) fn new(
        wanted: Vec<Wanted>,
        parts: Vec<Range<usize>>,
        spare: &mut Vec<Values>,
        room: Room,
        clock: Arc<dyn Clock>,
    ) -> Reading {
        let waiting = parts.iter().map(|_| Part::Waiting(spare.pop().unwrap_or_default()));
        let state = State { parts: waiting.collect(), begun: 0, value_ns: Vec::new() };
        Reading {
            wanted,
            parts,
            state: Mutex::new(state),
            read: Condvar::new(),
            room,
            clock,
            given_up: AtomicBool::new(false),
        }
    }

    /// What is read.
    pub(crate) fn wanted(&self) -> &[Wanted] {
        &self.wanted
    }

    /// How many parts there are.
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Which values a part has.
    pub(crate) fn part(&self, nth: usize) -> Range<usize> {
        self.parts[nth].clone()
    }

    /// Nanoseconds that each value of a part took, of all parts that are read the median: it says
    /// nothing of threads that had to wait for a processor.
    pub(crate) fn value_ns(&self) -> Option<u64> {
        let mut spent = self.state.lock().value_ns.clone();
        let middle = spent.len().checked_sub(1)? / 2;
        Some(*spent.select_nth_unstable(middle).1)
    }

    /// The values of a part, each of which is asked for once. Reads or waits until they are there;
    /// rather than wait, reads parts of what follows.
    pub(crate) fn take(&self, nth: usize, following: Option<&Reading>) -> Values {
        let mut following = following;
        let mut state = self.state.lock();
        loop {
            match std::mem::replace(&mut state.parts[nth], Part::Taken) {
                Part::Read(values) => return values,
                Part::Waiting(mut values) => {
                    drop(state);
                    self.fill(nth, &mut values);
                    return values;
                }
                Part::Underway => state.parts[nth] = Part::Underway,
                Part::Taken => unreachable!("a part is taken once"),
            }
            if let Some((other, values)) = state.begin() {
                drop(state);
                self.read_part(other, values);
            } else if let Some(reading) = following {
                drop(state);
                following = Some(reading).filter(|reading| reading.read_next());
            } else {
                self.read.wait(&mut state);
                continue;
            }
            state = self.state.lock();
        }
    }

    /// Reads the next part that nobody has begun. False if there is none.
    fn read_next(&self) -> bool {
        let Some((nth, values)) = self.state.lock().begin() else { return false };
        self.read_part(nth, values);
        true
    }

    fn read_part(&self, nth: usize, values: Values) {
        // Who waits for it must not wait for a thread that is gone.
        let mut underway = UnderwayPart { reading: self, nth, values: Some(values), read: false };
        if let Some(values) = &mut underway.values {
            self.fill(nth, values);
        }
        underway.read = true;
    }

    fn fill(&self, nth: usize, values: &mut Values) {
        let begun_ns = self.clock.now_ns();
        values.read(&self.wanted[self.parts[nth].clone()], Some(&self.room));
        let spent_ns = self.clock.now_ns().saturating_sub(begun_ns);
        self.state.lock().value_ns.push(spent_ns / self.parts[nth].len().max(1) as u64);
    }

    /// Nobody wants the rest.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}

impl Work for Reading {
    /// Reads parts until each is begun.
    fn work(&self, go_on: &dyn Fn() -> bool) {
        let mut more = true;
        while more && go_on() && !self.given_up.load(Ordering::Relaxed) {
            more = self.read_next();
        }
    }
}

impl State {
    /// The next part that nobody has begun.
    fn begin(&mut self) -> Option<(usize, Values)> {
        while let Some(part) = self.parts.get_mut(self.begun) {
            let nth = self.begun;
            self.begun += 1;
            if let Part::Waiting(values) = part {
                let values = std::mem::take(values);
                *part = Part::Underway;
                return Some((nth, values));
            }
        }
        None
    }
}

/// A part that a thread is at work on.
struct UnderwayPart<'a> {
    reading: &'a Reading,
    nth: usize,
    values: Option<Values>,
    read: bool,
}

impl Drop for UnderwayPart<'_> {
    fn drop(&mut self) {
        let values = self.values.take().unwrap_or_default();
        let part = if self.read { Part::Read(values) } else { Part::Waiting(values) };
        self.reading.state.lock().parts[self.nth] = part;
        self.reading.read.notify_all();
    }
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reading({} values in {} parts)", self.wanted.len(), self.parts.len())
    }
}
