//! The page of an experiment: its findings, its charts, its tables and where it ran.

use super::chart::Chart;
use super::charts::charts;
use super::detail::Detail;
use super::format::{escape, intervals};
use super::page::{Page, list};
use super::tables;
use crate::results::Results;

/// What is between the heading and the command of it.
const BODY: &str = include_str!("../../assets/report.html");

/// Most bytes of a page.
const MOST: usize = 1_990_000;

/// The whole report as one HTML file of less than 2 MB; what it leaves out for that it says.
pub fn html(results: &Results) -> String {
    fitting(results, &charts(results, false))
}

/// The same with a surface beside each heat map.
pub fn html_with_surfaces(results: &Results) -> String {
    fitting(results, &charts(results, true))
}

/// The page with as much as there is room for.
fn fitting(results: &Results, charts: &[Chart]) -> String {
    let mut page = String::new();
    for detail in Detail::steps() {
        page = with_charts(results, charts, &detail);
        if page.len() <= MOST {
            break;
        }
    }
    page
}

fn with_charts(results: &Results, charts: &[Chart], detail: &Detail) -> String {
    let (name, started) = (escape(&results.name), escape(&results.started));
    let rows = charts.iter().map(|chart| chart.rows.len());
    let longest = rows.chain([results.cells.len(), tables::error_count(results)]).max().unwrap_or(0);
    let left_out = detail.left_out(longest, charts.len());
    let page = Page {
        eyebrow: &format!("Plimsoll lab &middot; {name} &middot; <time>{started}</time>"),
        title: &results.title,
        verdict: &results.verdict,
        charts: &charts[..charts.len().min(detail.charts)],
        rows: detail.rows,
        results: &detail.raw(results),
        plan: &results.plan,
        command: &results.command,
    };
    page.html(
        BODY,
        &[
            ("findings", &list(&results.findings)),
            ("budgets", &tables::budgets(results)),
            ("claims", &tables::claims(results)),
            ("left_out", &left_out.map_or_else(String::new, |text| format!("<p>{}</p>", escape(&text)))),
            ("intervals", &escape(&intervals(&results.cells))),
            ("cells", &tables::cells(results, detail.rows)),
            ("errors", &tables::errors(results, detail.rows)),
            ("environment", &tables::environment(results)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::key::CellKey;
    use crate::plan::Plan;
    use crate::results::{Cell, Run, SCHEMA};
    use crate::summary::summarise;

    /// A grid of 40 x 50 settings, three times, ten seconds each, of which every tenth failed.
    fn large() -> Results {
        let levels = |count: u32| (1..=count).map(|level| level.to_string()).collect::<Vec<_>>().join(", ");
        let text = format!(
            "title = \"t\"\nconnections = [100]\npaths = [\"/\"]\nduration_s = 10\n[factor]\nreactors = [{}]\nworkers = [{}]\n\
             [[target]]\nname = \"hybrid\"\nmodel = \"reactor\"\nargs = [\"{{reactors}}\", \"{{workers}}\"]\n",
            levels(40),
            levels(50)
        );
        let plan = Plan::parse(&text, "x.toml").unwrap();
        let mut results = fake::results(&[], 0, |_, _| (0.0, 0.0));
        for (at, key) in (0u32..).zip(plan.cells()) {
            let rate = f64::from(at) + 1e4;
            for round in 0..3 {
                let (mut outcome, server) = fake::measured(&key, rate + f64::from(round), 10.0);
                let second = |at_s| load::Second { at_s, requests: 12_345, ..load::Second::default() };
                outcome.timeline = (0..10).map(second).collect();
                let failure = ((at + round) % 10 == 9).then(|| "the server ended (signal: 9)".to_owned());
                results.runs.push(Run { round, failure, ..fake::run(key.clone(), (outcome, server)) });
            }
            results.cells.push(Cell { tied_best: at == 1_999, ..fake::cell(key, rate) });
        }
        results
    }

    #[test]
    fn a_page_of_thousands_of_runs_is_small_and_says_what_it_leaves_out() {
        let results = large();
        assert_eq!((results.runs.len(), results.cells.len()), (6_000, 2_000));
        for page in [html(&results), html_with_surfaces(&results)] {
            assert!(page.len() < 2_000_000, "{} bytes", page.len());
            assert!(page.contains("Left out, so that this page stays below 2 MB: "));
            assert!(page.contains("id=\"heat-0\"") && page.contains("more rows"));
            // The best is the last of its grid, and in the table all the same.
            assert!(page.contains("hybrid (reactors 40, workers 50) <b class=\"best\""));
        }
    }

    /// Source A's grid, of which a budget of time leaves most out.
    #[test]
    fn cells_that_were_not_measured_cost_a_page_no_charts() {
        let mut results = large();
        let measured: Vec<CellKey> = results.cells.drain(500..).map(|cell| cell.key).collect();
        results.runs.retain(|run| !measured.contains(&run.cell));
        let with_work = |work: u32| {
            let under = move |key: &CellKey| {
                let condition = [("work".to_owned(), format!("{work}us"))].into();
                CellKey { condition, ..key.clone() }
            };
            measured.iter().map(under).collect::<Vec<_>>()
        };
        results.unmeasured = (0..18).flat_map(with_work).collect();
        assert_eq!((results.cells.len(), results.unmeasured.len()), (500, 27_000));
        let page = html(&results);
        assert!(page.len() < 2_000_000, "{} bytes", page.len());
        assert!(page.contains("id=\"heat-0\"") && page.contains("what was not measured in the raw figures"));
    }

    #[test]
    fn a_page_of_a_few_runs_has_all_of_them_with_their_seconds() {
        let mut results = fake::results(&["a", "b"], 3, |_, round| (1_000.0 + f64::from(round), 10.0));
        let second = load::Second { requests: 7_654_321, ..load::Second::default() };
        results.runs[5].outcome.as_mut().unwrap().timeline.push(second);
        summarise(&mut results, &fake::plan(&["a", "b"], ""));
        let page = html(&results);
        assert!(
            page.contains(SCHEMA) && page.contains("7654321") && !page.contains("Left out"),
            "{}",
            page.len()
        );
    }
}
