"""Events of simulated kubelets: best effort. When the server is slower than the pods, events are dropped, not pods."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from typing import NamedTuple

import msgspec

from volcanoio.kube.transport import ContentType, Transport, TransportError
from volcanoio.localcluster.clock import Clock, rfc3339
from volcanoio.localcluster.nodes.status import Happening
from volcanoio.model.core import Pod
from volcanoio.model.kinds import EVENT

_BACKLOG = 5_000
_REMEMBER = 20_000
_IDLE_TURN, _OTHERS_SHARE, _LONGEST_WAIT = 0.001, 10.0, 0.25
"""Seconds a turn of an idle loop may take; how many times as long others then have; and the limit to that."""


class _Key(NamedTuple):
    uid: str
    reason: str
    message: str


class _Pending(NamedTuple):
    pod: Pod
    node: str
    happening: Happening
    at: float


class Recorder:
    """Writes what nodes tell; the same thing told again raises the count of its Event.

    `dropped` counts what was not written because the backlog was full.
    """

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._pending: OrderedDict[_Key, _Pending] = OrderedDict()
        self._counts: OrderedDict[_Key, int] = OrderedDict()
        self._wake = asyncio.Event()
        self.dropped = 0

    def tell(self, pod: Pod, node: str, happening: Happening) -> None:
        """Note something for writing; never waits."""
        key = _Key(pod.metadata.uid, happening.reason, happening.message)
        if key not in self._pending and len(self._pending) >= _BACKLOG:
            self.dropped += 1
            return
        self._pending[key] = _Pending(pod, node, happening, self._clock.now())
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
        began = self._clock.now()
        await asyncio.sleep(0)
        busy = self._clock.now() - began
        if busy > _IDLE_TURN:
            await self._clock.sleep_until(self._clock.now() + min(busy * _OTHERS_SHARE, _LONGEST_WAIT))

    async def _write(self, key: _Key, pending: _Pending) -> None:
        meta = pending.pod.metadata
        name = f"{meta.name}.{hashlib.sha256('|'.join(key).encode()).hexdigest()[:16]}"
        count = self._counts.get(key, 0) + 1
        self._counts[key] = count
        if len(self._counts) > _REMEMBER:
            self._counts.popitem(last=False)
        moment = rfc3339(pending.at)
        if count > 1:
            await self._transport.request(
                "PATCH",
                EVENT.path(meta.namespace, name),
                body=msgspec.json.encode({"count": count, "lastTimestamp": moment}),
                content_type=ContentType.MERGE_PATCH,
            )
            return
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": meta.namespace},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid,
            },
            "type": pending.happening.type,
            "reason": pending.happening.reason,
            "message": pending.happening.message,
            "source": {"component": "kubelet", "host": pending.node},
            "reportingComponent": "kubelet",
            "reportingInstance": pending.node,
            "count": 1,
            "firstTimestamp": moment,
            "lastTimestamp": moment,
        }  # fmt: skip
        await self._transport.request("POST", EVENT.path(meta.namespace), body=msgspec.json.encode(body))
