//! Keys: what they look like, and which comes next.
//!
//! Source of the shapes: LevelDB's and RocksDB's `db_bench` (a number in 16 digits), and YCSB
//! (Zipf's law over ten billion ranks with an exponent of 0.99, scattered over all keys, those to
//! come among them, so that inserts move none; "latest" counts ranks of those that exist from the
//! end).

use esker::base::checksum::mix64;
use esker_draw::Outcome;
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus as Random;
use rand_distr::{Distribution as _, Zipf};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// Digits of the number in a key.
const DIGITS: usize = 16;
/// YCSB's exponent.
const ZIPF_EXPONENT: f64 = 0.99;
/// Ranks that YCSB draws from before it scatters them, however many keys there are.
const SCATTERED_RANKS: f64 = 1e10;

/// How keys are made of numbers.
#[derive(Clone, Copy, Debug)]
pub struct KeyShape {
    bytes: usize,
}

impl KeyShape {
    /// Keys of `bytes`.
    ///
    /// # Errors
    /// If that is not between 8 and 1024.
    pub fn new(bytes: usize) -> Outcome<KeyShape> {
        match bytes {
            8..=1024 => Ok(KeyShape { bytes }),
            _ => Err(format!("--key_size={bytes}: must be between 8 and 1024").into()),
        }
    }

    /// Length of a key.
    pub fn bytes(self) -> usize {
        self.bytes
    }

    /// Writes key `number` over `key`: 16 digits, then zeros; shorter keys are big-endian numbers.
    #[inline]
    pub fn write(self, number: u64, key: &mut Vec<u8>) {
        key.clear();
        key.resize(self.bytes, b'0');
        if self.bytes < DIGITS {
            key[..8].copy_from_slice(&number.to_be_bytes());
            return;
        }
        let mut rest = number;
        for digit in key[..DIGITS].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }
}

/// The numbers below a limit in an order that looks random, each once.
#[derive(Clone, Copy, Debug)]
pub struct Shuffled {
    count: u64,
    mask: u64,
    shift: u32,
}

impl Shuffled {
    /// The numbers `0..count`.
    pub fn new(count: u64) -> Shuffled {
        let bits = u64::BITS - (count.max(2) - 1).leading_zeros();
        Shuffled { count, mask: u64::MAX >> (u64::BITS - bits), shift: bits.div_ceil(2) }
    }

    /// The number at a place below the limit.
    ///
    /// What is done to `at` can be undone, so that no two places share a number; numbers beyond the
    /// limit, less than a half of all, are passed by going on from them, which leads back below it.
    #[inline]
    pub fn at(&self, mut at: u64) -> u64 {
        const ODD: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
        loop {
            for odd in ODD {
                at = (at ^ at >> self.shift).wrapping_mul(odd) & self.mask;
            }
            at ^= at >> self.shift;
            if at < self.count {
                return at;
            }
        }
    }
}

/// Which keys are popular.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Popularity {
    /// All alike.
    Uniform,
    /// A few get most of the requests, wherever they are.
    Zipfian,
    /// The newest get most of the requests.
    Latest,
}

/// Numbers of keys that exist: `0..count`, and `count` grows as records are inserted.
#[derive(Debug)]
pub struct Known {
    count: AtomicU64,
}

impl Known {
    /// The keys `0..count`.
    pub fn new(count: u64) -> Known {
        Known { count: AtomicU64::new(count) }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The number of a key that did not exist.
    pub fn insert(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }
}

/// Draws existing keys.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    popularity: Popularity,
    zipf: Zipf<f64>,
    /// Keys that ranks are scattered over: those that existed at the beginning, and more than will
    /// come.
    span: u64,
}

impl Draw {
    /// Draws among keys of which `count` exist at the beginning, while about `inserts` are added.
    ///
    /// # Errors
    /// If there are none.
    pub fn new(popularity: Popularity, count: u64, inserts: u64) -> Outcome<Draw> {
        if count == 0 {
            return Err("no keys to draw from: --num must be at least 1".into());
        }
        let ranks = match popularity {
            Popularity::Latest => count as f64,
            Popularity::Uniform | Popularity::Zipfian => SCATTERED_RANKS,
        };
        let zipf = Zipf::new(ranks, ZIPF_EXPONENT)?;
        Ok(Draw { popularity, zipf, span: count.saturating_add(inserts.saturating_mul(2)) })
    }

    /// The number of an existing key.
    #[inline]
    pub fn next(&self, known: &Known, random: &mut Random) -> u64 {
        let count = known.count();
        match self.popularity {
            Popularity::Uniform => random.random_range(0..count),
            Popularity::Zipfian => self.scattered(count, random),
            Popularity::Latest => count - 1 - self.rank(random).min(count - 1),
        }
    }

    /// A popular key among the first `count`: others do not exist yet and are drawn again.
    #[inline]
    fn scattered(&self, count: u64, random: &mut Random) -> u64 {
        loop {
            let number = mix64(self.rank(random)) % self.span;
            if number < count {
                return number;
            }
        }
    }

    /// 0 for the most popular.
    #[inline]
    fn rank(&self, random: &mut Random) -> u64 {
        self.zipf.sample(random) as u64 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn keys_sort_as_their_numbers() {
        for bytes in [8, 16, 24, 128] {
            let shape = KeyShape::new(bytes).expect("in range");
            let (mut key, mut before) = (Vec::new(), Vec::new());
            for number in [0, 1, 9, 10, 99, 12_345, 999_999_999] {
                shape.write(number, &mut key);
                assert_eq!(key.len(), bytes);
                assert!(before.is_empty() || before < key, "{number} at {bytes} bytes");
                before.clone_from(&key);
            }
        }
        assert!(KeyShape::new(7).is_err() && KeyShape::new(1025).is_err());
    }

    #[test]
    fn a_sixteen_byte_key_is_the_number_in_digits() {
        let mut key = Vec::new();
        KeyShape::new(16).expect("in range").write(42, &mut key);
        assert_eq!(key, b"0000000000000042");
    }

    #[test]
    fn shuffled_numbers_are_there_once_and_out_of_order() {
        for count in [1, 2, 3, 100, 1024, 1025, 50_000] {
            let shuffled = Shuffled::new(count);
            let all: Vec<u64> = (0..count).map(|at| shuffled.at(at)).collect();
            let mut sorted = all.clone();
            sorted.sort_unstable();
            assert!(sorted.iter().copied().eq(0..count), "{count}");
            let rises = all.windows(2).filter(|pair| pair[0] < pair[1]).count() as u64;
            assert!(
                count < 1000 || (count * 4 / 10..count * 6 / 10).contains(&rises),
                "{rises} of {count}"
            );
        }
    }

    /// Requests of each of ten thousand keys, of 200 000.
    fn hits(popularity: Popularity) -> Vec<u32> {
        let (known, mut random) = (Known::new(10_000), Random::seed_from_u64(1));
        let draw = Draw::new(popularity, 10_000, 0).expect("keys");
        let mut hits = vec![0u32; 10_000];
        (0..200_000).for_each(|_| hits[draw.next(&known, &mut random) as usize] += 1);
        hits
    }

    /// Share of requests that the most popular hundredth of the keys gets.
    fn share_of_top(popularity: Popularity) -> f64 {
        let mut hits = hits(popularity);
        hits.sort_unstable();
        f64::from(hits[9_900..].iter().sum::<u32>()) / 200_000.0
    }

    #[test]
    fn popular_keys_get_what_they_should() {
        let (uniform, zipfian) =
            (share_of_top(Popularity::Uniform), share_of_top(Popularity::Zipfian));
        assert!(uniform < 0.02, "{uniform}");
        // Sums of `1 / rank^0.99`: 5.3 of the first hundred ranks, 26.5 of all ten billion; the
        // rest falls on all keys alike.
        assert!((0.19..0.24).contains(&zipfian), "{zipfian}");
        let most = hits(Popularity::Zipfian).into_iter().max().map_or(0.0, f64::from) / 200_000.0;
        assert!((0.035..0.041).contains(&most), "1 / 26.5 of the first: {most}");
    }

    #[test]
    fn inserts_move_no_popular_key() {
        let (known, mut random) = (Known::new(1_000), Random::seed_from_u64(1));
        let draw = Draw::new(Popularity::Zipfian, 1_000, 500).expect("keys");
        let mut hits = vec![0u32; 1_500];
        for nth in 0..100_000 {
            if nth % 200 == 0 {
                known.insert();
            }
            hits[draw.next(&known, &mut random) as usize] += 1;
        }
        let late = hits[1_000..].iter().sum::<u32>();
        assert!(late > 5_000, "those that came are drawn as well: {late}");
        // Sums of `1 / rank^0.99`: 3.6 of the first twenty ranks, of 26.5; the first would be the
        // same key anyway.
        hits.sort_unstable();
        let most = hits[1_480..].iter().sum::<u32>();
        assert!(most > 13_500, "the first twenty have their share whatever comes: {most}");
    }

    #[test]
    fn the_latest_are_the_last_inserted() {
        let (known, mut random) = (Known::new(1_000), Random::seed_from_u64(1));
        let draw = Draw::new(Popularity::Latest, 1_000, 500).expect("keys");
        (0..500).for_each(|_| {
            known.insert();
        });
        let late = (0..10_000).filter(|_| draw.next(&known, &mut random) >= 1_400).count();
        assert!(late > 5_000, "{late} of 10000 in the last hundred");
    }
}
