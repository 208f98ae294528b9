//! Host memory: what is written in each page, and for which operation.

use super::at;
use crate::request::Tag;
use crate::violation::{Wrong, ensure};
use isoradix_core::Ordinal;

/// Pages of one rank. The core hands them out; here is what copies find in them.
#[derive(Debug)]
pub(crate) struct HostMemory {
    page: usize,
    /// One a token; 0 for nothing.
    tags: Vec<Tag>,
    /// The operation that got the page last.
    writer: Vec<Option<Ordinal>>,
}

impl HostMemory {
    pub(crate) fn new(pages: u32, page: u32) -> Self {
        let pages = pages as usize;
        Self { page: page as usize, tags: vec![0; pages * page as usize], writer: vec![None; pages] }
    }

    /// The pages are an operation's to write from now on: what was in them is gone.
    pub(crate) fn claim(&mut self, pages: &[u32], operation: Ordinal) -> Result<(), Wrong> {
        for &page in pages {
            ensure((page as usize) < self.writer.len(), "memory", || format!("there is no host page {page}"))?;
            self.writer[page as usize] = Some(operation);
            self.tags(page).fill(0);
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, page: u32, operation: Ordinal, from: &[Tag]) -> Result<(), Wrong> {
        let writer = self.writer[page as usize];
        ensure(writer == Some(operation), "memory", || {
            let now = writer.map_or("nobody".to_owned(), |writer| format!("operation {writer}"));
            format!("operation {operation} writes host page {page}, which was given to {now}")
        })?;
        self.tags(page).copy_from_slice(from);
        Ok(())
    }

    /// What a copy reads.
    pub(crate) fn read(&self, page: u32, operation: Ordinal) -> Result<Vec<Tag>, Wrong> {
        let tags = self.look(page);
        ensure(!tags.contains(&0), "memory", || {
            format!("operation {operation} reads host page {page} before it was written, or after it was given away")
        })?;
        Ok(tags.to_vec())
    }

    pub(crate) fn look(&self, page: u32) -> &[Tag] {
        let from = at(page) * self.page;
        self.tags.get(from..from + self.page).unwrap_or_default()
    }

    fn tags(&mut self, page: u32) -> &mut [Tag] {
        let from = at(page) * self.page;
        &mut self.tags[from..from + self.page]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_its_last_claimers() {
        let mut host = HostMemory::new(4, 2);
        let [first, second] = [Ordinal(1), Ordinal(2)];
        host.claim(&[3], first).unwrap();
        assert!(host.read(3, first).is_err());
        host.write(3, first, &[5, 6]).unwrap();
        assert_eq!(host.read(3, second), Ok(vec![5, 6]));
        host.claim(&[3], second).unwrap();
        assert!(host.read(3, first).is_err() && host.write(3, first, &[5, 6]).is_err());
        assert!(host.claim(&[4], first).is_err());
    }
}
