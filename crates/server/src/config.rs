//! What the user may settle. Every key has a default; `docs/reference/server.md` is the reference.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mp_policy::bandit::Policy;
use mp_scenario::document::{self, section, Field, Section};
use mp_scenario::{did_you_mean, Error};

use crate::limit::RateLimit;
use crate::wire;

pub const DEFAULT_FILE: &str = "/etc/multipilot/server.toml";

const TOP_KEYS: &[&str] = &[
    "listen",
    "tls",
    "insecure",
    "access-log",
    "data",
    "paths",
    "policy",
    "reward",
    "limits",
];
const TLS_KEYS: &[&str] = &["cert", "key"];
const POLICY_KEYS: &[&str] = &["name", "refit", "memory", "seed"];
const REWARD_KEYS: &[&str] = &["throughput", "latency"];
const LIMIT_KEYS: &[&str] = &[
    "requests",
    "burst",
    "body",
    "connections",
    "locations",
    "database",
    "days",
    "patience",
];

/// Paths of one server at most: each is an arm of every model.
const MOST_PATHS: usize = 8;

/// PEM files; both are read again when they change.
#[derive(Debug, Clone, PartialEq)]
pub struct TlsFiles {
    /// The server's certificate and those between it and the CA's.
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// Which requests the access log names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessLog {
    Off,
    /// Those that were not answered with success.
    Refused,
    All,
}

pub const ACCESS_LOGS: &[(&str, AccessLog)] = &[
    ("off", AccessLog::Off),
    ("refused", AccessLog::Refused),
    ("all", AccessLog::All),
];

#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub listen: SocketAddr,
    /// `None`: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Plain HTTP where others can listen, too.
    pub insecure: bool,
    pub access_log: AccessLog,
    /// Folder of the database and the tokens.
    pub data: PathBuf,
    /// The arms of every model.
    pub paths: Vec<String>,
    /// One of [`Policy::NAMED`].
    pub policy: String,
    /// Outcomes between two fits of a location's model on all that it remembers.
    pub refit: u32,
    /// Outcomes that a location's model remembers.
    pub memory: usize,
    pub seed: u64,
    /// A connection is good from this throughput on, Mbit/s; else from the location's running median on.
    pub throughput_mbps: Option<f64>,
    /// … and up to this latency, ms.
    pub latency_ms: Option<f64>,
    /// Of each token.
    pub requests: RateLimit,
    /// Bytes of a request's body at most.
    pub body: usize,
    pub connections: usize,
    pub locations: usize,
    /// Bytes of the database at most: beyond, the oldest outcomes are deleted.
    pub database: u64,
    /// Days that an outcome is kept; `None`: as long as there is room.
    pub days: Option<u64>,
    /// For a request's head, and again for its body.
    pub patience: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            listen: ([127, 0, 0, 1], 9463).into(),
            tls: None,
            insecure: false,
            access_log: AccessLog::Refused,
            data: "/var/lib/multipilot".into(),
            paths: vec!["wifi".into(), "cellular".into()],
            policy: Policy::NAMED[0].0.into(),
            refit: 50,
            memory: 1000,
            seed: 1,
            throughput_mbps: None,
            latency_ms: None,
            requests: RateLimit {
                per_second: 100.0,
                burst: 200.0,
            },
            body: 64 << 10,
            connections: 1024,
            locations: 1000,
            database: 4 << 30,
            days: None,
            patience: Duration::from_secs(10),
        }
    }
}

impl Config {
    pub fn load(file: &Path) -> Result<Config, Error> {
        let (shown, text) = document::read(file)?;
        Config::parse(&shown, &text)
    }

    /// `shown` is what errors call it.
    pub fn parse(shown: &str, text: &str) -> Result<Config, Error> {
        let node = document::parse(shown, text)?;
        let root = document::root(&node, TOP_KEYS)?;
        let mut config = Config::default();
        if let Some(field) = root.get("listen") {
            let expected = "an address with a port, e.g. \"127.0.0.1:9463\"";
            let parsed = field.string()?.parse();
            config.listen = parsed.map_err(|_| field.error("is no address", expected))?;
        }
        if let Some(tls) = section(&root, "tls", TLS_KEYS)? {
            let file = |key: &str| -> Result<PathBuf, Error> {
                let field = tls.require(key, "a PEM file")?;
                Ok(field.string()?.into())
            };
            config.tls = Some(TlsFiles {
                cert: file("cert")?,
                key: file("key")?,
            });
        }
        config.insecure = root.boolean_or("insecure", false)?;
        if let Some(field) = root.get("access-log") {
            config.access_log = field.choice(ACCESS_LOGS)?;
        }
        if let Some(field) = root.get("data") {
            config.data = field.string()?.into();
        }
        if let Some(field) = root.get("paths") {
            config.paths = paths(&field)?;
        }
        if let Some(policy) = section(&root, "policy", POLICY_KEYS)? {
            if let Some(field) = policy.get("name") {
                config.policy = policy_name(&field)?;
            }
            let read = |key, low, high, default| {
                let field = policy.get(key);
                field.map_or(Ok(default), |f| f.integer(low, high))
            };
            config.refit = read("refit", 1, 1_000_000, config.refit.into())? as u32;
            config.memory = read("memory", 10, 100_000, config.memory as u64)? as usize;
            config.seed = read("seed", 0, u64::MAX >> 1, config.seed)?;
        }
        if let Some(reward) = section(&root, "reward", REWARD_KEYS)? {
            let rate = reward.get("throughput").map(|f| f.rate()).transpose()?;
            config.throughput_mbps = rate.map(|bits| bits as f64 / 1e6);
            let latency = reward.get("latency").map(|f| f.positive_duration());
            config.latency_ms = latency.transpose()?.map(|d| d.as_secs_f64() * 1e3);
        }
        if let Some(limits) = section(&root, "limits", LIMIT_KEYS)? {
            config.read_limits(&limits)?;
        }
        Ok(config)
    }

    fn read_limits(&mut self, limits: &Section<'_>) -> Result<(), Error> {
        let integer = |key, low, high, default| {
            let field = limits.get(key);
            field.map_or(Ok(default), |f| f.integer(low, high))
        };
        let per_second = integer("requests", 1, 1_000_000, self.requests.per_second as u64)?;
        self.requests = RateLimit {
            per_second: per_second as f64,
            burst: integer("burst", 1, 1_000_000, 2 * per_second)? as f64,
        };
        self.connections = integer("connections", 1, 100_000, self.connections as u64)? as usize;
        self.locations = integer("locations", 1, 100_000, self.locations as u64)? as usize;
        let size = |key, low: u64, default| -> Result<u64, Error> {
            let Some(field) = limits.get(key) else {
                return Ok(default);
            };
            match field.size()? {
                bytes if bytes < low => {
                    Err(field.error("is too small", format!("{low} bytes or more")))
                }
                bytes => Ok(bytes),
            }
        };
        self.body = size("body", 1024, self.body as u64)?.min(16 << 20) as usize;
        self.database = size("database", 1 << 20, self.database)?;
        if let Some(field) = limits.get("days") {
            self.days = Some(field.integer(1, 36_500)?);
        }
        if let Some(field) = limits.get("patience") {
            self.patience = field.positive_duration()?;
        }
        Ok(())
    }

    /// Tokens and outcomes in clear text where others can listen are somebody's explicit choice.
    pub fn check_exposure(&self) -> Result<(), crate::Error> {
        if is_private(&self.listen) || self.tls.is_some() || self.insecure {
            return Ok(());
        }
        Err(crate::Error::Usage(format!(
            "{}: tokens would cross the network in clear text: give a certificate (--tls-cert FILE --tls-key FILE), listen on \
             127.0.0.1 behind a proxy, or allow it (--insecure)",
            self.listen
        )))
    }

    pub fn database_file(&self) -> PathBuf {
        self.data.join("experience.db")
    }

    pub fn token_file(&self) -> PathBuf {
        self.data.join("tokens")
    }
}

/// Whether nobody outside this host hears what is said there.
pub fn is_private(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Every key, by the section it stands in: what `docs/reference/server.md` has to cover.
pub fn known_keys() -> Vec<(&'static str, &'static [&'static str])> {
    vec![
        ("", TOP_KEYS),
        ("tls.", TLS_KEYS),
        ("policy.", POLICY_KEYS),
        ("reward.", REWARD_KEYS),
        ("limits.", LIMIT_KEYS),
    ]
}

fn paths(field: &Field<'_>) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> = Vec::new();
    for item in field.items()? {
        let name = item.name()?;
        wire::check_name("path", name)
            .map_err(|e| item.error(format!("{name:?} is no name"), e))?;
        if names.iter().any(|n| n == name) {
            return Err(item.error(format!("{name} stands there twice"), "each path once"));
        }
        names.push(name.to_owned());
    }
    match names.len() {
        2..=MOST_PATHS => Ok(names),
        n => Err(field.error(
            format!("has {n} entries"),
            format!("2 to {MOST_PATHS} names of paths"),
        )),
    }
}

fn policy_name(field: &Field<'_>) -> Result<String, Error> {
    let name = field.string()?;
    let known: Vec<&str> = Policy::NAMED.iter().map(|(n, _)| *n).collect();
    if known.contains(&name) {
        return Ok(name.to_owned());
    }
    let hint = did_you_mean(name, known.iter().copied());
    Err(field.error(
        format!("\"{name}\" is unknown{hint}"),
        format!("one of {}", known.join(", ")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Config::parse("server.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn no_file_is_needed() {
        assert_eq!(Config::parse("server.toml", "").unwrap(), Config::default());
    }

    #[test]
    fn every_key_is_read() {
        let text =
            "listen = \"[::1]:80\"\ntls = { cert = \"c.pem\", key = \"k.pem\" }\ninsecure = true\n\
                    access-log = \"all\"\ndata = \"d\"\npaths = [\"a\", \"b\", \"c\"]\n\
                    policy = { name = \"thompson\", refit = 20, memory = 99, seed = 7 }\n\
                    reward = { throughput = \"5Mbit\", latency = \"80ms\" }\n\
                    [limits]\nrequests = 5\nbody = \"2kB\"\nconnections = 6\nlocations = 7\n\
                    database = \"8MB\"\ndays = 90\npatience = \"1s\"\n";
        let config = Config::parse("server.toml", text).unwrap();
        assert_eq!(config.tls.as_ref().unwrap().key, Path::new("k.pem"));
        assert_eq!((config.insecure, config.access_log), (true, AccessLog::All));
        assert_eq!((config.paths.len(), config.days), (3, Some(90)));
        assert_eq!((config.policy.as_str(), config.refit), ("thompson", 20));
        assert_eq!((config.memory, config.seed), (99, 7));
        assert_eq!(config.throughput_mbps, Some(5.0));
        assert_eq!(config.latency_ms, Some(80.0));
        assert_eq!(config.requests.burst, 10.0, "twice the rate");
        assert_eq!((config.body, config.database), (2000, 8_000_000));
        assert_eq!((config.connections, config.locations), (6, 7));
        assert_eq!(config.patience, Duration::from_secs(1));
    }

    #[test]
    fn clear_text_leaves_the_host_only_where_somebody_says_so() {
        let exposed = |text: &str| {
            let config = Config::parse("server.toml", text).unwrap();
            config.check_exposure().map_err(|e| e.to_string())
        };
        for fine in [
            "",
            "listen = \"127.0.0.2:1\"",
            "listen = \"[::1]:1\"",
            "listen = \"[::ffff:127.0.0.1]:1\"",
            "listen = \"0.0.0.0:1\"\ninsecure = true",
            "listen = \"0.0.0.0:1\"\ntls = { cert = \"c\", key = \"k\" }",
        ] {
            assert_eq!(exposed(fine), Ok(()), "{fine}");
        }
        for wrong in ["0.0.0.0:1", "[::]:1", "10.0.0.9:1", "[::ffff:10.0.0.9]:1"] {
            let error = exposed(&format!("listen = \"{wrong}\"")).unwrap_err();
            for way in [wrong, "--tls-cert", "--insecure"] {
                assert!(error.contains(way), "{error}");
            }
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn an_error_names_file_line_and_column() {
        let line = error("[limits]\nrequest = 3\n");
        assert!(
            line.starts_with(
                "server.toml:2:1: limits.request: unknown key (did you mean \"requests\"?)"
            ),
            "{line}"
        );
        assert!(error("policy.name = \"tompson\"").contains("did you mean \"thompson\"?"));
        assert!(error("paths = [\"wifi\"]").contains("2 to 8 names"));
        assert!(error("paths = [\"wifi\", \"wifi\"]").contains("stands there twice"));
        assert!(error("paths = [\"wi fi\", \"lte\"]").contains("is no name"));
        assert!(error("listen = \"here\"").contains("is no address"));
        assert!(error("tls.cert = \"c\"").contains("tls.key"));
        assert!(error("access-log = \"some\"").contains("is unknown"));
        assert!(error("limits.database = \"1kB\"").contains("is too small"));
    }
}
