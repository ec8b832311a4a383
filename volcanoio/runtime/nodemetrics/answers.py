"""Answers of metrics servers: JSON of a known form, or an error that says whose answer is wrong and how."""

from __future__ import annotations

from math import isfinite
from typing import Any, TypeAlias, TypeVar

import msgspec

from volcanoio.kube.transport import Response

Percent: TypeAlias = dict[str, float]
"""Percent (0 to 100) by node."""
Form = TypeVar("Form")


class MetricsError(Exception):
    """An answer that cannot be used."""


def decoded(answer: Response, form: type[Form], who: str) -> Form:
    """The answer in its form; raises MetricsError."""
    if not answer.ok:
        msg = f"{who} answered HTTP {answer.status}: {answer.body[:200].decode(errors='replace')}; look into its log"
        raise MetricsError(msg)
    try:
        return msgspec.json.decode(answer.body, type=form)
    except msgspec.DecodeError as error:
        msg = f"{who} answered what its API does not say: {error}; check metrics.address"
        raise MetricsError(msg) from error


def number(text: Any) -> float | None:
    """A finite number, None for anything else (Prometheus says NaN where there is no data)."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if isfinite(value) else None
