//! How an access point divides its airtime among the links that it serves.

use crate::allocation::{Problem, Scheme, Served};
use crate::budget::{from_db, noise_dbm, to_db, LIGHT};
use crate::radio::Radio;
use crate::sample::Sample;
use crate::training::{all_devices_us, selected_devices_us, BEACON_INTERVAL_US};

/// Beams that each device adds to an allocation problem: those from which it hears most.
pub const BEAMS_A_DEVICE: usize = 3;

/// One user of an access point: a device's link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct User<'p> {
    pub link: usize,
    /// mW from each beam of the access point.
    pub power: &'p [f64],
    /// The same on average over time; empty unless the scheme uses it.
    pub average: &'p [f64],
    /// One way without the wait for a turn, s.
    pub delay: f64,
}

impl User<'_> {
    /// `wired` s from the server to the access point, and `range` metres from there.
    pub fn at(self, wired: f64, range: f64) -> Self {
        User {
            delay: wired + range / LIGHT,
            ..self
        }
    }
}

/// What came of an access point's airtime.
pub(crate) struct Shares {
    /// By link, without the access point. A link that no round could serve is left out.
    pub samples: Vec<(usize, Sample)>,
    /// In a beacon interval.
    pub training_us: f64,
    /// Mean over the rounds.
    pub watts: f64,
}

/// The rule of all access points.
pub(crate) struct Service<'a> {
    radio: &'a Radio,
    /// mW
    pub noise: f64,
    azimuths: Vec<usize>,
}

impl<'a> Service<'a> {
    pub fn new(radio: &'a Radio) -> Self {
        let sectors = radio.codebook.sectors();
        let elevations = radio.codebook.elevations.len();
        Service {
            noise: from_db(noise_dbm(radio.channels, radio.noise_figure_db)),
            azimuths: (0..radio.codebook.beams())
                .map(|b| (b / sectors) * (sectors / elevations) + (b % sectors) / elevations)
                .collect(),
            radio,
        }
    }

    /// Rounds of equal airtime until each user was served once. The beams of all `associated` links are trained.
    pub fn serve(&self, associated: usize, users: &[User<'_>]) -> Shares {
        let radio = self.radio;
        let training_us = match radio.select {
            Some(most) => selected_devices_us(most.min(associated), radio.codebook.sectors()),
            None => all_devices_us(associated, radio.codebook.sectors()),
        };
        let useful = (1.0 - training_us / BEACON_INTERVAL_US).max(0.0);
        let mut waiting: Vec<usize> = (0..users.len()).collect();
        let mut served: Vec<(usize, Sample)> = Vec::new();
        let (mut rounds, mut watts) = (0usize, 0.0);
        while !waiting.is_empty() {
            let (problem, average, azimuths, beams) = self.problem(users, &waiting);
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
        let share = |(user, sample): (usize, Sample)| {
            let turn = sample.delay * rounds as f64 / 2.0;
            let sample = Sample {
                rate_mbps: sample.rate_mbps * useful / rounds as f64,
                delay: users[user].delay + turn,
                ..sample
            };
            (users[user].link, sample)
        };
        Shares {
            samples: served.into_iter().map(share).collect(),
            training_us,
            watts: watts / rounds.max(1) as f64,
        }
    }

    /// What a user of this round gets; its delay is the airtime of one exchange.
    fn rate(
        &self,
        problem: &Problem,
        done: &Served,
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
        users: &[User<'_>],
        waiting: &[usize],
    ) -> (Problem, Vec<f64>, Vec<usize>, Vec<usize>) {
        let radio = self.radio;
        let mut beams: Vec<usize> = (0..radio.codebook.beams()).collect();
        if radio.allocation != Scheme::Bush {
            let mut wanted = vec![false; beams.len()];
            for &user in waiting {
                let heard = users[user].power;
                let mut order = beams.clone();
                order.sort_by(|a, b| heard[*b].total_cmp(&heard[*a]));
                order
                    .iter()
                    .take(BEAMS_A_DEVICE)
                    .for_each(|b| wanted[*b] = true);
            }
            beams.retain(|b| wanted[*b]);
        }
        let table = |of: fn(&User<'_>, usize) -> f64| -> Vec<f64> {
            (beams.iter())
                .flat_map(|&beam| waiting.iter().map(move |&user| of(&users[user], beam)))
                .collect()
        };
        let problem = Problem {
            chains: radio.chains,
            beams: beams.len(),
            devices: waiting.len(),
            power: table(|user, beam| user.power[beam]),
            noise: self.noise,
            streams: radio.streams,
        };
        let average = match radio.allocation {
            Scheme::Bush => table(|user, beam| user.average[beam]),
            _ => Vec::new(),
        };
        let azimuths = beams.iter().map(|b| self.azimuths[*b]).collect();
        (problem, average, azimuths, beams)
    }
}
