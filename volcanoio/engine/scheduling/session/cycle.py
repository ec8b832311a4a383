"""One scheduling cycle as a generator: open a session, run each action, close.

When a cycle fails or is closed early, the decisions that it has not passed to the caller are undone.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.session.context import Budget, CycleStats
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.engine.scheduling.session.single_pods import (
    SINGLE_PODS,
    place_arrivals,
    place_arrived_agent_pods,
    place_single_pods,
)
from volcanoio.engine.scheduling.status.closing import close
from volcanoio.framework.effects import Patch
from volcanoio.framework.events import EffectFailed
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling.sessionview import Unanswered
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.framework.scheduling_effects import BindBatch, Evict, Question, SchedulerEffect
from volcanoio.framework.scheduling_events import CycleOpened


def undo_unsent_decisions(session: CycleSession) -> None:
    """Revert the decisions that are still in the outbox: they will not be sent."""
    state = session.state
    for task in session.outbox.nominated_tasks:
        state.nominations.remove(task)
    for decision in session.outbox.take():
        match decision:
            case BindBatch():
                for bind in decision.binds:
                    state.ledger.transition(state.ledger.tasks[bind.uid], TaskStatus.PENDING, "")
            case Evict():
                state.eviction_refused(decision.uid, "the cycle ended before it was sent")
            case Patch():
                key = f"{decision.resource}/{decision.namespace}/{decision.name}"
                state.fold(EffectFailed(controller="", key=key, effect_id=decision.id, code=0))
            case _:
                pass  # the other decisions (Kubernetes Events, notices) have not changed the state


PLACEMENTS_PER_EFFORT = 64
"""Number of placements that take about as long as one unit of `Placer.effort`, an evaluation of 10,000 nodes."""
CHECKPOINT_PLACEMENTS = 128
"""Work between two checkpoints, in placements."""
CHECKPOINT_STEPS = 128
"""Most steps between two checkpoints; a step ends where an action yields."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A point of a cycle where other work may run.

    `decisions` were committed since the last checkpoint; the caller must send them before it continues the cycle.

    `action` is "" while the session opens and closes; `opened` is the name of the plugin that was just opened, or "".
    """

    action: str
    decisions: tuple[SchedulerEffect, ...]
    opened: str = ""


@dataclass(frozen=True, slots=True)
class CycleResult:
    """The result of a cycle; its decisions are in the checkpoints.

    `cut_action` is the action during which the cycle was cut short, "" if it was not. `questions` had no answer
    yet and cut the cycle short; the next cycle waits for them.
    """

    cut_action: str = ""
    stats: CycleStats = field(default_factory=CycleStats)
    questions: tuple[Question, ...] = ()


def run_cycle(
    state: ClusterState,
    profile: Profile,
    opening: CycleOpened,
    *,
    budget: Budget | None = None,
    inspect: Callable[[CycleSession], Iterator[None] | None] | None = None,
) -> Generator[Checkpoint, None, CycleResult]:
    """Run one cycle on the state's columns; the caller must not fold events until it has ended.

    Requires `state.is_ready`. Writes that Volcano repeats in every session are made at most once per object and
    `opening.period`. When the generator is closed early, or a plugin raises, decisions that were not sent in a
    Checkpoint are undone. Latency-bound pods that the budget's `arrivals` returns are placed between two gangs.
    `inspect` is called with the session after its close, before it is undone; other work may run between the steps
    that it returns.
    """
    session = CycleSession(state, profile, opening, budget)
    try:
        for opened in open_session(session):
            yield Checkpoint("", (), opened)
        questions = yield from _place_agent_pods(session)
        cut_action = SINGLE_PODS if questions else ""
        if not questions:
            cut_action, questions = yield from _run_actions(session)
        session.place_arrivals = None
        if state.ledger.pending_single_pods and not questions:  # also after a cut: gangs must not starve single pods
            try:
                yield from _checkpoints(session, SINGLE_PODS, place_single_pods(session))
            except Unanswered as waiting:
                questions = _break_off(session, waiting)
            cut_action = cut_action or (SINGLE_PODS if session.is_cut_short else "")
        session.questions.is_answering = False
        if not cut_action:  # the cycle after a cut needs the same answers
            state.answers.clear()
        yield from _checkpoints(session, "", close(session))
        if inspect is not None and (steps := inspect(session)) is not None:
            for _ in steps:
                yield Checkpoint("", ())
        yield from _checkpoints(session, "", session.undo_in_steps())
    except BaseException:
        undo_unsent_decisions(session)
        raise
    finally:
        session.undo()
    return CycleResult(cut_action, session.stats, questions)


def open_session(session: CycleSession) -> Iterator[str]:
    """Refresh what the cycle reads, then open the plugins one at a time; yield the plugin's name, "" before them."""
    for _ in _refresh(session):
        yield ""
    yield ""  # the time so far does not count for the first plugin
    for name, opens in session.rules.opens:
        for _ in opens(session) or ():
            yield name
        yield name
    if session.quota_reservations is not None:
        session.quota_reservations.begin()


def _refresh(session: CycleSession) -> Iterator[None]:
    """Bring pods, volumes, nominations and the set of urgent jobs up to date, in steps."""
    state = session.state
    ledger, nominations = state.ledger, state.nominations
    if ledger.volumes.is_active:
        ledger.volumes.refresh()
    if ledger.pod_index.is_active:
        yield from ledger.pod_index.refresh()
    if nominated := len(nominations.by_task):
        yield from nominations.open(session.now)
        if nominated != len(nominations.by_task):
            state.unschedulable.cluster_generation += 1
    if nominations.jobs:  # of tasks that were nominated in earlier cycles
        session.urgent_jobs = {**state.bind_refused_jobs, **nominations.jobs}
    session.urgent_queues = {job.queue for job in session.urgent_jobs.values()}


def _place_agent_pods(session: CycleSession) -> Generator[Checkpoint, None, tuple[Question, ...]]:
    """Place latency-bound pods before all actions, and have those that arrive later placed between two gangs."""
    try:
        if session.state.pods.arrived_agent_pods:
            yield from _checkpoints(session, SINGLE_PODS, place_arrived_agent_pods(session))
        if session.budget is not None and session.state.agent_schedulers:
            session.place_arrivals = partial(place_arrivals, session)
            if arrivals := session.budget.arrivals(0):
                session.place_arrivals(arrivals)
    except Unanswered as waiting:
        return _break_off(session, waiting)
    return ()


def _run_actions(session: CycleSession) -> Generator[Checkpoint, None, tuple[str, tuple[Question, ...]]]:
    """Run the actions in the profile's order; return the action that was cut short, and the questions it waits for.

    After a cycle that was cut without committing anything, begin with the action after the one that was cut; the
    actions before it come last.
    """
    state, actions = session.state, session.profile.actions
    count = len(actions)
    first = state.next_action % count if count else 0
    state.next_action = 0
    order = [actions[at % count] for at in range(first, first + count)]
    stats = session.stats
    for at, action in enumerate(order):
        session.pending_actions = frozenset(later.name for later in order[at + 1 :])
        session.action = action.name
        try:
            yield from _checkpoints(session, action.name, action.run(cast("Session", session)))
        except Unanswered as waiting:
            return action.name, _break_off(session, waiting)
        if session.has_read_pending_groups and not session.is_cut_short:
            session.has_read_pending_groups = False
            state.enqueue_refused.clear()
        _record_failures(session)
        if session.is_cut_short:
            # Failed attempts must not block other actions
            if stats.binding_statements == stats.agent_statements and not stats.evicted_tasks:
                state.next_action = first + at + 1
            return action.name, ()
    return "", ()


def _record_failures(session: CycleSession) -> None:
    """Record the jobs that failed before the cycle was cut short, so that the next cycle tries the others first."""
    failed = session.state.failed_attempts
    if session.is_cut_short:
        failed.setdefault(session.action, set()).update(session.failed_jobs)
    else:
        failed.pop(session.action, None)
    session.failed_jobs.clear()


def _break_off(session: CycleSession, waiting: Unanswered) -> tuple[Question, ...]:
    """Cut the cycle short and undo open statements, as when the budget is used up; return the open questions."""
    session.is_cut_short = True
    session.plugin_tables.log = None
    while session.open_logs:
        session.open_logs.pop().rollback(session.state.ledger, session.state.reservations)
    return waiting.questions


def _checkpoints(session: CycleSession, action: str, steps: Iterator[None]) -> Iterator[Checkpoint]:
    """Run one part of the cycle; yield checkpoints by the limits `CHECKPOINT_…`, and one at the end."""
    taken, stats, placer = 0, session.stats, session.state.placer
    enough = stats.placed + PLACEMENTS_PER_EFFORT * placer.effort + CHECKPOINT_PLACEMENTS
    for _ in steps:
        taken += 1
        if (
            taken >= CHECKPOINT_STEPS
            or session.outbox.is_urgent
            or stats.placed + PLACEMENTS_PER_EFFORT * placer.effort >= enough
        ):
            taken, enough = 0, stats.placed + PLACEMENTS_PER_EFFORT * placer.effort + CHECKPOINT_PLACEMENTS
            yield Checkpoint(action, session.outbox.take())
    yield Checkpoint(action, session.outbox.take())
