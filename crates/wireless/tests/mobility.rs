//! Places in closed form, and what stands in the way.

use mp_wireless::blockage::{Blockage, Building, Spells};
use mp_wireless::csv;
use mp_wireless::mobility::{distance, Ellipse, Mobility};
use proptest::prelude::*;

#[test]
fn a_circle_is_flown_by_its_angle() {
    let (radius, speed) = (50.0, 15.0);
    let orbit = Mobility::Ellipse(Ellipse::new([1.0, 2.0, 30.0], [radius; 2], speed, 0.25));
    for t in [0.0f64, 1.0, 7.3, 100.0] {
        let angle = std::f64::consts::FRAC_PI_2 + speed * t / radius;
        let expected = [1.0 + radius * angle.cos(), 2.0 + radius * angle.sin(), 30.0];
        assert!(distance(orbit.at(t), expected) < 1e-3, "{t}");
    }
}

#[test]
fn the_perimeter_is_ramanujans() {
    for [a, b] in [[60.0, 30.0], [10.0, 10.0], [100.0, 20.0]] {
        let h: f64 = ((a - b) / (a + b)) * ((a - b) / (a + b));
        let series =
            std::f64::consts::PI * (a + b) * (1.0 + 3.0 * h / (10.0 + (4.0 - 3.0 * h).sqrt()));
        let found = Ellipse::new([0.0; 3], [a, b], 1.0, 0.0).perimeter();
        assert!(
            (found / series - 1.0).abs() < 1e-4,
            "{a} {b}: {found} {series}"
        );
    }
}

proptest! {
    #[test]
    fn an_ellipse_is_flown_at_constant_speed(
        a in 5.0..200.0f64, b in 5.0..200.0f64, speed in 1.0..30.0f64, t in 0.0..100.0f64, phase in 0.0..1.0f64,
    ) {
        let orbit = Mobility::Ellipse(Ellipse::new([0.0; 3], [a, b], speed, phase));
        let place = orbit.at(t);
        prop_assert!(((place[0] / a).powi(2) + (place[1] / b).powi(2) - 1.0).abs() < 1e-9);
        // A chord is shorter than its arc by its curvature, which is at most max(a, b)/min(a, b)².
        let step = 0.01 * b.min(a) / speed;
        let flown = distance(orbit.at(t + step), place) / step;
        prop_assert!((flown / speed - 1.0).abs() < 0.01, "{flown} for {speed}");
    }
}

#[test]
fn a_line_is_flown_to_and_fro() {
    let line = Mobility::Line {
        from: [0.0; 3],
        to: [100.0, 0.0, 0.0],
        speed: 25.0,
        ahead: 0.0,
    };
    for (t, x) in [
        (0.0, 0.0),
        (2.0, 50.0),
        (4.0, 100.0),
        (5.0, 75.0),
        (8.0, 0.0),
        (9.0, 25.0),
    ] {
        assert!((line.at(t)[0] - x).abs() < 1e-9, "{t}");
    }
}

#[test]
fn waypoints_come_from_a_file() {
    let points =
        csv::waypoints("time_s,x_m,y_m,z_m\n0,0,0,10\n10,100,0,10\n# rest\n20,100,50,20\n");
    let path = Mobility::Waypoints(points.unwrap());
    assert_eq!(path.at(5.0), [50.0, 0.0, 10.0]);
    assert_eq!(path.at(15.0), [100.0, 25.0, 15.0]);
    assert_eq!(path.at(99.0), [100.0, 50.0, 20.0]);
}

#[test]
fn files_are_refused_by_line() {
    let line = |text: &str| csv::waypoints(text).unwrap_err().line;
    assert_eq!(line("0,0,0\n"), 1);
    assert_eq!(line("0,0,0,0\n0,1,1,1\n"), 2);
    assert_eq!(line("0,0,0,0\n1,x,1,1\n"), 2);
    assert_eq!(line("1,0,0,0\n"), 1);
    assert_eq!(line(""), 1);
    let channel = |text: &str| csv::channels(text).unwrap_err().what;
    assert!(channel("0,d,a,-3\n").contains("above 0"));
    assert!(channel("0,d,a,80\n0,d,a,81\n").contains("does not come after"));
    assert!(channel("5,d,a,80\n").contains("does not begin at 0"));
    let series =
        csv::channels("time_s,device,ap,loss_db\n0,d,a,80\n0,d,b,90\n2,d,a,100\n").unwrap();
    assert_eq!(
        (series[0].at(1.9), series[0].at(2.0), series[1].at(50.0)),
        (80.0, 100.0, 90.0)
    );
}

#[test]
fn a_building_hides_what_is_behind_it() {
    let tower = Building {
        at: [50.0, 0.0],
        radius: 5.0,
        height: 20.0,
    };
    assert!(tower.hides([0.0, 0.0, 5.0], [100.0, 0.0, 10.0]));
    assert!(!tower.hides([0.0, 0.0, 5.0], [100.0, 0.0, 60.0]), "over it");
    assert!(!tower.hides([0.0, 0.0, 5.0], [100.0, 20.0, 5.0]), "past it");
    assert!(!tower.hides([0.0, 0.0, 5.0], [40.0, 0.0, 5.0]), "before it");
}

#[test]
fn passers_by_take_their_share_of_time() {
    let model = Blockage {
        every: 4.0,
        lasting: 1.0,
        loss_db: 20.0,
    };
    let blocked = |seed: u64| -> Vec<bool> {
        let mut spells = Spells::new(model, seed);
        (0..200_000)
            .map(|i| spells.at(f64::from(i) * 0.1) > 0.0)
            .collect()
    };
    let share = blocked(1).iter().filter(|b| **b).count() as f64 / 200_000.0;
    assert!((share - 0.2).abs() < 0.02, "{share}");
    assert_eq!(blocked(1), blocked(1));
    assert_ne!(blocked(1), blocked(2));
}
