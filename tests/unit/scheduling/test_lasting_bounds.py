"""Node capacities, gang minimums and queue limits hold at every moment, counted by the objects alone.

Bound pods may start late, be refused, or terminate slowly; they use their room meanwhile.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.scheduling.slow_cluster import LEAVES, SlowCluster

TIERS = {
    "capacity": "{name: capacity}",
    "tree": "{name: capacity, enableHierarchy: true}",
    "level": "{name: capacity, enableHierarchy: true, arguments: {ancestorReclaimLevel: 2}}",
    "proportion": "{name: proportion}",
}
ACTIONS = (
    "enqueue, allocate, backfill",
    "enqueue, allocate, backfill, reclaim, preempt",
    "gangpreempt, gangreclaim, allocate, backfill",
    "preempt, reclaim, allocate, backfill",
)
JOB = st.fixed_dictionaries(
    {
        "size": st.integers(1, 4),
        "minimum": st.integers(1, 4),
        "cpu": st.sampled_from(["500m", "1", "2", ""]),
        "queue": st.sampled_from(LEAVES),
        "rank": st.sampled_from(["low", "mid", "high"]),
        "at": st.integers(0, 4),
    }
)
LIMIT = st.sampled_from([None, None, 2, 4, 6])
REACTION = st.sampled_from(["starts", "starts", "late", "refused", "removes", "ends"])


@examples(80)
@given(
    limiting=st.sampled_from(sorted(TIERS)),
    actions=st.sampled_from(ACTIONS),
    nodes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    limits=st.fixed_dictionaries(dict.fromkeys(("top", *LEAVES), LIMIT)),
    jobs=st.lists(JOB, min_size=2, max_size=7),
    reactions=st.lists(st.tuples(REACTION, st.integers(0, 9)), min_size=6, max_size=14),
)
def test_node_capacities_gang_minimums_and_queue_limits_hold_at_every_moment(
    limiting: str,
    actions: str,
    nodes: list[int],
    limits: dict[str, int | None],
    jobs: list[Any],
    reactions: list[tuple[str, int]],
) -> None:
    if limiting in ("capacity", "proportion"):
        limits = {name: limits[name] for name in LEAVES}
    conf = f"""
actions: "{actions}"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
- plugins: [{{name: predicates}}, {TIERS[limiting]}, {{name: nodeorder}}]
"""
    cluster, bound = SlowCluster(conf, nodes, limits, jobs), Counter[str]()
    for turn, (what, choice) in enumerate(reactions):
        cluster.arrive(turn)
        cluster.world.cycle()
        cluster.check_gangs(bound)
        cluster.react(what, choice)
        cluster.check_nodes()
        cluster.check_limits(tree=limiting in ("tree", "level"))
