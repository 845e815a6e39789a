//! How the values of the topology's flags are written.

use std::fmt;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use engine::Class;
use engine::topology::Axis;

use crate::cli::value::of_path;

/// Highest processor number taken.
const MOST_CPU: usize = 1023;

/// A number, or the number that fits the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Number(usize),
    Auto,
}

/// Processors, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cpus(pub(super) Vec<usize>);

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

/// A parser of an axis's values, whose help says what each of them is.
pub(super) fn axis<A: Axis>() -> impl TypedValueParser<Value = A> {
    let value = |value: &A| PossibleValue::new(value.name()).help(value.about().trim_end_matches('.'));
    PossibleValuesParser::new(A::VALUES.iter().map(value)).try_map(|name| {
        A::VALUES.iter().copied().find(|value| value.name() == name).ok_or("not a value of this setting")
    })
}

pub(super) fn parse_count(text: &str) -> Result<Count, String> {
    if text == "auto" {
        return Ok(Count::Auto);
    }
    text.parse().map(Count::Number).map_err(|_| "expected a number or auto".into())
}

pub(super) fn parse_cpus(text: &str) -> Result<Cpus, String> {
    let number = |text: &str| {
        let number: usize =
            text.trim().parse().map_err(|_| format!("{text:?} is not a processor's number"))?;
        if number > MOST_CPU { Err(format!("{number}: must be at most {MOST_CPU}")) } else { Ok(number) }
    };
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("{part}: the range runs backwards"));
        }
        cpus.extend((first..=last).filter(|cpu| !cpus.contains(cpu)).collect::<Vec<_>>());
    }
    Ok(Cpus(cpus))
}

pub(super) fn parse_class(text: &str) -> Result<(String, Class), String> {
    let (path, class) = of_path(text, "PATH=CLASS, as in /healthz=high")?;
    let class = match class {
        "high" => Class::High,
        "normal" => Class::Normal,
        "low" => Class::Low,
        other => return Err(format!("class {other:?}: must be high, normal or low")),
    };
    Ok((path.into(), class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert_eq!(parse_cpus("0"), Ok(Cpus(vec![0])));
        assert_eq!(parse_cpus("3,0-2,1"), Ok(Cpus(vec![3, 0, 1, 2])));
        for bad in ["", "a", "1-", "2-1", "-1", "1024", "0,,1"] {
            assert!(parse_cpus(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn classes_of_routes() {
        assert_eq!(parse_class("/a=b=low"), Ok(("/a=b".into(), Class::Low)));
        for bad in ["/a", "a=high", "/a=urgent", "="] {
            assert!(parse_class(bad).is_err(), "{bad}");
        }
    }
}
