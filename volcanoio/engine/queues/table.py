"""What becomes of a queue's state, as data (Volcano: pkg/controllers/queue/state)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from volcanoio.model.scheduling import QueueState


class QueueAction(StrEnum):
    """What a Command may ask of a queue; SyncQueue is the controller's own."""

    OPEN = "OpenQueue"
    CLOSE = "CloseQueue"
    SYNC = "SyncQueue"


class Rule(StrEnum):
    """How the next state is found. SETTLE closes when no PodGroup is left, and else waits for the last one."""

    OPEN = "open"
    SETTLE = "settle"
    KEEP = "keep"


OPEN, CLOSED, CLOSING, UNKNOWN = QueueState.OPEN, QueueState.CLOSED, QueueState.CLOSING, QueueState.UNKNOWN

TRANSITIONS: Mapping[tuple[str, QueueAction], Rule] = {
    ("", QueueAction.SYNC): Rule.OPEN,
    ("", QueueAction.OPEN): Rule.OPEN,
    ("", QueueAction.CLOSE): Rule.SETTLE,
    (OPEN, QueueAction.SYNC): Rule.KEEP,
    (OPEN, QueueAction.OPEN): Rule.KEEP,
    (OPEN, QueueAction.CLOSE): Rule.SETTLE,
    (CLOSING, QueueAction.SYNC): Rule.SETTLE,
    (CLOSING, QueueAction.OPEN): Rule.OPEN,
    (CLOSING, QueueAction.CLOSE): Rule.SETTLE,
    (CLOSED, QueueAction.SYNC): Rule.KEEP,
    (CLOSED, QueueAction.OPEN): Rule.OPEN,
    (CLOSED, QueueAction.CLOSE): Rule.KEEP,
    (UNKNOWN, QueueAction.SYNC): Rule.KEEP,
    (UNKNOWN, QueueAction.OPEN): Rule.OPEN,
    (UNKNOWN, QueueAction.CLOSE): Rule.SETTLE,
}


def next_state(state: str, action: QueueAction, *, empty: bool) -> str:
    """The state an action leads to; a state nobody knows is treated as Unknown."""
    match TRANSITIONS[state if (state, action) in TRANSITIONS else UNKNOWN, action]:
        case Rule.OPEN:
            return OPEN
        case Rule.SETTLE:
            return CLOSED if empty else CLOSING
        case Rule.KEEP:
            return state


def is_satisfied(state: str, action: QueueAction) -> bool:
    """Whether a state already is what an action asks for."""
    match action:
        case QueueAction.OPEN:
            return state == OPEN
        case QueueAction.CLOSE:
            return state in (CLOSED, CLOSING)
        case QueueAction.SYNC:
            return True
