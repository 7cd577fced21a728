//! What a table's range tombstones cover. It is kept in memory once the table was opened, so that
//! policies, which read no disk, can tell about how much a compaction would free.

use crate::range_tombstone::RangeTombstones;
use esker_base::Seq;
use std::sync::Arc;

/// Of a table that covers more stretches so many are known, the first in key order.
const STRETCHES_MAX: usize = 64;

/// The same if their keys are longer than this in all.
const BYTES_MAX: usize = 16 << 10;

/// A stretch of key space without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) start: Arc<[u8]>,
    pub(crate) end: Arc<[u8]>,
    /// What is older is hidden in all of it.
    pub(crate) seq: Seq,
}

/// What a table's range tombstones cover.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cover {
    stretches: Box<[Stretch]>,
    /// Range tombstones of those and of all: about as much lies in what is not known.
    known: usize,
    all: usize,
}

impl Cover {
    pub(crate) fn of(tombstones: &RangeTombstones) -> Cover {
        let mut stretches: Vec<Stretch> = Vec::new();
        let (mut bytes, mut known) = (0, 0);
        for (at, span) in tombstones.fragments().iter().enumerate() {
            let is_full = stretches.len() == STRETCHES_MAX || bytes > BYTES_MAX;
            let seq = tombstones.newest_at(at, Seq::MAX).unwrap_or_default();
            match stretches.last_mut() {
                Some(last) if last.end == span.start => {
                    last.end = span.end.clone();
                    last.seq = last.seq.min(seq);
                }
                _ if is_full => break,
                _ => {
                    let (start, end) = (span.start.clone(), span.end.clone());
                    bytes += start.len() + end.len();
                    stretches.push(Stretch { start, end, seq });
                }
            }
            known += 1;
        }
        Cover { stretches: stretches.into(), known, all: tombstones.fragments().len() }
    }

    /// How many times as much as the stretches have all has, about; at least 1.
    pub(crate) fn scale(&self) -> f64 {
        self.all.max(1) as f64 / self.known.max(1) as f64
    }

    /// In key order.
    pub(crate) fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range_tombstone::RangeTombstone;
    use esker_base::KeyOrder;

    fn cover(tombstones: &[(&str, &str, Seq)]) -> Cover {
        let tombstones: Vec<RangeTombstone> = tombstones
            .iter()
            .map(|&(start, end, seq)| RangeTombstone {
                start: start.as_bytes().into(),
                end: end.as_bytes().into(),
                seq,
            })
            .collect();
        Cover::of(&RangeTombstones::build(&KeyOrder::Bytewise, &tombstones))
    }

    fn stretches(cover: &Cover) -> Vec<(String, String, Seq)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let each = |stretch: &Stretch| (text(&stretch.start), text(&stretch.end), stretch.seq);
        cover.stretches.iter().map(each).collect()
    }

    #[test]
    fn pieces_that_touch_are_one_stretch_and_as_new_as_the_oldest_of_them() {
        let found = cover(&[("a", "c", 9), ("b", "d", 7), ("d", "e", 5), ("f", "g", 3)]);
        let wanted = [("a".to_owned(), "e".to_owned(), 5), ("f".to_owned(), "g".to_owned(), 3)];
        assert_eq!(stretches(&found), wanted);
        assert_eq!(stretches(&cover(&[])), []);
    }

    #[test]
    fn no_more_stretches_are_kept_than_may_be() {
        let keys: Vec<String> = (0..200).map(|at| format!("{at:03}")).collect();
        let ranges: Vec<_> = keys.iter().map(|key| (&key[..], "", 1)).collect();
        let ends: Vec<String> = keys.iter().map(|key| format!("{key}5")).collect();
        let apart: Vec<(&str, &str, Seq)> =
            ranges.iter().zip(&ends).map(|((start, ..), end)| (*start, &end[..], 1)).collect();
        let kept = stretches(&cover(&apart));
        assert_eq!((kept.len(), &kept[63].0[..]), (STRETCHES_MAX, "063"));
        assert_eq!((cover(&apart).scale(), cover(&apart[..64]).scale()), (200.0 / 64.0, 1.0));
        let long = "x".repeat(BYTES_MAX);
        let ends = [format!("a{long}"), format!("c{long}")];
        let kept = cover(&[("a", &ends[0], 1), ("c", &ends[1], 1)]);
        assert_eq!(kept.stretches().len(), 1, "keys are long");
        // Without gaps it is one, however many there are.
        let joined: Vec<(&str, &str, Seq)> =
            keys.windows(2).map(|pair| (&pair[0][..], &pair[1][..], 1)).collect();
        assert_eq!(stretches(&cover(&joined)), [("000".to_owned(), "199".to_owned(), 1)]);
    }
}
