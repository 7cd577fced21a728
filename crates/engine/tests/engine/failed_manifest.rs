//! While the manifest cannot be written, flushes are tried again and again; none of them leaves a
//! table behind that fills the disk.

use crate::support::{DIR, setup_on};
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::StrictVfs;
use esker::{Db, KeyspaceOptions, Options};
use std::path::Path;
use std::sync::Arc;

fn tables(vfs: &StrictVfs) -> Vec<String> {
    let names = vfs.file_names(Path::new(DIR));
    names.into_iter().filter(|name| name.ends_with(".tbl")).collect()
}

#[test]
fn tables_of_failed_flushes_go() {
    let (strict, tries) = (StrictVfs::new(), 5);
    let vfs = FaultyVfs::new(Arc::new(strict.clone()));
    let setup = setup_on(Arc::new(vfs.clone()), 7);
    let db = Db::open_with(DIR, Options::default(), setup).expect("open");
    db.put(b"key", &vec![1; 100 << 10]).expect("put");
    // From the first table on.
    let disk = strict.clone();
    let fails =
        move |path: &Path| path.to_string_lossy().contains("MANIFEST") && !tables(&disk).is_empty();
    let ops = [Op::Create, Op::CreateLog, Op::Append];
    vfs.inject(FaultRule::nth(1, &ops, Fault::NoSpace).from_then_on().on(fails));
    for _ in 0..tries {
        db.flush().expect_err("no manifest");
    }
    assert!(tables(&strict).len() >= tries, "{:?}", tables(&strict));
    vfs.heal();
    db.flush().expect("flush");
    assert_eq!(tables(&strict).len(), 1, "{:?}", tables(&strict));
    assert!(db.get(b"key").expect("get").is_some());
    db.close().expect("close");
}

/// A manifest that was written anew and cannot be gone on with is no panic, at whichever append that shows.
#[test]
fn a_new_manifest_may_fail_at_each_append() {
    let mut nth = 1;
    loop {
        let vfs = FaultyVfs::new(Arc::new(StrictVfs::new()));
        let open = || Db::open_with(DIR, Options::default(), setup_on(Arc::new(vfs.clone()), 7));
        let db = open().expect("open");
        let create = |name| db.create_keyspace(name, KeyspaceOptions::default());
        let fail = |nth| {
            let rule = FaultRule::nth(nth, &[Op::Append], Fault::NoSpace);
            vfs.inject(rule.on(|path: &Path| path.to_string_lossy().contains("MANIFEST")));
        };
        fail(1);
        create("a").expect_err("the manifest is broken");
        vfs.heal();
        let before = vfs.faults_fired();
        fail(nth);
        if create("a").is_err() {
            vfs.heal();
            create("a").expect("another new manifest");
        }
        vfs.heal();
        create("b").expect("create");
        let is_through = vfs.faults_fired() == before;
        db.close().expect("close");
        assert_eq!(open().expect("open").keyspace_names(), ["default", "a", "b"]);
        if is_through {
            break;
        }
        nth += 1;
    }
    assert!(nth > 3, "{nth}");
}
