//! Fields: values that are records of named, typed fields, without a schema.
//!
//! The store keeps values as they are; a record is one kind of bytes that a value may be. Elsewhere
//! in the engine *record* means an entry of a log or a table; in this module it is a value made of
//! fields.
//!
//! Flow: [`Record`] -> `encode` -> value; value -> [`RecordView`] or [`find_coded`] -> a field, as
//! [`FieldRef`] or in its coded form -> [`index`] -> key.
//! Format: docs/format/fields.md.
//! Invariants: (1) a record has one encoding, and nothing else is accepted; (2) coded values
//! compare as bytes as the values themselves do; (3) no bytes make reading panic, or take more
//! memory than a small multiple of their number.
//!
//! ```
//! use esker::fields::{Record, RecordView, find_coded};
//!
//! let bread = Record::new().with("name", "bread").with("price", 2.5).with("left", 12);
//! let value = bread.encode()?;
//!
//! // Checked once and read in place.
//! let view = RecordView::parse(&value)?;
//! assert_eq!(view.get("left").and_then(|left| left.as_int()), Some(12));
//!
//! // One field changed, the others copied as they stand.
//! let less = view.with_field("left", 11)?;
//! assert!(find_coded(&less, "left") < find_coded(&value, "left"));
//! assert_eq!(Record::decode(&less)?, bread.with("left", 11));
//! # Ok::<(), esker::Error>(())
//! ```

mod coded;
mod format;
#[doc(hidden)]
pub mod index;
mod record;
#[cfg(test)]
mod tests;
mod value;
mod view;

pub use format::NAME_BYTES_MAX;
pub(crate) use format::check_name;
pub use record::Record;
pub use value::{FieldRef, FieldValue};
pub use view::{RecordView, find_coded, looks_like_record};
