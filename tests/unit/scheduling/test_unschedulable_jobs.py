"""Skipping unschedulable jobs changes no decision: retrying all of them gives the same result in every cycle."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.scheduling.retrying_cluster import RetryingCluster

CONF = """
actions: "{actions}"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}]
- plugins: [{{name: drf}}, {{name: predicates}}, {{name: nodeorder}}{more}]
"""
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["job", "end", "gone", "terminate", "cordon", "grow", "refuse", "cycle", "cycle"]),
        st.integers(0, 7),
    ),
    max_size=40,
)


@pytest.mark.parametrize("more", ["", ", {name: overcommit}, {name: proportion}"], ids=["free", "limited"])
@pytest.mark.parametrize("actions", ["enqueue, allocate, backfill", "enqueue, allocate, preempt, reclaim"])
def test_trying_every_job_in_every_cycle_gives_the_same_decisions(actions: str, more: str) -> None:
    @examples(40)
    @given(jobs=st.lists(st.integers(0, 7), min_size=5, max_size=9), steps=STEPS)
    def compare(jobs: list[int], steps: list[tuple[str, int]]) -> None:
        clusters = [
            RetryingCluster(CONF.format(actions=actions, more=more), retries_all=retries_all)
            for retries_all in (False, True)
        ]
        first = [("job", number) for number in jobs]
        for what, number in [*first, ("cycle", 0), *steps, ("cycle", 0), ("cycle", 0)]:
            kept, forgotten = (cluster.step(what, number) for cluster in clusters)
            assert kept == forgotten

    compare()
