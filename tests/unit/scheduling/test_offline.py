"""The scheduler without an API server: in any state no cycle binds more to a node than it has."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from tests.scenario.scheduling.harness import decoded, group, node, pod, profile, queue
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.offline.offline import Offline
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.core import Node, Pod

PROFILES = {
    name: profile(text)
    for name, text in {
        "default": None,
        "taking": (
            'actions: "enqueue, allocate, backfill, reclaim, preempt"\ntiers:\n- plugins:\n  - name: priority\n'
            "  - name: gang\n  - name: conformance\n- plugins:\n  - name: proportion\n  - name: predicates\n"
        ),
        "bare": "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n",
    }.items()
}
_AMOUNTS = st.integers(1, 4)


@st.composite
def _states(draw: st.DrawFn) -> list[Manifest]:
    nodes = draw(st.integers(0, 4))
    objects = [queue("a"), queue("b", reclaimable=True)]
    objects += [node(f"n{at}", cpu=str(draw(_AMOUNTS)), pods=str(draw(_AMOUNTS))) for at in range(nodes)]
    for at in range(draw(st.integers(1, 5))):
        size = draw(st.integers(1, 4))
        phase = draw(st.sampled_from(["Pending", "Inqueue", "Running"]))
        objects.append(group(f"g{at}", draw(st.integers(0, size)), queue=draw(st.sampled_from("ab")), phase=phase))
        for index in range(size):
            more: dict[str, Any] = {"cpu": str(draw(_AMOUNTS))}
            if draw(st.booleans()):
                more["on"] = f"n{draw(st.integers(0, 4))}"
                more["phase"] = draw(st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]))
            made = pod(f"g{at}-{index}", f"g{at}", **more)
            if draw(st.integers(0, 5)) == 0:
                made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            objects.append(made)
    return objects


@given(state=_states(), conf=st.sampled_from(sorted(PROFILES)), cycles=st.integers(1, 4))
def test_no_cycle_binds_more_to_a_node_than_it_has(state: list[Manifest], conf: str, cycles: int) -> None:
    offline = Offline(ClusterState(), PROFILES[conf], now=1000.0)
    offline.load(map(decoded, state))
    offline.run(cycles)
    outcome = offline.outcome()
    assert len({bind.pod for bind in outcome.binds}) == len(outcome.binds)
    pods = [cast("Pod", obj) for (resource, _), obj in offline.objects.items() if resource == kinds.POD.resource]
    for name in {bind.node for bind in outcome.binds}:
        allocatable = cast("Node", offline.objects[kinds.NODE.resource, name]).status.allocatable
        there = [pod for pod in pods if pod.spec.node_name == name and pod.status.phase not in ("Succeeded", "Failed")]
        assert sum(int(pod.spec.containers[0].resources.requests["cpu"]) for pod in there) <= int(allocatable["cpu"])
        if conf != "bare":
            assert len(there) <= int(allocatable["pods"])
    for key, counts in outcome.task_status.items():
        members = [pod for pod in pods if pod.metadata.annotations["scheduling.k8s.io/group-name"] == key[3:]]
        assert sum(counts.values()) == len(members)
