"""Random scripts of requests, the same for every server: names are fixed, versions and uids are symbols."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from tests.contract.differential.kinds import KINDS, Kind
from tests.contract.support import JSON_PATCH, MERGE, STRATEGIC

NAMES = ("alpha", "beta", "gamma")
_PATHS = ("/metadata/labels", "/metadata/annotations", "/data", "/spec", "/metadata/labels/team", "/nowhere/x")
_LABEL_SELECTORS = ("team", "team=red", "team in (red,blue)", "!team", "team=,x", "a=b=c", "team notin (red)")
_FIELD_SELECTORS = ("metadata.name!=alpha", "spec.unknown=1", "oops")


class Symbol(NamedTuple):
    """A value that each server fills in: `version` or `uid` of what was last seen of an object."""

    what: str
    plural: str
    name: str


class Step(NamedTuple):
    """One request. `path` is (plural, name, subresource) within the script's namespace."""

    method: str
    path: tuple[str, str, str]
    body: Any = None
    content_type: str = "application/json"
    query: dict[str, str] = {}


def script(seed: int, length: int) -> list[Step]:
    """The script of a seed."""
    rng = random.Random(seed)
    steps = []
    for kind in KINDS:  # something to begin with
        steps += [Step("POST", (kind.plural, "", ""), kind.new(NAMES[0], rng))]
    while len(steps) < length:
        steps.append(_step(rng))
    return steps


def _step(rng: random.Random) -> Step:
    kind, name = rng.choice(KINDS), rng.choice(NAMES)
    makers = (_create, _create, _replace, _patch, _patch, _json_patch, _status, _delete, _list, _get, _bad)
    return rng.choice(makers)(kind, name, rng)


def _options(rng: random.Random) -> dict[str, str]:
    query = {}
    if rng.random() < 0.1:
        query["dryRun"] = "All"
    if rng.random() < 0.2:
        query["fieldValidation"] = rng.choice(("Strict", "Warn", "Ignore", "Wrong"))
    return query


def _metadata(rng: random.Random) -> dict[str, Any]:
    """A change of metadata that may or may not be allowed."""
    return rng.choice(
        (
            {"labels": {"team": rng.choice(("red", "blue"))}},
            {"labels": {"team": None}},
            {"labels": {"bad key!": "x"}},
            {"labels": {"team": "not a label value!"}},
            {"annotations": {"note": rng.choice(("x", ""))}},
            {"annotations": {"Bad/Key/Here": "x"}},
            {"finalizers": ["example.com/hold"]},
            {"finalizers": None},
            {"finalizers": ["not qualified"]},
            {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}]},
            {"name": "renamed"},
            {"namespace": "elsewhere"},
            {"uid": "00000000-0000-0000-0000-000000000000"},
            {"creationTimestamp": "2020-01-01T00:00:00Z"},
            {"generation": 99},
        )
    )


def _create(kind: Kind, name: str, rng: random.Random) -> Step:
    obj = kind.new(name, rng)
    if rng.random() < 0.3:
        obj["metadata"] |= {key: value for key, value in _metadata(rng).items() if value is not None}
    if rng.random() < 0.1:
        obj["surprise"] = {"unknown": True}
    return Step("POST", (kind.plural, "", ""), obj, query=_options(rng))


def _replace(kind: Kind, name: str, rng: random.Random) -> Step:
    obj = kind.new(name, rng)
    if rng.random() < 0.5:
        obj["metadata"] |= {key: value for key, value in _metadata(rng).items() if value is not None}
    version = rng.choice((Symbol("version", kind.plural, name), Symbol("version", kind.plural, name), "1", None))
    if version is not None and kind.plural != "resourcequotas":  # a controller writes those in between
        obj["metadata"]["resourceVersion"] = version
    if rng.random() < 0.1:
        obj["metadata"]["uid"] = Symbol("uid", kind.plural, name)
    return Step("PUT", (kind.plural, name, ""), obj, query=_options(rng))


def _patch(kind: Kind, name: str, rng: random.Random) -> Step:
    change = {"metadata": _metadata(rng)} if rng.random() < 0.4 else kind.change(rng)
    return Step("PATCH", (kind.plural, name, ""), change, rng.choice((MERGE, STRATEGIC)), _options(rng))


def _json_patch(kind: Kind, name: str, rng: random.Random) -> Step:
    path = rng.choice(
        ("/metadata/labels", "/metadata/annotations", "/data", "/spec", "/metadata/labels/team", "/nowhere/x")
    )
    operation = rng.choice(
        (
            {"op": "add", "path": path, "value": {"a": "b"}},
            {"op": "add", "path": "/metadata/labels/team", "value": "green"},
            {"op": "remove", "path": path},
            {"op": "replace", "path": path, "value": {"c": "d"}},
            {"op": "test", "path": "/metadata/name", "value": rng.choice(NAMES)},
            {"op": "copy", "from": "/metadata/name", "path": "/metadata/annotations"},
            {"op": "explode", "path": path},
        )
    )
    return Step("PATCH", (kind.plural, name, ""), [operation], JSON_PATCH, _options(rng))


def _status(kind: Kind, name: str, rng: random.Random) -> Step:
    if kind.status is None:
        return _get(kind, name, rng)
    return Step("PATCH", (kind.plural, name, "status"), {"status": kind.status(rng)}, MERGE, _options(rng))


def _delete(kind: Kind, name: str, rng: random.Random) -> Step:
    options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
    options |= rng.choice(
        (
            {},
            {"gracePeriodSeconds": 0},
            {"propagationPolicy": rng.choice(("Background", "Foreground", "Orphan", "Sideways"))},
            {"preconditions": {"uid": Symbol("uid", kind.plural, name)}},
            {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}},
            {"preconditions": {"resourceVersion": Symbol("version", kind.plural, name)}},
            {"dryRun": ["All"]},
        )
    )
    if rng.random() < 0.1:
        return Step("DELETE", (kind.plural, "", ""), options, query={"labelSelector": "team=red"})
    return Step("DELETE", (kind.plural, name, ""), options)


def _list(kind: Kind, name: str, rng: random.Random) -> Step:
    query = rng.choice(
        (
            {},
            {
                "labelSelector": rng.choice(
                    ("team", "team=red", "team in (red,blue)", "!team", "team=,x", "a=b=c", "team notin (red)")
                )
            },
            {"fieldSelector": rng.choice((f"metadata.name={name}", *_FIELD_SELECTORS))},
            {"limit": "1"},
            {"limit": "x"},
            {"resourceVersion": rng.choice(("0", "99999999", "x"))},
            {"resourceVersionMatch": "Exact"},
            {"continue": "rubbish"},
        )
    )
    return Step("GET", (kind.plural, "", ""), query=query)


def _get(kind: Kind, name: str, rng: random.Random) -> Step:
    return Step("GET", (kind.plural, name, rng.choice(("", "", "status", "scale", "nothing"))))


def _bad(kind: Kind, name: str, rng: random.Random) -> Step:
    """Requests nobody should send."""
    obj = kind.new(name, rng)
    return rng.choice(
        (
            Step("POST", (kind.plural, "", ""), {**obj, "kind": "Other"}),
            Step("POST", (kind.plural, "", ""), {**obj, "apiVersion": "v9"}),
            Step("POST", (kind.plural, "", ""), {**obj, "metadata": {}}),
            Step("POST", (kind.plural, "", ""), {**obj, "metadata": {"name": "Not_A_Name"}}),
            Step("POST", (kind.plural, "", ""), {**obj, "metadata": {"name": name, "namespace": "elsewhere"}}),
            Step("POST", (kind.plural, "", ""), {**obj, "metadata": {"name": name, "resourceVersion": "5"}}),
            Step("POST", (kind.plural, "", ""), obj, "text/plain"),
            Step("POST", (kind.plural, name, ""), obj),
            Step("PUT", (kind.plural, "", ""), obj),
            Step("PUT", (kind.plural, name, ""), {**obj, "metadata": {"name": "another"}}),
            Step("PATCH", (kind.plural, name, ""), {"metadata": {"labels": {"a": "b"}}}, "application/json"),
            Step("PATCH", (kind.plural, name, ""), {"metadata": {"labels": "text"}}, MERGE),
            Step("PATCH", (kind.plural, name, ""), [1, 2], MERGE),
            Step("PATCH", (kind.plural, name, ""), {"op": "add"}, JSON_PATCH),
            Step("DELETE", (kind.plural, "nobody", "")),
            Step("GET", (kind.plural, "nobody", "")),
            Step("GET", ("nothings", "", "")),
        )
    )
