//! Directories for stores, which are removed once they were measured, and files for results.

use esker_draw::Outcome;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Makes a directory for results, if it is not there.
///
/// # Errors
/// Of the file system, with the path.
pub fn make_dir(dir: &Path) -> Outcome<()> {
    fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()).into())
}

/// Fails if a file of results cannot be written there, as long as it can be asked for elsewhere.
/// What stands there stays, and where there is nothing nothing is left.
///
/// # Errors
/// Of the file system, with the path.
pub fn check_file(path: &Path) -> Outcome<()> {
    let is_there = path.symlink_metadata().is_ok();
    let opened = fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|error| format!("{}: {error}", path.display()))?;
    if !is_there {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Writes a file of results.
///
/// # Errors
/// Of the file system, with the path.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Outcome<()> {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Where the stores of a command go.
#[derive(Debug)]
pub struct Place {
    dir: PathBuf,
    /// It is not the user's.
    temporary: bool,
}

impl Place {
    /// The directory that the user named, or a temporary one for a command.
    pub fn new(command: &str, db: Option<&Path>) -> Place {
        let unique = format!("esker-{command}-{}", std::process::id());
        let dir = db.map_or_else(|| std::env::temp_dir().join(unique), Path::to_owned);
        Place { dir, temporary: db.is_none() }
    }

    /// Measures in a directory of this name, which must not be there yet and is not there
    /// afterwards.
    ///
    /// # Errors
    /// Of `measure`, or of the file system.
    pub fn within<T>(&self, name: &str, measure: impl FnOnce(&Path) -> Outcome<T>) -> Outcome<T> {
        let dir = self.dir.join(name);
        if dir.exists() {
            return Err(format!("{} is there already: name a new directory", dir.display()).into());
        }
        let measured = measure(&dir);
        // Also what an error left behind; the directory itself may be the user's.
        let removed = fs::remove_dir_all(&dir);
        let measured = measured?;
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(format!("{}: {error}", dir.display()).into())
            }
            _ => Ok(measured),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.temporary {
            // What stays behind is in the directory for what is temporary.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_for_a_file_is_tried_and_left_as_it_is() {
        let dir = std::env::temp_dir().join(format!("esker-file-test-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let file = dir.join("file");
        check_file(&file).expect("it can be written");
        assert!(!file.exists());
        fs::write(&file, "text").expect("written");
        check_file(&file).expect("it can be written");
        assert_eq!(fs::read(&file).expect("it is there"), b"text");
        for wrong in [dir.join("no directory/file"), dir.clone()] {
            let refused = check_file(&wrong).expect_err("it cannot be written").to_string();
            assert!(refused.contains(&wrong.display().to_string()), "{refused}");
        }
        fs::remove_dir_all(&dir).expect("removed");
    }

    #[test]
    fn nothing_stays_but_what_is_the_users() {
        let place = Place::new("place-test", None);
        let dir = place.dir.clone();
        let fill = |dir: &Path| -> Outcome<()> {
            fs::create_dir_all(dir)?;
            Ok(fs::write(dir.join("file"), "text")?)
        };
        place.within("a", fill).expect("measured");
        assert!(dir.exists() && !dir.join("a").exists());
        let failed = place.within("b", |dir| fill(dir).and(Err::<(), _>("no".into())));
        assert_eq!(failed.expect_err("it failed").to_string(), "no");
        assert!(!dir.join("b").exists());
        let own = Place::new("place-test", Some(&dir.join("own")));
        own.within("c", fill).expect("measured");
        drop(own);
        assert!(dir.join("own").exists() && !dir.join("own/c").exists(), "the user's");
        let own = Place::new("place-test", Some(&dir));
        let refused = own.within("own", fill).expect_err("it is there");
        assert!(refused.to_string().contains("is there already"), "{refused}");
        assert!(dir.join("own").exists(), "and stays");
        drop(place);
        assert!(!dir.exists());
    }
}
