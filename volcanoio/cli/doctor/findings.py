"""Findings of `volcanoio doctor`, and the checks that need only objects.

Each check returns all that it found, one finding if all is well: `advice` is what to do about the others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import replace

from volcanoio import __version__
from volcanoio.compose.definitions import compare
from volcanoio.engine.scheduling.cluster.native_groups import as_pod_group, status_of
from volcanoio.engine.scheduling.cluster.pod_fields import group_name_of, is_native, job_key, native_key
from volcanoio.framework.arguments import few, pluralize
from volcanoio.model import names
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup, PodGroupPhase, Queue, QueueState
from volcanoio.model.workloads import NativePodGroup

DEFAULT_SCHEDULER = "default-scheduler"
_ESSENTIAL = ("jobs.batch.volcano.sh", "commands.bus.volcano.sh", "podgroups.scheduling.volcano.sh",
              "queues.scheduling.volcano.sh")  # fmt: skip
"""Definitions without which no job runs."""
_ENDED = ("Succeeded", "Failed")
_NAMED = 5
"""Objects that a finding names; more are counted."""
_DAY = 86400
_SOON = 30
"""Days before the end of a certificate at which a warning begins: it should have been renewed."""
_RENEW = "renew it; see docs/webhooks.md, or `volcanoio webhooks --help`"


class Severity(StrEnum):
    """How bad a finding is; SKIPPED: the user may not read what the check needs."""

    OK = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    ERROR = "error"


class Finding(NamedTuple):
    """One result of a check, and what to do."""

    severity: Severity
    check: str
    text: str
    advice: str = ""


def definitions(present: Iterable[Manifest], ours: Iterable[Manifest]) -> list[Finding]:
    """Check that our CustomResourceDefinitions exist and are served, in our versions and with our fields."""
    check, found = "definitions", list[Finding]()
    served = {each["metadata"]["name"]: each for each in present}
    install = "apply them: volcanoio install --only-crds"
    count = 0
    for definition in ours:
        count += 1
        name = definition["metadata"]["name"]
        if name not in served:
            severity = Severity.ERROR if name in _ESSENTIAL else Severity.WARNING
            found.append(Finding(severity, check, f"{name} is missing", install))
            continue
        theirs = served[name]
        conditions = {each["type"]: each for each in theirs.get("status", {}).get("conditions") or ()}
        if (established := conditions.get("Established", {})).get("status") != "True":
            reason = established.get("message") or "it is not established"
            found.append(
                Finding(Severity.ERROR, check, f"{name} is not served: {reason}", f"see kubectl get crd {name} -o yaml")
            )
        versions = {each["name"] for each in theirs["spec"]["versions"] if each.get("served")}
        wanted = {each["name"] for each in definition["spec"]["versions"] if each.get("served")}
        if missing := sorted(wanted - versions):
            found.append(Finding(Severity.ERROR, check, f"{name} does not serve version {', '.join(missing)}", install))
        elif added := compare(theirs, definition).added:
            text = f"{name} is of another version: these fields are dropped when stored: {few(added, 3)}"
            found.append(Finding(Severity.WARNING, check, text, install))
    return found or [Finding(Severity.OK, check, f"all {count} CustomResourceDefinitions are served")]


def leases(found: Iterable[Manifest], namespace: str, now: datetime) -> list[Finding]:
    """Check that the Leases of components in a namespace are held, and renewed in time."""
    check, results = "leaders", list[Finding]()
    for lease in sorted(found, key=lambda each: str(each["metadata"]["name"])):
        name, spec = lease["metadata"]["name"], lease.get("spec") or {}
        holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
        if not holder or not renewed:
            advice = f"see whether its pods run: kubectl get pods -n {namespace}"
            results.append(Finding(Severity.ERROR, check, f"lease {name} has no holder: no process leads", advice))
            continue
        age = (now - datetime.fromisoformat(renewed)).total_seconds()
        duration = spec.get("leaseDurationSeconds") or 15
        if age > duration:
            text = f"lease {name} was last renewed {age:.0f} s ago by {holder}; it lasts {duration} s"
            advice = f"its process has stopped or cannot write: kubectl logs -n {namespace} POD"
            results.append(Finding(Severity.ERROR, check, text, advice))
        else:
            results.append(
                Finding(Severity.OK, check, f"lease {name} is held by {holder}, renewed {max(0, age):.0f} s ago")
            )
    return results


def components(deployments: Iterable[Manifest], namespace: str) -> list[Finding]:
    """Check the Deployments of the components: that they run, and their version against that of this client."""
    check, found = "components", list[Finding]()
    for deployment in deployments:
        meta = deployment["metadata"]
        containers = deployment["spec"]["template"]["spec"].get("containers") or ()
        images = ", ".join(each.get("image", "") for each in containers)
        labels = meta.get("labels") or {}
        is_ours = labels.get("app.kubernetes.io/name") == "volcanoio"
        if not is_ours and "volcano" not in images:
            continue
        name, version = meta["name"], labels.get("app.kubernetes.io/version", "")
        wanted = deployment["spec"].get("replicas", 1)
        available = (deployment.get("status") or {}).get("availableReplicas") or 0
        if available < wanted:
            severity = Severity.WARNING if available else Severity.ERROR
            text = f"{name}: {available} of {pluralize(wanted, 'replica')} available"
            found.append(Finding(severity, check, text, f"see why: kubectl describe deployment {name} -n {namespace}"))
        if not is_ours:
            found.append(Finding(Severity.OK, check, f"{name} is Volcano's own: {images}"))
        elif version != __version__:
            text = f"{name} has version {version or 'unknown'}, this client {__version__}"
            found.append(
                Finding(Severity.WARNING, check, text, "install that version here, or upgrade: volcanoio install")
            )
        elif available >= wanted:
            found.append(Finding(Severity.OK, check, f"{name} {version}: {pluralize(available, 'replica')} available"))
    return found


def certificates(ends: Mapping[str, datetime | None], now: datetime) -> list[Finding]:
    """Check how long certificates are valid: `ends` has the end by subject, None for one that cannot be read."""
    check, found = "certificates", list[Finding]()
    for subject, end in ends.items():
        if end is None:
            text = f"the certificate of {subject} cannot be read: it is not PEM"
            found.append(Finding(Severity.ERROR, check, text, _RENEW))
            continue
        days = math.floor((end - now).total_seconds() / _DAY)
        if days < 0:
            text, severity = f"the certificate of {subject} expired {-days} days ago", Severity.ERROR
        elif days < _SOON:
            text, severity = f"the certificate of {subject} expires in {days} days", Severity.WARNING
        else:
            continue
        found.append(Finding(severity, check, text, _RENEW))
    if ends and not found:
        days = math.floor((min(filter(None, ends.values())) - now).total_seconds() / _DAY)
        found.append(Finding(Severity.OK, check, f"valid for {days} more days"))
    return found


def named_group(native: NativePodGroup) -> PodGroup:
    """Return Volcano's PodGroup that corresponds to a native group, with the name that its job has."""
    group, key = as_pod_group(native, native.queue, status_of(native)), native_key("", native.metadata.name)
    phase = native.phase or PodGroupPhase.RUNNING  # it has no pods of our schedulers: nothing of ours waits
    metadata = replace(native.metadata, name=key.removeprefix("/"))
    return replace(group, metadata=metadata, status=replace(group.status, phase=phase))


def pods(found: Sequence[Pod], groups: Iterable[PodGroup], schedulers: Collection[str]) -> list[Finding]:
    """Check pods that wait: their scheduler, and their PodGroup. `schedulers` are the names that are served.

    A name is also served if a pod with it is on a node: its scheduler is, or was, there.
    """
    known = {group.metadata.key for group in groups}
    waiting = [pod for pod in found if not pod.spec.node_name and pod.status.phase not in _ENDED]
    served = {DEFAULT_SCHEDULER, *schedulers, *(pod.spec.scheduler_name for pod in found if pod.spec.node_name)}
    unserved, lost, unaware = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list), list[str]()
    for pod in waiting:
        key, scheduler = pod.metadata.key, pod.spec.scheduler_name or DEFAULT_SCHEDULER
        job = job_key(pod)
        group = job.partition("/")[2]
        if scheduler not in served:
            unserved[scheduler].append(key)
        if group and scheduler == DEFAULT_SCHEDULER:
            if not is_native(job):
                unaware.append(key)
        elif group and job not in known:
            lost[group].append(key)
    results = [
        Finding(
            Severity.ERROR,
            "schedulers",
            f'{_pods(keys)}: schedulerName "{name}": no scheduler here has this name',
            f"use one of {', '.join(sorted(served))}, or start that one; `--scheduler-name {name}` if it runs",
        )
        for name, keys in sorted(unserved.items())
    ]
    results += [
        Finding(
            Severity.ERROR,
            "groups",
            f'{_pods(keys)}: {field} names PodGroup "{group_name_of(f"/{group}")}", which does not exist',
            f"create that PodGroup, or correct {field}",
        )
        for group, keys in sorted(lost.items())
        for field in ("spec.schedulingGroup" if is_native(f"/{group}") else f"annotation {names.GROUP_NAME}",)
    ]
    if unaware:
        text = f"{_pods(unaware)}: {names.GROUP_NAME} is set, but {DEFAULT_SCHEDULER} places pods one by one"
        advice = f"set schedulerName: {next(iter(sorted(schedulers)), 'volcano')} in their template"
        results.append(Finding(Severity.WARNING, "groups", text, advice))
    if not results:
        results.append(
            Finding(Severity.OK, "pods", f"schedulers and PodGroups of {pluralize(len(waiting), 'waiting pod')} exist")
        )
    return results


def _pods(keys: Collection[str]) -> str:
    return f"{'pod' if len(keys) == 1 else 'pods'} {few(keys, _NAMED)}"


def queues(found: Iterable[Queue], groups: Iterable[PodGroup]) -> list[Finding]:
    """Check that the queues of waiting PodGroups exist and are open."""
    check, results = "queues", list[Finding]()
    by_name = {queue.metadata.name: queue for queue in found}
    waiting = defaultdict[str, list[str]](list)
    for group in groups:
        if group.status.phase in ("", PodGroupPhase.PENDING):
            waiting[group.spec.queue].append(group.metadata.key)
    for name, keys in sorted(waiting.items()):
        text = f"{'PodGroup' if len(keys) == 1 else 'PodGroups'} waiting in it: {few(keys, _NAMED)}"
        if name not in by_name:
            advice = f"create it: volcanoio queue create {name}; or submit the jobs to another queue"
            results.append(Finding(Severity.ERROR, check, f'queue "{name}" does not exist; {text}', advice))
        elif (state := by_name[name].status.state) in (QueueState.CLOSED, QueueState.CLOSING):
            advice = f"open it: volcanoio queue open {name}"
            results.append(Finding(Severity.WARNING, check, f"queue {name} is {state}; {text}", advice))
    count = sum(map(len, waiting.values()))
    return results or [Finding(Severity.OK, check, f"queues of {pluralize(count, 'waiting PodGroup')} are open")]
