//! Flags of the site: which files are served, and what is said about them.

use std::path::Path;

use anyhow::Context;
use bytesize::ByteSize;
use engine::Topology;
use server::app::site::{CacheRule, Compression, ErrorPage, ExtraField, charset, site_path};
use server::app::{Beneath, Links, Root, Site, SiteSettings};

use super::sandbox::Sandbox;

/// Which files are served, and what is said about them.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Site")]
pub(super) struct SiteFlags {
    /// File that is served for a directory; may be given more than once, the first that is there counts
    #[arg(long, value_name = "NAME", default_value = "index.html")]
    index: Vec<String>,
    /// List what is in directories without such a file, as HTML, or JSON for clients that ask for it
    #[arg(long)]
    listing: bool,
    /// Page that stands in for pages that are not there, with status 200, for applications that run in the browser; not
    /// for paths whose last part has a dot
    #[arg(long, value_name = "PATH", value_parser = site_path)]
    fallback: Option<String>,
    /// Page to send with an error of the site (400, 403 to 406, 412, 416, 500, 501, 503): 404=/missing.html; may be given more
    /// than once
    #[arg(long, value_name = "STATUS=PATH")]
    error_page: Vec<ErrorPage>,
    /// Cache-Control of files whose path matches: '/assets/*=max-age=31536000, immutable'; * stands for anything, ? for
    /// one character; may be given more than once, the first that matches counts
    #[arg(long, value_name = "PATTERN=VALUE")]
    cache_control: Vec<CacheRule>,
    /// Field that every answer of the site has: 'X-Frame-Options: DENY'; may be given more than once
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<ExtraField>,
    /// Charset of all text of the site; none if files say it themselves, as <meta charset> does
    #[arg(long, value_name = "NAME", default_value = "utf-8", value_parser = charset)]
    charset: String,
    /// Symbolic links: followed within the directory, never, or wherever they lead
    #[arg(long, value_enum, value_name = "POLICY", default_value = "within")]
    symlinks: Symlinks,
    /// Have the kernel (Landlock) keep this process from all files but the directory and those in the directories of its log
    /// and pid file, from TCP connections to others, and from signals to them
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub(super) sandbox: Sandbox,
    /// Serve also what begins with a dot (.well-known always is)
    #[arg(long)]
    dotfiles: bool,
    /// Smallest file to compress on the fly
    #[arg(long, value_name = "SIZE", default_value = "1KiB")]
    compress_min: ByteSize,
    /// Largest file to compress on the fly, at most 64MiB; 0 for none. Files compressed beforehand (.zst, .br, .gz beside
    /// them) are sent in any case
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    compress_max: ByteSize,
    /// Memory for small files and compressed ones, over all threads
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    cache: ByteSize,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Symlinks {
    /// As long as they stay within the directory
    Within,
    /// None is followed
    Deny,
    /// Wherever they lead, also outside
    Follow,
}

/// Compressing more than that at once would hold up a thread for seconds.
const MOST_COMPRESSED: ByteSize = ByteSize(64 << 20);

impl SiteFlags {
    /// Opens the site that a topology will serve.
    pub(super) fn open(&self, dir: &Path, topology: &Topology) -> anyhow::Result<Site> {
        anyhow::ensure!(
            self.compress_max <= MOST_COMPRESSED,
            "--compress-max {}: must be at most {MOST_COMPRESSED}",
            self.compress_max
        );
        anyhow::ensure!(
            self.compress_max.0 == 0 || self.compress_min <= self.compress_max,
            "--compress-min {}: must not be more than --compress-max ({})",
            self.compress_min,
            self.compress_max
        );
        for index in &self.index {
            anyhow::ensure!(
                !index.is_empty() && !index.contains('/'),
                "--index {index:?}: must be the name of a file, without /"
            );
        }
        let links = match self.symlinks {
            Symlinks::Within => Links::Within,
            Symlinks::Deny => Links::Deny,
            Symlinks::Follow => Links::Follow,
        };
        let root = Root::open(dir, links)
            .with_context(|| format!("cannot serve {}: give a readable directory", dir.display()))?;
        Ok(Site::new(root, self.settings(topology)))
    }

    fn settings(&self, topology: &Topology) -> SiteSettings {
        let at_once = engine::host::Cores::detect().usable().div_ceil(2);
        let bounds = Compression { min: self.compress_min.0, max: self.compress_max.0, at_once };
        SiteSettings {
            index: self.index.clone(),
            listing: self.listing,
            dotfiles: self.dotfiles,
            fallback: self.fallback.clone(),
            error_pages: self.error_page.clone(),
            cache_rules: self.cache_control.clone(),
            extra_fields: self.header.iter().flat_map(ExtraField::line).copied().collect(),
            charset: (self.charset != "none").then(|| self.charset.clone()),
            compression: (self.compress_max.0 > 0).then_some(bounds),
            memory: usize::try_from(self.cache.0).unwrap_or(usize::MAX),
            threads: topology.handlers(),
        }
    }
}

/// What keeps the files of a site within it, and how.
pub(super) fn kept_by(root: &Root) -> (&'static str, &'static str) {
    match (root.beneath(), root.links()) {
        (Beneath::Kernel, Links::Deny) => {
            ("beneath the root, no links", "by the kernel (openat2, RESOLVE_NO_SYMLINKS)")
        }
        (Beneath::Kernel, _) => ("beneath the root", "by the kernel (openat2, RESOLVE_BENEATH)"),
        (Beneath::Walk, _) => {
            ("beneath the root", "by following no symbolic links: openat2 is not to be had here")
        }
        (Beneath::Nothing, _) => ("wherever links lead", "--symlinks follow"),
    }
}
