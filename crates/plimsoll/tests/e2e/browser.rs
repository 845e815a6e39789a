//! A real browser without a screen.

use std::path::Path;
use std::process::Command;

use crate::common::output_of;

/// A browser that asks nobody for anything but the page, with a profile of its own.
pub(crate) fn chromium(profile: &Path) -> Command {
    let mut chromium = Command::new("chromium");
    chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
    chromium.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    chromium.arg(format!("--user-data-dir={}", profile.display()));
    chromium
}

/// A page draws every chart that it has, says nothing on the console, and refers to nothing outside of it: wide, narrow
/// and dark.
pub(crate) fn draws_every_chart(page: &Path) {
    let html = std::fs::read_to_string(page).unwrap();
    for link in ["src=\"http", "href=\"http", "url(http", "@import"] {
        assert!(!html.contains(link), "the page refers to something elsewhere: {link}");
    }
    for (size, dark) in [("1200,900", false), ("400,900", false), ("1200,900", true)] {
        let profile = tempfile::tempdir().unwrap();
        let mut chromium = chromium(profile.path());
        chromium.args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000"]);
        chromium.arg(format!("--window-size={size}"));
        if dark {
            chromium.arg("--blink-settings=preferredColorScheme=0");
        }
        let text = output_of(chromium.arg("--dump-dom").arg(format!("file://{}", page.display())));
        assert!(!text.contains("CONSOLE"), "{:.2000}", text.split("CONSOLE").nth(1).unwrap_or_default());
        let charts = html.matches("class=\"chart\"").count();
        assert!(charts >= 3, "{charts}");
        assert_eq!(text.matches("<svg").count(), charts, "at {size}, dark {dark}");
    }
}
