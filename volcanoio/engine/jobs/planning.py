"""What to do next for a job, given what is known: always the same answer for the same state.

Nothing is planned while writes are in flight, while the policies are being asked, or while a back-off lasts. What was
decided comes before what is kept up, and a decision is carried out by one status write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from volcanoio.engine.jobs import converge, delayed, status
from volcanoio.engine.jobs.actions import Cause, cause_of, intent
from volcanoio.engine.jobs.answers import is_current
from volcanoio.engine.jobs.draft import Draft
from volcanoio.engine.jobs.ledger import Hold, Ledger, read
from volcanoio.engine.jobs.pausing import pause
from volcanoio.engine.jobs.plugins import PluginFactory
from volcanoio.engine.jobs.roll import call
from volcanoio.engine.jobs.state import Answer, WriteEffect, awaits_newer
from volcanoio.engine.jobs.table import TARGETED, UPKEEP, USER_ACTIONS, Upkeep, move_for
from volcanoio.engine.jobs.wanted import Problem, work_out
from volcanoio.framework import decisions
from volcanoio.framework.controller import View
from volcanoio.framework.effects import Delete, Patch, Record, merge_diff
from volcanoio.model import kinds
from volcanoio.model.base import ObjectReference
from volcanoio.model.batch import Job, JobAction, JobEvent, JobPhase, JobStatus
from volcanoio.model.command import Command

_KEEP_UP: dict[Upkeep, Callable[[converge.Scene], converge.Upkeeping]] = {
    Upkeep.SYNC: converge.sync,
    Upkeep.RESTART: converge.restart,
    Upkeep.STOP: converge.stop,
}


def plan(draft: Draft, view: View, factories: Mapping[str, PluginFactory]) -> None:
    """Add the writes that are due to the draft."""
    state = draft.state
    if not view.synced or state.writing:
        return
    job = state.job
    if job is None or job.metadata.deletion_timestamp is not None:
        _refuse_commands(draft)
        return
    if awaits_newer(state, draft.now) or draft.now < state.retry_at or state.questions:
        return
    if state.annotations:
        _annotate(draft, job)
        return
    stored = read(job.status)
    scene = _scene(draft, job, view, stored, factories)
    ledger = _ledger(scene, stored)
    if not _decided(draft, scene, stored, ledger):
        _keep_up(draft, scene, ledger)


def _scene(
    draft: Draft, job: Job, view: View, stored: Ledger, factories: Mapping[str, PluginFactory]
) -> converge.Scene:
    wanted = work_out(job, draft.state.wanted, view.lookup, factories)
    draft.set(wanted=wanted)
    return converge.Scene(
        job=job,
        state=draft.state,
        roll=call(job, draft.state.pods, draft.state.deleting),
        targets=stored.targets,
        wanted=wanted,
        lookup=view.lookup,
        factories=factories,
    )


def _decided(draft: Draft, scene: converge.Scene, stored: Ledger, ledger: Ledger) -> bool:
    """Carry out what was decided: answers of policies, Commands, due delayed actions. True if there was any."""
    carried: tuple[Answer, ...] = ()
    for answer in draft.state.answers:
        carried = (*carried, answer)
        draft.set(answers=draft.state.answers[1:])
        if not is_current(answer.event, scene.job):
            continue
        match answer.decision:
            case decisions.Hold(reason=reason, until=until):
                ledger = msgspec.structs.replace(ledger, hold=Hold(reason, until))
            case decisions.Act(action=action, after=due) if due > 0:
                waiting = delayed.added(ledger.delayed, delayed.entry(answer.event, action, due))
                standing = delayed.standing(waiting, scene.job.status, scene.pods)
                ledger = msgspec.structs.replace(ledger, delayed=standing)
            case decisions.Act(action=action):
                if _carry_out(draft, scene, ledger, action, cause_of(answer.event)):
                    draft.set(carried=carried)
                    return True
    if ledger.delayed != stored.delayed or ledger.hold != stored.hold:
        _write(draft, scene, _counted(scene, ledger))
        draft.set(carried=carried)
        return True
    return _command(draft, scene, ledger) or _due(draft, scene, ledger)


def _carry_out(
    draft: Draft,
    scene: converge.Scene,
    ledger: Ledger,
    action: JobAction,
    cause: Cause,
    then: WriteEffect | None = None,
) -> bool:
    """Write the intent of an action; False when it changes nothing in this phase."""
    after = intent(scene.job, scene.job.status, ledger, action, cause, draft.now)
    if after is None:
        return False
    moved, kept = after
    merged = msgspec.structs.replace(scene.job, status=moved)
    _write(draft, scene, status.with_counts(merged, scene.counts, kept))
    if not draft.writes:
        return False
    if then is not None:
        draft.stage([then])
    draft.report("Normal", "ExecuteAction", f"Start to execute action {action} ")
    return True


def _command(draft: Draft, scene: converge.Scene, ledger: Ledger) -> bool:
    """The oldest Command: its intent names it in the same write, and only then it is deleted."""
    job = scene.job
    for command in _commands(draft):
        uid = command.metadata.uid
        removal = _removal(command)
        if uid == ledger.command:
            draft.stage([removal])
            return True
        if problem := _unfit(command, job):
            draft.report("Warning", "CommandIssued", problem)
            draft.stage([removal])
            return True
        action = JobAction(command.action)
        text = f"Start to execute command {action}, and clean it up to make sure executed not more than once."
        draft.report("Normal", "CommandIssued", text)
        cause = Cause(event=JobEvent.COMMAND_ISSUED, version=job.status.version)
        accepted = msgspec.structs.replace(ledger, command=uid)
        return _carry_out(draft, scene, accepted, action, cause, removal)
    return False


def _unfit(command: Command, job: Job) -> str:
    """Why a Command cannot be carried out, "" when it can."""
    if command.action not in USER_ACTIONS:
        known = ", ".join(sorted(USER_ACTIONS))
        return f'command {command.metadata.name} has the unknown action "{command.action}"; known are: {known}'
    if command.target.uid and command.target.uid != job.metadata.uid:
        return f"command {command.metadata.name} was meant for an older job of this name (uid {command.target.uid})"
    if command.action in TARGETED:
        return f"command {command.action} names no task, as a Command cannot; delete the pods that are to be restarted"
    phase = status.current_phase(job)
    if move_for(phase, JobAction(command.action)) is None:
        return f"command {command.action} changes nothing while the job is {phase}"
    return ""


def _due(draft: Draft, scene: converge.Scene, ledger: Ledger) -> bool:
    """The first delayed action whose time has come, executed once however long it is overdue."""
    for item in ledger.delayed:
        if item.due > draft.now:
            continue
        rest = msgspec.structs.replace(ledger, delayed=tuple(other for other in ledger.delayed if other != item))
        cause = Cause(
            event=item.cause,
            version=item.version,
            task=item.task,
            pod=item.pod,
            pod_uid=item.pod_uid,
            partition=item.partition,
        )
        if not _carry_out(draft, scene, rest, item.action, cause):
            _write(draft, scene, _counted(scene, rest))
        return True
    return False


def _keep_up(draft: Draft, scene: converge.Scene, ledger: Ledger) -> None:
    """Writes that the phase asks for; when there are none, the status that follows from what is there."""
    job = scene.job
    if ledger.hold is not None and draft.now < ledger.hold.until:
        draft.warn_once("Hold", ledger.hold.reason)
        _write(draft, scene, status.with_reason(_counted(scene, ledger), "Hold", ledger.hold.reason))
        return
    if ledger.hold is not None:
        ledger = msgspec.structs.replace(ledger, hold=None)
    phase = status.current_phase(job)
    upkeep = _KEEP_UP[UPKEEP[phase]](scene)
    if draft.state.refusal is not None and _tell_refusal(draft, scene, ledger, upkeep, draft.state.refusal):
        return
    said = upkeep.problem or upkeep.notice or Problem("", "")
    draft.warn_once(said.reason, said.message)
    if not job.status.state.phase:
        _write(draft, scene, status.enter(job, _counted(scene, ledger), JobPhase.PENDING, draft.now))
    for number, stage in enumerate(upkeep.stages):
        if number == 0 and draft.writes:
            draft.writes[0].extend(stage)
        else:
            draft.stage(list(stage))
    if not draft.writes:
        following = _following(scene, ledger, phase, draft.now)
        if upkeep.problem is not None:
            following = status.with_reason(following, upkeep.problem.reason, upkeep.problem.message)
        else:
            following = status.with_reason(following, "", "")
            if following.state.phase == phase:
                draft.set(pause=pause(scene, ledger, phase, draft.now))
        _write(draft, scene, following)


def _tell_refusal(
    draft: Draft, scene: converge.Scene, ledger: Ledger, upkeep: converge.Upkeeping, refusal: Problem
) -> bool:
    """Before what was refused is tried again: write why the job waits, and what became of the rest meanwhile.

    False when that is written, or nothing is tried again.
    """
    phase = status.current_phase(scene.job)
    due = [effect for stage in upkeep.stages for effect in stage]
    if UPKEEP[phase] is Upkeep.SYNC and due and not any(isinstance(effect, Delete) for effect in due):
        following = _following(scene, ledger, phase, draft.now)
        _write(draft, scene, status.with_reason(following, refusal.reason, refusal.message))
    if not draft.writes:
        draft.set(refusal=None)
    return bool(draft.writes)


def _following(scene: converge.Scene, ledger: Ledger, phase: JobPhase, now: float) -> JobStatus:
    """The status once nothing is left to write for the phase."""
    job, counts = scene.job, scene.counts
    counted = _counted(scene, ledger)
    match UPKEEP[phase]:
        case Upkeep.SYNC:
            after = status.phase_after_sync(job, counts, phase)
        case Upkeep.RESTART:
            after = status.phase_after_restart(job, counted, counts)
            if after is not JobPhase.RESTARTING:
                counted = _counted(scene, msgspec.structs.replace(ledger, targets=None))
        case _:
            after = status.phase_after_stop(counts, phase)
    return status.enter(job, counted, after, now)


def _ledger(scene: converge.Scene, stored: Ledger) -> Ledger:
    """The stored bookkeeping without what has become pointless, and with the pods that are being taken from us."""
    job = scene.job
    stopping = UPKEEP[status.current_phase(job)] is Upkeep.STOP
    return msgspec.structs.replace(
        stored,
        delayed=delayed.standing(stored.delayed, job.status, scene.pods),
        counted=None if stopping else scene.roll.present,
        leaving=() if stopping else scene.roll.leaving,
        generation=None if stopping and stored.generation is None else job.metadata.generation,
    )


def _counted(scene: converge.Scene, ledger: Ledger) -> JobStatus:
    return status.with_counts(scene.job, scene.counts, ledger)


def _write(draft: Draft, scene: converge.Scene, after: JobStatus) -> None:
    """The status write, if it changes anything; it carries the resourceVersion it was computed from."""
    job = scene.job
    after = status.with_controlled(job, scene.wanted.mounts, after)
    changes = merge_diff(msgspec.to_builtins(job.status), msgspec.to_builtins(after))
    if changes:
        draft.stage([_job_patch(job, {"status": changes}, "status")])


def _annotate(draft: Draft, job: Job) -> None:
    patch = {"metadata": {"annotations": dict(draft.state.annotations)}}
    draft.set(annotations={})
    draft.stage([_job_patch(job, patch, "")])


def _job_patch(job: Job, patch: object, subresource: str) -> Patch:
    meta = job.metadata
    return Patch(
        resource=kinds.JOB.resource,
        namespace=meta.namespace,
        name=meta.name,
        patch=patch,
        subresource=subresource,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


def _commands(draft: Draft) -> list[Command]:
    """Commands that are not being deleted, oldest first."""
    waiting = (
        command
        for uid, command in draft.state.commands.items()
        if uid not in draft.state.deleting and command.metadata.deletion_timestamp is None
    )
    return sorted(waiting, key=lambda command: (command.metadata.creation_timestamp or "", command.metadata.name))


def _removal(command: Command) -> Delete:
    meta = command.metadata
    return Delete(resource=kinds.COMMAND.resource, namespace=meta.namespace, name=meta.name, uid=meta.uid)


def _refuse_commands(draft: Draft) -> None:
    """Delete Commands for a job that is not there or is being deleted, and say so."""
    commands = _commands(draft)
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
        draft.beside.append(Record(regarding=regarding, type="Warning", reason="CommandIssued", message=text))
    draft.stage([_removal(command) for command in commands])
