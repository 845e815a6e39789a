//! How values are written that flags of several kinds have.

/// `PATH=VALUE`, where the path begins as paths do.
pub(super) fn of_path<'a>(text: &'a str, form: &str) -> Result<(&'a str, &'a str), String> {
    let (path, value) = text.rsplit_once('=').ok_or_else(|| format!("expected {form}"))?;
    if path.starts_with('/') { Ok((path, value)) } else { Err(format!("path {path:?}: must begin with /")) }
}
