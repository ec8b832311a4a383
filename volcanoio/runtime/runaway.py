"""Code of others on threads that can be given up: what does not come back in time is not waited for, and stopped.

A thread cannot be ended from outside. One that runs Python code can be made to raise, and one that waits in a system
call costs nothing but itself; both kinds are daemonic, so that no process waits for them at its end.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class GivenUp(BaseException):
    """Raised in a thread that was given up: no `except Exception` of others catches it."""


class OverrunError(TimeoutError):
    """Code that did not come back within its limit."""


def interrupt(thread: threading.Thread) -> None:
    """Make a thread raise GivenUp at its next line of Python; nothing happens to one that has ended."""
    if thread.ident is not None and thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(GivenUp))


class Errand(Generic[Result]):
    """One call on a thread of its own. `done` is called on that thread when it came back, unless it was given up."""

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
        """What the call returned or raised, within `limit` seconds; raises OverrunError, and gives it up, after."""
        if not self._ended.wait(limit):
            self.give_up()
            msg = f"took longer than its limit of {limit:g} s"
            raise OverrunError(msg)
        return self.result()

    def result(self) -> Result:
        """What a call that has ended returned or raised."""
        if self.error is not None:
            raise self.error
        return self._result[0]

    def give_up(self) -> None:
        """Wait for it no more."""
        self._given_up = True
        interrupt(self.thread)

    def _run(self) -> None:
        try:
            self._result.append(self._call())
        except BaseException as error:  # whatever the code of others raises
            self.error = error
        self._ended.set()
        if not self._given_up:
            self._done()
