"""`EffectExecutor`: carries out the effects of reducers, stage by stage, and publishes each outcome as an event."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

import msgspec

from volcanoio.framework.effects import Create, Delete, Effect, LocalEffect, Measure, Measurement, Patch, Record, Stages
from volcanoio.framework.events import EffectFailed, EffectSucceeded, Observed
from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.kube.background_tasks import BackgroundTasks
from volcanoio.kube.errors import ApiError
from volcanoio.kube.event_recorder import EventRecorder
from volcanoio.kube.informer import Publish
from volcanoio.kube.object_writer import ObjectWriter, OwnWrites, Writable
from volcanoio.kube.sender import Outcome, Sender

CONCURRENT_WRITES = 256
"""Limit of concurrent writes of one stage: a few times what a Sender sends, since some wait for a retry.

More tasks than that would only wait.
"""
Local = Callable[[str, str, LocalEffect], None]
"""Receives (controller, key, effect) for effects of the host itself, in their order among the stages."""


@dataclass(frozen=True, slots=True)
class EffectSinks:
    """Receivers of the results of effects.

    `publish` takes the outcome events. `own` folds responses; the changes are published together with, and before, the
    EffectSucceeded. `local` takes the effects that need no request; those have no outcome event here.
    """

    publish: Publish
    own: OwnWrites
    local: Local


class Executor(Protocol):
    """Carries out the steps of reducers: an EffectExecutor, or what records them before it."""

    def submit(self, controller: str, key: str, stages: Stages, cause: int = 0) -> None:
        """Carry out the stages of one step, without waiting; outcomes name `cause`."""
        ...


class EffectExecutor:
    """Executor of effects, used as a context manager: leaving it cancels all work in progress."""

    def __init__(
        self,
        sender: Sender,
        sinks: EffectSinks,
        *,
        recorder: EventRecorder | None = None,
        writable: Writable | None = None,
        probe: Probe | None = None,
    ) -> None:
        self._publish = sinks.publish
        self._local = sinks.local
        self._recorder = recorder
        self._probe: Probe = probe or NoProbe()
        self._under_way = BackgroundTasks()
        self._unfinished: Counter[str] = Counter()
        """Steps whose writes are not finished, by controller."""
        self._closing = False
        self._writer = ObjectWriter(
            sender, sinks.own, self._under_way.start, writable=writable or Writable(), probe=probe
        )

    async def __aenter__(self) -> EffectExecutor:
        """Prepare for `submit`."""
        await self._under_way.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel all work in progress."""
        await self._under_way.__aexit__(kind, error, trace)

    @property
    def steps_under_way(self) -> int:
        """Number of steps (and queued patches) that are not finished."""
        return len(self._under_way)

    async def drain(self) -> None:
        """Drop all further steps, and return once those under way are finished."""
        self._closing = True
        await self._under_way.finished()

    def submit(self, controller: str, key: str, stages: Stages, cause: int = 0) -> None:
        """Start the stages of one step, without waiting for them; drops them after `drain`.

        Local effects before the first stage with writes are carried out before this returns; otherwise this step could
        stop a timer that the next step starts.
        """
        if self._closing:
            return
        step = _Step(self, controller, key, cause)
        for position, stage in enumerate(stages):
            step.carry_out_locally(stage)
            if not step.all_local(stage):
                self._count_unfinished(controller, 1)
                self._under_way.start(self._finish(step, stages[position:]))
                return

    async def _finish(self, step: _Step, stages: Stages) -> None:
        """Carry out the stages of a step that have writes."""
        try:
            await step.run(stages)
        finally:
            self._count_unfinished(step.controller, -1)

    def _count_unfinished(self, controller: str, change: int) -> None:
        self._unfinished[controller] += change
        self._probe.gauge("volcanoio_unfinished_steps", self._unfinished[controller], controller=controller)

    def record(self, effect: Record) -> None:
        """Pass an Event to the recorder, if there is one."""
        if self._recorder is not None:
            self._recorder.record(effect)

    def measure(self, effect: Measure) -> None:
        """Record a metric."""
        match effect.measurement:
            case Measurement.COUNT:
                self._probe.count(effect.name, effect.value, **effect.labels)
            case Measurement.GAUGE:
                self._probe.gauge(effect.name, effect.value, **effect.labels)
            case Measurement.OBSERVE:
                self._probe.observe(effect.name, effect.value, effect.times, **effect.labels)
            case Measurement.FORGET:
                self._probe.forget(effect.name, **effect.labels)

    def keep(self, controller: str, key: str, effect: LocalEffect) -> None:
        """Pass a local effect to the host."""
        self._local(controller, key, effect)

    async def write(self, effect: Create | Patch | Delete) -> tuple[Outcome, list[Observed]]:
        """Carry out one write; returns its outcome and the changes of the caches."""
        return await self._writer.write(effect)

    def publish_success(
        self, step: _Step, effect: Create | Patch | Delete, outcome: Outcome, observed: list[Observed]
    ) -> None:
        """Publish the changes and the success of our effect together."""
        done = EffectSucceeded(
            cause=step.cause,
            controller=step.controller,
            key=step.key,
            effect_id=effect.id,
            object=self._writer.object_of(effect, outcome),
        )
        self._publish([*(msgspec.structs.replace(event, cause=step.cause) for event in observed), done])

    def publish_failure(self, step: _Step, effect: Effect, error: ApiError, dropped: tuple[int, ...]) -> None:
        """Publish that an effect failed, and which effects are dropped because of it."""
        failed = EffectFailed(
            cause=step.cause,
            controller=step.controller,
            key=step.key,
            effect_id=effect.id,
            code=error.code,
            reason=error.reason,
            message=error.message,
            dropped=dropped,
        )
        self._publish([failed])


class _Step:
    """One step of one key with its stages."""

    def __init__(self, executor: EffectExecutor, controller: str, key: str, cause: int) -> None:
        self.executor = executor
        self.controller = controller
        self.key = key
        self.cause = cause
        self._failed = False

    @staticmethod
    def all_local(stage: tuple[Effect, ...]) -> bool:
        return not any(isinstance(effect, Create | Patch | Delete) for effect in stage)

    def carry_out_locally(self, stage: tuple[Effect, ...]) -> None:
        """Carry out the effects of a stage that need no request."""
        for effect in stage:
            if isinstance(effect, Record):
                self.executor.record(effect)
            elif isinstance(effect, Measure):
                self.executor.measure(effect)
            elif isinstance(effect, LocalEffect):
                self.executor.keep(self.controller, self.key, effect)

    async def run(self, stages: Stages) -> None:
        """Carry out the stages in order until one fails; local effects of the first one are done already."""
        for position, stage in enumerate(stages):
            if position:
                self.carry_out_locally(stage)
            writes = [effect for effect in stage if isinstance(effect, Create | Patch | Delete)]
            dropped = tuple(effect.id for later in stages[position + 1 :] for effect in later)
            if len(writes) == 1:
                await self._write(writes[0], dropped)
            elif writes:
                waiting = iter(writes)
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(len(writes), CONCURRENT_WRITES)):
                        group.create_task(self._write_all(waiting, dropped))
            if self._failed:
                return

    async def _write_all(self, waiting: Iterator[Create | Patch | Delete], dropped: tuple[int, ...]) -> None:
        """Carry out the writes of one task one after another."""
        for effect in waiting:
            await self._write(effect, dropped)

    async def _write(self, effect: Create | Patch | Delete, dropped: tuple[int, ...]) -> None:
        outcome, observed = await self.executor.write(effect)
        if outcome.error is None:
            self.executor.publish_success(self, effect, outcome, observed)
            return
        first, self._failed = not self._failed, True
        self.executor.publish_failure(self, effect, outcome.error, dropped if first else ())
