//! How services read the path of a request: the segments that each makes of the bytes it is sent.

/// A service: the segments it routes by, or none if it refuses the request.
pub type Service = fn(&str) -> Option<Vec<Vec<u8>>>;

pub const SERVICES: [(&str, Service); 12] = [
    ("Flask", flask),
    ("Node, as it came", node),
    ("Node, decoded", node_decoded),
    ("Node, new URL", node_url),
    ("Node, new URL, decoded", node_url_decoded),
    ("Node, new URL after a host", node_url_after_host),
    ("Go, URL.Path", go),
    ("Go, path.Clean", go_cleaned),
    ("Go, RawPath", go_raw),
    ("Tomcat", tomcat),
    ("Tomcat that decodes solidi", tomcat_decoding),
    ("Tomcat with backslashes", tomcat_with_backslashes),
];

/// True if a service that has a route for a pattern takes it for a request. A `HEAD` is answered by what is for `GET`.
pub fn routes(pattern: &str, method: &str, segments: &[Vec<u8>]) -> bool {
    let (wanted, path) = pattern
        .split_once(' ')
        .map_or((None, pattern), |(wanted, path)| (Some(wanted), path));
    if wanted.is_some_and(|wanted| wanted != method && (wanted, method) != ("GET", "HEAD")) {
        return false;
    }
    let (path, open) = path.strip_suffix("/*").map_or((path, false), |path| (path, true));
    let wanted: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let enough = if open {
        segments.len() >= wanted.len()
    } else {
        segments.len() == wanted.len()
    };
    enough
        && wanted.iter().zip(segments).all(|(wanted, found)| {
            if wanted.starts_with('{') {
                !found.is_empty()
            } else {
                wanted.as_bytes().eq_ignore_ascii_case(found)
            }
        })
}

/// The WSGI server drops query and fragment and decodes everything, slashes too. Routes merge slashes.
fn flask(target: &str) -> Option<Vec<Vec<u8>>> {
    let path = target.split(['?', '#']).next()?;
    Some(without_empty(split(&decode(path.as_bytes()))))
}

/// Express: `req.url` up to the query, matched as it came; a trailing slash makes no difference.
fn node(target: &str) -> Option<Vec<Vec<u8>>> {
    let path = target.split('?').next()?;
    Some(without_last_empty(split(path.as_bytes())))
}

/// `decodeURIComponent` of all of it, before anything is matched.
fn node_decoded(target: &str) -> Option<Vec<Vec<u8>>> {
    let path = target.split('?').next()?;
    Some(without_empty(split(&decode(path.as_bytes()))))
}

fn node_url(target: &str) -> Option<Vec<Vec<u8>>> {
    Some(without_last_empty(split(&pathname(target, true)?)))
}

fn node_url_decoded(target: &str) -> Option<Vec<Vec<u8>>> {
    Some(without_empty(split(&decode(&pathname(target, true)?))))
}

/// ``new URL(`http://service${req.url}`)``
fn node_url_after_host(target: &str) -> Option<Vec<Vec<u8>>> {
    Some(without_last_empty(split(&pathname(target, false)?)))
}

/// The `pathname` of WHATWG's `new URL(target, "http://service")`: backslashes are slashes, `//` begins a host, `..` takes the
/// segment before it away, and be it empty.
fn pathname(target: &str, is_relative: bool) -> Option<Vec<u8>> {
    let target = target.split(['?', '#']).next()?.replace('\\', "/");
    let mut path = target.as_str();
    if is_relative && path.starts_with("//") {
        let rest = path.trim_start_matches('/');
        let end = rest.find('/').unwrap_or(rest.len());
        if end == 0 {
            // No host: it throws.
            return None;
        }
        path = if end == rest.len() { "/" } else { &rest[end..] };
    }
    let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let mut kept: Vec<&str> = Vec::new();
    for (place, segment) in segments.iter().enumerate() {
        let dots = segment.to_ascii_lowercase().replace("%2e", ".");
        let last = place + 1 == segments.len();
        match dots.as_str() {
            ".." => {
                kept.pop();
                if last {
                    kept.push("");
                }
            }
            "." if last => kept.push(""),
            "." => {}
            _ => kept.push(segment),
        }
    }
    Some(format!("/{}", kept.join("/")).into_bytes())
}

/// `r.URL.Path`, which is decoded. What follows a `#` is a part of it.
fn go(target: &str) -> Option<Vec<Vec<u8>>> {
    let path = decode(target.split('?').next()?.as_bytes());
    Some(without_last_empty(split(&path)))
}

/// `path.Clean(r.URL.Path)`
pub fn go_cleaned(target: &str) -> Option<Vec<Vec<u8>>> {
    let path = decode(target.split('?').next()?.as_bytes());
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for segment in split(&path) {
        match segment.as_slice() {
            b"" | b"." => {}
            b".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    Some(kept)
}

/// Routers such as chi's, by `r.URL.RawPath`: segments of what came, each decoded afterwards.
fn go_raw(target: &str) -> Option<Vec<Vec<u8>>> {
    let path = target.split('?').next()?;
    let segments = split(path.as_bytes()).into_iter().map(|segment| decode(&segment));
    Some(without_last_empty(segments.collect()))
}

fn tomcat(target: &str) -> Option<Vec<Vec<u8>>> {
    if target.split('?').next()?.to_ascii_lowercase().contains("%2f") {
        return None;
    }
    tomcat_decoding(target)
}

fn tomcat_decoding(target: &str) -> Option<Vec<Vec<u8>>> {
    tomcat_path(target, false)
}

fn tomcat_with_backslashes(target: &str) -> Option<Vec<Vec<u8>>> {
    tomcat_path(target, true)
}

/// Parameters are cut off what came, then it is decoded, then normalised; what leaves the root is refused.
fn tomcat_path(target: &str, backslashes: bool) -> Option<Vec<Vec<u8>>> {
    let path = target.split('?').next()?;
    // A `#` is no character of a request's target.
    if path.contains('#') {
        return None;
    }
    let without: Vec<&str> = path
        .split('/')
        .map(|segment| segment.split(';').next().unwrap_or(""))
        .collect();
    let mut path = decode(without.join("/").as_bytes());
    if path.contains(&b'\\') && !backslashes {
        return None;
    }
    for byte in &mut path {
        if *byte == b'\\' {
            *byte = b'/';
        }
    }
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for segment in split(&path) {
        match segment.as_slice() {
            b"" | b"." => {}
            b".." => drop(kept.pop()?),
            _ => kept.push(segment),
        }
    }
    Some(kept)
}

/// The segments after the first slash, empty ones too.
fn split(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|byte| *byte == b'/')
        .skip(1)
        .map(<[u8]>::to_vec)
        .collect()
}

fn without_empty(segments: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    segments
        .into_iter()
        .filter(|segment| !segment.is_empty())
        .collect()
}

fn without_last_empty(mut segments: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    if segments.last().is_some_and(Vec::is_empty) {
        segments.pop();
    }
    segments
}

fn decode(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let digits = (*byte == b'%')
            .then(|| after.get(..2))
            .flatten()
            .and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(escaped) => {
                decoded.push(escaped);
                rest = &after[2..];
            }
            None => decoded.push(*byte),
        }
    }
    decoded
}
