"""`ControllerHost`: the async shell around `engine.hosting`: informers in, effects, timers and questions out.

Every decision is made in the pure half, so that a journal of the bus's events can be replayed without this one.
`PolicyQuestions` passes the controllers' questions to the lifecycle policies and publishes the answers as events.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import anyio
import structlog

from volcanoio.bus.event_bus import Batch, EventBus
from volcanoio.engine.hosting.controller_host import RESYNC_TIMER, Dispatch, InvariantError
from volcanoio.engine.hosting.host import Host
from volcanoio.engine.jobs.controller import NAME as JOBS
from volcanoio.engine.jobs.decide.lifecycle_events import TICK_TIMER
from volcanoio.framework.controller import Controller
from volcanoio.framework.decisions import Abstain
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
from volcanoio.framework.lifecycle import PolicyContext
from volcanoio.framework.overrides import LEARNED_SUFFIX, parse_learned, stored_overrides
from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.framework.reconciler import Reconciler
from volcanoio.kube.client import Client
from volcanoio.kube.clock import Clock
from volcanoio.kube.effect_executor import Executor
from volcanoio.model import kinds
from volcanoio.model.batch import Job
from volcanoio.model.core import ConfigMap, Pod
from volcanoio.model.kinds import Kind
from volcanoio.model.nodes import DiscoverySource
from volcanoio.runtime.controllers.http_effects import AlertWebhooks, EndpointChecks, Endpoints
from volcanoio.runtime.controllers.setup import informer_selectors, kinds_of
from volcanoio.runtime.controllers.topology_sources import TopologySources
from volcanoio.runtime.policies.indexes import PolicyIndexes, SyncedInformer
from volcanoio.runtime.policies.policy_host import DECISION_LIMIT, Answer, PolicyCallbacks, PolicyHost
from volcanoio.runtime.policies.policy_set import Member, PolicySet
from volcanoio.runtime.timers import WAKE_DELAY, Timers, Wakes


class Informers(Protocol):
    """The methods of `kube.InformerSet` that the host uses."""

    def informer(self, kind: Kind, *, label_selector: str = "", field_selector: str = "") -> SyncedInformer:
        """Watch a kind."""
        ...

    async def run(self) -> None:
        """Watch until cancelled."""
        ...

    def announce(self) -> None:
        """Publish everything that is in the caches, and from then on every change."""
        ...


_FAULTS = "volcanoio_controller_faults_total"
_log = structlog.get_logger(__name__)
CONTROLLER_EVENTS = (Observed, Synced, Relisting, EffectSucceeded, EffectFailed, TimerFired, Answered,
                     PoliciesLoaded, Notified)  # fmt: skip
"""Event types of the controllers, for `isinstance`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """Options of a host; `policies` are asked in order, each within `policy_limit` seconds.

    `lister` lists objects that policies read and that cannot be watched, and reads Secrets of fabrics. `endpoints` None
    is the network. `discovery` is what HyperNodes are discovered from at the start.
    """

    policies: PolicySet = field(default_factory=PolicySet)
    policy_limit: float = DECISION_LIMIT
    probe: Probe = field(default_factory=NoProbe)
    lister: Client | None = None
    endpoints: Endpoints | None = None
    discovery: tuple[DiscoverySource, ...] = ()


class ControllerHost:
    """Host of controllers on one bus. Pass `local` to the EffectExecutor and that executor to `run`."""

    def __init__(
        self,
        controllers: Sequence[Controller[Any]],
        *,
        bus: EventBus,
        informers: Informers,
        clock: Clock,
        options: HostOptions | None = None,
    ) -> None:
        options = options or HostOptions()
        self._bus = bus
        self._informers = informers
        self._clock = clock
        self._probe = options.probe
        for each in controllers:
            self._probe.count(_FAULTS, 0.0, controller=each.name)
        read = options.policies.indexes
        watched = [kind for kind in read if kind not in kinds.POLLED]
        self._watches = Watches(controllers, watched, informers)
        self._resynced = [each for each in controllers if isinstance(each, Reconciler) and each.resync_period]
        self._reading = PolicyIndexes(read, informers.informer, clock=clock, lister=options.lister, listed=self._resume)
        self._host = Host(controllers, extra_resources=[kind.resource for kind in watched], on_fault=self._fault)
        self._timers = Timers(clock)
        self._wakes = Wakes()
        self._notices = AlertWebhooks(self._publish, clock=clock, probe=self._probe)
        self._checks = EndpointChecks(self._publish, options.endpoints)
        self._topology = TopologySources(self._publish, client=options.lister, clock=clock, probe=options.probe)
        self._topology.configure(options.discovery)
        self._reads_local = any(kind in kinds.LOCAL for kind in kinds_of(*controllers))
        self._causes: dict[int, int] = {}
        self._folded = 0
        self._loaded_by = 0
        """The seq of the event that announced the policies in force."""
        self._policies = PolicyHost(
            options.policies,
            timers=self._timers,
            probe=self._probe,
            limit=options.policy_limit,
            callbacks=PolicyCallbacks(
                indexed=lambda kinds: self._reading.view(kinds, self._host.cache), changed=self._loaded
            ),
        )
        self._questions = PolicyQuestions(self._host, self._policies, publish=self._publish, clock=clock)

    @property
    def host(self) -> Host:
        """The pure part: states, caches and effects in flight, for inspection."""
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
        """Whether work is in progress that virtual time must wait for: policy calls, webhooks, checks, fabrics."""
        requests = self._notices.posting + self._checks.asking + self._topology.asking
        return self._policies.thinking or requests > 0

    async def run(self, executor: Executor, stand_by: Callable[[], Awaitable[None]] | None = None) -> None:
        """Watch, reduce and act until cancelled. Timers and open questions are dropped then.

        With `stand_by`, informers that publish nothing are run until it returns; then they announce their objects.
        """

        def take(batch: Batch) -> None:
            for event in batch:
                if isinstance(event, CONTROLLER_EVENTS):
                    self._folded = event.seq
                    self._take(event, executor)

        self._watches.start()
        unsubscribe: Callable[[], object] = bool
        try:
            async with anyio.create_task_group() as tasks:
                if stand_by is not None:
                    tasks.start_soon(self._informers.run)
                    await stand_by()
                unsubscribe = self._bus.subscribe(take)
                self._loaded()
                if stand_by is not None:
                    self._informers.announce()
                else:
                    tasks.start_soon(self._informers.run)
                tasks.start_soon(self._timers.run)
                tasks.start_soon(self._notices.run)
                tasks.start_soon(self._checks.run)
                tasks.start_soon(self._reading.run)
                if self._reads_local:
                    tasks.start_soon(self._topology.run)
                for controller in self._resynced:
                    tasks.start_soon(self._resync, controller)
        finally:
            unsubscribe()
            self._timers.clear()
            with anyio.CancelScope(shield=True):
                await self._policies.aclose()

    def wake(self, controller: str) -> None:
        """Watch what a lazy reconciler reads, though no change of its primary kind woke it."""
        self._watches.wake(controller)

    async def _resync(self, controller: Reconciler) -> None:
        while True:
            await self._clock.idle(controller.resync_period)
            self._publish(TimerFired(controller=controller.name, key="", name=RESYNC_TIMER))

    def local(self, controller: str, key: str, effect: LocalEffect) -> None:
        """Carry out an effect of the host itself, in its order among the stages."""
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
        """Ask these policies from now on, also about jobs that the old ones delayed; see `PolicyHost.adopt`."""
        self._policies.adopt(policies, named)
        for timer in self._wakes.all():
            self._wake(timer, self._loaded_by)
        every = [wants.every for wants in self._policies.instances.roster.everywhere.values() if wants.every > 0]
        if every:
            self._begin_ticks(min(every))

    def discover(self, sources: tuple[DiscoverySource, ...]) -> None:
        """Discover HyperNodes from these sources from now on."""
        self._topology.configure(sources)

    def _begin_ticks(self, every: float) -> None:
        """Start the first Tick of each job, spread over one period."""
        keys = self._host[JOBS].keys if JOBS in self._host.controllers else []
        for number, key in enumerate(keys):
            due = self._clock.now() + every * number / len(keys)
            name = (JOBS, key, TICK_TIMER)
            if not self._timers.has(name):
                self._start_timer(TimerFired(cause=self._loaded_by, controller=JOBS, key=key, name=TICK_TIMER), due)

    def _start_timer(self, fired: TimerFired, due: float) -> None:
        name = (fired.controller, fired.key, fired.name)

        def fire() -> None:
            self._wakes.forget(name)
            self._publish(fired)

        self._timers.start(name, due, fire)

    def _wake(self, timer: Hashable, cause: int) -> None:
        """Let a timer fire early, together with other changes until then, because of the event `cause`."""
        self._wakes.forget(timer)
        controller, key, name = cast("tuple[str, str, str]", timer)
        due = self._clock.now() + WAKE_DELAY * self._clock.rate
        self._start_timer(TimerFired(cause=cause, controller=controller, key=key, name=name), due)

    def named_policies(self) -> Mapping[tuple[str, str], Member]:
        """Return the policies that jobs have named so far."""
        return dict(self._policies.instances.members)

    def _loaded(self) -> None:
        for event in self._bus.publish((PoliciesLoaded(roster=self._policies.instances.roster),)):
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
        if isinstance(event, Observed):
            self._watches.observe(event)

    def _note_causes(self, dispatch: Dispatch) -> None:
        for stage in dispatch.stages:
            for effect in stage:
                if isinstance(effect, LocalEffect):
                    self._causes[effect.id] = dispatch.cause

    def _publish(self, event: Event) -> None:
        self._bus.publish((event,))

    def _fault(self, fault: InvariantError) -> None:
        self._probe.count(_FAULTS, controller=fault.controller)
        _log.error(
            "reducer raised",
            controller=fault.controller,
            key=fault.key,
            retry_at=fault.retry_at,
            story=[f"{line.seq} {line.event} {line.detail}" for line in fault.history],
            exc_info=fault.__cause__,
        )


class Watches:
    """Has the kinds of controllers and `indexes` watched: what lazy reconcilers read only once they are woken."""

    def __init__(self, controllers: Sequence[Controller[Any]], indexes: Sequence[Kind], informers: Informers) -> None:
        self._informers = informers
        self._selectors = informer_selectors(controllers, indexes)
        self._dormant = {each.name: each for each in controllers if isinstance(each, Reconciler) and each.is_lazy}
        eager = [each for each in controllers if each.name not in self._dormant]
        self._first = (*indexes, *kinds_of(*eager), *(each.primary for each in self._dormant.values()))

    def start(self) -> None:
        """Watch what is not only read by lazy reconcilers."""
        self._watch(self._first)

    def observe(self, event: Observed) -> None:
        """Wake the reconcilers that need the changed object."""
        if self._dormant:
            for each in list(self._dormant.values()):
                if each.primary.resource == event.resource and _wakes(each, event):
                    self.wake(each.name)

    def wake(self, name: str) -> None:
        """Watch what this reconciler reads, if it is dormant."""
        if (reconciler := self._dormant.pop(name, None)) is not None:
            self._watch(reconciler.reads)

    def _watch(self, wanted: Iterable[Kind]) -> None:
        resources = {kind.resource for kind in wanted}
        for kind, (labels, fields) in self._selectors.items():
            if kind.resource in resources and kind not in kinds.LOCAL:
                self._informers.informer(kind, label_selector=labels, field_selector=fields)


def _wakes(reconciler: Reconciler, event: Observed) -> bool:
    """Return whether a change wakes a lazy reconciler; one that raises is woken, so that it misses nothing."""
    try:
        return reconciler.wakes(event)
    except Exception:
        _log.exception("wakes raised: the controller is woken", controller=reconciler.name, key=event.obj.metadata.key)
        return True


class PolicyQuestions:
    """Passes questions about the jobs of `host` to `policies`, and publishes the answers."""

    def __init__(self, host: Host, policies: PolicyHost, *, publish: Callable[[Event], None], clock: Clock) -> None:
        self._host = host
        self._policies = policies
        self._publish = publish
        self._clock = clock

    def put(self, controller: str, key: str, ask: Ask, cause: int) -> None:
        """Ask; the answer is an Answered event, also if the job was deleted meanwhile."""

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
        if context is None:  # the job was deleted before the question arrived
            heard(Answer(Abstain()))
        else:
            self._policies.ask(context, heard, deadline=ask.deadline)

    def _context(self, controller: str, key: str, ask: Ask) -> PolicyContext | None:
        job = self._host.cache.get(kinds.JOB.resource, key)
        if not isinstance(job, Job):
            return None
        pods = self._host[controller].objects(key, kinds.POD.resource)
        kept = self._host.cache.get(kinds.CONFIG_MAP.resource, key + LEARNED_SUFFIX)
        return PolicyContext(
            event=ask.event,
            job=job,
            pods=tuple(pod for pod in pods if isinstance(pod, Pod)),
            now=self._clock.now(),
            overrides=stored_overrides(job),
            learned=parse_learned(kept.data) if isinstance(kept, ConfigMap) else {},
        )
