"""Plugin rescheduling: tasks leave nodes that are used too much (Volcano: pkg/scheduler/plugins/rescheduling).

It names victims for action shuffle, once an interval, by its strategies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from volcanoio.framework.arguments import ArgumentError, GoDuration, convert
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Task
from volcanoio_plugins.scheduling.parts.lownodeutilization import LowNodeUtilizationArguments, overloading

DEFAULT_INTERVAL = 300.0


class StrategyArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One strategy; lowNodeUtilization is the only one there is."""

    name: Literal["lowNodeUtilization"]
    params: LowNodeUtilizationArguments = LowNodeUtilizationArguments()


class ReschedulingArguments(msgspec.Struct, frozen=True):
    """`metricsPeriod` is Volcano's: figures are averages of ten minutes here, whatever it says."""

    interval: GoDuration = GoDuration(DEFAULT_INTERVAL)
    metrics_period: GoDuration = msgspec.field(default=GoDuration(DEFAULT_INTERVAL), name="metricsPeriod")
    strategies: tuple[StrategyArguments, ...] = (StrategyArguments(name="lowNodeUtilization"),)


class Rescheduling:
    """Names what its strategies want to run elsewhere; for the first time an interval after its first session."""

    name = "rescheduling"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        given = convert(arguments, ReschedulingArguments, self.name)
        if not given.interval:
            msg = f"{self.name}: interval must be more than 0; write for example 5m"
            raise ArgumentError(msg, key="interval")
        self._interval = given.interval
        self._strategies = given.strategies
        self._due: float | None = None
        self._session: SessionView | None = None

    def open(self, session: SessionView) -> None:
        """Keep the session at hand."""
        self._session = session
        if self._due is None:
            self._due = session.now + self._interval

    def victims(self, candidates: Sequence[Task]) -> Sequence[Task]:
        """What the strategies name, once an interval."""
        assert self._session is not None
        if self._due is None or self._session.now < self._due:
            return []
        self._due = self._session.now + self._interval
        named: dict[str, Task] = {}
        for strategy in self._strategies:
            named.update({task.uid: task for task in overloading(self._session, candidates, strategy.params)})
        return list(named.values())
