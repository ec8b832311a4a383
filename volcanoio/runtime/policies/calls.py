"""Calls of lifecycle policies: on the main loop if they cannot suspend, else on a thread that can be abandoned.

The loop of a coroutine is chosen before the coroutine is created. A coroutine function whose code object has no
suspension point either returns or raises when it is driven by one `send(None)`, so it is called on the main loop.
Every other one is created and finished on the policy thread. The test is conservative: a decorated or compiled
function, whose code cannot be read, counts as suspending.

Python cannot end a thread from outside. A thread that runs Python code can be made to raise; one that waits in a system
call uses no CPU. All threads are daemonic, and results of an abandoned one are dropped.
"""

from __future__ import annotations

import asyncio
import ctypes
import dis
import math
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from types import coroutine
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from volcanoio.framework.decisions import Act, Decision, DecisionBase, Hold
from volcanoio.framework.lifecycle import LifecyclePolicy, PolicyContext

Result = TypeVar("Result")


class Abandoned(BaseException):
    """Raised in an abandoned thread; no `except Exception` of third-party code catches it."""


class OverrunError(TimeoutError):
    """Code did not return within its limit."""


def interrupt(thread: threading.Thread) -> None:
    """Raise Abandoned in a thread at its next line of Python; has no effect on a thread that has ended."""
    if thread.ident is not None and thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Abandoned))


class BoundedCall(Generic[Result]):
    """One call on its own thread. `done` is called on that thread after it returned, unless it was abandoned."""

    def __init__(self, call: Callable[[], Result], name: str, done: Callable[[], None] = lambda: None) -> None:
        self._call = call
        self._done = done
        self._result: list[Result] = []
        self.error: BaseException | None = None
        self._ended = threading.Event()
        self._given_up = False
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def wait(self, limit: float) -> Result:
        """Return the result or raise the call's exception; abandon it and raise OverrunError after `limit` seconds."""
        if not self._ended.wait(limit):
            self.give_up()
            raise OverrunError(f"took longer than its limit of {limit:g} s")
        return self.result()

    def result(self) -> Result:
        """Return the result or raise the exception of a call that has ended."""
        if self.error is not None:
            raise self.error
        return self._result[0]

    def give_up(self) -> None:
        """Abandon the call."""
        self._given_up = True
        interrupt(self.thread)

    def _run(self) -> None:
        try:
            self._result.append(self._call())
        except BaseException as error:  # third-party code may raise anything
            self.error = error
        self._ended.set()
        if not self._given_up:
            self._done()


_SUSPENDING = frozenset({"GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "SEND", "YIELD_FROM", "ASYNC_GEN_WRAP"})
"""Instructions of `await`, `async for` and `async with` in CPython 3.11 to 3.14 (module dis)."""


class InvalidDecisionError(TypeError):
    """A policy returned something that is not a Decision."""


def can_suspend(decide: Callable[..., Any]) -> bool:
    """Return whether a call of this coroutine function may suspend; True if that is unknown."""
    code = getattr(getattr(decide, "__func__", decide), "__code__", None)
    if code is None:
        return True
    return any(instruction.opname in _SUSPENDING for instruction in dis.get_instructions(code))


def decide_inline(policy: LifecyclePolicy, context: PolicyContext) -> Decision:
    """Return the answer of a policy that cannot suspend; raises its exception, or InvalidDecisionError."""
    call: Coroutine[Any, Any, Any] = policy.decide(context)
    try:
        call.send(None)
    except StopIteration as end:
        return validate_decision(end.value)
    finally:
        call.close()
    raise InvalidDecisionError("suspended although its code has no await")


def validate_decision(answer: Any) -> Decision:
    """Return the answer if it is a Decision whose fields have their types; raises InvalidDecisionError."""
    if not isinstance(answer, DecisionBase):
        msg = f"answered {type(answer).__name__}, which is not a Decision; return Abstain() to say nothing"
        raise InvalidDecisionError(msg)
    try:
        decision: Decision = msgspec.convert(msgspec.to_builtins(answer), Decision)
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidDecisionError(f"answered a malformed {type(answer).__name__}: {error}") from None
    match decision:
        case Act(after=seconds) if not (math.isfinite(seconds) and seconds >= 0):
            raise InvalidDecisionError(f"answered Act with after={seconds}; give seconds from now, 0 or more")
        case Hold(until=moment) if not math.isfinite(moment):
            raise InvalidDecisionError(f"answered Hold with until={moment}; give epoch seconds")
    return decision


def fault_text(error: BaseException) -> str:
    """Return a fault in the form that is shown on the job."""
    if isinstance(error, InvalidDecisionError):
        return str(error)
    text = str(error)
    return f"raised {type(error).__name__}: {text}" if text else f"raised {type(error).__name__}"


Outcome: TypeAlias = tuple[Any, BaseException | None]
"""Result of `decide`, or its exception."""
OutcomeCallback: TypeAlias = Callable[[int, Outcome], None]


class PolicyThread:
    """Thread that runs calls by ticket; `heard(ticket, outcome)` is called on the creator's loop unless abandoned."""

    def __init__(self, heard: OutcomeCallback) -> None:
        self._heard = heard
        self._home = asyncio.get_running_loop()
        self._loop = asyncio.new_event_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._abandoned = False
        self.running: LifecyclePolicy | None = None
        """The policy whose code occupies the thread now; None between steps."""
        self._thread = threading.Thread(target=self._run, name="lifecycle-policies", daemon=True)
        self._thread.start()

    def submit(self, ticket: int, policy: LifecyclePolicy, context: PolicyContext) -> None:
        """Call a policy; called on the creator's loop."""
        self._loop.call_soon_threadsafe(self._begin, ticket, policy, context)

    def cancel(self, ticket: int) -> None:
        """Cancel a call; its outcome is the cancellation."""
        self._loop.call_soon_threadsafe(self._cancel, ticket)

    def abandon(self) -> None:
        """Drop all later outcomes, and let the thread end when its code returns."""
        self._abandoned = True
        self._loop.call_soon_threadsafe(self._loop.stop)

    def join(self, seconds: float) -> bool:
        """Wait for the abandoned thread to end; returns whether it did. Blocks: call it on a thread."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def interrupt(self) -> bool:
        """Raise in the code that the abandoned thread runs; returns False if the thread has ended."""
        if not self._thread.is_alive():
            return False
        interrupt(self._thread)
        return True

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        with suppress(Abandoned):  # an interrupt that arrived after the policy had released the thread
            self._loop.run_forever()
        try:
            for task in self._tasks.values():
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*self._tasks.values(), return_exceptions=True))
        finally:
            self._loop.close()

    def _begin(self, ticket: int, policy: LifecyclePolicy, context: PolicyContext) -> None:
        self._tasks[ticket] = self._loop.create_task(self._call(ticket, policy, context))

    def _cancel(self, ticket: int) -> None:
        if task := self._tasks.get(ticket):
            task.cancel()

    async def _call(self, ticket: int, policy: LifecyclePolicy, context: PolicyContext) -> None:
        outcome: Outcome
        try:
            outcome = (await self._watched(policy, context), None)
        except BaseException as error:
            outcome = (None, error)
        self._tasks.pop(ticket, None)
        if not self._abandoned:
            try:
                self._home.call_soon_threadsafe(self._deliver, ticket, outcome)
            except RuntimeError:  # the creator's loop is closed: there is no receiver
                return

    def _deliver(self, ticket: int, outcome: Outcome) -> None:
        if not self._abandoned:  # on the creator's loop, so it cannot change meanwhile
            self._heard(ticket, outcome)

    @coroutine
    def _watched(self, policy: LifecyclePolicy, context: PolicyContext) -> Generator[Any, Any, Any]:
        """Await decide, and record the policy while its code runs, so that a blocked thread can be attributed to it."""
        call = None
        send: Callable[..., Any] | None = None
        argument: Any = None
        while True:
            self.running = policy
            try:
                if call is None:
                    call = policy.decide(context)
                    send = call.send
                assert send is not None
                waiting = send(argument)
            except StopIteration as end:
                return end.value
            finally:
                self.running = None
            try:
                argument = yield waiting
                send = call.send
            except BaseException as error:
                argument, send = error, call.throw
