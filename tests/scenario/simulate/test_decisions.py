"""Decisions of `volcanoio simulate`: cluster state in, decisions out, both as literals."""

from __future__ import annotations

import pytest

from tests.scenario.scheduling.harness import group, node, pod, pods, queue
from tests.scenario.simulate.command import Simulate
from volcanoio.model.base import Manifest

PREEMPTING = """
actions: "allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
"""


GANGS = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n"


def _class(name: str, value: int) -> Manifest:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def test_a_gang_that_fits_is_bound(simulate: Simulate) -> None:
    assert simulate.state(queue("default"), node("n1"), group("g", 2), *pods("p", 2, "g", cpu="3")) == {
        "cycles": 1,
        "binds": [{"pod": "ns/p-0", "node": "n1"}, {"pod": "ns/p-1", "node": "n1"}],
        "evictions": [],
        "pipelined": [],
        "podGroups": {"ns/g": {"phase": "Inqueue"}},
        "taskStatus": {"ns/g": {"Binding": 2}},
    }


def test_a_gang_that_does_not_fit_is_not_bound_in_part(simulate: Simulate) -> None:
    assert simulate.state(queue("default"), node("n1"), group("g", 2), *pods("p", 2, "g", cpu="5")) == {
        "cycles": 1,
        "binds": [],
        "evictions": [],
        "pipelined": [],
        "podGroups": {"ns/g": {"phase": "Inqueue"}},
        "taskStatus": {"ns/g": {"Pending": 2}},
    }


def test_a_running_gang_that_fell_below_its_minimum_is_unknown_after_one_cycle(simulate: Simulate) -> None:
    objects = (
        queue("default"),
        node("n1", cpu="1"),
        group("g", 2, phase="Running"),
        pod("p-0", "g", on="n1", phase="Running", cpu="1"),
        pod("p-1", "g", cpu="1"),
    )
    assert simulate.state(*objects, conf=GANGS)["podGroups"] == {"ns/g": {"phase": "Unknown"}}


def test_an_eviction_is_shown_with_its_action_and_the_preemptor_is_pipelined(simulate: Simulate) -> None:
    objects = (
        queue("default"),
        node("n1", cpu="2"),
        _class("low", 1),
        _class("high", 100),
        group("lower", 1, phase="Running", priorityClassName="low"),
        pod("low-0", "lower", on="n1", phase="Running", cpu="1"),
        pod("low-1", "lower", on="n1", phase="Running", cpu="1"),
        group("higher", 1, phase="Inqueue", priorityClassName="high"),
        pod("high-0", "higher", cpu="1"),
    )
    found = simulate.state(*objects, conf=PREEMPTING)
    (evicted,) = found["evictions"]
    assert evicted["action"] == "preempt"
    assert evicted["pod"] in ("ns/low-0", "ns/low-1")
    assert found["pipelined"] == [{"pod": "ns/high-0", "node": "n1"}]
    assert found["taskStatus"] == {"ns/higher": {"Pipelined": 1}, "ns/lower": {"Running": 1, "Releasing": 1}}
    later = simulate.state(*objects, conf=PREEMPTING, flags=("--cycles", "3"))
    assert later["cycles"] == 3
    assert later["evictions"] == [
        evicted
    ]  # it never stops terminating, and no other pod is evicted for the same preemptor
    assert later["pipelined"] == [{"pod": "ns/high-0", "node": "n1"}]


def test_a_later_cycle_starts_from_the_decisions_of_the_earlier_ones(simulate: Simulate) -> None:
    found = simulate.state(
        queue("default"), node("n1"), group("g", 2), *pods("p", 3, "g", cpu="3"), flags=("--cycles", "2")
    )
    assert found["cycles"] == 2
    assert len(found["binds"]) == 2
    assert found["taskStatus"] == {"ns/g": {"Pending": 1, "Bound": 2}}
    assert found["podGroups"] == {"ns/g": {"phase": "Running"}}


@pytest.mark.parametrize(("switch", "bound"), [("enableJobReady: true", 0), ("enableJobReady: false", 1)])
def test_a_plugin_method_is_called_only_if_its_switch_is_on(simulate: Simulate, switch: str, bound: int) -> None:
    conf = f"actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    {switch}\n    enableJobPipelined: false\n"
    found = simulate.state(
        queue("default"), node("n1"), group("g", 2, phase="Inqueue"), *pods("p", 2, "g", cpu="5"), conf=conf
    )
    assert len(found["binds"]) == bound


@pytest.mark.parametrize(("switch", "bound"), [("enablePredicate: true", 0), ("enablePredicate: false", 1)])
def test_a_disabled_filter_excludes_no_node(simulate: Simulate, switch: str, bound: int) -> None:
    conf = f"actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n    {switch}\n"
    found = simulate.state(
        queue("default"),
        node("n1"),
        group("g", 1, phase="Inqueue"),
        pod("p-0", "g", cpu="1", spec={"nodeSelector": {"disk": "ssd"}}),
        conf=conf,
    )
    assert len(found["binds"]) == bound


MINE = """
class Avoid:
    name = "avoid"

    def __init__(self, arguments):
        self.node = arguments["node"]

    def feasible_on(self, shape, node):
        return "the node is avoided" if node.name == self.node else ""
"""


def test_plugins_of_a_directory_are_loaded(simulate: Simulate) -> None:
    directory = simulate.file("plugins/avoid.py", MINE).parent
    conf = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: avoid\n    arguments:\n      node: n1\n"
    found = simulate.state(
        queue("default"),
        node("n1"),
        node("n2", cpu="1"),
        group("g", 1, phase="Inqueue"),
        *pods("p", 2, "g", cpu="1"),
        conf=conf,
        flags=("--plugins-dir", str(directory)),
    )
    assert [bind["node"] for bind in found["binds"]] == ["n2"]


class TestOddStates:
    """What is not as it should be is handled as Volcano does."""

    def test_a_running_pod_without_a_node_counts_and_takes_no_room(self, simulate: Simulate) -> None:
        found = simulate.state(
            queue("default"),
            node("n1", cpu="1"),
            group("g", 1, phase="Running"),
            pod("p-0", "g", phase="Running", cpu="1"),
            group("h", 1, phase="Inqueue"),
            pod("q-0", "h", cpu="1"),
            conf=GANGS,
        )
        assert found["binds"] == [{"pod": "ns/q-0", "node": "n1"}]
        assert found["taskStatus"]["ns/g"] == {"Running": 1}

    def test_a_group_of_a_missing_queue_waits(self, simulate: Simulate) -> None:
        found = simulate.state(node("n1"), group("g", 1, queue="gone"), pod("p-0", "g", cpu="1"))
        assert (found["binds"], found["podGroups"]) == ([], {"ns/g": {"phase": "Pending"}})

    def test_the_default_queue_is_created_if_it_is_missing(self, simulate: Simulate) -> None:
        found = simulate.state(node("n1"), group("g", 1, queue=""), pod("p-0", "g", cpu="1"))
        assert found["binds"] == [{"pod": "ns/p-0", "node": "n1"}]

    def test_a_state_without_nodes_is_accepted(self, simulate: Simulate) -> None:
        found = simulate.state(queue("default"), group("g", 1), pod("p-0", "g", cpu="1"))
        assert (found["binds"], found["taskStatus"]) == ([], {"ns/g": {"Pending": 1}})

    def test_an_empty_state_is_accepted(self, simulate: Simulate) -> None:
        nothing: dict[str, object] = {"binds": [], "evictions": [], "pipelined": [], "podGroups": {}, "taskStatus": {}}
        assert simulate.state() == {"cycles": 1, **nothing}

    def test_a_pod_on_an_unknown_node_is_bound_there(self, simulate: Simulate) -> None:
        found = simulate.state(
            queue("default"), node("n1"), group("g", 1, phase="Running"), pod("p-0", "g", on="gone", cpu="1")
        )
        assert (found["binds"], found["taskStatus"]) == ([], {"ns/g": {"Bound": 1}})

    def test_finished_pods_use_no_room(self, simulate: Simulate) -> None:
        found = simulate.state(
            queue("default"),
            node("n1", cpu="1"),
            group("g", 1, phase="Running"),
            pod("p-0", "g", on="n1", phase="Succeeded", cpu="1"),
            pod("p-1", "g", on="n1", phase="Failed", cpu="1"),
            pod("p-2", "g", cpu="1"),
        )
        assert found["binds"] == [{"pod": "ns/p-2", "node": "n1"}]
        assert found["taskStatus"] == {"ns/g": {"Binding": 1, "Succeeded": 1, "Failed": 1}}

    def test_a_pod_without_group_uses_room(self, simulate: Simulate) -> None:
        found = simulate.state(
            queue("default"),
            node("n1", cpu="2"),
            pod("other", on="n1", phase="Running", cpu="1"),
            group("g", 2),
            *pods("p", 2, "g", cpu="1"),
        )
        assert found["binds"] == []

    def test_a_terminating_pod_uses_its_room_until_it_is_gone(self, simulate: Simulate) -> None:
        going = pod("p-0", "g", on="n1", phase="Running", cpu="1")
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        found = simulate.state(
            queue("default"), node("n1", cpu="1"), group("g", 1), going, group("h", 1), pod("q-0", "h", cpu="1")
        )
        assert (found["binds"], found["pipelined"]) == ([], [{"pod": "ns/q-0", "node": "n1"}])


class TestFlags:
    """The scheduler's own flags."""

    def test_only_nodes_with_one_of_the_labels_are_used(self, simulate: Simulate) -> None:
        objects = (
            queue("default"),
            node("n1", labels={"zone": "a"}),
            node("n2", labels={"zone": "b"}),
            node("n3"),
            group("g", 1),
            pod("p-0", "g", cpu="1"),
        )
        assert simulate.state(*objects, flags=("--node-selector", "zone:b,zone:c"))["binds"][0]["node"] == "n2"

    def test_pods_of_other_schedulers_are_left_alone(self, simulate: Simulate) -> None:
        objects = (
            queue("default"),
            node("n1"),
            group("g", 1),
            pod("p-0", "g", cpu="1", spec={"schedulerName": "mine"}),
        )
        assert simulate.state(*objects)["binds"] == []
        assert len(simulate.state(*objects, flags=("--scheduler-name=volcano", "--scheduler-name=mine"))["binds"]) == 1

    def test_a_group_without_queue_is_in_the_default_queue(self, simulate: Simulate) -> None:
        objects = (
            queue("mine", capability={"cpu": "0"}),
            node("n1"),
            group("g", 1, queue=""),
            pod("p-0", "g", cpu="1"),
        )
        assert len(simulate.state(*objects)["binds"]) == 1
        conf = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: proportion\n"
        closed = queue("mine")
        closed["status"]["state"] = "Closed"
        found = simulate.state(closed, *objects[1:], conf=conf, flags=("--default-queue", "mine"))
        assert found["binds"] == []

    @pytest.mark.parametrize(
        ("flags", "first"),
        [
            ((), "ns/q-0"),
            (("--priority-class=false",), "ns/p-0"),
            (("--feature-gates", "PriorityClass=false"), "ns/p-0"),
            (("--priority-class",), "ns/q-0"),
        ],
    )
    def test_priority_classes_count_unless_they_are_disabled(
        self, simulate: Simulate, flags: tuple[str, ...], first: str
    ) -> None:
        found = simulate.state(
            queue("default"),
            node("n1", cpu="1"),
            _class("high", 10),
            group("g", 1),
            pod("p-0", "g", cpu="1"),
            group("h", 1, priorityClassName="high"),
            pod("q-0", "h", cpu="1"),
            flags=flags,
        )
        assert [bind["pod"] for bind in found["binds"]] == [first]

    @pytest.mark.parametrize(
        ("flags", "bound"), [((), 0), (("--feature-gates", "SchedulingGatesQueueAdmission=true"), 1)]
    )
    def test_queue_admission_gates_are_removed_if_the_feature_gate_is_on(
        self, simulate: Simulate, flags: tuple[str, ...], bound: int
    ) -> None:
        gate = "scheduling.volcano.sh/queue-allocation-gate"
        gated = pod("p", "g", cpu="1", annotations={gate: "true"}, spec={"schedulingGates": [{"name": gate}]})
        found = simulate.state(queue("default"), node("n1"), group("g", 1), gated, flags=("--cycles", "2", *flags))
        assert len(found["binds"]) == bound

    @pytest.mark.parametrize(("flags", "bound"), [((), 1), (("--ignored-provisioners", "a.example,csi.example"), 2)])
    def test_volumes_of_ignored_provisioners_have_no_limit(
        self, simulate: Simulate, flags: tuple[str, ...], bound: int
    ) -> None:
        driver = {"name": "csi.example", "nodeID": "n1", "allocatable": {"count": 1}}
        csi_node = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": "n1"},
            "spec": {"drivers": [driver]},
        }
        objects: list[Manifest] = [queue("default"), node("n1"), group("g", 0), csi_node]
        for name in ("a", "b"):
            reference = {"claimRef": {"namespace": "ns", "name": name, "uid": f"claim-{name}"}}
            source = {"csi": {"driver": "csi.example", "volumeHandle": name}}
            objects += [
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolume",
                    "metadata": {"name": name},
                    "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source, **reference},
                    "status": {"phase": "Bound"},
                },
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {
                        "name": name,
                        "namespace": "ns",
                        "uid": f"claim-{name}",
                        "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
                    },
                    "spec": {
                        "volumeName": name,
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}},
                    },
                    "status": {"phase": "Bound"},
                },
                pod(
                    f"p-{name}",
                    "g",
                    cpu="1",
                    spec={"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]},
                ),
            ]
        assert len(simulate.state(*objects, flags=flags)["binds"]) == bound
