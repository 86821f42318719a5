//! Received signal strength of interfaces, from wherever it can be had: Wi-Fi from the driver ([`Wifi`]), modems from
//! ModemManager ([`Modems`]), and for what has neither a file that another program keeps ([`FileRadio`]). With what else the
//! link itself tells (the rate of a wire, the cell's quality) and what a lookup over it takes ([`Lookups`]) that is the part of
//! a bandit's context that no connection has to be waited for.

mod air;
mod file;
mod lookup;
mod modem;
mod wifi;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use mp_policy::bandit::context::{Reading, Readings};
use mp_policy::estimate::FrameLoss;

pub use file::{FileRadio, Signal, SignalTrace};
pub use lookup::Lookups;
pub use modem::{Cell, Modems};
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
    frames: HashMap<String, FrameLoss>,
    speeds: air::Speeds,
    lookups: Lookups,
}

impl Radios {
    /// Needs a Tokio runtime, on which it listens for modems and asks resolvers.
    pub fn new(file: Option<PathBuf>) -> Radios {
        Radios {
            wifi: Wifi::default(),
            modems: Modems::watch(),
            file: file.map(FileRadio::new),
            frames: HashMap::new(),
            speeds: air::Speeds::default(),
            lookups: Lookups::on(tokio::runtime::Handle::current()),
        }
    }

    /// All that is known of an interface now; what nobody knows is missing. Who asks keeps [`Lookups`] going.
    pub fn readings(&mut self, interface: &str, since_start: Duration) -> Readings {
        let mut readings = Readings::default();
        if let Some(dbm) = self.signal_dbm(interface, since_start) {
            readings.set(Reading::Signal, f64::from(dbm));
        }
        // As the driver was asked for the signal: one question a second serves both.
        if let Some(station) = self.wifi.station(interface) {
            let share = self.frames.entry(interface.to_owned()).or_default();
            let share = share.poll(station.sent, station.failed);
            share.iter().for_each(|s| readings.set(Reading::Loss, *s));
        }
        let cell = self.modems.cell(interface).unwrap_or_default();
        let lookup = self.lookups.of(interface);
        let rest = [
            (Reading::LinkSpeed, self.speeds.of(interface)),
            (Reading::Rsrq, cell.rsrq_db),
            (Reading::Snr, cell.snr_db),
            (Reading::Dns, lookup.map(|l| l.dns_ms)),
            (Reading::UdpDelta, lookup.and_then(|l| l.delta_ms)),
        ];
        for (reading, value) in rest {
            value.iter().for_each(|v| readings.set(reading, *v));
        }
        readings
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
