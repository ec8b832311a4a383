"""Kinds of scheduling.k8s.io: priority classes, native PodGroups and their Workloads.

Also the priority that a pod or PodGroup gets from a class (Kubernetes: plugin/pkg/admission/priority), the protection
of PodGroups that are in use, and their references to Workloads (plugin/pkg/admission/podgroup). PodGroups and Workloads
follow Kubernetes 1.37 with its feature gates TopologyAwareWorkloadScheduling and DRAWorkloadResourceClaims on, and
those of composite groups and of preemption policies off.
"""

from __future__ import annotations

from typing import Any, Final

from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.objects import Ref
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.kinds.rules import (
    IMMUTABLE,
    at,
    immutable,
    listed,
    name_errors,
    reference_errors,
    spec_of,
)
from volcanoio.localcluster.apiserver.registry.kinds.strategy import Strategy
from volcanoio.model.base import Manifest
from volcanoio.model.validation.dns_names import label_rule, qualified_rule, subdomain_rule
from volcanoio.model.validation.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    too_many,
    unsupported,
)
from volcanoio.model.workloads import PROTECTION

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
    chosen = _class_of(pod, "pods", core)
    for field, what, default in (
        ("priority", "integer value of priority", 0),
        ("preemptionPolicy", "string value of PreemptionPolicy", "PreemptLowerPriority"),
    ):
        computed = chosen.get("value" if field == "priority" else field, default)
        stated = spec.get(field)
        if stated is not None and stated != computed:
            rule = f"the {what} ({stated}) must not be provided in pod spec; priority admission controller computed"
            raise _refused(pod, "pods", core, f"{rule} {computed} from the given PriorityClass name")
        spec[field] = computed


def _class_of(obj: Manifest, resource: str, core: Core) -> Manifest:
    """Return the class that a spec names, else the global default, which is then named; {} if there is none."""
    spec = obj["spec"]
    name = spec.get("priorityClassName")
    if name:
        stored = core.store.get(Ref(_NAME, "", str(name)))
        if stored is None:
            raise _refused(obj, resource, core, f"no PriorityClass with name {name} was found")
        return stored.decode()
    chosen = _global_default(core) or {}
    if chosen:
        spec["priorityClassName"] = chosen["metadata"]["name"]
    return chosen


def _refused(obj: Manifest, resource: str, core: Core, why: str) -> errors.ApiError:
    metadata = obj["metadata"]
    name = metadata.get("name") or metadata.get("generateName", "")
    return errors.forbidden(core.registry.builtin(resource), name, why)


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


_GROUPS: Final = "podgroups.scheduling.k8s.io"
_WORKLOADS: Final = "workloads.scheduling.k8s.io"
_MOST_TEMPLATES: Final = 8
_MOST_CLAIMS: Final = 4
_MOST_TOPOLOGIES: Final = 1
_POLICIES_OF_GROUPS: Final = ("basic", "gang")
_DISRUPTIONS: Final = ("single", "all")
_CLAIM_SOURCES: Final = ("resourceClaimName", "resourceClaimTemplateName")
_FIXED: Final = ("schedulingConstraints", "resourceClaims", "disruptionMode", "priorityClassName", "priority")
"""Fields of a PodGroup and of a template that never change."""


def protect_group(group: Manifest) -> None:
    """Add the finalizer that keeps a PodGroup while it is in use."""
    finalizers = group["metadata"].setdefault("finalizers", [])
    if PROTECTION not in finalizers:
        finalizers.append(PROTECTION)


def resolve_group_priority(group: Manifest, core: Core) -> None:
    """Set the priority of a PodGroup from its class, or from the global default.

    Raises ApiError 403 for a missing class, or for another priority than that of the class.
    """
    spec = spec_of(group)
    computed = _class_of(group, _GROUPS, core).get("value", 0)
    stated = spec.get("priority")
    if stated is not None and stated != computed:
        why = f"priority set in the pod group ({stated}) must match the priority computed ({computed})"
        raise _refused(group, _GROUPS, core, f"{why} based on the priority class set in the spec")
    spec["priority"] = computed


def check_workload(group: Manifest, namespace: str, core: Core) -> None:
    """Refuse a new PodGroup whose Workload or template does not exist. Raises ApiError 403."""
    reference = at(group, "spec.workloadRef")
    if not isinstance(reference, dict):
        return
    name, template = reference.get("workloadName", ""), reference.get("templateName", "")
    stored = core.store.get(Ref(_WORKLOADS, namespace, name))
    if stored is None:
        raise _refused(group, _GROUPS, core, f'PodGroup rejected: Workload "{name}" not found')
    workload = stored.decode()
    if workload["metadata"].get("deletionTimestamp"):
        raise _refused(group, _GROUPS, core, f'PodGroup rejected: Workload "{name}" is being deleted')
    if all(one.get("name") != template for one in listed(at(workload, "spec.podGroupTemplates"))):
        why = f'PodGroup rejected: PodGroupTemplate "{template}" not found in Workload "{name}"'
        raise _refused(group, _GROUPS, core, why)


def _create_group(group: Manifest, core: Core) -> None:
    del core
    group["status"] = {}


def _default_group(group: Manifest, core: Core) -> None:
    del core
    spec_of(group).setdefault("disruptionMode", {"single": {}})


def _validate_group(group: Manifest) -> list[FieldError]:
    spec = spec_of(group)
    found = _group_errors(spec, "spec")
    if isinstance(reference := spec.get("workloadRef"), dict):
        path = "spec.workloadRef"
        found += name_errors(reference.get("workloadName"), f"{path}.workloadName", subdomain_rule)
        found += name_errors(reference.get("templateName"), f"{path}.templateName", label_rule)
    return found


def _group_errors(spec: Manifest, path: str) -> list[FieldError]:
    """Return errors of the fields that PodGroups and templates have in common."""
    policy = spec.get("schedulingPolicy")
    found = _union_errors(policy or {}, f"{path}.schedulingPolicy", _POLICIES_OF_GROUPS)
    if isinstance(gang := (policy or {}).get("gang"), dict):
        where = f"{path}.schedulingPolicy.gang.minCount"
        if not (least := gang.get("minCount")):
            found.append(required(where))
        elif least < 1:
            found.append(invalid(where, least, "must be greater than or equal to 1"))
    if isinstance(mode := spec.get("disruptionMode"), dict):
        found += _union_errors(mode, f"{path}.disruptionMode", _DISRUPTIONS)
    found += _topology_errors(at(spec, "schedulingConstraints.topology"), f"{path}.schedulingConstraints.topology")
    found += _claim_errors(listed(spec.get("resourceClaims")), f"{path}.resourceClaims")
    if (name := spec.get("priorityClassName")) and (rule := subdomain_rule(name)):
        found.append(invalid(f"{path}.priorityClassName", name, rule))
    if (value := spec.get("priority")) is not None and value > HIGHEST:
        found.append(invalid(f"{path}.priority", value, f"must be less than or equal to {HIGHEST}"))
    return found


def _union_errors(holder: Manifest, path: str, members: tuple[str, ...]) -> list[FieldError]:
    """Return the error of a union of which not exactly one member is set."""
    named = [name for name in members if holder.get(name) is not None]
    every = ", ".join(f"`{name}`" for name in members)
    if not named:
        return [invalid(path, "", f"must specify one of: {every}")]
    if len(named) > 1:
        return [invalid(path, f"{{{', '.join(named)}}}", f"must specify exactly one of: {every}")]
    return []


def _topology_errors(constraints: Any, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    if len(items := listed(constraints)) > _MOST_TOPOLOGIES:
        found.append(too_many(path, len(items), _MOST_TOPOLOGIES))
    for number, one in enumerate(items):
        found += name_errors(one.get("key"), f"{path}[{number}].key", qualified_rule)
    return found


def _claim_errors(claims: list[Manifest], path: str) -> list[FieldError]:
    found = [too_many(path, len(claims), _MOST_CLAIMS)] if len(claims) > _MOST_CLAIMS else []
    for number, one in enumerate(claims):
        where = f"{path}[{number}]"
        found += name_errors(one.get("name"), f"{where}.name") + _union_errors(one, where, _CLAIM_SOURCES)
        for source in _CLAIM_SOURCES:
            if (name := one.get(source)) and (rule := subdomain_rule(name)):
                found.append(invalid(f"{where}.{source}", name, rule))
    return found + _duplicate_errors(claims, path)


def _duplicate_errors(items: list[Manifest], path: str) -> list[FieldError]:
    names = [one.get("name") for one in items]
    return [duplicate(f"{path}[{at}]", items[at]) for at, name in enumerate(names) if name in names[:at]]


def _validate_group_update(new: Manifest, old: Manifest) -> list[FieldError]:
    found = _policy_changes(new["spec"], old["spec"], "spec")
    return found + immutable("spec.workloadRef", *(f"spec.{name}" for name in _FIXED))(new, old)


def _policy_changes(new: Manifest, old: Manifest, path: str) -> list[FieldError]:
    """Return errors of another policy than before; only minCount of a gang may change."""
    found: list[FieldError] = []
    after, before = new.get("schedulingPolicy") or {}, old.get("schedulingPolicy") or {}
    if after.get("basic") != before.get("basic"):
        found.append(invalid(f"{path}.schedulingPolicy.basic", after.get("basic"), IMMUTABLE))
    if (after.get("gang") is None) != (before.get("gang") is None):
        rule = "field cannot be cleared once set" if after.get("gang") is None else "field cannot be set once created"
        found.append(invalid(f"{path}.schedulingPolicy.gang", None, rule))
    return found


def scheduling_errors(given: Any, path: str) -> list[FieldError]:
    """Return errors of `spec.scheduling` of a batch Job, whose gang need not name its minimum."""
    if not isinstance(given, dict):
        return []
    found: list[FieldError] = []
    if isinstance(policy := given.get("schedulingPolicy"), dict):
        found += _union_errors(policy, f"{path}.schedulingPolicy", _POLICIES_OF_GROUPS)
        least = (policy.get("gang") or {}).get("minCount")
        if least is not None and least < 1:
            where = f"{path}.schedulingPolicy.gang.minCount"
            found.append(invalid(where, least, "must be greater than or equal to 1"))
    if isinstance(mode := given.get("disruptionMode"), dict):
        found += _union_errors(mode, f"{path}.disruptionMode", _DISRUPTIONS)
    found += _topology_errors(at(given, "schedulingConstraints.topology"), f"{path}.schedulingConstraints.topology")
    return found + _claim_errors(listed(given.get("resourceClaims")), f"{path}.resourceClaims")


def scheduling_changes(new: Any, old: Any) -> list[FieldError]:
    """Return the error of a changed `spec.scheduling` of a batch Job; the minimum of a gang may change."""

    def fixed(given: Any) -> Any:
        policy = at(given, "schedulingPolicy")
        return {**given, "schedulingPolicy": {**policy, "gang": {}}} if at(policy, "gang") is not None else given

    return [] if fixed(new) == fixed(old) else [invalid("spec.scheduling", new, IMMUTABLE)]


def _validate_workload(workload: Manifest) -> list[FieldError]:
    spec, path = spec_of(workload), "spec.podGroupTemplates"
    found: list[FieldError] = []
    if isinstance(reference := spec.get("controllerRef"), dict):
        found += reference_errors(reference, "spec.controllerRef")
        if (group := reference.get("apiGroup")) and (rule := subdomain_rule(group)):
            found.append(invalid("spec.controllerRef.apiGroup", group, rule))
    templates = listed(spec.get("podGroupTemplates"))
    if not templates:
        found.append(required(path))
    if len(templates) > _MOST_TEMPLATES:
        found.append(too_many(path, len(templates), _MOST_TEMPLATES))
    for number, one in enumerate(templates):
        where = f"{path}[{number}]"
        found += name_errors(one.get("name"), f"{where}.name") + _group_errors(one, where)
    return found + _duplicate_errors(templates, path)


def _validate_workload_update(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return errors of templates that were added, removed or changed; minCount of a gang may change."""
    path = "spec.podGroupTemplates"
    found = immutable("spec.controllerRef")(new, old)
    known = {str(one.get("name")): one for one in listed(at(old, path))}
    templates = listed(at(new, path))
    for number, one in enumerate(templates):
        where = f"{path}[{number}]"
        if (before := known.get(str(one.get("name")))) is None:
            found.append(forbidden(where, "items may not be added"))
            continue
        found += _policy_changes(one, before, where)
        found += [
            invalid(f"{where}.{name}", one.get(name), IMMUTABLE) for name in _FIXED if one.get(name) != before.get(name)
        ]
    if known.keys() - {str(one.get("name")) for one in templates}:
        found.append(forbidden(path, "items may not be removed"))
    return found


NATIVE_GROUPS: Final = {
    _GROUPS: Strategy(
        create=_create_group, default=_default_group, validate=_validate_group, validate_update=_validate_group_update
    ),
    _WORKLOADS: Strategy(validate=_validate_workload, validate_update=_validate_workload_update),
}
"""Strategies of PodGroups and Workloads by `plural.group`."""
