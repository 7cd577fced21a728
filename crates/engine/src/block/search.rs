//! Reading a block: where its parts are, how a record is taken apart, and how one is found: binary
//! over the restarts, then a walk over the records of one interval.
//!
//! In bytewise order the walk rebuilds no key. It carries `m`, how many bytes the target shares
//! with the record just passed (which is smaller than the target), and looks at `s`, how many
//! bytes the next record takes over from that one:
//!
//! ```text
//! s > m   the next record differs from the target at the same byte as the one before: smaller
//! s < m   it differs from the one before inside what that shared with the target: larger, stop
//! s = m   compare its suffix with the rest of the target, and learn the new m
//! ```

use super::{Block, Damage, HEADER_BYTES, RESTART_BYTES, SHORT_HEAD_BYTES, TAG_LONG};
use crate::value::Value;
use esker_base::coding::take_varint;
use esker_base::heap::SharedBytes;
use esker_base::key::shared_prefix_len;
use esker_base::{KeyOrder, Trailer};
use std::cmp::Ordering;

/// Where the parts of a payload begin, and how many restarts it has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) restarts: usize,
    pub(crate) keys_at: usize,
    /// Also the end of the keys.
    pub(crate) values_at: usize,
}

impl Layout {
    /// The layout that the header of a payload declares; not bounded. Without a header there is
    /// nothing.
    #[inline]
    pub(super) fn of(payload: &[u8]) -> Layout {
        let Some(head) = payload.first_chunk::<HEADER_BYTES>() else { return Layout::default() };
        let both = u64::from_le_bytes(*head);
        let (restarts, keys_bytes) = ((both as u32) as usize, (both >> 32) as usize);
        let keys_at = HEADER_BYTES + RESTART_BYTES * restarts;
        Layout { restarts, keys_at, values_at: keys_at + keys_bytes }
    }
}

/// Where restart `i` stands among keys and values, relative to the payload; not bounded.
#[inline]
pub(crate) fn restart(bytes: &[u8], layout: &Layout, i: usize) -> (usize, usize) {
    let at = HEADER_BYTES + RESTART_BYTES * i;
    let mut pair = [0; RESTART_BYTES];
    pair.copy_from_slice(&bytes[at..at + RESTART_BYTES]);
    let both = u64::from_le_bytes(pair);
    (layout.keys_at + both as u32 as usize, layout.values_at + (both >> 32) as usize)
}

/// The head of a record, taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) trailer: Trailer,
    /// Bytes taken over from the key before.
    pub(crate) shared: usize,
    /// Where the rest of the key stands.
    pub(crate) suffix_at: usize,
    /// Where it ends, which is where the next record begins.
    pub(crate) suffix_end: usize,
    pub(crate) value_bytes: usize,
}

const CUT_SHORT: Damage = Damage("block record is cut short");

impl Record {
    /// Takes apart the record at `at`; `keys_end` ends the keys.
    #[inline(always)]
    pub(crate) fn decode(bytes: &[u8], keys_end: usize, at: usize) -> Result<Record, Damage> {
        // The short form with eight readable bytes behind its head, which the values provide.
        if let Some(window) = bytes.get(at..at + 12)
            && let Some((head, seq)) = window.split_first_chunk::<SHORT_HEAD_BYTES>()
            && let Some(seq) = seq.first_chunk::<8>()
            && head[0] & TAG_LONG == 0
        {
            let seq_bytes = (head[0] >> 4) as usize;
            let seq = u64::from_le_bytes(*seq) & ((1u64 << (8 * seq_bytes)) - 1);
            let suffix_at = at + SHORT_HEAD_BYTES + seq_bytes;
            let suffix_end = suffix_at + head[2] as usize;
            if suffix_end > keys_end {
                return Err(CUT_SHORT);
            }
            return Ok(Record {
                trailer: Trailer(seq << 8 | u64::from(head[0] & 0x0f)),
                shared: head[1] as usize,
                suffix_at,
                suffix_end,
                value_bytes: head[3] as usize,
            });
        }
        Record::decode_any(bytes, keys_end, at)
    }

    /// The long form, and short records at the very end of a block.
    #[inline(never)]
    fn decode_any(bytes: &[u8], keys_end: usize, at: usize) -> Result<Record, Damage> {
        let mut input = bytes.get(at..keys_end).ok_or(CUT_SHORT)?;
        let (tag, lengths) = take_head(&mut input).ok_or(CUT_SHORT)?;
        let [shared, unshared, value_bytes] = lengths;
        let seq_bytes = ((tag & !TAG_LONG) >> 4) as usize;
        if seq_bytes > input.len() || unshared > input.len() - seq_bytes {
            return Err(CUT_SHORT);
        }
        let mut seq = [0; 8];
        seq[..seq_bytes].copy_from_slice(&input[..seq_bytes]);
        let suffix_at = keys_end - input.len() + seq_bytes;
        Ok(Record {
            trailer: Trailer(u64::from_le_bytes(seq) << 8 | u64::from(tag & 0x0f)),
            shared,
            suffix_at,
            suffix_end: suffix_at + unshared,
            value_bytes,
        })
    }
}

fn take_head(input: &mut &[u8]) -> Option<(u8, [usize; 3])> {
    let (&tag, rest) = input.split_first()?;
    *input = rest;
    let mut lengths = [0; 3];
    for length in &mut lengths {
        *length = if tag & TAG_LONG == 0 {
            let (&byte, rest) = input.split_first()?;
            *input = rest;
            byte as usize
        } else {
            // A u32, so that sums of lengths and offsets cannot overflow.
            u32::try_from(take_varint(input)?).ok()? as usize
        };
    }
    Some((tag, lengths))
}

/// The first record at or after a target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    /// Where the record stands.
    pub(super) at: usize,
    pub(super) record: Record,
    /// Where its value stands; it is known to lie inside the block.
    pub(super) value_at: usize,
    /// True if its key is the target's.
    pub(super) same_key: bool,
    /// How the whole key is had from the parts.
    pub(super) key: HitKey,
}

/// Where the key of a [`Hit`] comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HitKey {
    /// It stands whole in the block.
    Whole,
    /// The first bytes are the target's.
    FromTarget,
    /// It has to be rebuilt from the restart of its interval.
    Rebuild {
        /// Number of the restart.
        restart: usize,
    },
}

const BAD_RESTART: Damage = Damage("block restart does not hold a whole key");
const BAD_VALUE: Damage = Damage("block value does not lie in the block");
const BAD_SHARED: Damage = Damage("block record shares more than the key before has");

/// The record at restart `i`, where its key stands whole, and where its value stands.
#[inline(always)]
pub(super) fn restart_record(
    bytes: &[u8],
    layout: &Layout,
    i: usize,
) -> Result<(usize, Record, usize), Damage> {
    let (at, value_at) = restart(bytes, layout, i);
    let record = Record::decode(bytes, layout.values_at, at)?;
    if record.shared != 0 {
        return Err(BAD_RESTART);
    }
    Ok((at, record, value_at))
}

/// Finds the first record at or after `(key, trailer)`.
#[inline]
pub(super) fn lower_bound(
    bytes: &[u8],
    layout: &Layout,
    order: &KeyOrder,
    key: &[u8],
    trailer: Trailer,
) -> Result<Option<Hit>, Damage> {
    let found = match order {
        KeyOrder::Bytewise => {
            let (low, passed) =
                restarts_before(bytes, layout, trailer, |candidate| compare_bytes(candidate, key))?;
            match passed {
                None => restart_hit(bytes, layout, 0, |candidate| candidate == key)?,
                Some(passed) => walk_bytewise(bytes, layout, low, passed, key, trailer)?,
            }
        }
        KeyOrder::Custom(comparator) => {
            let compare = |candidate: &[u8]| comparator.compare(candidate, key);
            let (low, passed) = restarts_before(bytes, layout, trailer, compare)?;
            match passed {
                None => restart_hit(bytes, layout, 0, |c| compare(c).is_eq())?,
                Some(passed) => walk_custom(bytes, layout, low, passed, trailer, compare)?,
            }
        }
    };
    match found {
        Some(hit) if hit.value_at + hit.record.value_bytes > bytes.len() => Err(BAD_VALUE),
        found => Ok(found),
    }
}

/// `a.cmp(b)`, eight bytes at a time and without a call; keys are short.
#[inline(always)]
fn compare_bytes(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while let (Some((x, a_rest)), Some((y, b_rest))) =
        (a.split_first_chunk::<8>(), b.split_first_chunk::<8>())
    {
        if x != y {
            return u64::from_be_bytes(*x).cmp(&u64::from_be_bytes(*y));
        }
        (a, b) = (a_rest, b_rest);
    }
    a.iter().cmp(b)
}

type Passed = (usize, Record, usize);

/// How many restarts sort before the target, and the last of those.
#[inline(always)]
fn restarts_before(
    bytes: &[u8],
    layout: &Layout,
    trailer: Trailer,
    compare: impl Fn(&[u8]) -> Ordering,
) -> Result<(usize, Option<Passed>), Damage> {
    let (mut low, mut high) = (0, layout.restarts);
    let mut passed = None;
    while low < high {
        let middle = (low + high) / 2;
        let found = restart_record(bytes, layout, middle)?;
        let record = &found.1;
        let before = match compare(&bytes[record.suffix_at..record.suffix_end]) {
            Ordering::Less => true,
            Ordering::Equal => record.trailer > trailer,
            Ordering::Greater => false,
        };
        if before {
            low = middle + 1;
            passed = Some(found);
        } else {
            high = middle;
        }
    }
    Ok((low, passed))
}

/// The record at restart `i` as the answer, if there is such a restart.
#[inline]
fn restart_hit(
    bytes: &[u8],
    layout: &Layout,
    i: usize,
    same: impl Fn(&[u8]) -> bool,
) -> Result<Option<Hit>, Damage> {
    if i >= layout.restarts {
        return Ok(None);
    }
    let (at, record, value_at) = restart_record(bytes, layout, i)?;
    let same_key = same(&bytes[record.suffix_at..record.suffix_end]);
    Ok(Some(Hit { at, record, value_at, same_key, key: HitKey::Whole }))
}

/// Where interval `low - 1` ends.
#[inline]
fn interval_end(bytes: &[u8], layout: &Layout, low: usize) -> usize {
    if low < layout.restarts { restart(bytes, layout, low).0 } else { layout.values_at }
}

#[inline(always)]
fn walk_bytewise(
    bytes: &[u8],
    layout: &Layout,
    low: usize,
    passed: Passed,
    key: &[u8],
    trailer: Trailer,
) -> Result<Option<Hit>, Damage> {
    let (_, first, mut value_at) = passed;
    let end = interval_end(bytes, layout, low);
    let mut at = first.suffix_end;
    let mut value_bytes = first.value_bytes;
    let mut matched = shared_prefix_len(&bytes[first.suffix_at..first.suffix_end], key);
    let padded = Padded::new(key);
    while at < end {
        let record = Record::decode(bytes, layout.values_at, at)?;
        value_at += value_bytes;
        let hit = |same_key| {
            let whole = record.shared == 0;
            let key = if whole { HitKey::Whole } else { HitKey::FromTarget };
            Ok(Some(Hit { at, record, value_at, same_key, key }))
        };
        if record.shared < matched {
            return hit(false);
        }
        if record.shared == matched {
            let suffix = &bytes[record.suffix_at..record.suffix_end];
            let rest = &key[matched..];
            let same = match padded.same_bytes(bytes, &record, matched) {
                Some(same) => same.min(suffix.len()).min(rest.len()),
                None => shared_prefix_len(suffix, rest),
            };
            match (suffix.get(same), rest.get(same)) {
                (None, None) if record.trailer <= trailer => return hit(true),
                (Some(_), None) => return hit(false),
                (Some(a), Some(b)) if a > b => return hit(false),
                _ => matched += same,
            }
        }
        at = record.suffix_end;
        value_bytes = record.value_bytes;
    }
    restart_hit(bytes, layout, low, |candidate| candidate == key)
}

/// A target with room behind it, so that eight of its bytes can be had from anywhere in it.
struct Padded {
    bytes: [u8; PADDED_KEY_BYTES + 8],
    fits: bool,
}

/// Longer keys are compared byte for byte.
const PADDED_KEY_BYTES: usize = 56;

impl Padded {
    #[inline(always)]
    fn new(key: &[u8]) -> Padded {
        let mut bytes = [0; PADDED_KEY_BYTES + 8];
        let fits = key.len() <= PADDED_KEY_BYTES;
        if fits {
            bytes[..key.len()].copy_from_slice(key);
        }
        Padded { bytes, fits }
    }

    /// How many bytes from `matched` on equal those of the record's suffix, which may both have
    /// fewer; `None` if eight bytes do not tell. Has no branch that depends on the keys.
    #[inline(always)]
    fn same_bytes(&self, bytes: &[u8], record: &Record, matched: usize) -> Option<usize> {
        let suffix = bytes.get(record.suffix_at..)?.first_chunk::<8>()?;
        let rest = self.bytes.get(matched..)?.first_chunk::<8>()?;
        let differ = u64::from_le_bytes(*suffix) ^ u64::from_le_bytes(*rest);
        let suffix_len = record.suffix_end - record.suffix_at;
        let tells = self.fits && (differ != 0 || suffix_len <= 8);
        tells.then_some(differ.trailing_zeros() as usize / 8)
    }
}

#[inline(never)]
fn walk_custom(
    bytes: &[u8],
    layout: &Layout,
    low: usize,
    passed: Passed,
    trailer: Trailer,
    compare: impl Fn(&[u8]) -> Ordering,
) -> Result<Option<Hit>, Damage> {
    let (_, first, mut value_at) = passed;
    let end = interval_end(bytes, layout, low);
    let mut current = bytes[first.suffix_at..first.suffix_end].to_vec();
    let mut at = first.suffix_end;
    let mut value_bytes = first.value_bytes;
    while at < end {
        let record = Record::decode(bytes, layout.values_at, at)?;
        value_at += value_bytes;
        if record.shared > current.len() {
            return Err(BAD_SHARED);
        }
        current.truncate(record.shared);
        current.extend_from_slice(&bytes[record.suffix_at..record.suffix_end]);
        let order = compare(&current);
        if order.is_gt() || (order.is_eq() && record.trailer <= trailer) {
            let key = HitKey::Rebuild { restart: low - 1 };
            return Ok(Some(Hit { at, record, value_at, same_key: order.is_eq(), key }));
        }
        at = record.suffix_end;
        value_bytes = record.value_bytes;
    }
    restart_hit(bytes, layout, low, |candidate| compare(candidate).is_eq())
}

/// Copies the key of the record at `at` in the interval of `restart` into `key`.
pub(super) fn rebuild_key(
    bytes: &[u8],
    layout: &Layout,
    restart: usize,
    target: usize,
    key: &mut Vec<u8>,
) -> Result<(), Damage> {
    let (mut at, mut record, _) = restart_record(bytes, layout, restart)?;
    key.clear();
    loop {
        append_suffix(bytes, &record, key)?;
        if at >= target {
            return Ok(());
        }
        at = record.suffix_end;
        record = Record::decode(bytes, layout.values_at, at)?;
    }
}

/// Turns the key before into the key of `record`.
#[inline]
pub(super) fn append_suffix(
    bytes: &[u8],
    record: &Record,
    key: &mut Vec<u8>,
) -> Result<(), Damage> {
    if record.shared > key.len() {
        return Err(BAD_SHARED);
    }
    key.truncate(record.shared);
    key.extend_from_slice(&bytes[record.suffix_at..record.suffix_end]);
    Ok(())
}

impl Block {
    /// A block that [`Block::as_whole`] took apart.
    #[inline]
    pub(crate) fn whole(data: SharedBytes, end: u32) -> Block {
        Block { data, start: 0, end }
    }

    /// The payload.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.data[self.start as usize..self.end as usize]
    }

    #[inline]
    pub(crate) fn layout(&self) -> Layout {
        Layout::of(self.bytes())
    }

    /// The newest record of `key` whose trailer is at most `trailer`, its value not copied.
    ///
    /// # Errors
    /// A reason if a record on the way does not decode.
    /// # Cost
    /// No allocation in bytewise order; one for the key in a custom order.
    #[inline]
    pub fn get(
        self,
        order: &KeyOrder,
        key: &[u8],
        trailer: Trailer,
    ) -> Result<Option<(Trailer, Value)>, Damage> {
        let layout = self.layout();
        let found = lower_bound(self.bytes(), &layout, order, key, trailer)?;
        let Some(hit) = found else { return Ok(None) };
        if !hit.same_key {
            return Ok(None);
        }
        let start = self.start as usize + hit.value_at;
        let value = Value::shared(self.data, start, start + hit.record.value_bytes);
        Ok(Some((hit.record.trailer, value)))
    }
}
