//! The inventory of per-rank sources, `docs/divergence.md`, is held to the code.

mod document;
mod doors;
mod scenario;
mod source;

use document::Row;
use doors::DOORS;
use source::Function;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Rows about parts that there are not yet. When one is built, its row gets a scenario and leaves this list.
const NOT_BUILT: [&str; 9] = [
    "directory-order",
    "store-names",
    "rate-limit",
    "idle-verdict",
    "flush-deadline",
    "readiness",
    "health-check",
    "speculation",
    "chunk-size",
];

/// A path in the repository.
fn path(of: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(of)
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(path("docs/divergence.md")).expect("docs/divergence.md is there");
    let rows = document::rows(&text);
    assert!(rows.len() > 50, "{} rows were read", rows.len());
    rows
}

fn functions() -> Vec<Function> {
    source::public_functions(&path("crates/isoradix-core/src"))
}

#[test]
fn every_row_has_a_class_an_alignment_and_a_name_of_its_own() {
    let mut ids = BTreeSet::new();
    for row in rows() {
        assert!(ids.insert(row.id.clone()), "{} is there twice", row.id);
        assert!(["PerRank", "Logical"].contains(&row.class.as_str()), "{}: class {}", row.id, row.class);
        let known = ["MIN", "leader", "start", "logical", "kept out", "ends the rank"];
        assert!(known.iter().any(|known| row.aligned.starts_with(known)), "{}: aligned {}", row.id, row.aligned);
    }
}

#[test]
fn every_row_has_a_scenario_that_exists() {
    let mut wrong = Vec::new();
    for row in rows() {
        let built = !NOT_BUILT.contains(&row.id.as_str());
        if row.scenarios.is_empty() && row.scenario == "not built yet" {
            wrong.extend(built.then(|| format!("{} is not built, and not listed as such", row.id)));
            continue;
        }
        wrong.extend((!built).then(|| format!("{} has a scenario, and is listed as not built", row.id)));
        wrong.extend(row.scenarios.is_empty().then(|| format!("{} has no scenario", row.id)));
        let missing = row.scenarios.iter().filter(|scenario| !scenario::exists(scenario, &path("")));
        wrong.extend(missing.map(|scenario| format!("{}: there is no {scenario}", row.id)));
    }
    let ids: BTreeSet<String> = rows().into_iter().map(|row| row.id).collect();
    wrong.extend(NOT_BUILT.iter().filter(|id| !ids.contains(**id)).map(|id| format!("{id} has no row")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A fault or a planted mistake that stands for no source would test nothing that this page promises.
#[test]
fn every_planted_mistake_is_a_rows_scenario() {
    let named: BTreeSet<String> = rows().into_iter().flat_map(|row| row.scenarios).collect();
    for defect in scenario::defects(&path("")) {
        assert!(named.contains(&format!("defect:{defect}")), "no row names defect:{defect}");
    }
}

#[test]
fn every_door_belongs_to_a_row() {
    let ids: BTreeSet<String> = rows().into_iter().map(|row| row.id).collect();
    for (name, row) in DOORS {
        assert!(ids.contains(*row), "{name} lets in {row}, of which there is no row");
    }
}

/// Whoever adds a function that takes a per-rank value, by its type, has to say what comes in by it.
#[test]
fn no_public_function_takes_a_per_rank_value_but_the_doors() {
    let doors: BTreeSet<&str> = DOORS.iter().map(|(name, _)| *name).collect();
    let typed: Vec<String> =
        functions().into_iter().filter(|function| function.takes_per_rank).map(|function| function.name).collect();
    assert!(typed.len() > 10, "{typed:?}");
    let is_listed = |name: &str| doors.contains(name) || name.starts_with("PerRank::");
    let unlisted: Vec<&String> = typed.iter().filter(|name| !is_listed(name)).collect();
    assert!(unlisted.is_empty(), "not in the table of doors: {unlisted:?}");
}

#[test]
fn the_table_of_doors_is_about_functions_that_there_are() {
    let all: BTreeSet<String> = functions().into_iter().map(|function| function.name).collect();
    for (name, _) in DOORS {
        assert!(all.contains(*name), "there is no public function {name}");
    }
}
