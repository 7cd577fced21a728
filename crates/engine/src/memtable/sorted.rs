//! Order over an arena, made when it is asked for.
//!
//! Records are kept in *pieces*: arrays of names sorted by internal key. Asking for order sorts the
//! records that came since the last time into a new piece, and merges pieces so that each is at
//! least four times as large as the one after it. A record is therefore merged a logarithmic
//! number of times, a scan merges few pieces, and a memtable that nobody scans is sorted once.
//!
//! In bytewise order a piece also holds, beside each name, eight bytes of the key (after the prefix
//! that all keys of the piece share) as an integer, so that most comparisons touch no record. Where
//! many records have the same, as those of one table or tenant in a store of several, these are
//! sorted by the eight bytes after what they share, and so on.

use super::arena::{Arena, EntryRef, Position};
use esker_base::key::{prefix_behind, prefix_u64, shared_prefix_len};
use esker_base::pages::Pages;
use esker_base::sync::Mutex;
use esker_base::{KeyOrder, Trailer};
use std::cmp::Ordering;
use std::sync::Arc;

/// A piece is merged with the one after it when it is not this many times larger.
const MERGE_RATIO: usize = 4;

/// No more records than these are sorted by their keys, rather than by integers made of them.
const FEW: usize = 12;
/// As often as this, further bytes are made an integer.
const ROUNDS_MAX: u32 = 8;

#[derive(Debug, Default)]
pub(super) struct Sorted {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Everything before this is in `pieces`.
    until: Position,
    pieces: Arc<Vec<Arc<Piece>>>,
}

/// Records in order.
#[derive(Debug)]
pub(super) struct Piece {
    /// Length of the prefix shared by all keys; 0 in custom orders.
    shared: usize,
    /// Key bytes after the shared prefix; all 0 in custom orders.
    entries: Pages<(u64, u32)>,
}

impl Sorted {
    pub(super) fn new() -> Sorted {
        Sorted::default()
    }

    /// Pieces that together hold every record appended before the call.
    pub(super) fn pieces(&self, order: &KeyOrder, arena: &Arena) -> Arc<Vec<Arc<Piece>>> {
        let mut state = self.state.lock();
        if !arena.ends_at(state.until) {
            let mut fresh = Vec::new();
            let until = arena.walk(state.until, |entry| fresh.push(entry.0));
            let mut pieces = state.pieces.to_vec();
            while let Some(last) = pieces.last()
                && last.entries.len() < MERGE_RATIO * fresh.len()
            {
                fresh.extend(last.entries.iter().map(|e| e.1));
                pieces.pop();
            }
            // A user's order may panic: what it did not sort must not count as sorted.
            pieces.push(Arc::new(Piece::build(order, arena, &fresh)));
            state.until = until;
            state.pieces = Arc::new(pieces);
        }
        state.pieces.clone()
    }

    /// One piece with every record appended before the call; it takes longer if there are not as
    /// many as `expected`.
    pub(super) fn whole(&self, order: &KeyOrder, arena: &Arena, expected: usize) -> Arc<Piece> {
        let mut state = self.state.lock();
        if state.pieces.len() != 1 || !arena.ends_at(state.until) {
            let mut all = Pages::<u32>::huge(expected);
            let mut until;
            loop {
                let mut count = 0;
                until = arena.walk(Position::default(), |entry| {
                    if let Some(slot) = all.get_mut(count) {
                        *slot = entry.0;
                    }
                    count += 1;
                });
                if count == all.len() {
                    break;
                }
                all = Pages::huge(count);
            }
            let piece = Arc::new(Piece::build(order, arena, &all));
            state.until = until;
            state.pieces = Arc::new(vec![piece]);
        }
        state.pieces[0].clone()
    }
}

impl Piece {
    fn build(order: &KeyOrder, arena: &Arena, names: &[u32]) -> Piece {
        let key = |name: u32| arena.key(EntryRef(name));
        let mut entries = Pages::<(u64, u32)>::huge(names.len());
        if !order.is_bytewise() {
            entries.iter_mut().zip(names).for_each(|(entry, &name)| entry.1 = name);
            entries.sort_unstable_by(|a, b| {
                let trailer = |name| arena.trailer(EntryRef(name));
                order.compare_internal((key(a.1), trailer(a.1)), (key(b.1), trailer(b.1)))
            });
            return Piece { shared: 0, entries };
        }
        let first = names.first().map_or(&[][..], |&name| key(name));
        let shared = names
            .iter()
            .fold(first.len(), |shared, &name| shared_prefix_len(&first[..shared], key(name)));
        entries.iter_mut().zip(names).for_each(|(entry, &name)| entry.1 = name);
        sort(arena, &mut entries, shared, ROUNDS_MAX);
        Piece { shared, entries }
    }

    /// Number of records.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(super) fn entry(&self, at: usize) -> Option<EntryRef> {
        self.entries.get(at).map(|e| EntryRef(e.1))
    }

    /// Index of the first record at or after `(key, trailer)`.
    pub(super) fn lower_bound(
        &self,
        order: &KeyOrder,
        arena: &Arena,
        key: &[u8],
        trailer: Trailer,
    ) -> usize {
        let before = |entry: EntryRef| {
            order.compare_internal((arena.key(entry), arena.trailer(entry)), (key, trailer)).is_lt()
        };
        let Some(first) = self.entry(0) else { return 0 };
        if !order.is_bytewise() {
            return self.entries.partition_point(|e| before(EntryRef(e.1)));
        }
        let wanted = match prefix_behind(key, &arena.key(first)[..self.shared]) {
            Ok(wanted) => wanted,
            Err(side) => return if side.is_lt() { 0 } else { self.entries.len() },
        };
        self.entries.partition_point(|e| match e.0.cmp(&wanted) {
            Ordering::Equal => before(EntryRef(e.1)),
            unequal => unequal.is_lt(),
        })
    }
}

/// Sorts records by internal key, bytewise. All keys share `shared` bytes; the integers become the
/// eight bytes after these.
fn sort(arena: &Arena, entries: &mut [(u64, u32)], shared: usize, rounds: u32) {
    let key = |name: u32| &arena.key(EntryRef(name))[shared..];
    for entry in &mut *entries {
        entry.0 = prefix_u64(key(entry.1));
    }
    entries.sort_unstable_by_key(|entry| entry.0);
    for same in entries.chunk_by_mut(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
        if same.len() > FEW && rounds > 0 {
            let first = key(same[0].1);
            let more =
                |more: usize, entry: &(u64, u32)| shared_prefix_len(&first[..more], key(entry.1));
            let more = same[1..].iter().fold(first.len(), more);
            // Keys that end before have the integer of such as go on with zeros.
            if more >= size_of::<u64>() {
                let integer = same[0].0;
                sort(arena, same, shared + more, rounds - 1);
                same.iter_mut().for_each(|entry| entry.0 = integer);
                continue;
            }
        }
        same.sort_unstable_by(|a, b| compare(arena, EntryRef(a.1), EntryRef(b.1)));
    }
}

fn compare(arena: &Arena, a: EntryRef, b: EntryRef) -> Ordering {
    arena.key(a).cmp(arena.key(b)).then_with(|| arena.trailer(b).cmp(&arena.trailer(a)))
}
