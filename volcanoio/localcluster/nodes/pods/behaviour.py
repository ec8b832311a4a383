"""The simulated behaviour of a pod: read once from annotations and command, it gives the plan of each container start.

Annotations: `volcanoio.model.names`; kwok's annotations keep their meaning. Durations are in seconds of the cluster.
"""

from __future__ import annotations

import math
import random
import re
import shlex
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from volcanoio.localcluster.nodes.pods.probes import PASSING, Outcomes, parse_outcome
from volcanoio.model import names, quantity, times
from volcanoio.model.core import Container, Pod

DEFAULT_RUN = 10.0
DEFAULT_START_LATENCY = 0.2
DEFAULT_STOP = 0.1
INIT_RUN = 0.1
NEVER = math.inf
_Read = TypeVar("_Read")

_UNIFORM = re.compile(r"uniform\(\s*([^,\s]+)\s*,\s*([^)\s]+)\s*\)")
_SLOW_PULL = re.compile(r"slow\(\s*([^)\s]+)\s*\)")
_SLEEP = re.compile(r"\bsleep\s+(infinity|\d+(?:\.\d+)?)([smhd]?)\b")
_ENDLESS = re.compile(
    r"\b(?:while\s+(?:true\b|:|\[\s+1\s+\]|\(\(\s*1\s*\)\))|until\s+false\b|for\s*\(\(\s*;\s*;\s*\)\))\s*[;\n]\s*do\b"
)
"""The head of a shell loop whose condition does not end it."""
_DO_OR_DONE = re.compile(r"(?<![^\s;&|({])do(?:ne)?(?![^\s;&|)}])")
_LEAVES = re.compile(r"\b(?:break|exit|return)\b")
_BACKGROUND = re.compile(r"[\s)}]*&(?!&)")
_SLEEP_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class BehaviourError(ValueError):
    """An annotation that cannot be read; the text names it and the rule."""


class Span(msgspec.Struct, frozen=True, gc=False):
    """A duration, or a range from which one is drawn; NEVER has no end."""

    low: float
    high: float

    def draw(self, seed: str) -> float:
        """Return the duration; the same seed gives the same one."""
        return self.low if self.low == self.high else random.Random(seed).uniform(self.low, self.high)


class Plan(msgspec.Struct, frozen=True, gc=False):
    """Plan of one start of a container: its duration, and how it ends.

    `evicted` contains the reason when the pod ends with it.
    """

    duration: float
    exit_code: int = 0
    reason: str = "Completed"
    message: str = ""
    evicted: str = ""


class Failure(msgspec.Struct, frozen=True, gc=False):
    """A container failure as kwok's annotations describe it.

    It has the container (all when empty), the exit, and the delay (None: as planned).
    """

    container: str = ""
    exit_code: int = 1
    reason: str = "Error"
    message: str = ""
    delay: float | None = None

    def plan(self, container: Container, duration: float) -> Plan | None:
        """Return the plan of a container with this failure; None without one."""
        if self.container not in ("", container.name):
            return None
        return Plan(duration if self.delay is None else self.delay, self.exit_code, self.reason, self.message)


class Behaviour(msgspec.Struct, frozen=True, gc=False):
    """A pod's behaviour.

    `run` None means: as the command or restart policy says. `fail_attempts` counts starts of the pod's place in its
    job, also over recreated pods. `pull` is the time an image takes, NEVER when it cannot be pulled. `peak_memory` and
    `peak_storage` are in bytes; `oom_at` is the part of the run after which the peaks are reached.
    """

    seed: str
    run: Span | None = None
    exit_code: int = 0
    fail_attempts: int = 0
    peak_memory: int = 0
    peak_storage: int = 0
    oom_at: float = 0.5
    start_latency: float = DEFAULT_START_LATENCY
    stop: float = DEFAULT_STOP
    pull: float = 0.0
    probes: Outcomes = PASSING
    failure: Failure | None = None
    init_failure: Failure | None = None

    def plan(self, pod: Pod, container: Container, attempt: int) -> Plan:
        """Return the plan of the attempt-th start (from 1) of a main container."""
        duration = self._duration(pod, container).draw(f"{self.seed}/{container.name}/{attempt}")
        if self.failure is not None and (plan := self.failure.plan(container, duration)) is not None:
            return plan
        if self.peak_memory or self.peak_storage:
            reached = (DEFAULT_RUN if duration == NEVER else duration) * self.oom_at
            if _exceeds(self.peak_memory, container, "memory"):
                return Plan(reached, 137, "OOMKilled")
            if _exceeds(self.peak_storage, container, "ephemeral-storage"):
                limit = container.resources.limits["ephemeral-storage"]
                message = f'Container {container.name} exceeded its local ephemeral storage limit "{limit}". '
                return Plan(reached, 137, "Error", evicted=message)
        code = self.exit_code
        if self.fail_attempts:
            code = (code or 1) if attempt <= self.fail_attempts else 0
        if code and duration == NEVER and attempt <= self.fail_attempts:
            duration = DEFAULT_RUN
        return Plan(duration, code, "Error" if code else "Completed")

    def _duration(self, pod: Pod, container: Container) -> Span:
        if self.run is not None:
            return self.run
        slept = sleep_of(container)
        if slept is not None:
            return Span(slept, slept)
        default = NEVER if pod.spec.restart_policy == "Always" else DEFAULT_RUN
        return Span(default, default)


def _exceeds(peak: int, container: Container, resource: str) -> bool:
    limit = container.resources.limits.get(resource)
    return bool(peak) and limit is not None and peak > quantity.value(limit)


def init_plan(container: Container, behaviour: Behaviour) -> Plan:
    """Return the plan of an init container: it runs as long as its command sleeps.

    Sidecars run until the pod ends.
    """
    if container.restart_policy == "Always":
        return Plan(NEVER)
    slept = sleep_of(container)
    duration = INIT_RUN if slept is None else slept
    failure = behaviour.init_failure
    return (failure.plan(container, duration) if failure is not None else None) or Plan(duration)


def sleep_of(container: Container) -> float | None:
    """Return the seconds of the first `sleep N` in a command, None without one.

    NEVER for `sleep infinity`, and for a shell loop that nothing leaves, whatever it sleeps in each round.
    """
    text = " ".join((*container.command, *container.args))
    if any(_runs_on(text, loop.end()) for loop in _ENDLESS.finditer(text)):
        return NEVER
    match = _SLEEP.search(text)
    if match is None:
        return None
    return NEVER if match[1] == "infinity" else float(match[1]) * _SLEEP_UNITS[match[2]]


def _runs_on(text: str, start: int) -> bool:
    """Return whether the loop at this body runs in the foreground and has no exit."""
    depth = 1
    for word in _DO_OR_DONE.finditer(text, start):
        depth += 1 if word[0] == "do" else -1
        if depth == 0:
            return not _LEAVES.search(text, start, word.start()) and not _BACKGROUND.match(text, word.end())
    return False


def command_line(container: Container) -> str:
    """Return the command and its arguments in shell syntax; the image when there is none."""
    return shlex.join((*container.command, *container.args)) or container.image


def behaviour_of(pod: Pod, seed: int, start_latency: float = DEFAULT_START_LATENCY) -> Behaviour:
    """Read a pod's annotations. Raises BehaviourError for the first that cannot be read."""
    own_seed = f"{seed}/{pod.metadata.uid}"
    found = pod.metadata.annotations
    values: dict[str, object] = {"start_latency": start_latency}
    if found:
        for annotation, (field, read) in _READERS.items():
            if (text := found.get(annotation)) is not None:
                values[field] = _read_annotation(annotation, read, text)
        if "run" not in values and (span := _kwok_span(found, names.KWOK_COMPLETE_DELAY, names.KWOK_COMPLETE_JITTER)):
            values["run"] = span
        if span := _kwok_span(found, names.KWOK_READY_DELAY, names.KWOK_READY_JITTER):
            values["start_latency"] = span.draw(f"{own_seed}/ready")
        outcomes = {
            field: _read_annotation(annotation, parse_outcome, found[annotation])
            for annotation, field in _PROBES.items()
            if annotation in found
        }
        if outcomes:
            values["probes"] = msgspec.structs.replace(PASSING, **outcomes)
    labels = pod.metadata.labels
    for label, field in ((names.KWOK_FAILED, "failure"), (names.KWOK_INIT_FAILED, "init_failure")):
        if labels.get(label) == "true":
            values[field] = _failure(found, label)
    return Behaviour(own_seed, **values)  # type: ignore[arg-type]  # each read by the reader of its field


def _read_annotation(annotation: str, read: Callable[[str], _Read], text: str) -> _Read:
    """Return the parsed annotation; raises BehaviourError that names it."""
    try:
        return read(text.strip())
    except ValueError as error:
        msg = f"annotation {annotation}: {error}"
        raise BehaviourError(msg) from None


def _failure(found: Mapping[str, str], label: str) -> Failure:
    """Return the failure that kwok's annotations describe under a chaos label."""
    values = {
        field: _read_annotation(f"{label}/{key}", read, found[f"{label}/{key}"])
        for key, (field, read) in _FAILURE.items()
        if f"{label}/{key}" in found
    }
    return msgspec.structs.replace(Failure(), **values)


def _kwok_span(found: Mapping[str, str], delay: str, jitter: str) -> Span | None:
    """Return the span of kwok's `delay` and `jitter-delay` of a stage."""
    if delay not in found:
        return None
    low = _read_annotation(delay, times.parse_duration, found[delay])
    high = _read_annotation(jitter, times.parse_duration, found[jitter]) if jitter in found else low
    return Span(low, max(low, high))


def _span(text: str) -> Span:
    if text == "never":
        return Span(NEVER, NEVER)
    if match := _UNIFORM.fullmatch(text):
        low, high = times.parse_duration(match[1]), times.parse_duration(match[2])
        if low > high:
            msg = f"{text!r}: the first bound must not exceed the second"
            raise ValueError(msg)
        return Span(low, high)
    try:
        exact = times.parse_duration(text)
    except ValueError as error:
        msg = f"{error}; or uniform(5s,20s), or never"
        raise ValueError(msg) from None
    return Span(exact, exact)


def _pull(text: str) -> float:
    if text in ("ok", "error"):
        return 0.0 if text == "ok" else NEVER
    if match := _SLOW_PULL.fullmatch(text):
        return times.parse_duration(match[1])
    msg = f"{text!r} must be ok, slow(20s) or error"
    raise ValueError(msg)


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"\d{1,9}", text) or not low <= int(text) <= high:
            msg = f"{text!r} must be a whole number from {low} to {high}"
            raise ValueError(msg)
        return int(text)

    return read


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = NEVER
    if not 0 <= value <= 1:
        msg = f"{text!r} must be a number from 0 to 1"
        raise ValueError(msg)
    return value


_READERS: dict[str, tuple[str, Callable[[str], object]]] = {
    names.RUN_DURATION: ("run", _span),
    names.EXIT_CODE: ("exit_code", _whole(0, 255)),
    names.FAIL_ATTEMPTS: ("fail_attempts", _whole(0, 1_000_000)),
    names.PEAK_MEMORY: ("peak_memory", quantity.value),
    names.PEAK_STORAGE: ("peak_storage", quantity.value),
    names.OOM_AT: ("oom_at", _fraction),
    names.STOP_DURATION: ("stop", times.parse_duration),
    names.IMAGE_PULL: ("pull", _pull),
}
"""Annotation → field of Behaviour and how its text is read."""
_PROBES = {names.STARTUP_PROBE: "startup", names.READINESS_PROBE: "readiness", names.LIVENESS_PROBE: "liveness"}
_FAILURE: dict[str, tuple[str, Callable[[str], object]]] = {
    "container-name": ("container", str),
    "exit-code": ("exit_code", _whole(0, 255)),
    "reason": ("reason", str),
    "message": ("message", str),
    "delay": ("delay", times.parse_duration),
}
"""kwok's annotations under a chaos label → field of Failure and how its text is read."""


def attempt_key(pod: Pod) -> str:
    """Return the key for the count of a pod's starts: its place in its job, or owner and name."""
    owner = pod.metadata.controller
    holder = owner.uid if owner is not None else pod.metadata.namespace
    task = pod.metadata.annotations.get(names.TASK_SPEC)
    if task is None:
        return f"{holder}/{pod.metadata.name}"
    return f"{holder}/{task}/{pod.metadata.annotations.get(names.TASK_INDEX, '')}"
