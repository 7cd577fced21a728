//! What happens on the disk while something is measured.

use crate::machine::disk_bytes;
use esker::event::{Event, EventListener};
use esker::{Db, Setup};
use esker_draw::Outcome;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time between two looks at the disk.
const LOOK: Duration = Duration::from_millis(10);

/// Bytes that flushes and compactions wrote, as events tell them.
#[derive(Debug, Default)]
pub(super) struct Told {
    flushed: AtomicU64,
    compacted: AtomicU64,
}

impl Told {
    /// Somebody who listens, and how a store is opened with him.
    pub(super) fn listen() -> (Arc<Told>, Setup) {
        let told = Arc::new(Told::default());
        let setup = Setup { listener: Some(told.clone()), ..Setup::default() };
        (told, setup)
    }

    /// Bytes of flushes and of compactions since the store was opened.
    pub(super) fn bytes(&self) -> [u64; 2] {
        [&self.flushed, &self.compacted].map(|bytes| bytes.load(Ordering::Relaxed))
    }
}

impl EventListener for Told {
    fn on_event(&self, event: &Event) {
        match event {
            Event::Flushed { bytes_written, .. } => {
                self.flushed.fetch_add(*bytes_written, Ordering::Relaxed);
            }
            Event::CompactionFinished { bytes_written, .. } => {
                self.compacted.fetch_add(*bytes_written, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

/// Bytes that a store has written to its log and tables since it was opened, as it counts them.
pub(super) fn written_bytes(db: &Db) -> u64 {
    let stats = db.stats();
    let levels = stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    let tables: u64 = levels.map(|level| level.bytes_written).sum();
    tables + stats.writes.wal_bytes + stats.values.moved_bytes
}

/// Bytes of disk, by seconds since the beginning.
pub(super) type Space = Vec<(f64, u64)>;

/// Does something while somebody looks at a directory again and again. Returns what came of it, and
/// the bytes of the directory: before, meanwhile, and after.
pub(super) fn space_during<T>(
    dir: &Path,
    work: impl FnOnce() -> Outcome<T>,
) -> Outcome<(T, Space)> {
    let over = AtomicBool::new(false);
    let start = Instant::now();
    let look = || (start.elapsed().as_secs_f64(), disk_bytes(dir));
    let before = look();
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut seen = vec![before];
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK);
                seen.push(look());
            }
            seen
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        let mut seen = watcher.join().map_err(|_| "whoever looked at the disk panicked")?;
        seen.push(look());
        Ok((done?, seen))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_that_come_and_go_are_seen() {
        let dir = std::env::temp_dir().join(format!("esker-space-test-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let come_and_go = || -> Outcome<u8> {
            fs::write(dir.join("file"), vec![1; 1 << 20])?;
            std::thread::sleep(10 * LOOK);
            fs::remove_file(dir.join("file"))?;
            Ok(7)
        };
        let (done, space) = space_during(&dir, come_and_go).expect("done");
        let failed = space_during(&dir, || Err::<(), _>("no".into()));
        fs::remove_dir_all(&dir).expect("removed");
        assert_eq!(done, 7);
        let most = space.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        assert!(most >= 1 << 20, "{space:?}");
        assert!(space.first().is_some_and(|first| first.1 < 1 << 20), "{space:?}");
        assert!(space.last().is_some_and(|last| last.1 < 1 << 20), "{space:?}");
        assert_eq!(failed.expect_err("it failed").to_string(), "no");
    }
}
