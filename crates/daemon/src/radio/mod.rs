//! Received signal strength of interfaces, from wherever it can be had: Wi-Fi from the driver ([`wifi`]), modems from
//! ModemManager ([`modem`]), and for what has neither a file that another program keeps ([`file`]).

mod file;
mod modem;
mod wifi;

use std::path::PathBuf;
use std::time::Duration;

pub use file::FileRadio;
pub use modem::Modems;
pub use wifi::{Station, Wifi};

/// Where signals come from.
pub trait Radio {
    /// dBm now, `since_start` after the daemon's beginning; `None` where the interface has no known signal.
    fn signal_dbm(&mut self, interface: &str, since_start: Duration) -> Option<i32>;
}

/// All sources of this host.
pub struct Radios {
    wifi: Wifi,
    modems: Modems,
    file: Option<FileRadio>,
}

impl Radios {
    /// Needs a Tokio runtime, on which it listens for modems.
    pub fn new(file: Option<PathBuf>) -> Radios {
        Radios {
            wifi: Wifi::default(),
            modems: Modems::watch(),
            file: file.map(FileRadio::new),
        }
    }

    /// Another file; what is known of the devices stays.
    pub fn set_file(&mut self, file: Option<PathBuf>) {
        self.file = file.map(FileRadio::new);
    }
}

impl Radio for Radios {
    fn signal_dbm(&mut self, interface: &str, since_start: Duration) -> Option<i32> {
        self.wifi
            .signal_dbm(interface, since_start)
            .or_else(|| self.modems.signal_dbm(interface, since_start))
            .or_else(|| self.file.as_mut()?.signal_dbm(interface, since_start))
    }
}
