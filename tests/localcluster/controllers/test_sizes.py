"""The arithmetic of rollouts: never more than the surge, never fewer than must be available."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from volcanoio.localcluster.controllers.deployments.rollout import (
    MAXIMUM,
    Limits,
    limits_of,
    observed,
    proportional,
    rolled_down,
    rolled_up,
    size,
)
from volcanoio.localcluster.controllers.objects import Workload
from volcanoio.model.base import ObjectMeta

COUNTS = st.integers(0, 12)


def replica_set(name: str, replicas: int, available: int = 0, maximum: int | None = None) -> Workload:
    """A ReplicaSet of that size."""
    notes = {} if maximum is None else {MAXIMUM: str(maximum)}
    meta = ObjectMeta(name=name, annotations=notes)
    return Workload(metadata=meta, spec={"replicas": replicas}, status={"availableReplicas": available})


SETS = st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=4).map(
    lambda pairs: [replica_set(f"rs{at}", wanted, min(wanted, up)) for at, (wanted, up) in enumerate(pairs)]
)
LIMITS = st.builds(Limits, st.integers(0, 12), st.integers(0, 4), st.integers(0, 4)).filter(
    lambda one: one.surge + one.unavailable > 0 and one.unavailable <= max(one.replicas, 1)
)


@given(LIMITS, SETS)
def test_growing_stays_within_the_surge(limits: Limits, sets: list[Workload]) -> None:
    *old, newest = sets
    grown = rolled_up(limits, newest, old)
    assert grown <= limits.replicas
    before, after = sum(map(size, sets)), sum(map(size, old)) + grown
    assert after <= max(before, limits.maximum)


@given(LIMITS, SETS)
def test_shrinking_leaves_enough_available(limits: Limits, sets: list[Workload]) -> None:
    *old, newest = sets
    sizes = rolled_down(limits, newest, old)
    assert all(0 <= wanted < size(one) for one in old if (wanted := sizes.get(one.metadata.name)) is not None)
    before = sum(observed(one, "availableReplicas") for one in sets)
    left = observed(newest, "availableReplicas") + sum(
        min(observed(one, "availableReplicas"), sizes.get(one.metadata.name, size(one))) for one in old
    )
    assert left >= min(before, limits.replicas - limits.unavailable)


@given(LIMITS, SETS)
def test_scaling_amid_a_rollout_gives_all(limits: Limits, sets: list[Workload]) -> None:
    """No more either, unless what rounding leaves is more than the largest has: Kubernetes stops at 0 there, too."""
    active = [one for one in sets if size(one)]
    sizes = proportional(limits, active, sum(map(size, active)))
    assert all(wanted >= 0 for wanted in sizes.values())
    total, wanted = sum(sizes.values()), limits.maximum if limits.replicas else 0
    assert not active or total == wanted or (total > wanted and 0 in sizes.values())


def test_shares_follow_sizes() -> None:
    sets = [replica_set("old", 8, 8, 13), replica_set("new", 5, 0, 13)]
    assert proportional(Limits(15, 3, 2), sets, 13) == {"old": 11, "new": 7}


def test_percentages_round_towards_progress() -> None:
    rolling = {"maxSurge": "25%", "maxUnavailable": "25%"}
    spec = {"replicas": 3, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}
    assert limits_of(Workload(spec=spec)) == Limits(3, 1, 0)
    none = {"maxSurge": 0, "maxUnavailable": "10%"}
    spec = {"replicas": 3, "strategy": {"type": "RollingUpdate", "rollingUpdate": none}}
    assert limits_of(Workload(spec=spec)) == Limits(3, 0, 1)
    assert limits_of(Workload(spec={"replicas": 3, "strategy": {"type": "Recreate"}})) == Limits(3, 0, 0)
