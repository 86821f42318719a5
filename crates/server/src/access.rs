//! Every request counted, and named in the log as far as it is to be: who, what and how it ended. Neither tokens nor what a
//! request or an answer says.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;

use crate::app_state::AppState;
use crate::config::AccessLog;
use crate::http::Peer;
use crate::tokens::TokenHolder;

/// Anybody may invent a method: a label is one of few.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::HEAD => "HEAD",
        _ => "other",
    }
}

pub async fn note(State(app): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = method(request.method());
    let parts = request.extensions();
    let route = parts
        .get::<MatchedPath>()
        .map_or("none", MatchedPath::as_str)
        .to_owned();
    let peer = parts.get::<Peer>().copied();
    let response = next.run(request).await;
    let (status, took) = (response.status(), started.elapsed());
    let wanted = match app.config.access_log {
        AccessLog::Off => false,
        AccessLog::Refused => !status.is_success(),
        AccessLog::All => true,
    };
    let token = response.extensions().get::<TokenHolder>();
    let token = token.map(|h| h.name.as_str());
    if wanted && (token.is_some() || app.guard.logs_stranger()) {
        tracing::info!(
            peer = peer.map(|p| tracing::field::display(p.0)),
            token,
            method,
            route,
            status = status.as_u16(),
            ms = took.as_millis() as u64,
            // A journal shows no fields unless it is asked to.
            "{method} {route} of {}: {status}",
            token.unwrap_or("nobody")
        );
    }
    app.metrics.answered(route, method, status.as_u16(), took);
    response
}
