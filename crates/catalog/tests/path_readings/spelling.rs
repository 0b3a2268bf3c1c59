//! Paths written in odd ways.

/// Numbers that look random, the same for the same seed.
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next of them, below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        usize::try_from((self.0 >> 33) % bound as u64).unwrap()
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }
}

const PLAIN: [&str; 9] = [
    "/v1/two",
    "/v1/two/x",
    "/v1/search/term",
    "/v1/files/a/b",
    "/v1/files",
    "/v1/exports",
    "/v1/exports/7/b",
    "/h",
    "/",
];

/// What stands in for a slash.
const SLASHES: [&str; 22] = [
    "//",
    "/./",
    "/x/../",
    "/x//../",
    "//../",
    "/%2e/",
    "/x/%2e%2E/",
    "/x/.%2e/",
    "%2F",
    "%2f",
    "\\",
    "%5C",
    ";/",
    ";x/",
    "%3B/",
    "%3bx/",
    "/x/..;/",
    "/x/..%3B/",
    "/x%2Fy/../",
    "/x%5Cy/../",
    "/x\\../",
    "/#/",
];

/// What stands before a path, or after it.
const BEFORE: [&str; 8] = ["/", "//host", "/\\host", "///h", "/..", "/;x", "/.", "/%2e%2e"];
const AFTER: [&str; 20] = [
    "/", "//", "/.", "/..", "//..", "/../", ";", ";x", "%3Bx", "/;x", "/%3Bx", "/..;/h", "/..%3B/h",
    "/..%2Fh", "/../../h", "\\..\\h", "#", "#x", "/#x", "?x=/../h",
];

/// Pieces of paths that are nobody's.
const PIECES: [&str; 18] = [
    "/", "//", "/..", "/.", "%2e", ".", "..", "%2F", "%5C", "\\", ";", "%3B", "#", "v1", "two", "files",
    "exports", "h",
];

/// A path in some odd spelling.
pub fn draw(draw: &mut Draw) -> String {
    if draw.below(4) == 0 {
        let count = 1 + draw.below(9);
        return (0..count).fold("/".to_owned(), |path, _| path + draw.one(&PIECES));
    }
    let mut path = draw.one(&PLAIN).to_owned();
    for _ in 0..=draw.below(3) {
        match draw.below(6) {
            0 => path = format!("{}{path}", draw.one(&BEFORE)),
            1 | 2 => path.push_str(draw.one(&AFTER)),
            3 => {
                let letters: Vec<usize> = (0..path.len())
                    .filter(|at| path.as_bytes()[*at].is_ascii_lowercase())
                    .collect();
                if let Some(at) = (!letters.is_empty()).then(|| letters[draw.below(letters.len())]) {
                    let letter = path.as_bytes()[at];
                    // An escape's digits are left alone.
                    if !path[..at].ends_with('%')
                        && !path[..at]
                            .trim_end_matches(|c: char| c.is_ascii_hexdigit())
                            .ends_with('%')
                    {
                        path.replace_range(at..=at, &format!("%{letter:02X}"));
                    }
                }
            }
            _ => {
                let slashes: Vec<usize> = path.match_indices('/').map(|(at, _)| at).skip(1).collect();
                if !slashes.is_empty() {
                    let at = slashes[draw.below(slashes.len())];
                    path.replace_range(at..=at, draw.one(&SLASHES));
                }
            }
        }
    }
    path
}
