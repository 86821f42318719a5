//! The edge server under an open-loop load on loopback: half questions, half outcomes, each due at its own time whatever the
//! server does. A latency counts from when its request was due (no coordinated omission). Prints one JSON document.
//!
//!     cargo bench -p mp-server --bench load -- [--quick]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::handshake;
use hyper::Request;
use hyper_util::rt::TokioIo;
use mp_server::tokens::{self, TokenRole};
use mp_server::Config;
use serde_json::{json, Value};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{sleep_until, Instant};

const CONNECTIONS: usize = 64;
const LOCATIONS: u64 = 20;

struct Seen {
    question: bool,
    millis: f64,
    good: bool,
}

fn main() {
    let quick = std::env::args().any(|a| a == "--quick");
    let seconds = if quick { 2 } else { 10 };
    let rates = if quick {
        &[5000][..]
    } else {
        &[1000, 5000, 10_000]
    };
    let rows: Vec<Value> = rates.iter().map(|&rate| measure(rate, seconds)).collect();
    println!("{}", json!(rows));
}

fn measure(rate: u64, seconds: u64) -> Value {
    let folder = tempfile::tempdir().expect("a folder for the database");
    let mut config = Config::parse("bench", "limits.requests = 1000000\n").expect("it is right");
    config.data = folder.path().to_owned();
    config.listen = ([127, 0, 0, 1], 0).into();
    let token = tokens::create(&config.token_file(), "bench", TokenRole::Device).expect("a token");
    let (tell, told) = std::sync::mpsc::channel();
    // It ends with the process: its end in good order is what the tests are for.
    std::thread::spawn(move || mp_server::run(config, |_, address| tell.send(address).unwrap()));
    let address = told.recv().expect("the server starts").to_string();

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let seen = Arc::new(Mutex::new(Vec::new()));
    runtime.block_on(async {
        let (due, waiting) = mpsc::channel::<(u64, Instant)>(1 << 20);
        let waiting = Arc::new(tokio::sync::Mutex::new(waiting));
        let mut workers = Vec::new();
        for _ in 0..CONNECTIONS {
            let stream = TcpStream::connect(&address).await.expect("it listens");
            stream.set_nodelay(true).expect("a socket option");
            let (mut sender, connection) = handshake(TokioIo::new(stream)).await.expect("HTTP");
            tokio::spawn(connection);
            let (waiting, seen, token) = (waiting.clone(), seen.clone(), token.clone());
            workers.push(tokio::spawn(async move {
                loop {
                    let Some((id, at)) = waiting.lock().await.recv().await else {
                        return;
                    };
                    let (path, body) = request(id);
                    let request = Request::post(path)
                        .header("host", "bench")
                        .header("authorization", format!("Bearer {token}"))
                        .header("content-type", "application/json")
                        .body(Full::new(Bytes::from(body)))
                        .expect("a request");
                    let answered = async {
                        sender.ready().await.ok()?;
                        let response = sender.send_request(request).await.ok()?;
                        let good = response.status() == 200;
                        response.into_body().collect().await.ok()?;
                        Some(good)
                    };
                    let good = answered.await.unwrap_or(false);
                    seen.lock().unwrap().push(Seen {
                        question: id % 2 == 0,
                        millis: at.elapsed().as_secs_f64() * 1e3,
                        good,
                    });
                }
            }));
        }
        let start = Instant::now() + Duration::from_millis(100);
        for id in 0..rate * seconds {
            let at = start + Duration::from_nanos(id * 1_000_000_000 / rate);
            sleep_until(at).await;
            due.send((id, at)).await.expect("workers wait");
        }
        drop(due);
        for worker in workers {
            worker.await.expect("a worker");
        }
    });
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let of = |question: bool| {
        let mut millis: Vec<f64> = seen
            .iter()
            .filter(|s| s.question == question && s.good)
            .map(|s| s.millis)
            .collect();
        millis.sort_by(f64::total_cmp);
        let at = |q: f64| {
            millis.get(((millis.len() as f64 * q) as usize).min(millis.len().saturating_sub(1)))
        };
        json!({"p50_ms": at(0.5), "p99_ms": at(0.99), "p999_ms": at(0.999), "max_ms": at(1.0), "count": millis.len()})
    };
    json!({"requests_per_s": rate, "seconds": seconds, "choose": of(true), "outcomes": of(false),
        "failed": seen.iter().filter(|s| !s.good).count()})
}

fn request(id: u64) -> (&'static str, String) {
    let signal = -45.0 - (id * 7919 % 450) as f64 / 10.0;
    let context = json!({"wifi.rtt_ms": 10 + id % 30, "wifi.signal_dbm": signal, "wifi.loss": 0.001,
        "cellular.rtt_ms": 45, "cellular.rsrq_db": -11, "cellular.cqi": null});
    let location = format!("place-{}", (id / 2) % LOCATIONS);
    match id % 2 {
        0 => (
            "/v1/choose",
            json!({"location": location, "context": context}).to_string(),
        ),
        _ => {
            let wifi = id % 4 == 1;
            let mbps = if wifi == (signal > -65.0) { 40.0 } else { 8.0 };
            let outcome = json!({"id": format!("c{id}"), "location": location, "context": context,
                "path": if wifi { "wifi" } else { "cellular" }, "chosen_by": "server", "throughput_mbps": mbps, "latency_ms": 30});
            ("/v1/outcomes", json!({ "outcomes": [outcome] }).to_string())
        }
    }
}
