//! What was written is durable once the database is closed, however little it is.

use crate::support::open;
use esker::base::vfs::strict::{StrictVfs, Survival};

#[test]
fn the_shortest_write_survives_a_power_cut_after_the_close() {
    // The shortest of these records is no longer than the mark that follows a sync.
    for (value, synced_before) in [("v", false), ("v", true), ("", false), ("", true)] {
        let vfs = StrictVfs::new();
        let db = open(&vfs);
        if synced_before {
            db.put(b"a", b"").expect("put");
            db.sync().expect("sync");
        }
        db.put(b"k", value.as_bytes()).expect("put");
        db.close().expect("close");
        let vfs = vfs.crash(Survival::None, 1);
        let found = open(&vfs).get(b"k").expect("get");
        assert_eq!(found.as_deref(), Some(value.as_bytes()), "synced before: {synced_before}");
    }
}
