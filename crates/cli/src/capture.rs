//! The TCP and UDP of every program of this host over a relay: the options of `run --relay --all` and `up --relay`, and
//! `run --relay LINE --all` itself, until Ctrl-C or `multipilot down`.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use mp_daemon::config::Leak;
use mp_daemon::control::{self, ControlSocket, PendingRequest, Request};
pub use mp_relay::capture::Settings;
use mp_relay::capture::{self, Capture, Cgroup, Report, User};
use mp_relay::device::Device;
use mp_relay::egress::Prefix;
use mp_relay::Transport;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::outcome::{self, Failure, Outcome};
use crate::signals;

/// Beside the daemon's, whose requests it answers too.
pub const SOCKET: &str = "/run/multipilot/relay.sock";

/// With `run --relay --all` and `up --relay`; the first with every `run --relay`.
#[derive(clap::Args)]
pub struct Options {
    /// With --relay: time for which connections are kept without any link; sleep does not count [default: 15min]
    #[arg(long, value_name = "TIME", requires = "relay", value_parser = mp_scenario::document::duration)]
    pub hold: Option<Duration>,
    /// With --relay: carry streams over a TCP connection for each link, or over one MPTCP connection (mptcp), whose subflows
    /// the kernel opens and schedules [default: tcp]
    #[arg(long, value_name = "tcp|mptcp", requires = "relay")]
    pub carrier: Option<Transport>,
    /// With --relay: addresses reached directly, beside private and link-local ones, such as 203.0.113.0/24; may be repeated
    #[arg(long, value_name = "PREFIX", requires = "relay")]
    pub direct: Vec<Prefix>,
    /// With --relay: user whose programs' connections stay direct, by name or number; may be repeated
    #[arg(long = "direct-user", value_name = "USER", requires = "relay")]
    pub direct_users: Vec<User>,
    /// With --relay: cgroup (v2) whose programs' connections stay direct, such as /system.slice/backup.service; may be repeated
    #[arg(long = "direct-cgroup", value_name = "PATH", requires = "relay")]
    pub direct_cgroups: Vec<Cgroup>,
    /// With --relay: while the relay does not answer, or after this process was killed, send traffic directly, or block it
    /// until multipilot down [default: direct]
    #[arg(long, requires = "relay", value_parser = leak())]
    pub leak: Option<Leak>,
    /// With --relay: who answers DNS queries to a private address, such as a home router: the relay's resolver, or the router
    /// itself (direct) [default: relay]
    #[arg(long, value_enum, requires = "relay")]
    pub dns: Option<Dns>,
    /// With --relay: interface of a LAN for which this host is the router; connections of its hosts go to the relay too. May
    /// be repeated
    #[arg(long, value_name = "IFACE", requires = "relay")]
    pub lan: Vec<String>,
    /// Control socket of a run --relay --all
    #[arg(long, value_name = "PATH", default_value = SOCKET, hide = true)]
    pub relay_socket: PathBuf,
}

impl Options {
    /// The first one given that says what goes over the relay.
    pub fn for_the_host(&self) -> Option<&'static str> {
        let given = [
            ("--direct", !self.direct.is_empty()),
            ("--direct-user", !self.direct_users.is_empty()),
            ("--direct-cgroup", !self.direct_cgroups.is_empty()),
            ("--leak", self.leak.is_some()),
            ("--dns", self.dns.is_some()),
            ("--lan", !self.lan.is_empty()),
        ];
        given.iter().find(|(_, is)| *is).map(|(name, _)| *name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Dns {
    Relay,
    Direct,
}

fn leak() -> impl TypedValueParser<Value = Leak> {
    let words = PossibleValuesParser::new(Leak::NAMES.map(|(word, _)| word));
    words.map(|word| {
        let mut all = Leak::NAMES.into_iter();
        let found = all.find(|(known, _)| *known == word);
        found.expect("the parser knows no others").1
    })
}

/// Refused before anything is changed or asked of the relay.
pub fn check(socket: &Path) -> Outcome {
    if !mp_relay::is_root() {
        return Err(Failure::Unable("taking all of this host's connections changes its routes: run it as root; without root, run --relay LINE --socks 127.0.0.1:1080 gives a proxy".into()));
    }
    match control::request(socket, Request::Status) {
        Ok(_) => Err(Failure::Usage(
            "this host's connections go to a relay already: multipilot down ends that".into(),
        )),
        Err(_) => Ok(()),
    }
}

pub fn host(runtime: &Runtime, device: Arc<Device>, settings: &Settings, socket: &Path) -> Outcome {
    let links = device.links().join(", ");
    let (calls, requests) = mpsc::channel(4);
    let control = {
        let _inside = runtime.enter();
        ControlSocket::listen(socket, None, calls)?
    };
    let capture = runtime.block_on(Capture::start(device, settings))?;
    let report = capture.report();
    outcome::say(&format!(
        "multipilot: {} (Ctrl-C ends it)",
        goes(&report, &links)
    ));
    say_what_a_router_lacks(&settings.lans);
    say_what_to_mend(&report);
    if let Some(why) = capture.translates() {
        outcome::say(&format!(
            "multipilot: TCP goes through the TUN, at more CPU: {why}"
        ));
    }
    let end = runtime.block_on(serve(&capture, requests));
    // Where nobody has asked for the end, a block stays.
    let stopped = match &end {
        Ok(_) => runtime.block_on(capture.stop()),
        Err(_) => runtime.block_on(capture.leave()),
    };
    let stopped = stopped.map_err(Failure::from);
    // Whoever asked for the end may start another as soon as it is told.
    drop(control);
    if let Ok(Some((_, answer))) = end {
        let _ = answer.send(match &stopped {
            Ok(()) => json!({}),
            Err(e) => json!({"error": e.to_string()}),
        });
        // Time for the answer.
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(50)).await });
        return stopped;
    }
    // An interface that is gone cannot be removed.
    end.and(stopped)
}

/// What hosts behind an interface need of this one: its rules are the user's, so that it is only said.
pub fn say_what_a_router_lacks(lans: &[String]) {
    let is = |key: &str, value: &str| {
        let file = format!("/proc/sys/net/ipv4/{key}");
        std::fs::read_to_string(file).is_ok_and(|text| text.trim() == value)
    };
    let lan = lans.join(", ");
    if !lans.is_empty() && is("ip_forward", "0") {
        outcome::say(&format!("multipilot: hosts behind {lan} reach nothing while this host does not forward: sysctl -w net.ipv4.ip_forward=1"));
    }
    if !lans.is_empty() && is("conf/all/rp_filter", "1") {
        outcome::say(&format!("multipilot: hosts behind {lan} get no answers while the kernel filters by reverse paths: sysctl -w net.ipv4.conf.all.rp_filter=2"));
    }
}

/// What the kernel may do to the relay's answers, and what passes by the relay. The rules are the user's, so that it is only said.
pub fn say_what_to_mend(report: &Report) {
    let used = report.links.iter().filter(|l| l.state != "off");
    let links: Vec<&str> = used.map(|l| l.link.as_str()).collect();
    let warnings = [
        mp_relay::links::filtered(&links),
        unserved(report),
        capture::Refused::warning(&report.refused_cgroups),
    ];
    for warning in warnings.into_iter().flatten() {
        outcome::say(&format!("multipilot: {warning}"));
    }
}

/// In one line; [`None`] if the host forwards for nobody, or the relay serves them all.
pub fn unserved(report: &Report) -> Option<String> {
    let names = report.unserved.join(", ");
    let lan = report.unserved.join(" --lan ");
    (!names.is_empty()).then(|| {
        format!("containers and other hosts behind {names} reach the network directly, whatever --leak says: --lan {lan} sends them to the relay")
    })
}

/// What is taken, in a sentence.
pub fn goes(report: &Report, links: &str) -> String {
    let is_direct = |protocol: &str| report.not_captured.iter().any(|p| p == protocol);
    if is_direct("TCP") {
        return format!(
            "nothing goes to the relay now, which does not answer over {links}: all stays direct"
        );
    }
    let (what, rest) = match (is_direct("UDP"), report.datagrams.paths.is_empty()) {
        (true, _) => (
            "TCP connection",
            "; UDP and ICMP stay direct, since the relay does not answer over UDP",
        ),
        (false, true) => (
            "TCP connection",
            "; UDP and ICMP are blocked until the relay answers over UDP",
        ),
        (false, false) => ("TCP connection, UDP flow and ping", ""),
    };
    format!("every new {what} of this host goes to the relay over {links}{rest}")
}

/// Until it is to end; with the request that asked for it.
async fn serve(
    capture: &Capture,
    mut requests: mpsc::Receiver<PendingRequest>,
) -> Outcome<Option<PendingRequest>> {
    let mut stop = pin!(signals::until_stopped());
    let mut restored = 0;
    loop {
        if capture.restored() != restored {
            restored = capture.restored();
            outcome::say(&format!("multipilot: {}", capture::RESTORED));
        }
        tokio::select! {
            () = &mut stop => return Ok(None),
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
            () = capture.gone() => {
                return Err(Failure::Run(format!("somebody has removed the interface {}", mp_relay::links::TUN)));
            }
            Some((request, answer)) = requests.recv() => match request {
                Request::Down => return Ok(Some((request, answer))),
                Request::Status => {
                    let _ = answer.send(json!(capture.report()));
                }
                Request::Reload | Request::Relay(_) => {
                    let _ = answer.send(json!({"error": "the relay has no file to read again: multipilot down, then up --relay"}));
                }
            }
        }
    }
}
