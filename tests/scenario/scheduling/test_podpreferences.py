"""Preferred pod affinity and topology spread with ScheduleAnyway: which of the possible nodes is taken."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.scenario.scheduling.harness import World, group
from tests.scenario.scheduling.podrules import HOST, ZONE, asking, gang, near, prefers, spread, term, zoned
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


def world(*objects: Manifest, affinity: int = 1, spread: int = 1, minimum: int = 1) -> World:
    conf = CONF.format(affinity=affinity, spread=spread)
    return World(*NODES, group("pg", minimum, phase="Inqueue"), *objects, conf=conf)


def running(name: str, on: str, **more: Any) -> Manifest:
    return asking(name, on=on, phase="Running", **more)


def scored(of: World, name: str) -> dict[str, list[float]]:
    """By scorer of nodeorder that has a say the scores of a pod, node by node."""
    opening = CycleOpened(cycle=1, upto=0, seed=1, at=of.now)
    list(open_session(CycleSession(of.state, of.profile, opening)))
    columns, shape = of.state.ledger.columns, of.state.ledger.tasks[f"ns-{name}"].shape
    plugin = next(one.plugin for tier in of.profile.tiers for one in tier if one.plugin.name == "nodeorder")
    everywhere = columns.used("cpu") >= 0
    parts: Any = getattr(plugin, "scorers", ())
    return {
        type(part).__name__: part.score(shape, columns, everywhere).tolist()
        for part in parts
        if part.score_depends(shape)
    }


def test_what_is_wished_near_draws_and_what_is_not_repels() -> None:
    there = running("there", "n0", labels={"app": "b"})
    draws = asking("p", "pg", affinity=prefers("podAffinity", weight=5, term=term(ZONE, app="b")))
    repels = asking("p", "pg", affinity=prefers("podAntiAffinity", weight=5, term=term(ZONE, app="b")))
    assert scored(world(there, draws, affinity=2), "p") == {"PodAffinityScorer": [200, 0, 0, 0]}
    assert scored(world(there, repels), "p") == {"PodAffinityScorer": [0, 100, 100, 100]}


def test_weights_add_up_and_are_scaled_between_the_least_and_the_most() -> None:
    there = [running("b", "n0", labels={"app": "b"}), running("c", "n1", labels={"app": "c"})]
    wishes = prefers("podAffinity", weight=10, term=term(ZONE, app="b"))["podAffinity"]
    more = prefers("podAffinity", weight=3, term=term(HOST, app="c"))["podAffinity"]
    key = "preferredDuringSchedulingIgnoredDuringExecution"
    both = {"podAffinity": {key: [*wishes[key], *more[key]]}}
    assert scored(world(*there, asking("p", "pg", affinity=both)), "p") == {"PodAffinityScorer": [100, 30, 0, 0]}


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (near(term(ZONE, app="a")), [0, 100, 100, 0]),
        (prefers("podAffinity", weight=5, term=term(ZONE, app="a")), [0, 100, 100, 0]),
        (prefers("podAntiAffinity", weight=5, term=term(ZONE, app="a")), [100, 0, 0, 100]),
    ],
)
def test_wishes_of_pods_that_are_there_count_too(wish: dict[str, Any], expected: list[float]) -> None:
    there = [running("first", "n1"), running("there", "n1", labels={"app": "b"}, affinity=wish)]
    assert scored(world(*there, asking("p", "pg")), "p") == {"PodAffinityScorer": expected}


def test_a_soft_spread_prefers_emptier_domains() -> None:
    there = [running("x", "n1"), running("y", "n1"), running("z", "n2")]
    pod = asking("p", "pg", constraints=(spread(soft=True),))
    assert scored(world(*there, pod, spread=3), "p") == {"SpreadScorer": [300, 0, 0, 0]}
    by_host = asking("p", "pg", constraints=(spread(HOST, soft=True),))
    assert scored(world(*there, by_host), "p") == {"SpreadScorer": [100, 0, 50, 100]}


def test_a_gang_is_spread_softly_and_goes_on_where_it_cannot_be() -> None:
    pods = gang("p", 6, "pg", constraints=(spread(HOST, soft=True),))
    bound = Counter(world(*pods, minimum=6).run().binds.values())
    assert sorted(bound.values()) == [1, 1, 2, 2]
    elsewhere = gang("p", 3, "pg", constraints=(spread("rack", soft=True),))
    assert len(world(*elsewhere, minimum=3).run().binds) == 3


def test_a_weight_of_zero_turns_a_scorer_off() -> None:
    there = running("there", "n0", labels={"app": "b"})
    wish = prefers("podAffinity", weight=5, term=term(ZONE, app="b"))
    pod = asking("p", "pg", affinity=wish, constraints=(spread(soft=True),))
    assert scored(world(there, pod, affinity=0, spread=0), "p") == {}
