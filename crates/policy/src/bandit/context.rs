//! What is known of the paths when a connection is about to start, as the features of a context.
//!
//! Every path has the same readings, those that it does not have missing, so that a context of k paths has k times as many
//! features. For a Wi-Fi and a cellular path they hold the thirteen of Alzadjali et al., table I.

use std::fmt;
use std::ops::RangeInclusive;

/// No answer takes longer than ten minutes: TCP gives a connection up by then.
const LONGEST_MS: f64 = 600_000.0;

macro_rules! readings {
    ($($variant:ident, $name:literal, $range:expr, $about:literal;)*) => {
        /// One reading of one path.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reading {
            $(#[doc = $about] $variant,)*
        }

        impl Reading {
            pub const ALL: &'static [Reading] = &[$(Reading::$variant,)*];

            /// Ends in its unit where it has one.
            pub fn name(self) -> &'static str {
                match self {
                    $(Reading::$variant => $name,)*
                }
            }

            pub fn about(self) -> &'static str {
                match self {
                    $(Reading::$variant => $about,)*
                }
            }

            /// Values that a link can have, in its unit: beyond it a driver or a device is wrong.
            pub fn range(self) -> RangeInclusive<f64> {
                match self {
                    $(Reading::$variant => $range,)*
                }
            }
        }
    };
}

readings! {
    Rtt, "rtt_ms", 0.0..=LONGEST_MS, "Round-trip time, ms";
    Loss, "loss", 0.0..=1.0, "Share of packets lost, 0 to 1";
    Dns, "dns_ms", 0.0..=LONGEST_MS, "Time of a DNS lookup, ms";
    UdpDelta, "udp_delta_ms", -LONGEST_MS..=LONGEST_MS, "Variation of one-way delay, ms";
    Signal, "signal_dbm", -200.0..=50.0, "Received signal strength, dBm: RSSI of Wi-Fi, RSRP of LTE";
    LinkSpeed, "link_speed_mbps", 0.0..=1e6, "Rate that the link negotiated, Mbit/s";
    Level, "signal_level", 0.0..=255.0, "Signal strength of a cell in the modem's own scale (ASU)";
    Rsrq, "rsrq_db", -100.0..=100.0, "Reference signal received quality, dB";
    Cqi, "cqi", 0.0..=15.0, "Channel quality indicator, 0 to 15";
    Snr, "snr_db", -100.0..=100.0, "Signal-to-noise ratio of the reference signal (RSSNR), dB";
}

impl Reading {
    /// The reading of a feature's name as [`names`] has it: `wifi.rtt_ms`.
    pub fn of_feature(name: &str) -> Option<Reading> {
        let (_, reading) = name.rsplit_once('.')?;
        Reading::ALL.iter().copied().find(|r| r.name() == reading)
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Readings per path.
pub const READINGS: usize = Reading::ALL.len();

/// The readings of one path; NaN where there is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Readings([f64; READINGS]);

impl Default for Readings {
    fn default() -> Self {
        Readings([f64::NAN; READINGS])
    }
}

impl Readings {
    pub fn get(&self, reading: Reading) -> Option<f64> {
        Some(self.0[reading as usize]).filter(|v| v.is_finite())
    }

    pub fn set(&mut self, reading: Reading, value: f64) {
        self.0[reading as usize] = value;
    }

    pub fn with(mut self, reading: Reading, value: f64) -> Self {
        self.set(reading, value);
        self
    }
}

/// Names of the features of a context over these paths: `wifi.rtt_ms`, `wifi.loss`, …
pub fn names<'a>(paths: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let of = |path: &str| {
        Reading::ALL
            .iter()
            .map(move |r| format!("{path}.{r}"))
            .collect::<Vec<_>>()
    };
    paths.into_iter().flat_map(of).collect()
}

/// The context over these paths, in the order of [`names`].
pub fn flatten(paths: &[Readings]) -> Vec<f64> {
    paths.iter().flat_map(|p| p.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_go_together() {
        let wifi = Readings::default().with(Reading::Rtt, 12.0);
        let cell = Readings::default().with(Reading::Cqi, 9.0);
        let (names, values) = (names(["wifi", "cell"]), flatten(&[wifi, cell]));
        assert_eq!(names.len(), values.len());
        let of = |name: &str| values[names.iter().position(|n| n == name).unwrap()];
        assert_eq!(of("wifi.rtt_ms"), 12.0);
        assert_eq!(of("cell.cqi"), 9.0);
        assert!(of("cell.rtt_ms").is_nan());
        assert_eq!(wifi.get(Reading::Loss), None);
        // A path's name may have a dot of its own.
        assert_eq!(Reading::of_feature("wlan0.7.loss"), Some(Reading::Loss));
        assert_eq!(Reading::of_feature("wifi"), None);
    }
}
