//! Parses the output of the `openssl` command.

use serde::Serialize;

/// A provider in OpenSSL's list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Provider {
    /// The name in the configuration.
    pub name: String,
    /// The version that it reports.
    pub version: String,
    /// `active`, or another status in OpenSSL's words.
    pub status: String,
}

/// One of the module's self-tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SelfTest {
    /// The module's name for the tested algorithm; several tests may have the same name.
    pub name: String,
    /// `KAT_Signature`, `Module_Integrity` ..
    pub kind: String,
    /// The result.
    pub passed: bool,
}

/// An algorithm in OpenSSL's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its names and object identifiers, at least one.
    names: Vec<String>,
    /// The provider that serves it, if the list contains it.
    pub provider: Option<String>,
}

impl Entry {
    /// Returns the name to display. OpenSSL sorts the names, so this is the first one in capitals,
    /// not an object identifier (`1.3.101.112`) or its label (`id-alg-ml-kem-768`).
    #[must_use]
    pub fn name(&self) -> &str {
        let first = |wanted: fn(char) -> bool| {
            self.names.iter().find(|name| name.starts_with(wanted)).map(String::as_str)
        };
        first(|letter| letter.is_ascii_uppercase())
            .or_else(|| first(|letter| !letter.is_ascii_digit()))
            .unwrap_or(&self.names[0])
    }

    /// Returns whether the algorithm has this name, ignoring case.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Returns whether both are the same algorithm, regardless of the provider.
    #[must_use]
    pub fn same(&self, other: &Entry) -> bool {
        self.names.iter().any(|name| other.has(name))
    }
}

/// Parses `openssl list -providers`: names are indented by two spaces, fields by four.
pub fn providers(listing: &str) -> Vec<Provider> {
    let mut providers: Vec<Provider> = Vec::new();
    for line in listing.lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        match (indent, text.split_once(": "), providers.last_mut()) {
            (2, _, _) => providers.push(Provider {
                name: text.trim_end().to_string(),
                version: String::new(),
                status: String::new(),
            }),
            (4, Some(("version", value)), Some(last)) => last.version = value.to_string(),
            (4, Some(("status", value)), Some(last)) => last.status = value.to_string(),
            _ => {}
        }
    }
    providers
}

/// Parses `openssl list -...-algorithms`, with lines of `NAME @ provider` or `{ NAME, NAME } @
/// provider`, and `openssl list -tls-groups`, one line of `NAME:NAME`.
pub fn entries(listing: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    for line in listing.lines() {
        if let Some((names, provider)) = line.trim().rsplit_once(" @ ") {
            let names = names.trim_matches(['{', '}', ' ']).split(", ").map(str::to_string);
            entries.push(Entry { names: names.collect(), provider: Some(provider.to_string()) });
        } else if !line.starts_with(' ') && !line.ends_with(':') {
            // Headings contain spaces; a line of names does not.
            let names = line.split(':').filter(|name| !name.is_empty() && !name.contains(' '));
            let group = |name: &str| Entry { names: vec![name.to_string()], provider: None };
            entries.extend(names.map(group));
        }
    }
    entries
}

/// Parses the lines `NAME : (KIND) : Pass` of `openssl fipsinstall`.
pub fn self_tests(listing: &str) -> Vec<SelfTest> {
    let read = |line: &str| {
        let (name, rest) = line.split_once(" : (")?;
        let (kind, result) = rest.split_once(") : ")?;
        let result = result.trim_end();
        let passed = match result {
            "Pass" => true,
            "Fail" => false,
            _ => return None,
        };
        Some(SelfTest { name: name.trim().to_string(), kind: kind.to_string(), passed })
    };
    listing.lines().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_listings_are_read() {
        let listing = "Providers:\n  base\n    name: OpenSSL Base Provider\n    version: 3.5.5\n    \
                       status: active\n  fips\n    name: x\n    version: 3.1.2\n    status: inactive\n";
        let providers = providers(listing);
        assert_eq!(providers.len(), 2);
        assert_eq!(providers[0].status, "active");
        assert_eq!((providers[1].name.as_str(), providers[1].version.as_str()), ("fips", "3.1.2"));
        assert_eq!(providers[1].status, "inactive");
    }

    #[test]
    fn algorithms_are_read_with_all_names_and_their_provider() {
        let listing = "Legacy:\n  MD4\n  RSA-MD4 => MD4\nProvided:\n  \
                       { 2.16.840.1.101.3.4.4.2, id-alg-ml-kem-768, ML-KEM-768, MLKEM768 } @ fips\n  \
                       X25519MLKEM768 @ fips\n  { 1.2, id-x } @ default\n";
        let entries = entries(listing);
        let shown: Vec<_> =
            entries.iter().map(|entry| (entry.name(), entry.provider.as_deref())).collect();
        let expected = [("ML-KEM-768", "fips"), ("X25519MLKEM768", "fips"), ("id-x", "default")];
        assert_eq!(shown, expected.map(|(name, provider)| (name, Some(provider))));
        assert!(entries[0].has("mlkem768") && !entries[0].has("ML-KEM-512"));
        assert!(!entries[0].same(&entries[1]));
    }

    #[test]
    fn groups_are_read() {
        let groups = entries("secp256r1:x25519:X25519MLKEM768\n");
        let names: Vec<_> = groups.iter().map(Entry::name).collect();
        assert_eq!(names, ["secp256r1", "x25519", "X25519MLKEM768"]);
        assert_eq!(entries("Provided KDFs and PDFs:\n"), []);
    }

    #[test]
    fn self_tests_are_read() {
        let tests = self_tests(
            "HMAC : (Module_Integrity) : Pass\nML-DSA : (KAT_Signature) : Fail\n\
             \tname:     \tOpenSSL FIPS Provider\nINSTALL FAILED\n",
        );
        let shown: Vec<_> =
            tests.iter().map(|test| (&test.name[..], &test.kind[..], test.passed)).collect();
        let expected = [("HMAC", "Module_Integrity", true), ("ML-DSA", "KAT_Signature", false)];
        assert_eq!(shown, expected);
    }
}
