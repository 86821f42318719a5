//! What MS-UCB sees of links, shared with other hosts. `multipilot federation join` carries it: of the two files in a
//! folder, `own.json` is what this host has seen since ever, `known.json` what all together have.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use mp_host::userspace::{LinkArms, Share};
use mp_policy::super_arm::Arm;

use crate::config::FederationConfig;
use crate::log::{self, Level};
use crate::Error;

/// Between two writes.
const BEAT: Duration = Duration::from_secs(1);

/// By link: how often it was seen, and its mean reward.
type Links = BTreeMap<String, (f64, f64)>;

pub struct SharedStatistics {
    settings: FederationConfig,
    /// What daemons before this one have seen.
    before: Links,
    /// What the file has.
    written: Links,
    written_at: Option<Instant>,
    /// The last write failed: said once.
    failed: bool,
}

/// Nothing where there is no file yet.
fn read(file: &Path) -> Result<Links, String> {
    match fs::read(file) {
        // As a loss of power may leave it.
        Ok(bytes) if bytes.is_empty() => Ok(Links::new()),
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| e.to_string()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Links::new()),
        Err(e) => Err(e.to_string()),
    }
}

/// Whether [`SharedStatistics::open`] would do.
pub fn check(settings: &FederationConfig) -> Result<(), Error> {
    own(settings).map(drop)
}

/// What daemons before this one have seen.
fn own(settings: &FederationConfig) -> Result<Links, Error> {
    let own = settings.folder.join("own.json");
    read(&own).map_err(|e| Error::Usage(format!("{}: {e}; remove it to begin anew", own.display())))
}

impl SharedStatistics {
    pub fn open(settings: &FederationConfig) -> Result<SharedStatistics, Error> {
        let folder = &settings.folder;
        fs::create_dir_all(folder)
            .map_err(|e| Error::Failed(format!("{}: {e}", folder.display())))?;
        let before = own(settings)?;
        let mut shared = SharedStatistics {
            settings: settings.clone(),
            written: before.clone(),
            before: before.clone(),
            written_at: None,
            failed: false,
        };
        // From now on there is something to carry.
        shared.write(before);
        Ok(shared)
    }

    fn link<'a>(&'a self, interface: &'a str) -> &'a str {
        let named = self.settings.links.get(interface);
        named.map_or(interface, String::as_str)
    }

    fn own(&self, seen: &LinkArms) -> Links {
        let mut own = self.before.clone();
        for (interface, arm) in seen.iter().filter(|(_, arm)| arm.count > 0.0) {
            let (count, mean) = own.entry(self.link(interface).to_owned()).or_default();
            let mut sum = Arm {
                count: *count,
                mean: *mean,
            };
            sum.join(*arm);
            (*count, *mean) = (sum.count, sum.mean);
        }
        own
    }

    fn write(&mut self, own: Links) {
        let file = self.settings.folder.join("own.json");
        let text = serde_json::to_string(&own).expect("plain data");
        let written = mp_files::replace(&file, text.as_bytes());
        let failed = std::mem::replace(&mut self.failed, written.is_err());
        match written {
            Ok(()) => self.written = own,
            Err(e) if !failed => {
                let what = format!("{}: {e}: others do not hear of this", file.display());
                log::line(Level::Warning, &what, &[]);
            }
            Err(_) => {}
        }
    }
}

impl Share for SharedStatistics {
    /// Of each link what all know, or this host alone where it has seen more, because it has not told them yet or they are
    /// away.
    fn known(&self, seen: &LinkArms, interfaces: &[&str]) -> LinkArms {
        let (own, all) = (
            self.own(seen),
            read(&self.settings.folder.join("known.json")).unwrap_or_default(),
        );
        let of = |link: &str| {
            let both = [all.get(link), own.get(link)];
            let more = |a: &&(f64, f64), b: &&(f64, f64)| a.0.total_cmp(&b.0);
            both.into_iter().flatten().max_by(more).copied()
        };
        let arm = |&interface: &&str| {
            let (count, mean) = of(self.link(interface))?;
            Some((interface.to_owned(), Arm { count, mean }))
        };
        interfaces.iter().filter_map(arm).collect()
    }

    fn tell(&mut self, seen: &LinkArms) {
        self.written_at = Some(Instant::now());
        let own = self.own(seen);
        if own != self.written {
            self.write(own);
        }
    }

    fn settle(&mut self, seen: &LinkArms) {
        self.before = self.own(seen);
        self.tell(&LinkArms::new());
    }

    fn is_due(&self) -> bool {
        self.written_at.is_none_or(|at| at.elapsed() >= BEAT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(arms: &[(&str, f64, f64)]) -> LinkArms {
        let arm = |&(name, count, mean): &(&str, f64, f64)| (name.to_owned(), Arm { count, mean });
        arms.iter().map(arm).collect()
    }

    #[test]
    fn what_was_seen_is_written_by_link_and_goes_on_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let settings = FederationConfig {
            folder: folder.path().join("links"),
            links: [
                ("wlan0".into(), "ap-1".into()),
                ("wlan1".into(), "ap-1".into()),
            ]
            .into(),
        };
        let text = || fs::read_to_string(settings.folder.join("own.json")).unwrap();
        let mut shared = SharedStatistics::open(&settings).unwrap();
        assert_eq!(text(), "{}");
        let first = seen(&[
            ("wlan0", 3.0, 0.5),
            ("wlan1", 1.0, 0.9),
            ("wwan0", 2.0, 0.25),
            ("usb0", 0.0, 0.0),
        ]);
        shared.tell(&first);
        assert_eq!(text(), r#"{"ap-1":[4.0,0.6],"wwan0":[2.0,0.25]}"#);
        let mut next = SharedStatistics::open(&settings).unwrap();
        next.tell(&seen(&[("wwan0", 2.0, 0.75)]));
        assert_eq!(text(), r#"{"ap-1":[4.0,0.6],"wwan0":[4.0,0.5]}"#);

        // Others know more of one link, and less of the other than was seen here since.
        let known = settings.folder.join("known.json");
        fs::write(&known, r#"{"ap-1":[90,0.1],"wwan0":[3,0.9],"ap-7":[5,1]}"#).unwrap();
        let interfaces = ["wlan0", "wwan0", "eth0"];
        let begins = next.known(&seen(&[("wwan0", 2.0, 0.75)]), &interfaces);
        assert_eq!(begins, seen(&[("wlan0", 90.0, 0.1), ("wwan0", 4.0, 0.5)]));
        // Half a file is none.
        fs::write(&known, r#"{"ap-1":[90"#).unwrap();
        let begins = next.known(&LinkArms::new(), &["wlan0"]);
        assert_eq!(begins, seen(&[("wlan0", 4.0, 0.6)]));

        // Under new settings what was seen before them stays.
        next.settle(&seen(&[("wwan0", 2.0, 0.75)]));
        next.tell(&seen(&[("wwan0", 4.0, 1.0)]));
        assert_eq!(text(), r#"{"ap-1":[4.0,0.6],"wwan0":[8.0,0.75]}"#);

        // As a loss of power may leave it.
        fs::write(settings.folder.join("own.json"), "").unwrap();
        assert!(SharedStatistics::open(&settings).is_ok());
        fs::write(settings.folder.join("own.json"), "nonsense").unwrap();
        let refused = SharedStatistics::open(&settings).err().unwrap().to_string();
        assert!(refused.contains("own.json") && refused.contains("remove it to begin anew"));
    }
}
