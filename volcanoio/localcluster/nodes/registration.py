"""Registration of nodes, their status reports and Lease renewals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import anyio
import msgspec
import structlog

import volcanoio
from volcanoio.kube.transport import ContentType, Response, Transport, TransportError
from volcanoio.localcluster.clock import Clock
from volcanoio.localcluster.nodes.addresses import host_address
from volcanoio.localcluster.nodes.hollow import HollowNode, NodeShape
from volcanoio.localcluster.nodes.pod_events import KubeletEvents, PodEvent
from volcanoio.model import names
from volcanoio.model.base import ApiObject, Manifest, Model
from volcanoio.model.kinds import LEASE, NODE
from volcanoio.model.times import rfc3339

_log = structlog.get_logger(__name__)
LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
LOCAL = "true"
"""The fleet of a local cluster."""
RENEW_EVERY, RENEW_LONGEST = 10.0, 30.0
"""Seconds between renewals of a node's Lease: a kubelet's, and the most when the cluster's time runs fast or skips. A
Lease lasts 40 s, and after 50 s a node is taken to be lost."""
REPORT_EVERY = 300.0
"""Seconds between two heartbeats in a node's status."""
_RENEWALS_A_SECOND, _TURNS = 500.0, 50
"""Renewals in a second of the machine's from which on they become rarer; turns in which one round of them is made."""
_RETRY = 0.5
_AT_ONCE = 16
_DELETE: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions"}


class _NodeList(Model):
    items: tuple[ApiObject, ...] = ()


def conditions(now: float) -> list[Manifest]:
    """Return the conditions of a healthy node (Kubernetes: `pkg/kubelet/nodestatus/setters.go`)."""
    moment = rfc3339(now)
    return [
        {
            "type": kind, "status": status, "reason": reason, "message": f"kubelet {message}",
            "lastHeartbeatTime": moment, "lastTransitionTime": moment,
        }
        for kind, status, reason, message in (
            ("MemoryPressure", "False", "KubeletHasSufficientMemory", "has sufficient memory available"),
            ("DiskPressure", "False", "KubeletHasNoDiskPressure", "has no disk pressure"),
            ("PIDPressure", "False", "KubeletHasSufficientPID", "has sufficient PID available"),
            ("Ready", "True", "KubeletReady", "is posting ready status"),
        )
    ]  # fmt: skip


def node_manifest(shape: NodeShape, index: int, now: float, fleet: str = LOCAL) -> Manifest:
    """Return the Node object of a shape, with condition Ready.

    Its labels and annotation are those of kwok's nodes, and ours.
    """
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": shape.name,
            "labels": {
                "kubernetes.io/hostname": shape.name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "type": "kwok",
                names.SIM_NODE: fleet,
                **shape.labels,
            },
            "annotations": {"kwok.x-k8s.io/node": "fake", **shape.annotations},
        },
        "status": {
            "capacity": dict(shape.resources),
            "allocatable": dict(shape.resources),
            "conditions": conditions(now),
            "addresses": [
                {"type": "InternalIP", "address": host_address(index)},
                {"type": "Hostname", "address": shape.name},
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "osImage": "simulated",
                "kernelVersion": "simulated",
                "containerRuntimeVersion": "simulated://0",
                "kubeletVersion": f"v1.32.0+volcanoio-{volcanoio.__version__}",
                "kubeProxyVersion": "",
                "bootID": "",
                "machineID": "",
                "systemUUID": "",
            },
        },
    }


class Registration:
    """Registration of a fleet's nodes: it registers nodes, removes those it no longer has, and renews Leases."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        nodes: Mapping[str, HollowNode],
        events: KubeletEvents | None,
        fleet: str = LOCAL,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._nodes = nodes
        self._shapes = [node.shape for node in nodes.values()]
        self._events = events
        self._fleet = fleet

    async def register(self) -> tuple[bool, frozenset[str]]:
        """Create or refresh all nodes, waiting for the server if necessary.

        Returns whether any was there already, and the names of simulated nodes that were removed because this fleet
        does not have them.
        """
        existed: list[bool] = []
        limiter = anyio.CapacityLimiter(_AT_ONCE)

        async def one(shape: NodeShape, index: int) -> None:
            async with limiter:
                existed.append(await self._register(shape, index))

        async with anyio.create_task_group() as tasks:
            for index, shape in enumerate(self._shapes):
                tasks.start_soon(one, shape, index)
        return any(existed), await self._remove_others()

    async def _register(self, shape: NodeShape, index: int) -> bool:
        manifest = node_manifest(shape, index, self._clock.now(), self._fleet)
        path = NODE.path(name=shape.name)
        created = (await self._insist("POST", NODE.path(), manifest)).status == 201
        if not created:
            await self._insist("PATCH", path, {"metadata": manifest["metadata"]})
        await self._insist("PATCH", f"{path}/status", {"status": manifest["status"]})
        await self._insist("POST", LEASE.path(LEASE_NAMESPACE), self._lease(shape.name))
        return not created

    def _lease(self, name: str) -> Manifest:
        spec: dict[str, Any] = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, **self._renewal()}
        metadata = {"name": name, "namespace": LEASE_NAMESPACE}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}

    def _renewal(self) -> dict[str, str]:
        moment = datetime.fromtimestamp(self._clock.now(), UTC)
        return {"renewTime": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}

    async def _insist(
        self, method: str, path: str, body: Manifest | None = None, query: Mapping[str, str] | None = None
    ) -> Response:
        """Send the request until there is a definite answer."""
        content_type = ContentType.MERGE_PATCH if method == "PATCH" else ContentType.JSON
        data = b"" if body is None else msgspec.json.encode(body)
        while True:
            try:
                response = await self._transport.request(
                    method, path, query=query, body=data, content_type=content_type
                )
            except TransportError as error:
                _log.info("waiting for the API server", error=str(error))
            else:
                if response.status < 500 and response.status != 429:
                    if not response.ok and response.status not in (404, 409):
                        _log.error("refused", method=method, path=path, code=response.status, body=response.body[:300])
                    return response
            await self._clock.sleep(_RETRY)

    async def _remove_others(self) -> frozenset[str]:
        ours = {shape.name for shape in self._shapes}
        response = await self._insist("GET", NODE.path(), query={"labelSelector": f"{names.SIM_NODE}={self._fleet}"})
        if not response.ok:
            return frozenset()
        listed = msgspec.json.decode(response.body, type=_NodeList).items
        others = frozenset(node.metadata.name for node in listed) - ours
        for name in sorted(others):
            await self._insist("DELETE", NODE.path(name=name), _DELETE)
            await self._insist("DELETE", LEASE.path(LEASE_NAMESPACE, name), _DELETE)
        return others

    async def keep_alive(self) -> None:
        """Renew all Leases until cancelled, with the writes spread over the interval.

        Nodes that are out are left out. Status heartbeats come every five minutes, as a kubelet's do.
        """
        paced = max(RENEW_EVERY, len(self._nodes) * self._clock.rate / _RENEWALS_A_SECOND)
        interval = RENEW_LONGEST if self._clock.skips else min(RENEW_LONGEST, paced)
        turn = interval / max(1, min(len(self._nodes), _TURNS))
        began = self._clock.now()
        due = {name: began + interval * (index + 1) / len(self._nodes) for index, name in enumerate(self._nodes)}
        reported = dict.fromkeys(self._nodes, began)
        while True:
            await self._clock.beat(turn)
            now = self._clock.now()
            wanted = [node for name, node in self._nodes.items() if due[name] <= now and not node.out]
            for node in wanted:
                due[node.name] = now + interval
            await self._together(self._renew, wanted)
            stale = [node for node in wanted if reported[node.name] + REPORT_EVERY <= now]
            for node in stale:
                reported[node.name] = now
            await self._together(self._heartbeat, stale)

    async def _together(self, send: Callable[[HollowNode], Awaitable[None]], nodes: Sequence[HollowNode]) -> None:
        if len(nodes) == 1:
            await send(nodes[0])
        elif nodes:
            limiter = anyio.CapacityLimiter(_AT_ONCE)

            async def one(node: HollowNode) -> None:
                async with limiter:
                    await send(node)

            async with anyio.create_task_group() as tasks:
                for node in nodes:
                    tasks.start_soon(one, node)

    async def report_ready(self, node: HollowNode) -> None:
        """Report a node that is back: its Lease, then its conditions. Raises TransportError."""
        await self._renew(node)
        await self._report(node, conditions(self._clock.now()))
        self.record(node, "Normal", "NodeReady", f"Node {node.name} status is now: NodeReady")

    async def _heartbeat(self, node: HollowNode) -> None:
        beats = [
            {"type": each["type"], "lastHeartbeatTime": each["lastHeartbeatTime"]}
            for each in conditions(self._clock.now())
        ]
        with suppress(TransportError):  # the next attempt follows soon enough
            await self._report(node, beats)

    async def _report(self, node: HollowNode, conditions: list[Manifest]) -> None:
        body = msgspec.json.encode({"status": {"conditions": conditions}})
        path = f"{NODE.path(name=node.name)}/status"
        await self._transport.request("PATCH", path, body=body, content_type=ContentType.STRATEGIC_MERGE_PATCH)

    def record(self, node: HollowNode, type_: str, reason: str, message: str) -> None:
        """Write an Event about a node."""
        if self._events is not None:
            self._events.record_node(node.name, node.uid or node.name, PodEvent(type_, reason, message))

    async def _renew(self, node: HollowNode) -> None:
        body = msgspec.json.encode({"spec": self._renewal()})
        path = LEASE.path(LEASE_NAMESPACE, node.name)
        try:
            response = await self._transport.request("PATCH", path, body=body, content_type=ContentType.MERGE_PATCH)
        except TransportError:
            return  # the next renewal comes soon enough
        if response.status == 404:
            await self._insist("POST", LEASE.path(LEASE_NAMESPACE), self._lease(node.name))
