//! LMDB: a B-tree in a mapped file, as a yardstick for reads.
//!
//! Puts are committed in batches, and only a synced one reaches the disk at once: one by one they
//! would measure commits. So what is not yet committed is lost with the process, unlike with the
//! others.

use esker_bench::Outcome;
use esker_bench::store::{Engine, Settings, Store, Walk};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, WithTls};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Puts of a commit.
const BATCH: usize = 1000;
/// Addresses that are set aside for the file; more than any run needs.
const MAP_BYTES: usize = 1 << 40;

/// LMDB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lmdb;

/// A key and its new value; no value is a deletion.
type Change = (Vec<u8>, Option<Vec<u8>>);

struct LmdbStore {
    env: Env<WithTls>,
    tree: Database<'static, Bytes, Bytes>,
    /// Changes to come.
    batch: Mutex<Vec<Change>>,
}

impl Engine for Lmdb {
    fn name(&self) -> String {
        "lmdb".to_owned()
    }

    fn setup(&self, _: &Settings) -> String {
        "0.9 by the crate heed, a B-tree: batches of 1000 puts in a commit, MDB_NOSYNC, no filter, no \
         compression, the page cache for a cache"
            .to_owned()
    }

    fn open(&self, dir: &Path, _: &Settings) -> Outcome<Box<dyn Store>> {
        std::fs::create_dir_all(dir)?;
        let mut options = EnvOpenOptions::new().read_txn_with_tls();
        options.map_size(MAP_BYTES).max_readers(1024);
        // SAFETY: without synced commits a crash of the system may damage the file, which is thrown
        // away then.
        unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC) };
        // SAFETY: nobody else has the file open, and it is not changed from outside.
        let env = unsafe { options.open(dir)? };
        let tree = env
            .create_databases_and_commit(env.write_txn()?, |opener, transaction| {
                Outcome::Ok(CommitOrAbort::<_, ()>::Commit(
                    opener.create_database(transaction, None)?,
                ))
            })?
            .unwrap_commit();
        Ok(Box::new(LmdbStore { env, tree, batch: Mutex::default() }))
    }
}

impl LmdbStore {
    fn change(&self, key: &[u8], value: Option<&[u8]>, sync: bool) -> Outcome<()> {
        let mut batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        batch.push((key.to_vec(), value.map(<[u8]>::to_vec)));
        if sync || batch.len() == BATCH {
            self.commit(&mut batch)?;
        }
        if sync {
            self.env.force_sync()?;
        }
        Ok(())
    }

    fn commit(&self, batch: &mut Vec<Change>) -> Outcome<()> {
        let mut transaction = self.env.write_txn()?;
        for (key, value) in batch.drain(..) {
            match value {
                Some(value) => self.tree.put(&mut transaction, &key, &value)?,
                None => {
                    self.tree.delete(&mut transaction, &key)?;
                }
            }
        }
        Ok(transaction.commit()?)
    }
}

impl Store for LmdbStore {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Outcome<()> {
        self.change(key, Some(value), sync)
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let transaction = self.env.read_txn()?;
        let value = self.tree.get(&transaction, key)?;
        if let Some(value) = value {
            see(value);
        }
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[Vec<u8>], see: &mut dyn FnMut(&[u8])) -> Outcome<u64> {
        let transaction = self.env.read_txn()?;
        let mut found = 0;
        for key in keys {
            if let Some(value) = self.tree.get(&transaction, key)? {
                see(value);
                found += 1;
            }
        }
        Ok(found)
    }

    fn delete(&self, key: &[u8], sync: bool) -> Outcome<()> {
        self.change(key, None, sync)
    }

    fn walk(&self, walk: Walk<'_>, see: &mut dyn FnMut(&[u8], &[u8])) -> Outcome<u64> {
        let transaction = self.env.read_txn()?;
        let mut seen = 0;
        let mut show = |item: heed::Result<(&[u8], &[u8])>| -> Outcome<bool> {
            let (key, value) = item?;
            see(key, value);
            seen += 1;
            Ok(seen < walk.records_max)
        };
        if walk.backwards {
            let end = walk.from.map_or(Bound::Unbounded, Bound::Included);
            for item in self.tree.rev_range(&transaction, &(Bound::Unbounded, end))? {
                if !show(item)? {
                    break;
                }
            }
        } else {
            let start = walk.from.map_or(Bound::Unbounded, Bound::Included);
            for item in self.tree.range(&transaction, &(start, Bound::Unbounded))? {
                if !show(item)? {
                    break;
                }
            }
        }
        Ok(seen)
    }

    fn settle(&self) -> Outcome<Option<Instant>> {
        let mut batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        self.commit(&mut batch)?;
        Ok(None)
    }

    fn compact(&self) -> Outcome<()> {
        // A B-tree is in its final shape.
        self.settle().map(drop)
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.settle()?;
        self.env.force_sync()?;
        let LmdbStore { env, .. } = *self;
        env.prepare_for_closing().wait();
        Ok(())
    }
}
