"""`Scheduler`: the actor that folds its bus into a ClusterState and runs cycles on it.

Events wait in the inbox from a cycle's opening to its close; between cycles they are folded. The loop is never held:
a cycle is a generator, and at each of its checkpoints the loop turns once. What was committed by then is sent at once.
"""

from __future__ import annotations

import gc
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
import structlog
from anyio.lowlevel import checkpoint

from volcanoio.bus.inbox import Inbox
from volcanoio.engine.scheduling.cluster import ClusterState
from volcanoio.engine.scheduling.configuration import Configuration, default_text
from volcanoio.engine.scheduling.cycle import CycleResult, run_cycle
from volcanoio.engine.scheduling.profile import Profile
from volcanoio.engine.scheduling.replay import OWN
from volcanoio.engine.scheduling.watching import watched
from volcanoio.framework.events import Change, Event, Observed, Synced
from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.framework.scheduling.points import Reports
from volcanoio.framework.scheduling_effects import BindBatch, SchedulerEffect
from volcanoio.framework.scheduling_events import BindDone, CycleClosed, CycleOpened, Decided
from volcanoio.kube.clock import Clock
from volcanoio.model import kinds
from volcanoio.model.kinds import Kind
from volcanoio.model.scheduling import PodGroup
from volcanoio.runtime.reload import VALID
from volcanoio.runtime.scheduler_metrics import CycleMetrics
from volcanoio.runtime.scheduler_outlets import Asker, Dispatcher, Outlets
from volcanoio.runtime.scheduler_pace import Pace, TimeBudget
from volcanoio.runtime.scheduler_ports import Bus, Informers, Sources
from volcanoio.runtime.scheduler_queues import ensure_queues
from volcanoio.runtime.scheduler_setup import Known, Setup

WATCHED: tuple[Kind, ...] = (kinds.NODE, kinds.PRIORITY_CLASS, kinds.QUEUE, kinds.POD_GROUP, kinds.POD)
DEBOUNCE, PERIOD, BUDGET = 0.002, 1.0, 0.25
"""Defaults, in seconds."""
GROWN, FEW = 10, 1000
"""What is a new order of size: by a tenth and so many pods more."""
AT_ONCE = 128
"""Events folded between two turns of the loop."""
_log = structlog.get_logger(__name__)


class Scheduler:
    """Construct, then `run`. `debounce`, `schedule_period` and `budget` are in seconds.

    `known` is what configurations may name.
    `leading` is asked before each cycle: without it no cycle opens. `seed` breaks ties. `configuration` is
    the first configuration, as its text or made; raises ConfigurationError when it cannot be used.
    """

    def __init__(
        self,
        *,
        bus: Bus,
        informers: Informers,
        clock: Clock,
        known: Known,
        state: ClusterState | None = None,
        configuration: str | Setup | None = None,
        seed: int = 0,
        debounce: float = DEBOUNCE,
        schedule_period: float = PERIOD,
        budget: float = BUDGET,
        leading: Callable[[], bool] = lambda: True,
        probe: Probe | None = None,
        sources: Sources | None = None,
    ) -> None:
        self.state = state or ClusterState()
        self._bus = bus
        self._informers = informers
        self._clock = clock
        self._known = known
        self._seed = seed
        self._budget = budget
        self._leading = leading
        self._pace = Pace(debounce=debounce, period=schedule_period)
        self._probe = probe or NoProbe()
        self._metrics = CycleMetrics(self._probe, clock)
        self._sources = sources
        self._report_due = 0.0
        self._cycle = 0
        self._folded = 0
        self._trigger = 0
        self._next: Setup | None = None
        self._profile: Profile | None = None
        self._setup: Setup | None = None
        self._proven: Setup | None = None
        """What is in force, and with what a cycle ended without a fault last."""
        self._watching: frozenset[str] = frozenset()
        self._running = False
        self._settled = 0
        """From how many pods on what there is is put out of the collector's sight once more."""
        if isinstance(configuration, Setup):
            self.adopt(configuration)
        else:
            self.configure(default_text() if configuration is None else configuration)

    @property
    def cycles(self) -> int:
        """How many cycles have been opened."""
        return self._cycle

    @property
    def folded(self) -> int:
        """The seq of the newest event that `state` holds."""
        return self._folded

    def configure(self, text: str) -> Configuration:
        """Use another configuration from the next cycle on.

        Raises ConfigurationError and changes nothing when it cannot be used.
        """
        setup = Setup.make(text, self._known)
        self.adopt(setup)
        return setup.configuration

    def adopt(self, setup: Setup) -> None:
        """Use a setup made elsewhere from the next cycle on."""
        self._next = setup
        if self._profile is None:
            self.state.require(watched(setup.profile))
        self._watch()
        self._pace.want()

    async def run(self, outlets: Outlets) -> None:
        """Watch, decide and send until cancelled."""
        inbox = self._bus.subscribe_async()
        try:
            for kind in WATCHED:
                self._informers.informer(kind)
            self._running = True
            self._watch()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._informers.run)
                if self._sources is not None:
                    tasks.start_soon(self._sources.run)
                tasks.start_soon(ensure_queues, outlets.client, self.state.default_queue, self._clock)
                dispatcher = Dispatcher(outlets, tasks)
                while True:
                    await self._until_due(inbox)
                    await self._run_cycle(dispatcher, outlets.asker)
        finally:
            inbox.close()

    async def _until_due(self, inbox: Inbox) -> None:
        """Fold what comes in until a cycle is due and may be opened."""
        while True:
            await self._fold(inbox)
            wait = self._pace.wait(self._clock.monotonic())
            if not self.state.ready or not self._leading():
                await self._event_or(inbox, self._pace.period)
            elif wait <= 0:
                return
            elif self._pace.wanted:  # a debounce: what comes meanwhile is folded after it
                await self._clock.sleep(wait)
            else:
                await self._event_or(inbox, wait)

    async def _event_or(self, inbox: Inbox, seconds: float) -> None:
        """Return when there is something in the inbox, or after that many seconds."""

        async def wake() -> None:
            await self._clock.idle(seconds)
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wake)
            await inbox.wait()
            tasks.cancel_scope.cancel()

    async def _fold(self, inbox: Inbox) -> None:
        """Take in what waits, with turns of the loop where it is much."""
        waiting = len(inbox)
        while waiting > AT_ONCE:
            await self._take_in(inbox.drain(AT_ONCE))
            waiting -= AT_ONCE
            if not self._cycle:
                gc.freeze()  # what is listed lives long: the collector need not look at it
            await checkpoint()
        await self._take_in(inbox.drain(waiting))

    async def _take_in(self, events: list[Event]) -> None:
        """Fold events; what could alter a decision asks for a cycle."""
        for event in events:
            self._folded = event.seq
            if isinstance(event, OWN):
                continue
            if isinstance(event, Observed) and event.change is Change.GONE and isinstance(event.object, PodGroup):
                self._metrics.gone(event.object.metadata.key)
            elif isinstance(event, BindDone) and (task := self.state.ledger.tasks.get(event.uid)):
                self._metrics.task_reached("Bound", task.created)
            if isinstance(event, Synced) and self._next is not None:
                self._pace.want()
            folded: Any = event  # the bus carries this process's family only
            if self.state.fold(folded):
                self._trigger = event.seq
                self._pace.want()
            if self.state.unfinished is not None:
                for _ in self.state.finish():
                    await checkpoint()

    async def _run_cycle(self, dispatcher: Dispatcher, asker: Asker | None) -> None:
        """One cycle, from its opening to its close; both are events."""
        self._reconfigure()
        if (pods := len(self.state.ledger.tasks)) >= self._settled:
            gc.freeze()  # what there is lives long: later collections need not look at it
            self._settled = pods + pods // GROWN + FEW
        self._cycle += 1
        opening = CycleOpened(
            cause=self._trigger,
            cycle=self._cycle,
            upto=self._folded,
            seed=self._seed,
            period=self._pace.period,
            answering=asker is not None,
        )
        opened = self._bus.publish([opening])[0]
        assert isinstance(opened, CycleOpened)
        self._pace.open(self._clock.monotonic())
        budget = TimeBudget(self._clock, self._budget)
        self._metrics.open()
        fault, result, points = "", CycleResult(()), 0
        assert self._profile is not None  # what it watches is listed, else the state were not ready
        cycle = run_cycle(self.state, self._profile, opened, budget=budget, period=self._pace.period)
        try:
            while True:
                point = next(cycle)
                points += 1
                self._metrics.reached(point)
                if any(isinstance(effect, BindBatch) and len(effect.binds) > AT_ONCE for effect in point.decisions):
                    await checkpoint()  # sending a large gang takes as long as deciding that it goes
                self._send(point.decisions, opened, dispatcher)
                await checkpoint()
                self._metrics.resumed()
        except StopIteration as stop:
            result = stop.value
            self._send(result.decisions, opened, dispatcher)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
            _log.exception("cycle ended by a fault; the next opens after the schedule period", cycle=self._cycle)
        except anyio.get_cancelled_exc_class():
            given_up = CycleClosed(cause=opened.seq, cycle=self._cycle, boundaries=budget.cut_at, stopped=points)
            self._bus.publish([given_up])
            raise
        finally:
            cycle.close()
        closed = CycleClosed(
            cause=opened.seq, cycle=self._cycle, where=result.where, boundaries=budget.cut_at, fault=fault
        )
        self._bus.publish([closed])
        self._pace.close(self._clock.monotonic(), cut=bool(result.where), fault=bool(fault))
        self._metrics.close(result, fault)
        self._judge(fault)
        if result.questions and asker is not None:
            await asker.answer(result.questions)
        await self._report()

    async def _report(self) -> None:
        """Let plugins tell their figures, at most once a period."""
        now = self._clock.monotonic()
        if now >= self._report_due and self._profile is not None:
            self._report_due = now + self._pace.period
            for enabled in itertools.chain.from_iterable(self._profile.tiers):
                if isinstance(enabled.plugin, Reports):
                    for _ in enabled.plugin.report(self._probe) or ():
                        await checkpoint()

    def _reconfigure(self) -> None:
        """Between cycles, take over a configuration that was given, once all that its plugins read is listed."""
        setup = self._next
        if setup is not None and watched(setup.profile).issubset(self.state.listed):
            self._profile, self._next, self._setup = setup.profile, None, setup
            self._watch()
            self._bus.publish([setup.event])
            if self._sources is not None:
                self._sources.follow(setup.profile)

    def _judge(self, fault: str) -> None:
        """After a cycle: a configuration with which none has ended without a fault yet gives way to the last good one.

        A plugin that raises as its first session opens would else end every cycle from then on.
        """
        if not fault:
            self._proven = self._setup
        elif self._proven is not None and self._proven is not self._setup and self._next is None:
            self._next = self._proven
            self._probe.gauge(VALID, 0.0)
            _log.error(
                "the new configuration is set aside, as the first cycle with it ended by a fault; the last good one"
                " stays: mend the plugin or the configuration and write it again",
                fault=fault,
            )

    def _watch(self) -> None:
        """Have watched what the plugins of the profile read, and those of the next one, and nothing else."""
        if not self._running:
            return
        profiles = (self._profile, None if self._next is None else self._next.profile)
        wanted = frozenset[str]().union(*(watched(profile) for profile in profiles if profile is not None))
        for resource in sorted(wanted - self._watching):
            self._informers.informer(kinds.BY_RESOURCE[resource])
        for resource in sorted(self._watching - wanted):
            self._informers.forget(kinds.BY_RESOURCE[resource])
        self._watching = wanted

    def _send(self, decisions: tuple[SchedulerEffect, ...], opened: CycleOpened, dispatcher: Dispatcher) -> None:
        """Say what was decided, and send it."""
        if decisions:
            said = self._bus.publish([Decided(cause=opened.seq, cycle=opened.cycle, decisions=decisions)])[0]
            dispatcher.send(decisions, said.seq)
            for effect in decisions:
                if isinstance(effect, BindBatch):
                    self._assumed(effect)

    def _assumed(self, batch: BindBatch) -> None:
        """Figures of tasks that were given nodes."""
        ledger = self.state.ledger
        if job := ledger.listed.get(batch.group):
            self._metrics.bound(job)
        known = [task for bind in batch.binds if (task := ledger.tasks.get(bind.uid)) is not None]
        for created, times in Counter([task.created for task in known]).items():
            self._metrics.task_reached("Assumed", created, times)
