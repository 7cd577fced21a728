//! A group is carried from store to store as files: it arrives as a whole, with its index, or not
//! at all.

use super::support::{DIR, Model, Random, assert_sound, below_log, grouped, setup, setup_on};
use esker::base::Vfs;
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::{Applied, Batch, Compaction, Db, Durability, Error, KeyspaceOptions, Options, Setup};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const EXPORT: &str = "/export";
const GROUPS: u64 = 6;
/// The group that is carried.
const CARRIED: u64 = 3;

fn options() -> Options {
    grouped(below_log())
}

/// Values inline, values apart, tiers.
fn all_options() -> [Options; 3] {
    let (mut separated, mut tiered) = (options(), options());
    separated.default_keyspace.value_log_bytes_min = Some(200);
    tiered.default_keyspace.compaction = Compaction::Tiered;
    [options(), separated, tiered]
}

fn group(number: u64) -> Vec<u8> {
    format!("g{number}/").into_bytes()
}

fn open(setup: Setup, dir: &str, options: &Options) -> Db {
    Db::open_with(dir, options.clone(), setup).expect("open")
}

/// Applies requests to a group, in two keyspaces.
fn apply(db: &Db, random: &mut Random, number: u64, indexes: std::ops::RangeInclusive<u64>) {
    let name = group(number);
    let other = db.keyspace("other").expect("there");
    for index in indexes {
        let key = [&name[..], format!("{:02}", random.below(60)).as_bytes()].concat();
        let value = vec![random.below(256) as u8; random.below(500) as usize];
        let mut batch = Batch::new();
        batch.put(&key, &value).put_in(&other, &key, &index.to_le_bytes());
        if random.below(4) == 0 {
            let key = [&name[..], format!("{:02}", random.below(60)).as_bytes()].concat();
            batch.delete(&key).delete_in(&other, &key);
        }
        let note = format!("term {index}");
        db.apply(Applied { group: &name, index, note: note.as_bytes() }, batch).expect("apply");
    }
}

/// A store with groups, whose newest requests are in memory.
fn store(setup: Setup, dir: &str, options: &Options, seed: u64) -> Db {
    let db = open(setup, dir, options);
    db.create_keyspace("other", options.default_keyspace.clone()).expect("create");
    let mut random = Random(seed);
    for round in 0..4 {
        for number in 0..GROUPS {
            apply(&db, &mut random, number, round * 50 + 1..=round * 50 + 50);
        }
        if round < 3 {
            db.flush().expect("flush");
        }
        if round == 1 {
            db.default_keyspace().compact_range(None, None).expect("compact");
        }
    }
    db
}

/// What a group holds in both keyspaces, and how far it is: applied, and persistent.
#[derive(Clone, Debug, PartialEq)]
struct State {
    contents: [Model; 2],
    index: Option<(u64, u64)>,
}

fn state(db: &Db, number: u64) -> State {
    let all = |name: &str| -> Model {
        let keyspace = db.keyspace(name).expect("there");
        keyspace.prefix(&group(number)).expect("scan").collect::<Result<_, _>>().expect("read")
    };
    let index = db.group(&group(number)).map(|group| (group.applied, group.persisted));
    State { contents: [all("default"), all("other")], index }
}

/// The same after a crash: what is not persistent is gone.
fn persisted_state(disk: &StrictVfs, options: &Options, number: u64) -> State {
    state(&open(setup(&disk.crash(Survival::None, 1)), DIR, options), number)
}

fn files(disk: &StrictVfs, dir: &str) -> Vec<String> {
    let mut names = disk.file_names(Path::new(dir));
    names.retain(|name| name.ends_with(".tbl") || name.ends_with(".val"));
    names.sort();
    names
}

#[test]
fn a_group_is_carried_over_as_it_is_persistent() {
    for (from, to) in
        all_options().iter().flat_map(|from| all_options().map(|to| (from.clone(), to)))
    {
        let disk = StrictVfs::new();
        let source = store(setup(&disk), DIR, &from, 1);
        let sent = persisted_state(&disk, &from, CARRIED);
        let files = source.export_group(&group(CARRIED), EXPORT).expect("export");
        let index = sent.index.expect("it is known").0;
        assert!(
            index > 100 && files.index == index && files.note == format!("term {index}").as_bytes()
        );
        drop(source);
        // It is a store like any other.
        let alone = Db::open_read_only_with(EXPORT, from.clone(), setup(&disk)).expect("open");
        assert!(state(&alone, CARRIED) == sent);
        assert_eq!((alone.groups().len(), state(&alone, 2).contents[0].len()), (1, 0));
        assert_sound(&alone);

        let target = store(setup(&disk), "/target", &to, 2);
        let before = target.snapshot();
        let others: Vec<State> = (0..GROUPS).map(|number| state(&target, number)).collect();
        assert!(state(&target, CARRIED) != sent);
        // While somebody reads it.
        let taken = target.ingest_group(&group(CARRIED), EXPORT).expect("ingest");
        drop(alone);
        assert_eq!(taken.index, index);
        assert!(state(&target, CARRIED) == sent);
        for number in (0..GROUPS).filter(|&number| number != CARRIED) {
            assert!(state(&target, number).contents == others[number as usize].contents);
        }
        let snapshot = target.persisted_snapshot().expect("snapshot");
        for (key, value) in &sent.contents[0] {
            let keyspace = target.default_keyspace();
            assert_eq!(keyspace.get_persisted(key).expect("get").as_deref(), Some(&value[..]));
            assert_eq!(keyspace.get_at(key, &snapshot).expect("get").as_deref(), Some(&value[..]));
            assert!(keyspace.get_at(key, &before).expect("get").is_none());
        }
        drop((before, snapshot));
        assert_sound(&target);
        // It goes on from there, also when it is merged with all there is.
        apply(&target, &mut Random(4), CARRIED, index + 1..=index + 10);
        target.flush().expect("flush");
        target.default_keyspace().compact_range(None, None).expect("compact");
        target.wait_idle().expect("idle");
        let newest = state(&target, CARRIED);
        assert_eq!(newest.index, Some((index + 10, index + 10)));
        drop(target);
        let target = open(setup(&disk), "/target", &to);
        assert!(state(&target, CARRIED) == newest);
        // Once more, over what has come before; and where the group was deleted.
        target.ingest_group(&group(CARRIED), EXPORT).expect("ingest");
        assert!(state(&target, CARRIED) == sent);
        target.delete_group(&group(CARRIED)).expect("delete");
        target.ingest_group(&group(CARRIED), EXPORT).expect("ingest");
        assert!(state(&target, CARRIED) == sent);
        assert_sound(&target);
    }
}

#[test]
fn an_export_that_may_not_be_written_to_is_copied() {
    let (disk, options) = (StrictVfs::new(), options());
    let source = store(setup(&disk), DIR, &options, 1);
    let sent = persisted_state(&disk, &options, CARRIED);
    source.export_group(&group(CARRIED), EXPORT).expect("export");
    drop(source);
    let exported = files(&disk, EXPORT);
    let vfs = FaultyVfs::new(Arc::new(disk.clone()));
    let target = store(setup_on(Arc::new(vfs.clone()), 8), "/target", &options, 2);
    // By whatever name: links share the file's rights.
    vfs.inject(FaultRule::nth(1, &[Op::Truncate], Fault::Denied).from_then_on());
    target.ingest_group(&group(CARRIED), EXPORT).expect("ingest");
    assert!(vfs.faults_fired() > 0, "a table was to be linked");
    vfs.heal();
    assert!(state(&target, CARRIED) == sent);
    assert_sound(&target);
    assert_eq!(files(&disk, EXPORT), exported);
}

#[test]
fn a_group_arrives_as_a_whole_whenever_the_power_fails() {
    // Tables are linked; where there can be no links, or who may not write has made them, copied.
    let refused = [None, Some((Op::Link, Fault::Eio)), Some((Op::Truncate, Fault::Denied))];
    let [inline, separated, tiered] = all_options();
    let ways = refused.map(|refused| (inline.clone(), refused));
    for (options, refused) in ways.into_iter().chain([(separated, None), (tiered, None)]) {
        let run = |crash_at: Option<u64>| {
            let disk = StrictVfs::new();
            let source = store(setup(&disk), EXPORT, &options, 1);
            source.export_group(&group(CARRIED), "/carried").expect("export");
            drop(source);
            let vfs = FaultyVfs::new(Arc::new(disk.clone()));
            let target = store(setup_on(Arc::new(vfs.clone()), 7), DIR, &options, 2);
            let before = disk.deep_copy();
            let from = disk.mutating_calls();
            if let Some((op, fault)) = refused {
                vfs.inject(FaultRule::nth(1, &[op], fault).from_then_on());
            }
            crash_at.into_iter().for_each(|at| disk.set_crash_at(from + at));
            let result = target.ingest_group(&group(CARRIED), "/carried").map(drop);
            let calls = disk.mutating_calls() - from;
            assert!(crash_at.is_some() || refused.is_none() || vfs.faults_fired() > 0);
            (disk, before, result, calls)
        };
        let (disk, before, result, calls) = run(None);
        result.expect("ingest");
        let there = persisted_state(&disk, &options, CARRIED);
        let old = persisted_state(&before, &options, CARRIED);
        assert!(calls > 10 && there != old, "{calls}");
        let mut seen = [0, 0];
        for at in 1..=calls {
            let (disk, _, result, _) = run(Some(at));
            for survival in [Survival::None, Survival::Some { percent: 50 }, Survival::All] {
                let db = open(setup(&disk.crash(survival, at)), DIR, &options);
                let found = state(&db, CARRIED);
                // The epoch it comes with holds the newest requests of the old state, which must
                // not be seen.
                assert!(found == there || found == old, "crash at {at}, {survival:?}");
                assert!(result.is_err() || found == there, "it had arrived");
                seen[usize::from(found == there)] += 1;
                assert_sound(&db);
                let named = db.default_keyspace().tables().expect("tables").len()
                    + db.keyspace("other").expect("there").tables().expect("tables").len();
                let tables = files(&disk.crash(survival, at), DIR);
                assert!(tables.iter().filter(|name| name.ends_with(".tbl")).count() >= named);
            }
        }
        assert!(seen[0] > 5 && seen[1] > 2, "{seen:?}");
    }
}

#[test]
fn an_export_that_is_cut_off_is_no_store() {
    let disk = StrictVfs::new();
    drop(store(setup(&disk), DIR, &options(), 1));
    let export = |disk: &StrictVfs| {
        let source = open(setup(disk), DIR, &options());
        let from = disk.mutating_calls();
        (source.export_group(&group(CARRIED), EXPORT).map(drop), from, disk.mutating_calls())
    };
    let (whole, from, to) = export(&disk.deep_copy());
    whole.expect("export");
    for at in from + 1..=to {
        let disk = disk.deep_copy();
        disk.set_crash_at(at);
        let (result, ..) = export(&disk);
        let after = disk.crash(Survival::Some { percent: 50 }, at);
        match Db::open_read_only_with(EXPORT, options(), setup(&after)) {
            Ok(alone) => assert!(!state(&alone, CARRIED).contents[0].is_empty()),
            Err(error) => {
                assert!(
                    result.is_err()
                        && matches!(error, Error::NotFound { .. } | Error::Corruption { .. }),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn what_is_no_export_of_the_group_is_refused_and_changes_nothing() {
    let disk = StrictVfs::new();
    let source = store(setup(&disk), EXPORT, &options(), 1);
    source.export_group(&group(CARRIED), "/carried").expect("export");
    let nothing = source.export_group(b"unknown/", "/nothing").expect_err("unknown");
    assert!(nothing.to_string().contains("nothing of group unknown/ is persistent"), "{nothing}");
    source.export_group(&group(CARRIED), "/carried").expect_err("exists");
    source.export_group(&group(CARRIED), EXPORT.to_owned() + "/inside").expect_err("inside");
    drop(source);
    let target = store(setup(&disk), DIR, &options(), 2);
    let before: Vec<State> = (0..GROUPS).map(|number| state(&target, number)).collect();
    for (name, dir) in [
        (group(CARRIED), "/nowhere"),
        (group(2), "/carried"),
        // More than the group.
        (group(CARRIED), EXPORT),
        (b"".to_vec(), "/carried"),
    ] {
        target.ingest_group(&name, dir).expect_err("refused");
    }
    drop(target);
    let damaged = disk.deep_copy();
    let table = files(&damaged, "/carried").pop().expect("a table");
    damaged.flip_bit(&Path::new("/carried").join(table), 8 * 100).expect("flip");
    let target = open(setup(&damaged), DIR, &options());
    let tables_now = files(&damaged, DIR);
    let error = target.ingest_group(&group(CARRIED), "/carried").expect_err("damaged");
    assert!(matches!(error, Error::Corruption { .. }), "{error}");
    assert_eq!(files(&damaged, DIR), tables_now);
    for (number, before) in before.iter().enumerate() {
        assert!(state(&target, number as u64).contents == before.contents);
    }
    // A keyspace that is not there.
    let empty = open(setup(&disk), "/empty", &options());
    let missing = empty.ingest_group(&group(CARRIED), "/carried").expect_err("no keyspace");
    assert!(missing.to_string().contains("\"other\""), "{missing}");
    assert_eq!(files(&disk, "/empty"), Vec::<String>::new());
    // And a store with a log.
    let logged = Options { durability: Durability::Wal, ..options() };
    let logged = open(setup(&disk), "/logged", &logged);
    logged.ingest_group(&group(CARRIED), "/carried").expect_err("it has a log");
    logged.export_group(&group(CARRIED), "/other").expect_err("it has a log");
}

/// The edit that puts the group in force fails: all is as before, and its files go. It can come
/// again.
#[test]
fn a_group_that_cannot_be_put_in_force_changes_nothing() {
    let all = || all_options().into_iter().zip([true, false, true]);
    let faults = [Fault::NoSpace, Fault::Eio];
    for ((options, is_linked), fault) in all().flat_map(|one| faults.map(|it| (one.clone(), it))) {
        let strict = StrictVfs::new();
        let source = store(setup(&strict), EXPORT, &options, 1);
        source.export_group(&group(CARRIED), "/carried").expect("export");
        drop(source);
        let vfs = FaultyVfs::new(Arc::new(strict.clone()));
        let target = store(setup_on(Arc::new(vfs.clone()), 7), DIR, &options, 2);
        let sent = persisted_state_of_export(&strict, &options);
        let rule = FaultRule::nth(1, &[Op::Create, Op::CreateLog, Op::Append], fault);
        let fails = |path: &Path| path.to_string_lossy().contains("db/MANIFEST");
        vfs.inject(rule.from_then_on().on(fails));
        let old = state(&target, CARRIED);
        let persisted = persisted_state(&strict, &options, CARRIED);
        let files_before = files(&strict, DIR);
        target.ingest_group(&group(CARRIED), "/carried").expect_err("no manifest");
        assert!(state(&target, CARRIED).contents == old.contents);
        assert_eq!(target.group(&group(CARRIED)).map(|group| group.applied), Some(200));
        // The edit may stand in the manifest: a crash finds the old state or the new one, with its
        // files.
        for survival in [Survival::All, Survival::None] {
            let crashed = open(setup(&strict.crash(survival, 1)), DIR, &options);
            let found = state(&crashed, CARRIED);
            assert!(found == sent || found == persisted, "{found:?}");
        }
        let mut come = files(&strict, DIR);
        come.retain(|name| !files_before.contains(name));
        target.ingest_group(&group(CARRIED), "/carried").expect_err("no manifest");
        let mut again = files(&strict, DIR);
        again.retain(|name| !files_before.contains(name));
        // Half an edit is none, and nothing is made in vain; but another one may yet be found.
        let may_be_found = fault != Fault::NoSpace;
        assert_eq!(again, if may_be_found { come.clone() } else { Vec::new() });
        let read = |dir: &str, name: &String| strict.read_file(&Path::new(dir).join(name));
        let sent_first = read("/carried", &files(&strict, "/carried")[0]).expect("read");
        let is_there = again.iter().any(|name| read(DIR, name).expect("read") == sent_first);
        assert!(is_there || !is_linked || !may_be_found, "{come:?}");
        vfs.heal();
        // The next edit comes with a manifest that has nothing of it: then its files go.
        target.create_keyspace("more", KeyspaceOptions::default()).expect("create");
        let left = files(&strict, DIR);
        assert!(!come.is_empty() && come.iter().all(|name| !left.contains(name)), "{left:?}");
        target.delete_group(&group(2)).expect("delete");
        let mut batch = Batch::new();
        batch.put(b"g3/00", b"");
        target.apply(Applied { group: b"g3/", index: 201, note: b"" }, batch).expect("apply");
        target.ingest_group(&group(CARRIED), "/carried").expect("ingest");
        assert!(state(&target, CARRIED) == sent);
        assert!(state(&target, 2).contents[0].is_empty());
        apply(&target, &mut Random(8), 1, 201..=260);
        target.flush().expect("flush");
        target.default_keyspace().compact_range(None, None).expect("compact");
        assert!(state(&target, CARRIED) == sent);
        assert_sound(&target);
        drop(target);
        let target = open(setup(&strict), DIR, &options);
        assert!(state(&target, CARRIED) == sent);
        assert!(state(&target, 2).contents[0].is_empty());
    }
}

/// Also while it is not in force yet; and if it cannot be put in force, the name is free again.
#[test]
fn a_name_is_taken_by_a_group_that_arrives() {
    let options = below_log();
    let strict = StrictVfs::new();
    let source = store(setup(&strict), EXPORT, &options, 1);
    source.export_group(&group(CARRIED), "/carried").expect("export");
    let vfs = FaultyVfs::new(Arc::new(strict.clone()));
    let threads = Setup { inline_background: false, ..setup_on(Arc::new(vfs.clone()), 7) };
    let target = open(threads, DIR, &options);
    target.create_keyspace("other", options.default_keyspace.clone()).expect("create");
    let rule = FaultRule::nth(1, &[Op::Create, Op::CreateLog, Op::Append], Fault::NoSpace);
    let refused = Arc::new(Mutex::new(Vec::new()));
    let (seen, by) = (refused.clone(), target.clone());
    // When it is about to be put in force.
    let fails = move |path: &Path| {
        let is_manifest = path.to_string_lossy().contains("db/MANIFEST");
        // It is tried again when the group does not come any more.
        if is_manifest && seen.lock().expect("whole").is_empty() {
            let apply = |group| by.apply(Applied { group, index: 7_000, note: b"" }, Batch::new());
            let errors = [b"g3/more/".as_slice(), b"g3/"].map(|g| apply(g).expect_err("arrives"));
            seen.lock().expect("whole").extend(errors.map(|error| error.to_string()));
        }
        is_manifest
    };
    vfs.inject(rule.from_then_on().on(fails));
    let failed = target.ingest_group(&group(CARRIED), "/carried").expect_err("no manifest");
    assert!(matches!(failed, Error::NoSpace { .. }), "{failed}");
    vfs.heal();
    let refused = std::mem::take(&mut *refused.lock().expect("whole"));
    assert!(refused.len() >= 2 && refused[0].contains("begin alike"), "{refused:?}");
    assert!(refused[1].contains("just coming as files"), "{refused:?}");
    let apply = |group| target.apply(Applied { group, index: 1, note: b"" }, Batch::new());
    apply(b"g3/more/").expect("nothing has come");
    let error = target.ingest_group(&group(CARRIED), "/carried").expect_err("the other way round");
    assert!(error.to_string().contains("begin alike"), "{error}");
    target.delete_group(b"g3/more/").expect("delete");
    target.ingest_group(&group(CARRIED), "/carried").expect("ingest");
    assert!(apply(b"g3/more/").is_err() && apply(b"g4/").is_ok());
}

fn persisted_state_of_export(disk: &StrictVfs, options: &Options) -> State {
    let alone = Db::open_read_only_with("/carried", options.clone(), setup(disk)).expect("open");
    state(&alone, CARRIED)
}

/// Everything of the group in both keyspaces, if it is of one kind: the byte that all values are.
fn kind_of(db: &Db) -> Option<u8> {
    let name = group(CARRIED);
    let other = db.keyspace("other").expect("there");
    let mut seen = Vec::new();
    for keyspace in [db.default_keyspace(), &other] {
        let pairs = keyspace.prefix(&name).expect("scan").collect::<Result<Vec<_>, _>>();
        let pairs = pairs.expect("read");
        assert!(pairs.len() == 40 || pairs.is_empty(), "{} pairs", pairs.len());
        seen.push(pairs.first().map(|(_, value)| value[0]));
        assert!(pairs.iter().all(|(_, value)| Some(value[0]) == seen[seen.len() - 1]), "mixed");
    }
    // Between the two keyspaces it may have been replaced.
    seen[1]
}

fn of_one_kind(setup: Setup, dir: &str, options: &Options, index: u64, kind: u8) -> Db {
    let db = open(setup, dir, options);
    let other = db.create_keyspace("other", options.default_keyspace.clone()).expect("create");
    let mut batch = Batch::new();
    for key in 0..40 {
        let key = [&group(CARRIED)[..], &[b'0' + key]].concat();
        batch.put(&key, &[kind; 300]).put_in(&other, &key, &[kind; 300]);
    }
    db.apply(Applied { group: &group(CARRIED), index, note: b"" }, batch).expect("apply");
    db.flush().expect("flush");
    db
}

#[test]
fn readers_and_exports_find_a_group_as_a_whole_while_it_is_replaced() {
    for options in all_options() {
        let disk = StrictVfs::new();
        for (dir, index, kind) in [("/a", 100, b'a'), ("/b", 200, b'b')] {
            let source = of_one_kind(setup(&disk), &format!("{dir}-store"), &options, index, kind);
            source.export_group(&group(CARRIED), dir).expect("export");
        }
        let threads = Setup { inline_background: false, ..setup(&disk) };
        let db = of_one_kind(threads, DIR, &options, 100, b'a');
        let over = AtomicBool::new(false);
        let exports = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..60 {
                    let dir = if round % 2 == 0 { "/b" } else { "/a" };
                    db.ingest_group(&group(CARRIED), dir).expect("ingest");
                    if round % 7 == 0 {
                        db.delete_group(&group(CARRIED)).expect("delete");
                    }
                }
                over.store(true, Ordering::Relaxed);
            });
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    kind_of(&db);
                    let keys: Vec<Vec<u8>> =
                        (0..40).map(|key| [&group(CARRIED)[..], &[b'0' + key]].concat()).collect();
                    let values = db.default_keyspace().multi_get(&keys, None).expect("get");
                    let first = values[0].as_ref().map(|value| value[0]);
                    assert!(values.iter().all(|value| value.as_ref().map(|v| v[0]) == first));
                }
            });
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let number = exports.fetch_add(1, Ordering::Relaxed);
                    let dir = format!("/export-{number}");
                    let Ok(files) = db.export_group(&group(CARRIED), &dir) else { continue };
                    let alone =
                        Db::open_read_only_with(&dir, options.clone(), setup(&disk)).expect("open");
                    let expected = if files.index == 100 { b'a' } else { b'b' };
                    assert_eq!(kind_of(&alone), Some(expected), "index {}", files.index);
                }
            });
        });
        assert!(exports.into_inner() > 10);
        assert_sound(&db);
    }
}

/// Files that came without being durable, and whose sync fails: the system may say of the next one
/// that all is well, and has written nothing. They may come again.
#[test]
fn files_whose_sync_has_failed_may_come_again() {
    let disk = StrictVfs::new();
    let source = store(setup(&disk), EXPORT, &options(), 1);
    source.export_group(&group(CARRIED), "/carried").expect("export");
    let expected = persisted_state_of_export(&disk, &options());
    drop(source);
    let arrival = Path::new("/arrival");
    disk.create_dir_all(arrival).expect("create");
    for name in disk.file_names(Path::new("/carried")) {
        let bytes = disk.read_file(&Path::new("/carried").join(&name)).expect("read");
        let mut file = disk.create(&arrival.join(name)).expect("create");
        file.append(&bytes).expect("append");
    }
    let faulty = FaultyVfs::with_lasting_lies(Arc::new(disk.clone()));
    let target = |seed| open(setup_on(Arc::new(faulty.clone()), seed), DIR, &options());
    let db = target(1);
    db.create_keyspace("other", options().default_keyspace).expect("create");
    faulty.inject(FaultRule::nth(1, &[Op::TruncateSync], Fault::Eio));
    let error = db.ingest_group(&group(CARRIED), arrival).expect_err("its sync failed");
    assert!(error.is_sync_failure() && faulty.faults_fired() == 1, "{error}");
    assert!(matches!(db.flush(), Err(Error::Poisoned { .. })));
    drop(db);
    faulty.heal();
    let db = target(1 << 32);
    assert_eq!(db.group(&group(CARRIED)), None);
    db.ingest_group(&group(CARRIED), arrival).expect("ingest");
    let after = open(setup(&disk.crash(Survival::None, 1)), DIR, &options());
    assert_eq!(state(&after, CARRIED).contents, expected.contents);
    assert_sound(&after);
}
