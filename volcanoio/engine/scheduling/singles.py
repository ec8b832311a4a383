"""Pods without gang and queue, such as those of Kubernetes' default scheduler: placed one by one after the gangs.

Filters and scores are the configuration's, and so are the columns: what either kind of pod takes of a node, the other
does not get. What gangs have reserved in the session is not theirs.
"""

from __future__ import annotations

from collections.abc import Iterator

from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.podconditions import tell_single
from volcanoio.engine.scheduling.runs import look_at_claims
from volcanoio.engine.scheduling.session import CycleSession
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.framework.scheduling.session import Run

ALWAYS = 64
"""How many are tried also in a cycle that gangs have used up: they must not starve."""
PASSED = 16
"""Pods passed in one step."""
SOME = 0.25
"""How long putting pods in order takes in one step, as a part of asking plugins about all nodes."""
NAME = "singles"
"""What a cycle that was cut here says where that was."""


def place_singles(session: CycleSession) -> Iterator[None]:
    """Bind what finds a node; tell the others why not.

    After a cut those that were not come to go before those that were tried in vain, until none is left.
    """
    turns = session.state.single_turns
    for _ in turns.begin():
        session.state.placer.overall += SOME
        yield
    vain = session.state.vain.setdefault(NAME, set())
    session.vain.clear()
    tried = passed = 0
    for job in turns:
        task = next(iter(job.waiting.values()))
        if task.gated or task.retry_at > session.now or job.key in vain or session.hopeless(job):
            passed += 1
            if not passed % PASSED:
                yield
            continue
        tried += 1
        if tried > ALWAYS and session.exhausted():
            vain.update(session.vain)
            return
        _place(session, job, task)
        yield
    vain.clear()


def _place(session: CycleSession, job: JobInfo, task: TaskInfo) -> None:
    session.start(job)
    look_at_claims(session, [task], varied=False)
    run = Run(task.shape, task.role, [task], task.nominated)
    statement = session.statement(job)
    placed, _ = statement.place(run, 0, 1, until_ready=False, idle_only=True)
    if placed:
        statement.commit()
        return
    statement.discard()
    session.give_up(job, [run])
    tell_single(session, job, task)
