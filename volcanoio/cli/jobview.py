"""A job described for people, as `vcctl job view` prints it (volcano-sh/volcano pkg/cli/job/view.go)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from volcanoio.framework.overrides import stored
from volcanoio.localcluster.apiserver.printing.ages import since
from volcanoio.model.batch import Job, TaskSpec
from volcanoio.model.core import Event

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The whole manifest once more, which kubectl describe leaves out, too."""
_COUNTS = ("pending", "running", "succeeded", "failed", "terminating", "unknown")


def _line(level: int, label: str, value: object) -> str:
    return f"{'  ' * level}{label + ':':<{max(20 - 2 * level, len(label) + 2)}}{value}".rstrip()


def _mapping(level: int, label: str, values: Mapping[str, Any]) -> Iterator[str]:
    if not values:
        yield _line(level, label, "<none>")
        return
    first, *rest = [f"{key}={values[key]}" for key in sorted(values)]
    yield _line(level, label, first)
    for pair in rest:
        yield f"{'':<20}{pair}"


def _task(task: TaskSpec) -> Iterator[str]:
    yield _line(2, "Name", task.name)
    yield _line(2, "Replicas", task.replicas)
    if task.min_available is not None:
        yield _line(2, "Min Available", task.min_available)
    for container in task.template.get("spec", {}).get("containers", []):
        yield _line(3, "Container", container.get("name", ""))
        yield _line(4, "Image", container.get("image", ""))
        if container.get("command"):
            yield _line(4, "Command", " ".join(container["command"]).replace("\n", " ")[:100])
        resources = container.get("resources") or {}
        for section in ("requests", "limits"):
            if resources.get(section):
                yield _line(4, section.capitalize(), ", ".join(f"{k}={v}" for k, v in resources[section].items()))


def _events(events: Sequence[Event], now: datetime) -> Iterator[str]:
    if not events:
        yield _line(0, "Events", "<none>")
        return
    yield "Events:"
    yield f"  {'Type':<10}{'Reason':<22}{'Age':<26}{'Form':<24}Message"
    for event in sorted(events, key=lambda each: each.last_timestamp or ""):
        source = event.source.get("component", "")
        age = since(event.last_timestamp, now)
        if event.count > 1:
            age += f" (x{event.count} over {since(event.first_timestamp, now)})"
        yield f"  {event.type:<10}{event.reason:<22}{age:<26}{source:<24}{event.message}"


def _description(job: Job, events: Sequence[Event], now: datetime) -> Iterator[str]:
    meta, spec, status = job.metadata, job.spec, job.status
    yield _line(0, "Name", meta.name)
    yield _line(0, "Namespace", meta.namespace)
    yield from _mapping(0, "Labels", meta.labels)
    yield from _mapping(0, "Annotations", {key: meta.annotations[key] for key in meta.annotations if key != APPLIED})
    yield _line(0, "Creation", meta.creation_timestamp)
    yield "Spec:"
    yield _line(1, "Min Available", spec.min_available)
    yield _line(1, "Queue", spec.queue)
    yield _line(1, "Scheduler Name", spec.scheduler_name)
    yield _line(1, "Max Retry", spec.max_retry)
    if spec.priority_class_name:
        yield _line(1, "Priority Class", spec.priority_class_name)
    if spec.plugins:
        yield "  Plugins:"
        for name in sorted(spec.plugins):
            yield _line(2, name.capitalize(), " ".join(spec.plugins[name] or ()) or "[]")
    for policy in spec.policies:
        on = (
            f"exit code {policy.exit_code}" if policy.exit_code is not None else policy.event or ",".join(policy.events)
        )
        yield _line(1, "Policy", f"{on} -> {policy.action}")
    yield "  Tasks:"
    for task in spec.tasks:
        yield from _task(task)
    yield "Status:"
    yield _line(1, "Phase", status.state.phase)
    if status.state.reason:
        yield _line(1, "Reason", f"{status.state.reason}: {status.state.message}")
    yield _line(1, "Last Transition", status.state.last_transition_time or "")
    yield _line(1, "Version", status.version)
    yield _line(1, "Retry Count", status.retry_count)
    for name in _COUNTS:
        if getattr(status, name):
            yield _line(1, name.capitalize(), getattr(status, name))
    for override in stored(job):
        index = "" if override.index is None else f"-{override.index}"
        for container, given in sorted(override.resources.items()):
            has = (*((f"request {name}", each) for name, each in given.requests.items()),
                   *((f"limit {name}", each) for name, each in given.limits.items()))  # fmt: skip
            told = ", ".join(f"{name}={each}" for name, each in has)
            yield _line(1, "Override", f"{override.task}{index} {container}: {told} (attempt {override.attempts})")
    if status.conditions:
        yield "  Conditions:"
        for condition in status.conditions:
            yield _line(2, condition.status, condition.last_transition_time or "")
    yield from _events(events, now)


def describe(job: Job, events: Iterable[Event], now: datetime) -> str:
    """The whole description; `now` is what the events' ages are counted from."""
    return "\n".join(_description(job, list(events), now))
