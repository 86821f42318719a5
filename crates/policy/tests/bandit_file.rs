//! A bandit survives its way through a file, and what may happen to the file is seen.

use mp_policy::bandit::{file, Bandit, Settings};

fn taught(rounds: u32) -> Bandit {
    let mut bandit = Bandit::new(Settings::default(), ["wifi", "lte"], ["x"], 1).unwrap();
    for t in 0..rounds {
        let x = [f64::from(t % 7)];
        let arm = bandit.decide(&x).arm;
        bandit.update(&x, arm, t % 3 == 0);
    }
    bandit
}

#[test]
fn a_saved_bandit_comes_back_as_it_was() {
    let bandit = taught(300);
    let bytes = file::encode(&bandit);
    assert_eq!(file::decode("wifi.bandit", &bytes).unwrap(), bandit);
}

#[test]
fn a_damaged_file_is_said_and_not_believed() {
    let bytes = file::encode(&taught(60));
    for cut in (0..bytes.len()).step_by(97) {
        assert!(file::decode("cut", &bytes[..cut]).is_err());
    }
    let text = String::from_utf8(bytes).unwrap();
    let error = |from: &str, to: &str| {
        assert!(text.contains(from));
        file::decode("x.bandit", text.replacen(from, to, 1).as_bytes())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error("\"version\":1", "\"version\":9"),
        "x.bandit: version 9, this multipilot reads 1; update it, or remove the file to begin anew"
    );
    assert!(error("multipilot bandit", "something else").contains("is no saved bandit"));
    assert!(error("[\"wifi\",\"lte\"]", "[\"wifi\"]").contains("its parts do not fit"));
}
