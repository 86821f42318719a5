//! The routes: what each takes and gives. The OpenAPI document is made from these functions.

use std::sync::{Arc, LazyLock};

use axum::extract::{DefaultBodyLimit, FromRequest, Path, Request, State};
use axum::http::header::{HeaderName, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router};
use serde::{Deserialize, Serialize};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::OpenApi as Document;
use utoipa::{OpenApi, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access;
use crate::app_state::AppState;
use crate::guard;
use crate::openmetrics;
use crate::refusal::{Refusal, ToBodies, ToHolders};
use crate::state::{PlaceState, State as Everything};
use crate::tokens::TokenHolder;
use crate::wire::{self, Answer, Problem, Question, Receipt, Report};

const PAGE: &str = include_str!("page.html");

type Shared = State<Arc<AppState>>;

#[derive(OpenApi)]
#[openapi(info(
    title = "multipilot edge server",
    description = "Many devices ask on which path a connection is to start, report what came of it, and learn from each other.",
    license(name = "MIT OR Apache-2.0")
))]
struct Head;

fn routes() -> (OpenApiRouter<Arc<AppState>>, OpenApiRouter<Arc<AppState>>) {
    let devices = OpenApiRouter::new()
        .routes(routes!(about))
        .routes(routes!(choose))
        .routes(routes!(report))
        .routes(routes!(model));
    let operators = OpenApiRouter::new()
        .routes(routes!(state))
        .routes(routes!(place))
        .routes(routes!(refit))
        .routes(routes!(figures));
    (devices, operators)
}

/// The API's description.
pub fn document() -> Document {
    let (devices, operators) = routes();
    let open =
        OpenApiRouter::<Arc<AppState>>::with_openapi(Head::openapi()).routes(routes!(health));
    let (_, mut document) = open.merge(devices).merge(operators).split_for_parts();
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let parts = document.components.get_or_insert_default();
    parts.add_security_scheme("token", SecurityScheme::Http(scheme));
    document
}

pub fn router(app: Arc<AppState>) -> Router {
    let (devices, operators) = routes();
    let guard = app.guard.clone();
    let devices =
        Router::from(devices).layer(middleware::from_fn_with_state(guard.clone(), guard::device));
    let operators =
        Router::from(operators).layer(middleware::from_fn_with_state(guard, guard::operator));
    Router::new()
        .merge(Router::from(OpenApiRouter::new().routes(routes!(health))))
        .route("/", axum::routing::get(page))
        .route("/openapi.json", axum::routing::get(described))
        .merge(devices)
        .merge(operators)
        .fallback(nowhere)
        .method_not_allowed_fallback(not_so)
        .layer(DefaultBodyLimit::max(app.config.body))
        .layer(middleware::from_fn_with_state(app.clone(), in_time))
        .layer(middleware::from_fn_with_state(app.clone(), access::note))
        .with_state(app)
}

/// A body that trickles in is not waited for.
async fn in_time(State(app): Shared, request: Request, next: Next) -> Response {
    match tokio::time::timeout(app.config.patience, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Refusal::too_slow().into_response(),
    }
}

async fn described() -> Response {
    static TEXT: LazyLock<String> = LazyLock::new(|| document().to_json().expect("plain data"));
    ([(CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}

async fn nowhere() -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        "no such address: /openapi.json lists those that there are",
    )
}

async fn not_so() -> Refusal {
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "no such method here: /openapi.json lists those that there are",
    )
}

/// JSON whose errors are ours.
struct Body<T>(T);

impl<S: Send + Sync, T: serde::de::DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let Json(value) = Json::<T>::from_request(request, state).await?;
        Ok(Body(value))
    }
}

/// The page loads nothing and is framed by nobody.
async fn page() -> Response {
    const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                          img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-cache"),
        (HeaderName::from_static("referrer-policy"), "no-referrer"),
    ];
    (headers, PAGE).into_response()
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
struct Health {
    /// Outcomes that are stored but not learnt from yet
    behind: i64,
}

/// Whether the server is there
#[utoipa::path(get, path = "/health", responses((status = 200, description = "It is", body = Health)), security(()))]
async fn health(State(app): Shared) -> Json<Health> {
    let behind = app.models.behind();
    Json(Health { behind })
}

/// What this server knows of
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct About {
    pub version: String,
    pub paths: Vec<String>,
    /// Names of the measurements of a context
    pub features: Vec<String>,
    pub policy: String,
}

/// Paths, features and policy
#[utoipa::path(get, path = "/v1/about", responses((status = 200, body = About), ToHolders), security(("token" = [])))]
async fn about(State(app): Shared) -> Json<About> {
    Json(About {
        version: env!("CARGO_PKG_VERSION").into(),
        paths: app.config.paths.clone(),
        features: app.models.features().to_vec(),
        policy: app.config.policy.clone(),
    })
}

/// On which path to start a connection
#[utoipa::path(post, path = "/v1/choose", request_body = Question,
    responses((status = 200, body = Answer), ToHolders, ToBodies), security(("token" = [])))]
async fn choose(
    State(app): Shared,
    Body(question): Body<Question>,
) -> Result<Json<Answer>, Refusal> {
    app.check_location(&question.location, &question.context)?;
    let known = &app.config.paths;
    let mut open = vec![question.paths.is_none(); known.len()];
    for path in question.paths.iter().flatten() {
        wire::check_path("paths", path, known).map_err(Refusal::impossible)?;
        let at = known.iter().position(|k| k == path).expect("it is known");
        open[at] = true;
    }
    if !open.contains(&true) {
        return Err(Refusal::impossible(
            "paths: expected at least one, or leave it out for all",
        ));
    }
    let answer = app
        .models
        .choose(&question.location, &question.context, &open);
    app.metrics.chosen(&answer.path);
    Ok(Json(answer))
}

/// What came of connections; when this answers, it is on disk
#[utoipa::path(post, path = "/v1/outcomes", request_body = Report,
    responses((status = 200, body = Receipt), ToHolders, ToBodies,
        (status = 500, description = "The experience cannot be written", body = Problem),
        (status = 503, description = "Too many reports wait to be written; Retry-After says when to come again", body = Problem),
        (status = 507, description = "The disk, or the database's share of it, is full", body = Problem)),
    security(("token" = [])))]
async fn report(
    State(app): Shared,
    Extension(holder): Extension<TokenHolder>,
    Body(report): Body<Report>,
) -> Result<Json<Receipt>, Refusal> {
    let outcomes = report.outcomes;
    if !(1..=wire::MOST_OUTCOMES).contains(&outcomes.len()) {
        return Err(Refusal::impossible(format!(
            "outcomes: expected 1 to {}",
            wire::MOST_OUTCOMES
        )));
    }
    for outcome in &outcomes {
        app.check(outcome)?;
    }
    for outcome in &outcomes {
        if !app.models.admit(&outcome.location) {
            return Err(Refusal::impossible(format!(
                "location: this server knows {} already and takes no more (limits.locations)",
                app.config.locations
            )));
        }
    }
    let receipt = app.store.append(&holder.name, outcomes).await?;
    app.metrics.outcomes.inc_by(receipt.stored as u64);
    app.metrics.duplicates.inc_by(receipt.duplicates as u64);
    Ok(Json(receipt))
}

/// A location's model, for a device to go on with when the server is away
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Model {
    pub location: String,
    pub paths: Vec<String>,
    /// Outcomes behind it; 0 where it is the shared model
    pub outcomes: u64,
    /// As multipilot's policies save and load it
    #[schema(value_type = Object)]
    pub bandit: serde_json::Value,
}

/// A location's model
#[utoipa::path(get, path = "/v1/model/{location}", params(("location" = String, Path)),
    responses((status = 200, body = Model), ToHolders,
        (status = 422, description = "No name of a location", body = Problem)),
    security(("token" = [])))]
async fn model(State(app): Shared, Path(location): Path<String>) -> Result<Json<Model>, Refusal> {
    wire::check_name("location", &location).map_err(Refusal::impossible)?;
    let (outcomes, bandit) = app.models.model(&location);
    Ok(Json(Model {
        location,
        paths: app.config.paths.clone(),
        outcomes,
        bandit,
    }))
}

/// Every location in short, and all together
#[utoipa::path(get, path = "/v1/state", responses((status = 200, body = Everything), ToHolders,
    (status = 403, description = "Not an operator's token", body = Problem)), security(("token" = [])))]
async fn state(State(app): Shared) -> Json<Everything> {
    let uptime_s = app.started.elapsed().as_secs();
    Json(app.models.state(&app.config.policy, uptime_s))
}

/// One location: rewards over time, paths chosen, calibration, drift
#[utoipa::path(get, path = "/v1/state/{location}", params(("location" = String, Path)),
    responses((status = 200, body = PlaceState), ToHolders,
        (status = 403, description = "Not an operator's token", body = Problem),
        (status = 404, description = "Nothing was reported from there", body = Problem)), security(("token" = [])))]
async fn place(
    State(app): Shared,
    Path(location): Path<String>,
) -> Result<Json<PlaceState>, Refusal> {
    let state = app.models.location_state(&location);
    state.map(Json).ok_or_else(|| {
        Refusal::new(
            StatusCode::NOT_FOUND,
            "location: nothing was reported from there yet",
        )
    })
}

/// Requests, outcomes and the state of the server, for Prometheus
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, description = "OpenMetrics text", content_type = "application/openmetrics-text", body = String), ToHolders,
    (status = 403, description = "Not an operator's token", body = Problem)), security(("token" = [])))]
async fn figures(State(app): Shared) -> Response {
    let metrics = &app.metrics;
    metrics.behind.set(app.models.behind());
    metrics.locations.set(app.models.names().len() as i64);
    metrics.uptime.set(app.started.elapsed().as_secs_f64());
    ([(CONTENT_TYPE, openmetrics::CONTENT_TYPE)], metrics.text()).into_response()
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Refit {
    /// All when left out
    #[serde(default)]
    #[schema(max_length = 64)]
    location: Option<String>,
}

/// Has models fitted anew on all that they remember
#[utoipa::path(post, path = "/v1/refit", request_body = Refit,
    responses((status = 202, description = "It is under way"), ToHolders, ToBodies,
        (status = 403, description = "Not an operator's token", body = Problem),
        (status = 404, description = "Nothing was reported from there", body = Problem),
        (status = 503, description = "Others wait for that already", body = Problem)), security(("token" = [])))]
async fn refit(State(app): Shared, Body(asked): Body<Refit>) -> Result<StatusCode, Refusal> {
    if let Some(location) = &asked.location {
        if app.models.location_state(location).is_none() {
            return Err(Refusal::new(
                StatusCode::NOT_FOUND,
                "location: nothing was reported from there yet",
            ));
        }
    }
    match (app.refit)(asked.location) {
        true => Ok(StatusCode::ACCEPTED),
        false => Err(Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "others wait for that already: come again later",
        )),
    }
}
