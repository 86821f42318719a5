//! `[bandit]`

use std::collections::BTreeMap;
use std::path::PathBuf;

use mp_scenario::document::Section;
use mp_scenario::Error;
use mp_server::client::Origin;

pub const KEYS: &[&str] = &[
    "memory",
    "cgroup",
    "server",
    "ca",
    "insecure",
    "token-file",
    "location",
    "paths",
];

/// Which path connections start on is learnt.
#[derive(Debug, Clone, PartialEq)]
pub struct BanditConfig {
    /// The folder of what was learnt.
    pub memory: PathBuf,
    /// Whose processes' connections; `None`: all of this host's.
    pub cgroup: Option<PathBuf>,
    /// Who is asked first.
    pub server: Option<EdgeServerConfig>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct EdgeServerConfig {
    pub address: Origin,
    /// Certificates of a private CA, PEM; `None`: those that the system trusts.
    pub ca: Option<PathBuf>,
    pub token_file: PathBuf,
    /// What the device is near.
    pub location: String,
    /// What the server calls an interface.
    pub paths: BTreeMap<String, String>,
}

impl BanditConfig {
    pub(super) fn read(section: &Section<'_>) -> Result<BanditConfig, Error> {
        let path = |key: &str| -> Result<Option<PathBuf>, Error> {
            let text = section.get(key).map(|f| f.string()).transpose()?;
            Ok(text.map(PathBuf::from))
        };
        let mut bandit = BanditConfig {
            memory: path("memory")?.unwrap_or_else(|| "/var/lib/multipilot".into()),
            cgroup: path("cgroup")?,
            server: None,
        };
        let Some(field) = section.get("server") else {
            for key in ["ca", "insecure", "token-file", "location", "paths"] {
                if let Some(field) = section.get(key) {
                    return Err(field.error("has no meaning without a server", "bandit.server"));
                }
            }
            return Ok(bandit);
        };
        let address: Origin = field.string()?.parse().map_err(|e: String| {
            field.error(
                format!("is no server: {e}"),
                "e.g. \"https://edge.example:9463\"",
            )
        })?;
        if address.is_exposed() && !section.boolean_or("insecure", false)? {
            return Err(field.error(
                "would send the token across the network in clear text",
                "https://, a tunnel's end on 127.0.0.1, or bandit.insecure = true",
            ));
        }
        let mut paths = BTreeMap::new();
        if let Some(names) = section.get("paths") {
            for (interface, path) in names.entries()? {
                paths.insert(interface.to_owned(), path.name()?.to_owned());
            }
        }
        let location = section.get("location").map(|f| f.name()).transpose()?;
        bandit.server = Some(EdgeServerConfig {
            address,
            ca: path("ca")?,
            token_file: PathBuf::from(
                section
                    .require("token-file", "what multipilot serve --new-token printed")?
                    .string()?,
            ),
            location: location.unwrap_or("here").to_owned(),
            paths,
        });
        Ok(bandit)
    }
}
