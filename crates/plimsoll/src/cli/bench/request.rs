//! What each request of a load is, beside what it asks for.

use std::fs;

use anyhow::Context;
use load::Plan;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct RequestFlags {
    /// Content of each request, or with @ the file that has it; the method is POST then, unless it is given
    #[arg(long, value_name = "TEXT|@FILE", default_value = "")]
    body: String,
    /// Request method [default: GET]
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
    /// Request field, `Name: value`; may be given several times
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = parse_field)]
    headers: Vec<(String, String)>,
}

fn parse_field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("must be of the form Name: value")?;
    Ok((name.trim().into(), value.trim().into()))
}

impl RequestFlags {
    /// A plan with such requests.
    ///
    /// # Errors
    /// The file with the content cannot be read.
    pub(in crate::cli) fn of(&self, plan: Plan) -> anyhow::Result<Plan> {
        let body = match self.body.strip_prefix('@') {
            Some(file) => fs::read_to_string(file).with_context(|| format!("cannot read --body {file}"))?,
            None => self.body.clone(),
        };
        let usual = if body.is_empty() { "GET" } else { "POST" };
        let method = self.method.clone().unwrap_or_else(|| usual.into());
        Ok(Plan { body, method, fields: self.headers.clone(), ..plan })
    }
}
