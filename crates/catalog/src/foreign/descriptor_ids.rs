//! What limits on descriptors are called here, and what their counts are.
//!
//! Files are read again whenever they change, so a count must not depend on what else a file has or in what order: it is
//! named by domain and descriptor alone. An id is for people, and short where no other would be the same.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::words;
use crate::model::{DescriptorPath, Policy};

/// The longest id made of words alone.
const LONGEST: usize = 120;
/// How much of the hash of a descriptor tells it from others of the same words.
const HASH_BYTES: usize = 6;

/// What a limit is called.
#[derive(Debug, Clone)]
pub(super) struct Called {
    /// The words, which may be those of others.
    short: String,
    /// Its own: the words where nothing else can ever have the same, else besides digits that only its descriptor has.
    pub(super) id: String,
    is_told_by_words: bool,
}

impl Called {
    /// By a name of its own, or by its descriptor.
    pub(super) fn of(name: Option<&str>, path: &DescriptorPath) -> Self {
        let whole = words(name.unwrap_or(&path.to_string()));
        let mut short = whole.clone();
        short.truncate(LONGEST);
        let is_told_by_words = name.is_none() && short == whole && is_told_by_words(path);
        let id = if is_told_by_words {
            whole
        } else {
            with_digits(&whole, path)
        };
        Self {
            short,
            id,
            is_told_by_words,
        }
    }

    /// The name of its count, where its id is not as good.
    pub(super) fn counter(&self, path: &DescriptorPath) -> Option<String> {
        (!self.is_told_by_words).then(|| with_digits(&words(&path.to_string()), path))
    }
}

/// Lets policies go by the words alone where no other has the same.
pub(super) fn shorten(called: &[Called], policies: &mut [Policy]) {
    let mut bearers: HashMap<&str, usize> = HashMap::new();
    for one in called {
        *bearers.entry(&one.short).or_default() += 1;
    }
    let whole: HashSet<&str> = called.iter().map(|one| one.id.as_str()).collect();
    let is_free = |one: &&Called| bearers[one.short.as_str()] == 1 && !whole.contains(one.short.as_str());
    let short: HashMap<&str, &str> = called
        .iter()
        .filter(is_free)
        .map(|one| (one.id.as_str(), one.short.as_str()))
        .collect();
    for policy in policies {
        for id in policy.replaces.iter_mut().chain([&mut policy.id]) {
            if let Some(short) = short.get(id.as_str()) {
                (*short).clone_into(id);
            }
        }
    }
}

fn with_digits(words: &str, path: &DescriptorPath) -> String {
    // What is between the parts is in none of them.
    let mut exact = path.domain.clone();
    for entry in &path.entries {
        let _ = write!(exact, "\0{}", entry.key);
        if let Some(value) = &entry.value {
            let _ = write!(exact, "\u{1}{value}");
        }
    }
    let mut id = words.to_owned();
    id.truncate(LONGEST - 2 * HASH_BYTES);
    id.push('-');
    for byte in &Sha256::digest(exact)[..HASH_BYTES] {
        let _ = write!(id, "{byte:02x}");
    }
    id
}

/// Whether no other descriptor is written with the same words: nothing in it is like what is between them, and after each
/// key but the last comes a value.
fn is_told_by_words(path: &DescriptorPath) -> bool {
    let is_word = |text: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'-');
        text.bytes().all(plain)
    };
    let Some((last, before)) = path.entries.split_last() else {
        return false;
    };
    let is_plain = |text: &Option<String>| text.as_deref().is_none_or(is_word);
    let mut entries = before.iter().chain([last]);
    is_word(&path.domain)
        && before.iter().all(|entry| entry.value.is_some())
        && entries.all(|entry| is_word(&entry.key) && is_plain(&entry.value))
}
