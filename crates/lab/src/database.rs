//! The results of an experiment as a SQLite database (docs/experiments.md has its schema), each run in a transaction of its
//! own: what is killed, or finds the disk full, loses the run under way and no more.

use std::collections::BTreeSet;
use std::path::Path;

use load::Outcome;
use load::capacity::Capacity;
use load::sample::ServerUse;
use rusqlite::{Connection, Transaction, params};

use crate::results::{Results, Run};

/// Version of the schema.
pub(crate) const VERSION: i32 = 3;

const SCHEMA: &str = "
    CREATE TABLE experiment (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE environment (name TEXT NOT NULL, value TEXT NOT NULL);
    CREATE TABLE run (
        id INTEGER PRIMARY KEY,
        round INTEGER NOT NULL, position INTEGER NOT NULL,
        target TEXT NOT NULL, setting TEXT NOT NULL, condition TEXT NOT NULL,
        connections INTEGER NOT NULL, path TEXT NOT NULL, close INTEGER NOT NULL,
        verdict TEXT NOT NULL, reasons TEXT NOT NULL, failure TEXT,
        duration_s REAL, requests INTEGER, requests_per_second REAL, errors INTEGER,
        p50_us INTEGER, p90_us INTEGER, p99_us INTEGER, p99_9_us INTEGER, max_us INTEGER, mean_us REAL,
        response_time_histogram TEXT,
        client_cpu_us_per_request REAL, server_cpu_us_per_request REAL, server_peak_rss_bytes INTEGER,
        voluntary_switches INTEGER, involuntary_switches INTEGER,
        outcome TEXT, beside TEXT
    );
    CREATE TABLE search (
        run INTEGER PRIMARY KEY REFERENCES run (id),
        clients INTEGER NOT NULL, at_least INTEGER NOT NULL, confirmed INTEGER NOT NULL,
        below INTEGER, reason TEXT NOT NULL, probes TEXT NOT NULL
    );
    CREATE TABLE second (
        run INTEGER NOT NULL REFERENCES run (id), at_s INTEGER NOT NULL,
        requests INTEGER NOT NULL, errors INTEGER NOT NULL,
        p50_us INTEGER NOT NULL, p99_us INTEGER NOT NULL, max_us INTEGER NOT NULL, histogram TEXT NOT NULL,
        PRIMARY KEY (run, at_s)
    );
    CREATE TABLE moment (
        run INTEGER NOT NULL REFERENCES run (id), at_s REAL NOT NULL,
        cores REAL NOT NULL, rss_bytes INTEGER NOT NULL, descriptors INTEGER NOT NULL,
        voluntary_per_second REAL NOT NULL, involuntary_per_second REAL NOT NULL, workers INTEGER NOT NULL
    );
";

/// The database of one experiment.
pub(crate) struct Database(Connection);

impl Database {
    /// Opens it, and makes its tables if it is new. Only one of [`VERSION`] can be written.
    ///
    /// # Errors
    /// It cannot be written, or is another's.
    pub(crate) fn open(file: &Path) -> rusqlite::Result<Self> {
        let database = Database(Connection::open(file)?);
        if database.version()? == 0 {
            let make = format!("BEGIN; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;");
            database.0.execute_batch(&make)?;
        }
        Ok(database)
    }

    /// The version of its schema.
    pub(crate) fn version(&self) -> rusqlite::Result<i32> {
        self.0.query_row("PRAGMA user_version", [], |row| row.get(0))
    }

    /// The numbers of the runs that it has, each of them whole.
    pub(crate) fn runs(&self) -> rusqlite::Result<BTreeSet<i64>> {
        let mut asked = self.0.prepare("SELECT id FROM run")?;
        let rows = asked.query_map([], |row| row.get(0))?;
        rows.collect()
    }

    /// Keeps a run under its number; one that is there already is put in its place.
    pub(crate) fn keep_run(&mut self, number: usize, run: &Run) -> rusqlite::Result<()> {
        let id = number as i64;
        let transaction = self.0.transaction()?;
        forget(&transaction, id)?;
        put_run(&transaction, id, run)?;
        if let Some(outcome) = &run.outcome {
            put_seconds(&transaction, id, outcome)?;
        }
        if let Some(found) = &run.search {
            put_search(&transaction, id, found)?;
        }
        if let Some(server) = &run.server {
            put_moments(&transaction, id, server)?;
        }
        transaction.commit()
    }

    /// Forgets a run, if it is there.
    pub(crate) fn forget_run(&mut self, id: i64) -> rusqlite::Result<()> {
        let transaction = self.0.transaction()?;
        forget(&transaction, id)?;
        transaction.commit()
    }

    /// Keeps what belongs to the whole experiment.
    pub(crate) fn keep(&mut self, results: &Results) -> rusqlite::Result<()> {
        let transaction = self.0.transaction()?;
        transaction.execute_batch("DELETE FROM experiment; DELETE FROM environment;")?;
        let Results { name, title, question, command, started, plan, seed, verdict, .. } = results;
        for (key, value) in [
            ("name", name.clone()),
            ("title", title.clone()),
            ("question", question.clone()),
            ("command", command.clone()),
            ("started", started.clone()),
            ("plan", plan.clone()),
            ("seed", seed.to_string()),
            ("verdict", verdict.word().into()),
            ("reasons", verdict.reasons().join("\n")),
            ("findings", results.findings.join("\n")),
        ] {
            transaction.execute("INSERT INTO experiment VALUES (?1, ?2)", params![key, value])?;
        }
        for (name, value) in &results.environment {
            transaction.execute("INSERT INTO environment VALUES (?1, ?2)", params![name, value])?;
        }
        transaction.commit()
    }
}

fn json(value: &impl serde::Serialize) -> String {
    // Plain structs with string keys always serialise.
    serde_json::to_string(value).unwrap_or_default()
}

fn forget(transaction: &Transaction<'_>, id: i64) -> rusqlite::Result<()> {
    let mut tables = ["second WHERE run", "moment WHERE run", "search WHERE run", "run WHERE id"].iter();
    tables.try_for_each(|table| transaction.execute(&format!("DELETE FROM {table} = ?1"), [id]).map(|_| ()))
}

fn put_run(transaction: &Transaction<'_>, id: i64, run: &Run) -> rusqlite::Result<()> {
    let key = &run.cell;
    transaction.execute(
        "INSERT INTO run (id, round, position, target, setting, condition, connections, path, close, verdict, reasons, \
         failure, beside) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        params![
            id,
            run.round,
            run.position,
            key.target,
            json(&key.setting),
            json(&key.condition),
            key.connections,
            key.path,
            key.close,
            run.verdict.word(),
            run.verdict.reasons().join("\n"),
            run.failure,
            run.beside.as_ref().map(json),
        ],
    )?;
    if let Some(outcome) = &run.outcome {
        let times = &outcome.response_time_us;
        transaction.execute(
            "UPDATE run SET duration_s = ?2, requests = ?3, requests_per_second = ?4, errors = ?5, p50_us = ?6, p90_us = ?7, \
             p99_us = ?8, p99_9_us = ?9, max_us = ?10, mean_us = ?11, response_time_histogram = ?12, \
             client_cpu_us_per_request = ?13, outcome = ?14 WHERE id = ?1",
            params![
                id,
                outcome.duration_s,
                outcome.requests as i64,
                outcome.requests_per_second,
                outcome.errors.total() as i64,
                times.p50.map(|us| us as i64),
                times.p90.map(|us| us as i64),
                times.p99.map(|us| us as i64),
                times.p99_9.map(|us| us as i64),
                times.max as i64,
                times.mean,
                outcome.response_time_histogram,
                outcome.client.cpu_us_per_request,
                json(outcome),
            ],
        )?;
    }
    if let Some(server) = &run.server {
        transaction.execute(
            "UPDATE run SET server_cpu_us_per_request = ?2, server_peak_rss_bytes = ?3, voluntary_switches = ?4, \
             involuntary_switches = ?5 WHERE id = ?1",
            params![
                id,
                server.cpu_us_per_request,
                server.peak_rss_bytes as i64,
                server.voluntary_switches as i64,
                server.involuntary_switches as i64,
            ],
        )?;
    }
    Ok(())
}

fn put_search(transaction: &Transaction<'_>, id: i64, found: &Capacity) -> rusqlite::Result<()> {
    let below = found.below.map(|below| below as i64);
    let (clients, at_least, probes) = (found.at_least as i64, found.is_lower_bound(), json(&found.probes));
    let insert = "INSERT INTO search VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    transaction
        .execute(insert, params![id, clients, at_least, found.confirmed, below, found.reason, probes])?;
    Ok(())
}

fn put_seconds(transaction: &Transaction<'_>, id: i64, outcome: &Outcome) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare("INSERT INTO second VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    for second in &outcome.timeline {
        insert.execute(params![
            id,
            second.at_s as i64,
            second.requests as i64,
            second.errors as i64,
            second.p50_us as i64,
            second.p99_us as i64,
            second.max_us as i64,
            second.histogram,
        ])?;
    }
    Ok(())
}

fn put_moments(transaction: &Transaction<'_>, id: i64, server: &ServerUse) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare("INSERT INTO moment VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    for moment in &server.moments {
        insert.execute(params![
            id,
            moment.at_s,
            moment.cores,
            moment.rss_bytes as i64,
            moment.descriptors as i64,
            moment.voluntary_per_second,
            moment.involuntary_per_second,
            moment.workers as i64,
        ])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn runs_are_there_to_be_asked_for_and_once_only() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("results.sqlite");
        let results =
            fake::results(&["a", "b"], 3, |target, _| (if target == "a" { 2000.0 } else { 1000.0 }, 10.0));
        let mut database = Database::open(&file).unwrap();
        for (number, run) in results.runs.iter().enumerate() {
            database.keep_run(number, run).unwrap();
        }
        drop(database);
        // Opened again, as when an experiment is gone on with.
        let mut database = Database::open(&file).unwrap();
        database.keep_run(5, &results.runs[5]).unwrap();
        database.keep(&results).unwrap();
        let rates: Vec<(String, i64, f64)> = {
            let ask =
                "SELECT target, count(*), avg(requests_per_second) FROM run GROUP BY target ORDER BY target";
            let mut asked = database.0.prepare(ask).unwrap();
            let rows = asked.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
            rows.collect::<Result<_, _>>().unwrap()
        };
        assert_eq!(rates, [("a".into(), 3, 2000.0), ("b".into(), 3, 1000.0)]);
        let title: String = database
            .0
            .query_row("SELECT value FROM experiment WHERE name = 'title'", [], |row| row.get(0))
            .unwrap();
        assert_eq!(title, "A fake");
    }

    #[test]
    fn a_full_disk_is_an_error_and_loses_nothing_that_was_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("results.sqlite");
        let results = fake::results(&["a"], 3, |_, _| (1000.0, 10.0));
        let mut database = Database::open(&file).unwrap();
        database.keep_run(0, &results.runs[0]).unwrap();
        // As large as it is, and not a page more.
        let pages: i64 = database.0.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        let limit: i64 =
            database.0.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| row.get(0)).unwrap();
        assert_eq!(limit, pages);
        let mut large = results.runs[1].clone();
        large.failure = Some("x".repeat(100_000));
        assert!(database.keep_run(1, &large).is_err());
        let kept: i64 = database.0.query_row("SELECT count(*) FROM run", [], |row| row.get(0)).unwrap();
        assert_eq!(kept, 1);
    }
}
