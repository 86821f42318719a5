//! `multipilot top`: what the daemon sees and does, live.

mod history;
mod screen;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use mp_daemon::status::{DaemonStatus, SubflowStatus};
use mp_kernel::fallback::Fallback;
use mp_relay::capture::Report as Relay;
use ratatui::style::{Color, Style};

use super::relay;
use super::status::{self, StatusArgs};
use crate::outcome::{self, Outcome};
use crate::sheet::{Column, Sheet};
use crate::signals;
use history::History;
use screen::Screen;

/// Between two samples of the daemon's figures.
const TURN: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub struct TopArgs {
    #[command(flatten)]
    status: StatusArgs,
}

/// What there is to see.
struct Seen {
    daemon: Option<DaemonStatus>,
    /// Of a `run --relay --all`.
    relay: Option<Relay>,
}

pub fn main(args: &TopArgs) -> Outcome {
    if args.status.json {
        return status::main(&args.status);
    }
    // Before the screen is taken: that there is no daemon is a line of its own.
    let seen = sample(&args.status)?;
    if !std::io::stdout().is_terminal() {
        outcome::print(&page(status::WIDTH, &seen, None).text());
        return Ok(());
    }
    let mut screen = Screen::open()?;
    let mut history = History::default();
    while !signals::stopped() {
        let seen = sample(&args.status)?;
        seen.daemon.iter().for_each(|r| history.take_in(r));
        let draw = |width| page(width, &seen, Some(&history));
        if screen.show(draw, Instant::now() + TURN)?.is_break() {
            break;
        }
    }
    Ok(())
}

fn sample(args: &StatusArgs) -> Outcome<Seen> {
    let (answer, relay) = status::poll(args)?;
    let daemon = answer.map(super::read).transpose()?;
    Ok(Seen { daemon, relay })
}

/// `history` is `None` where nothing came before.
fn page(width: u16, seen: &Seen, history: Option<&History>) -> Sheet {
    let mut sheet = Sheet::new(width);
    if let Some(report) = &seen.daemon {
        status::daemon(report, &mut sheet);
        history.iter().for_each(|h| h.write(&mut sheet));
        subflows(report, &mut sheet);
    }
    let of_daemon = seen.daemon.as_ref().and_then(|d| d.relay.as_ref());
    relay::all(of_daemon, seen.relay.as_ref(), &mut sheet);
    sheet
}

fn subflows(report: &DaemonStatus, sheet: &mut Sheet) {
    let mut subflows: Vec<_> = report.subflows.iter().collect();
    subflows.sort_by(|a, b| b.rate_mbps.total_cmp(&a.rate_mbps));
    let row = |s: &&SubflowStatus| {
        let (is, style) = match s.backup {
            true => ("backup", Style::new().fg(Color::Yellow)),
            false => ("normal", Style::new()),
        };
        let cells = [
            format!("{:x}", s.token),
            s.interface.clone().unwrap_or("-".into()),
            s.local.clone(),
            s.remote.clone(),
            format!("{:.1}", s.rate_mbps),
            format!("{:.1}", s.rtt_ms),
            is.into(),
            s.why.clone(),
        ];
        (style, Vec::from(cells))
    };
    let columns = [
        Column("connection", 0, false),
        Column("path", 0, false),
        Column("from", 0, false),
        Column("to", 0, false),
        Column("Mbit/s", 0, true),
        Column("RTT ms", 0, true),
        Column("is", 6, false),
        Column("why", 0, false),
    ];
    sheet.table(&columns, subflows.iter().map(row).collect());
    if report.fallbacks.is_empty() {
        return;
    }
    let row = |f: &Fallback| {
        let cells = [
            f.local.to_string(),
            f.remote.to_string(),
            f.why.describe().to_owned(),
        ];
        (Style::new(), Vec::from(cells))
    };
    let columns = [
        Column("from", 0, false),
        Column("to", 0, false),
        Column("fell back to TCP", 0, false),
    ];
    sheet.table(&columns, report.fallbacks.iter().map(row).collect());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_of_eighty_columns_shows_all_of_it() {
        let why =
            "it loses 3 % of its packets and the connections fall back by more than they gain";
        let report = serde_json::json!({
            "schema": 1, "version": "", "pid": 1, "uptime_s": 12345.0, "policy": "loss-aware", "controller": "pilot",
            "path_manager": "kernel", "connections": 12, "polls": 1, "poll_ms": 0.0, "mptcpify": false,
            "mptcpify_why": "Linux 6.1 has no hook for it", "mptcpify_sessions": false,
            "paths": [{
                "interface": "wlp0s20f3", "addresses": [], "up": true, "rule": "none", "priority": "backup",
                "why": why, "subflows": 12, "rate_mbps": 941.2, "srtt_ms": 123.4, "min_rtt_ms": 1.0, "loss": 0.1234,
                "signal_dbm": -71, "switches": 3, "sent_bytes": 0, "received_bytes": 0,
            }],
            "subflows": [{
                "token": 0xfeed_beefu32, "interface": "wlp0s20f3", "local": "10.0.0.2:54321", "remote": "203.0.113.7:443",
                "rate_mbps": 941.2, "rtt_ms": 123.4, "backup": true, "why": "",
            }],
        });
        let daemon = serde_json::from_value(report).unwrap();
        let seen = Seen {
            daemon: Some(daemon),
            relay: None,
        };
        let text = page(80, &seen, None).text();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for whole in [
            "0 fell back to TCP",
            "mptcpify.sessions = true those of new user sessions",
        ] {
            assert!(words.contains(whole), "{whole}: {text}");
        }
        let subflow = text.lines().find(|l| l.starts_with("feedbeef")).unwrap();
        assert!(subflow.ends_with("941.2  123.4 backup"), "{text}");
        let last: Vec<&str> = why.split(' ').filter(|w| !words.contains(w)).collect();
        assert!(last.is_empty(), "without {last:?}: {text}");
    }
}
