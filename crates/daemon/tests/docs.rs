//! The reference and the unit file keep up with the code.

use std::collections::BTreeSet;

use mp_daemon::config::known_keys;
use mp_daemon::status::{why, DaemonStatus};
use mp_daemon::Config;
use mp_policy::awareness::{self, Reason};

const REFERENCE: &str = include_str!("../../../docs/reference/daemon.md");

#[test]
fn every_key_is_in_the_reference() {
    for (section, keys) in known_keys() {
        for key in keys {
            let prefix = match section {
                "top level" | "thresholds" => "",
                "interfaces" => "interfaces.NAME.",
                section => &format!("{section}."),
            };
            let named = [
                format!("`{prefix}{key}"),
                format!("{{ {key}"),
                format!(", {key} }}"),
            ];
            assert!(
                named.iter().any(|n| REFERENCE.contains(n)),
                "docs/reference/daemon.md does not mention {prefix}{key}"
            );
        }
    }
}

#[test]
fn the_example_is_right() {
    let example = REFERENCE
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("an example");
    let config = Config::parse("docs/reference/daemon.md", example).expect("it parses");
    assert_eq!(config.group.as_deref(), Some("multipilot"));
}

#[test]
fn the_reference_has_the_fields_of_status() {
    let status: DaemonStatus = serde_json::from_value(serde_json::json!({
        "schema": 1, "version": "", "pid": 1, "uptime_s": 0.0, "policy": "", "controller": null, "path_manager": "",
        "connections": 0, "polls": 0, "poll_ms": 0.0, "paths": [], "subflows": [],
    }))
    .expect("every other field has a default");
    let status = serde_json::to_value(status).expect("plain data");
    let fields: BTreeSet<&str> = status
        .as_object()
        .into_iter()
        .flatten()
        .map(|(k, _)| k.as_str())
        .collect();
    let mut lines = REFERENCE.lines();
    let answer = lines.find(|line| line.starts_with("`{\"schema\": 1,"));
    // Between quotation marks are names alone.
    let written = answer.expect("the answer").split('"').skip(1).step_by(2);
    assert_eq!(written.collect::<BTreeSet<_>>(), fields);
}

/// What `status` and the log say of a path in backup, rule by rule.
#[test]
fn every_reason_is_in_the_reference() {
    let page = include_str!("../../../docs/reference/path-awareness.md");
    let (_, table) = page
        .split_once("| `why` | rule | restored |\n| --- | --- | --- |\n")
        .expect("the table");
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let written: Vec<&str> = rows
        .filter_map(|row| row.split('|').nth(1))
        .map(str::trim)
        .collect();
    let rules: Vec<Reason> = awareness::rules().collect();
    let others = Reason::ALL.into_iter().filter(|r| !rules.contains(r));
    let said: Vec<&str> = rules.iter().copied().chain(others).map(why).collect();
    assert_eq!(written, said);
}
