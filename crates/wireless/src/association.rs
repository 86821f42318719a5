//! Which access point each of a device's radios is on, and when a change is complete.

use crate::radio::Links;

/// One device's radios.
#[derive(Debug, Clone)]
pub struct Radios {
    /// Access point, and the time from which on it carries data.
    held: Vec<Option<(usize, f64)>>,
    fixed: bool,
    pub handoffs: usize,
}

impl Radios {
    pub fn new(links: Links, aps: usize) -> Self {
        let (count, fixed) = match links {
            Links::Roaming(n) => (n.min(aps), false),
            Links::All => (aps, true),
        };
        Radios {
            held: vec![None; count],
            fixed,
            handoffs: 0,
        }
    }

    pub fn held(&self) -> &[Option<(usize, f64)>] {
        &self.held
    }

    /// Looks at what each access point offers: SNR in dB with the best beams, `None` where nothing can be decoded.
    ///
    /// A device that is already on the next access point with another of its radios loses nothing when the first one
    /// fades; a device with one radio stands still for `outage` seconds.
    pub fn look(&mut self, now: f64, offers: &[Option<f64>], hysteresis_db: f64, outage: f64) {
        if self.fixed {
            for (ap, slot) in self.held.iter_mut().enumerate() {
                *slot = match (offers[ap], *slot) {
                    (None, _) => None,
                    (Some(_), Some(old)) => Some(old),
                    (Some(_), None) => Some((ap, if now == 0.0 { 0.0 } else { now + outage })),
                };
            }
            return;
        }
        for radio in 0..self.held.len() {
            let free = (0..offers.len())
                .filter(|ap| !self.held.iter().flatten().any(|(other, _)| other == ap));
            let best = free
                .filter_map(|ap| offers[ap].map(|snr| (ap, snr)))
                .max_by(|a, b| a.1.total_cmp(&b.1));
            let current = self.held[radio].and_then(|(ap, _)| offers[ap]);
            match (current, best) {
                (Some(snr), Some((ap, better))) if better > snr + hysteresis_db => {
                    self.change(radio, ap, now, outage)
                }
                (None, Some((ap, _))) => self.change(radio, ap, now, outage),
                (None, None) => self.held[radio] = None,
                _ => {}
            }
        }
    }

    fn change(&mut self, radio: usize, ap: usize, now: f64, outage: f64) {
        // What is there at the start was set up before.
        let ready = if now == 0.0 { 0.0 } else { now + outage };
        self.handoffs += usize::from(now > 0.0);
        self.held[radio] = Some((ap, ready));
    }
}
