//! The programs on the device: a download, a call and pages, all at once.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper::Request;
use hyper_util::rt::TokioIo;
use rattan_env::netns::NetNs;
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout, timeout_at};

use super::server::FILE;
use super::{
    Call, Download, Experience, Page, CALL, CALL_BYTES, CALL_EVERY, CALL_PATIENCE, PAGE_EVERY,
    PAGE_PATIENCE, STEP_S, WEB,
};
use crate::traffic::{socket, Body};
use crate::worker::{self, Worker};
use crate::Error;

type Anything = Box<dyn std::error::Error>;

#[derive(Clone)]
pub struct Programs {
    /// `None`: as the routing table has it.
    pub link: Option<String>,
    pub mptcp: bool,
    pub seed: u64,
    pub epoch: Instant,
    pub duration: Duration,
}

impl Programs {
    pub fn start(
        self,
        namespace: Arc<NetNs>,
        results: Sender<Experience>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<Worker, Error> {
        worker::start("programs", namespace, move || async move {
            let all = async { tokio::join!(self.download(), self.call(), self.pages()) };
            let (download, call, pages) = tokio::select! {
                all = all => all,
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
            };
            let call = call.map_err(|source| Error::System {
                what: "the call failed".into(),
                source,
            })?;
            // Nobody asks any more once the trial was stopped.
            let _ = results.send(Experience {
                download,
                call,
                pages,
                notes: Vec::new(),
            });
            Ok(())
        })
    }

    fn end(&self) -> tokio::time::Instant {
        (self.epoch + self.duration).into()
    }

    async fn download(&self) -> Download {
        let steps = (self.duration.as_secs_f64() / STEP_S).ceil() as usize;
        let mut download = Download {
            bytes: 0,
            steps: vec![0; steps],
            pause_s: 0.0,
            intact: true,
            broke: None,
        };
        let mut latest = 0.0;
        let reading = self.get(FILE, |bytes, sent| {
            let at = self.epoch.elapsed().as_secs_f64();
            let step = ((at / STEP_S) as usize).min(steps - 1);
            download.steps[step] += bytes.len() as u64;
            download.bytes += bytes.len() as u64;
            download.pause_s = f64::max(download.pause_s, at - latest);
            latest = at;
            download.intact &= sent == *bytes;
        });
        let ended = timeout_at(self.end(), reading).await;
        let total = self.duration.as_secs_f64();
        download.pause_s = download.pause_s.max(total - latest);
        download.broke = match ended {
            Err(_) => None,
            Ok(Err(e)) => Some(e.to_string()),
            Ok(Ok(())) => Some("the file has ended".into()),
        };
        download
    }

    async fn pages(&self) -> Vec<Page> {
        let mut pages = JoinSet::new();
        let mut at = Duration::ZERO;
        // Each has its time.
        while at + PAGE_PATIENCE <= self.duration {
            let programs = self.clone();
            pages.spawn_local(async move {
                sleep_until((programs.epoch + at).into()).await;
                let page = timeout(PAGE_PATIENCE, programs.get("/page", |_, _| ()));
                let page = page.await;
                let took = (programs.epoch.elapsed() - at).as_secs_f64();
                Page {
                    at_s: at.as_secs_f64(),
                    took_s: matches!(page, Ok(Ok(()))).then_some(took),
                }
            });
            at += PAGE_EVERY;
        }
        let mut pages = pages.join_all().await;
        pages.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        pages
    }

    /// One connection and one answer; `each` sees what arrives, and what should have.
    async fn get(&self, path: &str, mut each: impl FnMut(&Bytes, Bytes)) -> Result<(), Anything> {
        let stream = socket::connect_over(self.link.as_deref(), WEB, self.mptcp).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let request = Request::get(path)
            .header("host", WEB.to_string())
            .body(Empty::<Bytes>::new())?;
        let mut expected = Expected::new(self.seed);
        let exchange = async {
            let mut answer = sender.send_request(request).await?;
            while let Some(frame) = answer.frame().await {
                if let Ok(bytes) = frame?.into_data() {
                    let sent = expected.next(bytes.len());
                    each(&bytes, sent);
                }
            }
            Ok::<_, hyper::Error>(())
        };
        tokio::pin!(connection, exchange);
        tokio::select! {
            biased;
            done = &mut exchange => Ok(done?),
            done = &mut connection => match done {
                Ok(()) => Ok(exchange.await?),
                Err(e) => Err(e.into()),
            }
        }
    }

    async fn call(&self) -> io::Result<Call> {
        let socket = UdpSocket::bind("0.0.0.0:0").await?;
        socket2::SockRef::from(&socket).bind_device(self.link.as_deref().map(str::as_bytes))?;
        let total = self.duration.saturating_sub(CALL_PATIENCE);
        let packets = (total.as_nanos() / CALL_EVERY.as_nanos()) as usize;
        let due = |number: usize| self.epoch + CALL_EVERY * number as u32;
        let round_trips = Rc::new(RefCell::new(vec![None; packets]));
        let sending = async {
            for number in 0..packets {
                sleep_until(due(number).into()).await;
                let mut packet = [0; CALL_BYTES];
                packet[..8].copy_from_slice(&(number as u64).to_be_bytes());
                // Without a route the packet is lost like any other.
                let _ = socket.send_to(&packet, CALL).await;
            }
            std::future::pending::<()>().await;
        };
        let receiving = async {
            let mut packet = [0; 2048];
            loop {
                let Ok((CALL_BYTES, from)) = socket.recv_from(&mut packet).await else {
                    continue;
                };
                let number = u64::from_be_bytes(packet[..8].try_into().expect("8 bytes")) as usize;
                let took = due(number.min(packets)).elapsed();
                let mut all = round_trips.borrow_mut();
                if let Some(first @ None) = all.get_mut(number).filter(|_| from == CALL) {
                    *first = (took <= CALL_PATIENCE).then_some(took.as_secs_f64() * 1e3);
                }
            }
        };
        let both = async { tokio::join!(sending, receiving) };
        let _ = timeout_at(self.end(), both).await;
        let round_trips_ms = round_trips.take();
        Ok(Call { round_trips_ms })
    }
}

/// The server's bytes, made here a second time.
struct Expected {
    body: Body,
    ready: Bytes,
}

impl Expected {
    fn new(seed: u64) -> Expected {
        Expected {
            body: Body::new(seed, None),
            ready: Bytes::new(),
        }
    }

    fn next(&mut self, length: usize) -> Bytes {
        let mut parts = Vec::with_capacity(length);
        while parts.len() < length {
            if !self.ready.has_remaining() {
                self.ready = self.body.chunk().expect("it has no end");
            }
            let take = self.ready.remaining().min(length - parts.len());
            parts.extend_from_slice(&self.ready.split_to(take));
        }
        parts.into()
    }
}
