//! A value handed to the user without copying it out of the block it stands in.

use esker_base::heap::SharedBytes;
use std::fmt;
use std::ops::Deref;

/// Bytes of a value: a window into shared memory (usually a cached block), or a copy of its own.
///
/// Cheap to clone. As long as it lives, so does the block (a few KiB) that it points into.
#[derive(Clone)]
pub struct Value {
    data: SharedBytes,
    start: u32,
    end: u32,
}

impl Value {
    /// A window `[start, end)` of `data`. Panics if it does not lie inside.
    #[inline]
    pub fn shared(data: SharedBytes, start: usize, end: usize) -> Value {
        // Shared bytes are below 4 GiB.
        assert!(start <= end && end <= data.len());
        Value { data, start: start as u32, end: end as u32 }
    }

    /// A copy.
    #[inline]
    pub fn copied(bytes: &[u8]) -> Value {
        Value::shared(bytes.into(), 0, bytes.len())
    }
}

impl Deref for Value {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.data[self.start as usize..self.end as usize]
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Value {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl Eq for Value {}
