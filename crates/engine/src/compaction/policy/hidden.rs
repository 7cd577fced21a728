//! How much a compaction would free of what range tombstones hide, as far as that can be told
//! without the disk.
//!
//! Of a table that lies in a range as a whole all is hidden. Of one that reaches beyond it nobody
//! knows without reading it: its keys are taken to be spread evenly, where their bytes say how far
//! they are from each other. In an order of one's own, where they do not, half of a table is hidden
//! for each of its ends that is: all of one that two tables' range tombstones cover together.

use crate::version::{KeyRange, Run, Stretch, Table, TableMeta};
use esker_base::KeyOrder;
use std::cmp::Ordering;
use std::sync::Arc;

/// Stretches are looked up so often in older runs for one answer; what is left then does not count.
/// Some milliseconds.
const LOOKUPS_MAX: usize = 20_000;

/// Adds up what is hidden.
pub(super) struct Hidden<'o> {
    order: &'o KeyOrder,
    lookups_left: usize,
}

impl<'o> Hidden<'o> {
    pub(super) fn new(order: &'o KeyOrder) -> Hidden<'o> {
        Hidden { order, lookups_left: LOOKUPS_MAX }
    }

    /// Of what `of` says of each table of older runs, as much as a table's range tombstones hide:
    /// nothing as long as that was not opened.
    pub(super) fn by(
        &mut self,
        table: &Table,
        older: &[&Arc<Run>],
        of: impl Fn(&TableMeta) -> u64,
    ) -> u64 {
        let mut hidden = 0.0;
        let Some(cover) = table.cover() else { return 0 };
        for stretch in cover.stretches() {
            for run in older {
                if self.lookups_left == 0 {
                    break;
                }
                self.lookups_left -= 1;
                let range = KeyRange {
                    start: Some(&stretch.start),
                    end: Some(&stretch.end),
                    end_inclusive: false,
                };
                let metas = run.overlapping(self.order, &range).iter().map(|table| &table.meta);
                let of_table = |meta| share(stretch, self.order, meta) * of(meta) as f64;
                hidden += metas.map(of_table).sum::<f64>();
            }
        }
        (hidden * cover.scale()) as u64
    }
}

/// About which part of an older table lies in the stretch.
fn share(stretch: &Stretch, order: &KeyOrder, meta: &TableMeta) -> f64 {
    if meta.max_seq >= stretch.seq {
        return 0.0;
    }
    let ends = match order.compare(&meta.largest, &stretch.end) {
        Ordering::Less => true,
        Ordering::Equal => meta.largest_exclusive,
        Ordering::Greater => false,
    };
    let begins = !order.less(&meta.smallest, &stretch.start);
    if ends && begins {
        return 1.0;
    }
    if !order.is_bytewise() {
        return if ends || begins { 0.5 } else { 0.0 };
    }
    let TableMeta { smallest, largest, .. } = meta;
    let alike = smallest.iter().zip(largest.iter()).take_while(|(a, b)| a == b).count();
    // All keys between the two begin like them.
    let place = |key: &[u8]| {
        let mut bytes = [0; 8];
        let rest = key.get(alike..).unwrap_or_default();
        let len = rest.len().min(8);
        bytes[..len].copy_from_slice(&rest[..len]);
        u64::from_be_bytes(bytes)
    };
    let from = place((&*stretch.start).max(smallest));
    let to = place((&*stretch.end).min(largest));
    let all = place(largest).saturating_sub(place(smallest));
    to.saturating_sub(from) as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Comparator;

    fn meta(smallest: &str, largest: &str) -> TableMeta {
        let (smallest, largest) = (smallest.as_bytes().into(), largest.as_bytes().into());
        TableMeta { smallest, largest, max_seq: 9, ..TableMeta::default() }
    }

    fn stretch(start: &str, end: &str) -> Stretch {
        Stretch { start: start.as_bytes().into(), end: end.as_bytes().into(), seq: 10 }
    }

    #[test]
    fn a_stretch_holds_whole_and_older_tables() {
        let share = |meta: TableMeta| share(&stretch("b", "e"), &KeyOrder::Bytewise, &meta);
        assert_eq!(share(meta("b", "d")), 1.0);
        assert_eq!(share(TableMeta { max_seq: 10, ..meta("b", "d") }), 0.0, "written later");
        assert_eq!(share(TableMeta { largest_exclusive: true, ..meta("c", "e") }), 1.0);
        assert!(share(meta("c", "f")) < 1.0, "some stick out");
    }

    #[test]
    fn of_a_table_that_reaches_further_a_part_counts() {
        let percent = |stretch: Stretch, meta: TableMeta| {
            (share(&stretch, &KeyOrder::Bytewise, &meta) * 100.0).round() as u64
        };
        let table = || meta("key0000", "key9999");
        assert_eq!(percent(stretch("key5", "key6"), table()), 11);
        assert_eq!(percent(stretch("a", "key3"), table()), 31);
        assert_eq!(percent(stretch("key3", "z"), table()), 69);
        assert_eq!(percent(stretch("key5000", "key5001"), table()), 0);
        assert_eq!(percent(stretch("k", "key00"), table()), 0);
    }

    #[test]
    fn in_orders_of_ones_own_each_end_counts_half() {
        struct Other;
        impl Comparator for Other {
            fn name(&self) -> &str {
                "other"
            }
            fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
                a.cmp(b)
            }
        }
        let order = KeyOrder::Custom(Arc::new(Other));
        assert_eq!(share(&stretch("a", "n"), &order, &meta("b", "z")), 0.5);
        assert_eq!(share(&stretch("n", "zz"), &order, &meta("b", "z")), 0.5);
        assert_eq!(share(&stretch("m", "n"), &order, &meta("b", "z")), 0.0, "no end");
        assert_eq!(share(&stretch("a", "zz"), &order, &meta("b", "z")), 1.0);
    }
}
