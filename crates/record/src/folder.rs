//! The folder of a comparison: `result.json`, `scenario.toml`, `runs/NNNN/{transfers,samples}.arrow`.
//!
//! NNNN is the index of the row in `result.json`. A run's tables are on the disk before its row is, and `result.json` is
//! replaced as a whole after each run, so that a kill or a crash at any point loses the run under way and nothing else. Only where
//! runs end faster than the file can be written (thousands of short simulations) is a write left out now and then: at most
//! a tenth of the time goes into them, and a kill loses no more than ten times what one write takes.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{flock, syncfs, FlockOperation};

use crate::arrow;
use crate::decisions;
use crate::document::{Document, Failure, SCHEMA};
use crate::intervals;
use crate::row::Row;
use crate::run::{Run, Sample, Transfer};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {error}; choose a folder that can be written with --out")]
    Io { path: PathBuf, error: io::Error },
    #[error("{path}: {problem}; choose another folder with --out")]
    Foreign { path: PathBuf, problem: String },
    #[error("{path}: another comparison is writing here; wait for it, or choose another folder with --out")]
    Busy { path: PathBuf },
    #[error("{path}: {error}")]
    Table { path: PathBuf, error: arrow::Error },
}

/// An open record; the lock on it lasts as long as this value.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    document: Document,
    written: Instant,
    /// What the last write of `result.json` took.
    cost: Duration,
    lock: File,
}

impl Folder {
    /// Opens `path` for a comparison: a fresh record, or the continuation of the same one.
    pub fn open(path: &Path, document: Document, scenario_toml: &str) -> Result<Folder, Error> {
        let io = |error| Error::Io {
            path: path.to_owned(),
            error,
        };
        fs::create_dir_all(path.join("runs")).map_err(io)?;
        let lock = File::create(path.join(".lock")).map_err(io)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(Error::Busy {
                    path: path.to_owned(),
                })
            }
            Err(error) => return Err(io(error.into())),
        }
        let scenario_file = path.join("scenario.toml");
        let foreign = |problem: String| Error::Foreign {
            path: path.to_owned(),
            problem,
        };
        let document = match fs::read_to_string(path.join("result.json")) {
            Ok(text) => {
                let found = read_document(&text).map_err(foreign)?;
                let same_scenario =
                    fs::read_to_string(&scenario_file).is_ok_and(|s| s == scenario_toml);
                if !same_scenario || found.world != document.world {
                    let (scenario, world) = (found.scenario, found.world);
                    return Err(foreign(format!(
                        "holds another comparison ({scenario}, {world} world)"
                    )));
                }
                let linux = |d: &Document| d.kernel.clone().filter(|_| d.world != "sim");
                let linux = [&found, &document].map(|d| linux(d).unwrap_or_default());
                let multipilot = [&found, &document].map(|d| d.multipilot.clone());
                for (of, [then, now]) in [("multipilot", multipilot), ("Linux", linux)] {
                    if then != now {
                        return Err(foreign(format!(
                            "its runs are of {of} {then}, this is {now}"
                        )));
                    }
                }
                let cut = (0..found.rows.len()).find(|&index| !is_whole(path, index));
                if let Some(index) = cut {
                    return Err(foreign(format!(
                        "runs/{index:04}: a table of this run is missing or cut short"
                    )));
                }
                // What failed gets another chance.
                Document {
                    failed: Vec::new(),
                    ..found
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => document,
            Err(error) => return Err(io(error)),
        };
        let mut folder = Folder {
            path: path.to_owned(),
            document,
            written: Instant::now(),
            cost: Duration::ZERO,
            lock,
        };
        folder.replace("scenario.toml", scenario_toml.as_bytes())?;
        folder.write_document()?;
        Ok(folder)
    }

    /// Reads the document of a record without opening it for writing.
    pub fn read(path: &Path) -> Result<Document, Error> {
        let file = path.join("result.json");
        let text = fs::read_to_string(&file).map_err(|error| Error::Io {
            path: file.clone(),
            error,
        })?;
        read_document(&text).map_err(|problem| Error::Foreign {
            path: file,
            problem,
        })
    }

    /// Reads the tables of row `index`.
    pub fn read_run(path: &Path, index: usize) -> Result<(Vec<Transfer>, Vec<Sample>), Error> {
        let file = |name: &str| run_folder(path, index).join(name);
        let open = |path: &Path| {
            File::open(path).map_err(|error| Error::Io {
                path: path.to_owned(),
                error,
            })
        };
        let (transfers, samples) = (file("transfers.arrow"), file("samples.arrow"));
        Ok((
            arrow::read_transfers(open(&transfers)?).map_err(|error| Error::Table {
                path: transfers,
                error,
            })?,
            arrow::read_samples(open(&samples)?).map_err(|error| Error::Table {
                path: samples,
                error,
            })?,
        ))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn document(&self) -> &Document {
        &self.document
    }

    /// Variant and seed of every run that is done already.
    pub fn done(&self) -> HashSet<(String, u64)> {
        let key = |row: &Row| (row.variant.clone(), row.seed);
        self.document.rows.iter().map(key).collect()
    }

    /// Adds a finished run.
    pub fn append(&mut self, row: Row, run: &Run) -> Result<(), Error> {
        let runs = self.path.join("runs");
        let folder = run_folder(&self.path, self.document.rows.len());
        // Remains of a run whose row was never written.
        let _ = fs::remove_dir_all(&folder);
        let fresh = tempfile::Builder::new()
            .prefix(".run")
            .tempdir_in(&runs)
            .map_err(|e| self.io(e))?;
        let write = |name: &str, fill: &dyn Fn(File) -> Result<(), arrow::Error>| {
            let path = fresh.path().join(name);
            let file = File::create(&path).map_err(|error| Error::Io {
                path: path.clone(),
                error,
            })?;
            fill(file).map_err(|error| Error::Table { path, error })
        };
        write("transfers.arrow", &|file| {
            arrow::write_transfers(file, &run.transfers)
        })?;
        write("samples.arrow", &|file| {
            arrow::write_samples(file, &run.samples)
        })?;
        if !run.decisions.is_empty() {
            write("decisions.arrow", &|file| {
                decisions::write(file, &run.decisions)
            })?;
        }
        if !run.intervals.is_empty() {
            write("intervals.arrow", &|file| {
                intervals::write(file, &run.intervals)
            })?;
        }
        readable(fresh.path()).map_err(|e| self.io(e))?;
        fs::rename(fresh.keep(), &folder).map_err(|e| self.io(e))?;
        self.document.rows.push(row);
        if self.written.elapsed() >= self.cost * 10 {
            self.write_document()?;
        }
        Ok(())
    }

    /// Notes a run that gave no row.
    pub fn fail(&mut self, failure: Failure) -> Result<(), Error> {
        self.document.failed.push(failure);
        self.write_document()
    }

    /// Changes rows in place (figures that need several runs).
    pub fn amend(&mut self, change: impl FnMut(&mut Row)) -> Result<(), Error> {
        self.document.rows.iter_mut().for_each(change);
        self.write_document()
    }

    /// Writes what is not on the disk yet.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.write_document()
    }

    fn write_document(&mut self) -> Result<(), Error> {
        let begin = Instant::now();
        // The tables, and the names of their folders.
        syncfs(&self.lock).map_err(|e| self.io(e.into()))?;
        self.replace("result.json", (self.document.to_json() + "\n").as_bytes())?;
        self.written = Instant::now();
        self.cost = begin.elapsed();
        Ok(())
    }

    fn replace(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        mp_files::replace_durably(&self.path.join(name), content).map_err(|e| self.io(e))
    }

    fn io(&self, error: io::Error) -> Error {
        Error::Io {
            path: self.path.clone(),
            error,
        }
    }
}

/// A temporary folder is its owner's alone; a record is for everybody who may read its parent.
fn readable(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
}

fn run_folder(path: &Path, index: usize) -> PathBuf {
    path.join("runs").join(format!("{index:04}"))
}

/// Whether both tables of a row end as Arrow files do. Reading them all would make going on from thousands of runs slow.
fn is_whole(path: &Path, index: usize) -> bool {
    const END: &[u8; 6] = b"ARROW1";
    let ends = |name: &str| -> io::Result<bool> {
        let mut file = File::open(run_folder(path, index).join(name))?;
        file.seek(SeekFrom::End(-(END.len() as i64)))?;
        let mut last = [0; END.len()];
        file.read_exact(&mut last)?;
        Ok(&last == END)
    };
    ["transfers.arrow", "samples.arrow"]
        .iter()
        .all(|name| ends(name).unwrap_or(false))
}

fn read_document(text: &str) -> Result<Document, String> {
    let document: Document =
        serde_json::from_str(text).map_err(|e| format!("result.json is no record ({e})"))?;
    match document.schema {
        SCHEMA => Ok(document),
        other => Err(format!(
            "result.json has schema {other}, this version writes {SCHEMA}"
        )),
    }
}
