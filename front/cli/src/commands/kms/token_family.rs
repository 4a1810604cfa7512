//! Revokes a token and its descendants, which are found in the audit log.

use std::collections::BTreeSet;

use gabion_kms_client::Client;
use gabion_kms_wire::native::{AuditRecords, AuditState};
use serde_json::{Value, json};

use super::say_json;
use crate::failure::Failure;

/// Records per request.
const PAGE: u64 = 1000;

/// The tokens found so far, and those already revoked.
struct Family<'a> {
    client: &'a Client,
    ids: BTreeSet<String>,
    /// The id of the caller's token. If it is part of the family, it is revoked last, because the
    /// other requests need it.
    own: Option<String>,
    is_own_found: bool,
    revoked: Vec<String>,
}

/// Revokes a token, every token created by it, and their descendants.
///
/// Each token is revoked before the log is read to its end. Later records therefore cannot contain
/// further children of it.
pub fn revoke_family(client: &Client, id: String, json: bool) -> Result<(), Failure> {
    let token = std::env::var("GABION_KMS_TOKEN").map(zeroize::Zeroizing::new);
    let own = token.ok().and_then(|token| gabion_kms_server::token_id(&token));
    let mut family =
        Family { client, ids: BTreeSet::new(), own, is_own_found: false, revoked: Vec::new() };
    let state: AuditState = client.get("/v1/kms/audit/state")?;
    family.add(id)?;
    let (first, mut next) = (state.first, state.first);
    loop {
        let until = client.get::<AuditState>("/v1/kms/audit/state")?.size;
        let before = family.ids.len();
        next = family.read(next, until)?;
        if family.ids.len() == before {
            break;
        }
    }
    family.end()?;
    if json {
        say_json(&json!({"revoked": family.revoked, "first": first}))?;
    } else {
        for id in &family.revoked {
            say!("revoked {id}");
        }
    }
    if first > 0 {
        eprintln!(
            "warning: the records before {first} are in the archive of the audit log; tokens created in those records were not revoked"
        );
    }
    Ok(())
}

impl Family<'_> {
    /// Adds a token to the family and revokes it, unless it is the caller's token.
    fn add(&mut self, id: String) -> Result<(), Failure> {
        if !self.ids.insert(id.clone()) {
            return Ok(());
        }
        if self.own.as_ref() == Some(&id) {
            self.is_own_found = true;
            return Ok(());
        }
        self.client.revoke_token(&id)?;
        self.revoked.push(id);
        Ok(())
    }

    /// Reads records up to an index and returns the index after the last one read.
    fn read(&mut self, from: u64, until: u64) -> Result<u64, Failure> {
        let mut next = from;
        while next < until {
            let limit = PAGE.min(until - next);
            let path = format!("/v1/kms/audit?from={next}&limit={limit}");
            let read: AuditRecords = self.client.get(&path)?;
            let Some(last) = read.records.last() else { break };
            next = last.index + 1;
            for record in &read.records {
                if let Some(child) = self.child(&record.record) {
                    self.add(child)?;
                }
            }
        }
        Ok(next)
    }

    /// Returns the id of the token that a record says a family member created.
    fn child(&self, record: &Value) -> Option<String> {
        let text = |name: &str| record[name].as_str();
        let is_made = text("action") == Some("token")
            && text("outcome") == Some("ok")
            && text("change") == Some("made");
        let maker = text("method")?.strip_prefix("token:")?.split(':').next()?;
        let child = text("key")?.strip_prefix("token:")?;
        (is_made && self.ids.contains(maker)).then(|| child.to_owned())
    }

    /// Revokes the caller's token, after all others.
    fn end(&mut self) -> Result<(), Failure> {
        let own = self.own.take().filter(|_| self.is_own_found);
        if let Some(own) = own {
            self.client.revoke_token(&own)?;
            self.revoked.push(own);
        }
        Ok(())
    }
}
