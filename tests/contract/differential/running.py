"""Carrying a script out on a server, and its answers in a form that two servers can share."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.contract.differential.scripts import Step, Symbol
from tests.contract.support import Answer, Namespace

_SERVERS_OWN = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "deletionTimestamp", "selfLink")
_ALIVE = "still there"


class Run:
    """One script on one server. Remembers versions and uids, so that symbols can be filled in."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._known: dict[Symbol, str] = {}

    def carry_out(self, step: Step) -> dict[str, Any]:
        """Send one request; its answer, normalised."""
        path = self._namespace.path(*step.path)
        cluster = self._namespace.cluster
        body = _filled(step.body, self._known)
        answer = cluster.request(step.method, path, body, content_type=step.content_type, headers=None, **step.query)
        self._learn(step, answer)
        warnings = sorted(value for name, value in answer.headers.items() if name.lower() == "warning")
        return {"code": answer.code, "warnings": warnings, "body": normal(answer.body, self._namespace.name)}

    def _learn(self, step: Step, answer: Answer) -> None:
        plural = step.path[0]
        items = answer.body.get("items", [answer.body]) if isinstance(answer.body, dict) else []
        for obj in items or ():
            meta = obj.get("metadata") or {}
            if answer.code < 300 and meta.get("name") and step.query.get("dryRun") is None:
                self._known[Symbol("uid", plural, meta["name"])] = meta.get("uid", "")
                self._known[Symbol("version", plural, meta["name"])] = meta.get("resourceVersion", "")


def _filled(value: Any, known: dict[Symbol, str]) -> Any:
    if isinstance(value, Symbol):
        return known.get(value, "1")
    if isinstance(value, dict):
        return {key: _filled(one, known) for key, one in value.items()}
    return [_filled(one, known) for one in value] if isinstance(value, list) else value


def normal(body: Any, namespace: str) -> Any:
    """An answer without what every server makes up by itself: versions, uids, times."""
    if not isinstance(body, dict):
        return "" if body in (b"", None) else "not JSON"
    text = json.dumps(body)
    text = text.replace(namespace, "NAMESPACE")
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID", text)
    text = re.sub(r"(Too large resource version: \d+, current: )\d+", r"\1VERSION", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME", text)
    return _without_own(json.loads(text))


def _without_own(obj: Any) -> Any:
    if not isinstance(obj, dict):
        return obj
    if obj.get("kind") == "Status" and (obj.get("details") or {}).get("causes"):
        causes = obj["details"]["causes"]  # some rules are looked at twice there
        return obj | {
            "details": obj["details"] | {"causes": [one for at, one in enumerate(causes) if one not in causes[:at]]}
        }
    if "hard" in (obj.get("spec") or {}):  # a quota's status is written by a controller, sooner or later
        obj = {**obj, "status": {}}
    if obj.get("kind", "").endswith("List") and isinstance(obj.get("items"), list):
        said = {key: bool(value) for key, value in obj["metadata"].items()}
        return {**obj, "metadata": said, "items": [_without_own(one) for one in obj["items"]]}
    meta = obj.get("metadata")
    if isinstance(meta, dict):
        kept: dict[str, Any] = {key: value for key, value in meta.items() if key not in _SERVERS_OWN}
        if meta.get("deletionTimestamp"):
            kept["deletionTimestamp"] = _ALIVE
        return {**obj, "metadata": kept}
    return obj
