//! The device's side: one link after the other, each by itself.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout, MissedTickBehavior};

use super::{pair, Stream, ECHO, ECHO_BYTES};
use crate::datagram::device::{Lane, Sink};
use crate::datagram::packet::Destination;
use crate::device::{Device, Settings};
use crate::lock;
use crate::wire::Refusal;
use crate::Error;

/// Echoes of the idle link: .4 Mbit/s, 1,000 packets.
const IDLE: (Duration, Duration) = (Duration::from_secs(4), Duration::from_millis(4));
/// Echoes beside a stream.
const BESIDE: Duration = Duration::from_millis(20);
/// Slow start is not what the link can do.
const STARTS: Duration = Duration::from_secs(1);
/// Between two parts, so that queues run empty; an echo that comes later is lost.
const REST: Duration = Duration::from_secs(1);
const FIRST: Duration = Duration::from_secs(3);
const CHUNK: usize = 1 << 16;

/// The application end of the echoes; nothing is bound to it.
const ECHOES: Destination = Destination::Udp(ECHO);
const HERE: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1)), 1);

/// How to measure.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Of each direction.
    pub stream: Duration,
}

/// What is being measured now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Idle,
    Down,
    Up,
}

/// One link, both ways.
#[derive(Debug, Clone)]
pub struct Link {
    pub link: String,
    /// Round trips of the idle link, those of the lane's ends included.
    pub idle_ms: Vec<f64>,
    /// Echoes sent meanwhile: by them loss was counted.
    pub packets: u64,
    pub down: Direction,
    pub up: Direction,
}

#[derive(Debug, Clone)]
pub struct Direction {
    /// Share of the echoes that the idle link lost.
    pub loss: f64,
    /// Bytes of the stream, after its first second.
    pub goodput_mbps: f64,
    /// Round trips beside the stream.
    pub loaded_ms: Vec<f64>,
    /// From the second second on, how many bytes had come at what time, s: on the way down as they came, on the way up every 100 ms.
    pub course: Vec<(f64, u64)>,
}

/// Measures the one link of `settings`.
pub async fn probe(
    settings: Settings,
    identity: &Path,
    how: &Probe,
    mut progress: impl FnMut(Phase),
) -> Result<Link, Error> {
    let link = settings.links.join(", ");
    let device = Device::connect(settings, identity).await?;
    let echoes = Arc::new(Echoes::default());
    let mut tasks = JoinSet::new();
    let lane = Lane::start(device.datagrams(), echoes.clone(), &mut tasks);
    let mut up = lane.up();
    let first = timeout(FIRST, up.wait_for(|up| *up)).await.is_ok();
    if !first {
        let why = lane.report().failure;
        return Err(Error::Failed(format!(
            "the relay does not answer over UDP: {}",
            why.as_deref().unwrap_or("no answer")
        )));
    }
    progress(Phase::Idle);
    let idle = echoes.during(&lane, IDLE.1, sleep(IDLE.0)).await.1;
    progress(Phase::Down);
    let down = download(device.clone(), how.stream);
    let (down, beside_down) = echoes.during(&lane, BESIDE, down).await;
    progress(Phase::Up);
    let up = upload(device, how.stream);
    let (up, beside_up) = echoes.during(&lane, BESIDE, up).await;
    tasks.shutdown().await;
    if idle.back.is_empty() {
        return Err(Error::Failed("no echo of the relay came back: the link carries nothing, or the relay has ended; try again".into()));
    }
    let direction = |course: io::Result<Vec<(f64, u64)>>, beside: Round, loss| {
        let mut course = course.map_err(|e| Error::failed("the stream broke off", e))?;
        course.retain(|(at, _)| *at >= STARTS.as_secs_f64());
        Ok::<_, Error>(Direction {
            goodput_mbps: goodput(&course),
            loss,
            loaded_ms: beside.back,
            course,
        })
    };
    Ok(Link {
        down: direction(down, beside_down, idle.lost_down())?,
        up: direction(up, beside_up, idle.lost_up())?,
        packets: idle.sent,
        idle_ms: idle.back,
        link,
    })
}

/// Mbit/s.
fn goodput(course: &[(f64, u64)]) -> f64 {
    match (course.first(), course.last()) {
        (Some((from, before)), Some((to, after))) if to > from => {
            (after - before) as f64 * 8e-6 / (to - from)
        }
        _ => 0.0,
    }
}

async fn download(device: Arc<Device>, time: Duration) -> io::Result<Vec<(f64, u64)>> {
    let mut stream = open(device, Stream::Download).await?;
    let began = Instant::now();
    let (mut course, mut total) = (Vec::new(), 0);
    let mut chunk = vec![0; CHUNK];
    while began.elapsed() < time {
        let left = time.saturating_sub(began.elapsed());
        match timeout(left, stream.read(&mut chunk)).await {
            Err(_) => break,
            Ok(read) => match read? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => total += count as u64,
            },
        }
        course.push((began.elapsed().as_secs_f64(), total));
    }
    Ok(course)
}

async fn upload(device: Arc<Device>, time: Duration) -> io::Result<Vec<(f64, u64)>> {
    let (mut from, mut to) = open(device, Stream::Upload).await?.into_split();
    let began = Instant::now();
    let mut course = Vec::new();
    let chunk = vec![0; CHUNK];
    let pour = async { while to.write_all(&chunk).await.is_ok() {} };
    let hear = async {
        while let Ok(total) = from.read_u64().await {
            course.push((began.elapsed().as_secs_f64(), total));
        }
    };
    match timeout(time, async { tokio::join!(pour, hear) }).await {
        Err(_) => Ok(course),
        Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// The flow ends when the stream is dropped.
async fn open(device: Arc<Device>, stream: Stream) -> io::Result<TcpStream> {
    let (near, far) = pair().await?;
    tokio::spawn(device.carry(far, stream.target(), |_| Vec::new()));
    Ok(near)
}

/// Echoes under way, and those that have come back.
#[derive(Default)]
struct Echoes(Mutex<Round>);

#[derive(Debug, Default)]
struct Round {
    /// Number of the first.
    first: u64,
    sent: u64,
    under_way: HashMap<u64, Instant>,
    /// Round trips, ms.
    back: Vec<f64>,
    /// The most that the relay had when it sent one of them.
    counted: u64,
    /// What it had before.
    before: u64,
}

impl Echoes {
    /// Sends one each `every` while `work` is done, and waits for those under way.
    async fn during<T>(
        &self,
        lane: &Lane,
        every: Duration,
        work: impl std::future::Future<Output = T>,
    ) -> (T, Round) {
        let sending = async {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                ticks.tick().await;
                let number = {
                    let mut round = lock(&self.0);
                    let number = round.first + round.sent;
                    round.sent += 1;
                    round.under_way.insert(number, Instant::now());
                    number
                };
                let mut packet = [0; ECHO_BYTES];
                packet[..8].copy_from_slice(&number.to_be_bytes());
                // Lost, if there is no path now.
                let _ = lane.send(HERE, ECHOES, ECHOES, &packet, false);
                lane.flush();
            }
        };
        let done = tokio::select! {
            done = work => done,
            () = sending => unreachable!("it has no end"),
        };
        sleep(REST).await;
        let mut round = lock(&self.0);
        let next = Round {
            first: round.first + round.sent,
            before: round.before.max(round.counted),
            ..Round::default()
        };
        (done, std::mem::replace(&mut *round, next))
    }
}

impl Sink for Echoes {
    fn deliver(&self, from: Destination, _: SocketAddr, payload: &[u8]) {
        let number = |at: usize| {
            let bytes = payload.get(at..at + 8)?;
            Some(u64::from_be_bytes(bytes.try_into().ok()?))
        };
        let (Some(number), Some(count)) = (number(0), number(8)) else {
            return;
        };
        let mut round = lock(&self.0);
        let sent = (from == ECHOES)
            .then(|| round.under_way.remove(&number))
            .flatten();
        if let Some(sent) = sent {
            round.back.push(sent.elapsed().as_secs_f64() * 1e3);
            round.counted = round.counted.max(count);
        }
    }

    fn refuse(&self, _: SocketAddr, _: Destination, _: Refusal) {}
}

impl Round {
    /// Of those that the relay has had, the share that did not come back.
    fn lost_down(&self) -> f64 {
        let reached = self.counted.saturating_sub(self.before);
        share(reached.saturating_sub(self.back.len() as u64), reached)
    }

    fn lost_up(&self) -> f64 {
        let reached = self.counted.saturating_sub(self.before);
        share(self.sent.saturating_sub(reached), self.sent)
    }
}

fn share(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64
}
