//! git over its own protocol.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{done, installed, noise, on_device, over_both, serve, SERVER};
use crate::hosts::Hosts;

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

#[test]
fn git_clones_and_pushes() {
    if !installed(&["git"]) {
        return;
    }
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let programs = PathBuf::from(done(Command::new("git").arg("--exec-path")));
    let home = hosts.path("git");
    let (origin, clone) = (home.join("origin"), home.join("clone"));
    fs::create_dir(&home).unwrap();
    let within = |folder: &Path, words: &[&str]| {
        let mut git = git(&home);
        git.arg("-C").arg(folder).args(words);
        git
    };
    done(git(&home).args(["init", "--bare"]).arg(&origin));
    // Some megabytes.
    let commit = |folder: &Path, seed| {
        fs::write(folder.join("noise"), noise(seed, 4 << 20)).unwrap();
        done(&mut within(folder, &["add", "noise"]));
        done(&mut within(folder, &["commit", "-qm", "noise"]));
        done(&mut within(folder, &["rev-parse", "HEAD"]))
    };
    let first = home.join("first");
    done(git(&home).arg("clone").arg(&origin).arg(&first));
    let head = commit(&first, 1);
    done(&mut within(&first, &["push", "origin", "HEAD"]));

    let mut daemon = Command::new(programs.join("git-daemon"));
    daemon
        .env("HOME", &home)
        .args(["--reuseaddr", "--export-all", "--enable=receive-pack"])
        .arg(format!("--listen={}", SERVER[0]))
        .arg(format!("--base-path={}", home.display()));
    let _served = serve(&hosts, &mut daemon, 9418);
    hosts.up(&["--scheduler", "round-robin"]);
    over_both(&hosts, || {
        let url = format!("git://{}/origin", SERVER[0]);
        on_device(&hosts, git(&home).arg("clone").arg(url).arg(&clone));
        assert_eq!(done(&mut within(&clone, &["rev-parse", "HEAD"])), head);
        let second = commit(&clone, 2);
        on_device(&hosts, &mut within(&clone, &["push", "origin", "HEAD"]));
        assert_eq!(done(&mut within(&origin, &["rev-parse", "HEAD"])), second);
    });
    done(&mut within(&origin, &["fsck", "--full"]));
}
