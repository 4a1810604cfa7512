//! Changes that are asked for again.

use gabion_kms_client::Client;
use gabion_kms_wire::native::{ConfigureKey, CreateKey, ImportKey};
use gabion_kms_wire::{Secret, encode};
use serde_json::{Value, json};

use super::raw::Local;
use super::{create, refused};

fn once(local: &Local, op_id: &str) -> Client {
    local.client().with_op_id(op_id)
}

fn new(name: &str) -> CreateKey {
    CreateKey { name: name.into(), algorithm: "ed25519".into(), ..CreateKey::default() }
}

#[test]
fn a_change_that_is_asked_for_again_is_done_once() {
    let mut local = Local::start();
    let made = once(&local, "c-1").create(&new("k")).unwrap();
    assert_eq!(once(&local, "c-1").create(&new("k")).unwrap(), made);
    assert_eq!(refused(local.client().create(&new("k"))).code, "exists");
    assert_eq!(refused(once(&local, "c-2").create(&new("k"))).code, "exists");
    // A rejected change was not made, and may be repeated.
    assert_eq!(once(&local, "c-2").create(&new("other")).unwrap().name, "other");

    let first = once(&local, "r-1").rotate("k").unwrap();
    assert_eq!((first.version, once(&local, "r-1").rotate("k").unwrap()), (2, first.clone()));
    assert_eq!(once(&local, "r-2").rotate("k").unwrap().version, 3);
    assert_eq!(once(&local, "r-1").rotate("k").unwrap(), first);
    assert_eq!(local.client().show("k").unwrap().latest, 3);

    // Another request under the same name: another key, another body, another path.
    for problem in [
        refused(once(&local, "r-1").rotate("other")),
        refused(once(&local, "c-1").create(&new("another"))),
        refused(once(&local, "c-1").rotate("k")),
        refused(once(&local, "r-1").configure("k", &ConfigureKey::default())),
    ] {
        assert_eq!((problem.code.as_str(), problem.retryable), ("op_id_reused", false));
    }

    // Another principal has its own namespace.
    let all = std::mem::take(&mut local.token);
    local.token = all.clone();
    let other = local.client().create_token(&gabion_kms_wire::native::CreateToken {
        principal: "other".into(),
        ..Default::default()
    });
    local.token = zeroize::Zeroizing::new(other.unwrap().token.expose().to_owned());
    assert_eq!(once(&local, "r-1").rotate("k").unwrap().version, 4);

    // A caller that may no longer rotate does not get the stored answer either.
    local.token = gabion_kms_server::attenuate_token(&all, &["actions=show".into()]).unwrap();
    assert_eq!(refused(once(&local, "r-1").rotate("k")).code, "denied");
    local.token = all;
    local.client().delete("k").unwrap();
    assert_eq!(refused(once(&local, "r-1").rotate("k")).code, "key_deleted");
    once(&local, "d-1").destroy("k").unwrap();
    assert_eq!(refused(once(&local, "r-1").rotate("k")).code, "not_found");
    once(&local, "d-1").destroy("k").unwrap();
    assert_eq!(refused(once(&local, "d-2").destroy("k")).code, "not_found");
}

#[test]
fn op_id_is_refused_outside_key_changes() {
    let local = Local::start();
    let client = local.client();
    create(&client, "k", "xaes-256-gcm");
    let paths = ["sign", "decrypt", "datakey", "random", "unwrap", "decaps", "backup"]
        .map(|verb| format!("/v1/kms/{verb}?op_id=x"));
    for path in paths.iter().map(String::as_str).chain(["/v1/kms/keys/k/export?op_id=x"]) {
        let problem = refused(client.post::<Value>(path, &json!({})));
        assert!(problem.message.contains("unknown parameter `op_id`"), "{path}: {problem:?}");
    }
    for op_id in ["", "a b", &"x".repeat(129), "\u{e4}"] {
        let problem = refused(once(&local, op_id).create(&new("x")));
        assert_eq!(problem.code, "bad_request", "{op_id}");
    }
    // An imported key is in no answer, and its digest tells it from another.
    let import = |byte: u8| ImportKey {
        raw: Some(Secret::of_bytes(&[byte; 32])),
        name: "i".into(),
        algorithm: "xaes-256-gcm".into(),
        ..ImportKey::default()
    };
    let made = once(&local, "i-1").import(&import(1)).unwrap();
    assert_eq!(once(&local, "i-1").import(&import(1)).unwrap(), made);
    assert!(!serde_json::to_string(&made).unwrap().contains(&encode(&[1; 32])));
    assert_eq!(refused(once(&local, "i-1").import(&import(2))).code, "op_id_reused");
}

#[test]
fn a_change_of_tokens_and_policies_that_is_asked_for_again_is_done_once() {
    let local = Local::start();
    let text = "permit(principal is Token, action, resource);";
    let put = |op_id: &str| once(&local, op_id).put_policy("all", text).unwrap();
    assert_eq!([put("p-1").version, put("p-1").version, put("p-2").version], [1, 1, 2]);
    assert_eq!(put("p-1").version, 1);
    assert_eq!(local.client().policy("all").unwrap().version, 2);
    assert_eq!(refused(once(&local, "p-1").put_policy("other", text)).code, "op_id_reused");
    let deleted = once(&local, "p-3").delete_policy("all").unwrap();
    assert_eq!(once(&local, "p-3").delete_policy("all").unwrap(), deleted);
    assert_eq!(refused(once(&local, "p-4").delete_policy("all")).code, "not_found");

    let new = |principal: &str| gabion_kms_wire::native::CreateToken {
        principal: principal.into(),
        ..Default::default()
    };
    let made = once(&local, "t-1").create_token(&new("ci")).unwrap();
    // Its token is given out once, and never again.
    let again = refused(once(&local, "t-1").create_token(&new("ci")));
    assert_eq!((again.code.as_str(), again.retryable), ("op_id_done", false));
    assert!(again.message.contains(&made.id) && !again.message.contains("gbk1."), "{again:?}");
    assert!(again.hint.is_some_and(|hint| hint.contains("token revoke")));
    assert_ne!(once(&local, "t-2").create_token(&new("ci")).unwrap().id, made.id);
    assert_eq!(refused(once(&local, "t-1").create_token(&new("cd"))).code, "op_id_reused");
    let revoked = once(&local, "t-3").revoke_token(&made.id).unwrap();
    assert_eq!(once(&local, "t-3").revoke_token(&made.id).unwrap(), revoked);
}

/// F1 of the audit of 2026-11: a helpdesk that may make tokens takes a principal's name, or limits
/// the maker's own token, and asks for what the maker made.
#[test]
fn op_id_does_not_return_tokens_of_other_credentials() {
    let mut local = Local::start();
    let new = |principal: &str| gabion_kms_wire::native::CreateToken {
        principal: principal.into(),
        ..Default::default()
    };
    let all = local.token.clone();
    let made = once(&local, "ci-2026-11").create_token(&new("ci")).unwrap();
    let attenuated =
        gabion_kms_server::attenuate_token(&all, &["actions=token,random".into()]).unwrap();
    local.token = attenuated.clone();
    // The first token's own principal is `dev`.
    let named = local.client().create_token(&new("dev")).unwrap();
    for thief in [attenuated, zeroize::Zeroizing::new(named.token.expose().to_owned())] {
        local.token = thief;
        let other = once(&local, "ci-2026-11").create_token(&new("ci")).unwrap();
        assert_ne!(other.id, made.id);
        assert!(other.caveats.iter().any(|caveat| caveat == "actions=random,token"), "{other:?}");
        let again = refused(once(&local, "ci-2026-11").create_token(&new("ci")));
        assert!(again.message.contains(&other.id), "{again:?}");
    }
}

/// Several things of a key are changed together, or none of them.
#[test]
fn a_configuration_is_whole() {
    let local = Local::start();
    let client = local.client();
    create(&client, "k", "ed25519");
    client.rotate("k").unwrap();
    let before = client.show("k").unwrap();
    let wrong = ConfigureKey {
        min_verify: Some(2),
        labels: Some([("a".to_owned(), "b".to_owned())].into()),
        min_sign: Some(9),
        ..ConfigureKey::default()
    };
    assert!(refused(client.configure("k", &wrong)).code != "internal");
    assert_eq!(client.show("k").unwrap(), before);
    let right = ConfigureKey { min_sign: Some(2), ..wrong };
    let after = client.configure("k", &right).unwrap();
    assert_eq!((after.min_verify, after.min_sign, after.labels.len()), (2, 2, 1));
}
