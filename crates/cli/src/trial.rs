//! `multipilot try`: a download, a call and pages while one walks out of the Wi-Fi, with and without us.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use mp_kernel::check::Missing;
use mp_policy::scheduler;
use mp_record::metrics::{mbps, median};
use mp_scenario::{Change, Rate, Scenario};
use mp_testbed::trial::{trial, Carrier, Experience, NOTICED, PAGE_PATIENCE, STEP_S};
use serde_json::{json, Value};

use crate::compare::fresh_folder;
use crate::outcome::{counted, print, say, usage, Failure, Outcome};
use crate::progress::Progress;
use crate::sheet::{self, Column};
use crate::signals::STOP;
use crate::world::of_testbed;
use crate::{report, scenario};

const SCENARIO: &str = "leaving-wifi";
const FILE: &str = "try.json";

const AFTER: &str = "\
Runs a device with Wi-Fi and LTE, and a server, in network namespaces of this machine; needs root. During a download, a call \
and page loads the Wi-Fi fades and dies; 3 s later the device takes the link down.

  direct  TCP and UDP by the routing table, as without us: over the Wi-Fi until its link is down
  lte     over the LTE alone
  mptcp   TCP over the kernel's MPTCP, to a server that speaks it; UDP as in direct
  relay   TCP and UDP over both links to a relay, as with up --relay; the server speaks plain TCP";

#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub struct TryArgs {
    /// Run only these variants: direct, lte, mptcp, relay
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// The relay's scheduler in both directions, see multipilot list schedulers
    #[arg(long, value_name = "NAME", default_value = mp_relay::SCHEDULER)]
    scheduler: String,
    /// Folder of the record and its report [default: a new one under results/]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the record only; multipilot report draws it
    #[arg(long)]
    no_report: bool,
    /// Seed of the paths' random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print the whole record as JSON, and write no folder unless --out names one
    #[arg(long)]
    json: bool,
}

/// A way that the packets can take.
struct Way {
    name: String,
    carrier: Carrier,
}

type Tried = (String, Experience);

pub fn main(args: &TryArgs) -> Outcome {
    if let Err(lack) = mp_testbed::lacks_for_relay() {
        return Err(Failure::Unable(format!(
            "{lack}; without root, multipilot compare {SCENARIO} --world sim simulates the download"
        )));
    }
    let experiment = scenario::builtin(SCENARIO, &Default::default())?;
    let scenario = &experiment.cells[0].scenario;
    let scheduler = scheduler::find(&args.scheduler).ok_or_else(|| {
        usage(format!(
            "--scheduler {}: no such scheduler; see multipilot list schedulers",
            args.scheduler
        ))
    })?;
    let ways = chosen(ways(scenario, scheduler.name), &args.only)?;
    say(&format!(
        "{}: {}",
        experiment.title,
        scenario.description.trim()
    ));
    let folder = match (&args.out, args.json) {
        (Some(folder), _) => Some(create(folder)?),
        (None, true) => None,
        (None, false) => Some(fresh_folder("try")?),
    };
    let tried = run(scenario, ways, args.seed).inspect_err(|_| {
        // Only if nothing is in it.
        let _ = folder.as_ref().map(std::fs::remove_dir);
    })?;
    let record = record(
        &experiment.title,
        scenario,
        scheduler.name,
        args.seed,
        &tried,
    );
    let text = serde_json::to_string_pretty(&record).expect("numbers and texts") + "\n";
    if let Some(folder) = &folder {
        let file = folder.join(FILE);
        mp_files::replace(&file, text.as_bytes())
            .map_err(|e| Failure::Run(format!("{}: {e}", file.display())))?;
    }
    match args.json {
        true => print(&text),
        false => print(&table(scenario, &tried)),
    }
    match folder {
        Some(folder) if !args.json => {
            print(&format!("record: {}\n", folder.display()));
            if !args.no_report {
                report::draw(&folder);
            }
        }
        _ => {}
    }
    Ok(())
}

fn ways(scenario: &Scenario, scheduler: &'static str) -> Vec<Way> {
    let way = |name: &str, carrier| Way {
        name: name.to_owned(),
        carrier,
    };
    let others = scenario.paths.keys().skip(1);
    let mut ways = vec![way("direct", Carrier::Direct)];
    ways.extend(others.map(|link| way(link, Carrier::Link(link.clone()))));
    ways.push(way("mptcp", Carrier::Mptcp));
    ways.push(way("relay", Carrier::Relay(scheduler)));
    ways
}

fn chosen(all: Vec<Way>, only: &[String]) -> Outcome<Vec<Way>> {
    let names: Vec<&str> = all.iter().map(|way| way.name.as_str()).collect();
    if let Some(wrong) = only.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(usage(format!(
            "--only {wrong}: expected one of {}",
            names.join(", ")
        )));
    }
    let chosen = |way: &Way| only.is_empty() || only.contains(&way.name);
    let ways: Vec<Way> = all.into_iter().filter(chosen).collect();
    let over_relay = |way: &Way| matches!(way.carrier, Carrier::Relay(_));
    if ways.iter().any(over_relay) {
        let unable = |missing: Missing| {
            Failure::Unable(format!("{missing}; --only direct,lte,mptcp does without"))
        };
        mp_kernel::tun::check().map_err(unable)?;
    }
    let lacks = mp_kernel::check::mptcp().err();
    let all_mptcp = ways.iter().all(|way| way.carrier == Carrier::Mptcp);
    if let (Some(lack), true) = (&lacks, all_mptcp) {
        let line = format!("this machine lacks {lack}");
        return Err(Failure::Unable(line));
    }
    let keep = |way: &Way| match &lacks {
        Some(lack) if way.carrier == Carrier::Mptcp => {
            say(&format!("left out: mptcp, this machine lacks {lack}"));
            false
        }
        _ => true,
    };
    Ok(ways.into_iter().filter(keep).collect())
}

fn create(folder: &PathBuf) -> Outcome<PathBuf> {
    let no = |e| usage(format!("--out {}: {e}", folder.display()));
    std::fs::create_dir_all(folder).map_err(no)?;
    Ok(folder.clone())
}

fn run(scenario: &Scenario, ways: Vec<Way>, seed: u64) -> Outcome<Vec<Tried>> {
    let seconds = scenario.duration.as_secs_f64();
    say(&format!(
        "{} of {seconds} s in real time",
        counted(ways.len(), "trial")
    ));
    let mut progress = Progress::new(ways.len(), seconds);
    let mut tried = Vec::new();
    for Way { name, carrier } in ways {
        progress.begin(&name);
        let elapsed = &mut |elapsed| progress.elapsed(elapsed);
        let experience = trial(scenario, &carrier, seed, elapsed, &STOP).map_err(of_testbed)?;
        let megabytes = experience.download.bytes as f64 / 1e6;
        progress.end(&format!("{name}: {megabytes:.1} MB"));
        for note in &experience.notes {
            progress.say(&format!("multipilot: {name}: {note}"));
        }
        if !experience.download.intact {
            return Err(Failure::Run(format!(
                "{name}: the download arrived damaged"
            )));
        }
        tried.push((name, experience));
    }
    Ok(tried)
}

fn record(title: &str, scenario: &Scenario, scheduler: &str, seed: u64, tried: &[Tried]) -> Value {
    let trials: Vec<Value> = tried
        .iter()
        .map(|(name, experience)| json!({"way": name, "experience": experience}))
        .collect();
    json!({
        "schema": mp_record::SCHEMA,
        "kind": "try",
        "title": title,
        "description": scenario.description.trim(),
        "multipilot": env!("CARGO_PKG_VERSION"),
        "duration_s": scenario.duration.as_secs_f64(),
        "step_s": STEP_S,
        "scheduler": scheduler,
        "seed": seed,
        "capacity_mbps": capacity(scenario),
        "marks": marks(scenario),
        "trials": trials,
    })
}

/// Of all links together at the beginning, Mbit/s.
fn capacity(scenario: &Scenario) -> f64 {
    let rates = scenario.paths.values().map(|path| match path.down.rate {
        Rate::Constant(rate) => rate as f64 / 1e6,
        Rate::Unlimited | Rate::Trace(_) => 0.0,
    });
    rates.sum::<f64>().max(1.0)
}

/// What happens to the links, and when.
fn marks(scenario: &Scenario) -> Vec<Value> {
    let mut marks = Vec::new();
    let mark = |at: Duration, what: String| json!({"at_s": at.as_secs_f64(), "what": what});
    for event in &scenario.events {
        let path = &event.path;
        match event.change {
            Change::Down => {
                marks.push(mark(event.at, format!("{path} is gone")));
                marks.push(mark(event.at + NOTICED, format!("{path}'s link is down")));
            }
            _ if marks.is_empty() => marks.push(mark(event.at, format!("{path} fades"))),
            _ => {}
        }
    }
    marks
}

fn table(scenario: &Scenario, tried: &[Tried]) -> String {
    let mut columns = vec![Column("", 0, false), Column("", 0, false)];
    columns.extend(tried.iter().map(|(way, _)| Column(way, 7, true)));
    let row = |what: &str, unit: &str, cell: &dyn Fn(&Experience) -> String| {
        let mut cells = vec![what.to_owned(), unit.to_owned()];
        cells.extend(tried.iter().map(|(_, experience)| cell(experience)));
        cells
    };
    let rows = vec![
        row("download", "MB", &|e| {
            format!("{:.1}", e.download.bytes as f64 / 1e6)
        }),
        row("  longest pause", "s", &|e| {
            format!("{:.2}", e.download.pause_s)
        }),
        row("call", "% lost", &|e| {
            format!("{:.1}", e.call.lost() * 100.0)
        }),
        row("  longest pause", "s", &|e| {
            format!("{:.2}", e.call.pause_s())
        }),
        row("  99 % answered in", "ms", &|e| some(e.call.p99_ms(), 0)),
        row("pages", "% failed", &|e| {
            let failed = e.pages.iter().filter(|p| p.took_s.is_none()).count();
            format!("{:.0}", failed as f64 / e.pages.len().max(1) as f64 * 100.0)
        }),
        row("  median", "ms", &|e| {
            let took: Vec<f64> = e.pages.iter().filter_map(|p| p.took_s).collect();
            some(median(&took).map(|s| s * 1e3), 0)
        }),
    ];
    let mut out = sheet::table(&columns, rows);
    let _ = writeln!(
        out,
        "\nOne run of each. A page that takes longer than {} s has failed. The download, Mbit/s by time:",
        PAGE_PATIENCE.as_secs()
    );
    let rates = |e: &Experience| -> Vec<f64> {
        e.download.steps.iter().map(|b| mbps(*b, STEP_S)).collect()
    };
    let most = capacity(scenario);
    for (name, experience) in tried {
        let bars: String = rates(experience).iter().map(|r| bar(r / most)).collect();
        let _ = writeln!(out, "{name:>8} |{bars}|");
    }
    let seconds = scenario.duration.as_secs();
    let width = (seconds as f64 / STEP_S) as usize;
    let _ = writeln!(
        out,
        "{:>9}0{:>width$} s; full height {most:.0}",
        "", seconds
    );
    out
}

fn some(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".into(), |v| format!("{v:.digits$}"))
}

fn bar(share: f64) -> char {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    BARS[((share * 8.0).round() as usize).min(8)]
}
