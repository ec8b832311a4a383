"""What a plugin chooses on a node for a task: annotations sent with the bind, undone with the placement.

The plugin of these tests hands out the slots of a node, a resource that only it accounts for. A slot is taken until its
pod is gone, so that a pod can be pipelined where a terminating pod still has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from volcanoio_plugins.scheduling.gang import Gang

from tests.scenario.scheduling.harness import World, actions, group, node, pod, waiting
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Nodes, Shape, Task, TaskStatus
from volcanoio.model.base import Manifest

SLOTS = "example.com/slots"
SLOT = "example.com/slot"


class Slots:
    """Gives each task with a limit of `SLOTS` the lowest free slot of its node."""

    name = "slots"
    ignored_resources = (SLOTS,)
    session: SessionView

    def open(self, session: SessionView) -> None:
        self.session = session

    def feasible_depends(self, shape: Shape) -> Depends:
        return Depends.PODS if SLOTS in shape.limits else Depends.SKIP

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        ok = self.allowed(shape, nodes)
        return Feasibility(ok, (("node(s) had no free slot", ~ok),))

    def allowed(self, shape: Shape, nodes: Nodes) -> NDArray[np.bool_]:
        return np.array([bool(self.free(name, terminating=False)) for name in nodes.names], np.bool_)

    def allowed_now(self, shape: Shape, nodes: Nodes) -> NDArray[np.bool_]:
        return np.array([bool(self.free(name, terminating=True)) for name in nodes.names], np.bool_)

    def annotates(self, shape: Shape) -> bool:
        return SLOTS in shape.limits

    def bind_annotations(self, task: Task) -> Mapping[str, str]:
        free = self.free(task.node, terminating=task.status is TaskStatus.ALLOCATED)
        return {SLOT: str(min(free))}

    def free(self, name: str, *, terminating: bool) -> set[int]:
        taken = {
            int(text)
            for task in self.session.tasks_on(name)
            if terminating or task.status is not TaskStatus.RELEASING
            if (text := (task.bind_annotations or task.pod.metadata.annotations).get(SLOT))
        }
        (amount,) = [
            each.status.allocatable[SLOTS] for each in self.session.nodes.objects if each.metadata.name == name
        ]
        return set(range(int(amount))) - taken


def world(*objects: Manifest, scheduler_actions: tuple[str, ...] = ("allocate",)) -> World:
    made = World(*objects)
    made.profile = Profile.of([[Gang({}), Slots()]], [actions()[name]({}) for name in scheduler_actions])
    return made


def with_slot(**more: Any) -> dict[str, Any]:
    """Return the spec of pods that take a slot."""
    return {"spec": {"containers": [{"name": "main", "resources": {"limits": {SLOTS: "1", "cpu": "1"}}}], **more}}


PAIR = [node("n1", **{SLOTS: "2"}), group("pg", 2, phase="Inqueue")]


def test_what_was_chosen_is_sent_with_the_bind_and_stays_on_the_pod() -> None:
    ran = world(*PAIR, *waiting("pg", 2, **with_slot())).run()
    assert {bind.name: bind.annotations for bind in ran.requests} == {"pg-0": {SLOT: "0"}, "pg-1": {SLOT: "1"}}
    assert ran.pod("pg-1").metadata.annotations[SLOT] == "1"
    assert not ran.state.ledger.tasks["ns-pg-1"].bind_annotations


def test_a_gang_that_does_not_fit_leaves_nothing_chosen() -> None:
    three = [node("n1", **{SLOTS: "2"}), group("pg", 3, phase="Inqueue")]
    ran = world(*three, *waiting("pg", 3, **with_slot())).run()
    assert ran.binds == {}
    assert ran.fit_error("pg") == "0/1 nodes are unavailable: 1 node(s) had no free slot."
    assert [task.bind_annotations for task in ran.state.ledger.tasks.values()] == [{}, {}, {}]


@pytest.mark.parametrize("code", [409, 404])
def test_a_refused_bind_gives_back_what_was_chosen(code: int) -> None:
    ran = world(*PAIR, *waiting("pg", 2, **with_slot()))
    ran.cycle()
    assert dict(ran.state.ledger.tasks["ns-pg-0"].bind_annotations) == {SLOT: "0"}, "kept while the bind is in flight"
    ran.echo(refuse={"pg-0": code})
    assert not ran.state.ledger.tasks["ns-pg-0"].bind_annotations
    ran.run()
    assert ran.requests[-1].annotations == {SLOT: "0"}


def test_a_pod_is_pipelined_where_a_terminating_pod_has_the_last_slot() -> None:
    old = pod("old", on="n1", phase="Running", annotations={SLOT: "0"}, **with_slot())
    ran = world(node("n1", **{SLOTS: "1"}), group("pg", 1, phase="Inqueue"), old, *waiting("pg", 1, **with_slot()))
    assert ran.run().fit_error("pg") == "0/1 nodes are unavailable: 1 node(s) had no free slot."
    ran.set_pod("old", deleting=True)
    assert ran.run().pipelines == {"pg-0": "n1"}
    ran.remove_terminating_pods()
    assert ran.run().binds == {"pg-0": "n1"}


def test_ignored_resources_are_no_part_of_requests_nodes_and_min_resources() -> None:
    full = group("pg", 1, phase="Inqueue", minResources={SLOTS: "7", "cpu": "1"})
    ran = world(node("n1", **{SLOTS: "1"}), full, *waiting("pg", 1, **with_slot()))
    ledger = ran.run().state.ledger
    assert ledger.tasks["ns-pg-0"].shape.requests == {"cpu": 1000, "pods": 1}
    assert ledger.jobs["ns/pg"].min_resources == {"cpu": 1000}
    assert ledger.columns.allocatable(SLOTS).tolist() == [0]


def test_resources_count_again_when_the_plugin_is_gone() -> None:
    ran = world(node("n1", **{SLOTS: "2"}), group("pg", 1, phase="Inqueue"), *waiting("pg", 1, **with_slot())).run()
    ran.profile = Profile.of([[Gang({})]], [actions()["allocate"]({})])
    ledger = ran.run().state.ledger
    assert ledger.columns.idle(SLOTS).tolist() == [1000]
