"""What a plugin's methods cost, on a cluster of a thousand nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from volcanoio.engine.scheduling.rows import Row
from volcanoio.framework.scheduling.session import Session
from volcanoio.model.resources import CPU
from volcanoio.runtime.plugincheck.asking import Scene, parts_of
from volcanoio.runtime.plugincheck.report import Cost, Report

NODES = 1000
LONG = 0.02
"""For how many seconds a call is repeated."""


class Costing:
    """An action that times the plugin's calls; `timer` gives seconds."""

    name = "costing"

    def __init__(self, plugin: Any, report: Report, timer: Callable[[], float]) -> None:
        self._plugin = plugin
        self._report = report
        self._timer = timer

    def run(self, session: Session) -> Iterator[None]:
        """Time every method that the plugin has."""
        for call, over, ask in _calls(self._plugin, Scene.of(session)):
            ask()
            start, times = self._timer(), 0
            while (spent := self._timer() - start) < LONG:
                ask()
                times += 1
            self._report.costs.append(Cost(call, spent / times * 1e6, over))
            yield


def _calls(plugin: Any, scene: Scene) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    queue = next(iter(scene.session.queues.values()))
    if callable(getattr(plugin, "open", None)):
        yield "open", "a cycle", lambda: plugin.open(scene.session)
    for prefix, part in parts_of(plugin):
        yield from _about_nodes(prefix, part, scene)
    if callable(getattr(plugin, "fits", None)) and scene.shapes:
        yield "fits", "", lambda: plugin.fits(queue, scene.shapes[0], 8)
    for call, things in (
        ("queue_key", [queue]),
        ("overused", [queue]),
        ("job_key", scene.jobs[:1]),
        ("job_valid", scene.jobs[:1]),
        ("job_ready", scene.jobs[:1]),
        ("job_pipelined", scene.jobs[:1]),
        ("job_starving", scene.jobs[:1]),
        ("job_enqueueable", [job for job in scene.jobs if job.min_resources is not None][:1]),
        ("task_key", scene.waiting[:1]),
    ):
        if callable(ask := getattr(plugin, call, None)):
            for thing in things:
                yield call, "", lambda ask=ask, thing=thing: ask(thing)  # type: ignore[misc]  # mypy cannot infer a lambda's default
    if scene.waiting and scene.running:
        for call in ("preemptable", "reclaimable"):
            if callable(ask := getattr(plugin, call, None)):
                over = f"{len(scene.running)} candidates"
                yield call, over, lambda ask=ask: ask(scene.waiting[0], scene.running)  # type: ignore[misc]  # mypy cannot infer a lambda's default


def _about_nodes(prefix: str, part: Any, scene: Scene) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """The calls of a filter or scorer, about the shape that asks for most."""
    if not scene.shapes:
        return
    columns, row = scene.columns, Row(scene.columns)
    row.point(0)
    everywhere = np.ones(len(columns), np.bool_)
    shape = max(scene.shapes, key=lambda each: (CPU in each.requests, len(each.requests)))
    calls: dict[str, Callable[[], Any]] = {
        "feasible": lambda: part.feasible(shape, columns),
        "feasible_on": lambda: part.feasible_on(shape, row),
        "score": lambda: part.score(shape, columns, everywhere),
        "score_on": lambda: part.score_on(shape, row),
    }
    for call, ask in calls.items():
        if callable(getattr(part, call, None)):
            yield f"{prefix}{call}", "" if call.endswith("_on") else f"{len(columns):,} nodes", ask
