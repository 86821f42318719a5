//! Flows that the relay holds for devices that are away, and which of them it gives up when they take too much memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::{future::Future, pin::Pin};

use tokio::sync::oneshot;

use crate::lock;
use crate::wire::ID_LENGTH;

/// What held flows may take, bytes: those of one device, and all together.
pub const LIMITS: Limits = Limits {
    device: 64 << 20,
    all: 256 << 20,
};
/// What one takes beside the bytes of its streams.
const FLOW: usize = 1 << 15;
/// Flows whose streams differ by less are of one size.
const COARSE: usize = 1 << 18;

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub device: usize,
    pub all: usize,
}

type Device = [u8; ID_LENGTH];

#[derive(Debug)]
struct Held {
    bytes: usize,
    /// Dropped when it is given up.
    _kept: oneshot::Sender<()>,
}

#[derive(Debug, Default)]
struct Share {
    bytes: usize,
    /// In order of their beginning.
    flows: BTreeMap<u64, Held>,
}

impl Share {
    /// The largest, and of those of one size the one that was held longest.
    fn worst(&self) -> Option<u64> {
        let order = |(at, held): &(&u64, &Held)| (held.bytes / COARSE, std::cmp::Reverse(**at));
        self.flows.iter().max_by_key(order).map(|(at, _)| *at)
    }
}

/// Without a clock: the order of their coming is all that counts.
#[derive(Debug)]
pub struct Holding {
    limits: Limits,
    bytes: usize,
    next: u64,
    devices: HashMap<Device, Share>,
}

impl Holding {
    pub fn new(limits: Limits) -> Holding {
        Holding {
            limits,
            bytes: 0,
            next: 0,
            devices: HashMap::new(),
        }
    }

    /// From now on a flow of this device is held. What comes from the receiver is its end.
    fn begin(&mut self, device: Device, bytes: usize) -> (u64, oneshot::Receiver<()>) {
        let (kept, over) = oneshot::channel();
        let at = self.next;
        self.next += 1;
        let held = Held { bytes, _kept: kept };
        let share = self.devices.entry(device).or_default();
        share.flows.insert(at, held);
        share.bytes += bytes;
        self.bytes += bytes;
        self.shrink(device);
        (at, over)
    }

    fn resize(&mut self, device: Device, at: u64, bytes: usize) {
        let Some(share) = self.devices.get_mut(&device) else {
            return;
        };
        let Some(held) = share.flows.get_mut(&at) else {
            return;
        };
        share.bytes = share.bytes - held.bytes + bytes;
        self.bytes = self.bytes - held.bytes + bytes;
        held.bytes = bytes;
        self.shrink(device);
    }

    fn remove(&mut self, device: Device, at: u64) {
        let Some(share) = self.devices.get_mut(&device) else {
            return;
        };
        if let Some(held) = share.flows.remove(&at) {
            share.bytes -= held.bytes;
            self.bytes -= held.bytes;
        }
        if share.flows.is_empty() {
            self.devices.remove(&device);
        }
    }

    /// Gives up a flow of this device: it needs the place. Whether there was one.
    pub fn make_place(&mut self, device: Device) -> bool {
        let worst = self.devices.get(&device).and_then(Share::worst);
        worst.inspect(|at| self.remove(device, *at)).is_some()
    }

    /// The device that has most loses: none is hurt by another's greed while it holds less.
    fn shrink(&mut self, changed: Device) {
        let bytes = |share: &Share| share.bytes;
        while self.devices.get(&changed).map_or(0, bytes) > self.limits.device {
            self.make_place(changed);
        }
        while self.bytes > self.limits.all {
            let most = self.devices.iter().max_by_key(|(_, share)| share.bytes);
            let Some(most) = most.map(|(device, _)| *device) else {
                return;
            };
            self.make_place(most);
        }
    }

    /// Bytes that held flows take, as far as is known.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn flows(&self) -> usize {
        self.devices.values().map(|share| share.flows.len()).sum()
    }
}

/// One flow's place among them, which it has while it is held.
#[derive(Debug)]
pub struct Place {
    holding: Arc<Mutex<Holding>>,
    device: Device,
    held: Option<(u64, usize, oneshot::Receiver<()>)>,
    given_up: bool,
}

impl Place {
    pub fn new(holding: Arc<Mutex<Holding>>, device: Device) -> Place {
        Place {
            holding,
            device,
            held: None,
            given_up: false,
        }
    }

    /// It has no path, and its streams take so many bytes.
    pub fn hold(&mut self, streams: usize) {
        if self.given_up {
            return;
        }
        let bytes = streams + FLOW;
        match &mut self.held {
            Some((_, known, _)) if *known == bytes => {}
            Some((at, known, _)) => {
                *known = bytes;
                lock(&self.holding).resize(self.device, *at, bytes);
            }
            None => {
                let (at, over) = lock(&self.holding).begin(self.device, bytes);
                self.held = Some((at, bytes, over));
            }
        }
    }

    /// It has a path again.
    pub fn release(&mut self) {
        if let Some((at, ..)) = self.held.take() {
            lock(&self.holding).remove(self.device, at);
        }
    }

    /// Ready once it is to end, for want of memory.
    pub fn poll_given_up(&mut self, cx: &mut Context) -> Poll<()> {
        let Some((_, _, over)) = &mut self.held else {
            return match self.given_up {
                true => Poll::Ready(()),
                false => Poll::Pending,
            };
        };
        let polled = Pin::new(over).poll(cx).map(drop);
        if polled.is_ready() {
            self.held = None;
            self.given_up = true;
        }
        polled
    }

    pub fn is_given_up(&self) -> bool {
        self.given_up
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use proptest::prelude::*;

    use super::*;

    const MB: usize = 1 << 20;

    fn given_up(place: &mut Place) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        place.poll_given_up(&mut cx).is_ready()
    }

    fn holding(device: usize, all: usize) -> Arc<Mutex<Holding>> {
        Arc::new(Mutex::new(Holding::new(Limits { device, all })))
    }

    fn held(holding: &Arc<Mutex<Holding>>, device: u8, bytes: usize) -> Place {
        let mut place = Place::new(holding.clone(), [device; ID_LENGTH]);
        place.hold(bytes);
        place
    }

    #[test]
    fn the_largest_goes_first_and_then_the_oldest() {
        let holding = holding(4 * MB, 100 * MB);
        let mut shells: Vec<Place> = (0..3).map(|i| held(&holding, 1, i * 100)).collect();
        let mut download = held(&holding, 1, 3 * MB);
        let mut another = held(&holding, 1, MB);
        assert!(given_up(&mut download) && !given_up(&mut another));
        assert!(shells.iter_mut().all(|shell| !given_up(shell)));
        drop(another);
        assert!(lock(&holding).make_place([1; ID_LENGTH]));
        assert!(given_up(&mut shells[0]) && !given_up(&mut shells[1]));
        assert!(!lock(&holding).make_place([2; ID_LENGTH]));
    }

    #[test]
    fn the_device_that_has_most_loses() {
        let holding = holding(100 * MB, 10 * MB);
        let mut modest = held(&holding, 1, MB);
        let mut greedy: Vec<Place> = (0..9).map(|_| held(&holding, 2, MB)).collect();
        let mut other = held(&holding, 3, 2 * MB);
        let lost = greedy.iter_mut().filter_map(|g| given_up(g).then_some(()));
        assert!(lost.count() >= 2);
        assert!(!given_up(&mut modest) && !given_up(&mut other));
    }

    #[test]
    fn a_flow_with_a_path_again_is_not_given_up() {
        let holding = holding(MB, MB);
        let mut back = held(&holding, 1, MB / 2);
        back.release();
        let mut other = held(&holding, 1, MB / 2);
        assert!(!given_up(&mut back) && !given_up(&mut other));
        back.hold(MB / 2);
        assert!(given_up(&mut other) && !given_up(&mut back));
        other.hold(1);
        assert!(given_up(&mut other), "once and for all");
    }

    proptest! {
        /// Whatever flows come, grow and go: the limits hold, what is counted is what is held, and nobody is told twice.
        #[test]
        fn memory_is_bounded(steps in prop::collection::vec((0u8..4, 0usize..40, 0usize..3 * MB, 0u8..4), 1..200)) {
            let limits = Limits { device: 4 * MB, all: 9 * MB };
            let holding = holding(limits.device, limits.all);
            let mut places: Vec<(u8, Option<Place>)> = (0..40).map(|i| (i % 4, None)).collect();
            for (what, index, bytes, device) in steps {
                let (owner, place) = &mut places[index];
                match what {
                    0 | 1 => {
                        let place = place.get_or_insert_with(|| Place::new(holding.clone(), [*owner; ID_LENGTH]));
                        place.hold(bytes);
                    }
                    2 => if let Some(place) = place { place.release() },
                    _ if bytes % 2 == 0 => *place = None,
                    _ => { lock(&holding).make_place([device; ID_LENGTH]); }
                }
                let mut sums = [0; 4];
                for (owner, place) in &mut places {
                    if let Some(place) = place {
                        given_up(place);
                        sums[usize::from(*owner)] += place.held.as_ref().map_or(0, |(_, bytes, _)| *bytes);
                    }
                }
                let all: usize = sums.iter().sum();
                prop_assert!(sums.iter().all(|sum| *sum <= limits.device), "{:?}", sums);
                prop_assert!(all <= limits.all);
                prop_assert_eq!(lock(&holding).bytes(), all);
            }
            drop(places);
            let holding = lock(&holding);
            prop_assert_eq!((holding.bytes(), holding.flows(), holding.devices.len()), (0, 0, 0));
        }
    }
}
