"""Plugin gang-reservation: room for a gang that has waited long, and who may use it until the gang starts."""

from __future__ import annotations

import math
from typing import Any

import pytest
from volcanoio_plugins.scheduling.gangreservation import choose_room

from tests.scenario.scheduling.harness import World, group, node, pod, pods, priority_class, queue
from volcanoio.model.base import Manifest
from volcanoio.model.times import epoch_or_none

CONF = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: gang-reservation
    arguments:
      gang-reservation.after: 10m
- plugins:
  - name: overcommit
  - name: predicates
  - name: proportion
"""
CREATED = epoch_or_none("2026-01-01T00:00:00Z")
assert CREATED is not None
AGED = CREATED + 601
"""Gangs of these tests were created ten minutes before."""
RESERVED = "1 node(s) were reserved for a gang that waits"


def old(name: str, *, cpu: str = "1", on: str = "n1", seconds: int | None = 700) -> Manifest:
    """Return a pod that has run since the gang was created, and may run for so many seconds."""
    started = {"startTime": "2026-01-01T00:00:00Z"}
    return pod(name, on=on, phase="Running", cpu=cpu, spec={"activeDeadlineSeconds": seconds}, status=started)


def gang(members: int, *, cpu: str = "1", **more: Any) -> list[Manifest]:
    """Return a gang that waits."""
    return [group("big", members, phase="Inqueue", **more), *pods("big", members, "big", cpu=cpu)]


def small(*, seconds: int | None = None, cpu: str = "1", **more: Any) -> list[Manifest]:
    """Return a job of one pod that may run for so many seconds."""
    limits = {"activeDeadlineSeconds": seconds}
    return [group("small", 1, phase="Inqueue", **more), pod("small", "small", cpu=cpu, spec=limits)]


def played(*objects: Manifest, now: float = AGED, conf: str = CONF) -> World:
    return World(*objects, conf=conf, now=now).run()


TWO_CORES = [node("n1", cpu="2"), old("old"), *gang(2)]


def test_room_that_becomes_free_is_kept_until_the_gang_fits() -> None:
    ran = played(*TWO_CORES, *small())
    assert ran.binds == {}
    assert RESERVED in ran.fit_error("small")
    ran.set_pod("old", phase="Succeeded")
    assert ran.run().binds == {"big-0": "n1", "big-1": "n1"}


def test_without_the_plugin_the_small_job_takes_it() -> None:
    conf = CONF.replace("  - name: gang-reservation\n    arguments:\n      gang-reservation.after: 10m\n", "")
    assert played(*TWO_CORES, *small(), conf=conf).binds == {"small": "n1"}


def test_a_gang_that_has_not_waited_long_enough_has_no_reservation() -> None:
    assert played(*TWO_CORES, *small(), now=AGED - 60).binds == {"small": "n1"}


@pytest.mark.parametrize(("seconds", "binds"), [(99, {"small": "n1"}), (100, {}), (None, {})])
def test_a_pod_that_ends_before_the_gang_can_start_uses_the_room(seconds: int | None, binds: dict[str, str]) -> None:
    assert played(*TWO_CORES, *small(seconds=seconds)).binds == binds


@pytest.mark.parametrize(("cpu", "binds"), [("1", {"small": "n1"}), ("2", {})])
def test_room_that_the_gang_does_not_need_may_be_used_for_any_time(cpu: str, binds: dict[str, str]) -> None:
    cluster = [node("n1", cpu="5"), old("old", cpu="2"), *gang(2, cpu="2")]
    assert played(*cluster, *small(cpu=cpu)).binds == binds


def test_two_pods_do_not_use_the_same_spare_room() -> None:
    cluster = [node("n1", cpu="5"), old("old", cpu="2"), *gang(2, cpu="2")]
    two = [group("pair", 1, phase="Inqueue"), *pods("pair", 2, "pair", cpu="1")]
    assert list(played(*cluster, *two).binds) == ["pair-0"]


TWO_NODES = [
    *(node(name, cpu="2") for name in ("n1", "n2")),
    *(old("old-0"), old("old-1"), old("later", on="n2", seconds=5000)),
]


def test_nodes_that_are_free_first_are_reserved_and_others_stay_open() -> None:
    assert played(*TWO_NODES, *gang(2), *small()).binds == {"small": "n2"}


def test_a_job_of_higher_priority_ignores_the_reservation() -> None:
    urgent = small(priorityClassName="urgent")
    assert played(*TWO_CORES, priority_class("urgent", 10), *urgent).binds == {"small": "n1"}


def created(at: str, *objects: Manifest) -> list[Manifest]:
    """Return objects that were created at a time (hh:mm) of the day before the gang of these tests, or of its day."""
    day = "2026-01-01" if at < "12:00" else "2025-12-31"
    for each in objects:
        each["metadata"]["creationTimestamp"] = f"{day}T{at}:00Z"
    return list(objects)


@pytest.mark.parametrize(("at", "binds"), [("23:00", {"small": "n1"}), ("00:05", {})])
def test_a_job_that_was_created_before_the_gang_comes_first(at: str, binds: dict[str, str]) -> None:
    assert played(*TWO_CORES, *created(at, *small())).binds == binds


@pytest.mark.parametrize(("at", "binds"), [("23:00", {"more": "n1"}), ("00:05", {})])
def test_of_a_job_that_runs_only_pods_older_than_the_gang_come_first(at: str, binds: dict[str, str]) -> None:
    service = created(
        "22:00", group("service", 1, phase="Running"), pod("one", "service", on="n2", phase="Running", cpu="1")
    )
    assert (
        played(*TWO_CORES, node("n2", cpu="1"), *service, *created(at, pod("more", "service", cpu="1"))).binds == binds
    )


def test_room_is_chosen_again_when_an_earlier_job_takes_it() -> None:
    two = [old("old-0"), old("old-1"), *(old(name, on="n2", seconds=5000) for name in ("later-0", "later-1"))]
    ran = played(node("n1", cpu="2"), node("n2", cpu="2"), *two, *gang(2))
    for each in (*created("23:00", *small()), group("other", 1, phase="Inqueue"), pod("other", "other", cpu="1")):
        ran.put(each)
    ran.set_pod("old-0", phase="Succeeded")
    assert ran.run().binds == {"small": "n1"}
    ran.set_pod("old-1", phase="Succeeded")
    assert ran.run().binds == {"small": "n1", "other": "n1"}, "for the gang n2 is reserved now"


@pytest.mark.parametrize(("percent", "is_held"), [(2, False), (100, True)])
def test_after_reservations_that_kept_much_room_idle_there_is_none_for_a_while(percent: int, *, is_held: bool) -> None:
    conf = CONF.replace("after: 10m", f"after: 10m\n      gang-reservation.maxIdlePercent: {percent}")
    ran = World(*TWO_CORES, conf=conf, now=AGED, period=60.0).run(2)
    ran.set_pod("old", phase="Succeeded")
    assert set(ran.run().binds) == {"big-0", "big-1"}, "half of the cluster was idle for a minute"
    for name in ("big-0", "big-1"):
        ran.set_pod(name, phase="Succeeded")
    again = [old("again", seconds=7000), group("next", 2, phase="Inqueue"), *pods("next", 2, "next", cpu="1"), *small()]
    for each in again:
        ran.put(each)
    assert ("small" in ran.run(2).binds) is not is_held


@pytest.mark.parametrize(
    ("releases", "count", "chosen"),
    [
        ([(0, "a", 1), (90, "b", 1), (100, "c", 2)], 2, (100, {"c": 2})),
        ([(0, "a", 1), (90, "b", 1), (200, "c", 2)], 2, (90, {"a": 1, "b": 1})),
        ([(10, "a", 1), (20, "b", 1)], 2, (20, {"a": 1, "b": 1})),
        ([(10, "a", 1)], 2, (math.inf, {})),
    ],
    ids=["idle least", "not much later", "no choice", "too little"],
)
def test_room_is_chosen(
    releases: list[tuple[float, str, int]], count: int, chosen: tuple[float, dict[str, int]]
) -> None:
    assert choose_room(releases, count, now=0.0) == chosen


@pytest.mark.parametrize("more", [{}, {"priorityClassName": "urgent"}])
def test_another_gang_of_the_same_size_does_not_take_the_room(more: dict[str, str]) -> None:
    cluster = [node("n1", cpu="4"), old("old", cpu="2"), priority_class("urgent", 10), *gang(2, cpu="2", **more)]
    pair = [group("pair", 2, phase="Inqueue"), *pods("pair", 2, "pair", cpu="1")]
    assert played(*cluster, *pair).binds == {}


def test_a_gang_that_waited_long_enough_is_admitted_whatever_later_tiers_vote() -> None:
    cluster = [node("n1", cpu="2"), old("old"), group("big", 2, minResources={"cpu": "2"})]
    assert played(*cluster, now=AGED - 60).phase("big") == "Pending"
    assert played(*cluster).phase("big") == "Inqueue"


def test_a_gang_that_its_queue_keeps_waiting_loses_the_reservation() -> None:
    limited = queue("limited", capability={"cpu": "1"})
    cluster = [node("n1", cpu="2"), limited, *gang(2, queue="limited"), *small()]
    ran = World(*cluster, conf=CONF, now=AGED, period=30.0)
    assert ran.run().binds == {}
    assert ran.run(4).binds == {"small": "n1"}


def test_a_reserved_node_that_takes_no_more_pods_is_replaced() -> None:
    ran = played(*TWO_NODES, *gang(2))
    for each in (node("n1", cpu="2", unschedulable=True), *small()):
        ran.put(each)
    assert ran.run().binds == {}
    assert RESERVED in ran.fit_error("small")
