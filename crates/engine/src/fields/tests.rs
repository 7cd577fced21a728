//! Records, views and index keys on random records and on damaged ones, and the examples of the
//! format's page.

use super::index::{put_index_value, split_index_key};
use super::{FieldRef, FieldValue, Record, RecordView, find_coded, looks_like_record};
use crate::random::Random;
use std::hash::{DefaultHasher, Hash, Hasher};

impl Random {
    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }

    /// Few different bytes, so that strings share beginnings, hold zeros and what ends values in
    /// keys.
    fn bytes(&mut self, len_max: u64) -> Vec<u8> {
        let len = self.below(len_max + 1);
        (0..len).map(|_| self.pick(&[0, 1, 2, 0x7f, 0xfe, 0xff])).collect()
    }

    fn text(&mut self, len_max: u64) -> String {
        let len = self.below(len_max + 1);
        (0..len)
            .map(|_| self.pick(&['\0', '\u{1}', 'a', 'b', 'é', '\u{ffff}', '\u{1f600}']))
            .collect()
    }

    fn int(&mut self) -> i64 {
        let edge = self.pick(&[i64::MIN, -256, -1, 0, 1, 255, i64::MAX]);
        let near = edge.wrapping_add(self.below(3) as i64 - 1);
        let any = self.next().cast_signed() >> self.below(64);
        self.pick(&[near, any])
    }

    fn float(&mut self) -> f64 {
        let edge = [0.0, 1.0, f64::MIN_POSITIVE, f64::MAX, f64::INFINITY, f64::NAN, 5e-324];
        let edge = self.pick(&edge) * self.pick(&[1.0, -1.0]);
        let any = f64::from_bits(self.next());
        let whole = self.int() as f64;
        self.pick(&[edge, any, whole])
    }

    fn value(&mut self) -> FieldValue {
        match self.below(6) {
            0 => FieldValue::Null,
            1 => (self.below(2) == 0).into(),
            2 => self.int().into(),
            3 => self.float().into(),
            4 => self.text(4).into(),
            _ => self.bytes(5).into(),
        }
    }

    fn name(&mut self) -> String {
        let long = if self.below(10) == 0 {
            "n".repeat(124 + self.below(8) as usize)
        } else {
            String::new()
        };
        self.pick(&["a", "b", "c", "\0"]).to_owned() + &self.text(2) + &long
    }

    fn record(&mut self) -> Record {
        let count = if self.below(50) == 0 { 200 } else { self.below(8) };
        (0..count).map(|_| (self.name(), self.value())).collect()
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A record with every type, fields of no length and of two bytes of length.
fn sample() -> Record {
    Record::new()
        .with("a", FieldValue::Null)
        .with("b", false)
        .with("c", true)
        .with("d", -77)
        .with("e", 0.1)
        .with("f", f64::NAN)
        .with("g", "grüße")
        .with("h", vec![0; 130])
        .with("i", "")
}

/// The bytes of an example of the format's page.
fn example(name: &str) -> Vec<u8> {
    let page = include_str!("../../../../docs/format/fields.md");
    let start = format!("```hex {name}\n");
    let example = page.split(&start).nth(1).and_then(|s| s.split("```").next());
    example
        .expect("the page has an example")
        .lines()
        .flat_map(|line| line.split('|').next().unwrap_or("").split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal"))
        .collect()
}

#[test]
fn the_documented_record_is_what_is_written_and_read() {
    let bytes = example("record");
    let record = Record::new()
        .with("age", 42)
        .with("blob", b"\x00\xff")
        .with("debt", -2)
        .with("left", None::<i64>)
        .with("name", "Zoë")
        .with("open", true)
        .with("rate", -1.5)
        .with("size", 0.5);
    assert_eq!(record.encode().expect("encodes"), bytes);
    assert_eq!(Record::decode(&bytes).expect("decodes"), record);
}

#[test]
fn the_documented_index_key_is_what_is_written_and_read() {
    let bytes = example("key");
    let mut key = Vec::new();
    put_index_value(&mut key, &FieldRef::from(256).coded());
    key.extend_from_slice(b"k1");
    assert_eq!(key, bytes);
    let (coded, rest) = split_index_key(&bytes).expect("a key");
    assert_eq!(FieldRef::from_coded(&coded).expect("decodes"), FieldRef::Int(256));
    assert_eq!(rest, b"k1");
}

#[test]
fn values_are_ordered_as_their_coded_bytes() {
    let mut random = Random(1);
    for _ in 0..50_000 {
        let (a, b) = (random.value(), random.value());
        let (coded_a, coded_b) = (a.as_ref().coded(), b.as_ref().coded());
        assert_eq!(a.cmp(&b), coded_a.cmp(&coded_b), "{a:?} {b:?}");
        assert_eq!(a == b, coded_a == coded_b, "{a:?} {b:?}");
        assert!(a != b || hash(&a) == hash(&b), "{a:?} {b:?}");
        assert_eq!(hash(&a), hash(a.as_ref()));
        let back = FieldRef::from_coded(&coded_a).expect("decodes");
        assert_eq!((back.to_value(), back.coded()), (a, coded_a));
    }
}

#[test]
fn records_come_back_as_they_were() {
    let mut random = Random(2);
    for _ in 0..5_000 {
        let record = random.record();
        let bytes = record.encode().expect("encodes");
        assert_eq!(bytes.capacity(), bytes.len());
        assert_eq!(Record::decode(&bytes).expect("decodes"), record);
        assert!(looks_like_record(&bytes));
        let view = RecordView::parse(&bytes).expect("a record");
        assert_eq!(view.len(), record.len());
        assert!(view.iter().eq(record.iter().map(|(name, value)| (name, value.as_ref()))));
        let name = random.name();
        let coded = record.get(&name).map(|value| value.as_ref().coded());
        assert_eq!(view.get(&name), record.get(&name).map(FieldValue::as_ref));
        assert_eq!(view.coded(&name), coded.as_deref());
        assert_eq!(find_coded(&bytes, &name), coded.as_deref());
    }
}

#[test]
fn splicing_is_what_encoding_anew_would_be() {
    let mut random = Random(3);
    for _ in 0..5_000 {
        let mut record = random.record();
        let mut bytes = record.encode().expect("encodes");
        for _ in 0..4 {
            let (name, value) = (random.name(), random.value());
            let view = RecordView::parse(&bytes).expect("a record");
            bytes = if random.below(3) == 0 {
                record.remove(&name);
                view.without_field(&name)
            } else {
                let changed = view.with_field(&name, &value).expect("a name");
                record.set(name, value);
                changed
            };
            assert_eq!(bytes, record.encode().expect("encodes"));
        }
    }
}

#[test]
fn no_part_of_a_record_is_a_record() {
    let bytes = sample().encode().expect("encodes");
    for cut in 0..bytes.len() {
        assert!(RecordView::parse(&bytes[..cut]).is_err(), "cut at {cut}");
        assert!(Record::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        for (name, value) in sample().iter() {
            let found = find_coded(&bytes[..cut], name);
            assert!(found.is_none_or(|coded| coded == value.as_ref().coded()), "cut at {cut}");
        }
    }
}

/// Whatever else is accepted is the one encoding of another record.
#[test]
fn a_changed_record_is_refused_or_another_one() {
    let bytes = sample().encode().expect("encodes");
    let mut accepted = 0;
    let mut look = |changed: &[u8]| {
        for name in ["", "a", "e", "h", "z"] {
            let _ = find_coded(changed, name);
        }
        if let Ok(record) = Record::decode(changed) {
            assert_eq!(record.encode().expect("encodes"), changed);
            for (name, value) in record.iter() {
                assert_eq!(find_coded(changed, name), Some(&value.as_ref().coded()[..]));
            }
            accepted += 1;
        }
    };
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            look(&changed);
        }
        for byte in 0..=255 {
            let mut changed = bytes.clone();
            changed[at] = byte;
            look(&changed);
            changed.insert(at, byte);
            look(&changed);
        }
    }
    assert!(accepted > 1_000, "{accepted}");
}

#[test]
fn no_bytes_make_reading_panic() {
    let mut random = Random(4);
    for _ in 0..50_000 {
        let mut bytes = vec![0xe1, random.below(4) as u8];
        let fields = random.below(4);
        for _ in 0..fields {
            bytes.extend([
                random.below(4) as u8,
                b'a' + random.below(3) as u8,
                random.below(4) as u8,
            ]);
            bytes.extend(random.bytes(3));
        }
        if let Ok(view) = RecordView::parse(&bytes) {
            assert_eq!(view.iter().collect::<Record>().encode().expect("encodes"), bytes);
        }
        for name in ["", "a", "b", "aa"] {
            let _ = find_coded(&bytes, name);
        }
        let _ = split_index_key(&bytes);
        let _ = FieldRef::from_coded(&bytes[1..]);
    }
}

#[test]
fn index_keys_are_in_the_order_of_value_and_rest() {
    let mut random = Random(5);
    let pair = |random: &mut Random| {
        let coded = match random.below(2) {
            0 => random.value().as_ref().coded(),
            _ => random.bytes(4),
        };
        (coded, random.bytes(3))
    };
    for _ in 0..100_000 {
        let (a, b) = (pair(&mut random), pair(&mut random));
        let key = |(coded, rest): &(Vec<u8>, Vec<u8>)| {
            let mut out = Vec::new();
            put_index_value(&mut out, coded);
            out.extend_from_slice(rest);
            out
        };
        assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b), "{a:x?} {b:x?}");
        let key = key(&a);
        let (coded, rest) = split_index_key(&key).expect("a key");
        assert_eq!((&*coded, rest), (&a.0[..], &a.1[..]));
        for cut in 0..key.len() - a.1.len() {
            assert_eq!(split_index_key(&key[..cut]), None);
        }
    }
}
