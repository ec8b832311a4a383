"""Scores of nodes for scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.scenario.scheduling.harness import Scenario, World
from volcanoio.engine.scheduling.session.cycle import open_session
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling_events import CycleOpened


def scores(world: World, name: str) -> list[float]:
    """Return the score of each node for a pod."""
    session = CycleSession(world.state, world.profile, CycleOpened(cycle=1, upto=0, seed=1, at=world.now))
    list(open_session(session))
    task = world.state.ledger.tasks[f"ns-{name}"]
    assert task.job_info is not None
    session.runs(task.job_info, best_effort=False)
    return list(world.state.placer.candidate_scores(task)[1])


@dataclass(frozen=True, kw_only=True)
class ScoreScenario(Scenario):
    """A cluster with pod p, and the score of each node for it."""

    scores: Sequence[float]

    def check(self) -> None:
        """Compare the scores."""
        assert scores(World(*self.cluster, conf=self.conf), "p") == self.scores
