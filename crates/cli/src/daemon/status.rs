//! `multipilot status`

use std::fmt::Write;

use mp_daemon::control::Request;
use mp_daemon::status::Status as Report;

use super::{ask, Socket};
use crate::outcome::{self, Failure, Outcome};

#[derive(clap::Args)]
pub struct Status {
    #[command(flatten)]
    socket: Socket,
    /// One JSON document on stdout, and nothing else
    #[arg(long)]
    json: bool,
}

pub fn main(args: &Status) -> Outcome {
    let answer = ask(&args.socket.path, Request::Status)?;
    if args.json {
        outcome::print(&format!("{answer:#}\n"));
        return Ok(());
    }
    outcome::print(&paths(&read(answer)?));
    Ok(())
}

pub fn read(answer: serde_json::Value) -> Outcome<Report> {
    serde_json::from_value(answer).map_err(|e| {
        Failure::Run(format!(
            "the daemon is of another version ({e}): multipilot down, then up"
        ))
    })
}

/// The table that top shows as well.
pub fn paths(report: &Report) -> String {
    let mut out = format!(
        "{}{} since {:.0} s, controller {}, {} MPTCP connections\n\n",
        report.policy,
        match report.path_manager.as_str() {
            "kernel" => "",
            _ => ", for each connection by itself,",
        },
        report.uptime_s,
        report.controller.as_deref().unwrap_or("the system's"),
        report.connections
    );
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
