//! The command line: exit codes, and that what it prints repeats what it saw.

use std::process::{Command, Output, Stdio};

fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isoradix-sim")).args(arguments).output().expect("the simulator runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn clean_runs_end_with_0_and_say_how_many() {
    let output = simulate(&["--seeds", "3", "--ranks", "tp2,pp2", "--steps", "60"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output).starts_with("6 runs: "), "{}", text(&output));
    assert!(text(&output).contains(" rank-steps in "));
}

#[test]
fn decisions_say_what_was_decided() {
    let output = simulate(&["--family", "abort-storm", "--seeds", "2", "--ranks", "pp4"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output).contains("\n2000 requests, "), "{}", text(&output));
    let output = simulate(&["--family", "decisions", "--seed", "1", "--ranks", "pp2", "--json"]);
    assert!(text(&output).contains(",\"verdicts\":["), "{}", text(&output));
}

#[test]
fn json_is_one_line() {
    let output = simulate(&["--seed", "1", "--ranks", "pp2", "--steps", "40", "--json"]);
    assert_eq!((output.status.code(), text(&output).lines().count()), (Some(0), 1));
    assert!(text(&output).starts_with("{\"runs\":1,") && text(&output).ends_with("}\n"));
}

#[test]
fn a_violation_ends_with_1_and_its_command_repeats_it() {
    let output = simulate(&["--seed", "5", "--ranks", "tp2xpp2", "--steps", "100", "--corrupt", "2:12"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output);
    let command = said.lines().rfind(|line| line.contains("cargo run")).expect("a command");
    let (_, arguments) = command.split_once(" -- ").expect("arguments");
    let again = simulate(&arguments.split(' ').collect::<Vec<_>>());
    assert_eq!(again.status.code(), Some(1), "{arguments}");
    let found = |text: &str| text.lines().rfind(|line| line.starts_with("divergence")).map(str::to_owned);
    assert!(found(&said).is_some());
    assert_eq!(found(&said), found(&text(&again)));
}

#[test]
fn wrong_usage_ends_with_2() {
    for wrong in [&["--ranks", "tp1"][..], &["--seed", "x"], &["--keep-faults", "1..b"], &["--what"]] {
        assert_eq!(simulate(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_reader_that_goes_early_is_no_failure() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isoradix-sim"));
    command.args(["--seed", "1", "--ranks", "pp2", "--steps", "40", "--table"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the simulator runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn what_means_nothing_ends_with_2() {
    let wrong: [&[&str]; 14] = [
        &["--liar", "2", "--ranks", "tp2xdp2"],
        &["--domain", "1", "--ranks", "tp2"],
        &["--growth", "--ranks", "tp2"],
        &["--seeds", "0"],
        &["--seed", "18446744073709551615"],
        &["--steps", "18446744073709551615"],
        &["--keep-inputs", "5..2"],
        &["--keep-faults", "0..18446744073709551615"],
        &["--eviction", "bogus"],
        &["--corrupt", "99:0"],
        &["--json", "--table"],
        &["--family", "decisions", "--table"],
        &["--family", "decisions", "--liar", "1"],
        &["--family", "weather"],
    ];
    for arguments in wrong {
        assert_eq!(simulate(arguments).status.code(), Some(2), "{arguments:?}");
    }
}
