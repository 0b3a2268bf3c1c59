//! As much of CEL as policies can say: values of a descriptor that are given, or begin with something, and all of
//! these at once.

/// An entry of one of a request's descriptors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// Which descriptor.
    pub(super) descriptor: usize,
    /// Its entry's key.
    pub(super) key: String,
}

/// A condition on an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) entry: Reference,
    /// The value, or what it begins with.
    pub(super) value: String,
    pub(super) prefix: bool,
}

/// Reads a condition, if it is one that policies can say.
pub(super) fn conditions(text: &str) -> Option<Vec<Condition>> {
    let mut rest = Rest(text.trim());
    let mut all = vec![rest.condition()?];
    while rest.take("&&") {
        all.push(rest.condition()?);
    }
    rest.0.is_empty().then_some(all)
}

/// Reads what a count is kept by, if it is an entry.
pub(super) fn reference(text: &str) -> Option<Reference> {
    let mut rest = Rest(text.trim());
    let entry = rest.reference()?;
    rest.0.is_empty().then_some(entry)
}

/// What has not been read yet.
struct Rest<'t>(&'t str);

impl Rest<'_> {
    fn condition(&mut self) -> Option<Condition> {
        if let Some(value) = self.text() {
            let entry = self.take("==").then(|| self.reference())??;
            return Some(Condition {
                entry,
                value,
                prefix: false,
            });
        }
        let entry = self.reference()?;
        let prefix = self.take(".startsWith(");
        if !prefix && !self.take("==") {
            return None;
        }
        let value = self.text()?;
        if prefix && !self.take(")") {
            return None;
        }
        Some(Condition { entry, value, prefix })
    }

    /// `descriptors[0].name` or `descriptors[0]['name']`; in older files just `name`.
    fn reference(&mut self) -> Option<Reference> {
        if !self.take("descriptors[") {
            let key = self.word(|character| character == '.')?;
            return Some(Reference { descriptor: 0, key });
        }
        let descriptor = self.word(|_| false)?.parse().ok()?;
        if !self.take("]") {
            return None;
        }
        let key = if self.take("[") {
            let key = self.text()?;
            self.take("]").then_some(key)?
        } else {
            self.take(".").then(|| self.word(|_| false))??
        };
        Some(Reference { descriptor, key })
    }

    /// A text in quotes, without escapes.
    fn text(&mut self) -> Option<String> {
        let quote = self
            .0
            .chars()
            .next()
            .filter(|first| ['\'', '"'].contains(first))?;
        let (text, rest) = self.0[1..].split_once(quote)?;
        if text.contains('\\') {
            return None;
        }
        self.0 = rest.trim_start();
        Some(text.to_owned())
    }

    fn word(&mut self, also: impl Fn(char) -> bool) -> Option<String> {
        let end = self.0.find(|character: char| {
            !(character.is_ascii_alphanumeric() || character == '_' || also(character))
        });
        let mut word = &self.0[..end.unwrap_or(self.0.len())];
        // What follows the last dot may be a function.
        if let Some((before, "startsWith")) = word.rsplit_once('.') {
            word = before;
        }
        self.0 = self.0[word.len()..].trim_start();
        (!word.is_empty()).then(|| word.to_owned())
    }

    fn take(&mut self, token: &str) -> bool {
        let Some(rest) = self.0.strip_prefix(token) else {
            return false;
        };
        self.0 = rest.trim_start();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Option<Vec<(usize, String, String, bool)>> {
        let all = conditions(text)?.into_iter();
        Some(
            all.map(|one| (one.entry.descriptor, one.entry.key, one.value, one.prefix))
                .collect(),
        )
    }

    #[test]
    fn reads_what_policies_can_say() {
        let one = |key: &str, value: &str, prefix| Some(vec![(0, key.to_owned(), value.to_owned(), prefix)]);
        assert_eq!(
            said("descriptors[0].method == 'GET'"),
            one("method", "GET", false)
        );
        assert_eq!(
            said("descriptors[0]['req.method']=='GET'"),
            one("req.method", "GET", false)
        );
        assert_eq!(said("'GET' == descriptors[0][\"m\"]"), one("m", "GET", false));
        assert_eq!(said("req.method == \"GET\""), one("req.method", "GET", false));
        assert_eq!(
            said("descriptors[0].path.startsWith('/v1/')"),
            one("path", "/v1/", true)
        );
        let both = said("descriptors[1].a == 'x' && descriptors[1].b == 'y'").unwrap();
        assert_eq!(both.len(), 2);
        assert_eq!(both[1], (1, "b".to_owned(), "y".to_owned(), false));
        assert_eq!(reference("descriptors[2].user").unwrap().descriptor, 2);
    }

    #[test]
    fn knows_what_it_does_not_understand() {
        for text in [
            "",
            "true",
            "descriptors[0].a != 'x'",
            "descriptors[0].a == 'x' || descriptors[0].b == 'y'",
            "descriptors[0].a == descriptors[0].b",
            "descriptors[0].a == 'it\\'s'",
            "descriptors[0].a.matches('x')",
            "descriptors[0].a == 'x' &&",
            "!descriptors[0].a.startsWith('x')",
            "'a' in descriptors[0]",
            "descriptors[x].a == 'x'",
        ] {
            assert_eq!(said(text), None, "{text}");
        }
        assert_eq!(reference("descriptors[0].a + 'x'"), None);
    }
}
