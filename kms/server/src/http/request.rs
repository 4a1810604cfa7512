//! The processing of one request, from its head to its response.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use gabion_kms::gate::{Action, Caller, Peer};
use gabion_kms::service::{Generation, Service};
use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, ETAG, EXPECT, HOST, HeaderMap,
    HeaderName, HeaderValue, IF_NONE_MATCH, RETRY_AFTER, TRANSFER_ENCODING, WWW_AUTHENTICATE,
};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode, Version};
use sha2::{Digest, Sha256};

use super::coalesce::Coalescer;
use super::headers;
use super::pending_caller::{Head, PendingCaller};
use super::routes::{self, Access, Route};
use super::upload::{self, Upload};
use crate::api::idempotency::{self, IdempotentRoute};
use crate::api::single::ParsedCall;
use crate::api::streams::StreamHandler;
use crate::api::{Call, JSON, JWKS, Reply, transit, vault};
use crate::blocking::{defect, run_blocking};
use crate::error::Error;
use crate::lifecycle::service_host::ServiceHost;
use crate::lifecycle::state::State;
use crate::net::memory_budget::{MemoryOwner, MemoryReservation, SHORT};
use crate::net::options::Options;
use crate::net::peer::ConnectionPeer;
use crate::parse::body::{forget, memory, read};
use crate::parse::json;
use crate::parse::query::{Query, percent_decode};
use crate::parse::trace;
use crate::problem::Problem;

/// The media type of streamed messages.
const OCTETS: &[u8] = b"application/octet-stream";

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The state and the coalescer that all requests share.
#[derive(Clone)]
pub struct RequestContext {
    pub state: Arc<State>,
    /// Runs requests of the same kind in one call.
    pub coalescer: Arc<Coalescer>,
}

impl RequestContext {
    /// Creates the context of a new server.
    ///
    /// # Errors
    /// Those of [`State::new`].
    pub fn new(
        host: Arc<ServiceHost>,
        options: &Options,
        description: &'static str,
    ) -> Result<Self, Error> {
        let state = Arc::new(State::new(host, options, description)?);
        Ok(RequestContext { state, coalescer: Coalescer::new(options.coalesce) })
    }
}

/// Answers a request. Always returns a response.
async fn answer(
    shared: &RequestContext,
    from: Arc<ConnectionPeer>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let state = &shared.state;
    let id = state.request_id();
    let is_vaults = routes::is_vaults(request.uri().path());
    let known = known_marks(request.headers());
    let (answer, retry_after_s) = match reply(shared, &from, request, &id).await {
        Ok(answer) if answer.reply.kind == JWKS && answer.reply.status == 200 => {
            state.count(answer.reply.status);
            return Ok(cacheable(answer, &id, &known));
        }
        Ok(answer) => (answer, None),
        Err(problem) if is_vaults => (vault::refusal(&problem).into(), problem.retry_after_s),
        Err(problem) => (refusal(&problem, &id).into(), problem.retry_after_s),
    };
    state.count(answer.reply.status);
    Ok(response(answer, &id, retry_after_s))
}

async fn reply(
    shared: &RequestContext,
    from: &ConnectionPeer,
    request: Request<Incoming>,
    id: &str,
) -> Result<Answer, Problem> {
    let state = &shared.state;
    let (head, mut body) = request.into_parts();
    let admission = admit(state, from, &head, body.size_hint().exact(), id);
    // A client that waits for `100 Continue` has not sent a body.
    if admission.is_err() && !head.headers.contains_key(EXPECT) {
        // The rest of the body must not be parsed as the next request.
        forget(&mut body, state.body_max).await;
    }
    let Admission { route, stream_handler, parts, caller, query, reserved } = admission?;
    let charged = |problem| match &caller {
        Some(caller) => caller.charge(state, problem),
        None => problem,
    };
    let (mut whole, mut stream) = (Bytes::new(), None);
    match stream_handler {
        Some(handler) => stream = Some((handler, body)),
        None => whole = read(&mut body, route.body_max(state.body_max)).await.map_err(charged)?,
    }
    if route.is_vaults() && whole.trim_ascii() == b"null" {
        // Vault's client sends this for an empty body.
        whole = Bytes::new();
    }
    let parts = parts.iter().map(|part| percent_decode(part)).collect::<Result<_, _>>();
    let parts = parts.map_err(charged)?;
    let namespace = match route.is_health {
        true => None,
        false => namespace(&head.headers).map_err(charged)?,
    };
    // The caller's certificate or the service's generation may have ended before the body arrived.
    let caller = caller.map(|caller| caller.resume(state, from)).transpose()?;
    let owner = caller.as_ref().map(|(_, who)| MemoryOwner::of(who));
    let peer = peer(state, from, caller.is_some());
    let (id, trace) = (id.to_owned(), trace::parent(&head.headers));
    let bytes = AtomicUsize::new(whole.len());
    let (asked, under) = (OnceLock::new(), Arc::new(OnceLock::new()));
    if let (Some((service, _)), false) = (&caller, route.is_sealing) {
        let _ = under.set(service.generation().clone());
    }
    let call = Call {
        under: under.clone(),
        find_routes: routes::at,
        _reserved: reserved,
        state: state.clone(),
        id,
        trace,
        asked,
        caller,
        peer,
        parts,
        namespace,
        query,
        body: whole,
        bytes,
        op: None,
    };
    if let Some((handler, mut body)) = stream {
        let upload = Upload { handler, from, is_expecting: head.headers.contains_key(EXPECT) };
        let reply = upload::answer(&upload, call, &mut body).await?;
        return release(state, (&under, owner), from, reply);
    }
    let running = state.run();
    let reply = handle_request(shared, route, call, running.is_alone()).await?;
    release(state, (&under, owner), from, reply)
}

/// Returns the properties of a connection for authentication.
fn peer(state: &State, from: &ConnectionPeer, is_looked_at: bool) -> Peer {
    // A revoked certificate authenticates no caller, not even at open paths.
    match is_looked_at || from.is_still_valid(state.clients().as_deref()) {
        true => from.peer,
        false => Peer { certificate: None, ..from.peer },
    }
}

/// A response, and the memory that is reserved for it until it is written.
struct Answer {
    reply: Reply,
    reserved: Option<MemoryReservation>,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Answer { reply, reserved: None }
    }
}

impl Answer {
    fn into_bytes(self) -> Bytes {
        /// A body with its reserved memory.
        struct ReservedBody {
            body: Vec<u8>,
            _reserved: MemoryReservation,
        }

        impl AsRef<[u8]> for ReservedBody {
            fn as_ref(&self) -> &[u8] {
                &self.body
            }
        }

        match self.reserved {
            None => Bytes::from(self.reply.body),
            Some(_reserved) => Bytes::from_owner(ReservedBody { body: self.reply.body, _reserved }),
        }
    }
}

/// Hands a response to its connection, whose gate checks the generation again before each write.
///
/// # Errors
/// `sealed` if the service was sealed while the request ran.
fn release(
    state: &State,
    (under, owner): (&OnceLock<Generation>, Option<MemoryOwner>),
    from: &ConnectionPeer,
    reply: Reply,
) -> Result<Answer, Problem> {
    if let Some(generation) = under.get() {
        generation.check().map_err(|_| Problem::withheld())?;
        from.gate.take(generation);
    }
    let reserved = owner.and_then(|owner| state.budget.hold(&owner, reply.body.len()));
    Ok(Answer { reply, reserved })
}

/// Runs a request's handler: on this thread, in a batch, or on a thread that may block.
async fn handle_request(
    shared: &RequestContext,
    route: &'static Route,
    mut call: Call,
    is_alone: bool,
) -> Result<Reply, Problem> {
    let is_short = call.body.len() <= SHORT;
    let Route { method, path, change: action, is_secret, handler, .. } = *route;
    let of_route = IdempotentRoute { method, path, action, is_secret, handler };
    let handle = move |call: &mut Call| {
        // The request may have waited for a thread.
        call.under.get().map_or(Ok(()), Generation::check)?;
        idempotency::answer_once(&of_route, call).map_err(|problem| call.refusal(problem))
    };
    if !(route.is_quick && is_short) {
        // The handler completes even if the client disconnects.
        return run_blocking(move || handle(&mut call)).await?;
    }
    // If no other request waits, switching threads would take longer than the work. Otherwise
    // requests are coalesced if that is faster, or run on other threads.
    if is_alone {
        let handled = catch_unwind(AssertUnwindSafe(|| handle(&mut call)));
        return handled.unwrap_or_else(|_| Err(defect()));
    }
    let single = catch_unwind(AssertUnwindSafe(|| match route.single {
        Some(read) => read(&call).map_err(|problem| call.refusal(problem)),
        None => Ok(None),
    }));
    match single.unwrap_or_else(|_| Err(defect()))? {
        None => run_blocking(move || handle(&mut call)).await?,
        Some(single) => match shared.coalescer.submit(ParsedCall { call, single }) {
            Ok(answered) => answered.await.unwrap_or_else(|_| Err(defect())),
            Err(parsed) => run_blocking(move || parsed.run()).await?,
        },
    }
}

/// A request whose head was accepted.
struct Admission {
    route: &'static Route,
    /// The handler of a streamed message.
    stream_handler: Option<&'static StreamHandler>,
    /// The parameters in the path.
    parts: Vec<String>,
    /// The caller, if the route requires one.
    caller: Option<PendingCaller>,
    query: Query,
    /// The memory of the body.
    reserved: Option<MemoryReservation>,
}

/// Checks a request's head and the length of its body before the body is read.
fn admit(
    state: &State,
    from: &ConnectionPeer,
    head: &Parts,
    length: Option<u64>,
    id: &str,
) -> Result<Admission, Problem> {
    if head.version == Version::HTTP_11 && !head.headers.contains_key(HOST) {
        // RFC 9112, section 3.2. `headers::check` rejects a second one.
        return Err(Problem::bad("expected one field Host"));
    }
    let path = head.uri.path();
    let found = routes::at(path);
    let of_method = |routes: &[&'static Route]| -> Option<&'static Route> {
        routes.iter().find(|route| route.takes(head.method.as_str())).copied()
    };
    let route = found.as_ref().and_then(|(routes, _)| of_method(routes));
    headers::check(&head.method, &head.headers, route.is_some_and(|route| route.is_health))?;
    let (routes, parts) = found.ok_or_else(|| transit::no_path(path))?;
    let route = route.ok_or_else(|| no_method(head.method.as_str(), &routes))?;
    let caller = match route.access {
        Access::Open => None,
        Access::Caller => {
            let token = token(&head.headers)?;
            if !from.is_still_valid(state.clients().as_deref()) {
                return Err(Problem::revoked());
            }
            let service = state.host.seal.service()?;
            let who = match (token, &from.named) {
                // A token takes precedence over a certificate.
                (Some(token), _) => service.authenticate(token, &from.peer)?,
                (None, Some(Ok(name))) => service.of_certificate(name.clone(), &from.peer),
                (None, Some(Err(why))) => {
                    return Err(Problem::unauthenticated(&format!(
                        "the request has no token, and {why}"
                    )));
                }
                (None, None) => return Err(Problem::unauthenticated("the request has no token")),
            };
            Some((service, who))
        }
    };
    let Some((service, who)) = caller else {
        let query = match route.is_health {
            true => Query::lenient(head.uri.query()),
            false => Query::read(head.uri.query(), &names(route.query, None))?,
        };
        return Ok(Admission {
            route,
            stream_handler: None,
            parts,
            caller: None,
            query,
            reserved: None,
        });
    };
    if !route.takes_away() {
        service.check_refusals(&who)?;
    }
    let fields = check_head(state, (&service, &who), (route, &parts), head, length, id);
    let caller = PendingCaller::new(&service, who);
    let (stream_handler, query, reserved) =
        fields.map_err(|problem| caller.charge(state, problem))?;
    Ok(Admission { route, stream_handler, parts, caller: Some(caller), query, reserved })
}

/// The stream handler, the parameters and the reserved memory of a request whose caller is known.
type HeadFields = (Option<&'static StreamHandler>, Query, Option<MemoryReservation>);

/// Checks the rest of a head: the kind of body, the query parameters, the caller's permission, and
/// the memory for the body.
fn check_head(
    state: &State,
    (service, who): (&Service, &Caller),
    (route, parts): (&'static Route, &[String]),
    head: &Parts,
    length: Option<u64>,
    id: &str,
) -> Result<HeadFields, Problem> {
    let stream_handler = match &route.stream_handler {
        Some(stream_handler) if is_message(&head.headers) => Some(stream_handler),
        Some(_) | None => None,
    };
    let parameters = stream_handler.map_or(route.query, |stream_handler| stream_handler.query);
    let query = Query::read(head.uri.query(), &names(parameters, route.change))?;
    let namespace = namespace(&head.headers)?;
    let asked = Head { route, parts, query: &query, namespace };
    asked.check_permission(service, who, (id, trace::parent(&head.headers).as_deref()))?;
    let bytes = match stream_handler {
        None => memory(length, route.body_max(state.body_max)),
        Some(_) => upload::memory(length, state.body_max),
    };
    let reserved = state.budget.take(&MemoryOwner::of(who), bytes)?;
    Ok((stream_handler, query, reserved))
}

/// Returns the names of the query parameters of a route.
fn names(parameters: &[(&'static str, &'static str)], change: Option<Action>) -> Vec<&'static str> {
    let op_id = change.map(|_| idempotency::OP_ID.0);
    parameters.iter().map(|(name, _)| *name).chain(op_id).collect()
}

/// Returns whether the body is a streamed message.
fn is_message(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| {
        let kind = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
        kind.trim_ascii().eq_ignore_ascii_case(OCTETS)
    })
}

/// Returns the token from one of two header fields; `None` if both are missing.
fn token(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    fn text(value: &HeaderValue) -> Option<&str> {
        value.to_str().ok()
    }
    let mut found: Vec<&str> = Vec::new();
    for value in headers.get_all(AUTHORIZATION) {
        let (scheme, token) = text(value)
            .and_then(|text| text.split_once(' '))
            .ok_or_else(|| Problem::unauthenticated("the field Authorization has no token"))?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Problem::unauthenticated(
                "the field Authorization is of another scheme than Bearer",
            ));
        }
        found.push(token.trim());
    }
    let vaults = headers.get_all("x-vault-token").iter();
    found.extend(vaults.map(|value| text(value).unwrap_or_default()));
    match found[..] {
        [] => Ok(None),
        [token] => Ok(Some(token)),
        [_, ..] => Err(Problem::unauthenticated("there is more than one token")),
    }
}

/// Returns the tenant from Vault's namespace field.
fn namespace(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get("x-vault-namespace") else { return Ok(None) };
    let text = value.to_str().map_err(|_| Problem::bad("X-Vault-Namespace is not text"))?;
    let name = text.trim_matches('/');
    Ok(Some(name.to_owned()).filter(|name| !name.is_empty()))
}

/// Returns the entity tags of `If-None-Match` (RFC 9110, 13.1.2).
fn known_marks(headers: &HeaderMap) -> Vec<String> {
    let fields = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let marks = fields.flat_map(|field| field.split(','));
    marks.map(|mark| mark.trim().trim_start_matches("W/").to_owned()).collect()
}

/// Creates a response with an `ETag`, or a 304 if the client has it. Caches have to revalidate
/// before each use, so that a withdrawn key is not served from a cache.
fn cacheable(mut answer: Answer, id: &str, known: &[String]) -> Response<Full<Bytes>> {
    let digest: [u8; 32] = Sha256::digest(&answer.reply.body).into();
    let mark: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let mark = format!("\"{mark}\"");
    let is_known = known.iter().any(|known| *known == mark || known == "*");
    if is_known {
        (answer.reply.status, answer.reply.body) = (304, Vec::new());
    }
    let mut response = response(answer, id, None);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if let Ok(mark) = HeaderValue::from_str(&mark) {
        headers.insert(ETAG, mark);
    }
    if is_known {
        headers.remove(CONTENT_TYPE);
    }
    response
}

fn no_method(method: &str, routes: &[&Route]) -> Problem {
    let method: String = method.chars().take(20).collect();
    Problem::no_method(&method, &allowed(routes))
}

/// Returns all methods of a path.
fn allowed(routes: &[&Route]) -> String {
    let methods: Vec<&str> = routes.iter().flat_map(|route| route.methods()).collect();
    methods.join(", ")
}

/// Answers a request, with the fields that its status requires (RFC 9110, sections 11.6.1, 15.3.5
/// and 15.5.6).
pub async fn answer_with_fields(
    shared: RequestContext,
    from: Arc<ConnectionPeer>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let uri = request.uri().clone();
    let is_chunked = request.headers().contains_key(TRANSFER_ENCODING);
    let mut response = answer(&shared, from, request).await?;
    if is_chunked {
        // RFC 9112, section 6.1: the request also had a Content-Length, which hyper removes. A
        // proxy may have used it, and may see another end of the request. So no further request of
        // the connection can be trusted.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    match response.status() {
        StatusCode::UNAUTHORIZED => {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            let routes = routes::at(uri.path()).map(|(routes, _)| routes).unwrap_or_default();
            if let Ok(methods) = HeaderValue::try_from(allowed(&routes)) {
                response.headers_mut().insert(ALLOW, methods);
            }
        }
        StatusCode::NO_CONTENT => {
            response.headers_mut().remove(CONTENT_TYPE);
        }
        _ => {}
    }
    Ok(response)
}

fn refusal(problem: &Problem, id: &str) -> Reply {
    let body = json::write(&problem.envelope(id)).unwrap_or_default();
    Reply { status: problem.status, kind: JSON, body }
}

fn response(answer: Answer, id: &str, retry_after_s: Option<u64>) -> Response<Full<Bytes>> {
    let (status, kind) = (answer.reply.status, answer.reply.kind);
    let mut response = Response::new(Full::new(answer.into_bytes()));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    if let Some(seconds) = retry_after_s.or((status == 503).then_some(1)) {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
