//! Key orders of the model, and how each is expressed as a plain order of bytes.

use esker::{Comparator, FilterPolicy, KeyOrder};
use std::cmp::Ordering;
use std::sync::Arc;

/// An order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderKind {
    /// Plain bytes.
    Bytewise,
    /// Plain bytes, reversed.
    Reverse,
    /// Letters without regard to case: different bytes can be the same key.
    Caseless,
}

impl OrderKind {
    /// The order for the store.
    pub fn order(self) -> KeyOrder {
        match self {
            OrderKind::Bytewise => KeyOrder::Bytewise,
            OrderKind::Reverse => KeyOrder::Custom(Arc::new(Reverse)),
            OrderKind::Caseless => KeyOrder::Custom(Arc::new(Caseless)),
        }
    }

    /// A key for the model: in plain byte order, these stand as the store's keys do.
    ///
    /// Right for reversed keys only because all keys of the model have one length.
    pub fn model_key(self, key: &[u8]) -> Vec<u8> {
        match self {
            OrderKind::Bytewise => key.to_vec(),
            OrderKind::Reverse => key.iter().map(|byte| !byte).collect(),
            OrderKind::Caseless => key.to_ascii_lowercase(),
        }
    }
}

struct Reverse;

impl Comparator for Reverse {
    fn name(&self) -> &str {
        "gates.reverse"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }

    fn equal_means_identical(&self) -> bool {
        true
    }
}

struct Caseless;

impl Comparator for Caseless {
    fn name(&self) -> &str {
        "gates.caseless"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
}

/// A filter that knows the last bytes of keys. It makes no difference where an order makes none, as
/// policies must not.
pub(super) struct LastByte;

impl FilterPolicy for LastByte {
    fn name(&self) -> &str {
        "gates.last-byte"
    }

    fn build(&self, keys: &[&[u8]]) -> Vec<u8> {
        let mut seen: Vec<u8> =
            keys.iter().filter_map(|key| key.last().map(u8::to_ascii_lowercase)).collect();
        seen.sort_unstable();
        seen.dedup();
        seen
    }

    fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
        key.last().is_none_or(|last| filter.contains(&last.to_ascii_lowercase()))
    }
}
