//! A store that was opened by a relative path stays where it is, wherever its process goes.
//!
//! Alone in its program: the directory of a process is that of all its threads.

use esker::{Db, Options};

#[test]
fn a_store_stays_when_its_process_moves() {
    let root = std::env::temp_dir().join(format!("esker-relative-{}", std::process::id()));
    let (here, there) = (root.join("here"), root.join("there"));
    for dir in [&here, &there] {
        std::fs::create_dir_all(dir).expect("create");
    }
    std::env::set_current_dir(&here).expect("go");
    let db = Db::open("store", Options::default()).expect("open");
    db.put(b"before", b"1").expect("put");
    std::env::set_current_dir(&there).expect("go");
    db.put(b"after", b"2").expect("put");
    db.flush().expect("flush");
    db.put(b"last", b"3").expect("put");
    db.close().expect("close");
    assert!(!there.join("store").exists());
    let db = Db::open(here.join("store"), Options::default()).expect("open");
    assert_eq!(db.iter().expect("a cursor").count(), 3);
    db.close().expect("close");
    std::env::set_current_dir(std::env::temp_dir()).expect("go");
    let _ = std::fs::remove_dir_all(root);
}
