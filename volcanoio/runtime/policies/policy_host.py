"""`PolicyHost`: asks the lifecycle policies of a job in order for a decision about an event.

Policies that the job names are asked first, then those of the configuration; the first decision ends the question.
Policies run on a thread with its own loop, each with a time limit, unless the configuration declares one quick enough
for the main loop (`inline`) and its code cannot suspend. A policy that raises, returns no Decision or exceeds its limit
counts as abstaining, and the answer contains the fault. One that still blocks the thread GRACE seconds past its limit
is stuck: the thread is abandoned, the policy is disabled until policies are reloaded, and the calls that waited behind
it are repeated on a new thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import msgspec
import structlog

from volcanoio.framework.decisions import Abstain, Alert, Annotate, Decision
from volcanoio.framework.lifecycle import LifecyclePolicy, PolicyContext
from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.model.kinds import Kind
from volcanoio.runtime.policies.calls import (
    InvalidDecisionError,
    Outcome,
    PolicyThread,
    decide_inline,
    fault_text,
    validate_decision,
)
from volcanoio.runtime.policies.instances import FAULTS, PolicyInstances
from volcanoio.runtime.policies.policy_set import Member, PolicySet
from volcanoio.runtime.timers import Timers

DECISION_LIMIT = 10.0
"""Default time limit of a policy, in seconds."""
GRACE = 1.0
"""Seconds within which a cancelled policy must release the thread."""
SLOW_DECISION = 0.1
"""Seconds after which an inline policy that blocked the main loop is moved to the thread for later calls."""

_log = structlog.get_logger(__name__)


class Answer(msgspec.Struct, frozen=True):
    """Answer to a question; `policy` is the one that decided, "" if all abstained; `faults` are (policy, fault).

    `asides` are results besides a decision, each with its policy.
    """

    decision: Decision
    policy: str = ""
    faults: tuple[tuple[str, str], ...] = ()
    asides: tuple[tuple[str, Alert | Annotate], ...] = ()


@dataclass(slots=True, eq=False)
class _Question:
    """A question and the policies that are still to be asked."""

    context: PolicyContext
    heard: Callable[[Answer], None]
    deadline: float
    line: tuple[Member, ...] = ()
    position: int = 0
    faults: list[tuple[str, str]] = field(default_factory=list)
    asides: list[tuple[str, Alert | Annotate]] = field(default_factory=list)

    def answer(self, decision: Decision, policy: str = "") -> None:
        """Pass the answer to the caller."""
        self.heard(Answer(decision, policy, tuple(self.faults), tuple(self.asides)))


@dataclass(slots=True)
class _Call:
    """One call on the thread."""

    question: _Question
    policy: LifecyclePolicy
    started: float
    overrun: bool = False


@dataclass(frozen=True, slots=True)
class PolicyCallbacks:
    """Callbacks of a PolicyHost.

    `indexed` takes the kinds that policies read and returns the objects that a question may read, or None while they
    are listed; it calls `resume` afterwards. `changed` is called when jobs name further policies.
    """

    indexed: Callable[[Iterable[Kind]], Mapping[str, Any] | None] = lambda _: {}
    changed: Callable[[], None] = lambda: None


NO_CALLBACKS = PolicyCallbacks()


class PolicyHost:
    """Host of policies on one event loop. `timers` must be running for time limits to work."""

    def __init__(
        self,
        policies: PolicySet,
        *,
        timers: Timers,
        probe: Probe | None = None,
        limit: float = DECISION_LIMIT,
        callbacks: PolicyCallbacks = NO_CALLBACKS,
    ) -> None:
        self._timers = timers
        self._clock = timers.clock
        self._probe: Probe = probe or NoProbe()
        self._limit = limit
        self._indexed = callbacks.indexed
        self._thread: PolicyThread | None = None
        self._calls: dict[int, _Call] = {}
        self._tickets = count(1)
        self._waiting: list[_Question] = []
        self._too_slow: set[int] = set()
        self._stuck_ones: dict[int, LifecyclePolicy] = {}
        self.disabled: dict[str, str] = {}
        """Policies that got stuck, with the reason."""
        self._instances = PolicyInstances(policies, timers, self._probe, made=self.resume, changed=callbacks.changed)

    @property
    def thinking(self) -> bool:
        """Whether a policy is running or being constructed."""
        return bool(self._calls) or self._instances.busy

    @property
    def instances(self) -> PolicyInstances:
        """The instances of policies."""
        return self._instances

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the policies of every job, in the order in which they are asked."""
        return tuple(member.name for member in self._instances.policies.everywhere)

    def adopt(self, policies: PolicySet, named: Mapping[tuple[str, str], Member]) -> None:
        """Replace the policies; open questions finish with the old ones. `named` were constructed beforehand."""
        for name in self.disabled:
            self._probe.gauge("volcanoio_policy_disabled", 0, policy=name)
        self.disabled = {}
        self._instances.adopt(policies, named)
        self.resume()

    def ask(self, context: PolicyContext, heard: Callable[[Answer], None], *, deadline: float = 0.0) -> None:
        """Ask a question; `heard` is called once, before this returns if all policies on the way run inline.

        `deadline` (epoch seconds, 0 for none) shortens the limits of the policies.
        """
        question = _Question(context, heard, deadline)
        if not self._begin(question):
            self._waiting.append(question)

    def resume(self) -> None:
        """Continue questions that waited for policies to be constructed or objects to be listed."""
        waiting, self._waiting = self._waiting, []
        self._waiting += [question for question in waiting if not self._begin(question)]

    async def aclose(self) -> None:
        """End the thread. Open questions get no answer."""
        for ticket in self._calls:
            self._timers.stop(("policy", ticket))
        self._calls.clear()
        self._waiting.clear()
        self._instances.close()
        if self._thread is not None:
            thread, self._thread = self._thread, None
            thread.abandon()
            await asyncio.to_thread(thread.join, GRACE)

    def _begin(self, question: _Question) -> bool:
        """Determine the policies and ask them; False while one is not constructed or its objects are not listed."""
        line = self._instances.line(question.context.job)
        if line is None:
            return False
        event = question.context.event.name
        asked = tuple(member for member in line if member.hears(event))
        views = self._indexed([kind for member in asked for kind in member.indexes])
        if views is None:
            return False
        question.line = asked
        question.context = msgspec.structs.replace(question.context, indexes=views)
        self._go_on(question)
        return True

    def _go_on(self, question: _Question) -> None:
        while question.position < len(question.line):
            member = question.line[question.position]
            policy = member.policy
            if policy is None:
                self._fault(question, member.name, member.fault)
                question.position += 1
            elif id(policy) in self._stuck_ones:
                question.position += 1
            elif not member.inline or id(policy) in self._too_slow:
                self._call(question, policy)
                return
            elif self._record_outcome(question, policy, self._at_once(policy, question.context)):
                return
        question.answer(Abstain())

    def _at_once(self, policy: LifecyclePolicy, context: PolicyContext) -> Outcome:
        started = self._clock.monotonic()
        try:
            outcome: Outcome = (decide_inline(policy, context), None)
        except (Exception, asyncio.CancelledError, SystemExit) as error:
            outcome = (None, error)
        took = (self._clock.monotonic() - started) / self._clock.rate
        self._probe.observe("volcanoio_policy_decision_seconds", took, policy=policy.name)
        if took > SLOW_DECISION:
            self._too_slow.add(id(policy))
            _log.warning("policy blocked the main loop; it is moved to the thread", policy=policy.name, seconds=took)
        return outcome

    def _record_outcome(self, question: _Question, policy: LifecyclePolicy, outcome: Outcome) -> bool:
        """Record one policy's outcome and return whether it decided the question."""
        answer, error = outcome
        try:
            decision = Abstain() if error is not None else validate_decision(answer)
        except InvalidDecisionError as nonsense:
            decision, error = Abstain(), nonsense
        if error is not None:
            self._fault(question, policy.name, fault_text(error))
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

    def _fault(self, question: _Question, policy: str, what: str) -> None:
        question.faults.append((policy, what))
        self._probe.count(FAULTS, policy=policy)
        _log.warning(
            "a lifecycle policy failed and abstains", policy=policy, fault=what, job=question.context.job.metadata.key
        )

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
        if not self._record_outcome(call.question, call.policy, outcome):
            self._go_on(call.question)

    def _in(self, seconds: float) -> float:
        """Return the clock's time in so many seconds of the machine's clock: policies run in real time."""
        return self._clock.now() + seconds * self._clock.rate

    def _overrun(self, ticket: int) -> None:
        """Cancel a call whose limit has passed, with GRACE seconds to end."""
        assert self._thread is not None
        self._calls[ticket].overrun = True
        self._thread.cancel(ticket)
        self._timers.start(("policy", ticket), self._in(GRACE), lambda: self._stuck(ticket))

    def _stuck(self, ticket: int) -> None:
        """Disable the policy that still blocks the thread after its call was cancelled, and start a new thread."""
        assert self._thread is not None
        blamed = self._thread.running or self._calls[ticket].policy
        reason = f"stuck past its limit of {self._limit:g} s; disabled until policies are reloaded"
        self._stuck_ones[id(blamed)] = blamed  # kept alive, so that its id is not reused
        self.disabled[blamed.name] = reason
        self._probe.gauge("volcanoio_policy_disabled", 1, policy=blamed.name)
        _log.error("policy is stuck; its thread is abandoned", policy=blamed.name)
        self._thread.abandon()
        self._end(self._thread)
        self._thread = None
        calls, self._calls = self._calls, {}
        for number, call in calls.items():
            self._timers.stop(("policy", number))
            if call.policy is blamed:
                self._fault(call.question, blamed.name, reason)
                call.question.position += 1
            self._go_on(call.question)

    def _end(self, thread: PolicyThread) -> None:
        """Interrupt the code of an abandoned thread repeatedly until it ends: an endless loop would occupy a core."""
        if thread.interrupt():
            self._timers.start(("policy thread", id(thread)), self._in(GRACE), lambda: self._end(thread))
