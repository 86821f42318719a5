//! Which runs a comparison is made of, and in which order: all variants with the first seed, then with the next, so that a
//! drift of the machine touches all of them alike and a comparison cut short has whole rounds.

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexMap;
use mp_record::metrics;
use mp_record::{is_under_test, Row};
use mp_scenario::{Cell, Experiment, Protocol, Scenario, Variant};

/// One run to do.
#[derive(Debug, Clone)]
pub struct Job {
    pub scenario: Arc<Scenario>,
    pub variant: Variant,
    pub seed: u64,
    /// Position on the scenario's grid.
    pub cell: IndexMap<String, String>,
}

impl Job {
    pub fn label(&self) -> String {
        format!("{} seed {}", self.variant.name, self.seed)
    }
}

/// Which controllers run as plain TCP over each path alone, too: the single-path baselines.
#[derive(Debug, Clone, Copy, Default)]
pub enum Baselines {
    #[default]
    None,
    All,
    Only(&'static str),
}

/// The number of [`jobs`], without the single-path baselines.
pub fn count(experiment: &Experiment, seeds: u64) -> u64 {
    let round = experiment.cells.iter().map(|c| c.scenario.variants.len());
    seeds.saturating_mul(round.sum::<usize>() as u64)
}

/// Every run of the experiment, the single-path baselines first in each round.
pub fn jobs(experiment: &Experiment, seeds: u64, which: Baselines) -> Vec<Job> {
    let mut round = Vec::new();
    for cell in &experiment.cells {
        let place: IndexMap<String, String> = cell.values.iter().cloned().collect();
        let mut add = |scenario: Scenario, variants: &[Variant]| {
            let scenario = Arc::new(scenario);
            round.extend(variants.iter().map(|variant| Job {
                scenario: scenario.clone(),
                variant: variant.clone(),
                seed: scenario.seed,
                cell: place.clone(),
            }));
        };
        for (variant, path) in baselines(cell, which) {
            let single = single_path(&cell.scenario, variant, path);
            let variants = single.variants.clone();
            add(single, &variants);
        }
        add(cell.scenario.clone(), &cell.scenario.variants);
    }
    let repeat = |k: u64| {
        round.iter().cloned().map(move |job| Job {
            seed: job.seed.saturating_add(k),
            ..job
        })
    };
    (0..seeds).flat_map(repeat).collect()
}

/// Each congestion control of a cell that is asked for, once, over each path that connections under test use.
fn baselines(cell: &Cell, which: Baselines) -> Vec<(&Variant, &str)> {
    let scenario = &cell.scenario;
    let tested = scenario
        .connections
        .iter()
        .filter(|c| is_under_test(scenario, c));
    let mut paths: Vec<&str> = tested
        .flat_map(|c| c.paths.iter().map(String::as_str))
        .collect();
    let mut seen: Vec<&str> = Vec::new();
    paths.retain(|p| {
        !seen.contains(p) && {
            seen.push(p);
            true
        }
    });
    let first = |v: &&Variant| std::ptr::eq(*v, baseline_of(&scenario.variants, v));
    let asked = |v: &&Variant| match which {
        Baselines::None => false,
        Baselines::All => true,
        Baselines::Only(controller) => v.controller == controller,
    };
    scenario
        .variants
        .iter()
        .filter(first)
        .filter(asked)
        .flat_map(|v| paths.iter().map(move |p| (v, *p)))
        .collect()
}

/// The variant whose single-path runs stand for this one's too: same controller, same settings.
fn baseline_of<'a>(variants: &'a [Variant], of: &'a Variant) -> &'a Variant {
    let same = |v: &&Variant| v.controller == of.controller && v.parameters == of.parameters;
    variants.iter().find(same).unwrap_or(of)
}

fn baseline_name(variant: &str, path: &str) -> String {
    format!("{variant} [tcp on {path}]")
}

/// The scenario with the connections under test turned into plain TCP over one path. Competing flows stay what they are.
fn single_path(scenario: &Scenario, variant: &Variant, path: &str) -> Scenario {
    let mut single = scenario.clone();
    for connection in &mut single.connections {
        if is_under_test(scenario, connection) {
            connection.protocol = Protocol::Tcp;
            connection.paths = vec![path.to_owned()];
        } else if connection.controller.is_none() {
            connection.controller = Some(variant.controller.clone());
        }
    }
    let name = baseline_name(&variant.name, path);
    single.variants = vec![Variant {
        name,
        path_manager: "single".into(),
        path_manager_parameters: Default::default(),
        initial_path: mp_scenario::defaults::INITIAL_PATH.into(),
        ..variant.clone()
    }];
    single
}

/// Fills in the aggregation benefit of every row from the medians of its baselines.
pub fn fill_ben(experiment: &Experiment, rows: &[Row], mut set: impl FnMut(&Row, Option<f64>)) {
    let mut by_variant: HashMap<&str, Vec<&Row>> = HashMap::new();
    rows.iter()
        .for_each(|row| by_variant.entry(&row.variant).or_default().push(row));
    let of = |variant: &str| by_variant.get(variant).map_or(&[][..], Vec::as_slice);
    let median = |variant: &str| {
        metrics::median(
            &of(variant)
                .iter()
                .map(|r| r.goodput_mbps)
                .collect::<Vec<_>>(),
        )
    };
    for cell in &experiment.cells {
        let baselines = baselines(cell, Baselines::All);
        for variant in &cell.scenario.variants {
            let reference = baseline_of(&cell.scenario.variants, variant);
            let own = baselines
                .iter()
                .filter(|(v, _)| std::ptr::eq(*v, reference));
            let single: Option<Vec<f64>> = own
                .map(|(v, path)| median(&baseline_name(&v.name, path)))
                .collect();
            for row in of(&variant.name) {
                set(
                    row,
                    single
                        .as_ref()
                        .and_then(|s| metrics::ben(row.goodput_mbps, s)),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mp_scenario::Overrides;
    use std::path::Path;

    fn experiment(tail: &str) -> Experiment {
        let text =
            format!("seed = 5\n[paths.a]\nrate = '9Mbit'\n[paths.b]\nrate = '3Mbit'\n{tail}");
        let none = |_: &Path| Err(std::io::Error::other("no files"));
        mp_scenario::parse("x.toml", &text, Path::new(""), &none, &Overrides::default())
            .expect("a good scenario")
    }

    fn labels(jobs: &[Job]) -> Vec<String> {
        jobs.iter().map(Job::label).collect()
    }

    #[test]
    fn whole_rounds_one_seed_after_the_other() {
        let e = experiment("[[variants]]\ncontroller = ['lia', 'olia']\n");
        assert_eq!(
            labels(&jobs(&e, 2, Baselines::None)),
            ["lia seed 5", "olia seed 5", "lia seed 6", "olia seed 6"]
        );
    }

    #[test]
    fn a_single_controller_runs_alone_on_each_path() {
        let e = experiment("[[variants]]\ncontroller = ['lia', 'cubic']\n");
        assert_eq!(
            labels(&jobs(&e, 1, Baselines::Only("cubic"))),
            [
                "cubic [tcp on a] seed 5",
                "cubic [tcp on b] seed 5",
                "lia seed 5",
                "cubic seed 5"
            ]
        );
    }

    #[test]
    fn the_benefit_needs_each_controller_alone_on_each_path() {
        let e = experiment(
            "[[connections]]\n[[connections]]\nprotocol = 'tcp'\npaths = ['a']\ncontroller = 'cubic'\n\
             [[variants]]\ncontroller = 'lia'\nscheduler = ['default', 'blest']\n",
        );
        let all = jobs(&e, 1, Baselines::All);
        assert_eq!(
            labels(&all),
            [
                "lia/default [tcp on a] seed 5",
                "lia/default [tcp on b] seed 5",
                "lia/default seed 5",
                "lia/blest seed 5"
            ]
        );
        let alone = &all[1].scenario;
        assert_eq!(
            (
                alone.connections[0].protocol,
                alone.connections[0].paths[0].as_str()
            ),
            (Protocol::Tcp, "b")
        );
        assert!(
            is_under_test(alone, &alone.connections[0])
                && !is_under_test(alone, &alone.connections[1])
        );

        let row = |variant: &str, goodput_mbps| Row {
            variant: variant.into(),
            goodput_mbps,
            ..Row::default()
        };
        let rows = [
            row("lia/default [tcp on a]", 8.0),
            row("lia/default [tcp on b]", 2.0),
            row("lia/default", 9.0),
            row("lia/blest", 4.0),
        ];
        let mut seen = Vec::new();
        fill_ben(&e, &rows, |row, ben| seen.push((row.variant.clone(), ben)));
        assert_eq!(
            seen,
            [
                ("lia/default".to_owned(), Some(0.5)),
                ("lia/blest".to_owned(), Some(-0.5))
            ]
        );
    }
}
