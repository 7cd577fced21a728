//! What the system says of this process and of a directory.

use esker_draw::Outcome;
use esker_draw::units::bytes;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// One look of [`wait_until_idle`], and how many in a row must find nothing.
const IDLE_LOOK: Duration = Duration::from_millis(50);
const IDLE_LOOKS: u32 = 6;
/// Between two looks at the memory of this process.
const MEMORY_LOOK: Duration = Duration::from_millis(20);
/// Between two looks at the disk.
const DISK_LOOK: Duration = Duration::from_millis(100);
/// How many times as long as a look takes nobody looks.
const LOOK_REST: u32 = 200;
/// Processor time of a look in which a process counts as idle.
const IDLE_NS_MAX: u64 = 2_000_000;

/// Counters of the process that only grow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Processor time of all threads, user and system.
    pub cpu_ns: u64,
    /// Bytes that the process made the system write to disk, page cache included; 0 if the system
    /// does not say.
    pub written_bytes: u64,
    /// Bytes read from disk, past the page cache; 0 if the system does not say.
    pub read_bytes: u64,
}

impl Usage {
    /// The counters now.
    pub fn now() -> Usage {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        Usage {
            cpu_ns: cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64,
            written_bytes: field(&io, "write_bytes:"),
            read_bytes: field(&io, "read_bytes:"),
        }
    }

    /// What was added since `before`.
    pub fn since(self, before: Usage) -> Usage {
        Usage {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
        }
    }
}

/// A machine, as far as figures depend on it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Memory.
    pub memory_bytes: u64,
    /// Kernel and its version.
    pub system: String,
}

impl Machine {
    /// The one this runs on. What the system does not say is empty.
    pub fn this() -> Machine {
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model =
            cpus.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            processor: model.unwrap_or_default().to_owned(),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: field(&memory, "MemTotal:") << 10,
            system: format!("{} {}", std::env::consts::OS, release.trim()),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { processor, processors, system, .. } = self;
        write!(f, "{processors} processors ({processor}), {}, {system}", bytes(self.memory_bytes))
    }
}

/// Waits until this process has used next to no processor time for a while; returns since when.
///
/// For engines that cannot be asked whether they still work.
pub fn wait_until_idle() -> Instant {
    let (mut quiet, mut since) = (0, Instant::now());
    let mut before = Usage::now();
    while quiet < IDLE_LOOKS {
        std::thread::sleep(IDLE_LOOK);
        let now = Usage::now();
        let spent = now.since(before);
        if spent.cpu_ns < IDLE_NS_MAX && spent.written_bytes == 0 {
            quiet += 1;
        } else {
            (quiet, since) = (0, Instant::now());
        }
        before = now;
    }
    since
}

/// Leaves this thread, and those it starts from now on, so many processors.
///
/// # Errors
/// If there are not so many, or the system cannot do it.
pub fn use_processors(number: usize) -> Outcome<()> {
    let wrong = |what: &str| format!("--processors={number}: {what}");
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        let all = sched_getaffinity(None)?;
        let mut chosen = CpuSet::new();
        (0..CpuSet::MAX_CPU)
            .filter(|&at| all.is_set(at))
            .take(number)
            .for_each(|at| chosen.set(at));
        if number == 0 || chosen.count() as usize != number {
            return Err(wrong(&format!("must be between 1 and {}", all.count())).into());
        }
        Ok(sched_setaffinity(None, &chosen)?)
    }
    #[cfg(not(target_os = "linux"))]
    Err(wrong("only Linux can leave a process less").into())
}

/// Forgets the peak of memory so far, where the system can.
pub fn forget_peak_memory() {
    // Not every system lets a process do this; then peaks are those since it began.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The most memory this process held at once since it began or its peak was forgotten.
///
/// Mapped files are in it as far as they are in memory.
pub fn memory_peak_bytes() -> u64 {
    field(&status(), "VmHWM:") << 10
}

fn status() -> String {
    fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// Memory of this process that is no file's: what it allocated and has touched.
fn own_memory_bytes() -> u64 {
    field(&status(), "RssAnon:") << 10
}

/// Watches how much there is of something that the system keeps no peak of.
#[derive(Debug)]
pub struct Peak {
    watcher: JoinHandle<u64>,
    /// It ends when this goes.
    over: Sender<()>,
}

impl Peak {
    /// Of the memory of its own that this process holds; looks fifty times a second.
    pub fn of_own_memory() -> Peak {
        Peak::watch(MEMORY_LOOK, own_memory_bytes)
    }

    /// Of the disk that the files in a directory and below it take; looks ten times a second.
    pub fn of_disk(dir: &Path) -> Peak {
        let dir = dir.to_owned();
        Peak::watch(DISK_LOOK, move || disk_bytes(&dir))
    }

    fn watch(every: Duration, look: impl Fn() -> u64 + Send + 'static) -> Peak {
        let (over, is_over) = mpsc::channel::<()>();
        let watcher = std::thread::spawn(move || {
            let mut peak = 0;
            loop {
                let begun = Instant::now();
                peak = peak.max(look());
                // Thousands of files must not keep the process from ever being idle.
                let rest = every.max(LOOK_REST * begun.elapsed());
                if is_over.recv_timeout(rest) != Err(RecvTimeoutError::Timeout) {
                    return peak;
                }
            }
        });
        Peak { watcher, over }
    }

    /// The most that was seen. Nobody looks any more.
    pub fn bytes(self) -> u64 {
        drop(self.over);
        // It does nothing that panics; 0 is what is shown where the system does not say.
        self.watcher.join().unwrap_or(0)
    }
}

/// Bytes of disk that the files in a directory and below it take.
pub fn disk_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    // Engines remove files meanwhile: what is gone takes nothing.
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(bytes).sum()
}

/// The number behind a name in one of the system's tables; 0 if it is not there.
fn field(table: &str, name: &str) -> u64 {
    let line = table.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn work_and_memory_show() {
        let before = Usage::now();
        let big = black_box(vec![1u8; 64 << 20]);
        let sum: u64 = big.iter().map(|&b| u64::from(b)).sum();
        assert_eq!(sum, 64 << 20);
        assert!(Usage::now().since(before).cpu_ns > 0);
        assert!(memory_peak_bytes() >= 64 << 20, "{}", memory_peak_bytes());
    }

    #[test]
    fn memory_of_its_own_has_a_peak() {
        let memory = Peak::of_own_memory();
        let big = black_box(vec![1u8; 96 << 20]);
        std::thread::sleep(10 * MEMORY_LOOK);
        drop(big);
        let peak = memory.bytes();
        assert!(peak >= 96 << 20, "{peak}");
    }

    #[test]
    fn a_file_that_is_gone_has_been_on_the_disk() {
        let dir = std::env::temp_dir().join(format!("esker-most-disk-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let disk = Peak::of_disk(&dir);
        fs::write(dir.join("file"), vec![1; 1 << 20]).expect("write");
        std::thread::sleep(3 * DISK_LOOK);
        fs::remove_dir_all(&dir).expect("remove");
        let peak = disk.bytes();
        assert!(peak >= 1 << 20, "{peak}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_can_be_left_one_processor() {
        // Of a thread of its own, so that other tests keep what they have.
        let alone = std::thread::spawn(|| {
            let all = std::thread::available_parallelism().expect("a number").get();
            assert!(use_processors(0).is_err() && use_processors(all + 1).is_err());
            use_processors(1).expect("one");
            std::thread::available_parallelism().expect("a number").get()
        });
        assert_eq!(alone.join().expect("no panic"), 1);
    }

    #[test]
    fn fields_are_found_by_name() {
        assert_eq!(field("a: 1\nVmRSS:\t  77 kB\n", "VmRSS:"), 77);
        assert_eq!(field("a: 1\n", "b:"), 0);
    }
}
