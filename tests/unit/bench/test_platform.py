"""A platform of 20 nodes for half an hour: nothing is refused or lost, and the alarm that says so is one."""

from __future__ import annotations

import pytest

from bench.day.arrivals import NODES, PODS, arrivals, length
from bench.platform import day, passed


async def test_no_node_refuses_a_pod_and_no_job_is_lost() -> None:
    figures = await day(600, 20)
    assert passed(figures, uncounted=False), figures
    assert figures["jobs"] == 30
    assert figures["utilisation"] > 0.8


async def test_a_scheduler_that_does_not_count_its_binds_is_detected() -> None:
    figures = await day(200, 20, uncounted=True)
    assert passed(figures, uncounted=True), figures
    assert figures["refused_by_nodes"] == figures["times_a_node_was_overfull"] > 0


@pytest.mark.parametrize(("pods", "nodes"), [(1000, 20), (PODS, NODES)])
def test_the_arrival_rate_does_not_depend_on_the_size(pods: int, nodes: int) -> None:
    came = list(arrivals(pods, nodes))
    assert sum(each.pods for each in came) == pods
    assert [each.at for each in came] == sorted(each.at for each in came)
    assert 0 <= came[0].at < came[-1].at < length(pods, nodes)
