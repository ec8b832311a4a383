"""Plugins that are not in the default configuration decide as the oracle's, each among the usual plugins."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.examples import examples
from tests.oracle.compare import compare
from tests.oracle.confs import confs
from tests.oracle.contests import contested
from tests.oracle.plugins.times import epoch
from tests.oracle.worlds import Mix, worlds
from tests.scenario.scheduling.harness import CREATED, World, group, node, pod
from volcanoio.framework.scheduling_events import FactsSaid
from volcanoio.model.base import Manifest

ACTIONS = ("enqueue, allocate, backfill", "allocate")
EVICTING = ("allocate, preempt", "reclaim", "preempt")
USUAL = ("priority", "overcommit", "drf", "proportion", "nodeorder", "binpack")
START = epoch(CREATED) + 60
HOURS, DAY = st.integers(0, 23), 24 * 3600
MOVABLE = {
    "volcano.sh/revocable-zone": st.sampled_from([None, None, "*", "elsewhere"]),
    "volcano.sh/preemptable": st.sampled_from([None, "true", "false"]),
}
BUDGETS = {
    "volcano.sh/preemptable": st.sampled_from([None, "true"]),
    "volcano.sh/jdb-max-unavailable": st.sampled_from([None, None, "1", "50%"]),
    "volcano.sh/jdb-min-available": st.sampled_from([None, "1", "30%"]),
}
ZONES = {"volcano.sh/revocable-zone": st.sampled_from([None, "night", "noon", "never"])}


@examples(40)
@given(
    confs(ACTIONS, ("gang", "predicates", "sla"), USUAL),
    worlds(Mix(job_annotations={"volcano.sh/sla-waiting-time": st.sampled_from([None, None, "10s", "2h"])})),
)
def test_sla_decides_as_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf, now=START), conf)


@examples(40)
@given(
    confs(ACTIONS, ("gang", "predicates", "tdm"), USUAL),
    worlds(Mix(running=True, pod_annotations=MOVABLE, job_annotations=BUDGETS, node_labels=ZONES)),
    HOURS,
)
def test_tdm_places_on_revocable_nodes_as_the_oracle(conf: str, objects: list[Manifest], hour: int) -> None:
    compare(World(*objects, conf=conf, now=START + 3600 * hour), conf)


LENDING = {
    "actions": "shuffle, allocate",
    "tiers": [
        {
            "plugins": [
                {"name": "gang"},
                {"name": "tdm", "arguments": {"tdm.revocable-zone.noon": "11:00-14:00"}},
                {"name": "predicates"},
            ]
        }
    ],
}
LENT_LATER = [
    node("n0", labels={"volcano.sh/revocable-zone": "noon"}),
    group("j", 1, phase="Inqueue"),
    pod("p", "j", cpu="1", annotations={"volcano.sh/preemptable": "true"}),
]


@examples(40)
@example(conf=json.dumps(LENDING), objects=LENT_LATER, hours=[14, 11])
@given(
    confs(("shuffle", "shuffle, allocate"), ("predicates",), ("pdb", *USUAL), first=("gang", "tdm")),
    contested(Mix(pod_annotations=MOVABLE, job_annotations=BUDGETS, node_labels=ZONES)),
    st.lists(HOURS, min_size=1, max_size=2),
)
def test_tdm_evicts_from_revocable_nodes_as_the_oracle(conf: str, objects: list[Manifest], hours: list[int]) -> None:
    world, memory = World(*objects, conf=conf, now=START), dict[str, Any]()
    for hour in hours:  # each the next time that the clock shows it: what failed is not tried before a later time
        world.now += (START + 3600 * hour - world.now) % DAY
        compare(world, conf, memory)
        world.echo()


TOPOLOGY = {
    "volcano.sh/task-topology-affinity": st.sampled_from([None, "a,b", "a", "a;b"]),
    "volcano.sh/task-topology-anti-affinity": st.sampled_from([None, "a", "b", "a,b"]),
    "volcano.sh/task-topology-task-order": st.sampled_from([None, "b,a", "a"]),
}


@examples(50)
@given(
    confs(ACTIONS, ("gang", "predicates", "task-topology"), USUAL),
    worlds(Mix(running=True, jobs=3, job_annotations=TOPOLOGY)),
)
def test_task_topology_places_as_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


def quota(number: int, hard: dict[str, str], used: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": f"quota-{number}", "namespace": "ns", "uid": f"quota-{number}"},
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": dict.fromkeys(hard, used)},
    }


QUOTAS = st.lists(
    st.builds(quota, st.integers(0, 99), st.sampled_from([{"cpu": "3"}, {"cpu": "6", "memory": "1Gi"}]), st.just("1")),
    max_size=2,
    unique_by=lambda each: each["metadata"]["name"],
)


@examples(30)
@given(confs(("enqueue, allocate",), ("gang", "predicates", "resourcequota"), USUAL), worlds(Mix()), QUOTAS)
def test_resourcequota_enqueues_as_the_oracle(conf: str, objects: list[Manifest], quotas: list[Manifest]) -> None:
    compare(World(*objects, *quotas, conf=conf), conf)


GROUPS = st.lists(st.sampled_from(["g1", "g2", "g3"]), unique=True, min_size=1)
SIDE = st.fixed_dictionaries(
    {},
    optional={f"{kind}DuringSchedulingIgnoredDuringExecution": GROUPS for kind in ("required", "preferred")},
)
AFFINITY = st.fixed_dictionaries({}, optional={"nodeGroupAffinity": SIDE, "nodeGroupAntiAffinity": SIDE})


@examples(50)
@given(
    confs(ACTIONS, ("gang", "predicates", "nodegroup"), USUAL, entries={"nodegroup": {"enableHierarchy": True}}),
    worlds(
        Mix(
            running=True,
            tree=True,
            queue_specs={"affinity": st.one_of(st.none(), AFFINITY)},
            queue_annotations={
                "volcano.sh/nodegroup-resource-limits": st.sampled_from([None, None, '{"g1": {"cpu": "1"}}', "broken"])
            },
            node_labels={"volcano.sh/nodegroup-name": st.sampled_from(["g1", "g2", None, "g3"])},
        )
    ),
)
def test_nodegroup_places_as_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


WISHES = {
    "volcano.sh/resource-strategy-scoring-type": st.sampled_from([None, "MostAllocated", "LeastAllocated"]),
    "volcano.sh/resource-strategy-weight": st.sampled_from([None, '{"cpu": 2}', '{"cpu": 1, "memory": 3}']),
}


@examples(40)
@given(confs(ACTIONS, ("gang", "predicates", "resource-strategy-fit"), USUAL), worlds(Mix(pod_annotations=WISHES)))
def test_resource_strategy_fit_places_as_the_oracle(conf: str, objects: list[Manifest]) -> None:
    compare(World(*objects, conf=conf), conf)


BUSY = st.sampled_from([10.0, 30.0, 50.0, 70.0, 90.0])
FIGURES = st.lists(st.tuples(BUSY, BUSY, st.sampled_from([0, 0, 400])), max_size=5)
"""Percent of cpu and memory, and the age of both in seconds."""


@examples(40)
@given(confs(ACTIONS, ("gang", "predicates", "usage"), USUAL), worlds(Mix(running=True)), FIGURES)
def test_usage_places_as_the_oracle(
    conf: str, objects: list[Manifest], figures: list[tuple[float, float, int]]
) -> None:
    world = World(*objects, conf=conf, now=START)
    facts = {
        f"n{at}": {"cpu": cpu, "memory": memory, "at": world.now - age, "every": 30.0}
        for at, (cpu, memory, age) in enumerate(figures)
    }
    world.fold(FactsSaid(source="node-metrics", facts=facts, whole=True))
    compare(world, conf, {"figures": facts})


@examples(50)
@given(
    confs(("shuffle", "shuffle, allocate"), ("rescheduling",), ("pdb", "predicates"), first=("gang",)),
    contested(Mix()),
    st.permutations([(90.0, 80.0, 0), (5.0, 5.0, 0), (70.0, 30.0, 0)]),
)
def test_rescheduling_evicts_as_the_oracle(
    conf: str, objects: list[Manifest], figures: list[tuple[float, float, int]]
) -> None:
    world = World(*objects, conf=conf, now=START)
    facts = {
        f"n{at}": {"cpu": cpu, "memory": memory, "at": world.now - age, "every": 30.0}
        for at, (cpu, memory, age) in enumerate(figures)
    }
    world.fold(FactsSaid(source="node-metrics", facts=facts, whole=True))
    memory: dict[str, Any] = {"figures": facts}
    for later in (0, 70, 45):
        world.now += later
        compare(world, conf, memory)
        world.echo()


def budget(app: str, allowed: int) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"budget-{app}", "namespace": "ns", "uid": f"budget-{app}"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


@examples(40)
@given(
    confs(EVICTING, ("predicates",), ("proportion", "nodeorder"), first=("gang", "priority", "cdp", "pdb")),
    contested(Mix(limits=True, pod_annotations={"volcano.sh/cooldown-time": st.sampled_from([None, "30s", "2m"])})),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 2)),
)
def test_cdp_and_pdb_protect_victims_as_the_oracle(conf: str, objects: list[Manifest], budgets: dict[str, int]) -> None:
    for each in objects:
        if each["kind"] == "Pod" and each["spec"]["nodeName"]:
            each["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": CREATED}]
    compare(World(*objects, *(budget(*each) for each in budgets.items()), conf=conf, now=START), conf)
