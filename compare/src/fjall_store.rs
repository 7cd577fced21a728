//! fjall, and fjall with separated values.

use esker_bench::Outcome;
use esker_bench::machine::wait_until_idle;
use esker_bench::store::{Engine, Settings, Store, Walk};
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
};
use fjall::{
    CompressionType, Database, Guard, Keyspace, KeyspaceCreateOptions, KvSeparationOptions,
    PersistMode,
};
use std::path::Path;
use std::time::Instant;

/// Values from here on are separated, where some are.
const SEPARATED_BYTES_MIN: u32 = 512;

/// fjall.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fjall {
    /// Keep large values apart.
    pub(crate) separated: bool,
}

struct FjallStore {
    db: Database,
    keyspace: Keyspace,
}

impl Engine for Fjall {
    fn name(&self) -> String {
        if self.separated { "fjall+separation".to_owned() } else { "fjall".to_owned() }
    }

    fn setup(&self, settings: &Settings) -> String {
        let separated =
            if self.separated { "; values of 512 bytes and more separated" } else { "" };
        format!(
            "3.1 by the crate fjall: {} workers, as many memtables as its journals of 512 MiB hold, {} and {} on \
             all levels{separated}",
            settings.compaction_threads + 1,
            settings.filter("Bloom filters"),
            settings.codec("LZ4")
        )
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
        let db = Database::builder(dir)
            .cache_size(settings.cache_bytes)
            // They flush as well.
            .worker_threads(settings.compaction_threads as usize + 1)
            .open()?;
        let codec = match settings.compression {
            true => CompressionType::Lz4,
            false => CompressionType::None,
        };
        let filter = match settings.filter_bits_per_key {
            0 => FilterPolicyEntry::None,
            bits => FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(bits as f32)),
        };
        let separation = self.separated.then(|| {
            KvSeparationOptions::default()
                .separation_threshold(SEPARATED_BYTES_MIN)
                .compression(codec)
        });
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(settings.memtable_bytes)
                .data_block_size_policy(BlockSizePolicy::all(settings.block_bytes))
                .data_block_compression_policy(CompressionPolicy::all(codec))
                .filter_policy(FilterPolicy::all(filter))
                .with_kv_separation(separation.clone())
        };
        let keyspace = db.keyspace("default", options)?;
        Ok(Box::new(FjallStore { db, keyspace }))
    }
}

impl FjallStore {
    fn show(
        items: impl Iterator<Item = Guard>,
        records_max: u64,
        see: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Outcome<u64> {
        let mut seen = 0;
        for item in items.take(usize::try_from(records_max).unwrap_or(usize::MAX)) {
            let (key, value) = item.into_inner()?;
            see(&key, &value);
            seen += 1;
        }
        Ok(seen)
    }
}

impl Store for FjallStore {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Outcome<()> {
        self.keyspace.insert(key, value)?;
        if sync {
            self.db.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = self.keyspace.get(key)?;
        if let Some(value) = &value {
            see(value);
        }
        Ok(value.is_some())
    }

    fn delete(&self, key: &[u8], sync: bool) -> Outcome<()> {
        self.keyspace.remove(key)?;
        if sync {
            self.db.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }

    fn walk(&self, walk: Walk<'_>, see: &mut dyn FnMut(&[u8], &[u8])) -> Outcome<u64> {
        match (walk.from, walk.backwards) {
            (Some(key), false) => {
                FjallStore::show(self.keyspace.range(key..), walk.records_max, see)
            }
            (Some(key), true) => {
                FjallStore::show(self.keyspace.range(..=key).rev(), walk.records_max, see)
            }
            (None, false) => FjallStore::show(self.keyspace.iter(), walk.records_max, see),
            (None, true) => FjallStore::show(self.keyspace.iter().rev(), walk.records_max, see),
        }
    }

    fn settle(&self) -> Outcome<Option<Instant>> {
        self.keyspace.rotate_memtable_and_wait()?;
        // What it says of its compactions leaves out those that its workers have not begun yet.
        Ok(Some(wait_until_idle()))
    }

    fn compact(&self) -> Outcome<()> {
        Ok(self.keyspace.major_compact()?)
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(self.db.persist(PersistMode::SyncAll)?)
    }
}
