"""The clusters of the scorecard on small literal loads."""

from __future__ import annotations

import numpy as np
import pytest

from bench.quality import gangs
from bench.quality.gang_cluster import GangCluster
from bench.quality.job_mixes import GangJob
from bench.quality.openb import POLICIES, GpuCluster
from bench.quality.openb_trace import GpuNode, GpuPod, draw

NODES = [GpuNode("n0", 8000, 8192, 2, "T4"), GpuNode("n1", 8000, 8192, 2, "P100")]
HALF, WHOLE = GpuPod(1000, 1024, 1, 500, ()), GpuPod(1000, 1024, 1, 1000, ())
ON_T4 = GpuPod(1000, 1024, 2, 1000, ("T4",))


@pytest.mark.parametrize("policy", ["best-fit", "fgd", "fragmentation-aware", "random"])
def test_shares_of_gpus_are_counted(policy: str) -> None:
    cluster = GpuCluster(NODES, [HALF, WHOLE], POLICIES[policy], seed=0)
    figures = cluster.run([HALF, HALF, WHOLE, WHOLE, WHOLE])
    if policy == "random":
        assert figures[-1].allocated in (75, 100), "random spreads shares over two GPUs"
    else:
        assert figures[-1] == (100, 0)


def test_a_pod_without_a_gpu_of_its_model_is_left_out() -> None:
    cluster = GpuCluster(NODES, [ON_T4], POLICIES["fragmentation-aware"], seed=0)
    (_, _, last) = cluster.run([ON_T4, ON_T4])
    assert last == (50, 50), "nothing that is idle is of use to such pods"


def test_drawn_pods_request_the_load_and_are_the_same_for_a_seed() -> None:
    drawn = draw([HALF, WHOLE], 4, seed=1)
    assert drawn == draw([HALF, WHOLE], 4, seed=1)
    assert 5200 <= sum(pod.request for pod in drawn) <= 6200


def test_gangs_run_in_order_and_wait_for_room() -> None:
    jobs = [GangJob(0, 4, 100), GangJob(10, 4, 100), GangJob(20, 1, 50)]
    cluster = GangCluster(4, jobs, gangs.profile(gangs.configurations()[gangs.FIFO]), queues=False)
    cluster.play()
    assert [(one.started, one.ended) for one in cluster.played] == [(0, 100), (100, 200), (200, 250)]
    assert cluster.evictions() == (0, 0, 0)


def test_finish_time_fairness_is_one_where_a_job_never_shares() -> None:
    cluster = GangCluster(4, [GangJob(0, 4, 100)], gangs.profile(gangs.configurations()[gangs.FIFO]), queues=False)
    cluster.play()
    np.testing.assert_allclose(gangs.fairness(cluster.played, 4), [1.0])


def test_a_job_that_waits_as_long_as_it_runs_beside_an_equal_one_has_its_fair_share() -> None:
    jobs = [GangJob(0, 4, 100), GangJob(0, 4, 100)]
    cluster = GangCluster(4, jobs, gangs.profile(gangs.configurations()[gangs.FIFO]), queues=False)
    cluster.play()
    np.testing.assert_allclose(gangs.fairness(cluster.played, 4), [1 / 2, 2 / 1.5])
