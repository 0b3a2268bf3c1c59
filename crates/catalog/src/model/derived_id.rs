//! The id of a policy that brings none.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::policy::Policy;
use crate::route::{Pattern, Segment};

/// The longest id there is.
const LONGEST: usize = 128;

impl Policy {
    /// An id made of tier, scope, pattern, algorithm and window. Those of other policies are others: where the words alone
    /// could be another's, or are too many, some digits of a hash of the exact ones follow.
    pub(super) fn derived_id(&self) -> String {
        let window = self.values.window.map(|window| window.to_string());
        let (scope, pattern) = (self.scope.to_string(), self.pattern.to_string());
        let parts = [
            self.tier.as_deref().unwrap_or("all"),
            &scope,
            if self.pattern.is_any() { "any" } else { &pattern },
            self.values.algorithm_name(),
            window.as_deref().unwrap_or_default(),
        ];
        let mut id = String::new();
        for part in parts {
            if !id.is_empty() {
                id.push('-');
            }
            for character in part.chars() {
                match character {
                    'A'..='Z' | 'a'..='z' | '0'..='9' | '.' | '_' | ':' => id.push(character),
                    _ if id.ends_with(['-', '.']) => {}
                    _ => id.push('.'),
                }
            }
        }
        if self.is_told_by_words(&scope) && id.len() <= LONGEST {
            return id;
        }
        let tier = self.tier.as_deref().unwrap_or("*");
        let exact = [tier, &scope, &pattern, parts[3], parts[4]].join("\0");
        let mut digits = String::from("-");
        for byte in &Sha256::digest(exact)[..4] {
            let _ = write!(digits, "{byte:02x}");
        }
        id.truncate(LONGEST - digits.len());
        id + &digits
    }

    /// Whether no other tier, scope or pattern is written with the same words.
    fn is_told_by_words(&self, scope: &str) -> bool {
        let is_word = |text: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            !text.is_empty() && text.bytes().all(plain)
        };
        let tier = self
            .tier
            .as_deref()
            .is_none_or(|tier| is_word(tier) && tier != "all");
        let scope = match scope.strip_prefix("descriptor:") {
            Some(name) => is_word(name),
            None => scope.split('+').all(is_word),
        };
        let pattern = match &self.pattern {
            Pattern::Any => true,
            Pattern::Class(class) => is_word(class),
            Pattern::Route(route) => {
                let mut segments = route.segments.iter();
                let words = segments.all(|segment| matches!(segment, Segment::Text(text) if is_word(text)));
                let any = route.method.is_none() && self.pattern.to_string() == "/any";
                words && !route.open && !route.segments.is_empty() && !any
            }
        };
        tier && scope && pattern
    }
}

#[cfg(test)]
mod tests {
    use crate::parse_policy_set;

    fn id_of(fields: &str) -> String {
        let set = parse_policy_set(&format!("policies: [{{limit: 1, window: 1m, {fields}}}]"));
        set.map_or_else(|problems| panic!("{problems}"), |set| set.policies[0].id.clone())
    }

    #[test]
    fn is_made_of_words_where_they_tell_it_from_all_others() {
        for (fields, id) in [
            ("scope: org", "all-org-any-token_bucket-1m"),
            (
                "orgTier: Gold, scope: [org, ip]",
                "Gold-org.ip-any-token_bucket-1m",
            ),
            (
                "endpointPattern: POST /v1/exports",
                "all-org-POST.v1.exports-token_bucket-1m",
            ),
            (
                "endpointPattern: /v1/exports, algorithm: fixed_window",
                "all-org-v1.exports-fixed_window-1m",
            ),
        ] {
            assert_eq!(id_of(fields), id);
        }
    }

    #[test]
    fn of_two_policies_is_never_the_same() {
        let long = "x".repeat(120);
        let all = [
            "endpointPattern: /a/b".to_owned(),
            "endpointPattern: /a.b".to_owned(),
            "endpointPattern: /a-b".to_owned(),
            "endpointPattern: /a_b".to_owned(),
            "endpointPattern: \"/a/{b}\"".to_owned(),
            "endpointPattern: \"/a/b/*\"".to_owned(),
            "endpointPattern: \"/*\"".to_owned(),
            "endpointPattern: /".to_owned(),
            "endpointPattern: /any".to_owned(),
            "endpointPattern: /öäü".to_owned(),
            "endpointPattern: /äöü".to_owned(),
            "scope: org".to_owned(),
            "orgTier: all".to_owned(),
            "orgTier: a.b".to_owned(),
            "orgTier: a-b".to_owned(),
            "scope: \"descriptor:a.b\"".to_owned(),
            "scope: [\"descriptor:a\", \"descriptor:b\"]".to_owned(),
            format!("endpointPattern: /{long}"),
            format!("endpointPattern: /{long}, algorithm: fixed_window"),
        ];
        let mut ids: Vec<String> = all.iter().map(|fields| id_of(fields)).collect();
        assert!(ids.iter().all(|id| id.len() <= super::LONGEST));
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), all.len(), "{ids:#?}");
    }
}
