//! `multipilot run --relay`: a program's TCP connections, or those that come to a SOCKS proxy, over all links to a relay.

use std::net::SocketAddr;
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use mp_daemon::config::Leak;
use mp_kernel::{child, preload};
use mp_policy::scheduler;
use mp_relay::control::Control;
use mp_relay::device::{self, Device, Settings};
use mp_relay::front::{self, Protocol};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::{ended, program, say, RunArgs};
use crate::capture::{self, Dns};
use crate::outcome::{self, Failure, Outcome};
use crate::{names, relay, signals, state};

/// A connection that the program has left open, and that carries nothing for so long, is not waited for.
const QUIET: Duration = Duration::from_secs(30);
/// What lasts longer is told.
const TELL: Duration = Duration::from_secs(2);

pub fn main(args: &RunArgs, line: &str) -> Outcome {
    if let (false, Some(option)) = (args.all, args.capture.for_the_host()) {
        return Err(Failure::Usage(format!(
            "{option}: with --all only; of one program all TCP connections go over the relay"
        )));
    }
    let line = relay::read_line(line)?;
    let name = args.scheduler.as_deref().unwrap_or(mp_relay::SCHEDULER);
    let scheduler = scheduler::find(name).ok_or_else(|| {
        Failure::Usage(format!(
            "--scheduler {name}: no such scheduler; see multipilot list schedulers"
        ))
    })?;
    names::known_controller(args.controller.as_deref())?;
    let settings = |controller| Settings {
        line,
        scheduler,
        links: args.links.clone(),
        transport: args.capture.carrier.unwrap_or_default(),
        controller,
        mark: args.all.then_some(mp_relay::capture::MARK),
        hold: args.capture.hold.unwrap_or(device::HOLD),
        observer: args.all.then(Arc::default),
        rules: None,
    };
    let program = match (args.socks, args.all) {
        (None, false) => Some(program(args)?),
        _ => None,
    };
    let socket = &args.capture.relay_socket;
    if args.all {
        capture::check(socket)?;
    }
    if let Some((path, _)) = &program {
        if !preload::reaches(path) {
            return Err(Failure::Unable(format!(
                "{} is statically linked: its connections cannot be redirected; let it use a proxy: multipilot run --relay LINE --socks 127.0.0.1:1080",
                path.display()
            )));
        }
    }
    let control = Control::choose(args.controller.as_deref())?;
    let settings = settings(control);
    let identity = state::folder()?.join("relay-device.key");
    let runtime = relay::runtime()?;
    let device = runtime.block_on(Device::connect(settings, &identity))?;
    let outcome = match (program, args.socks) {
        (Some((path, rest)), _) => {
            let mut command = Command::new(&path);
            command.args(rest);
            redirect(&mut command, &runtime, device.clone())?;
            let status = child::run(&mut command);
            runtime.block_on(settle(&device));
            ended(status.map_err(|error| {
                Failure::Code(say(126, &format!("{}: {error}", path.display())))
            })?)
        }
        (None, Some(address)) => proxy(&runtime, address, device),
        (None, None) => {
            let settings = capture::Settings {
                direct: args.capture.direct.clone(),
                direct_users: args.capture.direct_users.clone(),
                direct_cgroups: args.capture.direct_cgroups.clone(),
                block: args.capture.leak == Some(Leak::Block),
                insists: false,
                direct_dns: args.capture.dns == Some(Dns::Direct),
                lans: args.capture.lan.clone(),
            };
            capture::host(&runtime, device, &settings, socket)
        }
    };
    // Connections that the program has left open end here.
    runtime.shutdown_timeout(Duration::from_millis(200));
    outcome
}

/// Has the program's connections come to us.
fn redirect(command: &mut Command, runtime: &Runtime, device: Arc<Device>) -> Outcome {
    let listening = runtime.block_on(front::private_listener());
    let (listener, port) =
        listening.map_err(|e| Failure::Run(format!("no port on 127.0.0.1: {e}")))?;
    let token = mp_relay::keys::random();
    preload::apply(command, None)?;
    preload::relay(command, port, &token);
    runtime.spawn(front::serve(listener, Protocol::Shim(token), device));
    Ok(())
}

/// The program has closed its connections and is gone, as after any write to a socket: the last bytes are still under way.
async fn settle(device: &Device) {
    let mut settled = pin!(device.settled(QUIET));
    if timeout(TELL, &mut settled).await.is_ok() {
        return;
    }
    outcome::say(
        "multipilot: the program's last bytes are on their way to the relay (Ctrl-C ends that)",
    );
    let whole = tokio::select! {
        whole = settled => whole,
        () = signals::next() => false,
    };
    if !whole {
        outcome::say("multipilot: connections end that the program has left open, or whose last bytes the relay may not have");
    }
}

fn proxy(runtime: &Runtime, address: SocketAddr, device: Arc<Device>) -> Outcome {
    let bound = runtime.block_on(tokio::net::TcpListener::bind(address));
    let listener = bound.map_err(|e| Failure::Run(format!("--socks {address}: {e}")))?;
    let local = listener.local_addr().unwrap_or(address);
    let links = device.links().join(", ");
    outcome::say(&format!(
        "multipilot: SOCKS5 proxy on {local} over {links} (Ctrl-C ends it)"
    ));
    runtime.spawn(front::serve(listener, Protocol::Socks, device));
    while !signals::stopped() {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
