//! A table: data blocks, an index of them, and a footer that says where the index is.

use super::block::{self, Block, TRAILER_BYTES};
use super::{damaged, split_key};
use crate::failure::{Failure, Result};
use esker::base::coding::take_varint;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const FOOTER_BYTES: u64 = 48;
const MAGIC: [u8; 8] = 0xdb47_7524_8b80_fb57_u64.to_le_bytes();

/// Walks the records of a table from first to last.
#[derive(Debug)]
pub(super) struct Table {
    path: PathBuf,
    file: File,
    file_bytes: u64,
    index: Block,
    data: Block,
    /// Where the block in `data` begins.
    data_offset: u64,
    /// Internal key of the current record.
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// Bytes of blocks read so far.
    pub(super) read_bytes: u64,
}

/// Where a block is.
struct Handle {
    offset: u64,
    length: u64,
}

impl Table {
    /// Opens a table; it stands before the first record.
    pub(super) fn open(path: &Path) -> Result<Table> {
        let fail = |error: std::io::Error| Failure::io("read", path, &error);
        let file = File::open(path).map_err(fail)?;
        let file_bytes = file.metadata().map_err(fail)?.len();
        let at = file_bytes
            .checked_sub(FOOTER_BYTES)
            .ok_or_else(|| damaged(path, 0, "the table is too short"))?;
        let mut footer = [0; FOOTER_BYTES as usize];
        file.read_exact_at(&mut footer, at).map_err(fail)?;
        if !footer.ends_with(&MAGIC) {
            return Err(damaged(path, at, "the table does not end with its mark"));
        }
        let mut input = &footer[..];
        let handles = (take_handle(&mut input), take_handle(&mut input));
        let (Some(_metaindex), Some(index)) = handles else {
            return Err(damaged(path, at, "the footer is malformed"));
        };
        let mut table = Table {
            path: path.to_path_buf(),
            file,
            file_bytes,
            index: Block::default(),
            data: Block::default(),
            data_offset: 0,
            key: Vec::new(),
            value: Vec::new(),
            read_bytes: 0,
        };
        table.index = table.read_block(&index)?;
        Ok(table)
    }

    fn read_block(&mut self, handle: &Handle) -> Result<Block> {
        let fail = |what: &str| damaged(&self.path, handle.offset, what);
        let end =
            handle.length.checked_add(TRAILER_BYTES).and_then(|n| n.checked_add(handle.offset));
        if end.is_none_or(|end| end > self.file_bytes) {
            return Err(fail("a block ends after the file"));
        }
        let mut stored = vec![0; (handle.length + TRAILER_BYTES) as usize];
        self.file
            .read_exact_at(&mut stored, handle.offset)
            .map_err(|error| Failure::io("read", &self.path, &error))?;
        self.read_bytes += stored.len() as u64;
        block::unpack(stored).and_then(Block::new).map_err(fail)
    }

    /// Moves to the next record. False at the end.
    ///
    /// # Errors
    /// `Corruption`: a checksum is wrong, or keys do not ascend.
    pub(super) fn next(&mut self) -> Result<bool> {
        loop {
            let offset = self.data_offset;
            if let Some(value) =
                self.data.next().map_err(|what| damaged(&self.path, offset, what))?
            {
                self.value.clear();
                self.value.extend_from_slice(value);
                if !comes_after(&self.data.key, &self.key) {
                    let what = "keys of the table do not ascend";
                    return Err(damaged(&self.path, self.data_offset, what));
                }
                self.key.clone_from(&self.data.key);
                return Ok(true);
            }
            let entry = self.index.next().map_err(|what| damaged(&self.path, 0, what))?;
            let Some(mut entry) = entry else { return Ok(false) };
            let handle = take_handle(&mut entry)
                .ok_or_else(|| damaged(&self.path, 0, "the index is malformed"))?;
            self.data_offset = handle.offset;
            self.data = self.read_block(&handle)?;
        }
    }

    /// A fault of the current record.
    pub(super) fn fault(&self, what: &str) -> Failure {
        damaged(&self.path, self.data_offset, what)
    }
}

/// Internal keys ascend by key and then descend by sequence number and kind.
fn comes_after(key: &[u8], last: &[u8]) -> bool {
    let (Some((key, seq, kind)), last) = (split_key(key), split_key(last)) else { return false };
    let Some((last_key, last_seq, last_kind)) = last else { return true };
    (key, (last_seq, last_kind)) > (last_key, (seq, kind))
}

fn take_handle(input: &mut &[u8]) -> Option<Handle> {
    Some(Handle { offset: take_varint(input)?, length: take_varint(input)? })
}
