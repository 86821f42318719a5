//! Any text is either refused in one line that names the file, or settings of the daemon.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mp_daemon::Config;

fuzz_target!(|text: &str| {
    match Config::parse("fuzz.toml", text) {
        Ok(config) => {
            config.paths.rule("wlan0");
        }
        Err(error) => {
            let line = error.to_string();
            assert!(line.starts_with("fuzz.toml") && !line.contains('\n'), "{line}");
        }
    }
});
