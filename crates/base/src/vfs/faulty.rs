//! A file system that fails on demand, around any other.
//!
//! A test injects rules: which calls to look at ([`Op`]s, and a predicate on the path), which of
//! them to hit (the k-th, or every one from the k-th on) and how ([`Fault`]). Calls are counted by
//! operation whether or not a rule looks at them.
//!
//! A failed sync leaves the data unsynced, and the file lies from then on: later syncs of that
//! handle succeed and sync nothing, as a kernel that has marked its pages clean does. A program
//! that retries a failed sync and believes it loses data here as it would there. Directories lie,
//! and files beyond the handle, only where that is asked for ([`FaultyVfs::with_lasting_lies`]):
//! what opens a store again after a failure would believe directories too.
//!
//! Threads: counting and the choice of a fault are one step under one lock; the call itself runs
//! outside of it.

use super::{Access, DirEntry, FileLock, ReadableFile, Vfs, WritableFile};
use crate::error::{Error, Result};
use crate::sync::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What systems read from disks at the least.
const PAGE_BYTES: u64 = 4096;

/// An operation of a file system or an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "each is the method of that name, or its last step")]
pub enum Op {
    Create,
    CreateLog,
    Append,
    Sync,
    Finish,
    Open,
    Read,
    Len,
    Rename,
    Link,
    Remove,
    Truncate,
    /// The sync that a truncation ends with.
    TruncateSync,
    Rewrite,
    PunchHole,
    CreateDir,
    RemoveDir,
    SyncDir,
    List,
    Exists,
    Lock,
    FreeBytes,
}

impl Op {
    /// Every operation.
    pub const ALL: [Op; 22] = [
        Op::Create,
        Op::CreateLog,
        Op::Append,
        Op::Sync,
        Op::Finish,
        Op::Open,
        Op::Read,
        Op::Len,
        Op::Rename,
        Op::Link,
        Op::Remove,
        Op::Truncate,
        Op::TruncateSync,
        Op::Rewrite,
        Op::PunchHole,
        Op::CreateDir,
        Op::RemoveDir,
        Op::SyncDir,
        Op::List,
        Op::Exists,
        Op::Lock,
        Op::FreeBytes,
    ];

    /// The operations that change something on the disk.
    pub const CHANGES: [Op; 14] = [
        Op::Create,
        Op::CreateLog,
        Op::Append,
        Op::Sync,
        Op::Finish,
        Op::Rename,
        Op::Link,
        Op::Remove,
        Op::Truncate,
        Op::TruncateSync,
        Op::Rewrite,
        Op::PunchHole,
        Op::CreateDir,
        Op::SyncDir,
    ];

    /// The operations that can run out of space.
    pub const GROWS: [Op; 6] =
        [Op::Create, Op::CreateLog, Op::Append, Op::Link, Op::Rename, Op::CreateDir];
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with `EIO` and does nothing.
    Eio,
    /// The call fails with `ENOSPC` and does nothing.
    NoSpace,
    /// Half of an append (rounded down) is applied, then it fails with `EIO`. As [`Fault::Eio`]
    /// for every other operation.
    ShortWrite,
    /// A renaming or an append is done, and then fails with `EIO` all the same. As [`Fault::Eio`]
    /// for every other operation.
    Late,
    /// The call fails with `EMFILE` and does nothing.
    TooManyFiles,
    /// The call fails with `EACCES` and does nothing.
    Denied,
    /// A read succeeds with one bit wrong: this one, counted from the start of the buffer, modulo
    /// the bits read. Nothing happens to operations other than [`Op::Read`].
    FlipBit(u64),
}

type PathFilter = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

/// Which calls fail, and how.
#[derive(Clone)]
pub struct FaultRule {
    ops: Vec<Op>,
    path: Option<PathFilter>,
    nth: u64,
    from_then_on: bool,
    fault: Fault,
    /// Calls that matched so far.
    seen: u64,
}

impl FaultRule {
    /// The `nth` call (the first is 1) of any of these operations fails, once.
    pub fn nth(nth: u64, ops: &[Op], fault: Fault) -> FaultRule {
        assert!(nth > 0, "calls are counted from 1");
        FaultRule { ops: ops.to_vec(), path: None, nth, from_then_on: false, fault, seen: 0 }
    }

    /// Every matching call after the `nth` fails too.
    pub fn from_then_on(mut self) -> FaultRule {
        self.from_then_on = true;
        self
    }

    /// Looks only at calls on paths that satisfy `filter`. A rename or link counts by its source.
    pub fn on(mut self, filter: impl Fn(&Path) -> bool + Send + Sync + 'static) -> FaultRule {
        self.path = Some(Arc::new(filter));
        self
    }

    fn hits(&mut self, op: Op, path: &Path) -> Option<Fault> {
        if !self.ops.contains(&op) || self.path.as_ref().is_some_and(|filter| !filter(path)) {
            return None;
        }
        self.seen += 1;
        let hit = self.seen == self.nth || self.from_then_on && self.seen > self.nth;
        hit.then_some(self.fault)
    }
}

impl fmt::Debug for FaultRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let then = if self.from_then_on { " and on" } else { "" };
        let filtered = if self.path.is_some() { " on some paths" } else { "" };
        write!(f, "{:?} at call {}{then} of {:?}{filtered}", self.fault, self.nth, self.ops)
    }
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<FaultRule>,
    calls: [u64; Op::ALL.len()],
    fired: u64,
    /// Files and directories whose sync failed lie to whoever opens them next.
    lies_last: bool,
    lying: BTreeSet<PathBuf>,
    /// Pages that the disk cannot read.
    unreadable: BTreeMap<PathBuf, BTreeSet<u64>>,
    /// Under which name a file was made that was linked under this one.
    first_names: BTreeMap<PathBuf, PathBuf>,
}

impl State {
    fn first_name(&self, path: &Path) -> PathBuf {
        self.first_names.get(path).map_or_else(|| path.to_path_buf(), PathBuf::clone)
    }
}

/// The failing file system. A clone shares rules and counts.
#[derive(Clone, Debug)]
pub struct FaultyVfs {
    inner: Arc<dyn Vfs>,
    state: Arc<Mutex<State>>,
}

impl FaultyVfs {
    /// Wraps `inner`; nothing fails until a rule is injected.
    pub fn new(inner: Arc<dyn Vfs>) -> FaultyVfs {
        FaultyVfs { inner, state: Arc::default() }
    }

    /// The same, in which a directory whose sync failed lies from then on, and a file to whoever
    /// opens it next too, until it is written anew.
    pub fn with_lasting_lies(inner: Arc<dyn Vfs>) -> FaultyVfs {
        let faulty = FaultyVfs::new(inner);
        faulty.state.lock().lies_last = true;
        faulty
    }

    /// Adds a rule. The first rule that hits decides; all of them count the call.
    pub fn inject(&self, rule: FaultRule) {
        self.state.lock().rules.push(rule);
    }

    /// From now on no read succeeds that takes in the page at this offset of a file, as long as it
    /// is that file.
    pub fn lose_page(&self, path: &Path, offset_bytes: u64) {
        let mut state = self.state.lock();
        let pages = state.unreadable.entry(path.to_path_buf()).or_default();
        pages.insert(offset_bytes / PAGE_BYTES);
    }

    /// Removes all rules. Handles whose sync failed go on lying.
    pub fn heal(&self) {
        self.state.lock().rules.clear();
    }

    /// How often an operation was called, failed calls included.
    pub fn calls(&self, op: Op) -> u64 {
        self.state.lock().calls[op as usize]
    }

    /// How often any of these operations was called.
    pub fn calls_of(&self, ops: &[Op]) -> u64 {
        let state = self.state.lock();
        ops.iter().map(|&op| state.calls[op as usize]).sum()
    }

    /// How many faults struck: a test whose fault never did has tested nothing.
    pub fn faults_fired(&self) -> u64 {
        self.state.lock().fired
    }

    /// Counts a call and says what is to go wrong with it.
    fn fault(&self, op: Op, path: &Path) -> Option<Fault> {
        let mut state = self.state.lock();
        state.calls[op as usize] += 1;
        let mut fault = None;
        for rule in &mut state.rules {
            let hit = rule.hits(op, path);
            fault = fault.or(hit);
        }
        if matches!(fault, Some(Fault::FlipBit(_))) && op != Op::Read {
            fault = None;
        }
        state.fired += u64::from(fault.is_some());
        fault
    }

    /// For calls of which nothing can be half done.
    fn pass(&self, op: Op, name: &'static str, path: &Path) -> Result<()> {
        self.fault(op, path).map_or(Ok(()), |fault| Err(error(fault, name, path)))
    }

    /// True if the disk cannot read these bytes.
    fn is_lost(&self, path: &Path, offset_bytes: u64, len: usize) -> bool {
        let state = self.state.lock();
        let end = offset_bytes + len as u64;
        let lost = state.unreadable.get(path).is_some_and(|pages| {
            pages.range(offset_bytes / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).next().is_some()
        });
        lost && len > 0
    }

    fn note_lie(&self, path: &Path) {
        let mut state = self.state.lock();
        if state.lies_last {
            let name = state.first_name(path);
            state.lying.insert(name);
        }
    }

    /// True if nothing of this becomes durable, although a sync says so.
    fn lies(&self, path: &Path) -> bool {
        let state = self.state.lock();
        state.lying.contains(&state.first_name(path))
    }

    /// A file that takes the name of another one stands elsewhere on the disk.
    fn rename_file(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)?;
        let mut state = self.state.lock();
        state.unreadable.remove(to);
        if let Some(pages) = state.unreadable.remove(from) {
            state.unreadable.insert(to.to_path_buf(), pages);
        }
        Ok(())
    }

    fn writer(&self, inner: Box<dyn WritableFile>, path: &Path) -> Box<dyn WritableFile> {
        self.state.lock().unreadable.remove(path);
        Box::new(FaultyWriter {
            inner,
            vfs: self.clone(),
            path: path.to_path_buf(),
            sync_failed: false,
        })
    }
}

fn error(fault: Fault, name: &'static str, path: &Path) -> Error {
    let source = match fault {
        Fault::NoSpace => io::Error::from(ErrorKind::StorageFull),
        Fault::TooManyFiles => io::Error::from_raw_os_error(libc::EMFILE),
        Fault::Denied => io::Error::from_raw_os_error(libc::EACCES),
        Fault::Eio | Fault::ShortWrite | Fault::Late | Fault::FlipBit(_) => {
            io::Error::from_raw_os_error(libc::EIO)
        }
    };
    Error::io(name, path, source)
}

impl Vfs for FaultyVfs {
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.pass(Op::Create, "create", path)?;
        Ok(self.writer(self.inner.create(path)?, path))
    }

    fn create_log(&self, path: &Path, reserve_bytes: u64) -> Result<Box<dyn WritableFile>> {
        self.pass(Op::CreateLog, "create log", path)?;
        Ok(self.writer(self.inner.create_log(path, reserve_bytes)?, path))
    }

    fn open(&self, path: &Path, access: Access) -> Result<Arc<dyn ReadableFile>> {
        self.pass(Op::Open, "open", path)?;
        let inner = self.inner.open(path, access)?;
        Ok(Arc::new(FaultyReader { inner, vfs: self.clone(), path: path.to_path_buf() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        match self.fault(Op::Rename, from) {
            None => self.rename_file(from, to),
            Some(fault) => {
                if fault == Fault::Late {
                    self.rename_file(from, to)?;
                }
                Err(error(fault, "rename", from))
            }
        }
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.pass(Op::Link, "link", from)?;
        self.inner.link(from, to)?;
        let mut state = self.state.lock();
        let name = state.first_name(from);
        state.first_names.insert(to.to_path_buf(), name);
        if let Some(pages) = state.unreadable.get(from).cloned() {
            state.unreadable.insert(to.to_path_buf(), pages);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.pass(Op::Remove, "remove", path)?;
        self.inner.remove(path)?;
        let mut state = self.state.lock();
        state.first_names.remove(path);
        state.unreadable.remove(path);
        Ok(())
    }

    fn truncate(&self, path: &Path, len_bytes: u64) -> Result<()> {
        self.pass(Op::Truncate, "truncate", path)?;
        self.pass(Op::TruncateSync, "sync", path).inspect_err(|_| self.note_lie(path))?;
        // Nothing becomes durable by it.
        if self.lies(path) {
            return Ok(());
        }
        self.inner.truncate(path, len_bytes)
    }

    fn rewrite(&self, path: &Path, part: Range<u64>) -> Result<()> {
        self.pass(Op::Rewrite, "rewrite", path)?;
        // What is written anew is read first.
        if self.is_lost(path, part.start, part.end.saturating_sub(part.start) as usize) {
            return Err(error(Fault::Eio, "rewrite", path));
        }
        self.inner.rewrite(path, part)?;
        let mut state = self.state.lock();
        let name = state.first_name(path);
        state.lying.remove(&name);
        Ok(())
    }

    fn punch_hole(&self, path: &Path, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        self.pass(Op::PunchHole, "punch hole", path)?;
        self.inner.punch_hole(path, offset_bytes, len_bytes)
    }

    fn create_dir_all(&self, path: &Path) -> Result<bool> {
        self.pass(Op::CreateDir, "create directory", path)?;
        self.inner.create_dir_all(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        self.pass(Op::RemoveDir, "remove directory", path)?;
        self.inner.remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        self.pass(Op::SyncDir, "sync directory", path).inspect_err(|_| self.note_lie(path))?;
        if self.lies(path) { Ok(()) } else { self.inner.sync_dir(path) }
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>> {
        self.pass(Op::List, "list", path)?;
        self.inner.list(path)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.pass(Op::Exists, "stat", path)?;
        self.inner.exists(path)
    }

    fn canonical(&self, path: &Path) -> Result<PathBuf> {
        self.pass(Op::Exists, "stat", path)?;
        self.inner.canonical(path)
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.inner.absolute(path)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.pass(Op::Lock, "lock", path)?;
        self.inner.lock(path)
    }

    fn lock_existing(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.pass(Op::Lock, "lock", path)?;
        self.inner.lock_existing(path)
    }

    fn free_bytes(&self, path: &Path) -> Result<u64> {
        self.pass(Op::FreeBytes, "statvfs", path)?;
        self.inner.free_bytes(path)
    }
}

#[derive(Debug)]
struct FaultyWriter {
    inner: Box<dyn WritableFile>,
    vfs: FaultyVfs,
    path: PathBuf,
    sync_failed: bool,
}

impl WritableFile for FaultyWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        match self.vfs.fault(Op::Append, &self.path) {
            None => self.inner.append(bytes),
            Some(fault) => {
                let applied = match fault {
                    Fault::ShortWrite => bytes.len() / 2,
                    Fault::Late => bytes.len(),
                    _ => 0,
                };
                if applied > 0 {
                    self.inner.append(&bytes[..applied])?;
                }
                Err(error(fault, "append", &self.path))
            }
        }
    }

    fn sync(&mut self) -> Result<()> {
        if let Some(fault) = self.vfs.fault(Op::Sync, &self.path) {
            self.sync_failed = true;
            self.vfs.note_lie(&self.path);
            return Err(error(fault, "sync", &self.path));
        }
        if self.sync_failed { Ok(()) } else { self.inner.sync() }
    }

    fn release(&mut self) {
        self.inner.release();
    }

    fn len_bytes(&self) -> u64 {
        self.inner.len_bytes()
    }

    fn reserved_bytes(&self) -> u64 {
        self.inner.reserved_bytes()
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.vfs.pass(Op::Finish, "finish", &self.path)?;
        self.inner.finish()
    }
}

#[derive(Debug)]
struct FaultyReader {
    inner: Arc<dyn ReadableFile>,
    vfs: FaultyVfs,
    path: PathBuf,
}

impl ReadableFile for FaultyReader {
    fn read_at(&self, offset_bytes: u64, buf: &mut [u8]) -> Result<usize> {
        let fault = self.vfs.fault(Op::Read, &self.path);
        let Some(Fault::FlipBit(bit)) = fault else {
            if let Some(fault) = fault {
                return Err(error(fault, "read", &self.path));
            }
            let read = self.inner.read_at(offset_bytes, buf)?;
            if self.vfs.is_lost(&self.path, offset_bytes, read) {
                return Err(error(Fault::Eio, "read", &self.path));
            }
            return Ok(read);
        };
        let read = self.inner.read_at(offset_bytes, buf)?;
        if read > 0 {
            let bit = bit % (read as u64 * 8);
            buf[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        Ok(read)
    }

    fn len_bytes(&self) -> Result<u64> {
        self.vfs.pass(Op::Len, "stat", &self.path)?;
        self.inner.len_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::strict::{StrictVfs, Survival};

    fn faulty() -> (StrictVfs, FaultyVfs) {
        let strict = StrictVfs::new();
        strict.create_dir_all(Path::new("/d")).unwrap();
        (strict.clone(), FaultyVfs::new(Arc::new(strict)))
    }

    fn is_eio(result: Result<()>) -> bool {
        matches!(result, Err(Error::Io { source, .. }) if source.raw_os_error() == Some(libc::EIO))
    }

    #[test]
    fn directories_that_cannot_be_made_durable_go_again() {
        let (strict, vfs) = faulty();
        vfs.inject(FaultRule::nth(2, &[Op::SyncDir], Fault::Eio));
        let made = crate::vfs::create_dir_durably(&vfs, Path::new("/d/x/y"));
        assert!(is_eio(made.map(drop)));
        let is_there = |path| strict.exists(Path::new(path)).unwrap();
        assert!(is_there("/d") && !is_there("/d/x"));
    }

    #[test]
    fn the_nth_matching_call_fails_once() {
        let (_, vfs) = faulty();
        vfs.inject(FaultRule::nth(2, &[Op::Append], Fault::Eio).on(|p| p.ends_with("hit")));
        let mut spared = vfs.create(Path::new("/d/spared")).unwrap();
        let mut hit = vfs.create(Path::new("/d/hit")).unwrap();
        for _ in 0..3 {
            spared.append(b"x").unwrap();
        }
        hit.append(b"1").unwrap();
        assert!(is_eio(hit.append(b"2")));
        hit.append(b"3").unwrap();
        assert_eq!(vfs.calls(Op::Append), 6);
        assert_eq!((vfs.calls(Op::Create), vfs.faults_fired()), (2, 1));
        assert_eq!(super::super::read_all(&vfs, Path::new("/d/hit"), 9).unwrap(), b"13");
    }

    #[test]
    fn from_then_on_lasts_until_healed() {
        let (_, vfs) = faulty();
        vfs.inject(FaultRule::nth(1, &Op::GROWS, Fault::NoSpace).from_then_on());
        for _ in 0..3 {
            let refused = vfs.create(Path::new("/d/f")).map(drop);
            assert!(matches!(refused, Err(Error::NoSpace { .. })));
        }
        vfs.heal();
        vfs.create(Path::new("/d/f")).unwrap();
    }

    #[test]
    fn a_short_write_leaves_half() {
        let (strict, vfs) = faulty();
        vfs.inject(FaultRule::nth(1, &[Op::Append], Fault::ShortWrite));
        let mut file = vfs.create(Path::new("/d/f")).unwrap();
        assert!(is_eio(file.append(b"12345")));
        assert_eq!(strict.read_file(Path::new("/d/f")).unwrap(), b"12");
    }

    #[test]
    fn what_fails_late_is_done() {
        let (strict, vfs) = faulty();
        vfs.inject(FaultRule::nth(1, &[Op::Append], Fault::Late));
        let mut file = vfs.create(Path::new("/d/a")).unwrap();
        assert!(is_eio(file.append(b"12345")));
        assert_eq!(strict.read_file(Path::new("/d/a")).unwrap(), b"12345");
        vfs.create(Path::new("/d/f")).unwrap().append(b"new").unwrap();
        vfs.inject(FaultRule::nth(1, &[Op::Rename], Fault::Late));
        assert!(is_eio(vfs.rename(Path::new("/d/f"), Path::new("/d/g"))));
        assert_eq!(strict.read_file(Path::new("/d/g")).unwrap(), b"new");
        assert!(!vfs.exists(Path::new("/d/f")).unwrap());
    }

    #[test]
    fn a_failed_sync_syncs_nothing_then_or_later() {
        let (strict, vfs) = faulty();
        vfs.inject(FaultRule::nth(1, &[Op::Sync], Fault::Eio));
        let mut file = vfs.create(Path::new("/d/f")).unwrap();
        for dir in ["/", "/d"] {
            vfs.sync_dir(Path::new(dir)).unwrap();
        }
        file.append(b"lost").unwrap();
        assert!(is_eio(file.sync()));
        file.sync().unwrap();
        let after = strict.crash(Survival::None, 0);
        assert_eq!(after.read_file(Path::new("/d/f")).unwrap(), b"");
    }

    #[test]
    fn reads_fail_or_lie() {
        let (strict, vfs) = faulty();
        strict.write_file(Path::new("/d/f"), &[0; 8]).unwrap();
        vfs.inject(FaultRule::nth(1, &[Op::Read], Fault::Eio));
        vfs.inject(FaultRule::nth(2, &[Op::Read], Fault::FlipBit(64 + 9)));
        let file = vfs.open(Path::new("/d/f"), Access::Random).unwrap();
        let mut buf = [0; 20];
        assert!(is_eio(file.read_at(0, &mut buf).map(drop)));
        assert_eq!(file.read_at(0, &mut buf).unwrap(), 8);
        assert_eq!(buf[..8], [0, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!(file.read_at(0, &mut buf).unwrap(), 8);
        assert_eq!(buf[..8], [0; 8]);
    }

    #[test]
    fn what_takes_in_a_lost_page_cannot_be_read() {
        let (strict, vfs) = faulty();
        let path = Path::new("/d/f");
        strict.write_file(path, &[1; 9_000]).unwrap();
        vfs.lose_page(path, 5_000);
        let file = vfs.open(path, Access::Random).unwrap();
        let mut buf = [0; 20];
        for (at, there) in [(0, true), (4_076, true), (4_077, false), (8_191, false), (8_192, true)]
        {
            assert_eq!(!is_eio(file.read_at(at, &mut buf).map(drop)), there, "{at}");
        }
        assert!(is_eio(file.read_at(0, &mut [0; 9_000]).map(drop)));
    }
}
