"""Action gangpreempt: a gang evicts jobs of lower priority for all of its tasks at once.

Spare tasks, which their jobs do not need, are evicted before whole gangs.
"""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import (
    Scenario,
    World,
    node,
    on_node,
    pod,
    pods,
    queue,
    running,
    scenarios,
    waiting,
)
from tests.scenario.scheduling.preemption_clusters import PRIORITY_CLASSES, job, preemption_world
from tests.scenario.scheduling.storage import claim, on, storage_class, volume
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.framework.effects import Patch
from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate, backfill, gangpreempt"
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
SPARE_TASKS_ONLY = f"""{CONF}
configurations:
- name: gangpreempt
  arguments: {{allowWholeBundle: false, maxDomains: 0}}
"""
CAPACITY = CONF.replace("proportion", "capacity")
NOT_STARVING = CONF.replace("- name: gang", "- {name: gang, enableJobStarving: false}")
"""A job that has its minimum may still preempt."""
SHARES = """
actions: "allocate, gangpreempt, {last}"
tiers:
- plugins: [{{name: gang, enablePreemptable: false}}]
- plugins: [{{name: predicates}}, {{name: drf}}]
"""
"""drf alone chooses victims."""


def gang(name: str, count: int, minimum: int | None = None, *, on: str = "n1", **more: Any) -> list[Manifest]:
    """Return a running job of `count` pods; its minimum is all of them by default."""
    priority = more.pop("priority", "low")
    spec = {key: more.pop(key) for key in ("minTaskMember", "queue", "annotations") if key in more}
    made = job(name, count if minimum is None else minimum, *running(name, count, on=on, **more), priority=priority)
    made[0]["metadata"]["annotations"] = spec.pop("annotations", {})
    made[0]["spec"].update(spec)
    return made


def new(count: int, minimum: int | None = None, *, cpu: str = "1", **more: Any) -> list[Manifest]:
    """Return a waiting job of high priority; its minimum is all of its pods by default."""
    return job("new", count if minimum is None else minimum, *waiting("new", count, cpu=cpu, **more), priority="high")


def in_sub_jobs_of_two(name: str, count: int, **more: Any) -> list[Manifest]:
    """Return pods labelled in pairs, which `pairs` makes sub-jobs."""
    members = [pod(f"{name}-{at}", name, cpu="1", **more) for at in range(2 * count)]
    for at, member in enumerate(members):
        member["metadata"]["labels"] = {"part": str(at // 2)}
    return members


def pairs(least: int) -> dict[str, Any]:
    """Return a sub-group policy: sub-jobs of two pods, of which at least so many must run."""
    return {
        "subGroupPolicy": [{"name": "w", "matchLabelKeys": ["part"], "subGroupSize": 2, "minSubGroups": least}],
    }


HOST_PORT = {
    "containers": [
        {
            "name": "main",
            "ports": [{"hostPort": 80, "containerPort": 80}],
            "resources": {"requests": {"cpu": "1"}},
        }
    ]
}
CRITICAL = {"priorityClassName": "system-node-critical"}
NODES = (node("n1", cpu="4"), node("n2", cpu="4"))
FULL = (node("n1", cpu="4"), *gang("old", 4))
OLD = ["old-0", "old-1", "old-2", "old-3"]
WORKERS_AND_PS = [
    *pods("w", 3, "old", role="worker", cpu="1", on="n1", phase="Running"),
    pod("ps", "old", role="ps", cpu="1", on="n1", phase="Running"),
]


def started(*numbers: int) -> list[Manifest]:
    """Return pods of job new, in sub-jobs of two: numbers 0 and 1 run on n2, and of the rest those listed wait."""
    first, second, *others = in_sub_jobs_of_two("new", 3)
    for member in (first, second):
        member["spec"]["nodeName"], member["status"]["phase"] = "n2", "Running"
    pending = [each for each in others if int(each["metadata"]["name"].removeprefix("new-")) in numbers]
    return job("new", 2, first, second, *pending, priority="high", phase="Running", **pairs(1))


@scenarios(
    Scenario(
        name="the action preempt does not evict a gang that has no spare task",
        conf=CONF.replace("gangpreempt", "preempt"),
        cluster=[*NODES, *gang("a", 4), *gang("b", 4, on="n2"), *new(4)],
    ),
    Scenario(
        name="spare tasks are evicted before a gang, even one of lower priority",
        cluster=[*NODES, *gang("a", 4), *gang("b", 4, 2, on="n2", priority="middle"), *new(2)],
        evicts=["b-0", "b-1"],
    ),
    Scenario(
        name="where a gang must be evicted no spare task is evicted beside it without need",
        cluster=[*NODES, *gang("a", 4), *gang("b", 4, 2, on="n2", priority="middle"), *new(4)],
        evicts=["a-0", "a-1", "a-2", "a-3"],
    ),
    Scenario(
        name="a gang is evicted whole although fewer of its tasks would make enough room",
        cluster=[node("n1", cpu="4"), *gang("a", 4), *new(1)],
        evicts=["a-0", "a-1", "a-2", "a-3"],
    ),
    Scenario(
        name="the job of lowest priority is evicted first",
        cluster=[
            node("n1", cpu="2"),
            node("n2", cpu="2"),
            *gang("a", 2, priority="middle"),
            *gang("b", 2, on="n2"),
            *new(2),
        ],
        evicts=["b-0", "b-1"],
    ),
    Scenario(
        name="a gang that fits on free nodes is bound without evictions",
        cluster=[node("n1", cpu="4"), node("n2", cpu="2"), *gang("a", 4), *new(2)],
        binds=on_node("n2", "new-0", "new-1"),
    ),
    Scenario(
        name="a gang that can get only part of its room evicts nothing",
        cluster=[*FULL, *new(5)],
    ),
    Scenario(
        name="a gang evicts nothing of a job of its own priority",
        cluster=[*FULL, *job("new", 4, *waiting("new", 4), priority="low")],
    ),
    Scenario(
        name="a gang evicts nothing of another queue",
        cluster=[*FULL, queue("q"), *job("new", 4, *waiting("new", 4), priority="high", queue="q")],
    ),
    Scenario(
        name="a gang whose pods are annotated as not preemptable is not evicted",
        cluster=[
            node("n1", cpu="4"),
            *job("old", 4, *running("old", 4, annotations={"volcano.sh/preemptable": "false"})),
            *new(4),
        ],
    ),
    Scenario(
        name="a gang whose PodGroup is annotated as not preemptable is not evicted",
        cluster=[node("n1", cpu="4"), *gang("old", 4, annotations={"volcano.sh/preemptable": "false"}), *new(4)],
    ),
    Scenario(
        name="a gang whose PodGroup is annotated as preemptable is evicted",
        cluster=[node("n1", cpu="4"), *gang("old", 4, annotations={"volcano.sh/preemptable": "true"}), *new(4)],
        evicts=OLD,
    ),
    Scenario(
        name="a gang of pods with preemptionPolicy Never evicts nothing",
        cluster=[*FULL, *new(4, spec={"preemptionPolicy": "Never"})],
    ),
    Scenario(
        name="a gang of critical pods of the cluster is not evicted",
        cluster=[node("n1", cpu="4"), *job("old", 4, *running("old", 4, spec=CRITICAL)), *new(4)],
    ),
    Scenario(
        name="a gang with fewer pods than its minimum evicts nothing",
        cluster=[*FULL, *job("new", 4, *waiting("new", 2), priority="high")],
    ),
    Scenario(
        name="a gang of pods larger than the node evicts nothing",
        cluster=[*FULL, *new(4, cpu="9")],
    ),
    Scenario(
        name="a gang whose node selector matches no node evicts nothing",
        cluster=[*FULL, *new(2, spec={"nodeSelector": {"no": "where"}})],
    ),
    Scenario(
        name="without allowWholeBundle no gang is evicted",
        conf=SPARE_TASKS_ONLY,
        cluster=[*FULL, *new(1)],
    ),
    Scenario(
        name="without allowWholeBundle a spare task is evicted",
        conf=SPARE_TASKS_ONLY,
        cluster=[node("n1", cpu="4"), *gang("old", 4, 3), *new(1)],
        evicts=["old-0"],
    ),
    Scenario(
        name="one task that must stay keeps its whole gang from being evicted",
        cluster=[
            node("n1", cpu="4"),
            *job("old", 4, *running("old", 3), pod("old-9", "old", cpu="1", on="n1", phase="Running", spec=CRITICAL)),
            *new(2),
        ],
    ),
    Scenario(
        name="one task that must stay does not keep spare tasks of its job from being evicted",
        cluster=[
            node("n1", cpu="4"),
            *job("old", 1, *running("old", 3), pod("old-9", "old", cpu="1", on="n1", phase="Running", spec=CRITICAL)),
            *new(2),
        ],
        evicts=["old-0", "old-1"],
    ),
    Scenario(
        name="tasks that a role has above its minimum are spare",
        conf=SPARE_TASKS_ONLY,
        cluster=[
            node("n1", cpu="4"),
            *job("old", 2, *WORKERS_AND_PS, minTaskMember={"worker": 1, "ps": 1}),
            *new(2),
        ],
        evicts=["w-0", "w-1"],
    ),
    Scenario(
        name="no role falls below its minimum",
        conf=SPARE_TASKS_ONLY,
        cluster=[
            node("n1", cpu="4"),
            *job("old", 2, *WORKERS_AND_PS, minTaskMember={"worker": 1, "ps": 1}),
            *new(3),
        ],
    ),
    Scenario(
        name="a sub-job that its group has above its minimum is spare",
        conf=SPARE_TASKS_ONLY,
        cluster=[
            node("n1", cpu="4"),
            *job("old", 1, *in_sub_jobs_of_two("old", 2, on="n1", phase="Running"), **pairs(1)),
            *new(2),
        ],
        evicts=["old-0", "old-1"],
    ),
    Scenario(
        name="no group of sub-jobs falls below its minimum",
        conf=SPARE_TASKS_ONLY,
        cluster=[
            node("n1", cpu="4"),
            *job("old", 1, *in_sub_jobs_of_two("old", 2, on="n1", phase="Running"), **pairs(1)),
            *new(3),
        ],
    ),
    Scenario(
        name="where spare sub-jobs are not enough the whole job is evicted",
        cluster=[
            node("n1", cpu="4"),
            *job("old", 1, *in_sub_jobs_of_two("old", 2, on="n1", phase="Running"), **pairs(1)),
            *new(3),
        ],
        evicts=OLD,
    ),
    Scenario(
        name="all tasks of a job below its minimum are spare",
        conf=SPARE_TASKS_ONLY,
        cluster=[node("n1", cpu="3"), *job("old", 4, *running("old", 3), phase="Running"), *new(1)],
        evicts=["old-0"],
    ),
    Scenario(
        name="room is made for the minimum of a job only",
        cluster=[node("n1", cpu="4"), *gang("old", 4, 0), *new(4, 2)],
        evicts=["old-0", "old-1"],
        pipelines=on_node("n1", "new-0", "new-1"),
    ),
    Scenario(
        name="room is made for the minimum of each role",
        cluster=[
            node("n1", cpu="4"),
            *gang("old", 4, 0),
            *job(
                "new",
                2,
                *pods("w", 3, "new", role="worker", cpu="1"),
                pod("z-ps", "new", role="ps", cpu="1"),
                priority="high",
                minTaskMember={"worker": 1, "ps": 1},
            ),
        ],
        evicts=["old-0", "old-1"],
        pipelines=on_node("n1", "w-0", "z-ps"),
    ),
    Scenario(
        name="a job that has its minimum gets room for one more whole sub-job",
        conf=NOT_STARVING,
        cluster=[node("n1", cpu="4"), node("n2", cpu="2"), *gang("old", 4, 0), *started(2, 3, 4, 5)],
        evicts=["old-0", "old-1"],
    ),
    Scenario(
        name="a job that has its minimum gets no room for part of a sub-job",
        conf=NOT_STARVING,
        cluster=[node("n1", cpu="4"), node("n2", cpu="2"), *gang("old", 4, 0), *started(2)],
    ),
    Scenario(
        name="a sub-job that misses a pod is passed over for the next one",
        conf=NOT_STARVING,
        cluster=[node("n1", cpu="4"), node("n2", cpu="2"), *gang("old", 4, 0), *started(2, 4, 5)],
        evicts=["old-0", "old-1"],
    ),
    Scenario(
        name="of two possible victims the one that uses the wanted host port is evicted",
        cluster=[
            node("n1", cpu="2"),
            *gang("a", 1, 0),
            *job("b", 0, pod("b-0", "b", on="n1", phase="Running", spec=HOST_PORT)),
            *job("new", 1, pod("new-0", "new", spec=HOST_PORT), priority="high"),
        ],
        evicts=["b-0"],
    ),
    Scenario(
        name="by shares a gang is evicted where its tasks could not evict in return",
        conf=SHARES.format(last="backfill"),
        cluster=[*FULL, *new(4)],
        evicts=OLD,
    ),
    Scenario(
        name="by shares no gang is evicted where the action preempt would evict in return",
        conf=SHARES.format(last="preempt"),
        cluster=[*FULL, *new(4)],
    ),
    Scenario(
        name="evicted pods count as freed towards the limit of the queue",
        conf=CAPACITY,
        cluster=[
            node("n1", cpu="8"),
            queue("q", capability={"cpu": "4"}),
            *job("old", 4, *running("old", 4), queue="q"),
            *job("new", 4, *waiting("new", 4), priority="high", queue="q"),
        ],
        evicts=OLD,
    ),
    Scenario(
        name="pods are evicted for the limit of the queue although the nodes have room",
        conf=CAPACITY,
        cluster=[
            *NODES,
            queue("q", capability={"cpu": "4"}),
            *job("old", 0, *running("old", 4), queue="q"),
            *job("new", 2, *waiting("new", 2), priority="high", queue="q"),
        ],
        evicts=["old-0", "old-1"],
    ),
    conf=CONF,
    common=PRIORITY_CLASSES,
)
def test_gangpreempt(scenario: Scenario) -> None:
    scenario.check()


CLAIMED = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
VOLUME_ON_N2 = (
    storage_class(),
    claim("data", volume="v"),
    volume("v", phase="Bound", reach=on("disk", "there")),
    node("n1", cpu="4"),
    node("n2", cpu="4", labels={"disk": "there"}),
    queue("q", capability={"cpu": "6"}),
    *job("old", 0, *running("old", 2), *pods("other", 4, "old", cpu="1", on="n2", phase="Running"), queue="q"),
)
"""A queue at its limit, whose first victim is on n1, while the volume can be used on n2 only."""


@scenarios(
    Scenario(
        name="a pod without a claim evicts the first victim of the queue",
        cluster=[*VOLUME_ON_N2, *job("new", 1, *waiting("new", 1), priority="high", queue="q")],
        evicts=["old-0"],
    ),
    Scenario(
        name="a pod with a claim evicts a victim on the node where its volume can be used",
        cluster=[*VOLUME_ON_N2, *job("new", 1, *waiting("new", 1, spec=CLAIMED), priority="high", queue="q")],
        evicts=["other-0"],
    ),
    conf=CAPACITY,
    common=PRIORITY_CLASSES,
)
def test_gangpreempt_with_volume_claims(scenario: Scenario) -> None:
    scenario.check()


def test_a_gang_replaces_a_whole_gang_and_all_its_tasks_are_nominated() -> None:
    world = preemption_world(*NODES, *gang("a", 4, on="n1"), *gang("b", 4, on="n2"), *new(4), conf=CONF)
    world.cycle()
    assert sorted(world.evictions) in (["a-0", "a-1", "a-2", "a-3"], ["b-0", "b-1", "b-2", "b-3"])
    assert {reason for _, reason, message in world.recorded if "gangpreempt" in message} == {"Evict"}
    assert len(world.pipelines) == 4
    nominated = [
        one for one in world.last if isinstance(one, Patch) and "nominatedNodeName" in one.patch.get("status", {})
    ]
    assert sorted(one.name for one in nominated) == ["new-0", "new-1", "new-2", "new-3"]


def test_no_more_spare_tasks_are_evicted_than_needed() -> None:
    world = preemption_world(*NODES, *gang("a", 4, 1), *gang("b", 4, 1, on="n2"), *new(2), conf=CONF)
    world.cycle()
    assert sorted(world.evictions) in (["a-0", "a-1"], ["b-0", "b-1"])


def test_room_on_several_nodes_is_combined() -> None:
    world = preemption_world(*NODES, *gang("a", 4), *gang("b", 4, on="n2"), *new(4, cpu="2"), conf=CONF)
    world.cycle()
    assert len(world.evictions) == 8
    assert sorted(world.pipelines.values()) == ["n1", "n1", "n2", "n2"]


def test_idle_room_is_used_before_room_of_a_gang() -> None:
    world = preemption_world(node("n1", cpu="4"), node("n2", cpu="2"), *gang("a", 4), *new(3), conf=CONF)
    world.cycle()
    assert world.evictions == ["a-0", "a-1", "a-2", "a-3"]
    assert sorted(world.pipelines.values()) == ["n1", "n2", "n2"]


def test_room_is_made_for_whole_sub_jobs() -> None:
    mine = job("new", 1, *in_sub_jobs_of_two("new", 3), priority="high", **pairs(2))
    world = preemption_world(node("n1", cpu="6"), *gang("old", 6), *mine, conf=CONF)
    world.cycle()
    assert sorted(world.pipelines) == ["new-0", "new-1", "new-2", "new-3"]
    world.echo()
    world.remove_terminating_pods()
    world.run(2)
    assert {name for name in world.binds if name.startswith("new")} >= {"new-0", "new-1", "new-2", "new-3"}


def test_a_gang_is_bound_as_one_batch_once_its_victims_are_gone_and_evicts_no_more_before() -> None:
    world = preemption_world(*FULL, *new(4), conf=CONF).run(3)
    assert len(world.evictions) == 4
    assert world.binds == {}
    world.remove_terminating_pods()
    world.run()
    assert sorted(world.binds) == ["new-0", "new-1", "new-2", "new-3"]
    assert world.batches == [["new-0", "new-1", "new-2", "new-3"]]


def test_no_other_job_gets_the_room_that_a_gang_has_evicted_for() -> None:
    world = preemption_world(*FULL, *new(4), conf=CONF).run()
    for made in job("late", 1, *waiting("late", 1), priority="high"):
        world.put(made)
    world.run()
    world.remove_terminating_pods()
    world.run()
    assert "late-0" not in world.binds
    assert len(world.binds) == 4


def test_a_restarted_scheduler_binds_the_gang_without_further_evictions() -> None:
    world = preemption_world(*FULL, *new(4), conf=CONF).run()
    restarted = World(conf=CONF, state=ClusterState(), synced=False, now=world.now)
    for obj in world.objects.values():
        restarted.put(obj)
    restarted.sync()
    restarted.run()
    assert restarted.evictions == []
    restarted.remove_terminating_pods()
    restarted.run()
    assert len(restarted.binds) == 4
