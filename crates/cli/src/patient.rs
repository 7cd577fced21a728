//! Reading what may have nothing to give for a long time, such as a pipe: whoever waits for it
//! still hears the user.

use crate::interrupt::Interrupt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// How long a read waits before it looks whether the user has had enough.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Opens a file for reading; a named pipe without waiting for who writes to it.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo()) {
        options.custom_flags(OFlags::NONBLOCK.bits() as i32);
    }
    options.open(path)
}

/// Reads once there is something, or the end.
///
/// # Errors
/// Of the system; also if the user wants to end: what was read so far may end in the middle of
/// something.
pub(crate) fn read(source: impl AsFd, buf: &mut [u8], interrupt: &Interrupt) -> io::Result<usize> {
    loop {
        if interrupt.asked() {
            return Err(io::Error::other("interrupted"));
        }
        if is_ready(&source, WAIT)? {
            match rustix::io::read(&source, &mut *buf) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                read => return Ok(read?),
            }
        }
    }
}

/// True if a read would not wait, as soon as that is so and no later than after this time.
pub(crate) fn is_ready(source: impl AsFd, wait: Timespec) -> io::Result<bool> {
    match poll(&mut [PollFd::new(&source, PollFlags::IN)], Some(&wait)) {
        Ok(0) | Err(Errno::INTR) => Ok(false),
        Ok(_) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
