//! What the rules of the interfaces make of the relay's links, and what those have carried this month.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use mp_host::{Glob, PathSettings};
use mp_policy::link::{decide, Decision, Link, Reason, Usage};
use mp_relay::device::LinkReport;
use mp_relay::links::Rules;

use crate::config::Config;
use crate::log::{self, Level};
use crate::Error;

const FILE: &str = "relay-links.json";

/// The rules, with what is known of the links now.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkRules {
    paths: PathSettings,
    limits: Vec<(Glob, u64)>,
    /// Links that the relay's settings name: they are not ignored.
    named: Vec<String>,
    weak: BTreeSet<String>,
    unchosen: BTreeSet<String>,
    exhausted: BTreeSet<String>,
}

impl LinkRules {
    /// `known`: what was observed before.
    pub fn new(config: &Config, named: &[String], known: Option<&LinkRules>) -> LinkRules {
        LinkRules {
            paths: config.paths.clone(),
            limits: config.limits.clone(),
            named: named.to_vec(),
            weak: known.map(|k| k.weak.clone()).unwrap_or_default(),
            unchosen: known.map(|k| k.unchosen.clone()).unwrap_or_default(),
            exhausted: known.map(|k| k.exhausted.clone()).unwrap_or_default(),
        }
    }

    /// Links whose signal is below the user's threshold.
    pub fn set_weak(&mut self, weak: BTreeSet<String>) {
        self.weak = weak;
    }

    /// Links that the bandit has in backup.
    pub fn unchosen(&self) -> &BTreeSet<String> {
        &self.unchosen
    }

    pub fn set_unchosen(&mut self, unchosen: BTreeSet<String>) {
        self.unchosen = unchosen;
    }

    pub fn observe(&mut self, carried: &MonthlyBytes) {
        let links = carried.links.iter();
        let out = links.filter(|(link, usage)| usage.exhausts(self.limit(link)));
        self.exhausted = out.map(|(link, _)| link.clone()).collect();
    }

    pub fn decide(&self, link: &str) -> Decision {
        decide(&Link {
            rule: self.paths.rule(link),
            ignored: self.paths.ignores(link) && !self.named.iter().any(|name| name == link),
            weak: self.weak.contains(link),
            unchosen: self.unchosen.contains(link),
            exhausted: self.exhausted.contains(link),
        })
    }

    /// Bytes a month.
    pub fn limit(&self, link: &str) -> Option<u64> {
        let fits = self.limits.iter().find(|(glob, _)| glob.fits(link));
        fits.map(|(_, bytes)| *bytes)
    }

    pub fn rules(&self) -> Rules {
        let judge = self.clone();
        Rules::new(move |link| judge.decide(link).priority)
    }
}

/// A reason, for people.
pub fn why(reason: Reason) -> &'static str {
    match reason {
        Reason::Ignored => "ignored, as the configuration says",
        Reason::Untrusted => "untrusted, as its rule says",
        Reason::Limit => "it has carried what its limit allows this month",
        Reason::Metered => "metered, as its rule says, and another link works",
        Reason::Signal => "its radio signal is weak",
        Reason::Unchosen => "MS-UCB has others carry the data in this round",
    }
}

/// Bytes of each link in its month, which outlive the daemon.
#[derive(Default)]
pub struct MonthlyBytes {
    file: PathBuf,
    links: BTreeMap<String, Usage>,
    /// The counters of the relay that is connected, as they were read last.
    seen: BTreeMap<String, u64>,
    saved: BTreeMap<String, Usage>,
    /// The last write failed: said once.
    failed: bool,
}

impl MonthlyBytes {
    pub fn open(state: &Path) -> Result<MonthlyBytes, Error> {
        let file = state.join(FILE);
        let shown = file.display();
        let links = match fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| {
                Error::Usage(format!("{shown}: {e}; remove it to count from 0 again"))
            })?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                return Err(Error::Denied(format!("{shown}: {e}")))
            }
            Err(e) => return Err(Error::Failed(format!("{shown}: {e}"))),
        };
        Ok(MonthlyBytes {
            saved: BTreeMap::clone(&links),
            file,
            links,
            seen: BTreeMap::new(),
            failed: false,
        })
    }

    /// Whether both are of one file, of which only one may be written.
    pub fn is_of_file(&self, other: &MonthlyBytes) -> bool {
        self.file == other.file
    }

    /// A relay is connected, whose counters are at 0.
    pub fn begin(&mut self) {
        self.seen.clear();
    }

    /// What the links' counters say now.
    pub fn take(&mut self, reports: &[LinkReport], month: &str) {
        for report in reports {
            let total = report.carried_bytes;
            let seen = self.seen.insert(report.link.clone(), total).unwrap_or(0);
            let usage = self.links.entry(report.link.clone()).or_default();
            usage.count(total.saturating_sub(seen), month);
        }
        for usage in self.links.values_mut() {
            usage.count(0, month);
        }
    }

    pub fn bytes(&self, link: &str) -> u64 {
        self.links.get(link).map_or(0, Usage::bytes)
    }

    pub fn save(&mut self) {
        if self.links == self.saved {
            return;
        }
        let text = serde_json::to_string(&self.links).expect("plain data");
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        let written = fs::create_dir_all(folder)
            .and_then(|()| mp_files::replace_durably(&self.file, text.as_bytes()));
        match &written {
            Ok(()) => self.saved.clone_from(&self.links),
            Err(e) if !self.failed => {
                let what = format!(
                    "{}: {e}: limits begin anew with the next daemon",
                    self.file.display()
                );
                log::line(Level::Error, &what, &[]);
            }
            Err(_) => {}
        }
        self.failed = written.is_err();
    }
}

/// The calendar month of UTC, as "2026-11".
pub fn month() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now[..7].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(link: &str, carried_bytes: u64) -> LinkReport {
        let report = serde_json::json!({
            "link": link, "ready": 1, "sent_bytes": 0, "received_bytes": 0, "state": "normal", "why": "",
            "carried_bytes": carried_bytes, "month_bytes": null, "limit_bytes": null,
        });
        serde_json::from_value(report).unwrap()
    }

    #[test]
    fn a_limit_holds_over_restarts_of_relay_and_daemon_until_the_month_ends() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[interfaces]\nwwan0.limit = \"1000B/month\"\nwlan0.rule = \"metered\"";
        let config = Config::parse("daemon.toml", text).unwrap();
        let mut judge = LinkRules::new(&config, &[], None);
        let state = folder.path().join("state");
        let mut carried = MonthlyBytes::open(&state).unwrap();
        carried.take(&[report("wwan0", 400), report("wlan0", 9000)], "2026-11");
        // Another relay counts from 0.
        carried.begin();
        carried.take(&[report("wwan0", 300)], "2026-11");
        carried.save();
        let mut carried = MonthlyBytes::open(&state).unwrap();
        assert_eq!(
            (carried.bytes("wwan0"), carried.bytes("wlan0")),
            (700, 9000)
        );
        carried.take(&[report("wwan0", 299)], "2026-11");
        judge.observe(&carried);
        assert!(judge.decide("wwan0").priority.is_some());
        carried.take(&[report("wwan0", 300)], "2026-11");
        judge.observe(&carried);
        assert_eq!(judge.decide("wwan0").reason, Some(Reason::Limit));
        assert_eq!(judge.decide("wlan0").reason, Some(Reason::Metered));
        carried.take(&[], "2026-12");
        judge.observe(&carried);
        assert_eq!(judge.decide("wwan0").reason, None);

        fs::write(state.join(FILE), "nonsense").unwrap();
        let refused = MonthlyBytes::open(&state).err().unwrap().to_string();
        assert!(
            refused.contains("remove it to count from 0 again"),
            "{refused}"
        );
    }

    #[test]
    fn what_is_ignored_is_used_if_it_is_named() {
        let config = Config::parse("daemon.toml", "").unwrap();
        let judge = |named: &[String]| LinkRules::new(&config, named, None).decide("wg0");
        assert_eq!(judge(&[]).reason, Some(Reason::Ignored));
        assert_eq!(judge(&["wg0".into()]).reason, None);
    }

    #[test]
    fn a_month_is_one_of_the_calendar() {
        let month = month();
        let (year, number) = month.split_once('-').unwrap();
        assert!(
            year.parse::<u32>().unwrap() >= 2024 && number.len() == 2,
            "{month}"
        );
    }
}
