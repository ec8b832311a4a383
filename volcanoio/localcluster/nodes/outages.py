"""Outages, flapping and drains of nodes, carried out as the nodes' annotations (`model.node_failures`) request."""

from __future__ import annotations

import asyncio
import math
from functools import partial

import msgspec
import structlog

from volcanoio.kube.transport import ContentType, TransportError
from volcanoio.localcluster.nodes.hollow import FleetContext, HollowNode
from volcanoio.localcluster.nodes.kubelets import Kubelets
from volcanoio.localcluster.nodes.registration import Registration
from volcanoio.model import names
from volcanoio.model.base import Manifest
from volcanoio.model.core import Node, Pod
from volcanoio.model.kinds import NODE, POD
from volcanoio.model.node_failures import NO_FAILURES, ChaosError, NodeFailures, parse_failures, without_now
from volcanoio.model.times import epoch

_log = structlog.get_logger(__name__)
_RETRY = 5.0
"""Seconds until a refused eviction is retried, as in kubectl drain."""
NOTICED = (6.0, 62.0)
"""Seconds after a node fell silent to which time must get: monitors have seen its last sign of life by then, and have
missed the next one for 50 s (Kubernetes: node-monitor-grace-period, looked at every 5 s).
"""


class Outages:
    """Failures that nodes' annotations request.

    `known` is set when the nodes were listed once.
    """

    def __init__(self, context: FleetContext, registration: Registration, kubelets: Kubelets) -> None:
        self.known = asyncio.Event()
        self._transport = context.transport
        self._clock = context.clock
        self._nodes = context.nodes
        self._timers = context.timers
        self._patient_timers = context.patient_timers
        self._registration = registration
        self._kubelets = kubelets
        self._to_do: asyncio.Queue[tuple[HollowNode, str]] = asyncio.Queue()

    async def run(self) -> None:
        """Run the queued work that sends requests, one item after the other, until cancelled."""
        while True:
            node, what = await self._to_do.get()
            try:
                if what == "back":
                    if not node.out:
                        await self._registration.report_ready(node)
                        self._kubelets.back(node)
                    node.contradicts = False
                elif what == "drain":
                    await self._drain(node)
                else:
                    await self._patch(node, {"metadata": {"annotations": msgspec.json.decode(what)}})
            except TransportError as error:
                _log.info("a request about a node is tried again", node=node.name, error=str(error))
                self._again(node, what)

    # Watch events.

    def seen(self, one: Node) -> None:
        """Handle a node as the API server stores it."""
        node = self._nodes.get(one.metadata.name)
        if node is None:
            return
        node.uid = one.metadata.uid
        node.created = epoch(one.metadata.creation_timestamp) or self._clock.now()
        node.labels, node.taints = one.metadata.labels, one.spec.taints
        node.runtime = one.metadata.annotations.get(names.RUNTIME, "")
        node.cordoned = one.spec.unschedulable
        timed = without_now(one.metadata.annotations, self._clock.now())
        if timed:  # time ends the outage
            self._to_do.put_nowait((node, msgspec.json.encode(timed).decode()))
            return
        expected = self._outlook(node, one)
        if expected != node.outlook:
            node.outlook = expected
            self._look(node)
        ready = next((each.status for each in one.status.conditions if each.type == "Ready"), "")
        if ready == "True":
            node.contradicts = False
        elif not node.out and not node.contradicts:  # another client marked it as not ready
            node.contradicts = True
            self._to_do.put_nowait((node, "back"))

    def gone(self, uid: str) -> None:
        """Handle a deleted node; like a running kubelet, it does not register again."""

    def listed(self, uids: frozenset[str]) -> None:  # noqa: ARG002 - nodes that are gone stay as they were
        """Record that all nodes have been listed."""
        self.known.set()

    def _outlook(self, node: HollowNode, one: Node) -> NodeFailures:
        try:
            return parse_failures(one.metadata.annotations, node.created)
        except ChaosError as error:
            self._registration.record(node, "Warning", "InvalidAnnotation", str(error))
            return NO_FAILURES

    # Timers.

    def _look(self, node: HollowNode) -> None:
        """Set a node's state to that of its failure plan, and schedule the next change."""
        now = self._clock.now()
        out = node.outlook.out(now)
        if out and not node.out:
            node.out = True
            for later in NOTICED:
                self._timers.at(now + later, _notice)
        elif node.out and not out:
            node.out, node.contradicts = False, True
            self._to_do.put_nowait((node, "back"))
        if node.outlook.drain_at <= now and node.drained != node.outlook.drain_at:
            node.drained = node.outlook.drain_at
            self._to_do.put_nowait((node, "drain"))
        due = node.outlook.next_change(now)
        if due != math.inf and due != node.outlook_due:
            node.outlook_due = due
            self._timers.at(due, partial(self._look, node))

    # Work that sends requests.

    def _again(self, node: HollowNode, what: str) -> None:
        self._patient_timers.at(self._clock.now() + _RETRY, partial(self._to_do.put_nowait, (node, what)))

    async def _drain(self, node: HollowNode) -> None:
        """Cordon the node and evict its pods; an eviction that a budget refuses is retried."""
        if node.outlook.drain_at == math.inf:  # it was cancelled
            return
        if not node.cordoned:
            await self._patch(node, {"spec": {"unschedulable": True}})
        left = False
        for entry in list(self._kubelets.entries.values()):
            if entry.node is node and entry.run is not None and not entry.run.finished and not entry.deleting:
                left = not await self._evict(entry.pod) or left
        if left:
            self._again(node, "drain")

    async def _evict(self, pod: Pod) -> bool:
        """Request an eviction; returns whether it needs no retry."""
        meta = pod.metadata
        if any(owner.kind == "DaemonSet" for owner in meta.owner_references):
            return True
        body: Manifest = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "deleteOptions": {"preconditions": {"uid": meta.uid}},
        }
        path = POD.path(meta.namespace, meta.name, "eviction")
        response = await self._transport.request("POST", path, body=msgspec.json.encode(body))
        return response.ok or response.status in (404, 409)

    async def _patch(self, node: HollowNode, change: Manifest) -> None:
        body = msgspec.json.encode(change)
        path = NODE.path(name=node.name)
        response = await self._transport.request("PATCH", path, body=body, content_type=ContentType.MERGE_PATCH)
        if not response.ok and response.status != 404:
            msg = f"PATCH {path}: HTTP {response.status}"
            raise TransportError(msg)


def _notice() -> None:
    """Do nothing; called when others may observe that a node is silent."""
