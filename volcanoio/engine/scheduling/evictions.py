"""What follows from a committed statement with evictions: what is sent, what is said, and what its tasks claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.engine.scheduling.undo import Evicted
from volcanoio.engine.statuses import pod_status
from volcanoio.framework.operators import event
from volcanoio.framework.scheduling_effects import Evict
from volcanoio.model import kinds

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.session import CycleSession


def send_evictions(session: CycleSession, evicted: Sequence[Evicted]) -> None:
    """Evict the tasks, which are Releasing already, and say so on each, and once on each of their PodGroups."""
    told: set[str] = set()
    put, evicting, nodes = session.outbox.put, session.state.pods.evicting, session.nodes
    for task, _, reason, _ in evicted:
        evicting.add(task.uid)
        effect = Evict(
            group=task.job, uid=task.uid, namespace=task.namespace, name=task.name, node=task.node, reason=reason
        )
        put(effect)
        if task.owner is not None and task.owner.known and task.job not in told:
            told.add(task.job)
            put(event(kinds.POD_GROUP, task.owner.group, "Evict", reason))
        said = f"Pod is evicted, because of {reason}"
        put(event(kinds.POD, task.pod, "Evict", said, type_="Warning"))
        nodes.free(nodes.rows[task.node])
    stats, action = session.stats, evicted[0].reason
    stats.evicted += len(evicted)
    stats.evictions[action] = stats.evictions.get(action, 0) + 1


def claim(
    session: CycleSession, evicted: Sequence[Evicted], pipelined: Sequence[TaskInfo], paid: Sequence[TaskInfo]
) -> None:
    """Keep the room of pipelined tasks for them; those that evictions made room for are nominated on their pods."""
    victims = {entry.task.uid for entry in evicted}
    for task in pipelined:
        session.state.claims.make(task, task.node, victims)
        session.claimed.append(task)
    for task in paid:
        if task.pod.status.nominated_node_name == task.node:
            continue
        session.outbox.put(pod_status(task.pod, {"nominatedNodeName": task.node}))
