"""`ControllerHost`: the async shell around `engine.hosting`: informers in, effects, timers and questions out.

Everything that decides anything is in the pure half, so that a journal of the bus's events replays without this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Protocol

import anyio
import structlog

from volcanoio.bus.bus import Batch
from volcanoio.engine.hosting.dispatch import Dispatch, InvariantError
from volcanoio.engine.hosting.host import Host
from volcanoio.framework.controller import Controller
from volcanoio.framework.decisions import Abstain
from volcanoio.framework.effects import Ask, Stages, StartTimer, StopTimer
from volcanoio.framework.events import (
    Answered,
    ControllerEvent,
    EffectFailed,
    EffectSucceeded,
    Event,
    Observed,
    Relisting,
    Synced,
    TimerFired,
)
from volcanoio.framework.lifecycle import LifecyclePolicy, PolicyContext
from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.kube.clock import Clock
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod
from volcanoio.model.kinds import Kind
from volcanoio.runtime.controller_setup import kinds_of
from volcanoio.runtime.policies import LIMIT, Answer, PolicyHost
from volcanoio.runtime.policy_setup import indexes_of
from volcanoio.runtime.timers import Timers

_log = structlog.get_logger(__name__)
CONTROLLER_EVENTS = (Observed, Synced, Relisting, EffectSucceeded, EffectFailed, TimerFired, Answered)
"""The controllers' family of events, to ask what is one of them."""


class Bus(Protocol):
    """What the host uses of `bus.EventBus`."""

    def subscribe(self, subscriber: Callable[[Batch], None]) -> Callable[[], None]:
        """Give every later batch to `subscriber`; call the result to stop."""
        ...

    def publish(self, events: Iterable[Event]) -> Batch:
        """Take events in."""
        ...

    def caused_by(self, event: Event | int) -> AbstractContextManager[None]:
        """Within it, published events that name no cause get this one."""
        ...


class Informers(Protocol):
    """What the host uses of `kube.InformerSet`."""

    def informer(self, kind: Kind, *, label_selector: str = "", field_selector: str = "") -> object:
        """Have a kind watched."""
        ...

    async def run(self) -> None:
        """Watch until cancelled."""
        ...


class Executor(Protocol):
    """What the host uses of `kube.EffectExecutor`."""

    def submit(self, controller: str, key: str, stages: Stages, cause: int = 0) -> None:
        """Carry out the stages of one step, without waiting."""
        ...


class ControllerHost:
    """Runs controllers over one bus.

    Give `local` to the EffectExecutor and that executor to `run`. `policies` are asked in order; `policy_limit` is in
    seconds. Raises ConfigurationError for a policy that wants an unknown index.
    """

    def __init__(
        self,
        controllers: Sequence[Controller[Any]],
        *,
        bus: Bus,
        informers: Informers,
        clock: Clock,
        policies: Sequence[LifecyclePolicy] = (),
        policy_limit: float = LIMIT,
        probe: Probe | None = None,
    ) -> None:
        self._bus = bus
        self._informers = informers
        self._clock = clock
        self._probe: Probe = probe or NoProbe()
        self._indexes = indexes_of(policies)
        self._host = Host(controllers, also=[kind.resource for kind in self._indexes], on_fault=self._fault)
        self._timers = Timers(clock)
        self._policies = PolicyHost(policies, timers=self._timers, clock=clock, probe=self._probe, limit=policy_limit)
        self._causes: dict[int, int] = {}
        self._folded = 0
        self._watched = _selections(controllers, self._indexes)

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
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._informers.run)
                tasks.start_soon(self._timers.run)
        finally:
            unsubscribe()
            self._timers.clear()
            with anyio.CancelScope(shield=True):
                await self._policies.aclose()

    def local(self, controller: str, key: str, effect: StartTimer | StopTimer | Ask) -> None:
        """Take an effect that never leaves the process, in its place among the stages."""
        cause = self._causes.pop(effect.id, 0)
        match effect:
            case StartTimer(name=name, due=due):
                fired = TimerFired(cause=cause, controller=controller, key=key, name=name)
                self._timers.start((controller, key, name), due, lambda: self._publish(fired))
            case StopTimer(name=name):
                self._timers.stop((controller, key, name))
            case Ask():
                self._ask(controller, key, effect, cause)

    def _take(self, event: ControllerEvent, executor: Executor) -> None:
        if isinstance(event, EffectFailed):
            for effect_id in event.dropped:
                self._causes.pop(effect_id, None)
        for dispatch in self._host.handle(event):
            self._probe.count("volcanoio_controller_steps_total", controller=dispatch.controller)
            self._note_causes(dispatch)
            with self._bus.caused_by(dispatch.cause):
                executor.submit(dispatch.controller, dispatch.key, dispatch.stages, dispatch.cause)

    def _note_causes(self, dispatch: Dispatch) -> None:
        for stage in dispatch.stages:
            for effect in stage:
                if isinstance(effect, StartTimer | StopTimer | Ask):
                    self._causes[effect.id] = dispatch.cause

    def _publish(self, event: Event) -> None:
        self._bus.publish((event,))

    def _ask(self, controller: str, key: str, ask: Ask, cause: int) -> None:
        def heard(answer: Answer) -> None:
            self._publish(
                Answered(
                    cause=cause,
                    controller=controller,
                    key=key,
                    question=ask.question,
                    decision=answer.decision,
                    policy=answer.policy,
                    faults=answer.faults,
                    asides=answer.asides,
                )
            )

        context = self._context(controller, key, ask)
        if context is None:  # the job went away while its question was on its way
            heard(Answer(Abstain()))
        else:
            self._policies.ask(context, heard, deadline=ask.deadline)

    def _context(self, controller: str, key: str, ask: Ask) -> PolicyContext | None:
        job = self._host.cache.get(kinds.JOB.resource, key)
        if not isinstance(job, Job):
            return None
        pods = self._host[controller].objects(key, kinds.POD.resource)
        return PolicyContext(
            event=ask.event,
            job=job,
            pods=tuple(pod for pod in pods if isinstance(pod, Pod)),
            now=self._clock.now(),
            indexes={kind.resource: self._index(kind) for kind in self._indexes},
        )

    def _index(self, kind: Kind) -> Mapping[str, ApiObject]:
        """A copy: a policy may read it on its thread while we go on."""
        return MappingProxyType({obj.metadata.key: obj for obj in self._host.cache.all(kind.resource)})

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


def _selections(controllers: Sequence[Controller[Any]], indexes: Iterable[Kind]) -> dict[Kind, tuple[str, str]]:
    """Label and field selector of each kind: the declared ones where all agree, else none.

    An event names a resource, and neither its selectors nor its Struct, so there is one informer a resource;
    `Input.keys` narrows further.
    """
    wanted: dict[str, set[tuple[str, str]]] = {}
    for controller in controllers:
        for declared in controller.inputs:
            selectors = wanted.setdefault(declared.kind.resource, set())
            selectors.add((declared.label_selector, declared.field_selector))
        for reference in controller.references:
            wanted.setdefault(reference.kind.resource, set()).add(("", ""))
    one = {kind.resource: kind for kind in kinds_of(*controllers)}
    for kind in indexes:
        wanted.setdefault(kind.resource, set()).add(("", ""))
        one[kind.resource] = kind
    return {
        one[resource]: next(iter(selectors)) if len(selectors) == 1 else ("", "")
        for resource, selectors in wanted.items()
    }
