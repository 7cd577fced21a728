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

use crate::comparator::has_raised;
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

impl Way {
    /// The other one.
    #[inline]
    pub(crate) fn back(self) -> Way {
        match self {
            Way::Forward => Way::Backward,
            Way::Backward => Way::Forward,
        }
    }
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
    begins: Begins,
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
        let begins = Begins::any();
        Bounded { cursor, order, after, through, begins, outside: false }
    }

    /// The same, which fails where it comes upon a key that does not begin so.
    pub(crate) fn beginning(self, begins: Begins) -> Bounded {
        Bounded { begins, ..self }
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
        if self.cursor.valid() && !outside {
            self.begins.check(self.cursor.key())?;
        }
        self.outside = outside;
        Ok(())
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

/// How the keys of a range must begin. In an order of a user those that begin so need not be one.
pub(crate) struct Begins {
    order: KeyOrder,
    /// Empty in bytewise order, where they are a range.
    prefix: Vec<u8>,
}

impl Begins {
    /// In any way.
    pub(crate) fn any() -> Begins {
        Begins { order: KeyOrder::Bytewise, prefix: Vec::new() }
    }

    /// With this.
    pub(crate) fn with(order: &KeyOrder, prefix: Vec<u8>) -> Begins {
        if order.is_bytewise() {
            return Begins::any();
        }
        Begins { order: order.clone(), prefix }
    }

    /// Fails if the keys that begin so are no range, as far as one of them shows it.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(crate) fn check_range(&self) -> Result<()> {
        let Begins { order, prefix } = self;
        if prefix.is_empty() {
            return Ok(());
        }
        let one = [&prefix[..], &[0]].concat();
        let ends_behind = prefix_end(prefix).is_none_or(|end| order.less(&one, &end));
        if !order.less(&one, prefix) && ends_behind { Ok(()) } else { Err(self.no_range()) }
    }

    /// Fails at a key of the range that begins otherwise.
    ///
    /// # Errors
    /// `InvalidArgument`: that no range is what was asked for.
    #[inline]
    pub(crate) fn check(&self, key: &[u8]) -> Result<()> {
        if key.starts_with(&self.prefix) || self.are_same(key) {
            Ok(())
        } else {
            Err(self.no_range())
        }
    }

    /// An order that takes some bytes for the same takes them so here, too.
    fn are_same(&self, key: &[u8]) -> bool {
        let start = key.get(..self.prefix.len());
        start.is_some_and(|start| self.order.same(start, &self.prefix))
    }

    #[cold]
    fn no_range(&self) -> Error {
        let prefix = self.prefix.escape_ascii();
        Error::invalid(format!(
            "the keys that begin with b\"{prefix}\" are no range in the order of this comparator: give a start and an end"
        ))
    }
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
    /// What is to be told by the next step: an interrupt was told instead.
    failed: Option<Error>,
}

impl Steps {
    /// Before the first entry, or behind the last.
    pub(crate) fn new(walk: Walk, way: Way) -> Steps {
        let mut steps = Steps { walk, place: Place::Beyond(Way::Forward), failed: None };
        steps.rewind(way);
        steps
    }

    /// Back to where walking this way begins.
    pub(crate) fn rewind(&mut self, way: Way) {
        self.place = Place::Beyond(way.back());
        self.failed = None;
    }

    /// Just before the first entry at or behind this key.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.place = Place::Beyond(Way::Forward);
        self.failed = None;
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
            Place::Beyond(end) => (end == way && self.failed.is_none()).then_some(false),
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
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        // After an error there is nothing more that way.
        let moved = match std::mem::replace(&mut self.place, Place::Beyond(way)) {
            Place::Beyond(_) => self.walk.seek_to_end(way),
            Place::Past(_) => self.walk.step(way),
        };
        if let Err(error) = moved {
            self.failed = Some(error.clone()).filter(|_| has_raised());
            return Err(error);
        }
        let passed = self.arrive(way);
        if passed && has_raised() {
            // The call was interrupted and gives nothing: the entry is still to be passed.
            self.place = Place::Past(way.back());
        }
        Ok(passed)
    }

    #[inline]
    fn arrive(&mut self, way: Way) -> bool {
        let is_on = self.walk.entry().is_some();
        self.place = if is_on { Place::Past(way) } else { Place::Beyond(way) };
        is_on
    }
}
