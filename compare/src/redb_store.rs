//! redb: a B-tree in Rust, as a yardstick for reads.
//!
//! Puts are committed in batches without durability, as with LMDB.

use esker_bench::Outcome;
use esker_bench::store::{Engine, Settings, Store, Walk};
use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Puts of a commit.
const BATCH: usize = 1000;
const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("default");

/// redb.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Redb;

/// A key, and its new value; none is a deletion.
type Change = (Vec<u8>, Option<Vec<u8>>);

struct RedbStore {
    db: Database,
    batch: Mutex<Vec<Change>>,
}

impl Engine for Redb {
    fn name(&self) -> String {
        "redb".to_owned()
    }

    fn setup(&self, _: &Settings) -> String {
        "4.5 by the crate redb, a B-tree: batches of 1000 puts in a commit without durability, no filter, no \
         compression"
            .to_owned()
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
        std::fs::create_dir_all(dir)?;
        let cache = settings.cache_bytes as usize;
        let db = Database::builder().set_cache_size(cache).create(dir.join("redb"))?;
        let transaction = db.begin_write()?;
        transaction.open_table(TABLE)?;
        transaction.commit()?;
        Ok(Box::new(RedbStore { db, batch: Mutex::default() }))
    }
}

impl RedbStore {
    fn change(&self, key: &[u8], value: Option<&[u8]>, sync: bool) -> Outcome<()> {
        let mut batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        batch.push((key.to_vec(), value.map(<[u8]>::to_vec)));
        if sync || batch.len() == BATCH {
            self.commit(&mut batch, sync)?;
        }
        Ok(())
    }

    fn commit(&self, batch: &mut Vec<Change>, sync: bool) -> Outcome<()> {
        let mut transaction = self.db.begin_write()?;
        transaction.set_durability(if sync { Durability::Immediate } else { Durability::None })?;
        {
            let mut table = transaction.open_table(TABLE)?;
            for (key, value) in batch.drain(..) {
                match value {
                    Some(value) => table.insert(&key[..], &value[..])?,
                    None => table.remove(&key[..])?,
                };
            }
        }
        Ok(transaction.commit()?)
    }
}

impl Store for RedbStore {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Outcome<()> {
        self.change(key, Some(value), sync)
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let transaction = self.db.begin_read()?;
        let value = transaction.open_table(TABLE)?.get(key)?;
        if let Some(value) = &value {
            see(value.value());
        }
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[Vec<u8>], see: &mut dyn FnMut(&[u8])) -> Outcome<u64> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        let mut found = 0;
        for key in keys {
            if let Some(value) = table.get(&key[..])? {
                see(value.value());
                found += 1;
            }
        }
        Ok(found)
    }

    fn delete(&self, key: &[u8], sync: bool) -> Outcome<()> {
        self.change(key, None, sync)
    }

    fn walk(&self, walk: Walk<'_>, see: &mut dyn FnMut(&[u8], &[u8])) -> Outcome<u64> {
        let transaction = self.db.begin_read()?;
        let table = transaction.open_table(TABLE)?;
        let open = Bound::Unbounded;
        let from = walk.from.map_or(open, Bound::Included);
        let mut range = match walk.backwards {
            true => table.range::<&[u8]>((open, from))?,
            false => table.range::<&[u8]>((from, open))?,
        };
        let mut seen = 0;
        while seen < walk.records_max
            && let Some(item) = if walk.backwards { range.next_back() } else { range.next() }
        {
            let (key, value) = item?;
            see(key.value(), value.value());
            seen += 1;
        }
        Ok(seen)
    }

    fn settle(&self) -> Outcome<Option<Instant>> {
        let mut batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        self.commit(&mut batch, true)?;
        Ok(None)
    }

    fn compact(&self) -> Outcome<()> {
        // A B-tree is in its final shape.
        self.settle().map(drop)
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.settle().map(drop)
    }
}
