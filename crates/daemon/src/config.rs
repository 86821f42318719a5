//! What the user may settle. Every key has a default; `docs/reference/daemon.md` is the reference.

mod bandit;
mod controller;
mod federation;
mod judgement;
mod mptcpify;
mod relay;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use mp_host::{Glob, InterfaceRule, PathSettings};
use mp_scenario::document::{self, section, Field, Section};
use mp_scenario::Error;

pub use bandit::{BanditConfig, EdgeServerConfig};
pub use controller::ControllerConfig;
pub use federation::FederationConfig;
pub use mptcpify::MptcpifyConfig;
pub use relay::{Leak, RelayConfig, RelayOverride};

pub const DEFAULT_FILE: &str = "/etc/multipilot/daemon.toml";
/// Where the control socket is.
pub const SOCKET: &str = "/run/multipilot/control.sock";

const TOP_KEYS: &[&str] = &[
    "controller",
    "parameters",
    "path-manager",
    "mptcpify",
    "ignore",
    "interfaces",
    "limits",
    "awareness",
    "federation",
    "bandit",
    "relay",
    "radio",
    "control",
    "metrics",
];
const INTERFACE_KEYS: &[&str] = &["rule", "limit"];
const LIMIT_KEYS: &[&str] = &["subflows", "add-addr-accepted"];
const AWARENESS_KEYS: &[&str] = &[
    "policy",
    "interval",
    "dwell",
    "backup-time",
    "backup-time-most",
    "reopening",
    "reopening-most",
    "loss",
    "signal",
];
const LOSS_KEYS: &[&str] = &["window", "threshold"];
const THRESHOLD_KEYS: &[&str] = &["backup", "restore"];
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
    "incusbr*",
    "podman*",
    "nerdctl*",
    "cni*",
    "flannel*",
    "cilium*",
    "cali*",
    "tun*",
    "tap*",
    "wg*",
    "tailscale*",
    "zt*",
];

#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Of new sockets.
    pub controller: ControllerConfig,
    /// Its settings, where they are not its defaults.
    pub parameters: Vec<(String, u64)>,
    /// Whether each connection is managed by itself, and not by the kernel.
    pub userspace: bool,
    pub mptcpify: MptcpifyConfig,
    pub subflows: u32,
    pub add_addr_accepted: u32,
    /// `ignore`, `interfaces` and `awareness`.
    pub paths: PathSettings,
    /// `awareness.policy`, as the user calls it.
    pub policy: String,
    /// With whom new connections share what was seen; `None`: with those of this host.
    pub federation: Option<FederationConfig>,
    /// `None`: connections start as the routing table has it.
    pub bandit: Option<BanditConfig>,
    /// Bytes a month that an interface may carry for the relay; the first whose name fits counts.
    pub limits: Vec<(Glob, u64)>,
    pub relay: RelayConfig,
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
            controller: ControllerConfig::Automatic,
            parameters: Vec::new(),
            userspace: false,
            mptcpify: MptcpifyConfig::default(),
            subflows: 8,
            add_addr_accepted: 8,
            paths: PathSettings {
                ignore: IGNORED.iter().map(|&name| Glob::new(name)).collect(),
                ..PathSettings::default()
            },
            policy: "loss-aware".into(),
            federation: None,
            bandit: None,
            limits: Vec::new(),
            relay: RelayConfig::default(),
            radio_file: None,
            socket: SOCKET.into(),
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
        let mut config = Config::default();
        if let Some(field) = root.get("controller") {
            config.controller = ControllerConfig::read(&field)?;
        }
        if let Some(table) = root.get("parameters") {
            config.parameters = controller::parameters(&table, &config.controller)?;
        }
        if let Some(field) = root.get("path-manager") {
            config.userspace = field.choice(&[("kernel", false), ("userspace", true)])?;
        }
        if let Some(mptcpify) = section(&root, "mptcpify", mptcpify::KEYS)? {
            config.mptcpify = MptcpifyConfig::read(&mptcpify)?;
        }
        if let Some(list) = root.get("ignore") {
            config.paths.ignore = list
                .items()?
                .iter()
                .map(|item| item.name().map(Glob::new))
                .collect::<Result<_, _>>()?;
        }
        if let Some(interfaces) = root.get("interfaces") {
            for (name, field) in interfaces.entries()? {
                let section = Section::open(&field, INTERFACE_KEYS)?;
                if let Some(limit) = section.get("limit") {
                    let bytes = limit.size_per("month")?;
                    config.limits.push((Glob::new(name), bytes));
                }
                // A limit alone says nothing of the use, and hides no rule of a pattern that fits too.
                if let Some(rule) = section.get("rule") {
                    config.paths.rules.push(InterfaceRule {
                        interface: Glob::new(name),
                        rule: rule.choice(mp_scenario::RULES)?,
                    });
                }
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
            judgement::read(&awareness, &mut config)?;
        }
        if let Some(federation) = section(&root, "federation", federation::KEYS)? {
            config.federation = Some(FederationConfig::read(&federation, config.paths.policy)?);
        }
        if let Some(bandit) = section(&root, "bandit", bandit::KEYS)? {
            config.bandit = Some(BanditConfig::read(&bandit)?);
        }
        if let Some(relay) = section(&root, "relay", relay::KEYS)? {
            config.relay = RelayConfig::read(&relay)?;
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
}

/// Every key, by the section it stands in: what `docs/reference/daemon.md` has to cover.
pub fn known_keys() -> Vec<(&'static str, &'static [&'static str])> {
    vec![
        ("top level", TOP_KEYS),
        ("mptcpify", mptcpify::KEYS),
        ("interfaces", INTERFACE_KEYS),
        ("limits", LIMIT_KEYS),
        ("awareness", AWARENESS_KEYS),
        ("awareness.loss", LOSS_KEYS),
        ("thresholds", THRESHOLD_KEYS),
        ("federation", federation::KEYS),
        ("bandit", bandit::KEYS),
        ("relay", relay::KEYS),
        ("radio", RADIO_KEYS),
        ("control", CONTROL_KEYS),
        ("metrics", METRICS_KEYS),
    ]
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

#[cfg(test)]
mod tests {
    use super::*;
    use mp_policy::awareness::Threshold;
    use mp_policy::path_manager::Rule;
    use mp_relay::capture::User;

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
        assert!(error("[awareness]\nbackup-time = 20")
            .contains(":2:15: awareness.backup-time: 20 has no unit"));
        assert!(
            error("[metrics]\nlisten = \"0.0.0.0:9464\"").contains("can be reached from elsewhere")
        );
        assert!(error("awareness.parking = \"20s\"").contains("called \"backup-time\" now"));
        assert!(error("interfaces.wlan0.rule = \"cheap\"").contains("\"cheap\" is unknown"));
        assert!(
            error("[awareness]\npolicy = \"both\"\nsignal = { backup = -70, restore = -80 }")
                .contains("worse value")
        );
        assert!(
            error("[awareness]\npolicy = \"signal-aware\"\nloss.window = 500")
                .contains("does not judge loss")
        );
        assert!(
            error("[awareness]\npolicy = \"ms-ucb\"\nbackup-time = \"2s\"")
                .contains("has no such times")
        );
        assert!(error("awareness.policy = \"ms-ucb-federated\"").contains("userspace"));
        assert!(error("[federation]\nfolder = \"/tmp/x\"").contains("ms-ucb-federated"));
        let server = |url: &str| error(&format!("[bandit]\nserver = \"{url}\""));
        assert!(server("edge.example").contains("is no server"));
        assert!(server("http://10.0.0.9:1").contains("bandit.insecure = true"));
        for fine in [
            "https://edge.example",
            "http://127.0.0.1:1",
            "http://10.0.0.9:1\"\ninsecure = true #\"",
        ] {
            assert!(server(fine).contains("token-file"), "{}", server(fine));
        }
        assert!(error("[bandit]\nca = \"x\"").contains("without a server"));
        let line = error("controller = \"system\"\nparameters.target_us = 1");
        assert!(line.contains("belong to no controller"), "{line}");
        let line = error("parameters.target = 1");
        assert!(line.contains("pilot has no parameter"), "{line}");
        assert!(error("controller = \"sistem\"").contains("did you mean \"system\"?"));
        let line = error("controller = \"ld-mpsp\"\nparameters.target = 1");
        assert!(line.contains("did you mean \"target_us\"?"), "{line}");
        assert!(!error("x = ]").contains('\n'));
    }

    #[test]
    fn without_the_key_pilot_is_tried_and_the_word_system_leaves_the_systems() {
        let wanted = |text| {
            let config = Config::parse("daemon.toml", text).unwrap();
            config.controller.wanted().map(str::to_owned)
        };
        assert_eq!(wanted(""), Some("pilot".into()));
        assert_eq!(wanted("controller = \"system\""), None);
        assert_eq!(wanted("controller = \"lia\""), Some("lia".into()));
    }

    #[test]
    fn a_controllers_settings_are_its_own_in_its_own_units() {
        let text = "controller = \"ld-mpsp\"\nparameters.target_us = \"15ms\"";
        let config = Config::parse("daemon.toml", text).unwrap();
        assert_eq!(config.parameters, [("target_us".into(), 15_000)]);
    }

    #[test]
    fn programs_get_mptcp_unless_the_configuration_says_no() {
        let read = |text| Config::parse("daemon.toml", text).unwrap().mptcpify;
        assert!(read("").enabled && !read("mptcpify.enabled = false").enabled);
        let group = read("mptcpify.cgroup = \"/sys/fs/cgroup/user.slice\"").cgroup;
        assert_eq!(group, Some("/sys/fs/cgroup/user.slice".into()));
        assert!(read("mptcpify.sessions = true").sessions && !read("").sessions);
        for key in ["cgroup = \"/x\"", "sessions = true"] {
            let line = error(&format!("[mptcpify]\nenabled = false\n{key}"));
            let place = format!("daemon.toml:3:{}: mptcpify.", key.find('=').unwrap() + 3);
            assert!(
                line.contains(&place) && line.contains("has no meaning"),
                "{line}"
            );
        }
    }

    #[test]
    fn rules_go_by_name_or_glob_in_the_order_of_the_file() {
        let config = Config::parse(
            "daemon.toml",
            "[interfaces]\nwwan0.rule = \"preferred\"\n\"wwan*\".rule = \"metered\"\n",
        )
        .unwrap()
        .paths;
        assert_eq!(config.rule("wwan0"), Rule::Preferred);
        assert_eq!(config.rule("wwan1"), Rule::Metered);
        assert_eq!(config.rule("wlan0"), Rule::None);
        assert!(config.ignores("docker0") && config.ignores("veth12ab") && !config.ignores("eth0"));
    }

    #[test]
    fn a_limit_is_no_rule() {
        let text = "[interfaces]\n\"wwan*\".limit = \"5GB/month\"\nwwan0.rule = \"metered\"";
        let config = Config::parse("daemon.toml", text).unwrap();
        assert_eq!(config.paths.rule("wwan0"), Rule::Metered);
        assert_eq!(
            config.paths.rules.len(),
            1,
            "wwan1 may get one of its endpoint"
        );
        assert_eq!(config.limits.len(), 1);
    }

    #[test]
    fn the_relay_is_off_without_a_line_and_says_what_is_wrong() {
        let read = |text| Config::parse("daemon.toml", text).unwrap();
        assert_eq!(read("").relay.line_file, None);
        let text =
            "[relay]\nline-file = \"/etc/line\"\ncarrier = \"mptcp\"\nleak = \"block\"\ndirect = [\"203.0.113.0/24\"]\n\
                    direct-users = [\"root\", 1001]\ndirect-cgroups = [\"/system.slice/x.service\"]\n\
                    dns = \"direct\"\nlan = [\"br0\"]\nhold = \"2h\"\n\
                    [interfaces]\nwwan0 = { rule = \"metered\", limit = \"5GB/month\" }";
        let config = read(text);
        assert_eq!(config.relay.leak, Leak::Block);
        assert_eq!(config.relay.carrier.name(), "mptcp");
        assert_eq!(config.relay.line_file, Some("/etc/line".into()));
        assert_eq!(config.relay.direct_users, [User(0), User(1001)]);
        assert_eq!(
            config.relay.direct_cgroups[0].to_string(),
            "/system.slice/x.service"
        );
        assert!(config.relay.direct_dns);
        assert_eq!(config.relay.lans, ["br0"]);
        assert_eq!(config.relay.hold.as_secs(), 7200);
        assert_eq!(read("").relay.hold.as_secs(), 900);
        assert_eq!(config.limits, [(Glob::new("wwan0"), 5_000_000_000)]);
        for (text, expected) in [
            (
                "[relay]\nline = \"mp1:a:1#b.c\"",
                "did you mean \"line-file\"?",
            ),
            ("[relay]\ncarrier = \"udp\"", "relay.carrier"),
            ("[relay]\nleak = \"no\"", "daemon.toml:2:8: relay.leak"),
            (
                "[relay]\nscheduler = \"min-rt\"",
                "did you mean \"min-rtt\"?",
            ),
            ("[relay]\ndirect = [\"10.0.0.0/33\"]", "daemon.toml:2:11"),
            (
                "[relay]\ndirect-users = [\"no such user!\"]",
                "there is no user no such user!",
            ),
            ("[relay]\ndirect-users = [-1]", "from 0 to 4294967295"),
            ("[relay]\ndirect-cgroups = [\"x\"]", "below the root"),
            ("interfaces.wwan0.limit = \"5GB\"", "5GB/month"),
            ("interfaces.wwan0.limit = \"0GB/month\"", "is zero"),
            ("interfaces.wwan0.limit = \"5/month\"", "no unit"),
        ] {
            let line = error(text);
            assert!(line.contains(expected), "{text}: {line}");
        }
    }

    #[test]
    fn thresholds_reach_the_policy() {
        let text = "[awareness]\npolicy = \"both\"\ninterval = \"100ms\"\nbackup-time = \"2s\"\n\
                    loss.threshold = 0.01\nsignal = { backup = -80, restore = -72 }\n";
        let paths = Config::parse("daemon.toml", text).unwrap().paths;
        let config = paths.awareness;
        assert_eq!(
            (config.interval_us, config.backup_time.first_us),
            (100_000, 2_000_000)
        );
        assert_eq!(config.harm.unwrap().loss, 0.01);
        assert_eq!(
            config.signal.unwrap(),
            Threshold {
                backup: -80,
                restore: -72
            }
        );
    }
}
