"""Plugin tdm, time division: nodes that are revocable at certain hours (Volcano: pkg/scheduler/plugins/tdm).

A node is usable while the daily window of the zone in its label `volcano.sh/revocable-zone`, such as 22:00-06:00 local
time, is open. Only tasks marked as revocable go there, and when the window closes action shuffle evicts them. Limits of
concurrent evictions per job: `volcano.sh/jdb-min-available` tasks must stay; without it,
`volcano.sh/jdb-max-unavailable` counts tasks that are not running already. Both are numbers or percentages of the job's
tasks, rounded up; a job with neither can lose one.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import ceil
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import ArgumentError, GoDuration, convert
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import PERMIT, Depends, Feasibility, Verdict, reject
from volcanoio.framework.scheduling.views import Job, NodeRow, Nodes, Shape, Task, TaskStatus
from volcanoio.model.names import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE, PREEMPTABLE, REVOCABLE_ZONE
from volcanoio_plugins.scheduling.kubernetes.nodeindex import NodeIndex

DEFAULT = 1


def disruptions_allowed(job: Job) -> int:
    """Return how many running tasks the job can lose now."""
    annotations, total = job.group.metadata.annotations, len(job.tasks)
    running = job.count(TaskStatus.RUNNING)
    if (least := _amount(annotations.get(JDB_MIN_AVAILABLE, ""), total)) is not None:
        return max(running - least, 0)
    if (most := _amount(annotations.get(JDB_MAX_UNAVAILABLE, ""), total)) is not None:
        unavailable = total - job.count(TaskStatus.SUCCEEDED, TaskStatus.FAILED) - running
        return max(most - unavailable, 0)
    return DEFAULT


def within_budgets(tasks: Iterable[Task], jobs: Mapping[str, Job]) -> list[Task]:
    """Return the first tasks of each job, as many as it can lose."""
    left: dict[str, int] = {}
    chosen = []
    for task in tasks:
        if (job := jobs.get(task.job)) is None:
            continue
        if (count := left.setdefault(task.job, disruptions_allowed(job))) > 0:
            left[task.job] = count - 1
            chosen.append(task)
    return chosen


def _amount(text: str, total: int) -> int | None:
    """Parse a number, or a percentage of a total rounded up; None if it is neither."""
    digits = text.removesuffix("%")
    if not (digits.isascii() and digits.isdigit()):
        return None
    return ceil(int(digits) * total / 100) if digits != text else int(text)


_FORM = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)\s*-\s*([01]?\d|2[0-3]):([0-5]\d)")


class Window(NamedTuple):
    """From `start` to `end`, in minutes after midnight; an end before the start is on the next day."""

    start: int
    end: int

    def open_at(self, now: float) -> bool:
        """Return whether a time (epoch seconds) is in the window, its end excluded."""
        local = datetime.fromtimestamp(now)  # noqa: DTZ006 - windows are in local time
        minute = local.hour * 60 + local.minute
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


def window(text: str) -> Window | None:
    """Parse a window such as `22:00-06:00`; None if it is invalid."""
    if (match := _FORM.fullmatch(text.strip())) is None:
        return None
    hour, minute, end_hour, end_minute = map(int, match.groups())
    return Window(hour * 60 + minute, end_hour * 60 + end_minute)


MAX_SCORE = 100.0
ANY_ZONE = "*"
CLOSED = "node(s) are in a revocable zone that is not open now"
NOT_REVOCABLE = "node(s) are in a revocable zone, where only tasks that can be moved may run"
PERIOD = "tdm.evict.period"
_ZONE = "tdm.revocable-zone."
_TRUE = ("1", "t", "T", "TRUE", "true", "True")
"""The strings that Go parses as true."""


class TdmArguments(msgspec.Struct, frozen=True):
    """`tdm.evict.period` is the time between two evictions from closed zones.

    In addition each `tdm.revocable-zone.<zone>` is a window of local time, HH:MM-HH:MM.
    """

    period: GoDuration = msgspec.field(default=GoDuration(60), name=PERIOD)


class Tdm:
    """Filters, scores and orders for nodes that are revocable by time of day, and selects victims."""

    name = "tdm"
    keeps_job_keys = True

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        fixed = {key: value for key, value in arguments.items() if not key.startswith(_ZONE)}
        self._period = convert(fixed, TdmArguments, self.name).period
        self._windows = {
            key.removeprefix(_ZONE): _window(key, value) for key, value in arguments.items() if key not in fixed
        }
        self._index = NodeIndex()
        self._session: SessionView | None = None
        self._open: frozenset[str] = frozenset()
        self._trait = ""
        self._zones: dict[str, str] | None = None
        self._evicted_at = float("-inf")

    def open(self, session: SessionView) -> None:
        """Compute which zones are open now."""
        self._session = session
        self._index.open(session)
        self._zones = None
        self._open = frozenset(name for name, hours in self._windows.items() if hours.open_at(session.now))
        self._trait = f"{ANY_ZONE}:{','.join(sorted(self._open))}"

    def trait(self, task: Task, job: Job) -> str:  # noqa: ARG002 - depends on the pod only
        """Return the open zones for revocable tasks."""
        return self._trait if _is_revocable(task) else ""

    def feasible_depends(self, shape: Shape) -> Depends:  # noqa: ARG002 - the same for all shapes
        """Depend on labels: the open zones are in the trait."""
        return Depends.NODE_SPEC

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return nodes of no zone, and for revocable tasks also those of open zones."""
        usable, in_zone = self._revocable_nodes(shape, nodes)
        if not shape.traits.get(self.name):
            return Feasibility(~in_zone, ((NOT_REVOCABLE, in_zone),))
        return Feasibility(usable | ~in_zone, ((CLOSED, in_zone & ~usable),))

    def score_depends(self, shape: Shape) -> Depends:
        """Depend on labels, for revocable tasks."""
        return Depends.NODE_SPEC if shape.traits.get(self.name) else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:  # noqa: ARG002 - not relative to other nodes
        """Prefer revocable nodes, so that the others stay free for other tasks."""
        if not shape.traits.get(self.name):
            return np.zeros(len(nodes))
        return np.where(self._revocable_nodes(shape, nodes)[0], MAX_SCORE, 0.0)

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        """Score one node."""
        if not shape.traits.get(self.name):
            return 0.0
        zone = node.object.metadata.labels.get(REVOCABLE_ZONE)
        return MAX_SCORE if zone and zone in _open_zones(shape) else 0.0

    def job_key(self, job: Job) -> bool:
        """Order jobs that cannot be preempted first."""
        return _is_preemptable(job)

    def job_pipelined(self, job: Job) -> Verdict:
        """Permit the job if its minimum is placed or pipelined."""
        if job.is_pipelined():
            return PERMIT
        return reject("NotEnoughReservations", "fewer tasks than minAvailable are placed or have a place reserved")

    def job_starving(self, job: Job) -> bool:
        """Return whether a job that cannot be preempted has pending tasks."""
        return not _is_preemptable(job) and job.count(TaskStatus.PENDING) > 0

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return running preemptable tasks on nodes of no zone, as many as their jobs can lose.

        Empty for a preemptor that can itself be preempted or is revocable.
        """
        assert self._session is not None
        if preemptor.preemptable or _is_revocable(preemptor):
            return []
        zones = self._zone_of()
        movable = [task for task in candidates if _is_running(task) and task.node not in zones]
        return within_budgets(movable, self._session.jobs)

    def victims(self, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return running preemptable tasks on nodes of closed zones; at most once a period."""
        assert self._session is not None
        if self._session.now < self._evicted_at + self._period or len(self._open) == len(self._windows):
            return []
        closed = self._windows.keys() - self._open
        zones = self._zone_of()
        chosen = [task for task in candidates if _is_running(task) and zones.get(task.node) in closed]
        if victims := within_budgets(chosen, self._session.jobs):
            self._evicted_at = self._session.now
        return victims

    def _revocable_nodes(self, shape: Shape, nodes: Nodes) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the nodes of zones that were open when the shape got its trait, and nodes of any zone."""
        column = self._index.over(nodes).label(REVOCABLE_ZONE)
        zones = _open_zones(shape)
        usable = np.array([bool(zone) and zone in zones for zone in column.values], np.bool_)
        in_zone = np.array([bool(zone) for zone in column.values], np.bool_)
        return usable[column.codes], in_zone[column.codes]

    def _zone_of(self) -> dict[str, str]:
        if self._zones is None:
            assert self._session is not None
            nodes = self._session.nodes
            column = self._index.over(nodes).label(REVOCABLE_ZONE)
            codes, names, values = column.codes.tolist(), nodes.names, column.values
            self._zones = {names[row]: zone for row, code in enumerate(codes) if (zone := values[code])}
        return self._zones


def _open_zones(shape: Shape) -> list[str]:
    """Return the zones that were open when the shape got its trait."""
    return shape.traits.get(Tdm.name, "").partition(":")[2].split(",")


def _window(key: str, text: object) -> Window:
    found = window(text) if isinstance(text, str) else None
    if found is None:
        msg = f'{Tdm.name}: "{key}" takes a window of local time such as "22:00-06:00", not {text!r}'
        raise ArgumentError(msg, key=key)
    return found


def _is_running(task: Task) -> bool:
    return task.preemptable and task.status is TaskStatus.RUNNING


def _is_revocable(task: Task) -> bool:
    """Return whether a task is revocable: by its annotation, or because it is marked preemptable."""
    annotations = task.pod.metadata.annotations
    zone = annotations.get(REVOCABLE_ZONE)
    return zone == ANY_ZONE if zone is not None else annotations.get(PREEMPTABLE) in _TRUE


def _is_preemptable(job: Job) -> bool:
    """Return whether the PodGroup is marked preemptable; false by default."""
    meta = job.group.metadata
    return (meta.annotations.get(PREEMPTABLE) or meta.labels.get(PREEMPTABLE)) in _TRUE
