//! The ways in which services read a path, where it is written so that they differ.
//!
//! Servers and frameworks differ in what separates segments, in what follows a `;` and a `#`, and in what becomes of dots
//! (docs/routes.md has a table). Which of them stands behind Tollgate is not known, so such a path is matched in each of
//! these readings. One with too many of them is refused.
//!
//! A reading has two steps, as in services there are two that look at a path: a server or a URL parser resolves dots
//! ([`Resolver`]), then a framework decodes what is left and makes segments of it ([`Splitter`]).

#[cfg(test)]
mod tests;

use smallvec::SmallVec;

/// The maximum number of readings of one path.
pub(super) const MAX_READINGS: usize = 32;

/// The maximum number of bytes that are looked at to find them. It bounds what one path can cost.
const MAX_WORK: usize = 128 * 1024;

/// Marks: what a character becomes that services take for another than the plain one. No path has these bytes otherwise.
///
/// An escaped slash.
pub(super) const SLASH: u8 = 0x1f;
/// An escaped backslash.
pub(super) const BACKSLASH: u8 = 0x1e;
/// An escaped semicolon.
pub(super) const SEMICOLON: u8 = 0x1d;
/// An escaped dot.
pub(super) const DOT: u8 = 0x1c;
/// A plain `#`: escaped ones are characters like any other.
pub(super) const FRAGMENT: u8 = 0x1b;
/// Stands before a character that was escaped without need. Routers that match what came as it came take it for another.
pub(super) const ESCAPED: u8 = 0x1a;

/// Dots, escaped or not.
const ANY_DOT: &[u8] = &[b'.', DOT];
/// All that separates segments in some reading.
const ANY_SEPARATOR: &[u8] = &[b'/', b'\\', SLASH, BACKSLASH];

/// A path without its first slash, in all its readings.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Readings {
    /// The normal form: every separator separates, parameters are cut off, dots are resolved.
    pub(super) normal: Vec<u8>,
    /// The others that differ from it.
    pub(super) others: Vec<Box<[u8]>>,
}

/// The path can be read in too many ways.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

impl Readings {
    /// Reads a path with marks in all ways.
    pub(super) fn of(path: &[u8]) -> Result<Self, TooMany> {
        let odd = Odd::of(path);
        let mut found = Found::default();
        found.add_all(path, &odd)?;
        let mut all = found.readings.into_iter();
        Ok(Self {
            normal: all.next().unwrap_or_default(),
            others: all.map(Vec::into_boxed_slice).collect(),
        })
    }
}

/// What services read in several ways, and a path has.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is there or not, whatever the others are"
)]
struct Odd {
    slash: bool,
    backslash: bool,
    escaped_backslash: bool,
    parameter: bool,
    escaped_parameter: bool,
    fragment: bool,
    /// It has escapes of characters that could be there as they are.
    escaped: bool,
    /// It begins with two slashes: to URL parsers a host follows.
    authority: bool,
    /// It has segments that are `.` or `..` in some reading.
    dots: bool,
    /// It has dots that are escaped. They only matter where dots are resolved.
    escaped_dots: bool,
    /// It has empty segments, not only one at its end.
    empty: bool,
}

impl Odd {
    fn of(path: &[u8]) -> Self {
        let mut odd = Self {
            authority: matches!(path.first(), Some(b'/' | b'\\')),
            ..Self::default()
        };
        for byte in path {
            match *byte {
                SLASH => odd.slash = true,
                b'\\' => odd.backslash = true,
                BACKSLASH => odd.escaped_backslash = true,
                b';' => odd.parameter = true,
                SEMICOLON => odd.escaped_parameter = true,
                FRAGMENT => odd.fragment = true,
                ESCAPED | DOT => odd.escaped = true,
                _ => {}
            }
        }
        // A segment that is made of dots in some reading is so in the one that separates and cuts the most.
        let segments = path.split(|byte| ANY_SEPARATOR.contains(byte));
        let names = segments.map(|segment| before(segment, &[b';', SEMICOLON, FRAGMENT]));
        let mut empty = 0;
        for name in names {
            // Only now is it known that one is not the last.
            odd.empty |= empty > 0;
            empty += usize::from(name.is_empty());
            odd.dots |= is_dot(name, ANY_DOT) || is_parent(name, ANY_DOT);
        }
        odd.escaped_dots = odd.dots && path.contains(&DOT);
        odd
    }
}

#[derive(Default)]
struct Found {
    readings: Vec<Vec<u8>>,
    work: usize,
}

impl Found {
    fn add(&mut self, reading: Vec<u8>) -> Result<(), TooMany> {
        if self.readings.contains(&reading) {
            return Ok(());
        }
        if self.readings.len() == MAX_READINGS {
            return Err(TooMany);
        }
        self.readings.push(reading);
        Ok(())
    }

    /// Adds every reading of a path, the normal one first.
    fn add_all(&mut self, path: &[u8], odd: &Odd) -> Result<(), TooMany> {
        let mut resolved: Vec<Vec<u8>> = Vec::new();
        for &path in first_or_both(&[before(path, &[FRAGMENT]), path], odd.fragment) {
            let after_authority = after_authority(path).filter(|_| odd.authority);
            for path in [Some(path), after_authority].into_iter().flatten() {
                self.work(path)?;
                add_new(&mut resolved, path.to_vec());
                if odd.parameter {
                    add_new(&mut resolved, without_parameters(path));
                }
                for resolver in Resolver::all(odd) {
                    self.work(path)?;
                    add_new(&mut resolved, resolver.resolve(path));
                }
            }
        }
        for path in &resolved {
            for splitter in Splitter::all(odd) {
                self.work(path)?;
                self.add(splitter.split(path))?;
            }
        }
        Ok(())
    }

    fn work(&mut self, path: &[u8]) -> Result<(), TooMany> {
        self.work += path.len();
        if self.work > MAX_WORK {
            Err(TooMany)
        } else {
            Ok(())
        }
    }
}

/// A path whose parameters were cut off before anything was decoded: up to the next plain slash, over escaped ones.
fn without_parameters(path: &[u8]) -> Vec<u8> {
    let segments = path.split(|byte| *byte == b'/');
    let names: Vec<&[u8]> = segments.map(|segment| before(segment, b";")).collect();
    names.join(&b'/')
}

fn add_new(paths: &mut Vec<Vec<u8>>, path: Vec<u8>) {
    if !paths.contains(&path) {
        paths.push(path);
    }
}

/// What follows the host of a path that a URL parser takes for `//host/path`. It takes more slashes for two, and backslashes
/// for slashes.
fn after_authority(path: &[u8]) -> Option<&[u8]> {
    let is_slash = |byte: &u8| matches!(byte, b'/' | b'\\');
    let host = path.iter().position(|byte| !is_slash(byte))?;
    let end = path[host..].iter().position(is_slash);
    Some(end.map_or(&[], |end| &path[host + end + 1..]))
}

/// How dots are resolved before a path is decoded.
struct Resolver {
    /// With the backslash, as browsers and WHATWG's URLs have it.
    separators: &'static [u8],
    /// Where segments end before: nowhere, or at parameters.
    cuts: &'static [u8],
    dots: &'static [u8],
    /// An empty segment is one that `..` takes away, as in RFC 3986.
    empty: bool,
}

impl Resolver {
    const SEPARATORS: [&[u8]; 2] = [b"/", b"/\\"];
    const CUTS: [&[u8]; 2] = [b"", b";"];
    const DOTS: [&[u8]; 2] = [ANY_DOT, b"."];

    /// Those that may make a difference.
    fn all(odd: &Odd) -> Vec<Self> {
        let mut all = Vec::new();
        if !odd.dots {
            return all;
        }
        for &separators in first_or_both(&Self::SEPARATORS, odd.backslash) {
            for &cuts in first_or_both(&Self::CUTS, odd.parameter) {
                for &dots in first_or_both(&Self::DOTS, odd.escaped_dots) {
                    for &empty in first_or_both(&[false, true], odd.empty) {
                        all.push(Self {
                            separators,
                            cuts,
                            dots,
                            empty,
                        });
                    }
                }
            }
        }
        all
    }

    /// A path without the dots that this one resolves. What it does not look at keeps its marks.
    fn resolve(&self, path: &[u8]) -> Vec<u8> {
        let mut segments: Vec<&[u8]> = Vec::new();
        let mut ends_in_dots = false;
        for segment in path.split(|byte| self.separators.contains(byte)) {
            let segment = before(segment, self.cuts);
            ends_in_dots = is_dot(segment, self.dots) || is_parent(segment, self.dots);
            if is_parent(segment, self.dots) {
                segments.pop();
            } else if !is_dot(segment, self.dots) && (self.empty || !segment.is_empty()) {
                segments.push(segment);
            }
        }
        // What ends in dots ends in a slash once they are resolved.
        if ends_in_dots && self.empty {
            segments.push(&[]);
        }
        segments.join(&b'/')
    }
}

/// How a path is made into segments.
struct Splitter {
    separators: SmallVec<[u8; 4]>,
    /// Where parameters begin, which are cut off.
    cuts: &'static [u8],
    dots: Dots,
    /// Empty segments remain, but for one at the end. No pattern has any, so that they only keep others from matching.
    empty: bool,
    /// Nothing is decoded: what was escaped is no pattern's text.
    literal: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dots {
    /// `..` takes the segment before it away.
    Resolved,
    /// It takes an empty one away, too.
    ResolvedWithEmpty,
    /// They are segments like any other.
    Kept,
}

impl Splitter {
    const CUTS: [&[u8]; 3] = [b";", b"", &[b';', SEMICOLON]];

    /// Those that may make a difference, the normal form first.
    fn all(odd: &Odd) -> Vec<Self> {
        let dots: &[(Dots, bool)] = match (odd.dots, odd.empty) {
            (false, false) => &[(Dots::Resolved, false)],
            (false, true) => &[(Dots::Resolved, false), (Dots::Kept, true)],
            (true, false) => &[(Dots::Resolved, false), (Dots::Kept, false)],
            (true, true) => &[
                (Dots::Resolved, false),
                (Dots::Kept, false),
                (Dots::Kept, true),
                (Dots::ResolvedWithEmpty, false),
                (Dots::ResolvedWithEmpty, true),
            ],
        };
        let cuts = match (odd.parameter, odd.escaped_parameter) {
            (false, false) => &Self::CUTS[..1],
            (true, false) => &Self::CUTS[..2],
            // Whoever cuts at an escaped semicolon has decoded the path, and cuts at plain ones.
            (false, true) => &Self::CUTS[1..],
            (true, true) => &Self::CUTS[..],
        };
        let mut all = Vec::new();
        for &(dots, empty) in dots {
            for &cuts in cuts {
                for slash in first_or_both(&[Some(SLASH), None], odd.slash) {
                    for backslash in first_or_both(&[Some(b'\\'), None], odd.backslash) {
                        for escaped in first_or_both(&[Some(BACKSLASH), None], odd.escaped_backslash) {
                            let others = [*slash, *backslash, *escaped].into_iter().flatten();
                            all.push(Self {
                                separators: std::iter::once(b'/').chain(others).collect(),
                                cuts,
                                dots,
                                empty,
                                literal: false,
                            });
                        }
                    }
                }
            }
        }
        // A URL parser makes slashes of backslashes, but decodes nothing.
        for backslash in first_or_both(&[None, Some(b'\\')], odd.backslash)
            .iter()
            .filter(|_| odd.escaped)
        {
            all.push(Self {
                separators: std::iter::once(b'/').chain(*backslash).collect(),
                cuts: b"",
                dots: Dots::Kept,
                empty: true,
                literal: true,
            });
        }
        all
    }

    /// The segments of a path with single slashes between them. Within one, an escaped slash remains a mark.
    fn split(&self, path: &[u8]) -> Vec<u8> {
        let mut segments: SmallVec<[&[u8]; 16]> = SmallVec::new();
        for segment in path.split(|byte| self.separators.contains(byte)) {
            let name = before(segment, self.cuts);
            let resolved = self.dots != Dots::Kept;
            if resolved && is_parent(name, ANY_DOT) {
                segments.pop();
            } else if !(resolved && is_dot(name, ANY_DOT) || self.dots == Dots::Resolved && name.is_empty()) {
                segments.push(name);
            }
        }
        if !self.empty {
            segments.retain(|name| !name.is_empty());
        } else if segments.last().is_some_and(|name| name.is_empty()) {
            segments.pop();
        }
        let mut normal: Vec<u8> = Vec::with_capacity(path.len());
        for (place, name) in segments.iter().enumerate() {
            if place > 0 {
                normal.push(b'/');
            }
            let decoded = name.iter().filter(|byte| **byte != ESCAPED || self.literal);
            normal.extend(decoded.map(|byte| if self.literal { *byte } else { unmarked(*byte) }));
        }
        normal
    }
}

/// The part of a segment before the first of some bytes.
fn before<'s>(segment: &'s [u8], cuts: &[u8]) -> &'s [u8] {
    let end = segment.iter().position(|byte| cuts.contains(byte));
    &segment[..end.unwrap_or(segment.len())]
}

fn is_dot(segment: &[u8], dots: &[u8]) -> bool {
    matches!(segment, [dot] if dots.contains(dot))
}

fn is_parent(segment: &[u8], dots: &[u8]) -> bool {
    matches!(segment, [one, other] if dots.contains(one) && dots.contains(other))
}

/// The character that a mark stands for. That of an escaped slash would separate.
fn unmarked(byte: u8) -> u8 {
    match byte {
        BACKSLASH => b'\\',
        SEMICOLON => b';',
        DOT => b'.',
        FRAGMENT => b'#',
        byte => byte,
    }
}

/// Two ways, of which the second matters only where something is there.
fn first_or_both<T>(ways: &[T; 2], is_there: bool) -> &[T] {
    if is_there { ways } else { &ways[..1] }
}
