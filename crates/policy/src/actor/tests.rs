use super::*;

const TINY: &str = r#"{"format": "multipilot-actor", "version": 1, "history": 1, "layers": [
    {"activation": "relu", "weights": [[1, -1], [2, 0], [0, 4]], "bias": [0.5, 0]},
    {"activation": "tanh", "weights": [[1], [-0.5]], "bias": [0.25]}]}"#;

fn record() -> Record {
    Record {
        rate: 1_000_000,
        mss: 1000,
        delivered: 90,
        lost: 10,
        elapsed_us: 100_000,
        rtt_us: 50_000,
        min_rtt_us: 40_000,
    }
}

#[test]
fn a_small_network_by_hand() {
    let actor = Actor::parse(TINY).unwrap();
    // relu(0.5 + 0.2 + 0.6) = 1.3; relu(-0.2 + 0.4) = 0.2
    let expected = f32::tanh(1.3 - 0.1 + 0.25);
    assert!((actor.act(&[0.2, 0.3, 0.1]) - expected).abs() < 1e-6);
}

#[test]
fn observations_are_ratios_newest_first() {
    let mut observer = Observer::new(2);
    // 900 kB/s were delivered
    assert_eq!(
        observer.observe(&record()),
        [1.0 / 1.8, 0.84, 0.1, 1.0 / 1.8, 0.84, 0.1]
    );
    let second = Record {
        lost: 0,
        rtt_us: 40_000,
        ..record()
    };
    let seen = observer.observe(&second).to_vec();
    assert_eq!(seen[1..3], [1.0, 0.0]);
    assert_eq!(seen[3..], [1.0 / 1.8, 0.84, 0.1]);
    assert_eq!(observer.latest(), seen);
}

#[test]
fn observations_of_nothing_are_numbers() {
    let mut observer = Observer::new(3);
    for min_rtt_us in [0, u64::MAX] {
        let nothing = Record {
            min_rtt_us,
            ..Record::default()
        };
        assert!(observer
            .observe(&nothing)
            .iter()
            .all(|x| (0.0..=1.0).contains(x)));
    }
}

#[test]
fn a_step_is_at_most_a_tenth() {
    assert_eq!(stepped(1_000_000, 1.0), 1_100_000);
    assert_eq!(stepped(1_000_000, -7.0), 900_000);
    assert_eq!(stepped(1_000_000, 0.0), 1_000_000);
    assert_eq!(stepped(1_000_000, f32::NAN), 1_000_000);
}

#[test]
fn what_is_no_actor_is_refused_in_a_line() {
    let cases = [
        ("{", "no actor file"),
        (&TINY.replace("[0.25]", "[NaN]"), "no actor file"),
        (&TINY.replace("[0.25]", "[1e39]"), "out of range"),
        (
            &TINY.replace("\"version\": 1", "\"version\": 2"),
            "version 2",
        ),
        (
            &TINY.replace("\"history\": 1", "\"history\": 2"),
            "layer 0: 3 rows",
        ),
        (
            &TINY.replace("\"history\": 1", "\"history\": 0"),
            "history 0",
        ),
        (&TINY.replace("[2, 0]", "[2]"), "layer 0"),
        (&TINY.replace("relu", "gelu"), "activation \"gelu\""),
        (&TINY.replace("tanh", "relu"), "end in one tanh"),
    ];
    for (text, part) in cases {
        let error = Actor::parse(text).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        assert!(error.contains("multipilot train") && !error.contains('\n'));
    }
    let error = Actor::open(std::path::Path::new("/no/such.json")).unwrap_err();
    assert!(error.to_string().starts_with("/no/such.json: "));
}

#[test]
fn the_shipped_actor_answers_within_a_tenth() {
    let mut pilot = Pilot::shipped();
    for _ in 0..100 {
        let rate = pilot.answer(&record());
        assert!((900_000..=1_100_000).contains(&rate), "{rate}");
    }
}
