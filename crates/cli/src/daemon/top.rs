//! `multipilot top`: what the daemon sees and does, live.

mod history;

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use mp_daemon::control::Request;
use mp_daemon::status::Status as Report;

use super::{ask, status, Socket};
use crate::outcome::{Failure, Outcome};
use crate::signals;
use history::History;

/// Subflows shown at most, those that carry most first.
const SUBFLOWS: usize = 20;
/// Alternate screen, no cursor, long lines cut off; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const YELLOW: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";

#[derive(clap::Args)]
pub struct Top {
    #[command(flatten)]
    socket: Socket,
}

pub fn main(args: &Top) -> Outcome {
    let mut out = std::io::stdout();
    if !out.is_terminal() {
        return Err(Failure::Usage(
            "top needs a terminal; multipilot status --json is for programs".into(),
        ));
    }
    status::read(ask(&args.socket.path, Request::Status)?)?;
    let _ = out.write_all(ENTER.as_bytes());
    let result = show(args, &mut out);
    let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
    result
}

fn show(args: &Top, out: &mut impl Write) -> Outcome {
    let mut history = History::default();
    while !signals::stopped() {
        let report = status::read(ask(&args.socket.path, Request::Status)?)?;
        history.take_in(&report);
        if write!(out, "{}", screen(&page(&report, &history)))
            .and_then(|()| out.flush())
            .is_err()
        {
            return Ok(());
        }
        let drawn = Instant::now();
        while drawn.elapsed() < Duration::from_secs(1) && !signals::stopped() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}

/// Each line at its place, and then the rest cleared: no flicker, and no scrolling where there are more than the terminal
/// has.
fn screen(page: &str) -> String {
    let mut out = String::new();
    for (row, line) in page.lines().enumerate() {
        let _ = write!(out, "\x1b[{};1H{line}\x1b[K", row + 1);
    }
    out + "\x1b[J"
}

fn page(report: &Report, history: &History) -> String {
    let mut out = String::new();
    for (row, line) in status::paths(report).lines().enumerate() {
        // The first are the daemon's own and an empty one, then come the header and the paths.
        let priority = row
            .checked_sub(3 + usize::from(report.start.is_some()))
            .and_then(|i| report.paths.get(i))
            .map(|p| p.priority.as_str());
        let style = match priority {
            None => BOLD,
            Some("backup") => YELLOW,
            Some("off") => DIM,
            Some(_) => "",
        };
        let _ = writeln!(out, "{style}{line}{PLAIN}");
    }
    out += &history.rates();
    out += &history.turns();
    let mut subflows: Vec<_> = report.subflows.iter().collect();
    subflows.sort_by(|a, b| b.rate_mbps.total_cmp(&a.rate_mbps));
    let _ = writeln!(
        out,
        "\n{BOLD}{:<10} {:<15} {:<24} {:<24} {:>7} {:>8}  is{PLAIN}",
        "connection", "path", "from", "to", "Mbit/s", "RTT ms"
    );
    for s in subflows.iter().take(SUBFLOWS) {
        let path = s.interface.as_deref().unwrap_or("-");
        let (is, style) = match s.backup {
            true => ("backup", YELLOW),
            false => ("normal", ""),
        };
        let _ = writeln!(
            out,
            "{style}{:<10x} {path:<15} {:<24} {:<24} {:>7.1} {:>8.1}  {is}{}{}{PLAIN}",
            s.token,
            s.local,
            s.remote,
            s.rate_mbps,
            s.rtt_ms,
            if s.why.is_empty() { "" } else { ": " },
            s.why
        );
    }
    if subflows.len() > SUBFLOWS {
        let _ = writeln!(out, "… and {} more", subflows.len() - SUBFLOWS);
    }
    out + &format!("\n{DIM}Ctrl-C ends this; the daemon goes on{PLAIN}\n")
}
