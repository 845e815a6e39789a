//! What the tests over real processes have in common: the helper, and targets that it serves.

use std::path::PathBuf;

/// The helper, which Cargo builds beside the tests.
pub(crate) fn helper() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.parent().unwrap().parent().unwrap().join("examples/lab-test-helper")
}

/// The end of a plan: a file, and the helper's server in some modes, called by them.
pub(crate) fn served(modes: &[&str]) -> String {
    let mut plan = String::from("[[file]]\npath = \"x\"\nbytes = 2\n");
    for mode in modes {
        plan += &format!(
            "[[target]]\nname = \"{mode}\"\ncommand = [\"{{bin_dir}}/lab-test-helper\", \"serve\", \"{{port}}\", \"{mode}\"]\n"
        );
    }
    plan
}
