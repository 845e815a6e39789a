//! Histograms as text, in the interchange form of HdrHistogram (V2, compressed, base64), and logs of them.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use crate::outcome::{Distribution, Outcome};
use crate::recorded::distribution;

/// A histogram as text.
pub(crate) fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    match V2DeflateSerializer::new().serialize(histogram, &mut bytes) {
        Ok(_) => STANDARD.encode(bytes),
        // It writes to memory; only a histogram of absurd size fails.
        Err(_) => String::new(),
    }
}

/// A histogram from its text.
pub(crate) fn decode(text: &str) -> Result<Histogram<u64>, BadLog> {
    let bytes = STANDARD.decode(text).map_err(|error| BadLog(error.to_string()))?;
    Deserializer::new().deserialize(&mut &bytes[..]).map_err(|error| BadLog(format!("{error:?}")))
}

/// The response times as an interval log that HdrHistogram's own tools read: a line for each second, in microseconds. Those
/// that are in no second, since their answers came after the end or not at all, have a line of no length at the end: they are
/// the slowest, and a log without them would look better than the load was.
pub fn log(outcome: &Outcome) -> String {
    let mut text =
        String::from("#[Histogram log format version 1.3]\n#[BaseTime: 0.000 (seconds since epoch)]\n");
    text += "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";
    for second in outcome.timeline.iter().filter(|second| !second.histogram.is_empty()) {
        let length = (outcome.duration_s - second.at_s as f64).clamp(0.001, second.length_s.max(1) as f64);
        text += &format!("{}.000,{length:.3},{}.000,{}\n", second.at_s, second.max_us, second.histogram);
    }
    // What cannot be read was never written: there were none.
    if let Ok(late) = decode(&outcome.late_histogram) {
        let (end, max) = (outcome.duration_s, late.max());
        text += &format!("{end:.3},0.000,{max}.000,{}\n", outcome.late_histogram);
    }
    text
}

/// What is wrong with a log.
#[derive(Debug, thiserror::Error)]
#[error("this is no log of histograms: {0}")]
pub struct BadLog(pub(crate) String);

/// Adds up all histograms of interval logs, bucket by bucket, and reads the distribution: percentiles are never averaged.
///
/// # Errors
/// A log cannot be read.
pub fn merge<'a>(logs: impl IntoIterator<Item = &'a str>) -> Result<(Distribution, Duration), BadLog> {
    let bad = |what: &dyn std::fmt::Debug| BadLog(format!("{what:?}"));
    let mut sum = Histogram::<u64>::new(3).map_err(|error| bad(&error))?;
    let mut time = Duration::ZERO;
    for log in logs {
        for entry in IntervalLogIterator::new(log.as_bytes()) {
            let LogEntry::Interval(interval) = entry.map_err(|error| bad(&error))? else { continue };
            sum.add(decode(interval.encoded_histogram())?).map_err(|error| bad(&error))?;
            time += interval.duration();
        }
    }
    Ok((distribution(&sum), time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Second;

    #[test]
    fn logs_are_read_back_and_added_up() {
        let second = |at_s: u64, values: std::ops::Range<u64>| {
            let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000, 3).unwrap();
            values.clone().for_each(|us| histogram.record(us).unwrap());
            Second { at_s, histogram: encode(&histogram), max_us: values.end, ..Second::default() }
        };
        let mut outcome = Outcome::empty(&crate::Plan::new("http://x/"));
        outcome.duration_s = 2.0;
        outcome.timeline = vec![second(0, 1..5001), second(1, 5001..10_001)];
        let text = log(&outcome);
        let (merged, time) = merge([text.as_str(), text.as_str()]).unwrap();
        assert_eq!((merged.count, time), (20_000, Duration::from_secs(4)));
        assert!(
            merged.p50.unwrap().abs_diff(5000) <= 10 && merged.p99.unwrap().abs_diff(9900) <= 10,
            "{merged:?}"
        );
        assert!(merge(["0.000,1.000,1.000,nonsense\n"]).is_err());
    }
}
