"""Plugin capacity: how much a queue may use, on its own and below its ancestors."""

from __future__ import annotations

from typing import cast

from tests.scenario.scheduling.capacity_clusters import FLAT, ROOT, TREE, guarantee, running_job, waiting_job
from tests.scenario.scheduling.harness import Scenario, World, group, node, on_node, pod, queue, scenarios
from volcanoio.engine.scheduling.session.cycle import open_session
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model.base import Manifest


def closed(manifest: Manifest) -> Manifest:
    """Set the state of a queue to Closed, and return it."""
    manifest["status"]["state"] = "Closed"
    return manifest


@scenarios(
    Scenario(
        name="a queue uses no more than its capability",
        cluster=[
            node("n1"),
            queue("q", capability={"cpu": "3"}),
            *waiting_job("a", "q", 5, cpu="1", memory="1Gi"),
        ],
        cycles=2,
        bind_counts={"a": 3},
    ),
    Scenario(
        name="a queue does not use what another queue is guaranteed",
        cluster=[
            node("n1"),
            queue("q"),
            queue("other", guarantee=guarantee(cpu="5")),
            *waiting_job("a", "q", 8, cpu="1"),
        ],
        cycles=2,
        bind_counts={"a": 3},
    ),
    Scenario(
        name="a resource that the capability does not name is not limited, nor does deserved limit it",
        cluster=[
            node("n1"),
            queue("q", capability={"memory": "64Gi"}, deserved={"cpu": "1"}),
            *waiting_job("a", "q", 8, cpu="1"),
        ],
        cycles=2,
        bind_counts={"a": 8},
    ),
    Scenario(
        name="no pod of a closed queue is placed",
        cluster=[node("n1"), closed(queue("q")), *waiting_job("a", "q", cpu="1")],
        cycles=2,
    ),
    Scenario(
        name="a best-effort pod needs no room in its queue",
        conf=FLAT.replace("allocate", "allocate, backfill"),
        cluster=[node("n1"), queue("q", capability={"cpu": "1"}), group("a", 1, queue="q"), pod("a-0", "a")],
        cycles=2,
        binds=on_node("n1", "a-0"),
    ),
    Scenario(
        name="a queue takes the capability of its parent for resources that its own does not name",
        conf=TREE,
        cluster=[
            node("n1", cpu="16", memory="64Gi"),
            ROOT,
            queue("top", capability={"cpu": "3", "memory": "8Gi"}),
            queue("a", parent="top", capability={"memory": "6Gi"}),
            *waiting_job("a", "a", 8, cpu="1", memory="1Gi"),
        ],
        cycles=2,
        bind_counts={"a": 3},
    ),
    Scenario(
        name="below a parent with a limit a queue does not use what its sibling is guaranteed",
        conf=TREE,
        cluster=[
            node("n1", cpu="16"),
            ROOT,
            queue("top", capability={"cpu": "8"}),
            queue("a", parent="top"),
            queue("b", parent="top", guarantee=guarantee(cpu="3")),
            *waiting_job("a", "a", 16, cpu="1"),
        ],
        cycles=2,
        bind_counts={"a": 5},
    ),
    conf=FLAT,
)
def test_a_queue_uses_no_more_than_its_limits_allow(scenario: Scenario) -> None:
    scenario.check()


def test_every_ancestor_limits_what_its_queues_use_together() -> None:
    world = World(
        node("n1", cpu="16"),
        ROOT,
        queue("top", capability={"cpu": "6"}),
        queue("mid", parent="top", capability={"cpu": "5"}),
        queue("a", parent="mid", capability={"cpu": "4"}),
        queue("b", parent="mid", capability={"cpu": "4"}),
        queue("c", parent="top"),
        *waiting_job("a", "a", 8, cpu="1"),
        *waiting_job("b", "b", 8, cpu="1"),
        *waiting_job("c", "c", 8, cpu="1"),
        conf=TREE,
    )
    world.run(3)
    counts = {name: sum(key.startswith(name) for key in world.binds) for name in "abc"}
    assert counts["a"] <= 4
    assert counts["b"] <= 4
    assert counts["a"] + counts["b"] <= 5
    assert sum(counts.values()) == 6


def test_a_gang_without_room_in_its_queue_is_not_retried_until_the_queue_has_room() -> None:
    world = World(
        node("n1"),
        queue("q", capability={"cpu": "4"}),
        *running_job("a", "q", 3, cpu="1"),
        *waiting_job("b", "q", 3, 3, cpu="1"),
        conf=FLAT,
    )
    world.run(2)
    assert "ns/b" not in attempted_jobs(world)
    why = "queue q has no room left for 2 of its tasks"
    assert world.state.ledger.jobs["ns/b"].attempts.reason.text == why
    assert [entry.message for entry in world.pod("b-1").status.conditions] == [why]
    amounts = "(queue q: needs cpu 3, in use 3, limit 4)"
    assert world.group("b").status.conditions[-1].message.endswith(f". Origin reason is {why} {amounts}")
    world.set_pod("a-0", phase="Succeeded")
    world.run()
    assert not world.binds, "room for two of three"
    world.set_pod("a-1", phase="Succeeded")
    world.run()
    assert len(world.binds) == 3


def test_a_gang_without_quota_and_room_is_not_retried_until_there_is_room() -> None:
    """Four of its six tasks are within the limit, and three of these fit the nodes."""
    world = World(
        *(node(f"n{at}", cpu="3") for at in range(3)),
        queue("q", capability={"cpu": "8"}),
        *waiting_job("b", "q", 6, 6, cpu="2"),
        conf=FLAT,
    )
    world.run(2)
    assert "ns/b" not in attempted_jobs(world)
    assert "0/3 nodes are unavailable" in world.state.ledger.jobs["ns/b"].attempts.reason.text


def test_a_raised_limit_takes_effect_in_the_next_cycle() -> None:
    world = World(node("n1"), queue("q", capability={"cpu": "2"}), *waiting_job("b", "q", 3, 3, cpu="1"), conf=FLAT)
    world.run(2)
    world.put(queue("q", capability={"cpu": "3"}))
    world.run()
    assert len(world.binds) == 3


def attempted_jobs(world: World) -> set[str]:
    """Run allocate, undo its decisions, and return the jobs that it tried."""
    opening = CycleOpened(cycle=99, upto=0, seed=1, at=world.now, period=world.period)
    session = CycleSession(world.state, world.profile, opening)
    for _ in open_session(session):
        pass
    action = next(action for action in world.profile.actions if action.name == "allocate")
    for _ in action.run(cast("Session", session)):
        pass
    session.undo()
    return session.attempted_jobs
