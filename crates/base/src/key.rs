//! Keys: what the user sees (bytes in an order) and what the tree stores (key + trailer).
//!
//! An *internal key* is a user key and a [`Trailer`], which packs the sequence number and the
//! kind of the record. Internal keys are ordered by user key, then by trailer descending, so that
//! the newest record of a key comes first.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Sequence number: the position of a record in the one write order of a database.
///
/// 1 is the first record; 0 means "older than everything" (a record whose age no longer
/// matters, because nothing below it can hold its key).
pub type Seq = u64;

/// The largest sequence number; 56 bits, the rest of a trailer is the kind.
pub const SEQ_MAX: Seq = (1 << 56) - 1;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1 << 20;

/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 1 << 30;

/// What a record does to its key.
///
/// Numbers are stored on disk and never reused. Gaps are left for kinds to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The key is absent from here on; older records are hidden.
    Delete = 0,
    /// The key has this value.
    Put = 1,
    /// Reserved: an operand for a merge operator.
    Merge = 2,
    /// Reserved: a value with an expiry time before it.
    PutExpiring = 3,
    /// The key has the value that a pointer leads to: a record of a log.
    PutPointer = 4,
    /// All keys in `[key, value)` are absent from here on. Never stored among point records.
    DeleteRange = 5,
}

impl Kind {
    /// The kind with this number. Kinds that no version writes so far have theirs too.
    #[inline]
    pub fn from_u8(byte: u8) -> Option<Kind> {
        match byte {
            0 => Some(Kind::Delete),
            1 => Some(Kind::Put),
            2 => Some(Kind::Merge),
            3 => Some(Kind::PutExpiring),
            4 => Some(Kind::PutPointer),
            5 => Some(Kind::DeleteRange),
            _ => None,
        }
    }
}

/// Sequence number and kind of a record in one integer: `seq << 8 | kind`.
///
/// Comparing trailers compares sequence numbers first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Trailer(pub u64);

impl Trailer {
    /// Packs `seq` and `kind`.
    #[inline]
    pub const fn new(seq: Seq, kind: Kind) -> Trailer {
        Trailer(seq << 8 | kind as u64)
    }

    /// The trailer that sorts before every record of the same key visible at `seq`.
    #[inline]
    pub const fn seek(seq: Seq) -> Trailer {
        Trailer(seq << 8 | 0xff)
    }

    /// The sequence number.
    #[inline]
    pub const fn seq(self) -> Seq {
        self.0 >> 8
    }

    /// The kind; `None` if the byte is nobody's number (damage, or a newer version's file).
    #[inline]
    pub fn kind(self) -> Option<Kind> {
        Kind::from_u8(self.0 as u8)
    }

    /// The same kind with another sequence number.
    #[inline]
    pub const fn with_seq(self, seq: Seq) -> Trailer {
        Trailer(seq << 8 | (self.0 & 0xff))
    }
}

impl fmt::Debug for Trailer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            Some(kind) => write!(f, "#{},{kind:?}", self.seq()),
            None => write!(f, "#{},{}", self.seq(), self.0 as u8),
        }
    }
}

/// Names a keyspace inside one database; 0 is the default keyspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyspaceId(pub u32);

impl KeyspaceId {
    /// The keyspace every database has.
    pub const DEFAULT: KeyspaceId = KeyspaceId(0);
}

/// A user-given total order of keys.
///
/// The order is part of the store: opening with a comparator of another name is refused.
pub trait Comparator: Send + Sync {
    /// A name that changes whenever the order changes; stored in the manifest.
    fn name(&self) -> &str;

    /// Compares two keys. Must be a total order that never changes for this name.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;

    /// A key `s` with `a <= s < b`, as short as is easy. Used to keep index blocks small.
    ///
    /// The default keeps `a` itself, which is always right.
    fn separator(&self, a: &[u8], b: &[u8]) -> Vec<u8> {
        let _ = b;
        a.to_vec()
    }

    /// True if two keys compare equal only when their bytes are the same.
    ///
    /// Allows hashing of keys (memtable probes and filters). The default, `false`, is always safe.
    fn equal_means_identical(&self) -> bool {
        false
    }
}

/// The order of keys of one keyspace: the bytewise fast path, or a custom comparator.
#[derive(Clone, Default)]
pub enum KeyOrder {
    /// Unsigned bytes, shorter first (`memcmp`).
    #[default]
    Bytewise,
    /// As the comparator says.
    Custom(Arc<dyn Comparator>),
}

/// The stored name of [`KeyOrder::Bytewise`].
pub const BYTEWISE_NAME: &str = "esker.bytewise";

impl KeyOrder {
    /// The name stored in the manifest.
    pub fn name(&self) -> &str {
        match self {
            KeyOrder::Bytewise => BYTEWISE_NAME,
            KeyOrder::Custom(c) => c.name(),
        }
    }

    /// True if keys are ordered as plain bytes.
    #[inline]
    pub fn is_bytewise(&self) -> bool {
        matches!(self, KeyOrder::Bytewise)
    }

    /// True if keys may be hashed: equal keys have equal bytes.
    #[inline]
    pub fn is_hashable(&self) -> bool {
        match self {
            KeyOrder::Bytewise => true,
            KeyOrder::Custom(c) => c.equal_means_identical(),
        }
    }

    /// Compares two user keys.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            KeyOrder::Bytewise => a.cmp(b),
            KeyOrder::Custom(c) => c.compare(a, b),
        }
    }

    /// True if `a` sorts before `b`.
    #[inline]
    pub fn less(&self, a: &[u8], b: &[u8]) -> bool {
        self.compare(a, b) == Ordering::Less
    }

    /// True if the order takes `a` and `b` for the same key.
    #[inline]
    pub fn same(&self, a: &[u8], b: &[u8]) -> bool {
        match self {
            KeyOrder::Bytewise => a == b,
            KeyOrder::Custom(c) => c.compare(a, b) == Ordering::Equal,
        }
    }

    /// Compares two internal keys: user key ascending, then trailer descending.
    #[inline]
    pub fn compare_internal(&self, a: (&[u8], Trailer), b: (&[u8], Trailer)) -> Ordering {
        self.compare(a.0, b.0).then_with(|| b.1.cmp(&a.1))
    }

    /// A short key `s` with `a <= s < b`; needs `a < b`.
    pub fn separator(&self, a: &[u8], b: &[u8]) -> Vec<u8> {
        match self {
            KeyOrder::Bytewise => bytewise_separator(a, b),
            KeyOrder::Custom(c) => c.separator(a, b),
        }
    }
}

impl fmt::Debug for KeyOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn bytewise_separator(a: &[u8], b: &[u8]) -> Vec<u8> {
    let shared = shared_prefix_len(a, b);
    if shared < a.len() && shared < b.len() {
        // a[shared] < b[shared]: cut after the first byte that can be raised and stay below b.
        if a[shared] + 1 < b[shared] {
            let mut s = a[..=shared].to_vec();
            s[shared] += 1;
            return s;
        }
        if let Some(i) = a[shared + 1..].iter().position(|&byte| byte != 0xff) {
            let cut = shared + 1 + i;
            let mut s = a[..=cut].to_vec();
            s[cut] += 1;
            return s;
        }
    }
    a.to_vec()
}

/// The smallest key that is greater than every key with this prefix, in bytewise order.
///
/// `None` if there is none (the prefix is empty or all `0xff`).
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// How many leading bytes `a` and `b` have in common.
#[inline]
pub fn shared_prefix_len(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let mut i = 0;
    while i + 8 <= len {
        let x = read_u64(a, i) ^ read_u64(b, i);
        if x != 0 {
            return i + (x.trailing_zeros() / 8) as usize;
        }
        i += 8;
    }
    while i < len && a[i] == b[i] {
        i += 1;
    }
    i
}

/// `a == b`, for short slices that are most often equal: without a call up to 16 bytes.
#[inline]
fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    match (a.first_chunk(), a.last_chunk(), b.first_chunk(), b.last_chunk()) {
        // Of eight to 16 bytes some are looked at twice.
        (Some(a_first), Some(a_last), Some(b_first), Some(b_last)) if a.len() <= 16 => {
            let first = u64::from_le_bytes(*a_first) ^ u64::from_le_bytes(*b_first);
            let last = u64::from_le_bytes(*a_last) ^ u64::from_le_bytes(*b_last);
            a.len() == b.len() && first | last == 0
        }
        _ if a.len() < 8 => a.len() == b.len() && prefix_u64(a) == prefix_u64(b),
        _ => a == b,
    }
}

#[inline]
fn read_u64(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

/// The first eight bytes as an integer whose order is the bytewise order (zero-padded).
///
/// If two prefixes differ, so do the keys, in the same direction; equal prefixes decide nothing.
#[inline]
pub fn prefix_u64(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(eight) => u64::from_be_bytes(*eight),
        None => {
            let bytes = key.iter().fold(0, |bytes, &byte| bytes << 8 | u64::from(byte));
            bytes.checked_shl(64 - 8 * key.len() as u32).unwrap_or(0)
        }
    }
}

/// [`prefix_u64`] of what stands behind `common`, with which all keys of some set begin.
///
/// # Errors
/// A key that does not begin so stands on one side of all that do: that side.
#[inline(always)]
pub fn prefix_behind(key: &[u8], common: &[u8]) -> Result<u64, Ordering> {
    match key.get(..common.len()) {
        Some(head) if same_bytes(head, common) => Ok(prefix_u64_from(key, common.len())),
        // A shorter key that `common` begins with is before all.
        _ => Err(key.cmp(common)),
    }
}

/// `prefix_u64(&key[from..])`, without a loop where the whole key has eight bytes.
#[inline]
fn prefix_u64_from(key: &[u8], from: usize) -> u64 {
    let rest = &key[from..];
    if let Some(eight) = rest.first_chunk() {
        return u64::from_be_bytes(*eight);
    }
    match key.last_chunk() {
        // What stands before `from` is pushed out.
        Some(eight) => {
            u64::from_be_bytes(*eight).checked_shl(64 - 8 * rest.len() as u32).unwrap_or(0)
        }
        None => prefix_u64(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_begins_otherwise_stands_on_the_side_where_it_sorts() {
        let prefix = |key: &[u8]| prefix_behind(key, b"common");
        assert_eq!(prefix(b"commonkey"), Ok(prefix_u64(b"key")));
        assert_eq!(prefix(b"common"), Ok(0));
        for before in [&b""[..], b"comm", b"commom", b"commnzzzz", b"a"] {
            assert_eq!(prefix(before), Err(Ordering::Less), "{before:?}");
        }
        for behind in [&b"commoo"[..], b"commpaaaa", b"d"] {
            assert_eq!(prefix(behind), Err(Ordering::Greater), "{behind:?}");
        }
        assert_eq!(prefix_behind(b"", b""), Ok(0));
    }

    #[test]
    fn a_prefix_from_within_a_key_is_that_of_the_rest() {
        for len in 0..20 {
            let key: Vec<u8> = (0..len).map(|i| 0xff - i).collect();
            for from in 0..=key.len() {
                assert_eq!(prefix_u64_from(&key, from), prefix_u64(&key[from..]), "{len}, {from}");
            }
        }
    }

    #[test]
    fn bytes_are_the_same_or_differ_in_one() {
        for len in 0..40 {
            let a: Vec<u8> = (0..len).collect();
            assert!(same_bytes(&a, &a.clone()));
            for at in 0..a.len() {
                let mut b = a.clone();
                b[at] ^= 0x80;
                assert!(!same_bytes(&a, &b) && !same_bytes(&a, &a[..at]), "{len} bytes, at {at}");
            }
        }
    }

    #[test]
    fn internal_order_is_key_up_trailer_down() {
        let o = KeyOrder::Bytewise;
        let new = (b"k".as_slice(), Trailer::new(9, Kind::Put));
        let old = (b"k".as_slice(), Trailer::new(3, Kind::Delete));
        let next = (b"l".as_slice(), Trailer::new(1, Kind::Put));
        assert_eq!(o.compare_internal(new, old), Ordering::Less);
        assert_eq!(o.compare_internal(old, next), Ordering::Less);
        assert!(Trailer::seek(9) > new.1 && Trailer::seek(8) < new.1);
    }

    #[test]
    fn separators_lie_between() {
        let keys: [&[u8]; 9] =
            [b"", b"a", b"a\xff", b"a\xff\xff", b"ab", b"abc", b"b", b"b\x00", b"\xff\xff"];
        let mut sorted = keys.to_vec();
        sorted.sort_unstable();
        for (i, a) in sorted.iter().enumerate() {
            for b in &sorted[i + 1..] {
                let s = KeyOrder::Bytewise.separator(a, b);
                assert!(s.as_slice() >= *a && s.as_slice() < *b, "{a:?} {s:?} {b:?}");
                assert!(s.len() <= a.len().max(1));
            }
        }
    }

    #[test]
    fn prefix_end_bounds_the_prefix() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(b"a\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xff\xff"), None);
        assert_eq!(prefix_end(b""), None);
    }

    #[test]
    fn shared_prefix_counts_bytes() {
        assert_eq!(shared_prefix_len(b"abcdefghij", b"abcdefghiX"), 9);
        assert_eq!(shared_prefix_len(b"abcdefghij", b"abcXefghij"), 3);
        assert_eq!(shared_prefix_len(b"abc", b"abcdef"), 3);
        assert_eq!(shared_prefix_len(b"", b"x"), 0);
    }
}
