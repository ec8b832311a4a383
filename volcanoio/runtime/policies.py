"""`PolicyHost`: asks the enabled lifecycle policies, in configured order, what a job should do about an event.

The first that does not abstain decides. A policy that cannot suspend answers within the step; the others run on the
policy thread, each within a limit. One that raises, answers nonsense or overruns has abstained, and the answer says so.
One that still holds the thread GRACE seconds past its limit is stuck: the thread is abandoned, the policy disabled
until the policies are loaded anew, and the calls that waited behind it are made again on a new thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

import msgspec
import structlog

from volcanoio.framework.decisions import Abstain, Alert, Annotate, Decision
from volcanoio.framework.lifecycle import LifecyclePolicy, PolicyContext
from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.kube.clock import Clock
from volcanoio.runtime.policy_calls import BadAnswerError, can_suspend, checked, decide_at_once, described
from volcanoio.runtime.policy_thread import Outcome, PolicyThread
from volcanoio.runtime.timers import Timers

LIMIT = 10.0
"""Seconds a policy may take."""
GRACE = 1.0
"""Seconds a cancelled policy has to give the thread back."""
SLOW = 0.1
"""Seconds after which a policy that holds up the main loop is moved to the thread for its next calls."""

_log = structlog.get_logger(__name__)


class Answer(msgspec.Struct, frozen=True):
    """What the policies said; `policy` is who decided, "" when all abstained; `faults` are (policy, what).

    `asides` are what was said beside a decision, each with the policy.
    """

    decision: Decision
    policy: str = ""
    faults: tuple[tuple[str, str], ...] = ()
    asides: tuple[tuple[str, Alert | Annotate], ...] = ()


@dataclass(slots=True)
class _Question:
    """One question on its way through the policies."""

    context: PolicyContext
    heard: Callable[[Answer], None]
    deadline: float
    position: int = 0
    faults: list[tuple[str, str]] = field(default_factory=list)
    asides: list[tuple[str, Alert | Annotate]] = field(default_factory=list)

    def answer(self, decision: Decision, policy: str = "") -> None:
        """Have the answer heard."""
        self.heard(Answer(decision, policy, tuple(self.faults), tuple(self.asides)))


@dataclass(slots=True)
class _Call:
    """One call on the thread."""

    question: _Question
    policy: LifecyclePolicy
    started: float
    overrun: bool = False


class PolicyHost:
    """Belongs to the loop it is used on. `timers` must be running for limits to hold."""

    def __init__(
        self,
        policies: Sequence[LifecyclePolicy],
        *,
        timers: Timers,
        clock: Clock,
        probe: Probe | None = None,
        limit: float = LIMIT,
    ) -> None:
        self._policies = tuple(policies)
        self._timers = timers
        self._clock = clock
        self._probe: Probe = probe or NoProbe()
        self._limit = limit
        self._on_thread = {policy.name for policy in policies if can_suspend(policy.decide)}
        self._thread: PolicyThread | None = None
        self._calls: dict[int, _Call] = {}
        self._tickets = count(1)
        self.disabled: dict[str, str] = {}
        """Policies that got stuck, and how."""

    @property
    def thinking(self) -> bool:
        """Whether a policy is at work on its thread."""
        return bool(self._calls)

    @property
    def names(self) -> tuple[str, ...]:
        """The policies in the order they are asked."""
        return tuple(policy.name for policy in self._policies)

    def ask(self, context: PolicyContext, heard: Callable[[Answer], None], *, deadline: float = 0.0) -> None:
        """Ask; `heard` is called once, before this returns when no policy on the way suspends.

        `deadline` (epoch seconds, 0 for none) shortens the limits of the policies asked.
        """
        self._go_on(_Question(context, heard, deadline))

    async def aclose(self) -> None:
        """End the thread. Questions under way stay without an answer: they die with the lease."""
        for ticket in self._calls:
            self._timers.stop(("policy", ticket))
        self._calls.clear()
        if self._thread is not None:
            thread, self._thread = self._thread, None
            thread.abandon()
            await asyncio.to_thread(thread.join, GRACE)

    def _go_on(self, question: _Question) -> None:
        while question.position < len(self._policies):
            policy = self._policies[question.position]
            if policy.name in self.disabled:
                question.position += 1
            elif policy.name in self._on_thread:
                self._call(question, policy)
                return
            elif self._settled(question, policy, self._at_once(policy, question.context)):
                return
        question.answer(Abstain())

    def _at_once(self, policy: LifecyclePolicy, context: PolicyContext) -> Outcome:
        started = self._clock.monotonic()
        try:
            outcome: Outcome = (decide_at_once(policy, context), None)
        except (Exception, asyncio.CancelledError, SystemExit) as error:
            outcome = (None, error)
        took = (self._clock.monotonic() - started) / self._clock.rate
        self._probe.observe("volcanoio_policy_decision_seconds", took, policy=policy.name)
        if took > SLOW:
            self._on_thread.add(policy.name)
            _log.warning("policy blocked the main loop; it is moved to the thread", policy=policy.name, seconds=took)
        return outcome

    def _settled(self, question: _Question, policy: LifecyclePolicy, outcome: Outcome) -> bool:
        """Take one policy's outcome; whether it decided the question."""
        answer, error = outcome
        try:
            decision = Abstain() if error is not None else checked(answer)
        except BadAnswerError as nonsense:
            decision, error = Abstain(), nonsense
        if error is not None:
            self._fault(question, policy, described(error))
        else:
            self._probe.count("volcanoio_policy_decisions_total", policy=policy.name, decision=type(decision).__name__)
        question.position += 1
        if isinstance(decision, Abstain):
            return False
        if isinstance(decision, Alert | Annotate):
            question.asides.append((policy.name, decision))
            return False
        question.answer(decision, policy.name)
        return True

    def _fault(self, question: _Question, policy: LifecyclePolicy, what: str) -> None:
        question.faults.append((policy.name, what))
        self._probe.count("volcanoio_policy_faults_total", policy=policy.name)
        _log.warning("policy abstains by fault", policy=policy.name, fault=what, job=question.context.job.metadata.key)

    def _call(self, question: _Question, policy: LifecyclePolicy) -> None:
        if self._thread is None:
            self._thread = PolicyThread(self._heard)
        ticket = next(self._tickets)
        self._calls[ticket] = _Call(question, policy, self._clock.monotonic())
        due = min(self._in(self._limit), question.deadline or float("inf"))
        self._timers.start(("policy", ticket), due, lambda: self._overrun(ticket))
        self._thread.submit(ticket, policy, question.context)

    def _heard(self, ticket: int, outcome: Outcome) -> None:
        call = self._calls.pop(ticket, None)
        if call is None:
            return
        self._timers.stop(("policy", ticket))
        took = (self._clock.monotonic() - call.started) / self._clock.rate
        self._probe.observe("volcanoio_policy_decision_seconds", took, policy=call.policy.name)
        if call.overrun:
            outcome = (None, TimeoutError(f"took longer than its limit of {self._limit:g} s"))
        if not self._settled(call.question, call.policy, outcome):
            self._go_on(call.question)

    def _in(self, seconds: float) -> float:
        """The clock's time in so many seconds of the machine's: policies think in real time."""
        return self._clock.now() + seconds * self._clock.rate

    def _overrun(self, ticket: int) -> None:
        """The limit of a call has passed: cancel it, and give it GRACE to let go."""
        assert self._thread is not None
        self._calls[ticket].overrun = True
        self._thread.cancel(ticket)
        self._timers.start(("policy", ticket), self._in(GRACE), lambda: self._stuck(ticket))

    def _stuck(self, ticket: int) -> None:
        """A cancelled call did not come back: blame who holds the thread, and start anew without it."""
        assert self._thread is not None
        blamed = self._thread.running or self._calls[ticket].policy.name
        self.disabled[blamed] = f"stuck past its limit of {self._limit:g} s; disabled until policies are reloaded"
        self._probe.gauge("volcanoio_policy_disabled", 1, policy=blamed)
        _log.error("policy is stuck; its thread is abandoned", policy=blamed)
        self._thread.abandon()
        self._thread = None
        calls, self._calls = self._calls, {}
        for number, call in calls.items():
            self._timers.stop(("policy", number))
            if call.policy.name == blamed:
                self._fault(call.question, call.policy, self.disabled[blamed])
                call.question.position += 1
            self._go_on(call.question)
