//! What an index is made of: beginnings of keys, and sets of runs.

use esker_base::coding::{put_varint, take_bytes, take_varint};
use std::cmp::Ordering;

/// A set of runs, each by its number in one index.
pub(crate) type Slots = u128;

/// The set of one run.
#[inline]
pub(crate) fn single_slot(slot: usize) -> Slots {
    1 << slot
}

/// The keys that begin with `bytes`, or only the key `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix<'a> {
    pub(super) bytes: &'a [u8],
    /// Only this key.
    pub(super) exact: bool,
}

impl Prefix<'_> {
    /// True if `key` is one of these keys.
    #[inline]
    pub(super) fn covers(self, key: &[u8]) -> bool {
        if self.exact { key == self.bytes } else { key.starts_with(self.bytes) }
    }

    /// True if every key of `other` is one of these keys.
    #[inline]
    pub(super) fn contains(self, other: Prefix<'_>) -> bool {
        self.covers(other.bytes) && (other.exact || !self.exact)
    }

    /// In the order of their first keys; of two that begin with the same key the wider one comes
    /// first.
    #[inline]
    pub(super) fn compare(self, other: Prefix<'_>) -> Ordering {
        self.bytes.cmp(other.bytes).then(self.exact.cmp(&other.exact))
    }
}

/// A prefix that owns its bytes, and is used over and over.
#[derive(Debug, Default)]
pub(super) struct PrefixBuf {
    pub(super) bytes: Vec<u8>,
    pub(super) exact: bool,
}

impl PrefixBuf {
    pub(super) fn set(&mut self, prefix: Prefix<'_>) {
        self.bytes.clear();
        self.bytes.extend_from_slice(prefix.bytes);
        self.exact = prefix.exact;
    }

    #[inline]
    pub(super) fn get(&self) -> Prefix<'_> {
        Prefix { bytes: &self.bytes, exact: self.exact }
    }

    /// A beginning that differs from keys with which it shares `shared` bytes, by `more` bytes than
    /// it must.
    pub(super) fn shortened(&self, shared: usize, more: usize) -> Prefix<'_> {
        shorten(self.get(), shared + 1 + more)
    }
}

/// The first `len` bytes, if that is less than all.
pub(super) fn shorten(prefix: Prefix<'_>, len: usize) -> Prefix<'_> {
    match prefix.bytes.get(..len) {
        Some(bytes) if len < prefix.bytes.len() => Prefix { bytes, exact: false },
        _ => prefix,
    }
}

/// Header of a coded prefix: bits 0 to 2 the bytes that follow, bit 3 exact, bits 4 to 7 the shared
/// bytes.
const REST_LONG: usize = 7;
const EXACT: u8 = 1 << 3;
const SHARED_SHIFT: u32 = 4;
const SHARED_LONG: usize = 15;

/// Appends a prefix of which `shared` bytes stand in the one before.
pub(super) fn put_coded(out: &mut Vec<u8>, shared: usize, prefix: Prefix<'_>) {
    let rest = &prefix.bytes[shared..];
    let exact = if prefix.exact { EXACT } else { 0 };
    let header = rest.len().min(REST_LONG) | shared.min(SHARED_LONG) << SHARED_SHIFT;
    out.push(header as u8 | exact);
    if shared >= SHARED_LONG {
        put_varint(out, shared as u64);
    }
    if rest.len() >= REST_LONG {
        put_varint(out, rest.len() as u64);
    }
    out.extend_from_slice(rest);
}

/// A prefix as it stands coded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coded<'a> {
    pub(super) shared: usize,
    pub(super) rest: &'a [u8],
    pub(super) exact: bool,
}

impl<'a> Coded<'a> {
    #[inline]
    pub(super) fn take(input: &mut &'a [u8]) -> Option<Coded<'a>> {
        let (&header, after) = input.split_first()?;
        *input = after;
        let mut shared = usize::from(header >> SHARED_SHIFT);
        let mut len = usize::from(header) & REST_LONG;
        if shared == SHARED_LONG {
            shared = usize::try_from(take_varint(input)?).ok()?;
        }
        if len == REST_LONG {
            len = usize::try_from(take_varint(input)?).ok()?;
        }
        let rest = take_bytes(input, len)?;
        Some(Coded { shared, rest, exact: header & EXACT != 0 })
    }

    /// Makes `before`, the prefix that stands before this one, into this one. False if it is too
    /// short.
    #[inline]
    pub(super) fn follow(self, before: &mut PrefixBuf) -> bool {
        let fits = self.shared <= before.bytes.len();
        before.bytes.truncate(self.shared);
        before.bytes.extend_from_slice(self.rest);
        before.exact = self.exact;
        fits
    }
}
