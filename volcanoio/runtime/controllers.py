"""`ControllerHost`: the async shell around `engine.hosting`: informers in, effects, timers and questions out.

Everything that decides anything is in the pure half, so that a journal of the bus's events replays without this one.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, cast

import anyio
import structlog

from volcanoio.bus.bus import Batch
from volcanoio.engine.hosting.dispatch import Dispatch, InvariantError
from volcanoio.engine.hosting.host import Host
from volcanoio.engine.jobs.controller import NAME as JOBS
from volcanoio.engine.jobs.occasions import TICK
from volcanoio.framework.controller import Controller
from volcanoio.framework.effects import Ask, CheckEndpoint, LocalEffect, Notify, StartTimer, StopTimer
from volcanoio.framework.events import (
    Answered,
    ControllerEvent,
    EffectFailed,
    EffectSucceeded,
    Event,
    Notified,
    Observed,
    PoliciesLoaded,
    Relisting,
    Synced,
    TimerFired,
)
from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.kube.clock import Clock
from volcanoio.model import kinds
from volcanoio.runtime.controller_ports import Bus, Executor, Informers
from volcanoio.runtime.controller_setup import selections
from volcanoio.runtime.endpoints import EndpointChecks, Endpoints
from volcanoio.runtime.notices import Notices
from volcanoio.runtime.policies import LIMIT, PolicyHost
from volcanoio.runtime.policy_questions import Questions
from volcanoio.runtime.policy_reading import Lister, Reading
from volcanoio.runtime.policy_sets import Member, PolicySet
from volcanoio.runtime.timers import Timers
from volcanoio.runtime.wakes import TOGETHER, Wakes

_log = structlog.get_logger(__name__)
CONTROLLER_EVENTS = (Observed, Synced, Relisting, EffectSucceeded, EffectFailed, TimerFired, Answered,
                     PoliciesLoaded, Notified)  # fmt: skip
"""The controllers' family of events, to ask what is one of them."""


class ControllerHost:
    """Runs controllers over one bus.

    Give `local` to the EffectExecutor and that executor to `run`. `policies` are asked in order; `policy_limit` is in
    seconds. `lister` lists what policies read and cannot be watched.
    """

    def __init__(
        self,
        controllers: Sequence[Controller[Any]],
        *,
        bus: Bus,
        informers: Informers,
        clock: Clock,
        policies: PolicySet | None = None,
        policy_limit: float = LIMIT,
        probe: Probe | None = None,
        lister: Lister | None = None,
        endpoints: Endpoints | None = None,
    ) -> None:
        self._bus = bus
        self._informers = informers
        self._clock = clock
        self._probe: Probe = probe or NoProbe()
        policies = policies or PolicySet()
        self._watched = selections(controllers, [kind for kind in policies.indexes if kind not in kinds.POLLED])
        self._reading = Reading(policies.indexes, informers, clock=clock, lister=lister, listed=self._resume)
        also = [kind.resource for kind in policies.indexes if kind not in kinds.POLLED]
        self._host = Host(controllers, also=also, on_fault=self._fault)
        self._timers = Timers(clock)
        self._wakes = Wakes()
        self._notices = Notices(self._publish, clock=clock, probe=self._probe)
        self._checks = EndpointChecks(self._publish, endpoints)
        self._causes: dict[int, int] = {}
        self._folded = 0
        self._loaded_by = 0
        """The seq of the event that told of the policies in force."""
        self._policies = PolicyHost(
            policies,
            timers=self._timers,
            clock=clock,
            probe=self._probe,
            limit=policy_limit,
            indexed=lambda kinds: self._reading.view(kinds, self._host.cache),
            changed=self._loaded,
        )
        self._questions = Questions(self._host, self._policies, publish=self._publish, clock=clock)

    @property
    def host(self) -> Host:
        """The pure half: states, caches and effects in flight, to look at."""
        return self._host

    @property
    def folded(self) -> int:
        """The seq of the newest event that was handled."""
        return self._folded

    @property
    def policies(self) -> PolicyHost:
        """The policies and which of them are disabled."""
        return self._policies

    @property
    def busy(self) -> bool:
        """Whether something of others' is under way that time waits for: policies that think, webhooks, checks."""
        return self._policies.thinking or self._notices.posting > 0 or self._checks.asking > 0

    async def run(self, executor: Executor) -> None:
        """Watch, reduce and act until cancelled. Timers and questions under way die with it."""

        def take(batch: Batch) -> None:
            for event in batch:
                if isinstance(event, CONTROLLER_EVENTS):
                    self._folded = event.seq
                    self._take(event, executor)

        unsubscribe = self._bus.subscribe(take)
        try:
            for kind, (labels, fields) in self._watched.items():
                self._informers.informer(kind, label_selector=labels, field_selector=fields)
            self._loaded()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._informers.run)
                tasks.start_soon(self._timers.run)
                tasks.start_soon(self._notices.run)
                tasks.start_soon(self._checks.run)
                tasks.start_soon(self._reading.run)
        finally:
            unsubscribe()
            self._timers.clear()
            with anyio.CancelScope(shield=True):
                await self._policies.aclose()

    def local(self, controller: str, key: str, effect: LocalEffect) -> None:
        """Take an effect that is the host's own, in its place among the stages."""
        cause = self._causes.pop(effect.id, 0)
        match effect:
            case StartTimer(name=name, due=due, wake=wake):
                self._start_timer(TimerFired(cause=cause, controller=controller, key=key, name=name), due)
                if wake or self._wakes:
                    self._wakes.wait((controller, key, name), wake)
            case StopTimer(name=name):
                self._timers.stop((controller, key, name))
                self._wakes.forget((controller, key, name))
            case Ask():
                self._questions.put(controller, key, effect, cause)
            case Notify():
                self._notices.take(controller, key, effect, cause)
            case CheckEndpoint():
                self._checks.take(controller, key, effect, cause)

    def adopt(self, policies: PolicySet, named: Mapping[tuple[str, str], Member]) -> None:
        """Ask these policies from now on, also about jobs that the old ones held back; see `PolicyHost.adopt`."""
        self._policies.adopt(policies, named)
        for timer in self._wakes.all():
            self._wake(timer, self._loaded_by)
        every = [wants.every for wants in self._policies.desk.roster.everywhere.values() if wants.every > 0]
        if every:
            self._begin_ticks(min(every))

    def _begin_ticks(self, every: float) -> None:
        """Have each job that nothing happens to begin to count to its Tick, spread over a period."""
        keys = self._host[JOBS].keys if JOBS in self._host.controllers else []
        for number, key in enumerate(keys):
            due = self._clock.now() + every * number / len(keys)
            name = (JOBS, key, TICK)
            if not self._timers.has(name):
                self._start_timer(TimerFired(cause=self._loaded_by, controller=JOBS, key=key, name=TICK), due)

    def _start_timer(self, fired: TimerFired, due: float) -> None:
        name = (fired.controller, fired.key, fired.name)

        def fire() -> None:
            self._wakes.forget(name)
            self._publish(fired)

        self._timers.start(name, due, fire)

    def _wake(self, timer: Hashable, cause: int) -> None:
        """Let a timer fire shortly, with whatever else changes until then, because of the event `cause`."""
        self._wakes.forget(timer)
        controller, key, name = cast("tuple[str, str, str]", timer)
        due = self._clock.now() + TOGETHER * self._clock.rate
        self._start_timer(TimerFired(cause=cause, controller=controller, key=key, name=name), due)

    def _loaded(self) -> None:
        for event in self._bus.publish((PoliciesLoaded(roster=self._policies.desk.roster),)):
            self._loaded_by = event.seq

    def _resume(self) -> None:
        self._policies.resume()

    def _take(self, event: ControllerEvent, executor: Executor) -> None:
        if isinstance(event, EffectFailed):
            for effect_id in event.dropped:
                self._causes.pop(effect_id, None)
        if isinstance(event, Observed):
            self._reading.fold(event)
            if self._wakes:
                for timer in self._wakes.woken(event):
                    self._wake(timer, event.seq)
        for dispatch in self._host.handle(event):
            self._probe.count("volcanoio_controller_steps_total", controller=dispatch.controller)
            self._note_causes(dispatch)
            with self._bus.caused_by(dispatch.cause):
                executor.submit(dispatch.controller, dispatch.key, dispatch.stages, dispatch.cause)

    def _note_causes(self, dispatch: Dispatch) -> None:
        for stage in dispatch.stages:
            for effect in stage:
                if isinstance(effect, LocalEffect):
                    self._causes[effect.id] = dispatch.cause

    def _publish(self, event: Event) -> None:
        self._bus.publish((event,))

    def _fault(self, fault: InvariantError) -> None:
        self._probe.count("volcanoio_controller_faults_total", controller=fault.controller)
        _log.error(
            "reducer raised",
            controller=fault.controller,
            key=fault.key,
            retry_at=fault.retry_at,
            story=[f"{line.seq} {line.event} {line.detail}" for line in fault.story],
            exc_info=fault.__cause__,
        )
