"""Events of simulated kubelets: best effort. When the server is slower than the pods, events are dropped, not pods."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from volcanoio.kube.transport import ContentType, Transport, TransportError
from volcanoio.localcluster.clock import Clock
from volcanoio.localcluster.nodes.happenings import Happening
from volcanoio.model.core import Pod
from volcanoio.model.kinds import EVENT
from volcanoio.model.times import rfc3339

_BACKLOG = 5_000
_REMEMBER = 20_000
_IDLE_TURN, _OTHERS_SHARE, _LONGEST_WAIT = 0.001, 10.0, 0.25
"""Seconds a turn of an idle loop may take; how many times as long others then have; and the limit to that."""


class _Subject(NamedTuple):
    """What an Event is about; of a node the uid is its name, as kubelets write it."""

    kind: str
    namespace: str
    name: str
    uid: str
    field_path: str


class _Key(NamedTuple):
    subject: _Subject
    reason: str
    message: str


class _Pending(NamedTuple):
    node: str
    type: str
    at: float


@dataclass(slots=True)
class _Told:
    """An Event that was written; names grow with time, so that a list of them is in order."""

    name: str
    count: int = 1


class Recorder:
    """Writes what nodes tell; the same thing told again raises the count of its Event.

    `dropped` counts what was not written because the backlog was full.
    """

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._pending: OrderedDict[_Key, _Pending] = OrderedDict()
        self._told: OrderedDict[_Key, _Told] = OrderedDict()
        self._number = 0
        self._wake = asyncio.Event()
        self.dropped = 0

    def tell(self, pod: Pod, node: str, happening: Happening) -> None:
        """Note something about a pod for writing; never waits."""
        meta = pod.metadata
        self._note(_Subject("Pod", meta.namespace, meta.name, meta.uid, happening.field_path), node, happening)

    def tell_of_node(self, node: str, uid: str, happening: Happening) -> None:
        """Note something about a node for writing; never waits."""
        self._note(_Subject("Node", "", node, uid, ""), node, happening)

    def _note(self, subject: _Subject, node: str, happening: Happening) -> None:
        key = _Key(subject, happening.reason, happening.message)
        if key not in self._pending and len(self._pending) >= _BACKLOG:
            self.dropped += 1
            return
        self._pending[key] = _Pending(node, happening.type, self._clock.now())
        self._wake.set()

    async def run(self) -> None:
        """Write for ever, one at a time."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending:
                key, pending = self._pending.popitem(last=False)
                try:
                    await self._write(key, pending)
                except TransportError:
                    self.dropped += 1
                await self._give_way()

    async def _give_way(self) -> None:
        """Let pods go first: where a turn of the loop takes long, they have work."""
        began, rate = self._clock.monotonic(), self._clock.rate
        await asyncio.sleep(0)
        busy = (self._clock.monotonic() - began) / rate
        if busy > _IDLE_TURN:
            await self._clock.idle(min(busy * _OTHERS_SHARE, _LONGEST_WAIT) * rate)

    async def _write(self, key: _Key, pending: _Pending) -> None:
        subject = key.subject
        namespace = subject.namespace or "default"
        moment = rfc3339(pending.at)
        known = self._told.get(key)
        if known is not None:
            known.count += 1
            body = msgspec.json.encode({"count": known.count, "lastTimestamp": moment})
            path = EVENT.path(namespace, known.name)
            response = await self._transport.request("PATCH", path, body=body, content_type=ContentType.MERGE_PATCH)
            if response.status != 404:  # else it was too old to be kept
                return
        self._number = max(self._number + 1, int(pending.at * 1e9))
        name = f"{subject.name}.{self._number:x}"
        self._told[key] = _Told(name)
        if len(self._told) > _REMEMBER:
            self._told.popitem(last=False)
        about = {"apiVersion": "v1", "kind": subject.kind, "name": subject.name, "uid": subject.uid}
        if subject.namespace:
            about["namespace"] = subject.namespace
        if subject.field_path:
            about["fieldPath"] = subject.field_path
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": about,
            "type": pending.type,
            "reason": key.reason,
            "message": key.message,
            "source": {"component": "kubelet", "host": pending.node},
            "reportingComponent": "kubelet",
            "reportingInstance": pending.node,
            "count": 1,
            "firstTimestamp": moment,
            "lastTimestamp": moment,
        }
        await self._transport.request("POST", EVENT.path(namespace), body=msgspec.json.encode(event))
