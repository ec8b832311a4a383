"""Namespaces and nodes."""

from __future__ import annotations

from typing import Final

from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.kinds.strategy import Strategy
from volcanoio.model.base import Manifest

SYSTEM_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease", "volcano-system")
"""Made when a server starts for the first time."""

PROTECTED_NAMESPACES: Final = frozenset({"default", "kube-system", "kube-public"})
"""Never deleted."""

NAME_LABEL: Final = "kubernetes.io/metadata.name"


def _create_namespace(namespace: Manifest, core: Core) -> None:
    del core
    stated = (namespace.get("spec") or {}).get("finalizers") or []
    namespace["spec"] = {"finalizers": [*(one for one in stated if one != "kubernetes"), "kubernetes"]}
    namespace["status"] = {"phase": "Active"}


def _default_namespace(namespace: Manifest, core: Core) -> None:
    del core
    metadata = namespace["metadata"]
    labels = metadata.get("labels")
    if not isinstance(labels, dict):
        labels = metadata["labels"] = {}
    labels[NAME_LABEL] = metadata.get("name", "")


def _default_node(node: Manifest, core: Core) -> None:
    """A node may be made whole in one request, as tests and simulators do: capacity without allocatable means both."""
    del core
    if not isinstance(node.get("spec"), dict):
        node["spec"] = {}
    status = node.get("status")
    if isinstance(status, dict) and isinstance(status.get("capacity"), dict):
        status.setdefault("allocatable", dict(status["capacity"]))


def _keep_finalizers(new: Manifest, old: Manifest) -> None:
    """What a namespace waits for is changed by its subresource `finalize` alone."""
    if "spec" in old:
        new["spec"] = old["spec"]


NAMESPACES = Strategy(create=_create_namespace, default=_default_namespace, keep=_keep_finalizers)
NODES = Strategy(default=_default_node)
