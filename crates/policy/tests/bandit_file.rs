//! A bandit on disk survives what happens to processes and files.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use mp_policy::bandit::{file, Bandit, Settings};

/// Where the child process below saves, again and again.
const SAVER: &str = "MP_POLICY_TEST_SAVER";

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
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wifi.bandit");
    let bandit = taught(300);
    file::save(&bandit, &path).unwrap();
    assert_eq!(file::load(&path).unwrap(), bandit);
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
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
    let missing = file::load(Path::new("/nonexistent/wifi.bandit")).unwrap_err();
    assert!(missing.to_string().starts_with("/nonexistent/wifi.bandit:"));
}

/// Not a test of its own: the process that the next one kills.
#[test]
fn saver() {
    let Ok(path) = std::env::var(SAVER) else {
        return;
    };
    let mut bandit = taught(500);
    for t in 0.. {
        bandit.update(&[f64::from(t % 5)], 0, t % 2 == 0);
        file::save(&bandit, Path::new(&path)).unwrap();
    }
}

#[test]
fn a_kill_in_mid_save_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.bandit");
    file::save(&taught(500), &path).unwrap();
    for round in 0..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["saver", "--exact"])
            .env(SAVER, &path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(80 + 7 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let (rewards, failures) = file::load(&path).unwrap().counts(0);
        assert!(rewards + failures > 0);
    }
}
