"""Structured log lines on stderr, as JSON or as columns; stdout is left to the output of commands."""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

LEVELS = ("debug", "info", "warning", "error")

_TRACEBACK = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
"""Exceptions are logged without local variables: they are long, and may contain a Secret."""


def set_up(*, form: Literal["json", "console"] = "console", level: str = "info", stream: TextIO | None = None) -> None:
    """Configure structlog, and send the standard library's logs (aiohttp's, asyncio's) to it.

    Raises ValueError for an unknown level or format. Call it once, before anything logs.
    """
    if level not in LEVELS:
        raise ValueError(f'log level "{level}" is unknown; use one of {", ".join(LEVELS)}')
    if form not in ("json", "console"):
        raise ValueError(f'log format "{form}" is unknown; use json or console')
    out = stream or sys.stderr
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    last = _last(form, colors=out.isatty())
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(number, logging.WARNING))  # other libraries log warnings and errors only


def _last(form: str, *, colors: bool) -> list[Processor]:
    if form == "json":
        return [structlog.processors.ExceptionRenderer(_TRACEBACK), _json]
    return [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)]


def _json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    """Return one line of JSON; values without a JSON form are shown as text."""
    return msgspec.json.encode(event, enc_hook=_text).decode()


def _text(value: Any) -> str:
    return str(value)
