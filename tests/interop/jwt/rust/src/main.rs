//! Verifies a token by jsonwebtoken: the key is the one of the set that the token names.
//!
//! `verify JWKS TOKEN ALG`. The issuer, the audience and the end have to be right. Prints the subject, or says why the token is
//! not valid and exits 1.

use std::error::Error;
use std::process::ExitCode;
use std::{env, fs};

use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{DecodingKey, Validation, decode, decode_header};
use serde_json::Value;

fn verify(jwks: &str, token: &str, alg: &str) -> Result<String, Box<dyn Error>> {
    let set: JwkSet = serde_json::from_str(jwks)?;
    let kid = decode_header(token)?.kid.ok_or("no kid")?;
    let key = DecodingKey::from_jwk(set.find(&kid).ok_or("no key of this kid")?)?;
    let mut validation = Validation::new(alg.parse()?);
    validation.set_issuer(&["https://id.example.com"]);
    validation.set_audience(&["web"]);
    validation.set_required_spec_claims(&["exp", "iss", "aud"]);
    validation.leeway = 0;
    let claims = decode::<Value>(token, &key, &validation)?.claims;
    Ok(claims["sub"].as_str().ok_or("no subject")?.to_owned())
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().collect();
    let [_, jwks, token, alg] = &args[..] else { return ExitCode::from(2) };
    let read = |path: &str| fs::read_to_string(path);
    let verified = read(jwks).and_then(|jwks| Ok((jwks, read(token)?)));
    let verified = verified.map_err(Into::into);
    match verified.and_then(|(jwks, token)| verify(&jwks, token.trim(), alg)) {
        Ok(subject) => {
            println!("{subject}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
