//! Requests of clients that wait for each answer.

use std::thread;
use std::time::{Duration, Instant};

use gabion_kms_client::wire::{CreateKey, Sign, Verify};
use gabion_kms_client::{Client, encode};
use gabion_rows::kms::Request;
use serde_json::{Value, json};

use super::served::Served;
use super::{Case, MESSAGE};
use crate::Error;

/// A request that is ready to be sent.
pub struct Asked {
    client: Client,
    clients: usize,
    what: What,
}

enum What {
    Nothing,
    Sign(Sign),
    Verify(Verify),
    /// By Vault's path, which has batches.
    SignMany(String, Value),
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}

impl Asked {
    /// Makes the key that it is about, where it is not there.
    pub fn new(case: &Case, served: &Served) -> Result<Self, Error> {
        let client = served.client()?;
        let name = case.algorithm;
        let message = encode(&[7; MESSAGE]);
        if case.request != Request::Nothing && client.show(name).is_err() {
            let algorithm = case.algorithm.to_owned();
            let key = CreateKey { name: name.to_owned(), algorithm, ..CreateKey::default() };
            client.create(&key).map_err(failed)?;
        }
        let sign = || Sign { message: Some(message.clone()), ..Sign::by(name) };
        let what = match (case.request, case.batch) {
            (Request::Nothing, _) => What::Nothing,
            (Request::Sign, 1) => What::Sign(sign()),
            (Request::Sign, many) => {
                let items = vec![json!({"input": message}); many];
                let body = json!({"batch_input": items});
                What::SignMany(format!("/v1/transit/sign/{name}"), body)
            }
            (Request::Verify | Request::Cold, _) => {
                let signature = client.sign(&sign()).map_err(failed)?.signature;
                let (key, message) = (name.to_owned(), Some(message));
                What::Verify(Verify { key, message, signature, ..Verify::default() })
            }
        };
        Ok(Asked { client, clients: case.clients, what })
    }

    /// Asks for so long, and gives the nanoseconds of each request.
    pub fn again_and_again(&self, time: Duration) -> Result<Vec<u64>, Error> {
        let alone = || -> Result<Vec<u64>, Error> {
            let (mut ns, begun) = (Vec::new(), Instant::now());
            while begun.elapsed() < time {
                let start = Instant::now();
                self.once()?;
                ns.push(start.elapsed().as_nanos() as u64);
            }
            Ok(ns)
        };
        if self.clients == 1 {
            return alone();
        }
        thread::scope(|scope| {
            let all: Vec<_> = (0..self.clients).map(|_| scope.spawn(alone)).collect();
            let mut ns = Vec::new();
            for one in all {
                ns.extend(one.join().map_err(|_| failed("a client failed"))??);
            }
            Ok(ns)
        })
    }

    fn once(&self) -> Result<(), Error> {
        match &self.what {
            What::Nothing => self.client.get::<Value>("/healthz").map(drop).map_err(failed),
            What::Sign(sign) => self.client.sign(sign).map(drop).map_err(failed),
            What::Verify(verify) => match self.client.verify(verify).map_err(failed)?.valid {
                true => Ok(()),
                false => Err(failed("the server says that its own signature is wrong")),
            },
            What::SignMany(path, body) => {
                let answer: Value = self.client.post(path, body).map_err(failed)?;
                let all = answer["data"]["batch_results"].as_array();
                let are_there = |all: &Vec<Value>| {
                    !all.is_empty() && all.iter().all(|one| one["signature"].is_string())
                };
                match all.is_some_and(are_there) {
                    true => Ok(()),
                    false => Err(failed("the server did not sign all of a batch")),
                }
            }
        }
    }
}
