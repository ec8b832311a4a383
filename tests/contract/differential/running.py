"""Carrying a script out on a server, and its answers in a form that two servers can share."""

from __future__ import annotations

import json
import random
import re
from typing import Any

from tests.contract.differential.kinds import KINDS
from tests.contract.differential.scripts import Step, Symbol
from tests.contract.support import Answer, Namespace

_SERVERS_OWN = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "deletionTimestamp", "selfLink")
_ALIVE = "still there"
_COLLECTORS = {"foregroundDeletion", "orphan"}
_PATIENCE = 2000
_LAST = "zz-last"
_HANDED_OUT = frozenset({"clusterIP", "clusterIPs", "ports"})
_EVERYWHERE = "kube-root-ca.crt"
"""The cluster's own ConfigMap in each namespace."""


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
        self._settle(step, answer)
        warnings = sorted(value for name, value in answer.headers.items() if name.lower() == "warning")
        return {"code": answer.code, "warnings": warnings, "body": normal(answer.body, self._namespace.name)}

    def watched(self, plural: str, since: str) -> dict[str, list[Any]]:
        """What a watch has told of each object of a kind since a version, normalised."""
        path, cluster = self._namespace.path(plural), self._namespace.cluster
        kind = next(one for one in KINDS if one.plural == plural)
        told: dict[str, list[Any]] = {}
        with cluster.watch(path, resourceVersion=since) as events:
            rng = random.Random(_LAST)
            while cluster.create(path, kind.new(_LAST, rng)).code != 201:
                pass  # a random object need not be valid; another one is
            for event in events:
                name = event["object"]["metadata"]["name"]
                if name == _LAST:
                    break
                told.setdefault(name, []).append([event["type"], normal(event["object"], self._namespace.name)])
        return told

    def version(self, plural: str) -> str:
        """The version of everything, now."""
        listed = self._namespace.cluster.get(self._namespace.path(plural)).ok()
        return str(listed["metadata"]["resourceVersion"])

    def _settle(self, step: Step, answer: Answer) -> None:
        """Wait for what controllers do after a write: scripts must not race with them."""
        name = step.path[1] or (answer.body.get("metadata") or {}).get("name", "")
        if answer.code >= 300 or step.method == "GET" or not name:
            return
        for _ in range(_PATIENCE):
            found = self._namespace.cluster.get(self._namespace.path(step.path[0], name))
            meta = found.body["metadata"] if found.code == 200 else {}
            held = meta.get("deletionTimestamp") and _COLLECTORS.intersection(meta.get("finalizers") or ())
            quota = step.path[0] == "resourcequotas" and found.code == 200 and not meta.get("deletionTimestamp")
            hard = found.body.get("spec", {}).get("hard") if quota else None
            if not held and (not hard or hard == found.body.get("status", {}).get("hard")):
                return
        raise AssertionError(f"{step}: no controller has finished what follows from it")

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
    text = re.sub(r"(ResourceVersion in (?:the precondition|record)) \(\d+\)", r"\1 (VERSION)", text)
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
    if {"hard", "template"} & (obj.get("spec") or {}).keys():  # their status is written by controllers, in time
        obj = {**obj, "status": {}}
    if "clusterIP" in (obj.get("spec") or {}):  # addresses are handed out
        obj = {**obj, "spec": {key: bool(value) if key in _HANDED_OUT else value for key, value in obj["spec"].items()}}
    if obj.get("kind", "").endswith("List") and isinstance(obj.get("items"), list):
        said = {key: True for key, value in obj["metadata"].items() if value}
        return {
            **obj,
            "metadata": said,
            "items": [_without_own(one) for one in obj["items"] if one["metadata"].get("name") != _EVERYWHERE],
        }
    meta = obj.get("metadata")
    if isinstance(meta, dict):
        kept: dict[str, Any] = {key: value for key, value in meta.items() if key not in _SERVERS_OWN}
        if meta.get("deletionTimestamp"):
            kept["deletionTimestamp"] = _ALIVE
        return {**obj, "metadata": kept}
    return obj
