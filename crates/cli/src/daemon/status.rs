//! `multipilot status`

use std::fmt::Write;

use mp_daemon::control::Request;
use mp_daemon::status::Status as Report;

use serde_json::json;

use super::{ask, relay, Socket};
use crate::fallback;
use crate::outcome::{self, Failure, Outcome};

#[derive(clap::Args)]
pub struct Status {
    #[command(flatten)]
    socket: Socket,
    #[command(flatten)]
    relay: relay::RelaySocket,
    /// One JSON document on stdout, and nothing else
    #[arg(long)]
    json: bool,
}

pub fn main(args: &Status) -> Outcome {
    let relay = relay::report(&args.relay.relay_socket);
    let answer = match ask(&args.socket.path, Request::Status) {
        Err(_) if relay.is_some() => None,
        answer => Some(answer?),
    };
    if args.json {
        let mut all = answer.unwrap_or_else(|| json!({}));
        if let Some(relay) = relay {
            all["relay"] = json!(relay);
        }
        outcome::print(&format!("{all:#}\n"));
        return Ok(());
    }
    let daemon = answer.map(read).transpose()?;
    let parts = [
        daemon.as_ref().map(paths),
        daemon
            .and_then(|report| report.relay)
            .map(|relay| relay::of_daemon(&relay)),
        relay.as_ref().map(relay::table),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    outcome::print(&parts.join("\n"));
    Ok(())
}

pub fn read(answer: serde_json::Value) -> Outcome<Report> {
    serde_json::from_value(answer).map_err(|e| {
        Failure::Run(format!(
            "the daemon is of another version ({e}): multipilot down, then up"
        ))
    })
}

/// Whether programs use MPTCP by themselves.
pub fn programs(report: &Report) -> String {
    match report.mptcpify {
        true => "programs that ask for TCP get MPTCP".into(),
        false => format!(
            "programs that ask for TCP get TCP ({}); multipilot run -- COMMAND gives one MPTCP",
            report.mptcpify_why
        ),
    }
}

/// The table that top shows as well.
pub fn paths(report: &Report) -> String {
    let mut out = format!(
        "{}{} since {:.0} s, controller {}, {} MPTCP connections, {} fell back to TCP\n\n",
        report.policy,
        match report.path_manager.as_str() {
            "kernel" => "",
            _ => ", for each connection by itself,",
        },
        report.uptime_s,
        report.controller.as_deref().unwrap_or("the system's"),
        report.connections,
        report.fallbacks.len()
    );
    let line = out.len() - 1;
    out.insert_str(line, &format!("{}\n", programs(report)));
    if !report.controller_why.is_empty() {
        out.insert_str(
            out.len() - 1,
            &format!("pilot is not used: {}\n", report.controller_why),
        );
    }
    if report.since_start.fell_back() > 0 {
        out.insert_str(
            out.len() - 1,
            &format!(
                "connections since the start: {}\n",
                fallback::summary(report.since_start)
            ),
        );
    }
    if let Some(start) = &report.start {
        let on = start.interface.as_deref();
        out.insert_str(
            out.len() - 1,
            &format!(
                "the next connection starts on {} ({}: {}), after {} outcomes\n",
                on.unwrap_or("whichever the routes say"),
                start.by,
                start.why,
                start.outcomes
            ),
        );
    }
    let _ = writeln!(
        out,
        "{:<15} {:<7} {:>8} {:>7} {:>8} {:>7} {:>7} {:>6}  why",
        "path", "is", "subflows", "Mbit/s", "RTT ms", "loss", "signal", "turns"
    );
    for p in &report.paths {
        let signal = p.signal_dbm.map_or("-".into(), |dbm| dbm.to_string());
        let rtt = if p.srtt_ms > 0.0 {
            format!("{:.1}", p.srtt_ms)
        } else {
            "-".into()
        };
        let loss = format!("{:.2} %", p.loss * 100.0);
        let line = format!(
            "{:<15} {:<7} {:>8} {:>7.1} {rtt:>8} {loss:>7} {signal:>7} {:>6}  {}",
            p.interface, p.priority, p.subflows, p.rate_mbps, p.switches, p.why
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}
