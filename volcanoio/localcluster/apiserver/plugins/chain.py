"""Which plugin acts on which kind, in Kubernetes' order (pkg/kubeapiserver/options/plugins.go).

NamespaceLifecycle and the admission of our own kinds are the writer's; quotas come last, with the write itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from volcanoio.localcluster.apiserver.kinds.priorities import check_default, resolve_priority
from volcanoio.localcluster.apiserver.plugins.pods import give_account, tolerate_lost_nodes
from volcanoio.localcluster.apiserver.plugins.runtimeclasses import use_runtime_class
from volcanoio.localcluster.apiserver.plugins.storage import check_growth, give_class, protect_claim, protect_volume
from volcanoio.model.base import Manifest

if TYPE_CHECKING:
    from volcanoio.localcluster.apiserver.core import Core

Mutation: TypeAlias = Callable[[Manifest, str, "Core"], None]
"""Changes a new object of a namespace in place, before webhooks and rules; may be called twice. May raise ApiError."""

Check: TypeAlias = Callable[[Manifest, "Manifest | None", str, "Core"], None]
"""Refuses an object (and the one it replaces) after all rules; raises ApiError."""


def _limit_pod(pod: Manifest, namespace: str, core: Core) -> None:
    core.limits.default_pod(pod, namespace)


def _resolve(pod: Manifest, namespace: str, core: Core) -> None:
    del namespace
    resolve_priority(pod, core)


def _check_pod(pod: Manifest, old: Manifest | None, namespace: str, core: Core) -> None:
    if old is None:
        core.limits.check_pod(pod, namespace)


def _check_claim(claim: Manifest, old: Manifest | None, namespace: str, core: Core) -> None:
    core.limits.check_claim(claim, namespace)
    if old is not None:
        check_growth(claim, old, core)


def _check_class(one: Manifest, old: Manifest | None, namespace: str, core: Core) -> None:
    del old, namespace
    check_default(one, core)


ON_CREATE: Final[dict[str, tuple[Mutation, ...]]] = {
    "pods": (_limit_pod, give_account, use_runtime_class, _resolve, tolerate_lost_nodes),
    "persistentvolumeclaims": (protect_claim, give_class),
    "persistentvolumes": (protect_volume,),
}
"""By `plural.group`."""

CHECKS: Final[dict[str, Check]] = {
    "pods": _check_pod,
    "persistentvolumeclaims": _check_claim,
    "priorityclasses.scheduling.k8s.io": _check_class,
}
"""By `plural.group`; for creations and updates of objects, not of their subresources."""
