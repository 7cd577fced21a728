//! Every file system answers the same calls alike: scripted cases, then random calls side by side.

use super::faulty::FaultyVfs;
use super::posix::PosixVfs;
use super::strict::{StrictOptions, StrictVfs};
use super::throttled::{DiskModel, ThrottledVfs};
use super::{Access, ReadableFile, Vfs, WritableFile, is_inside, read_all, write_atomic};
use crate::checksum::mix64;
use crate::env::SystemClock;
use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file system under test and the directory it may use.
struct Subject {
    name: &'static str,
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    /// Its logs have a tail of zeros until finished.
    reserves: bool,
}

impl Subject {
    fn at(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        read_all(&*self.vfs, &self.at(name), 1 << 20).unwrap()
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let mut file = self.vfs.create(&self.at(name)).unwrap();
        file.append(bytes).unwrap();
        file.finish().unwrap();
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.vfs.list(&self.dir).unwrap().into_iter().map(|e| e.name).collect();
        names.sort_unstable();
        names
    }
}

/// Removed when the test ends.
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> TempDir {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name =
            format!("esker-vfs-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        TempDir(dir)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a case on an empty directory of every file system.
fn on_each(case: impl Fn(&Subject)) {
    let strict = |preallocated_logs| {
        StrictVfs::with_options(StrictOptions { preallocated_logs, ..StrictOptions::default() })
    };
    let fast = DiskModel { bytes_per_second: u64::MAX, seek_ns: 0 };
    let inner = Arc::new(strict(true));
    let throttled = ThrottledVfs::new(inner, Arc::new(SystemClock::new()), fast);
    let subjects: [(&str, Arc<dyn Vfs>, bool); 7] = [
        ("posix, mapped logs", Arc::new(PosixVfs::new()), true),
        ("posix, plain logs", Arc::new(PosixVfs::with_plain_logs()), false),
        ("strict, preallocated logs", Arc::new(strict(true)), true),
        ("strict, plain logs", Arc::new(strict(false)), false),
        ("faulty over strict", Arc::new(FaultyVfs::new(Arc::new(strict(true)))), true),
        ("faulty over posix", Arc::new(FaultyVfs::new(Arc::new(PosixVfs::new()))), true),
        ("throttled over strict", Arc::new(throttled), true),
    ];
    for (name, vfs, reserves) in subjects {
        let temp = TempDir::new();
        let subject = Subject { name, vfs, dir: temp.0.join("sub"), reserves };
        subject.vfs.create_dir_all(&subject.dir).unwrap();
        case(&subject);
    }
}

/// An error as the caller sees it, without the words.
fn kind(error: &Error) -> &'static str {
    match error {
        Error::NotFound { .. } => "not found",
        Error::NoSpace { .. } => "no space",
        Error::Busy { .. } => "busy",
        Error::Io { .. } => "io",
        _ => "other",
    }
}

fn fails<T>(result: Result<T>, expected: &str, what: &str) {
    match result {
        Ok(_) => panic!("{what}: succeeded, not {expected}"),
        Err(error) => assert_eq!(kind(&error), expected, "{what}: {error}"),
    }
}

#[test]
fn appended_bytes_are_read_back() {
    on_each(|s| {
        let mut file = s.vfs.create(&s.at("f")).unwrap();
        file.append(b"hello").unwrap();
        file.append(b"").unwrap();
        file.append(b", world").unwrap();
        let reader = s.vfs.open(&s.at("f"), Access::Random).unwrap();
        assert_eq!(reader.len_bytes().unwrap(), 12, "{}", s.name);
        let mut buf = [9; 8];
        assert_eq!(reader.read_at(7, &mut buf).unwrap(), 5);
        assert_eq!(buf, *b"world\x09\x09\x09");
        assert_eq!(reader.read_at(12, &mut buf).unwrap(), 0);
        assert_eq!(reader.read_at(99, &mut buf).unwrap(), 0);
        assert_eq!(file.len_bytes(), 12);
        file.append(b"!").unwrap();
        assert_eq!(reader.read_at(12, &mut buf).unwrap(), 1, "an open file grows: {}", s.name);
        file.sync().unwrap();
        file.finish().unwrap();
        // Creating it again empties it, for open readers too.
        s.put("f", b"new");
        assert_eq!(s.read("f"), b"new");
        assert_eq!(reader.len_bytes().unwrap(), 3, "{}", s.name);
    });
}

#[test]
fn logs_are_read_back_and_cut_when_finished() {
    on_each(|s| {
        for reserve in [0, 100_000] {
            let mut log = s.vfs.create_log(&s.at("l"), reserve).unwrap();
            assert_eq!(log.reserved_bytes() > 0, s.reserves, "{}", s.name);
            assert!(s.read("l").iter().all(|&b| b == 0), "{}", s.name);
            let record: Vec<u8> = (0..1_000).map(|i| (i % 255) as u8 + 1).collect();
            for _ in 0..200 {
                log.append(&record).unwrap();
            }
            let bytes = record.repeat(200);
            assert_eq!(log.len_bytes(), 200_000);
            let seen = s.read("l");
            assert_eq!(seen[..200_000], bytes, "{}", s.name);
            assert!(seen[200_000..].iter().all(|&b| b == 0));
            assert_eq!(seen.len() > 200_000, s.reserves, "{}", s.name);
            log.sync().unwrap();
            log.finish().unwrap();
            assert_eq!(s.read("l"), bytes, "{}", s.name);
        }
        // Not finished: the tail of zeros stays.
        s.vfs.create_log(&s.at("l"), 0).unwrap().append(b"x").unwrap();
        assert_eq!(s.read("l").len(), if s.reserves { 64 << 10 } else { 1 }, "{}", s.name);
    });
}

#[test]
fn syncs_that_follow_each_other_closely_leave_a_log_as_it_is() {
    on_each(|s| {
        let mut log = s.vfs.create_log(&s.at("l"), 100_000).unwrap();
        let mut bytes = Vec::new();
        for i in 0..500u32 {
            // Some fill a page to its end, a few are longer than one.
            let len =
                if i % 5 == 0 { 4_096 - bytes.len() % 4_096 } else { 1 + i as usize * 7 % 150 };
            let len = if i % 100 == 99 { 5_000 } else { len };
            let record = vec![(i % 255) as u8 + 1; len];
            // One append to a sync as a rule, in parts; now and then so many that a log changes its
            // ways.
            let appends = if i % 40 < 35 { 1 } else { i as usize % 5 };
            for _ in 0..appends {
                log.append_parts(&[&record[..len / 3], &record[len / 3..]]).unwrap();
                bytes.extend_from_slice(&record);
            }
            log.sync().unwrap();
            if i % 7 == 0 {
                let seen = s.read("l");
                assert!(seen[..bytes.len()] == bytes[..], "{}, sync {i}", s.name);
                assert!(seen[bytes.len()..].iter().all(|&b| b == 0), "{}, sync {i}", s.name);
            }
        }
        log.finish().unwrap();
        assert!(s.read("l") == bytes, "{}", s.name);
    });
}

#[test]
fn names_come_and_go() {
    on_each(|s| {
        s.put("a", b"a");
        s.put("b", b"bb");
        s.vfs.rename(&s.at("a"), &s.at("b")).unwrap();
        assert_eq!((s.names(), s.read("b")), (vec!["b".to_owned()], b"a".to_vec()), "{}", s.name);
        s.vfs.link(&s.at("b"), &s.at("c")).unwrap();
        s.vfs.rename(&s.at("b"), &s.at("c")).unwrap();
        assert_eq!(s.names(), ["b", "c"], "two names of one file stay: {}", s.name);
        s.vfs.remove(&s.at("b")).unwrap();
        assert_eq!(s.read("c"), b"a");
        // An open file outlives its name.
        let reader = s.vfs.open(&s.at("c"), Access::Sequential).unwrap();
        s.vfs.remove(&s.at("c")).unwrap();
        s.vfs.sync_dir(&s.dir).unwrap();
        assert!(!s.vfs.exists(&s.at("c")).unwrap());
        let mut buf = [0];
        assert_eq!((reader.read_at(0, &mut buf).unwrap(), buf), (1, *b"a"), "{}", s.name);
        write_atomic(&*s.vfs, &s.at("d"), b"whole").unwrap();
        assert_eq!((s.names(), s.read("d")), (vec!["d".to_owned()], b"whole".to_vec()));
    });
}

#[test]
fn what_cannot_be_done_fails_alike() {
    on_each(|s| {
        let n = s.name;
        s.put("f", b"f");
        s.put("g", b"g");
        assert!(s.vfs.create_dir_all(&s.at("dir/inner")).unwrap(), "{}", s.name);
        for there in ["dir/inner", "dir", "dir/inner/..", "dir/."] {
            let made = s.vfs.create_dir_all(&s.at(there));
            assert!(!made.unwrap(), "{}: {there} was there", s.name);
        }
        let (none, f, dir) = (s.at("none"), s.at("f"), s.at("dir"));
        fails(s.vfs.open(&none, Access::Random), "not found", n);
        fails(s.vfs.create(&s.at("none/f")), "not found", n);
        fails(s.vfs.create_log(&s.at("none/f"), 0), "not found", n);
        fails(s.vfs.create(&dir), "io", n);
        fails(s.vfs.rename(&none, &f), "not found", n);
        fails(s.vfs.rename(&f, &s.at("none/f")), "not found", n);
        fails(s.vfs.rename(&f, &dir), "io", n);
        fails(s.vfs.link(&none, &s.at("h")), "not found", n);
        fails(s.vfs.link(&f, &s.at("g")), "io", n);
        fails(s.vfs.remove(&none), "not found", n);
        fails(s.vfs.remove(&dir), "io", n);
        fails(s.vfs.truncate(&none, 0), "not found", n);
        fails(s.vfs.punch_hole(&none, 0, 1), "not found", n);
        fails(s.vfs.punch_hole(&f, 0, 0), "io", n);
        fails(s.vfs.list(&none), "not found", n);
        fails(s.vfs.list(&f), "io", n);
        fails(s.vfs.sync_dir(&none), "not found", n);
        fails(s.vfs.remove_dir(&none), "not found", n);
        fails(s.vfs.remove_dir(&f), "io", n);
        fails(s.vfs.remove_dir(&dir), "io", n);
        fails(s.vfs.create_dir_all(&f), "io", n);
        fails(s.vfs.create(&s.at("f/inside")), "io", n);
        fails(s.vfs.lock(&s.at("none/LOCK")), "not found", n);
        fails(s.vfs.free_bytes(&none), "not found", n);
        assert!(s.vfs.free_bytes(&s.dir).unwrap() > 0);
        assert_eq!((s.read("f"), s.read("g")), (b"f".to_vec(), b"g".to_vec()), "{n}");
        s.vfs.create_dir_all(&dir).unwrap();
        s.vfs.remove_dir(&s.at("dir/inner")).unwrap();
        s.vfs.remove_dir(&dir).unwrap();
        assert_eq!(s.names(), ["f", "g"], "{n}");
    });
}

#[test]
fn what_is_inside_of_a_directory_is_known_before_it_is_made() {
    on_each(|s| {
        s.put("f", b"f");
        s.vfs.create_dir_all(&s.at("dir/inner")).unwrap();
        let dir = s.at("dir");
        for (path, inside) in [
            ("dir", true),
            ("dir/", true),
            ("dir/./new", true),
            ("dir/new/deeper", true),
            ("dir/inner/new", true),
            ("dir2", false),
            ("new/dir", false),
            ("", false),
        ] {
            let found = is_inside(&*s.vfs, &s.at(path), &dir).unwrap();
            assert_eq!(found, inside, "{}: {path}", s.name);
        }
        fails(is_inside(&*s.vfs, &s.at("f/new"), &dir), "io", s.name);
        fails(is_inside(&*s.vfs, &s.at("new"), &s.at("none")), "not found", s.name);
        assert_eq!(s.names(), ["dir", "f"], "{}", s.name);
    });
}

#[test]
fn links_and_dots_hide_no_directory() {
    let temp = TempDir::new();
    let (vfs, at) = (PosixVfs::new(), |name: &str| temp.0.join(name));
    vfs.create_dir_all(&at("dir/inner")).unwrap();
    for (name, target) in [("to", "dir"), ("deep", "dir/inner"), ("lost", "nowhere")] {
        std::os::unix::fs::symlink(at(target), at(name)).unwrap();
    }
    for (path, inside) in [
        ("to", true),
        ("to/new", true),
        ("deep/../new", true),
        ("to/../new", false),
        ("gone/../dir/new", true),
        ("gone/../deep/../new", true),
        ("dir/gone/../../new", false),
        ("lost", false),
    ] {
        assert_eq!(is_inside(&vfs, &at(path), &at("dir")).unwrap(), inside, "{path}");
        // The directory itself may be named by a link.
        assert_eq!(is_inside(&vfs, &at(path), &at("to")).unwrap(), inside, "{path}");
    }
    // Relative paths, from wherever the tests are run.
    assert!(is_inside(&vfs, Path::new("new"), Path::new("")).unwrap());
    assert!(is_inside(&vfs, Path::new("new"), Path::new("..")).unwrap());
    assert!(!is_inside(&vfs, Path::new("../new"), Path::new(".")).unwrap());
}

#[test]
fn files_are_cut_extended_and_punched() {
    on_each(|s| {
        s.put("f", &[7; 20_000]);
        s.vfs.punch_hole(&s.at("f"), 4_000, 5_000).unwrap();
        s.vfs.punch_hole(&s.at("f"), 19_000, 50_000).unwrap();
        let mut expected = vec![7; 20_000];
        expected[4_000..9_000].fill(0);
        expected[19_000..].fill(0);
        assert_eq!(s.read("f"), expected, "{}", s.name);
        s.vfs.rewrite(&s.at("f"), 3_000..15_000).unwrap();
        assert_eq!(s.read("f"), expected, "{}", s.name);
        for len in [10_000, 12_000] {
            s.vfs.truncate(&s.at("f"), len).unwrap();
            expected.truncate(10_000);
            expected.resize(len as usize, 0);
            assert_eq!(s.read("f"), expected, "{}", s.name);
        }
    });
}

#[test]
fn a_lock_has_one_holder() {
    on_each(|s| {
        fails(s.vfs.lock_existing(&s.at("LOCK")), "not found", s.name);
        let lock = s.vfs.lock(&s.at("LOCK")).unwrap();
        fails(s.vfs.lock(&s.at("LOCK")), "busy", s.name);
        fails(s.vfs.lock_existing(&s.at("LOCK")), "busy", s.name);
        let _other = s.vfs.lock(&s.at("OTHER")).unwrap();
        drop(lock);
        let existing = s.vfs.lock_existing(&s.at("LOCK")).unwrap();
        fails(s.vfs.lock(&s.at("LOCK")), "busy", s.name);
        drop(existing);
        let _again = s.vfs.lock(&s.at("LOCK")).unwrap();
        assert_eq!(s.names(), ["LOCK", "OTHER"], "{}", s.name);
    });
}

/// Who holds a lock may remove its file, as who removes a store does: whoever waits for the file
/// then locks the next one.
#[test]
fn a_lock_has_one_holder_though_its_file_goes() {
    on_each(|s| {
        let (path, held) = (s.at("LOCK"), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for nth in 0..20_000 {
                        let Ok(lock) = s.vfs.lock(&path) else { continue };
                        assert_eq!(held.fetch_add(1, Ordering::SeqCst), 0, "{}", s.name);
                        held.fetch_sub(1, Ordering::SeqCst);
                        if nth % 2 == 0 {
                            let _ = s.vfs.remove(&path);
                        }
                        drop(lock);
                    }
                });
            }
        });
    });
}

/// Handles a random run holds open, so that calls meet open and removed files.
#[derive(Default)]
struct Open {
    writer: Option<Box<dyn WritableFile>>,
    reader: Option<Arc<dyn ReadableFile>>,
}

/// One random call; what it answered, in words.
fn random_call(s: &Subject, open: &mut Open, mut random: impl FnMut(u64) -> u64) -> String {
    let names = ["a", "b", "c", "d/a", "d/b", "d"];
    let (name, other) = (names[random(6) as usize], names[random(6) as usize]);
    let (at, to) = (s.at(name), s.at(other));
    let (from, n) = (random(9_000), 1 + random(9_000));
    let bytes = vec![(n % 255) as u8 + 1; n as usize];
    let call = random(14);
    let answer: Result<String> = match call {
        0 | 1 => s.vfs.create(&at).map(|file| {
            open.writer = Some(file);
            String::new()
        }),
        2..=4 => match &mut open.writer {
            Some(file) => file.append(&bytes).map(|()| file.len_bytes().to_string()),
            None => Ok(String::new()),
        },
        5 => match open.writer.take() {
            Some(file) => file.finish().map(|()| String::new()),
            None => Ok(String::new()),
        },
        // Reading a directory as a file is not ours to define.
        6 if name != "d" => s.vfs.open(&at, Access::Random).map(|file| {
            open.reader = Some(file);
            String::new()
        }),
        7 | 8 => match &open.reader {
            Some(file) => {
                let mut buf = vec![0; n as usize];
                file.read_at(from, &mut buf).map(|n| format!("{:?}", &buf[..n]))
            }
            None => Ok(String::new()),
        },
        9 if name != "d" => s.vfs.rename(&at, &to).map(|()| String::new()),
        10 => s.vfs.link(&at, &to).map(|()| String::new()),
        11 => s.vfs.remove(&at).map(|()| String::new()),
        12 => s.vfs.truncate(&at, from).map(|()| String::new()),
        13 => s.vfs.punch_hole(&at, from, n).map(|()| String::new()),
        _ => s.vfs.exists(&at).map(|there| there.to_string()),
    };
    let answer = match answer {
        Ok(text) => text,
        Err(error) => kind(&error).to_owned(),
    };
    format!("call {call} {name} {other} {from} {n}: {answer}")
}

/// Random calls, each answered alike, with the same names and bytes after each.
#[test]
fn random_calls_are_answered_alike() {
    for seed in 0..15 {
        let runs = std::cell::RefCell::new(Vec::new());
        on_each(|s| {
            let mut state = mix64(seed);
            let mut open = Open::default();
            s.vfs.create_dir_all(&s.at("d")).unwrap();
            let mut run = Vec::new();
            for _ in 0..400 {
                let answer = random_call(s, &mut open, |limit| {
                    state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                    mix64(state) % limit
                });
                let mut entries = s.vfs.list(&s.dir).unwrap();
                entries.extend(s.vfs.list(&s.at("d")).unwrap_or_default());
                entries.sort_unstable_by(|a, b| a.name.cmp(&b.name).then(a.is_dir.cmp(&b.is_dir)));
                let listed: Vec<_> = entries.iter().map(|e| (&e.name, e.len_bytes)).collect();
                run.push(format!("{answer} {listed:?}"));
            }
            runs.borrow_mut().push((s.name, run));
        });
        let runs = runs.into_inner();
        let (first, rest) = runs.split_first().unwrap();
        for other in rest {
            for (step, (a, b)) in first.1.iter().zip(&other.1).enumerate() {
                assert_eq!(a, b, "seed {seed} step {step}: {} against {}", first.0, other.0);
            }
        }
    }
}
