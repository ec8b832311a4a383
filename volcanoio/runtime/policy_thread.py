"""The one thread on which suspending lifecycle policies run, with its own event loop, so that none can stop ours.

The thread is daemonic and can be abandoned: what an abandoned one still answers is not heard.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from types import coroutine
from typing import Any, TypeAlias

from volcanoio.framework.lifecycle import LifecyclePolicy, PolicyContext
from volcanoio.runtime.runaway import GivenUp, interrupt

Outcome: TypeAlias = tuple[Any, BaseException | None]
"""What decide returned, or what it raised."""
Heard: TypeAlias = Callable[[int, Outcome], None]


class PolicyThread:
    """Runs calls by ticket. `heard(ticket, outcome)` is called on the loop that made this object, unless abandoned."""

    def __init__(self, heard: Heard) -> None:
        self._heard = heard
        self._home = asyncio.get_running_loop()
        self._loop = asyncio.new_event_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._abandoned = False
        self.running: LifecyclePolicy | None = None
        """The policy whose code holds the thread right now; None between steps."""
        self._thread = threading.Thread(target=self._run, name="lifecycle-policies", daemon=True)
        self._thread.start()

    def submit(self, ticket: int, policy: LifecyclePolicy, context: PolicyContext) -> None:
        """Call a policy; called on the home loop."""
        self._loop.call_soon_threadsafe(self._begin, ticket, policy, context)

    def cancel(self, ticket: int) -> None:
        """Cancel a call, which then is heard as cancelled."""
        self._loop.call_soon_threadsafe(self._cancel, ticket)

    def abandon(self) -> None:
        """Hear it no more, and let it end when it can."""
        self._abandoned = True
        self._loop.call_soon_threadsafe(self._loop.stop)

    def join(self, seconds: float) -> bool:
        """Wait for the abandoned thread to end; whether it did. Blocks: call it off the loop."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def interrupt(self) -> bool:
        """Have what the abandoned thread runs raise; False when it has ended."""
        if not self._thread.is_alive():
            return False
        interrupt(self._thread)
        return True

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        with suppress(GivenUp):  # an interrupt that came when the policy had just let go
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
            except RuntimeError:  # the home loop is closed: nobody is left to hear it
                return

    def _deliver(self, ticket: int, outcome: Outcome) -> None:
        if not self._abandoned:  # on the home loop, so it cannot change meanwhile
            self._heard(ticket, outcome)

    @coroutine
    def _watched(self, policy: LifecyclePolicy, context: PolicyContext) -> Generator[Any, Any, Any]:
        """Await decide, noting while its code runs whose it is: so a blocked thread can be blamed on someone."""
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
