//! `multipilot top`: what the daemon sees and does, live.

mod history;
mod screen;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use mp_daemon::status::{Status as Report, SubflowStatus};
use mp_kernel::fallback::Fallback;
use ratatui::style::{Color, Style};

use super::relay;
use super::status::{self, Status};
use crate::outcome::{self, Outcome};
use crate::sheet::{Column, Sheet};
use crate::signals;
use history::History;
use screen::Screen;

/// Between two samples of the daemon's figures.
const TURN: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub struct Top {
    #[command(flatten)]
    status: Status,
}

/// What there is to see.
struct Seen {
    daemon: Option<Report>,
    /// Of the daemon's relay, or of a `run --relay --all`.
    relay: String,
}

pub fn main(args: &Top) -> Outcome {
    if args.status.json {
        return status::main(&args.status);
    }
    // Before the screen is taken: that there is no daemon is a line of its own.
    let seen = look(&args.status)?;
    if !std::io::stdout().is_terminal() {
        outcome::print(&page(status::WIDTH, &seen, None).text());
        return Ok(());
    }
    let mut screen = Screen::open()?;
    let mut history = History::default();
    while !signals::stopped() {
        let seen = look(&args.status)?;
        seen.daemon.iter().for_each(|r| history.take_in(r));
        let draw = |width| page(width, &seen, Some(&history));
        if screen.show(draw, Instant::now() + TURN)?.is_break() {
            break;
        }
    }
    Ok(())
}

fn look(args: &Status) -> Outcome<Seen> {
    let (answer, own) = status::look(args)?;
    let daemon = answer.map(status::read).transpose()?;
    let of_daemon = daemon.as_ref().and_then(|report| report.relay.as_ref());
    let parts = [
        of_daemon.map(relay::of_daemon),
        own.as_ref().map(relay::table),
    ];
    Ok(Seen {
        relay: parts.into_iter().flatten().collect(),
        daemon,
    })
}

/// `history` is `None` where nothing came before.
fn page(width: u16, seen: &Seen, history: Option<&History>) -> Sheet {
    let mut sheet = Sheet::new(width);
    if let Some(report) = &seen.daemon {
        status::daemon(report, &mut sheet);
        history.iter().for_each(|h| h.write(&mut sheet));
        subflows(report, &mut sheet);
        if !seen.relay.is_empty() {
            sheet.line("");
        }
    }
    seen.relay.lines().for_each(|l| sheet.line(l));
    sheet
}

fn subflows(report: &Report, sheet: &mut Sheet) {
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
        Column("connection", 10, false),
        Column("path", 15, false),
        Column("from", 21, false),
        Column("to", 21, false),
        Column("Mbit/s", 7, true),
        Column("RTT ms", 8, true),
        Column("is", 7, false),
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
        Column("from", 21, false),
        Column("to", 21, false),
        Column("fell back to TCP", 0, false),
    ];
    sheet.table(&columns, report.fallbacks.iter().map(row).collect());
}
