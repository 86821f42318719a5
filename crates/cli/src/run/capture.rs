//! `multipilot run --relay LINE --all`: the TCP and UDP of every program of this host, until Ctrl-C or `multipilot down`.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use mp_daemon::control::{self, Call, Control, Request};
pub use mp_relay::capture::Settings;
use mp_relay::capture::{self, Capture, Report};
use mp_relay::device::Device;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::daemon::of_daemon;
use crate::outcome::{self, Failure, Outcome};
use crate::{relay, signals};

/// Beside the daemon's, whose requests it answers too.
pub const SOCKET: &str = "/run/multipilot/relay.sock";

/// Refused before anything is changed or asked of the relay.
pub fn check(socket: &Path) -> Outcome {
    if !mp_relay::is_root() {
        return Err(Failure::Unable("taking all of this host's connections changes its routes: run it as root; without root, run --relay LINE --socks 127.0.0.1:1080 gives a proxy".into()));
    }
    match control::request(socket, Request::Status) {
        Ok(_) => Err(Failure::Usage(
            "this host's connections go to a relay already: multipilot down ends that".into(),
        )),
        Err(_) => Ok(()),
    }
}

pub fn host(runtime: &Runtime, device: Arc<Device>, settings: &Settings, socket: &Path) -> Outcome {
    let links = device.links().join(", ");
    let (calls, requests) = mpsc::channel(4);
    let control = {
        let _inside = runtime.enter();
        Control::listen(socket, None, calls).map_err(of_daemon)?
    };
    let capture = runtime
        .block_on(Capture::start(device, settings))
        .map_err(relay::failure)?;
    outcome::say(&format!(
        "multipilot: {} (Ctrl-C ends it)",
        goes(&capture.report(), &links)
    ));
    say_what_a_router_lacks(&settings.lans);
    if let Some(warning) = capture::Refused::warning(&capture.refused_cgroups()) {
        outcome::say(&format!("multipilot: {warning}"));
    }
    if let Some(why) = capture.translates() {
        outcome::say(&format!(
            "multipilot: TCP goes through the TUN, at more CPU: {why}"
        ));
    }
    let end = runtime.block_on(serve(&capture, requests));
    let stopped = runtime.block_on(capture.stop()).map_err(relay::failure);
    // Whoever asked for the end may start another as soon as it is told.
    drop(control);
    if let Ok(Some((_, answer))) = end {
        let _ = answer.send(json!({}));
        // Time for the answer.
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(50)).await });
        return stopped;
    }
    // An interface that is gone cannot be removed.
    end.and(stopped)
}

/// What hosts behind an interface need of this one: its rules are the user's, so that it is only said.
pub fn say_what_a_router_lacks(lans: &[String]) {
    let is = |key: &str, value: &str| {
        let file = format!("/proc/sys/net/ipv4/{key}");
        std::fs::read_to_string(file).is_ok_and(|text| text.trim() == value)
    };
    let lan = lans.join(", ");
    if !lans.is_empty() && is("ip_forward", "0") {
        outcome::say(&format!("multipilot: hosts behind {lan} reach nothing while this host does not forward: sysctl -w net.ipv4.ip_forward=1"));
    }
    if !lans.is_empty() && is("conf/all/rp_filter", "1") {
        outcome::say(&format!("multipilot: hosts behind {lan} get no answers while the kernel filters by reverse paths: sysctl -w net.ipv4.conf.all.rp_filter=2"));
    }
}

/// What is taken, in a sentence.
pub fn goes(report: &Report, links: &str) -> String {
    let (what, rest) = match report.not_captured.is_empty() {
        true => ("TCP connection, UDP flow and ping", ""),
        false => (
            "TCP connection",
            "; UDP and ICMP stay direct, since the relay does not answer over UDP",
        ),
    };
    format!("every new {what} of this host goes to the relay over {links}{rest}")
}

/// Until it is to end; with the request that asked for it.
async fn serve(capture: &Capture, mut requests: mpsc::Receiver<Call>) -> Outcome<Option<Call>> {
    let mut stop = pin!(signals::until_stopped());
    let mut restored = 0;
    loop {
        if capture.restored() != restored {
            restored = capture.restored();
            outcome::say(&format!("multipilot: {}", capture::RESTORED));
        }
        tokio::select! {
            () = &mut stop => return Ok(None),
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
            () = capture.gone() => {
                return Err(Failure::Run(format!("somebody has removed the interface {}", mp_relay::links::TUN)));
            }
            Some((request, answer)) = requests.recv() => match request {
                Request::Down => return Ok(Some((request, answer))),
                Request::Status => {
                    let _ = answer.send(json!(capture.report()));
                }
                Request::Reload | Request::Relay(_) => {
                    let _ = answer.send(json!({"error": "the relay has no file to read again: multipilot down, then up --relay"}));
                }
            }
        }
    }
}
