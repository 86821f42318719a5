//! `multipilot relay`: the relay in the foreground, and its register of devices.

mod check;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use mp_kernel::interfaces;
use mp_relay::control::Control;
use mp_relay::devices::{State, Store, VALID};
use mp_relay::egress::{is_public, Egress, Own, Prefix};
use mp_relay::relay::{self, Predecessor, Serving, Settings, Sockets, Successor};
use mp_relay::wire::Line;
use sd_notify::NotifyState;
use tokio::runtime::Runtime;
use tokio::signal::unix::{signal, SignalKind};

use crate::names;
use crate::outcome::{self, Failure, Outcome};
use crate::sheet::{self, Column};
use crate::{signals, state};

const AFTER: &str = "\
The first start prints a line for one device; --new-device prints one for another, also while the relay runs. A line belongs to \
the first device that uses it, and has to be used within 10 minutes. Targets of devices are not logged.";

#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub struct RelayArgs {
    /// Address and port to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:443")]
    listen: SocketAddr,
    /// Name or address, and port, that devices connect to [default: this host's address and the port of --listen]
    #[arg(long, value_name = "HOST[:PORT]")]
    address: Option<String>,
    /// Folder of the key and the devices [default: /var/lib/multipilot/relay, other users $XDG_STATE_HOME/multipilot/relay]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Addresses that devices may reach, beside public ones, such as 192.168.1.0/24; may be repeated
    #[arg(long, value_name = "PREFIX")]
    allow: Vec<Prefix>,
    /// Let devices connect to port 25
    #[arg(long)]
    allow_smtp: bool,
    /// Congestion controller of downloads, see multipilot list controllers [default: pilot if it can be loaded, else bbr or the system's]
    #[arg(long, value_name = "NAME")]
    controller: Option<String>,
    /// Time for which connections are kept while their device is away, asleep or without a link [default: 12h]
    #[arg(long, value_name = "TIME", value_parser = mp_scenario::document::duration)]
    hold: Option<Duration>,
    /// Bandwidth of each device in each direction, such as 50Mbit [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = mp_scenario::document::rate)]
    rate: Option<u64>,
    /// Only print a line for one more device
    #[arg(long, value_name = "NAME", conflicts_with_all = ["devices", "forget", "check"])]
    new_device: Option<String>,
    /// Only list the devices
    #[arg(long, conflicts_with_all = ["forget", "check"])]
    devices: bool,
    /// Only remove a device: it cannot connect any more
    #[arg(long, value_name = "NAME", conflicts_with = "check")]
    forget: Option<String>,
    /// Only validate the options, the key and the devices, and whether the port is free
    #[arg(long)]
    check: bool,
    /// Go on for the relay that started this process: its sockets come over stdin
    #[arg(long, hide = true)]
    take_over: bool,
}

const TAKE_OVER: &str = "--take-over";

pub fn main(args: &RelayArgs) -> Outcome {
    let folder = match &args.state {
        Some(folder) => folder.clone(),
        None => default_folder()?,
    };
    if args.check {
        return check::check(args, &folder);
    }
    let store = Store::open(&folder)?;
    if args.devices {
        outcome::print(&table(&store)?);
        return Ok(());
    }
    if let Some(name) = &args.forget {
        return Ok(store.forget(name)?);
    }
    if let Some(name) = &args.new_device {
        return new_device(args, &store, name);
    }
    serve(args, store)
}

fn serve(args: &RelayArgs, store: Store) -> Outcome {
    names::known_controller(args.controller.as_deref())?;
    // A wrong address is refused before a device connects.
    public_address(args, args.listen.port())?;
    let settings = Settings {
        listen: args.listen,
        store: store.clone(),
        egress: Egress {
            allow: args.allow.clone(),
            allow_smtp: args.allow_smtp,
            own: Own::of_host(),
        },
        controller: Control::choose(args.controller.as_deref())?,
        hold: args.hold.unwrap_or(relay::HOLD),
        rate: args.rate,
        observer: None,
    };
    runtime()?.block_on(async {
        tokio::select! {
            ended = accept(args, &store, settings) => ended,
            () = signals::until_stopped() => Ok(()),
        }
    })
}

/// Until a successor has taken over, and the flows that are open then have ended.
async fn accept(args: &RelayArgs, store: &Store, settings: Settings) -> Outcome {
    let (predecessor, sockets) = match args.take_over {
        true => {
            let (predecessor, sockets) = Predecessor::of_stdin()?;
            (Some(predecessor), sockets)
        }
        false => (None, Sockets::bind(args.listen)?),
    };
    let serving = Serving::start(settings, &sockets)?;
    let mut asking =
        signal(SignalKind::user_defined2()).map_err(|e| Failure::Run(format!("SIGUSR2: {e}")))?;
    let local = sockets.address()?;
    match predecessor {
        Some(predecessor) => {
            serving.take_over(predecessor).await?;
            outcome::say(&format!(
                "multipilot: relay on {local} goes on in this process"
            ));
        }
        None => {
            outcome::say(&format!("multipilot: relay on {local} (Ctrl-C ends it)"));
            // Without a device, and without a line for one, it is of no use.
            greet(args, store, local.port())?;
        }
    }
    let asked = async {
        loop {
            asking.recv().await;
            match Successor::start(successor()?, &sockets).await {
                Ok(successor) => return Outcome::Ok(successor),
                Err(e) => outcome::say(&format!("multipilot: {e}; this process goes on")),
            }
        }
    };
    let successor = tokio::select! {
        () = serving.accept() => return Ok(()),
        asked = asked => asked?,
    };
    drop(sockets);
    let pid = successor.pid();
    // Without a service manager nobody is told.
    let _ = sd_notify::notify(&[NotifyState::MainPid(pid)]);
    outcome::say(&format!(
        "multipilot: process {pid} goes on; this one ends with the last of its connections"
    ));
    serving.hand_over(successor).await;
    Ok(())
}

/// This command again, of the version that is installed by now.
fn successor() -> Outcome<Command> {
    let mut words = std::env::args_os();
    let program = words
        .next()
        .ok_or_else(|| Failure::Run("no name of this program".into()))?;
    let mut command = Command::new(program);
    command
        .args(words.filter(|word| word != TAKE_OVER))
        .arg(TAKE_OVER);
    Ok(command)
}

/// Remembers the address for lines to come, and prints the first one.
fn greet(args: &RelayArgs, store: &Store, port: u16) -> Outcome {
    let address = public_address(args, port)?;
    if let Err(e) = store.set_place(&address) {
        outcome::say(&format!(
            "multipilot: {e}; --new-device will not know the relay's address"
        ));
    }
    let devices = store.list()?;
    let usable = devices.iter().filter(|d| d.state != State::Expired).count();
    if usable > 0 {
        outcome::say(&format!(
            "multipilot: {}; multipilot relay --new-device NAME makes a line for another",
            outcome::counted(usable, "device")
        ));
        return Ok(());
    }
    print_line(store, "device-1", &address)?;
    tell_if_private(args, &address.0);
    Ok(())
}

fn new_device(args: &RelayArgs, store: &Store, name: &str) -> Outcome {
    let remembered = store.place();
    let address = match (remembered, &args.address) {
        (Some(address), None) => address,
        _ => public_address(args, args.listen.port())?,
    };
    print_line(store, name, &address)?;
    if store.place().is_none() {
        tell_if_private(args, &address.0);
    }
    Ok(())
}

/// Behind NAT this host does not know the address that devices connect to.
fn tell_if_private(args: &RelayArgs, host: &str) {
    if args.address.is_none() && host.parse().is_ok_and(|ip| !is_public(ip)) {
        outcome::say(&format!(
            "multipilot: {host} is no public address: devices elsewhere do not reach it; give the one that they do with --address HOST"
        ));
    }
}

/// The line alone goes to stdout.
fn print_line(store: &Store, name: &str, address: &(String, u16)) -> Outcome {
    let line = store.add(name, &address.0, address.1)?;
    outcome::say(&format!(
        "multipilot: line for {name}, to be used within {} minutes: multipilot run --relay LINE -- COMMAND",
        VALID.as_secs() / 60
    ));
    outcome::print(&format!("{line}\n"));
    Ok(())
}

/// A relay's line on a device: as given, or the first line of stdin: arguments can be read by every user of the host.
pub fn read_line(given: &str) -> Outcome<Line> {
    let mut read = String::new();
    let text = match given {
        "-" => {
            let result = std::io::stdin().read_line(&mut read);
            result.map_err(|e| Failure::Usage(format!("the relay's line from stdin: {e}")))?;
            &read
        }
        text => text,
    };
    text.parse()
        .map_err(|e| Failure::Usage(format!("the relay's line: {e}")))
}

/// Host and port as devices have them.
fn public_address(args: &RelayArgs, port: u16) -> Outcome<(String, u16)> {
    let Some(given) = &args.address else {
        let listened = args.listen.ip();
        let host = if listened.is_unspecified() {
            own_address()?
        } else {
            listened
        };
        return Ok((host.to_string(), port));
    };
    let wrong = || {
        Failure::Usage(format!(
            "--address {given}: expected HOST, HOST:PORT or [ADDRESS]:PORT"
        ))
    };
    if let Ok(ip) = given.parse::<IpAddr>() {
        return Ok((ip.to_string(), port));
    }
    if let Ok(socket) = given.parse::<SocketAddr>() {
        return Ok((socket.ip().to_string(), socket.port()));
    }
    let (host, port) = match given.split_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
        None => (given.as_str(), port),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    match !host.is_empty() && host.chars().all(plain) {
        true => Ok((host.to_owned(), port)),
        false => Err(wrong()),
    }
}

/// Of the interface that leads out.
fn own_address() -> Outcome<IpAddr> {
    let all = interfaces::all()?;
    let outward = all.iter().find(|i| i.leads_out()).or(all.first());
    let addresses = outward.map(|i| i.addresses.as_slice()).unwrap_or_default();
    let best = addresses.iter().find(|a| a.is_ipv4()).or(addresses.first());
    best.copied().ok_or_else(|| {
        Failure::Unable(
            "this host has no address that devices could reach: give it with --address HOST".into(),
        )
    })
}

fn default_folder() -> Outcome<PathBuf> {
    if mp_relay::is_root() {
        return Ok("/var/lib/multipilot/relay".into());
    }
    Ok(state::path()?.join("relay"))
}

fn table(store: &Store) -> Outcome<String> {
    let devices = store.list()?;
    let state = |state: State| match state {
        State::Enrolled => "enrolled".to_owned(),
        State::Pending(left) => format!("not yet, its line is valid for {} s", left.as_secs()),
        State::Expired => "never, its line is too old".to_owned(),
    };
    if devices.is_empty() {
        outcome::say("multipilot: there is no device; --new-device NAME makes a line for one");
    }
    let rows = devices.into_iter().map(|d| vec![d.name, state(d.state)]);
    let columns = [Column("", 0, false), Column("", 0, false)];
    Ok(sheet::table(&columns, rows.collect()))
}

pub fn runtime() -> Outcome<Runtime> {
    mp_kernel::memory::keep_small();
    Runtime::new().map_err(|e| Failure::Run(format!("cannot start threads: {e}")))
}
