//! ssh and scp (OpenSSH) to a Dropbear.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use super::{done, find, installed, noise, on_device, over_both, serve, SERVER};
use crate::hosts::Hosts;

const BODY: usize = 12 << 20;

/// Without the user's own settings, and with new keys for every megabyte.
fn client(program: &str, home: &Path) -> Command {
    let mut client = Command::new(program);
    let identity = format!("IdentityFile={}", home.join("key").display());
    client.args(["-v", "-F", "none"]);
    for option in [
        &identity,
        "IdentitiesOnly=yes",
        "BatchMode=yes",
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "RekeyLimit=1M",
    ] {
        client.args(["-o", option]);
    }
    client
}

#[test]
fn ssh_and_scp_carry_megabytes_and_change_their_keys_meanwhile() {
    if !installed(&["ssh", "scp", "ssh-keygen", "dropbear", "dropbearkey"]) {
        return;
    }
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let home = hosts.path("ssh");
    let theirs = home.join("root/.ssh");
    fs::create_dir_all(&theirs).unwrap();
    let key = home.join("key");
    let mut keygen = Command::new("ssh-keygen");
    done(
        keygen
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(&key),
    );
    fs::copy(key.with_extension("pub"), theirs.join("authorized_keys")).unwrap();
    let mut keygen = Command::new("dropbearkey");
    done(keygen.args(["-t", "ed25519", "-f"]).arg(home.join("host")));

    // It reads keys in its user's home alone: here another one is there.
    let mut server = Command::new("unshare");
    server
        .args([
            "--mount",
            "sh",
            "-c",
            "mount --bind \"$0\" ~root && exec \"$@\"",
        ])
        .arg(home.join("root"))
        .arg(find("dropbear").unwrap())
        .args(["-F", "-E", "-s", "-p", &format!("{}:22", SERVER[0])])
        .args(["-p", &format!("[{}]:22", SERVER[1])])
        .arg("-P")
        .arg(home.join("process"))
        .arg("-r")
        .arg(home.join("host"));
    let _served = serve(&hosts, &mut server, 22);
    hosts.up(&["--scheduler", "round-robin"]);

    let body = home.join("body");
    let bytes = noise(1, BODY);
    fs::write(&body, &bytes).unwrap();
    let whole = |file: &Path| fs::read(file).unwrap() == bytes;
    over_both(&hosts, || {
        // Up and down at once.
        let mut ssh = client("ssh", &home);
        ssh.arg(format!("root@{}", SERVER[0])).arg("cat");
        ssh.stdin(File::open(&body).unwrap());
        let output = hosts.in_device(|| ssh.output().unwrap());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && output.stdout == bytes, "{said}");
        let exchanges = said.matches("SSH2_MSG_KEXINIT sent").count();
        assert!(exchanges > 5, "{said}");
    });
    let (there, back) = (home.join("there"), home.join("back"));
    let remote = |server: &str| format!("root@{server}:{}", there.display());
    over_both(&hosts, || {
        // By the protocol that needs no server of its own there.
        let mut scp = client("scp", &home);
        on_device(&hosts, scp.arg("-O").arg(&body).arg(remote(SERVER[0])));
        assert!(whole(&there));
        let mut scp = client("scp", &home);
        let from = remote(&format!("[{}]", SERVER[1]));
        on_device(&hosts, scp.arg("-O").arg(from).arg(&back));
        assert!(whole(&back));
    });
}
