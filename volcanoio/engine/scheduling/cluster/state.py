"""State of the cluster: the fold of all events, and the caches that outlive a cycle.

A cycle works directly on this state and undoes what it did not commit. No event is folded during a cycle.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from volcanoio.engine.scheduling.claims.extended_resources import DEVICE_CLASSES, ExtendedResources
from volcanoio.engine.scheduling.cluster.attempts import FreedRoom, UnschedulableJobs
from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.cluster.ledger import Ledger
from volcanoio.engine.scheduling.cluster.native_groups import NATIVE_RESOURCES, NativeGroups, SchedulerNames
from volcanoio.engine.scheduling.cluster.nominations import Nominations, Reservation, Reservations
from volcanoio.engine.scheduling.cluster.pod_fields import is_native, job_key
from volcanoio.engine.scheduling.cluster.pods import PodFold, SinglePodSchedulers
from volcanoio.engine.scheduling.cluster.queue_gates import QueueGates
from volcanoio.engine.scheduling.cluster.scope import Handover, Scope
from volcanoio.engine.scheduling.config.plugin_rules import Rules
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.ordering.backlogs import Backlogs, SinglePodOrder
from volcanoio.engine.scheduling.placement.placer import Placer
from volcanoio.engine.scheduling.placement.score_table import StageTimes
from volcanoio.engine.scheduling.preemption.victim_columns import VictimColumns
from volcanoio.engine.scheduling.sharding.node_shards import NodeShards, Sharding
from volcanoio.framework.backoff import Backoff, TokenBucket
from volcanoio.framework.events import Change, EffectFailed, EffectSucceeded, Observed, Relisting, Synced
from volcanoio.framework.scheduling.sessionview import Answer
from volcanoio.framework.scheduling.settings import FeatureGate
from volcanoio.framework.scheduling.views import Amounts, TaskStatus
from volcanoio.framework.scheduling_effects import PreBindStep
from volcanoio.framework.scheduling_events import AskAnswered, BindRefused, EvictRefused, FactsSaid, SchedulerEvent
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.core import Node, Pod, PriorityClass
from volcanoio.model.names import DEFAULT_QUEUE, GROUP_SCHEDULER, NAMESPACE_NAME, SCHEDULER_NAME
from volcanoio.model.nodes import NodeShard
from volcanoio.model.scheduling import PodGroup, Queue
from volcanoio.model.workloads import NativePodGroup, Workload

REQUIRED_RESOURCES = tuple(
    kind.resource for kind in (kinds.NODE, kinds.PRIORITY_CLASS, kinds.QUEUE, kinds.POD_GROUP, kinds.POD)
)
"""Resources that every scheduler needs, with or without a shard."""

JOBS_PER_STEP = 2048
"""Jobs that are updated for one event before other work may run."""
STATUS_REWRITE_SECONDS = 1.0
"""Seconds before a PodGroup status is written again when the server stored a different one."""
_BIND_BACKOFF = Backoff(base=0.1, cap=5.0)
"""Back-off of a task after its second and later refused binds; after the first it is retried at once."""


def effect_key(resource: str, namespace: str, name: str) -> str:
    """Return the key under which EffectSucceeded and EffectFailed report a Patch or Create."""
    return f"{resource}/{namespace}/{name}"


@dataclass(frozen=True, slots=True)
class StateOptions:
    """Options of a scheduler that decide which objects it acts on and how."""

    scheduler_names: frozenset[str] = frozenset({SCHEDULER_NAME})
    single_pod_schedulers: frozenset[str] = frozenset()
    """Scheduler names whose pods are bound one by one: they count on nodes, but not in queues."""
    agent_schedulers: frozenset[str] = frozenset()
    """Of these the pods are bound one by one too, and before all other work (Volcano: the agent scheduler)."""
    default_queue: str = DEFAULT_QUEUE
    reservation_seconds: float = 30.0
    """Seconds for which room is kept for a gang after a refused bind and for a preemptor after its last victim."""
    feature_gates: frozenset[FeatureGate] = frozenset()
    native_groups: bool = False
    """Whether native groups are watched, so that no decision is made before they are listed."""
    scope: Scope | None = None
    """Part of the cluster that the scheduler acts on, None for all of it."""

    @property
    def single_pods(self) -> SinglePodSchedulers:
        """The schedulers whose pods are bound one by one."""
        return SinglePodSchedulers(self.single_pod_schedulers | self.agent_schedulers, self.agent_schedulers)

    @property
    def sharding(self) -> Sharding | None:
        """The scheduler's shard of the nodes; None if it has none."""
        return None if self.scope is None else self.scope.sharding

    @property
    def required_resources(self) -> frozenset[str]:
        """Resources that must be listed before any decision, whatever plugins are configured."""
        shards = () if self.sharding is None else (kinds.NODE_SHARD.resource,)
        native = NATIVE_RESOURCES if self.native_groups else ()
        return frozenset((*REQUIRED_RESOURCES, *shards, *native))


COUNT_WRITES_BURST = 20.0
"""Writes of mere counts of PodGroups that are sent at once."""
COUNT_WRITES_PER_PERIOD, QUIET_COUNT_WRITES_PER_PERIOD, QUIET_PERIODS = 1.0, 50.0, 5.0
"""Such writes per period while tasks are placed, and once none was placed for so many periods."""


POD_REASONS_BURST, POD_REASONS_PER_SECOND = 1000.0, 50.0
"""Limit of the conditions that explain why pods wait: so many at once, then so many per second. Thousands of pods may
begin to wait together, and the API server's other clients would wait behind all these writes.
"""


class WriteLimits:
    """Limits of writes that a bind, or another client of the API server, would wait for.

    They only change counts of PodGroups, or explain why pods wait.
    """

    def __init__(self) -> None:
        self._counts = TokenBucket(COUNT_WRITES_BURST)
        self._reasons = TokenBucket(POD_REASONS_BURST)
        self.last_placement = float("-inf")
        """Time of the last cycle that placed a task (epoch seconds)."""

    def take_reason(self, now: float) -> bool:
        """Return whether a condition that explains why a pod waits may be written now."""
        return self._reasons.take(now, POD_REASONS_PER_SECOND)

    def take_count(self, now: float, period: float) -> bool:
        """Return whether the counts of a PodGroup may be written now."""
        is_busy = now < self.last_placement + QUIET_PERIODS * period
        rate = COUNT_WRITES_PER_PERIOD if is_busy else QUIET_COUNT_WRITES_PER_PERIOD
        return self._counts.take(now, rate / max(period, 0.001))


class ClusterState:
    """State of the scheduler, folded from SchedulerEvents. A cycle works on it directly and leaves it consistent.

    `ledger` holds nodes, tasks, jobs and queues; `inputs` the objects of other kinds that plugins read; `shards` the
    nodes of the scheduler's shard, None if it uses all nodes. `handover` restricts events to the scheduler's part of
    the cluster.
    """

    close_times: StageTimes | None = None
    """Receives the durations of plugins' close, by plugin."""
    next_action = 0
    """Index of the action with which the next cycle begins."""
    unfinished_fold: Iterator[None] | None = None
    """Remaining steps of the last event."""
    _rules: Rules | None = None
    _order_inputs: tuple[Rules, Amounts] | None = None
    _order_version = 0

    def __init__(self, options: StateOptions | None = None) -> None:
        options = options or StateOptions()
        self.default_queue = options.default_queue
        self.scheduler_names, self.agent_schedulers = options.scheduler_names, options.agent_schedulers
        self.foreign_groups: dict[str, PodGroup | None] = {}
        """PodGroups of other schedulers by key, None while only their pods are known."""
        self.handover = None if options.scope is None else Handover(options.scope)
        self.reservation_seconds = options.reservation_seconds
        self.ledger = Ledger()
        self.extended_resources = ExtendedResources(self.ledger)
        self.shards = None if options.sharding is None else NodeShards(options.sharding, self.ledger)
        self.inputs = self.ledger.inputs
        self.answers: dict[tuple[str, str], Answer] = {}
        """Answers to requests of plugins by plugin and key, kept until the cycle ends."""
        self.ledger.pod_index.namespaces = self._namespace_labels
        self.backlogs = Backlogs(self.ledger)
        self.single_pod_order = SinglePodOrder(self.ledger)
        self.placer = Placer(self.ledger, self.inputs)
        self.reservations = Reservations(self.ledger.columns)
        self.nominations = Nominations(self.ledger, self.reservations, options.reservation_seconds)
        self.victim_columns = VictimColumns(self.ledger)
        self.revisit_at: dict[str, float] = {}
        """When to look again at jobs that were not ready though nothing changed (epoch seconds), by job key."""
        self.write_limits = WriteLimits()
        self.last_full_pass = float("-inf")
        """Time of the last pass over all due jobs (epoch seconds); after a cut it is done once a period."""
        self.prebinding: dict[str, tuple[PreBindStep, ...]] = {}
        """PreBind steps in progress, by pod uid."""
        self.enqueue_refused: set[str] = set()
        """Pending jobs refused since all were last tried; after a cut the others come first."""
        self.failed_attempts: dict[str, set[str]] = {}
        """Per action, the jobs it could not place since its last run that was not cut."""
        self.freed_room = FreedRoom(self.ledger.columns)
        self.unschedulable = UnschedulableJobs()
        self.bind_refused_jobs: dict[str, JobInfo] = {}
        """Jobs with a refused bind, which go before all other jobs until `urgent_until`."""
        self.queue_gates = QueueGates(enabled=FeatureGate.QUEUE_ADMISSION in options.feature_gates)
        self.pods = PodFold(
            self.ledger, self.nominations, self.queue_gates, options.scheduler_names, options.single_pods
        )
        names = SchedulerNames(options.scheduler_names, self.default_queue)
        self.native_groups = NativeGroups(self.ledger, names, self._priority_of_job, self._forget_group)
        self.watches_native_groups = options.native_groups
        self._needed = self._always_needed = options.required_resources
        self._synced: set[str] = set()
        self.priority_classes: dict[str, PriorityClass] = {}
        """PriorityClasses by name."""
        self._folds = self._folds_by_type()

    def _folds_by_type(self) -> dict[type[ApiObject], Callable[[Any, bool], bool]]:
        """Return the folds of objects that are more than input of plugins; their flag is whether an object is gone."""
        return {
            Pod: self._observe_pod,
            Node: self._observe_node,
            PodGroup: self._observe_group,
            Queue: self._observe_queue,
            PriorityClass: self._observe_priority_class,
            NativePodGroup: self.native_groups.observe_group,
            Workload: self.native_groups.observe_workload,
        }

    def require_resources(self, resources: Iterable[str]) -> None:
        """Set the resources that must be listed in addition to those that are always needed."""
        self._needed = self._always_needed.union(resources)

    @property
    def is_ready(self) -> bool:
        """Whether all needed resources are listed and none is being relisted."""
        return self._needed <= self._synced

    @property
    def missing(self) -> tuple[str, ...]:
        """Needed resources that are not listed yet, sorted."""
        return tuple(sorted(self._needed - self._synced))

    @property
    def listed_resources(self) -> list[str]:
        """Resources that are listed and not being relisted, sorted."""
        return sorted(self._synced)

    def fold(self, event: SchedulerEvent) -> bool:
        """Fold one event and return whether it could alter a decision.

        Updates of very many jobs may be left over: see `finish_fold`.
        """
        if self.unfinished_fold is not None:
            for _ in self.finish_fold():
                pass
        if changed := self._fold(event):
            self.unschedulable.cluster_generation += 1
        return changed

    def fold_arrival(self, event: Observed) -> None:
        """Fold the first event of a pod that may join an open cycle; it makes no other job schedulable."""
        self._fold(event)

    def finish_fold(self) -> Iterator[None]:
        """Yield while folding the rest of the last event; the next event or cycle does so otherwise."""
        steps_left, self.unfinished_fold = self.unfinished_fold, None
        return steps_left or iter(())

    def _apply_in_steps(self, jobs: Sequence[JobInfo], follow: Callable[[JobInfo], None]) -> None:
        """Call `follow` for each job: for the first `JOBS_PER_STEP` now, for the rest in `finish_fold`."""

        def steps() -> Iterator[None]:
            for start in range(0, len(jobs), JOBS_PER_STEP):
                for job in jobs[start : start + JOBS_PER_STEP]:
                    follow(job)
                if start + JOBS_PER_STEP < len(jobs):
                    yield

        steps_left = steps()
        if next(steps_left, self) is None:
            self.unfinished_fold = steps_left

    def _fold(self, event: SchedulerEvent) -> bool:
        match event:
            case Observed():
                return self._observe(event) and self.is_ready
            case BindRefused():
                return self._bind_refused(event)
            case AskAnswered():
                self.answers[event.plugin, event.key] = Answer(event.value, event.fault)
                return self.is_ready
            case FactsSaid():
                return self._observe_facts(event) and self.is_ready
            case EvictRefused():
                return self.eviction_refused(event.uid, event.message or f"HTTP {event.code}")
            case Synced():
                self._synced.add(event.resource)
                return self.is_ready and event.resource in self._needed
            case Relisting():
                self._synced.discard(event.resource)
            case EffectSucceeded():
                return self._status_written(event)
            case EffectFailed():
                return self._status_write_failed(event)
            case _:
                pass  # BindDone, BindUnknown, EvictDone: the pod's own watch event says what became of it
        return False

    def eviction_refused(self, uid: str, why: str) -> bool:
        """Restore a pod whose eviction was refused or not sent; return whether that could alter a decision."""
        self.nominations.record_refusal(uid, why)
        return self.pods.eviction_refused(uid)

    def _observe(self, event: Observed) -> bool:
        if (restricted := self._restrict(event)) is None:
            return False
        event = restricted
        obj, deleted = event.object, event.change is Change.GONE
        if isinstance(obj, NodeShard):
            return self.shards is not None and self.shards.observe(obj, event.change, event.at)
        if (fold := self._folds.get(type(obj))) is not None:
            return fold(obj, deleted)
        changed = self.inputs.observe(event) and self.ledger.volumes.observe(event)
        if changed:
            self.ledger.columns.mark_all_freed()
        return changed

    def _observe_pod(self, pod: Pod, deleted: bool) -> bool:
        if deleted:
            return self.pods.remove(pod)
        changed = self.pods.observe(pod)
        if pod.spec.scheduling_group is not None and is_native(job_key(pod)):
            return self.native_groups.join(pod) or changed
        return self._assign_group(pod) or changed

    def _restrict(self, event: Observed) -> Observed | None:
        """Return the event limited to the scheduler's part of the cluster, None if it has no effect."""
        if self.handover is None:
            return event
        is_used = isinstance(event.object, Node) and event.object.metadata.name in self.ledger.columns.rows
        return self.handover.restrict(event, is_used=is_used)

    def _observe_facts(self, event: FactsSaid) -> bool:
        if changed := self.inputs.observe_facts(event):
            self.ledger.columns.mark_all_freed()
        return changed

    def _observe_node(self, node: Node, deleted: bool) -> bool:
        columns, name = self.ledger.columns, node.metadata.name
        row = columns.rows.get(name)
        if deleted:
            if row is None:
                return False
            self.reservations.forget_node(name)
            columns.remove_node(name)
            return True
        if row is not None and _same_node(columns.objects[row], node):
            if not _same_images(columns.objects[row], node):
                columns.update_object(row, node)
            return False
        self.ledger.put_node(node)
        return True

    def _assign_group(self, pod: Pod) -> bool:
        """Determine from a pod which scheduler has its PodGroup; return whether it became or ceased to be ours.

        A PodGroup does not name its scheduler: it is ours unless it has pods, and only of others. It remains theirs
        when those pods are gone.
        """
        is_own = pod.spec.scheduler_name in self.scheduler_names
        if is_own and not self.foreign_groups:
            return False
        if not (key := job_key(pod)) or is_own is (key not in self.foreign_groups) or pod.metadata.deletion_timestamp:
            return False
        if is_own:
            group = self.foreign_groups.pop(key)
            return group is not None and self._observe_group(group, deleted=False)
        job = self.ledger.jobs.get(key)
        if job is not None and job.members:
            return False
        has_group = job is not None and job.has_group
        self.foreign_groups[key] = job.group if job is not None and has_group else None
        if job is not None and has_group:
            self._forget_group(job)
        return has_group

    def _is_foreign(self, group: PodGroup, *, deleted: bool) -> bool:
        """Return whether a PodGroup belongs to another scheduler; keep it, in case pods of ours join it."""
        key = group.metadata.key
        named = group.metadata.annotations.get(GROUP_SCHEDULER, "")
        if key not in self.foreign_groups:
            job = self.ledger.jobs.get(key)
            if not named or named in self.scheduler_names or (job is not None and job.members):
                return False
            if job is not None and job.has_group:
                self._forget_group(job)
        if deleted:
            self.foreign_groups.pop(key, None)
        else:
            self.foreign_groups[key] = group
        return True

    def _observe_group(self, group: PodGroup, deleted: bool) -> bool:
        if self._is_foreign(group, deleted=deleted):
            return False
        job = self.ledger.get_or_create_job(group.metadata.key)
        if job.has_group and job.uid != group.metadata.uid:
            if deleted:
                return False
            self._forget_group(job)
            job = self.ledger.get_or_create_job(group.metadata.key)
        if deleted:
            self._forget_group(job)
            return True
        old = job.group if job.has_group else None
        if old is not None and group.metadata.revision < old.metadata.revision:
            return False
        expected, phase = job.status, job.phase
        if group.status == job.status_in_flight:
            job.status_in_flight = None
        job.observe(group)
        job.priority = self._priority_of_job(job)
        self.ledger.set_phase(job, job.status.phase)
        if old is not None and group.spec == old.spec and group.metadata.annotations == old.metadata.annotations:
            if group.status not in (expected, old.status):
                self.ledger.dirty[job.key] = job
            return job.phase != phase
        self.ledger.set_queue(job, self.ledger.get_or_create_queue(job.queue_name(self.default_queue)))
        return True

    def begin_cycle(self, profile: Profile, now: float) -> Rules:
        """Finish the last fold, drop what has expired, and return the combined rules of the profile.

        Raises RuntimeError while a resource that the cycle reads is not listed.
        """
        for _ in self.finish_fold():  # the caller may have done so in steps
            pass
        self.require_resources(profile.watches)
        if not self.is_ready:
            msg = f"no cycle before these are listed: {', '.join(self.missing)}; fold their Synced events first"
            raise RuntimeError(msg)
        for node in () if self.handover is None else self.handover.admit(now):
            self.ledger.put_node(node)
            self.unschedulable.cluster_generation += 1
        if (shards := self.shards) is not None and shards.refresh(now):
            self.unschedulable.cluster_generation += 1
        self._expire_urgency(now)
        self._forget_finished_prebinds()
        if self._rules is None or self._rules.profile is not profile:
            self._rules = Rules(profile) if shards is None else Rules(profile, shards.filters(), shards.scorers())
            self.unschedulable.cluster_generation += 1
            self.ledger.columns.mark_all_freed()
        ledger = self.ledger
        changes_requests = (
            DEVICE_CLASSES in profile.watches
            or profile.ignored_resources != ledger.ignored_resources
            or profile.per_device_resources != ledger.per_device_resources
        )
        if changes_requests and self.extended_resources.update(profile):
            self.unschedulable.cluster_generation += 1
            self.ledger.columns.mark_all_freed()
        return self._rules

    def order_version(self, rules: Rules, total: Amounts) -> int:
        """Return a version that grows when the rules or the cluster's total amounts change.

        Cached order keys of jobs are valid for one version.
        """
        if self._order_inputs is None or self._order_inputs[0] is not rules or self._order_inputs[1] != total:
            self._order_inputs = rules, total
            self._order_version += 1
        return self._order_version

    def _forget_finished_prebinds(self) -> None:
        """Drop the PreBind steps of pods that are no longer Binding."""
        tasks = self.ledger.tasks
        for uid in list(self.prebinding):
            if (task := tasks.get(uid)) is None or task.status is not TaskStatus.BINDING:
                del self.prebinding[uid]

    def _expire_urgency(self, now: float) -> None:
        """End the urgency and the reservations of jobs past their time or without pending tasks."""
        for key, job in list(self.bind_refused_jobs.items()):
            if now >= job.urgent_until or not job.pending or not job.has_group:
                self.reservations.release(key)
                self.unschedulable.cluster_generation += 1
                del self.bind_refused_jobs[key]

    def _namespace_labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace, with the name label that API servers add."""
        namespace = self.inputs.objects(kinds.NAMESPACE.resource).get(name)
        return {NAMESPACE_NAME: name, **(namespace.metadata.labels if namespace else {})}

    def _forget_group(self, job: JobInfo) -> None:
        self.reservations.release(job.key)
        self.bind_refused_jobs.pop(job.key, None)
        self.revisit_at.pop(job.key, None)
        job.forget_group()
        self.ledger.set_queue(job, None)

    def _observe_queue(self, queue: Queue, deleted: bool) -> bool:
        queue_info = self.ledger.get_or_create_queue(queue.metadata.name)
        old = queue_info.object if queue_info.exists else None
        if deleted:
            queue_info.exists = False
            self.ledger.existing_queues.pop(queue_info.name, None)
        else:
            queue_info.observe(queue)
            self.ledger.existing_queues[queue_info.name] = queue_info
            queue_info.drop_observed_write()
        if old is None or deleted:
            self._apply_in_steps([self.ledger.jobs[key] for key in queue_info.jobs_by_key], self._update_schedulable)
        if deleted and not queue_info.jobs_by_key:
            self.ledger.queues.pop(queue_info.name, None)
        changed = deleted or old is None or old.spec != queue.spec or old.status.state != queue.status.state
        if changed:
            self.ledger.columns.mark_all_freed()
        return changed

    def _update_schedulable(self, job: JobInfo) -> None:
        """Update a job whose queue appeared or went away; the next cycle writes its status."""
        self.revisit_at.pop(job.key, None)
        self.ledger.update_schedulable(job)

    def _observe_priority_class(self, priority_class: PriorityClass, deleted: bool) -> bool:
        name = priority_class.metadata.name
        before, after = self.priority_classes.pop(name, None), None if deleted else priority_class
        if after is not None:
            self.priority_classes[name] = after
        if _priority_of(before) == _priority_of(after):
            return False
        self._apply_in_steps(list(self.ledger.jobs.values()), self._update_priority)
        return True

    def _update_priority(self, job: JobInfo) -> None:
        priority = self._priority_of_job(job) if job.has_group else 0
        if priority != job.priority:
            job.priority, job.cached_order_key = priority, None
            self.ledger.changes.mark(job)

    def _priority_of_job(self, job: JobInfo) -> int:
        """Return the priority that the API server gave a native group, else that of the job's PriorityClass.

        That is the value of the class, else of the global default, else 0.
        """
        if job.native is not None and job.native.spec.priority is not None:
            return job.native.spec.priority
        class_name = job.group.spec.priority_class_name
        if (priority_class := self.priority_classes.get(class_name)) is not None:
            return priority_class.value
        return max((item.value for item in self.priority_classes.values() if item.global_default), default=0)

    def _bind_refused(self, event: BindRefused) -> bool:
        """Release the node, reserve its room for the gang and make the gang's job urgent."""
        task = self.ledger.tasks.get(event.uid)
        if task is None or task.status is not TaskStatus.BINDING or task.node != event.node:
            return False
        self.ledger.transition(task, TaskStatus.PENDING, "")
        task.bind_refusal = f"failed to bind to node {event.node}: {event.message or event.reason or event.code}"
        task.last_refusal = task.bind_refusal
        task.bind_refusals += 1
        task.retry_at = event.at + _BIND_BACKOFF.delay(task.bind_refusals - 1)
        self.pods.retry_agent_pod(task)
        if task.job_info is not None:
            task.job_info.urgent_until = event.at + self.reservation_seconds
            self.bind_refused_jobs[task.job_info.key] = task.job_info
            self.reservations.add(task.job_info.key, Reservation(event.node, task.shape))
        return True

    def _status_written(self, event: EffectSucceeded) -> bool:
        """Fold the response of an accepted status write as an observation."""
        obj, resource, key = event.obj, *event.key.partition("/")[::2]
        if resource == kinds.NATIVE_POD_GROUP.resource:
            return self.native_groups.written(key, obj)
        if isinstance(obj, NodeShard) and self.shards is not None:
            self.shards.status_answered(obj)
            return False
        job = self.ledger.jobs.get(key) if resource == kinds.POD_GROUP.resource else None
        if job is not None:
            job.status_writes_in_flight = max(job.status_writes_in_flight - 1, 0)
        if not isinstance(obj, PodGroup | Queue | Pod) or not self._exists(obj):
            return False
        kind = kinds.of(obj)
        changed = self._observe(Observed(at=event.at, resource=kind.resource, change=Change.CHANGED, object=obj))
        if job is not None and job.status_in_flight is not None and not job.status_writes_in_flight:
            self._resolve_write(job)
        return changed

    def _resolve_write(self, job: JobInfo) -> None:
        """Adopt the stored status when the server answered the last write with another one.

        Concurrent patches may merge into a status that neither contained. It is rewritten, but not at once, since the
        server may store another value every time.
        """
        job.status_in_flight = None
        self.ledger.set_phase(job, job.status.phase)
        self.revisit_at[job.key] = min(
            self.revisit_at.get(job.key, inf), job.status_written_at + STATUS_REWRITE_SECONDS
        )

    def _exists(self, obj: ApiObject) -> bool:
        """Return whether an object still exists: a late response must not bring it back."""
        uid, key = obj.metadata.uid, obj.metadata.key
        match obj:
            case Pod():
                return uid in self.ledger.tasks
            case PodGroup():
                return (job := self.ledger.jobs.get(key)) is not None and job.has_group and job.uid == uid
            case _:
                return (queue := self.ledger.existing_queues.get(key)) is not None and queue.object.metadata.uid == uid

    def _status_write_failed(self, event: EffectFailed) -> bool:
        """Forget the failed write of a status, so that the next close writes it again."""
        resource, _, key = event.key.partition("/")
        if resource == kinds.NATIVE_POD_GROUP.resource:
            self.native_groups.write_failed(key)
            return event.code != 404
        if resource == kinds.NODE_SHARD.resource and self.shards is not None:
            self.shards.status_answered(None)
        if resource == kinds.POD_GROUP.resource and (job := self.ledger.jobs.get(key)) is not None:
            job.status_writes_in_flight = max(job.status_writes_in_flight - 1, 0)
            job.status_in_flight = None
            self.ledger.set_phase(job, job.status.phase)
            self.ledger.dirty[job.key] = job
            return event.code != 404
        if resource == kinds.QUEUE.resource and (queue := self.ledger.queues.get(key.strip("/"))) is not None:
            queue.allocated_in_flight = None
        if resource == kinds.POD.resource:
            self.pods.condition_failed(key)
            return self.queue_gates.patch_failed(key, event.code)
        return False


def _priority_of(priority_class: PriorityClass | None) -> tuple[int, bool] | None:
    """Return the fields of a PriorityClass that affect jobs."""
    return None if priority_class is None else (priority_class.value, priority_class.global_default)


def _same_node(old: Node, new: Node) -> bool:
    """Return whether the fields of a node that scheduling reads are equal (heartbeats change others)."""
    return (
        old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and old.status.allocatable == new.status.allocatable
    )


def _same_images(old: Node, new: Node) -> bool:
    """Return whether a node has the same images, in any order."""
    before, after = old.status.images, new.status.images
    return before == after or (len(before) == len(after) and set(before) == set(after))
