"""Plugin tdm: revocable nodes with time windows; preemptable pods use them and are evicted after the window."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from volcanoio_plugins.scheduling.tdm import Tdm, Window, disruptions_allowed, window

from tests.scenario.scheduling.harness import Scenario, World, group, node, pod, pods, scenarios
from tests.unit.scheduling_plugins.nodeviews import NodesView, make_node
from tests.unit.scheduling_plugins.views import JobView, QueueData, SessionData, TaskView, tasks
from volcanoio.framework.arguments import ArgumentError
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.model.base import Manifest, ObjectMeta
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup

CONF = """
actions: "enqueue, allocate, shuffle"
tiers:
- plugins:
  - name: gang
  - name: tdm
    arguments:
      tdm.revocable-zone.night: "22:00-06:00"
      tdm.revocable-zone.noon: "12:00-13:00"
      tdm.evict.period: 30s
"""
PREEMPTABLE = {"volcano.sh/preemptable": "true"}


def at(hour: int, minute: int = 0) -> float:
    """Return the timestamp of that local time of a day."""
    return datetime(2026, 3, 5, hour, minute).timestamp()  # noqa: DTZ001 - windows are local time


def revocable(name: str, zone: str) -> Manifest:
    return node(name, labels={"volcano.sh/revocable-zone": zone})


def one_pod(**annotations: str) -> list[Manifest]:
    """Return a job of one pod with annotations `volcano.sh/...`, whose names have _ instead of -."""
    keys = {f"volcano.sh/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return [group("g", 1), pod("p", "g", cpu="1", annotations=keys)]


NODES = (revocable("n1", "night"), node("n2"))


@scenarios(
    Scenario(
        name="a preemptable pod uses a revocable node while its window is open",
        now=at(23),
        cluster=[*NODES, *one_pod(preemptable="true")],
        binds={"p": "n1"},
    ),
    Scenario(
        name="a window is open over midnight",
        now=at(2),
        cluster=[*NODES, *one_pod(preemptable="true")],
        binds={"p": "n1"},
    ),
    Scenario(
        name="a preemptable pod does not use a revocable node while its window is closed",
        now=at(7),
        cluster=[*NODES, *one_pod(preemptable="true")],
        binds={"p": "n2"},
    ),
    Scenario(
        name="a pod with revocable zone * is preemptable",
        now=at(2),
        cluster=[*NODES, *one_pod(revocable_zone="*")],
        binds={"p": "n1"},
    ),
    Scenario(
        name="a pod without annotations does not use a revocable node",
        now=at(2),
        cluster=[*NODES, *one_pod()],
        binds={"p": "n2"},
    ),
    Scenario(
        name="a pod that is not preemptable does not use a revocable node",
        now=at(2),
        cluster=[*NODES, *one_pod(preemptable="false")],
        binds={"p": "n2"},
    ),
    Scenario(
        name="a pod with a revocable zone other than * does not use a revocable node",
        now=at(2),
        cluster=[*NODES, *one_pod(revocable_zone="night", preemptable="true")],
        binds={"p": "n2"},
    ),
    Scenario(
        name="the window of a zone that is not configured is closed",
        now=at(2),
        cluster=[revocable("n1", "elsewhere"), *one_pod(preemptable="true")],
    ),
    conf=CONF,
)
def test_which_nodes_are_used(scenario: Scenario) -> None:
    scenario.check()


def test_a_pod_that_waits_for_the_window_is_bound_when_it_opens() -> None:
    job = (group("g", 1), pod("p", "g", cpu="1", annotations=PREEMPTABLE))
    world = World(revocable("n1", "night"), *job, now=at(21, 59), period=61.0, conf=CONF)
    world.cycle()
    assert world.binds == {}
    world.cycle()
    assert world.binds == {"p": "n1"}


def occupied(now: float, annotations: dict[str, str] | None = None) -> World:
    job = group("g", 1, phase="Running")
    job["metadata"]["annotations"] = annotations or {}
    running = pods("p", 3, "g", on="n1", phase="Running", cpu="1")
    return World(revocable("n1", "night"), job, *running, now=now, period=10.0, conf=CONF)


def test_after_the_window_pods_are_evicted_within_the_disruption_budget_of_each_job() -> None:
    world = occupied(at(2))
    world.cycle()
    assert world.evictions == []
    budgets: list[tuple[dict[str, str], int]] = [
        ({}, 1),
        ({"volcano.sh/jdb-max-unavailable": "2"}, 2),
        ({"volcano.sh/jdb-min-available": "67%"}, 0),
    ]
    for budget, count in budgets:
        world = occupied(at(8), budget)
        world.cycle()
        assert len(world.evictions) == count


def test_pods_are_evicted_at_most_once_in_an_eviction_period() -> None:
    world = occupied(at(8))
    for _ in range(3):
        world.cycle()
    assert len(world.evictions) == 1
    world.cycle()
    assert len(world.evictions) == 2


def task(name: str, on: str, *, preemptable: bool = True, annotations: dict[str, str] | None = None) -> TaskView:
    meta = ObjectMeta(name=name, annotations=annotations or {})
    return TaskView(name, "ns/j", TaskStatus.RUNNING, node=on, preemptable=preemptable, pod=Pod(metadata=meta))


def test_only_pods_that_are_not_preemptable_preempt_and_only_on_nodes_that_are_not_revocable() -> None:
    plugin = Tdm({"tdm.revocable-zone.night": "22:00-06:00"})
    victims = [task("lent", "n1"), task("own", "n2"), task("firm", "n2", preemptable=False)]
    session = SessionData(nodes=NodesView([make_node("n1", {"volcano.sh/revocable-zone": "night"}), make_node("n2")]))
    job = JobView("ns/j", victims)
    session.queues = {"q": QueueData("q", jobs=[job])}
    plugin.open(session)
    firm = task("preemptor", "", preemptable=False)
    assert [each.name for each in plugin.preemptable(firm, victims)] == ["own"]
    assert plugin.preemptable(task("preemptor", ""), victims) == []
    assert plugin.preemptable(task("preemptor", "", preemptable=False, annotations=PREEMPTABLE), victims) == []


@pytest.mark.parametrize(
    ("annotations", "count"),
    [
        ({}, 1),
        ({"volcano.sh/jdb-max-unavailable": "2"}, 1),
        ({"volcano.sh/jdb-max-unavailable": "50%"}, 2),
        ({"volcano.sh/jdb-max-unavailable": "0"}, 0),
        ({"volcano.sh/jdb-min-available": "1"}, 2),
        ({"volcano.sh/jdb-min-available": "60%"}, 0),
        ({"volcano.sh/jdb-min-available": "9"}, 0),
        ({"volcano.sh/jdb-min-available": "many"}, 1),
        ({"volcano.sh/jdb-min-available": "2", "volcano.sh/jdb-max-unavailable": "50%"}, 1),
    ],
)
def test_the_number_of_allowed_disruptions_follows_the_budget_of_the_job(
    annotations: dict[str, str], count: int
) -> None:
    members = [*tasks("ns/j", 3, TaskStatus.RUNNING), *tasks("ns/j", 1), *tasks("ns/j", 1, TaskStatus.SUCCEEDED)]
    job = JobView("ns/j", members, group=PodGroup(metadata=ObjectMeta(annotations=annotations)))
    assert disruptions_allowed(job) == count


@given(st.integers(0, 1439), st.integers(0, 1439), st.integers(0, 1439))
def test_a_window_and_its_complement_cover_the_day_once(start: int, end: int, minute: int) -> None:
    now = at(minute // 60, minute % 60)
    if start != end:
        assert Window(start, end).open_at(now) is not Window(end, start).open_at(now)
    else:
        assert Window(start, end).open_at(now)


def test_windows_are_parsed_with_and_without_leading_zeros_and_spaces() -> None:
    assert window("9:00-17:30") == Window(540, 1050)
    assert window("22:00 - 06:00") == Window(1320, 360)
    for text in ("24:00-01:00", "10-12", "", "10:00-12:60"):
        assert window(text) is None
        with pytest.raises(ArgumentError, match="revocable-zone"):
            Tdm({"tdm.revocable-zone.a": text})
