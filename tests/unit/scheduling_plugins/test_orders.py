"""Plugins priority, drf and conformance: the order of jobs and tasks, and their victims."""

from __future__ import annotations

from volcanoio_plugins.scheduling.conformance import Conformance
from volcanoio_plugins.scheduling.drf import Drf
from volcanoio_plugins.scheduling.priority import Priority

from tests.unit.scheduling_plugins.views import JobView, QueueData, TaskView, make_shape, session_of, tasks
from volcanoio.framework.scheduling.views import TaskStatus


def test_priority_orders_jobs_and_tasks() -> None:
    low, high = JobView("ns/low", priority=1), JobView("ns/high", priority=9)
    assert sorted([low, high], key=Priority({}).job_key) == [high, low]
    driver, executor = TaskView("driver", priority=100), TaskView("executor")
    assert sorted([executor, driver], key=Priority({}).task_key) == [driver, executor]


def test_priority_offers_tasks_of_lower_jobs_and_lower_tasks_of_the_own_job_as_victims() -> None:
    low = JobView("ns/low", tasks("ns/low", 1, TaskStatus.RUNNING), priority=1)
    equal = JobView("ns/equal", tasks("ns/equal", 1, TaskStatus.RUNNING, priority=0), priority=5)
    own = JobView(
        "ns/own", [TaskView("small", "ns/own", priority=1), TaskView("big", "ns/own", priority=7)], priority=5
    )
    plugin = Priority({})
    plugin.open(session_of(QueueData("q", jobs=[low, equal, own])))
    preemptor = TaskView("new", "ns/own", priority=7)
    candidates = [*low.tasks, *equal.tasks, *own.tasks, TaskView("orphan", "ns/gone")]
    assert [task.name for task in plugin.preemptable(preemptor, candidates)] == [low.tasks[0].name, "small"]


def test_with_priority_a_job_starves_while_any_task_is_pending() -> None:
    job = JobView("ns/a", [*tasks("ns/a", 2, TaskStatus.RUNNING), *tasks("ns/a", 1)], min_available=1)
    assert Priority({}).job_starving(job)
    job.tasks[-1].status = TaskStatus.PIPELINED
    assert not Priority({}).job_starving(job)


def test_drf_puts_the_smaller_dominant_share_first() -> None:
    cpu_heavy = JobView("ns/cpu", tasks("ns/cpu", 1, TaskStatus.RUNNING, shape=make_shape({"cpu": 5, "memory": "1Gi"})))
    memory_heavy = JobView(
        "ns/memory", tasks("ns/memory", 1, TaskStatus.RUNNING, shape=make_shape({"cpu": 1, "memory": "8Gi"}))
    )
    plugin = Drf({})
    plugin.open(session_of(QueueData("q", jobs=[cpu_heavy, memory_heavy]), total={"cpu": 10_000, "memory": 32 << 30}))
    assert plugin.job_key(cpu_heavy) == 0.5
    assert plugin.job_key(memory_heavy) == 0.25


def test_drf_counts_reservations() -> None:
    job = JobView("ns/a", [*tasks("ns/a", 1, TaskStatus.BOUND), *tasks("ns/a", 2, TaskStatus.PIPELINED)])
    plugin = Drf({})
    plugin.open(session_of(QueueData("q", jobs=[job]), total={"cpu": 10_000}))
    assert plugin.job_key(job) == 0.3


def test_drf_offers_tasks_of_jobs_whose_share_stays_at_least_as_large_as_the_preemptors() -> None:
    rich = JobView("ns/rich", tasks("ns/rich", 4, TaskStatus.RUNNING))
    poor = JobView("ns/poor", [])
    plugin = Drf({})
    plugin.open(session_of(QueueData("q", jobs=[rich, poor]), total={"cpu": 10_000}))
    preemptor = TaskView("new", "ns/poor", shape=make_shape({"cpu": 2}))
    assert len(plugin.preemptable(preemptor, rich.tasks)) == 2, "4 less 2 equals the 2 that the preemptor would hold"


def test_conformance_offers_no_critical_pods_as_victims() -> None:
    plain = TaskView("plain")
    system = TaskView("dns", namespace="kube-system")
    critical = TaskView("agent", priority_class_name="system-node-critical")
    for answer in (Conformance({}).preemptable, Conformance({}).reclaimable):
        assert answer(plain, [plain, system, critical]) == [plain]
