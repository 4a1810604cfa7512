//! JSON Schemas derived from the wire types, so that OpenAPI always matches serde.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Schemas by name, as in OpenAPI's `components`.
pub type Schemas = Map<String, Value>;

/// A type with a JSON Schema.
pub trait JsonSchema {
    /// Whether a field of this type is optional.
    const IS_OPTIONAL: bool = false;

    /// Returns the schema, or a reference to a schema that it adds to `into`.
    fn schema(into: &mut Schemas) -> Value;
}

impl JsonSchema for String {
    fn schema(_: &mut Schemas) -> Value {
        json!({"type": "string"})
    }
}

impl JsonSchema for bool {
    fn schema(_: &mut Schemas) -> Value {
        json!({"type": "boolean"})
    }
}

impl JsonSchema for u32 {
    fn schema(_: &mut Schemas) -> Value {
        json!({"type": "integer", "minimum": 0, "maximum": u32::MAX})
    }
}

impl JsonSchema for u64 {
    fn schema(_: &mut Schemas) -> Value {
        json!({"type": "integer", "minimum": 0})
    }
}

impl JsonSchema for Value {
    fn schema(_: &mut Schemas) -> Value {
        json!({})
    }
}

impl JsonSchema for Map<String, Value> {
    fn schema(_: &mut Schemas) -> Value {
        json!({"type": "object"})
    }
}

impl<T: JsonSchema> JsonSchema for Option<T> {
    const IS_OPTIONAL: bool = true;

    fn schema(into: &mut Schemas) -> Value {
        json!({"anyOf": [T::schema(into), {"type": "null"}]})
    }
}

impl<T: JsonSchema> JsonSchema for Vec<T> {
    fn schema(into: &mut Schemas) -> Value {
        json!({"type": "array", "items": T::schema(into)})
    }
}

impl<T: JsonSchema> JsonSchema for BTreeMap<String, T> {
    fn schema(into: &mut Schemas) -> Value {
        json!({"type": "object", "additionalProperties": T::schema(into)})
    }
}

/// A field of an object: name, description, whether it is optional, and schema.
pub type Field = (&'static str, &'static str, bool, fn(&mut Schemas) -> Value);

/// Adds an object's schema to `into`, and returns a reference to it.
pub fn object(
    into: &mut Schemas,
    name: &str,
    doc: &str,
    is_closed: bool,
    fields: &[Field],
) -> Value {
    if !into.contains_key(name) {
        // Reserve the name first, because a type may contain itself.
        into.insert(name.to_owned(), Value::Null);
        let mut properties = Map::new();
        for (field, doc, _, schema) in fields {
            let mut schema = schema(into);
            if let Some(schema) = schema.as_object_mut() {
                schema.insert("description".to_owned(), json!(doc.trim()));
            }
            properties.insert(field.trim_start_matches("r#").to_owned(), schema);
        }
        let required: Vec<&str> =
            fields.iter().filter(|field| !field.2).map(|field| field.0).collect();
        let mut schema = json!({
            "type": "object",
            "description": doc.trim(),
            "properties": properties,
            "required": required,
        });
        if is_closed {
            schema["additionalProperties"] = json!(false);
        }
        into.insert(name.to_owned(), schema);
    }
    json!({"$ref": format!("#/components/schemas/{name}")})
}
