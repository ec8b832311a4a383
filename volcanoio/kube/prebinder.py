"""`PreBinder`: the steps before the binds of a batch: writes, then waiting until objects reach the wanted state.

Either all steps of a batch succeed or none: if one fails, the writes are reverted, unless the wanted state was reached.
Before all steps the PodGroup is read, because watches of different kinds have no common order: pods may be seen before
a change of their PodGroup that was stored first, and would be bound by its old minimum (volcano-sh/volcano#6010).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias, cast

import anyio
import msgspec

from volcanoio.framework.events import Event, Observed
from volcanoio.framework.scheduling_effects import BindRequest, PreBindStep
from volcanoio.kube import requests
from volcanoio.kube.clock import Clock
from volcanoio.kube.errors import ApiError, Conflict, NotFound
from volcanoio.kube.requests import DeleteOptions, PatchOptions
from volcanoio.kube.sender import Sender
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.devices.annotations import lock_time
from volcanoio.model.scheduling import PodGroup
from volcanoio.model.times import rfc3339
from volcanoio.model.workloads import NativePodGroup

Steps: TypeAlias = list[PreBindStep]
Work: TypeAlias = Callable[[BindRequest, Steps], Awaitable[None]]

POLL_INTERVAL = 15.0
"""Seconds after which an object is read again if no event about it arrived."""
AnyPodGroup: TypeAlias = PodGroup | NativePodGroup
"""Volcano's PodGroup, or a native group."""
_ATTEMPTS = 5
"""Attempts to revert a write while other clients change the object."""


class PreBindFailure(NamedTuple):
    """The step that failed and its error; `code` is the HTTP status of a refused write, else 0."""

    bind: BindRequest
    code: int
    message: str


class _StepError(Exception):
    """A step that failed."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class _ChangedError(_StepError):
    """An object that is not as a step requires it, because another client changed it."""


class PreBinder:
    """Runner of pre-bind steps; subscribe `seen` to the bus, so that observed objects resume waiting steps."""

    def __init__(self, sender: Sender, *, clock: Clock) -> None:
        self._sender = sender
        self._clock = clock
        self._waiting: dict[tuple[str, str], set[asyncio.Event]] = {}

    def seen(self, batch: Iterable[Event]) -> None:
        """Handle published events."""
        if self._waiting:
            for event in batch:
                if isinstance(event, Observed):
                    for wake in self._waiting.get((event.resource, event.obj.metadata.key), ()):
                        wake.set()

    async def carry_out(self, binds: Sequence[BindRequest]) -> PreBindFailure | None:
        """Carry out the steps of all binds; returns the first failure, after its writes were reverted."""
        written: Steps = []
        failure = await self._first_failure(binds, self._write_all, written, hurry=False)
        failure = failure or await self._first_failure(binds, self._wait_all, written, hurry=True)
        if failure is not None:
            await self.revert(written)
        return failure

    async def lock(self, bind: BindRequest) -> BindRequest | PreBindFailure:
        """Take the locks of a bind (its steps with `before`) that another bind of ours has.

        They are free once the objects match what `undo` reverts to. Returns the bind with the locks as they were
        written, or why one could not be taken, after the writes were reverted.
        """
        written: Steps = []
        try:
            steps = [await self._take_lock(step, written) if step.before else step for step in bind.prebind]
        except _StepError as error:
            await self.revert(written)
            return PreBindFailure(bind, error.code, str(error))
        return msgspec.structs.replace(bind, prebind=tuple(steps))

    async def _take_lock(self, step: PreBindStep, written: Steps) -> PreBindStep:
        """Write a lock once it is free; if another client takes it first, wait again until the same deadline."""
        deadline = self._clock.monotonic() + step.timeout
        while True:
            await self._wait(msgspec.structs.replace(step, until=step.undo, holds={}), deadline)
            patch = _dated(step.patch, self._clock.now())
            taken = msgspec.structs.replace(step, before=step.undo, patch=patch)
            with suppress(_ChangedError):
                await self._write_if_before(taken, written)
                return taken

    async def changed(self, group: AnyPodGroup) -> tuple[int, str]:
        """Return (0, "") if the stored PodGroup has the uid and the spec of `group`; else a code and what differs."""
        namespace, name, kind = group.metadata.namespace, group.metadata.name, kinds.of(group)
        outcome = await self._sender.send(requests.get(kind, namespace, name))
        if outcome.response is None:
            error = outcome.error
            if isinstance(error, NotFound):
                return 404, f'PodGroup "{namespace}/{name}" is gone'
            return (error.code if error else 0), f'reading PodGroup "{namespace}/{name}": {error}'
        try:
            stored = cast("AnyPodGroup", kind.decode(outcome.response.body))
        except msgspec.DecodeError as error:
            return 0, f'reading PodGroup "{namespace}/{name}": its content cannot be decoded: {error}'
        if stored.metadata.uid != group.metadata.uid:
            return 404, f'PodGroup "{namespace}/{name}" was replaced by another of its name'
        if stored.spec != group.spec:
            return 409, f'PodGroup "{namespace}/{name}" was changed, and the decision was made without that change'
        return 0, ""

    async def revert(self, steps: Sequence[PreBindStep]) -> None:
        """Revert the writes, last first; objects that reached the wanted state or differ from our write stay."""
        for step in reversed(steps):
            for _ in range(_ATTEMPTS):
                try:
                    known = await self._read(step)
                except _StepError:
                    break
                pattern = step.holds or step.patch
                has_undo = step.undo or step.create
                if not has_undo or (step.keeps and matches(known, step.keeps)) or not matches(known, pattern):
                    break
                if step.create:
                    error = await self._delete(step, known)
                else:
                    error = await self._write(step, step.undo, str(known["metadata"].get("resourceVersion", "")))
                if not isinstance(error, Conflict):
                    break

    async def _first_failure(
        self, binds: Sequence[BindRequest], work: Work, written: Steps, *, hurry: bool
    ) -> PreBindFailure | None:
        """Carry out the steps of all binds concurrently; with `hurry` a failure cancels the others between writes."""
        failed: list[PreBindFailure] = []

        async def one(bind: BindRequest) -> None:
            try:
                await work(bind, written)
            except _StepError as error:
                failed.append(PreBindFailure(bind, error.code, str(error)))
                if hurry:
                    tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for bind in binds:
                if bind.prebind:
                    tasks.start_soon(one, bind)
        return failed[0] if failed else None

    async def _write_all(self, bind: BindRequest, written: Steps) -> None:
        for step in bind.prebind:
            if step.create:
                written.append(step)
                await self._create(step)
            elif step.before:
                await self._write_if_before(step, written)
            elif step.patch:
                written.append(step)  # before the response: a cancelled request may have been carried out
                error = await self._write(step, step.patch, step.resource_version)
                if error is not None:
                    raise _StepError(f"writing {_step_object(step)}: {error.message}", error.code)
            elif step.undo:
                written.append(step)  # it reverts what a later step writes

    async def _create(self, step: PreBindStep) -> None:
        """Create the object of a step, unless one that matches `holds` exists."""
        request = requests.create(kinds.BY_RESOURCE[step.resource], step.create)
        if (error := (await self._sender.send(request)).error) is None:
            return
        if error.code != 409 or not matches(await self._read(step), step.holds):
            raise _StepError(f"creating {_step_object(step)}: {error.message}", error.code)

    async def _delete(self, step: PreBindStep, known: Manifest) -> ApiError | None:
        options = DeleteOptions(uid=str(known["metadata"].get("uid", "")))
        request = requests.delete(kinds.BY_RESOURCE[step.resource], step.namespace, step.name, options)
        return (await self._sender.send(request)).error

    async def _write_if_before(self, step: PreBindStep, written: Steps) -> None:
        """Write to an object if it matches `before`; what other clients write to other fields is no obstacle."""
        error: ApiError | None = None
        for attempt in range(_ATTEMPTS):
            known = await self._read(step)
            if attempt and matches(known, step.patch):  # a refused attempt that was carried out before
                return
            if not matches(known, step.before):
                raise _ChangedError(f"{_step_object(step)} was changed by another client", 409)
            if not attempt:
                written.append(step)
            error = await self._write(step, step.patch, str(known["metadata"].get("resourceVersion", "")))
            if not isinstance(error, Conflict):
                break
        if error is not None:
            raise _StepError(f"writing {_step_object(step)}: {error.message}", error.code)

    async def _write(self, step: PreBindStep, patch: Manifest, resource_version: str) -> ApiError | None:
        kind = kinds.BY_RESOURCE[step.resource]
        options = PatchOptions(
            subresource=step.subresource, type=step.patch_type, uid=step.uid, resource_version=resource_version
        )
        request = requests.patch(kind, step.namespace, step.name, patch, options)
        return (await self._sender.send(request)).error

    async def _wait_all(self, bind: BindRequest, _written: Steps) -> None:
        for step in bind.prebind:
            if step.until:
                await self._wait(step, self._clock.monotonic() + step.timeout)

    async def _wait(self, step: PreBindStep, deadline: float) -> None:
        """Return once the object has the wanted state; it fails at `deadline` (seconds of the monotonic clock)."""
        key = step.resource, f"{step.namespace}/{step.name}" if step.namespace else step.name
        wake = asyncio.Event()
        self._waiting.setdefault(key, set()).add(wake)
        try:
            while True:
                wake.clear()
                known = await self._read(step)
                if (text := next((text for text, bad in step.fails.items() if matches(known, bad)), None)) is not None:
                    raise _StepError(f"{_step_object(step)}: {text}")
                if matches(known, step.until):
                    return
                if not matches(known, step.holds):
                    raise _StepError(f"{_step_object(step)} no longer has what was written to it")
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    raise _StepError(f"timed out waiting for {_step_object(step)} after {step.timeout:g} seconds")
                await self._wake_or(wake, min(left, POLL_INTERVAL))
        finally:
            waiting = self._waiting[key]
            waiting.discard(wake)
            if not waiting:
                del self._waiting[key]

    async def _wake_or(self, wake: asyncio.Event, seconds: float) -> None:
        async def later() -> None:
            await self._clock.idle(seconds)
            wake.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(later)
            await wake.wait()
            tasks.cancel_scope.cancel()

    async def _read(self, step: PreBindStep) -> Manifest:
        """Read the object from the server."""
        outcome = await self._sender.send(requests.get(kinds.BY_RESOURCE[step.resource], step.namespace, step.name))
        if outcome.response is None:
            error = outcome.error
            if isinstance(error, NotFound):
                raise _StepError(f"{_step_object(step)} is gone", 404)
            raise _StepError(f"reading {_step_object(step)}: {error.message if error else 'no answer'}")
        known: Manifest = msgspec.json.decode(outcome.response.body)
        if step.uid and known.get("metadata", {}).get("uid") != step.uid:
            raise _StepError(f"{_step_object(step)} was replaced by another of its name", 404)
        return known


def matches(value: Any, pattern: Any) -> bool:
    """Return whether a value contains everything that a pattern requires (see `PreBindStep`)."""
    if isinstance(pattern, dict):
        fields = {} if value is None else value
        return isinstance(fields, dict) and all(matches(fields.get(key), wanted) for key, wanted in pattern.items())
    if isinstance(pattern, (list, tuple)):
        return isinstance(value, list) and all(any(matches(each, wanted) for each in value) for wanted in pattern)
    return bool(value) if pattern is True else bool(value == pattern)


def _dated(patch: Manifest, now: float) -> Manifest:
    """Return the patch of a lock with the time `now` in place of that of the decision, with which its value begins."""
    metadata: Manifest = patch.get("metadata", {})
    annotations = {
        name: text if lock_time(text) is None else rfc3339(now) + text[len(text.partition(",")[0]) :]
        for name, text in metadata.get("annotations", {}).items()
    }
    return {**patch, "metadata": {**metadata, "annotations": annotations}}


def _step_object(step: PreBindStep) -> str:
    name = f"{step.namespace}/{step.name}" if step.namespace else step.name
    return f'{kinds.BY_RESOURCE[step.resource].kind} "{name}"'
