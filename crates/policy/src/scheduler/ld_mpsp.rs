//! LD-MPSP's scheduler: delay balancing says which link a packet is for and what its controller aims at, cloning whether a
//! copy goes elsewhere. Its controller is `controllers/ld_mpsp.h`, its path manager MS-UCB.

use super::{Choice, Cloning, ConnectionView, DelayBalance, Schedule, SubflowView};

#[derive(Debug, Clone, Default)]
pub struct LdMpsp {
    balance: DelayBalance,
    cloning: Cloning,
}

impl Schedule for LdMpsp {
    fn pick(&mut self, connection: &ConnectionView, subflows: &[SubflowView]) -> Choice {
        let choice = self.balance.pick(connection, subflows);
        self.cloning.copied(connection, subflows, choice)
    }

    fn queue_target_us(&self) -> Option<u64> {
        self.balance.queue_target_us()
    }

    fn forget(&mut self, subflow: usize) {
        self.balance.forget(subflow);
        self.cloning.forget(subflow);
    }

    fn plans_ahead(&self) -> bool {
        true
    }
}
