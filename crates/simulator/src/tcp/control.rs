//! One controller in charge of one subflow, whichever kind it is.

use mp_controllers::{learned, Ack, Connection, Controller, Kind, UNKNOWN};
use mp_policy::actor::{Pilot, Record};

use crate::congestion::{Control, Event, Flow, RateSample, State, INFINITE_SSTHRESH};
use crate::linux::{bbr::Bbr, cubic::Cubic};

/// The controller that a network steers.
pub const LEARNED: &str = learned::NAME;

#[derive(Debug)]
pub enum Congestion {
    Shared(Shared),
    Cubic(Box<Cubic>),
    Bbr(Box<Bbr>),
}

/// A shared C controller; its state is in a slot of the connection.
#[derive(Debug)]
pub struct Shared {
    controller: &'static Controller,
    slot: usize,
    /// Forward one-way delay above its minimum, µs.
    pub queue_owd_us: u64,
    /// A rate-based controller hears of this ACK's sample as it is called for the ACK: facts are copied once for both.
    sampled: bool,
    pilot: Option<Box<Attendant>>,
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

    /// `seed` is that of its random choices.
    pub fn build(self, slot: usize, seed: u64) -> Congestion {
        let (controller, piloted) = match self {
            Kindred::Shared(controller) => (controller, controller.name == LEARNED),
            Kindred::Asked(controller) => (controller, false),
            Kindred::Cubic => return Congestion::Cubic(Box::default()),
            Kindred::Bbr => return Congestion::Bbr(Box::new(Bbr::new(seed))),
        };
        Congestion::Shared(Shared {
            controller,
            slot,
            queue_owd_us: UNKNOWN,
            sampled: false,
            pilot: piloted.then(|| {
                Box::new(Attendant {
                    pilot: Pilot::shipped(),
                    serial: 0,
                })
            }),
        })
    }
}

impl Shared {
    /// Copies the facts of a flow into its slot.
    #[inline]
    fn store(&self, flow: &Flow, shared: &mut Connection) {
        let s = &mut shared.subflows[self.slot];
        s.srtt_us = u64::from(flow.srtt_us);
        s.delivered = flow.delivered;
        s.lost = flow.lost;
        s.backup = u64::from(flow.backup);
        s.in_flight = u64::from(flow.in_flight());
        s.ce = flow.ce;
        s.phase = flow.state as u64;
        s.app_limited = u64::from(flow.idle && flow.in_flight() < flow.cwnd);
        s.unsacked = u64::from(flow.packets_out() - flow.sacked_out);
        s.cwnd = u64::from(flow.cwnd);
        s.ssthresh = u64::from(flow.ssthresh);
    }

    /// The controller gets the latest sample. As in the kernel (`glue_rtt_facts`) the minimum is that of the samples it
    /// got: neither the handshake's nor, for a window's rule, those during recovery are among them.
    #[inline]
    fn sample(&self, flow: &Flow, shared: &mut Connection) {
        let s = &mut shared.subflows[self.slot];
        s.rtt_us = u64::from(flow.rtt_us);
        s.min_rtt_us = s.min_rtt_us.min(s.rtt_us);
        s.queue_owd_us = self.queue_owd_us;
        self.controller.on_rtt(shared, self.slot, flow.now_us());
    }

    /// Takes the decisions out of the slot.
    #[inline]
    fn load(&self, flow: &mut Flow, shared: &Connection) {
        let s = &shared.subflows[self.slot];
        flow.cwnd = s.cwnd.clamp(1, u64::from(u32::MAX)) as u32;
        flow.ssthresh = s.ssthresh.min(u64::from(INFINITE_SSTHRESH)) as u32;
        if s.pacing_rate != 0 {
            flow.pacing = true;
            flow.pacing_rate = s.pacing_rate;
        }
    }

    /// The controller acts on what the flow knows, and its decisions hold.
    #[inline]
    fn decide(
        &mut self,
        flow: &mut Flow,
        shared: &mut Connection,
        act: impl FnOnce(&mut Self, &Flow, &mut Connection),
    ) {
        self.store(flow, shared);
        act(self, flow, shared);
        self.load(flow, shared);
    }

    /// It is asked for a number alone; `prior_cwnd` is the window before the reduction.
    fn ask(
        &self,
        flow: &Flow,
        shared: &mut Connection,
        prior_cwnd: u32,
        question: impl FnOnce(&Controller, &mut Connection) -> u64,
    ) -> u64 {
        self.store(flow, shared);
        shared.subflows[self.slot].prior_cwnd = u64::from(prior_cwnd);
        question(self.controller, shared)
    }

    fn init(&mut self, flow: &mut Flow, shared: &mut Connection) {
        shared.subflows[self.slot] = mp_controllers::Subflow {
            owner: self.slot as u64 + 1,
            mss: u64::from(flow.mss),
            ..Default::default()
        };
        self.decide(flow, shared, |s, flow, shared| {
            s.controller.init(shared, s.slot, flow.now_us());
        });
    }

    /// As in the kernel, where a window's rule has one hook: it hears the sample taken last with an ACK that may raise its
    /// window, and none during recovery.
    #[inline]
    fn on_ack(&mut self, flow: &mut Flow, shared: &mut Connection, acked: u32) {
        self.decide(flow, shared, |s, flow, shared| {
            if flow.rtt_us != 0 {
                s.sample(flow, shared);
            }
            let ack = Ack {
                now_us: flow.now_us(),
                acked: u64::from(acked),
                is_cwnd_limited: u64::from(flow.is_cwnd_limited),
                max_packets_out: u64::from(flow.max_packets_out),
            };
            s.controller.on_ack(shared, s.slot, &ack);
        });
    }

    fn on_interval(&mut self, flow: &mut Flow, shared: &mut Connection) {
        self.decide(flow, shared, |s, flow, shared| {
            if std::mem::take(&mut s.sampled) {
                s.sample(flow, shared);
            }
            s.controller.on_interval(shared, s.slot, flow.now_us());
            if let Some(pilot) = &mut s.pilot {
                pilot.attend(shared, s.slot);
            }
        });
    }
}

impl Congestion {
    /// Sets window and pacing rate itself on each ACK.
    #[inline]
    pub fn owns_window(&self) -> bool {
        match self {
            Congestion::Shared(s) => s.controller.kind == Kind::Rate,
            Congestion::Cubic(_) => Cubic::OWNS_WINDOW,
            Congestion::Bbr(_) => Bbr::OWNS_WINDOW,
        }
    }

    /// Windows that a send buffer is to hold (`sndbuf_expand`).
    #[inline]
    pub fn buffer_windows(&self) -> u64 {
        match self {
            Congestion::Shared(s) => s.controller.send_buffer_windows(),
            Congestion::Cubic(_) => 2,
            // It may slow-start even during recovery.
            Congestion::Bbr(_) => 3,
        }
    }

    pub fn wants_samples(&self) -> bool {
        matches!(self, Congestion::Bbr(_))
    }

    pub fn init(&mut self, flow: &mut Flow, shared: &mut Connection) {
        match self {
            Congestion::Shared(s) => s.init(flow, shared),
            Congestion::Cubic(c) => c.init(flow),
            Congestion::Bbr(c) => c.init(flow),
        }
    }

    #[inline]
    pub fn on_rtt(&mut self, flow: &mut Flow, acked: u32, sampled: bool) {
        match self {
            Congestion::Shared(s) => s.sampled |= sampled,
            Congestion::Cubic(c) => c.on_rtt(flow, acked, sampled),
            Congestion::Bbr(c) => c.on_rtt(flow, acked, sampled),
        }
    }

    #[inline]
    pub fn on_ack(&mut self, flow: &mut Flow, shared: &mut Connection, acked: u32) {
        match self {
            Congestion::Shared(s) => s.on_ack(flow, shared, acked),
            Congestion::Cubic(c) => c.on_ack(flow, acked),
            Congestion::Bbr(c) => c.on_ack(flow, acked),
        }
    }

    pub fn on_loss(&mut self, flow: &mut Flow, shared: &mut Connection) -> u32 {
        match self {
            Congestion::Shared(s) => {
                let ssthresh = s.ask(flow, shared, flow.cwnd, |c, shared| {
                    c.on_loss(shared, s.slot, flow.now_us())
                });
                // It hears nothing until recovery ends: siblings see from now on what that will end with.
                let seen = &mut shared.subflows[s.slot].cwnd;
                *seen = ssthresh.min(*seen);
                ssthresh.min(u64::from(INFINITE_SSTHRESH)) as u32
            }
            Congestion::Cubic(c) => c.on_loss(flow),
            Congestion::Bbr(c) => c.on_loss(flow),
        }
    }

    pub fn on_undo(&mut self, flow: &mut Flow, shared: &mut Connection) -> u32 {
        match self {
            Congestion::Shared(s) => {
                let cwnd = s.ask(flow, shared, flow.prior_cwnd, |c, shared| {
                    c.on_undo(shared, s.slot)
                });
                cwnd.clamp(1, u64::from(u32::MAX)) as u32
            }
            Congestion::Cubic(c) => c.on_undo(flow),
            Congestion::Bbr(c) => c.on_undo(flow),
        }
    }

    pub fn on_state(&mut self, flow: &mut Flow, state: State) {
        match self {
            Congestion::Shared(_) => {}
            Congestion::Cubic(c) => c.on_state(flow, state),
            Congestion::Bbr(c) => c.on_state(flow, state),
        }
    }

    /// Shows the siblings the window that a timeout left: on a dead path no ACK comes to do it, and the old window would
    /// count in their coupling for good.
    pub fn on_timeout(&self, flow: &Flow, shared: &mut Connection) {
        if let Congestion::Shared(s) = self {
            s.store(flow, shared);
        }
    }

    pub fn on_event(&mut self, flow: &mut Flow, event: Event) {
        match self {
            Congestion::Shared(_) => {}
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
            Congestion::Shared(s) => s.on_interval(flow, shared),
            Congestion::Cubic(c) => c.on_rate_sample(flow, sample),
            Congestion::Bbr(c) => c.on_rate_sample(flow, sample),
        }
    }

    pub fn on_close(&mut self, flow: &mut Flow, shared: &mut Connection) {
        match self {
            Congestion::Shared(s) => s.controller.on_close(shared, s.slot),
            Congestion::Cubic(c) => c.on_close(flow),
            Congestion::Bbr(c) => c.on_close(flow),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_see_what_recovery_will_end_with_and_a_window_hears_no_sample_until_it_may_grow() {
        let olia = Kindred::find("olia").expect("a controller");
        let mut shared = Connection::default();
        let mut congestion = olia.build(0, 0);
        let mut flow = Flow {
            cwnd: 40,
            ssthresh: 40,
            mss: 1448,
            rtt_us: 20_000,
            srtt_us: 20_000,
            min_rtt_us: 20_000,
            ..Flow::default()
        };
        congestion.init(&mut flow, &mut shared);
        congestion.on_ack(&mut flow, &mut shared, 1);
        let ssthresh = congestion.on_loss(&mut flow, &mut shared);
        assert!(ssthresh < 40);
        assert_eq!(shared.subflows[0].cwnd, u64::from(ssthresh));
        flow.rtt_us = 50_000;
        congestion.on_rtt(&mut flow, 1, true);
        assert_eq!(shared.subflows[0].rtt_us, 20_000);
        congestion.on_ack(&mut flow, &mut shared, 1);
        assert_eq!(shared.subflows[0].rtt_us, 50_000);
    }
}
