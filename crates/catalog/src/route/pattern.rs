//! Patterns of routes, as policies and endpoint classes name them.

use std::fmt;

use super::endpoint::Endpoint;

/// Which routes a policy is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Pattern {
    /// Every request, with an endpoint or without.
    #[default]
    Any,
    /// The routes of a class.
    Class(String),
    /// A method, or any, and a path.
    Route(Route),
}

/// A method and the segments of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Route {
    /// The method in capitals; `None` for any.
    pub method: Option<String>,
    /// The segments.
    pub segments: Vec<Segment>,
    /// Whether zero or more segments may follow.
    pub open: bool,
}

/// One segment of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Segment {
    /// This very text, lowered.
    Text(String),
    /// Any one segment; the name is for people.
    Param(String),
}

impl Pattern {
    /// Reads `*`, `class:NAME` or `[METHOD ]/path`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if let Some(class) = text.strip_prefix("class:") {
            crate::model::check_id(class).map_err(|problem| format!("the class's name {problem}"))?;
            return Ok(Self::Class(class.to_owned()));
        }
        Route::parse(text).map(Self::Route)
    }

    /// Whether it is for every request.
    pub fn is_any(&self) -> bool {
        *self == Self::Any
    }
}

impl Route {
    fn parse(text: &str) -> Result<Self, String> {
        let (path, open) = match text.strip_suffix("/*") {
            Some(path) if path.is_empty() || path.ends_with(' ') => (format!("{path}/"), true),
            Some(path) => (path.to_owned(), true),
            None => (text.to_owned(), false),
        };
        let endpoint = Endpoint::parse(&path).map_err(|problem| format!("`{text}` {problem}"))?;
        let mut segments = Vec::new();
        for segment in endpoint.segments() {
            let segment = std::str::from_utf8(segment).map_err(|_| format!("`{text}` is not UTF-8"))?;
            segments.push(match segment.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
                Some(name) if !name.is_empty() && !name.contains(['{', '}']) => Segment::Param(name.to_owned()),
                None if !segment.contains(['{', '}', '*']) => Segment::Text(segment.to_owned()),
                _ => return Err(format!("`{text}` has the segment `{segment}`: `{{name}}` stands for a whole segment, `*` for the last ones")),
            });
        }
        Ok(Self {
            method: endpoint.method().map(str::to_owned),
            segments,
            open,
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Class(class) => write!(f, "class:{class}"),
            Self::Route(route) => route.fmt(f),
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(method) = &self.method {
            write!(f, "{method} ")?;
        }
        for segment in &self.segments {
            match segment {
                Segment::Text(text) => write!(f, "/{text}")?,
                Segment::Param(name) => write!(f, "/{{{name}}}")?,
            }
        }
        match (self.open, self.segments.is_empty()) {
            (true, _) => f.write_str("/*"),
            (false, true) => f.write_str("/"),
            (false, false) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_shows_patterns() {
        for (text, shown) in [
            ("*", "*"),
            ("class:heavy", "class:heavy"),
            ("POST /records", "POST /records"),
            ("post /Records/", "POST /records"),
            ("/users/{id}/posts", "/users/{id}/posts"),
            ("GET /files/*", "GET /files/*"),
            ("/*", "/*"),
            ("GET /*", "GET /*"),
            ("/", "/"),
        ] {
            assert_eq!(
                Pattern::parse(text).map(|pattern| pattern.to_string()),
                Ok(shown.to_owned())
            );
        }
        for bad in [
            "records", "GET *", "/a*", "/*/b", "/a{x}", "/{}", "/{a}{b}", "class:", "",
        ] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }
}
