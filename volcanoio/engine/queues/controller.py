"""`QueueController`: one key a queue (Volcano: pkg/controllers/queue).

Differences from Volcano, all mends: counts are written to the status, gathered; a Command is deleted after what it asks
for is stored, not before; a child follows its parent by looking at it, so a restart between the two loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from volcanoio.engine.queues.plan import plan
from volcanoio.engine.queues.state import FIELDS, Backoff, QueueState, observed, queue_of, succeeded
from volcanoio.framework.controller import Input, Reference, Rule, Step, View
from volcanoio.framework.effects import Delete, Measure, Measurement, Patch, Stages, StartTimer
from volcanoio.framework.events import ControllerEvent, EffectFailed, EffectSucceeded, Observed
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.command import Command
from volcanoio.model.scheduling import PodGroup

RETRY_TIMER = "retry"
METRIC = "volcano_queue_pod_group_{}_count"
"""A gauge by `queue_name` for each count of PodGroups."""
LONGEST_BACKOFF = 60.0
"""Seconds."""


class QueueController:
    """Keeps queues' states, parents and counts, and tells the metrics the counts, under Volcano's names."""

    name = "queue-controller"
    references = (Reference(kinds.QUEUE),)
    rules = (
        Rule(kinds.QUEUE.group, ("queues",), ("get", "list", "watch", "patch")),
        Rule(kinds.QUEUE.group, ("queues/status",), ("patch",)),
        Rule(kinds.POD_GROUP.group, ("podgroups",), ("get", "list", "watch")),
        Rule(kinds.COMMAND.group, ("commands",), ("get", "list", "watch", "delete")),
        Rule("", ("events",), ("create", "patch")),
    )

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Queues, and what belongs to them."""
        return (
            Input(kinds.QUEUE, lambda queue: (queue.metadata.name,)),
            Input(kinds.POD_GROUP, _queue_of_group),
            Input(kinds.COMMAND, _queue_of_command),
        )

    def start(self, key: str) -> QueueState:  # noqa: ARG002 - a queue nobody knows is like any other
        """Nothing known."""
        return QueueState()

    def reduce(self, state: QueueState, event: ControllerEvent, view: View) -> Step[QueueState]:
        """Fold one event, then do the next thing that is due, unless a write is under way or held back."""
        folded, stages = self._fold(state, event, view)
        figures = _figures(state, folded, view.key)
        if folded.forgettable:
            return Step(None, figures)
        if stages or not view.synced or _writing(view):
            return Step(folded, (*figures, *stages))
        if folded.backoff is not None:
            if not _over(folded, view.now):
                return Step(folded, figures)
            folded = replace(folded, backoff=None)
        planned, stages = plan(folded, view)
        return Step(planned, (*figures, *stages))

    def _fold(self, state: QueueState, event: ControllerEvent, view: View) -> tuple[QueueState, Stages]:
        match event:
            case Observed():
                return observed(state, event, view.key), ()
            case EffectSucceeded():
                return replace(succeeded(state, event), failures=0), ()
            case EffectFailed():
                return _refused(state, event, view.now)
            case _:
                return state, ()


def _figures(before: QueueState, after: QueueState, queue: str) -> Stages:
    """What changed for the metrics: counts of a queue that is there, and the end of its series with it."""
    if after.counts == before.counts and (after.queue is None) == (before.queue is None):
        return ()
    if after.queue is None and before.queue is None:
        return ()
    known = before.queue is not None
    labels = {"queue_name": queue}
    return (
        tuple(
            Measure(measurement=Measurement.FORGET, name=METRIC.format(field), labels=labels)
            if after.queue is None
            else Measure(
                measurement=Measurement.GAUGE, name=METRIC.format(field), labels=labels, value=after.count(field)
            )
            for field in FIELDS
            if after.queue is None or not known or after.count(field) != before.count(field)
        ),
    )


def _queue_of_group(group: ApiObject) -> Iterable[str]:
    return (queue_of(group),) if isinstance(group, PodGroup) else ()


def _queue_of_command(command: ApiObject) -> Iterable[str]:
    """A Command of any namespace that targets a queue."""
    if not isinstance(command, Command):
        return ()
    target = command.target
    is_queue = (target.api_version, target.kind) == (kinds.QUEUE.api_version, kinds.QUEUE.kind)
    return (target.name,) if is_queue else ()


def _writing(view: View) -> bool:
    return any(isinstance(effect, Patch | Delete) for effect in view.in_flight.values())


def _refused(state: QueueState, event: EffectFailed, now: float) -> tuple[QueueState, Stages]:
    """After a conflict, plan anew as soon as a newer version is known; after anything else, later and later."""
    failures = state.failures + 1
    conflict = event.code == 409
    if conflict and state.queue is not None and state.queue.metadata.revision > state.sent:
        return replace(state, failures=failures), ()
    due = now + (1.0 if conflict else min(2.0**failures, LONGEST_BACKOFF))
    held = Backoff(due, state.sent if conflict else None)
    return replace(state, failures=failures, backoff=held), ((StartTimer(name=RETRY_TIMER, due=due),),)


def _over(state: QueueState, now: float) -> bool:
    """Whether the back-off has ended."""
    held = state.backoff
    assert held is not None
    newer = held.revision is not None and state.queue is not None and state.queue.metadata.revision > held.revision
    return newer or now >= held.due
