//! What policies choose, on trees that exist on paper only.

use super::{
    ManualStep, Pick, debt_bytes, newer_bytes, output_run, pick, pick_erased, pick_for_scans,
    pick_manual, pick_small, pick_tombstones, scores, unknown_covers,
};
use crate::event::{CompactionReason, EventSink};
use crate::options::{Compaction, GroupPrefix, KeyspaceOptions, Options};
use crate::range_tombstone::{RangeTombstone, RangeTombstones};
use crate::table::LogShare;
use crate::version::{
    CompactionSpec, Cover, DEEPEST_LEVEL, KeyRange, LevelScore, Run, Table, TableMeta, TableStore,
    Version,
};
use esker_base::checksum::mix64;
use esker_base::vfs::strict::StrictVfs;
use esker_base::{Env, Seq};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const MIB: u64 = 1 << 20;

/// A tree that is drawn by hand.
struct Tree {
    store: Arc<TableStore>,
    options: Arc<KeyspaceOptions>,
    version: Version,
}

/// A table of run `run` in `level`, from one key to another.
fn table(level: u32, run: u64, smallest: &str, largest: &str) -> (u32, u64, TableMeta) {
    let meta = TableMeta {
        smallest: smallest.as_bytes().into(),
        largest: largest.as_bytes().into(),
        file_bytes: MIB,
        entries: 100,
        ..TableMeta::default()
    };
    (level, run, meta)
}

impl Tree {
    fn new(compaction: Compaction, tables: Vec<(u32, u64, TableMeta)>) -> Tree {
        let env = Env::with_vfs(Arc::new(StrictVfs::new()), 7);
        let shares = Options::default().memory_shares();
        let store = TableStore::new(env, "/db".into(), EventSink::new(None), 100, shares);
        let options = KeyspaceOptions {
            compaction,
            memtable_bytes: MIB,
            table_bytes_max: MIB,
            level_base_bytes: 4 * MIB,
            level_fanout: 2,
            tiered_runs: 3,
            level0_runs_compact: 4,
            ..KeyspaceOptions::default()
        };
        let (store, options) = (Arc::new(store), Arc::new(options));
        let added = tables.into_iter().enumerate().map(|(number, (level, run, meta))| {
            (level, run, store.table(TableMeta { number: number as u64, ..meta }, &options))
        });
        let version =
            Version::default().apply(&options.order, &[], added.collect()).expect("a tree");
        Tree { store, options, version }
    }

    fn find(&self, level: usize, smallest: &str) -> &Arc<Table> {
        let mut tables = self.version.tables();
        let is =
            |at: usize, table: &Table| at == level && *table.meta.smallest == *smallest.as_bytes();
        tables.find(|(at, table)| is(*at, table)).expect("it is there").1
    }

    fn find_run(&self, id: u64) -> &Run {
        self.version.runs().find(|(_, run)| run.id == id).expect("it is there").1
    }

    fn take(&self, level: usize, smallest: &str) {
        self.find(level, smallest).compacting.store(true, Ordering::Relaxed);
    }

    fn pick(&self, level: usize) -> Option<CompactionSpec> {
        pick(&self.version, &self.options, level)
    }

    fn scores(&self) -> Vec<LevelScore> {
        scores(&self.version, &self.options)
    }

    fn manual(&self, level: usize) -> Pick {
        let target = self.version.depth().saturating_sub(1).max(1);
        let range = KeyRange::default();
        let (oldest_snapshot, newest_run) = (Seq::MAX, u64::MAX);
        let step = ManualStep { level, target, range, oldest_snapshot, newest_run };
        pick_manual(&self.version, &self.options, &step)
    }

    /// The tree after a compaction that makes one table of all.
    fn after(self, spec: &CompactionSpec) -> Tree {
        let order = &self.options.order;
        let removed: Vec<(u32, u64)> =
            spec.tables().map(|(level, table)| (level as u32, table.meta.number)).collect();
        let metas = || spec.tables().map(|(_, table)| &table.meta);
        let meta = TableMeta {
            number: 1_000 + self.version.tables().count() as u64,
            smallest: metas().map(|meta| &meta.smallest).min().expect("some").clone(),
            largest: metas().map(|meta| &meta.largest).max().expect("some").clone(),
            file_bytes: spec.input_bytes(),
            entries: metas().map(|meta| meta.entries).sum(),
            ..TableMeta::default()
        };
        let run = spec.output_run.unwrap_or(1_000);
        let added = (spec.output_level as u32, run, self.store.table(meta, &self.options));
        let version = self.version.apply(order, &removed, vec![added]).expect("a tree");
        Tree { version, ..self }
    }

    fn runs(&self) -> Vec<(usize, u64)> {
        self.version.runs().map(|(level, run)| (level, run.id)).collect()
    }
}

/// The runs a compaction takes: level, and the smallest keys of its tables.
fn inputs(spec: &CompactionSpec) -> Vec<(usize, String)> {
    let keys = |tables: &[Arc<Table>]| -> String {
        tables.iter().map(|table| String::from_utf8_lossy(&table.meta.smallest)).collect()
    };
    spec.inputs.iter().map(|run| (run.level, keys(&run.tables))).collect()
}

fn named(runs: &[(usize, &str)]) -> Vec<(usize, String)> {
    runs.iter().map(|(level, keys)| (*level, (*keys).to_owned())).collect()
}

fn dead(tombstones: u64, (level, run, meta): (u32, u64, TableMeta)) -> (u32, u64, TableMeta) {
    (level, run, TableMeta { tombstones, ..meta })
}

#[test]
fn a_full_tier_becomes_a_run_of_the_next() {
    let runs = |count: u64| (0..count).map(|n| table(1, 10 + n, &n.to_string(), "z")).collect();
    let tree = Tree::new(Compaction::Tiered, runs(2));
    assert!(tree.pick(1).is_none(), "it is not full");
    let LevelScore { score, excess_bytes, .. } = tree.scores()[1];
    assert!(score < 1.0 && excess_bytes == 0);
    let tree = Tree::new(Compaction::Tiered, runs(7));
    let LevelScore { score, runs: found, excess_bytes, .. } = tree.scores()[1];
    assert_eq!((score, found, excess_bytes), (7.0 / 3.0, 7, 5 * MIB), "two may stay");
    assert_eq!(debt_bytes(&tree.version, &tree.options), 7 * MIB);
    let spec = tree.pick(1).expect("it is full");
    let oldest = [(1, "5"), (1, "4"), (1, "3"), (1, "2"), (1, "1"), (1, "0")];
    assert_eq!(inputs(&spec), named(&oldest), "twice as many as usual, the newest first");
    assert_eq!((spec.output_level, spec.output_run, spec.is_move), (2, None, false));
    tree.take(1, "0");
    let stays = tree.pick(1).is_none_or(|spec| spec.output_level == 1);
    assert!(stays, "one job takes runs out of a level, or they could arrive out of order");
}

#[test]
fn tiers_that_do_not_overlap_move() {
    let tables = [("a", "b"), ("c", "d"), ("e", "f")].iter().zip(5..);
    let tree =
        Tree::new(Compaction::Tiered, tables.map(|((a, b), run)| table(1, run, a, b)).collect());
    let spec = tree.pick(1).expect("full");
    assert!(spec.is_move);
    let tree = tree.after(&spec);
    assert_eq!(tree.runs(), [(2, 1_000)]);
}

#[test]
fn the_deepest_tier_is_merged_in_place() {
    let deepest = DEEPEST_LEVEL as u32;
    let tables = vec![
        table(deepest, 3, "a", "m"),
        table(deepest, 5, "a", "n"),
        table(deepest, 8, "b", "c"),
        table(0, 9, "a", "z"),
    ];
    let tree = Tree::new(Compaction::Tiered, tables);
    let spec = tree.pick(DEEPEST_LEVEL).expect("full");
    assert_eq!((spec.output_level, spec.output_run, spec.is_move), (DEEPEST_LEVEL, Some(8), false));
    assert_eq!(spec.inputs.len(), 3);
    assert_eq!(tree.after(&spec).runs(), [(0, 9), (DEEPEST_LEVEL, 8)]);

    let apart = [(3, "e", "f"), (5, "c", "d"), (8, "a", "b")];
    let tables = apart.map(|(run, from, to)| table(deepest, run, from, to)).to_vec();
    let tree = Tree::new(Compaction::Tiered, tables);
    let spec = tree.pick(DEEPEST_LEVEL).expect("full");
    assert_eq!((spec.output_level, spec.output_run, spec.is_move), (DEEPEST_LEVEL, Some(8), true));
    assert_eq!(tree.after(&spec).runs(), [(DEEPEST_LEVEL, 8)]);

    // A long one is not named for each short one.
    let long = ["m", "n", "o", "p", "q"].map(|at| table(deepest, 2, at, at));
    let short = [(5, "c", "d"), (8, "a", "b")];
    let short = short.map(|(run, from, to)| table(deepest, run, from, to));
    let tree = Tree::new(Compaction::Tiered, [&long[..], &short[..]].concat());
    let spec = tree.pick(DEEPEST_LEVEL).expect("full");
    assert_eq!((spec.output_run, spec.is_move), (Some(8), true));
    assert_eq!(tree.after(&spec).runs(), [(DEEPEST_LEVEL, 8), (DEEPEST_LEVEL, 2)]);
}

#[test]
fn tombstones_of_tiers_go_with_all_that_is_older() {
    // 100 records each: the share counts over everything that would be rewritten.
    let tree = |tombstones: [u64; 3]| {
        let [newest, middle, oldest] = tombstones;
        let tables = vec![
            dead(newest, table(1, 9, "a", "z")),
            dead(middle, table(1, 7, "b", "z")),
            dead(oldest, table(2, 3, "c", "z")),
        ];
        Tree::new(Compaction::Tiered, tables)
    };
    let chosen = |tombstones: [u64; 3], oldest_snapshot: Seq| {
        let tree = tree(tombstones);
        pick_tombstones(&tree.version, &tree.options, oldest_snapshot)
    };
    assert!(chosen([0, 0, 0], Seq::MAX).is_none());
    assert!(chosen([40, 30, 60], Seq::MAX).is_some_and(|spec| inputs(&spec) == named(&[(2, "c")])));
    assert!(chosen([100, 40, 0], Seq::MAX).is_none(), "140 of 300");
    let spec = chosen([100, 60, 0], Seq::MAX).expect("160 of 300");
    assert_eq!(inputs(&spec), named(&[(1, "a"), (1, "b"), (2, "c")]));
    assert_eq!((spec.output_level, spec.output_run), (2, Some(3)), "what comes there is newer");
    let spec = chosen([0, 100, 0], Seq::MAX).expect("100 of 200");
    assert_eq!(inputs(&spec), named(&[(1, "b"), (2, "c")]));
    assert_eq!(tree([0, 100, 0]).after(&spec).runs(), [(1, 9), (2, 3)]);
    // In one level, what is newer stays newer.
    let tables =
        vec![table(1, 9, "a", "z"), dead(100, table(1, 7, "b", "z")), table(1, 5, "c", "z")];
    let one_level = Tree::new(Compaction::Tiered, tables);
    let spec = pick_tombstones(&one_level.version, &one_level.options, Seq::MAX).expect("half");
    assert_eq!(one_level.after(&spec).runs(), [(1, 9), (1, 7)]);

    let mut needed = table(2, 3, "c", "z");
    needed.2.max_seq = 50;
    let tree = Tree::new(Compaction::Tiered, vec![dead(100, needed)]);
    let at = |snapshot: Seq| pick_tombstones(&tree.version, &tree.options, snapshot).is_some();
    assert!(!at(49) && at(50), "a snapshot needs them");
    tree.take(2, "c");
    assert!(!at(50), "another job has them");
}

#[test]
fn a_manual_compaction_of_tiers_makes_one_run() {
    let tree = Tree::new(Compaction::Tiered, vec![table(0, 4, "a", "z")]);
    assert!(matches!(tree.manual(0), Pick::Nothing), "one run, and nothing in it to drop");
    let flushed = vec![table(0, 5, "a", "z"), table(0, 4, "b", "z")];
    let Pick::Run(spec) = Tree::new(Compaction::Tiered, flushed).manual(0) else {
        panic!("two runs")
    };
    assert_eq!((spec.output_level, spec.output_run, spec.is_move), (1, None, false));
    let tables = vec![table(0, 9, "a", "z"), table(2, 4, "b", "z"), table(2, 3, "c", "z")];
    let tree = Tree::new(Compaction::Tiered, tables);
    let Pick::Run(spec) = tree.manual(0) else { panic!("three runs") };
    assert_eq!(inputs(&spec), named(&[(0, "a")]), "level 0 waits for no long merge");
    assert!(spec.is_move);
    let tree = tree.after(&spec);
    let Pick::Run(spec) = tree.manual(0) else { panic!("three runs") };
    assert_eq!(inputs(&spec), named(&[(1, "a"), (2, "b"), (2, "c")]));
    assert_eq!((spec.output_level, spec.output_run), (2, Some(4)), "the newer of that level");
    assert!(matches!(tree.manual(1), Pick::Nothing), "one step does it all");
    tree.take(2, "b");
    assert!(matches!(tree.manual(0), Pick::Busy));
    let dying = Tree::new(Compaction::Tiered, vec![dead(1, table(2, 4, "b", "z"))]);
    let Pick::Run(spec) = dying.manual(0) else { panic!("a tombstone to drop") };
    assert_eq!((spec.output_level, spec.output_run), (2, Some(4)));
}

#[test]
fn level_0_of_tiers_waits_for_no_merge_of_all_the_rest() {
    let tree = |tombstones: [u64; 4]| {
        let mut tables = vec![
            table(0, 9, "a", "z"),
            table(0, 8, "b", "z"),
            table(1, 7, "c", "z"),
            table(2, 3, "d", "z"),
        ];
        tables.iter_mut().zip(tombstones).for_each(|(table, dead)| table.2.tombstones = dead);
        Tree::new(Compaction::Tiered, tables)
    };
    let chosen = |tree: &Tree| pick_tombstones(&tree.version, &tree.options, Seq::MAX);
    let spec = chosen(&tree([100, 100, 0, 0])).expect("200 of 400");
    assert_eq!(inputs(&spec), named(&[(0, "a"), (0, "b")]), "one level down first");
    assert_eq!((spec.output_level, spec.reason), (1, CompactionReason::Tombstones));
    let spec = chosen(&tree([0, 100, 50, 0])).expect("150 of 300");
    assert_eq!(inputs(&spec), named(&[(0, "b")]));
    let spec = chosen(&tree([0, 0, 100, 0])).expect("100 of 200");
    assert_eq!(inputs(&spec), named(&[(1, "c"), (2, "d")]));
    let all = tree([0; 4]);
    let values = |level0_first| {
        let spec = super::tiered::pick_for_values(&all.version, &all.options, level0_first);
        inputs(&spec.expect("four runs"))
    };
    assert_eq!(values(true), named(&[(0, "a"), (0, "b")]));
    assert_eq!(values(false), named(&[(1, "c"), (2, "d")]));
    all.take(1, "c");
    assert!(super::tiered::pick_for_values(&all.version, &all.options, false).is_none(), "taken");
    assert_eq!(values(true), named(&[(0, "a"), (0, "b")]), "that concerns level 0 not");
}

#[test]
fn a_narrow_range_tombstone_hides_few_values() {
    let hidden_by = |entries: u64, ranges: &[(&str, &str)]| {
        let (level, run, meta) = table(0, 9, "a", "z");
        let newest = (level, run, TableMeta { range_tombstones: 1, entries: 0, ..meta });
        let (level, run, meta) = table(1, 3, "a", "z");
        let references = [LogShare { log: 5, bytes: 1_000_000 }].into();
        let oldest = (level, run, TableMeta { references, entries, ..meta });
        let tree = Tree::new(Compaction::Tiered, vec![newest, oldest]);
        let of = |&(start, end): &(&str, &str)| RangeTombstone {
            start: start.as_bytes().into(),
            end: end.as_bytes().into(),
            seq: 40,
        };
        let tombstones: Vec<RangeTombstone> = ranges.iter().map(of).collect();
        let order = &tree.options.order;
        tree.find(0, "a").set_cover(Cover::of(&RangeTombstones::build(order, &tombstones)));
        newer_bytes(&tree.version, order)
    };
    let hidden = |start: &str, end: &str| hidden_by(100, &[(start, end)]);
    assert_eq!(hidden("a", "zz"), 1_000_000);
    assert!((400_000..600_000).contains(&hidden("m", "zz")));
    // As much as one record of a hundred.
    assert_eq!(hidden("m0", "m1"), 10_000);
    // Of more than are remembered the others count like these.
    let of = |nth: u32| {
        let start = ['b' as u32 + nth / 64, '!' as u32 + nth % 64].map(|byte| byte as u8 as char);
        let start = String::from_iter(start);
        (start.clone(), start + "~")
    };
    let of_many = |count: u32| {
        let ranges: Vec<_> = (0..count).map(of).collect();
        let ranges: Vec<_> = ranges.iter().map(|(start, end)| (&start[..], &end[..])).collect();
        hidden_by(1_000_000, &ranges)
    };
    let (few, many) = (of_many(64), of_many(640));
    assert!(few > 0 && (few * 9..few * 11).contains(&many), "{few}, {many}");
}

#[test]
fn what_is_covered_is_asked_of_tables_where_it_matters() {
    let asked = |compaction, tombstone_ratio_compact, value_log_bytes_min| {
        let tables = [(0, 9), (1, 3)].map(|(level, run)| {
            let (level, run, meta) = table(level, run, "a", "z");
            (level, run, TableMeta { range_tombstones: 1, ..meta })
        });
        let tree = Tree::new(compaction, tables.into());
        let options = KeyspaceOptions {
            tombstone_ratio_compact,
            value_log_bytes_min,
            ..KeyspaceOptions::clone(&tree.options)
        };
        let first = unknown_covers(&tree.version, &options).len();
        tree.find(0, "a").set_cover(Cover::default());
        (first, unknown_covers(&tree.version, &options).len())
    };
    assert_eq!(asked(Compaction::Tiered, 0.5, None), (2, 1));
    assert_eq!(asked(Compaction::Leveled, 0.5, None), (1, 0), "of level 0");
    assert_eq!(asked(Compaction::Leveled, 1.0, None), (0, 0), "nothing is compacted for them");
    assert_eq!(
        asked(Compaction::Leveled, 1.0, Some(512)),
        (2, 1),
        "of values apart they hide some"
    );
}

#[test]
fn what_comes_into_a_tier_whose_oldest_runs_are_taken_becomes_fewer() {
    let tables = |newer: &[(u64, u64)]| {
        let of = |&(run, bytes): &(u64, u64)| {
            let (level, run, meta) = table(1, run, "a", "z");
            (level, run, TableMeta { file_bytes: bytes, ..meta })
        };
        newer.iter().map(of).chain([table(1, 1, "c", "z"), table(2, 0, "d", "z")]).collect()
    };
    let chosen = |newer: &[(u64, u64)]| {
        let tree = Tree::new(Compaction::Tiered, tables(newer));
        tree.take(1, "c");
        let spec = tree.pick(1)?;
        assert_eq!((spec.output_level, spec.is_move), (1, false));
        let runs: Vec<usize> = spec.inputs.iter().map(|run| run.tables.len()).collect();
        let order: Vec<(usize, u64)> = tree.after(&spec).runs();
        Some((runs.len(), order))
    };
    assert_eq!(chosen(&[(9, 10), (8, 10)]), None, "too few");
    let runs = vec![(1, 9), (1, 1), (2, 0)];
    assert_eq!(chosen(&[(9, 10), (8, 20), (7, 15)]), Some((3, runs)));
    assert_eq!(chosen(&[(9, 10), (8, 10), (7, 30)]), None, "one is too long");
    let runs = vec![(1, 9), (1, 8), (1, 1), (2, 0)];
    assert_eq!(chosen(&[(9, 1), (8, 10), (7, 10), (6, 10)]), Some((3, runs)), "older ones");
    // While newer ones are merged where they stand, the oldest go down.
    let newer: Vec<_> = (4..10).rev().map(|run| (run, 10)).collect();
    let tree = Tree::new(Compaction::Tiered, tables(&newer));
    tree.find_run(9).tables[0].compacting.store(true, Ordering::Relaxed);
    let spec = tree.pick(1).expect("six idle ones");
    assert_eq!((spec.output_level, spec.inputs.len()), (2, 6));
    tree.find_run(5).tables[0].compacting.store(true, Ordering::Relaxed);
    assert!(tree.pick(1).is_none(), "two idle ones, and no more merges among newer ones");
    // Those of level 0 wait for nobody.
    let mut level0: Vec<_> = (5..9).rev().map(|run| table(0, run, "a", "z")).collect();
    level0.push(table(0, 4, "c", "z"));
    let tree = Tree::new(Compaction::Tiered, level0);
    tree.take(0, "c");
    assert!(tree.pick(0).is_none());
}

#[test]
fn level_0_hands_down_as_much_as_level_1_has_if_that_has_piled_up() {
    let chosen = |tables_of_level1: u32| {
        let level0 = (1..=9).rev().map(|run| table(0, 10 + run, "a", "z"));
        let keys: Vec<String> = (0..tables_of_level1).map(|n| format!("b{n:02}")).collect();
        let level1 = keys.iter().map(|key| table(1, 1, key, key));
        let spec = Tree::new(Compaction::Leveled, level0.chain(level1).collect()).pick(0);
        spec.expect("level 0 is over its limit")
    };
    let of_level0 = |spec: &CompactionSpec| {
        let runs = spec.inputs.iter().filter(|run| run.level == 0);
        runs.count() as u64
    };
    // Of a mebibyte each; a job of level 0 has four mebibytes of it at the least.
    for (level1, level0) in [(1, 4), (4, 4), (5, 5), (8, 8), (20, 9)] {
        let spec = chosen(level1);
        assert_eq!(of_level0(&spec), level0, "{level1} tables in level 1");
        assert_eq!(spec.input_bytes(), (level0 + u64::from(level1)) * MIB);
    }
}

#[test]
fn a_few_runs_of_level_0_are_compacted_if_they_delete_half_of_the_tree() {
    let below = || [table(1, 7, "a", "m"), table(1, 7, "n", "z"), table(2, 3, "d", "z")];
    let chosen = |level0: (u32, u64, TableMeta), oldest_snapshot: Seq| {
        let tree = Tree::new(Compaction::Leveled, [level0].into_iter().chain(below()).collect());
        let spec = pick_tombstones(&tree.version, &tree.options, oldest_snapshot);
        spec.map(|spec| (spec.level, spec.output_level, spec.inputs.len()))
    };
    let deletes = |tombstones| {
        let (level, run, mut meta) = table(0, 9, "a", "z");
        (meta.entries, meta.tombstones, meta.max_seq) = (tombstones, tombstones, 50);
        (level, run, meta)
    };
    assert_eq!(chosen(deletes(149), Seq::MAX), None, "149 of 300");
    assert_eq!(chosen(deletes(150), Seq::MAX), Some((0, 1, 2)));
    assert_eq!(chosen(deletes(150), 49), None, "a snapshot needs them");
}

/// A tree whose newest table has a range tombstone, which hides what lies in these ranges.
fn covering(compaction: Compaction, hidden: &[(&str, &str)]) -> Tree {
    let (level, run, meta) = table(0, 9, "a", "z");
    let newest = (level, run, TableMeta { range_tombstones: 1, entries: 0, max_seq: 50, ..meta });
    let older = [
        table(1, 7, "a", "f"),
        table(1, 7, "g", "m"),
        table(1, 7, "n", "z"),
        table(2, 3, "d", "z"),
    ];
    let tree = Tree::new(compaction, [newest].into_iter().chain(older).collect());
    let tombstone = |(start, end): &(&str, &str)| RangeTombstone {
        start: start.as_bytes().into(),
        end: end.as_bytes().into(),
        seq: 40,
    };
    let all: Vec<RangeTombstone> = hidden.iter().map(tombstone).collect();
    let cover = Cover::of(&RangeTombstones::build(&tree.options.order, &all));
    tree.find(0, "a").set_cover(cover);
    tree
}

#[test]
fn level_0_is_compacted_if_its_range_tombstones_hide_half_of_the_tree() {
    let chosen = |hidden: &[(&str, &str)]| {
        let tree = covering(Compaction::Leveled, hidden);
        let spec = pick_tombstones(&tree.version, &tree.options, Seq::MAX);
        spec.map(|spec| (spec.level, spec.output_level))
    };
    assert_eq!(chosen(&[("a", "f5")]), None, "one table of four");
    assert_eq!(chosen(&[("a", "f5"), ("n", "z5")]), Some((0, 1)));
    assert_eq!(chosen(&[("d", "z5")]), Some((0, 1)), "in two levels");
}

#[test]
fn what_range_tombstones_hide_counts_in_tiers() {
    let chosen = |hidden: &[(&str, &str)]| {
        let tree = covering(Compaction::Tiered, hidden);
        pick_tombstones(&tree.version, &tree.options, Seq::MAX).map(|spec| inputs(&spec))
    };
    assert_eq!(chosen(&[("n", "z5")]), None, "one table of four");
    assert_eq!(chosen(&[("d", "z5")]), Some(named(&[(0, "a")])), "one level down first");
}

#[test]
fn tiers_of_level_0_are_merged_for_scans() {
    let tree = |runs: u64| {
        Tree::new(Compaction::Tiered, (0..runs).map(|run| table(0, run, "a", "z")).collect())
    };
    let chosen = |tree: &Tree| pick_for_scans(&tree.version, &tree.options);
    assert!(matches!(chosen(&tree(1)), Pick::Nothing), "it would stay one run");
    let two = tree(2);
    let Pick::Run(spec) = chosen(&two) else { panic!("two runs") };
    assert_eq!((spec.reason, spec.inputs.len()), (CompactionReason::Scans, 2));
    two.take(0, "a");
    assert!(matches!(chosen(&two), Pick::Busy), "somebody is at it");
}

#[test]
fn levels_are_made_one_for_scans_the_shallowest_first() {
    let tree = |tables| Tree::new(Compaction::Leveled, tables);
    let level2 = || vec![table(2, 1, "a", "m"), table(2, 1, "n", "z")];
    let level1 = || vec![table(1, 4, "b", "w"), table(1, 4, "x", "y")];
    let level0 = || vec![table(0, 8, "c", "d")];
    let chosen = |tables| {
        let tree = tree(tables);
        assert!(!tree.scores().iter().any(LevelScore::is_over));
        match pick_for_scans(&tree.version, &tree.options) {
            Pick::Run(spec) => {
                assert_eq!(spec.reason, CompactionReason::Scans);
                Some((inputs(&spec), spec.output_level, spec.is_move))
            }
            Pick::Nothing => None,
            Pick::Busy => panic!("nobody is at it"),
        }
    };
    assert_eq!(chosen(level0()), None, "one run");
    assert_eq!(chosen(level2()), None, "one run");
    let both = [level0(), vec![table(0, 7, "a", "f")]].concat();
    assert_eq!(chosen(both), Some((named(&[(0, "a")]), 1, true)), "two runs");
    let all = [level0(), level1(), level2()].concat();
    assert_eq!(chosen(all), Some((named(&[(0, "c"), (1, "b")]), 1, false)));
    // Of two tables the one under which less lies.
    let deep = [level1(), level2()].concat();
    assert_eq!(chosen(deep), Some((named(&[(1, "x"), (2, "n")]), 2, false)));
    // On its way to level 2.
    let gap = [level0(), level2()].concat();
    assert_eq!(chosen(gap), Some((named(&[(0, "c")]), 1, true)));

    // Twice as much below may be rewritten, but no more.
    let wide = |below: &[(&str, &str)]| {
        let below = below.iter().map(|(from, to)| table(2, 1, from, to));
        std::iter::once(table(1, 4, "b", "w")).chain(below).collect()
    };
    assert!(chosen(wide(&[("a", "e"), ("f", "z")])).is_some());
    assert_eq!(chosen(wide(&[("a", "e"), ("f", "k"), ("l", "z")])), None);

    let taken = tree([level1(), level2()].concat());
    let at = |tree: &Tree| pick_for_scans(&tree.version, &tree.options);
    taken.take(1, "x");
    let Pick::Run(spec) = at(&taken) else { panic!("the other table") };
    assert_eq!(inputs(&spec), named(&[(1, "b"), (2, "an")]));
    taken.take(2, "n");
    assert!(matches!(at(&taken), Pick::Busy));
    let options = KeyspaceOptions { compact_for_scans: false, ..(*taken.options).clone() };
    assert!(matches!(pick_for_scans(&taken.version, &options), Pick::Nothing), "it is off");
}

/// What a tiered tree leaves behind when the shape is changed.
fn stacked() -> Tree {
    let tables = vec![
        table(0, 9, "a", "z"),
        table(0, 8, "a", "z"),
        table(0, 7, "a", "z"),
        table(0, 6, "a", "z"),
        table(1, 5, "b", "z"),
        table(1, 4, "c", "z"),
        table(2, 3, "d", "z"),
        table(3, 2, "e", "z"),
        table(3, 1, "f", "z"),
    ];
    Tree::new(Compaction::Leveled, tables)
}

#[test]
fn leveled_makes_one_run_of_what_tiers_left() {
    let tree = stacked();
    let over: Vec<(usize, bool)> =
        tree.scores().iter().map(|score| (score.level, score.is_over())).collect();
    assert_eq!(over, [(0, true), (1, true), (2, false), (3, true)]);
    for (level, run) in [(1, 5), (3, 2)] {
        let spec = tree.pick(level).expect("two runs");
        assert_eq!((spec.level, spec.output_level, spec.output_run), (level, level, Some(run)));
        assert_eq!(spec.inputs.len(), 2);
    }
    assert!(tree.pick(0).is_none() && tree.pick(2).is_none(), "nothing goes into several runs");
    // Level 0, what level 1 has too much with it, and the two levels that are made one run first.
    assert_eq!(debt_bytes(&tree.version, &tree.options), (4 + 2 + 2 + 2) * MIB);
    let for_scans = pick_for_scans(&tree.version, &tree.options);
    assert!(matches!(for_scans, Pick::Busy), "not before those are one run");
    let spec = tree.pick(1).expect("two runs");
    let tree = tree.after(&spec);
    assert_eq!(tree.pick(0).map(|spec| spec.output_run), Some(Some(5)));
    tree.take(3, "f");
    assert!(tree.pick(3).is_none(), "another job has one of them");
}

#[test]
fn a_manual_compaction_makes_one_run_of_each_level_first() {
    let mut tree = stacked();
    let mut steps = 0;
    for level in 0..=3 {
        loop {
            let spec = match tree.manual(level) {
                Pick::Run(spec) => spec,
                Pick::Nothing => break,
                Pick::Busy => panic!("nobody is at it"),
            };
            assert_eq!(spec.reason, CompactionReason::Manual);
            tree = tree.after(&spec);
            steps += 1;
            assert!(steps < 20, "it ends");
        }
    }
    assert_eq!(tree.runs().len(), 1, "{:?}", tree.runs());
    assert_eq!(tree.version.depth(), 4);
}

#[test]
fn what_comes_second_into_an_empty_level_joins_the_run_of_the_first() {
    let tables = vec![table(1, 5, "a", "c"), table(1, 5, "d", "f")];
    let tree = Tree::new(Compaction::Leveled, tables);
    let first = tree.pick(1).expect("a table");
    tree.take(1, "a");
    let second = tree.pick(1).expect("the other table");
    assert_eq!((first.output_run, second.output_run), (None, None), "level 2 is empty");
    let run = |tree: &Tree| output_run(&tree.version, &tree.options, &second);
    assert_eq!(run(&tree), None);
    let tree = tree.after(&first);
    assert_eq!(tree.runs(), [(1, 5), (2, 1_000)]);
    assert_eq!(run(&tree), Some(1_000));
    // A tier gets a run of its own.
    let options = KeyspaceOptions { compaction: Compaction::Tiered, ..(*tree.options).clone() };
    assert_eq!(output_run(&tree.version, &options, &second), None);
}

#[test]
fn leveled_takes_the_table_that_rewrites_least() {
    let mut random = 0u64;
    let mut below = |n: u64| {
        random += 1;
        mix64(random) % n
    };
    for round in 0..300 {
        let mut tables = Vec::new();
        for (level, run) in [(1, 5), (2, 3)] {
            // Ranges that touch, overlap and nest across the two levels.
            let mut key = below(3);
            while key < 60 {
                let end = key + below(6);
                let mut entry = table(level, run, &format!("{key:02}"), &format!("{end:02}"));
                entry.2.file_bytes = 1 + below(20);
                tables.push(entry);
                key = end + 1 + below(4);
            }
        }
        let tree = Tree::new(Compaction::Leveled, tables);
        let [upper, next] = [1, 2].map(|level| &tree.version.level(level)[0].tables);
        for table in upper.iter().chain(next) {
            table.compacting.store(below(6) == 0, Ordering::Relaxed);
        }
        let is_free = |table: &&Arc<Table>| !table.compacting.load(Ordering::Relaxed);
        let cost = |table: &Arc<Table>| {
            let meta = &table.meta;
            let overlapping = || {
                let over = |other: &&Arc<Table>| {
                    other.meta.largest >= meta.smallest && other.meta.smallest <= meta.largest
                };
                next.iter().filter(over)
            };
            let bytes: u64 = overlapping().map(|other| other.meta.file_bytes).sum();
            let before = next.iter().rfind(|other| other.meta.largest < meta.smallest);
            let after = next.iter().find(|other| other.meta.smallest > meta.largest);
            let between = overlapping().next().is_none()
                && [before, after].iter().all(|other| other.is_some_and(|other| !is_free(&other)));
            let free = overlapping().all(|other| is_free(&other)) && !between;
            free.then(|| bytes as f64 / meta.file_bytes as f64)
        };
        let least = upper.iter().filter(is_free).filter_map(cost).min_by(f64::total_cmp);
        let chosen = tree.pick(1).map(|spec| cost(&spec.inputs[0].tables[0]).expect("free"));
        assert_eq!(chosen, least, "round {round}");
    }
}

/// Sizes of the tables in one run, in order, that become one; none if nothing does.
fn small_ones(sizes: &[u64], change: impl Fn(&mut KeyspaceOptions)) -> Vec<u64> {
    let sized = |(at, bytes): (usize, &u64)| {
        let mut entry = table(2, 1, &format!("{at:03}"), &format!("{at:03}"));
        entry.2 = TableMeta { file_bytes: *bytes, raw_bytes: *bytes, entries: 1, ..entry.2 };
        entry
    };
    let tree = Tree::new(Compaction::Leveled, sizes.iter().enumerate().map(sized).collect());
    let mut options = (*tree.options).clone();
    change(&mut options);
    let Some(spec) = pick_small(&tree.version, &options) else { return Vec::new() };
    assert_eq!((spec.level, spec.output_level, spec.output_run), (2, 2, Some(1)));
    assert_eq!((spec.inputs.len(), spec.is_move), (1, false));
    spec.tables().map(|(_, table)| table.meta.file_bytes).collect()
}

#[test]
fn small_neighbours_become_one_that_is_twice_as_large_as_any() {
    let chosen = |sizes: &[u64]| small_ones(sizes, |_| ());
    // A table of a mebibyte is the largest, one of 16 KiB is small no more.
    const SMALL: u64 = 16 << 10;
    assert_eq!(chosen(&[10; 8]), [10; 8]);
    assert!(chosen(&[10; 7]).is_empty());
    assert!(chosen(&[SMALL; 20]).is_empty());
    assert_eq!(chosen(&[SMALL - 1; 20]), [SMALL - 1; 8], "more is not small together");
    let large_among = [&[10; 7][..], &[SMALL], &[10; 7]].concat();
    assert!(chosen(&large_among).is_empty(), "they are not neighbours");
    // One that is larger than the others together is not written again for so little.
    let with_large =
        |before: usize, after: usize| [&vec![10; before][..], &[2_000], &vec![10; after]].concat();
    assert_eq!(chosen(&with_large(9, 8)), [10; 9]);
    assert_eq!(chosen(&with_large(7, 8)), [10; 8]);
    assert!(chosen(&with_large(7, 7)).is_empty());
    assert_eq!(chosen(&with_large(0, 200)), with_large(0, 200));
    // What is cut at groups again must not be as many.
    let in_groups = |bytes: u64| {
        small_ones(&[bytes; 20], |options| {
            options.groups = Some(GroupPrefix::Fixed { bytes: 1 });
            options.group_table_bytes_min = 4 << 10;
        })
    };
    assert_eq!(in_groups(900), [900; 20]);
    assert!(in_groups(1_100).is_empty());
    let indexed = small_ones(&[10; 20], |options| {
        options.compaction = Compaction::Tiered;
        options.run_index = true;
    });
    assert!(indexed.is_empty());
}

#[test]
fn a_record_is_written_a_few_times_until_its_table_is_not_small() {
    for flush in [100, 1_000, 15_000] {
        let (mut sizes, mut written) = (Vec::new(), 0);
        let flushes = 1_000_000 / flush;
        for _ in 0..flushes {
            sizes.push(flush);
            loop {
                let chosen = small_ones(&sizes, |_| ());
                let at = sizes.windows(chosen.len().max(1)).rposition(|part| part == chosen);
                let Some(at) = at else { break };
                let total = chosen.iter().sum();
                written += total;
                sizes.splice(at..at + chosen.len(), [total]);
            }
        }
        let amplification = written as f64 / 1_000_000.0;
        let doublings = ((32 << 10) as f64 / flush as f64).log2();
        assert!(amplification <= doublings, "{amplification}");
        assert!(sizes.len() <= 1_000_000 / (16 << 10) + 8 * doublings as usize, "{sizes:?}");
    }
}

/// What small tables become spans what is between them.
#[test]
fn nothing_comes_between_small_tables_that_become_one() {
    let small = (10..20).map(|key| (1, 1, format!("{key}"), format!("{key}x")));
    let above = [(0, 9, "14z".to_owned(), "14zz".to_owned()), (0, 8, "20".into(), "21".into())];
    let tables = small.chain(above).map(|(level, run, smallest, largest)| {
        let mut entry = table(level, run, &smallest, &largest);
        entry.2.file_bytes = 10;
        entry
    });
    let tree = Tree::new(Compaction::Leveled, tables.collect());
    let small = || pick_small(&tree.version, &tree.options);
    let set = |spec: &CompactionSpec, busy: bool| {
        spec.tables().for_each(|(_, table)| table.compacting.store(busy, Ordering::Relaxed));
    };
    // The oldest run of level 0, behind them all.
    let behind = tree.pick(0).expect("a move");
    assert_eq!((inputs(&behind), behind.is_move), (named(&[(0, "20")]), true));
    let merge = small().expect("all ten");
    assert_eq!(merge.tables().count(), 10);
    set(&merge, true);
    assert!(tree.pick(0).is_some(), "it is not between them");
    set(&merge, false);

    let removed: Vec<(u32, u64)> =
        behind.tables().map(|(level, table)| (level as u32, table.meta.number)).collect();
    let version = tree.version.apply(&tree.options.order, &removed, Vec::new()).expect("a tree");
    let tree = Tree { version, ..tree };
    let small = || pick_small(&tree.version, &tree.options);
    let between = tree.pick(0).expect("a move");
    assert_eq!((inputs(&between), between.is_move), (named(&[(0, "14z")]), true));
    let merge = small().expect("all ten");
    set(&merge, true);
    assert!(tree.pick(0).is_none(), "it is between them");
    set(&merge, false);
    set(&between, true);
    assert!(small().is_none(), "something comes between them");
}

#[test]
fn small_tables_become_one_in_their_own_run_and_only_in_an_idle_level() {
    let run = |run: u64| {
        (10..20).map(move |key| {
            let mut entry = table(1, run, &format!("{key}"), &format!("{key}x"));
            entry.2.file_bytes = 10;
            entry
        })
    };
    let tree = Tree::new(Compaction::Tiered, run(1).chain(run(2)).collect());
    let spec = pick_small(&tree.version, &tree.options).expect("ten of the newer");
    assert_eq!((spec.output_run, spec.tables().count()), (Some(2), 10));
    let leveled = KeyspaceOptions { compaction: Compaction::Leveled, ..(*tree.options).clone() };
    assert!(pick_small(&tree.version, &leveled).is_none(), "they are to be one run first");
    // If one is chosen by tiers and comes into force in levels, it is still of its run.
    let of_older = CompactionSpec { output_run: Some(1), ..spec };
    assert_eq!(output_run(&tree.version, &leveled, &of_older), Some(1));
    tree.find_run(1).tables[9].compacting.store(true, Ordering::Relaxed);
    assert!(pick_small(&tree.version, &tree.options).is_none(), "something is at work there");
}

/// Whatever brings something into a level.
#[test]
fn nothing_comes_between_two_tables_that_are_taken() {
    let tables =
        vec![dead(100, table(1, 5, "m", "n")), table(2, 3, "a", "c"), table(2, 3, "x", "z")];
    let tree = Tree::new(Compaction::Leveled, tables);
    let for_tombstones =
        || pick_tombstones(&tree.version, &tree.options, Seq::MAX).map(|spec| inputs(&spec));
    let by_hand = || match tree.manual(1) {
        Pick::Run(spec) => Some(inputs(&spec)),
        Pick::Busy => None,
        Pick::Nothing => panic!("level 1 has a table"),
    };
    let moves = Some(named(&[(1, "m")]));
    assert_eq!((for_tombstones(), by_hand()), (moves.clone(), moves.clone()));
    tree.take(2, "a");
    assert_eq!((for_tombstones(), by_hand()), (moves.clone(), moves), "beside one");
    tree.take(2, "x");
    assert_eq!((for_tombstones(), by_hand()), (None, None));
}

#[test]
fn a_manual_compaction_waits_for_who_has_what_is_dying() {
    let tree = Tree::new(Compaction::Leveled, vec![dead(1, table(1, 5, "a", "c"))]);
    let Pick::Run(spec) = tree.manual(1) else { panic!("a tombstone to drop") };
    assert_eq!((spec.reason, spec.output_level), (CompactionReason::Manual, 1));
    tree.take(1, "a");
    assert!(matches!(tree.manual(1), Pick::Busy), "who has it may keep it for a snapshot");
    let alive = Tree::new(Compaction::Leveled, vec![table(1, 5, "a", "c")]);
    alive.take(1, "a");
    assert!(matches!(alive.manual(1), Pick::Nothing));
}

/// One table after the other, by two threads in turns, and level 0 grows.
#[test]
fn what_was_erased_does_not_keep_level_0_from_being_compacted() {
    let tree = |runs: u64, busy: usize| {
        let level0 = (0..runs).map(|run| table(0, 10 + run, "a", "z"));
        let tables = level0.chain([table(1, 1, "a", "z")]).collect();
        let mut tree = Tree::new(Compaction::Leveled, tables);
        let erased =
            RangeTombstone { start: b"b".as_slice().into(), end: b"c".as_slice().into(), seq: 10 };
        let order = tree.options.order.clone();
        tree.version.erase(&order, &[erased]);
        let tables = tree.version.level(busy)[0].tables.clone();
        tables[0].compacting.store(true, Ordering::Relaxed);
        tree
    };
    for busy in [0, 1] {
        let due = tree(5, busy);
        assert!(due.pick(0).is_none(), "it waits");
        assert!(pick_erased(&due.version, &due.options, false).is_none());
        assert!(pick_erased(&due.version, &due.options, true).is_some(), "there may be no room");
        // It need not be compacted.
        let idle = tree(3, busy);
        let spec = pick_erased(&idle.version, &idle.options, false).expect("a table");
        assert_eq!((spec.reason, spec.level), (CompactionReason::Erased, 0));
    }
}
