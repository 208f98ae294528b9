//! Decisions upon a per-rank value, each of which must not compile.
//!
//! `TRYBUILD=overwrite cargo test -p isoradix-core --test provenance` writes the compiler's answers anew. Read them before they
//! are kept: each must speak of the very line for which the file is there.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // starts a compiler, and so itself, with a setting of its own

use std::env;
use std::process::Command;

/// Compiles as a release build does, in which a per-rank value has no `Debug`, and at the speed of a check.
const SETTING: (&str, &str) = ("CARGO_PROFILE_DEV_DEBUG_ASSERTIONS", "false");

#[test]
fn a_per_rank_value_does_not_decide() {
    if env::var(SETTING.0).is_ok_and(|value| value == SETTING.1) {
        trybuild::TestCases::new().compile_fail("tests/provenance/*.rs");
        return;
    }
    let this = env::current_exe().expect("a test is a program");
    let name = "a_per_rank_value_does_not_decide";
    let status = Command::new(this).args(["--exact", name, "--nocapture"]).env(SETTING.0, SETTING.1).status();
    assert!(status.expect("it runs again").success(), "the output above says which file compiled, or why");
}
