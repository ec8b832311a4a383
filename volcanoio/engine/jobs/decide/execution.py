"""Execution of decided actions: answers of policies, Commands of users, and due delayed actions.

Each action is a status write that records the intent, from which any process can continue. The answers of policies are
applied one to the result of the other and written together; a Command and the due actions are later writes.
"""

from collections.abc import Mapping
from typing import Self

import msgspec

from volcanoio.engine.jobs.decide import delayed_actions, policy_answers
from volcanoio.engine.jobs.decide.delayed_actions import actions_after
from volcanoio.engine.jobs.pods.index_ranges import format_indexes, parse_indexes
from volcanoio.engine.jobs.pods.observed import tasks_by_name
from volcanoio.engine.jobs.state import stored_state
from volcanoio.engine.jobs.state.creation_approval import MIN_HOLD
from volcanoio.engine.jobs.state.job_state import Answer, Reduction, WriteEffect
from volcanoio.engine.jobs.state.reconcile_context import ReconcileContext
from volcanoio.engine.jobs.state.stored_state import (
    DelayedAction,
    RestartTarget,
    StoredHold,
    StoredState,
    target_filter,
)
from volcanoio.engine.jobs.state.transitions import (
    RECONCILE_MODES,
    TARGETED_ACTIONS,
    USER_ACTIONS,
    ReconcileMode,
    phase_of,
    transition_for,
)
from volcanoio.engine.jobs.status import phases
from volcanoio.engine.jobs.status.phases import enter_phase
from volcanoio.engine.jobs.status.writes import status_entering_phase, write_status
from volcanoio.framework import decisions
from volcanoio.framework.effects import Delete, Record
from volcanoio.framework.lifecycle import LifecycleEvent
from volcanoio.model import kinds
from volcanoio.model.base import ObjectReference
from volcanoio.model.batch import Command, Job, JobAction, JobEvent, JobPhase, JobStatus
from volcanoio.model.core import Pod


def pending_commands(reduction: Reduction) -> list[Command]:
    """Return the Commands that are not being deleted, oldest first."""
    found = (
        command
        for uid, command in reduction.state.commands.items()
        if uid not in reduction.state.deleting and command.metadata.deletion_timestamp is None
    )
    return sorted(found, key=lambda command: (command.metadata.creation_timestamp or "", command.metadata.name))


def command_problem(command: Command, job: Job) -> str:
    """Return why a Command cannot be executed, "" when it can."""
    if command.action not in USER_ACTIONS:
        valid = ", ".join(sorted(USER_ACTIONS - TARGETED_ACTIONS))
        return f'command {command.metadata.name} has the unknown action "{command.action}"; valid values: {valid}'
    if command.target.uid and command.target.uid != job.metadata.uid:
        return f"command {command.metadata.name} was meant for an older job of this name (uid {command.target.uid})"
    if command.action in TARGETED_ACTIONS:
        return f"a Command cannot name the task that {command.action} needs; delete the pods that are to be restarted"
    phase = phases.current_phase(job)
    if transition_for(phase, JobAction(command.action)) is None:
        return f"command {command.action} changes nothing while the job is {phase}"
    return ""


def delete_command(command: Command) -> Delete:
    """Return the deletion of a Command."""
    return Delete.of(kinds.COMMAND.resource, command)


def refuse_commands(reduction: Reduction) -> None:
    """Delete Commands for a job that does not exist or is being deleted, with an Event."""
    commands = pending_commands(reduction)
    for command in commands:
        target = command.target
        regarding = ObjectReference(
            api_version=target.api_version,
            kind=target.kind,
            namespace=command.metadata.namespace,
            name=target.name,
            uid=target.uid,
        )
        text = f"job {target.name} does not exist or is being deleted; command {command.action} is dropped"
        reduction.immediate.append(Record(regarding=regarding, type="Warning", reason="CommandIssued", message=text))
    reduction.add_stage([delete_command(command) for command in commands])


EVENTS_WITHOUT_RETRY = frozenset({JobEvent.POD_EVICTED})
"""Events whose restarts cost no retry: an eviction is not the job's fault."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Why an action is executed and what it is about.

    `indexes` are the pods of `task` that the event is about; `restartable` are those of them that still exist. With
    `is_free` the action costs no retry whatever caused it.
    """

    event: str
    task: str = ""
    indexes: frozenset[int] = frozenset()
    restartable: frozenset[int] = frozenset()
    is_free: bool = False


def cause_of(event: LifecycleEvent, pods: Mapping[str, Pod], *, is_free: bool = False) -> Cause:
    """Return the cause for an event; `pods` are the observed pods by uid."""
    indexes = frozenset() if event.index is None else frozenset({event.index})
    restartable = indexes if event.pod_uid in pods else frozenset()
    return Cause(
        event=event.name,
        task=event.task,
        indexes=indexes,
        restartable=restartable,
        is_free=is_free,
    )


def cause_of_delayed_action(entry: DelayedAction) -> Cause:
    """Return the cause for a due action, about the pods for which it is still valid."""
    indexes = frozenset(parse_indexes(entry.pods))
    return Cause(event=entry.cause, task=entry.task, indexes=indexes, restartable=indexes)


def _partition_size(job: Job, task: str) -> int:
    spec = tasks_by_name(job).get(task)
    return spec.partition_policy.partition_size if spec is not None and spec.partition_policy is not None else 0


def _has_target(action: JobAction, cause: Cause, partition_size: int) -> bool:
    """Return whether the cause names what a targeted action needs; without it the action changes nothing."""
    if action is JobAction.RESTART_PARTITION:
        return bool(cause.task and cause.indexes and partition_size)
    return bool(cause.task)


def _restart_targets(
    stored: StoredState, phase: JobPhase, action: JobAction, cause: Cause, partition_size: int
) -> tuple[RestartTarget, ...] | None:
    """Return what a restart deletes: None for the whole job, () for a resume, which deletes older versions only."""
    if action is JobAction.RESUME_JOB:
        return ()
    if action not in TARGETED_ACTIONS:
        return None
    if phase is JobPhase.RESTARTING and stored.restart_targets is None:
        return None
    match action:
        case JobAction.RESTART_TASK:
            new = [RestartTarget(task=cause.task)]
        case JobAction.RESTART_PARTITION:
            parts = sorted({index // partition_size for index in cause.indexes})
            new = [RestartTarget(task=cause.task, partition=str(part)) for part in parts]
        case JobAction.RESTART_POD:
            new = [RestartTarget(task=cause.task, pods=format_indexes(cause.restartable))] if cause.restartable else []
        case _:
            raise NotImplementedError(f"_restart_targets has no case for the targeted action {action}")
    return stored_state.merge_targets(stored.restart_targets or (), new)


_DECISION_FIELDS = ("delayed", "hold", "overrides", "alerts")
"""Fields of the stored state that contain decisions: they are written before anything follows from them."""


class DecisionChain(msgspec.Struct, frozen=True, kw_only=True):
    """The status and stored state that decisions lead to, and the actions executed on the way."""

    job: Job
    status: JobStatus
    stored: StoredState
    now: float
    actions: tuple[JobAction, ...] = ()

    def with_action(self, action: JobAction, cause: Cause) -> Self:
        """Return the chain after an action; the same chain when it changes nothing in this phase.

        Delayed actions that the action makes pointless are dropped with it.
        """
        status, stored = self.status, self.stored
        if (transition := transition_for(status.state.phase, action)) is None:
            return self
        partition_size = _partition_size(self.job, cause.task)
        if action in TARGETED_ACTIONS and not _has_target(action, cause, partition_size):
            return self
        is_retry = transition.counts_retry and not cause.is_free and cause.event not in EVENTS_WITHOUT_RETRY
        moved = msgspec.structs.replace(
            status,
            version=status.version + int(transition.bumps_version),
            retry_count=status.retry_count + int(is_retry),
        )
        targets = None
        if transition.to is JobPhase.RESTARTING:
            targets = _restart_targets(stored, phase_of(status.state.phase), action, cause, partition_size)
        stored = msgspec.structs.replace(
            stored,
            restart_targets=targets,
            delayed=actions_after(stored.delayed, action, cause.task, cause.indexes, partition_size),
            counted_pods={} if transition.bumps_version else stored.counted_pods,
            leaving_pods={} if transition.bumps_version else stored.leaving_pods,
            hold=None,
        )
        status = enter_phase(self.job, moved, transition.to, self.now)
        return msgspec.structs.replace(self, status=status, stored=stored, actions=(*self.actions, action))

    @property
    def is_stopping(self) -> bool:
        """Whether the job is stopping or finished, so that holds have no effect."""
        return RECONCILE_MODES[phase_of(self.status.state.phase)] is ReconcileMode.STOP

    def is_restarting(self, event: LifecycleEvent) -> bool:
        """Return whether a restart targets the pod of an event, so that a delayed action for it is pointless.

        False during a restart of the whole job: it increased the version, so events of the restarted pods were dropped.
        """
        targets = self.stored.restart_targets if self.status.state.phase == JobPhase.RESTARTING else None
        return target_filter(targets or ())(event.task, event.index, event.partition)

    def with_stored(self, **entries: object) -> Self:
        """Return the chain with other values in the stored state."""
        return msgspec.structs.replace(self, stored=msgspec.structs.replace(self.stored, **entries))


def write_decisions(
    reduction: Reduction, context: ReconcileContext, stored: StoredState, next_stored: StoredState
) -> bool:
    """Stage the write of what was decided; False when nothing was.

    The order is answers, then Commands, then due actions. `next_stored` is the update of `stored` so far.
    """
    start = DecisionChain(job=context.job, status=context.job.status, stored=next_stored, now=reduction.now)
    answers = reduction.state.pending_answers
    chain = _apply_answers(reduction, context, start, answers)
    reduction.update(pending_answers=())
    changed = any(getattr(chain.stored, entry) != getattr(stored, entry) for entry in _DECISION_FIELDS)
    if (chain.actions or changed) and _write_chain(reduction, context, chain):
        reduction.update(answers_in_flight=answers)
        return True
    return _write_oldest_command(reduction, context, start) or _write_due_actions(reduction, context, start)


def _apply_answers(
    reduction: Reduction, context: ReconcileContext, chain: DecisionChain, answers: tuple[Answer, ...]
) -> DecisionChain:
    """Return the chain after all answers in order; those about an older version of the job are dropped."""
    pods: Mapping[str, Pod] = reduction.state.pods
    delays: list[delayed_actions.PodDelayedAction] = []
    uid = context.job.metadata.uid
    for answer in answers:
        event, decision, due = answer.event, answer.decision, answer.due
        if event.job_uid != uid or event.version < chain.status.version:
            continue
        match decision:
            case decisions.Hold(reason=reason, until=until) if not chain.is_stopping:
                chain = chain.with_stored(hold=StoredHold(reason, max(until, reduction.now + MIN_HOLD)))
            case decisions.Act(action=action) if due is not None:
                delay = (
                    None if chain.is_restarting(event) else delayed_actions.pod_delayed_action(event, action, due, pods)
                )
                delays += [] if delay is None else [delay]
            case decisions.Act(action=action):
                chain = _with_pod_delays(chain, delays).with_action(action, cause_of(event, pods))
            case decisions.Override(action=action, reason=reason):
                next_stored = policy_answers.with_override(chain.stored, decision)
                if next_stored is not chain.stored and reason:
                    reduction.record_event("Normal", "Override", reason)
                chain = msgspec.structs.replace(chain, stored=next_stored)
                chain = _with_pod_delays(chain, delays).with_action(action, cause_of(event, pods, is_free=True))
    chain = _with_pod_delays(chain, delays)
    job = msgspec.structs.replace(context.job, status=chain.status)
    return chain.with_stored(
        delayed=delayed_actions.valid_actions(chain.stored.delayed, job, context.pod_summary.own_pods())
    )


def _with_pod_delays(chain: DecisionChain, delays: list[delayed_actions.PodDelayedAction]) -> DecisionChain:
    """Return the chain with the delayed actions added, and empty the list."""
    if not delays:
        return chain
    entries = delayed_actions.add_delays(chain.stored.delayed, delays)
    delays.clear()
    return chain.with_stored(delayed=entries)


def _write_chain(
    reduction: Reduction, context: ReconcileContext, chain: DecisionChain, followed_by: WriteEffect | None = None
) -> bool:
    """Write the result of a chain; False when that is the job's present status."""
    if not write_status(reduction, context, status_entering_phase(context, chain.stored, chain.status)):
        return False
    if followed_by is not None:
        reduction.add_stage([followed_by])
    for action in dict.fromkeys(chain.actions):
        text = f"Start to execute action {action} "  # Volcano's text, with its space at the end
        reduction.record_event("Normal", "ExecuteAction", text)
    return True


def _write_oldest_command(reduction: Reduction, context: ReconcileContext, chain: DecisionChain) -> bool:
    """Execute the oldest Command: the status write contains its uid; the next stage deletes it."""
    job = context.job
    for command in pending_commands(reduction):
        uid = command.metadata.uid
        removal = delete_command(command)
        if uid == chain.stored.accepted_command:
            reduction.add_stage([removal])
            return True
        if problem := command_problem(command, job):
            reduction.record_event("Warning", "CommandIssued", problem)
            reduction.add_stage([removal])
            return True
        action = JobAction(command.action)
        text = f"Start to execute command {action}, and clean it up to make sure executed not more than once."
        reduction.record_event("Normal", "CommandIssued", text)
        cause = Cause(event=JobEvent.COMMAND_ISSUED)
        return _write_chain(
            reduction, context, chain.with_stored(accepted_command=uid).with_action(action, cause), removal
        )
    return False


def _write_due_actions(reduction: Reduction, context: ReconcileContext, chain: DecisionChain) -> bool:
    """Execute the due delayed actions, each once however long it is overdue."""
    start = chain
    without_effect: list[JobAction] = []
    while (entry := next((one for one in chain.stored.delayed if one.due <= reduction.now), None)) is not None:
        remaining = chain.with_stored(delayed=tuple(other for other in chain.stored.delayed if other != entry))
        chain = remaining.with_action(entry.action, cause_of_delayed_action(entry))
        without_effect += [entry.action] if chain is remaining else []
    if chain is start or not _write_chain(reduction, context, chain):
        return False
    for action in dict.fromkeys(without_effect):
        message = f"action {action} was due, and changes nothing: the job is {chain.status.state.phase} by now"
        reduction.record_event("Normal", "ExecuteAction", message)
    return True
