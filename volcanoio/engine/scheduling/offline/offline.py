"""The scheduler without an API server: objects in, decisions out, with the answers of a cluster folded back.

Binds assign the node (Bound: no kubelet runs the pods), evicted pods stay terminating, status patches are merged into
their objects. The clock is set by the caller and advances by one period per cycle.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import msgspec

from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.diagnosis.diagnosis import Diagnosis, diagnose
from volcanoio.engine.scheduling.session.context import Budget
from volcanoio.engine.scheduling.session.cycle import CycleResult, run_cycle
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.engine.scheduling.status.explanation import (
    STATUS_TITLES,
    UNSETTLED,
    missing_group_text,
    waiting_text,
)
from volcanoio.framework import effects
from volcanoio.framework.effects import Patch
from volcanoio.framework.events import Change, Observed, Synced
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.framework.scheduling_effects import BindBatch, BindRequest, Evict, PreBindStep, SchedulerEffect
from volcanoio.framework.scheduling_events import BindDone, CycleOpened, EvictDone, SchedulerEvent
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.core import Pod
from volcanoio.model.kinds import Kind
from volcanoio.model.times import rfc3339

T = TypeVar("T")


class Placement(msgspec.Struct, frozen=True):
    """A pod (`namespace/name`) and its node."""

    pod: str
    node: str


class Eviction(msgspec.Struct, frozen=True):
    """A pod (`namespace/name`) and the action that evicted it."""

    pod: str
    action: str


class GroupState(msgspec.Struct, frozen=True):
    """A PodGroup after the last cycle."""

    phase: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of cycles: all binds and evictions in order, and the state of the last session."""

    cycles: int
    binds: tuple[Placement, ...]
    evictions: tuple[Eviction, ...]
    pipelined: tuple[Placement, ...]
    pod_groups: dict[str, GroupState]
    task_status: dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class CycleSnapshot:
    """The jobs and pods of a session at its close; keys are `namespace/podgroup` and `namespace/name`, sorted.

    `pipelined` is the node of each pipelined pod, `phases` the phase of each PodGroup, `statuses` the number of its
    tasks by status. `reasons` is the most precise known reason why a PodGroup waits; it includes PodGroups that pods
    name but that do not exist.
    """

    pipelined: Mapping[str, str]
    phases: Mapping[str, str]
    statuses: Mapping[str, Mapping[str, int]]
    reasons: Mapping[str, str]


def cycle_snapshot(session: CycleSession) -> CycleSnapshot:
    """Return a snapshot of a session that has closed and is not undone yet."""
    ledger = session.state.ledger
    jobs = [ledger.jobs[key] for key in sorted(ledger.jobs) if ledger.jobs[key].has_group]
    reserved = [
        task
        for job in jobs
        if job.counts[TaskStatus.PIPELINED]
        for task in job.members.values()
        if task.status is TaskStatus.PIPELINED
    ]
    reasons = {
        job.key: waiting_text(job, session.enqueue_rejections, session.rules)
        for job in jobs
        if job.pending or job.phase in UNSETTLED
    }
    jobs_without_group = [
        job for job in ledger.jobs.values() if job.pending and not job.has_group and not job.is_single_pod
    ]
    reasons |= {job.key: missing_group_text(job) for job in sorted(jobs_without_group, key=lambda job: job.key)}
    return CycleSnapshot(
        pipelined=dict(sorted((f"{task.namespace}/{task.name}", task.node) for task in reserved)),
        phases={job.key: job.phase for job in jobs},
        statuses={job.key: {STATUS_TITLES[at]: count for at, count in enumerate(job.counts) if count} for job in jobs},
        reasons={key: text for key, text in reasons.items() if text},
    )


class Offline:
    """A cluster under the scheduler: `objects` by resource and key, and `decisions` in order.

    `last` are the decisions of the last cycle, `snapshot` is the state of its session.
    """

    def __init__(
        self, state: ClusterState, profile: Profile, *, now: float, period: float = 1.0, seed: int = 0
    ) -> None:
        self.state = state
        self.profile = profile
        self.now = now
        self.period = period
        self.seed = seed
        self.cycles = 0
        self.objects: dict[tuple[str, str], ApiObject] = {}
        self.decisions: list[SchedulerEffect] = []
        self.last: list[SchedulerEffect] = []
        self.snapshot: CycleSnapshot | None = None
        self._reads: Callable[[CycleSession], object] | None = None
        self._has_read: object = None

    def load(self, objects: Iterable[ApiObject]) -> None:
        """Add all existing objects, and mark their resources as listed."""
        for obj in objects:
            self.put(obj)
        self.sync()

    def sync(self) -> None:
        """Mark all resources that plugins read as listed."""
        self.state.require_resources(self.profile.watches)
        for resource in self.state.missing:
            self.fold(Synced(resource=resource))

    def age(self) -> None:
        """Treat the objects as a period old, so that the next cycle reports conditions that need time."""
        since = self.now - self.period
        for job in self.state.ledger.jobs.values():
            job.not_ready_since = job.pending_since = since
            job.members_at_close = len(job.members)

    def fold(self, event: SchedulerEvent) -> bool:
        """Fold an event; return whether it could alter a decision."""
        return self.state.fold(event)

    def put(self, obj: ApiObject) -> bool:
        """Create or replace an object with a newer resourceVersion."""
        key = kinds.of(obj).resource, obj.metadata.key
        old = self.objects.get(key)
        before = -1 if old is None else old.metadata.revision
        if before >= 0 and obj.metadata.revision <= before:
            meta = msgspec.structs.replace(obj.metadata, resource_version=str(before + 1))
            obj = msgspec.structs.replace(obj, metadata=meta)
        self.objects[key] = obj
        change = Change.APPEARED if old is None else Change.CHANGED
        return self.fold(Observed(at=self.now, resource=key[0], change=change, object=obj))

    def remove(self, kind: Kind, key: str) -> bool:
        """Delete an object."""
        obj = self.objects.pop((kind.resource, key))
        return self.fold(Observed(at=self.now, resource=kind.resource, change=Change.GONE, object=obj))

    def cycle(self, *, budget: Budget | None = None) -> CycleResult:
        """Run one cycle and advance time by a period; its decisions are in `last` and not carried out."""
        self.cycles += 1
        opening = CycleOpened(cycle=self.cycles, upto=0, seed=self.seed, at=self.now, period=self.period)
        steps = run_cycle(self.state, self.profile, opening, budget=budget, inspect=self.inspect)
        self.last = []
        while True:
            try:
                self.last.extend(next(steps).decisions)
            except StopIteration as end:
                result = cast("CycleResult", end.value)
                self.decisions.extend(self.last)
                self.now += self.period
                return result

    def inspect(self, session: CycleSession) -> None:
        """Read the snapshot, and what `ask` was called for, from a session that has closed."""
        self.snapshot = cycle_snapshot(session)
        if self._reads is not None:
            self._has_read = self._reads(session)

    def ask(self, question: Callable[[CycleSession], T], *, budget: Budget | None = None) -> T:
        """Run one cycle and return what a function reads from its session.

        The cycle's decisions are in `last` and not carried out.
        """
        self._reads = question
        self.cycle(budget=budget)
        self._reads = None
        return cast("T", self._has_read)

    def diagnose(self) -> dict[str, Diagnosis]:
        """Run one cycle and return why jobs wait."""
        return self.ask(diagnose)

    def pod(self, key: str) -> Pod | None:
        """Return a pod by `namespace/name`; None if there is none."""
        return cast("Pod | None", self.objects.get((kinds.POD.resource, key)))

    def run(self, cycles: int) -> None:
        """Run a number of cycles; apply the decisions of each before the next."""
        for _ in range(cycles):
            self.cycle()
            for decision in self.last:
                self.carry_out(decision)

    def carry_out(self, decision: SchedulerEffect) -> None:
        """Carry out a decision as a cluster without kubelets would, and fold the result."""
        match decision:
            case BindBatch():
                for bind in decision.binds:
                    self.bind(decision.group, bind)
            case Evict():
                self._evict(decision)
            case Patch():
                self._patch(decision)
            case _:
                pass  # Events have no effect

    def bind(self, group: str, bind: BindRequest) -> None:
        """Bind a pod to its node; its prebind steps are written, but no volumes are provisioned."""
        for step in bind.prebind:
            self._write(step)
        pod = cast("Pod", self.objects[kinds.POD.resource, f"{bind.namespace}/{bind.name}"])
        self.fold(
            BindDone(at=self.now, group=group, uid=bind.uid, namespace=bind.namespace, name=bind.name, node=bind.node)
        )
        annotations = {**pod.metadata.annotations, **bind.annotations}
        meta = msgspec.structs.replace(pod.metadata, annotations=annotations) if bind.annotations else pod.metadata
        spec = msgspec.structs.replace(pod.spec, node_name=bind.node)
        self.put(msgspec.structs.replace(pod, metadata=meta, spec=spec))

    def _write(self, step: PreBindStep) -> None:
        key = f"{step.namespace}/{step.name}" if step.namespace else step.name
        if step.create:
            manifest = {**step.create, "metadata": {**step.create["metadata"], "uid": f"created/{key}"}}
            self.put(msgspec.convert(manifest, kinds.BY_RESOURCE[step.resource].type))
        obj = self.objects.get((step.resource, key))
        if obj is not None and step.patch:
            kind = kinds.of(obj)
            manifest, patch = kind.manifest(obj), step.patch
            if step.patch_type is effects.PatchType.STRATEGIC:
                patch = _with_merged_lists(manifest, patch)
            self.put(msgspec.convert(effects.apply_merge_patch(manifest, patch), kind.type))

    def _evict(self, evict: Evict) -> None:
        pod = self.objects[kinds.POD.resource, f"{evict.namespace}/{evict.name}"]
        self.fold(
            EvictDone(
                at=self.now,
                group=evict.group,
                uid=evict.uid,
                namespace=evict.namespace,
                name=evict.name,
                node=evict.node,
            )
        )
        meta = msgspec.structs.replace(pod.metadata, deletion_timestamp=rfc3339(self.now))
        self.put(msgspec.structs.replace(pod, metadata=meta))

    def _patch(self, patch: Patch) -> None:
        """Merge a status patch; a pod or native group has one condition of each type."""
        key = f"{patch.namespace}/{patch.name}" if patch.namespace else patch.name
        if (obj := self.objects.get((patch.resource, key))) is None:
            return
        kind = kinds.of(obj)
        merged = effects.apply_merge_patch(kind.manifest(obj), patch.patch)
        by_type = kind in (kinds.POD, kinds.NATIVE_POD_GROUP)
        if by_type and (new := patch.patch.get("status", {}).get("conditions")):
            replaced = {entry["type"] for entry in new}
            kept = [
                entry
                for entry in msgspec.to_builtins(cast("Pod", obj).status.conditions)
                if entry.get("type") not in replaced
            ]
            merged["status"]["conditions"] = [*kept, *new]
        self.put(msgspec.convert(merged, kind.type))

    @property
    def requests(self) -> list[BindRequest]:
        """All binds decided so far, in order."""
        return [bind for decision in self.decisions if isinstance(decision, BindBatch) for bind in decision.binds]

    def outcome(self) -> Outcome:
        """Return the result so far; at least one cycle must have run."""
        assert self.snapshot is not None
        return Outcome(
            cycles=self.cycles,
            binds=tuple(Placement(f"{bind.namespace}/{bind.name}", bind.node) for bind in self.requests),
            evictions=tuple(
                Eviction(f"{evict.namespace}/{evict.name}", evict.reason)
                for evict in self.decisions
                if isinstance(evict, Evict)
            ),
            pipelined=tuple(Placement(pod, node) for pod, node in self.snapshot.pipelined.items()),
            pod_groups={key: GroupState(phase) for key, phase in self.snapshot.phases.items()},
            task_status={key: dict(counts) for key, counts in self.snapshot.statuses.items()},
        )


_MERGED_LISTS: dict[str, Callable[[Any], str]] = {"finalizers": str, "reservedFor": lambda entry: entry["uid"]}
"""Lists of objects in PreBind steps that a strategic merge patch adds to, with the identity of their entries."""


def _with_merged_lists(target: Manifest, patch: Manifest) -> Manifest:
    """Return a strategic merge patch as a merge patch: with the entries that its lists add to."""
    result: Manifest = {}
    for name, value in patch.items():
        known = target.get(name)
        if (identity := _MERGED_LISTS.get(name)) is not None:
            result[name] = list({identity(entry): entry for entry in (*(known or ()), *value)}.values())
        elif isinstance(value, dict) and isinstance(known, dict):
            result[name] = _with_merged_lists(known, value)
        else:
            result[name] = value
    return result
