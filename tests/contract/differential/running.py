"""Carrying a script out on a server, and its answers in a form that two servers can share."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from tests.contract.differential.kind import OWN
from tests.contract.differential.kinds.table import KINDS
from tests.contract.differential.normal import CLUSTER, normal, warnings
from tests.contract.differential.scripts import Step, Symbol
from tests.contract.support import Answer, Namespace

_COLLECTORS = frozenset(
    {
        *("foregroundDeletion", "orphan", "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"),
        "customresourcecleanup.apiextensions.k8s.io",
    }
)
"""Finalizers that controllers take away."""
_PATIENCE = 2000
_LAST = "zz-last"


class Run:
    """One script on one server. Remembers versions and uids, so that symbols can be filled in."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._known: dict[Symbol, str] = {}

    def carry_out(self, step: Step) -> dict[str, Any]:
        """Send one request; its answer, normalised."""
        body, query = self._filled(step.body), self._filled(step.query)
        answer = self._namespace.cluster.request(
            step.method,
            self._path(*step.path),
            body.encode() if isinstance(body, str) else body,
            content_type=step.content_type,
            accept=step.accept,
            **query,
        )
        self._learn(step, answer)
        self._wait_until_stable(step, answer)
        body = normal(answer.body, self._namespace.name, step.path[0])
        return {"code": answer.code, "warnings": warnings(answer.headers), "body": body}

    def _path(self, plural: str, name: str = "", subresource: str = "") -> str:
        path = self._namespace.path(plural, name.replace(OWN, self._namespace.name), subresource)
        return path.replace(f"/namespaces/{self._namespace.name}", "") if plural in CLUSTER else path

    def _filled(self, value: Any) -> Any:
        """Return the value with what this server has assigned, and the script's namespace."""
        match value:
            case Symbol():
                return self._known.get(value._replace(name=value.name.replace(OWN, self._namespace.name)), "1")
            case str():
                return value.replace(OWN, self._namespace.name)
            case dict():
                return {self._filled(key): self._filled(one) for key, one in value.items()}
            case list():
                return [self._filled(one) for one in value]
        return value

    def clear(self, plurals: Iterable[str]) -> None:
        """Delete the namespace and what there is of cluster-scoped kinds; nothing holds on to it."""
        cluster = self._namespace.cluster
        for plural in plurals:
            for obj in self._namespace.cluster.get(self._path(plural)).body.get("items") or ():
                meta = obj["metadata"]
                if plural in CLUSTER and self._namespace.name not in meta["name"]:
                    continue
                path = self._path(plural, meta["name"])
                if meta.get("finalizers"):
                    cluster.patch(path, {"metadata": {"finalizers": None}})
                if plural in CLUSTER:
                    cluster.delete(path)
        cluster.delete(f"/api/v1/namespaces/{self._namespace.name}")

    def watched(self, plural: str, since: str) -> dict[str, list[Any]]:
        """Return the watch events of each object of a kind since a version, normalised."""
        path, cluster = self._path(plural), self._namespace.cluster
        kind = next(one for one in KINDS if one.plural == plural)
        reported: dict[str, list[Any]] = {}
        with cluster.watch(path, resourceVersion=since) as events:
            rng = random.Random(_LAST)
            while cluster.create(path, kind.new(_LAST, rng)).code != 201:
                pass  # a random object need not be valid; another one is
            for event in events:
                name = event["object"]["metadata"]["name"]
                if name == _LAST:
                    break
                seen = normal(event["object"], self._namespace.name, plural)
                reported.setdefault(seen["metadata"]["name"], []).append([event["type"], seen])
        return reported

    def version(self, plural: str) -> str:
        """Return the current version of all resources."""
        listed = self._namespace.cluster.get(self._path(plural)).ok()
        return str(listed["metadata"]["resourceVersion"])

    def _wait_until_stable(self, step: Step, answer: Answer) -> None:
        """Wait for what controllers do after a write: scripts must not race with them."""
        plural, name, _ = step.path
        if answer.code >= 300 or step.method == "GET" or not isinstance(answer.body, dict):
            return
        written = answer.body.get("items") or (answer.body,)
        for one in {name or (obj.get("metadata") or {}).get("name", "") for obj in written} - {""}:
            path = self._path(plural, one)
            if not any(self._is_stable(plural, path) for _ in range(_PATIENCE)):
                raise AssertionError(f"{step}: no controller has finished what follows from it")

    def _is_stable(self, plural: str, path: str) -> bool:
        found = self._namespace.cluster.get(path)
        if found.code != 200:
            return True
        meta = found.body["metadata"]
        if meta.get("deletionTimestamp"):
            return not _COLLECTORS.intersection(meta.get("finalizers") or ())
        hard = found.body.get("spec", {}).get("hard") if plural == "resourcequotas" else None
        return not hard or bool(hard == found.body.get("status", {}).get("hard"))

    def _learn(self, step: Step, answer: Answer) -> None:
        plural = step.path[0]
        items = answer.body.get("items", [answer.body]) if isinstance(answer.body, dict) else []
        if answer.code == 200 and isinstance(answer.body, dict):
            self._known[Symbol("continue", plural, "")] = (answer.body.get("metadata") or {}).get("continue", "")
        for obj in items or ():
            meta = obj.get("metadata") or {}
            if answer.code < 300 and meta.get("name") and step.query.get("dryRun") is None:
                self._known[Symbol("uid", plural, meta["name"])] = meta.get("uid", "")
                self._known[Symbol("version", plural, meta["name"])] = meta.get("resourceVersion", "")
