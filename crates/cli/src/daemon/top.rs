//! `multipilot top`: what the daemon sees and does, live.

mod history;
mod keys;

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mp_daemon::control::Request;
use mp_daemon::status::{Priority, Status as Report};
use rustix::termios::tcgetwinsize;

use super::{ask, status, Socket};
use crate::outcome::{Failure, Outcome};
use crate::signals;
use history::History;
use keys::{Key, Keys};

/// Between two looks at the daemon.
const TURN: Duration = Duration::from_secs(1);
/// Where the terminal does not tell its height.
const ROWS: usize = 24;
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
    let keys = Keys::listen();
    let _ = out.write_all(ENTER.as_bytes());
    let result = show(args, &keys, &mut out);
    let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
    result
}

fn show(args: &Top, keys: &Keys, out: &mut (impl Write + AsFd)) -> Outcome {
    let mut history = History::default();
    let mut first = 0;
    while !signals::stopped() {
        let report = status::read(ask(&args.socket.path, Request::Status)?)?;
        history.take_in(&report);
        let (page, drawn) = (page(&report, &history), Instant::now());
        while drawn.elapsed() < TURN && !signals::stopped() {
            let height = tcgetwinsize(&*out).map_or(0, |size| usize::from(size.ws_row));
            let rows = if height == 0 { ROWS } else { height };
            let shown = screen(&page, &mut first, rows);
            if write!(out, "{shown}").and_then(|()| out.flush()).is_err() {
                return Ok(());
            }
            // Short enough for Ctrl-C.
            let left = TURN.saturating_sub(drawn.elapsed()).min(TURN / 4);
            match keys.wait(left) {
                Some(Key::Quit) => return Ok(()),
                Some(key) => first = scrolled(first, key, rows),
                None => {}
            }
        }
    }
    Ok(())
}

/// The line to begin with.
fn scrolled(first: usize, key: Key, rows: usize) -> usize {
    match key {
        Key::Quit => first,
        Key::Lines(lines) => first.saturating_add_signed(lines),
        Key::Pages(pages) => first.saturating_add_signed(pages * rows.saturating_sub(2) as isize),
        Key::First => 0,
        Key::Last => usize::MAX,
    }
}

/// The lines from the `first` on that the terminal has room for, which stays within the page, and the keys below them.
/// Each line is put at its place and the rest cleared: no flicker.
fn screen(page: &str, first: &mut usize, rows: usize) -> String {
    let lines: Vec<&str> = page.lines().collect();
    let room = rows.saturating_sub(1).max(1);
    *first = (*first).min(lines.len().saturating_sub(room));
    let mut out = String::new();
    let shown = lines.iter().skip(*first).take(room);
    for (row, line) in shown.enumerate() {
        let _ = write!(out, "\x1b[{};1H{line}\x1b[K", row + 1);
    }
    let below = lines.len().saturating_sub(*first + room);
    let more = match (*first, below) {
        (0, 0) => String::new(),
        (above, below) => format!("; {above} lines above, {below} below: ↑ ↓ PgUp PgDn"),
    };
    out + &format!("\x1b[J\x1b[{rows};1H{DIM}q ends this; the daemon goes on{more}{PLAIN}\x1b[K")
}

fn page(report: &Report, history: &History) -> String {
    let mut out = String::new();
    let table = status::paths(report);
    // Lines about the daemon, an empty one, the header, and the paths.
    let paths = table.lines().take_while(|l| !l.is_empty()).count() + 2;
    for (row, line) in table.lines().enumerate() {
        let priority = row
            .checked_sub(paths)
            .and_then(|i| report.paths.get(i))
            .map(|p| p.priority);
        let style = match priority {
            None => BOLD,
            Some(Priority::Backup) => YELLOW,
            Some(Priority::Off) => DIM,
            Some(Priority::Normal) => "",
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
    for s in &subflows {
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
    if !report.fallbacks.is_empty() {
        let _ = writeln!(
            out,
            "\n{BOLD}{:<24} {:<24} fell back to TCP{PLAIN}",
            "from", "to"
        );
    }
    for f in &report.fallbacks {
        let (local, remote) = (f.local.to_string(), f.remote.to_string());
        let _ = writeln!(out, "{local:<24} {remote:<24} {}", f.why.describe());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_scrolls_and_stays_in_sight() {
        let page: String = (0..50).map(|i| format!("line{i}\n")).collect();
        let on_screen = |first: &mut usize| {
            let shown = screen(&page, first, 11);
            let holds = |i: &usize| shown.contains(&format!("line{i}\x1b"));
            (0..50).filter(holds).collect::<Vec<_>>()
        };
        let mut first = 0;
        assert_eq!(on_screen(&mut first), (0..10).collect::<Vec<_>>());
        for (key, expected) in [
            (Key::Lines(1), 1),
            (Key::Pages(1), 10),
            (Key::Pages(-1), 1),
            (Key::Lines(-1), 0),
            (Key::Lines(-1), 0),
            (Key::Last, 40),
            (Key::Lines(1), 40),
            (Key::First, 0),
        ] {
            first = scrolled(first, key, 11);
            let all = on_screen(&mut first);
            assert_eq!(
                (first, all[0], all.len()),
                (expected, expected, 10),
                "{key:?}"
            );
        }
        assert!(screen(&page, &mut first, 11).contains("0 lines above, 40 below"));
        assert!(!screen("one\n", &mut first, 11).contains("above"));
    }
}
