//! What a rewrite may leave out: records that no snapshot and no future reader can see.
//!
//! The snapshots cut the sequence numbers into *stripes*: records of a key in one stripe are seen
//! by the same snapshots, so only the newest of them is ever seen. A record is also never seen if a
//! range tombstone of its own stripe is newer.

use crate::range_tombstone::RangeTombstones;
use esker_base::{KeyOrder, Seq, Trailer};

/// Judges records that come in internal-key order.
pub(crate) struct Retention<'a> {
    order: &'a KeyOrder,
    /// Sequence numbers of live snapshots, ascending.
    snapshots: &'a [Seq],
    tombstones: &'a RangeTombstones,
    /// Index of the first fragment that may end after the present key.
    fragment: usize,
    last_key: Vec<u8>,
    /// Stripe of the last record of `last_key` that was seen; `None` before the first key.
    last_stripe: Option<usize>,
}

impl<'a> Retention<'a> {
    /// `snapshots` must be ascending. `tombstones` are those of the sources that are rewritten.
    pub(crate) fn new(
        order: &'a KeyOrder,
        snapshots: &'a [Seq],
        tombstones: &'a RangeTombstones,
    ) -> Retention<'a> {
        debug_assert!(snapshots.is_sorted());
        Retention {
            order,
            snapshots,
            tombstones,
            fragment: 0,
            last_key: Vec::new(),
            last_stripe: None,
        }
    }

    /// The stripe of a sequence number: 0 is seen by every snapshot.
    #[inline]
    pub(crate) fn stripe(&self, seq: Seq) -> usize {
        self.snapshots.partition_point(|&snapshot| snapshot < seq)
    }

    /// True if somebody may still see this record.
    #[inline]
    pub(crate) fn is_seen(&mut self, key: &[u8], trailer: Trailer) -> bool {
        let stripe = self.stripe(trailer.seq());
        let same_key = self.last_stripe.is_some() && self.order.same(&self.last_key, key);
        if same_key && self.last_stripe == Some(stripe) {
            return false;
        }
        if !same_key {
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        self.last_stripe = Some(stripe);
        self.tombstones.is_empty() || !self.is_covered(key, trailer.seq(), stripe)
    }

    /// True if some tombstone lies over the key last judged, however old.
    ///
    /// A record under a tombstone that is written too must keep its age, or it would be hidden.
    #[inline]
    pub(crate) fn is_under_tombstone(&self, key: &[u8]) -> bool {
        let fragment = self.tombstones.fragments().get(self.fragment);
        fragment.is_some_and(|f| !self.order.less(key, &f.start) && self.order.less(key, &f.end))
    }

    fn is_covered(&mut self, key: &[u8], seq: Seq, stripe: usize) -> bool {
        let fragments = self.tombstones.fragments();
        while fragments.get(self.fragment).is_some_and(|f| !self.order.less(key, &f.end)) {
            self.fragment += 1;
        }
        let Some(fragment) = fragments.get(self.fragment) else { return false };
        if self.order.less(key, &fragment.start) {
            return false;
        }
        let sees = self.snapshots.get(stripe).copied().unwrap_or(Seq::MAX);
        self.tombstones.newest_at(self.fragment, sees).is_some_and(|newest| newest > seq)
    }
}
