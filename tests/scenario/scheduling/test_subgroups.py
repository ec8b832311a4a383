"""Sub-group policies: which pods are one sub-job, and that enough sub-jobs start, each whole or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.scheduling.harness import World, group, node, pod
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
    """A policy that tells the pods of a task apart by their partition."""
    selector = {"matchLabels": {"task": name}}
    made = {"name": name, "labelSelector": selector, "matchLabelKeys": [PART], "subGroupSize": size, **more}
    if least is not None:
        made["minSubGroups"] = least
    return made


def member(name: str, part: str = "", *, task: str = "worker", cpu: str = "1", **more: Any) -> Manifest:
    """A pod of job `job`, of that partition of a task."""
    made = pod(name, "job", cpu=cpu, **more)
    made["metadata"]["labels"] = {"task": task, **({PART: part} if part else {})}
    return made


def parts(number: int, size: int = 2, **more: Any) -> list[Manifest]:
    """So many partitions of pods, named job-PARTITION-INDEX."""
    return [member(f"job-{part}-{index}", str(part), **more) for part in range(number) for index in range(size)]


def job(minimum: int, *policies: Manifest, **more: Any) -> Manifest:
    return group("job", minimum, phase="Inqueue", subGroupPolicy=list(policies), **more)


def info(it: World) -> JobInfo:
    return it.state.ledger.jobs["ns/job"]


def bound(it: World) -> list[str]:
    return sorted(it.binds)


# Which pods are one sub-job.


def test_pods_are_distinguished_by_their_labels() -> None:
    it = World(
        job(1, policy(), policy("ps", size=1, least=0)),
        *parts(2),
        member("p", "x", task="ps"),
        member("alone", "0", task="other"),
        member("unlabelled"),
        conf=GANG,
    )
    keys = {part.key: (part.group, sorted(task.name for task in part.tasks)) for part in info(it).sub_jobs}
    assert keys == {
        "ns/job/worker-0": ("ns/job/worker", ["job-0-0", "job-0-1"]),
        "ns/job/worker-1": ("ns/job/worker", ["job-1-0", "job-1-1"]),
        "ns/job/ps-x": ("ns/job/ps", ["p"]),
        "ns/job": ("ns/job", ["alone", "unlabelled"]),
    }
    sizes = {part.key: (part.min_available, part.match_index) for part in info(it).sub_jobs}
    assert sizes["ns/job/worker-1"] == (2, 1)
    assert sizes["ns/job"] == (1, 0)
    assert info(it).sub_job_minimums == {"ns/job/ps": 0}


def test_a_policy_without_keys_takes_no_pod() -> None:
    it = World(job(2, {"name": "all", "subGroupSize": 2, "minSubGroups": 0}), *parts(1), conf=GANG)
    assert [part.key for part in info(it).sub_jobs] == ["ns/job"]
    it.run()
    assert bound(it) == [], "the pods are there, but no node is"


def test_the_first_policy_that_takes_a_pod_has_it() -> None:
    first = {"name": "first", "matchLabelKeys": ["task", PART]}
    it = World(job(1, first, policy()), *parts(1), conf=GANG)
    assert [part.key for part in info(it).sub_jobs] == ["ns/job/first-worker-0"]


def test_long_values_are_shown_by_a_digest() -> None:
    keys = [f"k{at}" for at in range(3)]
    made = member("a")
    made["metadata"]["labels"] = dict.fromkeys(keys, "v" * 60)
    it = World(job(1, {"name": "p", "matchLabelKeys": keys}), made, conf=GANG)
    (part,) = info(it).sub_jobs
    assert part.key.startswith("ns/job/p-")
    assert len(part.key) <= len("ns/job/p-") + 10


def test_selectors_may_have_expressions_and_nonsense_selects_nothing() -> None:
    exists = {"matchExpressions": [{"key": "task", "operator": "Exists"}]}
    it = World(job(1, policy(labelSelector=exists)), *parts(1), conf=GANG)
    assert [part.key for part in info(it).sub_jobs] == ["ns/job/worker-0"]
    it = World(job(1, policy(labelSelector={"matchLabels": ["x"]})), *parts(1), conf=GANG)
    assert [part.key for part in info(it).sub_jobs] == ["ns/job"]


def test_sub_jobs_follow_the_podgroup_and_its_pods() -> None:
    it = World(group("job", 1, phase="Inqueue"), *parts(2), conf=GANG)
    assert not info(it).sub_jobs
    it.put(job(1, policy()))
    assert [part.key for part in info(it).sub_jobs] == ["ns/job/worker-0", "ns/job/worker-1"]
    it.put(member("job-0-0", "1"))
    it.put(member("job-0-1", "1"))
    assert [(part.key, len(part.tasks)) for part in info(it).sub_jobs] == [("ns/job/worker-1", 4)]
    it.put(group("job", 1, phase="Inqueue"))
    assert not info(it).sub_jobs


# What is placed.


def test_only_as_many_sub_jobs_as_fit_are_placed_each_whole() -> None:
    it = World(node("n1", cpu="5"), job(4, policy(least=2)), *parts(3), conf=GANG).run()
    assert bound(it) == ["job-0-0", "job-0-1", "job-1-0", "job-1-1"], "the fifth cpu is no use to half a sub-job"
    assert it.batches == [["job-0-0", "job-0-1", "job-1-0", "job-1-1"]]


def test_a_job_waits_until_enough_sub_jobs_have_room() -> None:
    it = World(node("n1", cpu="4"), job(1, policy(least=3)), *parts(3), conf=GANG).run()
    assert bound(it) == [], "three sub-jobs must start together, whatever minMember says"
    it.put(node("n2", cpu="2"))
    it.run()
    assert len(bound(it)) == 6


def test_the_members_in_all_count_too() -> None:
    it = World(node("n1", cpu="4"), job(6, policy(least=1)), *parts(3), conf=GANG).run()
    assert bound(it) == []


def test_a_sub_job_that_has_no_room_is_passed_over() -> None:
    wide = [member(f"job-0-{at}", "0", cpu="9") for at in range(2)]
    small = [member(f"job-{part}-{at}", str(part)) for part in (1, 2) for at in range(2)]
    it = World(node("n1", cpu="4"), job(1, policy(least=2)), *wide, *small, conf=GANG).run()
    assert bound(it) == ["job-1-0", "job-1-1", "job-2-0", "job-2-1"]


def test_sub_jobs_that_are_needed_come_before_others() -> None:
    """Of the task that needs none, nothing is placed before the other has its minimum."""
    many = [member(f"ps-{at}", str(at), task="ps") for at in range(3)]
    objects = job(1, policy("ps", size=1, least=0), policy(least=1)), *many, *parts(1)
    it = World(node("n1", cpu="2"), *objects, conf=GANG).run()
    assert bound(it) == ["job-0-0", "job-0-1"]


def test_sub_jobs_go_by_priority_then_by_their_number() -> None:
    late = [member(f"job-10-{at}", "10") for at in range(2)]
    early = [member(f"job-9-{at}", "9") for at in range(2)]
    it = World(node("n1", cpu="2"), job(1, policy(least=1)), *late, *early, conf=GANG).run()
    assert bound(it) == ["job-9-0", "job-9-1"], "as numbers, not as texts"
    late = [member(f"job-10-{at}", "10", spec={"priority": 5}) for at in range(2)]
    it = World(node("n1", cpu="2"), job(1, policy(least=1)), *late, *early, conf=GANG).run()
    assert bound(it) == ["job-10-0", "job-10-1"]


def test_what_a_sub_job_has_beyond_its_size_is_placed_one_by_one() -> None:
    it = World(node("n1", cpu="3"), job(2, policy(least=1)), *parts(1, size=4), conf=GANG).run()
    assert bound(it) == ["job-0-0", "job-0-1", "job-0-2"]


def test_pods_that_no_policy_takes_are_placed_with_the_others() -> None:
    it = World(node("n1", cpu="3"), job(3, policy(least=1)), member("driver", task="driver"), *parts(1), conf=GANG)
    it.run()
    assert bound(it) == ["driver", "job-0-0", "job-0-1"]


def test_later_turns_place_whole_sub_jobs() -> None:
    it = World(node("n1", cpu="5"), job(2, policy(least=1)), *parts(3), conf=GANG).run()
    assert [bind.name for bind in it.requests] == ["job-0-0", "job-0-1", "job-1-0", "job-1-1"], "and none in part"


def test_a_sub_job_that_lost_a_pod_is_made_whole() -> None:
    """The first one in order is needed, but there is room for the missing pod of the other only."""
    there = member("job-1-0", "1", on="n1", phase="Running")
    it = World(node("n1", cpu="2"), job(1, policy(least=1)), there, member("job-1-1", "1"), *parts(1), conf=GANG).run()
    assert bound(it) == ["job-1-1"]


def test_reservations_count_for_sub_jobs() -> None:
    """Room that is being released keeps a place for a whole sub-job, and for none that is not whole."""
    ending = [pod(f"old-{at}", "old", cpu="2", on="n1", phase="Running") for at in range(2)]
    it = World(node("n1", cpu="4"), group("old", 1, phase="Running"), *ending, conf=GANG)
    it.set_pod("old-0", deleting=True)
    for made in (job(1, policy(least=1)), *parts(2)):
        it.put(made)
    it.cycle()
    assert it.snapshot is not None
    assert sorted(it.snapshot.pipelined) == ["ns/job-0-0", "ns/job-0-1"]


@pytest.mark.parametrize(("least", "valid"), [(2, True), (3, False)])
def test_a_job_without_enough_whole_sub_jobs_is_not_looked_at(least: int, valid: bool) -> None:
    pods = [*parts(2), member("job-2-0", "2")]
    it = World(node("n1", cpu="8"), job(1, policy(least=least)), *pods, conf=GANG).run()
    assert bool(bound(it)) is valid
    reason = info(it).attempts.reason
    assert valid or (reason.code, reason.text) == (
        "NotEnoughPodsOfTask",
        "Not enough valid subGroups of each task for gang-scheduling",
    )


def test_sub_jobs_without_size_are_of_one() -> None:
    it = World(node("n1", cpu="1"), job(1, policy(size=None, least=1)), *parts(1), conf=GANG).run()
    assert bound(it) == ["job-0-0"]


def test_pods_that_request_nothing_count_in_their_sub_job() -> None:
    idle = [pod("job-0-1", "job")]
    idle[0]["metadata"]["labels"] = {"task": "worker", PART: "0"}
    it = World(node("n1", cpu="1"), job(2, policy(least=1)), member("job-0-0", "0"), *idle, conf=GANG).run()
    assert bound(it) == ["job-0-0", "job-0-1"]


@pytest.mark.parametrize("minimum", [2, 3])
def test_no_gang_is_bound_without_its_pods_that_request_nothing(minimum: int) -> None:
    """One such pod of a sub-job finds no node: neither it nor the role is complete, whoever else there is."""
    lost = pod("job-0-1", "job", role="b", spec={"nodeSelector": {"no": "where"}})
    lost["metadata"]["labels"] = {"task": "worker", PART: "0"}
    others = [pod(f"idle-{at}", "job", role="a") for at in range(3)]
    made = job(minimum, policy(least=1), minTaskMember={"a": 1, "b": 1})
    it = World(node("n1", cpu="1"), made, pod("job-0-0", "job", role="a"), lost, *others, conf=GANG).run()
    assert bound(it) == []


# Switches.

SWITCHED = """
actions: "allocate"
tiers:
- plugins: [{{name: gang, {switch}: false}}]
"""


@pytest.mark.parametrize(
    ("switch", "expected"),
    [
        ("enabledSubJobOrder", 4),
        ("enabledSubJobPipelined", 4),  # nothing is reserved here
        ("enabledSubJobReady", 4),  # each is ready at once: its tasks are placed one by one, until the job is
        ("enableJobReady", 1),  # whatever is placed is committed
    ],
)
def test_switches(switch: str, expected: int) -> None:
    conf = SWITCHED.format(switch=switch)
    it = World(node("n1", cpu="4"), job(4, policy(least=2)), *parts(2), conf=conf)
    it.cycle()
    assert len(bound(it)) >= expected
    assert len(bound(it)) == 4


def test_a_network_topology_is_ignored_for_now() -> None:
    hard = {"mode": "hard", "highestTierAllowed": 1}
    it = World(node("n1", cpu="2"), node("n2", cpu="2"), job(4, policy(least=2, networkTopology=hard)), *parts(2),
               conf=GANG).run()  # fmt: skip
    assert len(bound(it)) == 4


def test_counts_stay_right_when_placements_are_taken_back() -> None:
    it = World(node("n1", cpu="3"), job(4, policy(least=2)), *parts(2), conf=GANG).run(3)
    assert bound(it) == []
    assert [part.counts[0] for part in info(it).sub_jobs] == [2, 2]
    assert [part.ready_count for part in info(it).sub_jobs] == [0, 0]


def test_the_reason_counts_the_missing_tasks_of_sub_jobs() -> None:
    it = World(node("n1", cpu="1"), job(1, policy(least=2)), *parts(3), conf=GANG).run(3)
    (condition,) = it.group("job").status.conditions
    assert condition.type == "Unschedulable"
    assert condition.message.startswith(
        "4/6 tasks in gang unschedulable: pod group is not ready, 1 minAvailable, 6 Pending"
    )
