"""Search of nodes for a gang of different pods where placing one after the other, each on the best node, failed.

For alike pods placing one after the other is exact, as long as they do not depend on each other: nothing is searched.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.cluster.loads import Quantity
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.cluster.subjobs import SubJobInfo
from volcanoio.engine.scheduling.config.plugin_rules import Rules
from volcanoio.engine.scheduling.topology.boards import NodeRooms, RoomBoard, SessionBoard
from volcanoio.engine.scheduling.topology.search import AssignmentSearch, Gang, GangPart, PodKind
from volcanoio.engine.scheduling.topology.tree import HyperNodeTree
from volcanoio.framework.scheduling.podterms import TermRole
from volcanoio.framework.scheduling.session import Assignment, Run, Statement
from volcanoio.framework.scheduling.views import Shape, Task, TaskStatus

MAX_STEPS = 250
"""Placements undone at most in one HyperNode."""
MAX_TOTAL_STEPS = 2000
"""Placements undone at most for one gang in a search, or in all its dry runs of a session."""
MAX_SHAPES = 62
"""Number of different pods of a gang up to which it is searched: one bit of an integer for each."""


_Board: TypeAlias = RoomBoard | SessionBoard


class PendingPart(NamedTuple):
    """Runs of pending tasks of a job, or of one of its sub-jobs, and the HyperNodes they may be placed in."""

    sub_job: SubJobInfo | None
    runs: Sequence[Run]
    domains: Callable[[str], Sequence[str]]
    """Returns the largest ones inside a HyperNode."""


class GangSearch:
    """One search for a job that is not ready and has nothing placed in the statement."""

    def __init__(
        self, state: ClusterState, rules: Rules, tree: HyperNodeTree, job: JobInfo, parts: Sequence[PendingPart]
    ) -> None:
        self._state = state
        self._rules = rules
        self._tree = tree
        self._job = job
        self._totals = state.ledger.columns.totals(Quantity.ALLOCATABLE)
        self._parts = sorted(parts, key=lambda part: self._share_of(part.runs), reverse=True)
        self._tasks: list[list[Task]] = []
        """The tasks of each kind: larger parts first, and larger pods of a part."""
        self._kinds: list[PodKind] = []
        for at, part in enumerate(self._parts):
            alike: dict[tuple[int, str], list[Task]] = {}
            for run in part.runs:
                tasks = [task for task in run.tasks if task.status is TaskStatus.PENDING]
                alike.setdefault((run.shape.id, run.role), []).extend(tasks)
            for tasks in sorted(filter(None, alike.values()), key=self._order):
                self._tasks.append(tasks)
                self._kinds.append(PodKind(at, tasks[0].role, len(tasks)))
        self._shapes = list({tasks[0].shape.id: tasks[0].shape for tasks in self._tasks}.values())
        self._is_static = all(map(state.placer.filters_ignore_placements, self._shapes))
        self.is_incomplete = False
        """Whether some assignment that might fit was not tried."""
        self.steps = 0
        """Placements that were undone."""

    @property
    def is_one_by_one_exact(self) -> bool:
        """Whether placing one pod after the other finds nodes for the gang whenever there are any.

        A sub-job is placed when its own minimum is reached, where the job may need more of it.
        """
        if len(self._kinds) != 1 or self._parts[0].sub_job is not None:
            return not self._kinds
        return not _follows_others(self._shapes[0])

    @property
    def signature(self) -> tuple[object, ...]:
        """Return what identifies the gang: the result of a search is valid for the same one only."""
        job = self._job
        pods = [(tasks[0].shape.id, kind) for tasks, kind in zip(self._tasks, self._kinds, strict=True)]
        topologies = [job.network_topology, *[sub_job.network_topology for sub_job in job.sub_jobs]]
        minimums = [sorted(job.role_minimums.items()), sorted(job.sub_job_minimums.items())]
        of_sub_jobs = [sub_job.min_available for sub_job in job.sub_jobs]
        return (*pods, self._rules.job_missing(job), *topologies, *map(tuple, minimums), *of_sub_jobs)

    def run(
        self, statement: Statement, names: Sequence[str], limit: int = MAX_TOTAL_STEPS
    ) -> Generator[None, None, Assignment | None]:
        """Search in these HyperNodes, one after the other; where nothing is found, `is_incomplete` is valid then.

        `limit` is the maximum number of undone placements.
        """
        if names and len(self._shapes) > MAX_SHAPES:
            self.is_incomplete = True
            return None
        for name in names:
            gang = self._gang(name)
            board = self._board_maker(gang, statement)
            for idle in (True, False):
                if not idle and not self._has_releasing(name):
                    break
                if self.steps >= limit:
                    self.is_incomplete = True
                    return None
                search, found = yield from self._search(gang, statement, board(idle))
                self.steps += search.steps
                if found is not None:
                    return found
                self.is_incomplete |= search.is_incomplete or self._has_untried_choices
            yield
        return None

    @property
    def _has_untried_choices(self) -> bool:
        """Whether a choice beside the nodes decides what fits: the order of different pods, or devices on a node."""
        placer = self._state.placer
        return any(
            (len(self._kinds) > 1 and _follows_others(shape)) or placer.filters_count_devices(shape)
            for shape in self._shapes
        )

    def _search(
        self, gang: Gang, statement: Statement, board: _Board
    ) -> Generator[None, None, tuple[AssignmentSearch, Assignment | None]]:
        """Search in one HyperNode; return the search, and where each task goes if that was found."""
        mark = statement.savepoint()
        search = AssignmentSearch(gang, board, MAX_STEPS)
        found = yield from search.run()
        chosen = board.chosen_rows() if found else []
        statement.rollback(mark)
        if not found:
            return search, None
        left, columns = [iter(tasks) for tasks in self._tasks], self._state.ledger.columns
        return search, Assignment([(next(left[kind]), columns.names[row]) for kind, row in chosen], self.signature)

    def _board_maker(self, gang: Gang, statement: Statement) -> Callable[[bool], _Board]:
        """Return a function that returns the nodes of a gang's domains: with True by what is idle, or what will be."""
        columns, placer = self._state.ledger.columns, self._state.placer
        rows = {domain: self._tree.rows(domain) for part in gang.parts for domain in part.domains}
        if not self._is_static:
            return lambda idle: SessionBoard(statement, columns, self._tasks, rows, partial(placer.fitting, idle=idle))
        index = {shape.id: at for at, shape in enumerate(self._shapes)}
        shape_of = [index[tasks[0].shape.id] for tasks in self._tasks]
        counts = [0] * len(index)
        for at, kind in zip(shape_of, self._kinds, strict=True):
            counts[at] += kind.number
        masks = [placer.passing(shape) for shape in self._shapes]
        rooms = NodeRooms(columns, rows, list(zip(self._shapes, counts, strict=True)), masks)
        return lambda idle: RoomBoard(rooms, shape_of, idle=idle)

    def _gang(self, name: str) -> Gang:
        """Return what is to be placed in a HyperNode."""
        job, rules = self._job, self._rules
        parts = []
        for part in self._parts:
            sub_job = part.sub_job
            least = rules.job_missing(job) if sub_job is None else rules.sub_job_missing(sub_job)
            parts.append(GangPart(part.domains(name), least, "" if sub_job is None else sub_job.group))
        roles: Mapping[str, int] = {}
        if 0 < job.role_minimum_total <= job.min_available:
            roles = {role: least - job.role_count(role) for role, least in job.role_minimums.items()}
        groups = dict(job.sub_job_minimums)
        for sub_job in job.sub_jobs:
            if sub_job.group in groups and rules.sub_job_ready(sub_job):
                groups[sub_job.group] -= 1
        return Gang(self._kinds, parts, rules.job_missing(job), roles, groups)

    def _has_releasing(self, name: str) -> bool:
        """Return whether any node of a HyperNode will have more free than now."""
        block, rows = self._state.ledger.columns.block, self._tree.rows(name)
        return bool(block[Quantity.RELEASING][:, rows].any())

    def _order(self, tasks: Sequence[Task]) -> tuple[bool, float]:
        """Return the sort key of a kind: pods that others may have to precede come last, then larger ones first."""
        return _follows_others(tasks[0].shape), -self._share(tasks)

    def _share(self, tasks: Sequence[Task]) -> float:
        """Return the largest share of the cluster that one of these alike tasks requests."""
        requests = tasks[0].shape.requests if tasks else {}
        return max([amount / max(self._totals.get(name, 0), 1) for name, amount in requests.items()], default=0.0)

    def _share_of(self, runs: Sequence[Run]) -> float:
        return sum(len(run.tasks) * self._share(run.tasks) for run in runs)


def _follows_others(shape: Shape) -> bool:
    """Return whether what fits depends on pods that were placed before: required affinity, or topology spread."""
    return shape.terms is not None and bool(shape.terms.spread or shape.terms.of(TermRole.REQUIRED_AFFINITY))
