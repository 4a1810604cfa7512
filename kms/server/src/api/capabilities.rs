//! The caller's permissions at paths of Vault's API, for clients that query them first.

use gabion_kms::gate::Action;
use gabion_kms::model::Label;
use gabion_kms_wire::transit::Capabilities;
use serde_json::{Map, Value, json};

use super::route::{Access, Route};
use super::{Call, Reply, transit, vault};
use crate::parse::json;
use crate::parse::query::percent_decode;
use crate::problem::Problem;

/// The maximum number of paths of a request: each takes several policy decisions.
const PATHS_MAX: usize = 64;

pub fn capabilities_self(call: &Call) -> Result<Reply, Problem> {
    let asked: Capabilities = json::read(&call.body)?;
    let (service, caller) = call.caller()?;
    if let Some(token) = &asked.token {
        let other = service.authenticate(token.expose(), &call.peer)?;
        if !other.is_same_token(caller.who) {
            let why = "`token` is not supported, but for the one that comes in the head";
            return Err(Problem::unsupported(why));
        }
    }
    let paths = match (asked.paths, asked.path) {
        (Some(paths), None) | (None, Some(paths)) => paths.0,
        (None, None) => return Err(Problem::bad("missing field `paths`")),
        (Some(_), Some(_)) => return Err(Problem::bad("expected one of `paths` and `path`")),
    };
    if paths.is_empty() || paths.len() > PATHS_MAX {
        return Err(Problem::bad(format!("`paths` has 1 to {PATHS_MAX} paths")));
    }
    // Each path costs about as much as a refused request.
    call.charge_refused(paths.len());
    let mut about = Map::new();
    for path in &paths {
        about.insert(path.clone(), json!(capabilities(call, path)?));
    }
    if let [path] = &paths[..] {
        // As in Vault, for older clients.
        let one = about[path].clone();
        about.insert("capabilities".to_owned(), one);
    }
    vault::data(call, Value::Object(about), &[])
}

/// Returns Vault's capabilities of the caller at a path, in order.
fn capabilities(call: &Call, path: &str) -> Result<Vec<&'static str>, Problem> {
    let tenant = transit::tenant(call)?;
    let path = format!("/v1/{}", path.trim_start_matches('/'));
    let mut words = Vec::new();
    let (routes, parts) = (call.find_routes)(&path).unwrap_or_default();
    for route in routes {
        let name = match route.key_part(&parts) {
            None => None,
            Some(part) => {
                match percent_decode(part).ok().and_then(|name| Label::new("key", &name).ok()) {
                    Some(name) => Some(name),
                    // Not a valid key name.
                    None => continue,
                }
            }
        };
        let (actions, word) = meant(route);
        if may(call, route, &actions, (&tenant, name.as_ref()))? {
            words.push(word);
            words.extend(actions.contains(&Action::Create).then_some("create"));
        }
    }
    words.sort_unstable();
    words.dedup();
    Ok(if words.is_empty() { vec!["deny"] } else { words })
}

fn may(
    call: &Call,
    route: &Route,
    actions: &[Action],
    (tenant, name): (&Label, Option<&Label>),
) -> Result<bool, Problem> {
    let (service, caller) = call.caller()?;
    let mut may = actions.iter().map(|&action| service.may(&caller, action, tenant, name));
    Ok(match route.method {
        _ if route.access == Access::Open => true,
        // The key is deleted first, and then destroyed.
        "DELETE" => may.all(|may| may),
        _ => actions.is_empty() || may.any(|may| may),
    })
}

/// Returns the actions that a route requires, including those that only its handler checks, and
/// Vault's name of the capability.
fn meant(route: &Route) -> (Vec<Action>, &'static str) {
    let actions = match route.name {
        "transit_list" | "transit_list_by_get" => vec![Action::List],
        "transit_read" | "transit_export" | "transit_export_version" => vec![Action::Show],
        "transit_delete" => vec![Action::Delete, Action::Destroy],
        "transit_soft_delete" => vec![Action::Delete],
        _ => route.actions().to_vec(),
    };
    let word = match route.method {
        "LIST" => "list",
        "GET" if actions == [Action::List] => "list",
        "GET" => "read",
        "DELETE" => "delete",
        _ => "update",
    };
    (actions, word)
}
