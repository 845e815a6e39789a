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
                let shown = match progress.phase {
                    Phase::Draining => String::new(),
                    _ => screen(progress, server),
                };
                put(&over(self.lines, &shown));
                self.lines = shown.lines().count();
            }
        }
    }
}

/// What writes some lines over so many others: back to the first of those, and nothing below. Lines that are too long for the
/// terminal are cut and not wrapped, since what is wrapped takes more lines than are gone back.
fn over(lines: usize, shown: &str) -> String {
    let back = if lines > 0 { format!("\x1b[{lines}A") } else { String::new() };
    format!("{back}\r\x1b[J\x1b[?7l{shown}\x1b[?7h")
}

fn put(text: &str) {
    // Where nobody looks any more there is nothing to show.
    let _ = stderr().write_all(text.as_bytes());
    let _ = stderr().flush();
}

/// How far the load is, the response times of late, and the server: as far as they are known.
fn parts(progress: &Progress, server: Option<&Moment>) -> Vec<String> {
    let mut parts = vec![format!(
        "{} {:.0} s{}: {:.0} requests/s, {} answers, {} errors",
        if progress.phase == Phase::Warmup { "warming up" } else { "measuring" },
        progress.elapsed.as_secs_f64(),
        progress.total.map(|total| format!(" of {:.0} s", total.as_secs_f64())).unwrap_or_default(),
        progress.recent_per_second,
        progress.requests,
        progress.errors,
    )];
    if let Some(Latest { p50_us, p99_us, max_us, .. }) = &progress.latest {
        let [p50, p99, max] = [p50_us, p99_us, max_us].map(|us| duration(*us as f64));
        parts.push(format!("p50 {p50}, p99 {p99}, max {max}"));
    }
    if let Some(moment) = server {
        let memory = load::report::bytes(moment.rss_bytes as f64);
        parts.push(format!("server {:.2} cores, {memory}", moment.cores));
    }
    parts
}

/// Everything in one line.
fn headline(progress: &Progress, server: Option<&Moment>) -> String {
    parts(progress, server).join(", ")
}

/// Each part in a line, which 80 columns are enough for, and below how the response times of the last second are spread.
fn screen(progress: &Progress, server: Option<&Moment>) -> String {
    let mut text = parts(progress, server).join("\n  ") + "\n";
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
            "measuring 3 s of 10 s: 1000 requests/s, 3000 answers, 1 errors\n  \
             p50 800 us, p99 4.20 ms, max 9.00 ms\n  \
             server 0.98 cores, 5.00 MiB\n  \
             <=   1.00 ms  ##############################  75.0 %\n  \
             <=   2.00 ms                                   0.0 %\n  \
             <=   5.00 ms  ##########                      25.0 %\n"
        );
    }

    /// What a terminal of so many columns shows of a text, by the few things that the view asks of one.
    fn shown(text: &str, columns: usize) -> Vec<String> {
        let (mut rows, mut row, mut wraps) = (vec![String::new()], 0, true);
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            if let Some(sequence) = rest.strip_prefix("\x1b[") {
                let end = sequence.find(|letter: char| letter.is_ascii_alphabetic()).unwrap();
                match (&sequence[..end], &sequence[end..=end]) {
                    ("?7", letter) => wraps = letter == "h",
                    ("", "J") => rows.truncate(row + 1),
                    (up, "A") => row = row.saturating_sub(up.parse().unwrap()),
                    other => panic!("{other:?}"),
                }
                rest = &sequence[end + 1..];
                continue;
            }
            let full = rows[row].len() == columns;
            match next {
                '\r' => rows[row].clear(),
                '\n' => row += 1,
                _ if full && wraps => row += 1,
                _ if full => rest = &rest[1..],
                _ => {}
            }
            rows.resize(rows.len().max(row + 1), String::new());
            if full && !wraps && next >= ' ' {
                continue;
            }
            if next >= ' ' {
                rows[row].push(next);
            }
            rest = &rest[1..];
        }
        rows
    }

    #[test]
    fn the_view_stays_in_its_place_on_every_terminal() {
        let moment = Moment { cores: 0.98, rss_bytes: 5 << 20, ..Moment::default() };
        let mut busy = progress();
        (busy.requests, busy.errors, busy.recent_per_second) = (3_000_000_000, 1_000_000, 1_234_567.0);
        let screen = screen(&busy, Some(&moment));
        assert!(screen.lines().all(|line| line.len() <= 80), "{screen}");
        let lines = screen.lines().count();
        for columns in [20, 80] {
            let once = shown(&over(0, &screen), columns);
            assert_eq!(shown(&(over(0, &screen) + &over(lines, &screen)), columns), once, "{columns}");
            assert_eq!(once.len(), lines + 1);
        }
    }
}
