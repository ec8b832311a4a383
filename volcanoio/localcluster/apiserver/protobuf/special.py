"""Types whose JSON form is not that of their protobuf fields (k8s.io/apimachinery, apiextensions-apiserver)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from volcanoio.localcluster.apiserver.objects import decode as decode_json
from volcanoio.localcluster.apiserver.protobuf.wire import WireError, fields

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SIGN: Final = 1 << 63


def signed(value: int) -> int:
    """A 64-bit number in two's complement."""
    return value - (_SIGN << 1) if value & _SIGN else value


def _moment(data: bytes) -> tuple[datetime, int] | None:
    """Second and nanoseconds of `{1: seconds, 2: nanos}`; None for the zero time, which has no fields."""
    found = {number: value for number, _, value in fields(data)}
    if not found:
        return None
    seconds, nanos = found.get(1, 0), found.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int):
        raise WireError("a time is not made of numbers")
    try:
        return _EPOCH + timedelta(seconds=signed(seconds)), nanos
    except OverflowError:
        raise WireError(f"a time {signed(seconds)} seconds from 1970 is out of range") from None


def _time(data: bytes) -> str | None:
    moment = _moment(data)
    return None if moment is None else f"{moment[0]:%Y-%m-%dT%H:%M:%SZ}".rjust(20, "0")


def _micro_time(data: bytes) -> str | None:
    moment = _moment(data)
    return None if moment is None else f"{moment[0]:%Y-%m-%dT%H:%M:%S}.{moment[1] // 1000:06}Z".rjust(27, "0")


def _quantity(data: bytes) -> str:
    return next((_text(value) for number, _, value in fields(data) if number == 1), "") or "0"


def _int_or_string(data: bytes) -> int | str:
    found = {number: value for number, _, value in fields(data)}
    if found.get(1, 0) == 1:
        return _text(found.get(3, b""))
    number = found.get(2, 0)
    if not isinstance(number, int):
        raise WireError("an integer is sent as text")
    return signed(number)


def _raw(data: bytes) -> Any:
    raw = next((value for number, _, value in fields(data) if number == 1), b"")
    if not isinstance(raw, bytes):
        raise WireError("JSON is sent as a number")
    return decode_json(raw) if raw else None


def _text(value: int | bytes) -> str:
    if not isinstance(value, bytes):
        raise WireError("a text is sent as a number")
    return value.decode(errors="replace")


PLAIN: Final[dict[str, Callable[[bytes], Any]]] = {
    "Time": _time,
    "MicroTime": _micro_time,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Raw": _raw,
}
"""Readers of the types that hold no messages; None means not set."""
