//! From places to path traces, step by step: budgets, association, allocation, rates.

use crate::allocation::{Problem, Scheme};
use crate::antenna::direction;
use crate::association::Radios;
use crate::blockage::Spells;
use crate::budget::{from_db, noise_dbm, path_loss_db, to_db, LIGHT};
use crate::mobility::{distance, Point};
use crate::radio::Radio;
use crate::timeline::{ApTotals, Sample, Timeline};
use crate::training::{
    all_devices_us, sector_sweep_us, selected_devices_us, Sweep, BEACON_INTERVAL_US,
};

/// Seconds over which a scheme without instant knowledge averages: what sector sweeps tell, one in each beacon interval.
const MEMORY: f64 = BEACON_INTERVAL_US / 1e6;

/// Keeps the draws of delays apart from those of spells.
const DELAYS: u64 = 0x6465_6c61_7973;

impl Radio {
    /// Delay between the server and an access point for one device, s.
    fn wired(&self, device: usize, ap: usize, now: f64) -> f64 {
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

/// One user of an access point: a device's link.
struct User {
    device: usize,
    link: usize,
}

struct Air<'a> {
    radio: &'a Radio,
    radios: Vec<Radios>,
    spells: Vec<Option<Spells>>,
    /// mW by device, access point and beam, as the last sweeps told them.
    average: Vec<f64>,
    azimuths: Vec<usize>,
    /// Position of an external series by device and access point.
    series: Vec<Option<usize>>,
    noise: f64,
    outage: f64,
}

impl<'a> Air<'a> {
    fn new(radio: &'a Radio) -> Self {
        let pairs = radio.devices.len() * radio.aps.len();
        let sectors = radio.codebook.sectors();
        let elevations = radio.codebook.elevations.len();
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
            azimuths: (0..radio.codebook.beams())
                .map(|b| (b / sectors) * (sectors / elevations) + (b % sectors) / elevations)
                .collect(),
            series: names
                .map(|(device, ap)| {
                    (radio.channel.iter()).position(|s| s.device == *device && s.ap == *ap)
                })
                .collect(),
            noise: from_db(noise_dbm(radio.channels, radio.noise_figure_db)),
            outage: radio.handoff + sector_sweep_us(Sweep::Ssw, sectors, sectors) / 1e6,
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
                    let snr = to_db(best / self.noise);
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
        for ap in 0..self.radio.aps.len() {
            let users: Vec<User> = (samples.iter().enumerate())
                .filter(|(_, s)| s.ap == Some(ap) && !s.handoff)
                .map(|(link, _)| User {
                    device: link / timeline.links_per_device,
                    link,
                })
                .collect();
            if !users.is_empty() {
                let range: Vec<f64> = (users.iter())
                    .map(|u| distance(places[u.device], self.radio.aps[ap].at))
                    .collect();
                self.serve(
                    ap,
                    users,
                    &range,
                    &powers,
                    &mut samples,
                    &mut timeline.aps[ap],
                );
            }
        }
        for (track, place) in timeline.places.iter_mut().zip(places) {
            track.push(place);
        }
        for (track, sample) in timeline.samples.iter_mut().zip(samples) {
            track.push(sample);
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

    /// Rounds of equal airtime until each user was served once.
    fn serve(
        &self,
        ap: usize,
        users: Vec<User>,
        range: &[f64],
        powers: &[f64],
        samples: &mut [Sample],
        totals: &mut ApTotals,
    ) {
        let radio = self.radio;
        let training_us = match radio.select {
            Some(most) => selected_devices_us(most.min(users.len()), radio.codebook.sectors()),
            None => all_devices_us(users.len(), radio.codebook.sectors()),
        };
        totals.training_ms += training_us / 1000.0;
        let useful = (1.0 - training_us / BEACON_INTERVAL_US).max(0.0);
        let mut waiting: Vec<usize> = (0..users.len()).collect();
        let mut served: Vec<(usize, Sample)> = Vec::new();
        let (mut rounds, mut watts) = (0usize, 0.0);
        while !waiting.is_empty() {
            let (problem, average, azimuths, beams) = self.problem(ap, &users, &waiting, powers);
            let done = radio.allocation.allocate(&problem, &average, &azimuths);
            let active = done.assignment.iter().flatten().count();
            let mut round: Vec<(usize, Sample)> = Vec::new();
            for (place, &user) in waiting.iter().enumerate() {
                if let Some(sample) = self.rate(&problem, &done, place, &beams) {
                    round.push((user, sample));
                }
            }
            if round.is_empty() {
                break;
            }
            waiting.retain(|user| round.iter().all(|(other, _)| other != user));
            rounds += 1;
            watts += radio
                .power
                .watts(active, radio.tx_power_dbm, radio.allocation);
            served.extend(round);
        }
        for (user, sample) in served {
            let out = &mut samples[users[user].link];
            let turn = sample.delay * rounds as f64 / 2.0;
            *out = Sample {
                ap: out.ap,
                rate_mbps: sample.rate_mbps * useful / rounds as f64,
                delay: out.delay + range[user] / LIGHT + turn,
                ..sample
            };
            totals.bits += out.rate_mbps * 1e6 * radio.interval;
        }
        totals.joules += watts / rounds.max(1) as f64 * radio.interval;
    }

    /// What a user of this round gets; its delay is the airtime of one exchange.
    fn rate(
        &self,
        problem: &Problem,
        done: &crate::allocation::Served,
        user: usize,
        beams: &[usize],
    ) -> Option<Sample> {
        let radio = self.radio;
        let mut sample = Sample {
            snr_db: f64::NEG_INFINITY,
            loss: radio.aggregation.residual_loss(radio.mpdu_error),
            ..Sample::default()
        };
        let mut physical = 0.0;
        for (chain, duty) in done.assignment.iter().enumerate() {
            let Some(duty) = duty.filter(|d| d.device == user) else {
                continue;
            };
            let snr = to_db(done.snr[chain]);
            let received = to_db(problem.power(chain, duty.beam, user));
            let Some(mcs) = radio.phy.best(snr, received) else {
                continue;
            };
            physical += radio.phy.rate_mbps(mcs, radio.channels);
            sample.chains += 1;
            if snr > sample.snr_db {
                (sample.snr_db, sample.mcs, sample.beam) = (snr, mcs.index, beams[duty.beam]);
            }
        }
        if physical == 0.0 {
            return None;
        }
        let exchange = radio.aggregation.exchange(physical, radio.mpdu_error);
        sample.rate_mbps = exchange.rate_mbps();
        sample.delay = exchange.airtime_us / 1e6;
        Some(sample)
    }

    /// The allocation problem of the users that wait. Beams that are nobody's best three are left out, but for a scheme
    /// that reads whole spectra.
    fn problem(
        &self,
        ap: usize,
        users: &[User],
        waiting: &[usize],
        powers: &[f64],
    ) -> (Problem, Vec<f64>, Vec<usize>, Vec<usize>) {
        let radio = self.radio;
        let mut beams: Vec<usize> = (0..radio.codebook.beams()).collect();
        if radio.allocation != Scheme::Bush {
            let mut wanted = vec![false; beams.len()];
            for &user in waiting {
                let heard = row(radio, powers, users[user].device, ap);
                let mut order = beams.clone();
                order.sort_by(|a, b| heard[*b].total_cmp(&heard[*a]));
                order.iter().take(3).for_each(|b| wanted[*b] = true);
            }
            beams.retain(|b| wanted[*b]);
        }
        let table = |of: &[f64]| -> Vec<f64> {
            let heard = |beam: usize| {
                waiting
                    .iter()
                    .map(move |&u| (users[u].device, beam))
                    .collect::<Vec<_>>()
            };
            (beams.iter().flat_map(|&b| heard(b)))
                .map(|(device, beam)| row(radio, of, device, ap)[beam])
                .collect()
        };
        let problem = Problem {
            chains: radio.chains,
            beams: beams.len(),
            devices: waiting.len(),
            power: table(powers),
            noise: self.noise,
            streams: radio.streams,
        };
        let average = table(&self.average);
        let azimuths = beams.iter().map(|b| self.azimuths[*b]).collect();
        (problem, average, azimuths, beams)
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
