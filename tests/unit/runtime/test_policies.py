"""Lifecycle policies: asked in order, none can stop us, each keeps its limit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tests.unit.runtime.virtual_time import VirtualClock, run_until_idle
from volcanoio.framework.decisions import Abstain, Act, Decision, Hold
from volcanoio.framework.lifecycle import LifecycleEvent, LifecyclePolicy, PolicyContext
from volcanoio.model.base import ObjectMeta
from volcanoio.model.batch import Job, JobAction
from volcanoio.runtime.policies.calls import InvalidDecisionError, can_suspend, validate_decision
from volcanoio.runtime.policies.policy_host import GRACE, Answer, PolicyHost
from volcanoio.runtime.policies.policy_set import PolicySet
from volcanoio.runtime.timers import Timers

CONTEXT = PolicyContext(event=LifecycleEvent(name="PodFailed", job_uid="u", version=0), job=Job(), pods=(), now=0.0)
RESTART = Act(action=JobAction.RESTART_JOB)
ABORT = Act(action=JobAction.ABORT_JOB)


class Quick:
    """Answers at once."""

    def __init__(self, name: str, answer: Any, before: Callable[[], None] = lambda: None) -> None:
        self.name = name
        self.answer = answer
        self.before = before
        self.threads: list[int] = []

    async def decide(self, context: PolicyContext) -> Decision:
        self.threads.append(threading.get_ident())
        self.before()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return cast("Decision", self.answer)


class Waiting(Quick):
    """Suspends until released; `entered` is set once it waits."""

    def __init__(self, name: str, answer: Any) -> None:
        super().__init__(name, answer)
        self.entered = threading.Event()
        self._released: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def decide(self, context: PolicyContext) -> Decision:
        self.threads.append(threading.get_ident())
        self._released, self._loop = asyncio.Event(), asyncio.get_running_loop()
        self.entered.set()
        await self._released.wait()
        return cast("Decision", self.answer)

    def release(self) -> None:
        assert self._loop is not None
        assert self._released is not None
        self._loop.call_soon_threadsafe(self._released.set)


class Blocking(Waiting):
    """Holds its thread without awaiting until let go."""

    def __init__(self, name: str) -> None:
        super().__init__(name, Abstain())
        self.let_go = threading.Event()

    async def decide(self, context: PolicyContext) -> Decision:
        await asyncio.sleep(0)
        self.entered.set()
        self.let_go.wait(60)
        return Abstain()


class Bench:
    """A PolicyHost on virtual time, and what it answered."""

    def __init__(self, policies: Sequence[Quick], clock: VirtualClock, timers: Timers) -> None:
        self.clock = clock
        self.host = PolicyHost(PolicySet.of(cast("Sequence[LifecyclePolicy]", policies), inline=True), timers=timers)
        self.answers: list[Answer] = []
        self.came = asyncio.Event()

    def ask(self, **more: float) -> None:
        self.host.ask(CONTEXT, self.hear, **more)

    def hear(self, answer: Answer) -> None:
        self.answers.append(answer)
        self.came.set()

    async def answer(self) -> Answer:
        await asyncio.wait_for(self.came.wait(), 30)
        self.came.clear()
        return self.answers[-1]


@asynccontextmanager
async def bench(*policies: Quick) -> AsyncIterator[Bench]:
    clock = VirtualClock()
    timers = Timers(clock)
    task = asyncio.create_task(timers.run())
    made = Bench(policies, clock, timers)
    try:
        yield made
    finally:
        for policy in policies:
            if isinstance(policy, Blocking):
                policy.let_go.set()
        await made.host.aclose()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def entered(policy: Waiting) -> None:
    assert await asyncio.to_thread(policy.entered.wait, 30)


async def test_a_policy_that_cannot_suspend_is_decided_within_the_step() -> None:
    policy = Quick("quick", RESTART)
    async with bench(policy) as on:
        on.ask()
        assert on.answers == [Answer(RESTART, "quick")]
        assert policy.threads == [threading.get_ident()]


async def test_the_first_that_does_not_abstain_decides() -> None:
    last = Quick("last", ABORT)
    async with bench(Quick("first", Abstain()), Quick("second", RESTART), last) as on:
        on.ask()
        assert on.answers == [Answer(RESTART, "second")]
        assert last.threads == []


async def test_arguments_for_a_policy_that_is_not_enabled_are_reported() -> None:
    marks = {"policy-arguments.volcanoio.dev/frist": "{a: 1}"}
    job = Job(metadata=ObjectMeta(name="j", annotations=marks))
    async with bench(Quick("first", RESTART)) as on:
        on.host.ask(replace(CONTEXT, job=job), on.hear)
        (answer,) = on.answers
        assert (answer.decision, answer.policy) == (RESTART, "first")
        (reported,) = answer.faults
        assert reported[0] == "frist"
        assert 'the policy is not asked about this job; did you mean "first"?; name it in' in reported[1]


async def test_when_all_abstain_there_is_no_decision() -> None:
    async with bench(Quick("a", Abstain()), Quick("b", Abstain())) as on:
        on.ask()
        assert on.answers == [Answer(Abstain())]


async def test_a_policy_that_takes_long_answers_as_a_quick_one_does() -> None:
    """It runs on its own thread, the main loop goes on, and later policies are asked only after it."""
    slow, after = Waiting("slow", Abstain()), Quick("after", RESTART)
    async with bench(slow, after) as on:
        on.ask()
        await entered(slow)
        await on.clock.advance(5)
        assert (on.answers, after.threads) == ([], [])
        slow.release()
        assert await on.answer() == Answer(RESTART, "after")
        assert slow.threads != [threading.get_ident()] == after.threads


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (RuntimeError("no idea"), "raised RuntimeError: no idea"),
        (SystemExit(3), "raised SystemExit: 3"),
        (asyncio.CancelledError(), "raised CancelledError"),
        (None, "answered NoneType, which is not a Decision; return Abstain() to say nothing"),
        ("RestartJob", "answered str, which is not a Decision; return Abstain() to say nothing"),
        (Act(action=JobAction.RESTART_JOB, after=-1), "answered Act with after=-1.0"),
        (Hold(reason="x", until=float("nan")), "answered Hold with until=nan"),
        (Act(action=cast("Any", "Explode")), "answered a malformed Act: Invalid enum value 'Explode'"),
    ],
)
async def test_a_fault_abstains_and_is_reported(answer: Any, fault: str) -> None:
    async with bench(Quick("bad", answer), Quick("good", RESTART)) as on:
        on.ask()
        (given,) = on.answers
        assert (given.decision, given.policy) == (RESTART, "good")
        assert [(name, what[: len(fault)]) for name, what in given.faults] == [("bad", fault)]


async def test_a_policy_that_overruns_its_limit_abstains_and_is_asked_again_next_time() -> None:
    slow = Waiting("slow", ABORT)
    async with bench(slow, Quick("good", RESTART)) as on:
        on.ask()
        await entered(slow)
        await on.clock.advance(10)
        assert await on.answer() == Answer(
            RESTART, "good", (("slow", "raised TimeoutError: took longer than its limit of 10 s"),)
        )
        slow.entered.clear()
        on.ask()
        await entered(slow)
        slow.release()
        assert await on.answer() == Answer(ABORT, "slow")


async def test_a_deadline_shortens_the_limit() -> None:
    slow = Waiting("slow", ABORT)
    async with bench(slow) as on:
        on.ask(deadline=on.clock.now() + 2)
        await entered(slow)
        await on.clock.advance(2)
        assert (await on.answer()).decision == Abstain()


async def test_a_stuck_policy_is_abandoned_and_those_behind_it_are_called_again() -> None:
    innocent, stuck = Waiting("innocent", RESTART), Blocking("stuck")
    async with bench(innocent, stuck) as on:
        on.ask()
        await entered(innocent)
        innocent.answer = Abstain()
        innocent.release()
        await entered(stuck)
        innocent.answer = ABORT
        innocent.entered.clear()
        on.ask()  # waits behind the blocked thread
        await on.clock.advance(10 + GRACE)
        assert set(on.host.disabled) == {"stuck"}
        first = await on.answer()
        assert first.faults == (("stuck", on.host.disabled["stuck"]),)
        await entered(innocent)
        innocent.release()
        assert await on.answer() == Answer(ABORT, "innocent")
        on.came.clear()
        await run_until_idle()
        assert len(on.answers) == 2


async def test_a_quick_policy_that_blocks_the_loop_is_moved_to_the_thread() -> None:
    clock_holder: list[VirtualClock] = []

    def block() -> None:
        clock_holder[0]._now += 5

    policy = Quick("heavy", RESTART, before=block)
    async with bench(policy) as on:
        clock_holder.append(on.clock)
        on.ask()
        on.ask()
        await run_until_idle()
        while len(on.answers) < 2:
            await on.answer()
        assert policy.threads[0] == threading.get_ident() != policy.threads[1]


async def no_await(context: PolicyContext) -> Decision:
    async def inner() -> None:
        await asyncio.sleep(0)

    return Abstain() if callable(inner) else RESTART


async def with_await(context: PolicyContext) -> Decision:
    await asyncio.sleep(0)
    return Abstain()


async def with_context(context: PolicyContext) -> Decision:
    async with cast("Any", context):
        return Abstain()


async def with_loop(context: PolicyContext) -> Decision:
    async for _ in cast("Any", context):
        pass
    return Abstain()


async def with_comprehension(context: PolicyContext) -> Decision:
    return Abstain() if [x async for x in cast("Any", context)] else RESTART


@pytest.mark.parametrize(
    ("function", "suspends"),
    [(no_await, False), (with_await, True), (with_context, True), (with_loop, True), (with_comprehension, True)],
)
def test_whether_a_policy_can_suspend_is_read_from_its_code(function: Callable[..., Any], suspends: bool) -> None:
    assert can_suspend(function) is suspends


def test_a_function_whose_code_cannot_be_read_counts_as_suspending() -> None:
    assert can_suspend(cast("Any", print))


def test_a_good_answer_is_given_back_as_it_is() -> None:
    assert validate_decision(RESTART) == RESTART
    with pytest.raises(InvalidDecisionError):
        validate_decision({"type": "Act"})
