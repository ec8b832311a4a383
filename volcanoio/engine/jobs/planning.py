"""What to do next for a job, given what is known: always the same answer for the same state.

Nothing is planned while writes are in flight, while the policies are being asked, or while a back-off lasts. What was
decided comes before what is kept up, and a decision is carried out by one status write.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from volcanoio.engine.jobs import alerts, commands, converge, delayed, overriding, status
from volcanoio.engine.jobs.deciding import decided
from volcanoio.engine.jobs.draft import Draft
from volcanoio.engine.jobs.events import ASIDE
from volcanoio.engine.jobs.ledger import Ledger, read
from volcanoio.engine.jobs.pausing import pause
from volcanoio.engine.jobs.plugins import PluginSets
from volcanoio.engine.jobs.roll import KEPT_FROM, call
from volcanoio.engine.jobs.state import awaits_newer
from volcanoio.engine.jobs.table import UPKEEP, Upkeep
from volcanoio.engine.jobs.wanted import Problem, work_out
from volcanoio.engine.jobs.writing import annotate, counted, write_status
from volcanoio.framework.controller import View
from volcanoio.framework.effects import Delete
from volcanoio.framework.lifecycle import Occasion
from volcanoio.framework.overrides import effective
from volcanoio.model.batch import Job, JobPhase, JobStatus

_KEEP_UP: dict[Upkeep, Callable[[converge.Scene], converge.Upkeeping]] = {
    Upkeep.SYNC: converge.sync,
    Upkeep.RESTART: converge.restart,
    Upkeep.STOP: converge.stop,
}


def plan(draft: Draft, view: View, plugins: PluginSets) -> None:
    """Add the writes that are due to the draft."""
    state = draft.state
    if not view.synced or state.writing:
        return
    job = state.job
    if job is None or job.metadata.deletion_timestamp is not None:
        commands.refuse_all(draft)
        return
    if awaits_newer(state, draft.now) or draft.now < state.retry_at or state.questions:
        return
    if state.annotations:
        annotate(draft, job)
        return
    stored = read(job.status)
    if draft.state.alerts or stored.alerts:
        alerts.tell(draft, job, stored)
        alerts.notify(draft, job, stored, view)
    scene = _scene(draft, job, view, stored, plugins)
    ledger = alerts.entered(_ledger(scene, stored), draft.state, draft.now)
    if not decided(draft, scene, stored, ledger):
        _keep_up(draft, scene, ledger)


def _scene(draft: Draft, job: Job, view: View, stored: Ledger, plugins: PluginSets) -> converge.Scene:
    job = effective(job, stored.overrides)
    wanted = work_out(job, draft.state.wanted, view.lookup, plugins, stored.overrides)
    job = msgspec.structs.replace(job, spec=wanted.spec)  # the very one that plugins know
    roll = call(job, draft.state.pods, draft.state.deleting, draft.state.roll)
    draft.set(wanted=wanted, roll=roll if len(roll.held) >= KEPT_FROM else None)
    return converge.Scene(
        job=job,
        state=draft.state,
        roll=roll,
        targets=stored.targets,
        wanted=wanted,
        lookup=view.lookup,
        plugins=plugins,
        now=draft.now,
        overrides=stored.overrides,
        gated=view.roster.wants(job, Occasion.PODS_DUE),
    )


def _keep_up(draft: Draft, scene: converge.Scene, ledger: Ledger) -> None:
    """Writes that the phase asks for; when there are none, the status that follows from what is there."""
    job = scene.job
    if ledger.hold is not None and draft.now < ledger.hold.until:
        draft.warn_once("Hold", ledger.hold.reason)
        write_status(draft, scene, status.with_reason(counted(scene, ledger), "Hold", ledger.hold.reason))
        return
    if ledger.hold is not None:
        ledger = msgspec.structs.replace(ledger, hold=None)
    phase = status.current_phase(job)
    upkeep = _KEEP_UP[UPKEEP[phase]](scene)
    if draft.state.refusal is not None and _tell_refusal(draft, scene, ledger, upkeep, draft.state.refusal):
        return
    said = upkeep.problem or upkeep.notice or Problem("", "")
    draft.warn_once(said.reason, said.message, said.topic)
    if upkeep.left is not None:
        draft.set(gate=upkeep.left)
    if upkeep.question is not None:
        draft.queue([upkeep.question.event], ASIDE)
        draft.set(gate=msgspec.structs.replace(upkeep.question, number=draft.state.last_question))
    if not job.status.state.phase:
        write_status(draft, scene, status.enter(job, counted(scene, ledger), JobPhase.PENDING, draft.now))
    if (kept := overriding.learned(job, ledger, draft.state)) is not None:
        draft.set(learned=kept[0])
        draft.stage([kept[1]])
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
        write_status(draft, scene, following)


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
        write_status(draft, scene, status.with_reason(following, refusal.reason, refusal.message))
    if not draft.writes:
        draft.set(refusal=None)
    return bool(draft.writes)


def _following(scene: converge.Scene, ledger: Ledger, phase: JobPhase, now: float) -> JobStatus:
    """The status once nothing is left to write for the phase."""
    job, counts = scene.job, scene.counts
    following = counted(scene, ledger)
    match UPKEEP[phase]:
        case Upkeep.SYNC:
            after = status.phase_after_sync(job, counts, phase)
        case Upkeep.RESTART:
            after = status.phase_after_restart(job, following, counts)
            if after is not JobPhase.RESTARTING:
                following = counted(scene, msgspec.structs.replace(ledger, targets=None))
        case _:
            after = status.phase_after_stop(counts, phase)
    if after is not phase and UPKEEP[after] is Upkeep.STOP:
        following = counted(scene, _stopping(ledger))
    return status.enter(job, following, after, now)


def _ledger(scene: converge.Scene, stored: Ledger) -> Ledger:
    """The stored bookkeeping without what has become pointless, and with the pods that are being taken from us."""
    job = scene.job
    ledger = msgspec.structs.replace(
        stored,
        delayed=delayed.standing(stored.delayed, job, scene.roll.own()),
        counted=scene.roll.present,
        leaving=scene.roll.leaving,
        generation=job.metadata.generation,
    )
    if UPKEEP[status.current_phase(job)] is not Upkeep.STOP:
        return ledger
    return msgspec.structs.replace(_stopping(ledger), generation=stored.generation and ledger.generation)


def _stopping(ledger: Ledger) -> Ledger:
    """The bookkeeping of a job that stops: from then on no pod is missed."""
    return msgspec.structs.replace(ledger, counted=None, leaving={})
