//! `up --relay`, and the relay's part in `down` and `status`: a process beside the daemon, which needs no MPTCP.

use std::fmt::Write;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mp_daemon::control::{self, Request};
use mp_daemon::Error;
use mp_relay::capture::{self, Report};

use super::{launch, own_program, Up};
use crate::outcome::{self, Outcome};
use crate::relay;
use crate::run::{self, Dns, Leak};

const LOG: &str = "/run/multipilot/relay.log";

/// Whose control socket.
#[derive(clap::Args)]
pub struct RelaySocket {
    /// Control socket of the process that holds the relay's connections
    #[arg(long, value_name = "PATH", default_value = run::capture::SOCKET, hide = true)]
    pub relay_socket: PathBuf,
}

pub fn up(args: &Up, line: &str) -> Outcome {
    let socket = &args.capture.relay_socket;
    run::capture::check(socket)?;
    let mut command = Command::new(own_program()?);
    // The line is a secret, and arguments are not.
    command.args(["run", "--relay", "-", "--all", "--relay-socket"]);
    command.arg(socket);
    let leak = match args.capture.leak {
        Leak::Direct => "direct",
        Leak::Block => "block",
    };
    command.args(["--leak", leak]);
    if args.capture.dns == Dns::Direct {
        command.args(["--dns", "direct"]);
    }
    for lan in &args.capture.lan {
        command.args(["--lan", lan]);
    }
    for prefix in &args.capture.direct {
        command.arg("--direct");
        command.arg(format!("{}/{}", prefix.address(), prefix.bits()));
    }
    for link in &args.links {
        command.args(["--link", link]);
    }
    if let Some(scheduler) = &args.scheduler {
        command.args(["--scheduler", scheduler]);
    }
    let log = args.log.as_deref().unwrap_or(Path::new(LOG));
    command.stdin(Stdio::piped());
    let give = |child: &mut std::process::Child| {
        let mut stdin = child.stdin.take().expect("it is piped");
        // A process that has ended says why in its log.
        let _ = writeln!(stdin, "{line}");
    };
    let id = launch(command, log, give, || report(socket).is_some())?;
    let report = report(socket);
    let said = report.map(|r| run::capture::goes(&r, &names(&r)));
    outcome::say(&format!(
        "multipilot: {} (process {id})",
        said.unwrap_or_default()
    ));
    Ok(())
}

/// Whether there was anything to end or to take back.
pub fn down(socket: &Path) -> Outcome<bool> {
    match control::request(socket, Request::Down) {
        Ok(_) => return Ok(true),
        Err(Error::Down(_)) if mp_relay::is_root() => {}
        Err(Error::Down(_)) => return Ok(false),
        Err(e) => return Err(super::of_daemon(e)),
    }
    let cleared = relay::runtime()?.block_on(capture::clear());
    let cleared = cleared.map_err(relay::failure)?;
    if cleared {
        outcome::say("multipilot: removed the routing rules of a process that was killed");
    }
    Ok(cleared)
}

/// `None` where none runs.
pub fn report(socket: &Path) -> Option<Report> {
    let answer = control::request(socket, Request::Status).ok()?;
    serde_json::from_value(answer).ok()
}

fn names(report: &Report) -> String {
    let names: Vec<&str> = report.links.iter().map(|l| l.link.as_str()).collect();
    match names.as_slice() {
        [] => "no link".into(),
        names => names.join(", "),
    }
}

fn listed(all: &[String]) -> String {
    match all {
        [] => "nothing".to_owned(),
        all => all.join(", "),
    }
}

pub fn table(r: &Report) -> String {
    let mut out = format!(
        "relay {} since {:.0} s, scheduler {}, {} flows open of {}, {} refused; direct: {}; leak {}\n\n",
        r.relay,
        r.uptime_s,
        r.scheduler,
        r.flows,
        r.opened,
        r.refused,
        listed(&r.not_captured),
        r.leak
    );
    let _ = writeln!(
        out,
        "{:<15} {:>6} {:>10} {:>12}",
        "link", "ready", "sent MB", "received MB"
    );
    for l in &r.links {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let _ = writeln!(
            out,
            "{:<15} {:>6} {:>10.1} {:>12.1}",
            l.link,
            l.ready,
            mb(l.sent_bytes),
            mb(l.received_bytes)
        );
    }
    if !r.resolvers.is_empty() {
        let resolvers: Vec<String> = r.resolvers.iter().map(IpAddr::to_string).collect();
        let _ = writeln!(
            out,
            "\nDNS: the relay's resolver answers for {}",
            resolvers.join(", ")
        );
    }
    let d = &r.datagrams;
    let _ = writeln!(
        out,
        "\nUDP and ICMP: {} flows; packets: {} sent, {} copies, {} received, {} duplicates, {} too big, {} dropped\n",
        d.flows, d.sent, d.copies, d.received, d.duplicates, d.too_big, d.dropped
    );
    match d.paths.as_slice() {
        [] => {
            let why = d.failure.as_deref().unwrap_or("none was tried yet");
            let _ = writeln!(out, "no path for UDP and ICMP: {why}");
        }
        paths => {
            let _ = writeln!(
                out,
                "{:<15} {:>7} {:>10} {:>8} {:>8}",
                "UDP path", "RTT ms", "packets", "lost", "largest"
            );
            for p in paths {
                let state = if p.stale { "  no answer" } else { "" };
                let _ = writeln!(
                    out,
                    "{:<15} {:>7.1} {:>10} {:>8} {:>8}{state}",
                    p.link, p.rtt_ms, p.sent, p.lost, p.largest
                );
            }
        }
    }
    if let Some(failure) = r
        .failure
        .as_ref()
        .filter(|_| r.links.iter().all(|l| l.ready == 0))
    {
        let _ = writeln!(out, "no connection to the relay is ready: {failure}");
    }
    out
}
