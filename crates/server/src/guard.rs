//! Who may pass: a token, a role, a rate.

use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::Response;

use crate::limit::{Limiter, Rate};
use crate::refusal::Refusal;
use crate::tokens::{Holder, Role, Tokens};
use crate::Error;

/// Requests without a token of ours, from all together: guessing is hopeless anyway, and this keeps it cheap.
const STRANGERS: Rate = Rate {
    per_second: 50.0,
    burst: 100.0,
};

pub struct Guard {
    file: PathBuf,
    tokens: RwLock<Arc<Tokens>>,
    holders: Limiter,
    strangers: Limiter,
}

impl Guard {
    pub fn new(file: PathBuf, rate: Rate) -> Result<Guard, Error> {
        let tokens = Tokens::load(&file)?;
        Ok(Guard {
            file,
            tokens: RwLock::new(Arc::new(tokens)),
            holders: Limiter::new(rate),
            strangers: Limiter::new(STRANGERS),
        })
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

    fn admit(&self, request: &Request, needs: Role) -> Result<Holder, Refusal> {
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
        let now = Instant::now();
        let Some(holder) = token.and_then(|t| tokens.holder(t)) else {
            self.strangers.take("", now).map_err(Refusal::too_many)?;
            return Err(Refusal::stranger());
        };
        self.holders
            .take(&holder.name, now)
            .map_err(Refusal::too_many)?;
        match holder.role >= needs {
            true => Ok(holder.clone()),
            false => Err(Refusal::forbidden(&holder.name)),
        }
    }
}

/// Lets a request pass that has a token, and tells the handler whose.
pub async fn device(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    pass(&guard, request, next, Role::Device).await
}

pub async fn operator(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    pass(&guard, request, next, Role::Operator).await
}

async fn pass(guard: &Guard, mut request: Request, next: Next, needs: Role) -> Response {
    use axum::response::IntoResponse;
    match guard.admit(&request, needs) {
        Ok(holder) => {
            request.extensions_mut().insert(holder);
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    }
}
