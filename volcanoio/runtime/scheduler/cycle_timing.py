"""Timing of scheduling cycles: when the next one opens, its time budget, and its metrics.

Metrics have Volcano's names where Volcano has them (pkg/scheduler/metrics).
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from math import inf

from volcanoio.engine.scheduling.session.cycle import Checkpoint, CycleResult
from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.views import Job
from volcanoio.kube.clock import Clock


class CycleTimer:
    """Schedule of cycles: the first event after an idle time opens a cycle at once, later ones wait for a debounce.

    The time between two openings is at most the period. A cycle that was cut short is followed by the next at once. All
    times are seconds of one monotonic clock.
    """

    def __init__(self, *, debounce: float, period: float) -> None:
        if debounce < 0 or period <= 0:
            msg = f"debounce {debounce} and schedule period {period} are in seconds: give 0 or more, and more than 0"
            raise ValueError(msg)
        self.period = period
        self._debounce = debounce
        self._opened = -inf
        self._closed = -inf
        self._wanted = False
        self._cut = False

    @property
    def wanted(self) -> bool:
        """Whether an event that could change a decision occurred, so that only the debounce is waited for."""
        return self._wanted or self._cut

    def want(self) -> None:
        """Request a cycle, because an event could change a decision."""
        self._wanted = True

    def open(self, now: float) -> None:
        """Record that a cycle opened, which covers all events so far."""
        self._opened = now
        self._wanted = self._cut = False

    def close(self, now: float, *, cut: bool = False, fault: bool = False) -> None:
        """Record that the cycle ended; `cut` if more was left to do, `fault` if an immediate retry would not help."""
        self._closed = now + self.period if fault else now
        self._cut = cut

    def wait(self, now: float) -> float:
        """Return the seconds until the next cycle opens if no event arrives; 0 when it is due."""
        if self._cut:
            return 0.0
        due = self._opened + self.period
        if self._wanted:
            due = min(due, self._closed + self._debounce)
        return max(due - now, 0.0)


class TimeBudget:
    """Time limit for the gangs of a cycle. At least one gang is always tried, so that every cycle makes progress.

    Time counts from the first gang boundary, and at most a fifth of the budget between two boundaries: otherwise
    one-time work of an action (sorting a backlog of 100,000 jobs) would leave no time for its gangs. `cut_boundary` is
    the boundary (counted from 1) at which the time was up, 0 before that.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._remaining = seconds * clock.rate
        self._max_share = self._remaining / 5
        self._last = 0.0
        self._checks = 0
        self.cut_boundary = 0

    def check(self) -> bool:
        """Count a boundary and return whether the time is up; once True, it stays True."""
        self._checks += 1
        now = self._clock.monotonic()
        if self._checks > 1:
            self._remaining -= min(now - self._last, self._max_share)
            if not self.cut_boundary and self._remaining <= 0:
                self.cut_boundary = self._checks
        self._last = now
        return bool(self.cut_boundary)


OPENING, CLOSING = "open", "close"
"""The parts of a cycle that are not actions."""
_MILLISECONDS = 1000
_OF_PLUGIN, _OF_TASK = "volcano_plugin_scheduling_latency_milliseconds", "volcano_task_scheduling_latency_milliseconds"
_BY_JOB = tuple(f"volcano_e2e_job_scheduling_{what}" for what in ("duration", "start_time", "last_time"))


class CycleMetrics:
    """Timing of consecutive cycles, without the work of the event loop at checkpoints."""

    def __init__(self, probe: Probe, clock: Clock) -> None:
        self._probe = probe
        self._clock = clock
        self._mark = 0.0
        self._total = 0.0
        self._actions: dict[str, float] = {}
        self._plugins: dict[str, float] = {}
        self._jobs: dict[str, dict[str, str]] = {}

    def open(self) -> None:
        """Record that a cycle opens."""
        self._mark = self._clock.monotonic()
        self._total = 0.0
        self._actions = {}
        self._plugins = {}

    def reached(self, point: Checkpoint) -> None:
        """Record a checkpoint within the opening, an action or the close."""
        elapsed = (self._clock.monotonic() - self._mark) / self._clock.rate
        self._total += elapsed
        if point.opened:
            self._plugins[point.opened] = self._plugins.get(point.opened, 0.0) + elapsed
        name = point.action or (CLOSING if self._actions.keys() - {OPENING} else OPENING)
        self._actions[name] = self._actions.get(name, 0.0) + elapsed

    def resumed(self) -> None:
        """Record that the cycle continues after a checkpoint."""
        self._mark = self._clock.monotonic()

    def close(self, result: CycleResult, fault: str) -> None:
        """Record the end of a cycle."""
        self._total += (self._clock.monotonic() - self._mark) / self._clock.rate
        probe, stats = self._probe, result.stats
        probe.observe("volcano_e2e_scheduling_latency_milliseconds", self._total * _MILLISECONDS)
        if OPENING in self._actions:
            opening = self._actions.pop(OPENING) * _MILLISECONDS
            probe.observe("volcano_open_session_duration_milliseconds", opening)
        self._actions.pop(CLOSING, None)
        for plugin, seconds in self._plugins.items():
            probe.observe(_OF_PLUGIN, seconds * _MILLISECONDS, plugin=plugin, OnSession="OnSessionOpen")
        for action, seconds in sorted(self._actions.items()):
            probe.observe("volcano_action_scheduling_latency_milliseconds", seconds * _MILLISECONDS, action=action)
        probe.count("volcanoio_cycles_total", end="fault" if fault else "cut" if result.cut_action else "complete")
        if stats.placed:
            probe.count("volcanoio_tasks_placed_total", stats.placed)
        if stats.binding_statements:
            probe.count("volcanoio_gangs_committed_total", stats.binding_statements)
        if stats.searched_nodes:
            probe.count("volcano_total_preemption_attempts", stats.searched_nodes)
            probe.gauge("volcano_pod_preemption_victims", stats.victims)
        for action, number in sorted(stats.evicting_statements.items()):
            probe.count("volcano_eviction_transactions_total", number, action=action)

    def task_reached(self, stage: str, created: str, times: int = 1) -> None:
        """Observe the time from pods' creation (whole seconds) until they are Assumed (node chosen) or Bound."""
        if (since := _created_milliseconds(created)) is not None:
            now = self._clock.now() * _MILLISECONDS
            self._probe.observe(_OF_TASK, max(now - since, 0.0), times, stage=stage)

    def bound(self, job: Job) -> None:
        """Observe the time from a PodGroup's creation (whole seconds) until its tasks were given nodes."""
        if (created := _created_milliseconds(job.created)) is None:
            return
        now = self._clock.now() * _MILLISECONDS
        self._probe.observe("volcano_e2e_job_scheduling_latency_milliseconds", max(now - created, 0.0))
        labels = self._labels(job)
        for name, value in zip(_BY_JOB, (max(now - created, 0.0), created, now), strict=True):
            self._probe.gauge(name, value, **labels)
        self._jobs[job.key] = labels

    def gone(self, key: str) -> None:
        """Remove the series of a deleted job."""
        if labels := self._jobs.pop(key, None):
            for name in _BY_JOB:
                self._probe.forget(name, **labels)

    @staticmethod
    def _labels(job: Job) -> dict[str, str]:
        return {"job_name": job.key.partition("/")[2], "queue": job.queue, "job_namespace": job.namespace}


@lru_cache(maxsize=1024)
def _created_milliseconds(created: str) -> float | None:
    """Return a timestamp in milliseconds since the epoch; cached, as the pods of a gang share theirs."""
    try:
        return datetime.fromisoformat(created).timestamp() * _MILLISECONDS
    except ValueError:
        return None
