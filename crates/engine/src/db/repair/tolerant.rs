//! A file system that reads around what the disk cannot read.
//!
//! Of a read of many pages the system gives nothing where one of them cannot be read. Here it is
//! made again page by page, and pages that stay unreadable are filled with bytes that no checksum
//! is right for, so that all of a repair meets them as damage. They are not zero: in a log, that
//! would be space that was never written to.
//!
//! Failures that are not the disk's, such as too many open files or a missing right, are no damage,
//! and whoever reads may take them for some: they are kept, and end the repair before it changes
//! anything.

use esker_base::sync::Mutex;
use esker_base::vfs::{Access, ReadableFile};
use esker_base::{Error, Result, Vfs};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What systems read from disks at the least.
const PAGE_BYTES: u64 = 4096;

/// Stands where nothing could be read.
const FILLING: u8 = 0xeb;

#[derive(Debug, Default)]
struct Met {
    /// Offsets of pages that could not be read.
    pages: BTreeMap<PathBuf, BTreeSet<u64>>,
    /// The first failure that was not the disk's, or came after it was too late.
    failure: Option<Error>,
    /// Files of which it is known what can be read.
    surveyed: BTreeSet<PathBuf>,
}

/// The tolerant file system. A clone shares what was met.
#[derive(Clone, Debug)]
pub(super) struct TolerantVfs {
    inner: Arc<dyn Vfs>,
    met: Arc<Mutex<Met>>,
}

impl TolerantVfs {
    pub(super) fn new(inner: Arc<dyn Vfs>) -> TolerantVfs {
        TolerantVfs { inner, met: Arc::default() }
    }

    /// Fails if something could not be read that the disk may well have, or that could be read a
    /// moment ago: another repair begins with what it can read then.
    ///
    /// # Errors
    /// What went wrong first.
    pub(super) fn check(&self) -> Result<()> {
        self.met.lock().failure.clone().map_or(Ok(()), Err)
    }

    /// From now on it is known what can be read of the file: a page that fails later than that
    /// ends the repair, which would miss what stands there and not know it.
    pub(super) fn survey(&self, path: &Path) {
        self.met.lock().surveyed.insert(path.to_path_buf());
    }

    /// True if some of the file could not be read.
    pub(super) fn has_met(&self, path: &Path) -> bool {
        self.met.lock().pages.contains_key(path)
    }

    /// A line for each stretch that could not be read.
    pub(super) fn notes(&self) -> Vec<String> {
        let met = self.met.lock();
        let mut notes = Vec::new();
        for (path, pages) in &met.pages {
            let mut stretches: Vec<Range<u64>> = Vec::new();
            for &page in pages {
                match stretches.last_mut() {
                    Some(last) if last.end == page => last.end = page + PAGE_BYTES,
                    _ => stretches.push(page..page + PAGE_BYTES),
                }
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            notes.extend(stretches.iter().map(|stretch| {
                let (at, bytes) = (stretch.start, stretch.end - stretch.start);
                format!("the disk cannot read {name} from offset {at} on, up to {bytes} bytes")
            }));
        }
        notes
    }

    fn note<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error @ Error::Io { .. }) = &result
            && !error.is_unreadable()
        {
            self.met.lock().failure.get_or_insert_with(|| error.clone());
        }
        result
    }
}

impl Vfs for TolerantVfs {
    esker_base::pass_on!(
        create,
        create_log,
        rename,
        link,
        remove,
        truncate,
        rewrite,
        punch_hole,
        create_dir_all,
        remove_dir,
        sync_dir,
        list,
        canonical,
        absolute,
        lock,
        lock_existing,
        free_bytes
    );

    fn open(&self, path: &Path, access: Access) -> Result<Arc<dyn ReadableFile>> {
        let inner = self.note(self.inner.open(path, access))?;
        Ok(Arc::new(TolerantReader { inner, path: path.to_path_buf(), vfs: self.clone() }))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.note(self.inner.exists(path))
    }
}

#[derive(Debug)]
struct TolerantReader {
    inner: Arc<dyn ReadableFile>,
    path: PathBuf,
    vfs: TolerantVfs,
}

impl TolerantReader {
    /// Reads page by page. What is behind the end of the file is not there, readable or not.
    fn read_pages(&self, offset_bytes: u64, buf: &mut [u8]) -> Result<usize> {
        let there = self.len_bytes()?.saturating_sub(offset_bytes).min(buf.len() as u64) as usize;
        let mut read = 0;
        while read < there {
            let at = offset_bytes + read as u64;
            let page = at / PAGE_BYTES * PAGE_BYTES;
            let end = there.min(read + (page + PAGE_BYTES - at) as usize);
            match self.inner.read_at(at, &mut buf[read..end]) {
                Ok(len) if len < end - read => return Ok(read + len),
                Ok(_) => {}
                Err(error) if error.is_unreadable() => {
                    buf[read..end].fill(FILLING);
                    let mut met = self.vfs.met.lock();
                    let is_new = met.pages.entry(self.path.clone()).or_default().insert(page);
                    if is_new && met.surveyed.contains(&self.path) {
                        met.failure.get_or_insert(error);
                    }
                }
                Err(error) => return self.vfs.note(Err(error)),
            }
            read = end;
        }
        Ok(read)
    }
}

impl ReadableFile for TolerantReader {
    fn read_at(&self, offset_bytes: u64, buf: &mut [u8]) -> Result<usize> {
        match self.inner.read_at(offset_bytes, buf) {
            Err(error) if error.is_unreadable() => self.read_pages(offset_bytes, buf),
            result => self.vfs.note(result),
        }
    }

    fn len_bytes(&self) -> Result<u64> {
        self.vfs.note(self.inner.len_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
    use esker_base::vfs::strict::StrictVfs;

    fn disk(len: usize) -> (FaultyVfs, TolerantVfs, Vec<u8>) {
        let (disk, path) = (StrictVfs::new(), Path::new("file"));
        let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        disk.write_file(path, &bytes).expect("write");
        let faulty = FaultyVfs::new(Arc::new(disk));
        let tolerant = TolerantVfs::new(Arc::new(faulty.clone()));
        (faulty, tolerant, bytes)
    }

    #[test]
    fn around_an_unreadable_page_all_is_read() {
        let (faulty, tolerant, bytes) = disk(20_000);
        faulty.lose_page(Path::new("file"), 5_000);
        let file = tolerant.open(Path::new("file"), Access::Sequential).expect("open");
        for (from, len) in [(0, 20_000), (100, 30_000), (4_500, 200), (6_000, 4_000), (9_000, 10)] {
            let mut buf = vec![0; len];
            let read = file.read_at(from as u64, &mut buf).expect("read");
            let wanted: Vec<u8> = (from..bytes.len().min(from + len))
                .map(|at| if (4_096..8_192).contains(&at) { FILLING } else { bytes[at] })
                .collect();
            assert_eq!(&buf[..read], wanted, "{from}, {len}");
        }
        assert!(tolerant.has_met(Path::new("file")) && tolerant.check().is_ok());
        let notes = tolerant.notes();
        assert_eq!(notes, ["the disk cannot read file from offset 4096 on, up to 4096 bytes"]);
    }

    #[test]
    fn what_fails_after_it_was_read_ends_it() {
        let (faulty, tolerant, _) = disk(20_000);
        let path = Path::new("file");
        let read = || {
            let file = tolerant.open(path, Access::Sequential).expect("open");
            file.read_at(0, &mut [0; 20_000]).expect("read");
        };
        faulty.lose_page(path, 0);
        read();
        tolerant.survey(path);
        read();
        tolerant.check().expect("it was known");
        faulty.lose_page(path, 5_000);
        read();
        tolerant.check().expect_err("it was not");
    }

    #[test]
    fn a_read_that_fails_once_loses_nothing() {
        let (faulty, tolerant, bytes) = disk(10_000);
        faulty.inject(FaultRule::nth(1, &[Op::Read], Fault::Eio));
        let file = tolerant.open(Path::new("file"), Access::Sequential).expect("open");
        let mut buf = vec![0; 10_000];
        assert_eq!(file.read_at(0, &mut buf).expect("read"), 10_000);
        assert!(buf == bytes && tolerant.notes().is_empty());
    }

    #[test]
    fn what_is_not_the_disks_fault_is_kept() {
        let (faulty, tolerant, _) = disk(10);
        faulty.inject(FaultRule::nth(1, &[Op::Open], Fault::TooManyFiles));
        let refused = tolerant.open(Path::new("file"), Access::Sequential);
        assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
        assert!(tolerant.check().is_err() && tolerant.notes().is_empty());
        tolerant.open(Path::new("other"), Access::Sequential).expect_err("is not there");
    }
}
