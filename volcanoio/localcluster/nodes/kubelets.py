"""The kubelets of all nodes as one object: pods advance when they are due, and their status is written.

Only one task changes a pod between two awaits, so there are no locks. Due times are computed from stored times; after
a crash a new fleet reads them back and continues.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial

import msgspec

from volcanoio.framework.backoff import Backoff
from volcanoio.kube.transport import TransportError
from volcanoio.localcluster.nodes.api_access import NoResponse, PodGone, PodWriter
from volcanoio.localcluster.nodes.container_runtime import SIMULATED, Exit
from volcanoio.localcluster.nodes.executions import Executions
from volcanoio.localcluster.nodes.hollow import FleetContext, HollowNode
from volcanoio.localcluster.nodes.pod_admission import Entry, KubeletSettings, PodAdmission
from volcanoio.localcluster.nodes.pod_events import KubeletEvents, PodEvent, pod_events
from volcanoio.localcluster.nodes.pods import lifecycle
from volcanoio.localcluster.nodes.pods.podrun import PodRun
from volcanoio.localcluster.nodes.pods.status import status_of
from volcanoio.localcluster.nodes.volumes import Volumes
from volcanoio.model.core import Pod

RETRY = 0.5  # seconds until a write is retried, and until the first check of volumes
_MOUNT_BACKOFF = Backoff(base=RETRY, cap=8.0)  # between checks of volumes; a kubelet's delay grows to two minutes
_WORTH_SHOWING = 1.0  # seconds a pod must wait before ContainerCreating or its coming end is written


class Kubelets:
    """The pods of all nodes; a sink of their watch.

    There are as many tasks of `work` as concurrent writes.
    """

    def __init__(self, context: FleetContext, events: KubeletEvents | None, settings: KubeletSettings) -> None:
        self.entries: dict[str, Entry] = {}
        self.executions = Executions({}, SIMULATED, self._on_run_change)
        self.intake = PodAdmission(context.clock, self.executions, settings, self._record)
        self._clock = context.clock
        self._nodes = context.nodes
        self._timers = context.timers
        self._patient_timers = context.patient_timers
        self._events = events
        self._lag = settings.lag
        self._queue: asyncio.Queue[Entry] = asyncio.Queue()
        self._writer = PodWriter(context.transport)
        self._volumes = Volumes(context.transport, context.clock)

    # Watch events.

    def seen(self, one: Pod) -> None:
        """Handle a pod that is bound to a node."""
        if self._lag:
            self._timers.at(self._clock.now() + self._lag, partial(self._look, one))
        else:
            self._look(one)

    def gone(self, uid: str) -> None:
        """Handle a pod that was deleted from the API."""
        if self._lag:
            self._timers.at(self._clock.now() + self._lag, partial(self._forget, uid))
        else:
            self._forget(uid)

    def listed(self, uids: frozenset[str]) -> None:
        """Handle a complete list: known pods that are not in it are deleted."""
        for uid in self.entries.keys() - uids:
            self.gone(uid)

    def back(self, node: HollowNode) -> None:
        """Handle the changes that a node missed during its outage."""
        unheard, node.unheard = node.unheard, []
        for each in unheard:
            each()
        for entry in list(self.entries.values()):
            if entry.node is node:
                entry.sent, entry.resumed = b"", True  # others may have written its status meanwhile
                self._mark(entry)

    def _look(self, pod: Pod) -> None:
        entry = self.entries.get(pod.metadata.uid)
        node = self._nodes.get(pod.spec.node_name)
        if node is not None and node.out:
            node.unheard.append(partial(self._look, pod))
            return
        if entry is None:
            entry = self.intake.take_in(pod, node)
            if entry is None:
                return
            self.entries[pod.metadata.uid] = entry
            if entry.run is not None and not entry.resumed:
                self._note(entry, None, entry.run)
        elif not self._is_changed(entry, pod):
            return
        if pod.metadata.deletion_timestamp is not None:
            entry.deleting = True
            if entry.run is not None:
                grace = pod.metadata.deletion_grace_period_seconds
                seconds = 30.0 if grace is None else float(grace)
                entry.run = self._change(entry, lifecycle.terminate(entry.run, self._clock.now(), seconds))
        self._proceed(entry)

    def _is_changed(self, entry: Entry, pod: Pod) -> bool:
        """Return whether a known pod changed for its node; most changes are our own writes."""
        new, old = pod.metadata, entry.pod.metadata
        if pod.spec.readiness_gates or new.generation != old.generation or pod.spec.active_deadline_seconds:
            entry.pod = pod
            if entry.run is not None:
                entry.run = msgspec.structs.replace(entry.run, pod=pod)
            return True
        if new.deletion_timestamp is None:
            return False
        changed = not entry.deleting or new.deletion_grace_period_seconds != old.deletion_grace_period_seconds
        entry.pod = pod
        return changed

    # Timers and runtimes.

    def _on_run_change(self, uid: str, container: str, how: Exit | None) -> None:
        """Handle the start or the end of a container in a runtime."""
        entry = self.entries.get(uid)
        if entry is None or entry.run is None:
            return
        run, now = lifecycle.advance(entry.run, self._clock.now()), self._clock.now()
        after = lifecycle.began(run, container, now) if how is None else lifecycle.exited(run, container, now, how)
        entry.run = self._change(entry, after)
        self._proceed(entry)

    def _proceed(self, entry: Entry) -> None:
        """Apply the pod's due transitions, and schedule its next one and its status write."""
        run = entry.run
        if run is not None:
            run = entry.run = self._change(entry, lifecycle.advance(run, self._clock.now()))
            if run.finished:
                self._end(entry)
            elif (due := run.due) is not None and due != entry.timer:
                entry.timer = due
                (self._patient_timers if run.futile else self._timers).at(due, partial(self._proceed, entry))
        self._mark(entry)

    def _change(self, entry: Entry, after: PodRun) -> PodRun:
        """Return the state after a transition, and record its Events."""
        if after is not entry.run:
            self._note(entry, entry.run, after)
        return after

    def _note(self, entry: Entry, before: PodRun | None, after: PodRun) -> None:
        """Record the events, attempts and orders of a transition."""
        self.intake.attempts.note(after)
        if self._events is not None:
            for event in pod_events(before, after):
                self._events.record_pod(entry.pod, entry.node.name, event)
        self.executions.follow(before, after, entry.node.name)

    def _record(self, pod: Pod, node: HollowNode, event: PodEvent) -> None:
        if self._events is not None:
            self._events.record_pod(pod, node.name, event)

    def _end(self, entry: Entry) -> None:
        """Handle the end of all of the pod's processes: its node counts it until the lag has passed."""
        if not entry.counted:
            return
        entry.counted = False
        uid = entry.pod.metadata.uid
        entry.node.ports.pop(uid, None)
        if entry.run is not None:
            self.intake.addresses(uid).give_back(entry.run.pod_ip)
        release = partial(entry.node.release, uid)
        if self._lag:
            self._timers.at(self._clock.now() + self._lag, release)
        else:
            release()

    def _forget(self, uid: str) -> None:
        entry = self.entries.get(uid)
        if entry is None:
            return
        if entry.node.out:
            entry.node.unheard.append(partial(self._forget, uid))
            return
        del self.entries[uid]
        self._end(entry)
        self.executions.forget(uid)
        entry.run = None

    # Writes of statuses.

    def _mark(self, entry: Entry) -> None:
        if not entry.queued and not entry.node.out:
            entry.queued = True
            self._queue.put_nowait(entry)

    async def work(self) -> None:
        """Write the status of pods whose state may differ from what is stored; one of the writers."""
        while True:
            entry = await self._queue.get()
            if entry.busy:  # another writer handles it, and checks `queued` when it is done
                continue
            entry.busy = True
            while entry.queued:
                entry.queued = False
                try:
                    await self._push(entry)
                except PodGone:
                    self._forget(entry.pod.metadata.uid)
                except (NoResponse, TransportError):
                    self._later(partial(self._mark, entry))
            entry.busy = False

    def _later(self, action: Callable[[], None]) -> None:
        self._timers.at(self._clock.now() + RETRY, action)

    async def _push(self, entry: Entry) -> None:
        uid = entry.pod.metadata.uid
        if self.entries.get(uid) is not entry or entry.node.out:
            return
        if entry.handover is not None:
            await self._writer.hand_over(entry.pod.metadata, entry.node.name, entry.handover)
            entry.handover = None
        if entry.run is not None and entry.run.volumes_at is None and not entry.run.finished:
            await self._mount(entry)
        status = self._status(entry)
        if status and status != entry.sent:
            await self._writer.status(entry.pod.metadata, status)
            entry.sent = status
        if entry.run is not None and not entry.run.finished:
            return
        if entry.queued:  # it changed during the write of the status: the last status is written before the delete
            return
        if entry.deleting:
            await self._writer.remove(entry.pod.metadata)
            self._forget(uid)

    def _status(self, entry: Entry) -> bytes:
        run = entry.run
        if run is None:
            return entry.final
        if not run.started and not run.finished:
            due = run.due
            waits = due is None or due > self._clock.now() + _WORTH_SHOWING
            if not waits and not any(c.message for c in run.containers):
                return b""
        if entry.sent and not run.finished and (run.ends_at or math.inf) <= self._clock.now() + _WORTH_SHOWING:
            return b""
        scheme = self.executions.scheme(entry.pod.metadata.uid)
        return msgspec.json.encode(status_of(run, scheme, clearing=bool(entry.sent) or entry.resumed))

    async def _mount(self, entry: Entry) -> None:
        """Check the pod's volumes; check again later if one is missing."""
        if entry.run is None or entry.run.stuck:
            return
        missing = await self._volumes.missing(entry.pod)
        run = entry.run
        if run is None or run.finished:
            return
        if missing is not None:
            self._record(entry.pod, entry.node, PodEvent("Warning", "FailedMount", missing))
            entry.looks += 1
            self._patient_timers.at(self._clock.now() + _MOUNT_BACKOFF.delay(entry.looks), partial(self._mark, entry))
            return
        entry.run = lifecycle.mount(run, self._clock.now())
        self._proceed(entry)
