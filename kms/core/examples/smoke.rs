//! Makes a key, signs and verifies, and says what the key is.

use gabion_kms::Message;
use gabion_kms::model::Label;
use gabion_kms::operations::{Kms, NewKey};

fn main() -> Result<(), gabion_kms::Error> {
    let kms = Kms::in_memory()?;
    let new = NewKey {
        tenant: Label::new("tenant", "default")?,
        purpose: Label::new("purpose", "transit")?,
        name: Label::new("key", "firmware")?,
        algorithm: "ml-dsa-65".parse()?,
    };
    let id = kms.create(&new)?;
    println!("created   {id}");
    let message = Message::Pure { context: b"", message: b"an image" };
    let signed = kms.sign(&id.key, None, message)?;
    println!("signed    {} bytes by #v{}", signed.signature.len(), signed.by.version);
    println!("verified  {}", kms.verify(&signed.by, message, &signed.signature)?);
    let attested = kms.attest(&id.key, "a number used once")?;
    println!(
        "attested  {} versions, newest {}",
        attested.attest.versions.len(),
        attested.attest.head
    );
    Ok(())
}
