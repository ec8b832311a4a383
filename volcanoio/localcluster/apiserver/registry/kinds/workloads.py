"""Kinds that replicate pods of a template: defaults and validation (Kubernetes: pkg/apis/apps, pkg/apis/core)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from volcanoio.localcluster.apiserver.apimachinery.objects import Ref
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.kinds.jobs import CRON_JOBS, JOBS
from volcanoio.localcluster.apiserver.registry.kinds.pod_templates import (
    default_template,
    empty_errors,
    lasting_errors,
    matching_errors,
    replicated_errors,
)
from volcanoio.localcluster.apiserver.registry.kinds.rules import (
    child,
    choice_errors,
    count_or_percent_errors,
    fill,
    immutable,
    label_selector_errors,
    listed,
    negative_errors,
    number_of,
    percentage_errors,
    spec_of,
)
from volcanoio.localcluster.apiserver.registry.kinds.storage import claim_errors
from volcanoio.localcluster.apiserver.registry.kinds.strategy import Strategy
from volcanoio.model.base import Manifest
from volcanoio.model.validation.dns_names import label_rule
from volcanoio.model.validation.field_errors import FieldError, forbidden, invalid, required, unsupported
from volcanoio.model.validation.pod_template import pod_template_errors

_SET_MUTABLE: Final = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
)
_SET_RULE: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_RETENTION: Final = ("Retain", "Delete")
_GENERATION: Final = "deprecated.daemonset.template.generation"
"""The annotation that counts a DaemonSet's templates."""


def _default_pod_template(obj: Manifest, core: Core) -> None:
    del core
    default_template(obj)


def _default_replicated(obj: Manifest, core: Core) -> None:
    del core
    default_template(fill(spec_of(obj), replicas=1))


def _default_replication_controller(obj: Manifest, core: Core) -> None:
    """Set selector and labels from the template, which may be missing."""
    spec = fill(spec_of(obj), replicas=1)
    if isinstance(spec.get("template"), dict):
        _default_replicated(obj, core)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if isinstance(labels, dict) and labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)


def _default_deployment(obj: Manifest, core: Core) -> None:
    _default_replicated(obj, core)
    spec = fill(obj["spec"], revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = fill(child(spec, "strategy"), type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(child(strategy, "rollingUpdate"), maxSurge="25%", maxUnavailable="25%")


def _default_stateful_set(obj: Manifest, core: Core) -> None:
    _default_replicated(obj, core)
    spec = fill(obj["spec"], podManagementPolicy="OrderedReady", revisionHistoryLimit=10, serviceName="")
    strategy = fill(child(spec, "updateStrategy"), type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(child(strategy, "rollingUpdate"), partition=0)
    fill(child(spec, "persistentVolumeClaimRetentionPolicy"), whenDeleted="Retain", whenScaled="Retain")
    for claim in listed(spec.get("volumeClaimTemplates")):
        fill(claim, apiVersion="v1", kind="PersistentVolumeClaim", status={"phase": "Pending"})
        fill(spec_of(claim), volumeMode="Filesystem")


def _default_daemon_set(obj: Manifest, core: Core) -> None:
    spec = fill(spec_of(obj), revisionHistoryLimit=10)
    default_template(spec)
    strategy = fill(child(spec, "updateStrategy"), type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(child(strategy, "rollingUpdate"), maxSurge=0, maxUnavailable=1)
    child(obj["metadata"], "annotations")[_GENERATION] = str(_template_number(obj, core))


def _template_number(daemon_set: Manifest, core: Core) -> int:
    """Return the generation of the template; 1 for a new object."""
    meta = daemon_set["metadata"]
    stored = core.store.get(Ref("daemonsets.apps", str(meta.get("namespace", "")), str(meta.get("name", ""))))
    if stored is None or stored.uid != meta.get("uid"):
        return 1
    old = stored.decode()
    number = int((old["metadata"].get("annotations") or {}).get(_GENERATION, "1"))
    return number + int(old["spec"].get("template") != daemon_set["spec"].get("template"))


def _with_status(**status: int) -> Callable[[Manifest, Core], None]:
    """Set the first status."""

    def create(obj: Manifest, core: Core) -> None:
        del core
        obj["status"] = dict(status)

    return create


def _rolling_errors(strategy: Manifest, path: str) -> list[FieldError]:
    """Return errors of maxUnavailable and maxSurge of a rollout."""
    rolling, where = strategy.get("rollingUpdate") or {}, f"{path}.rollingUpdate"
    few, many = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    found = count_or_percent_errors(few, f"{where}.maxUnavailable")
    found += count_or_percent_errors(many, f"{where}.maxSurge")
    if not number_of(few) and not number_of(many):
        found.append(invalid(f"{where}.maxUnavailable", few, "may not be 0 when `maxSurge` is 0"))
    return found + percentage_errors(few, f"{where}.maxUnavailable")


def _validate_deployment(obj: Manifest) -> list[FieldError]:
    spec = obj["spec"]
    strategy, path = spec.get("strategy") or {}, "spec.strategy"
    found = negative_errors(spec, "spec", "replicas") + replicated_errors(spec, "deployment")
    if strategy.get("type") == "RollingUpdate":
        found += _rolling_errors(strategy, path)
    elif strategy.get("type") != "Recreate":
        found.append(unsupported(path, strategy, ("Recreate", "RollingUpdate")))
    elif strategy.get("rollingUpdate") is not None:
        rule = "may not be specified when strategy `type` is 'Recreate'"
        found.append(forbidden(f"{path}.rollingUpdate", rule))
    found += negative_errors(spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if isinstance(deadline, int) and deadline <= ready:
        found.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return found


def _validate_replica_set(obj: Manifest) -> list[FieldError]:
    spec = obj["spec"]
    return negative_errors(spec, "spec", "replicas", "minReadySeconds") + replicated_errors(spec, "deployment")


def _validate_stateful_set(obj: Manifest) -> list[FieldError]:
    spec, path = obj["spec"], "spec.updateStrategy"
    strategy, policy = spec.get("updateStrategy") or {}, spec.get("podManagementPolicy")
    found: list[FieldError] = []
    if policy not in {"OrderedReady", "Parallel"}:
        found.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    if strategy.get("type") == "RollingUpdate":
        found += negative_errors(strategy.get("rollingUpdate") or {}, f"{path}.rollingUpdate", "partition")
    elif strategy.get("type") != "OnDelete":
        found.append(invalid(path, strategy, "must be 'RollingUpdate' or 'OnDelete'"))
    elif strategy.get("rollingUpdate") is not None:
        rule = "only allowed for updateStrategy 'RollingUpdate'"
        found.append(invalid(f"{path}.rollingUpdate", strategy["rollingUpdate"], rule))
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for name in ("whenDeleted", "whenScaled"):
        found += choice_errors(retention, "spec.persistentVolumeClaimRetentionPolicy", name, _RETENTION)
    is_new = "resourceVersion" not in obj["metadata"]  # updates are only checked for changes
    for at, claim in enumerate(listed(spec.get("volumeClaimTemplates")) if is_new else ()):
        found += claim_errors(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{at}].spec")
    found += negative_errors(spec, "spec", "replicas", "minReadySeconds")
    found += negative_errors(spec.get("ordinals") or {}, "spec.ordinals", "start")
    service = spec.get("serviceName")
    if service and (rule := label_rule(service)):
        found.append(invalid("spec.serviceName", service, rule))
    return found + replicated_errors(_with_claims(spec), "statefulset", "StatefulSet")


def _with_claims(spec: Manifest) -> Manifest:
    """Return the spec with a volume in its template for each volume claim template."""
    template: Any = spec.get("template")
    names = [(claim.get("metadata") or {}).get("name") for claim in listed(spec.get("volumeClaimTemplates"))]
    if not names or not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        return spec
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    volumes += [one for one in listed(template["spec"].get("volumes")) if one.get("name") not in names]
    return {**spec, "template": {**template, "spec": {**template["spec"], "volumes": volumes}}}


def _validate_daemon_set(obj: Manifest) -> list[FieldError]:
    spec = obj["spec"]
    selector, template, strategy = spec.get("selector"), spec.get("template"), spec.get("updateStrategy") or {}
    found = label_selector_errors(selector, "spec.selector")
    found += matching_errors(selector, template, "spec.template") + empty_errors(selector, "daemonset")
    found += pod_template_errors(template, "spec.template") + lasting_errors(template, "spec.template", "DaemonSet")
    found += negative_errors(spec, "spec", "minReadySeconds")
    if strategy.get("type") == "RollingUpdate":
        found += _daemon_rolling_errors(strategy.get("rollingUpdate") or {}, "spec.updateStrategy.rollingUpdate")
    elif strategy.get("type") != "OnDelete":
        found.append(unsupported("spec.updateStrategy", strategy, ("RollingUpdate", "OnDelete")))
    return found + negative_errors(spec, "spec", "revisionHistoryLimit")


def _daemon_rolling_errors(rolling: Manifest, path: str) -> list[FieldError]:
    """Return errors of a rollout that allows both or neither of maxUnavailable and maxSurge."""
    found: list[FieldError] = []
    amounts = [(name, rolling.get(name, 0)) for name in ("maxUnavailable", "maxSurge")]
    for rule in (count_or_percent_errors, percentage_errors):
        for name, amount in amounts:
            found += rule(amount, f"{path}.{name}")
    (_, few), (_, many) = amounts
    if number_of(few) and number_of(many):
        found.append(invalid(f"{path}.maxSurge", many, "may not be set when maxUnavailable is non-zero"))
    elif not number_of(few) and not number_of(many):
        found.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return found


def _validate_replication_controller(obj: Manifest) -> list[FieldError]:
    spec = obj["spec"]
    labels, template = spec.get("selector"), spec.get("template")
    found = negative_errors(spec, "spec", "minReadySeconds")
    if not labels:
        found.append(required("spec.selector"))
    found += negative_errors(spec, "spec", "replicas")
    if labels:
        found += matching_errors({"matchLabels": labels}, template, "spec.template")
    found += pod_template_errors(template, "spec.template")
    return found + lasting_errors(template, "spec.template", "ReplicationController")


def _stateful_set_update(new: Manifest, old: Manifest) -> list[FieldError]:
    after, before = new.get("spec") or {}, old.get("spec") or {}
    changed = [key for key in after.keys() | before.keys() if after.get(key) != before.get(key)]
    return [] if set(changed) <= set(_SET_MUTABLE) else [forbidden("spec", _SET_RULE)]


WORKLOADS: Final = {
    "podtemplates": Strategy(
        default=_default_pod_template, validate=lambda obj: pod_template_errors(obj.get("template"), "template")
    ),
    "deployments.apps": Strategy(
        create=_with_status(),
        default=_default_deployment,
        validate=_validate_deployment,
        validate_update=immutable("spec.selector"),
    ),
    "replicasets.apps": Strategy(
        create=_with_status(replicas=0),
        default=_default_replicated,
        validate=_validate_replica_set,
        validate_update=immutable("spec.selector"),
    ),
    "replicationcontrollers": Strategy(
        create=_with_status(replicas=0),
        default=_default_replication_controller,
        validate=_validate_replication_controller,
    ),
    "statefulsets.apps": Strategy(
        create=_with_status(availableReplicas=0, replicas=0),
        default=_default_stateful_set,
        validate=_validate_stateful_set,
        validate_update=_stateful_set_update,
    ),
    "daemonsets.apps": Strategy(
        create=_with_status(currentNumberScheduled=0, numberMisscheduled=0, desiredNumberScheduled=0, numberReady=0),
        default=_default_daemon_set,
        validate=_validate_daemon_set,
        validate_update=immutable("spec.selector"),
    ),
    "jobs.batch": JOBS,
    "cronjobs.batch": CRON_JOBS,
}
"""Strategies by `plural.group`."""
