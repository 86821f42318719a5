//! `up`, `reload`, `top` and `down`, as a user calls them.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::common::copy;
use crate::hosts::{until, Hosts, BINARY};

/// A command about the daemon of the device.
pub fn call(hosts: &Hosts, words: &[&str]) -> (i32, String) {
    let mut command = hosts.enter(BINARY);
    command.args(words).arg("--socket");
    said(&command.arg(hosts.path("control.sock")).output().unwrap())
}

fn said(output: &Output) -> (i32, String) {
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap_or(-1), line)
}

/// `up` with this configuration, and its log in the test's folder.
pub fn up(hosts: &Hosts, config: &str) -> (i32, String) {
    fs::write(hosts.path("daemon.toml"), config).unwrap();
    let (config, log) = (hosts.path("daemon.toml"), hosts.path("log"));
    let words = ["up", "--config", config.to_str().unwrap(), "--log"];
    call(hosts, &[&words[..], &[log.to_str().unwrap()]].concat())
}

pub fn kill(hosts: &Hosts) {
    let pid = hosts.status()["pid"].as_u64().unwrap();
    hosts.device(&format!("kill -KILL {pid}"));
    until("it has let go of its lock", || {
        call(hosts, &["status"]).0 == 1
    });
}

/// How the device is set up.
fn settings(hosts: &Hosts) -> String {
    hosts.device(
        "ip mptcp limits; ip mptcp endpoint
         cat /proc/sys/net/ipv4/tcp_congestion_control /proc/sys/net/mptcp/pm_type",
    )
}

#[test]
fn down_undoes_what_a_killed_daemon_had_changed() {
    let Some(hosts) = Hosts::new("20mbit") else {
        return;
    };
    let before = settings(&hosts);
    for config in ["", "path-manager = \"userspace\""] {
        let (code, line) = up(&hosts, config);
        assert_eq!(code, 0, "{line}");
        until("it has set endpoints", || {
            hosts.device("ip mptcp endpoint").contains("10.77.2.1")
        });
        kill(&hosts);
        assert_ne!(settings(&hosts), before);
        assert_eq!(
            call(&hosts, &["down"]),
            (
                0,
                "multipilot: the daemon was gone; what it had changed is as it was before\n".into()
            )
        );
        assert_eq!(settings(&hosts), before);
        assert_eq!(hosts.notes(), [] as [String; 0]);
        assert!(!hosts.path("control.sock").exists());
    }
    // Nothing is left to undo.
    let (code, line) = call(&hosts, &["down"]);
    assert_eq!(code, 1);
    assert!(line.contains("no multipilot daemon listens"), "{line}");
    assert!(
        !line.contains("multipilot up"),
        "nothing is to be started: {line}"
    );
}

/// Each would take what the other has set for what was there before.
#[test]
fn a_run_with_a_path_manager_and_a_daemon_are_in_each_others_way() {
    let Some(hosts) = Hosts::new("20mbit") else {
        return;
    };
    let before = settings(&hosts);
    let run = |script: &str| {
        let mut command = hosts.enter(BINARY);
        command.args(["run", "--path-manager", "single", "--", "sh", "-c", script]);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let mut running = run("touch runs; read line").spawn().unwrap();
    until("it runs", || hosts.path("runs").exists());
    let (code, line) = up(&hosts, "");
    assert_eq!(code, 1, "{line}");
    assert!(
        line.contains("a multipilot run --path-manager manages"),
        "{line}"
    );
    // Killed, it has put nothing back; the daemon's way back leads behind it.
    running.kill().unwrap();
    running.wait().unwrap();
    assert_ne!(settings(&hosts), before);
    assert_eq!(up(&hosts, "").0, 0);
    let (code, line) = said(&run("true").output().unwrap());
    assert_eq!(code, 1, "{line}");
    assert!(line.contains("a multipilot daemon manages"), "{line}");
    assert_eq!(call(&hosts, &["down"]).0, 0);
    assert_eq!(settings(&hosts), before);
    assert_eq!(run("true").status().unwrap().code(), Some(0));
    assert_eq!(settings(&hosts), before);
}

#[test]
fn a_controller_that_is_gone_keeps_nothing_from_going_back() {
    let Some(hosts) = Hosts::new("20mbit") else {
        return;
    };
    let before = hosts.device("ip mptcp limits; ip mptcp endpoint");
    assert_eq!(up(&hosts, "controller = \"pilot\"\n").0, 0);
    until("it has set endpoints", || {
        hosts.device("ip mptcp endpoint").contains("10.77.2.1")
    });
    kill(&hosts);
    let notes = hosts
        .notes()
        .into_iter()
        .find(|name| name.ends_with(".json"));
    let notes = Path::new("/run/multipilot").join(notes.unwrap());
    let changed = fs::read_to_string(&notes).unwrap();
    let mut changed: serde_json::Value = serde_json::from_str(&changed).unwrap();
    changed["controller"] = "gone".into();
    fs::write(&notes, changed.to_string()).unwrap();
    assert_eq!(call(&hosts, &["down"]).0, 0);
    assert_eq!(hosts.device("ip mptcp limits; ip mptcp endpoint"), before);
    let now = hosts.device("cat /proc/sys/net/ipv4/tcp_congestion_control");
    assert_eq!(now.trim(), "reno");
    assert_eq!(hosts.notes(), [] as [String; 0]);
}

#[test]
fn the_log_outlives_daemons_and_stays_bounded() {
    let Some(hosts) = Hosts::new("20mbit") else {
        return;
    };
    let starts = || hosts.read("log").matches("INFO at work ").count();
    assert_eq!(up(&hosts, "").0, 0);
    kill(&hosts);
    assert_eq!(up(&hosts, "").0, 0);
    assert_eq!(starts(), 2, "{}", hosts.read("log"));
    assert_eq!(call(&hosts, &["down"]).0, 0);

    let mut log = OpenOptions::new()
        .append(true)
        .open(hosts.path("log"))
        .unwrap();
    log.write_all(&[b'x'; 1 << 20]).unwrap();
    assert_eq!(up(&hosts, "").0, 0);
    assert_eq!(starts(), 1, "{}", hosts.read("log"));
    assert!(hosts.read("log.1").contains("INFO at work "));
    assert_eq!(call(&hosts, &["down"]).0, 0);
    assert!(hosts.read("log").contains("INFO ending "));

    // What an earlier daemon said is not the reason.
    let (code, line) = up(&hosts, "[control]\ngroup = \"no-such-group\"\n");
    assert_eq!((code, line.lines().count()), (2, 1), "{line}");
    assert!(line.contains("there is no group no-such-group"), "{line}");
}

#[test]
fn no_value_in_the_log_is_empty() {
    let Some(hosts) = Hosts::new("20mbit") else {
        return;
    };
    assert_eq!(up(&hosts, "").0, 0);
    until("it has set endpoints", || {
        hosts.read("log").contains("used address=10.77.2.1")
    });
    assert_eq!(call(&hosts, &["down"]).0, 0);
    let log = hosts.read("log");
    assert!(!log.contains("=\"\"") && !log.contains("= "), "{log}");
}

#[test]
fn reload_says_what_is_wrong() {
    let Some(hosts) = Hosts::new("20mbit") else {
        return;
    };
    assert_eq!(up(&hosts, "").0, 0);
    hosts.daemon_command("awareness.policy = \"rules\"");
    assert_eq!(call(&hosts, &["reload"]), (0, String::new()));
    assert_eq!(hosts.status()["policy"], "rules");
    hosts.daemon_command("awareness.policy = \"ruels\"");
    let (code, line) = call(&hosts, &["reload"]);
    assert_eq!((code, line.lines().count()), (2, 1), "{line}");
    assert!(line.contains("daemon.toml:1:"), "{line}");
    assert_eq!(hosts.status()["policy"], "rules");
    assert_eq!(call(&hosts, &["down"]).0, 0);
}

#[test]
fn q_ends_top_and_not_the_daemon() {
    let Some(hosts) = Hosts::new("20mbit") else {
        return;
    };
    assert_eq!(up(&hosts, "").0, 0);
    let socket = hosts.path("control.sock");
    let top = format!("{BINARY} top --socket {}", socket.display());
    let mut command = hosts.enter("script");
    command.args(["--quiet", "--flush", "--return", "--command", &top]);
    let mut script = command
        .arg(hosts.path("screen"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let screen = || hosts.read("screen");
    until("it shows a path", || screen().contains("lte"));
    // Elsewhere than on a terminal it is one page, or the document of status.
    let mut command = hosts.enter(BINARY);
    command.args(["top", "--socket"]).arg(&socket);
    let page = command.output().unwrap();
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(page.contains("Mbit/s") && page.contains("\nlte "), "{page}");
    assert!(
        !page.contains('\u{1b}') && !page.contains("last minute"),
        "{page}"
    );
    let document = command.arg("--json").output().unwrap().stdout;
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    assert_eq!(
        document["paths"][0]["interface"],
        hosts.status()["paths"][0]["interface"]
    );
    let mut keys = script.stdin.take().unwrap();
    keys.write_all(b"j").unwrap();
    // Again and again: whatever arrives together is one key.
    until("it has ended", || {
        let _ = keys.write_all(b"q");
        script.try_wait().unwrap().is_some()
    });
    assert_eq!(script.wait().unwrap().code(), Some(0), "{}", screen());
    // The alternate screen is left, and the terminal is as it was.
    assert!(screen().contains("\u{1b}[?1049l"), "{}", screen());
    assert!(screen().contains("q ends this"), "{}", screen());
    assert_eq!(hosts.status()["policy"], "loss-aware");
    assert_eq!(call(&hosts, &["down"]).0, 0);
}

#[test]
fn an_ordinary_user_hears_what_to_do() {
    let Some(hosts) = Hosts::new("20mbit") else {
        return;
    };
    // Where everybody may execute it.
    let binary = hosts.path("multipilot");
    copy(BINARY.as_ref(), &binary);
    hosts.device("chmod 755 .");
    let as_nobody = |words: &[&str]| {
        let mut command = hosts.enter("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        said(&command.arg(&binary).args(words).output().unwrap())
    };
    for words in [&["up"][..], &["daemon", "--socket", "/tmp/none.sock"]] {
        let (code, line) = as_nobody(words);
        assert_eq!((code, line.lines().count()), (3, 1), "{line}");
        assert!(line.contains("run it with sudo"), "{line}");
    }
    assert_eq!(hosts.notes(), [] as [String; 0]);
}

#[test]
fn check_refuses_what_up_refuses() {
    let Some(hosts) = Hosts::new("20mbit") else {
        return;
    };
    let check = |config: &str| {
        fs::write(hosts.path("daemon.toml"), config).unwrap();
        let mut command = hosts.enter(BINARY);
        command.args(["daemon", "--check"]);
        said(&command.arg(hosts.path("daemon.toml")).output().unwrap())
    };
    assert_eq!(check(""), (0, String::new()));
    let folder = hosts.path("shared");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("own.json"), "nonsense").unwrap();
    let federated = format!(
        "path-manager = \"userspace\"\nawareness.policy = \"ms-ucb-federated\"\n[federation]\nfolder = {folder:?}\n"
    );
    let taken = hosts.bind("127.0.0.1:9465");
    for (config, what) in [
        ("[control]\ngroup = \"no-such-group\"", "there is no group"),
        (&federated, "remove it to begin anew"),
        (
            "[metrics]\nlisten = \"127.0.0.1:9465\"",
            "Address already in use",
        ),
    ] {
        let (checked, line) = check(config);
        assert!(line.contains(what), "{line}");
        assert_eq!(
            (up(&hosts, config).0, line.lines().count()),
            (checked, 1),
            "{line}"
        );
    }
    drop(taken);
    hosts.device("echo 1 > /proc/sys/net/mptcp/pm_type");
    let (checked, line) = check("");
    assert!(line.contains("net.mptcp.pm_type is 1"), "{line}");
    assert_eq!((checked, up(&hosts, "").0), (1, 1));
    assert_eq!(hosts.notes(), [] as [String; 0]);
}
