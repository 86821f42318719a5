//! The congestion controllers: C headers shared with the kernel build, compiled natively here, behind a safe wrapper;
//! and the one registry of their names.
//!
//! ```
//! let lia = mp_controllers::find("lia").unwrap();
//! let mut connection = lia.connection();
//! connection.subflows[0] = mp_controllers::Subflow { owner: 1, srtt_us: 20_000, cwnd: 10, ssthresh: 5, ..Default::default() };
//! lia.init(&mut connection, 0, 0);
//! let ack = mp_controllers::Ack { acked: 10, is_cwnd_limited: 1, ..Default::default() };
//! lia.on_ack(&mut connection, 0, &ack);
//! assert_eq!(connection.subflows[0].cwnd, 11);
//! ```

mod abi;
mod entries;
pub mod learned;
mod registry;

use std::ops::Deref;

pub use abi::{
    Ack, Connection, Subflow, FRACTION_BITS, INFINITE_SSTHRESH, MAX_SUBFLOWS, MIN_CWND, PARAMETERS,
    STATE_WORDS, UNKNOWN,
};
pub use entries::{Entry, KernelOwn, Kind, KERNEL_OWN};
pub use registry::{all, entries, entry, find, kernel_own};

/// Folder of the headers, for crates that compile them for another target.
pub const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../controllers");

/// One congestion controller. Its hooks are documented in `controllers/mp.h`.
///
/// A connection has [`MAX_SUBFLOWS`] slots. A subflow beyond those gets a [`Connection`] of its own, in which it is
/// alone, and every controller here then acts as its single-path form.
#[derive(Debug)]
pub struct Controller {
    entry: &'static Entry,
    hooks: &'static abi::Hooks,
}

impl Deref for Controller {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        self.entry
    }
}

impl Controller {
    /// A connection without subflows, set to this controller's defaults.
    pub fn connection(&self) -> Connection {
        let mut connection = Connection::default();
        for (word, parameter) in connection.parameters.iter_mut().zip(self.parameters) {
            *word = parameter.default;
        }
        connection
    }

    /// Congestion windows that a subflow's send buffer should hold (`sndbuf_expand`).
    #[inline]
    pub fn send_buffer_windows(&self) -> u64 {
        self.hooks.send_buffer_windows
    }

    /// The subflow in `slot` has joined; cwnd and ssthresh are set.
    pub fn init(&self, connection: &mut Connection, slot: usize, now_us: u64) {
        // SAFETY: see `abi::Hooks`; `checked` keeps the slot in bounds.
        unsafe { (self.hooks.init)(connection, checked(slot), now_us) }
    }

    /// A new RTT sample is in the slot's facts.
    pub fn on_rtt(&self, connection: &mut Connection, slot: usize, now_us: u64) {
        // SAFETY: as in `init`.
        unsafe { (self.hooks.on_rtt)(connection, checked(slot), now_us) }
    }

    /// An ACK that may grow the window. Nothing to do for [`Kind::Rate`].
    #[inline]
    pub fn on_ack(&self, connection: &mut Connection, slot: usize, ack: &Ack) {
        if let Some(on_ack) = self.hooks.on_ack {
            // SAFETY: as in `init`.
            unsafe { on_ack(connection, checked(slot), ack) }
        }
    }

    /// One congestion event; returns the new ssthresh in packets.
    pub fn on_loss(&self, connection: &mut Connection, slot: usize, now_us: u64) -> u64 {
        // SAFETY: as in `init`.
        unsafe { (self.hooks.on_loss)(connection, checked(slot), now_us) }
    }

    /// The event was spurious; returns the window to restore in packets.
    pub fn on_undo(&self, connection: &mut Connection, slot: usize) -> u64 {
        // SAFETY: as in `init`.
        unsafe { (self.hooks.on_undo)(connection, checked(slot)) }
    }

    /// The subflow leaves; its slot is free afterwards.
    pub fn on_close(&self, connection: &mut Connection, slot: usize) {
        // SAFETY: as in `init`.
        unsafe { (self.hooks.on_close)(connection, checked(slot)) }
        connection.subflows[slot] = Subflow::default();
    }

    /// Every ACK, for [`Kind::Rate`]; nothing to do for [`Kind::Window`].
    #[inline]
    pub fn on_interval(&self, connection: &mut Connection, slot: usize, now_us: u64) {
        if let Some(on_interval) = self.hooks.on_interval {
            // SAFETY: as in `init`.
            unsafe { on_interval(connection, checked(slot), now_us) }
        }
    }
}

#[inline]
fn checked(slot: usize) -> u32 {
    assert!(
        slot < MAX_SUBFLOWS,
        "slot {slot}: a connection has {MAX_SUBFLOWS}"
    );
    slot as u32
}
