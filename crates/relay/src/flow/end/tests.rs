//! A flow at one end, with another that the test plays.

use std::sync::{Arc, Mutex};

use mp_policy::link::Priority;
use mp_policy::scheduler;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::carrier::tests::pair;
use crate::carrier::Carrier;
use crate::flow::{Event, Hears, Side};
use crate::hold::Holding;
use crate::rates::Throttle;
use crate::wire::{Header, Opener, Target};

use super::*;

/// Twice what a socket of the smallest buffers holds, and less than the first window.
const MUCH: usize = 900_000;

struct Played {
    program: TcpStream,
    relay: Carrier,
    events: mpsc::Sender<Event>,
    losses: mpsc::UnboundedReceiver<Loss>,
    flow: JoinHandle<Outcome>,
}

fn side(lost: mpsc::UnboundedSender<Loss>) -> Side {
    Side::Device {
        hears: Hears::Application(|_| Vec::new()),
        meters: Default::default(),
        lost,
        opener: Opener {
            session: [0; 16],
            flow: 1,
            path: 0,
            priority: Priority::Normal,
            resumes: false,
            scheduler: "default".into(),
            target: Target::Address([192, 0, 2, 1].into(), 80),
        },
        unsaid: TaskTracker::new().token(),
    }
}

/// With one path, of which the relay has heard.
async fn played() -> Played {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let program = TcpSocket::new_v4().unwrap();
    program.set_recv_buffer_size(1 << 12).unwrap();
    let connecting = program.connect(listener.local_addr().unwrap());
    let (program, accepted) = tokio::join!(connecting, listener.accept());
    let application = accepted.unwrap().0;
    SockRef::from(&application)
        .set_send_buffer_size(1 << 12)
        .unwrap();
    let (device, mut relay) = pair().await;
    let (events, news) = mpsc::channel(16);
    let (lost, losses) = mpsc::unbounded_channel();
    let scheduler = scheduler::find("default").unwrap();
    let hold = Duration::from_secs(3600);
    let flow = Flow::new(Some(application), scheduler, side(lost), hold, None, None);
    let flow = tokio::spawn(flow.run(news));
    let join = Event::Join(0, device, Priority::Normal);
    assert!(events.send(join).await.is_ok());
    loop {
        if let Some((_, length)) = Opener::decode(relay.input()).unwrap() {
            relay.take(length);
            break;
        }
        relay.more().await.unwrap();
    }
    Played {
        program: program.unwrap(),
        relay,
        events,
        losses,
        flow,
    }
}

/// Until the device has said that its stream ends; `false`: its connection has ended instead.
async fn hear_end(relay: &mut Carrier) -> bool {
    let mut ended = false;
    loop {
        let frames = relay.frames(|frame| {
            ended |= matches!(frame, Frame::Data { end: true, .. });
            Ok::<_, crate::wire::Malformed>(())
        });
        frames.unwrap();
        if ended || relay.more().await.is_err() {
            return ended;
        }
    }
}

/// The relay has everything and has sent everything, and the program takes its time: no other connection is asked for.
#[tokio::test]
async fn a_program_that_reads_late_costs_no_connections() {
    let mut all = played().await;
    all.program.shutdown().await.unwrap();
    all.relay.put(&Frame::Opened(Ok(())));
    let bytes = vec![7; MUCH];
    let mut at = 0;
    for piece in bytes.chunks(10_000) {
        let end = at + piece.len() == MUCH;
        let header = Header::data(at as u64, end, piece.len());
        all.relay.put_data(header, (piece, &[]));
        at += piece.len();
    }
    all.relay.flush_all().await.unwrap();
    assert!(hear_end(&mut all.relay).await);
    all.relay.put(&Frame::Ack {
        next: 1,
        limit: 1 << 20,
    });
    assert!(all.relay.part().await.unwrap(), "the device closes it too");
    let mut read = Vec::new();
    all.program.read_to_end(&mut read).await.unwrap();
    assert!(read == bytes);
    assert_eq!(all.flow.await.unwrap(), Outcome::Done);
    let asked = std::iter::from_fn(|| all.losses.try_recv().ok());
    assert_eq!(asked.filter(|l| matches!(l, Loss::Ended(_))).count(), 0);
}

/// The program has ended its stream; then it is gone.
#[tokio::test]
async fn a_program_that_dies_after_its_end_is_noticed() {
    let mut all = played().await;
    all.relay.put(&Frame::Opened(Ok(())));
    all.relay.flush_all().await.unwrap();
    all.program.shutdown().await.unwrap();
    assert!(hear_end(&mut all.relay).await);
    all.relay.put(&Frame::Ack {
        next: 1,
        limit: 1 << 20,
    });
    all.relay.flush_all().await.unwrap();
    all.program.set_zero_linger().unwrap();
    drop(all.program);
    // It is looked at from time to time, and on every event.
    let ended = async {
        while all.events.send(Event::Woken).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(90), ended).await.unwrap();
    assert_eq!(all.flow.await.unwrap(), Outcome::Reset);
}

/// The relay was asked, and its answer never came: it is told that the device has given up.
#[tokio::test]
async fn a_relay_that_was_asked_is_told() {
    let mut all = played().await;
    all.events.send(Event::Down(0)).await.unwrap();
    all.events.send(Event::Application(None)).await.unwrap();
    assert_eq!(all.flow.await.unwrap(), Outcome::Reset);
    let said = std::iter::from_fn(|| all.losses.try_recv().ok());
    assert_eq!(said.filter(|l| matches!(l, Loss::Untold(_))).count(), 1);
}

/// The relay has gone as one that is done, longer ago than a flow waits for another connection.
#[tokio::test]
async fn a_program_that_reads_very_late_is_waited_for_at_leisure() {
    let (lost, _losses) = mpsc::unbounded_channel();
    let scheduler = scheduler::find("default").unwrap();
    let mut flow = Flow::new(None, scheduler, side(lost), Duration::ZERO, None, None);
    flow.receiver.on_data(0, true, b"unread").unwrap();
    (flow.heard_out, flow.left_well, flow.hears) = (true, true, None);
    let now = Instant::now();
    assert!(flow.check(now).is_ok());
    assert!(
        flow.pause(now) >= Duration::from_secs(1),
        "{:?}",
        flow.pause(now)
    );
}

/// Whatever it says last may be lost with its paths: then it is said again.
#[tokio::test]
async fn a_flow_that_is_done_asks_for_the_relay_to_be_told() {
    let mut all = played().await;
    all.relay.put(&Frame::Opened(Ok(())));
    let header = Header::data(0, true, 2);
    all.relay.put_data(header, (b"hi", &[]));
    all.relay.flush_all().await.unwrap();
    let mut read = Vec::new();
    all.program.read_to_end(&mut read).await.unwrap();
    drop(all.program);
    assert!(hear_end(&mut all.relay).await);
    all.relay.put(&Frame::Ack {
        next: 1,
        limit: 1 << 20,
    });
    all.relay.flush_all().await.unwrap();
    assert_eq!(all.flow.await.unwrap(), Outcome::Done);
    let said = std::iter::from_fn(|| all.losses.try_recv().ok());
    let words: Vec<_> = said
        .filter_map(|loss| match loss {
            Loss::Untold(untold) => Some((untold.word, untold.parting.len())),
            _ => None,
        })
        .collect();
    let word = Frame::Ack {
        next: 3,
        limit: (1 << 20) + 2,
    };
    assert_eq!(words, [(word, 1)]);
}

/// The relay's end of a flow, with the target's connection.
async fn played_relay() -> (TcpStream, mpsc::Sender<Event>, JoinHandle<Outcome>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connecting = TcpStream::connect(listener.local_addr().unwrap());
    let (target, accepted) = tokio::join!(connecting, listener.accept());
    let holding = Arc::new(Mutex::new(Holding::new(crate::hold::LIMITS)));
    let side = Side::Relay {
        place: Place::new(holding, Default::default()),
        throttle: Throttle::default(),
    };
    let scheduler = scheduler::find("default").unwrap();
    let hold = Duration::from_secs(3600);
    let flow = Flow::new(Some(target.unwrap()), scheduler, side, hold, None, None);
    let (events, news) = mpsc::channel(16);
    (accepted.unwrap().0, events, tokio::spawn(flow.run(news)))
}

/// The device's last acknowledgement was lost with its path: another connection brings it, and the relay's end is done.
#[tokio::test]
async fn a_relay_hears_later_that_a_flow_is_done() {
    let (target, events, flow) = played_relay().await;
    let (mut device, relay) = pair().await;
    let join = Event::Join(0, relay, Priority::Normal);
    assert!(events.send(join).await.is_ok());
    // Both streams are empty, and end.
    device.put_data(Header::data(0, true, 0), (&[], &[]));
    device.flush_all().await.unwrap();
    drop(target);
    assert!(hear_end(&mut device).await);
    drop(device);
    let (mut device, relay) = pair().await;
    let join = Event::Join(1, relay, Priority::Normal);
    assert!(events.send(join).await.is_ok());
    device.put(&Frame::Ack {
        next: 1,
        limit: 1 << 20,
    });
    assert!(device.part().await.unwrap(), "the relay closes it too");
    assert_eq!(flow.await.unwrap(), Outcome::Done);
}

/// A server that refuses a request before it has read it: its answer and the reset come at once.
#[tokio::test]
async fn what_a_target_says_before_its_reset_arrives() {
    let (target, events, flow) = played_relay().await;
    let (mut device, relay) = pair().await;
    let join = Event::Join(0, relay, Priority::Normal);
    assert!(events.send(join).await.is_ok());
    device.put_data(Header::data(0, false, 7), (b"request", &[]));
    device.flush_all().await.unwrap();
    // It stays unread.
    target.peek(&mut [0]).await.unwrap();
    // The flow has no turn between these two.
    assert_eq!(target.try_write(&[7; 3000]).unwrap(), 3000);
    drop(target);
    let (mut heard, mut reset) = (0, false);
    while heard < 3000 {
        device.more().await.unwrap();
        hear(&mut device, &mut heard, &mut reset);
    }
    assert!(!reset, "before the device has everything");
    device.put(&Frame::Ack {
        next: 3000,
        limit: 1 << 20,
    });
    device.flush_all().await.unwrap();
    while !reset {
        device.more().await.unwrap();
        hear(&mut device, &mut heard, &mut reset);
    }
    assert_eq!((heard, flow.await.unwrap()), (3000, Outcome::Reset));
}

/// Counts the bytes of the stream that have come, and notes a reset.
fn hear(carrier: &mut Carrier, heard: &mut usize, reset: &mut bool) {
    let frames = carrier.frames(|frame| {
        match frame {
            Frame::Data { payload, .. } => *heard += payload.len(),
            Frame::Reset => *reset = true,
            _ => {}
        }
        Ok::<_, crate::wire::Malformed>(())
    });
    frames.unwrap();
}

/// The socket of the program holds less than that.
#[tokio::test]
async fn what_comes_before_a_reset_is_for_the_program() {
    let mut all = played().await;
    all.relay.put(&Frame::Opened(Ok(())));
    let bytes = vec![7; 20_000];
    for (at, piece) in bytes.chunks(10_000).enumerate() {
        let header = Header::data(10_000 * at as u64, false, piece.len());
        all.relay.put_data(header, (piece, &[]));
    }
    all.relay.put(&Frame::Reset);
    all.relay.flush_all().await.unwrap();
    let mut read = Vec::new();
    let end = all.program.read_to_end(&mut read).await.unwrap_err();
    assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(read == bytes, "{} bytes", read.len());
    assert_eq!(all.flow.await.unwrap(), Outcome::Reset);
}

/// A peer that takes nothing any more holds up a reset for a time, and one that gets on as long as it does.
#[test]
fn a_reset_waits_for_progress() {
    let start = Instant::now();
    let mut broken = Broken::since(start);
    assert!(!broken.is_overdue(0, start + LAST_WORDS / 2));
    let later = start + LAST_WORDS - Duration::from_millis(1);
    assert!(!broken.is_overdue(1, later));
    assert_eq!(broken.due_in(later), LAST_WORDS);
    assert!(!broken.is_overdue(1, later + LAST_WORDS / 2));
    assert!(broken.is_overdue(1, later + LAST_WORDS));
}
