//! From flags to a plan of a load.

use std::fs;
use std::path::Path;

use anyhow::Context;
use load::{Arrivals, Expect, Log, Plan, Session, Spacing, Stop, Wanted};

use super::{Args, SpacingFlag};

impl Args {
    fn arrivals(&self) -> Arrivals {
        let think_s = self.think.as_secs_f64();
        if let Some(log) = &self.replay {
            return Arrivals::Replay { log: log.clone(), speed: self.speed };
        }
        let Some(rate) = self.rate.clone() else { return Arrivals::Closed { think_s } };
        let spacing = match self.spacing {
            SpacingFlag::Constant => Spacing::Constant,
            SpacingFlag::Poisson => Spacing::Poisson,
        };
        let session = self.session.map(|go_on| Session { go_on, think_s });
        Arrivals::Open { rate, spacing, seed: self.seed, session }
    }

    pub(super) fn plan(&self) -> anyhow::Result<Plan> {
        let stop = match (self.requests, self.duration) {
            (Some(requests), _) => Stop::Requests(requests),
            (None, Some(duration)) => Stop::Seconds(duration.as_secs_f64()),
            (None, None) => self.usual_stop()?,
        };
        self.request.of(Plan {
            connections: self.connections,
            arrivals: self.arrivals(),
            threads: self.threads,
            stop,
            warmup_s: self.warmup.as_secs_f64(),
            timeout_s: self.timeout.as_secs_f64(),
            close: self.close,
            pipeline: self.pipeline,
            targets: self.targets()?,
            sources: self.sources,
            expect: Expect {
                statuses: self.expect_status.clone(),
                length: self.expect_length,
                sha256: self.expect_sha256.clone(),
            },
            send_rate: self.send_rate.map_or(0.0, |rate| rate.0 as f64),
            receive_rate: self.receive_rate.map_or(0.0, |rate| rate.0 as f64),
            link: self.link,
            processes: self.processes.unwrap_or_else(|| load::processes_for(self.connections, self.threads)),
            cpus: self.cpus.clone(),
            ..Plan::new(&self.url)
        })
    }

    /// When a load ends if nothing is said: a replay with the log's last request, however late that is.
    fn usual_stop(&self) -> anyhow::Result<Stop> {
        const USUAL_S: f64 = 10.0;
        let Some(file) = &self.replay else { return Ok(Stop::Seconds(USUAL_S)) };
        let log = Log::read(file)?;
        if log.skipped > 0 {
            let (skipped, file) = (log.skipped, file.display());
            super::say!(
                "plimsoll: warning: {skipped} lines of {file} are left out: no GET, or in no known format"
            );
        }
        Ok(Stop::Requests(log.requests()))
    }

    /// What the file of URLs says.
    fn targets(&self) -> anyhow::Result<Vec<Wanted>> {
        let Some(file) = &self.url_file else { return Ok(Vec::new()) };
        let text =
            fs::read_to_string(file).with_context(|| format!("cannot read --url-file {}", file.display()))?;
        if text.trim_start().starts_with('<') {
            return sitemap(&text, file);
        }
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let used = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let targets: Vec<Wanted> = used
            .map(|(at, line)| wanted(line).with_context(|| format!("{}, line {at}", file.display())))
            .collect::<anyhow::Result<_>>()?;
        anyhow::ensure!(!targets.is_empty(), "--url-file {}: there is no path in it", file.display());
        Ok(targets)
    }
}

/// The pages of a sitemap (sitemaps.org), one as often as another.
fn sitemap(text: &str, file: &Path) -> anyhow::Result<Vec<Wanted>> {
    let document = roxmltree::Document::parse(text)
        .with_context(|| format!("--url-file {} looks like a sitemap, and is no XML", file.display()))?;
    anyhow::ensure!(
        document.root_element().tag_name().name() != "sitemapindex",
        "--url-file {}: this is an index of sitemaps, not of pages; give one of those that it names",
        file.display()
    );
    let pages = document.descendants().filter(|node| node.tag_name().name() == "loc");
    let targets: Vec<Wanted> = pages
        .filter_map(|node| Some(Wanted { path: path_of(node.text()?.trim()).into(), weight: 1.0 }))
        .collect();
    anyhow::ensure!(!targets.is_empty(), "--url-file {}: the sitemap names no page (<loc>)", file.display());
    Ok(targets)
}

/// The path of a URL, without its fragment, which is not for servers. Whatever server it names, it is asked of the one that is
/// loaded.
fn path_of(url: &str) -> &str {
    let url = url.split('#').next().unwrap_or_default();
    match url.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => url,
    }
}

/// A line of a file of URLs.
fn wanted(line: &str) -> anyhow::Result<Wanted> {
    let (url, weight) = line.split_once(char::is_whitespace).unwrap_or((line, "1"));
    let path = path_of(url);
    let weight = weight.trim().parse().with_context(|| format!("{weight:?} is no weight"))?;
    Ok(Wanted { path: path.into(), weight })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_a_path() {
        for (line, path, weight) in
            [("/a?b#c 2", "/a?b", 2.0), ("http://x/y#z", "/y", 1.0), ("http://x", "/", 1.0)]
        {
            assert_eq!(wanted(line).unwrap(), Wanted { path: path.into(), weight });
        }
    }

    #[test]
    fn an_index_of_sitemaps_is_no_sitemap() {
        let text = "<sitemapindex><sitemap><loc>http://x/a.xml</loc></sitemap></sitemapindex>";
        let error = sitemap(text, Path::new("s.xml")).unwrap_err().to_string();
        assert!(error.contains("index of sitemaps"), "{error}");
        assert_eq!(
            sitemap("<urlset><url><loc>http://x/a</loc></url></urlset>", Path::new("s")).unwrap().len(),
            1
        );
    }
}
