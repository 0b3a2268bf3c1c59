//! Where a benchmark's requests have their keys from: `key-00000000` and so on, in no order.

use crate::rounds::Shuffled;

const FIRST: [u8; 12] = *b"key-00000000";

/// The key of the next request.
pub(crate) trait Keys {
    fn next(&mut self) -> &String;
}

/// Written into one buffer just before it is asked about, as a server has it that has just read a request.
pub(crate) struct Arriving {
    order: Shuffled,
    count: usize,
    text: String,
}

impl Arriving {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            order: Shuffled::new(),
            count,
            text: String::with_capacity(FIRST.len()),
        }
    }
}

impl Keys for Arriving {
    fn next(&mut self) -> &String {
        let mut number = self.order.below(self.count);
        let mut text = FIRST;
        for digit in text.iter_mut().rev().take(8) {
            *digit += u8::try_from(number % 10).unwrap_or(0);
            number /= 10;
        }
        self.text.clear();
        self.text.push_str(str::from_utf8(&text).unwrap_or_default());
        &self.text
    }
}

/// Each somewhere in the caller's memory, which has to be waited for before anything is done.
pub(crate) struct Lying<'a> {
    order: Shuffled,
    keys: &'a [String],
}

impl<'a> Lying<'a> {
    pub(crate) fn new(keys: &'a [String]) -> Self {
        Self {
            order: Shuffled::new(),
            keys,
        }
    }

    /// As many as that, made one by one.
    pub(crate) fn all(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("key-{number:08}")).collect()
    }
}

impl Keys for Lying<'_> {
    fn next(&mut self) -> &String {
        &self.keys[self.order.below(self.keys.len())]
    }
}
