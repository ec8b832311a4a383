"""Plugin capacity without a scheduler: its metrics, and the limits of queues in a tree."""

from __future__ import annotations

from volcanoio_plugins.scheduling.queues.capacity import UNLIMITED, Capacity, build_tree, limits_of

from tests.unit.scheduling_plugins.figures import Figures
from tests.unit.scheduling_plugins.views import JobView, QueueData, opened, session_of, tasks
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.model.scheduling import Queue, QueueSpec


def below(name: str, parent: str, **amounts: dict[str, int]) -> QueueData:
    return QueueData(name, object=Queue(spec=QueueSpec(parent=parent)), **amounts)  # type: ignore[arg-type]  # amounts


def test_metrics_of_a_queue_include_its_children_and_leave_out_unlimited_resources() -> None:
    job = JobView("ns/a", tasks("ns/a", 3, TaskStatus.RUNNING), queue="leaf", phase="Running", min_available=3)
    waiting = JobView("ns/b", queue="leaf", phase="Inqueue", min_resources={"cpu": 2000})
    leaf = below("leaf", "top", deserved={"cpu": 2000})
    leaf.jobs = [job, waiting]
    plugin, figures = Capacity({}), Figures()
    plugin.use_hierarchy(True)
    session = session_of(QueueData("root"), below("top", "", capability={"cpu": 5000}), leaf, total={"cpu": 8000})
    opened(plugin, session)
    plugin.report(figures)
    for queue in ("leaf", "top", "root"):
        assert figures.gauges["volcano_queue_allocated_milli_cpu", queue] == 3000
        assert figures.gauges["volcano_queue_inqueue_milli_cpu", queue] == 2000
    assert figures.gauges["volcano_queue_real_capacity_milli_cpu", "leaf"] == 5000
    assert ("volcano_queue_real_capacity_milli_cpu", "root") not in figures.gauges
    assert figures.gauges["volcano_queue_overused", "leaf"] == 1
    assert figures.gauges["volcano_queue_overused", "top"] == 0
    assert figures.gauges["volcano_queue_deserved_milli_cpu", "leaf"] == 2000


def test_the_limit_of_a_queue_is_that_of_its_parent_less_the_guarantees_of_its_siblings() -> None:
    queues = {
        "root": QueueData("root", capability={"cpu": 10}),
        "a": below("a", "root", capability={"cpu": 8, "memory": 5}, guarantee={"cpu": 2}),
        "b": below("b", "", guarantee={"cpu": 3}, deserved={"cpu": 1, "memory": 1}),
        "a1": below("a1", "a", guarantee={"cpu": 1}),
        "a2": below("a2", "a", capability={"cpu": 0, "gpu": 0}),
    }
    found = limits_of(build_tree(queues), {"cpu": 12, "memory": 6, "gpu": 4})
    assert found["root"].real_capability == {"cpu": 10, "memory": UNLIMITED, "gpu": UNLIMITED}
    assert found["root"].guarantee == {"cpu": 5}
    assert found["root"].deserved == {"cpu": 5, "memory": 1}
    assert found["a"].real_capability["cpu"] == 7
    assert found["a"].real_capability["memory"] == 5
    assert found["b"].real_capability["cpu"] == 8
    assert found["b"].deserved == {"cpu": 3, "memory": 1}
    assert found["a1"].real_capability["cpu"] == 7
    assert (found["a2"].real_capability["cpu"], found["a2"].real_capability["gpu"]) == (6, 0)


def test_ancestors_and_children_are_found_and_broken_branches_are_marked() -> None:
    queues = {
        "root": QueueData("root"),
        "a": below("a", "root"),
        "a1": below("a1", "a"),
        "lost": below("lost", "gone"),
        "x": below("x", "y"),
        "y": below("y", "x"),
    }
    branches = build_tree(queues)
    assert branches["a1"].ancestors == ("a", "root")
    assert branches["a"].children == ("a1",)
    assert branches["root"].children == ("a",)
    assert {name for name, branch in branches.items() if branch.error} == {"lost", "x", "y"}
    assert "x -> y -> x" in branches["x"].error
