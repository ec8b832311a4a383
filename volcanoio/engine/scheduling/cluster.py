"""The fold of the scheduler's events into columns, tasks, jobs and queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf

from volcanoio.engine.scheduling.backlogs import Backlogs
from volcanoio.engine.scheduling.claims import Claims
from volcanoio.engine.scheduling.combine import Rules
from volcanoio.engine.scheduling.holds import Hold, Holds
from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.ledger import Ledger
from volcanoio.engine.scheduling.placement.placer import Placer
from volcanoio.engine.scheduling.pods import PodFold
from volcanoio.engine.scheduling.profile import Profile
from volcanoio.engine.scheduling.queuegates import QueueGates
from volcanoio.engine.scheduling.rests import Rests
from volcanoio.engine.scheduling.room import Room
from volcanoio.engine.scheduling.singleturns import SingleTurns
from volcanoio.engine.scheduling.victimcolumns import VictimColumns
from volcanoio.framework.events import Change, EffectFailed, EffectSucceeded, Observed, Relisting, Synced
from volcanoio.framework.scheduling.asks import Answer
from volcanoio.framework.scheduling.featuregates import FeatureGate
from volcanoio.framework.scheduling.views import Amounts, TaskStatus
from volcanoio.framework.scheduling_effects import PreBindStep
from volcanoio.framework.scheduling_events import AskAnswered, BindRefused, EvictRefused, FactsSaid, SchedulerEvent
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.core import Node, Pod, PriorityClass
from volcanoio.model.names import DEFAULT_QUEUE, NAMESPACE_NAME, SCHEDULER_NAME
from volcanoio.model.scheduling import PodGroup, Queue

NEEDED = tuple(kind.resource for kind in (kinds.NODE, kinds.PRIORITY_CLASS, kinds.QUEUE, kinds.POD_GROUP, kinds.POD))
"""The resources of which every one must be listed before anything is decided, whatever plugins there are."""

JOBS_AT_ONCE = 2048
"""How many jobs follow an event in one step."""
REWRITTEN_AFTER = 1.0
"""Seconds after which a PodGroup's status that came to be another than the one written is written again."""
_RETRY_FIRST, _RETRY_MOST = 0.1, 5.0
"""Seconds a task waits after its second refused bind, doubling up to the most; after the first it goes at once."""


def effect_key(resource: str, namespace: str, name: str) -> str:
    """The `key` under which the outcome of a Patch or Create comes back in EffectSucceeded and EffectFailed."""
    return f"{resource}/{namespace}/{name}"


class ClusterState:
    """All the scheduler knows: a fold of SchedulerEvents. A cycle works on it directly and leaves it consistent.

    `ledger` holds nodes, tasks, jobs and queues; `inputs` the objects of further kinds that plugins read; `placer`
    answers per shape that live across cycles; `holds` room kept after refusals for the `urgent` jobs; `revisit` when
    jobs that were not ready are to be looked at again though nothing changed; `turn` the index of the action the next
    cycle begins with; `refused` waiting jobs that were not let in since all were last asked: after a cut the others
    come first. `single_names` are the schedulers whose pods are bound too, one by one: on nodes they count as all do,
    in queues they do not.
    """

    def __init__(
        self,
        *,
        scheduler_names: frozenset[str] = frozenset({SCHEDULER_NAME}),
        single_names: frozenset[str] = frozenset(),
        default_queue: str = DEFAULT_QUEUE,
        needed: tuple[str, ...] = NEEDED,
        hold_seconds: float = 30.0,
        feature_gates: frozenset[FeatureGate] = frozenset(),
    ) -> None:
        self.default_queue = default_queue
        self.hold_seconds = hold_seconds
        self.ledger = Ledger()
        self.inputs = self.ledger.inputs
        self.answers: dict[tuple[str, str], Answer] = {}
        """Answers to plugins' questions, by plugin and key, until a cycle has come to its end."""
        self.ledger.pods.namespaces = self._namespace_labels
        self.backlogs = Backlogs(self.ledger)
        self.single_turns = SingleTurns(self.ledger)
        self.placer = Placer(self.ledger, self.inputs)
        self.holds = Holds(self.ledger.columns)
        self.claims = Claims(self.ledger, self.holds, hold_seconds)
        self.takable = VictimColumns(self.ledger)
        self.revisit: dict[str, float] = {}
        self.gone_through = float("-inf")
        """When all jobs that are due were last looked for: after a cut that is done once a period."""
        self.turn = 0
        self.unfinished: Iterator[None] | None = None
        """What is left of the last event."""
        self.prebinding: dict[str, tuple[PreBindStep, ...]] = {}
        """What is being done before binds that are under way, by the pod's uid."""
        self.refused: set[str] = set()
        self.vain: dict[str, set[str]] = {}
        """By action the jobs that it tried in vain since its last run that was not cut."""
        self.room = Room(self.ledger.columns)
        self.rests = Rests()
        self.urgent: dict[str, JobInfo] = {}
        self.queue_gates = QueueGates(enabled=FeatureGate.QUEUE_ADMISSION in feature_gates)
        self.pods = PodFold(self.ledger, self.claims, self.queue_gates, scheduler_names, single_names)
        self._needed = self._always = frozenset(needed)
        self._synced: set[str] = set()
        self._classes: dict[str, PriorityClass] = {}
        self._rules: Rules | None = None
        self._ruled: tuple[Rules, Amounts] | None = None
        self._rulings = 0

    def require(self, resources: Iterable[str]) -> None:
        """Beside those that are always needed, these resources must be listed, and no others."""
        self._needed = self._always.union(resources)

    @property
    def ready(self) -> bool:
        """Whether all needed resources are listed and none is being relisted: the barrier before any decision."""
        return self._needed <= self._synced

    @property
    def missing(self) -> tuple[str, ...]:
        """The resources the barrier waits for, sorted."""
        return tuple(sorted(self._needed - self._synced))

    @property
    def listed(self) -> list[str]:
        """The resources that are listed and not being relisted, sorted."""
        return sorted(self._synced)

    @property
    def classes(self) -> dict[str, PriorityClass]:
        """The PriorityClasses by name."""
        return dict(self._classes)

    def fold(self, event: SchedulerEvent) -> bool:
        """Take in one event; True when it could alter a decision, so that a cycle is worth starting.

        What an event means for very many jobs may be left: see `finish`.
        """
        if self.unfinished is not None:
            for _ in self.finish():
                pass
        changed = self._fold(event)
        self.rests.news += changed
        return changed

    def finish(self) -> Iterator[None]:
        """Take in what is left of the last event, some jobs at a time; without it the next event or cycle does so."""
        left, self.unfinished = self.unfinished, None
        return left or iter(())

    def _for_each(self, jobs: Sequence[JobInfo], follow: Callable[[JobInfo], None]) -> None:
        """Have jobs follow what the event at hand says: the first of them now."""

        def steps() -> Iterator[None]:
            for start in range(0, len(jobs), JOBS_AT_ONCE):
                for job in jobs[start : start + JOBS_AT_ONCE]:
                    follow(job)
                if start + JOBS_AT_ONCE < len(jobs):
                    yield

        left = steps()
        if next(left, self) is None:
            self.unfinished = left

    def _fold(self, event: SchedulerEvent) -> bool:
        match event:
            case Observed():
                return self._observe(event) and self.ready
            case BindRefused():
                return self._refused(event)
            case AskAnswered():
                self.answers[event.plugin, event.key] = Answer(event.value, event.fault)
                return self.ready
            case FactsSaid():
                return self._learn(event) and self.ready
            case EvictRefused():
                return self.pods.unevict(event.uid)
            case Synced():
                self._synced.add(event.resource)
                return self.ready and event.resource in self._needed
            case Relisting():
                self._synced.discard(event.resource)
            case EffectSucceeded():
                return self._written(event)
            case EffectFailed():
                return self._not_written(event)
            case _:
                pass  # BindDone, BindUnknown, EvictDone: the pod's own watch event says what became of it
        return False

    def _observe(self, event: Observed) -> bool:
        obj, gone = event.object, event.change is Change.GONE
        match obj:
            case Pod():
                return self.pods.gone(obj) if gone else self.pods.observe(obj)
            case Node():
                return self._node(obj, gone)
            case PodGroup():
                return self._group(obj, gone)
            case Queue():
                return self._queue(obj, gone)
            case PriorityClass():
                return self._class(obj, gone)
            case _:
                changed = self.inputs.observe(event) and self.ledger.volumes.changed(event)
                if changed:
                    self.ledger.columns.free_anywhere()
                return changed

    def _learn(self, event: FactsSaid) -> bool:
        changed = self.inputs.learn(event)
        if changed:
            self.ledger.columns.free_anywhere()
        return changed

    def _node(self, node: Node, gone: bool) -> bool:
        columns, name = self.ledger.columns, node.metadata.name
        row = columns.rows.get(name)
        if gone:
            if row is None:
                return False
            self.holds.forget_node(name)
            columns.drop(name)
            return True
        if row is not None and _same_node(columns.objects[row], node):
            if not _same_images(columns.objects[row], node):
                columns.refresh(row, node)
            return False
        self.ledger.put_node(node)
        return True

    def _group(self, group: PodGroup, gone: bool) -> bool:
        job = self.ledger.job(group.metadata.key)
        if job.known and job.uid != group.metadata.uid:
            if gone:
                return False
            self._vanish(job)
            job = self.ledger.job(group.metadata.key)
        if gone:
            self._vanish(job)
            return True
        old = job.group if job.known else None
        if old is not None and group.metadata.revision < old.metadata.revision:
            return False
        expected, phase = job.status, job.phase
        if group.status == job.in_flight:
            job.in_flight = None
        job.observe(group)
        job.priority = self._priority(group.spec.priority_class_name)
        self.ledger.set_phase(job, job.status.phase)
        if old is not None and group.spec == old.spec and group.metadata.annotations == old.metadata.annotations:
            if group.status not in (expected, old.status):
                self.ledger.dirty[job.key] = job
            return job.phase != phase
        self.ledger.enlist(job, self.ledger.queue(job.queue_name(self.default_queue)))
        return True

    def rules_of(self, profile: Profile) -> Rules:
        """The combined rules of a profile; plugins' answers are kept as long as it is the same one."""
        if self._rules is None or self._rules.profile is not profile:
            self._rules = Rules(profile)
            self.rests.news += 1
            self.ledger.columns.free_anywhere()
        return self._rules

    def rulings(self, rules: Rules, total: Amounts) -> int:
        """Counts how often rules or the cluster's total were other ones; keys of jobs hold while both are the same."""
        if self._ruled is None or self._ruled[0] is not rules or self._ruled[1] != total:
            self._ruled = rules, total
            self._rulings += 1
        return self._rulings

    def settle_prebinding(self) -> None:
        """Forget what was done before binds that are over."""
        tasks = self.ledger.tasks
        for uid in list(self.prebinding):
            task = tasks.get(uid)
            if task is None or task.status is not TaskStatus.BINDING:
                del self.prebinding[uid]

    def calm(self, now: float) -> None:
        """End the urgency, and the holds, of jobs whose time is over or that miss nothing any more."""
        for key, job in list(self.urgent.items()):
            if now >= job.urgent_until or not job.waiting or not job.known:
                self.holds.lift(key)
                self.rests.news += 1
                del self.urgent[key]

    def _namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace; its name is one of them, as API servers see to it."""
        known = self.inputs.objects(kinds.NAMESPACE.resource).get(name)
        return {NAMESPACE_NAME: name, **(known.metadata.labels if known else {})}

    def _vanish(self, job: JobInfo) -> None:
        self.holds.lift(job.key)
        self.urgent.pop(job.key, None)
        self.revisit.pop(job.key, None)
        job.vanish()
        self.ledger.enlist(job, None)

    def _queue(self, queue: Queue, gone: bool) -> bool:
        info = self.ledger.queue(queue.metadata.name)
        old = info.object if info.known else None
        if gone:
            info.known = False
            self.ledger.known_queues.pop(info.name, None)
        else:
            info.observe(queue)
            self.ledger.known_queues[info.name] = info
            info.settle()
        if old is None or gone:
            self._for_each(list(info.members.values()), self.ledger.relist)
        if gone and not info.members:
            self.ledger.queues.pop(info.name, None)
        changed = gone or old is None or old.spec != queue.spec or old.status.state != queue.status.state
        if changed:
            self.ledger.columns.free_anywhere()
        return changed

    def _class(self, priority_class: PriorityClass, gone: bool) -> bool:
        name = priority_class.metadata.name
        before, after = self._classes.pop(name, None), None if gone else priority_class
        if after is not None:
            self._classes[name] = after
        if _worth(before) == _worth(after):
            return False
        self._for_each(list(self.ledger.jobs.values()), self._prioritise)
        return True

    def _prioritise(self, job: JobInfo) -> None:
        priority = self._priority(job.group.spec.priority_class_name) if job.known else 0
        if priority != job.priority:
            job.priority, job.standing = priority, None
            self.ledger.changes.mark(job)

    def _priority(self, class_name: str) -> int:
        """The value of a PriorityClass, else the global default's, else 0."""
        known = self._classes.get(class_name)
        if known is not None:
            return known.value
        return max((item.value for item in self._classes.values() if item.global_default), default=0)

    def _refused(self, event: BindRefused) -> bool:
        """Release the row; the gang's missing pods go first, and what was freed is held for them."""
        task = self.ledger.tasks.get(event.uid)
        if task is None or task.status is not TaskStatus.BINDING or task.node != event.node:
            return False
        self.ledger.move(task, TaskStatus.PENDING, "")
        task.refusal = f"failed to bind to node {event.node}: {event.message or event.reason or event.code}"
        task.refusals += 1
        pause = 0.0 if task.refusals == 1 else min(_RETRY_FIRST * 2.0 ** min(task.refusals - 2, 10), _RETRY_MOST)
        task.retry_at = event.at + pause
        if task.owner is not None:
            task.owner.urgent_until = event.at + self.hold_seconds
            self.urgent[task.owner.key] = task.owner
            self.holds.add(task.owner.key, Hold(event.node, task.shape))
        return True

    def _written(self, event: EffectSucceeded) -> bool:
        """A status write was accepted: its response counts as an observation."""
        obj, resource, key = event.obj, *event.key.partition("/")[::2]
        job = self.ledger.jobs.get(key) if resource == kinds.POD_GROUP.resource else None
        if job is not None:
            job.writing = max(job.writing - 1, 0)
        if not isinstance(obj, PodGroup | Queue | Pod) or not self._knows(obj):
            return False
        kind = kinds.of(obj)
        changed = self._observe(Observed(at=event.at, resource=kind.resource, change=Change.CHANGED, object=obj))
        if job is not None and job.in_flight is not None and not job.writing:
            self._settle(job)
        return changed

    def _settle(self, job: JobInfo) -> None:
        """The last write of a job's status was answered by another status than it asked for: that is what is there.

        Patches that were under way together may come to something that neither asked for. It is written anew, and not
        at once: a server may keep something else for reasons of its own.
        """
        job.in_flight = None
        self.ledger.set_phase(job, job.status.phase)
        self.revisit[job.key] = min(self.revisit.get(job.key, inf), job.written_at + REWRITTEN_AFTER)

    def _knows(self, obj: ApiObject) -> bool:
        """Whether an object still exists as far as was seen: a late response must not bring it back."""
        uid, key = obj.metadata.uid, obj.metadata.key
        match obj:
            case Pod():
                return uid in self.ledger.tasks
            case PodGroup():
                return (job := self.ledger.jobs.get(key)) is not None and job.known and job.uid == uid
            case _:
                return (queue := self.ledger.known_queues.get(key)) is not None and queue.object.metadata.uid == uid

    def _not_written(self, event: EffectFailed) -> bool:
        """A status write failed: nothing is in flight any more, so that the next close writes it again."""
        resource, _, key = event.key.partition("/")
        if resource == kinds.POD_GROUP.resource and (job := self.ledger.jobs.get(key)) is not None:
            job.writing = max(job.writing - 1, 0)
            job.in_flight = None
            self.ledger.set_phase(job, job.status.phase)
            self.ledger.dirty[job.key] = job
            return event.code != 404
        if resource == kinds.QUEUE.resource and (queue := self.ledger.queues.get(key.strip("/"))) is not None:
            queue.written = None
        if resource == kinds.POD.resource:
            self.pods.condition_failed(key)
            return self.queue_gates.failed(key, event.code)
        return False


def _worth(priority_class: PriorityClass | None) -> tuple[int, bool] | None:
    """What jobs follow of a class."""
    return None if priority_class is None else (priority_class.value, priority_class.global_default)


def _same_node(old: Node, new: Node) -> bool:
    """Whether all that scheduling reads of a node is the same (heartbeats change the rest)."""
    return (
        old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and old.status.allocatable == new.status.allocatable
    )


def _same_images(old: Node, new: Node) -> bool:
    """Whether a node has the images that it had, in any order."""
    before, after = old.status.images, new.status.images
    return before == after or (len(before) == len(after) and set(before) == set(after))
