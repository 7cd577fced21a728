//! Listeners are told of each step of a tree, and which compactions are under way.

use super::support::{DIR, Random, setup_on};
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::StrictVfs;
use esker::event::Event;
use esker::trace::{Amount, Running, Step, What};
use esker::{Compression, Db, KeyspaceOptions, Options, Setup};
use std::sync::{Arc, Mutex};

fn options() -> Options {
    let default_keyspace = KeyspaceOptions {
        memtable_bytes: 64 << 10,
        compression: vec![Compression::None],
        table_bytes_max: 32 << 10,
        level_base_bytes: 128 << 10,
        level_fanout: 4,
        level0_runs_compact: 2,
        ..KeyspaceOptions::default()
    };
    Options { default_keyspace, ..Options::default() }
}

/// A store whose steps are kept, on a disk that can fail.
fn open() -> (Db, FaultyVfs, Arc<Mutex<Vec<Step>>>) {
    let disk = FaultyVfs::new(Arc::new(StrictVfs::new()));
    let steps = Arc::new(Mutex::new(Vec::new()));
    let kept = steps.clone();
    let listener = move |event: &Event| {
        if let Event::Step { step, .. } = event {
            kept.lock().expect("steps").push(step.clone());
        }
    };
    let setup = Setup { listener: Some(Arc::new(listener)), ..setup_on(Arc::new(disk.clone()), 7) };
    (Db::open_with(DIR, options(), setup).expect("open"), disk, steps)
}

fn fill(db: &Db, puts: u64) {
    let mut random = Random(1);
    for _ in 0..puts {
        let key = format!("key{:010}", random.below(1 << 30));
        db.put(key.as_bytes(), &[7; 100]).expect("put");
    }
}

#[test]
fn a_compaction_is_under_way_from_its_start_to_its_end() {
    let (db, _, steps) = open();
    fill(&db, 20_000);
    db.close().expect("close");
    let steps = steps.lock().expect("steps");
    let mut begun: Option<Running> = None;
    let mut over = 0;
    for step in steps.iter() {
        match step.what {
            What::Started => {
                assert_eq!((begun, step.running.len()), (None, 1), "one after the other");
                begun = step.running.first().copied();
            }
            What::Compacted { level, output_level, taken, rewritten, duration_us, .. } => {
                let begun = begun.take().expect("it began");
                let input = Amount {
                    tables: taken.tables + rewritten.tables,
                    bytes: taken.bytes + rewritten.bytes,
                };
                assert_eq!(
                    (begun.level, begun.output_level, begun.input),
                    (level, output_level, input)
                );
                assert!(begun.since_us + duration_us <= step.at_us + 1, "{begun:?} {step:?}");
                assert_eq!(step.running, []);
                over += 1;
            }
            _ => {}
        }
        let limits =
            |at: usize| step.levels.get(at).map(|level| (level.limit_bytes, level.limit_runs));
        assert_eq!(limits(0), Some((0, 2)));
        assert!(limits(1).is_none_or(|limits| limits == (128 << 10, 0)), "{:?}", limits(1));
        assert!(limits(2).is_none_or(|limits| limits == (512 << 10, 0)), "{:?}", limits(2));
    }
    assert!(over > 5 && begun.is_none(), "{over}");
    // A memtable is flushed when it is full, and then gone.
    let flushed = |step: &&Step| matches!(step.what, What::Flushed { .. });
    for step in steps.iter().filter(flushed) {
        assert!(step.memtable_bytes < 64 << 10, "{}", step.memtable_bytes);
    }
    let user_bytes = steps.iter().map(|step| step.user_bytes).max();
    assert!(user_bytes.is_some_and(|bytes| bytes <= 20_000 * 113), "{user_bytes:?}");
}

#[test]
fn a_compaction_that_failed_is_under_way_no_more() {
    let (db, disk, steps) = open();
    fill(&db, 3_000);
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    disk.inject(FaultRule::nth(1, &[Op::Create], Fault::NoSpace).from_then_on());
    db.default_keyspace().compact_range(None, None).expect_err("no table can be made");
    let last = steps.lock().expect("steps").last().cloned().expect("a step");
    assert_eq!((last.what, last.running.len()), (What::Started, 1), "{last:?}");
    disk.heal();
    fill(&db, 1_000);
    db.flush().expect("flush");
    let steps = steps.lock().expect("steps");
    let after = steps.iter().rfind(|step| matches!(step.what, What::Flushed { .. }));
    assert_eq!(after.expect("a flush").running, [], "the failed one");
}
