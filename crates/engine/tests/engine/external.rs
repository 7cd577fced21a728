//! A store without a log of its own: after a crash it is exactly as after the request that it then
//! tells of.

use super::support::{DIR, Random, assert_sound, below_log as options, grouped, setup};
use esker::base::Clock;
use esker::base::env::ManualClock;
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::event::Event;
use esker::{
    Applied, Batch, Compaction, Db, Durability, Error, Keyspace, Options, ScanOptions, WriteOptions,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Values of 200 bytes and more stand apart.
fn separated() -> Options {
    let mut options = options();
    options.default_keyspace.value_log_bytes_min = Some(200);
    options
}

fn open(disk: &StrictVfs, options: &Options) -> Db {
    Db::open_with(DIR, options.clone(), setup(disk)).expect("open")
}

/// Groups, and how far they are persistent.
type Told = Vec<(Vec<u8>, u64)>;

fn group(number: u64) -> Vec<u8> {
    format!("g{number:03}/").into_bytes()
}

fn put(db: &Db, group: &[u8], index: u64, key: &str, value: &[u8]) {
    let mut batch = Batch::new();
    batch.put(&[group, key.as_bytes()].concat(), value);
    db.apply(Applied { group, index, note: b"" }, batch).expect("apply");
}

fn indexes(db: &Db, group: &[u8]) -> Option<(u64, u64)> {
    db.group(group).map(|group| (group.applied, group.persisted))
}

/// A clock that goes on by a millisecond whenever it is looked at.
#[derive(Debug, Default)]
struct Ticking(ManualClock);

impl Clock for Ticking {
    fn now_ns(&self) -> u64 {
        self.0.advance_ns(1_000_000);
        self.0.now_ns()
    }

    fn unix_seconds(&self) -> u64 {
        self.0.unix_seconds()
    }
}

/// What is sealed of all keyspaces is flushed together, and took no longer than that.
#[test]
fn each_keyspace_is_told_its_own_time() {
    let mut setup = setup(&StrictVfs::new());
    let clock = Arc::new(Ticking::default());
    setup.env.clock = clock.clone();
    let db = Db::open_with(DIR, options(), setup).expect("open");
    let keyspaces = ["a", "b", "c", "d", "e"]
        .map(|name| db.create_keyspace(name, options().default_keyspace).expect("create"));
    let mut batch = Batch::new();
    for keyspace in &keyspaces {
        batch.put_in(keyspace, b"g/key", b"value");
    }
    db.apply(Applied { group: b"g/", index: 1, note: b"" }, batch).expect("apply");
    let before = clock.now_ns();
    db.flush().expect("flush");
    let took_us = (clock.now_ns() - before) / 1_000;
    let stats = db.stats();
    let told: Vec<u64> = stats.keyspaces.iter().map(|k| k.levels[0].duration_us).collect();
    assert!(told.iter().filter(|&&us| us > 0).count() >= 5, "{told:?}");
    assert!(told.iter().sum::<u64>() <= took_us, "{told:?} of {took_us}");
    db.close().expect("close");
}

#[test]
fn what_is_not_flushed_is_gone_after_a_crash_and_the_index_tells() {
    let disk = StrictVfs::new();
    let db = open(&disk, &options());
    let g = group(1);
    put(&db, &g, 5, "a", b"1");
    assert_eq!(db.flush_group(&g).expect("flush"), Some(5));
    put(&db, &g, 6, "a", b"2");
    put(&db, &g, 9, "b", b"3");
    let keyspace = db.default_keyspace();
    assert_eq!(keyspace.get(b"g001/a").expect("get").as_deref(), Some(&b"2"[..]));
    assert_eq!(keyspace.get_persisted(b"g001/a").expect("get").as_deref(), Some(&b"1"[..]));
    assert!(keyspace.get_persisted(b"g001/b").expect("get").is_none());
    assert_eq!(indexes(&db, &g), Some((9, 5)));
    let names = disk.file_names(Path::new(DIR));
    assert!(!names.iter().any(|name| name.ends_with(".wal")), "no log: {names:?}");
    let after = disk.crash(Survival::None, 1);
    std::mem::forget(db);
    let db = open(&after, &options());
    assert_eq!(indexes(&db, &g), Some((5, 5)));
    assert_eq!(db.get(b"g001/a").expect("get").as_deref(), Some(&b"1"[..]));
    assert!(db.get(b"g001/b").expect("get").is_none());
}

#[test]
fn a_close_makes_everything_persistent_and_notes_come_back() {
    let disk = StrictVfs::new();
    let db = open(&disk, &options());
    let g = group(1);
    let mut batch = Batch::new();
    batch.put(b"g001/a", b"1");
    db.apply(Applied { group: &g, index: 3, note: b"term 2" }, batch).expect("apply");
    // A request may change nothing.
    db.apply(Applied { group: &g, index: 4, note: b"term 3" }, Batch::new()).expect("apply");
    db.close().expect("close");
    let db = open(&disk, &options());
    let [known] = &db.groups()[..] else { panic!("one group") };
    assert_eq!((known.applied, known.persisted, &known.note[..]), (4, 4, &b"term 3"[..]));
    assert!(db.get(b"g001/a").expect("get").is_some());
    drop(db);
    // Through many rewrites of the manifest too.
    for _ in 0..3 {
        drop(open(&disk, &options()));
    }
    assert_eq!(indexes(&open(&disk, &options()), &g), Some((4, 4)));
}

#[test]
fn requests_are_refused_that_cannot_be_right() {
    let disk = StrictVfs::new();
    let db = open(&disk, &options());
    let g = group(1);
    put(&db, &g, 5, "a", b"1");
    let again = db.apply(Applied { group: &g, index: 5, note: b"" }, Batch::new());
    let text = again.expect_err("applied before").to_string();
    assert!(text.contains("g001/") && text.contains('5'), "{text}");
    db.flush_group(&g).expect("flush");
    let again = db.apply(Applied { group: &g, index: 4, note: b"" }, Batch::new());
    assert!(matches!(again, Err(Error::InvalidArgument { .. })));
    let nameless = db.apply(Applied { group: b"", index: 1, note: b"" }, Batch::new());
    assert!(matches!(nameless, Err(Error::InvalidArgument { .. })));
    let note = vec![0; (64 << 10) + 1];
    let long = db.apply(Applied { group: &g, index: 6, note: &note }, Batch::new());
    assert!(matches!(long, Err(Error::InvalidArgument { .. })));
    assert_eq!(indexes(&db, &g), Some((5, 5)), "nothing changed");
    let synced = db.write(Batch::new(), WriteOptions::SYNC).expect_err("no log").to_string();
    assert!(synced.contains("durability = external"), "{synced}");
    assert!(db.sync().is_err());
    assert_eq!(db.flush_group(b"unknown").expect("flush"), None);
    db.close().expect("close");
    let with_log = Options { durability: Durability::Wal, ..options() };
    let db = open(&disk, &with_log);
    let refused = db.apply(Applied { group: &g, index: 9, note: b"" }, Batch::new());
    assert!(refused.expect_err("it has a log").to_string().contains("durability = external"));
    assert!(db.flush_oldest().is_err() && db.persisted_snapshot().is_err());
    // What it was is kept, and what is written with a log is there afterwards.
    db.put(b"with a log", b"1").expect("put");
    drop(db);
    let db = open(&disk, &options());
    assert_eq!(indexes(&db, &g), Some((5, 5)));
    assert!(db.get(b"with a log").expect("get").is_some());
    let names = disk.file_names(Path::new(DIR));
    assert!(!names.iter().any(|name| name.ends_with(".wal")), "no log: {names:?}");
}

/// Wherever the other one is known from: tables, or requests.
#[test]
fn no_groups_name_begins_that_of_another() {
    let disk = StrictVfs::new();
    let db = open(&disk, &options());
    let known = [&b"b/"[..], b"ab/", b"bb/", b"a/"];
    let is_refused = |db: &Db, group: &[u8]| {
        let done = db.apply(Applied { group, index: 9, note: b"" }, Batch::new());
        done.is_err_and(|error| error.to_string().contains("begin alike"))
    };
    for (number, group) in known.iter().enumerate() {
        assert!(!is_refused(&db, group), "group {number}");
        if number == 1 {
            db.flush_group(group).expect("flush");
        }
    }
    let alike = [&b"a"[..], b"ab", b"ab/c", b"b", b"b/\0", b"b/\xff\xff", b"bb/bb/"];
    let refuses_all = |db: &Db| {
        let accepted = alike.iter().find(|group| !is_refused(db, group));
        assert!(accepted.is_none(), "{}", accepted.unwrap_or(&&b""[..]).escape_ascii());
    };
    refuses_all(&db);
    db.close().expect("close");
    let db = open(&disk, &options());
    refuses_all(&db);
    // Once what it collides with is gone, it is a name as any other.
    db.delete_group(b"b/").expect("delete");
    assert!(is_refused(&db, b"b"), "it begins bb/ too");
    db.delete_group(b"bb/").expect("delete");
    assert!(!is_refused(&db, b"b"));
    assert!(is_refused(&db, b"b/"));
    assert_eq!(db.groups().len(), 3);
}

#[test]
fn keyspaces_become_persistent_together_and_events_tell() {
    let disk = StrictVfs::new();
    let told: Arc<Mutex<Told>> = Arc::default();
    let listener = told.clone();
    let mut setup = setup(&disk);
    setup.listener = Some(Arc::new(move |event: &Event| {
        if let Event::Persisted { groups, .. } = event {
            let groups = groups.iter().map(|group| (group.group.clone(), group.index));
            listener.lock().expect("lock").extend(groups);
        }
    }));
    let db = Db::open_with(DIR, options(), setup).expect("open");
    let other = db.create_keyspace("other", options().default_keyspace).expect("create");
    let mut index = 0;
    // The other keyspace gets little, and must not stay behind when the default one is full.
    while told.lock().expect("lock").len() < 4 {
        index += 1;
        let g = group(index % 2);
        let mut batch = Batch::new();
        batch.put(format!("k{index}").as_bytes(), &[7; 500]);
        batch.put_in(&other, format!("k{index}").as_bytes(), b"");
        db.apply(Applied { group: &g, index, note: b"" }, batch).expect("apply");
        assert!(index < 10_000, "a full memtable is flushed");
    }
    let persisted: Vec<u64> = db.groups().iter().map(|group| group.persisted).collect();
    let newest = persisted.iter().copied().max().expect("groups");
    assert!(persisted[0].abs_diff(persisted[1]) == 1, "{persisted:?}");
    for keyspace in [db.default_keyspace(), &other] {
        for at in 1..=index {
            let found = keyspace.get_persisted(format!("k{at}").as_bytes()).expect("get");
            assert_eq!(found.is_some(), at <= newest, "{at} of {newest}");
        }
        let scan = ScanOptions { persisted: true, ..ScanOptions::default() };
        let mut cursor = keyspace.scan(&scan).expect("scan");
        let mut count = 0;
        cursor.seek_to_first().expect("seek");
        while cursor.valid() {
            count += 1;
            cursor.next().expect("next");
        }
        assert_eq!(count, newest);
    }
    assert!(told.lock().expect("lock").contains(&(group(newest % 2), newest)));
    let snapshot = db.persisted_snapshot().expect("snapshot");
    db.flush_oldest().expect("flush");
    assert!(db.groups().iter().any(|group| group.persisted == index));
    let at = |key: u64| db.default_keyspace().get_at(format!("k{key}").as_bytes(), &snapshot);
    assert!(at(newest).expect("get").is_some() && at(newest + 1).expect("get").is_none());
}

/// Groups as they were after each of their requests.
type Histories = BTreeMap<Vec<u8>, Vec<BTreeMap<Vec<u8>, Vec<u8>>>>;

/// Applies random requests to groups until the disk is off. Returns what each group was after each
/// of its requests.
fn apply_randomly(db: &Db, random: &mut Random, groups: u64, requests: u64) -> Histories {
    let mut histories = Histories::new();
    for number in 0..groups {
        histories.insert(group(number), vec![BTreeMap::new()]);
    }
    let other = db.create_keyspace("other", options().default_keyspace);
    for _ in 0..requests {
        let name = group(random.below(groups));
        let Some(history) = histories.get_mut(&name) else { continue };
        let index = history.len() as u64;
        let mut state = history.last().cloned().unwrap_or_default();
        let mut batch = Batch::new();
        for _ in 0..1 + random.below(4) {
            let key = [&name[..], format!("k{}", random.below(30)).as_bytes()].concat();
            if random.below(5) == 0 {
                batch.delete(&key);
                state.remove(&key);
            } else {
                let value = vec![random.below(256) as u8; random.below(600) as usize];
                batch.put(&key, &value);
                if let Ok(other) = &other {
                    batch.put_in(other, &key, &index.to_le_bytes());
                }
                state.insert(key, value);
            }
        }
        let note = index.to_string();
        // It counts as tried, whatever came of it: a request that fails may be in memory.
        history.push(state);
        let applied = Applied { group: &name, index, note: note.as_bytes() };
        if db.apply(applied, batch).is_err() {
            break;
        }
        if random.below(150) == 0 && db.default_keyspace().compact_range(None, None).is_err() {
            break;
        }
    }
    histories
}

fn all_of(keyspace: &Keyspace, prefix: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    keyspace.prefix(prefix).expect("scan").collect::<Result<_, _>>().expect("read")
}

fn assert_exact(db: &Db, histories: &Histories) {
    let known: BTreeMap<Vec<u8>, _> =
        db.groups().into_iter().map(|group| (group.group.clone(), group)).collect();
    for (name, history) in histories {
        let index = known.get(name).map_or(0, |group| group.applied);
        assert_eq!(index, known.get(name).map_or(0, |group| group.persisted));
        let state = &history[index as usize];
        let found = all_of(db.default_keyspace(), name);
        assert!(found == *state, "group {} at {index}", name.escape_ascii());
        if index > 0 {
            assert_eq!(known[name].note, index.to_string().into_bytes());
        }
        if let Ok(other) = db.keyspace("other") {
            let newest = all_of(&other, name).into_values();
            let newest = newest.map(|v| u64::from_le_bytes(v.try_into().expect("8 bytes"))).max();
            assert!(newest.unwrap_or(0) <= index, "a keyspace is ahead");
        }
    }
}

#[test]
fn after_a_crash_at_any_call_every_group_is_as_after_its_index() {
    for (seed, compaction) in [(1, Compaction::Leveled), (2, Compaction::Tiered)] {
        for mut options in [options(), separated()] {
            options.default_keyspace.compaction = compaction;
            let run = |crash_at: Option<u64>| {
                let disk = StrictVfs::new();
                crash_at.into_iter().for_each(|at| disk.set_crash_at(at));
                let histories = match Db::open_with(DIR, options.clone(), setup(&disk)) {
                    Ok(db) => apply_randomly(&db, &mut Random(seed), 5, 900),
                    Err(_) => Histories::new(),
                };
                (disk, histories)
            };
            let (disk, histories) = run(None);
            assert_exact(&open(&disk, &options), &histories);
            let calls = disk.mutating_calls();
            assert!(calls > 300, "{calls} calls");
            let mut behind = 0;
            for at in (1..calls).step_by(7) {
                let (disk, histories) = run(Some(at));
                for survival in [Survival::None, Survival::Some { percent: 50 }, Survival::All] {
                    let after = disk.crash(survival, at);
                    let db = open(&after, &options);
                    assert_exact(&db, &histories);
                    behind += u64::from(
                        db.groups()
                            .iter()
                            .any(|group| group.applied + 1 < histories[&group.group].len() as u64),
                    );
                }
            }
            assert!(behind > 20, "{behind} crashes lost requests");
        }
    }
}

#[test]
fn a_checkpoint_holds_what_was_applied_and_how_far() {
    let disk = StrictVfs::new();
    let db = open(&disk, &separated());
    let histories = apply_randomly(&db, &mut Random(9), 3, 100);
    db.checkpoint("/copy").expect("checkpoint");
    let copy = Db::open_with("/copy", separated(), setup(&disk)).expect("open");
    assert_exact(&copy, &histories);
    assert_sound(&copy);
    assert!(copy.groups().iter().all(|group| group.applied > 10));
}

fn bytes_of(disk: &StrictVfs) -> u64 {
    let names = disk.file_names(Path::new(DIR)).into_iter();
    let data = names.filter(|name| name.ends_with(".tbl") || name.ends_with(".val"));
    let read = data.map(|name| disk.read_file(&Path::new(DIR).join(name)).expect("read"));
    read.map(|bytes| bytes.len() as u64).sum()
}

#[test]
fn a_deleted_group_is_gone_at_once_and_gives_its_space_back() {
    for options in [grouped(options()), grouped(separated())] {
        let disk = StrictVfs::new();
        let db = open(&disk, &options);
        let mut random = Random(3);
        for index in 1..=400 {
            for number in 0..8 {
                let value: Vec<u8> = (0..300).map(|_| random.below(256) as u8).collect();
                put(&db, &group(number), index, &format!("{:03}", random.below(200)), &value);
            }
        }
        db.flush().expect("flush");
        db.default_keyspace().compact_range(None, None).expect("compact");
        db.collect_values(0.0, |_| true).expect("collect");
        put(&db, &group(3), 401, "in memory", b"1");
        put(&db, &group(4), 401, "in memory", b"1");
        let (before, snapshot) = (bytes_of(&disk), db.snapshot());
        let cursor_before = db.default_keyspace().prefix(&group(3)).expect("scan");
        let work = |db: &Db| {
            let stats = db.stats();
            stats.keyspaces[0].levels.iter().map(|level| level.bytes_written).sum::<u64>()
        };
        let written = work(&db);
        drop(cursor_before);
        let deleted = db.delete_group(&group(3)).expect("delete");
        assert_eq!(work(&db), written, "nothing is flushed or compacted");
        // With values apart, all tables together are too short to be divided.
        let apart = options.default_keyspace.value_log_bytes_min.is_some();
        assert!(deleted.shared_tables <= 4 && (apart || deleted.tables > 0), "{deleted:?}");
        let freed = before - bytes_of(&disk);
        let expected = if apart { 0 } else { before / 16 };
        assert!(
            freed == deleted.file_bytes && freed >= expected,
            "{freed} of {before}: {deleted:?}"
        );
        let gone = |db: &Db| {
            assert!(all_of(db.default_keyspace(), &group(3)).is_empty());
            assert!(db.get(&[&group(3)[..], b"in memory"].concat()).expect("get").is_none());
            assert!(db.group(&group(3)).is_none());
            assert_eq!(all_of(db.default_keyspace(), &group(4)).len(), 1 + 200 - missing(db, 4));
        };
        gone(&db);
        db.wait_idle().expect("idle");
        gone(&db);
        let keyspace = db.default_keyspace();
        let old = keyspace.scan(&ScanOptions::prefix(&group(3)).at(&snapshot)).map(|mut cursor| {
            cursor.seek_to_first().expect("seek");
            cursor.valid()
        });
        assert!(!old.expect("scan"), "an older snapshot does not see it either");
        drop(snapshot);
        // It may be made anew, below what it was, and nothing of the old one comes back.
        put(&db, &group(3), 1, "new", b"2");
        db.flush().expect("flush");
        db.default_keyspace().compact_range(None, None).expect("compact");
        assert_eq!(all_of(db.default_keyspace(), &group(3)).len(), 1);
        drop(db);
        let db = open(&disk, &options);
        assert_eq!(all_of(db.default_keyspace(), &group(3)).len(), 1);
        assert_eq!(indexes(&db, &group(3)), Some((1, 1)));
        db.delete_group(&group(3)).expect("delete");
        gone(&db);
        drop(db);
        gone(&open(&disk, &options));
    }
}

/// Of 200 keys of a group, those that are not there.
fn missing(db: &Db, number: u64) -> usize {
    let key = |at: u32| [&group(number)[..], format!("{at:03}").as_bytes()].concat();
    (0..200).filter(|&at| db.get(&key(at)).expect("get").is_none()).count()
}

#[test]
fn a_group_that_is_deleted_while_the_store_crashes_is_there_or_gone_as_a_whole() {
    for (log, options) in
        [(false, grouped(options())), (false, grouped(separated())), (true, grouped(options()))]
    {
        let mut options = options;
        if log {
            options.durability = Durability::Wal;
        }
        let run = |crash_at: Option<u64>| {
            let disk = StrictVfs::new();
            let db = open(&disk, &options);
            let mut random = Random(5);
            for index in 1..=150 {
                for number in 0..4 {
                    let value: Vec<u8> = (0..300).map(|_| random.below(256) as u8).collect();
                    let key =
                        [&group(number)[..], format!("{:03}", index % 60).as_bytes()].concat();
                    let mut batch = Batch::new();
                    batch.put(&key, &value);
                    match log {
                        true => db.write(batch, WriteOptions::default()).expect("write"),
                        false => db
                            .apply(Applied { group: &group(number), index, note: b"" }, batch)
                            .expect("apply"),
                    }
                }
            }
            if log {
                db.sync().expect("sync");
            } else {
                db.flush().expect("flush");
            }
            let from = disk.mutating_calls();
            crash_at.into_iter().for_each(|at| disk.set_crash_at(from + at));
            let deleted = db.delete_group(&group(2)).is_ok();
            let again = |db: &Db| {
                let mut batch = Batch::new();
                batch.put(&[&group(2)[..], b"new"].concat(), b"2");
                match log {
                    true => db.write(batch, WriteOptions::SYNC).is_ok(),
                    false => {
                        db.apply(Applied { group: &group(2), index: 1, note: b"" }, batch).is_ok()
                            && db.flush().is_ok()
                    }
                }
            };
            let renewed = deleted && again(&db);
            let compacted = renewed && db.default_keyspace().compact_range(None, None).is_ok();
            (disk.clone(), disk.mutating_calls() - from, deleted, renewed, compacted)
        };
        let (_, calls, ..) = run(None);
        assert!(calls > 5, "{calls} calls");
        for at in 1..=calls {
            for survival in [Survival::None, Survival::Some { percent: 50 }, Survival::All] {
                let (disk, _, deleted, renewed, _) = run(Some(at));
                let db = open(&disk.crash(survival, at), &options);
                let found = all_of(db.default_keyspace(), &group(2));
                let index = db.group(&group(2)).map(|group| group.applied);
                let old = found.keys().filter(|key| !key.ends_with(b"new")).count();
                let new = found.len() - old;
                match old {
                    60 => assert!(!deleted && new == 0 && (log || index == Some(150)), "{at}"),
                    0 => assert!(new == 1 || !renewed, "{at}: {found:?}"),
                    part => panic!("crash at {at}: {part} of 60 keys"),
                }
                if old == 0 && !log {
                    assert_eq!(index, (new == 1).then_some(1), "crash at {at}");
                }
                for other in [0, 1, 3] {
                    assert_eq!(all_of(db.default_keyspace(), &group(other)).len(), 60);
                }
                assert_sound(&db);
            }
        }
    }
}

#[test]
fn files_of_values_hold_one_group_too_and_go_with_it() {
    let disk = StrictVfs::new();
    let mut options = grouped(separated());
    options.value_log_file_bytes = 1 << 20;
    options.default_keyspace.memtable_bytes = 256 << 10;
    let db = open(&disk, &options);
    let mut random = Random(4);
    for index in 1..=20 {
        for number in 0..8 {
            let value: Vec<u8> = (0..1_000).map(|_| random.below(256) as u8).collect();
            put(&db, &group(number), index, &format!("{index:03}"), &value);
        }
    }
    db.flush().expect("flush");
    let before = bytes_of(&disk);
    db.delete_group(&group(3)).expect("delete");
    // The table with all pointers is written anew, and then nothing leads into the group's file.
    db.wait_idle().expect("idle");
    let freed = before - bytes_of(&disk);
    assert!((20_000..25_000).contains(&freed), "{freed}");
    assert_eq!(all_of(db.default_keyspace(), &group(2)).len(), 20);
    assert_sound(&db);
}

#[test]
fn a_store_with_a_log_becomes_one_without_whenever_the_power_fails() {
    let with_log = Options { durability: Durability::Wal, ..options() };
    let run = |crash_at: Option<u64>| {
        let disk = StrictVfs::new();
        let db = open(&disk, &with_log);
        for number in 0..50 {
            db.put(format!("k{number}").as_bytes(), b"1").expect("put");
        }
        db.sync().expect("sync");
        drop(db);
        let from = disk.mutating_calls();
        crash_at.into_iter().for_each(|at| disk.set_crash_at(from + at));
        drop(Db::open_with(DIR, options(), setup(&disk)));
        (disk.clone(), disk.mutating_calls() - from)
    };
    let (_, calls) = run(None);
    for at in 1..=calls {
        for survival in [Survival::None, Survival::Some { percent: 50 }, Survival::All] {
            let (disk, _) = run(Some(at));
            let after = disk.crash(survival, at);
            let then = if at % 2 == 0 { with_log.clone() } else { options() };
            let db = open(&after, &then);
            assert_eq!(all_of(db.default_keyspace(), b"k").len(), 50, "crash at {at}");
        }
    }
}

#[test]
fn what_is_loaded_in_bulk_is_persistent_with_all_before_it() {
    let disk = StrictVfs::new();
    let db = open(&disk, &options());
    let other = db.create_keyspace("other", options().default_keyspace).expect("create");
    let mut batch = Batch::new();
    batch.put_in(&other, b"g001/a", b"1");
    db.apply(Applied { group: &group(1), index: 1, note: b"" }, batch).expect("apply");
    let mut ingest = db.default_keyspace().ingest().expect("ingest");
    ingest.put(b"k", b"1").expect("put");
    ingest.finish().expect("finish");
    assert_eq!(indexes(&db, &group(1)), Some((1, 1)));
    let snapshot = db.persisted_snapshot().expect("snapshot");
    assert!(db.default_keyspace().get_at(b"k", &snapshot).expect("get").is_some());
    let db = open(&disk.crash(Survival::None, 1), &options());
    assert!(db.get(b"k").expect("get").is_some());
    assert_eq!(indexes(&db, &group(1)), Some((1, 1)));
}
