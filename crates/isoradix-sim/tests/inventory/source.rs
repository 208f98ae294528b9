//! The core's public functions, as its source declares them.

use std::path::Path;
use syn::visit::Visit;

/// A public function.
#[derive(Debug)]
pub(crate) struct Function {
    /// `Type::name`, or the name alone.
    pub(crate) name: String,
    /// Below `src`.
    pub(crate) file: String,
    /// Whether an argument's type names `PerRank`.
    pub(crate) takes_per_rank: bool,
    /// Whether something enters by it: it takes an argument, or changes what it is called on.
    pub(crate) enters: bool,
}

/// All of them, but for tests and for what is there only to plant mistakes.
pub(crate) fn public_functions(root: &Path) -> Vec<Function> {
    let mut found = Vec::new();
    walk(root, root, &mut found);
    assert!(found.len() > 200, "{} public functions were found", found.len());
    found
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<Function>) {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            walk(root, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("planted.rs") {
            let text = std::fs::read_to_string(&path).expect("a source");
            let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let file = path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned();
            items(&file, &parsed.items, found);
        }
    }
}

fn items(file: &str, items: &[syn::Item], found: &mut Vec<Function>) {
    for item in items {
        match item {
            syn::Item::Fn(function) if is_public(&function.vis) && !is_left_out(&function.attrs) => {
                found.push(declared(file, None, &function.sig));
            }
            syn::Item::Impl(block) if block.trait_.is_none() && !is_left_out(&block.attrs) => {
                let of = type_name(&block.self_ty);
                let functions = block.items.iter().filter_map(|item| match item {
                    syn::ImplItem::Fn(function) => Some(function),
                    _ => None,
                });
                let public = functions.filter(|function| is_public(&function.vis) && !is_left_out(&function.attrs));
                found.extend(public.map(|function| declared(file, Some(&of), &function.sig)));
            }
            syn::Item::Mod(module) if !is_left_out(&module.attrs) => {
                if let Some((_, inner)) = &module.content {
                    self::items(file, inner, found);
                }
            }
            _ => {}
        }
    }
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

/// Behind `cfg(test)` or the feature that plants mistakes.
fn is_left_out(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let tokens = list.tokens.to_string();
        tokens == "test" || tokens.starts_with("feature") && tokens.contains("planted-defects")
    })
}

fn type_name(of: &syn::Type) -> String {
    match of {
        syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default(),
        _ => String::new(),
    }
}

fn declared(file: &str, of: Option<&str>, signature: &syn::Signature) -> Function {
    let name = signature.ident.to_string();
    let (mut takes_per_rank, mut enters) = (false, false);
    for input in &signature.inputs {
        match input {
            syn::FnArg::Receiver(receiver) => {
                enters |= receiver.mutability.is_some();
                // Its own methods carry a per-rank value on, and let none in.
            }
            syn::FnArg::Typed(argument) => {
                enters = true;
                let mut names = PerRankInType(false);
                names.visit_type(&argument.ty);
                takes_per_rank |= names.0;
            }
        }
    }
    let name = of.map_or(name.clone(), |of| format!("{of}::{name}"));
    Function { name, file: file.to_owned(), takes_per_rank, enters }
}

/// Whether a type names `PerRank`.
struct PerRankInType(bool);

impl<'ast> Visit<'ast> for PerRankInType {
    fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
        self.0 |= segment.ident == "PerRank";
        syn::visit::visit_path_segment(self, segment);
    }
}
