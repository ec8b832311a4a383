"""Sub-group policies: which pods are one sub-job, and that enough sub-jobs are placed, each whole or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.scheduling.harness import Scenario, World, group, node, on_node, pod, scenarios
from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.model.base import Manifest

GANG = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}]
"""
PART = "volcano.sh/partition-id"


def policy(name: str = "worker", *, size: int | None = 2, least: int | None = None, **more: Any) -> Manifest:
    """Return a policy that makes each partition of the pods of a task one sub-job."""
    selector = {"matchLabels": {"task": name}}
    made = {"name": name, "labelSelector": selector, "matchLabelKeys": [PART], "subGroupSize": size, **more}
    if least is not None:
        made["minSubGroups"] = least
    return made


def member(name: str, part: str = "", *, task: str = "worker", cpu: str = "1", **more: Any) -> Manifest:
    """Return a pod of job `job` in a partition of a task."""
    made = pod(name, "job", cpu=cpu, **more)
    made["metadata"]["labels"] = {"task": task, **({PART: part} if part else {})}
    return made


def parts(number: int, size: int = 2, **more: Any) -> list[Manifest]:
    """Return the pods of `number` partitions, named job-PARTITION-INDEX."""
    return [member(f"job-{part}-{index}", str(part), **more) for part in range(number) for index in range(size)]


def job(minimum: int, *policies: Manifest, **more: Any) -> Manifest:
    """Return the PodGroup `job`."""
    return group("job", minimum, phase="Inqueue", subGroupPolicy=list(policies), **more)


def info(world: World) -> JobInfo:
    """Return the scheduler's state of job `job`."""
    return world.state.ledger.jobs["ns/job"]


# Which pods are one sub-job.


def test_pods_with_equal_values_of_the_label_keys_are_one_sub_job() -> None:
    world = World(
        job(1, policy(), policy("ps", size=1, least=0)),
        *parts(2),
        member("p", "x", task="ps"),
        member("alone", "0", task="other"),
        member("unlabelled"),
        conf=GANG,
    )
    keys = {part.key: (part.group, sorted(task.name for task in part.tasks)) for part in info(world).sub_jobs}
    assert keys == {
        "ns/job/worker-0": ("ns/job/worker", ["job-0-0", "job-0-1"]),
        "ns/job/worker-1": ("ns/job/worker", ["job-1-0", "job-1-1"]),
        "ns/job/ps-x": ("ns/job/ps", ["p"]),
        "ns/job": ("ns/job", ["alone", "unlabelled"]),
    }
    sizes = {part.key: (part.min_available, part.match_index) for part in info(world).sub_jobs}
    assert sizes["ns/job/worker-1"] == (2, 1)
    assert sizes["ns/job"] == (1, 0)
    assert info(world).sub_job_minimums == {"ns/job/ps": 0}


def test_a_policy_without_label_keys_selects_no_pod() -> None:
    world = World(job(2, {"name": "all", "subGroupSize": 2, "minSubGroups": 0}), *parts(1), conf=GANG)
    assert [part.key for part in info(world).sub_jobs] == ["ns/job"]


def test_a_pod_belongs_to_the_first_policy_that_selects_it() -> None:
    first = {"name": "first", "matchLabelKeys": ["task", PART]}
    world = World(job(1, first, policy()), *parts(1), conf=GANG)
    assert [part.key for part in info(world).sub_jobs] == ["ns/job/first-worker-0"]


def test_the_key_of_a_sub_job_with_long_label_values_has_a_digest() -> None:
    keys = [f"k{at}" for at in range(3)]
    made = member("a")
    made["metadata"]["labels"] = dict.fromkeys(keys, "v" * 60)
    world = World(job(1, {"name": "p", "matchLabelKeys": keys}), made, conf=GANG)
    (part,) = info(world).sub_jobs
    assert part.key.startswith("ns/job/p-")
    assert len(part.key) <= len("ns/job/p-") + 10


def test_selectors_may_have_expressions_and_an_invalid_selector_selects_nothing() -> None:
    exists = {"matchExpressions": [{"key": "task", "operator": "Exists"}]}
    world = World(job(1, policy(labelSelector=exists)), *parts(1), conf=GANG)
    assert [part.key for part in info(world).sub_jobs] == ["ns/job/worker-0"]
    world = World(job(1, policy(labelSelector={"matchLabels": ["x"]})), *parts(1), conf=GANG)
    assert [part.key for part in info(world).sub_jobs] == ["ns/job"]


def test_sub_jobs_follow_the_podgroup_and_its_pods() -> None:
    world = World(group("job", 1, phase="Inqueue"), *parts(2), conf=GANG)
    assert not info(world).sub_jobs
    world.put(job(1, policy()))
    assert [part.key for part in info(world).sub_jobs] == ["ns/job/worker-0", "ns/job/worker-1"]
    world.put(member("job-0-0", "1"))
    world.put(member("job-0-1", "1"))
    assert [(part.key, len(part.tasks)) for part in info(world).sub_jobs] == [("ns/job/worker-1", 4)]
    world.put(group("job", 1, phase="Inqueue"))
    assert not info(world).sub_jobs


# Which sub-jobs are placed.


def partition(part: str, cpu: str = "1", **more: Any) -> list[Manifest]:
    """Return the two pods of a partition."""
    return [member(f"job-{part}-{at}", part, cpu=cpu, **more) for at in range(2)]


BEST_EFFORT_MEMBER = member("job-0-1", "0")
BEST_EFFORT_MEMBER["spec"]["containers"][0]["resources"] = {}


@scenarios(
    Scenario(
        name="as many sub-jobs as fit are placed in one batch, each whole",
        cluster=[node("n1", cpu="5"), job(4, policy(least=2)), *parts(3)],
        binds=on_node("n1", "job-0-0", "job-0-1", "job-1-0", "job-1-1"),
        batches=[["job-0-0", "job-0-1", "job-1-0", "job-1-1"]],
    ),
    Scenario(
        name="no sub-job is placed while fewer fit than must start together",
        cluster=[node("n1", cpu="4"), job(1, policy(least=3)), *parts(3)],
    ),
    Scenario(
        name="no sub-job is placed while fewer pods fit than minMember",
        cluster=[node("n1", cpu="4"), job(6, policy(least=1)), *parts(3)],
    ),
    Scenario(
        name="a sub-job without room is passed over",
        cluster=[
            node("n1", cpu="4"),
            job(1, policy(least=2)),
            *partition("0", cpu="9"),
            *partition("1"),
            *partition("2"),
        ],
        binds=on_node("n1", "job-1-0", "job-1-1", "job-2-0", "job-2-1"),
    ),
    Scenario(
        name="sub-jobs of a group below its minimum are placed before others",
        cluster=[
            node("n1", cpu="2"),
            job(1, policy("ps", size=1, least=0), policy(least=1)),
            *(member(f"ps-{at}", str(at), task="ps") for at in range(3)),
            *parts(1),
        ],
        binds=on_node("n1", "job-0-0", "job-0-1"),
    ),
    Scenario(
        name="sub-jobs are placed in the order of their numbers, not of their texts",
        cluster=[node("n1", cpu="2"), job(1, policy(least=1)), *partition("10"), *partition("9")],
        binds=on_node("n1", "job-9-0", "job-9-1"),
    ),
    Scenario(
        name="a sub-job of higher priority is placed before one of a lower number",
        cluster=[
            node("n1", cpu="2"),
            job(1, policy(least=1)),
            *partition("10", spec={"priority": 5}),
            *partition("9"),
        ],
        binds=on_node("n1", "job-10-0", "job-10-1"),
    ),
    Scenario(
        name="pods that a sub-job has beyond its size are placed one by one",
        cluster=[node("n1", cpu="3"), job(2, policy(least=1)), *parts(1, size=4)],
        binds=on_node("n1", "job-0-0", "job-0-1", "job-0-2"),
    ),
    Scenario(
        name="pods that no policy selects are placed with the others",
        cluster=[node("n1", cpu="3"), job(3, policy(least=1)), member("driver", task="driver"), *parts(1)],
        binds=on_node("n1", "driver", "job-0-0", "job-0-1"),
    ),
    Scenario(
        name="once a job has its minimum further sub-jobs are placed whole too",
        cluster=[node("n1", cpu="5"), job(2, policy(least=1)), *parts(3)],
        binds=on_node("n1", "job-0-0", "job-0-1", "job-1-0", "job-1-1"),
        bind_order=["job-0-0", "job-0-1", "job-1-0", "job-1-1"],
    ),
    # Sub-job 0 comes first in order, but there is room for one pod only.
    Scenario(
        name="a sub-job that lost a pod gets a new one before other sub-jobs are placed",
        cluster=[
            node("n1", cpu="2"),
            job(1, policy(least=1)),
            member("job-1-0", "1", on="n1", phase="Running"),
            member("job-1-1", "1"),
            *parts(1),
        ],
        binds=on_node("n1", "job-1-1"),
    ),
    Scenario(
        name="sub-jobs of a policy without size have size one",
        cluster=[node("n1", cpu="1"), job(1, policy(size=None, least=1)), *parts(1)],
        binds=on_node("n1", "job-0-0"),
    ),
    Scenario(
        name="a best-effort pod counts in its sub-job",
        cluster=[node("n1", cpu="1"), job(2, policy(least=1)), member("job-0-0", "0"), BEST_EFFORT_MEMBER],
        binds=on_node("n1", "job-0-0", "job-0-1"),
    ),
    Scenario(
        name="a job with enough whole sub-jobs is placed without the one that is not whole",
        cluster=[node("n1", cpu="8"), job(1, policy(least=2)), *parts(2), member("job-2-0", "2")],
        bind_counts={"job-0": 2, "job-1": 2},
    ),
    Scenario(
        name="nothing is placed of a policy without label keys where there is no node",
        cluster=[job(2, {"name": "all", "subGroupSize": 2, "minSubGroups": 0}), *parts(1)],
    ),
    Scenario(
        name="without a plugin for it, a hard network topology of a policy restricts nothing",
        cluster=[
            node("n1", cpu="2"),
            node("n2", cpu="2"),
            job(4, policy(least=2, networkTopology={"mode": "hard", "highestTierAllowed": 1})),
            *parts(2),
        ],
        bind_counts={"job-0": 2, "job-1": 2},
    ),
    conf=GANG,
)
def test_placement_of_sub_jobs(scenario: Scenario) -> None:
    scenario.check()


def test_a_job_waits_until_enough_sub_jobs_fit() -> None:
    world = World(node("n1", cpu="4"), job(1, policy(least=3)), *parts(3), conf=GANG).run()
    assert world.binds == {}, "three sub-jobs must start together, whatever minMember is"
    world.put(node("n2", cpu="2"))
    world.run()
    assert len(world.binds) == 6


def test_only_a_whole_sub_job_is_pipelined_to_the_room_of_a_terminating_pod() -> None:
    ending = [pod(f"old-{at}", "old", cpu="2", on="n1", phase="Running") for at in range(2)]
    world = World(node("n1", cpu="4"), group("old", 1, phase="Running"), *ending, conf=GANG)
    world.set_pod("old-0", deleting=True)
    for made in (job(1, policy(least=1)), *parts(2)):
        world.put(made)
    world.cycle()
    assert world.pipelines == on_node("n1", "job-0-0", "job-0-1")


def test_a_job_without_enough_whole_sub_jobs_is_not_tried() -> None:
    pods = [*parts(2), member("job-2-0", "2")]
    world = World(node("n1", cpu="8"), job(1, policy(least=3)), *pods, conf=GANG).run()
    assert world.binds == {}
    reason = info(world).attempts.reason
    assert (reason.code, reason.text) == (
        "NotEnoughPodsOfTask",
        "Not enough valid subGroups of each task for gang-scheduling",
    )


@pytest.mark.parametrize("minimum", [2, 3])
def test_no_gang_is_bound_without_the_best_effort_pods_that_it_needs(minimum: int) -> None:
    """One best-effort pod finds no node: neither its sub-job nor its role is complete, although there are others."""
    without_node = pod("job-0-1", "job", role="b", spec={"nodeSelector": {"no": "where"}})
    without_node["metadata"]["labels"] = {"task": "worker", PART: "0"}
    others = [pod(f"idle-{at}", "job", role="a") for at in range(3)]
    made = job(minimum, policy(least=1), minTaskMember={"a": 1, "b": 1})
    first = pod("job-0-0", "job", role="a")
    world = World(node("n1", cpu="1"), made, first, without_node, *others, conf=GANG).run()
    assert world.binds == {}


SWITCHED = """
actions: "allocate"
tiers:
- plugins: [{{name: gang, {switch}: false}}]
"""


@pytest.mark.parametrize(
    "switch",
    [
        pytest.param("enabledSubJobOrder", id="without enabledSubJobOrder"),
        pytest.param("enabledSubJobPipelined", id="without enabledSubJobPipelined, as nothing is pipelined"),
        pytest.param("enabledSubJobReady", id="without enabledSubJobReady, one by one until the job is ready"),
        pytest.param("enableJobReady", id="without enableJobReady, each placement committed at once"),
    ],
)
def test_all_sub_jobs_that_fit_are_placed_with_each_switch_of_gang_off(switch: str) -> None:
    world = World(node("n1", cpu="4"), job(4, policy(least=2)), *parts(2), conf=SWITCHED.format(switch=switch))
    world.cycle()
    assert len(world.binds) == 4


def test_undone_placements_do_not_count() -> None:
    world = World(node("n1", cpu="3"), job(4, policy(least=2)), *parts(2), conf=GANG).run(3)
    assert world.binds == {}
    assert [part.counts[0] for part in info(world).sub_jobs] == [2, 2]
    assert [part.ready_count for part in info(world).sub_jobs] == [0, 0]


def test_the_reason_counts_the_missing_tasks_of_sub_jobs() -> None:
    world = World(node("n1", cpu="1"), job(1, policy(least=2)), *parts(3), conf=GANG).run(3)
    (condition,) = world.group("job").status.conditions
    assert condition.type == "Unschedulable"
    assert condition.message.startswith(
        "4/6 tasks in gang unschedulable: pod group is not ready, 1 minAvailable, 6 Pending"
    )
