//! Where the file of a page is.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Bytes of the longest key of a sealed page.
pub const KEY_BYTES_MAX: usize = 64;

/// Bytes of the longest name that file systems take, without the ending.
const NAME_BYTES_MAX: usize = 255 - ENDING_RAW.len();

const ENDING_SEALED: &str = ".page";
const ENDING_RAW: &str = ".bin";
const PAGES: &str = "pages";

/// The folder of what has no name yet; what a crash leaves there is removed by its age.
pub(crate) const UNFINISHED: &str = "unfinished";

/// What a folder's files look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Ours: a page and its seal, in 256 folders, named by the key in hexadecimal.
    Sealed,
    /// Bytes alone, named by the key as text, as `SGLang`'s file store has them. What is read cannot be checked.
    Raw,
}

impl Layout {
    /// What a key may be, if this one is not.
    pub(crate) fn refuse(self, key: &[u8]) -> Option<&'static str> {
        match self {
            Self::Sealed if (1..=KEY_BYTES_MAX).contains(&key.len()) => None,
            Self::Sealed => Some("a key of this layout has 1 to 64"),
            Self::Raw if is_name(key) => None,
            Self::Raw => {
                Some("a key of this layout is a file's name: 1 to 251 of A-Z a-z 0-9 . _ - and not . in front")
            }
        }
    }

    /// The folder that the files are below.
    pub(crate) fn pages(self, root: &Path) -> PathBuf {
        match self {
            Self::Sealed => root.join(PAGES),
            Self::Raw => root.to_owned(),
        }
    }

    /// The file of a key that is not refused.
    pub(crate) fn path(self, root: &Path, key: &[u8]) -> PathBuf {
        match self {
            Self::Sealed => {
                let name = hex(key);
                let mut path = self.pages(root);
                path.push(&name[..2]);
                path.push(name + ENDING_SEALED);
                path
            }
            Self::Raw => root.join(format!("{}{ENDING_RAW}", String::from_utf8_lossy(key))),
        }
    }

    /// The key of a sealed file's name.
    pub(crate) fn key(name: &str) -> Option<Vec<u8>> {
        let digits = name.strip_suffix(ENDING_SEALED)?;
        if !digits.len().is_multiple_of(2) || digits.is_empty() || digits.len() > 2 * KEY_BYTES_MAX {
            return None;
        }
        let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let key: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect::<Option<_>>()?;
        (hex(&key) == digits).then_some(key)
    }

    /// Whether a file of a raw folder is a page.
    pub(crate) fn is_raw(name: &str) -> bool {
        name.strip_suffix(ENDING_RAW).is_some_and(|key| is_name(key.as_bytes()))
    }
}

fn is_name(key: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    (1..=NAME_BYTES_MAX).contains(&key.len()) && key[0] != b'.' && key.iter().all(plain)
}

fn hex(key: &[u8]) -> String {
    key.iter().fold(String::with_capacity(2 * key.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_key() {
        for key in [&[0][..], &[0xab, 0xcd, 7], &[0xff; KEY_BYTES_MAX]] {
            let path = Layout::Sealed.path(Path::new("r"), key);
            let name = path.file_name().unwrap().to_str().unwrap();
            assert_eq!(Layout::key(name).as_deref(), Some(key));
        }
        for name in ["", ".page", "a.page", "AB.page", "zz.page", "ab", "ab.bin", "+a.page"] {
            assert_eq!(Layout::key(name), None, "{name}");
        }
    }

    #[test]
    fn keys_that_are_refused() {
        for (layout, key, right) in [
            (Layout::Sealed, &b""[..], false),
            (Layout::Sealed, &[1; 64], true),
            (Layout::Sealed, &[1; 65], false),
            (Layout::Raw, b"ab_model_0_2", true),
            (Layout::Raw, b"../x", false),
            (Layout::Raw, b".x", false),
            (Layout::Raw, b"a/b", false),
            (Layout::Raw, b"a\0", false),
            (Layout::Raw, &[b'a'; 251], true),
            (Layout::Raw, &[b'a'; 252], false),
        ] {
            assert_eq!(layout.refuse(key).is_none(), right, "{layout:?} {key:?}");
        }
    }
}
