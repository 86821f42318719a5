//! `[relay]`

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use mp_policy::scheduler;
use mp_relay::capture::{Cgroup, User};
use mp_relay::device;
use mp_relay::egress::Prefix;
use mp_relay::wire::Line;
use mp_relay::Transport;
use mp_scenario::document::{self, Field, Section};
use mp_scenario::Error;
use serde::{Deserialize, Serialize};

pub(super) const KEYS: &[&str] = &[
    "line-file",
    "scheduler",
    "carrier",
    "controller",
    "leak",
    "direct",
    "direct-users",
    "direct-cgroups",
    "dns",
    "lan",
    "links",
    "hold",
    "state",
];

/// More than a line with the longest of names.
const LONGEST_LINE: u64 = 1024;

/// What becomes of connections while nobody hands them to the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Leak {
    Direct,
    Block,
}

impl Leak {
    pub const NAMES: [(&'static str, Leak); 2] = [("direct", Leak::Direct), ("block", Leak::Block)];
}

#[derive(Debug, Clone, PartialEq)]
pub struct RelayConfig {
    /// The file of the line; `None`: there is no relay until somebody gives a line.
    pub line_file: Option<PathBuf>,
    /// In place of the file's.
    pub line: Option<Line>,
    pub scheduler: String,
    /// Of the streams.
    pub carrier: Transport,
    /// Of path connections; `None`: `pilot` where it can be loaded, else BBR where there is, else the system's.
    pub controller: Option<String>,
    pub leak: Leak,
    pub direct: Vec<Prefix>,
    pub direct_users: Vec<User>,
    pub direct_cgroups: Vec<Cgroup>,
    /// Queries to resolvers in private ranges go to these, not to the relay's resolver.
    pub direct_dns: bool,
    /// Interfaces whose hosts have this one for a router.
    pub lans: Vec<String>,
    /// Interfaces by name; empty: those with a default route that are not ignored.
    pub links: Vec<String>,
    /// Connections that no link carries end after so long.
    pub hold: Duration,
    /// The folder of the device's key and of what links have carried.
    pub state: PathBuf,
}

impl Default for RelayConfig {
    fn default() -> Self {
        RelayConfig {
            line_file: None,
            line: None,
            scheduler: mp_relay::SCHEDULER.into(),
            carrier: Transport::default(),
            controller: None,
            leak: Leak::Direct,
            direct: Vec::new(),
            direct_users: Vec::new(),
            direct_cgroups: Vec::new(),
            direct_dns: false,
            lans: Vec::new(),
            links: Vec::new(),
            hold: device::HOLD,
            state: "/var/lib/multipilot".into(),
        }
    }
}

/// What `multipilot up --relay` says in place of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayOverride {
    pub line: String,
    pub scheduler: Option<String>,
    /// `tcp` or `mptcp`
    pub carrier: Option<String>,
    pub leak: Option<Leak>,
    #[serde(default)]
    pub direct: Vec<String>,
    /// By number.
    #[serde(default)]
    pub direct_users: Vec<u32>,
    #[serde(default)]
    pub direct_cgroups: Vec<String>,
    pub direct_dns: Option<bool>,
    #[serde(default)]
    pub lans: Vec<String>,
    #[serde(default)]
    pub links: Vec<String>,
    pub hold_s: Option<f64>,
}

fn listed<T>(
    section: &Section<'_>,
    key: &str,
    one: impl Fn(&Field<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let items = section.get(key).map(|field| field.items()).transpose()?;
    items.unwrap_or_default().iter().map(one).collect()
}

fn read<T: FromStr<Err = String>>(field: &Field<'_>, example: &str) -> Result<T, Error> {
    let parsed = field.string()?.parse();
    parsed.map_err(|e: String| field.error(e, example))
}

impl RelayConfig {
    pub(super) fn read(section: &Section<'_>) -> Result<RelayConfig, Error> {
        let mut relay = RelayConfig::default();
        if let Some(field) = section.get("line-file") {
            relay.line_file = Some(field.string()?.into());
        }
        if let Some(field) = section.get("scheduler") {
            relay.scheduler = document::scheduler(&field)?;
        }
        if let Some(field) = section.get("carrier") {
            relay.carrier = field.choice(&Transport::NAMES)?;
        }
        if let Some(field) = section.get("controller") {
            relay.controller = Some(document::controller(&field)?);
        }
        if let Some(field) = section.get("leak") {
            relay.leak = field.choice(&Leak::NAMES)?;
        }
        relay.direct = listed(section, "direct", |f| read(f, "\"203.0.113.0/24\""))?;
        relay.direct_users = listed(section, "direct-users", |f| match f.string() {
            Ok(_) => read(f, "\"backup\" or 1001"),
            Err(_) => Ok(User(f.integer(0, u32::MAX.into())? as u32)),
        })?;
        relay.direct_cgroups = listed(section, "direct-cgroups", |f| {
            read(f, "\"/system.slice/backup.service\"")
        })?;
        if let Some(field) = section.get("dns") {
            relay.direct_dns = field.choice(&[("relay", false), ("direct", true)])?;
        }
        for (key, names) in [("lan", &mut relay.lans), ("links", &mut relay.links)] {
            if let Some(field) = section.get(key) {
                let name = |f: &Field<'_>| f.name().map(str::to_owned);
                *names = field.items()?.iter().map(name).collect::<Result<_, _>>()?;
            }
        }
        if let Some(field) = section.get("hold") {
            relay.hold = field.duration()?;
        }
        if let Some(field) = section.get("state") {
            relay.state = field.string()?.into();
        }
        Ok(relay)
    }

    /// With what the user said in place of the file.
    pub fn with(&self, other: &RelayOverride) -> Result<RelayConfig, crate::Error> {
        let wrong = |what: String| crate::Error::Usage(what);
        let mut relay = self.clone();
        let line = other.line.parse();
        relay.line = Some(line.map_err(|e| wrong(format!("the relay's line: {e}")))?);
        if let Some(name) = &other.scheduler {
            let found = scheduler::find(name).ok_or_else(|| {
                wrong(format!(
                    "--scheduler {name}: no such scheduler; see multipilot list schedulers"
                ))
            })?;
            relay.scheduler = found.name.to_owned();
        }
        if let Some(name) = &other.carrier {
            relay.carrier = name.parse().map_err(wrong)?;
        }
        relay.leak = other.leak.unwrap_or(relay.leak);
        let more: Result<Vec<Prefix>, String> = other.direct.iter().map(|p| p.parse()).collect();
        relay.direct.extend(more.map_err(wrong)?);
        let users = other.direct_users.iter().map(|number| User(*number));
        relay.direct_users.extend(users);
        let cgroups = other.direct_cgroups.iter().map(|path| path.parse());
        let cgroups: Result<Vec<Cgroup>, String> = cgroups.collect();
        relay.direct_cgroups.extend(cgroups.map_err(wrong)?);
        relay.direct_dns = other.direct_dns.unwrap_or(relay.direct_dns);
        if let Some(seconds) = other.hold_s {
            let hold = Duration::try_from_secs_f64(seconds);
            relay.hold = hold.map_err(|e| wrong(format!("hold_s {seconds}: {e}")))?;
        }
        for (own, said) in [
            (&mut relay.lans, &other.lans),
            (&mut relay.links, &other.links),
        ] {
            if !said.is_empty() {
                own.clone_from(said);
            }
        }
        Ok(relay)
    }

    /// `None`: there is no relay. Errors say how to fix the file.
    pub fn line(&self) -> Result<Option<Line>, crate::Error> {
        let Some(named) = self.line_file.as_ref().filter(|_| self.line.is_none()) else {
            return Ok(self.line.clone());
        };
        // As systemd hands over credentials.
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        let path = match credentials {
            Some(folder) if named.is_relative() => folder.join(named),
            _ => named.clone(),
        };
        let shown = format!("relay.line-file {}", path.display());
        let read = || {
            let mode = fs::metadata(&path)?.permissions().mode();
            let mut text = String::new();
            File::open(&path)?
                .take(LONGEST_LINE)
                .read_to_string(&mut text)?;
            Ok((mode, text))
        };
        let (mode, text) = read().map_err(|e: std::io::Error| match e.kind() {
            ErrorKind::PermissionDenied => crate::Error::Denied(format!("{shown}: {e}")),
            _ => crate::Error::Usage(format!("{shown}: {e}")),
        })?;
        if mode & 0o077 != 0 {
            return Err(crate::Error::Usage(format!(
                "{shown}: other users can read this secret: chmod 600 {}",
                path.display()
            )));
        }
        let line = text.parse();
        line.map(Some)
            .map_err(|e| crate::Error::Usage(format!("{shown}: {e}")))
    }
}
