"""What becomes of decisions that were never handed out, because the cycle failed or was closed early."""

from __future__ import annotations

from volcanoio.engine.scheduling.session import CycleSession
from volcanoio.framework.effects import Patch
from volcanoio.framework.events import EffectFailed
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.framework.scheduling_effects import BindBatch, Evict


def take_back(session: CycleSession) -> None:
    """Let the state be as if the decisions still in the outbox had not been made: nobody will carry them out."""
    state = session.state
    for task in session.claimed:
        state.claims.drop(task)
    for decision in session.outbox.take():
        match decision:
            case BindBatch():
                for bind in decision.binds:
                    state.ledger.move(state.ledger.tasks[bind.uid], TaskStatus.PENDING, "")
            case Evict():
                state.pods.unevict(decision.uid)
            case Patch():
                key = f"{decision.resource}/{decision.namespace}/{decision.name}"
                state.fold(EffectFailed(controller="", key=key, effect_id=decision.id, code=0))
            case _:
                pass  # an Event that is not written is only not written
