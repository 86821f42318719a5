//! `multipilot status`

use mp_daemon::control::Request;
use mp_daemon::relay::RelayStatus;
use mp_daemon::status::{DaemonStatus, PathPriority, PathStatus};
use mp_relay::capture::Report as Relay;
use ratatui::style::{Color, Modifier, Style};
use serde_json::{json, Value};

use super::{ask, read, relay, Socket};
use crate::fallback;
use crate::outcome::{self, Outcome};
use crate::sheet::{self, Column, Sheet};

#[derive(clap::Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub socket: Socket,
    #[command(flatten)]
    pub relay: relay::RelaySocket,
    /// Print one JSON document and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Of a page that nobody scrolls: enough for every reason.
pub const WIDTH: u16 = 400;
/// All columns but the last fit: a narrower terminal breaks lines, and nothing is left out.
const LEAST: u16 = 80;

/// The daemon's answer, and the report of a `run --relay --all`; an error where neither is at work.
pub fn poll(args: &StatusArgs) -> Outcome<(Option<Value>, Option<Relay>)> {
    let relay = relay::report(&args.relay.relay_socket);
    let answer = match ask(&args.socket.path, Request::Status) {
        Err(_) if relay.is_some() => None,
        answer => Some(answer?),
    };
    Ok((answer, relay))
}

pub fn main(args: &StatusArgs) -> Outcome {
    let (answer, relay) = poll(args)?;
    if args.json {
        let mut all = answer.unwrap_or_else(|| json!({"schema": mp_record::SCHEMA}));
        if let Some(relay) = relay {
            // One relay at most is on, of the daemon or of run --relay --all.
            all["relay"] = json!(RelayStatus {
                state: "on".into(),
                why: String::new(),
                report: Some(relay),
            });
        }
        outcome::print(&format!("{all:#}\n"));
        return Ok(());
    }
    let daemon = answer.map(read).transpose()?;
    let mut sheet = Sheet::new(sheet::terminal().map_or(WIDTH, |columns| columns.max(LEAST)));
    daemon.iter().for_each(|d| self::daemon(d, &mut sheet));
    let of_daemon = daemon.as_ref().and_then(|d| d.relay.as_ref());
    relay::all(of_daemon, relay.as_ref(), &mut sheet);
    outcome::print(&sheet.text());
    Ok(())
}

/// Whether programs use MPTCP by themselves.
pub fn programs(report: &DaemonStatus) -> String {
    let why = &report.mptcpify_why;
    let run = "multipilot run -- COMMAND gives one MPTCP";
    match report.mptcpify_sessions {
        _ if report.mptcpify => "programs that ask for TCP get MPTCP".into(),
        None => format!("programs that ask for TCP get TCP ({why}); {run}"),
        Some(true) => format!(
            "programs of user sessions that begin from now on get MPTCP, others TCP ({why}); {run}"
        ),
        Some(false) => format!(
            "programs that ask for TCP get TCP ({why}); {run}, mptcpify.sessions = true those of new user sessions"
        ),
    }
}

/// What top shows as well.
pub fn daemon(report: &DaemonStatus, sheet: &mut Sheet) {
    sheet.line(&format!(
        "{}{} since {:.0} s, controller {}, {}, {} fell back to TCP",
        report.policy,
        match report.path_manager.as_str() {
            "kernel" => "",
            _ => ", for each connection by itself,",
        },
        report.uptime_s,
        report.controller.as_deref().unwrap_or("the system's"),
        outcome::counted(report.connections, "MPTCP connection"),
        report.fallbacks.len()
    ));
    sheet.line(&programs(report));
    if !report.controller_why.is_empty() {
        sheet.line(&format!("pilot is not used: {}", report.controller_why));
    }
    if report.since_start.fell_back() > 0 {
        let counted = fallback::summary(report.since_start);
        sheet.line(&format!("connections since the start: {counted}"));
    }
    if let Some(initial) = &report.initial_path {
        let on = initial.interface.as_deref();
        sheet.line(&format!(
            "the next connection starts on {} ({}: {}), after {} outcomes",
            on.unwrap_or("whichever the routes say"),
            initial.by,
            initial.why,
            initial.outcomes
        ));
    }
    let columns = [
        Column("path", 8, false),
        Column("is", 6, false),
        Column("subflows", 0, true),
        Column("Mbit/s", 0, true),
        Column("RTT ms", 0, true),
        Column("loss", 7, true),
        Column("signal", 0, true),
        Column("switches", 0, true),
        Column("why", 0, false),
    ];
    let row = |p: &PathStatus| {
        let style = match p.priority {
            PathPriority::Backup => Style::new().fg(Color::Yellow),
            PathPriority::Off => Style::new().add_modifier(Modifier::DIM),
            PathPriority::Normal => Style::new(),
        };
        let cells = [
            p.interface.clone(),
            p.priority.to_string(),
            p.subflows.to_string(),
            format!("{:.1}", p.rate_mbps),
            match p.srtt_ms > 0.0 {
                true => format!("{:.1}", p.srtt_ms),
                false => "-".into(),
            },
            format!("{:.2} %", p.loss * 100.0),
            p.signal_dbm.map_or("-".into(), |dbm| dbm.to_string()),
            p.switches.to_string(),
            p.why.clone(),
        ];
        (style, Vec::from(cells))
    };
    sheet.table(&columns, report.paths.iter().map(row).collect());
}
