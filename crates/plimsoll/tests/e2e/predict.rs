//! `plimsoll lab predict`: from a measurement of this host to figures for others.

use serde_json::Value;

use crate::common::{failed, plimsoll};

/// Whatever the error on a host that builds and tests other things meanwhile, everything is predicted.
const ANY_ERROR: [&str; 2] = ["--within", "1000000"];

fn predicted(args: &[&str]) -> Value {
    let words = ["lab", "predict", "--quick", "--connections", "64", "--json", "-"];
    let output = plimsoll().args(words).args(ANY_ERROR).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // A host with one core has no place for a server and a load, and is told so.
    if said.contains("need a core each") {
        return Value::Null;
    }
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn topologies_are_predicted_and_more_cores_answer_no_less() {
    let found = predicted(&["--cores", "4,1", "--work", "100us", "--work-mode", "spin"]);
    if found.is_null() {
        return;
    }
    assert_eq!(found["schema"], "plimsoll.predict/1");
    assert!(found["calibration"]["costs"]["reactor_us"].as_f64().unwrap() > 0.0);
    let checks = found["checks"].as_array().unwrap();
    assert_eq!((checks.len(), found["refused"].as_array().unwrap().len()), (6, 0));
    for check in checks {
        assert!(check["measured"]["requests_per_second"].as_f64().unwrap() > 0.0, "{check}");
        let rate = |side: &str| check[side]["requests_per_second"].as_f64().unwrap();
        let error = rate("predicted") / rate("measured") - 1.0;
        assert!((check["error"].as_f64().unwrap() - error).abs() < 1e-6, "{check}");
    }
    let forecasts = found["forecasts"].as_array().unwrap();
    let of = |model: &str, cores: u64| {
        let is_it = |forecast: &&Value| {
            forecast["shape"]["model"] == model && forecast["cores"] == cores && forecast["tuned"] == false
        };
        forecasts.iter().find(is_it).unwrap_or_else(|| panic!("no {model} on {cores} cores: {found}"))
    };
    let rate = |model, cores| of(model, cores)["predicted"]["requests_per_second"].as_f64().unwrap();
    for model in ["reuseport", "multi-reactor"] {
        assert!(rate(model, 4) >= rate(model, 1), "{model}: {found}");
    }
    // 100 us of computing for each request, on one core.
    assert!(rate("reuseport", 1) <= 10_000.0, "{found}");
    assert_eq!(of("reuseport", 1)["bottleneck"], "cores");
    assert_eq!(of("reactor", 4)["bottleneck"], "reactors");
}

#[test]
fn what_cannot_be_predicted_is_refused_with_what_would_be_right() {
    for (args, why) in [
        (&["--cores", "0"][..], "invalid value '0' for '--cores <N>': 0 is not in 1..=1024"),
        (&["--work", "2h"], "--work 2h: must be at most 100ms"),
        (&["--work", "long"], "invalid value 'long' for '--work <TIME>'"),
        (&["--within", "0"], "--within 0: must be above 0 per cent"),
        (&["--connections", "0"], "0 is not in 1..=100000"),
        (&["--work-mode", "spin"], "--work <TIME>"),
    ] {
        let (status, said) = failed(plimsoll().args(["lab", "predict"]).args(args));
        assert!(status == 2 && said.contains(why), "{args:?}: {status}: {said}");
    }
}
