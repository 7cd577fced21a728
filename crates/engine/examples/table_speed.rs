//! What a table costs: ns per add, per warm get, per miss, per step of a cursor.
//!
//! Usage:
//! `table_speed [thousand entries] [block KiB] [restart interval] [none|lz4|zstd] [thousand gets]`.

use esker::base::checksum::{hash64, mix64};
use esker::base::key::SEQ_MAX;
use esker::base::vfs::Access;
use esker::base::{Env, Kind, Result, Trailer};
use esker::cursor::Cursor;
use esker::options::{Compression, KeyspaceOptions};
use esker::stats::{TableCounter, TableCounters};
use esker::table::{BlockCache, CursorOptions, TableBuilder, TableContext, TableFile, TableReader};
use std::hint::black_box;
use std::sync::Arc;

const VALUE_BYTES: usize = 100;

fn key(i: u64) -> [u8; 16] {
    let mut key = *b"0000000000000000";
    let mut rest = i;
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

struct Bench {
    env: Env,
    entries: u64,
}

impl Bench {
    fn report(&self, name: &str, count: u64, start_ns: u64) {
        let ns = (self.env.clock.now_ns() - start_ns) as f64 / count as f64;
        println!("{name:<34} {ns:>8.1} ns {:>9.2} M/s", 1e3 / ns);
    }

    fn walk(&self, name: &str, table: &Arc<TableReader>, options: CursorOptions) -> Result<()> {
        let start = self.env.clock.now_ns();
        let mut cursor = table.cursor(options);
        let mut sum = 0u64;
        let mut count = 0;
        cursor.seek_to_first()?;
        while cursor.valid() {
            sum += u64::from(cursor.key()[15]) + cursor.value().len() as u64 + cursor.trailer().0;
            count += 1;
            cursor.next()?;
        }
        black_box(sum);
        assert_eq!(count, self.entries);
        self.report(name, count, start);
        Ok(())
    }

    /// Times a walk from the last record to the first.
    fn walk_back(&self, table: &Arc<TableReader>) -> Result<()> {
        let start = self.env.clock.now_ns();
        let mut cursor = table.cursor(CursorOptions::default());
        cursor.seek_to_last()?;
        while cursor.valid() {
            black_box(cursor.value());
            cursor.prev()?;
        }
        self.report("prev, cached", self.entries, start);
        Ok(())
    }

    /// Times point lookups and seeks.
    fn gets(&self, table: &Arc<TableReader>, gets: u64) -> Result<()> {
        for (name, odd) in [("get, warm", 0), ("get, warm, again", 0), ("get of a missing key", 1)]
        {
            let start = self.env.clock.now_ns();
            let mut found = 0u64;
            for i in 0..gets {
                let key = key(mix64(i) % self.entries * 2 + odd);
                if let Some((_, value)) = table.get(&key, hash64(&key), SEQ_MAX, None)? {
                    found += 1;
                    black_box(value[0]);
                }
            }
            self.report(name, gets, start);
            assert_eq!(found, if odd == 0 { gets } else { 0 });
        }
        let start = self.env.clock.now_ns();
        let seeks = gets / 4;
        let mut cursor = table.cursor(CursorOptions::default());
        for i in 0..seeks {
            let key = key(mix64(i) % self.entries * 2);
            cursor.seek(&key, Trailer::seek(SEQ_MAX))?;
            black_box(cursor.value());
        }
        self.report("seek, warm", seeks, start);
        Ok(())
    }
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let number =
        |i: usize, default: u64| args.get(i).and_then(|a| a.parse::<u64>().ok()).unwrap_or(default);
    let entries = number(1, 2_000) * 1_000;
    let options = KeyspaceOptions {
        block_bytes: (number(2, 4) << 10) as u32,
        restart_interval: number(3, 16) as u32,
        compression: vec![match args.get(4).map(String::as_str) {
            Some("lz4") => Compression::Lz4,
            Some("zstd") => Compression::Zstd { level: 3 },
            _ => Compression::None,
        }],
        ..KeyspaceOptions::default()
    };
    let bench = Bench { env: Env::posix(), entries };
    let env = &bench.env;
    let dir = std::env::temp_dir().join(format!("table-speed-{}", env.entropy.next_u64()));
    env.vfs.create_dir_all(&dir)?;
    let path = dir.join("1.sst");

    let noise: Vec<u8> = (0..(1u64 << 20) / 8).flat_map(|i| mix64(i).to_le_bytes()).collect();
    let value = |i: u64| {
        let at = (mix64(i) as usize) % (noise.len() - VALUE_BYTES);
        &noise[at..at + VALUE_BYTES]
    };
    let start = env.clock.now_ns();
    let mut builder = TableBuilder::new(env.vfs.create(&path)?, &path, &options, 0, 42);
    for i in 0..entries {
        builder.add(&key(i * 2), Trailer::new(1 + i, Kind::Put), value(i))?;
    }
    bench.report("add", entries, start);
    let summary = builder.finish()?;
    bench.report("add, with finish and sync", entries, start);
    println!("{} MiB", summary.file_bytes >> 20);

    let counters = Arc::new(TableCounters::new());
    let context = TableContext {
        cache: Arc::new(BlockCache::new(2 << 30)),
        number: 1,
        counters: counters.clone(),
        pin_bytes_max: 64 << 20,
    };
    let file = env.vfs.open(&path, Access::Random)?;
    let file = TableFile::new(file, &path, summary.file_bytes, 42);
    let table = TableReader::open(file, &options, &context)?;
    let table = Arc::new(table);

    bench.walk("next, compaction reads", &table, CursorOptions::compaction(512 << 10))?;
    bench.walk("next, cold, filling the cache", &table, CursorOptions::default())?;
    bench.walk("next, cached", &table, CursorOptions::default())?;
    bench.walk("next, cached, again", &table, CursorOptions::default())?;

    bench.walk_back(&table)?;
    bench.gets(&table, number(5, 4_000) * 1_000)?;
    println!(
        "cache {} MiB of {}, pinned {} KiB, false positives {}",
        context.cache.usage_bytes() >> 20,
        context.cache.entries(),
        table.memory_bytes() >> 10,
        counters.total(TableCounter::FilterFalsePositives)
    );
    env.vfs.remove(&path)?;
    env.vfs.remove_dir(&dir)
}
