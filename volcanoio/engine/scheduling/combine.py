"""How several plugins' answers become one: Volcano's rules by tier (`pkg/scheduler/framework/session_plugins.go`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from volcanoio.engine.scheduling.adapters import FilterPart, ScorerPart, filter_part, scorer_part
from volcanoio.engine.scheduling.profile import Enabled, Profile
from volcanoio.engine.scheduling.telling import Telling
from volcanoio.engine.scheduling.watching import watched
from volcanoio.framework.scheduling import points
from volcanoio.framework.scheduling.points import SWITCHES, SortKey
from volcanoio.framework.scheduling.subjobs import SubJob
from volcanoio.framework.scheduling.verdicts import ABSTAIN, PERMIT, Verdict, Vote
from volcanoio.framework.scheduling.views import Job, QueueView, Shape, Task
from volcanoio.framework.scheduling_effects import PreBindStep

Part = TypeVar("Part")
_Tiers: TypeAlias = tuple[tuple[Callable[..., Any], ...], ...]
_PREBINDING = 100_000
"""For how many shapes it is kept who has something to do before a bind."""
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
    """The answers of all enabled plugins of a profile, combined. Built once per profile."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.watches = watched(profile)
        """The resources that plugins read beside what every session has."""
        self.opens = tuple((enabled.plugin.name, ask) for ask, enabled in self._all("open"))
        """Who wants to know of a session's opening, each with the plugin's name."""
        self.closes = self._flat(points.Closes, "close")
        self.filters: tuple[FilterPart, ...] = self._parts(
            points.Filter, ("feasible", "feasible_on"), filter_part, "filters"
        )
        self.scorers: tuple[ScorerPart, ...] = self._parts(points.Scorer, ("score", "score_on"), scorer_part, "scorers")
        self.parts: tuple[FilterPart | ScorerPart, ...] = (*self.filters, *self.scorers)
        self.task_scorers: tuple[points.TaskScorer, ...] = self._parts(points.TaskScorer, ("score_task",), _itself)
        self._traits = tuple((enabled.plugin, ask) for ask, enabled in self._all("trait"))
        self.placed = self._telling("task_placed")
        """Who is told of each task that is placed."""
        self.evicted = self._telling("task_evicted")
        for tell, enabled in self._all("use_hierarchy"):
            tell(enabled.switches.get("enableHierarchy", False))
        self._prebinds: tuple[points.PreBind, ...] = tuple(
            enabled.plugin for _, enabled in self._all("prebind") if isinstance(enabled.plugin, points.PreBind)
        )
        self._prebinding: dict[int, tuple[Callable[[Task], Sequence[PreBindStep]], ...]] = {}
        self.accounting_in = self._flat(points.Accounting, "allocated")
        self.accounting_out = self._flat(points.Accounting, "released")
        self.promising = self._flat(points.Promising, "promised")
        self._queue_keys = self._flat(points.QueueOrder, "queue_key")
        self._queue_epochs = self._flat(points.QueueOrder, "queue_epoch")
        self._job_keys = self._flat(points.JobOrder, "job_key")
        self.keeps_job_keys = len(self._job_keys) == len(self._flat(points.JobOrder, "job_key", points.KEPT_KEYS))
        self._namespace_epochs = self._flat(points.NamespaceOrder, "namespace_epoch")
        self._namespace_keys = self._placed_namespace_keys()
        self.orders_namespaces = bool(self._namespace_keys)
        """Whether any plugin orders the namespaces of a queue."""
        self._task_keys = self._flat(points.TaskOrder, "task_key")
        self.task_key: Callable[[Task], SortKey] = self._task_key if len(self._task_keys) != 1 else self._task_keys[0]
        """Where a task stands, asked for every one: the only plugin's answer as it is, or those of all."""
        self._overused = self._flat(points.Overused, "overused")
        self._allocatable = self._flat(points.Allocatable, "fits")
        self._valid = self._flat(points.JobValid, "job_valid")
        self._ready = self._flat(points.JobReady, "job_ready")
        self.job_ready: Callable[[Job], bool] = self._job_ready if len(self._ready) != 1 else self._ready[0]
        """Whether a job's statement may be committed, asked after every placement: the only plugin's answer, or all."""
        self._lacks = self._flat(points.JobReady, "job_lacks")
        self._enqueued = self._flat(points.JobEnqueued, "job_enqueued")
        self._pipelined = self._tiers(points.JobPipelined, "job_pipelined")
        self._part_ready = self._flat(points.SubJobReady, "sub_job_ready")
        self._part_lacks = self._flat(points.SubJobReady, "sub_job_lacks")
        self._part_pipelined = self._tiers(points.SubJobPipelined, "sub_job_pipelined")
        self._part_keys = self._flat(points.SubJobOrder, "sub_job_key")
        self._enqueueable = self._tiers(points.JobEnqueueable, "job_enqueueable")
        self.refuses_alike = self._enqueueable == self._tiers(
            points.JobEnqueueable, "job_enqueueable", points.REFUSES_ALIKE
        )
        """Whether jobs of one queue, namespace and demand are rejected together, once and for the session."""
        self._starving = next((tier for tier in self._tiers(points.JobStarving, "job_starving") if tier), ())
        self._preemptable = self._tiers(points.Preemptable, "preemptable")
        self._reclaimable = self._tiers(points.Reclaimable, "reclaimable")
        self._evictable = self._tiers(points.Evictable, "evictable")
        self._preemptive = self._flat(points.Preemptive, "preemptive")
        self._victim_keys = self._flat(points.VictimOrder, "victim_key")
        self._victims = self._tiers(points.VictimTasks, "victims")
        self._taker_keys = {
            points.Purpose.PREEMPT: self._keys_of(points.Preemptable, "preemptable"),
            points.Purpose.RECLAIM: self._keys_of(points.Reclaimable, "reclaimable"),
        }
        self.keeps_verdicts = all(
            self._flat(point, method) == self._flat(point, method, points.KEPT_VERDICTS) for point, method in _VERDICTS
        )
        """Whether what is found for those who have others evicted is the same until something changes."""
        self._guards = self._flat(points.VictimGuard, "permitted")

    @property
    def traits(self) -> tuple[tuple[str, Callable[[Task, Job], str]], ...]:
        """Who reads more of a task than its shape, by the plugin's name."""
        if not self._traits:
            return ()
        return tuple([(plugin.name, ask) for plugin, ask in self._traits if getattr(plugin, "has_traits", True)])

    def queue_key(self, queue: QueueView) -> SortKey:
        """First difference in tier and plugin order; then creation time and name."""
        meta = queue.object.metadata
        return (*[key(queue) for key in self._queue_keys], meta.creation_timestamp or "", meta.uid, queue.name)

    def queue_epoch(self) -> list[int]:
        """While it is the same, keys of queues only grow; empty where a turn of one queue moves no other."""
        return [epoch for ask in self._queue_epochs if (epoch := ask()) is not None]

    def job_key(self, job: Job) -> tuple[SortKey, ...]:
        """First difference in tier and plugin order; then creation time, uid and key.

        Of jobs of one namespace: where that stands is left out, see `with_namespace`.
        """
        return (*[key(job) for key in self._job_keys], job.created, job.uid, job.key)

    def namespace_epoch(self) -> list[int]:
        """While it is the same, keys of namespaces only grow."""
        return [ask() for ask in self._namespace_epochs]

    def with_namespace(self, key: tuple[SortKey, ...], job: Job) -> tuple[SortKey, ...]:
        """A key among all jobs of a queue: that of `job_key`, and where the namespace stands put in at its place."""
        parts = list(key)
        for place, ask in self._namespace_keys:
            parts.insert(place, ask(job))
        return tuple(parts)

    def _placed_namespace_keys(self) -> tuple[tuple[int, Callable[[Job], SortKey]], ...]:
        """Who orders namespaces, each with its place in the whole key of a job."""
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
        """First difference in tier and plugin order; the caller adds the fallback."""
        return tuple([key(task) for key in self._task_keys])

    def prebind(self, task: Task) -> tuple[PreBindStep, ...]:
        """What must be done before a task's bind, in tier and plugin order."""
        asks = self.prebinds(task)
        return tuple([step for ask in asks for step in ask(task)]) if asks else ()

    def prebinds(self, task: Task) -> Sequence[Callable[[Task], Sequence[PreBindStep]]]:
        """What is asked for such steps of tasks of its shape."""
        if not self._prebinds:
            return ()
        asks = self._prebinding.get(task.shape.id)
        if asks is None:
            asks = tuple(plugin.prebind for plugin in self._prebinds if plugin.prebinds(task.shape))
            if len(self._prebinding) >= _PREBINDING:
                self._prebinding.clear()
            self._prebinding[task.shape.id] = asks
        return asks

    @property
    def orders_tasks(self) -> bool:
        """Whether any plugin orders tasks."""
        return bool(self._task_keys)

    def overused(self, queue: QueueView) -> bool:
        """Any plugin's yes."""
        for ask in self._overused:  # noqa: SIM110 - asked at every turn: a generator would cost as much again
            if ask(queue):
                return True
        return False

    def allocatable(self, queue: QueueView, shape: Shape, count: int) -> int:
        """The least that any plugin allows."""
        for ask in self._allocatable:
            allowed: int = ask(queue, shape, count)
            if allowed < count:
                count = allowed
                if count <= 0:
                    return 0
        return count

    def job_valid(self, job: Job) -> Verdict:
        """The first rejection."""
        for ask in self._valid:  # asked for every job of a backlog: a generator would cost as much again
            verdict: Verdict = ask(job)
            if verdict.vote is Vote.REJECT:
                return verdict
        return PERMIT

    def _job_ready(self, job: Job) -> bool:
        """All must agree; without any, every job is ready."""
        for ask in self._ready:  # noqa: SIM110 - asked after every placement: a generator would cost as much again
            if not ask(job):
                return False
        return True

    def job_lacks(self, job: Job) -> int:
        """How many more tasks must be placed at least to make the job ready: 0 when it is."""
        if self.job_ready(job):
            return 0
        lacks = 1
        for ask in self._lacks:
            if (lacking := ask(job)) > lacks:
                lacks = lacking
        return lacks

    def job_pipelined(self, job: Job) -> bool:
        """Votes by tier; nothing said means yes."""
        return _poll(self._pipelined, job).vote is not Vote.REJECT

    def sub_job_key(self, part: SubJob) -> SortKey:
        """First difference in tier and plugin order; then the number in its labels and the key."""
        return (*[key(part) for key in self._part_keys], part.match_index, part.key)

    def sub_job_ready(self, part: SubJob) -> bool:
        """All must agree; without any, every sub-job is ready."""
        return all(ask(part) for ask in self._part_ready)

    def sub_job_lacks(self, part: SubJob) -> int:
        """How many more of its tasks must be placed at least to make a sub-job ready: 0 when it is."""
        return 0 if self.sub_job_ready(part) else max([1, *[ask(part) for ask in self._part_lacks]])

    def sub_job_pipelined(self, part: SubJob) -> bool:
        """Votes by tier; nothing said means yes."""
        return _poll(self._part_pipelined, part).vote is not Vote.REJECT

    def job_enqueueable(self, job: Job) -> Verdict:
        """Votes by tier; nothing said means yes."""
        return _poll(self._enqueueable, job)

    def job_enqueued(self, job: Job) -> None:
        """Tell all."""
        for tell in self._enqueued:
            tell(job)

    def job_starving(self, job: Job) -> bool:
        """All of the first tier with an opinion; without any, no."""
        tier = self._starving
        for ask in tier:  # asked after every placement that evictions pay for
            if not ask(job):
                return False
        return bool(tier)

    def asks_in_turn(self, purpose: points.Purpose) -> bool:
        """Whether several tiers have a say in who is evicted: the next one where those before give nobody."""
        tiers = self._preemptable if purpose is points.Purpose.PREEMPT else self._reclaimable
        return sum(1 for tier in tiers if tier) > 1

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        """The victims a preemptor of the same queue may take."""
        return _victims(self._preemptable, candidates, preemptor)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """The victims a job of another queue may take."""
        return _victims(self._reclaimable, candidates, reclaimer)

    def evictable(
        self, job: Job, purpose: points.Purpose, candidates: Sequence[Task], *, partial: bool = False
    ) -> list[Task]:
        """The victims a job may take by the gang actions; with `partial` only the first tier with a say is asked."""
        tiers = self._evictable
        if partial:
            tiers = tuple(tier for tier in tiers if tier)[:1]
        return _victims(tiers, candidates, job, purpose)

    def preemptive(self, queue: QueueView, tasks: Sequence[Task]) -> bool:
        """All must agree; without any, a queue may."""
        return all(ask(queue, tasks) for ask in self._preemptive)

    def taker_key(self, job: Job, purpose: points.Purpose) -> tuple[SortKey, ...]:
        """Where plugins that name victims order a job: jobs with equal keys get alike answers."""
        return tuple([key(job) for key in self._taker_keys[purpose]])

    def victim_tasks(self, candidates: Sequence[Task]) -> list[Task]:
        """What plugins of the first tier that names any name together, in the order of the candidates.

        Of these, those that all guards permit.
        """
        for tier in self._victims:
            named = {task.uid for ask in tier for task in ask(candidates)}
            if named:
                victims = [task for task in candidates if task.uid in named]
                for guard in self._guards:
                    victims = list(guard(victims))
                return victims
        return []

    def victim_ranks(self, queues: Iterable[QueueView], taker: QueueView) -> dict[str, int]:
        """Where queues stand among those that lose tasks to the taker: 0 loses first.

        First difference in tier and plugin order; then what is last by the order of queues comes first.
        """
        ordered = sorted(queues, key=self.queue_key, reverse=True)
        if self._victim_keys:
            ordered.sort(key=lambda queue: tuple([key(queue, taker) for key in self._victim_keys]))
        return {queue.name: rank for rank, queue in enumerate(ordered)}

    def _tiers(self, point: type, method: str, marked: str = "") -> _Tiers:
        """The plugins' methods of one extension point by tier, where the point is switched on.

        With `marked`, those of plugins for which that attribute is true.
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

    def _all(self, method: str) -> Iterator[tuple[Callable[..., Any], Enabled]]:
        """The methods of that name, of points that no switch gates."""
        for enabled in (enabled for tier in self.profile.tiers for enabled in tier):
            if callable(ask := getattr(enabled.plugin, method, None)):
                yield ask, enabled

    def _keys_of(self, point: type, method: str) -> tuple[Callable[..., Any], ...]:
        """The order of jobs by the plugins that have another point switched on."""
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

    def _telling(self, method: str) -> Telling:
        return Telling([(getattr(enabled.plugin, "concerned", None), tell) for tell, enabled in self._all(method)])

    def _parts(
        self, point: type, methods: Sequence[str], make: Callable[[object], Part], several: str = ""
    ) -> tuple[Part, ...]:
        """What `make` makes of every plugin with one of the methods, or of each of the parts it has in `several`."""
        switch = _SWITCH_OF[point]
        return tuple(
            make(part)
            for tier in self.profile.tiers
            for enabled in tier
            if enabled.switches.get(switch, True)
            for part in (getattr(enabled.plugin, several, None) or (enabled.plugin,))
            if any(callable(getattr(part, name, None)) for name in methods)
        )


def _itself(plugin: Any) -> points.TaskScorer:
    scorer: points.TaskScorer = plugin
    return scorer


def _poll(tiers: _Tiers, job: Job | SubJob) -> Verdict:
    """In a tier any rejection decides, else any permit; a tier that abstains leaves it to the next."""
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


def _victims(tiers: _Tiers, candidates: Sequence[Task], *taker: object) -> list[Task]:
    """In a tier the intersection of what the plugins name that do not abstain; the first tier that names any decides.

    A plugin that names none ends its tier without a result, whatever others of it would say. `taker` is what a plugin
    is asked with before the candidates.
    """
    for tier in tiers:
        named: Sequence[Task] | None = None
        for ask in tier:
            answer: Iterable[Task] | None = ask(*taker, candidates)
            if answer is None:
                continue
            left = candidates if named is None else named
            if answer == candidates and candidates:  # the usual case, for which no set is needed
                named = left
                continue
            uids = {task.uid for task in answer}
            if not uids:
                named = None
                break
            named = left if len(uids) == len(candidates) else [task for task in left if task.uid in uids]
        if named:
            return list(named)
    return []
