//! A block of a table: records with shared prefixes, and where some of them begin.

use super::checks;
use esker::base::coding::take_varint_u32;

/// Compression (1) and checksum (4) after each block.
pub(super) const TRAILER_BYTES: u64 = 5;

/// Snappy cannot make a block smaller than this part of it.
const SNAPPY_RATIO_MAX: usize = 32;

/// Walks the records of a block from first to last.
#[derive(Debug, Default)]
pub(super) struct Block {
    bytes: Vec<u8>,
    /// End of the records.
    end: usize,
    at: usize,
    /// Key of the record that was read last.
    pub(super) key: Vec<u8>,
}

/// Checks a block with its trailer and takes the compression away.
pub(super) fn unpack(mut stored: Vec<u8>) -> Result<Vec<u8>, &'static str> {
    let Some((covered, crc)) = stored.split_last_chunk::<4>() else {
        return Err("a block is too short");
    };
    if !checks(u32::from_le_bytes(*crc), covered) {
        return Err("the checksum of a block is wrong");
    }
    let Some((compression, packed)) = covered.split_last() else {
        return Err("a block is too short");
    };
    match compression {
        0 => {
            stored.truncate(stored.len() - TRAILER_BYTES as usize);
            Ok(stored)
        }
        1 => {
            let wrong = |_| "a block cannot be decompressed";
            let length = snap::raw::decompress_len(packed).map_err(wrong)?;
            if length > packed.len() * SNAPPY_RATIO_MAX + 64 {
                return Err("a block claims to be longer than it can be");
            }
            snap::raw::Decoder::new().decompress_vec(packed).map_err(wrong)
        }
        _ => Err("a block has a compression that is not Snappy"),
    }
}

impl Block {
    /// Stands before the first record.
    pub(super) fn new(bytes: Vec<u8>) -> Result<Block, &'static str> {
        let (rest, restarts) = bytes.split_last_chunk::<4>().ok_or("a block is too short")?;
        let restarts = u32::from_le_bytes(*restarts) as usize;
        let end = restarts.checked_mul(4).and_then(|n| rest.len().checked_sub(n));
        let end = end.ok_or("a block is shorter than its restart points")?;
        Ok(Block { bytes, end, at: 0, key: Vec::new() })
    }

    /// Reads the next record into `key`; returns its value, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, &'static str> {
        if self.at >= self.end {
            return Ok(None);
        }
        let mut input = &self.bytes[self.at..self.end];
        let mut number = || take_varint_u32(&mut input).map(|n| n as usize);
        let malformed = "a record of a block is malformed";
        let (Some(shared), Some(own), Some(value)) = (number(), number(), number()) else {
            return Err(malformed);
        };
        if shared > self.key.len() || own > input.len() || value > input.len() - own {
            return Err(malformed);
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(&input[..own]);
        let start = self.end - input.len() + own;
        self.at = start + value;
        Ok(Some(&self.bytes[start..start + value]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_share_prefixes() {
        let mut bytes = vec![0, 3, 1];
        bytes.extend(b"abc1");
        bytes.extend([2, 1, 2]);
        bytes.extend(b"d22");
        bytes.extend([0, 0, 0, 0, 1, 0, 0, 0]);
        for cut in 0..bytes.len() {
            // Whatever is cut off, nothing panics.
            if let Ok(mut block) = Block::new(bytes[..cut].to_vec()) {
                while let Ok(Some(_)) = block.next() {}
            }
        }
        let mut block = Block::new(bytes).expect("well formed");
        assert_eq!(block.next(), Ok(Some(&b"1"[..])));
        assert_eq!(block.key, b"abc");
        assert_eq!(block.next(), Ok(Some(&b"22"[..])));
        assert_eq!(block.key, b"abd");
        assert_eq!(block.next(), Ok(None));
    }
}
