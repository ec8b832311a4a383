"""Webhook configurations for one namespace, shared by the tests about webhooks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.hookserver import HookServer, Reviewer, allow
from tests.contract.support import Namespace, Obj, unique

GROUP = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{GROUP}/mutatingwebhookconfigurations"
VALIDATING = f"{GROUP}/validatingwebhookconfigurations"
CONFIG_MAPS: Obj = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
CONFIG_MAPS["operations"] = ["CREATE", "UPDATE"]
_TRIES = 500


def rule(*resources: str, group: str = "", operations: tuple[str, ...] = ("CREATE",), **fields: Any) -> Obj:
    """One rule of a webhook."""
    found = {"operations": list(operations), "apiGroups": [group], "apiVersions": ["v1"], "resources": list(resources)}
    return found | fields


class Configured:
    """Webhook configurations for one namespace, removed at the end."""

    def __init__(self, namespace: Namespace, hooks: HookServer) -> None:
        self.namespace = namespace
        self.hooks = hooks
        self._made: list[str] = []

    def hook(self, path: str, reviewer: Reviewer = allow, **fields: Any) -> Obj:
        """One webhook of a configuration, at a path of the server."""
        self.hooks.reviewers[path] = reviewer
        base = {
            "name": f"{path.strip('/')}.contract.volcanoio.dev",
            "clientConfig": {"url": self.hooks.url + path, "caBundle": self.hooks.ca_bundle},
            "rules": [CONFIG_MAPS],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace.name}},
        }
        return base | fields

    def install(self, collection: str, *webhooks: Obj, name: str = "", active: bool = True) -> str:
        """Store a configuration and wait until the server acts on it; returns its path."""
        kind = "MutatingWebhookConfiguration" if collection == MUTATING else "ValidatingWebhookConfiguration"
        marker = f"/marker-{unique('m')}"
        body: Obj = {
            "kind": kind,
            "apiVersion": GROUP.removeprefix("/apis/"),
            "metadata": {"name": name or unique("hooks")},
        }
        probes = [self.hook(marker, rules=[rule("secrets")])] if active else []
        body["webhooks"] = [*webhooks, *probes]
        self.namespace.cluster.create(collection, body).ok()
        path = f"{collection}/{body['metadata']['name']}"
        self._made.append(path)
        if active:
            self._wait(marker)
        return path

    def _wait(self, marker: str) -> None:
        for _ in range(_TRIES):
            secret = {"metadata": {"generateName": "marker-"}}
            self.namespace.cluster.create(self.namespace.path("secrets"), secret, dryRun="All").ok()
            if self.hooks.asked(marker):
                return
        pytest.fail("the configuration has no effect")

    def close(self) -> None:
        for path in self._made:
            self.namespace.cluster.delete(path).ok()
