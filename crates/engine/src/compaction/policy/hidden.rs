//! How much a compaction would free of what range tombstones hide, as far as that is known without the disk.

use crate::version::{KeyRange, Run, Stretch, Table, TableMeta};
use esker_base::KeyOrder;
use std::cmp::Ordering;
use std::sync::Arc;

/// Records of older runs that a table's range tombstones hide: of whole tables alone, since of others nobody knows without reading
/// them, and none as long as the table was not opened.
pub(super) fn hidden_entries(table: &Table, older: &[&Arc<Run>], order: &KeyOrder) -> u64 {
    let Some(cover) = table.cover() else { return 0 };
    let by_stretch = |stretch: &Stretch| -> u64 {
        let range =
            KeyRange { start: Some(&stretch.start), end: Some(&stretch.end), end_inclusive: false };
        let tables = older.iter().flat_map(|run| run.overlapping(order, &range));
        let metas = tables.map(|table| &table.meta);
        metas.filter(|meta| holds(stretch, order, meta)).map(|meta| meta.entries).sum()
    };
    cover.stretches().iter().map(by_stretch).sum()
}

/// True if all of an older table lies in it.
fn holds(stretch: &Stretch, order: &KeyOrder, meta: &TableMeta) -> bool {
    let ends = match order.compare(&meta.largest, &stretch.end) {
        Ordering::Less => true,
        Ordering::Equal => meta.largest_exclusive,
        Ordering::Greater => false,
    };
    ends && !order.less(&meta.smallest, &stretch.start) && meta.max_seq < stretch.seq
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_holds_whole_and_older_tables() {
        let stretch = Stretch { start: b"b"[..].into(), end: b"e"[..].into(), seq: 10 };
        let holds = |smallest: &str, largest: &str, largest_exclusive, max_seq| {
            let meta = TableMeta {
                smallest: smallest.as_bytes().into(),
                largest: largest.as_bytes().into(),
                largest_exclusive,
                max_seq,
                ..TableMeta::default()
            };
            holds(&stretch, &KeyOrder::Bytewise, &meta)
        };
        assert!(holds("b", "d", false, 9));
        assert!(!holds("b", "d", false, 10), "written later");
        assert!(!holds("a", "d", false, 9) && !holds("b", "e", false, 9), "sticks out");
        assert!(holds("c", "e", true, 9), "ends with it");
    }
}
