//! HTTPS between real processes: names, CAs and dates are checked, and certificates are renewed while the server runs.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Mutex;
use std::time::Duration;

use mp_server::client::{Client, Settings};
use mp_server::wire::{Chooser, Context};

use crate::ca::{Ca, Signed};
use crate::common::call;
use crate::device::eventually;
use crate::server::{token, Server};

/// Keeps asking; what the client says of the server arrives in the order in which it was said.
pub fn device(url: &str, token: &str, ca: Option<PathBuf>) -> (Client, Receiver<String>) {
    static SAID: Mutex<Vec<(String, Sender<String>)>> = Mutex::new(Vec::new());
    fn says(line: &str) {
        for (url, to) in SAID.lock().unwrap().iter() {
            if line.contains(url.as_str()) {
                let _ = to.send(line.to_owned());
            }
        }
    }
    let (send, said) = channel();
    // Each test's server has a port of its own.
    SAID.lock().unwrap().push((url.to_owned(), send));
    let settings = Settings {
        // Far longer than this machine, however busy, takes for a handshake: a line about the deadline would be another one.
        deadline: Duration::from_secs(30),
        ca,
        says,
        ..Settings::new(url.parse::<mp_server::client::Origin>().unwrap(), token)
    };
    (Client::start(settings).unwrap(), said)
}

fn chosen_by(client: &Client) -> Chooser {
    client.choose("cafe", &Context::new(), None).chosen_by
}

#[track_caller]
fn served(client: &Client) {
    eventually("the server chooses", || {
        chosen_by(client) == Chooser::Server
    });
}

/// The line that says why; the device decides by itself meanwhile.
#[track_caller]
fn refused(url: &str, token: &str, ca: Option<PathBuf>, why: &str) {
    let (client, said) = device(url, token, ca);
    assert_ne!(chosen_by(&client), Chooser::Server);
    let line = said
        .recv_timeout(Duration::from_secs(60))
        .expect("it says why");
    assert!(line.contains(url) && line.contains(why), "{line}");
    assert!(!line.contains('\n'), "{line}");
    assert_ne!(chosen_by(&client), Chooser::Server);
}

fn options(signed: &Signed) -> [&Path; 4] {
    [
        "--tls-cert".as_ref(),
        &signed.cert,
        "--tls-key".as_ref(),
        &signed.key,
    ]
}

#[test]
fn a_device_asks_over_https_by_the_servers_name() {
    let data = tempfile::tempdir().unwrap();
    let token = token(data.path(), "phone");
    let (ca, other) = (Ca::new("ours"), Ca::new("another"));
    let signed = ca.sign(data.path(), "localhost");
    let trusted = ca.file(data.path().join("ca.pem"));
    let foreign = other.file(data.path().join("other.pem"));
    let server = Server::with(data.path(), &token, &options(&signed));
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let port = server.address.port();
    let url = format!("https://localhost:{port}");

    let (client, said) = device(&url, &token, Some(trusted.clone()));
    served(&client);
    assert!(said.try_recv().is_err());

    // Whoever is somebody else is not asked, and the line names what to look at.
    refused(
        &url,
        &token,
        Some(foreign.clone()),
        &format!("is of no CA in {} (bandit.ca)", foreign.display()),
    );
    refused(
        &url,
        &token,
        None,
        "no CA that this system trusts: a private one's file goes into bandit.ca",
    );
    let by_address = format!("https://127.0.0.1:{port}");
    refused(
        &by_address,
        &token,
        Some(trusted.clone()),
        "not for 127.0.0.1",
    );
    refused(&url, "wrong", Some(trusted), "bandit.token-file");
    // Plain HTTP reaches nothing.
    refused(
        &format!("http://localhost:{port}"),
        &token,
        None,
        "own model chooses",
    );
}

#[test]
fn a_certificate_that_has_expired_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let token = token(data.path(), "phone");
    let ca = Ca::new("ours");
    let trusted = ca.file(data.path().join("ca.pem"));
    let signed = ca.sign_expired(data.path(), "localhost");
    let server = Server::with(data.path(), &token, &options(&signed));
    let url = format!("https://localhost:{}", server.address.port());
    refused(&url, &token, Some(trusted), "has expired");
}

#[test]
fn https_to_a_server_of_plain_http_says_so() {
    let data = tempfile::tempdir().unwrap();
    let token = token(data.path(), "phone");
    let server = Server::start(data.path(), &token, "");
    let url = format!("https://localhost:{}", server.address.port());
    refused(&url, &token, None, "speaks no TLS");
}

#[test]
fn a_renewed_certificate_is_taken_up_while_the_server_runs() {
    let data = tempfile::tempdir().unwrap();
    let token = token(data.path(), "phone");
    let (former, renewed) = (Ca::new("former"), Ca::new("renewed"));
    let signed = former.sign(data.path(), "localhost");
    let server = Server::with(data.path(), &token, &options(&signed));
    let url = format!("https://localhost:{}", server.address.port());
    let trusted = renewed.file(data.path().join("ca.pem"));
    let (client, said) = device(&url, &token, Some(trusted));
    assert_ne!(chosen_by(&client), Chooser::Server);
    said.recv_timeout(Duration::from_secs(60))
        .expect("it says why");
    // Half a renewal is none: the former certificate stays.
    std::fs::write(&signed.key, "nonsense").unwrap();
    eventually("the server says that it cannot", || {
        server
            .said()
            .contains("the certificate stays as it was: --tls-key")
    });
    renewed.sign(data.path(), "localhost");
    served(&client);
    let line = said
        .recv_timeout(Duration::from_secs(60))
        .expect("it is back");
    assert!(line.ends_with("answers again"), "{line}");
}

#[test]
fn clear_text_leaves_the_host_only_where_somebody_says_so() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().to_str().unwrap();
    let token = token(data.path(), "phone");
    let reply = call(&["serve", "--data", folder, "--listen", "0.0.0.0:0"]);
    reply.refused(2, "0.0.0.0:0: tokens would cross the network in clear text: give a certificate (--tls-cert FILE --tls-key FILE)");
    let exposed = ["--insecure"].map(Path::new);
    let server = Server::launched(data.path(), &token, "0.0.0.0:0", None, &exposed);
    assert!(server.said().contains("INSECURE"), "{}", server.said());
    drop(server);
    let signed = Ca::new("ours").sign(data.path(), "localhost");
    let server = Server::launched(data.path(), &token, "0.0.0.0:0", None, &options(&signed));
    assert!(!server.said().contains("INSECURE"), "{}", server.said());
}

#[test]
fn a_certificate_that_cannot_be_used_is_one_line() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().to_str().unwrap();
    let ca = Ca::new("ours");
    let other = tempfile::tempdir().unwrap();
    let (signed, another) = (ca.sign(data.path(), "a"), ca.sign(other.path(), "b"));
    let nothing = data.path().join("nothing.pem");
    let serve = |cert: &Path, key: &Path| {
        let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
        call(&[
            "serve",
            "--data",
            folder,
            "--tls-cert",
            cert,
            "--tls-key",
            key,
        ])
    };
    serve(&nothing, &signed.key).refused(
        2,
        &format!("--tls-cert: {}: No such file", nothing.display()),
    );
    serve(&signed.key, &signed.key).refused(
        2,
        &format!("--tls-cert: {}: no certificate in it", signed.key.display()),
    );
    serve(&signed.cert, &signed.cert).refused(
        2,
        &format!("--tls-key: {}: no private key in it", signed.cert.display()),
    );
    serve(&signed.cert, &another.key).refused(
        2,
        &format!(
            "--tls-cert: {}: does not go with the key",
            signed.cert.display()
        ),
    );
    assert_eq!(
        call(&["serve", "--tls-cert", "x"]).code,
        2,
        "a key belongs to it"
    );
    // Nobody listens there: the client says the same of its own file before it asks.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let settings = Settings {
        ca: Some(signed.key.clone()),
        ..Settings::new(port, "x")
    };
    let error = Client::start(settings).err().expect("no CA").to_string();
    assert!(
        error.starts_with(&format!(
            "bandit.ca: {}: no certificate",
            signed.key.display()
        )),
        "{error}"
    );
}
