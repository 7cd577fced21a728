//! Which values of a field are looked for: what was typed, as every type that it can be read as.

use crate::bytes::printable;
use crate::failure::{Failure, Result};
use crate::fields::Type;
use esker::fields::{FieldRef, FieldValue};
use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};

/// What was typed.
#[derive(Clone, Debug)]
pub(crate) enum Typed {
    /// This value.
    Value(Vec<u8>),
    /// From the first value to the second, exclusive; without one, from or to the end of the type.
    Range(Option<Vec<u8>>, Option<Vec<u8>>),
    /// All values.
    All,
}

/// Values from one bound to another.
pub(crate) type ValueRange = (Bound<FieldValue>, Bound<FieldValue>);

/// Ranges of values, in ascending order and apart from each other. None ends before it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lookup(pub(crate) Vec<ValueRange>);

impl Lookup {
    /// What was typed, as this type, or as every one that it can be read as. Bytes are typed only
    /// where they are no UTF-8.
    ///
    /// # Errors
    /// `Usage`: it is no value of the type, or the range ends before it starts.
    pub(crate) fn new(typed: &Typed, kind: Option<Type>) -> Result<Lookup> {
        let read = |kind: Type, typed: &[u8]| kind.read(typed).ok_or(Refused::NotOfType);
        let range_of = |kind: Type| match typed {
            Typed::Value(value) => {
                let value = read(kind, value)?;
                Ok((Bound::Included(value.clone()), Bound::Included(value)))
            }
            Typed::Range(from, to) => {
                let from = from.as_ref().map(|from| read(kind, from)).transpose()?;
                let to = to.as_ref().map(|to| read(kind, to)).transpose()?;
                if from
                    .as_ref()
                    .zip(to.as_ref())
                    .is_some_and(|(a, b)| a.cmp(b) == Ordering::Greater)
                {
                    return Err(Refused::Backwards);
                }
                let (start, end) = whole(kind);
                Ok((from.map_or(start, Bound::Included), to.map_or(end, Bound::Excluded)))
            }
            Typed::All => Ok(whole(kind)),
        };
        match kind {
            Some(kind) => match range_of(kind) {
                Ok(range) => Ok(Lookup(vec![range])),
                Err(refused) => Err(refused.explain(typed, kind)),
            },
            None if matches!(typed, Typed::All) => {
                Ok(Lookup(vec![(Bound::Unbounded, Bound::Unbounded)]))
            }
            None => {
                let is_text = typed.parts().all(|part| std::str::from_utf8(part).is_ok());
                let kinds = Type::ALL.into_iter().filter(|&kind| kind != Type::Bytes || !is_text);
                let ranges: Vec<_> = kinds.flat_map(range_of).collect();
                // As text, or else as bytes, everything can be read.
                match ranges.is_empty() {
                    true => Err(backwards()),
                    false => Ok(Lookup(ranges)),
                }
            }
        }
    }

    /// True if this value is looked for.
    pub(crate) fn contains(&self, value: FieldRef<'_>) -> bool {
        self.0.iter().any(|range| borrowed(range).contains(&value))
    }
}

/// The same range, borrowed.
pub(crate) fn borrowed((start, end): &ValueRange) -> (Bound<FieldRef<'_>>, Bound<FieldRef<'_>>) {
    (start.as_ref().map(FieldValue::as_ref), end.as_ref().map(FieldValue::as_ref))
}

/// All values of a type.
fn whole(kind: Type) -> ValueRange {
    use Bound::{Excluded, Included, Unbounded};
    let empty = || FieldValue::Bytes(Vec::new());
    match kind {
        Type::Null => (Included(FieldValue::Null), Included(FieldValue::Null)),
        Type::Boolean => (Included(false.into()), Included(true.into())),
        Type::Integer => (Included(i64::MIN.into()), Included(i64::MAX.into())),
        Type::Float => (Included(f64::NEG_INFINITY.into()), Included(f64::NAN.into())),
        // The first value that is no text any more.
        Type::Text => (Included("".into()), Excluded(empty())),
        Type::Bytes => (Included(empty()), Unbounded),
    }
}

/// Why something typed is no range of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    NotOfType,
    Backwards,
}

impl Refused {
    fn explain(self, typed: &Typed, kind: Type) -> Failure {
        match self {
            Refused::Backwards => backwards(),
            Refused::NotOfType => {
                let wrong = typed.parts().find(|part| kind.read(part).is_none());
                let wrong = printable(wrong.unwrap_or_default());
                let kind = kind.name();
                Failure::usage(format!(
                    "{wrong:?} is no value of type {kind}: change it, or --type"
                ))
            }
        }
    }
}

fn backwards() -> Failure {
    Failure::usage("the range ends before it starts: swap --from and --to")
}

impl Typed {
    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let (first, second) = match self {
            Typed::Value(value) => (Some(value), None),
            Typed::Range(from, to) => (from.as_ref(), to.as_ref()),
            Typed::All => (None, None),
        };
        first.into_iter().chain(second).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(typed: &str) -> Typed {
        Typed::Value(typed.as_bytes().to_vec())
    }

    fn range(from: &str, to: &str) -> Typed {
        let some = |text: &str| (!text.is_empty()).then(|| text.as_bytes().to_vec());
        Typed::Range(some(from), some(to))
    }

    /// Values of all types, in order.
    fn samples() -> Vec<FieldValue> {
        let mut samples: Vec<FieldValue> = vec![FieldValue::Null, false.into(), true.into()];
        samples.extend([i64::MIN, -1, 0, 1, 5, 9, 10, i64::MAX].map(FieldValue::from));
        samples
            .extend([f64::NEG_INFINITY, 0.0, 1.0, 5.5, 10.0, f64::INFINITY].map(FieldValue::from));
        samples.push(f64::NAN.into());
        samples
            .extend(["", "1", "10", "5", "9", "null", "true", "\u{10ffff}"].map(FieldValue::from));
        samples.extend([&b""[..], b"\0", b"5", b"\xff\xff"].map(FieldValue::from));
        samples
    }

    #[test]
    fn each_sample_is_found_where_it_should_be() {
        for (typed, kind, wanted) in [
            (value("5"), None, "Int(5) Text(\"5\")"),
            (value("1"), None, "Int(1) Float(1.0) Text(\"1\")"),
            (value("5"), Some(Type::Text), "Text(\"5\")"),
            (value("5"), Some(Type::Bytes), "Bytes([53])"),
            (value("true"), None, "Bool(true) Text(\"true\")"),
            (value("null"), None, "Null Text(\"null\")"),
            (range("9", "10"), None, "Int(9)"),
            (range("5", "9"), None, "Int(5) Float(5.5) Text(\"5\")"),
            (range("0", "0.5"), None, "Float(0.0)"),
            (range("", "1"), Some(Type::Integer), "Int(-9223372036854775808) Int(-1) Int(0)"),
            (range("10", ""), Some(Type::Float), "Float(10.0) Float(inf) Float(NaN)"),
            (
                range("9", ""),
                Some(Type::Text),
                "Text(\"9\") Text(\"null\") Text(\"true\") Text(\"\\u{10ffff}\")",
            ),
            (range("z", ""), None, "Text(\"\\u{10ffff}\")"),
            (range("false", "true"), None, "Bool(false) Text(\"null\")"),
            (range("5", "5"), Some(Type::Integer), ""),
            (Typed::All, Some(Type::Null), "Null"),
            (Typed::All, Some(Type::Bytes), "Bytes([]) Bytes([0]) Bytes([53]) Bytes([255, 255])"),
        ] {
            let lookup = Lookup::new(&typed, kind).expect("a lookup");
            let found: Vec<String> = samples()
                .iter()
                .filter(|sample| lookup.contains(sample.as_ref()))
                .map(|sample| format!("{sample:?}"))
                .collect();
            assert_eq!(found.join(" "), wanted, "{typed:?} {kind:?}");
            assert!(lookup.0.is_sorted_by(ends_before), "{lookup:?}");
        }
        let all = Lookup::new(&Typed::All, None).expect("a lookup");
        assert!(samples().iter().all(|sample| all.contains(sample.as_ref())));
        let kinds = Type::ALL.map(|kind| Lookup::new(&Typed::All, Some(kind)).expect("a lookup"));
        for sample in samples() {
            let of = kinds.iter().filter(|kind| kind.contains(sample.as_ref())).count();
            assert_eq!(of, 1, "{sample:?}");
        }
    }

    fn ends_before(a: &ValueRange, b: &ValueRange) -> bool {
        match (&a.1, &b.0) {
            (Bound::Included(end), Bound::Included(start)) => end < start,
            (Bound::Excluded(end), Bound::Included(start)) => end <= start,
            _ => false,
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_looked_for_as_bytes() {
        let lookup = Lookup::new(&Typed::Value(vec![0xff, 0xff]), None).expect("a lookup");
        assert!(lookup.contains(FieldRef::Bytes(b"\xff\xff")));
        assert_eq!(lookup.0.len(), 1);
        let mixed = Typed::Range(Some(vec![b'a']), Some(vec![0xff]));
        let lookup = Lookup::new(&mixed, None).expect("a lookup");
        assert!(lookup.contains(FieldRef::Bytes(b"a")) && !lookup.contains(FieldRef::Text("a")));
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for (typed, kind, part) in [
            (value("x"), Some(Type::Integer), "\"x\" is no value of type integer"),
            (range("1", "x"), Some(Type::Float), "\"x\" is no value of type float"),
            (range("b", "a"), None, "swap --from and --to"),
            (range("5", "1"), Some(Type::Integer), "swap --from and --to"),
        ] {
            let failure = Lookup::new(&typed, kind).expect_err(part);
            assert!(failure.message.contains(part), "{}", failure.message);
        }
    }
}
