//! What a link tells of itself beside its signal: the rate of a wire.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

/// To ask a driver for its rate takes the lock that every change of an interface waits for.
const PAUSE: Duration = Duration::from_secs(1);

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
