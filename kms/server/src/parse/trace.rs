//! Trace context of requests (W3C Trace Context).

use hyper::HeaderMap;

/// The length of version 00, and of the common prefix of later versions.
const LENGTH: usize = 55;

/// Returns the traceparent of a request (section 3.2): version, 32 digits of the trace, 16 of the
/// parent, flags. A malformed or duplicate one is ignored (3.2.2.3 and 3.2.2.4). A later version is
/// truncated to the fields of version 00, and returned as that version (4.3). The result has only
/// digits and `-`.
pub fn parent(headers: &HeaderMap) -> Option<String> {
    let mut all = headers.get_all("traceparent").iter();
    let (first, None) = (all.next()?, all.next()) else { return None };
    let (known, rest) = first.to_str().ok()?.split_at_checked(LENGTH)?;
    let parts: Vec<&str> = known.split('-').collect();
    let [version, trace, parent, flags] = parts[..] else { return None };
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let lengths = parts.iter().map(|part| part.len());
    let is_whole = lengths.eq([2, 32, 16, 2]) && parts.iter().all(|part| is_hex(part));
    let is_named = [trace, parent].iter().all(|id| id.bytes().any(|byte| byte != b'0'));
    let is_over = match version {
        "ff" => false,
        "00" => rest.is_empty(),
        _ => rest.is_empty() || rest.starts_with('-'),
    };
    (is_whole && is_named && is_over).then(|| format!("00-{trace}-{parent}-{flags}"))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn a_traceparent_is_taken_as_the_standard_says_or_not_at_all() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let of = |values: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("traceparent", HeaderValue::from_bytes(value).unwrap());
            }
            parent(&headers)
        };
        let good = format!("00-{trace}-{span}-01");
        assert_eq!(of(&[good.as_bytes()]), Some(good.clone()));
        for later in
            [format!("cc-{trace}-{span}-01"), format!("cc-{trace}-{span}-01-what-comes-later")]
        {
            assert_eq!(of(&[later.as_bytes()]), Some(good.clone()));
        }
        for bad in [
            "",
            "00",
            &good[..54],
            &format!("{good}-more"),
            &format!("{good}0"),
            &format!("cc-{trace}-{span}-01more"),
            &format!("ff-{trace}-{span}-01"),
            &format!("00-{}-{span}-01", "0".repeat(32)),
            &format!("00-{trace}-{}-01", "0".repeat(16)),
            &good.to_uppercase(),
            &good.replace('4', "g"),
            &format!("00-{span}-{trace}-01"),
            &good.replace('-', "_"),
            &format!(" {good}")[..55],
            &good.replace("4bf92f", "\",\"a\""),
            &"-".repeat(55),
            &"a".repeat(1 << 14),
        ] {
            assert_eq!(of(&[bad.as_bytes()]), None, "{bad}");
        }
        // Not a text, truncated within a letter, duplicate, missing.
        assert_eq!(of(&[&[0xff; 55]]), None);
        assert_eq!(of(&["\u{e4}".repeat(30).as_bytes()]), None);
        assert_eq!(of(&[good.as_bytes(), good.as_bytes()]), None);
        assert_eq!(of(&[]), None);
    }
}
