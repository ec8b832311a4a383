"""Definitions for tests of custom resources, and what an answer says of their faults."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.contract.support import SECONDS, Answer, Cluster, Obj, gone

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(plural: str, schema: Obj, *, group: str, scope: str = "Cluster", **version: Any) -> Obj:
    """A definition with one version, v1; `version` adds to that."""
    kind = plural.removesuffix("s").capitalize()
    first = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {
                "plural": plural,
                "singular": kind.lower(),
                "kind": kind,
                "listKind": f"{kind}List",
            },
            "versions": [first],
        },
    }


def with_spec(properties: Obj) -> Obj:
    """The schema of an object with a spec of these properties."""
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


@contextmanager
def served(cluster: Cluster, body: Obj) -> Iterator[str]:
    """Apply a definition, wait until its objects are served, and delete it at the end; yields their path."""
    name = body["metadata"]["name"]
    cluster.create(CRDS, body).ok()
    try:
        plural, _, group = name.partition(".")
        path = f"/apis/{group}/v1/{plural}"
        until(cluster, path)
        yield path
    finally:
        cluster.delete(f"{CRDS}/{name}")
        gone(cluster, f"{CRDS}/{name}")


def until(cluster: Cluster, path: str, code: int = 200) -> None:
    """Wait until a path answers with a code: a real server starts and stops serving a little after it says so."""
    deadline = time.monotonic() + SECONDS
    while cluster.get(path).code != code:
        assert time.monotonic() < deadline, f"{path} does not answer with {code}"


def faults(answer: Answer) -> set[tuple[str, str, str]]:
    """Field, reason and message of each cause of a refusal."""
    causes = (answer.body.get("details") or {}).get("causes", [])
    return {(one.get("field", ""), one.get("reason", ""), one["message"]) for one in causes}


def changed(cluster: Cluster, name: str, change: Any) -> Answer:
    """Update a definition as often as it takes: the server's own controllers write its status meanwhile."""
    while True:
        body = cluster.get(f"{CRDS}/{name}").ok()
        change(body)
        answer = cluster.replace(f"{CRDS}/{name}", body)
        if answer.code != 409:
            return answer
