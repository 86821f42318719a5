//! What a link tells of itself beside its signal: frames that the driver gave up, and the rate of a wire.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

/// Frames below which a share of lost ones is chance.
const FRAMES: u64 = 50;
/// To ask a driver for its rate takes the lock that every change of an interface waits for.
const PAUSE: Duration = Duration::from_secs(1);

/// Of Wi-Fi interfaces: frames sent and given up when last looked at, and the share since the look before.
#[derive(Debug, Default)]
pub struct Frames(HashMap<String, (u64, u64, Option<f64>)>);

impl Frames {
    /// Share of frames that the driver gave up.
    pub fn lost(&mut self, interface: &str, sent: u64, failed: u64) -> Option<f64> {
        let last = self.0.entry(interface.to_owned()).or_default();
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

/// Rates that wired links negotiated.
#[derive(Debug, Default)]
pub struct Speeds(HashMap<String, (Instant, Option<f64>)>);

impl Speeds {
    /// Mbit/s, as of a second ago at most. Wi-Fi and modems have none here, and a link that is down says −1.
    pub fn of(&mut self, interface: &str) -> Option<f64> {
        let now = Instant::now();
        if let Some((at, speed)) = self.0.get(interface) {
            if now < *at + PAUSE {
                return *speed;
            }
        }
        let text = fs::read_to_string(format!("/sys/class/net/{interface}/speed"));
        let speed = text.ok().and_then(|text| rate(&text));
        self.0.insert(interface.to_owned(), (now, speed));
        speed
    }
}

fn rate(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|mbps: &f64| *mbps > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_lost_frames_is_that_of_the_last_fifty_or_more() {
        let mut frames = Frames::default();
        assert_eq!(frames.lost("wlan0", 10, 0), None, "too few");
        assert_eq!(frames.lost("wlan0", 90, 10), Some(0.1));
        assert_eq!(frames.lost("wlan0", 100, 10), Some(0.1), "too few to tell");
        assert_eq!(frames.lost("wlan0", 5, 0), None, "another access point");
        assert_eq!(frames.lost("wlan0", 105, 0), Some(0.0));
    }

    #[test]
    fn a_link_that_is_down_has_no_rate() {
        assert_eq!(rate("1000\n"), Some(1000.0));
        assert_eq!(rate("-1\n"), None);
    }

    #[test]
    fn a_driver_is_asked_once_a_second_at_most() {
        let mut speeds = Speeds::default();
        speeds.of("lo");
        let asked = speeds.0["lo"].0;
        speeds.of("lo");
        assert_eq!(speeds.0["lo"].0, asked);
    }
}
