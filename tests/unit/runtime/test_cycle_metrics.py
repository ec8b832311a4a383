"""Metrics of a cycle: opening, plugins, actions, close; and the latency of tasks."""

from __future__ import annotations

import msgspec
import pytest

from tests.scenario.scheduling.harness import World, decoded, group, node, pod, pods, queue
from tests.unit.runtime.virtual_time import VirtualClock
from volcanoio.engine.scheduling.session.cycle import Checkpoint, CycleResult, run_cycle
from volcanoio.framework.probe import NoProbe
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model import kinds
from volcanoio.model.core import Pod
from volcanoio.runtime.metrics import PrometheusProbe
from volcanoio.runtime.scheduler.cycle_metrics import BacklogMetrics, CycleMetrics, PodMetrics, ReactionTimes


class Samples(NoProbe):
    def __init__(self) -> None:
        self.samples: dict[str, float] = {}

    def observe(self, name: str, value: float, times: int = 1, **labels: str) -> None:
        self.samples[" ".join((name.removeprefix("volcano_"), *labels.values()))] = value


async def test_time_before_plugins_and_at_the_close_is_not_counted_as_theirs() -> None:
    clock, probe = VirtualClock(), Samples()
    metrics = CycleMetrics(probe, clock)
    metrics.open()
    for seconds, point in (
        (1.0, Checkpoint("", ())),
        (0.5, Checkpoint("", (), "gang")),
        (0.25, Checkpoint("", (), "gang")),
        (2.0, Checkpoint("allocate", ())),
        (4.0, Checkpoint("", ())),
    ):
        await clock.advance(seconds)
        metrics.reached(point)
        metrics.resumed()
    metrics.plugin_closed("gang", 0.5)
    metrics.plugin_closed("gang", 0.25)
    metrics.close(CycleResult(), "")
    assert probe.samples == {
        "plugin_scheduling_latency_milliseconds gang OnSessionOpen": pytest.approx(750),
        "plugin_scheduling_latency_milliseconds gang OnSessionClose": pytest.approx(750),
        "open_session_duration_milliseconds": pytest.approx(1750),
        "volcanoio_close_session_duration_milliseconds": pytest.approx(4000),
        "action_scheduling_latency_milliseconds allocate": pytest.approx(2000),
        "e2e_scheduling_latency_milliseconds": pytest.approx(7750),
    }


async def test_a_task_is_as_late_as_its_pod_is_old() -> None:
    clock, probe = VirtualClock(), Samples()
    metrics = CycleMetrics(probe, clock)
    metrics.task_reached("Bound", "1970-01-01T00:00:00Z")
    metrics.task_reached("Assumed", "")
    metrics.task_reached("Assumed", "yesterday")
    assert probe.samples == {"task_scheduling_latency_milliseconds Bound": pytest.approx(clock.now() * 1000)}
    metrics.task_reached("Watched", "1970-01-01T00:00:00Z", at=5.0)
    assert probe.samples["task_scheduling_latency_milliseconds Watched"] == pytest.approx(5000)


def test_a_session_reports_opened_plugins() -> None:
    world = World(node("n1"), group("pg", 1), *pods("p", 1, "pg", cpu="1"))
    opening = CycleOpened(cycle=1, upto=0, seed=1, at=world.now)
    opened = [point.opened for point in run_cycle(world.state, world.profile, opening)]
    assert opened[0] == ""
    assert {"gang", "proportion"} <= set(opened)


async def test_the_reaction_to_an_event_is_measured_until_decision_and_bind() -> None:
    clock, probe = VirtualClock(), Samples()
    reactions = ReactionTimes(probe, clock)
    arrived = clock.now()
    reactions.requested(arrived)
    await clock.advance(1.0)
    reactions.requested(clock.now())  # the first event counts
    reactions.opened()
    reactions.closed(cut=True)
    reactions.opened()  # the next cycle continues
    await clock.advance(1.0)
    reactions.decided(7, binds=2)
    assert probe.samples == {"volcanoio_reaction_seconds decided": pytest.approx(2.0)}
    await clock.advance(1.0)
    reactions.decided(8, binds=0)
    reactions.ended(7, clock.now(), bound=True)
    reactions.ended(7, clock.now() + 5, bound=False)
    reactions.ended(7, clock.now() + 9, bound=True)  # has ended
    assert probe.samples == {
        "volcanoio_reaction_seconds decided": pytest.approx(2.0),
        "volcanoio_reaction_seconds bound": pytest.approx(3.0),
    }


def test_a_cycle_that_no_event_requested_has_no_reaction() -> None:
    probe = Samples()
    reactions = ReactionTimes(probe, VirtualClock())
    reactions.opened()
    reactions.decided(7, binds=1)
    reactions.ended(7, 5.0, bound=True)
    assert probe.samples == {}


def test_every_queue_reports_what_waits() -> None:
    world = World(
        queue("busy"),
        queue("empty"),
        node("n1"),
        group("pg", 2, queue="busy"),
        *pods("p", 2, "pg", cpu="1"),
        group("placed", 1, queue="empty", phase="Running"),
        *pods("q", 1, "placed", on="n1", phase="Running"),
    )
    probe = PrometheusProbe(process=False)
    backlog = BacklogMetrics(probe)
    assert list(backlog.report(world.state.ledger, now=10.0)) == []

    def waiting(queue: str) -> list[float]:
        return [probe.value(f"volcanoio_queue_waiting_{what}", queue_name=queue) for what in ("jobs", "tasks")]

    assert waiting("busy") == [1, 2]
    assert 'volcanoio_queue_waiting_jobs{queue_name="empty"} 0.0' in probe.page().decode()
    world.remove(kinds.QUEUE, "busy")
    list(backlog.report(world.state.ledger, now=12.0))
    assert waiting("busy") == [1, 2], "counted every five seconds"
    list(backlog.report(world.state.ledger, now=15.0))
    assert 'queue_name="busy"' not in probe.page().decode()


def test_each_pod_has_its_queue_if_that_is_wanted() -> None:
    world = World(queue("gold"), group("pg", 1, queue="gold"))
    probe = PrometheusProbe(process=False)
    metrics = PodMetrics(probe, world.state)
    own, foreign = (decoded(pod(name, "pg")) for name in ("own", "foreign"))
    assert isinstance(own, Pod)
    assert isinstance(foreign, Pod)
    foreign = msgspec.structs.replace(foreign, spec=msgspec.structs.replace(foreign.spec, scheduler_name="other"))
    for each in (own, own, foreign):
        metrics.observe(each, gone=False)
    lines = [line for line in probe.page().decode().splitlines() if line.startswith("volcanoio_task_queue")]
    assert lines == ['volcanoio_task_queue{job_name="pg",pod="own",pod_namespace="ns",queue="gold"} 1.0']
    metrics.observe(own, gone=True)
    assert "volcanoio_task_queue{" not in probe.page().decode()


def test_filtering_and_scoring_are_measured() -> None:
    world = World(*(node(f"n{number}") for number in range(10)), group("pg", 1), *pods("p", 1, "pg", cpu="1"))
    taken: list[str] = []
    world.state.placer.stage_times.measure(lambda: 0.0, lambda stage, _: taken.append(stage))
    world.run(2)
    assert set(taken) == {"Predicate", "Scoring"}


def test_a_group_of_a_single_pod_has_no_series_of_its_own() -> None:
    owned = group("single", 1)
    owned["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]
    world = World(node("n1"), owned, group("job", 1))
    probe = PrometheusProbe(process=False)
    metrics = CycleMetrics(probe, VirtualClock())
    for job in world.state.ledger.schedulable_jobs.values():
        metrics.bound(job)
    page = probe.page().decode()
    assert 'volcano_e2e_job_scheduling_last_time{job_name="job"' in page
    assert 'job_name="single"' not in page
