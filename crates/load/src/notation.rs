//! How a rate over time is written on a command line: `20000`, `ramp:1000..20000@10s`, `steps:1000,2000,4000@10s`,
//! `on-off:20000@1s,4s`, `two-state:1000,20000@1s,200ms`.

use std::str::FromStr;
use std::time::Duration;

use crate::plan::Rate;

/// A rate that is not written as it should be: what is wrong, and how it is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}: {1}")]
pub struct BadRate(String, &'static str);

const HOW: &str = "write a number of requests per second, or ramp:FROM..TO@TIME, steps:RATE,RATE..@TIME, \
                   on-off:RATE@ON,OFF, two-state:LOW,HIGH@MEAN_LOW,MEAN_HIGH";

impl FromStr for Rate {
    type Err = BadRate;

    fn from_str(text: &str) -> Result<Self, BadRate> {
        let bad = |what: String| BadRate(what, HOW);
        let Some((shape, rest)) = text.split_once(':') else {
            return Ok(Rate::Steady { rate: number(text).map_err(bad)? });
        };
        let (rates, times) = rest.split_once('@').ok_or_else(|| bad(format!("there is no @ in {rest:?}")))?;
        let separator = if shape == "ramp" { ".." } else { "," };
        let rates: Vec<f64> = rates.split(separator).map(number).collect::<Result<_, _>>().map_err(bad)?;
        let times: Vec<f64> = times.split(',').map(seconds).collect::<Result<_, _>>().map_err(bad)?;
        match (shape, &rates[..], &times[..]) {
            ("ramp", &[from, to], &[seconds]) => Ok(Rate::Ramp { from, to, seconds }),
            ("steps", [_, ..], &[each_s]) => Ok(Rate::Steps { rates, each_s }),
            ("on-off", &[rate], &[on_s, off_s]) => Ok(Rate::OnOff { rate, on_s, off_s }),
            ("two-state", &[low, high], &[low_s, high_s]) => Ok(Rate::TwoState { low, high, low_s, high_s }),
            _ => Err(bad(format!("{text:?} is no rate over time"))),
        }
    }
}

fn number(text: &str) -> Result<f64, String> {
    text.trim()
        .parse()
        .ok()
        .filter(|rate: &f64| rate.is_finite())
        .ok_or_else(|| format!("{text:?} is no number"))
}

fn seconds(text: &str) -> Result<f64, String> {
    humantime::parse_duration(text.trim())
        .map(|time: Duration| time.as_secs_f64())
        .map_err(|error| format!("{text:?} is no time: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_or_say_how_they_are_written() {
        for (text, expected) in [
            ("20000", Rate::Steady { rate: 20_000.0 }),
            ("ramp:0..500@10s", Rate::Ramp { from: 0.0, to: 500.0, seconds: 10.0 }),
            ("steps:1,2,3@500ms", Rate::Steps { rates: vec![1.0, 2.0, 3.0], each_s: 0.5 }),
            ("on-off:100@1s,4s", Rate::OnOff { rate: 100.0, on_s: 1.0, off_s: 4.0 }),
            ("two-state:1,9@1s,200ms", Rate::TwoState { low: 1.0, high: 9.0, low_s: 1.0, high_s: 0.2 }),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in [
            "",
            "fast",
            "inf",
            "ramp:1..2",
            "ramp:1,2@1s",
            "steps:@1s",
            "on-off:1@1s",
            "saw:1@1s",
            "ramp:1..2@x",
        ] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains("two-state:LOW,HIGH"), "{text}: {error}");
        }
    }
}
