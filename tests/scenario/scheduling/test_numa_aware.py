"""Plugin numa-aware: which nodes get pods whose CPUs must be aligned."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.scenario.scheduling.harness import Scenario, World, group, node, pod
from tests.scenario.scheduling.numa_nodes import CONF, DECISION, fixed, job, numa_node, numatopology
from volcanoio.framework.scheduling.numa import CpuTopology, TopologyPolicy, assign, exclusive_cpus, parse_cpus
from volcanoio.framework.scheduling_effects import BindBatch
from volcanoio.model import kinds
from volcanoio.model.nodes import Numatopology

SINGLE, RESTRICTED, BEST_EFFORT = "single-numa-node", "restricted", "best-effort"
ALIGNED = "0/1 nodes are unavailable: 1 node(s) had no free CPUs that fit the NUMA topology policy."
NO_POLICY = "0/1 nodes are unavailable: 1 node(s) had no CPU manager with the pod's NUMA topology policy."

SCENARIOS = [
    Scenario(
        name="a pod of single-numa-node gets the node where one NUMA node has enough free CPUs",
        cluster=[
            *numa_node("full", free="0-2,4-6"),
            *numa_node("free", free="0-3"),
            *job("a", "4", policy=SINGLE),
        ],
        binds={"a-0": "free"},
    ),
    Scenario(
        name="a pod larger than a NUMA node does not fit single-numa-node",
        cluster=[*numa_node("n"), *job("a", "5", policy=SINGLE)],
        fit_errors={"a": ALIGNED},
    ),
    Scenario(
        name="restricted admits as few NUMA nodes as an empty machine needs",
        cluster=[*numa_node("n", RESTRICTED), *job("a", "5", policy=RESTRICTED)],
        binds={"a-0": "n"},
    ),
    Scenario(
        name="restricted refuses more NUMA nodes than an empty machine needs",
        cluster=[*numa_node("n", RESTRICTED, free="0-1,4-5"), *job("a", "3", policy=RESTRICTED)],
        fit_errors={"a": ALIGNED},
    ),
    Scenario(
        name="best-effort takes CPUs of any NUMA nodes",
        cluster=[*numa_node("n", BEST_EFFORT, free="0-1,4-5"), *job("a", "3", policy=BEST_EFFORT)],
        binds={"a-0": "n"},
    ),
    Scenario(
        name="a pod needs a node with its policy",
        cluster=[*numa_node("n", RESTRICTED), *job("a", "2", policy=SINGLE)],
        fit_errors={"a": NO_POLICY},
    ),
    Scenario(
        name="a pod with a policy needs the static CPU manager",
        cluster=[*numa_node("n", manager="none"), *job("a", "2", policy=SINGLE)],
        fit_errors={"a": NO_POLICY},
    ),
    Scenario(
        name="a pod with a policy needs a node with a Numatopology",
        cluster=[node("n"), *job("a", "2", policy=SINGLE)],
        fit_errors={"a": NO_POLICY},
    ),
    Scenario(
        name="a pod without a policy gets nodes without Numatopology",
        cluster=[node("n"), *job("a", "2")],
        binds={"a-0": "n"},
    ),
    Scenario(
        name="a pod without a policy is refused by a node whose kubelet would refuse it",
        cluster=[*numa_node("n", free="0-2,4-6"), *job("a", "4")],
        fit_errors={"a": ALIGNED},
    ),
    Scenario(
        name="pods that get no CPU exclusively are not concerned",
        cluster=[
            *numa_node("n", free=""),
            group("a", 2),
            pod("a-0", "a", cpu="2", annotations={"volcano.sh/numa-topology-policy": SINGLE}),
            fixed("a-1", "a", "1500m", policy=SINGLE),
        ],
        binds={"a-0": "n", "a-1": "n"},
    ),
    Scenario(
        name="each container is aligned by itself",
        cluster=[*numa_node("n"), group("a", 1), fixed("a-0", "a", "3", "3", policy=SINGLE)],
        binds={"a-0": "n"},
    ),
    Scenario(
        name="CPUs reserved for the system are not assigned",
        cluster=[*numa_node("n", reserved="500m"), *job("a", "4", "4", policy=SINGLE, minimum=1)],
        binds={"a-0": "n"},
    ),
    Scenario(
        name="placements of a cycle are counted for the next pods of it",
        cluster=[*numa_node("n"), *job("a", "3", "3", "2", policy=SINGLE, minimum=1)],
        binds={"a-0": "n", "a-1": "n"},
    ),
    Scenario(
        name="a gang that does not fit leaves its CPUs to others",
        cluster=[*numa_node("n"), *job("a", "3", "3", "2", policy=SINGLE), *job("b", "4", "4", policy=SINGLE)],
        binds={"b-0": "n", "b-1": "n"},
    ),
    Scenario(
        name="a node where the pod is on fewer NUMA nodes is preferred",
        cluster=[
            *numa_node("spread", BEST_EFFORT, free="0-2,4-6"),
            *numa_node("packed", BEST_EFFORT, free="0-3"),
            *job("a", "4", policy=BEST_EFFORT),
        ],
        binds={"a-0": "packed"},
    ),
    Scenario(
        name="CPUs of reported pods are not free even if the exporter lists them as allocatable",
        cluster=[
            *numa_node("n", allocations={"old-0": "0-1"}),
            *job("a", "3", "3", policy=SINGLE, minimum=1),
        ],
        binds={"a-0": "n"},
    ),
    Scenario(
        name="the CPUs of a bound pod stay taken until it is reported",
        cluster=[*numa_node("n"), *job("a", "3", policy=SINGLE), *job("b", "3", "3", policy=SINGLE, minimum=1)],
        cycles=3,
        bind_counts={"a": 1, "b": 1},
    ),
    Scenario(
        name="the CPUs that were decided stay taken, whatever another order of the pods would give",
        cluster=[
            *numa_node("n", free="0-6"),
            *job("z", "3", policy=SINGLE),
            *job("a", "2", policy=SINGLE),
            *job("later", "2", policy=SINGLE),
        ],
        cycles=2,
        binds={"a-0": "n", "z-0": "n", "later-0": "n"},
    ),
    Scenario(
        name="a pod bound by an earlier process keeps the NUMA nodes of its annotation",
        cluster=[
            *numa_node("n"),
            group("old", 1, phase="Running"),
            fixed("old-0", "old", "3", policy=SINGLE, on="n", annotations={DECISION: '{"1":{"cpu":"3"}}'}),
            *job("a", "4", policy=SINGLE),
        ],
        binds={"a-0": "n"},
    ),
]  # fmt: skip


@pytest.mark.parametrize("scenario", [pytest.param(each, id=each.name) for each in SCENARIOS])
def test_scenario(scenario: Scenario) -> None:
    replace(scenario, conf=CONF).check()


def test_the_decision_is_written_before_the_bind() -> None:
    world = World(*numa_node("n"), group("a", 1), fixed("a-0", "a", "3", "2", policy=SINGLE), conf=CONF)
    world.cycle()
    (batch,) = [each for each in world.last if isinstance(each, BindBatch)]
    (step,) = batch.binds[0].prebind
    assert (step.resource, step.uid) == (kinds.POD.resource, "ns-a-0")
    assert step.patch == {"metadata": {"annotations": {DECISION: '{"0":{"cpu":"3"},"1":{"cpu":"2"}}'}}}
    assert step.undo == {"metadata": {"annotations": {DECISION: None}}}


def test_a_refused_bind_releases_the_cpus() -> None:
    world = World(*numa_node("n", numa=1), *job("a", "4", policy=SINGLE), conf=CONF)
    world.cycle()
    world.echo(refuse={"a-0": 409})
    world.run(3)
    assert world.binds == {"a-0": "n"}
    assert world.pod("a-0").status.phase == "Running"


def test_a_pod_that_ended_before_it_was_reported_releases_its_cpus() -> None:
    world = World(*numa_node("n", numa=1), *job("a", "4", policy=SINGLE), conf=CONF).run()
    world.set_pod("a-0", phase="Succeeded")
    for manifest in job("b", "4", policy=SINGLE):
        world.put(manifest)
    assert world.run(2).binds == {"a-0": "n", "b-0": "n"}


def test_a_reported_pod_keeps_its_cpus_until_the_report_changes() -> None:
    world = World(*numa_node("n", numa=1), *job("a", "4", policy=SINGLE), conf=CONF).run()
    world.put(numatopology("n", numa=1, allocations={"a-0": "0-3"}, version="2"))
    world.run()
    world.set_pod("a-0", phase="Succeeded")
    for manifest in job("b", "4", policy=SINGLE):
        world.put(manifest)
    assert "b-0" not in world.run(2).binds
    world.put(numatopology("n", numa=1, version="3"))
    assert world.run(2).binds["b-0"] == "n"


def test_an_exporter_that_lists_no_pods_confirms_by_its_next_report() -> None:
    world = World(*numa_node("n"), *job("a", "4", policy=SINGLE), conf=CONF).run(2)
    world.put(numatopology("n", free="4-7", version="2"))
    for manifest in job("b", "4", policy=SINGLE):
        world.put(manifest)
    assert world.run(2).binds == {"a-0": "n", "b-0": "n"}


_NODES = st.tuples(st.sampled_from([RESTRICTED, SINGLE, BEST_EFFORT]), st.integers(1, 3), st.sampled_from([2, 4]))
_JOBS = st.tuples(st.sampled_from(["", SINGLE, RESTRICTED]), st.lists(st.sampled_from("1233"), min_size=1, max_size=4))


@examples(50)
@given(st.lists(_NODES, min_size=1, max_size=2), st.lists(_JOBS, min_size=1, max_size=4))
def test_kubelets_can_admit_all_that_was_bound(
    nodes: list[tuple[str, int, int]], jobs: list[tuple[str, list[str]]]
) -> None:
    """Kubelets that assign CPUs as the pods arrive, none twice, find room for each: `assign` raises nothing."""
    cluster = [
        each for at, (policy, numa, cpus) in enumerate(nodes)
        for each in numa_node(f"n{at}", policy, numa=numa, cpus=cpus)
    ]  # fmt: skip
    for at, (policy, cpus) in enumerate(jobs):
        cluster += job(f"j{at}", *cpus, policy=policy, minimum=1)
    world = World(*cluster, conf=CONF).run(3)
    free: dict[str, int] = {}
    for request in world.requests:
        report = world.objects[kinds.NUMATOPOLOGY.resource, request.node]
        assert isinstance(report, Numatopology)
        topology = CpuTopology.of(report.spec.cpu_detail)
        policy = TopologyPolicy(report.spec.policies["TopologyManagerPolicy"])
        pool = free.setdefault(request.node, parse_cpus(report.spec.numares["cpu"].allocatable))
        free[request.node] = pool & ~assign(topology, policy, pool, exclusive_cpus(world.pod(request.name).spec))
