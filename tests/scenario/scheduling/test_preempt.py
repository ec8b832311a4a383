"""Action preempt: a job evicts tasks of jobs of lower priority in its queue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.scenario.scheduling.harness import (
    Scenario,
    World,
    labelled,
    node,
    on_node,
    pod,
    pods,
    priority_class,
    queue,
    running,
    scenarios,
    waiting,
)
from tests.scenario.scheduling.preemption_clusters import CONF, DRY_RUN, PRIORITY_CLASSES, job, preemption_world
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.framework.effects import Patch, Record
from volcanoio.model.base import Manifest

HOST = "kubernetes.io/hostname"
NOT_STARVING = CONF.replace("  - name: gang\n", "  - name: gang\n    enableJobStarving: false\n")
"""A job that has its minimum may still preempt."""
ANY_SPARE_TASK = """
actions: "allocate, preempt"
tiers:
- plugins:
  - {name: priority, enablePreemptable: false}
  - {name: gang, enableJobStarving: false}
"""
"""A job starves while any task is pending, and may evict any task that another job has above its minimum."""


FULL = (node("n1", cpu="4"), *job("old", 1, *running("old", 4)))
"""A node full of a job of low priority that can lose three of its four tasks."""
NEW = job("new", 1, *waiting("new", 1), priority="high")
LARGE = job("new", 1, *waiting("new", 1, cpu="2"), priority="high")
NOT_PREEMPTABLE: dict[str, Any] = {"annotations": {"volcano.sh/preemptable": "false"}}


@scenarios(
    Scenario(
        name="a gang evicts room for its minimum and no more, beginning with the last task",
        cluster=[*FULL, *job("new", 2, *waiting("new", 5), priority="high")],
        evicts=["old-3", "old-2"],
        pipelines={"new-0": "n1", "new-1": "n1"},
    ),
    Scenario(
        name="a gang that can get only part of its room evicts nothing",
        cluster=[*FULL, *job("new", 4, *waiting("new", 4), priority="high")],
    ),
    Scenario(
        name="a job evicts nothing of a job of its own priority",
        cluster=[*FULL, *job("new", 1, *waiting("new", 1), priority="low")],
    ),
    Scenario(
        name="a job evicts nothing of another queue",
        cluster=[*FULL, queue("q"), *job("new", 1, *waiting("new", 1), priority="high", queue="q")],
    ),
    Scenario(
        name="no gang falls below its minimum",
        cluster=[node("n1", cpu="2"), *job("old", 2, *running("old", 2)), *NEW],
    ),
    Scenario(
        name="a pod annotated as not preemptable is not evicted",
        cluster=[node("n1", cpu="2"), *job("old", 1, *running("old", 2, **NOT_PREEMPTABLE)), *NEW],
    ),
    Scenario(
        name="a pod with preemptionPolicy Never evicts nothing",
        cluster=[*FULL, *job("new", 1, *waiting("new", 1, spec={"preemptionPolicy": "Never"}), priority="high")],
    ),
    Scenario(
        name="a critical pod of the cluster is not evicted",
        cluster=[
            node("n1", cpu="2"),
            *job("old", 1, *running("old", 2, spec={"priorityClassName": "system-node-critical"})),
            *NEW,
        ],
    ),
    Scenario(
        name="a job that is not enqueued evicts nothing",
        cluster=[
            *FULL,
            *job("new", 1, *waiting("new", 1), priority="high", phase="Pending", minResources={"cpu": "99"}),
        ],
    ),
    Scenario(
        name="a gang with fewer pods than its minimum evicts nothing",
        cluster=[*FULL, *job("new", 2, *waiting("new", 1), priority="high")],
    ),
    Scenario(
        name="a job with a hard network topology is left to gangpreempt",
        cluster=[
            *FULL,
            *job(
                "new",
                1,
                *waiting("new", 1),
                priority="high",
                networkTopology={"mode": "hard", "highestTierAllowed": 1},
            ),
        ],
    ),
    Scenario(
        name="a pod larger than the node evicts nothing",
        cluster=[*FULL, *job("new", 1, *waiting("new", 1, cpu="9"), priority="high")],
    ),
    Scenario(
        name="one large pod evicts several small ones",
        cluster=[*FULL, *job("new", 1, *waiting("new", 1, cpu="3"), priority="high")],
        evicts=["old-1", "old-2", "old-3"],
    ),
    Scenario(
        name="a pod that fits on a free node is bound without evictions",
        cluster=[*FULL, node("n2"), *NEW],
        binds={"new-0": "n2"},
    ),
    Scenario(
        name="a pod whose node selector matches no node evicts nothing",
        cluster=[*FULL, *job("new", 1, *waiting("new", 1, spec={"nodeSelector": {"disk": "ssd"}}), priority="high")],
    ),
    Scenario(
        name="a bound pod that does not run yet may be evicted",
        cluster=[
            node("n1", cpu="2"),
            *job("old", 0, *pods("old", 2, "old", cpu="1", on="n1"), phase="Running"),
            *NEW,
        ],
        evicts=["old-1"],
    ),
    Scenario(
        name="the job of lowest priority loses first, and within a job the task of lowest priority",
        cluster=[
            node("n1", cpu="4"),
            *job("a", 0, *running("a", 2, spec={"priority": 5}), priority="middle"),
            *job("b", 0, *running("b", 1, spec={"priority": 5}), pod("b-x", "b", cpu="1", on="n1", phase="Running")),
            *job("new", 3, *waiting("new", 3), priority="high"),
        ],
        evicts=["a-1", "b-0", "b-x"],
    ),
    Scenario(
        name="of two tasks of a job the one of lower priority is evicted",
        cluster=[
            node("n1", cpu="2"),
            *job("b", 0, *running("b", 1, spec={"priority": 5}), pod("b-x", "b", cpu="1", on="n1", phase="Running")),
            *NEW,
        ],
        evicts=["b-x"],
    ),
    Scenario(
        name="a best-effort task evicts no task with requests",
        cluster=[
            node("n1", pods="1"),
            *job("rest", 0, *running("rest", 1)),
            *job("new", 1, pod("new-0", "new"), priority="high"),
        ],
    ),
    Scenario(
        name="a best-effort task evicts a best-effort task",
        cluster=[
            node("n1", pods="2"),
            *job("rest", 0, *running("rest", 1)),
            *job("idle", 0, pod("idle-0", "idle", on="n1", phase="Running")),
            *job("new", 1, pod("new-0", "new"), priority="high"),
        ],
        evicts=["idle-0"],
    ),
    Scenario(
        name="a full queue evicts its own tasks although the nodes have room",
        cluster=[
            node("n1", cpu="12"),
            queue("small", capability={"cpu": "3"}),
            *job("old", 0, *running("old", 3), queue="small"),
            *job("new", 1, *waiting("new", 1, cpu="2"), priority="high", queue="small"),
        ],
        evicts=["old-1", "old-2"],
    ),
    Scenario(
        name="a task replaces a task of lower priority of its own job",
        conf=NOT_STARVING,
        cluster=[
            node("n1", cpu="2"),
            *job("own", 1, *running("own", 2), pod("own-boss", "own", cpu="1", spec={"priority": 50})),
        ],
        evicts=["own-1"],
    ),
    Scenario(
        name="a task of higher priority does not bring its own job below its minimum",
        conf=NOT_STARVING,
        cluster=[
            node("n1", cpu="2"),
            *job("own", 2, *running("own", 2), pod("own-boss", "own", cpu="1", spec={"priority": 50})),
        ],
    ),
    Scenario(
        name="a job that could be evicted in return evicts nothing",
        conf=ANY_SPARE_TASK,
        cluster=[
            node("n1", cpu="3"),
            *job("old", 1, *running("old", 2)),
            *job("new", 1, pod("new-0", "new", cpu="1", on="n1", phase="Running"), pod("new-1", "new", cpu="1")),
        ],
    ),
    Scenario(
        name="a job evicts what it needs for its minimum, which cannot be evicted in return",
        conf=ANY_SPARE_TASK,
        cluster=[
            node("n1", cpu="3"),
            *job("old", 1, *running("old", 2)),
            *job("new", 2, pod("new-0", "new", cpu="1", on="n1", phase="Running"), pod("new-1", "new", cpu="1")),
        ],
        evicts=["old-1"],
    ),
    Scenario(
        name="victims are evicted one after another until the pod fits",
        cluster=[
            node("n1", cpu="5"),
            *job(
                "old",
                0,
                pod("old-a", "old", cpu="2", on="n1", phase="Running", spec={"priority": 9}),
                pod("old-b", "old", cpu="1", on="n1", phase="Running", spec={"priority": 1}),
                pod("old-c", "old", cpu="2", on="n1", phase="Running", spec={"priority": 5}),
            ),
            *LARGE,
        ],
        evicts=["old-b", "old-c"],
    ),
    conf=CONF,
    common=PRIORITY_CLASSES,
)
def test_preempt(scenario: Scenario) -> None:
    scenario.check()


def since(name: str, on: str, start: str) -> list[Manifest]:
    """Return a job of one pod that has run on a node since `start`."""
    return job(name, 0, *running(name, 1, on=on, cpu="2", status={"startTime": start}))


TWO_NODES = (node("n1", cpu="2"), node("n2", cpu="2"))


@scenarios(
    Scenario(
        name="the node whose highest victim priority is lowest is chosen",
        cluster=[
            *TWO_NODES,
            *job("a", 0, *running("a", 2, on="n1", spec={"priority": 7})),
            *job("b", 0, *running("b", 2, on="n2", spec={"priority": 3})),
            *NEW,
        ],
        evicts=["b-1"],
    ),
    Scenario(
        name="then the node with the fewest victims is chosen",
        cluster=[
            *TWO_NODES,
            *job("wide", 0, *running("wide", 1, on="n1", cpu="2")),
            *job("small", 0, *running("small", 2, on="n2")),
            *LARGE,
        ],
        evicts=["wide-0"],
    ),
    Scenario(
        name="then the node whose victims started last is chosen",
        cluster=[
            *TWO_NODES,
            *since("old", "n1", "2026-01-01T00:00:00Z"),
            *since("young", "n2", "2026-01-02T00:00:00Z"),
            *LARGE,
        ],
        evicts=["young-0"],
    ),
    Scenario(
        name="of the victims on a node those that are not needed are kept",
        cluster=[
            node("n1", cpu="5"),
            *job(
                "old",
                0,
                pod("old-a", "old", cpu="2", on="n1", phase="Running", spec={"priority": 9}),
                pod("old-b", "old", cpu="1", on="n1", phase="Running", spec={"priority": 1}),
                pod("old-c", "old", cpu="2", on="n1", phase="Running", spec={"priority": 5}),
            ),
            *LARGE,
        ],
        evicts=["old-c"],
    ),
    conf=DRY_RUN,
    common=PRIORITY_CLASSES,
)
def test_preempt_with_a_dry_run_on_each_node(scenario: Scenario) -> None:
    scenario.check()


def test_idle_room_is_used_before_room_of_victims() -> None:
    world = preemption_world(*FULL, node("n2", cpu="2"), *job("new", 3, *waiting("new", 3), priority="high"))
    world.cycle()
    assert world.evictions == ["old-3"]
    assert sorted(world.pipelines.values()) == ["n1", "n2", "n2"]


def test_victims_are_evicted_in_the_reverse_of_task_order() -> None:
    world = preemption_world(*FULL, *job("new", 2, *waiting("new", 5), priority="high"))
    world.cycle()
    assert world.evictions == ["old-3", "old-2"]


def test_pods_are_preemptable_once_their_bind_is_confirmed() -> None:
    first, second = job("first", 1, *waiting("first", 4)), job("second", 1, *waiting("second", 1), priority="middle")
    world = preemption_world(node("n1", cpu="5"), *second, *first, *job("large", 1, *waiting("large", 1, cpu="6")))
    world.cycle()
    assert len(world.binds) == 5
    assert world.evictions == [], "pods bound in this cycle are not victims"
    world.echo()
    for manifest in job("new", 2, *waiting("new", 2), priority="high"):
        world.put(manifest)
    world.cycle()
    assert world.evictions == ["first-3", "first-2"]


def test_a_job_without_victims_is_retried_only_after_a_change() -> None:
    world = preemption_world(*FULL, *job("new", 1, *waiting("new", 1), priority="low"))
    assert world.cycle().stats.searched_nodes == 1
    assert world.cycle().stats.searched_nodes == 0, "nothing has changed"
    world.put(priority_class("low", 5))
    assert world.cycle().stats.searched_nodes == 1, "priorities have changed"
    world.put(job("new", 1, priority="high", phase="Inqueue")[0])
    world.cycle()
    assert world.evictions == ["old-3"]


def test_an_eviction_is_recorded_as_events_and_the_preemptor_is_nominated() -> None:
    world = preemption_world(*FULL, *NEW)
    world.cycle()
    assert ("old", "Evict", "preempt") in world.recorded
    assert (
        "old-3",
        "Evict",
        "Pod is evicted, because of preempt (for ns/new in queue default, priority 1000)",
    ) in world.recorded
    assert len([one for one in world.last if isinstance(one, Record) and one.reason == "Evict"]) == 2
    (patch,) = [
        one for one in world.last if isinstance(one, Patch) and "nominatedNodeName" in one.patch.get("status", {})
    ]
    assert (patch.resource, patch.name, patch.subresource) == ("pods", "new-0", "status")
    assert patch.patch == {"status": {"nominatedNodeName": "n1"}}


def test_the_room_of_a_terminating_pod_is_used_without_another_eviction() -> None:
    world = preemption_world(
        node("n1", cpu="2"), *job("old", 0, *pods("old", 2, "old", cpu="1", on="n1"), phase="Running")
    )
    world.set_pod("old-0", deleting=True)
    for manifest in NEW:
        world.put(manifest)
    world.cycle()
    assert world.evictions == []
    assert world.pipelines == {"new-0": "n1"}


@pytest.mark.parametrize(
    "conf",
    [CONF, DRY_RUN, CONF.replace("allocate, backfill, preempt", "preempt, allocate")],
    ids=["allocate first", "dry run", "preempt first"],
)
def test_no_more_pods_are_evicted_while_victims_terminate_and_then_the_preemptor_has_the_room(conf: str) -> None:
    world = preemption_world(*FULL, *job("new", 2, *waiting("new", 2), priority="high"), conf=conf)
    world.run(4)
    assert len(world.evictions) == 2
    assert world.binds == {}
    for manifest in job("rival", 1, *waiting("rival", 4), priority="high"):
        world.put(manifest)
    world.run(2)
    world.remove_terminating_pods()
    world.run(2)
    assert world.binds == {"new-0": "n1", "new-1": "n1", "rival-0": "n1"}
    assert len(world.evictions) == 3, "the rival has a victim of its own"


def test_evicted_pods_that_are_created_again_do_not_evict_their_preemptor() -> None:
    world = preemption_world(*FULL, *job("new", 2, *waiting("new", 2), priority="high"))
    for number in range(6):
        world.run()
        world.remove_terminating_pods()
        for at in (2, 3):
            world.put(pod(f"again{number}-{at}", "old", cpu="1"))
    assert world.evictions == ["old-3", "old-2"]


def test_a_restarted_scheduler_keeps_the_nominations() -> None:
    world = preemption_world(*FULL, *job("new", 2, *waiting("new", 2), priority="high"))
    world.run(2)
    restarted = World(conf=CONF, state=ClusterState(), synced=False, now=world.now)
    for obj in world.objects.values():
        restarted.put(obj)
    for manifest in job("rival", 1, *waiting("rival", 1), priority="high"):
        restarted.put(manifest)
    restarted.sync()
    restarted.run(2)
    assert restarted.evictions == ["old-1"], "the rival's own victim"
    restarted.remove_terminating_pods()
    restarted.run(2)
    assert restarted.binds == {"new-0": "n1", "new-1": "n1", "rival-0": "n1"}


def test_a_nomination_expires_some_time_after_the_last_victim_is_gone() -> None:
    world = preemption_world(*FULL, *NEW)
    world.run()
    world.remove_terminating_pods()
    world.put(pod("new-0", "new", cpu="1", spec={"schedulingGates": [{"name": "wait"}]}))
    for manifest in job("other", 1, *waiting("other", 1)):
        world.put(manifest)
    world.run(2)
    assert world.binds == {}, "the room is reserved for the gated preemptor"
    world.now += world.state.reservation_seconds
    world.run(2)
    assert world.binds == {"other-0": "n1"}


def not_beside(app: str) -> Manifest:
    """Return a pod spec with required anti-affinity to pods of an app on the same node."""
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


@pytest.mark.parametrize("conf", [CONF, DRY_RUN], ids=["one by one", "dry run"])
def test_a_pod_with_anti_affinity_evicts_the_pod_that_it_must_not_be_beside(conf: str) -> None:
    world = preemption_world(
        node("n1", cpu="8", labels={HOST: "n1"}),
        *job("old", 0, *(labelled(each, app="x") for each in running("old", 1))),
        *job("calm", 0, labelled(running("calm", 1)[0], app="y")),
        *job("new", 1, pod("new-0", "new", cpu="1", spec=not_beside("x")), priority="high"),
        conf=conf,
    )
    world.cycle()
    assert "old-0" in world.evictions
    assert conf is CONF or world.evictions == ["old-0"], "the dry run evicts only what is needed"


HOST_PORT = {"containers": [{"name": "main", "ports": [{"hostPort": 80, "containerPort": 80}]}]}


@scenarios(
    Scenario(
        name="a pod with a host port evicts the pod that uses it",
        cluster=[
            node("n1", cpu="8", labels={HOST: "n1"}),
            *job("old", 0, pod("old-0", "old", on="n1", phase="Running", spec=HOST_PORT)),
            *job("new", 1, pod("new-0", "new", spec=HOST_PORT), priority="high"),
        ],
        evicts=["old-0"],
    ),
    Scenario(
        name="a pod evicts nothing where a pod that it must not be beside has to stay",
        cluster=[
            node("n1", cpu="8", labels={HOST: "n1"}),
            *job("old", 1, *(labelled(each, app="x") for each in running("old", 2))),
            *job("new", 1, pod("new-0", "new", cpu="1", spec=not_beside("x")), priority="high"),
        ],
    ),
    common=PRIORITY_CLASSES,
)
@pytest.mark.parametrize("conf", [CONF, DRY_RUN], ids=["one by one", "dry run"])
def test_conflicts_other_than_resources(scenario: Scenario, conf: str) -> None:
    replace(scenario, conf=conf).check()


@pytest.mark.parametrize(
    ("switches", "evicts"),
    [
        ("enablePreemptable: false, enabledAllocatable: false", []),
        ("enablePreemptable: false", ["old-0"]),
        ("enabledAllocatable: false", ["old-0"]),
        ("enablePreemptive: false", ["old-0"]),
    ],
)
def test_a_dry_run_evicts_no_pod_for_a_conflict_that_it_cannot_simulate(switches: str, evicts: list[str]) -> None:
    """Volcano: SimulateRemoveTask runs where a plugin's enablePreemptable or enabledAllocatable is on."""
    conflict = Scenario(
        name="conflict",
        conf=DRY_RUN.replace("- name: predicates", f"- {{name: predicates, {switches}}}"),
        cluster=[
            *PRIORITY_CLASSES,
            node("n1", cpu="2", labels={HOST: "n1"}),
            *job("old", 0, *(labelled(each, app="x") for each in running("old", 1))),
            *job("new", 1, pod("new-0", "new", cpu="1", spec=not_beside("x")), priority="high"),
        ],
        evicts=evicts,
    )
    conflict.check()
    room = replace(conflict, cluster=[*conflict.cluster[:-2], *LARGE], evicts=["old-0"])
    room.check()  # freed resources are always simulated


def test_each_task_of_a_gang_is_scored_after_the_evictions_for_the_task_before_it() -> None:
    """The first task goes to n1 for its affinity; the eviction there leaves the second one better off there too."""
    near = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "a"}}}
    attracting = labelled(pod("near", "n1", cpu="1", on="n1", phase="Running"), app="a")
    attracting["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    attracting["spec"]["priority"] = 5  # evicted last
    world = preemption_world(
        *(node(name, cpu="3", labels={HOST: name}) for name in ("n0", "n2")),
        node("n1", cpu="3", memory="4Gi", labels={HOST: "n1"}),
        *(one for name in ("n0", "n2") for one in job(name, 1, *running(name, 3, on=name))),
        *job("n1", 1, *running("n1", 2, on="n1"), attracting),
        *job("new", 2, *(labelled(one, app="a") for one in waiting("new", 2)), priority="high"),
    )
    world.cycle()
    assert world.pipelines == on_node("n1", "new-0", "new-1")


def test_the_rest_of_a_victims_room_is_used_before_another_victim() -> None:
    world = preemption_world(
        node("n0", cpu="2", memory="8Gi"),
        node("n1", cpu="3", memory="8Gi"),
        *job(
            "old",
            1,
            *pods("old-a", 2, "old", cpu="1", on="n0", phase="Running"),
            *pods("old-b", 3, "old", cpu="1", on="n1", phase="Running"),
        ),
        *job("new", 3, *waiting("new", 3, cpu="500m"), priority="high"),
    )
    world.cycle()
    assert sorted(world.pipelines.values()) == ["n0", "n0", "n1"]


@pytest.mark.parametrize("conf", [CONF, DRY_RUN], ids=["one by one", "dry run"])
def test_a_node_ruled_out_by_the_queue_limit_is_tried_again_after_other_evictions(conf: str) -> None:
    world = preemption_world(
        node("n0", cpu="3", memory="8Gi"),
        node("n1", cpu="3", memory="4Gi"),
        queue("q", capability={"cpu": "4"}),
        *job("some", 1, *running("some", 3, on="n0"), queue="q"),
        *job("all", 0, *running("all", 3, on="n1"), queue="q"),
        *job("new", 2, *waiting("new", 2), priority="high", queue="q"),
        conf=conf,
    )
    world.cycle()
    assert sorted(world.evictions) == ["all-0", "all-1", "all-2", "some-2"], "two evictions on n0 are not enough"
    assert world.pipelines == {"new-0": "n1", "new-1": "n0"}
