//! A record read where it stands: checked once, or not at all when one field is looked for.

use super::coded;
use super::format::{
    FIELD_BYTES_MIN, FORMAT, NAME_BYTES_MAX, Walk, check_name, field_bytes, head_bytes, put_field,
    put_head, take_shortest,
};
use super::value::FieldRef;
use esker_base::coding::{take_bytes, take_u8};
use esker_base::{Error, Result};
use std::cmp::Ordering;

/// A record in its encoded form, all of which was checked. Nothing is copied.
///
/// An owned one is made by collecting: `view.iter().collect::<Record>()`.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    bytes: &'a [u8],
    /// Before the first field.
    fields: Walk<'a>,
}

/// Why bytes are no record, and where that shows.
struct Fault {
    at: usize,
    what: &'static str,
}

impl<'a> RecordView<'a> {
    /// Takes bytes for a record after checking all of them.
    ///
    /// # Errors
    /// `InvalidArgument`: they are not what [`Record::encode`](super::Record::encode) makes; it
    /// says where and why. Ask [`looks_like_record`] first where most values are no records: it
    /// makes no message.
    /// # Cost
    /// Reads all of the names and of the text once; looks at the tags of other values.
    pub fn parse(bytes: &'a [u8]) -> Result<RecordView<'a>> {
        check(bytes).map_err(|fault| {
            Error::invalid(format!("not a record, by byte {}: {}", fault.at, fault.what))
        })
    }

    /// The encoded form.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many fields it has.
    pub fn len(&self) -> usize {
        // Each takes some bytes of memory.
        self.fields.left as usize
    }

    /// True if it has no field.
    pub fn is_empty(&self) -> bool {
        self.fields.left == 0
    }

    /// What a field holds; `None` if there is no such field, which is not the same as null.
    ///
    /// # Cost
    /// Passes the fields before it; reads text again.
    pub fn get(&self, name: &str) -> Option<FieldRef<'a>> {
        // What was checked decodes; an error here would be our own bug.
        self.coded(name).and_then(|coded| coded::decode(coded).ok())
    }

    /// What a field holds, in its coded form: for comparing and for keys of indexes.
    ///
    /// # Cost
    /// Passes the fields before it.
    pub fn coded(&self, name: &str) -> Option<&'a [u8]> {
        find(self.fields, name)
    }

    /// Names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, FieldRef<'a>)> + use<'a> {
        // As in `get`.
        self.fields.map_while(|(name, coded)| {
            Some((str::from_utf8(name).ok()?, coded::decode(coded).ok()?))
        })
    }

    /// The encoded form of the record with this field, in the place of one of the same name.
    ///
    /// # Errors
    /// `InvalidArgument`: the name is empty or longer than 255 bytes.
    /// # Cost
    /// One allocation, of the size needed; the other fields are copied as they stand.
    pub fn with_field<'v>(&self, name: &str, value: impl Into<FieldRef<'v>>) -> Result<Vec<u8>> {
        check_name(name)?;
        Ok(self.splice(name, Some(value.into())))
    }

    /// The encoded form of the record without this field; the same bytes if it has no such field.
    ///
    /// # Cost
    /// As [`RecordView::with_field`].
    pub fn without_field(&self, name: &str) -> Vec<u8> {
        self.splice(name, None)
    }

    fn splice(&self, name: &str, value: Option<FieldRef<'_>>) -> Vec<u8> {
        let mut walk = self.fields;
        // The field, or where it would stand: what remains at its begin and behind it.
        let (from, behind) = loop {
            let here = walk;
            let order = walk.next().map(|(found, _)| found.cmp(name.as_bytes()));
            match order {
                Some(Ordering::Less) => {}
                Some(Ordering::Equal) => break (here, walk),
                Some(Ordering::Greater) | None => break (here, here),
            }
        };
        let all = self.fields.rest;
        let before = &all[..all.len() - from.rest.len()];
        let passed = self.fields.left - from.left;
        let count = passed + u64::from(value.is_some()) + behind.left;
        let added = value.map_or(0, |value| field_bytes(name, value));
        let bytes = head_bytes(count) + before.len() + added + behind.rest.len();
        let mut out = Vec::with_capacity(bytes);
        put_head(&mut out, count);
        out.extend_from_slice(before);
        if let Some(value) = value {
            put_field(&mut out, name, value);
        }
        out.extend_from_slice(behind.rest);
        out
    }
}

/// Checks the whole of an encoded record.
fn check(bytes: &[u8]) -> Result<RecordView<'_>, Fault> {
    let mut rest = bytes;
    let at = |rest: &[u8]| bytes.len() - rest.len();
    if take_u8(&mut rest) != Some(FORMAT) {
        return Err(Fault { at: 0, what: "a record begins with the byte 0xe1" });
    }
    let fault = |at, what| Fault { at, what };
    let count = take_shortest(&mut rest)
        .ok_or(fault(1, "the number of fields is cut short or not in its shortest form"))?;
    if count > rest.len() as u64 / FIELD_BYTES_MIN {
        return Err(fault(1, "the bytes are too few for the number of fields"));
    }
    let fields = Walk { rest, left: count };
    // No name is empty: every one is behind this.
    let mut before = &[][..];
    for _ in 0..count {
        let name_at = at(rest);
        let name = take_shortest_slice(&mut rest)
            .ok_or(fault(name_at, "a name is cut short or its length not in its shortest form"))?;
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(fault(name_at, "a name has 1 to 255 bytes"));
        }
        if name <= before {
            return Err(fault(name_at, "names must ascend, and none may stand twice"));
        }
        if str::from_utf8(name).is_err() {
            return Err(fault(name_at, "a name must be UTF-8"));
        }
        before = name;
        let value_at = at(rest);
        let coded = take_shortest_slice(&mut rest).ok_or(fault(
            value_at,
            "a value is cut short or its length not in its shortest form",
        ))?;
        coded::decode(coded).map_err(|what| fault(value_at, what))?;
    }
    if !rest.is_empty() {
        return Err(fault(at(rest), "nothing may stand behind the last field"));
    }
    Ok(RecordView { bytes, fields })
}

/// Takes a length in its shortest form and that many bytes.
fn take_shortest_slice<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = take_shortest(input)?;
    take_bytes(input, usize::try_from(len).ok()?)
}

/// The coded value of a field. Stops at the first name that is greater.
#[inline]
fn find<'a>(fields: Walk<'a>, name: &str) -> Option<&'a [u8]> {
    for (found, coded) in fields {
        match found.cmp(name.as_bytes()) {
            Ordering::Less => {}
            Ordering::Equal => return Some(coded),
            Ordering::Greater => break,
        }
    }
    None
}

/// True if bytes begin as a record does, and could hold as many fields as they speak of: a check of
/// the first bytes only, which [`RecordView::parse`] may still refuse. Every record passes. No
/// ASCII text does, nor any text of less than 64 KiB.
#[inline]
pub fn looks_like_record(bytes: &[u8]) -> bool {
    Walk::begin(bytes).is_some()
}

/// The coded value of one field, without checking the record: for scans over many values, and for
/// indexes.
///
/// Of a record the answer is that of [`RecordView::coded`]. Of bytes that do not pass
/// [`looks_like_record`] it is `None`. Of other bytes that are no record it depends on the bytes
/// alone: fields are walked by their lengths up to a name that is equal, or greater, or to the
/// first field that does not lie inside; what is behind that is not looked at. Then it is `None`,
/// or some part of `bytes`, which may be empty and need not be a coded value:
/// [`FieldRef::from_coded`] checks that. Nothing makes it panic or read outside of `bytes`.
///
/// # Cost
/// Two lengths and one comparison for each field up to the one asked for. Allocates nothing.
#[inline]
pub fn find_coded<'a>(bytes: &'a [u8], name: &str) -> Option<&'a [u8]> {
    find(Walk::begin(bytes)?, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::{FieldValue, Record};

    fn sample() -> Record {
        Record::new().with("b", 1).with("dd", "text").with("f", FieldValue::Null)
    }

    fn encoded() -> Vec<u8> {
        sample().encode().expect("encodes")
    }

    #[test]
    fn fields_are_found_and_walked_in_place() {
        let bytes = encoded();
        let view = RecordView::parse(&bytes).expect("a record");
        assert_eq!((view.len(), view.is_empty(), view.as_bytes()), (3, false, &bytes[..]));
        assert_eq!(view.get("b"), Some(FieldRef::Int(1)));
        assert_eq!(view.get("dd"), Some(FieldRef::Text("text")));
        assert_eq!(view.get("f"), Some(FieldRef::Null));
        for absent in ["", "a", "bb", "d", "ddd", "e", "g"] {
            assert_eq!((view.get(absent), view.coded(absent)), (None, None), "{absent}");
            assert_eq!(find_coded(&bytes, absent), None, "{absent}");
        }
        for (name, value) in view.iter() {
            assert_eq!(find_coded(&bytes, name), Some(&value.coded()[..]));
            assert_eq!(view.coded(name), find_coded(&bytes, name));
        }
        assert_eq!(view.iter().collect::<Record>(), sample());
    }

    #[test]
    fn one_field_is_set_added_or_removed_at_any_place() {
        let bytes = encoded();
        let view = RecordView::parse(&bytes).expect("a record");
        for name in ["a", "b", "c", "dd", "e", "f", "g"] {
            for value in
                [FieldValue::Null, (-1).into(), "a longer text".into(), vec![0; 200].into()]
            {
                let changed = view.with_field(name, &value).expect("a name");
                assert_eq!(changed, sample().with(name, value).encode().expect("encodes"));
                assert_eq!(changed.capacity(), changed.len());
            }
            let mut record = sample();
            record.remove(name);
            assert_eq!(view.without_field(name), record.encode().expect("encodes"), "{name}");
        }
        for name in ["".to_owned(), "n".repeat(256)] {
            assert!(view.with_field(&name, 1).is_err());
            assert_eq!(view.without_field(&name), bytes);
        }
    }

    #[test]
    fn the_head_grows_and_shrinks_with_the_number_of_fields() {
        let full: Record = (0..128).map(|nth| (format!("{nth:03}"), nth)).collect();
        let mut less = full.clone();
        less.remove("064");
        let (full, less) = (full.encode().expect("encodes"), less.encode().expect("encodes"));
        let view = |bytes| RecordView::parse(bytes).expect("a record");
        assert_eq!(view(&full).without_field("064"), less);
        assert_eq!(view(&less).with_field("064", 64).expect("a name"), full);
    }

    #[test]
    fn what_is_no_record_is_refused_and_says_where_and_why() {
        let named = |name: &[u8]| [&[0xe1, 1, name.len() as u8][..], name, &[1, 1]].concat();
        let long = [&[0xe1, 1, 0x80, 2][..], &[b'n'; 256], &[1, 1]].concat();
        let rows: [(Vec<u8>, usize, &str); 20] = [
            (vec![], 0, "begins with the byte 0xe1"),
            (vec![0xe0, 0], 0, "begins with the byte 0xe1"),
            (vec![0xe1], 1, "number of fields is cut short"),
            (vec![0xe1, 0x80], 1, "number of fields is cut short"),
            (vec![0xe1, 0x80, 0], 1, "not in its shortest form"),
            (vec![0xe1, 1], 1, "too few for the number"),
            (vec![0xe1, 2, 1, b'a', 1, 1, 1, b'b', 1], 1, "too few for the number"),
            (vec![0xe1, 1, 9, b'a', 1, 1], 2, "a name is cut short"),
            (vec![0xe1, 1, 0x81, 0, b'a', 1, 1], 2, "its length not in its shortest form"),
            (named(b""), 1, "too few for the number"),
            (vec![0xe1, 1, 0, 1, 1, 1], 2, "1 to 255 bytes"),
            (long, 2, "1 to 255 bytes"),
            (named(&[0xff]), 2, "a name must be UTF-8"),
            (vec![0xe1, 2, 1, b'a', 1, 1, 1, b'a', 1, 1], 6, "none may stand twice"),
            (vec![0xe1, 2, 1, b'b', 1, 1, 1, b'a', 1, 1], 6, "names must ascend"),
            (vec![0xe1, 1, 1, b'a', 2, 1], 4, "a value is cut short"),
            (vec![0xe1, 1, 1, b'a', 0x81, 0, 1], 4, "its length not in its shortest form"),
            (vec![0xe1, 1, 1, b'a', 0, 0], 4, "lacks the byte"),
            (vec![0xe1, 1, 1, b'a', 2, 0x30, 0xff], 4, "text must be UTF-8"),
            (vec![0xe1, 0, 0], 2, "nothing may stand behind"),
        ];
        for (bytes, at, why) in rows {
            let error = RecordView::parse(&bytes).expect_err("refused");
            assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
            let message = error.to_string();
            assert!(message.contains(&format!("byte {at}: ")), "{bytes:x?}: {message}");
            assert!(message.contains(why), "{bytes:x?}: {message}");
        }
    }

    #[test]
    fn a_field_is_found_in_front_of_damage_and_not_behind_a_greater_name() {
        let mut bytes = encoded();
        bytes.truncate(bytes.len() - 1);
        assert!(RecordView::parse(&bytes).is_err());
        assert!(looks_like_record(&bytes));
        assert_eq!(find_coded(&bytes, "dd"), Some(&b"\x30text"[..]));
        assert_eq!(find_coded(&bytes, "f"), None);
        // Out of order: "a" stands behind "b".
        let bytes = [0xe1, 2, 1, b'b', 1, 2, 1, b'a', 1, 3];
        assert_eq!(find_coded(&bytes, "a"), None);
        assert_eq!(find_coded(&bytes, "b"), Some(&[2][..]));
        // No coded value, and not even a byte.
        assert_eq!(find_coded(&[0xe1, 1, 1, b'a', 0, 0], "a"), Some(&[][..]));
        assert!(!looks_like_record(b"some text"));
        assert!(!looks_like_record(&[0xe1, 1, 1, b'a', 0]));
        assert!(looks_like_record(&[0xe1, 0]));
    }
}
