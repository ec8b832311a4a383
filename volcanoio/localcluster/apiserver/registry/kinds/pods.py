"""Pods: first status, and the fields that may change (Kubernetes: pkg/registry/core/pod, pkg/apis/core)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from volcanoio.localcluster.apiserver.admission.pods import add_tolerations
from volcanoio.localcluster.apiserver.apimachinery.objects import encode
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.kinds.pod_templates import default_pod_spec, quality_of_service
from volcanoio.localcluster.apiserver.registry.kinds.strategy import Strategy
from volcanoio.model.base import Manifest
from volcanoio.model.validation.containers import env_errors
from volcanoio.model.validation.dns_names import label_rule
from volcanoio.model.validation.field_errors import FieldError, forbidden, invalid
from volcanoio.model.validation.pod_template import pod_spec_errors

_MUTABLE: Final = frozenset(
    {"activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds"}
)
_UPDATE_RULE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _create(pod: Manifest, core: Core) -> None:
    """Set the first status."""
    spec = pod["spec"]
    status: Manifest = {"phase": "Pending", "qosClass": quality_of_service(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": core.now(),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    pod["status"] = status


def _default(pod: Manifest, core: Core) -> None:
    del core
    default_pod_spec(pod.setdefault("spec", {}), of_pod=True)


def _keep(new: Manifest, old: Manifest) -> None:
    """Keep what an update must not set; admission adds default tolerations on update too."""
    spec = new.get("spec")
    if isinstance(spec, dict) and spec.get("tolerations") != old["spec"].get("tolerations"):
        add_tolerations(spec)


def _validate(pod: Manifest) -> list[FieldError]:
    spec = pod["spec"]
    found = _spec_errors(spec)
    if spec.get("nodeName") and spec.get("schedulingGates"):
        found.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return found


_valid: OrderedDict[bytes, None] = OrderedDict()
_VALID_SHAPES: Final = 1024
_VARYING: Final = ("hostname", "subdomain")


def _spec_errors(spec: Manifest) -> list[FieldError]:
    """Return validation errors of a spec.

    Pods of a job differ in environment and host name only: the result for the rest is cached.
    """
    containers = spec.get("containers")
    if not isinstance(containers, list):
        return pod_spec_errors(spec, "spec")
    shape = {key: value for key, value in spec.items() if key not in _VARYING and key != "containers"}
    bare = [{key: value for key, value in one.items() if key != "env"} for one in containers if isinstance(one, dict)]
    known = encode((shape, bare))
    if known not in _valid or len(bare) != len(containers):
        found = pod_spec_errors(spec, "spec")
        if not found:
            _valid[known] = None
            if len(_valid) > _VALID_SHAPES:
                _valid.popitem(last=False)
        return found
    found = [
        error
        for at, one in enumerate(containers)
        if one.get("env")
        for error in env_errors(one["env"], f"spec.containers[{at}].env")
    ]
    for key in _VARYING:
        value = spec.get(key)
        if value and (rule := label_rule(str(value))):
            found.append(invalid(f"spec.{key}", value, rule))
    return found


def _validate_update(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return errors of changes of immutable fields of a spec."""
    after, before = new.get("spec") or {}, old["spec"]
    if after == before:
        return []
    for field in ("containers", "initContainers"):
        if len(after.get(field) or ()) != len(before.get(field) or ()):
            return [forbidden(f"spec.{field}", "pod updates may not add or remove containers")]
    changed = [key for key in after.keys() | before.keys() if after.get(key) != before.get(key)]
    found = [_container_changes(after.get(key), before.get(key)) for key in changed if key in _CONTAINERS]
    others = [key for key in changed if key not in _CONTAINERS and key not in _MUTABLE]
    gated = bool(before.get("schedulingGates"))
    errors_: list[FieldError] = []
    if gated:
        others = [key for key in others if key not in {"nodeSelector", "affinity"} or not _narrows(key, after, before)]
        if "nodeSelector" in others:
            others.remove("nodeSelector")
            rule = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            errors_.append(invalid("spec.nodeSelector", after.get("nodeSelector"), rule))
    if "terminationGracePeriodSeconds" in changed and not _shortened(after, before):
        others.append("terminationGracePeriodSeconds")
    if "tolerations" in changed and not _contains(after.get("tolerations"), before.get("tolerations")):
        rule = "existing toleration can not be modified except its tolerationSeconds"
        errors_.append(forbidden("spec.tolerations", rule))
    if "schedulingGates" in changed:
        errors_ += _new_gates(after.get("schedulingGates") or (), before.get("schedulingGates") or ())
    deadline, was = after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if was is not None and (deadline is None or deadline > was):
        rule = "must be less than or equal to previous value"
        errors_.append(invalid("spec.activeDeadlineSeconds", deadline, rule))
    errors_ += [forbidden("spec", _UPDATE_RULE)] if others or not all(found) else []
    return errors_


def _shortened(after: Manifest, before: Manifest) -> bool:
    """Return whether a negative grace period becomes the shortest one.

    Older servers stored negative grace periods.
    """
    return int(before.get("terminationGracePeriodSeconds") or 0) < 0 and after["terminationGracePeriodSeconds"] == 1


def _new_gates(after: Any, before: Any) -> list[FieldError]:
    known = [one.get("name") for one in before]
    return [
        forbidden(
            f"spec.schedulingGates[{at}].name",
            f"only deletion is allowed, but found new scheduling gate '{one.get('name')}'",
        )
        for at, one in enumerate(after)
        if one.get("name") not in known
    ]


_CONTAINERS: Final = frozenset({"containers", "initContainers"})


def _container_changes(after: Any, before: Any) -> bool:
    """Return whether two lists of containers differ in images only."""
    if not isinstance(after, list) or not isinstance(before, list) or len(after) != len(before):
        return False
    return all({**new, "image": ""} == {**old, "image": ""} for new, old in zip(after, before, strict=True))


def _narrows(key: str, after: Manifest, before: Manifest) -> bool:
    """Return whether a gated pod's scheduling becomes stricter.

    Valid changes are more node selector keys, or a first affinity.
    """
    if key == "affinity":
        return not before.get("affinity")
    known, wanted = before.get("nodeSelector") or {}, after.get("nodeSelector") or {}
    return all(wanted.get(name) == value for name, value in known.items())


def _contains(all_: Any, some: Any) -> bool:
    """Return whether each item of `some` is in `all_`, tolerationSeconds aside."""

    def stripped(items: Any) -> list[Any]:
        return [
            {key: value for key, value in one.items() if key != "tolerationSeconds"} if isinstance(one, dict) else one
            for one in items or ()
        ]

    known = stripped(all_)
    return all(one in known for one in stripped(some))


PODS = Strategy(create=_create, default=_default, keep=_keep, validate=_validate, validate_update=_validate_update)
