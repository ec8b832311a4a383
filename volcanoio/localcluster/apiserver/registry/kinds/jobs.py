"""Jobs and CronJobs: defaults and rules (Kubernetes: pkg/apis/batch, pkg/registry/batch/job/strategy.go).

A CronJob's schedule has five fields as in a crontab, or is a name such as `@daily` (Kubernetes: robfig/cron).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from volcanoio.localcluster.apiserver.apimachinery.selectors import matches_label_selector
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.kinds.pod_templates import (
    default_template,
    is_selector,
    labels_of,
    matching_errors,
)
from volcanoio.localcluster.apiserver.registry.kinds.rules import (
    IMMUTABLE,
    at,
    child,
    choice_errors,
    fill,
    immutable,
    label_selector_errors,
    listed,
    negative_errors,
    spec_of,
)
from volcanoio.localcluster.apiserver.registry.kinds.scheduling import scheduling_changes, scheduling_errors
from volcanoio.localcluster.apiserver.registry.kinds.strategy import Strategy, idle
from volcanoio.model.base import Manifest
from volcanoio.model.validation.field_errors import FieldError, invalid, required, unsupported
from volcanoio.model.validation.pod_template import pod_template_errors

_NAMED: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class _Field(NamedTuple):
    """Allowed numbers of a schedule's field, and names for them."""

    least: int
    most: int
    names: dict[str, int] = {}


_FIELDS: Final = (
    _Field(0, 59),
    _Field(0, 23),
    _Field(1, 31),
    _Field(1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    _Field(0, 6, {name: number for number, name in enumerate(_DAYS)}),
)


class ScheduleError(ValueError):
    """An invalid schedule; the text contains the reason."""


def schedule_rule(text: str) -> str:
    """Return the error of a schedule; empty when it is valid."""
    if text.startswith(("TZ=", "CRON_TZ=")):
        text = text.partition(" ")[2].strip()
    if text.startswith("@"):
        good = text in _NAMED or text.startswith("@every ")
        return "" if good else f"unrecognized descriptor: {text}"
    parts = text.split()
    if len(parts) != len(_FIELDS):
        return f"expected exactly {len(_FIELDS)} fields, found {len(parts)}: [{' '.join(parts)}]"
    try:
        for part, field in zip(parts, _FIELDS, strict=True):
            for expression in part.split(","):
                if expression:
                    _check(expression, field)
    except ScheduleError as error:
        return str(error)
    return ""


def _check(expression: str, field: _Field) -> None:
    """Check one `low-high/step`; raises ScheduleError."""
    span, *steps = expression.split("/")
    low, *high = span.split("-")
    if low in {"*", "?"}:
        start, end = field.least, field.most
    else:
        start = end = _number(low, field)
        if len(high) > 1:
            raise ScheduleError(f"too many hyphens: {expression}")
        if high:
            end = _number(high[0], field)
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {expression}")
    step = _number(steps[0], _Field(0, 0)) if steps else 1
    if steps and not high:
        end = field.most
    for broken, rule in (
        (start < field.least, f"beginning of range ({start}) below minimum ({field.least})"),
        (end > field.most, f"end of range ({end}) above maximum ({field.most})"),
        (start > end, f"beginning of range ({start}) beyond end of range ({end})"),
        (step == 0, "step of range should be a positive number"),
    ):
        if broken:
            raise ScheduleError(f"{rule}: {expression}")


def _number(text: str, field: _Field) -> int:
    named = field.names.get(text.lower())
    if named is not None:
        return named
    try:
        number = int(text)
    except ValueError:
        rule = f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
        raise ScheduleError(rule) from None
    if number < 0:
        raise ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number


_LABELS: Final = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")
_OLD_LABELS: Final = ("controller-uid", "job-name")
_MODES: Final = ("NonIndexed", "Indexed")
_REPLACEMENT: Final = ("Failed", "TerminatingOrFailed")
_RESTARTS: Final = ("OnFailure", "Never")
_CONCURRENCY: Final = ("Allow", "Forbid", "Replace")
_COUNTS: Final = (
    *("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"),
    *("backoffLimitPerIndex", "maxFailedIndexes"),
)
_PER_INDEX: Final = ("backoffLimitPerIndex", "maxFailedIndexes")
_SCHEDULING: Final = ("nodeSelector", "tolerations", "schedulingGates", "affinity")
_LONGEST_NAME: Final = 52
"""Maximal length of a CronJob's name: names of its Jobs are 11 characters longer."""


def _default_spec(spec: Manifest) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    limit = 2**31 - 1 if spec.get("backoffLimitPerIndex") is not None else 6
    fill(spec, parallelism=1, backoffLimit=limit, completionMode="NonIndexed", suspend=False, manualSelector=False)
    by_policy = spec.get("podFailurePolicy") is not None
    fill(spec, podReplacementPolicy="Failed" if by_policy else "TerminatingOrFailed")
    for rule in listed((spec.get("podFailurePolicy") or {}).get("rules")):
        for pattern in listed(rule.get("onPodConditions")):
            fill(pattern, status="True")
    default_template(spec)


def _default(job: Manifest, core: Core) -> None:
    del core
    _default_spec(spec_of(job))


def _create(job: Manifest, core: Core) -> None:
    """Generate a selector by uid where none is given, and the labels that identify the pods."""
    del core
    job["status"] = {}
    spec, meta = job["spec"], job["metadata"]
    template = spec.get("template")
    if spec.get("manualSelector") or not isinstance(template, dict):
        return
    labels = child(child(template, "metadata"), "labels")
    for names in (_LABELS, _OLD_LABELS):
        for name, value in zip(names, (meta["uid"], meta.get("name", "")), strict=True):
            labels.setdefault(name, value)
    child(child(spec, "selector"), "matchLabels").setdefault(_LABELS[0], meta["uid"])
    if not meta.get("labels"):
        meta["labels"] = dict(labels)


def _validate(job: Manifest) -> list[FieldError]:
    spec, meta = job["spec"], job["metadata"]
    selector, template = spec.get("selector"), spec.get("template")
    found = [] if spec.get("manualSelector") else _generated_errors(spec, meta)
    found += _spec_errors(spec, "spec")
    if not isinstance(selector, dict):
        found.append(required("spec.selector"))
    else:
        found += label_selector_errors(selector, "spec.selector")
    return found + matching_errors(selector, template, "spec.template")


def _generated_errors(spec: Manifest, meta: Manifest) -> list[FieldError]:
    """Return errors of changes of a generated selector."""
    selector, labels = spec.get("selector"), labels_of(spec.get("template"))
    if not isinstance(selector, dict):
        return []
    mine: dict[str, Any] = dict(zip((*_OLD_LABELS, *_LABELS), (meta.get("uid"), meta.get("name")) * 2, strict=True))
    found: list[FieldError] = []
    for key, value in mine.items():
        if key not in labels:
            found.append(required(f"spec.template.metadata.labels[{key}]", f"must be '{value}'"))
        elif labels[key] != value:
            found.append(invalid(f"spec.template.metadata.labels[{key}]", labels, f"must be '{value}'"))
    if is_selector(selector) and not matches_label_selector(selector, mine):
        found.append(invalid("spec.selector", selector, "`selector` not auto-generated"))
    return found


def _spec_errors(spec: Manifest, path: str) -> list[FieldError]:
    mode, template = spec.get("completionMode"), spec.get("template")
    found = negative_errors(spec, path, *_COUNTS)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        found.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    found += choice_errors(spec, path, "completionMode", _MODES)
    if mode == "Indexed" and spec.get("completions") is None:
        found.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if mode in {None, "NonIndexed"}:
        rule = "requires indexed completion mode"
        found += [invalid(f"{path}.{name}", spec[name], rule) for name in _PER_INDEX if spec.get(name) is not None]
    replacements = _REPLACEMENT[:1] if spec.get("podFailurePolicy") is not None else _REPLACEMENT
    found += choice_errors(spec, path, "podReplacementPolicy", replacements)
    found += scheduling_errors(spec.get("scheduling"), f"{path}.scheduling")
    found += pod_template_errors(template, f"{path}.template")
    policy = at(template, "spec.restartPolicy") if isinstance(template, dict) else None
    where = f"{path}.template.spec.restartPolicy"
    if policy in {None, "Always"}:
        found.append(required(where, 'valid values: "OnFailure", "Never"'))
    elif policy not in _RESTARTS:
        found.append(unsupported(where, policy, _RESTARTS))
    return found


def _validate_update(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return errors of an update.

    Completions of an indexed job may follow its parallelism; the scheduling fields of a suspended job may change.
    """
    after, before = new.get("spec") or {}, old.get("spec") or {}
    found: list[FieldError] = []
    if after.get("completions") != before.get("completions"):
        if after.get("completionMode") != "Indexed":
            found.append(invalid("spec.completions", after.get("completions"), IMMUTABLE))
        elif after.get("completions") not in {None, after.get("parallelism")}:
            rule = "can only be modified in tandem with spec.parallelism"
            found.append(invalid("spec.completions", after.get("completions"), rule))
    found += immutable("spec.selector")(new, old)
    template = after.get("template")
    known = _with_scheduling(before.get("template"), template) if before.get("suspend") else before.get("template")
    if before.get("suspend") and (template or {}).get("spec") != (known or {}).get("spec"):
        found.append(invalid("spec.template.spec", (template or {}).get("spec"), IMMUTABLE))
    elif template != known:
        found.append(invalid("spec.template", template, IMMUTABLE))
    found += scheduling_changes(after.get("scheduling"), before.get("scheduling"))
    fixed = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
    return found + immutable(*(f"spec.{name}" for name in fixed))(new, old)


def _with_scheduling(template: Manifest | None, other: Manifest | None) -> Manifest:
    """Return a template with the fields that a suspended job may change taken from another."""
    made, source = dict(template or {}), other or {}
    spec, wanted = dict(made.get("spec") or {}), source.get("spec") or {}
    for key in _SCHEDULING:
        spec.pop(key, None)
        if key in wanted:
            spec[key] = wanted[key]
    sizes = {one.get("name"): one.get("resources") for one in listed(wanted.get("containers"))}
    spec["containers"] = [
        {**one, "resources": sizes.get(one.get("name"), one.get("resources"))} for one in listed(spec.get("containers"))
    ]
    return {**made, "metadata": source.get("metadata"), "spec": spec}


def _default_cron(cron: Manifest, core: Core) -> None:
    del core
    limits = {"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}
    spec = fill(spec_of(cron), concurrencyPolicy="Allow", suspend=False, **limits)
    template = child(spec, "jobTemplate")
    child(template, "metadata")
    default_template(spec_of(template))


def _create_cron(cron: Manifest, core: Core) -> None:
    del core
    cron["status"] = {}


def _validate_cron(cron: Manifest) -> list[FieldError]:
    spec = cron["spec"]
    found = _timing_errors(spec)
    found += negative_errors(spec, "spec", "startingDeadlineSeconds")
    found += _zone_errors(spec.get("timeZone"), "spec.timeZone")
    found += choice_errors(spec, "spec", "concurrencyPolicy", _CONCURRENCY)
    job, path = at(spec, "jobTemplate.spec") or {}, "spec.jobTemplate.spec"
    found += _spec_errors(job, path)
    if job.get("selector") is not None:
        found.append(invalid(f"{path}.selector", job["selector"], "`selector` will be auto-generated"))
    if job.get("manualSelector"):
        found.append(unsupported(f"{path}.manualSelector", True, ("nil", "false")))
    found += negative_errors(spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    name = cron["metadata"].get("name", "")
    if len(name) > _LONGEST_NAME:
        found.append(invalid("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters"))
    return found


def _timing_errors(spec: Manifest) -> list[FieldError]:
    text = spec.get("schedule")
    if not text:
        return [required("spec.schedule")]
    found = [invalid("spec.schedule", text, rule)] if (rule := schedule_rule(text)) else []
    if "TZ" in text:
        rule = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        found.append(invalid("spec.schedule", text, rule))
    return found


def _zone_errors(zone: str | None, path: str) -> list[FieldError]:
    if zone is None:
        return []
    if not zone:
        return [invalid(path, zone, "timeZone must be nil or non-empty string")]
    if zone.lower() == "local":
        rule = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [invalid(path, zone, rule)]
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, LookupError):
        return [invalid(path, zone, f"unknown time zone {zone}")]
    return []


JOBS: Final = Strategy(create=_create, default=_default, validate=_validate, validate_update=_validate_update)
CRON_JOBS: Final = Strategy(
    create=_create_cron, default=_default_cron, validate=_validate_cron, warning=idle("CronJob")
)
