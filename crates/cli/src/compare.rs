//! `multipilot compare`: a scenario's variants side by side, each with several seeds.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use clap::Args;
use mp_record::{Document, Failure as FailedRun, Folder, Row, Run};
use mp_scenario::Experiment;

use crate::outcome::{counted, print, say, usage, Failure, Outcome};
use crate::plan::{self, Job};
use crate::progress::Progress;
use crate::selection::Selection;
use crate::world::World;
use crate::{report, runner, table};

#[derive(Args, Debug)]
pub struct CompareArgs {
    #[command(flatten)]
    pub selection: Selection,
    /// Folder of the record; the same call with the same folder resumes [default: a new one under results/]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Also write the packets of the first variant's first run to FILE, for Wireshark; with --world sim only
    #[arg(long, value_name = "FILE")]
    pub pcapng: Option<PathBuf>,
    /// Print one JSON document and nothing else; without --out no folder is kept
    #[arg(long)]
    pub json: bool,
}

pub fn main(args: &CompareArgs) -> Outcome {
    let experiment = args.selection.load()?;
    let world = World::choose(args.selection.world)?;
    if let Some(file) = &args.pcapng {
        capture(&experiment, world, file)?;
    }
    match compare(&experiment, world, args)? {
        Some(folder) if !args.json => print(&report::hint(&folder)),
        _ => {}
    }
    Ok(())
}

fn capture(experiment: &Experiment, world: World, file: &Path) -> Outcome {
    if world != World::Sim {
        return Err(usage(
            "--pcapng captures simulated runs: add --world sim, or use tcpdump",
        ));
    }
    let name = file.display();
    let scenario = &experiment.cells[0].scenario;
    let out = File::create(file)
        .map_err(|e| usage(format!("{name}: {e}; choose another file for --pcapng")))?;
    mp_simulator::capture(
        scenario,
        &scenario.variants[0],
        scenario.seed,
        BufWriter::new(out),
    )
    .map_err(|e| Failure::Run(format!("{name}: {e}")))?;
    say(&format!(
        "packets of {} with seed {} in {name}",
        scenario.variants[0].name, scenario.seed
    ));
    Ok(())
}

/// The user named a folder that will not do, unless it is only full.
fn of_opening(error: mp_record::Error) -> Failure {
    match &error {
        mp_record::Error::Io { error: why, .. } if is_full(why) => of_writing(error),
        _ => usage(error),
    }
}

/// The folder was good when the comparison began.
fn of_writing(error: mp_record::Error) -> Failure {
    Failure::Run(error.to_string())
}

fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// Runs what is missing of the comparison and shows the whole; the folder it lies in, where it stays.
pub fn compare(
    experiment: &Experiment,
    world: World,
    args: &CompareArgs,
) -> Outcome<Option<PathBuf>> {
    let temporary = match (&args.out, args.json) {
        (None, true) => {
            Some(tempfile::tempdir().map_err(|e| usage(format!("no temporary folder: {e}")))?)
        }
        _ => None,
    };
    let path = match (&args.out, &temporary) {
        (Some(out), _) => out.clone(),
        (None, Some(folder)) => folder.path().to_owned(),
        (None, None) => fresh_folder(&format!(
            "{}-{}",
            experiment.name.replace('/', "-"),
            world.name()
        ))?,
    };
    let document = Document::new(&experiment.name, &experiment.title, world.name());
    let mut folder = Folder::open(&path, document, &experiment.to_toml()).map_err(of_opening)?;
    let ended = run_missing(experiment, world, args, &mut folder);
    let nothing = folder.document().rows.is_empty() && folder.document().failed.is_empty();
    if nothing && args.out.is_none() {
        if let Err(failure) = ended {
            // A new folder, with nothing in it to go on from.
            let _ = std::fs::remove_dir_all(&path);
            let nothing = "interrupted in the first run: nothing is kept";
            return Err(match failure {
                Failure::Interrupted(_) => Failure::Interrupted(nothing.into()),
                failure => failure,
            });
        }
    }
    match args.selection.ben {
        true => fill_ben(experiment, &mut folder)?,
        false => folder.flush().map_err(of_writing)?,
    }
    let keep = temporary.is_none().then_some(path);
    show(experiment, folder.document(), keep.as_deref(), args.json);
    ended
        .map(|()| keep.clone())
        .map_err(|e| explain(e, folder.document(), keep.as_deref()))
}

fn run_missing(
    experiment: &Experiment,
    world: World,
    args: &CompareArgs,
    folder: &mut Folder,
) -> Outcome {
    let all = plan::jobs(experiment, args.selection.seeds, args.selection.baselines());
    let total = all.len();
    let done = folder.done();
    let missing = |job: &Job| !done.contains(&(job.variant.name.clone(), job.seed));
    let jobs: Vec<Job> = all.into_iter().filter(missing).collect();
    if jobs.len() < total {
        say(&format!(
            "resuming: {} of {total} runs are done",
            total - jobs.len()
        ));
    }
    let longest = experiment
        .cells
        .iter()
        .map(|c| c.scenario.duration.as_secs_f64())
        .fold(0.0, f64::max);
    if world.is_real() && !jobs.is_empty() {
        say(&format!(
            "{} in real time, at most {longest} s each",
            counted(jobs.len(), "run")
        ));
    }
    let mut progress = Progress::new(jobs.len(), longest);
    runner::run(world, &jobs, &mut progress, &mut |job, result, progress| {
        keep(folder, job, result, progress)
    })?;
    match folder.document().failed.len() {
        0 => Ok(()),
        failed => Err(Failure::Run(format!("{failed} of {total} runs failed"))),
    }
}

fn keep(folder: &mut Folder, job: &Job, result: Outcome<Run>, progress: &mut Progress) -> Outcome {
    let label = job.label();
    match result {
        Ok(run) => {
            let row = Row {
                cell: job.cell.clone(),
                ..Row::of(&job.scenario, &job.variant, job.seed, &run)
            };
            progress.end(&format!("{label}: {}", brief(&row)));
            folder.append(row, &run).map_err(of_writing)
        }
        Err(Failure::Run(error)) => {
            progress.say(&format!(
                "multipilot: {label}: {}",
                error.replace('\n', " ")
            ));
            progress.end(&format!("{label}: failed"));
            let failure = FailedRun {
                variant: job.variant.name.clone(),
                seed: job.seed,
                error,
            };
            folder.fail(failure).map_err(of_writing)
        }
        // Wrong for this run is wrong for the others too.
        Err(failure) => Err(failure),
    }
}

fn brief(row: &Row) -> String {
    let time = row
        .completion_s
        .map_or(String::new(), |s| format!(", {s:.2} s"));
    format!("{:.2} Mbit/s{time}", row.goodput_mbps)
}

fn fill_ben(experiment: &Experiment, folder: &mut Folder) -> Outcome {
    let mut found = HashMap::new();
    plan::fill_ben(experiment, &folder.document().rows, |row, ben| {
        found.insert((row.variant.clone(), row.seed), ben);
    });
    let of = |row: &Row| {
        found
            .get(&(row.variant.clone(), row.seed))
            .copied()
            .flatten()
    };
    folder.amend(|row| row.ben = of(row)).map_err(of_writing)
}

fn show(experiment: &Experiment, document: &Document, folder: Option<&Path>, json: bool) {
    if json {
        print(&(document.to_json() + "\n"));
        return;
    }
    let labels: Vec<&str> = experiment.cells.iter().map(|c| c.label.as_str()).collect();
    let record = folder.map_or(String::new(), |f| format!("record: {}\n", f.display()));
    print(&(table::render(&document.rows, &labels) + &record));
}

/// An interrupt says what is kept and how to go on.
fn explain(failure: Failure, document: &Document, folder: Option<&Path>) -> Failure {
    match (failure, folder) {
        (Failure::Interrupted(_), Some(folder)) => {
            let (rows, folder) = (document.rows.len(), folder.display());
            Failure::Interrupted(format!(
                "interrupted; {rows} runs are kept, the same call with --out {folder} goes on"
            ))
        }
        (failure, _) => failure,
    }
}

/// `results/NAME-NNN`, the first number that is free.
pub fn fresh_folder(name: &str) -> Outcome<PathBuf> {
    let results = Path::new("results");
    let no = |e: std::io::Error| {
        usage(format!(
            "results: {e}; choose a folder that can be written with --out"
        ))
    };
    std::fs::create_dir_all(results).map_err(no)?;
    for number in 1.. {
        let path = results.join(format!("{name}-{number:03}"));
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(no(e)),
        }
    }
    Err(usage(
        "results: no number is left; choose a folder with --out",
    ))
}
