"""`Overview`: rows of jobs, queues and nodes for people to look at, folded from observed objects.

The rows are plain sums and counts, so that a page can draw a cluster without its objects: a running one from informers,
a past one from the events of a journal. The scheduler's journal is enough: a PodGroup names its Job as owner, and Job
objects add details only. Amounts are in scheduling units (`volcanoio.model.resources`), times in epoch seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from volcanoio.engine.scheduling.cluster.native_groups import as_pod_group, status_of
from volcanoio.engine.scheduling.cluster.pod_fields import is_native, job_key, native_key
from volcanoio.framework.events import Change, Event, Observed
from volcanoio.model import kinds, names
from volcanoio.model.base import ObjectMeta
from volcanoio.model.batch import FINISHED_PHASES, Job, JobPhase
from volcanoio.model.core import Node, Pod
from volcanoio.model.resources import Amounts, add, add_nonzero, pod_amounts, stored_amounts
from volcanoio.model.scheduling import PodGroup, Queue
from volcanoio.model.times import epoch_or_none
from volcanoio.model.workloads import NativePodGroup

KINDS = (kinds.QUEUE, kinds.NODE, kinds.JOB, kinds.POD_GROUP, kinds.NATIVE_POD_GROUP, kinds.POD)
"""Kinds that are folded."""
RESOURCES = frozenset(kind.resource for kind in KINDS)
"""These kinds by `Kind.resource`."""
NATIVE = f"{kinds.NATIVE_POD_GROUP.kind}.{kinds.NATIVE_POD_GROUP.group}"
"""Kind of the rows of native groups."""
MESSAGE_LENGTH = 240
"""Characters of a message in a row; the whole one is on the object."""
_POD_PHASES = {"Succeeded": "succeeded", "Failed": "failed", "Running": "running"}
_ZONE = "topology.kubernetes.io/zone"
_QUOTA_NAMES = ("count/", "limits.", "requests.", "pods")
"""Beginnings of the names that minResources has besides the resources of nodes."""
_CONTROL = ("node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class JobRow(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """A Job, a PodGroup that belongs to none, or a native group that the scheduler has.

    `requested` is the sum of its pods with a node, `waiting` that of its pods without one, `used` what metrics.k8s.io
    measured of them; None if it measured nothing. `group_phase` is the phase of its PodGroup, `min_resources` what that
    asks for. The numbers of pods are `pending` (no node), `starting` (not running yet), and so on.
    """

    namespace: str
    name: str
    kind: str = "Job"
    queue: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    group: str = ""
    group_phase: str = ""
    priority_class: str = ""
    min_available: int = 0
    replicas: int = 0
    created: float | None = None
    started: float | None = None
    ended: float | None = None
    pending: int = 0
    starting: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    requested: Amounts = {}
    waiting: Amounts = {}
    min_resources: Amounts = {}
    used: Amounts | None = None


class QueueRow(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """A queue. `requested`, `waiting` and `inqueue` are sums over its own jobs; `allocated` is the scheduler's figure.

    `inqueue` is what PodGroups asked for that are admitted and do not run yet; `groups` are PodGroups by phase.
    """

    name: str
    parent: str = ""
    state: str = ""
    weight: int = 1
    priority: int = 0
    reclaimable: bool = True
    capability: Amounts = {}
    deserved: Amounts = {}
    guarantee: Amounts = {}
    allocated: Amounts = {}
    requested: Amounts = {}
    waiting: Amounts = {}
    inqueue: Amounts = {}
    used: Amounts | None = None
    groups: dict[str, int] = {}


class NodeRow(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """A node; `requested` is the sum of its pods that have not ended, `pods` their number."""

    name: str
    ready: bool = True
    schedulable: bool = True
    zone: str = ""
    taints: tuple[str, ...] = ()
    allocatable: Amounts = {}
    requested: Amounts = {}
    used: Amounts | None = None
    pods: int = 0


class Changes(msgspec.Struct, frozen=True):
    """Rows by key; None for one that is gone.

    Keys of jobs are `namespace/name`, of PodGroups `namespace/pg/name`, of native groups those of `native_key`.
    """

    jobs: dict[str, JobRow | None] = {}
    queues: dict[str, QueueRow | None] = {}
    nodes: dict[str, NodeRow | None] = {}

    def __bool__(self) -> bool:
        """Return whether anything changed."""
        return bool(self.jobs or self.queues or self.nodes)


class _PodRecord(NamedTuple):
    """What a pod adds to the rows."""

    key: str
    job: str
    node: str
    state: str
    requests: Amounts

    @property
    def is_placed(self) -> bool:
        return bool(self.node) and self.state not in ("succeeded", "failed")


class _Dirty(NamedTuple):
    """Keys of rows that changed since they were last taken."""

    jobs: set[str]
    queues: set[str]
    nodes: set[str]


class Overview:
    """Fold of observed Jobs, PodGroups, pods, queues and nodes; other events are ignored.

    Rows are updated in place: encode them before the next fold.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, JobRow] = {}
        self._queues: dict[str, QueueRow] = {}
        self._nodes: dict[str, NodeRow] = {}
        self._existing_nodes: set[str] = set()
        self._job_objects: dict[str, Job] = {}
        self._groups: dict[str, PodGroup] = {}
        """PodGroups by key of the row; for a native group Volcano's PodGroup that corresponds to it."""
        self._group_rows: dict[str, str] = {}
        """Key of the row by key of the PodGroup."""
        self._pods: dict[str, _PodRecord] = {}
        """Pods by uid."""
        self._pods_of: dict[str, dict[str, str]] = {}
        """Keys of pods by uid, for each job."""
        self._pods_on: dict[str, dict[str, str]] = {}
        self._jobs_in: dict[str, set[str]] = {}
        self._usage: Mapping[str, Amounts] | None = None
        self._dirty = _Dirty(set(), set(), set())

    def fold(self, events: Iterable[Event]) -> None:
        """Fold a batch of events."""
        for event in events:
            if not isinstance(event, Observed):
                continue
            obj, gone = event.object, event.change is Change.GONE
            if isinstance(obj, Pod):
                self._fold_pod(obj, gone=gone)
            elif isinstance(obj, PodGroup):
                self._fold_group(obj, gone=gone)
            elif isinstance(obj, NativePodGroup):
                self._fold_native(obj, gone=gone)
            elif isinstance(obj, Job):
                self._fold_job(obj, gone=gone)
            elif isinstance(obj, Queue):
                self._fold_queue(obj, gone=gone)
            elif isinstance(obj, Node):
                self._fold_node(obj, gone=gone)

    def measure(self, usage: Mapping[str, Amounts]) -> None:
        """Fold what pods use, by `namespace/name`; pods that are not in it are not measured."""
        self._usage = usage
        self._dirty.jobs.update(key for key, pods in self._pods_of.items() if pods)
        self._dirty.queues.update(self._queues)
        self._dirty.nodes.update(self._pods_on)

    def take_changes(self) -> Changes:
        """Return the rows that changed since the last call."""
        dirty, self._dirty = self._dirty, _Dirty(set(), set(), set())
        if self._usage is not None:
            self._fill_usage(dirty)
        for name in dirty.queues:
            self._sum_queue(name)
        jobs = {key: self.job(key) for key in dirty.jobs}
        return Changes(jobs, _taken(self._queues, dirty.queues), _taken(self._nodes, dirty.nodes))

    def snapshot(self) -> Changes:
        """Return all rows; changes that were not taken yet stay so."""
        if self._usage is not None:
            self._fill_usage(self._dirty)
        for name in self._dirty.queues:
            self._sum_queue(name)
        jobs: dict[str, JobRow | None] = {key: row for key, row in self._jobs.items() if self._is_shown(key)}
        return Changes(jobs, dict(self._queues), dict(self._nodes))

    def pod_counts(self) -> tuple[int, int]:
        """Return how many pods run, and how many wait for a node."""
        jobs = [job for key, job in self._jobs.items() if self._is_shown(key)]
        return sum(job.running for job in jobs), sum(job.pending for job in jobs)

    def pods_of(self, job: str) -> Collection[str]:
        """Return the keys of the pods of a row."""
        return self._pods_of.get(job, {}).values()

    def pods_on(self, node: str) -> Collection[str]:
        """Return the keys of the pods on a node that have not ended."""
        return self._pods_on.get(node, {}).values()

    def job(self, key: str) -> JobRow | None:
        """Return the row of a Job, or of a group without Job, by the key that it has in `Changes`."""
        return self._jobs.get(key) if self._is_shown(key) else None

    def _is_shown(self, key: str) -> bool:
        """Return whether a row is not that of a native group of another scheduler."""
        return key in self._groups or not is_native(key)

    # -- Jobs and PodGroups

    def _fold_job(self, job: Job, *, gone: bool) -> None:
        key = job.metadata.key
        if gone:
            self._job_objects.pop(key, None)
        else:
            self._job_objects[key] = job
        self._describe(key, job.metadata)

    def _fold_group(self, group: PodGroup, *, gone: bool) -> None:
        meta = group.metadata
        owner = next(iter(kinds.owner_names(kinds.JOB, meta)), "")
        key = f"{meta.namespace}/{owner}" if owner else f"{meta.namespace}/pg/{meta.name}"
        if gone:
            self._group_rows.pop(meta.key, None)
            if (known := self._groups.get(key)) is not None and known.metadata.uid == meta.uid:
                del self._groups[key]
        else:
            self._group_rows[meta.key] = key
            self._groups[key] = group
        self._describe(key, meta)

    def _fold_native(self, native: NativePodGroup, *, gone: bool) -> None:
        key = native_key(native.metadata.namespace, native.metadata.name)
        if gone or not native.queue:
            self._groups.pop(key, None)
        else:
            self._groups[key] = as_pod_group(native, native.queue, status_of(native))
        self._describe(key, native.metadata)

    def _describe(self, key: str, meta: ObjectMeta) -> None:
        """Set the fields of a row that come from its Job and PodGroup; remove it without these and without pods."""
        job, group = self._job_objects.get(key), self._groups.get(key)
        self._dirty.jobs.add(key)
        if job is None and group is None and not self._pods_of.get(key):
            if (row := self._jobs.pop(key, None)) is not None:
                self._move(key, row.queue, "")
            return
        row = self._row(key, meta.namespace)
        before = row.queue
        _clear(row)
        if group is not None:
            _describe_group(row, group)
        if job is not None:
            _describe_job(row, job)
        elif group is not None:
            row.created = epoch_or_none(group.metadata.creation_timestamp)
            row.min_available = group.spec.min_member
            row.phase = group.status.phase or "Pending"
        self._count_replicas(key, row)
        self._move(key, before, row.queue)

    def _row(self, key: str, namespace: str) -> JobRow:
        if (row := self._jobs.get(key)) is None:
            kind = NATIVE if is_native(key) else "PodGroup" if key.count("/") > 1 else "Job"
            row = self._jobs[key] = JobRow(namespace=namespace, name=key.rpartition("/")[2], kind=kind)
        return row

    def _count_replicas(self, key: str, row: JobRow) -> None:
        if key not in self._job_objects:  # otherwise its tasks have the number
            row.replicas = max(row.min_available, len(self._pods_of.get(key, ())))

    def _move(self, key: str, before: str, after: str) -> None:
        """Count a job in another queue."""
        if before != after and before:
            self._jobs_in.get(before, set()).discard(key)
            self._touch_queue(before)
        if after:
            self._jobs_in.setdefault(after, set()).add(key)
            self._touch_queue(after)

    def _touch_queue(self, name: str) -> None:
        """Compute the sums of a queue again, if it is known."""
        if name in self._queues:
            self._dirty.queues.add(name)

    # -- pods

    def _fold_pod(self, pod: Pod, *, gone: bool) -> None:
        uid = pod.metadata.uid
        known = self._pods.get(uid)
        record = None if gone else self._record(pod, known)
        if record == known:
            return
        if known is not None:
            del self._pods[uid]
            self._count(uid, known, -1)
        if record is not None:
            self._pods[uid] = record
            self._count(uid, record, 1)
        if known is not None and known.job and (record is None or record.job != known.job):
            self._describe(known.job, pod.metadata)
        if known is not None and known.is_placed:
            self._drop_node(known.node)

    def _record(self, pod: Pod, known: _PodRecord | None) -> _PodRecord:
        meta = pod.metadata
        if owner := meta.labels.get(names.JOB_NAME):
            job = f"{meta.namespace}/{owner}"
        elif group := meta.annotations.get(names.GROUP_NAME):
            job = self._group_rows.get(f"{meta.namespace}/{group}") or f"{meta.namespace}/pg/{group}"
        else:
            job = job_key(pod)
        state = _POD_PHASES.get(pod.status.phase) or ("starting" if pod.spec.node_name else "pending")
        if meta.deletion_timestamp and state not in ("succeeded", "failed"):
            state = "terminating"
        requests = known.requests if known is not None else pod_amounts(pod.spec, "requests")
        return _PodRecord(meta.key, job, pod.spec.node_name, state, requests)

    def _count(self, uid: str, pod: _PodRecord, times: int) -> None:
        """Add what a pod is to its job and node; -1 takes it away."""
        if pod.job:
            row = self._row(pod.job, pod.key.partition("/")[0])
            setattr(row, pod.state, getattr(row, pod.state) + times)
            _register(self._pods_of, pod.job, uid, pod.key, times)
            if pod.is_placed:
                row.requested = _sum(row.requested, pod.requests, times)
            elif pod.state == "pending":
                row.waiting = _sum(row.waiting, pod.requests, times)
            self._count_replicas(pod.job, row)
            self._dirty.jobs.add(pod.job)
            self._touch_queue(row.queue)
        if pod.is_placed:
            node = self._nodes.setdefault(pod.node, NodeRow(name=pod.node))
            node.requested = _sum(node.requested, pod.requests, times)
            node.pods += times
            _register(self._pods_on, pod.node, uid, pod.key, times)
            self._dirty.nodes.add(pod.node)

    # -- queues and nodes

    def _fold_queue(self, queue: Queue, *, gone: bool) -> None:
        name, spec = queue.metadata.name, queue.spec
        self._dirty.queues.add(name)
        if gone:
            self._queues.pop(name, None)
            return
        row = self._queues.setdefault(name, QueueRow(name=name))
        row.parent, row.state = spec.parent, queue.status.state or "Open"
        row.weight, row.priority, row.reclaimable = spec.weight, spec.priority, spec.reclaimable is not False
        row.capability, row.deserved = stored_amounts(spec.capability), stored_amounts(spec.deserved)
        row.guarantee, row.allocated = stored_amounts(spec.guarantee.resource), stored_amounts(queue.status.allocated)

    def _sum_queue(self, name: str) -> None:
        """Compute the sums over the jobs of a queue."""
        if (row := self._queues.get(name)) is None:
            return
        row.requested, row.waiting, row.inqueue, row.groups = {}, {}, {}, {}
        measured: Amounts | None = None
        for key in self._jobs_in.get(name, ()):
            job = self._jobs[key]
            add(row.requested, job.requested)
            add(row.waiting, job.waiting)
            if job.group:
                row.groups[job.group_phase] = row.groups.get(job.group_phase, 0) + 1
            if job.group_phase == "Inqueue":
                add(row.inqueue, job.min_resources)
            if job.used is not None:
                measured = measured or {}
                add(measured, job.used)
        row.used = measured

    def _fold_node(self, node: Node, *, gone: bool) -> None:
        name = node.metadata.name
        self._dirty.nodes.add(name)
        row = self._nodes.setdefault(name, NodeRow(name=name))
        if gone:
            self._existing_nodes.discard(name)
            self._drop_node(name)
        else:
            self._existing_nodes.add(name)
        ready = next((one.status for one in node.status.conditions if one.type == "Ready"), "True")
        row.ready = not gone and ready == "True"
        row.schedulable = not node.spec.unschedulable
        row.zone = node.metadata.labels.get(_ZONE, "")
        row.taints = tuple(
            f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
            for taint in node.spec.taints
            if taint.key not in _CONTROL
        )
        row.allocatable = stored_amounts(node.status.allocatable or node.status.capacity)

    def _drop_node(self, name: str) -> None:
        """Remove the row of a node that does not exist and has no pods."""
        if name not in self._existing_nodes and not self._pods_on.get(name):
            self._nodes.pop(name, None)

    # -- usage

    def _fill_usage(self, dirty: _Dirty) -> None:
        """Set what the pods of changed jobs and nodes use."""
        usage = self._usage or {}
        for rows, pods, keys in ((self._jobs, self._pods_of, dirty.jobs), (self._nodes, self._pods_on, dirty.nodes)):
            for key in keys:
                if (row := rows.get(key)) is not None:
                    found = [usage[pod] for pod in pods.get(key, {}).values() if pod in usage]
                    row.used = None if not found else _total(found)


Row = TypeVar("Row", JobRow, QueueRow, NodeRow)


def _taken(rows: Mapping[str, Row], keys: Iterable[str]) -> dict[str, Row | None]:
    return {key: rows.get(key) for key in keys}


def _total(parts: Iterable[Mapping[str, int]]) -> Amounts:
    result: Amounts = {}
    for part in parts:
        add(result, part)
    return result


def _sum(total: Amounts, change: Mapping[str, int], times: int) -> Amounts:
    """Return a sum without zeros, in a dict of its own: the default of a row is shared."""
    result = dict(total)
    add_nonzero(result, change, times)
    return result


def _register(index: dict[str, dict[str, str]], where: str, uid: str, key: str, times: int) -> None:
    if times > 0:
        index.setdefault(where, {})[uid] = key
    elif (found := index.get(where)) is not None:
        found.pop(uid, None)
        if not found:
            del index[where]


def _clear(row: JobRow) -> None:
    """Reset the fields that come from the Job and its PodGroup."""
    row.queue = row.phase = row.reason = row.message = row.group = row.group_phase = row.priority_class = ""
    row.min_available = row.replicas = 0
    row.created = row.started = row.ended = None
    row.min_resources = {}


def _describe_group(row: JobRow, group: PodGroup) -> None:
    row.queue = group.spec.queue or names.DEFAULT_QUEUE
    row.group, row.group_phase = group.metadata.name, group.status.phase or "Pending"
    row.priority_class = group.spec.priority_class_name
    asked = stored_amounts(group.spec.min_resources)
    row.min_resources = {name: amount for name, amount in asked.items() if not name.startswith(_QUOTA_NAMES)}
    newest = max(group.status.conditions, key=lambda one: one.last_transition_time or "", default=None)
    waits = newest is not None and newest.type == "Unschedulable" and newest.status == "True"
    row.reason = newest.reason if newest is not None and waits else ""
    row.message = newest.message[:MESSAGE_LENGTH] if newest is not None and waits else ""


def _describe_job(row: JobRow, job: Job) -> None:
    state, spec = job.status.state, job.spec
    row.queue = row.queue or spec.queue or names.DEFAULT_QUEUE
    row.phase = state.phase or JobPhase.PENDING
    if not row.reason or state.reason:
        row.reason, row.message = state.reason or row.reason, (state.message or row.message)[:MESSAGE_LENGTH]
    row.priority_class = spec.priority_class_name or row.priority_class
    row.min_available, row.replicas = spec.min_available, sum(task.replicas for task in spec.tasks)
    row.created = epoch_or_none(job.metadata.creation_timestamp)
    began = [one.last_transition_time for one in job.status.conditions if one.status == JobPhase.RUNNING]
    row.started = epoch_or_none(began[0]) if began else None
    finished = state.phase in FINISHED_PHASES or state.phase == JobPhase.ABORTED
    row.ended = epoch_or_none(state.last_transition_time) if finished else None
