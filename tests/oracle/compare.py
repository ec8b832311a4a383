"""Comparison: the engine's cycle and the oracle's session must make the same decisions about a world."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.actions.table import ACTIONS
from tests.oracle.cluster import Cluster, Node, Task
from tests.oracle.session import Session, run
from tests.scenario.scheduling.harness import World
from volcanoio.framework.scheduling_effects import BindBatch, Evict
from volcanoio.model import kinds


def compare(world: World, conf: str, memory: dict[str, Any] | None = None) -> Session:
    """Compare one cycle, and return the oracle's session; `memory` is the state of its plugins between sessions."""
    cluster = Cluster([kinds.of(obj).manifest(obj) for obj in world.objects.values()])
    waiting = {job.uid for job in cluster.jobs if job.phase == "Pending"}
    now = world.now
    world.cycle()
    placer, columns = world.state.placer, world.state.ledger.columns

    def tie(task: Task, node: Node) -> int:
        """Return the engine's hash of cycle, shape and node."""
        shape = world.state.ledger.tasks[task.uid].shape
        return int(placer.tie_keys(shape, np.array([columns.rows[node.name]], np.intp))[0])

    session = run(Session(cluster, conf, tie, now=now, memory={} if memory is None else memory), ACTIONS)
    name = {task.uid: task.name for task in cluster.tasks}
    binds = {bind.name: bind.node for each in world.last if isinstance(each, BindBatch) for bind in each.binds}
    assert world.snapshot is not None
    assert binds == {name[uid]: node for uid, node in session.binds.items()}
    evictions = [(each.name, each.reason) for each in world.last if isinstance(each, Evict)]
    assert evictions == [(name[uid], reason) for uid, reason in session.evictions.items()]
    pipelined = {f"{task.namespace}/{task.name}": task.node for task in cluster.tasks if task.state == "pipelined"}
    assert dict(world.snapshot.pipelined) == pipelined
    phases = {job.uid: world.snapshot.phases[f"{job.namespace}/{job.name}"] for job in cluster.jobs}
    assert {uid for uid in waiting if phases[uid] != "Pending"} == {
        job.uid for job in cluster.jobs if job.uid in waiting and job.phase != "Pending"
    }
    return session
