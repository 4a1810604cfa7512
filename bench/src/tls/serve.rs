//! The lane `offload` from its own side: the process that [`super::remote`] starts.

use std::io::{BufRead, Write};
use std::time::Duration;

use super::lane::Lane;
use super::remote::{Answer, Order, broken};
use super::slice::Slice;
use super::{Config, Plan, Provider};
use crate::Error;
use crate::ossl::Ossl;

/// The other process: reads its order and slices from standard input until that ends.
pub fn serve() {
    let mut lines = std::io::stdin().lock().lines().map_while(Result::ok);
    let answer = |answer: &Answer| {
        let text = serde_json::to_string(answer).unwrap_or_default();
        // A reader that has gone ends its input too.
        let _ = writeln!(std::io::stdout(), "{text}");
    };
    let Some(order) = lines.next() else { return };
    let opened = serde_json::from_str(&order)
        .map_err(|cause| broken("its order", cause))
        .and_then(|order: Order| open(order));
    let (lane, plan) = match opened {
        Ok((lane, plan)) => (lane, plan),
        Err(error) => return answer(&Answer::Error(error.to_string())),
    };
    answer(&Answer::Ready(lane.probe.clone()));
    for _ in lines {
        match slice(&lane, &plan) {
            Ok(slice) => answer(&Answer::Slice(slice)),
            Err(error) => return answer(&Answer::Error(error.to_string())),
        }
    }
}

/// Opens the lane of an order, with OpenSSL's own provider.
fn open(order: Order) -> Result<(Lane, Plan), Error> {
    let plan = Plan::new(&Config {
        modules: order.modules,
        group: order.group,
        signature: order.signature,
        cipher: order.cipher,
        threads: order.threads,
        ..Config::new(order.prefix.clone())
    })?;
    let plan = Plan { slice_s: order.slice_s, ..plan };
    let ossl = Ossl::load(&order.prefix)?;
    let lane = Lane::open(ossl, Provider::Default, &plan, &order.credentials, &mut ())?;
    Ok((lane, plan))
}

/// One slice on every thread.
fn slice(lane: &Lane, plan: &Plan) -> Result<Slice, Error> {
    let length = Duration::from_secs_f64(plan.slice_s);
    if plan.threads == 1 {
        return lane.slice(plan, length);
    }
    std::thread::scope(|scope| {
        let running: Vec<_> =
            (0..plan.threads).map(|_| scope.spawn(|| lane.slice(plan, length))).collect();
        let mut total = Slice::default();
        for thread in running {
            match thread.join() {
                Ok(slice) => total.merge(&slice?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(total)
    })
}
