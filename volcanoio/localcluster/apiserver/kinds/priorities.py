"""Priority classes, and the priority a pod gets from one (Kubernetes: plugin/pkg/admission/priority)."""

from __future__ import annotations

from typing import Any, Final

from volcanoio.engine.admission.fielderrors import FieldError, forbidden, invalid, unsupported
from volcanoio.localcluster.apiserver import errors
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.kinds.strategy import Strategy
from volcanoio.localcluster.apiserver.objects import Ref
from volcanoio.model.base import Manifest

HIGHEST: Final = 1_000_000_000
"""The highest value users may give a class."""

SYSTEM_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_NAME = "priorityclasses.scheduling.k8s.io"
_POLICIES = ("Never", "PreemptLowerPriority")


def resolve_priority(pod: Manifest, core: Core) -> None:
    """Set priority and preemptionPolicy from the class the pod names, or from the global default.

    Raises ApiError 403 when there is no such class.
    """
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    if name:
        stored = core.store.get(Ref(_NAME, "", str(name)))
        if stored is None:
            message = f"no PriorityClass with name {name} was found"
            raise errors.forbidden(core.registry.builtin("pods"), pod["metadata"].get("name", ""), message)
        chosen = stored.decode()
    else:
        chosen = _global_default(core) or {}
        if chosen:
            spec["priorityClassName"] = chosen["metadata"]["name"]
    spec["priority"] = chosen.get("value", 0)
    if not spec.get("preemptionPolicy"):
        spec["preemptionPolicy"] = chosen.get("preemptionPolicy", "PreemptLowerPriority")


def _global_default(core: Core) -> Manifest | None:
    """The class for pods that name none; the lowest where several claim to be it."""
    found: Manifest | None = None
    for stored in core.store.collection(_NAME).objects.values():
        if b'"globalDefault":true' in stored.data:
            one = stored.decode()
            if one.get("globalDefault") and (found is None or one["value"] < found["value"]):
                found = one
    return found


def system_class(name: str) -> Manifest:
    """One of the two classes every cluster has."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": SYSTEM_CLASSES[name],
        "description": f"Used for pods that must not be moved from their {'node' if 'node' in name else 'cluster'}.",
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _default(one: Manifest, core: Core) -> None:
    del core
    one.setdefault("value", 0)
    one.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _validate(one: Manifest) -> list[FieldError]:
    name, value = one["metadata"].get("name", ""), one.get("value")
    found: list[FieldError] = []
    if str(name).startswith("system-") and SYSTEM_CLASSES.get(name) != value:
        rule = "priority class names with 'system-' prefix are reserved for system use only"
        found.append(forbidden("metadata.name", rule))
    elif isinstance(value, int) and value > HIGHEST and name not in SYSTEM_CLASSES:
        found.append(forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST}"))
    elif not isinstance(value, int) or isinstance(value, bool) or value < -(2**31):
        found.append(invalid("value", value, "must be a 32-bit integer"))
    if one.get("preemptionPolicy") not in _POLICIES:
        found.append(unsupported("preemptionPolicy", one.get("preemptionPolicy"), _POLICIES))
    return found


def _validate_update(new: Manifest, old: Manifest) -> list[FieldError]:
    def changed(field: str) -> Any:
        return new.get(field) != old.get(field)

    return [
        forbidden(field, "may not be changed in an update.")
        for field in ("value", "preemptionPolicy")
        if changed(field)
    ]


PRIORITY_CLASSES = Strategy(default=_default, validate=_validate, validate_update=_validate_update)
