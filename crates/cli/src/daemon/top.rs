//! `multipilot top`: what the daemon sees and does, live.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use mp_daemon::control::Request;
use mp_daemon::status::Status as Report;

use super::{ask, status, Socket};
use crate::outcome::{Failure, Outcome};
use crate::signals;

/// Subflows shown at most, those that carry most first.
const SUBFLOWS: usize = 20;
/// Alternate screen, no cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

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
    while !signals::stopped() {
        let report = status::read(ask(&args.socket.path, Request::Status)?)?;
        // From the top, each line and then the rest cleared: no flicker.
        let page = page(&report).replace('\n', "\x1b[K\r\n");
        let written = write!(out, "\x1b[H{page}\x1b[J").and_then(|()| out.flush());
        if written.is_err() {
            return Ok(());
        }
        let drawn = Instant::now();
        while drawn.elapsed() < Duration::from_secs(1) && !signals::stopped() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}

fn page(report: &Report) -> String {
    let mut out = status::paths(report);
    let mut subflows: Vec<_> = report.subflows.iter().collect();
    subflows.sort_by(|a, b| b.rate_mbps.total_cmp(&a.rate_mbps));
    let _ = writeln!(
        out,
        "\n{:<10} {:<12} {:<24} {:<24} {:>7} {:>8}  is",
        "connection", "path", "from", "to", "Mbit/s", "RTT ms"
    );
    for s in subflows.iter().take(SUBFLOWS) {
        let path = s.interface.as_deref().unwrap_or("-");
        let is = if s.backup { "backup" } else { "normal" };
        let _ = writeln!(
            out,
            "{:<10x} {path:<12} {:<24} {:<24} {:>7.1} {:>8.1}  {is}",
            s.token, s.local, s.remote, s.rate_mbps, s.rtt_ms
        );
    }
    if subflows.len() > SUBFLOWS {
        let _ = writeln!(out, "… and {} more", subflows.len() - SUBFLOWS);
    }
    out + "\nCtrl-C ends this; the daemon goes on\n"
}
