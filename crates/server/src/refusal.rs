//! How a request is refused: a status, and one line as JSON.

use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::Json;
use utoipa::IntoResponses;

use crate::store::StoreError;
use crate::wire::Problem;

#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    error: String,
    /// Seconds.
    retry_after: Option<u64>,
}

impl Refusal {
    pub fn new(status: StatusCode, error: impl Into<String>) -> Refusal {
        Refusal {
            status,
            error: error.into(),
            retry_after: None,
        }
    }

    /// The request was understood, but says something that cannot be.
    pub fn impossible(error: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, error)
    }

    pub fn stranger() -> Refusal {
        Refusal::new(
            StatusCode::UNAUTHORIZED,
            "no valid token: send Authorization: Bearer TOKEN (multipilot serve --new-token NAME makes one)",
        )
    }

    pub fn forbidden(name: &str) -> Refusal {
        Refusal::new(
            StatusCode::FORBIDDEN,
            format!("{name} is a device: this needs an operator's token"),
        )
    }

    pub fn too_many(wait: Duration) -> Refusal {
        Refusal {
            retry_after: Some(wait.as_secs_f64().ceil().max(1.0) as u64),
            ..Refusal::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too many requests: come again later",
            )
        }
    }

    pub fn too_slow() -> Refusal {
        Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "the request took too long to arrive: send it again",
        )
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        let (status, retry_after) = match error {
            StoreError::Busy => (StatusCode::SERVICE_UNAVAILABLE, Some(1)),
            StoreError::Full(_) => (StatusCode::INSUFFICIENT_STORAGE, None),
            StoreError::Failed(_) => (StatusCode::INTERNAL_SERVER_ERROR, None),
        };
        Refusal {
            retry_after,
            ..Refusal::new(status, error.to_string())
        }
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Refusal {
        Refusal::new(rejection.status(), rejection.body_text())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let error = self.error.replace(['\n', '\r'], " ");
        let mut response = (self.status, Json(Problem { error })).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// What every request with a token may be answered.
#[derive(IntoResponses)]
#[allow(dead_code)] // for the document alone
pub enum ToHolders {
    #[response(status = 401, description = "No valid token")]
    Stranger(Problem),
    #[response(
        status = 429,
        description = "Too many requests; Retry-After says how many seconds to wait"
    )]
    TooMany(Problem),
}

/// What every request with a body may be answered besides.
#[derive(IntoResponses)]
#[allow(dead_code)] // for the document alone
pub enum ToBodies {
    #[response(status = 400, description = "The body is no JSON")]
    NoJson(Problem),
    #[response(status = 408, description = "The request took too long to arrive")]
    TooSlow(Problem),
    #[response(status = 413, description = "The body is too large (limits.body)")]
    TooLarge(Problem),
    #[response(status = 415, description = "The body's type is not application/json")]
    WrongType(Problem),
    #[response(status = 422, description = "The JSON says something that cannot be")]
    Impossible(Problem),
}
