//! The disk of a strict file system: names, files, space, and the switch that turns it off.

use super::file::FileData;
use super::names::{InodeId, Names, Place, ROOT};
use super::survival::{Rng, Survival};
use crate::error::{Error, Result};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::path::{Component, Path};

/// What [`Disk::free_bytes`] says when no capacity is set.
const FREE_BYTES_UNLIMITED: u64 = 1 << 50;

/// How the file system behaves where real ones differ.
#[derive(Clone, Debug)]
pub struct StrictOptions {
    /// The unit in which unsynced data survives a power cut or not: 512 or 4096.
    pub block_bytes: usize,
    /// Logs are reserved ahead in windows, with a tail of zeros, as a mapped log is; otherwise they
    /// are as long as what was appended.
    pub preallocated_logs: bool,
    /// Decides how much of the append that was interrupted by `set_crash_at` is in the file.
    pub seed: u64,
}

impl Default for StrictOptions {
    fn default() -> StrictOptions {
        StrictOptions { block_bytes: 512, preallocated_logs: true, seed: 0 }
    }
}

#[derive(Clone, Debug)]
struct Node {
    data: FileData,
    links: u32,
    handles: u32,
    locked: bool,
}

impl Node {
    fn new(data: FileData) -> Node {
        Node { data, links: 0, handles: 0, locked: false }
    }

    fn takes_space(&self) -> bool {
        self.links > 0 || self.handles > 0
    }
}

/// Lines about the latest calls, for the messages of failed tests.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    pub(super) lines_max: usize,
    pub(super) lines: VecDeque<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Disk {
    pub(super) options: StrictOptions,
    pub(super) trace: Trace,
    pub(super) capacity_bytes: Option<u64>,
    pub(super) calls: u64,
    pub(super) off_at: Option<u64>,
    pub(super) off: bool,
    names: Names,
    nodes: BTreeMap<InodeId, Node>,
    next_inode: InodeId,
    used_bytes: u64,
}

impl Disk {
    pub(super) fn new(options: StrictOptions) -> Disk {
        assert!(
            options.block_bytes == 512 || options.block_bytes == 4096,
            "block_bytes is 512 or 4096"
        );
        Disk {
            options,
            trace: Trace::default(),
            capacity_bytes: None,
            calls: 0,
            off_at: None,
            off: false,
            names: Names::new(),
            nodes: BTreeMap::new(),
            next_inode: ROOT + 1,
            used_bytes: 0,
        }
    }

    /// Begins a call that changes nothing.
    pub(super) fn reading(&self, op: &'static str, path: &Path) -> Result<()> {
        if self.off { Err(machine_is_off(op, path)) } else { Ok(()) }
    }

    /// Begins a call that changes something: counts it, and turns the machine off if it is its
    /// turn.
    pub(super) fn changing(&mut self, op: &'static str, path: &Path) -> Result<()> {
        self.reading(op, path)?;
        self.calls += 1;
        if self.trace.lines_max > 0 {
            if self.trace.lines.len() >= self.trace.lines_max {
                self.trace.lines.pop_front();
            }
            self.trace.lines.push_back(format!("{} {op} {}", self.calls, path.display()));
        }
        if self.off_at.is_some_and(|k| self.calls >= k) {
            self.off = true;
            return Err(machine_is_off(op, path));
        }
        Ok(())
    }

    /// The directory in which `path` stands and its last name; the root has none.
    fn place(&self, op: &'static str, path: &Path) -> Result<Option<Place>> {
        let parts = parts(op, path)?;
        let Some((last, above)) = parts.split_last() else { return Ok(None) };
        let mut dir = ROOT;
        for part in above {
            let next = self.names.get(&(dir, (*part).to_owned()));
            dir = next.ok_or_else(|| refuse(op, path, ErrorKind::NotFound))?;
            if !self.names.is_dir(dir) {
                return Err(refuse(op, path, ErrorKind::NotADirectory));
            }
        }
        Ok(Some((dir, (*last).to_owned())))
    }

    fn place_of_file(&self, op: &'static str, path: &Path) -> Result<Place> {
        self.place(op, path)?.ok_or_else(|| refuse(op, path, ErrorKind::IsADirectory))
    }

    /// What stands at `path`, if anything does.
    pub(super) fn find(&self, op: &'static str, path: &Path) -> Result<Option<InodeId>> {
        match self.place(op, path) {
            Ok(None) => Ok(Some(ROOT)),
            Ok(Some(at)) => Ok(self.names.get(&at)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    pub(super) fn dir(&self, op: &'static str, path: &Path) -> Result<InodeId> {
        match self.find(op, path)? {
            None => Err(refuse(op, path, ErrorKind::NotFound)),
            Some(inode) if self.names.is_dir(inode) => Ok(inode),
            Some(_) => Err(refuse(op, path, ErrorKind::NotADirectory)),
        }
    }

    pub(super) fn file(&self, op: &'static str, path: &Path) -> Result<InodeId> {
        match self.find(op, path)? {
            None => Err(refuse(op, path, ErrorKind::NotFound)),
            Some(inode) if self.names.is_dir(inode) => {
                Err(refuse(op, path, ErrorKind::IsADirectory))
            }
            Some(inode) => Ok(inode),
        }
    }

    /// Creates a file or empties the one that is there, as `open` with `O_CREAT | O_TRUNC` does.
    pub(super) fn create(&mut self, op: &'static str, path: &Path, empty: bool) -> Result<InodeId> {
        let at = self.place_of_file(op, path)?;
        if let Some(inode) = self.names.get(&at) {
            if self.names.is_dir(inode) {
                return Err(refuse(op, path, ErrorKind::IsADirectory));
            }
            if empty {
                self.change_data(inode, |data| data.set_len(0));
            }
            return Ok(inode);
        }
        let inode = self.new_inode();
        self.nodes.insert(inode, Node::new(FileData::default()));
        self.link_node(inode);
        self.names.set(at, inode);
        Ok(inode)
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> Result<()> {
        let source = self.place_of_file("rename", from)?;
        let target = self.place_of_file("rename", to)?;
        let inode = self.file("rename", from)?;
        match self.names.get(&target) {
            // Two names of one file: POSIX leaves both.
            Some(old) if old == inode => return Ok(()),
            Some(old) if self.names.is_dir(old) => {
                return Err(refuse("rename", from, ErrorKind::IsADirectory));
            }
            Some(old) => self.unlink_node(old),
            None => {}
        }
        self.names.rename(source, target, inode);
        Ok(())
    }

    pub(super) fn link(&mut self, from: &Path, to: &Path) -> Result<()> {
        let inode = self.file("link", from)?;
        let target = self.place_of_file("link", to)?;
        if self.names.get(&target).is_some() {
            return Err(refuse("link", from, ErrorKind::AlreadyExists));
        }
        self.link_node(inode);
        self.names.set(target, inode);
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> Result<()> {
        let inode = self.file("remove", path)?;
        let at = self.place_of_file("remove", path)?;
        self.names.unset(at);
        self.unlink_node(inode);
        Ok(())
    }

    pub(super) fn create_dir_all(&mut self, path: &Path) -> Result<bool> {
        let (mut dir, mut is_new) = (ROOT, false);
        for part in parts("create directory", path)? {
            let at = (dir, part.to_owned());
            dir = match self.names.get(&at) {
                Some(inode) if self.names.is_dir(inode) => inode,
                Some(_) => return Err(refuse("create directory", path, ErrorKind::AlreadyExists)),
                None => {
                    let inode = self.new_inode();
                    self.names.add_dir(at, inode);
                    is_new = true;
                    inode
                }
            };
        }
        Ok(is_new)
    }

    pub(super) fn remove_dir(&mut self, path: &Path) -> Result<()> {
        let dir = self.dir("remove directory", path)?;
        let Some(at) = self.place("remove directory", path)? else {
            return Err(refuse("remove directory", path, ErrorKind::ResourceBusy));
        };
        if self.names.in_dir(dir).next().is_some() {
            return Err(refuse("remove directory", path, ErrorKind::DirectoryNotEmpty));
        }
        self.names.remove_dir(at);
        Ok(())
    }

    pub(super) fn sync_dir(&mut self, path: &Path) -> Result<()> {
        let dir = self.dir("sync directory", path)?;
        self.names.sync(dir);
        self.forget_unreferenced();
        Ok(())
    }

    /// Names of a directory with `is_dir` and length.
    pub(super) fn list(&self, path: &Path) -> Result<Vec<(String, bool, u64)>> {
        let dir = self.dir("list", path)?;
        let row = |(name, inode): (&String, InodeId)| {
            let len = self.nodes.get(&inode).map(|node| node.data.len_bytes());
            (name.clone(), len.is_none(), len.unwrap_or(0))
        };
        Ok(self.names.in_dir(dir).map(row).collect())
    }

    /// Every path that leads to a file, in order.
    pub(super) fn all_files(&self) -> Vec<std::path::PathBuf> {
        let mut open = vec![(ROOT, std::path::PathBuf::from("/"))];
        let mut files = Vec::new();
        while let Some((dir, path)) = open.pop() {
            for (name, inode) in self.names.in_dir(dir) {
                let path = path.join(name);
                if self.names.is_dir(inode) {
                    open.push((inode, path));
                } else {
                    files.push(path);
                }
            }
        }
        files.sort_unstable();
        files
    }

    pub(super) fn data(&self, inode: InodeId) -> &FileData {
        &self.nodes[&inode].data
    }

    /// Runs `change` on a file's bytes and keeps the count of used space right.
    pub(super) fn change_data<T>(
        &mut self,
        inode: InodeId,
        change: impl FnOnce(&mut FileData) -> T,
    ) -> T {
        let node = self.node(inode);
        let before = node.data.allocated_bytes();
        let result = change(&mut node.data);
        let (after, counts) = (node.data.allocated_bytes(), node.takes_space());
        if counts {
            self.used_bytes = self.used_bytes + after - before;
        }
        result
    }

    /// Writes what there is space for. Returns how much that was.
    pub(super) fn write(&mut self, inode: InodeId, offset: u64, bytes: &[u8]) -> usize {
        let len = self.data(inode).len_bytes();
        let growth = (offset + bytes.len() as u64).saturating_sub(len);
        let missing = growth.saturating_sub(self.free_bytes()).min(bytes.len() as u64);
        let fits = bytes.len() - missing as usize;
        self.change_data(inode, |data| data.write(offset, &bytes[..fits]));
        fits
    }

    /// Extends a file with zeros, or does nothing and returns false for want of space.
    pub(super) fn reserve(&mut self, inode: InodeId, len: u64) -> bool {
        let old = self.data(inode).len_bytes();
        if len > old {
            if len - old > self.free_bytes() {
                return false;
            }
            self.change_data(inode, |data| data.set_len(len));
        }
        true
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    pub(super) fn free_bytes(&self) -> u64 {
        match self.capacity_bytes {
            None => FREE_BYTES_UNLIMITED,
            Some(capacity) => capacity.saturating_sub(self.used_bytes),
        }
    }

    pub(super) fn hold(&mut self, inode: InodeId) {
        self.node(inode).handles += 1;
    }

    pub(super) fn release(&mut self, inode: InodeId) {
        let node = self.node(inode);
        node.handles -= 1;
        self.return_space(inode);
    }

    /// Takes the lock of a file; false if it is taken.
    pub(super) fn try_lock(&mut self, inode: InodeId) -> bool {
        !std::mem::replace(&mut self.node(inode).locked, true)
    }

    pub(super) fn unlock(&mut self, inode: InodeId) {
        self.node(inode).locked = false;
    }

    /// Puts a file in place whole, durable with everything above it.
    pub(super) fn put_durable(&mut self, path: &Path, bytes: &[u8]) -> Result<()> {
        let op = "write file";
        let above = path.parent().unwrap_or(Path::new(""));
        self.create_dir_all(above)?;
        let at = self.place_of_file(op, path)?;
        if self.names.get(&at).is_some() {
            self.remove(path)?;
        }
        let inode = self.create(op, path, true)?;
        self.change_data(inode, |data| *data = FileData::from_bytes(bytes));
        for dir in above.ancestors() {
            self.sync_dir(dir)?;
        }
        Ok(())
    }

    /// The same disk after the machine or the process stopped.
    pub(super) fn after_crash(&self, survival: Survival, seed: u64) -> Disk {
        let survival = survival.plain();
        let mut rng = Rng::new(seed);
        let mut disk = self.clone();
        (disk.calls, disk.off_at, disk.off) = (0, None, false);
        if survival != Survival::ProcessDeath {
            disk.names = self.names.after_crash(survival, &mut rng);
        }
        let block_bytes = self.options.block_bytes;
        for node in disk.nodes.values_mut() {
            node.data = match survival {
                Survival::None => node.data.after_losing_all(),
                Survival::Some { percent } => {
                    node.data.after_losing_some(percent, &mut rng, block_bytes)
                }
                Survival::All => node.data.after_losing_nothing(),
                Survival::ProcessDeath => continue,
            };
        }
        disk.without_handles()
    }

    /// The same disk as another process would find it: no open files, no locks.
    pub(super) fn without_handles(mut self) -> Disk {
        for node in self.nodes.values_mut() {
            (node.links, node.handles, node.locked) = (0, 0, false);
        }
        let names = self.names.dirs().flat_map(|(_, names)| names.values());
        for inode in names {
            if let Some(node) = self.nodes.get_mut(inode) {
                node.links += 1;
            }
        }
        self.forget_unreferenced();
        let counted = self.nodes.values().filter(|node| node.takes_space());
        self.used_bytes = counted.map(|node| node.data.allocated_bytes()).sum();
        self
    }

    fn forget_unreferenced(&mut self) {
        let referenced = self.names.referenced();
        self.nodes
            .retain(|inode, node| node.handles > 0 || node.locked || referenced.contains(inode));
        self.names.forget_dirs(&referenced);
    }

    fn new_inode(&mut self) -> InodeId {
        self.next_inode += 1;
        self.next_inode - 1
    }

    fn node(&mut self, inode: InodeId) -> &mut Node {
        self.nodes.get_mut(&inode).expect("a file with a name or a handle is kept")
    }

    fn link_node(&mut self, inode: InodeId) {
        self.node(inode).links += 1;
    }

    fn unlink_node(&mut self, inode: InodeId) {
        self.node(inode).links -= 1;
        self.return_space(inode);
    }

    fn return_space(&mut self, inode: InodeId) {
        let node = &self.nodes[&inode];
        if !node.takes_space() {
            self.used_bytes -= node.data.allocated_bytes();
        }
    }
}

/// The names a path is made of. `.` and the leading `/` count for nothing.
pub(super) fn parts<'a>(op: &'static str, path: &'a Path) -> Result<Vec<&'a str>> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => match name.to_str() {
                Some(name) => parts.push(name),
                None => return Err(refuse(op, path, ErrorKind::InvalidFilename)),
            },
            Component::ParentDir => {
                parts.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Ok(parts)
}

pub(super) fn refuse(op: &'static str, path: &Path, kind: ErrorKind) -> Error {
    Error::io(op, path, io::Error::from(kind))
}

fn machine_is_off(op: &'static str, path: &Path) -> Error {
    Error::io(op, path, io::Error::other("the machine is off"))
}
