//! A log file written through a shared mapping.
//!
//! Appending is a `memcpy` into the page cache: no system call, yet the bytes survive the death of
//! the process, because the dirty pages belong to the file and not to the process. `sync` is
//! `fdatasync`, which writes dirty mapped pages like any others.
//!
//! What the caller asks for is preallocated when the log is made, so that appending waits for no
//! allocation until that is used up; it is mapped in windows, one at a time. Beyond it the log
//! grows window by window, each twice as long as the one before up to a limit. Preallocation is
//! what makes this safe: where blocks are written in place, a page of an allocated one can always
//! be written, so a full disk shows as an error of `fallocate` and never as a SIGBUS. File systems
//! that may need space to write a block again get no mapping. The part of the last window that was
//! not reached reads as zeros after a crash; `finish` cuts it off.
//!
//! A page that the first record is copied into is not in the page cache yet, and the kernel makes
//! it in a fault of its own. Zeros written ahead of the end make many at once, for one system call.
//! They never reach further than what was appended since the last sync, so that a sync has at most
//! twice as much to write. The kernel is told not to read ahead of such faults: it would put ever
//! larger pieces into the cache, the first write to which waits until all of it is zeroed.
//!
//! A block that is preallocated and was never written costs the file system a change of its own
//! records at the first sync that reaches it. Where syncs follow each other closely, zeros are
//! written further ahead, many blocks at a time, for one such change.
//!
//! A sync takes the right to write to a mapped page away again, and the next append gets it back in
//! a fault. That costs more than a system call. Where syncs are close and have hardly an append
//! between them, appends are made by one.
//!
//! The right is taken away page by page, and each time whoever runs on the other processors is
//! interrupted. So where many pages were written to since the last sync, they are mapped anew
//! before the next one, and no more before the last (`release`): the rights to all of them go at
//! once.
//!
//! What makes a page cheap is that the page cache gets many at a time. So large appends are made by
//! system calls only if they are as large as what is written ahead for small ones, or while they
//! may be nearly all that the next sync has to write.

use super::WritableFile;
use crate::error::{Error, Result};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::fs::File;
use std::io::{ErrorKind, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// Window size limits. The lower one keeps small logs small, the upper one bounds the address
/// space.
const WINDOW_BYTES_MIN: u64 = 64 << 10;
const WINDOW_BYTES_MAX: u64 = 4 << 20;

/// Syncs that are no further apart than this are close.
const CLOSE_SYNCS_BYTES: u64 = 4 << 10;

/// Appends between close syncs that are made by system calls, and may be for them to go on so.
const CALLS_MAX: u32 = 2;

/// Appends of so many bytes and more are made by system calls.
const LARGE_BYTES_MIN: usize = 64 << 10;

/// So are those of so many, while no more than that was appended since the last sync.
const FIRST_LARGE_BYTES_MIN: usize = 4 << 10;
const FIRST_BYTES_MAX: u64 = 256 << 10;

/// Where so many pages were copied into since the last sync, they are mapped anew before the next.
const RENEWED_PAGES_MIN: u64 = 128;

/// Pieces that one system call takes.
const PIECES_MAX: usize = 64;

/// What one call reserves once a signal has ended a longer one.
const RESERVED_AGAIN_BYTES: u64 = 1 << 20;

/// Limits of what is written ahead at a time; at close syncs it doubles from the first to the
/// second.
const AHEAD_BYTES_MIN: u64 = 16 << 10;
const AHEAD_BYTES_MAX: u64 = 256 << 10;

const PAGE_BYTES: u64 = 4 << 10;
static ZEROS: [u8; AHEAD_BYTES_MAX as usize] = [0; AHEAD_BYTES_MAX as usize];

/// Ext4 and its elders, XFS, tmpfs: by the numbers in `linux/magic.h`.
const IN_PLACE: [u32; 3] = [0xef53, 0x5846_5342, 0x0102_1994];

/// The most that is reserved beyond the end.
const RESERVE_BYTES_MAX: u64 = 256 << 20;

#[derive(Debug)]
pub(super) struct MappedLog {
    file: File,
    path: PathBuf,
    /// Start of the mapped window.
    base: NonNull<u8>,
    /// 0 once it was let go of.
    window_bytes: u64,
    /// File offset of the window.
    window_offset: u64,
    /// Up to here the file is preallocated.
    reserved_bytes: u64,
    /// Bytes appended to the file so far.
    len_bytes: u64,
    /// How many they were at the last sync.
    synced_bytes: u64,
    /// How many of those since then are of large appends by system calls.
    called_bytes: u64,
    /// Up to here zeros were written ahead.
    ahead_end: u64,
    /// An append that ends beyond this writes zeros ahead first.
    ahead_due: u64,
    /// How many were written at the last close sync.
    ahead_bytes: u64,
    /// The last sync was close to the one before, with few appends between them.
    calls: bool,
    /// Appends since the last sync.
    appends: u32,
    /// What is written by a system call, in one piece. At most [`CLOSE_SYNCS_BYTES`].
    piece: Vec<u8>,
}

// SAFETY: the mapping is owned by this value alone and writes need `&mut self`.
unsafe impl Send for MappedLog {}
// SAFETY: through `&self` only plain integers are read.
unsafe impl Sync for MappedLog {}

impl MappedLog {
    /// Maps the first window, or gives the file back if it cannot be preallocated or mapped, or not
    /// safely.
    pub(super) fn new(file: File, path: &Path, reserve_bytes: u64) -> Result<MappedLog, File> {
        if !is_written_in_place(&file) {
            return Err(file);
        }
        let page = rustix::param::page_size() as u64;
        let window_bytes =
            reserve_bytes.clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX).next_multiple_of(page);
        let reserved_bytes = reserve_bytes.clamp(window_bytes, RESERVE_BYTES_MAX);
        let mapped = reserve(&file, 0, reserved_bytes).and_then(|()| map(&file, 0, window_bytes));
        match mapped {
            Ok(base) => Ok(MappedLog {
                file,
                path: path.to_path_buf(),
                base,
                window_bytes,
                window_offset: 0,
                reserved_bytes,
                len_bytes: 0,
                synced_bytes: 0,
                called_bytes: 0,
                ahead_end: 0,
                ahead_due: AHEAD_BYTES_MIN,
                ahead_bytes: 0,
                calls: false,
                appends: 0,
                piece: Vec::new(),
            }),
            Err(_) => {
                // Whatever was reserved before the failure must not stand as content.
                let _ = file.set_len(0);
                Err(file)
            }
        }
    }

    /// Maps the part of the file where the next append goes.
    fn next_window(&mut self) -> Result<()> {
        let page = rustix::param::page_size() as u64;
        // Large appends may have left the window behind.
        let offset = (self.window_offset + self.window_bytes).max(self.len_bytes / page * page);
        let window_bytes = (self.window_bytes * 2).min(WINDOW_BYTES_MAX);
        self.reserve_up_to(offset + window_bytes)?;
        let failed = |e: rustix::io::Errno| Error::io("preallocate", &self.path, e.into());
        let base = map(&self.file, offset, window_bytes).map_err(failed)?;
        self.unmap();
        self.base = base;
        self.window_bytes = window_bytes;
        self.window_offset = offset;
        Ok(())
    }

    fn reserve_up_to(&mut self, end: u64) -> Result<()> {
        if end > self.reserved_bytes {
            let failed = |e: rustix::io::Errno| Error::io("preallocate", &self.path, e.into());
            reserve(&self.file, self.reserved_bytes, end - self.reserved_bytes).map_err(failed)?;
            self.reserved_bytes = end;
        }
        Ok(())
    }

    /// Appends by system calls what fills pages anyway.
    fn append_large(&mut self, parts: &[&[u8]], bytes: usize) -> Result<()> {
        let end = self.len_bytes + bytes as u64;
        if end > self.reserved_bytes {
            // More than that at once, if there is so much.
            let more = end.max(self.reserved_bytes + WINDOW_BYTES_MAX);
            self.reserve_up_to(more).or_else(|_| self.reserve_up_to(end))?;
        }
        for pieces in parts.chunks(PIECES_MAX) {
            let mut slices = [IoSlice::new(&[]); PIECES_MAX];
            for (slice, piece) in slices.iter_mut().zip(pieces) {
                *slice = IoSlice::new(piece);
            }
            let mut slices = &mut slices[..pieces.len()];
            let mut left: usize = pieces.iter().map(|piece| piece.len()).sum();
            while left > 0 {
                let written = rustix::io::pwritev(&self.file, slices, self.len_bytes);
                let n = match written {
                    Ok(0) => {
                        return Err(Error::io("append", &self.path, ErrorKind::WriteZero.into()));
                    }
                    Ok(n) => n,
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(e) => return Err(Error::io("append", &self.path, e.into())),
                };
                self.len_bytes += n as u64;
                left -= n;
                IoSlice::advance_slices(&mut slices, n);
            }
        }
        self.called_bytes += bytes as u64;
        self.ahead_due = self.ahead_due.max(self.len_bytes + AHEAD_BYTES_MIN);
        Ok(())
    }

    /// Writes zeros behind the end, as many as were appended since the last sync, in one piece.
    ///
    /// # Errors
    /// The file system has failed: copies to where nothing could be written would end the process.
    #[cold]
    fn write_ahead(&mut self) -> Result<()> {
        // After a failure of zeros ahead of a sync nothing was appended since that.
        let bytes = (self.len_bytes - self.synced_bytes).clamp(PAGE_BYTES, AHEAD_BYTES_MAX);
        let written = self.write_zeros(bytes, AHEAD_BYTES_MAX);
        written.map_err(|e| Error::io("append", &self.path, e))?;
        self.ahead_due = self.ahead_end.max(self.len_bytes + AHEAD_BYTES_MIN);
        Ok(())
    }

    /// Writes zeros behind the end if the last ones are used up and this sync is close to the last.
    ///
    /// Page by page: longer writes make the page cache keep them as one piece, and each record
    /// that is copied into it would make all of it dirty.
    fn write_ahead_of_syncs(&mut self) {
        let close =
            self.synced_bytes > 0 && self.len_bytes - self.synced_bytes <= CLOSE_SYNCS_BYTES;
        self.synced_bytes = self.len_bytes;
        self.calls = close && self.appends <= CALLS_MAX;
        self.appends = 0;
        self.called_bytes = 0;
        if close && self.len_bytes >= self.ahead_end {
            self.ahead_bytes = (2 * self.ahead_bytes).clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX);
            if self.write_zeros(self.ahead_bytes, PAGE_BYTES).is_err() {
                // The sync says whether it matters. The next append tries again.
                self.ahead_due = self.len_bytes;
                return;
            }
        }
        self.ahead_due = self.ahead_end.max(self.len_bytes + AHEAD_BYTES_MIN);
    }

    /// Writes about so many zeros behind what is written, whole pages of what is reserved.
    fn write_zeros(&mut self, bytes: u64, piece_bytes: u64) -> std::io::Result<()> {
        let mut at = self.len_bytes.max(self.ahead_end).next_multiple_of(PAGE_BYTES);
        let end = (at + bytes).min(self.reserved_bytes) / PAGE_BYTES * PAGE_BYTES;
        while at < end {
            let piece = &ZEROS[..piece_bytes.min(end - at) as usize];
            self.file.write_all_at(piece, at)?;
            at += piece.len() as u64;
            self.ahead_end = at;
        }
        Ok(())
    }

    /// True if so many bytes are better written by a system call than copied: their page could not
    /// be written to without a fault, and they lie in the window, so that nothing is to be
    /// reserved. Or there is no window any more.
    #[inline]
    fn is_called_for(&self, bytes: u64) -> bool {
        self.is_released()
            || self.calls
                && self.appends <= CALLS_MAX
                && self.len_bytes - self.synced_bytes + bytes <= CLOSE_SYNCS_BYTES
                && self.len_bytes - self.window_offset + bytes <= self.window_bytes
    }

    /// True if so many bytes, at least [`FIRST_LARGE_BYTES_MIN`], are better written by a system
    /// call.
    fn is_large(&self, bytes: usize) -> bool {
        bytes >= LARGE_BYTES_MIN
            || self.len_bytes - self.synced_bytes <= FIRST_BYTES_MAX
            || self.is_released()
    }

    /// Maps the window anew if a sync would take the right to many of its pages away one by one.
    ///
    /// If that fails, the sync only takes longer.
    fn renew_window(&mut self) {
        let in_window = self.len_bytes.saturating_sub(self.window_offset);
        let copied = self.len_bytes - self.synced_bytes - self.called_bytes;
        if in_window.min(copied) / PAGE_BYTES >= RENEWED_PAGES_MIN
            && let Ok(base) = map(&self.file, self.window_offset, self.window_bytes)
        {
            self.unmap();
            self.base = base;
        }
    }

    #[inline]
    fn is_released(&self) -> bool {
        self.window_bytes == 0
    }

    /// Appends by a system call, by which the bytes get to where the mapping shows them.
    fn append_called(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.piece.clear();
        parts.iter().for_each(|part| self.piece.extend_from_slice(part));
        let written = self.file.write_all_at(&self.piece, self.len_bytes);
        written.map_err(|e| Error::io("append", &self.path, e))?;
        self.len_bytes += self.piece.len() as u64;
        Ok(())
    }

    fn unmap(&mut self) {
        if self.is_released() {
            return;
        }
        // SAFETY: `base` and `window_bytes` describe a live mapping made by `map`, which
        // nothing else refers to; it is replaced or dropped right after.
        let unmapped =
            unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.window_bytes as usize) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping: {unmapped:?}");
    }
}

/// True if the file system is known to need no space to write an allocated block again.
///
/// Btrfs, bcachefs, ZFS and others write it elsewhere. What overlays lie on they do not say.
fn is_written_in_place(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|stat| IN_PLACE.contains(&(stat.f_type as u32)))
}

fn reserve(file: &File, offset: u64, len: u64) -> rustix::io::Result<()> {
    let call = |at, len| rustix::fs::fallocate(file, FallocateFlags::empty(), at, len);
    reserve_by(call, offset, len)
}

/// Reserves a range by a call that a signal may end. On tmpfs that gives back what the call had
/// reserved, so that a long one would never get through beside a clock that ticks: short ones do,
/// one behind the other.
fn reserve_by(
    call: impl Fn(u64, u64) -> rustix::io::Result<()>,
    offset: u64,
    len: u64,
) -> rustix::io::Result<()> {
    match call(offset, len) {
        Err(Errno::INTR) => {}
        ended => return ended,
    }
    let end = offset + len;
    let mut at = offset;
    while at < end {
        let piece = RESERVED_AGAIN_BYTES.min(end - at);
        rustix::io::retry_on_intr(|| call(at, piece))?;
        at += piece;
    }
    Ok(())
}

/// Maps a range of the file that is reserved.
fn map(file: &File, offset: u64, len: u64) -> rustix::io::Result<NonNull<u8>> {
    // SAFETY: a fresh shared mapping at an address the kernel chooses; the range of the file is
    // allocated, so no access to it can fault for want of space.
    let base = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            len as usize,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            file,
            offset,
        )?
    };
    // SAFETY: the mapping just made. It changes when pages are read, not what is in them.
    let _ = unsafe { rustix::mm::madvise(base, len as usize, Advice::Random) };
    Ok(NonNull::new(base.cast()).expect("the kernel maps nothing at address 0"))
}

impl WritableFile for MappedLog {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.append_parts(&[bytes])
    }

    #[inline]
    fn append_parts(&mut self, parts: &[&[u8]]) -> Result<()> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        self.appends = self.appends.saturating_add(1);
        if bytes >= FIRST_LARGE_BYTES_MIN && self.is_large(bytes) {
            return self.append_large(parts, bytes);
        }
        if self.len_bytes + bytes as u64 > self.ahead_due {
            self.write_ahead()?;
        }
        if self.is_called_for(bytes as u64) {
            return self.append_called(parts);
        }
        for &part in parts {
            let mut bytes = part;
            while !bytes.is_empty() {
                let used = self.len_bytes - self.window_offset;
                let room = self.window_bytes.saturating_sub(used) as usize;
                if room == 0 {
                    self.next_window()?;
                    continue;
                }
                let n = bytes.len().min(room);
                // SAFETY: `used + n <= window_bytes`, so the target lies in the live mapping, and
                // `bytes` cannot overlap it: no reference into the mapping is ever handed out.
                unsafe {
                    let to = self.base.as_ptr().add(used as usize);
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, n);
                }
                self.len_bytes += n as u64;
                bytes = &bytes[n..];
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        if !self.is_released() {
            self.renew_window();
            self.write_ahead_of_syncs();
        }
        self.file.sync_data().map_err(|e| Error::io("sync", &self.path, e))
    }

    fn release(&mut self) {
        self.unmap();
        self.base = NonNull::dangling();
        self.window_bytes = 0;
        // Nothing is written ahead of system calls.
        self.ahead_due = u64::MAX;
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.file.set_len(self.len_bytes).map_err(|e| Error::io("truncate", &self.path, e))
    }
}

impl Drop for MappedLog {
    fn drop(&mut self) {
        self.unmap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    fn new_log(name: &str, reserve_bytes: u64) -> (MappedLog, PathBuf) {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let log = MappedLog::new(file.expect("a new file"), &path, reserve_bytes);
        (log.expect("mapped"), path)
    }

    /// Windows of the file that are mapped now.
    fn windows(path: &Path) -> usize {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("it tells what is mapped");
        let name = path.to_str().expect("a name of letters");
        maps.lines().filter(|line| line.contains(name)).count()
    }

    #[test]
    fn there_is_no_mapping_where_blocks_may_be_written_elsewhere() {
        let path = Path::new("/proc/self/comm");
        let file = File::options().read(true).write(true).open(path).expect("it is there");
        assert!(!is_written_in_place(&file), "nobody knows what it would do");
        assert!(MappedLog::new(file, path, 1 << 20).is_err());
        let btrfs = 0x9123_683e;
        assert!(!IN_PLACE.contains(&btrfs));
    }

    #[test]
    fn what_is_reserved_is_reserved_beside_a_clock_that_ticks() {
        let (from, bytes) = (3, (5 << 20) + 7);
        let (reserved, ticks) = (RefCell::new(Vec::new()), Cell::new(0));
        let call = |at, len| {
            ticks.set(ticks.get() + 1);
            // The first of all, and then every third.
            if len > RESERVED_AGAIN_BYTES || ticks.get() % 3 == 0 {
                return Err(Errno::INTR);
            }
            reserved.borrow_mut().push((at, len));
            Ok(())
        };
        reserve_by(call, from, bytes).expect("reserved");
        let mut end = from;
        for (at, len) in reserved.take() {
            assert_eq!(at, end, "one behind the other");
            end = at + len;
        }
        assert_eq!(end, from + bytes);
        assert_eq!(reserve_by(|_, _| Err(Errno::NOSPC), 0, bytes), Err(Errno::NOSPC));
    }

    #[test]
    fn a_log_that_was_let_go_of_takes_more_and_is_not_mapped() {
        for reserve_bytes in [0, 1 << 20] {
            let (mut log, path) =
                new_log(&format!("esker-released-{reserve_bytes}"), reserve_bytes);
            let mut expected = Vec::new();
            let mut append = |log: &mut MappedLog, parts: &[&[u8]]| {
                log.append_parts(parts).expect("append");
                expected.extend(parts.concat());
                assert_eq!(log.len_bytes(), expected.len() as u64);
            };
            append(&mut log, &[&[1; 3_000], &[2; 40]]);
            assert_eq!(windows(&path), 1);
            log.release();
            assert_eq!(windows(&path), 0);
            log.sync().expect("sync");
            // Small, large, beyond what is reserved, and small there.
            for bytes in [5, 90_000, 17, 2 << 20, 4_000, 1] {
                append(&mut log, &[&vec![3; bytes], b"and"]);
                log.sync().expect("sync");
            }
            log.release();
            append(&mut log, &[b"last"]);
            assert_eq!(windows(&path), 0);
            Box::new(log).finish().expect("finish");
            let content = std::fs::read(&path).expect("it is there");
            std::fs::remove_file(&path).expect("and goes");
            assert!(content == expected, "{} bytes of {}", content.len(), expected.len());
        }
    }

    /// What a log does whose file cannot be written to by system calls.
    fn broken<T>(log: &mut MappedLog, path: &Path, then: impl FnOnce(&mut MappedLog) -> T) -> T {
        let mut broken = File::open(path).expect("it is there");
        std::mem::swap(&mut log.file, &mut broken);
        let result = then(log);
        std::mem::swap(&mut log.file, &mut broken);
        result
    }

    /// The same where nothing is due to be written ahead, which would fail first.
    fn only_mapped(log: &mut MappedLog, path: &Path, then: impl FnOnce(&mut MappedLog)) {
        let due = std::mem::replace(&mut log.ahead_due, u64::MAX);
        broken(log, path, then);
        log.ahead_due = due;
    }

    #[test]
    fn where_nothing_can_be_written_ahead_nothing_is_copied() {
        let (mut log, path) = new_log("esker-not-ahead", 1 << 20);
        let until_it_fails = |log: &mut MappedLog| {
            let appends = (0..).take_while(|_| log.append(&[1; 64]).is_ok()).count() as u64;
            assert!(log.append(&[1; 64]).is_err(), "nor later");
            appends * 64
        };
        let (_, before) = (log.append(&[0; 64]), log.len_bytes());
        let copied = broken(&mut log, &path, until_it_fails);
        assert!(copied <= AHEAD_BYTES_MIN && log.len_bytes() == before + copied, "{copied}");
        // After close syncs zeros reach further. The next ones fail in the sync, which goes on, and
        // then in the append.
        let appends = CALLS_MAX + 1;
        let close = |log: &mut MappedLog| -> Result<()> {
            (0..appends).try_for_each(|_| log.append(&[2; 64]))?;
            log.sync()
        };
        (0..20).try_for_each(|_| close(&mut log)).expect("append and sync");
        let ahead = log.ahead_end - log.len_bytes();
        let rounds =
            broken(&mut log, &path, |log| (0..).take_while(|_| close(log).is_ok()).count());
        let copied = rounds as u64 * u64::from(appends) * 64;
        assert!(copied <= ahead + u64::from(appends) * 64, "{copied} with {ahead} ahead");
        log.append(&[3; 64]).expect("it can be written to again");
        std::fs::remove_file(&path).expect("it goes");
    }

    #[test]
    fn large_appends_are_made_by_system_calls_after_a_sync_and_if_they_are_very_large() {
        let (mut log, path) = new_log("esker-large-appends", 1 << 20);
        let called = |log: &mut MappedLog, bytes: usize| {
            let mut called = false;
            only_mapped(log, &path, |log| called = log.append(&vec![1; bytes]).is_err());
            called
        };
        for _ in 0..2 {
            assert!(!called(&mut log, FIRST_LARGE_BYTES_MIN - 1), "a small one");
            assert!(called(&mut log, FIRST_LARGE_BYTES_MIN), "first after a sync");
            log.append(&vec![2; FIRST_BYTES_MAX as usize]).expect("append");
            assert!(!called(&mut log, FIRST_LARGE_BYTES_MIN), "one among many");
            assert!(!called(&mut log, LARGE_BYTES_MIN - 1), "one among many");
            assert!(called(&mut log, LARGE_BYTES_MIN), "as large as what is written ahead");
            log.sync().expect("sync");
        }
        std::fs::remove_file(&path).expect("it goes");
    }

    #[test]
    fn a_window_is_mapped_anew_before_a_sync_of_many_pages() {
        let (mut log, path) = new_log("esker-renewed", 8 << 20);
        let mut expected = Vec::new();
        let mut renewed = |log: &mut MappedLog, bytes: u64, at_once: u64, fill: u8| {
            for _ in 0..bytes / at_once {
                log.append(&vec![fill; at_once as usize]).expect("append");
            }
            expected.resize(expected.len() + bytes as usize, fill);
            let base = log.base;
            log.sync().expect("sync");
            assert_eq!(windows(&path), 1);
            let content = std::fs::read(&path).expect("it is there");
            assert!(content[..expected.len()] == expected, "after {} bytes", expected.len());
            log.base != base
        };
        let many = RENEWED_PAGES_MIN * PAGE_BYTES;
        assert!(!renewed(&mut log, many - 64, 64, 1));
        assert!(renewed(&mut log, many, 64, 2));
        assert!(!renewed(&mut log, 64, 64, 3));
        assert!(renewed(&mut log, 2 * many, 64, 4));
        // What the file refuses to map stays mapped as it was.
        only_mapped(&mut log, &path, |log| assert!(!renewed(log, 2 * many, 64, 5)));
        assert!(renewed(&mut log, many, 64, 6));
        assert!(!renewed(&mut log, many, many, 7), "none of them was written to in the mapping");
        assert!(
            !renewed(&mut log, WINDOW_BYTES_MAX + 64, 64, 8),
            "nearly all lie before the window"
        );
        std::fs::remove_file(&path).expect("it goes");
    }

    #[test]
    fn appends_of_all_sizes_follow_each_other_with_syncs_between_them() {
        for reserve_bytes in [0, 300 << 10, 64 << 20] {
            let (mut log, path) = new_log(&format!("esker-mixed-{reserve_bytes}"), reserve_bytes);
            let mut expected = Vec::new();
            let mut state = reserve_bytes + 1;
            let mut next = move |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % below
            };
            while expected.len() < 24 << 20 {
                let longest = [100, 5_000, 20_000, 300_000][next(4) as usize];
                let parts: Vec<_> = (0..1 + next(3))
                    .map(|_| vec![next(256) as u8; next(longest) as usize])
                    .collect();
                let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
                log.append_parts(&parts).expect("append");
                expected.extend(parts.concat());
                if next(20) == 0 {
                    log.sync().expect("sync");
                }
            }
            Box::new(log).finish().expect("finish");
            let content = std::fs::read(&path).expect("it is there");
            std::fs::remove_file(&path).expect("and goes");
            assert!(content == expected, "{} bytes of {}", content.len(), expected.len());
        }
    }

    #[test]
    fn an_append_by_a_system_call_that_fails_appends_nothing() {
        let (mut log, path) = new_log("esker-mapped-log", 1 << 20);
        let read_only = || File::open(&path).expect("it is there");
        let (content, mut broken) = (read_only(), read_only());
        std::fs::remove_file(&path).expect("only open from here on");
        for record in [b"first-", b"second", b"third-"] {
            log.append(record).expect("append");
            log.sync().expect("sync");
        }
        std::mem::swap(&mut log.file, &mut broken);
        let refused = log.append_parts(&[b"lo", b"st"]).expect_err("it cannot be written to");
        assert!(matches!(&refused, Error::Io { op: "append", .. }), "{refused}");
        assert!(refused.to_string().contains("esker-mapped-log"), "{refused}");
        assert_eq!(log.len_bytes(), 18);
        std::mem::swap(&mut log.file, &mut broken);
        log.append_parts(&[b"la", b"st"]).expect("append");
        let mut bytes = [0; 22];
        content.read_exact_at(&mut bytes, 0).expect("all of it");
        assert_eq!(&bytes, b"first-secondthird-last");
    }
}
