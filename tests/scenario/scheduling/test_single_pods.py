"""Single pods: pods of the default scheduler without a PodGroup, on the same nodes as gangs."""

from __future__ import annotations

from tests.scenario.scheduling.harness import Scenario, World, group, node, pod, pods, scenarios, with_uids
from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.engine.scheduling.offline.replay import CutAt
from volcanoio.engine.scheduling.session.single_pods import MIN_TRIED_PODS, SINGLE_PODS
from volcanoio.framework.effects import Patch, Record
from volcanoio.framework.scheduling_effects import BindBatch
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

OTHERS = {"schedulerName": "default-scheduler"}
ENABLED = StateOptions(single_pod_schedulers=frozenset({"default-scheduler"}))


def single_pod_world(*objects: Manifest) -> World:
    return World(*objects, state=ClusterState(ENABLED))


def single(name: str, priority: int = 0, **requests: str) -> Manifest:
    return pod(name, spec={**OTHERS, "priority": priority}, **requests)


PODS_OF_ONE_SECOND = [single(name, cpu="1") for name in ("first", "second", "third")]


def bound_in_last_cycle(of: World) -> dict[str, str]:
    """Return the node of each pod that was bound in the last cycle."""
    batches = [one for one in of.last if isinstance(one, BindBatch)]
    return {bind.name: bind.node for batch in batches for bind in batch.binds}


@scenarios(
    Scenario(
        name="single pods are bound as far as they fit",
        options=ENABLED,
        cluster=[node("n1", cpu="2"), single("a", cpu="1"), single("b", cpu="1"), single("c", cpu="1")],
        cycles=2,
        binds={"a": "n1", "b": "n1"},
    ),
    Scenario(
        name="the pod of higher priority is bound first",
        options=ENABLED,
        cluster=[node("n1", cpu="1"), single("a", cpu="1"), single("z", priority=100, cpu="1")],
        binds={"z": "n1"},
    ),
    *(
        Scenario(
            name=f"names decide between pods of one second and uids {uids} do not",
            options=ENABLED,
            cluster=[node("n1", cpu="2"), *with_uids(PODS_OF_ONE_SECOND[::-1], ("first", "second", "third"), uids)],
            binds={"first": "n1", "second": "n1"},
            bind_order=["first", "second"],
        )
        for uids in ("abc", "cba", "bca")
    ),
    Scenario(
        name="pods of other schedulers are not bound",
        options=ENABLED,
        cluster=[node("n1"), pod("a", spec={"schedulerName": "another-scheduler"}, cpu="1")],
    ),
    Scenario(
        name="without the option pods of the default scheduler are not bound",
        cluster=[node("n1"), single("a", cpu="1")],
    ),
)
def test_single_pods(scenario: Scenario) -> None:
    scenario.check()


def test_gangs_and_single_pods_do_not_use_the_same_room() -> None:
    gang = (group("pg", 2, phase="Inqueue"), *pods("p", 2, "pg", cpu="1"))
    world = single_pod_world(node("n1", cpu="3"), *gang, single("a", cpu="1"), single("b", cpu="1"))
    world.cycle()
    assert set(bound_in_last_cycle(world)) >= {"p-0", "p-1"}, "gangs are placed first"
    assert len(bound_in_last_cycle(world)) == 3
    world.echo()
    world.put(group("late", 1, phase="Inqueue"))
    world.put(pod("late-0", "late", cpu="1"))
    world.cycle()
    assert bound_in_last_cycle(world) == {}


def test_a_pod_without_a_node_gets_the_reason_of_kube_scheduler_at_once() -> None:
    tainted = node("n2", cpu="8", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    world = single_pod_world(node("n1", cpu="1"), tainted, single("a", cpu="2"))
    world.cycle()
    (condition,) = [one.patch["status"]["conditions"][0] for one in world.last if isinstance(one, Patch)]
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"].startswith("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated")
    (event,) = [one for one in world.last if isinstance(one, Record)]
    assert (event.reason, event.component) == ("FailedScheduling", "default-scheduler")
    world.cycle()
    assert not world.last, "the reason is not written again"
    world.put(node("n3", cpu="2"))
    world.cycle()
    assert bound_in_last_cycle(world) == {"a": "n3"}


def test_without_nodes_the_reason_is_that_of_kube_scheduler() -> None:
    world = single_pod_world(single("a", cpu="2"))
    world.cycle()
    (event,) = [one for one in world.last if isinstance(one, Record)]
    assert event.message == "no nodes available to schedule pods"


def test_a_gated_pod_is_bound_once_its_gate_is_removed() -> None:
    world = single_pod_world(node("n1"), pod("a", spec={**OTHERS, "schedulingGates": [{"name": "g"}]}, cpu="1"))
    world.cycle()
    assert bound_in_last_cycle(world) == {}
    world.put(single("a", cpu="1"))
    world.cycle()
    assert bound_in_last_cycle(world) == {"a": "n1"}


def test_a_refused_bind_is_retried() -> None:
    world = single_pod_world(node("n1"), single("a", cpu="1"))
    world.cycle()
    world.echo(refuse={"a": 409})
    world.cycle()
    assert bound_in_last_cycle(world) == {"a": "n1"}


def test_a_deleted_pod_is_removed_from_the_state() -> None:
    world = single_pod_world(node("n1", cpu="1"), single("a", cpu="1"), single("b", cpu="1"))
    world.cycle()
    world.echo()
    ledger = world.state.ledger
    for key in ("ns/a", "ns/b"):
        world.remove(kinds.POD, key)
    assert not ledger.pending_single_pods
    assert not ledger.jobs
    assert not ledger.tasks


def test_after_a_cut_cycle_pods_that_were_not_reached_are_tried_before_failed_ones() -> None:
    """The failed pods have a higher priority, and a taken port, which must be tried in each cycle."""
    ports = [{"containerPort": 80, "hostPort": 80}]
    serving = {"containers": [{"name": "main", "ports": ports}], **OTHERS}
    world = single_pod_world(
        node("n1", cpu="8"),
        pod("server", on="n1", phase="Running", spec=serving),
        *[pod(f"more-{number}", spec={**serving, "priority": 9}) for number in range(MIN_TRIED_PODS)],
        single("small", cpu="1"),
    )
    world.cycle(budget=CutAt(1))
    assert bound_in_last_cycle(world) == {}
    world.cycle(budget=CutAt(1))
    assert bound_in_last_cycle(world) == {"small": "n1"}
    assert not world.state.failed_attempts[SINGLE_PODS]
