//! A bandit as a file: JSON with a version.

use serde::{Deserialize, Serialize};

use super::Bandit;

const FORMAT: &str = "multipilot bandit";
/// Grows when a file of before would be misread.
pub const VERSION: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub enum Error {
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
    // A name that serde does not know stands in its message as it was written, line ends too.
    let bad =
        |e: serde_json::Error| Error::Format(name.into(), e.to_string().replace(['\n', '\r'], " "));
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
