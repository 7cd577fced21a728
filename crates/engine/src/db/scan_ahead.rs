//! Going ahead of a cursor, so that values which stand apart are read before they are asked for.
//!
//! A cursor that is moved forward value by value has its records walk on without it: what they pass
//! is noted in a window, whose values are read together, by several threads where that is worth it.
//! The next one is begun as soon as it may be as long as what is left of this one.
//!
//! ```text
//! keys:    given ... given | at ........ now ........ | ..... following ..... |
//!                            values are there or taken   values are being read  the records stand at its end
//! ```
//!
//! A window is as long as half of what was given before it, so that a short scan reads little in
//! vain, and ends where its values are more than memory should be taken for. What is read ahead of
//! a cursor is never newer than what it may see: its records have found the pointers.

use super::core::View;
use super::source::Source;
use crate::iter::VisibleCursor;
use crate::log::ValuePointer;
use crate::value_log::{CACHED_NS_MAX, Readers, Reading, Room, Values, Wanted, Work};
use esker_base::sync::CHECKED;
use esker_base::{Clock, Error, Result};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// So many values are read one by one before any is read ahead.
const DIRECT: usize = if CHECKED { 1 } else { 4 };

/// The most keys of a window.
const KEYS_MAX: usize = 256;

/// The most bytes that the values of a window take where they stand, and about those of its keys.
const STORED_BYTES_MAX: usize = 256 << 10;

/// The most that they take when they are expanded.
const EXPANDED_BYTES_MAX: u64 = 512 << 10;

/// How long a thread is at work on a part, about: long beside the time in which another one wakes
/// up.
const PART_NS: u64 = 40_000;

/// The most values of a part.
const PART_VALUES_MAX: usize = 32;

/// The most bytes of a part where they stand, but for its last value.
const PART_BYTES_MAX: usize = 64 << 10;

/// The memory of so many parts is kept for others.
const SPARE_MAX: usize = 32;

/// The most bytes that these take together: as much as the values of a window.
const SPARE_BYTES_MAX: usize = STORED_BYTES_MAX + EXPANDED_BYTES_MAX as usize;

/// What goes ahead of a cursor.
pub(super) struct Ahead {
    readers: Arc<Readers>,
    clock: Arc<dyn Clock>,
    dir: Arc<Path>,
    /// How many values were given one after the other.
    given: usize,
    /// The window that the cursor is in, and where.
    now: Window,
    at: usize,
    following: Option<Window>,
    /// What comes behind the last window.
    end: End,
    /// So many keys fitted into the memory that a window may take.
    fitting: usize,
    /// What a value takes to be read.
    value_ns: u64,
    /// Memory of windows that are gone.
    spare: Vec<Values>,
    /// The value that was read by itself.
    single: Values,
}

/// What comes behind the last window.
#[derive(Debug, Default)]
enum End {
    #[default]
    Unknown,
    Nothing,
    Failed(Error),
}

/// Keys that follow each other, and their values.
#[derive(Default)]
struct Window {
    /// Keys, and values that stand with them.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    reading: Option<Arc<Reading>>,
    /// The part whose values were taken last.
    part: Option<(usize, Values)>,
    /// Values for which there was no room.
    left: usize,
    /// Keys whose values stand apart.
    pointers: usize,
}

struct Entry {
    key: Range<usize>,
    value: Place,
}

/// Where a value is.
enum Place {
    Here(Range<usize>),
    /// Among those that are read: its part, and the number of it there.
    Apart {
        part: usize,
        nth: usize,
    },
    /// So long that it is read only when it is asked for.
    Long(Wanted),
}

/// Which value the cursor shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// That of the record it stands on, or none.
    Record,
    /// What that record points to.
    Single,
    /// One of the window, and its key.
    Window,
    /// A key of the window; its value was read by itself.
    WindowSingle,
}

impl Shown {
    /// True if the records are ahead of the cursor.
    #[inline]
    pub(super) fn is_ahead(self) -> bool {
        matches!(self, Shown::Window | Shown::WindowSingle)
    }
}

impl Window {
    /// Whether it was worth making one.
    fn is_worth_it(&self) -> bool {
        4 * self.pointers >= self.entries.len()
    }

    /// The value of an entry, if it stands apart.
    fn wanted(&self, entry: usize) -> Option<&Wanted> {
        match &self.entries[entry].value {
            Place::Here(_) => None,
            Place::Long(wanted) => Some(wanted),
            Place::Apart { part, nth } => {
                let reading = self.reading.as_ref()?;
                reading.wanted().get(reading.part(*part).start + nth)
            }
        }
    }

    fn give_up(&self) {
        if let Some(reading) = &self.reading {
            reading.give_up();
        }
    }
}

impl Ahead {
    pub(super) fn new(readers: Arc<Readers>, clock: Arc<dyn Clock>, dir: Arc<Path>) -> Ahead {
        Ahead {
            readers,
            clock,
            dir,
            given: 0,
            now: Window::default(),
            at: 0,
            following: None,
            end: End::Unknown,
            fitting: KEYS_MAX,
            value_ns: 0,
            spare: Vec::new(),
            single: Values::default(),
        }
    }

    /// The cursor goes somewhere else.
    pub(super) fn leave(&mut self) {
        self.given = 0;
        self.end = End::Unknown;
        let now = std::mem::take(&mut self.now);
        for window in [Some(now), self.following.take()].into_iter().flatten() {
            window.give_up();
            self.withdraw(&window);
        }
    }

    /// Threads that had no time for a window until now need not come to it.
    fn withdraw(&self, window: &Window) {
        if let Some(reading) = &window.reading
            && Arc::strong_count(reading) > 1
        {
            let work: Arc<dyn Work> = reading.clone();
            self.readers.withdraw(&work);
        }
    }

    /// Reads the value that a record points to.
    pub(super) fn read_single(&mut self, view: &View, pointer: &[u8]) -> Result<()> {
        let wanted = self.follow(view, pointer)?;
        self.given += 1;
        // The last one before others are read ahead tells how long they take.
        let timed = self.given == DIRECT;
        let begun_ns = if timed { self.clock.now_ns() } else { 0 };
        self.single.read(std::slice::from_ref(&wanted), None);
        if timed {
            self.value_ns = self.clock.now_ns().saturating_sub(begun_ns);
        }
        self.single.get(0).map(|_| ())
    }

    fn follow(&self, view: &View, pointer: &[u8]) -> Result<Wanted> {
        let (file, to): (_, ValuePointer) = view.follow_pointer(&self.dir, pointer)?;
        Ok(Wanted { file, to })
    }

    /// The value that was read by itself.
    #[inline]
    pub(super) fn single(&self) -> &[u8] {
        self.single.get(0).ok().flatten().unwrap_or(&[])
    }

    /// The key of the window on which the cursor stands.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        &self.now.bytes[self.now.entries[self.at].key.clone()]
    }

    /// Its value.
    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        match &self.now.entries[self.at].value {
            Place::Here(range) => &self.now.bytes[range.clone()],
            Place::Apart { nth, .. } => {
                let values = self.now.part.as_ref().map(|(_, values)| values);
                values.and_then(|values| values.get(*nth).ok().flatten()).unwrap_or(&[])
            }
            Place::Long(_) => &[],
        }
    }

    /// Moves to the next key, into a window or on in it; `None` if the records must go on from
    /// where they stand: that is not worth it.
    ///
    /// # Errors
    /// Of the records, or of a value, once its key is reached. Nothing is ahead of the cursor then.
    pub(super) fn next(
        &mut self,
        records: &mut VisibleCursor<Source>,
        view: &View,
        shown: Shown,
    ) -> Result<Option<Shown>> {
        let ahead = shown.is_ahead();
        if !ahead && self.given < DIRECT {
            return Ok(None);
        }
        if ahead && self.at + 1 < self.now.entries.len() {
            self.at += 1;
        } else {
            let worth_it = !ahead || self.now.is_worth_it();
            let following = match self.following.take() {
                None if worth_it => self.begin(records, view, 0),
                following => following,
            };
            let Some(following) = following else { return self.end(records) };
            let gone = std::mem::replace(&mut self.now, following);
            self.learn(gone);
            self.at = 0;
        }
        let shown = self.show(records, view);
        if shown.is_err() {
            records.leave();
            self.leave();
        }
        shown.map(Some)
    }

    /// Behind the last window.
    fn end(&mut self, records: &mut VisibleCursor<Source>) -> Result<Option<Shown>> {
        let end = std::mem::take(&mut self.end);
        self.leave();
        match end {
            End::Unknown => Ok(None),
            End::Nothing => {
                records.leave();
                Ok(Some(Shown::Record))
            }
            End::Failed(error) => {
                records.leave();
                Err(error)
            }
        }
    }

    /// Takes the memory of a window, and what can be learned from it.
    fn learn(&mut self, gone: Window) {
        self.withdraw(&gone);
        self.keep(gone.part);
        self.fitting = match gone.left {
            0 => (2 * self.fitting).min(KEYS_MAX),
            left => (gone.entries.len() - left).max(1),
        };
        if let Some(value_ns) = gone.reading.as_ref().and_then(|reading| reading.value_ns()) {
            self.value_ns = (self.value_ns + value_ns) / 2;
        }
    }

    /// Keeps the memory of a part that is gone, for another one.
    fn keep(&mut self, part: Option<(usize, Values)>) {
        if let Some((_, values)) = part
            && self.spare.len() < SPARE_MAX
            && self.spare_bytes() + values.memory_bytes() <= SPARE_BYTES_MAX
        {
            self.spare.push(values);
        }
    }

    fn spare_bytes(&self) -> usize {
        self.spare.iter().map(Values::memory_bytes).sum()
    }

    /// Shows the key at which the cursor has come, and begins the next window in time.
    fn show(&mut self, records: &mut VisibleCursor<Source>, view: &View) -> Result<Shown> {
        self.given += 1;
        let rest = self.now.entries.len() - self.at;
        let in_time = rest >= DIRECT && self.given / 2 >= 2 * rest;
        if in_time && self.following.is_none() && self.now.is_worth_it() {
            self.following = self.begin(records, view, rest);
        }
        let place = &self.now.entries[self.at].value;
        match place {
            Place::Here(_) => return Ok(Shown::Window),
            Place::Long(_) => {}
            &Place::Apart { part, nth } => match self.take(part).get(nth) {
                Ok(Some(_)) => return Ok(Shown::Window),
                Ok(None) => self.now.left += 1,
                // What failed ahead of time may not fail now.
                Err(_) => {}
            },
        }
        if let Some(wanted) = self.now.wanted(self.at) {
            self.single.read(std::slice::from_ref(wanted), None);
        }
        self.single.get(0)?;
        Ok(Shown::WindowSingle)
    }

    /// The values of a part of the window.
    fn take(&mut self, part: usize) -> &Values {
        let gone = self.now.part.take_if(|(taken, _)| *taken != part);
        self.keep(gone);
        let (reading, following) = (self.now.reading.as_deref(), self.following.as_ref());
        let following = following.and_then(|window| window.reading.as_deref());
        let read = || reading.map(|reading| reading.take(part, following)).unwrap_or_default();
        &self.now.part.get_or_insert_with(|| (part, read())).1
    }

    /// Walks the records on, makes a window of them, and has the values read that they point to.
    /// `None` if there is nothing more. Of the window before it, `rest` keys are not given yet.
    fn begin(
        &mut self,
        records: &mut VisibleCursor<Source>,
        view: &View,
        rest: usize,
    ) -> Option<Window> {
        let keys = (self.given / 2).saturating_sub(rest).clamp(1, self.fitting);
        let mut noted = Noted::default();
        while matches!(self.end, End::Unknown)
            && noted.entries.len() < keys
            && noted.bytes.len() + noted.stored_bytes < STORED_BYTES_MAX
        {
            match self.note(records, view, &mut noted) {
                Ok(true) => {}
                Ok(false) => self.end = End::Nothing,
                Err(error) => self.end = End::Failed(error),
            }
        }
        noted.end_part();
        let Noted { bytes, entries, wanted, parts, pointers, .. } = noted;
        if entries.is_empty() {
            return None;
        }
        let window = Window { bytes, entries, pointers, ..Window::default() };
        if wanted.is_empty() {
            return Some(window);
        }
        let count = wanted.len() as u64;
        let room = Room::new(EXPANDED_BYTES_MAX);
        let reading = Reading::new(wanted, parts, &mut self.spare, room, self.clock.clone());
        let reading = Arc::new(reading);
        // Whoever comes at once reads the first part itself.
        let parts = reading.parts() - usize::from(rest == 0);
        if CHECKED || self.value_ns > CACHED_NS_MAX {
            self.readers.offer(reading.clone(), parts);
        } else if count * self.value_ns > PART_NS / 2 {
            self.readers.offer(reading.clone(), parts.min(self.readers.processors_beside()));
        }
        Some(Window { reading: Some(reading), ..window })
    }

    /// Walks the records on by one. False if there is none.
    fn note(
        &self,
        records: &mut VisibleCursor<Source>,
        view: &View,
        noted: &mut Noted,
    ) -> Result<bool> {
        records.next()?;
        if !records.valid() {
            return Ok(false);
        }
        let key = noted.put(records.key());
        let value = if records.is_pointer() {
            let wanted = self.follow(view, records.value())?;
            noted.pointers += 1;
            match wanted.to.stored_bytes as usize {
                long if long > STORED_BYTES_MAX => Place::Long(wanted),
                _ => noted.want(wanted, self.part_values()),
            }
        } else {
            Place::Here(noted.put(records.value()))
        };
        noted.entries.push(Entry { key, value });
        Ok(true)
    }

    /// So many values make a part.
    fn part_values(&self) -> usize {
        (PART_NS / self.value_ns.max(1)).clamp(1, PART_VALUES_MAX as u64) as usize
    }
}

/// A window that is being made.
#[derive(Default)]
struct Noted {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    wanted: Vec<Wanted>,
    /// The last one has no end yet.
    parts: Vec<Range<usize>>,
    pointers: usize,
    stored_bytes: usize,
    /// Of the last part.
    part_bytes: usize,
    part_pieces: usize,
}

impl Noted {
    fn put(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Has a value read, in a part of so many values at the most. What follows another value
    /// closely is read with it, and does not count.
    fn want(&mut self, wanted: Wanted, part_values: usize) -> Place {
        let follows = self.wanted.last().is_some_and(|last| wanted.follows(last));
        let full = self.part_bytes >= PART_BYTES_MAX || !follows && self.part_pieces >= part_values;
        if self.parts.is_empty() || full {
            self.end_part();
            self.parts.push(self.wanted.len()..self.wanted.len());
            (self.part_bytes, self.part_pieces) = (0, 0);
        }
        self.part_pieces += usize::from(!follows);
        self.part_bytes += wanted.to.stored_bytes as usize;
        self.stored_bytes += wanted.to.stored_bytes as usize;
        let part = self.parts.len() - 1;
        let nth = self.wanted.len() - self.parts[part].start;
        self.wanted.push(wanted);
        Place::Apart { part, nth }
    }

    fn end_part(&mut self) {
        if let Some(last) = self.parts.last_mut() {
            last.end = self.wanted.len();
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;
    use crate::db::{Db, Setup};
    use crate::options::{KeyspaceOptions, Options};
    use crate::value_log::READERS_MAX;
    use esker_base::Env;
    use esker_base::env::SystemClock;
    use esker_base::sync::{Condvar, Mutex};
    use esker_base::vfs::strict::StrictVfs;
    use esker_base::vfs::throttled::{DiskModel, ThrottledVfs};
    use std::sync::Arc;

    /// Keeps whoever works on it until it is opened.
    #[derive(Default)]
    struct Gate {
        open: Mutex<bool>,
        opened: Condvar,
    }

    impl Work for Gate {
        fn work(&self, _: &dyn Fn() -> bool) {
            let mut open = self.open.lock();
            while !*open {
                self.opened.wait(&mut open);
            }
        }
    }

    /// Parts may be long or short, and what is kept of long ones would add up.
    #[test]
    fn no_more_memory_is_kept_for_others_than_a_window_takes() {
        let db = Db::open_with(
            "/db",
            Options::default(),
            Setup { env: Env::with_vfs(Arc::new(StrictVfs::new()), 1), ..Setup::default() },
        );
        let core = db.expect("open").core().clone();
        let mut ahead = Ahead::new(core.readers.clone(), core.env.clock.clone(), core.dir.clone());
        (0..SPARE_MAX).for_each(|part| ahead.keep(Some((part, Values::with_room(200 << 10)))));
        let long = ahead.spare.len();
        assert!(long >= 3, "{long} that are long are kept");
        assert!(ahead.spare_bytes() <= SPARE_BYTES_MAX, "{} bytes", ahead.spare_bytes());
        ahead.spare.clear();
        (0..2 * SPARE_MAX).for_each(|part| ahead.keep(Some((part, Values::with_room(1 << 10)))));
        assert_eq!(ahead.spare.len(), SPARE_MAX, "short ones");
    }

    /// While the threads that could help are busy with something else, offers do not pile up.
    #[test]
    fn what_a_cursor_has_read_itself_is_not_kept_for_others() {
        let slow = DiskModel { bytes_per_second: 10_000_000, seek_ns: 0 };
        let clock = Arc::new(SystemClock::new());
        let disk = ThrottledVfs::new(Arc::new(StrictVfs::new()), clock, slow);
        let setup = Setup { env: Env::with_vfs(Arc::new(disk), 1), ..Setup::default() };
        let keyspace =
            KeyspaceOptions { value_log_bytes_min: Some(100), ..KeyspaceOptions::default() };
        let options = Options { default_keyspace: keyspace, ..Options::default() };
        let db = Db::open_with("/db", options, setup).expect("open");
        for number in 0..600u32 {
            db.put(&number.to_be_bytes(), &[number as u8; 300]).expect("put");
        }
        db.flush().expect("flush");
        let (gate, readers) = (Arc::new(Gate::default()), db.core().readers.clone());
        readers.offer(gate.clone(), READERS_MAX);
        assert_eq!(db.iter().expect("a cursor").count(), 600);
        let waiting = readers.waiting();
        *gate.open.lock() = true;
        gate.opened.notify_all();
        // The gate itself may be one.
        assert!(waiting <= 1, "{waiting}");
        db.close().expect("close");
    }
}
