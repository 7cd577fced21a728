//! Loads that users end.

use super::*;
use crate::failure::Code;
use crate::progress::At;
use esker::base::Env;
use esker::base::vfs::strict::StrictVfs;
use esker::{Options, Setup};
use std::sync::Arc;

/// Nothing but rows that are left out; the user asks for the end at the third.
struct Malformed {
    interrupt: Interrupt,
    rows: u64,
}

impl Source for Malformed {
    fn next(&mut self, _: &mut Record) -> Result<Step> {
        self.rows += 1;
        if self.rows == 3 {
            self.interrupt.ask();
        }
        assert!(self.rows < 10, "it goes on");
        Ok(Step::Skipped("malformed".to_owned()))
    }

    fn place(&self) -> String {
        String::new()
    }

    fn at(&self, records: u64) -> At {
        At { records, ..At::default() }
    }
}

#[test]
fn an_interrupt_is_heard_while_rows_are_left_out() {
    for bulk in [false, true] {
        let env = Env::with_vfs(Arc::new(StrictVfs::new()), 1);
        let setup = Setup { env, ..Setup::default() };
        let db = Db::open_with("/store", Options::default(), setup).expect("a store");
        let interrupt = Interrupt::default();
        let mut source = Malformed { interrupt: interrupt.clone(), rows: 0 };
        let plan = Plan { bulk, skip_bad: false, keyspace: db.default_keyspace(), db: &db };
        let progress = Progress::start("loading", true);
        let (done, ended) = load(&mut source, &plan, progress, &interrupt);
        assert_eq!((done.records, done.skipped), (0, 3));
        assert_eq!(ended.expect_err("an interrupt").code, Code::Interrupted);
    }
}
