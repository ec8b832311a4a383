"""Events on a JobFlow."""

from __future__ import annotations

from msgspec.structs import replace

from volcanoio.engine.flows.state import FlowState
from volcanoio.framework.effects import Record
from volcanoio.framework.operators import event
from volcanoio.model import kinds
from volcanoio.model.flow import JobFlow

WARNING, NORMAL = "Warning", "Normal"


def told(flow: JobFlow, type_: str, reason: str, message: str) -> Record:
    """One Event."""
    return event(kinds.JOB_FLOW, flow, reason, message, type_=type_)


def warned(state: FlowState, flow: JobFlow, reason: str, about: str, message: str) -> tuple[FlowState, list[Record]]:
    """A Warning unless the last one of this reason about this said the same."""
    subject = f"{reason} {about}"
    if state.said.get(subject) == message:
        return state, []
    said = {**state.said, subject: message}
    return replace(state, said=said), [told(flow, WARNING, reason, message)]
