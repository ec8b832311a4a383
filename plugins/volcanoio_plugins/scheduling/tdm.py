"""Plugin tdm, time division: nodes that are lent at certain hours of the day (Volcano: pkg/scheduler/plugins/tdm).

A node is lent where its label `volcano.sh/revocable-zone` names a zone whose window is open. Only tasks that say they
can be moved go there, and when the window closes action shuffle takes them off again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import ArgumentError, GoDuration, convert
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import PERMIT, Depends, Feasibility, Verdict, reject
from volcanoio.framework.scheduling.views import Job, NodeRow, Nodes, Shape, Task, TaskStatus
from volcanoio.model.names import PREEMPTABLE, REVOCABLE_ZONE
from volcanoio_plugins.scheduling.nodes.nodeindex import NodeIndex
from volcanoio_plugins.scheduling.parts.budgets import within_budgets
from volcanoio_plugins.scheduling.parts.windows import Window, window

MAX_SCORE = 100.0
ANY_ZONE = "*"
CLOSED = "node(s) are in a revocable zone that is not open now"
NOT_REVOCABLE = "node(s) are in a revocable zone, where only tasks that can be moved may run"
PERIOD = "tdm.evict.period"
_ZONE = "tdm.revocable-zone."
_TRUE = ("1", "t", "T", "TRUE", "true", "True")
"""What Go reads as true."""


class TdmArguments(msgspec.Struct, frozen=True):
    """`tdm.evict.period` is the time between two evictions from closed zones.

    Beside it each `tdm.revocable-zone.<zone>` is a window of local time, HH:MM-HH:MM.
    """

    period: GoDuration = msgspec.field(default=GoDuration(60), name=PERIOD)


class Tdm:
    """Lends nodes by time of day: filter, score, order, and who makes room for whom."""

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
        """See which zones are open now."""
        self._session = session
        self._index.begin(session.nodes)
        self._zones = None
        self._open = frozenset(name for name, hours in self._windows.items() if hours.open_at(session.now))
        self._trait = f"{ANY_ZONE}:{','.join(sorted(self._open))}"

    def trait(self, task: Task, job: Job) -> str:  # noqa: ARG002 - the pod alone counts
        """For tasks that can be moved, the zones that are open."""
        return self._trait if _revocable(task) else ""

    def feasible_depends(self, shape: Shape) -> Depends:  # noqa: ARG002 - the same for all shapes
        """Labels: which zones are open is in the trait."""
        return Depends.NODE_SPEC

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Nodes of no zone; for tasks that can be moved those of open zones, too."""
        lent, in_zone = self._lent(shape, nodes)
        if not shape.traits.get(self.name):
            return Feasibility(~in_zone, ((NOT_REVOCABLE, in_zone),))
        return Feasibility(lent | ~in_zone, ((CLOSED, in_zone & ~lent),))

    def score_depends(self, shape: Shape) -> Depends:
        """Labels, for tasks that can be moved."""
        return Depends.NODE_SPEC if shape.traits.get(self.name) else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:  # noqa: ARG002 - not relative to other nodes
        """Lent nodes are better, so that the others stay free for tasks that cannot go there."""
        if not shape.traits.get(self.name):
            return np.zeros(len(nodes))
        return np.where(self._lent(shape, nodes)[0], MAX_SCORE, 0.0)

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        """As `score`, of one node."""
        if not shape.traits.get(self.name):
            return 0.0
        zone = node.object.metadata.labels.get(REVOCABLE_ZONE)
        return MAX_SCORE if zone and zone in _open_zones(shape) else 0.0

    def job_key(self, job: Job) -> bool:
        """Jobs that cannot be preempted first."""
        return _preemptable(job)

    def job_pipelined(self, job: Job) -> Verdict:
        """Whether the minimum is placed or has a place reserved."""
        if job.is_pipelined():
            return PERMIT
        return reject("NotEnoughReservations", "fewer tasks than minAvailable are placed or have a place reserved")

    def job_starving(self, job: Job) -> bool:
        """Whether a job that cannot be preempted has pending tasks."""
        return not _preemptable(job) and job.count(TaskStatus.PENDING) > 0

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Running tasks that can be preempted, on nodes of no zone, as many as their jobs can lose.

        None for a preemptor that can itself be preempted or moved.
        """
        assert self._session is not None
        if preemptor.preemptable or _revocable(preemptor):
            return []
        zones = self._zone_of()
        movable = [task for task in candidates if _running(task) and task.node not in zones]
        return within_budgets(movable, self._session.jobs)

    def victims(self, candidates: Sequence[Task]) -> Sequence[Task]:
        """Running tasks that can be preempted, on nodes of zones that have closed; at most once a period."""
        assert self._session is not None
        if self._session.now < self._evicted_at + self._period or len(self._open) == len(self._windows):
            return []
        closed = self._windows.keys() - self._open
        zones = self._zone_of()
        chosen = [task for task in candidates if _running(task) and zones.get(task.node) in closed]
        victims = within_budgets(chosen, self._session.jobs)
        if victims:
            self._evicted_at = self._session.now
        return victims

    def _lent(self, shape: Shape, nodes: Nodes) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Nodes of zones that were open when the shape got its trait, and nodes of any zone."""
        column = self._index.over(nodes).label(REVOCABLE_ZONE)
        zones = _open_zones(shape)
        lent = np.array([bool(zone) and zone in zones for zone in column.values], np.bool_)
        in_zone = np.array([bool(zone) for zone in column.values], np.bool_)
        return lent[column.codes], in_zone[column.codes]

    def _zone_of(self) -> dict[str, str]:
        """The zone of each node that is in one."""
        if self._zones is None:
            assert self._session is not None
            nodes = self._session.nodes
            column = self._index.over(nodes).label(REVOCABLE_ZONE)
            codes, names, values = column.codes.tolist(), nodes.names, column.values
            self._zones = {names[row]: zone for row, code in enumerate(codes) if (zone := values[code])}
        return self._zones


def _open_zones(shape: Shape) -> list[str]:
    """The zones that were open when the shape got its trait."""
    return shape.traits.get(Tdm.name, "").partition(":")[2].split(",")


def _window(key: str, text: object) -> Window:
    found = window(text) if isinstance(text, str) else None
    if found is None:
        msg = f'{Tdm.name}: "{key}" takes a window of local time such as "22:00-06:00", not {text!r}'
        raise ArgumentError(msg, key=key)
    return found


def _running(task: Task) -> bool:
    return task.preemptable and task.status is TaskStatus.RUNNING


def _revocable(task: Task) -> bool:
    """Whether a task can be moved: by its annotation, or because it says that it may be preempted."""
    annotations = task.pod.metadata.annotations
    zone = annotations.get(REVOCABLE_ZONE)
    return zone == ANY_ZONE if zone is not None else annotations.get(PREEMPTABLE) in _TRUE


def _preemptable(job: Job) -> bool:
    """Whether the PodGroup says that it may be preempted; false unless it does."""
    meta = job.group.metadata
    return (meta.annotations.get(PREEMPTABLE) or meta.labels.get(PREEMPTABLE)) in _TRUE
