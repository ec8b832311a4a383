"""`QueueController`: one key per queue (Volcano: pkg/controllers/queue).

Level-triggered: one write at a time, and the next one follows from its result. Order: a parent, the annotation of
queues closed by their parent, the oldest Command, the parent's state, the state, the counts. A crash between any two
writes resumes here: a Command stays until the state it asks for is stored. Differences from Volcano: counts are
written to the status, batched; a Command is deleted after its result is stored, not before; a child follows its parent
by reading it, so a restart between the two loses nothing; native groups, which the scheduler has taken, count too.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from volcanoio.engine.queues.members import queue_and_phase_of
from volcanoio.engine.queues.transitions import ROOT_CLOSE_MESSAGE, QueueAction, is_satisfied, next_state
from volcanoio.framework.arguments import pluralize
from volcanoio.framework.backoff import WriteBackoff
from volcanoio.framework.controller import Input, Reference, Rule, Step, View
from volcanoio.framework.effects import (
    Delete,
    Effect,
    Measure,
    Measurement,
    Patch,
    Record,
    Stages,
    StartTimer,
    record_event,
)
from volcanoio.framework.events import Change, ControllerEvent, EffectFailed, EffectSucceeded, Observed
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import Command
from volcanoio.model.scheduling import PodGroup, PodGroupPhase, Queue
from volcanoio.model.scheduling import QueueState as Phase
from volcanoio.model.times import epoch
from volcanoio.model.workloads import NativePodGroup

PHASE_FIELDS: Mapping[str, str] = {
    "": "pending",
    PodGroupPhase.PENDING: "pending",
    PodGroupPhase.INQUEUE: "inqueue",
    PodGroupPhase.RUNNING: "running",
    PodGroupPhase.UNKNOWN: "unknown",
    PodGroupPhase.COMPLETED: "completed",
}
"""Status field that counts PodGroups of a phase; a new PodGroup is pending."""
COUNT_FIELDS = ("pending", "inqueue", "running", "unknown", "completed")


class QueueState(msgspec.Struct, frozen=True):
    """One queue: its object, its PodGroups by status field, and pending Commands, oldest first.

    - `counts_due`: when changed counts are written (epoch seconds; 0: none changed)
    - `backoff`: delay after a refused write; `written_revision`: the version that the last write was computed from
    """

    queue: Queue | None = None
    counts: dict[str, int] = {}
    commands: tuple[Command, ...] = ()
    counts_due: float = 0.0
    backoff: WriteBackoff = WriteBackoff()
    written_revision: int = 0

    @property
    def has_no_pod_groups(self) -> bool:
        """Whether no PodGroup, even a completed one, is in the queue."""
        return not any(self.counts.values())

    @property
    def can_be_forgotten(self) -> bool:
        """Whether the state can be forgotten."""
        return self.queue is None and self.has_no_pod_groups and not self.commands

    def count(self, field: str) -> int:
        """Return how many PodGroups a status field counts."""
        return self.counts.get(field, 0)


def fold(state: QueueState, event: Observed, key: str) -> QueueState:
    """Fold an observation; objects of other queues change nothing."""
    match event.object:
        case Queue() as queue if queue.metadata.name == key:
            if event.change is Change.GONE:
                return QueueState(counts=state.counts, commands=state.commands)
            return msgspec.structs.replace(state, queue=queue)
        case PodGroup() | NativePodGroup():
            return msgspec.structs.replace(state, counts=_updated_counts(state.counts, event, key))
        case Command() as command:
            others = tuple(is_known for is_known in state.commands if is_known.metadata.uid != command.metadata.uid)
            if event.change is not Change.GONE:
                others = tuple(sorted((*others, command), key=_age_key))
            return msgspec.structs.replace(state, commands=others)
        case _:
            return state


def fold_response(state: QueueState, event: EffectSucceeded) -> QueueState:
    """Fold the queue in the response to our own write, if it is newer than the observed one."""
    written = event.obj
    if state.queue is None or not isinstance(written, Queue):
        return state
    same = written.metadata.uid == state.queue.metadata.uid
    if same and written.metadata.revision > state.queue.metadata.revision:
        return msgspec.structs.replace(state, queue=written)
    return state


def _updated_counts(counts: dict[str, int], event: Observed, key: str) -> dict[str, int]:
    """Return the counts after a PodGroup appeared, disappeared, or changed phase or queue."""
    before = event.previous if event.change is not Change.APPEARED else None
    if before is None and event.change is Change.GONE:
        before = event.object
    after = None if event.change is Change.GONE else event.object
    result = dict(counts)
    for group, step in ((before, -1), (after, +1)):
        queue, phase = queue_and_phase_of(group)
        if queue == key:
            field = PHASE_FIELDS.get(phase, "unknown")
            result[field] = result.get(field, 0) + step
    return result


def _age_key(command: Command) -> tuple[str, int, str]:
    meta = command.metadata
    return (meta.creation_timestamp or "", meta.revision, meta.name)


WARNING, NORMAL = "Warning", "Normal"


def status_patch(queue: Queue, state: QueueState, phase: str) -> Patch:
    """Return the patch of the queue's state and counts, bound to the observed version."""
    content: dict[str, Any] = {"state": phase, **{field: state.count(field) for field in COUNT_FIELDS}}
    return Patch.of(kinds.QUEUE.resource, queue, {"status": content}, at_version=True, subresource="status")


def parent_patch(queue: Queue) -> Patch:
    """Return the patch that makes the root the parent of a queue without one."""
    return Patch.of(kinds.QUEUE.resource, queue, {"spec": {"parent": names.ROOT_QUEUE}})


def closed_by_parent_patch(queue: Queue, value: bool) -> Patch:
    """Record whether the queue is closed because its parent is, and therefore opens with it."""
    content = {"metadata": {"annotations": {names.CLOSED_BY_PARENT: "true" if value else "false"}}}
    return Patch.of(kinds.QUEUE.resource, queue, content)


def delete_command(command: Command) -> Delete:
    """Return the deletion of a Command that is done or cannot be executed."""
    return Delete.of(kinds.COMMAND.resource, command)


def queue_event(queue: Queue, type_: str, reason: str, message: str) -> Record:
    """Return an Event about the queue."""
    return record_event(kinds.QUEUE, queue, reason, message, type_=type_)


COUNT_DELAY = 0.2
"""Seconds for which changed counts are collected before they are written."""
OPEN_TIMEOUT = 30.0
"""Seconds for which an OpenQueue waits for a closed parent to open, from its creation."""
COUNTS_TIMER, COMMAND_TIMER = "counts", "command"
_CLOSED_PHASES = (Phase.CLOSED, Phase.CLOSING)

Plan: TypeAlias = tuple[QueueState, Stages]


def plan(state: QueueState, view: View) -> Plan:
    """Return the next write, if one is due, and the state after it."""
    if (queue := state.queue) is None:
        return _without_queue(state)
    if queue.metadata.deletion_timestamp is not None:
        return state, ()
    if not queue.spec.parent and not _is_root(queue):
        return _with_write(state, queue, parent_patch(queue))
    parent = _parent(queue, view)
    phase = queue.status.state
    is_closed_by_parent = queue.metadata.annotations.get(names.CLOSED_BY_PARENT) == "true"
    is_parent_closed = parent is not None and parent.status.state in _CLOSED_PHASES
    if is_closed_by_parent and phase == Phase.OPEN and not is_parent_closed:
        return _with_write(state, queue, closed_by_parent_patch(queue, False))
    action = QueueAction.SYNC
    stages: Stages = ()
    if state.commands:
        action, stages = _plan_command(queue, state.commands[0], view.now, is_parent_closed=is_parent_closed)
        if any(isinstance(effect, Delete) for stage in stages for effect in stage):
            return state, stages
    if action is QueueAction.SYNC and is_parent_closed and phase in ("", Phase.OPEN):
        if not is_closed_by_parent:
            return _with_write(state, queue, closed_by_parent_patch(queue, True))
        action = QueueAction.CLOSE
    elif (
        action is QueueAction.SYNC
        and is_closed_by_parent
        and phase in _CLOSED_PHASES
        and parent is not None
        and parent.is_open
    ):
        action = QueueAction.OPEN
    state, more = _plan_status(state, queue, next_state(phase, action, empty=state.has_no_pod_groups), action, view.now)
    return state, (*stages, *more)


def _without_queue(state: QueueState) -> Plan:
    """Delete the Commands for a queue that does not exist, one after the other."""
    return (state, ((delete_command(state.commands[0]),),)) if state.commands else (state, ())


def _is_root(queue: Queue) -> bool:
    return queue.metadata.name == names.ROOT_QUEUE


def _parent(queue: Queue, view: View) -> Queue | None:
    if _is_root(queue):
        return None
    found = view.lookup.get(kinds.QUEUE, queue.spec.parent)
    return found if isinstance(found, Queue) else None


def _plan_command(queue: Queue, command: Command, now: float, *, is_parent_closed: bool) -> tuple[QueueAction, Stages]:
    """Return what the oldest Command requires now; a Delete of it in the stages means that it is done."""
    if problem := _command_problem(queue, command):
        event = queue_event(queue, WARNING, command.action or "Command", problem)
        return QueueAction.SYNC, ((event, delete_command(command)),)
    action = QueueAction(command.action)
    if is_satisfied(queue.status.state, action):
        return QueueAction.SYNC, ((delete_command(command),),)
    if action is QueueAction.OPEN and is_parent_closed:
        deadline = _creation_time(command, now) + OPEN_TIMEOUT
        if now < deadline:
            return QueueAction.SYNC, ((StartTimer(name=COMMAND_TIMER, due=deadline),),)
        message = (
            f"queue {queue.metadata.name} cannot open while its parent {queue.spec.parent} is closed; open that first"
        )
        return QueueAction.SYNC, ((queue_event(queue, WARNING, command.action, message), delete_command(command)),)
    return action, ()


def _command_problem(queue: Queue, command: Command) -> str:
    """Return why a Command can never be executed; "" when it can."""
    if command.action not in tuple(QueueAction):
        is_known = ", ".join(QueueAction)
        return f'Command {command.metadata.key}: action "{command.action}" is not for queues; use one of {is_known}'
    if command.target.uid and command.target.uid != queue.metadata.uid:
        return f"Command {command.metadata.key} is for an earlier queue of this name (uid {command.target.uid})"
    if command.action == QueueAction.CLOSE and _is_root(queue):
        return ROOT_CLOSE_MESSAGE
    return ""


def _creation_time(command: Command, now: float) -> float:
    """Return when the Command was created, in epoch seconds; now if it has no timestamp."""
    text = command.metadata.creation_timestamp
    try:
        return epoch(text) or now
    except ValueError:
        return now


def _plan_status(state: QueueState, queue: Queue, phase: str, action: QueueAction, now: float) -> Plan:
    """Write a new state at once, and changed counts after a delay."""
    if phase != queue.status.state:
        after = _state_events(queue, state, phase, action)
        return _with_write(state, queue, status_patch(queue, state, phase), *after)
    if all(getattr(queue.status, field) == state.count(field) for field in COUNT_FIELDS):
        return replace(state, counts_due=0.0), ()
    if not state.counts_due:
        due = now + COUNT_DELAY
        return replace(state, counts_due=due), ((StartTimer(name=COUNTS_TIMER, due=due),),)
    if now < state.counts_due:
        return state, ()
    return _with_write(state, queue, status_patch(queue, state, phase))


def _state_events(queue: Queue, state: QueueState, phase: str, action: QueueAction) -> tuple[Effect, ...]:
    if action is QueueAction.SYNC:
        return ()
    remaining = sum(state.counts.values())
    waits = (
        f" until {pluralize(remaining, 'PodGroup')} {'is' if remaining == 1 else 'are'} gone"
        if phase == Phase.CLOSING
        else ""
    )
    return (queue_event(queue, NORMAL, action, f"queue is now {phase}{waits}"),)


def _with_write(state: QueueState, queue: Queue, write: Effect, *after: Effect) -> Plan:
    stages: Stages = ((write,), after) if after else ((write,),)
    return replace(state, written_revision=queue.metadata.revision, counts_due=0.0), stages


RETRY_TIMER = "retry"
COUNT_METRIC = "volcano_queue_pod_group_{}_count"
"""Gauge by `queue_name` for each count of PodGroups."""


class QueueController:
    """Reconciles state, parent and counts of queues, and reports the counts as Volcano's metrics."""

    name = "queue-controller"
    references = (Reference(kinds.QUEUE),)
    rules = (
        Rule(kinds.QUEUE.group, ("queues",), ("get", "list", "watch", "patch")),
        Rule(kinds.QUEUE.group, ("queues/status",), ("patch",)),
        Rule(kinds.POD_GROUP.group, ("podgroups",), ("get", "list", "watch")),
        Rule(kinds.NATIVE_POD_GROUP.group, ("podgroups",), ("get", "list", "watch")),
        Rule(kinds.COMMAND.group, ("commands",), ("get", "list", "watch", "delete")),
        Rule("", ("events",), ("create", "patch")),
    )

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Queues, their PodGroups and native groups, and Commands."""
        return (
            Input(kinds.QUEUE, lambda queue: (queue.metadata.name,)),
            Input(kinds.POD_GROUP, _queue_of_group),
            Input(kinds.NATIVE_POD_GROUP, _queue_of_group),
            Input(kinds.COMMAND, _queue_of_command),
        )

    def start(self, key: str) -> QueueState:  # noqa: ARG002 - the same for every key
        """Return the state of an unknown queue."""
        return QueueState()

    def reduce(self, state: QueueState, event: ControllerEvent, view: View) -> Step[QueueState]:
        """Fold one event, then return the next write, unless one is in flight or delayed."""
        folded, stages = self._fold(state, event, view)
        metrics = _count_metrics(state, folded, view.key)
        if folded.can_be_forgotten:
            return Step(None, metrics)
        if stages or not view.synced or _has_write_in_flight(view):
            return Step(folded, (*metrics, *stages))
        if _is_backing_off(folded, view.now):
            return Step(folded, metrics)
        planned, stages = plan(folded, view)
        return Step(planned, (*metrics, *stages))

    def _fold(self, state: QueueState, event: ControllerEvent, view: View) -> tuple[QueueState, Stages]:
        match event:
            case Observed():
                return fold(state, event, view.key), ()
            case EffectSucceeded():
                return replace(fold_response(state, event), backoff=WriteBackoff()), ()
            case EffectFailed():
                return _write_failed(state, event, view.now)
            case _:
                return state, ()


def _count_metrics(before: QueueState, after: QueueState, queue: str) -> Stages:
    """Return the metrics that changed: counts of an existing queue, or the end of its series."""
    if after.counts == before.counts and (after.queue is None) == (before.queue is None):
        return ()
    if after.queue is None and before.queue is None:
        return ()
    is_known = before.queue is not None
    labels = {"queue_name": queue}
    return (
        tuple(
            Measure(measurement=Measurement.FORGET, name=COUNT_METRIC.format(field), labels=labels)
            if after.queue is None
            else Measure(
                measurement=Measurement.GAUGE, name=COUNT_METRIC.format(field), labels=labels, value=after.count(field)
            )
            for field in COUNT_FIELDS
            if after.queue is None or not is_known or after.count(field) != before.count(field)
        ),
    )


def _queue_of_group(group: ApiObject) -> Iterable[str]:
    queue, _ = queue_and_phase_of(group)
    return (queue,) if queue else ()


def _queue_of_command(command: ApiObject) -> Iterable[str]:
    if not isinstance(command, Command):
        return ()
    target = command.target
    is_queue = (target.api_version, target.kind) == (kinds.QUEUE.api_version, kinds.QUEUE.kind)
    return (target.name,) if is_queue else ()


def _has_write_in_flight(view: View) -> bool:
    return any(isinstance(effect, Patch | Delete) for effect in view.in_flight.values())


def _write_failed(state: QueueState, event: EffectFailed, now: float) -> tuple[QueueState, Stages]:
    """After a conflict, plan again for the newer version; after other refusals, retry with growing delays."""
    state = replace(state, backoff=state.backoff.after_refusal(event.code, now, state.written_revision))
    if not _is_backing_off(state, now):  # a newer version is known already
        return state, ()
    return state, ((StartTimer(name=RETRY_TIMER, due=state.backoff.until),),)


def _is_backing_off(state: QueueState, now: float) -> bool:
    return state.backoff.is_active(now, state.queue.metadata.revision if state.queue is not None else -1)
