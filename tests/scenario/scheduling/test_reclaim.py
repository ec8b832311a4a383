"""reclaim: what a queue below its share takes back from queues above theirs, and what stays with them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.scenario.scheduling.harness import World, group, node, pod, pods, queue
from tests.scenario.scheduling.victims import bury, evicted, running, waiting
from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate, backfill, reclaim"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
BARE = """
actions: "allocate, reclaim"
tiers:
- plugins:
  - {name: gang, enableReclaimable: false}
  - name: conformance
"""
"""No plugin spares anyone but the cluster's own pods."""


def job(name: str, minimum: int, queue: str, *members: Manifest, **more: Any) -> list[Manifest]:
    """A PodGroup in a queue with its pods."""
    phase = more.pop("phase", "Running" if members and members[0]["spec"]["nodeName"] else "Inqueue")
    return [group(name, minimum, phase=phase, queue=queue, **more), *members]


def after(*objects: Manifest, conf: str = CONF) -> list[str]:
    """Who is evicted in the first cycle."""
    return evicted(World(*objects, conf=conf))


A, B = queue("a"), queue("b")
FULL = (node("n1", cpu="4"), A, B, *job("old", 1, "a", *running("old", 4)))
NEW = job("new", 1, "b", *waiting("new", 1))


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([*FULL, *NEW], ["old-3"]),
        ([*FULL, *job("new", 2, "b", *waiting("new", 2))], ["old-2", "old-3"]),
        ([*FULL, *job("new", 3, "b", *waiting("new", 3))], []),  # more than the share of b: nothing for a gang in part
        ([*FULL, *job("new", 1, "a", *waiting("new", 1))], []),  # not within a queue
        ([node("n1", cpu="4"), queue("a", reclaimable=False), B, *FULL[3:], *NEW], []),
        ([*FULL, *job("new", 1, "b", *waiting("new", 1, spec={"preemptionPolicy": "Never"}))], []),
        ([*FULL, queue("c", weight=6), *job("new", 1, "c", *waiting("new", 1, cpu="3"))],
         ["old-1", "old-2", "old-3"]),
        ([node("n1", cpu="4"), queue("a", weight=3), B, *job("old", 1, "a", *running("old", 3)),
          *job("own", 1, "b", *running("own", 1)), *NEW], []),  # both have their shares
        ([node("n1", cpu="4"), A, B, *job("old", 1, "a", *pods("old", 4, "old", cpu="1", on="n1"), phase="Running"),
          *NEW], []),  # what is bound and does not run yet
        ([*FULL, node("n2"), *NEW], []),  # room elsewhere
        ([*FULL, *job("new", 1, "b", *waiting("new", 1, spec={"nodeSelector": {"disk": "ssd"}}))], []),
    ],
)  # fmt: skip
def test_who_may_be_reclaimed(objects: list[Manifest], expected: list[str]) -> None:
    assert after(*objects) == expected


def test_gangs_stay_whole_where_the_plugin_gang_decides() -> None:
    """A tier that names nobody leaves the choice to the next one: Volcano's rule."""
    gang = node("n1", cpu="4"), A, B, *job("old", 4, "a", *running("old", 4)), *NEW
    assert after(*gang) == ["old-3"]
    assert after(*gang, conf=CONF.replace("- plugins:\n  - name: predicates", "  - name: predicates")) == []


def test_the_queue_that_stands_last_loses_first_and_in_it_the_job_of_lowest_standing() -> None:
    low, high = queue("low", priority=1), queue("high", priority=9)
    old = *job("x", 0, "low", *running("x", 2)), *job("y", 0, "high", *running("y", 2))
    assert after(node("n1", cpu="4"), low, high, queue("b"), *old, *NEW) == ["x-1"]


def test_no_queue_falls_below_its_guarantee() -> None:
    safe = queue("a", guarantee={"resource": {"cpu": "3"}})
    victims = job("old", 0, "a", *running("old", 4))
    assert after(node("n1", cpu="4"), safe, B, *victims, *NEW, conf=BARE) == ["old-3"]
    assert after(node("n1", cpu="4"), safe, B, *victims, *job("new", 2, "b", *waiting("new", 2)), conf=BARE) == []


def test_what_does_not_fit_in_the_end_evicts_nobody() -> None:
    """A filter that evictions do not help, and a victim that alone is too small."""
    start = node("n1", cpu="4"), A, B, *job("old", 0, "a", *running("old", 2))
    rest = job("rest", 0, "b", *running("rest", 2, cpu="1"))
    assert after(*start, *rest, *job("new", 1, "b", *waiting("new", 1, cpu="3")), conf=BARE) == []
    assert after(*start, *rest, *job("new", 1, "b", *waiting("new", 1, cpu="2")), conf=BARE) == ["old-0", "old-1"]


def test_a_gang_takes_room_that_is_there_and_victims_for_the_rest() -> None:
    world = World(*FULL, node("n2", cpu="1"), *job("new", 2, "b", *waiting("new", 2)), conf=CONF)
    world.cycle()
    assert world.evictions == ["old-3"]
    assert world.picture is not None
    assert sorted(world.picture.pipelined.values()) == ["n1", "n2"]


@pytest.mark.parametrize("order", ["allocate, reclaim", "reclaim, allocate"])
def test_the_reclaimer_has_the_room_and_the_evicted_wait(order: str) -> None:
    conf = CONF.replace("allocate, backfill, reclaim", order)
    world = World(*FULL, *job("new", 2, "b", *waiting("new", 2)), conf=conf)
    world.run(3)
    assert sorted(world.evictions) == ["old-2", "old-3"], "no more while these terminate"
    bury(world)
    for at in (2, 3):
        world.put(pod(f"again-{at}", "old", cpu="1"))
    for _ in range(6):
        world.run()
        bury(world)
    assert world.binds == {"new-0": "n1", "new-1": "n1"}
    assert len(world.evictions) == 2


def test_queues_that_could_take_turns_for_ever_do_not_begin() -> None:
    """Either queue starves while it has less than all its tasks, and nobody is spared: nothing would ever settle."""
    members = job("old", 0, "a", *running("old", 2)), job("new", 2, "b", *waiting("new", 2))
    conf = BARE.replace("{name: gang, enableReclaimable: false}", "{name: priority, enableReclaimable: false}")
    assert after(node("n1", cpu="2"), A, B, *members[0], *members[1], conf=conf) == []


def test_that_one_of_the_evicted_never_evicts_does_not_speak_for_the_others() -> None:
    other, never = running("old", 2)
    never["spec"]["preemptionPolicy"] = "Never"
    conf = BARE.replace("{name: gang, enableReclaimable: false}", "{name: priority, enableReclaimable: false}")
    new = job("new", 1, "b", *waiting("new", 1, cpu="2"))
    assert after(node("n1", cpu="2"), A, B, *job("old", 0, "a", other, never), *new, conf=conf) == []


def test_a_queue_is_asked_for_every_task_that_takes_room_without_evictions() -> None:
    """Of two tasks that fit into what ends, the queue deserves one: the gang of two reserves nothing."""
    conf = 'actions: "reclaim"\ntiers:\n- plugins:\n  - name: gang\n  - name: capacity\n  - name: predicates\n'
    world = World(
        queue("default"),
        queue("ours", guarantee={"resource": {"cpu": "2"}}),
        node("n1", cpu="2"),
        node("n2", cpu="1500m"),
        *job("held", 1, "ours", *running("held", 3, on="n2", cpu="500m")),
        *job("ending", 1, "default", *running("ending", 1, cpu="2")),
        *job("new", 2, "ours", *waiting("new", 2, cpu="500m")),
        conf=conf,
    )
    (ending,) = [obj for (_, key), obj in world.objects.items() if key == "ns/ending-0"]
    world.put(replace(ending, metadata=replace(ending.metadata, deletion_timestamp="2026-01-01T00:00:00Z")))
    world.cycle()
    assert world.picture is not None
    assert not world.evictions
    assert not world.picture.pipelined
