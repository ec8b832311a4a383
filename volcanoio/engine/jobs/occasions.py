"""Questions that no change raises: `Tick` every so often, `JobEnded` once a job came to rest."""

from __future__ import annotations

from zlib import crc32

from volcanoio.engine.jobs.draft import Draft
from volcanoio.engine.jobs.events import ASIDE, asks
from volcanoio.framework.lifecycle import LifecycleEvent, Occasion, Roster
from volcanoio.model.batch import Job, JobPhase

TICK = "tick"
"""The timer of the next Tick."""
_ENDED = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED, JobPhase.ABORTED})


def raise_occasions(draft: Draft, roster: Roster) -> None:
    """Line up what is due."""
    job = draft.state.job
    if job is None or not draft.state.started:
        return
    _tick(draft, job, roster)
    phase = job.status.state.phase
    if phase not in _ENDED:
        return
    rest = f"{phase}/{job.status.version}"
    if draft.state.ended != rest and roster.wants(job, Occasion.JOB_ENDED):
        draft.set(ended=rest)
        draft.queue([_occasion(job, Occasion.JOB_ENDED)], ASIDE)


def _tick(draft: Draft, job: Job, roster: Roster) -> None:
    """Keep the time of the next Tick. The first comes at a part of the period that depends on the job, so that jobs
    that begin together, or with us, are not asked together. Its time counts, not its timer: whatever else happens
    between the two stops the timer.
    """
    every = roster.every(job)
    if not every or not asks(job):
        if draft.state.tick:
            draft.set(tick=0.0)
    elif 0 < draft.state.tick <= draft.now:
        under_way = any(question.event.name == Occasion.TICK for question in draft.state.asides.values())
        if not under_way and roster.wants(job, Occasion.TICK):
            draft.queue([_occasion(job, Occasion.TICK)], ASIDE)
        draft.set(tick=draft.now + every)
    elif not draft.state.tick:
        part = crc32(job.metadata.uid.encode()) % 1000 / 1000
        draft.set(tick=draft.now + every * part)


def _occasion(job: Job, name: Occasion) -> LifecycleEvent:
    return LifecycleEvent(name=name, job_uid=job.metadata.uid, version=job.status.version)
