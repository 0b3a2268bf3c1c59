//! Warnings as people read them, below what a command has to say.

use std::fmt::Display;
use std::io::{self, Write};

use super::{HEADING, WARNING};

/// Prints warnings under a heading, or nothing. What others wrote must not steer the terminal that it is shown on.
pub(crate) fn print_warnings(
    out: &mut impl Write,
    warnings: impl Iterator<Item = impl Display>,
) -> io::Result<()> {
    for (index, warning) in warnings.enumerate() {
        if index == 0 {
            writeln!(out, "\n{HEADING}WARNINGS{HEADING:#}")?;
        }
        let shown = warning.to_string().replace(char::is_control, "\u{fffd}");
        writeln!(out, "{WARNING}!{WARNING:#} {shown}")?;
    }
    Ok(())
}
