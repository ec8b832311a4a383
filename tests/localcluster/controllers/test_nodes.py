"""Silent nodes, taints, tolerations, and pods that are left over."""

from __future__ import annotations

from typing import Any

from tests.localcluster.controllers.worlds import World
from volcanoio.localcluster.controllers.nodelifecycle import GRACE, NodeHealthController
from volcanoio.localcluster.controllers.podgc import MAX_FINISHED, QUARANTINE, PodCollector
from volcanoio.localcluster.controllers.tainteviction import TaintEvictionController
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import LEASE, NODE, POD
from volcanoio.model.times import rfc3339

UNREACHABLE = "node.kubernetes.io/unreachable"
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def node(world: World, name: str, **spec: Any) -> None:
    """A node that is ready and has a Lease."""
    conditions = [READY, {**READY, "type": "MemoryPressure", "status": "False"}]
    world.put(NODE, {"metadata": {"name": name}, "spec": spec, "status": {"conditions": conditions}})
    beat(world, name)


def beat(world: World, name: str) -> None:
    """A sign of life."""
    meta = {"namespace": "kube-node-lease", "name": name}
    world.put(LEASE, {"metadata": meta, "spec": {"renewTime": rfc3339(world.now)}})


def pod(world: World, name: str, on: str, *tolerations: Manifest, **status: Any) -> None:
    """A pod that runs on a node."""
    spec = {"nodeName": on, "tolerations": list(tolerations)}
    status = {"phase": "Running", "conditions": [READY], **status}
    world.put(POD, {"metadata": {"namespace": "ns", "name": name}, "spec": spec, "status": status})


def condition(world: World, name: str) -> Manifest:
    """A node's Ready condition."""
    conditions = world.get(NODE, name)["status"]["conditions"]
    found: Manifest = next(one for one in conditions if one["type"] == "Ready")
    return found


def taints(world: World, name: str) -> set[tuple[str, str]]:
    """A node's taints."""
    return {(one["key"], one["effect"]) for one in world.get(NODE, name)["spec"].get("taints") or ()}


def pass_time(world: World, seconds: float, *alive: str) -> None:
    """So much time passes, and these nodes show that they live."""
    for _ in range(int(seconds / 5)):
        world.wait(5.0)
        for name in alive:
            beat(world, name)
        world.look_again()
        world.run_until_stable()


def test_a_silent_node_becomes_unknown_and_is_tainted() -> None:
    world = World(NodeHealthController())
    node(world, "a")
    node(world, "b")
    pass_time(world, GRACE, "a", "b")
    pass_time(world, GRACE, "a")
    assert condition(world, "b")["status"] == "True"
    pass_time(world, 15, "a")
    lost = condition(world, "b")
    assert (lost["status"], lost["reason"]) == ("Unknown", "NodeStatusUnknown")
    assert lost["message"] == "Kubelet stopped posting node status."
    assert taints(world, "b") == {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}
    assert taints(world, "a") == set()
    assert ("NodeNotReady", "Node b status is now: NodeNotReady") in world.events
    world.change(NODE, "b", {"status": {"conditions": [READY]}})
    pass_time(world, 10, "a", "b")
    assert taints(world, "b") == set()


def test_when_all_are_silent_no_pod_is_driven_off() -> None:
    world = World(NodeHealthController())
    node(world, "a")
    pass_time(world, GRACE + 20)
    assert taints(world, "a") == {(UNREACHABLE, "NoSchedule")}


def test_a_node_that_never_spoke_has_more_time() -> None:
    world = World(NodeHealthController())
    world.put(NODE, {"metadata": {"name": "a"}, "spec": {}, "status": {}})
    pass_time(world, GRACE + 5)
    assert world.get(NODE, "a")["status"] == {}
    pass_time(world, 10)
    assert condition(world, "a")["reason"] == "NodeStatusNeverUpdated"


def test_a_cordon_is_a_taint_beside_others() -> None:
    world = World(NodeHealthController())
    node(world, "a", taints=[{"key": "mine", "effect": "NoSchedule"}])
    world.change(NODE, "a", {"spec": {"unschedulable": True}})
    world.run_until_stable()
    assert taints(world, "a") == {("mine", "NoSchedule"), ("node.kubernetes.io/unschedulable", "NoSchedule")}
    world.change(NODE, "a", {"spec": {"unschedulable": None}})
    world.run_until_stable()
    assert taints(world, "a") == {("mine", "NoSchedule")}


def test_pods_of_a_lost_node_are_not_ready_and_go_when_their_tolerance_ends() -> None:
    world = World(TaintEvictionController())
    node(world, "a")
    pod(world, "patient", "a", {"key": UNREACHABLE, "operator": "Exists", "tolerationSeconds": 300})
    pod(world, "eternal", "a", {"operator": "Exists"})
    pod(world, "touchy", "a")
    pod(world, "elsewhere", "b")
    taint = {"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": rfc3339(world.now)}
    world.change(NODE, "a", {"spec": {"taints": [taint]}})
    world.run_until_stable()
    ready = {
        one["metadata"]["name"]: found["status"]
        for one in world.all(POD)
        for found in one["status"]["conditions"]
        if found["type"] == "Ready"
    }
    assert ready == {"patient": "False", "eternal": "False", "touchy": "False", "elsewhere": "True"}
    assert leaving(world) == {"touchy"}
    reasons = [one.get("reason") for one in world.get(POD, "ns/touchy")["status"]["conditions"]]
    assert "DeletionByTaintManager" in reasons
    assert ("TaintManagerEviction", "Marking for deletion Pod ns/touchy") in world.events
    world.wait(299)
    world.run_until_stable()
    assert leaving(world) == {"touchy"}
    world.wait(2)
    world.run_until_stable()
    assert leaving(world) == {"touchy", "patient"}


def test_pods_stay_if_a_taint_is_removed() -> None:
    world = World(TaintEvictionController())
    node(world, "a")
    pod(world, "patient", "a", {"key": "k", "operator": "Exists", "tolerationSeconds": 60})
    taint = {"key": "k", "effect": "NoExecute", "timeAdded": rfc3339(world.now)}
    world.change(NODE, "a", {"spec": {"taints": [taint]}})
    world.run_until_stable()
    world.change(NODE, "a", {"spec": {"taints": None}})
    world.wait(100)
    world.run_until_stable()
    assert leaving(world) == set()


def leaving(world: World) -> set[str]:
    """Pods that are being deleted."""
    return {one["metadata"]["name"] for one in world.all(POD) if one["metadata"].get("deletionTimestamp")}


def test_pods_of_a_node_that_is_gone_go_after_a_while() -> None:
    world = World(PodCollector())
    node(world, "a")
    node(world, "b")
    pod(world, "on-a", "a")
    pod(world, "on-b", "b")
    world.run_until_stable()
    world.remove(NODE, "a")
    world.run_until_stable()
    world.wait(QUARANTINE - 1)
    world.run_until_stable()
    assert leaving(world) == set()
    world.wait(2)
    world.run_until_stable()
    assert [one["metadata"]["name"] for one in world.all(POD)] == ["on-b"]


def test_a_pod_that_replaces_a_collected_one_has_its_own_while() -> None:
    """A controller whose template names a missing node must not make pods as fast as they are removed."""
    world = World(PodCollector())
    pod(world, "first", "never-existed", phase="Failed")
    world.run_until_stable()
    world.wait(QUARANTINE)
    world.run_until_stable()
    assert world.all(POD) == []
    pod(world, "second", "never-existed")
    world.run_until_stable()
    world.wait(QUARANTINE - 1)
    world.run_until_stable()
    assert [one["metadata"]["name"] for one in world.all(POD)] == ["second"]
    world.wait(1)
    world.run_until_stable()
    assert world.all(POD) == []


def test_a_node_that_comes_back_keeps_its_pods() -> None:
    world = World(PodCollector())
    node(world, "a")
    pod(world, "on-a", "a")
    world.run_until_stable()
    world.remove(NODE, "a")
    world.run_until_stable()
    node(world, "a")
    world.wait(QUARANTINE + 1)
    world.run_until_stable()
    assert leaving(world) == set()


def test_terminating_pods_of_a_node_out_of_service_are_removed() -> None:
    world = World(PodCollector())
    node(world, "a")
    pod(world, "ending", "a")
    pod(world, "running", "a")
    world.change(POD, "ns/ending", {"metadata": {"deletionTimestamp": rfc3339(world.now)}})
    world.run_until_stable()
    world.change(NODE, "a", {"status": {"conditions": [{**READY, "status": "Unknown"}]}})
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    world.change(NODE, "a", {"spec": {"taints": [taint]}})
    world.run_until_stable()
    assert [one["metadata"]["name"] for one in world.all(POD)] == ["running"]


def test_ended_pods_are_kept_up_to_a_number() -> None:
    world = World(PodCollector())
    for number in range(MAX_FINISHED + 3):
        pod(world, f"p{number:05d}", "", phase="Succeeded", conditions=[])
    world.deliver()
    world.look_again()
    world.run_until_stable()
    names = [one["metadata"]["name"] for one in world.all(POD)]
    assert len(names) == MAX_FINISHED
    assert names[0] == "p00003", "the oldest go first"


def test_a_later_status_of_a_marked_pod_is_kept() -> None:
    world = World(TaintEvictionController())
    node(world, "a")
    pod(world, "p", "a", {"operator": "Exists"})
    taint = {"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": rfc3339(world.now)}
    world.change(NODE, "a", {"spec": {"taints": [taint]}})
    world.run_until_stable()
    assert world.get(POD, "ns/p")["status"]["conditions"][0]["status"] == "False"
    world.change(POD, "ns/p", {"status": {"conditions": [READY]}})
    world.run_until_stable()
    assert world.get(POD, "ns/p")["status"]["conditions"] == [READY], "its kubelet is back before its node says so"
