//! A controller's BPF object: its settings before the kernel sees it, its maps afterwards.

use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::sync::Once;

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel};
use mp_controllers::{Ack, Connection, Subflow, MAX_SUBFLOWS, PARAMETERS};
use sha2::{Digest, Sha256};
use zerocopy::FromBytes;

use crate::error::{Context, Error};
use crate::prefix::prefix;

include!(concat!(env!("OUT_DIR"), "/objects.rs"));

/// struct mp_settings, controllers/bpf/settings.h
#[repr(C)]
struct Settings {
    log_calls: u64,
    template: Entry,
}

/// struct mp_key
#[derive(FromBytes)]
#[repr(C)]
struct Key {
    netns_cookie: u64,
    token: u64,
}

/// struct mp_entry
#[repr(C)]
pub(crate) struct Entry {
    references: u64,
    key: Key,
    connection: Connection,
}

/// struct mp_counters
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes)]
#[repr(C)]
pub struct Counters {
    pub owners: u64,
    /// Sockets that use the controller now.
    pub sockets: u64,
    /// Subflows beyond the eighth of a connection, which run uncoupled.
    pub slots_full: u64,
    /// Sockets and connections for which the map had no room.
    pub entries_full: u64,
    pub without_slot: u64,
    pub calls_dropped: u64,
    /// Times that the kernel did not run a hook and took a stale word for its answer.
    pub hooks_skipped: u64,
}

/// struct mp_call: the moment just before a hook call in the kernel, or just after.
#[derive(Clone, Default)]
#[repr(C)]
pub struct Call {
    /// enum mp_hook
    pub hook: u64,
    pub slot: u64,
    pub now_us: u64,
    pub ack: Ack,
    /// Of on_loss and on_undo, after the call.
    pub result: u64,
    pub owner: u64,
    is_after: u64,
    pub connection: Connection,
}

/// The embedded object of the controller named so.
pub(crate) fn bytes(controller: &str) -> Option<&'static [u8]> {
    OBJECTS
        .iter()
        .find(|(name, _)| *name == controller)
        .map(|(_, bytes)| *bytes)
}

/// The name the kernel gets: at most 15 characters, letters, digits and underscores, the last six a hash of code and
/// parameters, so that two versions or two settings of a controller live side by side.
pub(crate) fn kernel_name(
    controller: &str,
    bytes: &[u8],
    parameters: &[u64; PARAMETERS],
    log_calls: bool,
    salt: u64,
) -> String {
    let mut hash = Sha256::new();
    hash.update(bytes);
    for word in parameters {
        hash.update(word.to_le_bytes());
    }
    hash.update([u8::from(log_calls)]);
    hash.update(salt.to_le_bytes());
    let hash = hash.finalize();
    let stem: String = controller.replace('-', "_").chars().take(8).collect();
    format!("{stem}_{:02x}{:02x}{:02x}", hash[0], hash[1], hash[2])
}

/// Loads the programs and maps of a controller; registers nothing.
pub(crate) fn load(
    kernel_name: &str,
    bytes: &[u8],
    parameters: &[u64; PARAMETERS],
    log_calls: bool,
) -> Result<Object, Error> {
    let mut open = open(bytes)?;
    for mut map in open.maps_mut() {
        match map.name().to_str() {
            Some("mp_ops") => {
                // The name is the first member, see controllers/bpf/kernel.h.
                let value = map
                    .initial_value_mut()
                    .expect("struct_ops maps have a value");
                value[..16].fill(0);
                value[..kernel_name.len()].copy_from_slice(kernel_name.as_bytes());
            }
            Some(".rodata.settings") => {
                let value = map.initial_value_mut().expect("the settings have a value");
                let mut write = |offset: usize, word: u64| {
                    value[offset..offset + 8].copy_from_slice(&word.to_ne_bytes())
                };
                write(offset_of!(Settings, log_calls), u64::from(log_calls));
                let base = offset_of!(Settings, template)
                    + offset_of!(Entry, connection)
                    + offset_of!(Connection, parameters);
                for (index, word) in parameters.iter().enumerate() {
                    write(base + 8 * index, *word);
                }
            }
            Some("mp_calls") if log_calls => map.set_max_entries(64 << 20).context("mp_calls")?,
            _ => {}
        }
    }
    quietly(|| open.load()).map_err(|why| {
        Error::Failed(format!(
            "the kernel refused the controller {kernel_name}: {why}"
        ))
    })
}

pub(crate) fn open(bytes: &[u8]) -> Result<OpenObject, Error> {
    quietly(|| ObjectBuilder::default().open_memory(bytes))
        .map_err(|why| Error::Failed(format!("embedded BPF object: {why}")))
}

/// Of a controller that another version may have registered.
pub(crate) fn counters(pin: &Path) -> Result<Counters, Error> {
    let map = MapHandle::from_pinned_path(pin).context(pin.display())?;
    let value = map
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .context(pin.display())?;
    Ok(prefix(&value.unwrap_or_default()))
}

thread_local! {
    static COMPLAINTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Runs a call of libbpf's with what it would print on stderr in the error instead: the last line of any substance.
pub(crate) fn quietly<T>(call: impl FnOnce() -> libbpf_rs::Result<T>) -> Result<T, String> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        fn keep(_: PrintLevel, line: String) {
            COMPLAINTS.with(|complaints| complaints.borrow_mut().push(line));
        }
        libbpf_rs::set_print(Some((PrintLevel::Warn, keep)));
    });
    COMPLAINTS.with(|complaints| complaints.borrow_mut().clear());
    call().map_err(|error| {
        let verbose = std::env::var_os("MULTIPILOT_VERIFIER_LOG").is_some();
        COMPLAINTS.with(|complaints| {
            let complaints = complaints.borrow();
            let detail = if verbose {
                Some(complaints.concat())
            } else {
                complaints
                    .iter()
                    .find(|line| line.contains("failed"))
                    .map(|line| line.trim().replace('\n', "; "))
            };
            detail.map_or_else(|| error.to_string(), |detail| format!("{error} ({detail})"))
        })
    })
}

/// The hook calls of a controller registered with its calls logged, for replay in tests.
pub struct CallLog {
    calls: MapHandle,
    counters: std::path::PathBuf,
}

impl CallLog {
    pub(crate) fn open(folder: &Path) -> Result<CallLog, Error> {
        let pin = folder.join("calls");
        let calls = MapHandle::from_pinned_path(&pin).context(pin.display())?;
        Ok(CallLog {
            calls,
            counters: folder.join("counters"),
        })
    }

    /// Hands over the calls that are there by now, each as before and after; returns how many records found the buffer
    /// full so far.
    pub fn drain(&self, mut each: impl FnMut(&Call, &Call)) -> Result<u64, Error> {
        let mut begun = HashMap::new();
        let mut builder = libbpf_rs::RingBufferBuilder::new();
        builder
            .add(&self.calls, |record| {
                assert_eq!(
                    record.len(),
                    size_of::<Call>(),
                    "struct mp_call has changed"
                );
                // SAFETY: the kernel side writes this very struct of plain words, aligned to 8.
                let call = unsafe { &*record.as_ptr().cast::<Call>() };
                if call.is_after == 0 {
                    begun.insert(call.owner, call.clone());
                } else if let Some(before) = begun.remove(&call.owner) {
                    each(&before, call);
                }
                0
            })
            .context("mp_calls")?;
        builder
            .build()
            .and_then(|ring| ring.consume())
            .context("mp_calls")?;
        Ok(counters(&self.counters)?.calls_dropped)
    }
}

/// What the subflows of an MPTCP connection share, or the sockets of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shared {
    /// Slots taken.
    pub subflows: usize,
    pub parameters: [u64; PARAMETERS],
}

/// The shared entries of a pinned connections map.
pub(crate) fn shared(pin: &Path) -> Result<Vec<Shared>, Error> {
    let map = MapHandle::from_pinned_path(pin).context(pin.display())?;
    let mut all = Vec::new();
    for key in map.keys() {
        let token = Key::read_from_bytes(&key).map_or(0, |key| key.token);
        // Gone since: the connection has closed.
        let Some(value) = map.lookup(&key, MapFlags::ANY).context(pin.display())? else {
            continue;
        };
        if token == 0 {
            continue;
        }
        let word = |at: usize| u64::read_from_bytes(&value[at..][..8]).unwrap_or_default();
        let connection = offset_of!(Entry, connection);
        let subflows = connection + offset_of!(Connection, subflows);
        let owner = |slot: &usize| word(subflows + slot * size_of::<Subflow>()) != 0;
        let parameters = connection + offset_of!(Connection, parameters);
        all.push(Shared {
            subflows: (0..MAX_SUBFLOWS).filter(owner).count(),
            parameters: std::array::from_fn(|i| word(parameters + 8 * i)),
        });
    }
    Ok(all)
}

#[cfg(test)]
#[test]
fn structs_match_the_layout_in_c() {
    use crate::layout::{assert_matches, layout_of};
    assert_matches(
        &["kernel.h", "../mp.h", "settings.h"],
        &[
            ("mp_settings", layout_of!(Settings: log_calls, template)),
            ("mp_key", layout_of!(Key: netns_cookie, token)),
            ("mp_entry", layout_of!(Entry: references, key, connection)),
            (
                "mp_counters",
                layout_of!(
                    Counters: owners, sockets, slots_full, entries_full, without_slot, calls_dropped, hooks_skipped
                ),
            ),
            (
                "mp_call",
                layout_of!(Call: hook, slot, now_us, ack, result, owner, is_after, connection),
            ),
        ],
    );
}
