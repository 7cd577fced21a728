//! Operations that change the store, or what it stands on.

use super::world::{DIR, World, compare, remove_dir};
use esker::base::vfs::strict::Survival;
use esker::{Batch, Compaction, Db, Error, KeyspaceId, WriteOptions};

type Outcome = Result<(), String>;

#[expect(clippy::needless_pass_by_value, reason = "handed to map_err")]
fn text(error: Error) -> String {
    error.to_string()
}

impl World {
    pub(super) fn put(&mut self) -> Outcome {
        let (name, keyspace) = self.some_keyspace()?;
        let (key, value) = (self.key(), self.value());
        keyspace.put(&key, &value).map_err(text)?;
        self.model_put(&name, &key, &value);
        self.wrote();
        Ok(())
    }

    pub(super) fn put_again(&mut self) -> Outcome {
        let Some((name, key, _)) = self.last_put() else { return Ok(()) };
        let value = self.value();
        self.keyspace(&name)?.put(&key, &value).map_err(text)?;
        self.model_put(&name, &key, &value);
        self.wrote();
        Ok(())
    }

    pub(super) fn delete(&mut self) -> Outcome {
        let (name, keyspace) = self.some_keyspace()?;
        let key = self.key();
        keyspace.delete(&key).map_err(text)?;
        self.model_delete(&name, &key);
        self.wrote();
        Ok(())
    }

    /// Two keys, the first before the second in the store's order.
    fn ordered_keys(&mut self) -> (Vec<u8>, Vec<u8>) {
        let (a, b) = (self.key(), self.key());
        if self.order.model_key(&a) <= self.order.model_key(&b) { (a, b) } else { (b, a) }
    }

    pub(super) fn delete_range(&mut self) -> Outcome {
        let (name, keyspace) = self.some_keyspace()?;
        let (start, end) = self.ordered_keys();
        keyspace.delete_range(&start, &end).map_err(text)?;
        self.model_delete_range(&name, &start, &end);
        self.wrote();
        Ok(())
    }

    pub(super) fn delete_empty_range(&mut self) -> Outcome {
        let (_, keyspace) = self.some_keyspace()?;
        let key = self.key();
        keyspace.delete_range(&key, &key).map_err(text)?;
        self.wrote();
        Ok(())
    }

    pub(super) fn delete_reversed_range(&mut self) -> Outcome {
        let (_, keyspace) = self.some_keyspace()?;
        let (start, end) = self.ordered_keys();
        keyspace.delete_range(&end, &start).map_err(text)?;
        self.wrote();
        Ok(())
    }

    /// Adds random operations to a batch and to the model.
    fn fill(&mut self, batch: &mut Batch, count: u64) -> Outcome {
        for _ in 0..count {
            let (name, keyspace) = self.some_keyspace()?;
            let key = self.key();
            match self.random.below(12) {
                0..=7 => {
                    let value = self.value();
                    batch.put_in(&keyspace, &key, &value);
                    self.model_put(&name, &key, &value);
                }
                8..=10 => {
                    batch.delete_in(&keyspace, &key);
                    self.model_delete(&name, &key);
                }
                _ => {
                    let (start, end) = self.ordered_keys();
                    batch.delete_range_in(&keyspace, &start, &end);
                    self.model_delete_range(&name, &start, &end);
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, batch: Batch, options: WriteOptions) -> Outcome {
        self.db().write(batch, options).map_err(text)?;
        self.wrote();
        if options.sync {
            self.all_durable();
        }
        Ok(())
    }

    pub(super) fn batch(&mut self) -> Outcome {
        let mut batch = Batch::new();
        let count = 1 + self.random.below(8);
        self.fill(&mut batch, count)?;
        self.write(batch, WriteOptions::default())
    }

    pub(super) fn batch_synced(&mut self) -> Outcome {
        let mut batch = Batch::new();
        self.fill(&mut batch, 3)?;
        self.write(batch, WriteOptions::SYNC)
    }

    pub(super) fn empty_batch(&mut self) -> Outcome {
        self.write(Batch::new(), WriteOptions::default())
    }

    pub(super) fn joined_batches(&mut self) -> Outcome {
        let (mut first, mut second) = (Batch::new(), Batch::new());
        self.fill(&mut first, 2)?;
        self.fill(&mut second, 2)?;
        first.append(&second);
        self.write(first, WriteOptions::default())
    }

    pub(super) fn batch_over_itself(&mut self) -> Outcome {
        let (name, keyspace) = self.some_keyspace()?;
        let key = self.key();
        let (one, two) = (self.value(), self.value());
        let mut batch = Batch::new();
        batch.put_in(&keyspace, &key, &one).delete_in(&keyspace, &key);
        batch.put_in(&keyspace, &key, &two);
        self.model_put(&name, &key, &two);
        self.write(batch, WriteOptions::default())
    }

    pub(super) fn sync(&mut self) -> Outcome {
        self.db().sync().map_err(text)?;
        self.all_durable();
        Ok(())
    }

    pub(super) fn key_too_long(&mut self) -> Outcome {
        let mut batch = Batch::new();
        let (key, value) = (self.key(), self.value());
        batch.put(&key, &value).put(&vec![0; (1 << 20) + 1], b"");
        expect_refusal("a key of over 1 MiB", self.db().write(batch, WriteOptions::default()))
    }

    pub(super) fn unknown_keyspace(&mut self) -> Outcome {
        let mut batch = Batch::new();
        let key = self.key();
        batch.put(&key, b"").put_in(KeyspaceId(4_000_000), &key, b"");
        expect_refusal("an unknown keyspace", self.db().write(batch, WriteOptions::default()))
    }

    pub(super) fn flush_one(&mut self) -> Outcome {
        let (_, keyspace) = self.some_keyspace()?;
        keyspace.flush().map_err(text)
    }

    pub(super) fn flush_all(&mut self) -> Outcome {
        self.db().flush().map_err(text)?;
        self.all_durable();
        Ok(())
    }

    pub(super) fn collect(&mut self) -> Outcome {
        let share = self.random.below(3) as f64 * 0.3;
        self.db().collect_values(share, |_| true).map_err(text)?;
        self.compare_all()
    }

    pub(super) fn compact_all(&mut self) -> Outcome {
        let (_, keyspace) = self.some_keyspace()?;
        keyspace.compact_range(None, None).map_err(text)?;
        self.compare_all()
    }

    pub(super) fn compact_part(&mut self) -> Outcome {
        let (_, keyspace) = self.some_keyspace()?;
        let (start, end) = self.ordered_keys();
        keyspace.compact_range(Some(&start), Some(&end)).map_err(text)
    }

    pub(super) fn wait_idle(&mut self) -> Outcome {
        self.db().wait_idle().map_err(text)
    }

    /// When all is deleted and the store is left alone, nothing stays in the tables.
    pub(super) fn delete_all(&mut self) -> Outcome {
        let (name, keyspace) = self.some_keyspace()?;
        // All keys lie between these, and are as long.
        let (mut start, mut end): (&[u8], &[u8]) = (b"k00000", b"k99999");
        if self.order.model_key(start) > self.order.model_key(end) {
            std::mem::swap(&mut start, &mut end);
        }
        keyspace.delete_range(start, end).map_err(text)?;
        self.model_delete_range(&name, start, end);
        self.wrote();
        self.snapshots.clear();
        self.cursors.clear();
        self.db().flush().map_err(text)?;
        self.all_durable();
        self.db().wait_idle().map_err(text)?;
        let stats = self.db().stats();
        let found = stats.keyspaces.iter().find(|keyspace| keyspace.name == name);
        let records: u64 = found.iter().flat_map(|k| &k.levels).map(|level| level.entries).sum();
        let compacts = self.options.default_keyspace.tombstone_ratio_compact < 1.0;
        if compacts && records > 0 {
            return Err(format!("{records} records stay: {found:?}"));
        }
        self.compare_all()
    }

    /// From now on by another policy, until the next open.
    pub(super) fn compact_otherwise(&mut self) -> Outcome {
        let (_, keyspace) = self.some_keyspace()?;
        let compaction = [Compaction::Leveled, Compaction::Tiered][self.random.below(2) as usize];
        let needs_tiers = self.options.default_keyspace.run_index;
        if needs_tiers && compaction == Compaction::Leveled {
            return expect_refusal("levels with an index", keyspace.set_compaction(compaction));
        }
        keyspace.set_compaction(compaction).map_err(text)?;
        self.was_tiered |= compaction == Compaction::Tiered;
        self.compare_all()
    }

    pub(super) fn reopen(&mut self) -> Outcome {
        self.close()?;
        self.open()?;
        self.all_durable();
        self.compare_all()
    }

    pub(super) fn reopen_otherwise(&mut self) -> Outcome {
        self.close()?;
        self.choose_options();
        self.open()?;
        self.all_durable();
        self.compare_all()
    }

    pub(super) fn process_death(&mut self) -> Outcome {
        self.survive(Survival::ProcessDeath)
    }

    pub(super) fn power_cut(&mut self) -> Outcome {
        let percent = self.random.below(101) as u8;
        self.survive(Survival::Some { percent })
    }

    /// Writes fail while the disk is full, reads go on, and writes resume by themselves.
    pub(super) fn disk_full(&mut self) -> Outcome {
        let room = self.random.below(200 << 10);
        self.vfs.set_capacity_bytes(Some(self.vfs.total_bytes() + room));
        for _ in 0..400 {
            let (name, keyspace) = self.some_keyspace()?;
            let (key, value) = (self.key(), self.random.bytes(2_000));
            match keyspace.put(&key, &value) {
                Ok(()) => {
                    self.model_put(&name, &key, &value);
                    self.wrote();
                }
                Err(Error::NoSpace { .. }) => break,
                Err(error) => return Err(format!("on a full disk: {error}")),
            }
        }
        self.compare_all().map_err(|e| format!("while full: {e}"))?;
        self.vfs.set_capacity_bytes(None);
        self.put().map_err(|e| format!("after: {e}"))?;
        self.db().flush().map_err(|e| format!("after: {e}"))?;
        self.compare_all().map_err(|e| format!("after: {e}"))?;
        self.all_durable();
        Ok(())
    }

    fn copy_dir(&mut self) -> String {
        self.copies += 1;
        format!("/model/copy{}", self.copies)
    }

    pub(super) fn checkpoint(&mut self) -> Outcome {
        let dir = self.copy_dir();
        self.db().checkpoint(&dir).map_err(text)?;
        expect_refusal("a second checkpoint there", self.db().checkpoint(&dir))?;
        let copy = Db::open_with(&dir, self.options.clone(), self.setup()).map_err(text)?;
        compare(&copy, &self.maps).map_err(|e| format!("the copy: {e}"))?;
        copy.put(b"k0000x", b"only in the copy").map_err(text)?;
        copy.close().map_err(text)?;
        self.compare_all()?;
        remove_dir(&self.vfs, &dir)
    }

    pub(super) fn read_only(&mut self) -> Outcome {
        self.close()?;
        let calls = self.vfs.mutating_calls();
        let db = Db::open_read_only_with(DIR, self.options.clone(), self.setup()).map_err(text)?;
        compare(&db, &self.maps)?;
        match db.put(b"k", b"v") {
            Err(Error::ReadOnly) => {}
            other => return Err(format!("a write to a read-only store: {other:?}")),
        }
        db.close().map_err(text)?;
        if self.vfs.mutating_calls() != calls {
            return Err("a read-only open changed the disk".to_owned());
        }
        self.open()?;
        self.all_durable();
        Ok(())
    }

    pub(super) fn second_open(&mut self) -> Outcome {
        match Db::open_with(DIR, self.options.clone(), self.setup()) {
            Err(Error::Busy { .. }) => Ok(()),
            other => Err(format!("a second open: {other:?}")),
        }
    }

    pub(super) fn ingest(&mut self) -> Outcome {
        let (name, keyspace) = self.some_keyspace()?;
        let mut rows = std::collections::BTreeMap::new();
        for _ in 0..self.random.below(80) {
            let (key, value) = (self.key(), self.value());
            rows.insert(self.order.model_key(&key), (key, value));
        }
        let mut ingest = keyspace.ingest().map_err(text)?;
        for (key, value) in rows.values() {
            ingest.put(key, value).map_err(text)?;
        }
        let count = ingest.finish().map_err(text)?;
        if count != rows.len() as u64 {
            return Err(format!("{count} rows ingested of {}", rows.len()));
        }
        for (key, value) in rows.values() {
            self.model_put(&name, key, value);
        }
        if count > 0 {
            self.all_durable();
        }
        Ok(())
    }

    pub(super) fn ingest_unordered(&mut self) -> Outcome {
        let (name, keyspace) = self.some_keyspace()?;
        let (start, end) = self.ordered_keys();
        let mut ingest = keyspace.ingest().map_err(text)?;
        ingest.put(&end, b"last").map_err(text)?;
        expect_refusal("a key out of order", ingest.put(&start, b"first"))?;
        ingest.finish().map_err(text)?;
        self.model_put(&name, &end, b"last");
        self.all_durable();
        Ok(())
    }

    pub(super) fn ingest_dropped(&mut self) -> Outcome {
        let (_, keyspace) = self.some_keyspace()?;
        let mut ingest = keyspace.ingest().map_err(text)?;
        let key = self.key();
        ingest.put(&key, b"never").map_err(text)?;
        drop(ingest);
        match keyspace.get(&key).map_err(text)? {
            Some(value) if value == b"never" => Err("an abandoned ingest is visible".to_owned()),
            _ => Ok(()),
        }
    }

    pub(super) fn create_keyspace(&mut self) -> Outcome {
        let name = format!("guest{}", self.random.below(3));
        if self.maps.contains_key(&name) {
            return Ok(());
        }
        self.add_keyspace(&name)
    }

    pub(super) fn create_twice(&mut self) -> Outcome {
        let options = self.keyspace_options();
        let made = self.db().create_keyspace("default", options);
        expect_refusal("a keyspace of a name that is taken", made.map(drop))
    }

    pub(super) fn drop_keyspace(&mut self) -> Outcome {
        let name = format!("guest{}", self.random.below(3));
        if !self.maps.contains_key(&name) {
            return expect_refusal("dropping what is not there", self.db().drop_keyspace(&name));
        }
        let handle = self.keyspace(&name)?;
        self.db().drop_keyspace(&name).map_err(text)?;
        expect_refusal("a write to a dropped keyspace", handle.put(b"k0001x", b""))?;
        self.forget_keyspace(&name);
        Ok(())
    }
}

/// The call must be refused as a wrong call.
fn expect_refusal(what: &str, result: esker::Result<()>) -> Outcome {
    match result {
        Err(Error::InvalidArgument { .. }) => Ok(()),
        other => Err(format!("{what}: {other:?}")),
    }
}
