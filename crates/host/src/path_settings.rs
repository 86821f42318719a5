//! How a host's paths are managed: filled in by a configuration file (the daemon) or by a scenario (the testbed).

use std::net::IpAddr;

use mp_policy::awareness;
use mp_policy::path_manager::{PathPolicy, Rule};

use crate::links::Interface;

/// The paths of a host, and who judges them.
#[derive(Debug, Clone, PartialEq)]
pub struct PathSettings {
    pub policy: PathPolicy,
    /// Settings of [`PathPolicy::Awareness`]; every policy is asked at its interval.
    pub awareness: awareness::Config,
    /// Interfaces that are left alone.
    pub ignore: Vec<Glob>,
    /// The first whose name fits counts.
    pub rules: Vec<InterfaceRule>,
}

impl Default for PathSettings {
    /// Loss awareness on every interface.
    fn default() -> Self {
        PathSettings {
            policy: PathPolicy::Awareness,
            awareness: awareness::Config::loss_aware(),
            ignore: Vec::new(),
            rules: Vec::new(),
        }
    }
}

impl PathSettings {
    /// Whether both have the same policy, with the same settings.
    pub fn judge_as(&self, other: &PathSettings) -> bool {
        (self.policy, self.awareness) == (other.policy, other.awareness)
    }

    /// What the user says of an interface, by its name.
    pub fn rule(&self, interface: &str) -> Rule {
        let found = self.rules.iter().find(|r| r.interface.fits(interface));
        found.map_or(Rule::None, |r| r.rule)
    }

    /// An interface that the user has given an endpoint in backup, and no rule, is used as a metered one: if no other works.
    pub fn keep_backups(&mut self, interfaces: &[Interface], backups: &[IpAddr]) {
        for interface in interfaces {
            let backup = interface.addresses.iter().any(|a| backups.contains(a));
            if backup && self.rule(&interface.name) == Rule::None {
                self.rules.push(InterfaceRule {
                    interface: Glob::new(&interface.name),
                    rule: Rule::Metered,
                });
            }
        }
    }

    /// Whether an interface is left alone.
    pub fn ignores(&self, interface: &str) -> bool {
        self.ignore.iter().any(|glob| glob.fits(interface))
    }
}

/// What the user says of the interfaces whose names fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceRule {
    pub interface: Glob,
    pub rule: Rule,
}

/// A name in which `*` stands for any characters, none included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    pub fn new(pattern: impl Into<String>) -> Glob {
        Glob(pattern.into())
    }

    /// Whether a whole name fits.
    pub fn fits(&self, name: &str) -> bool {
        fits(&self.0, name)
    }
}

fn fits(glob: &str, name: &str) -> bool {
    match glob.split_once('*') {
        None => glob == name,
        Some((head, tail)) => name.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len())
                .filter(|&at| rest.is_char_boundary(at))
                .any(|at| fits(tail, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters_and_a_name_fits_as_a_whole() {
        let fits = |pattern: &str, name: &str| Glob::new(pattern).fits(name);
        assert!(fits("wwan*", "wwan0") && fits("wwan*", "wwan") && fits("*", "é"));
        assert!(fits("w*n*0", "wlan10") && !fits("w*n*0", "wlan1"));
        assert!(fits("eth0", "eth0") && !fits("eth", "eth0") && !fits("th0", "eth0"));
    }

    #[test]
    fn the_first_rule_that_fits_counts() {
        let rule = |pattern: &str, rule| InterfaceRule {
            interface: Glob::new(pattern),
            rule,
        };
        let settings = PathSettings {
            rules: vec![rule("wwan0", Rule::Preferred), rule("wwan*", Rule::Metered)],
            ignore: vec![Glob::new("veth*")],
            ..PathSettings::default()
        };
        assert_eq!(settings.rule("wwan0"), Rule::Preferred);
        assert_eq!(settings.rule("wwan1"), Rule::Metered);
        assert_eq!(settings.rule("wlan0"), Rule::None);
        assert!(settings.ignores("veth12ab") && !settings.ignores("eth0"));
    }

    #[test]
    fn an_endpoint_in_backup_is_a_rule_where_there_is_no_other() {
        let on = |name: &str, host| Interface {
            index: 1,
            name: name.into(),
            up: true,
            addresses: vec![[10, 0, 0, host].into()],
        };
        let mut settings = PathSettings::default();
        settings.rules.push(InterfaceRule {
            interface: Glob::new("wwan1"),
            rule: Rule::Preferred,
        });
        let interfaces = [on("wlan0", 1), on("wwan0", 2), on("wwan1", 3)];
        let backups = [2, 3].map(|host| IpAddr::from([10, 0, 0, host]));
        for _ in 0..2 {
            settings.keep_backups(&interfaces, &backups);
        }
        let rules = ["wlan0", "wwan0", "wwan1"].map(|name| settings.rule(name));
        assert_eq!(rules, [Rule::None, Rule::Metered, Rule::Preferred]);
        assert_eq!(settings.rules.len(), 2);
    }
}
