//! `[awareness]`

use mp_policy::awareness::{self, Backoff, Threshold};
use mp_policy::path_manager::{self, PathPolicy};
use mp_policy::registry::World;
use mp_scenario::document::{Field, Section};
use mp_scenario::Error;

use super::{Config, AWARENESS_KEYS, LOSS_KEYS, THRESHOLD_KEYS};

pub(super) fn read(section: &Section<'_>, config: &mut Config) -> Result<(), Error> {
    if let Some(policy) = section.get("policy") {
        (config.paths.policy, config.paths.awareness) = policy.choice(&policies())?;
        config.policy = policy.string()?.to_owned();
        if config.paths.policy == PathPolicy::MsUcbFederated && !config.userspace {
            return Err(policy.error(
                "joins connections that are managed each by itself",
                "path-manager = \"userspace\" beside it, or \"ms-ucb\"",
            ));
        }
    }
    if config.paths.policy != PathPolicy::Awareness {
        let foreign = AWARENESS_KEYS.iter().filter(|k| {
            k.starts_with("backup-time") || k.starts_with("reopening") || **k == "dwell"
        });
        if let Some(field) = foreign.filter_map(|key| section.get(key)).next() {
            return Err(field.error(
                "this policy has no such times",
                "none of them, or another policy",
            ));
        }
    }
    let aware = &mut config.paths.awareness;
    let duration = |key: &str, value: &mut u64| -> Result<(), Error> {
        if let Some(field) = section.get(key) {
            *value = micros(&field)?;
        }
        Ok(())
    };
    duration("interval", &mut aware.interval_us)?;
    duration("dwell", &mut aware.dwell_us)?;
    let backoff = |key: &str, backoff: &mut Backoff| -> Result<(), Error> {
        duration(key, &mut backoff.first_us)?;
        duration(&format!("{key}-most"), &mut backoff.most_us)?;
        backoff.most_us = backoff.most_us.max(backoff.first_us);
        Ok(())
    };
    backoff("backup-time", &mut aware.backup_time)?;
    backoff("reopening", &mut aware.reopening)?;
    if let Some(field) = section.get("loss") {
        let table = Section::open(&field, LOSS_KEYS)?;
        let Some(harm) = &mut aware.harm else {
            return Err(field.error(
                format!("the policy {} does not judge loss", config.policy),
                "policy = \"loss-aware\" or \"both\"",
            ));
        };
        if let Some(window) = table.get("window") {
            harm.packets = window.integer(100, 1_000_000)?;
        }
        if let Some(threshold) = table.get("threshold") {
            harm.loss = threshold.probability()?;
        }
    }
    if let Some(field) = section.get("signal") {
        if aware.signal.is_none() {
            return Err(field.error(
                format!("the policy {} does not judge signals", config.policy),
                "policy = \"signal-aware\" or \"both\"",
            ));
        }
        let dbm = |f: &Field<'_>| -> Result<i32, Error> {
            const EXPECTED: &str = "dBm from -120 to 0";
            let value = f.number(EXPECTED)?;
            match (-120.0..=0.0).contains(&value) {
                true => Ok(value.round() as i32),
                false => Err(f.error(format!("{value} is impossible"), EXPECTED)),
            }
        };
        aware.signal = Some(thresholds(&field, dbm, |backup, restore| {
            backup <= restore
        })?);
    }
    Ok(())
}

/// The path managers of hosts by the registry, and two more choices of what path awareness judges.
fn policies() -> Vec<(&'static str, (PathPolicy, awareness::Config))> {
    let registered = path_manager::all().iter();
    let registered = registered.filter(|entry| entry.runs_in(World::Daemon));
    let both = awareness::Config {
        signal: awareness::Config::signal_aware().signal,
        ..awareness::Config::loss_aware()
    };
    let own = [("both", both), ("rules", awareness::Config::rules())];
    let own = own.map(|(name, config)| (name, (PathPolicy::Awareness, config)));
    registered
        .filter_map(|entry| Some((entry.name, PathPolicy::of(&entry.build())?)))
        .chain(own)
        .collect()
}

fn micros(field: &Field<'_>) -> Result<u64, Error> {
    let value = field.positive_duration()?.as_micros();
    u64::try_from(value).map_err(|_| field.error("is too long", "less than half a million years"))
}

fn thresholds<T: Copy>(
    field: &Field<'_>,
    read: impl Fn(&Field<'_>) -> Result<T, Error>,
    ordered: impl Fn(T, T) -> bool,
) -> Result<Threshold<T>, Error> {
    let table = Section::open(field, THRESHOLD_KEYS)?;
    let backup = read(&table.require("backup", "below it a path is set to backup")?)?;
    let restore = read(&table.require("restore", "from it on a path is restored")?)?;
    if !ordered(backup, restore) {
        return Err(table.error(
            "would restore a path in a state in which it is set to backup",
            "backup to be the worse value",
        ));
    }
    Ok(Threshold { backup, restore })
}
