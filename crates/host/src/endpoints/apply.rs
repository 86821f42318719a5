//! Making the kernel's endpoints what they should be.

use std::net::IpAddr;

use mp_kernel::diag::Subflow;
use mp_kernel::pm::{self, Endpoint, Flags};
use nix::errno::Errno;

use super::{at, indispensable, ChangeKind, EndpointChange, Endpoints};
use crate::adapter::{Again, Wanted};
use crate::Error;

/// What [`Endpoints::apply`] has done.
#[derive(Debug, Default)]
pub struct Applied {
    pub done: Vec<EndpointChange>,
    /// The first endpoint that the kernel did not take. All else was done.
    pub refused: Option<Error>,
}

impl Endpoints {
    /// Makes the kernel's endpoints what they should be; those at the addresses of `again` anew, and those of `stuck` even
    /// if a subflow is there, which has died but does not know it yet. What was deleted is added no sooner than the peer
    /// knows: [`Endpoints::differ`] says when to call again.
    /// Endpoints of others are changed in nothing but their backup flag, and deleted for good only by
    /// [`Endpoints::keep_off`].
    /// None goes that a connection of `subflows` cannot do without: the kernel closes the subflows of an endpoint with it.
    pub fn apply(
        &mut self,
        wanted: &[Wanted],
        again: &Again,
        subflows: &[Subflow],
    ) -> Result<Applied, Error> {
        let there = self.list()?;
        let mut done = self.close_unwanted(&there, wanted, subflows)?;
        let rested = self.removed.rested();
        self.note_whose(&there, wanted, &rested);
        let anew = anew(&there, again, subflows);
        let to_go = there.iter().filter(|e| anew.contains(&e.address));
        self.owe(to_go.chain(&rested));
        // First the way back, then the changes.
        self.save()?;
        let opened = self.open_wanted(&there, wanted, &anew, &rested, subflows)?;
        done.extend(opened.done);
        let paid = self.pay_rested();
        done.extend(self.set_backup(&there, wanted, &anew)?);
        done.extend(self.retry(&there, wanted, again, &anew)?);
        self.applied = wanted.to_vec();
        let refused = opened.refused.or(paid.err());
        Ok(Applied { done, refused })
    }

    /// Deletes those of ours that are not wanted any more.
    fn close_unwanted(
        &mut self,
        there: &[Endpoint],
        wanted: &[Wanted],
        subflows: &[Subflow],
    ) -> Result<Vec<EndpointChange>, Error> {
        let (mut gone, mut done) = (Vec::new(), Vec::new());
        for endpoint in there {
            let address = endpoint.address;
            let ours = self.before.added.contains(&address);
            let unwanted = ours && !wanted.iter().any(|w| w.address == address);
            if unwanted && !indispensable(address, &gone, subflows) {
                self.manager.delete_endpoint(endpoint)?;
                self.removed.note(endpoint.clone(), false, subflows);
                gone.push(address);
                self.before.added.retain(|a| *a != address);
                done.push(EndpointChange::new(address, ChangeKind::Removed));
            }
        }
        Ok(done)
    }

    /// Of those that are wanted: which will be ours, and how those of others were before we changed them.
    fn note_whose(&mut self, there: &[Endpoint], wanted: &[Wanted], rested: &[Endpoint]) {
        for Wanted { address, .. } in wanted {
            let before = &mut self.before;
            if before.added.contains(address) {
                continue;
            }
            let adopted = before.adopted.iter().any(|(a, _)| a == address);
            let comes_back = || {
                let mut deleted = self.removed.again().chain(rested).chain(&before.owed);
                deleted.any(|e| e.address == *address)
            };
            match at(there, *address) {
                Some(e) if !adopted => before.adopted.push((*address, e.flags.backup)),
                None if !comes_back() => before.added.push(*address),
                _ => {}
            }
        }
    }

    /// Adds what is missing, and deletes what is to be added anew once it has rested, or on the interface that its address is
    /// on now.
    fn open_wanted(
        &mut self,
        there: &[Endpoint],
        wanted: &[Wanted],
        anew: &[IpAddr],
        rested: &[Endpoint],
        subflows: &[Subflow],
    ) -> Result<Applied, Error> {
        let mut applied = Applied::default();
        for w in wanted {
            let ours = self.before.added.contains(&w.address);
            // Its subflows are bound to an interface that has the address no more.
            let moved = |e: &Endpoint| {
                ours && e.interface != Some(w.interface) && !indispensable(w.address, &[], subflows)
            };
            match at(there, w.address) {
                Some(old) if anew.contains(&w.address) || moved(old) => {
                    self.manager.delete_endpoint(old)?;
                    self.removed.note(old.clone(), true, subflows);
                }
                Some(_) => {}
                None if self.removed.rests(w.address) => {}
                None => {
                    let back = at(rested, w.address).or(at(&self.before.owed, w.address));
                    let mut endpoint = back.cloned().unwrap_or_else(|| Endpoint {
                        interface: Some(w.interface),
                        ..Endpoint::new(w.address, Flags::SUBFLOW)
                    });
                    if ours {
                        endpoint.interface = Some(w.interface);
                    }
                    endpoint.flags.backup = w.backup;
                    if let Err(e) = self.manager.add_endpoint(&endpoint) {
                        applied.refused.get_or_insert(refused(w.address, e));
                        continue;
                    }
                    let what = back.map_or(ChangeKind::Added, |_| ChangeKind::AddedAgain);
                    applied.done.push(EndpointChange::new(w.address, what));
                }
            }
        }
        Ok(applied)
    }

    /// Others get theirs that rest no more back, wanted or not.
    fn pay_rested(&mut self) -> Result<(), Error> {
        let resting: Vec<IpAddr> = self.removed.again().map(|e| e.address).collect();
        let due = |e: &Endpoint| !resting.contains(&e.address);
        if !self.before.owed.iter().any(due) {
            return Ok(());
        }
        let paid = self.pay(due);
        self.save().and(paid)
    }

    /// First the promotions: never a moment without a normal endpoint.
    fn set_backup(
        &self,
        there: &[Endpoint],
        wanted: &[Wanted],
        anew: &[IpAddr],
    ) -> Result<Vec<EndpointChange>, Error> {
        let mut done = Vec::new();
        let stays = |w: &&Wanted| !anew.contains(&w.address);
        for backup in [false, true] {
            for w in wanted.iter().filter(|w| w.backup == backup).filter(stays) {
                let Some(old) = at(there, w.address).filter(|e| e.flags.backup != backup) else {
                    continue;
                };
                let mut changed = old.clone();
                changed.flags.backup = backup;
                self.manager.set_endpoint_flags(&changed)?;
                let what = match backup {
                    true => ChangeKind::SetToBackup,
                    false => ChangeKind::SetToNormal,
                };
                done.push(EndpointChange::new(w.address, what));
            }
        }
        Ok(done)
    }

    /// The kernel tells peers of changes alone, so that there has to be one.
    fn retry(
        &self,
        there: &[Endpoint],
        wanted: &[Wanted],
        again: &Again,
        anew: &[IpAddr],
    ) -> Result<Vec<EndpointChange>, Error> {
        let mut done = Vec::new();
        let retry = |w: &&Wanted| again.retry.contains(&w.address) && !anew.contains(&w.address);
        for w in wanted.iter().filter(retry) {
            // What was changed just now is told just now.
            let Some(old) = at(there, w.address).filter(|e| e.flags.backup == w.backup) else {
                continue;
            };
            let mut other = old.clone();
            other.flags.backup = !w.backup;
            self.manager.set_endpoint_flags(&other)?;
            self.manager.set_endpoint_flags(old)?;
            let what = match w.backup {
                true => ChangeKind::BackupRepeated,
                false => ChangeKind::NormalRepeated,
            };
            done.push(EndpointChange::new(w.address, what));
        }
        Ok(done)
    }
}

pub(super) fn refused(address: IpAddr, error: pm::Error) -> Error {
    match error.errno() {
        Some(errno) if errno == Errno::ERANGE as i32 => Error::Failed(format!(
            "no endpoint for {address}: the kernel takes no more (ip mptcp endpoint lists them); leave interfaces out with \
             `ignore`, or delete endpoints of others"
        )),
        _ => match Error::from(error) {
            Error::Missing(why) => Error::Missing(why),
            other => Error::Failed(format!("no endpoint for {address}: {other}")),
        },
    }
}

/// Addresses whose endpoints are to be made anew.
fn anew(there: &[Endpoint], again: &Again, subflows: &[Subflow]) -> Vec<IpAddr> {
    // One that only announces its address (`signal`) opens no subflow, however often it is made.
    let opens = |a: &&IpAddr| at(there, **a).is_none_or(|e| e.flags.subflow);
    // Those in use need no second opening.
    let used = |a: &IpAddr| subflows.iter().any(|s| s.local.ip() == *a);
    let dispensable = |a: &IpAddr| !indispensable(*a, &[], subflows);
    let missing = again.missing.iter().filter(|a| !used(a));
    let stuck = again.stuck.iter().filter(|a| dispensable(a));
    missing.chain(stuck).filter(opens).copied().collect()
}
