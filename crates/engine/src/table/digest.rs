//! Reading the digest of a table.

use super::reader::TableReader;
use crate::run_index::DigestSource;
use esker_base::{Error, Result};
use std::ops::Deref;

/// The digest of one table, block by block.
pub(crate) struct StoredDigest<R> {
    reader: R,
    next: usize,
}

impl<R: Deref<Target = TableReader>> StoredDigest<R> {
    pub(crate) fn new(reader: R) -> StoredDigest<R> {
        StoredDigest { reader, next: 0 }
    }
}

impl<R: Deref<Target = TableReader>> DigestSource for StoredDigest<R> {
    fn next_block(&mut self, block: &mut Vec<u8>) -> Result<bool> {
        if self.next >= self.reader.properties().digest.len() {
            return Ok(false);
        }
        self.reader.read_digest(self.next, block)?;
        self.next += 1;
        Ok(true)
    }

    fn damaged(&self, what: &'static str) -> Error {
        self.reader.damaged_digest(self.next.saturating_sub(1), what)
    }
}

#[cfg(test)]
mod tests {
    use super::super::TableBuilder;
    use super::super::tests::{MemFile, SALT, open};
    use crate::options::KeyspaceOptions;
    use crate::run_index::DigestBuilder;
    use esker_base::{Kind, Trailer};
    use std::path::Path;

    #[test]
    fn a_digest_of_other_keys_is_noticed() {
        let keys = ["apple", "apricot", "banana", "cherry"];
        let verified = |digested: &[&str]| {
            let options = KeyspaceOptions { run_index: true, ..KeyspaceOptions::default() };
            let file = MemFile::default();
            let path = Path::new("test.sst");
            let mut builder = TableBuilder::new(Box::new(file.clone()), path, &options, 0, SALT);
            for key in keys {
                builder.add(key.as_bytes(), Trailer::new(1, Kind::Put), b"fruit").expect("add");
            }
            let mut digest = DigestBuilder::default();
            digested.iter().for_each(|key| digest.add(key.as_bytes()));
            builder.digest = Some(digest);
            builder.finish().expect("finish");
            open(file.bytes(), &options).expect("open").verify()
        };
        verified(&keys).expect("its own");
        for wrong in [
            &keys[..3],
            &keys[1..],
            &["apple", "apricot", "banana", "cherry", "date"],
            &["apple", "avocado", "banana", "cherry"],
            &[],
        ] {
            let error = verified(wrong).expect_err("another table's");
            assert!(error.to_string().contains("digest does not fit the keys"), "{error}");
        }
    }
}
