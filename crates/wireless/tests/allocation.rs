//! Allocations keep their constraints, greedy stays near the optimum, and each baseline does what it is known for.

use mp_wireless::allocation::{bush, exhaustive, greedy, hekaton, mu_mimo, Duty, Problem, SCHEMES};
use proptest::collection::vec;
use proptest::prelude::*;

fn problem(
    chains: usize,
    beams: usize,
    devices: usize,
    streams: usize,
) -> impl Strategy<Value = Problem> {
    // Powers over noise from −20 to 40 dB.
    vec(-2.0..4.0f64, chains * beams * devices).prop_map(move |exponents| Problem {
        chains,
        beams,
        devices,
        power: exponents.into_iter().map(|e| 10f64.powf(e)).collect(),
        noise: 1.0,
        streams,
    })
}

fn any_problem() -> impl Strategy<Value = Problem> {
    (1..5usize, 1..6usize, 1..6usize, 1..4usize).prop_flat_map(|(r, b, i, s)| problem(r, b, i, s))
}

proptest! {
    #[test]
    fn every_scheme_keeps_the_constraints(p in any_problem()) {
        let azimuths: Vec<usize> = (0..p.beams).map(|b| b / 2).collect();
        for (name, scheme, _) in SCHEMES {
            if name == "exhaustive" && (p.beams * p.devices + 1).pow(p.chains as u32) > 20_000 {
                continue;
            }
            // One chain's powers: chains alike, as in a run.
            let average = &p.power[..p.beams * p.devices];
            let served = scheme.allocate(&p, average, &azimuths);
            prop_assert_eq!(served.assignment.len(), p.chains, "{}", name);
            for duty in served.assignment.iter().flatten() {
                prop_assert!(duty.beam < p.beams && duty.device < p.devices, "{}", name);
            }
            prop_assert!(p.allows(&served.assignment), "{}: too many streams", name);
            prop_assert!(served.snr.iter().all(|s| s.is_finite() && *s >= 0.0));
        }
    }

    #[test]
    fn greedy_never_beats_the_optimum_and_no_single_move_betters_nothing(p in problem(2, 3, 3, 2)) {
        let (found, best) = (greedy(&p), exhaustive(&p));
        let (found, best) = (p.throughput(&found), p.throughput(&best));
        prop_assert!(found <= best * (1.0 + 1e-12));
        // Its first step is the best pair of all, so it never ends below that.
        let single = (0..p.chains * p.beams * p.devices).map(|n| p.power[n].ln_1p()).fold(0.0, f64::max);
        prop_assert!(found >= single / std::f64::consts::LN_2 * (1.0 - 1e-12));
    }

    #[test]
    fn chains_alike_are_treated_as_if_they_were_written_out(p in problem(1, 4, 3, 3)) {
        let alike = Problem { chains: 3, ..p.clone() };
        let written = Problem { chains: 3, power: p.power.repeat(3), ..p };
        let (a, b) = (alike.throughput(&greedy(&alike)), written.throughput(&greedy(&written)));
        prop_assert!((a - b).abs() < 1e-9);
    }

    #[test]
    fn zero_forcing_leaves_no_interference(p in problem(3, 4, 3, 1)) {
        let forced = hekaton(&p);
        // What it ends with never exceeds what each beam would give alone with all chains' power pooled.
        for (chain, snr) in forced.snr.iter().enumerate() {
            if let Some(d) = forced.assignment[chain] {
                let pooled: f64 = (0..p.chains).map(|r| (0..p.beams).map(|b| p.power(r, b, d.device)).fold(0.0, f64::max)).sum();
                prop_assert!(*snr <= pooled * (1.0 + 1e-6));
            }
        }
    }
}

fn quiet(power: &[&[f64]], chains: usize, streams: usize) -> Problem {
    Problem {
        chains,
        beams: power.len(),
        devices: power[0].len(),
        power: power.concat(),
        noise: 1.0,
        streams,
    }
}

#[test]
fn greedy_puts_two_chains_on_one_device_where_that_carries_more() {
    // Two devices in one direction: any two beams disturb each other; two chains on the nearer do not.
    let p = quiet(&[&[1000.0, 900.0]], 2, 2);
    let on: Vec<usize> = greedy(&p).iter().flatten().map(|d| d.device).collect();
    assert_eq!(on, [0, 0]);
    // With one stream to a device, the second chain had better rest than disturb.
    let one = quiet(&[&[1000.0, 900.0]], 2, 1);
    assert_eq!(greedy(&one).iter().flatten().count(), 1);
}

#[test]
fn zero_forcing_on_separate_beams_is_the_plain_snr() {
    let p = quiet(&[&[100.0, 0.0], &[0.0, 50.0]], 2, 1);
    let forced = hekaton(&p);
    assert!((forced.snr[0] - 100.0).abs() < 1e-6 && (forced.snr[1] - 50.0).abs() < 1e-6);
    // Users that cannot be told apart are not served together.
    let same = quiet(&[&[100.0, 100.0]], 2, 1);
    assert_eq!(hekaton(&same).assignment.iter().flatten().count(), 1);
}

#[test]
fn plain_mu_mimo_suffers_what_zero_forcing_removes() {
    let p = quiet(&[&[100.0, 30.0], &[30.0, 100.0]], 2, 1);
    let plain: Vec<f64> = p.snr(&mu_mimo(&p));
    let forced = hekaton(&p).snr;
    assert!(plain[0] < 3.3 && forced[0] > 20.0, "{plain:?} {forced:?}");
}

#[test]
fn bush_gives_a_faint_user_two_chains_and_separate_azimuths_one_each() {
    let strong = quiet(&[&[100.0, 0.1], &[0.1, 90.0]], 2, 2);
    let duties: Vec<Duty> = bush(&strong, &strong.power, &[0, 1])
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(duties.iter().map(|d| d.device).collect::<Vec<_>>(), [0, 1]);
    let faint = quiet(&[&[2.0, 0.1], &[0.1, 1.5]], 2, 2);
    let duties: Vec<Duty> = bush(&faint, &faint.power, &[0, 1])
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(duties.iter().map(|d| d.device).collect::<Vec<_>>(), [0, 0]);
}
