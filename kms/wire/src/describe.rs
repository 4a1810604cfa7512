//! Generates wire types together with their JSON Schema.

/// Defines wire types. The doc comments of types and fields become the descriptions in their JSON
/// Schema.
macro_rules! wire {
    ($([$($closed:ident)?] $(#[doc = $doc:literal])+ $name:ident {
        $($(#[doc = $of:literal])+ $field:ident: $type:ty,)*
    })*) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        $(#[serde($closed)])?
        pub struct $name {
            $($(#[doc = $of])+ pub $field: $type,)*
        }

        impl $crate::schema::JsonSchema for $name {
            fn schema(into: &mut $crate::schema::Schemas) -> serde_json::Value {
                const FIELDS: &[$crate::schema::Field] = &[$((
                    stringify!($field),
                    concat!($($of),+),
                    <$type as $crate::schema::JsonSchema>::IS_OPTIONAL,
                    <$type as $crate::schema::JsonSchema>::schema,
                )),*];
                const CLOSED: &[&str] = &[$(stringify!($closed))?];
                let about = concat!($($doc),+);
                $crate::schema::object(into, stringify!($name), about, !CLOSED.is_empty(), FIELDS)
            }
        }
    )*};
}
