//! A file system as slow as a chosen disk, around any other.
//!
//! The model is one disk arm: every read and append takes its bytes' share of the bandwidth, and
//! one more seek if it does not go on where the last one on the disk ended; every sync takes a
//! seek, and so does the cutting of a file and the sync of a directory. Other operations on names
//! are free. All files share the one disk: an operation begins when those before it are done, and
//! the call returns when its own time is over by the injected clock; but appends to logs, which
//! take the disk's time like others, return at once.
//!
//! Threads: a reservation under a lock gives each call its slot; waiting is on a condition
//! variable, so that the lock is free meanwhile.

use super::{Access, ReadableFile, Vfs, WritableFile};
use crate::env::Clock;
use crate::error::Result;
use crate::sync::{Condvar, Mutex};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest single wait: a simulated clock may move faster than real time.
const WAIT_NS_MAX: u64 = 1_000_000;

/// Who waits wakes up a little late. So much of what the disk then seems to have been idle does not
/// count.
const LATE_NS_MAX: u64 = 200_000;

/// How fast a disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskModel {
    /// Bytes read or written in a second; not 0.
    pub bytes_per_second: u64,
    /// Nanoseconds to move to another place.
    pub seek_ns: u64,
}

#[derive(Debug, Default)]
struct Bucket {
    /// When the disk is done with all it was given.
    free_at_ns: u64,
    /// File and offset at which the last transfer ended.
    head: (u64, u64),
}

#[derive(Debug)]
struct Disk {
    model: DiskModel,
    clock: Arc<dyn Clock>,
    bucket: Mutex<Bucket>,
    waiting: Condvar,
    next_file: AtomicU64,
}

impl Disk {
    fn new_file(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    /// Waits for a transfer of `bytes` at `offset` of `file`; with `None`, for a seek alone.
    fn spend(&self, file: u64, transfer: Option<(u64, u64)>) {
        let mut bucket = self.bucket.lock();
        let done_ns = self.reserve(&mut bucket, file, transfer);
        loop {
            let left_ns = done_ns.saturating_sub(self.clock.now_ns());
            if left_ns == 0 {
                return;
            }
            // Nobody notifies: the time out is what is waited for.
            self.waiting.wait_for(&mut bucket, Duration::from_nanos(left_ns.min(WAIT_NS_MAX)));
        }
    }

    /// Takes the disk's time after what it was given before. Returns when it is over.
    fn reserve(&self, bucket: &mut Bucket, file: u64, transfer: Option<(u64, u64)>) -> u64 {
        let cost_ns = match transfer {
            None => self.model.seek_ns,
            Some((offset, bytes)) => {
                let seek = if bucket.head == (file, offset) { 0 } else { self.model.seek_ns };
                bucket.head = (file, offset + bytes);
                let ns =
                    u128::from(bytes) * 1_000_000_000 / u128::from(self.model.bytes_per_second);
                seek + ns as u64
            }
        };
        let start_ns = bucket.free_at_ns.max(self.clock.now_ns().saturating_sub(LATE_NS_MAX));
        bucket.free_at_ns = start_ns + cost_ns;
        bucket.free_at_ns
    }
}

/// The slow file system. A clone shares the disk.
#[derive(Clone, Debug)]
pub struct ThrottledVfs {
    inner: Arc<dyn Vfs>,
    disk: Arc<Disk>,
}

impl ThrottledVfs {
    /// Slows `inner` down to `model`, by `clock`.
    pub fn new(inner: Arc<dyn Vfs>, clock: Arc<dyn Clock>, model: DiskModel) -> ThrottledVfs {
        assert!(model.bytes_per_second > 0, "a disk without bandwidth never finishes");
        let disk = Disk {
            model,
            clock,
            bucket: Mutex::new(Bucket::default()),
            waiting: Condvar::new(),
            next_file: AtomicU64::new(1),
        };
        ThrottledVfs { inner, disk: Arc::new(disk) }
    }

    fn writer(&self, inner: Box<dyn WritableFile>, is_log: bool) -> Box<dyn WritableFile> {
        let (disk, file) = (self.disk.clone(), self.disk.new_file());
        Box::new(ThrottledWriter { inner, disk, file, is_log })
    }
}

impl Vfs for ThrottledVfs {
    crate::pass_on!(
        rename,
        link,
        remove,
        punch_hole,
        create_dir_all,
        remove_dir,
        list,
        exists,
        canonical,
        absolute,
        lock,
        lock_existing,
        free_bytes
    );

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        Ok(self.writer(self.inner.create(path)?, false))
    }

    fn create_log(&self, path: &Path, reserve_bytes: u64) -> Result<Box<dyn WritableFile>> {
        Ok(self.writer(self.inner.create_log(path, reserve_bytes)?, true))
    }

    fn open(&self, path: &Path, access: Access) -> Result<Arc<dyn ReadableFile>> {
        let inner = self.inner.open(path, access)?;
        let file = self.disk.new_file();
        Ok(Arc::new(ThrottledReader { inner, disk: self.disk.clone(), file }))
    }

    fn truncate(&self, path: &Path, len_bytes: u64) -> Result<()> {
        self.disk.spend(0, None);
        self.inner.truncate(path, len_bytes)
    }

    fn rewrite(&self, path: &Path, part: Range<u64>) -> Result<()> {
        let bytes = 2 * part.end.saturating_sub(part.start);
        self.disk.spend(self.disk.new_file(), Some((part.start, bytes)));
        self.inner.rewrite(path, part)
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        self.disk.spend(0, None);
        self.inner.sync_dir(path)
    }
}

#[derive(Debug)]
struct ThrottledWriter {
    inner: Box<dyn WritableFile>,
    disk: Arc<Disk>,
    file: u64,
    is_log: bool,
}

impl WritableFile for ThrottledWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let transfer = Some((self.inner.len_bytes(), bytes.len() as u64));
        if self.is_log {
            self.disk.reserve(&mut self.disk.bucket.lock(), self.file, transfer);
        } else {
            self.disk.spend(self.file, transfer);
        }
        self.inner.append(bytes)
    }

    fn sync(&mut self) -> Result<()> {
        self.disk.spend(self.file, None);
        self.inner.sync()
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
        self.inner.finish()
    }
}

#[derive(Debug)]
struct ThrottledReader {
    inner: Arc<dyn ReadableFile>,
    disk: Arc<Disk>,
    file: u64,
}

impl ReadableFile for ThrottledReader {
    fn read_at(&self, offset_bytes: u64, buf: &mut [u8]) -> Result<usize> {
        self.disk.spend(self.file, Some((offset_bytes, buf.len() as u64)));
        self.inner.read_at(offset_bytes, buf)
    }

    fn len_bytes(&self) -> Result<u64> {
        self.inner.len_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{ManualClock, SystemClock};
    use crate::vfs::strict::StrictVfs;

    /// A clock on which every look costs a microsecond, so that waiting ends without real time.
    #[derive(Debug, Default)]
    struct TickingClock(ManualClock);

    impl Clock for TickingClock {
        fn now_ns(&self) -> u64 {
            self.0.advance_ns(1_000);
            self.0.now_ns()
        }

        fn unix_seconds(&self) -> u64 {
            self.0.unix_seconds()
        }
    }

    #[test]
    fn time_is_bandwidth_plus_seeks() {
        let clock = Arc::new(TickingClock::default());
        let model = DiskModel { bytes_per_second: 1_000_000_000, seek_ns: 20_000 };
        let vfs = ThrottledVfs::new(Arc::new(StrictVfs::new()), clock.clone(), model);
        let mut file = vfs.create(Path::new("/f")).unwrap();
        // A seek, then two transfers that follow on.
        for _ in 0..2 {
            file.append(&[0; 10_000]).unwrap();
        }
        let written = clock.0.now_ns();
        assert!((40_000..60_000).contains(&written), "{written} ns");
        let reader = vfs.open(Path::new("/f"), Access::Random).unwrap();
        let mut buf = [0; 1_000];
        for offset in [5_000, 0, 1_000] {
            reader.read_at(offset, &mut buf).unwrap();
        }
        let read = clock.0.now_ns() - written;
        assert!((43_000..70_000).contains(&read), "{read} ns");
    }

    #[test]
    fn a_log_is_waited_for_when_it_is_synced() {
        let clock = Arc::new(TickingClock::default());
        let model = DiskModel { bytes_per_second: 1_000_000_000, seek_ns: 0 };
        let vfs = ThrottledVfs::new(Arc::new(StrictVfs::new()), clock.clone(), model);
        let mut log = vfs.create_log(Path::new("/l"), 0).unwrap();
        for _ in 0..10 {
            log.append(&[0; 100_000]).unwrap();
        }
        let appended = clock.0.now_ns();
        assert!(appended < 50_000, "{appended} ns");
        log.sync().unwrap();
        let synced = clock.0.now_ns();
        assert!((1_000_000..1_100_000).contains(&synced), "{synced} ns");
    }

    #[test]
    fn rewriting_reads_and_writes() {
        let clock = Arc::new(TickingClock::default());
        let model = DiskModel { bytes_per_second: 1_000_000_000, seek_ns: 0 };
        let vfs = ThrottledVfs::new(Arc::new(StrictVfs::new()), clock.clone(), model);
        let path = Path::new("/f");
        vfs.create(path).unwrap().append(&[0; 1_000_000]).unwrap();
        let written = clock.0.now_ns();
        vfs.rewrite(path, 0..1_000_000).unwrap();
        let took = clock.0.now_ns() - written;
        assert!((2_000_000..2_100_000).contains(&took), "{took} ns");
    }

    #[test]
    fn real_time_passes() {
        let clock = Arc::new(SystemClock::new());
        let model = DiskModel { bytes_per_second: 1_000_000, seek_ns: 0 };
        let vfs = ThrottledVfs::new(Arc::new(StrictVfs::new()), clock.clone(), model);
        vfs.create(Path::new("/f")).unwrap().append(&[0; 5_000]).unwrap();
        assert!(clock.now_ns() >= 5_000_000);
    }
}
