"""A limit of CPU time for one input, which turns a hang into a failure that hypothesis can shrink."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any

CPU_SECONDS = 30.0
"""A hundred times what the largest inputs take. Time in which the process waits or others run does not count."""


class HangError(BaseException):
    """An input took more CPU time than any should; no `except Exception` of the code under test keeps it."""


@contextmanager
def cpu_limit(seconds: float = CPU_SECONDS) -> Iterator[None]:
    """Raise HangError in the block after so many seconds of this process's CPU time; on the main thread only.

    Python code and `re` are interrupted. Other C code is not: the time limit of the test then ends the run.
    """

    def end(_: int, frame: FrameType | None) -> None:
        where = "" if frame is None else f" in {frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"
        raise HangError(f"no end after {seconds:g} s of CPU time{where}")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def limited(test: Callable[..., Any]) -> Callable[..., Any]:
    """Return a test that ends with HangError for an input that takes too long."""

    @wraps(test)
    def run(*arguments: Any, **named: Any) -> Any:
        with cpu_limit():
            return test(*arguments, **named)

    return run
