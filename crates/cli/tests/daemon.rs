//! The daemon on the real kernel, over emulated Wi-Fi and LTE. These tests need root and MPTCP; with CI=true they fail
//! where there is neither.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::AtomicBool;

use mp_scenario::Overrides;
use mp_testing::{Turn, Turns};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_multipilot");

/// What every script begins with: the daemon is not to have its own sockets turned to MPTCP.
const PRELUDE: &str = "cd $(dirname $0)
unset_preload() { env -u LD_PRELOAD \"$@\"; }
mp() { unset_preload $BINARY \"$@\" --socket $PWD/control.sock; }
daemon() { unset_preload $BINARY daemon --config $PWD/daemon.toml --socket $PWD/$1.sock; }
calm() { while mp status --json | grep -q '\"connections\": [1-9]'; do sleep 0.2; done; }
ready() { n=0; until mp status > /dev/null 2>&1 || [ $n = 300 ]; do sleep 0.1; n=$((n + 1)); done; }
says() { n=0; until grep -q \"$2\" $1 || [ $n = 300 ]; do sleep 0.1; n=$((n + 1)); done; }
path() { mp status --json > now; grep -A 20 \"\\\"interface\\\": \\\"$1\\\"\" now | grep -q \"$2\"; }
until_path() { n=0; until path \"$1\" \"$2\" || [ $n = 150 ]; do sleep 0.2; n=$((n + 1)); done; cp now $3; }
ip mptcp endpoint flush
ip mptcp limits set subflow 2 add_addr_accepted 0
";

/// One emulation at a time. `None` where this machine cannot run any.
#[track_caller]
fn turn() -> Option<Turn<'static>> {
    static TURNS: Turns = Turns::new(1);
    TURNS.take(mp_kernel::check::check().err())
}

/// Runs a script on the client's host of a scenario whose one connection it makes; what it leaves lies in the folder.
fn emulate(folder: &Path, config: &str, scenario: &str, script: &str) {
    let at = |name: &str| folder.join(name);
    fs::write(at("daemon.toml"), config).unwrap();
    fs::write(
        at("script.sh"),
        format!("BINARY={BINARY}\n{PRELUDE}{script}"),
    )
    .unwrap();
    let command = format!("sh {}", at("script.sh").display());
    let read = |file: &Path| fs::read(file);
    let text = scenario.replace("COMMAND", &command);
    let experiment = mp_scenario::parse("t.toml", &text, folder, &read, &Overrides::default());
    let scenario = experiment
        .expect("the test's scenario is right")
        .cells
        .remove(0)
        .scenario;
    let (variant, stop) = (&scenario.variants[0], AtomicBool::new(false));
    mp_testbed::run(&scenario, variant, 1, &mut |_| (), &stop).expect("the run succeeds");
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn text(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn path(folder: &Path, name: &str, interface: &str) -> Value {
    let said = text(folder, name);
    let status: Value =
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{name}: {e}: {said}"));
    let paths = status["paths"].as_array().unwrap();
    let found = paths.iter().find(|p| p["interface"] == interface);
    found
        .unwrap_or_else(|| panic!("{interface} is in {status}"))
        .clone()
}

#[test]
fn a_lossy_path_goes_to_backup_and_comes_back() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().unwrap();
    // How soon the path is in backup, and back, depends on how busy this machine is: both are waited for. In between
    // it is tried now and then, but a good part of the polls has to find it in backup.
    let script = "
daemon control 2> log & ready; : > polls; started=$(date +%s)
head -c 90000000 /dev/zero > body
curl -s -T body $MULTIPILOT_URL & upload=$!
until_path wifi 'loses packets' lossy
while [ $(date +%s) -lt $((started + 12)) ]; do
    path wifi '\"priority\": \"backup\"' && echo backup >> polls || echo normal >> polls; sleep 0.2
done
sleep 2; until_path wifi '\"priority\": \"normal\"' clean
kill $upload; calm; mp down; ip mptcp endpoint show > after; ip mptcp limits >> after
";
    let scenario = "duration = \"120s\"
paths.wifi = { rate = \"20Mbit\", delay = \"5ms\", queue = \"100p\" }
paths.lte = { rate = \"20Mbit\", delay = \"37ms\", queue = \"400p\" }
connections = [{ direction = \"upload\", bytes = \"90MB\", command = \"COMMAND\" }]
variants = [{ controller = \"lia\" }]
events = [{ at = \"2s\", path = \"wifi\", loss = 0.1 }, { at = \"13s\", path = \"wifi\", loss = 0 }]
";
    let config = "controller = \"lia\"\nawareness.backup-time = \"3s\"\n";
    emulate(folder.path(), config, scenario, script);
    let log = text(folder.path(), "log");
    let lossy = path(folder.path(), "lossy", "wifi");
    assert_eq!(lossy["priority"], "backup", "{log}");
    assert!(
        lossy["why"].as_str().unwrap().contains("loses packets"),
        "{lossy}"
    );
    assert_eq!(path(folder.path(), "lossy", "lte")["priority"], "normal");
    let polls = text(folder.path(), "polls");
    let count = |state: &str| polls.matches(state).count();
    assert!(3 * count("backup") > count("normal"), "{polls}{log}");
    assert_eq!(
        path(folder.path(), "clean", "wifi")["priority"],
        "normal",
        "{log}"
    );
    assert_eq!(
        text(folder.path(), "after").trim(),
        "add_addr_accepted 0 subflows 2"
    );
}

#[test]
fn a_download_outlives_the_daemon_and_the_next_one_takes_over() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = "
echo wifi -50 > signals
daemon control 2> log & ready
daemon second 2> second; echo $? >> second
curl -s $MULTIPILOT_URL | sha256sum > first-hash & download=$!
sleep 1.5; echo wifi -85 > signals
until_path wifi '\"priority\": \"backup\"' weak
kill -9 $(mp status --json | sed -n 's/.*\"pid\": \\([0-9]*\\).*/\\1/p')
sleep 0.3; ip mptcp endpoint show > killed
daemon control 2> log2 & until_path lte '\"received_bytes\": [0-9]\\{7\\}' restarted
chmod 755 .
unset_preload setpriv --reuid 65534 --regid 65534 --clear-groups $BINARY status --socket $PWD/control.sock 2> stranger; echo $? >> stranger
cp daemon.toml good; echo 'awareness.backup-tim = \"3s\"' > daemon.toml
kill -HUP $(mp status --json | sed -n 's/.*\"pid\": \\([0-9]*\\).*/\\1/p')
says log2 'the old configuration stays'; cp good daemon.toml
echo wifi -50 > signals; until_path wifi '\"priority\": \"normal\"' strong
wait $download
curl -s $MULTIPILOT_URL | sha256sum > second-hash & download=$!
for link in wifi lte; do until_path $link '\"subflows\": 1' joined; done
mp down 2> down; ip mptcp endpoint show > used; wait $download
daemon control & ready
calm; mp down; ip mptcp endpoint show > after; ip mptcp limits >> after
";
    let scenario = "duration = \"120s\"
paths.wifi = { rate = \"20Mbit\", delay = \"5ms\", queue = \"100p\" }
paths.lte = { rate = \"20Mbit\", delay = \"37ms\", queue = \"200p\" }
connections = [{ bytes = \"30MB\", command = \"COMMAND\" }]
variants = [{ controller = \"linux-reno\" }]
";
    let folder = folder.path();
    let signals = folder.join("signals");
    let config = format!(
        "awareness.policy = \"signal-aware\"\nradio.file = \"{}\"\n",
        signals.display()
    );
    emulate(folder, &config, scenario, script);
    let log2 = text(folder, "log2");

    let second = text(folder, "second");
    assert!(
        second.contains("another multipilot daemon (process "),
        "{second}"
    );
    assert!(second.ends_with("\n1\n"), "{second}");

    let weak = path(folder, "weak", "wifi");
    assert_eq!(
        (&weak["priority"], &weak["signal_dbm"]),
        (&"backup".into(), &(-85).into())
    );
    assert!(weak["why"].as_str().unwrap().contains("signal"), "{weak}");

    let killed = text(folder, "killed");
    assert!(killed.contains("subflow backup dev wifi"), "{killed}");
    assert!(killed.contains("subflow dev lte"), "{killed}");

    // What had moved on each path since the restart: the one in backup carries nothing.
    let (wifi, lte) = (
        path(folder, "restarted", "wifi"),
        path(folder, "restarted", "lte"),
    );
    assert_eq!(wifi["priority"], "backup");
    assert_eq!(
        (&wifi["subflows"], &lte["subflows"]),
        (&1.into(), &1.into())
    );
    let received = |path: &Value| path["received_bytes"].as_u64().unwrap();
    assert!(received(&lte) > 500_000, "{lte}");
    assert!(received(&wifi) * 10 < received(&lte), "{wifi} {lte}");

    let stranger = text(folder, "stranger");
    assert!(stranger.contains("only root and the group"), "{stranger}");
    assert!(stranger.ends_with("\n3\n"), "{stranger}");

    assert!(log2.contains("the old configuration stays"), "{log2}");
    assert!(
        log2.contains("daemon.toml:1:11: awareness.backup-tim: unknown key"),
        "{log2}"
    );
    assert_eq!(
        path(folder, "strong", "wifi")["priority"],
        "normal",
        "{log2}"
    );

    let hash = text(folder, "first-hash");
    assert!(hash.len() > 64, "{hash}");
    let again = text(folder, "second-hash");
    assert_eq!(hash, again, "both transfers are whole");

    // Put back in mid-transfer, with the one endpoint left that the transfer cannot do without; later that one too.
    let down = text(folder, "down");
    assert!(down.contains("stays: a connection has no other subflow"));
    let used = text(folder, "used");
    assert_eq!(used.matches(" id ").count(), 1, "{used}");
    let after = text(folder, "after");
    assert_eq!(after.trim(), "add_addr_accepted 0 subflows 2");
}

/// What the daemon is for. Both downloads are of one run, and the daemon has nothing but its defaults.
#[test]
fn after_up_a_download_is_not_slower_than_over_the_better_link_alone() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = "
get() { curl -s -o /dev/null -w '%{speed_download}' \"$@\" $MULTIPILOT_URL; }
(unset LD_PRELOAD; get --interface lte > alone)
mp up --log $PWD/log; get > with
calm; mp down
";
    let scenario = "duration = \"120s\"
paths.wifi = { rate = \"20Mbit\", delay = \"5ms\", queue = \"100p\", loss = 0.05 }
paths.lte = { rate = \"20Mbit\", delay = \"37ms\", queue = \"400p\" }
connections = [{ bytes = \"15MB\", command = \"COMMAND\" }]
variants = [{ controller = \"linux-reno\" }]
";
    emulate(folder.path(), "", scenario, script);
    let speed = |name: &str| text(folder.path(), name).trim().parse::<f64>().unwrap();
    let (alone, with) = (speed("alone"), speed("with"));
    // Which of the two is faster depends on what else this machine does meanwhile.
    assert!(alone > 1e4 && with > 1e4, "{with} after {alone} bytes/s");
}

/// Links that go and come with their routes, as with a DHCP client, and a daemon that is started and ended all the while.
/// At last the Wi-Fi comes back without its routes: whichever subflow works then, the daemon has to leave it one endpoint. It
/// has some round trips' time to see which.
#[test]
fn a_transfer_outlives_links_that_toggle_under_a_daemon_that_comes_and_goes() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = "
for link in wifi lte; do ip route show table all dev $link | grep 10.2.0.1 > $link.routes; done
bounce() { ip link set $1 down; sleep $2; ip link set $1 up; }
toggle() { bounce $1 $2; while read -r route; do ip route replace $route dev $1; done < $1.routes; }
turn() { daemon control 2>> log & ready; sleep 0.3; \"$@\"; sleep $rest; mp down 2>> log; sleep 0.3; }
(curl -sf -o got $MULTIPILOT_URL && wc -c < got > size) & download=$!
rest=0.7; for turn in 'wifi 0.4' 'lte 0.01' 'wifi 0.01' 'lte 0.4'; do turn toggle $turn; done
rest=4; turn bounce wifi 0.01; ip mptcp endpoint show > left
kill -0 $download && echo yes > goes-on
wait $download
";
    let scenario = "duration = \"120s\"
paths.wifi = { rate = \"20Mbit\", delay = \"5ms\", queue = \"100p\" }
paths.lte = { rate = \"20Mbit\", delay = \"37ms\", queue = \"200p\" }
connections = [{ bytes = \"120MB\", command = \"COMMAND\" }]
variants = [{ controller = \"linux-reno\" }]
";
    emulate(folder.path(), "", scenario, script);
    let (log, left) = (text(folder.path(), "log"), text(folder.path(), "left"));
    let goes_on = folder.path().join("goes-on").exists();
    assert!(goes_on, "the transfer ended before the daemon: {log}");
    assert_eq!(left.matches(" id ").count(), 1, "{left}{log}");
    let size = fs::read_to_string(folder.path().join("size")).unwrap_or_default();
    assert_eq!(size.trim(), "120000000", "{log}");
}

#[test]
fn a_configuration_can_be_checked_without_any_privilege() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("daemon.toml");
    let check = |text: &str| {
        fs::write(&file, text).unwrap();
        let mut command = Command::new(BINARY);
        let output = command
            .args(["daemon", "--check"])
            .arg(&file)
            .output()
            .unwrap();
        (output.status.code(), complaint(&output))
    };
    assert_eq!(check("controller = \"lia\"\n").0, Some(0));
    let (code, line) = check("[limits]\nsubflows = 9\n");
    assert_eq!(code, Some(2));
    assert!(
        line.contains("daemon.toml:2:12: limits.subflows: 9 is out of range"),
        "{line}"
    );
    assert_eq!(line.lines().count(), 1, "{line}");
}
