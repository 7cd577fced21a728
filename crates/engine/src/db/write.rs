//! The way of a write, from its batch to the moment at which everybody sees it.
//!
//! ```text
//! batch, completed by `secondary` -> refused? -> slowed if memory or level 0 is nearly full -> large values? -> slowed if collection is behind
//!       -> write queue
//! group -> room? -> append to the log -> sync if asked -> insert into memtables
//!       -> publish the sequence number
//! ```
//!
//! What is rare stands elsewhere: `stall` slows, `queue` lets one thread write for all that wait,
//! `separate` puts large values beside their batch, `commit` makes room and syncs.
//! Invariants: (1) a record is in the log before it is in a memtable; (2) sequence numbers are
//! consecutive in the log; (3) a batch is one record of the log and becomes visible as a whole.

use super::application::{Applied, Sought};
use super::commit_state::{CommitState, raise};
use super::core::{Core, KeyspaceCore, Keyspaces, View};
use super::panic_watch::PanicWatch;
use super::queue::{Leader, Request, Turn};
use super::separate::separate;
use crate::memtable::Memtable;
use crate::options::WriteOptions;
use esker_base::sync::Guard;
use esker_base::sync::atomic::Ordering;
use esker_base::{Batch, Error, KeyspaceId, Kind, Result};
use std::sync::Arc;

/// How a batch is written, and by whose will.
#[derive(Clone, Copy, Default)]
pub(super) struct How<'a> {
    /// Return only when it is durable.
    pub(super) sync: bool,
    /// It is a request of somebody else's log.
    pub(super) applied: Option<Applied<'a>>,
}

impl How<'_> {
    pub(super) fn of(options: WriteOptions) -> How<'static> {
        How { sync: options.sync, applied: None }
    }
}

/// Fails if a batch cannot be written, whatever it is about.
#[inline]
pub(super) fn check(core: &Core, batch: &Batch) -> Result<()> {
    core.check_writable()?;
    batch.check()?;
    if batch.has_pointers() {
        return Err(Error::invalid("a batch of a user holds no pointers"));
    }
    Ok(())
}

/// Writes a batch that is complete by the list of indexes of this number: all of it or, on an
/// error, nothing.
///
/// False if there is a newer list by the time it is its turn: then nothing was written and the
/// batch is as it was. Otherwise its memory is given back for reuse, its contents are unspecified.
pub(super) fn write(core: &Core, batch: &mut Batch, how: How<'_>, indexes: u64) -> Result<bool> {
    // It comes near while the rest is looked at.
    let sought = how.applied.as_ref().map(|applied| Sought::of(applied.group));
    check(core, batch)?;
    if how.sync && core.is_external() {
        return Err(Error::invalid(
            "a store with durability = external has no log to be synced: flush it, or apply requests that are durable",
        ));
    }
    if batch.is_empty() && !how.sync && how.applied.is_none() {
        return Ok(true);
    }
    let asked = sought.zip(how.applied.as_ref());
    let application = asked.map(|(sought, applied)| sought.found(applied)).transpose()?;
    let separated = separate(core, batch);
    if let Some(separated) = &separated {
        core.stall.admit_values(separated.stored_bytes, core.values_fill());
    }
    let mut request = Request::new(std::mem::take(batch), how.sync);
    request.application = application;
    request.separated = separated;
    let held = core.memtable_bytes.load(Ordering::Relaxed);
    if held > core.slow_from_bytes || core.stall.is_active() {
        core.stall.admit(request.memory_bytes(), held, core.memtables_limit_bytes);
    }
    request.indexes = indexes;
    let answer = match core.queue.enter(request) {
        Turn::Done(answer) => answer,
        Turn::Lead(leader) => lead(core, leader),
    };
    if let Some(application) = answer.application {
        application.remember();
    }
    *batch = answer.batch;
    core.run_inline();
    if answer.outdated { Ok(false) } else { answer.result.map(|()| true) }
}

/// The memtables that a group is written to. They stay while it is: whoever seals one has the right
/// to write.
struct Targets<'k> {
    keyspaces: &'k Keyspaces,
    /// The one asked for last: nearly always the next as well.
    last: Option<(&'k KeyspaceCore, Guard<Arc<View>>)>,
}

impl<'k> Targets<'k> {
    fn new(keyspaces: &'k Keyspaces) -> Targets<'k> {
        Targets { keyspaces, last: None }
    }

    /// `None` if there is no such keyspace.
    #[inline]
    fn get(&mut self, id: KeyspaceId) -> Option<(&'k KeyspaceCore, &View)> {
        if self.last.as_ref().is_none_or(|(keyspace, _)| keyspace.id != id) {
            let keyspace: &KeyspaceCore = self.keyspaces.get(id)?;
            self.last = Some((keyspace, keyspace.view.load()));
        }
        self.last.as_ref().map(|(keyspace, view)| (*keyspace, &***view))
    }
}

/// Writes the group that this thread leads. Returns its own batch with what became of it.
fn lead(core: &Core, mut leader: Leader<'_>) -> Request {
    let mut guard = core.commit.lock();
    // The group is taken late: whoever came while the lock was waited for is in.
    let mut group = leader.gather();
    let watch = PanicWatch { core, what: "a writing thread panicked" };
    match (guard.as_mut(), core.check_writable()) {
        (Some(commit), Ok(())) => commit.write_group(core, group.requests()),
        (None, _) => fail_all(group.requests(), &Error::Cancelled),
        // Of who led before only half may be there: nothing may come after it and show that.
        (_, Err(error)) => fail_all(group.requests(), &error),
    }
    // Not by whether the thread panics: it may do so for a reason of the user's, who writes from
    // a destructor.
    std::mem::forget(watch);
    drop(guard);
    leader.finish(group)
}

fn fail_all(group: &mut [Request], error: &Error) {
    group.iter_mut().for_each(|request| request.result = Err(error.clone()));
}

impl CommitState {
    /// Writes the batches of a group, in order, and notes what became of each.
    fn write_group(&mut self, core: &Core, group: &mut [Request]) {
        // Who only asks for what was written to be durable needs no room, and is not refused.
        let mut refused = match group.iter().any(Request::writes) {
            true => self.make_ready(core, group).err(),
            false => None,
        };
        let keyspaces = core.keyspaces.load();
        let mut targets = Targets::new(&keyspaces);
        // Misses of the processor's caches then pass while the batches are logged.
        for request in group.iter() {
            if let Some(application) = &request.application {
                application.prefetch();
            }
            if let Some((id, hash)) = request.first
                && let Some((_, view)) = targets.get(id)
            {
                view.active.prefetch(hash);
            }
        }
        for request in group.iter_mut() {
            request.result = match &refused {
                Some(error) if request.writes() => Err(error.clone()),
                _ => self.log_one(core, &keyspaces, request),
            };
            if let Err(error) = &request.result
                && refused.is_none()
                && self.journal.is_broken()
                && request.writes()
            {
                refused = Some(error.clone());
            }
        }
        if group.iter().any(|request| request.sync && request.result.is_ok())
            && let Err(error) = self.sync(core)
        {
            return fail_all(group, &error);
        }
        let mut operations = 0;
        let mut batches = 0;
        for request in group.iter().filter(|request| request.result.is_ok()) {
            self.insert(core, &mut targets, request);
            operations += u64::from(request.batch.len());
            batches += 1;
        }
        core.visible_seq.store(self.next_seq - 1, Ordering::Release);
        if core.memtable_bytes.load(Ordering::Relaxed) > core.slow_from_bytes {
            self.choose_to_seal(core);
        }
        raise(&core.counters.batches, batches);
        raise(&core.counters.operations, operations);
        raise(&core.counters.groups, 1);
    }

    /// Sees to it that there is room for what a group writes, in memory and in a log.
    ///
    /// # Errors
    /// Nothing was written.
    fn make_ready(&mut self, core: &Core, group: &[Request]) -> Result<()> {
        let bytes = group.iter().map(Request::memory_bytes).sum::<u64>();
        let held = core.memtable_bytes.load(Ordering::Relaxed);
        let full = !self.full.is_empty() || held + bytes > core.memtables_limit_bytes;
        if full || self.journal.is_broken() || core.stall.is_level0_over() {
            self.make_room(core, bytes)?;
        }
        if self.is_full_of_values(core, group) {
            self.end_log_of_values(core)?;
        }
        Ok(())
    }

    /// Appends one batch to the log and takes its sequence numbers.
    #[inline]
    fn log_one(&mut self, core: &Core, keyspaces: &Keyspaces, request: &mut Request) -> Result<()> {
        request.outdated = request.indexes != core.indexes.number();
        if request.outdated {
            return Err(Error::Cancelled);
        }
        let Request { batch, separated, application, .. } = request;
        let is_missing = |id| keyspaces.get(id).is_none();
        if batch.names_keyspaces() && batch.iter().any(|op| is_missing(op.keyspace)) {
            return Err(Error::invalid("the batch names a keyspace that does not exist"));
        }
        Memtable::check_takes(batch)?;
        if let Some(application) = application {
            // Where there is no log nothing that follows can fail.
            let last_seq = self.last_seq() + u64::from(batch.len());
            let is_full = application.note(self.epoch, &core.epochs, last_seq)?;
            if is_full && self.full.is_empty() {
                // Whichever is named, the memtables of all keyspaces are sealed, and the list of
                // groups with them.
                self.full.push(KeyspaceId::DEFAULT);
            }
        }
        if batch.is_empty() {
            return Ok(());
        }
        let count = u64::from(batch.len());
        match separated {
            None => {
                let bytes = batch.seal(self.next_seq);
                if !core.is_external() {
                    raise(&core.counters.wal_bytes, bytes.len() as u64);
                    self.journal.append(bytes)?;
                }
            }
            Some(separated) => self.log_separated(core, keyspaces, batch, separated)?,
        }
        self.next_seq += count;
        if self.journal.len_bytes() >= self.spare_due_bytes {
            self.ask_for_spare(core);
        }
        Ok(())
    }

    /// Puts a logged batch into the memtables. Its first sequence number stands in its header.
    #[inline]
    fn insert(&mut self, core: &Core, targets: &mut Targets<'_>, request: &Request) {
        let batch = request.logged();
        let mut hash = request.first.map(|(_, hash)| hash);
        let mut seq = batch.first_seq();
        let mut ops = batch.iter().peekable();
        while let Some(first) = ops.peek() {
            let id = first.keyspace;
            let (keyspace, view) = targets.get(id).expect("checked before the batch was logged");
            if batch.has_pointers() {
                self.hold_log(view);
            }
            let mut writer = view.active.writer();
            let mut user_bytes = 0;
            while let Some(op) = ops.next_if(|op| op.keyspace == id) {
                // A value that stands elsewhere was counted there.
                let value_bytes = if op.kind == Kind::PutPointer { 0 } else { op.value.len() };
                user_bytes += op.key.len() + value_bytes;
                writer.apply(&op, hash.take(), seq);
                seq += 1;
            }
            drop(writer);
            raise(&keyspace.user_bytes, user_bytes as u64);
            self.account(core, keyspace, &view.active);
        }
    }

    /// Counts what the active memtable has grown by, and notes it when it is full.
    #[inline]
    fn account(&mut self, core: &Core, keyspace: &KeyspaceCore, active: &Memtable) {
        let bytes = active.memory_bytes();
        let counted = keyspace.counted_bytes.load(Ordering::Relaxed);
        keyspace.counted_bytes.store(bytes, Ordering::Relaxed);
        core.memtable_bytes.fetch_add(bytes - counted, Ordering::Relaxed);
        if active.is_full(keyspace.memtable_limit_bytes) && !self.full.contains(&keyspace.id) {
            self.full.push(keyspace.id);
        }
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use crate::db::queue::Request;
    use crate::db::{Db, Setup};
    use crate::options::{Durability, KeyspaceOptions, Options, WriteOptions};
    use esker_base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
    use esker_base::vfs::strict::{StrictVfs, Survival};
    use esker_base::{Batch, Comparator, Env, Error, KeyOrder, Vfs};
    use std::cmp::Ordering;
    use std::panic::AssertUnwindSafe;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// More than a memtable keeps without order.
    const RANGES: usize = 100;

    /// The order of bytes, which panics over one key once it may.
    #[derive(Default)]
    struct Trap {
        entered: AtomicBool,
        open: AtomicBool,
    }

    impl Comparator for Trap {
        fn name(&self) -> &str {
            "trap"
        }

        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            if a == b"trap" || b == b"trap" {
                self.entered.store(true, SeqCst);
                wait_for(|| self.open.load(SeqCst));
                panic!("the trap is open");
            }
            a.cmp(b)
        }
    }

    fn wait_for(mut until: impl FnMut() -> bool) {
        while !until() {
            std::thread::yield_now();
        }
    }

    /// A batch whose writer panics between two of its operations, while another one waits: neither
    /// is seen.
    #[test]
    fn nobody_writes_after_a_writer_that_panicked() {
        let trap = Arc::new(Trap::default());
        let order = KeyOrder::Custom(trap.clone());
        let default_keyspace = KeyspaceOptions { order, ..KeyspaceOptions::default() };
        let options = Options { default_keyspace, ..Options::default() };
        let env = Env::with_vfs(Arc::new(StrictVfs::new()), 1);
        let db = Db::open_with("/db", options, Setup { env, ..Setup::default() }).expect("open");
        db.put(b"before", b"1").expect("put");
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                let mut batch = Batch::new();
                batch.put(b"half", b"1");
                // So many that the memtable puts them into its set, in their order.
                (0..RANGES).for_each(|_| {
                    batch.delete_range(b"trap", b"z");
                });
                db.write(batch, WriteOptions::default())
            });
            wait_for(|| trap.entered.load(SeqCst));
            let second = scope.spawn(|| db.put(b"late", b"1"));
            wait_for(|| db.core().queue.is_waited_for());
            trap.open.store(true, SeqCst);
            assert!(first.join().is_err(), "it panicked");
            assert!(matches!(second.join().expect("no panic"), Err(Error::Poisoned { .. })));
        });
        let seen =
            [&b"before"[..], b"half", b"late"].map(|key| db.get(key).expect("get").is_some());
        assert_eq!(seen, [true, false, false]);
        assert!(db.close().is_err(), "it says so at the end too");
    }

    /// Who writes does the work, and it panics in the middle of a compaction.
    #[test]
    fn nobody_writes_after_work_that_panicked_without_threads() {
        struct Fragile(AtomicBool);
        impl Comparator for Fragile {
            fn name(&self) -> &str {
                "fragile"
            }
            fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
                assert!(!self.0.load(SeqCst), "it breaks");
                a.cmp(b)
            }
        }
        let order = Arc::new(Fragile(AtomicBool::new(false)));
        let default_keyspace = KeyspaceOptions {
            order: KeyOrder::Custom(order.clone()),
            level0_runs_compact: 2,
            ..KeyspaceOptions::default()
        };
        let options = Options { default_keyspace, ..Options::default() };
        let env = Env::with_vfs(Arc::new(StrictVfs::new()), 1);
        let setup = Setup { env, inline_background: true, ..Setup::default() };
        let db = Db::open_with("/db", options, setup).expect("open");
        let put = || db.put(b"key", b"1").expect("put");
        put();
        db.flush().expect("flush");
        put();
        order.0.store(true, SeqCst);
        let ended = std::panic::catch_unwind(AssertUnwindSafe(|| db.flush()));
        order.0.store(false, SeqCst);
        assert!(ended.is_err(), "it panicked");
        assert!(matches!(db.put(b"late", b"1"), Err(Error::Poisoned { .. })));
        assert!(matches!(db.wait_idle(), Err(Error::Poisoned { .. })), "and waits for nobody");
        assert!(db.close().is_err());
    }

    /// A thread that ends for a reason of its own, and writes while it unwinds.
    #[test]
    fn a_write_from_a_destructor_of_a_thread_that_panics_is_as_any_other() {
        struct Late<'a>(&'a Db);
        impl Drop for Late<'_> {
            fn drop(&mut self) {
                self.0.put(b"late", b"1").expect("put");
            }
        }
        let env = Env::with_vfs(Arc::new(StrictVfs::new()), 1);
        let setup = Setup { env, ..Setup::default() };
        let db = Db::open_with("/db", Options::default(), setup).expect("open");
        let ended = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let _late = Late(&db);
            panic!("of the user's own");
        }));
        assert!(ended.is_err());
        assert!(db.get(b"late").expect("get").is_some());
        db.put(b"after", b"1").expect("the store is sound");
        db.close().expect("close");
    }

    /// Where there is no room, whoever only asks for what was written to be durable is not refused
    /// with those who write, nor with one that has to come again.
    #[test]
    fn only_who_writes_is_refused_for_want_of_room() {
        let strict = StrictVfs::new();
        let vfs = FaultyVfs::new(Arc::new(strict.clone()));
        let open = |vfs: Arc<dyn Vfs>| {
            let setup = Setup { env: Env::with_vfs(vfs, 1), ..Setup::default() };
            Db::open_with("/db", Options::default(), setup).expect("open")
        };
        let db = open(Arc::new(vfs.clone()));
        db.put(b"key", b"1").expect("put");
        vfs.inject(FaultRule::nth(1, &Op::GROWS, Fault::NoSpace).from_then_on());
        db.put(b"late", b"1").expect_err("the disk is full, and the log broken");
        let core = db.core();
        let now = core.indexes.number();
        let asks = |batch: Batch, indexes: u64, sync: bool| Request {
            indexes,
            ..Request::new(batch, sync)
        };
        let sync = |indexes: u64| asks(Batch::new(), indexes, true);
        let put = || {
            let mut batch = Batch::new();
            batch.put(b"late", b"1");
            asks(batch, now, true)
        };
        for mut group in [vec![put(), sync(now + 1), sync(now)], vec![sync(now + 1), sync(now)]] {
            let mut commit = core.commit.lock();
            commit.as_mut().expect("open").write_group(core, &mut group);
            for request in &group {
                let is_refused = matches!(request.result, Err(Error::NoSpace { .. }));
                assert_eq!(is_refused, request.writes());
                assert_eq!(request.outdated, request.indexes > now);
                assert!(is_refused || request.outdated || request.result.is_ok());
            }
        }
        let db = open(Arc::new(strict.crash(Survival::None, 1)));
        assert!(db.get(b"key").expect("get").is_some());
        assert!(db.get(b"late").expect("get").is_none());
    }

    /// A range without keys is counted and makes no memtable that could be flushed.
    #[test]
    fn what_needs_all_memory_waits_for_no_memtable_without_records() {
        for durability in [Durability::Wal, Durability::External] {
            for of_a_guest in [false, true] {
                let env = Env::with_vfs(Arc::new(StrictVfs::new()), 1);
                let setup = Setup { env, ..Setup::default() };
                let options =
                    Options { memory_budget_bytes: 4 << 20, durability, ..Options::default() };
                let db = Db::open_with("/db", options, setup).expect("open");
                let guest = db.create_keyspace("guest", KeyspaceOptions::default());
                let of =
                    if of_a_guest { guest.expect("new") } else { db.default_keyspace().clone() };
                of.delete_range(b"a", b"a").expect("nothing");
                let (done, is_done) = channel();
                let writer = db.clone();
                std::thread::spawn(move || done.send(writer.put(b"k", &vec![0; 3 << 20])));
                let put = is_done.recv_timeout(Duration::from_secs(60)).expect("it returns");
                put.expect("put");
            }
        }
    }
}
