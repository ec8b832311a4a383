"""Failures of a simulated node, read from its annotations: outages, flapping and a drain.

`sim.volcanoio.dev/not-ready-at: TIME[,for=30s]`, `…/flap: every=60s[,down=20s][,from=TIME][,until=TIME]` and `…/drain:
TIME`. TIME is `now`, an RFC 3339 time, or a duration after the node's creation. During an outage the node's containers
keep running, but the API server receives nothing from it.
"""

import math
import re
from collections.abc import Mapping

import msgspec

from volcanoio.model import names, times
from volcanoio.model.times import epoch, rfc3339

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)")
_NOW = re.compile(r"\bnow\b")
_TIMED = (names.NODE_NOT_READY_AT, names.NODE_FLAP, names.NODE_DRAIN)


class ChaosError(ValueError):
    """The annotation is invalid; the message contains its name and the rule."""


class Flapping(msgspec.Struct, frozen=True, gc=False):
    """From `start` to `until` (epoch seconds) the last `down` seconds of every `every` are an outage."""

    every: float
    down: float
    start: float
    until: float = math.inf

    def out(self, at: float) -> bool:
        """Return whether the node has an outage at a moment."""
        return self.start <= at < self.until and (at - self.start) % self.every >= self.every - self.down

    def next_change(self, at: float) -> float:
        """Return the next time after `at` at which that may change."""
        if at < self.start:
            return self.start
        if at >= self.until:
            return math.inf
        turn = self.start + math.floor((at - self.start) / self.every) * self.every
        moments = (turn + self.every - self.down, turn + self.every, turn + 2 * self.every - self.down)
        return min(self.until, next((m for m in moments if m > at), math.inf))


class NodeFailures(msgspec.Struct, frozen=True, gc=False):
    """Planned failures of a node. Times are epoch seconds, infinite for never."""

    fails_at: float = math.inf
    back_at: float = math.inf
    flapping: Flapping | None = None
    drain_at: float = math.inf

    def out(self, at: float) -> bool:
        """Return whether the node has an outage at a moment."""
        return self.fails_at <= at < self.back_at or (self.flapping is not None and self.flapping.out(at))

    def next_change(self, at: float) -> float:
        """Return the next time after `at` at which something may change; infinite for never."""
        moments = [m for m in (self.fails_at, self.back_at, self.drain_at) if m > at]
        if self.flapping is not None:
            moments.append(self.flapping.next_change(at))
        return min(moments, default=math.inf)


NO_FAILURES = NodeFailures()


def parse_failures(annotations: Mapping[str, str], created: float) -> NodeFailures:
    """Read a node's annotations; raises ChaosError."""
    found: dict[str, object] = {}
    for annotation in _TIMED:
        if annotation not in annotations:
            continue
        try:
            found |= _READERS[annotation](annotations[annotation], created)
        except ValueError as error:
            raise ChaosError(f"annotation {annotation}: {error}") from None
    return msgspec.structs.replace(NO_FAILURES, **found) if found else NO_FAILURES


def without_now(annotations: Mapping[str, str], now: float) -> dict[str, str]:
    """Return the annotations with a time instead of `now`, so that they mean the same after a restart."""
    return {
        key: _NOW.sub(rfc3339(now), annotations[key])
        for key in _TIMED
        if key in annotations and _NOW.search(annotations[key])
    }


def _not_ready(text: str, created: float) -> dict[str, object]:
    when, *more = (part.strip() for part in text.split(","))
    options = _options(more, ("for",))
    at = _time(when, created)
    return {"fails_at": at, "back_at": at + times.parse_duration(options["for"]) if "for" in options else math.inf}


def _flap(text: str, created: float) -> dict[str, object]:
    options = _options([part.strip() for part in text.split(",")], ("every", "down", "from", "until"))
    if "every" not in options:
        raise ValueError(f"{text!r} must say every=DURATION, as in every=60s,down=20s")
    every = times.parse_duration(options["every"])
    down = times.parse_duration(options["down"]) if "down" in options else every / 2
    if not 0 < down < every:
        raise ValueError(f"{text!r}: down must be more than 0 and less than every")
    start = _time(options["from"], created) if "from" in options else created
    until = _time(options["until"], created) if "until" in options else math.inf
    return {"flapping": Flapping(every, down, start, until)}


def _options(parts: list[str], known: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or key not in known:
            raise ValueError(f"{part!r} must be one of {', '.join(f'{each}=…' for each in known)}")
        found[key] = value
    return found


def _time(text: str, created: float) -> float:
    if _RFC3339.fullmatch(text):
        return epoch(text) or 0.0
    try:
        return created + times.parse_duration(text)
    except ValueError:
        msg = f"{text!r} must be now, a time such as 2026-01-31T12:00:00Z, or a duration after the node was made"
        raise ValueError(msg) from None


def _drain(text: str, created: float) -> dict[str, object]:
    return {"drain_at": _time(text.strip(), created)}


_READERS = {names.NODE_NOT_READY_AT: _not_ready, names.NODE_FLAP: _flap, names.NODE_DRAIN: _drain}
