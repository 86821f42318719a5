//! One controller in charge of one subflow, whichever kind it is.

use mp_controllers::{learned, Ack, Connection, Controller, Kind, UNKNOWN};
use mp_policy::actor::{Pilot, Record};

use crate::congestion::{Control, Event, Flow, RateSample, State};
use crate::rivals::{bbr::Bbr, cubic::Cubic};

/// The controller that a network steers.
pub const LEARNED: &str = "ddpg-mpcc";

#[derive(Debug)]
pub enum Congestion {
    /// A shared C controller; its state is in a slot of the connection.
    Shared {
        controller: &'static Controller,
        slot: usize,
        /// Forward one-way delay above its minimum, µs.
        queue_owd_us: u64,
        pilot: Option<Box<Attendant>>,
    },
    Cubic(Box<Cubic>),
    Bbr(Box<Bbr>),
}

/// Runs the network of a learned controller: answers each record as it appears.
#[derive(Debug)]
pub struct Attendant {
    pilot: Pilot,
    serial: u64,
}

/// What a pilot learns of a subflow's latest monitor interval.
pub(crate) fn record_of(subflow: &mp_controllers::Subflow) -> Record {
    let seen = learned::Record::of(subflow);
    Record {
        rate: seen.rate,
        mss: subflow.mss,
        delivered: seen.delivered,
        lost: seen.lost,
        elapsed_us: seen.elapsed_us,
        rtt_us: seen.rtt_us,
        min_rtt_us: subflow.min_rtt_us,
    }
}

impl Attendant {
    fn attend(&mut self, shared: &mut Connection, slot: usize) {
        let subflow = &shared.subflows[slot];
        let serial = learned::Record::serial_of(subflow);
        if serial != self.serial {
            self.serial = serial;
            let rate = self.pilot.answer(&record_of(subflow));
            learned::answer(shared, slot, rate);
        }
    }
}

/// A name that the simulator knows, ready to be given to subflows.
#[derive(Debug, Clone, Copy)]
pub enum Kindred {
    Shared(&'static Controller),
    /// A learned controller whose answers come from outside ([`crate::env`]).
    Asked(&'static Controller),
    Cubic,
    Bbr,
}

impl Kindred {
    /// `linux-reno` is the kernel's name for what is our `reno` here.
    pub fn find(name: &str) -> Option<Kindred> {
        match name {
            "cubic" => Some(Kindred::Cubic),
            "bbr" => Some(Kindred::Bbr),
            "linux-reno" => mp_controllers::find("reno").map(Kindred::Shared),
            _ => mp_controllers::find(name).map(Kindred::Shared),
        }
    }

    /// What one subflow loses slows down the others too.
    pub fn coupled(self) -> bool {
        matches!(self, Kindred::Shared(c) if c.name != "reno" && c.kind == mp_controllers::Kind::Window)
    }

    pub fn build(self, slot: usize) -> Congestion {
        match self {
            Kindred::Shared(controller) => Congestion::Shared {
                controller,
                slot,
                queue_owd_us: UNKNOWN,
                pilot: (controller.name == LEARNED).then(|| {
                    Box::new(Attendant {
                        pilot: Pilot::shipped(),
                        serial: 0,
                    })
                }),
            },
            Kindred::Asked(controller) => Congestion::Shared {
                controller,
                slot,
                queue_owd_us: UNKNOWN,
                pilot: None,
            },
            Kindred::Cubic => Congestion::Cubic(Box::default()),
            Kindred::Bbr => Congestion::Bbr(Box::default()),
        }
    }
}

/// Copies the facts of a flow into its slot.
#[inline]
fn store(flow: &Flow, queue_owd_us: u64, shared: &mut Connection, slot: usize) {
    let s = &mut shared.subflows[slot];
    s.rtt_us = u64::from(flow.rtt_us);
    s.srtt_us = u64::from(flow.srtt_us);
    s.min_rtt_us = if flow.min_rtt_us == u32::MAX {
        UNKNOWN
    } else {
        u64::from(flow.min_rtt_us)
    };
    s.queue_owd_us = queue_owd_us;
    s.delivered = flow.delivered;
    s.lost = flow.lost;
    s.backup = u64::from(flow.backup);
    s.cwnd = u64::from(flow.cwnd);
    s.ssthresh = u64::from(flow.ssthresh);
}

/// Takes the decisions out of the slot.
#[inline]
fn load(flow: &mut Flow, shared: &Connection, slot: usize) {
    let s = &shared.subflows[slot];
    flow.cwnd = s.cwnd.clamp(1, u64::from(u32::MAX)) as u32;
    flow.ssthresh = s
        .ssthresh
        .min(u64::from(crate::congestion::INFINITE_SSTHRESH)) as u32;
    if s.pacing_rate != 0 {
        flow.pacing = true;
        flow.pacing_rate = s.pacing_rate;
    }
}

impl Congestion {
    /// Sets window and pacing rate itself on each ACK.
    #[inline]
    pub fn owns_window(&self) -> bool {
        match self {
            Congestion::Shared { controller, .. } => controller.kind == Kind::Rate,
            Congestion::Cubic(_) => Cubic::OWNS_WINDOW,
            Congestion::Bbr(_) => Bbr::OWNS_WINDOW,
        }
    }

    pub fn wants_samples(&self) -> bool {
        matches!(self, Congestion::Bbr(_))
    }

    pub fn init(&mut self, flow: &mut Flow, shared: &mut Connection) {
        match self {
            Congestion::Shared {
                controller,
                slot,
                queue_owd_us,
                ..
            } => {
                shared.subflows[*slot] = mp_controllers::Subflow {
                    owner: *slot as u64 + 1,
                    mss: u64::from(flow.mss),
                    ..Default::default()
                };
                store(flow, *queue_owd_us, shared, *slot);
                controller.init(shared, *slot, flow.now_us());
                load(flow, shared, *slot);
            }
            Congestion::Cubic(c) => c.init(flow),
            Congestion::Bbr(c) => c.init(flow),
        }
    }

    #[inline]
    pub fn on_rtt(&mut self, flow: &mut Flow, shared: &mut Connection, acked: u32, sampled: bool) {
        match self {
            Congestion::Shared {
                controller,
                slot,
                queue_owd_us,
                ..
            } => {
                if sampled {
                    store(flow, *queue_owd_us, shared, *slot);
                    controller.on_rtt(shared, *slot, flow.now_us());
                    load(flow, shared, *slot);
                }
            }
            Congestion::Cubic(c) => c.on_rtt(flow, acked, sampled),
            Congestion::Bbr(c) => c.on_rtt(flow, acked, sampled),
        }
    }

    #[inline]
    pub fn on_ack(&mut self, flow: &mut Flow, shared: &mut Connection, acked: u32) {
        match self {
            Congestion::Shared {
                controller,
                slot,
                queue_owd_us,
                ..
            } => {
                store(flow, *queue_owd_us, shared, *slot);
                let ack = Ack {
                    now_us: flow.now_us(),
                    acked: u64::from(acked),
                    is_cwnd_limited: u64::from(flow.is_cwnd_limited),
                    max_packets_out: u64::from(flow.max_packets_out),
                };
                controller.on_ack(shared, *slot, &ack);
                load(flow, shared, *slot);
            }
            Congestion::Cubic(c) => c.on_ack(flow, acked),
            Congestion::Bbr(c) => c.on_ack(flow, acked),
        }
    }

    pub fn on_loss(&mut self, flow: &mut Flow, shared: &mut Connection) -> u32 {
        match self {
            Congestion::Shared {
                controller,
                slot,
                queue_owd_us,
                ..
            } => {
                store(flow, *queue_owd_us, shared, *slot);
                shared.subflows[*slot].prior_cwnd = u64::from(flow.cwnd);
                let ssthresh = controller.on_loss(shared, *slot, flow.now_us());
                ssthresh.min(u64::from(crate::congestion::INFINITE_SSTHRESH)) as u32
            }
            Congestion::Cubic(c) => c.on_loss(flow),
            Congestion::Bbr(c) => c.on_loss(flow),
        }
    }

    pub fn on_undo(&mut self, flow: &mut Flow, shared: &mut Connection) -> u32 {
        match self {
            Congestion::Shared {
                controller,
                slot,
                queue_owd_us,
                ..
            } => {
                store(flow, *queue_owd_us, shared, *slot);
                shared.subflows[*slot].prior_cwnd = u64::from(flow.prior_cwnd);
                let cwnd = controller.on_undo(shared, *slot);
                cwnd.clamp(1, u64::from(u32::MAX)) as u32
            }
            Congestion::Cubic(c) => c.on_undo(flow),
            Congestion::Bbr(c) => c.on_undo(flow),
        }
    }

    pub fn on_state(&mut self, flow: &mut Flow, state: State) {
        match self {
            Congestion::Shared { .. } => {}
            Congestion::Cubic(c) => c.on_state(flow, state),
            Congestion::Bbr(c) => c.on_state(flow, state),
        }
    }

    /// Shows the siblings the window that a timeout left: on a dead path no ACK comes to do it, and the old window would
    /// count in their coupling for good.
    pub fn on_timeout(&self, flow: &Flow, shared: &mut Connection) {
        if let Congestion::Shared {
            slot, queue_owd_us, ..
        } = self
        {
            store(flow, *queue_owd_us, shared, *slot);
        }
    }

    pub fn on_event(&mut self, flow: &mut Flow, event: Event) {
        match self {
            Congestion::Shared { .. } => {}
            Congestion::Cubic(c) => c.on_event(flow, event),
            Congestion::Bbr(c) => c.on_event(flow, event),
        }
    }

    /// Each ACK, for a controller that owns its window.
    pub fn on_rate_sample(
        &mut self,
        flow: &mut Flow,
        shared: &mut Connection,
        sample: &RateSample,
    ) {
        match self {
            Congestion::Shared {
                controller,
                slot,
                queue_owd_us,
                pilot,
            } => {
                store(flow, *queue_owd_us, shared, *slot);
                controller.on_interval(shared, *slot, flow.now_us());
                if let Some(pilot) = pilot {
                    pilot.attend(shared, *slot);
                }
                load(flow, shared, *slot);
            }
            Congestion::Cubic(c) => c.on_rate_sample(flow, sample),
            Congestion::Bbr(c) => c.on_rate_sample(flow, sample),
        }
    }

    pub fn on_close(&mut self, flow: &mut Flow, shared: &mut Connection) {
        match self {
            Congestion::Shared {
                controller, slot, ..
            } => controller.on_close(shared, *slot),
            Congestion::Cubic(c) => c.on_close(flow),
            Congestion::Bbr(c) => c.on_close(flow),
        }
    }
}
