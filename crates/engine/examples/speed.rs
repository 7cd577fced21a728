//! A first look at speed: fill, read, scan. `cargo run --release --example speed -- [entries] [value bytes]`
#![allow(missing_docs, clippy::disallowed_methods, clippy::unwrap_used, reason = "an example")]
use esker::{Db, Options, ScanOptions};
use std::time::Instant;

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let n: u64 = args.next().map_or(1_000_000, |a| a.parse().unwrap());
    let value_bytes: usize = args.next().map_or(100, |a| a.parse().unwrap());
    let dir = std::env::temp_dir().join("esker-speed");
    let _ = std::fs::remove_dir_all(&dir);
    let db = Db::open(&dir, Options::default()).unwrap();
    let value: Vec<u8> =
        (0..value_bytes).map(|i| if i % 2 == 0 { 0 } else { mix(i as u64) as u8 }).collect();
    let key = |i: u64| format!("{:016}", mix(i) % n);
    let time = |name: &str, count: u64, f: &mut dyn FnMut() -> u64| {
        let start = Instant::now();
        let found = f();
        let s = start.elapsed().as_secs_f64();
        println!(
            "{name:12} {:10.0} ops/s  {:7.3} us  ({found})",
            count as f64 / s,
            s * 1e6 / count as f64
        );
    };
    let mut worst = 0.0f64;
    time("fillrandom", n, &mut || {
        for i in 0..n {
            let t = Instant::now();
            db.put(key(i).as_bytes(), &value).unwrap();
            worst = worst.max(t.elapsed().as_secs_f64());
        }
        n
    });
    println!("worst put {:.1} ms", worst * 1e3);
    let reads = n.min(1_000_000);
    for name in ["readrandom", "readrandom2"] {
        time(name, reads, &mut || {
            (0..reads).filter(|&i| db.get(key(mix(i)).as_bytes()).unwrap().is_some()).count() as u64
        });
    }
    time("readmissing", reads, &mut || {
        (0..reads).filter(|&i| db.get(format!("{}x", key(i)).as_bytes()).unwrap().is_some()).count()
            as u64
    });
    let t = Instant::now();
    db.wait_idle().unwrap();
    println!("wait_idle {:.2} s", t.elapsed().as_secs_f64());
    for name in ["readrandom", "readrandom2"] {
        time(name, reads, &mut || {
            (0..reads).filter(|&i| db.get(key(mix(i)).as_bytes()).unwrap().is_some()).count() as u64
        });
    }
    for name in ["readseq", "readseq2"] {
        time(name, n, &mut || {
            let mut c = db.default_keyspace().scan(&ScanOptions::default()).unwrap();
            c.seek_to_first().unwrap();
            let mut count = 0;
            while c.valid() {
                count += 1;
                c.next().unwrap();
            }
            count
        });
    }
    let stats = db.stats();
    for (i, l) in stats.keyspaces[0].levels.iter().enumerate() {
        println!(
            "L{i}: {} runs {} tables {} MiB, {} jobs {} moves wrote {} MiB in {} ms",
            l.runs,
            l.tables,
            l.bytes >> 20,
            l.jobs,
            l.moves,
            l.bytes_written >> 20,
            l.duration_us / 1000
        );
    }
    println!(
        "slowed {} {} us max {} us; memory {:?}",
        stats.writes.slowed, stats.writes.slowed_us, stats.writes.slowed_us_max, stats.memory
    );
    db.close().unwrap();
}
