//! Where compactions are cut, and that in parts they write what they would write in one piece.

use super::job::{JobContext, JobResult, run_parts};
use super::parts::{Helpers, Part, Shared, cut};
use crate::cursor::Cursor;
use crate::event::{CompactionReason, EventSink};
use crate::names;
use crate::options::{Compression, KeyspaceOptions, Options};
use crate::random::Random;
use crate::range_tombstone::{RangeTombstone, RangeTombstones};
use crate::table::{CursorOptions, Origin};
use crate::version::{
    CompactionSpec, InputRun, Run, RunCursor, RunOutput, Table, TableStore, Version,
};
use esker_base::vfs::strict::{StrictVfs, Survival};
use esker_base::{Env, KeyspaceId, Kind, Seq, Trailer, Vfs};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const KEYS: u64 = 40;
/// Sequence numbers of each run.
const BAND: Seq = 60;

/// Every other key is between two that records have.
fn random_key(random: &mut Random, between: bool) -> Vec<u8> {
    let after = if between && random.below(2) == 0 { "+" } else { "" };
    format!("k{:02}{after}", random.below(KEYS)).into_bytes()
}

struct Nobody;

impl Helpers for Nobody {
    fn call(&self, work: &Shared, _: usize) {
        work();
    }
}

struct Fixture {
    disk: StrictVfs,
    store: Arc<TableStore>,
    options: Arc<KeyspaceOptions>,
}

impl Fixture {
    fn new(table_bytes_max: u64) -> Fixture {
        let disk = StrictVfs::new();
        let env = Env::with_vfs(Arc::new(disk.clone()), 7);
        disk.create_dir_all(Path::new("/db")).expect("a directory");
        disk.sync_dir(Path::new("/")).expect("a durable one");
        let shares = Options::default().memory_shares();
        let store = TableStore::new(env, "/db".into(), EventSink::new(None), 100, shares);
        let options = KeyspaceOptions {
            block_bytes: 512,
            restart_interval: 3,
            index_partition_bytes: 1 << 10,
            compression: vec![Compression::None],
            table_bytes_max,
            ..KeyspaceOptions::default()
        };
        Fixture { disk, store: Arc::new(store), options: Arc::new(options) }
    }

    fn output(&self, level: usize, tombstones: &RangeTombstones) -> RunOutput {
        let (store, options) = (self.store.clone(), self.options.clone());
        let origin = Origin::new(KeyspaceId::DEFAULT, "default");
        RunOutput::new(store, options, origin, level, tombstones.whole().collect(), Vec::new())
    }

    /// A run of one record for each key.
    fn plain_run(&self, level: usize, keys: Range<u32>, value_bytes: usize) -> Vec<Arc<Table>> {
        let mut output = self.output(level, &RangeTombstones::default());
        for number in keys {
            let (key, value) = (number.to_be_bytes(), vec![1; value_bytes]);
            output.add(&key, Trailer::new(1, Kind::Put), &value).expect("add");
        }
        self.tables(output.finish().expect("finish"))
    }

    fn tables(&self, metas: Vec<crate::version::TableMeta>) -> Vec<Arc<Table>> {
        metas.into_iter().map(|meta| self.store.table(meta, &self.options)).collect()
    }

    /// A run of random records and range tombstones with the sequence numbers that follow `seq`.
    fn run(&self, random: &mut Random, level: usize, seq: Seq) -> Vec<Arc<Table>> {
        let (mut records, mut tombstones) = (Vec::new(), Vec::new());
        for seq in seq + 1..=seq + BAND {
            match random.below(12) {
                0 => {
                    let (start, end) =
                        (random_key(random, true).into(), random_key(random, true).into());
                    tombstones.push(RangeTombstone { start, end, seq });
                }
                1..=2 => records.push((random_key(random, false), Trailer::new(seq, Kind::Delete))),
                _ => records.push((random_key(random, false), Trailer::new(seq, Kind::Put))),
            }
        }
        records.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        let tombstones = RangeTombstones::build(&self.options.order, &tombstones);
        let mut output = self.output(level, &tombstones);
        for (key, trailer) in &records {
            let value = vec![trailer.seq() as u8; 200];
            output.add(key, *trailer, &value).expect("add");
        }
        self.tables(output.finish().expect("finish"))
    }
}

fn spec_of(inputs: Vec<InputRun>) -> CompactionSpec {
    CompactionSpec {
        reason: CompactionReason::Size,
        level: 0,
        output_level: 1,
        output_run: Some(2),
        inputs,
        is_move: false,
    }
}

/// Two runs of level 0, one of level 1, and one of level 2 that stays below.
struct Job {
    spec: CompactionSpec,
    version: Arc<Version>,
    snapshots: Vec<Seq>,
    logged_from: Seq,
}

impl Job {
    /// Nothing is below, there are no snapshots, and logs hold nothing.
    fn of(spec: CompactionSpec) -> Job {
        let version = Arc::new(Version::default());
        Job { spec, version, snapshots: Vec::new(), logged_from: Seq::MAX }
    }

    fn new(fixture: &Fixture, random: &mut Random) -> Job {
        let levels = [2, 1, 0, 0];
        let mut inputs = Vec::new();
        let mut below = Vec::new();
        for (number, level) in levels.into_iter().enumerate() {
            let tables = fixture.run(random, level, number as Seq * BAND);
            match level {
                2 => below.extend(tables),
                _ => inputs.insert(0, InputRun { level, tables }),
            }
        }
        // There is not always something below.
        below.truncate(random.below(4) as usize);
        let mut version = Version::default();
        version.levels.resize(3, Vec::new());
        if !below.is_empty() {
            version.levels[2].push(Arc::new(Run::new(1, below)));
        }
        let mut snapshots: Vec<Seq> =
            (0..random.below(4)).map(|_| random.below(4 * BAND)).collect();
        snapshots.sort_unstable();
        let spec = spec_of(inputs);
        Job { version: Arc::new(version), snapshots, ..Job::of(spec) }
    }

    fn run(&self, fixture: &Fixture, parts: Vec<Part>) -> JobResult {
        self.run_with(fixture, parts, || ())
    }

    fn run_with(
        &self,
        fixture: &Fixture,
        parts: Vec<Part>,
        rest: impl Fn() + Send + Sync + 'static,
    ) -> JobResult {
        let context = JobContext {
            store: fixture.store.clone(),
            options: fixture.options.clone(),
            origin: Origin::new(KeyspaceId::DEFAULT, "default"),
            version: self.version.clone(),
            snapshots: self.snapshots.clone(),
            aged_from: self.logged_from,
            stop: Box::new(|| false),
            rest: Box::new(rest),
        };
        run_parts(&self.spec, context, parts, &Nobody).expect("compacts")
    }
}

type Record = (Vec<u8>, Trailer, Vec<u8>);

/// All records of a run, and which tombstones lie over each key: as a get finds them, in the one
/// table that may hold the key.
fn contents(fixture: &Fixture, tables: &[Arc<Table>]) -> (Vec<Record>, Vec<Vec<Seq>>) {
    let order = &fixture.options.order;
    let options = CursorOptions::default();
    let mut cursor = RunCursor::over(order.clone(), tables.to_vec(), options);
    let mut records = Vec::new();
    cursor.seek_to_first().expect("seek");
    while cursor.valid() {
        records.push((cursor.key().to_vec(), cursor.trailer(), cursor.value().to_vec()));
        cursor.next().expect("next");
    }
    let run = Run::new(1, tables.to_vec());
    let over = |key: &[u8]| {
        let Some(table) = run.table_for(order, key) else { return Vec::new() };
        let tombstones = table.range_tombstones(&table.shared_reader().expect("opens"));
        let covers = |t: &RangeTombstone| t.start[..] <= *key && *key < t.end[..];
        tombstones.records().filter(covers).map(|t| t.seq).collect()
    };
    let keys =
        (0..KEYS).flat_map(|n| [format!("k{n:02}"), format!("k{n:02}+"), format!("k{n:02}-")]);
    (records, keys.map(|key| over(key.as_bytes())).collect())
}

/// Parts that are cut at random keys.
fn random_parts(random: &mut Random) -> Vec<Part> {
    let mut cuts: Vec<Arc<[u8]>> =
        (0..1 + random.below(4)).map(|_| random_key(random, true).into()).collect();
    cuts.sort();
    cuts.dedup();
    let starts = [None].into_iter().chain(cuts.iter().cloned().map(Some));
    let ends = cuts.iter().cloned().map(Some).chain([None]);
    starts.zip(ends).map(|(start, end)| Part { start, end }).collect()
}

#[test]
fn parts_together_are_what_one_piece_would_be() {
    let mut random = Random(1);
    for round in 0..150 {
        let fixture = Fixture::new(4 << 10);
        let job = Job::new(&fixture, &mut random);
        let whole = job.run(&fixture, vec![Part::default()]);
        let whole = contents(&fixture, &fixture.tables(whole.tables));
        for _ in 0..4 {
            let parts = random_parts(&mut random);
            let result = job.run(&fixture, parts.clone());
            assert_eq!(result.parts, parts.len() as u64);
            let tables = fixture.tables(result.tables);
            let kept = fixture.disk.crash(Survival::None, 1);
            let found = contents(&fixture, &tables);
            assert!(found == whole, "round {round}, {parts:?}");
            // No table reaches beyond its part, so that those of two parts do not overlap.
            for table in &tables {
                let (first, meta) = (&table.meta.smallest, &table.meta);
                let of = |part: &&Part| part.end.as_ref().is_none_or(|end| first[..] < end[..]);
                let part = parts.iter().find(of).expect("some part");
                assert!(part.start.as_ref().is_none_or(|start| start[..] <= first[..]));
                let inside = |end: &Arc<[u8]>| {
                    meta.largest[..] < end[..]
                        || meta.largest[..] == end[..] && meta.largest_exclusive
                };
                assert!(part.end.as_ref().is_none_or(inside), "round {round}: {meta:?}, {part:?}");
                // Records, tombstones and the bounds of the table agree.
                let reader = table.shared_reader().expect("opens");
                reader.verify().expect("whole");
                let path = names::table(Path::new("/db"), meta.number);
                assert!(kept.exists(&path).expect("asked"), "its name is durable");
            }
        }
    }
}

#[test]
fn a_part_counts_only_what_lies_below_it() {
    let fixture = Fixture::new(4 << 10);
    // Far more grandparents before the part than a table may overlap, and none beside it.
    let grandparents = fixture.plain_run(2, 0..200, 1 << 10);
    assert!(grandparents.len() > 40);
    let tables = fixture.plain_run(0, 1_000..1_015, 250);
    let mut version = Version::default();
    version.levels.resize(3, Vec::new());
    version.levels[2].push(Arc::new(Run::new(1, grandparents)));
    let spec = spec_of(vec![InputRun { level: 0, tables }]);
    let job = Job { version: Arc::new(version), ..Job::of(spec) };
    let start = Some(1_000u32.to_be_bytes().as_slice().into());
    let parts = vec![Part { start: None, end: start.clone() }, Part { start, end: None }];
    assert_eq!(job.run(&fixture, parts).tables.len(), 1, "one table, as large as it may be");
}

#[test]
fn a_job_may_rest_between_pieces_also_of_large_values() {
    let fixture = Fixture::new(1 << 20);
    // Small records, of which 50 make a piece, and some that are one each.
    for (records, value_bytes, rests) in [(1_000, 330, 20), (10, 20 << 10, 10)] {
        let tables = fixture.plain_run(0, 0..records, value_bytes);
        let spec = spec_of(vec![InputRun { level: 0, tables }]);
        let job = Job::of(spec);
        let calls = Arc::new(AtomicUsize::new(0));
        let rested = calls.clone();
        let rest = move || {
            rested.fetch_add(1, Ordering::Relaxed);
        };
        job.run_with(&fixture, vec![Part::default()], rest);
        assert_eq!(calls.load(Ordering::Relaxed), rests);
    }
}

/// Merges two runs of level 0 into one of level 1, while logs hold records from `logged_from` on,
/// and says with which sequence numbers small and large values are there then.
fn ages_after(compression: Vec<Compression>, logged_from: Seq) -> (Vec<Seq>, Vec<Seq>) {
    let mut fixture = Fixture::new(1 << 20);
    fixture.options = Arc::new(KeyspaceOptions { compression, ..(*fixture.options).clone() });
    let run = |first: u8| {
        let mut output = fixture.output(0, &RangeTombstones::default());
        for number in (first..40).step_by(2) {
            let value = vec![number; if number % 4 < 2 { 100 } else { 2_000 }];
            output.add(&[number], Trailer::new(3, Kind::Put), &value).expect("add");
        }
        let tables = fixture.tables(output.finish().expect("finish"));
        InputRun { level: 0, tables }
    };
    let job = Job { logged_from, ..Job::of(spec_of(vec![run(0), run(1)])) };
    let written = job.run(&fixture, vec![Part::default()]).tables;
    let told = written.iter().map(|meta| (meta.min_seq, meta.max_seq)).next();
    let (records, _) = contents(&fixture, &fixture.tables(written));
    assert_eq!(records.len(), 40);
    let seqs = || records.iter().map(|record| record.1.seq());
    assert_eq!(told, seqs().min().zip(seqs().max()), "the one table knows");
    let mut ages = (Vec::new(), Vec::new());
    for (number, (key, trailer, value)) in records.iter().enumerate() {
        let number = number as u8;
        assert!(key == &[number] && value.iter().all(|&byte| byte == number));
        if value.len() == 100 { &mut ages.0 } else { &mut ages.1 }.push(trailer.seq());
    }
    (ages.0, ages.1)
}

#[test]
fn large_records_are_copied_and_keep_their_age() {
    let (none, lz4) = (Compression::None, Compression::Lz4);
    for compression in [vec![none], vec![lz4], vec![Compression::Zstd { level: 1 }]] {
        assert_eq!(ages_after(compression, Seq::MAX), (vec![0; 20], vec![3; 20]));
    }
    // Level 1 is compressed otherwise than level 0.
    assert_eq!(ages_after(vec![none, lz4], Seq::MAX), (vec![0; 20], vec![0; 20]));
}

/// Records of such numbers may come back from a log, and must not be taken for newer ones.
#[test]
fn records_keep_their_age_that_are_as_new_as_what_logs_hold() {
    let otherwise = || vec![Compression::None, Compression::Lz4];
    assert_eq!(ages_after(otherwise(), 4), (vec![0; 20], vec![0; 20]));
    for logged_from in [0, 3] {
        assert_eq!(ages_after(otherwise(), logged_from), (vec![3; 20], vec![3; 20]));
    }
}

#[test]
fn a_large_table_is_cut_inside() {
    let fixture = Fixture::new(1 << 20);
    let tables = fixture.plain_run(0, 0..1_000, 300);
    assert_eq!(tables.len(), 1);
    let spec = spec_of(vec![InputRun { level: 0, tables }]);
    let options = KeyspaceOptions { table_bytes_max: 64 << 10, ..(*fixture.options).clone() };
    let parts = cut(&spec, &options, 8).expect("cut");
    let [first, second] = &parts[..] else { panic!("{parts:?}") };
    assert_eq!((&first.start, &first.end, &second.end), (&None, &second.start, &None));
    let middle = first.end.as_ref().expect("a cut");
    let near = middle[..] > 300u32.to_be_bytes()[..] && middle[..] < 700u32.to_be_bytes()[..];
    assert!(near, "{middle:?}");
}

#[test]
fn a_tombstone_beside_a_part_makes_no_table() {
    let fixture = Fixture::new(4 << 10);
    let tombstone = |start: &str, end: &str, seq| RangeTombstone {
        start: start.as_bytes().into(),
        end: end.as_bytes().into(),
        seq,
    };
    let two = [tombstone("b", "d", 5), tombstone("d", "f", 6)];
    let tombstones = RangeTombstones::build(&fixture.options.order, &two);
    let part = |start: &str, end: &str| {
        let mut output = fixture.output(1, &tombstones);
        output.start_at(start.as_bytes().into());
        output.finish_at(Some(end.as_bytes().into())).expect("finish");
        let tables = fixture.tables(RunOutput::join(vec![output]).expect("join"));
        let of = |table: &Arc<Table>| {
            let reader = table.shared_reader().expect("opens");
            table.range_tombstones(&reader).records().collect::<Vec<_>>()
        };
        tables.iter().map(of).collect::<Vec<_>>()
    };
    assert!(part("a", "b").is_empty());
    assert!(part("f", "g").is_empty());
    assert_eq!(part("a", "c"), [[tombstone("b", "c", 5)]]);
    assert_eq!(part("c", "d"), [[tombstone("c", "d", 5)]]);
    assert_eq!(part("d", "f"), [[tombstone("d", "f", 6)]]);
    assert_eq!(part("c", "e"), [[tombstone("c", "d", 5), tombstone("d", "e", 6)]]);
}

#[test]
fn tombstones_are_cut_into_tables_as_records_are() {
    const TABLE_BYTES: u64 = 4 << 10;
    let fixture = Fixture::new(TABLE_BYTES);
    let key = |number: u32| number.to_be_bytes();
    let tombstone = |nth: u32| RangeTombstone {
        start: key(10 * nth)[..].into(),
        end: key(10 * nth + 5)[..].into(),
        seq: 5,
    };
    let all: Vec<RangeTombstone> = (0..3_000).map(tombstone).collect();
    let tombstones = RangeTombstones::build(&fixture.options.order, &all);
    // A record here and there, one of them where a tombstone ends.
    let records = (0..30_000).filter(|number| number % 4_000 == 7 || *number == 20_005);
    let records: Vec<u32> = records.collect();
    for part in [0..30_000, 7_002..22_003] {
        let mut output = fixture.output(1, &tombstones);
        output.start_at(key(part.start)[..].into());
        for number in records.iter().filter(|number| part.contains(number)) {
            output.add(&key(*number), Trailer::new(9, Kind::Put), b"value").expect("add");
        }
        output.finish_at(Some(key(part.end)[..].into())).expect("finish");
        let tables = fixture.tables(RunOutput::join(vec![output]).expect("join"));
        assert!(tables.len() > 5, "{}", tables.len());
        let (mut found, mut entries) = (Vec::new(), 0);
        for table in &tables {
            let reader = table.shared_reader().expect("opens");
            let of: Vec<_> = table.range_tombstones(&reader).records().collect();
            assert!(of.len() as u64 * 20 <= TABLE_BYTES + 40, "{} in one table", of.len());
            found.extend(of);
            entries += table.meta.entries;
        }
        for pair in tables.windows(2) {
            let (one, next) = (&pair[0].meta, &pair[1].meta);
            assert!(one.largest <= next.smallest, "{one:?} {next:?}");
            assert!(one.largest_exclusive || one.largest < next.smallest, "{one:?} {next:?}");
        }
        let clip = |t: &RangeTombstone| RangeTombstone {
            start: t.start.clone().max(key(part.start)[..].into()),
            end: t.end.clone().min(key(part.end)[..].into()),
            seq: t.seq,
        };
        let expected: Vec<_> = all.iter().map(clip).filter(|t| t.start < t.end).collect();
        assert_eq!(found.len(), expected.len());
        assert!(found == expected, "every part of each once");
        let inside = records.iter().filter(|number| part.contains(number)).count();
        assert_eq!(entries, inside as u64);
    }
}

/// They are one block of each table, however large tables may be.
#[test]
fn many_bytes_of_tombstones_are_cut_in_the_largest_tables() {
    let fixture = Fixture::new(4 << 30);
    let key = |nth: u32, end: u8| -> Arc<[u8]> {
        let mut key = vec![end; 60_000];
        key[..4].copy_from_slice(&nth.to_be_bytes());
        key.into()
    };
    let tombstone = |nth| RangeTombstone { start: key(nth, 1), end: key(nth, 2), seq: 5 };
    let all: Vec<RangeTombstone> = (0..1_300).map(tombstone).collect();
    let tombstones = RangeTombstones::build(&fixture.options.order, &all);
    let metas = fixture.output(1, &tombstones).finish().expect("finish");
    let counts: Vec<u64> = metas.iter().map(|meta| meta.range_tombstones).collect();
    assert_eq!((counts.len(), counts.iter().sum::<u64>()), (3, 1_300), "{counts:?}");
}

#[test]
fn an_output_that_is_dropped_leaves_no_file() {
    let fixture = Fixture::new(4 << 10);
    let tables = || fixture.disk.list(Path::new("/db")).expect("list").len();
    let mut output = fixture.output(1, &RangeTombstones::default());
    for number in 0..100u32 {
        let key = number.to_be_bytes();
        output.add(&key, Trailer::new(1, Kind::Put), &[1; 200]).expect("add");
    }
    assert!(tables() > 2, "some that are done, and one that is not");
    drop(output);
    assert_eq!(tables(), 0);
}
