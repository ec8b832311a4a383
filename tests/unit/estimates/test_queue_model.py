"""The queue model starts jobs as the scheduler's default configuration does."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.estimates.models import model, running, waiting
from volcanoio.engine.estimates.intervals import interval_of
from volcanoio.engine.estimates.queue_model import QueueModel


def starts(cluster: QueueModel) -> list[float]:
    """Return the starts of a cluster whose future is certain."""
    found = cluster.starts(samples=2)
    assert (found[0] == found[1]).all()
    return [round(float(each)) for each in found[0]]


def test_a_job_starts_when_its_room_is_freed() -> None:
    assert starts(model([0.0], waiting("a", 0), run=[running([0], age=40, seconds=[100.0])])) == [60]


def test_a_gang_waits_for_all_its_pods_and_a_smaller_job_goes_first() -> None:
    ends = [running([0], age=0, seconds=[50.0]), running([1], age=0, seconds=[80.0])]
    assert starts(model([0.0, 0.0], waiting("gang", 0, pods=2), waiting("small", 1), run=ends)) == [150, 50]


def test_room_on_two_nodes_is_not_room_for_one_pod() -> None:
    ends = [running([0], age=0, seconds=[30.0]), running([1], age=0, seconds=[30.0, 30.0], cores=2)]
    assert starts(model([0.0, 0.0], waiting("wide", 0, cores=2), run=ends)) == [30]
    assert starts(model([1.0, 1.0], waiting("wide", 0, cores=2), run=[running([0], 0, [70.0])])) == [70]


def test_pods_beyond_the_minimum_start_after_jobs_that_do_not_run_yet() -> None:
    elastic = waiting("elastic", 0, pods=3, minimum=1)
    assert starts(model([1.0], elastic, waiting("next", 1))) == [0, 100]


def test_a_queue_at_its_capability_waits_although_there_is_room() -> None:
    cluster = model([9.0], waiting("a", 0, cores=2, queue="small"), waiting("b", 1, queue="small", cores=2), small=3.0)
    assert starts(cluster) == [0, 100]


def test_the_queue_with_the_smaller_share_is_first() -> None:
    groups = [waiting(f"{queue}-{number}", number, queue=queue) for queue in ("x", "y") for number in (0, 1)]
    assert starts(model([2.0], *groups, x=9.0, y=9.0)) == [0, 100, 0, 100]


def test_only_possible_nodes_are_used() -> None:
    picky = waiting("picky", 0, nodes=np.array([False, True]))
    assert starts(model([5.0, 0.0], picky, run=[running([1], age=0, seconds=[40.0])])) == [40]


def test_jobs_to_come_take_the_room_of_a_gang_that_waits() -> None:
    gang = waiting("gang", 0, pods=2)
    cluster = model([0.0, 0.0], gang, run=[running([0], 0, [50.0]), running([1], 0, [90.0])])
    future = [waiting(f"new-{at}", 9, arrives=float(at)) for at in (10, 100)]
    alone, contended = cluster.starts(samples=2)[0, 0], cluster.starts([future], samples=2)[0, 0]
    assert (round(float(alone)), round(float(contended)) > 100) == (90, True)


def test_what_never_fits_is_later_than_was_simulated() -> None:
    assert cluster_never().starts(samples=3).tolist() == [[np.inf]] * 3


def cluster_never() -> QueueModel:
    return model([1.0], waiting("huge", 0, cores=5))


def test_samples_are_the_same_for_the_same_seed_and_cover_the_run_times() -> None:
    cluster = model([0.0], waiting("a", 0), run=[running([0], age=0, seconds=[10.0, 20.0, 30.0, 40.0])])
    first = cluster.starts(samples=8, seed=3)
    assert first.tolist() == cluster.starts(samples=8, seed=3).tolist()
    assert sorted(first[:, 0].round().tolist()) == [10, 10, 20, 20, 30, 30, 40, 40]


@st.composite
def clusters(draw: st.DrawFn) -> QueueModel:
    """Return random clusters in which all waiting jobs have the same needs."""
    nodes = draw(st.integers(1, 4))
    pods, cores = draw(st.integers(1, 4)), draw(st.sampled_from([1.0, 2.0]))
    times = st.lists(st.floats(1, 500), min_size=1, max_size=6).map(sorted)
    run = draw(
        st.lists(
            st.builds(running, st.lists(st.integers(0, nodes - 1), min_size=1, max_size=4), st.floats(0, 100), times),
            max_size=6,
        )
    )
    free = draw(st.lists(st.integers(0, 4).map(float), min_size=nodes, max_size=nodes))
    same = [waiting(f"job-{place}", place, pods, cores, seconds=np.array([90.0, 110.0])) for place in range(4)]
    return model(free, *same, run=run)


@given(clusters(), st.integers(0, 99))
@pytest.mark.hypothesis
def test_a_job_ahead_with_the_same_needs_never_starts_later(cluster: QueueModel, seed: int) -> None:
    found = cluster.starts(samples=4, seed=seed)
    assert (found[:, 1:] >= found[:, :-1]).all()
    answers = [interval_of(found[:, at]) for at in range(found.shape[1])]
    for ahead, behind in pairwise(answers):
        assert ahead.p10 <= behind.p10
        assert ahead.p50 <= behind.p50
        assert ahead.p90 <= behind.p90
