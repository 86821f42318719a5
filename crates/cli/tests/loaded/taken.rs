//! A name that another program has registered.

use std::fs;
use std::process::Stdio;

use crate::common::{call, multipilot, Reply};
use crate::foreign::Foreign;
use crate::{turn, unique, SCENARIO};

#[test]
fn a_name_that_another_program_has_is_refused_by_every_command_and_left_to_it() {
    let Some(_turn) = turn() else { return };
    let setting = format!("target_us={}", unique(4));
    let load = ["load", "rsf-db", "--set", &setting];
    let name = call(&load).out.trim().to_owned();
    assert_eq!(call(&["unload", &name]).code, 0);

    let theirs = Foreign::register(&name);
    call(&load).refused(1, &theirs.complaint());
    theirs.is_left_alone();

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    let variant = format!("[[variants]]\ncontroller = 'rsf-db'\nparameters.{setting}\n");
    fs::write(&file, format!("{SCENARIO}{variant}")).unwrap();
    let child = multipilot()
        .args(["compare", file.to_str().unwrap()])
        .args(["--world", "kernel", "--seeds", "1", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let number = child.id().to_string();
    let reply = Reply::from(child.wait_with_output().unwrap());
    let document = reply.json();
    assert_eq!((reply.code, &document["rows"]), (1, &serde_json::json!([])));
    assert_eq!(document["failed"].as_array().unwrap().len(), 1);
    assert!(reply.err.contains(&theirs.complaint()), "{}", reply.err);
    let claims = fs::read_dir("/run/multipilot/testbed")
        .into_iter()
        .flatten();
    let its = |claim: &fs::DirEntry| fs::read_to_string(claim.path()).is_ok_and(|t| t == number);
    assert_eq!(claims.flatten().filter(its).count(), 0, "a testbed is left");
    theirs.is_left_alone();

    drop(theirs);
    let again = call(&load);
    assert_eq!(
        (again.code, again.out.trim()),
        (0, name.as_str()),
        "{}",
        again.err
    );
    assert_eq!(call(&["unload", &name]).code, 0);
}

#[test]
fn a_program_does_not_run_where_its_controller_is_another_ones() {
    let Some(_turn) = turn() else { return };
    let run = ["run", "--controller", "mpcc-code", "--", "sh", "-c"];
    let told = call(&[&run[..], &["echo $MULTIPILOT_CONTROLLER"]].concat());
    let theirs = Foreign::register(told.out.trim());
    let reply = call(&[&run[..], &["echo it ran"]].concat());
    reply.refused(1, &theirs.complaint());
    theirs.is_left_alone();
}
