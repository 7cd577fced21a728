//! A block as it stands in a file, to be copied into another.
//!
//! Invariant: the checksum goes along and is only bound to the new place, so that whatever happens
//! to the bytes on the way is noticed by whoever reads the copy.

use super::TRAILER_BYTES;
use esker_base::checksum;
use esker_base::heap::SharedBytes;

/// The stored form of a block and its codec.
#[derive(Clone, Debug)]
pub(crate) struct StoredBlock {
    data: SharedBytes,
    start: usize,
    /// Where the codec ends.
    end: usize,
    /// Bound to no place.
    crc: u32,
}

impl StoredBlock {
    /// The block at `start` of `data`, of so many bytes without its trailer; `None` if `data` ends
    /// before it does.
    ///
    /// Checks nothing: [`open_payload`](super::open_payload) does.
    pub(crate) fn new(
        data: &SharedBytes,
        start: usize,
        stored: usize,
        salt: u64,
        offset_bytes: u64,
    ) -> Option<StoredBlock> {
        let whole = data.get(start..)?.get(..stored + TRAILER_BYTES)?;
        let (summed, sum) = whole.split_last_chunk()?;
        // Binding is its own inverse.
        let crc = checksum::bind(u32::from_le_bytes(*sum), salt, offset_bytes);
        Some(StoredBlock { data: data.clone(), start, end: start + summed.len(), crc })
    }

    /// Appends it with the trailer that belongs to another file and place. Returns the stored bytes
    /// without the trailer.
    pub(crate) fn copy_to(&self, out: &mut Vec<u8>, salt: u64, offset_bytes: u64) -> u32 {
        let summed = &self.data[self.start..self.end];
        out.extend_from_slice(summed);
        out.extend_from_slice(&checksum::bind(self.crc, salt, offset_bytes).to_le_bytes());
        (summed.len() - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Sealer, open_payload};
    use crate::options::Compression;
    use esker_base::heap::Heap;

    /// A block in a file of salt 3, at 4 of `data` and at 40 of the file.
    fn sealed(payload: &[u8]) -> (Vec<u8>, usize) {
        let mut out = b"else".to_vec();
        out.extend_from_slice(payload);
        let stored = Sealer::new().seal(&mut out, 4, Compression::Lz4, 3, 40);
        out.extend_from_slice(b"and more");
        (out, stored as usize)
    }

    fn copied(data: &[u8], stored: usize) -> (SharedBytes, usize) {
        let block = StoredBlock::new(&data.into(), 4, stored, 3, 40).expect("it is whole");
        let mut out = b"before".to_vec();
        let again = block.copy_to(&mut out, 5, 600);
        assert_eq!((again as usize, out.len()), (stored, 6 + stored + TRAILER_BYTES));
        (SharedBytes::from(&out[..]), stored)
    }

    #[test]
    fn a_copy_is_what_would_have_been_written() {
        for payload in [&[7; 3_000][..], b"x", b""] {
            let (data, stored) = sealed(payload);
            let (copy, stored) = copied(&data, stored);
            let opened = open_payload(&Heap::global(), &copy, 6, stored, 5, 600).expect("opens");
            assert_eq!(opened.bytes(), payload);
            let mut anew = b"before".to_vec();
            anew.extend_from_slice(payload);
            Sealer::new().seal(&mut anew, 6, Compression::Lz4, 5, 600);
            assert_eq!(copy[..], anew[..]);
        }
    }

    #[test]
    fn what_was_damaged_before_is_damaged_after() {
        let (data, stored) = sealed(b"a few bytes that do not shrink");
        for at in 4..4 + stored + TRAILER_BYTES {
            let mut bad = data.clone();
            bad[at] ^= 0x10;
            let (copy, stored) = copied(&bad, stored);
            let opened = open_payload(&Heap::global(), &copy, 6, stored, 5, 600);
            assert!(opened.is_err(), "byte {at}");
        }
    }

    #[test]
    fn what_is_cut_short_is_none() {
        let (data, stored) = sealed(b"payload");
        let whole = 4 + stored + TRAILER_BYTES;
        for end in [0, 3, 4, 8, whole - 1] {
            let cut = SharedBytes::from(&data[..end]);
            assert!(StoredBlock::new(&cut, 4, stored, 3, 40).is_none(), "{end}");
        }
        assert!(StoredBlock::new(&SharedBytes::from(&data[..whole]), 4, stored, 3, 40).is_some());
    }
}
