"""Plugin nodegroup: queues and the node groups they may, should and should not use."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.scheduling.harness import World, group, node, pod, pods, queue
from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: nodegroup
    {switches}
"""


def conf(switches: str = "") -> str:
    return CONF.replace("{switches}", switches)


def grouped(name: str, of: str = "", **more: str) -> Manifest:
    return node(name, labels={"volcano.sh/nodegroup-name": of} if of else {}, **more)


def affine(name: str, *, limits: str = "", parent: str = "", **parts: list[str]) -> Manifest:
    """A queue: `required`, `preferred`, `forbidden` and `avoided` are groups."""
    keys = {
        "required": ("nodeGroupAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
        "preferred": ("nodeGroupAffinity", "preferredDuringSchedulingIgnoredDuringExecution"),
        "forbidden": ("nodeGroupAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
        "avoided": ("nodeGroupAntiAffinity", "preferredDuringSchedulingIgnoredDuringExecution"),
    }
    affinity: dict[str, Any] = {}
    for part, groups in parts.items():
        outer, inner = keys[part]
        affinity.setdefault(outer, {})[inner] = groups
    spec: dict[str, Any] = {"affinity": affinity} if affinity else {}
    manifest = queue(name, **spec, **({"parent": parent} if parent else {}))
    if limits:
        manifest["metadata"]["annotations"] = {"volcano.sh/nodegroup-resource-limits": limits}
    return manifest


NODES = (grouped("n1", "g1"), grouped("n2", "g2"), grouped("n3", "g3"), grouped("n4", "g4"), grouped("bare"))


def usable(of: Manifest, text: str) -> set[str]:
    """The nodes that a queue's pods use when there is one for each."""
    one_each = [grouped(item["metadata"]["name"], *item["metadata"]["labels"].values(), cpu="1") for item in NODES]
    world = World(*one_each, of, group("g", 0, queue=of["metadata"]["name"]), *pods("p", 5, "g", cpu="1"), conf=text)
    world.cycle()
    return set(world.binds.values())


@pytest.mark.parametrize(
    ("of", "strict", "nodes"),
    [
        (affine("q", required=["g1"], preferred=["g2"]), True, {"n1", "n2"}),
        (affine("q", required=["g1", "g2"], forbidden=["g2"]), True, {"n1"}),
        (affine("q", required=["g1"], forbidden=["g4"], avoided=["g4"]), True, {"n1", "n4"}),
        (affine("q"), True, set()),
        (affine("q"), False, {"bare"}),
        (affine("q", required=["g1"]), False, {"n1"}),
    ],
)
def test_which_nodes_a_queue_may_use(of: Manifest, strict: bool, nodes: set[str]) -> None:
    assert usable(of, conf("" if strict else "arguments: {strict: false}")) == nodes


def first(of: Manifest, text: str, *more: Manifest) -> str:
    world = World(*NODES, of, *more, group("g", 1, queue=of["metadata"]["name"]), pod("p", "g", cpu="1"), conf=text)
    world.cycle()
    return world.binds.get("p", "")


def test_what_is_required_is_better_than_what_is_preferred_and_both_best() -> None:
    assert first(affine("q", required=["g1"], preferred=["g2"]), conf()) == "n1"
    assert first(affine("q", required=["g1", "g2"], preferred=["g2"]), conf()) == "n2"
    assert first(affine("q", required=["g1"], preferred=["g1", "g2"], avoided=["g1"]), conf()) == "n2"


def test_of_preferred_groups_the_first_is_best_where_order_counts() -> None:
    assert first(affine("q", preferred=["g3", "g1"]), conf("arguments: {enablePreferredOrder: true}")) == "n3"


def test_a_queue_inherits_from_its_nearest_ancestor_where_queues_are_a_tree() -> None:
    tree = (affine("root", required=["g1"]), affine("mid", parent="root"))
    leaf = affine("leaf", parent="mid")
    assert first(leaf, conf("enableHierarchy: true"), *tree) == "n1"
    assert first(leaf, conf(), *tree) == ""


def test_a_queue_takes_no_more_of_a_group_than_its_limit() -> None:
    of = affine("q", required=["g1", "g2"], preferred=["g1"], limits='{"g1": {"cpu": "3"}}')
    held = (group("old", 1, queue="q", phase="Running"), pod("old", "old", on="n1", phase="Running", cpu="1"))
    world = World(*NODES, of, *held, group("g", 4, queue="q"), *pods("p", 4, "g", cpu="1"), conf=conf())
    world.cycle()
    assert sorted(world.binds.values()) == ["n1", "n1", "n2", "n2"]


def test_what_a_discarded_gang_took_does_not_count() -> None:
    of = affine("q", required=["g1"], limits='{"g1": {"cpu": "3"}}')
    gangs = (group("big", 4, queue="q"), *pods("big", 4, "big", cpu="1"), group("fits", 3, queue="q"))
    world = World(*NODES, of, *gangs, *pods("fits", 3, "fits", cpu="1"), conf=conf())
    world.cycle()
    assert set(world.binds) == {"fits-0", "fits-1", "fits-2"}


def test_limits_that_cannot_be_read_keep_the_queue_out() -> None:
    assert first(affine("q", required=["g1"], limits='{"g1":'), conf()) == ""


def test_the_reason_is_reported() -> None:
    for of, reason in (
        (affine("q", required=["g9"]), "node does not satisfy the node group affinity"),
        (affine("q"), "node group affinity not specified"),
    ):
        world = World(*NODES, of, group("g", 1, queue="q"), pod("p", "g", cpu="1"), conf=conf())
        world.cycle()
        errors = world.state.ledger.jobs["ns/g"].attempts.fit_errors
        assert next(iter(errors.values())).counts == {"node group label not found": 1, reason: 4}


def test_another_affinity_counts_from_the_next_cycle_on() -> None:
    world = World(*NODES, affine("q", required=["g9"]), group("g", 1, queue="q"), pod("p", "g", cpu="1"), conf=conf())
    world.cycle()
    assert world.binds == {}
    world.put(affine("q", required=["g2"]))
    world.cycle()
    assert world.binds == {"p": "n2"}
