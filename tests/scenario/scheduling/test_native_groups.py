"""Native groups: pods whose spec.schedulingGroup names a PodGroup of scheduling.k8s.io."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.scenario.scheduling.harness import (
    CREATED,
    Scenario,
    World,
    group,
    node,
    pod,
    queue,
    random_uid,
    running,
    scenarios,
    waiting,
)
from tests.scenario.scheduling.preemption_clusters import CONF, DRY_RUN, PRIORITY_CLASSES
from volcanoio.engine.scheduling.cluster.pod_fields import native_key
from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.engine.scheduling.diagnosis.answers import find, parse_target
from volcanoio.framework.effects import Patch
from volcanoio.framework.events import EffectFailed
from volcanoio.model import kinds
from volcanoio.model.base import Manifest, StatusCondition
from volcanoio.model.workloads import QUEUE_PHASE, NativePodGroup

QUEUE = "scheduling.volcano.sh/queue-name"
CAPACITY = """
actions: "enqueue, allocate, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity}, {name: nodeorder}]
"""
ONE_TIER = """
actions: "enqueue, allocate, reclaim"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: capacity}]
"""
"""Both gang and capacity must permit a victim."""
GANG_PREEMPT = CONF.replace("preempt", "gangpreempt")


def native(name: str, gang: int | None = None, *, meta: Manifest | None = None, **spec: Any) -> Manifest:
    """Return a native group, by default with the basic policy."""
    policy: Manifest = {"basic": {}} if gang is None else {"gang": {"minCount": gang}}
    identity = {"name": name, "namespace": "ns", "uid": random_uid("native", name), "creationTimestamp": CREATED}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"generation": 1, **identity, **(meta or {})},
        "spec": {"schedulingPolicy": policy, **spec},
    }


def workload(name: str, **meta: Any) -> Manifest:
    """Return a Workload."""
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "ns", "uid": f"workload-{name}", **meta},
        "spec": {"podGroupTemplates": []},
    }


def members(name: str, count: int, *, cpu: str = "1", spec: Manifest | None = None, **more: Any) -> list[Manifest]:
    """Return pods of a native group."""
    in_group = {"schedulingGroup": {"podGroupName": name}, **(spec or {})}
    return [pod(f"{name}-{at}", cpu=cpu, spec=dict(in_group), **more) for at in range(count)]


def placed(name: str, count: int, *, on: str = "n1", **more: Any) -> list[Manifest]:
    """Return running pods of a native group."""
    return members(name, count, phase="Running", spec={"nodeName": on}, **more)


def conditions(world: World, name: str) -> dict[str, StatusCondition]:
    """Return the conditions of a native group by type, as the API server has them."""
    found = world.objects[kinds.NATIVE_POD_GROUP.resource, f"ns/{name}"]
    assert isinstance(found, NativePodGroup)
    return {entry.type: entry for entry in found.status.conditions}


def queue_of(world: World, name: str) -> str:
    """Return the queue of the job of a native group."""
    return world.state.ledger.jobs[native_key("ns", name)].queue


NODE = node("n1", cpu="4")


@scenarios(
    Scenario(
        name="a gang is bound in one batch when minCount pods fit",
        cluster=[NODE, native("train", 3), *members("train", 3)],
        binds={"train-0": "n1", "train-1": "n1", "train-2": "n1"},
        batches=[["train-0", "train-1", "train-2"]],
    ),
    Scenario(
        name="a gang of which fewer than minCount pods fit is not bound at all",
        cluster=[NODE, native("train", 5), *members("train", 5)],
        cycles=3,
    ),
    Scenario(
        name="a gang waits until minCount pods exist",
        cluster=[NODE, native("train", 3), *members("train", 2)],
        cycles=3,
    ),
    Scenario(
        name="pods above minCount are bound as far as they fit",
        cluster=[NODE, native("train", 3), *members("train", 6)],
        cycles=2,
        bind_counts={"train": 4},
    ),
    Scenario(
        name="pods with the basic policy are bound singly",
        cluster=[NODE, native("serve"), *members("serve", 6)],
        cycles=2,
        bind_counts={"serve": 4},
    ),
    Scenario(
        name="pods wait for a native group that does not exist",
        cluster=[NODE, *members("train", 1)],
        cycles=3,
    ),
    Scenario(
        name="a Volcano PodGroup of the same name is another group",
        cluster=[NODE, group("train", 2), *waiting("train", 1), native("train", 1), *members("train", 1)[:1]],
        binds={"train-0": "n1"},
    ),
    Scenario(
        name="the annotation of Volcano's PodGroup takes precedence",
        cluster=[
            NODE,
            group("own", 1),
            native("train", 2),
            pod("own-0", "own", cpu="1", spec={"schedulingGroup": {"podGroupName": "train"}}),
        ],
        binds={"own-0": "n1"},
    ),
    Scenario(
        name="the group with the higher priority goes first, whatever its pods' priority",
        cluster=[
            NODE,
            native("a", 3, priority=1),
            *members("a", 3, spec={"priority": 100}),
            native("b", 3, priority=10),
            *members("b", 3),
        ],
        bind_counts={"b": 3},
    ),
    Scenario(
        name="a group without resolved priority has that of its PriorityClass",
        cluster=[
            *PRIORITY_CLASSES,
            NODE,
            native("a", 3, priorityClassName="low"),
            *members("a", 3),
            native("b", 3, priorityClassName="high"),
            *members("b", 3),
        ],
        bind_counts={"b": 3},
    ),
    Scenario(
        name="the quota of its queue limits a native group",
        cluster=[
            NODE,
            queue("small", capability={"cpu": "2"}),
            native("train", 3, meta={"annotations": {QUEUE: "small"}}),
            *members("train", 3),
            native("fits", 2, meta={"labels": {QUEUE: "small"}}),
            *members("fits", 2),
        ],
        conf=CAPACITY,
        bind_counts={"fits": 2},
    ),
)
def test_placement(scenario: Scenario) -> None:
    scenario.check()


RACK = "example.com/rack"
TOPOLOGY = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: network-topology-aware}]
"""


def rack(name: str, *nodes: str) -> list[Manifest]:
    """Return nodes with the label of a rack, and the HyperNode of the rack."""
    listed = [{"type": "Node", "selector": {"exactMatch": {"name": each}}} for each in nodes]
    hyper_node = {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name, "uid": f"hypernode-{name}"},
        "spec": {"tier": 1, "tierName": RACK, "members": listed},
    }
    return [*(node(each, cpu="2", labels={RACK: name}) for each in nodes), hyper_node]


def test_a_topology_constraint_is_the_tier_of_that_name() -> None:
    """The gang waits while no rack has room for it, although the cluster has."""
    constraint = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
    gang = [native("train", 4, **constraint), *members("train", 4)]
    world = World(*rack("a", "a1"), *rack("b", "b1"), *gang, conf=TOPOLOGY).run(2)
    assert world.binds == {}
    for each in rack("b", "b1", "b2"):
        world.put(each)
    assert set(world.run(2).binds.values()) == {"b1", "b2"}


@pytest.mark.parametrize(
    ("label", "conf", "reason"),
    [
        ("zone", TOPOLOGY, "HyperNode has this tierName; create"),
        (RACK, TOPOLOGY.replace(", {name: network-topology-aware}", ""), "plugin divides the cluster into HyperNodes;"),
    ],
)
def test_a_topology_constraint_without_a_tier_or_plugin_is_not_ignored(label: str, conf: str, reason: str) -> None:
    constraint = {"schedulingConstraints": {"topology": [{"key": label}]}}
    world = World(*rack("a", "a1"), native("train", 1, **constraint), *members("train", 1), conf=conf).run(3)
    assert world.binds == {}
    text = world.state.ledger.jobs[native_key("ns", "train")].attempts.reason.text
    assert text.startswith(f'its topology constraint is the node label "{label}", but no {reason}')


IN_RACK: Manifest = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
BACKFILL = TOPOLOGY.replace("allocate", "allocate, backfill")
RACKS = [*rack("a", "a1"), *rack("b", "b1")]


def with_pods(manifests: list[Manifest], pods: str) -> list[Manifest]:
    """Return nodes with room for so many pods."""
    for each in manifests:
        if each["kind"] == "Node":
            each["status"] = {**each["status"], "allocatable": {**each["status"]["allocatable"], "pods": pods}}
    return manifests


ONE_POD_EACH = [*with_pods(rack("a", "a1"), "1"), *with_pods(rack("b", "b1"), "1")]
RICH: Manifest = {"annotations": {QUEUE: "rich"}}
FULL_RACKS = [
    *PRIORITY_CLASSES, *RACKS, queue("rich"), queue("poor", deserved={"cpu": "2"}),
    *[each for on in ("a1", "b1") for each in (native(f"old-{on}", 1, priority=1, meta=RICH),
                                               *placed(f"old-{on}", 2, on=on))],
]  # fmt: skip


def gang_in(name: str) -> list[Manifest]:
    """Return a gang for one rack in a queue."""
    return [native("new", 2, priority=1000, meta={"annotations": {QUEUE: name}}, **IN_RACK), *members("new", 2)]


@scenarios(
    Scenario(
        name="backfill places a best-effort gang in one rack or not at all",
        cluster=[*ONE_POD_EACH, native("new", 2, **IN_RACK), *members("new", 2, cpu="0")],
        conf=BACKFILL,
        cycles=2,
    ),
    Scenario(
        name="it takes the rack that has room for all of it",
        cluster=[*ONE_POD_EACH, *rack("c", "c1"), native("new", 2, **IN_RACK), *members("new", 2, cpu="0")],
        conf=BACKFILL,
        binds={"new-0": "c1", "new-1": "c1"},
    ),
    Scenario(
        name="a best-effort pod goes to the rack of its gang",
        cluster=[*with_pods(rack("a", "a1"), "3"), *rack("b", "b1"), native("old", 1, **IN_RACK),
                 *placed("old", 2, on="a1"), pod("z", cpu="0", spec={"schedulingGroup": {"podGroupName": "old"}})],
        conf=BACKFILL,
        binds={"z": "a1"},
    ),
    Scenario(
        name="it waits while that rack has no room, whatever others have",
        cluster=[*with_pods(rack("a", "a1"), "2"), *rack("b", "b1"), native("old", 1, **IN_RACK),
                 *placed("old", 2, on="a1"), pod("z", cpu="0", spec={"schedulingGroup": {"podGroupName": "old"}})],
        conf=BACKFILL,
        cycles=2,
    ),
    Scenario(
        name="backfill waits for a tier of the name",
        cluster=[*rack("a", "a1"), native("new", 1, schedulingConstraints={"topology": [{"key": "zone"}]}),
                 *members("new", 1, cpu="0")],
        conf=BACKFILL,
        cycles=2,
    ),
    Scenario(
        name="preempt evicts nothing for it",
        cluster=[*FULL_RACKS, *gang_in("rich")],
        conf=TOPOLOGY.replace("allocate", "allocate, preempt"),
    ),
    Scenario(
        name="reclaim evicts nothing for it",
        cluster=[*FULL_RACKS, *gang_in("poor")],
        conf=TOPOLOGY.replace("allocate", "allocate, reclaim").replace("predicates}", "predicates}, {name: capacity}"),
    ),
    Scenario(
        name="gangpreempt makes room in one rack",
        cluster=[*FULL_RACKS, *gang_in("rich")],
        conf=TOPOLOGY.replace("allocate", "allocate, gangpreempt"),
        evicts=["old-a1-0", "old-a1-1"],
    ),
    Scenario(
        name="gangreclaim makes room in one rack",
        cluster=[*FULL_RACKS, *gang_in("poor")],
        conf=TOPOLOGY.replace("allocate", "allocate, gangreclaim").replace(
            "predicates}", "predicates}, {name: capacity}"),
        evicts=["old-a1-0", "old-a1-1"],
    ),
)  # fmt: skip
def test_each_action_keeps_the_topology_constraint(scenario: Scenario) -> None:
    scenario.check()


ALL: Manifest = {"disruptionMode": {"all": {}}}
SINGLE: Manifest = {"disruptionMode": {"single": {}}}
NEW = [native("new", 1, priority=1000), *members("new", 1)]
TWO_NODES = [*PRIORITY_CLASSES, node("n1", cpu="2"), node("n2", cpu="2")]
ON_BOTH = [*placed("old", 2), *[{**one, "metadata": {**one["metadata"], "name": f"x{one['metadata']['name']}",
            "uid": f"x{one['metadata']['uid']}"}} for one in placed("old", 2, on="n2")]]  # fmt: skip
EVERY = ["old-0", "old-1", "xold-0", "xold-1"]


@scenarios(
    Scenario(
        name="a group with disruptionMode all is preempted as a whole, on all nodes",
        cluster=[*TWO_NODES, native("old", 4, priority=1, **ALL), *ON_BOTH, *NEW],
        conf=CONF,
        evicts=EVERY,
        pipelines={"new-0": "n1"},
    ),
    Scenario(
        name="so it is where the least harmful victims are taken",
        cluster=[*TWO_NODES, native("old", 4, priority=1, **ALL), *ON_BOTH, *NEW],
        conf=DRY_RUN,
        evicts=EVERY,
    ),
    Scenario(
        name="gangpreempt takes no surplus task of it alone",
        cluster=[*TWO_NODES, native("old", 1, priority=1, **ALL), *ON_BOTH, *NEW],
        conf=GANG_PREEMPT,
        evicts=EVERY,
    ),
    Scenario(
        name="nothing is evicted for a group whose topology constraint names no tier",
        cluster=[*TWO_NODES, native("old", 1, priority=1), *ON_BOTH, *members("new", 1), native(
            "new", 1, priority=1000, schedulingConstraints={"topology": [{"key": RACK}]})],
        conf=GANG_PREEMPT,
    ),
    Scenario(
        name="a pod that must not be evicted protects the whole group",
        cluster=[
            *TWO_NODES,
            native("old", 4, priority=1, **ALL),
            *ON_BOTH[:-1],
            {**ON_BOTH[-1], "metadata": {**ON_BOTH[-1]["metadata"],
             "annotations": {"volcano.sh/preemptable": "false"}}},
            *NEW,
        ],
        conf=CONF,
    ),
    Scenario(
        name="it is not preempted for a group of its own priority",
        cluster=[*TWO_NODES, native("old", 4, priority=1000, **ALL), *ON_BOTH, *NEW],
        conf=CONF,
    ),
    Scenario(
        name="it does not evict itself for one more of its pods",
        cluster=[
            *TWO_NODES, native("old", 5, priority=1, **ALL), *ON_BOTH,
            pod("old-9", cpu="1", spec={"schedulingGroup": {"podGroupName": "old"}, "priority": 5}),
        ],
        conf=CONF,
    ),
    Scenario(
        name="a group with disruptionMode single loses the pods above minCount, one by one",
        cluster=[*TWO_NODES, native("old", 3, priority=1, **SINGLE), *ON_BOTH, *NEW],
        conf=CONF,
        evict_order=["old-1"],
        evicts=["old-1"],
    ),
    Scenario(
        name="single is the default; the gang keeps minCount pods",
        cluster=[*TWO_NODES, native("old", 4, priority=1), *ON_BOTH, *NEW],
        conf=CONF,
    ),
    Scenario(
        name="reclaim takes a whole group of a queue that deserves nothing",
        cluster=[
            node("n1", cpu="4"),
            queue("rich"),
            queue("poor", deserved={"cpu": "2"}),
            native("old", 4, meta={"annotations": {QUEUE: "rich"}}, **ALL),
            *placed("old", 4),
            native("new", 1, meta={"annotations": {QUEUE: "poor"}}),
            *members("new", 1),
        ],
        conf=ONE_TIER,
        evicts=["old-0", "old-1", "old-2", "old-3"],
    ),
    Scenario(
        name="reclaim takes a whole group, or nothing where its queue would fall below its share",
        cluster=[
            node("n1", cpu="4"),
            queue("rich", deserved={"cpu": "2"}),
            queue("poor", deserved={"cpu": "2"}),
            native("old", 4, meta={"annotations": {QUEUE: "rich"}}, **ALL),
            *placed("old", 4),
            native("new", 1, meta={"annotations": {QUEUE: "poor"}}),
            *members("new", 1),
        ],
        conf=ONE_TIER,
    ),
)  # fmt: skip
def test_disruption(scenario: Scenario) -> None:
    scenario.check()


def test_a_group_ended_as_a_whole_gets_the_condition_disruption_target() -> None:
    world = World(*TWO_NODES, native("old", 4, priority=1, **ALL), *ON_BOTH, *NEW, conf=CONF).run(1)
    condition = conditions(world, "old")["DisruptionTarget"]
    assert (condition.status, condition.reason) == ("True", "PreemptionByScheduler")
    assert condition.message == (
        "volcano: evicted because of preempt (for ns/podgroup.scheduling.k8s.io/new in queue default, priority 1000)"
    )


def test_conditions_are_those_of_kubernetes() -> None:
    """Unschedulable until the group fits, then Scheduled for good; no count of ours is written."""
    world = World(node("n1", cpu="2"), native("train", 3), *members("train", 3), conf=CONF).run(3)
    condition = conditions(world, "train")["PodGroupInitiallyScheduled"]
    assert (condition.status, condition.reason, condition.observed_generation) == ("False", "Unschedulable", 1)
    assert condition.message.startswith("3/3 tasks in gang unschedulable: pod group is not ready")
    waits_since = condition.last_transition_time

    world.put(node("n2", cpu="1"))
    world.run(3)
    condition = conditions(world, "train")["PodGroupInitiallyScheduled"]
    assert (condition.status, condition.reason, condition.message) == ("True", "Scheduled", "")
    assert condition.last_transition_time != waits_since

    world.set_pod("train-0", phase="Failed")
    world.remove(kinds.NODE, "n2")
    world.run(5)
    assert set(conditions(world, "train")) == {"PodGroupInitiallyScheduled", QUEUE_PHASE}
    assert conditions(world, "train")["PodGroupInitiallyScheduled"] == condition
    found = world.objects[kinds.NATIVE_POD_GROUP.resource, "ns/train"]
    assert set(msgspec.to_builtins(found)["status"]) == {"conditions"}


def counted(world: World, name: str) -> tuple[str, str]:
    """Return the queue and the phase by which a native group is counted."""
    found = world.objects[kinds.NATIVE_POD_GROUP.resource, f"ns/{name}"]
    assert isinstance(found, NativePodGroup)
    return found.queue, found.phase


def test_queue_and_phase_are_written_for_the_queue_controller() -> None:
    """The phase is that of a PodGroup of Volcano in the same state; the queue is that of the Workload, if it moves."""
    ref = {"workloadName": "w", "templateName": "t"}
    gang = [native("train", 2, workloadRef=ref), workload("w", annotations={QUEUE: "one"}), *members("train", 2)]
    world = World(queue("one"), queue("two"), node("n1", cpu="1"), *gang).run(2)
    assert counted(world, "train") == ("one", "Inqueue")
    world.put(workload("w", annotations={QUEUE: "two"}))
    assert counted(world.run(1), "train") == ("two", "Inqueue")
    world.put(node("n2", cpu="1"))
    assert counted(world.run(2), "train") == ("two", "Running")
    for name in ("train-0", "train-1"):
        world.set_pod(name, phase="Succeeded")
    assert counted(world.run(1), "train") == ("two", "Completed")


def test_a_gang_that_fits_gets_its_conditions_in_one_write() -> None:
    """No phase is written while its binds are in flight."""
    world = World(NODE, native("train", 2), *members("train", 2))
    writes = [
        effect
        for _ in range(4)
        for effect in world.run(1).last
        if isinstance(effect, Patch) and effect.resource == kinds.NATIVE_POD_GROUP.resource
    ]
    assert counted(world, "train") == ("default", "Running")
    assert len(writes) == 1


def test_a_new_process_counts_a_group_without_pods_as_before() -> None:
    """The pods that the scheduler had in it are gone, so that only its condition shows that it is ours."""
    before = World(NODE, native("train", 1), *members("train", 1)).run(3)
    stored = [obj for (_, key), obj in before.objects.items() if key not in ("default", "ns/train-0")]
    after = World(now=before.now)
    after.load(stored)
    assert counted(after.run(2), "train") == ("default", "Inqueue")
    assert after.state.ledger.jobs[native_key("ns", "train")].queue == "default"


def test_a_group_without_pods_stays_with_the_scheduler_that_had_them() -> None:
    """Another scheduler of ours neither takes it nor keeps it once the pods are those of the first."""
    first = World(NODE, native("train", 1), *members("train", 1)).run(3)
    written = first.objects[kinds.NATIVE_POD_GROUP.resource, "ns/train"]
    assert isinstance(written, NativePodGroup)
    assert written.scheduler == "volcano"
    other = World(state=ClusterState(StateOptions(scheduler_names=frozenset({"other"}))))
    other.load([written])
    other.run(2)
    assert native_key("ns", "train") not in other.state.ledger.jobs
    for each in members("train", 1, spec={"schedulerName": "other"}):
        other.put(each)
    assert native_key("ns", "train") in other.state.ledger.jobs
    other.remove(kinds.POD, "ns/train-0")
    other.put(kinds.NATIVE_POD_GROUP.manifest(written))
    other.run(2)
    assert conditions(other, "train") == conditions(first, "train")


def test_a_refused_bind_is_an_error_of_the_scheduler() -> None:
    """The group is not unschedulable: the API server refused what was decided, until it accepts it."""
    world = World(NODE, native("train", 2), *members("train", 2), conf=CONF)
    for _ in range(12):
        world.cycle()
        world.echo(refuse={"train-1": 403})
    condition = conditions(world, "train")["PodGroupInitiallyScheduled"]
    assert (condition.status, condition.reason) == ("False", "SchedulerError")
    world.run(60)
    condition = conditions(world, "train")["PodGroupInitiallyScheduled"]
    assert (condition.status, condition.reason) == ("True", "Scheduled")


def test_a_refused_write_of_a_condition_is_repeated() -> None:
    world = World(NODE, native("train", 1), *members("train", 1)).run(1)
    world.cycle()
    assert any(isinstance(one, Patch) and one.resource == kinds.NATIVE_POD_GROUP.resource for one in world.last)
    key = f"{kinds.NATIVE_POD_GROUP.resource}/ns/train"
    world.fold(EffectFailed(at=world.now, key=key, controller="scheduler", effect_id=0, code=500))
    world.run(1)
    assert conditions(world, "train")["PodGroupInitiallyScheduled"].status == "True"


def test_a_group_of_another_scheduler_is_left_alone() -> None:
    theirs = members("theirs", 2, spec={"schedulerName": "default-scheduler"})
    world = World(node("n1", cpu="1"), native("theirs", 2), *theirs, native("empty", 2)).run(4)
    assert conditions(world, "theirs") == conditions(world, "empty") == {}
    assert native_key("ns", "theirs") not in world.state.ledger.jobs


@pytest.mark.parametrize(
    ("cluster", "chosen"),
    [
        ([native("g", 1, meta={"annotations": {QUEUE: "one"}, "labels": {QUEUE: "two"}})], "one"),
        ([native("g", 1, meta={"labels": {QUEUE: "two"}})], "two"),
        ([native("g", 1, workloadRef={"workloadName": "w", "templateName": "t"}),
          workload("w", annotations={QUEUE: "one"})], "one"),
        ([native("g", 1, workloadRef={"workloadName": "w", "templateName": "t"}),
          workload("w", annotations={QUEUE: "one"}, namespace="other")], "default"),
        ([native("g", 1), pod("g-1", cpu="1", annotations={QUEUE: "two"},
                              spec={"schedulingGroup": {"podGroupName": "g"}})], "two"),
        ([native("g", 1)], "default"),
    ],
    ids=["annotation", "label", "workload", "workload of another namespace", "pod", "default"],
)  # fmt: skip
@pytest.mark.parametrize("pods_first", [True, False])
def test_the_queue_is_named_by_the_group_its_workload_or_a_pod(
    cluster: list[Manifest], chosen: str, pods_first: bool
) -> None:
    first = members("g", 1)
    objects = [*first, *cluster] if pods_first else [*cluster, *first]
    assert queue_of(World(queue("one"), queue("two"), *objects), "g") == chosen


def test_a_group_without_queue_says_where_to_name_one() -> None:
    world = World(NODE, native("g", 1, meta={"annotations": {QUEUE: "nowhere"}}), *members("g", 1)).run(2)
    assert conditions(world, "g")["PodGroupInitiallyScheduled"].message.startswith(
        'queue "nowhere" does not exist; create it, or name another in the annotation scheduling.volcano.sh/queue-name'
    )


def test_a_lower_min_count_takes_effect() -> None:
    world = World(node("n1", cpu="2"), native("train", 3), *members("train", 3)).run(2)
    assert world.binds == {}
    world.put(native("train", 2, meta={"generation": 2}))
    assert set(world.run(2).binds) == {"train-0", "train-1"}


def test_the_state_is_recovered_from_what_is_stored() -> None:
    """A new process counts the running gang in its queue, and does not write its conditions again."""
    before = World(
        node("n1", cpu="4"),
        queue("small", capability={"cpu": "3"}),
        native("train", 3, meta={"annotations": {QUEUE: "small"}}),
        *members("train", 3),
        native("late", 1, meta={"annotations": {QUEUE: "small"}, "creationTimestamp": "2026-01-01T00:00:01Z"}),
        *members("late", 1),
        conf=CAPACITY,
    ).run(4)
    assert set(before.binds) == {"train-0", "train-1", "train-2"}
    assert conditions(before, "late")["PodGroupInitiallyScheduled"].reason == "Unschedulable"

    after = World(conf=CAPACITY, now=before.now)
    after.load([obj for (resource, key), obj in before.objects.items() if key != "default"])
    after.run(3)
    assert after.binds == {}
    assert after.state.ledger.jobs[native_key("ns", "train")].phase == "Running"
    assert after.state.ledger.queues["small"].allocated["cpu"] == 3000
    assert conditions(after, "train") == conditions(before, "train")
    assert conditions(after, "late")["PodGroupInitiallyScheduled"].last_transition_time == (
        conditions(before, "late")["PodGroupInitiallyScheduled"].last_transition_time
    )


def test_a_deleted_group_leaves_its_pods_waiting() -> None:
    world = World(NODE, native("train", 2), *members("train", 1)).run(1)
    world.remove(kinds.NATIVE_POD_GROUP, "ns/train")
    world.put(members("train", 2)[1])
    world.run(3)
    assert world.binds == {}
    condition = next(one for one in world.pod("train-1").status.conditions if one.type == "PodScheduled")
    assert condition.message == (
        'PodGroup "train" of scheduling.k8s.io, which spec.schedulingGroup names, does not exist in namespace "ns"; '
        "create it"
    )
    world.put(native("train", 2, meta={"uid": "another"}))
    assert set(world.run(1).binds) == {"train-0", "train-1"}


def test_nothing_is_decided_before_watched_groups_are_listed() -> None:
    state = ClusterState(StateOptions(native_groups=True))
    world = World(NODE, *running("plain", 0), state=state, synced=False)
    assert set(state.missing) >= {"podgroups.scheduling.k8s.io", "workloads.scheduling.k8s.io"}
    world.sync()
    assert state.is_ready


def found(world: World, text: str) -> str:
    """Return the key of the job that a name means to `volcanoio why`, "" for none."""
    steps = find(world.state, lambda _: None, *parse_target(text), "ns")
    while True:
        try:
            next(steps)
        except StopIteration as end:
            job = end.value.job
            return "" if job is None else str(job.key)


def test_a_workload_means_its_first_group_that_waits() -> None:
    def group_of(name: str) -> list[Manifest]:
        return [native(name, 4, workloadRef={"workloadName": "w", "templateName": "t"}), *members(name, 4)]

    world = World(NODE, workload("w"), *group_of("a")).run(2)
    assert {found(world, text) for text in ("w", "workload/w")} == {native_key("ns", "a")}
    for each in (*group_of("b"), *group_of("c")):
        world.put(each)
    assert {found(world, text) for text in ("w", "workload/w")} == {native_key("ns", "b")}


def test_a_native_group_is_found_by_its_name_and_that_of_its_job() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "sweep", "uid": "u", "controller": True}
    world = World(group("both", 1), native("both", 1), *members("both", 1))
    world.put(native("g", 1, meta={"ownerReferences": [owner]}))
    for each in members("g", 1):
        world.put(each)
    assert {text: found(world, text) for text in ("g", "sweep", "job/sweep", "podgroup/g", "both")} == {
        **dict.fromkeys(("g", "sweep", "job/sweep", "podgroup/g"), native_key("ns", "g")),
        "both": "ns/both",
    }
    assert found(world, "podgroup.scheduling.k8s.io/both") == native_key("ns", "both")
