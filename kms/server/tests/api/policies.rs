//! Policies over the wire.

use gabion_kms_client::{Client, Settings};
use gabion_kms_wire::encode;
use gabion_kms_wire::native::{AuditRecords, CheckPolicy, CreateToken, Sign};
use serde_json::{Value, json};

use super::{client, create, refused, server, settings};

const ALL: &str = "permit(principal is Token, action, resource);";

#[test]
fn policies_are_written_shown_listed_and_deleted() {
    let server = server();
    let admin = client(&server);
    assert!(admin.policies().unwrap().sets.is_empty());
    assert_eq!(refused(admin.policy("all")).code, "not_found");
    assert_eq!(admin.put_policy("all", ALL).unwrap().version, 1);
    assert_eq!(admin.put_policy("all", ALL).unwrap().version, 2);
    let set = admin.policy("all").unwrap();
    assert_eq!((set.version, set.policies, set.text.as_deref()), (2, 1, Some(ALL)));
    let sets = admin.policies().unwrap().sets;
    assert_eq!((sets.len(), sets[0].text.as_deref()), (1, None));
    assert_eq!(admin.delete_policy("all").unwrap().version, 3);
    assert_eq!(refused(admin.delete_policy("all")).code, "not_found");
    let records: AuditRecords = admin.get("/v1/kms/audit?limit=1000").unwrap();
    let text = serde_json::to_string(&records.records).unwrap();
    assert!(text.contains("policy:all#v2") && text.contains("policy:all#v3"), "{text}");
}

#[test]
fn policy_errors_name_line_and_column() {
    let server = server();
    let admin = client(&server);
    let text = "permit(principal is Token, action, resource);\nforbid(principal, action == Action::\"sing\", resource);";
    for problem in [
        refused(admin.put_policy("x", text)),
        refused(
            admin.check_policy(&CheckPolicy { text: Some(text.into()), ..CheckPolicy::default() }),
        ),
    ] {
        assert_eq!(problem.code, "bad_request");
        assert!(
            problem.message.contains("line 2, column") && problem.message.contains("sing"),
            "{}",
            problem.message
        );
    }
    // It would shut its author out.
    let problem =
        refused(admin.put_policy("x", "permit(principal is Certificate, action, resource);"));
    assert!(problem.message.contains("Token::\"dev\""), "{}", problem.message);
    for (body, says) in [
        (json!({"action": "sign"}), "missing field `principal`"),
        (json!({"principal": "a"}), "missing field `action`"),
        (json!({"principal": "a", "action": "sing", "key": "k"}), "unknown action"),
        (json!({"principal": "a", "action": "sign"}), "missing field `key`"),
        (json!({"key": "k"}), "missing fields"),
        (json!({"principal": "a", "action": "sign", "key": "k", "method": "x"}), "`method`"),
        (json!({"principal": "a", "action": "sign", "key": "k", "address": "x"}), "`address`"),
        (json!({"pricipal": "a"}), "unknown field"),
    ] {
        let problem = refused(admin.post::<Value>("/v1/kms/policy-check", &body));
        assert!(problem.message.contains(says), "{body}: {}", problem.message);
    }
    let problem = refused(admin.put_policy("a/b", ALL));
    assert_eq!(problem.code, "bad_request");
    assert!(admin.policies().unwrap().sets.is_empty());
}

#[test]
fn policy_check_uses_active_policies_or_the_given_text() {
    let server = server();
    let admin = client(&server);
    create(&admin, "web", "ed25519");
    let ask = |text: Option<&str>, principal: &str, action: &str, key: Option<&str>| {
        let what = CheckPolicy {
            text: text.map(Into::into),
            principal: Some(principal.into()),
            action: Some(action.into()),
            key: key.map(Into::into),
            ..CheckPolicy::default()
        };
        let said = admin.check_policy(&what).unwrap();
        (said.allowed.unwrap(), said.policies)
    };
    assert_eq!(ask(None, "ci", "sign", Some("web")), (true, Vec::new()), "there is no policy");
    let ed25519 = "permit(principal == Token::\"ci\", action, resource is Key) when { resource.algorithm == \"ed25519\" };";
    assert_eq!(ask(Some(ed25519), "ci", "sign", Some("web")), (true, vec!["check#0".to_owned()]));
    assert_eq!(ask(Some(ed25519), "ci", "sign", Some("missing")), (false, Vec::new()));
    assert!(!ask(Some(ed25519), "cd", "sign", Some("web")).0);
    assert!(!ask(Some(ed25519), "ci", "seal", None).0);
    admin.put_policy("all", ALL).unwrap();
    let forbid = "forbid(principal, action == Action::\"sign\", resource);";
    assert_eq!(ask(Some(forbid), "ci", "sign", Some("web")), (false, vec!["check#0".to_owned()]));
    assert_eq!(ask(None, "ci", "sign", Some("web")), (true, vec!["all#0".to_owned()]));
    assert_eq!(ask(None, "ci", "list", None), (true, vec!["all#0".to_owned()]));
    let only = CheckPolicy { text: Some(forbid.into()), ..CheckPolicy::default() };
    assert_eq!(admin.check_policy(&only).unwrap().allowed, None);
}

#[test]
fn policies_limit_tokens_and_changing_them_needs_the_action() {
    let server = server();
    let admin = client(&server);
    create(&admin, "web", "ed25519");
    let token = |principal: &str, caveats: &[&str]| -> Client {
        let caveats = Some(caveats.iter().map(|text| text.to_string()).collect());
        let asked = CreateToken { principal: principal.into(), caveats, lifetime_s: None };
        let made = admin.create_token(&asked).unwrap();
        let token = Some(made.token.expose().to_owned().into());
        Client::new(&Settings { token, ..settings(&server) }).unwrap()
    };
    let (ci, less) = (token("ci", &[]), token("dev", &["actions=sign"]));
    let text = "permit(principal == Token::\"dev\", action, resource);\n\
                permit(principal == Token::\"ci\", action in [Action::\"sign\", Action::\"show\"], resource == Key::\"default/web\");";
    admin.put_policy("all", text).unwrap();
    let sign = Sign { message: Some(encode(b"m")), ..Sign::by("web") };
    ci.sign(&sign).unwrap();
    assert_eq!(refused(ci.rotate("web")).code, "denied");
    assert_eq!(refused(ci.put_policy("all", ALL)).code, "denied");
    assert_eq!(refused(ci.policies()).code, "denied");
    // A policy cannot grant what a caveat removes.
    less.sign(&sign).unwrap();
    assert_eq!(refused(less.put_policy("all", ALL)).code, "denied");
}
