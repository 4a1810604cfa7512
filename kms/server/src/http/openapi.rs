//! The OpenAPI 3.1 description, generated from the table of routes and the wire types.

use std::sync::OnceLock;

use gabion_kms_wire::native::Problem;
use gabion_kms_wire::schema::{JsonSchema, Schemas};
use serde_json::{Map, Value, json};

use super::routes::{Access, ROUTES, Route};
use crate::api::idempotency::OP_ID;
use crate::problem;

/// Returns the description.
pub fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| document().to_string())
}

fn document() -> Value {
    let mut schemas = Schemas::new();
    let refusal = Problem::schema(&mut schemas);
    let mut paths = Map::new();
    // OpenAPI has no method LIST; clients can send GET instead.
    for route in ROUTES.iter().filter(|route| route.method != "LIST") {
        let methods = paths.entry(route.path).or_insert_with(|| json!({}));
        methods[route.method.to_ascii_lowercase()] = operation(route, &refusal, &mut schemas);
    }
    if let Some(code) = schemas.get_mut("Problem").and_then(|of| of.pointer_mut("/properties/code"))
    {
        code["enum"] = json!(problem::codes());
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Gabion key management service",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Bytes are base64 with padding. Requests with unknown fields or parameters are rejected, by name.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn operation(route: &Route, refusal: &Value, schemas: &mut Schemas) -> Value {
    let parameter = |name: &str, place: &str, about: &str| {
        json!({
            "name": name,
            "in": place,
            "required": place == "path",
            "description": about,
            "schema": {"type": "string"},
        })
    };
    let query = route.query.iter().chain(route.change.map(|_| &OP_ID));
    let mut parameters: Vec<Value> =
        query.map(|(name, about)| parameter(name, "query", about)).collect();
    let of_stream = route.stream_handler.iter().flat_map(|handler| handler.query);
    parameters.extend(of_stream.map(|(name, about)| {
        parameter(name, "query", &format!("With a body of {OCTETS} alone. {about}"))
    }));
    parameters.extend(in_path(route.path).map(|name| parameter(name, "path", about(name))));
    let refusal = match route.is_vaults() {
        true => {
            &json!({"type": "object", "properties": {"errors": {"type": "array", "items": {"type": "string"}}}})
        }
        false => refusal,
    };
    let answer = match route.answer {
        Some(schema) => json!({"application/json": {"schema": schema(schemas)}}),
        None => json!({"*/*": {}}),
    };
    // As in Vault, a deletion has no response body.
    let (status, done) = match route.is_vaults() && route.method == "DELETE" {
        true => ("204", json!({"description": "Done."})),
        false => ("200", json!({"description": "Done.", "content": answer})),
    };
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.about,
        "parameters": parameters,
        "responses": {
            (status): done,
            "default": {
                "description": "Not done.",
                "content": {"application/json": {"schema": refusal}},
            },
        },
    });
    if let Some(body) = body(route, schemas) {
        operation["requestBody"] = body;
    }
    if route.access == Access::Caller {
        operation["security"] = json!([{"token": []}]);
    }
    operation
}

/// Describes the body of a request.
fn body(route: &Route, schemas: &mut Schemas) -> Option<Value> {
    let schema = route.body?(schemas);
    let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    // An empty body counts as an object without fields.
    let is_required = name.and_then(|name| schemas.get(name)).is_some_and(|schema| {
        schema["required"].as_array().is_some_and(|fields| !fields.is_empty())
    });
    // Vault's client writes `null` for an empty body.
    let schema = match route.is_vaults() && !is_required {
        true => json!({"anyOf": [schema, {"type": "null"}]}),
        false => schema,
    };
    let mut content = json!({"application/json": {"schema": schema}});
    if let Some(handler) = &route.stream_handler {
        let what = match handler.before {
            None => "The message itself, of any size.".to_owned(),
            Some(name) => {
                format!("So many bytes as `{name}` says, and then the message itself, of any size.")
            }
        };
        let schema = json!({"type": "string", "format": "binary", "description": what});
        content[OCTETS] = json!({"schema": schema});
    }
    Some(json!({"required": is_required, "content": content}))
}

/// The media type of streamed messages.
const OCTETS: &str = "application/octet-stream";

/// Returns the names of a path's parameters.
fn in_path(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// Describes a path parameter.
fn about(name: &str) -> &'static str {
    match name {
        "key" => "The key's name, or its id, percent-encoded.",
        "name" => "The set's name.",
        "hash" => "The hash, as in `hash_algorithm`.",
        "form" => {
            "For `datakey`, `plaintext` or `wrapped`: with or without the plaintext key. For `export`, `public-key`."
        }
        "version" => "The version's number, or `latest`.",
        "source" => "`platform`.",
        "bytes" => "The number of bytes.",
        "tenant" => "The tenant.",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OpenAPI requires these descriptions, and programs reject documents without them.
    #[test]
    fn every_part_of_a_path_is_described() {
        let document = document();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for operation in methods.as_object().unwrap().values() {
                let parameters = operation["parameters"].as_array().unwrap();
                let described: Vec<&str> = parameters
                    .iter()
                    .filter(|parameter| parameter["in"] == "path")
                    .filter(|parameter| parameter["description"] != "")
                    .map(|parameter| parameter["name"].as_str().unwrap())
                    .collect();
                let named: Vec<&str> = in_path(path).collect();
                assert_eq!(described, named, "{path}");
                assert_eq!(path.matches('{').count(), named.len(), "{path}");
            }
        }
    }

    #[test]
    fn every_reference_leads_to_a_schema() {
        let document = document();
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some_and(Value::is_object), "{pointer}");
        }
        let body = |path: &str| &document["paths"][path]["post"]["requestBody"]["required"];
        assert_eq!((body("/v1/kms/sign"), body("/v1/kms/random")), (&json!(true), &json!(false)));
        let sign = &document["components"]["schemas"]["Sign"];
        assert_eq!(sign["required"], json!(["key"]));
        assert_eq!(sign["additionalProperties"], json!(false));
        assert_eq!(
            document["components"]["schemas"]["Signed"]["additionalProperties"],
            Value::Null
        );
        let codes = &document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"];
        assert!(codes.as_array().unwrap().contains(&json!("sealed")));
    }
}
