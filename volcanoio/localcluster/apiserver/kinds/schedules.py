"""What a CronJob's schedule may say: five fields as crontab's, or a name such as `@daily` (Kubernetes: robfig/cron)."""

from __future__ import annotations

from typing import Final, NamedTuple

_NAMED: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class _Field(NamedTuple):
    """The numbers one field takes, and names for them."""

    least: int
    most: int
    names: dict[str, int] = {}


_FIELDS: Final = (
    _Field(0, 59),
    _Field(0, 23),
    _Field(1, 31),
    _Field(1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    _Field(0, 6, {name: number for number, name in enumerate(_DAYS)}),
)


class ScheduleError(ValueError):
    """A schedule is none; says why."""


def schedule_rule(text: str) -> str:
    """What is wrong with a schedule; empty when nothing is."""
    if text.startswith(("TZ=", "CRON_TZ=")):
        text = text.partition(" ")[2].strip()
    if text.startswith("@"):
        good = text in _NAMED or text.startswith("@every ")
        return "" if good else f"unrecognized descriptor: {text}"
    parts = text.split()
    if len(parts) != len(_FIELDS):
        return f"expected exactly {len(_FIELDS)} fields, found {len(parts)}: [{' '.join(parts)}]"
    try:
        for part, field in zip(parts, _FIELDS, strict=True):
            for expression in part.split(","):
                if expression:
                    _check(expression, field)
    except ScheduleError as error:
        return str(error)
    return ""


def _check(expression: str, field: _Field) -> None:
    """One `low-high/step`; raises ScheduleError."""
    span, *steps = expression.split("/")
    low, *high = span.split("-")
    if low in {"*", "?"}:
        start, end = field.least, field.most
    else:
        start = end = _number(low, field)
        if len(high) > 1:
            raise ScheduleError(f"too many hyphens: {expression}")
        if high:
            end = _number(high[0], field)
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {expression}")
    step = _number(steps[0], _Field(0, 0)) if steps else 1
    if steps and not high:
        end = field.most
    for broken, rule in (
        (start < field.least, f"beginning of range ({start}) below minimum ({field.least})"),
        (end > field.most, f"end of range ({end}) above maximum ({field.most})"),
        (start > end, f"beginning of range ({start}) beyond end of range ({end})"),
        (step == 0, "step of range should be a positive number"),
    ):
        if broken:
            raise ScheduleError(f"{rule}: {expression}")


def _number(text: str, field: _Field) -> int:
    named = field.names.get(text.lower())
    if named is not None:
        return named
    try:
        number = int(text)
    except ValueError:
        rule = f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
        raise ScheduleError(rule) from None
    if number < 0:
        raise ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number
