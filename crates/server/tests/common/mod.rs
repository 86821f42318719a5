//! The service without a socket.
#![allow(dead_code)] // each test file uses its own part

use std::path::Path;

use axum::body::Body;
use axum::http::{Request, Response};
use http_body_util::BodyExt;
use mp_server::tokens::{self, TokenRole};
use mp_server::{Config, EdgeServer};
use serde_json::{json, Value};
use tower::ServiceExt;

pub struct TestServer {
    pub service: EdgeServer,
    pub device: String,
    pub operator: String,
}

pub struct Reply {
    pub status: u16,
    pub headers: axum::http::HeaderMap,
    pub body: Value,
}

/// In a folder with a device's and an operator's token.
pub fn open(folder: &Path, text: &str) -> TestServer {
    let mut config = Config::parse("server.toml", text).expect("the test's configuration is right");
    config.data = folder.to_owned();
    let file = config.token_file();
    let token = |name: &str, role| {
        let kept = folder.join(format!("{name}.secret"));
        std::fs::read_to_string(&kept).unwrap_or_else(|_| {
            let token = tokens::create(&file, name, role).expect("a token");
            std::fs::write(&kept, &token).expect("the test's folder");
            token
        })
    };
    let (device, operator) = (
        token("phone", TokenRole::Device),
        token("desk", TokenRole::Operator),
    );
    TestServer {
        service: EdgeServer::open(config).expect("the service opens"),
        device,
        operator,
    }
}

impl TestServer {
    pub async fn send(&self, request: Request<Body>) -> Reply {
        reply(
            self.service
                .router()
                .oneshot(request)
                .await
                .expect("no error"),
        )
        .await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send(post(path, Some(&self.device), body.to_string()))
            .await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send(get(path, Some(&self.operator))).await
    }

    pub async fn report(&self, outcome: Value) -> Reply {
        self.post("/v1/outcomes", &json!({ "outcomes": [outcome] }))
            .await
    }

    /// Waits until all that is stored is learnt.
    pub async fn learnt(&self) {
        while self.get("/health").await.body["behind"] != 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

pub async fn reply(response: Response<Body>) -> Reply {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    Reply {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    }
}

fn request(method: &str, path: &str, token: Option<&str>, body: Body) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    request
        .header("content-type", "application/json")
        .body(body)
        .expect("a request")
}

pub fn post(path: &str, token: Option<&str>, body: impl Into<Body>) -> Request<Body> {
    request("POST", path, token, body.into())
}

pub fn get(path: &str, token: Option<&str>) -> Request<Body> {
    request("GET", path, token, Body::empty())
}

pub fn outcome(id: usize, location: &str, path: &str, throughput: f64) -> Value {
    json!({
        "id": format!("c{id}"),
        "location": location,
        "path": path,
        "context": { "wifi.rtt_ms": 20.0, "cellular.rtt_ms": 40.0, "cellular.cqi": null },
        "chosen_by": "server",
        "throughput_mbps": throughput,
        "latency_ms": 30.0,
    })
}

/// One line that says what, where and how to fix it.
#[track_caller]
pub fn refused(reply: &Reply, status: u16, says: &str) {
    let error = reply.body["error"].as_str().unwrap_or_default();
    assert_eq!(reply.status, status, "{error}");
    assert!(error.contains(says), "{error:?} lacks {says:?}");
    assert!(!error.contains('\n'));
}
