//! Fifth section: a process that writes is killed, and what it left is opened.
//!
//! ```text
//! spawn child -> read acknowledgements for a while -> SIGKILL -> read the rest of the pipe
//!             -> open (recovery) -> the records must be 0..n, with every acknowledged one among them
//! ```

use super::child::{SYNCED, key, value};
use super::state::Tour;
use crate::clock::Stopwatch;
use crate::failure::{Failure, Result};
use crate::units;
use esker::event::Event;
use esker::{Db, ScanOptions, Setup};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often the process is killed.
const ROUNDS: u64 = 3;
/// How long it may write, from its first acknowledgement on, in seconds. Different each time.
const WRITING_SECONDS: [f64; ROUNDS as usize] = [0.7, 1.3, 1.0];

/// What the acknowledgements said.
#[derive(Clone, Copy, Debug, Default)]
struct Acked {
    /// Records, from 0 on, that were acknowledged.
    records: u64,
    /// How many of them were also synced.
    synced: u64,
    seconds: f64,
}

/// What stood in the store afterwards.
#[derive(Debug, Default)]
struct Survivors {
    records: u64,
    /// Something else than records 0..n with their values.
    wrong: u64,
}

/// Kills, opens, checks, several times on the same store.
pub(super) fn kill(tour: &mut Tour<'_>, dir: &Path) -> Result<()> {
    let mut first = 0;
    for round in 0..ROUNDS {
        tour.pause()?;
        let acked = write_and_die(tour, dir, first, WRITING_SECONDS[round as usize])?;
        let torn_bytes = Arc::new(AtomicU64::new(0));
        let watch = Stopwatch::start();
        let db = Db::open_with(dir, tour.plan.options.clone(), counting(&torn_bytes))?;
        let recovery_ns = watch.ns();
        let survivors = survivors(&db)?;
        db.close()?;
        let written = acked.records - first;
        let rate = units::rate(written, acked.seconds);
        let remark = format!("writes acknowledged at {rate}, then SIGKILL");
        tour.show.figure(&format!("round {}", round + 1), written, &remark)?;
        let remark = format!(
            "to open it; {} records, {} of a torn write dropped",
            units::count(survivors.records),
            units::bytes(torn_bytes.load(Ordering::Relaxed))
        );
        tour.show.text_figure("recovery", &units::duration_ns(recovery_ns), &remark)?;
        let lost = acked.records.saturating_sub(survivors.records);
        let what = format!("none of the {} acknowledged is lost", units::count(acked.records));
        tour.show.check(lost == 0, &what)?;
        let whole = survivors.wrong == 0 && acked.synced <= survivors.records;
        tour.show.check(whole, "the records are 0 to n without a gap, every value right")?;
        let figures = &mut tour.figures;
        figures.kills += 1;
        figures.killed_acknowledged += written;
        figures.came_back += survivors.records - first.min(survivors.records);
        figures.kill_seconds += acked.seconds;
        figures.recovery_ns_max = figures.recovery_ns_max.max(recovery_ns);
        first = survivors.records;
    }
    Ok(())
}

/// Counts the bytes of writes that the kill cut off: they are expected here.
fn counting(torn: &Arc<AtomicU64>) -> Setup {
    let torn = torn.clone();
    let listener = move |event: &Event| {
        if let Event::WalReplayed { torn_bytes, .. } = event {
            torn.fetch_add(*torn_bytes, Ordering::Relaxed);
        }
    };
    Setup { listener: Some(Arc::new(listener)), ..Setup::default() }
}

/// Starts the child and kills it when it has written for a while.
fn write_and_die(tour: &Tour<'_>, dir: &Path, first: u64, seconds: f64) -> Result<Acked> {
    let fail = |error: io::Error| Failure::other(format!("cannot run the child: {error}"));
    let mut child = Command::new(std::env::current_exe().map_err(fail)?)
        .arg("tour-writer")
        .arg("--db")
        .arg(dir)
        .args(["--first", &first.to_string()])
        .args(&tour.plan.child_args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // What interrupts this process interrupts the child by it.
        .process_group(0)
        .spawn()
        .map_err(fail)?;
    let acked = listen(tour, &mut child, first, seconds);
    // Also if listening failed: nobody may be left behind.
    let killed = child.kill().and_then(|()| child.wait());
    let mut acked = acked?;
    killed.map_err(fail)?;
    let mut rest = Vec::new();
    if let Some(pipe) = &mut child.stdout {
        pipe.read_to_end(&mut rest).map_err(fail)?;
    }
    acked.1.extend(rest);
    let mut told = acked.0;
    take(&acked.1, &mut told);
    Ok(told)
}

/// Reads acknowledgements until it is time. Returns them, and bytes that were not looked at.
fn listen(
    tour: &Tour<'_>,
    child: &mut Child,
    first: u64,
    seconds: f64,
) -> Result<(Acked, Vec<u8>)> {
    let pipe = child.stdout.as_mut().ok_or_else(|| Failure::other("the child has no output"))?;
    let mut acked = Acked { records: first, ..Acked::default() };
    let mut pending = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let mut watch: Option<Stopwatch> = None;
    loop {
        let read = pipe
            .read(&mut buffer)
            .map_err(|error| Failure::other(format!("cannot read from the child: {error}")))?;
        if read == 0 {
            // What interrupts this process may have come to the child before it had a group of its
            // own.
            tour.pause()?;
            return Err(Failure::other("the child ended by itself: see its message above"));
        }
        pending.extend_from_slice(&buffer[..read]);
        let used = take(&pending, &mut acked);
        pending.drain(..used);
        let watch = watch.get_or_insert_with(Stopwatch::start);
        acked.seconds = watch.seconds();
        if acked.seconds >= seconds || tour.interrupt.asked() {
            return Ok((acked, pending));
        }
    }
}

/// Takes whole acknowledgements off the bytes; returns how many bytes they took.
fn take(bytes: &[u8], acked: &mut Acked) -> usize {
    let (acks, _) = bytes.as_chunks::<8>();
    for ack in acks {
        let ack = u64::from_le_bytes(*ack);
        acked.records = (ack & !SYNCED) + 1;
        if ack & SYNCED != 0 {
            acked.synced = acked.records;
        }
    }
    acks.len() * 8
}

/// Reads the whole store: which numbers are there, and are they what was written.
fn survivors(db: &Db) -> Result<Survivors> {
    let mut survivors = Survivors::default();
    let mut seen: Vec<bool> = Vec::new();
    let options = ScanOptions { fill_cache: false, ..ScanOptions::default() };
    let mut cursor = db.default_keyspace().scan(&options)?;
    cursor.seek_to_first()?;
    while cursor.valid() {
        let number = cursor.value().first_chunk::<8>().map(|n| u64::from_le_bytes(*n));
        match number {
            Some(n) if *cursor.value() == value(n) && *cursor.key() == key(n) => {
                let at = n as usize;
                if seen.len() <= at {
                    seen.resize(at + 1, false);
                }
                survivors.wrong += u64::from(seen[at]);
                seen[at] = true;
            }
            _ => survivors.wrong += 1,
        }
        survivors.records += 1;
        cursor.next()?;
    }
    survivors.wrong += seen.iter().filter(|seen| !**seen).count() as u64;
    Ok(survivors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_are_read_in_pieces() {
        let mut bytes = Vec::new();
        for ack in [0, 1, 2 | SYNCED, 3] {
            bytes.extend_from_slice(&ack.to_le_bytes());
        }
        bytes.push(9);
        let mut acked = Acked::default();
        assert_eq!(take(&bytes, &mut acked), 32);
        assert_eq!((acked.records, acked.synced), (4, 3));
    }

    #[test]
    fn a_gap_and_a_wrong_value_are_found() {
        let dir = std::env::temp_dir().join(format!("esker-kill-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let db = Db::open(&dir, super::super::state::small_tree()).expect("open");
        for n in [0, 1, 2, 4] {
            db.put(&key(n), &value(n)).expect("put");
        }
        let found = survivors(&db).expect("scan");
        assert_eq!((found.records, found.wrong), (4, 1), "3 is missing");
        db.put(&key(3), &value(7)).expect("put");
        let found = survivors(&db).expect("scan");
        assert_eq!((found.records, found.wrong), (5, 2), "3 is missing, and one is wrong");
        db.put(&key(3), &value(3)).expect("put");
        assert_eq!(survivors(&db).expect("scan").wrong, 0);
        db.close().expect("close");
        std::fs::remove_dir_all(&dir).expect("remove");
    }
}
