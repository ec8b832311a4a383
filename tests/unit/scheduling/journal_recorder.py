"""A world that records its journal, for tests of replay."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.scenario.scheduling.harness import World, profile
from volcanoio.engine.scheduling.session.cycle import CycleResult
from volcanoio.framework.events import Event
from volcanoio.framework.scheduling_events import ConfigurationChanged, CycleClosed, CycleOpened, Decided
from volcanoio.model.base import Manifest


class Recorder(World):
    """A world that records its events, cycles, decisions and configurations in a journal."""

    def __init__(self, *objects: Manifest, conf: str) -> None:
        self.journal: list[Event] = [ConfigurationChanged(seq=1, text=conf)]
        super().__init__(*objects, conf=conf)

    def write(self, event: Any) -> Any:
        event = msgspec.structs.replace(event, seq=len(self.journal) + 1)
        self.journal.append(event)
        return event

    def fold(self, event: Any) -> bool:
        return super().fold(self.write(event))

    def reload(self, conf: str) -> None:
        self.profile = profile(conf)
        self.write(ConfigurationChanged(text=conf))

    def cycle(self, *, budget: Any = None) -> CycleResult:
        upto, now = len(self.journal), self.now
        result = super().cycle(budget=budget)
        self.write(CycleOpened(cycle=self.cycles, upto=upto, seed=self.seed, at=now, period=self.period))
        self.write(Decided(cycle=self.cycles, decisions=tuple(self.last)))
        boundaries = result.stats.budget_checks if result.cut_action else 0
        self.write(CycleClosed(cycle=self.cycles, where=result.cut_action, boundaries=boundaries))
        return result
