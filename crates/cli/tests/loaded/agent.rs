//! A trained actor from a file, in the kernel.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::common::{call, multipilot, Reply};
use crate::pair::Pair;
use crate::{sh, turn};

/// An actor that always answers this action.
fn actor(folder: &Path, bias: &str) -> String {
    let file = folder.join("actor.json");
    let text = format!(
        r#"{{"format":"multipilot-actor","version":1,"history":1,"layers":[{{"activation":"tanh","weights":[[0],[0],[0]],"bias":[{bias}]}}]}}"#
    );
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[test]
fn an_actor_with_a_number_that_is_none_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    for bias in ["NaN", "1e39"] {
        let file = actor(folder.path(), bias);
        let run = [
            "run",
            "--controller",
            "ddpg-mpcc",
            "--actor",
            &file,
            "--",
            "true",
        ];
        for arguments in [&["agent", "--actor", &file][..], &run] {
            call(arguments).refused(2, &format!("{file}: no actor file: "));
        }
    }
    call(&["run", "--controller", "mpcc", "--actor", "x", "--", "true"]).refused(
        2,
        "--actor steers ddpg-mpcc alone: add --controller ddpg-mpcc",
    );
}

/// `multipilot agent` at work; its first line has been said.
fn agent(file: &str) -> Child {
    let mut child = multipilot()
        .args(["agent", "--actor", file])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.contains(" has an agent until Ctrl-C"), "{line}");
    child
}

#[test]
fn an_actor_from_a_file_steers_a_run_and_its_end_costs_nothing() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = actor(folder.path(), "0.5");
    let pair = Pair::new();

    // Ctrl-C: it says what it has done.
    let steering = agent(&file);
    let reply = pair.upload(&["--controller", "ddpg-mpcc"], || ());
    assert_eq!((reply.code, reply.err.as_str()), (0, ""));
    sh(&format!("kill -INT {}", steering.id()));
    let said = Reply::from(steering.wait_with_output().unwrap());
    let answered = said
        .out
        .strip_prefix("answered ")
        .and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    assert!(
        said.code == 0 && answered > Some(0),
        "{} {}",
        said.out,
        said.err
    );
    assert!(
        said.out.ends_with("; 0 answers were none\n"),
        "{}",
        said.out
    );

    // kill -9 in the middle of a transfer.
    let mut steering = agent(&file);
    let reply = pair.upload(&["--controller", "ddpg-mpcc"], || {
        steering.kill().unwrap();
        steering.wait().unwrap();
    });
    assert_eq!(reply.code, 0, "{}", reply.err);
    let document = call(&["list", "loaded", "--json"]).json();
    let left = document["loaded"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["kept"] == true);
    assert_eq!(
        left.filter(|one| one["controller"] == "ddpg-mpcc").count(),
        0
    );
}
