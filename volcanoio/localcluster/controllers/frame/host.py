"""`ControllerHost`: the async shell of the controllers: watches, the backlog, writes and their outcomes.

A plan is computed and carried out under its key alone. Responses to our own writes are folded into the tables before
the key is looked at again, so that however late a watch is, nothing is made twice; a write without an answer is sent
again under the same name.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import structlog

from volcanoio.framework.events import Event, Observed, Relisting, Synced
from volcanoio.framework.probe import Probe
from volcanoio.kube.informers import InformerSet
from volcanoio.kube.recorder import EventRecorder
from volcanoio.kube.sending import Sender
from volcanoio.kube.transport import Transport
from volcanoio.kube.undertakings import Undertakings
from volcanoio.kube.writes import ObjectWriter
from volcanoio.localcluster.clock import Clock
from volcanoio.localcluster.controllers.frame.backlog import Backlog, Item
from volcanoio.localcluster.controllers.frame.contract import Controller, Plan, Stage, Trouble, View, Write
from volcanoio.localcluster.controllers.frame.tables import Tables
from volcanoio.localcluster.controllers.kinds import KINDS
from volcanoio.localcluster.nodes.timers import Timers
from volcanoio.model.kinds import Kind

_log = structlog.get_logger(__name__)
WORKERS = 16
"""Keys worked on at a time."""
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(slots=True)
class _Record:
    """What the host keeps about a controller: whether it was woken and everything it reads is listed, and troubles."""

    controller: Controller
    woken: bool = False
    open: bool = False


class ControllerHost:
    """Runs controllers over one transport, `run` until cancelled. Times are the cluster's (`clock`)."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        controllers: Sequence[Controller],
        *,
        seed: int | None = None,
        probe: Probe | None = None,
    ) -> None:
        self.tables = Tables()
        self._clock = clock
        self._records = {controller.name: _Record(controller) for controller in controllers}
        self._informers = InformerSet(transport, self._take, clock=clock, probe=probe)
        self._recorder = EventRecorder(transport, component="kube-controller-manager", clock=clock, probe=probe)
        self._timers = Timers(clock)
        self._backlog = Backlog()
        self._under_way = Undertakings()
        sender = Sender(transport, clock=clock, patience=10.0)
        self._writer = ObjectWriter(sender, self._informers, self._under_way.start, known=KINDS, probe=probe)
        self._rng = random.Random(seed)
        self._synced: set[str] = set()
        self._watched: set[str] = set()
        self._listening: dict[str, list[_Record]] = {}
        self._trouble: dict[Item, Trouble] = {}
        self._held: set[Item] = set()
        self._due: dict[Item, float] = {}
        self._settling: set[Item] = set()
        self._started = asyncio.Event()

    async def run(self) -> None:
        """Watch and act until cancelled."""
        for record in self._records.values():
            self._watch(record.controller.primary, record)
        async with self._under_way, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informers.run())
            tasks.create_task(self._recorder.run())
            tasks.create_task(self._timers.run())
            for record in self._records.values():
                if record.controller.every:
                    tasks.create_task(self._look_again(record))
            for _ in range(WORKERS):
                tasks.create_task(self._work())
            self._started.set()

    async def synced(self) -> None:
        """Return once the primary kinds were listed."""
        await self._started.wait()
        await self._informers.synced()

    def _watch(self, kind: Kind, record: _Record) -> None:
        listening = self._listening.setdefault(kind.resource, [])
        if record not in listening:
            listening.append(record)
        if kind.resource not in self._watched:
            self._watched.add(kind.resource)
            self._informers.informer(kind)

    # What comes in.

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Observed):
                self._observe(event)
            elif isinstance(event, Synced):
                self._synced.add(event.resource)
                for record in self._listening.get(event.resource, ()):
                    self._open(record)
            elif isinstance(event, Relisting):
                self._synced.discard(event.resource)
                for record in self._listening.get(event.resource, ()):
                    record.open = False

    def _observe(self, event: Observed) -> None:
        resource = event.resource
        self.tables.of(resource).fold(event)
        for record in self._listening.get(resource, ()):
            controller = record.controller
            if not record.woken:
                if controller.primary.resource == resource and controller.wakes(event):
                    self._wake(record)
            elif record.open:
                for key in controller.keys(event, self.tables):
                    self._add((controller.name, key), controller.settles)

    def _add(self, item: Item, settles: float) -> None:
        """Have a key looked at, after the time in which its controller waits for more."""
        if not settles:
            self._backlog.add(item)
        elif item not in self._settling:
            self._settling.add(item)
            self._timers.at(self._clock.now() + settles, lambda: self._settled(item))

    def _settled(self, item: Item) -> None:
        self._settling.discard(item)
        self._backlog.add(item)

    def _wake(self, record: _Record) -> None:
        record.woken = True
        for kind in record.controller.reads:
            self._watch(kind, record)
        self._open(record)

    def _open(self, record: _Record) -> None:
        """Once all it reads is listed, have the controller look at all its keys."""
        controller = record.controller
        needed = {controller.primary.resource, *(kind.resource for kind in controller.reads)}
        if record.woken and not record.open and needed <= self._synced:
            record.open = True
            for key in controller.all_keys(self.tables, self._clock.now()):
                self._backlog.add((controller.name, key))

    async def _look_again(self, record: _Record) -> None:
        """From time to time all keys of a controller, without hurrying a clock for it."""
        controller = record.controller
        while True:
            await self._clock.idle(controller.every)
            if record.open:
                for key in controller.all_keys(self.tables, self._clock.now()):
                    self._backlog.add((controller.name, key))

    # What is done.

    async def _work(self) -> None:
        while True:
            item = await self._backlog.take()
            try:
                await self._step(item)
            except Exception:
                _log.exception("controller failed", controller=item[0], key=item[1])
                self._later(item)
            finally:
                self._backlog.done(item)

    async def _step(self, item: Item) -> None:
        record = self._records[item[0]]
        if not record.open:
            return  # all keys come again when it opens
        held = item in self._held
        trouble = self._trouble.get(item)
        view = View(self.tables, self._clock.now(), self._suffix, trouble, held)
        plan = record.controller.reconcile(item[1], view)
        for event in plan.events:
            self._recorder.record(event.regarding, event.type, event.reason, event.message, component=item[0])
        if plan.again is not None:
            self._remind(item, plan.again)
        refused = await self._carry_out(item, plan)
        if held:
            return  # the retry has its time already
        if refused is not None:
            self._trouble[item] = refused
            self._held.add(item)
            self._backlog.add(item)  # it may want to tell in its status
            self._later(item)
            return
        self._backlog.succeeded(item)
        if plan.more:
            self._backlog.add(item)
            await asyncio.sleep(0)
        if trouble is not None:
            del self._trouble[item]
            self._backlog.add(item)

    def _later(self, item: Item) -> None:
        due = self._clock.now() + self._backlog.back_off(item)
        self._timers.at(due, lambda: self._retry(item))

    def _retry(self, item: Item) -> None:
        self._held.discard(item)
        self._backlog.add(item)

    def _remind(self, item: Item, moment: float) -> None:
        due = self._due.get(item)
        if due is not None and self._clock.now() < due <= moment:
            return
        self._due[item] = moment
        self._timers.at(moment, lambda: self._reminded(item))

    def _reminded(self, item: Item) -> None:
        self._due.pop(item, None)
        self._backlog.add(item)

    async def _carry_out(self, item: Item, plan: Plan) -> Trouble | None:
        for stage in plan.stages:
            troubles = await self._stage(item, stage)
            if troubles:
                return troubles[0]
        return None

    async def _stage(self, item: Item, stage: Stage) -> list[Trouble]:
        if len(stage) == 1:
            outcomes = [await self._write(item, stage[0])]
        else:
            outcomes = await asyncio.gather(*(self._write(item, write) for write in stage))
        return [trouble for trouble in outcomes if trouble is not None]

    async def _write(self, item: Item, write: Write) -> Trouble | None:
        outcome, observed = await self._writer.write(write.effect)
        self._take(observed)
        error, told = outcome.error, write.told
        if error is None:
            if told is not None and told.done is not None:
                self._recorder.record(told.regarding, "Normal", *told.done, component=item[0])
            return None
        if told is not None and told.refused is not None:
            reason, prefix = told.refused
            self._recorder.record(told.regarding, "Warning", reason, f"{prefix}{error.message}", component=item[0])
        return Trouble(error.code, error.reason, error.message, write.effect)

    def _suffix(self) -> str:
        return "".join(self._rng.choices(_LETTERS, k=5))
