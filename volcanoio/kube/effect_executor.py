"""`EffectExecutor`: carries out what reducers ask for, stage by stage, and brings every outcome back as an event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType

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
"""Writes of one stage under way: a few times what a Sender sends, as some may be waiting to be sent again. A task for
each of thousands would only wait its turn."""
Local = Callable[[str, str, LocalEffect], None]
"""Takes (controller, key, effect): the host's own effects, in their place among the stages."""


@dataclass(frozen=True, slots=True)
class EffectSinks:
    """Where results of effects go.

    `publish` takes the outcome events, `own` folds responses: what they changed is published with, and before, the
    EffectSucceeded. `local` is given the effects that never leave the process; those have no outcome event here.
    """

    publish: Publish
    own: OwnWrites
    local: Local


class EffectExecutor:
    """An async context manager: leaving it cancels what is under way."""

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
        self._writer = ObjectWriter(
            sender, sinks.own, self._under_way.start, writable=writable or Writable(), probe=probe
        )

    async def __aenter__(self) -> EffectExecutor:
        """Be ready for `submit`."""
        await self._under_way.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel everything under way."""
        await self._under_way.__aexit__(kind, error, trace)

    @property
    def steps_under_way(self) -> int:
        """Steps (and queued patches) that are not finished."""
        return len(self._under_way)

    def submit(self, controller: str, key: str, stages: Stages, cause: int = 0) -> None:
        """Carry out the stages of one step, from now on and without waiting.

        What is local up to the first stage with writes is done before this returns, else a timer that the next step
        starts would be stopped by this one.
        """
        step = _Step(self, controller, key, cause)
        for position, stage in enumerate(stages):
            step.carry_out_locally(stage)
            if not step.all_local(stage):
                self._under_way.start(step.run(stages[position:]))
                return

    def record(self, effect: Record) -> None:
        """Hand an Event to the recorder, if there is one."""
        if self._recorder is not None:
            self._recorder.record(
                effect.regarding, effect.type, effect.reason, effect.message, component=effect.component
            )

    def measure(self, effect: Measure) -> None:
        """Report a figure."""
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
        """Give a local effect to the host."""
        self._local(controller, key, effect)

    async def write(self, effect: Create | Patch | Delete) -> tuple[Outcome, list[Observed]]:
        """Carry out one write; gives its outcome and what the response changed in the caches."""
        return await self._writer.write(effect)

    def publish_success(
        self, step: _Step, effect: Create | Patch | Delete, outcome: Outcome, observed: list[Observed]
    ) -> None:
        """What changed and that it was our effect, in one publish."""
        done = EffectSucceeded(
            cause=step.cause,
            controller=step.controller,
            key=step.key,
            effect_id=effect.id,
            object=self._writer.object_of(effect, outcome),
        )
        self._publish([*(msgspec.structs.replace(event, cause=step.cause) for event in observed), done])

    def publish_failure(self, step: _Step, effect: Effect, error: ApiError, dropped: tuple[int, ...]) -> None:
        """That an effect failed, and which ones are not sent because of it."""
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
    """One step of one key on its way through its stages."""

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
        """Stage after stage, until one has a failure; what is local in the first was done."""
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
        """Carry out writes that several share, one after the other."""
        for effect in waiting:
            await self._write(effect, dropped)

    async def _write(self, effect: Create | Patch | Delete, dropped: tuple[int, ...]) -> None:
        outcome, observed = await self.executor.write(effect)
        if outcome.error is None:
            self.executor.publish_success(self, effect, outcome, observed)
            return
        first, self._failed = not self._failed, True
        self.executor.publish_failure(self, effect, outcome.error, dropped if first else ())
