"""Random scripts of requests, the same for every server: names are fixed, versions and uids are symbols."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

import yaml

from tests.contract.differential.kind import OWN, Kind
from tests.contract.differential.kinds.table import APART, KINDS
from tests.contract.support import JSON_PATCH, MERGE, STRATEGIC, TABLE

NAMES = ("alpha", "beta", "gamma")
KINDS_OF_ONE = 5
"""How many kinds one script writes."""
APPLY = "application/apply-patch+yaml"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIALS = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_ACCEPTED = ("application/json", "application/json", TABLE, PARTIAL, PARTIALS)
_PATHS = ("/metadata/labels", "/metadata/annotations", "/data", "/spec", "/metadata/labels/team", "/nowhere/x")
_LABEL_SELECTORS = ("team", "team=red", "team in (red,blue)", "!team", "team=,x", "a=b=c", "team notin (red)")
_FIELD_SELECTORS = (
    "metadata.name!=alpha",
    "spec.unknown=1",
    "oops",
    "metadata.namespace=elsewhere",
)


class Symbol(NamedTuple):
    """A value that each server fills in: `version` or `uid` of what was last seen of an object."""

    what: str
    plural: str
    name: str


class Step(NamedTuple):
    """One request. `path` is (plural, name, subresource) within the script's namespace; a text is a body as it is."""

    method: str
    path: tuple[str, str, str]
    body: Any = None
    content_type: str = "application/json"
    query: dict[str, Any] = {}
    accept: str = "application/json"


def kinds_of(seed: int) -> list[Kind]:
    """The kinds that the script of a seed writes."""
    rng = random.Random(seed)
    kinds: list[Kind] = []
    for kind in rng.sample(KINDS, len(KINDS)):
        others = set().union(*(apart for apart in APART if kind.plural in apart))
        if not others.intersection(one.plural for one in kinds):
            kinds.append(kind)
        if len(kinds) == KINDS_OF_ONE:
            break
    return kinds


def script(seed: int, length: int) -> list[Step]:
    """The script of a seed."""
    kinds, rng = kinds_of(seed), random.Random(seed)
    steps = []
    for kind in kinds:  # something to begin with
        steps += [Step("POST", (kind.plural, "", ""), kind.new(kind.name(NAMES[0]), rng))]
    while len(steps) < length:
        steps.append(_step(kinds, rng))
    return steps


def _step(kinds: list[Kind], rng: random.Random) -> Step:
    kind = rng.choice(kinds)
    makers = (
        *(_create, _create, _replace, _patch, _patch, _json_patch, _apply, _status, _delete, _list, _get, _bad),
        *(_scale, _page, _odd_body),
    )
    return rng.choice(makers)(kind, kind.name(rng.choice(NAMES)), rng)


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
            {"name": f"{OWN}-renamed"},
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
    if version is not None and not kind.shared:  # controllers write those in between
        obj["metadata"]["resourceVersion"] = version
    if rng.random() < 0.1:
        obj["metadata"]["uid"] = Symbol("uid", kind.plural, name)
    return Step("PUT", (kind.plural, name, ""), obj, query=_options(rng))


def _patch(kind: Kind, name: str, rng: random.Random) -> Step:
    change = {"metadata": _metadata(rng)} if rng.random() < 0.4 else kind.change(rng)
    return Step("PATCH", (kind.plural, name, ""), change, rng.choice((MERGE, STRATEGIC)), _options(rng))


def _json_patch(kind: Kind, name: str, rng: random.Random) -> Step:
    path = rng.choice(_PATHS)
    operation = rng.choice(
        (
            {"op": "add", "path": path, "value": {"a": "b"}},
            {"op": "add", "path": "/metadata/labels/team", "value": "green"},
            {"op": "remove", "path": path},
            {"op": "replace", "path": path, "value": {"c": "d"}},
            {"op": "test", "path": "/metadata/name", "value": name if rng.random() < 0.5 else "another"},
            {"op": "copy", "from": "/metadata/name", "path": "/metadata/annotations"},
            {"op": "explode", "path": path},
        )
    )
    return Step("PATCH", (kind.plural, name, ""), [operation], JSON_PATCH, _options(rng))


def _apply(kind: Kind, name: str, rng: random.Random) -> Step:
    obj = kind.new(name, rng)
    if rng.random() < 0.3:
        obj["metadata"] |= {key: value for key, value in _metadata(rng).items() if value is not None}
    query = _options(rng) | rng.choice(({"fieldManager": "me"}, {"fieldManager": "me"}, {"fieldManager": "you"}, {}))
    return Step("PATCH", (kind.plural, name, ""), obj, APPLY, query | {"force": rng.choice(("true", "true", "false"))})


def _status(kind: Kind, name: str, rng: random.Random) -> Step:
    path = (kind.plural, name, "status")
    if kind.status is None:
        return Step("GET", path)
    if rng.random() < 0.3:
        return Step("PUT", path, {**kind.new(name, rng), "status": kind.status(rng)}, query=_options(rng))
    return Step("PATCH", path, {"status": kind.status(rng)}, MERGE, _options(rng))


def _scale(kind: Kind, name: str, rng: random.Random) -> Step:
    path = (kind.plural, name, "scale")
    if rng.random() < 0.4:
        return Step("GET", path)
    spec = {"spec": {"replicas": rng.choice((0, "x", -1, None))}}
    if rng.random() < 0.5:
        return Step("PATCH", path, spec, MERGE)
    meta = {"name": name, "namespace": OWN}
    return Step("PUT", path, {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": meta, **spec})


def _delete(kind: Kind, name: str, rng: random.Random) -> Step:
    options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
    options |= rng.choice(
        (
            {},
            {"gracePeriodSeconds": 0},
            {"propagationPolicy": rng.choice(("Background", "Foreground", "Orphan", "Sideways"))},
            {"preconditions": {"uid": Symbol("uid", kind.plural, name)}},
            {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}},
            {"dryRun": ["All"]},
            {} if kind.shared else {"preconditions": {"resourceVersion": Symbol("version", kind.plural, name)}},
        )
    )
    if rng.random() < 0.2:
        several = {"labelSelector": rng.choice(("team=red", "team in (red,blue)", "a=b=c"))}
        query = {"fieldSelector": f"metadata.name={name}"} if kind.cluster or rng.random() < 0.4 else several
        return Step("DELETE", (kind.plural, "", ""), options, query=query)
    return Step("DELETE", (kind.plural, name, ""), options)


def _list(kind: Kind, name: str, rng: random.Random) -> Step:
    query = rng.choice(
        (
            {},
            {"labelSelector": rng.choice(_LABEL_SELECTORS)},
            {"fieldSelector": rng.choice((f"metadata.name={name}", *_FIELD_SELECTORS))},
            {"limit": "x"},
            {"resourceVersion": rng.choice(("0", "99999999", "x"))},
            {"resourceVersionMatch": "Exact"},
            {"continue": "rubbish"},
        )
    )
    return Step("GET", (kind.plural, "", ""), query=query, accept=rng.choice(_ACCEPTED))


def _page(kind: Kind, name: str, rng: random.Random) -> Step:
    """A few of the objects, or the next few; of one's own only where all there are are."""
    if kind.cluster or kind.shared:
        return _list(kind, name, rng)
    query: dict[str, Any] = {"limit": rng.choice(("1", "2")), "fieldSelector": "metadata.name!=kube-root-ca.crt"}
    if rng.random() < 0.5:
        query["continue"] = Symbol("continue", kind.plural, "")
    return Step("GET", (kind.plural, "", ""), query=query, accept=rng.choice(_ACCEPTED))


def _get(kind: Kind, name: str, rng: random.Random) -> Step:
    return Step("GET", (kind.plural, name, rng.choice(("", "", "", "nothing"))), accept=rng.choice(_ACCEPTED))


def _odd_body(kind: Kind, name: str, rng: random.Random) -> Step:
    """Bodies in other forms, and of other types than they are said to be. Nothing is stored."""
    made = kind.new(name, rng)
    query = {"dryRun": "All"} | _options(rng)
    strict = query | {"fieldValidation": "Strict"}
    text = json.dumps(made)
    several = (kind.plural, "", "")
    return rng.choice(
        (
            Step("POST", several, yaml.safe_dump(made, allow_unicode=True), "application/yaml", query),
            Step("POST", several, yaml.safe_dump(made, allow_unicode=True), "application/json", query),
            Step("POST", several, '{"kind": "Twice", ' + text[1:], query=strict),
            Step(
                "POST",
                several,
                text.replace('"metadata": {', '"metadata": {"labels": {}, "labels": {}, '),
                query=query,
            ),
            Step("POST", several, text, rng.choice(("", "application/xml", "application/json; charset=utf-8")), query),
            Step("POST", several, text[: len(text) // 2], query=query),
            Step("POST", several, rng.choice(("", "[]", '"text"', "{}")), query=query),
            Step(
                "POST",
                several,
                {**made, "metadata": {"generateName": rng.choice((f"{OWN}-gen-", "Bad_"))}},
                query=query,
            ),
            Step("PUT", (kind.plural, name, ""), rng.choice(("", "[]", "{}")), query=query),
            Step(
                "PATCH",
                (kind.plural, name, ""),
                rng.choice(("", "[]", "{}", "rubbish")),
                rng.choice((MERGE, JSON_PATCH, STRATEGIC, APPLY)),
                query,
            ),
            Step("DELETE", (kind.plural, name, ""), rng.choice(("[]", '{"kind": "Other"}', "rubbish"))),
        )
    )


def _bad(kind: Kind, name: str, rng: random.Random) -> Step:
    """Requests with errors."""
    obj = kind.new(name, rng)
    return rng.choice(
        (
            Step("POST", (kind.plural, "", ""), {**obj, "kind": "Other"}),
            Step("POST", (kind.plural, "", ""), {**obj, "apiVersion": "v9"}),
            Step("POST", (kind.plural, "", ""), {**obj, "metadata": {}}),
            Step("POST", (kind.plural, "", ""), {**obj, "metadata": {"name": f"{OWN}-Not_A_Name"}}),
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
            Step("DELETE", (kind.plural, "absent", "")),
            Step("GET", (kind.plural, "absent", "")),
            Step("GET", ("nothings", "", "")),
        )
    )
