"""A world that records its journal, for tests of replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tests.scenario.scheduling.harness import World, decoded, profile
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.offline.replay import CutAt
from volcanoio.engine.scheduling.session.cycle import CycleResult
from volcanoio.framework.events import Change, Event, Observed
from volcanoio.framework.scheduling_events import (
    ArrivalsFolded,
    ConfigurationChanged,
    CycleClosed,
    CycleOpened,
    Decided,
)
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod


class Recorder(World):
    """A world that records its events, cycles, decisions and configurations in a journal."""

    def __init__(self, *objects: Manifest, conf: str, state: ClusterState | None = None) -> None:
        self.journal: list[Event] = [ConfigurationChanged(seq=1, text=conf)]
        super().__init__(*objects, conf=conf, state=state)

    def write(self, event: Any) -> Any:
        event = msgspec.structs.replace(event, seq=len(self.journal) + 1)
        self.journal.append(event)
        return event

    def fold(self, event: Any) -> bool:
        return super().fold(self.write(event))

    def reload(self, conf: str) -> None:
        self.profile = profile(conf)
        self.write(ConfigurationChanged(text=conf))

    def cycle(
        self, *, budget: Any = None, cut: int = 0, arriving: Mapping[int, Sequence[Manifest]] | None = None
    ) -> CycleResult:
        """Run one cycle; pods of `arriving` are published at boundaries, and join the cycle if they may."""
        upto, now = len(self.journal), self.now
        joined: list[ArrivalsFolded] = []
        late: list[Observed] = []

        def arrivals(boundary: int) -> list[Observed]:
            joining: list[Observed] = []
            for pod in map(decoded, (arriving or {}).get(boundary, ())):
                assert isinstance(pod, Pod)
                self.objects[kinds.POD.resource, pod.metadata.key] = pod
                event = Observed(at=now, resource=kinds.POD.resource, change=Change.APPEARED, object=pod)
                (joining if self.state.pods.can_join_cycle(pod) else late).append(self.write(event))
            if joining:
                seqs = tuple(event.seq for event in joining)
                joined.append(ArrivalsFolded(cycle=self.cycles, boundary=boundary, arrivals=seqs))
            return joining

        result = super().cycle(budget=CutAt(cut, arrivals) if budget is None else budget)
        self.write(CycleOpened(cycle=self.cycles, upto=upto, seed=self.seed, at=now, period=self.period))
        for event in joined:
            self.write(event)
        self.write(Decided(cycle=self.cycles, decisions=tuple(self.last)))
        boundaries = result.stats.budget_checks if result.cut_action else 0
        self.write(CycleClosed(cycle=self.cycles, where=result.cut_action, boundaries=boundaries))
        for observed in late:
            self.state.fold(observed)
        return result
