"""The combined answers of a profile's plugins, tier by tier as in Volcano's session functions."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.jobs import TaskInfo
from volcanoio.engine.scheduling.config.plugin_parts import FilterPart, ScorerPart, filter_parts, scorer_parts
from volcanoio.engine.scheduling.config.profile import Enabled, Profile
from volcanoio.framework.scheduling import points
from volcanoio.framework.scheduling.points import SWITCHES, SortKey
from volcanoio.framework.scheduling.verdicts import ABSTAIN, PERMIT, Verdict, Vote
from volcanoio.framework.scheduling.views import Job, QueueView, Shape, SubJob, Task, TaskStatus
from volcanoio.framework.scheduling_effects import PreBindStep

TaskListener: TypeAlias = Callable[[Any], object]
MAX_CACHED_SHAPES = 100_000
"""Number of shapes for which listeners are cached."""


class TaskListeners:
    """Plugins that receive placed or evicted tasks, optionally of some shapes only (`points.TaskAccounting`)."""

    __slots__ = ("_by_shape", "_listeners")

    def __init__(self, listeners: Sequence[tuple[Callable[[Shape], bool] | None, TaskListener]]) -> None:
        """Take each listener with its condition on shapes, None for all shapes."""
        self._listeners = listeners
        self._by_shape: dict[int, Sequence[TaskListener]] = {}

    def of(self, shape: Shape) -> Sequence[TaskListener]:
        """Return the listeners for tasks of a shape."""
        if (known := self._by_shape.get(shape.id)) is None:
            if len(self._by_shape) >= MAX_CACHED_SHAPES:
                self._by_shape.clear()
            known = tuple(
                [listener for tracks_shape, listener in self._listeners if tracks_shape is None or tracks_shape(shape)]
            )
            self._by_shape[shape.id] = known
        return known


def _annotator(choose: Callable[[Task], Mapping[str, str]]) -> Callable[[TaskInfo], None]:
    """Return a listener that adds what a plugin chooses for a task that was allocated or pipelined."""

    def annotate(task: TaskInfo) -> None:
        if task.status in (TaskStatus.ALLOCATED, TaskStatus.PIPELINED):  # not one whose eviction was undone
            task.bind_annotations = {**task.bind_annotations, **choose(task)}

    return annotate


Part = TypeVar("Part")
_Tiers: TypeAlias = tuple[tuple[Callable[..., Any], ...], ...]
_MAX_PREBIND_SHAPES = 100_000
"""Number of shapes for which prebind steps are cached."""
_VERDICTS = (
    (points.JobValid, "job_valid"),
    (points.JobPipelined, "job_pipelined"),
    (points.JobStarving, "job_starving"),
    (points.Overused, "overused"),
    (points.Allocatable, "fits"),
    (points.Preemptable, "preemptable"),
    (points.Reclaimable, "reclaimable"),
    (points.Preemptive, "preemptive"),
)
_SWITCH_OF = {point: switch for switch, gated in SWITCHES.items() for point in gated}


class Rules:
    """The combined answers of all enabled plugins of a profile. Built once per profile.

    `own_filters` and `own_scorers` are the scheduler's own, before those of plugins.
    """

    def __init__(
        self, profile: Profile, own_filters: Sequence[FilterPart] = (), own_scorers: Sequence[ScorerPart] = ()
    ) -> None:
        self.profile = profile
        self.opens = tuple((enabled.plugin.name, ask) for ask, enabled in self._methods("open"))
        """Plugins' `open` with the plugin's name."""
        self.closes = tuple((enabled.plugin.name, ask) for ask, enabled in self._methods("close"))
        """Plugins' `close` with the plugin's name."""
        self.filters: tuple[FilterPart, ...] = (
            *own_filters,
            *filter_parts(self._plugins_with(points.Filter, ("feasible", "feasible_on"), "filters")),
        )
        self.unsimulated = self._unsimulated()
        """Filters that a dry run calls as if no task were evicted."""
        self.scorers: tuple[ScorerPart, ...] = (
            *own_scorers,
            *scorer_parts(self._plugins_with(points.Scorer, ("score", "score_on"), "scorers")),
        )
        self.parts: tuple[FilterPart | ScorerPart, ...] = (*self.filters, *self.scorers)
        self.shape_fields = frozenset[str]().union(*(part.applies_to or () for part in self.parts))
        """The fields of shapes that decide which parts apply."""
        self.task_scorers: tuple[points.TaskScorer, ...] = tuple(self._plugins_with(points.TaskScorer, ("score_task",)))
        self._traits = tuple((enabled.plugin, ask) for ask, enabled in self._methods("trait"))
        self._collect_accounting()
        self._collect_orders()
        self._collect_job_rules()
        self._collect_victim_rules()

    def _collect_accounting(self) -> None:
        annotators = [
            (enabled.plugin.annotates, _annotator(ask))  # type: ignore[attr-defined]  # both are of BindAnnotations
            for ask, enabled in self._methods("bind_annotations")
        ]
        self.placed = TaskListeners([*annotators, *self._task_listeners("task_placed")])
        """Listeners of placed tasks."""
        self.evicted = TaskListeners(self._task_listeners("task_evicted"))
        for use_hierarchy, enabled in self._methods("use_hierarchy"):
            use_hierarchy(enabled.switches.get("enableHierarchy", False))
        self._prebinds: tuple[points.PreBind, ...] = tuple(
            enabled.plugin for _, enabled in self._methods("prebind") if isinstance(enabled.plugin, points.PreBind)
        )
        self._prebinds_by_shape: dict[int, tuple[Callable[[Task], Sequence[PreBindStep]], ...]] = {}
        self.accounting_in = self._flat(points.Accounting, "allocated")
        self.accounting_out = self._flat(points.Accounting, "released")
        self.queue_usage = self._flat(points.QueueUsage, "queue_usage")
        """What plugins add to the allocated amounts in the status of queues."""
        self.reservation_accounting = self._flat(points.ReservationAccounting, "reserved")

    def _collect_orders(self) -> None:
        self._queue_keys = self._flat(points.QueueOrder, "queue_key")
        self._queue_generations = self._flat(points.QueueOrder, "queue_generation")
        self._job_keys = self._flat(points.JobOrder, "job_key")
        self.keeps_job_keys = len(self._job_keys) == len(self._flat(points.JobOrder, "job_key", points.KEPT_JOB_KEYS))
        self._namespace_generations = self._flat(points.NamespaceOrder, "namespace_generation")
        self._namespace_keys = self._placed_namespace_keys()
        self.orders_namespaces = bool(self._namespace_keys)
        """Whether any plugin orders the namespaces of a queue."""
        self._task_keys = self._flat(points.TaskOrder, "task_key")
        self.orders_tasks = bool(self._task_keys)
        """Whether any plugin orders tasks."""
        self.task_key: Callable[[Task], SortKey] = self._task_key if len(self._task_keys) != 1 else self._task_keys[0]
        """The order of tasks, called for every one: that of the only plugin, or the combined order."""

    def _collect_job_rules(self) -> None:
        self._overused = self._flat(points.Overused, "overused")
        self._allocatable = self._flat(points.Allocatable, "fits")
        self._room_details = self._flat(points.Allocatable, "room_details")
        self._valid = self._flat(points.JobValid, "job_valid")
        self._ready = self._flat(points.JobReady, "job_ready")
        self.job_ready: Callable[[Job], bool] = self._job_ready if len(self._ready) != 1 else self._ready[0]
        """Whether a job's statement may be committed, called after every placement; combined from all plugins."""
        self._missing = self._flat(points.JobReady, "job_missing")
        self._enqueued = self._flat(points.JobEnqueued, "job_enqueued")
        self._pipelined = self._tiers(points.JobPipelined, "job_pipelined")
        self._sub_jobs_ready = self._flat(points.SubJobReady, "sub_job_ready")
        self._sub_jobs_missing = self._flat(points.SubJobReady, "sub_job_missing")
        self._sub_jobs_pipelined = self._tiers(points.SubJobPipelined, "sub_job_pipelined")
        self._sub_job_keys = self._flat(points.SubJobOrder, "sub_job_key")
        self._enqueueable = self._tiers(points.JobEnqueueable, "job_enqueueable")
        self.keeps_enqueue_verdicts = self._enqueueable == self._tiers(
            points.JobEnqueueable, "job_enqueueable", points.KEPT_ENQUEUE_VERDICTS
        )
        """Whether jobs of one queue, namespace and demand share a rejection for the session."""

    def _collect_victim_rules(self) -> None:
        self._starving = next((tier for tier in self._tiers(points.JobStarving, "job_starving") if tier), ())
        self._preemptable = self._tiers(points.Preemptable, "preemptable")
        self._reclaimable = self._tiers(points.Reclaimable, "reclaimable")
        self._evictable = self._tiers(points.Evictable, "evictable")
        self._preemptive = self._flat(points.Preemptive, "preemptive")
        self._victim_keys = self._flat(points.VictimOrder, "victim_key")
        self._victims = self._tiers(points.VictimTasks, "victims")
        self._preemptor_keys = {
            points.Purpose.PREEMPT: self._keys_of(points.Preemptable, "preemptable"),
            points.Purpose.RECLAIM: self._keys_of(points.Reclaimable, "reclaimable"),
        }
        self.keeps_verdicts = all(
            self._flat(point, method) == self._flat(point, method, points.KEPT_VERDICTS) for point, method in _VERDICTS
        )
        """Whether failed searches for victims are repeated only after a change."""
        self._guards = self._flat(points.VictimGuard, "permitted")
        self._hyper_node_levels = self._flat(points.HyperNodeLevels, "hyper_node_levels")[:1]
        self._hyper_node_scores = self._flat(points.HyperNodeOrder, "hyper_node_scores")

    @property
    def traits(self) -> tuple[tuple[str, Callable[[Task, Job], str]], ...]:
        """Plugins with traits, by name."""
        if not self._traits:
            return ()
        return tuple([(plugin.name, ask) for plugin, ask in self._traits if getattr(plugin, "has_traits", True)])

    def queue_key(self, queue: QueueView) -> SortKey:
        """Combine queue keys in tier and plugin order; fallback: creation time and name, Volcano's uid of a queue."""
        created = queue.object.metadata.creation_timestamp or ""
        return (*[key(queue) for key in self._queue_keys], created, queue.name)

    def queue_generation(self) -> list[int]:
        """Return numbers; while they are the same, keys of queues only grow. Empty if queues are independent."""
        return [generation for ask in self._queue_generations if (generation := ask()) is not None]

    def job_key(self, job: Job) -> tuple[SortKey, ...]:
        """Combine job keys in tier and plugin order; fallback: creation time and key, which is Volcano's uid of a job.

        For jobs of one namespace: the order of namespaces is added by `with_namespace`.
        """
        return (*[key(job) for key in self._job_keys], job.created, job.key)

    def namespace_generation(self) -> list[int]:
        """Return numbers; while they are the same, keys of namespaces only grow."""
        return [ask() for ask in self._namespace_generations]

    def with_namespace(self, key: tuple[SortKey, ...], job: Job) -> tuple[SortKey, ...]:
        """Return the key among all jobs of a queue: `job_key` with the order of namespaces inserted."""
        parts = list(key)
        for place, ask in self._namespace_keys:
            parts.insert(place, ask(job))
        return tuple(parts)

    def _placed_namespace_keys(self) -> tuple[tuple[int, Callable[[Job], SortKey]], ...]:
        """Return the plugins that order namespaces, each with its position in a job's key."""
        switch = _SWITCH_OF[points.JobOrder]
        asked = [
            (name, getattr(enabled.plugin, name))
            for tier in self.profile.tiers
            for enabled in tier
            for name in ("job_key", "namespace_key")
            if enabled.switches.get(switch, True) and callable(getattr(enabled.plugin, name, None))
        ]
        return tuple((place, ask) for place, (name, ask) in enumerate(asked) if name == "namespace_key")

    def _task_key(self, task: Task) -> SortKey:
        """Combine task keys in tier and plugin order; the caller adds the fallback."""
        return tuple([key(task) for key in self._task_keys])

    def prebind(self, task: Task) -> tuple[PreBindStep, ...]:
        """Return the steps before a task's bind, in tier and plugin order."""
        asks = self.prebinds(task)
        return tuple([step for ask in asks for step in ask(task)]) if asks else ()

    def prebinds(self, task: Task) -> Sequence[Callable[[Task], Sequence[PreBindStep]]]:
        """Return the plugins' functions that return steps for tasks of this shape."""
        if not self._prebinds:
            return ()
        if (asks := self._prebinds_by_shape.get(task.shape.id)) is None:
            asks = tuple(plugin.prebind for plugin in self._prebinds if plugin.prebinds(task.shape))
            if len(self._prebinds_by_shape) >= _MAX_PREBIND_SHAPES:
                self._prebinds_by_shape.clear()
            self._prebinds_by_shape[task.shape.id] = asks
        return asks

    def overused(self, queue: QueueView) -> bool:
        """Return whether one of the plugins returns true."""
        for ask in self._overused:  # noqa: SIM110 - called often: a generator would double the time
            if ask(queue):
                return True
        return False

    def allocatable(self, queue: QueueView, shape: Shape, count: int) -> int:
        """Return the smallest limit of all plugins."""
        for ask in self._allocatable:
            allowed: int = ask(queue, shape, count)
            if allowed < count and (count := allowed) <= 0:
                return 0
        return count

    def room_details(self, queue: QueueView, shape: Shape, count: int) -> str:
        """Return the explanations of plugins why a queue cannot take all of `count` tasks."""
        return "; ".join([text for ask in self._room_details if (text := ask(queue, shape, count))])

    def job_valid(self, job: Job) -> Verdict:
        """Return the first rejection, else PERMIT."""
        for ask in self._valid:  # called for every job of a backlog: a generator would double the time
            verdict: Verdict = ask(job)
            if verdict.vote is Vote.REJECT:
                return verdict
        return PERMIT

    def _job_ready(self, job: Job) -> bool:
        """Return whether all plugins agree; without any, every job is ready."""
        for ask in self._ready:  # noqa: SIM110 - called after every placement: a generator would double the time
            if not ask(job):
                return False
        return True

    def job_missing(self, job: Job) -> int:
        """Return how many more tasks must be placed at least until the job is ready: 0 if it is."""
        if self.job_ready(job):
            return 0
        missing = 1
        for ask in self._missing:
            if (count := ask(job)) > missing:
                missing = count
        return missing

    def job_pipelined(self, job: Job) -> bool:
        """Combine the votes by tier; without any, permit."""
        return _combine_votes(self._pipelined, job).vote is not Vote.REJECT

    def sub_job_key(self, part: SubJob) -> SortKey:
        """Combine keys in tier and plugin order; fallback: the number in its labels and the key."""
        return (*[key(part) for key in self._sub_job_keys], part.match_index, part.key)

    def sub_job_ready(self, part: SubJob) -> bool:
        """Return whether all plugins agree; without any, every sub-job is ready."""
        return all(ask(part) for ask in self._sub_jobs_ready)

    def sub_job_missing(self, part: SubJob) -> int:
        """Return how many more of its tasks must be placed at least until it is ready: 0 if it is."""
        return 0 if self.sub_job_ready(part) else max([1, *[ask(part) for ask in self._sub_jobs_missing]])

    def sub_job_pipelined(self, part: SubJob) -> bool:
        """Combine the votes by tier; without any, permit."""
        return _combine_votes(self._sub_jobs_pipelined, part).vote is not Vote.REJECT

    def job_enqueueable(self, job: Job) -> Verdict:
        """Combine the votes by tier; without any, permit."""
        return _combine_votes(self._enqueueable, job)

    def job_enqueued(self, job: Job) -> None:
        """Notify all plugins."""
        for job_enqueued in self._enqueued:
            job_enqueued(job)

    def job_starving(self, job: Job) -> bool:
        """Return whether all plugins of the first tier that has any agree; False without any."""
        tier = self._starving
        for ask in tier:  # called after every placement with evictions
            if not ask(job):
                return False
        return bool(tier)

    @property
    def divides_cluster(self) -> bool:
        """Whether a plugin divides the cluster into HyperNodes; without any, network topologies restrict nothing."""
        return bool(self._hyper_node_levels)

    def hyper_node_levels(self, gang: Job | SubJob, within: str, *, evicting: bool) -> Sequence[Sequence[str]]:
        """Return the levels of the first plugin that divides the cluster; without any, the HyperNode itself."""
        for ask in self._hyper_node_levels:
            levels: Sequence[Sequence[str]] = ask(gang, within, evicting=evicting)
            return levels
        return [[within]]

    def hyper_node_scores(self, gang: Job | SubJob, names: Sequence[str]) -> NDArray[np.float64]:
        """Return the sum of the scores of all plugins."""
        total = np.zeros(len(names))
        for ask in self._hyper_node_scores:
            total += ask(gang, names)
        return total

    def has_several_victim_tiers(self, purpose: points.Purpose) -> bool:
        """Return whether several tiers select victims: the next one is used if those before select none."""
        tiers = self._preemptable if purpose is points.Purpose.PREEMPT else self._reclaimable
        return sum(1 for tier in tiers if tier) > 1

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        """Return the victims that a preemptor of the same queue may evict."""
        return _victims(self._preemptable, candidates, preemptor)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """Return the victims that a job of another queue may evict."""
        return _victims(self._reclaimable, candidates, reclaimer)

    def evictable(
        self, job: Job, purpose: points.Purpose, candidates: Sequence[Task], *, partial: bool = False
    ) -> list[Task]:
        """Return the victims of the gang actions for a job; with `partial` only of the first tier with any plugin."""
        tiers = self._evictable
        if partial:
            tiers = tuple(tier for tier in tiers if tier)[:1]
        return _victims(tiers, candidates, job, purpose)

    def preemptive(self, queue: QueueView, tasks: Sequence[Task]) -> bool:
        """Return whether all plugins agree; without any, the queue may preempt."""
        return all(ask(queue, tasks) for ask in self._preemptive)

    def preemptor_key(self, job: Job, purpose: points.Purpose) -> tuple[SortKey, ...]:
        """Return a job's key by the plugins that select victims: jobs with equal keys get equal results."""
        return tuple([key(job) for key in self._preemptor_keys[purpose]])

    def victim_tasks(self, candidates: Sequence[Task]) -> list[Task]:
        """Return the tasks selected by the first tier that selects any, in the order of the candidates.

        Tasks that a guard does not permit are skipped.
        """
        for tier in self._victims:
            if selected := {task.uid for ask in tier for task in ask(candidates)}:
                return self.permitted([task for task in candidates if task.uid in selected])
        return []

    def permitted(self, victims: Sequence[Task]) -> list[Task]:
        """Return those of the victims that every guard permits."""
        for guard in self._guards:
            victims = guard(victims)
        return list(victims)

    def victim_ranks(self, queues: Iterable[QueueView], preemptor: QueueView) -> dict[str, int]:
        """Return the rank of queues among those that lose tasks to the preemptor's queue: 0 loses first.

        Combined in tier and plugin order; fallback: the reverse of the queue order.
        """
        ordered = sorted(queues, key=self.queue_key, reverse=True)
        if self._victim_keys:
            ordered.sort(key=lambda queue: tuple([key(queue, preemptor) for key in self._victim_keys]))
        return {queue.name: rank for rank, queue in enumerate(ordered)}

    def _tiers(self, point: type, method: str, marked: str = "") -> _Tiers:
        """Return the plugins' methods of one extension point by tier, where the point is switched on.

        With `marked`, only of plugins for which that attribute is true.
        """
        switch = _SWITCH_OF.get(point, "")
        return tuple(
            tuple(
                getattr(enabled.plugin, method)
                for enabled in tier
                if callable(getattr(enabled.plugin, method, None))
                and enabled.switches.get(switch, True)
                and (not marked or getattr(enabled.plugin, marked, False))
            )
            for tier in self.profile.tiers
        )

    def _unsimulated(self) -> tuple[FilterPart, ...]:
        """Return the filters marked `points.SIMULATED` of plugins whose switches for that are all off."""
        return filter_parts(
            part
            for tier in self.profile.tiers
            for enabled in tier
            if enabled.switches.get(_SWITCH_OF[points.Filter], True)
            and not any(enabled.switches.get(switch, True) for switch in points.SIMULATING)
            for part in (getattr(enabled.plugin, "filters", None) or (enabled.plugin,))
            if getattr(part, points.SIMULATED, False)
        )

    def _methods(self, method: str) -> Iterator[tuple[Callable[..., Any], Enabled]]:
        """Yield the methods of that name, for points without a switch."""
        for enabled in (enabled for tier in self.profile.tiers for enabled in tier):
            if callable(ask := getattr(enabled.plugin, method, None)):
                yield ask, enabled

    def _keys_of(self, point: type, method: str) -> tuple[Callable[..., Any], ...]:
        """Return the job orders of the plugins that have another point switched on."""
        switch = _SWITCH_OF[point]
        return tuple(
            enabled.plugin.job_key  # type: ignore[attr-defined]  # just looked for
            for tier in self.profile.tiers
            for enabled in tier
            if enabled.switches.get(switch, True)
            and callable(getattr(enabled.plugin, method, None))
            and callable(getattr(enabled.plugin, "job_key", None))
        )

    def _flat(self, point: type, method: str, marked: str = "") -> tuple[Callable[..., Any], ...]:
        return tuple(ask for tier in self._tiers(point, method, marked) for ask in tier)

    def _task_listeners(self, method: str) -> list[tuple[Callable[[Shape], bool] | None, TaskListener]]:
        return [
            (getattr(enabled.plugin, "tracks_shape", None), listener) for listener, enabled in self._methods(method)
        ]

    def _plugins_with(self, point: type, methods: Sequence[str], parts: str = "") -> list[Any]:
        """Return the plugins with one of the methods, or those of the parts that a plugin lists in that attribute."""
        switch = _SWITCH_OF[point]
        return [
            part
            for tier in self.profile.tiers
            for enabled in tier
            if enabled.switches.get(switch, True)
            for part in (getattr(enabled.plugin, parts, None) or (enabled.plugin,))
            if any(callable(getattr(part, name, None)) for name in methods)
        ]


def _combine_votes(tiers: _Tiers, job: Job | SubJob) -> Verdict:
    """Combine votes: in a tier any rejection decides, else any permit; if all abstain, the next tier decides."""
    for tier in tiers:
        permitted = False
        for ask in tier:
            verdict: Verdict = ask(job)
            if verdict.vote is Vote.REJECT:
                return verdict
            permitted |= verdict.vote is Vote.PERMIT
        if permitted:
            return PERMIT
    return ABSTAIN


def _victims(tiers: _Tiers, candidates: Sequence[Task], *preemptor: object) -> list[Task]:
    """Intersect the selections in a tier, abstentions excluded; the first tier with a result decides.

    A plugin that selects nothing ends its tier without a result, whatever the others select. `preemptor` are the
    arguments before the candidates.
    """
    for tier in tiers:
        selected: Sequence[Task] | None = None
        for ask in tier:
            answer: Iterable[Task] | None = ask(*preemptor, candidates)
            if answer is None:
                continue
            left = candidates if selected is None else selected
            if answer == candidates and candidates:  # the usual case, for which no set is needed
                selected = left
                continue
            if not (uids := {task.uid for task in answer}):
                selected = None
                break
            selected = left if len(uids) == len(candidates) else [task for task in left if task.uid in uids]
        if selected:
            return list(selected)
    return []
