//! A bandit on disk: JSON with a version, replaced as a whole, so that a crash at any point leaves the old one or the new.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Bandit;

const FORMAT: &str = "multipilot bandit";
/// Grows when a file of before would be misread.
pub const VERSION: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}: {1}")]
    Io(String, io::Error),
    #[error("{0}: is no saved bandit ({1}); remove it to begin anew")]
    Format(String, String),
    #[error("{0}: version {1}, this multipilot reads {VERSION}; update it, or remove the file to begin anew")]
    Version(String, u32),
}

#[derive(Serialize)]
struct Written<'a> {
    format: &'a str,
    version: u32,
    bandit: &'a Bandit,
}

#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

#[derive(Deserialize)]
struct Read {
    bandit: Bandit,
}

/// The bandit with all its state, its generator's included: a copy decides as the original would have.
pub fn encode(bandit: &Bandit) -> Vec<u8> {
    let written = Written {
        format: FORMAT,
        version: VERSION,
        bandit,
    };
    // Numbers, texts and lists: nothing that JSON could refuse, for what is no number is written as null.
    serde_json::to_vec(&written).unwrap_or_default()
}

/// `name` is what errors call it.
pub fn decode(name: &str, bytes: &[u8]) -> Result<Bandit, Error> {
    let bad = |e: serde_json::Error| Error::Format(name.into(), e.to_string());
    let head: Head = serde_json::from_slice(bytes).map_err(bad)?;
    if head.format != FORMAT {
        return Err(Error::Format(name.into(), format!("but {:?}", head.format)));
    }
    if head.version != VERSION {
        return Err(Error::Version(name.into(), head.version));
    }
    let Read { bandit } = serde_json::from_slice(bytes).map_err(bad)?;
    if bandit.coherent() {
        Ok(bandit)
    } else {
        Err(Error::Format(name.into(), "its parts do not fit".into()))
    }
}

/// Replaces the file as a whole.
pub fn save(bandit: &Bandit, path: &Path) -> Result<(), Error> {
    replace(path, &encode(bandit)).map_err(|e| Error::Io(path.display().to_string(), e))
}

pub fn load(path: &Path) -> Result<Bandit, Error> {
    let name = path.display().to_string();
    match fs::read(path) {
        Ok(bytes) => decode(&name, &bytes),
        Err(e) => Err(Error::Io(name, e)),
    }
}

/// Written beside its place, forced to the disk, and only then renamed into it.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let beside = beside(path);
    let written = File::create(&beside)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
        return written;
    }
    // The rename itself lasts once the folder is on the disk.
    File::open(folder)?.sync_all()
}

fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.new", std::process::id()));
    path.with_file_name(name)
}

/// Contexts in JSON: what is no number (a missing value) is null.
pub(super) mod holes {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(values: &[f64], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(|v| v.is_finite().then_some(*v)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
        let values = Vec::<Option<f64>>::deserialize(from)?;
        Ok(values.into_iter().map(|v| v.unwrap_or(f64::NAN)).collect())
    }
}
