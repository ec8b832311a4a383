"""What commands share that run until a signal ends them."""

from __future__ import annotations

import signal

from volcanoio.runtime import logs

_LEVELS = ("warning", "info", "debug")
"""Log level by how often -v was given."""


def set_up_logs(verbose: int) -> None:
    """Logs on stderr, as many as -v asks for."""
    logs.set_up(level=_LEVELS[min(verbose, len(_LEVELS) - 1)])


def ending_signals() -> tuple[signal.Signals, ...]:
    """Signals besides Ctrl-C that end a command: SIGTERM, and SIGHUP unless it is ignored as under nohup."""
    closed = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return (signal.SIGTERM, signal.SIGHUP) if closed else (signal.SIGTERM,)
