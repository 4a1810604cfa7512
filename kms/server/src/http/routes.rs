//! The table of all routes.

use std::sync::OnceLock;

use gabion_kms::gate::Action;
use gabion_kms_wire::native;
use gabion_kms_wire::schema::JsonSchema;
use gabion_kms_wire::transit::{
    Capabilities, TokenRenew, TransitConfig, TransitCreate, TransitDatakey, TransitDecrypt,
    TransitEncrypt, TransitHash, TransitHmac, TransitImport, TransitImportVersion,
    TransitKeysConfig, TransitRandom, TransitRewrap, TransitRotate, TransitSign, TransitTrim,
    TransitVerify,
};
use matchit::Router;

pub use crate::api::route::{Access, Route, is_vaults};
use crate::api::streams;
use crate::api::{
    administration, batch, capabilities, jwks, jwt, key_transfer, keys, policies, secrets,
    signatures, system, transit, vault,
};

const OF_TENANT: (&str, &str) = ("tenant", "The key's tenant; `default` by default.");

/// Defines a route. Omitted fields have the most common values.
macro_rules! route {
    (@list) => { &[] };
    (@list $query:expr) => { $query };
    (@schema) => { None };
    (@schema $type:ty) => { Some(<$type as JsonSchema>::schema) };
    (single $read:path, $($row:tt)*) => { Route { single: Some($read), ..route!(quick $($row)*) } };
    (stream $stream:path, $($row:tt)*) => { Route { stream_handler: Some($stream), ..route!($($row)*) } };
    (quick $($row:tt)*) => { Route { is_quick: true, ..route!($($row)*) } };
    (sealing $($row:tt)*) => { Route { is_sealing: true, ..route!($($row)*) } };
    (may [$($action:ident)+] $($row:tt)*) => {
        Route { may: &[$(Action::$action),+], ..route!($($row)*) }
    };
    (open $($row:tt)*) => { Route { access: Access::Open, ..route!($($row)*) } };
    (health $($row:tt)*) => { Route { is_health: true, ..route!(open $($row)*) } };
    (secret $($row:tt)*) => { Route { is_secret: true, ..route!($($row)*) } };
    (change $action:ident $($row:tt)*) => { Route { change: Some(Action::$action), ..route!($($row)*) } };
    ($method:literal $path:literal $name:literal $about:literal $handler:path
        $(, body $body:ty)? $(, answer $answer:ty)? $(, query $query:expr)?) => {
        Route {
            method: $method,
            path: $path,
            name: $name,
            about: $about,
            access: Access::Caller,
            is_health: false,
            is_quick: false,
            is_sealing: false,
            may: &[],
            single: None,
            query: route!(@list $($query)?),
            body: route!(@schema $($body)?),
            stream_handler: None,
            answer: route!(@schema $($answer)?),
            handler: $handler,
            change: None,
            is_secret: false,
        }
    };
}

/// Defines a table of routes. Each route is a separate constant: as one expression, the compiler
/// takes minutes and 4 GiB to check them.
macro_rules! routes {
    ($(route!($($row:tt)*),)*) => {
        &[$({
            const ROW: Route = route!($($row)*);
            ROW
        }),*]
    };
}

/// All routes.
pub const ROUTES: &[Route] = routes![
    route!(health "GET" "/healthz" "healthz" "Reports that the process is running." system::healthz),
    route!(health "GET" "/readyz" "readyz" "Reports whether requests are served, and the reasons if not." system::readyz),
    route!(health "GET" "/metrics" "metrics" "Returns the metrics in the Prometheus text format." system::metrics),
    route!(open "GET" "/openapi.json" "openapi" "Returns this description." system::openapi),
    route!(health "GET" "/v1/kms/status" "status" "Returns the status of the service." system::status, answer native::Status),
    route!(change Create "POST" "/v1/kms/keys" "create_key" "Creates a key with its first version." keys::create, body native::CreateKey, answer native::Key),
    route!("GET" "/v1/kms/keys" "list_keys" "Lists the keys that the caller may see, in the order of their names." keys::list, answer native::Keys, query &[
        OF_TENANT,
        ("prefix", "The prefix of the keys' names."),
        ("after", "The name after which to begin."),
        ("limit", "The maximum number of keys in the answer: 100 by default, at most 1000."),
    ]),
    route!("GET" "/v1/kms/keys/{key}" "show_key" "Describes a key, by name or id." keys::show, answer native::Key, query &[OF_TENANT]),
    route!(change Delete "DELETE" "/v1/kms/keys/{key}" "delete_key" "Deletes a key, which can be restored." keys::delete, answer native::Changed, query &[OF_TENANT]),
    route!("GET" "/v1/kms/keys/{key}/versions" "list_versions" "Lists versions with their public keys, 100 at a time." keys::versions, answer native::Versions, query &[
        OF_TENANT,
        ("after", "The version after which to begin."),
    ]),
    route!(change Rotate "POST" "/v1/kms/keys/{key}/rotate" "rotate_key" "Adds a version to a key." keys::rotate, body native::Nothing, answer native::Rotated, query &[OF_TENANT]),
    route!(change Config "POST" "/v1/kms/keys/{key}/config" "configure_key" "Changes a key's configuration and labels." keys::config, body native::ConfigureKey, answer native::Key, query &[OF_TENANT]),
    route!(change Enable "POST" "/v1/kms/keys/{key}/enable" "enable_version" "Enables a version." keys::enable, body native::OfVersion, answer native::Changed, query &[OF_TENANT]),
    route!(change Disable "POST" "/v1/kms/keys/{key}/disable" "disable_version" "Disables a version." keys::disable, body native::OfVersion, answer native::Changed, query &[OF_TENANT]),
    route!(change Trim "POST" "/v1/kms/keys/{key}/trim" "trim_key" "Destroys the versions before one permanently." keys::trim, body native::Trim, answer native::Changed, query &[OF_TENANT]),
    route!(change Restore "POST" "/v1/kms/keys/{key}/restore" "restore_key" "Restores a deleted key." keys::restore, body native::Nothing, answer native::Changed, query &[OF_TENANT]),
    route!(change Destroy "POST" "/v1/kms/keys/{key}/destroy" "destroy_key" "Destroys a deleted key permanently, and optionally the backups that contain it." keys::destroy, body native::DestroyKey, answer native::Destroyed, query &[OF_TENANT]),
    route!(change Import "POST" "/v1/kms/keys/{key}/import" "import_version" "Adds an imported version to a key." key_transfer::import_version, body native::ImportVersion, answer native::Rotated, query &[OF_TENANT]),
    route!(may [Export] "POST" "/v1/kms/keys/{key}/export" "export_key" "Exports the private key of a version, if the key allows that." key_transfer::export, body native::ExportKey, answer native::Exported, query &[OF_TENANT]),
    route!("GET" "/v1/kms/wrapping-key" "wrapping_key" "Returns the public key for which to wrap imported keys." key_transfer::wrapping_key, answer native::WrappingKey, query &[
        ("kind", "x-wing or rsa; x-wing by default."),
    ]),
    route!(change Import "POST" "/v1/kms/import" "import_key" "Imports a key." key_transfer::import, body native::ImportKey, answer native::Key),
    route!("GET" "/v1/kms/jwks/{tenant}" "jwks" "Returns the public keys that verify a tenant's signatures, as JWKs (RFC 7517, 8037, 9964)." jwks::jwks, query jwks::QUERY),
    route!(may [Sign] stream streams::SIGN, single signatures::single_sign, "POST" "/v1/kms/sign" "sign" "Signs a message or a digest." signatures::sign, body native::Sign, answer native::Signed),
    route!(may [Verify] stream streams::VERIFY, single signatures::single_verify, "POST" "/v1/kms/verify" "verify" "Verifies a signature." signatures::verify, body native::Verify, answer native::Verified),
    route!(may [Sign Verify] "POST" "/v1/kms/batch" "batch" "Signs and verifies a batch of items independently." batch::batch, body native::Batch, answer native::BatchDone),
    route!(may [SignJwt] quick "POST" "/v1/kms/jwt" "sign_jwt" "Signs a JSON Web Token (RFC 7519)." jwt::sign, body native::SignJwt, answer native::SignedJwt),
    route!(may [Verify] quick "POST" "/v1/kms/jwt/verify" "verify_jwt" "Verifies a JSON Web Token with a key." jwt::verify, body native::VerifyJwt, answer native::VerifiedJwt),
    route!(may [Encrypt] quick "POST" "/v1/kms/encrypt" "encrypt" "Encrypts." secrets::encrypt, body native::Encrypt, answer native::Encrypted),
    route!(may [Decrypt] quick "POST" "/v1/kms/decrypt" "decrypt" "Decrypts." secrets::decrypt, body native::Decrypt, answer native::Decrypted),
    route!(may [Rewrap] quick "POST" "/v1/kms/rewrap" "rewrap" "Encrypts a ciphertext again with another version." secrets::rewrap, body native::Rewrap, answer native::Encrypted),
    route!(may [Datakey] quick "POST" "/v1/kms/datakey" "datakey" "Generates a data key, and encrypts it." secrets::datakey, body native::Datakey, answer native::DatakeyMade),
    route!(may [Wrap] quick "POST" "/v1/kms/wrap" "wrap" "Wraps a key." secrets::wrap, body native::Wrap, answer native::Encrypted),
    route!(may [Unwrap] quick "POST" "/v1/kms/unwrap" "unwrap" "Unwraps a key." secrets::unwrap, body native::Decrypt, answer native::Decrypted),
    route!(may [Hmac] stream streams::HMAC, quick "POST" "/v1/kms/hmac" "hmac" "Makes a tag." secrets::hmac, body native::Hmac, answer native::Tagged),
    route!(may [Verify] stream streams::VERIFY_HMAC, quick "POST" "/v1/kms/hmac/verify" "verify_hmac" "Verifies a tag." secrets::verify_hmac, body native::HmacVerify, answer native::Verified),
    route!(may [Encaps] quick "POST" "/v1/kms/encaps" "encaps" "Encapsulates a shared secret for a key." secrets::encaps, body native::Encaps, answer native::Encapsulated),
    route!(may [Decaps] quick "POST" "/v1/kms/decaps" "decaps" "Decapsulates a shared secret." secrets::decaps, body native::Decaps, answer native::Decapsulated),
    route!(may [Random] quick "POST" "/v1/kms/random" "random" "Returns random bytes." secrets::random, body native::Random, answer native::Drawn),
    route!(may [Attest] "POST" "/v1/kms/attest" "attest" "Returns a signed description of a key." signatures::attest, body native::Attest, answer native::Attested),
    route!("GET" "/v1/kms/attestation-key" "attestation_key" "Returns the public key that verifies descriptions, as a JWK (RFC 9964)." signatures::attestation_key),
    route!(open "POST" "/v1/kms/unseal" "unseal" "Accepts a share or the passphrase to unseal the service." administration::unseal, body native::Unseal, answer native::Sealing),
    route!(may [Seal] sealing "POST" "/v1/kms/seal" "seal" "Seals the service." administration::seal, body native::Nothing, answer native::Sealing),
    route!(open "POST" "/v1/kms/recover-admin" "recover_admin" "Accepts a share to recover an administrator, whose token replaces all others." administration::recover_admin, body native::RecoverAdmin, answer native::Recovering),
    route!(secret change Token "POST" "/v1/kms/tokens" "create_token" "Makes a token." administration::create_token, body native::CreateToken, answer native::TokenMade),
    route!(change Token "POST" "/v1/kms/tokens/revoke" "revoke_token" "Revokes a token with all its attenuations." administration::revoke_token, body native::RevokeToken, answer native::Changed),
    route!("GET" "/v1/kms/policies" "list_policies" "Returns the sets of policies in force." policies::list, answer native::PolicySets),
    route!(change Policy "PUT" "/v1/kms/policies/{name}" "put_policy" "Writes a set of policies." policies::put, body native::PutPolicy, answer native::PolicyChanged),
    route!("GET" "/v1/kms/policies/{name}" "show_policy" "Returns a set of policies." policies::show, answer native::PolicySet),
    route!(change Policy "DELETE" "/v1/kms/policies/{name}" "delete_policy" "Deletes a set of policies." policies::delete, answer native::PolicyChanged),
    route!(may [Policy] "POST" "/v1/kms/policy-check" "check_policy" "Queries the policies without running an operation." policies::check, body native::CheckPolicy, answer native::PolicyChecked),
    route!(may [Backup] "POST" "/v1/kms/backup" "backup" "Makes a backup of the store." administration::backup, body native::Nothing, answer native::BackedUp),
    route!("GET" "/v1/kms/audit" "audit" "Returns records of the audit log." administration::audit, answer native::AuditRecords, query &[
        ("from", "The index of the first record."),
        ("limit", "The maximum number of records in the answer: 100 by default, at most 1000."),
    ]),
    route!("GET" "/v1/kms/audit/proof" "audit_proof" "Returns a proof that a record is in the audit log." administration::audit_proof, query &[("index", "Its index.")]),
    route!("GET" "/v1/kms/audit/state" "audit_state" "Returns the state of the audit log." administration::audit_state, answer native::AuditState),
    route!("GET" "/v1/kms/audit/entries" "audit_entries" "Returns entries of the audit log, including those of archived records." administration::audit_entries, answer native::AuditEntries, query &[
        ("from", "The index of the first entry."),
        ("limit", "The maximum number of entries in the answer: 1000 by default, at most 10000."),
    ]),
    route!(may [Audit] "POST" "/v1/kms/audit/archive" "archive_audit" "Moves full segments of the audit log to its archive." administration::archive_audit, body native::ArchiveAudit, answer native::AuditArchived),
    route!("GET" "/v1/kms/audit/keys" "audit_keys" "Returns the keys that verify checkpoints of the audit log." administration::audit_keys, answer native::AuditKeys),
    // Vault's API. Writes use POST or PUT, lists use LIST or GET with `list=true`.
    route!(health "GET" "/v1/sys/init" "vault_init" "Returns whether the store has a seal." vault::initialized),
    route!(health "GET" "/v1/sys/health" "vault_health" "Returns the health of the service as an HTTP status." vault::health, query vault::HEALTH),
    route!(health "GET" "/v1/sys/seal-status" "vault_seal_status" "Returns whether the service is sealed." vault::seal_status),
    route!(health "GET" "/v1/sys/leader" "vault_leader" "Returns the leader: the only server." vault::leader),
    route!("POST" "/v1/sys/capabilities-self" "vault_capabilities_self" "Returns the caller's capabilities at paths." capabilities::capabilities_self, body Capabilities),
    route!("GET" "/v1/sys/mounts" "vault_mounts" "Returns the mounts: Transit at `transit/`." vault::mounts),
    route!("GET" "/v1/auth/token/lookup-self" "vault_lookup_self" "Describes the token of the request." vault::lookup_self),
    route!("POST" "/v1/auth/token/renew-self" "vault_renew_self" "Returns the remaining lifetime of the token, which cannot be extended." vault::renew_self, body TokenRenew),
    route!("POST" "/v1/auth/token/revoke-self" "vault_revoke_self" "Revokes the token of the request with all its attenuations." vault::revoke_self, body native::Nothing),
    route!("LIST" "/v1/transit/keys" "transit_list" "Lists the names of keys." transit::list, query transit::LIST),
    route!("GET" "/v1/transit/keys" "transit_list_by_get" "Lists the names of keys, with `list=true`." transit::list_by_get, query transit::LIST),
    route!(may [Create] "POST" "/v1/transit/keys/{key}" "transit_create" "Creates a key." transit::create, body TransitCreate),
    route!("GET" "/v1/transit/keys/{key}" "transit_read" "Describes a key and its newest versions, at most 100." transit::read),
    route!("DELETE" "/v1/transit/keys/{key}" "transit_delete" "Destroys a key, if its configuration allows it." transit::delete),
    route!(may [Rotate] "POST" "/v1/transit/keys/{key}/rotate" "transit_rotate" "Adds a version to a key." transit::rotate, body TransitRotate),
    route!(may [Config] "POST" "/v1/transit/keys/{key}/config" "transit_config" "Changes a key's configuration." transit::config, body TransitConfig),
    route!(may [Trim] "POST" "/v1/transit/keys/{key}/trim" "transit_trim" "Destroys the versions before one permanently." transit::trim, body TransitTrim),
    route!("DELETE" "/v1/transit/keys/{key}/soft-delete" "transit_soft_delete" "Deletes a key, which can be restored." transit::soft_delete),
    route!(may [Restore] "POST" "/v1/transit/keys/{key}/soft-delete-restore" "transit_restore" "Restores a deleted key." transit::restore, body native::Nothing),
    route!("GET" "/v1/transit/config/keys" "transit_read_config" "Returns whether `encrypt` creates keys: it does not." transit::read_config),
    route!("POST" "/v1/transit/config/keys" "transit_write_config" "Confirms that `encrypt` does not create keys." transit::write_config, body TransitKeysConfig),
    route!("GET" "/v1/transit/export/{form}/{key}" "transit_export" "Returns the public keys of the newest versions, at most 100." transit::export, query transit::EXPORT),
    route!("GET" "/v1/transit/export/{form}/{key}/{version}" "transit_export_version" "Returns the public key of a version." transit::export, query transit::EXPORT),
    route!("GET" "/v1/transit/wrapping_key" "transit_wrapping_key" "Returns the public key for which to wrap imported keys." transit::wrapping_key),
    route!(may [Import] "POST" "/v1/transit/keys/{key}/import" "transit_import" "Imports a key." transit::import, body TransitImport),
    route!(may [Import] "POST" "/v1/transit/keys/{key}/import_version" "transit_import_version" "Adds an imported version to a key." transit::import_version, body TransitImportVersion),
    route!(may [Sign] single transit::single_sign, "POST" "/v1/transit/sign/{key}" "transit_sign" "Signs messages." transit::sign, body TransitSign),
    route!(may [Sign] single transit::single_sign, "POST" "/v1/transit/sign/{key}/{hash}" "transit_sign_by" "Signs messages." transit::sign, body TransitSign),
    route!(may [Verify] single transit::single_verify, "POST" "/v1/transit/verify/{key}" "transit_verify" "Verifies signatures." transit::verify, body TransitVerify),
    route!(may [Verify] single transit::single_verify, "POST" "/v1/transit/verify/{key}/{hash}" "transit_verify_by" "Verifies signatures." transit::verify, body TransitVerify),
    route!(may [Hmac] quick "POST" "/v1/transit/hmac/{key}" "transit_hmac" "Makes tags." transit::hmac, body TransitHmac),
    route!(may [Hmac] quick "POST" "/v1/transit/hmac/{key}/{hash}" "transit_hmac_by" "Makes tags." transit::hmac, body TransitHmac),
    route!(may [Encrypt] quick "POST" "/v1/transit/encrypt/{key}" "transit_encrypt" "Encrypts." transit::encrypt, body TransitEncrypt),
    route!(may [Decrypt] quick "POST" "/v1/transit/decrypt/{key}" "transit_decrypt" "Decrypts." transit::decrypt, body TransitDecrypt),
    route!(may [Rewrap] quick "POST" "/v1/transit/rewrap/{key}" "transit_rewrap" "Encrypts a ciphertext again with another version." transit::rewrap, body TransitRewrap),
    route!(may [Datakey] quick "POST" "/v1/transit/datakey/{form}/{key}" "transit_datakey" "Generates a data key, and encrypts it." transit::datakey, body TransitDatakey),
    route!(quick "POST" "/v1/transit/hash" "transit_hash" "Hashes a message." transit::hash, body TransitHash),
    route!(quick "POST" "/v1/transit/hash/{hash}" "transit_hash_by" "Hashes a message." transit::hash, body TransitHash),
    route!(quick "POST" "/v1/sys/tools/hash" "vault_hash" "Hashes a message." transit::hash, body TransitHash),
    route!(quick "POST" "/v1/sys/tools/hash/{hash}" "vault_hash_by" "Hashes a message." transit::hash, body TransitHash),
    route!(may [Random] quick "POST" "/v1/transit/random" "transit_random" "Returns random bytes." transit::random, body TransitRandom),
    route!(may [Random] quick "POST" "/v1/transit/random/{bytes}" "transit_random_of" "Returns random bytes." transit::random, body TransitRandom),
    route!(may [Random] quick "POST" "/v1/transit/random/{source}/{bytes}" "transit_random_from" "Returns random bytes." transit::random, body TransitRandom),
];

/// Returns a path of Vault's API without its trailing slash, which list paths have in Vault's
/// documentation and clients.
fn list_path(path: &str) -> Option<&str> {
    path.strip_suffix('/').filter(|path| is_vaults(path))
}

/// Returns the routes of a path, and the path's parameters.
pub fn at(path: &str) -> Option<(Vec<&'static Route>, Vec<String>)> {
    static ROUTER: OnceLock<Router<Vec<&'static Route>>> = OnceLock::new();
    let router = ROUTER.get_or_init(|| {
        let mut router = Router::new();
        for (place, route) in ROUTES.iter().enumerate() {
            let is_here = |other: &&Route| other.path == route.path;
            if !ROUTES[..place].iter().any(|before| is_here(&before)) {
                // Insertion fails for ambiguous paths, which a test rules out.
                let _ = router.insert(route.path, ROUTES.iter().filter(is_here).collect());
            }
        }
        router
    });
    let found = router.at(path).ok().or_else(|| router.at(list_path(path)?).ok())?;
    if path.ends_with('/') && !found.value.iter().any(|route| route.method == "LIST") {
        return None;
    }
    let parts = found.params.iter().map(|(_, part)| part.to_owned()).collect();
    Some((found.value.clone(), parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_kms_wire::schema::Schemas;
    use serde_json::Value;

    /// Answers of changes are stored under their `op_id`, so each route with a secret answer has to
    /// be marked.
    #[test]
    fn routes_with_secret_answers_are_marked() {
        for route in ROUTES.iter().filter(|route| route.change.is_some()) {
            let mut schemas = Schemas::new();
            let answer = route.answer.map(|schema| schema(&mut schemas)).unwrap_or_default();
            let has_secret = format!("{answer}{}", Value::from(schemas)).contains("password");
            assert_eq!(route.is_secret, has_secret, "{}", route.name);
        }
    }

    #[test]
    fn every_route_is_found_at_its_path_and_has_a_name_of_its_own() {
        for route in ROUTES {
            let (found, _) = at(&route
                .path
                .replace("{key}", "some%2Fkey")
                .replace("{hash}", "h")
                .replace("{name}", "n")
                .replace("{tenant}", "t"))
            .unwrap();
            let here = found.iter().filter(|other| other.method == route.method);
            let here: Vec<&str> = here.map(|other| other.name).collect();
            assert_eq!(here, [route.name]);
            assert_eq!(ROUTES.iter().filter(|other| other.name == route.name).count(), 1);
        }
        assert_eq!(at("/v1/kms/keys/some%2Fkey/rotate").unwrap().1, ["some%2Fkey"]);
        for path in [
            "/",
            "",
            "/v1/kms",
            "/v1/kms/keys/",
            "/v1/kms/keys/a/b/rotate",
            "/v1/kms/keys/a/rotate/",
        ] {
            assert!(at(path).is_none(), "{path}");
        }
    }

    /// Only list paths may have a trailing slash, and only one.
    #[test]
    fn paths_of_lists_may_end_in_a_slash() {
        assert_eq!(at("/v1/transit/keys/").unwrap().0.len(), 2);
        for path in [
            "/v1/transit/keys//",
            "/v1/transit/keys/a/",
            "/v1/transit/sign/a/",
            "/v1/sys/health/",
            "/v1/kms/keys/",
            "/healthz/",
            "/v1//",
        ] {
            assert!(at(path).is_none(), "{path}");
        }
    }
}
