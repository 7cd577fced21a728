//! Values that compress as much as real ones do.
//!
//! Source: `db_bench` cuts values out of a megabyte whose every piece of 100 bytes is random for a
//! half and repeats it; so does this.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus as Random;

const POOL_BYTES: usize = 1 << 20;
const PIECE_BYTES: usize = 100;

/// Gives out values.
#[derive(Debug)]
pub struct Values {
    pool: Vec<u8>,
    at: usize,
    bytes: usize,
}

impl Values {
    /// Values of `bytes` that compress to about `ratio` of that, between 0 and 1.
    pub fn new(random: &mut Random, bytes: usize, ratio: f64) -> Values {
        let fresh = ((PIECE_BYTES as f64 * ratio) as usize).clamp(1, PIECE_BYTES);
        let mut pool = Vec::with_capacity(POOL_BYTES.max(bytes) + PIECE_BYTES);
        while pool.len() < POOL_BYTES.max(bytes) {
            let piece = pool.len();
            pool.extend((0..fresh).map(|_| random.random_range(b' '..=b'~')));
            while pool.len() < piece + PIECE_BYTES {
                let missing = piece + PIECE_BYTES - pool.len();
                pool.extend_from_within(piece..piece + fresh.min(missing));
            }
        }
        Values { pool, at: 0, bytes }
    }

    /// The next value.
    #[inline]
    pub fn give(&mut self) -> &[u8] {
        if self.at + self.bytes > self.pool.len() {
            self.at = 0;
        }
        let start = self.at;
        self.at += self.bytes;
        &self.pool[start..start + self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn values_have_their_length_and_differ() {
        for bytes in [1, 100, 5_000, 3 << 20] {
            let mut values = Values::new(&mut Random::seed_from_u64(1), bytes, 0.5);
            let first = values.give().to_vec();
            assert_eq!((first.len(), values.give().len()), (bytes, bytes));
        }
        let mut values = Values::new(&mut Random::seed_from_u64(1), 100, 0.5);
        let first = values.give().to_vec();
        assert_ne!(first, values.give());
        assert_eq!(first[..50], first[50..], "a half of each piece repeats");
    }
}
