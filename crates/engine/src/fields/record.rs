//! A record that is built, changed and encoded.

use super::format::{check_name, field_bytes, head_bytes, put_field, put_head};
use super::value::FieldValue;
use super::view::RecordView;
use esker_base::Result;
use std::collections::BTreeMap;

/// Named values: a value of the store as a person sees it.
///
/// Fields are in the order of the bytes of their names. Building one cannot fail; a name that is
/// empty or too long is reported when the record is encoded. To read one field, or to change one,
/// [`RecordView`] needs no copy of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    fields: BTreeMap<String, FieldValue>,
}

impl Record {
    /// A record without fields.
    pub fn new() -> Record {
        Record::default()
    }

    /// The record with this field, in the place of one of the same name.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<FieldValue>) -> Record {
        self.set(name, value);
        self
    }

    /// Sets a field. Returns what it held before.
    ///
    /// `name`: 1 to 255 bytes, or [`Record::encode`] refuses the record.
    pub fn set(
        &mut self,
        name: impl Into<String>,
        value: impl Into<FieldValue>,
    ) -> Option<FieldValue> {
        self.fields.insert(name.into(), value.into())
    }

    /// Removes a field. Returns what it held.
    pub fn remove(&mut self, name: &str) -> Option<FieldValue> {
        self.fields.remove(name)
    }

    /// What a field holds; `None` if there is no such field, which is not the same as null.
    pub fn get(&self, name: &str) -> Option<&FieldValue> {
        self.fields.get(name)
    }

    /// Names and values, in the order of the names.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &FieldValue)> + ExactSizeIterator {
        self.fields.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// How many fields it has.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// True if it has no field.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The bytes of the record. Equal records have equal bytes.
    ///
    /// # Errors
    /// `InvalidArgument`: a name is empty or longer than 255 bytes.
    /// # Cost
    /// One allocation, of the size needed.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let count = self.fields.len() as u64;
        let mut bytes = head_bytes(count);
        for (name, value) in &self.fields {
            check_name(name)?;
            bytes += field_bytes(name, value.as_ref());
        }
        let mut out = Vec::with_capacity(bytes);
        put_head(&mut out, count);
        for (name, value) in &self.fields {
            put_field(&mut out, name, value.as_ref());
        }
        Ok(out)
    }

    /// The record of these bytes.
    ///
    /// # Errors
    /// `InvalidArgument`: they are not what [`Record::encode`] makes; it says where and why.
    /// # Cost
    /// Copies every name and value.
    pub fn decode(bytes: &[u8]) -> Result<Record> {
        Ok(RecordView::parse(bytes)?.iter().collect())
    }
}

/// Of fields with the same name the last one stays.
impl<N: Into<String>, V: Into<FieldValue>> FromIterator<(N, V)> for Record {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(fields: I) -> Record {
        let fields = fields.into_iter().map(|(name, value)| (name.into(), value.into()));
        Record { fields: fields.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_set_changed_and_removed_and_stay_in_order() {
        let mut record = Record::new().with("b", 2).with("a", "1").with("é", None::<i64>);
        assert_eq!((record.len(), record.is_empty()), (3, false));
        assert_eq!(record.set("b", 3), Some(FieldValue::Int(2)));
        assert_eq!(record.set("c", true), None);
        assert_eq!(record.get("b"), Some(&FieldValue::Int(3)));
        assert_eq!(record.get("é"), Some(&FieldValue::Null));
        assert_eq!(record.get("x"), None);
        assert_eq!(record.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "b", "c", "é"]);
        assert_eq!(record.remove("a"), Some(FieldValue::Text("1".to_owned())));
        assert_eq!(record.remove("a"), None);
        let same: Record = [("é", None), ("c", Some(true))].into_iter().collect();
        assert_eq!(record.with("b", 0).iter().skip(1).collect::<Vec<_>>(), {
            same.iter().collect::<Vec<_>>()
        });
    }

    #[test]
    fn a_record_without_fields_is_two_bytes() {
        assert!(Record::new().is_empty());
        assert_eq!(Record::new().encode().expect("encodes"), [0xe1, 0]);
        assert_eq!(Record::decode(&[0xe1, 0]).expect("decodes"), Record::new());
    }

    #[test]
    fn names_are_checked_when_the_record_is_encoded() {
        let longest = "n".repeat(255);
        let encoded = Record::new().with(longest.as_str(), 1).encode().expect("the longest name");
        assert!(Record::decode(&encoded).expect("decodes").get(&longest).is_some());
        for name in [String::new(), "n".repeat(256)] {
            let error = Record::new().with("a", 1).with(name, 1).encode().expect_err("refused");
            assert!(error.to_string().contains("1 to 255"), "{error}");
        }
    }

    #[test]
    fn the_size_is_known_before_encoding() {
        let record = Record::new().with("n".repeat(200), "v".repeat(20_000)).with("a", 0.5);
        let encoded = record.encode().expect("encodes");
        let fields: usize = record.iter().map(|(name, v)| field_bytes(name, v.as_ref())).sum();
        assert_eq!(encoded.len(), head_bytes(2) + fields);
    }
}
