//! Congestion controllers in the kernel: ours are registered on demand and counted, the kernel's own are looked up.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::{query, MapCore, MapFlags, MapHandle, MapType};
use mp_controllers::{entries, kernel_own, KernelOwn, PARAMETERS};

use crate::error::{Context, Error};
use crate::groups::Groups;
use crate::object::{self, CallLog, Counters, Shared};
use crate::{check, mounts, state};

/// The controller that the daemon and the relay use unless they are told otherwise, where it can be loaded.
pub const DEFAULT: &str = "pilot";

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Key of the only element of a struct_ops map.
const FIRST: [u8; 4] = [0; 4];

/// A controller that sockets of this machine can choose while this value lives.
#[derive(Debug)]
pub struct Controller {
    kernel_name: String,
    held: Option<(PathBuf, state::Holder)>,
}

/// One of ours that is registered now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    pub kernel_name: String,
    /// Name and settings, as they were asked for.
    pub about: String,
    pub holders: usize,
    /// It stays without a holder, until [`unload`].
    pub kept: bool,
    pub counters: Counters,
}

/// How a controller is made available.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Under a name of its own: nobody else's sockets count in its counters.
    pub private: bool,
    /// Every hook call goes into a log, see [`Controller::call_log`]. Costs some microseconds a call.
    pub log_calls: bool,
}

/// Makes a controller available, with its defaults where `parameters` (name, value) leave them.
pub fn acquire(name: &str, parameters: &[(&str, u64)]) -> Result<Controller, Error> {
    acquire_with(name, parameters, Options::default())
}

/// As [`acquire`], in a way of its own.
pub fn acquire_with(
    name: &str,
    parameters: &[(&str, u64)],
    options: Options,
) -> Result<Controller, Error> {
    static PRIVATE: AtomicU64 = AtomicU64::new(1);
    if let Some(own) = kernel_own(name) {
        return built_in(own, parameters);
    }
    let (words, bytes) = settings(name, parameters)?;
    check::check()?;
    let salt = match options.private {
        true => u64::from(std::process::id()) << 32 | PRIVATE.fetch_add(1, Ordering::Relaxed),
        false => 0,
    };
    let log_calls = options.log_calls;
    let kernel_name = object::kernel_name(name, bytes, &words, log_calls, salt);
    let (folder, pins) = (state::controllers().join(&kernel_name), pins(&kernel_name)?);

    let lock = state::lock()?;
    collect(&lock)?;
    let is_here = is_available(&kernel_name) && pins.join("ops").exists();
    if !is_here && state::holders(&folder, &lock) > 0 {
        // Of a process with another /sys, as under ip netns exec: its maps cannot be found, and its sockets need them.
        drop(lock);
        let private = Options {
            private: true,
            ..options
        };
        return acquire_with(name, parameters, private);
    }
    let holder = state::Holder::new(&folder, &lock)?;
    if !is_here {
        let registered = register(&kernel_name, bytes, &words, log_calls, &pins);
        if let Err(error) = registered {
            holder.leave(&lock);
            remove(&kernel_name, &lock)?;
            return Err(error);
        }
        let about = parameters
            .iter()
            .fold(name.to_owned(), |about, (name, value)| {
                format!("{about} {name}={value}")
            });
        fs::write(folder.join("about"), about).context(folder.display())?;
    }
    Ok(Controller {
        kernel_name,
        held: Some((folder, holder)),
    })
}

/// Whether [`acquire`] could succeed for somebody with the privilege for it. Loads nothing of ours.
pub fn check(name: &str) -> Result<(), Error> {
    match kernel_own(name) {
        // Only the privileged can have a module loaded, so only they know.
        Some(_) if !check::net_admin() => Ok(()),
        Some(own) => built_in(own, &[]).map(drop),
        None => match check::of_kernel() {
            lacks if lacks.is_empty() => Ok(()),
            lacks => Err(check::Missing(lacks).into()),
        },
    }
}

impl Controller {
    /// What `setsockopt(TCP_CONGESTION)` and `net.ipv4.tcp_congestion_control` take.
    pub fn kernel_name(&self) -> &str {
        &self.kernel_name
    }

    /// `None` for the kernel's own.
    pub fn counters(&self) -> Result<Option<Counters>, Error> {
        match self.held {
            Some(_) => object::counters(&pins(&self.kernel_name)?.join("counters")).map(Some),
            None => Ok(None),
        }
    }

    /// The MPTCP connections and the groups of plain TCP sockets that use it now.
    pub fn shared(&self) -> Result<Vec<Shared>, Error> {
        match self.held {
            Some(_) => object::shared(&pins(&self.kernel_name)?.join("connections")),
            None => Ok(Vec::new()),
        }
    }

    /// How many subflows each of them has.
    pub fn connections(&self) -> Result<Vec<usize>, Error> {
        Ok(self.shared()?.iter().map(|s| s.subflows).collect())
    }

    /// Couples plain TCP sockets that use it; `None` for the kernel's own, which couple nothing.
    pub fn groups(&self) -> Result<Option<Groups>, Error> {
        match self.held {
            Some(_) => Groups::open(&pins(&self.kernel_name)?).map(Some),
            None => Ok(None),
        }
    }

    /// Only with [`Options::log_calls`].
    pub fn call_log(&self) -> Result<CallLog, Error> {
        CallLog::open(&pins(&self.kernel_name)?)
    }

    /// Where its maps are, and who holds it; `None` for the kernel's own.
    pub(crate) fn places(&self) -> Result<Option<(PathBuf, PathBuf)>, Error> {
        match &self.held {
            Some((folder, _)) => Ok(Some((pins(&self.kernel_name)?, folder.clone()))),
            None => Ok(None),
        }
    }

    /// Gives it back, and says how many sockets go on with it until they close: it was unregistered under them.
    pub fn release(mut self) -> Result<u64, Error> {
        self.leave()
    }

    fn leave(&mut self) -> Result<u64, Error> {
        let Some((folder, holder)) = self.held.take() else {
            return Ok(0);
        };
        let lock = state::lock()?;
        holder.leave(&lock);
        if state::holders(&folder, &lock) > 0 || folder.join("kept").exists() {
            return Ok(0);
        }
        remove(&self.kernel_name, &lock)
    }

    /// Leaves it registered after the last holder has gone, until [`unload`]. Says whether nobody had asked for that before.
    pub fn keep(&self) -> Result<bool, Error> {
        let Some((folder, _)) = &self.held else {
            return Ok(false);
        };
        match fs::File::create_new(folder.join("kept")) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            made => made.map(|_| true).context(folder.display()),
        }
    }
}

impl Controller {
    /// Undoes [`Controller::keep`], whoever called it, and gives the controller back.
    pub fn unkeep(self) -> Result<u64, Error> {
        if let Some((folder, _)) = &self.held {
            let _ = fs::remove_file(folder.join("kept"));
        }
        self.release()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.leave();
    }
}

/// Undoes [`Controller::keep`] of a process that is gone. Returns as [`Controller::release`].
pub fn unkeep(kernel_name: &str) -> Result<u64, Error> {
    let lock = state::lock()?;
    let folder = state::controllers().join(kernel_name);
    if !folder.exists() {
        return Ok(0);
    }
    let _ = fs::remove_file(folder.join("kept"));
    match state::holders(&folder, &lock) {
        0 => remove(kernel_name, &lock),
        _ => Ok(0),
    }
}

/// Those of ours that are registered now. Removes what dead processes left.
pub fn list() -> Result<Vec<Registered>, Error> {
    let lock = state::lock()?;
    collect(&lock)?;
    let mut all = Vec::new();
    for kernel_name in names() {
        let counters = pins(&kernel_name)?.join("counters");
        // Pinned by a process that has another /sys, as under ip netns exec.
        if !counters.exists() {
            continue;
        }
        let folder = state::controllers().join(&kernel_name);
        all.push(Registered {
            about: fs::read_to_string(folder.join("about")).unwrap_or_default(),
            holders: state::holders(&folder, &lock),
            kept: folder.join("kept").exists(),
            counters: object::counters(&counters)?,
            kernel_name,
        });
    }
    Ok(all)
}

/// Unregisters a controller by its kernel name, whoever holds it: sockets that use it go on with it until they close,
/// new ones cannot choose it. Returns how many use it still.
pub fn unload(kernel_name: &str) -> Result<u64, Error> {
    let lock = state::lock()?;
    if !names().iter().any(|name| name == kernel_name) {
        return Err(Error::Usage(format!(
            "{kernel_name}: no such controller is registered (multipilot list loaded shows them)"
        )));
    }
    remove(kernel_name, &lock)
}

/// Unregisters what only dead processes held.
fn collect(lock: &state::Lock) -> Result<(), Error> {
    for name in names() {
        let folder = state::controllers().join(&name);
        if state::holders(&folder, lock) == 0 && !folder.join("kept").exists() {
            remove(&name, lock)?;
        }
    }
    Ok(())
}

fn names() -> Vec<String> {
    let entries = fs::read_dir(state::controllers())
        .into_iter()
        .flatten()
        .flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn remove(kernel_name: &str, _lock: &state::Lock) -> Result<u64, Error> {
    let pins = pins(kernel_name)?;
    let pinned = MapHandle::from_pinned_path(pins.join("ops"));
    if !pinned.is_ok_and(|map| map.delete(&FIRST).is_ok()) {
        // The pins went with the mount namespace of the process that made them, as under ip netns exec, or another process has registered
        // it anew since. It may never have been registered.
        unregister_unpinned(kernel_name);
    }
    let sockets = object::counters(&pins.join("counters")).map_or(0, |counters| counters.sockets);
    for folder in [pins, state::controllers().join(kernel_name)] {
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).context(folder.display())
            }
            _ => {}
        }
    }
    Ok(sockets)
}

fn register(
    name: &str,
    bytes: &[u8],
    parameters: &[u64; PARAMETERS],
    log_calls: bool,
    pins: &Path,
) -> Result<(), Error> {
    if is_available(name) && !unregister_unpinned(name) {
        return Err(Error::Failed(format!(
            "a congestion controller named {name} is registered already, and not by multipilot: unregister it, or unload its module"
        )));
    }
    // Pins of a process that died between pinning and registering.
    let _ = fs::remove_dir_all(pins);
    fs::create_dir_all(pins).context(pins.display())?;
    let mut object = object::load(name, bytes, parameters, log_calls)?;
    for mut map in object.maps_mut() {
        let pin = match map.name().to_str() {
            Some("mp_ops") => "ops",
            Some("mp_connections") => "connections",
            Some("mp_calls") => "calls",
            Some("mp_members") => "members",
            Some("mp_records") => "records",
            Some("mp_answers") => "answers",
            Some(".data.counters") => "counters",
            _ => continue,
        };
        map.pin(pins.join(pin))
            .context(format!("cannot pin {pin} of {name}"))?;
    }
    let mut ops = object
        .maps_mut()
        .find(|map| map.name() == "mp_ops")
        .expect("every controller has mp_ops");
    let mut link = object::quietly(|| ops.attach_struct_ops()).map_err(|why| {
        Error::Failed(format!(
            "cannot register the congestion controller {name}: {why}"
        ))
    })?;
    // Registered is registered: without this, dropping the link would undo it.
    link.disconnect();
    Ok(())
}

/// Finds a controller of ours whose pins are gone (bpffs was unmounted, or is another mount namespace's) by its name in
/// the kernel's list of maps, and unregisters it. Sockets that use it keep it.
fn unregister_unpinned(name: &str) -> bool {
    let named = |value: &[u8]| {
        let mut terminated = name.as_bytes().to_vec();
        terminated.push(0);
        value
            .windows(terminated.len())
            .any(|window| window == terminated)
    };
    query::MapInfoIter::default()
        .filter(|info| info.ty == MapType::StructOps && info.name == "mp_ops")
        .filter_map(|info| MapHandle::from_map_id(info.id).ok())
        .filter(|map| {
            map.lookup(&FIRST, MapFlags::ANY)
                .ok()
                .flatten()
                .is_some_and(|value| named(&value))
        })
        .any(|map| map.delete(&FIRST).is_ok())
}

fn built_in(own: &KernelOwn, parameters: &[(&str, u64)]) -> Result<Controller, Error> {
    for (parameter, value) in parameters {
        own.entry.check(parameter, *value)?;
    }
    let kernel_name = own.kernel_name;
    // Choosing it on a socket makes the kernel load its module, where there is one.
    if !is_available(kernel_name) && !crate::choose::loads(kernel_name) {
        return Err(Error::Usage(format!("this kernel has no congestion controller {kernel_name} (modprobe tcp_{kernel_name} did not help)")));
    }
    Ok(Controller {
        kernel_name: kernel_name.to_owned(),
        held: None,
    })
}

/// The controller's settings as its header orders them, and its object.
fn settings(
    name: &str,
    parameters: &[(&str, u64)],
) -> Result<([u64; PARAMETERS], &'static [u8]), Error> {
    let (Some(controller), Some(bytes)) = (mp_controllers::find(name), object::bytes(name)) else {
        let known: Vec<_> = entries().map(|entry| entry.name).collect();
        return Err(Error::Usage(format!(
            "unknown controller {name} (known: {})",
            known.join(", ")
        )));
    };
    let mut words = controller.connection().parameters;
    for (parameter, value) in parameters {
        words[controller.check(parameter, *value)?] = *value;
    }
    Ok((words, bytes))
}

fn pins(kernel_name: &str) -> Result<PathBuf, Error> {
    Ok(mounts::bpffs()?.join("multipilot").join(kernel_name))
}

fn is_available(kernel_name: &str) -> bool {
    fs::read_to_string(AVAILABLE)
        .is_ok_and(|names| names.split_whitespace().any(|name| name == kernel_name))
}

#[cfg(test)]
mod tests;
