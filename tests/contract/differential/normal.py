"""Answers in a form that two servers can share: without what each makes up by itself, or its controllers in time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.contract.differential.kinds.table import KINDS
from tests.contract.support import Obj

CLUSTER: Final = frozenset(kind.plural for kind in KINDS if kind.cluster)
SHARED: Final = frozenset(kind.plural for kind in KINDS if kind.shared)
_SERVERS_OWN: Final = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "managedFields", "deletionTimestamp", "selfLink"}
)
_CONTROLLERS: Final = frozenset(
    {"deployment.kubernetes.io/revision", "node.alpha.kubernetes.io/ttl", "deprecated.daemonset.template.generation"}
)
"""Annotations that controllers set in their own time."""
_HANDED_OUT: Final = frozenset({"clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"})
_FOREIGN: Final = re.compile(r"kube-root-ca\.crt|.*\.[0-9a-f]{10,}").fullmatch
"""Names of the objects that a cluster creates in each namespace, and of controllers' Events."""
_IDLE: Final = "stored, but no controller of this server acts on it"
_DUMP: Final = r"(?:\{(?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*\}|\[\{.*?\}\])(?=: |\"|, |\])"
"""A struct in a message: Go shows its own names for what is in it."""
_TEXTS: Final = (
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
    (r"(Too large resource version: \d+, current: )\d+", r"\1VERSION"),
    (r"(ResourceVersion in (?:the precondition|record)) \(\d+\)", r"\1 (VERSION)"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (rf"( value: ){_DUMP}", r"\1{...}"),
    (r"\b10\.(?:96|97|98|99|1\d\d)\.\d+\.\d+\b", "ADDRESS"),
    (r"(immutable after creation(?: except [^\"\\]*claims)?)(?:\\.|[^\"\\])*", r"\1"),
    (r"\b(\d+:)3\d{4}(/(?:TCP|UDP))\b", r"\1PORT\2"),
    (r"(Duplicate value: )3\d{4}\b", r"\1PORT"),
    (r"(Unsupported value: )null(: supported values: ..storage)", r"\1{...}\2"),
    (r"(Bad_)[a-z0-9]{5}\b", r"\1SUFFIX"),
    (r"(NAMESPACE-gen-)[a-z0-9]{5}", r"\1SUFFIX"),
)
_TIMES: Final = frozenset({"Age", "AGE", "Last Seen", "First Seen", "Created At", "Last Schedule", "Duration"})


def warnings(headers: Mapping[str, str]) -> list[str]:
    """Return the warnings of an answer without those that only the embedded server gives (docs/differences.md)."""
    found = re.findall(r'299 - "(?:[^"\\]|\\.)*"', headers.get("warning", ""))
    return sorted(one for one in found if not any(text in one for text in (_IDLE, " has no subresource ")))


def normal(body: Any, namespace: str, plural: str = "") -> Any:
    """Return a normalised response about objects of a kind."""
    if not isinstance(body, dict):
        return "" if body in (b"", None) else "not JSON"
    text = json.dumps(body).replace(namespace, "NAMESPACE")
    for pattern, plain in _TEXTS:
        text = re.sub(pattern, plain, text)
    found: Obj = json.loads(text)
    kind = found.get("kind", "")
    return _FORMS.get(kind, _list if kind.endswith("List") and "items" in found else _object)(found, plural)


def _status(status: Obj, plural: str) -> Obj:
    """A refusal, or an object's end. Some rules are looked at twice there, and many in the order of Go's maps: none."""
    del plural
    if "errors:\n" in str(status.get("message")):  # of maps, in no order
        first, *lines = status["message"].split("\n")
        status = {**status, "message": "\n".join([first, *sorted(lines)])}
    details = {key: value for key, value in (status.get("details") or {}).items() if key != "retryAfterSeconds"}
    causes = details.get("causes")
    if not causes:
        return {**status, "details": details} if "details" in status else status
    once = {json.dumps(one, sort_keys=True): one for one in causes}
    message = status["message"].partition("[")[0] if len(causes) > 1 else status["message"]
    return {**status, "message": message, "details": {**details, "causes": [once[key] for key in sorted(once)]}}


def _table(table: Obj, plural: str) -> Obj:
    rows = [row for row in table.get("rows") or () if not _is_foreign(row["object"], plural)]
    names = [column["name"] for column in table.get("columnDefinitions") or ()]
    shown = [
        {
            **row,
            "cells": row["cells"][:1]
            if plural in SHARED
            else [None if name in _TIMES else cell for name, cell in zip(names, row["cells"], strict=False)],
            "object": _object(row["object"], plural),
        }
        for row in rows
    ]
    columns = [{**column, "description": ""} for column in table.get("columnDefinitions") or ()]
    return {**table, "columnDefinitions": columns, "metadata": _list_metadata(table), "rows": shown}


def _list(found: Obj, plural: str) -> Obj:
    items = [_object(one, plural) for one in found["items"] or () if not _is_foreign(one, plural)]
    return {**found, "metadata": _list_metadata(found), "items": items}


def _list_metadata(found: Obj) -> Obj:
    return {key: value if key == "remainingItemCount" else True for key, value in found["metadata"].items() if value}


def _is_foreign(obj: Obj, plural: str) -> bool:
    name = obj["metadata"].get("name", "")
    return bool(_FOREIGN(name)) or (plural in CLUSTER and "NAMESPACE" not in name)


def _object(obj: Obj, plural: str) -> Obj:
    made = {**obj}
    if plural in SHARED and "status" in made:
        made["status"] = {}
    if isinstance(meta := obj.get("metadata"), dict):
        made["metadata"] = _metadata(meta)
    if isinstance(spec := obj.get("spec"), dict):
        made["spec"] = _spec(spec)
    return made


def _metadata(meta: Obj) -> Obj:
    kept: Obj = {key: value for key, value in meta.items() if key not in _SERVERS_OWN}
    if meta.get("deletionTimestamp"):
        kept["deletionTimestamp"] = "still there"
    notes = {key: value for key, value in (kept.pop("annotations", None) or {}).items() if key not in _CONTROLLERS}
    return kept | ({"annotations": notes} if notes else {})


def _spec(spec: Obj) -> Obj:
    """Without addresses and ports that are handed out, and taints that say how a node is."""
    made = {key: bool(value) if key in _HANDED_OUT else value for key, value in spec.items()}
    if "clusterIP" in spec and spec.get("ports"):
        made["ports"] = [{**port, "nodePort": bool(port.get("nodePort"))} for port in spec["ports"]]
    if isinstance(spec.get("taints"), list):
        made["taints"] = [one for one in spec["taints"] if not one["key"].startswith("node.kubernetes.io/")]
        if not made["taints"]:
            del made["taints"]
    return made


_FORMS: Final[dict[str, Callable[[Obj, str], Obj]]] = {"Status": _status, "Table": _table}
