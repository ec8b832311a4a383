"""The placer: finds nodes for alike tasks, several in one call, each on the best node at that moment.

It chooses among three strategies. Each gives the same result as filtering and scoring all nodes for one task after the
other. By node state: scores depend on a node's amounts alone. By node row: they depend on the node's row. Per task:
they depend on more than that. `ScoreTables` keeps scores across cycles; `FitErrorCounter` counts why a task found no
node.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.attempts import FitErrors
from volcanoio.engine.scheduling.cluster.inputs import Inputs
from volcanoio.engine.scheduling.cluster.jobs import TaskInfo
from volcanoio.engine.scheduling.cluster.ledger import Ledger
from volcanoio.engine.scheduling.cluster.loads import Load
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.engine.scheduling.config.plugin_parts import FilterPart
from volcanoio.engine.scheduling.config.plugin_rules import Rules
from volcanoio.engine.scheduling.placement.by_node_row import ByNodeRow
from volcanoio.engine.scheduling.placement.by_node_state import ByNodeState
from volcanoio.engine.scheduling.placement.node_states import (
    NO_FORMER_SCORES,
    NOWHERE,
    FormerScores,
    NodeStates,
    fitting_counts,
)
from volcanoio.engine.scheduling.placement.plan import Plan
from volcanoio.engine.scheduling.placement.recent_changes import RecentChanges
from volcanoio.engine.scheduling.placement.score_table import (
    PREDICATE,
    SCORING,
    PlacementCycle,
    ScoreTable,
    StageTimes,
    TableSources,
)
from volcanoio.framework.scheduling.points import TaskScorer
from volcanoio.framework.scheduling.views import Shape, TaskStatus
from volcanoio.model.resources import CPU, MEMORY, PODS


class Domain(NamedTuple):
    """Name of a HyperNode, and which rows are in it."""

    name: str
    rows: NDArray[np.bool_]


@dataclass(slots=True)
class PlacementRequest:
    """Alike tasks of a job, to be placed in order; placed ones are appended to `log`.

    `missing` returns how many more tasks the job needs, 0 when it has enough; it is called again after that many were
    placed.
    `nominated` is the nominated node of a single task. `idle_only`: room that is being released does not count.
    `pipeline`: tasks become Pipelined on idle room too; `idle_first`: idle room is then preferred. `domain`: the
    nodes that may be used, None for all.
    """

    tasks: Sequence[TaskInfo]
    log: list[TaskInfo]
    missing: Callable[[], int] | None = None
    nominated: str = ""
    idle_only: bool = False
    pipeline: bool = False
    idle_first: bool = False
    domain: Domain | None = None

    @property
    def allowed(self) -> NDArray[np.bool_] | None:
        """The rows that may be used, None for all."""
        return None if self.domain is None else self.domain.rows


MAX_TABLES = 1024
"""Number of score tables that are kept (100 to 300 kB each at 10,000 nodes)."""
MAX_POD_DEPENDENT_TABLES = 24
"""Number of score tables that are kept for shapes with terms about other pods.

Small: there may be as many such shapes as jobs, and a new table is copied from a similar one.
"""
MAX_FORMER_SCORES = 2048
"""Number of dropped tables whose scores by state are kept."""


class ScoreTables:
    """The score tables by shape; the least recently used ones are dropped, all of them with the plugins.

    A table is also replaced when the capacity of the columns has grown; its scores by state stay valid.
    """

    def __init__(self, columns: NodeColumns, states: NodeStates, inputs: Inputs, times: StageTimes) -> None:
        self._columns = columns
        self._sources = TableSources(columns, states, inputs, RecentChanges(columns), times)
        self._tables: dict[int, ScoreTable] = {}
        """Tables of other shapes, by the shape's id."""
        self._former_scores: dict[int, FormerScores] = {}
        """Scores by state of dropped tables, by the shape's id; the table checks that they are still valid."""
        self._pod_dependent: dict[int, ScoreTable] = {}
        """Tables of shapes with terms about other pods, by the shape's id."""
        self._latest_similar: dict[int, ScoreTable] = {}
        """The latest table of similar shapes, by the id of the shape without its terms about other pods."""

    def clear(self) -> None:
        """Drop all tables: the plugins were replaced."""
        self._tables.clear()
        self._pod_dependent.clear()
        self._latest_similar.clear()
        self._former_scores.clear()

    def of(self, shape: Shape) -> tuple[ScoreTable, ScoreTable | None]:
        """Return the table for a shape, not updated yet, and one for a similar shape to start from."""
        if shape.id != shape.base_id:
            return self._of_pod_dependent(shape)
        if (table := self._tables.pop(shape.id, None)) is None:
            if len(self._tables) >= MAX_TABLES:
                old = next(iter(self._tables))
                self._former_scores[old] = self._tables.pop(old).former_scores
                if len(self._former_scores) > MAX_FORMER_SCORES:
                    del self._former_scores[next(iter(self._former_scores))]
            former = self._former_scores.pop(shape.id, NO_FORMER_SCORES)
            table = ScoreTable(shape, self._sources, former)
        elif table.capacity != self._columns.capacity:
            table = ScoreTable(shape, self._sources, table.former_scores)
        self._tables[shape.id] = table
        return table, None

    def existing(self, shape: Shape) -> ScoreTable | None:
        """Return the table for a shape as it was last updated, None if there is none."""
        return (self._tables if shape.id == shape.base_id else self._pod_dependent).get(shape.id)

    def _of_pod_dependent(self, shape: Shape) -> tuple[ScoreTable, ScoreTable | None]:
        """Return the table of a shape that differs from others only in its terms about other pods."""
        if (table := self._pod_dependent.pop(shape.id, None)) is None:
            if len(self._pod_dependent) >= MAX_POD_DEPENDENT_TABLES:
                del self._pod_dependent[next(iter(self._pod_dependent))]
            table = ScoreTable(shape, self._sources)
        elif table.capacity != self._columns.capacity:
            table = ScoreTable(shape, self._sources, table.former_scores)
        self._pod_dependent[shape.id] = table
        latest, plain = self._latest_similar.pop(shape.base_id, None), self._tables.get(shape.base_id)
        same_length = [one for one in (latest, plain) if one is not None and one.capacity == table.capacity]
        similar = max(same_length, key=lambda one: one.revision, default=None)
        self._latest_similar[shape.base_id] = table
        if len(self._latest_similar) > MAX_POD_DEPENDENT_TABLES:
            del self._latest_similar[next(iter(self._latest_similar))]
        return table, similar


_FIRST = (CPU, MEMORY)
"""Resources whose fit errors come first."""


REJECTED = "node(s) were rejected by a plugin"
"""Reason of nodes that a filter rejects without one."""


class _ReasonCounts:
    """Number of nodes by the first reason why a shape does not fit them."""

    __slots__ = ("_columns", "_shape", "_uncounted", "counts", "total")

    def __init__(self, shape: Shape, columns: NodeColumns, domain: Domain | None) -> None:
        self._shape = shape
        self._columns = columns
        self._uncounted = np.ones(len(columns), np.bool_) if domain is None else domain.rows.copy()
        self.total = int(np.count_nonzero(self._uncounted))
        self.counts: dict[str, int] = {}

    def add(self, reason: str, failing: NDArray[np.bool_]) -> None:
        """Count the nodes that fail for a reason and are not counted yet."""
        newly_failing = self._uncounted & failing
        if number := int(np.count_nonzero(newly_failing)):
            self.counts[reason] = self.counts.get(reason, 0) + number
            self._uncounted[newly_failing] = False

    def add_filters(self, parts: Iterable[FilterPart]) -> None:
        """Count the nodes that filters reject."""
        shape, columns = self._shape, self._columns
        for part in parts:
            feasibility = part.feasible(shape, columns, columns, range(len(columns)))
            for text, failing in feasibility.reasons:
                self.add(text, failing)
            self.add(REJECTED, ~feasibility.ok)


class FitErrorCounter:
    """Counts why a shape fits no node; the counts are valid for one cycle, and only while no row changes."""

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._cycle: PlacementCycle | None = None
        """The cycle of the counts."""
        self._counted: dict[tuple[int, bool, str], tuple[int, FitErrors]] = {}

    def errors(
        self, shape: Shape, plan: Plan, cycle: PlacementCycle, *, idle_only: bool, domain: Domain | None
    ) -> FitErrors:
        """Return the number of nodes by reason for the current columns; each node counts under its first reason.

        `plan` is the shape's in that cycle: filters that do not apply to the shape are not called.
        """
        if self._cycle is not cycle:
            self._cycle = cycle
            self._counted.clear()
        columns, key = self._columns, (shape.id, idle_only, "" if domain is None else domain.name)
        if (known := self._counted.get(key)) is not None and known[0] == columns.clock:
            return known[1]
        counted = _ReasonCounts(shape, columns, domain)
        filters = plan.applying_filters(cycle.rules)
        counted.add_filters(part for part in filters if part.precedes_room)
        names = sorted(shape.requests, key=lambda name: (_FIRST.index(name) if name in _FIRST else 2, name))
        for name in names:
            counted.add(_insufficient_reason(shape, name), columns.future_idle(name) < shape.requests[name])
        counted.add_filters(part for part in filters if not part.precedes_room)
        for name in names if idle_only else ():
            counted.add(_insufficient_reason(shape, name), columns.idle(name) < shape.requests[name])
        errors = FitErrors(counted.total, counted.counts, "" if domain is None else domain.name)
        self._counted[key] = (columns.clock, errors)
        return errors


def _insufficient_reason(shape: Shape, name: str) -> str:
    """Return the fit error for a resource; for best-effort pods only the pod count, as in Volcano's backfill."""
    return "node(s) pod number exceeded" if shape.best_effort and name == PODS else f"Insufficient {name}"


PER_TASK_EFFORT = 0.125
"""Effort of one task that is placed per task, in evaluations of all nodes."""
_Take: TypeAlias = Callable[[int], Sequence[int]]
"""Chooses rows for up to so many alike tasks and counts the tasks in the columns; fewer if there is no more room."""


class Placer:
    """Finds nodes for tasks and assumes the tasks there; keeps score tables across cycles."""

    _cycle: PlacementCycle
    """The current cycle, set by `open`."""

    def __init__(self, ledger: Ledger, inputs: Inputs) -> None:
        self._ledger = ledger
        self._columns = columns = ledger.columns
        self._rules: Rules | None = None
        """The rules that the score tables follow from."""
        self._states = NodeStates(columns)
        self.stage_times = StageTimes()
        """Measures filtering and scoring, if a caller wants that."""
        self._score_tables = ScoreTables(columns, self._states, inputs, self.stage_times)
        self._by_node_state = ByNodeState(columns, self._states)
        self._by_node_row = ByNodeRow(columns)
        self._fit_errors = FitErrorCounter(columns)
        self.effort = 0.0
        """Work done so far, in evaluations of all nodes."""

    def add_effort(self, amount: float) -> None:
        """Count other work of the cycle; 1 is about one evaluation of all nodes."""
        self.effort += amount

    def open(self, rules: Rules, cycle: int, seed: int) -> None:
        """Begin a cycle; tables of other plugins are dropped."""
        if self._rules is not rules:
            self._rules = rules
            self._score_tables.clear()
            self._states.reset_for_rules()
        self._by_node_state.open()
        self._cycle = PlacementCycle.of(rules, cycle, seed)

    def place(self, request: PlacementRequest) -> tuple[int, bool]:
        """Place tasks on idle room first, then, unless `idle_only`, pipeline them where room is being released.

        Returns how many were placed, and whether the job needs no more.
        """
        tasks = request.tasks
        table = self._score_table(tasks[0].shape)
        if not self._columns.rows:  # no nodes
            return 0, False
        if request.nominated and (row := self._nominated_row(table, request)) is not None:
            is_idle = table.fits_on(row, idle=True) and self._is_free_now(table, row)
            status = TaskStatus.ALLOCATED if is_idle else TaskStatus.PIPELINED
            self.assume(tasks[0], status, row, request.log)
            return 1, request.missing is not None and not request.missing()
        if (scorers := self._task_scorers(tasks[0])) or table.is_per_task:
            return self._place_per_task(table, request, scorers)
        if request.domain is not None:
            scores = np.where(request.domain.rows, table.idle_scores[: len(self._columns)], NOWHERE)
            take: _Take = partial(self._by_node_row.take, table, scores, Load.OCCUPIES)
        elif table.is_by_state:
            take = partial(self._by_node_state.take, table)
        else:
            take = partial(self._take_by_node_row, table)
        placed, done = self._place_alike(take, TaskStatus.ALLOCATED, request, 0)
        if done or request.idle_only or placed == len(tasks):
            return placed, done
        return self._pipeline_alike(table, request, placed, idle=False)

    def take_one_row(self, task: TaskInfo) -> int:
        """Take the row where `place` would allocate a task, and count the task in the columns.

        The caller records the task. Returns -1, with nothing done, where no row fits or `place` must be called.
        """
        table = self._score_table(task.shape)
        if table.is_per_task or self._task_scorers(task):
            return -1
        if table.is_by_state:
            return self._by_node_state.take_one(table)
        # No row scorer: a filter depends on usage, or a scorer has no scalar form. `place` handles these
        return self._by_node_row.take_one(table) if table.row_scorer is not None else -1

    def pipeline(self, request: PlacementRequest) -> int:
        """Pipeline tasks wherever room is idle or being released; return how many were."""
        tasks = request.tasks
        table = self._score_table(tasks[0].shape)
        if not self._columns.rows:  # no nodes
            return 0
        if request.nominated and (row := self._nominated_row(table, request)) is not None:
            self.assume(tasks[0], TaskStatus.PIPELINED, row, request.log)
            return 1
        if (scorers := self._task_scorers(tasks[0])) or table.is_per_task:
            return self._place_per_task(table, request, scorers)[0]
        placed = 0
        for idle in (True, False) if request.idle_first else (False,):
            placed, done = self._pipeline_alike(table, request, placed, idle=idle)
            if done or placed == len(tasks):
                break
        return placed

    def assume(self, task: TaskInfo, status: TaskStatus, row: int, log: list[TaskInfo]) -> None:
        """Assume one task on a row, count it in the columns, and notify plugins."""
        self._ledger.assume(task, status, row)
        log.append(task)
        for notify in self._cycle.rules.placed.of(task.shape):
            notify(task)

    def _take_by_node_row(self, table: ScoreTable, count: int) -> Sequence[int]:
        """Choose rows for up to `count` tasks by the table's own scores, which are up to date afterwards."""
        rows = self._by_node_row.take(table, table.idle_scores[: len(self._columns)], Load.OCCUPIES, count)
        table.revision = self._columns.clock
        return rows

    def _place_alike(self, take: _Take, status: TaskStatus, request: PlacementRequest, start: int) -> tuple[int, bool]:
        """Place tasks from index `start` on the rows that a strategy chooses, as many at once as the job still needs.

        Returns the index after the last placed task, and whether the job needs no more.
        """
        index, end, missing = start, len(request.tasks), request.missing
        # At least one task is placed, even if the job needs none: as when tasks are placed one by one
        needed = end - start if missing is None else max(missing(), 1)
        while index < end:
            rows = take(min(needed, end - index))
            if rows:
                tasks = request.tasks[index : index + len(rows)]
                self._ledger.record_assumed(tasks, status, rows)
                request.log += tasks
                for notify in self._cycle.rules.placed.of(tasks[0].shape):
                    for task in tasks:
                        notify(task)
                index += len(rows)
            if len(rows) < needed:  # no room, or no tasks left
                break
            if missing is not None and not (needed := missing()):
                return index, True
        return index, False

    def _pipeline_alike(
        self, table: ScoreTable, request: PlacementRequest, start: int, *, idle: bool
    ) -> tuple[int, bool]:
        """Pipeline tasks from index `start` where they fit (`_scores_where_fits`); return as `_place_alike`."""
        if (scores := self._scores_where_fits(table, request.allowed, idle=idle)) is None:
            return start, False
        take = partial(self._by_node_row.take, table, scores, Load.RESERVES)
        return self._place_alike(take, TaskStatus.PIPELINED, request, start)

    def _scores_where_fits(
        self, table: ScoreTable, allowed: NDArray[np.bool_] | None, *, idle: bool
    ) -> NDArray[np.float64] | None:
        """Return scores where a task fits the room that will be idle; NOWHERE elsewhere, None if it fits nowhere.

        With `idle`, it must also fit the room that is idle now. `allowed` restricts the rows further.
        """
        size = len(self._columns)
        fitting = table.passes[:size] & table.fit_mask(idle=idle)
        if allowed is not None:
            fitting &= allowed
        return np.where(fitting, table.all_scores_now()[:size], NOWHERE) if fitting.any() else None

    def _place_per_task(
        self, table: ScoreTable, request: PlacementRequest, scorers: Sequence[TaskScorer]
    ) -> tuple[int, bool]:
        """Place tasks one by one, each after filtering and scoring all nodes; `scorers` score this very task."""
        for index, task in enumerate(request.tasks):
            self.effort += table.prepare(self._cycle) + PER_TASK_EFFORT
            if (best := self._best_for(task, table, request, scorers)) is None:
                return index, False
            row, status = best
            self.assume(task, status, row, request.log)
            table.update_row(row)
            if request.missing is not None and not request.missing():
                return index + 1, True
        return len(request.tasks), False

    def _best_for(
        self, task: TaskInfo, table: ScoreTable, request: PlacementRequest, scorers: Sequence[TaskScorer]
    ) -> tuple[int, TaskStatus] | None:
        """Return the best row for one task and the status that the task gets there."""
        columns, size, shape, plan = self._columns, len(self._columns), table.shape, table.plan
        self.stage_times.begin()
        allowed = request.allowed
        for part in plan.live_filters:
            mask = part.allowed(shape, columns)
            allowed = mask if allowed is None else allowed & mask
        free = allowed
        for part in plan.live_filters:
            if part.allowed_now is not None and free is not None:
                free = free & part.allowed_now(shape, columns)
        self.stage_times.end(PREDICATE)
        scores = table.idle_scores[:size]
        if free is not None:
            scores = np.where(free, scores, NOWHERE)
        status = TaskStatus.PIPELINED if request.pipeline else TaskStatus.ALLOCATED
        if (request.pipeline and not request.idle_first) or scores.max() == NOWHERE:
            if request.idle_only or (fitting := self._scores_where_fits(table, allowed, idle=False)) is None:
                return None
            scores, status = fitting, TaskStatus.PIPELINED
        if plan.live_scorers or scorers:
            group = scores > NOWHERE
            scores = scores.copy()
            for scorer in plan.live_scorers:
                scores += scorer.score(shape, columns, group, columns, range(size))
            for each in scorers:
                scores += each.score_task(task, columns)
            scores[~group] = NOWHERE
            self.stage_times.end(SCORING)
        return table.first((scores == scores.max()).nonzero()[0]), status

    def fitting_counts(self, shape: Shape) -> NDArray[np.int64]:
        """Return by row how many tasks of a shape fit the room that is or will be idle.

        An upper bound: filters whose result a placement can change are ignored.
        """
        table = self._score_table(shape)
        return fitting_counts(shape, self._columns, table.feasible[: len(self._columns)])

    def passing(self, shape: Shape) -> NDArray[np.bool_]:
        """Return by row whether a task of a shape passes every filter that is not called per task, whatever is free."""
        return self._score_table(shape).passes[: len(self._columns)].copy()

    def fitting(self, shape: Shape, *, idle: bool) -> NDArray[np.bool_]:
        """Return by row whether a task passes every filter and fits the room that will be idle, or with `idle` is."""
        table = self._score_table(shape)
        fitting: NDArray[np.bool_] = table.passes[: len(self._columns)] & table.fit_mask(idle=idle)
        for part in table.plan.live_filters:
            fitting &= part.allowed(shape, self._columns)
            if idle and part.allowed_now is not None:
                fitting &= part.allowed_now(shape, self._columns)
        return fitting

    def candidate_scores(self, task: TaskInfo) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return by row whether a task might fit after evictions, and its score now."""
        table, columns, size = self._score_table(task.shape), self._columns, len(self._columns)
        mask, scores = table.feasible[:size].copy(), table.all_scores_now()[:size].copy()
        for scorer in table.plan.live_scorers:
            scores += scorer.score(table.shape, columns, mask, columns, range(size))
        for each in self._task_scorers(task):
            scores += each.score_task(task, columns)
        return mask, scores

    def current_score(self, task: TaskInfo, row: int) -> float:
        """Return the score of one row now; live scorers are left out."""
        if (table := self._score_tables.existing(task.shape)) is not None and table.row_scorer is not None:
            return table.current_score(row)
        return self._score_table(task.shape).all_scores_now().item(row)

    def is_node_local(self, task: TaskInfo) -> bool:
        """Return whether `candidate_scores` of a row, computed in this cycle, depend on that row alone."""
        if (table := self._score_tables.existing(task.shape)) is None or not table.is_stable_in(self._cycle):
            return False
        return table.row_scorer is not None and not table.plan.live_scorers and not self._task_scorers(task)

    def fits(self, task: TaskInfo, row: int) -> bool:
        """Return whether a task passes every filter on a row and fits its free room or that being released."""
        if (table := self._score_tables.existing(task.shape)) is None:
            table = self._score_table(task.shape)
        if not table.fits_on(row, idle=False):  # the usual result: also called before evictions
            return False
        if not table.is_stable_in(self._cycle):
            table = self._score_table(task.shape)
        return self._passes_filters(table, row)

    def must_wait_on(self, shape: Shape, rows: Sequence[int]) -> bool:
        """Return whether tasks of a shape must wait on all these rows for room that is reserved for them."""
        if (table := self._score_tables.existing(shape)) is None or not table.is_stable_in(self._cycle):
            table = self._score_table(shape)
        return table.plan.has_static_filters and all(map(table.must_wait_on, set(rows)))

    def tie_keys(self, shape: Shape, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
        """Return the key of each row among equally good ones; the smallest is taken."""
        keys: NDArray[np.uint64] = self._columns.hashes[rows] ^ self._cycle.tie_salt(shape)
        return keys

    def is_scored_per_task(self, shape: Shape) -> bool:
        """Return whether plugins are called for every task of a shape; updates the shape's table first."""
        return self._score_table(shape).is_per_task

    def filters_ignore_placements(self, shape: Shape) -> bool:
        """Return whether no placement changes a filter's result for any node; updates the shape's table first."""
        return self._score_table(shape).plan.has_static_filters

    def filters_count_devices(self, shape: Shape) -> bool:
        """Return whether a filter other than those about pods depends on what was placed, such as on devices."""
        plan = self._score_table(shape).plan
        about_pods = shape.terms is not None or bool(shape.matched)
        return bool(plan.usage) or (bool(plan.live_filters) and not about_pods)

    def is_time_independent(self, shape: Shape) -> bool:
        """Return whether no filter depends on the time; updates the shape's table first."""
        return not self._score_table(shape).plan.has_time_dependent_filters

    def fit_errors(self, shape: Shape, *, idle_only: bool, domain: Domain | None = None) -> FitErrors:
        """Return why a task of a shape fits no node now, or none of a domain; nodes count under their first reason."""
        if (table := self._score_tables.existing(shape)) is None or not table.is_prepared_in(self._cycle):
            table = self._score_table(shape)
        return self._fit_errors.errors(shape, table.plan, self._cycle, idle_only=idle_only, domain=domain)

    def rejections(self, shape: Shape) -> list[tuple[str, NDArray[np.bool_]]]:
        """Return each reason of the filters, free room aside, with the nodes that fail for it."""
        columns, rows = self._columns, range(len(self._columns))
        found = []
        for part in self._score_table(shape).plan.applying_filters(self._cycle.rules):
            feasibility = part.feasible(shape, columns, columns, rows)
            unnamed = ~feasibility.ok
            for text, failing in feasibility.reasons:
                found.append((text, failing))
                unnamed &= ~failing
            if unnamed.any():
                found.append((REJECTED, unnamed))
        return found

    def _score_table(self, shape: Shape) -> ScoreTable:
        """Return the table for a shape, up to date with the columns."""
        table, similar = self._score_tables.of(shape)
        self.effort += table.prepare(self._cycle, similar)
        return table

    def _nominated_row(self, table: ScoreTable, request: PlacementRequest) -> int | None:
        """Return the row of the nominated node if the task may go there."""
        row = self._columns.rows.get(request.nominated)
        if row is not None and request.allowed is not None and not request.allowed.item(row):
            return None
        if row is None or not table.fits_on(row, idle=request.idle_only) or not self._passes_filters(table, row):
            return None
        return row

    def _passes_filters(self, table: ScoreTable, row: int) -> bool:
        """Return whether every filter passes on a row, including those called per task."""
        if not table.passes.item(row):
            return False
        for part in table.plan.live_filters:  # noqa: SIM110 - called before every placement that needs evictions
            if not part.allowed(table.shape, self._columns).item(row):
                return False
        return True

    def _is_free_now(self, table: ScoreTable, row: int) -> bool:
        """Return whether a task that passes every filter on a row may be bound there at once."""
        return all(
            part.allowed_now is None or part.allowed_now(table.shape, self._columns).item(row)
            for part in table.plan.live_filters
        )

    def _task_scorers(self, task: TaskInfo) -> Sequence[TaskScorer]:
        """Return the plugins that score nodes for this very task."""
        return (scorers := self._cycle.rules.task_scorers) and [one for one in scorers if one.scores_task(task)]
