"""How commands fail: one line that says what, why and what to do, and an exit code scripts can use."""

from __future__ import annotations

import io
import sys
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of `volcanoio`; `vcctl` keeps Volcano's 255."""

    OK = 0
    JOB_FAILED = 1
    USAGE = 2
    REJECTED = 3
    TIMEOUT = 4
    UNREACHABLE = 5


class CommandError(Exception):
    """A command cannot go on. The message names cause and next step."""

    def __init__(self, message: str, code: int = ExitCode.JOB_FAILED) -> None:
        super().__init__(message)
        self.code = code


def sole_error(error: BaseException) -> BaseException:
    """The one error that task groups wrapped; the group itself when there are more."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def speak_any_encoding() -> None:
    """Characters that a terminal's encoding lacks become question marks instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
