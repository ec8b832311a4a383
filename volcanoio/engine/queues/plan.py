"""What to do next about one queue. Level-triggered: one write at a time, and the next one is found from what it became.

Order: a parent, the mark of who closed it, the oldest Command, the parent's example, the state, the counts. A crash
between any two writes resumes here: a Command stays until the state it asks for is stored.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec.structs import replace

from volcanoio.engine.queues import writes
from volcanoio.engine.queues.state import FIELDS, QueueState
from volcanoio.engine.queues.table import QueueAction, is_satisfied, next_state
from volcanoio.framework.controller import View
from volcanoio.framework.effects import Delete, Effect, Stages, StartTimer
from volcanoio.model import kinds, names
from volcanoio.model.command import Command
from volcanoio.model.scheduling import Queue
from volcanoio.model.scheduling import QueueState as Phase
from volcanoio.model.times import epoch

COUNT_DELAY = 0.2
"""Seconds that changes of counts are gathered before they are written."""
PATIENCE = 30.0
"""Seconds an OpenQueue waits for a closed parent to open, from its creation."""
COUNTS_TIMER, COMMAND_TIMER = "counts", "command"
_SHUT = (Phase.CLOSED, Phase.CLOSING)

Plan: TypeAlias = tuple[QueueState, Stages]


def plan(state: QueueState, view: View) -> Plan:
    """The next write, if one is due, and the state after asking for it."""
    queue = state.queue
    if queue is None:
        return _without_queue(state)
    if queue.metadata.deletion_timestamp is not None:
        return state, ()
    if not queue.spec.parent and not _is_root(queue):
        return _sent(state, queue, writes.parent(queue))
    parent = _parent(queue, view)
    phase = queue.status.state
    marked = queue.metadata.annotations.get(names.CLOSED_BY_PARENT) == "true"
    parent_shut = parent is not None and parent.status.state in _SHUT
    if marked and phase == Phase.OPEN and not parent_shut:
        return _sent(state, queue, writes.closed_by_parent(queue, False))
    action = QueueAction.SYNC
    stages: Stages = ()
    if state.commands:
        action, stages = _command(queue, state.commands[0], view.now, parent_shut=parent_shut)
        if any(isinstance(effect, Delete) for stage in stages for effect in stage):
            return state, stages
    if action is QueueAction.SYNC and parent_shut and phase in ("", Phase.OPEN):
        if not marked:
            return _sent(state, queue, writes.closed_by_parent(queue, True))
        action = QueueAction.CLOSE
    elif action is QueueAction.SYNC and marked and phase in _SHUT and parent is not None and parent.is_open:
        action = QueueAction.OPEN
    state, more = _status(state, queue, next_state(phase, action, empty=state.empty), action, view.now)
    return state, (*stages, *more)


def _without_queue(state: QueueState) -> Plan:
    """Commands for a queue that does not exist are taken away, one after the other."""
    return (state, ((writes.consumed(state.commands[0]),),)) if state.commands else (state, ())


def _is_root(queue: Queue) -> bool:
    return queue.metadata.name == names.ROOT_QUEUE


def _parent(queue: Queue, view: View) -> Queue | None:
    """The parent, if it is there: a missing one stops nothing but the parent's example."""
    if _is_root(queue):
        return None
    found = view.lookup.get(kinds.QUEUE, queue.spec.parent)
    return found if isinstance(found, Queue) else None


def _command(queue: Queue, command: Command, now: float, *, parent_shut: bool) -> tuple[QueueAction, Stages]:
    """What the oldest Command asks for now; a Delete of it in the stages means that it is over."""
    problem = _problem(queue, command)
    if problem:
        told = writes.told(queue, writes.WARNING, command.action or "Command", problem)
        return QueueAction.SYNC, ((told, writes.consumed(command)),)
    action = QueueAction(command.action)
    if is_satisfied(queue.status.state, action):
        return QueueAction.SYNC, ((writes.consumed(command),),)
    if action is QueueAction.OPEN and parent_shut:
        deadline = _created(command, now) + PATIENCE
        if now < deadline:
            return QueueAction.SYNC, ((StartTimer(name=COMMAND_TIMER, due=deadline),),)
        message = (
            f"queue {queue.metadata.name} cannot open while its parent {queue.spec.parent} is closed; open that first"
        )
        return QueueAction.SYNC, (
            (writes.told(queue, writes.WARNING, command.action, message), writes.consumed(command)),
        )
    return action, ()


def _problem(queue: Queue, command: Command) -> str:
    """Why a Command can never be carried out; "" when it can."""
    if command.action not in tuple(QueueAction):
        known = ", ".join(QueueAction)
        return f'Command {command.metadata.key}: action "{command.action}" is not for queues; use one of {known}'
    if command.target.uid and command.target.uid != queue.metadata.uid:
        return f"Command {command.metadata.key} is for an earlier queue of this name (uid {command.target.uid})"
    if command.action == QueueAction.CLOSE and _is_root(queue):
        return "the root queue cannot be closed; close the queues below it"
    return ""


def _created(command: Command, now: float) -> float:
    """When the Command was made, in epoch seconds; now, if it does not say."""
    text = command.metadata.creation_timestamp
    try:
        return epoch(text) or now
    except ValueError:
        return now


def _status(state: QueueState, queue: Queue, phase: str, action: QueueAction, now: float) -> Plan:
    """Write a new state at once, and changed counts when they were gathered."""
    if phase != queue.status.state:
        after = _told(queue, state, phase, action)
        return _sent(state, queue, writes.status(queue, state, phase), *after)
    if all(getattr(queue.status, field) == state.count(field) for field in FIELDS):
        return replace(state, counting_at=0.0), ()
    if not state.counting_at:
        due = now + COUNT_DELAY
        return replace(state, counting_at=due), ((StartTimer(name=COUNTS_TIMER, due=due),),)
    if now < state.counting_at:
        return state, ()
    return _sent(state, queue, writes.status(queue, state, phase))


def _told(queue: Queue, state: QueueState, phase: str, action: QueueAction) -> tuple[Effect, ...]:
    if action is QueueAction.SYNC:
        return ()
    waits = f": waits until its {sum(state.counts.values())} PodGroups are gone" if phase == Phase.CLOSING else ""
    return (writes.told(queue, writes.NORMAL, action, f"queue is now {phase}{waits}"),)


def _sent(state: QueueState, queue: Queue, write: Effect, *after: Effect) -> Plan:
    stages: Stages = ((write,), after) if after else ((write,),)
    return replace(state, sent=queue.metadata.revision, counting_at=0.0), stages
