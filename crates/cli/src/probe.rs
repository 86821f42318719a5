//! `multipilot probe LINE`: what this host's links can do, as a scenario.

mod scenario;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use mp_kernel::interfaces;
use mp_policy::scheduler;
use mp_record::metrics::quantile;
use mp_relay::control::Control;
use mp_relay::device::{Settings, HOLD};
use mp_relay::probe::{self, Direction, Link, Phase};
use mp_relay::wire::Line;
use mp_relay::Transport;
use serde_json::{json, Value};

use crate::outcome::{print, say, usage, Failure, Outcome};
use crate::sheet::{self, Column};
use crate::{relay, signals, state};

const AFTER: &str = "\
Each link is measured on its own: 4 s of echoes, 200 bytes each, 250 a second, for round trips and loss; then a download and \
an upload, with echoes beside them. No root is needed.

The scenario has the mean rate of each direction without the stream's first second, half of the minimum round trip as delay, \
the loss of the echoes, and the queue that the stream filled, which may be less than the buffer holds. Then compare the \
choices on your network:
multipilot compare network.toml --world sim --seeds 20";

#[derive(Args)]
#[command(after_help = AFTER)]
pub struct ProbeArgs {
    /// The line that multipilot relay printed, or - for stdin
    #[arg(value_name = "LINE")]
    line: String,
    /// Interface to measure, may be repeated [default: every one with a default route]
    #[arg(long = "link", value_name = "INTERFACE")]
    links: Vec<String>,
    /// Length of each stream in seconds, 2 to 300
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..=300))]
    seconds: u64,
    /// Write the scenario to this file
    #[arg(
        long,
        value_name = "FILE",
        default_value = "network.toml",
        conflicts_with = "json"
    )]
    out: PathBuf,
    /// Also write each link's downlink capacity over time, in Mahimahi's format, and use it in the scenario
    #[arg(long, conflicts_with = "json")]
    trace: bool,
    /// Replace existing files
    #[arg(long)]
    force: bool,
    /// Print the measurements as JSON and write no file
    #[arg(long)]
    json: bool,
}

/// A link in the figures that people know.
struct Figures {
    rtt_ms: f64,
    median_ms: f64,
    p95_ms: f64,
}

impl Figures {
    fn of(link: &Link) -> Figures {
        let q = |q| quantile(&link.idle_ms, q).unwrap_or(0.0);
        Figures {
            rtt_ms: q(0.0),
            median_ms: q(0.5),
            p95_ms: q(0.95),
        }
    }
}

fn loaded_ms(direction: &Direction) -> Option<f64> {
    quantile(&direction.loaded_ms, 0.95)
}

pub fn main(args: &ProbeArgs) -> Outcome {
    let line = relay::read_line(&args.line)?;
    let names = match args.links.as_slice() {
        [] => leading_out()?,
        names => names.to_vec(),
    };
    let files = scenario::files(&args.out, &names, args.trace);
    if let Some(there) = files
        .iter()
        .find(|f| !args.json && !args.force && f.exists())
    {
        return Err(usage(format!(
            "{}: exists; choose another with --out, or replace it with --force",
            there.display()
        )));
    }
    let measured = measure(&line, &names, args)?;
    if args.json {
        let text = serde_json::to_string_pretty(&record(&measured)).expect("numbers and texts");
        print(&(text + "\n"));
        return Ok(());
    }
    print(&table(&measured));
    scenario::write(&args.out, &measured, args.trace)?;
    print(&format!("scenario: {}\n", args.out.display()));
    Ok(())
}

fn leading_out() -> Outcome<Vec<String>> {
    let all = interfaces::all()?;
    let names: Vec<String> = all
        .into_iter()
        .filter(|interface| interface.leads_out())
        .map(|interface| interface.name)
        .collect();
    match names.is_empty() {
        true => Err(Failure::Unable(
            "no interface has a default route: name those to be measured with --link".into(),
        )),
        false => Ok(names),
    }
}

/// A link that cannot be measured is left out, with a line.
fn measure(line: &Line, names: &[String], args: &ProbeArgs) -> Outcome<Vec<Link>> {
    let runtime = relay::runtime()?;
    let identity = state::folder()?.join("relay-device.key");
    let how = probe::Probe {
        stream: Duration::from_secs(args.seconds),
    };
    // Echoes and rests beside the two streams.
    let each = Duration::from_secs(2 * args.seconds + 8);
    say(&format!(
        "{} of about {} s each",
        match names.len() {
            1 => "1 link".to_owned(),
            count => format!("{count} links"),
        },
        each.as_secs()
    ));
    let bar = bar();
    let mut measured = Vec::new();
    for name in names {
        let settings = Settings {
            line: line.clone(),
            scheduler: &scheduler::all()[0],
            links: vec![name.clone()],
            transport: Transport::Tcp,
            controller: Control::default(),
            mark: None,
            hold: HOLD,
            observer: None,
            rules: None,
        };
        let show = |phase| {
            bar.set_message(format!(
                "{name}: {}",
                match phase {
                    Phase::Idle => "round trips and loss",
                    Phase::Down => "download",
                    Phase::Up => "upload",
                }
            ));
        };
        let work = probe::probe(settings, &identity, &how, show);
        let link = runtime.block_on(async {
            tokio::select! {
                link = work => Some(link),
                () = signals::until_stopped() => None,
            }
        });
        match link {
            None => {
                return Err(Failure::Interrupted(
                    "interrupted; nothing was written".into(),
                ))
            }
            Some(Ok(link)) => measured.push(link),
            Some(Err(e)) => match e.into() {
                // No fault of the link: there is none of that name.
                wrong @ Failure::Usage(_) => return Err(wrong),
                why => bar.suspend(|| say(&format!("multipilot: left out: {name}: {why}"))),
            },
        }
    }
    bar.finish_and_clear();
    match measured.is_empty() {
        true => Err(Failure::Run("no link could be measured".into())),
        false => Ok(measured),
    }
}

/// Hidden where stderr is no terminal.
fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {elapsed:>4} {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

fn record(measured: &[Link]) -> Value {
    let direction = |d: &Direction| {
        json!({
            "goodput_mbps": d.goodput_mbps,
            "loss": d.loss,
            "loaded_rtt_p95_ms": loaded_ms(d),
        })
    };
    let links = measured.iter().map(|link| {
        let figures = Figures::of(link);
        json!({
            "link": link.link,
            "rtt_min_ms": figures.rtt_ms,
            "rtt_median_ms": figures.median_ms,
            "rtt_p95_ms": figures.p95_ms,
            "echoes": link.packets,
            "downlink": direction(&link.down),
            "uplink": direction(&link.up),
        })
    });
    json!({ "schema": mp_record::SCHEMA, "links": links.collect::<Vec<_>>() })
}

fn table(measured: &[Link]) -> String {
    let columns = [
        Column("link", 0, false),
        Column("round trip", 0, true),
        Column("loss", 0, true),
        Column("goodput", 0, true),
        Column("round trip beside", 0, true),
    ];
    let units = [
        "",
        "min median p95, ms",
        "down up, %",
        "down up, Mbit/s",
        "download upload, ms",
    ];
    let ms = |value: Option<f64>| value.map_or("-".into(), |ms| format!("{ms:.0}"));
    let row = |link: &Link| {
        let (f, down, up) = (Figures::of(link), &link.down, &link.up);
        vec![
            link.link.clone(),
            format!("{:.1} {:.1} {:.1}", f.rtt_ms, f.median_ms, f.p95_ms),
            format!("{:.1} {:.1}", down.loss * 100.0, up.loss * 100.0),
            format!("{:.1} {:.1}", down.goodput_mbps, up.goodput_mbps),
            format!("{} {}", ms(loaded_ms(down)), ms(loaded_ms(up))),
        ]
    };
    let units = units.map(String::from).to_vec();
    let rows = std::iter::once(units).chain(measured.iter().map(row));
    sheet::table(&columns, rows.collect())
}

/// Beside the scenario.
fn place(out: &Path, name: &str) -> PathBuf {
    out.with_file_name(name)
}
