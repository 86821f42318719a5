//! `multipilot relay --check`: whether a relay could start with these options, and what it would find. Nothing is changed.

use std::path::Path;

use mp_relay::control::Control;
use mp_relay::devices::{State, Store};
use mp_relay::relay;
use mp_relay::wire::key_text;

use super::{public_address, RelayArgs};
use crate::outcome::{counted, print, say, Outcome};

pub fn check(args: &RelayArgs, folder: &Path) -> Outcome {
    let (host, port) = public_address(args, args.listen.port())?;
    let found = Store::check(folder)?;
    if let Some(name) = &args.controller {
        Control::choose(Some(name))?;
    }
    relay::check(args.listen)?;
    for file in &found.exposed {
        let file = file.display();
        say(&format!(
            "multipilot: {file}: other users have access to it: chmod 600 {file}"
        ));
    }
    let key = match found.key {
        Some(key) => key_text(&key),
        None => "none yet, the first start makes one".into(),
    };
    let count = |is: fn(&State) -> bool| found.devices.iter().filter(|d| is(&d.state)).count();
    let enrolled = count(|state| *state == State::Enrolled);
    let pending = count(|state| matches!(state, State::Pending(_)));
    print(&format!(
        "state    {}\nkey      {key}\ndevices  {enrolled} enrolled, {} not used yet\naddress  {host}, port {port}\n\
         listen   {}: free, TCP and UDP\n",
        folder.display(),
        counted(pending, "line"),
        args.listen
    ));
    Ok(())
}
