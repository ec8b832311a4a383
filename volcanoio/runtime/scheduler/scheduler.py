"""`Scheduler`: the actor that folds its bus into a ClusterState and runs cycles on it.

Events wait in the inbox while a cycle runs; between cycles they are folded. A cycle is a generator: at each of its
checkpoints the event loop turns once, and what was committed by then is sent at once. `ensure_queues` creates the
root and the default queue, as Volcano's newDefaultAndRootQueue does (pkg/scheduler/cache).
"""

from __future__ import annotations

import gc
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

import anyio
import structlog
from anyio.lowlevel import checkpoint

from volcanoio.bus.event_bus import Batch, EventBus, Inbox
from volcanoio.engine.scheduling.cluster.ledger import Ledger
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.config.configuration import Configuration, default_text
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.offline.replay import OWN_EVENTS
from volcanoio.engine.scheduling.placement.score_table import StageTimes
from volcanoio.engine.scheduling.session.cycle import CycleResult, run_cycle
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.events import Change, Event, Observed, Synced
from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.framework.scheduling.points import Reports
from volcanoio.framework.scheduling_effects import BindBatch, BindRequest, SchedulerEffect
from volcanoio.framework.scheduling_events import (
    ArrivalsFolded,
    BindDone,
    BindRefused,
    CycleClosed,
    CycleOpened,
    Decided,
)
from volcanoio.kube.client import Client
from volcanoio.kube.clock import Clock
from volcanoio.kube.errors import AlreadyExists, ApiError, NotFound
from volcanoio.kube.transport import NotSent, TransportError
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.kinds import Kind
from volcanoio.model.names import GROUP_NAME, ROOT_QUEUE
from volcanoio.model.scheduling import PodGroup
from volcanoio.runtime.garbage_collection import CollectionPace
from volcanoio.runtime.scheduler.cycle_metrics import BacklogMetrics, CycleMetrics, PodMetrics, ReactionTimes
from volcanoio.runtime.scheduler.cycle_timing import CycleTimer, TimeBudget
from volcanoio.runtime.scheduler.dispatcher import Asker, Dispatcher, Writers
from volcanoio.runtime.scheduler.plugin_io import SourceHost
from volcanoio.runtime.scheduler.setup import VALID, PluginCatalog, Setup

T = TypeVar("T")


class Informers(Protocol):
    """The methods of `kube.InformerSet` that the scheduler uses."""

    def informer(self, kind: Kind, *, label_selector: str = "", field_selector: str = "") -> object:
        """Watch a kind."""
        ...

    def forget(self, kind: Kind) -> None:
        """Stop watching a kind; its objects are published as gone, and it is no longer listed."""
        ...

    async def run(self) -> None:
        """Watch until cancelled."""
        ...


WATCHED: tuple[Kind, ...] = (kinds.NODE, kinds.PRIORITY_CLASS, kinds.QUEUE, kinds.POD_GROUP, kinds.POD)
DEBOUNCE, PERIOD, BUDGET = 0.002, 1.0, 0.25
"""Defaults, in seconds."""
ITEMS_PER_TURN = 128
"""Events folded between two turns of the event loop."""
MAX_WAITING_EVENTS = 64
"""Waiting events above which a cycle ends soon if latency-bound pods may arrive (`--agent-scheduler-name`).

Such a pod waits until events are folded: when a cycle under load has ended, some 300, which takes 3 ms.
"""
MAX_JOINING_PODS = 32
"""Latency-bound pods placed at one gang boundary, so that the event loop is not held for long: 0.2 ms each."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOptions:
    """Options of a Scheduler; `configuration` is the first one, as text or constructed; None takes the default.

    `debounce`, `schedule_period` and `budget` are in seconds. `seed` breaks ties. No cycle opens while `leading`
    returns False; with `is_standby`, none before `take_charge`.
    """

    configuration: str | Setup | None = None
    state: ClusterState = field(default_factory=ClusterState)
    seed: int = 0
    debounce: float = DEBOUNCE
    schedule_period: float = PERIOD
    budget: float = BUDGET
    leading: Callable[[], bool] = lambda: True
    is_standby: bool = False
    probe: Probe = field(default_factory=NoProbe)
    pod_metrics: bool = False
    sources: SourceHost | None = None


class NotDecidingError(Exception):
    """The scheduler runs no cycles now; the message says why."""


class _Question:
    """A function that reads the session of a cycle, and its outcome."""

    def __init__(self, read: Callable[[CycleSession], Iterator[None]]) -> None:
        self.read = read
        self.done = anyio.Event()
        self.error: Exception | None = NotDecidingError("the cycle ended with an error; see the scheduler's log")


class _Asked:
    """What others want to read: `questions` in the next cycle, `between` once no cycle is open."""

    def __init__(self) -> None:
        self.questions: list[_Question] = []
        self.between: list[Callable[[], None]] = []


class Scheduler:
    """The scheduler's actor: construct it, then `run`. `known` contains the plugins that configurations may name.

    Raises ConfigurationError if the first configuration cannot be used.
    """

    def __init__(
        self,
        *,
        bus: EventBus,
        informers: Informers,
        clock: Clock,
        known: PluginCatalog,
        options: SchedulerOptions | None = None,
    ) -> None:
        options = options or SchedulerOptions()
        self.state = options.state
        self._bus = bus
        self._informers = informers
        self._clock = clock
        self._known = known
        self._seed = options.seed
        self._budget = options.budget
        self._leading = options.leading
        self._in_charge = not options.is_standby
        self._charge, self._called, self.queues_exist = anyio.Event(), anyio.Event(), anyio.Event()
        self._pace = CycleTimer(debounce=options.debounce, period=options.schedule_period)
        self._probe = options.probe
        self._metrics = CycleMetrics(self._probe, clock)
        self._reactions = ReactionTimes(self._probe, clock)
        self._backlog = BacklogMetrics(self._probe)
        self._pod_metrics = PodMetrics(self._probe, self.state) if options.pod_metrics else None
        self.state.placer.stage_times.measure(clock.monotonic, self._metrics.stage_took)
        self.state.close_times = StageTimes(clock.monotonic, self._metrics.plugin_closed)
        self._sources = options.sources
        self._report_due = 0.0
        self._reporting: Iterator[None] | None = None  # the rest of a report of metrics that was begun
        self._cycle = self._folded = self._trigger = 0
        self._next: Setup | None = None
        self._profile: Profile | None = None
        self._setup: Setup | None = None
        self._proven: Setup | None = None
        """The last setup with which a cycle ended without a fault."""
        self._watching: frozenset[str] = frozenset()
        self._running, self._asked = False, _Asked()
        self._open_budget: TimeBudget | None = None  # of the open cycle
        self._arrivals: list[Observed] = []  # first events of latency-bound pods that are not folded yet
        self._closed = anyio.Event()
        """Set while no cycle is open."""
        self._closed.set()
        self._progress = 0.0
        self._collections = CollectionPace()
        if isinstance(options.configuration, Setup):
            self.adopt(options.configuration)
        else:
            self.configure(default_text() if options.configuration is None else options.configuration)

    @property
    def cycles(self) -> int:
        """Number of cycles that were opened."""
        return self._cycle

    @property
    def folded(self) -> int:
        """The seq of the newest event that `state` holds."""
        return self._folded

    async def cycle_closed(self) -> None:
        """Return once no cycle is open."""
        await self._closed.wait()

    async def ask(self, read: Callable[[CycleSession], Iterator[None]]) -> None:
        """Open a cycle now, and have a function read its session in steps after the close; returns when it has.

        Without a question nothing is computed for this. Raises NotDecidingError, and what the function raises.
        """
        if reason := self._not_deciding():
            raise NotDecidingError(reason)
        question = _Question(read)
        self._asked.questions.append(question)
        self._called.set()
        try:
            await question.done.wait()
        finally:
            if question in self._asked.questions:
                self._asked.questions.remove(question)
        if question.error is not None:
            raise question.error

    async def between_cycles(self, read: Callable[[], T]) -> T:
        """Return what a function reads of the state while no cycle is open. Raises what the function raises."""
        if self._closed.is_set():
            return read()
        done, found, errors = anyio.Event(), list[T](), list[Exception]()

        def take() -> None:
            try:
                found.append(read())
            except Exception as error:  # the asker's: it must not end the scheduler
                errors.append(error)
            done.set()

        self._asked.between.append(take)
        await done.wait()
        if errors:
            raise errors[0]
        return found[0]

    @property
    def configuration(self) -> str:
        """The configuration that is in force, without passwords; "" before the first cycle."""
        return "" if self._setup is None else self._setup.event.text

    def _not_deciding(self) -> str:
        """Return why no cycle is opened now, "" if cycles are."""
        if not self._in_charge or not self._leading():
            return "this scheduler is not the leader: ask the holder of the Lease"
        return "" if self.state.is_ready else f"not everything is listed yet: {', '.join(self.state.missing)}"

    def busy_for(self) -> float:
        """Return the seconds since the last checkpoint of the open cycle; 0 if none is open."""
        return 0.0 if self._closed.is_set() else self._clock.monotonic() - self._progress

    def configure(self, text: str) -> Configuration:
        """Use another configuration from the next cycle on.

        Raises ConfigurationError and changes nothing if it cannot be used.
        """
        setup = Setup.make(text, self._known)
        self.adopt(setup)
        return setup.configuration

    def adopt(self, setup: Setup) -> None:
        """Use a setup that the caller made from the next cycle on."""
        self._next = setup
        if self._profile is None:
            self.state.require_resources(setup.profile.watches)
        self._watch()
        self._pace.want()
        self._called.set()

    def take_charge(self) -> None:
        """End the standby: decide as soon as everything that is published by now is folded."""
        self._charge.set()
        self._called.set()

    async def run(self, writers: Writers) -> None:
        """Watch, decide and send until cancelled. A standby only watches."""
        inbox = self._bus.subscribe_async()
        ignore_agents = (
            self._bus.subscribe(partial(self._note_arrivals, inbox)) if self.state.agent_schedulers else None
        )
        try:
            for kind in self._watched_kinds():
                self._informers.informer(kind)
            self._running = True
            self._watch()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._informers.run)
                if self._sources is not None:
                    tasks.start_soon(self._sources.run)
                tasks.start_soon(self._ensure_queues, writers.client)
                dispatcher = Dispatcher(writers, tasks)
                while True:
                    await self._until_due(inbox)
                    self._closed, self._progress = anyio.Event(), self._clock.monotonic()
                    await self._run_cycle(dispatcher, writers.asker)
                    self._closed.set()
                    while self._asked.between:
                        self._asked.between.pop()()
        finally:
            inbox.close()
            if ignore_agents is not None:
                ignore_agents()

    def _note_arrivals(self, inbox: Inbox, batch: Batch) -> None:
        """Note new latency-bound pods for the open cycle, or the next; cut it where many events wait to be folded.

        Pods that arrive while events are folded wait for all of them.
        """
        for event in batch:
            if isinstance(event, Observed) and event.change is Change.APPEARED and isinstance(event.object, Pod):
                spec = event.object.spec
                if not spec.node_name and spec.scheduler_name in self.state.agent_schedulers:
                    self._arrivals.append(event)
        if self._open_budget is not None and len(inbox) > MAX_WAITING_EVENTS:
            self._open_budget.hurry()

    def _take_arrivals(self, opened: CycleOpened, boundary: int) -> list[Observed]:
        """Return the new latency-bound pods that the open cycle may place; the next one opens soon for the others.

        They are folded again after older events, which changes nothing.
        """
        arrivals, self._arrivals = self._arrivals[:MAX_JOINING_PODS], self._arrivals[MAX_JOINING_PODS:]
        can_join = self.state.pods.can_join_cycle
        joining = [event for event in arrivals if isinstance(event.object, Pod) and can_join(event.object)]
        if len(joining) < len(arrivals) and self._open_budget is not None:
            self._open_budget.hurry()
        if joining:
            seqs = tuple(event.seq for event in joining)
            self._bus.publish([ArrivalsFolded(cause=opened.seq, cycle=opened.cycle, boundary=boundary, arrivals=seqs)])
        return joining

    def _watched_kinds(self) -> tuple[Kind, ...]:
        """Return the kinds that are watched whatever plugins are configured."""
        native = kinds.NATIVE_GROUPS if self.state.watches_native_groups else ()
        return (*WATCHED, *native, *(() if self.state.shards is None else (kinds.NODE_SHARD,)))

    async def _until_due(self, inbox: Inbox) -> None:
        """Fold events until a cycle is due and may be opened."""
        while True:
            takes_charge = self._charge.is_set() and not self._in_charge
            await self._fold(inbox)
            if takes_charge:
                self._begin()
            wait = self._pace.wait(self._clock.monotonic())
            if not self.state.is_ready or not self._in_charge or not self._leading():
                await self._event_or(inbox, self._pace.period)
            elif wait <= 0 or self._asked.questions:
                return
            elif self._pace.wanted:  # the debounce: events that arrive during it are folded after it
                await self._clock.sleep(wait)
            else:
                await self._event_or(inbox, wait)

    def _begin(self) -> None:
        self._in_charge = True
        self._pace.want()
        self._reactions.requested(self._clock.now())

    async def _ensure_queues(self, client: Client) -> None:
        if not self._in_charge:
            await self._charge.wait()
        await ensure_queues(client, self.state.default_queue, self._clock)
        self.queues_exist.set()

    async def _event_or(self, inbox: Inbox, seconds: float) -> None:
        """Return when there is an event in the inbox or `_called` is set, or after that many seconds.

        It is set when the standby ends, and when there is a new setup.
        """

        async def wake() -> None:
            await self._clock.idle(seconds)
            tasks.cancel_scope.cancel()

        async def wake_when_called() -> None:
            await self._called.wait()
            self._called = anyio.Event()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wake)
            tasks.start_soon(wake_when_called)
            await inbox.wait()
            tasks.cancel_scope.cancel()

    async def _fold(self, inbox: Inbox) -> None:
        """Fold the waiting events, with turns of the event loop between many."""
        waiting = len(inbox)
        while waiting > ITEMS_PER_TURN:
            await self._take_in(inbox.drain(ITEMS_PER_TURN))
            waiting -= ITEMS_PER_TURN
            self._collections.folded(ITEMS_PER_TURN)
            if not self._cycle:
                gc.freeze()  # listed objects live long: the collector need not visit them
            await checkpoint()
        await self._take_in(inbox.drain(waiting))
        self._collections.folded(waiting)
        self._arrivals = [event for event in self._arrivals if event.seq > self._folded]

    async def _take_in(self, events: list[Event]) -> None:
        """Fold events; those that could change a decision request a cycle."""
        for event in events:
            self._folded = event.seq
            if isinstance(event, OWN_EVENTS):
                continue
            if isinstance(event, Observed):
                self._measure(event)
            elif isinstance(event, BindDone | BindRefused):
                self._bind_ended(event)
            if isinstance(event, Synced) and self._next is not None:
                self._pace.want()
            folded: Any = event  # the bus delivers only events of the scheduler's family
            if self.state.fold(folded):
                self._trigger = event.seq
                if self._in_charge:
                    self._reactions.requested(event.at)
                self._pace.want()
            if self.state.unfinished_fold is not None:
                for _ in self.state.finish_fold():
                    await checkpoint()

    async def _run_cycle(self, dispatcher: Dispatcher, asker: Asker | None) -> None:
        """Run one cycle; its opening and its close are published as events."""
        self._reconfigure()
        self._collections.freeze_when_grown(len(self.state.ledger.tasks))
        opened = self._open_cycle(answering=asker is not None)
        budget = self._open_budget = TimeBudget(self._clock, self._budget, partial(self._take_arrivals, opened))
        if self._cycle == 1:
            _warn_of_other_schedulers(self.state)
        self._metrics.open()
        self._reactions.opened()
        result, fault = await self._decide(opened, budget, dispatcher)
        self._open_budget = None
        closed = CycleClosed(
            cause=opened.seq, cycle=self._cycle, where=result.cut_action, boundaries=budget.cut_boundary, fault=fault
        )
        self._bus.publish([closed])
        self._pace.close(self._clock.monotonic(), cut=bool(result.cut_action), fault=bool(fault))
        self._metrics.close(result, fault)
        self._reactions.closed(cut=bool(result.cut_action))
        self._check_setup(fault)
        if result.questions and asker is not None:
            await asker.answer(result.questions)
        await self._report()

    def _open_cycle(self, *, answering: bool) -> CycleOpened:
        self._cycle += 1
        opening = CycleOpened(
            cause=self._trigger,
            cycle=self._cycle,
            upto=self._folded,
            seed=self._seed,
            period=self._pace.period,
            answering=answering,
        )
        opened = self._bus.publish([opening])[0]
        assert isinstance(opened, CycleOpened)
        self._pace.open(self._clock.monotonic())
        return opened

    async def _decide(self, opened: CycleOpened, budget: TimeBudget, dispatcher: Dispatcher) -> tuple[CycleResult, str]:
        """Run the cycle's generator and send its decisions; return its result and the error that ended it."""
        points = 0
        assert self._profile is not None  # all its resources are listed, otherwise the state would not be ready
        questions, self._asked.questions = self._asked.questions, []
        inspect = partial(_answer, questions) if questions else None
        cycle = run_cycle(self.state, self._profile, opened, budget=budget, inspect=inspect)
        try:
            while True:
                point = next(cycle)
                points += 1
                self._metrics.reached(point)
                if _has_large_gang(point.decisions):
                    await checkpoint()  # sending a large gang takes as long as deciding it
                self._send(point.decisions, opened, dispatcher)
                await checkpoint()
                self._progress = self._clock.monotonic()
                self._metrics.resumed()
        except StopIteration as stop:
            result: CycleResult = stop.value
            return result, ""
        except Exception as error:
            _log.exception(
                "a cycle ended with an error; the next one opens after the schedule period", cycle=self._cycle
            )
            return CycleResult(), f"{type(error).__name__}: {error}"
        except anyio.get_cancelled_exc_class():
            given_up = CycleClosed(cause=opened.seq, cycle=self._cycle, boundaries=budget.cut_boundary, stopped=points)
            self._bus.publish([given_up])
            raise
        finally:
            cycle.close()
            for question in questions:
                question.done.set()

    async def _report(self) -> None:
        """Collect the metrics of plugins, at most once a period; stop when a latency-bound pod arrives.

        The rest follows after the next cycle.
        """
        now = self._clock.monotonic()
        if self._reporting is None and now >= self._report_due and self._profile is not None:
            self._report_due = now + self._pace.period
            self._reporting = self._report_in_steps(self._profile, now)
        for _ in self._reporting or ():
            await checkpoint()
            if self._arrivals:
                return
        self._reporting = None

    def _report_in_steps(self, profile: Profile, now: float) -> Iterator[None]:
        for enabled in itertools.chain.from_iterable(profile.tiers):
            if isinstance(enabled.plugin, Reports):
                yield from enabled.plugin.report(self._probe) or ()
                yield
        yield from self._backlog.report(self.state.ledger, now)

    def _reconfigure(self) -> None:
        """Adopt a new configuration between two cycles, once all resources of its plugins are listed."""
        setup = self._next
        if setup is not None and setup.profile.watches.issubset(self.state.listed_resources):
            self._profile, self._next, self._setup = setup.profile, None, setup
            self._watch()
            self._bus.publish([setup.event])
            if self._sources is not None:
                self._sources.follow(setup.profile)

    def _check_setup(self, fault: str) -> None:
        """Return to the last good configuration if the first cycle with a new one ended with a fault.

        Otherwise a plugin that raises when its first session opens would end every later cycle.
        """
        if not fault:
            self._proven = self._setup
        elif self._proven is not None and self._proven is not self._setup and self._next is None:
            self._next = self._proven
            self._probe.gauge(VALID, 0.0)
            _log.error(
                "the new configuration is set aside, because the first cycle with it ended with an error; the last"
                " good one stays in force: fix the plugin or the configuration and write it again",
                fault=fault,
            )

    def _watch(self) -> None:
        """Watch the resources of the profile's plugins and of the next profile's, and no others."""
        if not self._running:
            return
        profiles = (self._profile, None if self._next is None else self._next.profile)
        wanted = frozenset[str]().union(*(profile.watches for profile in profiles if profile is not None))
        for resource in sorted(wanted - self._watching):
            self._informers.informer(kinds.BY_RESOURCE[resource])
        for resource in sorted(self._watching - wanted):
            self._informers.forget(kinds.BY_RESOURCE[resource])
        self._watching = wanted

    def _send(self, decisions: tuple[SchedulerEffect, ...], opened: CycleOpened, dispatcher: Dispatcher) -> None:
        """Publish the decisions, and send them."""
        if decisions:
            said = self._bus.publish([Decided(cause=opened.seq, cycle=opened.cycle, decisions=decisions)])[0]
            dispatcher.send(decisions, said.seq)
            batches = [effect for effect in decisions if isinstance(effect, BindBatch)]
            self._reactions.decided(said.seq, sum(len(batch.binds) for batch in batches))
            for batch in batches:
                self._assumed(batch)

    def _measure(self, event: Observed) -> None:
        """Record metrics of objects, before their event is folded."""
        obj, gone = event.object, event.change is Change.GONE
        if gone and isinstance(obj, PodGroup):
            self._metrics.gone(obj.metadata.key)
        elif isinstance(obj, Pod):
            if event.change is Change.APPEARED and self._in_charge and self.state.is_ready and self._waits(obj):
                self._metrics.task_reached("Watched", obj.metadata.creation_timestamp or "", at=event.at)
            if self._pod_metrics is not None:
                self._pod_metrics.observe(obj, gone=gone)

    def _waits(self, pod: Pod) -> bool:
        """Return whether a pod is ours and has no node."""
        return not pod.spec.node_name and pod.spec.scheduler_name in self.state.scheduler_names

    def _bind_ended(self, event: BindDone | BindRefused) -> None:
        """Record metrics of a bind's outcome."""
        bound = isinstance(event, BindDone)
        self._reactions.ended(event.cause, event.at, bound=bound)
        if bound and (task := self.state.ledger.tasks.get(event.uid)):
            self._metrics.task_reached("Bound", task.created)

    def _assumed(self, batch: BindBatch) -> None:
        """Record metrics of tasks that were given nodes."""
        ledger = self.state.ledger
        if job := ledger.schedulable_jobs.get(batch.group):
            self._metrics.bound(job)
        self._reached("Assumed", batch.binds)

    def prebound(self, binds: Sequence[BindRequest]) -> None:
        """Record that the steps before binds are done."""
        self._reached("PreBound", binds)

    def _reached(self, stage: str, binds: Sequence[BindRequest]) -> None:
        tasks = self.state.ledger.tasks
        known = [task for bind in binds if (task := tasks.get(bind.uid)) is not None]
        for created, times in Counter([task.created for task in known]).items():
            self._metrics.task_reached(stage, created, times)


def _answer(questions: Sequence[_Question], session: CycleSession) -> Iterator[None]:
    """Let questions read a session; an error of one is its asker's alone."""
    for question in questions:
        question.error = None
        try:
            yield from question.read(session)
        except Exception as error:
            question.error = error


def shared_nodes(ledger: Ledger) -> dict[str, list[str]]:
    """Return the nodes that also have pods of other schedulers of gangs, by the schedulers' names.

    A pod that names a PodGroup was placed by such a scheduler; pods of DaemonSets and the like name none.
    """
    found: dict[str, set[str]] = {}
    for name in ledger.columns.rows:
        for task in ledger.tasks_by_node.get(name, {}).values():
            if not task.job and GROUP_NAME in task.pod.metadata.annotations:
                found.setdefault(task.pod.spec.scheduler_name, set()).add(name)
    return {scheduler: sorted(nodes) for scheduler, nodes in sorted(found.items())}


def _warn_of_other_schedulers(state: ClusterState) -> None:
    """Warn of nodes that others use too, and of a missing NodeShard."""
    if state.handover is not None and state.handover.has_selector:
        _warn_of_overlap(state.ledger)
    if state.shards is not None and not state.shards.has_own:
        _log.warning(
            "this scheduler has no NodeShard, so no node belongs to it: enable the sharding-controller and name the"
            " scheduler in its configuration, or create the NodeShard",
            nodeshard=state.shards.sharding.name,
            mode=state.shards.sharding.mode.value,
        )


def _warn_of_overlap(ledger: Ledger) -> None:
    for scheduler, nodes in shared_nodes(ledger).items():
        _log.warning(
            "another scheduler has pods on nodes of this one's --node-selector; if the selectors overlap, nodes can be"
            " booked twice: give each scheduler its own zone",
            scheduler=scheduler,
            nodes=len(nodes),
            example=nodes[0],
        )


def _has_large_gang(decisions: tuple[SchedulerEffect, ...]) -> bool:
    return any(isinstance(effect, BindBatch) and len(effect.binds) > ITEMS_PER_TURN for effect in decisions)


QUEUE_RETRY_INTERVAL = 1.0
"""Seconds between attempts."""


def standard_queues(default_queue: str) -> tuple[Manifest, ...]:
    """Return the root queue (weight 1, not reclaimable) and the default queue (weight 1, reclaimable)."""
    return tuple(
        {
            "apiVersion": kinds.QUEUE.api_version,
            "kind": kinds.QUEUE.kind,
            "metadata": {"name": name},
            "spec": {"weight": 1, "reclaimable": reclaimable},
        }
        for name, reclaimable in ((ROOT_QUEUE, False), (default_queue, True))
    )


async def ensure_queues(client: Client, default_queue: str, clock: Clock) -> None:
    """Create missing queues and keep existing ones; a standby tries until it leads, others until answered.

    A queue is read first: creating one that exists would call the admission webhooks, which may be away.
    """
    for manifest in standard_queues(default_queue):
        while True:
            try:
                await client.get_raw(kinds.QUEUE, manifest["metadata"]["name"])
            except NotFound:
                if await _has_created(client, manifest):
                    break
            except (ApiError, TransportError) as error:
                _log.warning("queue not read yet", queue=manifest["metadata"]["name"], error=str(error))
            else:
                break
            await clock.sleep(QUEUE_RETRY_INTERVAL)


async def _has_created(client: Client, queue: Manifest) -> bool:
    """Create a queue; returns whether it exists now."""
    try:
        await client.create(kinds.QUEUE, queue)
    except AlreadyExists:
        return True
    except NotSent:
        return False
    except (ApiError, TransportError) as error:
        _log.warning("queue not created yet", queue=queue["metadata"]["name"], error=str(error))
        return False
    return True
