"""Plugin tdm: nodes of revocable zones are usable while their window is open.

Unlike Volcano, a window over midnight stays open after midnight.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from math import ceil

from tests.oracle.cluster import Job, Node, Task
from tests.oracle.plugins.plugin import Plugin
from tests.oracle.plugins.times import seconds

ZONE = "volcano.sh/revocable-zone"


class Tdm(Plugin):
    def open(self) -> None:
        prefix = "tdm.revocable-zone."
        self.windows = {key.removeprefix(prefix): text for key, text in self.arguments.items() if prefix in key}

    def lent(self, zone: str) -> bool:
        """Return whether the window of a zone is open: from its start to its end, which may be on the next day."""
        if zone not in self.windows:
            return False
        start, end = self.windows[zone].split("-")
        now = datetime.fromtimestamp(self.session.now).strftime("%H:%M")  # noqa: DTZ006 - local time is meant
        return bool(start <= now < end if start < end else now >= start or now < end)

    def predicate(self, task: Task, node: Node) -> bool:
        zone = node.labels.get(ZONE)
        return not zone or (movable(task) and self.lent(zone))

    def score(self, task: Task, node: Node) -> float:
        zone = node.labels.get(ZONE)
        return 100.0 if zone and movable(task) and self.lent(zone) else 0.0

    def job_key(self, job: Job) -> bool:
        return preemptable(job)

    def pipelined(self, job: Job) -> int:
        return 1 if job.is_pipelined() else -1

    def starving(self, job: Job) -> bool:
        return not preemptable(job) and job.count("pending") > 0

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        if preemptor.preemptable or movable(preemptor):
            return []
        zones = {node.name for node in self.session.cluster.nodes if node.labels.get(ZONE)}
        return within_budgets(t for t in candidates if t.preemptable and t.state == "running" and t.node not in zones)

    def victim_tasks(self, candidates: Sequence[Task]) -> list[Task]:
        """Return tasks on nodes of closed zones; unlike Volcano, a period begins only when a task is evicted."""
        period = seconds(self.arguments.get("tdm.evict.period", "1m")) or 0.0
        if self.session.now < self.session.memory.get("tdm", float("-inf")) + period:
            return []
        closed = {zone for zone in self.windows if not self.lent(zone)}
        off = {node.name for node in self.session.cluster.nodes if node.labels.get(ZONE) in closed}
        victims = within_budgets(t for t in candidates if t.preemptable and t.state == "running" and t.node in off)
        if victims:
            self.session.memory["tdm"] = self.session.now
        return victims


def movable(task: Task) -> bool:
    zone = task.annotations.get(ZONE)
    return zone == "*" if zone is not None else task.annotations.get("volcano.sh/preemptable") == "true"


def preemptable(job: Job) -> bool:
    return (job.annotations.get("volcano.sh/preemptable") or job.labels.get("volcano.sh/preemptable")) == "true"


def within_budgets(tasks: Iterable[Task]) -> list[Task]:
    """Return the first tasks of each job, as many as it can lose."""
    chosen: list[Task] = []
    for task in tasks:
        if task.job is not None and sum(other.job is task.job for other in chosen) < _losable(task.job):
            chosen.append(task)
    return chosen


def _losable(job: Job) -> int:
    most, least = (job.annotations.get(f"volcano.sh/jdb-{name}") for name in ("max-unavailable", "min-available"))
    running, size = job.count("running"), len(job.tasks)
    if least is not None:
        return max(running - _number(least, size), 0)
    if most is not None:
        return max(_number(most, size) - (size - job.count("succeeded", "failed") - running), 0)
    return 1


def _number(text: str, whole: int) -> int:
    return ceil(int(text[:-1]) * whole / 100) if text.endswith("%") else int(text)
