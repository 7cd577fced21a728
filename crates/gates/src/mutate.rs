//! What fuzzing needs of a parser, and how inputs are changed.

use crate::random::Random;

/// A parser under test: takes a case and says what came of it, in a word.
pub trait Target: Sync {
    /// Its name in reports.
    fn name(&self) -> &'static str;
    /// Valid inputs.
    fn corpus(&self) -> Vec<Vec<u8>>;
    /// Makes an input of a corpus into one that passes the outer checks.
    fn mend(&self, _input: &mut Vec<u8>, _random: &mut Random) {}
    /// Mutates; by default anything anywhere.
    fn mutate(&self, input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
        mutate(input, other, random);
    }
    /// Parses.
    fn run(&self, input: &[u8]) -> String;
}

/// One to four changes: bits, bytes, numbers, lengths, splices.
pub fn mutate(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let len = input.len() as u64;
        let at = random.below(len) as usize;
        match random.below(9) {
            _ if input.is_empty() => input.push(random.next_u64() as u8),
            0 => input[at] ^= 1 << random.below(8),
            1 => input[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize],
            2 => {
                // A number, in place: small, large, or off by a little.
                let width = [1, 2, 4, 8][random.below(4) as usize];
                let end = input.len().min(at + width);
                let edge =
                    [0, 1, u64::MAX, u64::MAX / 2, 1 << 31, 1 << 20][random.below(6) as usize];
                let bytes = edge.wrapping_add(random.below(3)).to_le_bytes();
                input[at..end].copy_from_slice(&bytes[..end - at]);
            }
            3 => input.truncate(at),
            4 => {
                let end = input.len().min(at + 1 + random.below(16) as usize);
                input.drain(at..end);
            }
            5 => {
                let len = 1 + random.below(12) as usize;
                let bytes = random.bytes(len);
                input.splice(at..at, bytes);
            }
            6 if !other.is_empty() => {
                let from = random.below(other.len() as u64) as usize;
                let to = other.len().min(from + 1 + random.below(64) as usize);
                let end = input.len().min(at + to - from);
                input.splice(at..end, other[from..to].iter().copied());
            }
            7 => {
                // A varint of ten bytes.
                let end = input.len().min(at + 1);
                input.splice(at..end, [0xff; 9].into_iter().chain([1]));
            }
            _ => input[at] = input[at].wrapping_add(1).wrapping_sub(2 * random.below(2) as u8),
        }
    }
}
