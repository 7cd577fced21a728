//! The directory tree: the names programs see, and those the disk would still know after a crash.
//!
//! Changes since the last `sync_dir` wait in one ordered list. A crash replays the list onto the
//! durable names and drops each change or not. Two rules keep the outcome one that a
//! file system could leave:
//!
//! 1. A rename is one change: after it was dropped, the file has its old name, and nothing that
//!    came later may take or remove that name.
//! 2. A file renamed twice, with the first rename dropped and the second kept, has only its
//!    last name.

use super::survival::{Rng, Survival};
use std::collections::{BTreeMap, BTreeSet};

/// Names a file or directory, whatever it is called.
pub(super) type InodeId = u64;

/// The directory on top.
pub(super) const ROOT: InodeId = 0;

/// A place where a name can stand.
pub(super) type Place = (InodeId, String);

/// Names by directory.
type Tree = BTreeMap<InodeId, BTreeMap<String, InodeId>>;

/// A change of names that is not durable yet.
#[derive(Clone, Debug)]
enum Change {
    Set { at: Place, inode: InodeId },
    Unset { at: Place },
    Move { from: Place, to: Place, inode: InodeId },
}

/// Every directory of the file system.
#[derive(Clone, Debug)]
pub(super) struct Names {
    live: Tree,
    durable: Tree,
    pending: Vec<Change>,
}

impl Names {
    /// An empty root directory.
    pub(super) fn new() -> Names {
        let root = Tree::from([(ROOT, BTreeMap::new())]);
        Names { live: root.clone(), durable: root, pending: Vec::new() }
    }

    pub(super) fn is_dir(&self, inode: InodeId) -> bool {
        self.live.contains_key(&inode)
    }

    pub(super) fn get(&self, at: &Place) -> Option<InodeId> {
        get(&self.live, at)
    }

    /// The names in a directory.
    pub(super) fn in_dir(&self, dir: InodeId) -> impl Iterator<Item = (&String, InodeId)> {
        self.live.get(&dir).into_iter().flatten().map(|(name, &inode)| (name, inode))
    }

    /// Every live directory with its names.
    pub(super) fn dirs(&self) -> impl Iterator<Item = (InodeId, &BTreeMap<String, InodeId>)> {
        self.live.iter().map(|(&dir, names)| (dir, names))
    }

    pub(super) fn add_dir(&mut self, at: Place, inode: InodeId) {
        self.live.insert(inode, BTreeMap::new());
        self.durable.insert(inode, BTreeMap::new());
        self.set(at, inode);
    }

    pub(super) fn remove_dir(&mut self, at: Place) {
        if let Some(inode) = self.get(&at) {
            self.live.remove(&inode);
        }
        self.unset(at);
    }

    pub(super) fn set(&mut self, at: Place, inode: InodeId) {
        set(&mut self.live, &at, inode);
        self.pending.push(Change::Set { at, inode });
    }

    pub(super) fn unset(&mut self, at: Place) {
        unset(&mut self.live, &at);
        self.pending.push(Change::Unset { at });
    }

    pub(super) fn rename(&mut self, from: Place, to: Place, inode: InodeId) {
        unset(&mut self.live, &from);
        set(&mut self.live, &to, inode);
        self.pending.push(Change::Move { from, to, inode });
    }

    /// Makes the names of a directory durable.
    ///
    /// A rename out of it takes its target directory along, or the file could end up with no name
    /// at all. A rename into it leaves the removal of the old name waiting.
    pub(super) fn sync(&mut self, dir: InodeId) {
        let mut dirs = BTreeSet::from([dir]);
        loop {
            let before = dirs.len();
            for change in &self.pending {
                if let Change::Move { from, to, .. } = change
                    && dirs.contains(&from.0)
                {
                    dirs.insert(to.0);
                }
            }
            if dirs.len() == before {
                break;
            }
        }
        for dir in &dirs {
            if let Some(names) = self.live.get(dir) {
                self.durable.insert(*dir, names.clone());
            }
        }
        let pending = std::mem::take(&mut self.pending);
        self.pending = pending
            .into_iter()
            .filter_map(|change| match change {
                Change::Move { from, to, .. } if dirs.contains(&to.0) => {
                    (!dirs.contains(&from.0)).then_some(Change::Unset { at: from })
                }
                Change::Set { ref at, .. } | Change::Unset { ref at } if dirs.contains(&at.0) => {
                    None
                }
                other => Some(other),
            })
            .collect();
    }

    /// Everything some name still refers to, now or after some crash.
    pub(super) fn referenced(&self) -> BTreeSet<InodeId> {
        let named = |tree: &Tree| tree.values().flat_map(|n| n.values().copied()).collect();
        let mut inodes: BTreeSet<InodeId> = named(&self.live);
        inodes.extend(named(&self.durable));
        for change in &self.pending {
            match change {
                Change::Set { inode, .. } | Change::Move { inode, .. } => {
                    inodes.insert(*inode);
                }
                Change::Unset { .. } => {}
            }
        }
        inodes
    }

    /// Forgets directories that no name leads to any more.
    pub(super) fn forget_dirs(&mut self, referenced: &BTreeSet<InodeId>) {
        self.durable.retain(|dir, _| *dir == ROOT || referenced.contains(dir));
    }

    /// The names after a power cut, all durable.
    pub(super) fn after_crash(&self, survival: Survival, rng: &mut Rng) -> Names {
        let tree = match survival {
            Survival::None => self.durable.clone(),
            Survival::All | Survival::ProcessDeath => self.live.clone(),
            Survival::Some { percent } => self.replay(percent, rng),
        };
        let mut reachable = Tree::new();
        let mut open = vec![ROOT];
        while let Some(dir) = open.pop() {
            let names = tree.get(&dir).cloned().unwrap_or_default();
            open.extend(names.values().filter(|inode| tree.contains_key(inode)));
            reachable.insert(dir, names);
        }
        Names { live: reachable.clone(), durable: reachable, pending: Vec::new() }
    }

    fn replay(&self, percent: u8, rng: &mut Rng) -> Tree {
        let mut tree = self.durable.clone();
        // Old names of files whose rename was dropped; nothing may touch them afterwards.
        let mut pinned: BTreeSet<Place> = BTreeSet::new();
        // Where a file whose rename was dropped still stands, by the name it should have had.
        let mut origins: BTreeMap<Place, Place> = BTreeMap::new();
        for change in &self.pending {
            let kept = rng.percent(percent);
            match change {
                Change::Set { at, inode } if kept && !pinned.contains(at) => {
                    set(&mut tree, at, *inode);
                    origins.remove(at);
                }
                Change::Unset { at } if kept && !pinned.contains(at) => unset(&mut tree, at),
                Change::Set { .. } | Change::Unset { .. } => {}
                Change::Move { from, to, inode } if kept && !pinned.contains(to) => {
                    let origin = origins.remove(from);
                    for place in [Some(from), origin.as_ref()].into_iter().flatten() {
                        if get(&tree, place) == Some(*inode) {
                            unset(&mut tree, place);
                        }
                    }
                    set(&mut tree, to, *inode);
                    origins.remove(to);
                }
                Change::Move { from, to, inode } => {
                    let origin = origins.remove(from).unwrap_or_else(|| from.clone());
                    if get(&tree, &origin) == Some(*inode) {
                        pinned.insert(origin.clone());
                    }
                    origins.insert(to.clone(), origin);
                }
            }
        }
        tree
    }
}

fn get(tree: &Tree, at: &Place) -> Option<InodeId> {
    tree.get(&at.0)?.get(&at.1).copied()
}

fn set(tree: &mut Tree, at: &Place, inode: InodeId) {
    tree.entry(at.0).or_default().insert(at.1.clone(), inode);
}

fn unset(tree: &mut Tree, at: &Place) {
    if let Some(names) = tree.get_mut(&at.0) {
        names.remove(&at.1);
    }
}
