//! Whole runs: bound to their seed, with handoffs that cost what they should.

use mp_wireless::allocation::Scheme;
use mp_wireless::blockage::Blockage;
use mp_wireless::csv;
use mp_wireless::mcs::Phy;
use mp_wireless::mobility::{Ellipse, Mobility};
use mp_wireless::{Ap, Device, Links, Radio};

fn ap(name: &str, x: f64, y: f64) -> Ap {
    Ap {
        name: name.into(),
        at: [x, y, 5.0],
    }
}

/// Five access points around an orbit of ten drones.
fn orbit(devices: usize) -> Radio {
    Radio {
        chains: 4,
        streams: 2,
        blockage: Some(Blockage {
            every: 5.0,
            lasting: 0.5,
            loss_db: 20.0,
        }),
        aps: (0..5)
            .map(|k| {
                let angle = std::f64::consts::TAU * f64::from(k) / 5.0;
                ap(&format!("ap{k}"), 40.0 * angle.cos(), 25.0 * angle.sin())
            })
            .collect(),
        devices: (0..devices)
            .map(|d| Device {
                name: format!("drone{d}"),
                mobility: Mobility::Ellipse(Ellipse::new(
                    [0.0, 0.0, 15.0],
                    [35.0, 20.0],
                    15.0,
                    d as f64 / devices as f64,
                )),
            })
            .collect(),
        ..Radio::default()
    }
}

/// One device that flies past two access points.
fn pass_by(links: usize) -> Radio {
    Radio {
        links: Links::Roaming(links),
        handoff: 0.5,
        interval: 0.05,
        aps: vec![ap("a", 0.0, 0.0), ap("b", 60.0, 0.0)],
        devices: vec![Device {
            name: "d".into(),
            mobility: Mobility::Line {
                from: [0.0, 3.0, 5.0],
                to: [60.0, 3.0, 5.0],
                speed: 10.0,
                ahead: 0.0,
            },
        }],
        ..Radio::default()
    }
}

#[test]
fn a_seed_makes_a_timeline() {
    let radio = orbit(4);
    let again = radio.run(20.0);
    assert_eq!(radio.run(20.0), again);
    let other = Radio { seed: 2, ..radio };
    assert_ne!(other.run(20.0).samples, again.samples);
}

#[test]
fn a_metre_from_the_access_point_all_four_channels_run_at_the_top_rate() {
    for (phy, index, least) in [(Phy::EdmgSc, 21, 26_000.0), (Phy::EdmgOfdm, 20, 30_000.0)] {
        let mut radio = pass_by(1);
        radio.phy = phy;
        radio.devices[0].mobility = Mobility::Fixed([1.0, 0.0, 5.0]);
        let timeline = radio.run(1.0);
        let sample = timeline.link(0, 0)[0];
        assert_eq!(sample.mcs, index);
        assert!(
            sample.rate_mbps > least && sample.rate_mbps < 40_000.0,
            "{}",
            sample.rate_mbps
        );
        assert!(sample.delay > 0.006 && sample.delay < 0.008);
    }
}

#[test]
fn one_radio_stands_still_in_a_handoff_and_two_do_not() {
    let dead = |links: usize| {
        let timeline = pass_by(links).run(6.0);
        let of = |step: usize| {
            (0..links)
                .map(|l| timeline.link(0, l)[step].rate_mbps)
                .sum::<f64>()
        };
        (
            (0..120).filter(|s| of(*s) == 0.0).count(),
            timeline.handoffs[0],
        )
    };
    let (steps, handoffs) = dead(1);
    assert_eq!(handoffs, 1);
    assert!(
        (10..=12).contains(&steps),
        "half a second and its training: {steps} steps of 50 ms"
    );
    assert_eq!(dead(2), (0, 0), "on both from the start");
}

#[test]
fn users_of_one_access_point_share_its_airtime() {
    let mut radio = pass_by(1);
    radio.devices[0].mobility = Mobility::Fixed([2.0, 0.0, 5.0]);
    let alone = radio.run(1.0).mean_rate(0, 0);
    let mut more = radio.devices[0].clone();
    more.name = "e".into();
    radio.devices.push(more);
    let timeline = radio.run(1.0);
    let half = timeline.mean_rate(0, 0);
    assert!((half / alone - 0.5).abs() < 0.01, "{half} of {alone}");
    assert!(timeline.link(0, 0)[0].delay > 0.006);
}

#[test]
fn a_timeline_is_what_links_share_that_are_all_in_use() {
    for allocation in [
        Scheme::Greedy,
        Scheme::Hekaton,
        Scheme::Bush,
        Scheme::MuMimo,
    ] {
        for select in [None, Some(2)] {
            let radio = Radio {
                allocation,
                select,
                delay: (0.005, 0.020),
                ..orbit(6)
            };
            let timeline = radio.run(5.0);
            let mut shared = 0;
            for step in 0..timeline.samples[0].len() {
                for ap in 0..radio.aps.len() {
                    for (link, sample) in timeline.shared(&radio, step, ap, |_| true) {
                        assert_eq!(sample, timeline.samples[link][step], "{allocation:?}");
                        shared += 1;
                    }
                }
            }
            let served = (timeline.samples.iter().flatten()).filter(|s| s.served_by().is_some());
            assert_eq!(shared, served.count());
        }
    }
}

#[test]
fn a_link_out_of_use_leaves_its_airtime_to_the_others() {
    let mut radio = pass_by(1);
    radio.devices[0].mobility = Mobility::Fixed([2.0, 0.0, 5.0]);
    for name in ["e", "f"] {
        let mut more = radio.devices[0].clone();
        more.name = name.into();
        radio.devices.push(more);
    }
    let timeline = radio.run(1.0);
    let third = timeline.link(0, 0)[3];
    let turn = |delay: f64| delay - radio.delay.0 - 2.0 / 299_792_458.0;
    for (in_use, factor) in [(1, 3.0), (2, 1.5), (3, 1.0)] {
        let shares = timeline.shared(&radio, 3, 0, |link| link < in_use);
        assert_eq!(
            shares.iter().map(|s| s.0).collect::<Vec<_>>(),
            (0..in_use).collect::<Vec<_>>()
        );
        for (_, share) in shares {
            // All three stay trained.
            let rate = third.rate_mbps * factor;
            assert!(
                (share.rate_mbps / rate - 1.0).abs() < 1e-12,
                "{}",
                share.rate_mbps
            );
            assert!((turn(share.delay) * factor / turn(third.delay) - 1.0).abs() < 1e-6);
            assert_eq!((share.mcs, share.loss), (third.mcs, third.loss));
        }
    }
}

#[test]
fn delays_of_a_range_differ_by_link_and_change_with_their_interval() {
    let mut radio = pass_by(2);
    radio.devices[0].mobility = Mobility::Fixed([30.0, 0.0, 5.0]);
    radio.delay = (0.005, 0.020);
    radio.delay_interval = 0.5;
    let timeline = radio.run(10.0);
    let of = |link: usize| timeline.link(0, link).iter().map(|s| s.delay);
    let changes = |link: usize| {
        let now: Vec<f64> = of(link).collect();
        (1..now.len())
            .filter(|&i| now[i] != now[i - 1])
            .collect::<Vec<_>>()
    };
    for link in 0..2 {
        // The air, its turns and the way add less than a millisecond.
        assert!(of(link).all(|d| (0.005..0.021).contains(&d)));
        assert_eq!(changes(link), (1..20).map(|k| k * 10).collect::<Vec<_>>());
    }
    assert!(of(0).zip(of(1)).all(|(a, b)| a != b));
    assert_ne!(
        Radio { seed: 2, ..radio }.run(10.0).link(0, 0)[0].delay,
        of(0).next().unwrap()
    );
}

#[test]
fn measured_path_loss_takes_the_place_of_the_model() {
    let mut radio = pass_by(1);
    radio.channel = csv::channels("0,d,a,75\n1,d,a,200\n0,d,b,200\n").unwrap();
    let timeline = radio.run(2.0);
    assert!(timeline.link(0, 0)[0].rate_mbps > 20_000.0);
    let last = timeline.link(0, 0).last().unwrap();
    assert_eq!((last.rate_mbps, last.loss, last.ap), (0.0, 1.0, None));
    let trace = timeline.trace(0, 0);
    assert_eq!((trace[0].at, trace.last().unwrap().rate_mbps), (0.0, 0.0));
}

#[test]
fn each_scheme_yields_other_rates_from_the_same_air() {
    let total = |allocation: Scheme, phy: Phy| {
        let radio = Radio {
            allocation,
            phy,
            channels: phy.max_channels(),
            ..orbit(10)
        };
        let timeline = radio.run(10.0);
        assert!(timeline
            .aps
            .iter()
            .all(|ap| ap.joules >= 0.0 && ap.bits >= 0.0));
        timeline.aps.iter().map(|ap| ap.bits).sum::<f64>()
    };
    let greedy = total(Scheme::Greedy, Phy::EdmgSc);
    for scheme in [Scheme::Hekaton, Scheme::Bush, Scheme::MuMimo] {
        let other = total(scheme, Phy::EdmgSc);
        assert!(other > 0.0 && other != greedy, "{scheme:?}");
    }
    let ad = total(Scheme::MuMimo, Phy::Dmg);
    assert!(greedy > ad, "{greedy} {ad}");
}

#[test]
fn bush_keeps_up_with_drones_that_move_on() {
    let dead = |allocation: Scheme| {
        let timeline = Radio {
            allocation,
            channels: 1,
            ..orbit(5)
        }
        .run(10.0);
        let all = || timeline.samples.iter().flatten();
        all().filter(|s| s.rate_mbps == 0.0).count() as f64 / all().count() as f64
    };
    let (greedy, bush) = (dead(Scheme::Greedy), dead(Scheme::Bush));
    assert!(
        bush < greedy + 0.01,
        "{bush:.3} of the time against {greedy:.3}"
    );
}
