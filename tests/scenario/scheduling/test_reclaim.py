"""Action reclaim: a queue below its share evicts tasks of queues above theirs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from tests.scenario.scheduling.harness import (
    CREATED,
    Scenario,
    World,
    group,
    node,
    pod,
    pods,
    queue,
    running,
    scenarios,
    waiting,
)
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
GANG_WITH_PROPORTION = CONF.replace("- plugins:\n  - name: predicates", "  - name: predicates")
"""gang and proportion in one tier: both must agree to a victim."""
NO_PROPORTION = """
actions: "allocate, reclaim"
tiers:
- plugins:
  - {name: gang, enableReclaimable: false}
  - name: conformance
"""
"""Only conformance votes on victims, and it protects only critical pods."""
GANG_STARVES = NO_PROPORTION.replace(
    "{name: gang, enableReclaimable: false}", "{name: priority, enableReclaimable: false}"
)
"""A job starves while any of its tasks is pending, and only conformance votes on victims."""
CAPACITY = """
actions: "reclaim"
tiers:
- plugins:
  - name: gang
  - name: capacity
  - name: predicates
"""


def job(name: str, minimum: int, queue: str, *members: Manifest, **more: Any) -> list[Manifest]:
    """Return a PodGroup in a queue with its pods."""
    phase = more.pop("phase", "Running" if members and members[0]["spec"]["nodeName"] else "Inqueue")
    return [group(name, minimum, phase=phase, queue=queue, **more), *members]


A, B = queue("a"), queue("b")
FULL = (node("n1", cpu="4"), A, B, *job("old", 1, "a", *running("old", 4)))
"""Queue a uses the whole cluster; its share is the half."""
NEW = job("new", 1, "b", *waiting("new", 1))


@scenarios(
    Scenario(
        name="a queue below its share evicts as many pods as it needs",
        cluster=[*FULL, *NEW],
        evicts=["old-3"],
    ),
    Scenario(
        name="a gang evicts pods for all of its tasks",
        cluster=[*FULL, *job("new", 2, "b", *waiting("new", 2))],
        evicts=["old-2", "old-3"],
    ),
    Scenario(
        name="a gang larger than the share of its queue evicts nothing",
        cluster=[*FULL, *job("new", 3, "b", *waiting("new", 3))],
    ),
    Scenario(
        name="a job evicts no pod of its own queue",
        cluster=[*FULL, *job("new", 1, "a", *waiting("new", 1))],
    ),
    Scenario(
        name="a queue with reclaimable false loses nothing",
        cluster=[node("n1", cpu="4"), queue("a", reclaimable=False), B, *FULL[3:], *NEW],
    ),
    Scenario(
        name="a pod with preemptionPolicy Never evicts nothing",
        cluster=[*FULL, *job("new", 1, "b", *waiting("new", 1, spec={"preemptionPolicy": "Never"}))],
    ),
    Scenario(
        name="one large pod evicts several small ones",
        cluster=[*FULL, queue("c", weight=6), *job("new", 1, "c", *waiting("new", 1, cpu="3"))],
        evicts=["old-1", "old-2", "old-3"],
    ),
    Scenario(
        name="queues that have exactly their shares evict nothing",
        cluster=[
            node("n1", cpu="4"),
            queue("a", weight=3),
            B,
            *job("old", 1, "a", *running("old", 3)),
            *job("own", 1, "b", *running("own", 1)),
            *NEW,
        ],
    ),
    Scenario(
        name="a bound pod that does not run yet is not evicted",
        cluster=[
            node("n1", cpu="4"),
            A,
            B,
            *job("old", 1, "a", *pods("old", 4, "old", cpu="1", on="n1"), phase="Running"),
            *NEW,
        ],
    ),
    Scenario(
        name="a pod that fits on a free node is bound without evictions",
        cluster=[*FULL, node("n2"), *NEW],
        binds={"new-0": "n2"},
    ),
    Scenario(
        name="a pod whose node selector matches no node evicts nothing",
        cluster=[*FULL, *job("new", 1, "b", *waiting("new", 1, spec={"nodeSelector": {"disk": "ssd"}}))],
    ),
    Scenario(
        name="a gang falls below its minimum where gang finds no victim and the next tier decides",
        cluster=[node("n1", cpu="4"), A, B, *job("old", 4, "a", *running("old", 4)), *NEW],
        evicts=["old-3"],
    ),
    Scenario(
        name="a gang keeps its minimum where gang and proportion must agree",
        conf=GANG_WITH_PROPORTION,
        cluster=[node("n1", cpu="4"), A, B, *job("old", 4, "a", *running("old", 4)), *NEW],
    ),
    Scenario(
        name="the queue that comes last in queue order loses its last job first",
        cluster=[
            node("n1", cpu="4"),
            queue("low", priority=1),
            queue("high", priority=9),
            queue("b"),
            *job("x", 0, "low", *running("x", 2)),
            *job("y", 0, "high", *running("y", 2)),
            *NEW,
        ],
        evicts=["x-1"],
    ),
    Scenario(
        name="a queue loses what it has above its guarantee",
        conf=NO_PROPORTION,
        cluster=[
            node("n1", cpu="4"),
            queue("a", guarantee={"resource": {"cpu": "3"}}),
            B,
            *job("old", 0, "a", *running("old", 4)),
            *NEW,
        ],
        evicts=["old-3"],
    ),
    Scenario(
        name="no queue falls below its guarantee",
        conf=NO_PROPORTION,
        cluster=[
            node("n1", cpu="4"),
            queue("a", guarantee={"resource": {"cpu": "3"}}),
            B,
            *job("old", 0, "a", *running("old", 4)),
            *job("new", 2, "b", *waiting("new", 2)),
        ],
    ),
    Scenario(
        name="a pod that would not fit after all possible evictions evicts nothing",
        conf=NO_PROPORTION,
        cluster=[
            node("n1", cpu="4"),
            A,
            B,
            *job("old", 0, "a", *running("old", 2)),
            *job("rest", 0, "b", *running("rest", 2)),
            *job("new", 1, "b", *waiting("new", 1, cpu="3")),
        ],
    ),
    Scenario(
        name="a pod that fits only after all possible evictions evicts them all",
        conf=NO_PROPORTION,
        cluster=[
            node("n1", cpu="4"),
            A,
            B,
            *job("old", 0, "a", *running("old", 2)),
            *job("rest", 0, "b", *running("rest", 2)),
            *job("new", 1, "b", *waiting("new", 1, cpu="2")),
        ],
        evicts=["old-0", "old-1"],
    ),
    Scenario(
        name="queues that would evict each other's pods in turn do not begin",
        conf=GANG_STARVES,
        cluster=[
            node("n1", cpu="2"),
            A,
            B,
            *job("old", 0, "a", *running("old", 2)),
            *job("new", 2, "b", *waiting("new", 2)),
        ],
    ),
    Scenario(
        name="one victim with preemptionPolicy Never does not rule out that another evicts in return",
        conf=GANG_STARVES,
        cluster=[
            node("n1", cpu="2"),
            A,
            B,
            *job(
                "old",
                0,
                "a",
                pod("old-0", "old", cpu="1", on="n1", phase="Running"),
                pod("old-1", "old", cpu="1", on="n1", phase="Running", spec={"preemptionPolicy": "Never"}),
            ),
            *job("new", 1, "b", *waiting("new", 1, cpu="2")),
        ],
    ),
    conf=CONF,
)
def test_reclaim(scenario: Scenario) -> None:
    scenario.check()


def test_a_gang_uses_idle_room_first_and_evicts_for_the_rest() -> None:
    world = World(*FULL, node("n2", cpu="1"), *job("new", 2, "b", *waiting("new", 2)), conf=CONF)
    world.cycle()
    assert world.evictions == ["old-3"]
    assert sorted(world.pipelines.values()) == ["n1", "n2"]


@pytest.mark.parametrize("order", ["allocate, reclaim", "reclaim, allocate"])
def test_the_preemptor_gets_the_room_and_the_evicted_pods_wait(order: str) -> None:
    conf = CONF.replace("allocate, backfill, reclaim", order)
    world = World(*FULL, *job("new", 2, "b", *waiting("new", 2)), conf=conf)
    world.run(3)
    assert sorted(world.evictions) == ["old-2", "old-3"], "no more while these terminate"
    world.remove_terminating_pods()
    for at in (2, 3):
        world.put(pod(f"again-{at}", "old", cpu="1"))
    for _ in range(6):
        world.run()
        world.remove_terminating_pods()
    assert world.binds == {"new-0": "n1", "new-1": "n1"}
    assert len(world.evictions) == 2


def test_tasks_that_need_no_eviction_count_against_the_share_of_their_queue_too() -> None:
    """Both tasks would fit into the room of a terminating pod, but their queue deserves room for one only."""
    world = World(
        queue("ours", guarantee={"resource": {"cpu": "2"}}),
        node("n1", cpu="2"),
        node("n2", cpu="1500m"),
        *job("held", 1, "ours", *running("held", 3, on="n2", cpu="500m")),
        *job("ending", 1, "default", *running("ending", 1, cpu="2")),
        *job("new", 2, "ours", *waiting("new", 2, cpu="500m")),
        conf=CAPACITY,
    )
    ending = world.pod("ending-0")
    world.put(replace(ending, metadata=replace(ending.metadata, deletion_timestamp=CREATED)))
    world.cycle()
    assert world.evictions == []
    assert world.pipelines == {}


LENDING = config_path("scheduler", "reclaim.conf").read_text(encoding="utf-8")


def running_pods_of_borrower_and_owner(
    borrower: int, owner: int, *, conf: str = LENDING, cpu: str = "1", count: int = 32
) -> tuple[int, int]:
    """Return how many pods run of a job that first filled 32 cores, and of a job whose queue deserves 24 of them.

    The borrower's queue has weight 1, the owner's has weight 3. Both jobs have `count` pods, and `borrower` and `owner`
    are their minimums. Evicted pods are created again and wait.
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
            world.remove_terminating_pods()
            for old in gone:
                world.put(pod(f"{old}-again-{number}", old.partition("-")[0], cpu=cpu))
    of = Counter(each.metadata.name.partition("-")[0] for each in world.objects.values() if is_bound(each))
    return of["borrower"], of["owner"]


def is_bound(obj: ApiObject) -> bool:
    return isinstance(obj, Pod) and bool(obj.spec.node_name)


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        pytest.param(LENDING, (8, 24), id="with reclaim.conf the owner gets its whole share"),
        pytest.param(
            LENDING.replace("enableJobStarving: false", "enableJobStarving: true"),
            (31, 1),
            id="where gang decides whether a job starves the owner gets its minimum",
        ),
        pytest.param(
            config_path("scheduler", "volcano-scheduler.conf").read_text(encoding="utf-8"),
            (32, 0),
            id="with volcano-scheduler.conf the owner gets nothing",
        ),
        pytest.param(
            config_path("scheduler", "multi-tenant.conf").read_text(encoding="utf-8"),
            (32, 0),
            id="with multi-tenant.conf the owner gets nothing",
        ),
    ],
)
def test_the_configuration_decides_how_much_the_owner_of_lent_resources_gets_back(
    conf: str, expected: tuple[int, int]
) -> None:
    assert running_pods_of_borrower_and_owner(1, 1, conf=conf) == expected


def test_overcommit_keeps_a_gang_out_of_a_cluster_that_a_borrower_has_filled() -> None:
    """The owner's 8 cores beside 32 in use are more than 1.2 times the total: proportion must decide before it."""
    proportion = "  - name: proportion          # in the first tier: else gang alone says whose pods go\n"
    assert proportion in LENDING
    with_overcommit = LENDING.replace(proportion, "").replace(
        "  - name: drf\n", "  - name: overcommit\n  - name: proportion\n  - name: drf\n"
    )
    assert running_pods_of_borrower_and_owner(1, 8, conf=with_overcommit) == (32, 0)
    assert running_pods_of_borrower_and_owner(1, 8) == (8, 24)


@pytest.mark.parametrize(
    ("borrower", "owner", "expected"),
    [
        pytest.param(8, 24, (8, 24), id="gangs of exactly their shares both run"),
        pytest.param(20, 1, (20, 12), id="the borrower keeps its minimum"),
        pytest.param(32, 1, (32, 0), id="a borrower whose minimum is the whole cluster loses nothing"),
        pytest.param(1, 25, (32, 0), id="an owner whose minimum is larger than its share gets nothing"),
    ],
)
def test_reclaim_respects_minimums_and_shares(borrower: int, owner: int, expected: tuple[int, int]) -> None:
    assert running_pods_of_borrower_and_owner(borrower, owner) == expected


@pytest.mark.parametrize(
    ("cpu", "count", "expected"),
    [
        pytest.param("2", 16, (4, 12), id="pods of 2 cores"),
        pytest.param("3", 8, (2, 6), id="pods of 3 cores"),
        # The large queue asks for 20 cores: 12 are left to the small one, which uses 10 of them with two pods.
        pytest.param("5", 4, (2, 2), id="pods of 5 cores, which do not divide the shares"),
        pytest.param("8", 4, (1, 3), id="pods of 8 cores"),
    ],
)
def test_reclaim_evicts_whole_pods(cpu: str, count: int, expected: tuple[int, int]) -> None:
    assert running_pods_of_borrower_and_owner(1, 1, cpu=cpu, count=count) == expected
