"""Events on a CronJob."""

from __future__ import annotations

from msgspec.structs import replace

from volcanoio.engine.cron.state import CronState
from volcanoio.framework.effects import Record
from volcanoio.framework.operators import event
from volcanoio.model import kinds
from volcanoio.model.cron import CronJob

WARNING, NORMAL = "Warning", "Normal"


def told(cron: CronJob, type_: str, reason: str, message: str) -> Record:
    """One Event."""
    return event(kinds.CRON_JOB, cron, reason, message, type_=type_)


def told_once(
    state: CronState, cron: CronJob, type_: str, reason: str, message: str
) -> tuple[CronState, tuple[Record, ...]]:
    """An Event unless the last one of its reason said the same."""
    if state.said.get(reason) == message:
        return state, ()
    return replace(state, said={**state.said, reason: message}), (told(cron, type_, reason, message),)
