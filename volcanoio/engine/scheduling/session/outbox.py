"""The output of a cycle (decisions in order, questions to external services, statistics) and its budget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from volcanoio.framework.scheduling.sessionview import Answer, Unanswered
from volcanoio.framework.scheduling_effects import BindBatch, BindRequest, Question, SchedulerEffect


class Budget(Protocol):
    """Decides when a cycle has taken long enough: the runtime reads a clock, a replay counts gangs."""

    def exhausted(self) -> bool:
        """Whether the cycle must end; called between jobs."""
        ...


class Unlimited:
    """A budget without end."""

    def exhausted(self) -> bool:
        """Never."""
        return False


@dataclass(slots=True)
class CycleStats:
    """Figures of a cycle: tasks placed, bound and evicted, gangs committed, boundaries passed, jobs enqueued.

    `evictions` counts committed statements with evictions by action; `attempts` counts nodes searched for victims,
    `victims` those found on the last one.
    """

    placed: int = 0
    bound: int = 0
    gangs: int = 0
    boundaries: int = 0
    enqueued: int = 0
    evicted: int = 0
    evictions: dict[str, int] = field(default_factory=dict)
    attempts: int = 0
    victims: int = 0

    def record_bound(self, tasks: int) -> None:
        """Count a committed statement that bound so many tasks."""
        self.bound += tasks
        self.gangs += 1

    def record_evictions(self, action: str, tasks: int) -> None:
        """Count a committed statement of an action that evicted so many tasks."""
        self.evicted += tasks
        self.evictions[action] = self.evictions.get(action, 0) + 1

    def record_attempt(self, victims: int) -> None:
        """Count an attempt on a node that found so many victims."""
        self.attempts += 1
        self.victims = victims


class Outbox:
    """Decisions since the last checkpoint. Successive binds of one group become one batch."""

    def __init__(self, cycle: int) -> None:
        self._cycle = cycle
        self._decisions: list[SchedulerEffect] = []
        self._group = ""
        self._binds: list[BindRequest] = []
        self.message_count = 0
        """Number of decisions other than binds."""

    def put(self, decision: SchedulerEffect) -> None:
        """Add a decision."""
        self._end_batch()
        self._decisions.append(decision)
        self.message_count += 1

    def bind(self, group: str, binds: Sequence[BindRequest]) -> None:
        """Add binds of a group; they join a batch of the same group just before."""
        if group != self._group:
            self._end_batch()
            self._group = group
        self._binds.extend(binds)

    def take(self) -> tuple[SchedulerEffect, ...]:
        """Return the decisions since the last call."""
        self._end_batch()
        decisions = tuple(self._decisions)
        self._decisions.clear()
        return decisions

    def _end_batch(self) -> None:
        if self._binds:
            self._decisions.append(BindBatch(group=self._group, cycle=self._cycle, binds=tuple(self._binds)))
            self._binds = []
        self._group = ""


class Asking:
    """Implements `ask` and `notify` of a session.

    With `answering` false, for a scheduler without external services, the answer to every question is its default and
    notices are dropped. The cycle sets `is_answering` to false before the session closes; from then on the same holds
    for questions, but notices are still sent.
    """

    def __init__(self, known: Mapping[tuple[str, str], Answer], outbox: Outbox, *, answering: bool) -> None:
        self._answers = known
        self._outbox = outbox
        self.is_answering = self._can_notify = answering

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """Return the answers to questions in their order; raise `Unanswered` if one is missing."""
        if not self.is_answering:
            return [Answer(question.default) for question in questions]
        known = self._answers
        if missing := [question for question in questions if (question.plugin, question.key) not in known]:
            raise Unanswered(missing)
        return [known[question.plugin, question.key] for question in questions]

    def notify(self, notice: Question) -> None:
        """Send a notice without waiting for a response."""
        if self._can_notify:
            self._outbox.put(notice)
