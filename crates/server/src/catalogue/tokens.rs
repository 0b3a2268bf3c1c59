//! The tokens of the control plane: found by the hash of their secret, by the org they are for and by the token that
//! made them.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::shards::Shards;
use crate::control_plane::role::Role;
use crate::secret::SecretHash;

/// A token of the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its id.
    pub id: String,
    /// What it may do.
    pub role: Role,
    /// The org it is bound to, for the roles of tenants.
    pub org: Option<String>,
    /// From when on it no longer works, in Unix milliseconds.
    pub expires_ms: Option<i64>,
    /// The id of the token that made it, if a token did.
    pub maker: Option<String>,
}

/// All tokens. A copy costs the same however many there are.
#[derive(Debug, Clone, Default)]
pub struct Tokens {
    by_hash: Shards<SecretHash, Token>,
    hashes: Shards<String, SecretHash>,
    made_by: Shards<String, BTreeSet<String>>,
    of_org: Shards<String, BTreeSet<String>>,
}

/// Equal if one is a copy of the other that was not changed since.
impl PartialEq for Tokens {
    fn eq(&self, other: &Self) -> bool {
        self.by_hash.same_as(&other.by_hash)
    }
}

impl Tokens {
    /// The token of a secret.
    pub fn of(&self, hash: &SecretHash) -> Option<&Token> {
        self.by_hash.get(hash)
    }

    /// All of them, in no order.
    pub fn values(&self) -> impl Iterator<Item = &Token> {
        self.by_hash.values()
    }

    /// The token of an id.
    pub fn get(&self, id: &str) -> Option<&Token> {
        self.by_hash.get(self.hashes.get(id)?)
    }

    /// True if there is a token of this id.
    pub fn has(&self, id: &str) -> bool {
        self.hashes.get(id).is_some()
    }

    /// The ids of an org's tokens that come after `after`, in their order.
    pub fn of_org(&self, org: &str, after: &str) -> impl Iterator<Item = &str> {
        let span = (Bound::Excluded(after), Bound::Unbounded);
        let ids = self.of_org.get(org);
        ids.into_iter()
            .flat_map(move |ids| ids.range::<str, _>(span))
            .map(String::as_str)
    }

    /// How many tokens an org has.
    pub fn count(&self, org: &str) -> usize {
        self.of_org.get(org).map_or(0, BTreeSet::len)
    }

    /// The ids of the tokens that these made, and of those that those made, and so on.
    pub fn descendants(&self, of: impl IntoIterator<Item = String>) -> BTreeSet<String> {
        let (mut open, mut found): (Vec<String>, _) = (of.into_iter().collect(), BTreeSet::new());
        while let Some(maker) = open.pop() {
            for id in self.made_by.get(&maker).into_iter().flatten() {
                if found.insert(id.clone()) {
                    open.push(id.clone());
                }
            }
        }
        found
    }

    /// Takes note of what a token is now, or that it is gone.
    pub(super) fn set(&mut self, id: &str, now: Option<(SecretHash, Token)>) {
        let known = self.hashes.remove(id);
        if let Some(before) = known.and_then(|hash| self.by_hash.remove(&hash)) {
            index(&mut self.made_by, before.maker.as_ref(), |ids| ids.remove(id));
            index(&mut self.of_org, before.org.as_ref(), |ids| ids.remove(id));
        }
        if let Some((hash, token)) = now {
            let add = |ids: &mut BTreeSet<String>| ids.insert(id.to_owned());
            index(&mut self.made_by, token.maker.as_ref(), add);
            index(&mut self.of_org, token.org.as_ref(), add);
            self.hashes.insert(id.to_owned(), hash);
            self.by_hash.insert(hash, token);
        }
    }
}

fn index(
    under: &mut Shards<String, BTreeSet<String>>,
    name: Option<&String>,
    change: impl FnOnce(&mut BTreeSet<String>) -> bool,
) {
    if let Some(name) = name {
        under.change(name, |ids| {
            change(ids);
            !ids.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(id: &str, maker: Option<&str>) -> (SecretHash, Token) {
        let token = Token {
            id: id.to_owned(),
            role: Role::TenantAdmin,
            org: Some("acme".to_owned()),
            expires_ms: None,
            maker: maker.map(str::to_owned),
        };
        (SecretHash::of(id), token)
    }

    fn family() -> Tokens {
        let mut tokens = Tokens::default();
        for (id, maker) in [
            ("a", None),
            ("b", Some("a")),
            ("c", Some("b")),
            ("d", Some("b")),
            ("e", None),
        ] {
            tokens.set(id, Some(token(id, maker)));
        }
        tokens
    }

    fn below(tokens: &Tokens, id: &str) -> Vec<String> {
        tokens.descendants([id.to_owned()]).into_iter().collect()
    }

    #[test]
    fn what_a_token_made_is_found_through_all_generations() {
        let mut tokens = family();
        assert_eq!(below(&tokens, "a"), ["b", "c", "d"]);
        assert_eq!(below(&tokens, "e"), Vec::<String>::new());
        tokens.set("c", None);
        assert_eq!(below(&tokens, "a"), ["b", "d"]);
        // What claims to have made itself, or its maker, ends the search as well.
        tokens.set("a", Some(token("a", Some("d"))));
        assert_eq!(below(&tokens, "a"), ["a", "b", "d"]);
    }

    #[test]
    fn one_that_is_gone_is_found_by_nothing() {
        let mut tokens = family();
        assert_eq!(
            tokens.of_org("acme", "").collect::<Vec<_>>(),
            ["a", "b", "c", "d", "e"]
        );
        tokens.set("b", None);
        assert_eq!(
            tokens.of_org("acme", "").collect::<Vec<_>>(),
            ["a", "c", "d", "e"]
        );
        assert!(!tokens.has("b") && tokens.of(&SecretHash::of("b")).is_none());
        assert_eq!(below(&tokens, "a"), Vec::<String>::new());
        assert_eq!(tokens.of_org("acme", "c").collect::<Vec<_>>(), ["d", "e"]);
        assert_eq!((tokens.count("acme"), tokens.count("acm")), (4, 0));
    }

    #[test]
    fn a_copy_is_another_once_it_was_changed() {
        let tokens = family();
        let mut copy = tokens.clone();
        assert_eq!(copy, tokens);
        copy.set("nothing", None);
        assert_eq!(copy, tokens);
        copy.set("a", None);
        assert_ne!(copy, tokens);
        assert!(tokens.has("a"));
    }
}
