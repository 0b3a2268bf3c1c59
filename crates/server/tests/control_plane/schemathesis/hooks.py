"""Makes requests meet what is there, most of the time.

By chance no org, tier or policy has the name that a request gives, no condition is met, and a key was used before:
nearly all would end at that. So names of things that are there take the place of names that are good but of nothing;
what is there to be refused stays as it is.
"""

import zlib

import schemathesis

IN_PATH = {"orgId": "acme", "appId": "web", "keyId": "mobile", "userId": "u7"}
IN_BODY = {
    "tier": "Enterprise",
    "orgTier": "Enterprise",
    "timezone": "Europe/Berlin",
    "policyId": "enterprise-records",
}
# The deletions that were answered and took nothing away.
REHEARSED = set()


def is_name(value):
    return isinstance(value, str) and 0 < len(value) < 128 and value.isprintable()


@schemathesis.hook
def before_call(context, case, kwargs):
    said = f"{case.method}{case.formatted_path}{case.query}{case.body}"
    dice = zlib.crc32(said.encode(errors="replace"))
    if dice % 8:
        without_conditions(case.headers or {})
    if dice % 4:
        meet(case)
    if case.method == "DELETE" and is_rehearsal(case.query or {}):
        REHEARSED.add(case.id)


@schemathesis.hook
def filter_failure(context, failure, case, response):
    # What was only to be deleted is still there, and has to be.
    return getattr(failure, "deleted_case_id", None) not in REHEARSED


def is_rehearsal(query):
    return query.get("dryRun") in (True, "true")


def without_conditions(headers):
    headers.pop("If-Match", None)
    headers.pop("If-None-Match", None)
    key = headers.get("Idempotency-Key")
    if is_name(key) and key.isascii():
        headers.pop("Idempotency-Key")


def meet(case):
    path = case.path_parameters or {}
    for name in IN_PATH.keys() & path.keys():
        if is_name(path[name]):
            path[name] = IN_PATH[name]
    if isinstance(case.body, dict):
        # What the path names too must not be another there.
        case.body = {name: value for name, value in case.body.items() if name not in path or not is_name(value)}
        for name in IN_BODY.keys() & case.body.keys():
            if is_name(case.body[name]):
                case.body[name] = IN_BODY[name]
    query = case.query or {}
    if is_rehearsal(query):
        query.pop("dryRun")
    if case.method == "DELETE" and set(path.values()) <= set(IN_PATH.values()):
        # What the others need stays.
        case.query = {**query, "dryRun": "true"}
