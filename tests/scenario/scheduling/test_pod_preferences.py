"""Preferred pod affinity and topology spread with ScheduleAnyway: scores of the feasible nodes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.scenario.scheduling.harness import World, group
from tests.scenario.scheduling.podrules import HOST, ZONE, asking, gang, near, prefers, running, spread, term, zoned
from volcanoio.engine.scheduling.session.cycle import open_session
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: nodeorder
    arguments:
      leastrequested.weight: 0
      balancedresource.weight: 0
      podaffinity.weight: {affinity}
      podtopologyspread.weight: {spread}
"""
NODES = (zoned("n0", "x"), zoned("n1", "y"), zoned("n2", "y"), zoned("n3"))


def preference_world(*objects: Manifest, affinity: int = 1, spread: int = 1, minimum: int = 1) -> World:
    conf = CONF.format(affinity=affinity, spread=spread)
    return World(*NODES, group("pg", minimum, phase="Inqueue"), *objects, conf=conf)


def scored(world: World, name: str) -> dict[str, list[float]]:
    """Return the score of each node for a pod, by the scorers of nodeorder that apply to it."""
    opening = CycleOpened(cycle=1, upto=0, seed=1, at=world.now)
    list(open_session(CycleSession(world.state, world.profile, opening)))
    columns, shape = world.state.ledger.columns, world.state.ledger.tasks[f"ns-{name}"].shape
    plugin = next(one.plugin for tier in world.profile.tiers for one in tier if one.plugin.name == "nodeorder")
    everywhere = columns.used("cpu") >= 0
    parts: Any = getattr(plugin, "scorers", ())
    return {
        type(part).__name__: part.score(shape, columns, everywhere).tolist()
        for part in parts
        if part.score_depends(shape)
    }


def test_preferred_affinity_raises_the_score_and_preferred_anti_affinity_lowers_it() -> None:
    there = running("there", "n0", labels={"app": "b"})
    draws = asking("p", "pg", affinity=prefers("podAffinity", weight=5, term=term(ZONE, app="b")))
    repels = asking("p", "pg", affinity=prefers("podAntiAffinity", weight=5, term=term(ZONE, app="b")))
    assert scored(preference_world(there, draws, affinity=2), "p") == {"PodAffinityScorer": [200, 0, 0, 0]}
    assert scored(preference_world(there, repels), "p") == {"PodAffinityScorer": [0, 100, 100, 100]}


def test_weights_are_summed_and_scaled_between_the_smallest_and_the_largest() -> None:
    there = [running("b", "n0", labels={"app": "b"}), running("c", "n1", labels={"app": "c"})]
    wishes = prefers("podAffinity", weight=10, term=term(ZONE, app="b"))["podAffinity"]
    more = prefers("podAffinity", weight=3, term=term(HOST, app="c"))["podAffinity"]
    key = "preferredDuringSchedulingIgnoredDuringExecution"
    both = {"podAffinity": {key: [*wishes[key], *more[key]]}}
    assert scored(preference_world(*there, asking("p", "pg", affinity=both)), "p") == {
        "PodAffinityScorer": [100, 30, 0, 0]
    }


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        (near(term(ZONE, app="a")), [0, 100, 100, 0]),
        (prefers("podAffinity", weight=5, term=term(ZONE, app="a")), [0, 100, 100, 0]),
        (prefers("podAntiAffinity", weight=5, term=term(ZONE, app="a")), [100, 0, 0, 100]),
    ],
)
def test_preferences_of_running_pods_count_too(affinity: dict[str, Any], expected: list[float]) -> None:
    there = [running("first", "n1"), running("there", "n1", labels={"app": "b"}, affinity=affinity)]
    assert scored(preference_world(*there, asking("p", "pg")), "p") == {"PodAffinityScorer": expected}


def test_domains_with_fewer_pods_score_higher() -> None:
    there = [running("x", "n1"), running("y", "n1"), running("z", "n2")]
    pod = asking("p", "pg", constraints=(spread(soft=True),))
    assert scored(preference_world(*there, pod, spread=3), "p") == {"SpreadScorer": [300, 0, 0, 0]}
    by_host = asking("p", "pg", constraints=(spread(HOST, soft=True),))
    assert scored(preference_world(*there, by_host), "p") == {"SpreadScorer": [100, 0, 50, 100]}


def test_a_gang_is_spread_as_evenly_as_possible_and_bound_where_that_is_impossible() -> None:
    pods = gang("p", 6, "pg", constraints=(spread(HOST, soft=True),))
    bound = Counter(preference_world(*pods, minimum=6).run().binds.values())
    assert sorted(bound.values()) == [1, 1, 2, 2]
    elsewhere = gang("p", 3, "pg", constraints=(spread("rack", soft=True),))
    assert len(preference_world(*elsewhere, minimum=3).run().binds) == 3


def test_a_weight_of_zero_disables_a_scorer() -> None:
    there = running("there", "n0", labels={"app": "b"})
    wish = prefers("podAffinity", weight=5, term=term(ZONE, app="b"))
    pod = asking("p", "pg", affinity=wish, constraints=(spread(soft=True),))
    assert scored(preference_world(there, pod, affinity=0, spread=0), "p") == {}
