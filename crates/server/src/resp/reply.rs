//! Answers in Redis's protocol, in the version that the client chose.

/// What is on its way to a client.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) bytes: Vec<u8>,
    /// The third version is spoken.
    pub(super) third: bool,
}

impl Reply {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(capacity),
            third: false,
        }
    }

    pub(super) fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// An error, whose first word is its kind. A line has no breaks in it, whatever the client had in its words.
    pub(super) fn error(&mut self, text: &str) {
        let text = text.replace(['\r', '\n'], " ");
        self.line(b'-', &text);
    }

    pub(super) fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    pub(super) fn array(&mut self, length: usize) {
        self.number(b'*', length);
    }

    /// Pairs, of which the second version makes a list.
    pub(super) fn map(&mut self, pairs: usize) {
        if self.third {
            self.number(b'%', pairs);
        } else {
            self.array(2 * pairs);
        }
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.number(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn line(&mut self, kind: u8, text: &str) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn number(&mut self, kind: u8, number: impl itoa::Integer) {
        self.line(kind, itoa::Buffer::new().format(number));
    }
}
