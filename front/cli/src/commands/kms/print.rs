//! Prints keys of the service.

use gabion_kms_server::rfc3339;
use gabion_kms_wire::native::Key;

use super::say_json;
use crate::failure::Failure;

/// Prints a key.
pub fn key(json: bool, key: &Key) -> Result<(), Failure> {
    if json {
        return say_json(key);
    }
    say!("name        {}", key.name);
    say!("id          {}", key.id);
    say!("versions    {} to {}", key.min_available, key.latest);
    let (makes, takes, oldest) = match key.does.as_str() {
        "encrypt" => ("encrypts", "decrypts", key.min_decrypt),
        "encapsulate" => ("encapsulates", "decapsulates", key.min_decrypt),
        "authenticate" => ("tags", "verifies", key.min_verify),
        _ => ("signs", "verifies", key.min_verify),
    };
    match key.min_sign {
        0 => say!("{makes:<11} {}", key.latest),
        oldest => say!("{makes:<11} {oldest} to {}", key.latest),
    }
    say!("{takes:<11} {oldest} to {}", key.latest);
    if key.does == "sign_and_encrypt" {
        say!("decrypts    {} to {}", key.min_decrypt, key.latest);
    }
    if let Some(class) = &key.class {
        say!("class       {class}: when a use is answered");
    }
    if key.mu_required == Some(true) {
        say!("mu only     no message is taken: `gabion kms sign --keep-message`");
    }
    if let Some(seconds) = key.jwt_max_lifetime_s {
        say!("jwt only    tokens of {} at most: `gabion kms jwt sign`", time(seconds));
    }
    if key.exportable {
        say!("exportable  its private half may be given out");
    }
    if let Some(ms) = key.expires_ms {
        say!("expires     {}: it makes nothing new from then on", rfc3339(ms));
    }
    if let (Some(seconds), Some(ms)) = (key.rotate_period_s, key.rotates_ms) {
        say!("rotates     every {}, next at {}", time(seconds), rfc3339(ms));
    }
    for (name, value) in &key.labels {
        say!("label       {name}={value}");
    }
    if key.deleted_ms.is_some() {
        say!("deleted     `gabion kms key restore {}` undoes that", key.name);
    }
    Ok(())
}

/// Formats a duration in the largest unit that divides it.
fn time(seconds: u64) -> String {
    let units = [(86_400, 'd'), (3_600, 'h'), (60, 'm')];
    let found = units.into_iter().find(|(of, _)| seconds.is_multiple_of(*of));
    found.map_or_else(|| format!("{seconds}s"), |(of, unit)| format!("{}{unit}", seconds / of))
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_are_written_as_they_are_read() {
        for text in ["1h", "36h", "30d", "90m", "3601s"] {
            assert_eq!(gabion_kms_wire::parse_seconds(text).map(time).unwrap(), text);
        }
    }
}
