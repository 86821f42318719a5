//! From places to path traces, step by step: budgets, association, and what the access points make of them.

use crate::allocation::Scheme;
use crate::antenna::direction;
use crate::association::Radios;
use crate::blockage::Spells;
use crate::budget::{from_db, path_loss_db, to_db};
use crate::mobility::{distance, Point};
use crate::radio::Radio;
use crate::sample::Sample;
use crate::service::{Service, User};
use crate::timeline::{ApTotals, Heard, Timeline};
use crate::training::{sector_sweep_us, Sweep, BEACON_INTERVAL_US};

/// Seconds over which a scheme without instant knowledge averages: what sector sweeps tell, one in each beacon interval.
const MEMORY: f64 = BEACON_INTERVAL_US / 1e6;

/// Keeps the draws of delays apart from those of spells.
const DELAYS: u64 = 0x6465_6c61_7973;

impl Radio {
    /// Delay between the server and an access point for one device, s.
    pub(crate) fn wired(&self, device: usize, ap: usize, now: f64) -> f64 {
        let (low, high) = self.delay;
        let pair = stream(self.seed ^ DELAYS, (device * self.aps.len() + ap) as u64);
        let draw = stream(pair, (now / self.delay_interval + 1e-6) as u64);
        low + (high - low) * ((draw >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// Runs for `duration` seconds. The same radio and seed give the same timeline.
    pub fn run(&self, duration: f64) -> Timeline {
        let mut air = Air::new(self);
        let steps = ((duration / self.interval).ceil() as usize).max(1);
        let mut timeline = Timeline {
            interval: self.interval,
            links_per_device: self.links_per_device(),
            places: vec![Vec::with_capacity(steps); self.devices.len()],
            samples: vec![Vec::with_capacity(steps); self.devices.len() * self.links_per_device()],
            aps: vec![ApTotals::default(); self.aps.len()],
            handoffs: Vec::new(),
            heard: Vec::with_capacity(steps),
        };
        for step in 0..steps {
            air.step(step as f64 * self.interval, &mut timeline);
        }
        timeline.handoffs = air.radios.iter().map(|r| r.handoffs).collect();
        for ap in &mut timeline.aps {
            ap.training_ms /= steps as f64;
        }
        timeline
    }
}

struct Air<'a> {
    radio: &'a Radio,
    service: Service<'a>,
    radios: Vec<Radios>,
    spells: Vec<Option<Spells>>,
    /// mW by device, access point and beam, as the last sweeps told them.
    average: Vec<f64>,
    /// Position of an external series by device and access point.
    series: Vec<Option<usize>>,
    outage: f64,
}

impl<'a> Air<'a> {
    fn new(radio: &'a Radio) -> Self {
        let pairs = radio.devices.len() * radio.aps.len();
        let sectors = radio.codebook.sectors();
        let names =
            (radio.devices.iter()).flat_map(|d| radio.aps.iter().map(move |a| (&d.name, &a.name)));
        Air {
            radios: vec![Radios::new(radio.links, radio.aps.len()); radio.devices.len()],
            spells: (0..pairs)
                .map(|pair| {
                    radio
                        .blockage
                        .map(|b| Spells::new(b, stream(radio.seed, pair as u64)))
                })
                .collect(),
            average: vec![0.0; pairs * radio.codebook.beams()],
            series: names
                .map(|(device, ap)| {
                    (radio.channel.iter()).position(|s| s.device == *device && s.ap == *ap)
                })
                .collect(),
            outage: radio.handoff + sector_sweep_us(Sweep::Ssw, sectors, sectors) / 1e6,
            service: Service::new(radio),
            radio,
        }
    }

    fn step(&mut self, now: f64, timeline: &mut Timeline) {
        let places: Vec<Point> = (self.radio.devices.iter())
            .map(|d| d.mobility.at(now))
            .collect();
        let powers = self.powers(now, &places);
        for (device, radios) in self.radios.iter_mut().enumerate() {
            let offers: Vec<Option<f64>> = (0..self.radio.aps.len())
                .map(|ap| {
                    let beams = row(self.radio, &powers, device, ap);
                    let best = beams.iter().fold(0.0f64, |m, p| m.max(*p));
                    let snr = to_db(best / self.service.noise);
                    (self.radio.phy.best(snr, to_db(best))).map(|_| snr)
                })
                .collect();
            radios.look(now, &offers, self.radio.hysteresis_db, self.outage);
        }
        let mut samples =
            vec![Sample::default(); self.radio.devices.len() * timeline.links_per_device];
        for (index, sample) in samples.iter_mut().enumerate() {
            let held = self.radios[index / timeline.links_per_device].held()
                [index % timeline.links_per_device];
            sample.ap = held.map(|(ap, _)| ap);
            let device = index / timeline.links_per_device;
            sample.delay = held.map_or(self.radio.delay.0, |(ap, _)| {
                self.radio.wired(device, ap, now)
            });
            sample.handoff = held.is_some_and(|(_, ready)| ready > now);
            // Access points pass on what waits for a device that changes between them; out of reach all is lost.
            sample.loss = if sample.handoff { 0.0 } else { 1.0 };
        }
        let heard = self.heard(&powers, &samples, timeline.links_per_device);
        for (ap, totals) in timeline.aps.iter_mut().enumerate() {
            let users: Vec<User<'_>> = (heard.users(samples.iter()))
                .filter(|user| samples[user.link].ap == Some(ap))
                .map(|user| {
                    let place = places[user.link / timeline.links_per_device];
                    let range = distance(place, self.radio.aps[ap].at);
                    user.at(samples[user.link].delay, range)
                })
                .collect();
            if users.is_empty() {
                continue;
            }
            let served = self.service.serve(users.len(), &users);
            totals.training_ms += served.training_us / 1000.0;
            totals.joules += served.watts * self.radio.interval;
            for (link, sample) in served.samples {
                totals.bits += sample.rate_mbps * 1e6 * self.radio.interval;
                samples[link] = Sample {
                    ap: Some(ap),
                    ..sample
                };
            }
        }
        timeline.heard.push(heard);
        for (track, place) in timeline.places.iter_mut().zip(places) {
            track.push(place);
        }
        for (track, sample) in timeline.samples.iter_mut().zip(samples) {
            track.push(sample);
        }
    }

    /// What the links hear of their access points.
    fn heard(&self, powers: &[f64], samples: &[Sample], links_per_device: usize) -> Heard {
        let of = |table: &[f64]| {
            let mut rows = Vec::new();
            for (link, sample) in samples.iter().enumerate() {
                if let Some(ap) = sample.served_by() {
                    rows.extend_from_slice(row(self.radio, table, link / links_per_device, ap));
                }
            }
            rows
        };
        Heard {
            beams: self.radio.codebook.beams(),
            power: of(powers),
            average: match self.radio.allocation {
                Scheme::Bush => of(&self.average),
                _ => Vec::new(),
            },
        }
    }

    /// mW at each device from each beam of each access point.
    fn powers(&mut self, now: f64, places: &[Point]) -> Vec<f64> {
        let radio = self.radio;
        let beams = radio.codebook.beams();
        let mut powers = Vec::with_capacity(self.average.len());
        for (device, place) in places.iter().enumerate() {
            for (ap, station) in radio.aps.iter().enumerate() {
                let pair = device * radio.aps.len() + ap;
                let passing = self.spells[pair].as_mut().map_or(0.0, |s| s.at(now));
                let loss = match self.series[pair] {
                    Some(series) => radio.channel[series].at(now),
                    None => {
                        let hidden = (radio.buildings.iter()).any(|b| b.hides(station.at, *place));
                        path_loss_db(distance(station.at, *place), !hidden) + passing
                    }
                };
                let (azimuth, elevation) = direction(station.at, *place);
                let (back, up) = direction(*place, station.at);
                let budget = radio.tx_power_dbm + radio.codebook.best(back, up).1 - loss;
                powers.extend((0..beams).map(|beam| {
                    from_db(budget + radio.codebook.gain_dbi(beam, azimuth, elevation))
                }));
            }
        }
        let share = if now == 0.0 {
            1.0
        } else {
            (radio.interval / MEMORY).min(1.0)
        };
        for (mean, power) in self.average.iter_mut().zip(&powers) {
            *mean += share * (power - *mean);
        }
        powers
    }
}

/// The beams of an access point at a device.
fn row<'p>(radio: &Radio, powers: &'p [f64], device: usize, ap: usize) -> &'p [f64] {
    let beams = radio.codebook.beams();
    let start = (device * radio.aps.len() + ap) * beams;
    &powers[start..start + beams]
}

/// Seed of the `index`-th stream: SplitMix64's finaliser keeps neighbours apart.
fn stream(seed: u64, index: u64) -> u64 {
    let mut z = seed ^ index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
