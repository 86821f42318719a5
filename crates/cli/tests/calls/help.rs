//! Help, manual, completions and lists.

use std::fs;
use std::process::Stdio;

use serde_json::json;

use crate::common::*;

#[test]
fn help_fits_a_terminal() {
    const COLUMNS: usize = 100;
    let help = |words: &[&str]| {
        let mut command = multipilot();
        // No terminal, so that clap wraps at its default of as many columns.
        let command = command.args(words).arg("--help").stdin(Stdio::null());
        let reply = Reply::from(
            command
                .env("COLUMNS", COLUMNS.to_string())
                .output()
                .unwrap(),
        );
        assert_eq!(reply.code, 0, "{}", reply.err);
        reply.out
    };
    let all = help(&[]);
    let listed = all.lines().skip_while(|l| *l != "Commands:").skip(1);
    let names: Vec<&str> = listed
        .take_while(|l| !l.is_empty())
        .filter_map(|l| l.strip_prefix("  ")?.split_once(' '))
        .map(|(name, _)| name)
        .filter(|name| !["", "help"].contains(name))
        .collect();
    assert!(
        names.contains(&"run") && names.contains(&"completions"),
        "{names:?}"
    );
    let pages = names.iter().map(|name| help(&[name]));
    for page in std::iter::once(all.clone()).chain(pages) {
        let lines: Vec<&str> = page.lines().collect();
        let width = |line: &str| line.chars().count();
        assert!(lines.iter().all(|l| width(l) <= COLUMNS), "{page}");
        for pair in lines.windows(2) {
            let [line, next] = pair else { unreachable!() };
            let flows = |l: &str| !l.is_empty() && !l.starts_with(' ') && !l.ends_with(':');
            let word = next.split(' ').next().unwrap_or_default();
            // A break of the text's own, and the line is wrapped again beside it.
            let early = width(line) + 1 + width(word) <= COLUMNS;
            assert!(
                !(flows(line) && flows(next) && early),
                "{line}\n{next}\nin {page}"
            );
        }
    }
}

#[test]
fn help_and_version_go_to_stdout() {
    for flag in [&["--help"][..], &["--version"], &["help", "help"]] {
        let reply = call(flag);
        assert_eq!((reply.code, reply.err.as_str()), (0, ""));
        assert!(reply.out.contains("multipilot"));
    }
}

#[test]
fn list_shows_every_name() {
    let reply = call(&["list", "--json"]);
    let document = reply.document();
    assert_eq!(
        (reply.code, reply.err.as_str(), &document["schema"]),
        (0, "", &json!(1))
    );
    let source = |world: &str| document["sources"][world].as_str().unwrap().to_owned();
    for world in ["simulator", "kernel"] {
        let digits = source(world);
        assert_eq!(digits.len(), 16, "{digits}");
        assert!(digits.chars().all(|c| c.is_ascii_hexdigit()), "{digits}");
    }
    assert_ne!(source("simulator"), source("kernel"));
    let names = |kind: &str| -> Vec<String> {
        document[kind]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let controllers = names("controllers");
    for name in [
        "linux-reno",
        "cubic",
        "bbr",
        "reno",
        "lia",
        "olia",
        "balia",
        "wvegas",
        "rsf-db",
        "rsf-lb",
    ] {
        assert!(controllers.contains(&name.to_owned()), "{name} is missing");
    }
    assert!(names("schedulers").contains(&"blest".to_owned()));
    assert!(names("path_managers").contains(&"fullmesh".to_owned()));
    assert_eq!(names("initial_paths")[..2], ["first", "lin-ucb"]);
    let rsf = document["controllers"].as_array().unwrap();
    let rsf = rsf.iter().find(|c| c["name"] == "rsf-db").unwrap();
    assert_eq!(
        (&rsf["kind"], &rsf["coupled"], &rsf["parameters"][0]["most"]),
        (&json!("window"), &json!(false), &json!(60_000_000))
    );
    let worlds = |kind: &str, name: &str| {
        let all = document[kind].as_array().unwrap();
        all.iter().find(|e| e["name"] == name).unwrap()["worlds"].clone()
    };
    assert_eq!(worlds("schedulers", "blest"), json!(["sim", "relay"]));
    assert_eq!(
        worlds("path_managers", "ms-ucb-federated"),
        json!(["sim", "daemon"])
    );
    assert_eq!(
        names("allocations"),
        ["greedy", "exhaustive", "hekaton", "bush", "mu-mimo"]
    );
    for name in [
        "wifi-lte",
        "lossy-wifi",
        "shared-bottleneck",
        "simult-flows",
    ] {
        assert!(
            names("scenarios").contains(&name.to_owned()),
            "{name} is missing"
        );
    }
    let text = call(&["list"]).out;
    for kind in [
        "controllers",
        "schedulers",
        "path managers",
        "initial paths",
        "allocations",
        "agents",
        "scenarios",
    ] {
        assert!(
            text.contains(&format!("\n{kind}\n")) || text.starts_with(&format!("{kind}\n")),
            "{kind}"
        );
    }
    assert!(call(&["list", "controllers"]).out.lines().count() >= 10);
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let reply = call(&["completions", shell]);
        assert_eq!(reply.code, 0);
        for word in ["compare", "ld-mpsp", "loss-aware", "thompson", "blest"] {
            assert!(reply.out.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn every_command_has_a_man_page() {
    let folder = tempfile::tempdir().unwrap();
    let reply = call(&["manual", folder.path().to_str().unwrap()]);
    assert_eq!((reply.code, reply.err.as_str()), (0, ""));
    let page = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
    assert!(page("multipilot.1").contains("multipilot\\-compare(1)"));
    assert!(page("multipilot-compare.1").contains("\\-\\-seeds"));
    // The hidden one writes pages, and has none.
    assert!(!folder.path().join("multipilot-manual.1").exists());
    refused(
        &["manual", "/nowhere"],
        "/nowhere: No such file or directory (os error 2)",
    );
}
