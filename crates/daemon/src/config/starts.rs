//! `[bandit]`

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use mp_scenario::document::Section;
use mp_scenario::Error;

pub const KEYS: &[&str] = &[
    "memory",
    "cgroup",
    "server",
    "token-file",
    "location",
    "paths",
];

/// Which path connections start on is learnt.
#[derive(Debug, Clone, PartialEq)]
pub struct Starts {
    /// The folder of what was learnt.
    pub memory: PathBuf,
    /// Whose processes' connections; `None`: all of this host's.
    pub cgroup: Option<PathBuf>,
    /// Who is asked first.
    pub server: Option<Server>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    pub address: SocketAddr,
    pub token_file: PathBuf,
    /// What the device is near.
    pub location: String,
    /// What the server calls an interface.
    pub paths: BTreeMap<String, String>,
}

impl Starts {
    pub(super) fn read(section: &Section<'_>) -> Result<Starts, Error> {
        let path = |key: &str| -> Result<Option<PathBuf>, Error> {
            let text = section.get(key).map(|f| f.string()).transpose()?;
            Ok(text.map(PathBuf::from))
        };
        let mut starts = Starts {
            memory: path("memory")?.unwrap_or_else(|| "/var/lib/multipilot".into()),
            cgroup: path("cgroup")?,
            server: None,
        };
        let Some(field) = section.get("server") else {
            for key in ["token-file", "location", "paths"] {
                if let Some(field) = section.get(key) {
                    return Err(field.error("has no meaning without a server", "bandit.server"));
                }
            }
            return Ok(starts);
        };
        const EXPECTED: &str = "an IP address with a port, e.g. \"http://10.0.0.9:9463\"";
        let text = field.string()?;
        let plain = text.strip_prefix("http://").unwrap_or(text);
        let address = plain.trim_end_matches('/').parse();
        let mut paths = BTreeMap::new();
        if let Some(names) = section.get("paths") {
            for (interface, path) in names.entries()? {
                paths.insert(interface.to_owned(), path.name()?.to_owned());
            }
        }
        let location = section.get("location").map(|f| f.name()).transpose()?;
        starts.server = Some(Server {
            address: address.map_err(|_| field.error("is no address", EXPECTED))?,
            token_file: PathBuf::from(
                section
                    .require("token-file", "what multipilot serve --new-token printed")?
                    .string()?,
            ),
            location: location.unwrap_or("here").to_owned(),
            paths,
        });
        Ok(starts)
    }
}
