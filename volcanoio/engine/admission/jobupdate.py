"""What may change in a Job that exists (Volcano: pkg/webhooks/admission/jobs/validate, validateJobUpdate)."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from volcanoio.engine.admission.findings import Findings
from volcanoio.engine.admission.jobdefaults import default_job
from volcanoio.engine.admission.jobplugins import check_plugins
from volcanoio.engine.admission.jobrules import check_numbers
from volcanoio.engine.admission.jobtasks import check_counts, check_topology
from volcanoio.engine.admission.request import AdmissionSettings
from volcanoio.model import quantity
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job

RULE = (
    "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and "
    "`PriorityClassName`"
)
_ADVICE = "delete the Job and create it anew to change this"


def check_update(new: Job, old: Manifest, raw: Manifest, settings: AdmissionSettings, findings: Findings) -> None:
    """The numbers must fit, and the rest of the spec stays. `raw` and `old` are the manifests; metadata is free."""
    for index, task in enumerate(new.spec.tasks):
        check_counts(task, f"spec.tasks[{index}]", findings)
    check_numbers(new, findings)
    check_topology(new.spec.network_topology, "spec.networkTopology", findings)
    if old.get("spec") != raw.get("spec"):  # else it may be a finalizer that goes, whatever became of the plugins
        check_plugins(new, settings, findings)
    before, after = _fixed_part(old, settings), _fixed_part(raw, settings)
    if len(before.get("tasks") or ()) != len(after.get("tasks") or ()):
        findings.refuse("spec.tasks", "job updates may not add or remove tasks", _ADVICE)
        return
    for path in _differences(before, after, "spec"):
        findings.refuse(path, RULE, _ADVICE)


def _fixed_part(job: Manifest, settings: AdmissionSettings) -> Manifest:
    """The spec with defaults, without what may change."""
    copy = deepcopy(job)
    default_job(copy, settings)
    spec: Manifest = copy.get("spec") or {}
    for field in ("minAvailable", "priorityClassName"):
        spec.pop(field, None)
    for task in spec.get("tasks") or ():
        for field in ("replicas", "minAvailable"):
            task.pop(field, None)
    for volume in spec.get("volumes") or ():
        if volume.get("volumeClaim") is not None:
            volume.pop("volumeClaimName", None)
    return spec


def _differences(before: Any, after: Any, path: str) -> Iterator[str]:
    """The paths at which two values differ; what is absent, null, empty, zero and false is the same."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            place = f"{path}.{key}"
            if path.endswith((".requests", ".limits")) and _same_amount(before.get(key), after.get(key)):
                continue
            yield from _differences(before.get(key), after.get(key), place)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif before != after and not (_empty(before) and _empty(after)):
        yield path


def _empty(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_empty(item) for item in value.values())
    return not value


def _same_amount(one: Any, other: Any) -> bool:
    try:
        return quantity.parse(str(one)) == quantity.parse(str(other))
    except quantity.QuantityError:
        return False
