//! A reader of LevelDB stores: logs, manifest and tables, as LevelDB documents them. Reads only.
//!
//! ```text
//! CURRENT -> MANIFEST: live tables by level, oldest log --> logs: newest records, in memory
//!                                                     \--> tables: a cursor per level
//! Store::next merges them by key; the newest record of a key wins, deletions are left out.
//! ```
//! Every checksum is verified. A record cut short at the end of a log is what a crash leaves: it is
//! reported and left out. Anything else that does not hold is Corruption.

mod block;
mod edit;
mod log;
mod store;
mod table;

pub(crate) use store::{Entry, Store};

use crate::failure::{Code, Failure};
use esker::base::checksum::crc32c;
use std::path::Path;

/// Damage at a place in a file of the store.
fn damaged(path: &Path, offset_bytes: u64, what: &str) -> Failure {
    let path = path.display();
    Failure::new(
        Code::Corruption,
        format!("corruption in {path} at offset {offset_bytes}: {what}: restore the source"),
    )
}

/// Stored checksums are rotated and shifted, so that a checksum of bytes with checksums in them is
/// sound.
fn unmask(stored: u32) -> u32 {
    let rotated = stored.wrapping_sub(0xa282_ead8);
    rotated.rotate_left(15)
}

/// True if the parts together have the checksum stored for them.
fn checks(stored: u32, bytes: &[u8]) -> bool {
    unmask(stored) == crc32c(bytes)
}

/// Splits an internal key into the user's key, the sequence number and the kind.
fn split_key(internal: &[u8]) -> Option<(&[u8], u64, u8)> {
    let (key, trailer) = internal.split_last_chunk::<8>()?;
    let trailer = u64::from_le_bytes(*trailer);
    Some((key, trailer >> 8, trailer as u8))
}

/// Kinds of records.
const KIND_DELETE: u8 = 0;
const KIND_PUT: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_unmasked() {
        // Masking as LevelDB describes it: rotate right by 15 bits, add a constant.
        let crc = crc32c(b"foo");
        let masked = crc.rotate_right(15).wrapping_add(0xa282_ead8);
        assert_eq!(unmask(masked), crc);
        assert!(checks(masked, b"foo"));
        assert!(!checks(masked, b"fop"));
    }

    #[test]
    fn keys_are_split() {
        assert_eq!(split_key(b"k\x01\x05\0\0\0\0\0\0"), Some((&b"k"[..], 5, 1)));
        assert_eq!(split_key(b"short"), None);
    }
}
