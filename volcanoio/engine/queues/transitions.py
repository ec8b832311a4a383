"""State transitions of a queue as data (Volcano: pkg/controllers/queue/state)."""

from collections.abc import Mapping
from enum import StrEnum

from volcanoio.model.scheduling import QueueState

ROOT_CLOSE_MESSAGE = "the root queue cannot be closed; close the queues below it"
"""Message of a refused CloseQueue for the root queue."""


class QueueAction(StrEnum):
    """Actions of Commands for queues; SyncQueue is the controller's own."""

    OPEN = "OpenQueue"
    CLOSE = "CloseQueue"
    SYNC = "SyncQueue"


class NextState(StrEnum):
    """How the next state is found: CLOSE is Closed without PodGroups, else Closing."""

    OPEN = "open"
    CLOSE = "close"
    KEEP = "keep"


OPEN, CLOSED, CLOSING, UNKNOWN = QueueState.OPEN, QueueState.CLOSED, QueueState.CLOSING, QueueState.UNKNOWN

TRANSITIONS: Mapping[tuple[str, QueueAction], NextState] = {
    ("", QueueAction.SYNC): NextState.OPEN,
    ("", QueueAction.OPEN): NextState.OPEN,
    ("", QueueAction.CLOSE): NextState.CLOSE,
    (OPEN, QueueAction.SYNC): NextState.KEEP,
    (OPEN, QueueAction.OPEN): NextState.KEEP,
    (OPEN, QueueAction.CLOSE): NextState.CLOSE,
    (CLOSING, QueueAction.SYNC): NextState.CLOSE,
    (CLOSING, QueueAction.OPEN): NextState.OPEN,
    (CLOSING, QueueAction.CLOSE): NextState.CLOSE,
    (CLOSED, QueueAction.SYNC): NextState.KEEP,
    (CLOSED, QueueAction.OPEN): NextState.OPEN,
    (CLOSED, QueueAction.CLOSE): NextState.KEEP,
    (UNKNOWN, QueueAction.SYNC): NextState.KEEP,
    (UNKNOWN, QueueAction.OPEN): NextState.OPEN,
    (UNKNOWN, QueueAction.CLOSE): NextState.CLOSE,
}


def next_state(state: str, action: QueueAction, *, empty: bool) -> str:
    """Return the state after an action; an unknown state counts as Unknown."""
    match TRANSITIONS[state if (state, action) in TRANSITIONS else UNKNOWN, action]:
        case NextState.OPEN:
            return OPEN
        case NextState.CLOSE:
            return CLOSED if empty else CLOSING
        case NextState.KEEP:
            return state


def is_satisfied(state: str, action: QueueAction) -> bool:
    """Return whether a state is already what an action requires."""
    match action:
        case QueueAction.OPEN:
            return state == OPEN
        case QueueAction.CLOSE:
            return state in (CLOSED, CLOSING)
        case QueueAction.SYNC:
            return True
