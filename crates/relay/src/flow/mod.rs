//! A flow at one of its ends: the application's (or the target's) connection on one side, path connections on the other,
//! and the two directions between them. One task each; nothing is shared between flows.

mod acks;
mod alone;
mod deal;
mod end;
mod join;
mod observe;

use std::future::{poll_fn, Future};
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use mp_policy::link::Priority;
use mp_policy::scheduler::{Entry, Schedule, Scheduler};
use mp_policy::MAX_SUBFLOWS;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::carrier::{with_scratch, Carrier};
use crate::control::Group;
use crate::hold::Place;
use crate::path::Path;
use crate::rates::{Throttle, Way};
use crate::stream::{Receiver, Sender, Violation};
use crate::wire::{Frame, Malformed, Opener, Refusal};

use acks::Acks;
use alone::Alone;
use end::Broken;
use observe::Observed;
pub use observe::{FlowStats, Observer, PathStats};

/// What each end takes before it says more, bytes; both count on it.
const FIRST_WINDOW: u64 = 1 << 20;
/// Bounds of the bytes under way in one direction.
const WINDOW: (u64, u64) = (1 << 18, 1 << 24);
/// Bounds of what is read from the application beyond what the paths have been given …
const AHEAD: (u64, u64) = (1 << 18, 1 << 21);
/// … which is so long at the paths' rate: twice what waits in their sockets. Schedulers that plan ahead (ECF) have a window, so
/// that they tell a long stream from the end of one.
const FED: Duration = Duration::from_millis(20);
/// From the application at once, bytes.
const MOST_READ: usize = 1 << 16;
/// One that has yet to be connected waits so long for a path: its program waits in `connect()`.
const PATIENCE: Duration = Duration::from_secs(60);
/// A flow that has nothing to do is looked at as often as this.
const LOOK: Duration = Duration::from_secs(60);
/// A flow that has carried nothing for so long gives back memory.
const REST: Duration = Duration::from_secs(1);
/// Time between two calls of a scheduler that has data and waits: the first, or up to the second while the paths' sockets have
/// enough. The second is also between two readings of paths that are busy.
const TICK: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// What happens to a flow from outside.
pub enum Event {
    /// A connection for this slot. It may have brought frames already.
    Join(usize, Carrier, Priority),
    /// The slot's link is gone.
    Down(usize),
    /// The slot's path is used so from now on, in both directions.
    Priority(usize, Priority),
    /// The application's connection, which has been waited for; `None`: there will be none (any more).
    Application(Option<TcpStream>),
    /// This host has slept: whatever path the relay has given up meanwhile is to show it.
    Woken,
}

/// What a flow says of a slot's connection.
pub enum Loss {
    /// It has ended.
    Ended(usize),
    /// Nothing was acknowledged since then: another is wanted in its place.
    Stale(usize, Instant),
    /// The flow is over, and the relay may not know it.
    Untold(Untold),
}

/// What the relay is to hear of a flow that is over.
pub struct Untold {
    /// It knows if one of these connections was closed by both ends.
    pub parting: Vec<JoinHandle<bool>>,
    pub word: Frame<'static>,
    /// Kept until that is known.
    pub unsaid: Option<TaskTrackerToken>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Both directions came to their end.
    Done,
    /// The relay did not reach the target.
    Refused(Refusal),
    /// Either side broke off.
    Reset,
    /// No path for too long.
    Lost,
}

/// What the device's application is told when the relay has connected, or not: these bytes come before all others.
pub type Answer = fn(Result<(), Refusal>) -> Vec<u8>;

/// Who hears whether the relay has connected.
pub enum Hears {
    Application(Answer),
    /// Somebody who brings the application's connection thereafter.
    Other(oneshot::Sender<Result<(), Refusal>>),
}

/// Bytes by slot, of all flows together.
#[derive(Debug, Default)]
pub struct Meters {
    /// Of streams.
    pub sent: [AtomicU64; MAX_SUBFLOWS],
    pub received: [AtomicU64; MAX_SUBFLOWS],
    /// How often a path has brought something of the relay: acknowledgements too.
    pub heard: AtomicU64,
    /// What path connections have given their sockets and taken from them, both ways together.
    pub carried: [Arc<AtomicU64>; MAX_SUBFLOWS],
}

impl Meters {
    /// Bytes of streams, both ways together.
    pub fn moved(&self) -> u64 {
        let all = self.sent.iter().chain(&self.received);
        all.map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }
}

/// Which end this is.
pub enum Side {
    Device {
        hears: Hears,
        meters: Arc<Meters>,
        lost: mpsc::UnboundedSender<Loss>,
        /// For each connection, with its path.
        opener: Opener,
        /// Kept while bytes of the application may not be with the relay.
        unsaid: TaskTrackerToken,
    },
    Relay {
        place: Place,
        throttle: Throttle,
    },
}

enum Stop {
    Outcome(Outcome),
    /// This end breaks off: the other is to be told.
    Break,
}

impl From<Violation> for Stop {
    fn from(_: Violation) -> Stop {
        Stop::Break
    }
}

impl From<Malformed> for Stop {
    fn from(_: Malformed) -> Stop {
        Stop::Break
    }
}

/// What its socket has received, bytes.
fn available(application: &TcpStream) -> usize {
    rustix::io::ioctl_fionread(application).map_or(MOST_READ, |bytes| bytes as usize)
}

pub struct Flow {
    /// `None` until there is one.
    application: Option<TcpStream>,
    /// There will be none (any more).
    withdrawn: bool,
    /// It sends no more; it was told that no more comes.
    heard_out: bool,
    told_end: bool,
    broken: Option<Broken>,
    /// For the application, before what the receiver has.
    first: Vec<u8>,
    hears: Option<Hears>,
    lost: Option<mpsc::UnboundedSender<Loss>>,
    meters: Option<Arc<Meters>>,
    opener: Option<Opener>,
    unsaid: Option<TaskTrackerToken>,
    /// The relay may know of the flow.
    asked: bool,
    /// At the relay's end, which says on each new path that the target is connected.
    place: Option<Place>,
    throttle: Throttle,
    /// Without a path it waits so long for one.
    hold: Duration,
    paths: [Option<Box<Path>>; MAX_SUBFLOWS],
    sender: Sender,
    receiver: Receiver,
    scheduler: Scheduler,
    group: Option<Group>,
    acks: Acks,
    growth: join::Growth,
    started: Instant,
    /// When the stream got on last; whether the flow has rested since.
    moved: Instant,
    rested: bool,
    /// While there is no path.
    alone: Option<Alone>,
    /// The last path was closed by the peer's host, and as one that is done.
    closed: bool,
    left_well: bool,
    /// The scheduler has data and waits; it is asked again after so long.
    waiting: Option<Duration>,
    /// Within [`AHEAD`].
    ahead: u64,
    observed: Option<Observed>,
}

impl Flow {
    /// Without an application's connection it waits for [`Event::Application`].
    pub(crate) fn new(
        application: Option<TcpStream>,
        scheduler: &Entry,
        side: Side,
        hold: Duration,
        group: Option<Group>,
        observer: Option<Arc<Observer>>,
    ) -> Flow {
        let scheduler = scheduler.build();
        let now = Instant::now();
        let mut throttle = Throttle::default();
        let (hears, lost, meters, opener, unsaid, place) = match side {
            Side::Device {
                hears,
                lost,
                meters,
                opener,
                unsaid,
            } => (
                Some(hears),
                Some(lost),
                Some(meters),
                Some(opener),
                Some(unsaid),
                None,
            ),
            Side::Relay {
                place,
                throttle: own,
            } => {
                throttle = own;
                (None, None, None, None, None, Some(place))
            }
        };
        let target = opener.as_ref().map(|opener| opener.target.clone());
        let mut flow = Flow {
            application: None,
            withdrawn: false,
            heard_out: false,
            told_end: false,
            broken: None,
            first: Vec::new(),
            hears,
            lost,
            meters,
            opener,
            unsaid,
            asked: false,
            place,
            throttle,
            hold,
            paths: Default::default(),
            sender: Sender::new(FIRST_WINDOW, scheduler.replicates()),
            receiver: Receiver::new(FIRST_WINDOW),
            scheduler,
            group,
            acks: Acks::new(FIRST_WINDOW),
            growth: join::Growth::new(now),
            started: now,
            moved: now,
            rested: true,
            alone: Some(Alone::since(now)),
            closed: false,
            left_well: false,
            waiting: None,
            ahead: AHEAD.0,
            observed: observer.map(|observer| Observed::new(observer, target)),
        };
        if let Some(stream) = application {
            flow.attach(stream);
        }
        flow
    }

    fn attach(&mut self, application: TcpStream) {
        crate::socket::tune_application(&application);
        // A process that is killed is not to look as if the other side had ended it well.
        let _ = application.set_zero_linger();
        let connected_from = match self.place {
            Some(_) => application.local_addr(),
            None => application.peer_addr(),
        };
        if let (Some(observed), Ok(address)) = (&self.observed, connected_from) {
            observed.publish(address);
        }
        self.application = Some(application);
    }

    /// Until both directions have ended, or it cannot go on.
    pub async fn run(mut self, mut events: mpsc::Receiver<Event>) -> Outcome {
        loop {
            let now = Instant::now();
            while let Ok(event) = events.try_recv() {
                self.on_event(event, now);
            }
            match self.turn(now) {
                Ok(()) => {}
                Err(Stop::Outcome(outcome)) => {
                    if outcome == Outcome::Reset {
                        self.deliver().await;
                    }
                    let untold = matches!(outcome, Outcome::Done | Outcome::Lost);
                    return self.conclude(outcome, untold);
                }
                Err(Stop::Break) => {
                    self.tell_all(&Frame::Reset);
                    return self.conclude(Outcome::Reset, true);
                }
            }
            if let Some(event) = self.wait(&mut events, now).await {
                self.on_event(event, Instant::now());
            }
        }
    }

    fn on_event(&mut self, event: Event, now: Instant) {
        match event {
            Event::Join(slot, carrier, priority) => {
                let lives = |path: &Path| path.view().alive();
                if self.lost.is_some() && self.paths[slot].as_deref().is_some_and(lives) {
                    // It was silent, and has come back before this one could take its place.
                    return;
                }
                self.drop_path(slot, now);
                if let Some(observed) = &mut self.observed {
                    observed.join(slot, &carrier, priority);
                }
                let mut path = Path::new(carrier, priority, now);
                if let Some(group) = &self.group {
                    path.join(group);
                }
                match &self.opener {
                    Some(opener) => {
                        let opener = Opener {
                            path: slot as u8,
                            priority,
                            resumes: self.hears.is_none(),
                            ..opener.clone()
                        };
                        path.carrier.put_bytes(&opener.encode());
                        self.asked = true;
                    }
                    None => path.carrier.put(&Frame::Opened(Ok(()))),
                }
                self.paths[slot] = Some(Box::new(path));
                (self.alone, self.closed) = (None, false);
                self.acks.force();
            }
            Event::Application(Some(stream)) => self.attach(stream),
            Event::Application(None) => self.withdrawn = true,
            Event::Down(slot) => {
                if self.paths[slot].is_some() {
                    self.drop_path(slot, now);
                    self.tell_all(&Frame::Gone(slot as u8));
                }
            }
            Event::Priority(slot, priority) => {
                self.set_priority(slot, priority);
                if let Some(path) = &mut self.paths[slot] {
                    path.put(&Frame::Priority(priority));
                }
            }
            Event::Woken => self.probe(|_| true),
        }
    }

    /// Everything that can be done without waiting.
    fn turn(&mut self, now: Instant) -> Result<(), Stop> {
        self.throttle.resume(now);
        for slot in 0..MAX_SUBFLOWS {
            self.read_path(slot, now)?;
        }
        self.write_application(now);
        self.read_application(now);
        self.refresh(now);
        self.deal(now);
        self.acknowledge(now);
        if !self.rested && now.duration_since(self.moved) >= REST {
            self.rest();
        }
        if !self.rested && self.lost.is_some() {
            self.probe(|path| !path.is_backup() && path.is_mute(now, REST));
        }
        for slot in 0..MAX_SUBFLOWS {
            let failed = |path: &mut Path| path.flush(now).is_err();
            if self.paths[slot].as_deref_mut().is_some_and(failed) {
                self.lose_path(slot, now);
            }
        }
        if let Some(place) = &mut self.place {
            match self.alone {
                Some(_) => place.hold(self.sender.held() + self.receiver.held()),
                None => place.release(),
            }
        }
        self.check(now)
    }

    fn write_application(&mut self, now: Instant) {
        let Some(application) = self.application.as_ref().filter(|_| self.broken.is_none()) else {
            return;
        };
        loop {
            let own = !self.first.is_empty();
            let bytes = if own {
                &self.first[..]
            } else {
                self.receiver.ready()
            };
            if bytes.is_empty() {
                break;
            }
            let Some(most) = self.throttle.take(Way::Up, bytes.len(), now) else {
                break;
            };
            let written = application.try_write(&bytes[..most]);
            let used = *written.as_ref().unwrap_or(&0);
            self.throttle.give_back(Way::Up, most - used);
            match written {
                Ok(count) if own => drop(self.first.drain(..count)),
                Ok(count) => self.receiver.consume(count),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.broken = Some(Broken::since(now));
                    return;
                }
            }
        }
        if self.receiver.finished()
            && self.first.is_empty()
            && !self.told_end
            && self.hears.is_none()
        {
            let _ = SockRef::from(application).shutdown(Shutdown::Write);
            self.told_end = true;
        }
    }

    fn wants_application(&self) -> bool {
        !self.heard_out && self.sender.unsent() < self.ahead && !self.throttle.waits(Way::Down)
    }

    /// Memory of the last burst, which may be megabytes, is for others now. And where only the peer sends, its silence may be that
    /// of dead paths: what is not acknowledged tells.
    fn rest(&mut self) {
        self.rested = true;
        self.sender.rest();
        self.receiver.rest();
        for path in self.paths.iter_mut().flatten() {
            path.carrier.rest();
        }
        if self.lost.is_some() {
            self.probe(|_| true);
        }
    }

    /// A connection that has ended at the other end answers with a reset; one that nobody answers on turns stale. A path that only
    /// brings data would else look well after it has fallen silent.
    fn probe(&mut self, which: impl Fn(&Path) -> bool) {
        let (next, limit) = self.receiver.acknowledgement();
        for path in self.paths.iter_mut().flatten() {
            if which(path) {
                path.put(&Frame::Ack { next, limit });
            }
        }
    }

    fn stir(&mut self, now: Instant) {
        (self.moved, self.rested) = (now, false);
    }

    fn read_application(&mut self, now: Instant) {
        while self.wants_application() {
            let Some(application) = &self.application else {
                return;
            };
            let there = match self.throttle.limits() {
                true => available(application).clamp(1, MOST_READ),
                false => MOST_READ,
            };
            let Some(most) = self.throttle.take(Way::Down, there, now) else {
                break;
            };
            let read = with_scratch(|scratch| {
                let most = most.min(scratch.len());
                let count = application.try_read(&mut scratch[..most])?;
                self.sender.push(&scratch[..count]);
                Ok::<_, io::Error>(count)
            });
            let used = *read.as_ref().unwrap_or(&0);
            self.throttle.give_back(Way::Down, most - used);
            match read {
                Ok(0) => {
                    self.heard_out = true;
                    // A failure to write has taken the socket's error, and reading finds an end in its place.
                    if self.broken.is_none() {
                        self.sender.end();
                    }
                }
                Ok(_) => self.stir(now),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.heard_out = true;
                    self.broken.get_or_insert(Broken::since(now));
                }
            }
        }
    }

    /// Until there is something to do; an event that came meanwhile.
    async fn wait(&mut self, events: &mut mpsc::Receiver<Event>, now: Instant) -> Option<Event> {
        let pause = self.pause(now).min(self.throttle.due_in(now));
        let mut timer = pin!(sleep(pause));
        poll_fn(|cx| {
            if let Poll::Ready(Some(event)) = events.poll_recv(cx) {
                return Poll::Ready(Some(event));
            }
            let ready = |done: Poll<io::Result<()>>| done.is_ready();
            let mut wake = timer.as_mut().poll(cx).is_ready();
            if let Some(application) = &self.application {
                wake |= self.wants_application() && ready(application.poll_read_ready(cx));
                let waits = !self.first.is_empty()
                    || !self.receiver.ready().is_empty() && !self.throttle.waits(Way::Up);
                wake |= waits && self.broken.is_none() && ready(application.poll_write_ready(cx));
            }
            for path in self.paths.iter().flatten() {
                wake |= path.carrier.poll_ready(cx).is_ready();
            }
            if let Some(place) = &mut self.place {
                wake |= place.poll_given_up(cx).is_ready();
            }
            if wake {
                Poll::Ready(None)
            } else {
                Poll::Pending
            }
        })
        .await
    }

    /// How long nothing needs to be looked at unless a socket has news.
    fn pause(&self, now: Instant) -> Duration {
        if let Some(alone) = &self.alone {
            let rest = if self.rested { Duration::MAX } else { REST };
            // Then the application alone is waited for.
            let most = match self.peer_is_done() {
                true => Duration::MAX,
                false => self.patience(),
            };
            return alone.pause(most).min(rest);
        }
        let alive = self.paths.iter().flatten().any(|path| path.view().alive());
        let busy = self.sender.in_flight() > 0 || self.paths.iter().flatten().any(|p| p.busy());
        let tick = match (self.waiting.filter(|_| alive), busy) {
            (Some(pause), _) => pause,
            (None, true) => TICK.1,
            (None, false) if !self.rested => REST,
            (None, false) => LOOK,
        };
        let broken = self.broken.as_ref().map(|broken| broken.due_in(now));
        tick.min(self.acks.due_in(now))
            .min(broken.unwrap_or(Duration::MAX))
    }

    fn count(&self, of: impl Fn(&Meters) -> &[AtomicU64], slot: usize, bytes: usize) {
        if let Some(meters) = &self.meters {
            of(meters)[slot].fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    fn set_priority(&mut self, slot: usize, priority: Priority) {
        let Some(path) = &mut self.paths[slot] else {
            return;
        };
        path.set_priority(priority);
        if let Some(group) = &self.group {
            path.join(group);
        }
        if let Some(observed) = &self.observed {
            observed.set_backup(slot, path.is_backup());
        }
    }

    fn tell_all(&mut self, frame: &Frame) {
        for path in self.paths.iter_mut().flatten() {
            path.carrier.put(frame);
        }
    }

    /// The connection of a slot has ended by itself. Another is wanted, unless the application alone is waited for.
    fn lose_path(&mut self, slot: usize, now: Instant) {
        self.drop_path(slot, now);
        if let Some(lost) = self.lost.as_ref().filter(|_| !self.peer_is_done()) {
            let _ = lost.send(Loss::Ended(slot));
        }
    }

    /// What it alone carried is sent again on others.
    fn drop_path(&mut self, slot: usize, now: Instant) {
        if self.paths[slot].take().is_none() {
            return;
        }
        if let Some(observed) = &mut self.observed {
            observed.close(slot);
        }
        self.sender.close(slot);
        self.scheduler.forget(slot);
        self.acks.force();
        if self.paths.iter().all(Option::is_none) {
            self.alone = Some(Alone::since(now));
        }
    }
}
