//! The description of what is served (OpenAPI 3.1), made of the table of routes and of the types of the wire.

use std::sync::OnceLock;

use gabion_kms_client::shape::{Schemas, Shape};
use gabion_kms_client::wire::Problem;
use serde_json::{Map, Value, json};

use crate::problem;
use crate::routes::{Access, ROUTES, Route};

/// The description.
pub fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| document().to_string())
}

fn document() -> Value {
    let mut schemas = Schemas::new();
    let refusal = Problem::schema(&mut schemas);
    let mut paths = Map::new();
    // OpenAPI has no method LIST; whoever needs it sends GET.
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
            "description": "Bytes are base64 with padding. Requests refuse what they do not know, by name.",
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
    let mut parameters: Vec<Value> =
        route.query.iter().map(|(name, about)| parameter(name, "query", about)).collect();
    if route.path.contains("{key}") {
        parameters.push(parameter("key", "path", "The key's name, or its id, percent-encoded."));
    }
    if route.path.contains("{name}") {
        parameters.push(parameter("name", "path", "What the set is called."));
    }
    if route.path.contains("{hash}") {
        parameters.push(parameter("hash", "path", "The hash, as `hash_algorithm` has it."));
    }
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
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.about,
        "parameters": parameters,
        "responses": {
            "200": {"description": "Done.", "content": answer},
            "default": {
                "description": "Not done.",
                "content": {"application/json": {"schema": refusal}},
            },
        },
    });
    if let Some(schema) = route.body {
        let content = json!({"application/json": {"schema": schema(schemas)}});
        operation["requestBody"] = json!({"required": true, "content": content});
    }
    if route.access == Access::Caller {
        operation["security"] = json!([{"token": []}]);
    }
    operation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_to_a_schema() {
        let document = document();
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some_and(Value::is_object), "{pointer}");
        }
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
