//! Who may pass: a token, a role, a rate.

use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::Response;

use crate::follow::Followed;
use crate::limit::{Limiter, RateLimit};
use crate::refusal::Refusal;
use crate::tokens::{TokenHolder, TokenRole, Tokens};
use crate::Error;

/// Requests without a token of ours, from all together: guessing is hopeless anyway, and this keeps it cheap.
const STRANGERS: RateLimit = RateLimit {
    per_second: 50.0,
    burst: 100.0,
};

/// Lines of the access log that requests without a token of ours fill: no stranger is to flood the disk.
const STRANGE_LINES: RateLimit = RateLimit {
    per_second: 10.0,
    burst: 50.0,
};

pub struct Guard {
    file: PathBuf,
    followed: Followed,
    tokens: RwLock<Arc<Tokens>>,
    holders: Limiter,
    strangers: Limiter,
    strange_lines: Limiter,
}

impl Guard {
    pub fn new(file: PathBuf, rate: RateLimit) -> Result<Guard, Error> {
        let followed = Followed::new(&[&file]);
        let tokens = Tokens::load(&file)?;
        Ok(Guard {
            file,
            followed,
            tokens: RwLock::new(Arc::new(tokens)),
            holders: Limiter::new(rate),
            strangers: Limiter::new(STRANGERS),
            strange_lines: Limiter::new(STRANGE_LINES),
        })
    }

    pub fn changed(&self) -> bool {
        self.followed.changed()
    }

    /// Reads the file again; with an error in it, the old tokens stay.
    pub fn reload(&self) -> Result<usize, Error> {
        let tokens = Tokens::load(&self.file)?;
        let count = tokens.len();
        *self.tokens.write().unwrap_or_else(|e| e.into_inner()) = Arc::new(tokens);
        Ok(count)
    }

    pub fn holders(&self) -> usize {
        self.tokens.read().unwrap_or_else(|e| e.into_inner()).len()
    }

    /// Whether a request without a token of ours may be logged now.
    pub fn logs_stranger(&self) -> bool {
        self.strange_lines.take("", Instant::now()).is_ok()
    }

    fn identify(&self, request: &Request) -> Result<TokenHolder, Refusal> {
        let said = request.headers().get(AUTHORIZATION);
        let token = said
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim());
        let tokens = self
            .tokens
            .read()
            .unwrap_or_else(|e| e.into_inner())
            .clone();
        match token.and_then(|t| tokens.holder(t)) {
            Some(holder) => Ok(holder.clone()),
            None => {
                let now = Instant::now();
                self.strangers.take("", now).map_err(Refusal::too_many)?;
                Err(Refusal::stranger())
            }
        }
    }

    fn admit(&self, holder: &TokenHolder, needs: TokenRole) -> Result<(), Refusal> {
        self.holders
            .take(&holder.name, Instant::now())
            .map_err(Refusal::too_many)?;
        match holder.role >= needs {
            true => Ok(()),
            false => Err(Refusal::forbidden(&holder.name)),
        }
    }
}

/// Lets a request pass that has a token, and tells the handler whose.
pub async fn device(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    pass(&guard, request, next, TokenRole::Device).await
}

pub async fn operator(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    pass(&guard, request, next, TokenRole::Operator).await
}

async fn pass(guard: &Guard, mut request: Request, next: Next, needs: TokenRole) -> Response {
    use axum::response::IntoResponse;
    let holder = match guard.identify(&request) {
        Ok(holder) => holder,
        Err(refusal) => return refusal.into_response(),
    };
    let mut response = match guard.admit(&holder, needs) {
        Ok(()) => {
            request.extensions_mut().insert(holder.clone());
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    };
    // For the access log.
    response.extensions_mut().insert(holder);
    response
}
