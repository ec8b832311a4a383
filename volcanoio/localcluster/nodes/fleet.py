"""All simulated nodes as one: a watch, a heap of timers, a few writers, and the pure life of each pod in between.

One task touches a pod at a time between two awaits, so no locks. What is due is computed from stored times; after a
crash a new fleet reads them back and goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import anyio
import msgspec

from volcanoio.kube.transport import Transport, TransportError
from volcanoio.localcluster.clock import Clock
from volcanoio.localcluster.nodes import lifecycle, resume
from volcanoio.localcluster.nodes.addresses import PodAddresses, host_address
from volcanoio.localcluster.nodes.admission import Ledger, Rejection, pod_requests
from volcanoio.localcluster.nodes.attempts import Attempts
from volcanoio.localcluster.nodes.behaviour import (
    DEFAULT_START_LATENCY,
    Behaviour,
    BehaviourError,
    behaviour_of,
)
from volcanoio.localcluster.nodes.lifecycle import PodRun
from volcanoio.localcluster.nodes.podfeed import PodFeed
from volcanoio.localcluster.nodes.podwriter import PodGone, PodWriter, Unanswered
from volcanoio.localcluster.nodes.recorder import Recorder
from volcanoio.localcluster.nodes.registration import LOCAL, Registration
from volcanoio.localcluster.nodes.shapes import NodeShape
from volcanoio.localcluster.nodes.status import Happening, happenings, rejected_status, status_of
from volcanoio.localcluster.nodes.timers import Timers
from volcanoio.localcluster.nodes.volumes import Volumes, references
from volcanoio.model.core import Pod
from volcanoio.model.quantity import QuantityError
from volcanoio.model.resources import PODS, Amounts, amounts

WRITERS = 16
_RETRY = 0.5  # seconds until a write or a look for volumes is tried again
_WORTH_SHOWING = 1.0  # simulated seconds a pod must wait before its ContainerCreating is written


@dataclass(frozen=True, slots=True)
class Overcommit:
    """A pod that was bound to a node on which it does not fit: somebody's scheduler is wrong."""

    pod: str
    node: str
    rejection: Rejection


@dataclass(slots=True)
class _Node:
    """One node of the fleet."""

    shape: NodeShape
    ledger: Ledger
    address: str


@dataclass(slots=True)
class _Entry:
    """A pod on a node. `sent` is the status last written; `run` is None for a pod that was refused or had ended."""

    pod: Pod
    node: _Node
    run: PodRun | None = None
    final: bytes = b""
    sent: bytes = b""
    timer: float | None = None
    queued: bool = False
    busy: bool = False
    deleting: bool = False
    counted: bool = True


class NodeFleet:
    """Simulated nodes against any API server.

    `kubelet_lag` (seconds) delays what nodes see of pods, and how long they count an ended one. `overcommitted` is the
    alarm: every pod refused for lack of resources. `events=False` writes no Events. `name` tells the nodes of one
    fleet from those of others on the same cluster.
    """

    def __init__(
        self,
        transport: Transport,
        shapes: Sequence[NodeShape],
        clock: Clock,
        *,
        kubelet_lag: float = 0.0,
        seed: int = 0,
        events: bool = True,
        start_latency: float = DEFAULT_START_LATENCY,
        name: str = LOCAL,
    ) -> None:
        self.overcommitted: list[Overcommit] = []
        self.registered = asyncio.Event()
        self._clock = clock
        self._pace = 1.0 / clock.speed
        self._lag = kubelet_lag
        self._seed = seed
        self._start_latency = start_latency
        self._nodes = {
            shape.name: _Node(shape, Ledger(amounts(shape.resources)), host_address(index))
            for index, shape in enumerate(shapes)
        }
        self._removed: frozenset[str] = frozenset()
        self._pods: dict[str, _Entry] = {}
        self._queue: asyncio.Queue[_Entry] = asyncio.Queue()
        self._attempts = Attempts()
        self._addresses = PodAddresses()
        self._timers = Timers(clock)
        self._writer = PodWriter(transport)
        self._volumes = Volumes(transport, clock)
        self._recorder = Recorder(transport, clock) if events else None
        self._registration = Registration(transport, clock, shapes, name)
        self._feed = PodFeed(transport, clock, self)

    @property
    def pods(self) -> int:
        """Pods the nodes know and have not finished with."""
        return len(self._pods)

    async def run(self) -> None:
        """Register the nodes, then serve until cancelled. `registered` is set when all nodes are known."""
        self._attempts.resumed, self._removed = await self._registration.register()
        self.registered.set()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._timers.run)
            tasks.start_soon(self._registration.renew)
            if self._recorder is not None:
                tasks.start_soon(self._recorder.run)
            for _ in range(WRITERS):
                tasks.start_soon(self._work)
            await self._feed.run()

    # What the watch tells.

    def seen(self, pod: Pod) -> None:
        """The watch shows a pod bound to some node."""
        if self._lag:
            self._timers.at(self._clock.now() + self._lag, partial(self._look, pod))
        else:
            self._look(pod)

    def gone(self, uid: str) -> None:
        """A pod is no longer in the API."""
        self._timers.at(self._clock.now() + self._lag, partial(self._forget, uid))

    def listed(self, uids: frozenset[str]) -> None:
        """Pods we know that a whole list did not show are gone."""
        for uid in self._pods.keys() - uids:
            self.gone(uid)

    def _look(self, pod: Pod) -> None:
        entry = self._pods.get(pod.metadata.uid)
        if entry is None:
            entry = self._take_in(pod)
            if entry is None:
                return
            self._pods[pod.metadata.uid] = entry
        elif pod.metadata.deletion_timestamp is None or entry.deleting:
            return
        if pod.metadata.deletion_timestamp is not None:
            entry.deleting = True
            if entry.run is not None:
                grace = pod.metadata.deletion_grace_period_seconds
                entry.run = self._change(
                    entry, lifecycle.terminate(entry.run, self._clock.now(), 30.0 if grace is None else float(grace))
                )
        self._proceed(entry)

    def _take_in(self, pod: Pod) -> _Entry | None:
        """A pod seen for the first time: admitted, refused, or resumed from its stored status."""
        node = self._nodes.get(pod.spec.node_name)
        deleting = pod.metadata.deletion_timestamp is not None
        if node is None:
            if pod.spec.node_name not in self._removed:
                return None
            lost = _Node(NodeShape(pod.spec.node_name), Ledger({}), "")
            return _Entry(pod, lost, counted=False, deleting=True)
        if resume.is_finished(pod):
            return _Entry(pod, node, counted=False) if deleting else None
        now, uid = self._clock.now(), pod.metadata.uid
        earlier = self._attempts.before(pod)
        requests, behaviour, problem = self._read(pod)
        if resume.was_accepted(pod):
            node.ledger.restore(uid, requests)
            run = resume.resume(pod, behaviour, now, pace=self._pace, host_ip=node.address, earlier_starts=earlier)
            self._addresses.keep(run.pod_ip)
            self._attempts.note(run)
            return _Entry(pod, node, lifecycle.misconfigured(run, problem) if problem else run)
        rejection = node.ledger.admit(uid, requests)
        if rejection is not None:
            return self._refuse(pod, node, rejection)
        run = lifecycle.accept(
            pod, behaviour, now, pace=self._pace, host_ip=node.address,
            pod_ip=node.address if pod.spec.host_network else self._addresses.take(),
            earlier_starts=earlier, has_volumes=bool(problem) or bool(references(pod)),
        )  # fmt: skip
        entry = _Entry(pod, node, run)
        if problem:
            entry.run = self._change(entry, lifecycle.misconfigured(run, problem))
        return entry

    def _read(self, pod: Pod) -> tuple[Amounts, Behaviour, str]:
        """What the pod takes and does, and what is wrong with its manifest."""
        try:
            return pod_requests(pod), behaviour_of(pod, self._seed, self._start_latency), ""
        except (BehaviourError, QuantityError) as error:
            return {PODS: 1}, Behaviour(pod.metadata.uid), str(error)

    def _refuse(self, pod: Pod, node: _Node, rejection: Rejection) -> _Entry:
        self.overcommitted.append(Overcommit(pod.metadata.key, node.shape.name, rejection))
        self._tell(pod, node, Happening("Warning", rejection.reason, rejection.message))
        final = msgspec.json.encode(rejected_status(rejection, self._clock.now()))
        return _Entry(pod, node, final=final, counted=False)

    # What time brings.

    def _proceed(self, entry: _Entry) -> None:
        """Bring a pod up to now, and see to it that its next moment and its write come."""
        run = entry.run
        if run is not None:
            run = entry.run = self._change(entry, lifecycle.advance(run, self._clock.now()))
            if run.finished:
                self._end(entry)
            elif run.due is not None and run.due != entry.timer:
                entry.timer = run.due
                self._timers.at(run.due, partial(self._proceed, entry))
        self._mark(entry)

    def _change(self, entry: _Entry, after: PodRun) -> PodRun:
        """Note what a transition is known for: events and attempts."""
        before = entry.run
        if after is not before:
            self._attempts.note(after)
            if self._recorder is not None:
                for happening in happenings(before, after):
                    self._recorder.tell(entry.pod, entry.node.shape.name, happening)
        return after

    def _tell(self, pod: Pod, node: _Node, happening: Happening) -> None:
        if self._recorder is not None:
            self._recorder.tell(pod, node.shape.name, happening)

    def _end(self, entry: _Entry) -> None:
        """Nothing of the pod runs any more: its node counts it until the lag has passed."""
        if entry.counted:
            entry.counted = False
            if entry.run is not None:
                self._addresses.give_back(entry.run.pod_ip)
            release = partial(entry.node.ledger.release, entry.pod.metadata.uid)
            if self._lag:
                self._timers.at(self._clock.now() + self._lag, release)
            else:
                release()

    def _forget(self, uid: str) -> None:
        entry = self._pods.pop(uid, None)
        if entry is not None:
            self._end(entry)
            entry.run = None

    # What is written.

    def _mark(self, entry: _Entry) -> None:
        if not entry.queued:
            entry.queued = True
            self._queue.put_nowait(entry)

    async def _work(self) -> None:
        """One of the writers: takes pods whose state may differ from what is stored."""
        while True:
            entry = await self._queue.get()
            if entry.busy:  # another writer has it, and looks at `queued` when it is done
                continue
            entry.busy = True
            while entry.queued:
                entry.queued = False
                try:
                    await self._push(entry)
                except PodGone:
                    self._forget(entry.pod.metadata.uid)
                except (Unanswered, TransportError):
                    self._timers.at(self._clock.now() + _RETRY, partial(self._mark, entry))
            entry.busy = False

    async def _push(self, entry: _Entry) -> None:
        if self._pods.get(entry.pod.metadata.uid) is not entry:
            return
        if entry.run is not None and entry.run.volumes_at is None and not entry.run.finished:
            await self._mount(entry)
        status = self._status(entry)
        if status and status != entry.sent:
            await self._writer.status(entry.pod.metadata, status)
            entry.sent = status
        if entry.run is not None and not entry.run.finished:
            return
        if entry.queued:  # it changed while the status was on its way: the last status goes before the delete
            return
        if entry.deleting:
            await self._writer.remove(entry.pod.metadata)
            self._forget(entry.pod.metadata.uid)

    def _status(self, entry: _Entry) -> bytes:
        run = entry.run
        if run is None:
            return entry.final
        if not run.started and not run.finished:
            due = run.due
            waits = due is None or due > self._clock.now() + _WORTH_SHOWING * self._pace
            shown = any(c.message for c in run.containers)
            if not waits and not shown:
                return b""
        return msgspec.json.encode(status_of(run))

    async def _mount(self, entry: _Entry) -> None:
        """Look for the pod's volumes; look again later if one is missing."""
        if entry.run is None or entry.run.stuck:
            return
        missing = await self._volumes.missing(entry.pod)
        run = entry.run
        if run is None or run.finished:
            return
        if missing is not None:
            self._tell(entry.pod, entry.node, Happening("Warning", "FailedMount", missing))
            self._timers.at(self._clock.now() + _RETRY, partial(self._mark, entry))
            return
        entry.run = lifecycle.mount(run, self._clock.now())
        self._proceed(entry)
