//! An abstraction of BUSH from its published description: chains are assigned by a blind power–azimuth spectrum, powers in
//! means over time and over elevations, without knowledge of the instant. Each user gets the azimuth where it hears most;
//! users whose azimuths collide wait; where all are faint, two chains go to one user and the faintest is left out.

use super::{Assignment, Duty, Problem};

/// Below this mean SNR (5 dB) two chains serve one user.
const FAINT: f64 = 3.16;

/// `average` as [`Problem::power`], in means over time; `azimuth_of` groups beams by azimuth.
pub fn bush(problem: &Problem, average: &[f64], azimuth_of: &[usize]) -> Assignment {
    let azimuths = azimuth_of.iter().max().map_or(0, |a| a + 1);
    let members = |azimuth: usize| (0..problem.beams).filter(move |b| azimuth_of[*b] == azimuth);
    // Spectrum of each user: mean power by azimuth.
    let spectrum = |device: usize, azimuth: usize| {
        let count = members(azimuth).count().max(1) as f64;
        members(azimuth)
            .map(|b| average[b * problem.devices + device])
            .sum::<f64>()
            / count
    };
    let peak = |device: usize| {
        (0..azimuths)
            .map(|a| (a, spectrum(device, a)))
            .max_by(|x, y| x.1.total_cmp(&y.1))
    };
    let mut users: Vec<(usize, usize, f64)> = (0..problem.devices)
        .filter_map(|i| peak(i).map(|(azimuth, power)| (i, azimuth, power)))
        .collect();
    users.sort_by(|a, b| b.2.total_cmp(&a.2));
    let mut chosen: Assignment = Vec::new();
    let mut taken: Vec<usize> = Vec::new();
    for (device, azimuth, power) in users {
        // Within an azimuth the elevation is that of the strongest mean: a spectrum over azimuths cannot tell more.
        let Some(beam) = members(azimuth).max_by(|a, b| {
            average[a * problem.devices + device].total_cmp(&average[b * problem.devices + device])
        }) else {
            continue;
        };
        if taken.contains(&azimuth) {
            continue;
        }
        let faint = power / problem.noise < FAINT && problem.streams >= 2;
        for _ in 0..if faint { 2 } else { 1 } {
            if chosen.len() < problem.chains {
                chosen.push(Some(Duty { beam, device }));
            }
        }
        taken.push(azimuth);
    }
    chosen.resize(problem.chains, None);
    chosen
}
