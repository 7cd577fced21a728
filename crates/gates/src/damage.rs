//! Gate: whatever happens to a file at rest, the store gives the right data or says `Corruption`.
//!
//! ```text
//! for each specimen, file and damage:
//!     open read-only and read-write; scan forward, backward and without order; get every key; verify
//!     each answer is right, or an error that names a file; verify finds all damage of tables
//! ```
//!
//! What may be missing: the end of the newest log of a store that was not closed. A damaged record
//! behind the last mark was never vouched for: it and what follows is dropped, exactly. So is what
//! is cut from that log's end, marks and all: nothing else in the store says how long the log was.

use crate::gate::{Config, Outcome, Watchdog, case_seed, for_cases, guarded};
use crate::history::{KEYSPACES, MARKER, State, marker_number, walk_unordered};
use crate::memory::peak_of;
use crate::random::Random;
use crate::script::{DIR, World};
use crate::specimen::{self, Specimen};
use esker::base::Vfs;
use esker::base::sync::Mutex;
use esker::base::vfs::strict::StrictVfs;
use esker::report::LevelStats;
use esker::{Db, Error, Keyspace, ScanOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Most memory that an open and a scan of a small store may take.
const MEMORY_BYTES_MAX: u64 = 64 << 20;

/// The unit in which disks lose and mix up data.
const PAGE_BYTES: usize = 512;

/// What is done to a file.
#[derive(Clone, Debug)]
enum Damage {
    Flip(u64),
    Cut(u64),
    Missing,
    ZeroPage(usize),
    SwapPages(usize, usize),
    /// Index into the specimen's other contents of the file.
    Replace(usize),
    /// Several random changes, from this seed.
    Random(u64),
}

/// A damage to be tried.
struct Trial {
    specimen: usize,
    path: PathBuf,
    damage: Damage,
}

/// Violations by what they have in common, with how many there were and the first.
type Violations = BTreeMap<String, (u64, String)>;

/// Runs the gate.
pub fn gate(config: &Config) -> Outcome {
    let specimens = specimen::all(config.seed).map_err(|e| format!("making specimens: {e}"))?;
    for specimen in &specimens {
        check_specimen(specimen)?;
    }
    let trials = trials(&specimens, config);
    let violations: Mutex<Violations> = Mutex::default();
    let (found, right, shorter) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let peak = AtomicU64::new(0);
    let watchdog = Watchdog::start(Duration::from_secs(30));
    for_cases(config, trials.len() as u64, |case| {
        let trial = &trials[case as usize];
        let specimen = &specimens[trial.specimen];
        let name = || format!("{}: {}: {:?}", specimen.name, trial.path.display(), trial.damage);
        watchdog.alive(name());
        let (result, bytes) = peak_of(|| guarded(|| try_one(specimen, trial)));
        peak.fetch_max(bytes, Ordering::Relaxed);
        let result = match result {
            Ok(_) if bytes > MEMORY_BYTES_MAX => Err(format!("it took {bytes} bytes of memory")),
            other => other,
        };
        match result {
            Ok(Verdict::Found) => _ = found.fetch_add(1, Ordering::Relaxed),
            Ok(Verdict::Right) => _ = right.fetch_add(1, Ordering::Relaxed),
            Ok(Verdict::ShorterLog) => _ = shorter.fetch_add(1, Ordering::Relaxed),
            Err(message) => {
                let first = format!("case {case}: {}: {message}", name());
                violations.lock().entry(gist(&first)).or_insert((0, first)).0 += 1;
            }
        }
        Ok(())
    })?;
    let violations = violations.into_inner();
    if violations.is_empty() {
        let kib = peak.into_inner() >> 10;
        let [found, right, shorter] = [found, right, shorter].map(AtomicU64::into_inner);
        let tried = found + right + shorter;
        return Ok(format!(
            "{tried} damages, {found} found, {right} without effect, {shorter} open logs cut and passed as \
             shorter, at most {kib} KiB of memory"
        ));
    }
    let lines: Vec<String> =
        violations.values().map(|(count, first)| format!("{count} times: {first}")).collect();
    Err(lines.join("\n"))
}

/// A report without its numbers.
fn gist(report: &str) -> String {
    report.chars().filter(|c| !c.is_ascii_digit()).take(160).collect()
}

/// Undamaged, a specimen holds everything, of every kind of file.
fn check_specimen(specimen: &Specimen) -> Result<(), String> {
    let fail = |what: &str| Err(format!("specimen {:?}: {what}", specimen.name));
    let files = specimen.files();
    let count = |end: &str| files.iter().filter(|f| f.to_string_lossy().ends_with(end)).count();
    if count(".tbl") < 5 || count(".wal") < 2 {
        return fail(&format!("it has the files {files:?}"));
    }
    for path in &files {
        let bytes = specimen.disk.read_file(path).map_err(|e| e.to_string())?;
        let content = bytes.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
        if content > 16 << 10 {
            return fail(&format!("{} has {content} bytes", path.display()));
        }
    }
    if specimen.partitions_max() < 2 {
        return fail("no table has an index of two partitions");
    }
    let disk = specimen.disk.deep_copy();
    let all = specimen.history.attempted();
    let db = World::plain(&disk).open(DIR, &specimen.options).map_err(|e| e.to_string())?;
    let tiered = |levels: &[LevelStats]| levels.iter().skip(1).any(|level| level.runs > 1);
    if !db.stats().keyspaces.iter().any(|keyspace| tiered(&keyspace.levels)) {
        return fail("no level but level 0 has several runs");
    }
    let mut seen = Seen::default();
    seen.check_store(&db, &|count| specimen.state(count), all)?;
    let survived = seen.count.unwrap_or(0);
    let lost = specimen.name == "power cut" && survived < all;
    if seen.error.is_none() && (survived == all || lost) { Ok(()) } else { fail("it is not whole") }
}

fn trials(specimens: &[Specimen], config: &Config) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (i, specimen) in specimens.iter().enumerate() {
        for path in specimen.files() {
            let bytes = specimen.disk.read_file(&path).unwrap_or_default();
            let content = bytes.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
            // Reserved space behind the content: some of it will do.
            let some = (content + 100).min(bytes.len());
            let far = (some..bytes.len()).step_by(4999);
            let mut add = |damage| {
                trials.push(Trial { specimen: i, path: path.clone(), damage });
            };
            // What is the same in all specimens is done whole in the first, and in part in the
            // others.
            let known = i > 0 && path.extension().is_some_and(|e| e == "tbl");
            let known = known || specimen.name.contains("reserved");
            let stride = if known && !config.long { 61 } else { 1 };
            // One or two bits of each byte will do in the short form, a different one each time.
            let bits = if config.long { 1 } else { stride.max(5) };
            (0..some as u64 * 8).step_by(bits).for_each(|bit| add(Damage::Flip(bit)));
            far.clone().for_each(|at| add(Damage::Flip(at as u64 * 8)));
            (0..some).step_by(stride).chain(far).for_each(|at| add(Damage::Cut(at as u64)));
            add(Damage::Missing);
            let pages = content.div_ceil(PAGE_BYTES).min(if stride == 1 { usize::MAX } else { 2 });
            for a in 0..pages {
                add(Damage::ZeroPage(a));
                (a + 1..pages).for_each(|b| add(Damage::SwapPages(a, b)));
            }
            let others = specimen.others.get(&path).map_or(0, Vec::len);
            (0..others).for_each(|other| add(Damage::Replace(other)));
            let random = config.choose(100, 20_000);
            (0..random).for_each(|i| add(Damage::Random(case_seed(config.seed, i))));
        }
    }
    trials
}

/// The damaged contents; `None` if the file is gone.
fn damaged(
    specimen: &Specimen,
    path: &Path,
    damage: &Damage,
    mut bytes: Vec<u8>,
) -> Option<Vec<u8>> {
    match damage {
        Damage::Flip(bit) => bytes[(bit / 8) as usize] ^= 1 << (bit % 8),
        Damage::Cut(at) => bytes.truncate(*at as usize),
        Damage::Missing => return None,
        Damage::ZeroPage(page) => {
            let end = bytes.len().min((page + 1) * PAGE_BYTES);
            bytes[page * PAGE_BYTES..end].fill(0);
        }
        Damage::SwapPages(a, b) => {
            let (a, b) = (a * PAGE_BYTES, b * PAGE_BYTES);
            // The last page may be shorter.
            for i in 0..PAGE_BYTES.min(bytes.len() - b) {
                bytes.swap(a + i, b + i);
            }
        }
        Damage::Replace(other) => bytes.clone_from(&specimen.others[path][*other].1),
        Damage::Random(seed) => {
            let mut random = Random::new(*seed);
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                let len = (1 + random.below(16) as usize).min(bytes.len() - at);
                let new = random.next_u64().to_le_bytes();
                (0..len).for_each(|i| bytes[at + i] = new[i % 8].wrapping_add(i as u8));
            }
        }
    }
    Some(bytes)
}

/// Tries one damage.
fn try_one(specimen: &Specimen, trial: &Trial) -> Result<Verdict, String> {
    let disk = specimen.disk.deep_copy();
    let path = &trial.path;
    let before = disk.read_file(path).map_err(|e| e.to_string())?;
    let after = damaged(specimen, path, &trial.damage, before.clone());
    match &after {
        Some(bytes) => disk.write_file(path, bytes).map_err(|e| e.to_string())?,
        None => disk.remove(path).map_err(|e| e.to_string())?,
    }
    let allowed = Allowed::new(specimen, trial, &before, after.as_deref());
    let world = World::plain(&disk);
    let mut read_only = Seen::default();
    match world.open_read_only(DIR, &specimen.options) {
        Ok(db) => {
            read_only.check(&db, specimen, &allowed)?;
            read_only.check_verify(&db)?;
        }
        Err(error) => read_only.note(&error)?,
    }
    let harmless = after.as_deref() == Some(&before[..]);
    let table = path.extension().is_some_and(|e| e == "tbl");
    let mut seen = Seen::default();
    if table && matches!(trial.damage, Damage::Flip(bit) if bit % 8 != 3) {
        // A store that is opened for writing reads tables in the same way: one bit a byte will do.
        seen = read_only;
    } else {
        match world.open(DIR, &specimen.options) {
            Ok(db) => {
                seen.check(&db, specimen, &allowed)?;
                seen.check_verify(&db)?;
            }
            Err(error) => seen.note(&error)?,
        }
    }
    if table && seen.error.is_none() && !harmless {
        return Err("the damage to the table was not found".to_owned());
    }
    if let Some(error) = &seen.error {
        check_named(error, trial, &disk)?;
    }
    Ok(match (&seen.error, seen.count) {
        (Some(_), _) => Verdict::Found,
        (None, Some(count)) if count < allowed.all && allowed.unvouched => Verdict::ShorterLog,
        _ => Verdict::Right,
    })
}

/// What came of a damage.
enum Verdict {
    Found,
    Right,
    /// The open log of an unclosed store was cut, and passed as a shorter one.
    ShorterLog,
}

/// The error names the damaged file, or the one that contradicts it.
fn check_named(error: &Error, trial: &Trial, disk: &StrictVfs) -> Result<(), String> {
    let named = error.path().map(Path::to_path_buf).unwrap_or_default();
    let swapped = matches!(trial.damage, Damage::Replace(_) | Damage::Random(_));
    let in_store = named.starts_with(DIR) && named != Path::new(DIR);
    // A manifest that lost its end is sound in itself; it contradicts the other files.
    let manifest = trial.path.to_string_lossy().contains("MANIFEST");
    let shorter = manifest && !matches!(trial.damage, Damage::Flip(_));
    let right = named == trial.path || ((swapped || shorter) && in_store);
    // A file that is not there is noticed through the one that names it.
    let other = !disk.exists(&trial.path).unwrap_or(true) && in_store;
    if right || other {
        return Ok(());
    }
    Err(format!("the error names {}: {error}", named.display()))
}

/// How many batches may be left.
struct Allowed {
    /// Exactly these many are right, beside all of them.
    fewer: Option<usize>,
    all: usize,
    /// Several changes at once: any number from here on.
    any_from: Option<usize>,
    /// The damage took the marks that vouched for what it took.
    unvouched: bool,
}

impl Allowed {
    fn new(specimen: &Specimen, trial: &Trial, before: &[u8], after: Option<&[u8]>) -> Allowed {
        let whole = specimen.history.attempted();
        let cut_off = (specimen.name == "power cut").then_some(());
        let all = match (&specimen.open_log, cut_off) {
            (Some(log), Some(())) => {
                specimen.batches_before(log, u64::MAX) - lost_to_power(specimen)
            }
            _ => whole,
        };
        let mut allowed = Allowed { fewer: None, all, any_from: None, unvouched: false };
        let Some(log) = &specimen.open_log else { return allowed };
        let Some(after) = after else { return allowed };
        if log.path != trial.path {
            return allowed;
        }
        let first = before.iter().zip(after).position(|(a, b)| a != b);
        let first = first.unwrap_or(before.len().min(after.len())) as u64;
        let record = log.records.iter().find(|r| r.end > first).map_or(first, |r| r.start);
        // Where the file now ends, marks are gone as well: nothing vouches for what was cut.
        let shorter = match trial.damage {
            Damage::Cut(_) => true,
            Damage::Replace(_) => before.starts_with(&after[..first as usize]),
            _ => false,
        };
        allowed.unvouched = shorter && record < log.vouched;
        if shorter || record >= log.vouched {
            let count = specimen.batches_before(log, record) - (whole - all);
            allowed.fewer = Some(count);
        }
        if matches!(trial.damage, Damage::Random(_) | Damage::SwapPages(..) | Damage::ZeroPage(_)) {
            allowed.any_from = Some(specimen.batches_before(log, record) - (whole - all));
        }
        allowed
    }

    fn accepts(&self, count: usize) -> bool {
        count == self.all
            || self.fewer == Some(count)
            || self.any_from.is_some_and(|from| (from..=self.all).contains(&count))
    }
}

/// Batches that the power cut took from the specimen.
fn lost_to_power(specimen: &Specimen) -> usize {
    let disk = specimen.disk.deep_copy();
    let db = World::plain(&disk).open(DIR, &specimen.options);
    let marker = db.ok().and_then(|db| db.get(MARKER).ok().flatten());
    let count = marker.and_then(|value| marker_number(&value)).unwrap_or(0);
    specimen.history.attempted() - count
}

/// What a damaged store said.
#[derive(Default)]
struct Seen {
    /// The first error.
    error: Option<Error>,
    /// How many batches it claims to hold.
    count: Option<usize>,
}

impl Seen {
    /// An error of the right kind, or a violation.
    fn note(&mut self, error: &Error) -> Result<(), String> {
        match error {
            Error::Corruption { .. } | Error::Incompatible { .. } => {
                self.error.get_or_insert_with(|| error.clone());
                Ok(())
            }
            other => Err(format!("the wrong error: {other:?}")),
        }
    }

    fn check(&mut self, db: &Db, specimen: &Specimen, allowed: &Allowed) -> Result<(), String> {
        self.check_store(db, &|count| specimen.state(count), allowed.all)?;
        match self.count {
            Some(count) if !allowed.accepts(count) => {
                let expected = (allowed.all, allowed.fewer);
                Err(format!("silently, {count} batches are left; right is one of {expected:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Checks each answer for itself. `all`: how many batches there are if the marker cannot be
    /// read.
    fn check_store(
        &mut self,
        db: &Db,
        state_after: &dyn Fn(usize) -> State,
        all: usize,
    ) -> Result<(), String> {
        let count = match db.get(MARKER) {
            Ok(Some(value)) => {
                let count = marker_number(&value).filter(|&count| count <= all);
                let count = count.ok_or_else(|| format!("silently, the marker is {value:?}"))?;
                self.count = Some(count);
                count
            }
            Ok(None) => {
                self.count = Some(0);
                0
            }
            Err(error) => {
                self.note(&error)?;
                all
            }
        };
        let state = state_after(count);
        let names = db.keyspace_names();
        for (i, expected) in state.iter().enumerate() {
            let name = if i == 0 { "default" } else { KEYSPACES[i - 1] };
            if !names.iter().any(|n| n == name) {
                if expected.is_empty() {
                    continue;
                }
                return Err(format!("silently, keyspace {name} is gone"));
            }
            let keyspace = db.keyspace(name).map_err(|e| e.to_string())?;
            self.check_keyspace(&keyspace, expected)
                .map_err(|e| format!("{count} batches, keyspace {name}: {e}"))?;
        }
        Ok(())
    }

    fn check_keyspace(
        &mut self,
        keyspace: &Keyspace,
        expected: &BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> Result<(), String> {
        for backward in [false, true] {
            let rows: Vec<_> = match backward {
                false => expected.iter().collect(),
                true => expected.iter().rev().collect(),
            };
            let scanned = scan(keyspace, &rows, backward);
            match scanned {
                Ok(None) => {}
                Ok(Some(wrong)) => return Err(format!("silently, backward {backward}: {wrong}")),
                Err(error) => self.note(&error)?,
            }
        }
        match walk_unordered(keyspace, expected) {
            Ok(None) => {}
            Ok(Some(wrong)) => return Err(format!("silently, {wrong}")),
            Err(error) => self.note(&error)?,
        }
        for (key, value) in expected {
            match keyspace.get(key) {
                Ok(Some(found)) if found == *value => {}
                Ok(found) => {
                    let found = found.map(|v| v.len());
                    return Err(format!("silently, get {}: {found:?}", key.escape_ascii()));
                }
                Err(error) => self.note(&error)?,
            }
            match keyspace.get(&[key, &b"!"[..]].concat()) {
                Ok(None) => {}
                Ok(Some(_)) => return Err("silently, a key appeared".to_owned()),
                Err(error) => self.note(&error)?,
            }
        }
        Ok(())
    }

    fn check_verify(&mut self, db: &Db) -> Result<(), String> {
        let report = db.verify(|_| true).map_err(|e| format!("verify itself fails: {e}"))?;
        for (_, error) in report.damage {
            self.note(&error)?;
        }
        Ok(())
    }
}

type Row<'a> = (&'a Vec<u8>, &'a Vec<u8>);

/// Scans. `Some`: a wrong row.
fn scan(keyspace: &Keyspace, rows: &[Row<'_>], backward: bool) -> Result<Option<String>, Error> {
    let mut cursor = keyspace.scan(&ScanOptions::default())?;
    if backward {
        cursor.seek_to_last()?;
    } else {
        cursor.seek_to_first()?;
    }
    for (key, value) in rows {
        if !cursor.valid() || cursor.key() != &key[..] || cursor.value() != &value[..] {
            return Ok(Some(format!("not the row {}", key.escape_ascii())));
        }
        if backward { cursor.prev()? } else { cursor.next()? }
    }
    Ok(cursor.valid().then(|| format!("a row {} too many", cursor.key().escape_ascii())))
}
