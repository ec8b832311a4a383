"""Queue status.allocated: what a queue's jobs hold, summed up the chain of parents."""

from __future__ import annotations

from collections.abc import Mapping

from volcanoio.engine.scheduling.amounts import add_amounts
from volcanoio.engine.scheduling.queues import QueueInfo, nonzero
from volcanoio.engine.scheduling.session import CycleSession
from volcanoio.framework.effects import Patch
from volcanoio.model import kinds
from volcanoio.model.names import ROOT_QUEUE
from volcanoio.model.resources import CPU, MEMORY, amounts, resource_list


def write_queues(session: CycleSession, period: float) -> None:
    """Write the amounts that changed, at most once per period and queue."""
    queues = session.state.ledger.known_queues
    for name, held in sorted(_held(queues).items()):
        queue = queues[name]
        seen = nonzero(amounts(queue.object.status.allocated))
        last = seen if queue.written is None else queue.written
        if held == last or session.now < queue.written_at + period:
            continue
        queue.written, queue.written_at = held, session.now
        listed: dict[str, str | None] = dict.fromkeys(queue.object.status.allocated)
        listed.update(dict.fromkeys(last))
        listed.update(resource_list({CPU: 0, MEMORY: 0, **held}))
        session.outbox.put(
            Patch(
                resource=kinds.QUEUE.resource,
                namespace="",
                name=name,
                uid=queue.object.metadata.uid,
                subresource="status",
                patch={"status": {"allocated": listed}},
            )
        )


def _held(queues: Mapping[str, QueueInfo]) -> dict[str, dict[str, int]]:
    """What each queue and its descendants hold; a missing or circular parent ends the chain."""
    total: dict[str, dict[str, int]] = {name: {} for name in queues}
    for name, queue in queues.items():
        seen: set[str] = set()
        at = name
        while at in queues and at not in seen:
            seen.add(at)
            add_amounts(total[at], queue.held, 1)
            at = queues[at].object.spec.parent or (ROOT_QUEUE if at != ROOT_QUEUE else "")
    return total
