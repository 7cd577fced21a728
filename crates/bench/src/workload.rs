//! The workloads, by the names that `db_bench` and YCSB gave them.

use crate::keys::{Draw, Known, Popularity, Shuffled};
use esker_draw::Outcome;
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus as Random;

/// One thing to do with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Set the key with this number.
    Put(u64),
    /// Get the key with this number.
    Get(u64),
    /// Get several keys at once, of numbers that follow from this one.
    MultiGet(u64),
    /// Get a key that is not there, but would stand behind this number's.
    GetMissing(u64),
    /// Remove the key with this number.
    Delete(u64),
    /// Get the key with this number, then set it.
    ReadModifyWrite(u64),
    /// Read so many records in order, from this number's key on.
    Scan(u64, u64),
    /// Read everything in order, or backwards.
    Everything {
        /// From the last to the first.
        backwards: bool,
    },
    /// Read everything in whichever order is fastest.
    Unordered,
    /// Bring the store into its final shape.
    Compact,
}

/// What a workload finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// An empty store.
    Empty,
    /// The store that the workload before left, or the one named.
    Filled,
}

/// How many operations a workload makes, unless told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// `--num`.
    Num,
    /// `--reads`.
    Reads,
    /// As many batches as make `--reads`.
    Batches,
    /// So many, or `--num` if that is less.
    NumAtMost(u64),
    /// So many, or `--reads` if that is less.
    ReadsAtMost(u64),
    /// Once in each thread.
    Once,
}

/// A workload.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// As on the command line.
    pub name: &'static str,
    /// In one line.
    pub about: &'static str,
    /// What it finds.
    pub start: Start,
    /// Length, unless told otherwise.
    pub count: Count,
    /// Whether every write is to be on disk before the next.
    pub sync: bool,
    /// Whether records that come one after the other have keys far apart, as in YCSB.
    pub scattered: bool,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    FillInOrder,
    FillScattered,
    FillShuffled,
    FillRandom,
    Read,
    ReadSeveral,
    ReadMissing,
    Everything { backwards: bool },
    Unordered,
    Seek,
    ReadWhileWriting,
    Mixed,
    DeleteRandom,
    DeleteInOrder,
    Compact,
    Ycsb(Mix),
}

/// Percentages of a YCSB workload; the rest are gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mix {
    updates: u32,
    inserts: u32,
    scans: u32,
    read_modify_writes: u32,
    popularity: Popularity,
}

const READS_ONLY: Mix = Mix {
    updates: 0,
    inserts: 0,
    scans: 0,
    read_modify_writes: 0,
    popularity: Popularity::Zipfian,
};

/// Records that a YCSB scan reads at the most.
const YCSB_SCAN_MAX: u64 = 100;

const fn workload(
    name: &'static str,
    what: What,
    start: Start,
    count: Count,
    about: &'static str,
) -> Workload {
    Workload {
        name,
        about,
        start,
        count,
        sync: false,
        scattered: matches!(what, What::FillScattered | What::Ycsb(_)),
        what,
    }
}

/// All of them.
pub const WORKLOADS: &[Workload] = &[
    workload("fillseq", What::FillInOrder, Start::Empty, Count::Num, "puts in order of keys"),
    workload(
        "fillrandom",
        What::FillRandom,
        Start::Empty,
        Count::Num,
        "puts of keys at random, with repetitions",
    ),
    workload(
        "filluniquerandom",
        What::FillShuffled,
        Start::Empty,
        Count::Num,
        "puts of all keys in random order, each once",
    ),
    Workload {
        sync: true,
        ..workload(
            "fillsync",
            What::FillRandom,
            Start::Empty,
            Count::NumAtMost(200_000),
            "puts at random, each on disk before the next",
        )
    },
    workload(
        "overwrite",
        What::FillRandom,
        Start::Filled,
        Count::Num,
        "puts at random into a filled store",
    ),
    workload(
        "readrandom",
        What::Read,
        Start::Filled,
        Count::Reads,
        "gets of keys drawn by --distribution",
    ),
    workload(
        "multireadrandom",
        What::ReadSeveral,
        Start::Filled,
        Count::Batches,
        "gets of --batch_size keys at once, drawn evenly; a latency is that of all of them",
    ),
    workload(
        "readmissing",
        What::ReadMissing,
        Start::Filled,
        Count::Reads,
        "gets of keys that are not there",
    ),
    workload(
        "readseq",
        What::Everything { backwards: false },
        Start::Filled,
        Count::Once,
        "all records in order",
    ),
    workload(
        "readreverse",
        What::Everything { backwards: true },
        Start::Filled,
        Count::Once,
        "all records backwards",
    ),
    workload(
        "readunordered",
        What::Unordered,
        Start::Filled,
        Count::Once,
        "all records in the order in which values stand on the disk; of keys where the engine has no other",
    ),
    workload(
        "seekrandom",
        What::Seek,
        Start::Filled,
        Count::ReadsAtMost(1_000_000),
        "scans of --seek_nexts records from random keys",
    ),
    workload(
        "readwhilewriting",
        What::ReadWhileWriting,
        Start::Filled,
        Count::Reads,
        "gets, while one more thread puts",
    ),
    workload(
        "readrandomwriterandom",
        What::Mixed,
        Start::Filled,
        Count::Reads,
        "gets and puts, --readwritepercent of them gets",
    ),
    workload("deleterandom", What::DeleteRandom, Start::Filled, Count::Num, "deletes at random"),
    workload(
        "deleteseq",
        What::DeleteInOrder,
        Start::Filled,
        Count::Num,
        "deletes in order of keys",
    ),
    workload(
        "compact",
        What::Compact,
        Start::Filled,
        Count::Once,
        "brings the store into its final shape",
    ),
    workload(
        "ycsb-load",
        What::FillScattered,
        Start::Empty,
        Count::Num,
        "inserts of new records, scattered",
    ),
    workload(
        "ycsb-a",
        What::Ycsb(Mix { updates: 50, ..READS_ONLY }),
        Start::Filled,
        Count::Reads,
        "half updates, Zipf's law",
    ),
    workload(
        "ycsb-b",
        What::Ycsb(Mix { updates: 5, ..READS_ONLY }),
        Start::Filled,
        Count::Reads,
        "5% updates, Zipf's law",
    ),
    workload(
        "ycsb-c",
        What::Ycsb(READS_ONLY),
        Start::Filled,
        Count::Reads,
        "gets only, Zipf's law",
    ),
    workload(
        "ycsb-d",
        What::Ycsb(Mix { inserts: 5, popularity: Popularity::Latest, ..READS_ONLY }),
        Start::Filled,
        Count::Reads,
        "5% inserts, gets of the latest",
    ),
    workload(
        "ycsb-e",
        What::Ycsb(Mix { scans: 95, inserts: 5, ..READS_ONLY }),
        Start::Filled,
        Count::ReadsAtMost(1_000_000),
        "scans of up to 100 records, 5% inserts",
    ),
    workload(
        "ycsb-f",
        What::Ycsb(Mix { read_modify_writes: 50, ..READS_ONLY }),
        Start::Filled,
        Count::Reads,
        "half read, modify, write; Zipf's law",
    ),
];

/// The workload of a name.
///
/// # Errors
/// If there is none, with all names.
pub fn find(name: &str) -> Outcome<&'static Workload> {
    WORKLOADS.iter().find(|w| w.name == name).ok_or_else(|| {
        let names: Vec<&str> = WORKLOADS.iter().map(|w| w.name).collect();
        format!("no workload is called {name:?}; there are {}", names.join(", ")).into()
    })
}

impl Workload {
    /// Whether it is run to its end whatever the time: what comes next counts on all records.
    pub fn is_load(&self) -> bool {
        matches!(self.what, What::FillScattered)
    }

    /// Whether it goes on for as long as it is asked to and changes nothing that it measures.
    pub fn repeats(&self) -> bool {
        matches!(
            self.what,
            What::Read
                | What::ReadSeveral
                | What::ReadMissing
                | What::Seek
                | What::Ycsb(READS_ONLY)
        )
    }

    /// Whether it can be done again and again and finds the same each time: it may be prolonged.
    pub fn only_reads(&self) -> bool {
        self.repeats() || matches!(self.what, What::Everything { .. } | What::Unordered)
    }

    /// Whether results count records, or keys that are got several at once, and not operations.
    pub fn counts_records(&self) -> bool {
        matches!(self.what, What::Everything { .. } | What::Unordered | What::ReadSeveral)
    }

    /// Whether it does not matter to it which keys there are.
    pub fn any_keys(&self) -> bool {
        matches!(self.what, What::Everything { .. } | What::Unordered | What::Compact)
    }

    /// How keys that exist are drawn, of which there are `count` before the first of `operations`.
    ///
    /// # Errors
    /// If there are none.
    pub fn keys(&self, shape: Shape, count: u64, operations: u64) -> Outcome<Draw> {
        let (popularity, inserts) = match self.what {
            What::Ycsb(mix) => (mix.popularity, operations / 100 * u64::from(mix.inserts)),
            _ => (shape.popularity, 0),
        };
        Draw::new(popularity, count, inserts)
    }

    /// Threads that keep the store busy beside those that are measured.
    pub fn company(&self) -> u64 {
        u64::from(matches!(self.what, What::ReadWhileWriting))
    }
}

/// What decides the operations of a run, besides the workload.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Keys.
    pub num: u64,
    /// Which keys `readrandom` and mixed workloads like.
    pub popularity: Popularity,
    /// Of `readrandomwriterandom`.
    pub read_percent: u32,
    /// Of `seekrandom`.
    pub seek_nexts: u64,
}

/// The operations of one thread.
#[derive(Debug)]
pub struct Operations<'a> {
    what: What,
    shape: Shape,
    known: &'a Known,
    draw: Draw,
    shuffled: Shuffled,
    random: Random,
    /// In order: the next number and the step to the one after.
    next: u64,
    step: u64,
    writes: bool,
}

impl<'a> Operations<'a> {
    /// Those of thread `thread` of `threads`, the last of which may be company. `draw` is
    /// [`Workload::keys`].
    pub fn new(
        workload: &Workload,
        shape: Shape,
        (known, draw): (&'a Known, Draw),
        (thread, threads): (u64, u64),
        random: Random,
    ) -> Operations<'a> {
        let writes = thread + workload.company() >= threads && workload.company() > 0;
        Operations {
            what: workload.what,
            shape,
            known,
            draw,
            shuffled: Shuffled::new(shape.num),
            random,
            next: thread,
            step: threads,
            writes,
        }
    }

    fn any(&mut self) -> u64 {
        self.random.random_range(0..self.shape.num)
    }

    fn popular(&mut self) -> u64 {
        self.draw.next(self.known, &mut self.random)
    }

    fn in_order(&mut self) -> u64 {
        let number = self.next;
        self.next += self.step;
        number
    }

    /// The next one.
    #[inline]
    pub fn draw(&mut self) -> Operation {
        match self.what {
            What::FillInOrder | What::FillScattered => Operation::Put(self.in_order()),
            What::FillShuffled => {
                let at = self.in_order() % self.shape.num;
                Operation::Put(self.shuffled.at(at))
            }
            What::FillRandom => Operation::Put(self.any()),
            What::Read => Operation::Get(self.popular()),
            What::ReadSeveral => Operation::MultiGet(self.random.random()),
            What::ReadMissing => Operation::GetMissing(self.any()),
            What::Everything { backwards } => Operation::Everything { backwards },
            What::Unordered => Operation::Unordered,
            What::Seek => Operation::Scan(self.any(), self.shape.seek_nexts),
            What::ReadWhileWriting if self.writes => Operation::Put(self.any()),
            What::ReadWhileWriting => Operation::Get(self.popular()),
            What::Mixed if self.random.random_range(0..100) < self.shape.read_percent => {
                Operation::Get(self.popular())
            }
            What::Mixed => Operation::Put(self.popular()),
            What::DeleteRandom => Operation::Delete(self.any()),
            What::DeleteInOrder => Operation::Delete(self.in_order()),
            What::Compact => Operation::Compact,
            What::Ycsb(mix) => self.next_of(mix),
        }
    }

    fn next_of(&mut self, mix: Mix) -> Operation {
        let Mix { updates, inserts, scans, read_modify_writes, .. } = mix;
        let mut at = self.random.random_range(0..100);
        let mut is = |percent: u32| match at < percent {
            true => true,
            false => {
                at -= percent;
                false
            }
        };
        if is(updates) {
            Operation::Put(self.popular())
        } else if is(inserts) {
            Operation::Put(self.known.insert())
        } else if is(scans) {
            let records = self.random.random_range(1..=YCSB_SCAN_MAX);
            Operation::Scan(self.popular(), records)
        } else if is(read_modify_writes) {
            Operation::ReadModifyWrite(self.popular())
        } else {
            Operation::Get(self.popular())
        }
    }
}
