//! What the radios and links of this host say of each interface now: the part of a bandit's context that no connection has
//! to be waited for.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use mp_daemon::radio::{Radio, Radios, Wifi};
use mp_policy::bandit::context::{Reading, Readings};
use tokio::runtime::Runtime;

/// Names a file of signals, `INTERFACE DBM` a line, for interfaces that neither nl80211 nor ModemManager knows.
const SIGNALS: &str = "MULTIPILOT_SIGNALS";
/// Frames below which a share of lost ones is chance.
const FRAMES: u64 = 50;

/// All sources of this host. Each is asked for what it knows, and what nobody knows is missing.
pub struct Sources {
    radios: Radios,
    /// For what they do not tell of the air: frames.
    wifi: Wifi,
    started: Instant,
    /// Of Wi-Fi interfaces: frames sent and given up when last looked at, and the share since the look before.
    air: HashMap<String, (u64, u64, Option<f64>)>,
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
            wifi: Wifi::default(),
            started: Instant::now(),
            air: HashMap::new(),
            _runtime: runtime,
        })
    }

    pub fn read(&mut self, interface: &str) -> Readings {
        let mut readings = Readings::default();
        let since = self.started.elapsed();
        if let Some(dbm) = self.radios.signal_dbm(interface, since) {
            readings.set(Reading::Signal, f64::from(dbm));
        }
        if let Some(station) = self.wifi.station(interface) {
            let share = self.lost(interface, station.sent, station.failed);
            share.iter().for_each(|s| readings.set(Reading::Loss, *s));
        }
        if let Some(mbps) = speed(interface) {
            readings.set(Reading::LinkSpeed, mbps);
        }
        readings
    }

    /// Share of frames that the driver gave up.
    fn lost(&mut self, interface: &str, sent: u64, failed: u64) -> Option<f64> {
        let last = self.air.entry(interface.to_owned()).or_default();
        let (frames, bad) = (sent.wrapping_sub(last.0), failed.wrapping_sub(last.1));
        if last.0 > sent || last.1 > failed {
            // Another access point, whose counters begin anew.
            *last = (sent, failed, None);
        } else if frames.saturating_add(bad) >= FRAMES {
            *last = (sent, failed, Some(bad as f64 / (frames + bad) as f64));
        }
        last.2
    }
}

/// Rate that a wired link negotiated, Mbit/s. Wi-Fi and modems have none here, and a link that is down says −1.
fn speed(interface: &str) -> Option<f64> {
    rate(&fs::read_to_string(format!("/sys/class/net/{interface}/speed")).ok()?)
}

fn rate(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|mbps: &f64| *mbps > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_lost_frames_is_that_of_the_last_fifty_or_more() {
        let mut sources = Sources::open().expect("a thread");
        assert_eq!(sources.lost("wlan0", 10, 0), None, "too few");
        assert_eq!(sources.lost("wlan0", 90, 10), Some(0.1));
        assert_eq!(sources.lost("wlan0", 100, 10), Some(0.1), "too few to tell");
        assert_eq!(sources.lost("wlan0", 5, 0), None, "another access point");
        assert_eq!(sources.lost("wlan0", 105, 0), Some(0.0));
    }

    #[test]
    fn a_link_that_is_down_has_no_rate() {
        assert_eq!(rate("1000\n"), Some(1000.0));
        assert_eq!(rate("-1\n"), None);
    }

    #[test]
    fn an_interface_that_nobody_knows_has_no_readings() {
        let mut sources = Sources::open().expect("a thread");
        let readings = sources.read("no-such-interface");
        assert!(Reading::ALL.iter().all(|r| readings.get(*r).is_none()));
    }
}
