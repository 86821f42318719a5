//! curl: HTTP/1.1 on a connection that is kept, and HTTP/2 over TLS with several streams in one.

use std::fs;
use std::process::Command;

use super::{find, installed, noise, on_device, over_both, serve, SERVER};
use crate::ca::Ca;
use crate::hosts::Hosts;

/// HTTP/1.1 in the folder that it is started in.
const SERVE: &str = "
import http.server, socket, sys
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
http.server.SimpleHTTPRequestHandler.protocol_version = 'HTTP/1.1'
Server((sys.argv[1], 8080), http.server.SimpleHTTPRequestHandler).serve_forever()
";
const BODIES: usize = 4;

#[test]
fn curl_loads_by_both_versions_of_http() {
    if !installed(&["curl", "nghttpd", "python3"]) {
        return;
    }
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let folder = hosts.path("web");
    fs::create_dir(&folder).unwrap();
    let bodies: Vec<_> = (0..BODIES as u64).map(|i| noise(i, 2 << 20)).collect();
    for (i, body) in bodies.iter().enumerate() {
        fs::write(folder.join(i.to_string()), body).unwrap();
    }
    let ca = Ca::new("a test's own");
    let signed = ca.sign(&folder, SERVER[0]);
    let trusted = ca.file(folder.join("ca.pem"));
    let mut first = Command::new("python3");
    first.args(["-c", SERVE, SERVER[1]]);
    let _first = serve(&hosts, first.current_dir(&folder), 8080);
    let mut second = Command::new(find("nghttpd").unwrap());
    second
        .args(["-a", SERVER[0], "-d"])
        .arg(&folder)
        .arg("8443");
    let _second = serve(&hosts, second.arg(signed.key).arg(signed.cert), 8443);

    hosts.up(&["--scheduler", "round-robin"]);
    let load = |version: &str, place: &str, more: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["-q", "-g", "-sS", "--fail", version, "--cacert"]);
        curl.arg(&trusted).args(more);
        curl.args(["-w", "%{http_version} %{num_connects}\\n"]);
        for i in 0..BODIES {
            curl.arg(format!("{place}/{i}")).arg("-o");
            curl.arg(folder.join(format!("{i}{version}")));
        }
        let said = over_both(&hosts, || on_device(&hosts, &mut curl));
        for (i, body) in bodies.iter().enumerate() {
            let got = fs::read(folder.join(format!("{i}{version}"))).unwrap();
            assert!(got == *body, "{version} {i}");
        }
        said
    };
    let said = load("--http1.1", &format!("http://[{}]:8080", SERVER[1]), &[]);
    assert_eq!(said, "1.1 1\n1.1 0\n1.1 0\n1.1 0", "one connection");
    let said = load(
        "--http2",
        &format!("https://{}:8443", SERVER[0]),
        &["--parallel"],
    );
    assert!(said.lines().all(|line| line.starts_with("2 ")), "{said}");
}
