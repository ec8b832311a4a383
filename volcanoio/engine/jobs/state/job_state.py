"""State of one job, and the reduction of one event: the next state and the effects that go with it.

The state is a fold of the job's events; all of it can be rebuilt from storage. Pods are created in batches. After a
refusal a task's pods are tried one by one, then more and more, so that a namespace's quota is tried with one pod of a
task and not with all that are missing. Where a quota refused them, the job continues as soon as the quota has room;
otherwise the back-off decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from volcanoio.engine.jobs.pods.desired import DesiredObjects, WaitReason
from volcanoio.engine.jobs.pods.persistent_collections import PersistentMap, UidSet
from volcanoio.engine.jobs.pods.summary import PodSummary
from volcanoio.engine.jobs.state.creation_approval import CreationApproval
from volcanoio.framework.decisions import Act, Alert, Hold, Override
from volcanoio.framework.effects import Ask, Create, Delete, Effect, Patch, Stages
from volcanoio.framework.effects import record_event as new_event
from volcanoio.framework.lifecycle import LifecycleEvent, PolicyEvent, PolicyRegistry
from volcanoio.framework.podusage import Usage, spec_usage
from volcanoio.model import kinds, names, quantity
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.batch import Command, Job, JobEvent, TaskSpec
from volcanoio.model.core import Pod, PodSpec, ResourceQuota
from volcanoio.model.scheduling import PodGroup

CREATE_BATCH_SIZE = 250
"""Pods that are created in one round: building more would delay everything else for too long."""
FORBIDDEN = 403
_QUOTA_MESSAGE = "exceeded quota"
"""Text of Kubernetes' quota refusals (plugin/pkg/admission/resourcequota)."""


class CreationLimits(msgspec.Struct, frozen=True):
    """Limits on pod creation after refusals.

    - `limits`: pods of a task that may be tried at once, for tasks of which some were refused
    - `refused`: tasks of which a pod was refused in this round
    - `denied`: resources of the pod that a quota refused, in thousandths
    """

    limits: dict[str, int] = {}
    refused: frozenset[str] = frozenset()
    denied: Usage | None = None

    def next_batch(self, missing: Sequence[tuple[TaskSpec, int]]) -> list[tuple[TaskSpec, int]]:
        """Return the missing pods that are tried in the next round."""
        left = dict(self.limits)
        tried: list[tuple[TaskSpec, int]] = []
        for task, index in missing:
            if left.get(task.name, 1) <= 0:
                continue
            if task.name in left:
                left[task.name] -= 1
            tried.append((task, index))
            if len(tried) == CREATE_BATCH_SIZE:
                break
        return tried

    def after_refusal(self, effect: Create, code: int, message: str) -> CreationLimits:
        """Return the limits after a pod was refused in the current round."""
        if effect.resource != kinds.POD.resource or code != FORBIDDEN:
            return self
        task = effect.manifest["metadata"]["annotations"].get(names.TASK_SPEC, "")
        denied = _pod_usage(effect.manifest) if _QUOTA_MESSAGE in message else self.denied
        return msgspec.structs.replace(self, refused=self.refused | {task}, denied=denied)

    def after_round(self, *, has_created_pods: bool) -> CreationLimits:
        """Return the pace of the next round; `has_created_pods`: whether pods were created in this one."""
        if not self.limits and not self.refused:
            return self
        faster = {task: 2 * limit for task, limit in self.limits.items()} if has_created_pods else self.limits
        limits = {task: limit for task, limit in faster.items() if limit < CREATE_BATCH_SIZE}
        limits |= dict.fromkeys(self.refused, 1)
        return CreationLimits(limits, frozenset(), self.denied if self.refused else None)


def quota_has_room(quota: ResourceQuota, usage: Mapping[str, int]) -> bool:
    """Return whether a quota leaves room for a pod; True for a quota with scopes or one that cannot be read."""
    if quota.spec.scopes or quota.spec.scope_selector:
        return True
    try:
        for name, hard in (quota.status.hard or quota.spec.hard).items():
            used = quantity.milli(quota.status.used.get(name, "0"))
            if name in usage and used + usage[name] > quantity.milli(hard):
                return False
    except quantity.QuantityError:
        return True
    return True


def _pod_usage(pod: Manifest) -> Usage | None:
    try:
        return spec_usage(msgspec.convert(pod.get("spec") or {}, PodSpec, strict=False))
    except (quantity.QuantityError, msgspec.ValidationError):
        return None


WriteEffect = Create | Patch | Delete
NONBLOCKING_EVENTS: frozenset[str] = frozenset({JobEvent.POD_PENDING, JobEvent.POD_RUNNING, *PolicyEvent})
"""Events of healthy pods and policy events: no write waits for the answers."""


class Question(msgspec.Struct, frozen=True):
    """A lifecycle event that the policies decide. `is_asked`: its Ask was emitted (blocking questions only)."""

    number: int
    event: LifecycleEvent
    is_asked: bool = False


class Answer(msgspec.Struct, frozen=True):
    """A decision that still has to be written; `due` is the time of a delayed action (epoch seconds)."""

    event: LifecycleEvent
    decision: Act | Hold | Override
    due: float | None = None


class PendingAlert(msgspec.Struct, frozen=True):
    """An alert that a policy raised and that still has to be stored."""

    policy: str
    alert: Alert


class SupportObject(msgspec.Struct, frozen=True):
    """A support object of a job plugin, or a claim."""

    resource: str
    object: ApiObject


class CountDelay(msgspec.Struct, frozen=True):
    """A delay of the next write of status counts.

    - `until`: end of the delay, in epoch seconds
    - `changes`: how many pods may enter other phases before it ends early
    - `deletions`: how many terminating pods may disappear before it ends early
    """

    until: float
    changes: int
    deletions: int


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """All that is kept in memory about one key. Times are in epoch seconds.

    Observed objects
      - `pods`, `pod_groups`, `commands`, `support_objects`: by uid
      - `succeeded_by_task`: succeeded pods by task, also those of other owners
      - `is_started`: the inputs are synced, and the events that storage proves were raised

    Questions to the policies and their answers
      - `questions`: blocking ones in order; only the first is being asked
      - `side_questions`: non-blocking ones by number; `unasked_questions` are those whose Ask is not emitted yet
      - `pending_answers`: decisions to write; `answers_in_flight` are in a status write and return if it is refused
      - `pending_annotations`, `pending_alerts`: to be written on the job
      - `notified_alerts`: keys of alerts whose webhook needs no more calls
      - `creation_approval`: the question whether missing pods may be created, or its answer
      - `next_tick`: when the next Tick event is due
      - `job_ended_key`: final phase and version for which JobEnded was raised
      - `resumed_hold`: end of the hold after which the events were raised again
      - `saved_overrides`: overrides that were stored for the next job of this name

    Writes
      - `sent_writes`: writes of a round in order of emission, until the first outcome shows their numbers;
        from then on `in_flight_writes` has those without an outcome, by number
      - `has_failed_write`: a write of this round failed
      - `deleting`: uids that this controller deleted or is deleting
      - `deleted_uids`: uids that disappeared during writes in flight, so that a late response does not restore them
      - `created`: objects (`resource/name`) that exist although they are not, or never, observed
      - `creations_by_time`: pods created in this round by creation timestamp; `creation_limits`: how many are tried
      - `stale_revision`: the job's revision that a conflict proved old; until `stale_until` a newer one is awaited

    Delays
      - `failures`: failed rounds in a row; `retry_at` ends the back-off
      - `early_deletions`: objects that disappeared right after their creation, the last at `last_early_deletion`;
        nothing is created before `recreate_at`
      - `count_delay`: delay of count writes; `has_uncounted_changes`: pods changed during it
      - `counts_due`: when a delayed write of mere counts is due, 0 if none is delayed
      - `timers`: running timers by name

    Reports and caches
      - `last_warning`: the last Warning about waiting, so that each is recorded once
      - `creation_failure`: why an object could not be created, until it is tried again
      - `desired`, `pod_summary`: results of the last plan; the latter for big jobs only
    """

    job: Job | None = None
    pods: PersistentMap[str, Pod] = PersistentMap()
    pod_groups: dict[str, PodGroup] = {}
    commands: dict[str, Command] = {}
    support_objects: dict[str, SupportObject] = {}
    is_started: bool = False
    questions: tuple[Question, ...] = ()
    side_questions: PersistentMap[int, Question] = PersistentMap()
    unasked_questions: tuple[int, ...] = ()
    last_question: int = 0
    pending_answers: tuple[Answer, ...] = ()
    answers_in_flight: tuple[Answer, ...] = ()
    pending_annotations: dict[str, str] = {}
    succeeded_by_task: dict[str, int] = {}
    sent_writes: tuple[WriteEffect, ...] = ()
    in_flight_writes: PersistentMap[int, WriteEffect] = PersistentMap()
    has_failed_write: bool = False
    deleting: UidSet = UidSet()
    deleted_uids: UidSet = UidSet()
    created: frozenset[str] = frozenset()
    stale_revision: int = -1
    stale_until: float = 0.0
    failures: int = 0
    retry_at: float = 0.0
    early_deletions: int = 0
    last_early_deletion: float = 0.0
    recreate_at: float = 0.0
    timers: dict[str, float] = {}
    last_warning: str = ""
    count_delay: CountDelay | None = None
    has_uncounted_changes: bool = False
    counts_due: float = 0.0
    creation_failure: WaitReason | None = None
    creations_by_time: dict[str, int] = {}
    creation_limits: CreationLimits = CreationLimits()
    desired: DesiredObjects | None = None
    pod_summary: PodSummary | None = None
    creation_approval: CreationApproval | None = None
    next_tick: float = 0.0
    job_ended_key: str = ""
    pending_alerts: tuple[PendingAlert, ...] = ()
    notified_alerts: frozenset[str] = frozenset()
    saved_overrides: dict[str, str] = {}
    resumed_hold: float = 0.0

    @property
    def has_writes_in_flight(self) -> bool:
        """Whether a write has no outcome yet."""
        return bool(self.sent_writes or self.in_flight_writes)

    @property
    def is_empty(self) -> bool:
        """Whether the key can be forgotten."""
        return self.job is None and not (
            self.pods
            or self.pod_groups
            or self.commands
            or self.support_objects
            or self.has_writes_in_flight
            or self.timers
        )

    def revision_of(self, uid: str) -> int:
        """Return the revision of an observed object, or -1."""
        if self.job is not None and self.job.metadata.uid == uid:
            return self.job.metadata.revision
        obj: ApiObject | None = self.pods.get(uid) or self.pod_groups.get(uid) or self.commands.get(uid)
        if obj is None and uid in self.support_objects:
            obj = self.support_objects[uid].object
        return -1 if obj is None else obj.metadata.revision


def awaits_newer_job(state: JobState, now: float) -> bool:
    """Return whether a conflict proved the observed job old and its newer version is still awaited."""
    return state.job is not None and state.job.metadata.revision <= state.stale_revision and now < state.stale_until


@dataclass(slots=True)
class Reduction:
    """The result of a reduction so far. `immediate` are asks and effects without an outcome."""

    state: JobState
    now: float
    policies: PolicyRegistry = field(default_factory=PolicyRegistry)
    write_stages: list[list[WriteEffect]] = field(default_factory=list)
    immediate: list[Effect] = field(default_factory=list)

    def update(self, **changes: Any) -> None:
        """Replace fields of the state."""
        self.state = msgspec.structs.replace(self.state, **changes)

    def add_stage(self, effects: list[WriteEffect]) -> None:
        """Add a stage of writes, unless it is empty."""
        if effects:
            self.write_stages.append(effects)

    def record_event(self, kind: str, reason: str, message: str) -> None:
        """Record an Event about the job; `kind` is Normal or Warning."""
        if self.state.job is not None:
            self.immediate.append(new_event(kinds.JOB, self.state.job, reason, message, type_=kind))

    def warn_once(self, reason: str, message: str, topic: str = "") -> None:
        """Record a Warning about waiting, unless the last one had the same topic or text."""
        text = topic or (f"{reason}: {message}" if reason else "")
        if text and text != self.state.last_warning:
            self.record_event("Warning", reason, message)
        if text != self.state.last_warning:
            self.update(last_warning=text)

    def enqueue_questions(self, events: list[LifecycleEvent]) -> None:
        """Queue questions to the policies; NONBLOCKING_EVENTS do not delay others."""
        for event in events:
            state, number = self.state, self.state.last_question + 1
            question = Question(number, event)
            if event.name in NONBLOCKING_EVENTS:
                self.update(
                    side_questions=state.side_questions.with_item(number, question),
                    unasked_questions=(*state.unasked_questions, number),
                )
            else:
                self.update(questions=(*state.questions, question))
            self.update(last_question=number)

    def ask_policies(self) -> None:
        """Emit the first blocking question and every non-blocking one, each once."""
        state = self.state
        if state.questions and not state.questions[0].is_asked:
            head = msgspec.structs.replace(state.questions[0], is_asked=True)
            self.immediate.append(Ask(question=head.number, event=head.event))
            self.update(questions=(head, *state.questions[1:]))
        if state.unasked_questions:
            self.immediate += [
                Ask(question=number, event=state.side_questions[number].event) for number in state.unasked_questions
            ]
            self.update(unasked_questions=())

    def finish(self) -> Stages:
        """Return the stages to carry out, and record the writes as sent.

        With an Ask only the first stage of writes is sent, so that no write waits for a policy; later stages are
        planned again afterwards.
        """
        asking = any(isinstance(effect, Ask) for effect in self.immediate)
        stages = self.write_stages[:1] if asking else self.write_stages
        sent = tuple(effect for stage in stages for effect in stage)
        deleting = {effect.uid for effect in sent if isinstance(effect, Delete)}
        if sent:
            self.update(sent_writes=sent, deleting=self.state.deleting.with_uids(deleting))
        if not self.immediate:
            return tuple(tuple(stage) for stage in stages)
        first = tuple(stages[0]) if stages else ()
        return ((*self.immediate, *first), *(tuple(stage) for stage in stages[1:]))


def object_key(effect: Create | Patch | Delete) -> str:
    """Return `resource/name` of the written object."""
    name = effect.manifest["metadata"]["name"] if isinstance(effect, Create) else effect.name
    return f"{effect.resource}/{name}"


def job_patch(job: Job, patch: object, subresource: str) -> Patch:
    """Return a patch of the job or its status, bound to the version it was computed from."""
    return Patch.of(kinds.JOB.resource, job, patch, at_version=True, subresource=subresource)
