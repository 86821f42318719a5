//! What the user may settle. Every key has a default; `docs/daemon.md` is the reference.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use mp_policy::awareness::{self, Backoff, Threshold};
use mp_policy::path_manager::Rule;
use mp_scenario::document::{self, section, Field, Section};
use mp_scenario::Error;

pub const DEFAULT_FILE: &str = "/etc/multipilot/daemon.toml";

const TOP_KEYS: &[&str] = &[
    "controller",
    "ignore",
    "interfaces",
    "limits",
    "awareness",
    "radio",
    "control",
    "metrics",
];
const INTERFACE_KEYS: &[&str] = &["rule"];
const LIMIT_KEYS: &[&str] = &["subflows", "add-addr-accepted"];
const AWARENESS_KEYS: &[&str] = &[
    "policy",
    "interval",
    "dwell",
    "parking",
    "parking-most",
    "reopening",
    "reopening-most",
    "loss",
    "signal",
];
const LOSS_KEYS: &[&str] = &["window", "short", "long", "long-rtt"];
const THRESHOLD_KEYS: &[&str] = &["park", "back"];
const RADIO_KEYS: &[&str] = &["file"];
const CONTROL_KEYS: &[&str] = &["socket", "group"];
const METRICS_KEYS: &[&str] = &["listen"];

/// Container bridges, their ends, and tunnels: a path over a tunnel is one of the paths below it, once more.
const IGNORED: &[&str] = &[
    "docker*",
    "br-*",
    "virbr*",
    "veth*",
    "vmnet*",
    "vboxnet*",
    "lxc*",
    "lxdbr*",
    "cni*",
    "flannel*",
    "tun*",
    "tap*",
    "wg*",
    "tailscale*",
    "zt*",
];

#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Of new sockets; `None` leaves the system's.
    pub controller: Option<String>,
    /// Interfaces that are left alone, as globs.
    pub ignore: Vec<String>,
    /// By name or glob; the first that fits counts.
    pub rules: Vec<(String, Rule)>,
    pub subflows: u32,
    pub add_addr_accepted: u32,
    pub awareness: awareness::Config,
    /// As the user calls it.
    pub policy: String,
    pub radio_file: Option<PathBuf>,
    pub socket: PathBuf,
    /// Whose members may use the control socket, besides root.
    pub group: Option<String>,
    /// Loopback only.
    pub metrics: Option<SocketAddr>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            controller: None,
            ignore: IGNORED.iter().map(|&s| s.to_owned()).collect(),
            rules: Vec::new(),
            subflows: 8,
            add_addr_accepted: 8,
            awareness: awareness::Config::loss_aware(),
            policy: "loss-aware".into(),
            radio_file: None,
            socket: crate::control::SOCKET.into(),
            group: None,
            metrics: None,
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
        let mut config = Config {
            controller: root.get("controller").map(controller).transpose()?,
            ..Config::default()
        };
        if let Some(list) = root.get("ignore") {
            config.ignore = list
                .items()?
                .iter()
                .map(|item| item.name().map(str::to_owned))
                .collect::<Result<_, _>>()?;
        }
        if let Some(interfaces) = root.get("interfaces") {
            for (name, field) in interfaces.entries()? {
                let rule = Section::open(&field, INTERFACE_KEYS)?
                    .get("rule")
                    .map_or(Ok(Rule::None), |f| f.choice(RULES))?;
                config.rules.push((name.to_owned(), rule));
            }
        }
        if let Some(limits) = section(&root, "limits", LIMIT_KEYS)? {
            let read = |key, default| {
                limits
                    .get(key)
                    .map_or(Ok(default), |f| f.integer(0, 8).map(|v| v as u32))
            };
            config.subflows = read("subflows", config.subflows)?;
            config.add_addr_accepted = read("add-addr-accepted", config.add_addr_accepted)?;
        }
        if let Some(awareness) = section(&root, "awareness", AWARENESS_KEYS)? {
            read_awareness(&awareness, &mut config)?;
        }
        if let Some(radio) = section(&root, "radio", RADIO_KEYS)? {
            let file = radio.get("file").map(|f| f.string()).transpose()?;
            config.radio_file = file.map(PathBuf::from);
        }
        if let Some(control) = section(&root, "control", CONTROL_KEYS)? {
            let socket = control.get("socket").map(|f| f.string()).transpose()?;
            config.socket = socket.map_or(config.socket, PathBuf::from);
            let group = control.get("group").map(|f| f.name()).transpose()?;
            config.group = group.map(str::to_owned);
        }
        if let Some(metrics) = section(&root, "metrics", METRICS_KEYS)? {
            config.metrics = metrics.get("listen").map(loopback).transpose()?;
        }
        Ok(config)
    }

    pub fn rule(&self, interface: &str) -> Rule {
        let found = self.rules.iter().find(|(glob, _)| fits(glob, interface));
        found.map_or(Rule::None, |(_, rule)| *rule)
    }

    pub fn ignores(&self, interface: &str) -> bool {
        self.ignore.iter().any(|glob| fits(glob, interface))
    }
}

/// Every key, by the section it stands in: what `docs/daemon.md` has to cover.
pub fn known_keys() -> Vec<(&'static str, &'static [&'static str])> {
    vec![
        ("top level", TOP_KEYS),
        ("interfaces", INTERFACE_KEYS),
        ("limits", LIMIT_KEYS),
        ("awareness", AWARENESS_KEYS),
        ("awareness.loss", LOSS_KEYS),
        ("thresholds", THRESHOLD_KEYS),
        ("radio", RADIO_KEYS),
        ("control", CONTROL_KEYS),
        ("metrics", METRICS_KEYS),
    ]
}

const RULES: &[(&str, Rule)] = &[
    ("none", Rule::None),
    ("preferred", Rule::Preferred),
    ("metered", Rule::Metered),
    ("untrusted", Rule::Untrusted),
];

fn controller(field: Field<'_>) -> Result<String, Error> {
    let name = field.string()?;
    let built_in = mp_kernel::controller::BUILT_IN
        .iter()
        .map(|(name, _)| *name);
    let ours = mp_controllers::all().iter().map(|c| c.name);
    let known: Vec<&str> = ours.chain(built_in).collect();
    if known.contains(&name) {
        return Ok(name.to_owned());
    }
    let hint = mp_scenario::did_you_mean(name, known.iter().copied());
    Err(field.error(
        format!("\"{name}\" is unknown{hint}"),
        format!("one of {}", known.join(", ")),
    ))
}

fn loopback(field: Field<'_>) -> Result<SocketAddr, Error> {
    const EXPECTED: &str = "a loopback address with a port, e.g. \"127.0.0.1:9464\"";
    let address: SocketAddr = field
        .string()?
        .parse()
        .map_err(|_| field.error("is no address", EXPECTED))?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err(field.error(
            format!("{} can be reached from elsewhere", address.ip()),
            EXPECTED,
        )),
    }
}

fn read_awareness(section: &Section<'_>, config: &mut Config) -> Result<(), Error> {
    let (loss_aware, signal_aware) = (
        awareness::Config::loss_aware(),
        awareness::Config::signal_aware(),
    );
    if let Some(policy) = section.get("policy") {
        config.awareness = policy.choice(&[
            ("loss-aware", loss_aware),
            ("signal-aware", signal_aware),
            (
                "both",
                awareness::Config {
                    signal: signal_aware.signal,
                    ..loss_aware
                },
            ),
            (
                "rules",
                awareness::Config {
                    loss: None,
                    contribution: None,
                    ..loss_aware
                },
            ),
        ])?;
        config.policy = policy.string()?.to_owned();
    }
    let aware = &mut config.awareness;
    let duration = |key: &str, value: &mut u64| -> Result<(), Error> {
        if let Some(field) = section.get(key) {
            *value = micros(&field)?;
        }
        Ok(())
    };
    duration("interval", &mut aware.interval_us)?;
    duration("dwell", &mut aware.dwell_us)?;
    let backoff = |key: &str, backoff: &mut Backoff| -> Result<(), Error> {
        duration(key, &mut backoff.first_us)?;
        duration(&format!("{key}-most"), &mut backoff.most_us)?;
        backoff.most_us = backoff.most_us.max(backoff.first_us);
        Ok(())
    };
    backoff("parking", &mut aware.parking)?;
    backoff("reopening", &mut aware.reopening)?;
    if let Some(field) = section.get("loss") {
        let table = Section::open(&field, LOSS_KEYS)?;
        let Some(loss) = &mut aware.loss else {
            return Err(field.error(
                format!("the policy {} does not judge loss", config.policy),
                "policy = \"loss-aware\" or \"both\"",
            ));
        };
        if let Some(window) = table.get("window") {
            loss.window = window.integer(100, 1_000_000)?;
        }
        for (key, threshold) in [("short", &mut loss.short), ("long", &mut loss.long)] {
            if let Some(field) = table.get(key) {
                *threshold = thresholds(&field, |f| f.probability(), |park, back| park >= back)?;
            }
        }
        if let Some(field) = table.get("long-rtt") {
            loss.long_rtt_us = micros(&field)?.min(u64::from(u32::MAX)) as u32;
        }
    }
    if let Some(field) = section.get("signal") {
        if aware.signal.is_none() {
            return Err(field.error(
                format!("the policy {} does not judge signals", config.policy),
                "policy = \"signal-aware\" or \"both\"",
            ));
        }
        let dbm = |f: &Field<'_>| -> Result<i32, Error> {
            const EXPECTED: &str = "dBm from -120 to 0";
            let value = f.number(EXPECTED)?;
            match (-120.0..=0.0).contains(&value) {
                true => Ok(value.round() as i32),
                false => Err(f.error(format!("{value} is impossible"), EXPECTED)),
            }
        };
        aware.signal = Some(thresholds(&field, dbm, |park, back| park <= back)?);
    }
    Ok(())
}

fn micros(field: &Field<'_>) -> Result<u64, Error> {
    let value = field.positive_duration()?.as_micros();
    u64::try_from(value).map_err(|_| field.error("is too long", "less than half a million years"))
}

fn thresholds<T: Copy>(
    field: &Field<'_>,
    read: impl Fn(&Field<'_>) -> Result<T, Error>,
    ordered: impl Fn(T, T) -> bool,
) -> Result<Threshold<T>, Error> {
    let table = Section::open(field, THRESHOLD_KEYS)?;
    let park = read(&table.require("park", "where a path is left")?)?;
    let back = read(&table.require("back", "where it is taken up again")?)?;
    if !ordered(park, back) {
        return Err(table.error(
            "would take a path up in a state in which it is left",
            "park to be the worse value",
        ));
    }
    Ok(Threshold { park, back })
}

/// Whether a name fits a pattern in which `*` stands for anything.
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

    fn error(text: &str) -> String {
        Config::parse("daemon.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn no_file_is_needed() {
        assert_eq!(Config::parse("daemon.toml", "").unwrap(), Config::default());
    }

    #[test]
    fn an_error_names_file_line_and_column() {
        let line = error("controller = \"lia\"\n[limits]\nsubflow = 3\n");
        assert!(
            line.starts_with(
                "daemon.toml:3:1: limits.subflow: unknown key (did you mean \"subflows\"?)"
            ),
            "{line}"
        );
        let line = error("controller = \"cubci\"");
        assert!(
            line.starts_with(
                "daemon.toml:1:14: controller: \"cubci\" is unknown (did you mean \"cubic\"?)"
            ),
            "{line}"
        );
        assert!(
            error("[awareness]\nparking = 20").contains(":2:11: awareness.parking: 20 has no unit")
        );
        assert!(
            error("[metrics]\nlisten = \"0.0.0.0:9464\"").contains("can be reached from elsewhere")
        );
        assert!(error("interfaces.wlan0.rule = \"cheap\"").contains("\"cheap\" is unknown"));
        assert!(
            error("[awareness]\nloss.short = { park = 0.01, back = 0.02 }").contains("worse value")
        );
        assert!(
            error("[awareness]\npolicy = \"signal-aware\"\nloss.window = 500")
                .contains("does not judge loss")
        );
        assert!(!error("x = ]").contains('\n'));
    }

    #[test]
    fn rules_go_by_name_or_glob_and_the_first_counts() {
        let config = Config::parse(
            "daemon.toml",
            "[interfaces]\nwwan0.rule = \"preferred\"\n\"wwan*\".rule = \"metered\"\n",
        )
        .unwrap();
        assert_eq!(config.rule("wwan0"), Rule::Preferred);
        assert_eq!(config.rule("wwan1"), Rule::Metered);
        assert_eq!(config.rule("wlan0"), Rule::None);
        assert!(config.ignores("docker0") && config.ignores("veth12ab") && !config.ignores("eth0"));
    }

    #[test]
    fn thresholds_reach_the_policy() {
        let text = "[awareness]\npolicy = \"both\"\ninterval = \"100ms\"\nparking = \"2s\"\n\
                    loss.long = { park = 0.01, back = 0.005 }\nsignal = { park = -80, back = -72 }\n";
        let config = Config::parse("daemon.toml", text).unwrap().awareness;
        assert_eq!(
            (config.interval_us, config.parking.first_us),
            (100_000, 2_000_000)
        );
        assert_eq!(config.loss.unwrap().long.park, 0.01);
        assert_eq!(
            config.signal.unwrap(),
            Threshold {
                park: -80,
                back: -72
            }
        );
    }
}
