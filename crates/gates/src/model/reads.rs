//! Operations that look.

use super::world::{KeptCursor, Map, Maps, World};
use esker::{Error, Keyspace, ScanOptions, Snapshot};

type Outcome = Result<(), String>;
type Rows = Vec<(Vec<u8>, Vec<u8>)>;

#[expect(clippy::needless_pass_by_value, reason = "handed to map_err")]
fn text(error: Error) -> String {
    error.to_string()
}

fn expect_value(
    keyspace: &str,
    key: &[u8],
    found: Option<&[u8]>,
    expected: Option<&[u8]>,
) -> Outcome {
    if found == expected {
        return Ok(());
    }
    let len = |value: Option<&[u8]>| value.map(<[u8]>::len);
    Err(format!(
        "{keyspace}/{}: {:?} bytes, should be {:?}",
        key.escape_ascii(),
        len(found),
        len(expected)
    ))
}

impl World {
    fn value_in<'a>(&self, map: &'a Map, key: &[u8]) -> Option<&'a [u8]> {
        map.get(&self.order.model_key(key)).map(|(_, value)| value.as_slice())
    }

    pub(super) fn get(&mut self) -> Outcome {
        let (name, keyspace) = self.some_keyspace()?;
        let key = self.key();
        let found = keyspace.get(&key).map_err(text)?;
        expect_value(&name, &key, found.as_deref(), self.value_in(&self.maps[&name], &key))
    }

    pub(super) fn get_missing(&mut self) -> Outcome {
        let (name, keyspace) = self.some_keyspace()?;
        let mut key = self.key();
        key.push(b'!');
        let found = keyspace.get(&key).map_err(text)?;
        expect_value(&name, &key, found.as_deref(), None)
    }

    fn some_snapshot(&mut self) -> Option<usize> {
        let count = self.snapshots.len() as u64;
        (count > 0).then(|| self.random.below(count) as usize)
    }

    /// A keyspace, if this snapshot knows it.
    fn keyspace_at(&mut self, at: usize) -> Result<Option<(String, Keyspace)>, String> {
        let (name, keyspace) = self.some_keyspace()?;
        Ok(self.snapshots[at].1.contains_key(&name).then_some((name, keyspace)))
    }

    pub(super) fn get_at_snapshot(&mut self) -> Outcome {
        let Some(at) = self.some_snapshot() else { return Ok(()) };
        let Some((name, keyspace)) = self.keyspace_at(at)? else { return Ok(()) };
        let key = self.key();
        let (snapshot, maps) = &self.snapshots[at];
        let found = keyspace.get_at(&key, snapshot).map_err(text)?;
        expect_value(&name, &key, found.as_deref(), self.value_in(&maps[&name], &key))
    }

    pub(super) fn multi_get(&mut self) -> Outcome {
        let (name, keyspace) = self.some_keyspace()?;
        let keys: Vec<Vec<u8>> = (0..self.random.below(12)).map(|_| self.key()).collect();
        let found = keyspace.multi_get(&keys, None).map_err(text)?;
        self.expect_values(&name, &keys, &found, &self.maps)
    }

    pub(super) fn multi_get_at(&mut self) -> Outcome {
        let Some(at) = self.some_snapshot() else { return Ok(()) };
        let Some((name, keyspace)) = self.keyspace_at(at)? else { return Ok(()) };
        let keys: Vec<Vec<u8>> = (0..8).map(|_| self.key()).collect();
        let (snapshot, maps) = &self.snapshots[at];
        let found = keyspace.multi_get(&keys, Some(snapshot)).map_err(text)?;
        self.expect_values(&name, &keys, &found, maps)
    }

    fn expect_values(
        &self,
        name: &str,
        keys: &[Vec<u8>],
        found: &[Option<esker::Value>],
        maps: &Maps,
    ) -> Outcome {
        if found.len() != keys.len() {
            return Err(format!("{name}: {} values of {} keys", found.len(), keys.len()));
        }
        keys.iter().zip(found).try_for_each(|(key, value)| {
            expect_value(name, key, value.as_deref(), self.value_in(&maps[name], key))
        })
    }

    pub(super) fn scan_forward(&mut self) -> Outcome {
        let (name, keyspace) = self.some_keyspace()?;
        let rows = World::pairs(&self.maps[&name], None, None);
        walk_forward(&keyspace, &ScanOptions { fill_cache: false, ..ScanOptions::default() }, &rows)
    }

    pub(super) fn scan_backward(&mut self) -> Outcome {
        let (name, keyspace) = self.some_keyspace()?;
        let rows = World::pairs(&self.maps[&name], None, None);
        walk_backward(&keyspace, &ScanOptions::default(), &rows)
    }

    pub(super) fn scan_at_snapshot(&mut self) -> Outcome {
        let Some(at) = self.some_snapshot() else { return Ok(()) };
        let Some((name, keyspace)) = self.keyspace_at(at)? else { return Ok(()) };
        let (snapshot, maps) = &self.snapshots[at];
        let rows = World::pairs(&maps[&name], None, None);
        walk_forward(&keyspace, &ScanOptions::default().at(snapshot), &rows)?;
        walk_backward(&keyspace, &ScanOptions::default().at(snapshot), &rows)
    }

    /// Random bounds in the store's order, and the rows between them.
    fn bounds(&mut self, map: &str) -> (Option<Vec<u8>>, Option<Vec<u8>>, Rows) {
        let (a, b) = (self.key(), self.key());
        let (ma, mb) = (self.order.model_key(&a), self.order.model_key(&b));
        let ((start, mstart), (end, mend)) =
            if ma <= mb { ((a, ma), (b, mb)) } else { ((b, mb), (a, ma)) };
        let has_start = !self.random.one_in(4);
        let has_end = !self.random.one_in(4);
        let rows = World::pairs(
            &self.maps[map],
            has_start.then_some(&mstart[..]),
            has_end.then_some(&mend[..]),
        );
        (has_start.then_some(start), has_end.then_some(end), rows)
    }

    pub(super) fn scan_range(&mut self) -> Outcome {
        let (name, keyspace) = self.some_keyspace()?;
        let (start, end, rows) = self.bounds(&name);
        let options = ScanOptions { start, end, ..ScanOptions::default() };
        match self.random.one_in(2) {
            true => walk_forward(&keyspace, &options, &rows),
            false => walk_backward(&keyspace, &options, &rows),
        }
    }

    pub(super) fn scan_reversed_range(&mut self) -> Outcome {
        let (_, keyspace) = self.some_keyspace()?;
        let (a, b) = (self.key(), self.key());
        let (ma, mb) = (self.order.model_key(&a), self.order.model_key(&b));
        if ma == mb {
            return Ok(());
        }
        let (first, last) = if ma < mb { (a, b) } else { (b, a) };
        let options = ScanOptions { start: Some(last), end: Some(first), ..ScanOptions::default() };
        match keyspace.scan(&options) {
            Err(Error::InvalidArgument { .. }) => Ok(()),
            other => Err(format!("a range that ends before it starts: {other:?}")),
        }
    }

    pub(super) fn range_iterator(&mut self) -> Outcome {
        let (name, keyspace) = self.some_keyspace()?;
        let (start, end, rows) = self.bounds(&name);
        let found: Result<Rows, Error> = match (&start, &end) {
            (Some(s), Some(e)) => keyspace.range(s..e).map_err(text)?.collect(),
            (Some(s), None) => keyspace.range(s..).map_err(text)?.collect(),
            (None, Some(e)) => keyspace.range(..e).map_err(text)?.collect(),
            (None, None) => keyspace.iter().map_err(text)?.collect(),
        };
        if found.map_err(text)? == rows { Ok(()) } else { Err("other rows".to_owned()) }
    }

    pub(super) fn both_ends(&mut self) -> Outcome {
        let (name, keyspace) = self.some_keyspace()?;
        let rows = World::pairs(&self.maps[&name], None, None);
        let mut pairs = keyspace.iter().map_err(text)?;
        let (mut front, mut back) = (0, rows.len());
        while front < back {
            let (next, expected) = if self.random.one_in(2) {
                front += 1;
                (pairs.next(), &rows[front - 1])
            } else {
                back -= 1;
                (pairs.next_back(), &rows[back])
            };
            match next {
                Some(Ok(pair)) if pair == *expected => {}
                other => {
                    let other = other.map(|p| p.map(|p| p.0));
                    return Err(format!("{other:?}, should be {}", expected.0.escape_ascii()));
                }
            }
        }
        match (pairs.next(), pairs.next_back()) {
            (None, None) => Ok(()),
            _ => Err("the iterator goes on after its ends have met".to_owned()),
        }
    }

    pub(super) fn prefix(&mut self) -> Outcome {
        if self.order != super::OrderKind::Bytewise {
            return Ok(());
        }
        let (name, keyspace) = self.some_keyspace()?;
        let mut prefix = self.key();
        prefix.truncate(1 + self.random.below(5) as usize);
        let rows: Rows = World::pairs(&self.maps[&name], None, None)
            .into_iter()
            .filter(|(key, _)| key.starts_with(&prefix))
            .collect();
        let found: Result<Rows, Error> = keyspace.prefix(&prefix).map_err(text)?.collect();
        if found.map_err(text)? == rows { Ok(()) } else { Err("other rows".to_owned()) }
    }

    pub(super) fn cursor_walk(&mut self) -> Outcome {
        let (name, keyspace) = self.some_keyspace()?;
        let (start, end, keys) = self.bounds(&name);
        let options = ScanOptions { start, end, ..ScanOptions::default() };
        let cursor = keyspace.scan(&options).map_err(text)?;
        let mut kept = KeptCursor { cursor, keys, at: None };
        (0..20).try_for_each(|_| self.move_cursor(&mut kept))
    }

    pub(super) fn cursor_walk_at(&mut self) -> Outcome {
        let Some(at) = self.some_snapshot() else { return Ok(()) };
        let Some((name, keyspace)) = self.keyspace_at(at)? else { return Ok(()) };
        let (snapshot, maps) = &self.snapshots[at];
        let keys = World::pairs(&maps[&name], None, None);
        let cursor = keyspace.scan(&ScanOptions::default().at(snapshot)).map_err(text)?;
        let mut kept = KeptCursor { cursor, keys, at: None };
        (0..20).try_for_each(|_| self.move_cursor(&mut kept))
    }

    pub(super) fn keep_cursor(&mut self) -> Outcome {
        let (name, keyspace) = self.some_keyspace()?;
        let keys = World::pairs(&self.maps[&name], None, None);
        let cursor = keyspace.scan(&ScanOptions::default()).map_err(text)?;
        if self.cursors.len() < 6 {
            self.cursors.push(KeptCursor { cursor, keys, at: None });
        }
        Ok(())
    }

    pub(super) fn move_kept_cursor(&mut self) -> Outcome {
        if self.cursors.is_empty() {
            return Ok(());
        }
        let at = self.random.below(self.cursors.len() as u64) as usize;
        let mut kept = self.cursors.swap_remove(at);
        let outcome = (0..4).try_for_each(|_| self.move_cursor(&mut kept));
        self.cursors.push(kept);
        outcome
    }

    pub(super) fn drop_cursors(&mut self) -> Outcome {
        self.cursors.clear();
        Ok(())
    }

    /// Moves a cursor somehow and checks where it stands.
    fn move_cursor(&mut self, kept: &mut KeptCursor) -> Outcome {
        let target = self.key();
        let order = self.order;
        let model_target = order.model_key(&target);
        let here = kept.keys.partition_point(|(key, _)| order.model_key(key) < model_target);
        let cursor = &mut kept.cursor;
        let choice = self.random.below(10);
        match choice {
            0 => {
                cursor.seek_to_first().map_err(text)?;
                kept.at = Some(0);
            }
            1 => {
                cursor.seek_to_last().map_err(text)?;
                kept.at = kept.keys.len().checked_sub(1);
            }
            2 => {
                cursor.seek(&target).map_err(text)?;
                kept.at = Some(here);
            }
            3 => {
                cursor.seek_before(&target).map_err(text)?;
                kept.at = here.checked_sub(1);
            }
            4..=6 => {
                cursor.next().map_err(text)?;
                kept.at = kept.at.map(|at| at + 1);
            }
            _ => {
                cursor.prev().map_err(text)?;
                kept.at = kept.at.and_then(|at| at.checked_sub(1));
            }
        }
        kept.at = kept.at.filter(|&at| at < kept.keys.len());
        let expected = kept.at.map(|at| (&kept.keys[at].0[..], &kept.keys[at].1[..]));
        let found = cursor.valid().then(|| (cursor.key(), cursor.value()));
        if found == expected {
            return Ok(());
        }
        Err(format!(
            "cursor move {choice} to {}: on {:?}, should be on {:?}",
            target.escape_ascii(),
            found.map(|f| f.0.escape_ascii().to_string()),
            expected.map(|e| e.0.escape_ascii().to_string())
        ))
    }

    pub(super) fn open_snapshot(&mut self) -> Outcome {
        if self.snapshots.len() < 8 {
            let snapshot: Snapshot = self.db().snapshot();
            self.snapshots.push((snapshot, self.maps.clone()));
        }
        Ok(())
    }

    pub(super) fn drop_snapshot(&mut self) -> Outcome {
        if let Some(at) = self.some_snapshot() {
            self.snapshots.swap_remove(at);
        }
        Ok(())
    }

    pub(super) fn verify(&mut self) -> Outcome {
        let report = self.db().verify(|_| true).map_err(text)?;
        match report.damage.first() {
            None => Ok(()),
            Some((path, error)) => Err(format!("{}: {error}", path.display())),
        }
    }

    pub(super) fn statistics(&mut self) -> Outcome {
        let stats = self.db().stats();
        if stats.keyspaces.len() != self.maps.len() {
            return Err(format!("{} keyspaces in the statistics", stats.keyspaces.len()));
        }
        if stats.snapshots != self.snapshots.len() as u64 {
            return Err(format!("{} snapshots in the statistics", stats.snapshots));
        }
        for keyspace in &stats.keyspaces {
            for (level, s) in keyspace.levels.iter().enumerate().skip(1) {
                // Tiers are merged at five runs at the latest; what they left behind stays for a
                // while.
                if s.runs > if self.was_tiered { 5 } else { 1 } {
                    return Err(format!("{} runs in level {level}", s.runs));
                }
            }
            let records: u64 = keyspace.levels.iter().map(|l| l.entries).sum();
            let live = self.maps[&keyspace.name].len() as u64;
            if records + keyspace.memtable_entries < live {
                return Err(format!("{records} records in tables, {live} live"));
            }
        }
        let memory = &stats.memory;
        if memory.memtables > memory.memtables_limit
            || memory.block_cache > memory.block_cache_limit
        {
            return Err(format!("over the budget: {memory:?}"));
        }
        Ok(())
    }

    pub(super) fn approximate_size(&mut self) -> Outcome {
        let (name, keyspace) = self.some_keyspace()?;
        let (start, end, _) = self.bounds(&name);
        let part = keyspace.approximate_size(start.as_deref(), end.as_deref()).map_err(text)?;
        let whole = keyspace.approximate_size(None, None).map_err(text)?;
        let tables: u64 = self
            .db()
            .stats()
            .keyspaces
            .iter()
            .filter(|k| k.name == name)
            .map(esker::report::KeyspaceStats::table_bytes)
            .sum();
        if part > whole || whole != tables {
            return Err(format!("part {part}, whole {whole}, tables {tables}"));
        }
        Ok(())
    }
}

fn walk_forward(keyspace: &Keyspace, options: &ScanOptions<'_>, rows: &Rows) -> Outcome {
    let mut cursor = keyspace.scan(options).map_err(text)?;
    cursor.seek_to_first().map_err(text)?;
    for (key, value) in rows {
        if !cursor.valid() || cursor.key() != &key[..] || cursor.value() != &value[..] {
            return Err(format!("forward: {} is not as it should be", key.escape_ascii()));
        }
        cursor.next().map_err(text)?;
    }
    if cursor.valid() {
        return Err(format!("forward: {} is too much", cursor.key().escape_ascii()));
    }
    Ok(())
}

fn walk_backward(keyspace: &Keyspace, options: &ScanOptions<'_>, rows: &Rows) -> Outcome {
    let mut cursor = keyspace.scan(options).map_err(text)?;
    cursor.seek_to_last().map_err(text)?;
    for (key, value) in rows.iter().rev() {
        if !cursor.valid() || cursor.key() != &key[..] || cursor.value() != &value[..] {
            return Err(format!("backward: {} is not as it should be", key.escape_ascii()));
        }
        cursor.prev().map_err(text)?;
    }
    if cursor.valid() {
        return Err(format!("backward: {} is too much", cursor.key().escape_ascii()));
    }
    Ok(())
}
