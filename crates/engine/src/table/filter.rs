//! Filters: whether a partition may hold a key, without reading its blocks.
//!
//! Format: docs/format/table.md, "Filter block".
//! The built-in filter is a Bloom filter whose probes for one key all fall into one cache line
//! of eight 64-bit lanes, one bit a lane, so that a lookup costs one cache miss.
//! Source: the blocked Bloom filters of Putze, Sanders and Singler (2007).
//! Invariants: (1) a key that was added is always reported; (2) bytes that are not a filter are
//! refused when decoded, not when asked.

use crate::block::Damage;
use crate::options::{Filter, FilterPolicy};
use esker_base::coding::{put_slice, put_u32, take_slice, take_u8, take_u32};
use esker_base::heap::{Heap, HeapBox};
use esker_base::pages::prefetch;
use std::sync::Arc;

const KIND_BLOOM: u8 = 1;
const KIND_CUSTOM: u8 = 2;

const LANES: usize = 8;
const LINE_BYTES: usize = LANES * 8;
const LINE_BITS: u64 = LINE_BYTES as u64 * 8;

/// One cache line of filter bits.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line([u64; LANES]);

/// A decoded filter.
#[derive(Debug)]
pub struct FilterBlock(Form);

#[derive(Debug)]
enum Form {
    Bloom {
        probes: u32,
        lines: HeapBox<Line>,
    },
    Custom {
        policy: Arc<dyn FilterPolicy>,
        data: Box<[u8]>,
    },
    /// Not to be asked, such as one of a policy that is not at hand; lets everything through.
    Unknown,
}

/// The line of a pinned filter that a key falls into, and how many bits a key has there.
#[derive(Clone, Copy, Debug)]
pub struct FilterLine<'t> {
    line: &'t Line,
    probes: u32,
}

/// What filters are asked for one key. The bits are worked out for the first filter, and again only
/// where one of another density comes.
#[derive(Debug)]
pub struct Probes {
    hash: u64,
    /// As many as `bits` was worked out for; 0 before the first time.
    probes: u32,
    bits: Line,
}

/// Which of so many lines a key falls into.
#[inline]
fn line_of(hash: u64, lines: usize) -> usize {
    ((u128::from(hash) * lines as u128) >> 64) as usize
}

/// The bits that a key has in its line, one in each of `probes` lanes.
#[inline]
fn bits_of(hash: u64, probes: u32) -> Line {
    // The line used up the high bits of the hash; all of them are mixed down again. 48 of the bits
    // choose bits; three choose the first lane, unless all lanes are probed anyway.
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 13;
    let bit = |i: usize| 1u64 << ((mixed >> (6 * i)) & 63);
    if probes as usize == LANES {
        return Line(std::array::from_fn(bit));
    }
    let mut line = Line::default();
    let first = (mixed >> 48) as usize;
    for i in 0..probes as usize {
        line.0[(first + i) % LANES] = bit(i);
    }
    line
}

impl Probes {
    /// For the key with this hash.
    #[inline]
    pub fn new(hash: u64) -> Probes {
        Probes { hash, probes: 0, bits: Line::default() }
    }

    /// False if the key was certainly not added to the filter.
    #[inline]
    pub fn may_be_in(&mut self, filter: FilterLine<'_>) -> bool {
        if self.probes != filter.probes {
            self.bits = bits_of(self.hash, filter.probes);
            self.probes = filter.probes;
        }
        self.bits.is_within(filter.line)
    }
}

impl Line {
    /// True if `other` has all bits of this line.
    #[inline]
    fn is_within(&self, other: &Line) -> bool {
        // Without a branch for each lane, so that it takes a few wide instructions.
        let missing = self.0.iter().zip(&other.0).fold(0, |missing, (a, b)| missing | (a & !b));
        missing == 0
    }
}

/// Number of probes that suits a size: bits × ln 2 rounded up, at most one a lane.
fn probes_for(bits_per_key: u32) -> u32 {
    (bits_per_key * 7 / 10 + 1).min(LANES as u32)
}

impl FilterBlock {
    /// Takes a payload apart. `policy` is asked only about filters that carry its name. A Bloom
    /// filter lets everything through unless keys that are the same have the same hash, which
    /// `hashes` says.
    ///
    /// # Errors
    /// A reason if the bytes are not a filter.
    pub fn decode(
        heap: &Heap,
        payload: &[u8],
        hashes: bool,
        policy: Option<&Arc<dyn FilterPolicy>>,
    ) -> Result<FilterBlock, Damage> {
        const CUT_SHORT: Damage = Damage("filter is cut short");
        let mut input = payload;
        match take_u8(&mut input).ok_or(CUT_SHORT)? {
            KIND_BLOOM => {
                let probes = u32::from(take_u8(&mut input).ok_or(CUT_SHORT)?);
                let lines = take_u32(&mut input).ok_or(CUT_SHORT)? as usize;
                if probes == 0 || probes > LANES as u32 || lines == 0 {
                    return Err(Damage("filter has impossible parameters"));
                }
                let (chunks, rest) = input.as_chunks::<LINE_BYTES>();
                if chunks.len() != lines || !rest.is_empty() {
                    return Err(Damage("filter has another length than it declares"));
                }
                if !hashes {
                    return Ok(FilterBlock(Form::Unknown));
                }
                let lines = chunks.iter().map(decode_line).collect();
                Ok(FilterBlock(Form::Bloom { probes, lines: HeapBox::new(heap, lines) }))
            }
            KIND_CUSTOM => {
                let name = take_slice(&mut input).ok_or(CUT_SHORT)?;
                let known = policy.filter(|p| p.name().as_bytes() == name);
                Ok(FilterBlock(match known {
                    Some(policy) => Form::Custom { policy: policy.clone(), data: input.into() },
                    None => Form::Unknown,
                }))
            }
            _ => Err(Damage("filter is of an unknown kind")),
        }
    }

    /// False only if `key`, which `probes` are for, was certainly not added.
    #[inline]
    pub fn may_contain(&self, probes: &mut Probes, key: &[u8]) -> bool {
        match &self.0 {
            Form::Bloom { probes: count, lines } => {
                let line = &lines[line_of(probes.hash, lines.len())];
                probes.may_be_in(FilterLine { line, probes: *count })
            }
            Form::Custom { policy, data } => policy.may_contain(data, key),
            Form::Unknown => true,
        }
    }

    /// The line that [`FilterBlock::may_contain`] looks at, on its way to the processor; `None` if
    /// the filter has no lines.
    #[inline]
    pub fn line(&self, probes: &Probes) -> Option<FilterLine<'_>> {
        match &self.0 {
            Form::Bloom { probes: count, lines } => {
                let line = &lines[line_of(probes.hash, lines.len())];
                prefetch(&raw const *line);
                Some(FilterLine { line, probes: *count })
            }
            Form::Custom { .. } | Form::Unknown => None,
        }
    }

    /// Heap bytes.
    pub fn memory_bytes(&self) -> usize {
        let inside = match &self.0 {
            Form::Bloom { lines, .. } => lines.len() * LINE_BYTES + LINE_BYTES,
            Form::Custom { data, .. } => data.len(),
            Form::Unknown => 0,
        };
        size_of::<FilterBlock>() + 16 + inside
    }

    /// Heap bytes of so many filters of so many bytes in all: no less than their `memory_bytes`.
    pub(super) fn memory_bytes_of(filters: u64, stored_bytes: u64) -> u64 {
        let each = size_of::<FilterBlock>() + 16 + LINE_BYTES;
        filters.saturating_mul(each as u64).saturating_add(stored_bytes)
    }
}

fn decode_line(chunk: &[u8; LINE_BYTES]) -> Line {
    let mut line = Line::default();
    for (lane, eight) in line.0.iter_mut().zip(chunk.as_chunks::<8>().0) {
        *lane = u64::from_le_bytes(*eight);
    }
    line
}

/// Gathers the keys of one partition.
#[derive(Debug)]
pub(super) struct FilterBuilder {
    filter: Filter,
    hashes: Vec<u64>,
    /// Whole keys and where each ends, for a custom policy only.
    keys: Vec<u8>,
    ends: Vec<usize>,
}

impl FilterBuilder {
    pub(super) fn new(filter: Filter) -> FilterBuilder {
        FilterBuilder { filter, hashes: Vec::new(), keys: Vec::new(), ends: Vec::new() }
    }

    /// The name stored in the properties.
    pub(super) fn name(filter: &Filter) -> &str {
        match filter {
            Filter::None => "none",
            Filter::Bloom { .. } => "bloom",
            Filter::Custom(policy) => policy.name(),
        }
    }

    /// Adds a key that differs from the one added before.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8]) {
        match &self.filter {
            Filter::None => {}
            Filter::Bloom { .. } => self.hashes.push(esker_base::checksum::hash64(key)),
            Filter::Custom(_) => {
                self.keys.extend_from_slice(key);
                self.ends.push(self.keys.len());
            }
        }
    }

    /// Bytes the filter will take.
    pub(super) fn estimated_bytes(&self) -> usize {
        match &self.filter {
            Filter::None => 0,
            Filter::Bloom { bits_per_key } => self.hashes.len() * *bits_per_key as usize / 8,
            // What a usual policy spends.
            Filter::Custom(_) => self.ends.len() * 5 / 4,
        }
    }

    /// Appends the filter's payload to `out` and starts the next; false if there is none.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> bool {
        match &self.filter {
            Filter::None => false,
            Filter::Bloom { bits_per_key } => {
                encode_bloom(out, &self.hashes, *bits_per_key);
                self.hashes.clear();
                true
            }
            Filter::Custom(policy) => {
                let mut start = 0;
                let keys: Vec<&[u8]> = self
                    .ends
                    .iter()
                    .map(|&end| &self.keys[std::mem::replace(&mut start, end)..end])
                    .collect();
                out.push(KIND_CUSTOM);
                put_slice(out, policy.name().as_bytes());
                out.extend_from_slice(&policy.build(&keys));
                self.keys.clear();
                self.ends.clear();
                true
            }
        }
    }
}

fn encode_bloom(out: &mut Vec<u8>, hashes: &[u64], bits_per_key: u32) {
    let bits = (hashes.len() as u64 * u64::from(bits_per_key)).max(1);
    let mut lines = vec![Line::default(); bits.div_ceil(LINE_BITS) as usize];
    let probes = probes_for(bits_per_key);
    let count = lines.len();
    for &hash in hashes {
        let Line(lanes) = &mut lines[line_of(hash, count)];
        for (lane, bits) in lanes.iter_mut().zip(bits_of(hash, probes).0) {
            *lane |= bits;
        }
    }
    out.push(KIND_BLOOM);
    out.push(probes as u8);
    put_u32(out, count as u32);
    out.reserve(count * LINE_BYTES);
    for Line(lanes) in &lines {
        for lane in lanes {
            out.extend_from_slice(&lane.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::checksum::{hash64, mix64};

    fn build(filter: Filter, keys: &[Vec<u8>]) -> Vec<u8> {
        let mut builder = FilterBuilder::new(filter);
        keys.iter().for_each(|k| builder.add(k));
        let mut out = Vec::new();
        builder.finish(&mut out);
        out
    }

    fn keys(from: u64, count: u64) -> Vec<Vec<u8>> {
        (from..from + count).map(|i| format!("{:016}", mix64(i) % (1 << 50)).into_bytes()).collect()
    }

    fn false_positives(bits_per_key: u32) -> f64 {
        let present = keys(0, 30_000);
        let payload = build(Filter::Bloom { bits_per_key }, &present);
        let filter = FilterBlock::decode(&Heap::global(), &payload, true, None).expect("decodes");
        let passes = |k: &&Vec<u8>| filter.may_contain(&mut Probes::new(hash64(k)), k);
        assert!(present.iter().all(|k| passes(&k)));
        let absent = keys(1 << 40, 200_000);
        let passed = absent.iter().filter(passes).count();
        passed as f64 / absent.len() as f64
    }

    #[test]
    fn ten_bits_a_key_let_about_one_in_a_hundred_through() {
        let rate = false_positives(10);
        println!("false positives at 10 bits a key: {:.3} %", rate * 100.0);
        assert!(rate < 0.013, "{rate}");
    }

    #[test]
    fn more_bits_let_less_through() {
        let rates: Vec<f64> = [1, 4, 7, 10, 14, 20].into_iter().map(false_positives).collect();
        println!("false positives: {rates:?}");
        assert!(rates.windows(2).all(|w| w[0] > w[1]), "{rates:?}");
        assert!(rates[5] < 0.001);
    }

    #[test]
    fn every_truncation_is_refused() {
        let payload = build(Filter::Bloom { bits_per_key: 10 }, &keys(0, 200));
        for cut in 0..payload.len() {
            assert!(
                FilterBlock::decode(&Heap::global(), &payload[..cut], true, None).is_err(),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn in_an_order_without_hashes_a_bloom_filter_lets_everything_through() {
        let payload = build(Filter::Bloom { bits_per_key: 10 }, &[b"key".to_vec()]);
        for (hashes, passes) in [(true, false), (false, true)] {
            let filter =
                FilterBlock::decode(&Heap::global(), &payload, hashes, None).expect("decodes");
            let mut probes = Probes::new(hash64(b"another"));
            assert_eq!(filter.may_contain(&mut probes, b"another"), passes);
        }
    }

    struct FirstByte;

    impl FilterPolicy for FirstByte {
        fn name(&self) -> &str {
            "test.first-byte"
        }

        fn build(&self, keys: &[&[u8]]) -> Vec<u8> {
            keys.iter().filter_map(|k| k.first().copied()).collect()
        }

        fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
            key.first().is_none_or(|b| filter.contains(b))
        }
    }

    #[test]
    fn a_custom_policy_is_asked_by_name() {
        let policy: Arc<dyn FilterPolicy> = Arc::new(FirstByte);
        let payload =
            build(Filter::Custom(policy.clone()), &[b"apple".to_vec(), b"cherry".to_vec()]);
        let filter =
            FilterBlock::decode(&Heap::global(), &payload, true, Some(&policy)).expect("decodes");
        let mut probes = Probes::new(0);
        assert!(filter.may_contain(&mut probes, b"avocado"));
        assert!(!filter.may_contain(&mut probes, b"banana"));
        let unknown = FilterBlock::decode(&Heap::global(), &payload, true, None).expect("decodes");
        assert!(unknown.may_contain(&mut probes, b"banana"), "another policy's filter is ignored");
    }
}
