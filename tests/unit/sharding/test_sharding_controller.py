"""Which nodes each scheduler gets, when its NodeShard is written, and what an invalid configuration does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.world import World
from volcanoio.engine.sharding.assignment import assign, due_writes
from volcanoio.engine.sharding.configuration import SchedulerShard, of_flags, parse
from volcanoio.engine.sharding.controller import DEBOUNCE_SECONDS, ShardingController
from volcanoio.engine.sharding.policies import NodeFacts
from volcanoio.framework.arguments import ArgumentError
from volcanoio.framework.controller import ShardingSettings
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

FLAGS = ShardingSettings()
TWO = """
schedulerConfigs:
- name: low
  policies: [{name: allocation-rate, arguments: {maxCPUUtil: 0.5}}]
- name: high
  policies: [{name: allocation-rate, arguments: {minCPUUtil: 0.5}}]
"""
LIMITED = """
schedulerConfigs:
- {name: a, policies: [{name: node-limit, arguments: {maxNodes: 1}}]}
- {name: b}
shardSyncPeriod: 10s
"""


def schedulers(text: str) -> tuple[SchedulerShard, ...]:
    return parse(text, FLAGS).schedulers


def nodes(**cpu: float | None) -> list[NodeFacts]:
    """Return nodes by name, with their utilisation; those that begin with w are warm."""
    return [
        NodeFacts(name, {"node.volcano.sh/warmup": "true"} if name.startswith("w") else {}, share)
        for name, share in cpu.items()
    ]


@pytest.mark.parametrize(
    ("text", "given", "assigned"),
    [
        pytest.param(
            TWO,
            nodes(n1=0.1, n2=0.5, n3=0.9, n4=None),
            {"low": ("n1", "n2"), "high": ("n3",)},
            id="both ends of a range belong to it, the first scheduler picks first, a node without capacity is left",
        ),
        pytest.param(TWO, nodes(n1=0.504, n2=0.506), {"low": ("n1",), "high": ("n2",)}, id="two decimals count"),
        pytest.param(
            """
schedulerConfigs:
- name: a
  policies:
  - name: allocation-rate
  - name: warmup
    weight: 2
  - {name: node-limit, arguments: {maxNodes: 2}}
""",
            nodes(n1=0.9, n2=0.8, n3=0.1, w1=0.0),
            {"a": ("n1", "w1")},
            id="warm nodes first by weight, then full ones, up to the limit",
        ),
        pytest.param(
            "schedulerConfigs: [{name: a, policies: [{name: node-limit, arguments: {minNodes: 3}}]}, {name: b}]",
            nodes(n1=0.0, n2=0.0),
            {"a": ("n1", "n2"), "b": ()},
            id="0 is no limit, and no node is made up",
        ),
        pytest.param(
            "schedulerConfigs: [{name: a, cpuUtilizationMax: 0.6, preferWarmupNodes: true, maxNodes: 1}, {name: b}]",
            nodes(n1=0.5, n2=0.7, w1=0.1),
            {"a": ("w1",), "b": ("n1", "n2")},
            id="older fields become policies",
        ),
    ],
)
def test_nodes_are_assigned(text: str, given: list[NodeFacts], assigned: dict[str, tuple[str, ...]]) -> None:
    assert assign(schedulers(text), given) == assigned


def test_more_than_fifty_nodes_have_one_limit() -> None:
    text = "schedulerConfigs: [{name: a, maxNodes: 60}, {name: b, maxNodes: 200}]"
    assigned = assign(schedulers(text), nodes(**{f"n{at}": 0.0 for at in range(300)}))
    assert {name: len(found) for name, found in assigned.items()} == {"a": 60, "b": 200}
    assert set(assigned["a"]).isdisjoint(assigned["b"])


def test_the_default_flags_are_volcanos() -> None:
    assigned = assign(of_flags(FLAGS).schedulers, nodes(n1=0.0, n2=0.6, n3=0.65, n4=0.7, n5=1.0))
    assert assigned == {"volcano": ("n1", "n2"), "agent-scheduler": ("n4", "n5")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "sharding.yaml: not a mapping; begin it with schedulerConfigs:"),
        ("a: [", "sharding.yaml: not YAML"),
        ("{}", "schedulerConfigs is empty; name at least one scheduler"),
        ("schedulerConfigs: [{type: volcano}]", "schedulerConfigs[0]: name is missing"),
        ("schedulerConfigs: [{name: a}, {name: a}]", 'scheduler "a" is given twice'),
        ("schedulerConfigs: [{name: a, nodes: 3}]", 'unknown argument "nodes"'),
        ("schedulerConfigs: [{name: a, minNodes: 3, maxNodes: 2}]", "maxNodes 2 not below it"),
        ("schedulerConfigs: [{name: a, cpuUtilizationMax: 1.5}]", "must be from 0 to 1"),
        (
            "schedulerConfigs: [{name: a, policies: [{name: warm}]}]",
            'there is no policy "warm"; did you mean "warmup"?',
        ),
        ("schedulerConfigs: [{name: a, policies: [{name: warmup, weight: -1}]}]", "weight -1 must be 0 or more"),
        (
            "schedulerConfigs: [{name: a, policies: [{name: allocation-rate, arguments: {maxNodes: 1}}]}]",
            'schedulerConfigs[0].policies[0] allocation-rate: unknown argument "maxNodes"',
        ),
        ("{schedulerConfigs: [{name: a}], shardSyncPeriod: 0s}", "shardSyncPeriod must be longer than 0"),
    ],
)
def test_an_invalid_configuration_names_the_field_and_the_rule(text: str, message: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        parse(text, FLAGS)
    assert message in str(refused.value)


@pytest.mark.parametrize("text", ["a", "a:volcano:0:2:false:1:2", "a:volcano:0:1:maybe:1:2", "a:volcano:0:1:true:3:2"])
def test_an_invalid_flag_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        of_flags(ShardingSettings(scheduler_configs=(text,)))


def test_shards_are_written_when_their_number_or_a_tenth_of_their_nodes_differs() -> None:
    ten = tuple(f"n{at:02}" for at in range(20))
    assert due_writes({"a": ten}, {"a": ten[::-1]}) == {}
    assert due_writes({"a": (*ten[:-1], "x")}, {"a": ten}) == {}, "one of twenty"
    assert due_writes({"a": (*ten[:-2], "x", "y")}, {"a": ten}) == {"a": (*ten[:-2], "x", "y")}
    assert due_writes({"a": ten}, {"a": ten[1:]}) == {"a": ten}
    assert due_writes({"a": ()}, {}) == {"a": ()}


def test_all_differing_shards_are_written_together_so_that_no_node_has_two() -> None:
    stored = {"a": tuple(f"n{at:02}" for at in range(20)), "b": ("x",)}
    assigned = {"a": (*stored["a"][:-1], "x"), "b": ("n19",)}
    assert due_writes(assigned, stored) == assigned


def node(name: str, cpu: str = "10", **labels: str) -> Manifest:
    capacity = {"cpu": cpu, "memory": "10Gi"}
    return {"metadata": {"name": name, "labels": labels}, "status": {"capacity": capacity, "allocatable": capacity}}


def pod(name: str, on: str, cpu: str, **more: Any) -> Manifest:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    meta = {"namespace": "ns", "name": name, **more.pop("metadata", {})}
    return {
        "metadata": meta,
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": "Running"},
        **more,
    }


def configure(world: World, text: str) -> None:
    world.put(
        kinds.CONFIG_MAP,
        {
            "metadata": {"namespace": "volcano-system", "name": "volcano-sharding-configmap"},
            "data": {"sharding.yaml": text},
        },
    )
    world.wait(DEBOUNCE_SECONDS)


def shards(world: World) -> dict[str, tuple[str, ...]]:
    return {name: world.get(kinds.NODE_SHARD, name).spec.nodes_desired for name in world.names(kinds.NODE_SHARD)}


def running(text: str, *cluster: tuple[Any, Manifest]) -> World:
    """Return a controller that has read a configuration and the objects, and has written its shards."""
    world = World([ShardingController])
    configure(world, text)
    for kind, manifest in cluster:
        world.put(kind, manifest)
    world.wait(DEBOUNCE_SECONDS)
    return world


def test_shards_follow_the_requests_on_nodes() -> None:
    world = running(TWO, *((kinds.NODE, node(f"n{at}")) for at in range(3)))
    assert shards(world) == {"low": ("n0", "n1", "n2"), "high": ()}
    world.put(kinds.POD, pod("p", "n1", "8"))
    world.wait(DEBOUNCE_SECONDS)
    assert shards(world) == {"low": ("n0", "n2"), "high": ("n1",)}, "a large change is not left to the next period"
    world.put(kinds.POD, {**pod("p", "n1", "8"), "status": {"phase": "Succeeded"}})
    world.wait(DEBOUNCE_SECONDS)
    assert shards(world) == {"low": ("n0", "n1", "n2"), "high": ()}


def test_small_changes_wait_for_the_period() -> None:
    world = running(TWO + "shardSyncPeriod: 30s", (kinds.NODE, node("n0")), (kinds.POD, pod("p0", "n0", "3")))
    world.put(kinds.POD, pod("p1", "n0", "4"))
    world.wait(20.0)
    assert shards(world) == {"low": ("n0",), "high": ()}
    world.wait(10.0)
    assert shards(world) == {"low": (), "high": ("n0",)}


def test_copies_of_static_pods_do_not_count() -> None:
    mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    world = running(TWO, (kinds.NODE, node("n0")), (kinds.POD, pod("p", "n0", "8", metadata=mirror)))
    assert shards(world) == {"low": ("n0",), "high": ()}


def test_without_the_trigger_nodes_wait_for_the_period() -> None:
    world = running(LIMITED + "enableNodeEventTrigger: false", (kinds.NODE, node("n0")))
    assert shards(world) == {"a": (), "b": ()}
    world.wait(10.0)
    assert shards(world) == {"a": ("n0",), "b": ()}


def test_a_shard_that_somebody_changed_is_written_again_and_stale_ones_are_deleted() -> None:
    world = running(LIMITED, (kinds.NODE, node("n0")), (kinds.NODE, node("n1")))
    assert shards(world) == {"a": ("n0",), "b": ("n1",)}
    world.put(kinds.NODE_SHARD, {"metadata": {"name": "old"}, "spec": {"nodesDesired": ["n0"]}})
    world.put(kinds.NODE_SHARD, {"metadata": {"name": "a"}, "spec": {"nodesDesired": []}})
    world.wait(DEBOUNCE_SECONDS)
    assert shards(world) == {"a": ("n0",), "b": ("n1",)}


def test_an_invalid_configuration_keeps_the_previous_one_and_is_reported_once() -> None:
    world = running(LIMITED, (kinds.NODE, node("n0")))
    configure(world, "schedulerConfigs: []")
    world.wait(60.0)
    assert shards(world) == {"a": ("n0",), "b": ()}
    (event,) = world.events
    assert event.startswith("Warning InvalidConfiguration: sharding.yaml: schedulerConfigs is empty; name at least")
    assert event.endswith("; the previous configuration stays in force")
    world.remove(kinds.CONFIG_MAP, "volcano-system/volcano-sharding-configmap")
    world.wait(60.0)
    assert shards(world) == {"a": ("n0",), "b": ()}, "its deletion changes nothing, either"
    configure(world, LIMITED.replace("name: a", "name: c"))
    assert shards(world) == {"b": (), "c": ("n0",)}


def test_nothing_is_written_while_nothing_changes() -> None:
    world = running(LIMITED, (kinds.NODE, node("n0")))
    writes = len(world.writes)
    world.wait(600.0)
    world.start()
    world.wait(600.0)
    assert len(world.writes) == writes
