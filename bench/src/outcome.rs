//! The outcome of a row in a table: figures, or the reason why they are missing.

use gabion_rows::Status;

use crate::{Error, ossl, pairs};

/// A row's figures, or its status and note.
pub(crate) type Outcome<T> = Result<T, (Status, String)>;

/// The outcome of a row whose algorithms nothing followed.
pub(crate) fn no_successor<T>() -> Outcome<T> {
    Err((Status::NoSuccessor, "dropped before the standards; nothing followed".to_owned()))
}

/// Converts an answer of OpenSSL to an outcome. Optional algorithms may be missing, which the row
/// then says; any other failure is a fault.
pub(crate) fn unless_missing<T>(
    answer: Result<T, ossl::Error>,
    group: &str,
    signature: &str,
) -> Result<Outcome<T>, Error> {
    match answer {
        Err(ossl::Error::Call(text)) if pairs::is_optional(group, signature) => {
            Ok(Err((Status::NotServed, text)))
        }
        answer => Ok(Ok(answer?)),
    }
}

/// Splits an outcome into a row's `status`, `note` and figures.
pub(crate) fn fields<T>(outcome: Outcome<T>) -> (Status, Option<String>, Option<T>) {
    match outcome {
        Ok(figures) => (Status::Measured, None, Some(figures)),
        Err((status, note)) => (status, Some(note), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_openssl_lacks_may_be_missing() {
        let refused = || Err::<(), _>(ossl::Error::Call("no such group".into()));
        let private = unless_missing(refused(), "SecP256r1MLKEM512", "RSA-2048");
        assert_eq!(private, Ok(Err((Status::NotServed, "no such group".into()))));
        let standard = unless_missing(refused(), "X25519MLKEM768", "RSA-2048");
        assert_eq!(standard, Err(Error::Failed("no such group".into())));
        let unready = Err::<(), _>(ossl::Error::NotReady("no OpenSSL".into()));
        let private = unless_missing(unready, "SecP256r1MLKEM512", "RSA-2048");
        assert_eq!(private, Err(Error::NotReady("no OpenSSL".into())));
    }
}
