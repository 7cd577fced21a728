//! Which files of values are collected: a pure function of what they hold.

/// Files of which less is dead are left alone: moving them would gain little.
const DEAD_SHARE_MIN: f64 = 0.05;

/// A file is small if it has less than this part of the length of a file.
const SMALL_PART: u64 = 4;

/// So many small files are moved into one.
const SMALL_FILES_MAX: usize = 8;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileUse {
    pub(crate) number: u64,
    pub(crate) file_bytes: u64,
    /// What of it would be needed if all its values were alive: in a log also what is no value.
    pub(crate) value_bytes: u64,
    /// Bytes that tables point to.
    pub(crate) live_bytes: u64,
}

impl FileUse {
    pub(crate) fn dead_bytes(&self) -> u64 {
        self.value_bytes.saturating_sub(self.live_bytes)
    }

    /// All of it where no value is alive, since then it just goes.
    fn dead_share(&self) -> f64 {
        match self.live_bytes {
            0 => 1.0,
            _ => self.dead_bytes() as f64 / self.file_bytes.max(1) as f64,
        }
    }
}

/// What there is and what there should be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Balance {
    /// Bytes of all files with values that tables point into, those included that cannot be
    /// collected now.
    pub(crate) total_bytes: u64,
    /// The most that these should be.
    pub(crate) total_bytes_max: u64,
    /// Length at which a file is ended.
    pub(crate) file_bytes: u64,
    /// A file with so many live bytes is moved by itself: it may hold values of one group only.
    pub(crate) alone_from_bytes: u64,
}

/// The files to be collected next, together, by number; none if all is well.
///
/// Those without live values at once; else those with the most dead ones, if there is too much;
/// else small ones, if there are many.
pub(crate) fn choose(files: &[FileUse], balance: &Balance) -> Vec<u64> {
    let dead: Vec<u64> =
        files.iter().filter(|file| file.live_bytes == 0).map(|file| file.number).collect();
    if !dead.is_empty() {
        return dead;
    }
    if balance.total_bytes > balance.total_bytes_max {
        let excess = balance.total_bytes - balance.total_bytes_max;
        let mut candidates: Vec<&FileUse> =
            files.iter().filter(|file| file.dead_share() >= DEAD_SHARE_MIN).collect();
        candidates.sort_by(|a, b| b.dead_share().total_cmp(&a.dead_share()));
        let chosen = take_together(&candidates, balance, excess);
        if !chosen.is_empty() {
            return chosen;
        }
    }
    let small_bytes = (balance.file_bytes / SMALL_PART).min(balance.alone_from_bytes);
    let mut small: Vec<&FileUse> =
        files.iter().filter(|file| file.live_bytes < small_bytes).collect();
    if small.len() < SMALL_FILES_MAX {
        return Vec::new();
    }
    small.sort_by_key(|file| file.live_bytes);
    take_together(&small, balance, u64::MAX)
}

/// All files of which at least such a share is dead, most dead first, as many as make one file.
pub(crate) fn with_dead_share(files: &[FileUse], share: f64, balance: &Balance) -> Vec<u64> {
    let has_dead = |f: &FileUse| f.dead_bytes() > 0 || f.live_bytes == 0;
    let mut candidates: Vec<&FileUse> =
        files.iter().filter(|f| has_dead(f) && f.dead_share() >= share).collect();
    candidates.sort_by(|a, b| b.dead_share().total_cmp(&a.dead_share()));
    take_together(&candidates, balance, u64::MAX)
}

/// From the front as many as make one file, or as free enough.
fn take_together(candidates: &[&FileUse], balance: &Balance, enough: u64) -> Vec<u64> {
    let (mut chosen, mut live, mut freed) = (Vec::new(), 0, 0);
    for file in candidates {
        let whole = live + file.live_bytes > balance.file_bytes * 5 / 4 || freed >= enough;
        let alone = live.max(file.live_bytes) >= balance.alone_from_bytes;
        if !chosen.is_empty() && (whole || alone) {
            break;
        }
        chosen.push(file.number);
        live += file.live_bytes;
        freed += file.dead_bytes();
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: u64, file_bytes: u64, live_bytes: u64) -> FileUse {
        FileUse { number, file_bytes, value_bytes: file_bytes, live_bytes }
    }

    fn balance(total_bytes: u64, total_bytes_max: u64) -> Balance {
        Balance { total_bytes, total_bytes_max, file_bytes: 100, alone_from_bytes: u64::MAX }
    }

    #[test]
    fn dead_files_go_first_and_at_once() {
        let files = [file(1, 100, 100), file(2, 100, 0), file(3, 100, 10), file(4, 50, 0)];
        assert_eq!(choose(&files, &balance(0, 1_000)), [2, 4]);
    }

    #[test]
    fn the_most_dead_are_taken_until_that_is_enough_or_makes_a_file() {
        let files = [file(1, 100, 90), file(2, 100, 40), file(3, 100, 50), file(4, 100, 60)];
        assert!(choose(&files, &balance(400, 400)).is_empty(), "within bounds");
        assert_eq!(choose(&files, &balance(400, 399)), [2], "one frees enough");
        assert_eq!(choose(&files, &balance(400, 100)), [2, 3], "two make a file");
        let apart = Balance { alone_from_bytes: 50, ..balance(400, 100) };
        assert_eq!(choose(&files, &apart), [2], "each may be of one group");
        let full = [file(1, 100, 96), file(2, 100, 97)];
        assert!(choose(&full, &balance(200, 10)).is_empty(), "nothing to be gained");
    }

    #[test]
    fn many_small_files_become_one() {
        let small: Vec<FileUse> = (0..8).map(|n| file(n, 10, 9)).collect();
        assert!(choose(&small[..7], &balance(70, 1_000)).is_empty());
        assert_eq!(choose(&small, &balance(80, 1_000)), (0..8).collect::<Vec<u64>>());
    }

    #[test]
    fn what_is_asked_for_by_hand_is_taken_whatever_the_balance() {
        let files = [file(1, 100, 100), file(2, 100, 40), file(3, 100, 0), file(4, 100, 95)];
        let long = Balance { file_bytes: 1_000, ..balance(0, 0) };
        assert_eq!(with_dead_share(&files, 0.5, &balance(0, 0)), [3, 2]);
        assert_eq!(with_dead_share(&files, 0.0, &long), [3, 2, 4]);
        assert!(with_dead_share(&files[..1], 0.0, &long).is_empty(), "nothing is dead");
        let moved = FileUse { number: 1, file_bytes: 100, value_bytes: 96, live_bytes: 96 };
        assert!(with_dead_share(&[moved], 0.0, &long).is_empty(), "nothing but a directory");
        let dead = FileUse { value_bytes: 60, live_bytes: 0, ..moved };
        assert_eq!(with_dead_share(&[dead], 1.0, &long), [1], "nothing is needed, whatever it has");
    }
}
