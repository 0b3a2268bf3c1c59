//! Which lines the server logs, as `TOLLGATE_LOG` says.

use tracing_subscriber::EnvFilter;

/// The variable.
const NAME: &str = "TOLLGATE_LOG";

/// The levels, from few lines to many, and what of other libraries goes with each: their details are nobody's who
/// debugs Tollgate.
const LEVELS: [(&str, &str); 6] = [
    ("off", "off"),
    ("error", "error"),
    ("warn", "warn"),
    ("info", "info"),
    ("debug", "info"),
    ("trace", "info"),
];

/// The filter that the environment asks for. The error is a sentence.
pub(super) fn from_environment() -> Result<EnvFilter, String> {
    match std::env::var(NAME) {
        Ok(text) => read(&text),
        Err(std::env::VarError::NotPresent) => read(""),
        Err(std::env::VarError::NotUnicode(_)) => Err(format!("{NAME}: is not UTF-8")),
    }
}

fn read(text: &str) -> Result<EnvFilter, String> {
    let directives = directives(text)?;
    EnvFilter::builder().parse(directives).map_err(|error| {
        format!("{NAME}: `{text}` is not a list of directives such as tollgate=debug: {error}")
    })
}

/// A level alone is for Tollgate's own lines. Directives with a target stay as they are.
fn directives(text: &str) -> Result<String, String> {
    let given = || {
        text.split(',')
            .map(str::trim)
            .filter(|directive| !directive.is_empty())
    };
    let mut directives: Vec<String> = Vec::new();
    if given().next().is_none() {
        directives.push("info".to_owned());
    }
    // What sqlx has to say of a database that is unavailable, whoever asked it hears, and says once.
    if !given().any(|directive| directive.starts_with("sqlx")) {
        directives.push("sqlx=off".to_owned());
    }
    for directive in given() {
        let level = LEVELS
            .iter()
            .find(|(level, _)| level.eq_ignore_ascii_case(directive));
        match level {
            Some((level, others)) => {
                directives.push((*others).to_owned());
                directives.push(format!("tollgate={level}"));
            }
            None if directive.contains(['=', '[']) => directives.push(directive.to_owned()),
            None => {
                let levels = LEVELS.map(|(level, _)| level).join(", ");
                return Err(format!(
                    "{NAME}: `{directive}` is not a level ({levels}); for one part of the program write \
                     TARGET=LEVEL, such as tollgate::serve=debug"
                ));
            }
        }
    }
    Ok(directives.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_alone_is_for_tollgates_own_lines() {
        for (text, expected) in [
            ("", "info,sqlx=off"),
            ("info", "sqlx=off,info,tollgate=info"),
            ("DEBUG", "sqlx=off,info,tollgate=debug"),
            ("error", "sqlx=off,error,tollgate=error"),
            (
                "warn, tollgate::serve=trace",
                "sqlx=off,warn,tollgate=warn,tollgate::serve=trace",
            ),
            ("debug,sqlx=debug", "info,tollgate=debug,sqlx=debug"),
            ("tollgate=debug", "sqlx=off,tollgate=debug"),
        ] {
            assert_eq!(directives(text).as_deref(), Ok(expected), "{text}");
            assert!(read(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn what_is_no_level_is_named() {
        for (text, wrong) in [
            ("verbose", "`verbose`"),
            ("info,dbug", "`dbug`"),
            ("tollgate", "`tollgate`"),
            ("tollgate=loud", "`tollgate=loud`"),
        ] {
            let error = read(text).err().unwrap_or_default();
            assert!(
                error.starts_with("TOLLGATE_LOG: ") && error.contains(wrong),
                "{text}: {error}"
            );
        }
    }
}
