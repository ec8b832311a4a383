"""What a job's phase keeps up: the writes that bring the world in line, or, when it is, the phase that follows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from operator import attrgetter

import msgspec

from volcanoio.engine.jobs import gate, supports
from volcanoio.engine.jobs.counting import Counts, is_terminating
from volcanoio.engine.jobs.dependencies import may_start
from volcanoio.engine.jobs.draft import job_patch
from volcanoio.engine.jobs.ledger import Target
from volcanoio.engine.jobs.overriding import for_pod
from volcanoio.engine.jobs.ownership import (
    belongs,
    is_live,
    is_marked,
    version_of,
)
from volcanoio.engine.jobs.plugins import PluginProblem, PluginSets, pod_with_plugins
from volcanoio.engine.jobs.podgroup import (
    group_changes,
    group_manifest,
    group_name,
    is_admitted,
    is_outdated,
    unschedulable_message,
)
from volcanoio.engine.jobs.ranges import expand
from volcanoio.engine.jobs.roll import Roll
from volcanoio.engine.jobs.state import JobState, WriteEffect
from volcanoio.engine.jobs.status import current_phase, is_exhausted
from volcanoio.engine.jobs.targets import hits
from volcanoio.engine.jobs.wanted import Problem, Wanted
from volcanoio.framework.controller import Lookup
from volcanoio.framework.effects import Create, Delete, Patch
from volcanoio.framework.overrides import TaskOverride
from volcanoio.model import kinds, names
from volcanoio.model.batch import Job, TaskSpec
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup, Queue

DELETED_AT_ONCE = 500
"""Pods that are deleted in one round: more would hold up everything else for too long."""


class Upkeeping(msgspec.Struct, frozen=True, kw_only=True):
    """Stages of writes that are due, and the reason why nothing more is (`problem`: the job itself waits for it).

    `question`: policies are to be asked whether what is missing may be made; `left` is what their answer comes to now.
    """

    stages: tuple[tuple[WriteEffect, ...], ...] = ()
    problem: Problem | None = None
    notice: Problem | None = None
    question: gate.Gate | None = None
    left: gate.Gate | None = None


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """What upkeep looks at: the job with its pods, counts and bookkeeping, and the references."""

    job: Job
    state: JobState
    roll: Roll
    targets: tuple[Target, ...] | None
    wanted: Wanted
    lookup: Lookup
    plugins: PluginSets
    now: float = 0.0
    overrides: tuple[TaskOverride, ...] = ()
    gated: bool = False

    @property
    def pods(self) -> list[Pod]:
        """The job's own pods, sorted by name: all of them, which takes its time where they are many."""
        return _by_name(self.roll.own())

    @property
    def counts(self) -> Counts:
        """Pods of the spec's tasks."""
        return self.roll.counts

    def going(self, pod: Pod) -> bool:
        """Whether the pod is on its way out."""
        return is_terminating(pod, self.state.deleting)


def stop(scene: Scene) -> Upkeeping:
    """Live pods go first, then PodGroup and support objects; finished pods stay."""
    job, state = scene.job, scene.state
    living = scene.roll.own() if scene.roll.live else ()
    doomed, more = _batch(pod for pod in living if is_live(pod) and not scene.going(pod))
    if more:
        return Upkeeping(stages=_stages(_deletes(job, doomed)))
    groups = [_delete(kinds.POD_GROUP.resource, job, group) for group in _groups(scene) if _stays(state, group)]
    rest = (*groups, *supports.removals(job, scene.wanted.wishes, state.supports, state.deleting))
    return Upkeeping(stages=_stages(_deletes(job, doomed), rest))


def restart(scene: Scene) -> Upkeeping:
    """Old pods, or the targets, go, and with old pods their PodGroup. Out of retries nothing does: the job fails."""
    job, state = scene.job, scene.state
    if is_exhausted(job, job.status):
        return Upkeeping()
    is_hit = hits(scene.targets)
    among = _may_restart(scene)
    doomed, more = _batch(pod for pod in among if not scene.going(pod) and (is_hit(pod) or _must_restart(scene, pod)))
    if more:
        return Upkeeping(stages=_stages(_marks(job, doomed), _deletes(job, doomed)))
    groups = tuple(
        _delete(kinds.POD_GROUP.resource, job, group)
        for group in _groups(scene)
        if is_outdated(group, job) and _stays(state, group)
    )
    return Upkeeping(stages=_stages(_marks(job, doomed), _deletes(job, doomed), groups))


def sync(scene: Scene) -> Upkeeping:
    """Everything as the spec wants it; pods only once the scheduler admitted the PodGroup."""
    job, state, wanted = scene.job, scene.state, scene.wanted
    doomed, _ = _batch(scene.roll.unwanted())
    leaving = (_marks(job, doomed), _deletes(job, doomed))
    problem = _problem(scene)
    if problem is not None:
        return Upkeeping(stages=_stages(*leaving), problem=problem)
    if _is_forwarded(scene) and names.JOB_FORWARDING not in job.metadata.annotations:
        mark = {"metadata": {"annotations": {names.JOB_FORWARDING: "true"}}}
        return Upkeeping(stages=_stages(*leaving, (job_patch(job, mark, ""),)))
    phase = current_phase(job)
    there = supports.keyed(job, state.supports)
    needed: list[WriteEffect] = [
        *supports.claim_effects(job, wanted.mounts, scene.lookup, state.made),
        *supports.support_effects(job, phase, wanted.wishes, there, state.made, state.deleting),
    ]
    group = next((group for group in _groups(scene) if group.metadata.name == group_name(job)), None)
    started = group is not None and not is_outdated(group, job) and _stays(state, group)
    admitted = group is not None and started and is_admitted(group)
    passage = gate.OPEN
    if scene.gated and (admitted or not started):
        passage = gate.passage(state.gate, job, _missing(scene), started, scene.now)
        problem = passage.problem
    if started or group is not None or not passage.closed:
        needed += _group_effects(scene, group)
    notice = None
    missing: tuple[WriteEffect, ...] = ()
    if group is not None and started:
        if message := unschedulable_message(group):
            text = f"PodGroup {job.metadata.namespace}:{job.metadata.name} unschedule,reason: {message}"
            notice = Problem("PodGroupPending", text)
        if admitted:
            try:
                passed = passage.through(_missing(scene))
                missing = _creates(scene, state.pace.through(passed))
            except PluginProblem as error:
                problem = Problem("PluginError", str(error))
    return Upkeeping(
        stages=_stages(leaving[0], (*leaving[1], *needed), missing),
        problem=problem,
        notice=notice,
        question=passage.question,
        left=passage.left,
    )


def _problem(scene: Scene) -> Problem | None:
    """What the job has to wait for before anything more is made."""
    job = scene.job
    if scene.wanted.problem is not None:
        return scene.wanted.problem
    queue = job.spec.queue or names.DEFAULT_QUEUE
    if scene.lookup.get(kinds.QUEUE, queue) is None:
        return Problem("QueueNotFound", f'queue "{queue}" does not exist; create it and the job goes on')
    if claim := supports.missing_claim(job, scene.wanted.mounts, scene.lookup):
        text = f'persistent volume claim "{claim}" does not exist in namespace {job.metadata.namespace}'
        return Problem("PVCError", f"{text}; create it and the job goes on")
    return None


def _is_forwarded(scene: Scene) -> bool:
    """Whether the job's queue extends to other clusters, to which its pods may be forwarded."""
    queue = scene.lookup.get(kinds.QUEUE, scene.job.spec.queue or names.DEFAULT_QUEUE)
    return isinstance(queue, Queue) and bool(queue.spec.extend_clusters)


def _may_restart(scene: Scene) -> Iterable[Pod]:
    """The pods among which those are that go for a restart: few, where it is about single pods of a big job."""
    roll, targets = scene.roll, scene.targets
    outdated = roll.is_outdated(whole=targets is None)
    if outdated or any(not target.pods for target in targets or ()):
        return roll.own()
    name = scene.job.metadata.name
    return roll.named({f"{name}-{target.task}-{index}" for target in targets or () for index in expand(target.pods)})


def _must_restart(scene: Scene, pod: Pod) -> bool:
    old = (version_of(pod) or 0) < scene.job.status.version
    if old and (scene.targets is None or is_live(pod)):
        return True
    return is_marked(pod)


def _groups(scene: Scene) -> list[PodGroup]:
    groups = (group for group in scene.state.groups.values() if belongs(group.metadata, scene.job))
    return sorted(groups, key=lambda group: group.metadata.name)


def _stays(state: JobState, obj: Pod | PodGroup) -> bool:
    return obj.metadata.deletion_timestamp is None and obj.metadata.uid not in state.deleting


def _group_effects(scene: Scene, group: PodGroup | None) -> list[WriteEffect]:
    job, spec = scene.job, scene.wanted.group
    assert spec is not None
    resource = kinds.POD_GROUP.resource
    if group is None:
        return [Create(resource=resource, manifest=group_manifest(job, spec))]
    if not _stays(scene.state, group):
        return []
    if is_outdated(group, job):
        return [_delete(resource, job, group)]
    if patch := group_changes(group, spec):
        meta = group.metadata
        return [Patch(resource=resource, namespace=meta.namespace, name=meta.name, patch=patch, uid=meta.uid)]
    return []


def _missing(scene: Scene) -> list[tuple[TaskSpec, int]]:
    """The pods whose names are free and whose task may start."""
    if scene.roll.whole:
        return []
    job = scene.job
    return [
        (task, index)
        for task in job.spec.tasks
        if task.depends_on is None or may_start(job, task, scene.pods)
        for index in scene.roll.free(task.name)
    ]


def _batch(pods: Iterable[Pod]) -> tuple[list[Pod], bool]:
    """Pods that are deleted in this round, sorted by name, and whether there are more."""
    some = list(islice(pods, DELETED_AT_ONCE + 1))
    return _by_name(some[:DELETED_AT_ONCE]), len(some) > DELETED_AT_ONCE


def _by_name(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=attrgetter("metadata.name"))


def _creates(scene: Scene, wanted: Sequence[tuple[TaskSpec, int]]) -> tuple[WriteEffect, ...]:
    """Creates of these pods; raises PluginProblem."""
    if not wanted:
        return ()
    job, mounts = scene.job, scene.wanted.mounts
    plugins = scene.plugins.of(job)
    return tuple(
        Create(
            resource=kinds.POD.resource,
            manifest=pod_with_plugins(job, for_pod(task, index, scene.overrides), index, mounts, plugins),
        )
        for task, index in wanted
    )


def _marks(job: Job, pods: Sequence[Pod]) -> tuple[WriteEffect, ...]:
    """Marks on pods of the current version, whose going would otherwise look like an eviction."""
    patch = {"metadata": {"annotations": {names.OUT_OF_SYNC: "true"}}}
    return tuple(
        Patch(
            resource=kinds.POD.resource,
            namespace=job.metadata.namespace,
            name=pod.metadata.name,
            patch=patch,
            uid=pod.metadata.uid,
        )
        for pod in pods
        if not is_marked(pod) and (version_of(pod) or 0) >= job.status.version
    )


def _deletes(job: Job, pods: Sequence[Pod]) -> tuple[WriteEffect, ...]:
    return tuple(_delete(kinds.POD.resource, job, pod) for pod in pods)


def _delete(resource: str, job: Job, obj: Pod | PodGroup) -> Delete:
    meta = obj.metadata
    return Delete(resource=resource, namespace=job.metadata.namespace, name=meta.name, uid=meta.uid)


def _stages(*stages: tuple[WriteEffect, ...]) -> tuple[tuple[WriteEffect, ...], ...]:
    return tuple(stage for stage in stages if stage)
