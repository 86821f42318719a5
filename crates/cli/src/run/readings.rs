//! What the radios and links of this host say of each interface now.

use std::path::PathBuf;
use std::time::Instant;

use mp_host::radio::Radios;
use mp_policy::bandit::context::Readings;
use tokio::runtime::Runtime;

/// Names a file of signals, `INTERFACE DBM` a line, for interfaces that neither nl80211 nor ModemManager knows.
const SIGNALS: &str = "MULTIPILOT_SIGNALS";

/// The daemon's sources, for a program that has no daemon.
pub struct Sources {
    radios: Radios,
    started: Instant,
    /// Modems are heard on it; it outlives them.
    _runtime: Runtime,
}

impl Sources {
    /// `None` where there are no threads to be had.
    pub fn open() -> Option<Sources> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .ok()?;
        let radios = {
            let _inside = runtime.enter();
            Radios::new(std::env::var_os(SIGNALS).map(PathBuf::from))
        };
        Some(Sources {
            radios,
            started: Instant::now(),
            _runtime: runtime,
        })
    }

    pub fn read(&mut self, interface: &str) -> Readings {
        self.radios.readings(interface, self.started.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mp_policy::bandit::context::Reading;

    #[test]
    fn an_interface_that_nobody_knows_has_no_readings() {
        let mut sources = Sources::open().expect("a thread");
        let readings = sources.read("no-such-interface");
        assert!(Reading::ALL.iter().all(|r| readings.get(*r).is_none()));
    }
}
