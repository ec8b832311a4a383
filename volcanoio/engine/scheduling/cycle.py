"""One scheduling cycle as a generator: open, each action, close."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import cast

from volcanoio.engine.scheduling.budget import Budget, Unlimited
from volcanoio.engine.scheduling.closing import close
from volcanoio.engine.scheduling.cluster import ClusterState
from volcanoio.engine.scheduling.cyclestats import CycleStats
from volcanoio.engine.scheduling.picture import Picture, picture
from volcanoio.engine.scheduling.profile import Profile
from volcanoio.engine.scheduling.session import CycleSession
from volcanoio.engine.scheduling.singles import NAME, place_singles
from volcanoio.engine.scheduling.takeback import take_back
from volcanoio.framework.scheduling.asks import Unanswered
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling_effects import Question, SchedulerEffect
from volcanoio.framework.scheduling_events import CycleOpened

__all__ = ["Budget", "Checkpoint", "CycleResult", "CycleStats", "Unlimited", "run_cycle"]

OVERALL = 64
"""How many placements take about as long as asking plugins about 10,000 nodes for the first time."""
EFFORT_BETWEEN = 128
"""After how many placements, or what takes as long, a cycle lets other work run."""
STEPS_BETWEEN = 128
"""After how many steps of an action (jobs looked at) it does."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A place where other work may run. `decisions` were committed since the last one: send them at once.

    `action` is "" while the session opens and closes; `opened` names the plugin that has just opened, if one has.
    """

    action: str
    decisions: tuple[SchedulerEffect, ...]
    opened: str = ""


@dataclass(frozen=True, slots=True)
class CycleResult:
    """The end of a cycle. Every decision appears once: in a Checkpoint, or here when it came after the last one.

    `where` is the action at whose gang boundary the budget cut the cycle, "" when it ran to its end; `picture` how the
    session stood at its close, where that was asked for; `questions` for whose answers the cycle ended in `where`:
    the next one opens once they have come.
    """

    decisions: tuple[SchedulerEffect, ...]
    where: str = ""
    stats: CycleStats = field(default_factory=CycleStats)
    picture: Picture | None = None
    questions: tuple[Question, ...] = ()


def run_cycle(
    state: ClusterState,
    profile: Profile,
    opening: CycleOpened,
    *,
    budget: Budget | None = None,
    period: float = 1.0,
    shown: bool = False,
) -> Generator[Checkpoint, None, CycleResult]:
    """Run one cycle on the state's columns; the caller folds no event before it has ended.

    Requires `state.ready`. `period` (seconds) is the schedule period: what Volcano does once per session is done at
    most once per period and object. Actions run in the profile's order, except after a cycle that was cut before it
    committed anything: then the one after the action that was cut is first, and the others follow in a circle. When the
    generator is closed early, or a plugin raises, what was not handed out in a Checkpoint is undone. `shown` asks for
    the result's picture.
    """
    for _ in state.finish():  # the caller may have done so in steps
        pass
    state.require(state.rules_of(profile).watches)
    if not state.ready:
        msg = f"no cycle before these are listed: {', '.join(state.missing)}; fold their Synced events first"
        raise RuntimeError(msg)
    session = CycleSession(state, profile, opening, budget or Unlimited(), period)
    where = ""
    questions: tuple[Question, ...] = ()
    try:
        for opened in session.open():
            yield Checkpoint("", (), opened)
        count = len(profile.actions)
        first = state.turn % count if count else 0
        state.turn = 0
        for at in range(first, first + count):
            action = profile.actions[at % count]
            session.coming = frozenset(profile.actions[later % count].name for later in range(at + 1, first + count))
            session.action = action.name
            try:
                yield from _checkpoints(session, action.name, action.run(cast("Session", session)))  # of its own jobs
            except Unanswered as waiting:
                where, questions = action.name, _break_off(session, waiting)
                break
            if session.asks_waiting and not session.cut:
                session.asks_waiting = False
                state.refused.clear()
            _remember_vain(session)
            if session.cut:
                where = action.name
                if not (session.stats.gangs or session.stats.evicted):  # vain work must not keep others from theirs
                    state.turn = at + 1
                break
        if state.ledger.singles and not questions:
            try:
                yield from _checkpoints(session, NAME, place_singles(session))
            except Unanswered as waiting:
                questions = _break_off(session, waiting)
            where = where or (NAME if session.cut else "")
        session.questions.answering = False
        if not where:
            state.answers.clear()
        yield from _checkpoints(session, "", close(session, period))
        seen = picture(session) if shown else None
        yield from _checkpoints(session, "", session.unwind())
    except BaseException:
        take_back(session)
        raise
    finally:
        session.undo()
    return CycleResult(session.outbox.take(), where, session.stats, seen, questions)


def _remember_vain(session: CycleSession) -> None:
    """After a cut the jobs that were not come to go before those that were tried in vain, until none is left."""
    known = session.state.vain
    if session.cut:
        known.setdefault(session.action, set()).update(session.vain)
    else:
        known.pop(session.action, None)
    session.vain.clear()


def _break_off(session: CycleSession, waiting: Unanswered) -> tuple[Question, ...]:
    """End the cycle as a budget would: the next one begins anew, with the answers."""
    session.cut = True
    session.tables.log = None
    while session.unended:
        session.unended.pop().rollback(session.state.ledger, session.state.holds)
    return waiting.questions


def _checkpoints(session: CycleSession, action: str, steps: Iterator[None]) -> Iterator[Checkpoint]:
    """Run one part of the cycle, with a checkpoint every so often and at its end."""
    taken, stats, placer = 0, session.stats, session.state.placer
    enough = stats.placed + OVERALL * placer.overall + EFFORT_BETWEEN
    for _ in steps:
        taken += 1
        if taken >= STEPS_BETWEEN or stats.placed + OVERALL * placer.overall >= enough:
            taken, enough = 0, stats.placed + OVERALL * placer.overall + EFFORT_BETWEEN
            yield Checkpoint(action, session.outbox.take())
    yield Checkpoint(action, session.outbox.take())
