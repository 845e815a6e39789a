//! A declared load as a value, its result as another: `cargo run --example load -- http://127.0.0.1:8080/`

use plimsoll::load::{Arrivals, Plan, Rate, Spacing, Stop, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("which URL?")?;
    let plan = Plan {
        connections: 50,
        arrivals: Arrivals::Open {
            rate: Rate::Ramp { from: 100.0, to: 2000.0, seconds: 3.0 },
            spacing: Spacing::Poisson,
            seed: 7,
            session: None,
        },
        stop: Stop::Seconds(5.0),
        ..Plan::new(url)
    };
    let outcome = run(&plan, &mut |progress| eprintln!("{} answers so far", progress.requests))?;
    println!("{} answers, {} errors, {}", outcome.requests, outcome.errors.total(), outcome.verdict.word());
    println!("p50 {:?} us, p99 {:?} us", outcome.response_time_us.p50, outcome.response_time_us.p99);
    Ok(())
}
