//! Rotates a key, and verifies a signature of its old version.

use gabion_kms::Message;
use gabion_kms::model::Label;
use gabion_kms::operations::{Kms, NewKey};

fn main() -> Result<(), gabion_kms::Error> {
    let kms = Kms::in_memory()?;
    let [tenant, purpose, name] =
        ["default", "transit", "release"].map(|text| Label::new("key", text));
    let algorithm = "ed25519".parse()?;
    let first =
        kms.create(&NewKey { tenant: tenant?, purpose: purpose?, name: name?, algorithm })?;
    let message = Message::Pure { context: b"", message: b"a package" };
    let old = kms.sign(&first.key, None, message)?;
    let second = kms.rotate(&first.key)?;
    let new = kms.sign(&first.key, None, message)?;
    println!("signed by #v{} before and by #v{} after", old.by.version, new.by.version);
    println!("old by old  {}", kms.verify(&first, message, &old.signature)?);
    println!("new by new  {}", kms.verify(&second, message, &new.signature)?);
    println!("old by new  {}", kms.verify(&second, message, &old.signature)?);
    match kms.sign(&first.key, Some(first.version), message) {
        Ok(_) => println!("the old version signs still"),
        Err(error) => println!("the old version signs no more: {error} ({})", error.code()),
    }
    Ok(())
}
