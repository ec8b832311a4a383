"""Metrics of the scheduler: durations within a cycle, reactions to events, latencies of jobs and tasks, the backlog.

Metrics have Volcano's names where Volcano has them (pkg/scheduler/metrics).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache

from volcanoio.engine.scheduling.cluster.ledger import Ledger
from volcanoio.engine.scheduling.cluster.pod_fields import job_key
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.session.cycle import Checkpoint, CycleResult
from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.views import Job
from volcanoio.kube.clock import Clock
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroupPhase

OPENING, CLOSING = "open", "close"
"""The parts of a cycle that are not actions."""
_MILLISECONDS = 1000
_OF_PLUGIN, _OF_TASK = "volcano_plugin_scheduling_latency_milliseconds", "volcano_task_scheduling_latency_milliseconds"
_STAGE = "volcano_scheduling_stage_duration_milliseconds"
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
        self._closes: dict[str, float] = {}
        self._jobs: dict[str, dict[str, str]] = {}

    def open(self) -> None:
        """Record that a cycle opens."""
        self._mark = self._clock.monotonic()
        self._total = 0.0
        self._actions = {}
        self._plugins = {}
        self._closes = {}

    def plugin_closed(self, plugin: str, seconds: float) -> None:
        """Record that a plugin closed a few jobs (`StageTimes`)."""
        self._closes[plugin] = self._closes.get(plugin, 0.0) + seconds / self._clock.rate

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
        rest = (self._clock.monotonic() - self._mark) / self._clock.rate
        probe, stats = self._probe, result.stats
        probe.observe("volcano_e2e_scheduling_latency_milliseconds", (self._total + rest) * _MILLISECONDS)
        if OPENING in self._actions:
            opening = self._actions.pop(OPENING) * _MILLISECONDS
            probe.observe("volcano_open_session_duration_milliseconds", opening)
        if CLOSING in self._actions:
            closing = (self._actions.pop(CLOSING) + rest) * _MILLISECONDS
            probe.observe("volcanoio_close_session_duration_milliseconds", closing)
        for step, plugins in (("OnSessionOpen", self._plugins), ("OnSessionClose", self._closes)):
            for plugin, seconds in plugins.items():
                probe.observe(_OF_PLUGIN, seconds * _MILLISECONDS, plugin=plugin, OnSession=step)
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

    def stage_took(self, stage: str, seconds: float) -> None:
        """Observe a stage of scheduling (`StageTimes`)."""
        self._probe.observe(_STAGE, seconds * _MILLISECONDS / self._clock.rate, stage=stage)

    def task_reached(self, stage: str, created: str, times: int = 1, *, at: float | None = None) -> None:
        """Observe the time from pods' creation (whole seconds) until a stage (`TASK_STAGES`), reached now or `at`."""
        if (since := _created_milliseconds(created)) is not None:
            now = (self._clock.now() if at is None else at) * _MILLISECONDS
            self._probe.observe(_OF_TASK, max(now - since, 0.0), times, stage=stage)

    def bound(self, job: Job) -> None:
        """Observe the time from a PodGroup's creation (whole seconds) until its tasks were given nodes.

        A PodGroup that a controller made for a single pod has no series of its own: there may be as many as pods.
        """
        if (created := _created_milliseconds(job.created)) is None:
            return
        now = self._clock.now() * _MILLISECONDS
        self._probe.observe("volcano_e2e_job_scheduling_latency_milliseconds", max(now - created, 0.0))
        if any(owner.kind == "Pod" for owner in job.group.metadata.owner_references):
            return
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


class ReactionTimes:
    """Times from the first event that requested a cycle to the cycle's decisions and to their binds.

    A cycle that was cut short passes its event to the next one. Times are in seconds since the epoch.
    """

    def __init__(self, probe: Probe, clock: Clock) -> None:
        self._probe = probe
        self._clock = clock
        self._requested_at = 0.0
        """When the first event since the last opening arrived, 0 without one."""
        self._event_at = 0.0
        """The same for the cycle in progress; 0 once it has decided, or when no event requested it."""
        self._last_event_at = 0.0
        self._binding: dict[int, tuple[float, int]] = {}
        """Time of the event and number of binds without outcome, by the seq of the decisions."""

    def requested(self, at: float) -> None:
        """Record that an event of that time requested a cycle."""
        self._requested_at = self._requested_at or at

    def opened(self) -> None:
        """Record that a cycle opens."""
        self._event_at = self._last_event_at = self._requested_at
        self._requested_at = 0.0

    def decided(self, seq: int, binds: int) -> None:
        """Record decisions that were published with that seq, and the number of binds among them."""
        if self._event_at:
            self._observe(self._clock.now() - self._event_at, "decided")
            self._event_at = 0.0
        if self._last_event_at and binds:
            self._binding[seq] = self._last_event_at, binds

    def ended(self, seq: int, at: float, *, bound: bool) -> None:
        """Record the outcome of a bind that the decisions with that seq contain."""
        if (entry := self._binding.get(seq)) is None:
            return
        since, binds = entry
        if bound:
            self._observe(at - since, "bound")
        if binds > 1:
            self._binding[seq] = since, binds - 1
        else:
            del self._binding[seq]

    def closed(self, *, cut: bool) -> None:
        """Record that the cycle ended."""
        if cut and self._last_event_at:
            self._requested_at = self._last_event_at

    def _observe(self, seconds: float, stage: str) -> None:
        self._probe.observe("volcanoio_reaction_seconds", max(seconds, 0.0) / self._clock.rate, stage=stage)


BACKLOG_INTERVAL = 5.0
"""Seconds between two counts of the jobs and tasks that wait."""
_JOBS_PER_STEP = 2000
_WAITING_JOBS, _WAITING_TASKS = "volcanoio_queue_waiting_jobs", "volcanoio_queue_waiting_tasks"
_WAITING_PHASES = (PodGroupPhase.PENDING, PodGroupPhase.INQUEUE)


class BacklogMetrics:
    """Counts the jobs and tasks that wait, by queue; every queue has a value."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._queues: set[str] = set()
        self._due = 0.0

    def report(self, ledger: Ledger, now: float) -> Iterator[None]:
        """Set the gauges if the interval has passed; yields between many jobs, for other work."""
        if now < self._due:
            return
        self._due = now + BACKLOG_INTERVAL
        jobs: Counter[str] = Counter()
        tasks: Counter[str] = Counter()
        for phase in _WAITING_PHASES:
            for number, job in enumerate(list(ledger.jobs_by_phase.get(phase, {}).values()), 1):
                jobs[job.queue] += 1
                if not number % _JOBS_PER_STEP:
                    yield
        for number, job in enumerate(list(ledger.pending_jobs.values()), 1):
            tasks[job.queue] += len(job.pending)
            if not number % _JOBS_PER_STEP:
                yield
        queues = set(ledger.existing_queues)
        for queue in queues:
            self._probe.gauge(_WAITING_JOBS, jobs[queue], queue_name=queue)
            self._probe.gauge(_WAITING_TASKS, tasks[queue], queue_name=queue)
        for queue in self._queues - queues:
            self._probe.forget(_WAITING_JOBS, queue_name=queue)
            self._probe.forget(_WAITING_TASKS, queue_name=queue)
        self._queues = queues
        self._probe.gauge("volcanoio_waiting_single_pods", len(ledger.pending_single_pods))


_TASK_QUEUE = "volcanoio_task_queue"


class PodMetrics:
    """A series for each pod of a job, with the queue that its PodGroup is in when the pod changes."""

    def __init__(self, probe: Probe, state: ClusterState) -> None:
        self._probe = probe
        self._state = state
        self._labels: dict[str, dict[str, str]] = {}

    def observe(self, pod: Pod, *, gone: bool) -> None:
        """Update the series of a pod before its event is folded; it has none until its queue is known."""
        uid, labels = pod.metadata.uid, dict[str, str]()
        job = None if gone else self._state.ledger.jobs.get(job_key(pod))
        if job is not None and job.queue and pod.spec.scheduler_name in self._state.scheduler_names:
            labels = {"pod": pod.metadata.name, "pod_namespace": pod.metadata.namespace, "queue": job.queue}
            labels["job_name"] = job.key.partition("/")[2]
        before = self._labels.get(uid)
        if before == labels or not (before or labels):
            return
        if before:
            self._probe.forget(_TASK_QUEUE, **before)
            del self._labels[uid]
        if labels:
            self._probe.gauge(_TASK_QUEUE, 1.0, **labels)
            self._labels[uid] = labels
