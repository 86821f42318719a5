//! Clients that people use, over the relay.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::hosts::{until, Hosts};

const SERVER: &str = "198.51.100.2";

/// Without the user's own settings.
fn git(home: &Path) -> Command {
    let mut git = Command::new("git");
    git.env("HOME", home).env("GIT_CONFIG_NOSYSTEM", "1").args([
        "-c",
        "user.name=test",
        "-c",
        "user.email=test@example.com",
    ]);
    git
}

#[track_caller]
fn done(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn git_clones_and_pushes() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let home = hosts.path("git");
    let (origin, clone) = (home.join("origin"), home.join("clone"));
    fs::create_dir(&home).unwrap();
    let programs = git(&home).arg("--exec-path").output();
    let programs = programs.map_or(String::new(), |said| {
        String::from_utf8(said.stdout).unwrap()
    });
    let daemon = Path::new(programs.trim()).join("git-daemon");
    if !daemon.exists() {
        return mp_testing::skip("there is no git with its daemon");
    }
    // Some megabytes that do not compress.
    let noise = |seed: u64| -> Vec<u8> {
        let next = |x: &u64| Some(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let words = std::iter::successors(Some(seed), next).take(1 << 19);
        words.flat_map(|x| (x ^ x >> 29).to_le_bytes()).collect()
    };
    done(git(&home).args(["init", "--bare"]).arg(&origin));
    let commit = |folder: &Path, seed| {
        fs::write(folder.join("noise"), noise(seed)).unwrap();
        done(git(&home).current_dir(folder).args(["add", "noise"]));
        done(
            git(&home)
                .current_dir(folder)
                .args(["commit", "-qm", "noise"]),
        );
        done(git(&home).current_dir(folder).args(["rev-parse", "HEAD"]))
    };
    let first = home.join("first");
    done(git(&home).arg("clone").arg(&origin).arg(&first));
    let head = commit(&first, 1);
    done(
        git(&home)
            .current_dir(&first)
            .args(["push", "origin", "HEAD"]),
    );

    let mut daemon = Command::new(daemon);
    daemon
        .env("HOME", &home)
        .args(["--reuseaddr", "--export-all", "--enable=receive-pack"])
        .arg(format!("--listen={SERVER}"))
        .arg(format!("--base-path={}", home.display()))
        .stdin(Stdio::null());
    let _served = Served(hosts.in_relay(|| daemon.spawn().unwrap()));
    until("git listens", || {
        hosts.in_relay(|| std::net::TcpStream::connect((SERVER, 9418)).is_ok())
    });
    hosts.up(&["--scheduler", "round-robin"]);
    let before = [1, 2].map(|link| hosts.carried(link));
    hosts.in_device(|| {
        done(
            git(&home)
                .arg("clone")
                .arg(format!("git://{SERVER}/origin"))
                .arg(&clone),
        );
        assert_eq!(
            done(git(&home).current_dir(&clone).args(["rev-parse", "HEAD"])),
            head
        );
        let second = commit(&clone, 2);
        done(
            git(&home)
                .current_dir(&clone)
                .args(["push", "origin", "HEAD"]),
        );
        assert_eq!(
            done(
                git(&home)
                    .arg("-C")
                    .arg(&origin)
                    .args(["rev-parse", "HEAD"])
            ),
            second
        );
    });
    done(git(&home).arg("-C").arg(&origin).args(["fsck", "--full"]));
    for (link, before) in [1, 2].into_iter().zip(before) {
        assert!(hosts.carried(link) - before > 1_000_000, "link {link}");
    }
}
