"""The clusters of the scorecard on small literal loads."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from bench.quality import comparing, gangs, openb
from bench.quality.derived_traces import Rule, constrained, redrawn
from bench.quality.gang_cluster import FIRST, GangCluster, Played, count_evictions
from bench.quality.job_mixes import GangJob
from bench.quality.openb import POLICIES, GpuCluster
from bench.quality.openb_trace import GpuNode, GpuPod, draw
from volcanoio.engine.scheduling.cluster.nominations import EvictionRecord
from volcanoio.engine.scheduling.config.profile import Profile

NODES = [GpuNode("n0", 8000, 8192, 2, "T4"), GpuNode("n1", 8000, 8192, 2, "P100")]
HALF, WHOLE = GpuPod(1000, 1024, 1, 500, ()), GpuPod(1000, 1024, 1, 1000, ())
SEVERAL = GpuPod(1000, 1024, 2, 1000, ())
ON_T4 = GpuPod(1000, 1024, 2, 1000, ("T4",))


@pytest.mark.parametrize("policy", ["best-fit", "fgd", "fragmentation-aware", "gpu-clustering", "random"])
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


def test_gpu_clustering_prefers_nodes_with_pods_of_the_same_class() -> None:
    nodes = [GpuNode(f"n{at}", 8000, 8192, 2, "T4") for at in range(3)]
    cluster = GpuCluster(nodes, [HALF, WHOLE], POLICIES["gpu-clustering"], seed=0)
    cluster.run([WHOLE, HALF, WHOLE, HALF])
    assert cluster.free == [[0, 0], [0, 1000], [1000, 1000]]


def test_derived_pods_request_their_parts_of_the_gpus() -> None:
    given = [HALF] * 6 + [WHOLE] * 2 + [SEVERAL, GpuPod(1000, 1024, 0, 0, ())]
    pods = redrawn(given, Rule(shared=0.6, several=0.2, cpu_pods=2.0), random.Random(1))
    requested = {kind: sum(pod.request for pod in pods if pod[2:] == kind[2:]) for kind in (HALF, WHOLE, SEVERAL)}
    assert requested == {HALF: 4500, WHOLE: 2000, SEVERAL: 2000}, "of 7000: 60, 20 and 20 percent, rounded up to pods"
    assert sum(not pod.gpus for pod in pods) == 2


def test_derived_pods_name_models_as_pods_with_as_many_gpus_do() -> None:
    pods = constrained([HALF, SEVERAL], [ON_T4], 1.0, random.Random(1))
    assert pods == [HALF, ON_T4]


def test_a_row_is_compared_on_the_seeds_that_are_measured_again() -> None:
    figures = [[[90.0 + seed] * 2] * 3 for seed in range(4)]
    row = {"trace": "default", "policy": "fgd", "seeds": 4, "by_seed": figures, "deviation": [0.5, 0.5, 0.5]}
    again = openb.repeated(row, Path())
    assert again.seeds == 2
    assert openb.comparable(row, again)["allocated"] == [90.5, 90.5, 90.5]


def test_rows_are_worse_beyond_their_noise_only() -> None:
    committed = {"allocated": [95.0] * 3, "fragmented": [4.0] * 3, "deviation": [0.3] * 3, "seeds": 4}
    assert not list(comparing.worse("openb", {**committed, "allocated": [95.0, 95.0, 94.8]}, committed))
    (found,) = comparing.worse("openb", {**committed, "allocated": [95.0, 95.0, 94.6]}, committed)
    assert found == {"figure": "allocated.2", "committed": 95.0, "now": 94.6, "noise": 0.3}


def test_an_urgent_gang_evicts_one_that_runs() -> None:
    jobs = [GangJob(0, 1, 5), *(GangJob(at, 4, 50) for at in (10, 20, 30, 40))]
    cluster = GangCluster(4, jobs, _profile("urgent-gangpreempt"), urgent=True)
    cluster.play()
    assert cluster.evictions() == (4, 0, 0)
    assert [one.starts for one in cluster.played][1::3] == [[10, 95], [45]]


def test_evictions_count_as_useless_and_as_repeated() -> None:
    played = [Played(GangJob(0, 1, 50), 0, starts=[100])]
    evicted = [("a", 40), ("a", 40), ("b", 39), ("a", 90)]
    records = [EvictionRecord("", "", job, "", 0, "", "", 0, FIRST + at, by="ns/job-0") for job, at in evicted]
    assert count_evictions(records, played) == (4, 1, 1), "b is evicted more than a minute before the start"
    assert count_evictions([records[0]._replace(by="")], played) == (1, 1, 0)


def _profile(configuration: str) -> Profile:
    return gangs.profile(gangs.PLAYED[configuration].text)


def test_gangs_run_in_order_and_wait_for_room() -> None:
    jobs = [GangJob(0, 4, 100), GangJob(10, 4, 100), GangJob(20, 1, 50)]
    cluster = GangCluster(4, jobs, _profile(gangs.FIFO))
    cluster.play()
    assert [(one.started, one.ended) for one in cluster.played] == [(0, 100), (100, 200), (200, 250)]
    assert cluster.evictions() == (0, 0, 0)


def test_finish_time_fairness_is_one_where_a_job_never_shares() -> None:
    cluster = GangCluster(4, [GangJob(0, 4, 100)], _profile(gangs.FIFO))
    cluster.play()
    np.testing.assert_allclose(gangs.fairness(cluster.played, 4), [1.0])


def test_a_job_that_waits_as_long_as_it_runs_beside_an_equal_one_has_its_fair_share() -> None:
    jobs = [GangJob(0, 4, 100), GangJob(0, 4, 100)]
    cluster = GangCluster(4, jobs, _profile(gangs.FIFO))
    cluster.play()
    np.testing.assert_allclose(gangs.fairness(cluster.played, 4), [1 / 2, 2 / 1.5])
