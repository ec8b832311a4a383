"""drf with enableHierarchy: queues share resources by the tree and the weights in their annotations."""

from __future__ import annotations

from tests.scenario.scheduling.harness import Scenario, World, group, node, pods, queue, running, scenarios
from volcanoio.model.base import Manifest

CONF = """
actions: "allocate"
tiers:
- plugins:
  - name: drf
    enableHierarchy: true
"""
WITH_GANG = CONF.replace("- plugins:", "- plugins:\n  - name: gang", 1)
RECLAIM = """
actions: "allocate, reclaim"
tiers:
- plugins:
  - name: gang
    enableReclaimable: false
  - name: drf
    enableHierarchy: true
"""


def at(path: str, weights: str) -> Manifest:
    """Return a queue at a path in the tree, whose name is the path with dashes."""
    manifest = queue(path.replace("/", "-"))
    manifest["metadata"]["annotations"] = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}
    return manifest


def job(name: str, path: str, count: int = 10, **requests: str) -> list[Manifest]:
    """Return a job without a minimum in the queue at a path."""
    return [group(name, 0, queue=path.replace("/", "-"), phase="Inqueue"), *pods(name, count, name, **requests)]


TWELVE_CPUS = node("n1", cpu="12", memory="120G", pods="200")
EIGHT_CPUS = node("n1", cpu="8", memory="80G", pods="200")


@scenarios(
    # The share of the parent is the larger of its children's shares of different resources, not their sum.
    Scenario(
        name="a resource that one child does not request is left to its sibling",
        cluster=[
            node("n1", cpu="10", memory="10G", pods="50"),
            at("root/sci", "100/50"),
            at("root/eng/dev", "100/50/50"),
            at("root/eng/prod", "100/50/50"),
            *job("sci", "root/sci", cpu="1", memory="1G"),
            *job("dev", "root/eng/dev", cpu="1"),
            *job("prod", "root/eng/prod", memory="1G"),
        ],
        bind_counts={"sci": 5, "dev": 5, "prod": 5},
    ),
    # The cpus are used up by a, b and x; y requests memory only.
    Scenario(
        name="a queue that waits for an exhausted resource does not block its siblings",
        cluster=[
            node("n1", cpu="30", memory="30G", pods="200"),
            at("root/a", "100/30"),
            at("root/b", "100/30"),
            at("root/c/x", "100/30/50"),
            at("root/c/y", "100/30/50"),
            *job("a", "root/a", 30, cpu="1"),
            *job("b", "root/b", 30, cpu="1"),
            *job("x", "root/c/x", 30, cpu="1"),
            *job("y", "root/c/y", 30, memory="1G"),
        ],
        bind_counts={"a": 10, "b": 10, "x": 10, "y": 30},
    ),
    Scenario(
        name="a queue of weight two gets twice as much as a branch of weight one",
        cluster=[
            TWELVE_CPUS,
            at("root/a", "1/2"),
            at("root/b/x", "1/1/1"),
            at("root/b/y", "1/1/1"),
            *job("first", "root/a", 20, cpu="1"),
            *job("x", "root/b/x", 20, cpu="1"),
            *job("y", "root/b/y", 20, cpu="1"),
        ],
        bind_counts={"first": 8, "x": 2, "y": 2},
    ),
    Scenario(
        name="a queue of weight four gets twice as much as two siblings of weight one together",
        cluster=[
            TWELVE_CPUS,
            at("root/b/a", "1/1/4"),
            at("root/b/x", "1/1/1"),
            at("root/b/y", "1/1/1"),
            *job("first", "root/b/a", 20, cpu="1"),
            *job("x", "root/b/x", 20, cpu="1"),
            *job("y", "root/b/y", 20, cpu="1"),
        ],
        bind_counts={"first": 8, "x": 2, "y": 2},
    ),
    Scenario(
        name="a queue gets as much as a branch of two queues of equal weight",
        cluster=[
            TWELVE_CPUS,
            at("root/a", "1/1"),
            at("root/b/x", "1/1/1"),
            at("root/b/y", "1/1/1"),
            *job("first", "root/a", 20, cpu="1"),
            *job("x", "root/b/x", 20, cpu="1"),
            *job("y", "root/b/y", 20, cpu="1"),
        ],
        bind_counts={"first": 6, "x": 3, "y": 3},
    ),
    Scenario(
        name="a weight below one counts as one",
        cluster=[
            TWELVE_CPUS,
            at("root/a", "1/0.1"),
            at("root/b/x", "1/1/1"),
            at("root/b/y", "1/1/1"),
            *job("first", "root/a", 20, cpu="1"),
            *job("x", "root/b/x", 20, cpu="1"),
            *job("y", "root/b/y", 20, cpu="1"),
        ],
        bind_counts={"first": 6, "x": 3, "y": 3},
    ),
    Scenario(
        name="a queue without annotations is below the root and has weight one",
        cluster=[
            EIGHT_CPUS,
            at("root/a", "1/1"),
            *job("a", "root/a", 20, cpu="1"),
            *job("b", "default", 20, cpu="1"),
        ],
        bind_counts={"a": 4, "b": 4},
    ),
    Scenario(
        name="a queue with a smaller share evicts while its share stays smaller",
        conf=RECLAIM,
        cluster=[
            EIGHT_CPUS,
            at("root/a", "1/1"),
            at("root/b", "1/1"),
            group("a", 0, queue="root-a", phase="Running"),
            *running("a", 8),
            group("b", 3, queue="root-b", phase="Inqueue"),
            *pods("b", 6, "b", cpu="1"),
        ],
        evicts=["a-5", "a-6", "a-7"],
    ),
    Scenario(
        name="a queue evicts nothing for a gang that would make the shares equal",
        conf=RECLAIM,
        cluster=[
            EIGHT_CPUS,
            at("root/a", "1/1"),
            at("root/b", "1/1"),
            group("a", 0, queue="root-a", phase="Running"),
            *running("a", 8),
            group("b", 4, queue="root-b", phase="Inqueue"),
            *pods("b", 6, "b", cpu="1"),
        ],
    ),
    conf=CONF,
)
def test_hierarchical_shares(scenario: Scenario) -> None:
    scenario.check()


def test_a_gang_that_did_not_fit_does_not_change_the_shares_and_a_second_run_decides_the_same() -> None:
    objects = [
        EIGHT_CPUS,
        at("root/a", "1/1"),
        at("root/b", "1/1"),
        group("big", 9, queue="root-a", phase="Inqueue"),
        *pods("big", 9, "big", cpu="1"),
        *job("a", "root/a", 8, cpu="1"),
        *job("b", "root/b", 8, cpu="1"),
    ]
    world = World(*objects, conf=WITH_GANG)
    world.cycle()
    assert {name: sum(bound.startswith(f"{name}-") for bound in world.binds) for name in ("a", "b", "big")} == {
        "a": 4,
        "b": 4,
        "big": 0,
    }
    again = World(*objects, conf=WITH_GANG)
    again.cycle()
    assert again.binds == world.binds
