//! Whether a scenario exists.

use isoradix_sim::FaultKind;
use std::path::Path;

/// A fault, a planted mistake, or a test by its file and name.
pub(crate) fn exists(scenario: &str, root: &Path) -> bool {
    if let Some(fault) = scenario.strip_prefix("fault:") {
        return FaultKind::ALL.iter().any(|kind| kind.as_str() == fault);
    }
    if let Some(defect) = scenario.strip_prefix("defect:") {
        return defects(root).iter().any(|name| name == defect);
    }
    let Some((file, name)) = scenario.split_once("::") else { return false };
    let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
    let rust = || text.contains(&format!("#[test]\nfn {name}(")) || text.contains(&format!("#[test]\n    fn {name}("));
    name.starts_with("test_") && text.contains(&format!("\ndef {name}(")) || rust()
}

/// The names of the mistakes that can be planted, out of their source: without the feature there is no such type.
pub(crate) fn defects(root: &Path) -> Vec<String> {
    let source = root.join("crates/isoradix-core/src/defects.rs");
    let text = std::fs::read_to_string(source).expect("the defects are there");
    let (_, names) = text.split_once("fn as_str").expect("they have names");
    let (names, _) = names.split_once("\n    }\n").expect("the function ends");
    let names: Vec<String> = names.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(names.len() >= 16, "{names:?}");
    names
}
