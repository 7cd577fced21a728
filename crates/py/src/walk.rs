//! Walking the keys of a range in both directions, without leaving the interpreter at every step.
//!
//! ```text
//! step -> is the next entry in the window? yes: no engine, no lock of its, the interpreter is kept
//!                                          no: without the interpreter the cursor moves on, and the window is filled
//! ```
//!
//! A window is a stretch of neighbouring entries in the order in which the cursor walked over them:
//! copies of all but the last, on which the cursor itself stands. It grows from one entry with
//! every filling, so that who asks for few entries has few read, and ends early where values are
//! large, so that they are not copied. A cursor sees one moment: reading ahead shows nothing else
//! than reading later.

use esker::base::key::prefix_end;
use esker::{Cursor, Error, KeyOrder, Result};

/// The most entries of a window.
const ENTRIES_MAX: usize = 256;

/// Bytes of entries after which a window ends.
const WINDOW_BYTES: usize = 64 << 10;

/// A value of so many bytes and more ends a window: it is not copied.
const VALUE_BYTES_MAX: usize = 8 << 10;

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Forward,
    Backward,
}

/// A cursor and the bounds that it cannot keep by itself: in an order of a user, no key is just
/// behind another.
pub(crate) struct Bounded {
    cursor: Cursor,
    order: KeyOrder,
    /// Keys must be behind it; the cursor starts at it.
    after: Option<Vec<u8>>,
    /// Keys must not be behind it; the cursor has no end then.
    through: Option<Vec<u8>>,
    /// Keys must begin so; empty in bytewise order, where those that do are a range.
    begins: Vec<u8>,
    /// The cursor stands on a key beyond these, or somewhere: a comparator failed while it moved.
    outside: bool,
}

impl Bounded {
    /// A cursor that keeps its bounds by itself.
    pub(crate) fn new(cursor: Cursor) -> Bounded {
        Bounded::within(cursor, KeyOrder::Bytewise, None, None)
    }

    /// A cursor that does not: `after` is its start, which is left out, and `through` its end,
    /// which is not.
    pub(crate) fn within(
        cursor: Cursor,
        order: KeyOrder,
        after: Option<Vec<u8>>,
        through: Option<Vec<u8>>,
    ) -> Bounded {
        Bounded { cursor, order, after, through, begins: Vec::new(), outside: false }
    }

    /// The same, which fails where it comes upon a key that does not begin so.
    pub(crate) fn beginning(mut self, prefix: Vec<u8>) -> Bounded {
        if !self.order.is_bytewise() {
            self.begins = prefix;
        }
        self
    }

    #[inline]
    fn valid(&self) -> bool {
        self.cursor.valid() && !self.outside
    }

    fn is_after(&self) -> bool {
        self.after.as_ref().is_some_and(|after| self.order.same(after, self.cursor.key()))
    }

    /// Moves the cursor; until it has arrived it stands on nothing.
    #[inline]
    fn send(&mut self, to: impl FnOnce(&mut Bounded) -> Result<()>) -> Result<()> {
        self.outside = true;
        to(self)?;
        let mut outside = false;
        if self.after.is_some() || self.through.is_some() {
            let beyond = |end: &Vec<u8>| self.order.less(end, self.cursor.key());
            outside = self.cursor.valid()
                && (self.is_after() || self.through.as_ref().is_some_and(beyond));
        }
        if !self.begins.is_empty() && self.cursor.valid() && !outside {
            self.check_beginning()?;
        }
        self.outside = outside;
        Ok(())
    }

    fn check_beginning(&self) -> Result<()> {
        let (key, begins) = (self.cursor.key(), &self.begins);
        // An order that takes some bytes for the same takes them so here, too.
        let same = key.get(..begins.len()).is_some_and(|start| self.order.same(start, begins));
        if key.starts_with(begins) || same { Ok(()) } else { Err(no_range(begins)) }
    }

    fn skip_start(&mut self) -> Result<()> {
        if self.cursor.valid() && self.is_after() { self.cursor.next() } else { Ok(()) }
    }

    #[inline]
    fn go(&mut self, way: Way) -> Result<()> {
        self.send(|bounded| match way {
            Way::Forward => bounded.cursor.next(),
            Way::Backward => bounded.cursor.prev(),
        })
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.send(|bounded| {
            bounded.cursor.seek(key)?;
            bounded.skip_start()
        })
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.send(|bounded| bounded.cursor.seek_before(key))
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.send(|bounded| {
            bounded.cursor.seek_to_first()?;
            bounded.skip_start()
        })
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.send(|bounded| {
            let Bounded { cursor, order, through, .. } = bounded;
            let Some(through) = through else { return cursor.seek_to_last() };
            cursor.seek(through)?;
            if !cursor.valid() {
                cursor.seek_to_last()
            } else if order.less(through, cursor.key()) {
                cursor.prev()
            } else {
                Ok(())
            }
        })
    }
}

/// Fails if the keys that begin with `prefix` are no range of an order, as far as one of them shows
/// it.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn check_prefix(order: &KeyOrder, prefix: &[u8]) -> Result<()> {
    if order.is_bytewise() || prefix.is_empty() {
        return Ok(());
    }
    let one = [prefix, &[0]].concat();
    let is_inside =
        !order.less(&one, prefix) && prefix_end(prefix).is_none_or(|end| order.less(&one, &end));
    if is_inside { Ok(()) } else { Err(no_range(prefix)) }
}

fn no_range(prefix: &[u8]) -> Error {
    let prefix = prefix.escape_ascii();
    Error::invalid(format!(
        "the keys that begin with b\"{prefix}\" are no range in the order of this comparator: give a start and an end"
    ))
}

/// An entry of the window, in its arena.
#[derive(Clone, Copy)]
struct Span {
    start: usize,
    key_bytes: usize,
    value_bytes: usize,
}

/// A cursor that reads ahead. It stands on a key or on nothing.
pub(crate) struct Walk {
    cursor: Bounded,
    /// How the window was filled.
    way: Way,
    /// The window but for its last entry.
    spans: Vec<Span>,
    arena: Vec<u8>,
    /// Which entry of the window it stands on; the last is the cursor's.
    at: usize,
    /// Entries of the next window.
    budget: usize,
    /// What went wrong behind the window.
    failed: Option<Error>,
}

impl Walk {
    /// Stands on nothing yet.
    pub(crate) fn new(cursor: Bounded) -> Walk {
        let way = Way::Forward;
        Walk { cursor, way, spans: Vec::new(), arena: Vec::new(), at: 0, budget: 1, failed: None }
    }

    /// The entry that it stands on.
    #[inline]
    pub(crate) fn entry(&self) -> Option<(&[u8], &[u8])> {
        if let Some(span) = self.spans.get(self.at) {
            let bytes = &self.arena[span.start..][..span.key_bytes + span.value_bytes];
            return Some(bytes.split_at(span.key_bytes));
        }
        self.cursor.valid().then(|| (self.cursor.cursor.key(), self.cursor.cursor.value()))
    }

    fn forget(&mut self) {
        self.spans.clear();
        self.arena.clear();
        self.at = 0;
        self.failed = None;
    }

    /// Begins anew where the cursor is sent.
    fn begin(&mut self, way: Way, send: impl FnOnce(&mut Bounded) -> Result<()>) -> Result<()> {
        self.forget();
        self.way = way;
        self.budget = 1;
        send(&mut self.cursor)
    }

    /// Moves to the first key, or to the last.
    pub(crate) fn seek_to_end(&mut self, way: Way) -> Result<()> {
        self.begin(way, |cursor| match way {
            Way::Forward => cursor.seek_to_first(),
            Way::Backward => cursor.seek_to_last(),
        })
    }

    /// Moves to the first key at or behind this one.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.begin(Way::Forward, |cursor| cursor.seek(key))
    }

    /// Moves by one entry within the window; false if that needs the engine. On nothing it stays
    /// there.
    #[inline]
    pub(crate) fn step_inside(&mut self, way: Way) -> bool {
        let copies = self.spans.len();
        if way == self.way {
            // Behind the last copy stand the cursor, the end of the range, or what went wrong.
            let moves = self.at + 1 < copies || (self.at < copies && self.failed.is_none());
            self.at += usize::from(moves);
            moves || self.entry().is_none()
        } else {
            let is_on = self.at < copies || self.cursor.valid();
            let moves = is_on && self.at > 0;
            self.at -= usize::from(moves);
            moves || !is_on
        }
    }

    /// Moves by one entry, and fills the window. Needs an entry, and that there is no further step
    /// inside.
    pub(crate) fn step(&mut self, way: Way) -> Result<()> {
        if way == self.way {
            if let Some(error) = self.failed.take() {
                self.forget();
                return Err(error);
            }
            self.forget();
            self.cursor.go(way)?;
        } else {
            self.turn(way)?;
        }
        self.fill()
    }

    /// Goes from the first entry of the window to its neighbour on the other side.
    fn turn(&mut self, way: Way) -> Result<()> {
        let first = self.spans.first();
        let key = first.map(|span| self.arena[span.start..][..span.key_bytes].to_vec());
        self.begin(way, |cursor| match (key, way) {
            (None, way) => cursor.go(way),
            (Some(key), Way::Backward) => cursor.seek_before(&key),
            (Some(key), Way::Forward) => {
                cursor.seek(&key)?;
                cursor.go(Way::Forward)
            }
        })
    }

    fn fill(&mut self) -> Result<()> {
        let mut left = self.budget;
        self.budget = (self.budget * 2).min(ENTRIES_MAX);
        while left > 1 && self.arena.len() < WINDOW_BYTES && self.cursor.valid() {
            let (key, value) = (self.cursor.cursor.key(), self.cursor.cursor.value());
            if value.len() >= VALUE_BYTES_MAX {
                break;
            }
            let (key_bytes, value_bytes) = (key.len(), value.len());
            self.spans.push(Span { start: self.arena.len(), key_bytes, value_bytes });
            self.arena.extend_from_slice(key);
            self.arena.extend_from_slice(value);
            left -= 1;
            if let Err(error) = self.cursor.go(self.way) {
                // It is told to who gets there.
                self.failed = Some(error);
                break;
            }
        }
        Ok(())
    }
}

/// Where a [`Steps`] is, between two entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Beyond the last entry of this way.
    Beyond(Way),
    /// The walk stands on an entry that was passed in this way: the place is just behind it.
    Past(Way),
}

/// A place between the entries of a range, from which the next one on either side can be taken.
///
/// Taking one forward and then one backward gives the same entry twice, as iterators of plyvel do.
pub(crate) struct Steps {
    walk: Walk,
    place: Place,
}

impl Steps {
    /// Before the first entry, or behind the last.
    pub(crate) fn new(walk: Walk, way: Way) -> Steps {
        let mut steps = Steps { walk, place: Place::Beyond(Way::Forward) };
        steps.rewind(way);
        steps
    }

    /// Back to where walking this way begins.
    pub(crate) fn rewind(&mut self, way: Way) {
        self.place = Place::Beyond(match way {
            Way::Forward => Way::Backward,
            Way::Backward => Way::Forward,
        });
    }

    /// Just before the first entry at or behind this key.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.place = Place::Beyond(Way::Forward);
        self.walk.seek(key)?;
        if self.walk.entry().is_some() {
            self.place = Place::Past(Way::Backward);
        }
        Ok(())
    }

    /// The entry that was passed last.
    #[inline]
    pub(crate) fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.walk.entry()
    }

    /// Passes an entry: true if there was one. `None` if that needs the engine.
    #[inline]
    pub(crate) fn pass_inside(&mut self, way: Way) -> Option<bool> {
        match self.place {
            Place::Beyond(end) => (end == way).then_some(false),
            Place::Past(last) if last != way => {
                self.place = Place::Past(way);
                Some(true)
            }
            Place::Past(_) => self.walk.step_inside(way).then(|| self.arrive(way)),
        }
    }

    /// The same with the engine's help.
    pub(crate) fn pass(&mut self, way: Way) -> Result<bool> {
        if let Some(passed) = self.pass_inside(way) {
            return Ok(passed);
        }
        // After an error there is nothing more that way.
        match std::mem::replace(&mut self.place, Place::Beyond(way)) {
            Place::Beyond(_) => self.walk.seek_to_end(way)?,
            Place::Past(_) => self.walk.step(way)?,
        }
        Ok(self.arrive(way))
    }

    #[inline]
    fn arrive(&mut self, way: Way) -> bool {
        let is_on = self.walk.entry().is_some();
        self.place = if is_on { Place::Past(way) } else { Place::Beyond(way) };
        is_on
    }
}
