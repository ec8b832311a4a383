"""Admission plugins per kind, in Kubernetes' order (pkg/kubeapiserver/options/plugins.go).

The writer does what NamespaceLifecycle does and calls the admission of Volcano's kinds; quotas are checked last, with
the write itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from volcanoio.localcluster.apiserver.admission.pods import (
    add_default_tolerations,
    apply_runtime_class,
    set_service_account,
)
from volcanoio.localcluster.apiserver.admission.storage import (
    check_growth,
    protect_claim,
    protect_volume,
    set_default_class,
)
from volcanoio.localcluster.apiserver.registry.kinds.scheduling import (
    check_default,
    check_workload,
    protect_group,
    resolve_group_priority,
    resolve_priority,
)
from volcanoio.model.base import Manifest

if TYPE_CHECKING:
    from volcanoio.localcluster.apiserver.core import Core


Mutation: TypeAlias = Callable[[Manifest, str, "Core"], None]
"""Change a new object of a namespace in place, before webhooks and validation; may be called twice. May raise
ApiError."""

Check: TypeAlias = Callable[[Manifest, "Manifest | None", str, "Core"], None]
"""Refuse an object (and the one it replaces) after all validation; raises ApiError."""


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


def _protect_group(group: Manifest, namespace: str, core: Core) -> None:
    del namespace, core
    protect_group(group)


def _resolve_group(group: Manifest, namespace: str, core: Core) -> None:
    del namespace
    resolve_group_priority(group, core)


def _check_group(group: Manifest, old: Manifest | None, namespace: str, core: Core) -> None:
    if old is None:
        check_workload(group, namespace, core)


ON_CREATE: Final[dict[str, tuple[Mutation, ...]]] = {
    "pods": (_limit_pod, set_service_account, apply_runtime_class, _resolve, add_default_tolerations),
    "persistentvolumeclaims": (protect_claim, set_default_class),
    "persistentvolumes": (protect_volume,),
    "podgroups.scheduling.k8s.io": (_resolve_group, _protect_group),
}
"""Mutations by `plural.group`."""

CHECKS: Final[dict[str, Check]] = {
    "pods": _check_pod,
    "persistentvolumeclaims": _check_claim,
    "podgroups.scheduling.k8s.io": _check_group,
    "priorityclasses.scheduling.k8s.io": _check_class,
}
"""Checks by `plural.group`, for creates and updates of objects, not of their subresources."""
