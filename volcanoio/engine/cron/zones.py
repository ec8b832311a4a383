"""Time zones by name. Their data are the tz database's: constant while a process runs, and a replay needs the same."""

from __future__ import annotations

import re
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_PART = re.compile(r"[A-Za-z._0-9+-]{1,14}").fullmatch
UTC = "UTC"


class TimeZoneError(ValueError):
    """A name that is no time zone; the message says which rule it breaks."""


@lru_cache(maxsize=256)
def zone(name: str) -> ZoneInfo:
    """The time zone of that name, "" and UTC alike; raises TimeZoneError.

    `Local` is refused, as it would mean another time on every machine.
    """
    if name in ("", UTC):
        return ZoneInfo(UTC)
    if rule := name_rule(name):
        raise TimeZoneError(rule)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        msg = f'"{name}" is not in the time zone database; give a name such as Europe/Berlin or Etc/UTC'
        raise TimeZoneError(msg) from None


def name_rule(name: str) -> str:
    """The rule of form that a zone's name breaks; "" when it breaks none (Volcano: webhooks/admission/cronjobs)."""
    if name.lower() == "local":
        return '"Local" is another time zone on every machine; give a name such as Europe/Berlin'
    for part in name.split("/"):
        if part in (".", "..") or part.startswith("-") or _PART(part) is None:
            return (
                f'"{part}" in "{name}" is no part of a time zone\'s name: 1 to 14 letters, digits, ".", "-", "_" or '
                '"+", not beginning with "-"'
            )
    return ""
