//! How a command ends when it does not end well.

use std::fmt;

/// One line for a person, and whose fault it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// What was asked for can't be done: exit status 2.
    Usage(String),
    /// It was begun and went wrong: exit status 1.
    Run(String),
}

impl Failure {
    /// What was asked for can't be done.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// It was begun and went wrong.
    pub fn run(message: impl Into<String>) -> Self {
        Self::Run(message.into())
    }

    /// The exit status.
    pub fn status(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Run(_) => 1,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Run(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Failure {}
