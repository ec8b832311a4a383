"""reclaim: what a queue below its share takes back from queues above theirs, and what stays with them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from tests.scenario.scheduling.harness import World, group, node, pod, pods, queue
from tests.scenario.scheduling.victims import bury, evicted, running, waiting
from volcanoio.framework.scheduling_effects import Evict
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.core import Pod
from volcanoio.model.packaged import config_path

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


def test_the_last_queue_in_order_loses_first_and_in_it_the_last_job() -> None:
    low, high = queue("low", priority=1), queue("high", priority=9)
    old = *job("x", 0, "low", *running("x", 2)), *job("y", 0, "high", *running("y", 2))
    assert after(node("n1", cpu="4"), low, high, queue("b"), *old, *NEW) == ["x-1"]


def test_no_queue_falls_below_its_guarantee() -> None:
    safe = queue("a", guarantee={"resource": {"cpu": "3"}})
    victims = job("old", 0, "a", *running("old", 4))
    assert after(node("n1", cpu="4"), safe, B, *victims, *NEW, conf=BARE) == ["old-3"]
    assert after(node("n1", cpu="4"), safe, B, *victims, *job("new", 2, "b", *waiting("new", 2)), conf=BARE) == []


def test_a_pod_that_would_not_fit_anyway_evicts_no_other() -> None:
    """A filter that evictions do not help, and a victim that alone is too small."""
    start = node("n1", cpu="4"), A, B, *job("old", 0, "a", *running("old", 2))
    rest = job("rest", 0, "b", *running("rest", 2, cpu="1"))
    assert after(*start, *rest, *job("new", 1, "b", *waiting("new", 1, cpu="3")), conf=BARE) == []
    assert after(*start, *rest, *job("new", 1, "b", *waiting("new", 1, cpu="2")), conf=BARE) == ["old-0", "old-1"]


def test_a_gang_takes_room_that_is_there_and_victims_for_the_rest() -> None:
    world = World(*FULL, node("n2", cpu="1"), *job("new", 2, "b", *waiting("new", 2)), conf=CONF)
    world.cycle()
    assert world.evictions == ["old-3"]
    assert world.snapshot is not None
    assert sorted(world.snapshot.pipelined.values()) == ["n1", "n2"]


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
    assert world.snapshot is not None
    assert not world.evictions
    assert not world.snapshot.pipelined


LENDING = config_path("scheduler", "reclaim.conf").read_text(encoding="utf-8")


def shares(borrower: int, owner: int, *, conf: str = LENDING, cpu: str = "1", count: int = 32) -> tuple[int, int]:
    """How many pods run of a job that filled 32 cores from a queue of weight 1, and of one in a queue of weight 3.

    Both have `count` pods and these minimums; what is evicted is made anew and waits.
    """
    nodes = [node(f"n{number}", cpu="8") for number in range(4)]
    world = World(*nodes, queue("small"), queue("large", weight=3), conf=conf)
    for name, minimum, where in (("borrower", borrower, "small"), ("owner", owner, "large")):
        world.put(group(name, minimum, queue=where, minResources={"cpu": str(minimum * int(cpu))}))
        world.run(2)
        for member in pods(name, count if world.phase(name) != "Pending" else 0, name, cpu=cpu):
            world.put(member)
        for number in range(20):
            world.run()
            gone = [each.name for each in world.last if isinstance(each, Evict)]
            bury(world)
            for old in gone:
                world.put(pod(f"{old}-again-{number}", old.partition("-")[0], cpu=cpu))
    of = Counter(each.metadata.name.partition("-")[0] for each in world.objects.values() if is_placed(each))
    return of["borrower"], of["owner"]


def is_placed(obj: ApiObject) -> bool:
    return isinstance(obj, Pod) and bool(obj.spec.node_name)


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        (LENDING, (8, 24)),
        (LENDING.replace("enableJobStarving: false", "enableJobStarving: true"), (31, 1)),  # the owner's minimum
        (config_path("scheduler", "volcano-scheduler.conf").read_text(encoding="utf-8"), (32, 0)),
        (config_path("scheduler", "multi-tenant.conf").read_text(encoding="utf-8"), (32, 0)),
    ],
    ids=["reclaim.conf", "where gang says who starves", "volcano-scheduler.conf", "multi-tenant.conf"],
)
def test_a_queue_that_lent_everything_gets_its_share_back(conf: str, expected: tuple[int, int]) -> None:
    assert shares(1, 1, conf=conf) == expected


def test_overcommit_keeps_a_gang_out_of_a_cluster_that_a_borrower_has_filled() -> None:
    """The owner's 8 cores beside 32 in use are more than 1.2 times the total: proportion must decide before it."""
    proportion = "  - name: proportion          # in the first tier: else gang alone says whose pods go\n"
    assert proportion in LENDING
    with_overcommit = LENDING.replace(proportion, "").replace(
        "  - name: drf\n", "  - name: overcommit\n  - name: proportion\n  - name: drf\n"
    )
    assert shares(1, 8, conf=with_overcommit) == (32, 0)
    assert shares(1, 8) == (8, 24)


@pytest.mark.parametrize(
    ("borrower", "owner", "expected"),
    [
        (8, 24, (8, 24)),
        (20, 1, (20, 12)),  # the borrower keeps its minimum
        (32, 1, (32, 0)),
        (1, 25, (32, 0)),  # a gang larger than the share of its queue
    ],
)
def test_reclaim_goes_as_far_as_minimums_and_shares_allow(borrower: int, owner: int, expected: tuple[int, int]) -> None:
    assert shares(borrower, owner) == expected


@pytest.mark.parametrize(
    ("cpu", "count", "expected"),
    [
        ("2", 16, (4, 12)),
        ("3", 8, (2, 6)),
        ("5", 4, (2, 2)),  # the large queue asks for 20 cores: 12 are left to the small one, which has 10 with two pods
        ("8", 4, (1, 3)),
    ],
)
def test_reclaim_counts_in_whole_pods(cpu: str, count: int, expected: tuple[int, int]) -> None:
    assert shares(1, 1, cpu=cpu, count=count) == expected
