//! Does some operations, and prints what was counted in the text format of Prometheus.

use gabion_kms::Message;
use gabion_kms::model::Label;
use gabion_kms::operations::{Kms, NewKey, VerifyRequest};

fn main() -> Result<(), gabion_kms::Error> {
    let kms = Kms::in_memory()?;
    let [tenant, purpose, name] =
        ["default", "transit", "release"].map(|text| Label::new("key", text));
    let algorithm = "ed25519".parse()?;
    let id = kms.create(&NewKey { tenant: tenant?, purpose: purpose?, name: name?, algorithm })?;
    let message = Message::Pure { context: b"", message: b"a package" };
    let mut signatures = Vec::new();
    for _ in 0..32 {
        signatures.push(kms.sign(&id.key, None, message)?.signature);
    }
    let item = |signature| VerifyRequest { by: &id, signable: message.into(), signature };
    let items: Vec<VerifyRequest<'_>> =
        signatures.iter().map(|signature| item(&signature[..])).collect();
    for answer in kms.verify_batch(&items) {
        answer?;
    }
    print!("{}", kms.metrics().text());
    Ok(())
}
