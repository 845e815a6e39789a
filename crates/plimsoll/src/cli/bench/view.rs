//! What is shown while a load runs: some lines that stay in place on a terminal, a line each second elsewhere.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use load::report::duration;
use load::sample::Moment;
use load::{Latest, Phase, Progress};

/// Cells of the longest bar.
const BAR: usize = 30;

/// How often a line is written where there is no terminal.
const LINE: Duration = Duration::from_secs(1);

/// The view of one load.
pub(super) struct View {
    kind: Kind,
    /// Lines that were written last and are to be written over.
    lines: usize,
    next: Duration,
}

enum Kind {
    Silent,
    Terminal,
    Lines,
}

impl View {
    pub(super) fn new(quiet: bool) -> Self {
        let kind = match quiet {
            true => Kind::Silent,
            false if stderr().is_terminal() => Kind::Terminal,
            false => Kind::Lines,
        };
        View { kind, lines: 0, next: LINE }
    }

    /// Shows how far a load is, and what the server uses.
    pub(super) fn show(&mut self, progress: &Progress, server: Option<&Moment>) {
        match self.kind {
            Kind::Silent => {}
            Kind::Lines if progress.phase == Phase::Draining || progress.elapsed < self.next => {}
            Kind::Lines => {
                self.next += LINE;
                put(&(headline(progress, server) + "\n"));
            }
            Kind::Terminal => {
                // Back to the first of its lines, and nothing below.
                let mut text = if self.lines > 0 { format!("\x1b[{}A", self.lines) } else { String::new() };
                text += "\r\x1b[J";
                let shown = match progress.phase {
                    Phase::Draining => String::new(),
                    _ => screen(progress, server),
                };
                self.lines = shown.lines().count();
                put(&(text + &shown));
            }
        }
    }
}

fn put(text: &str) {
    // Where nobody looks any more there is nothing to show.
    let _ = stderr().write_all(text.as_bytes());
    let _ = stderr().flush();
}

/// Everything in one line.
fn headline(progress: &Progress, server: Option<&Moment>) -> String {
    let mut line = format!(
        "{} {:.0} s{}: {:.0} requests/s, {} answers, {} errors",
        if progress.phase == Phase::Warmup { "warming up" } else { "measuring" },
        progress.elapsed.as_secs_f64(),
        progress.total.map(|total| format!(" of {:.0} s", total.as_secs_f64())).unwrap_or_default(),
        progress.recent_per_second,
        progress.requests,
        progress.errors,
    );
    if let Some(Latest { p50_us, p99_us, max_us, .. }) = &progress.latest {
        let [p50, p99, max] = [p50_us, p99_us, max_us].map(|us| duration(*us as f64));
        let _ = write!(line, ", p50 {p50}, p99 {p99}, max {max}");
    }
    if let Some(moment) = server {
        let memory = load::report::bytes(moment.rss_bytes as f64);
        let _ = write!(line, ", server {:.2} cores, {memory}", moment.cores);
    }
    line
}

/// The line, and below it how the response times of the last second are spread.
fn screen(progress: &Progress, server: Option<&Moment>) -> String {
    let mut text = headline(progress, server) + "\n";
    let Some(latest) = &progress.latest else { return text };
    let all: u64 = latest.buckets.iter().map(|(_, count)| count).sum();
    let most = latest.buckets.iter().map(|(_, count)| *count).max().unwrap_or(0);
    for (below_us, count) in &latest.buckets {
        let bar = "#".repeat((*count as f64 / most.max(1) as f64 * BAR as f64).ceil() as usize);
        let share = *count as f64 / all.max(1) as f64 * 100.0;
        let _ = writeln!(text, "  <= {:>9}  {bar:<BAR$} {share:>5.1} %", duration(*below_us as f64));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> Progress {
        Progress {
            phase: Phase::Measuring,
            elapsed: Duration::from_secs(3),
            total: Some(Duration::from_secs(10)),
            requests: 3000,
            errors: 1,
            recent_per_second: 1000.0,
            latest: Some(Latest {
                p50_us: 800,
                p99_us: 4200,
                max_us: 9000,
                buckets: vec![(1000, 750), (2000, 0), (5000, 250)],
            }),
        }
    }

    #[test]
    fn the_screen_has_rate_errors_times_and_the_server() {
        let moment = Moment { cores: 0.98, rss_bytes: 5 << 20, ..Moment::default() };
        assert_eq!(
            screen(&progress(), Some(&moment)),
            "measuring 3 s of 10 s: 1000 requests/s, 3000 answers, 1 errors, p50 800 us, p99 4.20 ms, max 9.00 ms, server \
             0.98 cores, 5.00 MiB\n  \
             <=   1.00 ms  ##############################  75.0 %\n  \
             <=   2.00 ms                                   0.0 %\n  \
             <=   5.00 ms  ##########                      25.0 %\n"
        );
    }
}
