"""Priority classes, and the priority a pod gets from one (Kubernetes: plugin/pkg/admission/priority)."""

from __future__ import annotations

from typing import Final

from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.objects import Ref
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.kinds.strategy import Strategy
from volcanoio.model.base import Manifest
from volcanoio.model.validation.field_errors import FieldError, forbidden, invalid, unsupported

HIGHEST: Final = 1_000_000_000
"""The highest value users may give a class."""

SYSTEM_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_DESCRIPTIONS: Final = {
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
    ),
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
}
_NAME = "priorityclasses.scheduling.k8s.io"
_POLICIES = ("PreemptLowerPriority", "Never")


def resolve_priority(pod: Manifest, core: Core) -> None:
    """Set priority and preemptionPolicy from the pod's class, or from the global default.

    Raises ApiError 403 for a missing class, or for other values than those of the class.
    """
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    if name:
        stored = core.store.get(Ref(_NAME, "", str(name)))
        if stored is None:
            raise _refused(pod, core, f"no PriorityClass with name {name} was found")
        chosen = stored.decode()
    else:
        chosen = _global_default(core) or {}
        if chosen:
            spec["priorityClassName"] = chosen["metadata"]["name"]
    for field, what, default in (
        ("priority", "integer value of priority", 0),
        ("preemptionPolicy", "string value of PreemptionPolicy", "PreemptLowerPriority"),
    ):
        computed = chosen.get("value" if field == "priority" else field, default)
        stated = spec.get(field)
        if stated is not None and stated != computed:
            rule = f"the {what} ({stated}) must not be provided in pod spec; priority admission controller computed"
            raise _refused(pod, core, f"{rule} {computed} from the given PriorityClass name")
        spec[field] = computed


def _refused(pod: Manifest, core: Core, why: str) -> errors.ApiError:
    metadata = pod["metadata"]
    name = metadata.get("name") or metadata.get("generateName", "")
    return errors.forbidden(core.registry.builtin("pods"), name, why)


def check_default(one: Manifest, core: Core) -> None:
    """Raise ApiError 403 when another class is the global default."""
    found = _global_default(core) if one.get("globalDefault") else None
    name = one["metadata"]["name"]
    if found is not None and found["metadata"]["name"] != name:
        why = f"PriorityClass {found['metadata']['name']} is already marked as default. Only one default can exist"
        raise errors.forbidden(core.registry.builtin(_NAME), name, why)


def _global_default(core: Core) -> Manifest | None:
    """Return the class for pods that name none; the lowest one when there are several."""
    found: Manifest | None = None
    for stored in core.store.collection(_NAME).objects.values():
        if b'"globalDefault":true' in stored.data:
            one = stored.decode()
            if one.get("globalDefault") and (found is None or one["value"] < found["value"]):
                found = one
    return found


def system_class(name: str) -> Manifest:
    """Return one of the two system classes."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": SYSTEM_CLASSES[name],
        "description": _DESCRIPTIONS[name],
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
        why = f"{name} is not a known system priority class"
        if name in SYSTEM_CLASSES:
            why = f"value of {name} system-priorityclass must be {SYSTEM_CLASSES[name]}"
        rule = "priority class names with 'system-' prefix are reserved for system use only"
        found.append(forbidden("metadata.name", f"{rule}. error: {why}"))
    elif isinstance(value, int) and value > HIGHEST and name not in SYSTEM_CLASSES:
        found.append(forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST}"))
    elif not isinstance(value, int) or isinstance(value, bool) or value < -(2**31):
        found.append(invalid("value", value, "must be a 32-bit integer"))
    if one.get("preemptionPolicy") not in _POLICIES:
        found.append(unsupported("preemptionPolicy", one.get("preemptionPolicy"), _POLICIES))
    return found


def _validate_update(new: Manifest, old: Manifest) -> list[FieldError]:
    found: list[FieldError] = []
    if new.get("value") != old.get("value"):
        found.append(forbidden("value", "may not be changed in an update."))
    policy = new.get("preemptionPolicy")
    if policy != old.get("preemptionPolicy"):
        found.append(invalid("preemptionPolicy", policy, "field is immutable"))
    return found


PRIORITY_CLASSES = Strategy(default=_default, validate=_validate, validate_update=_validate_update, only_updates=True)
