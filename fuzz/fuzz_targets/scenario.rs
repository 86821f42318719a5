//! Any text is either refused in one line, or a scenario that prints to a text that loads to the same cells.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use mp_scenario::{parse, Error, Experiment, Overrides};

fn load(text: &str) -> Result<Experiment, Error> {
    let read = |file: &Path| match file.extension() {
        Some(ending) if ending == "csv" => Ok(b"0,1\n2,3,4,0.5\n".to_vec()),
        Some(_) => Ok(b"0\n1\n5\n".to_vec()),
        None => Err(std::io::Error::other("no such trace")),
    };
    parse("fuzz.toml", text, Path::new("/traces"), &read, &Overrides::default())
}

fuzz_target!(|text: &str| {
    // What a radio receives is computed while its scenario is read: minutes, for enough devices.
    if text.contains("radio") {
        return;
    }
    match load(text) {
        Ok(experiment) => {
            let printed = experiment.to_toml();
            let again = load(&printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
            assert_eq!(again.cells, experiment.cells, "{printed}");
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
});
