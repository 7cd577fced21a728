//! Leaf: some dozens of entries of an index that follow each other, front-coded, in four cache
//! lines.
//!
//! All leaves are of one size and stand side by side, so that no pointer leads to them, and their
//! lines can be on the way before the first is read.
//!
//! Layout: the number of entries; the number of bytes that all begin with; where each group begins;
//! the bytes that all begin with; the groups. The first entry of a group shares nothing with the
//! one before it, so that groups can be searched. Behind a coded prefix stand its slots: one byte
//! each, the top bit set if another follows. An entry that does not fit into a leaf stands apart;
//! its leaf holds 0 and its number.

use super::entry::{Coded, Prefix, PrefixBuf, Slots, put_coded, single_slot};
use esker_base::key::shared_prefix_len;
use std::cmp::Ordering;

/// Bytes of a leaf.
pub(super) const LEAF_BYTES: usize = 256;

/// Entries of a group.
const GROUP_ENTRIES: usize = 16;

/// Entries of a leaf at the most: of the shortest, three bytes each.
const ENTRIES_MAX: usize = 85;

const MORE_SLOTS: u8 = 0x80;

/// Where its parts stand in a leaf.
const COUNT: usize = 0;
const COMMON: usize = 1;
const GROUPS: usize = 2;

/// An entry that does not fit into a leaf.
#[derive(Debug)]
pub(super) struct LongEntry {
    pub(super) prefix: PrefixBuf,
    pub(super) slots: Slots,
}

/// Entries that follow each other. There is one at least.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf<'a> {
    pub(super) bytes: &'a [u8; LEAF_BYTES],
    /// All entries of the index that do not fit into leaves.
    pub(super) long: &'a [LongEntry],
}

/// Takes the slots of an entry.
#[inline]
fn take_slots(input: &mut &[u8]) -> Slots {
    let mut slots = 0;
    while let Some((&byte, after)) = input.split_first() {
        *input = after;
        slots |= single_slot(usize::from(byte & !MORE_SLOTS));
        if byte & MORE_SLOTS == 0 {
            break;
        }
    }
    slots
}

/// Passes over the slots of an entry.
#[inline]
fn pass_slots(input: &mut &[u8]) {
    while let Some((&byte, after)) = input.split_first() {
        *input = after;
        if byte & MORE_SLOTS == 0 {
            return;
        }
    }
}

/// True if `a` comes after `b`; most often their first bytes tell.
#[inline]
fn is_after(a: &[u8], b: &[u8]) -> bool {
    match (a.first(), b.first()) {
        (Some(x), Some(y)) if x != y => x > y,
        _ => a > b,
    }
}

impl<'a> Leaf<'a> {
    #[inline]
    pub(super) fn entries(self) -> usize {
        usize::from(self.bytes[COUNT]).max(1)
    }

    /// The entry that does not fit, if that is what the leaf holds.
    #[inline]
    fn long(self) -> Option<&'a LongEntry> {
        (self.bytes[COUNT] == 0).then(|| self.long_entry())
    }

    #[cold]
    fn long_entry(self) -> &'a LongEntry {
        let number = self.bytes[GROUPS..].first_chunk().map_or(0, |n| u32::from_le_bytes(*n));
        &self.long[number as usize]
    }

    /// What all entries begin with.
    #[inline]
    fn common(self) -> &'a [u8] {
        let at = GROUPS + self.entries().div_ceil(GROUP_ENTRIES);
        &self.bytes[at..at + usize::from(self.bytes[COMMON])]
    }

    /// What follows the common bytes in the first entry of a group.
    #[inline]
    fn group_first(self, group: usize) -> &'a [u8] {
        let mut input = &self.bytes[usize::from(self.bytes[GROUPS + group])..];
        Coded::take(&mut input).map_or(&[], |coded| coded.rest)
    }

    /// The first entry.
    pub(super) fn first(self) -> PrefixBuf {
        let mut first = PrefixBuf::default();
        self.decode(0, &mut first, &mut 0);
        first
    }

    /// Makes `prefix` into entry `nth`; its slots. `next_at` becomes where the next one begins.
    pub(super) fn decode(self, nth: usize, prefix: &mut PrefixBuf, next_at: &mut usize) -> Slots {
        if let Some(long) = self.long() {
            prefix.set(long.prefix.get());
            return long.slots;
        }
        *next_at = usize::from(self.bytes[GROUPS + nth / GROUP_ENTRIES]);
        prefix.bytes.clear();
        prefix.bytes.extend_from_slice(self.common());
        let mut slots = 0;
        for _ in 0..=nth % GROUP_ENTRIES {
            slots = self.decode_next(prefix, next_at);
        }
        slots
    }

    /// Makes `prefix`, an entry of the leaf, into the next one, which begins at `next_at`; its
    /// slots.
    #[inline]
    pub(super) fn decode_next(self, prefix: &mut PrefixBuf, next_at: &mut usize) -> Slots {
        let mut input = &self.bytes[*next_at..];
        let Some(mut coded) = Coded::take(&mut input) else { return 0 };
        let slots = take_slots(&mut input);
        coded.shared += usize::from(self.bytes[COMMON]);
        coded.follow(prefix);
        *next_at = LEAF_BYTES - input.len();
        slots
    }

    /// The number of the last entry that does not come after `key`, and its slots if it covers
    /// that.
    ///
    /// The first entry does not.
    #[inline]
    pub(super) fn search(self, key: &[u8]) -> (usize, Slots) {
        if let Some(long) = self.long() {
            return (0, if long.prefix.get().covers(key) { long.slots } else { 0 });
        }
        let entries = self.entries();
        let Some(key) = key.strip_prefix(self.common()) else {
            // It comes after the first entry, so after all that begin alike.
            return (entries - 1, 0);
        };
        let mut group = entries.div_ceil(GROUP_ENTRIES) - 1;
        while group > 0 && is_after(self.group_first(group), key) {
            group -= 1;
        }
        self.search_group(group, key)
    }

    #[inline]
    fn search_group(self, group: usize, key: &[u8]) -> (usize, Slots) {
        let first = group * GROUP_ENTRIES;
        let mut input = &self.bytes[usize::from(self.bytes[GROUPS + group])..];
        let count = GROUP_ENTRIES.min(self.entries() - first);
        let mut found = (first, 0);
        // Bytes that `key` shares with the entry before.
        let mut matched = 0;
        for nth in 0..count {
            let Some(coded) = Coded::take(&mut input) else { break };
            if coded.shared < matched && nth > 0 {
                // It is greater than the entry before where that is like the key.
                break;
            }
            let mut covers = false;
            if nth == 0 || coded.shared == matched {
                let wanted = &key[matched..];
                let same = shared_prefix_len(coded.rest, wanted);
                match (coded.rest.get(same), wanted.get(same)) {
                    (Some(byte), Some(want)) if byte > want => break,
                    (Some(_), None) => break,
                    (Some(_), Some(_)) => {}
                    (None, rest) => covers = !coded.exact || rest.is_none(),
                }
                matched += same;
            }
            found = (first + nth, 0);
            match covers {
                true => found.1 = take_slots(&mut input),
                false => pass_slots(&mut input),
            }
        }
        found
    }

    /// How `key` stands to the first entry.
    pub(super) fn compare_first(self, key: &[u8]) -> Ordering {
        if let Some(long) = self.long() {
            return key.cmp(&long.prefix.bytes);
        }
        match key.strip_prefix(self.common()) {
            Some(rest) => rest.cmp(self.group_first(0)),
            None => key.cmp(self.common()),
        }
    }
}

/// Gathers entries until they are a leaf.
#[derive(Debug, Default)]
pub(super) struct LeafBuilder {
    /// The whole prefixes, one behind the other.
    bytes: Vec<u8>,
    /// Where each ends, whether it is exact, and its slots.
    entries: Vec<(usize, bool, Slots)>,
    /// What all entries begin with.
    common: usize,
    /// What the entries take coded that are no group's first, and what the slots of all do.
    coded_bytes: usize,
    /// What those take that are, were nothing common to all.
    firsts_bytes: usize,
    coded: Vec<u8>,
}

/// What has become of entries.
pub(super) enum Finished {
    Leaf(Box<[u8; LEAF_BYTES]>),
    Long(LongEntry),
}

impl LeafBuilder {
    /// True if not all that was added can be in one leaf. False does not promise that it can: keys
    /// of which very many bytes are common take a few more.
    pub(super) fn overflows(&self) -> bool {
        let groups = self.entries.len().div_ceil(GROUP_ENTRIES);
        let head = GROUPS + groups + self.common;
        let firsts = self.firsts_bytes - groups * self.common;
        self.entries.len() > ENTRIES_MAX || head + firsts + self.coded_bytes > LEAF_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn add(&mut self, prefix: Prefix<'_>, slots: Slots) {
        debug_assert!(slots != 0, "an entry names a run");
        let (nth, len) = (self.entries.len(), prefix.bytes.len());
        let shared = match nth.checked_sub(1) {
            Some(last) => shared_prefix_len(self.prefix(last).bytes, prefix.bytes),
            None => len,
        };
        self.common = if nth == 0 { len } else { self.common.min(shared) };
        if nth % GROUP_ENTRIES == 0 {
            self.firsts_bytes += 1 + len;
        } else {
            self.coded_bytes += 1 + len - shared;
        }
        self.coded_bytes += slots.count_ones() as usize;
        self.bytes.extend_from_slice(prefix.bytes);
        self.entries.push((self.bytes.len(), prefix.exact, slots));
    }

    fn start(&self, nth: usize) -> usize {
        nth.checked_sub(1).map_or(0, |before| self.entries[before].0)
    }

    fn prefix(&self, nth: usize) -> Prefix<'_> {
        let (end, exact, _) = self.entries[nth];
        Prefix { bytes: &self.bytes[self.start(nth)..end], exact }
    }

    /// Makes a leaf of the first entries, of as many as fit, and keeps the others.
    pub(super) fn finish(&mut self) -> Finished {
        // The last one is what was too much.
        let mut count = self.entries.len() - usize::from(self.overflows());
        let mut coded = std::mem::take(&mut self.coded);
        while count > 0 && !self.encode(count, &mut coded) {
            count -= 1;
        }
        let finished = match count {
            0 => {
                let mut prefix = PrefixBuf::default();
                prefix.set(self.prefix(0));
                Finished::Long(LongEntry { prefix, slots: self.entries[0].2 })
            }
            _ => {
                let mut leaf = Box::new([0; LEAF_BYTES]);
                leaf[..coded.len()].copy_from_slice(&coded);
                Finished::Leaf(leaf)
            }
        };
        self.coded = coded;
        self.drop_first(count.max(1));
        finished
    }

    fn drop_first(&mut self, count: usize) {
        let end = self.start(count);
        let kept = self.bytes.split_off(end);
        let entries = self.entries.split_off(count);
        self.bytes.clear();
        self.entries.clear();
        (self.common, self.coded_bytes, self.firsts_bytes) = (0, 0, 0);
        let mut start = 0;
        for (old_end, exact, slots) in entries {
            let old_end = old_end - end;
            self.add(Prefix { bytes: &kept[start..old_end], exact }, slots);
            start = old_end;
        }
    }

    /// Encodes the first `count` entries; false if they do not fit.
    fn encode(&self, count: usize, out: &mut Vec<u8>) -> bool {
        let first = self.prefix(0).bytes;
        let common = shared_prefix_len(first, self.prefix(count - 1).bytes);
        let Ok(common_len) = u8::try_from(common) else { return false };
        out.clear();
        out.extend_from_slice(&[count as u8, common_len]);
        out.resize(GROUPS + count.div_ceil(GROUP_ENTRIES), 0);
        out.extend_from_slice(&first[..common]);
        for nth in 0..count {
            let prefix = self.prefix(nth);
            let tail = Prefix { bytes: &prefix.bytes[common..], exact: prefix.exact };
            let mut shared = 0;
            if nth % GROUP_ENTRIES == 0 {
                let Ok(at) = u8::try_from(out.len()) else { return false };
                out[GROUPS + nth / GROUP_ENTRIES] = at;
            } else {
                shared = shared_prefix_len(&self.prefix(nth - 1).bytes[common..], tail.bytes);
            }
            put_coded(out, shared, tail);
            put_slots(out, self.entries[nth].2);
            if out.len() > LEAF_BYTES {
                return false;
            }
        }
        true
    }
}

fn put_slots(out: &mut Vec<u8>, mut slots: Slots) {
    while slots != 0 {
        let slot = slots.trailing_zeros() as u8;
        slots &= slots - 1;
        out.push(if slots == 0 { slot } else { slot | MORE_SLOTS });
    }
}
