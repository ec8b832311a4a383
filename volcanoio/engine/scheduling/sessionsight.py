"""What plugins see of a session: nodes, pods, jobs and queues as they are in it, and what changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from volcanoio.engine.scheduling.cluster import ClusterState
from volcanoio.engine.scheduling.columns import Columns
from volcanoio.engine.scheduling.combine import Rules
from volcanoio.engine.scheduling.explanation import fit_error
from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.loads import Quantity
from volcanoio.engine.scheduling.podindex import PodIndex
from volcanoio.engine.scheduling.queues import QueueInfo
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.engine.scheduling.undo import PluginTable, Tables, UndoLog
from volcanoio.engine.scheduling.volumes import VolumeIndex
from volcanoio.framework.scheduling.sessionview import Text
from volcanoio.framework.scheduling.views import Amounts
from volcanoio.framework.scheduling_effects import PreBindStep
from volcanoio.model.base import ApiObject


class SessionSight:
    """Implements `sessionview.SessionView`, but for questions; `session.CycleSession` says what the attributes are."""

    state: ClusterState
    rules: Rules
    now: float
    period: float
    tables: Tables
    unended: list[UndoLog]
    conditions: dict[str, dict[str, tuple[str, Text]]]
    at_hand: Sequence[JobInfo]
    cut: bool
    tried: set[str]
    unfinished: set[str]

    @property
    def nodes(self) -> Columns:
        """As `sessionview.SessionView`."""
        return self.state.ledger.columns

    @property
    def pods(self) -> PodIndex:
        """As `sessionview.SessionView`."""
        return self.state.ledger.pods

    @property
    def used(self) -> Amounts:
        """As `sessionview.SessionView`."""
        return self.nodes.totals(Quantity.USED)

    @property
    def jobs(self) -> Mapping[str, JobInfo]:
        """As `sessionview.SessionView`."""
        return self.state.ledger.listed

    @property
    def queues(self) -> Mapping[str, QueueInfo]:
        """As `sessionview.SessionView`."""
        return self.state.ledger.known_queues

    @property
    def touched(self) -> Collection[JobInfo]:
        """As `sessionview.SessionView`; in the order of keys and a few at a time, while the session closes."""
        return self.at_hand

    def changes(self, owner: object, most: int | None = None) -> Collection[JobInfo]:
        """As `sessionview.SessionView`."""
        return self.state.ledger.changes.since(owner, self.state.ledger.listed, most)

    def jobs_in(self, phase: str) -> Iterable[JobInfo]:
        """As `sessionview.SessionView`."""
        return self.state.ledger.in_phase(phase)

    def any_in(self, phase: str) -> bool:
        """As `sessionview.SessionView`."""
        return bool(self.state.ledger.phases.get(phase))

    def table(self, owner: str, name: str) -> PluginTable:
        """As `sessionview.SessionView`."""
        return self.tables.get(owner, name)

    def set_condition(self, job: str, condition: str, reason: str, message: Text) -> None:
        """As `sessionview.SessionView`."""
        self.conditions.setdefault(job, {})[condition] = (reason, message)

    def fit_error(self, job: str) -> str:
        """As `sessionview.SessionView`."""
        info = self.state.ledger.listed[job]
        return fit_error(info, ready=self.rules.job_ready(info))

    @property
    def evicting(self) -> list[TaskInfo]:
        """As `sessionview.SessionView`."""
        tasks, asked = self.state.ledger.tasks, self.state.pods.evicting
        before = [tasks[uid] for uid in sorted(asked & tasks.keys())]
        return before + [entry.task for log in self.unended for entry in log.evicted]

    def objects(self, resource: str) -> Mapping[str, ApiObject]:
        """As `sessionview.SessionView`."""
        if resource not in self.rules.watches:
            msg = f'{resource} are read but not watched; name them in the plugin\'s "watches"'
            raise LookupError(msg)
        return self.state.inputs.objects(resource)

    def since(self, resource: str, version: int) -> Sequence[str] | None:
        """As `sessionview.SessionView`."""
        return self.state.inputs.since(resource, version)

    @property
    def prebinding(self) -> Mapping[str, Sequence[PreBindStep]]:
        """As `sessionview.SessionView`."""
        return self.state.prebinding

    @property
    def volumes(self) -> VolumeIndex:
        """As `sessionview.SessionView`."""
        return self.state.ledger.volumes
