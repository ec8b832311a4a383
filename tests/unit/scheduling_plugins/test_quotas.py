"""Plugins proportion and overcommit, and the water filling that divides resources between queues."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from volcanoio_plugins.scheduling.queues.attributes import compute_real_capability
from volcanoio_plugins.scheduling.queues.overcommit import Overcommit
from volcanoio_plugins.scheduling.queues.proportion import Proportion, QueueRequest, compute_deserved

from tests.unit.scheduling_plugins.figures import Figures
from tests.unit.scheduling_plugins.views import JobView, QueueData, make_shape, opened, session_of, tasks
from volcanoio.framework.scheduling.verdicts import PERMIT, Vote
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.model.resources import amount_text


def claim(
    name: str, weight: int, cpu: int, *, guarantee: int = 0, real_capability: dict[str, int] | None = None
) -> QueueRequest:
    return QueueRequest(
        name=name,
        weight=weight,
        request={"cpu": cpu},
        guarantee={"cpu": guarantee} if guarantee else {},
        real_capability=real_capability or {},
    )


def deserved(total: int, *claims: QueueRequest) -> dict[str, float]:
    return {name: amounts.get("cpu", 0) for name, amounts in compute_deserved({"cpu": total}, claims).items()}


def test_contended_resources_are_divided_by_weight() -> None:
    assert deserved(9000, claim("a", 1, 9000), claim("b", 2, 9000)) == {"a": 3000, "b": 6000}


def test_thirds_add_up_to_the_total() -> None:
    assert deserved(9999, *(claim(name, 1, 9999) for name in "abc")) == {"a": 3333, "b": 3333, "c": 3333}


def test_resources_that_a_queue_does_not_request_are_divided_between_the_others() -> None:
    assert deserved(9000, claim("a", 1, 1000), claim("b", 2, 9000)) == {"a": 1000, "b": 8000}


def test_no_queue_deserves_more_than_its_capability() -> None:
    capped = claim("a", 1, 9000, real_capability={"cpu": 2000})
    assert deserved(9000, capped, claim("b", 1, 9000)) == {"a": 2000, "b": 7000}


def test_a_queue_deserves_its_guarantee_even_without_requests() -> None:
    assert deserved(9000, claim("a", 1, 0, guarantee=3000), claim("b", 1, 9000))["a"] == 3000


def test_no_queue_deserves_what_others_are_guaranteed() -> None:
    assert compute_real_capability({"cpu": 10, "memory": 5}, {"cpu": 4}, {"cpu": 1}, {"cpu": 0, "memory": 3}) == {
        "cpu": 7,
        "memory": 3,
    }


@given(
    st.integers(0, 10**6),
    st.lists(st.tuples(st.integers(1, 100), st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=6),
)
def test_deserved_amounts_never_exceed_total_request_and_limit(total: int, wants: list[tuple[int, int, int]]) -> None:
    claims = [
        claim(str(index), weight, request, real_capability={"cpu": real_capability})
        for index, (weight, request, real_capability) in enumerate(wants)
    ]
    shares = deserved(total, *claims)
    assert sum(shares.values()) <= total + 1
    for given_claim in claims:
        assert shares[given_claim.name] <= min(given_claim.request["cpu"], given_claim.real_capability["cpu"])
    if (
        all(c.request["cpu"] == c.real_capability["cpu"] for c in claims)
        and sum(c.request["cpu"] for c in claims) <= total
    ):
        assert all(shares[c.name] == c.request["cpu"] for c in claims)


def two_queues() -> tuple[Proportion, QueueData, QueueData]:
    """A cluster of 8 CPUs; queue a (weight 1) holds 2, queue b (weight 3) nothing; both want all."""
    a = QueueData("a", jobs=[JobView("ns/a", [*tasks("ns/a", 2, TaskStatus.RUNNING), *tasks("ns/a", 8)])])
    b = QueueData("b", weight=3, jobs=[JobView("ns/b", tasks("ns/b", 8), queue="b")])
    a.jobs[0].queue = "a"
    plugin = Proportion({})
    opened(plugin, session_of(a, b, total={"cpu": 8000, "pods": 1000}))
    return plugin, a, b


def test_proportion_orders_queues_by_share_and_stops_those_at_their_share() -> None:
    plugin, a, b = two_queues()
    assert sorted([a, b], key=plugin.queue_key) == [b, a]
    assert plugin.queue_key(a) == (0, 1.0)
    assert not plugin.overused(b)
    one = make_shape({"cpu": 1})
    assert plugin.fits(a, one, 5) == 0
    assert plugin.fits(b, one, 8) == 6
    plugin.allocated(b.jobs[0], one, 4)
    assert plugin.fits(b, one, 8) == 2
    plugin.released(b.jobs[0], one, 1)
    assert plugin.fits(b, one, 8) == 3


def test_a_queue_that_uses_what_it_deserves_is_overused() -> None:
    plugin, a, _ = two_queues()
    assert not plugin.overused(a), "it deserves a share of pods that it does not hold"
    plugin.allocated(a.jobs[0], make_shape({}), 10)
    assert plugin.overused(a)


def test_a_queue_of_higher_priority_comes_first() -> None:
    plugin, a, b = two_queues()
    a.priority = 5
    assert sorted([a, b], key=plugin.queue_key) == [a, b]


def test_a_closed_queue_gets_nothing() -> None:
    plugin, _, b = two_queues()
    b.is_open = False
    assert plugin.fits(b, make_shape({"cpu": 1}), 8) == 0
    assert plugin.job_enqueueable(b.jobs[0]).message == "queue b is not open"


def test_a_best_effort_task_needs_no_share_of_its_queue() -> None:
    plugin, a, _ = two_queues()
    assert plugin.fits(a, make_shape({}), 7) == 7


def test_reclaim_takes_only_what_a_queue_has_above_what_it_deserves() -> None:
    job = JobView("ns/a", tasks("ns/a", 6, TaskStatus.RUNNING), queue="a")
    other = JobView("ns/b", tasks("ns/b", 8), queue="b")
    plugin = Proportion({})
    session = session_of(QueueData("a", jobs=[job]), QueueData("b", jobs=[other]), total={"cpu": 8000, "pods": 80})
    opened(plugin, session)
    assert len(plugin.reclaimable(other.tasks[0], job.tasks)) == 2


def enqueue_in(queue: QueueData, job: JobView, total: dict[str, int]) -> tuple[Proportion, JobView]:
    queue.jobs.append(job)
    plugin = Proportion({})
    opened(plugin, session_of(queue, total=total))
    return plugin, job


def test_a_job_beyond_the_capability_is_not_enqueued() -> None:
    queue = QueueData("q", capability={"cpu": 4000, "memory": 6 << 30})
    running = JobView(
        "ns/one",
        tasks("ns/one", 3, TaskStatus.RUNNING),
        queue="q",
        phase="Running",
        min_available=3,
        min_resources={"cpu": 3000},
    )
    queue.jobs.append(running)
    second = JobView("ns/two", tasks("ns/two", 3), queue="q", min_available=3, min_resources={"cpu": 3000, "pods": 3})
    plugin, _ = enqueue_in(queue, second, {"cpu": 64_000, "memory": 64 << 30, "pods": 440})
    verdict = plugin.job_enqueueable(second)
    assert verdict.vote is Vote.REJECT
    assert verdict.message == "queue resource quota insufficient: insufficient cpu"
    running.tasks.clear()
    opened(plugin, session_of(queue, total={"cpu": 64_000, "memory": 64 << 30, "pods": 440}))
    assert plugin.job_enqueueable(second) == PERMIT


def test_usage_beyond_the_minimum_of_a_job_does_not_keep_others_from_being_enqueued() -> None:
    queue = QueueData("q", capability={"cpu": 4000})
    queue.jobs.append(
        JobView(
            "ns/one", tasks("ns/one", 4, TaskStatus.RUNNING), queue="q", phase="Running", min_resources={"cpu": 1000}
        )
    )
    plugin, second = enqueue_in(queue, JobView("ns/two", queue="q", min_resources={"cpu": 3000}), {"cpu": 64_000})
    assert plugin.job_enqueueable(second) == PERMIT


def test_the_demand_of_an_enqueued_job_counts_at_once() -> None:
    first = JobView("ns/one", queue="q", min_resources={"cpu": 3000})
    queue = QueueData("q", capability={"cpu": 4000}, jobs=[first])
    plugin, second = enqueue_in(queue, JobView("ns/two", queue="q", min_resources={"cpu": 3000}), {"cpu": 64_000})
    assert plugin.job_enqueueable(second) == PERMIT
    plugin.job_enqueued(first)
    assert plugin.job_enqueueable(second).vote is Vote.REJECT


def overcommit_with(factor: float | None, *jobs: JobView, used: int = 0) -> Overcommit:
    session = session_of(QueueData("default", jobs=list(jobs)), total={"cpu": 10_000})
    session.used = {"cpu": used}
    plugin = Overcommit({} if factor is None else {"overcommit-factor": factor})
    opened(plugin, session)
    return plugin


def test_overcommit_lets_jobs_be_enqueued_up_to_its_factor() -> None:
    fits = JobView("ns/fits", min_resources={"cpu": 12_000})
    too_big = JobView("ns/big", min_resources={"cpu": 12_001, "memory": 0})
    plugin = overcommit_with(None, fits, too_big)
    assert plugin.job_enqueueable(fits) == PERMIT
    verdict = plugin.job_enqueueable(too_big)
    assert verdict.message == "resource in cluster is insufficient: insufficient cpu"
    assert overcommit_with(2, fits, too_big).job_enqueueable(too_big) == PERMIT
    assert overcommit_with(0.5, fits, too_big).job_enqueueable(fits) == PERMIT, "below 1 the default holds"


def test_overcommit_counts_the_demand_of_enqueued_jobs() -> None:
    waiting = JobView("ns/waiting", min_resources={"cpu": 4000})
    admitted = JobView("ns/admitted", phase="Inqueue", min_resources={"cpu": 5000})
    growing = JobView(
        "ns/growing", tasks("ns/growing", 1, TaskStatus.RUNNING), phase="Running", min_resources={"cpu": 3000}
    )
    free = JobView("ns/free", min_resources=None)
    plugin = overcommit_with(None, waiting, admitted, growing, free, used=1000)
    assert plugin.job_enqueueable(waiting) == PERMIT, "12000 - 1000 used - 5000 admitted - 2000 outstanding"
    plugin.job_enqueued(waiting)
    verdict = plugin.job_enqueueable(waiting)
    assert verdict.message == "resource in cluster is overused: overused cpu"
    assert verdict.details is not None
    assert verdict.details() == "queue default: needs cpu 4; the cluster has 10, in use 1, admitted 11, limit 12"
    assert plugin.job_enqueueable(free) == PERMIT


def test_queues_without_jobs_have_metrics_until_they_are_deleted() -> None:
    plugin, a, b = two_queues()
    figures = Figures()
    plugin.report(figures)
    assert figures.gauges["volcano_queue_deserved_milli_cpu", "a"] == 2000
    assert figures.gauges["volcano_queue_allocated_scalar_resources", "a,pods"] == 2
    assert figures.gauges["volcano_queue_share", "b"] == 0
    a.jobs.clear()
    opened(plugin, session_of(a, b, total={"cpu": 8000, "pods": 1000}))
    plugin.report(figures)
    for part in ("allocated", "request", "inqueue", "deserved"):
        assert figures.gauges[f"volcano_queue_{part}_milli_cpu", "a"] == 0
    assert ("volcano_queue_allocated_scalar_resources", "a,pods") not in figures.gauges
    opened(plugin, session_of(b, total={"cpu": 8000, "pods": 1000}))
    plugin.report(figures)
    assert {queue.partition(",")[0] for _, queue in figures.gauges} == {"b"}


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("cpu", 38_400.0, "38.4"),
        ("cpu", 500, "0.5"),
        ("cpu", 2_000_000_000, "2000000"),
        ("memory", 1.2 * 128 * 2**30, "153.6Gi"),
        ("memory", 0, "0"),
        ("pods", 110, "110"),
        ("ephemeral-storage", 10 * 2**30 * 1000, "10Gi"),
        ("hugepages-2Mi", 4 * 2**20 * 1000, "4Mi"),
        ("nvidia.com/gpu", 8000, "8"),
    ],
)
def test_amounts_in_messages_have_the_units_of_kubernetes(name: str, amount: float, text: str) -> None:
    assert amount_text(name, amount) == text
