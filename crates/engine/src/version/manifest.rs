//! The manifest: a log of version edits, and CURRENT, which names the one in force.
//!
//! Format: docs/format/manifest.md. A manifest starts with the whole state and grows by an edit for
//! each step. CURRENT also says how long the manifest was when CURRENT was written: up to there
//! nothing may be missing.
//! Crash: a new manifest is durable before CURRENT names it, and the old one is removed after.

use super::edit::{Change, VersionEdit};
use super::store::TableStore;
use crate::log::{LogHeader, LogKind, Reader, TornTail, Writer};
use crate::names;
use esker_base::checksum::crc32c;
use esker_base::vfs::{read_all, write_temporary};
use esker_base::{Env, Error, Result};
use std::path::{Path, PathBuf};

/// CURRENT is one short line.
pub(crate) const CURRENT_BYTES_MAX: u64 = 256;

/// Far more than any edit has, and less than what a record can.
const EDIT_BYTES_MAX: usize = 1 << 30;

/// Reserved for a manifest that is being written.
const RESERVE_BYTES: u64 = 64 << 10;

/// What CURRENT says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Current {
    pub(crate) number: u64,
    pub(crate) salt: u64,
    /// The manifest is durable at least up to here.
    pub(crate) durable_bytes: u64,
}

impl Current {
    pub(super) fn encode(&self) -> String {
        let line = format!("MANIFEST-{:06} {:016x} {}", self.number, self.salt, self.durable_bytes);
        format!("{line} {:08x}\n", crc32c(line.as_bytes()))
    }

    pub(crate) fn decode(text: &str) -> Option<Current> {
        let (line, crc) = text.strip_suffix('\n')?.rsplit_once(' ')?;
        if crc.len() != 8 || u32::from_str_radix(crc, 16).ok()? != crc32c(line.as_bytes()) {
            return None;
        }
        let mut words = line.split(' ');
        let number = words.next()?.strip_prefix("MANIFEST-")?.parse().ok()?;
        let salt = u64::from_str_radix(words.next()?, 16).ok()?;
        let durable_bytes = words.next()?.parse().ok()?;
        words.next().is_none().then_some(Current { number, salt, durable_bytes })
    }

    /// Reads CURRENT.
    ///
    /// # Errors
    /// `NotFound`: there is none. `Corruption`: it does not say what it should.
    pub(crate) fn read(env: &Env, dir: &Path) -> Result<Current> {
        let path = names::current(dir);
        let bytes = read_all(env.vfs.as_ref(), &path, CURRENT_BYTES_MAX)?;
        std::str::from_utf8(&bytes)
            .ok()
            .and_then(Current::decode)
            .ok_or_else(|| Error::corruption(path, 0, "CURRENT is damaged; run repair"))
    }
}

/// A directory that a manifest is written into.
pub(super) trait Directory {
    fn env(&self) -> &Env;
    fn path(&self) -> &Path;
    /// Makes the names in it durable.
    fn sync(&self) -> Result<()>;
}

impl Directory for TableStore {
    fn env(&self) -> &Env {
        &self.env
    }

    fn path(&self) -> &Path {
        &self.dir
    }

    fn sync(&self) -> Result<()> {
        self.sync_dir()
    }
}

/// One that is no store's yet.
pub(super) struct NewDirectory<'a> {
    pub(super) env: &'a Env,
    pub(super) path: &'a Path,
}

impl Directory for NewDirectory<'_> {
    fn env(&self) -> &Env {
        self.env
    }

    fn path(&self) -> &Path {
        self.path
    }

    fn sync(&self) -> Result<()> {
        self.env.vfs.sync_dir(self.path)
    }
}

/// A manifest that is not in force, as far as the disk says.
pub(super) struct NotInForce {
    pub(super) error: Error,
    /// The manifest, if CURRENT may name it all the same, now or later.
    pub(super) left: Option<Box<Manifest>>,
}

/// The manifest that is being written.
#[derive(Debug)]
pub(super) struct Manifest {
    writer: Writer,
    current: Current,
    /// What was appended last when it was put in force again.
    next_number: u64,
}

impl Manifest {
    /// Writes a new manifest that starts with these edits and makes it the one in force.
    ///
    /// # Errors
    /// Of the disk. A manifest that CURRENT cannot name is removed again; one that stays may be in
    /// force, now or later.
    pub(super) fn create(
        dir: &dyn Directory,
        number: u64,
        state: &[VersionEdit],
    ) -> Result<Manifest> {
        Manifest::begin(dir, number, state).map_err(|not_in_force| not_in_force.error)
    }

    /// As [`Manifest::create`]. What stays is given back.
    pub(super) fn begin(
        dir: &dyn Directory,
        number: u64,
        state: &[VersionEdit],
    ) -> Result<Manifest, NotInForce> {
        let path = names::manifest(dir.path(), number);
        let gone = |error| {
            // There may be none, and whoever opens the database next removes what stays.
            drop(dir.env().vfs.remove(&path));
            NotInForce { error, left: None }
        };
        let mut manifest = Manifest::write(dir, &path, number, state).map_err(gone)?;
        let temporary = manifest.prepare_current(dir).map_err(gone)?;
        match dir.env().vfs.rename(&temporary, &names::current(dir.path())) {
            // It was not renamed. After any other error it may be, also if that shows only later.
            Err(error @ Error::NoSpace { .. }) => Err(gone(error)),
            renamed => manifest.end_begin(dir, renamed),
        }
    }

    /// Puts in force what was left. Numbers below `next_number` may have been given away.
    ///
    /// # Errors
    /// Of the disk. It stays in any case.
    pub(super) fn begin_again(
        mut self,
        dir: &dyn Directory,
        next_number: u64,
    ) -> Result<Manifest, NotInForce> {
        if next_number != self.next_number {
            let mut edit = VersionEdit::new();
            edit.push(Change::NextNumber(next_number));
            let appended = self.append(&edit).and_then(|()| self.writer.sync_and_go_on());
            // It may end in half an edit now.
            appended.map_err(|error| NotInForce { error, left: None })?;
            self.next_number = next_number;
        }
        let renamed = self
            .prepare_current(dir)
            .and_then(|temporary| dir.env().vfs.rename(&temporary, &names::current(dir.path())));
        self.end_begin(dir, renamed)
    }

    fn end_begin(self, dir: &dyn Directory, renamed: Result<()>) -> Result<Manifest, NotInForce> {
        match renamed.and_then(|()| dir.sync()) {
            Ok(()) => Ok(self),
            Err(error) => Err(NotInForce { error, left: Some(Box::new(self)) }),
        }
    }

    /// Writes one that is not in force.
    fn write(
        dir: &dyn Directory,
        path: &Path,
        number: u64,
        state: &[VersionEdit],
    ) -> Result<Manifest> {
        let env = dir.env();
        let salt = env.entropy.next_u64();
        let header = LogHeader { kind: LogKind::Manifest, number, salt, first_seq: 0 };
        let mut writer = Writer::create(env.vfs.as_ref(), path, header, RESERVE_BYTES)?;
        for edit in state {
            append_to(&mut writer, edit)?;
        }
        // One that takes no edits is not put in force.
        writer.sync_and_go_on()?;
        dir.sync()?;
        let current = Current { number, salt, durable_bytes: 0 };
        Ok(Manifest { writer, current, next_number: 0 })
    }

    /// Writes beside CURRENT what makes it name this manifest at its present length.
    fn prepare_current(&mut self, dir: &dyn Directory) -> Result<PathBuf> {
        self.current.durable_bytes = self.writer.durable_bytes();
        let line = self.current.encode();
        write_temporary(dir.env().vfs.as_ref(), &names::current(dir.path()), line.as_bytes())
    }

    /// Adds an edit. It is not in force before `sync`.
    ///
    /// # Errors
    /// `InvalidArgument` if it is too long to be read again; of the disk.
    pub(super) fn append(&mut self, edit: &VersionEdit) -> Result<()> {
        append_to(&mut self.writer, edit)
    }

    /// Makes all edits durable.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.writer.sync()
    }

    /// True if nothing more may be appended.
    pub(super) fn is_broken(&self) -> bool {
        self.writer.is_broken()
    }

    pub(super) fn number(&self) -> u64 {
        self.current.number
    }

    pub(super) fn len_bytes(&self) -> u64 {
        self.writer.len_bytes()
    }

    /// Ends the manifest. What was appended since CURRENT was written is not vouched for.
    pub(super) fn finish(self) -> Result<()> {
        self.writer.finish()
    }

    /// Ends the manifest: all of it becomes what CURRENT vouches for.
    pub(super) fn close(mut self, dir: &dyn Directory) -> Result<()> {
        let temporary = self.prepare_current(dir)?;
        dir.env().vfs.rename(&temporary, &names::current(dir.path()))?;
        dir.sync()?;
        self.writer.finish()
    }
}

fn append_to(writer: &mut Writer, edit: &VersionEdit) -> Result<()> {
    let encoded = edit.encode();
    if encoded.len() > EDIT_BYTES_MAX {
        return Err(Error::invalid(
            "an edit of the manifest would be longer than 1 GiB, with the first and last keys of so many tables: raise table_bytes_max",
        ));
    }
    writer.append(&encoded)
}

/// Reads the manifest that CURRENT names and hands each edit to `visit`.
pub(super) fn replay(
    env: &Env,
    dir: &Path,
    current: Current,
    mut visit: impl FnMut(VersionEdit) -> Result<(), &'static str>,
) -> Result<Option<TornTail>> {
    let path = names::manifest(dir, current.number);
    let mut reader = Reader::open(
        env.vfs.as_ref(),
        &path,
        LogKind::Manifest,
        current.number,
        current.durable_bytes,
    )?;
    if reader.header().is_none_or(|header| header.salt != current.salt) {
        return Err(Error::corruption(path, 0, "the manifest is not the one CURRENT names"));
    }
    while let Some((offset, payload)) = reader.next()? {
        VersionEdit::decode(payload)
            .and_then(&mut visit)
            .map_err(|what| Error::corruption(&path, offset, what))?;
    }
    Ok(reader.torn_tail())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_current_is_what_is_written_and_read() {
        let page = include_str!("../../../../docs/format/manifest.md");
        let text = page.split("```text current\n").nth(1).and_then(|rest| rest.split("```").next());
        let text = text.expect("the page has an example");
        let current = Current { number: 12, salt: 0xabc, durable_bytes: 4_096 };
        assert_eq!(Current::decode(text), Some(current));
        assert_eq!(current.encode(), text);
    }

    #[test]
    fn current_round_trips_and_no_changed_byte_passes() {
        let current = Current { number: 12, salt: 0xabc, durable_bytes: 4_096 };
        let text = current.encode();
        assert_eq!(Current::decode(&text), Some(current));
        for bit in 0..text.len() * 8 {
            let mut bytes = text.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let damaged = std::str::from_utf8(&bytes).ok().and_then(Current::decode);
            // Only the case of a hexadecimal digit of the checksum may change without harm.
            assert!(damaged.is_none_or(|d| d == current), "bit {bit}");
        }
    }
}
