//! MPTCP switched off, before and in the middle.

use crate::hosts::{downloads, TwoPaths};
use crate::namespace::{sh, Namespace};
use crate::{code, complaint, kernel, multipilot};

#[test]
fn without_mptcp_it_is_said_how_to_mend_it_and_nothing_is_touched() {
    if !kernel() {
        return;
    }
    let host = Namespace::new("");
    let inside = |words: &str| {
        let script = format!("nsenter --net=/run/netns/{} {words}", host.0);
        sh(&script)
    };
    inside("sh -c 'echo 0 > /proc/sys/net/mptcp/enabled'");
    let limits = inside("ip mptcp limits");
    for arguments in [
        &["--", "false"][..],
        &["--controller", "lia", "--", "true"],
        &["--path-manager", "fullmesh", "--", "true"],
        &["--initial-path", "lin-ucb", "--", "true"],
        &["--initial-path", "lo", "--", "true"],
    ] {
        let run = multipilot(arguments);
        let output = host
            .enter(run.get_program())
            .args(run.get_args())
            .output()
            .unwrap();
        assert_eq!(
            (code(&output), complaint(&output).as_str()),
            (
                Some(3),
                "multipilot: this machine lacks MPTCP switched on (sysctl -w net.mptcp.enabled=1)\n"
            ),
            "{arguments:?}"
        );
    }
    assert_eq!(inside("ip mptcp limits"), limits);
    assert_eq!(inside("ip mptcp endpoint"), "");
}

#[test]
fn mptcp_that_is_switched_off_in_the_middle_costs_a_line_and_no_transfer() {
    if !kernel() {
        return;
    }
    let (paths, state) = (TwoPaths::new("40mbit"), tempfile::tempdir().unwrap());
    let off = "echo 0 > /proc/sys/net/mptcp/enabled";
    let script = format!("{}; {off}; {}", downloads(1), downloads(1));
    let (output, from) = paths.run(&["--", "bash", "-c", &script], state.path());
    assert_eq!(
        (code(&output), from, complaint(&output).as_str()),
        (
            Some(0),
            vec![1, 1],
            "multipilot: MPTCP is refused (Protocol not available): bash goes on in TCP\n\
             multipilot: connections of this host meanwhile: 0 MPTCP, 1 fell back to TCP (1 × the peer has no MPTCP, or a \
             middlebox removes the option); multipilot run --relay takes all links to any server\n"
        )
    );
}
