//! Any text is either refused in one line, or a scenario that prints to a text that loads to the same cells.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use mp_scenario::{parse, Error, Experiment, Overrides, Rate, Scenario, TraceKind};

fn load(text: &str) -> Result<Experiment, Error> {
    let read = |file: &Path| match file.file_name().and_then(|f| f.to_str()) {
        Some("way.csv") => Ok(b"0,0,0,5\n10,20,0,5\n".to_vec()),
        Some("loss.csv") => Ok(b"0,d,a,80\n5,d,a,300\n".to_vec()),
        Some(name) if name.ends_with(".csv") => Ok(b"0,1\n2,3,4,0.5\n".to_vec()),
        Some(name) if name.contains('.') => Ok(b"0\n1\n5\n".to_vec()),
        _ => Err(std::io::Error::other("no such trace")),
    };
    parse("fuzz.toml", text, Path::new("/traces"), &read, &Overrides::default())
}

/// Looks of devices at access points that are worth a fuzzer's time.
const FEW: f64 = 2000.0;

/// A radio that is run yields what a path can carry, whatever its numbers.
fn tune(scenario: &Scenario) {
    let Some(air) = &scenario.radio else { return };
    let radio = air.radio();
    let steps = scenario.duration.as_secs_f64() / radio.interval;
    if steps * (radio.devices.len() * radio.aps.len()) as f64 > FEW || radio.chains > 3 {
        return;
    }
    for path in scenario.tuned().paths.values() {
        if let Rate::Trace(trace) = &path.down.rate {
            let TraceKind::Steps(steps) = &trace.kind else { continue };
            assert!(steps[0].at.is_zero() && steps.is_sorted_by(|a, b| a.at < b.at));
            assert!(steps.iter().all(|s| s.loss.is_none_or(|l| (0.0..=1.0).contains(&l))));
        }
    }
}

fuzz_target!(|text: &str| {
    match load(text) {
        Ok(experiment) => {
            let printed = experiment.to_toml();
            let again = load(&printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
            assert_eq!(again.cells, experiment.cells, "{printed}");
            tune(&experiment.cells[0].scenario);
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
});
