//! The record of what a driver did wrong.

/// Things that a real card answers by stopping a queue, or that no driver may do. Kept to the first hundred.
#[derive(Debug, Default)]
pub(crate) struct Violations {
    list: Vec<String>,
}

impl Violations {
    pub fn record(&mut self, what: String) {
        if self.list.len() < 100 {
            self.list.push(what);
        }
    }

    pub fn list(&self) -> &[String] {
        &self.list
    }
}
