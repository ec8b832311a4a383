"""Kinds that make pods of a template: their defaults and rules (Kubernetes: pkg/apis/apps, pkg/apis/batch).

Those on which no controller acts are stored with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from volcanoio.engine.admission.fielderrors import FieldError, forbidden, invalid, required, unsupported
from volcanoio.engine.admission.podtemplate import pod_template_errors
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.kinds.idle import idle
from volcanoio.localcluster.apiserver.kinds.podspec import default_pod_spec
from volcanoio.localcluster.apiserver.kinds.strategy import Strategy
from volcanoio.localcluster.apiserver.selectors import matches_label_selector
from volcanoio.model.base import Manifest

_IMMUTABLE: Final = "field is immutable"
_JOB_LABELS: Final = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")
_OLD_JOB_LABELS: Final = ("controller-uid", "job-name")
_SET_MUTABLE: Final = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
)
_SET_RULE: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def _spec(obj: Manifest) -> Manifest:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        spec = obj["spec"] = {}
    return spec


def _fill(obj: Manifest, **defaults: Any) -> Manifest:
    """Set absent fields; returns the object."""
    for key, value in defaults.items():
        if obj.get(key) is None:
            obj[key] = value
    return obj


def _child(obj: Manifest, key: str) -> Manifest:
    """A field that is an object, made where it is absent."""
    child = obj.get(key)
    if not isinstance(child, dict):
        child = obj[key] = {}
    return child


def _default_template(spec: Manifest) -> None:
    template = spec.get("template")
    if isinstance(template, dict):
        _child(template, "metadata")
        if isinstance(template.get("spec"), dict):
            default_pod_spec(template["spec"])


def _default_pod_template(obj: Manifest, core: Core) -> None:
    del core
    _default_template(obj)


def _default_replicated(obj: Manifest, core: Core) -> None:
    del core
    _default_template(_fill(_spec(obj), replicas=1))


def _default_replication_controller(obj: Manifest, core: Core) -> None:
    """Its selector and labels are the template's where it has none."""
    _default_replicated(obj, core)
    spec = obj["spec"]
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if isinstance(labels, dict) and labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)


def _default_deployment(obj: Manifest, core: Core) -> None:
    _default_replicated(obj, core)
    spec = _fill(obj["spec"], revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = _fill(_child(spec, "strategy"), type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(_child(strategy, "rollingUpdate"), maxSurge="25%", maxUnavailable="25%")


def _default_stateful_set(obj: Manifest, core: Core) -> None:
    _default_replicated(obj, core)
    spec = _fill(obj["spec"], podManagementPolicy="OrderedReady", revisionHistoryLimit=10)
    strategy = _fill(_child(spec, "updateStrategy"), type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(_child(strategy, "rollingUpdate"), partition=0)
    _fill(_child(spec, "persistentVolumeClaimRetentionPolicy"), whenDeleted="Retain", whenScaled="Retain")
    claims = spec.get("volumeClaimTemplates")
    for claim in claims if isinstance(claims, list) else ():
        if isinstance(claim, dict):
            _fill(claim, apiVersion="v1", kind="PersistentVolumeClaim", status={"phase": "Pending"})
            _fill(_spec(claim), volumeMode="Filesystem")


def _default_daemon_set(obj: Manifest, core: Core) -> None:
    del core
    spec = _fill(_spec(obj), revisionHistoryLimit=10)
    _default_template(spec)
    strategy = _fill(_child(spec, "updateStrategy"), type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(_child(strategy, "rollingUpdate"), maxSurge=0, maxUnavailable=1)


def _default_job_spec(spec: Manifest) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    limit = 2**31 - 1 if spec.get("backoffLimitPerIndex") is not None else 6
    _fill(spec, parallelism=1, backoffLimit=limit, completionMode="NonIndexed", suspend=False, manualSelector=False)
    by_policy = spec.get("podFailurePolicy") is not None
    _fill(spec, podReplacementPolicy="Failed" if by_policy else "TerminatingOrFailed")
    rules = (spec.get("podFailurePolicy") or {}).get("rules")
    for rule in rules if isinstance(rules, list) else ():
        patterns = rule.get("onPodConditions") if isinstance(rule, dict) else None
        for pattern in patterns if isinstance(patterns, list) else ():
            _fill(pattern, status="True")
    _default_template(spec)


def _default_job(obj: Manifest, core: Core) -> None:
    del core
    _default_job_spec(_spec(obj))


def _create_job(obj: Manifest, core: Core) -> None:
    """A job that does not bring its own selector gets one by its uid, and labels that say whose its pods are."""
    del core
    obj["status"] = {}
    spec, meta = obj["spec"], obj["metadata"]
    template = spec.get("template")
    if spec.get("manualSelector") or not isinstance(template, dict):
        return
    labels = _child(_child(template, "metadata"), "labels")
    values = (meta["uid"], meta["name"])
    for names in (_JOB_LABELS, _OLD_JOB_LABELS):
        for name, value in zip(names, values, strict=True):
            labels.setdefault(name, value)
    if not spec.get("selector"):
        spec["selector"] = {"matchLabels": {_JOB_LABELS[0]: meta["uid"]}}
    if not meta.get("labels"):
        meta["labels"] = dict(labels)


def _default_cron_job(obj: Manifest, core: Core) -> None:
    del core
    limits = {"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}
    spec = _fill(_spec(obj), concurrencyPolicy="Allow", suspend=False, **limits)
    template = spec.get("jobTemplate")
    if isinstance(template, dict):
        _child(template, "metadata")
        _default_template(_spec(template))


def _with_status(**status: int) -> Callable[[Manifest, Core], None]:
    """The status a new object has."""

    def create(obj: Manifest, core: Core) -> None:
        del core
        obj["status"] = dict(status)

    return create


def _selector_errors(spec: Manifest, kind: str) -> list[FieldError]:
    """The selector must be there and select the template's pods."""
    selector, template = spec.get("selector"), spec.get("template")
    found: list[FieldError] = []
    if not isinstance(selector, dict):
        found.append(required("spec.selector"))
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        return [*found, invalid("spec.selector", selector, f"empty selector is invalid for {kind}")]
    labels = ((template or {}).get("metadata") or {}).get("labels") if isinstance(template, dict) else None
    labels = labels if isinstance(labels, dict) else {}
    if not isinstance(selector, dict) or not matches_label_selector(selector, labels):
        rule = "`selector` does not match template `labels`"
        found.append(invalid("spec.template.metadata.labels", labels, rule))
    return found


def _validate(obj: Manifest) -> list[FieldError]:
    spec = obj["spec"]
    found = _negative(spec, ("replicas", "minReadySeconds", "revisionHistoryLimit"))
    found += _selector_errors(spec, str(obj.get("kind", "")).lower())
    found += pod_template_errors(spec.get("template"), "spec.template")
    template = spec.get("template")
    policy = ((template or {}).get("spec") or {}).get("restartPolicy") if isinstance(template, dict) else None
    if policy is not None and policy != "Always":
        found.append(unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
    return found


def _validate_replication_controller(obj: Manifest) -> list[FieldError]:
    spec = obj["spec"]
    found = [] if spec.get("selector") else [required("spec.selector")]
    return found + pod_template_errors(spec.get("template"), "spec.template") + _negative(spec, ("replicas",))


def _negative(spec: Manifest, names: Iterable[str]) -> list[FieldError]:
    return [
        invalid(f"spec.{name}", spec[name], "must be greater than or equal to 0")
        for name in names
        if isinstance(spec.get(name), int) and spec[name] < 0
    ]


def _validate_job(obj: Manifest) -> list[FieldError]:
    spec = obj["spec"]
    template = spec.get("template")
    found = _negative(
        spec,
        ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"),
    )
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        found.append(required("spec.completions", "when completion mode is Indexed"))
    found += pod_template_errors(template, "spec.template")
    policy = ((template or {}).get("spec") or {}).get("restartPolicy") if isinstance(template, dict) else None
    if policy == "Always":
        found.append(required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
    return found


def _immutable(*names: str) -> Callable[[Manifest, Manifest], list[FieldError]]:
    """Fields of the spec that no update changes."""

    def errors(new: Manifest, old: Manifest) -> list[FieldError]:
        after, before = new.get("spec") or {}, old.get("spec") or {}
        return [
            invalid(f"spec.{name}", after.get(name), _IMMUTABLE)
            for name in names
            if after.get(name) != before.get(name)
        ]

    return errors


def _stateful_set_update(new: Manifest, old: Manifest) -> list[FieldError]:
    after, before = new.get("spec") or {}, old.get("spec") or {}
    changed = [key for key in after.keys() | before.keys() if after.get(key) != before.get(key)]
    return [] if set(changed) <= set(_SET_MUTABLE) else [forbidden("spec", _SET_RULE)]


def _job_update(new: Manifest, old: Manifest) -> list[FieldError]:
    """Completions of an indexed job may follow its parallelism; a suspended job's scheduling may change."""
    after, before = new.get("spec") or {}, old.get("spec") or {}
    names = ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "successPolicy"]
    elastic = before.get("completionMode") == "Indexed" and after.get("completions") == after.get("parallelism")
    if not elastic:
        names.insert(0, "completions")
    found = _immutable(*names)(new, old)
    if not before.get("suspend") and after.get("template") != before.get("template"):
        found.append(invalid("spec.template", after.get("template"), _IMMUTABLE))
    return found


WORKLOADS: Final = {
    "podtemplates": Strategy(
        default=_default_pod_template, validate=lambda obj: pod_template_errors(obj.get("template"), "template")
    ),
    "deployments.apps": Strategy(
        create=_with_status(), default=_default_deployment, validate=_validate, validate_update=_immutable("selector")
    ),
    "replicasets.apps": Strategy(
        create=_with_status(replicas=0),
        default=_default_replicated,
        validate=_validate,
        validate_update=_immutable("selector"),
    ),
    "replicationcontrollers": Strategy(
        create=_with_status(replicas=0),
        default=_default_replication_controller,
        validate=_validate_replication_controller,
    ),
    "statefulsets.apps": Strategy(
        create=_with_status(availableReplicas=0, replicas=0),
        default=_default_stateful_set,
        validate=_validate,
        validate_update=_stateful_set_update,
    ),
    "daemonsets.apps": Strategy(
        create=_with_status(currentNumberScheduled=0, numberMisscheduled=0, desiredNumberScheduled=0, numberReady=0),
        default=_default_daemon_set,
        validate=_validate,
        validate_update=_immutable("selector"),
    ),
    "jobs.batch": Strategy(
        create=_create_job, default=_default_job, validate=_validate_job, validate_update=_job_update
    ),
    "cronjobs.batch": Strategy(create=_with_status(), default=_default_cron_job, warning=idle("CronJob")),
}
"""By `plural.group`."""
