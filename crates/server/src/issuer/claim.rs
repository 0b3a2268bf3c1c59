//! Claims by name, or by a path of names.

use serde_json::{Map, Value};

/// Whether a claim's name is one, or a path in which every `~` is one of its two escapes.
pub(crate) fn well_formed(claim: &str) -> bool {
    let mut escapes = claim.split('~').skip(1);
    !claim.starts_with('/') || escapes.all(|rest| rest.starts_with(['0', '1']))
}

/// The claim of a name, or at the end of a path of names if it begins with a slash (a JSON pointer, RFC 6901).
pub(crate) fn found<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    let Some(path) = name.strip_prefix('/') else {
        return claims.get(name);
    };
    let mut names = path
        .split('/')
        .map(|name| name.replace("~1", "/").replace("~0", "~"));
    let first = claims.get(&names.next()?)?;
    names.try_fold(first, |value, name| value.as_object()?.get(&name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_found_by_its_name_or_by_a_path_of_names() {
        let claims = json!({
            "roles": 1,
            "https://acme.example/roles": 2,
            "realm.roles": 3,
            "realm": {"roles": 4, "": 5, "a/b": 6, "a~b": 7, "list": [{"roles": 8}]},
            "/realm/roles": 9,
        });
        let of = |name: &str| found(claims.as_object().unwrap(), name).and_then(Value::as_u64);
        for (name, value) in [
            ("roles", Some(1)),
            ("/roles", Some(1)),
            ("https://acme.example/roles", Some(2)),
            ("realm.roles", Some(3)),
            ("/realm/roles", Some(4)),
            ("/realm/", Some(5)),
            ("/realm/a~1b", Some(6)),
            ("/realm/a~0b", Some(7)),
            ("/~1realm~1roles", Some(9)),
            // A list has no names, and a path ends where there is none.
            ("/realm/list/0/roles", None),
            ("/realm", None),
            ("/realm/roles/more", None),
            ("/absent/roles", None),
            ("realm/roles", None),
        ] {
            assert_eq!(of(name), value, "{name}");
        }
    }
}
