//! How a command ends that could not do what it was asked.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use super::ERROR;

/// Why it could not.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something is wrong with what it was given; the sentence says what.
    Wrong(String),
    /// What it says can't be written.
    Unwritten(io::Error),
}

impl From<String> for Failure {
    fn from(sentence: String) -> Self {
        Self::Wrong(sentence)
    }
}

/// Commands turn every other error into a sentence that names its file, so what is left is their own output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Unwritten(error)
    }
}

impl Failure {
    /// The same, with the place of what is wrong. What can't be written is no fault of any place's.
    pub(crate) fn at(self, place: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Wrong(sentence) => Self::Wrong(place(sentence)),
            unwritten @ Self::Unwritten(_) => unwritten,
        }
    }

    /// Says it in one sentence. Whoever has stopped reading has had enough, and is told nothing.
    pub(crate) fn report(self) -> ExitCode {
        let sentence = match self {
            Self::Wrong(sentence) => sentence,
            Self::Unwritten(error) if error.kind() == ErrorKind::BrokenPipe => return ExitCode::from(GONE),
            Self::Unwritten(error) => format!("the output can't be written: {error}"),
        };
        // There is nobody left to tell if this fails, too.
        let _ = writeln!(anstream::stderr(), "{ERROR}error:{ERROR:#} {sentence}");
        ExitCode::from(2)
    }
}

/// The code that shells give a program which a closed pipe has ended.
const GONE: u8 = 141;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wrong_has_a_place() {
        let place = |sentence: String| format!("file:3: {sentence}");
        let wrong = Failure::from("`at` is missing".to_owned()).at(place);
        assert!(matches!(wrong, Failure::Wrong(sentence) if sentence == "file:3: `at` is missing"));
        let unwritten = Failure::from(io::Error::from(ErrorKind::BrokenPipe)).at(place);
        assert!(matches!(unwritten, Failure::Unwritten(_)));
    }
}
