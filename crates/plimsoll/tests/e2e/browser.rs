//! A real browser without a screen: what a page looks like in it, and what its buttons give.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{has, output_of};

/// A browser that asks nobody for anything but the page, with a profile of its own.
pub(crate) fn chromium(profile: &Path) -> Command {
    let mut chromium = Command::new("chromium");
    chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
    chromium.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    chromium.args(["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"]);
    chromium.arg(format!("--user-data-dir={}", profile.display()));
    chromium
}

/// Looks at a page in a frame of its own, which may be narrower than a window can be, presses all its buttons, and writes
/// what it has seen as numbers.
const WRAPPER: &str = include_str!("browser.html");

/// A page draws every chart that it has, says nothing on the console, and refers to nothing outside of it, on a screen and on
/// a phone, in light and dark; its charts can be saved, and all of it can be reached from the keyboard and is described.
pub(crate) fn draws_every_chart(page: &Path) {
    let html = fs::read_to_string(page).unwrap();
    for link in ["src=\"http", "href=\"http", "url(http", "@import"] {
        assert!(!html.contains(link), "the page refers to something elsewhere: {link}");
    }
    let charts = html.matches("class=\"chart\"").count() as u64;
    assert!(charts >= 3, "{charts}");
    for (width, dark) in [(1200, false), (400, false), (1200, true)] {
        let seen = seen(page, width, dark);
        assert!(seen["requests"] == serde_json::json!([]), "it asks for something elsewhere: {seen}");
        let of = |name: &str| seen[name].as_u64().unwrap_or_else(|| panic!("{name} of {seen}"));
        assert!(of("width") <= width, "what is {width} pixels wide has to be scrolled sideways: {seen}");
        assert!(of("charts") == charts && of("least_paths") >= 3, "a chart is not drawn: {seen}");
        let paper = if dark { [18, 24, 31] } else { [255, 255, 255] };
        assert!(seen["background"] == serde_json::json!(paper), "dark {dark}: {seen}");
        assert_eq!(of("dark_ink") > 0, dark, "{seen}");
        assert_eq!((of("svg"), of("png")), (charts, charts), "not every chart can be saved: {seen}");
        let buttons = [of("buttons"), of("distinct_labels"), of("labelled"), of("focusable")];
        assert_eq!(buttons, [2 * charts; 4], "{seen}");
        let tables = [of("captions"), of("scrollable")];
        assert_eq!((tables, of("described")), ([of("tables"); 2], charts), "{seen}");
    }
}

/// What the wrapper sees of a page at a width.
fn seen(page: &Path, width: u64, dark: bool) -> Value {
    let profile = tempfile::tempdir().unwrap();
    let wrapper = profile.path().join("wrapper.html");
    let url = format!("file://{}", page.canonicalize().unwrap().display());
    fs::write(&wrapper, WRAPPER.replace("WIDTH", &width.to_string()).replace("PAGE", &url)).unwrap();
    let mut chromium = chromium(&profile.path().join("profile"));
    chromium.args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=120000"]);
    // Every file is an origin of its own otherwise, into which no other may look.
    chromium.args(["--allow-file-access-from-files", "--window-size=1400,1000"]);
    if dark {
        chromium.arg("--blink-settings=preferredColorScheme=0");
    }
    let text = output_of(chromium.arg("--dump-dom").arg(format!("file://{}", wrapper.display())));
    assert!(!text.contains("CONSOLE"), "{:.2000}", text.split("CONSOLE").nth(1).unwrap_or_default());
    let said = text
        .split("<pre id=\"said\">")
        .nth(1)
        .and_then(|rest| rest.split("</pre>").next())
        .unwrap_or_default();
    serde_json::from_str(said).unwrap_or_else(|error| panic!("{error}: the page was never whole: {said:?}"))
}

#[test]
fn a_page_that_asks_for_something_elsewhere_is_seen_to() {
    if !has("chromium", "chromium") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    // Nothing that stands in the page says where.
    let script = "const at = [\"ht\", \"tp://198.51.100.7/\"].join(\"\"); new Image().src = at + \"x\"; navigator.sendBeacon(at + \"y\", \"1\");";
    fs::write(&page, format!("<!doctype html><title>t</title><p>t</p><script>{script}</script>")).unwrap();
    let mut requests: Vec<String> =
        serde_json::from_value(seen(&page, 400, false)["requests"].clone()).unwrap();
    requests.sort();
    assert_eq!(requests, ["http://198.51.100.7/x", "http://198.51.100.7/y"]);
}
