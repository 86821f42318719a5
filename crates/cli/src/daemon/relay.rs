//! `up --relay`, and the relay's part in `down` and `status`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use mp_daemon::config::RelayOverride;
use mp_daemon::control::{self, Request};
use mp_daemon::relay::RelayStatus;
use mp_daemon::Error;
use mp_relay::capture::{clear, PathShare, Report};
use ratatui::style::Style;

use super::{ask, listens_already, read, start, UpArgs};
use crate::capture::{self, Dns};
use crate::outcome::{self, Failure, Outcome};
use crate::relay;
use crate::sheet::{Column, Sheet};

/// Whose control socket.
#[derive(clap::Args)]
pub struct RelaySocket {
    /// Control socket of a run --relay --all
    #[arg(long, value_name = "PATH", default_value = capture::SOCKET, hide = true)]
    pub relay_socket: PathBuf,
}

pub fn up(args: &UpArgs, line: &str) -> Outcome {
    capture::check(&args.capture.relay_socket)?;
    let socket = &args.socket.path;
    let prefix = |p: &mp_relay::egress::Prefix| format!("{}/{}", p.address(), p.bits());
    let asked = Request::Relay(Box::new(RelayOverride {
        line: relay::read_line(line)?.to_string(),
        scheduler: args.scheduler.clone(),
        carrier: args.capture.carrier.map(|c| c.name().to_owned()),
        leak: args.capture.leak,
        direct: args.capture.direct.iter().map(prefix).collect(),
        direct_users: args.capture.direct_users.iter().map(|u| u.0).collect(),
        direct_cgroups: args
            .capture
            .direct_cgroups
            .iter()
            .map(|c| c.to_string())
            .collect(),
        direct_dns: args.capture.dns.map(|dns| dns == Dns::Direct),
        lans: args.capture.lan.clone(),
        links: args.links.clone(),
        hold_s: args.capture.hold.map(|hold| hold.as_secs_f64()),
    }));
    let runs = ask(socket, Request::Status).is_ok();
    if runs && (args.config.is_some() || args.log.is_some()) {
        return Err(listens_already(socket));
    }
    if !runs {
        start(args)?;
    }
    if let Err(e) = ask(socket, asked) {
        if !runs {
            // It was started for this alone.
            let _ = control::request(socket, Request::Down);
        }
        return Err(e);
    }
    let daemon = read(ask(socket, Request::Status)?)?;
    let report = daemon.relay.and_then(|relay| relay.report);
    outcome::say(&format!(
        "multipilot: {} (process {})",
        (report.as_ref()).map_or(String::new(), |r| capture::goes(r, &names(r))),
        daemon.pid
    ));
    capture::say_what_a_router_lacks(&args.capture.lan);
    report.iter().for_each(capture::say_what_to_mend);
    Ok(())
}

/// Whether there was anything to end or to undo.
pub fn down(socket: &Path) -> Outcome<bool> {
    match control::request(socket, Request::Down) {
        Ok(_) => return Ok(true),
        Err(Error::Down(_)) if mp_relay::is_root() => {}
        Err(Error::Down(_)) => return Ok(false),
        Err(e) => return Err(e.into()),
    }
    // It ends with its process: somebody lives.
    if mp_relay::is_captured() {
        return Err(Failure::Run(
            "another multipilot process has this host's relay: end it with multipilot down --socket PATH, where PATH is its control socket".into(),
        ));
    }
    let cleared = relay::runtime()?.block_on(clear());
    let cleared = cleared?;
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
    let used = report.links.iter().filter(|l| l.state != "off");
    let names: Vec<&str> = used.map(|l| l.link.as_str()).collect();
    match names.as_slice() {
        [] => "no link".into(),
        names => names.join(", "),
    }
}

/// The relay of the daemon, and that of a `run --relay --all`, where there are any.
pub fn all(daemon: Option<&RelayStatus>, own: Option<&Report>, sheet: &mut Sheet) {
    if daemon.is_some() && sheet.height() > 0 {
        sheet.line("");
    }
    daemon.iter().for_each(|relay| of_daemon(relay, sheet));
    if own.is_some() && sheet.height() > 0 {
        sheet.line("");
    }
    own.iter().for_each(|report| shown(report, sheet));
}

fn of_daemon(relay: &RelayStatus, sheet: &mut Sheet) {
    match &relay.report {
        Some(report) => shown(report, sheet),
        None if relay.why.is_empty() => sheet.line(&format!("relay {}", relay.state)),
        None => sheet.line(&format!("relay {}: {}", relay.state, relay.why)),
    }
}

fn listed(all: &[String]) -> String {
    match all {
        [] => "nothing".to_owned(),
        all => all.join(", "),
    }
}

fn shown(r: &Report, sheet: &mut Sheet) {
    sheet.line(&format!(
        "relay {} since {:.0} s, scheduler {}, {} flows open of {}, {} refused; direct: {}; leak {}",
        r.relay,
        r.uptime_s,
        r.scheduler,
        r.flows,
        r.opened,
        r.refused,
        listed(&r.not_captured),
        r.leak
    ));
    let columns = [
        Column("link", 0, false),
        Column("is", 0, false),
        Column("ready", 0, true),
        Column("sent MB", 0, true),
        Column("received MB", 0, true),
        Column("MB this month", 0, true),
        Column("why", 0, false),
    ];
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let links = r.links.iter().map(|l| {
        let month = match (l.month_bytes, l.limit_bytes) {
            (Some(bytes), Some(limit)) => format!("{:.1} of {:.0}", mb(bytes), mb(limit)),
            (Some(bytes), None) => format!("{:.1}", mb(bytes)),
            _ => "-".into(),
        };
        let cells = [
            l.link.clone(),
            l.state.to_string(),
            l.ready.to_string(),
            format!("{:.1}", mb(l.sent_bytes)),
            format!("{:.1}", mb(l.received_bytes)),
            month,
            l.why.to_string(),
        ];
        (Style::new(), Vec::from(cells))
    });
    sheet.table(&columns, links.collect());
    sheet.line("");
    for cgroup in &r.absent_cgroups {
        sheet.line(&format!("direct cgroup {cgroup}: there is none now"));
    }
    for refused in &r.refused_cgroups {
        sheet.line(&format!(
            "direct cgroup {}: its programs go to the relay: {}",
            refused.cgroup, refused.why
        ));
    }
    if let Some(warning) = capture::unserved(r) {
        sheet.line(&warning);
    }
    if !r.resolvers.is_empty() {
        let resolvers: Vec<String> = r.resolvers.iter().map(IpAddr::to_string).collect();
        let resolvers = resolvers.join(", ");
        sheet.line(&format!(
            "DNS: the relay's resolver answers for {resolvers}"
        ));
    }
    let d = &r.datagrams;
    sheet.line(&format!(
        "UDP and ICMP: {} flows; packets: {} sent, {} copies, {} received, {} duplicates, {} too big, {} dropped",
        d.flows, d.sent, d.copies, d.received, d.duplicates, d.too_big, d.dropped
    ));
    match d.paths.as_slice() {
        [] => {
            let why = d.failure.as_deref().unwrap_or("none was tried yet");
            sheet.line(&format!("no path for UDP and ICMP: {why}"));
        }
        paths => {
            let columns = [
                Column("UDP path", 0, false),
                Column("RTT ms", 0, true),
                Column("packets", 0, true),
                Column("lost", 0, true),
                Column("largest", 0, true),
                Column("", 0, false),
            ];
            let rows = paths.iter().map(|p| {
                let cells = [
                    p.link.to_string(),
                    format!("{:.1}", p.rtt_ms),
                    p.sent.to_string(),
                    p.lost.to_string(),
                    p.largest.to_string(),
                    if p.stale { "no answer" } else { "" }.into(),
                ];
                (Style::new(), Vec::from(cells))
            });
            sheet.table(&columns, rows.collect());
        }
    }
    flows(r, sheet);
    if let Some(failure) = r
        .failure
        .as_ref()
        .filter(|_| r.links.iter().all(|l| l.ready == 0))
    {
        sheet.line(&format!("no connection to the relay is ready: {failure}"));
    }
}

fn flows(r: &Report, sheet: &mut Sheet) {
    if r.busiest_flows.is_empty() {
        return;
    }
    let columns = [
        Column("flow to", 0, false),
        Column("class", 0, false),
        Column("MB", 0, true),
        Column("quiet s", 0, true),
        Column("paths", 0, false),
        Column("why", 0, false),
    ];
    let path = |p: &PathShare| {
        let is = if p.backup { " (backup)" } else { "" };
        format!("{} {:.0} %{is}", p.link, 100.0 * p.share)
    };
    let rows = r.busiest_flows.iter().map(|f| {
        let paths: Vec<String> = f.paths.iter().map(path).collect();
        let cells = [
            f.target.clone(),
            f.class.clone(),
            format!("{:.1}", f.bytes as f64 / 1e6),
            format!("{:.0}", f.quiet_s),
            paths.join(", "),
            f.why.clone(),
        ];
        (Style::new(), Vec::from(cells))
    });
    sheet.table(&columns, rows.collect());
}

#[cfg(test)]
mod tests {
    use serde_json::{json, Value};

    use super::*;

    #[test]
    fn the_daemons_relay_is_shown_as_far_as_it_goes() {
        let shown = |relay: Value| {
            let relay: Option<RelayStatus> = serde_json::from_value(relay).unwrap();
            let mut sheet = Sheet::new(80);
            all(relay.as_ref(), None, &mut sheet);
            sheet.text()
        };
        assert_eq!(shown(Value::Null), "");
        assert_eq!(shown(json!({"state": "off", "why": ""})), "relay off\n");
        let waits = json!({"state": "connecting", "why": "no answer"});
        assert_eq!(shown(waits), "relay connecting: no answer\n");
    }
}
