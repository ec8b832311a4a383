"""Every scenario's journal, checked: it folds to the state that was live, and replays to what was decided."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.state_dump import state_dump as cluster_snapshot
from volcanoio.bus.journal import Run, cause_chain, first_difference, read_runs
from volcanoio.bus.records import Codec
from volcanoio.compose.controllers import ControllerManager
from volcanoio.compose.journals.replay import rerun_controllers, rerun_scheduler
from volcanoio.compose.local import LocalCluster
from volcanoio.compose.scheduler import SchedulerProcess
from volcanoio.engine.hosting.host import snapshot as host_snapshot
from volcanoio.framework.events import Event, Observed
from volcanoio.runtime.loading.registry import Registry, discover


class JournalledCluster(LocalCluster):
    """A local cluster that remembers every process it started, so that each can be held against its run.

    `budget` is a cycle's, in seconds; None takes the scheduler's own.
    """

    def __init__(self, *args: Any, budget: float | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._budget = budget
        self.managers: list[ControllerManager] = []
        self.schedulers: list[SchedulerProcess] = []

    async def start_controllers(self) -> None:
        """Start the controllers and remember them."""
        await super().start_controllers()
        self.managers.append(self.controllers)

    async def start_scheduler(self) -> None:
        """Start the scheduler and remember it."""
        if self._budget is not None:
            self._scheduler_settings = replace(self._scheduler_settings, budget=self._budget)
        await super().start_scheduler()
        self.schedulers.append(self.scheduler)


def verify(local: JournalledCluster) -> None:
    """Hold every run against its process; to be called once the cluster has stopped. Fails with what differs first."""
    assert local.options.journal is not None
    registry = discover()
    runs = read_runs(local.options.journal / "controllers")
    assert len(runs) == len(local.managers), "each start of the controllers is a run in their journal"
    for run, manager in zip(runs, local.managers, strict=True):
        problem = _controllers(run, manager, registry)
        assert not problem, problem
    runs = read_runs(local.options.journal / "scheduler")
    assert len(runs) == len(local.schedulers), "each start of the scheduler is a run in its journal"
    for run, process in zip(runs, local.schedulers, strict=True):
        problem = _scheduler(run, process, registry)
        assert not problem, problem


def _controllers(run: Run, live: ControllerManager, registry: Registry) -> str:
    again = rerun_controllers(run, registry, upto=live.host.folded)
    return str(again.difference or "") or _states(host_snapshot(live.host.host), host_snapshot(again.state), run)


def _scheduler(run: Run, live: SchedulerProcess, registry: Registry) -> str:
    again = rerun_scheduler(run, registry, upto=live.scheduler.folded)
    return str(again.difference or "") or _states(
        cluster_snapshot(live.scheduler.state), cluster_snapshot(again.state), run
    )


def _states(live: Any, folded: Any, run: Run) -> str:
    """Return the first difference between folded and live state, and the events that led there."""
    codec = Codec()
    left, right = _without_empty(codec.plain(live)), _without_empty(codec.plain(folded))
    where = first_difference(left, right)
    if where is None:
        return ""
    causes = " → ".join(f"{type(event).__name__} #{event.seq}" for event in _about(where, run.events, run.by_seq))
    return (
        f"the state folded from the journal differs from the live one at {where[1:]}: {_values(left, right)}; "
        f"caused by {causes}"
    )


def _without_empty(value: Any) -> Any:
    """Return a value without empty annotations: redaction removes one that lost its only entry."""
    if isinstance(value, dict):
        return {key: _without_empty(item) for key, item in value.items() if key != "annotations" or item}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def _about(where: str, events: Iterable[Event], by_seq: dict[int, Event]) -> tuple[Event, ...]:
    """Return the causes of the newest event about an object or key that a path names."""
    last = 0
    for event in events:
        subjects = [getattr(event, "key", ""), getattr(event, "uid", "")]
        if isinstance(event, Observed):
            subjects = [event.obj.metadata.key, event.obj.metadata.uid]
        if any(subject and subject in where for subject in subjects):
            last = event.seq
    return cause_chain(last, by_seq)


def _values(left: Any, right: Any) -> str:
    """Return the first two values that differ, shortened."""
    while isinstance(left, dict) and isinstance(right, dict):
        key = next(
            (key for key in sorted(left) if key in right and first_difference(left[key], right[key]) is not None), None
        )
        if key is None:
            break
        left, right = left[key], right[key]
    texts = [json.dumps(value, default=str)[:400] for value in (left, right)]
    return f"live {texts[0]}, folded {texts[1]}"


def texts(directory: Path) -> str:
    """Return the whole text of the journals below a directory."""
    return "".join(path.read_text(encoding="utf-8") for path in sorted(directory.rglob("*.jsonl")))
