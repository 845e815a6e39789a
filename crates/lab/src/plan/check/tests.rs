//! What is refused of a plan, and with what words.

use crate::plan::Plan;

const SOUND: &str = r#"title = "t"
connections = [1, 8]
paths = ["/"]
duration_s = 1
rounds = 3
[[target]]
name = "a"
model = "reactor"
[[target]]
name = "b"
command = ["b", "{port}"]
[[budget]]
target = "a"
against = "b"
metric = "requests_per_second"
at_least = 1
[quick]
duration_s = 0.1
"#;

/// The message for the sound plan with one thing changed.
fn with(from: &str, to: &str) -> String {
    let changed = SOUND.replacen(from, to, 1);
    assert_ne!(changed, SOUND, "{from:?} is not in the plan");
    Plan::parse(&changed, "x.toml").map_or_else(|error| error.to_string(), |_| "nothing".into())
}

/// Each change of the sound plan is refused with its message.
fn assert_refused(changes: &[(&str, &str, &str)]) {
    for (from, to, message) in changes {
        assert_eq!(with(from, to), format!("x.toml: {message}"));
    }
}

#[test]
fn the_plan_that_the_others_are_made_from_is_sound() {
    Plan::parse(SOUND, "x.toml").unwrap();
}

#[test]
fn keys_and_types_are_explained_with_their_line() {
    assert_refused(&[
        ("connections", "conections", "line 2: unknown key \"conections\"; did you mean \"connections\"?"),
        ("model", "mode", "line 8: unknown key \"mode\"; did you mean \"model\"?"),
        (
            "duration_s = 0.1",
            "durations = 1",
            "line 18: unknown key \"durations\"; did you mean \"duration_s\"?",
        ),
        ("rounds = 3", "rounds = \"3\"", "line 5: invalid type: string \"3\", expected u32: rounds = \"3\""),
        ("rounds = 3", "rounds = -1", "line 5: invalid value: integer `-1`, expected u32: rounds = -1"),
        ("title = \"t\"\n", "", "line 1: the key \"title\" is missing"),
        (
            "\"requests_per_second\"",
            "\"request_per_second\"",
            "line 15: unknown value \"request_per_second\"; did you mean \"requests_per_second\"?",
        ),
    ]);
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line() {
    assert_refused(&[
        ("[1, 8]", "[]", "line 2: connections is empty, so there is nothing to run: give at least one"),
        ("[1, 8]", "[0]", "line 2: connections must be at least 1"),
        ("[1, 8]", "[8, 8]", "line 2: connections has 8 twice"),
        ("[\"/\"]", "[\"x\"]", "line 3: path \"x\": must begin with /"),
        ("duration_s = 1\n", "duration_s = 0\n", "line 4: duration_s must be 0.05 to 86400 seconds, not 0"),
        (
            "duration_s = 1\n",
            "duration_s = nan\n",
            "line 4: duration_s must be 0.05 to 86400 seconds, not NaN",
        ),
        ("rounds = 3", "rounds = 0", "line 5: rounds must be at least 1"),
        ("name = \"b\"", "name = \"a\"", "line 10: two targets are called \"a\": give each its own name"),
        (
            "name = \"a\"",
            "name = \"../a\"",
            "line 6: target \"../a\": a name is letters, digits, spaces, - _ + and inner dots",
        ),
        ("model = \"reactor\"\n", "", "line 6: target \"a\": give either a model or a command"),
        (
            "[\"b\", \"{port}\"]",
            "[\"b\"]\nargs = [\"-x\"]",
            "line 9: target \"b\": args go with a model; write them into the command",
        ),
        (
            "{port}",
            "{prot}",
            "line 9: target \"b\": nothing is known to fill in for {prot}; did you mean \"port\"?",
        ),
        (
            "\"{port}\"]",
            "\"x\"]\nconfig = { \"../x\" = \"\" }",
            "line 9: target \"b\": config \"../x\" must be the name of a file, without a directory",
        ),
        (
            "[quick]",
            "[[file]]\npath = \"../x\"\nbytes = 1\n[quick]",
            "line 18: file \"../x\": must be a path below the root, such as \"a/b.html\"",
        ),
    ]);
}

#[test]
fn what_is_too_much_is_refused_with_its_line() {
    assert_refused(&[
        (
            "rounds = 3",
            "rounds = 1_000_000_000",
            "line 5: 4 cells in 1000000000 rounds are 4000000000 runs: 1000000 at most",
        ),
        (
            "[quick]",
            "[quick]\nrounds = 4_000_000_000",
            "line 18: 4 cells in 4000000000 rounds are 16000000000 runs: 1000000 at most",
        ),
        (
            "[quick]",
            "[stop]\nwithin = \"3%\"\nmost_rounds = 2_000_000_000\n[quick]",
            "line 19: 4 cells in 2000000000 rounds are 8000000000 runs: 1000000 at most",
        ),
        ("rounds = 3", "rounds = 3\nthreads = 4_000_000_000", "line 6: threads must be at most 1024"),
        (
            "[quick]",
            "[[file]]\npath = \"x\"\nbytes = 1_000_000_000_000_000\n[quick]",
            "line 19: file \"x\": all files together may have 10737418240 bytes at most",
        ),
    ]);
}

#[test]
fn a_grid_may_be_that_of_source_a_in_twenty_rounds_and_not_exhaust_memory() {
    let levels = |count: u32| (1..=count).map(|level| level.to_string()).collect::<Vec<_>>().join(", ");
    let grid = |counts: [u32; 4]| {
        let [a, b, c, d] = counts.map(levels);
        let factors = format!("[factor]\na = [{a}]\nb = [{b}]\nc = [{c}]\nd = [{d}]\n[[target]]");
        let text = SOUND.replacen("[[target]]", &factors, 1).replacen("rounds = 3", "rounds = 20", 1);
        let args = "model = \"reactor\"\nargs = [\"{a}{b}{c}{d}\"]";
        let text = text.replacen("model = \"reactor\"", args, 1).replacen("[1, 8]", "[8]", 1);
        Plan::parse(&text, "x.toml").map(|plan| plan.cells().len()).map_err(|error| error.to_string())
    };
    assert_eq!(grid([50, 50, 11, 1]), Ok(27_501));
    let why = "x.toml: line 6: the grid has 100000001 cells: 100000 at most, so leave levels of factors out";
    assert_eq!(grid([100; 4]), Err(why.into()));
    assert!(
        grid([60, 50, 11, 2])
            .unwrap_err()
            .ends_with(" 66001 cells in 20 rounds are 1320020 runs: 1000000 at most")
    );
}

#[test]
fn the_quick_form_is_checked_too_and_before_anything_runs() {
    assert_eq!(
        with("duration_s = 0.1", "connections = []"),
        "x.toml: line 18: connections is empty, so there is nothing to run: give at least one"
    );
}

#[test]
fn budgets_must_be_about_something() {
    assert_refused(&[
        (
            "against = \"b\"",
            "against = \"bb\"",
            "line 14: a budget names the target \"bb\", which is not there; did you mean \"b\"?",
        ),
        ("against = \"b\"", "against = \"a\"", "line 14: a budget compares \"a\" with itself"),
        ("at_least = 1\n", "", "line 12: the budget of \"a\" has neither at_most nor at_least"),
        ("at_least = 1\n", "at_least = -1\n", "line 12: the budget of \"a\" must have bounds of 0 or more"),
        (
            "at_least = 1\n",
            "at_least = 1\nconnections = 9\n",
            "line 17: a budget is for 9 connections, which no cell has",
        ),
    ]);
}
