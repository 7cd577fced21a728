//! Opens that are refused: what they say, and that they leave nothing behind.

use esker::{Db, Error, Options};
use std::fs;
use std::path::PathBuf;

fn dir(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("esker-refused-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("directory");
    dir
}

#[test]
fn a_directory_without_a_database_is_left_alone() {
    let dir = dir("foreign");
    fs::write(dir.join("notes.txt"), "mine").expect("file");
    let options = Options { create_if_missing: false, ..Options::default() };
    let error = Db::open(&dir, options.clone()).expect_err("no database");
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
    let error = Db::open_read_only(&dir, options).expect_err("no database");
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
    let names: Vec<_> =
        fs::read_dir(&dir).expect("directory").flatten().map(|e| e.file_name()).collect();
    assert_eq!(names, ["notes.txt"]);
    fs::remove_dir_all(&dir).expect("remove");
}

#[test]
fn data_without_current_is_damage_however_it_is_opened() {
    let dir = dir("headless");
    let db = Db::open(&dir, Options::default()).expect("open");
    db.put(b"a", b"1").expect("put");
    db.close().expect("close");
    fs::remove_file(dir.join("CURRENT")).expect("remove");
    for create_if_missing in [false, true] {
        let options = Options { create_if_missing, ..Options::default() };
        let error = Db::open(&dir, options).expect_err("damaged");
        assert!(error.is_corruption(), "{error:?}");
    }
    let error = Db::open_read_only(&dir, Options::default()).expect_err("damaged");
    assert!(error.is_corruption(), "{error:?}");
    fs::remove_dir_all(&dir).expect("remove");
}

/// Other engines of the same family have files of the same names.
#[test]
fn repair_leaves_the_store_of_another_engine_alone() {
    let dir = dir("another");
    for (name, bytes) in [
        ("CURRENT", &b"MANIFEST-000002\n"[..]),
        ("MANIFEST-000002", b"\x56\xf9\xb8\xf8\x1c\x00\x01\x01"),
        ("000005.ldb", b"table"),
    ] {
        fs::write(dir.join(name), bytes).expect("file");
    }
    let listed = || {
        let mut names: Vec<_> =
            fs::read_dir(&dir).expect("directory").flatten().map(|e| e.file_name()).collect();
        names.sort();
        names
    };
    let before = listed();
    let repaired =
        esker::repair::repair(&dir, &Options::default(), esker::Setup::default(), |_| true);
    assert!(matches!(repaired, Err(Error::NotFound { .. })), "{repaired:?}");
    assert_eq!(listed(), before);
    fs::remove_dir_all(&dir).expect("remove");
}
